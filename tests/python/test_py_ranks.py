"""Processes of torch.distributed with one cache, in a daemon or in Redis: recipes that look into the cache
draw what one process with the whole batch would, bit for bit, and go on so as one process or as three."""

import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

import kit
from kit import larder, numpy, torch
from larder import _lib
from larder._daemon import Daemon
import torch.distributed as dist
import torch.multiprocessing as mp

sys.path.insert(0, str(kit.ROOT / "tests" / "support"))
from ports import redis_server  # noqa: E402

SOURCE = "mem:?n=650&h=8&w=8&c=3"
GLOBAL, STEPS, MORE = 48, 33, 12
RECIPES = {"rotate": "rotate:h=0.5", "icache": "icache", "auto": "rotate"}


def loss_of(b):
    return torch.frac(b.served.double() * 0.618033 + b.epoch * 0.1).float()


def train(l, steps):
    out = []
    while len(out) < steps:
        for b in l:
            out.append((b.served.numpy().copy(), b.x.double().sum(dim=(1, 3)).numpy()))
            l.report(loss=loss_of(b))
            if len(out) == steps:
                break
    return out


def dealt(parts, number, rows):
    """Row i of the batch of all is rank (i + number) % world's, of a short one rank i % world's."""
    world, first = len(parts), number if rows == GLOBAL else 0
    return numpy.stack([parts[(i + first) % world][i // world] for i in range(rows)])


def opened(world, cache, recipe):
    return larder.Loader(SOURCE, GLOBAL // world, recipe=recipe, cache=cache, threads=1,
                         augment="crop:size=8,pad=2|flip", lag=8)


def worker(rank, world, where, cache, before):
    os.environ.pop("LARDER_SOCKET", None)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{where}/meet{world}", rank=rank, world_size=world)
    for name, recipe in RECIPES.items():
        with opened(world, cache, recipe) as l:
            if before:
                l.load_state_dict([kit.kept(f"{where}/{name}.{before}.{r}")[1] for r in range(before)])
            got = train(l, MORE if before else STEPS)
            state = l.state_dict()
            h = l.stats().get("h")
            dist.barrier()
        kit.keep((got, state, h), f"{where}/{name}.{world}.{rank}")
    dist.destroy_process_group()


class OneCache:
    """For any store: start() gives the cache's text, stop() ends it."""

    @classmethod
    def setUpClass(cls):
        cls.where = tempfile.TemporaryDirectory()
        cache = cls.start()
        for world, before in ((2, 0), (3, 2)):
            mp.start_processes(worker, (world, cls.where.name, cache, before), nprocs=world,
                               start_method="fork")

    @classmethod
    def tearDownClass(cls):
        cls.stop()
        cls.where.cleanup()

    def parts(self, name, world):
        return [kit.kept(f"{self.where.name}/{name}.{world}.{r}") for r in range(world)]

    def test_the_order_of_one_process(self):
        for name, recipe in list(RECIPES.items())[:2]:
            with self.subTest(name):
                with opened(1, "30%", recipe) as l:
                    whole = train(l, STEPS + MORE)
                for world, first, count in ((2, 0, STEPS), (3, STEPS, MORE)):
                    parts = self.parts(name, world)
                    for k in range(count):
                        for i in range(2):
                            one = whole[first + k][i]
                            numpy.testing.assert_array_equal(
                                dealt([p[0][k][i] for p in parts], first + k, len(one)), one)

    def test_reports_come_in_the_order_of_the_batch(self):
        from larder import _feedback as feedback

        for world in (2, 3, 5):
            for rows in (48, 45, 7, 2):
                for number in range(6):
                    first = number if rows == 48 else 0
                    parts = [[] for _ in range(world)]
                    for i in range(rows):
                        parts[(i + first) % world].append(i)
                    parts = [numpy.array(p or [1000]) for p in parts]  # one taken once more
                    told = feedback._joined(parts, feedback._first(number, parts, 48))
                    self.assertEqual(list(told[:rows]), list(range(rows)))
        parts = [numpy.arange(3), numpy.arange(3, 5)]  # each its own cache: in one piece
        self.assertEqual(list(feedback._joined(parts, feedback._first(7, parts, 0))), list(range(5)))

    def test_all_go_by_the_same_pace(self):
        for world in (2, 3):
            parts = self.parts("auto", world)  # that they were not is an error by itself
            self.assertIsNotNone(parts[0][2])
            self.assertEqual(len({p[2] for p in parts}), 1)


@unittest.skipUnless(dist.is_available(), "this torch has no torch.distributed")
class InRedis(OneCache, unittest.TestCase):
    @classmethod
    def start(cls):
        if "-redis" in larder.features():
            raise unittest.SkipTest("built without hiredis")
        cls.server, port = redis_server(cls.where.name)
        return f"redis://127.0.0.1:{port}?budget=30%&timeout=30s&patience=120s"

    @classmethod
    def stop(cls):
        cls.server.terminate()
        cls.server.wait()


@unittest.skipUnless(dist.is_available(), "this torch has no torch.distributed")
class InADaemon(OneCache, unittest.TestCase):
    @classmethod
    def start(cls):
        cls.daemon = Daemon("16MiB")
        return f"unix:{cls.daemon.socket}?budget=30%&patience=120s"

    @classmethod
    def stop(cls):
        cls.daemon.close()

    def test_nothing_is_left(self):
        """The memory of both jobs is given back when their last process leaves."""
        command = [_lib.program(), "serve", "--status", "--socket", self.daemon.socket]
        while True:  # the runner's time limit ends a wait in vain
            p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            status = json.loads(p.stdout) if p.returncode == 0 else None
            if status and not status["rank_jobs"]:
                break
            self.assertTrue(status or b"does not answer" in p.stderr, p.stderr)  # it may be kept from that
            time.sleep(0.05)
        self.assertEqual(status["promised_bytes"], 0)


if __name__ == "__main__":
    unittest.main()
