"""python -m larder demo needs nothing beside the package, and its figures are those of its runs."""

import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
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

    def test_what_is_no_number(self):
        for wrong in ("0", "-1", "x"):
            done = demo("--quick", f"--epochs={wrong}")
            self.assertEqual(done.returncode, 2)
            self.assertIn(f'"{wrong}" is not a number of epochs', done.stderr)

    def test_broken_off(self):
        for why, code in ((KeyboardInterrupt(), 130), (OSError(28, "No space left on device"), 1)):
            with unittest.mock.patch.object(_demo, "compare", side_effect=why), \
                    unittest.mock.patch.object(sys, "stderr", io.StringIO()) as told:
                self.assertEqual(_demo.main([]), code)
            self.assertEqual("No space left" in told.getvalue(), code == 1)


class Program(unittest.TestCase):
    def test_a_closed_pipe_ends_it_without_a_word(self):
        """Python ignores the signal, and what a process ignores its next program does too."""
        env = dict(os.environ, PYTHONPATH=str(kit.ROOT / "python"))
        p = subprocess.Popen([sys.executable, "-m", "larder", "ls", "mem:?n=200000", "--limit", "200000"], env=env,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        p.stdout.read(10)
        p.stdout.close()
        self.assertEqual((p.wait(60), p.stderr.read()), (-signal.SIGPIPE, b""))
        p.stderr.close()

    def test_the_doctor_sees_this_python(self):
        env = dict(os.environ, PYTHONPATH=str(kit.ROOT / "python"), PATH="/nonexistent")
        done = subprocess.run([sys.executable, "-m", "larder", "doctor", "--json", "--seconds", "0"], env=env,
                              stdout=subprocess.PIPE)
        self.assertTrue(json.loads(done.stdout)["machine"]["python"]["there"], done.stdout)


if __name__ == "__main__":
    unittest.main()
