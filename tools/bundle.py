#!/usr/bin/env python3
"""Makes a wheel that other distributions take: library, program and every library they need beside
them, with the licences of all. tools/wheel.sh builds first and calls this.

    tools/bundle.py LIBRARY PROGRAM FOLDER [--glibc 2.34] [--docs /usr/share/doc]

The tag says the oldest C library that has every symbol asked for, and is computed from these symbols;
--glibc refuses a newer one. Needs Debian's patchelf and binutils, and dpkg, which knows whose a file is."""

import argparse
import hashlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections import namedtuple
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))
sys.dont_write_bytecode = True
import wheel_backend  # noqa: E402

# Of glibc, and what every system with glibc has, as PEP 600 counts on. A newer libgcc would ask for a
# newer glibc than all the others do.
OF_THE_SYSTEM = re.compile(
    r"(ld-linux-x86-64|libc|libm|libpthread|libdl|librt|libresolv|libutil|libgcc_s)\.so\.\d+$|linux-vdso\.so"
)
NEWEST_LIBGCC = 11  # that of distributions with glibc 2.34
# Under the GPL alone: whoever passed the wheel on would be bound by it.
REFUSED = {"libjbig": "build without tiff", "libreadline": "nothing here needs it"}
FOLDER = "libs"  # of the package, for what is bundled

Bundled = namedtuple("Bundled", "file name package")  # where it was, what it is called now, whose it is


def refuse(sentence):
    raise SystemExit(f"bundle: {sentence}")


def tell(*command):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        refuse(f"{' '.join(map(str, command))}: {done.stderr.decode().strip()}")
    return done.stdout.decode()


# ---- what is needed ---------------------------------------------------------------------------


def needed_by(file):
    """Names that an object asks for, and where the loader finds each; those behind them too."""
    found = {}
    for line in tell("ldd", file).splitlines():
        name, arrow, rest = line.strip().partition(" => ")
        name = Path(name.split()[0]).name
        if OF_THE_SYSTEM.match(name):
            continue
        if not arrow or rest.startswith("not found"):
            refuse(f"{file} needs {name}, which is not here" if arrow else f"{file}: {line.strip()}")
        found[name] = Path(rest.split(" (")[0])
    return found


def names_in(file):
    """What an object asks for itself."""
    return re.findall(r"\(NEEDED\).*\[(.*)\]", tell("readelf", "-dW", file))


def owner(file):
    """The Debian package a file belongs to, with its version and that of its source."""
    real = str(file.resolve())
    for path in (real, real[len("/usr"):] if real.startswith("/usr/") else "/usr" + real):
        done = subprocess.run(["dpkg", "-S", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if done.returncode == 0:
            return done.stdout.decode().split(": ")[0]
    return refuse(f"{file} belongs to no package, so nobody knows its licence")


def choose(file):
    for stem, what in REFUSED.items():
        if file.name.startswith(stem + "."):
            refuse(f"{file.name} is under the GPL alone: {what}")
    # No other package's library of that name is taken for ours, nor ours for theirs.
    stem, dot, rest = file.name.partition(".so")
    mark = hashlib.sha256(file.read_bytes()).hexdigest()[:8]
    return Bundled(file.resolve(), f"{stem}-{mark}{dot}{rest}", owner(file))


# ---- what it asks of the system ---------------------------------------------------------------


def versions_in(file):
    """{("GLIBC", "2.34"): "symbol", …} of an object."""
    asked = {}
    for line in tell("objdump", "-T", file).splitlines():
        match = re.search(r"\*UND\*.*[\s(]((?:GLIBC|GCC)_[\w.]+)\)?\s+(\S+)$", line)
        if match:
            asked[tuple(match.group(1).split("_", 1))] = match.group(2)
    return asked


def check_machine(file):
    """Any x86-64 processor runs it: what is quicker on newer ones is chosen at run time."""
    notes = tell("readelf", "-nW", file)
    for level in re.findall(r"x86 ISA needed: (.*)", notes):
        if level.strip() not in ("x86-64-baseline", ""):
            refuse(f"{file.name} needs a processor of {level.strip()}; compile it without -march")


def number(version):
    return tuple(int(part) for part in version.split("."))


def oldest_glibc(objects, most):
    """The version that has all symbols of the objects; refuses one above `most`."""
    newest = (2, 5)
    for file in objects:
        check_machine(file)
        for (family, version), symbol in versions_in(file).items():
            asks = f"{file.name} asks for {symbol} of {family}_{version}"
            if not re.fullmatch(r"[\d.]+", version):
                refuse(f"{asks}, of no known age")
            if family == "GCC" and number(version)[0] > NEWEST_LIBGCC:
                refuse(f"{asks}, newer than GCC_{NEWEST_LIBGCC}")
            if family == "GLIBC" and number(version) > most:
                refuse(f"{asks}, newer than GLIBC_{'.'.join(map(str, most))}")
            if family == "GLIBC":
                newest = max(newest, number(version)[:2])
    return newest


# ---- changing and collecting ------------------------------------------------------------------


def patch(file, path, renamed):
    """Makes an object look for its libraries, under their new names, at `path` from where it lies."""
    for name in names_in(file):
        if name in renamed:
            tell("patchelf", "--replace-needed", name, renamed[name].name, file)
    tell("patchelf", "--set-rpath", path, file)


def licences(bundled, docs):
    """The licence of every bundled library, whole, and a list of what is bundled."""
    texts, rows = {}, []
    for b in sorted(set(bundled), key=lambda b: b.name):
        package = b.package.split(":")[0]
        file = docs / package / "copyright"
        if not file.is_file():
            refuse(f"no licence of {b.file.name}: {file} is missing")
        text = file.read_bytes()
        texts[f"{package}/copyright"] = text
        for common in re.findall(rb"/usr/share/common-licenses/([\w.+-]*\w)", text):
            whole = Path("/usr/share/common-licenses") / common.decode()
            if not whole.is_file():
                refuse(f"no licence of {b.file.name}: {whole} is missing")
            texts[f"common-licenses/{whole.name}"] = whole.read_bytes()
        rows.append(tell("dpkg-query", "-W", "-f", f"{b.name}  ${{Package}} ${{Version}}, of the source "
                         "${source:Package} ${source:Version}\n", b.package))
    texts["BUNDLED"] = (
        "Libraries of Debian in larder/libs, as they are there but for their names and where they look for\n"
        "each other. The source of each is to be had from Debian under the name and version given here; any\n"
        "of them may be replaced by another build.\n\n" + "".join(rows)
    ).encode()
    return {f"{wheel_backend.INFO}/licenses/{name}": text for name, text in texts.items()}


def bundle(library, program, scratch, most):
    """Copies all objects to `scratch` as the wheel will have them; gives these, by name, and what is bundled."""
    found = {**needed_by(library), **needed_by(program)}
    renamed = {name: choose(path) for name, path in found.items()}
    for path in ("bin", FOLDER):
        (scratch / path).mkdir()
    own = {"liblarder.so": (library, f"$ORIGIN/{FOLDER}"), "bin/larder": (program, f"$ORIGIN/../{FOLDER}")}
    for name, (file, path) in own.items():
        shutil.copyfile(file, scratch / name)
        tell("strip", "--strip-unneeded", scratch / name)
        patch(scratch / name, path, renamed)
    for b in set(renamed.values()):
        copy = scratch / FOLDER / b.name
        shutil.copyfile(b.file, copy)
        tell("patchelf", "--set-soname", b.name, copy)
        patch(copy, "$ORIGIN", renamed)
    objects = sorted(p for p in scratch.rglob("*") if p.is_file())
    glibc = oldest_glibc(objects, most)
    files = {f"larder/{p.relative_to(scratch)}": p.read_bytes() for p in objects}
    return files, renamed.values(), glibc


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("library", type=Path)
    parser.add_argument("program", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--glibc", type=number, default=(2, 34))
    parser.add_argument("--docs", type=Path, default=Path("/usr/share/doc"))
    given = parser.parse_args()
    if platform.machine() != "x86_64":
        refuse(f"wheels are made for x86_64, and this is {platform.machine()}; pip install . builds for it")
    with tempfile.TemporaryDirectory(prefix="larder-bundle-") as scratch:
        files, bundled, glibc = bundle(given.library, given.program, Path(scratch), given.glibc)
    files = {**wheel_backend.package_files(), **files, **licences(bundled, given.docs)}
    given.folder.mkdir(parents=True, exist_ok=True)
    tag = "py3-none-manylinux_{}_{}_x86_64".format(*glibc)
    print(given.folder / wheel_backend.write_wheel(given.folder, files, tag))


if __name__ == "__main__":
    main()
