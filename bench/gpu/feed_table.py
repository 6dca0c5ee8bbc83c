#!/usr/bin/env python3
"""Tables and picture of bench/gpu/feed.py's results.

    bench/gpu/feed_table.py [feed.jsonl …]                       # tables, as Markdown
    bench/gpu/feed_table.py feed.jsonl --page docs/results/feed.md --svg feed.svg

--page writes the tables between the two comments of the page that name this program. *times* is the rate against
PyTorch's DataLoader with as many cores into the same network.
"""
import argparse
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
from run_lines import read_runs  # noqa: E402

NETS = {"resnet50": "ResNet-50", "vit_b_16": "ViT-B/16", "none": "Loader alone", "tiny": "A tiny network"}
STORES = {"warm": "", "cold": ", cold", "slow": ", throttled", "slow+cache": ", throttled, half in the cache"}
BEGIN, END = "<!-- bench/gpu/feed_table.py writes this -->", "<!-- until here -->"
KEY = ("net", "loader", "decode", "data", "store", "cores", "batch", "compile", "first")


def key(run):
    return tuple(run.get(k) or "" for k in KEY)


PEERS = {"dataloader": "DataLoader", "torchvision": "torchvision, nvJPEG + v2 on the GPU", "webdataset": "WebDataset",
         "streaming": "MosaicML Streaming", "ffcv": "FFCV", "static": "the same batch"}


def who(run):
    """A line of an earlier call is marked."""
    name = PEERS.get(run["loader"]) or f"larder, {run['decode'].replace('cpu', 'CPU').replace('gpu', 'GPU')}"
    return name + (", training first" if run.get("first") else "") + (" †" if run.get("earlier") else "")


def of(runs, **want):
    return [r for r in runs if all(r.get(k, False) == v for k, v in want.items())]


def times(runs, run):
    base = of(runs, net=run["net"], loader="dataloader", cores=run["cores"], batch=run["batch"],
              store=run["store"] if run["store"] == "cold" else "warm", earlier=run.get("earlier", False))
    return f"{run['images_s'] / base[0]['images_s']:.2f}" if base else ""


def row(runs, run):
    limit = run.get("limit")
    cells = [who(run), run["data"] + STORES[run["store"]], run["cores"],
             f"{run['images_s']:,.0f} [{run['least']:,.0f}..{run['most']:,.0f}]"]
    if limit:
        cells += [f"{100 * run['images_s'] / limit:.1f} %", f"{100 * run['waiting']:.0f} %",
                  f"{100 * run['gpu_taken']:+.1f} %"]
    used = run["cores_used"]  # 0 where a run was shorter than a tick of the kernel's clock
    cells += [f"{used:.1f}", f"{run['images_s'] / used:,.0f}" if used else "", times(runs, run)]
    return "| " + " | ".join(map(str, cells)) + " |"


def place(run):
    """Core by core, larder first, peers by rate."""
    return (list(STORES).index(run["store"]), run["cores"], run["loader"] != "larder", -run["images_s"])


def table(runs, net):
    mine = sorted(of(runs, net=net), key=place)
    with_net = ["of the limit", "waiting", "step longer"] if net != "none" else []
    head = ["loader", "data", "cores", "images/s [least..most]", *with_net, "cores used", "images a core-second", "times"]
    lines = [f"### {NETS.get(net, net)}", ""]
    if with_net:
        limits = sorted(r["limit"] for r in mine)
        lines += [f"The GPU's own rate: {limits[len(limits) // 2]:,.0f} images/s, {limits[0]:,.0f} to "
                  f"{limits[-1]:,.0f} over the lines.", ""]
    lines += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + [row(runs, r) for r in mine] + [""]


def tables(all_runs):
    runs = [r for r in all_runs if "failed" not in r]
    lines = []
    if runs:
        m = runs[0]
        lines += [f"{m['gpu']}, {m['cpu']}, PyTorch {m['torch']}, torchvision {m['torchvision']}.", ""]
    for net in sorted({r["net"] for r in runs}, key=lambda n: list(NETS).index(n) if n in NETS else 9):
        lines += table(runs, net)
    failed = {(who(r), r["failed"]) for r in all_runs if "failed" in r}
    if failed:
        lines += ["Not run:", ""] + [f"- {name}: `{why}`" for name, why in sorted(failed)] + [""]
    return "\n".join(lines) if lines else "No line has been run yet.\n"


# ---- the picture ----------------------------------------------------------------------------------------------------

SERIES = [("larder, GPU decode (auto:fast)", {"loader": "larder", "decode": "auto:fast", "data": "folder"}, "#0550ae"),
          ("larder, CPU decode, packed", {"loader": "larder", "decode": "cpu", "data": "pack"}, "#1f9e89"),
          ("larder, CPU decode", {"loader": "larder", "decode": "cpu", "data": "folder"}, "#1a7f37"),
          ("torchvision, nvJPEG", {"loader": "torchvision"}, "#e08b1a"),
          ("WebDataset", {"loader": "webdataset"}, "#8250df"),
          ("PyTorch DataLoader", {"loader": "dataloader"}, "#cf222e")]
W, H, LEFT, RIGHT, TOP, BOTTOM = 760, 400, 70, 220, 46, 54


def apart(wanted, least, low, high):
    """Heights near the wanted ones, in their order, none closer than `least` to the next."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    at = [0.] * len(wanted)
    for n, i in enumerate(order):
        at[i] = max(wanted[i], low if n == 0 else at[order[n - 1]] + least)
    for n in range(len(order) - 1, -1, -1):
        i = order[n]
        at[i] = min(at[i], high if n == len(order) - 1 else at[order[n + 1]] - least)
    return at


def curves(runs, net):
    found = []
    for title, want, colour in SERIES:
        points = sorted((r["cores"], r["images_s"]) for r in of(runs, net=net, store="warm", first=False, **want))
        if points:
            found.append((title, points, colour))
    return found


def text(x, y, words, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{words}</text>'


def svg(runs, net, path):
    runs = [r for r in runs if "failed" not in r]
    lines = curves(runs, net)
    if not lines:
        sys.exit(f"no line of {net} to draw")
    limits = sorted(r["limit"] for r in of(runs, net=net))
    limit = limits[len(limits) // 2]
    cores = sorted({c for _, points, _ in lines for c, _ in points})
    top = 1.15 * max(limit, max(v for _, points, _ in lines for _, v in points))
    step = next(s for s in (100, 200, 500, 1000, 2000, 5000, 10000) if top / s <= 7)

    def x(c):
        return LEFT + (W - LEFT - RIGHT) * (cores.index(c) + .5) / len(cores)

    def y(v):
        return H - BOTTOM - (H - TOP - BOTTOM) * v / top

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {W} {H}" font-family="sans-serif" font-size="13">',
           f'<rect width="{W}" height="{H}" fill="#fff"/>',
           text(LEFT, 24, f"Images a second into {NETS.get(net, net)} on one {runs[0]['gpu']}, by cores that feed it",
                'font-size="15" font-weight="bold"')]
    for v in range(0, int(top) + 1, step):
        out += [f'<line x1="{LEFT}" x2="{W - RIGHT}" y1="{y(v):.1f}" y2="{y(v):.1f}" stroke="#ddd"/>',
                text(LEFT - 8, y(v) + 4, f"{v:,}", 'text-anchor="end" fill="#555"')]
    out += [text(x(c), H - BOTTOM + 20, c, 'text-anchor="middle" fill="#555"') for c in cores]
    out += [text((LEFT + W - RIGHT) / 2, H - 12, "cores", 'text-anchor="middle" fill="#555"'),
            f'<line x1="{LEFT}" x2="{W - RIGHT}" y1="{y(limit):.1f}" y2="{y(limit):.1f}" stroke="#222" '
            'stroke-dasharray="6 4"/>']
    names = [(f"the GPU's limit, {limit:,.0f}", y(limit), "#222")]
    for title, points, colour in lines:
        where = " ".join(f"{x(c):.1f},{y(v):.1f}" for c, v in points)
        out.append(f'<polyline points="{where}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        out += [f'<circle cx="{x(c):.1f}" cy="{y(v):.1f}" r="4" fill="{colour}"/>' for c, v in points]
        names.append((title, y(points[-1][1]), colour))
    heights = apart([n[1] for n in names], 17, TOP, H - BOTTOM)
    for (title, at, colour), h in zip(names, heights):
        out += [f'<line x1="{W - RIGHT + 2}" x2="{W - RIGHT + 16}" y1="{at:.1f}" y2="{h:.1f}" stroke="{colour}" '
                'stroke-opacity=".5"/>', text(W - RIGHT + 20, h + 4, title, f'fill="{colour}"')]
    with open(path, "w") as f:
        f.write("\n".join(out) + "\n</svg>\n")


def write_page(path, words):
    with open(path) as f:
        before, _, rest = f.read().partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        sys.exit(f"{path} has no place for the tables: {BEGIN} … {END}")
    with open(path, "w") as f:
        f.write(f"{before}{BEGIN}\n\n{words}\n{END}{after}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("results", nargs="*", default=[os.path.join(HERE, "results", "feed.jsonl")])
    p.add_argument("--page")
    p.add_argument("--svg")
    p.add_argument("--net", default="resnet50", help="of the picture")
    a = p.parse_args()
    runs = list(read_runs(a.results, key).values())
    words = tables(runs)
    if a.page:
        write_page(a.page, words)
    else:
        print(words)
    if a.svg:
        svg(runs, a.net, a.svg)


if __name__ == "__main__":
    main()
