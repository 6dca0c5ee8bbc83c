"""larder pack, pack --check and unpack as people call them: what they say, kill -9 and Ctrl-C in the
middle, and that Python's own tarfile reads the shards."""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

LARDER = os.environ["LARDER"]
try:
    from PIL import Image
except ImportError:
    print("skipped: no Pillow (apt install python3-pil)")
    sys.exit(77)
if " jpeg" not in " " + subprocess.run([LARDER, "--version"], capture_output=True,
                                       text=True).stdout.replace("parts:", "parts: "):
    print("skipped: this build has no JPEG")
    sys.exit(77)


def run(*args, code=0):
    p = subprocess.run([LARDER, *args], capture_output=True, text=True, timeout=120)
    assert p.returncode == code, f"{args}: exit {p.returncode}, wanted {code}: {p.stderr}"
    assert "\x1b" not in p.stdout + p.stderr, "control bytes although this is no terminal"
    return p


def make_pictures(folder, count, side):
    chance = random.Random(5)
    noise = Image.frombytes("RGB", (side, side), chance.randbytes(side * side * 3))
    for i in range(count):
        os.makedirs(f"{folder}/{i % 3}", exist_ok=True)
        noise.rotate(i).save(f"{folder}/{i % 3}/{i:03}.jpg", quality=80, progressive=i % 5 == 0)


def files_of(folder):
    return {name: open(os.path.join(folder, name), "rb").read() for name in sorted(os.listdir(folder))}


def test_whole_way(root):
    make_pictures(f"{root}/photos", 12, 150)
    with open(f"{root}/photos/0/note.jpg", "w", encoding="utf8") as f:
        f.write("no picture")
    p = run("pack", f"{root}/photos", f"{root}/packed", "--verify", "--shard-size", "40KiB")
    assert "13 samples" in p.stdout and "not JPEG: as it was" in p.stdout
    assert "sample 4, not JPEG: as it was: 0/note.jpg" in p.stdout, p.stdout
    told = json.loads(run("pack", f"{root}/photos", f"{root}/packed", "--shard-size", "40KiB",
                          "--json").stdout)
    assert told["schema"] == 1 and told["samples"] == 13 and told["found_shards"] == told["shards"] > 2
    assert told["passed"] == [{"id": 4, "name": "0/note.jpg", "why": "not JPEG: as it was"}]
    assert "every byte is as it was packed" in run("pack", "--check", f"{root}/packed").stdout
    assert "pack: shards that larder pack wrote" in run("ls", f"{root}/packed").stdout
    members = 0
    for name in sorted(os.listdir(f"{root}/packed")):
        if name.endswith(".tar"):
            with tarfile.open(f"{root}/packed/{name}") as tar:
                for member in tar:
                    members += member.name.endswith(".jpg")
                    if member.name.endswith(".jpg") and not member.name.startswith("000000004"):
                        Image.open(tar.extractfile(member)).load()
    assert members == 13
    run("unpack", f"{root}/packed", f"{root}/again")
    for folder in "012":
        for name in os.listdir(f"{root}/photos/{folder}"):
            if name == "note.jpg":
                continue
            a = Image.open(f"{root}/photos/{folder}/{name}")
            b = Image.open(f"{root}/again/{folder}/{name}")
            assert a.tobytes() == b.tobytes(), name


def test_damage(root):
    shard = f"{root}/packed/shard-000001.tar"
    with open(shard, "r+b") as f:
        f.seek(2000)
        byte = f.read(1)
        f.seek(2000)
        f.write(bytes([byte[0] ^ 1]))
    p = run("pack", "--check", f"{root}/packed", code=1)
    assert "shard-000001.tar, sample" in p.stderr and "are damaged" in p.stderr


def start(root, folder):
    """From storage that gives ten pictures a second: it is not through before anybody has seen its first shards."""
    return subprocess.Popen([LARDER, "pack", f"slow:iops=10,burst=0:{root}/many", folder, "--shard-size", "300KiB",
                             "--jobs", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def shards_in(folder):
    return sum(n.endswith(".larder") for n in os.listdir(folder)) if os.path.isdir(folder) else 0


def test_killed_and_stopped(root):
    """At any moment; then the same command makes the same bytes as an undisturbed run."""
    make_pictures(f"{root}/many", 30, 500)
    run("pack", f"{root}/many", f"{root}/calm", "--shard-size", "300KiB")
    want = files_of(f"{root}/calm")
    for how in (signal.SIGKILL, signal.SIGINT):
        folder = f"{root}/disturbed"
        shutil.rmtree(folder, ignore_errors=True)
        rounds = 0
        while rounds < 3:
            p = start(root, folder)
            before = shards_in(folder)
            while p.poll() is None and shards_in(folder) <= before:  # one of its own: it is under way
                time.sleep(0.002)
            p.send_signal(how)
            _, err = p.communicate()
            if p.returncode == 0:  # through before it was stopped: once more, from the start
                shutil.rmtree(folder)
                rounds = 0
                continue
            rounds += 1
            if how == signal.SIGINT:
                assert p.returncode == 130 and "goes on from here" in err, err
                assert not any(n.endswith(".tmp") for n in os.listdir(folder))
        out = run("pack", f"{root}/many", folder, "--shard-size", "300KiB").stdout
        assert "were finished before" in out
        assert files_of(folder) == want


def test_wrong_usage(root):
    assert "examples:" in run("pack", "--help").stdout
    assert "examples:" in run("unpack", "--help").stdout
    run("pack", code=2)
    run("pack", "a", code=2)
    run("pack", f"{root}/photos", f"{root}/x", "--quality", "101", code=2)
    run("pack", f"{root}/photos", f"{root}/x", "--shard-size", "much", code=2)
    run("unpack", f"{root}/photos", code=2)
    assert "no file or folder" in run("pack", f"{root}/nowhere", f"{root}/x", code=1).stderr
    assert run("pack", "--check", f"{root}/photos", code=1).stderr


with tempfile.TemporaryDirectory() as place:
    test_whole_way(place)
    test_damage(place)
    test_killed_and_stopped(place)
    test_wrong_usage(place)
