#!/usr/bin/env python3
"""The tables and the picture of bench/gpu: accuracy against storage bytes and time, a row a recipe.

    bench/gpu/table.py [results.jsonl …] [--svg reuse.svg]
    bench/gpu/table.py piece1.jsonl piece2.jsonl --merge results.jsonl

*less* is what a recipe loses to `minio` (plain training) in the same seeds, with a 95 % interval of Student's t
over the paired differences: with two seeds it spans points, with five tenths. *minutes* are those of a run where
storage gives a quarter of what the GPU takes, computed from the bytes of each epoch.

What `minio` learns does not depend on the cache, so for other sizes it is not run again: its bytes are computed.
"""
import argparse
import json
import math
import os
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from run import CORE, CORE_SETS, KEY, key  # noqa: E402
from run_lines import read_runs  # noqa: E402

TITLES = {"cifar10": "CIFAR-10", "cifar10-noisy": "CIFAR-10, 40 % of the labels random",
          "cifar10-long": "CIFAR-10, class sizes falling 100:1", "tiny": "Tiny ImageNet-200"}
T95 = [float("inf"), 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26]
# Of the picture, where all of its sets have them.
COLOURS = {"minio": "#444", "rotate:h=0.5": "#1a7f37", "rotate:h=0.8": "#0550ae", "echo:factor=4": "#e08b1a",
           "echo:factor=5": "#cf222e"}


def merge(runs, path):
    """One line a run, with as much of each epoch as tables need."""
    keep = ("served", "storage_bytes", "accuracy", "seconds", "stall_seconds", "fresh_loss", "reused_loss")
    with open(path, "w") as f:
        for r in sorted(runs, key=lambda r: tuple(map(str, key(r)))):
            curve = [{k: round(e[k], 4) for k in keep if e.get(k) is not None} for e in r["curve"]]
            f.write(json.dumps(dict(r, curve=curve)) + "\n")


def mean(runs, name):
    return statistics.mean(r[name] for r in runs)


def half(values):
    """Half of a 95 % interval of the mean."""
    n = len(values)
    return T95[min(n, len(T95)) - 1] * statistics.stdev(values) / math.sqrt(n) if n > 1 else float("inf")


def paired(mine, base):
    by = {r["seed"]: r["accuracy"] for r in base}
    return [100 * (by[r["seed"]] - r["accuracy"]) for r in mine if r["seed"] in by]


def gaps(run):
    """Of the epochs that have one."""
    return [e["fresh_loss"] - e["reused_loss"] for e in run["curve"]
            if e.get("fresh_loss") is not None and e.get("reused_loss") is not None]


def gap(runs):
    """Of the last quarter of the epochs."""
    all_ = [g for r in runs for g in gaps(r)[-(len(r["curve"]) // 4):]]
    return f"{statistics.mean(all_):.3f}" if all_ else ""


def times(run, rate, eats):
    """Minutes after each epoch: the slower of storage and GPU, as a loader that reads ahead would have it."""
    total, out = 0., []
    for e in run["curve"]:
        total += max(e["served"] / eats, e["storage_bytes"] / rate) / 60
        out.append(total)
    return out


def same(run):
    """All that two runs must share to stand in one table."""
    return tuple(run.get(k, KEY[k]) for k in KEY if k not in ("recipe", "seed", "epochs"))


def name(run):
    return run["recipe"] + (f", {run['epochs']} epochs" if run["epochs"] != KEY["epochs"] else "")


def with_cache(run, cache):
    """A run of minio with another cache: from the second epoch on all is read but what is in it."""
    whole = run["curve"][0]["storage_bytes"]
    rest = round(whole * (1 - float(cache.rstrip("%")) / 100))
    curve = [dict(e, storage_bytes=rest if i else whole) for i, e in enumerate(run["curve"])]
    return dict(run, cache=cache, curve=curve, storage_bytes=sum(e["storage_bytes"] for e in curve))


def plain(runs, like):
    """What the runs of a table are compared with."""
    at = dict(zip([k for k in KEY if k not in ("recipe", "seed", "epochs")], like))
    out = [r for r in runs if name(r) == "minio" and same(r) == like]
    return out or [with_cache(r, at["cache"]) for r in runs
                   if name(r) == "minio" and same(dict(r, cache=at["cache"])) == like and r["cache"] == KEY["cache"]]


def table(runs, base, eats):
    rate = eats * mean(base, "storage_bytes") / mean(base, "served") / 4
    print("| recipe | seeds | top-1 % | less | read MB | fewer | repeats % | gap | minutes |")
    print("|---|---|---|---|---|---|---|---|---|")
    by = {}
    for r in runs + [b for b in base if b not in runs]:
        by.setdefault(name(r), []).append(r)
    for recipe, g in sorted(by.items(), key=lambda i: -mean(i[1], "storage_bytes")):
        lost = paired(g, base)
        less = ""
        if recipe != "minio" and lost:
            less = f"{statistics.mean(lost):+.2f}" + (f" ± {half(lost):.2f}" if len(lost) > 1 else "")
        print(f"| {recipe} | {len(g)} | {100 * mean(g, 'accuracy'):.2f} | {less} | "
              f"{mean(g, 'storage_bytes') / 1e6:.0f} | "
              f"{mean(base, 'storage_bytes') / mean(g, 'storage_bytes'):.2f}x | "
              f"{100 * mean(g, 'repeats') / mean(g, 'served'):.1f} | {gap(g)} | "
              f"{statistics.mean(times(r, rate, eats)[-1] for r in g):.2f} |")


def describe(run):
    return (f"{TITLES[run.get('set', 'cifar10')]}, {run.get('net', 'resnet18')}, {run.get('optimizer', 'sgd')}, "
            f"{KEY['epochs']} epochs, batches of {run['batch']}, cache {run['cache']}"
            + (f", {run['slow']}" if run["slow"] else ""))


def print_gaps(runs):
    """Points lost beside the gap as a share of the first loss, a line a recipe and set, the seeds in order. A run
    that did not note its first loss takes that of the others of its set."""
    print("\n| set | recipe | highest gap of an epoch / first loss | last quarter | points lost, by seed |")
    print("|---|---|---|---|---|")
    lines = []
    for s in CORE_SETS:
        mine = [r for r in runs if r.get("set") == s]
        first = statistics.mean([r["first_loss"] for r in mine if "first_loss" in r] or [math.nan])
        for recipe in sorted({name(r) for r in mine if gaps(r)}):
            g = sorted((r for r in mine if name(r) == recipe), key=lambda r: r["seed"])
            top = [max(gaps(r)) / r.get("first_loss", first) for r in g if gaps(r)]
            end = [statistics.mean(gaps(r)[-(len(r["curve"]) // 4):]) / r.get("first_loss", first) for r in g if gaps(r)]
            lost = " ".join(f"{x:+.2f}" for x in paired(g, plain(runs, same(g[0]))))
            lines.append((CORE_SETS.index(s), max(top), f"| {TITLES[s]} | {recipe} | {statistics.mean(top):.3f} | "
                          f"{statistics.mean(end):.3f} | {lost} |"))
    for line in sorted(lines):
        print(line[2])


# ---- the picture ---------------------------------------------------------------------------------

def ticks(low, high, count=5):
    step = 10 ** math.floor(math.log10((high - low) / count))
    step *= next(m for m in (1, 2, 5, 10) if (high - low) / (step * m) <= count)
    first = math.ceil(low / step)
    return [i * step for i in range(first, int(high / step + 1e-9) + 1)]


class Panel:
    def __init__(self, left, top, width, height, xs, ys):
        self.box = left, top, width, height
        self.x0, self.x1, self.y0, self.y1 = xs + ys

    def at(self, x, y):
        left, top, width, height = self.box
        return (left + width * (x - self.x0) / (self.x1 - self.x0),
                top + height * (self.y1 - y) / (self.y1 - self.y0))

    def frame(self, title, xlabel, ylabel):
        left, top, width, height = self.box
        out = [f'<text x="{left}" y="{top - 10}" font-size="15" font-weight="bold">{title}</text>',
               f'<text x="{left + width / 2}" y="{top + height + 38}" text-anchor="middle">{xlabel}</text>']
        if ylabel:
            out.append(f'<text transform="translate({left - 42} {top + height / 2}) rotate(-90)" '
                       f'text-anchor="middle">{ylabel}</text>')
        for v in ticks(self.y0, self.y1):
            y = self.at(self.x0, v)[1]
            out.append(f'<path d="M{left} {y:.1f}h{width}" stroke="#e5e5e5"/><text x="{left - 6}" y="{y + 4:.1f}" '
                       f'text-anchor="end">{v:g}</text>')
        for v in ticks(self.x0, self.x1):
            x = self.at(v, self.y0)[0]
            out.append(f'<path d="M{x:.1f} {top + height}v5" stroke="#888"/><text x="{x:.1f}" y="{top + height + 19}" '
                       f'text-anchor="middle">{v:g}</text>')
        out.append(f'<path d="M{left} {top}v{height}h{width}" fill="none" stroke="#888"/>')
        return out


def size(recipe, usual):
    """Of a point: rotate's shows behind one that lies on it."""
    return usual + 3 * recipe.startswith("rotate")


def by_bytes(panel, by):
    out = []
    for recipe, g in by.items():
        colour = COLOURS.get(recipe, "#888")
        acc = [100 * r["accuracy"] for r in g]
        x, y = panel.at(mean(g, "storage_bytes") / 1e9, statistics.mean(acc))
        spread = statistics.stdev(acc) if len(acc) > 1 else 0
        up, down = panel.at(panel.x0, statistics.mean(acc) + spread)[1], panel.at(panel.x0, statistics.mean(acc) - spread)[1]
        out.append(f'<path d="M{x:.1f} {up:.1f}V{down:.1f}M{x - 5:.1f} {up:.1f}h10M{x - 5:.1f} {down:.1f}h10" '
                   f'stroke="{colour}" stroke-width="1.5"/><circle cx="{x:.1f}" cy="{y:.1f}" r="{size(recipe, 5)}" fill="{colour}"/>')
    return out


def by_time(panel, by, rate, eats):
    out = []
    for recipe, g in by.items():
        colour = COLOURS.get(recipe, "#888")
        tested = [i for i, e in enumerate(g[0]["curve"]) if all("accuracy" in r["curve"][i] for r in g)]
        x = [statistics.mean(t) for t in zip(*(times(r, rate, eats) for r in g))]
        y = {i: 100 * statistics.mean(r["curve"][i]["accuracy"] for r in g) for i in tested}
        points = [panel.at(x[i], y[i]) for i in tested if y[i] >= panel.y0]
        out.append('<path d="M' + "L".join(f"{a:.1f} {b:.1f}" for a, b in points)
                   + f'" fill="none" stroke="{colour}" stroke-width="2"/>'
                   f'<circle cx="{points[-1][0]:.1f}" cy="{points[-1][1]:.1f}" r="{size(recipe, 4)}" fill="{colour}"/>')
    return out


def picture(groups, eats, path):
    """Above accuracy at the end against bytes read, bars of one standard deviation; below it accuracy as it
    grows, against time."""
    wide, high, left, top, gap_x, gap_y = 300, 220, 70, 90, 80, 100
    full = left + len(groups) * (wide + gap_x)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {full} {top + 2 * high + gap_y + 60}" '
           'font-family="sans-serif" font-size="13">', '<rect width="100%" height="100%" fill="white"/>']
    x = left
    for recipe in [r for r in COLOURS if any(r in by for by in groups.values())]:
        out.append(f'<circle cx="{x + 6}" cy="26" r="6" fill="{COLOURS[recipe]}"/>'
                   f'<text x="{x + 18}" y="31" font-size="15">{recipe}</text>')
        x += 40 + 9 * len(recipe)
    seeds = {len(g) for by in groups.values() for g in by.values()}
    out.append(f'<text x="{x}" y="31" fill="#555">{"-".join(map(str, sorted({min(seeds), max(seeds)})))} seeds, '
               'bars of one standard deviation</text>')
    for i, (name, by) in enumerate(groups.items()):
        at = left + i * (wide + gap_x)
        rate = eats[name] * mean(by["minio"], "storage_bytes") / mean(by["minio"], "served") / 4
        ends = [100 * r["accuracy"] for g in by.values() for r in g]
        room = max(.5, .15 * (max(ends) - min(ends)))
        p = Panel(at, top, wide, high, (0, 1.08 * max(mean(g, "storage_bytes") for g in by.values()) / 1e9),
                  (min(ends) - room, max(ends) + room))
        out += p.frame(TITLES[name], "GB read from storage", "" if i else "accuracy at the end, %") + by_bytes(p, by)
        slow = max(statistics.mean(times(r, rate, eats[name])[-1] for r in g) for g in by.values())
        p = Panel(at, top + high + gap_y, wide, high, (0, 1.05 * slow), (min(ends) * .6, max(ends) + room))
        out += p.frame("", "minutes, storage at a quarter of the GPU's speed", "" if i else "accuracy, %")
        out += by_time(p, by, rate, eats[name])
    with open(path, "w") as f:
        f.write("\n".join(out) + "\n</svg>\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("results", nargs="*", default=[os.path.join(HERE, "results", "reuse.jsonl")])
    p.add_argument("--svg", metavar="FILE", help="the picture of the core sets")
    p.add_argument("--gaps", action="store_true", help="a table of gaps and points lost, and end")
    p.add_argument("--merge", metavar="FILE", help="write all runs into one file, and end")
    p.add_argument("--eats", type=float, default=60000,
                   help="samples the GPU takes a second (bench/gpu/steps.py)")
    a = p.parse_args()
    runs = list(read_runs(a.results, key).values())
    if not runs:
        p.error(f"no runs in {', '.join(a.results)}")
    if a.merge:
        merge(runs, a.merge)
        return
    usual = [r for r in runs if same(r)[1:] == tuple(KEY[k] for k in ("cache", "batch", "net", "optimizer", "slow"))
             and r["epochs"] == KEY["epochs"]]
    if a.gaps:
        print_gaps(usual)
        return
    alike = {}
    for r in runs:
        alike.setdefault(same(r), []).append(r)
    for like, g in alike.items():
        base = plain(runs, like)
        if base:
            print(f"\n{describe(g[0])}:\n")
            table(g, base, a.eats)
        else:
            print(f"\n{describe(g[0])}: no minio to compare with, {len(g)} runs")
    missing = [f"{s} {r}: {5 - n} of 5 seeds" for s in CORE_SETS for r in CORE
               for n in [len({x["seed"] for x in usual if x.get("set") == s and x["recipe"] == r})] if n < 5]
    if missing:
        print("\nMissing of the core: " + "; ".join(missing) + ".")
    if a.svg:
        groups = {}
        for s in CORE_SETS:
            mine = [r for r in usual if r.get("set") == s and r["recipe"] in COLOURS]
            if any(r["recipe"] == "minio" for r in mine):
                groups[s] = {c: [r for r in mine if r["recipe"] == c] for c in COLOURS
                             if any(r["recipe"] == c for r in mine)}
        every = [c for c in COLOURS if all(c in by for by in groups.values())]
        groups = {s: {c: by[c] for c in every} for s, by in groups.items()}
        picture(groups, {s: a.eats for s in groups}, a.svg)


if __name__ == "__main__":
    main()
