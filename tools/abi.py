#!/usr/bin/env python3
"""What programs compiled against larder rely on: every function, struct and constant of its headers,
as text. tests/golden/abi-N has it as it was when SOVERSION became N, with what was added since.

    tools/abi.py                     what differs from that file; 1 if anything does
    tools/abi.py --write SENTENCE    writes it anew; the sentence says what changed and is kept in it

A struct that begins with its size may grow at its end and a function may be added: programs of before run on.
Anything else breaks them, and SOVERSION in CMakeLists.txt goes up, or LARDER_PLUGIN_ABI for what plug-ins rely
on (CONTRIBUTING.md, Versions)."""

import argparse
import re
import sys
from pathlib import Path

INSIDE = r"[^{}]*(?:\{[^{}]*\}[^{}]*)*"  # of braces, with one more pair of them in it
ROOT = Path(__file__).resolve().parent.parent
# Elements of arrays and plain values, which stay as they are.
FROZEN = {"shape", "piece", "column", "split", "outlook", "svm_weight", "svm_switch", "crew_worker"}


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def soversion():
    return re.search(r"SOVERSION (\d+)", read("CMakeLists.txt")).group(1)


def version():
    return re.search(r'#define LARDER_VERSION "([^"]+)"', read("include/larder/larder.h")).group(1)


def plain(text):
    """Without comments, bodies of inline functions and what the preprocessor alone reads."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"\\\n", " ", text)
    text = re.sub(r'extern "C" \{', "", text)
    text = re.sub(r"^(static inline[^{;]*)\{.*?^\}", "", text, flags=re.S | re.M)
    return re.sub(r"^LARDER_REGISTER_AS\(.*\)$", "", text, flags=re.M)


def tidy(text):
    return re.sub(r"\s+", " ", text).strip()


def members(text):
    """Of a struct or an enum, one a list entry."""
    return [tidy(m) for m in re.split(r"[;,](?![^(\[{]*[)\]}])", text) if m.strip()]


def declarations(header, text):
    """{header, sort and name: what is said of it}: members, or one text."""
    return {f"{header} {name}": said for name, said in declared(plain(text)).items()}


def declared(text):
    found = {}
    for name, value in re.findall(r"^#define (LARDER_\w+) (.+)$", text, flags=re.M):
        if name != "LARDER_VERSION":
            found[f"constant {name}"] = [tidy(value)]
    text = re.sub(r"^#.*$", "", text, flags=re.M)
    for match in re.finditer(rf"(?:typedef )?(struct|enum) ?(\w*) {{({INSIDE})}} ?(\w*);", text):
        sort, tag, inside, name = match.groups()
        inside = members(inside)
        found[f"{sort} {name or tag or inside[0].split(' ')[0]}"] = inside
    text = re.sub(rf"(?:typedef )?(?:struct|enum) ?\w* {{{INSIDE}}} ?\w*;", "", text)
    for statement in map(tidy, text.split(";")):
        alias = re.match(r"typedef .*?\(?\*?(\w+)(?:\)\(.*|$)", statement)
        function = re.match(r"(?!typedef).*?\b(larder_\w+)\(", statement)
        if alias:
            found[f"type {alias.group(1)}"] = [statement]
        elif function:
            found[f"function {function.group(1)}"] = [statement]
    return found


def today():
    found = {}
    for header in sorted((ROOT / "include" / "larder").glob("*.h")):
        found.update(declarations(header.name, header.read_text(encoding="utf-8")))
    return found


def written(found, notes):
    lines = [f"# {note}\n" for note in notes]
    for name in sorted(found):
        lines.append(f"{name}\n" + "".join(f"    {member}\n" for member in found[name]))
    return "".join(lines)


def parsed(text):
    found, notes, last = {}, [], None
    for line in text.splitlines():
        if line.startswith("# "):
            notes.append(line[2:])
        elif line.startswith("    "):
            found[last].append(line[4:])
        else:
            last = line
            found[last] = []
    return found, notes


def grew(before, now):
    """A struct with its size, with more at its end; or an enum. A plug-in's size is registered with it."""
    may = before[0] in ("size_t size", "larder_plugin plugin") or re.match(r"LARDER_\w+( =|$)", before[0])
    return may and now[: len(before)] == before


def sizeless(now):
    """Structs that could never grow, and nobody said that they will not."""
    for name, said in now.items():
        header, sort, what = name.split(" ")
        frozen = header == "plugin.h" or what[len("larder_"):] in FROZEN
        if sort == "struct" and said[0] != "size_t size" and not frozen:
            yield f"{name} does not begin with size_t size, and FROZEN in tools/abi.py does not name it"


def differences(before, now):
    """(name, sentence, whether it breaks programs of before)"""
    for name in sorted(set(before) | set(now)):
        if name not in before:
            yield name, "is new", False
        elif name not in now:
            yield name, "is gone", True
        elif grew(before[name], now[name]) and before[name] != now[name]:
            yield name, f"has grown: {', '.join(now[name][len(before[name]):])}", False
        elif before[name] != now[name]:
            yield name, f"is another: {'; '.join(now[name])}, not {'; '.join(before[name])}", True


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", metavar="SENTENCE")
    given = parser.parse_args()
    file = ROOT / "tests" / "golden" / f"abi-{soversion()}"
    before, notes = parsed(file.read_text(encoding="utf-8")) if file.exists() else ({}, [])
    now = today()
    unfit = list(sizeless(now))
    for sentence in unfit:
        print(sentence)
    if given.write and not unfit:
        file.write_text(written(now, notes + [f"{version()}: {given.write}"]), encoding="utf-8")
        return 0
    changed = list(differences(before, now))
    for name, sentence, breaks in changed:
        number = "LARDER_PLUGIN_ABI" if name.startswith("plugin.h ") else "SOVERSION"
        print(f"{name} {sentence}{f': this breaks what was compiled before, {number} goes up' if breaks else ''}")
    if changed:
        print(f'{file.relative_to(ROOT)} is not of these headers: tools/abi.py --write "what changed and why"')
    return 1 if changed or unfit else 0


if __name__ == "__main__":
    sys.exit(main())
