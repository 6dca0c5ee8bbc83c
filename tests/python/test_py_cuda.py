"""Batches on a CUDA device: pinned memory, copies beside training, feedback that does not stall."""

import io
import os
import sys
import tarfile
import tempfile
import unittest

import kit
import numpy as np
from kit import larder, torch

if not torch.cuda.is_available():
    print("skipped: no CUDA device")
    sys.exit(77)

SOURCE = "mem:?n=4000&h=32&w=32&c=3"
PIXELS = ["crop:size=32,pad=4", "flip"]


def loader(recipe="minio", **more):
    conf = dict(batch_size=128, recipe=recipe, augment=PIXELS, threads=4)
    conf.update(more)
    return larder.Loader(SOURCE, **conf)


class Cuda(unittest.TestCase):
    def test_pinned(self):
        with loader() as l:
            for b in l:
                self.assertTrue(b.x.is_pinned())
                self.assertFalse(b.x.is_cuda)
            self.assertEqual(l.stats()["batches_not_pinned"], 0)

    def test_copies_say_the_same(self):
        with loader(device="cuda") as a, loader(pin=False) as b:
            for _ in range(3):
                for p, q in zip(a, b):
                    self.assertTrue(p.x.is_cuda and p.y.is_cuda)
                    self.assertTrue(torch.equal(p.x.cpu(), q.x))
                    self.assertTrue(torch.equal(p.y.cpu(), q.y))
                    self.assertEqual(p.served.tolist(), q.served.tolist())

    def test_memory_is_not_reused_under_a_copy(self):
        """A long queue of work on the device, and batches that are dropped at once."""
        with loader(device="cuda", prefetch=2) as a, loader(pin=False) as b:
            big = torch.randn(4096, 4096, device="cuda")
            kept = []
            for p in a:
                for _ in range(4):
                    big = big @ big
                    big = big / big.norm()
                kept.append(p.x.clone())
            for x, q in zip(kept, b):
                self.assertTrue(torch.equal(x.cpu(), q.x))
        with loader(prefetch=2) as a, loader(pin=False) as b:
            kept = []
            for p in a:
                big = big @ big
                big = big / big.norm()
                kept.append(p.x.cuda(non_blocking=True))
                del p
            for x, q in zip(kept, b):
                self.assertTrue(torch.equal(x.cpu(), q.x))

    def test_feedback_from_the_device(self):
        with loader("shade", device="cuda") as a, loader("shade", pin=False) as b:
            for _ in range(3):
                for p, q in zip(a, b):
                    self.assertEqual(p.served.tolist(), q.served.tolist())
                    a.report(loss=p.served.cuda().float() % 97)
                    b.report(loss=q.served.float() % 97)
            self.assertEqual(a.stats()["reports_refused"], 0)

    def test_half_embeddings(self):
        for dtype in (torch.float16, torch.bfloat16, torch.float32):
            with loader("spider:scoring=wait", device="cuda") as l:
                for _ in range(2):
                    for p in l:
                        l.report(embeddings=p.x.flatten(1)[:, :16].to(dtype))
                self.assertEqual(l.stats()["reports_refused"], 0)

    def test_scores_on_the_device(self):
        """Chosen by itself, and the same scores as in tensors on the host."""
        from larder._graph import Graph

        with loader("spider", device="cuda") as l:
            self.assertIn("signal=given", l.recipe)
        with loader("spider:engine=exact", device="cuda") as l:
            self.assertNotIn("given", l.recipe)
        a, b = Graph(4000), Graph(4000)
        torch.manual_seed(0)
        centres = torch.randn(10, 64)
        for k in range(20):
            served = torch.randint(0, 4000, (256,))
            emb = centres[served % 10] + torch.randn(256, 64) * 0.8
            ids, y = served.numpy().astype("uint64"), (served % 10).numpy()
            host = a.score(ids, y, emb)[:, 0]
            there = b.score(ids, y, emb.cuda())[:, 0].cpu()
            b.radius = a.radius.cuda()  # an edge more or less must not steer them apart
            host, there = torch.nan_to_num(host), torch.nan_to_num(there)
            self.assertLess((host - there).abs().max().item(), 0.02)

    def test_state_with_a_copy_ahead(self):
        with loader(device="cuda") as l:
            for i, b in enumerate(l):
                if i == 7:
                    state = l.state_dict()
                    break
            it = [b.x.sum().item() for b in l]
        with loader(device="cuda") as m:
            m.load_state_dict(state)
            rest = [b.number for b in m]
        self.assertEqual(rest, list(range(8, 32)))

    def test_broken_off(self):
        with loader(device="cuda") as l:
            for epoch in range(5):
                for i, b in enumerate(l):
                    self.assertEqual(b.epoch, epoch)
                    if i == 3 + epoch:
                        break

    def test_evaluator(self):
        seen = []

        def evaluate(b):
            seen.append(b.x.is_cuda)
            return b.x.flatten(1).mean(1)

        with loader("impact:warm_max=2,full_every=1", device="cuda", evaluator=evaluate) as l:
            for _ in range(4):
                for b in l:
                    l.report(loss=b.x.flatten(1).mean(1))
        self.assertTrue(seen and all(seen))

    def test_own_samples(self):
        """Tensors anywhere in a batch go over; text stays; the same as without a device."""
        conf = dict(dataset=Own(), batch_size=50, workers=0, seed=4, cache="40%")
        with larder.Loader(device="cuda", **conf) as a, larder.Loader(**conf) as b:
            for _ in range(3):
                for p, q in zip(a, b):
                    self.assertEqual(p.data["name"], q.data["name"])
                    for got, want in ((p.data["x"], q.data["x"]), (p.data["more"][1], q.data["more"][1])):
                        self.assertTrue(got.is_cuda)
                        self.assertTrue(torch.equal(got.cpu(), want))
                    self.assertEqual(p.served.tolist(), q.served.tolist())

    def test_own_samples_under_a_queue(self):
        """What was handed out stays as it is while the device is far behind."""
        conf = dict(dataset=Own(), batch_size=50, workers=0, seed=4, prefetch=2)
        with larder.Loader(device="cuda", **conf) as a, larder.Loader(**conf) as b:
            big, kept = torch.randn(4096, 4096, device="cuda"), []
            for p in a:
                for _ in range(4):
                    big = big @ big
                    big = big / big.norm()
                kept.append(p.data["x"].clone())
            for x, q in zip(kept, b):
                self.assertTrue(torch.equal(x.cpu(), q.data["x"]))

    def test_fields(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "t.tar")
            with tarfile.open(path, "w") as tar:
                for i in range(200):
                    for name, raw in ((f"{i:04}.txt", b"n%d" % i), (f"{i:04}.cls", b"%d" % (i % 7)),
                                      (f"{i:04}.npy", array_bytes(i))):
                        member = tarfile.TarInfo(name)
                        member.size = len(raw)
                        tar.addfile(member, io.BytesIO(raw))
            conf = dict(batch_size=30, fields=["npy", "cls", "txt"], seed=5)
            with larder.Loader("tar:" + path, device="cuda", **conf) as a, larder.Loader("tar:" + path, **conf) as b:
                for _ in range(2):
                    for p, q in zip(a, b):
                        self.assertTrue(p["npy"].is_cuda and p.y.is_cuda)
                        self.assertTrue(torch.equal(p["npy"].cpu(), q["npy"]))
                        self.assertTrue(torch.equal(p.y.cpu(), q.y))
                        self.assertEqual(p["txt"], q["txt"])


def photographs(folder, n=200):
    """Sizes, qualities and samplings of colour as they come, two broken files and three that no GPU takes."""
    from PIL import Image

    rng = np.random.default_rng(3)
    os.makedirs(os.path.join(folder, "a"))
    for i in range(n):
        h, w = int(rng.integers(150, 500)), int(rng.integers(150, 500))
        x = np.zeros((h, w, 3))
        for scale in (1, 4, 16, 64):
            noise = rng.normal(size=(h // scale + 2, w // scale + 2, 3)) * scale ** 0.7 * 4
            x += np.kron(noise, np.ones((scale, scale, 1)))[:h, :w]
        im = Image.fromarray(np.clip(x + 128, 0, 255).astype("uint8"))
        im = im.convert("L") if i % 11 == 10 else im
        how = {"progressive": True} if i == 50 else {}
        if im.mode != "L":
            how["subsampling"] = i % 3
        if i == 51:
            im = im.convert("CMYK")
        im.save(os.path.join(folder, "a", f"{i:04}.jpg"), quality=int(rng.integers(60, 97)), **how)
    return folder


CROP = ["rrc:size=96,gap=0", "flip"]


class Decoded(unittest.TestCase):
    """On the GPU, beside the cores: the same samples, and pixels at most 2 of 255 levels apart."""

    @classmethod
    def setUpClass(cls):
        try:
            import PIL  # noqa: F401
        except ImportError:
            raise unittest.SkipTest("no PIL to make pictures with")
        cls.folder = tempfile.TemporaryDirectory()
        cls.uri = photographs(os.path.join(cls.folder.name, "good"))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def open(self, **more):
        conf = dict(batch_size=32, augment=CROP, dtype="uint8", seed=9, threads=4, cache="30%")
        conf.update(more)
        return larder.Loader(conf.pop("uri", self.uri), **conf)

    def same(self, p, q, most=2):
        self.assertEqual(p.served.tolist(), q.served.tolist())
        self.assertEqual(p.ids.tolist(), q.ids.tolist())
        self.assertEqual(p.y.tolist(), q.y.tolist())
        self.assertEqual(p.kind.tolist(), q.kind.tolist())
        self.assertLessEqual((p.x.cpu().float() - q.x.float()).abs().max().item(), most)

    def test_gpu_and_auto(self):
        for decode in ("gpu", "auto"):
            with self.open(device="cuda", decode=decode) as a, self.open() as b:
                for epoch in range(2):
                    for p, q in zip(a, b):
                        self.same(p, q)
                    self.assertEqual(repr(a.figures(epoch)), repr(b.figures(epoch)))
                self.assertGreater(a.stats()["decoded_gpu"], 0)

    def test_colours_of_nvjpeg(self):
        """The engine repeats colour that the file has halved: the same samples, a level apart on average."""
        for decode in ("gpu:fast", "auto:fast"):
            with self.open(device="cuda", decode=decode) as a, self.open() as b:
                apart = 0.0
                for n, (p, q) in enumerate(zip(a, b), 1):
                    self.same(p, q, 255)
                    apart += (p.x.cpu().float() - q.x.float()).abs().mean().item()
                self.assertLess(apart / n, 2)
                self.assertEqual(repr(a.figures(0)), repr(b.figures(0)))
                self.assertGreater(a.stats()["decoded_gpu"], 0)

    def test_kernels_instead_of_the_engine(self):
        os.environ["LARDER_NVJPEG_KERNELS"] = "1"
        try:
            with self.open(device="cuda", decode="gpu", batch_size=100) as a, self.open(batch_size=100) as b:
                for p, q in zip(a, b):
                    self.same(p, q, 3)  # their inverse DCT is rounded more freely than the engine's
                self.assertEqual(a.stats()["gpu_engine"], 0)
                self.assertGreater(a.stats()["decoded_gpu"], 0)
        finally:
            del os.environ["LARDER_NVJPEG_KERNELS"]

    def test_values_are_the_hosts(self):
        """Of rows that the cores decode: normalised and cast on the device, to the bit."""
        norm = CROP + ["normalize:preset=imagenet"]
        for dtype in ("float32", "float16", "bfloat16"):
            for layout in ("NCHW", "NHWC", "channels_last"):
                conf = dict(augment=norm, dtype=dtype, layout=layout)
                with self.open(device="cuda", **conf) as a, self.open(**conf) as b:
                    for p, q in zip(a, b):
                        self.assertEqual(p.x.dtype, getattr(torch, dtype))
                        self.assertEqual(p.x.shape, q.x.shape)
                        self.assertEqual(p.x.stride(), q.x.stride())
                        self.assertTrue(torch.equal(p.x.cpu(), q.x))

    def test_resume(self):
        conf = dict(device="cuda", decode="gpu")
        with self.open(**conf) as a, self.open() as b:
            for p, q in zip(a, b):
                if p.number == 2:
                    state = a.state_dict()
            ends = [(q.served.tolist(), q.x) for q in b]
        with self.open(device="cuda", decode="auto") as a, self.open() as b:
            a.load_state_dict(state)
            b.load_state_dict(state)
            numbers = []
            for p, q in zip(a, b):
                self.same(p, q)
                numbers.append(p.number)
            self.assertEqual(numbers[0], 3)
        self.assertTrue(ends)

    def test_static(self):
        norm = CROP + ["normalize:preset=imagenet"]
        for augment in (norm, norm + ["erase"]):  # made on the device, and copied there
            with self.open(device="cuda", static=True, augment=augment, dtype="float32") as a, self.open(
                augment=augment, dtype="float32"
            ) as b:
                at = set()
                for p, q in zip(a, b):
                    at.add((p.x.data_ptr(), p.y.data_ptr(), p.weight.data_ptr()))
                    self.assertTrue(torch.equal(p.x.cpu(), q.x))
                    self.assertTrue(torch.equal(p.y.cpu(), q.y))
                self.assertEqual(len(at), 1)

    def test_broken_files(self):
        folder = os.path.join(self.folder.name, "broken")
        photographs(folder, 60)
        one = os.path.join(folder, "a", "0003.jpg")
        with open(one, "rb") as f:
            whole = f.read()
        with open(one, "wb") as f:
            f.write(whole[: len(whole) // 2])
        with open(os.path.join(folder, "a", "0004.jpg"), "wb") as f:
            f.write(b"no picture")
        for on_bad in ("skip", "replace"):
            conf = dict(uri=folder, on_bad=on_bad, augment=CROP + ["mixup"], dtype="float32")
            with self.open(device="cuda", decode="gpu", **conf) as a, self.open(**conf) as b:
                for p, q in zip(a, b):
                    self.same(p, q, 2 / 255 + 1e-6)
                self.assertEqual(sorted(x["why"] for x in a.bad()), sorted(x["why"] for x in b.bad()))
                self.assertEqual(len(a.bad()), 2)
        with self.open(uri=folder, device="cuda", decode="gpu") as a:
            with self.assertRaisesRegex(larder.Error, "000[34].jpg"):
                for _ in a:
                    pass

    def test_refusals(self):
        with self.assertRaisesRegex(larder.Error, "stage erase"):
            self.open(device="cuda", decode="gpu", augment=CROP + ["erase"])
        with self.assertRaisesRegex(larder.Error, "nothing to decode"):
            loader(device="cuda", decode="gpu")
        with self.assertRaisesRegex(larder.Error, "fields="):
            self.open(device="cuda", decode="gpu", fields=["jpg"])

    def test_memory_is_not_written_over(self):
        with self.open(device="cuda", decode="gpu", prefetch=2) as a, self.open() as b:
            big, kept = torch.randn(4096, 4096, device="cuda"), []
            for p in a:
                for _ in range(6):
                    big = big @ big
                    big = big / big.norm()
                kept.append(p.x.clone())
            for x, q in zip(kept, b):
                self.assertLessEqual((x.cpu().float() - q.x.float()).abs().max().item(), 2)


class Own(torch.utils.data.Dataset):
    def __len__(self):
        return 1000

    def __getitem__(self, i):
        return {"x": torch.full((3, 40, 40), float(i)), "name": f"n{i}", "more": (i, torch.arange(3) + i)}


def array_bytes(i):
    out = io.BytesIO()
    np.save(out, np.full((5, 4), i, np.float32))
    return out.getvalue()


if __name__ == "__main__":
    unittest.main()
