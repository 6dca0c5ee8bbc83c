"""Processes that train together: disjoint parts, equal batches, one table of scores; the order is the
one a single process with the whole batch would have, bit for bit."""

import os
import tempfile
import unittest
from datetime import timedelta

import kit
from kit import larder, numpy, torch
import torch.distributed as dist
import torch.multiprocessing as mp

SOURCE = "mem:?n=1000&h=8&w=8&c=3"
BATCH, EPOCHS = 32, 4


def loss_of(b):
    return torch.frac(b.served.double() * 0.618033 + b.epoch * 0.1).float()


def train(l, steps, silent=None):
    """What came, and a loss for each; stops after so many batches."""
    out = []
    while len(out) < steps:
        for b in l:
            out.append((b.number, b.served.numpy().copy(), b.x.double().sum(dim=(1, 2, 3)).numpy()))
            if silent is None or b.number % silent:
                l.report(loss=loss_of(b))
            if len(out) == steps:
                break
    return out


def worker(rank, world, where, jobs):
    os.environ.pop("LARDER_SOCKET", None)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{where}/meet", rank=rank, world_size=world)
    for name, recipe, steps in jobs:
        with larder.Loader(SOURCE, BATCH, recipe=recipe, threads=1, augment="flip", lag=8) as l:
            assert (l.rank, l.world) == (rank, world)
            got = train(l, steps)
            state = l.state_dict()
            refused = l.stats()["reports_refused"]
        kit.keep((got, state, refused), f"{where}/{name}.{rank}")
        with larder.Loader(SOURCE, BATCH, recipe=recipe, threads=1, augment="flip", lag=8) as l:
            l.load_state_dict(state)
            kit.keep(train(l, 10), f"{where}/{name}.{rank}.on")
    dist.barrier()
    dist.destroy_process_group()


# Orders that follow from seed and scores. Recipes that look at who is resident go by each process's
# own cache: shared scores, but an order of their own.
JOBS = [
    ("weighted", "lru:sampler=weighted,signal=loss", 52),
    ("ranks", "lru:sampler=weighted,signal=rank", 41),
    ("minio", "minio", 48),
]


@unittest.skipUnless(dist.is_available(), "this torch has no torch.distributed")
class TwoRanks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.where = tempfile.TemporaryDirectory()
        mp.start_processes(worker, (2, cls.where.name, JOBS), nprocs=2, start_method="fork")

    @classmethod
    def tearDownClass(cls):
        cls.where.cleanup()

    def test_the_order_of_one_process(self):
        for name, recipe, steps in JOBS:
            with self.subTest(name):
                parts = [kit.kept(f"{self.where.name}/{name}.{r}") for r in range(2)]
                self.assertEqual([p[2] for p in parts], [0, 0])
                with larder.Loader(SOURCE, 2 * BATCH, recipe=recipe, augment="flip", lag=8) as l:
                    whole = train(l, steps + 10)
                for k in range(steps):
                    a, b, one = parts[0][0][k], parts[1][0][k], whole[k]
                    self.assertEqual(a[0], one[0])
                    numpy.testing.assert_array_equal(numpy.concatenate([a[1], b[1]]), one[1])
                    numpy.testing.assert_array_equal(numpy.concatenate([a[2], b[2]]), one[2])
                goes_on = [kit.kept(f"{self.where.name}/{name}.{r}.on") for r in range(2)]
                for k in range(10):
                    a, b, one = goes_on[0][k], goes_on[1][k], whole[steps + k]
                    numpy.testing.assert_array_equal(numpy.concatenate([a[1], b[1]]), one[1])


def cut_off(rank, world, where):
    """A function of one's own fails once, in one process: that batch is lost to it, and nothing else."""
    os.environ.pop("LARDER_SOCKET", None)
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{where}/cut", rank=rank, world_size=world, timeout=timedelta(seconds=100)
    )
    calls, numbers = [0], []
    make = larder._batch.Maker.make

    def made(self, hold, s):
        calls[0] += 1
        if rank == 0 and calls[0] == 4:
            raise ValueError("mine")
        return make(self, hold, s)

    larder._batch.Maker.make = made
    recipe = "lru:sampler=weighted,signal=loss"
    with larder.Loader(SOURCE, BATCH, recipe=recipe, threads=1, lag=8) as l:
        for _ in range(2):
            batches = iter(l)
            while True:
                try:
                    b = next(batches)
                except StopIteration:
                    break
                except ValueError:
                    continue
                numbers.append(b.number)
                l.report(loss=loss_of(b))
    kit.keep(numbers, f"{where}/cut.{rank}")
    dist.destroy_process_group()


@unittest.skipUnless(dist.is_available(), "this torch has no torch.distributed")
class CutOff(unittest.TestCase):
    def test_the_others_do_not_notice(self):
        with tempfile.TemporaryDirectory() as where:
            mp.start_processes(cut_off, (2, where), nprocs=2, start_method="fork")
            zero, one = (kit.kept(f"{where}/cut.{r}") for r in range(2))
        self.assertEqual(one, list(range(len(one))))
        self.assertEqual(zero, [k for k in one if k != 3])


if __name__ == "__main__":
    unittest.main()
