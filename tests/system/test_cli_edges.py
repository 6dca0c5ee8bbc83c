"""The program where things go wrong around it: a full disk, a closed pipe, odd file names, Ctrl-C."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
from process_kit import interrupt  # noqa: E402

LARDER = os.environ["LARDER"]
SMALL = "mem:?n=60&h=8&w=8&c=1"


def run(*args, **more):
    return subprocess.run([LARDER, *args], capture_output=True, timeout=120, **more)


def test_full_disk_behind_stdout():
    with open("/dev/full", "wb") as full:
        for args in (["list"], ["ls", SMALL], ["ls", SMALL, "--json"], ["--help"], ["--version"],
                     ["sim", "--help"], ["sim", "--recipe", "lru", "--n", "100"],
                     ["sim", "--recipe", "lru", "--n", "100", "--json"],
                     ["train", SMALL, "--epochs", "1", "--test", "none", "--quiet"]):
            p = subprocess.run([LARDER, *args], stdout=full, stderr=subprocess.PIPE, timeout=120)
            assert p.returncode == 1 and b"standard output" in p.stderr, (args, p)


def test_plots_are_whole_or_not_there(tmp):
    p = run("sim", "--recipe", "lru", "--n", "100", "--plot", str(tmp / "no" / "x.svg"))
    assert p.returncode == 1 and b"No such file" in p.stderr, p
    p = run("sim", "--recipe", "lru", "--n", "100", "--plot", "/dev/full")
    assert p.returncode == 1 and b"/dev/full" in p.stderr, p
    out = tmp / "x.svg"
    out.write_text("old")
    limited = ["bash", "-c", 'ulimit -f 1; trap "" XFSZ; exec "$0" "$@"', LARDER]
    many = ",".join(["lru", "minio", "quiver", "lfu", "fifo", "sieve", "random"])
    p = subprocess.run([*limited, "sim", "--recipe", many, "--n", "100", "--epochs", "40", "--plot",
                        str(out)], capture_output=True, timeout=120)
    assert p.returncode == 1, p
    assert out.read_text() == "old" and os.listdir(tmp) == ["x.svg"], os.listdir(tmp)


def test_no_space_left(tmp):
    # A disk of 64 KiB, full but for a page: what is there stays, and there is a sentence.
    script = """mount -t tmpfs -o size=64k none "$1" || exit 77
        cd "$1" && echo old >x.svg && chmod 600 x.svg && mkdir run && echo {} >run/meta.json || exit 78
        dd if=/dev/zero of=fill bs=4096 2>/dev/null
        "$2" sim --recipe lru --n 100 --plot x.svg; echo "sim $?"
        "$2" train "$3" --epochs 1 --test none --out run --quiet; echo "train $?"
        cat x.svg run/meta.json; find . -name '.larder*'; stat -c %a x.svg; rm fill
        "$2" sim --recipe lru --n 100 --plot x.svg >/dev/null; echo "sim $?"; stat -c %a x.svg"""
    p = run_script(script, str(tmp), LARDER, SMALL)
    if p.returncode != 0:
        print("no file system may be mounted here: the full disk is left out")
        return
    out, err = p.stdout.decode(), p.stderr.decode()
    assert "sim 1\n" in out and "train 1\n" in out and "old\n{}\n600\nsim 0\n600\n" in out, p
    assert err.count("No space left on device") == 2 and "x.svg" in err, p


def run_script(script, *args):
    flags = "-m" if os.geteuid() == 0 else "-rm"
    return subprocess.run(["unshare", flags, "sh", "-c", script, "sh", *args], capture_output=True, timeout=120)


def test_plots_know_units(tmp):
    # 12.5, 25 and 50 % of 4096 samples of 1 KiB; what tables cost moves the line, but not along x
    drawn = []
    for sizes in ("12.5%,25%,50%", "512KiB,1MiB,2048KiB", "12.5%,1024KiB,2MiB"):
        out = tmp / "x.svg"
        p = run("sim", "--recipe", "minio", "--n", "4096", "--size", "1024", "--cache", sizes,
                "--plot", str(out))
        assert p.returncode == 0, p
        line = re.search(r'<path [^>]*fill="none"[^>]* d="([^"]*)"', out.read_text())[1]
        drawn.append([point.split()[0] for point in re.split("[ML]", line)[1:]])
    assert len(drawn[0]) == 3 and drawn[0] == drawn[1] == drawn[2], drawn


def test_closed_pipe():
    p = subprocess.Popen([LARDER, "ls", "mem:?n=200000", "--limit", "200000"],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    p.stdout.read(10)
    p.stdout.close()
    assert p.wait(60) == -signal.SIGPIPE and p.stderr.read() == b""


def test_odd_names(tmp):
    folder = os.fsencode(tmp) + b"/c\xff\xfe\x1b[31m"
    os.mkdir(folder)
    names = [b"a\xffb.jpg", b"esc\x1b[2J.jpg", b"new\nline.jpg", "gr\u00fc\u00df.jpg".encode()]
    for name in names:
        with open(folder + b"/" + name, "wb") as f:
            f.write(b"\xff\xd8\xff")
    p = run("ls", str(tmp), "--json")
    about = json.loads(p.stdout.decode())  # UTF-8, whatever the names are
    got = sorted(os.fsencode(s["name"]).split(b"/")[-1] for s in about["samples"])
    assert got == sorted(names), got
    p = run("ls", str(tmp))
    assert p.returncode == 0 and b"\x1b" not in p.stdout and p.stdout.count(b"line.jpg") == 1, p
    p = run("ls", str(tmp / "no\x1b[2Jsuch"))
    assert p.returncode == 1 and b"\x1b" not in p.stderr, p
    p = run("train", str(tmp), "--test", "none", "--epochs", "1")
    assert p.returncode != 0 and b"\x1b" not in p.stderr, p


def interrupted(*args, after):
    # Nobody reads while it runs: a pipe would be full before the processor time is spent.
    p = subprocess.Popen([LARDER, *args], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    interrupt(p, after)
    _, err = p.communicate(timeout=60)
    assert p.returncode == 130, (args, p.returncode, err)


def test_interrupt():
    # Long before the future is known.
    interrupted("sim", "--recipe", "belady", "--n", "3000000", "--epochs", "100", after=0.3)
    interrupted("train", SMALL, "--epochs", "100000", "--test", "none", "--quiet", after=0.3)


def main():
    for name, test in sorted(globals().items()):
        if not name.startswith("test_"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            test(pathlib.Path(folder)) if test.__code__.co_argcount else test()
        print("ok", name)


if __name__ == "__main__":
    sys.exit(main())
