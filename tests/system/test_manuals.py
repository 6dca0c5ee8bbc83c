#!/usr/bin/env python3
"""Each command has a man page with all that --help says of it, which man renders without a warning;
larder(1) names every command and every environment variable."""
import os
import re
import shutil
import subprocess
import sys

LARDER, BUILD = os.environ["LARDER"], os.environ["LARDER_BUILD"]


def out_of(*words, **more):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, universal_newlines=True, **more).stdout


def rendered(page):
    """As on a terminal of 80 columns; man has nothing to complain of."""
    env = dict(os.environ, LC_ALL="C.UTF-8", MANWIDTH="80")
    shown = subprocess.run(["man", "--warnings=w", "-E", "utf8", "-l", page], env=env, check=True,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    assert shown.stderr == "", (page, shown.stderr)
    return re.sub(r".\x08", "", shown.stdout)


def squeezed(text):
    return re.sub(r"\s+", "", text.replace("\u2010\n", ""))


def commands():
    with open("src/cli/commands.def", encoding="utf-8") as f:
        return [n.replace("_", "-") for n in re.findall(r"^LARDER_COMMAND\((\w+),", f.read(), re.M)]


def check_command(name):
    usage = out_of(LARDER, name, "--help")
    text = squeezed(rendered(f"{BUILD}/man/larder-{name}.1"))
    parts = re.split(r"\n\n(?:options|examples):\n", usage)
    lines = usage.split("\noptions:\n")[-1].split("\n\nexamples:\n")[0].split("\n") if "\noptions:\n" in usage else []
    assert parts[0].startswith("usage: larder " + name), parts[0]
    for wanted in [parts[0][len("usage: "):], *lines, *usage.split("\nexamples:\n")[1:]]:
        for line in wanted.split("\n"):
            assert squeezed(line) in text, (name, line)


def main():
    names = commands()
    pages = sorted(os.listdir(f"{BUILD}/man"))
    assert pages == sorted(["larder.1"] + [f"larder-{n}.1" for n in names]), pages
    for page in pages:  # they are this program's
        with open(f"{BUILD}/man/{page}", encoding="utf-8") as f:
            assert f.read() == out_of(LARDER, "--man", *page[:-2].split("-", 1)[1:]), page
    assert subprocess.run([LARDER, "--man", "tarin"], stderr=subprocess.DEVNULL).returncode == 2
    if not shutil.which("man"):
        print("no man here: pages are not rendered")
        return 77
    for name in names:
        check_command(name)
    whole = rendered(f"{BUILD}/man/larder.1")
    for name in names:
        assert f"larder-{name}(1)" in whole, name
    variables = re.findall(r"^  (\w+)$", out_of(LARDER, "help", "environment"), re.M)
    assert len(variables) > 20 and all(v in whole for v in variables)
    return 0


sys.exit(main())
