"""What goes wrong in the middle of something and must not spoil the rest: Ctrl-C inside an evaluator, right at an
epoch's end, and while a loader opens or closes."""

import multiprocessing
import threading
import unittest
import warnings
from unittest import mock

from kit import larder

SOURCE = "mem:?n=200&h=8&w=8&c=3"
MANY = "mem:?n=1000&h=8&w=8&c=3"
IMPACT = "impact:warm_max=2,full_every=1"


class Evaluator(unittest.TestCase):
    def run_it(self, interrupted):
        """Which samples were served in each of five epochs, and how many were looked at."""
        asked, epochs = 0, []

        def evaluate(batch):
            nonlocal asked
            asked += 1
            if interrupted and asked in (2, 3, 7):
                raise KeyboardInterrupt
            return batch.served.float()

        with larder.Loader(MANY, 8, IMPACT, evaluator=evaluate) as l:
            while len(epochs) < 5:
                ids, it = [], iter(l)
                while True:
                    try:
                        b = next(it)
                    except StopIteration:
                        break
                    except KeyboardInterrupt:
                        self.assertTrue(interrupted)
                        with self.assertRaisesRegex(larder.StateError, "in the middle of its samples"):
                            l.state_dict()
                        continue
                    ids += b.served.tolist()
                    l.report(loss=b.served.float())
                epochs.append(ids)
            return epochs, l.stats()["evaluated"]

    def test_goes_on_with_the_batch_it_was_at(self):
        undisturbed = self.run_it(False)
        self.assertGreater(undisturbed[1], 100)
        self.assertEqual(self.run_it(True), undisturbed)

    def test_another_epoch_instead(self):
        def evaluate(batch):
            raise KeyboardInterrupt

        with larder.Loader(SOURCE, 16, IMPACT, evaluator=evaluate) as l:
            with self.assertRaises(KeyboardInterrupt):
                for _ in range(5):
                    for b in l:
                        l.report(loss=b.served.float())
            l.set_epoch(9)
            with self.assertRaises(KeyboardInterrupt):  # it is asked anew, and nothing is stuck
                next(iter(l))


class Ended:
    """The library, and a Ctrl-C right after it has said that an epoch is over."""

    def __init__(self, lib):
        self.lib, self.times = lib, 1

    def __getattr__(self, name):
        return getattr(self.lib, name)

    def larder_loader_next(self, *args):
        rc = self.lib.larder_loader_next(*args)
        if rc == larder._lib.END_EPOCH and self.times:
            self.times -= 1
            raise KeyboardInterrupt
        return rc


class EpochEnd(unittest.TestCase):
    def interrupted(self):
        l = larder.Loader(SOURCE, 50, "minio")
        l._lib = Ended(l._lib)
        it = iter(l)
        self.assertEqual([next(it).epoch for _ in range(4)], [0] * 4)
        with self.assertRaises(KeyboardInterrupt):
            next(it)
        return l, it

    def test_the_next_loop_has_the_next_number(self):
        l, _ = self.interrupted()
        self.assertEqual([b.epoch for b in l], [1] * 4)
        self.assertEqual([b.epoch for b in l], [2] * 4)

    def test_the_same_loop_is_over(self):
        l, it = self.interrupted()
        self.assertEqual(list(it), [])
        self.assertEqual([b.epoch for b in l], [1] * 4)

    def test_a_warning_is_an_error(self):
        with larder.Loader(SOURCE, 50, "shade") as l, warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            for epoch in range(3):
                it, numbers, said = iter(l), [], []
                while True:
                    try:
                        numbers.append(next(it).epoch)
                    except UserWarning as e:
                        said.append(str(e))
                    except StopIteration:
                        break
                self.assertEqual(numbers, [epoch] * 4)
                self.assertEqual(["has heard nothing" in s for s in said], [True] if epoch == 1 else [])

    def test_ctrl_c_just_before_the_end_is_told(self):
        l = larder.Loader(SOURCE, 50, "minio")
        for epoch in range(2):
            it = iter(l)
            self.assertEqual([next(it).epoch for _ in range(4)], [epoch] * 4)
            with mock.patch.object(l, "_note_silence", side_effect=KeyboardInterrupt):
                with self.assertRaises(KeyboardInterrupt):
                    next(it)
            self.assertEqual(list(it), [])


class Numbers:
    def __len__(self):
        return 40

    def __getitem__(self, i):
        return i


def interrupted(call):
    """The same, and then a Ctrl-C."""

    def both(*args):
        call(*args)
        raise KeyboardInterrupt

    return both


class OpenAndClose(unittest.TestCase):
    """Whenever Ctrl-C comes, no loader of the library's and no process is left behind."""

    def setUp(self):
        lib, self.opened = larder._lib.load(), 0
        opens, closes = lib.larder_loader_open, lib.larder_loader_close

        def opened(handle, conf):
            rc = opens(handle, conf)
            self.opened += handle._obj.value is not None
            return rc

        def closed(handle):
            self.opened -= handle._obj.value is not None
            closes(handle)

        for name, call in (("larder_loader_open", opened), ("larder_loader_close", closed)):
            patched = mock.patch.object(lib, name, call)
            patched.start()
            self.addCleanup(patched.stop)

    def nothing_is_left(self):
        self.assertEqual((self.opened, multiprocessing.active_children()), (0, []))

    def interrupt(self, place, name, what, before=False):
        call = mock.Mock(side_effect=KeyboardInterrupt) if before else interrupted(getattr(place, name))
        with mock.patch.object(place, name, call), self.assertRaises(KeyboardInterrupt):
            what()

    def test_open(self):
        lib = larder._lib.load()
        for given in (dict(uri=SOURCE), dict(dataset=Numbers(), workers=1)):
            if "uri" in given:
                self.interrupt(lib, "larder_loader_open", lambda: larder.Loader(batch_size=5, **given))
            self.interrupt(larder.Loader, "_check", lambda: larder.Loader(batch_size=5, **given))
            self.nothing_is_left()

    def test_close(self):
        for given in (dict(uri=SOURCE), dict(dataset=Numbers(), workers=1)):
            l = larder.Loader(batch_size=5, **given)
            it = iter(l)
            first = next(it).ids.tolist()
            self.interrupt(larder._lib, "notes", l.close, before=True)
            self.assertNotEqual(next(it).ids.tolist(), first)  # nothing has ended
            self.interrupt(l._lib, "larder_loader_close", l.close)
            self.nothing_is_left()
            with self.assertRaisesRegex(larder.StateError, "is closed"):
                next(it)
            l.close()

    def test_a_state_into_a_loader_in_use(self):
        for given in (dict(uri=SOURCE), dict(dataset=Numbers(), workers=1)):
            l = larder.Loader(batch_size=5, **given)
            it = iter(l)
            next(it)
            state = l.state_dict()
            rest = [b.served.tolist() for b in it]
            self.interrupt(larder._lib, "notes", lambda: l.load_state_dict(state), before=True)
            l.load_state_dict(state)
            self.assertEqual([b.served.tolist() for b in l], rest)
            self.assertTrue(l._own is None or l._own.workers == 1)
            self.interrupt(l._lib, "larder_loader_close", lambda: l.load_state_dict(state))
            self.nothing_is_left()
            l.close()


class Threads(unittest.TestCase):
    def test_a_state_beside_next(self):
        """Another thread asks for one while reports are handed over: it is that of before or after."""
        saved, wrong = [], []

        def save():
            try:
                saved.append(l.state_dict())
            except BaseException as e:
                wrong.append(e)

        other = threading.Thread(target=save)
        hand_over = larder._feedback.Desk.hand_over

        def slowly(*args):
            hand_over(*args)
            if other.ident is None:
                other.start()
                other.join(0.5)  # which need not end meanwhile

        with larder.Loader(SOURCE, 10, "icache") as l, mock.patch.object(larder._feedback.Desk, "hand_over", slowly):
            for b in l:
                l.report(loss=b.served.float())
            other.join()
            self.assertEqual(wrong, [])
            with larder.Loader(SOURCE, 10, "icache") as m:
                m.load_state_dict(saved[0])
                self.assertEqual(sum(1 for _ in m), len(m) - saved[0]["taken"] or len(m))

    def test_a_state_for_the_data_set_itself(self):
        """What reads a sample, in a thread of larder's, is not what it waits for."""
        saved, opened = [], threading.Event()

        class Curious(Numbers):
            def __getitem__(self, i):
                if i == 33:
                    opened.wait()
                    saved.append(l.state_dict())
                return i

        with larder.Loader(dataset=Curious(), batch_size=5, workers=0, shuffle=False) as l:
            opened.set()
            self.assertEqual(sum(b.n for b in l), 40)
        self.assertGreater(len(saved), 0)


class Memory(unittest.TestCase):
    """What the library has handed out is given back, though Ctrl-C comes right after it."""

    def check(self, makes, frees, what):
        lib, given = larder._lib.load(), []
        free = getattr(lib, frees)

        def freed(handle):
            value = getattr(handle, "_obj", handle).value
            if value is not None:
                given.append(value)
            free(handle)

        with mock.patch.object(lib, makes, interrupted(getattr(lib, makes))), mock.patch.object(lib, frees, freed):
            with self.assertRaises(KeyboardInterrupt):
                what()
        self.assertEqual(len(given), 1)

    def test_samples(self):
        d = larder.Dataset(SOURCE)
        for what in (lambda: d.bytes(3), lambda: d.pixels(3)):
            self.check("larder_loader_item", "larder_buf_unref", what)
        self.assertEqual(d.pixels(3)[0].size, len(d.bytes(3)))
        d.close()

    def test_states(self):
        with larder.Loader(SOURCE, 50) as l:
            self.check("larder_loader_save", "larder_free", l.state_dict)


if __name__ == "__main__":
    unittest.main()
