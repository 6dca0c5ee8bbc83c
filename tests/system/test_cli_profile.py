"""larder profile as people call it: its file feeds larder plan; records, daemons, wrong input."""
# release build only
# (what it plans follows from rates, and a sanitizer changes them)
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
from process_kit import interrupt, wait_for  # noqa: E402
import see_kit  # noqa: E402

LARDER = os.environ["LARDER"]
PLAN_KEYS = ["schema", "n_total", "s_data", "m", "m_decoded", "t_da", "t_a", "b_storage", "b_cache",
             "s_cache", "t_gpu", "batch", "jobs"]
SOURCE = "mem:?n=5000&h=16&w=16&c=3"


def run(*args, code=0, env=None):
    while True:  # on a busy machine a daemon may not come to answer for seconds
        p = subprocess.run([LARDER, *args], capture_output=True, text=True, timeout=120,
                           env={**os.environ, **(env or {})})
        if "does not answer" not in p.stderr:
            break
    assert p.returncode == code, f"{args}: exit {p.returncode}, wanted {code}: {p.stderr}"
    assert "\x1b" not in p.stdout + p.stderr, "control bytes although this is no terminal"
    return p


def test_plan_reads_it(folder):
    path = f"{folder}/machine.json"
    p = run("profile", SOURCE, "--seconds", "0.5", "--t-gpu", "1234", "--cache", "50%", "-o", path)
    assert p.stdout == "" and "storage, 64 in flight" in p.stderr
    with open(path) as f:
        profile = json.load(f)
    assert list(profile)[:len(PLAN_KEYS)] == PLAN_KEYS
    assert profile["n_total"] == 5000 and profile["s_data"] == 768 and profile["m"] == 4
    assert profile["m_decoded"] == 1 and profile["t_gpu"] == 1234
    assert profile["s_cache"] == 5000 * 768 / 2
    assert sum(profile[f"storage_{d}_reads"] for d in (1, 4, 16, 64)) <= 5000
    assert profile["b_storage"] <= max(profile[f"storage_{d}_bytes_s"] for d in (1, 4, 16, 64))
    assert profile["daemon_bytes_s"] is None
    plan = json.loads(run("plan", "--profile", path, "--json").stdout)
    assert sum(plan["split"].values()) == 100 and plan["throughput"] <= 1234.001
    assert "given" not in plan
    given = json.loads(run("plan", "--profile", path, "--json", "--split", "50/0/50").stdout)["given"]
    assert given["split"] == {"encoded": 50, "decoded": 0, "augmented": 50}
    assert given["throughput"] <= plan["throughput"]
    assert "as given" in run("plan", "--profile", path, "--split", "0/100/0").stdout
    run("plan", "--profile", path, "--split", "50/0/60", code=2)


def test_shrinking():
    """Soft raw pictures: smaller, and hardly changed."""
    args = ["profile", SOURCE, "--seconds", "0.3", "--t-gpu", "9", "--quiet", "--shrink"]
    if "this build encodes no JPEG" in subprocess.run([LARDER, *args, "auto"], capture_output=True,
                                                      text=True).stderr:
        return
    best, worst = (json.loads(run(*args, x).stdout) for x in ("auto:q=95", "8:q=10"))
    assert best["shrunk_side"] == 0 and best["shrunk_quality"] == 95 and worst["shrunk_side"] == 8
    assert worst["shrunk_bytes"] < best["shrunk_bytes"] <= 768
    assert worst["shrunk_ratio"] < 0.9 and worst["shrunk_share"] == 1
    assert worst["shrunk_error"] > best["shrunk_error"] and worst["shrunk_psnr"] < 40
    assert "shrunk_bytes" not in json.loads(run(*args[:-1]).stdout)
    loud = [a for a in args if a != "--quiet"]
    assert "shrunk (native size, quality 80)" in run(*loud, "native").stderr
    assert "shrunk (side 8, quality 80)" in run(*loud, "8").stderr
    assert "256:q=85" in run(*args, "auto:q=0", code=2).stderr


def test_without_a_training_rate():
    p = run("profile", SOURCE, "--seconds", "0.2")
    assert json.loads(p.stdout)["t_gpu"] is None and "--t-gpu" in p.stderr


def test_rate_of_a_record(folder):
    record = f"{folder}/record"
    os.mkdir(record)
    with open(f"{record}/meta.json", "w") as f:
        f.write('{"name": "x", "status": "done"}\n')
    with open(f"{record}/epochs.jsonl", "w") as f:
        f.write('{"epoch": 0, "served": 1000, "seconds": 6, "stall_seconds": 4}\n'
                '{"epoch": 1, "served": 1000, "seconds": 3, "stall_seconds": 1}\n')
    p = run("profile", SOURCE, "--seconds", "0.2", "--run", record, "--quiet")
    assert json.loads(p.stdout)["t_gpu"] == 500
    assert "nowhere" in run("profile", SOURCE, "--run", f"{folder}/nowhere", code=1).stderr
    run("profile", SOURCE, "--run", record, "--t-gpu", "3", code=2)


def test_rate_of_a_running_job(folder):
    data = f"{folder}/data"
    os.mkdir(data)
    see_kit.write_idx(data)
    job = see_kit.start_job(data)
    try:
        def asked():
            p = subprocess.run([LARDER, "profile", SOURCE, "--seconds", "0.2", "--job", str(job.pid),
                                "--quiet"], capture_output=True, text=True, timeout=120)
            assert p.returncode == 0 or "larder top" in p.stderr or "later" in p.stderr, p.stderr
            return p.stdout
        assert json.loads(wait_for(asked))["t_gpu"] > 0
    finally:
        see_kit.end(job)
    said = run("profile", SOURCE, "--job", str(job.pid), code=1).stderr
    assert str(job.pid) in said and "larder top" in said
    run("profile", SOURCE, "--job", "1", "--t-gpu", "3", code=2)


def test_daemon(folder):
    path = f"{folder}/s"
    daemon = subprocess.Popen([LARDER, "serve", "--socket", path, "--cache", "128MiB"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert "serves" in daemon.stdout.readline()
        p = run("profile", SOURCE, "--seconds", "0.4", "--quiet", env={"LARDER_SOCKET": path})
        got = json.loads(p.stdout)
        assert got["daemon_bytes_s"] > 0 and got["b_cache"] == got["daemon_bytes_s"]
        p = run("profile", SOURCE, "--seconds", "0.4", "--quiet", "--cache", f"unix:{path}?budget=3MiB")
        got = json.loads(p.stdout)
        assert got["daemon_bytes_s"] > 0 and got["s_cache"] == 3 << 20
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.communicate(timeout=120)
    p = run("profile", SOURCE, "--seconds", "0.2", env={"LARDER_SOCKET": path}, code=1)
    assert path in p.stderr


def write_idx(folder, n=640, side=16):
    for part in ("train", "t10k"):
        with open(f"{folder}/{part}-images-idx3-ubyte", "wb") as f:
            f.write(struct.pack(">IIII", 0x803, n, side, side) + os.urandom(n * side * side))
        with open(f"{folder}/{part}-labels-idx1-ubyte", "wb") as f:
            f.write(struct.pack(">II", 0x801, n) + bytes(i % 10 for i in range(n)))


def test_training_plans(folder):
    """Rows alone, on slow storage: one job has to read each of them again, so the plan is another."""
    write_idx(folder)
    args = ["train", f"idx:{folder}", "--recipe", "seneca:plan=auto,split=0/0/100", "--cache", "60%",
            "--slow", "bandwidth=300KiB", "--batch", "16", "--epochs", "3", "--test", "none",
            "--ahead", "4"]
    epochs = [json.loads(line) for line in run(*args, "--json").stdout.splitlines()]
    assert epochs[-1]["plan_encoded"] == 100 and epochs[-1]["plan_changes"] >= 1
    assert epochs[-1]["plan_rate"] > 0 and epochs[-1]["hits_encoded"] > 0
    text = run(*args, "--out", f"{folder}/record").stdout
    assert "the cache is split 100/0/0" in text and "storage held up" in text
    assert "Cache for encoded samples" in open_report(folder)
    fixed = run(*args[:3], "seneca", *args[4:], "--json").stdout
    assert "plan_" not in fixed


def open_report(folder):
    run("report", f"{folder}/record", "-o", f"{folder}/report.html")
    with open(f"{folder}/report.html") as f:
        return f.read()


def test_wrong_input(folder):
    for args in ([], [SOURCE, "--seconds", "0"], [SOURCE, "--dtype", "f16"],
                 [SOURCE, "--cache", "much"], [SOURCE, "--t-gpu", "-1"], [SOURCE, "--batch", "0"],
                 [SOURCE, "--layout", "hw"], [SOURCE, "--threads", "5000"]):
        assert run("profile", *args, code=2).stderr
    run("profile", f"{folder}/nothing-here", code=1)
    with open(f"{folder}/t10k-images-idx3-ubyte", "wb") as f:
        f.write(struct.pack(">IIII", 0x803, 10, 28, 28))  # cut short
    assert run("profile", f"idx:{folder}?split=test", code=1).stderr
    assert "no-such" in run("profile", SOURCE, "--seconds", "0.1", "-o",
                            f"{folder}/no-such/file.json", code=1).stderr
    assert "larder plan" in run("profile", "--help").stdout


def test_interrupt():
    p = subprocess.Popen([LARDER, "profile", "slow:latency=10s:" + SOURCE, "--seconds", "3600"],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    interrupt(p)
    out, err = p.communicate(timeout=120)
    assert p.returncode == 130 and out == "" and "stopped" in err, (p.returncode, out, err)


if __name__ == "__main__":
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            with tempfile.TemporaryDirectory() as where:
                test(*([where] if test.__code__.co_argcount else []))
            print(name)
