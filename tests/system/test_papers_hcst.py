#!/usr/bin/env python3
# release build only: these commands have tests of their own, which sanitizers see
"""bench/papers/hcst.py: every table and figure of HCST's experiments has its line, and the numbers are sound."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
from papers_kit import Beside  # noqa: E402


class Hcst(Beside):
    script = "hcst.py"
    figures = ["Table I", "Figure 7", "Figure 8", "Table II", "Table III", "Table IV", "Figure 9", "Figure 10",
               "Figure 11a", "Figure 11b", "Table V", "Table VI"]

    def test_no_policy_beats_the_bound(self):
        """Not kkt: it takes a row in when it leaves the working set, later than the recording asks for it."""
        runs = [r for r in self.result["ledgers"] if "recording" in r]
        bound = {(r["recording"], r["cache"]): r["hits"] for r in runs if r["recipe"] == "belady"}
        self.assertTrue(bound)
        for run in runs:
            if run["recipe"] != "kkt":
                self.assertLessEqual(run["hits"], bound[run["recording"], run["cache"]], run)


del Beside
if __name__ == "__main__":
    unittest.main()
