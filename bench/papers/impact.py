#!/usr/bin/env python3
"""ImpACT (IEEE TC '25), section V: tables I to III and figures 11 to 23 beside ours.

    bench/papers/impact.py [--full] [--page]

Hits, misses and bytes are of a recorded training of ResNet-18 on CIFAR-10 (`larder sim --trace`), which is the
paper's own case; accuracy is of closed loops (`larder train` on Fashion-MNIST). A speed-up is that of an epoch
which waits for storage alone: once by all bytes read, and once by misses alone, as if packages of unimportant
samples came for nothing. The second is the most that the method can gain over the same storage.
"""
import os
import statistics
import sys

import ranked
from beside import ROOT, Bench, Paced, Sweep, by_network, claim, figure, over, plot, timed

sys.path.insert(0, os.path.join(ROOT, "bench"))

# The paper's systems as recipes.
SYSTEMS = {"Default": "lru", "Base": "base", "Quiver": "quiver", "CoorDL": "minio", "iLFU": "impact:policy=lfu",
           "iCache": "icache", "ImpACT": "impact", "Oracle": "oracle"}
PARTS = {"Base": "base", "+IIP": "impact:policy=lru", "+HC": "impact:low=read", "All": "impact"}
FIGURE_12 = {"Default": 4.6, "Base": 4.6, "Quiver": 3.9, "CoorDL": 3.5, "iLFU": 3.1, "iCache": 2.5}
# What the paper's own figure 14 says it trains on: prefetching only what is selected takes Base's time for storage to
# 1 / 2.2, with as few hits. iCache's code keeps 1 / (1 + 0.33); kept = 1 / (1 + beta).
KEPT = 1 / 2.2
THEIR_SHARE = f"impact:full_every=0,beta={1 / KEPT - 1:.2g}"
FIGURE_20 = {20: (2.9, 43, 2), 40: (3.1, 61, 9), 60: (3.3, 74, 23), 80: (3.6, 88, 48)}


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


def on_trace(t, clock, says):
    twelve = []
    for name, theirs in FIGURE_12.items():
        twelve.append(claim(f"against {name}, by misses", theirs, t.faster("impact", SYSTEMS[name], by="misses"), "x"))
        twelve.append(claim(f"against {name}, by bytes", theirs, t.faster("impact", SYSTEMS[name]), "x"))
    bare = "impact:full_every=0"
    for name in ("Default", "CoorDL"):
        theirs, than = FIGURE_12[name], SYSTEMS[name]
        twelve += [claim(f"without `full_every`, against {name}, by misses", theirs, t.faster(bare, than, by="misses"), "x"),
                   claim(f"training on as few samples as figure 14 says (`beta={1 / KEPT - 1:.2g}`), against {name}, by misses", theirs,
                         t.faster(THEIR_SHARE, than, by="misses"), "x")]
    own = 0.98 / (1 - 0.43)
    twelve += [claim("against Default, by the paper's own hits (2 and 43 %) and the samples served here", 4.6, [own * v for v in over(
        t.of("served", "lru"), t.of("served", bare))], "x"),
        claim("the same, with the samples that its figure 14 says", 4.6, own / KEPT, "x")]
    twelve += clock
    f12 = figure("Figure 12", "training time an epoch, CIFAR-10, at most over four models", twelve,
                 how="larder sim --trace TRACE --epochs 30 --cache 20% --seed S --json --recipe lru,base,quiver,minio,impact:policy=lfu,icache,impact",
                 note="Epochs 15 to 29. *By misses*: packages of unimportant samples are free, so it is the most that can be gained over the same "
                      "storage; `full_every=0` trains on a selection in every epoch, as the paper says, where iCache's code trains on all in every third. "
                      "How many are selected the paper does not say; its figure 14 (+IIP: 2.2 times less time for storage than Base, as few hits) means "
                      f"{100 * KEPT:.0f} %, iCache's code keeps 75 %. With 75 % its speed-ups are more than its hits allow at any storage, with {100 * KEPT:.0f} % they are "
                      "about what they allow. *By the clock*: steps of a GPU (3 ms a batch of 128, both slowed twice), throttled storage. " + says,
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
        note="A sample is asked for once an epoch at most, so that 20 % of the data can hit no more than 20 of some 90 % that are asked for.",
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
                 note="Stand-ins counted as hits.",
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
        claim(f"top-1 lost by ImpACT on {100 * KEPT:.0f} % of the samples (figure 12)", 0.56, loops.below(THEIR_SHARE), "points", digits=2,
              holds=statistics.mean(loops.below(THEIR_SHARE)) < 0.8),
        claim("top-5 lost by ImpACT, ResNet-18", 0.01, loops.below("impact", what="top5"), "points", digits=2,
              holds=abs(statistics.mean(loops.below("impact", what="top5"))) < 0.2)],
        how=words + "lru,base,impact    # one each", note="Fashion-MNIST, a perceptron: the paper promises at most one point lost.", caching=False)
    curves = {n: [(e, 100 * statistics.mean(run[e]["top5"] for run in loops.get(r))) for e in range(loops.epochs)]
              for n, r in (("Default", "lru"), ("ImpACT", "impact"))}
    apart = [max(abs(a["top5"] - d["top5"]) * 100 for a, d in zip(x, y)) for x, y in zip(loops.get("impact"), loops.get("lru"))]
    f11 = figure("Figure 11", "top-5 accuracy over epochs", [
        claim("curves apart at most", "closely matched", apart, "points", digits=2, holds=statistics.mean(apart) < 1)],
        plot=plot("ImpACT, figure 11: top-5 accuracy over epochs", "epoch", "top-5 accuracy, %", curves), caching=False)
    target = b.pick(0.4, 0.88, 0.89)
    need = {e: loops.until("impact" if e == "hybrid" else f"impact:eval={e}", target) for e in ("hybrid", "history", "realtime")}
    f16 = figure("Figure 16", "time to an accuracy", [
        claim(f"hybrid against history, bytes to {100 * target:g} %", 1.3, over(need["history"], need["hybrid"]), "x"),
        claim(f"hybrid against realtime, bytes to {100 * target:g} %", "up to 3.7", over(need["realtime"], need["hybrid"]), "x",
              holds=statistics.mean(over(need["realtime"], need["hybrid"])) > 1)],)
    t3 = figure("Table III", "accuracy by who may stand in", [
        claim("top-1 lost, important ones stand in (ST_HC), ResNet-18", 0.81, loops.below("impact:low=high"), "points", digits=2,
              holds="" if b.tiny else None),
        claim("top-1 lost, unimportant ones stand in (ST_LC), ResNet-18", 0.56, loops.below("impact"), "points", digits=2,
              holds="" if b.tiny else None),
        claim("ST_HC below ST_LC", "0.25, 0.23", [a - c for a, c in zip(loops.last("impact"), loops.last("impact:low=high"))], "points",
              digits=2)],
        how=words + "impact,impact:low=high,lru    # one each", caching=False)
    return t1, f11, f16, t3


def by_the_clock(b, paced):
    """Claims of figure 12, and figures 19 and 22."""
    paced.prepare(*((r, 20, 4, ()) for r in ("lru", "minio", "impact")))
    twelve = [claim(f"by the clock, storage four times slower: against {name}", theirs, paced.faster("impact", SYSTEMS[name]), "x")
              for name, theirs in (("Default", 4.6), ("CoorDL", 3.5))]
    share = f"ImpACT on {100 * KEPT:.0f} % of the samples"
    sweeps = [Sweep(b, paced, f"{n} against {than}", r, SYSTEMS[than], theirs) for n, r, than, theirs in (
        ("ImpACT without `full_every`", "impact:full_every=0", "CoorDL", 3.5), (share, THEIR_SHARE, "CoorDL", 3.5), (share, THEIR_SHARE, "Default", 4.6))]
    twelve += [c for s in sweeps for c in s.claims()]
    nets = by_network(b, paced, THEIR_SHARE, SYSTEMS["CoorDL"])
    twelve += [claim(f"by the clock, the same storage: {share} against CoorDL, {n}", "no number", v, "x") for n, v in nets.items()]
    few, many = b.pick((2, 4), (2, 16), (2, 16))
    slow = "latency=2ms"
    paced.prepare(*((r, 20, slow, ("--inflight", w)) for w in (few, many) for r in ("lru", "impact")))
    fast = {w: paced.faster("impact", "lru", slow=slow, more=("--inflight", w)) for w in (few, many)}
    stall = {w: paced.stalled("lru", slow=slow, more=("--inflight", w)) for w in (few, many)}
    f19 = figure("Figure 19", "over the number of workers, ResNet-18", [
        claim(f"against Default, {few} reads under way at once (workers)", 3.9, fast[few], "x"),
        claim(f"against Default, {many}", 1.2, fast[many], "x"),
        claim(f"Default's share of time waiting for data, {few}", 96.7, stall[few], "%"),
        claim(f"Default's share of time waiting for data, {many}", 28.9, stall[many], "%"),
        claim("the gain falls as more is read at once", "yes", over(fast[few], fast[many]), "x",
              holds=statistics.mean(over(fast[few], fast[many])) > 1)],
        how=f"larder train some … --slow {slow} --inflight {few}    # and {many}",
        note="A worker of PyTorch has one read under way; here `--inflight` says how many are, and each takes 2 ms, so that "
             "with two Default waits as much as the paper's did. From 96.7 % to 28.9 % of the time with eight times the workers is more than eight times "
             "the reads at once can do: 96.7 % means storage 30 times slower than training, an eighth of that still has training wait 73 %.")
    disk = {"SSD (storage twice as slow as training)": (5.8, paced.slow(2)), "HDD (16 times as slow)": (3.6, paced.slow(16))}
    paced.prepare(*((r, 20, slow, ()) for _, slow in disk.values() for r in ("lru", "impact")))
    gain = {name: paced.faster("impact", "lru", slow=slow) for name, (_, slow) in disk.items()}
    f22 = figure("Figure 22", "on an SSD and on a disk", [
        claim(f"against Default, {name}", disk[name][0], gain[name], "x") for name in disk] + [
        claim("the gain on an SSD is larger", "yes", over(*gain.values()), "x", holds=statistics.mean(over(*gain.values())) > 1)],
        note="The paper does not say how fast either is beside its GPU. An epoch cannot become shorter than its steps: on storage twice as slow no "
             "cache gains more than 2 times, and what is not trained on.")
    return twelve, f19, f22, sweeps


def over_ranks(b, trace, seeds):
    got = ranked.compared(b, trace, ("lru", "impact"), seeds)
    if isinstance(got, str):
        f17 = figure("Figure 17", "one to four GPUs of one machine", why=got)
    else:
        gains = {w: ranked.faster(got, "impact", "lru", w) for w in ranked.worlds(got)}
        most = max(gains)
        same = over(ranked.seconds(got, "lru", 1), ranked.seconds(got, "lru", most))
        f17 = figure("Figure 17", "one to four GPUs of one machine", [
            claim("against Default, mean over the number of GPUs (here ranks)", 2.3, timed([statistics.mean(v) for v in zip(*gains.values())], *gains.values()), "x"),
            *(claim(f"against Default, {w} ranks", "no number", v, "x") for w, v in gains.items()),
            claim(f"Default, one rank against {most}: its time remains similar", "similar", same, "x", holds=abs(statistics.mean(same) - 1) < 0.2),
            ranked.evenly(got, "impact", most), ranked.as_one(got, "impact", most)], how=ranked.how("lru, impact in a daemon"))
    via = ranked.far()
    far = ranked.compared(b, trace, ("lru", "impact"), seeds, via=via, pooled=True)
    if isinstance(far, str):
        return f17, figure("Figure 18", "two and four servers", why=far)
    two, four = ranked.worlds(far)[1], ranked.worlds(far)[-1]
    return f17, figure("Figure 18", "two and four servers, each with a cache of 20 %", [
        claim(f"against Default, {two} servers, at least", 8.6, ranked.faster(far, "impact", "lru", two), "x"),
        claim(f"against Default, {four} servers, at least", 7.6, ranked.faster(far, "impact", "lru", four), "x"),
        claim("four servers against two, ImpACT", 1.5, over(ranked.seconds(far, "impact", two), ranked.seconds(far, "impact", four)), "x"),
        claim(f"against Default by reads, {two} servers", 8.6, over(ranked.reads(far, "lru", two), ranked.reads(far, "impact", two)), "x"),
        ranked.evenly(far, "impact", four)],
        how=ranked.how("lru, impact in Redis, with 20 % a rank") + "\n    # nodes with links of their own: bench/redis_nodes.sh, docs/results/sharing.md",
        note=f"{ranked.FAR[via]} that share a cache in Redis, to which each adds 20 %.")


def several_models(b, data, seeds):
    """Not in the paper's figures: one cache for jobs of different networks."""
    import several_models as models
    folder = data if b.tiny else models.some_of(data, b.path("models"), 3000)
    out = []
    for n in b.pick((2,), (2, 4), (2, 4, 8, 12)):
        got = {one: [models.run(b.options.larder, folder, "icache", n, one, epochs=b.pick(2, 4, 5), seed=s) for s in seeds[:b.pick(1, 1, 3)]]
               for one in (True, False)}
        b.ledgers += [dict(g["ledger"], recipe="icache", cache="of all jobs") for runs in got.values() for g in runs]
        out.append(claim(f"{n} networks: reads of caches apart against those of one cache", "no number",
                         over([g["reads"] for g in got[False]], [g["reads"] for g in got[True]]), "x"))
    return out


def main():
    b = Bench("ImpACT (TC '25)", __file__, "docs/results/impact.md")
    seeds = list(range(1, 1 + b.pick(2, 3, 5)))
    b.spread = f"Seeds 1 to {len(seeds)}."
    trace, data = b.trace(), b.pictures()
    gone = "skipped: the data is not here"

    def none(*names):
        return [figure(n, "see the paper", why=gone) for n in names]
    clock, f19, f22, sweeps = by_the_clock(b, Paced(b, data, seeds)) if data else ([], *none("Figure 19", "Figure 22"), [])
    says = " ".join(f"{s.name}: {s.says()}." for s in sweeps)
    f17, f18 = over_ranks(b, trace, seeds)
    f12, f13, f14, f15, f20, f21, f23 = on_trace(Trace(b, trace, seeds), clock, says) if trace else none(
        "Figure 12", "Figure 13", "Figure 14", "Figure 15", "Figure 20", "Figure 21", "Figure 23")
    loops = Loops(b, data, seeds) if data else None
    t1, f11, f16, t3 = in_training(b, loops) if data else none("Table I", "Figure 11", "Figure 16", "Table III")
    figures = [
        t1, figure("Table II", "accuracy on ImageNet", why="not measured: needs ImageNet and days of a GPU", caching=False), f11, f12, f13, f14, f15, f16, t3,
        f17, f18, f19, f20, f21, f22, f23]
    headlines = []
    if trace and data:
        f23["claims"] += several_models(b, data, seeds)
        best = (f"`rotate:h=0.5` {statistics.mean(loops.last('rotate:h=0.5')):.2f} ± {statistics.stdev(loops.last('rotate:h=0.5')):.2f} % with "
                f"{statistics.mean(loops.bytes('rotate:h=0.5')):.0f} MB, ImpACT {statistics.mean(loops.last('impact')):.2f} ± "
                f"{statistics.stdev(loops.last('impact')):.2f} % with {statistics.mean(loops.bytes('impact')):.0f} MB")
        headlines = [
            {"label": "training time against CoorDL (abstract: up to 3.5x), by misses", "claim": f12["claims"][6], "best": best},
            {"label": "the same, training on as few samples as figure 14 says", "claim": f12["claims"][f12["claims"].index(next(
                c for c in f12["claims"] if c["what"].startswith("training on as few") and "CoorDL" in c["what"]))], "best":
             f"top-1 lost by that: {statistics.mean(loops.below(THEIR_SHARE)):.2f} ± {statistics.stdev(loops.below(THEIR_SHARE)):.2f} points"},
            *({"label": "the same by the clock" if i else "training time against CoorDL by the clock", "claim": s.headline(), "best": "", "says": s.says()}
              for i, s in enumerate(sweeps[:2])),
            {"label": "training time against LRU (figure 12), by misses", "claim": f12["claims"][0], "best": ""},
            {"label": "hits, 20 % cached, stand-ins counted (figure 20)", "claim": f20["claims"][0], "best": ""},
            {"label": "time to accuracy, hybrid against history (figure 16), by bytes", "claim": f16["claims"][0], "best": ""}]
    b.finish(figures, headlines)


if __name__ == "__main__":
    sys.exit(main())
