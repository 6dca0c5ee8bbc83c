"""Decoding in a cage: the same batches as without, by id and with functions of one's own, too; what would be decoded
outside of it is refused."""

import os
import tempfile
import unittest
import wave

import kit  # noqa: F401

import larder
import numpy
import torch
from PIL import Image

HOSTILE = os.path.join(os.environ.get("LARDER_BUILD", "build/test"), "tool_hostile_cage")
FORMATS = {"jpg": "JPEG", "png": "PNG", "webp": "WEBP", "tif": "TIFF", "gif": "GIF", "bmp": "BMP", "pgm": "PPM"}


def negative(x):
    return 255 - x


def small(image):
    return torch.from_numpy(numpy.asarray(image.resize((8, 6), Image.NEAREST)).copy())


class Cage(unittest.TestCase):
    def setUp(self):
        self.at = tempfile.TemporaryDirectory()
        self.rng = numpy.random.default_rng(3)
        for i in range(24):
            self.write(i)
        self.uri = f"dir:{self.at.name}"

    def tearDown(self):
        self.at.cleanup()

    def write(self, i, comment="", ending="ppm"):
        folder = os.path.join(self.at.name, "ab"[i % 2])
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, f"{i:02}.{ending}"), "wb") as f:
            f.write(b"P6 #%s\n20 %d 255\n" % (comment.encode(), 16 + i))
            f.write(self.rng.integers(0, 255, 60 * (16 + i), numpy.uint8).tobytes())

    def batches(self, **given):
        given = {"augment": "rrc:size=12|flip", "dtype": "uint8", "epochs": 2, **given}
        with larder.Loader(self.uri, 8, **given) as loader:
            found = [(b.ids.tolist(), b.y.tolist(), b.x.clone()) for _ in range(2) for b in loader]
            return found, [b["id"] for b in loader.bad()]

    def same(self, a, b):
        self.assertEqual([x[:2] for x in a], [x[:2] for x in b])
        self.assertTrue(all(torch.equal(x[2], y[2]) for x, y in zip(a, b)))

    def test_same_batches(self):
        plain, _ = self.batches()
        self.assertEqual(len(plain), 6)
        for cage in (True, "memory=256MiB,seconds=20"):
            caged, bad = self.batches(cage=cage, threads=3)
            self.same(plain, caged)
            self.assertEqual(bad, [])

    def test_every_format(self):
        for i, (ending, form) in enumerate(FORMATS.items()):
            pixels = self.rng.integers(0, 255, (30 + i, 26, 3), numpy.uint8)
            Image.fromarray(pixels).save(os.path.join(self.at.name, "a", f"5{i}.{ending}"), form)
        self.same(self.batches()[0], self.batches(cage=True)[0])

    def test_sounds_and_masks(self):
        for i in range(24):
            stem = os.path.join(self.at.name, "ab"[i % 2], f"{i:02}")
            Image.fromarray(self.rng.integers(0, 9, (16 + i, 20), numpy.uint8), "P").save(stem + ".png")
            with wave.open(stem + ".wav", "wb") as f:
                f.setnchannels(1)
                f.setsampwidth(2)
                f.setframerate(8000)
                f.writeframes(self.rng.integers(-9999, 9999, 900 + i, numpy.int16).tobytes())
        fields = {"x": "ppm", "mask": "png:mask", "sound": "wav:sound;seconds=0.05;rate=6000"}
        rows = []
        for cage in (False, True):
            with larder.Loader(self.uri, 8, augment="rrc:size=12", fields=fields, cage=cage, epochs=1) as loader:
                rows.append([(b.x.clone(), b["mask"].clone(), b["sound"].clone()) for b in loader])
        self.assertEqual(len(rows[0]), 3)
        for plain, caged in zip(*rows):
            self.assertTrue(all(torch.equal(a, b) for a, b in zip(plain, caged)))

    def test_functions_of_ones_own(self):
        own = {"augment": ["rrc:size=12", negative], "workers": 2}
        self.same(self.batches(**own)[0], self.batches(cage=True, **own)[0])
        whole = {"augment": None, "pil": True, "transform": small, "workers": 2}
        self.same(self.batches(**whole)[0], self.batches(cage=True, **whole)[0])

    def test_by_id(self):
        plain = larder.Dataset(self.uri, augment="centercrop:size=10", dtype="uint8")
        caged = larder.Dataset(self.uri, augment="centercrop:size=10", dtype="uint8", cage=True)
        for i in (0, 7, 23):
            self.assertTrue(torch.equal(plain[i][0], caged[i][0]))
        loader = torch.utils.data.DataLoader(caged, batch_size=6, num_workers=2)
        x = torch.cat([x for x, _ in loader])
        self.assertTrue(torch.equal(x, torch.stack([plain[i][0] for i in range(24)])))
        plain.close()
        caged.close()

    @unittest.skipUnless(os.path.exists(HOSTILE), "tests alone have it")
    def test_one_sample_is_lost(self):
        self.write(4, "evil pixels segv")
        with larder.Loader(self.uri, 8, augment="rrc:size=12", cage=f"program={HOSTILE}", on_bad="skip", shuffle=False,
                           epochs=1) as loader:
            served = [i for b in loader for i in b.ids.tolist()]
            self.assertEqual(sorted(served), [i for i in range(24) if i != 2])  # a/04.ppm
            (bad,) = loader.bad()
            self.assertEqual(bad["id"], 2)
            self.assertIn("04.ppm): its decoder was ended by signal 11", bad["why"])
        with larder.Loader(self.uri, 8, augment="rrc:size=12", cage=f"program={HOSTILE}") as loader:
            with self.assertRaisesRegex(larder.Error, "04.ppm"):
                for _ in loader:
                    pass

    def test_refused(self):
        with self.assertRaisesRegex(larder.Error, "decoded by your own functions, outside of it"):
            larder.Loader(dataset=[(numpy.zeros(3), 1)] * 8, cage=True, workers=0)
        with self.assertRaisesRegex(larder.Error, "cage is True, False or limits"):
            larder.Loader(self.uri, cage=3)
        with self.assertRaisesRegex(larder.Error, "memory"):
            larder.Loader(self.uri, augment="rrc:size=12", cage="memry=3")

    def test_pil_does_not_decode(self):
        Image.fromarray(numpy.zeros((4, 4, 3), numpy.uint8)).save(os.path.join(self.at.name, "a", "99.tga"))
        self.uri += "?files=all"
        with self.assertWarns(larder.LarderWarning):
            loader = larder.Loader(self.uri, 4, pil=True, transform=small, workers=1, cage=True, epochs=1,
                                   on_bad="skip", collate_fn=len)
        with loader:
            for _ in loader:
                pass
            self.assertEqual([b["id"] for b in loader.bad()], [12])


if __name__ == "__main__":
    unittest.main()
