"""One job of several ranks over one cache, in a daemon or in Redis, with slow storage and a fixed step time.

Each rank is a process with larder's Loader; a step sleeps and ends for all ranks together, and losses are those of a recorded training, so what is
read follows from the seed, and times repeat as far as sleeps do. Storage gives all ranks together so many samples a
second. Run as a program it is one rank.
"""
import argparse
import concurrent.futures
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from beside import TOO_LATE, Timed, claim, over  # noqa: E402

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))


def meet(folder, name, rank, world):
    """Nobody closes its loader before all are through: the others want its word on the last batches."""
    with open(f"{folder}/{name}.{rank}", "w"):
        pass
    while sum(os.path.exists(f"{folder}/{name}.{r}") for r in range(world)) < world and os.path.isdir(folder):
        time.sleep(0.01)


class Together:
    """Every step ends for all ranks at once, as where gradients are summed over them."""

    def __init__(self, folder, rank, world):
        import numpy as np
        path = f"{folder}/steps"
        with open(path, "a") as f:  # whoever comes first makes it, zeroed
            f.truncate(8 * world)
        self.steps, self.rank = np.memmap(path, "i8", "r+", shape=(world,)), rank

    def step(self):
        self.steps[self.rank] += 1
        for _ in range(600_000):  # a minute: a rank that died ends the run, not this loop
            if self.steps.min() >= self.steps[self.rank]:
                return
            time.sleep(1e-4)
        raise SystemExit("another rank stands still")


def rank_main():
    a = argparse.ArgumentParser(description=__doc__)
    for name in ("--recipe", "--cache", "--trace", "--folder"):
        a.add_argument(name, required=True)
    for name in ("--rank", "--world", "--samples", "--batch", "--epochs", "--seeds"):
        a.add_argument(name, type=int, required=True)
    a.add_argument("--iops", type=float, required=True)
    a.add_argument("--pace", type=float, required=True)
    o = a.parse_args()
    sys.path.insert(0, os.path.join(ROOT, "python"))
    import numpy as np

    import larder
    loss = np.load(os.path.join(o.trace, "train_loss.npy"), mmap_mode="r")
    near = np.load(os.path.join(o.trace, "emb000.npy"), mmap_mode="r")[:o.samples].astype("f4") if "spider" in o.recipe else None
    together = Together(o.folder, o.rank, o.world)
    for seed in range(1, 1 + o.seeds):
        out = []
        job = "" if o.world == 1 else f"&job=r{seed}"
        with larder.Loader(f"slow:iops={o.iops:g}:mem:?n={o.samples}&h=8&w=8&c=3&classes=10", o.batch, recipe=o.recipe,
                           cache=o.cache + job, rank=o.rank, world=o.world, seed=seed, threads=1, lag=8, torch=False) as l:
            for e in range(o.epochs):
                row = np.nan_to_num(loss[min(e, len(loss) - 1)][:o.samples].astype("f4"))
                begun, steps, stepped = time.monotonic(), 0, 0.0
                for b in l:
                    came = time.monotonic()
                    until = came + o.pace
                    ids = np.asarray(b.served)
                    l.report(loss=row[ids], **({} if near is None else {"embeddings": near[ids]}))
                    time.sleep(max(until - time.monotonic(), 0))
                    steps, stepped = steps + 1, stepped + time.monotonic() - came
                    together.step()
                f = l.figures(e)
                out.append(dict({k: f[k] for k in ("served", "hits", "substitutes", "repeats", "misses", "background_reads")},
                                seconds=time.monotonic() - begun, late=stepped / (steps * o.pace) if o.pace else 1.0))
            meet(o.folder, f"end{seed}", o.rank, o.world)
        print(json.dumps(out), flush=True)


class Nodes:
    """Network namespaces with a link each to a bridge, which has none to anything else: number 1 is the store's."""

    made = itertools.count()

    def __init__(self, count):
        self.tag, self.count = f"lr{os.getpid()}.{next(self.made)}", count
        try:
            self.ip("link", "add", self.tag, "type", "bridge")
            self.ip("link", "set", self.tag, "up")
            for i in range(1, 1 + count):
                self.ip("netns", "add", f"{self.tag}-{i}")
                self.ip("link", "add", f"{self.tag}v{i}", "type", "veth", "peer", "name", "eth0", "netns", f"{self.tag}-{i}")
                self.ip("link", "set", f"{self.tag}v{i}", "master", self.tag, "up")
                self.ip("-n", f"{self.tag}-{i}", "addr", "add", f"{self.address(i)}/24", "dev", "eth0")
                for name in ("eth0", "lo"):
                    self.ip("-n", f"{self.tag}-{i}", "link", "set", name, "up")
        except subprocess.CalledProcessError:
            self.end()
            raise

    @staticmethod
    def ip(*words):
        subprocess.run(["ip", *words], check=True, stderr=subprocess.DEVNULL)

    @staticmethod
    def address(i):
        return f"10.77.32.{i}"

    def inside(self, i):
        return ["ip", "netns", "exec", f"{self.tag}-{i}"]

    def end(self):
        for i in range(1, 1 + self.count):
            subprocess.run(["ip", "netns", "del", f"{self.tag}-{i}"], stderr=subprocess.DEVNULL)
        subprocess.run(["ip", "link", "del", self.tag], stderr=subprocess.DEVNULL)


class Store:
    def __init__(self, larder, via, folder, nodes=None):
        self.via, self.path = via, f"{folder}/store"
        command = [larder, "serve", "--socket", self.path, "--cache", "256MiB", "--quiet"]
        if via in ("redis", "nodes"):
            command = ["redis-server", "--port", "0", "--unixsocket", self.path, "--save", "", "--dir", folder]
        if via == "nodes":
            command = [*nodes.inside(1), *command, "--port", "6379", "--bind", nodes.address(1), "--protected-mode", "no"]
        self.p = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        for _ in range(500):
            if os.path.exists(self.path):
                break
            time.sleep(0.02)

    def cache(self, percent):
        if self.via == "daemon":
            return f"unix:{self.path}?budget={percent:g}%&patience=120s"
        if self.via == "nodes":
            return f"redis://{Nodes.address(1)}:6379?budget={percent:g}%&timeout=30s&patience=120s"
        return f"redis+unix://{self.path}?budget={percent:g}%&timeout=30s&patience=120s"

    def end(self):
        self.p.terminate()
        self.p.wait()


def can(via):
    """None, or why ranks cannot be run here."""
    try:
        import numpy  # noqa: F401
    except ImportError as missing:
        return f"not measured: {missing} (python3-numpy)"
    if via != "daemon" and not shutil.which("redis-server"):
        return "not measured: no redis-server"
    if via == "nodes":
        try:
            Nodes(1).end()
        except (OSError, subprocess.CalledProcessError):
            return "not measured: network namespaces need root and ip (iproute2)"
    return None


FAR = {"nodes": "Nodes in network namespaces of their own, Redis in another,", "redis": "Ranks of one machine"}


def far():
    """How ranks are to be nodes here."""
    return "redis" if can("nodes") else "nodes"


def run(larder, trace, recipe, world, via="daemon", cache=20, samples=6000, batch=64, epochs=8, seeds=1, iops=6000,
        pace=0.0026):
    """One dict a seed: seconds of an epoch (the slowest rank's), reads a sample of each rank, the ledger; late epochs.
    via: daemon, redis, or nodes: each rank in a network of its own, and Redis in one of its own."""
    with tempfile.TemporaryDirectory(prefix="larder-ranks-") as folder:
        nodes = Nodes(1 + world) if via == "nodes" else None
        store = Store(larder, via, folder, nodes)
        try:
            ranks = [subprocess.Popen(
                [*(nodes.inside(2 + r) if nodes else []), sys.executable, __file__, "--recipe", recipe, "--cache", store.cache(cache),
                 "--folder", folder, "--trace", trace, "--rank", str(r),
                 "--world", str(world), "--samples", str(samples), "--batch", str(batch), "--epochs", str(epochs), "--seeds",
                 str(seeds), "--iops", f"{iops / world:g}", "--pace", f"{pace:g}"],
                stdout=subprocess.PIPE, text=True) for r in range(world)]
            said = [[json.loads(line) for line in p.communicate()[0].splitlines()] for p in ranks]
            if any(p.returncode for p in ranks):
                raise SystemExit(f"{recipe}, {world} ranks through {via}: a rank failed")
        finally:
            store.end()
            if nodes:
                nodes.end()
    out = []
    for s in range(seeds):
        late = [rank[s][epochs // 2:] for rank in said]
        served = sum(e["served"] for rank in late for e in rank)
        out.append({
            "seconds": statistics.mean(max(rank[i]["seconds"] for rank in late) for i in range(len(late[0]))),
            "reads": [sum(e["misses"] + e["background_reads"] for e in rank) / (served / world) for rank in late],
            "late": statistics.median(e["late"] for rank in late for e in rank),
            "ledger": {k: sum(e[k] for rank in said for e in rank[s]) for k in
                       ("served", "hits", "substitutes", "repeats", "misses")}})
    return out


# ---- for the papers' scripts -----------------------------------------------------------------------------

def compared(b, trace, recipes, seeds, via="daemon", cache=20, pooled=False):
    """What run() gives, by recipe and number of ranks, or a line why there is nothing. pooled: each rank brings
    as much cache as one has."""
    why = "skipped: the data is not here" if not trace else can(via)
    if b.tiny and "LARDER_LONG" not in os.environ:
        why = "not measured: --tiny leaves it out"
    if why:
        return why
    sizes = dict(samples=640, epochs=4, iops=20000, pace=0) if b.tiny else dict(samples=4000, epochs=6, iops=8000, pace=0.002)
    got = {}
    for world in b.pick((1, 2), (1, 2, 4), (1, 2, 4)):
        b.say(f"{', '.join(recipes)} in {world} ranks over {via}")

        def one(recipe, world=world):
            return run(b.options.larder, trace, recipe, world, via, cache * (world if pooled else 1), seeds=len(seeds), **sizes)
        with concurrent.futures.ThreadPoolExecutor(len(recipes)) as pool:  # they mostly sleep
            got.update({(r, world): g for r, g in zip(recipes, pool.map(one, recipes))})
        for recipe in recipes:
            if late(got[recipe, world]) > TOO_LATE and not b.tiny:  # once more, alone
                got[recipe, world] = one(recipe)
            b.ledgers += [dict(g["ledger"], recipe=recipe, cache="of all ranks") for g in got[recipe, world]]
    return got


def late(runs):
    return max(g["late"] for g in runs)


def worlds(got):
    return sorted({w for _, w in got})


def seconds(got, recipe, world):
    return Timed([g["seconds"] for g in got[recipe, world]], late(got[recipe, world]))


def reads(got, recipe, world):
    return [statistics.mean(g["reads"]) for g in got[recipe, world]]


def faster(got, recipe, than, world):
    return over(seconds(got, than, world), seconds(got, recipe, world))


def evenly(got, recipe, world):
    return claim(f"{world} ranks: reads of the one that reads most over the mean", "no number",
                 [max(g["reads"]) / statistics.mean(g["reads"]) for g in got[recipe, world]], "x")


def as_one(got, recipe, world):
    return claim(f"{world} ranks: reads a sample over those of one", "no number", over(reads(got, recipe, world), reads(got, recipe, 1)), "x")


def how(recipes):
    return (f"bench/papers/ranked.py    # a process a rank: 4,000 samples, storage of 8,000 a second for all ranks together,\n"
            f"    # 2 ms a batch of 64, 6 epochs of which the second half counts; {recipes}")


if __name__ == "__main__":
    rank_main()
