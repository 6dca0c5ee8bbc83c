#!/usr/bin/env python3
"""What a disk tier brings to training from an object store: the same loader without and with it, in one run.

    bench/disk_epochs.py [--samples 2000] [--bytes 110000] [--rate 30MiB] [--rounds 3] [--folder TMP] [--svg FILE]

Shards of incompressible samples lie on an nginx on loopback, read by range requests as from S3, through a
throttle of --rate bytes a second.
Four epochs in batches of 64, no decoding and no training step: an epoch takes what the bytes take. In turn: no
cache; `disk:` for everything, on an empty folder; the same folder again (a warm start); and a memory of a tenth
in front of it. Seconds of each epoch (median and spread over the rounds), ratios to the first loader's, bytes
from storage and written to the disk, and hits by tier. --svg draws hits by tier over epochs, of a disk that
holds half of the data behind a memory of a tenth, cold and then warm."""

import argparse
import io
import os
import random
import shutil
import statistics
import sys
import tarfile
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "support")]
os.environ.setdefault("LARDER_LIBRARY", str(ROOT / "build" / "liblarder.so"))
import web_kit  # noqa: E402

import larder  # noqa: E402


EPOCHS = 4


def shards(folder, samples, size):
    """Tar files of 500 samples each, and what their bytes come to."""
    rng = random.Random(1)
    for first in range(0, samples, 500):
        with tarfile.open(folder / f"part-{first // 500:03}.tar", "w") as tar:
            for i in range(first, min(first + 500, samples)):
                member = tarfile.TarInfo(f"s-{i:06}.bin")
                member.size = size
                tar.addfile(member, io.BytesIO(rng.randbytes(size)))
    return samples * size


def run(source, cache):
    """Seconds and figures of each epoch, and the loader's last word on the disk."""
    loader = larder.Loader(source, 64, cache=cache, fields=["bin"], torch=False, epochs=EPOCHS, seed=5)
    seconds = []
    for _ in range(EPOCHS):
        begun = time.monotonic()
        for _ in loader:
            pass
        seconds.append(time.monotonic() - begun)
    figures = [loader.figures(e) for e in range(EPOCHS)]
    stats = loader.stats()
    loader.close()
    return seconds, figures, stats


def middle(values):
    return f"{statistics.median(values):6.2f} ({min(values):.2f}-{max(values):.2f})"


def table(all_runs, payload):
    plain = all_runs["no cache"]
    print(f"{'':24} " + " ".join(f"{'epoch ' + str(e):>18}" for e in range(EPOCHS)) + "  from storage  to disk")
    for name, runs in all_runs.items():
        cells = [middle([r[0][e] for r in runs]) for e in range(EPOCHS)]
        ratios = [
            statistics.median([p[0][e] / r[0][e] for p, r in zip(plain, runs)]) for e in range(EPOCHS)
        ]
        read = sum(f["storage_bytes"] for f in runs[-1][1]) / payload
        written = runs[-1][2].get("disk_written_bytes", 0) / payload
        print(f"{name:24} " + " ".join(f"{c:>18}" for c in cells) + f"  {read:9.2f}x  {written:9.2f}x")
        print(f"{'  times the first':24} " + " ".join(f"{r:18.2f}" for r in ratios))


def bars(rows, path):
    """Stacked bars: shares of memory, disk and storage in each epoch."""
    wide, high, left, top, under = 640, 200, 48, 40, 40
    kinds = (("memory", "#1b6ca8"), ("disk", "#7fb3d5"), ("storage", "#d9d9d9"))
    step = (wide - left - 12) / len(rows)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{top + high + under}" '
           'font-family="sans-serif" font-size="12">', '<rect width="100%" height="100%" fill="#fff"/>']
    for k, (name, colour) in enumerate(kinds):
        out.append(f'<rect x="{left + 130 * k}" y="12" width="12" height="12" fill="{colour}"/>'
                   f'<text x="{left + 130 * k + 18}" y="22">from {name}</text>')
    for percent in (0, 25, 50, 75, 100):
        y = top + high * (1 - percent / 100)
        out.append(f'<line x1="{left}" x2="{wide - 12}" y1="{y}" y2="{y}" stroke="#eee"/>'
                   f'<text x="{left - 6}" y="{y + 4}" text-anchor="end">{percent} %</text>')
    for i, row in enumerate(rows):
        x, y = left + step * i + step * 0.12, top + high
        for share, (_, colour) in zip(row, kinds):
            y -= share * high
            out.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{step * 0.76:.1f}" height="{share * high:.1f}" '
                       f'fill="{colour}"/>')
        middle_of = x + step * 0.38
        out.append(f'<text x="{middle_of:.1f}" y="{top + high + 16}" text-anchor="middle">run {1 + i // EPOCHS}</text>'
                   f'<text x="{middle_of:.1f}" y="{top + high + 31}" text-anchor="middle">epoch {i % EPOCHS}</text>')
    Path(path).write_text("\n".join([*out, "</svg>", ""]))


def tiers(source, folder, path):
    """Hits by tier over epochs: a disk for half of the data, behind a memory of a tenth; the second run is warm."""
    rows = []
    for _ in range(2):
        for f in run(source, f"10%+disk:{folder}?budget=50%")[1]:
            served = f["hits"] + f["misses"]
            rows.append([f["front_hits"] / served, (f["hits"] - f["front_hits"]) / served, f["misses"] / served])
    bars(rows, path)
    for i, r in enumerate(rows):
        print(f"run {1 + i // EPOCHS} epoch {i % EPOCHS}: memory {100 * r[0]:.1f} disk {100 * r[1]:.1f} "
              f"storage {100 * r[2]:.1f} %")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--samples", type=int, default=2000)
    p.add_argument("--bytes", type=int, default=110000)
    p.add_argument("--rate", default="30MiB")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--folder", help="where shards and caches lie (the system's folder for temporary files)")
    p.add_argument("--svg")
    a = p.parse_args()
    if not web_kit.have_nginx():
        print("disk_epochs: skipped, there is no nginx (apt install nginx-light)")
        sys.exit(77)
    home = Path(tempfile.mkdtemp(prefix="larder-disk-epochs-", dir=a.folder))
    os.environ.update(web_kit.environment(str(home)))
    (home / "shards").mkdir()
    server = web_kit.Nginx(str(home))
    try:
        payload = shards(home / "shards", a.samples, a.bytes)
        last = (a.samples - 1) // 500
        source = f"slow:bandwidth={a.rate}:http://127.0.0.1:{server.port}/shards/part-{{000..{last:03}}}.tar"
        print(f"{a.samples} samples of {a.bytes} bytes, {payload / 1e6:.0f} MB, storage at {a.rate}/s")
        all_runs = {}
        for _ in range(a.rounds):
            disk = home / "disk"
            for name, cache in (("no cache", "0"), ("disk, empty", f"disk:{disk}?budget=100%"),
                                ("disk, from before", f"disk:{disk}"), ("10% + disk, from before", f"10%+disk:{disk}")):
                all_runs.setdefault(name, []).append(run(source, cache))
            shutil.rmtree(disk)
        table(all_runs, payload)
        if a.svg:
            tiers(source, home / "disk", a.svg)
    finally:
        server.close()
        shutil.rmtree(home)


if __name__ == "__main__":
    main()
