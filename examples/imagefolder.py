"""A folder of pictures, a folder a class, the way ImageNet is laid out; your own network.

    python3 examples/imagefolder.py photos/train photos/val --recipe minio --cache 8GiB
    python3 examples/imagefolder.py photos/train photos/val --workers 8     # a DataLoader, larder inside

The first way is larder.Loader; with --workers the same pictures go through torch's DataLoader, whose
workers share one cache."""

import argparse
import os
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import larder  # noqa: E402


def network(classes):
    """Small, so that the example runs anywhere; take yours."""
    layers, before = [], 3
    for width in (32, 64, 128, 256):
        layers += [nn.Conv2d(before, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU()]
        before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("train")
    p.add_argument("val", nargs="?")
    p.add_argument("--recipe", default="minio")
    p.add_argument("--cache", default="20%")
    p.add_argument("--size", type=int, default=224)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--workers", type=int, help="use a DataLoader with so many processes")
    a = p.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    where = device if device == "cuda" else None
    augment = [f"rrc:size={a.size}", "flip", "normalize:preset=imagenet"]

    if a.workers is None:
        train = larder.Loader(
            a.train, a.batch, recipe=a.recipe, cache=a.cache, augment=augment, device=where
        )
        classes = train.classes
    else:
        dataset = larder.Dataset(a.train, cache=a.cache, augment=augment)
        classes = dataset.classes
        train = torch.utils.data.DataLoader(
            dataset, a.batch, shuffle=True, num_workers=a.workers,
            persistent_workers=a.workers > 0, pin_memory=device == "cuda",
        )
    model = network(len(classes)).to(device)
    adam = torch.optim.Adam(model.parameters())
    for epoch in range(a.epochs):
        begun, seen = time.time(), 0
        for x, y in train:
            loss = F.cross_entropy(model(x.to(device)), y.to(device), reduction="none")
            if isinstance(train, larder.Loader):
                train.report(loss=loss)
            adam.zero_grad()
            loss.mean().backward()
            adam.step()
            seen += len(y)
        print(f"epoch {epoch}: {seen} pictures, {seen / (time.time() - begun):.0f} a second")
    if a.val:
        val = larder.Loader(
            a.val, a.batch, shuffle=False, device=where,
            augment=[f"resize:size={a.size * 8 // 7}", f"centercrop:size={a.size}",
                     "normalize:preset=imagenet"],
        )
        model.eval()
        with torch.no_grad():
            right = sum((model(x).argmax(1) == y).sum().item() for x, y in val)
        print(f"{right} of {val.samples} right")


if __name__ == "__main__":
    main()
