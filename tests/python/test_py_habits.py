"""What Lightning and Accelerate do to loaders, done here: they ask for iterators that they throw away, set
the epoch late, take exactly len(loader) batches and never look for the end, run a little validation before
training, move batches, look at classes of samplers, save states in the middle and load them with
weights_only. And what users do: tqdm, threads, pickles, two loaders, things in the wrong order."""

import copy
import io
import os
import pickle
import threading
import time
import unittest
import warnings

import kit
from kit import larder, numpy, torch
from torch.utils.data import DataLoader, DistributedSampler, SequentialSampler

SOURCE = "mem:?n=230&h=8&w=8&c=3&classes=10"
BATCH, BATCHES = 25, 10


def loader(recipe="minio", **more):
    return larder.Loader(SOURCE, BATCH, recipe=recipe, threads=2, **more)


def ids_of(batches):
    return [b.ids.tolist() for b in batches]


def epochs_of(n, recipe="minio", **more):
    with loader(recipe, **more) as l:
        return [ids_of(l) for _ in range(n)]


def fetch(l, n=None):
    """As a trainer does that knows the length: so many, and no look for the end."""
    it = iter(l)
    return [next(it).ids.tolist() for _ in range(len(l) if n is None else n)]


def saved(state):
    """Through a file, as checkpoints go."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


class Skips:
    def __init__(self, batch_sampler, n):
        self.batch_sampler, self.n = batch_sampler, n

    def __iter__(self):
        return (b for i, b in enumerate(self.batch_sampler) if i >= self.n)

    def __len__(self):
        return len(self.batch_sampler) - self.n


class Trainer(unittest.TestCase):
    def test_iterators_that_nobody_uses(self):
        want = epochs_of(2)
        with loader() as l:
            iter(l)
            iter(l)
            self.assertEqual(ids_of(l), want[0])
            iter(l)
            self.assertEqual(ids_of(l), want[1])

    def test_the_epoch_is_set_after_iter(self):
        want = epochs_of(4)
        with loader() as l:
            it = iter(l)
            l.sampler.set_epoch(3)
            self.assertEqual(ids_of(it), want[3])
            it = iter(l)
            l.set_epoch(0)
            self.assertEqual(ids_of(it), want[0])

    def test_the_end_is_never_looked_for(self):
        for recipe in ("minio", "shade", "rotate:h=0.5"):
            want = epochs_of(4, recipe)
            with loader(recipe) as l:
                self.assertEqual(fetch(l), want[0])
                self.assertEqual(fetch(l), want[1])
                l.set_epoch(2)
                self.assertEqual(fetch(l), want[2])
                self.assertEqual(ids_of(l), want[3])
        with loader() as l:
            fetch(l)
            self.assertEqual(l.figures(0)["served"], 230)
            fetch(l)
            self.assertEqual(l.audit(), 0)

    def test_a_little_validation_first(self):
        with loader() as train, loader(shuffle=False) as val:
            want = [list(range(i, min(i + BATCH, 230))) for i in range(0, 230, BATCH)]
            val.sampler.set_epoch(0)
            self.assertEqual(fetch(val, 2), want[:2])
            for epoch in range(3):
                train.sampler.set_epoch(epoch)
                fetch(train)
                val.sampler.set_epoch(epoch)
                self.assertEqual(fetch(val), want)

    def test_part_of_each_epoch(self):
        """limit_train_batches."""
        want = epochs_of(3)
        with loader() as l:
            for epoch in range(3):
                l.set_epoch(epoch)
                self.assertEqual(fetch(l, 4), want[epoch][:4])

    def test_validation_within_an_epoch(self):
        want = epochs_of(1)[0]
        with loader() as train, loader(shuffle=False) as val:
            got = []
            for i, b in enumerate(train):
                got.append(b.ids.tolist())
                if i % 3 == 2:
                    fetch(val)
            self.assertEqual(got, want)

    def test_batches_are_moved(self):
        with loader("shade") as l:
            for b in l:
                moved = b.to(torch.device("cpu"), non_blocking=True)
                self.assertIs(type(moved), larder.Batch)
                x, y = moved
                self.assertEqual((len(moved), len(x), len(y)), (2, b.n, b.n))
                self.assertIs(moved[1], y)
                l.report(loss=torch.ones(b.n), batch=moved)
            self.assertEqual(l.stats()["reports_refused"], 0)

    def test_reports_one_batch_late(self):
        """Who fetches a batch ahead says which one is meant, and all is as if it had come in time."""

        def train(l, late):
            out = []
            for _ in range(4):
                before = None
                for b in l:
                    out.append(b.ids.tolist())
                    now = before if late else b
                    if now is not None:
                        l.report(loss=now.served.float() % 7, batch=now)
                    before = b
                if late:
                    l.report(loss=before.served.float() % 7, batch=before)
            self.assertEqual(l.stats()["reports_refused"], 0)
            return out

        with loader("shade") as a, loader("shade") as b:
            self.assertEqual(train(a, False), train(b, True))

    def test_samplers_classes(self):
        with loader() as l, loader(shuffle=False) as val:
            self.assertNotIsInstance(l.sampler, SequentialSampler)
            self.assertIsInstance(val.sampler, SequentialSampler)
            self.assertEqual(len(val.sampler), 230)
            self.assertEqual(len(l.dataset), 230)
            self.assertEqual((len(l.batch_sampler), l.batch_sampler.batch_size), (BATCHES, BATCH))
            self.assertIsInstance(val.batch_sampler.sampler, SequentialSampler)
            self.assertEqual((l.batch_size, l.num_workers, l.drop_last), (BATCH, 0, False))
        alone = larder.Sampler(SOURCE)
        one = larder.Sampler(SOURCE, rank=1, world=2)
        self.assertIsInstance(alone, larder.Sampler)
        self.assertNotIsInstance(alone, DistributedSampler)
        self.assertIsInstance(one, larder.Sampler)
        self.assertIsInstance(one, DistributedSampler)  # else it would be divided once more
        with self.assertRaisesRegex(TypeError, "use_distributed_sampler=False"):
            larder.BatchSampler(SequentialSampler(range(9)), batch_size=2, drop_last=False)

    def test_a_data_loader_made_of_its_parts(self):
        """As Accelerate's skip_first_batches makes one."""
        want = epochs_of(3)
        with loader("shade") as l:
            parts = {k: getattr(l, k) for k in ("collate_fn", "num_workers", "pin_memory", "prefetch_factor")}
            made = DataLoader(l.dataset, batch_sampler=Skips(l.batch_sampler, 3), **parts)
            self.assertEqual(len(made), BATCHES - 3)
            for b in made:
                self.assertIsInstance(b, larder.Batch)
                l.report(loss=torch.ones(b.n))  # it is the batch at hand
        with loader() as l:
            made = DataLoader(l.dataset, batch_sampler=Skips(l.batch_sampler, 3), collate_fn=l.collate_fn)
            self.assertEqual(ids_of(made), want[0][3:])
            self.assertEqual(ids_of(made), want[1][3:])
            self.assertEqual(ids_of(l), want[2])
            with self.assertRaisesRegex(TypeError, "larder.Dataset"):
                l.dataset[0]
            with self.assertRaisesRegex(TypeError, "by itself"):
                l.batch_sampler.drop_last

    def test_wrapped_samplers(self):
        """Shards of whole batches, as Accelerate takes them; the epoch is set from outside or not."""
        order = larder.BatchSampler(SOURCE, BATCH, rank=0, world=1)
        for epoch in range(2):
            got = [b for i, b in enumerate(order) if i % 2 == 0] if epoch else list(order)
            self.assertEqual(got, epochs_of(2)[epoch][:: 1 + epoch])
        skipped = [b for i, b in enumerate(order) if i >= 4]  # skip_first_batches
        self.assertEqual(skipped, epochs_of(3)[2][4:])
        d = larder.Dataset(SOURCE, augment="flip", ids=True)
        again = DataLoader(d, batch_sampler=order, num_workers=1, persistent_workers=True)
        again.batch_sampler.sampler.set_epoch(0)  # where Accelerate looks
        self.assertEqual([ids.tolist() for _, _, ids in again], epochs_of(1)[0])


class Saved(unittest.TestCase):
    def test_plain_types(self):
        """Nothing that weights_only refuses, reports on their way and graphs included."""
        for recipe, conf in (("minio", {}), ("shade", {}), ("spider:scoring=wait", {}),
                             ("spider:scoring=wait", {"score_on_device": True})):
            with loader(recipe, **conf) as l:
                for _ in range(2):
                    it = iter(l)
                    for i, b in enumerate(it):
                        l.report(loss=b.served.float(), embeddings=b.x.flatten(1)[:, :8])
                        if b.epoch and i == 4:
                            break
                state = saved(l.state_dict())
                want = ids_of(it) + ids_of(l)
            with loader(recipe, **conf) as m:
                m.load_state_dict(state)
                self.assertEqual(m.epoch, 1)
                self.assertEqual(ids_of(m) + ids_of(m), want)
                self.assertEqual(len(want), 2 * BATCHES - 5)

    def test_without_tensors(self):
        with loader("shade", torch=False) as l:
            it = iter(l)
            l.report(loss=next(it).served.astype("float32"))
            state = pickle.loads(pickle.dumps(l.state_dict()))
            want = ids_of(it)
        for tensors in (False, True):  # and tensors go on from it
            with loader("shade", torch=tensors) as m:
                m.load_state_dict(state)
                self.assertEqual(ids_of(m), want)

    def test_at_every_batch(self):
        """Also after the last one, when nobody has looked for the end: then the next epoch comes."""
        want = epochs_of(3)
        for cut in range(1, 2 * BATCHES + 1):
            with loader() as l:
                fetch(l, min(cut, BATCHES))
                if cut > BATCHES:
                    fetch(l, cut - BATCHES)
                state = saved(l.state_dict())
            epoch, at = divmod(cut, BATCHES)
            with loader() as m:
                m.load_state_dict(state)
                self.assertEqual(m.epoch, epoch)
                m.sampler.set_epoch(epoch)  # changes nothing
                self.assertEqual(fetch(m, BATCHES - at), want[epoch][at:])
                again = saved(m.state_dict())
            with loader() as n:
                n.load_state_dict(again)
                self.assertEqual(n.epoch, epoch + 1)

    def test_of_the_end(self):
        """A run that is over stays over."""
        with loader(epochs=1) as l:
            fetch(l)
            state = l.state_dict()
        with loader(epochs=1) as m:
            m.load_state_dict(state)
            self.assertEqual(ids_of(m), [])

    def test_by_another_number_of_processes(self):
        """Saved at an epoch's end by two, gone on with by one: a whole epoch comes."""
        pair = [loader(rank=r, world=2) for r in range(2)]
        for l in pair:
            fetch(l)
        state = saved(pair[1].state_dict())
        with loader() as m:
            m.load_state_dict(state)
            self.assertEqual(sorted(i for b in m for i in b.ids.tolist()), list(range(230)))

    def test_not_a_state(self):
        with loader() as l:
            for wrong in ({}, None, [], {"version": 1}, {"version": 2, "larder": b""},
                          {"version": 1, "larder": torch.zeros(64, dtype=torch.uint8)}):
                with self.assertRaises((larder.Error, KeyError)):
                    l.load_state_dict(wrong)


class Users(unittest.TestCase):
    def test_tqdm(self):
        try:
            from tqdm import tqdm
        except ImportError:
            self.skipTest("no tqdm")
        out = io.StringIO()
        with loader() as l:
            bar = tqdm(l, file=out)
            self.assertEqual(bar.total, BATCHES)
            self.assertEqual(sum(len(y) for x, y in bar), 230)
        self.assertIn(f"{BATCHES}/{BATCHES}", out.getvalue())

    def test_two_loaders(self):
        with loader("shade") as a, loader("shade") as b:
            for p, q in zip(a, b):
                self.assertEqual(p.ids.tolist(), q.ids.tolist())
                a.report(loss=torch.ones(p.n))
                with self.assertRaisesRegex(larder.ArgumentError, "another loader"):
                    a.report(loss=torch.ones(q.n), batch=q)

    def test_wrong_numbers(self):
        for name, value in (("batch_size", -1), ("batch_size", 0), ("batch_size", 2.5),
                            ("batch_size", "8"), ("threads", -1), ("prefetch", -4), ("epochs", -1),
                            ("ahead", 1 << 40), ("seed", None)):
            with self.assertRaisesRegex(larder.ArgumentError, f"{name} is a whole number"):
                larder.Loader(SOURCE, **{name: value})
        for cache in ("nonsense", "-5%", "12 parsecs", "20%%", ""):
            with self.assertRaises(larder.Error, msg=cache) as e:
                larder.Loader(SOURCE, cache=cache)
            self.assertIn("cache", str(e.exception))
        for more in ({"recipe": "rotato"}, {"recipe": "rotate:g=1"}, {"augment": "flop"}, {"rank": 2, "world": 2},
                     {"rank": -1, "world": 2}, {"dtype": "float13"}, {"layout": "HCWN"}, {"on_bad": "cry"}):
            with self.assertRaises(ValueError, msg=str(more)) as e:
                larder.Loader(SOURCE, **more)
            self.assertGreater(len(str(e.exception)), 10)
        for uri in ("dir:/nonexistent", "nosuch:thing", "/nonexistent", ""):
            with self.assertRaises(larder.Error, msg=uri):
                larder.Loader(uri)

    def test_wrong_reports(self):
        with loader("shade") as l:
            for b in l:
                for wrong in (torch.ones(b.n + 1), torch.tensor(1.0), torch.ones(0), torch.ones(b.n, 2)):
                    with self.assertRaises(ValueError):
                        l.report(loss=wrong)
                with self.assertRaises((TypeError, ValueError)):
                    l.report(loss="three")
                with self.assertRaises(ValueError):
                    l.report(embeddings=torch.ones(b.n - 1, 8))
                l.report(loss=torch.ones(b.n, 1))
                l.report(loss=[0.5] * b.n)
            with self.assertRaises(larder.StateError):
                l.report(loss=torch.ones(3))

    def test_closed(self):
        l = loader("shade")
        it = iter(l)
        b = next(it)
        l.close()
        l.close()
        self.assertEqual(b.x.shape[0], BATCH)  # what was handed out stays
        for use in (lambda: next(it), lambda: iter(l), lambda: len(l), l.stats, l.state_dict, l.figures,
                    lambda: l.report(loss=torch.ones(BATCH), batch=b), lambda: l.validate(0.5),
                    lambda: l.set_epoch(1), lambda: l.samples, lambda: l.classes, l.audit, l.cancel):
            with self.assertRaisesRegex(larder.StateError, "closed"):
                use()
        self.assertIn("closed", repr(l))

    def test_pickles_and_copies(self):
        with loader() as l:
            b = next(iter(l))
            for other in (pickle.loads(pickle.dumps(b)), copy.deepcopy(b)):
                self.assertTrue(torch.equal(other.x, b.x))
                self.assertEqual(other.ids.tolist(), b.ids.tolist())
            for wrong in (pickle.dumps, copy.deepcopy):
                with self.assertRaisesRegex(TypeError, "own"):
                    wrong(l)

    def test_threads(self):
        """A loader in a thread of its own, and many that fight for one iterator: each batch goes to
        one of them."""
        got = []
        with loader() as l:
            worker = threading.Thread(target=lambda: got.extend(ids_of(l)))
            worker.start()
            worker.join()
            self.assertEqual(got, epochs_of(1)[0])
            got, it = [], iter(l)
            fighters = [threading.Thread(target=lambda: got.extend(ids_of(it))) for _ in range(3)]
            for t in fighters:
                t.start()
            for t in fighters:
                t.join()
            self.assertEqual(sorted(i for b in got for i in b), list(range(230)))

    def test_closed_while_another_thread_waits(self):
        heard = []
        l = larder.Loader("slow:latency=100s:" + SOURCE, BATCH, recipe="lru")
        began = threading.Event()

        def wait():
            it = iter(l)
            began.set()
            try:
                next(it)
            except larder.Error as e:  # cancelled, or closed already
                heard.append(e)

        t = threading.Thread(target=wait)
        t.start()
        began.wait()
        l.close()
        t.join()
        self.assertEqual(len(heard), 1)

    def test_closed_while_another_thread_looks(self):
        l = loader()
        closer = threading.Thread(target=l.close)

        class Library:
            def __getattr__(self, name, real=l._lib):
                return getattr(real, name)

            def larder_loader_stat(self, *given, real=l._lib):
                if not closer.ident:
                    closer.start()
                    while l._handle:  # until it is told that it is closed
                        time.sleep(0.001)
                return real.larder_loader_stat(*given)

        l._lib = Library()
        stats = l.stats()
        closer.join()
        self.assertEqual(stats["reports_refused"], 0)
        with self.assertRaisesRegex(larder.StateError, "closed"):
            l.stats()

    def test_closed_by_a_signal_while_it_looks(self):
        l = loader()

        class Library:
            def __getattr__(self, name, real=l._lib):
                return getattr(real, name)

            def larder_loader_stat(self, *given, real=l._lib):
                l.close()  # as a handler of a signal does, in this thread
                return real.larder_loader_stat(*given)

        l._lib = Library()
        self.assertEqual(l.stats()["reports_refused"], 0)
        with self.assertRaisesRegex(larder.StateError, "closed"):
            l.stats()

    def test_accumulated_gradients(self):
        """Several batches a step, each reported when its losses are there."""
        model = torch.nn.Linear(192, 10)
        with loader("shade", drop_last=True) as l:
            for i, b in enumerate(l):
                losses = torch.nn.functional.cross_entropy(model(b.x.flatten(1)), b.y, reduction="none")
                l.report(loss=losses)
                (losses.mean() / 4).backward()
                if i % 4 == 3:
                    model.zero_grad()
            self.assertEqual(i + 1, len(l))
            self.assertEqual(l.stats()["reports_refused"], 0)

    def test_started_as_one_of_several(self):
        """torchrun's environment, and a loader opened before init_process_group: said aloud."""
        os.environ.update(WORLD_SIZE="2", RANK="1")
        try:
            with self.assertWarnsRegex(UserWarning, "init_process_group"):
                loader().close()
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                loader(rank=1, world=2).close()
        finally:
            del os.environ["WORLD_SIZE"], os.environ["RANK"]

    def test_forked_where_cuda_is_no_more(self):
        """CUDA cannot be used in a forked child of who has used it: then memory is not pinned."""
        from unittest import mock

        with mock.patch("torch.cuda.is_available", return_value=True), mock.patch(
            "torch.cuda._is_in_bad_fork", return_value=True
        ), mock.patch("torch.cuda.init", side_effect=RuntimeError("forked")):
            with loader() as l:
                self.assertFalse(l.pin_memory)
                self.assertEqual(len(list(l)), BATCHES)

    def test_help(self):
        import pydoc

        text = pydoc.plain(pydoc.render_doc(larder))
        for word in ("Loader", "Dataset", "report", "recipe"):
            self.assertIn(word, text)
        self.assertIn("batch_size", pydoc.plain(pydoc.render_doc(larder.Loader)))


if __name__ == "__main__":
    unittest.main()
