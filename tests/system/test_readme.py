# release build only
"""What README.md tells a newcomer to type works as it stands there, one line after the other, with a
folder of pictures and a LIBSVM file of their own; its picture is drawn from the results that are recorded here, its
table has the demo's columns, and programs, options and recipes that it names are there."""
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
MOST_LINES = 130


def blocks(kind=""):
    """Fenced blocks of one language."""
    return [b for k, b in re.findall(r"^```(\w*)\n(.*?)\n```$", README, re.S | re.M) if k == kind]


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
    text, = (b for b in blocks() if b.startswith("larder "))
    return [shlex.split(line, comments=True) for line in text.replace("\\\n", " ").split("\n")]


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
    wrote = {"pack": "packed", "sim": "hits.svg", "report": "report.html", "svm-train": "a9a.model", "train": "job.tape"}
    done = set()
    for args in command_lines():
        assert args[0] == "larder", args
        done.add(args[1])
        args[0] = LARDER
        if args[1] == "serve":
            serve(args, folder)
            continue
        shown = [w for a in args for w in (map(str, sorted(folder.glob(a))) if "*" in a else [a])]
        p = subprocess.run(shown, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=280)
        assert p.returncode == 0, (args, p.stdout.decode())
        if args[1] in wrote:
            assert (folder / wrote[args[1]]).exists(), args
        print("ok", " ".join(args[1:]))
    assert done >= {*wrote, "ls", "serve", "suggest", "doctor"}, done


def test_make_goals():
    """What its other block has is there."""
    text, = (b for b in blocks() if b.startswith("make "))
    goals = re.findall(r"^make (\S+)", text, re.M)
    assert goals == ["demo", "test"], goals
    p = subprocess.run(["make", "-n", *goals], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert p.returncode == 0 and b"tools/demo.sh" in p.stdout, p.stdout.decode()


def test_programs_and_options():
    """`bench/gpu/feed.py DATA --results feed.jsonl`: the program is there and has the option."""
    found = re.findall(r"`(bench/[\w./]+\.py)([^`]*)`", README)
    assert len(found) >= 4, found
    for path, words in found:
        assert os.access(ROOT / path, os.X_OK), path
        code = (ROOT / path).read_text(encoding="utf-8")
        for option in re.findall(r"--[\w-]+", words):
            assert f'"{option}"' in code, (path, option)
        for option in re.findall(r'add_argument\("(--[\w-]+)"[^\n]*required=True', code):
            assert option in words, (path, option)


def test_picture(folder):
    """It is what the recorded results give."""
    shown = re.search(r"!\[[^]]*\]\(([^)]*)\)", README)[1]
    made = folder / "picture.svg"
    subprocess.run([sys.executable, ROOT / "bench/gpu/first_look.py", "--svg", made], check=True)
    assert made.read_bytes() == (ROOT / shown).read_bytes(), f"bench/gpu/first_look.py draws another {shown}"


def rows_under(head):
    """Cells of a table, by its first head."""
    table = re.search(rf"^(\| {re.escape(head)} \|.*?)\n\n", README, re.S | re.M)[1]
    return [[c.strip() for c in line.strip("|").split("|")] for line in table.split("\n")]


def test_demo_table(folder):
    """It has the columns that make demo prints, and the recipes that it trains."""
    subprocess.run([LARDER, "report", "--short", "runs/minio", "--md", "demo.md"], cwd=folder, check=True,
                   stdout=subprocess.DEVNULL)
    head = (folder / "demo.md").read_text(encoding="utf-8").split("\n")[0]
    rows = rows_under("run")
    assert rows[0] == [c.strip() for c in head.strip("|").split("|")], (rows[0], head)
    recipes = re.search(r"RECIPES:-([^}]*)}", (ROOT / "tools/demo.sh").read_text())[1].split()
    assert [r[0] for r in rows[2:]] == recipes, rows
    assert all("±" in cell for r in rows[2:] for cell in r[1:]), rows


def test_recipes():
    """Those of the table are there."""
    listed = subprocess.run([LARDER, "list"], stdout=subprocess.PIPE, check=True).stdout.decode()
    there = set(re.findall(r"^  (\w+) ", re.search(r"^recipes: (.*?)\n\n", listed + "\n\n", re.S | re.M)[1], re.M))
    named = [name for row in rows_under("recipe")[2:] for name in re.findall(r"`([^`]*)`", row[0])]
    assert len(named) > 15 and "minio" in named, named
    assert {name.partition(":")[0] for name in named} <= there, named


def test_python(folder):
    try:
        import numpy  # noqa: F401
    except ImportError as e:
        print(f"not run: {e}")
        return
    code, = blocks("python")
    assert 'device="cuda",' in code and "    ..." in code, code
    code = code.replace('device="cuda",', "").replace("    ...", "    print(len(x), len(y)); loader.report(loss=[1.0] * len(y))")
    p = subprocess.run([sys.executable, "-c", code], cwd=folder, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, timeout=280,
                       env=dict(os.environ, PYTHONPATH=str(ROOT / "python"),
                                LARDER_LIBRARY=os.path.join(os.path.dirname(LARDER), "liblarder.so")))
    assert p.returncode == 0 and p.stdout == b"12 12\n", p.stdout.decode()


def main():
    assert README.count("\n") <= MOST_LINES, f"README.md has more than {MOST_LINES} lines"
    test_make_goals()
    test_programs_and_options()
    test_recipes()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_data(folder)
        test_command_line(folder)
        test_demo_table(folder)
        test_picture(folder)
        test_python(folder)
    print("ok")


if __name__ == "__main__":
    sys.exit(main())
