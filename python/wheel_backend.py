"""Builds the wheel and the source archive (PEP 517), with nothing but Python and a C compiler.

The library and the program come from CMake and Ninja where they are there, else from the compiler
alone, as `make core` does; LARDER_LIBRARY and LARDER name ones that are built already. What the wheel
holds runs on this machine's sort of processor with this machine's C library or a newer one."""

import base64
import csv
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAME = "larder"
FLAGS = ["-std=gnu17", "-D_GNU_SOURCE", "-O2", "-fPIC", "-pthread", "-Iinclude", "-Isrc"]


def version():
    text = (ROOT / "include" / "larder" / "larder.h").read_text(encoding="utf-8")
    return re.search(r'#define LARDER_VERSION "([^"]+)"', text).group(1)


def local_tag():
    """Of a wheel for this machine and its like. tools/bundle.py makes one for other distributions."""
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return f"py3-none-{platform}"


def metadata():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    return (
        f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version()}\n"
        "Summary: A training-aware cache, sampler and loader\nRequires-Python: >=3.8\n"
        "Requires-Dist: numpy\nProvides-Extra: torch\n"
        "Requires-Dist: torch>=1.13; extra == 'torch'\nProvides-Extra: svm\n"
        "Requires-Dist: scikit-learn; extra == 'svm'\n"
        f"Description-Content-Type: text/markdown\n\n{readme}"
    )


# ---- the library ------------------------------------------------------------------------------


def run(command, **more):
    print("larder:", " ".join(map(str, command))[:120], flush=True)
    if subprocess.run([str(c) for c in command], **more).returncode:
        raise SystemExit(f"larder: {command[0]} failed; what it said is above")


def made_here():
    """The folder that `make` left here, to go on with: nothing is compiled twice."""
    cache = ROOT / "build" / "CMakeCache.txt"
    if not os.access(cache, os.W_OK):
        return None
    text = cache.read_text(encoding="utf-8", errors="replace")
    ours = f"CMAKE_HOME_DIRECTORY:INTERNAL={ROOT}\n" in text and "CMAKE_GENERATOR:INTERNAL=Ninja\n" in text
    return cache.parent if ours and "CMAKE_BUILD_TYPE:STRING=Release\n" in text else None


def build_cmake(folder):
    made = made_here()
    if made:
        run(["cmake", "--build", made, "--target", "larder", "larder_shared"])
        return made / "liblarder.so", made / "larder"
    run(["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
         "-DLARDER_TESTS=OFF", "-DLARDER_WERROR=OFF"])
    run(["cmake", "--build", folder, "--target", "larder", "larder_shared"])
    return folder / "liblarder.so", folder / "larder"


def build_core(folder):
    """Without CMake: one compiler, file after file, the optional parts off."""
    cc = os.environ.get("CC", "cc")
    embed = folder / "embed"
    run([cc, "-o", embed, ROOT / "tools" / "embed.c"])
    sources = sorted((ROOT / "src").rglob("*.c"))
    for carried in ("see/page", "gpu/code", "cli/shells"):  # as in CMakeLists.txt
        sources.append(folder / f"{Path(carried).name}_files.c")
        run([embed, sources[-1], carried, *sorted((ROOT / "src" / carried).iterdir())])
    flags = [*FLAGS, *os.environ.get("CFLAGS", "").split()]
    objects = []
    running = []
    for source in sources:
        out = folder / f"{len(objects)}.o"
        objects.append((source, out))
        running.append(subprocess.Popen([cc, *flags, "-c", "-o", out, source], cwd=ROOT))
        if len(running) >= (os.cpu_count() or 1):
            finish(running.pop(0))
    for p in running:
        finish(p)
    inside = [o for s, o in objects if s.parent.name != "cli"]
    library, program = folder / "liblarder.so", folder / "larder"
    exports = f"-Wl,--version-script={ROOT / 'src' / 'exports.map'}"
    run([cc, "-shared", exports, "-o", library, *inside, "-lpthread", "-ldl", "-lm"])
    run([cc, "-o", program, *[o for _, o in objects], "-lpthread", "-ldl", "-lm"])
    return library, program


def finish(process):
    if process.wait() != 0:
        raise SystemExit(f"larder: the compiler failed: {' '.join(map(str, process.args))}")


def build(folder):
    given = os.environ.get("LARDER_LIBRARY")
    if given:
        return Path(given), Path(os.environ.get("LARDER") or Path(given).parent / "larder")
    if shutil.which("cmake") and shutil.which("ninja") and not os.environ.get("LARDER_CORE"):
        return build_cmake(folder)
    if not shutil.which(os.environ.get("CC", "cc")):
        raise SystemExit("larder: a C compiler is needed (apt install gcc), or LARDER_LIBRARY")
    return build_core(folder)


# ---- the wheel --------------------------------------------------------------------------------


def digest(data):
    raw = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
    return "sha256=" + raw.decode()


INFO = f"{NAME}-{version()}.dist-info"


def info_files(tag):
    files = {
        "METADATA": metadata().encode(),
        "WHEEL": (
            f"Wheel-Version: 1.0\nGenerator: larder\nRoot-Is-Purelib: false\nTag: {tag}\n"
        ).encode(),
        "entry_points.txt": b"[console_scripts]\nlarder = larder.__main__:main\n",
        "licenses/LICENSE": (ROOT / "LICENSE").read_bytes(),
    }
    return {f"{INFO}/{name}": data for name, data in files.items()}


def package_files():
    """The modules, without what is compiled."""
    files = sorted((ROOT / "python" / NAME).rglob("*"))
    return {
        str(file.relative_to(ROOT / "python")): file.read_bytes()
        for file in files
        if file.suffix in (".py", ".typed") and "__pycache__" not in file.parts
    }


def add(archive, name, data):
    """A file that begins as ELF is a program or a library."""
    info = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))  # the same wheel from the same files
    info.external_attr = (0o100755 if data[:4] == b"\x7fELF" else 0o100644) << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, data)


def write_wheel(directory, files, tag):
    """Leaves a wheel of these files, by name; gives its own name."""
    files = {**files, **info_files(tag)}
    records = [(name, digest(data), len(data)) for name, data in files.items()]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(records + [(f"{INFO}/RECORD", "", "")])
    files[f"{INFO}/RECORD"] = out.getvalue().encode()
    wheel = f"{NAME}-{version()}-{tag}.whl"
    with zipfile.ZipFile(Path(directory) / wheel, "w") as archive:
        for name, data in files.items():
            add(archive, name, data)
    return wheel


# ---- what pip calls ---------------------------------------------------------------------------


def get_requires_for_build_wheel(config_settings=None):
    return []


def get_requires_for_build_sdist(config_settings=None):
    return []


def get_requires_for_build_editable(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """So that pip looks for what larder requires before it compiles for a minute."""
    for file, data in info_files(local_tag()).items():
        path = Path(metadata_directory) / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return INFO


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with tempfile.TemporaryDirectory(prefix="larder-wheel-") as folder:
        library, program = build(Path(folder))
        files = {
            **package_files(),
            f"{NAME}/liblarder.so": Path(library).resolve().read_bytes(),
            f"{NAME}/bin/larder": Path(program).resolve().read_bytes(),
        }
    return write_wheel(wheel_directory, files, local_tag())


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """The tree itself; its build/ has the library."""
    return write_wheel(wheel_directory, {f"{NAME}.pth": f"{ROOT / 'python'}\n".encode()}, local_tag())


def sdist_files():
    """What git knows of, or everything but build output where there is no git."""
    try:
        out = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, check=True, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ).stdout.decode()
        names = [n for n in out.split("\0") if n]
    except (OSError, subprocess.CalledProcessError):
        names = []
    if not names:
        skip = {"build", "dist", ".git", "__pycache__"}
        names = [
            str(p.relative_to(ROOT))
            for p in ROOT.rglob("*")
            if p.is_file() and not skip & set(p.relative_to(ROOT).parts)
        ]
    return sorted(n for n in names if (ROOT / n).is_file())


def build_sdist(sdist_directory, config_settings=None):
    stem = f"{NAME}-{version()}"
    with tarfile.open(Path(sdist_directory) / f"{stem}.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as tar:
        for name in sdist_files():
            tar.add(ROOT / name, f"{stem}/{name}", recursive=False)
        data = metadata().encode()
        entry = tarfile.TarInfo(f"{stem}/PKG-INFO")
        entry.size = len(data)
        tar.addfile(entry, io.BytesIO(data))
    return f"{stem}.tar.gz"


if __name__ == "__main__":
    print(build_wheel(sys.argv[1] if len(sys.argv) > 1 else "."))
