#!/usr/bin/env python3
"""The table and the picture of bench/gpu: accuracy against storage bytes, a point a recipe.

    bench/gpu/table.py runs.jsonl [more.jsonl …] [--larder build/larder] [--svg pareto.svg]
    bench/gpu/table.py piece1.jsonl piece2.jsonl --merge runs.jsonl

Recipes that serve each sample once an epoch (lru, quiver, seneca) share the accuracy of `minio`'s runs:
`lru` has the same batches, the others the same samples in another random order. Their figures come from
`larder sim` with the same seed, which is the loader's own deciding half (docs/guide/path.md).
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from run_lines import read_runs  # noqa: E402
REPLAYED = ["lru", "quiver", "seneca"]
SAMPLES, SAMPLE_BYTES = 50000, 3072
COUNTS = ("served", "hits", "substitutes", "repeats", "misses", "background_reads",
          "storage_bytes")


def key(r):
    return r["recipe"], r["seed"], r["slow"], r["cache"], r["epochs"]


def replay(larder, recipe, run):
    out = subprocess.run([larder, "sim", "--recipe", recipe, "--n", str(SAMPLES), "--epochs",
                          str(run["epochs"]), "--batch", str(run["batch"]), "--cache", run["cache"],
                          "--seed", str(run["seed"]), "--size", str(SAMPLE_BYTES), "--json",
                          "--quiet"], capture_output=True, text=True, check=True).stdout
    every = json.loads(out.splitlines()[-1])
    sim = every["total"]
    return dict(run, recipe=recipe, curve=every["epochs"], touched=sim["touched"],
                **{k: sim[k] for k in COUNTS})


def merge(runs, path):
    """One line a run, with as much of each epoch as tables need."""
    keep = ("served", "storage_bytes", "accuracy", "seconds", "stall_seconds")
    with open(path, "w") as f:
        for r in sorted(runs, key=lambda r: (r["slow"], r["recipe"], r["seed"])):
            curve = [{k: round(e[k], 4) for k in keep} for e in r["curve"]]
            f.write(json.dumps(dict(r, curve=curve)) + "\n")


def groups(runs):
    out = {}
    for r in runs:
        out.setdefault(r["recipe"], []).append(r)
    return out


def mean(runs, name):
    return statistics.mean(r[name] for r in runs)


def spread(runs, name):
    return statistics.stdev([r[name] for r in runs]) if len(runs) > 1 else float("nan")


def minutes_at(runs, rate, eats):
    """The run where storage gives `rate` bytes a second and the GPU takes `eats` samples: in each
    epoch the slower of the two, as a loader that reads ahead without stalls would have it."""
    return sum(max(e["served"] / eats, e["storage_bytes"] / rate)
               for r in runs for e in r["curve"]) / len(runs) / 60


def table(by, base, rate, eats):
    print("| recipe | seeds | top-1 % | sd | top-5 % | read MB | vs minio | hits % | subst % | "
          "repeats % | touched % | minutes |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for recipe, g in by.items():
        served = mean(g, "served")
        print(f"| {recipe} | {len(g)} | {100 * mean(g, 'accuracy'):.2f} | "
              f"{100 * spread(g, 'accuracy'):.2f} | {100 * mean(g, 'top5'):.2f} | "
              f"{mean(g, 'storage_bytes') / 1e6:.0f} | "
              f"{base / mean(g, 'storage_bytes'):.2f}x | "
              + " | ".join(f"{100 * mean(g, k) / served:.1f}" for k in COUNTS[1:4])
              + f" | {100 * mean(g, 'touched'):.1f} | {minutes_at(g, rate, eats):.2f} |")


def times(slow, eats):
    """Stalled: the part of an epoch in which the GPU had nothing to do. What the loop itself waited
    says less, since steps are queued ahead of the GPU."""
    print("\n| storage | recipe | runs | epoch s | stalled % | read MB an epoch |")
    print("|---|---|---|---|---|---|")
    for (speed, recipe), g in sorted(slow.items()):
        later = [e for r in g for e in r["curve"][1:] or r["curve"]]
        stall = 1 - mean(later, "served") / eats / mean(later, "seconds")
        print(f"| {speed} | {recipe} | {len(g)} | {mean(later, 'seconds'):.2f} | "
              f"{100 * stall:.1f} | {mean(later, 'storage_bytes') / 1e6:.0f} |")


def pareto(by, path):
    left, top, width, height = 64, 20, 640, 400
    points = [(mean(g, "storage_bytes") / 1e6, 100 * mean(g, "accuracy"),
               100 * spread(g, "accuracy"), recipe) for recipe, g in by.items()]
    x0, x1 = min(p[0] for p in points) / 1.2, max(p[0] for p in points) * 1.3
    y0 = math.floor(2 * min(p[1] - (p[2] if p[2] == p[2] else 0) for p in points)) / 2
    y1 = math.ceil(2 * max(p[1] + (p[2] if p[2] == p[2] else 0) for p in points)) / 2

    def at(x, y):
        return (left + width * math.log(x / x0) / math.log(x1 / x0),
                top + height * (y1 - y) / (y1 - y0))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 20} '
           f'{top + height + 50}" font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>']
    for i in range(int((y1 - y0) * 2) + 1):
        y = at(x0, y0 + i / 2)[1]
        out.append(f'<path d="M{left} {y:.1f}h{width}" stroke="#ddd"/><text x="{left - 6}" '
                   f'y="{y + 4:.1f}" text-anchor="end">{y0 + i / 2:g}</text>')
    for x in (100, 200, 500, 1000, 2000, 5000):
        if x0 < x < x1:
            px = at(x, y0)[0]
            out.append(f'<path d="M{px:.1f} {top}v{height}" stroke="#ddd"/><text x="{px:.1f}" '
                       f'y="{top + height + 16}" text-anchor="middle">{x:g}</text>')
    for x, y, sd, recipe in sorted(points):
        px, py = at(x, y)
        colour = "#c0392b" if recipe.startswith("rotate") else "#2c3e50"
        if sd == sd:
            out.append(f'<path d="M{px:.1f} {at(x, y - sd)[1]:.1f}V{at(x, y + sd)[1]:.1f}" '
                       f'stroke="{colour}"/>')
        out.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="4" fill="{colour}"/><text '
                   f'x="{px + 6:.1f}" y="{py - 5:.1f}" fill="{colour}">{recipe}</text>')
    out.append(f'<text x="{left + width / 2}" y="{top + height + 38}" text-anchor="middle">storage '
               f'bytes of the run, MB</text><text transform="translate(16 {top + height / 2}) '
               'rotate(-90)" text-anchor="middle">test accuracy, %</text></svg>')
    with open(path, "w") as f:
        f.write("\n".join(out) + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("results", nargs="+")
    p.add_argument("--larder", default=os.path.join(HERE, "..", "..", "build", "larder"))
    p.add_argument("--svg", help="the picture")
    p.add_argument("--merge", metavar="FILE", help="write all runs into one file, and end")
    p.add_argument("--rate", type=float, default=31 * 2 ** 20, help="bytes a second, for minutes")
    p.add_argument("--eats", type=float, default=50000 / 1.182,
                   help="samples the GPU takes a second (bench/gpu/steps.py)")
    a = p.parse_args()
    runs = list(read_runs(a.results, key).values())
    if not runs:
        p.error(f"no runs in {', '.join(a.results)}")
    if a.merge:
        merge(runs, a.merge)
        return
    fast = [r for r in runs if not r["slow"]]
    for run in [r for r in fast if r["recipe"] == "minio"]:
        fast += [replay(a.larder, recipe, run) for recipe in REPLAYED]
    length = max(r["epochs"] for r in fast)
    # A whole run at a storage speed stands beside the others: what h=auto makes of that speed.
    fast += [dict(r, recipe=f"{r['recipe']}, {r['slow']}") for r in runs
             if r["slow"] and r["epochs"] == length]
    by = groups(fast)
    base = mean(by["minio"], "storage_bytes")
    by = dict(sorted(by.items(), key=lambda item: -mean(item[1], "storage_bytes")))
    table(by, base, a.rate, a.eats)
    slow = {}
    for r in runs:
        if r["slow"]:
            slow.setdefault((r["slow"], r["recipe"]), []).append(r)
    if slow:
        times(slow, a.eats)
    if a.svg:
        pareto(by, a.svg)


if __name__ == "__main__":
    main()
