#!/usr/bin/env python3
"""Does SpiderCache's gain in accuracy (+3.1 points, table 5; +3.4 of its sampler alone, table 3) exist in its regime?

    bench/papers/gpu_regimes.py ROOT --results bench/gpu/results/regimes.jsonl [--seeds 1,2,3] [--limit 540]
    bench/papers/gpu_regimes.py --table bench/gpu/results/regimes.jsonl

The paper trains ResNet-18 on CIFAR-10 to 78 % and names neither optimizer nor augmentation. Three regimes of few epochs,
all without augmentation: SGD with momentum; the same with a tenth of the learning rate; AdamW. They end at 85 to 87 %.
In each: random draws (minio), the paper's rule, its sampler alone, larder's own spider, SHADE. Needs a GPU and
ROOT/cifar10 (bench/gpu/sets.py); some 11 s a run on an H200, three side by side. What is there is not run again.
"""
import argparse
import json
import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "gpu"), os.path.join(HERE, "..")]
from run_lines import add_run, read_runs  # noqa: E402

RULE = "hub_epoch=0,hub_batch=0,again=0,correct=0"
RECIPES = {"random draws": "minio", "SpiderCache": f"spider:{RULE}", "its sampler alone": "spider:policy=minio,correct=0",
           "larder's spider": "spider", "SHADE": "shade:repeat=3"}
# name: optimizer, factor of its learning rate, epochs
REGIMES = {"SGD": ("sgd", 1.0, 8), "SGD, a tenth of the rate": ("sgd", 0.1, 10), "AdamW": ("adamw", 1.0, 8)}


def plan(seeds):
    """The paper's own first; paired as far as it comes."""
    names = list(RECIPES)
    for some in names[:3], names[3:]:
        for seed in seeds:
            for regime in REGIMES:
                for name in some:
                    yield {"regime": regime, "name": name, "seed": seed}


def key(run):
    return run["regime"], run["name"], run["seed"]


def run_all(a):
    import sets
    import train
    sets.SETS["plain"] = dict(sets.SETS["cifar10"], augment="")
    real, whole = sets.uri, sets.test_set

    def plain(name):
        return "cifar10" if name == "plain" else name
    train.uri = lambda root, name: real(root, plain(name))
    train.test_set = lambda root, name, device: whole(root, plain(name), device)
    train.augment = lambda name: sets.normalize(sets.SETS[name])
    bench = train.Bench(a.root, a.threads, False, False)
    build = bench.trainer

    def slower(r):
        t = build(r)
        t.top = t.optimizer.top * (r["batch"] / 256 if r["optimizer"] == "sgd" else 1) * r["factor"]
        return t
    bench.trainer = slower
    done, began, longest = read_runs(a.results, key), time.time(), 0
    for run in plan([int(s) for s in a.seeds.split(",")]):
        if key(run) in done or time.time() - began + 1.2 * longest > a.limit:
            continue
        at = time.time()
        optimizer, factor, epochs = REGIMES[run["regime"]]
        got = bench.run({"set": "plain", "recipe": RECIPES[run["name"]], "seed": run["seed"], "optimizer": optimizer, "factor": factor,
                         "epochs": epochs, "batch": 256})
        add_run(a.results, dict(run, **{k: got[k] for k in ("accuracy", "top5", "storage_bytes", "served", "hits", "substitutes", "repeats",
                                                            "misses", "epochs", "optimizer", "factor", "gpu", "torch")}))
        longest = max(longest, time.time() - at)
        print(f"{key(run)}: {100 * got['accuracy']:.2f} %, {got['storage_bytes'] / 1e6:.0f} MB, {time.time() - at:.0f} s", flush=True)


def above(runs, regime, name):
    """Points above random draws, of each seed that has both."""
    base = {s: r["accuracy"] for (g, n, s), r in runs.items() if (g, n) == (regime, "random draws")}
    return [100 * (r["accuracy"] - base[s]) for (g, n, s), r in runs.items() if (g, n) == (regime, name) and s in base]


def table(path):
    runs = read_runs(path, key)
    print("| regime | random draws | " + " | ".join(n for n in RECIPES if n != "random draws") + " |\n|" + "---|" * (len(RECIPES) + 1))
    for regime in REGIMES:
        base = {s: r["accuracy"] for (g, n, s), r in runs.items() if (g, n) == (regime, "random draws")}
        cells = [f"{100 * statistics.mean(base.values()):.2f} %" if base else "-"]
        for name in RECIPES:
            more = above(runs, regime, name)
            if name != "random draws":
                spread = f" ± {statistics.stdev(more):.2f}" if len(more) > 1 else ""
                cells.append(f"{statistics.mean(more):+.2f}{spread}" if more else "-")
        print(f"| {regime} | " + " | ".join(cells) + " |")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("root", nargs="?", help="folder of the data sets")
    p.add_argument("--results", help="a line a run")
    p.add_argument("--table", metavar="FILE", help="prints what is there: points above random draws, one standard deviation")
    p.add_argument("--seeds", default="1,2,3")
    p.add_argument("--limit", type=float, default=540, help="seconds; no run is begun that would not end in them")
    p.add_argument("--threads", type=int, default=8, help="of the loader")
    a = p.parse_args()
    if a.table:
        table(a.table)
    elif a.root and a.results:
        run_all(a)
    else:
        p.error("ROOT and --results, or --table")


if __name__ == "__main__":
    sys.exit(main())
