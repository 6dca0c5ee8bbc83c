"""python -m larder demo needs nothing beside the package, and its figures are those of its runs."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import kit

sys.path.insert(0, str(kit.ROOT / "python"))
from larder import _demo  # noqa: E402


def demo(*args):
    """With -S there is no NumPy."""
    env = dict(os.environ, PYTHONPATH=str(kit.ROOT / "python"), PYTHONIOENCODING="utf-8")
    return subprocess.run([sys.executable, "-S", "-m", "larder", "demo", *args], env=env, encoding="utf-8",
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)


class Demo(unittest.TestCase):
    def test_quick(self):
        done = demo("--quick")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = {l.split()[0]: l.split() for l in done.stdout.splitlines() if l.split(" ")[0] in _demo.RUNS}
        self.assertEqual(list(rows), list(_demo.RUNS))
        self.assertEqual(rows["none"][-2], rows["minio"][-2], "minio trains on the same")
        self.assertGreater(float(rows["none"][-2]), 100 / _demo.CLASSES + 20, "nothing was learned")
        self.assertEqual(rows["none"][5:7], ["3.5", "MB"])  # 2 epochs of 3000 pictures
        self.assertEqual(rows["minio"][5:7], ["3.1", "MB"])  # a fifth of the second epoch from the cache
        self.assertIn("pip install torch", done.stdout)

    def test_the_same_pictures_each_time(self):
        with tempfile.TemporaryDirectory() as a, tempfile.TemporaryDirectory() as b:
            for folder in (a, b):
                _demo.make_data(Path(folder), 100)
            for file in Path(a).iterdir():
                self.assertEqual(file.read_bytes(), (Path(b) / file.name).read_bytes())

    def test_no_such_data(self):
        done = demo("nowhere/at/all", "--epochs", "1")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("nowhere/at/all", done.stderr)
        self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    unittest.main()
