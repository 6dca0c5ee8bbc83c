"""A data set and functions of one's own: the same batches whoever runs them, and no more reads than needed."""

import copy
import gc
import os
import pickle
import random
import resource
import signal
import subprocess
import sys
import tempfile
import unittest
import warnings
from collections import namedtuple

import kit

import larder
import numpy
import torch

warnings.simplefilter("error", larder.LarderWarning)  # nothing is said without need
N, BATCH = 300, 32
Pair = namedtuple("Pair", "image target")
FOLDER = tempfile.TemporaryDirectory()


class Pictures:
    """Samples that do not change: a picture, and a class."""

    def __init__(self, n=N):
        self.targets = [i % 7 for i in range(n)]
        made, self.file = tempfile.mkstemp(dir=FOLDER.name)
        os.close(made)
        self.fd = os.open(self.file, os.O_APPEND | os.O_WRONLY)

    def __len__(self):
        return len(self.targets)

    def picture(self, i):
        return (torch.arange(3 * 8 * 8, dtype=torch.float32) * (i + 1) % 251).reshape(3, 8, 8)

    def __getitem__(self, i):
        os.write(self.fd, i.to_bytes(4, "little"))
        return self.picture(i), self.targets[i]

    def raw(self, i):
        os.write(self.fd, i.to_bytes(4, "little"))
        return bytes([i % 251]) * (50 + i % 97)  # of many sizes

    @property
    def reads(self):
        return os.path.getsize(self.file) // 4


def jittered(sample):
    """Draws from all three generators."""
    x, y = sample
    return x + torch.rand(1) + random.random() + numpy.random.rand(), y


def decoded(raw, i):
    return torch.tensor(list(raw[:4])), len(raw), i


def doubled(samples):
    return {"x": torch.stack([x * 2 for x, _ in samples]), "n": len(samples), "who": [y for _, y in samples]}


def opened(ds=None, **given):
    usual = dict(dataset=Pictures() if ds is None else ds, batch_size=BATCH, seed=3, workers=2)
    return larder.Loader(**{**usual, **given})


def shown(value):
    """Anything, as something that can be compared."""
    if isinstance(value, torch.Tensor):
        return value.dtype, value.tolist()
    if isinstance(value, dict):
        return {k: shown(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [shown(v) for v in value]
    return value


def run(turns=2, **given):
    with opened(**given) as l:
        return [(b.served.tolist(), b.kind.tolist(), shown(b.data)) for _ in range(turns) for b in l]


class Batches(unittest.TestCase):
    def test_as_a_dataloader_has_them(self):
        ds = Pictures()
        with opened(ds, shuffle=False) as l:
            theirs = torch.utils.data.DataLoader(ds, BATCH)
            self.assertEqual(len(l), len(theirs))
            for b, (x, y) in zip(l, theirs):
                self.assertTrue(torch.equal(b.x, x))
                self.assertTrue(torch.equal(b.y, y))
                x2, y2 = b
                self.assertTrue(x2 is b.x and y2 is b.y)

    def test_structures(self):
        class Nested(Pictures):
            def __getitem__(self, i):
                return {"image": self.picture(i), "name": f"n{i}", "deep": [numpy.float32(i), (i, i / 2)],
                        "pair": Pair(i, torch.tensor(i)), "raw": numpy.arange(4, dtype="int16") + i, "yes": i % 2 == 0}

        ds = Nested()
        with opened(ds, shuffle=False) as l:
            for b, theirs in zip(l, torch.utils.data.DataLoader(ds, BATCH)):
                self.assertEqual(list(b.data), list(theirs))
                for k in theirs:
                    self.assertEqual(shown(b[k]), shown(theirs[k]), k)
                    self.assertEqual(shown(b.data[k]), shown(theirs[k]), k)
                self.assertEqual(b.data["pair"]._fields, ("image", "target"))

    def test_copies(self):
        class Named(Pictures):
            def __getitem__(self, i):
                return {"image": self.picture(i), "name": f"n{i}"}

        class Text(Pictures):
            def __getitem__(self, i):
                return f"n{i}"

        names = [name for name in larder.Batch.__slots__ if not name.startswith("_") and name != "owner"]
        for ds in (Pictures(), Named(), Text()):
            with opened(ds) as l:
                b = next(iter(l))
            whole = {name: shown(getattr(b, name)) for name in names if not name.endswith("_host")}
            self.assertEqual(whole["mix_weight"], 1)
            moved = b.to("cpu")
            for other in (copy.copy(b), copy.deepcopy(b), pickle.loads(pickle.dumps(b)), moved, copy.copy(moved),
                          copy.deepcopy(moved), pickle.loads(pickle.dumps(moved)), copy.copy(b).to("cpu")):
                self.assertEqual({name: shown(getattr(other, name)) for name in whole}, whole)
        with opened(Text(), device="meta") as l:
            b = next(iter(l))
            self.assertIs(b.x, b.data)
            self.assertEqual(b.y.shape, (BATCH,))

    def test_an_evaluator_gets_the_same_and_may_keep_it(self):
        class Named(Pictures):
            def __getitem__(self, i):
                return {"image": self.picture(i), "name": f"n{i}"}

        for ds in (Pictures(), Named()):
            kept = []

            def evaluate(b):
                kept.append((b, shown(b.data), b.y.tolist()))
                return b.served.float()

            with opened(ds, recipe="impact:warm_max=2,full_every=1", evaluator=evaluate) as l:
                for _ in range(3):
                    for b in l:
                        l.report(loss=b.served.float())
            self.assertGreater(len(kept), 0)
            for b, data, y in kept:
                self.assertEqual(y, [i % 7 for i in b.served.tolist()])
                self.assertEqual((shown(b.data), b.y.tolist()), (data, y))
                image = b.x if isinstance(ds[0], tuple) else b["image"]
                self.assertEqual(shown(image), shown(torch.stack([ds.picture(i) for i in b.served.tolist()])))

    def test_one_value(self):
        class Bare(Pictures):
            def __getitem__(self, i):
                return self.picture(i)

        with opened(Bare(), shuffle=False) as l:
            for b, x in zip(l, torch.utils.data.DataLoader(Bare(), BATCH)):
                self.assertTrue(torch.equal(b.x, x))
                self.assertTrue(torch.equal(b.data, x))
                self.assertEqual(b.y.tolist(), [i % 7 for i in b.ids.tolist()])

    def test_numpy(self):
        with opened(torch=False) as l:
            b = next(iter(l))
            self.assertIsInstance(b.x, numpy.ndarray)
            self.assertEqual(b.x.shape, (BATCH, 3, 8, 8))

    def test_other_objects(self):
        class Objects(Pictures):
            def __getitem__(self, i):
                return self.picture(i), {"z": complex(i, 1), "s": frozenset([i])}

        with opened(Objects()) as l:
            for b in l:
                self.assertEqual(b.data[1]["z"], [complex(i, 1) for i in b.ids.tolist()])

    def test_shapes_that_differ_are_named(self):
        class Ragged(Pictures):
            def __getitem__(self, i):
                return torch.zeros(3, 4 + (i == 77))

        with opened(Ragged(), shuffle=False) as l:
            with self.assertRaisesRegex(larder.Error, r"sample 77 \(item 77\).*3x5.*collate_fn|collate_fn.*sample 77"):
                for _ in l:
                    pass

    def test_collate_fn(self):
        ds = Pictures()
        with opened(ds, collate_fn=doubled, shuffle=False) as l:
            for b in l:
                ids = b.ids.tolist()
                self.assertEqual(b.data["n"], len(ids))
                self.assertEqual(b["who"], [i % 7 for i in ids])
                self.assertTrue(torch.equal(b.data["x"], torch.stack([ds.picture(i) * 2 for i in ids])))


class Same(unittest.TestCase):
    def test_whoever_runs_them(self):
        for more in ({}, {"transform": jittered}, {"encoded": "raw", "decode": decoded},
                     {"transform": jittered, "collate_fn": doubled}):
            with self.subTest(list(more)):
                want = run(workers=1, threads=1, inflight=1, **more)
                self.assertEqual(run(workers=3, **more), want)
                self.assertEqual(run(workers=0, **more), want)

    def test_started_otherwise(self):
        want = run(1, ds=Modest(), workers=1, transform=jittered)
        for start in ("spawn", "forkserver")[: 2 if "LARDER_LONG" in os.environ else 1]:
            self.assertEqual(run(1, ds=Modest(), workers=1, start=start, transform=jittered), want)

    def test_repeats_are_drawn_afresh(self):
        with opened(transform=jittered, cache="100%") as l:
            first, second = ({i: x.sum().item() for b in l for i, x in zip(b.ids.tolist(), b.x)} for _ in range(2))
        self.assertEqual(sorted(first), sorted(second))
        self.assertGreater(sum(first[i] != second[i] for i in first), N - 5)

    def test_chance_inside_getitem(self):
        class Noisy(Pictures):
            def __getitem__(self, i):
                return torch.rand(2), random.random()

        with self.assertWarnsRegex(larder.LarderWarning, "Noisy draws random numbers"):
            want = run(1, ds=Noisy(), workers=1, epochs=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.assertEqual(run(1, ds=Noisy(), workers=3, epochs=1), want)
            with opened(Noisy(), cache="0", prefetch=1) as l:  # else those ahead share a read
                first, second = ({i: y for b in l for i, y in zip(b.ids.tolist(), b.y.tolist())} for _ in range(2))
        self.assertGreater(sum(first[i] != second[i] for i in first), N - 5)  # drawn again where it is read again

    def test_the_program_draws_on_as_before(self):
        torch.manual_seed(1), random.seed(1), numpy.random.seed(1)
        want = torch.rand(1).item(), random.random(), numpy.random.rand()
        for workers in (0, 2):
            torch.manual_seed(1), random.seed(1), numpy.random.seed(1)
            run(1, workers=workers, transform=jittered)
            self.assertEqual((torch.rand(1).item(), random.random(), numpy.random.rand()), want)

    def test_resumed(self):
        for recipe in ("lru", "rotate:h=0.5") + ("minio", "quiver", "icache") * ("LARDER_LONG" in os.environ):
            for more in ({"transform": jittered}, {"encoded": "raw", "decode": decoded}):
                with self.subTest(recipe, more=list(more)):
                    given = dict(recipe=recipe, cache="30%", **more)
                    want = [w[::2] for w in run(3, **given)]
                    with opened(**given) as l:
                        got = []
                        for b in l:
                            got.append((b.served.tolist(), shown(b.data)))
                            if len(got) == 6:
                                break
                        state = l.state_dict()
                    with opened(workers=3, **given) as l:
                        l.load_state_dict(state)
                        for _ in range(3):
                            got += [(b.served.tolist(), shown(b.data)) for b in l]
                    self.assertEqual(got, want)

    def test_a_state_into_a_loader_in_use(self):
        with opened(transform=jittered) as l:
            it = iter(l)
            next(it), next(it)
            state = l.state_dict()
            want = [shown(b.data) for b in it]
            l.load_state_dict(state)
            self.assertEqual([shown(b.data) for b in l], want)

    def test_a_state_of_another_data_set(self):
        with opened(identity="a") as l:
            next(iter(l))
            state = l.state_dict()
        with opened(identity="b") as l, self.assertRaises(larder.Error):
            l.load_state_dict(state)

    def test_replayed(self):
        with opened(recipe="rotate", transform=jittered) as l:
            want = [b.served.tolist() for _ in range(2) for b in l]
            state = l.state_dict()
        with opened(recipe="rotate", transform=jittered, replay=state) as l:
            self.assertEqual([b.served.tolist() for _ in range(2) for b in l], want)

    def test_ranks(self):
        parts = []
        for rank in range(2):
            with opened(rank=rank, world=2) as l:
                parts += [i for b in l for i in b.served.tolist()]
        self.assertEqual(sorted(parts), list(range(N)))


class Modest:
    """For processes that are not forked: nothing of it is this process's alone."""

    def __len__(self):
        return 40

    def __getitem__(self, i):
        return torch.full((2,), float(i)), i


class Reads(unittest.TestCase):
    def test_as_many_as_the_native_loader(self):
        """FINDINGS of users: a recipe is worth nothing if the data set is read all the same."""
        n = 6000
        raw = numpy.zeros((n, 8, 8), "uint8")
        place = os.path.join(FOLDER.name, "pictures.npy")
        numpy.save(place, raw)
        native = os.path.join(FOLDER.name, "idx")
        os.makedirs(native, exist_ok=True)
        with open(os.path.join(native, "train-images-idx3-ubyte"), "wb") as f:
            f.write(b"\0\0\x08\x03" + b"".join(k.to_bytes(4, "big") for k in (n, 8, 8)) + raw.tobytes())
        with open(os.path.join(native, "train-labels-idx1-ubyte"), "wb") as f:
            f.write(b"\0\0\x08\x01" + n.to_bytes(4, "big") + bytes(i % 7 for i in range(n)))
        given = dict(recipe="rotate:h=0.5", cache="20%", seed=5, batch_size=128, epochs=4)
        with larder.Loader(f"idx:{native}", **given) as l:
            theirs = [b.served.tolist() for _ in range(4) for b in l]
            reads = sum(l.figures(e)["misses"] + l.figures(e)["background_reads"] for e in range(4))
        ds = Pictures(n)
        with opened(ds, **given) as l:
            ours = [b.served.tolist() for _ in range(4) for b in l]
            figures = [l.figures(e) for e in range(4)]
        self.assertEqual(ours, theirs)
        self.assertEqual(sum(f["served"] for f in figures), sum(map(len, ours)))
        self.assertLess(abs(ds.reads - reads), 0.01 * reads, (ds.reads, reads))
        self.assertLess(ds.reads, 0.75 * sum(map(len, ours)))

    def test_all_in_memory(self):
        ds = Pictures()
        with opened(ds, cache="64MiB") as l:
            for _ in range(3):
                for _ in l:
                    pass
        self.assertLessEqual(ds.reads, N + 32)

    def test_sizes_are_learned(self):
        """Of samples between 50 and 146 bytes about half fit, whatever the first ones came to."""
        ds = Pictures(4000)
        with opened(ds, encoded="raw", decode=decoded, cache="50%", batch_size=100) as l:
            for _ in range(3):
                for _ in l:
                    pass
            hits = l.figures(2)["hits"]
        self.assertGreater(hits, 0.42 * 4000)
        self.assertLess(hits, 0.6 * 4000)


class Trouble(unittest.TestCase):
    def test_an_error_has_its_sample_and_its_traceback(self):
        class Bad(Pictures):
            def __getitem__(self, i):
                if i == 60:
                    raise KeyError("sixty")
                return super().__getitem__(i)

        def fails(sample):
            raise ZeroDivisionError("of ours")

        for workers in (0, 2):
            with opened(Bad(), workers=workers, shuffle=False) as l, self.assertRaises(larder.FormatError) as e:
                for _ in l:
                    pass
            self.assertIn("sample 60 (item 60): KeyError: 'sixty'", str(e.exception))
            self.assertIn('raise KeyError("sixty")', str(e.exception))
            with self.assertRaises(larder.Error) as e:
                opened(workers=workers, transform=fails)
            self.assertIn("ZeroDivisionError: of ours", str(e.exception))
            self.assertIn("Traceback", str(e.exception))
            with opened(workers=workers, collate_fn=fails) as l, self.assertRaises(larder.Error) as e:
                next(iter(l))
            self.assertIn("collate_fn: ZeroDivisionError", str(e.exception))

    def test_collate_fn_fails_for_the_evaluator(self):
        """Whoever waits for a batch to look at hears of it."""
        looked = os.path.join(FOLDER.name, "looked")

        def fussy(samples):
            if os.path.exists(looked):
                raise ValueError("of ours")
            return doubled(samples)

        def evaluator(b):
            open(looked, "w").close()
            return numpy.ones(len(b.ids), numpy.float32)

        with opened(recipe="impact:eval=realtime", collate_fn=fussy, evaluator=evaluator) as l:
            for b in l:
                l.report(loss=numpy.ones(len(b.ids), numpy.float32))
            with self.assertRaisesRegex(larder.Error, "collate_fn: ValueError: of ours"):
                next(iter(l))

    def test_bad_samples_are_left_out(self):
        class Bad(Pictures):
            def __getitem__(self, i):
                if i % 100 == 60:
                    raise ValueError("no")
                return super().__getitem__(i)

        for more in ({}, {"collate_fn": doubled}):
            with opened(Bad(), on_bad="skip", **more) as l:
                ids = [i for b in l for i in b.served.tolist()]
            self.assertEqual(sorted(ids), [i for i in range(N) if i % 100 != 60])
            with opened(Bad(), on_bad="replace", **more) as l:
                ids = [i for b in l for i in b.served.tolist()]
            self.assertEqual(len(ids), N)

    def test_a_worker_that_dies(self):
        class Deadly(Pictures):
            def __getitem__(self, i):
                if i == 123:
                    os.kill(os.getpid(), signal.SIGKILL)
                if i == 223:
                    os._exit(3)
                return super().__getitem__(i)

        for at, says in ((123, "signal 9"), (223, "exit status 3")):
            class One(Deadly):
                def __getitem__(self, i, at=at):
                    return super().__getitem__(i if i == at or i not in (123, 223) else 0)

            with opened(One(), shuffle=False, on_bad="skip") as l, self.assertRaises(larder.StateError) as e:
                for _ in l:
                    pass
            self.assertIn(f"sample {at}", str(e.exception))
            self.assertIn(says, str(e.exception))

    def test_no_room_for_an_answer(self):
        def little(_):
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

        with self.assertRaisesRegex(larder.StorageError, "File too large"):
            larder.Loader(dataset=[torch.zeros(1 << 19)] * 4, batch_size=2, workers=1, worker_init_fn=little)

    def test_init_that_fails(self):
        def init(k):
            raise RuntimeError("not here")

        with self.assertRaisesRegex(larder.Error, "worker_init_fn: RuntimeError: not here"):
            opened(worker_init_fn=init)

    def test_init(self):
        class Told(Pictures):
            def __getitem__(self, i):
                return os.environ.get("LARDER_TEST_TOLD", "no"), torch.utils.data.get_worker_info().num_workers

        def init(k):
            os.environ["LARDER_TEST_TOLD"] = "yes"

        with opened(Told(), worker_init_fn=init) as l:
            x, n = next(iter(l)).data
            self.assertEqual(set(x), {"yes"})
            self.assertEqual(set(n.tolist()), {2})
        self.assertNotIn("LARDER_TEST_TOLD", os.environ)

    def test_refused(self):
        class Stream(torch.utils.data.IterableDataset):
            def __iter__(self):
                return iter(())

        for given, says in (
            (dict(dataset=Stream()), "IterableDataset"), (dict(dataset=object()), "__getitem__"),
            (dict(dataset=[]), "0 samples"), (dict(encoded="nothing"), "name of a method"),
            (dict(decode=decoded), "give both"), (dict(cache="unix:"), "memory alone"),
            (dict(cache="redis://localhost"), "memory alone"), (dict(cache="1MiB:50/50/0"), "one form"),
            (dict(augment=["flip"]), "transform="), (dict(start="thread"), "fork, spawn"), (dict(workers=-1), "workers"),
            (dict(recipe="minio:shrink=auto"), "shrink"), (dict(uri="x", dataset=Pictures()), "one of the two"),
        ):
            with self.subTest(given), self.assertRaisesRegex(larder.Error, says):
                opened(**given)
        with self.assertRaisesRegex(larder.ArgumentError, "pickle"):
            opened(Modest(), start="spawn", transform=lambda s: s)
        with self.assertRaisesRegex(TypeError, "workers=4"):
            opened(num_workers=4)
        with self.assertRaisesRegex(larder.ArgumentError, "one of the two"):
            larder.Loader()

    def test_names_and_labels(self):
        class Files(Pictures):
            def __init__(self):
                super().__init__()
                self.samples = [(f"folder/{i}.png", i % 7) for i in range(N)]

            def __getitem__(self, i):
                raise OSError(f"cannot read {i}")

        with self.assertRaisesRegex(larder.StorageError, r"sample \d+ \(folder/\d+.png\): OSError"):
            opened(Files())
        with opened(recipe="minio:sampler=uniform") as l:
            for b in l:
                self.assertEqual(b.labels_host.tolist(), [i % 7 for i in b.served.tolist()])
        subset = torch.utils.data.Subset(Pictures(), list(range(100, 150)))
        with opened(subset, shuffle=False) as l:
            self.assertEqual(next(iter(l)).labels_host.tolist(), [i % 7 for i in range(100, 132)])


class Native(unittest.TestCase):
    """Functions of one's own behind larder's stages run in workers as well."""

    def test_who_runs_them(self):
        from test_py_loader import SOURCE

        def own(a):
            return numpy.full(2, os.getpid(), "int64") + 0 * int(a.size)

        with larder.Loader(SOURCE, BATCH, transform=own, workers=2) as l:
            pids = {p for b in l for p in b.x[:, 0].tolist()}
        self.assertNotIn(os.getpid(), pids)
        with larder.Loader(SOURCE, BATCH, transform=own, workers=0) as l:
            self.assertEqual({p for b in l for p in b.x[:, 0].tolist()}, {os.getpid()})


class Others(unittest.TestCase):
    """What docs/guide/own.md shows, where it is installed."""

    def test_parquet(self):
        try:
            import pyarrow
            import pyarrow.parquet as pq
        except ImportError:
            self.skipTest("no pyarrow here")
        path = os.path.join(FOLDER.name, "rows.parquet")
        pq.write_table(pyarrow.table({"a": list(range(100)), "t": [f"row {i}" for i in range(100)]}), path)

        class Table:
            def __init__(self, path):
                self.table = pq.read_table(path, memory_map=True)

            def __len__(self):
                return self.table.num_rows

            def __getitem__(self, i):
                return {name: self.table[name][i].as_py() for name in self.table.column_names}

        with opened(Table(path)) as l:
            for b in l:
                self.assertEqual(b["t"], [f"row {i}" for i in b["a"].tolist()])

    def test_hugging_face(self):
        try:
            import datasets
        except ImportError:
            self.skipTest("no Hugging Face datasets here")
        ds = datasets.Dataset.from_dict({"a": list(range(100)), "t": [f"row {i}" for i in range(100)]})
        with opened(ds.with_format("torch")) as l:
            for b in l:
                self.assertEqual(b["t"], [f"row {i}" for i in b["a"].tolist()])


class Processes(unittest.TestCase):
    def left(self, l):
        return [p.pid for p in l._own.crew.processes]

    def gone(self, pids):
        for pid in pids:
            self.assertFalse(os.path.exists(f"/proc/{pid}"), pid)

    def test_closed(self):
        l, m = opened(), opened()
        it = iter(l)
        next(it)
        pids, others = self.left(l), self.left(m)
        l.close()  # also where those of another were forked later
        self.gone(pids)
        next(iter(m))
        del it, m
        gc.collect()
        self.gone(others)

    def test_closed_in_the_middle(self):
        class Slow(Pictures):
            def __getitem__(self, i):
                if 40 < i < 50:
                    signal.pause()
                return super().__getitem__(i)

        with opened(Slow(), shuffle=False) as l:
            pids = self.left(l)
            next(iter(l))
        self.gone(pids)

    def test_failed_to_open(self):
        class Bad(Pictures):
            def __getitem__(self, i):
                raise ValueError(os.getpid())

        with self.assertRaises(larder.Error) as e:
            opened(Bad())
        pid = str(e.exception).split("ValueError: ")[1].split()[0]
        self.assertFalse(os.path.exists(f"/proc/{pid}"))

    def ended(self, how):
        """A program of two loaders that is ended; what it started is gone with it."""
        text = (
            "import sys, os, signal; sys.path.insert(0, sys.argv[1]); import kit, larder, torch\n"
            "class D:\n"
            "    def __len__(self): return 1000\n"
            "    def __getitem__(self, i):\n"
            "        if i == 900: signal.pause()\n"
            "        return torch.zeros(3)\n"
            "ls = [larder.Loader(dataset=D(), batch_size=10, workers=2, shuffle=False, cache='0') for _ in 'ab']\n"
            "its = [iter(l) for l in ls]; [next(i) for i in its]\n"
            "print(*[p.pid for l in ls for p in l._own.crew.processes], flush=True)\n" + how
        )
        p = subprocess.Popen([sys.executable, "-c", text, os.path.dirname(__file__)], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, start_new_session=True)
        pids = [int(w) for w in p.stdout.readline().split()]
        self.assertEqual(len(pids), 4, p.stderr.read() if not pids else "")
        return p, pids

    def wait_for(self, pids):
        for pid in pids:
            try:
                fd = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            with os.fdopen(fd) as f:
                import select

                self.assertTrue(select.select([f], [], [], 60)[0], f"process {pid} is left")

    def test_killed(self):
        p, pids = self.ended("signal.pause()\n")
        p.kill()
        p.communicate()
        self.wait_for(pids)

    def test_ctrl_c(self):
        p, pids = self.ended("for b in its[0]: pass\n")
        os.killpg(p.pid, signal.SIGINT)
        out, err = p.communicate()
        self.assertIn(b"KeyboardInterrupt", err)
        self.wait_for(pids)

    def test_a_main_module_that_spawn_runs_again(self):
        path = os.path.join(FOLDER.name, "unguarded.py")
        with open(path, "w") as f:
            f.write(f"import sys; sys.path.insert(0, {str(kit.ROOT / 'python')!r}); import larder\n"
                    "larder.Loader(dataset=[1, 2], workers=1, start='spawn', torch=False)\n")
        p = subprocess.run([sys.executable, path], capture_output=True, text=True)
        self.assertNotEqual(p.returncode, 0)
        self.assertIn('below if __name__ == "__main__":', p.stderr)

    def test_ctrl_c_while_a_thread_starts(self):
        """Before the thread that opens is there, and when it is at work already."""
        for when in ("before", "after"):
            text = (
                "import sys, os, signal, _thread; sys.path.insert(0, sys.argv[1]); import kit, larder\n"
                "begun, tell = os.pipe()\n"
                "class D:\n"
                "    def __len__(self): return 1000\n"
                "    def __getitem__(self, i):\n"
                "        os.write(tell, b'.')\n"
                "        signal.pause()\n"
                "real = _thread.start_new_thread\n"
                "def start(*given):\n"
                "    if sys.argv[2] == 'after':\n"
                "        real(*given)\n"
                "        os.read(begun, 1)\n"
                "    raise KeyboardInterrupt\n"
                "_thread.start_new_thread = start\n"
                "larder.Loader(dataset=D(), workers=1)\n"
            )
            p = subprocess.run([sys.executable, "-c", text, os.path.dirname(__file__), when], capture_output=True)
            self.assertTrue(p.stderr.rstrip().endswith(b"KeyboardInterrupt"), (when, p.stderr))
            self.assertEqual(p.returncode, -signal.SIGINT)

    def test_ctrl_c_while_it_opens(self):
        text = (
            "import sys, os, signal; sys.path.insert(0, sys.argv[1]); import kit, larder\n"
            "class D:\n"
            "    def __len__(self): return 1000\n"
            "    def __getitem__(self, i):\n"
            "        os.write(1, b'%d\\n' % os.getpid())\n"
            "        signal.pause()\n"
            "larder.Loader(dataset=D(), workers=1)\n"
        )
        p = subprocess.Popen([sys.executable, "-c", text, os.path.dirname(__file__)], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, start_new_session=True)
        worker = int(p.stdout.readline())
        os.killpg(p.pid, signal.SIGINT)
        _, err = p.communicate()
        self.assertTrue(err.rstrip().endswith(b"KeyboardInterrupt"), err)
        self.assertEqual(p.returncode, -signal.SIGINT)
        self.wait_for([worker])

    def test_left_open(self):
        p, pids = self.ended("")
        p.communicate()
        self.assertEqual(p.returncode, 0)
        self.wait_for(pids)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=0, warnings=None))
