#!/usr/bin/env python3
"""The picture of the README: what is won and what it costs, from the results that are recorded here.

    bench/gpu/first_look.py                                      # writes docs/img/first-look.svg

On the left accuracy over time on Tiny ImageNet-200, means and standard deviations over seeds; minutes are computed
from the bytes of each epoch, for storage that gives a quarter of what the GPU takes (table.py). On the right images a
second into ResNet-50 by the cores that feed it, with the slowest and the fastest stretch of each line (feed.py).
"""
import argparse
import os
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import feed_table  # noqa: E402
import table  # noqa: E402
from run import KEY, key  # noqa: E402
from run_lines import read_runs  # noqa: E402

EATS = 60000  # samples a second that the GPU takes, as table.py has it
# Their colours on white and on black.
RECIPES = {"minio": ("#57606a", "#9ea7b3"), "rotate:h=0.5": ("#1a7f37", "#4ac26b"),
           "rotate:h=0.8": ("#0969da", "#6cb6ff"), "echo:factor=5": ("#bc4c00", "#f0883e")}
# In those colours: loader and where it decodes.
LOADERS = {("larder", "auto:fast"): ("larder, GPU decodes", "s1"), ("larder", "cpu"): ("larder, cores decode", "s2"),
           ("torchvision", ""): ("torchvision, nvJPEG", "s0"), ("dataloader", ""): ("PyTorch DataLoader", "s3")}
NAMED = 4  # cores whose rates stand beside the names
W, H, TOP, BOTTOM = 980, 390, 66, 330
LEFT_BOX, RIGHT_BOX = (52, 404), (506, 766)  # x of the two panels


class Panel:
    def __init__(self, box, xs, ys):
        (self.left, self.right), self.xs, self.ys = box, xs, ys

    def at(self, x, y):
        return (self.left + (self.right - self.left) * (x - self.xs[0]) / (self.xs[1] - self.xs[0]),
                BOTTOM - (BOTTOM - TOP) * (y - self.ys[0]) / (self.ys[1] - self.ys[0]))

    def frame(self, title, below, xticks, yticks, xlabel, form="{:g}", xnames=None):
        out = [text(self.left - 40, 24, title, 'font-weight="600" font-size="16"'),
               text(self.left - 40, 44, below, 'class="soft"')]
        for v in yticks:
            y = self.at(self.xs[0], v)[1]
            out += [f'<path class="grid" d="M{self.left} {y:.1f}H{self.right}"/>',
                    text(self.left - 8, y + 5, form.format(v), 'text-anchor="end"')]
        for v, name in zip(xticks, xnames or xticks):
            x = self.at(v, self.ys[0])[0]
            out += [f'<path class="axis" d="M{x:.1f} {BOTTOM}v5"/>', text(x, BOTTOM + 21, f"{name:g}", 'text-anchor="middle"')]
        out += [f'<path class="axis" d="M{self.left} {BOTTOM}H{self.right}"/>',
                text((self.left + self.right) / 2, BOTTOM + 44, xlabel, 'text-anchor="middle"')]
        return out


def text(x, y, words, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{words}</text>'


def bar(x, low, high, kind):
    return f'<path class="bar {kind}" d="M{x:.1f} {low:.1f}V{high:.1f}M{x - 4:.1f} {low:.1f}h8M{x - 4:.1f} {high:.1f}h8"/>'


def seeds_of(runs, recipe):
    usual = {k: v for k, v in KEY.items() if k not in ("recipe", "seed")}
    return [r for r in runs if r["recipe"] == recipe and
            all(r.get(k, v) == v for k, v in dict(usual, set="tiny").items())]


def accuracy(runs):
    """A point each time all seeds were tested: minutes, mean and deviation of accuracy."""
    base = seeds_of(runs, "minio")
    rate = EATS * table.mean(base, "storage_bytes") / table.mean(base, "served") / 4
    lines = {}
    for recipe in RECIPES:
        g = seeds_of(runs, recipe)
        if len(g) < 2:
            sys.exit(f"{recipe}: {len(g)} seeds on Tiny ImageNet are too few for a spread")
        minutes = [statistics.mean(t) for t in zip(*(table.times(r, rate, EATS) for r in g))]
        lines[recipe] = [(minutes[i], statistics.mean(a), statistics.stdev(a))
                         for i in range(len(minutes)) if all("accuracy" in r["curve"][i] for r in g)
                         for a in [[100 * r["curve"][i]["accuracy"] for r in g]]]
    return lines, len(base)


def draw_accuracy(runs):
    lines, seeds = accuracy(runs)
    p = Panel(LEFT_BOX, (0, 3.6), (10, 65))
    out = p.frame("Test accuracy over time, %", f"Tiny ImageNet-200, ResNet-18; {seeds} seeds, ± deviation",
                  (0, 1, 2, 3), range(10, 61, 10), "minutes, storage at a quarter of the GPU's speed")
    for n, (recipe, line) in enumerate(lines.items()):
        points = [p.at(x, y) for x, y, _ in line]
        out.append(f'<path class="line s{n}" d="M' + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) + '"/>')
        for (x, mean, sd), (px, py) in zip(line, points):
            out += [bar(px, p.at(x, mean - sd)[1], p.at(x, mean + sd)[1], f"s{n}"),
                    f'<circle class="dot s{n}" cx="{px:.1f}" cy="{py:.1f}" r="3"/>']
    # Names stand where no line goes: below and right of all, each with its end.
    for n, (recipe, line) in enumerate(lines.items()):
        words = f"{recipe} {line[-1][1]:.2f} ± {line[-1][2]:.2f}"
        y = BOTTOM - 65 + 18 * n
        out += [f'<path class="line s{n}" d="M{p.right - 222} {y - 4.5}h16"/>', text(p.right - 200, y, words, f'class="name s{n}"')]
    return out


def draw_feed(runs):
    mine = [r for r in runs if "failed" not in r and r["net"] == "resnet50" and r["store"] == "warm"
            and r["data"] == "folder" and (r["loader"], r["decode"]) in LOADERS and not r.get("first")]
    limit = statistics.median(r["limit"] for r in mine)
    cores = sorted({r["cores"] for r in mine})
    p = Panel(RIGHT_BOX, (-.4, len(cores) - .6), (0, 5500))
    out = p.frame("Images/s into ResNet-50", f"one H200; names: with {NAMED} cores; bars: slowest to fastest stretch", range(len(cores)),
                  range(0, 5001, 1000), "cores that feed it", "{:,}", cores)
    y = p.at(0, limit)[1]
    out += [f'<path class="limit" d="M{p.left} {y:.1f}H{p.right}"/>', text(p.left + 6, p.at(0, 5000)[1] - 7, f"all the GPU takes: {limit:,.0f}")]
    names = []
    for who, (name, kind) in LOADERS.items():
        line = sorted((cores.index(r["cores"]), r["images_s"], r["least"], r["most"]) for r in mine
                      if (r["loader"], r["decode"]) == who)
        points = [p.at(c, v) for c, v, _, _ in line]
        if not points:
            continue
        out.append(f'<path class="line {kind}" d="M' + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) + '"/>')
        for (c, _, least, most), (x, y) in zip(line, points):
            out += [bar(x, p.at(c, least)[1], p.at(c, most)[1], kind),
                    f'<circle class="dot {kind}" cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>']
        rate = [v for c, v, _, _ in line if cores[c] == NAMED]
        names.append((name + "".join(f": {v:,.0f}" for v in rate), points[-1][1], kind))
    for (words, at, kind), y in zip(names, feed_table.apart([n[1] for n in names], 19, TOP, BOTTOM)):
        out += [f'<path class="line thin {kind}" d="M{p.right - 22} {at:.1f}L{p.right + 4} {y:.1f}"/>',
                text(p.right + 8, y + 5, words, f'class="name {kind}"')]
    return out


def style():
    def colours(which):
        return "".join(f".s{n}{{stroke:{c[which]}}}.dot.s{n},.name.s{n}{{fill:{c[which]}}}"
                       for n, c in enumerate(RECIPES.values()))
    return ("<style>text{fill:#1f2328}.soft{fill:#57606a}.page{fill:#fff}.grid{stroke:#d8dee4}.axis{stroke:#57606a}"
            ".line{fill:none;stroke-width:2}.line.thin{stroke-width:1;stroke-dasharray:none!important}.bar{fill:none;stroke-width:1.5}.line.s3{stroke-dasharray:5 3}"
            ".limit{stroke:#1f2328;stroke-dasharray:6 4}" + colours(0) + ".name{stroke:none!important;font-size:13px}"
            "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.soft{fill:#9ea7b3}.page{fill:#0d1117}.grid{stroke:#30363d}"
            ".axis{stroke:#9ea7b3}.limit{stroke:#e6edf3}" + colours(1) + "}</style>")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    results = os.path.join(HERE, "results")
    p.add_argument("--reuse", default=os.path.join(results, "reuse.jsonl"), help="of run.py")
    p.add_argument("--feed", default=os.path.join(results, "feed.jsonl"), help="of feed.py")
    p.add_argument("--svg", default=os.path.join(HERE, "..", "..", "docs", "img", "first-look.svg"))
    a = p.parse_args()
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {W} {H}" width="{W}" height="{H}" '
           'font-family="system-ui, sans-serif" font-size="14">', style(), f'<rect class="page" width="{W}" height="{H}"/>']
    out += draw_accuracy(list(read_runs(a.reuse, key).values()))
    out += draw_feed(list(read_runs(a.feed, feed_table.key).values()))
    with open(a.svg, "w") as f:
        f.write("\n".join(out) + "\n</svg>\n")


if __name__ == "__main__":
    main()
