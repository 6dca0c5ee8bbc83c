"""What a Loader serves of which nobody named a recipe, and how a run that measured is repeated."""

import inspect
import random
import tempfile
import time
import unittest

import kit  # noqa: F401
from kit import larder

FAST = "mem:?n=300&h=8&w=8&c=3"
SLOW = "slow:iops=2000,latency=1ms,jitter=2ms:" + FAST
SLOWER = "slow:iops=330:" + FAST  # 3 ms a sample: h of rotate rises on any machine


def run(loader, epochs, doze, seed=1):
    """The ids of each batch by epoch; some steps take longer than others."""
    rng = random.Random(seed)
    out = []
    for _ in range(epochs):
        ids = []
        for b in loader:
            ids.append(b.served.tolist())
            if doze:
                time.sleep(doze * rng.random())
        out.append(ids)
    return out


class Default(unittest.TestCase):
    def test_one_default(self):
        for face in (larder.Loader, larder.Dataset, larder.BatchSampler, larder.Sampler):
            self.assertEqual(inspect.signature(face).parameters["recipe"].default, "minio", face)

    def test_order_follows_from_the_seed(self):
        with larder.Loader(FAST, 16, recipe="minio", seed=5, threads=1) as l:
            want = run(l, 3, 0)
        for epoch in want:
            self.assertEqual(sorted(i for b in epoch for i in b), list(range(300)))
        for source, threads, doze in ((FAST, 3, 0.002), (SLOW, 1, 0), (SLOW, 4, 0.002), (SLOWER, 2, 0.001)):
            with larder.Loader(source, 16, seed=5, threads=threads) as l:
                self.assertEqual(run(l, 3 if source != SLOWER else 1, doze), want[: 3 if source != SLOWER else 1])
                self.assertEqual(l.audit(), 0)


class Replay(unittest.TestCase):
    def test_a_measured_run_repeats(self):
        with tempfile.TemporaryDirectory() as where:
            tape = f"{where}/job.tape"
            with larder.Loader(SLOWER, 16, recipe="rotate", seed=5, threads=2, record=tape) as l:
                want = run(l, 3, 0.001)
                state = l.state_dict()
                self.assertGreater(l.figures(2)["repeats"], 0, "else there is nothing to repeat")
            for replay, source, threads, doze in (
                (tape, FAST, 1, 0.002), (state, SLOWER, 4, 0), (state, FAST, 3, 0)
            ):
                with larder.Loader(source, 16, recipe="rotate", seed=5, threads=threads, replay=replay) as l:
                    self.assertEqual(run(l, 3, doze, seed=2), want)
            order = larder.BatchSampler(FAST, 16, "rotate", seed=5, replay=tape)
            self.assertEqual([list(order) for _ in range(3)], want)

    def test_refused(self):
        with larder.Loader(FAST, 16, recipe="rotate", seed=5) as l:
            list(l)
            state = l.state_dict()
        with self.assertRaisesRegex(larder.Error, "another seed"):
            larder.Loader(FAST, 16, recipe="rotate", seed=6, replay=state)
        with self.assertRaisesRegex(larder.Error, "nowhere"):
            larder.Loader(FAST, 16, recipe="rotate", replay="/nowhere/at/all")
        for wrong in (7, {}, {"larder": None}):
            with self.assertRaisesRegex((larder.Error, ValueError), "replay is"):
                larder.Loader(FAST, 16, recipe="rotate", replay=wrong)


if __name__ == "__main__":
    unittest.main()
