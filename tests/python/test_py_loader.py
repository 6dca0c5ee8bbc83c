"""larder.Loader: batches, epochs, state, feedback, errors."""

import copy
import gc
import os
import pickle
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import warnings

import kit
from kit import larder, numpy, torch

SOURCE = "mem:?n=1000&h=8&w=8&c=3"
PIXELS = ["crop:size=8,pad=2", "flip"]


def loader(recipe="minio", **more):
    conf = dict(batch_size=64, recipe=recipe, augment=PIXELS, threads=2)
    conf.update(more)
    return larder.Loader(SOURCE, **conf)


class Notes(unittest.TestCase):
    """Sentences of the library that are no errors: warnings, each once, at the line that made it so."""

    def setUp(self):
        self.says = ["the first word"]
        real = larder._lib.notes
        larder._lib.notes = lambda handle, begin=0: self.says[begin:]
        self.addCleanup(setattr, larder._lib, "notes", real)

    def test_each_once(self):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            with loader() as l:
                self.assertEqual([str(w.message) for w in told], ["larder: the first word"])
                for _ in range(2):
                    list(l)
                self.says.append("another")
                list(l)
                self.assertEqual(len(told), 2)
                self.assertEqual(l.notes(), self.says)
                self.says.append("the last")
        self.assertEqual(str(told[2].message), "larder: the last")
        for w in told:
            self.assertTrue(issubclass(w.category, larder.LarderWarning), w.category)

    def test_as_errors(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with self.assertRaises(larder.LarderWarning):
                loader()
            with self.assertRaises(larder.LarderWarning):
                larder.Dataset(SOURCE, augment=PIXELS)

    def test_a_dataset(self):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            d = larder.Dataset(SOURCE, augment=PIXELS)
            copy.copy(d)[3]
            d.close()
            d[3]
        self.assertEqual([str(w.message) for w in told], ["larder: the first word"])


class Imported(unittest.TestCase):
    """Before CUDA is first used, larder asks for as many queues as there are, unless somebody has."""

    def queues(self, before="", **env):
        code = before + "import larder, os; print(os.environ['CUDA_DEVICE_MAX_CONNECTIONS'], larder._torch._few_queues)"
        clean = {k: v for k, v in os.environ.items() if k != "CUDA_DEVICE_MAX_CONNECTIONS"}
        clean["PYTHONPATH"] = str(kit.ROOT / "python")
        return subprocess.run([sys.executable, "-c", code], env={**clean, **env}, check=True, stdout=subprocess.PIPE,
                              universal_newlines=True).stdout.split()

    def test_queues(self):
        self.assertEqual(self.queues(), ["32", "False"])
        self.assertEqual(self.queues(CUDA_DEVICE_MAX_CONNECTIONS="1"), ["1", "False"])
        late = "import sys, types; cuda = types.SimpleNamespace(is_initialized=lambda: True); sys.modules['torch'] = " \
               "types.SimpleNamespace(cuda=cuda); "
        self.assertEqual(self.queues(late), ["32", "True"])

    def test_who_comes_late_is_told(self):
        from larder import _torch

        _torch.check_queues()  # says nothing
        _torch._few_queues = True
        try:
            with self.assertWarnsRegex(larder.LarderWarning, "CUDA_DEVICE_MAX_CONNECTIONS=32"):
                _torch.check_queues()
        finally:
            _torch._few_queues = False


class Memorised(unittest.TestCase):
    """Losses of fresh samples beside those of reused ones, also where nothing in the recipe listens."""

    class Student:
        """Costs 3 on what it has not seen for an epoch, else 1."""

        def __init__(self, n=1000):
            self.last, self.seen, self.n = {}, 0, n

        def loss(self, served):
            out = [1.0 if self.seen - self.last.get(i, -10 * self.n) <= self.n else 3.0 for i in served]
            self.last.update((i, self.seen) for i in served)
            self.seen += len(served)
            return out

    def check(self, f):
        self.assertGreater(f["fresh_loss"], 2.8)
        self.assertLess(f["reused_loss"], 1.2)
        self.assertEqual(f["gap"], f["fresh_loss"] - f["reused_loss"])
        self.assertTrue(0 < f["fresh_reported"] < f["reused_reported"] < f["served"])

    def test_a_loader(self):
        student, told = self.Student(), {}
        with loader("rotate:h=0.7", seed=3) as l:
            for _ in range(3):
                for b in l:
                    l.report(loss=torch.tensor(student.loss(b.served.tolist())))
            self.check(l.figures(1))
            larder.log_to_tensorboard(l, unittest.mock.Mock(add_scalar=lambda *a: told.update({a[0]: a[1]})))
            self.assertGreater(told["larder/epoch/gap"], 1.6)
            self.assertGreater(told["larder/stats/loss_gap"], 1.6)
            whole = [l.figures(e) for e in range(3)]
        student = self.Student()
        with loader("rotate:h=0.7", seed=3) as l:  # saved in the middle of an epoch
            it = iter(l)
            for _ in range(9):
                l.report(loss=student.loss(next(it).served.tolist()))
            state = l.state_dict()
        with loader("rotate:h=0.7", seed=3) as l:
            l.load_state_dict(state)
            for _ in range(3):
                for b in l:
                    l.report(loss=student.loss(b.served.tolist()))
            for e in range(3):
                for name in ("fresh_reported", "reused_reported", "fresh_loss", "gap"):
                    self.assertEqual(l.figures(e)[name], whole[e][name])

    def test_a_sampler(self):
        student = self.Student()
        s = larder.BatchSampler(SOURCE, 64, "rotate:h=0.7", lag=12)
        drawn = []
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(3):
                for ids in s:
                    drawn.append(student.loss(ids))
                    if len(drawn) > 4:  # workers are ahead of training
                        s.report(loss=drawn.pop(0))
        self.check(s._loader.figures(1))
        s.close()

    def test_plain_training_has_none(self):
        with loader("minio") as l:
            for b in l:
                l.report(loss=b.weight)
            f = l.figures()
            self.assertTrue(f["gap"] != f["gap"] and f["fresh_reported"] == 0)
            self.assertNotIn("loss_gap", l.stats())


class Silence(unittest.TestCase):
    """A recipe that chooses by losses and hears none says so, once."""

    def heard(self, recipe, say=None):
        with warnings.catch_warnings(record=True) as told, loader(recipe, cache="20%") as l:
            warnings.simplefilter("always")
            for _ in range(3):
                for b in l:
                    if say:
                        say(l, b)
            return [str(w.message) for w in told]

    def test_told_once(self):
        told = self.heard("rotate:h=0.8,victim=loss")
        self.assertEqual(len(told), 1, told)
        self.assertIn("rotate:h=0.8", told[0])
        self.assertIn("loader.report(loss=", told[0])

    def test_a_sampler_is_given_an_epoch(self):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            order = larder.BatchSampler(SOURCE, 64, "rotate:h=0.8,victim=loss", "20%")
            for epochs, times in ((1, 0), (2, 1)):
                for _ in range(epochs):
                    list(order)
                self.assertEqual(len(told), times)

    def test_what_is_wanted(self):
        (told,) = self.heard("spider:scoring=wait")
        self.assertIn("loader.report(embeddings=", told)

    def test_losses_do_not_say_what_is_learned(self):
        def smoothed(l, b):
            l.report(loss=numpy.full(b.n, 0.5, "float32"))

        def both(l, b):
            logits = numpy.zeros((b.n, 10), "float32")
            logits[numpy.arange(b.n), b.y] = 9
            l.report(loss=numpy.full(b.n, 0.5, "float32"), logits=logits)

        (told,) = self.heard("rotate:h=0.8,gate=0.3", smoothed)
        self.assertIn("learned=", told)
        self.assertEqual(self.heard("rotate:h=0.8,gate=0.3", both), [])

    def test_a_tape_listens_too(self):
        with tempfile.TemporaryDirectory() as where:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                with loader("echo:factor=4", cache="20%", record=f"{where}/tape") as l:
                    for _ in range(2):
                        list(l)
            self.assertEqual([str(w.message) for w in told], [])

    def test_nobody_is_told_in_vain(self):
        def loss(l, b):
            l.report(loss=numpy.ones(b.n, "float32"))

        self.assertEqual(self.heard("rotate:h=0.8,victim=loss", loss), [])
        self.assertEqual(self.heard("rotate:h=0,victim=loss"), [], "nothing is repeated")
        self.assertEqual(self.heard("rotate:h=0.8,victim=loss,signal=none"), [], "meant so")
        self.assertEqual(self.heard("rotate:h=0.8"), [], "it does not rely on reports")
        self.assertEqual(self.heard("rotate:h=0.8,gate=off", loss), [], "it makes no use of them")
        self.assertEqual(self.heard("rotate:h=0.8,gate=0.3,learned=0.6", loss), [], "the user knows them")
        self.assertEqual(self.heard("echo:factor=4"), [], "it does not listen")


class Batches(unittest.TestCase):
    def test_epoch_is_a_permutation(self):
        with loader() as l:
            self.assertEqual(len(l), 16)
            self.assertEqual(l.samples, 1000)
            for epoch in range(2):
                ids = []
                for b in l:
                    self.assertEqual(b.epoch, epoch)
                    self.assertEqual(tuple(b.x.shape[1:]), (3, 8, 8))
                    ids += b.ids.tolist()
                self.assertEqual(sorted(ids), list(range(1000)))
            self.assertEqual(l.audit(), 0)

    def test_numpy_and_tensors_say_the_same(self):
        with loader(torch=False) as a, loader(torch=True) as b:
            for p, q in zip(a, b):
                self.assertIsInstance(p.x, numpy.ndarray)
                self.assertTrue(torch.is_tensor(q.x))
                for name in ("x", "y", "ids", "served", "weight", "kind"):
                    numpy.testing.assert_array_equal(getattr(p, name), getattr(q, name).numpy())

    def test_pair(self):
        with loader() as l:
            for x, y in l:
                self.assertEqual(len(x), len(y))
            b = next(iter(l))
            self.assertIs(b[0], b.x)
            self.assertEqual(b.to("cpu").ids.tolist(), b.ids.tolist())

    def test_batches_outlive_their_turn_and_the_loader(self):
        with loader(prefetch=2) as l:
            kept = [(b.x, b.x.clone(), b.y, b.y.clone()) for b in l]
        gc.collect()
        self.assertEqual(len(kept), 16)
        for x, x0, y, y0 in kept:
            self.assertTrue(torch.equal(x, x0) and torch.equal(y, y0))

    def test_what_is_asked_for_late(self):
        """Arrays are made when somebody asks for them: also when the loader is gone."""
        names = ("y", "ids", "served", "weight", "kind", "served_host", "labels_host")
        with loader(prefetch=2) as l:
            first = [[numpy.array(getattr(b, name)) for name in names] for b in l]
        with loader(prefetch=2) as l:
            kept = list(l)
        gc.collect()
        for b, values in zip(kept, first):
            self.assertEqual(b.n, len(values[0]))
            for name, value in zip(names, values):
                numpy.testing.assert_array_equal(numpy.asarray(getattr(b, name)), value)
                self.assertIs(getattr(b, name), getattr(b, name))
            self.assertEqual(torch.is_tensor(b.ids), True)
        with self.assertRaises(AttributeError):
            kept[0].label
        self.assertFalse(hasattr(kept[0], "z"))

    def test_copies_of_a_batch(self):
        with loader() as l:
            b = next(iter(l))
            copies = [copy.deepcopy(b), pickle.loads(pickle.dumps(b)), b.to("cpu")]
            x, ids = b.x.clone(), b.ids.tolist()
            shallow = copy.copy(b)
            self.assertIs(shallow.x, b.x)
            del b
            copies.append(shallow)
        gc.collect()
        for c in copies:
            self.assertTrue(torch.equal(c.x, x))
            self.assertEqual(c.ids.tolist(), ids)
            self.assertEqual(c.n, 64)

    def test_what_c_gave_is_not_copied(self):
        """Else the copy, as it goes, gives the memory back under the batch."""
        with loader() as l:
            b = next(iter(l))
            for wrong in (copy.copy, copy.deepcopy, pickle.dumps):
                with self.assertRaisesRegex(TypeError, "Hold has memory of larder's library, which is not copied"):
                    wrong(b._lies[0])

    def test_no_batch_leaks(self):
        with loader() as l:
            kept = list(l)
            self.assertGreater(l.stats()["batches_on_hold"], 8)
            del kept
            gc.collect()
            for b in l:
                pass
            del b
            gc.collect()
            self.assertEqual(l.stats()["batches_on_hold"], 0)

    def test_no_python_code_gives_memory_back(self):
        """A Ctrl-C that fell into it would be printed and lost."""
        called = []

        def note(frame, event, arg):
            if event == "call":
                called.append(frame.f_code)

        with loader(pin=False) as l:  # what a device may still read is Python's to know
            at = iter(l)
            kept = [next(at), next(at).x, next(at).ids]
            next(at)
            self.assertEqual(l.stats()["batches_on_hold"], 3)
            sys.setprofile(note)
            try:
                del kept
            finally:
                sys.setprofile(None)
            self.assertEqual(called, [])
            self.assertEqual(l.stats()["batches_on_hold"], 0)

    def test_memory_is_the_same_batch_again(self):
        with loader(prefetch=2) as l:
            seen = {b.x.data_ptr() for _ in range(3) for b in l}
            self.assertLessEqual(len(seen), 6)

    def test_shuffle_off(self):
        for recipe in ("minio", "rotate"):
            with loader(recipe=recipe, shuffle=False) as l:
                for _ in range(2):
                    ids = [i for b in l for i in b.ids.tolist()]
                    self.assertEqual(ids, list(range(1000)))

    def test_transform(self):
        with loader(dtype="uint8", layout="NHWC", augment=PIXELS + [lambda a: a.max()]) as l, loader(
            dtype="uint8", layout="NHWC"
        ) as plain:
            for b, p in zip(l, plain):
                self.assertEqual(b.x.tolist(), p.x.amax(dim=(1, 2, 3)).tolist())
        with self.assertRaisesRegex(ValueError, "before Python ones"):
            loader(augment=[lambda a: a, "flip"])


class Epochs(unittest.TestCase):
    def ids(self, l):
        return [b.ids.tolist() for b in l]

    def test_set_epoch(self):
        with loader() as l, loader() as m:
            want = [self.ids(l) for _ in range(4)]
            m.set_epoch(3)
            self.assertEqual(m.epoch, 3)
            self.assertEqual(self.ids(m), want[3])
            m.set_epoch(1)
            self.assertEqual(self.ids(m), want[1])
            self.assertEqual(self.ids(m), want[2])

    def test_broken_off(self):
        for recipe in kit.RECIPES:
            with self.subTest(recipe), loader(recipe) as l:
                for at in (1, 5, 15):
                    for i, b in enumerate(l):
                        if i == at:
                            break
                before = b.epoch
                n = 0
                for b in l:
                    self.assertEqual(b.epoch, before + 1)
                    n += 1
                self.assertEqual(n, len(l))
                if recipe in ("lru", "minio", "quiver", "seneca"):
                    self.assertEqual(l.audit(), 0)

    def test_the_same_epoch_twice(self):
        with loader() as l:
            for _ in range(3):
                l.set_epoch(0)
                first = self.ids(l)
                self.assertEqual(l.audit(), 0)
                self.assertEqual(l.figures(0)["served"], 1000)
            l.set_epoch(0)
            self.assertEqual(self.ids(l), first)

    def test_older_iterator(self):
        with loader() as l:
            old = iter(l)
            next(old)
            next(iter(l))
            with self.assertRaises(larder.StateError):
                next(old)

    def test_end(self):
        with loader(epochs=1) as l:
            self.assertEqual(len(list(l)), 16)
            self.assertEqual(len(list(l)), 0)


class State(unittest.TestCase):
    def run_some(self, l, batches, start=0):
        out = []
        while len(out) < batches:
            for b in l:
                out.append((b.number, b.served.tolist(), b.x.sum().item()))
                l.report(loss=(b.served % 97).float() + b.epoch)
                if len(out) == batches:
                    break
        return out

    def test_goes_on(self):
        for recipe in kit.RECIPES:
            for at in (1, 16, 37):
                with self.subTest(f"{recipe} {at}"):
                    with loader(recipe) as l:
                        want = []
                        state = None
                        while len(want) < 60:
                            for b in l:
                                want.append((b.number, b.served.tolist(), b.x.sum().item()))
                                l.report(loss=(b.served % 97).float() + b.epoch)
                                if len(want) == at:
                                    state = l.state_dict()
                    with loader(recipe) as m:
                        m.load_state_dict(state)
                        got = []
                        while len(got) < 60 - at:
                            for b in m:
                                got.append((b.number, b.served.tolist(), b.x.sum().item()))
                                m.report(loss=(b.served % 97).float() + b.epoch)
                        self.assertEqual(got[: 60 - at], want[at:60])

    def test_set_epoch_of_a_loaded_state(self):
        with loader() as l:
            for i, b in enumerate(l):
                if i == 4:
                    state = l.state_dict()
                    break
        with loader() as m:
            m.load_state_dict(state)
            m.set_epoch(0)
            self.assertEqual(len(list(m)), 11)
            m.set_epoch(1)
            self.assertEqual(len(list(m)), 16)

    def test_not_a_state(self):
        with loader() as l, self.assertRaises(larder.FormatError):
            l.load_state_dict({"hello": 1})


class Feedback(unittest.TestCase):
    def test_late_is_in_time(self):
        """Each report acts at the same batch, whether it is given at once or as late as may be."""
        with loader("shade") as a, loader("shade") as b:
            for _ in range(3):
                last = None
                for p, q in zip(a, b):
                    self.assertEqual(p.served.tolist(), q.served.tolist())
                    a.report(loss=p.served.float())
                    if last is not None:
                        b.report(loss=last.served.float(), batch=last)
                    last = q
                b.report(loss=last.served.float(), batch=last)
            self.assertEqual(a.stats()["reports_refused"], 0)
            self.assertEqual(b.stats()["reports_refused"], 0)

    def test_one_value_a_sample(self):
        with loader("shade") as l:
            next(iter(l))
            with self.assertRaisesRegex(ValueError, "one value a sample"):
                l.report(loss=torch.tensor(1.0))

    def test_logits(self):
        with loader("shade") as a, loader("shade") as b:
            for _ in range(2):
                for p, q in zip(a, b):
                    logits = torch.sin(p.served.float()[:, None] * torch.arange(1, 11))
                    self.assertEqual(p.served.tolist(), q.served.tolist())
                    a.report(logits=logits)
                    y = p.y % 10
                    b.report(loss=torch.nn.functional.cross_entropy(logits, y, reduction="none"))

    def test_channels_last(self):
        with loader(layout="channels_last") as a, loader() as b, loader(layout="channels_last", torch=False) as c:
            for p, q, r in zip(a, b, c):
                self.assertEqual(p.x.shape, q.x.shape)
                self.assertTrue(p.x.is_contiguous(memory_format=torch.channels_last))
                self.assertTrue(torch.equal(p.x, q.x))
                self.assertTrue((r.x == q.x.numpy()).all())
        with self.assertRaisesRegex(larder.ArgumentError, "channels_last is about x"):
            loader(layout="channels_last", transform=lambda a: a)

    def test_where_to_decode(self):
        """What is for a GPU, without one."""
        with loader(decode="cpu") as a, loader() as b:
            self.assertTrue(torch.equal(next(iter(a)).x, next(iter(b)).x))
        for conf, says in ((dict(decode="gpu"), 'name it, device="cuda"'), (dict(decode="auto"), 'device="cuda"'),
                           (dict(static=True), "static=True"), (dict(decode="tpu"), '"cpu", "gpu" or "auto"')):
            with self.assertRaisesRegex(larder.ArgumentError, says):
                loader(**conf)

    def test_hook(self):
        net = torch.nn.Sequential(
            torch.nn.Flatten(), torch.nn.Linear(192, 5), torch.nn.Linear(5, 2)
        )
        with loader("spider") as l, l.feedback(net[1]):
            for x, y in l:
                net(x)
            for x, y in l:
                net(x)
            self.assertEqual(l.stats()["reports_refused"], 0)
            self.assertGreaterEqual(l.stats()["reports"], 30)

    def test_evaluator(self):
        asked = []

        def evaluate(batch):
            asked.append(batch.n)
            return batch.served.float()

        with loader("impact:warm_max=2,full_every=1", evaluator=evaluate) as l:
            for _ in range(4):
                for b in l:
                    l.report(loss=b.served.float())
            self.assertGreater(sum(asked), 0)
            self.assertEqual(sum(asked), l.stats()["evaluated"])

    def test_evaluator_that_fails(self):
        def evaluate(batch):
            raise KeyError("mine")

        with loader("impact:warm_max=2,full_every=1", evaluator=evaluate) as l:
            with self.assertRaisesRegex(KeyError, "mine"):
                for _ in range(4):
                    for b in l:
                        l.report(loss=b.served.float())


class Errors(unittest.TestCase):
    def test_kinds(self):
        with self.assertRaises(FileNotFoundError) as e:
            larder.Loader("dir:/nonexistent/photos", 4)
        self.assertIn("/nonexistent/photos", str(e.exception))
        self.assertIsInstance(e.exception, larder.Error)
        with self.assertRaisesRegex(ValueError, "no_such_recipe"):
            loader("no_such_recipe")
        with self.assertRaises(ValueError):
            loader(dtype="float64")
        with loader() as l:
            with self.assertRaises(larder.StateError):
                l.validate(0.5)
        with self.assertRaises(larder.StateError):
            next(iter(l))

    def test_bad_samples(self):
        uri = SOURCE + "&bad=3/700"
        with larder.Loader(uri, 64, recipe="lru", on_bad="skip") as l:
            served = [i for b in l for i in b.served.tolist()]
            self.assertEqual(len(served), 998)
            self.assertEqual(sorted(b["id"] for b in l.bad()), [3, 700])
            self.assertEqual(l.figures()["bad"], 2)
        with larder.Loader(uri, 64, recipe="lru") as l, self.assertRaises(larder.Error):
            list(l)


if __name__ == "__main__":
    unittest.main()
