"""larder.Dataset, Sampler and BatchSampler in a DataLoader: fork, spawn, one cache, a killed worker."""

import os
import signal
import threading
import time
import unittest

import kit
from kit import larder, numpy, torch
from torch.utils.data import DataLoader

SOURCE = "mem:?n=600&h=8&w=8&c=3"
PIXELS = ["crop:size=8,pad=2", "flip"]


class Largest:  # can be pickled
    def __call__(self, a):
        return int(a.max())


def daemon_counts(socket):
    import json
    import subprocess

    while True:  # on a busy machine it may not come to answer for seconds
        p = subprocess.run(
            [larder._lib.program(), "serve", "--socket", socket, "--status"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        if p.returncode == 0:
            return json.loads(p.stdout)
        assert b"does not answer" in p.stderr, p.stderr


class Samples(unittest.TestCase):
    def test_by_index(self):
        d = larder.Dataset(SOURCE, augment=PIXELS)
        self.assertEqual(len(d), 600)
        x, y = d[7]
        self.assertEqual(tuple(x.shape), (3, 8, 8))
        self.assertIsInstance(y, int)
        self.assertEqual(d[-1][1], d[599][1])
        with self.assertRaises(IndexError):
            d[600]
        rows = d.__getitems__([1, 2, 3])
        self.assertEqual([r[1] for r in rows], [d[i][1] for i in (1, 2, 3)])

    def test_decoded_pictures_and_functions(self):
        d = larder.Dataset(SOURCE, transform=Largest(), ids=True)
        a, label = d.pixels(5)
        self.assertEqual(a.shape, (8, 8, 3))
        self.assertEqual(a.dtype, numpy.uint8)
        self.assertEqual(d[5], (int(a.max()), label, 5))
        self.assertEqual(len(d.bytes(5)), 192)
        plain = larder.Dataset(SOURCE)
        self.assertEqual(tuple(plain[0][0].shape), (8, 8, 3))
        self.assertEqual(larder.Dataset(SOURCE, torch=False)[0][0].tolist(), plain[0][0].tolist())

    def test_same_pixels_as_the_loader(self):
        d = larder.Dataset(SOURCE, augment="normalize:preset=cifar10")
        with larder.Loader(SOURCE, 50, augment="normalize:preset=cifar10", shuffle=False) as l:
            for b in l:
                for i, row in zip(b.ids.tolist(), b.x):
                    self.assertTrue(torch.equal(d[i][0], row))

    def test_closed_by_another_thread_in_the_middle(self):
        d = larder.Dataset(SOURCE, augment=PIXELS, torch=False)
        x = larder.Dataset(SOURCE, augment=PIXELS, torch=False)[7][0].tolist()

        def chances(n, drawn=d._chances):
            t = threading.Thread(target=d.close)
            t.start()
            t.join()
            return drawn(n)

        d._chances = chances
        self.assertEqual(d[7][0].tolist(), x)
        d.close()

    def test_what_is_wrong_is_said_at_once(self):
        with self.assertRaises(FileNotFoundError):
            larder.Dataset("dir:/nonexistent")
        with self.assertRaises(ValueError):
            larder.Dataset(SOURCE, augment="no_such_stage")


class Workers(unittest.TestCase):
    def check_epochs(self, context, persistent, workers=2):
        d = larder.Dataset(SOURCE, cache="100%", augment=PIXELS, ids=True)
        loader = DataLoader(
            d,
            50,
            shuffle=True,
            num_workers=workers,
            multiprocessing_context=context,
            persistent_workers=persistent,
        )
        for _ in range(3):
            ids = sorted(i for _, _, ids in loader for i in ids.tolist())
            self.assertEqual(ids, list(range(600)))
        self.assertTrue(d.cache.startswith("unix:"))
        status = daemon_counts(d.cache[5:].split("?")[0])
        # One cache: everything was read once, whoever read it, and found by all afterwards.
        text = str(status)
        self.assertIn("600", text)
        return d

    def test_fork(self):
        self.check_epochs("fork", False)
        self.check_epochs("fork", True)

    def test_spawn(self):
        self.check_epochs("spawn", True, workers=1)

    def test_augmentation_differs_between_epochs_and_workers(self):
        d = larder.Dataset(SOURCE, augment=PIXELS)
        first = [x for x, y in DataLoader(d, 600, num_workers=1)][0]
        again = [x for x, y in DataLoader(d, 600, num_workers=1)][0]
        self.assertFalse(torch.equal(first, again))

    def test_killed_worker(self):
        """What a killed worker held is taken back; others read on, and miss nothing."""
        d = larder.Dataset(SOURCE, cache="100%", augment=PIXELS)
        pids = []
        for _ in range(2):
            pid = os.fork()
            if pid == 0:
                while True:
                    d.__getitems__(range(600))
            pids.append(pid)
        time.sleep(0.2)
        os.kill(pids[0], signal.SIGKILL)
        os.waitpid(pids[0], 0)
        for i in range(600):
            self.assertEqual(tuple(d[i][0].shape), (3, 8, 8))
        os.kill(pids[1], signal.SIGKILL)
        os.waitpid(pids[1], 0)
        self.assertEqual(sum(len(y) for x, y in DataLoader(d, 50, num_workers=2)), 600)

    def test_daemon_ends_with_us(self):
        script = (
            "import sys, os\n"
            f"sys.path.insert(0, {str(kit.ROOT / 'python')!r})\n"
            "import larder\n"
            f"d = larder.Dataset({SOURCE!r}, shared=True)\n"
            "d[0]\n"
            "print(d.cache, flush=True)\n"
            "os.kill(os.getpid(), 9) if len(sys.argv) > 1 else None\n"
        )
        import subprocess
        import sys

        for how in ([], ["killed"]):
            out = subprocess.run([sys.executable, "-c", script] + how, stdout=subprocess.PIPE)
            socket = out.stdout.decode().strip()[5:].split("?")[0]
            gone = False
            while not gone:  # the runner's time limit ends a wait in vain
                p = subprocess.run(
                    [larder._lib.program(), "serve", "--socket", socket, "--status"],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                )
                gone = p.returncode and b"does not answer" not in p.stderr
                time.sleep(0.05)
            if how:
                import shutil

                shutil.rmtree(os.path.dirname(socket), ignore_errors=True)

    def test_daemon_ends_while_workers_live(self):
        """A forked worker has the other end of the daemon's input: its end is not waited for."""
        from larder._daemon import Daemon

        served = Daemon("1MiB")
        process = served.process
        stay, leave = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(leave)
            os.read(stay, 1)
            os._exit(0)
        os.close(stay)
        served.close()
        self.assertIn(process.returncode, (0, -signal.SIGTERM))
        os.close(leave)
        os.waitpid(pid, 0)

    def test_given_daemon(self):
        from larder._daemon import Daemon

        served = Daemon("16MiB")
        try:
            d = larder.Dataset(SOURCE, cache="unix:" + served.socket, augment=PIXELS)
            self.assertEqual(sum(len(y) for x, y in DataLoader(d, 50, num_workers=2)), 600)
            self.assertEqual(d.cache, "unix:" + served.socket)
        finally:
            served.close()


class Samplers(unittest.TestCase):
    def test_epochs(self):
        s = larder.Sampler(SOURCE)
        self.assertEqual(len(s), 600)
        first, second = list(s), list(s)
        self.assertEqual(sorted(first), list(range(600)))
        self.assertNotEqual(first, second)
        s.set_epoch(0)
        self.assertEqual(list(s), first)

    def test_shards(self):
        world = 4
        parts = [larder.BatchSampler(SOURCE, 32, rank=r, world=world) for r in range(world)]
        self.assertEqual({len(p) for p in parts}, {5})
        ids = [[b for b in p] for p in parts]
        self.assertEqual({len(p) for p in ids}, {5})
        flat = [i for p in ids for b in p for i in b]
        self.assertEqual(sorted(flat), list(range(600)))
        self.assertEqual(
            [len(larder.Sampler(SOURCE, rank=r, world=7, batch_size=50)) for r in range(7)],
            [len(list(larder.Sampler(SOURCE, rank=r, world=7, batch_size=50))) for r in range(7)],
        )

    def test_same_order_as_the_loader(self):
        s = larder.BatchSampler(SOURCE, 50, recipe="shade")
        with larder.Loader(SOURCE, 50, recipe="shade", lag=64, prefetch=1) as l:
            for _ in range(4):
                for ids, b in zip(s, l):
                    self.assertEqual(ids, b.served.tolist())
                    s.report(loss=b.served.float())
                    l.report(loss=b.served.float())

    def test_state(self):
        s = larder.BatchSampler(SOURCE, 50)
        it = iter(s)
        for _ in range(5):
            next(it)
        state = s.state_dict()
        rest = list(it)
        t = larder.BatchSampler(SOURCE, 50)
        t.load_state_dict(state)
        self.assertEqual(list(t), rest)

    def test_in_a_data_loader(self):
        d = larder.Dataset(SOURCE, augment=PIXELS, ids=True)
        s = larder.BatchSampler(SOURCE, 50, recipe="shade")
        loader = DataLoader(d, batch_sampler=s, num_workers=2)
        self.assertEqual(len(loader), 12)
        for epoch in range(3):
            s.set_epoch(epoch)
            for x, y, ids in loader:
                s.report(loss=ids.float())
        self.assertFalse(s._refused)


if __name__ == "__main__":
    unittest.main()
