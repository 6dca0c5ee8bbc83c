#!/usr/bin/env python3
"""Several networks train on one data set: one cache for all in a daemon, or each with its part of it.

    bench/several_models.py [--jobs 2,4,8,12] [--recipe shade:repeat=1] [--samples 6000] [--epochs 5]

Networks (thin, mlp, cnn in turn), learning rates, batch sizes and seeds differ, so their losses do, in size and in
which samples are hard. Counts storage reads a sample served in the epochs after the first, of all jobs together;
nothing of it is a time, but who comes when changes a little of it."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KINDS = [("thin", 64, 0.1), ("mlp", 128, 0.05), ("cnn", 128, 0.05), ("mlp", 64, 0.01)]


def some_of(data, folder, samples):
    subprocess.run([sys.executable, os.path.join(ROOT, "bench", "noisy_labels.py"), data, folder, "--share", "0",
                    "--samples", str(samples)], check=True, stdout=subprocess.DEVNULL)
    return folder


def run(larder, data, recipe, jobs, together, epochs=5, cache=20, seed=1, pace=None):
    """Reads a sample of all jobs after the first epoch, and the accuracy of each in the end."""
    with tempfile.TemporaryDirectory(prefix="larder-models-") as folder:
        server = None
        if together:
            server = subprocess.Popen([larder, "serve", "--socket", f"{folder}/s", "--cache", "256MiB", "--quiet"],
                                      stdout=subprocess.PIPE, text=True)
            server.stdout.readline()
        running = []
        for j in range(jobs):
            net, batch, rate = KINDS[j % len(KINDS)]
            part = f"unix:{folder}/s?budget={cache}%" if together else f"{cache / jobs:g}%"
            words = [larder, "train", data, "--recipe", recipe, "--cache", part, "--net", net, "--batch", batch, "--lr", rate,
                     "--seed", seed * 100 + j, "--epochs", epochs, "--threads", 1, "--json", "--quiet"]
            words += ["--pace", pace] if pace else []
            running.append(subprocess.Popen([str(w) for w in words], stdout=subprocess.PIPE, text=True))
        epochs_of = [[json.loads(line) for line in p.communicate()[0].splitlines()] for p in running]
        codes = [p.returncode for p in running]
        if server:
            server.terminate()
            server.communicate()
        if any(codes):
            raise SystemExit(f"several_models: a job ended with {max(codes)}")
    late = [e for job in epochs_of for e in job[1:]]
    return {"reads": sum(e["misses"] + e["background_reads"] for e in late) / sum(e["served"] for e in late),
            "accuracy": [100 * job[-1]["accuracy"] for job in epochs_of],
            "ledger": {k: sum(e[k] for job in epochs_of for e in job) for k in
                       ("served", "hits", "substitutes", "repeats", "misses")}}


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("--jobs", default="2,4,8,12")
    a.add_argument("--recipe", default="shade:repeat=1")
    a.add_argument("--samples", type=int, default=6000)
    a.add_argument("--epochs", type=int, default=5)
    a.add_argument("--seeds", type=int, default=1)
    a.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    a.add_argument("--larder", default=os.path.join(ROOT, "build", "larder"))
    o = a.parse_args()
    with tempfile.TemporaryDirectory(prefix="larder-models-") as folder:
        data = some_of(o.data, f"{folder}/some", o.samples)
        print(f"{o.recipe}, {o.samples} samples, 20 % cached in all: reads a sample (accuracy, mean)")
        for jobs in (int(j) for j in o.jobs.split(",")):
            line = f"{jobs:2} jobs"
            for name, together in (("one cache", True), ("apart", False)):
                got = [run(o.larder, data, o.recipe, jobs, together, o.epochs, seed=s + 1) for s in range(o.seeds)]
                line += (f"   {name} {statistics.mean(g['reads'] for g in got):.4f} "
                         f"({statistics.mean(x for g in got for x in g['accuracy']):.2f} %)")
            print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
