#!/usr/bin/env python3
"""How long an epoch takes the GPU alone: 391 steps of bench/gpu/train.py with their data in its memory.

    bench/gpu/steps.py [--epochs 7]

Prints seconds an epoch of 50,000 samples, each of them and the median. bench/gpu/table.py takes it as
--eats (50,000 over the median): what a run takes beyond it is waiting for data.
"""
import argparse
import os
import statistics
import sys
import time

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from resnet import Trainer  # noqa: E402


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--epochs", type=int, default=7)
    p.add_argument("--batch", type=int, default=128)
    a = p.parse_args()
    if not torch.cuda.is_available():
        p.error("there is no GPU here")
    torch.backends.cudnn.benchmark = True
    trainer = Trainer(10, a.batch, (3, 32, 32), 1, "cuda")
    x = torch.randn(8, a.batch, 3, 32, 32, device="cuda")
    y = torch.randint(10, (8, a.batch), device="cuda")
    w = torch.ones(a.batch, device="cuda")
    steps, seconds = 50000 / a.batch, []
    for _ in range(a.epochs + 1):  # the first one warms up
        torch.cuda.synchronize()
        began = time.perf_counter()
        for i in range(int(steps)):
            trainer.step(x[i % 8], y[i % 8], w)
        torch.cuda.synchronize()
        seconds.append((time.perf_counter() - began) * steps / int(steps))
    print(" ".join(f"{s:.3f}" for s in seconds[1:]), "s; median",
          f"{statistics.median(seconds[1:]):.3f} s an epoch of 50,000 samples")


if __name__ == "__main__":
    main()
