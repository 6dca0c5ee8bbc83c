"""larder train --cage: the same run as without; Ctrl-C and kill -9 leave no process behind."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

LARDER = os.environ["LARDER"]
HOSTILE = os.path.join(os.environ["LARDER_BUILD"], "tool_hostile_cage")
ENDLESS = f"seconds=100000,program={HOSTILE}"


def write(folder, i, comment=""):
    at = pathlib.Path(folder, "ab"[i % 2])
    at.mkdir(exist_ok=True)
    pixels = bytes((i * 7 + k) % 256 for k in range(16 * 16 * 3))
    (at / f"{i:02}.ppm").write_bytes(b"P6 #%s\n16 16 255\n" % comment.encode() + pixels)


def workers_of(parent):
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            after = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        if int(after[1]) == parent and after[0] != "Z":
            found.append(int(entry.parent.name))
    return found


def is_gone(process):
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


class Cage(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        for i in range(40):
            write(self.folder.name, i)

    def tearDown(self):
        self.folder.cleanup()

    def command(self, *more):
        return [LARDER, "train", f"dir:{self.folder.name}", "--augment", "rrc:size=8|flip", "--test", "none", "--batch",
                "8", "--epochs", "2", "--json", "--quiet", *more]

    def epochs(self, *more):
        done = subprocess.run(self.command(*more), capture_output=True, text=True, check=True)
        kept = ("epoch", "loss", "served", "hits", "misses", "bad", "storage_bytes")
        return [{k: e.get(k) for k in kept} for e in map(json.loads, done.stdout.splitlines()) if "epoch" in e]

    def test_the_same_run(self):
        plain = self.epochs()
        self.assertEqual(len(plain), 2)
        self.assertEqual(self.epochs("--cage", "on"), plain)
        self.assertEqual(self.epochs("--cage", "memory=128MiB,seconds=10", "--threads", "3"), plain)

    def test_one_sample_is_lost(self):
        write(self.folder.name, 6, "evil head segv")
        lost = subprocess.run(self.command("--cage", f"program={HOSTILE}"), capture_output=True, text=True)
        self.assertEqual(lost.returncode, 1)
        self.assertIn("06.ppm): its decoder was ended by signal 11", lost.stderr)
        first = self.epochs("--cage", f"program={HOSTILE}", "--on-bad", "skip")[0]
        self.assertEqual(first["served"], 39)

    def start_endless(self):
        for i in range(40):
            write(self.folder.name, i, "evil pixels loop")
        job = subprocess.Popen(self.command("--cage", ENDLESS, "--threads", "2"), stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, start_new_session=True)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        workers = []
        while len(workers) < 2 and job.poll() is None:
            workers = workers_of(job.pid)
            time.sleep(0.01)
        self.assertIsNone(job.poll())
        return job, workers

    def ends(self, workers):
        while not all(is_gone(w) for w in workers):  # the runner's time limit ends a wait in vain
            time.sleep(0.01)

    def test_ctrl_c(self):
        job, workers = self.start_endless()
        os.killpg(job.pid, signal.SIGINT)
        self.assertNotEqual(job.wait(), 0)
        self.ends(workers)

    def test_kill_9(self):
        job, workers = self.start_endless()
        job.kill()
        job.wait()
        self.ends(workers)

    def test_refused(self):
        done = subprocess.run(self.command("--cage", "program=/nonexistent"), capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nonexistent is no program", done.stderr)


if __name__ == "__main__":
    unittest.main()
