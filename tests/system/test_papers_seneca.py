#!/usr/bin/env python3
# release build only: these commands have tests of their own, which sanitizers see
"""bench/papers/seneca.py: every table and figure of Seneca's evaluation has its line, and the numbers are sound."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
from papers_kit import Beside  # noqa: E402


class Seneca(Beside):
    script = "seneca.py"
    figures = ["Table 6", "Table 7", "Figure 9", "Figure 10", "Figure 11", "Figure 12", "Figure 13", "Table 8",
               "Figure 14", "Figure 15a", "Figure 15b", "Figure 15c"]

    def test_exactly_once_repeats_nothing(self):
        for run in self.result["ledgers"]:
            if run["recipe"] in ("seneca", "minio", "quiver", "lru"):
                self.assertEqual(run["repeats"], 0, run)

    def test_a_static_cache_hits_what_fits_and_sharing_no_less(self):
        hit = {c["what"]: c["ours"] for f, c in self.claims() if f["id"] == "Figure 13"}
        self.assertAlmostEqual(hit["never evicts (MINIO), 20 % cached"][0], 20, delta=4)
        # How much more depends on which jobs meet.
        self.assertGreater(hit["Seneca, 20 % cached"][0], hit["never evicts (MINIO), 20 % cached"][0] - 4)


del Beside
if __name__ == "__main__":
    unittest.main()
