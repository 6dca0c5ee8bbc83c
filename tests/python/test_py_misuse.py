"""What users get wrong, and what comes at the wrong moment: each is told at once, in a sentence that names it,
and leaves the loader usable. Ctrl-C at any moment included."""

import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
import warnings

import kit
from kit import larder, numpy, torch

SOURCE = "mem:?n=90&h=8&w=8&c=3&classes=10"


def loader(recipe="minio", **more):
    return larder.Loader(SOURCE, 10, recipe, threads=2, **more)


class Arguments(unittest.TestCase):
    def refused(self, says, **given):
        with self.assertRaisesRegex((larder.ArgumentError, TypeError), says, msg=str(given)):
            larder.Loader(**dict({"uri": SOURCE, "batch_size": 10}, **given))

    def test_refused(self):
        for seed in (-1, 1 << 64, 1.5, "7", None):
            self.refused("seed is a whole number", seed=seed)
        for cache in (0.2, None, -5):
            self.refused('text such as "20%"', cache=cache)
        for name in ("transform", "evaluator"):
            self.refused(f"{name} is a function", **{name: 5})
        self.refused("augment is a list", augment=5)
        self.refused("recipe is a text", recipe=None)
        self.refused("named by a text", uri=None)
        self.refused("dtype is one of", dtype="float64")
        self.refused("dtype is one of", dtype=numpy.float64)
        self.refused("layout is one of", layout=None)
        self.refused("world is a whole number from 1", world=0)
        self.refused("rank is a whole number", rank="0")
        self.refused("batch_size is a whole number from 1 to", batch_size=10**12)
        if not torch.cuda.is_available():
            self.refused("sees no CUDA device", device="cuda")
            self.refused("sees no CUDA device", device=torch.device("cuda", 3))

    def test_taken(self):
        """What can only mean one thing."""
        for given in ({"batch_size": numpy.int64(10)}, {"cache": 4096}, {"dtype": numpy.uint8},
                      {"dtype": torch.uint8}, {"device": torch.device("cpu")}, {"augment": []},
                      {"seed": (1 << 64) - 1}, {"augment": lambda row: row}):
            with larder.Loader(**dict({"uri": SOURCE, "batch_size": 10}, **given)) as l:
                self.assertEqual(sum(b.n for b in l), 90, str(given))
        d = larder.Dataset(SOURCE, augment="flip", shared=False)
        self.assertEqual(sorted(larder.Sampler(d)), list(range(90)))
        self.assertEqual(len(larder.BatchSampler(d, 10, lag=0)), 9)
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(FileNotFoundError) as e:
                larder.Loader(os.fsencode(os.path.join(folder, "größe")))
            self.assertIn("größe", str(e.exception))

    def test_data_sets(self):
        for given in ({"cache": 0.2}, {"seed": -1}, {"transform": 3}, {"recipe": None}, {"target_transform": 1}):
            with self.assertRaises(larder.ArgumentError, msg=str(given)):
                larder.Dataset(SOURCE, **given)
        d = larder.Dataset(SOURCE, augment="flip", shared=False)
        for wrong in (1.5, "a", None, slice(0, 3)):
            with self.assertRaises(TypeError, msg=repr(wrong)):
                d[wrong]
        with self.assertRaisesRegex(IndexError, "-91"):
            d[-91]

    def test_broken_pictures_by_index(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "cat"))
            with open(os.path.join(folder, "cat", "7.jpg"), "wb") as f:
                f.write(b"\xff\xd8\xff\xe0 no picture")
            for augment in (None, "resize:h=8,w=8"):
                try:
                    d = larder.Dataset(folder, augment=augment, shared=False)
                except larder.Error as e:  # some look at a picture to know what there is
                    self.assertIn("7.jpg", str(e))
                    continue
                with self.assertRaisesRegex(larder.FormatError, r"sample 0 \(cat/7.jpg\)"):
                    d[0]

    def test_functions_that_give_something_else(self):
        for tensors in (True, False):
            with loader(transform=lambda row: None, torch=tensors) as l:
                b = next(iter(l))
                self.assertEqual(b.x, [None] * b.n)
            with loader(transform=lambda row: {"a": 1}, torch=tensors) as l:
                self.assertEqual(next(iter(l))["a"].tolist(), [1] * l.batch_size)
            with self.assertRaisesRegex(larder.FormatError, "alike.*collate_fn"):
                with loader(transform=lambda row: row[:, : 1 + int(row.sum()) % 3], torch=tensors) as l:
                    next(iter(l))

    def test_warnings_point_at_the_caller(self):
        if torch.cuda.is_available():
            self.skipTest("memory can be pinned here")
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            loader(pin=True).close()
        self.assertEqual([os.path.basename(w.filename) for w in heard], ["test_py_misuse.py"])


class Reports(unittest.TestCase):
    def test_shapes(self):
        with loader("shade") as l:
            b = next(iter(l))
            for name, shape in (("loss", ()), ("loss", (9,)), ("loss", (5, 2)), ("loss", (10, 2)), ("loss", (0,)),
                                ("logits", (10,)), ("logits", (10, 1)), ("logits", (10, 4, 4)), ("logits", (9, 4)),
                                ("embeddings", ()), ("embeddings", (9, 4)), ("embeddings", (10, 0))):
                for make in (torch.ones, numpy.ones):
                    with self.assertRaisesRegex(larder.ArgumentError, f"{name} of shape", msg=f"{name} {shape}"):
                        l.report(**{name: make(shape)})
            for good in (torch.ones(10), torch.ones(10, 1), torch.ones(1, 10), [1.0] * 10, torch.ones(10).half(),
                         torch.ones(10).bfloat16(), torch.ones(10, requires_grad=True), numpy.ones(20)[::2],
                         torch.ones(10).to_sparse(), torch.full((10,), float("nan"))):
                l.report(loss=good)
            with self.assertRaisesRegex(larder.ArgumentError, "made of numbers"):
                l.report(loss=["a"] * 10)
            with self.assertRaises(NotImplementedError):  # it has no values
                l.report(loss=torch.ones(10, device="meta"))
            for about in ("x", 5, b.x):
                with self.assertRaisesRegex(larder.ArgumentError, "batch of this loader"):
                    l.report(loss=torch.ones(10), batch=about)
            self.assertEqual(sum(1 for _ in l), 9)

    def test_a_batch_of_one(self):
        with larder.Loader(SOURCE, 1, "shade") as l:
            next(iter(l))
            l.report(loss=torch.tensor(1.0))

    def test_on_a_device(self):
        """Where scores are worked out by torch, shapes are looked at before."""
        with loader("spider:scoring=wait", score_on_device=True) as l:
            next(iter(l))
            with self.assertRaisesRegex(larder.ArgumentError, "embeddings of shape"):
                l.report(embeddings=torch.ones(9, 4))

    def test_arrays_may_change_afterwards(self):
        def run(change):
            with loader("shade") as l:
                out = []
                for _ in range(4):
                    for b in l:
                        out.append(b.served.tolist())
                        losses = b.served.numpy().astype("float32") % 7
                        l.report(loss=losses)
                        if change:
                            losses[:] = -1
                return out

        self.assertEqual(run(False), run(True))

    def test_in_any_order(self):
        """Of the batches that may still be reported, the newer one first: all as if in order."""

        def run(turned):
            with loader("shade") as l:
                out = []
                for _ in range(4):
                    before = None
                    for b in l:
                        out.append(b.served.tolist())
                        if before is None:
                            before = b
                            continue
                        for about in (b, before) if turned else (before, b):
                            l.report(loss=about.served.float() % 7, batch=about)
                        before = None
                    if before is not None:
                        l.report(loss=before.served.float() % 7, batch=before)
                self.assertEqual(l.stats()["reports_refused"], 0)
                return out

        self.assertEqual(run(False), run(True))

    def test_too_late(self):
        with loader("shade") as l:
            batches = list(l)
            with self.assertRaisesRegex(larder.StateError, "batch 0 comes too late: batch 8"):
                l.report(loss=torch.ones(10), batch=batches[0])
            self.assertEqual(len(list(l)), 9)

    def test_hooks(self):
        with loader("spider") as l:
            with self.assertRaisesRegex(TypeError, "a layer of PyTorch"):
                l.feedback(None)
            flat = torch.nn.Flatten()
            pair = torch.nn.LSTM(8, 4, batch_first=True)
            with l.feedback(pair):  # gives a tuple: its first part counts
                for b in l:
                    pair(flat(b.x)[:, :8].reshape(b.n, 1, 8))
            self.assertGreater(l.stats()["reports"], 0)

            class Named(torch.nn.Module):
                def forward(self, x):
                    return {"out": x}

            layer = Named()
            next(iter(l))
            with l.feedback(layer), self.assertRaisesRegex(TypeError, "Named gives a dict"):
                layer(torch.ones(10, 3))
        with loader("spider") as l, l.feedback(flat), warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            for b in l:
                flat(b.x[:3])  # a part of the batch
            self.assertEqual(len([w for w in heard if "rows for a batch" in str(w.message)]), 1)


class Epochs(unittest.TestCase):
    def test_numbers(self):
        with loader() as l:
            list(l)
            for wrong in (-1, 1.5, "a", None, 1 << 70):
                for use in (l.set_epoch, l.figures) if wrong is not None else (l.set_epoch,):
                    with self.assertRaisesRegex(larder.ArgumentError, "epoch is a whole number"):
                        use(wrong)
            self.assertEqual(len(list(l)), 9)

    def test_the_last_one_broken_off(self):
        with loader(epochs=2) as l:
            list(l)
            next(iter(l))
            self.assertEqual(list(l), [])
            self.assertEqual(list(l), [])

    def test_an_epoch_that_there_is_not(self):
        with loader(epochs=2) as l:
            l.set_epoch(7)
            with self.assertRaisesRegex(larder.RangeError, "7 of 2"):
                list(l)
            l.set_epoch(1)
            self.assertEqual(len(list(l)), 9)

    def test_errors_of_ones_own(self):
        def own(row):
            if row.sum() % 5 < 0.5:
                raise KeyError("mine")
            return row

        with self.assertRaisesRegex(larder.FormatError, r"sample \d+ \(.*\): KeyError: 'mine'"):
            with loader(transform=own) as l:
                list(l)
        with loader(transform=own, on_bad="skip") as l:
            self.assertEqual(len(list(l)), 9)
            self.assertGreater(l.figures(0)["bad"], 0)


class Ends(unittest.TestCase):
    def test_closed_by_its_own_evaluator(self):
        def evaluate(batch):
            l.close()
            return torch.ones(batch.n)

        l = loader("impact:warm_max=2,full_every=1", evaluator=evaluate)
        with self.assertRaises(larder.CancelledError):
            for _ in range(4):
                for b in l:
                    l.report(loss=b.served.float())
        self.assertIn("closed", repr(l))

    def test_closed_by_its_own_transform(self):
        """In a thread of larder's, which cannot wait for its own end."""
        closed = []
        l = loader(transform=lambda row: (l.close() if closed else None, row)[1], workers=0)
        it = iter(l)
        next(it)
        closed.append(True)
        with self.assertRaises((larder.StateError, larder.CancelledError)):
            for _ in it:
                pass
        with self.assertRaisesRegex(larder.StateError, "closed"):
            next(iter(l))

    def test_states(self):
        """What is no state, or of another run, is told before anything is restored."""
        with loader() as l:
            it = iter(l)
            next(it)
            state = l.state_dict()
            rest = [b.ids.tolist() for b in it]
        with loader() as m:
            for wrong in ({"rank": "x"}, {"world": None}, {"last": "x"}, {"taken": 1.5}, {"reports": 5},
                          {"reports": [{}]}, {"larder": None}, {"larder": 5}, {"version": "1"}):
                with self.assertRaises(larder.FormatError, msg=str(wrong)):
                    m.load_state_dict(dict(state, **wrong))
            for other in (0, 2):
                with self.assertRaisesRegex(larder.UnsupportedError, f"version {other}; .* or begin anew"):
                    m.load_state_dict(dict(state, version=other))
            for wrong in (["a"], [state, state], "state", None):
                with self.assertRaises(larder.FormatError, msg=str(wrong)):
                    m.load_state_dict(wrong)
            m.load_state_dict(state)
            self.assertEqual([b.ids.tolist() for b in m], rest)
        for says, other in (("seed", {"seed": 1}), ("recipe", {"recipe": "lru"}), ("cache", {"cache": "30%"}),
                            ("drop_last", {"drop_last": True})):
            with loader(**other) as n, self.assertRaisesRegex(larder.FormatError, says):
                n.load_state_dict(state)

    def test_saved_before_an_epoch_that_was_set(self):
        with loader() as l, loader() as m:
            l.set_epoch(3)
            m.load_state_dict(l.state_dict())
            self.assertEqual((m.epoch, next(iter(m)).epoch), (3, 3))


ALONE = """
    import sys
    sys.path += sys.argv[1:3]
    import larder
    source = "mem:?n=90&h=8&w=8&c=3&classes=10"
    with larder.Loader(source, 10, "shade") as l:
        for b in l:
            l.report(loss=[1.0] * b.n)
        state = l.state_dict()
    with larder.Loader(source, 10, "shade", rank=0, world=1) as m:
        m.load_state_dict(state)
        print(type(b.x).__name__, m.epoch, m.pin_memory, m.prefetch_factor)
        print(sum(1 for b in m if m.report(loss=[1.0] * b.n) is None))
    print(type(larder.Dataset(source, augment="flip", shared=False)[0][0]).__name__,
          len(list(larder.BatchSampler(source, 10, rank=0, world=2))))
    for given in ({"device": "cuda"}, {"torch": True}):
        try:
            larder.Loader(source, 10, **given)
        except ImportError as e:
            print("NumPy arrays" in str(e))
    print("torch" in sys.modules)
"""


class WithoutTorch(unittest.TestCase):
    def test_numpy_alone(self):
        """Nothing of PyTorch is asked for unless it is there; what needs it says so."""
        with tempfile.TemporaryDirectory() as folder:
            where = os.path.dirname(numpy.__path__[0])
            for name in ("numpy", "numpy.libs"):
                if os.path.exists(os.path.join(where, name)):
                    os.symlink(os.path.join(where, name), os.path.join(folder, name))
            p = subprocess.run(
                [sys.executable, "-S", "-W", "error", "-c", textwrap.dedent(ALONE), folder,
                 str(kit.ROOT / "python")],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
            )
            out = p.stdout.decode().split("\n")
            self.assertEqual(p.returncode, 0, p.stderr.decode())
            self.assertEqual(out[:6], ["ndarray 1 False None", "9", "ndarray 5", "True", "True", "False"])


STORM = """
    import random, signal, sys, time
    import larder
    recipe, own = sys.argv[1], sys.argv[2] == "own"
    l = larder.Loader("slow:latency=1ms:mem:?n=400&h=8&w=8&c=3", 10, recipe, threads=2,
                      transform=(lambda row: row) if own else None)
    armed, refused = False, []

    def interrupt(number, frame):
        if armed:
            raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    random.seed(5)
    end, it, rounds, taken = time.monotonic() + float(sys.argv[3]), iter(l), 0, 0
    while time.monotonic() < end or taken < 20:
        rounds += 1
        try:
            try:
                armed = True
                signal.setitimer(signal.ITIMER_REAL, 1e-5 + 0.01 * random.random())
                if rounds % 3 == 0:
                    it = iter(l)
                for b in it:
                    l.report(loss=[1.0] * b.n)
                    taken += 1
                it = iter(l)
            finally:
                armed = False
                signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            pass
        except larder.Error as e:
            if "another iteration" not in str(e):  # it = iter(l) was cut off in the middle
                refused.append(str(e))
    print(refused[:3], len(list(l)), len(list(l)), rounds > 1)
    l.close()
"""


class Storm(unittest.TestCase):
    def test_ctrl_c_at_any_moment(self):
        code = f"import sys\nsys.path.insert(0, {str(kit.ROOT / 'python')!r})\n" + textwrap.dedent(STORM)
        seconds = "5" if os.environ.get("LARDER_LONG") else "0.5"
        for recipe, own in (("minio", ""), ("shade", ""), ("minio", "own")):
            p = subprocess.run([sys.executable, "-c", code, recipe, own, seconds], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, timeout=200)
            self.assertEqual(p.stdout.decode(), "[] 40 40 True\n", p.stderr.decode()[-2000:])


if __name__ == "__main__":
    unittest.main()
