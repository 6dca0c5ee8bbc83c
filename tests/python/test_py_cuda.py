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
