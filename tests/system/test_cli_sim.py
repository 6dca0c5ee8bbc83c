"""larder sim as people call it: figures, JSON, tables, plots, wrong input, Ctrl-C."""
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
from process_kit import interrupt  # noqa: E402

LARDER = os.environ["LARDER"]
LONG = bool(os.environ.get("LARDER_LONG"))
SANITIZED = os.path.basename(os.environ.get("LARDER_BUILD", "")) in ("asan", "tsan")


def run(*args, code=0):
    p = subprocess.run([LARDER, *args], capture_output=True, text=True, timeout=120)
    assert p.returncode == code, f"{args}: exit {p.returncode}, wanted {code}: {p.stderr}"
    assert "\x1b" not in p.stdout + p.stderr, "control bytes although this is no terminal"
    return p


def sim(*args):
    return [json.loads(line) for line in run("sim", *args, "--json").stdout.splitlines()]


def test_closed_forms():
    for c in (20, 40, 60, 80):
        for seed in (0, 1) if LONG else (0,):
            runs = sim("--recipe", "lru,minio,quiver", "--n", "20000", "--epochs", "6",
                       "--cache", f"{c}%", "--seed", str(seed), "--batch", "64")
            by = {r["recipe"]: r for r in runs}
            x = c / 100
            for e in range(1, 6):
                lru = by["lru"]["epochs"][e]
                assert abs(lru["hits"] / lru["served"] - (x + (1 - x) * math.log(1 - x))) < 0.012
                for name in ("minio", "quiver"):
                    assert by[name]["epochs"][e]["hits"] == 20000 * c // 100
            for r in runs:
                for f in r["epochs"]:
                    assert f["served"] == 20000 == f["hits"] + f["misses"] + f["substitutes"]
                    assert f["touched"] == 1 and f["repeats"] == 0 and f["background_reads"] == 0
                    assert f["storage_bytes"] == f["misses"] * 3072
                t = r["total"]
                assert t["hits"] == sum(f["hits"] for f in r["epochs"])
                assert abs(t["hit_ratio"] - t["hits"] / t["served"]) < 1e-8


def test_schema_and_repeatability():
    a = sim("--recipe", "random", "--n", "1000", "--epochs", "3", "--seed", "5", "--size", "10")
    b = sim("--recipe", "random", "--n", "1000", "--epochs", "3", "--seed", "5", "--size", "10")
    c = sim("--recipe", "random", "--n", "1000", "--epochs", "3", "--seed", "6", "--size", "10")
    assert a == b != c
    assert list(a[0]) == ["schema", "recipe", "n", "cache", "seed", "epochs", "total"]
    fields = ["served", "hits", "substitutes", "repeats", "misses", "background_reads", "touched",
              "storage_bytes", "requests", "evaluated", "evaluation_reads", "scratch_reads",
              "scratch_bytes", "scratch_written"]
    assert list(a[0]["epochs"][0]) == ["epoch"] + fields
    assert list(a[0]["total"]) == fields + ["hit_ratio"]


def test_forms():
    r = sim("--recipe", "seneca,minio", "--n", "5000", "--epochs", "4", "--cache",
            "20%:50/50/0,20%:0/0/100", "--decoded", "6144")
    for run in r:
        for f in run["epochs"]:
            assert f["touched"] == 1 and f["repeats"] == 0
            assert sum(f["hits_by_form"].values()) == f["hits"]
            assert f["storage_bytes"] == 3072 * (f["misses"] + f["background_reads"])
    mixed, rows = r[0]["epochs"][-1], r[1]["epochs"][-1]
    # Half of the cache at 3072 bytes, half at 6144: 15 % of the samples fit and are not read.
    assert abs(mixed["misses"] + mixed["background_reads"] - 4250) < 5
    assert mixed["hits_by_form"]["decoded"] and not mixed["hits_by_form"]["augmented"]
    assert rows["misses"] + rows["background_reads"] == 5000  # augmented ones serve once
    again = sim("--recipe", "seneca:split=50/50/0", "--n", "5000", "--epochs", "4", "--cache", "20%",
                "--decoded", "6144")
    assert again[0]["epochs"] == r[0]["epochs"]


def test_belady_is_the_bound():
    runs = sim("--recipe", "lru,lfu,fifo,random,sieve,minio,belady", "--n", "2000", "--epochs", "5",
               "--cache", "30%")
    best = runs[-1]["total"]["hits"]
    assert runs[-1]["recipe"] == "belady" and all(r["total"]["hits"] <= best for r in runs)


def lru_hits(ids, entries):
    held, hits = [], 0
    for i in ids:
        if i in held:
            held.remove(i)
            hits += 1
        elif len(held) == entries:
            held.pop(0)
        held.append(i)
    return hits


def test_access_sequences(folder):
    rng = random.Random(3)
    ids = [min(rng.randrange(60), rng.randrange(60)) for _ in range(3000)]
    plain = os.path.join(folder, "a.u32")
    with open(plain, "wb") as f:
        f.write(struct.pack(f"<{len(ids)}I", *ids))
    r = sim("--access", plain, "--policy", "lru,belady", "--entries", "10,20")
    assert list(r[0]) == ["schema", "policy", "entries", "accesses", "hits", "hit_ratio", "evictions",
                          "switches"]
    assert [(x["policy"], x["entries"]) for x in r] == [("lru", 10), ("lru", 20), ("belady", 10),
                                                        ("belady", 20)]
    assert r[0]["hits"] == lru_hits(ids, 10) and r[1]["hits"] == lru_hits(ids, 20)
    assert r[2]["hits"] >= r[0]["hits"] and r[0]["accesses"] == 3000
    if " zstd" in run("--version").stdout:
        if subprocess.run(["sh", "-c", "command -v zstd"], capture_output=True).returncode == 0:
            subprocess.run(["zstd", "-q", plain, "-o", plain + ".zst"], check=True)
            assert sim("--access", plain + ".zst", "--policy", "lru", "--entries", "10")[0] == r[0]
            with open(plain + ".zst", "rb") as f:
                cut = f.read()[:-20]
            with open(os.path.join(folder, "cut.zst"), "wb") as f:
                f.write(cut)
            run("sim", "--access", os.path.join(folder, "cut.zst"), "--policy", "lru", "--entries",
                "9", code=1)
    # Huge sparse ids are renumbered; an entry twice in one look-up batch misses twice.
    with open(plain, "wb") as f:
        f.write(struct.pack("<6I", 4294967295, 7, 4294967295, 7, 7, 4294967295))
    assert sim("--access", plain, "--policy", "lru", "--entries", "2")[0]["hits"] == 4
    assert sim("--access", plain, "--policy", "lru", "--entries", "2", "--batch", "4")[0]["hits"] == 2
    with open(plain, "ab") as f:
        f.write(b"x")
    assert "whole number" in run("sim", "--access", plain, "--policy", "lru", "--entries", "2",
                                 code=1).stderr
    with open(plain, "wb"):
        pass
    run("sim", "--access", plain, "--policy", "lru", "--entries", "2", code=2)


def leb(v):
    out = b""
    while v >= 128:
        out += bytes([v & 127 | 128])
        v >>= 7
    return out + bytes([v])


def record(path, rows, rounds):
    """What svm-train writes: rounds of row ids, and before each the rows that left with their dist."""
    out = b"LARDROWS" + struct.pack("<II", 1, rows)
    left = []
    for ids in rounds:
        if left:
            out += b"\2" + leb(len(left)) + b"".join(
                leb(i) + struct.pack("<f", i % 7) for i in left)
        out += b"\1" + leb(0) + leb(len(ids)) + b"".join(map(leb, ids))
        left = ids
    with open(path, "wb") as f:
        f.write(out + b"\0" + struct.pack("<Q", sum(map(len, rounds))))


def test_recorded_rows(folder):
    rng = random.Random(5)
    rounds = [rng.sample(range(400 if r % 3 else 60), 30) for r in range(200)]
    path = os.path.join(folder, "run.rows")
    record(path, 400, rounds)
    r = sim("--access", path, "--entries", "100,10%")
    assert [x["entries"] for x in r] == [100] * 8 + [40] * 8
    assert [x["policy"] for x in r[:8]] == ["lru", "lfu", "lat", "efu", "hcst", "hcst:guard=1", "kkt",
                                            "belady"]
    assert all(x["accesses"] == 6000 and x["hits"] <= r[7]["hits"] for x in r[:8])
    # The same as plain ids looked up by the batch.
    plain = os.path.join(folder, "run.u32")
    with open(plain, "wb") as f:
        f.write(struct.pack("<6000I", *sum(rounds, [])))
    assert sim("--access", plain, "--batch", "30", "--policy", "hcst,lat", "--entries", "100") == [
        r[4], r[2]]
    table = run("sim", "--access", path).stdout.splitlines()
    assert len(table) == 6 and table[1].split()[0] == "entries" and table[2].split()[0] == "20"
    sweep = sim("--access", path, "--lambda", "0.5,2", "--entries", "100")
    assert [x["policy"] for x in sweep] == ["hcst:lambda=0.5", "hcst:lambda=2"]
    assert sweep[1]["hits"] == r[4]["hits"]
    a = sim("--access", path, "--analyze", "--entries", "50")[0]
    seen, small = {}, 0
    for at, i in enumerate(sum(rounds, [])):
        small += at - seen.get(i, -10**9) < 50
        seen[i] = at
    assert a["run"]["levels"][0] == small and a["run"]["first"] == len(seen)
    assert sum(q["accesses"] for q in a["quarters"]) == 6000
    assert all(sum(c) == 400 for c in a["changes"])
    assert "quarter 4" in run("sim", "--access", path, "--analyze").stdout
    with open(path, "rb") as f:
        cut = f.read()[:-30]
    with open(path, "wb") as f:
        f.write(cut)
    assert "run.rows: byte" in run("sim", "--access", path, code=1).stderr
    assert "percent" in run("sim", "--access", plain, "--entries", "10%%", code=2).stderr


def test_table_and_plot(folder):
    out = os.path.join(folder, "hits.svg")
    p = run("sim", "--recipe", "lru,quiver:factor=5,policy=lru", "--n", "1000", "--cache", "10%,50%",
            "--plot", out)
    rows = p.stdout.splitlines()
    assert len(rows) == 5 and rows[3].startswith("quiver:factor=5,policy=lru")
    with open(out) as f:
        assert f.read().lstrip().startswith("<svg")
    run("sim", "--recipe", "lru", "--n", "100", "--plot", "/no/such/folder/x.svg", code=1)


def test_trace():
    base = os.environ.get("LARDER_SHARED", "../shared/data")
    trace = os.path.join(base, "traces", "cifar10-resnet18")
    if not os.path.isdir(trace):
        print("no recorded training here: its replay is not tried")
        return
    r = sim("--recipe", "minio:signal=loss", "--trace", trace, "--epochs", "2")[0]
    assert r["n"] == 50000 and r["epochs"][1]["hits"] == 10000
    if SANITIZED:  # counting neighbours takes minutes there
        return
    r = sim("--recipe", "spider", "--trace", trace, "--epochs", "2", "--cache", "25%")[0]
    first, second = r["epochs"]
    assert first["touched"] == 1 and second["touched"] < 1  # drawn with replacement
    assert second["hits"] > 12500 and second["substitutes"] > 0 and first["background_reads"] > 0
    assert second["ratio"] == 0.9 and second["sigma"] > 0 and first["sigma"] is None


def test_wrong_input():
    for args, word in (
        (["--recipe", "lru"], "--n"),
        (["--recipe", "lruu", "--n", "10"], "did you mean lru"),
        (["--recipe", "lru:x=1", "--n", "10"], "no parameter"),
        (["--recipe", "lru", "--n", "-5"], "whole number"),
        (["--recipe", "lru", "--n", "10", "--cache", "20%%"], "percent"),
        (["--recipe", "lru", "--n", "10", "--cache", "-1"], "negative"),
        (["--recipe", "lru", "--n", "10", "--cache", "1e99GiB"], "more than any machine"),
        (["--recipe", "lru", "--n", "10", "--nonsense"], "no option"),
        (["--recipe", "lru", "--n"], "missing"),
        (["--recipe", "lru", "--n", "10", "--epochs", "0"], "epochs"),
        (["--recipe", "lru", "--n", "10", "--size", "0"], "byte"),
        (["--recipe", "lru", "--n", "10", "--analyze"], "--access"),
        (["word"], "too many"),
    ):
        p = run("sim", *args, code=2)
        assert word in p.stderr and p.stderr.startswith("larder sim: "), (args, p.stderr)
        assert p.stderr.count("\n") == 1
    run("sim", "--access", "/no/such/file", "--policy", "lru", "--entries", "3", code=1)
    run("sim", "--recipe", "lru", "--trace", "/no/such/folder", code=1)
    assert "usage" in run("sim", "--help").stdout
    run("nonsense", code=2)
    run(code=2)
    assert "larder" in run("--version").stdout and "usage" in run("--help").stdout


def test_ten_million_samples():
    r = sim("--recipe", "minio", "--n", "10000000", "--epochs", "1", "--cache", "1%", "--size", "100")
    assert r[0]["epochs"][0]["served"] == 10000000
    for n in ("1", "2"):
        assert sim("--recipe", "lru", "--n", n, "--epochs", "3")[0]["total"]["served"] == 3 * int(n)


def test_interrupt():
    p = subprocess.Popen([LARDER, "sim", "--recipe", "lru", "--n", "100000", "--epochs", "1000000",
                          "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    interrupt(p, after=0.5)
    out, err = p.communicate(timeout=60)
    assert p.returncode == 130, (p.returncode, err)
    r = json.loads(out)  # the figures so far, also of an epoch that is not over
    assert r["epochs"] and r["total"]["served"] > 0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as tmp:
        for name, test in list(globals().items()):
            if name.startswith("test_"):
                test(tmp) if test.__code__.co_argcount else test()
                print("ok", name)
    sys.exit(0)
