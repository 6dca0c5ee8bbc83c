"""``python -m larder demo``: one network trained through several caches, on storage made slow. Needs
nothing but the package: the program ``larder`` trains, and where no data is installed some is made."""

from __future__ import annotations

import argparse
import importlib.util
import random
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import List, Optional

from ._lib import program

INSTALLED = Path("/usr/share/datasets/fashion-mnist")
SIDE, CLASSES = 24, 10
RUNS = {"none": ("lru", "0"), "minio": ("minio", "20%"), "rotate": ("rotate", "20%")}
WHAT = """
none: a plain loader; minio, larder's default: the same training, fewer reads;
rotate: uses again what is in memory, as much as the storage forces (repeats)"""


def patterns(chance: random.Random) -> List[bytes]:
    """A pattern of squares for each class."""
    made = []
    for _ in range(CLASSES):
        squares = [[chance.choice((0, 255)) for _ in range(SIDE // 4)] for _ in range(SIDE // 4)]
        rows = [bytes(v for v in row for _ in range(4)) for row in squares for _ in range(4)]
        made.append(b"".join(rows))
    return made


def picture(pattern: bytes, chance: random.Random) -> bytes:
    """The pattern, moved by some rows, with three quarters of the pixels' bits lost in noise."""
    turned = SIDE * chance.randrange(SIDE)
    shown = int.from_bytes(pattern[turned:] + pattern[:turned], "big")
    bits = 8 * len(pattern)
    kept = chance.getrandbits(bits) & chance.getrandbits(bits)
    return (shown & kept | chance.getrandbits(bits) & ~kept).to_bytes(len(pattern), "big")


def make_data(folder: Path, n: int) -> None:
    """Made-up pictures in the files of MNIST: n to train on, a quarter of that to test."""
    chance = random.Random(1)
    shapes = patterns(chance)
    for part, count in (("train", n), ("t10k", n // 4)):
        labels = bytes(i % CLASSES for i in range(count))
        pixels = b"".join(picture(shapes[label], chance) for label in labels)
        head = struct.pack(">4i", 0x803, count, SIDE, SIDE)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(head + pixels)
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 0x801, count) + labels)


def run(*command: str) -> str:
    """What it printed. What it said beside that is of use where it failed."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        sys.stderr.write("\n" + done.stderr.decode(errors="replace"))
        raise SystemExit(done.returncode if done.returncode > 0 else 128 - done.returncode)
    return done.stdout.decode()


def train(data: str, out: Path, epochs: int, speed: str, seeds: int, more: List[str]) -> List[str]:
    """Folders of the runs. Ctrl-C ends it with those that are done."""
    folders: List[str] = []
    try:
        for seed in range(1, seeds + 1):
            print(f"  seed {seed} of {seeds}:", end="", flush=True)
            for name, (recipe, cache) in RUNS.items():
                print(f" {name} …", end="", flush=True)
                folder = str(out / f"{name}-{seed}")
                run(program(), "train", data, "--recipe", recipe, "--cache", cache, "--epochs", str(epochs), "--seed",
                    str(seed), "--slow", f"bandwidth={speed}", "--name", name, "--out", folder, "--quiet", *more)
                folders.append(folder)
            print(flush=True)
    except KeyboardInterrupt:
        print(" stopped")
    return folders


def what_next() -> str:
    here = {name: importlib.util.find_spec(name) is not None for name in ("numpy", "torch")}
    if here["torch"]:
        return "PyTorch is installed: help(larder.Loader) shows the two lines that change in your script."
    if here["numpy"]:
        return "For PyTorch: pip install torch. Without it, larder.Loader gives NumPy arrays."
    return "For your own training from Python: pip install torch (or numpy alone), then help(larder.Loader)."


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f'"{text}" is not a number from 1 on')
    return int(text)


def main(argv: Optional[List[str]] = None) -> int:
    try:
        return compare(argv)
    except (KeyboardInterrupt, BrokenPipeError):
        return 130
    except OSError as e:  # a full disk, where the data was to be made
        print(f"larder demo: {e}; TMPDIR names another folder", file=sys.stderr)
        return 1


def compare(argv: Optional[List[str]]) -> int:
    parser = argparse.ArgumentParser(prog="larder demo", description="Trains one network through several caches, "
                                     "on storage made slow, and shows what each read and reached.")
    parser.add_argument("data", nargs="?", help="a data set with a training and a test part (Fashion-MNIST where "
                        "Debian's package has it, else made-up pictures)")
    parser.add_argument("--quick", action="store_true", help="made-up pictures, few of them: a matter of seconds")
    parser.add_argument("--seeds", type=positive, default=3, help="runs of each, for the spread (3)")
    parser.add_argument("--epochs", type=positive, help="of each run (6; with --quick 2)")
    parser.add_argument("--test", metavar="DATA", help="the test part, where data does not say; none: without accuracy")
    parser.add_argument("--slow", metavar="SPEED", help="of the storage, as 16MiB a second")
    given = parser.parse_args(argv)
    epochs = given.epochs or (2 if given.quick else 6)
    with tempfile.TemporaryDirectory(prefix="larder-demo-") as folder:
        data, speed = given.data, given.slow or "16MiB"
        if not data and not given.quick and INSTALLED.is_dir():
            data = str(INSTALLED)
        elif not data:
            data, speed = f"{folder}/data", given.slow or "4MiB"
            Path(data).mkdir()
            make_data(Path(data), 3000 if given.quick else 20000)
        told = "made-up pictures" if data.startswith(folder) else data
        print(f"larder demo: {told}, {epochs} {'epochs' if epochs > 1 else 'epoch'},\n"
              f"  storage of {speed}/s, a cache of 20 % of the data")
        folders = train(data, Path(folder), epochs, speed, given.seeds, ["--test", given.test] if given.test else [])
        if not folders:
            return 130
        print("\n" + run(program(), "report", "--short", *folders) + WHAT + "\n\n" + what_next())
    return 0 if len(folders) == len(RUNS) * given.seeds else 130


if __name__ == "__main__":
    sys.exit(main())
