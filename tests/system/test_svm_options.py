"""What svm-train refuses and warns of, as LIBSVM's users expect it; policies that decide by scores are
refused where a sequence has none."""
import array
import os
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
from process_kit import interrupt  # noqa: E402

LARDER = os.path.abspath(os.environ["LARDER"])
failures = []


def check(ok, what):
    if not ok:
        failures.append(what)


def run(*words, cwd=None):
    return subprocess.run([LARDER, *words], capture_output=True, text=True, timeout=250, cwd=cwd)


def write_rows(path, rows, scales, seed=1, noise=0.5):
    rng = random.Random(seed)
    with open(path, "w") as f:
        for _ in range(rows):
            x = [rng.gauss(1, 1) for _ in scales]
            y = 1 if sum(x) / len(x) + rng.gauss(0, noise) > 1 else -1
            f.write(f"{y} " + " ".join(f"{j + 1}:{v * s:.9g}" for j, (v, s) in enumerate(zip(x, scales))) + "\n")


def refused(folder, data):
    for words, sentence in (
            (["-m", "-5"], "-m is above 0"), (["-m", "0"], "-m is above 0"), (["-m", "-1"], "-m is above 0"),
            (["-v", "1"], "-v is 2 folds or more, not 1"), (["-v", "0"], "-v is 2 folds or more, not 0"),
            (["-b", "2"], "-b is 0 or 1"), (["-h", "2"], "-h is 0 or 1"),
            (["-e", "0"], "the tolerance is above 0"), (["-e", "-1"], "the tolerance is above 0"),
            (["-c", "0"], "C is above 0"), (["-g", "-1"], "gamma is 0 or more"), (["-d", "-1"], "-1"),
            (["-s", "3", "-p", "-1"], "epsilon is 0 or more"), (["-s", "3", "-p", "inf"], "inf"),
            (["-s", "1", "-n", "0"], "nu is above 0"), (["-s", "1", "-n", "0.999"], "cannot be reached"),
            (["--max-iter", "0.5"], "--max-iter is"), (["--max-iter", "-2"], "--max-iter is")):
        model = os.path.join(folder, "none")
        done = run("svm-train", *words, data, model)
        check(done.returncode == 2 and sentence in done.stderr and not os.path.exists(model),
              f"svm-train {words}: {done.returncode} {done.stderr!r}")


def warned(folder, data):
    model = os.path.join(folder, "m")
    for words, sentence in (
            (["--max-iter", "3"], "1 of 1 problems ended above the tolerance of 0.001"),
            (["-q", "--max-iter", "3", "-v", "3"], "3 of 3 problems ended above the tolerance"),
            (["-q", "-w7", "2"], "a weight is given for class 7, which no row has"),
            (["-v", "100000", "-c", "0.1"], "more folds than rows")):
        short = os.path.join(folder, "short")
        with open(data) as f, open(short, "w") as g:
            g.writelines(line for line, _ in zip(f, range(30 if "100000" in words else 10**6)))
        done = run("svm-train", *words, short, model)
        check(done.returncode == 0 and f"larder svm-train: warning: {sentence}" in done.stderr,
              f"svm-train {words}: {done.returncode} {done.stderr!r}")
    for words in ["-q"], ["-q", "--max-iter", "-1"], ["-q", "--max-iter", "10000000"]:
        done = run("svm-train", *words, data, model)
        check(done.returncode == 0 and done.stderr == "", f"svm-train {words}: {done.stderr!r}")
    os.remove(model)
    done = run("svm-train", "-v", "3", data, model)
    check(done.returncode == 0 and not os.path.exists(model), "-v wrote a model")
    check("Cross Validation Accuracy" in done.stdout, done.stdout)


def interrupted(folder):
    """Ctrl-C under -v: no file is named, and none is there."""
    data = os.path.join(folder, "hard")
    write_rows(data, 6000, [1] * 30, noise=3)
    process = subprocess.Popen([LARDER, "svm-train", "-v", "50", "-c", "1000", "-g", "0.2", data], cwd=folder,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    interrupt(process, after=0.3)
    _, said = process.communicate(timeout=200)
    check(process.returncode == 130 and "cross validation leaves no model" in said,
          f"{process.returncode} {said[-300:]!r}")
    check("hard.model" not in said and not os.path.exists(os.path.join(folder, "hard.model")), said[-300:])


def unscaled(folder):
    """Floats cannot tell the gap of this one; what is printed is the objective of a solution."""
    data = os.path.join(folder, "wild")
    write_rows(data, 400, [10.0 ** e for e in (-3, -2, -1, 0, 1, 2, 3, 4)], seed=4)
    objectives = []
    for cache in "off", "on":
        done = run("svm-train", "-t", "0", "-c", "10", "--cache", cache, data, os.path.join(folder, "m"))
        check(done.returncode == 0 and "warning" not in done.stderr, done.stderr)
        objectives.append(float(done.stdout.split("obj = ")[1].split(",")[0]))
    check(abs(objectives[0] - objectives[1]) < 1e-3 * abs(objectives[0]), f"{objectives}")


def sequences(folder, data):
    """Without scores kkt would be lru under another name, and app, hilo and spider minio."""
    plain, rows = os.path.join(folder, "ids"), os.path.join(folder, "rows")
    rng = random.Random(2)
    with open(plain, "wb") as f:
        array.array("I", [min(int(rng.expovariate(0.05)), 99) for _ in range(2000)]).tofile(f)
    for policy in "kkt", "kkt:margin=2", "app", "hilo", "spider":
        done = run("sim", "--access", plain, "--policy", policy, "--entries", "10")
        check(done.returncode == 2 and "needs a solver's words" in done.stderr, f"{policy}: {done.stderr!r}")
        done = run("sim", "--recipe", policy if policy != "spider" else "lru:policy=spider", "--n", "100")
        check(done.returncode == 2 and "decides by scores" in done.stderr, f"{policy}: {done.stderr!r}")
    done = run("sim", "--access", plain, "--policy", "lru,hcst,efu", "--entries", "10")
    check(done.returncode == 0, done.stderr)
    done = run("svm-train", "-q", "--cache", "on", "--record", rows, data, os.path.join(folder, "m"))
    check(done.returncode == 0, done.stderr)
    done = run("sim", "--access", rows, "--policy", "kkt", "--entries", "200")
    check(done.returncode == 0 and "kkt" in done.stdout, done.stderr)


with tempfile.TemporaryDirectory() as place:
    small = os.path.join(place, "small")
    write_rows(small, 1500, [1] * 6)
    refused(place, small)
    warned(place, small)
    interrupted(place)
    unscaled(place)
    sequences(place, small)
for line in failures:
    print("FAILED:", line)
sys.exit(1 if failures else 0)
