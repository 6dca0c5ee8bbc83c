#!/usr/bin/env python3
"""PyTorch's DataLoader on a folder of photographs, as most people train: torchvision's ImageFolder,
RandomResizedCrop(224), flip, ToTensor, Normalize. Prints samples per core-second (CPU time of this
process and its workers) and per second.

    dataloader.py FOLDER [--workers 0,1,2] [--rounds 3] [--batch 64] [--limit N]

Exits with 77 where torchvision is not installed."""
import argparse
import resource
import statistics
import sys
import time

try:
    import torch
    import torchvision
    from torchvision import transforms
except ImportError as missing:
    print(f"dataloader.py: skipped, {missing} (apt install python3-torchvision)")
    sys.exit(77)


def cpu_seconds():
    """Of this process and of workers that have ended and been waited for."""
    me = resource.getrusage(resource.RUSAGE_SELF)
    workers = resource.getrusage(resource.RUSAGE_CHILDREN)
    return me.ru_utime + me.ru_stime + workers.ru_utime + workers.ru_stime


def one_round(data, workers, batch):
    loader = torch.utils.data.DataLoader(data, batch_size=batch, shuffle=True, num_workers=workers)
    cpu, wall, served = cpu_seconds(), time.monotonic(), 0
    for x, _ in loader:
        served += len(x)
    del loader  # ends the workers, so that their CPU time is counted
    return served / (cpu_seconds() - cpu), served / (time.monotonic() - wall)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("folder")
    args.add_argument("--workers", default="0,1,2")
    args.add_argument("--rounds", type=int, default=3)
    args.add_argument("--batch", type=int, default=64)
    args.add_argument("--limit", type=int, default=0)
    args = args.parse_args()
    torch.set_num_threads(1)
    data = torchvision.datasets.ImageFolder(args.folder, transforms.Compose([
        transforms.RandomResizedCrop(224),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]))
    if args.limit:
        data = torch.utils.data.Subset(data, range(min(args.limit, len(data))))
    for workers in map(int, args.workers.split(",")):
        rounds = [one_round(data, workers, args.batch) for _ in range(args.rounds)]
        core = sorted(r[0] for r in rounds)
        wall = statistics.median(r[1] for r in rounds)
        print(f"dataloader-{workers}-workers {statistics.median(core):.0f} samples/core-s "
              f"[{core[0]:.0f}..{core[-1]:.0f}], {wall:.0f}/s", flush=True)


if __name__ == "__main__":
    main()
