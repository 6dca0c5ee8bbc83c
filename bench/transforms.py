#!/usr/bin/env python3
"""Transforms of pixels: torchvision's in a DataLoader against larder's, samples per core-second (CPU time of the
process and its workers), round by round in turn, as ratios.

    transforms.py FOLDER [--rounds 5] [--batch 64] [--passes 6]

FOLDER has photographs in folders by class. Both read files that the system has in memory; larder's cache is off.
Exits with 77 where torchvision is not installed."""
import argparse
import os
import resource
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
try:
    import torch
    import torchvision
    from torchvision import transforms as T
except ImportError as missing:
    print(f"transforms.py: skipped, {missing} (apt install python3-torchvision)")
    sys.exit(77)
import larder  # noqa: E402

BEFORE = [T.RandomResizedCrop(224), T.RandomHorizontalFlip()]
AFTER = [T.ToTensor(), T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
CASES = {
    "plain": [],
    "randaugment": [T.RandAugment()],
    "colorjitter": [T.ColorJitter(0.4, 0.4, 0.4, 0.1)],
    "trivialaugment": [T.TrivialAugmentWide()],
    "simclr": [T.RandomApply([T.ColorJitter(0.8, 0.8, 0.8, 0.2)], 0.8), T.RandomGrayscale(0.2),
               T.GaussianBlur(23, (0.1, 2.0))],
}


def cpu_seconds():
    """Of this process and of workers that have ended and been waited for."""
    me = resource.getrusage(resource.RUSAGE_SELF)
    workers = resource.getrusage(resource.RUSAGE_CHILDREN)
    return me.ru_utime + me.ru_stime + workers.ru_utime + workers.ru_stime


def theirs(folder, chain, batch, passes):
    data = torchvision.datasets.ImageFolder(folder, chain)
    start, served = cpu_seconds(), 0
    for _ in range(passes):
        for x, _ in torch.utils.data.DataLoader(data, batch, shuffle=True, num_workers=2):
            served += len(x)
    return served / (cpu_seconds() - start)


def ours(folder, chain, batch, passes, seed):
    with larder.Loader(folder, batch, cache="0", augment=chain, threads=2, seed=seed) as loader:
        next(iter(loader))  # opened and warm
        start, served = cpu_seconds(), 0
        for _ in range(passes):
            for b in loader:
                served += len(b.x)
        return served / (cpu_seconds() - start)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("folder")
    args.add_argument("--rounds", type=int, default=5)
    args.add_argument("--batch", type=int, default=64)
    args.add_argument("--passes", type=int, default=6)
    args.add_argument("--case", default=",".join(CASES))
    args = args.parse_args()
    torch.set_num_threads(1)
    for name in args.case.split(","):
        chain = T.Compose(BEFORE + CASES[name] + AFTER)
        a, b = [], []
        for i in range(args.rounds):
            a.append(theirs(args.folder, chain, args.batch, args.passes))
            b.append(ours(args.folder, chain, args.batch, args.passes, i))
        ratio = sorted(y / x for x, y in zip(a, b))
        print(f"transforms-{name} larder {statistics.median(b):.0f} torchvision {statistics.median(a):.0f} "
              f"samples/core-s, {statistics.median(ratio):.2f} times [{ratio[0]:.2f}..{ratio[-1]:.2f}]", flush=True)


if __name__ == "__main__":
    main()
