"""larder's SVM commands against LIBSVM's own: objectives, models and predictions both ways, for
every task and kernel; scaling byte for byte; what Ctrl-C leaves."""
import json
import lzma
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

LARDER = os.path.abspath(os.environ["LARDER"])
SHARED = os.environ.get("LARDER_SHARED") or os.path.join("..", "shared", "data")
for name in ("svm-train", "svm-predict", "svm-scale"):
    if not shutil.which(name):
        print(f"skipped: no {name} here (package libsvm-tools)")
        sys.exit(77)
failures = []


def run(*words, code=0):
    done = subprocess.run(words, capture_output=True, text=True, timeout=250)
    if done.returncode != code:
        failures.append(f"{' '.join(words)}: exit {done.returncode}, {done.stderr[-300:]}")
    return done.stdout


def check(ok, what):
    if not ok:
        failures.append(what)


def field(text, name):
    return [float(x) for x in re.findall(name + r" = (-?[0-9.e+-]+)", text)]


def close(a, b, room):
    return len(a) == len(b) and all(abs(x - y) <= room * (1 + abs(y)) for x, y in zip(a, b))


def toy(path, rows, kind, seed):
    """Labels +1/-1, 0..2 or a target, from noisy sums of sparse features."""
    rng = random.Random(seed)
    with open(path, "w") as f:
        for _ in range(rows):
            x = {j: rng.choice((1.0, round(rng.uniform(-1, 1), 3))) for j in range(1, 21)
                 if rng.random() < 0.5}
            s = sum(v * math.sin(j) for j, v in x.items()) + rng.gauss(0, 0.4)
            y = {"two": "+1" if s > 0 else "-1", "three": str(int(s > 0.5) + int(s > -0.5)),
                 "real": f"{s:.5f}"}[kind]
            f.write(y + "".join(f" {j}:{v:g}" for j, v in sorted(x.items())) + "\n")


def given(source, path):
    """The same rows as a precomputed linear kernel."""
    rows = [line.split() for line in open(source)]
    vectors = [{int(p.split(":")[0]): float(p.split(":")[1]) for p in r[1:]} for r in rows]
    with open(path, "w") as f:
        for i, (r, a) in enumerate(zip(rows, vectors)):
            values = (sum(v * b.get(j, 0) for j, v in a.items()) for b in vectors)
            f.write(f"{r[0]} 0:{i + 1} " + " ".join(f"{j + 1}:{v:.9g}"
                                                     for j, v in enumerate(values)) + "\n")


def both(folder, data, options, room=1e-5, tight=True):
    """Trains with both; compares objectives; predicts with both programs from both models."""
    ours, theirs = os.path.join(folder, "ours"), os.path.join(folder, "theirs")
    # LIBSVM stops anywhere within the tolerance; a tighter one makes objectives comparable.
    end = ["-e", "0.00001"] if tight else []
    mine = run(LARDER, "svm-train", *options, *end, data, ours)
    its = run("svm-train", *options, *end, data, theirs)
    name = f"{os.path.basename(data)} {' '.join(options)}"
    check(close(field(mine, "obj"), field(its, "obj"), room),
          f"{name}: obj {field(mine, 'obj')[:3]}, LIBSVM {field(its, 'obj')[:3]}")
    for kind in ("nSV", "rho"):
        check(len(field(mine, kind)) == len(field(its, kind)), f"{name}: lines with {kind}")
    out = [os.path.join(folder, f"out{i}") for i in range(4)]
    said = [run(LARDER, "svm-predict", data, ours, out[0]), run("svm-predict", data, ours, out[1]),
            run(LARDER, "svm-predict", data, theirs, out[2]),
            run("svm-predict", data, theirs, out[3])]
    # Free vectors of a one-class task lie on its border: their sign is rounding.
    border = 20 if "-s 2" in name else 200
    check(abs(field(said[0], "Accuracy")[0] - field(said[1], "Accuracy")[0]) < 100 / border
          if "Accuracy" in said[0] else "regression" in said[0],
          f"{name}: {said[0]!r} and LIBSVM on our model {said[1]!r}")
    lines = [[float(x) for x in open(p)] for p in out]
    for a, b in ((0, 1), (2, 3)):
        far = sum(abs(x - y) > 1e-4 * (1 + abs(y)) for x, y in zip(lines[a], lines[b]))
        check(len(lines[a]) == len(lines[b]) and far <= len(lines[b]) // border,
              f"{name}: {far} predictions differ between the programs")


def tasks(folder):
    two, three, real = (os.path.join(folder, k) for k in ("two", "three", "real"))
    toy(two, 400, "two", 1), toy(three, 500, "three", 2), toy(real, 300, "real", 3)
    for kernel in ("0", "1", "2", "3"):
        room = 1e-3 if kernel == "3" else 1e-5
        for task, data in (("0", two), ("0", three), ("1", two), ("1", three), ("2", two),
                           ("3", real), ("4", real)):
            if (task, kernel, data) == ("1", "3", three):
                continue  # an indefinite kernel whose margin is near zero: many optima, far apart
            both(folder, data, ["-s", task, "-t", kernel, "-n", "0.3", "-c", "2", "-r", "0.5"],
                 room if task not in "14" else max(room, 1e-4))
    both(folder, two, ["-w1", "3", "-w-1", "0.5"])
    toy(os.path.join(folder, "more"), 3000, "two", 4)
    both(folder, os.path.join(folder, "more"), ["-c", "5", "-g", "0.3"], tight=False)
    given(two, os.path.join(folder, "given"))
    for task in "0", "3":
        both(folder, os.path.join(folder, "given"), ["-s", task, "-t", "4"])


def probabilities(folder):
    for data, classes in (("two", 2), ("three", 3)):
        path, model = os.path.join(folder, data), os.path.join(folder, "likely")
        run(LARDER, "svm-train", "-q", "-b", "1", path, model)
        ours, theirs = os.path.join(folder, "p1"), os.path.join(folder, "p2")
        run(LARDER, "svm-predict", "-b", "1", path, model, ours)
        run("svm-predict", "-b", "1", path, model, theirs)
        a, b = ([line.split() for line in open(p)] for p in (ours, theirs))
        check(a[0] == b[0] and len(a[0]) == classes + 1, f"labels line {a[0]} against {b[0]}")
        worst = max(abs(float(x) - float(y)) for r, s in zip(a[1:], b[1:])
                    for x, y in zip(r[1:], s[1:]))
        check(worst < 1e-3, f"{data}: probabilities differ by {worst}")
    run(LARDER, "svm-train", "-s", "2", "-b", "1", os.path.join(folder, "two"), code=2)


def cross(folder):
    two = os.path.join(folder, "two")
    mine = field(run(LARDER, "svm-train", "-q", "-v", "5", two), "Accuracy")
    its = field(run("svm-train", "-v", "5", two), "Accuracy")
    check(len(mine) == 1 and abs(mine[0] - its[0]) < 6, f"cross validation {mine}, LIBSVM {its}")
    check(mine == field(run(LARDER, "svm-train", "-q", "-v", "5", "--threads", "2", two),
                        "Accuracy"), "folds repeat from their seed")
    grid = run(LARDER, "svm-grid", "--log2c", "-1,3,2", "--log2g", "-4,0,2", "-v", "5", "--json", two)
    points = [json.loads(line) for line in grid.splitlines()]
    check(len(points) == 9, f"{len(points)} points of the grid")
    for p in points[::4]:
        alone = field(run(LARDER, "svm-train", "-q", "-v", "5", "-c", str(p["c"]), "-g",
                          str(p["gamma"]), two), "Accuracy")
        check(abs(alone[0] - p["score"]) < 0.8, f"grid {p}, alone {alone}")


def several(folder):
    """One against all, label lists, and a model LIBSVM must refuse."""
    three, model, out = (os.path.join(folder, k) for k in ("three", "ova", "out"))
    run(LARDER, "svm-train", "-q", "--multi-class", "ova", "-c", "4", three, model)
    said = field(run(LARDER, "svm-predict", three, model, out), "Accuracy")
    check(said and said[0] > 80, f"one against all: {said}")
    refused = subprocess.run(["svm-predict", three, model, out], capture_output=True)
    check(refused.returncode != 0, "LIBSVM reads a one-vs-all model")
    lists = os.path.join(folder, "lists")
    with open(lists, "w") as f:
        for line in open(three):
            y, rest = line.split(" ", 1)
            f.write({"0": ",", "1": "1", "2": "2,1"}[y] + " " + rest)
    run(LARDER, "svm-train", "-q", "--multi-label", "-c", "4", lists, model)
    said = run(LARDER, "svm-predict", "--multi-label", lists, model, out)
    check(float(re.search(r"Exact sets = ([0-9.]+)", said)[1]) > 80, said)
    check(set(open(out).read().split()) <= {",", "1", "2", "1,2", "2,1"}, "sets of labels")


def scale(folder):
    for data in "two", "real":
        path, ranges = os.path.join(folder, data), os.path.join(folder, "ranges")
        for options in [], ["-l", "0"], ["-y", "-1", "1"], ["-u", "3", "-s", ranges], ["-r", ranges]:
            a, b = run(LARDER, "svm-scale", *options, path), run("svm-scale", *options, path)
            check(a == b, f"svm-scale {' '.join(options)} differs on {data}")


def interrupted(folder):
    """Ctrl-C leaves a model that LIBSVM reads; so does a checkpoint of a run that is killed."""
    data, model = os.path.join(folder, "hard"), os.path.join(folder, "cut")
    rng = random.Random(7)
    with open(data, "w") as f:
        for _ in range(9000):
            f.write(f"{rng.choice((-1, 1))} " +
                    " ".join(f"{j}:{rng.random():.4f}" for j in range(1, 40)) + "\n")
    p = subprocess.Popen([LARDER, "svm-train", "-c", "1000", "-g", "1", "-e", "1e-9", "--cache",
                          "off", "--threads", "1", data, model], stderr=subprocess.PIPE,
                         stdout=subprocess.DEVNULL)
    time.sleep(1.5)
    p.send_signal(signal.SIGINT)
    p.wait(timeout=120)
    if p.returncode == 0:
        print("interrupted: the machine was too quick")
    else:
        check(p.returncode == 130, f"Ctrl-C: exit {p.returncode}")
        check(b"as far as training got" in p.stderr.read(), "Ctrl-C: no word")
    head = os.path.join(folder, "few")
    with open(head, "w") as f:
        f.writelines(open(data).readlines()[:50])
    run("svm-predict", head, model, os.path.join(folder, "out"))


def wrong_input(folder):
    bad, two = os.path.join(folder, "bad"), os.path.join(folder, "two")
    open(bad, "w").write("1 1:1\n-1 3:1 2:1\n")
    for words, code, sentence in (
            ([bad], 1, "line 2, column 8: expected an index above 3"),
            ([os.path.join(folder, "none")], 1, "none"),
            (["-s", "7", two], 2, "-s is 0 to 4"),
            (["-c", "-1", two], 2, "C is above 0"),
            (["-s", "1", "-n", "2", two], 2, "nu is above 0"),
            (["-t", "4", two], 1, "0:serial"),
            (["-w1", two], 2, "a weight is written"),
            (["--cache", "on", "--cache-policy", "best", os.path.join(folder, "more")], 2, "best"),
            ([], 2, "name the file")):
        done = subprocess.run([LARDER, "svm-train", *words], capture_output=True, text=True,
                              cwd=folder)
        check(done.returncode == code and sentence in done.stderr,
              f"svm-train {words}: {done.returncode} {done.stderr!r}")
    full = subprocess.run([LARDER, "svm-train", "-q", two, "/dev/full"], capture_output=True,
                          text=True)
    check(full.returncode == 1 and "/dev/full" in full.stderr, f"full disk: {full.stderr!r}")


def stats(folder):
    two, path = os.path.join(folder, "more"), os.path.join(folder, "stats.json")
    rows = os.path.join(folder, "rows")
    run(LARDER, "svm-train", "-q", "--stats", path, "--record", rows, "--cache", "on", "--rows",
        "300", "--cache-policy", "lru", two, os.path.join(folder, "m"))
    s = json.load(open(path))
    check(s["cache"]["on"] and s["cache"]["policy"] == "lru" and s["rows"] == 3000, f"{s}")
    check(0 <= s["cache"]["hits"] <= s["cache"]["asked"], f"{s['cache']}")
    check(os.path.getsize(rows) > s["cache"]["asked"], "the record of rows is short")


def real_sets(folder):
    """Objectives of real sets, where they are there."""
    for name, options in (("heart_scale", []), ("dna.scale", ["-c", "4"]),
                          ("abalone_scale", ["-s", "3", "-c", "10"]),
                          ("pendigits", ["-c", "10", "-g", "0.0005"])):
        packed = os.path.join(SHARED, "libsvm", name + ".xz")
        if not os.path.exists(packed):
            print(f"{name}: skipped, not here")
            continue
        plain = os.path.join(folder, name)
        with open(plain, "wb") as f:
            f.write(lzma.open(packed).read())
        mine = run(LARDER, "svm-train", *options, packed, os.path.join(folder, "m"))
        its = run("svm-train", *options, plain, os.path.join(folder, "n"))
        check(close(field(mine, "obj"), field(its, "obj"), 1e-5),
              f"{name}: obj {field(mine, 'obj')[:2]}, LIBSVM {field(its, 'obj')[:2]}")


with tempfile.TemporaryDirectory() as place:
    for part in (tasks, probabilities, cross, several, scale, interrupted, wrong_input, stats,
                 real_sets):
        part(place)
for line in failures:
    print("FAILED:", line)
sys.exit(1 if failures else 0)
