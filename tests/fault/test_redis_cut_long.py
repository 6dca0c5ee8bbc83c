"""The network between a job and Redis is cut for 30 seconds and restored, the link itself taken down
(a network namespace; needs root): the run goes on with the same samples, says why once, and uses
Redis again."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

LARDER = os.environ["LARDER"]
CUT = 30
tag = f"lc{os.getpid() % 100000}"
parts = subprocess.run([LARDER, "--version"], capture_output=True, text=True).stdout


def skip(why):
    print(f"{why}: skipped")
    sys.exit(77)


def ip(*args, **more):
    return subprocess.run(["ip", *args], capture_output=True, text=True, **more)


if "-redis" in parts or not shutil.which("redis-server"):
    skip("no redis-server, or built without hiredis")
if os.geteuid() != 0 or not shutil.which("ip") or ip("netns", "add", tag).returncode != 0:
    skip("no network namespaces")
folder = tempfile.mkdtemp()
server = job = None
try:
    net = f"10.{77 + os.getpid() % 100}.{os.getpid() // 100 % 200}"
    ip("link", "add", f"{tag}v", "type", "veth", "peer", "name", "eth0", "netns", tag, check=True)
    ip("addr", "add", f"{net}.1/24", "dev", f"{tag}v", check=True)
    ip("link", "set", f"{tag}v", "up", check=True)
    ip("-n", tag, "addr", "add", f"{net}.2/24", "dev", "eth0", check=True)
    ip("-n", tag, "link", "set", "eth0", "up", check=True)
    server = subprocess.Popen(
        ["ip", "netns", "exec", tag, "redis-server", "--port", "6379", "--bind", f"{net}.2",
         "--protected-mode", "no", "--save", "", "--dir", folder], stdout=subprocess.DEVNULL)
    for _ in range(200):
        if subprocess.run(["redis-cli", "-h", f"{net}.2", "ping"], capture_output=True).returncode == 0:
            break
        time.sleep(0.1)
    train = [LARDER, "train", "mem:?n=4000&h=8&w=8&c=1", "--recipe", "minio", "--seed", "3", "--json",
             "--quiet", "--test", "none", "--slow", "bandwidth=100KiB"]  # 2.5 s an epoch
    began = time.time()
    job = subprocess.Popen([*train, "--epochs", "24", "--cache", f"redis://{net}.2?budget=30%"],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    epochs = []
    cut = back = 0
    for line in job.stdout:
        if line.startswith("{"):
            epochs.append((time.time(), json.loads(line)))
        if len(epochs) == 3 and not cut:
            ip("link", "set", f"{tag}v", "down", check=True)
            cut = time.time()
        if cut and not back and time.time() > cut + CUT:
            ip("link", "set", f"{tag}v", "up", check=True)
            back = time.time()
    said = job.stderr.read()
    assert job.wait() == 0, said
    assert back, f"over before it was back: {time.time() - began}"
    plain = subprocess.run([*train[:-2], "--epochs", "24", "--cache", "0"], capture_output=True,
                           text=True, check=True)
    right = [json.loads(x) for x in plain.stdout.splitlines() if x.startswith("{")]
    assert [e["loss"] for _, e in epochs] == [e["loss"] for e in right]  # the same samples
    hits = [e["hits"] / e["served"] for _, e in epochs]
    away = [h for (at, _), h in zip(epochs, hits) if cut + 5 < at < back]
    assert away and max(away) < 0.1, hits  # but for what was to be written just then
    assert hits[2] > 0.29 and hits[-1] > 0.29, hits  # before, and by itself again
    assert said.count("redis") >= 1 and said.count(f"{net}.2") <= 2, said
finally:
    for p in (job, server):
        if p and p.poll() is None:
            p.kill()
            p.wait()
    ip("link", "del", f"{tag}v")
    ip("netns", "del", tag)
    shutil.rmtree(folder)
