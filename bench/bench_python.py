#!/usr/bin/env python3
"""larder.Loader against torch's DataLoader + torchvision, in one run, round about.

    bench_python.py [--photos FOLDER] [--cifar FOLDER] [--count 300] [--rounds 5] [--workers 0,1,2]

Photographs: RandomResizedCrop(224), flip, normalise, of the same files. CIFAR-10: crop with a margin of 4,
flip, normalise. W workers against W threads (0: one thread of its own either way). Samples per core-second
(CPU time of all processes), medians and the spread of the ratio; then how much of steps of 20 us a sample is
spent waiting, and memory (PSS). Without folders it takes ../shared/data, unpacked into a temporary one.
Ends with 77 where torchvision or the data are missing."""

import argparse
import os
import resource
import statistics
import sys
import tarfile
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))
os.environ.pop("LARDER_SOCKET", None)
try:
    import torch
    import torchvision
    from torchvision import transforms as T
except ImportError as missing:
    print(f"bench_python: skipped, {missing} (apt install python3-torchvision)")
    sys.exit(77)

import larder  # noqa: E402

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def cpu_seconds():
    total = 0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        r = resource.getrusage(who)
        total += r.ru_utime + r.ru_stime
    return total


def unpack_photos(to, count):
    archives = sorted((ROOT.parent / "shared" / "data" / "jpeg").glob("*.tar"))
    shared = os.environ.get("LARDER_SHARED")
    if shared:
        archives = sorted((Path(shared) / "jpeg").glob("*.tar"))
    folder = Path(to) / "photos" / "all"
    folder.mkdir(parents=True)
    done = 0
    for archive in archives:
        with tarfile.open(archive) as tar:
            for member in tar:
                if done < count and member.isfile() and member.name.endswith((".jpg", ".jpeg", ".JPEG")):
                    (folder / f"{done}.jpg").write_bytes(tar.extractfile(member).read())
                    done += 1
    return folder.parent if done else None


def find_cifar(to):
    import lzma

    base = Path(os.environ.get("LARDER_SHARED") or ROOT.parent / "shared" / "data")
    source = base / "cifar-10-binary"
    if not source.exists():
        return None
    folder = Path(to) / "cifar"
    folder.mkdir()
    for file in source.iterdir():
        data = lzma.open(file).read() if file.suffix == ".xz" else file.read_bytes()
        (folder / file.name.replace(".xz", "")).write_bytes(data)
    return folder


class Cifar(torch.utils.data.Dataset):
    """As torchvision's CIFAR10 does it: an array, a PIL image, transforms."""

    def __init__(self, folder, transform):
        import numpy

        raw = numpy.fromfile(Path(folder) / "data_batch_1.bin", "uint8").reshape(-1, 3073)
        self.y = raw[:, 0].astype("int64")
        self.x = numpy.ascontiguousarray(raw[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        self.transform = transform

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        from PIL import Image

        return self.transform(Image.fromarray(self.x[i])), self.y[i]


def through_torch(data, batch, workers):
    loader = torch.utils.data.DataLoader(data, batch, shuffle=True, num_workers=workers)
    cpu, wall, n = cpu_seconds(), time.monotonic(), 0
    for x, y in loader:
        n += len(y)
    del loader  # ends the workers, so that their time is counted
    return n / (cpu_seconds() - cpu), n / (time.monotonic() - wall)


def through_larder(uri, batch, augment, threads, epochs=1):
    loader = larder.Loader(uri, batch, recipe="minio", cache="20%", augment=augment, threads=threads)
    cpu, wall, n = cpu_seconds(), time.monotonic(), 0
    for _ in range(epochs):
        for x, y in loader:
            n += len(y)
    del x, y
    loader.close()
    return n / (cpu_seconds() - cpu), n / (time.monotonic() - wall)


def compare(name, torch_way, larder_way, workers, rounds, asked):
    for w in workers:
        pairs = []
        for _ in range(rounds):
            pairs.append((torch_way(w), larder_way(max(w, 1))))
        a = statistics.median(p[0][0] for p in pairs)
        b = statistics.median(p[1][0] for p in pairs)
        ratios = sorted(p[1][0] / p[0][0] for p in pairs)
        walls = statistics.median(p[1][1] / p[0][1] for p in pairs)
        print(
            f"{name}, {w} workers/{max(w, 1)} threads: DataLoader {a:.0f}, larder {b:.0f} samples a "
            f"core-second: {statistics.median(ratios):.1f} times ({ratios[0]:.1f} to {ratios[-1]:.1f}; "
            f"asked {asked}), {walls:.1f} times by the clock",
            flush=True,
        )


def pss():
    with open("/proc/self/smaps_rollup") as f:
        return next(int(x.split()[1]) for x in f if x.startswith("Pss:")) / 1024


def stall(uri, augment, batch):
    """Share of a step of 20 us a sample that training waits, after the first epoch."""
    with larder.Loader(uri, batch, recipe="minio", augment=augment) as l:
        before = pss()
        waited = steps = 0.0
        for epoch in range(3):
            begun = time.monotonic()
            it = iter(l)
            while True:
                t = time.monotonic()
                b = next(it, None)
                if epoch:
                    waited += time.monotonic() - t
                if b is None:
                    break
                time.sleep(20e-6 * b.n)
            steps += time.monotonic() - begun if epoch else 0
        print(
            f"cifar, steps of 20 us a sample: {100 * waited / steps:.1f} % of the time waiting; memory "
            f"{before:.0f} MiB after opening, {pss():.0f} MiB after three epochs (PSS)"
        )


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--photos")
    p.add_argument("--cifar")
    p.add_argument("--count", type=int, default=300)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--workers", default="0,1,2")
    a = p.parse_args()
    torch.set_num_threads(1)
    workers = [int(w) for w in a.workers.split(",")]
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, torch {torch.__version__}")
    with tempfile.TemporaryDirectory(prefix="larder-bench-") as folder:
        photos = a.photos or unpack_photos(folder, a.count)
        cifar = a.cifar or find_cifar(folder)
        if not photos and not cifar:
            print("bench_python: skipped, no data (--photos FOLDER, --cifar FOLDER)")
            sys.exit(77)
        if photos and "-jpeg" in larder.features().split():
            print("bench_python: photographs left out, this build has no libjpeg")
            photos = None
        if photos:
            data = torchvision.datasets.ImageFolder(
                str(photos),
                T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(),
                           T.Normalize(MEAN, STD)]),
            )
            stages = ["rrc:size=224", "flip", "normalize:preset=imagenet"]
            compare(
                "photographs",
                lambda w: through_torch(data, 64, w),
                lambda t: through_larder(f"dir:{photos}", 64, stages, t, 2),
                workers, a.rounds, "2.8",
            )
        if cifar:
            data = Cifar(
                cifar,
                T.Compose([T.RandomCrop(32, padding=4), T.RandomHorizontalFlip(), T.ToTensor(),
                           T.Normalize(MEAN, STD)]),
            )
            stages = ["crop:size=32,pad=4", "flip", "normalize:preset=cifar10"]
            compare(
                "cifar",
                lambda w: through_torch(data, 256, w),
                lambda t: through_larder(f"cifar10:{cifar}", 256, stages, t, 2),
                workers, a.rounds, "40",
            )
            stall(f"cifar10:{cifar}", stages, 256)


if __name__ == "__main__":
    main()
