"""Scores of `spider` worked out in tensors: the same as the slow way, pair by pair, in float64."""

import math
import unittest

import kit
from kit import larder, numpy, torch
from larder.graph import Graph

SOURCE = "mem:?n=800&h=8&w=8&c=3&classes=5"


class Twin:
    """Every pair, one after the other; docs/graph.md."""

    def __init__(self, n):
        self.x, self.label = [None] * n, [None] * n

    def enter(self, served, labels, emb):
        for i, y, e in zip(served, labels, emb):
            e = e.astype("float64")
            length = math.sqrt((e * e).sum())
            self.x[i] = e / length if length else e
            if self.label[i] is None:
                self.label[i] = y

    def counts(self, i, radius):
        same = other = 0
        near = []
        for j, x in enumerate(self.x):
            if x is None or j == i:
                continue
            d = math.sqrt(((x - self.x[i]) ** 2).sum())
            if d <= radius:
                if self.label[j] == self.label[i]:
                    same += 1
                    near.append((d, j))
                else:
                    other += 1
        return same, other, [j for _, j in sorted(near)]


def score(same, other, cap=500):
    if same + other > cap:
        same, other = same * cap / (same + other), other * cap / (same + other)
    return math.log(1 / max(1, same) + other / cap + 1)


class Scores(unittest.TestCase):
    def test_twin(self):
        rng = numpy.random.default_rng(1)
        centres = rng.normal(size=(5, 12))
        g, twin = Graph(300), Twin(300)
        for step in range(8):
            served = rng.integers(0, 300, 48).astype("uint64")
            labels = (served % 5).astype("int64")
            emb = (centres[labels] + rng.normal(size=(48, 12)) * 0.7).astype("float32")
            twin.enter(served.tolist(), labels.tolist(), emb)
            before = None if g.radius is None else float(g.radius)
            out = g.score(served, labels, torch.from_numpy(emb)).numpy()
            if before is None:
                continue
            last = {int(i): k for k, i in enumerate(served)}
            for i, k in last.items():
                same, other, near = twin.counts(i, before)
                self.assertAlmostEqual(float(out[k, 0]), score(same, other), places=5)
            for k, i in enumerate(served):
                if last[int(i)] != k:
                    self.assertTrue(math.isnan(out[k, 0]))
            words = out[:, 1:].copy().view("uint32").reshape(-1)[: 4 * 502].reshape(4, 502)
            best = max(twin.counts(i, before)[0] for i in last)
            for key, count, ids in [(int(w[0]), int(w[1]), w[2:]) for w in words]:
                same, _, near = twin.counts(key, before)
                self.assertEqual(count, same)
                self.assertEqual(sorted(ids[:count].tolist()), sorted(near))
                if count:
                    self.assertEqual(int(ids[0]), near[0])
            self.assertEqual(int(words[0][1]), best)
        self.assertGreater(float(g.radius), 0)

    def test_rows_that_are_not_finite(self):
        g = Graph(50)
        emb = torch.randn(10, 4)
        emb[3] = float("nan")
        served, labels = numpy.arange(10, dtype="uint64"), numpy.zeros(10, "int64")
        out = g.score(served, labels, emb)
        self.assertTrue(torch.isnan(out[3, 0]))
        self.assertFalse(torch.isnan(out[2, 0]))
        with self.assertRaisesRegex(ValueError, "dimensions"):
            g.score(served, labels, torch.randn(10, 5))


def train(l, epochs):
    out = []
    for _ in range(epochs):
        for b in l:
            # An embedding of the sample alone, near those of its class.
            base = torch.sin(b.served.double()[:, None] * torch.arange(1, 9)).float() * 0.4
            l.report(embeddings=base + torch.nn.functional.one_hot(b.y % 5, 8) * 1.0)
            out.append((b.ids.tolist(), b.served.tolist()))
    return out


class Through(unittest.TestCase):
    def loader(self, **more):
        return larder.Loader(
            SOURCE, 50, recipe="spider:scoring=wait", cache="20%", threads=2, **more
        )

    def test_trains_and_substitutes(self):
        with self.loader(score_on_device=True) as l:
            train(l, 4)
            self.assertEqual(l.stats()["reports_refused"], 0)
            f = l.figures(3)
            self.assertGreater(f["substitutes"], 0)
            self.assertGreater(f["hits"], 0)
        with self.loader() as l:
            train(l, 4)
            self.assertLess(abs(l.figures(3)["hits"] - f["hits"]), 250)

    def test_state(self):
        with self.loader(score_on_device=True) as l:
            train(l, 1)
            it = iter(l)
            next(it)
            state = l.state_dict()
            want = [b.ids.tolist() for b in it]
        with self.loader(score_on_device=True) as m:
            m.load_state_dict(state)
            self.assertEqual([b.ids.tolist() for b in m], want)

    def test_who_asks_for_the_engine_gets_it(self):
        with self.assertRaisesRegex(ValueError, "no scores"):
            larder.Loader(SOURCE, 50, recipe="spider:engine=exact", score_on_device=True)


if __name__ == "__main__":
    unittest.main()
