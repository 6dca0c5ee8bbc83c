"""The Python face as scripts written for PyTorch expect it: attributes of a data set, a DataLoader's
arguments, losses that are no numbers, states loaded into a loader in use."""

import contextlib
import itertools
import os
import tempfile
import unittest
import warnings

import kit
import larder
import numpy
import torch
from torch.utils.data import DataLoader

SET = "mem:?n=64&h=8&w=8&c=3&classes=4"


def folder(tmp):
    from PIL import Image

    for label, name in enumerate(("cat", "dog")):
        os.makedirs(f"{tmp}/{name}")
        for i in range(6):
            Image.fromarray(numpy.full((10, 12, 3), 40 * label + i, "uint8")).save(f"{tmp}/{name}/{i}.png")
    return tmp


def photographs(tmp, n=40):
    """Soft colours, 160 to 240 pixels wide, hardly compressed."""
    from PIL import Image

    os.makedirs(f"{tmp}/all")
    for i in range(n):
        rough = numpy.random.default_rng(i).integers(0, 256, (9, 12, 3), "uint8")
        picture = Image.fromarray(rough).resize((160 + 2 * i, 160), Image.Resampling.BICUBIC)
        picture.save(f"{tmp}/all/{i:03}.jpg", quality=97)
    return tmp


class TestShrunk(unittest.TestCase):
    """Residents kept as small JPEGs."""

    def run_once(self, uri, recipe):
        stages = ["rrc:size=32", "flip"]
        with larder.Loader(uri, 8, recipe=recipe, cache="20%", epochs=3, seed=2, augment=stages, dtype="uint8",
                           prefetch=2) as l:
            rows = {}
            for epoch in range(3):
                for x, y in l:
                    rows.setdefault(epoch, []).append(x.numpy().astype(int))
            return rows, [l.figures(e) for e in range(3)], l.stats()

    def test_more_of_them_fit(self):
        with tempfile.TemporaryDirectory() as tmp:
            try:
                uri = photographs(tmp)
            except ImportError:
                self.skipTest("no PIL")
            full, plain, _ = self.run_once(uri, "minio")
            small, shrunk, stats = self.run_once(uri, "minio:shrink=auto")
            for a, b in zip(full[0], small[0]):
                self.assertTrue((a == b).all())  # who is read is served as he is
            apart = [abs(a - b).mean() for a, b in zip(full[2], small[2])]
            self.assertTrue(0 < max(apart) < 12, apart)
            self.assertGreater(shrunk[2]["hits"], 3 * plain[2]["hits"])
            self.assertEqual(shrunk[2]["form_hits"], [0, 0, 0, shrunk[2]["hits"]])
            self.assertLessEqual(stats["cache_shrunk_bytes"], stats["cache_budget_bytes"])
            again, _, _ = self.run_once(uri, "rotate:h=0.8,shrink=64:q=85")
            twice, figures, _ = self.run_once(uri, "rotate:h=0.8,shrink=64:q=85")
            self.assertTrue(all((a == b).all() for e in range(3) for a, b in zip(again[e], twice[e])))
            self.assertGreater(figures[2]["form_hits"][3], 0)

    def test_what_it_does_not_go_with(self):
        for recipe, cache, says in (("minio:shrink=small", "20%", "side in pixels, auto or native"),
                                    ("minio:shrink=auto,plan=auto", "20%", "plan=auto"),
                                    ("minio:shrink=auto", "redis://127.0.0.1:1/?budget=20%", "shared or in Redis")):
            with self.assertRaisesRegex(larder.Error, says):
                larder.Loader(SET, 8, recipe=recipe, cache=cache)
        with self.assertRaisesRegex(larder.UnsupportedError, "shrink= does not go with a daemon"):
            larder.Dataset(SET, recipe="minio:shrink=auto", augment="flip", shared=True)
        for more in ({}, {"transform": lambda x: x}, {"pil": True}):  # else every use would read the file
            with self.assertRaisesRegex(larder.ArgumentError, "native stages"):
                larder.Dataset(SET, recipe="minio:shrink=auto", **more)

    def test_workers_have_caches_of_their_own(self):
        """What is made for sharing does not keep shrunk samples: neither forked nor spawned workers fail for it."""
        for way in ("fork", "spawn"):
            d = larder.Dataset(SET, recipe="minio:shrink=auto", augment="flip", cache="50%")
            with self.assertWarnsRegex(UserWarning, "a cache of its own: shrink= does not go with a daemon"):
                served = sum(len(y) for x, y in DataLoader(d, 8, num_workers=2, multiprocessing_context=way))
            self.assertEqual(served, len(d))


class TestNames(unittest.TestCase):
    def test_errors_are_called_as_users_call_them(self):
        for name in larder.__all__:
            kind = getattr(larder, name)
            if isinstance(kind, type):
                self.assertEqual((kind.__module__, kind.__qualname__), ("larder", name))


class TestSampler(unittest.TestCase):
    def test_saved_within_a_batch(self):
        for size, recipe in ((256, "minio"), (25, "minio"), (25, "quiver"), (32, "lru")):
            def new():
                return larder.Sampler(SET, recipe, batch_size=size, seed=3)

            whole = new()
            first, second = list(whole), list(whole)
            for cut in (0, 1, 10, 24, 25, 26, 49, 50, 63):
                s, t = new(), new()
                taken = list(itertools.islice(iter(s), cut))
                state = s.state_dict()
                t.load_state_dict(state)
                self.assertEqual(taken + list(t), first, (size, recipe, cut))
                self.assertEqual(list(t), second, (size, recipe, cut))
            left = new()
            next(iter(left))  # broken off: nothing of it is left over
            self.assertEqual(list(left), second)


class TestDataset(unittest.TestCase):
    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        try:
            self.folder = folder(stack.enter_context(tempfile.TemporaryDirectory()))
        except ImportError:
            self.skipTest("no PIL")

    def test_transform_is_set_later(self):
        d = larder.Dataset(self.folder)
        self.assertIsNone(d.transform)
        d.transform = lambda a: float(a.mean())
        self.assertEqual(d[7], (41.0, 1))
        d.transform = None
        self.assertEqual(tuple(d[7][0].shape), (10, 12, 3))
        native = larder.Dataset(self.folder, augment=["resize:h=4,w=4"], dtype="uint8")
        native.transform = lambda a: int(a[0, 0, 0])
        self.assertEqual(native[7], (41, 1))
        self.assertEqual(native.__getitems__([0, 7]), [(0, 0), (41, 1)])
        with self.assertRaisesRegex(larder.ArgumentError, "transform is a function"):
            d.transform = 5

    def test_as_image_folder(self):
        d = larder.Dataset(self.folder)
        self.assertEqual(d.classes, ["cat", "dog"])
        self.assertEqual(d.class_to_idx, {"cat": 0, "dog": 1})
        self.assertEqual(d.targets, [0] * 6 + [1] * 6)
        self.assertEqual(d.samples[7][1], 1)
        self.assertTrue(d.samples[7][0].endswith("dog/1.png"), d.samples)
        for named in (d, larder.Dataset(f"dir:{self.folder}"), larder.Dataset(f"{self.folder}?io=plain")):
            self.assertTrue(all(os.path.isfile(path) for path, _ in named.samples), named.samples)
        self.assertEqual(len(d.samples), len(d))

    def test_names_that_are_not_utf_8(self):
        for name in (b"\xff", b"\xfe"):
            os.rename(f"{self.folder}/" + ("cat" if name == b"\xff" else "dog"),
                      os.fsencode(self.folder) + b"/" + name)
        d = larder.Dataset(self.folder)
        self.assertEqual([os.fsencode(c) for c in d.classes], [b"\xfe", b"\xff"])
        self.assertEqual(sorted(d.class_to_idx.values()), [0, 1])
        self.assertTrue(all(os.path.isfile(path) for path, _ in d.samples))

    def test_a_nul_in_a_name(self):
        for wrong in ({"uri": f"{self.folder}\0nope"}, {"uri": SET, "recipe": "minio\0x"}):
            with self.assertRaisesRegex(larder.ArgumentError, "NUL"):
                larder.Dataset(**wrong)

    def test_pil_without_transform(self):
        from PIL import Image

        x, y = larder.Dataset(self.folder, pil=True)[7]
        self.assertIsInstance(x, Image.Image)
        self.assertEqual((x.size, y, x.getpixel((0, 0))), ((12, 10), 1, (41, 41, 41)))

    def test_as_timm_trains(self):
        # What timm's train.py and create_loader do: the data set first, its transform in the loader,
        # then batches collated by a function of its own, in workers.
        def create_loader(dataset, batch_size, is_training, num_workers):
            dataset.transform = Transform(8)
            return torch.utils.data.DataLoader(dataset, batch_size=batch_size, shuffle=is_training,
                                               num_workers=num_workers, collate_fn=fast_collate,
                                               drop_last=is_training, persistent_workers=num_workers > 0)

        train = larder.Dataset(self.folder, pil=True)
        model = torch.nn.Linear(3 * 8 * 8, len(train.class_to_idx))
        loader = create_loader(train, 4, True, 2)
        for _ in range(2):
            seen = 0
            for x, y in loader:
                self.assertEqual((tuple(x.shape), x.dtype), ((4, 3, 8, 8), torch.uint8))
                torch.nn.functional.cross_entropy(model(x.float().flatten(1)), y).backward()
                seen += len(y)
            self.assertEqual(seen, 12)


class Transform:
    def __init__(self, size):
        self.size = size

    def __call__(self, image):
        return numpy.asarray(image.resize((self.size, self.size))).transpose(2, 0, 1)


def fast_collate(batch):
    return torch.from_numpy(numpy.stack([x for x, _ in batch])), torch.tensor([y for _, y in batch])


class TestArguments(unittest.TestCase):
    def test_of_a_dataloader(self):
        for name, value, ours in (("num_workers", 4, "threads=4"), ("pin_memory", True, "pin=True"),
                                  ("sampler", None, "recipe="), ("num_workers", 4, "workers=4"),
                                  ("batch_sampler", None, "recipe="), ("persistent_workers", True, "workers stay"),
                                  ("prefetch_factor", 2, "prefetch="), ("generator", None, "seed="),
                                  ("multiprocessing_context", "spawn", "start="),
                                  ("pin_memory_device", "cuda", "device="), ("timeout", 3, "leave it out")):
            with self.assertRaises(TypeError) as e:
                larder.Loader(SET, 8, **{name: value})
            self.assertIn(f"larder.Loader has no argument {name}: ", str(e.exception))
            self.assertIn(ours, str(e.exception))
        with larder.Loader(SET, 8, shuffle=False) as l:  # this one is ours as well
            self.assertEqual(next(iter(l)).ids.tolist(), list(range(8)))

    def test_did_you_mean(self):
        for kind in (larder.Loader, larder.Dataset):
            with self.assertRaisesRegex(TypeError, rf"larder.{kind.__name__} has no argument cahce: did you mean cache="):
                kind(SET, cahce="10%")
            with self.assertRaisesRegex(TypeError, "has no argument zzz: there are uri, "):
                kind(SET, zzz=1)


class TestLosses(unittest.TestCase):
    def test_logits_and_embeddings(self):
        bad = {"icache": {"logits": numpy.full((16, 4), numpy.nan, "float32")},
               "spider": {"embeddings": numpy.full((16, 8), numpy.inf, "float32")}}
        for recipe, said in bad.items():
            with larder.Loader(SET, 16, recipe=recipe, epochs=1) as l, warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                for _ in l:
                    l.report(**said)
                self.assertGreaterEqual(l.stats()["losses_not_finite"], 16, recipe)
                self.assertEqual(sum("NaN or infinite" in n for n in l.notes()), 1, l.notes())
            self.assertEqual(sum("NaN or infinite" in str(w.message) for w in seen), 1, recipe)

    def test_not_finite(self):
        for recipe in kit.RECIPES:
            with larder.Loader(SET, 8, recipe=recipe, cache="50%", epochs=3) as l, warnings.catch_warnings(
                record=True
            ) as said:
                warnings.simplefilter("always")
                served, bad = 0, 0
                for _ in range(3):
                    for b in l:
                        loss = torch.ones(b.n)
                        loss[0], loss[1] = float("nan"), float("inf")
                        loss[2] = -float("inf")
                        l.report(loss=loss, embeddings=torch.randn(b.n, 4) if "spider" in recipe else None)
                        served, bad = served + b.n, bad + 3
                told = [w for w in said if "NaN or infinite" in str(w.message)]
                if l.listens:
                    self.assertEqual(len(told), 1, recipe)
                    self.assertGreater(l.stats()["losses_not_finite"], 0)
                self.assertGreaterEqual(served, 64, recipe)

    def test_all_of_them(self):
        orders = []
        for value in (float("nan"), float("inf"), None):  # as if nothing was said
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with larder.Loader(SET, 8, recipe="shade", cache="50%", seed=3) as l:
                    ids = []
                    for _ in range(3):
                        for b in l:
                            ids += b.served.tolist()
                            if value is not None:
                                l.report(loss=torch.full((b.n,), value))
            orders.append(ids)
        self.assertEqual(orders[0], orders[1])


class TestStates(unittest.TestCase):
    def test_into_one_in_use(self):
        for recipe in ("minio", "shade", "rotate:h=0.5"):
            with larder.Loader(SET, 8, recipe=recipe, cache="50%", seed=5) as l:
                batches = iter(l)
                for _ in range(3):
                    b = next(batches)
                    l.report(loss=torch.arange(float(b.n)))
                state = l.state_dict()
                rest = []
                for b in batches:
                    rest.append(b.served.tolist())
                    l.report(loss=torch.arange(float(b.n)))
                for b in l:  # and well into the next epoch
                    break
                l.load_state_dict(state)
                again = []
                for b in l:
                    again.append(b.served.tolist())
                    l.report(loss=torch.arange(float(b.n)))
                self.assertEqual(again, rest, recipe)

    def test_said_where_it_cannot(self):
        with tempfile.TemporaryDirectory() as tmp:
            with larder.Loader(SET, 8, recipe="minio", record=f"{tmp}/tape") as l:
                next(iter(l))
                state = l.state_dict()
                with self.assertRaisesRegex(larder.StateError, "records takes a state right after opening: close"):
                    l.load_state_dict(state)


if __name__ == "__main__":
    unittest.main()
