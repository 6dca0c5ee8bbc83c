"""A cache on a local disk as people use it: --cache disk:…, beside a daemon, through kill -9, and larder disk."""
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
from process_kit import wait_for  # noqa: E402

LARDER = os.environ["LARDER"]
N, SIDE = 1200, 28


def write_idx(folder):
    import random

    rng = random.Random(1)
    for part, n in (("train", N), ("t10k", 100)):
        labels = bytes(i % 10 for i in range(n))
        with open(f"{folder}/{part}-images-idx3-ubyte", "wb") as f:
            f.write(struct.pack(">IIII", 0x803, n, SIDE, SIDE) + rng.randbytes(n * SIDE * SIDE))
        with open(f"{folder}/{part}-labels-idx1-ubyte", "wb") as f:
            f.write(struct.pack(">II", 0x801, n) + labels)


def used(folder):
    return sum(os.stat(os.path.join(folder, f)).st_blocks * 512 for f in os.listdir(folder))


class Disk(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.mkdtemp(prefix="larder-disk-cli-")
        self.addCleanup(shutil.rmtree, self.home)
        self.data, self.disk = f"{self.home}/data", f"{self.home}/disk"
        os.mkdir(self.data)
        write_idx(self.data)

    def run_larder(self, *args, code=0):
        p = subprocess.run([LARDER, *args], capture_output=True, text=True, timeout=240)
        self.assertEqual(p.returncode, code, p.stdout + p.stderr)
        return p

    def train(self, cache, *more):
        """Lines of epochs, as --json has them."""
        p = self.run_larder("train", f"idx:{self.data}", "--cache", cache, "--epochs", "2", "--batch", "64",
                            "--seed", "3", "--json", *more)
        return [json.loads(line) for line in p.stdout.splitlines() if '"epoch"' in line]

    def ls(self):
        return json.loads(self.run_larder("disk", "ls", self.disk, "--json").stdout)

    def test_as_without(self):
        plain = self.train("0")
        cold = self.train(f"disk:{self.disk}?budget=100%&patience=600s")
        warm = self.train(f"10%+disk:{self.disk}?patience=600s")
        for a, b, c in zip(plain, cold, warm):
            self.assertEqual(a["loss"], b["loss"])
            self.assertEqual(a["loss"], c["loss"])
            self.assertEqual(c["storage_bytes"], 0)
        self.assertEqual([e["misses"] for e in cold], [N, 0])
        self.assertEqual([e["misses"] for e in warm], [0, 0])
        sets = self.ls()
        self.assertEqual([s["there"] for s in sets["data_sets"]], [N])
        self.assertLessEqual(used(self.disk), sets["budget"])

    def test_below_a_daemon(self):
        socket = f"{self.home}/s"
        plain = self.train("0")
        for first in (True, False):
            daemon = subprocess.Popen([LARDER, "serve", "--socket", socket, "--cache", "64MiB"],
                                      stdout=subprocess.PIPE, text=True)
            try:
                self.assertIn("serves", daemon.stdout.readline())
                got = self.train(f"unix:{socket}?budget=10%+disk:{self.disk}?patience=600s" + ("&budget=100%" if first else ""))
            finally:
                daemon.send_signal(signal.SIGTERM)
                daemon.communicate(timeout=60)
            for a, b in zip(plain, got):
                self.assertEqual(a["loss"], b["loss"])
            read = [e["storage_bytes"] for e in got]
            if first:  # the next epoch begins beside the end of one: either may read what both want, or both
                self.assertGreaterEqual(sum(read), N * SIDE * SIDE)
                self.assertLess(read[1], read[0] / 2)
            else:
                self.assertEqual(read, [0, 0])

    def test_killed(self):
        """Whatever was there when it was killed is found, whole, and nothing else."""
        plain = self.train("0")
        for times in range(3):
            p = subprocess.Popen([LARDER, "train", f"idx:{self.data}", "--cache", f"disk:{self.disk}?budget=100%&patience=600s",
                                  "--epochs", "1000000", "--slow", "bandwidth=2MiB"],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            wanted = (times + 1) * 100

            def far_enough():
                try:
                    return p.poll() is not None or sum(s["there"] for s in self.ls()["data_sets"]) >= wanted
                except AssertionError:
                    return False  # it is about to be made

            wait_for(far_enough)
            self.assertIsNone(p.poll())
            p.kill()
            p.wait()
        checked = json.loads(self.run_larder("disk", "check", self.disk, "--json").stdout)
        self.assertGreaterEqual(checked["sound"] + checked["damaged"], 300)
        there = sum(s["there"] for s in self.ls()["data_sets"])
        self.assertEqual(there, checked["sound"])
        warm = self.train(f"disk:{self.disk}?patience=600s")
        self.assertEqual([e["misses"] for e in warm], [N - there, 0])
        for a, b in zip(plain, warm):
            self.assertEqual(a["loss"], b["loss"])

    def test_looking_after(self):
        self.train(f"disk:{self.disk}?budget=100%&patience=600s")
        before = used(self.disk)
        freed = json.loads(self.run_larder("disk", "trim", self.disk, "--budget", "3MiB", "--json").stdout)["freed"]
        self.assertGreater(freed, 0)
        self.assertLessEqual(used(self.disk), min(before, 3 << 20))
        self.assertEqual(self.ls()["budget"], 3 << 20)
        some = self.train(f"disk:{self.disk}?patience=600s")
        self.assertGreater(some[0]["hits"], 0)
        self.assertGreater(some[0]["misses"], 0)
        self.run_larder("disk", "rm", self.disk)
        self.assertFalse(os.path.exists(self.disk) and os.listdir(self.disk))
        for words, why in (([], "what to do"), (["ls"], "what to do"), (["sl", "x"], "ls, check, trim or rm"),
                           (["ls", self.disk, "--budget", "1GiB"], "goes with trim")):
            self.assertIn(why, self.run_larder("disk", *words, code=2).stderr)
        for action in ("ls", "check", "trim", "rm"):
            self.assertIn("disk", self.run_larder("disk", action, f"{self.home}/none", code=1).stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
