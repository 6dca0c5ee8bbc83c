#!/usr/bin/env python3
# release build only: times nothing, and loads PyTorch
"""bench/gpu/feed.py on a processor: pictures are made the same again, lines are run once, failures are written down,
the table and the picture have all of them."""
import contextlib
import hashlib
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
LARDER = os.environ["LARDER"]
try:
    import torchvision  # noqa: F401
    from PIL import Image
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)
if " jpeg" not in " " + subprocess.run([LARDER, "--version"], capture_output=True,
                                       text=True).stdout.replace("parts:", "parts: "):
    print("skipped: this build has no JPEG")
    sys.exit(77)
sys.path.insert(0, os.path.join(ROOT, "bench", "gpu"))
import feed  # noqa: E402
import feed_table  # noqa: E402


def run(script, *arguments):
    p = subprocess.run([sys.executable, os.path.join(ROOT, "bench", "gpu", script), *map(str, arguments)],
                       capture_output=True, text=True, timeout=200)
    assert p.returncode == 0, p.stdout + p.stderr
    return p.stdout


def make_source(folder):
    chance = random.Random(3)
    os.makedirs(folder)
    for i in range(6):
        mode = "L" if i == 4 else "RGB"
        noise = Image.frombytes(mode, (12, 10), chance.randbytes(12 * 10 * len(mode)))
        noise.resize((120, 100)).save(f"{folder}/n{i:03}_thing.JPEG", quality=90, subsampling=2 * (i % 2))


def sums(folder):
    out = {}
    for d, _, files in os.walk(folder):
        for f in files:
            with open(os.path.join(d, f), "rb") as opened:
                out[os.path.relpath(os.path.join(d, f), folder)] = hashlib.sha1(opened.read()).hexdigest()
    return out


class Feed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory()
        cls.root = cls.place.name
        make_source(f"{cls.root}/source")
        cls.told = json.loads(cls.pictures("data").splitlines()[-1])

    @classmethod
    def tearDownClass(cls):
        cls.place.cleanup()

    @classmethod
    def pictures(cls, to):
        return run("pictures.py", f"{cls.root}/source", f"{cls.root}/{to}", "--count", 20, "--links", 2, "--shards", 2,
                   "--jobs", 2, "--larder", LARDER)

    def feed(self, *more):
        """In this process, which has loaded PyTorch; each line is one of its own."""
        return self.here(feed.main, f"{self.root}/data", "--results", f"{self.root}/feed.jsonl", "--device", "cpu", "--net",
                   "tiny", "--cores", 1, "--batch", 8, "--side", 32, "--seconds", .1, "--windows", 2, "--warm", 0, *more)

    def here(self, main, *arguments):
        before, out = sys.argv, io.StringIO()
        sys.argv = ["feed.py"] + [str(a) for a in arguments]
        try:
            with contextlib.redirect_stdout(out):
                main()
        finally:
            sys.argv = before
        return out.getvalue()

    def test_pictures(self):
        self.assertEqual((self.told["originals"], self.told["synthetic"]), (6, 14))
        self.pictures("again")
        first, second = (sums(f"{self.root}/{d}") for d in ("data", "again"))
        self.assertEqual(first, second)
        folder = [v for k, v in first.items() if k.startswith("folder/")]
        self.assertEqual((len(folder), len(set(folder))), (40, 20))
        for source in ("folder", "tar/train-{000000..000003}.tar", "packed", "shrunk"):
            out = subprocess.run([LARDER, "ls", f"{self.root}/data/{source}", "--json", "--limit", "0"],
                                 capture_output=True, text=True)
            self.assertEqual(json.loads(out.stdout)["count"], 40, out.stderr)

    def test_lines(self):
        only = ("--only", "none larder cpu pack|tiny larder cpu folder (warm|cold)|tiny dataloader folder warm|ffcv")
        listed = self.feed("--list", *only).splitlines()
        self.assertIn("none larder cpu pack warm cores=1 batch=8", listed)
        self.assertIn("lines are missing", self.feed("--budget", .01, *only))
        self.assertFalse(os.path.exists(f"{self.root}/feed.jsonl"))
        out = self.feed(*only)
        self.assertIn("no line is missing", out)
        with open(f"{self.root}/feed.jsonl") as f:
            runs = [json.loads(line) for line in f]
        self.assertEqual(len(runs), len(listed))
        for r in runs:
            if r["loader"] == "ffcv":
                self.assertIn("failed", r)
                continue
            self.assertNotIn("failed", r)
            self.assertTrue(0 < r["least"] <= r["images_s"] <= r["most"] and r["images"] % 8 == 0, r)
            self.assertEqual("limit" in r, r["net"] != "none")
        self.assertEqual(self.feed(*only), "no line is missing\n")
        self.assertEqual(self.feed("--list", *only), "no line is missing\n")
        page = f"{self.root}/page.md"
        with open(page, "w") as f:
            f.write("before\n<!-- bench/gpu/feed_table.py writes this -->\nstale\n<!-- until here -->\nafter\n")
        self.here(feed_table.main, f"{self.root}/feed.jsonl", "--page", page, "--svg", f"{self.root}/p.svg", "--net", "tiny")
        with open(page) as f:
            text = f.read()
        self.assertTrue(text.startswith("before\n") and text.endswith("-->\nafter\n") and "stale" not in text)
        self.assertEqual(text.count("| larder, CPU |"), sum(r["loader"] == "larder" for r in runs))
        self.assertIn("- FFCV: `", text)
        with open(f"{self.root}/p.svg") as f:
            self.assertIn("PyTorch DataLoader</text>", f.read())

    def test_labels_stay_apart(self):
        chance = random.Random(1)
        for _ in range(200):
            wanted = [chance.uniform(0, 300) for _ in range(chance.randrange(1, 8))]
            at = sorted(feed_table.apart(wanted, 17, 0, 300))
            self.assertTrue(0 <= at[0] and at[-1] <= 300)
            self.assertTrue(all(b - a > 16.99 for a, b in zip(at, at[1:])), at)


if __name__ == "__main__":
    unittest.main()
