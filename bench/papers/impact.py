#!/usr/bin/env python3
"""ImpACT (IEEE TC '25), section V: tables I to III and figures 11 to 23 beside ours.

    bench/papers/impact.py [--full] [--page]

Hits, misses and bytes are of a recorded training of ResNet-18 on CIFAR-10 (`larder sim --trace`), which is the
paper's own case; accuracy is of closed loops (`larder train` on Fashion-MNIST). A speed-up is that of an epoch
which waits for storage alone: once by all bytes read, and once by misses alone, as if packages of unimportant
samples came for nothing. The second is the most that the method can gain over the same storage.
"""
import statistics
import sys

from beside import Bench, claim, figure, plot

# The paper's systems as recipes.
SYSTEMS = {"Default": "lru", "Base": "base", "Quiver": "quiver", "CoorDL": "minio", "iLFU": "impact:policy=lfu",
           "iCache": "icache", "ImpACT": "impact", "Oracle": "oracle"}
PARTS = {"Base": "base", "+IIP": "impact:policy=lru", "+HC": "impact:low=read", "All": "impact"}
FIGURE_12 = {"Default": 4.6, "Base": 4.6, "Quiver": 3.9, "CoorDL": 3.5, "iLFU": 3.1, "iCache": 2.5}
FIGURE_20 = {20: (2.9, 43, 2), 40: (3.1, 61, 9), 60: (3.3, 74, 23), 80: (3.6, 88, 48)}


def over(a, b):
    return [x / y if y else float("nan") for x, y in zip(a, b)]


class Trace:
    """Runs over the recorded training, seen after the warm-up."""

    def __init__(self, b, trace, seeds):
        self.b, self.trace, self.seeds = b, trace, seeds
        self.epochs, self.warm = b.pick((5, 3), (30, 15), (30, 15))

    def get(self, recipe, cache=20):
        got = self.b.sim([["--trace", self.trace, "--epochs", self.epochs, "--batch", self.b.pick(64, 256, 256), "--cache",
                           f"{cache}%", "--seed", s, "--recipe", recipe] for s in self.seeds])
        out = []
        for g in got:
            late = g["epochs"][self.warm:]
            sums = {k: sum(e[k] for e in late) for k in ("served", "hits", "substitutes", "misses", "background_reads",
                                                         "storage_bytes", "evaluated", "evaluation_reads")}
            if recipe == "base":  # what it leaves out it has loaded all the same
                sums["misses"] += sums["background_reads"]
            sums["precision"] = g.get("precision", float("nan"))
            out.append(sums)
        return out

    def of(self, name, recipe, cache=20):
        return [g[name] for g in self.get(recipe, cache)]

    def hits(self, recipe, cache=20):
        """As the paper counts: who stands in is a hit."""
        return [100 * (g["hits"] + g["substitutes"]) / g["served"] for g in self.get(recipe, cache)]

    def own(self, recipe, cache=20):
        return [100 * g["hits"] / g["served"] for g in self.get(recipe, cache)]

    def faster(self, recipe, than, cache=20, by="storage_bytes"):
        return over(self.of(by, than, cache), self.of(by, recipe, cache))


def on_trace(t):
    twelve = []
    for name, theirs in FIGURE_12.items():
        twelve.append(claim(f"against {name}, by misses", theirs, t.faster("impact", SYSTEMS[name], by="misses"), "x"))
        twelve.append(claim(f"against {name}, by bytes", theirs, t.faster("impact", SYSTEMS[name]), "x"))
    f12 = figure("Figure 12", "training time an epoch, CIFAR-10, at most over four models", twelve,
                 how="larder sim --trace TRACE --epochs 30 --cache 20% --seed S --json --recipe lru,base,quiver,minio,impact:policy=lfu,icache,impact",
                 note="Epochs 15 to 29. All that ImpACT spares: some samples are not trained on, a fifth is cached, and misses of unimportant "
                      "ones are made up for by packages, which are free when misses alone are counted. More than that has to come from elsewhere; iCache, "
                      "which has all of it but the evaluation, is not 2.5 times slower.",
                 plot=plot("ImpACT, figure 12: times an epoch takes as long", "", "times as long as ImpACT", {
                     "paper": [(i, v) for i, v in enumerate(FIGURE_12.values())],
                     "ours, by misses": [(i, statistics.mean(t.faster("impact", SYSTEMS[n], by="misses"))) for i, n in enumerate(FIGURE_12)],
                     "ours, by bytes": [(i, statistics.mean(t.faster("impact", SYSTEMS[n]))) for i, n in enumerate(FIGURE_12)]},
                     bars=True, ticks=list(FIGURE_12)))
    f13 = figure("Figure 13", "time for storage an epoch, CIFAR-10", [
        claim("ImpACT against Default, mean; ours by misses", 4.3, t.faster("impact", "lru", by="misses"), "x"),
        claim("the same, by bytes", 4.3, t.faster("impact", "lru"), "x"),
        claim("iCache against Default, by misses", "1.2 to 2.4", t.faster("icache", "lru", by="misses"), "x",
              holds=1.2 <= statistics.mean(t.faster("icache", "lru", by="misses")) <= 2.4)])
    io = {n: t.faster(r, "base", by="misses") for n, r in PARTS.items()}
    f14 = figure("Figure 14", "what each part adds, ResNet-18", [
        claim("+IIP: time for storage against Base, by misses", 2.2, io["+IIP"], "x"),
        claim("+HC: training time against Base, by misses", 3.9, io["+HC"], "x"),
        claim("All: training time against Base, by misses", 4.6, io["All"], "x"),
        claim("+HC: hits", 37.0, t.hits(PARTS["+HC"]), "%"),
        claim("All: hits and stand-ins", 43.0, t.hits("impact"), "%"),
        claim("All: hits alone", "no number", t.own("impact"), "%"),
    ], how="larder sim --trace TRACE … --recipe base,impact:policy=lru,impact:low=read,impact",
        note="A sample is asked for once an epoch at most, so that 20 % of the data can hit no more than 20 of some 90 % that are asked for; "
             "37 % would need a selection of half of the data. The stand-ins make up the published rate of All.",
        plot=plot("ImpACT, figure 14: hit rate of the parts", "", "hits and stand-ins, %", {
            "paper": [(2, 37), (3, 43)], "ours": [(i, statistics.mean(t.hits(r))) for i, r in enumerate(PARTS.values())]},
            bars=True, ticks=list(PARTS)))
    hybrid, history, real = (t.of("precision", r) for r in ("impact", "impact:eval=history", "impact:eval=realtime"))
    f15 = figure("Figure 15", "finding the most important percent, and its cost", [
        claim("precision of hybrid above history, relative", "9 to 28 %", [100 * (a / b - 1) for a, b in zip(hybrid, history)], "percent",
              holds=9 <= 100 * (statistics.mean(hybrid) / statistics.mean(history) - 1) <= 28),
        claim("samples evaluated by realtime for each of hybrid's", 25.0,
              over(t.of("evaluated", "impact:eval=realtime"), t.of("evaluated", "impact")), "x"),
        claim("precision of realtime", "highest", [100 * v for v in real], "%", holds=min(real) > max(hybrid))])
    twenty = []
    for c, (_, hit, plain) in FIGURE_20.items():
        twenty.append(claim(f"ImpACT, {c} % cached: hits and stand-ins", float(hit), t.hits("impact", c), "%"))
        twenty.append(claim(f"Default, {c} % cached: hits", float(plain), t.hits("lru", c), "%"))
    for c, (fast, _, _) in FIGURE_20.items():
        twenty.append(claim(f"speed-up, {c} % cached; ours by misses", fast, t.faster("impact", "lru", c, "misses"), "x"))
    f20 = figure("Figure 20", "over cache sizes, ShuffleNet on CIFAR-10", twenty,
                 how="larder sim --trace TRACE … --cache 20%,40%,60%,80% --recipe lru,impact",
                 note="The published hit rates come out, stand-ins counted as hits; LRU's too. By misses the gain grows without "
                      "bound as the cache does; the paper's levels off where training itself is what takes time.",
                 plot=plot("ImpACT, figure 20: hit rate over cache size", "cached share of the data, %", "hits and stand-ins, %", {
                     "paper ImpACT": [(c, v[1]) for c, v in FIGURE_20.items()], "paper Default": [(c, v[2]) for c, v in FIGURE_20.items()],
                     "impact": [(c, statistics.mean(t.hits("impact", c))) for c in FIGURE_20],
                     "impact, hits alone": [(c, statistics.mean(t.own("impact", c))) for c in FIGURE_20],
                     "lru": [(c, statistics.mean(t.hits("lru", c))) for c in FIGURE_20]}, ticks=list(FIGURE_20), top=100))
    shares = {s: t.hits(f"impact:s_share={s:g}") for s in (0, 0.25, 0.5, 0.75, 1)}
    best = max(shares, key=lambda s: statistics.mean(shares[s]))
    f21 = figure("Figure 21", "over the size of S", [
        claim(f"hits with S = 25 % of the cache less the best other (here {100 * best:g} %)", "the best",
              [a - b for a, b in zip(shares[0.25], shares[best if best != 0.25 else 0.5])], "points", holds=best == 0.25)],
        plot=plot("ImpACT, figure 21: hit rate over the size of S", "S, share of the cache, %", "hits and stand-ins, %", {
            "ours": [(100 * s, statistics.mean(v)) for s, v in shares.items()]}, ticks=[0, 25, 50, 75, 100]))
    slow = [4, 8, 16]
    bound = {k: [max(k * a["storage_bytes"] / (a["served"] * 3072), 1) * a["served"] / (
        max(k * i["storage_bytes"] / (i["served"] * 3072), 1) * i["served"]) for a, i in zip(t.get("lru"), t.get("impact"))] for k in slow}
    f23 = figure("Figure 23", "over the size of the model", [
        claim(f"storage {k} times slower than training, by bytes", "4.2 to 5.3", bound[k], "x", holds=statistics.mean(bound[k]) >= 4.2) for k in slow],
        note="A larger model takes longer for a sample: storage is then less slow beside it. What ImpACT gains lies between the samples it leaves out "
             "(training takes all the time) and the bytes it does not read (storage does).")
    return f12, f13, f14, f15, f20, f21, f23


class Loops:
    def __init__(self, b, data, seeds):
        self.b, self.data, self.seeds, self.epochs = b, data, seeds, b.pick(2, 6, 10)

    def get(self, recipe):
        return self.b.train([[self.data, "--recipe", recipe, "--cache", "20%", "--epochs", self.epochs, "--seed", s, "--threads", 1]
                             for s in self.seeds])

    def last(self, recipe, what="accuracy"):
        return [100 * run[-1][what] for run in self.get(recipe)]

    def below(self, recipe, than="lru", what="accuracy"):
        return [a - b for a, b in zip(self.last(than, what), self.last(recipe, what))]

    def bytes(self, recipe):
        return [sum(e["storage_bytes"] for e in run) / 1e6 for run in self.get(recipe)]

    def until(self, recipe, target):
        """Bytes from storage until an accuracy, by a straight line within an epoch; nan: never."""
        out = []
        for run in self.get(recipe):
            read = last = 0
            found = float("nan")
            for e in run:
                if e["accuracy"] >= target:
                    found = read + e["storage_bytes"] * (target - last) / (e["accuracy"] - last)
                    break
                read, last = read + e["storage_bytes"], e["accuracy"]
            out.append(found)
        return out


def in_training(b, loops):
    words = f"larder train /usr/share/datasets/fashion-mnist --cache 20% --epochs {loops.epochs} --seed S --threads 1 --recipe "
    t1 = figure("Table I", "accuracy on CIFAR-10", [
        claim("top-1 lost by ImpACT, ResNet-18", 0.56, loops.below("impact"), "points", digits=2, holds=statistics.mean(loops.below("impact")) < 0.8),
        claim("top-1 lost by Base, mean over models", 0.5, loops.below("base"), "points", digits=2, holds=statistics.mean(loops.below("base")) < 0.8),
        claim("top-5 lost by ImpACT, ResNet-18", 0.01, loops.below("impact", what="top5"), "points", digits=2,
              holds=abs(statistics.mean(loops.below("impact", what="top5"))) < 0.2)],
        how=words + "lru,base,impact    # one each", note="Fashion-MNIST, a perceptron: the paper promises at most one point lost; the first "
        "epochs of ImpACT are its warm-up, so that a short training hardly differs.")
    curves = {n: [(e, 100 * statistics.mean(run[e]["top5"] for run in loops.get(r))) for e in range(loops.epochs)]
              for n, r in (("Default", "lru"), ("ImpACT", "impact"))}
    apart = [max(abs(a["top5"] - d["top5"]) * 100 for a, d in zip(x, y)) for x, y in zip(loops.get("impact"), loops.get("lru"))]
    f11 = figure("Figure 11", "top-5 accuracy over epochs", [
        claim("curves apart at most", "closely matched", apart, "points", digits=2, holds=statistics.mean(apart) < 1)],
        plot=plot("ImpACT, figure 11: top-5 accuracy over epochs", "epoch", "top-5 accuracy, %", curves))
    target = b.pick(0.4, 0.88, 0.89)
    need = {e: loops.until("impact" if e == "hybrid" else f"impact:eval={e}", target) for e in ("hybrid", "history", "realtime")}
    f16 = figure("Figure 16", "time to an accuracy", [
        claim(f"hybrid against history, bytes to {100 * target:g} %", 1.3, over(need["history"], need["hybrid"]), "x"),
        claim(f"hybrid against realtime, bytes to {100 * target:g} %", "up to 3.7", over(need["realtime"], need["hybrid"]), "x",
              holds=statistics.mean(over(need["realtime"], need["hybrid"])) > 1)],
        note="History selects from the second epoch on, hybrid after its warm-up: it reads more before it knows more.")
    t3 = figure("Table III", "accuracy by who may stand in", [
        claim("top-1 lost, important ones stand in (ST_HC), ResNet-18", 0.81, loops.below("impact:low=high"), "points", digits=2,
              holds="" if b.tiny else None),
        claim("top-1 lost, unimportant ones stand in (ST_LC), ResNet-18", 0.56, loops.below("impact"), "points", digits=2,
              holds="" if b.tiny else None),
        claim("ST_HC below ST_LC", "0.25, 0.23", [a - c for a, c in zip(loops.last("impact"), loops.last("impact:low=high"))], "points",
              digits=2)],
        how=words + "impact,impact:low=high,lru    # one each", note="Differences are within the spread of seeds here.")
    return t1, f11, f16, t3


def main():
    b = Bench("ImpACT (TC '25)", __file__, "docs/results/impact.md")
    seeds = list(range(1, 1 + b.pick(2, 3, 5)))
    b.spread = f"Seeds 1 to {len(seeds)}."
    trace, data = b.trace(), b.pictures()
    gone = "skipped: the data is not here"

    def none(*names):
        return [figure(n, "see the paper", why=gone) for n in names]
    f12, f13, f14, f15, f20, f21, f23 = on_trace(Trace(b, trace, seeds)) if trace else none(
        "Figure 12", "Figure 13", "Figure 14", "Figure 15", "Figure 20", "Figure 21", "Figure 23")
    loops = Loops(b, data, seeds) if data else None
    t1, f11, f16, t3 = in_training(b, loops) if data else none("Table I", "Figure 11", "Figure 16", "Table III")
    figures = [
        t1, figure("Table II", "accuracy on ImageNet", why="not measured: needs ImageNet and days of a GPU"), f11, f12, f13, f14, f15, f16, t3,
        figure("Figure 17", "one to four GPUs of one machine", why="not measured: needs several GPUs; the paper's text names figure 18 instead"),
        figure("Figure 18", "two and four servers", why="not measured: needs several nodes"),
        figure("Figure 19", "over the number of workers", why="not measured: the loader asks storage for up to 64 samples at once with any number of threads"),
        f20, f21, figure("Figure 22", "on a disk and on an SSD", why="not measured: one kind of storage here, throttled by bytes and latency"), f23]
    headlines = []
    if trace and data:
        best = (f"`rotate:h=0.5` {statistics.mean(loops.last('rotate:h=0.5')):.2f} ± {statistics.stdev(loops.last('rotate:h=0.5')):.2f} % with "
                f"{statistics.mean(loops.bytes('rotate:h=0.5')):.0f} MB, ImpACT {statistics.mean(loops.last('impact')):.2f} ± "
                f"{statistics.stdev(loops.last('impact')):.2f} % with {statistics.mean(loops.bytes('impact')):.0f} MB")
        headlines = [
            {"label": "training time against CoorDL (abstract: up to 3.5x), by misses", "claim": f12["claims"][6], "best": best},
            {"label": "training time against LRU (figure 12), by misses", "claim": f12["claims"][0], "best": ""},
            {"label": "hits, 20 % cached, stand-ins counted (figure 20)", "claim": f20["claims"][0], "best": ""},
            {"label": "time to accuracy, hybrid against history (figure 16), by bytes", "claim": f16["claims"][0], "best": ""}]
    b.finish(figures, headlines)


if __name__ == "__main__":
    sys.exit(main())
