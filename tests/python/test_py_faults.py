"""What goes wrong in the middle of something and must not spoil the rest: Ctrl-C inside an evaluator and right
at an epoch's end."""

import unittest

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


if __name__ == "__main__":
    unittest.main()
