"""The process around a loader: Ctrl-C, fork, spawn, memory over many epochs."""

import os
import signal
import subprocess
import sys
import textwrap
import time
import unittest

import kit
from kit import larder, torch

SOURCE = "mem:?n=2000&h=32&w=32&c=3"


def python(code, **more):
    code = f"import sys\nsys.path.insert(0, {str(kit.ROOT / 'python')!r})\n" + textwrap.dedent(code)
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more
    )


class Signals(unittest.TestCase):
    def test_ctrl_c_while_waiting(self):
        p = python(
            """
            import larder
            l = larder.Loader("slow:latency=100s:mem:?n=100&h=8&w=8&c=3", 10, recipe="lru")
            try:
                print("waits", flush=True)
                next(iter(l))
            except KeyboardInterrupt:
                l.close()
                print("interrupted", flush=True)
            """
        )
        self.assertEqual(p.stdout.readline(), b"waits\n")
        time.sleep(0.3)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=120)
        self.assertEqual((out, p.returncode), (b"interrupted\n", 0), err.decode())

    def test_goes_on_after_ctrl_c(self):
        p = python(
            """
            import larder, os, signal
            l = larder.Loader("mem:?n=100&h=8&w=8&c=3", 10, recipe="lru")
            ids = []
            it = iter(l)
            for b in it:
                ids += b.ids.tolist()
                try:
                    os.kill(os.getpid(), signal.SIGINT)
                except KeyboardInterrupt:
                    pass
            print(sorted(ids) == list(range(100)), flush=True)
            """
        )
        out, err = p.communicate(timeout=120)
        self.assertEqual(out, b"True\n", err.decode())

    def test_not_closed_at_exit(self):
        p = python(
            """
            import larder, torch
            l = larder.Loader("mem:?n=1000&h=8&w=8&c=3", 10, recipe="lru")
            kept = [b.x for b in l]
            it = iter(l)
            b = next(it)
            """
        )
        out, err = p.communicate(timeout=120)
        self.assertEqual((p.returncode, err), (0, b""))

    def test_cancel(self):
        import threading

        with larder.Loader("slow:latency=100s:" + SOURCE, 10, recipe="lru") as l:
            threading.Timer(0.2, l.cancel).start()
            with self.assertRaises(larder.CancelledError):
                next(iter(l))


class Processes(unittest.TestCase):
    def test_fork(self):
        with larder.Loader(SOURCE, 50, recipe="lru") as l:
            it = iter(l)
            b = next(it)
            before = b.x.clone()
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    try:
                        next(it)
                    except larder.StateError:
                        code = 0 if torch.equal(b.x, before) else 2
                    l.close()
                    with larder.Loader(SOURCE, 50, recipe="lru") as mine:
                        code |= 0 if len(list(mine)) == 40 else 4
                finally:
                    os._exit(code)
            _, status = os.waitpid(pid, 0)
            self.assertEqual(status, 0)
            self.assertTrue(torch.equal(b.x, before))
            self.assertEqual(sum(1 for _ in it), 39)

    def test_no_pickle(self):
        import pickle

        with larder.Loader(SOURCE, 50, recipe="lru") as l, self.assertRaisesRegex(TypeError, "Dataset"):
            pickle.dumps(l)


def pss(pids, field="Pss:"):
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/smaps_rollup") as f:
            total += next(int(line.split()[1]) for line in f if line.startswith(field))
    return total * 1024


def lent(pid):
    """Bytes of memory that a daemon lends, mapped or not; it may have some open twice."""
    fds = [fd.path for fd in os.scandir(f"/proc/{pid}/fd")]
    lent = [os.stat(fd) for fd in fds if os.readlink(fd).startswith("/memfd:larder")]
    return sum({st.st_ino: st.st_blocks * 512 for st in lent}.values())


class Memory(unittest.TestCase):
    def test_constant_over_epochs(self):
        with larder.Loader(SOURCE, 100, recipe="minio", cache="50%", augment="flip", threads=2) as l:
            sizes = []
            for _ in range(40):
                for b in l:
                    b.x.sum()
                # What is shared with other programs counts more when one of those ends: leave it out.
                sizes.append(pss([os.getpid()], "Anonymous:"))
            # What grows has grown in the least of the last epochs too; the others depend on which threads ran.
            self.assertLess(min(sizes[30:]) - min(sizes[10:20]), 4 << 20)

    def test_not_multiplied_by_workers(self):
        """All that workers and daemon map of the cache is the cache, once, however many they are."""
        from torch.utils.data import DataLoader
        from larder._daemon import _daemons

        n, each = 2000, 128 * 128 * 3
        d = larder.Dataset(f"mem:?n={n}&h=128&w=128&c=3", cache="100%", augment="flip", dtype="uint8")
        for workers in (1, 3):
            loader = DataLoader(d, 50, num_workers=workers, persistent_workers=True)
            held = mapped = epochs = 0
            # It is all there and is what they read: in the second epoch, or later where the daemon was silent for
            # seconds and workers did without it. The runner's time limit ends a wait in vain.
            while epochs < 2 or held < n * each or mapped < 0.75 * n * each:
                for x, y in loader:
                    pass
                epochs += 1
                daemons = [p.process.pid for p in _daemons.values() if p.process]
                processes = loader._iterator._workers
                pids = [w.pid for w in processes]
                # Each page counts by the share of those who map it. Of programs and their libraries that depends on
                # who else runs, of memory that is shared on nobody else.
                mapped = pss(daemons + pids, "Pss_Shmem:")
                held = sum(lent(pid) for pid in daemons)
            self.assertLess(held, 1.5 * n * each)
            self.assertLess(mapped, 1.5 * n * each)  # once, and a few batches on their way
            del loader
            for w in processes:  # what they map is shared with those to come until they are gone
                w.join()


if __name__ == "__main__":
    unittest.main()
