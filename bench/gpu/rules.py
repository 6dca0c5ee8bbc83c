#!/usr/bin/env python3
"""Compares rules of reuse in a model of the cache, with the data in the GPU's memory and a small network: many
seeds in little time, to choose what is then built and measured through larder itself (bench/gpu/run.py).

    bench/gpu/rules.py --cifar FOLDER --tiny SHARDS --results rules.jsonl --limit 300
    bench/gpu/rules.py --results rules.jsonl --show

A run is one rule, one data set and one seed. Sets: cifar10, noisy (its training labels drawn anew at random for
40 % of the samples), tiny (Tiny ImageNet-200 at 32 pixels). All rules but `uniform` keep a pool of residents, take a
share h of each batch from it (the one that rested longest) and the rest from a stream that passes over all
samples once a sweep; of those served in this sweep the one served most leaves. Accuracies are those of the last
epoch; `gap` is the loss of samples fresh from storage less that of the others, over the last quarter of the run.
"""
import argparse
import json
import os
import statistics
import sys
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
from nets import Block, rate_at  # noqa: E402
from run_lines import add_run, read_runs  # noqa: E402

BATCH, CLASSES = 512, {"cifar10": 10, "noisy": 10, "tiny": 200}
RULES = {
    "uniform": {},
    "even": {},                         # the rule larder has
    "even, 28 % kept": {"cache": .28},
    "even, 40 % kept": {"cache": .4},
    "even, 60 % kept": {"cache": .6},
    "even, h=.5": {"h": (.5, .5)},
    "even, h=.65": {"h": (.65, .65)},
    "stratified": {"strata": True},
    "uniform, stratified": {"strata": True},
    "stratified, h .86, last sixth .5": {"strata": True, "h": (.86, .86), "tail": (1 / 6, .5)},
    "stratified, 40 % kept": {"strata": True, "cache": .4},
    "h .95 to .65": {"h": (.95, .65)},
    "h .86, last sixth .5": {"h": (.86, .86), "tail": (1 / 6, .5)},
    "strong for repeats": {"strong": "repeats"},
    "strong for all": {"strong": "all"},
    "uniform, strong": {"strong": "all"},
    "echo": {"victim": "first", "draw": "any"},
    "first in, first out": {"victim": "first"},
    "no two of a class": {"apart": True},
    "fresh count double": {"weight": 2.0},
    "learned, gated": {"learned": .05, "gate": .3},
    "uniform, a fifth of the epochs": {"short": True},
}


class Small(nn.Module):
    """A ninth of ResNet-18's work."""

    def __init__(self, classes):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32),
                                   nn.ReLU(inplace=True))
        blocks, width = [], 32
        for out, stride in ((32, 1), (64, 2), (128, 2), (256, 2)):
            blocks.append(Block(width, out, stride))
            width = out
        self.blocks = nn.Sequential(*blocks)
        self.last = nn.Linear(256, classes)

    def forward(self, x):
        return self.last(self.blocks(self.first(x)).mean((2, 3)))


def order_of(labels, rule, rng):
    order = rng.permutation(len(labels))
    if rule.get("strata"):  # every class spread evenly over the sweep
        key = np.empty(len(labels))
        for c in np.unique(labels):
            mine = order[labels[order] == c]
            key[mine] = (np.arange(len(mine)) + rng.random(len(mine))) / len(mine)
        order = np.argsort(key, kind="stable")
    return order


class Pool:
    """The residents and the stream, as docs/guide/recipes.md has them, exact instead of `of 8`."""

    def __init__(self, n, labels, rule, seed):
        self.n, self.rule, self.rng = n, rule, np.random.default_rng(seed)
        self.size = int(n * rule.get("cache", .2))
        self.ids = np.full(self.size, -1)
        self.count = np.zeros(self.size, np.int64)  # services since it entered
        self.used = np.zeros(self.size, np.int64)
        self.since = np.zeros(self.size, np.int64)
        self.loss = np.full(self.size, np.inf)
        self.place = np.full(n, -1)
        self.swept = np.zeros(n, bool)
        self.labels, self.full, self.clock, self.reads, self.debt = labels, 0, 0, 0, 0.
        self.learned = 0.  # share of the fresh that came in learned
        self.sweep()

    def sweep(self):
        self.order, self.at = order_of(self.labels, self.rule, self.rng), 0
        self.swept[:] = False

    def reuse(self, k):
        if self.rule.get("draw") == "any":
            at = self.rng.choice(self.size, k, replace=False)
        else:
            at = np.argpartition(self.used + self.rng.random(self.size), k)[:k * (3 if self.rule.get("apart") else 1)]
            if self.rule.get("apart"):
                at = at[np.argsort(self.used[at])]
                seen, keep, rest = {}, [], []
                most = -(-k // len(np.unique(self.labels)))
                for i in at:
                    c = self.labels[self.ids[i]]
                    seen[c] = seen.get(c, 0) + 1
                    (keep if seen[c] <= most else rest).append(i)
                at = np.array((keep + rest)[:k])
        return at

    def serve(self, at):
        self.count[at] += 1
        self.used[at] = self.clock + np.arange(len(at))
        self.clock += len(at)
        self.swept[self.ids[at]] = True

    def batch(self, size, h):
        k = 0
        if self.full == self.size:
            self.debt += h * size
            k = int(self.debt)
            self.debt -= k
        at = self.reuse(k) if k else np.zeros(0, int)
        drawn = self.ids[at].copy()  # before anybody leaves
        inside = set(drawn.tolist())
        self.serve(at)
        new, hits = [], []
        while len(new) + len(hits) < size - k:
            if self.at == self.n:
                self.sweep()
            i = self.order[self.at]
            self.at += 1
            if i in inside or (self.swept[i] and self.place[i] >= 0):
                continue
            inside.add(i)
            (hits if self.place[i] >= 0 else new).append(i)
        self.serve(self.place[hits] if hits else np.zeros(0, int))
        self.enter(np.array(new, int))
        self.reads += len(new)
        ids = np.concatenate([drawn, np.array(hits, int), np.array(new, int)])
        return ids.astype(np.int64), len(ids) - len(new)

    def enter(self, new):
        room = min(self.size - self.full, len(new))
        at = list(range(self.full, self.full + room))
        self.full += room
        need = len(new) - room
        if need:
            free = self.swept[self.ids]
            free[at] = False
            key = -self.since.astype(float)
            if self.rule.get("victim") != "first":
                key = self.count - self.since / (self.clock + 1)
                if self.learned > self.rule.get("gate", 2):
                    key = key + 1e6 * (self.loss < self.rule["learned"])
            key[~free] = -np.inf
            if self.rule.get("victim") == "first":
                key = np.where(np.isinf(key), -1e18, key)
            out = np.argpartition(-key, need - 1)[:need]
            self.place[self.ids[out]] = -1
            at += out.tolist()
        at = np.array(at, int)
        self.ids[at], self.count[at], self.since[at], self.loss[at] = new, 0, self.clock, np.inf
        self.place[new] = at
        self.serve(at)

    def hear(self, ids, fresh, loss):
        """Losses of an earlier batch; the last `fresh` of them are of samples from storage."""
        at = self.place[ids]
        self.loss[at[at >= 0]] = loss[at >= 0]
        if fresh:
            share = (loss[-fresh:] < self.rule["learned"]).mean()
            self.learned += (share - self.learned) * min(1, fresh / 1024)


class Data:
    def __init__(self, name, x, y, tx, ty):
        self.name, self.n = name, len(y)
        self.x, self.y = x.cuda(), y.cuda()
        self.tx, self.ty = tx.cuda(), ty.cuda()
        self.labels = y.numpy()
        self.mean = self.x[:5000].float().mean((0, 2, 3)).view(1, 3, 1, 1)
        self.std = self.x[:5000].float().std((0, 2, 3)).view(1, 3, 1, 1)

    def plain(self, x):
        return (x.float() - self.mean) / self.std

    def crops(self, ids, strong):
        """32 pixels from a random part of the picture; `strong` (a bit a sample) takes smaller parts and
        wipes out a square."""
        b, side = len(ids), self.x.shape[-1]
        x = self.plain(self.x[ids])
        rnd = torch.rand(8, b, device="cuda")
        if side == 32:
            span = torch.where(strong, .6 + .4 * rnd[0], torch.ones_like(rnd[0]))
            ratio, slack = torch.ones_like(span), 1 - span + .25
        else:
            low = torch.where(strong, .15, .35)
            span = (low + (1 - low) * rnd[0]).sqrt()
            ratio = torch.exp((rnd[1] - .5) * 2 * .2877).sqrt()
            slack = (1 - span).clamp_min(0)
        theta = torch.zeros(b, 2, 3, device="cuda")
        theta[:, 0, 0] = span * ratio * torch.where(rnd[2] < .5, 1., -1.)
        theta[:, 1, 1] = span / ratio
        theta[:, 0, 2] = (rnd[3] * 2 - 1) * slack
        theta[:, 1, 2] = (rnd[4] * 2 - 1) * slack
        x = F.grid_sample(x, F.affine_grid(theta, (b, 3, 32, 32), align_corners=False),
                          align_corners=False)
        line = torch.arange(32, device="cuda").view(1, 32)
        cut = [((line - (32 * rnd[i]).view(-1, 1)).abs() < 6) for i in (5, 6)]
        hole = (cut[0].view(b, 1, 32, 1) & cut[1].view(b, 1, 1, 32)) & strong.view(b, 1, 1, 1)
        return x.masked_fill(hole, 0)

    def tests(self):
        for i in range(0, len(self.ty), 2000):
            x = self.plain(self.tx[i:i + 2000])
            if x.shape[-1] != 32:
                x = F.interpolate(x, 32, mode="bilinear", antialias=True, align_corners=False)
            yield x, self.ty[i:i + 2000]


class Step:
    """One captured training step; weights are reset for each run."""

    def __init__(self, classes, smooth):
        self.net = Small(classes).cuda().to(memory_format=torch.channels_last)
        self.params = list(self.net.parameters())
        self.speed = [torch.zeros_like(p) for p in self.params]
        self.lr = torch.zeros((), device="cuda")
        self.x = torch.zeros(BATCH, 3, 32, 32, device="cuda").contiguous(memory_format=torch.channels_last)
        self.y = torch.zeros(BATCH, dtype=torch.long, device="cuda")
        self.w = torch.ones(BATCH, device="cuda")
        self.smooth = smooth
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.work()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self.work()

    def reset(self, seed):
        torch.manual_seed(seed)
        for m in self.net.modules():
            if hasattr(m, "reset_parameters"):
                m.reset_parameters()
        for s in self.speed:
            s.zero_()

    def work(self):
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
            logits = self.net(self.x).float()
        loss = F.cross_entropy(logits, self.y, reduction="none", label_smoothing=self.smooth)
        g = list(torch.autograd.grad((loss * self.w).mean(), self.params))
        with torch.no_grad():
            torch._foreach_add_(g, self.params, alpha=5e-4)
            torch._foreach_mul_(self.speed, .9)
            torch._foreach_add_(self.speed, g)
            torch._foreach_add_(g, self.speed, alpha=.9)
            torch._foreach_mul_(g, self.lr)
            torch._foreach_sub_(self.params, g)
        return F.cross_entropy(logits.detach(), self.y, reduction="none")

    @torch.no_grad()
    def accuracy(self, data):
        self.net.eval()
        right = 0
        for x, y in data.tests():
            with torch.autocast("cuda", torch.bfloat16):
                right += (self.net(x.contiguous(memory_format=torch.channels_last)).argmax(1) == y).sum()
        self.net.train()
        return right.item() / len(data.ty)


def share_at(rule, done):
    first, last = rule.get("h", (.8, .8))
    if "tail" in rule and done > 1 - rule["tail"][0]:
        return rule["tail"][1]
    return first + (last - first) * done


def train(step, data, name, seed, epochs):
    rule = RULES[name]
    epochs = epochs // 5 if rule.get("short") else epochs
    step.reset(seed)
    rng = np.random.default_rng(seed)
    pool = None if name.startswith("uniform") else Pool(data.n, data.labels, rule, seed)
    steps = data.n // BATCH
    sums, counts, late = torch.zeros(2, device="cuda", dtype=torch.double), [0, 0], []
    total = epochs * steps
    for i in range(total):
        done = i / total
        if pool is None:
            if i % steps == 0:
                order = order_of(data.labels, rule, rng)
            ids, old = order[i % steps * BATCH:(i % steps + 1) * BATCH], 0
        else:
            ids, old = pool.batch(BATCH, share_at(rule, done))
        at = torch.from_numpy(ids).cuda(non_blocking=True)
        again = torch.arange(BATCH, device="cuda") < old
        how = rule.get("strong")
        strong = again if how == "repeats" else torch.full_like(again, how == "all")
        step.x.copy_(data.crops(at, strong))
        step.y.copy_(data.y[at])
        if "weight" in rule:
            w = torch.where(again, 1., rule["weight"])
            step.w.copy_(w / w.mean())
        else:
            step.w.fill_(1)
        step.lr.fill_(rate_at(done, .4))
        step.graph.replay()
        if done > .75:
            sums[0] += step.loss[:old].sum()
            sums[1] += step.loss[old:].sum()
            counts[0] += old
            counts[1] += BATCH - old
        if pool is not None and "learned" in rule:
            late.append((ids, BATCH - old, step.loss.clone()))
            if len(late) > 4:
                ids0, fresh0, loss0 = late.pop(0)
                pool.hear(ids0, fresh0, loss0.cpu().numpy())
    old, new = (sums.cpu().numpy() / np.maximum(counts, 1)).tolist()
    return {"rule": name, "set": data.name, "seed": seed, "epochs": epochs, "accuracy": step.accuracy(data),
            "reads": pool.reads if pool else total * BATCH, "fresh_loss": new,
            "reused_loss": old if counts[0] else None, "learned": pool.learned if pool else None}


def load_cifar(folder, noise):
    def part(names):
        raw = np.concatenate([np.fromfile(os.path.join(folder, n), np.uint8).reshape(-1, 3073) for n in names])
        return torch.from_numpy(raw[:, 1:].reshape(-1, 3, 32, 32).copy()), torch.from_numpy(raw[:, 0].astype(np.int64))
    x, y = part([f"data_batch_{i}.bin" for i in range(1, 6)])
    if noise:
        rng = np.random.default_rng(1)
        hit = rng.random(len(y)) < noise
        y = torch.from_numpy(np.where(hit, rng.integers(0, 10, len(y)), y.numpy()))
    return (x, y) + part(["test_batch.bin"])


def load_tiny(folder):
    import tarfile
    from concurrent.futures import ThreadPoolExecutor
    from torchvision.io import ImageReadMode, decode_jpeg

    def part(name):
        names = sorted(n for n in os.listdir(folder) if n.startswith(name) and n.endswith(".tar"))
        jpegs, labels = [], []
        for n in names:
            with tarfile.open(os.path.join(folder, n)) as t:
                for m in t:
                    raw = t.extractfile(m).read()
                    if m.name.endswith(".jpg"):
                        jpegs.append(raw)
                    else:
                        labels.append(int(raw))
        with ThreadPoolExecutor(12) as pool:
            x = list(pool.map(lambda r: decode_jpeg(torch.frombuffer(bytearray(r), dtype=torch.uint8),
                                                    ImageReadMode.RGB), jpegs))
        return torch.stack(x), torch.tensor(labels)
    return part("train") + part("val")


def show(runs):
    sets = [s for s in CLASSES if any(r["set"] == s for r in runs)]
    print("| rule | " + " | ".join(f"{s} %, mean (seeds) | less than uniform | reads a served | gap" for s in sets) + " |")
    print("|---" * (1 + 4 * len(sets)) + "|")
    for rule in RULES:
        cells = []
        for s in sets:
            mine = {r["seed"]: r for r in runs if r["rule"] == rule and r["set"] == s}
            base = {r["seed"]: r for r in runs if r["rule"] == "uniform" and r["set"] == s}
            if not mine:
                cells.append(" | | | ")
                continue
            acc = [100 * r["accuracy"] for r in mine.values()]
            paired = [100 * (base[k]["accuracy"] - mine[k]["accuracy"]) for k in mine if k in base]
            n = 50000 if s != "tiny" else 100000
            full = max(r["epochs"] for r in base.values()) * n if base else n
            gaps = [r["fresh_loss"] - r["reused_loss"] for r in mine.values() if r["reused_loss"] is not None]
            cells.append(f"{statistics.mean(acc):.2f} ({' '.join(f'{a:.1f}' for a in acc)}) | "
                         + (f"{statistics.mean(paired):+.2f}" if paired else "")
                         + f" | {statistics.mean(r['reads'] for r in mine.values()) / full:.3f} | "
                         + (f"{statistics.mean(gaps):.3f}" if gaps else ""))
        if any(c.strip(" |") for c in cells):
            print(f"| {rule} | " + " | ".join(cells) + " |")


def key(r):
    return r["rule"], r["set"], r["seed"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--cifar", metavar="FOLDER", help="CIFAR-10's binary files")
    p.add_argument("--tiny", metavar="FOLDER", help="train-*.tar and val-*.tar of Tiny ImageNet-200")
    p.add_argument("--results", default="rules.jsonl")
    p.add_argument("--sets", type=lambda s: s.split(","), default=["tiny", "noisy", "cifar10"])
    p.add_argument("--rules", type=lambda s: s.split(";"), default=list(RULES))
    p.add_argument("--seeds", type=lambda s: [int(x) for x in s.split(",")], default=[101, 102, 103])
    p.add_argument("--epochs", type=int, default=20)
    p.add_argument("--limit", type=float, default=1e9, help="seconds after which no run is begun")
    p.add_argument("--show", action="store_true", help="the table of what is there")
    a = p.parse_args()
    done = read_runs(a.results, key)
    if a.show:
        show(list(done.values()))
        return
    began = time.time()
    torch.backends.cudnn.benchmark = True
    steps, sets = {}, {}
    for seed in a.seeds:
        for s in a.sets:
            for rule in a.rules:
                if (rule, s, seed) in done or time.time() - began > a.limit:
                    continue
                if s not in sets:
                    raw = load_tiny(a.tiny) if s == "tiny" else load_cifar(a.cifar, .4 if s == "noisy" else 0)
                    sets[s] = Data(s, *raw)
                    print(f"{s} loaded after {time.time() - began:.0f} s", flush=True)
                shape = CLASSES[s], .1 if s == "tiny" else 0.
                if shape not in steps:
                    steps[shape] = Step(*shape)
                start = time.time()
                out = train(steps[shape], sets[s], rule, seed, a.epochs)
                out["seconds"] = time.time() - start
                add_run(a.results, out)
                print(f"{s} {rule} {seed}: {100 * out['accuracy']:.2f} %, {out['seconds']:.1f} s", flush=True)


if __name__ == "__main__":
    main()
