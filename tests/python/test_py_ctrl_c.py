"""Ctrl-C wherever Python may hear it: at the beginning of every function of Python's and after every one of C's, of
the package and of what it uses. It loses no batch, skips no epoch, leaves no thread and no lock, and what it broke off
can be done again. And a handler that closes the loader there."""

import faulthandler
import sys
import threading
import unittest
import warnings

import kit
from kit import larder

SOURCE = "mem:?n=40&h=4&w=4&c=3"


class Once:
    """A Ctrl-C at the event of that number, and how many there were."""

    def __init__(self, number):
        self.number, self.seen, self.handler = number, 0, None

    def event(self, frame, what, arg):
        if what in ("call", "c_return") and frame.f_code.co_filename not in (__file__, kit.__file__):
            self.seen += 1
            if self.seen == self.number and self.handler:
                self.handler()
            elif self.seen == self.number:
                raise KeyboardInterrupt  # which ends the profile, too

    def __enter__(self):
        sys.setprofile(self.event)

    def __exit__(self, *what):
        sys.setprofile(None)


def again(call):
    """For as often as Ctrl-C breaks it off."""
    while True:
        try:
            return call()
        except KeyboardInterrupt:
            pass


class Numbers:
    def __len__(self):
        return 40

    def __getitem__(self, i):
        return i


LOADERS = dict(uri=SOURCE), dict(dataset=Numbers(), workers=0)


def loader(given, recipe="minio"):
    return larder.Loader(batch_size=10, recipe=recipe, threads=1, torch=False, **given)


class Everywhere(unittest.TestCase):
    def setUp(self):
        with loader(LOADERS[0]) as l, loader(LOADERS[1]) as m:  # what is imported the first time
            next(iter(l)), next(iter(m))
        self.opened = kit.open_loaders(self)
        faulthandler.dump_traceback_later(1100, exit=True)  # of a lock that nobody lets go of
        self.addCleanup(faulthandler.cancel_dump_traceback_later)

    def at_each(self, run, *given):
        """run(Once) for every event there is, and what it gives is what it gives undisturbed."""
        undisturbed, number, once = run(Once(0), *given), 0, None
        while once is None or once.seen >= number:
            number += 1
            once = Once(number)
            self.assertEqual(run(once, *given), undisturbed, (number, *given))
        self.assertGreater(number, 20)

    def ends(self, l):
        """In another thread, which gets no lock that is still held here."""
        if l is not None:
            other = threading.Thread(target=l.close)
            other.start()
            other.join()
            self.assertEqual((l._handle, l._own), (None, None))
        self.assertEqual(self.opened, set())

    def epochs(self, once, given):
        """The first is left in the middle, the next served to its end."""
        l, came = loader(given), []
        with once:
            for most in (2, 9):
                it = again(lambda: iter(l))
                while most:
                    try:
                        for b in it:
                            came.append(b)
                            most -= 1
                            if not most:
                                break
                        else:
                            most = 0
                    except KeyboardInterrupt:
                        pass
        served = [(b.epoch, b.served.tolist()) for b in came]
        self.ends(l)
        return served

    def test_batches(self):
        for given in LOADERS:
            self.at_each(self.epochs, given)

    def opens(self, once, given):
        l = None
        try:
            with once:
                l = loader(given)
        except KeyboardInterrupt:
            pass
        self.ends(l)

    def test_open(self):
        self.at_each(self.opens, LOADERS[1])

    def closes(self, once, given):
        l = loader(given)
        next(iter(l))
        try:
            with once:
                l.close()
        except KeyboardInterrupt:
            pass
        self.ends(l)

    def test_close(self):
        for given in LOADERS:
            self.at_each(self.closes, given)

    def states(self, once, new):
        """Into a new loader, or one in use."""
        with loader(LOADERS[0], "shade") as l:
            it = iter(l)
            for _ in range(2):
                l.report(loss=next(it).served.astype("float32"))
            state = l.state_dict()
            m = loader(LOADERS[0], "shade")
            if not new:
                next(iter(m))
            with once:
                try:
                    again(lambda: m.load_state_dict(state))
                except larder.StateError:
                    self.assertFalse(new)
                    self.assertIsNone(m._handle)  # it was open no more, and says so
                    m = loader(LOADERS[0], "shade")
                    m.load_state_dict(state)
            served = []
            for _ in range(2):
                for b in m:
                    served.append((b.epoch, b.served.tolist()))
                    m.report(loss=b.served.astype("float32"))
        self.ends(m)
        return served

    def test_states(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for new in (True, False):
                self.at_each(self.states, new)

    def handled(self, once, given, what):
        l = loader(given)
        once.handler = l.close
        next(iter(l))
        state = l.state_dict()
        with once:
            try:
                if what == "loop":
                    for _ in l:
                        pass
                elif what == "load":
                    l.load_state_dict(state)
                else:
                    l.close()
            except (larder.StateError, larder.CancelledError):
                pass
        self.ends(l)

    def test_a_handler_that_closes_it(self):
        for given in LOADERS:
            for what in ("loop", "load", "close"):
                self.at_each(self.handled, given, what)


if __name__ == "__main__":
    unittest.main()
