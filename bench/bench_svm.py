"""larder svm-train against LIBSVM's svm-train: CPU seconds on one thread each, objectives, and what
two threads and a cache of rows bring. Runs are taken in turn, so that other work on the machine hits
both; CPU time, because wall time means little where something else runs.

    bench/bench_svm.py [small|full] [set ...]
    bench/bench_svm.py policies | reuse | sklearn | shapes | grids  [--state FILE]

small takes the first 6000 rows of each set (some minutes), full all of adult and connect-4 and 10000
rows of MNIST (LIBSVM alone needs half an hour). policies: training time with each policy of the row
cache and where it goes, and what Eq. 4 promised (HCST's paper, tables II and III); reuse: rows shared
by pairs, classes, labels, folds and grids, and not (table VI); sklearn: larder.svm beside sklearn.svm;
shapes: the same for sets of few rows, few features or many classes, and predictions; grids: searches as
one types them, by all threads. These take some minutes (less with REPEATS=1) and go on where they stood
if --state names a file (JSON lines). Blobs are of $SEED.
Data: ../shared/data or $LARDER_SHARED; $LARDER_LETTER: UCI's letters as LIBSVM text."""
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


# ---- tables of docs/results/svm-cache.md -------------------------------------------------------------

POLICIES = ["lru", "lfu", "lat", "efu", "hcst", "hcst:guard=1", "kkt"]
SUBSETS = {  # name: file, rows taken, rows kept, options
    "adult": ("a9a", 8000, 1600, ["-c", "100", "-g", "0.5"]),
    "connect-4": ("connect-4", 8000, 1600, ["-c", "1", "-g", "0.3"]),
    "MNIST, odd or even": ("parity", 5000, 1000, ["-c", "10", "-g", "0.125"]),
    "abalone": ("abalone_scale", 4177, 835, ["-s", "3", "-c", "10", "-g", "0.5"]),
    "MNIST, lists of labels": ("lists", 3000, 600, ["--multi-label", "-c", "10", "-g", "0.125"]),
}


def subset(name, rows, path):
    """parity: digits as odd (1) or even (-1); lists: the digit, 10 if odd, 11 if above 4."""
    if name not in ("parity", "lists"):
        return unpack(name, rows, path)
    with open(path, "w") as f:
        for line in mnist(rows):
            digit, rest = line.split(" ", 1)
            d = int(digit)
            label = ("1" if d % 2 else "-1") if name == "parity" else ",".join(
                [digit] + ["10"] * (d % 2) + ["11"] * (d > 4))
            f.write(f"{label} {rest}\n")


class Results:
    """Measured lines by key; kept in a file where one is named."""

    def __init__(self, path):
        self.path, self.known = path, {}
        if path and os.path.exists(path):
            with open(path) as f:
                self.known = {r["key"]: r for r in map(json.loads, f)}

    def get(self, key, measure):
        if key not in self.known:
            self.known[key] = dict(measure(), key=key)
            if self.path:
                with open(self.path, "a") as f:
                    f.write(json.dumps(self.known[key]) + "\n")
        return self.known[key]


def timed(folder, words, repeats=int(os.environ.get("REPEATS", "3"))):
    """The median run by CPU time, with what --stats says of it."""
    stats, found = os.path.join(folder, "stats"), []
    for _ in range(repeats):
        cpu, _, objective = run(LARDER, "svm-train", "-q", "--threads", "1", "--stats", stats, *words,
                                *([] if "-v" in words else [os.path.join(folder, "model")]))
        with open(stats) as f:
            found.append((cpu, json.load(f)))
    cpu, s = sorted(found, key=lambda x: x[0])[repeats // 2]
    return {"cpu": cpu, "all": s["seconds"]["all"], "kernel": s["seconds"]["kernel"],
            "cache": s["seconds"]["cache"], "asked": s["cache"]["asked"],
            "hits": s["cache"]["hits"], "values": s["values"], "made": s["rows_made"],
            "make_us": s["cache"]["make_us"], "keep_us": s["cache"]["keep_us"]}


def policies(results):
    print(f"load {os.getloadavg()[0]:.1f}; CPU s of one thread, the median; shares are of the wall time\n")
    print("| set, rows, kept | | none | " + " | ".join(POLICIES) + " |")
    print("|---" * (len(POLICIES) + 3) + "|")
    for name, (file, rows, kept, options) in SUBSETS.items():
        with tempfile.TemporaryDirectory() as folder:
            data = os.path.join(folder, "data")
            got = []
            for policy in [None] + POLICIES:
                how = ["--cache", "off"] if not policy else [
                    "--cache", "on", "--rows", str(kept), "--cache-policy", policy]

                def measure(how=how):
                    if not os.path.exists(data):
                        subset(file, rows, data)
                    return timed(folder, ["--keep-repeats", *how, *options, data])
                got.append(results.get(f"policies {name} {policy}", measure))
        none, rest = got[0], got[1:]

        def line(head, values):
            print(f"| {head} | " + " | ".join(values) + " |")
        line(f"{name}, {rows}, {kept} | CPU s", [f"{g['cpu']:.2f}" for g in got])
        line(" | hits, %", [""] + [f"{100 * g['hits'] / g['asked']:.1f}" for g in rest])
        line(" | kernel values, %", [f"{100 * g['kernel'] / g['all']:.0f}" for g in got])
        line(" | cache, %", [""] + [f"{100 * g['cache'] / g['all']:.1f}" for g in rest])
        # Eq. 4: what a hit saves is making a row, what every row costs is keeping it.
        promised = [g["hits"] * none["make_us"] / 1e6 for g in rest] if none["make_us"] else [
            g["hits"] * rest[0]["make_us"] / 1e6 for g in rest]
        line(" | saved: promised, s", [""] + [f"{p:.2f}" for p in promised])
        line(" | saved: measured, s", [""] + [f"{none['cpu'] - g['cpu']:.2f}" for g in rest])


REUSE = {  # name: file, rows, options
    "45 pairs of MNIST": ("mnist", 6000, ["-c", "10", "-g", "0.125"]),
    "10 classes of MNIST against the rest": ("mnist", 3000, ["-c", "10", "-g", "0.125",
                                                              "--multi-class", "ova"]),
    "12 labels of MNIST": ("lists", 3000, ["--multi-label", "-c", "10", "-g", "0.125"]),
    "5 folds of abalone": ("abalone_scale", 4177, ["-s", "3", "-c", "10", "-g", "0.5", "-v", "5"]),
    "5 folds of MNIST, odd or even": ("parity", 3000, ["-c", "10", "-g", "0.125", "-v", "5"]),
}


def reuse(results):
    print(f"load {os.getloadavg()[0]:.1f}; one thread, rows kept, memory for all of them\n")
    print("| task | values, apart | shared | CPU s, apart | shared | ratio |\n|---|---|---|---|---|---|")
    for name, (file, rows, options) in REUSE.items():
        with tempfile.TemporaryDirectory() as folder:
            data, got = os.path.join(folder, "data"), []
            for how in ["--separate-rows"], []:
                def measure(how=how):
                    if not os.path.exists(data):
                        subset(file, rows, data)
                    return timed(folder, ["--cache", "on", *how, *options, data])
                got.append(results.get(f"reuse {name} {how}", measure))
        apart, shared = got
        print(f"| {name} | {apart['values']:.3g} | {shared['values']:.3g} | {apart['cpu']:.2f} | "
              f"{shared['cpu']:.2f} | {apart['cpu'] / shared['cpu']:.2f} |", flush=True)


def sklearn(results):
    sys.path.insert(0, os.path.join(ROOT, "python"))
    import sklearn.svm as theirs
    from sklearn.datasets import load_svmlight_file

    from larder import svm as ours
    print(f"load {os.getloadavg()[0]:.1f}; CPU s of fit and predict on the same rows, one thread, "
          "median of three\n")
    print("| set | scikit-learn fit | larder fit | ratio | scikit-learn predict | larder predict | "
          "labels that differ |\n|---|---|---|---|---|---|---|")

    def cpu():
        return sum(resource.getrusage(resource.RUSAGE_SELF)[:2])

    def both(model, X, y):
        fits, predictions = [], []
        for _ in range(3):
            a = cpu()
            model.fit(X, y)
            b = cpu()
            said = model.predict(X)
            fits.append(b - a)
            predictions.append(cpu() - b)
        return sorted(fits)[1], sorted(predictions)[1], said
    for name, file, rows, C, gamma in (("adult, 5000 rows", "a9a", 5000, 100, 0.5),
                                       ("connect-4, 5000 rows", "connect-4", 5000, 1, 0.3),
                                       ("pendigits", "pendigits", 7494, 10, 0.0005),
                                       ("MNIST, 2000 rows", "mnist", 2000, 10, 0.125)):
        def measure(file=file, rows=rows, C=C, gamma=gamma):
            with tempfile.TemporaryDirectory() as folder:
                data = os.path.join(folder, "data")
                subset(file, rows, data)
                X, y = load_svmlight_file(data)
            X = X.toarray()
            a = both(theirs.SVC(C=C, gamma=gamma), X, y)
            b = both(ours.SVC(C=C, gamma=gamma, n_jobs=1), X, y)
            return {"a": a[:2], "b": b[:2], "apart": int((a[2] != b[2]).sum())}
        r = results.get(f"sklearn {name}", measure)
        print(f"| {name} | {r['a'][0]:.2f} | {r['b'][0]:.2f} | {r['a'][0] / r['b'][0]:.1f} | "
              f"{r['a'][1]:.2f} | {r['b'][1]:.2f} | {r['apart']} |", flush=True)


def spread(times):
    times = sorted(times)
    return f"{1e3 * times[len(times) // 2]:.2f} ({1e3 * times[0]:.2f} to {1e3 * times[-1]:.2f})"


def in_turn(a, b, repeats):
    """CPU seconds of both, a run each in turn."""
    times = [], []
    for _ in range(repeats):
        for work, to in zip((a, b), times):
            begin = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
            work()
            to.append(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) - begin)
    return times


def compare(name, theirs, ours, repeats=5):
    a, b = in_turn(theirs, ours, repeats)
    ratio = sorted(a)[len(a) // 2] / sorted(b)[len(b) // 2]
    print(f"| {name} | {spread(a)} | {spread(b)} | {ratio:.1f} |", flush=True)


def blobs(rows, features, classes, apart):
    import numpy as np
    rng = np.random.RandomState(int(os.environ.get("SEED", "0")))
    y = np.arange(rows) % classes
    return rng.randn(classes, features)[y] * apart + rng.randn(rows, features), y


def shapes(_):
    sys.path.insert(0, os.path.join(ROOT, "python"))
    import numpy as np
    import sklearn.svm as theirs

    from larder import svm as ours
    rng = np.random.RandomState(int(os.environ.get("SEED", "0")))
    print(f"load {os.getloadavg()[0]:.1f}; CPU ms, one thread, median (least to most) of five\n")
    print("| what | scikit-learn's LIBSVM | larder | ratio |\n|---|---|---|---|")
    for rows, features, classes in ((100, 4, 3), (100, 20, 2), (100, 16, 26), (1000, 4, 3), (1000, 16, 26),
                                    (2000, 20, 2), (10000, 4, 3), (15000, 16, 26)):
        X, y = blobs(rows, features, classes, 1.2)
        for C in 1, 100:
            some = range(20 if rows == 100 else 1)
            compare(f"fit {rows} rows x {features} features x {classes} classes, C = {C}, {len(some)} times",
                    lambda: [theirs.SVC(C=C).fit(X, y) for _ in some],
                    lambda: [ours.SVC(C=C, n_jobs=1).fit(X, y) for _ in some])
    sets = {f"blobs at {apart}": blobs(15000, 16, 26, apart) for apart in (0.8, 1.2)}
    if os.environ.get("LARDER_LETTER"):  # UCI's letters as LIBSVM text
        from sklearn.datasets import load_svmlight_file
        X, y = load_svmlight_file(os.environ["LARDER_LETTER"])
        sets["letter"] = X.toarray()[-15000:], y[-15000:]
    for name, (X, y) in sets.items():
        for C in 1, 10, 100:
            compare(f"fit 15000 rows of {name}, 26 classes, C = {C}", lambda: theirs.SVC(C=C).fit(X, y),
                    lambda: ours.SVC(C=C, n_jobs=1).fit(X, y), 3)
    for features, classes in ((4, 3), (16, 2), (16, 26), (100, 2), (100, 10), (784, 10)):
        X, y = blobs(12000, features, classes, 0.3)
        a, b = theirs.SVC(), ours.SVC(n_jobs=1)
        order = np.argsort(y[:5000], kind="stable")
        for m in (a, b):  # a model of 5,000 vectors, whatever training would have left
            m.fit(X[:40 * classes], y[:40 * classes])
            m.support_, m.support_vectors_ = order.astype(np.int32), X[order]
            m._n_support = np.bincount(y[:5000]).astype(np.int32)
            m._gamma = 1 / features
        coef = rng.randn(max(classes - 1, 1), 5000)
        a._dual_coef_, b._coef, b._model = coef, coef, None
        os.environ["OMP_NUM_THREADS"] = "1"
        compare(f"predict 10000 rows x {features} features, 5000 vectors, {classes} classes",
                lambda: a.predict(X[:10000]), lambda: b.predict(X[:10000]), 3)


def grids(_):
    sys.path.insert(0, os.path.join(ROOT, "python"))
    import sklearn.svm as theirs
    from sklearn.datasets import load_digits, load_svmlight_file
    from sklearn.model_selection import GridSearchCV

    from larder import svm as ours
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores; GridSearchCV(SVC(), 5 x 5), 5 folds: wall s as typed, "
          "CPU s of one thread; larder the median of three\n")
    print("| set | scikit-learn | larder | ratio | scikit-learn, CPU | larder, CPU | ratio | same best |\n"
          "|---|---|---|---|---|---|---|---|")
    grid = {"C": [2.0 ** e for e in range(-3, 10, 3)], "gamma": [2.0 ** e for e in range(-8, 1, 2)]}
    sets = {"digits, 1,797 x 64 x 10": (lambda d: (d[0] / 16, d[1]))(load_digits(return_X_y=True)),
            "blobs, 1,500 x 16 x 10": blobs(1500, 16, 10, 0.8)}
    files = [("adult, 1,500 rows", "a9a", 1500), ("pendigits, 2,000 x 16 x 10", "pendigits", 2000)]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "data")
        for name, file, rows in files:
            unpack(file, rows, path)
            X, y = load_svmlight_file(path)
            sets[name] = X.toarray(), y
    if os.environ.get("LARDER_LETTER"):
        X, y = load_svmlight_file(os.environ["LARDER_LETTER"])
        sets["letter, the last 2,000"] = X.toarray()[-2000:], y[-2000:]

    def search(search, machine, X, y):
        wall, cpu = time.monotonic(), sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        found = search(machine, grid).fit(X, y)
        return time.monotonic() - wall, sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) - cpu, found
    for name, (X, y) in sets.items():
        a = search(GridSearchCV, theirs.SVC(), X, y)
        b = sorted((search(ours.GridSearchCV, ours.SVC(), X, y) for _ in range(3)), key=lambda r: r[0])[1]
        c = sorted(search(ours.GridSearchCV, ours.SVC(n_jobs=1), X, y)[1] for _ in range(3))[1]
        same = a[2].best_params_ == b[2].best_params_ and a[2].best_score_ == b[2].best_score_
        print(f"| {name} | {a[0]:.1f} | {b[0]:.2f} | {a[0] / b[0]:.1f} | {a[1]:.1f} | {c:.2f} | {a[1] / c:.1f} | "
              f"{'yes' if same else 'no'} |", flush=True)


def main():
    args = sys.argv[1:]
    tables = {"policies": policies, "reuse": reuse, "sklearn": sklearn, "shapes": shapes, "grids": grids}
    if args and args[0] in tables:
        return tables[args[0]](Results(args[2] if args[1:2] == ["--state"] else None))
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
