#!/usr/bin/env python3
"""How many samples a second the GPU alone takes: steps of bench/gpu/train.py with their data in its memory.

    bench/gpu/steps.py [--set tiny] [--batch 512]

Prints the median and each of the rounds, and the loss at the end: with --compile it should be much the same. bench/gpu/table.py takes it as --eats: what a run takes beyond it is
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
from sets import SETS  # noqa: E402


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--net", choices=list(NETS), default="resnet18")
    p.add_argument("--optimizer", choices=["sgd", "adamw"], default="sgd")
    p.add_argument("--batch", type=int, default=512)
    p.add_argument("--set", choices=list(SETS), default="cifar10", help="whose size and classes to take")
    p.add_argument("--rounds", type=int, default=6, help="of 100 steps; the first one warms up")
    p.add_argument("--compile", action="store_true", help="torch.compile")
    a = p.parse_args()
    if not torch.cuda.is_available():
        p.error("there is no GPU here")
    torch.backends.cudnn.benchmark = True
    s = SETS[a.set]
    trainer = Trainer(a.net, a.optimizer, s["classes"], a.batch, s["side"], "cuda", s["smooth"], a.compile)
    trainer.reset(1)
    trainer.lr.fill_(trainer.top / 40)
    x = torch.randn(8, a.batch, 3, s["side"], s["side"], device="cuda")
    y = torch.randint(s["classes"], (8, a.batch), device="cuda")
    w, rates = torch.ones(a.batch, device="cuda"), []
    for _ in range(a.rounds):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for i in range(100):
            loss = trainer.step(x[i % 8], y[i % 8], w)[0]
        torch.cuda.synchronize()
        rates.append(100 * a.batch / (time.perf_counter() - began))
    print(f"{statistics.median(rates[1:]):.0f} samples a second ("
          + " ".join(f"{r:.0f}" for r in rates[1:]) + f"), loss {loss.mean():.4f}")


if __name__ == "__main__":
    main()
