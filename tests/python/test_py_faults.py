"""What goes wrong in the middle of something and must not spoil the rest: Ctrl-C inside an evaluator, right at an
epoch's end, and while a loader opens or closes."""

import gc
import multiprocessing
import multiprocessing.util
import os
import sys
import threading
import time
import unittest
import warnings
from unittest import mock

import kit
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

    def test_it_asks_the_loader_that_calls_it(self):
        """It runs inside next(): what can be told is told, and the rest says why not; nothing waits for itself."""

        def run(asks):
            epochs, told = [], []

            def evaluate(batch):
                if asks:
                    told.append((l.epoch, len(l), l.figures(0)["served"], l.stats()["evaluated"] >= 0))
                    with self.assertRaisesRegex(larder.StateError, "in the middle of its samples"):
                        l.state_dict()
                return batch.served.float()

            with larder.Loader(MANY, 8, IMPACT, evaluator=evaluate) as l:
                length = len(l)
                for _ in range(3):
                    ids = []
                    for b in l:
                        ids += b.served.tolist()
                        l.report(loss=b.served.float())
                    epochs.append(ids)
            return epochs, told, length

        undisturbed = run(False)[0]
        epochs, told, length = run(True)
        self.assertEqual(epochs, undisturbed)
        self.assertGreater(len(told), 2)
        self.assertEqual({t[1:] for t in told}, {(length, len(epochs[0]), True)})

    def test_ctrl_c_where_it_begins(self):
        """There it is for nobody to catch: C has any answer then, and training hears of it all the same."""

        def run(number):
            asked, epochs = 0, []

            def at(frame, what, _):
                nonlocal asked
                code = frame.f_code
                if what == "call" and (code.co_name, code.co_filename) == ("call", larder._heard.__file__):
                    asked += 1
                    if asked == number:
                        raise KeyboardInterrupt

            with larder.Loader(MANY, 8, IMPACT, evaluator=lambda b: b.served.float()) as l:
                for _ in range(4):
                    it = iter(l)
                    while True:
                        try:
                            sys.setprofile(at)
                            b = next(it)
                        except StopIteration:
                            break
                        except KeyboardInterrupt:
                            self.assertEqual(asked, number)
                            number = 0
                            continue
                        finally:
                            sys.setprofile(None)
                        epochs.append(b.epoch)
                        l.report(loss=b.served.float())
                self.assertEqual(number, 0)
                return epochs, asked

        undisturbed, asked = run(0)
        self.assertGreater(asked, 10)
        for number in (1, 5):
            self.assertEqual(run(number)[0], undisturbed)

    def test_ctrl_c_right_after_it_was_set(self):
        """The library has it then, so it stays."""
        asked = []
        with larder.Loader(MANY, 8, IMPACT) as l:
            with mock.patch.object(l._lib, "larder_loader_evaluator", interrupted(l._lib.larder_loader_evaluator)):
                with self.assertRaises(KeyboardInterrupt):
                    l.set_evaluator(lambda b: asked.append(b.n) or b.served.float())
            self.assertIsNotNone(l._evaluator)
            with self.assertRaises(larder.StateError):
                l.set_evaluator(lambda b: None)
            for _ in range(4):
                for b in l:
                    l.report(loss=b.served.float())
        self.assertGreater(len(asked), 10)

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


def two_epochs(state, recipe):
    with larder.Loader(SOURCE, 50, recipe) as l:
        l.load_state_dict(state)
        return [[b.epoch for b in l] for _ in range(2)]


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

    def test_a_state_that_is_saved_there(self):
        l, _ = self.interrupted()
        state = l.state_dict()
        self.assertEqual([[b.epoch for b in l] for _ in range(2)], two_epochs(state, "minio"))

    def test_a_warning_is_an_error(self):
        states = []
        with larder.Loader(SOURCE, 50, "shade") as l, warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            for epoch in range(3):
                it, numbers, said = iter(l), [], []
                while True:
                    try:
                        numbers.append(next(it).epoch)
                    except UserWarning as e:
                        said.append(str(e))
                        states.append(l.state_dict())
                    except StopIteration:
                        break
                self.assertEqual(numbers, [epoch] * 4)
                self.assertEqual(["has heard nothing" in s for s in said], [True] if epoch == 1 else [])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            self.assertEqual(two_epochs(states[0], "shade"), [[2] * 4, [3] * 4])

    def test_losses_that_are_no_numbers(self):
        """Nor is what was said about the others lost."""

        def run(how):
            served, errors = [], 0
            with larder.Loader(SOURCE, 50, "shade") as l, warnings.catch_warnings():
                warnings.simplefilter(how, UserWarning)
                for epoch in range(3):
                    it = iter(l)
                    while True:
                        try:
                            b = next(it)
                        except UserWarning as e:
                            self.assertIn("NaN", str(e))
                            errors += 1
                            continue
                        except StopIteration:
                            break
                        served.append(b.served.tolist())
                        loss = b.served.float()
                        if len(served) == 2:
                            loss[3] = float("nan")
                        l.report(loss=loss)
                return served, l.stats()["losses_not_finite"], errors

        self.assertEqual(run("ignore")[1:], (1, 0))
        self.assertEqual(run("error"), (*run("ignore")[:2], 1))

    def test_ctrl_c_just_before_the_end_is_told(self):
        l = larder.Loader(SOURCE, 50, "minio")
        for epoch in range(2):
            it = iter(l)
            self.assertEqual([next(it).epoch for _ in range(4)], [epoch] * 4)
            with mock.patch.object(l, "_note_silence", side_effect=KeyboardInterrupt):
                with self.assertRaises(KeyboardInterrupt):
                    next(it)
            self.assertEqual(list(it), [])

    def test_ctrl_c_while_it_is_noted(self):
        l = larder.Loader(SOURCE, 50, "minio")
        for epoch in range(2):
            it = iter(l)
            self.assertEqual([next(it).epoch for _ in range(4)], [epoch] * 4)
            with mock.patch.object(l, "_note_end", interrupted(l._note_end)), self.assertRaises(KeyboardInterrupt):
                next(it)
            self.assertEqual(list(it), [])


class Batches(unittest.TestCase):
    def test_one_that_came_with_ctrl_c(self):
        """Ctrl-C in a wait is heard when there is a batch: it is the next one, and none is missing."""
        with larder.Loader(SOURCE, 10, "minio") as l:
            undisturbed = [b.served.tolist() for _ in range(2) for b in l]
        for name in ("larder_loader_next", "larder_loader_hold"):
            with larder.Loader(SOURCE, 10, "minio") as l:
                came, calls, call = [], [0], getattr(l._lib, name)

                def sometimes(*args):
                    rc, calls[0] = call(*args), calls[0] + 1
                    if calls[0] % 3 == 0:
                        raise KeyboardInterrupt
                    return rc

                with mock.patch.object(l._lib, name, sometimes):
                    for _ in range(2):
                        it = iter(l)
                        while True:
                            try:
                                came.append(next(it).served.tolist())
                            except KeyboardInterrupt:
                                continue
                            except StopIteration:
                                break
                self.assertGreater(calls[0], 40)
                self.assertEqual(came, undisturbed)

    def test_one_that_cannot_be_made(self):
        """It is not tried again for ever: the next one comes."""
        with larder.Loader(SOURCE, 50, "minio") as l:
            undisturbed = [b.served.tolist() for b in l]
        with larder.Loader(SOURCE, 50, "minio") as l:
            it = iter(l)
            with mock.patch.object(l, "_brought", side_effect=ValueError), self.assertRaises(ValueError):
                next(it)
            self.assertEqual([b.served.tolist() for b in it], undisturbed[1:])


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
        self.opened = kit.open_loaders(self)

    def nothing_is_left(self):
        self.assertEqual((self.opened, multiprocessing.active_children()), (set(), []))

    def interrupt(self, place, name, what, before=False):
        call = mock.Mock(side_effect=KeyboardInterrupt) if before else interrupted(getattr(place, name))
        with mock.patch.object(place, name, call), self.assertRaises(KeyboardInterrupt):
            what()

    def test_open(self):
        lib = larder._lib.load()
        for given in (dict(uri=SOURCE), dict(dataset=Numbers(), workers=1)):
            if "uri" in given:
                self.interrupt(lib, "larder_loader_open", lambda: larder.Loader(batch_size=5, **given))
            else:
                self.interrupt(larder._own, "fingerprint", lambda: larder.Loader(batch_size=5, **given))
            self.interrupt(larder.Loader, "_check", lambda: larder.Loader(batch_size=5, **given))
            self.interrupt(larder._lib, "about", lambda: larder.Loader(batch_size=5, **given))
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

    def test_close_while_workers_end(self):
        for place, name in ((multiprocessing.process.BaseProcess, "join"), (larder._crew, "_end")):
            l = larder.Loader(dataset=Numbers(), batch_size=5, workers=2)
            next(iter(l))
            self.interrupt(place, name, l.close, before=True)
            l.close()
            self.nothing_is_left()

    def test_a_worker_whose_end_is_not_noted(self):
        """Ctrl-C between the kernel's word that it has ended and Python's note of that: nobody is told again."""
        self.addCleanup(multiprocessing.process._children.clear)  # where that one stays
        l = larder.Loader(dataset=Numbers(), batch_size=5, workers=2)
        next(iter(l))
        self.interrupt(os, "waitpid", l.close)
        l.close()
        self.assertEqual((l._handle, l._own, self.opened), (None, None, set()))

    def test_a_loader_that_nobody_has_any_more(self):
        for given in (dict(uri=SOURCE), dict(dataset=Numbers(), workers=1)):
            l = larder.Loader(batch_size=5, **given)
            notes = [KeyboardInterrupt, []]
            with mock.patch.object(larder._lib, "notes", side_effect=notes), self.assertRaises(KeyboardInterrupt):
                l.__del__()
            self.nothing_is_left()

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

    def test_asked_by_the_data_set_itself(self):
        """In a thread of larder's, which others may wait for: a sentence, and nobody is stuck."""
        asked, opened = [], threading.Event()

        class Curious(Numbers):
            def __getitem__(self, i):
                if opened.is_set():
                    for ask in (l.state_dict, l.__len__, lambda: l.epoch, l.stats, lambda: next(iter(l))):
                        try:
                            asked.append(ask())
                        except larder.StateError as e:
                            asked.append("code of one's own" in str(e))
                return i

        with larder.Loader(dataset=Curious(), batch_size=5, workers=0, shuffle=False) as l:
            opened.set()
            self.assertEqual([sum(b.n for b in l) for _ in range(2)], [40] * 2)
        self.assertGreaterEqual(len(asked), 5 * 39)
        self.assertEqual(set(asked), {True})

    def test_a_state_while_another_is_loaded(self):
        """The thread that asks is one that whoever loads waits for."""
        asking, closing = threading.Event(), threading.Event()

        class Curious(Numbers):
            def __getitem__(self, i):
                if asking.is_set():
                    closing.wait(5)  # or until then: opening the state may want this thread, too
                    try:
                        l.state_dict()
                    except larder.StateError:
                        pass
                return i

        let_go = larder.Loader._let_go

        def slowly(*args, **given):
            closing.set()
            return let_go(*args, **given)

        with larder.Loader(dataset=Curious(), batch_size=5, workers=0, inflight=1) as l:
            it = iter(l)
            next(it)
            state = l.state_dict()
            asking.set()
            with mock.patch.object(larder.Loader, "_let_go", slowly):
                l.load_state_dict(state)
            self.assertEqual(sum(b.n for b in l), 35)

    def test_closed_by_the_data_set_itself(self):
        """And looked at afterwards, in the same thread."""
        seen, opened = [], threading.Event()

        class Closing(Numbers):
            def __getitem__(self, i):
                if i == 33:
                    opened.wait()
                    l.close()
                    try:
                        seen.append(l.epoch)
                    except larder.Error as e:
                        seen.append(e)
                return i

        l = larder.Loader(dataset=Closing(), batch_size=5, workers=0, shuffle=False)
        opened.set()
        with self.assertRaises(larder.Error):
            for _ in l:
                pass
        l.close()
        self.assertEqual(len(seen), 1)

    def test_forgotten_while_its_data_set_runs(self):
        """Python may find out about it in a thread that the loader's end waits for."""
        there, forgotten, ended = kit.open_loaders(self), threading.Event(), threading.Event()
        close, enabled = larder._lib.load().larder_loader_close, gc.isenabled()

        class Collects(Numbers):
            def __getitem__(self, i):
                if i == 33:
                    forgotten.wait()
                    gc.collect()
                return i

        def closed(handle):
            close(handle)
            ended.set()

        def leave():
            l = larder.Loader(dataset=Collects(), batch_size=5, workers=0, shuffle=False)
            l.trainer = l  # which knows its loader
            next(iter(l))

        gc.disable()
        self.addCleanup(gc.enable if enabled else gc.disable)
        with mock.patch.object(larder._lib.load(), "larder_loader_close", closed):
            leave()
            forgotten.set()
            self.assertTrue(ended.wait(60))
        self.assertEqual(there, set())

    def test_whose_code_runs(self):
        """One thread's end is not taken for the next one's."""
        here, mine, seen = object.__new__(larder._crew.Here), threading.current_thread(), []
        other_runs, over = threading.Event(), threading.Event()

        class Lock:
            def __init__(self):
                self.lock = threading.Lock()

            def __enter__(self):
                self.lock.acquire()

            def __exit__(self, *what):
                self.lock.release()
                if threading.current_thread() is mine:
                    other.start()
                    other_runs.wait()

        class Nothing:
            def put_back(self, call):
                if threading.current_thread() is not mine:
                    other_runs.set()
                    over.wait()
                    seen.append(here.inside())

        def run():
            here._answer(larder._crew.READ, list, 0, None)

        other = threading.Thread(target=run)
        here.lock, here.running, here.wrong, here.chances = Lock(), None, None, {larder._crew.READ: Nothing()}
        run()
        over.set()
        other.join()
        self.assertEqual((here.wrong, seen), (None, [True]))

    def test_a_report_beside_a_state(self):
        """What is said about a batch is not lost where another thread saves in the middle of it."""
        handed, hand_over, add = [], larder._feedback.Desk.hand_over, larder._feedback.Pending.add

        def noted(desk, handle, p, own=False):
            handed.append((p.number, sorted(p.values)))
            hand_over(desk, handle, p, own)

        def slowly(p, *args):
            if p.number == 3:
                other.start()
                other.join(0.5)  # which need not end meanwhile
            add(p, *args)

        with larder.Loader(SOURCE, 10, "icache") as l:
            other = threading.Thread(target=l.state_dict)
            with mock.patch.object(larder._feedback.Desk, "hand_over", noted), \
                 mock.patch.object(larder._feedback.Pending, "add", slowly):
                for b in l:
                    l.report(loss=b.served.float())
                other.join()
        self.assertEqual([h for h in handed if h[0] == 3], [(3, ["loss"])])

    def test_a_fork_while_another_thread_takes_a_batch(self):
        taking, over = threading.Event(), threading.Event()
        over.set()  # opening reads a sample, too

        class Waits(Numbers):
            def __getitem__(self, i):
                if not over.is_set():
                    taking.set()
                    over.wait()
                return i

        l = larder.Loader(dataset=Waits(), batch_size=5, workers=0)
        over.clear()
        other = threading.Thread(target=lambda: next(iter(l)))
        other.start()
        taking.wait()
        child = os.fork()
        if child == 0:
            try:
                l.state_dict()
            except larder.StateError:
                os._exit(7)
            finally:
                os._exit(1)
        end, status = time.monotonic() + 60, (0, 0)
        while status[0] == 0 and time.monotonic() < end:
            status = os.waitpid(child, os.WNOHANG)
            time.sleep(0.01)
        if status[0] == 0:
            os.kill(child, 9)
            os.waitpid(child, 0)
        over.set()
        other.join()
        l.close()
        self.assertEqual(status, (child, 7 << 8))

    def test_the_end_of_a_fork(self):
        """As any program ends: the workers are its parent's."""
        with larder.Loader(dataset=Numbers(), batch_size=5, workers=2, shuffle=False) as l:
            it = iter(l)
            next(it)
            child = os.fork()
            if child == 0:
                try:
                    multiprocessing.util._exit_function()
                finally:
                    os._exit(0)
            os.waitpid(child, 0)
            self.assertEqual([b.n for b in it] + [b.n for b in l], [5] * 15)
            self.assertEqual(len(multiprocessing.active_children()), 2)


class Hooked(unittest.TestCase):
    """What a layer gave, on its way to the loader."""

    def test_ctrl_c(self):
        handed, hand_over, add = [], larder._feedback.Desk.hand_over, larder._feedback.Pending.add

        def noted(desk, handle, p, own=False):
            handed.append((p.number, sorted(p.values)))
            hand_over(desk, handle, p, own)

        for how in (interrupted(add), mock.Mock(side_effect=KeyboardInterrupt)):
            handed.clear()
            with larder.Loader(SOURCE, 50, "spider:scoring=wait") as l:
                with mock.patch.object(larder._feedback.Desk, "hand_over", noted):
                    it = iter(l)
                    for k in range(4):
                        b = next(it)
                        l._hooked = b.x.reshape(b.n, -1)
                        if k == 1:
                            with mock.patch.object(larder._feedback.Pending, "add", how):
                                self.assertRaises(KeyboardInterrupt, next, it)
                    self.assertRaises(StopIteration, next, it)
                    l.state_dict()
            self.assertEqual(handed, [(k, ["embeddings"]) for k in range(4)])

    def test_others_wait_for_this_process(self):
        """One whose layer gave what cannot be reported takes part in what all tell each other."""
        begun = []

        class Exchange:
            def start(self, p):
                if p.work is None:
                    begun.append(p.number)
                    p.work = True

            def finish(self, p):
                pass

        with larder.Loader(SOURCE, 10, "spider:scoring=wait") as l:
            l._desk.exchange = Exchange()
            it = iter(l)
            for k in range(8):
                b = next(it)
                l._hooked = b.x.reshape(b.n, -1)
                if k == 3:
                    l._hooked = l._hooked[:, :0]
                    self.assertRaises(larder.ArgumentError, next, it)
            self.assertEqual(begun, list(range(len(begun))))
            self.assertGreater(len(begun), 5)


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
