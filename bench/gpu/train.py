#!/usr/bin/env python3
"""Trains a network through one recipe of larder and prints the run as one JSON line.

    bench/gpu/train.py ROOT --set tiny --recipe rotate:h=0.8 --seed 1
    bench/gpu/train.py ROOT --serve          takes runs as JSON, a line each, and answers so

ROOT holds the data sets (bench/gpu/sets.py). --slow throttles the storage (bandwidth=20MiB); stall_seconds is
then what the training loop waited for batches. Losses and logits are reported to every recipe. Accuracy is
measured every fifth epoch, and after the last.
"""
import argparse
import json
import math
import os
import sys
import time

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "python")]
import larder  # noqa: E402
from nets import NETS, Trainer, rate_at  # noqa: E402
from sets import SETS, augment, test_set, uri  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # the CPU to try it out, not to measure
FIGURES = ("served", "hits", "substitutes", "repeats", "misses", "background_reads",
           "storage_bytes", "evaluated", "evaluation_reads")
ALSO = ("touched", "fresh_loss", "reused_loss")  # of an epoch, where there are
USUAL = {"set": "cifar10", "recipe": "rotate:h=0.8", "seed": 1, "cache": "20%", "epochs": 30, "batch": 512,
         "net": "resnet18", "optimizer": "sgd", "slow": ""}
TESTED = 5  # epochs from one test to the next: each costs a fifteenth of an epoch


class Bench:
    """Data and captured steps, kept from run to run."""

    def __init__(self, root, threads, compiled, progress):
        self.root, self.threads, self.compiled, self.progress = root, threads, compiled, progress
        self.tests, self.trainers = {}, {}
        torch.backends.cudnn.benchmark = True

    def trainer(self, r):
        s = SETS[r["set"]]
        kind = r["net"], r["optimizer"], s["classes"], r["batch"], s["side"], DEVICE, s["smooth"], self.compiled
        if kind not in self.trainers:
            self.trainers[kind] = Trainer(*kind)
        self.trainers[kind].reset(r["seed"])
        return self.trainers[kind]

    def epoch(self, loader, trainer, r, number):
        batches, waited = len(loader), 0.0
        embeds = r["recipe"].startswith("spider")
        source = iter(loader)
        for i in range(1 << 30):
            began = time.perf_counter()
            batch = next(source, None)
            waited += time.perf_counter() - began
            if batch is None:
                break
            trainer.lr.fill_(rate_at((number + min(i / batches, 1)) / r["epochs"], trainer.top))
            loss, logits, embedding = trainer.step(batch.x, batch.y, batch.weight)
            if number == i == 0:
                self.first_loss = loss.mean().item()
            loader.report(loss=loss, logits=logits, embeddings=embedding if embeds else None)
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        return i, waited

    def run(self, asked):
        r = dict(USUAL, **asked)
        if r["set"] not in self.tests:
            self.tests[r["set"]] = test_set(self.root, r["set"], DEVICE)
        x, y = self.tests[r["set"]]
        where = uri(self.root, r["set"])
        where = f"slow:{r['slow']}:{where}" if r["slow"] else where
        curve = []
        trainer = self.trainer(r)
        with larder.Loader(where, r["batch"], recipe=r["recipe"], cache=r["cache"], seed=r["seed"],
                           augment=augment(r["set"]), threads=self.threads, epochs=r["epochs"],
                           device=DEVICE) as loader:
            if r["recipe"].startswith("impact"):
                loader.set_evaluator(lambda b: trainer.losses(b.x.to(DEVICE), b.y.to(DEVICE)))
            start = time.perf_counter()
            for number in range(r["epochs"]):
                began = time.perf_counter()
                steps, waited = self.epoch(loader, trainer, r, number)
                seconds = time.perf_counter() - began
                f = loader.figures(number)
                row = {k: f[k] for k in FIGURES + tuple(k for k in ALSO if f.get(k, math.nan) == f.get(k))}
                row.update(seconds=seconds, steps=steps, stall_seconds=waited)
                if (number + 1) % TESTED == 0 or number + 1 == r["epochs"]:
                    row["accuracy"], row["top5"] = trainer.accuracy(x, y)
                    loader.validate(row["accuracy"])
                curve.append(row)
                if self.progress:
                    print(f"{r['set']} {r['recipe']} seed {r['seed']} epoch {number + 1}/{r['epochs']}: "
                          f"{100 * row.get('accuracy', 0):.2f} %, {seconds:.2f} s, waited {waited:.2f} s, "
                          f"{row['storage_bytes'] / 1e6:.1f} MB", file=sys.stderr, flush=True)
            total = time.perf_counter() - start
        out = dict(r, accuracy=row["accuracy"], top5=row["top5"], total_seconds=total,
                   first_loss=self.first_loss, compiled=self.compiled, torch=torch.__version__,
                   gpu=torch.cuda.get_device_name(0) if DEVICE == "cuda" else "none", curve=curve)
        for k in FIGURES + ("seconds", "stall_seconds"):
            out[k] = sum(row[k] for row in curve)
        out["touched"] = sum(row["touched"] for row in curve) / len(curve)
        return out


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("root", help="folder of the data sets")
    for name, usual in USUAL.items():
        p.add_argument("--" + name, type=type(usual), default=usual,
                       choices={"set": list(SETS), "net": list(NETS), "optimizer": ["sgd", "adamw"]}.get(name))
    p.add_argument("--threads", type=int, default=4, help="of the loader")
    p.add_argument("--compile", action="store_true", help="torch.compile: slow to begin, then faster")
    p.add_argument("--progress", action="store_true", help="a line an epoch on standard error")
    p.add_argument("--serve", action="store_true", help="runs come on standard input")
    a = p.parse_args()
    bench = Bench(a.root, a.threads, a.compile, a.progress)
    if not a.serve:
        print(json.dumps(bench.run({k: getattr(a, k) for k in USUAL})), flush=True)
        return
    for line in sys.stdin:
        try:
            print(json.dumps(bench.run(json.loads(line))), flush=True)
        except (larder.Error, RuntimeError) as e:
            if "CUDA error" in str(e):  # nothing works after one
                raise
            print(json.dumps({"failed": str(e)}), flush=True)


if __name__ == "__main__":
    main()
