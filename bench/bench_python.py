#!/usr/bin/env python3
"""larder.Loader against torch's DataLoader + torchvision, in one run, round about.

    bench_python.py [--photos FOLDER] [--cifar FOLDER] [--count 300] [--rounds 5] [--workers 0,1,2]
    bench_python.py --memory

Photographs: RandomResizedCrop(224), flip, normalise, of the same files, in batches of 64. CIFAR-10: crop with
a margin of 4, flip, normalise, in batches of 256; of the DataLoader a fifth of the samples, the first file, or
it would take minutes. W workers against W threads (0: one thread of its own either way). Two epochs each, from
opening to closing. Samples per core-second (CPU time of all processes), medians and the spread of the ratio.
Then both feed a training whose step, a sleep, takes twice as long as larder needs to fill it: the share of the
time spent in next(), and how much of it larder had no batch ready. Without folders it takes ../shared/data,
unpacked into a temporary one.

--memory: PSS of all processes together (workers and the cache's daemon included) after 2 and after 20 epochs,
larder.Loader and larder.Dataset under a DataLoader of 0, 1, 2 and 4 workers, and the same pictures as a list
of arrays under a DataLoader.

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
    from PIL import Image
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
        return self.transform(Image.fromarray(self.x[i])), self.y[i]


EPOCHS = 2  # of each side: opening files and starting workers weigh the same


def torch_loader(data, batch, workers):
    return torch.utils.data.DataLoader(data, batch, shuffle=True, num_workers=workers,
                                       persistent_workers=workers > 0)


def larder_loader(uri, batch, stages, threads, epochs=0):
    return larder.Loader(uri, batch, recipe="minio", cache="20%", augment=stages, threads=threads, epochs=epochs)


def timed(loader, end):
    """Samples per core-second and per second; `end` ends workers, so that their time is counted."""
    cpu, wall, n = cpu_seconds(), time.monotonic(), 0
    for _ in range(EPOCHS):
        for x, y in loader:
            n += len(y)
    del x, y
    seconds = time.monotonic() - wall
    end(loader)
    return n / (cpu_seconds() - cpu), n / seconds


def stop_workers(loader):
    if loader._iterator is not None:
        loader._iterator._shutdown_workers()


def through_torch(data, batch, workers):
    return timed(torch_loader(data, batch, workers), stop_workers)


def through_larder(uri, batch, stages, threads):
    """Said how many epochs there are, it does not prepare batches of a third, as the DataLoader does not."""
    return timed(larder_loader(uri, batch, stages, threads, EPOCHS), lambda l: l.close())


def compare(name, torch_way, larder_way, torch_loader, larder_loader, workers, rounds, asked):
    for w in workers:
        pairs = []
        for _ in range(rounds):
            pairs.append((torch_way(w), larder_way(max(w, 1))))
        a = statistics.median(p[0][0] for p in pairs)
        b = statistics.median(p[1][0] for p in pairs)
        ratios = sorted(p[1][0] / p[0][0] for p in pairs)
        walls = statistics.median(p[1][1] / p[0][1] for p in pairs)
        step = 2 / statistics.median(p[1][1] for p in pairs)  # seconds a sample
        theirs, _ = waiting(torch_loader(w), step)
        with larder_loader(max(w, 1)) as loader:
            ours, unready = waiting(loader, step)
        print(
            f"{name}, {w} workers/{max(w, 1)} threads: DataLoader {a:.0f}, larder {b:.0f} samples a "
            f"core-second: {statistics.median(ratios):.1f} times ({ratios[0]:.1f} to {ratios[-1]:.1f}; "
            f"asked {asked}), {walls:.1f} times by the clock; of steps of {1e6 * step:.0f} us a sample "
            f"waiting: DataLoader {100 * theirs:.0f} %, larder {100 * ours:.1f} % "
            f"({100 * unready:.1f} % for a batch that was not ready)",
            flush=True,
        )


def unready_seconds(loader):
    """So far, as larder counts them."""
    if not isinstance(loader, larder.Loader):
        return 0.0
    stall = loader.stats()["stall_seconds"]
    return stall["count"] * stall["mean"]


def waiting(loader, step, seconds=2):
    """Shares of the time that training is in next(), and that no batch is ready, once the first epoch is
    over (or half of the time is)."""
    waited = stepped = 0.0
    seconds = max(seconds, 8 * step * loader.batch_size)
    begun, epoch, before = time.monotonic(), 0, None
    while time.monotonic() - begun < seconds:
        it = iter(loader)
        while time.monotonic() - begun < seconds:
            t = time.monotonic()
            counts = epoch or t - begun > seconds / 2
            if counts and before is None:
                before = unready_seconds(loader)
                t = time.monotonic()
            b = next(it, None)
            took = time.monotonic() - t
            if b is None:
                break
            n = step * len(b[1])
            time.sleep(n)
            if counts:
                waited += took
                stepped += n
        epoch += 1
        del it
    whole = max(waited + stepped, 1e-9)
    return waited / whole, (unready_seconds(loader) - (before or 0.0)) / whole


# ---- memory ----------------------------------------------------------------------------------------


def pss(pids):
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/smaps_rollup") as f:
            total += next(int(x.split()[1]) for x in f if x.startswith("Pss:"))
    return total / 1024


def family():
    """This process and all below it."""
    below = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue  # ended meanwhile
            below.setdefault(int(stat.rsplit(")", 1)[1].split()[1]), []).append(int(entry.name))
    found, left = [], [os.getpid()]
    while left:
        found.append(left.pop())
        left += below.get(found[-1], [])
    return found


class Arrays(torch.utils.data.Dataset):
    """Pictures as a list of arrays, as many data sets keep them."""

    def __init__(self, n, shape):
        import numpy

        rng = numpy.random.default_rng(0)
        self.rows = [rng.integers(0, 256, shape, "uint8") for _ in range(n)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i].copy(), 0


def memory():
    """In a child each, so that nobody pays for what another left behind."""
    n, side, epochs = 1600, 96, 20
    uri = f"mem:?n={n}&h={side}&w={side}&c=3"
    print(f"{n} pictures of {side} x {side}, {n * side * side * 3 / 2**20:.0f} MiB, all of it in the cache; "
          "MiB of PSS above the bare program's")

    def line(name, workers, make):
        sys.stdout.flush()
        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)
            return
        before, sizes = pss(family()), []
        loader = make()
        for epoch in range(epochs):
            for x, y in loader:
                x.numpy().sum()
            if epoch + 1 in (2, epochs):
                sizes.append(pss(family()) - before)
        print(f"{name}, {workers}: {sizes[0]:.0f} after 2 epochs, {sizes[1]:.0f} after {epochs}", flush=True)
        if hasattr(loader, "close"):
            loader.close()
        del loader
        from larder._daemon import _daemons

        for d in _daemons.values():
            d.close()
        os._exit(0)

    def keep(data, w):
        return torch.utils.data.DataLoader(data, 50, True, num_workers=w, persistent_workers=w > 0)

    for threads in (1, 2, 4):
        line("larder.Loader", f"{threads} threads", lambda: larder.Loader(
            uri, 50, recipe="minio", cache="100%", dtype="uint8", augment="flip", threads=threads))
    for w in (0, 1, 2, 4):
        line("larder.Dataset in a DataLoader", f"{w} workers", lambda: keep(
            larder.Dataset(uri, cache="100%", dtype="uint8", augment="flip"), w))
    for w in (0, 1, 2, 4):
        line("a list of arrays in a DataLoader", f"{w} workers",
             lambda: keep(Arrays(n, (3, side, side)), w))


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--photos")
    p.add_argument("--cifar")
    p.add_argument("--count", type=int, default=300)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--workers", default="0,1,2")
    p.add_argument("--memory", action="store_true")
    a = p.parse_args()
    torch.set_num_threads(1)
    if a.memory:
        memory()
        return
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
                lambda t: through_larder(f"dir:{photos}", 64, stages, t),
                lambda w: torch_loader(data, 64, w),
                lambda t: larder_loader(f"dir:{photos}", 64, stages, t),
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
                lambda t: through_larder(f"cifar10:{cifar}", 256, stages, t),
                lambda w: torch_loader(data, 256, w),
                lambda t: larder_loader(f"cifar10:{cifar}", 256, stages, t),
                workers, a.rounds, "40",
            )


if __name__ == "__main__":
    main()
