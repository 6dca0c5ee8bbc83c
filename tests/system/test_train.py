#!/usr/bin/env python3
"""larder train and larder report as a person uses them, on a small data set made here."""
import fcntl
import html.parser
import json
import os
import pty
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import unittest
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
from process_kit import interrupt, wait_for  # noqa: E402

LARDER = os.environ.get("LARDER", "build/larder")
KEYS = ["schema", "epoch", "accuracy", "top5", "loss", "seconds", "stall_seconds", "served", "hits",
        "substitutes", "repeats", "misses", "background_reads", "touched", "storage_bytes", "requests",
        "evaluated", "evaluation_reads", "evaluation_seconds", "scratch_reads", "scratch_bytes",
        "scratch_written", "wait_mean", "wait_sd", "wait_p50", "wait_p90", "wait_p99",
        "fill_mean", "fill_sd", "fill_p50", "fill_p90", "fill_p99",
        "training_seconds", "forward_seconds", "backward_seconds", "wait_storage", "wait_decode", "wait_augment", "wait_cache",
        "wait_assembly"]
SIDE, TRAIN, TEST = 8, 1000, 200


def write_part(folder, prefix, count, seed, noise=False):
    """Pictures with one bright row, labelled by which one it is: four classes. As noise: any labels."""
    rng = random.Random(seed)
    pixels, labels = bytearray(), bytearray()
    for _ in range(count):
        label = rng.randrange(4)
        labels.append(label)
        if noise:
            pixels.extend(rng.randrange(256) for _ in range(SIDE * SIDE))
            continue
        for row in range(SIDE):
            base = 180 if row == 2 * label else 40
            pixels.extend(base + rng.randrange(40) for _ in range(SIDE))
    with open(f"{folder}/{prefix}-images-idx3-ubyte", "wb") as f:
        f.write(struct.pack(">IIII", 0x803, count, SIDE, SIDE) + pixels)
    with open(f"{folder}/{prefix}-labels-idx1-ubyte", "wb") as f:
        f.write(struct.pack(">II", 0x801, count) + labels)


def run(*words, code=0, **more):
    done = subprocess.run([LARDER, *words], capture_output=True, text=True, timeout=120, **more)
    if done.returncode != code:
        raise AssertionError(f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def steady(rows):
    """What must repeat whatever the timing. A request that finds its id being read already, at the
    seam of two epochs, shares that read and is a hit: hits and reads may differ by a few."""
    keys = ("epoch", "accuracy", "top5", "loss", "served", "substitutes", "repeats", "touched")
    return [{k: row[k] for k in keys} for row in rows]


def on_terminal(columns, *args):
    """What the program prints on a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    p = subprocess.Popen([LARDER, *args], stdout=theirs, stdin=subprocess.DEVNULL)
    os.close(theirs)
    out = b""
    try:
        while piece := os.read(ours, 65536):
            out += piece
    except OSError:  # nobody is left at the other end
        pass
    os.close(ours)
    assert p.wait(60) == 0, (args, out)
    return out.decode().replace("\r\n", "\n")


class Outside(html.parser.HTMLParser):
    """Anything in a page that would ask a network."""
    found = []

    def handle_starttag(self, tag, attrs):
        if tag in ("script", "link", "img", "iframe", "object"):
            self.found.append(tag)
        self.found += [v for k, v in attrs if k in ("src", "href", "xlink:href", "data")]


class Train(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.made = tempfile.TemporaryDirectory()
        cls.data = cls.made.name + "/data"
        os.mkdir(cls.data)
        write_part(cls.data, "train", TRAIN, 1)
        write_part(cls.data, "t10k", TEST, 2)

    @classmethod
    def tearDownClass(cls):
        cls.made.cleanup()

    def rows(self, *words):
        done = run("train", self.data, "--json", "--batch", "32", *words)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        for row in rows:
            self.assertEqual(list(row), KEYS)
            self.assertEqual(row["hits"] + row["substitutes"] + row["misses"], row["served"])
        return rows

    def test_learns_and_counts(self):
        rows = self.rows("--recipe", "minio", "--cache", "50%", "--epochs", "3")
        self.assertEqual([row["epoch"] for row in rows], [0, 1, 2])
        self.assertGreater(rows[-1]["accuracy"], 0.95)
        self.assertEqual(rows[-1]["top5"], 1)
        for row in rows:
            self.assertEqual((row["served"], row["touched"], row["repeats"]), (TRAIN, 1, 0))
            self.assertEqual(row["storage_bytes"],
                             (row["misses"] + row["background_reads"]) * SIDE * SIDE)
            self.assertGreaterEqual(row["seconds"], row["stall_seconds"])
        self.assertEqual(rows[0]["hits"], 0)
        for row in rows[1:]: # half, and what four batches ahead can share
            self.assertIn(row["hits"], range(TRAIN // 2, TRAIN // 2 + 4 * 32))

    def test_reuse_shows_what_it_memorises(self):
        """Labels of noise can only be learned by heart: who sees a few samples over and over knows them, and
        knows nothing of those that come anew. In plain training both sorts cost the same."""
        noise = self.made.name + "/noise"
        os.mkdir(noise)
        write_part(noise, "train", 2 * TRAIN, 3, noise=True)
        write_part(noise, "t10k", TEST, 2, noise=True)

        def gaps(recipe, seed):
            done = run("train", noise, "--json", "--batch", "32", "--epochs", "4", "--cache", "20%", "--recipe",
                       recipe, "--seed", str(seed))
            rows = [json.loads(line) for line in done.stdout.splitlines()]
            self.assertEqual("gap" in rows[0], recipe != "rotate:h=0")  # in one sweep nothing comes twice
            for row in rows[1:]:
                self.assertEqual(list(row)[:len(KEYS)], KEYS)
                self.assertAlmostEqual(row["gap"], row["fresh_loss"] - row["reused_loss"], delta=1e-6)
                told = row["fresh_reported"] + row["reused_reported"]
                self.assertTrue(0.9 * row["served"] < told <= row["served"], row)
            return [row["gap"] for row in rows[1:]]

        for seed in (1, 2):
            self.assertGreater(min(gaps("rotate:h=0.8", seed)), 0.3)
            self.assertLess(max(abs(gap) for gap in gaps("rotate:h=0", seed)), 0.15)
        out, tape = self.made.name + "/memorised", self.made.name + "/memorised.tape"
        done = run("train", noise, "--epochs", "3", "--recipe", "rotate:h=0.8", "--batch", "32", "--out", out,
                   "--record", tape, "--quiet")
        folder, record = (json.loads(run("report", way, "--json").stdout) for way in (out, tape))
        self.assertGreater(folder["gap"]["mean"], 0.1)
        for name in ("fresh_loss", "gap"):  # a tape has losses by which the same can be told
            self.assertAlmostEqual(folder[name]["mean"], record[name]["mean"], delta=0.01)
        lines = done.stdout.splitlines()
        self.assertTrue(lines[1].endswith("   gap"), lines[1])
        table = [line for line in lines if line.startswith(("epoch", "  "))]
        self.assertEqual({len(line) for line in table}, {80}, table)
        page = self.made.name + "/memorised.html"
        run("report", out, "-o", page)
        with open(page) as f:
            self.assertIn("What reuse memorises", f.read())
        self.assertNotIn("gap", run("train", noise, "--epochs", "1", "--recipe", "minio", "--quiet").stdout)

    def test_no_cache_reads_everything(self):
        for row in self.rows("--recipe", "lru", "--cache", "0", "--epochs", "2"):
            self.assertLess(row["hits"], 4 * 32) # reads shared at the seam of two epochs
            self.assertEqual(row["hits"] + row["misses"], TRAIN)

    def test_threads_change_nothing(self):
        one = self.rows("--recipe", "minio", "--epochs", "2", "--threads", "1")
        four = self.rows("--recipe", "minio", "--epochs", "2", "--threads", "4")
        self.assertEqual(steady(one), steady(four))
        other = self.rows("--recipe", "minio", "--epochs", "2", "--seed", "7")
        self.assertNotEqual(steady(one), steady(other))

    def test_spider(self):
        words = ("--recipe", "spider:scoring=wait,degree=20", "--cache", "25%", "--epochs", "4")
        done = run("train", self.data, "--json", "--batch", "32", *words)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertGreater(sum(row["substitutes"] for row in rows), 0)
        self.assertGreater(rows[-1]["accuracy"], 0.9)
        for row in rows:
            self.assertEqual(list(row)[:len(KEYS)], KEYS)
            self.assertEqual(row["hits"] + row["substitutes"] + row["misses"], row["served"])
            self.assertEqual(row["score_late"], 0)
            self.assertEqual(row["score_rows_lost"], 0)
            self.assertGreater(row["score_seconds"], 0)
            self.assertEqual(row["ratio"], 0.9)
        self.assertNotIn("sigma", rows[0])  # no score yet
        self.assertGreater(rows[1]["sigma"], 0)
        again = run("train", self.data, "--json", "--batch", "32", "--threads", "3", *words)
        again = [json.loads(line) for line in again.stdout.splitlines()]
        for row in rows + again:
            row.pop("score_seconds")
        self.assertEqual(steady(rows), steady(again))

    def test_spider_says_what_scoring_costs(self):
        done = run("train", self.data, "--batch", "32", "--recipe", "spider", "--cache", "25%",
                   "--epochs", "2", "--quiet")
        self.assertIn("its scoring takes", done.stdout)

    def test_cnn(self):
        rows = self.rows("--net", "cnn", "--epochs", "3")
        self.assertGreater(rows[-1]["accuracy"], 0.95)

    def test_without_validation(self):
        rows = self.rows("--test", "none", "--epochs", "1")
        self.assertIsNone(rows[0]["accuracy"])
        self.assertEqual(rows[0]["served"], TRAIN)

    def test_slow_storage_stalls_training_alone(self):
        # 64 kB at 256 KiB/s: a quarter of a second that can only be waiting.
        rows = self.rows("--epochs", "1", "--slow", "bandwidth=256KiB", "--cache", "0")
        self.assertGreater(rows[0]["stall_seconds"], 0)
        self.assertEqual(rows[0]["storage_bytes"], TRAIN * SIDE * SIDE)

    def test_wrong_usage(self):
        for words in ([], [self.data, "more"], [self.data, "--epochs", "0"],
                      [self.data, "--batch", "-3"], [self.data, "--nonsense"],
                      [self.data, "--net", "rnn"], [self.data, "--recipe", "nonsense"],
                      [self.data, "--lr", "much"], [self.data, "--cache", "20%%"],
                      [self.data, "--slow", "a:b"]):
            done = run("train", *words, code=2)
            self.assertTrue(done.stderr.startswith("larder train: "), done.stderr)
            self.assertEqual(done.stdout, "")
        self.assertIn("--recipe", run("train", "--help").stdout)
        self.assertIn("-o FILE", run("report", "--help").stdout)

    def test_failures_are_sentences(self):
        done = run("train", self.made.name + "/nowhere", code=1)
        self.assertIn("nowhere", done.stderr)
        done = run("train", self.data, "--lr", "900", "--json", code=1)
        self.assertIn("diverged", done.stderr)
        done = run("train", self.data, "--out", "/dev/null/x", "--quiet", code=1)
        self.assertIn("/dev/null/x", done.stderr)
        if os.path.exists("/dev/full"):
            with open("/dev/full", "w") as full:
                done = subprocess.run([LARDER, "train", self.data, "--json", "--epochs", "1"],
                                      stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
            self.assertEqual(done.returncode, 1)
            self.assertIn("standard output", done.stderr)

    def test_interrupt_keeps_the_figures(self):
        out = self.made.name + "/stopped"
        # A minute of reading for an epoch, stopped long before its end.
        process = subprocess.Popen([LARDER, "train", self.data, "--json", "--out", out, "--slow",
                                    "bandwidth=1KiB", "--cache", "0", "--epochs", "5", "--batch",
                                    "10"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        def has_begun():
            jobs = map(json.loads, run("top", "--json", "--once").stdout.splitlines())
            return any(s["name"] == "samples" and s["value"] for j in jobs if j["pid"] == process.pid for s in j["stats"])

        wait_for(has_begun)
        interrupt(process)
        stdout, stderr = process.communicate(timeout=240)
        self.assertEqual(process.returncode, 130, stderr)
        row = json.loads(stdout.splitlines()[-1])
        self.assertIsNone(row["accuracy"])
        self.assertLess(row["served"], TRAIN)
        with open(out + "/meta.json") as f:
            self.assertEqual(json.load(f)["status"], "interrupted")
        self.assertIn("1*", run("report", out).stdout)
        run("train", self.data, "--replay", out, "--cache", "0", "--epochs", "1", "--batch", "10")

    def test_report(self):
        folders = []
        for recipe in ("lru", "minio"):
            folders.append(f"{self.made.name}/record-{recipe}")
            run("train", self.data, "--recipe", recipe, "--epochs", "2", "--out", folders[-1],
                "--name", recipe + " <&>")
            with open(folders[-1] + "/epochs.jsonl") as f:
                self.assertEqual([json.loads(line)["epoch"] for line in f], [0, 1])
        page = self.made.name + "/page.html"
        done = run("report", *folders, "-o", page, "--title", "a <b> & c")
        self.assertIn(page, done.stdout)
        with open(page, encoding="utf-8") as f:
            text = f.read()
        outside = Outside()
        outside.feed(text)
        self.assertEqual(outside.found, [])
        charts = text.split("<svg")[1:]
        self.assertGreaterEqual(len(charts), 4)
        for chart in charts:
            xml.etree.ElementTree.fromstring("<svg" + chart.split("</svg>")[0] + "</svg>")
        self.assertEqual(sorted(os.listdir(folders[0])), ["decisions", "epochs.jsonl", "meta.json"])
        whole = run("report", *folders).stdout
        self.assertGreater(len(whole.splitlines()[0]), 150)  # in a pipe all of it, and so where it is asked for
        self.assertEqual(on_terminal(80, "report", *folders, "--wide"), whole)
        self.assertEqual(on_terminal(400, "report", *folders), whole)
        narrow = on_terminal(80, "report", *folders).splitlines()
        self.assertIn("; --wide shows them", narrow[-1])
        self.assertLessEqual(max(map(len, narrow[:-1])), 80)
        self.assertEqual(on_terminal(80, "report", *folders, "--json"), run("report", *folders, "--json").stdout)

    def test_report_refuses(self):
        folder = self.made.name + "/broken"
        os.mkdir(folder)
        self.assertIn("meta.json", run("report", folder, code=1).stderr)
        with open(folder + "/meta.json", "w") as f:
            f.write('{"name": "x"}\n')
        with open(folder + "/epochs.jsonl", "w") as f:
            f.write('{"epoch": 0}\n{"epoch": [1]}\n')
        page = self.made.name + "/none.html"
        self.assertIn("epochs.jsonl:2", run("report", folder, "-o", page, code=1).stderr)
        self.assertFalse(os.path.exists(page))
        run("report", code=2)

    def demo(self, name, **more):
        out = f"{self.made.name}/{name}"
        env = dict(os.environ, LARDER=os.path.abspath(LARDER), DATA=self.data, OUT=out, EPOCHS="2",
                   CACHE="50%", **more)
        return out, subprocess.Popen(["tools/demo.sh"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                     text=True, encoding="utf-8", start_new_session=True)

    def test_demo(self):
        out, process = self.demo("demo-report", SLOW="bandwidth=4MiB", SEEDS="1 2")
        stdout, stderr = process.communicate(timeout=240)
        self.assertEqual(process.returncode, 0, stdout + stderr)
        self.assertIn(out + "/demo.html", stdout)
        self.assertIn("over 2 seeds", stdout)
        rows = [line.split() for line in stdout.split("\nseed ")[1].splitlines()]
        self.assertEqual([(r[1], r[0]) for r in rows if r[:1] in (["1"], ["2"])],
                         [(name, seed) for seed in "12" for name in ("none", "minio", "rotate")])
        means = {r[0]: r[1:] for r in rows if "±" in r[2:3]}
        self.assertEqual(list(means), ["none", "minio", "rotate"])
        self.assertEqual(means["none"][:3], means["minio"][:3], "minio trains on the same")
        for line in stdout.splitlines():
            self.assertTrue(len(line) <= 80 or self.made.name in line, line)
        with open(out + "/demo.md", encoding="utf-8") as f:
            self.assertIn("| rotate |", f.read())
        for name in ("none", "minio", "rotate"):
            for seed in (1, 2):
                self.assertTrue(os.path.exists(f"{out}/demo/{name}-{seed}/meta.json"))

    def test_demo_is_stopped_between_runs(self):
        """What is done stays, whatever of the shell's own Ctrl-C falls into."""
        with tempfile.TemporaryDirectory() as first:
            for name in ("tr", "rm", "mkdir"):  # at the third turn of each
                with open(f"{first}/{name}", "w") as f:
                    f.write(f"#!/bin/sh\necho x >>{first}/{name}.turns\n"
                            f"[ $(grep -c x {first}/{name}.turns) -lt 3 ] || kill -INT 0\n"
                            f"PATH=${{PATH#*:}}\nexec {name} \"$@\"\n")
                os.chmod(f"{first}/{name}", 0o755)
                out, process = self.demo("demo-between", RECIPES="none", SEEDS="1 2 3 4", PATH=f"{first}:{os.environ['PATH']}")
                stdout, stderr = process.communicate(timeout=240)
                self.assertEqual(process.returncode, 130, (name, stdout, stderr))
                for seed in (1, 2):
                    self.assertTrue(os.path.exists(f"{out}/demo/none-{seed}/meta.json"), name)
                self.assertTrue(os.path.exists(out + "/demo.html"), stdout)
                os.remove(f"{first}/{name}")
                shutil.rmtree(out)

    def test_demo_is_stopped(self):
        # Half a second each: forty would be there long after the second began.
        seeds = [str(i + 1) for i in range(40)]
        out, process = self.demo("demo-stopped", SLOW="bandwidth=256KiB", RECIPES="none", SEEDS=" ".join(seeds))
        try:
            wait_for(lambda: os.path.exists(out + "/demo/none-2/meta.json"))
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does
            stdout, stderr = process.communicate(timeout=240)
        finally:
            process.kill()
        self.assertEqual(process.returncode, 130, stdout + stderr)
        self.assertIn("\nnone ", stdout)
        self.assertTrue(os.path.exists(out + "/demo.html"), stdout)
        self.assertFalse(os.path.exists(out + "/demo/none-40"), "it went on")


if __name__ == "__main__":
    if not os.access(LARDER, os.X_OK):
        print("no program at", LARDER)
        sys.exit(77)
    unittest.main()
