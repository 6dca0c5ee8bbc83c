#!/usr/bin/env python3
# release build only: these commands have tests of their own, which sanitizers see
"""bench/papers/spider.py: every table and figure of SpiderCache's evaluation has its line, and the numbers are sound."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
from papers_kit import Beside  # noqa: E402


class Spider(Beside):
    script = "spider.py"
    figures = ["Figure 13", "Table 3", "Figure 14", "Figure 15", "Table 4", "Table 5", "Figure 16", "Table 6", "Figure 17"]

    def test_no_hubs_no_stand_ins(self):
        seen = set()
        for run in self.result["ledgers"]:
            if "ratio=1," in run["recipe"]:
                self.assertEqual(run["substitutes"], 0, run)
                seen.add(run["recipe"])
        self.assertTrue(seen)


del Beside
if __name__ == "__main__":
    unittest.main()
