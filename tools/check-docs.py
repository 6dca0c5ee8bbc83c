#!/usr/bin/env python3
"""Holds the documentation together: every relative link leads somewhere, heading included; every page of
docs/ is linked from docs/index.md; pages that sources name are there, and tests that pages name, one for each
promise of SECURITY.md; rows of tables have a head; guides and questions stay short enough to be read; questions
lead on to a guide or a result; sentences that the page of errors quotes still stand in the sources. Prints file:line
of what is wrong.

    tools/check-docs.py [ROOT OF A TREE]
"""
import ast
import os
import re
import subprocess
import sys

MOST_WORDS = 20000  # of docs/guide and the index together, as wc -w counts; but for what is made by a command:
MOST_ASKED = 700  # words of a page of docs/questions, what is typed and shown apart; but for those to look things up in:
LOOKED_UP = ("docs/questions/errors.md", "docs/questions/peers.md")
ERRORS = "docs/questions/errors.md"
SECURITY = "SECURITY.md"
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


NAMED_TEST = re.compile(r"`(tests/[\w./-]+\.(?:c|py|sh))`")


def promises(text):
    """(number, words) of each bullet under "What is promised"; what is left over by them is no promise."""
    number, words, inside = 0, "", False
    for n, line in enumerate(text.split("\n") + ["#"], 1):
        if words and not line.startswith("  "):
            yield number, words
            words = ""
        if line.startswith("#"):
            inside = line == "## What is promised"
        elif inside and line.startswith("- ") and not line.startswith("- What that leaves"):
            number, words = n, line
        elif words:
            words += line


def check_tests(texts):
    """Tests that promises name: each of them one at least, and those are there."""
    wrong = [f"{page}:{number}: there is no {name}" for page, text in texts.items()
             for number, line in enumerate(text.split("\n"), 1)
             for name in NAMED_TEST.findall(line) if not os.path.exists(name)]
    kept = list(promises(texts.get(SECURITY, "")))
    if SECURITY in texts and not kept:
        wrong.append(f"{SECURITY}: nothing is promised, or under another heading")
    return wrong + [f"{SECURITY}:{number}: a promise that names no test" for number, words in kept
                    if not NAMED_TEST.search(words)]


def check_tables(texts):
    """A row that a blank line has cut off its table is shown as it is typed."""
    wrong = []
    for page, text in texts.items():
        lines = dict(prose(text))
        wrong += [f"{page}:{n}: a row of no table" for n, line in lines.items()
                  if line.startswith("|") and not lines.get(n - 1, "").startswith("|")
                  and not re.match(r"\|[ :|-]+$", lines.get(n + 1, ""))]
    return wrong


def check_questions(pages, texts):
    """A page a question: short, and it leads on."""
    wrong = []
    for page in pages:
        if not page.startswith("docs/questions/"):
            continue
        words = sum(len(line.split()) for _, line in prose(texts[page]))
        if page not in LOOKED_UP and words > MOST_ASKED:
            wrong.append(f"{page}: {words} words, more than {MOST_ASKED}: it should lead to a guide, not repeat it")
        if not any(path.startswith(("docs/guide/", "docs/results/")) for _, path, _ in links_of(page, texts[page])):
            wrong.append(f"{page}: leads to no guide and no result")
    return wrong


C_TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"|PRI[a-zA-Z0-9]+|\'(?:[^\'\\]|\\.)+\'|[^\s"/]|/', re.S)
VALUE = re.compile(r"%[-+ #0]*(?:\*|\d+)?(?:\.(?:\*|\d+))?(?:hh|h|ll|l|z|j|t)?[a-zA-Z]")


def gaps(text):
    """A value is … however it is written, several in a row are one."""
    return re.sub("…+", "…", VALUE.sub("…", text.replace("%%", "\0")).replace("\0", "%"))


def said_in_c(text):
    """Its texts, neighbours joined, one a line."""
    whole, found = "", []
    for token in C_TOKEN.findall(text):
        if token.startswith(("/*", "//")):
            continue
        if token.startswith('"'):
            whole += re.sub(r"\\(.)", lambda m: {"n": " ", "t": " "}.get(m[1], m[1]), token[1:-1])
        elif token.startswith("PRI"):
            whole += "u"
        elif whole:
            found.append(whole)
            whole = ""
    return gaps("\n".join(found))


def said_in_python(text):
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
        elif isinstance(node, ast.JoinedStr):
            found.append("".join(v.value if isinstance(v, ast.Constant) else "…" for v in node.values))
    return re.sub("…+", "…", "\n".join(found))


def check_sentences(texts):
    """What the page of errors quotes, in the first column, is what the program says."""
    said = "\n".join([said_in_c(text_of(f)) for f in tracked("src/*.c")] +
                     [said_in_python(text_of(f)) for f in tracked("python/larder/*.py")])
    wrong = []
    for number, line in prose(texts.get(ERRORS, "")):
        if line.startswith("| `"):
            for sentence in re.findall(r"`([^`]+)`", line.split(" | ")[0]):
                if sentence not in said:
                    wrong.append(f"{ERRORS}:{number}: nothing says \"{sentence}\"")
    return wrong


def main():
    os.chdir(sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, ".."))
    pages = [p for p in tracked("*.md") if p.startswith("docs/") or "/" not in p]
    texts = {p: text_of(p) for p in pages}
    wrong = (check(pages, texts) + check_tests(texts) + check_tables(texts) + check_questions(pages, texts)
             + check_sentences(texts))
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
