"""Ranks that are given by rank= and world= alone, in plain processes without torch.distributed: every recipe,
with caches of their own, one cache between jobs, and one cache under a name of theirs (job=), in a daemon and in
Redis. Named, they draw what one process with the whole batch would."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCE, N, GLOBAL, EPOCHS, DIM = "mem:?n=250&h=6&w=6&c=1", 250, 24, 3, 4
# Whose order follows from the seed and from what training says; and one that goes by the clock.
RECIPES = ["lru", "minio", "lfu", "fifo", "random", "sieve", "nopfs", "oracle", "whole", "app", "hilo:package=1KiB",
           "quiver", "seneca", "echo", "base", "icache", "impact", "shade", "rotate:h=0.5", "spider:scoring=wait"]
CLOCKED = ["rotate"]
# These serve every sample once an epoch whatever training says, whoever the cache belongs to.
ONCE = ["lru", "minio", "lfu", "fifo", "random", "sieve", "nopfs", "oracle", "whole", "app", "hilo:package=1KiB",
        "quiver", "seneca"]


def losses(batch):
    import numpy

    return numpy.mod(numpy.asarray(batch.served, "float64") * 0.618033 + batch.epoch * 0.1, 1).astype("float32")


def embeddings(batch):
    import numpy

    ids = numpy.asarray(batch.served, "int64")
    return numpy.stack([(ids % 40 * 31 + 7 * k) % 100 + ids % 13 * 0.1 for k in range(DIM)], 1).astype("float32")


def train(rank, world, recipe, cache, save_at=None, state=None):
    """Every batch's ids as they were served; at `save_at` batches the state that goes on from there."""
    import larder

    out, kept = [], None
    evaluator = losses if recipe == "impact" else None
    with larder.Loader(SOURCE, GLOBAL // world, recipe, cache, seed=3, rank=rank, world=world, threads=1, lag=8,
                       epochs=EPOCHS, evaluator=evaluator, torch=False) as l:
        if state is not None:
            l.load_state_dict(state)
        while True:
            before = len(out)
            for b in l:
                out.append([b.epoch, [int(i) for i in b.served]])
                l.report(loss=losses(b), embeddings=embeddings(b))
                if len(out) == save_at:
                    kept = l.state_dict()
            if len(out) == before:
                return out, kept
            l.validate(0.3 + 0.1 * b.epoch)


def worker(rank, world, cache, named, to):
    import pickle

    got = {}
    for i, recipe in enumerate(RECIPES + CLOCKED):
        text = f"{cache}&job=run{i}" if named else cache
        try:
            saves = named and recipe in ("shade", "rotate:h=0.5")
            got[recipe], state = train(rank, world, recipe, text, 20 if saves else None)
            if saves:
                rest, _ = train(rank, world, recipe, text + "b", None, state)
                got[recipe + " resumed"] = got[recipe][:20] + rest
        except Exception as e:  # told to the parent
            got[recipe] = f"{type(e).__name__}: {e}"
    with open(to, "wb") as f:
        pickle.dump((got, "torch" in sys.modules), f)


if __name__ == "__main__" and sys.argv[1:2] == ["worker"]:
    sys.path.insert(0, str(ROOT / "python"))
    os.environ.pop("LARDER_SOCKET", None)
    worker(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5] == "named", sys.argv[6])
    sys.exit(0)

import subprocess  # noqa: E402
import tempfile  # noqa: E402
import unittest  # noqa: E402
import warnings  # noqa: E402

import kit  # noqa: E402
from kit import larder  # noqa: E402
from larder._daemon import Daemon  # noqa: E402

sys.path.insert(0, str(ROOT / "tests" / "support"))
from ports import redis_server  # noqa: E402

WORLD = 2


def whole_batches(parts):
    """Row i of batch b is rank (i + b) % world's, in a short batch rank i % world's."""
    out = []
    for number, rows in enumerate(zip(*parts)):
        epochs = {e for e, _ in rows}
        assert len(epochs) == 1, "ranks are in different epochs"
        count = sum(len(ids) for _, ids in rows)
        first = number % len(rows) if count == GLOBAL else 0
        dealt = [rows[(i + first) % len(rows)][1] for i in range(count)]
        out.append([epochs.pop(), [dealt[i][i // len(rows)] for i in range(count)]])
    return out


class RankWorld(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.where = tempfile.TemporaryDirectory()
        cls.alone = {}

    @classmethod
    def tearDownClass(cls):
        cls.where.cleanup()

    def run_ranks(self, cache, named):
        paths = [f"{self.where.name}/{self.id()}.{r}" for r in range(WORLD)]
        ranks = [subprocess.Popen([sys.executable, __file__, "worker", str(r), str(WORLD), cache,
                                   "named" if named else "alone", paths[r]]) for r in range(WORLD)]
        for p in ranks:
            self.assertEqual(p.wait(600), 0)
        kept = [kit.kept(p) for p in paths]
        self.assertFalse(any(torch for _, torch in kept), "torch was loaded: then this tests something else")
        return [got for got, _ in kept]

    def whole(self, recipe):
        """What one process with the whole batch serves."""
        if recipe not in self.alone:
            self.alone[recipe] = train(0, 1, recipe, "30%")[0]
        return self.alone[recipe]

    def check(self, got, together):
        for recipe in RECIPES + CLOCKED:
            with self.subTest(recipe):
                parts = [g[recipe] for g in got]
                self.assertFalse([p for p in parts if isinstance(p, str)])
                self.assertEqual(len({len(p) for p in parts}), 1)
                if together and recipe in RECIPES:
                    self.assertEqual(whole_batches(parts), self.whole(recipe))
                    for rest in [k for k in got[0] if k == recipe + " resumed"]:
                        self.assertEqual(whole_batches([g[rest] for g in got]), self.whole(recipe))
                for epoch in range(EPOCHS if recipe in ONCE else 0):
                    ids = sorted(i for p in parts for e, row in p if e == epoch for i in row)
                    self.assertEqual(ids, list(range(N)))

    def test_each_its_own(self):
        self.check(self.run_ranks("30%", False), False)

    def test_those_that_hear_nothing_are_told(self):
        for recipe, cache, told in (("shade", "30%", 1), ("minio", "30%", 0), ("shade", self.daemon() + "&job=x", 0)):
            with self.subTest(recipe, cache=cache), warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                larder.Loader(SOURCE, 12, recipe, cache, rank=0, world=2, torch=False).close()
                self.assertEqual(len([w for w in seen if "tell each other nothing" in str(w.message)]), told)

    def daemon(self):
        d = Daemon("16MiB")
        self.addCleanup(d.close)
        return f"unix:{d.socket}?budget=30%&patience=120s"

    def redis(self):
        if "-redis" in larder.features():
            self.skipTest("built without hiredis")
        server, port = redis_server(self.where.name)
        self.addCleanup(server.wait)
        self.addCleanup(server.terminate)
        return f"redis://127.0.0.1:{port}?budget=30%&timeout=30s&patience=120s"

    def test_named_in_a_daemon(self):
        self.check(self.run_ranks(self.daemon(), True), True)

    def test_named_in_redis(self):
        self.check(self.run_ranks(self.redis(), True), True)

    def test_as_jobs_of_a_daemon(self):
        self.check(self.run_ranks(self.daemon(), False), False)

    def test_own_caches_in_redis(self):
        self.check(self.run_ranks(self.redis(), False), False)


if __name__ == "__main__":
    unittest.main()
