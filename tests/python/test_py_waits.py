"""A loader that is opened while its daemon is away: it warns and goes on, or Ctrl-C ends the wait."""

import signal
import socket
import tempfile
import threading
import unittest
import warnings

import kit  # noqa: F401
from kit import larder

SOURCE = "mem:?n=40&h=4&w=4&c=1"


class Waits(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def opened(self, options):
        return larder.Loader(SOURCE, 8, "minio", f"unix:{self.folder.name}/s?{options}", torch=False)

    def test_goes_on_and_says_so(self):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            with self.opened("wait=0") as l:
                self.assertEqual(sorted(int(i) for b in l for i in b.served), list(range(40)))
                self.assertEqual(l.stats()["daemon_attached"], 0)
        self.assertEqual(len([w for w in seen if "without the cache" in str(w.message)]), 1)

    def test_ends_if_asked(self):
        with self.assertRaisesRegex(larder.Error, "is larder serve running there"):
            self.opened("wait=0&absent=fail")

    def test_ctrl_c_where_nobody_answers(self):
        with socket.socket(socket.AF_UNIX) as silent:
            silent.bind(f"{self.folder.name}/s")
            silent.listen(8)
            self.test_ctrl_c()

    def test_ctrl_c(self):
        timer = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
        try:
            with self.assertRaises(KeyboardInterrupt):
                timer.start()  # it may be over before the next line
                self.opened("wait=3600s")
        finally:
            timer.join()


if __name__ == "__main__":
    unittest.main()
