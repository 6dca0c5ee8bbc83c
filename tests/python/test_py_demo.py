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
        done = demo("--quick", "--seeds", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("over 2 seeds", done.stdout)
        rows = {l.split()[0]: l.split() for l in done.stdout.splitlines() if l.split(" ")[0] in _demo.RUNS}
        self.assertEqual(list(rows), list(_demo.RUNS))
        self.assertEqual(rows["none"][1:4], rows["minio"][1:4], "minio trains on the same")
        self.assertGreater(float(rows["none"][1]), 100 / _demo.CLASSES + 20, "nothing was learned")
        self.assertEqual(rows["none"][10:13], ["3.5", "±", "0.0"])  # MB of 2 epochs of 3000 pictures
        self.assertEqual(rows["minio"][10:13], ["3.1", "±", "0.0"])  # a fifth of the second epoch from the cache
        self.assertIn("pip install torch", done.stdout)

    def test_own_data(self):
        """Which has no test part: the demo takes what the sentence about that says."""
        own = "mem:?n=300&h=8&w=8&c=1"
        done = demo(own, "--seeds", "1", "--epochs", "1")
        self.assertIn("--test none does without", done.stderr)
        done = demo(own, "--seeds", "1", "--epochs", "1", "--test", "none")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"\nminio +- +")

    def test_ctrl_c(self):
        """What is done is shown, and nothing of Python's insides."""
        env = dict(os.environ, PYTHONPATH=str(kit.ROOT / "python"), PYTHONIOENCODING="utf-8")
        process = subprocess.Popen([sys.executable, "-m", "larder", "demo", "--quick", "--seeds", "100"], env=env,
                                   encoding="utf-8", stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        try:
            said = ""
            while "seed 2" not in said:
                said += process.stdout.read(1) or self.fail(process.stderr.read())
            os.killpg(process.pid, signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
        self.assertEqual(process.returncode, 130, err)
        self.assertIn("\nrotate ", out)
        self.assertNotIn("Traceback", err)

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
            self.assertIn(f'"{wrong}" is not a number from 1 on', done.stderr)

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
