#!/usr/bin/env python3
"""The data sets of bench/gpu, under one folder:

    bench/gpu/sets.py ROOT          makes cifar10-noisy and cifar10-long from ROOT/cifar10

    ROOT/cifar10        CIFAR-10's binary files, data_batch_1.bin … test_batch.bin
    ROOT/cifar10-noisy  the same, 40 % of the training labels drawn anew at random (seed 1), test labels as they were
    ROOT/cifar10-long   the same with class sizes falling from 5000 to 50
    ROOT/tiny           Tiny ImageNet-200 as WebDataset shards, train-*.tar and val-*.tar
"""
import glob
import os
import sys

import numpy as np
import torch

CIFAR = dict(classes=10, side=32, smooth=0., mean=(.4914, .4822, .4465), std=(.2470, .2435, .2616),
             augment="crop:size=32,pad=4|flip")
SETS = {
    "cifar10": CIFAR,
    "cifar10-noisy": CIFAR,
    "cifar10-long": CIFAR,
    "tiny": dict(classes=200, side=64, smooth=.1, mean=(.4802, .4481, .3975), std=(.2770, .2691, .2821),
                 augment="rrc:size=64,scale=0.35/1|flip"),
}


def normalize(s):
    return "normalize:mean={},std={}".format("/".join(map(str, s["mean"])), "/".join(map(str, s["std"])))


def augment(name):
    return SETS[name]["augment"] + "|" + normalize(SETS[name])


def uri(root, name):
    if name != "tiny":
        return "cifar10:" + os.path.join(root, name)
    last = len(glob.glob(os.path.join(root, name, "train-*.tar"))) - 1
    return "tar:" + os.path.join(root, name, f"train-{{000..{last:03d}}}.tar")


def test_set(root, name, device):
    import larder
    s = SETS[name]
    if name == "tiny":
        x, y = [], []
        with larder.Loader("tar:" + os.path.join(root, name, "val-000.tar"), 500, recipe="minio", cache="1MiB",
                           augment=f"resize:h={s['side']},w={s['side']}|" + normalize(s), epochs=1) as loader:
            for b in loader:
                x.append(b.x.clone())
                y.append(b.y.clone())
        return torch.cat(x).to(device), torch.cat(y).to(device)
    raw = np.fromfile(os.path.join(root, name, "test_batch.bin"), np.uint8).reshape(-1, 3073)
    x = torch.from_numpy(raw[:, 1:].reshape(-1, 3, 32, 32).astype(np.float32) / 255)
    x = (x - torch.tensor(s["mean"]).view(1, 3, 1, 1)) / torch.tensor(s["std"]).view(1, 3, 1, 1)
    return x.to(device), torch.from_numpy(raw[:, 0].astype(np.int64)).to(device)


def files(folder):
    return sorted(n for n in os.listdir(folder) if n.startswith("data_batch_") and n.endswith(".bin"))


def copy(root, name, change):
    out = os.path.join(root, name)
    os.makedirs(out)
    for n in files(os.path.join(root, "cifar10")):
        raw = np.fromfile(os.path.join(root, "cifar10", n), np.uint8).reshape(-1, 3073)
        change(raw).tofile(os.path.join(out, n))
    os.link(os.path.join(root, "cifar10", "test_batch.bin"), os.path.join(out, "test_batch.bin"))


def main():
    if len(sys.argv) != 2 or not os.path.isdir(os.path.join(sys.argv[1], "cifar10")):
        sys.exit(__doc__)
    root, rng = sys.argv[1], np.random.default_rng(1)

    def noise(raw):
        hit = rng.random(len(raw)) < .4
        raw[:, 0] = np.where(hit, rng.integers(0, 10, len(raw)), raw[:, 0])
        return raw

    def fall(raw):  # a class keeps 100^(-c/9) of its samples
        return raw[rng.random(len(raw)) < 100 ** (-raw[:, 0].astype(float) / 9)]
    for name, change in (("cifar10-noisy", noise), ("cifar10-long", fall)):
        if not os.path.exists(os.path.join(root, name)):
            copy(root, name, change)


if __name__ == "__main__":
    main()
