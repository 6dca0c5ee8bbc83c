#!/usr/bin/env python3
"""The tables of docs/results/svm-gpu.md from what svm_device.py left.

    svm_page.py keep OUT IN…      the figures that the page shows, of several runs, as one small file
    svm_page.py write FIGURES PAGE   puts them between the page's marks
"""

import json
import re
import sys


def keep(out, *files):
    kept = {"twins": [], "table": [], "same_twice": None}
    for path in files:
        with open(path) as f:
            r = json.load(f)
        kept["twins"] += r.get("twins", [])
        kept["same_twice"] = r.get("same_twice", kept["same_twice"])
        for row in r.get("table", []):
            s = row.pop("stats", None)
            if s:
                row.update(rounds=s["rounds"], steps=s["iterations"], seconds=s["seconds"], wall=s["wall"],
                           objective=s["sum"], vectors=sum(s["vectors"]), asked=s["cache"]["asked"],
                           hits=s["cache"]["hits"], exact=s["exact"], device=s["device"])
            kept["table"].append(row)
    with open(out, "w") as f:
        json.dump(kept, f, indent=1)
        f.write("\n")


def twins(kept):
    yield "| set | options | objective off by | values off by | rounds, CPU and GPU | steps, CPU and GPU |"
    yield "|---|---|---|---|---|---|"
    for t in kept["twins"]:
        yield (f"| {t['set']} | `{t['options']}` | {t['objective_off']:.0e} | {t['values_off']:.0e} |"
               f" {t['rounds'][0]}, {t['rounds'][1]} | {t['steps'][0]:,}, {t['steps'][1]:,} |")


def speed(kept):
    peer = {}
    for row in kept["table"]:
        if row["name"].startswith("ThunderSVM ") and row.get("net"):
            name = row["name"][11:]
            peer[name] = min(row["net"], peer.get(name, row["net"]))
    yield ("| set | options | seconds | start, apart | steps of SMO | kernel values | choosing | gradient | rounds |"
           " ThunderSVM | times |")
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    for row in kept["table"]:
        if "seconds" not in row or row["name"].startswith("cover"):
            continue
        t, other = row["seconds"], peer.get(row["name"])
        yield (f"| {row['name']} | `{row['options']}` | {row['net']:.2f} | {row['start']:.2f} | {t['solve']:.3f} |"
               f" {t['kernel']:.3f} | {t['select']:.3f} | {t['update']:.3f} | {row['rounds']} |"
               + (f" {other:.2f} | {(other - row['start']) / row['net']:.1f} |" if other else " | |"))


def rows_kept(kept):
    yield "| policy | seconds | training alone | kernel values | deciding | hits | rounds | steps |"
    yield "|---|---|---|---|---|---|---|---|"
    most = max((row["steps"] for row in kept["table"] if row["name"].startswith("cover") and "steps" in row), default=0)
    for row in kept["table"]:
        if not row["name"].startswith("cover") or "seconds" not in row or row["steps"] < most:
            continue
        t = row["seconds"]
        share = row["hits"] / row["asked"] if row["asked"] else 0
        yield (f"| {row['name'].split()[-1]} | {row['net']:.1f} | {t['all'] - t['start']:.1f} | {t['kernel']:.1f} |"
               f" {t['cache']:.2f} | {100 * share:.0f} % | {row['rounds']} | {row['steps']:,} |")


def write(figures, page):
    with open(figures) as f:
        kept = json.load(f)
    with open(page) as f:
        text = f.read()
    for name, lines in (("twins", twins), ("speed", speed), ("kept", rows_kept)):
        text = re.sub(f"(<!-- {name} -->\n).*?(<!-- end -->)", lambda m: m[1] + "\n".join(lines(kept)) + "\n" + m[2],
                      text, flags=re.S)
    with open(page, "w") as f:
        f.write(text)


if __name__ == "__main__":
    {"keep": keep, "write": write}[sys.argv[1]](*sys.argv[2:])
