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


if __name__ == "__main__":
    unittest.main()
