#!/usr/bin/env python3
"""How many samples a second the GPU alone takes: steps of bench/gpu/train.py with their data in its memory.

    bench/gpu/steps.py [--set tiny] [--batch 512]
    bench/gpu/steps.py --record bench/gpu/results/steps.json     the papers' networks, batches of 128 and 512

Prints the median and each of the rounds, and the loss at the end: with --compile it should be much the same. bench/gpu/table.py takes it as --eats: what a run takes beyond it is
waiting for data. What is recorded is the step time of `larder train --pace` in bench/papers.
"""
import argparse
import json
import os
import statistics
import sys
import time

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from nets import NETS, Trainer  # noqa: E402
from sets import SETS  # noqa: E402

RECORDED = ("resnet18", "resnet50", "vgg16", "mobilenet", "shufflenet")


def rates(net, optimizer, batch, s, rounds, steps, compiled=False):
    """Samples a second of each round, the first one left out, and the last loss."""
    trainer = Trainer(net, optimizer, s["classes"], batch, s["side"], "cuda", s["smooth"], compiled)
    trainer.reset(1)
    trainer.lr.fill_(trainer.top / 40)
    x = torch.randn(8, batch, 3, s["side"], s["side"], device="cuda")
    y = torch.randint(s["classes"], (8, batch), device="cuda")
    w, out = torch.ones(batch, device="cuda"), []
    for _ in range(rounds):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for i in range(steps):
            loss = trainer.step(x[i % 8], y[i % 8], w)[0]
        torch.cuda.synchronize()
        out.append(steps * batch / (time.perf_counter() - began))
    return out[1:], loss.mean().item()


def record(path):
    """Of what the file has not got yet; written after each network, since choosing kernels takes some of them long."""
    out = {"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__, "pixels": 32}
    if os.path.exists(path):
        with open(path) as f:
            out = json.load(f)
    for net in (n for n in RECORDED if n not in out):
        out[net] = {}
        for batch in (128, 512):
            got, _ = rates(net, "sgd", batch, SETS["cifar10"], 4, 40)
            out[net][f"ms_{batch}"] = round(1e3 * batch / statistics.median(got), 3)
        print(net, out[net], flush=True)
        with open(path, "w") as f:
            json.dump(out, f, indent=1)
            f.write("\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--net", choices=list(NETS), default="resnet18")
    p.add_argument("--optimizer", choices=["sgd", "adamw"], default="sgd")
    p.add_argument("--batch", type=int, default=512)
    p.add_argument("--set", choices=list(SETS), default="cifar10", help="whose size and classes to take")
    p.add_argument("--rounds", type=int, default=6, help="of 100 steps; the first one warms up")
    p.add_argument("--compile", action="store_true", help="torch.compile")
    p.add_argument("--record", metavar="FILE", help="step times of the papers' networks, as JSON")
    a = p.parse_args()
    if not torch.cuda.is_available():
        p.error("there is no GPU here")
    torch.backends.cudnn.benchmark = True
    if a.record:
        record(a.record)
        return
    got, loss = rates(a.net, a.optimizer, a.batch, SETS[a.set], a.rounds, 100, a.compile)
    print(f"{statistics.median(got):.0f} samples a second (" + " ".join(f"{r:.0f}" for r in got) + f"), loss {loss:.4f}")


if __name__ == "__main__":
    main()
