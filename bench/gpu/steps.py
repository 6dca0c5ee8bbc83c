#!/usr/bin/env python3
"""How many samples a second the GPU alone takes: steps of bench/gpu/train.py with their data in its memory.

    bench/gpu/steps.py [--batch 512] [--side 64]

Prints the median and each of the rounds. bench/gpu/table.py takes it as --eats: what a run takes beyond it is
waiting for data.
"""
import argparse
import os
import statistics
import sys
import time

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from nets import NETS, Trainer  # noqa: E402


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--net", choices=list(NETS), default="resnet18")
    p.add_argument("--batch", type=int, default=512)
    p.add_argument("--side", type=int, choices=[32, 64], default=32)
    p.add_argument("--compile", action="store_true", help="torch.compile")
    a = p.parse_args()
    if not torch.cuda.is_available():
        p.error("there is no GPU here")
    torch.backends.cudnn.benchmark = True
    trainer = Trainer(a.net, "sgd", 10, a.batch, a.side, "cuda", 0., a.compile)
    trainer.reset(1)
    x = torch.randn(8, a.batch, 3, a.side, a.side, device="cuda")
    y = torch.randint(10, (8, a.batch), device="cuda")
    w, rates = torch.ones(a.batch, device="cuda"), []
    for _ in range(6):  # the first one warms up
        torch.cuda.synchronize()
        began = time.perf_counter()
        for i in range(100):
            trainer.step(x[i % 8], y[i % 8], w)
        torch.cuda.synchronize()
        rates.append(100 * a.batch / (time.perf_counter() - began))
    print(f"{statistics.median(rates[1:]):.0f} samples a second ("
          + " ".join(f"{r:.0f}" for r in rates[1:]) + ")")


if __name__ == "__main__":
    main()
