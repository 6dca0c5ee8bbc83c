#!/usr/bin/env python3
"""Seneca's comparisons on throttled storage: several jobs, one cache, five ways to rule it.

A small data set in IDX format (28 x 28 bytes a sample), the reference trainer, storage of so many MiB/s for
all jobs together: each job gets its part of it whether or not it shares (throttling is per process, so what
sharing leaves unused by one job no other can take). Caches are a share of the data set for all jobs together.

    bench/seneca_compare.py --out pieces.jsonl             # all pieces that are not there yet
    bench/seneca_compare.py --out pieces.jsonl --tables    # the tables of docs/results/seneca.md

Every piece is one line of pieces.jsonl; interrupted, it goes on where it was.
"""
import argparse
import json
import os
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SIDE = 28
# name: recipe, shared through the daemon
WAYS = {
    "seneca": ("seneca", True),
    "planner alone": ("minio:plan=auto", True),
    "minio": ("minio", True),
    "quiver": ("quiver", True),
    "shade": ("shade", True),
    "page cache": ("lru", True),
    "no sharing": ("minio", False),
}
STREAM = {"rotate": ("rotate:h=0.5", True)}  # one stream of fresh samples for all
KINDS = [("mlp", 32), ("mlp", 48), ("mlp", 64), ("mlp", 96), ("mlp", 128)]


def write_idx(folder, n):
    rng = random.Random(1)
    for part, count in (("train", n), ("t10k", 100)):
        labels = bytes(i % 10 for i in range(count))
        pixels = bytearray(rng.randbytes(count * SIDE * SIDE))
        for i in range(count):
            at = i * SIDE * SIDE + labels[i] * 2 * SIDE
            pixels[at:at + 2 * SIDE] = b"\xff" * (2 * SIDE)
        with open(f"{folder}/{part}-images-idx3-ubyte", "wb") as f:
            f.write(struct.pack(">IIII", 0x803, count, SIDE, SIDE) + pixels)
        with open(f"{folder}/{part}-labels-idx1-ubyte", "wb") as f:
            f.write(struct.pack(">II", 0x801, count) + labels)


class Server:
    """A daemon, or a Redis of its own."""

    def __init__(self, o, folder):
        self.via, self.path = o.via, f"{folder}/s"
        command = [o.larder, "serve", "--socket", self.path, "--cache", "256MiB", "--quiet"]
        if o.via == "redis":
            command = ["redis-server", "--port", "0", "--unixsocket", self.path, "--save", "", "--dir", folder]
        self.p = subprocess.Popen(command, stdout=subprocess.PIPE if o.via == "daemon" else subprocess.DEVNULL, text=True)
        if o.via == "daemon":
            self.p.stdout.readline()
        for _ in range(400):
            if os.path.exists(self.path):
                break
            time.sleep(0.02)

    def cache(self, share):
        if self.via == "daemon":
            return f"unix:{self.path}?budget={share}"
        return f"redis+unix://{self.path}?budget={share}&shared=compare"

    def end(self):
        self.p.terminate()
        if self.p.stdout:
            self.p.stdout.close()
        _, _, used = os.wait4(self.p.pid, 0)
        self.p.returncode = 0
        return used.ru_utime + used.ru_stime


def start(o, folder, server, way, together, seed, kind, epochs, out):
    """`together`: jobs that run at the same time, for each one's part of storage."""
    recipe, shared = {**WAYS, **STREAM}[way]
    cache = f"{o.cache:g}%"  # alone: more memory in all than the others have
    if shared:
        cache = server.cache(cache)
    words = [o.larder, "train", folder, "--recipe", recipe, "--cache", cache, "--seed", str(seed),
             "--epochs", str(epochs), "--net", kind[0], "--batch", str(kind[1]), "--threads", "1",
             "--ahead", str(o.ahead), "--test", "none", "--json", "--quiet"]
    if o.bandwidth:
        words += ["--slow", f"bandwidth={o.bandwidth / together:g}MiB"]
    if o.pace:
        words += ["--pace", f"{pace_of(o, seed):g}ms"]
    return subprocess.Popen(words, stdout=open(out, "w"), stderr=subprocess.DEVNULL)


def pace_of(o, seed):
    """Milliseconds of a step; where several are given, of this job."""
    given = [float(p.removesuffix("ms")) for p in o.pace.split(",")]
    return given[seed % len(given)]


def late(o, lines, first, kinds):
    """Times as long as asked that steps took: the median over epochs. 1 without --pace."""
    took = [(e["seconds"] - e["stall_seconds"]) * 1e3 / (-(-e["served"] // (kinds[i][1] if kinds else o.batch)) * pace_of(o, i + first))
            for i, job in enumerate(lines) for e in job] if o.pace else [1.0]
    return statistics.median(took)


def run(o, way, jobs, together, epochs, kinds=None, seed=0, first=1):
    """All jobs, at most so many at a time, and what they did. `first`: the seed of the first job. epochs: of each; a
    float: times milliseconds of a step, so that jobs of other paces end at about the same time."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="larder-compare-") as folder:
        write_idx(folder, o.samples)
        server = Server(o, folder)
        running, cpu, files, load = {}, 0.0, [], os.getloadavg()[0]
        began = time.monotonic()

        def one_ends():
            pid, status, used = os.wait4(-1, 0)
            running.pop(pid, None)
            if status:
                for p in [*running.values(), server.p]:  # nobody else would end them
                    p.terminate()
                raise RuntimeError(f"{way}: a job ended with {status}")
            return used.ru_utime + used.ru_stime
        for i in range(jobs):
            while len(running) == together:
                cpu += one_ends()
            files.append(f"{folder}/job{i}")
            p = start(o, folder, server, way, together, i + first,
                      kinds[i] if kinds else (o.net, o.batch), round(epochs / pace_of(o, i + first)) if isinstance(epochs, float) else epochs, files[-1])
            running[p.pid] = p
            if kinds:
                time.sleep(rng.expovariate(4))  # they do not come at the same time
        while running:
            cpu += one_ends()
        seconds = time.monotonic() - began
        cpu += server.end()
        lines = [[json.loads(x) for x in open(f)] for f in files]
    flat = [e for job in lines for e in job]
    mid = [e for job in lines for e in job[len(job) // 4:max(len(job) * 3 // 4, 1)]]
    served = sum(e["served"] for e in flat)
    sums = {k: sum(e[k] for e in flat) for k in ("hits", "substitutes", "repeats", "misses", "background_reads")}
    return {"seconds": seconds, "cpu": cpu, "load": load, "served": served, **sums,
            "reads": sum(e["storage_bytes"] for e in flat) / (served * SIDE * SIDE),
            "warm_reads": sum(e["storage_bytes"] for j in lines for e in j[1:]) / max(
                1, sum(e["served"] for j in lines for e in j[1:]) * SIDE * SIDE),
            "mid_reads": sum(e["storage_bytes"] for e in mid) / max(1, sum(e["served"] for e in mid) * SIDE * SIDE),
            "first": statistics.fmean(job[0]["seconds"] for job in lines),
            "stable": statistics.fmean(job[-1]["seconds"] for job in lines),
            "rate": served / seconds, "late": late(o, lines, first, kinds),
            "fresh": sum(e["served"] - e["repeats"] for e in flat) / served,
            "whole": all(e["touched"] == 1 and e["repeats"] == 0 for e in flat)}


def pieces(epochs):
    """What is compared. Pieces of "many" are seneca alone, up to eight jobs, of so many epochs: for --pace."""
    for jobs in (1, 2, 4, 8):
        yield f"many:{jobs}:seneca", ("seneca", jobs, jobs, epochs)
    for jobs in (1, 2, 3, 4):
        for way in WAYS:
            yield f"jobs:{jobs}:{way}", (way, jobs, jobs, 3)
    for together in (2, 4):
        for way in ("seneca", "no sharing", "page cache"):
            yield f"makespan:{together}:{way}", (way, 4, together, 4)
    kinds = random.Random(5).choices(KINDS, k=12)
    for way in ("seneca", "minio", "quiver", "page cache"):
        yield f"twelve:2:{way}", (way, 12, 2, 2, kinds, 5)
    for jobs in (1, 2, 3, 4):
        yield f"stream:{jobs}:rotate", ("rotate", jobs, jobs, 3)


def table(title, head, rows):
    print(f"\n{title}\n\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def print_tables(done):
    def got(name, key, form):
        return format(done[name][key], form) if name in done else "-"
    ways = list(WAYS)
    table("Samples a second of all jobs together; storage reads a sample",
          ["", "1 job", "2 jobs", "3 jobs", "4 jobs"],
          [[w, *(f"{got(f'jobs:{j}:{w}', 'rate', ',.0f')}; {got(f'jobs:{j}:{w}', 'reads', '.2f')}"
                 for j in (1, 2, 3, 4))] for w in ways])
    table("Four jobs: seconds of the first and of the last epoch; processor time of all",
          ["", "first", "stable", "CPU seconds"],
          [[w, *(got(f"jobs:4:{w}", k, ".1f") for k in ("first", "stable", "cpu"))] for w in ways])
    table("Four jobs of four epochs: seconds until the last one ends", ["", "2 at a time", "4 at a time"],
          [[w, *(got(f"makespan:{t}:{w}", "seconds", ".1f") for t in (2, 4))]
           for w in ("seneca", "no sharing", "page cache")])
    table("Twelve jobs of five kinds (batches of 32 to 128), two at a time", ["", "seconds", "reads a sample"],
          [[w, got(f"twelve:2:{w}", "seconds", ".1f"), got(f"twelve:2:{w}", "reads", ".2f")]
           for w in ("seneca", "minio", "quiver", "page cache")])
    table("`rotate:h=0.5`: storage reads a fresh sample (served for the first time in its epoch)",
          ["1 job", *(f"{j} jobs" for j in (2, 3, 4))],
          [[f"{done[n]['reads'] / done[n]['fresh']:.2f}" if n in done else "-"
            for n in (f"stream:{j}:rotate" for j in (1, 2, 3, 4))]])
    loads = [p["load"] for p in done.values()]
    print(f"\nLoad of the machine when pieces began: {min(loads):.1f} to {max(loads):.1f}. Each sample exactly once "
          "an epoch: " + ", ".join(w for w in ways if all(done[n]["whole"] for n in done if n.endswith(":" + w))))


def main():
    ask = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ask.add_argument("--out", required=True)
    ask.add_argument("--tables", action="store_true")
    ask.add_argument("--samples", type=int, default=6000)
    ask.add_argument("--bandwidth", type=float, default=2, help="MiB/s of all jobs together; 0: as it comes")
    ask.add_argument("--cache", type=float, default=20, help="percent of the data set")
    ask.add_argument("--ahead", type=int, default=8, help="batches read ahead, of 47 an epoch: with 16 a "
                     "third of it is decided before anything is read, with 4 jobs wait for each other")
    ask.add_argument("--via", choices=["daemon", "redis"], default="daemon", help="what carries the shared cache")
    ask.add_argument("--pace", help="a step's time, as 4ms; several, for jobs in turn: 2,3,4ms")
    ask.add_argument("--first", type=int, default=1, help="seed of the first job; the others follow it")
    ask.add_argument("--epochs", type=lambda t: float(t) if "." in t else int(t), default=12, help='of pieces "many"; '
                     "24.0: those that take as long at steps of 24 ms, so that jobs of several paces end together")
    ask.add_argument("--net", default="mlp")
    ask.add_argument("--batch", type=int, default=128)
    ask.add_argument("--only", default="", help="pieces whose name contains this")
    ask.add_argument("--larder", default=os.path.join(ROOT, "build", "larder"))
    o = ask.parse_args()
    done = {}
    if os.path.exists(o.out):
        with open(o.out) as f:
            done = {p["name"]: p for p in map(json.loads, f)}
    for name, what in pieces(o.epochs):
        if o.tables or name in done or o.only not in name:
            continue
        done[name] = {"name": name, **run(o, *what, first=o.first)}
        with open(o.out, "a") as f:
            f.write(json.dumps(done[name]) + "\n")
        print(f"{name}: {done[name]['seconds']:.1f} s, {done[name]['reads']:.2f} reads a sample, "
              f"{done[name]['mid_reads']:.4f} in the middle half of the epochs, "
              f"{done[name]['cpu']:.1f} CPU s", file=sys.stderr, flush=True)
    if done:
        print_tables(done)


if __name__ == "__main__":
    main()
