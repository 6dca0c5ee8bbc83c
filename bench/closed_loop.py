#!/usr/bin/env python3
"""Every recipe in the closed loop: real training through larder, several seeds, one table.

Runs `larder train --json` for every recipe, cache size and seed, as many at a time as there are cores,
and keeps each result in a file of lines, so that an interrupted table goes on where it stopped:

    bench/closed_loop.py --recipes minio,shade:repeat=3,rotate:h=0.8 --caches 20% --seeds 5

The table has accuracy as mean and standard deviation over the seeds, storage bytes and hit kinds as
means, and bytes as a ratio to `minio` at the same cache size. --markdown writes it for docs. --times
adds how long batches took to fill and were waited for, --scratch what went through a scratch folder
and the evaluator, --target when an accuracy was first reached.
"""
import argparse
import concurrent.futures
import json
import os
import statistics
import subprocess
import sys
import threading

from run_lines import add_run, read_runs

HERE = os.path.dirname(os.path.abspath(__file__))


def split_recipes(text):
    """'a,b:x=1,y=2' is a and b:x=1,y=2, as larder sim reads it."""
    out = []
    for piece in text.split(","):
        if out and "=" in piece and (":" not in piece or piece.index(":") > piece.index("=")):
            out[-1] += "," + piece
        else:
            out.append(piece)
    return out


def key_of(run):
    return (run["recipe"], run["cache"], run["seed"], run["epochs"], run["net"], run["data"],
            run["slow"], run.get("augment", ""), run.get("threads", 1))


def train(larder, run):
    # `none` is a loader without a cache, whatever size the others have.
    recipe, cache = ("lru", "0") if run["recipe"] == "none" else (run["recipe"], run["cache"])
    cmd = [larder, "train", run["data"], "--recipe", recipe, "--cache", cache, "--epochs",
           str(run["epochs"]), "--seed", str(run["seed"]), "--net", run["net"], "--json",
           "--threads", str(run["threads"])]
    if run["slow"]:
        cmd += ["--slow", run["slow"]]
    if run["augment"]:
        cmd += ["--augment", run["augment"]]
    p = subprocess.run(cmd, capture_output=True, text=True)
    if p.returncode:
        return None, f"{' '.join(cmd)}: {p.stderr.strip()}"
    epochs = [json.loads(line) for line in p.stdout.splitlines()]
    last, out = epochs[-1], dict(run)
    for name in ("served", "hits", "substitutes", "repeats", "misses", "background_reads",
                 "storage_bytes", "seconds", "stall_seconds", "evaluated", "evaluation_reads",
                 "evaluation_seconds", "scratch_reads", "scratch_bytes", "scratch_written"):
        out[name] = sum(e[name] for e in epochs)
    for name in ("fill", "wait"):  # over the epochs after the first, which is cold for everybody
        later = epochs[1:] or epochs
        first = statistics.mean(e[name + "_mean"] for e in later)
        square = statistics.mean(e[name + "_mean"] ** 2 + e[name + "_sd"] ** 2 for e in later)
        out[name + "_mean"], out[name + "_sd"] = first, max(square - first ** 2, 0) ** .5
        out[name + "_p99"] = last[name + "_p99"]
    out["touched"] = statistics.mean(e["touched"] for e in epochs)
    out["accuracy"], out["top5"] = last["accuracy"], last["top5"]
    out["h"] = last.get("h")
    out["curve"] = [[e["accuracy"], e["storage_bytes"], e["seconds"]] for e in epochs]
    return out, None


def mean(runs, name):
    return statistics.mean(r[name] for r in runs)


def reached(run, target):
    """Seconds of training and bytes until an epoch ended with the accuracy; None: never."""
    seconds = size = 0
    for accuracy, read, time in run["curve"]:
        seconds, size = seconds + time, size + read
        if accuracy >= target:
            return seconds, size
    return None


def more_columns(a):
    head = []
    if a.times:
        head += ["fill ms", "sd", "p99", "wait ms", "sd", "p99"]
    if a.scratch:
        head += ["evaluated", "eval reads", "eval s", "scratch read MB", "laid down MB"]
    if a.target:
        head += [f"s to {100 * a.target:g} %", "MB to it", "reached"]
    return head


def more_cells(a, g):
    out = []
    if a.times:
        for name in ("fill", "wait"):
            out += [f"{1e3 * mean(g, name + end):.2f}" for end in ("_mean", "_sd", "_p99")]
    if a.scratch:
        out += [f"{mean(g, 'evaluated'):.0f}", f"{mean(g, 'evaluation_reads'):.0f}",
                f"{mean(g, 'evaluation_seconds'):.2f}", f"{mean(g, 'scratch_bytes') / 1e6:.1f}",
                f"{mean(g, 'scratch_written') / 1e6:.1f}"]
    if a.target:
        when = [w for w in (reached(r, a.target) for r in g) if w]
        out += [f"{statistics.mean(w[0] for w in when):.1f}" if when else "-",
                f"{statistics.mean(w[1] for w in when) / 1e6:.1f}" if when else "-",
                f"{len(when)} of {len(g)}"]
    return out


def table(runs, a):
    groups, several = {}, len({r.get("threads", 1) for r in runs}) > 1
    for r in runs:
        name = r["recipe"] + (f", {r['threads']} threads" if several else "")
        groups.setdefault((r["cache"], name), []).append(r)
    head = ["cache", "recipe", "seeds", "top-1 %", "sd", "top-5 %", "read MB", "vs minio", "hits %",
            "subst %", "repeats %", "touched %", "time s", "stall %"] + more_columns(a)
    rows = []
    for (cache, recipe), g in groups.items():
        minio = groups.get((cache, "minio"))
        served = mean(g, "served")
        accuracy = [100 * r["accuracy"] for r in g]
        ratio = mean(minio, "storage_bytes") / mean(g, "storage_bytes") if minio else None
        rows.append([cache, recipe, str(len(g)), f"{statistics.mean(accuracy):.2f}",
                     f"{statistics.stdev(accuracy):.2f}" if len(g) > 1 else "-",
                     f"{100 * mean(g, 'top5'):.2f}", f"{mean(g, 'storage_bytes') / 1e6:.1f}",
                     f"{ratio:.2f}x" if ratio else "-", f"{100 * mean(g, 'hits') / served:.1f}",
                     f"{100 * mean(g, 'substitutes') / served:.1f}",
                     f"{100 * mean(g, 'repeats') / served:.1f}", f"{100 * mean(g, 'touched'):.1f}",
                     f"{mean(g, 'seconds'):.1f}",
                     f"{100 * mean(g, 'stall_seconds') / max(mean(g, 'seconds'), 1e-9):.0f}"] +
                    more_cells(a, g))
    if a.markdown:
        lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        lines += ["| " + " | ".join(r) + " |" for r in rows]
    else:
        width = [max(len(r[i]) for r in rows + [head]) for i in range(len(head))]
        lines = ["  ".join(c.rjust(w) if i > 1 else c.ljust(w)
                           for i, (c, w) in enumerate(zip(r, width))) for r in [head] + rows]
    return "\n".join(lines)


def plot(runs, path):
    """Accuracy against storage bytes, one point a recipe: up and to the left is better."""
    groups = {}
    for r in runs:
        groups.setdefault((r["cache"], r["recipe"]), []).append(r)
    points = [(mean(g, "storage_bytes") / 1e6, 100 * mean(g, "accuracy"), f"{k[1]} ({k[0]})"
               if len({r["cache"] for r in runs}) > 1 else k[1]) for k, g in groups.items()]
    width, height, left, top, right, bottom = 760, 460, 70, 30, 150, 50
    x0, x1 = 0, 1.05 * max(p[0] for p in points)
    low, high = min(p[1] for p in points), max(p[1] for p in points)
    y0, y1 = low - 0.1 * (high - low) - 0.05, high + 0.1 * (high - low) + 0.05

    def at(x, y):
        return (left + (x - x0) / (x1 - x0) * (width - left - right),
                height - bottom - (y - y0) / (y1 - y0) * (height - top - bottom))

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
           'font-family="sans-serif" font-size="12" fill="#222">',
           f'<rect width="{width}" height="{height}" fill="#fff"/>']
    for i in range(6):
        x, y = x0 + (x1 - x0) * i / 5, y0 + (y1 - y0) * i / 5
        (px, _), (_, py) = at(x, y0), at(x0, y)
        out.append(f'<path d="M{left} {py:.1f}H{width - right}" stroke="#ddd"/>'
                   f'<text x="{left - 8}" y="{py + 4:.1f}" text-anchor="end">{y:.2f}</text>'
                   f'<text x="{px:.1f}" y="{height - bottom + 18}" text-anchor="middle">{x:.0f}</text>')
    taken = []  # labels already drawn: a close one goes below the others
    for x, y, name in sorted(points, key=lambda p: (p[0], -p[1])):
        px, py = at(x, y)
        ty = py + 4
        while any(abs(ty - t) < 12 and abs(px - q) < 110 for q, t in taken):
            ty += 12
        taken.append((px, ty))
        name = name.replace("&", "&amp;").replace("<", "&lt;")
        out.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="4" fill="#0072B2"/>'
                   f'<text x="{px + 8:.1f}" y="{ty:.1f}">{name}</text>')
    out.append(f'<text x="{(left + width - right) / 2}" y="{height - 10}" text-anchor="middle">'
               'MB read from storage</text>'
               f'<text transform="translate(16 {height / 2}) rotate(-90)" text-anchor="middle">'
               'test accuracy, %</text></svg>')
    with open(path, "w") as f:
        f.write("\n".join(out) + "\n")


def main():
    a = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--recipes", default="none,lru,minio,quiver")
    a.add_argument("--caches", default="20%")
    a.add_argument("--seeds", type=int, default=5)
    a.add_argument("--epochs", type=int, default=10)
    a.add_argument("--net", default="mlp")
    a.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    a.add_argument("--slow", default="", help="as larder train --slow; times mean something then")
    a.add_argument("--augment", default="", help="as larder train --augment")
    a.add_argument("--jobs", type=int, default=os.cpu_count())
    a.add_argument("--threads", default="1", help="loader threads of each run, or several counts")
    a.add_argument("--times", action="store_true", help="show batch times")
    a.add_argument("--scratch", action="store_true", help="show evaluation and scratch folder")
    a.add_argument("--target", type=float, default=0, help="accuracy to be reached, as 0.88")
    a.add_argument("--larder", default=os.path.join(HERE, "..", "build", "larder"))
    a.add_argument("--results", default=os.path.join(HERE, "..", "build", "closed_loop.jsonl"))
    a.add_argument("--markdown", action="store_true")
    a.add_argument("--plot", help="SVG file: accuracy against storage bytes")
    a = a.parse_args()

    wanted = [{"recipe": r, "cache": c, "seed": s, "epochs": a.epochs, "net": a.net, "data": a.data,
               "slow": a.slow, "augment": a.augment, "threads": int(t)}
              for c in a.caches.split(",") for r in split_recipes(a.recipes)
              for t in a.threads.split(",")
              for s in range(1, a.seeds + 1)]
    done, lock, failed = read_runs(a.results, key_of), threading.Lock(), []
    todo = [w for w in wanted if key_of(w) not in done]

    def one(w):
        run, why = train(a.larder, w)
        with lock:
            if why:
                failed.append(why)
                print(why, file=sys.stderr)
                return
            done[key_of(w)] = run
            add_run(a.results, run)
            left = sum(key_of(x) not in done for x in wanted)
            print(f"{run['cache']:>5} {run['recipe']:<28} seed {run['seed']}: "
                  f"{100 * run['accuracy']:.2f} %, {run['storage_bytes'] / 1e6:.1f} MB; "
                  f"{left} left", file=sys.stderr)

    with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
        list(pool.map(one, todo))
    got = [done[key_of(w)] for w in wanted if key_of(w) in done]
    print(table(got, a))
    if a.plot and got:
        plot(got, a.plot)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
