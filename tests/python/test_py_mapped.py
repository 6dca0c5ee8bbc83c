"""A table of a disk tier that is emptied under a running job, in a process with Python's faulthandler: the epoch ends
with all its samples, without a trace of a crash; a real one is still told by faulthandler."""

import os
import signal
import subprocess
import sys
import unittest

import kit  # noqa: F401

JOB = """
import faulthandler, glob, mmap, os, sys, tempfile
early = sys.argv[1] == "early"
if early:
    faulthandler.enable()
import kit  # noqa: F401
import larder
with tempfile.TemporaryDirectory() as at:
    def open_loader():
        return larder.Loader("mem:?n=200&h=8&w=8&c=3", 8, cache=f"disk:{at}/cache?budget=4MiB", dtype="uint8", epochs=3, prefetch=4)
    if not early: # the handler that is set later is covered when the next folder is opened
        open_loader().close()
        faulthandler.enable()
    with open_loader() as loader:
        seen = 0
        for epoch in range(3):
            for i, batch in enumerate(loader):
                seen += len(batch.ids)
                if epoch == 0 and i == 5:
                    for table in glob.glob(f"{at}/cache/*.index"):
                        os.truncate(table, 0)
        print(seen)
    if sys.argv[2] == "crash":
        with open(f"{at}/own", "w+b") as f:
            f.write(bytes(8192))
            f.flush()
            own = mmap.mmap(f.fileno(), 8192)
            os.truncate(f.fileno(), 0)
            own[5000]
"""


class Mapped(unittest.TestCase):
    def job(self, *given):
        there = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run([sys.executable, "-c", JOB, *given], env=there, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.stdout, "600\n", done.stderr)
        self.assertIn("a table there cannot be read any more", done.stderr)
        return done

    def test_goes_on(self):
        for when in ("early", "late"):
            done = self.job(when, "fine")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("Fatal", done.stderr)

    def test_own_faults_are_told(self):
        for when in ("early", "late"):
            done = self.job(when, "crash")
            self.assertEqual(done.returncode, -signal.SIGBUS, done.stderr)
            self.assertEqual(done.stderr.count("Fatal Python error: Bus error"), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
