"""What every script of bench/papers keeps, whatever it measures: checked on its --tiny output."""
import json
import math
import os
import subprocess
import sys
import unittest

LARDER = os.environ.get("LARDER", "build/larder")
VERDICTS = {"", "holds", "does not hold", "same way, more", "same way, less", "higher", "lower", "not measured"}


class Beside(unittest.TestCase):
    script, figures = None, ()  # of the tests that inherit

    @classmethod
    def setUpClass(cls):
        if cls is Beside:
            raise unittest.SkipTest("the base of others")
        p = subprocess.run([sys.executable, f"bench/papers/{cls.script}", "--tiny", "--json", "--larder", LARDER],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        if "No module named 'numpy'" in p.stderr:
            raise unittest.SkipTest("no numpy")
        assert p.returncode == 0, p.stderr
        cls.result = json.loads(p.stdout)

    def claims(self):
        return [(f, c) for f in self.result["figures"] for c in f["claims"]]

    def test_every_figure_has_a_line(self):
        self.assertEqual([f["id"] for f in self.result["figures"]], list(self.figures))
        for f in self.result["figures"]:
            self.assertTrue(f["shows"])
            self.assertNotEqual(bool(f["claims"]), bool(f["why"]), f["id"])
            self.assertNotIn("\n", f["why"])

    def test_claims_are_numbers_and_verdicts_follow(self):
        for f, c in self.claims():
            self.assertIn(c["verdict"], VERDICTS)
            self.assertTrue(c["what"] and c["theirs"] is not None, (f["id"], c))
            if isinstance(c["ours"], str) or c["ours"] is None:
                self.assertEqual(c["verdict"], "not measured")
                continue
            for v in c["ours"] if isinstance(c["ours"], list) else [c["ours"]]:
                self.assertTrue(math.isfinite(v), (f["id"], c))
                if c["unit"] in ("x", "%"):  # 0: a deviation of so few batches may be none at all
                    self.assertGreaterEqual(v, 0, (f["id"], c))

    def test_what_was_served_adds_up(self):
        self.assertTrue(self.result["ledgers"])
        for run in self.result["ledgers"]:
            self.assertEqual(run["hits"] + run["substitutes"] + run["misses"], run["served"], run)
            self.assertLessEqual(run["repeats"], run["served"], run)
            if "touched" in run and "n" in run and run["served"] == run["n"] * run["epochs"]:
                # What was served is new in its epoch or a repeat.
                self.assertAlmostEqual(run["touched"] * run["served"] + run["repeats"], run["served"],
                                       delta=0.001 * run["served"] + 1)

    def test_exactly_once_hits_what_fits(self):
        for run in self.result["ledgers"]:
            if run["recipe"] in ("minio", "quiver", "nopfs") and run["cache"].endswith("%") and run["epochs"] > 1:
                share = float(run["cache"][:-1]) / 100
                self.assertAlmostEqual(run["hits"] / run["served"], share * (run["epochs"] - 1) / run["epochs"],
                                       delta=0.01, msg=run)

    def test_plots_have_points_and_names(self):
        for f in self.result["figures"]:
            if not f["plot"]:
                continue
            self.assertTrue(f["plot"]["title"] and f["plot"]["y"], f["id"])
            self.assertTrue(f["plot"]["series"], f["id"])
            for name, points in f["plot"]["series"].items():
                self.assertTrue(name and points)
                self.assertTrue(all(math.isfinite(x) and math.isfinite(y) for x, y in points), (f["id"], name))

    def test_figures_say_whether_they_are_about_caching(self):
        about = [f for f in self.result["figures"] if f["caching"]]
        self.assertGreater(len(about), len(self.result["figures"]) / 2)

    def test_sentences_of_notes_end(self):
        for f in self.result["figures"]:
            self.assertTrue(not f["note"] or f["note"].rstrip().endswith((".", ".)")), (f["id"], f["note"]))

    def test_headlines_are_claims_of_figures(self):
        claims = [c["what"] for _, c in self.claims()]
        for h in self.result["headlines"]:
            self.assertIn(h["claim"]["what"], claims)

    def test_headlines_are_whole(self):
        self.assertTrue(self.result["headlines"])
        for h in self.result["headlines"]:
            self.assertTrue(h["label"] and h["claim"])
            self.assertIn("verdict", h["claim"])
