"""A job is recorded, replayed and advised about: larder train --record, sim --replay, suggest."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

LARDER = os.environ["LARDER"]
DATA = "mem:?n=3000&h=8&w=8&c=1&classes=4"


def run(*args, code=0, env=None):
    p = subprocess.run([LARDER, *args], capture_output=True, text=True, timeout=240,
                       env={**os.environ, **(env or {})})
    assert p.returncode == code, f"{args}: exit {p.returncode}, wanted {code}: {p.stderr}"
    assert "\x1b" not in p.stdout + p.stderr, "control bytes although this is no terminal"
    return p


def lines(p):
    return [json.loads(x) for x in p.stdout.splitlines()]


def train(tape, *more, **how):
    return run("train", DATA, "--test", "none", "--epochs", "3", "--batch", "50", "--threads", "2",
               "--quiet", "--json", "--record", tape, *more, **how)


FIGURES = ("served", "hits", "substitutes", "repeats", "misses", "storage_bytes",
           "background_reads")


def same(epochs, replayed):
    assert len(epochs) == len(replayed)
    for a, b in zip(epochs, replayed):
        for key in FIGURES:
            assert a[key] == b[key], (key, a, b)


def test_replay_is_exact(folder):
    for recipe in ("minio", "rotate", "icache", "shade:repeat=3"):
        tape = os.path.join(folder, "job.tape")
        epochs = lines(train(tape, "--recipe", recipe, "--seed", "5", "--slow", "bandwidth=2MB"))
        rows = lines(run("sim", "--replay", tape, "--json"))
        assert [r.get("recipe") or r["policy"] for r in rows] == [recipe, "minio", "belady"]
        same(epochs, rows[0]["epochs"])
        hits = {r.get("policy"): r["total"]["hits"] for r in rows}
        assert hits["belady"] >= hits["minio"]
        assert rows[0]["total"]["seconds"] > 0


def test_a_measured_run_repeats(folder):
    """rotate measures its h: slow storage once, then the same run again at another pace."""
    tape, out = os.path.join(folder, "first.tape"), os.path.join(folder, "first")
    slow = ("--slow", "iops=1500")
    first = lines(train(tape, "--recipe", "rotate", *slow, "--out", out))
    assert sum(e["repeats"] for e in first) > 0, first
    other = os.path.join(folder, "again.tape")
    keys = ("loss", *FIGURES)
    for run_left, more in ((out, ("--threads", "1")), (tape, ("--threads", "4")), (out, slow)):
        again = lines(train(other, "--recipe", "rotate", "--replay", run_left, *more))
        assert [[e[k] for k in keys] for e in first] == [[e[k] for k in keys] for e in again]
        again = lines(train(tape + "2", "--recipe", "rotate", "--replay", other))  # and on from there
        assert [e["loss"] for e in first] == [e["loss"] for e in again]
    p = run("train", DATA, "--test", "none", "--epochs", "1", "--batch", "50", "--recipe", "rotate",
            "--seed", "9", "--replay", out, code=1)
    assert "another seed" in p.stderr, p.stderr
    p = run("train", DATA, "--test", "none", "--replay", folder, code=1)
    assert "decisions" in p.stderr, p.stderr


def test_the_default_is_minio(folder):
    words = ("train", DATA, "--test", "none", "--epochs", "2", "--batch", "50", "--quiet", "--json")
    keys = ("loss", "served", "repeats", "touched")
    named = [[e[k] for k in keys] for e in lines(run(*words, "--recipe", "minio", "--threads", "1"))]
    plain = lines(run(*words, "--slow", "iops=5000", "--threads", "3"))
    assert named == [[e[k] for k in keys] for e in plain]
    assert all(e["repeats"] == 0 and e["touched"] == 1 for e in plain)
    assert plain[1]["hits"] >= 600, plain  # a fifth of 3000
    assert "(minio)" in run("train", "--help").stdout


def test_other_recipes_and_sizes(folder):
    tape = os.path.join(folder, "job.tape")
    train(tape, "--recipe", "minio", "--seed", "6")
    rows = lines(run("sim", "--replay", tape, "--recipe", "minio,quiver", "--policy", "lru",
                     "--cache", "10%,50%", "--epochs", "4", "--json"))
    by = {(r.get("recipe") or "p:" + r["policy"], r["cache"]): r for r in rows}
    assert len(by) == 2 * 5
    # What the simulator says without a record about the same seed and order.
    for cache in ("10%", "50%"):
        plain = lines(run("sim", "--recipe", "minio", "--n", "3000", "--size", "64", "--epochs",
                          "4", "--batch", "50", "--cache", cache, "--seed", "6", "--json"))[0]
        same(plain["epochs"], by["minio", cache]["epochs"])
        assert len(by["p:lru", cache]["epochs"]) == 3  # requests end with the record
    text = run("sim", "--replay", tape).stdout
    assert "minio, measured" in text and "belady, same requests" in text
    p = run("sim", "--replay", tape, "--recipe", "spider", code=2)
    assert "listens to embeddings" in p.stderr
    p = run("sim", "--replay", tape, "--recipe", "rotate:gate=0.3", code=2)
    assert "listens to logits" in p.stderr  # what is learned cannot be told: no figures of a shut gate
    run("sim", "--replay", tape, "--recipe", "rotate:gate=0.3,learned=0.05")
    p = run("sim", "--replay", tape, "--n", "5", code=2)
    assert "--replay takes samples and order from its file" in p.stderr


def test_suggest(folder):
    tape = os.path.join(folder, "job.tape")
    while True:
        train(tape, "--recipe", "minio", "--cache", "20%", "--slow", "bandwidth=100KB", "--epochs", "2")
        a = lines(run("suggest", tape, "--json"))[0]
        if a["measured"]["training_bytes_per_second"] > 2 * a["measured"]["storage_bytes_per_second"]:
            break  # else something else kept it from training: that is another job
        os.unlink(tape)
    assert a["recipe"] == "minio" and a["verdict"] == "a cache is enough", a["verdict"]
    knee = a["knee_percent"]
    assert a["cache"] == f"{knee}%" and 20 < knee <= 100
    rows = {(r["recipe"], r["cache"]): r for r in a["rows"]}
    assert rows["minio", a["cache"]]["waiting"] <= 0.02
    assert rows["minio", "20%"]["waiting"] > 0.02
    assert a["saves"]["storage_bytes"] > 0 and a["saves"]["seconds"] > 0
    # Less memory than the knee takes: reuse instead, in what there is.
    b = lines(run("suggest", tape, "--memory", "40KB", "--json"))[0]
    assert b["recipe"] == "rotate" and b["cache_bytes"] <= 40000, b
    assert any("Accuracy" in r for r in b["reasons"]) and any("knee" in r for r in b["reasons"])
    # Money: by the request and by the byte, an epoch and the run.
    p = lines(run("suggest", tape, "--price", "get=1/10,byte=3/KB", "--json"))[0]
    for row in p["rows"]:
        cost = row["requests"] / 10 + 3 * row["storage_bytes"] / 1000
        assert abs(row["price_epoch"] - cost) < 1e-6 * (1 + cost), row
    none = next(r for r in p["rows"] if (r["recipe"], r["cache"]) == ("minio", "0%"))
    assert abs(none["price_run"] - 2 * none["price_epoch"]) < 1e-6 * none["price_run"], none
    assert "of the run" in run("suggest", tape, "--price", "s3").stdout
    assert "get=0.0004/1000" in run("suggest", tape, "--price", "much", code=2).stderr
    text = run("suggest", tape).stdout
    assert "suggested: --recipe minio --cache" in text and "<- suggested" in text
    # Throttled, and all of it in memory after the first epoch: it is storage that was waited for.
    train(tape, "--recipe", "minio", "--cache", "100%", "--slow", "bandwidth=50KB")
    d = lines(run("suggest", tape, "--json"))[0]
    assert "something else" not in d["verdict"], d
    assert d["measured"]["waiting_storage"] > d["measured"]["waiting"] / 2, d["measured"]
    # Fast storage: nothing to do.
    train(tape, "--recipe", "lru", "--net", "cnn")
    c = lines(run("suggest", tape, "--json"))[0]
    assert c["recipe"] == "minio", c
    assert "--memory" in run("suggest", tape, "--memory", "much", code=2).stderr
    assert "has the speed of the job" in run("suggest", tape, "--rate", "9", code=2).stderr


def test_killed_job_leaves_a_record(folder):
    tape = os.path.join(folder, "killed.tape")
    p = subprocess.Popen([LARDER, "train", DATA, "--test", "none", "--epochs", "100000", "--batch",
                          "50", "--quiet", "--json", "--record", tape],
                         stdout=subprocess.PIPE, text=True)
    for _ in range(3):
        assert p.stdout.readline()
    p.send_signal(signal.SIGKILL)
    p.wait()
    p.stdout.close()
    r = run("sim", "--replay", tape, "--recipe", "minio", "--json")
    assert "batches before it are used" in r.stderr
    assert len(lines(r)[0]["epochs"]) >= 2
    r = run("suggest", tape, "--json")
    assert lines(r)[0]["recipe"]
    # Any part of it is read, or refused with a sentence.
    whole = open(tape, "rb").read()
    for n in (0, 5, 11, 12, 20, 100, len(whole) // 2, len(whole) - 1):
        with open(tape, "wb") as f:
            f.write(whole[:n])
        q = subprocess.run([LARDER, "sim", "--replay", tape, "--recipe", "minio", "--epochs", "1"],
                           capture_output=True, text=True, timeout=60)
        assert q.returncode in (0, 1), q
        assert q.stderr.count("\n") == 1 and "killed.tape" in q.stderr, q.stderr


def test_wrong_files(folder):
    other = os.path.join(folder, "notes.txt")
    with open(other, "w") as f:
        f.write("these are notes")
    for cmd in (("sim", "--replay", other), ("suggest", other)):
        assert "is no record of a job" in run(*cmd, code=1).stderr
    assert "is left alone" in train(other, code=2).stderr
    assert open(other).read() == "these are notes"
    assert "there is no file or folder" in run("suggest", os.path.join(folder, "none"), code=1).stderr
    tape = os.path.join(folder, "bad.tape")
    train(tape)
    whole = bytearray(open(tape, "rb").read())
    whole[len(whole) // 2] ^= 1
    with open(tape, "wb") as f:
        f.write(whole)
    assert "is damaged" in run("suggest", tape, code=1).stderr
    assert "the record of a job" in run("suggest", code=2).stderr


def test_full_disk_and_environment(folder):
    if os.path.exists("/dev/full"):
        p = train("/dev/full")
        assert len(lines(p)) == 3
        assert p.stderr.count("No space left on device") == 1, p.stderr
    env = os.path.join(folder, "by-env-%p.tape")
    run("train", DATA, "--test", "none", "--epochs", "1", "--quiet", env={"LARDER_RECORD": env})
    made = [f for f in os.listdir(folder) if f.startswith("by-env-")]
    assert len(made) == 1 and "%" not in made[0]
    run("sim", "--replay", os.path.join(folder, made[0]))


def test_report_and_compare(folder):
    runs = {}
    for recipe in ("minio", "rotate:h=0.5"):
        for seed in ("1", "2", "3"):
            out = os.path.join(folder, f"{recipe[:5]}-{seed}")
            train(out + ".tape", "--recipe", recipe, "--seed", seed, "--out", out)
            runs.setdefault(recipe, []).append(out)
    everything = sum(runs.values(), [])
    page, md, svg = (os.path.join(folder, f) for f in ("r.html", "r.md", "r.svg"))
    p = run("report", *everything, "-o", page, "--md", md, "--svg", svg)
    assert "mean ± standard deviation over seeds" in p.stdout and "p99" in p.stdout
    html = open(page, encoding="utf-8").read()
    for word in ("Machine and versions", "Every run", "Accuracy against bytes read", "p90"):
        assert word in html, word
    assert "http" not in html.replace("http://www.w3.org/2000/svg", "")
    assert open(md, encoding="utf-8").read().count("| rotate:h=0.5 |") == 5
    assert open(svg).read().startswith("<svg")
    groups = lines(run("report", *everything, "--json"))
    assert [g["seeds"] for g in groups] == [[1, 2, 3], [1, 2, 3]]
    # A recorded job tells the same as the folder, but for how batches were filled.
    taped = lines(run("report", *[r + ".tape" for r in everything], "--json"))
    for a, b in zip(groups, taped):
        for key in ("storage_megabytes", "hits", "repeats", "touched"):
            assert abs(a[key]["mean"] - b[key]["mean"]) < 1e-6, key
        assert abs(a["loss"]["mean"] - b["loss"]["mean"]) < 1e-4 * a["loss"]["mean"]
    c = lines(run("compare", *everything, "--json"))[0]
    assert c["told"] and list(c["settings"]) == ["recipe"]
    assert c["figures"]["storage_megabytes"]["differs"]
    d = lines(run("compare", ",".join(runs["minio"]), ",".join(runs["rotate:h=0.5"]), "--json"))[0]
    assert d["figures"]["hits"] == c["figures"]["hits"]
    one = run("compare", runs["minio"][0], runs["minio"][1])
    assert "nothing can be told" in one.stdout and "settings, versions and machine agree" in one.stdout
    assert "differs" not in one.stdout
    assert "not runs of the same settings" in run("compare", everything[0] + "," + everything[3],
                                                   everything[1], code=2).stderr
    assert "1 different settings" in run("compare", *runs["minio"], code=2).stderr
    assert "two runs" in run("compare", everything[0], code=2).stderr
    run("compare", everything[0], os.path.join(folder, "none"), code=1)


def main():
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            with tempfile.TemporaryDirectory() as folder:
                begun = time.time()
                test(folder)
                print(f"{name}: {time.time() - begun:.1f} s")


if __name__ == "__main__":
    sys.exit(main())
