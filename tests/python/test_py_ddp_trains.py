"""DistributedDataParallel over one cache, in a daemon or in Redis: a small network trains on as two processes
as it does as one, sample by sample; one rank is killed in mid-epoch, the job resumed, and the model that comes out
is that of one process which nobody stopped. With LARDER_LONG=1 more recipes, and four ranks."""

import os
import signal
import struct
import sys
import tempfile
import unittest

import kit
from kit import larder, numpy, torch
from larder._daemon import Daemon
import torch.distributed as dist
import torch.multiprocessing as mp

sys.path.insert(0, str(kit.ROOT / "tests" / "support"))
from ports import redis_server  # noqa: E402

LONG = "LARDER_LONG" in os.environ
SAMPLES, TESTED, SIDE, CLASSES = 720, 200, 8, 10
GLOBAL, EPOCHS, SAVED, DIES = 48, 4, 2, 5  # batch of all; saved after two epochs, killed five batches later
RECIPES = ["shade:repeat=3", "rotate:h=0.5"]
if LONG:
    RECIPES += ["impact", "seneca", "spider:scoring=wait"]


def write_pictures(folder):
    """Ten classes, a bright line each, in noise: can be learnt, not at once."""
    rng = numpy.random.default_rng(1)
    for part, n in (("train", SAMPLES), ("t10k", TESTED)):
        y = rng.integers(0, CLASSES, n).astype("u1")
        x = rng.integers(0, 256, (n, SIDE, SIDE))
        x[numpy.arange(n), y % SIDE, :] += 60 + 40 * (y // SIDE)[:, None]
        for name, head, data in (("images-idx3", (0x803, n, SIDE, SIDE), x.clip(0, 255).astype("u1")),
                                 ("labels-idx1", (0x801, n), y)):
            with open(f"{folder}/{part}-{name}-ubyte", "wb") as f:
                f.write(struct.pack(f">{len(head)}I", *head) + data.tobytes())


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.last = torch.nn.Linear(SIDE * SIDE, 24), torch.nn.Linear(24, CLASSES)

    def forward(self, x):
        h = torch.relu(self.hidden(x.flatten(1).double() - 0.5))
        return self.last(h), h


def fresh_net():
    torch.manual_seed(3)
    return Net().double()


def few_digits(t):
    """Sums of several processes differ in the last digit from that of one: not what is reported."""
    return (t.detach() * 1e4).round().float() / 1e4


def train(l, net, until, state=None, dies_at=None):
    """Trains until so many epochs are over; the ids that were served, epoch by epoch."""
    sgd = torch.optim.SGD(net.parameters(), 0.2, momentum=0.9)
    if state:
        sgd.load_state_dict(state)
    served = []
    while l.epoch < until:
        ids = []
        for b in l:
            logits, hidden = net(b.x)
            loss = torch.nn.functional.cross_entropy(logits, b.y, reduction="none")
            l.report(loss=few_digits(loss), logits=few_digits(logits), embeddings=few_digits(hidden))
            sgd.zero_grad()
            loss.mean().backward()
            sgd.step()
            ids.append(b.served.numpy().copy())
            if dies_at is not None and len(ids) == dies_at:
                os.kill(os.getpid(), signal.SIGKILL)
        served.append(ids)
    return served, sgd.state_dict()


def opened(folder, world, cache, recipe):
    return larder.Loader(folder, GLOBAL // world, recipe=recipe, cache=cache, threads=1, augment="normalize:mean=0,std=1",
                         lag=8, drop_last=True)


def figures(l, epochs):
    return [{k: f[k] for k in ("served", "hits", "substitutes", "repeats", "misses")}
            for f in (l.figures(e) for e in range(epochs))]


def rank_main(rank, world, where, cache, recipe, resumed):
    os.environ.pop("LARDER_SOCKET", None)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{where}/meet{resumed}", rank=rank, world_size=world)
    inner = fresh_net()
    kept = [kit.kept(f"{where}/saved.{r}") for r in range(world)] if resumed else None
    if kept:
        inner.load_state_dict(kept[rank]["net"])
    net = torch.nn.parallel.DistributedDataParallel(inner)
    with opened(where + "/data", world, cache, recipe) as l:
        if kept:
            l.load_state_dict([k["loader"] for k in kept])
            served, _ = train(l, net, EPOCHS, kept[rank]["sgd"])
            kit.keep({"served": served, "net": inner.state_dict()}, f"{where}/ended.{rank}")
        else:
            served, sgd = train(l, net, SAVED)
            kit.keep({"loader": l.state_dict(), "net": inner.state_dict(), "sgd": sgd, "served": served,
                      "figures": figures(l, SAVED), "late": l.stats().get("ranks_late", 0)}, f"{where}/saved.{rank}")
            dist.barrier()
            train(l, net, EPOCHS, sgd, DIES if rank == world - 1 else None)
    del net  # before its group, as in examples/ddp.py
    dist.destroy_process_group()


def dealt(parts, number):
    world = len(parts)
    return numpy.stack([parts[(i + number) % world][i // world] for i in range(GLOBAL)])


class Trained:
    """For any store: start() gives the cache's text, stop() ends it."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.where = cls.folder.name
        os.mkdir(cls.where + "/data")
        write_pictures(cls.where + "/data")
        cls.cache = cls.start()

    @classmethod
    def tearDownClass(cls):
        cls.stop()
        cls.folder.cleanup()

    def ranks(self, world, where, recipe, resumed):
        # No process that has derived beside a GPU can be forked to derive again.
        how = "spawn" if torch.cuda.is_available() else "fork"
        mp.start_processes(rank_main, (world, where, self.cache, recipe, resumed), nprocs=world, start_method=how)

    def accuracy(self, net):
        with larder.Loader(self.where + "/data?split=test", 50, recipe="minio", cache="0", threads=1,
                           augment="normalize:mean=0,std=1") as l, torch.no_grad():
            right = sum((net(b.x)[0].argmax(1) == b.y).sum().item() for b in l)
        return right / TESTED

    def check(self, world, recipe):
        where = tempfile.mkdtemp(dir=self.where)
        os.symlink(self.where + "/data", where + "/data")
        with self.assertRaises(Exception) as end:  # the last rank dies, and the others notice
            self.ranks(world, where, recipe, 0)
        self.assertIsInstance(end.exception, (mp.ProcessExitedException, mp.ProcessRaisedException))
        self.assertTrue(os.path.exists(f"{where}/saved.0"), end.exception)
        saved = [kit.kept(f"{where}/saved.{r}") for r in range(world)]
        self.ranks(world, where, recipe, 1)
        ended = [kit.kept(f"{where}/ended.{r}") for r in range(world)]
        net = fresh_net()
        with opened(self.where + "/data", 1, "30%", recipe) as l:
            whole, _ = train(l, net, EPOCHS)
            ledger = figures(l, SAVED)
        number = 0
        for e in range(EPOCHS):
            parts = [p["served"][e - SAVED if e >= SAVED else e] for p in (ended if e >= SAVED else saved)]
            for k, one in enumerate(whole[e]):
                numpy.testing.assert_array_equal(dealt([p[k] for p in parts], number), one, (recipe, e, k))
                number += 1
        self.same_ledger(ledger, saved)
        for name, weights in net.state_dict().items():
            torch.testing.assert_close(ended[0]["net"][name], weights, rtol=1e-9, atol=1e-9)
        self.assertGreater(self.accuracy(net), 0.3)  # a tenth by chance
        again = fresh_net()
        again.load_state_dict(ended[-1]["net"])
        self.assertEqual(self.accuracy(again), self.accuracy(net))

    def same_ledger(self, one, saved):
        """What is late is read: a miss of the ranks that one process would have had as a hit. A rank calls a
        repeat what it has itself served before; that the ids are those of one process was seen already."""
        late = sum(int(s["late"]) for s in saved)
        for e, f in enumerate(one):
            got = {k: sum(s["figures"][e][k] for s in saved) for k in f}
            self.assertEqual(got["served"], f["served"], e)
            self.assertLessEqual(got["repeats"], f["repeats"], e)
            self.assertLessEqual(abs(got["substitutes"] - f["substitutes"]), late, e)
            self.assertEqual(got["hits"] + got["substitutes"] + got["misses"], got["served"])
            self.assertLessEqual(got["hits"], f["hits"])
            self.assertGreaterEqual(got["hits"] + late, f["hits"])

    def test_two_ranks(self):
        for recipe in RECIPES:
            with self.subTest(recipe):
                self.check(2, recipe)

    @unittest.skipUnless(LONG, "with LARDER_LONG=1")
    def test_four_ranks(self):
        for recipe in RECIPES:
            with self.subTest(recipe):
                self.check(4, recipe)


@unittest.skipUnless(dist.is_available(), "this torch has no torch.distributed")
class InRedis(Trained, unittest.TestCase):
    @classmethod
    def start(cls):
        if "-redis" in larder.features():
            raise unittest.SkipTest("built without hiredis")
        cls.server, port = redis_server(cls.where)
        return f"redis://127.0.0.1:{port}?budget=30%&timeout=30s&patience=100s"

    @classmethod
    def stop(cls):
        cls.server.terminate()
        cls.server.wait()


@unittest.skipUnless(dist.is_available(), "this torch has no torch.distributed")
class InADaemon(Trained, unittest.TestCase):
    @classmethod
    def start(cls):
        cls.daemon = Daemon("16MiB")
        return f"unix:{cls.daemon.socket}?budget=30%&patience=100s"

    @classmethod
    def stop(cls):
        cls.daemon.close()


if __name__ == "__main__":
    unittest.main()
