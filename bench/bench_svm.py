"""larder svm-train against LIBSVM's svm-train: CPU seconds on one thread each, objectives, and what
two threads and a cache of rows bring. Runs are taken in turn, so that other work on the machine hits
both; CPU time, because wall time means little where something else runs.

    bench/bench_svm.py [small|full] [set ...]

small takes the first 6000 rows of each set (some minutes), full all of adult and connect-4 and 10000
rows of MNIST (LIBSVM alone needs half an hour). Data: ../shared/data or $LARDER_SHARED."""
import json
import lzma
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
LARDER = os.path.join(os.environ.get("BUILD", os.path.join(ROOT, "build")), "larder")
SHARED = os.environ.get("LARDER_SHARED", os.path.join(ROOT, "..", "shared", "data"))
SETS = {  # name: file, options
    "adult RBF": ("a9a", ["-c", "100", "-g", "0.5"]),
    "adult sigmoid": ("a9a", ["-t", "3", "-c", "10", "-g", "0.01"]),
    "connect-4 RBF": ("connect-4", ["-c", "1", "-g", "0.3"]),
    "MNIST RBF": ("mnist", ["-c", "10", "-g", "0.125"]),
    "abalone SVR": ("abalone_scale", ["-s", "3", "-c", "10"]),
    "sector linear": ("sector.t.scale", ["-t", "0"]),
}


def mnist(rows):
    images = lzma.open(os.path.join(SHARED, "mnist", "train-images-idx3-ubyte.xz")).read()[16:]
    labels = lzma.open(os.path.join(SHARED, "mnist", "train-labels-idx1-ubyte.xz")).read()[8:]
    text = [f"{i / 255:.6g}" for i in range(256)]
    for i in range(rows):
        pixels = images[i * 784:(i + 1) * 784]
        yield f"{labels[i]} " + " ".join(f"{j + 1}:{text[v]}" for j, v in enumerate(pixels) if v)


def unpack(name, rows, path):
    if name == "mnist":
        lines = mnist(min(rows, 10000))
    else:
        packed = os.path.join(SHARED, "libsvm", name + ".xz")
        lines = (line.rstrip("\n") for line in lzma.open(packed, "rt"))
    with open(path, "w") as f:
        for i, line in enumerate(lines):
            if i == rows:
                break
            f.write(line + "\n")


def run(*words):
    """CPU seconds, wall seconds, and the sum of all objectives printed."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    out = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, wall, sum(float(x) for x in re.findall(r"obj = (-?[0-9.]+)", out))


def main():
    args = sys.argv[1:]
    full = "full" in args
    names = [a for a in args if a not in ("small", "full")] or list(SETS)
    if not shutil.which("svm-train"):
        sys.exit("bench_svm: no svm-train here (package libsvm-tools)")
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    print(f"{'set':<15} {'LIBSVM s':>9} {'larder s':>9} {'ratio':>6} {'2 threads':>10} "
          f"{'obj apart':>10}  engine, rows kept")
    for name in names:
        file, options = SETS[name]
        with tempfile.TemporaryDirectory() as folder:
            data, stats = os.path.join(folder, "data"), os.path.join(folder, "stats")
            try:
                unpack(file, 10 ** 9 if full else 6000, data)
            except FileNotFoundError as e:
                print(f"{name:<15} skipped: no {e.filename}")
                continue
            model = os.path.join(folder, "model")
            ours = [run(LARDER, "svm-train", "--threads", "1", "--stats", stats, *options, data,
                        model) for _ in range(3)]
            two = min(run(LARDER, "svm-train", "--threads", "2", *options, data, model)[1]
                      for _ in range(3))
            theirs = run("svm-train", "-m", "100", *options, data, model)
            cpu = sorted(o[0] for o in ours)[1]
            s = json.load(open(stats))
            apart = abs(ours[0][2] / theirs[2] - 1)
            print(f"{name:<15} {theirs[0]:9.2f} {cpu:9.2f} {theirs[0] / cpu:6.1f} "
                  f"{min(o[1] for o in ours) / two:9.2f}x {apart:10.1e}  {s['engine']}, "
                  f"{'on' if s['cache']['on'] else 'off'} (make {s['cache']['make_us']:.0f} us, "
                  f"keep {s['cache']['keep_us']:.0f} us)", flush=True)


main()
