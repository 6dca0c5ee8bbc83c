#!/usr/bin/env python3
"""Every environment variable that larder reads is on docs/guide/environment.md, and nothing else is:
what getenv, os.environ and their like are asked for is compared with the page."""
import os
import re
import subprocess
import sys

LARDER = os.environ["LARDER"]
PAGE = "docs/guide/environment.md"


def text_of(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def files_below(folder, end):
    for at, _, names in os.walk(folder):
        yield from (os.path.join(at, n) for n in names if n.endswith(end))


def asked_in_c(text):
    """What getenv is given, and names with an underscore in any file that asks at all: those may come
    through a function of its own, a table or a constant."""
    given = set(re.findall(r'getenv\("([^"]*)"\)', text))
    return given | set(re.findall(r'"([A-Z][A-Z0-9]*_[A-Z0-9_]+)"', text)) if "getenv(" in text else set()


def asked_in_python(text):
    got = re.findall(r"""environ(?:\.get\(|\.pop\(|\[)\s*["'](\w+)""", text)
    return set(got + re.findall(r"""["'](\w+)["'] (?:not )?in os\.environ""", text))


def main():
    assert asked_in_c('x = getenv(name); f("MY_NAME");') == {"MY_NAME"}
    assert asked_in_python("os.environ['A_B'] or \"C\" in os.environ") == {"A_B", "C"}
    asked = {}
    for folder, end, find in (("src", ".c", asked_in_c), ("python", ".py", asked_in_python)):
        for path in files_below(folder, end):
            for name in find(text_of(path)):
                asked.setdefault(name, path)
    listed = set(re.findall(r"^\| `(\w+)` \|", text_of(PAGE), re.M))
    assert len(asked) > 20, asked
    wrong = [f"{asked[n]} reads {n}, which is not in src/cli/variables.def" for n in asked if n not in listed]
    wrong += [f"{PAGE} has {n}, which nobody reads" for n in listed if n not in asked]
    shown = subprocess.run([LARDER, "help", "environment"], check=True, stdout=subprocess.PIPE,
                           universal_newlines=True).stdout
    wrong += [f"larder help environment does not have {n}" for n in listed if f"\n  {n}\n" not in shown]
    print("\n".join(wrong))
    return 1 if wrong else 0


sys.exit(main())
