"""Scores of `spider` worked out in tensors: the same as the slow way, pair by pair, in float64; and, with
hubs, those of the engine in C over whole epochs."""

import math
import os
import subprocess
import unittest

import kit
from kit import larder, numpy, torch
from larder._graph import Graph

SOURCE = "mem:?n=800&h=8&w=8&c=3&classes=5"


class Twin:
    """Every pair, one after the other; docs/guide/recipes.md."""

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


def hubs_of(out, hubs=4, most=500):
    """Key, count and ids of each place for a hub; count 0: nobody."""
    words = out[:, 1:].copy().view("uint32").reshape(-1)[: hubs * (2 + most)]
    return [(int(w[0]), int(w[1]), w[2:]) for w in words.reshape(hubs, 2 + most)]


class Engine:
    """The signal `graph` in C, report by report (tool_graph.c)."""

    def __init__(self, n, spec):
        tool = os.path.join(os.environ.get("LARDER_BUILD", kit.ROOT / "build"), "tool_graph")
        if not os.path.exists(tool) and not os.environ.get("LARDER_EXPECT_FULL"):
            raise unittest.SkipTest(f"{tool} is missing: built with larder's tests")
        self.n = n
        self.process = subprocess.Popen(
            [tool, str(n), spec], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def words(self, count, dtype="uint64"):
        size = count * numpy.dtype(dtype).itemsize
        return numpy.frombuffer(self.process.stdout.read(size), dtype)

    def tell(self, epoch, served, labels, emb):
        send = self.process.stdin
        send.write(numpy.array([epoch, len(served), emb.shape[1]], "uint64").tobytes())
        for a in (served, labels, emb):
            send.write(a.tobytes())
        send.flush()
        radius, hubs = float(self.words(1, "float64")[0]), []
        for _ in range(int(self.words(1)[0])):
            key, count = (int(w) for w in self.words(2))
            hubs.append((key, self.words(count).tolist()))
        return radius, hubs, self.words(self.n, "float32")

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def ranks(a):
    out = numpy.empty(len(a))
    out[numpy.argsort(a, kind="stable")] = numpy.arange(len(a))
    return out


class AgainstTheEngine(unittest.TestCase):
    N, DIM, BATCH, EPOCHS = 2000, 32, 100, 4

    def reports(self):
        """A training whose embeddings move: classes part as epochs go by; a few rows are no numbers,
        a few ids come twice."""
        rng = numpy.random.default_rng(7)
        centres = rng.normal(size=(10, self.DIM))
        for epoch in range(self.EPOCHS):
            order = rng.permutation(self.N).astype("uint64")
            for at in range(0, self.N, self.BATCH):
                served = order[at : at + self.BATCH].copy()
                served[-3:] = served[:3]
                labels = (served % 10).astype("int64")
                emb = centres[labels] * (0.6 + 0.2 * epoch) + rng.normal(size=(len(served), self.DIM))
                if at % 400 == 0:
                    emb[5] = numpy.nan
                yield epoch, served, labels, numpy.maximum(emb, 0).astype("float32")

    def test_over_epochs(self):
        g, engine = Graph(self.N), Engine(self.N, "engine=exact")
        scores = numpy.full(self.N, numpy.nan, "float32")
        named = {}  # of each side, by epoch
        agreed = offered = lists = shared = 0
        try:
            for epoch, served, labels, emb in self.reports():
                radius, hubs, theirs = engine.tell(epoch, served, labels, emb)
                out = g.score(served, labels, torch.from_numpy(emb), epoch).numpy()
                fine = numpy.isfinite(out[:, 0])
                scores[served[fine].astype("int64")] = out[fine, 0]
                ours = [(k, ids[:c].tolist()) for k, c, ids in hubs_of(out) if c]
                for side, list_ in (("ours", ours), ("theirs", hubs)):
                    before = named.setdefault((side, epoch), set())
                    keys = {k for k, _ in list_}
                    self.assertFalse(before & keys)  # none twice in an epoch
                    self.assertEqual(len(keys), len(list_))
                    before |= keys
                offered += len(hubs)
                self.assertEqual(len(ours), len(hubs))
                for key, ids in ours:
                    for other, near in hubs:
                        if other == key:
                            agreed += 1
                            lists += max(len(ids), len(near))
                            shared += len(set(ids) & set(near))
                # Codes of eight bits move an edge here and there, and with it the radius.
                self.assertLess(abs(float(g.radius) / radius - 1), 0.03)
                known = numpy.isfinite(theirs)
                self.assertEqual(known.tolist(), numpy.isfinite(scores).tolist())
                error = numpy.abs(scores[known] - theirs[known])
                self.assertLess(error.mean(), 0.01)
                if known.sum() > 1000:
                    a, b = ranks(scores[known]), ranks(theirs[known])
                    self.assertGreater(numpy.corrcoef(a, b)[0, 1], 0.99)
        finally:
            engine.close()
        self.assertGreater(offered, 4 * 4 * 15)
        self.assertGreater(agreed / offered, 0.8)
        self.assertGreater(shared / lists, 0.95)


class Scores(unittest.TestCase):
    def test_twin(self):
        rng = numpy.random.default_rng(1)
        centres = rng.normal(size=(5, 12))
        g, twin = Graph(300), Twin(300)
        named = set()
        for step in range(12):
            epoch = step // 6
            if step == 6:
                named = set()
            served = rng.integers(0, 300, 48).astype("uint64")
            labels = (served % 5).astype("int64")
            emb = (centres[labels] + rng.normal(size=(48, 12)) * 0.7).astype("float32")
            twin.enter(served.tolist(), labels.tolist(), emb)
            before = None if g.radius is None else float(g.radius)
            out = g.score(served, labels, torch.from_numpy(emb), epoch).numpy()
            if before is None:
                named |= {key for key, count, _ in hubs_of(out) if count}
                continue
            last = {int(i): k for k, i in enumerate(served)}
            for i, k in last.items():
                same, other, near = twin.counts(i, before)
                self.assertAlmostEqual(float(out[k, 0]), score(same, other), places=5)
            for k, i in enumerate(served):  # of one that comes twice, its last row's
                self.assertEqual(out[k, 0], out[last[int(i)], 0])
            # Those with most friends that were not named in this epoch, the lower id first.
            friends = {i: twin.counts(i, before)[0] for i in last if i not in named}
            best = sorted((i for i in friends if friends[i]), key=lambda i: (-friends[i], i))[:4]
            hubs = [h for h in hubs_of(out) if h[1]]
            self.assertEqual([key for key, _, _ in hubs], best)
            for key, count, ids in hubs:
                same, _, near = twin.counts(key, before)
                self.assertEqual(count, same)
                self.assertEqual(sorted(ids[:count].tolist()), sorted(near))
                self.assertEqual(int(ids[0]), near[0])
            named |= set(best)
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
            self.assertEqual(l.stats()["losses_not_finite"], 0)
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

    def test_hubs_of_a_loaded_state(self):
        """What was offered in an epoch is not offered again after a stop in the middle of it."""
        rng = numpy.random.default_rng(3)
        served = numpy.arange(60, dtype="uint64")
        labels = (served % 3).astype("int64")
        emb = torch.from_numpy(rng.normal(size=(60, 8)).astype("float32"))
        a, b = Graph(60), Graph(60)
        a.score(served, labels, emb, 1)
        b.load_state_dict(a.state_dict())
        for epoch in (1, 1, 2):
            one, two = a.score(served, labels, emb, epoch), b.score(served, labels, emb, epoch)
            self.assertTrue(numpy.array_equal(one.numpy(), two.numpy(), equal_nan=True))

    def test_the_radius_goes_by_all_samples(self):
        """Draws by score fill batches with isolated samples; the median degree of all is what counts."""
        rng = numpy.random.default_rng(5)
        n, dim = 1200, 16
        centres = rng.normal(size=(3, dim)) * 3
        x = rng.normal(size=(n, dim))
        crowd = numpy.arange(n) % 5 != 0  # four fifths in three dense groups, the rest alone
        x[crowd] = centres[numpy.arange(n)[crowd] % 3] + 0.3 * x[crowd]
        x /= numpy.sqrt((x * x).sum(1, keepdims=True))
        labels = (numpy.arange(n) % 3).astype("int64")
        g, scores = Graph(n, degree=40), numpy.full(n, numpy.nan)
        for epoch in range(6):
            weight = numpy.where(numpy.isnan(scores), 1, scores)
            order = rng.permutation(n) if epoch == 0 else rng.choice(n, n, p=weight / weight.sum())
            for at in range(0, n, 60):
                served = order[at : at + 60].astype("uint64")
                emb = torch.from_numpy(x[served.astype("int64")].astype("float32"))
                out = g.score(served, labels[served.astype("int64")], emb, epoch).numpy()
                fine = numpy.isfinite(out[:, 0])
                scores[served[fine].astype("int64")] = out[fine, 0]
        d = numpy.sqrt(((x[:, None] - x[None]) ** 2).sum(2))
        degree = (d <= float(g.radius)).sum(1) - 1
        self.assertLess(numpy.mean(degree < 40), 0.62)
        self.assertGreater(numpy.mean(degree < 40), 0.38)
        self.assertLess(numpy.median(degree[order]), 20)  # what is drawn says something else

    def test_who_asks_for_the_engine_gets_it(self):
        with self.assertRaisesRegex(ValueError, "no scores"):
            larder.Loader(SOURCE, 50, recipe="spider:engine=exact", score_on_device=True)


if __name__ == "__main__":
    unittest.main()
