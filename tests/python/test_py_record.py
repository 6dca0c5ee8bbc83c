"""Jobs in Python can be recorded, by argument or by environment, and their figures go to TensorBoard."""

import json
import os
import subprocess
import tempfile
import unittest

import kit
import torch
from kit import larder

SOURCE = "mem:?n=600&h=8&w=8&c=3"
PROGRAM = os.environ.get("LARDER", str(kit.ROOT / "build" / "larder"))


class Writer:
    def __init__(self):
        self.scalars = []

    def add_scalar(self, tag, value, step):
        self.scalars.append((tag, value, step))


def train(loader, epochs):
    figures = []
    for epoch in range(epochs):
        for batch in loader:
            x, y = batch
            loader.report(loss=torch.arange(len(y), dtype=torch.float32) + epoch)
        loader.validate(0.5)
        figures.append(loader.figures(epoch))
    return figures


def replay(*args):
    p = subprocess.run([PROGRAM, "sim", "--replay", *args, "--json"], capture_output=True, text=True)
    assert p.returncode == 0, p.stderr
    return [json.loads(line) for line in p.stdout.splitlines()]


class Record(unittest.TestCase):
    def test_recorded_and_replayed(self):
        for recipe in ("minio", "icache"):
            with tempfile.TemporaryDirectory() as folder:
                tape = os.path.join(folder, "job.tape")
                loader = larder.Loader(SOURCE, 50, recipe, "20%", 3, epochs=3, record=tape)
                self.assertTrue(loader.listens)  # the record does, whatever the recipe
                figures = train(loader, 3)
                loader.close()
                again = replay(tape)[0]
                self.assertEqual(again["recipe"], recipe)
                for e, f in enumerate(figures):
                    for key in ("served", "hits", "misses", "storage_bytes"):
                        self.assertEqual(again["epochs"][e][key], f[key], (recipe, e, key))
                self.assertEqual(len(replay(tape, "--recipe", "shade", "--cache", "30%")), 3)

    def test_environment(self):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["LARDER_RECORD"] = os.path.join(folder, "job-%n.tape")
            try:
                loader = larder.Loader(SOURCE, 50, "minio", epochs=1)
                silent = larder.Loader(SOURCE, 50, "minio", epochs=1, record="")
            finally:
                del os.environ["LARDER_RECORD"]
            train(loader, 1)
            loader.close()
            silent.close()
            self.assertEqual(len(os.listdir(folder)), 1)

    def test_tensorboard(self):
        writer = Writer()
        loader = larder.Loader(SOURCE, 50, "minio", epochs=2)
        train(loader, 2)
        written = larder.log_to_tensorboard(loader, writer)
        loader.close()
        tags = {tag: value for tag, value, step in writer.scalars}
        self.assertEqual(tags, written)
        self.assertEqual({step for _, _, step in writer.scalars}, {24})
        self.assertEqual(tags["larder/epoch/served"], 600)
        self.assertIn("larder/stats/stall_seconds/p99", tags)
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            return
        with tempfile.TemporaryDirectory() as folder:
            real = SummaryWriter(folder)
            with larder.Loader(SOURCE, 50, "minio", epochs=1) as loader:
                train(loader, 1)
                larder.log_to_tensorboard(loader, real, step=7)
            real.close()
            self.assertTrue(os.listdir(folder))


if __name__ == "__main__":
    unittest.main()
