"""larder top: for scripts, and in a terminal (tmux): keys, sizes, and the terminal afterwards."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
from see_kit import LARDER, end, start_job, wait_for, write_idx  # noqa: E402


def top(*args, **more):
    return subprocess.run([LARDER, "top", *args], capture_output=True, text=True, timeout=60, **more)


class WithJobs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        write_idx(cls.folder)
        cls.jobs = [start_job(cls.folder, recipe=r) for r in ("rotate", "minio")]
        cls.pids = [str(j.pid) for j in cls.jobs]

    @classmethod
    def tearDownClass(cls):
        for job in cls.jobs:
            end(job)
        shutil.rmtree(cls.folder)

    def seen(self):
        out = top("--once")
        return out if out.returncode == 0 and all(p in out.stdout for p in self.pids) else None


class TestTop(WithJobs):
    def test_once(self):
        out = wait_for(self.seen)
        self.assertEqual(out.stderr, "")
        self.assertNotIn("\033", out.stdout)
        self.assertIn("rotate", out.stdout)
        self.assertIn("STALL%", out.stdout)

    def test_json(self):
        def told():  # a job that takes half a second to answer is left out, and a busy machine has such
            lines = [json.loads(line) for line in top("--json", "--once").stdout.splitlines()]
            return lines if set(self.pids) <= {str(j["pid"]) for j in lines} else None

        job = next(j for j in wait_for(told) if str(j["pid"]) in self.pids and j["recipe"] == "rotate")
        self.assertIn("verdict", job)
        self.assertTrue(any(s["name"] == "h" for s in job["stats"]))

    def test_live_json_ends(self):
        p = subprocess.Popen([LARDER, "top", "--json", "--every", "0.1"], stdout=subprocess.PIPE, text=True)
        for _ in range(3):
            json.loads(p.stdout.readline())
        p.send_signal(signal.SIGTERM)
        p.stdout.read()
        self.assertEqual(p.wait(60), 143)
        p.stdout.close()

    def test_hidden(self):
        job = start_job(self.folder, env=dict(os.environ, LARDER_SEE="0"))
        try:
            wait_for(self.seen)
            time.sleep(0.5)
            self.assertNotIn(job.pid, [json.loads(line)["pid"] for line in top("--json", "--once").stdout.splitlines()])
        finally:
            end(job)

    def test_wrong(self):
        self.assertEqual(top("--every", "0").returncode, 2)
        self.assertEqual(top("--nonsense").returncode, 2)
        self.assertIn("--once", top("--help").stdout)

    def test_no_terminal(self):
        out = top(stdin=subprocess.DEVNULL)  # a table, and the end
        self.assertEqual(out.returncode, 0)
        self.assertNotIn("\033", out.stdout)

    def test_closed_output(self):
        with open("/dev/full", "w") as full:
            p = subprocess.run([LARDER, "top", "--once"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(p.returncode, 1)


@unittest.skipUnless(shutil.which("tmux"), "no tmux")
class TestTerminal(WithJobs):
    def setUp(self):
        self.socket = os.path.join(self.folder, self.id().split(".")[-1])
        env = {k: v for k, v in os.environ.items() if k not in ("TMUX", "NO_COLOR")}
        # High enough for what is below the rows of jobs that are none of ours.
        subprocess.run(["tmux", "-f", "/dev/null", "-S", self.socket, "new-session", "-d", "-x", "140", "-y", "200",
                        "env PS1='$ ' sh"], check=True, env=env)
        self.addCleanup(lambda: subprocess.run(["tmux", "-S", self.socket, "kill-server"], capture_output=True))

    def tmux(self, *args):
        return subprocess.run(["tmux", "-S", self.socket, *args], capture_output=True, text=True, check=True).stdout

    def screen(self, *args):
        return self.tmux("capture-pane", "-p", *args)

    def keys(self, *args):
        self.tmux("send-keys", *args)

    def begin(self, before=""):
        self.keys("clear; " + before + LARDER + " top --every 0.3; echo ended $?; stty -a | tr ';' '\\n' | grep -c -e ' icanon'", "Enter")
        wait_for(lambda: "q quit" in self.screen() and all(p in self.screen() for p in self.pids))

    def ended(self, code):
        wait_for(lambda: f"ended {code}" in self.screen())
        self.assertNotIn("q quit", self.screen())
        wait_for(lambda: self.screen().rstrip().endswith("$"))
        # Lines are read and shown again, and the cursor is back.
        self.keys("echo typed", "Enter")
        wait_for(lambda: self.screen().count("typed") == 2)
        self.assertEqual(self.tmux("display-message", "-p", "#{cursor_flag}#{alternate_on}").strip(), "10")

    def test_keys(self):
        self.begin()
        self.assertIn("PIDv", self.screen())
        self.keys(">")
        wait_for(lambda: "SAMPLES/Sv" in self.screen() or "SAMPLES/S" in self.screen() and "PIDv" not in self.screen())
        self.keys("<")
        wait_for(lambda: "PIDv" in self.screen())
        self.keys("r")
        wait_for(lambda: "PID^" in self.screen())
        self.keys("Down", "Enter")
        details = re.compile(r"^ \S+ \S+  cache \S", re.M)  # of any job: the second may be somebody else's
        wait_for(lambda: details.search(self.screen()))
        self.keys("Enter")
        wait_for(lambda: not details.search(self.screen()))
        self.keys("q")
        self.ended(0)

    def test_resize(self):
        self.begin()
        self.tmux("resize-window", "-x", "60", "-y", "10")
        wait_for(lambda: len(self.screen().rstrip("\n").split("\n")) <= 10 and "q quit" in self.screen())
        titles = ("JOB", "EPOCH", "SAMPLES/S", "HIT%", "STALL%", "HELD UP BY")

        def narrow():  # what matters is there, and the column that rows are sorted by
            lines = self.screen().split("\n")
            head = next((line for line in lines if "JOB" in line), "")
            return (all(len(line) <= 60 for line in lines) and all(t in head for t in titles)
                    and "UPTIME" not in head and re.search(r"[v^]( |$)", head))

        wait_for(narrow)
        self.tmux("resize-window", "-x", "150", "-y", "40")
        wait_for(lambda: "UPTIME" in self.screen())
        self.keys("q")
        self.ended(0)

    def test_interrupt(self):
        self.begin()
        self.keys("C-c")
        self.ended(0)

    def test_terminate(self):
        self.begin("sh -c 'echo $$ >" + self.folder + "/pid; exec \"$@\"' - ")
        with open(self.folder + "/pid") as f:
            os.kill(int(f.read()), signal.SIGTERM)
        self.ended(143)

    def test_no_color(self):
        self.begin()
        self.assertIn("36m", self.screen("-e"))
        self.keys("q")
        self.ended(0)
        self.begin("NO_COLOR=1 ")
        self.assertNotIn("36m", self.screen("-e"))
        self.keys("q")
        self.ended(0)


if __name__ == "__main__":
    unittest.main()
