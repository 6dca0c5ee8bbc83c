"""What the scripts of this folder share: runs of `larder`, a paper's claims as data, the table that has
both side by side, its plots, and the part of a page of docs/results that they write.

A script lists every table and figure of its paper's evaluation as figure(…): with claims, or with a
line why nothing here compares. Its options:

    --tiny   a small made data set, seconds: for tests, the numbers mean nothing
    --full   more epochs and seeds
    --page   write the part of the page between its markers, the plots and the summary
    --json   the results as one JSON object instead of the table
"""
import argparse
import atexit
import concurrent.futures
import json
import math
import os
import resource
import shlex
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import textwrap
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", ".."))
SHARED = os.environ.get("LARDER_SHARED", os.path.join(ROOT, "..", "shared", "data"))
FASHION = "/usr/share/datasets/fashion-mnist"
BEGIN, END = "<!-- beside the paper: begin, written by %s -->", "<!-- beside the paper: end -->"
NEAR = 0.2  # a claim holds if ours is within this share of theirs, and for gains at least half of it


# ---- claims --------------------------------------------------------------------------------------------

class Timed(list):
    """Numbers that a clock gave, and how late it went: times as long as asked that paced steps took."""

    def __init__(self, values, late):
        super().__init__(values)
        self.late = late


def timed(values, *of):
    """Values made from others: as late as the latest of these, where one of them is Timed."""
    late = max([v.late for v in of if isinstance(v, Timed)], default=None)
    return list(values) if late is None else Timed(values, late)


def over(a, b):
    """Of each seed."""
    return timed([x / y if y else float("nan") for x, y in zip(a, b)], a, b)


def claim(what, theirs, ours, unit="", holds=None, digits=None):
    """One number of a figure. theirs: a number, or words where the paper gives no number; ours: a number,
    several (of seeds), words (why there is none), or None. holds overrides the verdict. What a clock gave on a machine
    that was too busy for it is no number."""
    if isinstance(ours, Timed) and ours.late > TOO_LATE:
        ours = f"not measured: the machine was too busy, steps took {ours.late:.1f} times their time"
    values = [float(v) for v in ours] if isinstance(ours, (list, tuple)) else ours
    if isinstance(values, list) and (not values or any(math.isnan(v) for v in values)):
        values = None
    return {"what": what, "theirs": theirs, "ours": values, "unit": unit, "holds": holds, "digits": digits}


def figure(name, shows, claims=(), why="", how="", note="", plot=None, caching=True):
    """why: one line, where nothing of ours compares. how: the commands. note: the evidence, in words. caching: it is
    about what a cache does, its hits, bytes or times, and not about accuracy alone or a list of properties."""
    assert bool(claims) != bool(why), name
    return {"id": name, "shows": shows, "claims": list(claims), "why": why, "how": how, "note": note,
            "plot": plot, "caching": caching}


def mean_of(ours):
    return statistics.mean(ours) if isinstance(ours, list) else ours


def verdict(c):
    ours, theirs = mean_of(c["ours"]), c["theirs"]
    if ours is None or isinstance(ours, str):
        return "not measured"
    if c["holds"] is not None:
        return c["holds"] if isinstance(c["holds"], str) else "holds" if c["holds"] else "does not hold"
    if not isinstance(theirs, (int, float)):
        return ""
    if c["unit"] == "x" and theirs != 1:  # a gain of 1.1 is not had by 0.95, near as it is
        part = math.log(max(ours, 1e-9)) / math.log(theirs)
        if part <= 0:
            return "does not hold"
        if abs(ours / theirs - 1) <= NEAR and part >= 0.5:
            return "holds"
        return "same way, more" if part > 1 else "same way, less"
    if theirs and abs(ours / theirs - 1) <= NEAR:
        return "holds"
    return "higher" if ours > theirs else "lower"


def shown(value, unit, digits=None):
    if value is None:
        return "not measured"
    if isinstance(value, str):
        return value
    space = "" if unit == "x" else " " if unit else ""
    if isinstance(value, list):
        text = number(statistics.mean(value), digits)
        if len(value) > 1:
            text += f" ± {number(statistics.stdev(value), digits)}"
        return text + space + unit
    return number(value, digits) + space + unit


def number(v, digits=None):
    if digits is None:
        digits = 0 if abs(v) >= 1000 else 1 if abs(v) >= 10 else 2
    return f"{v:.{digits}f}"


# ---- running larder -------------------------------------------------------------------------------------

class Bench:
    """The settings of one script and what it has run. A command that comes twice runs once."""

    def __init__(self, paper, script, page):
        self.paper, self.script, self.page = paper, os.path.basename(script), page
        a = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__,
                                    formatter_class=argparse.RawDescriptionHelpFormatter)
        a.add_argument("--tiny", action="store_true", help="a small made data set: for tests")
        a.add_argument("--full", action="store_true", help="more epochs and seeds")
        a.add_argument("--page", action="store_true", help="write docs/results and docs/img")
        a.add_argument("--json", action="store_true", help="print the results as JSON")
        a.add_argument("--larder", default=os.environ.get("LARDER", os.path.join(ROOT, "build", "larder")))
        a.add_argument("--jobs", type=int, default=2, help="commands at a time (2)")
        self.options = a.parse_args()
        if self.options.tiny and self.options.page:
            a.error("--tiny writes no page")
        self.tiny, self.full = self.options.tiny, self.options.full
        self.known, self.ledgers, self.skipped, self.spread = {}, [], [], ""
        self.folder = tempfile.mkdtemp(prefix="larder-papers-")
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        self.cpu = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
        self.load, self.begun = os.getloadavg()[0], time.monotonic()
        if self.tiny:  # numbers that mean nothing need no clock that does
            global TOO_LATE
            TOO_LATE = math.inf

    def pick(self, tiny, quick, full):
        return tiny if self.tiny else full if self.full else quick

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def say(self, what):
        print(f"{self.script[:-3]}, {time.monotonic() - self.begun:.0f} s: {what}", file=sys.stderr, flush=True)

    def run(self, words, jobs=None, again=False):
        """Standard output of each command line, in order; several at a time. again: even what ran already."""
        words = [tuple(str(w) for w in line) for line in words]
        todo = [w for w in dict.fromkeys(words) if again or w not in self.known]
        if todo:
            self.say(f"{len(todo)} times larder {todo[0][0]}")

        def one(line):
            p = subprocess.run([self.options.larder, *line], capture_output=True, text=True)
            if p.returncode:
                raise SystemExit(f"larder {shlex.join(line)}: {p.stderr.strip()}")
            return p.stdout
        with concurrent.futures.ThreadPoolExecutor(jobs or self.options.jobs) as pool:
            for line, out in zip(todo, pool.map(one, todo)):
                self.known[line] = out
        return [self.known[w] for w in words]

    def sim(self, lines):
        """Totals of `larder sim`, one a line of options; with its epochs under "epochs"."""
        out = []
        for text in self.run([["sim", "--json", "--quiet", *line] for line in lines]):
            got = json.loads(text)
            out.append(dict(got["total"], epochs=got["epochs"], recipe=got["recipe"], cache=got["cache"],
                            n=got["n"]))
            self.ledgers.append({k: out[-1][k] for k in ("recipe", "cache", "n", "served", "hits", "substitutes",
                                                         "repeats", "misses", "touched", "storage_bytes")})
            self.ledgers[-1]["epochs"] = len(got["epochs"])
        return out

    def train(self, lines, jobs=None, again=False):
        """Epochs of `larder train`, one list a line of options."""
        out = []
        for line, text in zip(lines, self.run([["train", "--json", "--quiet", *w] for w in lines], jobs, again)):
            epochs = [json.loads(e) for e in text.splitlines()]
            out.append(epochs)
            total = {k: sum(e[k] for e in epochs) for k in ("served", "hits", "substitutes", "repeats", "misses",
                                                            "storage_bytes")}
            words = [str(w) for w in line]
            self.ledgers.append(dict(total, recipe=words[words.index("--recipe") + 1],
                                     cache=words[words.index("--cache") + 1], epochs=len(epochs),
                                     touched=statistics.mean(e["touched"] for e in epochs)))
        return out

    # ---- data

    def trace(self):
        """A folder with a recorded training: the real one, or one that is made up (--tiny); None: neither."""
        real = os.path.join(SHARED, "traces", "cifar10-resnet18")
        if self.tiny:
            return made_trace(self.path("trace"), 2000, 5)
        if os.path.isdir(real):
            return real
        self.skip("no recorded training (traces/cifar10-resnet18 under LARDER_SHARED)")
        return None

    def pictures(self):
        """What `larder train` trains on: Fashion-MNIST, or pictures that are made up (--tiny)."""
        if self.tiny:
            return made_pictures(self.path("pictures"))
        if os.path.isdir(FASHION):
            return FASHION
        self.skip(f"no {FASHION} (package dataset-fashion-mnist)")
        return None

    def skip(self, why):
        if why not in self.skipped:
            self.skipped.append(why)

    # ---- the end of a script

    def finish(self, figures, headlines):
        """Prints the table, or JSON; with --page writes all that docs have of it. headlines: lines of the
        summary: (claim, theirs, ours by their method, our best at equal storage bytes), as words."""
        cpu = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - self.cpu
        size = self.pick("--tiny", "quick", "--full")
        loads = [self.load, os.getloadavg()[0]]
        result = {"paper": self.paper, "script": self.script, "page": self.page, "size": size,
                  "cpu_seconds": round(cpu, 1), "load": [round(x, 1) for x in loads], "figures": figures, "headlines": headlines,
                  "ledgers": self.ledgers, "skipped": self.skipped, "spread": self.spread}
        for c in [c for f in figures for c in f["claims"]] + [h["claim"] for h in headlines]:
            c["verdict"] = verdict(c)
        if self.options.json:
            print(json.dumps(result))
        else:
            print("\n".join(text_table(result)))
        if self.options.page:
            if self.skipped:
                print("the page stays as it is: " + "; ".join(self.skipped), file=sys.stderr)
                return
            write_page(result)
            keep = os.path.join(ROOT, "build", "papers")
            os.makedirs(keep, exist_ok=True)
            with open(os.path.join(keep, self.script.replace(".py", ".json")), "w") as out:
                json.dump(result, out)


# ---- times -----------------------------------------------------------------------------------------------

TOO_LATE = 1.3  # paced steps that took so many times what was asked say nothing about time


STEP = 3.0  # ms a batch of 128: ResNet-18 on an H200 takes 50,000 samples of CIFAR-10 in 1.18 s (docs/results/gpu.md)


SLOWED = 2  # steps and storage alike, so that ratios stay and a busy machine's late wake-ups matter less


def step_ms(net="resnet18"):
    """As bench/gpu/steps.py --record left it; STEP where it has not been run."""
    path = os.path.join(ROOT, "bench", "gpu", "results", "steps.json")
    if not os.path.exists(path):
        return STEP
    with open(path) as f:
        return json.load(f).get(net, {}).get("ms_128", STEP)


class Paced:
    """Epochs by the clock: a step lasts a GPU's time, storage is throttled to so many times less than that takes.
    Both are sleeps, so that several runs go side by side and repeat; the network that gives the losses is a thin one.
    A run whose steps were late is done once more, alone."""

    AT_ONCE = 8  # a run is busy for a fortieth of its time

    def __init__(self, b, data, seeds, net="resnet18"):
        self.b, self.seeds, self.step = b, seeds, SLOWED * step_ms(net)
        self.n, self.size = b.pick((600, 64), (3000, 784), (10000, 784))
        self.epochs, self.data, self.given = b.pick(2, 8, 12), data, data
        if not b.tiny:
            self.data = b.path("paced")
            if not os.path.isdir(self.data):
                subprocess.run([sys.executable, os.path.join(ROOT, "bench", "noisy_labels.py"), data, self.data, "--share", "0",
                                "--samples", str(self.n)], check=True, stdout=subprocess.DEVNULL)

    def slow(self, times):
        steps = -(-self.n // 128)
        return f"bandwidth={self.n * self.size / (steps * self.step / 1e3) / times:.0f}"

    def words(self, recipe, cache, seed, slow, more=()):
        return [self.data, "--recipe", recipe, "--cache", f"{cache:g}%", "--epochs", self.epochs, "--seed", seed, "--threads", 1,
                "--net", "thin", "--batch", 128, "--pace", f"{self.step:g}ms", "--slow", slow, "--test", "none", *more]

    def late(self, run):
        """Times as long as asked that its steps took."""
        took = [(e["seconds"] - e["stall_seconds"]) / (e["served"] / 128 * self.step / 1e3) for e in run]
        assert min(took) > 0.999, took  # no epoch is shorter than its steps
        return statistics.median(took)

    def prepare(self, *several):
        """Runs what several calls of get will ask for, all side by side. One: (recipe, cache, times or slow, more)."""
        self.b.train([self.words(recipe, cache, s, slow if isinstance(slow, str) else self.slow(slow), more)
                      for recipe, cache, slow, more in several for s in self.seeds], self.AT_ONCE)

    def get(self, recipe, cache=20, times=4, slow=None, more=()):
        """Epochs of the second half, of each seed; how late the latest seed's steps were."""
        lines = [self.words(recipe, cache, s, slow or self.slow(times), more) for s in self.seeds]
        runs = self.b.train(lines, self.AT_ONCE)
        for i, line in enumerate(lines):
            if self.late(runs[i]) > TOO_LATE:
                runs[i], = self.b.train([line], 1, again=True)
        return [run[len(run) // 2:] for run in runs], max(self.late(run) for run in runs)

    def each(self, of, *a, **k):
        """One number of each seed, made by `of` from its epochs."""
        runs, late = self.get(*a, **k)
        return Timed([of(run) for run in runs], late)

    def mean(self, name, *a, **k):
        return self.each(lambda run: statistics.mean(e[name] for e in run), *a, **k)

    def stalled(self, *a, **k):
        return self.each(lambda run: 100 * sum(e["stall_seconds"] for e in run) / sum(e["seconds"] for e in run), *a, **k)

    def faster(self, recipe, than, cache=20, times=4, slow=None, more=(), than_cache=None):
        return over(self.mean("seconds", than, than_cache or cache, times, slow, more),
                    self.mean("seconds", recipe, cache, times, slow, more))

    def most(self, recipe, than, cache=20, times=4):
        """The most that any storage can make of it: of bytes read or of samples trained on, whichever is more. No clock."""
        def ratio(name):
            least = [max(v, 1) for v in self.mean(name, recipe, cache, times)]  # some read nothing at all
            return over(list(self.mean(name, than, cache, times)), least)
        return [max(v) for v in zip(ratio("storage_bytes"), ratio("served"))]

    def how(self, recipes):
        return ("bench/noisy_labels.py /usr/share/datasets/fashion-mnist some --share 0 --samples "
                f"{self.n}\nlarder train some --net thin --batch 128 --threads 1 --pace {self.step:g}ms --slow {self.slow(4)} --test none \\\n"
                f"    --epochs {self.epochs} --seed S --cache C --recipe {recipes}")


NETWORKS = {"vgg16": "VGG-16", "shufflenet": "ShuffleNet", "mobilenet": "MobileNet", "resnet50": "ResNet-50"}


def by_network(b, paced, recipe, than):
    """The same storage, four times slower than ResNet-18 trains, beside other networks' steps: what is gained with each of
    those that bench/gpu/steps.py recorded, ResNet-18 among them."""
    out, slow = {"ResNet-18": paced.faster(recipe, than)}, paced.slow(4)
    for net, name in NETWORKS.items():
        other = Paced(b, paced.given, paced.seeds, net)
        other.prepare((recipe, 20, slow, ()), (than, 20, slow, ()))
        out[f"{name} ({step_ms(net):.1f} ms a step)"] = other.faster(recipe, than, slow=slow)
    return out


def over_networks(gains):
    """The mean of each seed."""
    return timed([statistics.mean(v) for v in zip(*gains.values())], *gains.values())


class Sweep:
    """A speed-up over how much slower than training storage is, beside what the paper says and what can be at most."""

    def __init__(self, b, paced, name, recipe, than, theirs, cache=20):
        self.name, self.theirs = name, theirs
        self.times = b.pick((4,), (1, 2, 4, 8, 16), (1, 2, 4, 8, 16, 32))
        paced.prepare(*((r, cache, t, ()) for t in self.times for r in (recipe, than)))
        self.gain = {t: paced.faster(recipe, than, cache, t) for t in self.times}
        self.most = paced.most(recipe, than, cache, self.times[-1])

    def means(self):
        return {t: statistics.mean(v) for t, v in self.gain.items()}

    def near(self):
        """Of the storages tried the one whose gain is nearest to theirs."""
        return min(self.times, key=lambda t: abs(math.log(self.means()[t] / self.theirs)))

    def claims(self):
        return [*(claim(f"by the clock, storage {t} times slower than training: {self.name}", self.theirs, v, "x") for t, v in self.gain.items()),
                claim(f"{self.name}, the most at any storage, by reads and samples", self.theirs, self.most, "x")]

    def headline(self):
        """The claim at the storage nearest to theirs."""
        return self.claims()[self.times.index(self.near())]

    def says(self):
        """In one line: at which storage theirs comes out, or that it does at none."""
        got, most = self.means(), statistics.mean(self.most)
        if any(v.late > TOO_LATE for v in self.gain.values()):
            return f"not judged: the machine was too busy; by reads at most {most:.2f}x at any storage"
        for low, high in zip(self.times, self.times[1:]):
            if (got[low] - self.theirs) * (got[high] - self.theirs) <= 0:
                at = low + (high - low) * (self.theirs - got[low]) / (got[high] - got[low])
                return f"{self.theirs:g}x comes out where storage is {at:.1f} times slower than training"
        near = self.near()
        word = "within 20 % of it" if abs(got[near] / self.theirs - 1) <= NEAR else "at no storage speed"
        return f"{word}: {got[near]:.2f}x where storage is {near} times slower, at most {most:.2f}x by reads at any"

    def plot(self, title):
        ends, most = (self.times[0], self.times[-1]), statistics.mean(self.most)
        return plot(title, "storage, times slower than training", "times faster", {
            "paper": [(t, self.theirs) for t in ends], "by the clock": list(self.means().items()),
            "most, by reads": [(t, most) for t in ends if most < 4 * max(self.theirs, *self.means().values())]}, ticks=list(self.times))


# ---- tables ----------------------------------------------------------------------------------------------

def rows_of(result):
    """(figure, what, theirs, ours, verdict) of every line."""
    for f in result["figures"]:
        if f["why"]:
            yield f["id"], f["shows"], "", f["why"], "not compared"
        for c in f["claims"]:
            yield (f["id"], c["what"], shown(c["theirs"], c["unit"], c["digits"]),
                   shown(c["ours"], c["unit"], c["digits"]), c["verdict"])


def text_table(result):
    head = ("figure", "what", "the paper", "ours", "")
    rows = [head, *rows_of(result)]
    most = (12, 62, 24, 36, 16)
    width = [min(most[i], max(len(r[i]) for r in rows)) for i in range(5)]
    yield f"{result['paper']}, its evaluation beside ours ({result['size']}, {result['cpu_seconds']:.0f} CPU s)"
    for r in rows:
        yield "  ".join(c.ljust(w) for c, w in zip(r, width)).rstrip()
    counts = count(result)
    yield (f"{counts['figures']} tables and figures, {counts['with']} with a number of ours; "
           f"of {counts['claims']} claims {counts['hold']} hold")
    yield from (f"skipped: {s}" for s in result["skipped"])


def count(result):
    """Tables and figures; those that are about caching; with a number of ours, of both."""
    claims = [c for f in result["figures"] for c in f["claims"] if c["verdict"] not in ("", "not measured")]
    with_number = [f for f in result["figures"] if any(mean_of(c["ours"]) is not None and not isinstance(c["ours"], str)
                                                       for c in f["claims"])]
    return {"figures": len(result["figures"]), "claims": len(claims), "with": len(with_number),
            "caching": sum(f["caching"] for f in result["figures"]), "caching_with": sum(f["caching"] for f in with_number),
            "hold": sum(c["verdict"] == "holds" for c in claims)}


def plot_name(result, f):
    return f"papers-{result['script'][:-3]}-{''.join(ch for ch in f['id'].lower() if ch.isalnum())}.svg"


def wrapped(text):
    return textwrap.wrap(text, 116, break_long_words=False, break_on_hyphens=False)


def page_part(result):
    c = count(result)
    full = " --full" if result["size"] == "--full" else ""
    yield "## Beside the paper"
    yield ""
    yield from wrapped(
        f"Every table and figure of the evaluation of {result['paper']}, by `bench/papers/{result['script']}{full}` "
        f"({result['cpu_seconds']:.0f} CPU seconds, the machine's load {min(result['load']):.0f} to {max(result['load']):.0f}). A claim *holds* if ours is within 20 % of theirs, and a gain has half of it "
        f"at least; {c['hold']} of {c['claims']} do. ± is one standard deviation over seeds. {result['spread']}")
    yield ""
    yield "| figure | what | the paper | ours | |"
    yield "|---|---|---|---|---|"
    for r in rows_of(result):
        yield "| " + " | ".join(r) + " |"
    for f in result["figures"]:
        if not (f["note"] or f["how"] or f["plot"]):
            continue
        yield ""
        yield from wrapped(f"**{f['id']}**, {f['shows']}. {f['note']}")
        if f["how"]:
            yield ""
            yield "```"
            yield from f["how"].strip().splitlines()
            yield "```"
        if f["plot"]:
            yield ""
            yield f"![{f['id']}: {f['plot']['title']}](../img/{plot_name(result, f)})"


def write_page(result):
    for f in result["figures"]:
        if f["plot"]:
            draw(os.path.join(ROOT, "docs", "img", plot_name(result, f)), f["plot"])
    write_part(os.path.join(ROOT, result["page"]), result["script"], page_part(result))


def write_part(path, script, lines):
    begin = BEGIN % f"bench/papers/{script}"
    with open(path, encoding="utf-8") as f:
        text = f.read()
    part = "\n".join([begin, "", *lines, "", END])
    if begin in text:
        before, rest = text.split(begin, 1)
        text = before + part + rest.split(END, 1)[1]
    else:
        text = text.rstrip("\n") + "\n\n" + part + "\n"
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


# ---- plots -----------------------------------------------------------------------------------------------

COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#8C6D1F", "#56B4E9", "#444444", "#E0A800", "#882255", "#999999"]


def plot(title, x, y, series, bars=False, ticks=None, top=None):
    """series: name -> points (x, y); with bars x is a place in ticks. A name that starts with "paper" is the
    paper's: hollow."""
    return {"title": title, "x": x, "y": y, "bars": bars, "ticks": ticks, "top": top,
            "series": {k: [[float(a), float(b)] for a, b in v] for k, v in series.items() if v}}


def steps(low, high):
    """Round numbers for an axis."""
    size = 10 ** math.floor(math.log10(max(high - low, 1e-9) / 4))
    size *= next(m for m in (1, 2, 2.5, 5, 10) if (high - low) / (m * size) <= 6)
    at, out = math.floor(low / size) * size, []
    while at < high + size * 0.999:
        out.append(round(at, 10))
        at += size
    return out


def draw(path, p):
    points = [q for s in p["series"].values() for q in s]
    width, height, left, top, right, bottom = 760, 400, 64, 40, 200, 52
    low, high = min(q[1] for q in points), p["top"] or max(q[1] for q in points)
    if p["bars"] or low < 0.6 * high:  # accuracies that lie close together would be one line
        low = min(0, low)
    ys = steps(low, high)
    if p["bars"]:
        x0, x1 = -0.5, len(p["ticks"]) - 0.5
        xs = list(enumerate(p["ticks"]))
    else:
        edges = steps(min(q[0] for q in points), max(q[0] for q in points))
        x0, x1 = min(0, edges[0]), edges[-1]
        xs = [(t, f"{t:g}") for t in (p["ticks"] or edges)]

    def at(x, y):
        return (left + (x - x0) / (x1 - x0) * (width - left - right),
                height - bottom - (min(y, ys[-1]) - ys[0]) / (ys[-1] - ys[0]) * (height - top - bottom))

    def safe(text):
        return str(text).replace("&", "&amp;").replace("<", "&lt;")
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
           'font-size="12" fill="#222">', f'<rect width="{width}" height="{height}" fill="#fff"/>',
           f'<text x="{left}" y="22" font-size="14" font-weight="bold">{safe(p["title"])}</text>']
    for y in ys:
        py = at(x0, y)[1]
        out.append(f'<path d="M{left} {py:.1f}H{width - right}" stroke="#ddd"/>'
                   f'<text x="{left - 8}" y="{py + 4:.1f}" text-anchor="end">{y:g}</text>')
    for x, name in xs:
        out.append(f'<text x="{at(x, ys[0])[0]:.1f}" y="{height - bottom + 18}" text-anchor="middle">{safe(name)}</text>')
    each = 0.8 / max(len(p["series"]), 1)
    for i, (name, line) in enumerate(p["series"].items()):
        hollow, colour = name.startswith("paper"), COLOURS[i % len(COLOURS)]
        fill = f'fill="{"#fff" if hollow else colour}" stroke="{colour}" stroke-width="1.5"'
        if p["bars"]:
            for x, y in line:
                (a, py), (b, base) = at(x - 0.4 + i * each, y), at(x - 0.4 + (i + 0.9) * each, 0)
                out.append(f'<rect x="{a:.1f}" y="{py:.1f}" width="{b - a:.1f}" height="{max(base - py, 0):.1f}" {fill}/>')
        else:
            places = [at(x, y) for x, y in line]
            if len(places) > 1:
                way = "L".join(f"{a:.1f} {b:.1f}" for a, b in places)
                dash = ' stroke-dasharray="5 4"' if hollow else ""
                out.append(f'<path d="M{way}" fill="none" stroke="{colour}" stroke-width="1.8"{dash}/>')
            out += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.5" {fill}/>' for a, b in places]
        ly = top + 10 + 19 * i
        out.append(f'<rect x="{width - right + 16}" y="{ly - 9}" width="10" height="10" {fill}/>'
                   f'<text x="{width - right + 32}" y="{ly}">{safe(name)}</text>')
    out.append(f'<text x="{(left + width - right) / 2}" y="{height - 12}" text-anchor="middle">{safe(p["x"])}</text>'
               f'<text transform="translate(16 {(height - bottom + top) / 2}) rotate(-90)" text-anchor="middle">'
               f'{safe(p["y"])}</text></svg>')
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(out) + "\n")


# ---- made data, for --tiny -------------------------------------------------------------------------------

def made_trace(folder, n, epochs):
    """Losses that fall, a few samples that stay hard: as a recorded training, but drawn."""
    import numpy as np
    if not os.path.isdir(folder):
        os.makedirs(folder)
        rng = np.random.default_rng(1)
        hard = rng.gamma(0.7, 1.0, n)
        loss = np.stack([hard * 0.8 ** e * rng.lognormal(0, 0.3, n) for e in range(epochs)]).astype("<f2")
        np.save(os.path.join(folder, "train_loss.npy"), loss)
        np.save(os.path.join(folder, "eval_loss.npy"), loss)
        labels = rng.integers(0, 10, n)
        np.save(os.path.join(folder, "labels.npy"), labels.astype("u1"))
        at = rng.normal(0, 12, (10, 64))[labels] + rng.normal(0, 6, (n, 64))
        np.save(os.path.join(folder, "emb000.npy"), np.clip(at, -127, 127).astype("i1"))
    return folder


def made_pictures(folder):
    """8 x 8 pictures with one bright row, which is the class, as IDX files."""
    import random
    if not os.path.isdir(folder):
        os.makedirs(folder)
        rng = random.Random(1)
        for prefix, n in (("train", 600), ("t10k", 100)):
            labels = bytes(rng.randrange(4) for _ in range(n))
            pixels = bytes(min(255, max(0, int(rng.gauss(150 if row == 2 * y else 60, 50))))
                           for y in labels for row in range(8) for _ in range(8))
            with open(os.path.join(folder, f"{prefix}-images-idx3-ubyte"), "wb") as f:
                f.write(struct.pack(">IIII", 0x803, n, 8, 8) + pixels)
            with open(os.path.join(folder, f"{prefix}-labels-idx1-ubyte"), "wb") as f:
                f.write(struct.pack(">II", 0x801, n) + labels)
    return folder
