#!/usr/bin/env python3
"""larder plan's model against the loader: predicted and measured samples/s, as in Seneca's section 6.

Writes JPEGs of one size (the pictures of ../shared/data/jpeg, scaled, each under several keys), reads
them through throttled storage, and for every cache size and split compares what `larder plan` says with
what `larder_loader_next` delivers once the cache is full. The rates come from `larder profile` on the
same throttled storage; the storage rates are low, so that storage decides and not the other work of the
machine.

    bench/plan_validation.py --markdown --svg docs/img/plan-validation.svg
    bench/plan_validation.py --cpu --markdown

prints a line a point, the correlation of each split, and its relative error. With --cpu storage is as fast
as memory, so that processors decide, and rates are samples a second of processor time: what other work takes
away then does not matter. Rows of several sizes take the place of several storage rates.
"""
import argparse
import ctypes
import io
import json
import math
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SPLITS = ["100/0/0", "0/100/0", "0/0/100", "50/50/0", "50/0/50", "0/50/50"]
U8 = 1


def jpegs(count, side):
    """`count` JPEG files: the shared pictures where they are there, else noise of the same size."""
    from PIL import Image
    shared = os.environ.get("LARDER_SHARED", os.path.join(ROOT, "..", "shared", "data"))
    folder = os.path.join(shared, "jpeg")
    pictures = []
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if name.endswith(".tar") and len(pictures) < count:
            with tarfile.open(os.path.join(folder, name)) as tar:
                for member in tar:
                    if member.name.lower().endswith((".jpg", ".jpeg")):
                        with Image.open(tar.extractfile(member)) as picture:
                            pictures.append(picture.convert("RGB").resize((side, side)))
    while not pictures or len(pictures) < min(count, 8):
        noise = Image.frombytes("RGB", (side // 8, side // 8), os.urandom((side // 8) ** 2 * 3))
        pictures.append(noise.resize((side, side)))
    for i in range(count):
        out = io.BytesIO()
        pictures[i % len(pictures)].save(out, "JPEG", quality=95)
        yield out.getvalue()


def write_data(path, count, side):
    with tarfile.open(path, "w") as tar:
        for i, data in enumerate(jpegs(count, side)):
            for ext, body in (("jpg", data), ("cls", str(i % 10).encode())):
                member = tarfile.TarInfo(f"{i:06d}.{ext}")
                member.size = len(body)
                tar.addfile(member, io.BytesIO(body))


class Conf(ctypes.Structure):
    """The beginning of larder_loader_conf; what it ends before is as it is unless said."""
    _fields_ = [("size", ctypes.c_size_t), ("source", ctypes.c_char_p),
                ("recipe", ctypes.c_char_p), ("cache", ctypes.c_char_p),
                ("augment", ctypes.c_char_p), ("batch", ctypes.c_size_t), ("seed", ctypes.c_uint64),
                ("epochs", ctypes.c_uint64), ("threads", ctypes.c_uint32),
                ("prefetch", ctypes.c_uint32), ("lag", ctypes.c_uint32), ("rank", ctypes.c_uint32),
                ("world", ctypes.c_uint32), ("dtype", ctypes.c_int), ("layout", ctypes.c_int)]


class About(ctypes.Structure):
    """The beginning of larder_about."""
    _fields_ = [("size", ctypes.c_size_t), ("samples", ctypes.c_uint64)]


def augment(size):
    return f"rrc:size={size}|flip"


def measure(lib, source, cache, split, size, batch, epochs, clock):
    """Samples/s of each epoch but the first, in which the cache fills, and the last, during which
    nothing is read ahead any more. Little is read ahead, so that epochs stay apart."""
    conf, about = Conf(ctypes.sizeof(Conf)), About(ctypes.sizeof(About))
    conf.source, conf.recipe = source.encode(), f"seneca:split={split}".encode()
    whole = split == "100/0/0" and float(cache.rstrip("%")) > 100  # then everything is encoded there
    conf.cache = b"100%" if whole else f"{cache}:{split}".encode()
    conf.augment = augment(size).encode()
    conf.batch, conf.seed, conf.epochs, conf.dtype = batch, 1, epochs, U8
    conf.prefetch = 2
    loader, got = ctypes.c_void_p(), ctypes.c_void_p()

    def check(rc):
        if rc < 0:
            raise RuntimeError(lib.larder_errmsg().decode())
        return rc

    check(lib.larder_loader_open(ctypes.byref(loader), ctypes.byref(conf)))
    check(lib.larder_loader_about(loader, ctypes.byref(about)))
    n, rates, begun = about.samples, [], clock()
    while True:
        rc = check(lib.larder_loader_next(loader, ctypes.byref(got)))
        if rc == 0:
            check(lib.larder_loader_done(loader, got))
            continue
        now = clock()
        if rc == LARDER_END:
            break
        rates.append(n / (now - begun))
        begun = now
    lib.larder_loader_close(ctypes.byref(loader))
    return rates[1:-1]


LARDER_END_EPOCH, LARDER_END = 1, 2


KEYS = ["t_gpu", "t_da", "t_a", "t_d", "b_storage", "b_cache", "s_data", "m", "m_decoded", "n_total",
        "jobs"]
SHOWN = ["b_storage", "t_da", "t_da_core", "t_a_core", "t_d_core", "s_data", "m", "m_decoded"]


def profile(larder, source, size, path):
    subprocess.run([larder, "profile", source, "--augment", augment(size), "--dtype", "u8",
                    "--seconds", "6", "--t-gpu", "1e9", "--quiet", "-o", path], check=True)
    with open(path) as f:
        return {k: v for k, v in json.load(f).items() if isinstance(v, (int, float))}


def predict(larder, rates, cache, split):
    """`cache`: of the encoded bytes."""
    given = ",".join(f"{k}={rates[k]}" for k in KEYS)
    size = cache * rates["n_total"] * rates["s_data"]
    out = subprocess.run([larder, "plan", "--set", f"{given},s_cache={size:.0f}", "--split", split,
                          "--json"], capture_output=True, text=True, check=True)
    found = json.loads(out.stdout)["given"]
    return found["throughput"], found["bottleneck"]


def pearson(x, y):
    mx, my = statistics.fmean(x), statistics.fmean(y)
    over = sum((a - mx) * (b - my) for a, b in zip(x, y))
    under = math.sqrt(sum((a - mx) ** 2 for a in x) * sum((b - my) ** 2 for b in y))
    return over / under if under else math.nan


def plot(path, points):
    """Predicted across, measured up, a colour a split, the diagonal between them; logarithmic."""
    colours = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#555555"]
    side, edge = 420, 60
    values = [v for p in points for v in (p["predicted"], p["measured"])]
    low, high = math.log10(min(values) * 0.85), math.log10(max(values) * 1.15)

    def at(v):
        return edge + (math.log10(v) - low) / (high - low) * side

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {side + 2 * edge + 120} '
           f'{side + 2 * edge}" font-family="sans-serif" font-size="12">',
           '<title>Predicted and measured samples a second</title>',
           '<rect width="100%" height="100%" fill="white"/>',
           f'<path d="M{edge} {edge}V{edge + side}H{edge + side}" fill="none" stroke="#333"/>',
           f'<path d="M{edge} {edge + side}L{edge + side} {edge}" stroke="#aaa" '
           'stroke-dasharray="4 4"/>']
    ticks = [k * 10 ** e for e in range(7) for k in (1, 2, 5)]
    for v in (t for t in ticks if low <= math.log10(t) <= high):
        out.append(f'<text x="{at(v):.1f}" y="{edge + side + 18}" text-anchor="middle">{v:.0f}</text>')
        out.append(f'<text x="{edge - 6}" y="{2 * edge + side - at(v) + 4:.1f}" '
                   f'text-anchor="end">{v:.0f}</text>')
    out.append(f'<text x="{edge + side / 2}" y="{side + 2 * edge - 16}" '
               'text-anchor="middle">predicted, samples/s</text>')
    out.append(f'<text transform="translate(16 {edge + side / 2}) rotate(-90)" '
               'text-anchor="middle">measured, samples/s</text>')
    for i, split in enumerate(SPLITS):
        y = edge + 20 * i
        out.append(f'<circle cx="{side + edge + 30}" cy="{y}" r="5" fill="{colours[i]}"/>'
                   f'<text x="{side + edge + 42}" y="{y + 4}">{split}</text>')
        out += [f'<circle cx="{at(p["predicted"]):.1f}" '
                f'cy="{2 * edge + side - at(p["measured"]):.1f}" r="4" fill="{colours[i]}" '
                'fill-opacity="0.7"/>' for p in points if p["split"] == split]
    with open(path, "w") as f:
        f.write("\n".join(out) + "\n</svg>\n")


def correlation(points):
    return pearson([p["predicted"] for p in points], [p["measured"] for p in points])


def within(points):
    """The correlation over cache sizes alone, at each storage rate; - where they change nothing."""
    rates = sorted({p["storage"] for p in points})
    found = [correlation([p for p in points if p["storage"] == r]) for r in rates]
    return ", ".join("-" if math.isnan(c) else f"{c:.3f}" for c in found)


def print_table(points, markdown):
    if markdown:
        print("| split | Pearson | over cache sizes alone | error, median | largest | points | "
              "held up by |\n|---|---|---|---|---|---|---|")
    for split in SPLITS:
        mine = [p for p in points if p["split"] == split]
        errors = [abs(p["predicted"] / p["measured"] - 1) * 100 for p in mine]
        by = sorted({p["bottleneck"] for p in mine},
                    key=lambda b: -sum(p["bottleneck"] == b for p in mine))
        row = (split, f"{correlation(mine):.3f}", within(mine),
               f"{statistics.median(errors):.0f} %", f"{max(errors):.0f} %", str(len(mine)),
               ", ".join(by))
        print("| " + " | ".join(row) + " |" if markdown else "  ".join(f"{c:>10}" for c in row))


def main():
    ask = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ask.add_argument("--samples", type=int, default=400)
    ask.add_argument("--side", type=int, default=256)
    ask.add_argument("--caches", help="percent of the encoded bytes")
    ask.add_argument("--cpu", action="store_true", help="processors decide, by processor time")
    ask.add_argument("--rows", default="32,128,320", help="with --cpu: pixels a side of a row")
    ask.add_argument("--storage", default="3,6", help="MB/s")
    ask.add_argument("--epochs", type=int, default=4)
    ask.add_argument("--batch", type=int, default=16)
    ask.add_argument("--build", default=os.path.join(ROOT, "build"))
    ask.add_argument("--svg")
    ask.add_argument("--json", help="write the points there, one a line")
    ask.add_argument("--again", help="only the table and plot of points that --json wrote")
    ask.add_argument("--markdown", action="store_true")
    o = ask.parse_args()
    if o.again:
        with open(o.again) as f:
            points = [json.loads(line) for line in f]
        print_table(points, o.markdown)
        if o.svg:
            plot(o.svg, points)
        return
    lib = ctypes.CDLL(os.path.join(o.build, "liblarder.so"))
    lib.larder_errmsg.restype = ctypes.c_char_p
    lib.larder_loader_next.argtypes = lib.larder_loader_done.argtypes = [ctypes.c_void_p] * 2
    larder, points = os.path.join(o.build, "larder"), []
    clock = time.process_time if o.cpu else time.monotonic
    with tempfile.TemporaryDirectory() as folder:
        data = f"{folder}/data.tar"
        write_data(data, o.samples, o.side)
        for step in (o.rows if o.cpu else o.storage).split(","):
            size = int(step) if o.cpu else 128
            source = f"tar:{data}?index=off"
            if not o.cpu:
                source = f"slow:bandwidth={float(step):g}MB:" + source
            rates, mine = [], []
            for cache in map(float, (o.caches or ("150,300,450,600" if o.cpu else "20,45,70,90"))
                             .split(",")):
                if o.cpu or not rates:  # processors do not have one speed: look again and again
                    rates.append(profile(larder, source, size, f"{folder}/profile.json"))
                for split in SPLITS:
                    got = measure(lib, source, f"{cache:g}%", split, size, o.batch, o.epochs, clock)
                    mine.append({"storage": float(step), "cache": cache, "split": split,
                                 "measured": statistics.median(got)})
            known = {k: statistics.median(r[k] for r in rates) for k in rates[0]}
            print(f"# {step}: " + ", ".join(f"{k} {known[k]:.4g}" for k in SHOWN), file=sys.stderr)
            if o.cpu:
                known.update(t_da=known["t_da_core"], t_a=known["t_a_core"], t_d=known["t_d_core"],
                             b_storage="inf", b_cache="inf")
            for p in mine:
                p["predicted"], p["bottleneck"] = predict(larder, known, p["cache"] / 100, p["split"])
                print(f"{step:>4}  cache {p['cache']:3.0f} %  {p['split']:>8}  predicted "
                      f"{p['predicted']:6.0f}/s  measured {p['measured']:6.0f}/s  "
                      f"({p['bottleneck']})", file=sys.stderr, flush=True)
                if o.json:
                    with open(o.json, "a") as f:
                        f.write(json.dumps(p) + "\n")
            points += mine
    print_table(points, o.markdown)
    if o.svg:
        plot(o.svg, points)


if __name__ == "__main__":
    main()
