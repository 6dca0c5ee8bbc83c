#!/usr/bin/env python3
"""--device of svm-train, svm-predict and svm-grid, without a GPU: device code runs on this processor
(tests/support/fake/code_on_cpu.cpp), and a driver that fails has its sentence."""

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest

LARDER = os.environ.get("LARDER", "build/test/larder")
BUILD = os.environ.get("LARDER_BUILD", "build/test")
CODE = os.path.join(BUILD, "fake/code/code_on_cpu.so")
FAKES = f"{BUILD}/fake/cuda:{BUILD}/fake/nvrtc"


def rows(n, label):
    r = random.Random(n)
    for _ in range(n):
        x = [r.gauss(0, 1) for _ in range(6)]
        yield f"{label(x, r)} " + " ".join(f"{i + 1}:{v:.4f}" for i, v in enumerate(x)) + "\n"


class Device(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.two = self.file("two", rows(260, lambda x, r: 1 if x[0] + r.gauss(0, 0.5) > 0 else -1))
        self.three = self.file("three", rows(300, lambda x, r: (x[0] > 0) + (x[1] + x[2] > 0.5)))
        self.line = self.file("line", rows(220, lambda x, r: f"{x[0] * x[1] + x[2]:.4f}"))

    def tearDown(self):
        self.folder.cleanup()

    def file(self, name, lines):
        path = os.path.join(self.folder.name, name)
        with open(path, "w") as f:
            f.writelines(lines)
        return path

    def run_it(self, *words, fault="", code=True, **more):
        env = dict(os.environ, LARDER_CUDA_LIBRARIES=FAKES, FAKE_CUDA=fault, LARDER_CACHE_DIR=self.folder.name, **more)
        env.pop("FAKE_CUDA_CODE", None)
        if code:
            env["FAKE_CUDA_CODE"] = CODE
        return subprocess.run([LARDER, *words], env=env, capture_output=True, text=True, timeout=200)

    def train(self, device, path, *options, **more):
        stats, model = self.file("stats", []), os.path.join(self.folder.name, f"model.{device}")
        p = self.run_it("svm-train", "--device", device, "--stats", stats, *options, path, model, **more)
        self.assertEqual(p.returncode, 0, p.stderr)
        with open(stats) as f:
            return [float(x) for x in re.findall(r"obj = (\S+),", p.stdout)], json.load(f), model

    # ---- right -----------------------------------------------------------------------------------

    def alike(self, path, *options):
        cpu, _, model = self.train("cpu", path, *options)
        gpu, stats, _ = self.train("cuda", path, *options)
        self.assertIn("cuda: ", stats["device"])
        self.assertEqual(len(cpu), len(gpu))
        for a, b in zip(cpu, gpu):
            self.assertLessEqual(abs(a - b), 1e-5 * abs(a), (path, options))
        labels = []
        for device in ("cpu", "cuda"):
            out = os.path.join(self.folder.name, f"labels.{device}")
            p = self.run_it("svm-predict", "-q", "--values", "--device", device, path, model, out)
            self.assertEqual(p.returncode, 0, p.stderr)
            with open(out) as f:
                labels.append([float(x) for x in f.read().split()])
        self.assertEqual(len(labels[0]), len(labels[1]))
        self.assertLess(max(abs(a - b) for a, b in zip(*labels)), 1e-4)
        return stats

    @unittest.skipUnless(os.path.exists(CODE), "no C++ compiler when this was built, or a sanitizer")
    def test_tasks(self):
        self.alike(self.two, "-c", "3", "-g", "0.2")
        self.alike(self.two, "-s", "1", "-n", "0.3", "-g", "0.2")
        self.alike(self.two, "-s", "2", "-n", "0.2", "-g", "0.2")
        self.alike(self.line, "-s", "3", "-c", "2", "-t", "1", "-g", "0.2", "-r", "1")
        self.alike(self.line, "-s", "4", "-c", "2", "-g", "0.2")
        self.alike(self.three, "-c", "2", "-g", "0.2")

    @unittest.skipUnless(os.path.exists(CODE), "no C++ compiler when this was built, or a sanitizer")
    def test_rows_kept(self):
        """A problem larger than its working set, with room for few rows: some are found, the result is the same."""
        many = self.file("many", rows(1400, lambda x, r: 1 if x[0] + r.gauss(0, 1) > 0 else -1))
        stats = self.alike(many, "-c", "1", "-g", "0.2", "--cache-policy", "kkt", "--rows", "400")
        self.assertGreater(stats["cache"]["hits"], 0)
        self.assertEqual(stats["rows_made"], stats["cache"]["asked"] - stats["cache"]["hits"])
        stats = self.alike(many, "-c", "1", "-g", "0.2", "--cache", "off")
        self.assertEqual(stats["cache"]["hits"], 0)

    @unittest.skipUnless(os.path.exists(CODE), "no C++ compiler when this was built, or a sanitizer")
    def test_folds(self):
        cpu, gpu = (self.run_it("svm-train", "--device", d, "-v", "3", "-c", "3", "-g", "0.2", self.three)
                    for d in ("cpu", "cuda"))
        said = [re.findall(r"Cross Validation Accuracy = (\S+)%", p.stdout) for p in (cpu, gpu)]
        self.assertEqual(said[0], said[1])
        self.assertEqual(len(said[0]), 1)

    # ---- wrong -----------------------------------------------------------------------------------

    def refused(self, sentence, *words, **more):
        p = self.run_it("svm-train", *words, self.two, os.path.join(self.folder.name, "m"), **more)
        self.assertNotEqual(p.returncode, 0)
        self.assertIn(sentence, p.stderr)

    def test_sentences(self):
        self.refused("the device is cpu, cuda, cuda:1", "--device", "gpu", code=False)
        self.refused("the device is cpu, cuda, cuda:1", "--device", "cuda:x", code=False)
        self.refused("sees no GPU", "--device", "cuda", fault="none", code=False)
        self.refused("different versions", "--device", "cuda", fault="mismatch", code=False)
        self.refused("GPU 3: there is 1", "--device", "cuda:3", code=False)
        self.refused("MiB are wanted for", "--device", "cuda", fault="full", code=False, FAKE_CUDA_BYTES="1000")
        self.refused("cannot finish its work", "--device", "cuda", fault="lost", code=False)

    def test_auto(self):
        """Where a GPU cannot be had the CPU trains, and the figures say why."""
        many = self.file("many", rows(3100, lambda x, r: 1 if x[0] > 0 else -1))
        _, stats, _ = self.train("auto", self.two, fault="none", code=False)
        self.assertEqual(stats["device"], "cpu: there are few points")
        _, stats, _ = self.train("auto", many, fault="none", code=False)
        self.assertIn("cpu: NVIDIA's driver sees no GPU", stats["device"])
        _, stats, _ = self.train("auto", many, fault="full", code=False, FAKE_CUDA_BYTES="1000")
        self.assertIn("cpu: the GPU (a GPU that is none) has 0 MiB free", stats["device"])
        _, stats, _ = self.train("cpu", self.two, fault="none", code=False)
        self.assertEqual(stats["device"], "cpu")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
