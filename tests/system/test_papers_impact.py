#!/usr/bin/env python3
# release build only: these commands have tests of their own, which sanitizers see
"""bench/papers/impact.py: every table and figure of ImpACT's evaluation has its line, and the numbers are sound."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
from papers_kit import Beside  # noqa: E402


class Impact(Beside):
    script = "impact.py"
    figures = ["Table I", "Table II", "Figure 11", "Figure 12", "Figure 13", "Figure 14", "Figure 15", "Figure 16",
               "Table III", *(f"Figure {i}" for i in range(17, 24))]

    def test_stand_ins_are_of_the_recipes_that_have_them(self):
        for run in self.result["ledgers"]:
            if run["recipe"] in ("lru", "minio", "quiver", "base") or "low=read" in run["recipe"]:
                self.assertEqual(run["substitutes"], 0, run)


del Beside
if __name__ == "__main__":
    unittest.main()
