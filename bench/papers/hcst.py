#!/usr/bin/env python3
"""HCST (hybrid caching for SVM training), section V: tables I to VI and figures 7 to 11 beside ours.

    bench/papers/hcst.py [--full] [--page]

Hit rates are of recordings of larder's trainer (`larder svm-train --record`, `larder sim --access`), which
takes 512 rows a round as ThunderSVM does. Times are CPU seconds of one thread, runs taken in turn.
Data: LIBSVM sets and MNIST under LARDER_SHARED (../shared/data). Others of the paper's sets lie in public repositories:
webdata (w8a) in unc-optimization/AccSPD, data/w8a; for sparse text Reuters, and ijcnn1, in X-DataInitiative/tick-datasets,
binary/. rcv1, real-sim, mnist8m, mediamill, rcv1s2, amazon, wikipedia, E2006-tfidf and the whole of covtype were found in none.
"""
import itertools
import json
import lzma
import os
import random
import resource
import statistics
import subprocess
import sys
import time

from beside import SHARED, Bench, claim, figure, plot

OLD = ["lru", "lfu", "lat", "efu"]
NAMES = {"lru": "LRU", "lfu": "LFU", "lat": "LAT", "efu": "EFU", "hcst": "HCST"}
LAMBDAS = [0.25, 0.5, 1, 2, 4, 8]
RBF = {"adult": (100, 0.5), "connect-4": (1, 0.3), "MNIST": (10, 0.125), "abalone": (10, 0.5)}
SIGMOID = {"adult": (10, 0.01), "connect-4": (10, 0.001), "MNIST": (10, 0.001), "abalone": (10, 0.01)}

# Table II: change of the training time against no cache in %, and the error on the training data.
TABLE_2 = {
    ("adult", "rbf"): {"hcst": -31.4, "lru": 1.1, "lfu": -9.5, "lat": -0.6, "efu": -17.6, "error": 4.4},
    ("connect-4", "rbf"): {"hcst": -26.0, "lru": 2.1, "lfu": -11.0, "lat": 3.1, "efu": -18.8, "error": 4.39},
    ("MNIST", "rbf"): {"hcst": -36.2, "lru": -9.1, "lfu": -26.0, "lat": -29.6, "efu": -33.5, "error": 0.0},
    ("webdata", "rbf"): {"hcst": -23.9, "lru": -0.4, "lfu": -11.2, "lat": 0.0, "efu": -17.7, "error": 0.54},
    ("real-sim", "rbf"): {"hcst": -34.4, "lru": -11.2, "lfu": -28.1, "lat": -21.8, "efu": -33.9, "error": 0.27},
    ("rcv1", "rbf"): {"hcst": -77.3, "lru": -78.9, "lfu": -78.3, "lat": -73.9, "efu": -77.2, "error": 0.11},
    ("mnist8m", "rbf"): {"hcst": -45.7, "lru": -34.2, "lfu": -39.9, "lat": -7.1, "efu": -40.5, "error": 0.0},
    ("covtype", "rbf"): {"hcst": -23.7, "lru": -14.5, "lfu": -19.8, "lat": -15.4, "efu": -20.7, "error": 0.0},
    ("mediamill", "rbf"): {"hcst": -33.9, "lru": -22.9, "lfu": -20.9, "lat": -16.1, "efu": -21.5, "error": 2.81},
    ("rcv1s2", "rbf"): {"hcst": -98.3, "lru": -62.0, "lfu": -62.2, "lat": -62.2, "efu": -61.9, "error": 1.97},
    ("amazon", "rbf"): {"hcst": -33.5, "lru": -9.0, "lfu": -21.5, "lat": -13.6, "efu": -29.5, "error": 0.0},
    ("wikipedia", "rbf"): {"hcst": -49.6, "lru": -15.6, "lfu": -27.8, "lat": -21.6, "efu": -35.0, "error": 0.0},
    ("abalone", "rbf"): {"hcst": -30.2, "lru": -17.0, "lfu": -18.9, "lat": -20.8, "efu": -22.6},
    ("E2006-tfidf", "rbf"): {"hcst": -48.0, "lru": -38.4, "lfu": -33.1, "lat": -36.1, "efu": -34.0},
    ("adult", "sigmoid"): {"hcst": -24.2, "lru": -13.3, "lfu": -2.6, "lat": 5.0, "efu": -6.9, "error": 15.2},
    ("abalone", "sigmoid"): {"hcst": -22.0, "lru": -12.2, "lfu": -17.1, "lat": -17.1, "efu": -19.5},
}
# Table III: change of the time for kernel values in %; cost of caching against HCST's, in %.
TABLE_3 = {
    "adult": ({"hcst": -42.6, "lru": -9.5, "lfu": -26.9, "lat": -14.7, "efu": -35.3},
              {"lru": 1405, "lfu": 1463, "lat": 1363, "efu": 1047}),
    "connect-4": ({"hcst": -33.6, "lru": -9.4, "lfu": -26.9, "lat": -11.0, "efu": -26.6},
                  {"lru": 910, "lfu": 952, "lat": 988, "efu": 238}),
    "MNIST": ({"hcst": -38.7, "lru": -15.8, "lfu": -32.54, "lat": -37.7, "efu": -38.1},
              {"lru": 773, "lfu": 823, "lat": 544, "efu": 541}),
}
# Table IV: seconds for kernel values without a cache and with HCST; the quotient tells its misses.
TABLE_4 = {"adult": (750, 516), "connect-4": (2320, 1766), "MNIST": (15122, 9134)}


# ---- data ------------------------------------------------------------------------------------------------

def mnist(rows):
    folder = os.path.join(SHARED, "mnist")
    images = lzma.open(os.path.join(folder, "train-images-idx3-ubyte.xz")).read()[16:]
    labels = lzma.open(os.path.join(folder, "train-labels-idx1-ubyte.xz")).read()[8:]
    text = [f"{i / 255:.6g}" for i in range(256)]
    for i in range(rows):
        pixels = images[i * 784:(i + 1) * 784]
        yield labels[i], " ".join(f"{j + 1}:{text[v]}" for j, v in enumerate(pixels) if v)


def lines_of(name, rows):
    """adult, connect-4 (won or lost), MNIST (odd or even), labels (MNIST: the digit, 10 if odd, 11 if above 4),
    abalone; at most so many rows."""
    if name in ("MNIST", "labels"):
        for digit, rest in mnist(rows):
            label = ("+1" if digit % 2 else "-1") if name == "MNIST" else ",".join(
                [str(digit)] + ["10"] * (digit % 2) + ["11"] * (digit > 4))
            yield f"{label} {rest}"
        return
    file = {"adult": "a9a", "connect-4": "connect-4", "abalone": "abalone_scale"}[name]
    with lzma.open(os.path.join(SHARED, "libsvm", file + ".xz"), "rt") as f:
        yield from itertools.islice((s.rstrip() for s in f if name != "connect-4" or not s.startswith("0 ")), rows)


def made_lines(name, rows):
    """For --tiny: two clouds that overlap."""
    rng = random.Random(name)
    for _ in range(rows):
        y = rng.choice((-1, 1))
        label = f"{rng.randrange(3)}" + (",3" if y > 0 else "") if name == "labels" else f"{y:+d}"
        yield f"{label} " + " ".join(f"{j + 1}:{rng.gauss(0.4 * y, 1):.3f}" for j in range(6))


def data(b, name, rows):
    path = b.path(f"{name}-{rows}")
    if not os.path.exists(path):
        with open(path, "w") as f:
            for line in made_lines(name, rows) if b.tiny else lines_of(name, rows):
                f.write(line + "\n")
    return path


def options(name, kernel):
    c, gamma = (RBF if kernel == "rbf" else SIGMOID)[name]
    return [*(["-s", 3] if name == "abalone" else []), *(["-t", 3] if kernel == "sigmoid" else []), "-c", c, "-g", gamma]


# ---- hit rates -------------------------------------------------------------------------------------------

class Recording:
    """One training's rows, in the order asked for."""

    def __init__(self, b, name, kernel, rows, kept):
        self.b, self.name, self.kernel, self.kept = b, name, kernel, kept
        self.label = name + (", sigmoid" if kernel == "sigmoid" else "")
        self.file, self.data = b.path(f"{name}-{kernel}.rows"), data(b, name, rows)
        self.model = self.file + ".model"
        self.words = ["svm-train", "-q", "--keep-repeats", "--cache", "off", "--threads", 1, "--record", self.file,
                      *options(name, kernel), self.data, self.model]

    def hits(self, policies, entries):
        """Hit % by (policy, entries)."""
        out = {}
        for text in self.b.run([["sim", "--access", self.file, "--policy", p, "--entries", ",".join(map(str, entries)),
                                 "--json", "--quiet"] for p in policies]):
            for got in map(json.loads, text.splitlines()):
                out[got["policy"], got["entries"]] = 100 * got["hit_ratio"]
                self.b.ledgers.append({"recording": self.label, "recipe": got["policy"], "cache": str(got["entries"]), "served": got["accesses"],
                                       "hits": got["hits"], "misses": got["accesses"] - got["hits"], "substitutes": 0,
                                       "repeats": 0})
        return out

    def lambdas(self):
        """(hit %, switches) by lambda."""
        text, = self.b.run([["sim", "--access", self.file, "--entries", self.kept, "--json", "--quiet", "--lambda",
                             ",".join(map(str, LAMBDAS))]])
        got = [json.loads(s) for s in text.splitlines()]
        return {x: (100 * g["hit_ratio"], len(g["switches"])) for x, g in zip(LAMBDAS, got)}


def figure_7(recordings, hits):
    claims, bars = [], {NAMES.get(p, p): [] for p in [*OLD, "hcst", "kkt"]}
    for i, r in enumerate(recordings):
        h = {p: hits[r.label][p, r.kept] for p in [*OLD, "hcst", "kkt", "belady"]}
        best = max(OLD, key=h.get)
        claims.append(claim(f"{r.label}: HCST above the best of the others (here {NAMES[best]})", "equal or above",
                            h["hcst"] - h[best], "points", holds=h["hcst"] >= h[best] - 0.5))
        for p in [*OLD, "hcst", "kkt"]:
            bars[NAMES.get(p, p)].append((i, h[p]))
    rbf = [r for r in recordings if r.kernel == "rbf" and r.name != "abalone"]
    claims.insert(0, claim("EFU above LRU, Gaussian kernel, mean over sets", "often 20 %",
                           statistics.mean(hits[r.label]["efu", r.kept] - hits[r.label]["lru", r.kept] for r in rbf), "points",
                           holds=all(hits[r.label]["efu", r.kept] > hits[r.label]["lru", r.kept] for r in rbf)))
    for r in [r for r in recordings if r.kernel == "sigmoid"]:
        h = {p: hits[r.label][p, r.kept] for p in OLD}
        claims.append(claim(f"{r.label}: LRU best of the old policies", "yes", h["lru"] - max(h[p] for p in OLD[1:]), "points",
                            holds=h["lru"] >= max(h.values()) - 0.5))
    return figure("Figure 7", "hit rates of the policies, Gaussian and sigmoid kernel", claims,
                  how="larder svm-train -q --keep-repeats --cache off --threads 1 --record R.rows -c C -g GAMMA SET\n"
                      "larder sim --access R.rows --entries 5000 --policy lru,lfu,lat,efu,hcst,kkt,belady",
                  note="C and gamma are the paper's. `kkt` is ours: it asks the solver who is far from being selected.",
                  plot=plot("HCST, figure 7: hit rate by policy", "", "hits, %", bars, bars=True,
                            ticks=[r.label for r in recordings], top=max(y for s in bars.values() for _, y in s)))


def figure_8(b, recordings, hits, sizes):
    claims, series = [], {}
    for r in recordings:
        h = hits[r.label]
        worst = min(sizes, key=lambda s: h["hcst", s] - max(h[p, s] for p in OLD))
        below = h["hcst", worst] - max(h[p, worst] for p in OLD)
        claims.append(claim(f"{r.label}: HCST against the best of the others, worst size ({worst} rows)", "equal or above",
                            below, "points", holds=below >= -0.5))
        large = [h[p, sizes[-1]] for p in [*OLD, "hcst"]]
        claims.append(claim(f"{r.label}: all five policies apart, {sizes[-1]} rows", "similar", max(large) - min(large), "points",
                            holds=max(large) - min(large) < 5))
    r = recordings[0]
    series = {NAMES.get(p, p): [(s, hits[r.label][p, s]) for s in sizes] for p in [*OLD, "hcst", "kkt", "belady"]}
    return figure("Figure 8", "hit rates over cache sizes, Gaussian kernel", claims,
                  how=f"larder sim --access R.rows --entries {','.join(map(str, sizes))} --policy lru,lfu,lat,efu,hcst,kkt,belady",
                  note="With large caches HCST keeps to EFU, which lets rows of equal count wait outside, while LRU already has all.",
                  plot=plot(f"HCST, figure 8: {r.label}, hit rate over cache size", "kernel rows kept", "hits, %", series,
                            ticks=sizes))


def figures_9_10(recordings):
    nine, ten, lines, switched = [], [], {}, {}
    for r in recordings:
        got = r.lambdas()
        lines[r.label] = [(x, h) for x, (h, _) in got.items()]
        switched[r.label] = [(x, s) for x, (_, s) in got.items()]
        below = got[2][0] - max(h for h, _ in got.values())
        nine.append(claim(f"{r.label}: lambda = 2 against the best lambda", "good in all cases", below, "points", holds=below > -1))
        apart = max(h for h, _ in got.values()) - min(h for h, _ in got.values())
        most = max(s for _, s in got.values())
        if r.name == "MNIST":
            nine.append(claim("MNIST: hits over all lambda apart", "no clear change", apart, "points", holds=apart < 1))
            ten.append(claim("MNIST: most switches over all lambda", 0, float(most), holds=most == 0))
        else:
            ten.append(claim(f"{r.label}: most switches over all lambda", "no number", float(most), digits=0))
    return (figure("Figure 9", "hit rates over lambda, the time between checkpoints", nine,
                   how="larder sim --access R.rows --entries 5000 --lambda 0.25,0.5,1,2,4,8",
                   plot=plot("HCST, figure 9: hit rate over lambda", "lambda", "hits, %", lines, ticks=LAMBDAS)),
            figure("Figure 10", "switches between EFU and LRU over lambda", ten,
                   plot=plot("HCST, figure 10: switches over lambda", "lambda", "switches", switched, ticks=LAMBDAS)))


# ---- times -----------------------------------------------------------------------------------------------

def timed(b, words):
    """CPU seconds of one run, and what it says of itself."""
    stats = b.path("stats")
    p = subprocess.Popen([b.options.larder, "svm-train", "-q", "--keep-repeats", "--stats", stats, *map(str, words), b.path("model")],
                         stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    if p.returncode:
        raise SystemExit(f"larder svm-train {' '.join(map(str, words))}: exit code {p.returncode}")
    with open(stats) as f:
        return used.ru_utime + used.ru_stime, json.load(f)


class Trainings:
    """The same training without a cache and with each policy, in turn, several times."""

    def __init__(self, b, name, kernel, rows, kept, repeats):
        self.label, self.cpu, self.stats = name + (", sigmoid" if kernel == "sigmoid" else ""), {}, {}
        self.name, self.kernel = name, kernel
        set_ = data(b, name, rows)
        for _ in range(repeats):
            for p in [None, "hcst", *OLD, "kkt"]:
                how = ["--cache", "on", "--rows", kept, "--cache-policy", p] if p else ["--cache", "off"]
                cpu, s = timed(b, ["--threads", 1, *how, *options(name, kernel), set_])
                self.cpu.setdefault(p, []).append(cpu)
                self.stats.setdefault(p, []).append(s)
                if p:
                    b.ledgers.append({"recipe": p, "cache": str(kept), "served": s["cache"]["asked"], "hits": s["cache"]["hits"],
                                      "misses": s["cache"]["asked"] - s["cache"]["hits"], "substitutes": 0, "repeats": 0})

    def faster(self, p):
        return [a / max(b, 1e-6) for a, b in zip(self.cpu[None], self.cpu[p])]

    def best_old(self):
        return max(OLD, key=lambda p: statistics.mean(self.faster(p)))


def gain(change):
    """A change of time in % as times faster."""
    return 1 / (1 + change / 100)


def table_2(trainings, errors):
    claims = []
    for t in trainings:
        theirs = TABLE_2[t.name, t.kernel]
        claims.append(claim(f"{t.label}: HCST against no cache", gain(theirs["hcst"]), t.faster("hcst"), "x"))
        claims.append(claim(f"{t.label}: LRU against no cache", gain(theirs["lru"]), t.faster("lru"), "x"))
        top = max(OLD, key=lambda p: -theirs[p])
        mine = t.best_old()
        claims.append(claim(f"{t.label}: HCST against the best other (theirs {NAMES[top]}, ours {NAMES[mine]})",
                            gain(theirs["hcst"]) / gain(theirs[top]),
                            [a / b for a, b in zip(t.faster("hcst"), t.faster(mine))], "x"))
    for name, kernel, wrong in errors:
        claims.append(claim(f"{name}, {kernel}: error on the training data", TABLE_2[name, kernel]["error"], wrong, "%"))
    first = trainings[0]
    names = [t.label for t in trainings]
    return figure("Table II", "training time of each policy against no cache", claims,
                  how="larder svm-train -q --keep-repeats --threads 1 --cache on --rows KEPT --cache-policy P … SET\n"
                      "larder svm-train -q --keep-repeats --threads 1 --cache off … SET",
                  note="CPU seconds; the first 8,000 rows of adult and connect-4, 4,000 of MNIST, all of abalone, with the share of the rows kept that "
                       "5,000 are in the paper (15, 8, 42 %: its pairs of digits have 12,000; all of abalone). "
                       f"Adult and connect-4 are binary: a row is made from bits in microseconds ({first.stats[None][0]['engine']}), "
                       "less than it takes to keep one, so that any cache costs time; the trainer leaves it off by itself. Where rows are dear "
                       "(MNIST) a cache saves, as in the paper.",
                  plot=plot("HCST, table II: times faster than no cache", "", "times faster", {
                      "paper HCST": [(i, gain(TABLE_2[t.name, t.kernel]["hcst"])) for i, t in enumerate(trainings)],
                      **{NAMES.get(p, p): [(i, statistics.mean(t.faster(p))) for i, t in enumerate(trainings)]
                         for p in ("hcst", "lru", "efu", "kkt")}}, bars=True, ticks=names))


def table_3(trainings):
    claims = []
    for t in trainings:
        if t.name not in TABLE_3 or t.kernel != "rbf":
            continue
        kernel, cost = TABLE_3[t.name]

        def spared(p, t=t):
            return 100 * t.stats[p][0]["cache"]["hits"] / t.stats[p][0]["cache"]["asked"]
        for p in ("hcst", "lru", "efu"):
            claims.append(claim(f"{t.label}: work for kernel values spared, {NAMES[p]}", -kernel[p], spared(p), "%"))
        mine = statistics.median(s["seconds"]["cache"] for s in t.stats["hcst"])
        lru = statistics.median(s["seconds"]["cache"] for s in t.stats["lru"])
        claims.append(claim(f"{t.label}: cost of caching, LRU against HCST", 1 + cost["lru"] / 100, lru / max(mine, 1e-9), "x"))
    return figure("Table III", "kernel values, and the cost of caching", claims,
                  note="Work is counted in rows made, which no other load disturbs; the cost of caching is wall time of the same "
                       "runs, medians. In the paper HCST's replacement alone is parallel, hence its factors of 8 to 15 over LRU; here all "
                       "policies share one cache (what deciding costs is above). Its gap between HCST and EFU is not hits: HCST never leaves EFU there.")


def table_4(recordings, hits):
    claims = []
    for r in recordings:
        if r.kernel != "rbf" or r.name not in TABLE_4:
            continue
        before, after = TABLE_4[r.name]
        claims.append(claim(f"{r.label}: kernel seconds left of {before}, by HCST's hits", float(after),
                            before * (1 - hits[r.label]["hcst", r.kept] / 100), "s"))
        claims.append(claim(f"{r.label}: HCST's hits, which that implies", 100 * (1 - after / before),
                            hits[r.label]["hcst", r.kept], "%"))
    return figure("Table IV", "the time on a GPU, estimated from hits", claims,
                  note="The paper computes these from hit rates (it writes h t where (1 - h) t is meant), which are given nowhere else as "
                       "numbers. With our hits on the same sets the same seconds come out for adult; connect-4 is two of its three classes here, "
                       "MNIST odd or even of some thousand pictures, with 42 % of the rows kept, which 5,000 are of a pair of digits.")


def figure_11(b, name, rows, kept, repeats):
    set_, got = data(b, name, rows), {}
    for _ in range(repeats):
        for threads in (1, 2, 4):
            _, s = timed(b, ["--threads", threads, "--cache", "on", "--rows", kept, "--cache-policy", "hcst",
                             *options(name, "rbf"), set_])
            got.setdefault(threads, []).append(s)
    rate = {t: 100 * g[0]["cache"]["hits"] / g[0]["cache"]["asked"] for t, g in got.items()}
    cost = {t: statistics.median(s["seconds"]["cache"] for s in g) for t, g in got.items()}
    return [figure("Figure 11a", "cost of caching over threads", [
        claim(f"{name}: cost left with two threads, of one thread's", "below 60 %", 100 * cost[2] / max(cost[1], 1e-9), "%",
              holds=cost[2] < 0.6 * cost[1])],
        how=f"larder svm-train -q --keep-repeats --threads 1|2|4 --cache on --rows {kept} --cache-policy hcst --stats FILE …",
        note="Wall time, two cores: on a machine that does other work it says nothing about the policy."),
        figure("Figure 11b", "hit rate over threads", [
            claim(f"{name}: hits with one, two and four threads apart", "almost unchanged", max(rate.values()) - min(rate.values()),
                  "points", holds=max(rate.values()) - min(rate.values()) < 0.5, digits=2)])]


def table_6(b, rows, kept, repeats):
    set_, got = data(b, "labels", rows), {}
    ways = {"none": ["--cache", "off", "--separate-rows"],
            "IR": ["--cache", "on", "--rows", kept, "--cache-policy", "hcst", "--separate-rows"],
            "both": ["--cache", "on", "--rows", kept, "--cache-policy", "hcst"],
            "all": ["--cache", "on", "--rows", rows, "--cache-policy", "hcst"]}
    for _ in range(repeats):
        for n, how in ways.items():
            cpu, s = timed(b, ["--threads", 1, *how, "--multi-label", "-c", 10, "-g", 0.125, set_])
            got.setdefault(n, []).append((cpu, s["values"]))
    made = {n: g[0][1] for n, g in got.items()}
    cpu = {n: [c for c, _ in g] for n, g in got.items()}
    return figure("Table VI", "rows shared by the labels of one task", [
        claim("time with both reuses against no cache (mediamill)", gain(-33.9), [a / b for a, b in zip(cpu["none"], cpu["both"])], "x"),
        claim("time within a label alone against no cache (mediamill)", gain(-23.0), [a / b for a, b in zip(cpu["none"], cpu["IR"])], "x"),
        claim("time with both against within a label alone (mediamill)", gain(-33.9) / gain(-23.0),
              [a / b for a, b in zip(cpu["IR"], cpu["both"])], "x"),
        claim("kernel values made with both against no cache", "no number", made["none"] / max(made["both"], 1), "x"),
        claim("time with all rows kept against no cache (rcv1s2)", 57.4, [a / b for a, b in zip(cpu["none"], cpu["all"])], "x"),
        claim("kernel values made with all rows kept against no cache", "no number", made["none"] / max(made["all"], 1), "x"),
    ], how=f"larder svm-train -q --keep-repeats --multi-label --threads 1 --cache on --rows {kept} --cache-policy hcst [--separate-rows] …",
        note=f"MNIST, {rows} pictures with twelve labels (the digit, odd, above four); mediamill, rcv1s2, amazon and wikipedia are not here. "
             "The share kept is mediamill's; the paper's largest case (rcv1s2) keeps all of its 3,000 rows.")


def main():
    b = Bench("HCST", __file__, "docs/results/svm-cache.md")
    names = ["Table I", "Figure 7", "Figure 8", "Table II", "Table III", "Table IV", "Figure 9", "Figure 10", "Figure 11a",
             "Figure 11b", "Table V", "Table VI"]
    if not b.tiny and not os.path.isdir(os.path.join(SHARED, "libsvm")):
        b.skip("no LIBSVM sets (libsvm under LARDER_SHARED)")
        b.finish([figure(n, "", why="skipped: the data is not here") for n in names], [])
        return
    repeats = b.pick(1, 3, 5)
    b.spread = f"Repeats of times: {repeats}; hit rates have no chance in them."
    tiny = (1200, 150)
    recordings = [Recording(b, name, kernel, *(tiny if b.tiny else size)) for name, kernel, size in (
        ("adult", "rbf", (32561, 5000)), ("adult", "sigmoid", (32561, 5000)), ("connect-4", "rbf", (61108, 5000)),
        ("MNIST", "rbf", b.pick(None, (6000, 2500), (10000, 4167))))]
    if b.full:
        recordings.insert(3, Recording(b, "connect-4", "sigmoid", 61108, 5000))
    b.run([r.words for r in recordings])
    sizes = b.pick([150, 300, 600, 800], [5000, 10000, 15000, 20000], [5000, 10000, 15000, 20000])
    large = [r for r in recordings if r.kernel == "rbf" and r.name != "MNIST"]
    hits = {r.label: r.hits([*OLD, "hcst", "kkt", "belady"], sizes if r in large else [r.kept]) for r in recordings}
    errors = []
    for r in recordings[:2]:
        text, = b.run([["svm-predict", r.data, r.model, b.path("said")]])
        errors.append((r.name, r.kernel, 100 - float(text.split("=")[1].split("%")[0])))
    took = time.monotonic(), sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    trainings = [Trainings(b, name, kernel, *(tiny if b.tiny else size), repeats) for name, kernel, size in (
        ("adult", "rbf", (8000, 1230)), ("connect-4", "rbf", (8000, 655)), ("MNIST", "rbf", (4000, 1667)),
        ("abalone", "rbf", (4177, 4177)), ("adult", "sigmoid", (8000, 1230)))]
    nine, ten = figures_9_10(recordings)
    figures = [
        figure("Table I", "data sets and parameters", why="no result; adult, connect-4, MNIST and abalone are here, with its C and gamma"),
        figure_7(recordings, hits), figure_8(b, large, hits, sizes), table_2(trainings, errors), table_3(trainings),
        table_4(recordings, hits), nine, ten, *figure_11(b, "MNIST", *(tiny if b.tiny else (3000, 600)), repeats),
        figure("Table V", "table II on another machine", why="another machine's times, with 48 threads; its sets and policies are those of table II"),
        table_6(b, *(tiny if b.tiny else (3000, 480)), min(repeats, 2))]
    wall, cpu = time.monotonic() - took[0], sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - took[1]
    if wall > 1.5 * cpu:
        b.spread += " The machine did other work, so that wall times (table III's cost, figure 11a) were left out."
        for c in [c for f in figures for c in f["claims"] if f["id"] in ("Table III", "Figure 11a") and ": cost " in c["what"]]:
            c["ours"] = f"not measured: the machine was too busy, runs took {wall / cpu:.1f} times their time"
    adult, mnist_ = trainings[0], trainings[2]
    less = [statistics.mean(v[p] for p in OLD) - v["hcst"] for v in TABLE_2.values()]
    ours = [100 * (statistics.mean(1 / statistics.mean(t.faster(p)) for p in OLD) - 1 / statistics.mean(t.faster("hcst")))
            for t in trainings]
    kkt = {r.label: hits[r.label]["kkt", r.kept] - hits[r.label]["hcst", r.kept] for r in recordings}
    below = claim("HCST's time below the others', points of the time without a cache, mean over sets",
                  "20 % on average; by its table II, our mean of it: " + f"{statistics.mean(less):.1f}", statistics.mean(ours), "points",
                  holds=statistics.mean(ours) > 0)
    figures[3]["claims"].append(below)  # of table II

    def spared(t, p):
        return 100 * t.stats[p][0]["cache"]["hits"] / t.stats[p][0]["cache"]["asked"]
    most = statistics.mean(spared(t, "hcst") - statistics.mean(spared(t, p) for p in OLD) for t in trainings)
    says = (f"by rows spared it could be {most:.1f} points, were making rows all that costs time; it is where rows are dear: MNIST "
            f"{statistics.mean(trainings[2].faster('hcst')):.2f}x as fast as without a cache, adult {statistics.mean(trainings[0].faster('hcst')):.2f}x")
    headlines = [
        {"label": "EFU's hits above LRU's, Gaussian kernel", "claim": figures[1]["claims"][0],
         "best": "`kkt` above HCST at equal rows kept: " + ", ".join(f"{n} {v:+.1f} points" for n, v in kkt.items())},
        {"label": "HCST's time below the other policies', points of the time without a cache, mean over sets",
         "claim": below, "says": says,
         "best": f"CPU seconds: adult {statistics.mean(adult.cpu[None]):.2f} without a cache, {statistics.mean(adult.cpu['hcst']):.2f} HCST; "
                 f"MNIST {statistics.mean(mnist_.cpu[None]):.2f}, {statistics.mean(mnist_.cpu['hcst']):.2f} HCST, "
                 f"{statistics.mean(mnist_.cpu['kkt']):.2f} `kkt`"}]
    b.finish(figures, headlines)


if __name__ == "__main__":
    sys.exit(main())
