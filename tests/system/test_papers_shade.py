#!/usr/bin/env python3
# release build only: these commands have tests of their own, which sanitizers see
"""bench/papers/shade.py: every figure of SHADE's evaluation has its line, and the numbers are sound."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
from papers_kit import Beside  # noqa: E402


class Shade(Beside):
    script = "shade.py"
    figures = [f"Figure {i}" for i in range(7, 13)]

    def test_lru_is_below_what_fits_and_repeats_make_hits(self):
        by = {}
        for run in self.result["ledgers"]:
            if "n" in run:
                by.setdefault((run["recipe"], run["cache"]), run)
        self.assertLess(by["lru", "10%"]["hits"], by["minio", "10%"]["hits"])
        self.assertGreater(by["shade:repeat=3", "20%"]["hits"], by["shade:repeat=1", "20%"]["hits"])


class Clock(unittest.TestCase):
    """Numbers of a clock that ran late are none, and what is made of them is not, either."""

    def test_late_is_not_measured(self):
        sys.path.insert(0, "bench/papers")
        import beside
        good, late = beside.Timed([2.0, 3.0], 1.1), beside.Timed([1.0, 1.0], 2.0)
        self.assertEqual(beside.claim("", 2, beside.over(good, good), "x")["ours"], [1.0, 1.0])
        for ours in (late, beside.over(good, late), beside.over([4, 4], late), beside.timed([1.0], good, late)):
            c = beside.claim("", 2, ours, "x")
            self.assertIn("too busy", c["ours"])
            self.assertEqual(beside.verdict(c), "not measured")
        self.assertEqual(beside.over([4, 4], [2, 2]), [2.0, 2.0])


del Beside
if __name__ == "__main__":
    unittest.main()
