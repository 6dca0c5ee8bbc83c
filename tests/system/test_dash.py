"""larder dash over HTTP: what it answers, to whom, and what hostile or endless visitors do to it."""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
from see_kit import LARDER, Dash, end, start_job, wait_for, write_idx  # noqa: E402

NAME = re.compile(r"^[a-z_:][a-z0-9_:]*$")
SAMPLE = re.compile(r'^([a-z_:][a-z0-9_:]*)(\{(?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*\})? (\S+)$')


def check_metrics(text):
    """The rules of the text format and of Prometheus' naming, as far as they can be seen."""
    types, helps, seen, last = {}, set(), set(), None
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name = line.split(" ", 3)[2]
            assert NAME.match(name) and name not in helps and line.split(" ", 3)[3], line
            helps.add(name)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert kind in ("counter", "gauge", "summary", "histogram") and name in helps, line
            assert name not in types, line
            assert (kind == "counter") == name.endswith("_total"), line
            assert not re.search(r"_(ms|us|kb|mb|h|percent)(_|$)", name), line
            types[name] = kind
            last = name
        else:
            m = SAMPLE.match(line)
            assert m, line
            parts = {"summary": r"_(sum|count)$", "histogram": r"_(sum|count|bucket)$"}
            base = re.sub(parts.get(types[last], "$^"), "", m.group(1))
            assert base == last, line + ": not below its TYPE"
            float(m.group(3))
            assert (m.group(1), m.group(2)) not in seen, line
            seen.add((m.group(1), m.group(2)))
    return types


class TestDash(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        write_idx(cls.folder)
        cls.job = start_job(cls.folder)
        cls.dash = Dash("--http", "127.0.0.1:0")

    @classmethod
    def tearDownClass(cls):
        end(cls.job)
        code, err = cls.dash.close()
        shutil.rmtree(cls.folder)
        assert code == 143 and err == "", (code, err)

    def mine(self, pid=None):
        for job in self.dash.state()["jobs"]:
            if job["pid"] == (pid or self.job.pid) and job["history"]:
                return job

    def metrics(self, *names):
        """With our job in them and, of it, these: it is left out of a look that it does not answer in time."""
        def told():
            text = self.dash.get("metrics").decode()
            return text if all(re.search(rf'(?m)^{name}{{larder_job="{self.job.pid}.1",', text)
                               for name in ("larder_job_info", *names)) else None
        return wait_for(told)

    def test_state(self):
        job = wait_for(self.mine)
        self.assertEqual(job["recipe"], "shade")
        names = {s["name"]: s for s in job["stats"]}
        for name in ("samples", "hits", "misses", "storage_bytes", "demand_bytes", "stall_seconds"):
            self.assertIn(name, names)
            self.assertTrue(names[name]["help"])
        self.assertEqual(len(job["map_encoded"]), 128)
        wait_for(lambda: any(e["accuracy"] is not None and "scores" in e
                             for e in (self.mine() or job)["history"]))
        # The first epoch of the page may have begun before anything was reported.
        wait_for(lambda: any(e["loss"] is not None for e in (self.mine() or job)["history"]))
        self.assertIn("loss_gap", names)  # shade serves samples again
        wait_for(lambda: any(e["fresh_loss"] is not None and e["reused_loss"] is not None
                             for e in (self.mine() or job)["history"]))

    def test_history(self):
        def two_points():
            curves = json.loads(self.dash.get("history.json"))["curves"]
            return [c for c in curves if c["pid"] == self.job.pid and len(c["points"]) > 1]
        points = wait_for(two_points)[0]["points"]
        self.assertTrue(all(len(p) == 9 for p in points))
        self.assertGreater(points[0][0], points[-1][0])

    def test_page(self):
        page = self.dash.get("").decode()
        self.assertIn("<title>larder</title>", page)
        for name in re.findall(r'(?:src|href)="([^"#]+)"', page):
            self.assertNotIn("//", name)  # nothing from elsewhere
            self.assertTrue(self.dash.get(name))
        script = self.dash.get("app.js").decode()
        for word in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval("):
            self.assertNotIn(word, script)

    def test_headers(self):
        for path in ("/", "/state.json", "/metrics", "/app.js", "/nowhere"):
            answer = self.dash.raw(f"GET {path} HTTP/1.0\r\n\r\n".encode()).decode()
            self.assertIn("Content-Security-Policy: default-src 'none'", answer)
            self.assertIn("X-Content-Type-Options: nosniff", answer)
        self.assertIn("404", answer.split("\n")[0])
        head = self.dash.raw(b"HEAD /metrics HTTP/1.0\r\n\r\n")
        self.assertTrue(head.endswith(b"\r\n\r\n"))
        two = self.dash.raw(b"GET /icon.svg HTTP/1.1\r\nHost: localhost\r\n\r\nGET /nowhere HTTP/1.0\r\n\r\n")
        self.assertEqual(two.count(b"HTTP/1.1 "), 2)  # one after the other, on one connection

    def test_metrics(self):
        text = self.metrics("larder_job_loss")
        types = check_metrics(text)
        for name in ("larder_samples_total", "larder_storage_bytes_total", "larder_hits_total",
                     "larder_step_seconds_total", "larder_stall_seconds", "larder_job_info",
                     "larder_cache_resident_bytes", "larder_job_loss"):
            self.assertIn(name, types)
        me = f'{self.job.pid}.1'
        self.assertIn(f'larder_samples_total{{larder_job="{me}",job="{me}"}}', text)
        self.assertRegex(text, rf'larder_stall_seconds{{larder_job="{me}",job="{me}",quantile="0.99"}}')
        self.check_histogram(text, me, "larder_batch_wait_seconds")
        self.check_histogram(text, me, "larder_batch_fill_seconds")

        first = [line for line in text.splitlines() if line.startswith("larder_job_info{") and me in line]
        self.assertEqual(len(first), 1)
        self.assertNotIn("state=", first[0])
        for name in ("larder_job_state", "larder_job_bottleneck"):
            ones = re.findall(rf'^{name}{{larder_job="{me}",.*}} (\d)$', text, re.M)
            self.assertGreater(len(ones), 4)
            self.assertLessEqual(ones.count("1"), 1)
        promtool = shutil.which("promtool")
        if promtool:
            p = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True)
            self.assertEqual(p.returncode, 0, p.stdout + p.stderr)

    def check_histogram(self, text, me, name):
        """Buckets rise, and the last one, the count and the sum are of the same observations."""
        mine = re.findall(rf'^{name}_(\w+){{larder_job="{me}",job="{me}"(?:,le="([^"]*)")?}} (\S+)$', text, re.M)
        below = [(float(le), float(n)) for part, le, n in mine if part == "bucket"]
        rest = {part: float(n) for part, _, n in mine if part != "bucket"}
        self.assertEqual(len(below), 13)
        self.assertEqual(below, sorted(below))
        self.assertEqual([n for _, n in below], sorted(n for _, n in below))
        self.assertEqual((below[-1][0], below[-1][1]), (float("inf"), rest["count"]))
        self.assertGreater(rest["count"], 0)
        top = sum((n - (below[i - 1][1] if i else 0)) * le for i, (le, n) in enumerate(below[:-1]))
        self.assertLessEqual(rest["sum"], 1.01 * top + 1e-9, "no observation is above its bucket's bound")

    def test_grafana(self):
        """Every metric that the dashboard asks for is there."""
        with open("share/grafana-larder.json") as f:
            board = json.load(f)
        text = self.metrics("larder_job_loss")
        asked = set(re.findall(r"larder_[a-z_]+(?=\{)", json.dumps([p["targets"] for p in board["panels"]])))
        self.assertGreater(len(asked), 8)
        for name in asked:
            self.assertRegex(text, rf"(?m)^{name}[{{ ]", name)

    def test_hostile(self):
        refused = {
            b"POST / HTTP/1.1\r\n\r\n": 405, b"DELETE /state.json HTTP/1.1\r\n\r\n": 405,
            b"GET / HTTP/2.0\r\n\r\n": 505, b"GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello": 413,
            b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n": 413, b"hello\r\n\r\n": 400,
            b"GET http://x/ HTTP/1.1\r\n\r\n": 400, b"GET /\0 HTTP/1.1\r\n\r\n": 400,
            b"GET / HTTP/1.1\r\nno colon\r\n\r\n": 400, b"GET / HTTP/1.1\r\n folded: x\r\n\r\n": 400,
            b"GET /../../etc/passwd HTTP/1.0\r\n\r\n": 404, b"GET /" + b"a" * 200 + b" HTTP/1.0\r\n\r\n": 404,
            b"X" * 8192: 431, b"\r\n\r\n": 400, b"GET / HTTP/1.1\n\nfoo\r\n\r\n": 400,
            b"GET /state.json HTTP/1.1\r\nHost: evil.example\r\n\r\n": 403,
            b"GET / HTTP/1.0\r\nHost: 127.evil.example\r\n\r\n": 403, b"GET / HTTP/1.1\r\nHost:\r\n\r\n": 403,
            b"GET / HTTP/1.1\r\nHost: [::1].evil.example\r\n\r\n": 403, b"GET / HTTP/1.1\r\nHost: [::1]x\r\n\r\n": 403,
            b"GET / HTTP/1.1\r\nHost: localhost:@evil.example\r\n\r\n": 403, b"GET / HTTP/1.1\r\n\r\n": 400,
            b"GET / HTTP/1.1\r\nHost: evil.example\r\nHost: localhost\r\n\r\n": 400,
            b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n": 400,
            b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept : */*\r\n\r\n": 400,
        }
        for request, status in refused.items():
            answer = self.dash.raw(request, half=True)
            self.assertTrue(answer.startswith(b"HTTP/1.1 %d " % status), (request[:60], answer[:60]))
        for host in (b"localhost:80", b"127.0.0.1", b"[::1]:7"):
            answer = self.dash.raw(b"GET / HTTP/1.0\r\nHost: " + host + b"\r\n\r\n")
            self.assertIn(b" 200 ", answer[:20])

    def test_events(self):
        with socket.create_connection(self.dash.address, timeout=60) as s:
            s.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            got = b""
            while got.count(b"data: ") < 3 or not got.endswith(b"\n\n"):
                got += s.recv(65536)
        head, _, body = got.partition(b"\r\n\r\n")
        self.assertIn(b"text/event-stream", head)
        for event in body.split(b"\n\n"):
            if event.strip().startswith(b"data: "):
                json.loads(event.strip()[6:])

    def test_many_visitors(self):
        """A thousand reconnects and a thousand scrapes: served, and memory stays as it is."""
        self.dash.get("metrics")
        for _ in range(50):
            self.dash.raw(b"GET /state.json HTTP/1.0\r\n\r\n")
        before = self.dash.memory()
        for i in range(1000):
            with socket.create_connection(self.dash.address, timeout=60) as s:
                s.sendall(b"GET /events HTTP/1.0\r\n\r\n" if i % 2 else b"GET /sta")
        with socket.create_connection(self.dash.address, timeout=60) as s:
            f = s.makefile("rb")
            for _ in range(1000):
                s.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
                self.assertIn(b" 200 ", f.readline())
                length = 0
                for line in iter(f.readline, b"\r\n"):
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                self.assertEqual(len(f.read(length)), length)
        if "san" not in os.path.basename(os.environ.get("LARDER_BUILD", "")):  # they keep freed memory
            self.assertLess(self.dash.memory(), before + (16 << 20))

    def test_crowd(self):
        """More connections than there is room for, none of which says a word: the first to come make room."""
        crowd = []
        try:
            for _ in range(300):
                crowd.append(socket.create_connection(self.dash.address, timeout=60))
            for _ in range(3):
                self.assertTrue(self.dash.get("icon.svg"))
            self.assertEqual(crowd[0].recv(64), b"")
            crowd[-1].sendall(b"GET / HTTP/1.0\r\n\r\n")
            self.assertIn(b" 200 ", crowd[-1].recv(64))
        finally:
            for s in crowd:
                s.close()

    def test_killed_job(self):
        job = start_job(self.folder, recipe="lru")
        try:
            wait_for(lambda: self.mine(job.pid))
            job.kill()
            job.wait()

            def gone():
                state = self.dash.state()
                there = {j["pid"] for j in state["jobs"]}, {j["pid"] for j in state["ended"]}
                return job.pid not in there[0] and job.pid in there[1]
            wait_for(gone)
        finally:
            end(job)

    def test_names_are_only_text(self):
        name = "<img src=x onerror=alert(1)>\"\n"
        folder = os.path.join(self.folder, name)
        os.makedirs(folder, exist_ok=True)
        write_idx(folder)
        job = start_job(folder, recipe="lru")
        try:
            got = wait_for(lambda: self.mine(job.pid))
            self.assertIn("<img src=x onerror=alert(1)>", got["source"])
            check_metrics(self.dash.get("metrics").decode())
        finally:
            end(job)

    def test_port_in_use(self):
        p = subprocess.run([LARDER, "dash", "--http", "127.0.0.1:%d" % self.dash.address[1]],
                           capture_output=True, text=True, timeout=60)
        self.assertEqual(p.returncode, 1)
        self.assertIn("in use; another port, or 0", p.stderr)
        for wrong in ("nonsense", "127.0.0.1", "127.0.0.1:99999", "example.org:80", ":80", "[::1:80"):
            p = subprocess.run([LARDER, "dash", "--http", wrong], capture_output=True, text=True, timeout=60)
            self.assertEqual(p.returncode, 2, wrong)

    def test_token(self):
        dash = Dash("--http", "0.0.0.0:0")
        try:
            token = dash.url.split("token=")[1]
            self.assertGreaterEqual(len(token), 32)
            dash.base = dash.base.replace("0.0.0.0", "127.0.0.1")
            for path in ("state.json", "history.json", "metrics", "events",
                         "state.json?token=", "state.json?token=" + token[:-1] + "x"):
                with self.assertRaises(urllib.error.HTTPError) as caught:
                    dash.get(path)
                self.assertEqual(caught.exception.code, 401)
            self.assertIn("jobs", dash.state("?token=" + token))
            self.assertIn(b"larder_jobs", dash.get("metrics", {"Authorization": "Bearer " + token}))
            self.assertTrue(dash.get(""))  # the page itself is no secret
        finally:
            dash.close()
        p = subprocess.run([LARDER, "dash", "--http", "127.0.0.1:0", "--token", "short"],
                           capture_output=True, text=True, timeout=60)
        self.assertEqual(p.returncode, 2)


class TestServe(unittest.TestCase):
    def test_daemon(self):
        folder = tempfile.mkdtemp()
        write_idx(folder)
        path = os.path.join(folder, "s.sock")
        dash = Dash("--socket", path, "--cache", "16MiB", "--http", "127.0.0.1:0", command=("serve",))
        job = None
        try:
            job = start_job(folder, "--cache", "unix:" + path, recipe="minio")

            def both():
                jobs = {j["kind"]: j for j in dash.state()["jobs"] if j["pid"] in (dash.p.pid, job.pid)}
                stats = {s["name"]: s["value"] for s in jobs.get("daemon", {"stats": []})["stats"]}
                return jobs if len(jobs) == 2 and stats.get("hits", 0) > 0 else None
            daemon = wait_for(both)["daemon"]
            self.assertEqual(daemon["state"], "running")
            self.assertIn("minio", daemon["recipe"])
            check_metrics(dash.get("metrics").decode())
            p = subprocess.run([LARDER, "serve", "--socket", path + "2", "--http",
                                "127.0.0.1:%d" % dash.address[1]], capture_output=True, text=True, timeout=60)
            self.assertEqual(p.returncode, 1)
            self.assertIn("in use", p.stderr)
        finally:
            if job:
                end(job)
            code, err = dash.close()
            shutil.rmtree(folder)
        self.assertEqual((code, err), (0, ""))


if __name__ == "__main__":
    unittest.main()
