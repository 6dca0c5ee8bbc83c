#!/usr/bin/env python3
"""Where the time of a core goes between a JPEG and a row of a batch, on this machine.

    cmake --build build --target larder bench_stage bench_pack
    bench/gpu/cpu_path.py PICTURES [--results cpu.jsonl] [--seconds 2]

PICTURES are JPEGs, in a folder or tar files; all cases make RandomResizedCrop(224), flip and normalise of them, to
float32, in samples per core-second. In turn:

1. phases of a picture read from a folder, and packed (bench_stage, bench_pack): samples of where the program stands
2. packed against plain, one core (bench_pack)
3. the same work on 1 to all processors at once, those of one core together or apart: what hyper-threads, memory and
   clock take
4. huge pages off, on and asked for
5. the resampling, against Pillow's (or Pillow-SIMD's, where that is installed)
"""
import argparse
import collections
import ctypes
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from feed_cores import order_of  # noqa: E402
from run_lines import add_run  # noqa: E402

PHASES = [("Huffman codes", r"decode_mcu|(read|skip)_blocks|make_pairs|one_of|long_entry|more_plain|copy_plain|make_codes|leap|entropy"),
          ("resample", r"both_ways|^(rows|columns)_(avx|plain)|taps|resample|reach_of"),
          ("normalise and emit", r"^planes|^packed_|^line_|^rows_|emit|normalize|gather"),
          ("cut out of the pack", r"splice|part|pack|crc|sum_block"),
          ("read", r"^kernel$"), ("copies, memory", r"^libc")]
THP_DISABLE = 41  # PR_SET_THP_DISABLE


def symbols(path):
    """Addresses and names of a program's functions, sorted."""
    out = subprocess.run(["nm", "-n", "--defined-only", path], capture_output=True, text=True)
    found = [line.split() for line in out.stdout.splitlines()]
    return [(int(f[0], 16), f[2]) for f in found if len(f) == 3 and f[1] in "tTiW"]


def phase_of(file, at, names):
    base = os.path.basename(file)
    if base in names:
        import bisect

        i = bisect.bisect_right(names[base], (at, "\x7f")) - 1
        base = names[base][i][1] if i >= 0 else base
    elif "jpeg" in base:
        return "libjpeg: IDCT, upsampling, colour"
    for title, pattern in PHASES:
        if re.search(pattern, base):
            return title
    return "the rest"


def sampled(a, command, work):
    """Shares of the phases of a command, and what it printed."""
    library, out = os.path.join(work, "sampled.so"), os.path.join(work, "samples")
    if not os.path.exists(library):
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, os.path.join(HERE, "sampled.c"), "-ldl"],
                       check=True)
    told = subprocess.run(command, env={**os.environ, "LD_PRELOAD": library, "SAMPLED": out}, check=True,
                          capture_output=True, text=True).stdout
    names = {os.path.basename(command[0]): symbols(command[0])}
    count = collections.Counter()
    with open(out) as f:
        for line in f:
            file, at = line.rsplit(" ", 1)
            count[phase_of(file, int(at, 16), names)] += 1
    total = sum(count.values()) or 1
    return {k: v / total for k, v in count.most_common()}, told


def rates(text):
    """Samples per core-second by case, as the bench programs print them."""
    return {m[1]: float(m[2]) for m in re.finditer(r"^(\S+)\s+(\d+) samples/core-s", text, re.M)}


def stage(a, photos, seconds, *more):
    return [os.path.join(a.build, "bench_stage"), "--case", "photo-rrc-f32", "--rounds", "1", "--seconds",
            str(seconds), *more, photos]


def pack(a, packed, photos, *more):
    return [os.path.join(a.build, "bench_pack"), "--packed", packed, "--plain", f"dir:{photos}", *more]


def show_phases(a, what, command, work):
    shares, told = sampled(a, command, work)
    rate = float(re.search(r"(\d+) samples/core-s", told)[1])
    print(f"{what}: {rate:.0f} samples a core-second, {1e6 / rate:.0f} us each")
    for k, v in shares.items():
        print(f"    {k:36s} {100 * v:5.1f} %  {v * 1e6 / rate:6.0f} us")
    add_run(a.results, {"what": "phases", "of": what, "rate": rate, "shares": shares})
    return rate, shares


def together(a, photos, processors, thp=None):
    """Samples per core-second of each of as many programs as processors, pinned, at the same time."""
    def before(cpu):
        os.sched_setaffinity(0, {cpu})
        if thp == "off":
            ctypes.CDLL(None).prctl(THP_DISABLE, 1, 0, 0, 0)

    env = dict(os.environ, GLIBC_TUNABLES="glibc.malloc.hugetlb=1") if thp == "asked for" else None
    began = time.perf_counter()
    running = [subprocess.Popen(stage(a, photos, a.seconds, "--read"), stdout=subprocess.PIPE, text=True, env=env,
                                preexec_fn=lambda c=c: before(c)) for c in processors]
    each = [rates(p.communicate()[0])["photo-rrc-f32"] for p in running]
    return statistics.mean(each), time.perf_counter() - began


def show_together(a, photos):
    spread, close = order_of(True), order_of(False)
    n, quiet = 1, None
    while n <= len(spread):
        for title, order in (("apart", spread), ("side by side", close)):
            if n in (1, len(spread)) and title != "apart" or spread[:n] == close[:n] and title != "apart":
                continue
            rate, _ = together(a, photos, order[:n])
            quiet = quiet or rate
            print(f"{n} at once, {title}: {rate:.0f} samples a core-second each, {100 * rate / quiet:.0f} % of one "
                  f"alone; {rate * n:.0f} in all")
            add_run(a.results, {"what": "together", "n": n, "how": title, "rate": rate})
        n = 2 * n if 2 * n <= len(spread) or n == len(spread) else len(spread)


def show_huge(a, photos):
    first = order_of(True)[:1]
    for _ in range(2):
        for thp in ("off", None, "asked for"):
            rate, _ = together(a, photos, first, thp)
            print(f"huge pages {thp or 'as the machine has them'}: {rate:.0f} samples a core-second")
            add_run(a.results, {"what": "huge pages", "how": thp or "as they are", "rate": rate})


def show_pillow(a, photos, ours):
    """ours: seconds of larder's resampling of a picture."""
    try:
        import random

        import PIL
        from PIL import Image
    except ImportError as missing:
        print(f"Pillow: {missing}")
        return
    files = [os.path.join(d, f) for d, _, names in os.walk(photos) for f in names][:100]
    pictures = [Image.open(f).convert("RGB") for f in files]
    chance, boxes = random.Random(1), []
    for p in pictures:
        area = p.width * p.height * chance.uniform(.08, 1)
        w, h = (min(int(area ** .5), side) for side in p.size)
        x, y = chance.randrange(p.width - w + 1), chance.randrange(p.height - h + 1)
        boxes.append((x, y, x + w, y + h))
    n, began = 0, time.process_time()
    while time.process_time() - began < a.seconds:
        for p, box in zip(pictures, boxes):
            p.resize((224, 224), Image.BILINEAR, box=box)
            n += 1
    theirs = (time.process_time() - began) / n
    kind = "Pillow-SIMD" if "post" in PIL.__version__ else "Pillow"
    print(f"resampling: larder {1e6 * ours:.0f} us a picture, {kind} {PIL.__version__} {1e6 * theirs:.0f} us: "
          f"{theirs / ours:.1f} times")
    add_run(a.results, {"what": "resample", "larder_us": 1e6 * ours, "pillow_us": 1e6 * theirs,
                        "pillow": f"{kind} {PIL.__version__}"})


def machine(a):
    """What it is called and which instructions it has."""
    with open("/proc/cpuinfo") as f:
        text = f.read()
    model, flags = re.search(r"model name\s*: (.*)", text), re.search(r"flags\s*: (.*)", text)
    has = [x for x in ("bmi2", "avx2", "avx512f") if flags and x in flags[1].split()]
    told = f"{model[1] if model else '?'} ({' '.join(has)})"
    add_run(a.results, {"what": "machine", "cpu": told})
    return told


def gather(pictures, to, count):
    from pictures import originals

    for i, (name, data) in enumerate(originals(pictures)[:count]):
        folder = os.path.join(to, str(i % 10))
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, f"{i}.jpg"), "wb") as f:
            f.write(data)
    return i + 1


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("pictures")
    p.add_argument("--results", default="cpu.jsonl")
    p.add_argument("--seconds", type=float, default=2, help="of CPU time, each case")
    p.add_argument("--count", type=int, default=300, help="pictures to take")
    p.add_argument("--build", default=os.path.join(HERE, "../../build"))
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as work:
        photos, packed = os.path.join(work, "photos"), os.path.join(work, "packed")
        n = gather(a.pictures, photos, a.count)
        subprocess.run([os.path.join(a.build, "larder"), "pack", photos, packed, "--quiet"], check=True,
                       stdout=subprocess.DEVNULL)
        print(f"{n} pictures, {len(os.sched_getaffinity(0))} processors on {len(order_of(True, cores=True))} cores, "
              f"{machine(a)}")
        rate, shares = show_phases(a, "folder", stage(a, photos, 2 * a.seconds, "--read"), work)
        many = str(int(2 * a.seconds * rate))
        show_phases(a, "packed", pack(a, packed, photos, "--profile", "--samples", many), work)
        told = subprocess.run(pack(a, packed, photos, "--rounds", "3", "--samples", str(int(a.seconds * 1000))),
                              check=True, capture_output=True, text=True).stdout
        print(told, end="")
        add_run(a.results, {"what": "pack", **rates(told)})
        show_together(a, photos)
        show_huge(a, photos)
        show_pillow(a, photos, shares.get("resample", 0) / rate)


if __name__ == "__main__":
    main()
