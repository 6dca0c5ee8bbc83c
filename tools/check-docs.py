#!/usr/bin/env python3
"""Holds the documentation together: every relative link leads somewhere, heading included; every page of
docs/ is linked from docs/index.md; pages that sources name are there, and tests that pages name; guides stay short enough to be read.
Prints file:line of what is wrong.

    tools/check-docs.py [ROOT OF A TREE]
"""
import os
import re
import subprocess
import sys

MOST_WORDS = 20000  # of docs/guide and the index together, as wc -w counts; but for what is made by a command:
MADE = ("docs/guide/plugins.md", "docs/guide/environment.md")
HERE = os.path.dirname(os.path.abspath(__file__))
LINK = re.compile(r"\]\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)*)\)")
NAMED = re.compile(r"\bdocs/[\w./-]+\.(?:md|svg|png)\b")


def tracked(*patterns):
    env = dict(os.environ, LARDER_TREE=".")
    out = subprocess.run([os.path.join(HERE, "tracked-files.sh"), *patterns], env=env, check=True,
                         stdout=subprocess.PIPE, universal_newlines=True).stdout
    return out.splitlines()


def text_of(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


def prose(text):
    """(number, line) outside of fenced blocks."""
    fenced = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line


def anchors(text):
    """What GitHub calls the headings: lower case, blanks as -, a number behind those that come again."""
    found = set()
    for _, line in prose(text):
        heading = re.match(r"#{1,6}\s+(.*?)\s*#*$", line)
        if not heading:
            continue
        shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading[1]).replace("`", "").lower()
        name = re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")
        again, plain = 0, name
        while name in found:
            again += 1
            name = f"{plain}-{again}"
        found.add(name)
    return found


def links_of(page, text):
    """(number, file, anchor) of each relative link; the file as a path from the root."""
    for number, line in prose(text):
        for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            path, _, anchor = target.partition("#")
            here = os.path.join(os.path.dirname(page), path) if path else page
            yield number, os.path.normpath(here), anchor


def check(pages, texts):
    wrong, seen = [], set()
    for page in pages:
        for number, path, anchor in links_of(page, texts[page]):
            if page == "docs/index.md":
                seen.add(path)
            if not os.path.exists(path):
                wrong.append(f"{page}:{number}: there is no {path}")
            elif anchor and anchor not in anchors(texts.get(path) or text_of(path)):
                wrong.append(f"{page}:{number}: {path} has no heading #{anchor}")
    for page in pages:
        if page.startswith("docs/") and page != "docs/index.md" and page not in seen:
            wrong.append(f"{page}: docs/index.md does not lead to it")
    return wrong


def check_names(files):
    """Pages that comments and messages name by their path."""
    wrong = []
    for file in files:
        for number, line in enumerate(text_of(file).split("\n"), 1):
            for name in NAMED.findall(line):
                if not os.path.exists(name):
                    wrong.append(f"{file}:{number}: there is no {name}")
    return wrong


def check_tests(texts):
    """Tests that promises name."""
    return [f"{page}:{number}: there is no {name}" for page, text in texts.items()
            for number, line in enumerate(text.split("\n"), 1)
            for name in re.findall(r"`(tests/[\w./-]+\.(?:c|py|sh))`", line) if not os.path.exists(name)]


def main():
    os.chdir(sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, ".."))
    pages = [p for p in tracked("*.md") if p.startswith("docs/") or "/" not in p]
    texts = {p: text_of(p) for p in pages}
    wrong = check(pages, texts) + check_tests(texts)
    if "docs/index.md" not in texts:
        wrong.append("there is no docs/index.md")
    wrong += check_names(f for f in tracked() if not f.startswith(("docs/", "tests/fuzz/corpus/")))
    words = sum(len(texts[p].split()) for p in pages
                if p not in MADE and (p.startswith("docs/guide/") or p == "docs/index.md"))
    if words > MOST_WORDS:
        wrong.append(f"docs/guide and docs/index.md have {words} words, more than {MOST_WORDS}")
    print("\n".join(wrong) if wrong else f"docs: {len(pages)} pages, guides of {words} words")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
