#!/usr/bin/env python3
"""Data for bench/gpu/feed.py: photographs as a folder, tar shards, packed and shrunk.

    bench/gpu/pictures.py SOURCE OUT [--count 10000] [--links 8] [--larder build/larder]

SOURCE holds JPEGs whose names begin with their class, as n01440764_tench.JPEG (the public repository
EliSchwartz/imagenet-sample-images has one of each class of ImageNet, 1,000 in all); .tar files of such pictures will
do as well. They are taken as they are, and then again and again as SYNTHETIC ones until there are --count different
files: a crop of 90 to 100 % of each side, flipped or not, encoded with the picture's own tables, somewhat finer,
so that files are as large as before. The same seed makes the same files. OUT gets

    once/CLASS/NAME.jpg      every file
    folder/CLASS/NAME.jpg    every file under --links names (hard links), so that an epoch is long
    tar/train-NNNNNN.tar     the same as WebDataset shards
    packed/                  larder pack
    shrunk/                  larder pack --max-side 400 --quality 85: smaller pictures, pixels differ
    about.json               how many, how large
"""
import argparse
import io
import json
import multiprocessing
import os
import random
import statistics
import subprocess
import sys
import tarfile

try:
    from PIL import Image, JpegImagePlugin
except ImportError as missing:
    print(f"pictures.py: skipped, {missing} (apt install python3-pil)")
    sys.exit(77)

FINER = .82  # of quantisation: a crop has fewer pixels, and its files should be as large


def originals(source):
    """Name and bytes of each picture, sorted by name."""
    found = {}
    for folder, _, names in os.walk(source):
        for name in names:
            path = os.path.join(folder, name)
            if name.endswith(".tar"):
                with tarfile.open(path) as tar:
                    for member in tar:
                        if member.isfile() and member.name.lower().endswith((".jpg", ".jpeg")):
                            found[os.path.basename(member.name)] = tar.extractfile(member).read()
            elif name.lower().endswith((".jpg", ".jpeg")):
                with open(path, "rb") as f:
                    found[name] = f.read()
    return sorted(found.items())


def another(data, chance):
    """A synthetic picture: part of one, encoded again."""
    picture = Image.open(io.BytesIO(data))
    tables = {k: [max(1, round(v * FINER)) for v in t] for k, t in picture.quantization.items()}
    sampling = JpegImagePlugin.get_sampling(picture)
    w, h = picture.size
    cw, ch = (max(1, round(side * chance.uniform(.9, 1))) for side in (w, h))
    x, y = chance.randrange(w - cw + 1), chance.randrange(h - ch + 1)
    picture = picture.convert("L" if picture.mode == "L" else "RGB").crop((x, y, x + cw, y + ch))
    if chance.random() < .5:
        picture = picture.transpose(Image.FLIP_LEFT_RIGHT)
    out = io.BytesIO()
    picture.save(out, "JPEG", qtables=tables, subsampling=sampling if sampling >= 0 else 0, optimize=True)
    return out.getvalue()


def make(job):
    number, name, data, seed, out, links = job
    kind = name.split("_")[0].split(".")[0]
    synthetic = number >= 0
    if synthetic:
        data = another(data, random.Random(seed * 1_000_003 + number))
    stem = os.path.splitext(name)[0] + (f"-synthetic{number:06d}" if synthetic else "")
    first = os.path.join(out, "once", kind, stem + ".jpg")
    for folder in ("once", "folder"):
        os.makedirs(os.path.join(out, folder, kind), exist_ok=True)
    with open(first, "wb") as f:
        f.write(data)
    for i in range(links):
        os.link(first, os.path.join(out, "folder", kind, f"{stem}-{i}.jpg"))
    return first, len(data)


def add_member(tar, name, data):
    member = tarfile.TarInfo(name)
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))


def write_tars(out, files, shards, links):
    """Shuffled, as shards are; labels are the numbers of the sorted class folders, as everywhere."""
    os.makedirs(os.path.join(out, "tar"), exist_ok=True)
    label = {k: i for i, k in enumerate(sorted({os.path.basename(os.path.dirname(f)) for f in files}))}
    files = random.Random(1).sample(files, len(files))
    shards = min(shards, len(files))
    for s in range(shards):
        path = os.path.join(out, "tar", f"train-{s:06d}.tar")
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
            for i, f in enumerate(files[s::shards]):
                with open(f, "rb") as picture:
                    add_member(tar, f"{s:06d}{i:06d}.jpg", picture.read())
                add_member(tar, f"{s:06d}{i:06d}.cls", str(label[os.path.basename(os.path.dirname(f))]).encode())
        for k in range(1, links):
            os.link(path, os.path.join(out, "tar", f"train-{k * shards + s:06d}.tar"))
    return shards


def pack(larder, source, to, links, *options):
    """Packs each file once; shards get further names as everything else."""
    subprocess.run([larder, "pack", source, to, "--quiet", "--shard-size", "64MiB", *options], check=True)
    shards = sorted(f[:-len(".tar")] for f in os.listdir(to) if f.endswith(".tar"))
    for k in range(1, links):
        for i, shard in enumerate(shards):
            for end in (".tar", ".larder"):
                os.link(os.path.join(to, shard + end), os.path.join(to, f"shard-{k * len(shards) + i:06d}{end}"))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("source")
    p.add_argument("out")
    p.add_argument("--count", type=int, default=10000, help="different files")
    p.add_argument("--links", type=int, default=8, help="names of each")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--shards", type=int, default=32)
    p.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--larder", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build/larder"))
    a = p.parse_args()
    about = os.path.join(a.out, "about.json")
    if os.path.exists(about):
        print(f"{a.out} is there already")
        return
    have = originals(a.source)
    if not have:
        p.error(f"no pictures in {a.source}")
    have = have[:a.count]
    jobs = [(-1, name, data, a.seed, a.out, a.links) for name, data in have]
    jobs += [(i, *have[i % len(have)], a.seed, a.out, a.links) for i in range(a.count - len(have))]
    with multiprocessing.Pool(a.jobs) as pool:
        made = pool.map(make, jobs, chunksize=16)
    files = [f for f, _ in made]
    real, synthetic = [n for _, n in made[:len(have)]], [n for _, n in made[len(have):]]
    shards = write_tars(a.out, files, a.shards, a.links)
    # Packed from the tars, which have each file once.
    once = f"tar:{a.out}/tar/train-{{{0:06d}..{shards - 1:06d}}}.tar"
    pack(a.larder, once, os.path.join(a.out, "packed"), a.links)
    pack(a.larder, once, os.path.join(a.out, "shrunk"), a.links, "--max-side", "400", "--quality", "85")
    os.sync()  # what is not written yet stays in the page cache, whatever is asked
    told = {"files": len(files), "originals": len(real), "synthetic": len(synthetic), "links": a.links,
            "mean_bytes": round(statistics.mean(real + synthetic)), "mean_original": round(statistics.mean(real)),
            "mean_synthetic": round(statistics.mean(synthetic)) if synthetic else None, "shards": shards * a.links}
    with open(about, "w") as f:
        json.dump(told, f)
    print(json.dumps(told))


if __name__ == "__main__":
    main()
