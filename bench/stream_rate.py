#!/usr/bin/env python3
"""How fast does the recipe stream read, against reading the same shards from end to end, and by how many requests?

    bench/stream_rate.py FOLDER [--samples 8000] [--bytes 110000] [--slow bandwidth=100MB,latency=30ms] [--rounds 3]

Makes tar shards of 14 MB with random bytes in FOLDER (kept for the next time) and takes turns with: dd over the
shards; larder one after the other (sampler=sequential); stream with a cache of 20 %; random reads (minio without a
cache). Without --slow the shards are put out of the page cache before each. One line of JSON each: MB/s of the
median of the rounds, requests of an epoch.
"""
import argparse
import glob
import io
import json
import os
import statistics
import subprocess
import sys
import tarfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import larder  # noqa: E402

def make(a):
    each = max(1, 14 * 10**6 // a.bytes)
    for s in range((a.samples + each - 1) // each):
        path = os.path.join(a.folder, f"s-{s:04d}.tar")
        if os.path.exists(path):
            continue
        with tarfile.open(path + ".part", "w", format=tarfile.USTAR_FORMAT) as t:
            for i in range(s * each, min((s + 1) * each, a.samples)):
                member = tarfile.TarInfo(f"{i:08d}.bin")
                member.size = a.bytes
                t.addfile(member, io.BytesIO(os.urandom(a.bytes)))
        os.rename(path + ".part", path)
    os.sync()
    return sorted(glob.glob(os.path.join(a.folder, "s-*.tar")))


def forget(shards):
    for path in shards:
        fd = os.open(path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def dd(shards):
    begun = time.monotonic()
    for path in shards:
        subprocess.run(["dd", f"if={path}", "of=/dev/null", "bs=8M"], check=True, stderr=subprocess.DEVNULL)
    return time.monotonic() - begun, sum((os.path.getsize(p) + (8 << 20) - 1) // (8 << 20) for p in shards)


def through_larder(a, recipe, cache):
    slow = f"slow:{a.slow}:" if a.slow else ""
    loader = larder.Loader(f"{slow}tar:{a.folder}/s-*.tar", a.batch, fields="bin", recipe=recipe, cache=cache, seed=1,
                           epochs=a.epochs)
    begun = time.monotonic()
    for _ in range(a.epochs):
        for _ in loader:
            pass
    seconds = time.monotonic() - begun
    requests = sum(loader.figures(e)["requests"] for e in range(a.epochs))
    read = sum(loader.figures(e)["storage_bytes"] for e in range(a.epochs))
    loader.close()
    return seconds / a.epochs, requests / a.epochs, read / a.epochs


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder")
    p.add_argument("--samples", type=int, default=8000)
    p.add_argument("--bytes", type=int, default=110000)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--slow", default="")
    p.add_argument("--random", action="store_true", help="random reads too, which take long where storage is slow")
    a = p.parse_args()
    os.makedirs(a.folder, exist_ok=True)
    shards = make(a)
    payload = a.samples * a.bytes
    ways = {"sequential": ("lru:sampler=sequential", "0"), "stream": ("stream", "20%")}
    if a.random:
        ways["random"] = ("minio", "0")
    took = {name: [] for name in ["dd", *ways]}
    requests, read = {}, {}
    for _ in range(a.rounds):
        if not a.slow:
            forget(shards)
            seconds, requests["dd"] = dd(shards)
            took["dd"].append(seconds)
            read["dd"] = payload
        for name, (recipe, cache) in ways.items():
            if not a.slow:
                forget(shards)
            seconds, requests[name], read[name] = through_larder(a, recipe, cache)
            took[name].append(seconds)
    for name, seconds in took.items():
        if seconds:
            print(json.dumps({"way": name, "MB/s": round(payload / statistics.median(seconds) / 1e6, 1),
                              "seconds": [round(s, 2) for s in seconds], "requests": round(requests[name]),
                              "read MB": round(read[name] / 1e6)}), flush=True)


if __name__ == "__main__":
    main()
