#!/usr/bin/env python3
"""A Dataset and a transform of one's own, through larder and through PyTorch's DataLoader, in turns in one run.

    bench/own_code.py [--rounds 5] [--workers 2] [--samples 1024] [--side 224]

Three tables: (1) pictures (JPEG in memory, decoded by PIL, cropped, flipped, to a tensor) with a training step of
fixed length: what training waits, and the CPU time of a sample in all processes; (2) the same without a step; (3) a
Dataset that does nothing but give (3x32x32, number): what a sample costs more than calling the Dataset does. Medians
of the rounds, and their spread. PyTorch goes by default_collate in its workers, larder with cache="0" (every sample
is read anew) and with the cache that is its default."""

import argparse
import io
import os
import random
import resource
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))

import larder  # noqa: E402
import numpy  # noqa: E402
import torch  # noqa: E402
from PIL import Image  # noqa: E402


class Pictures(torch.utils.data.Dataset):
    def __init__(self, samples, side):
        rng = numpy.random.default_rng(1)
        self.files, self.side, self.targets = [], side, []
        for i in range(64):
            small = rng.integers(0, 255, (24, 32, 3), dtype="uint8")
            out = io.BytesIO()
            Image.fromarray(small).resize((400, 300), Image.BICUBIC).save(out, "JPEG", quality=90)
            self.files.append(out.getvalue())
        self.targets = [i % 10 for i in range(samples)]

    def __len__(self):
        return len(self.targets)

    def raw(self, i):
        return self.files[i % len(self.files)]

    def decode(self, raw, i):
        return Image.open(io.BytesIO(raw)).convert("RGB"), self.targets[i]

    def augment(self, sample):
        picture, y = sample
        w, h = picture.size
        s = random.randint(h // 2, h)
        x0, y0 = random.randint(0, w - s), random.randint(0, h - s)
        picture = picture.resize((self.side, self.side), Image.BILINEAR, box=(x0, y0, x0 + s, y0 + s))
        if random.random() < 0.5:
            picture = picture.transpose(Image.FLIP_LEFT_RIGHT)
        a = torch.from_numpy(numpy.array(picture)).permute(2, 0, 1).contiguous()
        return a.float().div_(255), y

    def __getitem__(self, i):
        return self.augment(self.decode(self.raw(i), i))


class Small(torch.utils.data.Dataset):
    def __init__(self, samples):
        self.x = torch.rand(1024, 3, 32, 32)
        self.targets = [i % 10 for i in range(samples)]

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, i):
        return self.x[i % 1024], self.targets[i]


def cpu():
    """Seconds of this process and of all that it started and that have ended."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def use(opened, step, epochs):
    """Seconds waited, in all, and on processors, of a sample."""
    begun, burnt, n, waited = None, cpu(), 0, 0.0
    with opened() as loader:
        for _ in range(epochs):
            it = iter(loader)
            while True:
                t = time.perf_counter()
                b = next(it, None)
                if b is None:
                    break
                x, y = b
                now = time.perf_counter()
                if begun is None:
                    begun, n = now, -len(y)  # it begins when the first is there
                else:
                    waited += now - t
                n += len(y)
                if step:
                    time.sleep(step)
        wall = time.perf_counter() - begun
    return waited / n, wall / n, (cpu() - burnt) / (n + len(y))


class Theirs:
    def __init__(self, ds, batch, workers):
        self.loader = torch.utils.data.DataLoader(
            ds, batch, shuffle=True, num_workers=workers, persistent_workers=True, prefetch_factor=4
        )

    def __enter__(self):
        return self.loader

    def __exit__(self, *what):
        self.loader._iterator._shutdown_workers()
        self.loader = None


def compare(title, ways, rounds, step, epochs):
    print(f"\n{title}\n{'':28}{'waited us':>22}{'wall us':>22}{'CPU us':>22}   a sample")
    seen = {name: [] for name in ways}
    for r in range(rounds):
        for name in sorted(ways, key=lambda k: (hash((k, r)))):
            seen[name].append([v * 1e6 for v in use(ways[name], step, epochs)])
    first = next(iter(ways))
    for name, rows in seen.items():
        cells = []
        for k in range(3):
            column = [row[k] for row in rows]
            cells.append(f"{statistics.median(column):9.1f} ({min(column):.0f}-{max(column):.0f})".rjust(22))
        print(f"{name:28}{''.join(cells)}")
    for name in list(ways)[1:]:
        ratios = [statistics.median([a[k] / max(b[k], 1e-3) for a, b in zip(seen[name], seen[first])]) for k in range(3)]
        spread = [[a[2] / b[2] for a, b in zip(seen[name], seen[first])]]
        print(f"{name + ' : ' + first:44} waited {ratios[0]:.2f}, wall {ratios[1]:.2f}, CPU {ratios[2]:.3f} "
              f"({min(spread[0]):.3f}-{max(spread[0]):.3f})")
    return seen


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--samples", type=int, default=1024)
    p.add_argument("--side", type=int, default=224)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--only", choices=["pictures", "small"])
    a = p.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, {a.workers} workers, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")

    if a.only != "small":
        ds = Pictures(a.samples, a.side)

        def ours(cache, **more):
            return larder.Loader(dataset=ds, batch_size=a.batch, cache=cache, workers=a.workers, encoded="raw",
                                 decode=ds.decode, transform=ds.augment, epochs=2, **more)

        t = time.perf_counter()
        for i in range(200):
            ds[i]
        each = (time.perf_counter() - t) / 200
        print(f"dataset[i] takes {each * 1e6:.0f} us")
        ways = {
            "DataLoader": lambda: Theirs(ds, a.batch, a.workers),
            'larder, cache="0"': lambda: ours("0"),
            "larder": lambda: ours("20%"),
        }
        step = each * a.batch / a.workers * 1.3
        compare(f"pictures, a step of {step * 1e3:.0f} ms", ways, a.rounds, step, 2)
        compare("pictures, no step", ways, a.rounds, 0, 2)

    if a.only != "pictures":
        small, n = Small(a.samples * 16), a.samples * 16
        direct, more = [], {"workers 1": [], "workers 0": []}
        for _ in range(a.rounds):
            t, c = time.perf_counter(), cpu()
            for i in range(n):
                small[i]
            direct.append(((time.perf_counter() - t) / n * 1e6, (cpu() - c) / n * 1e6))
            for k, name in ((1, "workers 1"), (0, "workers 0")):
                _, wall, burnt = use(
                    lambda: larder.Loader(dataset=small, batch_size=256, cache="0", workers=k, threads=2, epochs=2),
                    0, 2)
                more[name].append((wall * 1e6, burnt * 1e6))
        print(f"\nDataset of (3x32x32, number), called directly: {statistics.median(d[0] for d in direct):.2f} us wall")
        for name, rows in more.items():
            for k, what in enumerate(("wall", "CPU")):
                over = [r[k] - d[k] for r, d in zip(rows, direct)]
                print(f"  through larder, {name}, {what}: {statistics.median(over):.1f} us more "
                      f"({min(over):.1f}-{max(over):.1f})")


if __name__ == "__main__":
    main()
