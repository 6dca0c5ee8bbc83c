#!/usr/bin/env python3
"""The headline claims of all papers on one page, from what the other scripts of this folder left in
build/papers when they ran with --page.

    bench/papers/summary.py            prints the table
    bench/papers/summary.py --page     writes docs/results/papers.md
    bench/papers/summary.py --again    and the pages and plots of the papers, from the same results
"""
import json
import os
import sys

from beside import ROOT, count, shown, write_page, write_part

# What abstracts and conclusions promise, for the papers that no script has measured yet.
PROMISED = [
    ("shade", "SHADE (FAST '23)", "shade.md", []),
    ("hcst", "HCST", "svm-cache.md", []),
    ("seneca", "Seneca (FAST '26)", "seneca.md", [
        ("makespan of twelve jobs, against PyTorch (abstract)", "45.23 % less"),
        ("the same (section 7.1, figure 10)", "to 45.23 %"),
        ("throughput of several jobs (abstract)", "up to 3.45x"),
        ("hits of three jobs, 20 % cached (figure 13)", "54 %")]),
    ("impact", "ImpACT (TC '25)", "impact.md", [
        ("training time, against the other systems (abstract)", "up to 3.5x"),
        ("training time, against LRU (figure 12)", "up to 4.6x"),
        ("hits, 20 % cached (figure 14)", "43 %"),
        ("time to accuracy, hybrid against history (figure 16)", "1.3x")]),
    ("spider", "SpiderCache (ICPP '25)", "spider.md", [
        ("training time, against LRU (abstract)", "up to 2.33x, 2.21x on average"),
        ("hits, against LRU (figure 14)", "up to 8.5x, 4.15x on average"),
        ("top-1 on CIFAR-10, against random draws (table 5)", "81.4 % instead of 78.3 %")]),
]


def standing():
    """What the page has now: the rows of each paper, and its line below the table. A script that did not run this
    time leaves its own as they are."""
    rows, below, paper = {}, {}, None
    with open(os.path.join(ROOT, "docs", "results", "papers.md"), encoding="utf-8") as f:
        for line in f.read().splitlines():
            for name, full, page, _ in PROMISED:
                if line.startswith(f"| [{full}]({page})"):
                    paper = name
                if line.startswith(f"- {full}: "):
                    below[name] = line
            if paper and line.startswith("|"):
                rows.setdefault(paper, []).append(line)
            else:
                paper = None
    return rows, below


def lines():
    yield "| paper | claim | theirs | ours, by their method | | what decides it | our best at equal storage bytes |"
    yield "|---|---|---|---|---|---|---|"
    rows, below, done = *standing(), []
    for name, paper, page, promised in PROMISED:
        link = f"[{paper}]({page})"
        path = os.path.join(ROOT, "build", "papers", name + ".json")
        if os.path.exists(path):
            with open(path) as f:
                result = json.load(f)
            c = count(result)
            done.append(c)
            below[name] = (f"- {paper}: {c['figures']} tables and figures in its evaluation, {c['with']} with a number of ours; of the "
                           f"{c['caching']} about caching {c['caching_with']}; {c['hold']} of {c['claims']} claims hold.")
            for h in result["headlines"]:
                c = h["claim"]
                yield (f"| {link} | {h['label']} | {shown(c['theirs'], c['unit'])} | {shown(c['ours'], c['unit'])} | "
                       f"{c['verdict']} | {h.get('says', '')} | {h['best']} |")
                link = ""
        elif name in rows:
            yield from rows[name]
        else:
            for what, theirs in promised or [("", "")]:
                yield f"| {link} | {what} | {theirs} | not measured | | | not measured |"
                link = ""
    yield ""
    yield from (below[name] for name, *_ in PROMISED if name in below)
    if len(done) == len(PROMISED):
        total = {k: sum(c[k] for c in done) for k in ("figures", "with", "caching", "caching_with")}
        yield (f"- Together: {total['with']} of {total['figures']} have a number of ours, {total['caching_with']} of the "
               f"{total['caching']} about caching.")


def main():
    text = list(lines())
    print("\n".join(text))
    for name, *_ in PROMISED if "--again" in sys.argv[1:] else []:
        path = os.path.join(ROOT, "build", "papers", name + ".json")
        if os.path.exists(path):
            with open(path) as f:
                write_page(json.load(f))
    if sys.argv[1:]:
        write_part(os.path.join(ROOT, "docs", "results", "papers.md"), os.path.basename(__file__), text)


if __name__ == "__main__":
    sys.exit(main())
