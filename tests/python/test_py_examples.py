"""Every example runs to its end on a processor, on little data."""

import contextlib
import io
import os
import runpy
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import kit
from kit import larder, numpy, torch

EXAMPLES = kit.ROOT / "examples"


class Page(io.StringIO):
    """What was printed; a Ctrl-C comes when a certain word is."""

    stop_at = None

    def write(self, text):
        n = super().write(text)
        if self.stop_at and self.stop_at in text:
            self.stop_at = None
            raise KeyboardInterrupt
        return n


def run(name, *arguments, stop_at=None):
    """In this process, which has imported PyTorch already; what it printed."""
    before, out = sys.argv, Page()
    out.stop_at = stop_at
    sys.argv = [name] + [str(a) for a in arguments]
    try:
        with contextlib.redirect_stdout(out):
            runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    finally:
        sys.argv = before
    return out.getvalue()


def make_cifar(folder, train, test):
    """A data set of its own: the class is the colour."""
    rng = numpy.random.default_rng(0)
    parts = [(f"data_batch_{i}.bin", train // 5) for i in range(1, 6)] + [("test_batch.bin", test)]
    for name, n in parts:
        label = rng.integers(0, 10, n)
        x = rng.integers(0, 40, (n, 3, 1024)) + (label[:, None] * numpy.array([21, 13, 7]))[:, :, None]
        rows = numpy.concatenate([label[:, None], x.reshape(n, -1)], 1)
        (Path(folder) / name).write_bytes(rows.astype("uint8").tobytes())


class Examples(unittest.TestCase):
    def test_all_are_here(self):
        tested = {"cifar10.py", "ddp.py", "gpt.py", "imagefolder.py", "imagenet.py", "segmentation.py",
                  "sounds.py", "svm_digits.py"}
        self.assertEqual({p.name for p in EXAMPLES.glob("*.py")}, tested)

    def test_cifar10(self):
        with tempfile.TemporaryDirectory() as folder:
            make_cifar(folder, 900, 200)
            data, state = f"cifar10:{folder}", os.path.join(folder, "run.pt")
            common = (data, "--model", "small", "--batch", 50, "--resume", state, "--epochs", 2)
            out = run("cifar10.py", *common, stop_at="epoch 0:")
            self.assertIn("an epoch will take about", out)
            self.assertIn("stopped", out)
            out = run("cifar10.py", *common)  # and on
            self.assertIn("goes on in epoch 1", out)
            self.assertNotIn("epoch 0:", out)
            self.assertIn("epoch 1:", out)
            out = run("cifar10.py", data, "--recipe", "spider", "--model", "small", "--epochs", 2)
            self.assertIn("substitutes", out)
            self.assertGreater(float(out.split("epoch 1: ")[1].split(" %")[0]), 15)
            make_cifar(folder, 40, 20)
            out = run("cifar10.py", data, "--width", 4, "--batch", 20, "--epochs", 1)
            self.assertIn("epoch 0:", out)

    def make_folders(self, folder):
        """Light cats and dark dogs: train has 24 of each, val 6."""
        try:
            from PIL import Image
        except ImportError:
            self.skipTest("no Pillow")
        if "-jpeg" in larder.features().split():
            self.skipTest("this build has no libjpeg")
        rng = numpy.random.default_rng(1)
        for part, n in (("train", 24), ("val", 6)):
            for label, light in (("cat", 130), ("dog", 0)):
                place = Path(folder) / part / label
                place.mkdir(parents=True)
                for i in range(n):
                    pixels = (rng.integers(0, 126, (48, 64, 3)) + light).astype("uint8")
                    Image.fromarray(pixels).save(place / f"{i}.jpg")

    def test_imagenet(self):
        """To the end; broken off and gone on with; the same weights either way."""
        with tempfile.TemporaryDirectory() as folder:
            self.make_folders(folder)
            state, other = os.path.join(folder, "run.pt"), os.path.join(folder, "other.pt")
            common = (f"{folder}/train", f"{folder}/val", "--net", "tiny", "--size", 32, "--batch", 8, "--warm-up", 1,
                      "--lr", 8, "--threads", 1, "--magnitude", 3, "--epochs", 3)
            out = run("imagenet.py", *common, "--resume", state)
            self.assertGreater(float(out.split("epoch 2: ")[1].split(" %")[0]), 80)
            out = run("imagenet.py", *common, "--resume", other, stop_at="epoch 1:")
            self.assertIn("stopped", out)
            out = run("imagenet.py", *common, "--resume", other)
            self.assertIn("goes on in epoch 2", out)
            self.assertNotIn("epoch 1:", out)
            kept = [torch.load(f, map_location="cpu")["average"] for f in (state, other)]
            for name, value in kept[0].items():
                self.assertTrue(torch.equal(value, kept[1][name]), name)

    @unittest.skipUnless(os.environ.get("LARDER_LONG"), "long: two processes of their own")
    def test_imagenet_ranks(self):
        """As torchrun starts them, and gone on with."""
        with tempfile.TemporaryDirectory() as folder, socket.socket() as s:
            self.make_folders(folder)
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
            s.close()
            cmd = [sys.executable, str(EXAMPLES / "imagenet.py"), f"{folder}/train", f"{folder}/val", "--net", "tiny",
                   "--size", "32", "--batch", "8", "--threads", "1", "--resume", f"{folder}/run.pt"]
            for epochs, want in (("1", "epoch 0:"), ("2", "goes on in epoch 1")):
                told = [subprocess.Popen(cmd + ["--epochs", epochs], text=True, stdout=subprocess.PIPE, env={
                    **os.environ, "RANK": str(r), "LOCAL_RANK": str(r), "WORLD_SIZE": "2",
                    "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}) for r in range(2)]
                try:
                    out = [p.communicate(timeout=300)[0] for p in told]
                finally:
                    for p in told:
                        p.kill()
                        p.communicate()
                self.assertEqual([p.returncode for p in told], [0, 0])
                self.assertIn(want, out[0])
                self.assertEqual(out[1], "")

    def test_imagefolder(self):
        with tempfile.TemporaryDirectory() as folder:
            self.make_folders(folder)
            common = (f"{folder}/train", f"{folder}/val", "--size", 32, "--batch", 12, "--epochs", 2)
            out = run("imagefolder.py", *common)
            self.assertIn("epoch 1: 48 pictures", out)
            self.assertIn("of 12 right", out)
            if os.environ.get("LARDER_LONG"):  # a process of its own
                out = run("imagefolder.py", *common, "--workers", 1)
                self.assertIn("epoch 1: 48 pictures", out)

    def test_gpt(self):
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder) / "text"
            text.write_text("one two three four five six seven eight nine ten " * 400)
            out = run("gpt.py", text, "--length", 32, "--width", 32, "--layers", 1, "--epochs", 2, "--rate", 0.01)
            bits = [float(line.split(": ")[1].split(" bits")[0]) for line in out.splitlines() if "bits a byte" in line]
            self.assertEqual(len(bits), 2)
            self.assertLess(bits[1], 2.5)  # of the 4.1 that its letters alone take
            self.assertIn("windows of 32 tokens", out)

    def test_segmentation(self):
        out = run("segmentation.py", "--samples", 60, "--epochs", 2)
        self.assertGreaterEqual(float(out.split("epoch 1: ")[1].split("overlap ")[1].split(" %")[0]), 50)

    def test_sounds(self):
        if "-sound" in larder.features().split():
            self.skipTest("this build has no libsndfile")
        out = run("sounds.py", "--each", 30, "--epochs", 4)
        self.assertIn("epoch 3:", out)
        self.assertGreaterEqual(float(out.split("epoch 3: ")[1].split(", ")[1].split(" %")[0]), 50)  # 25 by chance

    def test_ddp(self):
        with tempfile.TemporaryDirectory() as folder:
            out = subprocess.run(
                [sys.executable, EXAMPLES / "ddp.py", "--ranks", "2", "--data",
                 "mem:?n=600&h=16&w=16&c=3&classes=10", "--save", os.path.join(folder, "state")],
                stdout=subprocess.PIPE, check=True, text=True,
            ).stdout
            self.assertIn("epoch 1: 600 samples", out)
            self.assertTrue(os.path.exists(os.path.join(folder, "state.1")))

    @unittest.skipUnless(os.environ.get("LARDER_LONG"), "two more processes: with LARDER_LONG")
    def test_ddp_one_cache(self):
        from larder._daemon import Daemon

        daemon = Daemon("16MiB")
        try:
            out = subprocess.run(
                [sys.executable, EXAMPLES / "ddp.py", "--ranks", "2", "--recipe", "rotate", "--data",
                 "mem:?n=600&h=16&w=16&c=3&classes=10", "--cache", f"unix:{daemon.socket}?budget=20%"],
                stdout=subprocess.PIPE, check=True, text=True,
            ).stdout
        finally:
            daemon.close()
        self.assertIn("epoch 1: 600 samples", out)

    def test_svm(self):
        try:
            import sklearn  # noqa: F401
        except ImportError:
            self.skipTest("no scikit-learn")
        out = run("svm_digits.py", 600)
        self.assertIn("best C", out)
        self.assertIn("scikit-learn", out)


if __name__ == "__main__":
    unittest.main()
