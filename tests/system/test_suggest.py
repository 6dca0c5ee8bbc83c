"""larder suggest of a data set, before any training: what it measures, says and refuses. Figures follow
from what it measured itself, whatever that is on this machine."""
import json
import os
import re
import subprocess
import tempfile
import unittest

LARDER = os.environ["LARDER"]
SLOW = "slow:bandwidth=4MiB:mem:?n=20000&h=16&w=16&c=1"  # 256 bytes each, 16384 of them a second


def suggest(*args, code=0):
    p = subprocess.run([LARDER, "suggest", *args], capture_output=True, text=True, timeout=240)
    assert p.returncode == code, (args, p.stdout, p.stderr)
    return p


class Suggest(unittest.TestCase):
    def test_a_rate(self):
        got = json.loads(suggest(SLOW, "--rate", "50000", "--seconds", "1", "--json").stdout)
        m = got["measured"]
        self.assertEqual((got["schema"], m["data_samples"], m["data_bytes"]), (1, 20000, 20000 * 256))
        self.assertLess(m["storage_bytes_per_second"], 8 << 20)
        rate = min(50000, m["decode_per_second"])
        self.assertAlmostEqual(m["training_bytes_per_second"], rate * 256, delta=rate)
        minio = {r["cache"]: r for r in got["rows"] if r["recipe"] == "minio"}
        self.assertEqual(len(minio), 12)
        for text, row in minio.items():
            left = 1 - int(text[:-1]) / 100
            self.assertAlmostEqual(row["storage_bytes"], left * 20000 * 256, delta=256 * 300)
            wanted = max(20000 / rate, left * 20000 * 256 / m["storage_bytes_per_second"])
            self.assertAlmostEqual(row["seconds"], wanted, delta=0.05 * wanted)
            self.assertEqual(row["repeats"], 0)
        self.assertTrue(any(r["recipe"] == "rotate" and r["repeats"] > 0 for r in got["rows"]))
        self.assertEqual(got["without"]["storage_bytes"], minio["0%"]["storage_bytes"])

    def test_words(self):
        text = suggest(SLOW, "--step", "5", "--batch", "250", "--seconds", "0.5", "--quiet").stdout
        for part in ("measured: slow:", "20000 samples", "decoding ", "suggested: --recipe ", "- it changes ",
                     "against a loader without a cache", "<- suggested", "\nrotate "):
            self.assertIn(part, text)
        self.assertNotIn("recorded", text)
        small = suggest(SLOW, "--rate", "50000", "--memory", "1MiB", "--seconds", "0.5", "--quiet").stdout
        self.assertIn("--recipe rotate", small)
        self.assertIn("it changes the order", small)

    def test_without_a_rate(self):
        text = suggest(SLOW, "--seconds", "0.5", "--quiet").stdout
        self.assertIn("--rate IMAGES/S, or --step MS --batch N", text)
        rows = [line.split() for line in text.splitlines() if line.strip()[:1].isdigit()]
        self.assertEqual([r[0] for r in rows], ["100", "300", "1000", "3000", "10000", "30000", "100000"])
        self.assertTrue(all(len(r) >= 9 for r in rows), rows)

    def test_nothing_to_gain(self):
        """Where storage takes no time there is a sentence with what was measured, and no table of zeros."""
        tiny = "mem:?n=200&h=16&w=16&c=1"  # 50 KiB: at half a megabyte a second a tenth of one
        for rate in (["--rate", "50000"], []):
            text = suggest(tiny, *rate, "--seconds", "0.3", "--quiet").stdout
            measured = re.search(r"\n *storage (\S+) (\S+)/s, (\S+) reads/s ", text)
            unit = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[measured[2]]
            give = float(measured[1]) * unit  # to a tenth of the unit: 1.04 GiB is 1.0
            self.assertAlmostEqual(give, float(measured[3]) * 256, delta=0.051 * unit + 256)
            said = re.search(r"\nstorage takes (\S+) s an epoch \(50\.0 KiB at (.+)/s\): nothing is to be "
                             r"gained by reading less\n$", text)
            if 51200 / give > 0.099:  # this machine is very busy
                continue
            self.assertTrue(said, text)
            self.assertAlmostEqual(float(said[1]) * give, 51200, delta=6000)
            self.assertEqual(said[2], f"{measured[1]} {measured[2]}")
            self.assertNotIn("recipe", text.splitlines()[-1])
            self.assertNotIn("repeats", text)
        with tempfile.TemporaryDirectory() as folder:
            tape = folder + "/job.tape"
            subprocess.run([LARDER, "train", "mem:?n=300&h=8&w=8&c=1", "--test", "none", "--epochs", "2", "--quiet", "--record",
                            tape], check=True, stdout=subprocess.DEVNULL, timeout=240)
            took = json.loads(subprocess.run([LARDER, "report", tape, "--json"], check=True, capture_output=True).stdout)
            if took["seconds"]["mean"] < 0.1:  # of both epochs, unless this machine is very busy
                self.assertRegex(suggest(tape).stdout,
                                 r"\nan epoch took \S+ s in all, .*: nothing is to be gained\n$")
        # Money is asked for by the request, and programs get all figures.
        self.assertIn("of the run", suggest(tiny, "--rate", "500", "--price", "s3", "--seconds", "0.3", "--quiet").stdout)
        got = json.loads(suggest(tiny, "--rate", "500", "--seconds", "0.3", "--json").stdout)
        self.assertGreater(len(got["rows"]), 12)

    def test_refusals(self):
        self.assertIn("needs --rate", suggest(SLOW, "--json", code=2).stderr)
        self.assertIn("not both", suggest(SLOW, "--rate", "5", "--step", "5", code=2).stderr)
        for wrong in (["--rate", "0"], ["--step", "-1"], ["--batch", "0"], ["--seconds", "0"]):
            suggest(SLOW, *wrong, code=2)
        self.assertIn("/nonexistent", suggest("/nonexistent", "--rate", "9", code=1).stderr)
        suggest(code=2)


unittest.main()
