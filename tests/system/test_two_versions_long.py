"""This larder and old builds of it: the first commit whose formats have versions, and the first that had a disk tier.
Old jobs on a new daemon, new ones on an old daemon, both at once there and in one Redis group; states, records, packs
and disk folders that the old one wrote. They work together, each epoch exactly once and every pixel right, or one is
refused with the sentence of src/base/versions.h that says what to do. Skipped where history is not there."""
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
from ports import free_port  # noqa: E402
from process_kit import wait_for  # noqa: E402

BUILD = os.path.abspath(os.environ["LARDER_BUILD"])
ROOT = os.getcwd()
VERSIONS = "src/base/versions.h"
COUNT = 96

# One job: epochs of all samples, checked, as many as asked; then what it saw, as JSON.
JOB = r"""
import json, pickle, sys
import numpy
import larder

a = json.loads(sys.argv[1])
try:
    loader = larder.Loader(a["uri"], 8, recipe="minio", cache=a["cache"], seed=a.get("seed", 1),
                           augment="centercrop:size=8", dtype="uint8",
                           layout="NHWC", threads=2, record=a.get("record"), torch=False)
    if a.get("load"):
        with open(a["load"], "rb") as f:
            loader.load_state_dict(pickle.load(f))
    seen, hits, wrong = [], 0, 0
    for epoch in range(a["epochs"]):
        ids = []
        for b in loader:
            for row, i in zip(b.x, b.served):
                wrong += not numpy.array_equal(row.reshape(-1), (int(i) * 131 + numpy.arange(192) * 7) & 255)
            ids += [int(i) for i in b.served]
            hits += int((numpy.asarray(b.kind) == larder.HIT).sum())
            if a.get("save") and len(ids) >= 40:
                with open(a["save"], "wb") as f:
                    pickle.dump(loader.state_dict(), f)
                break
        seen.append(ids)
    loader.close()
    print(json.dumps({"seen": seen, "hits": hits, "wrong": wrong}))
except larder.Error as e:
    print(json.dumps({"refused": str(e)}))
"""


def git(*args):
    return subprocess.run(["git", *args], cwd=ROOT, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def old_commits():
    """Those of history by name: the first with versions, the first with one of the disk tier."""
    try:
        commits = git("log", "--reverse", "--format=%H", "--", VERSIONS).decode().split()
    except (OSError, subprocess.CalledProcessError):
        skip("this is no git repository")
    texts = [(c, git("show", f"{c}:{VERSIONS}").decode()) for c in commits]
    found = {"first": texts[0][0]} if texts else {}
    for commit, text in texts:
        if "XX(DISK" in text:
            found.setdefault("disk", commit)
    # A shallow clone ends somewhere: its first commit is not the first that had versions.
    if os.path.exists(git("rev-parse", "--git-path", "shallow").decode().strip()) or len(texts) < 2:
        skip("history does not go back to the first formats with versions")
    return found


class Larder:
    """A build: its program, its library and its Python package."""

    def __init__(self, tree, build):
        self.tree, self.build, self.program = tree, build, os.path.join(build, "larder")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("LARDER", "REDISCLI"))}
        self.env.update(LARDER_LIBRARY=os.path.join(build, "liblarder.so"), PYTHONPATH=os.path.join(tree, "python"),
                        PYTHONWARNINGS="ignore")

    def run(self, *args):
        return subprocess.run([self.program, *args], capture_output=True, text=True, env=self.env, timeout=300)

    def begin(self, **asked):
        return subprocess.Popen([sys.executable, "-c", JOB, json.dumps(asked)], env=self.env, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def job(self, **asked):
        return ended(self.begin(**asked))

    def knows(self, word):
        return word in self.run("--version").stdout.replace("-" + word, "")


def ended(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return json.loads(out.splitlines()[-1])


def built(name, commit):
    """The commit's program and library, in this build's folder; kept, since they never change."""
    tree = os.path.join(BUILD, "old", name)
    done = os.path.join(tree, "built-" + commit)
    if not os.path.exists(done):
        shutil.rmtree(tree, ignore_errors=True)
        os.makedirs(tree)
        tar = subprocess.run(["tar", "-x", "-C", tree], input=git("archive", commit), check=False)
        if tar.returncode != 0:
            skip("no tar")
        # Quickly built: what it does counts, not how fast.
        for command in (["cmake", "-S", tree, "-B", f"{tree}/build", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_FLAGS_DEBUG=-O0",
                         "-DLARDER_TESTS=OFF", "-DLARDER_WERROR=OFF", "-DLARDER_WITHOUT=cblas;hdf5;sound;tiff"],
                        ["cmake", "--build", f"{tree}/build", "--parallel", "2", "--target", "larder", "larder_shared"]):
            made = subprocess.run(command, capture_output=True, text=True)
            assert made.returncode == 0, made.stdout[-3000:] + made.stderr[-3000:]
        open(done, "w", encoding="utf-8").close()
    return Larder(tree, f"{tree}/build")


def png(path, i):
    rows = b"".join(b"\0" + bytes((i * 131 + k * 7) & 255 for k in range(24 * r, 24 * r + 24)) for r in range(8))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0))
                + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


NEW = Larder(ROOT, BUILD)


class TwoVersions(unittest.TestCase):
    old = None  # a Larder

    def setUp(self):
        self.at = tempfile.mkdtemp(prefix="larder-old-")
        self.addCleanup(shutil.rmtree, self.at)
        os.makedirs(f"{self.at}/data/one")
        for i in range(COUNT):
            png(f"{self.at}/data/one/{i:04d}.png", i)
        self.uri = f"dir:{self.at}/data"

    def whole(self, got, epochs=2, refusal=None):
        """Every sample once an epoch, and right; or the sentence. True: it was not refused."""
        if "refused" in got:
            self.assertIsNotNone(refusal, got)
            self.assertIn(refusal, got["refused"])
            print(f"{self.id()}: refused: {got['refused']}")
            return False
        print(f"{self.id()}: {len(got['seen'])} epochs, {got['hits']} hits")
        self.assertEqual(got["wrong"], 0)
        for ids in got["seen"]:
            self.assertEqual(sorted(ids), list(range(COUNT)))
        self.assertEqual(len(got["seen"]), epochs)
        return True

    def serve(self, which):
        path = f"{self.at}/socket"
        server = subprocess.Popen([which.program, "serve", "--socket", path, "--cache", "64MiB", "--quiet"], env=which.env,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def stop():
            server.kill()
            server.wait()

        self.addCleanup(stop)

        def listens():
            with socket.socket(socket.AF_UNIX) as s:
                return s.connect_ex(path) == 0

        wait_for(listens)
        return f"unix:{path}?budget=100%"

    def together(self, cache, refusal, epochs=3):
        """One after the other, then at once. Those that are not refused are right, and one of them is not refused."""
        jobs = [self.old, NEW]
        first = [self.whole(j.job(uri=self.uri, cache=cache, epochs=2), refusal=refusal) for j in jobs]
        self.assertTrue(any(first))
        at_once = [j.begin(uri=self.uri, cache=cache, epochs=epochs, seed=s) for j in jobs for s in (2, 3)]
        again = [self.whole(ended(p), epochs, refusal) for p in at_once]
        self.assertEqual(again, [first[0], first[0], first[1], first[1]])

    def test_a_new_daemon(self):
        self.together(self.serve(NEW), "use one larder for the daemon and its jobs")

    def test_an_old_daemon(self):
        self.together(self.serve(self.old), "use one larder for the daemon and its jobs")

    def test_one_redis(self):
        if not shutil.which("redis-server") or not NEW.knows("redis") or not self.old.knows("redis"):
            self.skipTest("no redis-server, or built without hiredis")
        port = free_port()
        server = subprocess.Popen(["redis-server", "--port", str(port), "--save", "", "--dir", self.at], stdout=subprocess.DEVNULL)

        def stop():
            server.kill()
            server.wait()

        self.addCleanup(stop)

        def listens():
            with socket.socket() as s:
                return s.connect_ex(("127.0.0.1", port)) == 0

        wait_for(listens)
        address = f"redis://127.0.0.1:{port}?budget=50%&timeout=30s"
        self.together(address, None)
        for _ in range(2):  # so long a history that snapshots are taken, and whoever comes later begins with one
            self.together(address + "&shared=group", None, 40)

    def test_saved_states(self):
        state = f"{self.at}/state"
        part = self.old.job(uri=self.uri, cache="50%", epochs=1, save=state)["seen"][0]
        got = NEW.job(uri=self.uri, cache="50%", epochs=1, load=state)
        if "refused" in got:
            self.assertIn("go on with the larder that saved it, or begin anew", got["refused"])
            print(f"{self.id()}: refused: {got['refused']}")
        else:
            self.assertEqual(sorted(part + got["seen"][0]), list(range(COUNT)))
            self.assertEqual(got["wrong"], 0)

    def test_records(self):
        tape = f"{self.at}/tape"
        self.assertTrue(self.whole(self.old.job(uri=self.uri, cache="50%", epochs=2, record=tape)))
        got = NEW.run("sim", "--replay", tape, "--json")
        if got.returncode != 0:
            self.assertIn("record the job again", got.stderr)
            print(f"{self.id()}: refused: {got.stderr}")
        else:
            self.assertIn("recipe", json.loads(got.stdout.splitlines()[0]))

    def test_packs(self):
        packed = f"{self.at}/packed"
        made = self.old.run("pack", self.uri, packed, "--quiet")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.whole(NEW.job(uri=f"pack:{packed}", cache="50%", epochs=2), refusal="pack it again (larder pack)")

    def test_disk_folders(self):
        with open(f"{self.old.tree}/{VERSIONS}", encoding="utf-8") as f:
            if "XX(DISK" not in f.read():
                self.skipTest("it had no disk tier")
        cache = f"10%+disk:{self.at}/disk?budget=10MiB"
        refusal = "larder disk rm FOLDER takes it away"
        self.assertTrue(self.whole(self.old.job(uri=self.uri, cache=cache, epochs=2)))
        if self.whole(NEW.job(uri=self.uri, cache=cache, epochs=2), refusal=refusal):
            checked = NEW.run("disk", "check", f"{self.at}/disk")
            self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        self.whole(self.old.job(uri=self.uri, cache=cache, epochs=2), refusal=refusal)


def load_tests(loader, tests, pattern):
    """The tests once for each old build, under its name."""
    all_of_them = unittest.TestSuite()
    for name, commit in old_commits().items():
        case = type(f"TwoVersions_{name}", (TwoVersions,), {"old": built(name, commit)})
        all_of_them.addTests(loader.loadTestsFromTestCase(case))
    return all_of_them


if __name__ == "__main__":
    try:
        import numpy  # noqa: F401
    except ImportError as e:
        skip(e)
    if not shutil.which("cmake") or not NEW.knows("png"):
        skip("no cmake, or built without PNG")
    unittest.main(verbosity=2)
