#!/usr/bin/env python3
"""What fuzz targets had in all, as the table of docs/results/trust.md.

    tools/fuzz-table.py FOLDER…            folders that tools/fuzz-run.sh wrote (OUT), of one or several machines
    tools/fuzz-table.py --write FOLDER…    puts it into the page, between the lines that say where
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


def add_up(folders):
    """CPU seconds, inputs, new inputs and crashes of all, edges of the one that saw most; by target."""
    had = {}
    for folder in folders:
        lines = (pathlib.Path(folder) / "table").read_text(encoding="utf-8").splitlines()
        for name, cpu, runs, edges, _, fresh, bad, _ in (line.split() for line in lines[1:]):
            row = had.setdefault(name, [0.0, 0, 0, 0, 0])
            row[0] += float(cpu)
            row[1] += int(runs)
            row[2] = max(row[2], int(edges))
            row[3] += int(fresh)
            row[4] += int(bad)
    return had


def render(had, minutes):
    # A second of a slice's start and end is nobody's.
    short = [n for n in minutes if had.get(n, [0])[0] + 2 < 60 * minutes[n]]
    cpu, runs, bad = (sum(row[i] for row in had.values()) for i in (0, 1, 4))
    say = (f"{len(minutes)} targets, {cpu / 60:.0f} CPU-minutes, {runs:,} inputs, {bad} crashes; "
           f"{len(minutes) - len(short)} targets had the time asked for")
    if short:
        say += f", {len(short)} had less"
    lines = [say + ".", "", "| target | inputs | CPU-minutes | asked | edges | new inputs |",
             "|---|---:|---:|---:|---:|---:|"]
    for name in sorted(minutes, key=lambda n: (-had.get(n, [0])[0], n)):
        c, r, e, fresh, _ = had.get(name, [0, 0, 0, 0, 0])
        lines.append(f"| {name} | {r:,} | {c / 60:.1f} | {minutes[name]:.0f} | {e} | {fresh} |")
    return "\n".join(lines) + "\n"


def main(argv):
    write = argv[:1] == ["--write"]
    folders = argv[1:] if write else argv
    if not folders:
        sys.exit(__doc__)
    text = render(add_up(folders), wanted())
    if not write:
        sys.stdout.write(text)
        return
    page = PAGE.read_text(encoding="utf-8")
    new = re.sub(re.escape(BEGIN) + ".*?" + re.escape(END), lambda _: BEGIN + text + END, page, flags=re.S)
    PAGE.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
