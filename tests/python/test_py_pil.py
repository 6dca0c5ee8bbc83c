"""Pictures as PIL images, for functions that run in workers: larder's pixels, or PIL's where larder has no decoder."""

import io
import os
import tempfile
import unittest

import kit  # noqa: F401

import larder
import numpy
import torch
from PIL import Image

ENDINGS = {"png": "PNG", "tga": "TGA", "pcx": "PCX", "ppm": "PPM"}  # of the middle two larder knows nothing


def as_tensor(image):
    """What the function of a user does: one size for all."""
    assert isinstance(image, Image.Image), type(image)
    return torch.from_numpy(numpy.asarray(image.resize((8, 6), Image.NEAREST).convert("RGB")).copy())


def sizes(images):
    return [image.size for image in images]


class Pictures(unittest.TestCase):
    def setUp(self):
        self.at = tempfile.TemporaryDirectory()
        rng = numpy.random.default_rng(1)
        for i in range(12):
            folder = os.path.join(self.at.name, "ab"[i % 2])
            os.makedirs(folder, exist_ok=True)
            ending = list(ENDINGS)[i // 2 % 4]
            image = Image.fromarray(rng.integers(0, 255, (20 + i, 24, 3), numpy.uint8))
            image.save(os.path.join(folder, f"{i:02}.{ending}"), ENDINGS[ending])
        self.uri = f"dir:{self.at.name}?files=all"

    def tearDown(self):
        self.at.cleanup()

    def loader(self, **given):
        with self.assertWarnsRegex(larder.LarderWarning, "larder does not decode 6 samples"):
            return larder.Loader(self.uri, 12, pil=True, workers=2, shuffle=False, **given)

    def images(self):
        for folder in "ab":
            for name in sorted(os.listdir(os.path.join(self.at.name, folder))):
                with Image.open(os.path.join(self.at.name, folder, name)) as image:
                    yield image.convert("RGB")

    def test_as_pil_reads_them(self):
        want = torch.stack([as_tensor(image) for image in self.images()])
        with self.loader(transform=as_tensor, cache="50%") as loader:
            for _ in range(2):  # of the cache, too
                batch = next(iter(loader))
                self.assertEqual(batch.y.tolist(), [0] * 6 + [1] * 6)
                self.assertTrue(torch.equal(batch.x, want))

    def test_collate_fn(self):
        with self.loader(collate_fn=sizes) as loader:
            self.assertEqual(next(iter(loader)).data, sizes(self.images()))

    def test_raw_pixels(self):
        uri = "mem:?n=6&h=5&w=4"
        with larder.Loader(uri, 6, pil=True, workers=1, shuffle=False, transform=numpy.array) as loader, \
                larder.Loader(uri, 6, shuffle=False, dtype="uint8", layout="NHWC") as plain:
            self.assertTrue(torch.equal(next(iter(loader)).x, next(iter(plain)).x))

    def test_what_nobody_decodes_is_named(self):
        with open(os.path.join(self.at.name, "b", "99.tga"), "wb") as f:
            f.write(b"\x01\x02nothing that a picture begins with")
        with self.assertWarns(larder.LarderWarning):
            loader = larder.Loader(self.uri, 13, pil=True, transform=as_tensor, workers=1)
        with loader, self.assertRaisesRegex(larder.Error, "b/99.tga.*UnidentifiedImageError"):
            next(iter(loader))

    def test_damage_is_larders_to_tell(self):
        raw = io.BytesIO()
        Image.new("RGB", (64, 64)).save(raw, "PNG")
        with open(os.path.join(self.at.name, "a", "00.png"), "wb") as f:
            f.write(raw.getvalue()[:60])
        with self.loader(transform=as_tensor) as loader, self.assertRaisesRegex(larder.FormatError, "a/00.png.*png"):
            next(iter(loader))

    def test_refused(self):
        for words, given in (
            ("transform= or collate_fn=", {}),
            ("leave the stages", {"augment": "flip", "transform": as_tensor}),
            ("does not go with fields=", {"fields": "png", "transform": as_tensor}),
            ("cached as they are stored", {"cache": "20%:50/50/0", "transform": as_tensor}),
            ("cached as they are stored", {"recipe": "rotate:h=0.5,shrink=auto", "transform": as_tensor}),
        ):
            with self.subTest(words), self.assertRaisesRegex(larder.ArgumentError, words):
                larder.Loader(self.uri, 12, pil=True, workers=1, **given)
        with self.assertRaisesRegex(larder.ArgumentError, "samples of your own"):
            larder.Loader(dataset=[1, 2], pil=True)


if __name__ == "__main__":
    unittest.main()
