"""What the library says of data and caches, as Python hears it: each sentence once, as a warning."""
import base64
import io
import os
import tarfile
import tempfile
import unittest
import warnings

from kit import larder

PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAQAAAAECAIAAAAmkwkpAAAAFElEQVR4nGM8IcfJAANMDEgANwcAMHEA99ERwmoAAAAASUVORK5CYII="
)
SIZE = "resize:h=4,w=4"
SMALL = "mem:?n=60&h=8&w=8&c=1"


def shard(path, labels, more=()):
    with tarfile.open(path, "w") as t:
        for i, label in enumerate(labels):
            parts = [("png", PICTURE)] + [(e, b"{}") for e in more]
            if label is not None:
                parts.append(("cls", b"%d" % label))
            for ending, data in parts:
                member = tarfile.TarInfo(f"{i:06d}.{ending}")
                member.size = len(data)
                t.addfile(member, io.BytesIO(data))
    return f"tar:{path}"


class Quiet(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        os.environ["LARDER_CACHE_DIR"] = self.folder.name

    def told(self, make):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            make().close()
        for w in told:
            self.assertTrue(issubclass(w.category, larder.LarderWarning), w)
        return [str(w.message) for w in told]

    def test_labels_and_members(self):
        uri = shard(f"{self.folder.name}/x.tar", [0, None, 1, None], ["json", "txt"])
        for make in (lambda: larder.Loader(uri, 2, recipe="minio", augment=SIZE, cache="90%"),
                     lambda: larder.Dataset(uri, augment=SIZE, cache="90%")):
            told = self.told(make)
            self.assertEqual(len(told), 2, told)
            self.assertIn("8 members are not used: 4 .json, 4 .txt", told[0])
            self.assertIn("2 of 4 samples have no label, the first is x.tar:000001.png", told[1])
        whole = shard(f"{self.folder.name}/y.tar", [0, 1])
        self.assertEqual(self.told(lambda: larder.Loader(whole, 2, recipe="minio", augment=SIZE, cache="90%")), [])

    def test_caches(self):
        for cache in (20, "20", 1, "0.2"):
            with self.assertRaisesRegex(larder.ArgumentError, r"% or .* bytes\? Write "):
                larder.Loader(SMALL, 8, recipe="minio", cache=cache)
        for cache in ("63B", 600):
            told = self.told(lambda c=cache: larder.Loader(SMALL, 8, recipe="minio", cache=c))
            self.assertEqual(len(told), 1, told)
            self.assertIn(f'cache "{cache}" holds none of the 60 samples', told[0])
        for cache in (0, "0", "10%", 100000):
            self.assertEqual(self.told(lambda c=cache: larder.Loader(SMALL, 8, recipe="minio", cache=c)), [])

    def test_parameters(self):
        with self.assertRaisesRegex(larder.ArgumentError, "did you mean minio"):
            larder.Loader(SMALL, 8, recipe="mino")
        with self.assertRaisesRegex(larder.ArgumentError, "recipe minio has no parameter"):
            larder.Loader(SMALL, 8, recipe="minio:h=1")


if __name__ == "__main__":
    unittest.main()
