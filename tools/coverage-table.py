#!/usr/bin/env python3
"""The summary that llvm-cov exports as JSON, as a table by folder of src/.

    tools/coverage-table.py SUMMARY
"""

import json
import sys


def folder_of(name):
    below = ("/" + name).split("/src/", 1)[1]
    return below.rpartition("/")[0] or "."


def percent(done, of):
    return f"{100 * done / of:.1f} %" if of else "-"


def main(path):
    with open(path, encoding="utf-8") as f:
        files = json.load(f)["data"][0]["files"]
    folders, total = {}, [0] * 5
    for file in (f for f in files if "/src/" in "/" + f["filename"]):
        s = file["summary"]
        row = [1, s["lines"]["count"], s["lines"]["covered"], s["branches"]["count"],
               s["branches"]["covered"]]
        folder = folders.setdefault(folder_of(file["filename"]), [0] * 5)
        for i, n in enumerate(row):
            folder[i] += n
            total[i] += n
    print("| folder of `src/` | files | lines | run | branches | taken |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, (n, lines, run, branches, taken) in sorted(folders.items()) + [("all", total)]:
        print(f"| {name} | {n} | {lines} | {percent(run, lines)} | {branches} | "
              f"{percent(taken, branches)} |")


if __name__ == "__main__":
    main(sys.argv[1])
