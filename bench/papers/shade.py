#!/usr/bin/env python3
"""SHADE (FAST '23), section 6: figures 7 to 12 beside ours.

    bench/papers/shade.py [--full] [--page]

Hit rates are of a recorded training of ResNet-18 on CIFAR-10 (`larder sim --trace`). Accuracy is of
closed loops (`larder train` on Fashion-MNIST). Times of figures 8, 9 and 11 follow from the bytes that
each epoch of these loops read: storage gives a quarter of the samples that training takes, and an epoch
lasts as long as the slower of both. They repeat to the digit on any machine; throttled runs stand beside.
"""
import statistics
import sys

import ranked
from beside import Bench, Paced, Sweep, claim, figure, over, plot

SLOWER = 4  # training takes so many times the samples that storage gives

# The paper's seven caches of figure 7 and what stands for them here. Its sh_ variants draw by the loss of
# a batch: signal batchloss.
COARSE = {
    "sh_app": "shade:sampler=weighted,correct=0,signal=batchloss",
    "sh_pqlfu": "shade:sampler=weighted,correct=0,signal=batchloss,order=score+frequency",
    "sh_pq": "shade:sampler=weighted,correct=0,signal=batchloss,order=score",
    "sh_lru": "shade:sampler=weighted,correct=0,signal=batchloss,policy=lru",
    "sh_lfu": "shade:sampler=weighted,correct=0,signal=batchloss,policy=lfu",
    "sh_rand": "shade:sampler=weighted,correct=0,signal=batchloss,policy=random",
}
FINE = {"SHADE": "shade:repeat=3", "LRU": "lru", "MIN": "belady", "never evicts": "minio"}


def hit_rates(b, trace, sizes, seeds):
    """Hit % by name, size and seed, on the trace."""
    batch, epochs = b.pick(32, 64, 64), b.pick(4, 30, 30)
    keys = [(n, c, s) for n in [*FINE, *COARSE] for c in sizes for s in (seeds if n in FINE or b.full else seeds[:1])]
    got = b.sim([["--trace", trace, "--epochs", epochs, "--batch", batch, "--cache",
                  f"{c}%", "--seed", s, "--recipe", FINE.get(n) or COARSE[n]] for n, c, s in keys])
    out = {}
    for (n, c, _), g in zip(keys, got):
        out.setdefault((n, c), []).append(100 * g["hits"] / g["served"])
    return out


def figure_7(b, rates, sizes):
    small = sizes[0]
    lru, shade = rates["LRU", small], rates["SHADE", small]
    weak = [statistics.mean(v) for v in zip(*(rates[n, small] for n in COARSE if n != "sh_app"))]
    above = all(min(rates["SHADE", c]) > max(rates["MIN", c]) for c in sizes[2:])
    claims = [
        claim("SHADE's hits against LRU's, 10 % cached", 4.5, over(shade, lru), "x"),
        claim("the same against a cache that never evicts", "no number", over(shade, rates["never evicts", small]), "x"),
        claim("the same against LRU over draws that repeat (sh_lru)", 4.5, over(shade, rates["sh_lru", small]), "x"),
        claim("sh_app against LRU, 10 %", 2.67, over(rates["sh_app", small], lru), "x"),
        claim("the other sh_ variants against LRU, 10 %", 1.94, over(weak, lru), "x"),
        claim("sh_app against never evicting, 10 %", "no number",
              over(rates["sh_app", small], rates["never evicts", small]), "x"),
        claim("SHADE above MIN with 50 and 75 % cached", "yes",
              [x - y for x, y in zip(rates["SHADE", sizes[2]], rates["MIN", sizes[2]])], "points", holds=above),
    ]
    note = ("LRU over epochs that serve every sample once hits half a percent with 10 % cached, so any "
            "ratio to it says little; 4.5 times as much as LRU needs an LRU that hits some 8 to 10 %, which is what a cache that "
            "never evicts has, or LRU over draws that repeat. MIN is bound to the order that a sampler gives it; SHADE chooses its own. The sh_ variants "
            "draw and cache by the mean loss of a sample's batch (signal `batchloss`); `app` stands for sh_app, sh_pq "
            "(`order=score`) and sh_pqlfu.")
    how = ("larder sim --trace TRACE --epochs 30 --batch 64 --cache 10%,25%,50%,75% --seed S --recipe \\\n"
           "    lru,belady,minio,shade:repeat=3\n"
           "larder sim --trace TRACE … --recipe shade:sampler=weighted,correct=0,signal=batchloss,policy=…")
    series = {n: [(c, statistics.mean(rates[n, c])) for c in sizes] for n in [*FINE, *COARSE] if n != "sh_pqlfu"}
    return figure("Figure 7", "hit rate of cache policies over cache sizes", claims, how=how, note=note,
                  plot=plot("SHADE, figure 7: hit rate over cache size", "cached share of the data, %",
                            "read hits, %", series, ticks=sizes, top=100))


# ---- times from bytes ------------------------------------------------------------------------------------

class Loop:
    """Closed loops, and what epochs last where storage is slow."""

    def __init__(self, b, data, seeds):
        self.b, self.data, self.seeds = b, data, seeds
        self.epochs = b.pick(3, 6, 10)
        self.n, self.size, self.batch = b.pick((600, 64, 32), (60000, 784, 128), (60000, 784, 128))

    def words(self, recipe, cache, seed):
        return [self.data, "--recipe", recipe, "--cache", f"{cache}%", "--epochs", self.epochs, "--seed", seed,
                "--threads", 1, "--batch", self.batch]

    def trained(self, recipe, cache):
        """Per seed: (accuracy, bytes) of each epoch."""
        return [[(e["accuracy"], e["storage_bytes"]) for e in run]
                for run in self.b.train([self.words(recipe, cache, s) for s in self.seeds])]

    def uniform(self, policy, cache):
        """The same for exactly-once recipes: all train on the same batches, so their accuracy is minio's;
        their bytes come from the simulator."""
        runs = self.trained("minio", 20)
        sims = self.b.sim([["--n", self.n, "--size", self.size, "--batch", self.batch, "--epochs", self.epochs,
                            "--cache", f"{cache}%", "--seed", s, "--recipe", policy] for s in self.seeds])
        return [[(a, e["storage_bytes"]) for (a, _), e in zip(run, sim["epochs"])]
                for run, sim in zip(runs, sims)]

    def lasts(self, size):
        """An epoch's time; 1 is what training takes where nothing is waited for."""
        return max(SLOWER * size / (self.n * self.size), 1)

    def throughput(self, runs):
        """Epochs after the first, which is cold for everybody."""
        return [1 / statistics.mean(self.lasts(size) for _, size in run[1:]) for run in runs]

    def until(self, runs, target):
        """Time until a run has an accuracy, by a straight line within an epoch; nan: never."""
        out = []
        for run in runs:
            time = last = 0
            found = float("nan")
            for accuracy, size in run:
                if accuracy >= target:
                    found = time + self.lasts(size) * (target - last) / (accuracy - last)
                    break
                time, last = time + self.lasts(size), accuracy
            out.append(found)
        return out

    def curve(self, runs):
        out, time = [], 0
        for i in range(self.epochs):
            time += statistics.mean(self.lasts(r[i][1]) for r in runs)
            out.append((time, 100 * statistics.mean(r[i][0] for r in runs)))
        return out

    def bytes(self, runs):
        return [sum(size for _, size in run) / 1e6 for run in runs]

    def last(self, runs):
        return [100 * run[-1][0] for run in runs]


def sooner(loop, slow, fast, target):
    """How many times sooner, and a word where an accuracy was not reached."""
    a, b = loop.until(slow, target), loop.until(fast, target)
    got = over(a, b)
    missed = sum(x != x for x in b)
    return f"not reached by {missed} of {len(b)} seeds" if missed else got


SHADE = "shade:repeat=3"


def over_ranks(b, trace, seeds):
    """One, two and four ranks of one job: what each reads, and an epoch of LRU's against SHADE's."""
    got = ranked.compared(b, trace, ("lru", SHADE), seeds, cache=10)
    if isinstance(got, str):
        return [claim("one, two and four ranks", "no number", got)]
    out = [claim(f"by the clock, {world} ranks over one cache of 10 %", 2.3, ranked.faster(got, SHADE, "lru", world), "x")
           for world in ranked.worlds(got)]
    most = max(ranked.worlds(got))
    return out + [ranked.evenly(got, SHADE, most), ranked.as_one(got, SHADE, most)]


def closed_loops(b, loop, paced, across):
    shade = {c: loop.trained("shade:repeat=3", c) for c in (10, 25, 50, 75)}
    lru = {c: loop.uniform("lru", c) for c in (10, 25, 50, 75)}
    nopfs = {c: loop.uniform("nopfs", c) for c in (50, 75)}
    target = b.pick(0.5, 0.88, 0.885)
    final = loop.last(lru[10])
    shown = f"{100 * target:g} %"
    epochs = f"larder train /usr/share/datasets/fashion-mnist --recipe shade:repeat=3 --cache C --epochs {loop.epochs} --seed S --threads 1\n" \
             f"larder sim --n {loop.n} --size {loop.size} --batch {loop.batch} --epochs {loop.epochs} --cache C --seed S --recipe lru,nopfs"
    lost = [x - y for x, y in zip(final, loop.last(shade[50]))]
    f8 = figure("Figure 8", "accuracy over time, against LRU", [
        claim(f"sooner at {shown}, 10 % cached (AlexNet)", 3.0, sooner(loop, lru[10], shade[10], target), "x"),
        claim(f"sooner at {shown}, 75 % cached (ResNet-50)", 3.3, sooner(loop, lru[75], shade[75], target), "x"),
        claim("points that SHADE ends below LRU, 10 % cached", "none",
              [x - y for x, y in zip(final, loop.last(shade[10]))], "points", digits=2),
        claim("the same, 50 % cached", "none", lost, "points", digits=2,
              holds=statistics.mean(lost) < 0.2),
    ], how=epochs, note=f"Time to {shown} test accuracy; LRU ends with {statistics.mean(final):.2f} %. Times follow from the bytes of each "
        "epoch; *by the clock* has a step of a GPU's time and throttled storage (figure 9).",
        plot=plot("SHADE, figure 8: accuracy over time", "time, in epochs without waiting", "test accuracy, %", {
            **{f"SHADE, {c} %": loop.curve(shade[c]) for c in (10, 50, 75)},
            **{f"LRU, {c} %": loop.curve(lru[c]) for c in (10, 50, 75)}}))
    rate = {("SHADE", c): loop.throughput(v) for c, v in shade.items()}
    rate.update({("LRU", c): loop.throughput(v) for c, v in lru.items()})
    rate.update({("NoPFS", c): loop.throughput(v) for c, v in nopfs.items()})
    large, small = Sweep(b, paced, "SHADE 75 % against LRU 75 %", SHADE, "lru", 2.7, 75), Sweep(b, paced, "SHADE 10 % against LRU 10 %", SHADE, "lru", 2.3, 10)
    f9 = figure("Figure 9", "samples a second, against LRU", [
        *large.claims(), *small.claims(),
        *across,
        claim("SHADE 10 % against LRU 10 % (AlexNet)", 2.3, over(rate["SHADE", 10], rate["LRU", 10]), "x"),
        claim("bytes that LRU reads for each of SHADE's, 10 % cached", "no number",
              over(loop.bytes(lru[10]), loop.bytes(shade[10])), "x"),
        claim("SHADE 10 % against LRU 75 % (AlexNet)", 1.0, over(rate["SHADE", 10], rate["LRU", 75]), "x"),
        claim("SHADE 75 % against LRU 75 % (ResNet-50)", 2.7, over(rate["SHADE", 75], rate["LRU", 75]), "x"),
        claim("SHADE 50 % against LRU 75 % (ResNet-50)", 1.14, over(rate["SHADE", 50], rate["LRU", 75]), "x"),
        claim("SHADE 25 % against LRU 75 % (ResNet-50)", "slightly below 1", over(rate["SHADE", 25], rate["LRU", 75]),
              "x", holds=statistics.mean(rate["SHADE", 25]) < statistics.mean(rate["LRU", 75])),
    ], how=paced.how("lru, shade:repeat=3"), note="*By the clock*: steps of a GPU (3 ms a batch of 128, both slowed twice) (ResNet-18 on an H200) and throttled storage, "
            "second half of the epochs. The other lines follow from bytes, epochs after the first, storage four times slower. No ratio can be more than how slow storage is (the paper does "
            f"not say how slow its was), nor more than that of the bytes read. 75 % cached: {large.says()}. 10 % cached: {small.says()}; 2.3 times as many samples a second "
            "there need 57 % hits of SHADE even where LRU has none.",
        plot=large.plot("SHADE, figure 9: throughput against LRU, 75 % cached"))
    left = {c: statistics.mean(size for run in nopfs[c] for _, size in run[1:]) / (loop.n * loop.size) for c in nopfs}
    f11 = figure("Figure 11", "against NoPFS: time to accuracy, samples a second", [
        claim(f"sooner at {shown}, 75 % cached", 4.5, sooner(loop, nopfs[75], shade[75], target), "x"),
        claim(f"sooner at {shown}, 50 % cached", 2.4, sooner(loop, nopfs[50], shade[50], target), "x"),
        claim("by the clock: throughput, 75 % cached", 2.2, paced.faster(SHADE, "nopfs", 75), "x"),
        claim("by the clock: throughput, 50 % cached", 1.6, paced.faster(SHADE, "nopfs", 50), "x"),
        claim("throughput, 75 % cached", 2.2, over(rate["SHADE", 75], rate["NoPFS", 75]), "x"),
        claim("throughput, 50 % cached", 1.6, over(rate["SHADE", 50], rate["NoPFS", 50]), "x"),
    ], note="`nopfs` knows the order and hits what fits; with 75 % cached storage is no longer what training waits for. The paper's two "
            "throughputs do not fit one storage: SHADE reads next to nothing with 50 and 75 % cached, so that 1.6 times NoPFS with 50 % means "
            f"storage {1.6 / left[50]:.1f} times slower than training, 2.2 times with 75 % one {2.2 / left[75]:.1f} times slower; the gain must "
            "fall as NoPFS caches more, and the paper's grows.",
        plot=plot("SHADE, figure 11a: against NoPFS", "time, in epochs without waiting", "test accuracy, %", {
            **{f"SHADE, {c} %": loop.curve(shade[c]) for c in (10, 50, 75)},
            **{f"NoPFS, {c} %": loop.curve(nopfs[c]) for c in (50, 75)}}))
    return f8, f9, f11, (large, small)


def figure_10(paced):
    """How long batches take to fill."""
    ways = [(r, c) for r in ("lru", SHADE) for c in (50, 75)]
    fill, spread, seconds = ({w: paced.mean(name, *w) for w in ways} for name in ("fill_mean", "fill_sd", "seconds"))
    shade = SHADE
    return figure("Figure 10", "time to load a batch", [
        claim("LRU 50 % against SHADE 50 %, mean", 2.5, over(fill["lru", 50], fill[shade, 50]), "x"),
        claim("LRU 75 % against SHADE 50 %, mean", 1.7, over(fill["lru", 75], fill[shade, 50]), "x"),
        claim("LRU 75 % against SHADE 75 %, deviation", 3.9, over(spread["lru", 75], spread[shade, 75]), "x"),
        claim("LRU 50 % against SHADE 50 %, seconds of an epoch", "no number", over(seconds["lru", 50], seconds[shade, 50]), "x"),
    ], how=paced.how("lru, shade:repeat=3"),
        note="Storage four times slower than training, second half of the epochs, from a batch's first row taken to its last row there. "
             "SHADE with half of the data cached reads next to nothing, so that its batches come from memory.",
        plot=plot("SHADE, figure 10: time to load a batch", "cached share of the data, and the mean / deviation", "ms a batch", {
            name: [(i, 1e3 * statistics.mean(v)) for i, v in enumerate((fill[r, 50], spread[r, 50], fill[r, 75], spread[r, 75]))]
            for name, r in (("LRU", "lru"), ("SHADE", shade))}, bars=True,
            ticks=["50 %, mean", "50 %, deviation", "75 %, mean", "75 %, deviation"]))


def figure_12(b, trace, seeds):
    batch, epochs = b.pick(32, 64, 64), b.pick(4, 30, 30)
    names = {"SHADE": "shade:repeat=3", "Emul_Coor": "minio:sampler=weighted,correct=0,signal=loss",
             "Emul_Quiv": "quiver", "CoorDL, each sample once": "minio",
             "SHADE, no repeats": "shade:repeat=1"}
    keys = [(n, s) for n in names for s in seeds]
    got = b.sim([["--trace", trace, "--epochs", epochs, "--batch", batch, "--cache", "20%", "--seed", s, "--recipe",
                  names[n]] for n, s in keys])
    rate, touched = {}, {}
    for (n, _), g in zip(keys, got):
        rate.setdefault(n, []).append(100 * sum(e["hits"] for e in g["epochs"][1:]) / sum(e["served"] for e in g["epochs"][1:]))
        touched.setdefault(n, []).append(100 * statistics.mean(e["touched"] for e in g["epochs"][1:]))
    best = [max(x, y) for x, y in zip(rate["Emul_Coor"], rate["Emul_Quiv"])]
    return figure("Figure 12", "hit rate with 20 % cached", [
        claim("SHADE", 72.5, rate["SHADE"], "%"),
        claim("never evicts, draws by loss (Emul_Coor)", 20.0, rate["Emul_Coor"], "%"),
        claim("residents first, each once (Emul_Quiv)", 20.0, rate["Emul_Quiv"], "%"),
        claim("SHADE against both", 3.6, over(rate["SHADE"], best), "x"),
        claim("of the data that SHADE serves in an epoch", "no number", touched["SHADE"], "%"),
        claim("SHADE without repeats (`repeat=1`)", "no number", rate["SHADE, no repeats"], "%"),
    ], how="larder sim --trace TRACE --epochs 30 --batch 64 --cache 20% --seed S --recipe \\\n"
        "    shade:repeat=3,shade:repeat=1,minio:sampler=weighted,correct=0,signal=loss,quiver",
        note="Epochs after the first. The rate is reached by serving each resident that is drawn three times, and most of the data "
             "not at all; without the repeats SHADE is a few points above a cache that never evicts.",
        plot=plot("SHADE, figure 12: hit rate with 20 % cached", "", "read hits, %", {
            "paper": [(0, 72.5), (1, 20), (2, 20)],
            "ours": [(i, statistics.mean(rate[n])) for i, n in enumerate(("SHADE", "Emul_Coor", "Emul_Quiv"))]},
            bars=True, ticks=["SHADE", "Emul_Coor", "Emul_Quiv"], top=100))


def at_equal_bytes(b, loop):
    """rotate with the share of reuse that reads what SHADE reads, 20 % cached."""
    shade = loop.trained("shade:repeat=3", 20)
    wanted = 1 - statistics.mean(loop.bytes(shade)) * 1e6 / (loop.n * loop.size * loop.epochs)
    # rotate fills its cache before it reuses: a little more of the rest makes up for that.
    h = round(min(wanted * loop.epochs / (loop.epochs - 0.2), 0.85), 2)
    ours = loop.trained(f"rotate:h={h:g}", 20)
    return shade, ours, h


def main():
    b = Bench("SHADE (FAST '23)", __file__, "docs/results/shade.md")
    seeds = list(range(1, 1 + b.pick(2, 3, 5)))
    b.spread = f"Seeds 1 to {len(seeds)}."
    trace, data = b.trace(), b.pictures()
    missing = "skipped: the data is not here"
    headlines, figures = [], []
    if trace:
        sizes = [10, 25, 50, 75]
        rates = hit_rates(b, trace, sizes, seeds)
        figures.append(figure_7(b, rates, sizes))
    else:
        figures.append(figure("Figure 7", "hit rate of cache policies over cache sizes", why=missing))
    if data:
        loop = Loop(b, data, seeds)
        across = over_ranks(b, trace, seeds)
        paced = Paced(b, data, seeds)
        paced.prepare(*((r, c, 4, ()) for r, c in ((SHADE, 50), ("lru", 50), ("nopfs", 50), ("nopfs", 75))))
        f8, f9, f11, sweeps = closed_loops(b, loop, paced, across)
        figures += [f8, f9, figure_10(paced), f11]
        shade, rotate, h = at_equal_bytes(b, loop)

        def of(runs):
            return f"{statistics.mean(loop.last(runs)):.2f} ± {statistics.stdev(loop.last(runs)):.2f} % with " \
                   f"{statistics.mean(loop.bytes(runs)):.0f} MB"
        equal = f"20 % cached: `rotate:h={h:g}` {of(rotate)}, SHADE {of(shade)}"
    else:
        figures += [figure(f"Figure {i}", what, why=missing) for i, what in (
            (8, "accuracy over time"), (9, "samples a second"), (10, "time to load a batch"), (11, "against NoPFS"))]
        equal = "not measured"
    figures.append(figure_12(b, trace, seeds) if trace else figure("Figure 12", "hit rate with 20 % cached", why=missing))
    said = {"the same by the clock": (sweeps[0].headline()["what"], sweeps[0].says()),
            "throughput, 10 % cached, by the clock": (sweeps[1].headline()["what"], sweeps[1].says())} if data else {}
    for name, start, label in (("Figure 7", "SHADE's hits against LRU's", "hits, 10 % cached, against LRU"),
                               ("Figure 9", "SHADE 75 % against LRU 75 % (ResNet-50)", "throughput, 75 % cached, against LRU"),
                               *(("Figure 9", what, label) for label, (what, _) in said.items()),
                               ("Figure 8", "sooner", "time to accuracy, 75 % cached, against LRU")):
        claims = [c for f in figures if f["id"] == name for c in f["claims"] if c["what"].startswith(start)]
        if claims:
            headlines.append({"label": label, "claim": claims[-1], "best": equal if not headlines else "", "says": said.get(label, ("", ""))[1]})
    b.finish(figures, headlines)


if __name__ == "__main__":
    sys.exit(main())
