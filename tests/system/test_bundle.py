# release build only
"""tools/bundle.py, which makes the wheel for other distributions: what it bundles, and what it refuses."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("LARDER_BUILD", ROOT / "build"))
for tool in ("patchelf", "cc", "dpkg", "objdump"):
    if not shutil.which(tool):
        print(f"skipped: no {tool} (tools/install-packages.sh dist)")
        sys.exit(77)

LIBRARY = "const char *zlibVersion(void); const char *larder_version(void) { return zlibVersion(); }"
PROGRAM = '#include <stdio.h>\nconst char *zlibVersion(void); int main(void) { puts(zlibVersion()); return 0; }'


class Bundle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.scratch.name)
        cls.library = cls.compile("small.so", LIBRARY, "-shared", "-fPIC", "-l:libz.so.1")
        cls.program = cls.compile("small", PROGRAM, "-l:libz.so.1")

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    @classmethod
    def compile(cls, name, text, *flags):
        (cls.folder / f"{name}.c").write_text(text)
        out = cls.folder / name
        subprocess.run(["cc", "-o", out, cls.folder / f"{name}.c", *flags], check=True)
        return out

    def bundle(self, *args, library=None, out="out"):
        return subprocess.run(
            [sys.executable, ROOT / "tools" / "bundle.py", library or self.library, self.program,
             self.folder / out, *map(str, args)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")

    def refused(self, sentence, *args, **more):
        done = self.bundle(*args, **more)
        self.assertNotEqual(done.returncode, 0, "it was taken")
        self.assertRegex(done.stdout, sentence)

    def test_what_is_bundled(self):
        done = self.bundle()
        self.assertEqual(done.returncode, 0, done.stdout)
        wheel = Path(done.stdout.strip())
        glibc = re.search(r"-py3-none-manylinux_2_(\d+)_x86_64\.whl$", wheel.name).group(1)
        site = self.folder / "site"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
        (bundled,) = (site / "larder" / "libs").iterdir()
        self.assertRegex(bundled.name, r"^libz-[0-9a-f]{8}\.so\.1$")
        for name in ("liblarder.so", "bin/larder"):
            needed = subprocess.check_output(["ldd", site / "larder" / name], encoding="utf-8")
            self.assertIn(str(bundled), os.path.realpath(needed.split(f"{bundled.name} => ")[1].split(" (")[0]))
            self.assertNotIn("libz.so.1 ", needed)
        (site / "larder" / "bin" / "larder").chmod(0o755)
        said = subprocess.check_output([site / "larder" / "bin" / "larder"], encoding="utf-8")
        self.assertRegex(said, r"^\d+\.\d+")
        (info,) = site.glob("*.dist-info")
        self.assertIn(f"manylinux_2_{glibc}_x86_64", (info / "WHEEL").read_text())
        self.assertIn("zlib", (info / "licenses" / "zlib1g" / "copyright").read_text())
        self.assertIn(f"{bundled.name}  zlib1g ", (info / "licenses" / "BUNDLED").read_text())
        self.assertIn(f"larder/libs/{bundled.name},sha256=", (info / "RECORD").read_text())
        again = self.bundle(out="again")
        self.assertEqual(Path(again.stdout.strip()).read_bytes(), wheel.read_bytes(), "another wheel of the same")

    def test_newer_symbol(self):
        self.refused(r"asks for \S+ of GLIBC_2\.\d+\S*, newer than GLIBC_2\.3$", "--glibc", "2.3")

    def test_newer_libgcc(self):
        script = "int larder_new(void) { return 0; }"
        fake = self.compile("libgcc_s.so.1", script, "-shared", "-fPIC", "-Wl,-soname,libgcc_s.so.1",
                            f"-Wl,--version-script={self.version_script('GCC_99.0.0', 'larder_new')}")
        new = self.compile("new.so", "int larder_new(void); int larder_x(void) { return larder_new(); }",
                           "-shared", "-fPIC", fake, f"-Wl,-rpath,{self.folder}")
        self.refused("asks for larder_new of GCC_99.0.0, newer than GCC_11", library=new)

    def version_script(self, version, symbol):
        file = self.folder / "versions.map"
        file.write_text(f"{version} {{ global: {symbol}; local: *; }};")
        return file

    def test_missing_licence(self):
        docs = self.folder / "docs"
        docs.mkdir()
        self.refused("no licence of libz.so.*zlib1g/copyright is missing", "--docs", docs)

    def test_library_of_nobody(self):
        nobody = self.compile("libnobody.so.1", "int nobody(void) { return 1; }", "-shared", "-fPIC",
                              "-Wl,-soname,libnobody.so.1")
        library = self.compile("uses.so", "int nobody(void); int larder_x(void) { return nobody(); }", "-shared",
                               "-fPIC", nobody, f"-Wl,-rpath,{self.folder}")
        self.refused("libnobody.so.1 belongs to no package", library=library)
        nobody.unlink()
        self.refused("needs libnobody.so.1, which is not here", library=library)

    def test_gpl_alone(self):
        jbig = self.compile("libjbig.so.0", "int jbig(void) { return 1; }", "-shared", "-fPIC",
                            "-Wl,-soname,libjbig.so.0")
        library = self.compile("picture.so", "int jbig(void); int larder_x(void) { return jbig(); }", "-shared",
                               "-fPIC", jbig, f"-Wl,-rpath,{self.folder}")
        self.refused("libjbig.so.0 is under the GPL alone", library=library)

    def test_newer_processor(self):
        library = self.compile("v3.so", LIBRARY, "-shared", "-fPIC", "-Wl,-z,x86-64-v3", "-l:libz.so.1")
        self.refused("needs a processor of x86-64-.*v3", library=library)

    def test_ours_chooses_at_run_time(self):
        commands = (BUILD / "compile_commands.json").read_text()
        self.assertNotRegex(commands, r" -m(arch|cpu|avx|fma|sse[34])")
        if "clang" not in commands:  # which has no target_clones
            names = subprocess.check_output(["nm", BUILD / "larder"], encoding="utf-8")
            self.assertRegex(names, r"\.avx2\n")
            self.assertRegex(names, r"\.default\n")


if __name__ == "__main__":
    unittest.main()
