#!/usr/bin/env python3
"""A copy of an IDX data set in which a share of the training labels is drawn anew at random, all classes
alike, whatever the pictures show: what a recipe makes of samples that cannot be learned.

    bench/noisy_labels.py /usr/share/datasets/fashion-mnist noisy --share 0.4
    larder train noisy --recipe rotate:h=0.8 --cache 20% --epochs 8

Pictures and the test part are links to the originals. --samples takes the first so many alone, and --share 0
leaves their labels as they are."""

import argparse
import gzip
import os
import random
import sys


def read(path):
    """An IDX file's bytes, unpacked."""
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as f:
        return f.read()


def labels_of(folder):
    names = [n for n in sorted(os.listdir(folder)) if n.startswith("train-labels-idx1-ubyte")]
    if not names:
        sys.exit(f"noisy_labels: no train-labels-idx1-ubyte in {folder}")
    return names[0]


def cut(raw, head, size, samples):
    """The first samples of an IDX file, each of so many bytes behind a head that counts them."""
    if samples:
        raw[4:8] = samples.to_bytes(4, "big")
        del raw[head + samples * size :]
    return raw


def main():
    p = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    p.add_argument("data")
    p.add_argument("out", help="a folder that is made")
    p.add_argument("--share", type=float, default=0.4)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--samples", type=int, help="the first so many of the training part (all)")
    a = p.parse_args()
    chosen = labels_of(a.data)
    raw = cut(bytearray(read(os.path.join(a.data, chosen))), 8, 1, a.samples)
    classes = max(raw[8:]) + 1
    rng = random.Random(a.seed)
    for i in range(8, len(raw)):
        if rng.random() < a.share:
            raw[i] = rng.randrange(classes)
    os.makedirs(a.out)
    for name in os.listdir(a.data):
        if a.samples and name.startswith("train-images-idx3-ubyte"):
            raw_images = read(os.path.join(a.data, name))
            size = int.from_bytes(raw_images[8:12], "big") * int.from_bytes(raw_images[12:16], "big")
            with open(os.path.join(a.out, "train-images-idx3-ubyte"), "wb") as f:
                f.write(cut(bytearray(raw_images), 16, size, a.samples))
        elif name != chosen:
            os.symlink(os.path.realpath(os.path.join(a.data, name)), os.path.join(a.out, name))
    with open(os.path.join(a.out, "train-labels-idx1-ubyte"), "wb") as f:
        f.write(raw)


if __name__ == "__main__":
    main()
