#!/usr/bin/env python3
# release build only: these commands have tests of their own, which sanitizers see
"""bench/papers/ranked.py: ranks serve together what one does, read evenly, and take no less than their steps."""
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "bench", "papers"))
LARDER = os.environ.get("LARDER", "build/larder")
try:
    import numpy  # noqa: F401
    import ranked
    from beside import made_trace
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

SIZES = dict(samples=640, batch=32, epochs=4, seeds=2, iops=20000, pace=0.002)


class Ranks(unittest.TestCase):
    def setUp(self):
        for via in ("daemon", "redis"):
            if ranked.can(via):
                self.skipTest(ranked.can(via))
        self.folder = tempfile.TemporaryDirectory()
        self.trace = made_trace(self.folder.name + "/trace", 640, 4)

    def tearDown(self):
        self.folder.cleanup()

    def test_two_ranks_are_one_job(self):
        for via, recipe in (("daemon", "minio"), ("redis", "shade:repeat=3")):
            one = ranked.run(LARDER, self.trace, recipe, 1, via, **SIZES)
            two = ranked.run(LARDER, self.trace, recipe, 2, via, **SIZES)
            for a, b in zip(one, two):
                self.assertEqual(a["ledger"]["served"], b["ledger"]["served"])
                self.assertEqual(len(b["reads"]), 2)
                for run in (a, b):
                    f = run["ledger"]
                    self.assertEqual(f["hits"] + f["substitutes"] + f["misses"], f["served"])
                self.assertLess(max(b["reads"]), 1.5 * min(b["reads"]) + 0.1)  # dealt out one by one
                self.assertGreaterEqual(a["seconds"], 640 / 32 * SIZES["pace"])
                self.assertGreaterEqual(b["seconds"], 640 / 64 * SIZES["pace"])

    def test_nodes_are_one_job(self):
        """In networks of their own, with Redis in another, they do what processes of one machine do."""
        if ranked.can("nodes"):
            self.skipTest(ranked.can("nodes"))
        for world in (1, 2, 4):
            here, there = (ranked.run(LARDER, self.trace, "minio", world, via, **SIZES) for via in ("redis", "nodes"))
            for a, b in zip(here, there):
                self.assertEqual(a["ledger"], b["ledger"])
                self.assertEqual(len(b["reads"]), world)

    def test_what_is_brought_in_is_read_once_for_all_ranks(self):
        one, two = (ranked.run(LARDER, self.trace, "seneca", world, "daemon", **SIZES) for world in (1, 2))
        for a, b in zip(one, two):  # 1.25 times as much where each read what the other was about to bring
            self.assertLess(sum(b["reads"]) / 2, 1.15 * a["reads"][0])


if __name__ == "__main__":
    unittest.main()
