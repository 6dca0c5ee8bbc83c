#!/usr/bin/env python3
"""Data sets for bench/gpu/svm_device.py, as LIBSVM text.

    svm_sets.py mnist IMAGES LABELS OUT      IDX files, plain, .gz or .xz; values 0..1
    svm_sets.py cover ROWS OUT               covertype's shape: 10 measured columns, one of 4, one of 40
    svm_sets.py plain IN OUT                 what is packed as .xz, .gz or .bz2, as it is
"""

import bz2
import gzip
import lzma
import sys

import numpy as np


def read(path):
    opener = {"xz": lzma.open, "gz": gzip.open, "bz2": bz2.open}.get(path.rsplit(".", 1)[-1], open)
    with opener(path, "rb") as f:
        return f.read()


def mnist(images, labels, out):
    x = np.frombuffer(read(images), np.uint8, offset=16).reshape(-1, 784)
    y = np.frombuffer(read(labels), np.uint8, offset=8)
    # As LIBSVM's own mnist.scale has them: value / 255.
    word = [[f"{i + 1}:{v / 255:.8g}" for v in range(256)] for i in range(784)]
    with open(out, "w") as f:
        for row, label in zip(x, y):
            at = np.flatnonzero(row)
            f.write(f"{label} " + " ".join([word[i][row[i]] for i in at]) + "\n")


def cover(rows, out, seed=7):
    """Two classes whose border bends and is not sharp."""
    rows = int(rows)
    r = np.random.default_rng(seed)
    kind = r.integers(0, 12, rows)  # terrains: where in the ten columns a row lies
    centre = r.uniform(0.2, 0.8, (12, 10))
    x = np.clip(centre[kind] + r.normal(0, 0.12, (rows, 10)), 0, 1)
    area = (kind + r.integers(0, 2, rows)) % 4
    soil = (3 * kind + r.integers(0, 6, rows)) % 40
    w = r.normal(0, 1, (10, 8))
    score = np.sin(2 * x @ w) @ r.normal(0, 1, 8) + 0.3 * np.sin(soil) + 0.3 * np.cos(2.0 * area)
    score -= np.median(score)
    y = np.where(score + r.normal(0, 0.02 * np.std(score), rows) > 0, 1, 2)
    with open(out, "w") as f:
        for i in range(rows):
            v = x[i]
            f.write(
                f"{y[i]} "
                + " ".join([f"{j + 1}:{v[j]:.4f}" for j in range(10)])
                + f" {11 + area[i]}:1 {15 + soil[i]}:1\n"
            )


def plain(path, out):
    with open(out, "wb") as f:
        f.write(read(path))


if __name__ == "__main__":
    {"mnist": mnist, "cover": cover, "plain": plain}[sys.argv[1]](*sys.argv[2:])
