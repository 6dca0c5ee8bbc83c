#!/usr/bin/env python3
"""Runs bench/gpu/train.py for many recipes and seeds, in pieces that can be interrupted.

    bench/gpu/run.py DATA --results runs.jsonl --limit 550 --jobs 4
    bench/gpu/run.py DATA --results runs.jsonl --list

Every finished run is a line of the results file; what is there is not run again, and no run is begun
that would not end within --limit seconds. Files made on several machines are merged by putting their
lines together. Several runs share the GPU (--jobs): accuracy and bytes do not depend on it, times do,
so runs with --slow, whose times count, are made alone (--jobs 1). bench/gpu/table.py prints the table.
"""
import argparse
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from run_lines import add_run, read_runs  # noqa: E402

# minio stands for all that train in the plain order: table.py replays their caches.
RECIPES = ["minio", "rotate:h=0.8", "shade:repeat=3", "icache", "impact", "spider", "echo:factor=4",
           "rotate:h=0.75", "rotate:h=0.85", "shade:repeat=1", "echo:factor=2"]


def key(run):
    return run["recipe"], run["seed"], run["cache"], run["epochs"], run["slow"]


def wanted(a):
    for seed in a.seeds:
        for recipe in a.recipes:
            yield {"recipe": recipe, "seed": seed, "cache": a.cache, "epochs": a.epochs,
                   "slow": a.slow}


def start(a, run):
    cmd = [sys.executable, os.path.join(HERE, "train.py"), a.data, "--recipe", run["recipe"],
           "--seed", str(run["seed"]), "--cache", run["cache"], "--epochs", str(run["epochs"]),
           "--threads", str(a.threads), "--progress"]
    if run["slow"]:
        cmd += ["--slow", run["slow"]]
    log = open(f"{a.results}.{run['recipe'].replace(':', '_')}.{run['seed']}.log", "w")
    return subprocess.Popen(cmd, stdout=subprocess.PIPE, stderr=log, text=True), time.time(), run


def finish(a, job):
    process, began, run = job
    text = process.stdout.read()
    if process.returncode:
        print(f"{run['recipe']} seed {run['seed']}: failed, see the log beside {a.results}",
              flush=True)
        return
    out = json.loads(text.strip().splitlines()[-1])
    add_run(a.results, out)
    print(f"{run['recipe']} seed {run['seed']}: {100 * out['accuracy']:.2f} %, "
          f"{out['storage_bytes'] / 1e6:.0f} MB, {time.time() - began:.0f} s", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("data")
    p.add_argument("--results", default="gpu-runs.jsonl")
    p.add_argument("--recipes", type=lambda s: s.split(";"), default=RECIPES,
                   help="separated by semicolons")
    p.add_argument("--seeds", type=lambda s: [int(x) for x in s.split(",")], default=[1, 2, 3])
    p.add_argument("--cache", default="20%")
    p.add_argument("--epochs", type=int, default=30)
    p.add_argument("--slow", default="", metavar="SPEC", help="storage speed, bandwidth=20MiB")
    p.add_argument("--jobs", type=int, default=4, help="runs at a time")
    p.add_argument("--threads", type=int, default=2, help="loader threads of each")
    p.add_argument("--limit", type=float, default=1e9, help="seconds this piece may take")
    p.add_argument("--expect", type=float, default=100, help="seconds a run takes, before one ended")
    p.add_argument("--list", action="store_true", help="what is missing, and end")
    a = p.parse_args()
    done = read_runs(a.results, key)
    queue = [r for r in wanted(a) if key(r) not in done]
    if a.list:
        for r in queue:
            print(json.dumps(r))
        return
    began, expect, jobs = time.time(), a.expect, []
    while queue or jobs:
        while queue and len(jobs) < a.jobs and time.time() - began + 1.15 * expect < a.limit:
            jobs.append(start(a, queue.pop(0)))
        if not jobs:
            break
        for job in [j for j in jobs if j[0].poll() is not None]:
            jobs.remove(job)
            expect = time.time() - job[1]
            finish(a, job)
        time.sleep(.2)
        if time.time() - began > a.limit:
            for process, _, _ in jobs:
                process.terminate()
            break
    print(f"{len(queue)} runs are missing" if queue else "all runs are there")


if __name__ == "__main__":
    main()
