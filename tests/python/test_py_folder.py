"""torchvision's ImageFolder as it is: its files are cached, its transforms run afresh for every use."""

import os
import tempfile
import unittest
import warnings

import kit  # noqa: F401

import larder
import numpy
import torch
from PIL import Image

try:
    from torchvision import datasets, transforms
except ImportError:
    raise SystemExit(77)

warnings.simplefilter("error", larder.LarderWarning)  # nothing is drawn when a sample is read
N = 24


def number(x):
    return float(x.mean())


def target(y):
    return y + 10


class Folder(unittest.TestCase):
    def setUp(self):
        self.at = tempfile.TemporaryDirectory()
        rng = numpy.random.default_rng(1)
        for i in range(N):
            folder = os.path.join(self.at.name, f"class{i % 3}")
            os.makedirs(folder, exist_ok=True)
            Image.fromarray(rng.integers(0, 255, (20, 24, 3), numpy.uint8)).save(os.path.join(folder, f"{i:02}.png"))
        self.crops = transforms.Compose([transforms.RandomCrop(12), transforms.ToTensor()])

    def tearDown(self):
        self.at.cleanup()

    def run_of(self, dataset, **more):
        """What each sample was, epoch by epoch."""
        out = []
        with larder.Loader(dataset=dataset, batch_size=8, workers=1, cache="100%", seed=3, **more) as loader:
            for _ in range(3):
                epoch = {}
                for batch in loader:
                    x, y = batch
                    epoch.update({int(i): (number(p), int(t)) for i, p, t in zip(batch.served, x, y)})
                out.append((epoch, loader.figures()["misses"]))
        return out

    def test_cached_samples_get_new_crops(self):
        runs = self.run_of(datasets.ImageFolder(self.at.name, self.crops, target))
        self.assertEqual([misses for _, misses in runs], [N, 0, 0])
        for i in range(N):
            self.assertEqual({epoch[i][1] for epoch, _ in runs}, {10 + i // (N // 3)})
        moved = sum(len({epoch[i][0] for epoch, _ in runs}) > 1 for i in range(N))
        self.assertGreater(moved, N * 3 // 4)

    def test_without_chance_it_is_what_the_data_set_gives(self):
        same = datasets.ImageFolder(self.at.name, transforms.ToTensor())
        part = torch.utils.data.Subset(same, [5, 2, 17, 11, 9, 0, 1, 3])
        for dataset, start in ((same, "fork"), (part, "spawn")):
            for epoch, _ in self.run_of(dataset, start=start):
                for i, (mean, label) in epoch.items():
                    x, y = dataset[i]
                    self.assertEqual((mean, label), (number(x), y))

    def test_one_of_ones_own_kind_is_left_alone(self):
        class Other(datasets.ImageFolder):
            def __getitem__(self, i):
                return torch.full((2,), float(i)), 1

        for epoch, _ in self.run_of(Other(self.at.name)):
            self.assertEqual({i: v for i, (v, _) in epoch.items()}, {i: float(i) for i in range(N)})
        other = datasets.ImageFolder(self.at.name, loader=lambda path: torch.ones(2))
        for epoch, _ in self.run_of(other):
            self.assertEqual({v for v, _ in epoch.values()}, {1.0})


if __name__ == "__main__":
    unittest.main()
