"""larder doctor: what it says of this machine, of a GPU that is made up, of a daemon and of Python's
module; it leaves nothing behind. And --json of every command says which schema it has."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
from process_kit import wait_for  # noqa: E402

LARDER, BUILD = os.path.abspath(os.environ["LARDER"]), os.path.abspath(os.environ["LARDER_BUILD"])


class Kit(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.mkdtemp(prefix="larder-doctor-")
        self.addCleanup(shutil.rmtree, self.home)

    def run_larder(self, *args, code=0, **env):
        env = dict(os.environ, HOME=self.home, XDG_RUNTIME_DIR="", **env)
        env.pop("LARDER_SOCKET", None) if "LARDER_SOCKET" not in env else None
        p = subprocess.run([LARDER, *args], capture_output=True, text=True, timeout=240, env=env)
        self.assertEqual(p.returncode, code, p.stdout + p.stderr)
        return p


class Doctor(Kit):
    def ask(self, *args, **env):
        return json.loads(self.run_larder("doctor", "--folder", self.home, "--json", *args, **env).stdout)

    def test_this_machine(self):
        got = self.ask("--seconds", "0.3", "--redis", "redis://127.0.0.1:1")
        m, measured = got["machine"], got["measured"]
        self.assertEqual(got["schema"], 1)
        self.assertTrue(1 <= m["cores"] <= m["machine_cores"] and 0 < m["memory_bytes"] <= m["machine_memory_bytes"])
        self.assertEqual(os.path.realpath(self.home), m["folder"]["path"])
        self.assertTrue(0 < m["folder"]["free_bytes"] <= m["folder"]["bytes"])
        self.assertFalse(m["redis"]["there"])
        self.assertFalse(m["daemon"]["there"])
        self.assertIn("larder serve", m["daemon"]["why"])
        for key, value in measured.items():
            if key.endswith("_second") or (key == "decode_per_core" and "-jpeg" not in got["parts"]):
                self.assertGreater(value, 0, key)
        self.assertEqual(os.listdir(self.home), [], "nothing is left")
        self.assertIn("HOME", got["environment"])
        self.assertNotIn(self.home, json.dumps(got["environment"]), "names, not what they hold")

    def test_words(self):
        text = self.run_larder("doctor", "--seconds", "0", "--folder", self.home, LARDER_SEE="0").stdout
        for part in ("larder ", "  parts ", "\nmachine\n", "  gpu ", "  daemon ", "  python ", "\nslow here\n"):
            self.assertIn(part, text)
        self.assertRegex(text, r"  variables .*LARDER_SEE")
        self.assertNotIn("measured\n", text)

    def test_no_home(self):
        """Where indexes would be kept is said, also where none of it is there yet."""
        got = json.loads(self.run_larder("doctor", "--seconds", "0", "--json", LARDER_CACHE_DIR="/nonexistent/x").stdout)
        self.assertEqual(got["machine"]["indexes"]["path"], "/")

    def test_broken_off(self):
        """Who does not wait for the measuring has what was found out before."""
        p = subprocess.Popen([LARDER, "doctor", "--seconds", "600", "--folder", self.home], stdout=subprocess.PIPE, text=True,
                             env=dict(os.environ, HOME=self.home, XDG_RUNTIME_DIR=""))
        try:
            wait_for(lambda: p.stdout.readline().startswith("  python "))
            p.terminate()  # which is never ignored, as SIGINT may be
            p.communicate(timeout=240)
        finally:
            p.kill()
        self.assertEqual(p.returncode, -signal.SIGTERM)
        self.assertEqual(os.listdir(self.home), [], "nothing is left")

    def test_a_made_gpu(self):
        folders = [os.path.join(BUILD, "fake", n) for n in ("cuda", "nvrtc")]
        got = self.ask("--seconds", "0", LARDER_CUDA_LIBRARIES=":".join(folders))["machine"]
        self.assertTrue(got["gpu"]["there"], got["gpu"])
        self.assertRegex(got["gpu"]["is"], r"sm_\d\d.*driver for CUDA \d+\.\d")
        self.assertTrue(got["nvrtc"]["there"])
        none = self.ask("--seconds", "0", LARDER_CUDA_LIBRARIES=self.home)["machine"]["nvjpeg"]
        self.assertTrue(none["there"] or "LARDER_CUDA_LIBRARIES" in none["why"])

    def test_strangers_folders(self):
        """Run where somebody else has put files: nothing of theirs is run, and no index of theirs is believed."""
        ran = os.path.join(self.home, "ran")
        for name in ("larder.py", "importlib.py", "torch.py"):
            with open(os.path.join(self.home, name), "w", encoding="utf-8") as f:
                f.write(f"open({ran!r}, 'w').close()\n")
        shared = os.path.join(self.home, "shared")
        os.mkdir(shared)
        os.chmod(shared, 0o777)
        p = subprocess.run([LARDER, "doctor", "--seconds", "0", "--json"], capture_output=True, text=True, check=True,
                           timeout=240, cwd=self.home, env=dict(os.environ, HOME=self.home, LARDER_CACHE_DIR=shared))
        self.assertFalse(os.path.exists(ran), p.stdout)
        self.assertTrue([s for s in json.loads(p.stdout)["slow"] if shared + ": others may write there" in s], p.stdout)

    def test_a_daemon(self):
        socket = os.path.join(self.home, "d.sock")
        serve = subprocess.Popen([LARDER, "serve", "--socket", socket, "--cache", "1MiB", "--quiet"])
        try:
            def there():  # its file is, before it listens; and on a busy machine it may be late with an answer
                got = self.ask("--seconds", "0", LARDER_SOCKET=socket)["machine"]["daemon"]
                return got if got["there"] else None

            self.assertEqual(wait_for(there), {"there": True, "is": f"answers at {socket}"})
        finally:
            serve.terminate()
            serve.wait()

    def test_python(self):
        """The one of PATH, with larder's module or without."""
        code = "#!/bin/sh\nprintf '%s\\n' \"$WORDS\"\n"
        with open(os.path.join(self.home, "python3"), "w", encoding="utf-8") as f:
            f.write(code)
        os.chmod(f.name, 0o755)
        path = self.home + ":" + os.environ["PATH"]
        says = "9.9 with /lib/liblarder.so; torch"
        self.assertEqual(self.ask("--seconds", "0", PATH=path, WORDS=says)["machine"]["python"], {"there": True, "is": says})
        bad = self.ask("--seconds", "0", PATH=path, WORDS="Traceback\n\nImportError: why")["machine"]["python"]
        self.assertEqual(bad, {"there": False, "why": "python3: ImportError: why"})
        self.assertIn("python3", self.ask("--seconds", "0", PATH="/nonexistent")["machine"]["python"]["why"])

    def test_what_makes_no_sense(self):
        self.run_larder("doctor", "--seconds", "-1", code=2)
        self.run_larder("doctor", "--redis", "nonsense", "--seconds", "0", code=2)
        # Another folder than the one that was meant is not looked at instead.
        self.assertIn("/typo: No such file", self.run_larder("doctor", "--folder", self.home + "/typo", code=1).stderr)
        self.assertIn("is no folder", self.run_larder("doctor", "--folder", LARDER, code=2).stderr)


class Schema(Kit):
    """An object a line, or one over several; whichever, the outermost says its schema."""

    def lines(self, folder):
        mem, svm = "mem:?n=64&h=8&w=8&c=1", f"{folder}/rows.svm"
        run, again = f"{folder}/run", f"{folder}/again"
        with open(svm, "w", encoding="utf-8") as f:
            f.write("".join(f"{1 if i % 2 else -1} 1:{i % 5} 2:{(i * 7) % 3}\n" for i in range(20)))
        train = ["train", mem, "--epochs", "1", "--batch", "16", "--test", "none"]
        self.run_larder(*train, "--out", run, "--record", f"{folder}/tape", "--quiet")
        self.run_larder(*train, "--cache", f"disk:{folder}/disk?budget=100%", "--out", again, "--quiet")
        yield ["--version", "--json"]
        yield from ([*line, "--json"] for line in (
            ["compare", run, again], ["disk", "ls", f"{folder}/disk"], ["doctor", "--seconds", "0"], ["ls", mem],
            ["plan", "--set", "t_gpu=4550,t_da=2132,t_a=4050,b_storage=5e8,b_cache=1e9",
             "--set", "s_cache=64GB,s_data=114KB,m=5,n_total=1e6"],
            ["report", run], ["sim", "--recipe", "lru", "--n", "100", "--epochs", "1"],
            ["sim", "--replay", f"{folder}/tape", "--recipe", "lru"], ["suggest", f"{folder}/tape"],
            ["svm-grid", "--log2c", "0,1,1", "--log2g", "0,1,1", "-v", "2", svm], ["top", "--once"], train))

    def test_every_command(self):
        with open("src/cli/commands.def", encoding="utf-8") as f:
            names = [n.replace("_", "-") for n in re.findall(r"^LARDER_COMMAND\((\w+),", f.read(), re.M)]
        have = {n for n in names if "\n  --json" in self.run_larder(n, "--help").stdout}
        tried = set()
        for line in self.lines(self.home):
            out = self.run_larder(*line).stdout
            tried.add(line[0])
            rest, decoder = out.strip(), json.JSONDecoder()
            self.assertTrue(rest or line[0] == "top", line)
            while rest:
                one, end = decoder.raw_decode(rest)
                self.assertEqual(one["schema"], 1, line)
                rest = rest[end:].strip()
        pictures = {"pack", "unpack"}  # test_pack_cli.py has pictures to try them with
        self.assertEqual(tried - {"--version"} | pictures, have)


unittest.main()
