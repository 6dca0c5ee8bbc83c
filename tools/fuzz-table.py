#!/usr/bin/env python3
"""What fuzz targets had in all, in the table of docs/results/trust.md: the page itself keeps it.

    tools/fuzz-table.py FOLDER…          adds what tools/fuzz-run.sh wrote there (OUT) to the page, once
    tools/fuzz-table.py --before FOLDER  FOLDER/table for fuzz-run.sh (BEFORE): what the page says each had
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/results/trust.md"
BEGIN, END = "<!-- fuzz-table -->\n", "<!-- end of fuzz-table -->\n"


def wanted():
    """CPU-minutes of each target."""
    minutes = {p.stem[len("fuzz_"):]: 3.0 for p in ROOT.glob("tests/fuzz/fuzz_*.c")}
    for line in (ROOT / "tests/fuzz/minutes.list").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            name, m = line.split()
            minutes[name] = float(m)
    return minutes


def of_page(text):
    """Of each target CPU seconds, inputs, edges and new inputs; and how many crashes there were."""
    plain = text.replace(",", "")
    rows = re.findall(r"^\| (\w+) \| (\d+) \| ([\d.]+) \| \d+ \| (\d+) \| (\d+) \|$", plain, flags=re.M)
    crashes = re.search(r" (\d+) crashes", plain)
    if not rows or not crashes:
        sys.exit(f"{PAGE}: no table that this program wrote")
    return {n: [60 * float(m), int(runs), int(edges), int(fresh)] for n, runs, m, edges, fresh in rows}, int(crashes[1])


def add(had, crashes, folder):
    """CPU seconds and inputs are added, edges are those of the round that reached most."""
    for line in (pathlib.Path(folder) / "table").read_text(encoding="utf-8").splitlines()[1:]:
        name, cpu, runs, edges, _, fresh, bad, _ = line.split()
        row = had.setdefault(name, [0.0, 0, 0, 0])
        row[0] += float(cpu)
        row[1] += int(runs)
        row[2] = max(row[2], int(edges))
        row[3] += int(fresh)
        crashes += int(bad)
    return crashes


def render(had, crashes, minutes):
    none = [0.0, 0, 0, 0]
    # A tenth of a minute is what the page rounds to, with a second of a slice's start and end.
    short = [n for n in minutes if had.get(n, none)[0] + 5 < 60 * minutes[n]]
    cpu, runs = (sum(row[i] for row in had.values()) for i in (0, 1))
    say = (f"{len(minutes)} targets, {cpu / 60:.0f} CPU-minutes, {runs:,} inputs, {crashes} crashes; "
           f"{len(minutes) - len(short)} targets had the time asked for")
    if short:
        say += f", {len(short)} had less"
    lines = [say + ".", "", "| target | inputs | CPU-minutes | asked | edges | new inputs |",
             "|---|---:|---:|---:|---:|---:|"]
    for name in sorted(minutes, key=lambda n: (-had.get(n, none)[0], n)):
        c, r, e, fresh = had.get(name, none)
        lines.append(f"| {name} | {r:,} | {c / 60:.1f} | {minutes[name]:.0f} | {e} | {fresh} |")
    return "\n".join(lines) + "\n"


def main(argv):
    before = argv[:1] == ["--before"]
    folders = argv[1:] if before else argv
    if not folders or (before and len(folders) > 1) or folders[0].startswith("-"):
        sys.exit(__doc__)
    page = PAGE.read_text(encoding="utf-8")
    start, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    had, crashes = of_page(page[start:end])
    if before:
        out = pathlib.Path(folders[0])
        out.mkdir(parents=True, exist_ok=True)
        rows = [f"{n} {c:.0f} {r} {e} 0 {fresh} 0 0" for n, (c, r, e, fresh) in had.items()]
        head = "target cpu_s execs cov ft new_units crashes slices"
        (out / "table").write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
        return
    for folder in folders:
        crashes = add(had, crashes, folder)
    PAGE.write_text(page[:start] + render(had, crashes, wanted()) + page[end:], encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
