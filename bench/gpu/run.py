#!/usr/bin/env python3
"""Runs bench/gpu/train.py for many data sets, recipes and seeds, in pieces that can be interrupted.

    bench/gpu/run.py ROOT --results runs.jsonl --limit 550 --jobs 3
    bench/gpu/run.py ROOT --results runs.jsonl --plan breadth
    bench/gpu/run.py ROOT --results runs.jsonl --list > more.jsonl
    bench/gpu/run.py ROOT --results runs.jsonl --runs more.jsonl

Every finished run is a line of the results file; what is there is not run again, and no run is begun that would
not end within --limit seconds. A file of runs, a line each, is looked at again whenever one ends, so lines can be
added or put first meanwhile. Files made on several machines are merged by putting their lines together. Several
runs share the GPU (--jobs): accuracy and bytes do not depend on it, times do, so runs with --slow, whose times
count, are made alone (--jobs 1). bench/gpu/table.py prints the tables.
"""
import argparse
import json
import os
import selectors
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from run_lines import add_run, read_runs  # noqa: E402

CORE_SETS = ["cifar10", "cifar10-noisy", "tiny"]
CORE = ["minio", "rotate:h=0.8", "rotate:h=0.5", "echo:factor=5", "echo:factor=4"]
KEY = {"set": "cifar10", "recipe": "", "seed": 1, "cache": "20%", "epochs": 30, "batch": 512, "net": "resnet18",
       "optimizer": "sgd", "slow": ""}


def key(run):
    return tuple(run.get(k, usual) for k, usual in KEY.items())


def core(a):
    """Seed by seed, so that what is there is paired."""
    for seed in a.seeds:
        for s in a.sets or CORE_SETS:
            for recipe in a.recipes or CORE:
                yield {"set": s, "recipe": recipe, "seed": seed}


# By their papers' defaults, and as they lose least (docs/results/recipes.md).
PAPERS = ["shade", "shade:repeat=2,correct=1", "icache", "icache:beta=0.15,correct=1", "impact", "impact:correct=1",
          "spider:hub_epoch=0,hub_batch=0,again=0,correct=0", "spider"]


def breadth(a):
    """One cell each, around the core."""
    two = ["minio", "rotate:h=0.8"]
    # Residents held as JPEGs of the same pixels: about three times as many in the same bytes.
    for seed in a.seeds:
        for s in ("cifar10-noisy", "cifar10"):
            yield {"set": s, "recipe": "rotate:h=0.8,shrink=native", "seed": seed}
    for seed in a.seeds:
        for net in ("vit", "convnext"):
            for s in ("tiny", "cifar10"):
                for recipe in two:
                    yield {"set": s, "recipe": recipe, "seed": seed, "net": net, "optimizer": "adamw"}
        for s in ("cifar10-long",):
            for recipe in two + ["rotate:h=0.5", "echo:factor=5"]:
                yield {"set": s, "recipe": recipe, "seed": seed}
        for s in ("cifar10-noisy", "tiny"):
            for cache in ("10%", "40%"):
                for recipe in two:
                    yield {"set": s, "recipe": recipe, "seed": seed, "cache": cache}
            for recipe in a.recipes or ["rotate:h=0.65", "rotate:h=0.85"] + PAPERS:
                yield {"set": s, "recipe": recipe, "seed": seed}
            yield {"set": s, "recipe": "minio", "seed": seed, "epochs": 8}  # equal bytes, shorter training


def listed(a):
    with open(a.runs) as f:
        yield from map(json.loads, f)


def wanted(a):
    for run in listed(a) if a.runs else {"core": core, "breadth": breadth}[a.plan](a):
        yield {**KEY, "cache": a.cache, "epochs": a.epochs, "batch": a.batch, "slow": a.slow, **run}


class Worker:
    def __init__(self, a, number):
        cmd = [sys.executable, os.path.join(HERE, "train.py"), a.root, "--serve", "--progress", "--threads",
               str(a.threads)] + (["--compile"] if a.compile else [])
        self.log = open(f"{a.results}.{number}.log", "a")
        self.process = subprocess.Popen(cmd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
                                        text=True)
        self.run, self.began = None, 0.

    def give(self, run):
        self.run, self.began = run, time.time()
        self.process.stdin.write(json.dumps(run) + "\n")
        self.process.stdin.flush()

    def take(self, results):
        line, run, self.run = self.process.stdout.readline(), self.run, None
        out = json.loads(line) if line.strip() else {"failed": "the worker ended, see the log"}
        seconds = time.time() - self.began
        name = f"{run['set']} {run['recipe']} seed {run['seed']}"
        if "failed" in out:
            print(f"{name}: {out['failed']}", flush=True)
            return None if not line else seconds
        add_run(results, out)
        print(f"{name}: {100 * out['accuracy']:.2f} %, {out['storage_bytes'] / 1e6:.0f} MB, {seconds:.0f} s",
              flush=True)
        return seconds


def missing(a, begun):
    return [r for r in wanted(a) if key(r) not in begun]


def work(a, begun):
    """No run is begun that would not end in time, by the last one of its data set and network."""
    began, took, look = time.time(), {}, selectors.DefaultSelector()
    workers = [Worker(a, i) for i in range(min(a.jobs, len(missing(a, begun))))]
    for w in workers:
        look.register(w.process.stdout, selectors.EVENT_READ, w)

    def next_run():
        for run in missing(a, begun):
            expect = took.get((run["set"], run["net"]), a.expect / a.epochs) * run["epochs"]
            if time.time() - began + 1.1 * expect < a.limit:
                begun.add(key(run))
                return run
        return None

    def feed(w):
        run = next_run()
        if run:
            w.give(run)
        else:
            look.unregister(w.process.stdout)
            w.process.stdin.close()
    for w in workers:
        feed(w)
    while look.get_map() and time.time() - began < a.limit:
        for event, _ in look.select(1):
            w = event.data
            run, seconds = w.run, w.take(a.results)
            if seconds is None:
                look.unregister(w.process.stdout)
                continue
            took[run["set"], run["net"]] = seconds / run["epochs"]
            feed(w)
    for w in workers:
        w.process.kill() if w.run else w.process.wait()


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("root", help="folder of the data sets, see bench/gpu/sets.py")
    p.add_argument("--results", default="gpu-runs.jsonl")
    p.add_argument("--plan", choices=["core", "breadth"], default="core")
    p.add_argument("--runs", metavar="FILE", help="runs to make instead of a plan's, as --list prints them")
    p.add_argument("--sets", type=lambda s: s.split(";"), help="of the core, separated by semicolons")
    p.add_argument("--recipes", type=lambda s: s.split(";"), help="separated by semicolons")
    p.add_argument("--seeds", type=lambda s: [int(x) for x in s.split(",")], default=[1, 2, 3, 4, 5])
    p.add_argument("--cache", default="20%")
    p.add_argument("--epochs", type=int, default=30)
    p.add_argument("--batch", type=int, default=512)
    p.add_argument("--slow", default="", metavar="SPEC", help="storage speed, bandwidth=20MiB")
    p.add_argument("--jobs", type=int, default=3, help="runs at a time")
    p.add_argument("--threads", type=int, default=4, help="loader threads of each")
    p.add_argument("--compile", action="store_true", help="torch.compile the networks")
    p.add_argument("--limit", type=float, default=1e9, help="seconds this piece may take")
    p.add_argument("--expect", type=float, default=100, help="seconds a run takes, before one ended")
    p.add_argument("--list", action="store_true", help="what is missing, and end")
    a = p.parse_args()
    begun = set(read_runs(a.results, key))
    if a.list:
        for r in missing(a, begun):
            print(json.dumps(r))
        return
    work(a, begun)
    left = len(missing(a, set(read_runs(a.results, key))))
    print(f"{left} runs are missing" if left else "no run is missing")


if __name__ == "__main__":
    main()
