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


def tag():
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


def build_cmake(folder):
    run(["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
         "-DLARDER_TESTS=OFF", "-DLARDER_WERROR=OFF"])
    run(["cmake", "--build", folder, "--target", "larder", "larder_shared"])
    return folder / "liblarder.so", folder / "larder"


def build_core(folder):
    """Without CMake: one compiler, file after file, the optional parts off."""
    cc = os.environ.get("CC", "cc")
    embed, page = folder / "embed", folder / "page_files.c"
    run([cc, "-o", embed, ROOT / "tools" / "embed.c"])
    run([embed, page, "page", *sorted((ROOT / "src" / "see" / "page").iterdir())])
    sources = [*sorted((ROOT / "src").rglob("*.c")), page]
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
    run([cc, "-shared", exports, "-o", library, *inside, "-lpthread", "-lm"])
    run([cc, "-o", program, *[o for _, o in objects], "-lpthread", "-lm"])
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


class Wheel:
    def __init__(self, path):
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self.records = []

    def add(self, name, data, executable=False):
        info = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))  # the same wheel from the same files
        info.external_attr = (0o100755 if executable else 0o100644) << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(info, data)
        self.records.append((name, digest(data), len(data)))

    def close(self, info):
        name = f"{info}/RECORD"
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(self.records + [(name, "", "")])
        self.zip.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), out.getvalue())
        self.zip.close()


INFO = f"{NAME}-{version()}.dist-info"


def info_files():
    return {
        "METADATA": metadata().encode(),
        "WHEEL": (
            "Wheel-Version: 1.0\nGenerator: larder\nRoot-Is-Purelib: false\n"
            f"Tag: {tag()}\n"
        ).encode(),
        "entry_points.txt": b"[console_scripts]\nlarder = larder.__main__:main\n",
        "licenses/LICENSE": (ROOT / "LICENSE").read_bytes(),
    }


def write_wheel(directory, editable=False):
    name = f"{NAME}-{version()}-{tag()}.whl"
    wheel = Wheel(Path(directory) / name)
    if editable:  # the tree itself; its build/ has the library
        wheel.add(f"{NAME}.pth", f"{ROOT / 'python'}\n".encode())
    else:
        for file in sorted((ROOT / "python" / NAME).rglob("*")):
            if file.suffix in (".py", ".typed") and "__pycache__" not in file.parts:
                wheel.add(str(file.relative_to(ROOT / "python")), file.read_bytes())
        with tempfile.TemporaryDirectory(prefix="larder-wheel-") as folder:
            library, program = build(Path(folder))
            wheel.add(f"{NAME}/liblarder.so", Path(library).resolve().read_bytes(), True)
            wheel.add(f"{NAME}/bin/larder", Path(program).resolve().read_bytes(), True)
    for file, data in info_files().items():
        wheel.add(f"{INFO}/{file}", data)
    wheel.close(INFO)
    return name


# ---- what pip calls ---------------------------------------------------------------------------


def get_requires_for_build_wheel(config_settings=None):
    return []


def get_requires_for_build_sdist(config_settings=None):
    return []


def get_requires_for_build_editable(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """So that pip looks for what larder requires before it compiles for a minute."""
    for file, data in info_files().items():
        path = Path(metadata_directory) / INFO / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return INFO


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return write_wheel(wheel_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return write_wheel(wheel_directory, editable=True)


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
