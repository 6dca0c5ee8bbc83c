"""Windows of tokens from one file: gigabytes a second of processor time, larder's `window:` and slices of a memmap in
one run, in turn.

    python3 bench/bench_windows.py [MEBIBYTES] [ROUNDS]

1,024 tokens of 16 bits a window and the same one later, batches of 64, in random order, from the page cache. What is
counted is what a batch holds (x and y, in the type they are stored in). The peer gathers rows of a numpy.memmap and
stacks them, as a small GPT's get_batch does."""

import os
import resource
import statistics
import sys
import tempfile
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))

import numpy  # noqa: E402

import larder  # noqa: E402

LENGTH, BATCH = 1024, 64


def cpu():
    return sum(resource.getrusage(resource.RUSAGE_SELF)[:2])


def ours(path, seed, cache):
    with larder.Loader(f"window:length={LENGTH}:raw:{path}?dtype=u16", BATCH, cache=cache, threads=1, seed=seed,
                       torch=False) as loader:
        for _ in loader:  # warm, and its cache full
            pass
        began, held = cpu(), 0
        for _ in range(2):
            for batch in loader:
                held += batch.x.nbytes + batch.y.nbytes
        return held / (cpu() - began) / 1e9


def theirs(path, seed):
    data, rng = numpy.memmap(path, "uint16", "r"), numpy.random.default_rng(seed)
    windows = (len(data) - 1) // LENGTH
    began, held = cpu(), 0
    for _ in range(2):
        order = rng.permutation(windows) * LENGTH
        for k in range(0, windows, BATCH):
            x = numpy.stack([data[i : i + LENGTH] for i in order[k : k + BATCH]])
            y = numpy.stack([data[i + 1 : i + 1 + LENGTH] for i in order[k : k + BATCH]])
            held += x.nbytes + y.nbytes
    return held / (cpu() - began) / 1e9


def main():
    size, rounds = (int(sys.argv[k]) if len(sys.argv) > k else usual for k, usual in ((1, 128), (2, 5)))
    warnings.simplefilter("ignore", larder.LarderWarning)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tokens.bin")
        numpy.random.default_rng(1).integers(0, 50257, size << 19, dtype="uint16").tofile(path)
        rates = {"a memmap's rows, stacked": [], "larder, no cache": [], "larder, all in its cache": []}
        for seed in range(rounds):
            for values, rate in zip(rates.values(), (theirs(path, seed), ours(path, seed, "0"), ours(path, seed, "4GiB"))):
                values.append(rate)
    for name, values in rates.items():
        print(f"windows: {name}: {statistics.median(values):.2f} GB a core-second [{min(values):.2f}..{max(values):.2f}]")


if __name__ == "__main__":
    main()
