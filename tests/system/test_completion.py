#!/usr/bin/env python3
# release build only
"""What shells are told may come next: commands, options, recipes, stages, sources, parameters and
their values, those of a plug-in from outside too; and what bash, zsh and fish make of it, each at a
terminal of its own, where they are installed."""
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

LARDER = os.environ["LARDER"]
PATIENCE = 60  # seconds until a shell that does not answer has failed


def answers(*words):
    out = subprocess.run([LARDER, "__complete", *words], check=True, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, universal_newlines=True)
    assert out.stderr == "", (words, out.stderr)
    return dict(line.split("\t", 1) for line in out.stdout.splitlines())


def only(*words):
    return sorted(answers(*words))


def plug_ins(sort):
    listed = subprocess.run([LARDER, "list"], check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout
    part = re.search(rf"\n{sort}: .*\n((?:  .*\n)*)", listed)[1]
    return {n for n in re.findall(r"^  (\w+) ", part, re.M)}


def check_answers():
    with open("src/cli/commands.def", encoding="utf-8") as f:
        names = {n.replace("_", "-") for n in re.findall(r"^LARDER_COMMAND\((\w+),", f.read(), re.M)}
    assert set(only("")) == names | {"help"}
    assert only("sv") == ["svm-grid", "svm-predict", "svm-scale", "svm-train"]
    assert only("help", "env") == ["environment"] and "--version" in only("-")
    for name in names:  # all that --help has, and nothing of another command
        told = subprocess.run([LARDER, name, "--help"], check=True, stdout=subprocess.PIPE, universal_newlines=True)
        options = set(re.findall(r"^  (--?\w[\w-]*)", told.stdout.split("\nexamples:\n")[0], re.M))
        assert set(only(name, "-")) == options | {"--help"}, name
    assert set(only("sim", "--recipe", "")) == plug_ins("recipes")
    assert only("train", "x", "--recipe=rot") == ["--recipe=rotate"]
    assert only("sim", "--recipe", "lru,rot") == ["lru,rotate"]
    assert "rotate:h=" in only("sim", "--recipe", "rotate:") and "rotate:policy=" in only("sim", "--recipe", "rotate:")
    assert only("sim", "--recipe", "quiver:policy=belad") == ["quiver:policy=belady"]
    with_lru = only("sim", "--recipe", "rotate:policy=lru,")
    assert "rotate:policy=lru,h=" in with_lru and "rotate:policy=lru,minio" in with_lru
    assert only("train", "x", "--recipe", "minio:plan=") == ["minio:plan=auto", "minio:plan=fixed"]
    assert only("sim", "--policy", "lru,bel") == ["lru,belady"]
    assert set(only("train", "x", "--augment", "")) == plug_ins("stages")
    assert "rrc:size=224|flip" in only("train", "x", "--augment", "rrc:size=224|fl")
    assert "rrc:size=224|crop:pad=" in only("train", "x", "--augment", "rrc:size=224|crop:")
    assert only("train", "x", "--on-bad", "") == ["fail", "replace", "skip"]
    assert "nfs" in only("train", "x", "--slow", "") and "bandwidth=" in only("train", "x", "--slow", "")
    assert answers("train", "tar:shards/tr") == {":files": "4"}
    assert ":files" in answers("train", "") and "tar:" in answers("train", "")
    assert "tar:a.tar?take=" in only("train", "tar:a.tar?ta")
    assert answers("ls", "s3://bucket/") == {} and answers("list", "") == {}
    assert only("disk", "") == ["check", "ls", "rm", "trim"] and answers("disk", "ls", "") == {":files": "0"}
    assert answers("report", "a", "b", "") == {":files": "0"}, "RUN... comes again"
    assert answers("train", "x", "--seed", "") == {} and answers("train", "--", "-") == {":files": "0"}
    assert answers("nonesuch", "") == {} and answers("--plugin", "") == {":files": "0"}


def check_plugin(folder):
    """A policy from outside is a recipe, with its parameters."""
    made = os.path.join(folder, "s3fifo.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-Iinclude", "-o", made, "examples/plugin/s3fifo.c"], check=True)
    assert only("--plugin", made, "sim", "--recipe", "s3f") == ["s3fifo"]
    assert only("sim", "--plugin=" + made, "--recipe", "s3fifo:s") != []
    assert only("--plugin", os.path.join(folder, "none.so"), "sim", "--recipe", "s3f") == []


class Terminal:
    """A shell at a terminal of its own."""

    def __init__(self, words, folder):
        path = os.path.dirname(os.path.abspath(LARDER)) + ":" + os.environ["PATH"]
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(words[0], words, dict(os.environ, PATH=path, HOME=folder, TERM="dumb", PS1="", PS2=""))
        self.seen = ""

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def wait(self, pattern):
        end = time.monotonic() + PATIENCE
        while not re.search(pattern, self.seen):
            assert time.monotonic() < end and select.select([self.fd], [], [], PATIENCE)[0], (pattern, self.seen)
            self.seen += os.read(self.fd, 4096).decode(errors="replace")
        found = re.search(pattern, self.seen)
        self.seen = self.seen[found.end():]
        return found

    def completed(self, typed):
        """The line after a tab: it is made an argument of echo."""
        self.type(typed + "\t\x01echo '<' \x05 '>'\n")
        return re.sub(r"\s+$", "", self.wait(r"\n\r?< (.*?) ?>\r?\n")[1].replace("\r", ""))

    def close(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)


LINES = [("larder tra", "larder train"), ("larder sim --recipe rot", "larder sim --recipe rotate"),
         ("larder sim --recipe=quiv", "larder sim --recipe=quiver"),
         ("larder sim --recipe lru,quiver:fac", "larder sim --recipe lru,quiver:factor="),
         ("larder train --profi", "larder train --profi"), ("larder plan --prof", "larder plan --profile"),
         ("larder train tar:sha", "larder train tar:shards/"), ("larder ls pho", "larder ls photos one/")]


def check_shell(words, setup, folder, lines):
    t = Terminal(words, folder)
    try:
        t.type(setup + " echo re''ady\n")
        t.wait(r"ready\r?\n")
        for typed, wanted in lines:
            got = t.completed(typed)
            assert got == wanted, (words[0], typed, got, wanted)
    finally:
        t.close()


def check_bash(folder):
    check_shell(["bash", "--norc", "--noprofile", "-i"],
                "bind 'set enable-bracketed-paste off'; eval \"$(larder complete bash)\";", folder, LINES)


# Names that a shell would run, or that would move its cursor.
HOSTILE = ["a1$(touch ran)", "b1`touch ran`", "c1\";touch ran;\"", "d1';touch ran;'", "e1\x1b[2J", "f1\\$(touch ran)", "g1!!"]
ASK = """eval "$(larder complete bash)"; COMP_WORDS=(larder ls "$1"); COMP_CWORD=2; COMP_LINE="larder ls $1"
COMP_POINT=${#COMP_LINE}; _larder larder ls; for r in "${COMPREPLY[@]}"; do eval "set -- ${1:0:$2}$r${1:0:$2}"; printf '%s\\0' "$@"; done"""


def check_hostile_names(folder):
    """Inside of quotes a name is offered if it stays a name there; without, it is made harmless."""
    path = os.path.dirname(os.path.abspath(LARDER)) + ":" + os.environ["PATH"]
    for name in HOSTILE + ["plain one"]:
        open(os.path.join(folder, name), "w", encoding="utf-8").close()
    for name in HOSTILE + ["plain one"]:
        for quote in ("", '"', "'"):
            out = subprocess.run(["bash", "--norc", "--noprofile", "-c", ASK, "bash", quote + name[:2], str(len(quote))], cwd=folder,
                                 env=dict(os.environ, PATH=path), check=True, stdout=subprocess.PIPE).stdout.decode()
            assert out in (name + "\0", "") and (out or quote and name in HOSTILE), (name, quote, out)
            assert not os.path.exists(os.path.join(folder, "ran")), (name, quote)
        os.remove(os.path.join(folder, name))


def check_zsh(folder):
    check_shell(["zsh", "-f", "-i"], "unsetopt zle_bracketed_paste auto_remove_slash; bindkey -e; autoload -Uz compinit; compinit -u -D;"
                ' eval "$(larder complete zsh)";', folder, LINES)


def check_fish(folder):
    env = dict(os.environ, PATH=os.path.dirname(os.path.abspath(LARDER)) + ":" + os.environ["PATH"], HOME=folder)
    for typed, wanted in LINES:
        if typed == wanted:
            continue
        out = subprocess.run(["fish", "-N", "-c", "larder complete fish | source; complete -C $argv[1]", typed],
                             cwd=folder, env=env, check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout
        got = [line.split("\t")[0].replace("\\ ", " ") for line in out.splitlines()]
        assert wanted.rsplit(" ", 2 if "photos" in wanted else 1)[1] in " ".join(got), (typed, got)


def main():
    check_answers()
    with tempfile.TemporaryDirectory() as folder:
        if shutil.which("cc"):
            check_plugin(folder)
        for name in ("shards", "photos one"):
            os.mkdir(os.path.join(folder, name))
        for shell, check in (("bash", check_bash), ("zsh", check_zsh), ("fish", check_fish)):
            if shutil.which(shell):
                check(folder)
                if shell == "bash":
                    check_hostile_names(folder)
            else:
                print(f"no {shell} here: not tried")
    return 0


sys.exit(main())
