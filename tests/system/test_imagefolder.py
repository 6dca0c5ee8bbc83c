"""Ids, labels and classes of a dir: source against torchvision's ImageFolder, on folders made at
random with the names that sort oddly."""
import json
import os
import random
import subprocess
import sys
import tempfile

try:
    from torchvision.datasets import ImageFolder
except ImportError:
    print("skipped: no torchvision")
    sys.exit(77)

PIECES = ["a", "A", "b", "_", "-", ".", "0", "10", "9", " ", "é", "ß", "中", "😀", "z", "~"]
ENDINGS = [".jpg", ".JPG", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp", ".WebP",
           ".txt", ".gif", ""]


def name(rng):
    text = "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 4)))
    return text if text not in (".", "..") else "dots"


def fill(rng, folder, depth):
    for _ in range(rng.randint(1, 8)):
        with open(os.path.join(folder, name(rng) + rng.choice(ENDINGS)), "wb") as f:
            f.write(b"x" * rng.randint(0, 50))
    for _ in range(rng.randint(0, 3) if depth else 0):
        below = os.path.join(folder, name(rng))
        if not os.path.exists(below):
            os.mkdir(below)
            fill(rng, below, depth - 1)


def compare(root):
    theirs = ImageFolder(root)
    out = subprocess.run([os.environ["LARDER"], "ls", "dir:" + root, "--json", "--limit", "100000"],
                         check=True, capture_output=True, text=True).stdout
    ours = json.loads(out)
    assert [c["name"] for c in ours["class_counts"]] == theirs.classes
    assert ours["count"] == len(theirs.samples), (ours["count"], len(theirs.samples))
    for mine, (path, label) in zip(ours["samples"], theirs.samples):
        assert os.path.join(root, mine["name"]) == path, (mine["name"], path)
        assert mine["label"] == label
        assert mine["bytes"] == os.path.getsize(path)
    return len(theirs.samples)


total = 0
for seed in range(30):
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="larder-test-") as root:
        for _ in range(rng.randint(1, 6)):
            folder = os.path.join(root, name(rng))
            if not os.path.exists(folder):
                os.mkdir(folder)
                fill(rng, folder, 2)
                with open(os.path.join(folder, "x.jpg"), "wb"):
                    pass
        some = os.path.join(root, sorted(os.listdir(root))[0])
        os.mkdir(os.path.join(root, "target"))
        with open(os.path.join(root, "target", "in.png"), "wb") as f:
            f.write(b"linked")
        os.symlink(os.path.join(root, "target"), os.path.join(some, "link"))
        os.symlink(os.path.join(root, "target", "in.png"), os.path.join(some, "file.jpg~.png"))
        total += compare(root)
print(f"{total} samples in the same order")
