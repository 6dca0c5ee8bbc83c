# release build only
"""pip install, without a network: a wheel that carries library and program, and a source archive."""

import os
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path

import kit

try:
    import pip  # noqa: F401
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

sys.path.insert(0, str(kit.ROOT / "python"))
import wheel_backend  # noqa: E402

BUILD = Path(os.environ.get("LARDER_BUILD", kit.ROOT / "build"))


def run(command, **more):
    done = subprocess.run(
        [str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more
    )
    if done.returncode:
        raise AssertionError(done.stdout.decode())
    return done.stdout.decode()


class Wheel(unittest.TestCase):
    def test_install_and_use(self):
        with tempfile.TemporaryDirectory() as folder:
            env = dict(os.environ, LARDER_LIBRARY=str(BUILD / "liblarder.so"))
            env.pop("LARDER", None)
            site = Path(folder) / "site"
            run(
                [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps",
                 "--no-build-isolation", "--target", site, kit.ROOT],
                env=env,
                cwd=folder,
            )
            self.use(folder, site, [site / "bin" / "larder"])

    def use(self, folder, site, program):
        """Library and program of an installed package work; gives what --version says."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith("LARDER")}
        clean["PYTHONPATH"] = str(site)
        out = run(
            [sys.executable, "-c",
             "import larder; l = larder.Loader('mem:?n=90&h=8&w=8&c=3', 10, recipe='lru');"
             "print(sum(len(y) for x, y in l), larder._lib.path())"],
            cwd=folder,
            env=clean,
        )
        self.assertTrue(out.startswith("90 "), out)
        self.assertIn(str(site), out)
        out = run([*program, "--version"], env=clean, cwd=folder)
        self.assertIn(wheel_backend.version(), out)
        return out

    @unittest.skipUnless(os.environ.get("LARDER_LONG"), "compiles the whole library: with LARDER_LONG")
    def test_a_compiler_alone(self):
        """No CMake: all that the program needs is compiled and linked, the page of dash too."""
        with tempfile.TemporaryDirectory() as folder:
            env = dict(os.environ, LARDER_CORE="1", CFLAGS="-O0")
            env.pop("LARDER_LIBRARY", None)
            run([sys.executable, kit.ROOT / "python" / "wheel_backend.py", folder], env=env,
                cwd=folder)
            site = Path(folder) / "site"
            wheels = list(Path(folder).glob("*.whl"))
            self.assertEqual(len(wheels), 1)
            zipfile.ZipFile(wheels[0]).extractall(site)
            (site / "larder" / "bin" / "larder").chmod(0o755)
            out = self.use(folder, site, [sys.executable, "-m", "larder"])
            self.assertIn("-jpeg", out)

    def test_the_same_wheel_twice(self):
        os.environ["LARDER_LIBRARY"] = str(BUILD / "liblarder.so")
        try:
            with tempfile.TemporaryDirectory() as a, tempfile.TemporaryDirectory() as b:
                one = Path(a) / wheel_backend.build_wheel(a)
                two = Path(b) / wheel_backend.build_wheel(b)
                self.assertEqual(one.read_bytes(), two.read_bytes())
                names = zipfile.ZipFile(one).namelist()
                for name in ("larder/liblarder.so", "larder/bin/larder", "larder/py.typed"):
                    self.assertIn(name, names)
                archive = Path(a) / wheel_backend.build_sdist(a)
                inside = tarfile.open(archive).getnames()
                for name in ("pyproject.toml", "src/loader/loader.c", "python/wheel_backend.py"):
                    self.assertIn(f"larder-{wheel_backend.version()}/{name}", inside)
        finally:
            del os.environ["LARDER_LIBRARY"]

    def test_what_is_required_is_known_before_compiling(self):
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as empty:
            done = subprocess.run(
                [sys.executable, "-I", "-S", "-c",
                 f"import sys; sys.path.insert(0, {str(kit.ROOT / 'python')!r});"
                 "import wheel_backend as w;"
                 f"print(w.prepare_metadata_for_build_wheel({folder!r}))"],
                env={"PATH": empty}, stdout=subprocess.PIPE, check=True)
            info = Path(folder) / done.stdout.decode().strip()
            self.assertIn("Requires-Dist: numpy", (info / "METADATA").read_text(encoding="utf-8"))
            self.assertTrue((info / "entry_points.txt").exists())

    def test_the_program_beside_the_library(self):
        from larder import _lib

        self.assertEqual(_lib.beside("build/liblarder.so"), [Path("build/larder")])
        self.assertEqual(_lib.beside("liblarder.so.0"), [], "whatever is called larder in this folder would run")

    def test_editable(self):
        with tempfile.TemporaryDirectory() as a:
            names = zipfile.ZipFile(Path(a) / wheel_backend.build_editable(a)).namelist()
            self.assertIn("larder.pth", names)


if __name__ == "__main__":
    unittest.main()
