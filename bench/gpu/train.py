#!/usr/bin/env python3
"""Trains ResNet-18 on CIFAR-10 through one recipe and prints the run as one JSON line.

    bench/gpu/train.py DATA --recipe rotate:h=0.8 --seed 1

DATA is the folder of the binary files (data_batch_1.bin … test_batch.bin). --slow throttles the
storage (bandwidth=20MiB); stall_seconds is then what the training loop waited for batches.
"""
import argparse
import json
import math
import os
import sys
import time

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "python")]
import larder  # noqa: E402
from resnet import Trainer  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # the CPU to try it out, not to measure
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
AUGMENT = "crop:size=32,pad=4|flip|normalize:mean={},std={}".format(
    "/".join(map(str, MEAN)), "/".join(map(str, STD)))
FIGURES = ("served", "hits", "substitutes", "repeats", "misses", "background_reads",
           "storage_bytes", "evaluated", "evaluation_reads")


def test_set(folder):
    raw = np.fromfile(os.path.join(folder, "test_batch.bin"), np.uint8).reshape(-1, 3073)
    x = torch.from_numpy(raw[:, 1:].reshape(-1, 3, 32, 32).astype(np.float32) / 255)
    x = (x - torch.tensor(MEAN).view(1, 3, 1, 1)) / torch.tensor(STD).view(1, 3, 1, 1)
    return x.to(DEVICE), torch.from_numpy(raw[:, 0].astype(np.int64)).to(DEVICE)


def rate_at(done, top=0.1, warm=2 / 30):
    """Learning rate at a share of the run: up for two epochs of thirty, then down as a cosine."""
    if done < warm:
        return top * done / warm
    return top * .5 * (1 + math.cos(math.pi * (done - warm) / (1 - warm)))


def epoch(loader, trainer, number, epochs, embeds):
    batches, waited = len(loader), 0.0
    source = iter(loader)
    for i in range(1 << 30):
        began = time.perf_counter()
        batch = next(source, None)
        waited += time.perf_counter() - began
        if batch is None:
            break
        trainer.lr.fill_(rate_at((number + min(i / batches, 1)) / epochs))
        loss, embedding = trainer.step(batch.x, batch.y, batch.weight)
        loader.report(loss=loss, embeddings=embedding if embeds else None)
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    return i, waited


def run(a):
    x, y = test_set(a.data)
    uri = "cifar10:" + a.data
    if a.slow:
        uri = f"slow:{a.slow}:{uri}"
    embeds = a.recipe.startswith("spider")  # losses all get; who does not listen ignores them
    torch.backends.cudnn.benchmark = True
    curve = []
    with larder.Loader(uri, a.batch, recipe=a.recipe, cache=a.cache, seed=a.seed, augment=AUGMENT,
                       threads=a.threads, epochs=a.epochs, device=DEVICE) as loader:
        trainer = Trainer(10, a.batch, (3, 32, 32), a.seed, DEVICE)
        if a.recipe.startswith("impact"):
            loader.set_evaluator(lambda b: trainer.losses(b.x.to(DEVICE), b.y.to(DEVICE)))
        start = time.perf_counter()
        for number in range(a.epochs):
            began = time.perf_counter()
            steps, waited = epoch(loader, trainer, number, a.epochs, embeds)
            seconds = time.perf_counter() - began
            one, five = trainer.accuracy(x, y)
            loader.validate(one)
            f = loader.figures(number)
            row = {k: f[k] for k in FIGURES}
            row.update(touched=f["touched"], accuracy=one, top5=five, seconds=seconds, steps=steps,
                       stall_seconds=waited)
            curve.append(row)
            if a.progress:
                print(f"{a.recipe} seed {a.seed} epoch {number + 1}/{a.epochs}: {100 * one:.2f} %, "
                      f"{seconds:.2f} s, waited {waited:.2f} s, {row['storage_bytes'] / 1e6:.1f} MB",
                      file=sys.stderr, flush=True)
        total = time.perf_counter() - start
    out = {"recipe": a.recipe, "seed": a.seed, "cache": a.cache, "epochs": a.epochs,
           "batch": a.batch, "slow": a.slow, "accuracy": one, "top5": five, "total_seconds": total,
           "gpu": torch.cuda.get_device_name(0) if DEVICE == "cuda" else "none", "torch": torch.__version__, "curve": curve}
    for k in FIGURES + ("seconds", "stall_seconds"):
        out[k] = sum(row[k] for row in curve)
    out["touched"] = sum(row["touched"] for row in curve) / len(curve)
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("data", help="folder of CIFAR-10's binary files")
    p.add_argument("--recipe", default="rotate:h=0.8")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--cache", default="20%")
    p.add_argument("--epochs", type=int, default=30)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--slow", default="", metavar="SPEC", help="throttle storage: bandwidth=20MiB")
    p.add_argument("--progress", action="store_true", help="a line an epoch on standard error")
    a = p.parse_args()
    print(json.dumps(run(a)), flush=True)


if __name__ == "__main__":
    main()
