"""larder train and larder profile with a cache in Redis; the password stays out of all they write."""
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
from ports import free_port  # noqa: E402

LARDER = os.environ["LARDER"]
parts = subprocess.run([LARDER, "--version"], capture_output=True, text=True).stdout
if "-redis" in parts or not shutil.which("redis-server"):
    print("no redis-server, or built without hiredis: skipped")
    sys.exit(77)

port = free_port()
folder = tempfile.mkdtemp()
server = subprocess.Popen(
    ["redis-server", "--port", str(port), "--save", "", "--dir", folder, "--requirepass", "hunter2"],
    stdout=subprocess.DEVNULL)


def run(*args, fails=False, password=None):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("LARDER_REDIS", "REDISCLI"))}
    if password:
        env["LARDER_REDIS_PASSWORD"] = password
    done = subprocess.run([LARDER, *args], capture_output=True, text=True, env=env, timeout=250)
    assert (done.returncode != 0) == fails, (args, done)
    assert "hunter2" not in done.stdout + done.stderr, done
    return done


try:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except OSError:
            time.sleep(0.05)
    data = "mem:?n=2000&h=8&w=8&c=1"
    plain = f"redis://127.0.0.1:{port}?budget=30%&timeout=20s"
    train = ["train", data, "--recipe", "minio", "--epochs", "2", "--seed", "3", "--json", "--quiet",
             "--test", "none"]
    said = run(*train, "--cache", plain, fails=True)
    assert "LARDER_REDIS_PASSWORD" in said.stderr, said
    said = run(*train, "--cache", f"redis://x:hunter2@127.0.0.1:{port}?colour=red", fails=True)
    assert "colour" in said.stderr, said

    def figures(text):
        return [(e["hits"], e["misses"], e["loss"]) for e in map(json.loads, text.splitlines())]

    own = figures(run(*train, "--cache", "30%").stdout)
    assert figures(run(*train, "--cache", plain, password="hunter2").stdout) == own
    out = os.path.join(folder, "run")
    given = f"redis://:hunter2@127.0.0.1:{port}?budget=30%&timeout=20s"
    assert figures(run(*train, "--cache", given, "--out", out).stdout) == own
    saved = os.path.join(folder, "saved")
    os.mkdir(saved)
    tool = os.path.join(os.environ["LARDER_BUILD"], "tool_save")
    done = subprocess.run([tool, data, given, saved], capture_output=True, text=True, timeout=250)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done
    assert sorted(os.listdir(saved)) == ["decisions", "record", "state"]
    for name in [os.path.join(f, n) for f in (out, saved) for n in os.listdir(f)]:
        with open(name, "rb") as f:
            assert b"hunter2" not in f.read(), name
    with open(os.path.join(out, "meta.json")) as f:
        assert "***@127.0.0.1" in json.load(f)["cache"]

    profile = json.loads(run("profile", data, "--seconds", "1", "--t-gpu", "100", "--quiet",
                             "--cache", given).stdout)
    assert profile["redis_bytes_s"] > 0 and profile["b_cache"] == profile["redis_bytes_s"]
    assert abs(profile["s_cache"] - 0.3 * 2000 * 64) < 1
    # The simulator plans for the same text, and needs no server.
    run("sim", "--recipe", "minio", "--n", "1000", "--epochs", "2", "--batch", "100", "--cache",
        "redis://:hunter2@nowhere?budget=20%")
    # Two tiers: as one cache of the sum, or as one of Redis' size; the same in the simulator.
    for tier, all_of, front in (("exclusive", 0.5, 0.2), ("inclusive", 0.3, 0.2)):
        text = f"20%+redis://:hunter2@127.0.0.1:{port}?budget=30%&timeout=20s&tier={tier}"
        done = [json.loads(x) for x in run(*train, "--cache", text).stdout.splitlines()]
        assert [e["hits"] for e in done] == [0, int(2000 * all_of)], done
        assert [e["hits_front"] for e in done] == [0, int(2000 * front)], done
        sim = json.loads(run("sim", "--data", data, "--recipe", "minio", "--epochs", "2", "--seed", "3",
                             "--json", "--cache", text).stdout)
        for e, said in zip(done, sim["epochs"]):
            assert (e["hits"], e["hits_front"]) == (said["hits"], said["front_hits"]), (e, said)
            assert said["far_hits"] == said["hits"] - said["front_hits"]
        said = run("sim", "--recipe", "minio", "--n", "1000", "--epochs", "2", "--batch", "100", "--cache",
                   text).stdout
        assert "in front" in said, said
    assert "hits_front" not in run(*train, "--cache", "30%").stdout
finally:
    server.terminate()
    server.wait()
    shutil.rmtree(folder)
