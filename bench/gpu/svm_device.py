#!/usr/bin/env python3
"""Support vector machines on a GPU: are they right, and how fast.

    python3 bench/gpu/svm_device.py --larder build/core/larder --data FOLDER [--thunder FOLDER/thundersvm-train]
                             [--only start,check,twins,table] [--out results.json]

FOLDER has what bench/gpu/svm_sets.py reads: a9a.xz, connect-4.xz, … and MNIST's IDX files; what is
missing is said and left out. Each line is one comparison; a failure is printed and the next one runs.
Times are of whole processes, reading the file included, less the start of CUDA's context and
compiler, which is shown apart."""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
results = {"twins": [], "table": [], "failed": []}


def run(words, timeout=120):
    start = time.time()
    try:
        p = subprocess.run(words, capture_output=True, text=True, timeout=timeout)
        rc, out, err = p.returncode, p.stdout, p.stderr
    except subprocess.TimeoutExpired as e:
        rc, out, err = 124, (e.stdout or b"").decode(errors="replace"), f"no end after {timeout} s"
    return rc, time.time() - start, out, err


def save(path):
    """After each figure: whoever is stopped keeps what there is."""
    if path:
        with open(path, "w") as f:
            json.dump(results, f, indent=1)


def failed(what, why):
    why = " ".join(str(why).split())[-400:]
    print(f"FAILED {what}: {why}", flush=True)
    results["failed"].append(f"{what}: {why}")


class Bench:
    def __init__(self, a):
        self.a = a
        self.work = a.work
        os.makedirs(self.work, exist_ok=True)

    def path(self, name):
        return os.path.join(self.work, name)

    def made(self, name, *words):
        """A file of svm_sets.py, or None."""
        out = self.path(name)
        if not os.path.exists(out):
            rc, _, _, err = run([sys.executable, os.path.join(HERE, "svm_sets.py"), *words, out], 400)
            if rc:
                failed(f"making {name}", err)
                return None
        return out

    def plain(self, name):
        for end in (".xz", ".bz2", ".gz", ""):
            at = os.path.join(self.a.data, name + end)
            if os.path.exists(at):
                return self.made(name, "plain", at)
        failed(name, "not in the data folder")
        return None

    def head(self, path, rows):
        if not path:
            return None
        out = f"{path}.{rows}"
        with open(path) as f, open(out, "w") as to:
            for _, line in zip(range(rows), f):
                to.write(line)
        return out

    def train(self, path, options, device, model=None, timeout=120):
        stats = self.path(f"stats.{device}.json")
        model = model or self.path(f"model.{device}")
        words = [self.a.larder, "svm-train", "--device", device, "--stats", stats, *options, path, model]
        rc, seconds, out, err = run(words, timeout)
        if rc:
            failed(" ".join(words[1:]), err or out)
            return None
        with open(stats) as f:
            s = json.load(f)
        s["objectives"] = [float(x) for x in re.findall(r"obj = ([-+.\deinfa]+)", out)]
        s["vectors"] = [int(x) for x in re.findall(r"^nSV = (\d+)", out, re.M)]
        s["sum"] = sum(s["objectives"])
        s["wall"] = seconds
        s["net"] = seconds - s["seconds"]["start"]
        s["warnings"] = " ".join(re.findall(r"warning: (.*)", err))
        return s

    def predict(self, path, model, device, timeout=120):
        out = self.path(f"labels.{device}")
        rc, seconds, said, err = run(
            [self.a.larder, "svm-predict", "--values", "--device", device, path, model, out], timeout
        )
        if rc:
            failed(f"svm-predict --device {device} {path}", err)
            return None, seconds, said
        with open(out) as f:
            return [[float(x) for x in line.split()] for line in f], seconds, said


# ---- are they right ---------------------------------------------------------------------------------


def worst(a, b):
    return max((abs(x - y) / max(1, abs(x)) for p, q in zip(a, b) for x, y in zip(p, q)), default=0)


def twin(b, name, path, options):
    if not path:
        return
    cpu, gpu = b.train(path, options, "cpu"), b.train(path, options, "cuda")
    if not cpu or not gpu:
        return
    pairs = list(zip(cpu["objectives"], gpu["objectives"]))
    off = max((abs(x - y) / max(1e-9, abs(x)) for x, y in pairs), default=float("nan"))
    v_cpu, _, _ = b.predict(path, b.path("model.cpu"), "cpu")
    v_gpu, _, _ = b.predict(path, b.path("model.cpu"), "cuda")
    values = worst(v_cpu, v_gpu) if v_cpu and v_gpu else float("nan")
    good = off <= 1e-5 and values <= 1e-4 and len(pairs) == len(gpu["objectives"])
    row = {
        "set": name,
        "options": " ".join(options),
        "objective_off": off,
        "values_off": values,
        "vectors": [sum(cpu["vectors"]), sum(gpu["vectors"])],
        "rounds": [cpu["rounds"], gpu["rounds"]],
        "steps": [cpu["iterations"], gpu["iterations"]],
        "gap": gpu["gap"],
        "exact": [cpu["exact"], gpu["exact"]],
        "device": gpu["device"],
        "good": good,
    }
    results["twins"].append(row)
    print(
        f"{'ok    ' if good else 'WRONG '} {name:10s} {row['options']:44s} obj {off:.1e} values {values:.1e}"
        f" nSV {row['vectors']} rounds {row['rounds']} steps {row['steps']} exact {row['exact']}"
        f" {gpu['warnings'][:80]}",
        flush=True,
    )


def made_sets(b):
    import numpy as np

    r = np.random.default_rng(3)
    x = r.normal(0, 1, (3000, 20))
    y = np.where(x[:, 0] + x[:, 1] * x[:, 2] + r.normal(0, 0.5, 3000) > 0, 1, -1)
    t = x[:, 0] ** 2 + x[:, 1] + r.normal(0, 0.1, 3000)
    c = (x[:, 0] > 0).astype(int) + 2 * (x[:, 1] + x[:, 2] ** 2 > 1)
    for name, label in (("two", y), ("line", t), ("four", c)):
        with open(b.path(name), "w") as f:
            for i in range(3000):
                values = " ".join(f"{j + 1}:{v:.5f}" for j, v in enumerate(x[i]))
                f.write(f"{label[i]:.6g} {values}\n")
    return b.path("two"), b.path("line"), b.path("four")


def twins(b):
    two, line, four = made_sets(b)
    a9a = b.head(b.plain("a9a"), 8000)
    for name, path, options in (
        ("two", two, "-c 1 -g 0.05"),
        ("two", two, "-t 0 -c 0.1"),
        ("two", two, "-t 1 -g 0.05 -r 1 -c 0.5"),
        ("two", two, "-t 3 -g 0.01 -c 1"),
        ("two", two, "-s 1 -n 0.4 -g 0.05"),
        ("two", two, "-s 2 -n 0.2 -g 0.05"),
        ("two", two, "-c 100 -g 0.5 -h 0"),
        ("line", line, "-s 3 -c 5 -g 0.1"),
        ("line", line, "-s 4 -c 5 -n 0.3 -g 0.1"),
        ("four", four, "-c 3 -g 0.05"),
        ("four", four, "-s 1 -n 0.1 -g 0.05"),
        ("four", four, "-c 3 -g 0.05 --multi-class ova"),
        ("four", four, "-c 3 -g 0.05 -b 1"),
        ("a9a 8000", a9a, "-c 100 -g 0.5"),
        ("a9a 8000", a9a, "-t 0 -c 1"),
        ("pendigits", b.plain("pendigits"), "-c 10 -g 0.0001"),
        ("connect-4", b.head(b.plain("connect-4"), 6000), "-c 10 -g 0.2"),
        ("dna", b.plain("dna.scale"), "-c 5 -g 0.01"),
        ("abalone", b.plain("abalone_scale"), "-s 3 -c 10 -g 0.5"),
        ("sector", b.plain("sector.t.scale"), "-t 0 -c 1 --multi-class ova"),
        ("two kept", two, "-c 1 -g 0.05 --cache off"),
        ("two kept", two, "-c 100 -g 0.5 --cache-policy lru --rows 900"),
        ("two kept", two, "-c 100 -g 0.5 --cache-policy hcst --rows 900"),
        ("two kept", two, "-c 100 -g 0.5 --cache-policy kkt --rows 900"),
        ("line kept", line, "-s 3 -c 5 -g 0.1 --cache-policy kkt --rows 900"),
        ("four kept", four, "-c 3 -g 0.05 --cache-policy hcst --rows 500"),
    ):
        try:
            twin(b, name, path, options.split())
        except Exception as e:  # noqa: BLE001 - the others still run
            failed(f"{name} {options}", repr(e))
    again = [b.train(a9a, ["-c", "100", "-g", "0.5"], "cuda", b.path(f"again{i}")) for i in range(2)]
    if all(again):
        same = open(b.path("again0")).read() == open(b.path("again1")).read()
        print(f"{'ok    ' if same else 'WRONG '} the same model twice", flush=True)
        results["same_twice"] = same


def check(b):
    """Small things first, under compute-sanitizer where there is one."""
    two, _, four = made_sets(b)
    small = b.head(two, 1300)
    s = b.train(small, ["-c", "1", "-g", "0.05"], "cuda", timeout=300)
    if s:
        print(f"device {s['device']}, start {s['seconds']['start']:.2f} s, rounds {s['rounds']}", flush=True)
    s = b.train(small, ["-c", "1", "-g", "0.05"], "cuda")
    if s:
        t = s["seconds"]
        print(
            f"1300 rows: wall {s['wall']:.3f} s, start {t['start']:.3f}, training {t['all'] - t['start']:.3f}, rest"
            f" (reading, saving, the context's end) {s['wall'] - t['all']:.3f}",
            flush=True,
        )
    if not shutil.which("compute-sanitizer"):
        print("no compute-sanitizer", flush=True)
        return
    for tool in ("memcheck", "racecheck"):
        for options in (["-c", "1"], ["-s", "1", "-n", "0.3", "--cache-policy", "kkt", "--rows", "300"]):
            words = [b.a.larder, "svm-train", "--device", "cuda", "-g", "0.05", "--max-iter", "300", *options]
            rc, seconds, out, err = run(
                ["compute-sanitizer", "--tool", tool, "--print-limit", "3", *words, small, b.path("m")], 100
            )
            lines = [x for x in (out + err).splitlines() if "=====" in x and "COMPUTE" not in x]
            print(f"{tool} {' '.join(options)}: rc {rc}, {seconds:.0f} s: {' '.join(lines)[:700]}", flush=True)


# ---- how fast ---------------------------------------------------------------------------------------


def show(name, s):
    t = s["seconds"]
    print(
        f"{name:34s} {s['net']:.3f} s (wall {s['wall']:.3f}, start {t['start']:.3f}; training {t['all']:.3f}:"
        f" kernel {t['kernel']:.3f} cache {t['cache']:.3f} select {t['select']:.3f} steps {t['solve']:.3f}"
        f" update {t['update']:.3f}) rounds {s['rounds']} steps {s['iterations']} rows {s['rows_made']}"
        f" hits {s['cache']['hits']}/{s['cache']['asked']} obj {s['sum']:.8g} nSV {sum(s['vectors'])}"
        f" exact {s['exact']} gap {s['gap']:.2e} {s['warnings'][:100]}",
        flush=True,
    )


def measured(b, name, path, options, times=3, timeout=120):
    runs = []
    for _ in range(times):
        s = b.train(path, options, "cuda", b.path("model.table"), timeout)
        if not s:
            break
        runs.append(s)
        show(name, s)
    if runs:
        same = len({(s["iterations"], s["sum"]) for s in runs}) == 1
        if not same:
            failed(name, "runs differ")
        best = min(runs, key=lambda s: s["net"])
        results["table"].append(
            {
                "name": name,
                "options": " ".join(options),
                "net": statistics.median(s["net"] for s in runs),
                "least": best["net"],
                "start": best["seconds"]["start"],
                "stats": best,
            }
        )
        save(b.a.out)
    return runs


def thunder(b, name, path, options, times=1, timeout=150):
    if not b.a.thunder or not os.path.exists(b.a.thunder):
        return
    for _ in range(times):
        rc, seconds, out, err = run([b.a.thunder, *options, path, b.path("thunder.model")], timeout)
        text = out + err
        obj = [float(x) for x in re.findall(r"obj = ([-\d.e+]+)", text)]
        used = re.findall(r"training time elapsed: ([\d.]+)|[Tt]ime.*?([\d.]+) ?(?:s|sec)", text)
        print(
            f"ThunderSVM {name:23s} rc {rc} wall {seconds:.3f} s, its own figures {used[:3]}, obj {sum(obj):.8g} of {len(obj)}"
            + ("" if rc == 0 else " " + " ".join(text.split())[-300:]),
            flush=True,
        )
        results["table"].append({"name": f"ThunderSVM {name}", "net": seconds if rc == 0 else None, "rc": rc})
        save(b.a.out)


def table(b):
    a9a = b.plain("a9a")
    if a9a:
        run(["cat", a9a])
        measured(b, "adult", a9a, "-c 100 -g 0.5".split(), 4)
        thunder(b, "adult", a9a, "-s 0 -t 2 -c 100 -g 0.5".split(), 2)
    for name, options in (("w8a", "-c 10 -g 0.5"), ("connect-4", "-c 10 -g 0.2"), ("ijcnn1.trn", "-c 10 -g 2")):
        path = b.plain(name)
        if path:
            measured(b, name, path, options.split(), 1)
            thunder(b, name, path, ["-s", "0", "-t", "2", *options.split()])
    data = [os.path.join(b.a.data, f"{part}-idx{n}-ubyte.xz") for part, n in (("train-images", 3), ("train-labels", 1))]
    test = [os.path.join(b.a.data, f"t10k-{part}-ubyte.xz") for part in ("images-idx3", "labels-idx1")]
    mnist = b.made("mnist", "mnist", *data) if os.path.exists(data[0]) else None
    if mnist:
        run(["cat", mnist])
        options = f"-c 10 -g {1 / 784:.10f}".split()
        measured(b, "MNIST-60k", mnist, options, 3)
        ten = b.made("mnist.t", "mnist", *test)
        if ten:
            for device in ("cuda", "cpu"):
                _, seconds, said = b.predict(ten, b.path("model.table"), device, 200)
                print(f"predict MNIST 10,000 rows, {device}: {seconds:.3f} s {said.strip()}", flush=True)
                results["table"].append({"name": f"predict MNIST {device}", "net": seconds, "said": said.strip()})
        thunder(b, "MNIST-60k", mnist, ["-s", "0", "-t", "2", *options], 1, 200)
    cover(b)


def cover(b):
    """Rows that cannot all be kept. Steps are the same whatever is kept, so each way is given as many."""
    path = b.made("cover", "cover", str(b.a.cover))
    if not path:
        return
    run(["cat", path])
    net = {}
    for how in ("--cache off", "--cache-policy hcst", "--cache-policy kkt", "--cache-policy lru"):
        name = how.split()[-1]
        options = f"{b.a.cover_options} --max-iter {b.a.cover_steps} {how}".split()
        runs = measured(b, f"cover {b.a.cover} {name}", path, options, 1, 80)
        if runs:
            net[name] = runs[0]["net"], runs[0]["seconds"]["all"] - runs[0]["seconds"]["start"]
    for how in net:
        if how != "off" and "off" in net:
            ratio = [net["off"][i] / net[how][i] for i in (0, 1)]
            print(f"cover: {how} {ratio[0]:.2f} times no cache, {ratio[1]:.2f} in training alone", flush=True)
            results["table"].append({"name": f"cover: {how} against none", "ratio": ratio})
    save(b.a.out)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--larder", required=True)
    p.add_argument("--data", required=True)
    p.add_argument("--thunder")
    p.add_argument("--work", default="/tmp/svm-bench")
    p.add_argument("--only", default="check,twins,table")
    p.add_argument("--out")
    p.add_argument("--cover", type=int, default=500000)
    p.add_argument("--cover-options", default="-c 10 -g 1")
    p.add_argument("--cover-steps", type=int, default=600000)
    a = p.parse_args()
    b = Bench(a)
    for part in a.only.split(","):
        start = time.time()
        try:
            {"check": check, "twins": twins, "table": table, "cover": cover}[part](b)
        except Exception as e:  # noqa: BLE001 - the others still run
            failed(part, repr(e))
        print(f"-- {part}: {time.time() - start:.0f} s", flush=True)
        save(a.out)
    wrong = [t for t in results["twins"] if not t["good"]]
    print(f"{len(results['twins'])} twins, {len(wrong)} wrong, {len(results['failed'])} failures", flush=True)
    return 1 if wrong or results["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
