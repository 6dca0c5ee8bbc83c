# release build only
"""What README.md tells a newcomer to type works as it stands there, one line after the other, with a
folder of pictures and a LIBSVM file of their own."""
import os
import pathlib
import random
import re
import shlex
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
from process_kit import interrupt  # noqa: E402

try:
    from PIL import Image
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

LARDER = os.path.abspath(os.environ["LARDER"])
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
QUICKER = {"train": ["--epochs", "1", "--slow", "bandwidth=1GiB"], "profile": ["--seconds", "1"]}


def block(after, kind=""):
    """The first fenced block behind these words."""
    found = re.search(re.escape(after) + r".*?\n```" + kind + r"\n(.*?)\n```", README, re.S)
    assert found, after
    return found[1]


def make_data(folder):
    rng = random.Random(1)
    for part in ("train", "val"):
        for name in ("cats", "dogs"):
            here = folder / "photos" / part / name
            here.mkdir(parents=True)
            for i in range(6):
                colour = tuple(rng.randrange(256) for _ in range(3))
                Image.new("RGB", (300 + 10 * i, 260), colour).save(here / f"{i}.jpg")
    with open(folder / "a9a", "w") as f:
        for _ in range(60):
            x = rng.random()
            f.write(f"{1 if x > 0.5 else -1} 1:{x:.3f} 2:{rng.random():.3f}\n")


def command_lines():
    text = block("From the command line").replace("\\\n", " ")
    return [shlex.split(line, comments=True) for line in text.split("\n")]


def serve(args, folder):
    p = subprocess.Popen(args, cwd=folder, env=dict(os.environ, LARDER_SOCKET=f"{folder}/socket"),
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        said = p.stdout.readline()
        assert b"serves" in said, said
        interrupt(p)
        p.communicate(timeout=60)
    finally:
        p.kill()


def test_command_line(folder):
    trained = True
    wrote = {"pack": "packed", "sim": "hits.svg", "report": "report.html", "svm-train": "a9a.model"}
    for args in command_lines():
        assert args[0] == "larder", args
        args[0] = LARDER
        if "s3://" in " ".join(args):
            continue  # the only line that needs a network
        if args[1] == "serve":
            serve(args, folder)
            continue
        if args[1] == "train" and not os.path.isdir(args[2]):
            print(f"not run: no {args[2]}")
            trained = False
        if args[1] in ("train", "report", "suggest") and not trained:
            continue
        shown = [w for a in args for w in (map(str, sorted(folder.glob(a))) if "*" in a else [a])]
        p = subprocess.run(shown + QUICKER.get(args[1], []), cwd=folder,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=280)
        assert p.returncode == 0, (args, p.stdout.decode())
        if args[1] in wrote:
            assert (folder / wrote[args[1]]).exists(), args
        print("ok", " ".join(args[1:]))


def test_python(folder):
    try:
        import numpy  # noqa: F401
    except ImportError as e:
        print(f"not run: {e}")
        return
    code = block("two lines of a training script", "python")
    assert 'device="cuda",' in code, code
    code = code.replace('device="cuda",', "").replace("    ...", "    print(len(x), len(y))")
    theirs = ("import numpy\nmodel = lambda x: x\n"
              "cross_entropy = lambda x, y, reduction: numpy.ones(len(y))\n")
    code = theirs + code
    p = subprocess.run([sys.executable, "-c", code], cwd=folder, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, timeout=280,
                       env=dict(os.environ, PYTHONPATH=str(ROOT / "python"),
                                LARDER_LIBRARY=os.path.join(os.path.dirname(LARDER), "liblarder.so")))
    assert p.returncode == 0 and p.stdout == b"12 12\n", p.stdout.decode()


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_data(folder)
        test_command_line(folder)
        test_python(folder)
    print("ok")


if __name__ == "__main__":
    sys.exit(main())
