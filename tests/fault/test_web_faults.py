"""Everything that can go wrong between larder and a web server or S3, one test each: it goes on, or
says what happened to which URL and sample. Never wrong bytes, never a secret in a sentence."""

import hashlib
import io
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import web_kit  # noqa: E402

LARDER = os.environ.get("LARDER", "build/larder")
BUILD = os.environ.get("LARDER_BUILD", "build")
ROOT = None
E_IO, E_FORMAT, E_NOTFOUND, E_UNSUPPORTED, E_CHANGED, E_CANCELLED = -3, -4, -5, -8, -9, -10
# Only what is meant to run out of time may: the server is a thread here, and gets its turn when it does.
QUICK = "retries=2&backoff=10ms&connect=60s&stall=60s"
HASTY = QUICK.replace("stall=60s", "stall=1s")


class Faults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.www = os.path.join(ROOT, "www")
        rng = random.Random(5)
        cls.sums = []
        version = subprocess.run([LARDER, "--version"], capture_output=True, text=True).stdout
        cls.jpeg = " -jpeg" not in " " + version
        os.makedirs(f"{cls.www}/images/a")
        with tarfile.open(f"{cls.www}/s.tar", "w") as tar:
            for i in range(12):
                data = rng.randbytes(3000 + i)
                member = tarfile.TarInfo(f"{i:04}.jpg")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
                with open(f"{cls.www}/images/a/{i:04}.jpg", "wb") as f:
                    f.write(data)
                cls.sums.append(hashlib.sha256(data).hexdigest())

    def setUp(self):
        self.s3 = web_kit.Server(self.www, s3=True)
        self.http = web_kit.Server(self.www)
        self.env = web_kit.environment(
            ROOT,
            AWS_ACCESS_KEY_ID=web_kit.KEY,
            AWS_SECRET_ACCESS_KEY=web_kit.SECRET,
            AWS_ENDPOINT_URL=f"http://127.0.0.1:{self.s3.port}",
        )

    def tearDown(self):
        self.s3.close()
        self.http.close()

    def tool(self, uri, *args, feed=None):
        r = subprocess.run(
            [f"{BUILD}/tool_read", uri, *args], env=self.env, capture_output=True, text=True,
            timeout=240, input=feed,
        )  # fmt: skip
        self.assertIn(r.returncode, (0, 1), r.stderr)
        for secret in (web_kit.SECRET, web_kit.TOKEN, web_kit.KEY):
            self.assertNotIn(secret, r.stdout + r.stderr)
        return r.stdout.splitlines()

    def places(self, path, query=QUICK):
        yield f"s3://data/{path}?{query}", self.s3
        yield f"http://127.0.0.1:{self.http.port}/{path}?{query}", self.http

    def check_fine(self, lines):
        self.assertEqual([l.split()[3] for l in lines[:12]], self.sums, lines)

    def check_failed(self, line, code, *says):
        words = line.split(" ", 2)
        self.assertEqual(int(words[1]), code, line)
        for text in says:
            self.assertIn(text, line)

    # -- passing failures

    def survive(self, fault, times=2):
        for path in ("s.tar", "images/"):
            for uri, server in self.places(path):
                with self.subTest(uri=uri, fault=fault):
                    server.faults.set(("jpg|tar", fault, times))
                    lines = self.tool(uri, "all", "figures")
                    self.check_fine(lines)
                    self.assertEqual(server.faults.rules[0][2], 0)  # they were met
                    retries = float([l for l in lines if "web_retries" in l][0].split()[2])
                    if fault != "close":  # which libcurl mends itself on a connection it kept
                        self.assertGreaterEqual(retries, times)
                    server.faults.set()

    def test_500(self):
        self.survive("status:500")

    def test_503_slow_down(self):
        self.survive("status:503")

    def test_connection_closed(self):
        self.survive("close")

    def test_short_body(self):
        self.survive("short", 1)

    def test_lists_without_end(self):
        for pages in (1, 2, 3, 6):
            self.s3.circle = pages
            line = self.tool(f"s3://data/images/a/?{QUICK}")[0]
            self.check_failed(line, E_FORMAT, "a list goes on where it already was")

    def test_lists_of_no_length(self):
        """What may have been cut short is no data set."""
        with open(f"{self.www}/images/a.txt", "w") as f:
            f.write("".join(f"a/{i:04}.jpg\n" for i in range(12)))
        self.addCleanup(os.remove, f"{self.www}/images/a.txt")
        here = f"http://127.0.0.1:{self.http.port}/images"
        self.http.faults.set(("images/a/$", "unsaid", 1))  # it has its end
        self.check_fine(self.tool(f"{here}/a/?{QUICK}"))
        for uri, fault in ((f"{here}/a/", "unsaid:half"), (f"{here}/a.txt", "unsaid:half"), (f"{here}/a.txt", "unsaid")):
            self.http.faults.set((uri.split("/", 3)[3] + "$", fault, 1))
            line = self.tool(f"{uri}?{QUICK}")[0]
            self.check_failed(line, E_IO, "it may be cut short", uri)

    def test_stalled_body(self):
        for uri, server in self.places("images/", HASTY.replace("retries=2", "retries=20")):
            server.faults.set(("0003.jpg", "stall", 1))
            self.check_fine(self.tool(uri))
            self.assertEqual(server.faults.rules[0][2], 0)

    def test_dns_failure(self):
        """Both ways to write a bucket; the name that has no address is said."""
        self.env["AWS_ENDPOINT_URL"] = "http://no-such-host.invalid"
        for style, host in (("path", "no-such-host.invalid"), ("virtual", "data.no-such-host.invalid")):
            line = self.tool(f"s3://data/s.tar?style={style}&{QUICK}")[0]
            self.check_failed(line, E_IO, f"no address is known for {host} (DNS)", "tried 3 times")

    def test_no_right_to_list(self):
        """Who may read and not list is told 403 about what is not there: shards have no index."""
        for uri, server in self.places("s.tar"):
            server.faults.set((r"\.larder", "status:403", 1000))
            self.check_fine(self.tool(uri))

    def test_retry_after(self):
        self.s3.faults.set(("s.tar", "retry-after:2", 1))
        begun = time.monotonic()
        self.check_fine(self.tool(f"s3://data/s.tar?{QUICK}"))
        self.assertGreaterEqual(time.monotonic() - begun, 2)

    # -- failures that stay: a sentence, and the other samples come

    def stays(self, fault, code, *says, path="images/", pattern="0003.jpg", query=QUICK):
        for uri, server in self.places(path, query):
            with self.subTest(uri=uri, fault=fault):
                server.faults.set((pattern, fault, 1000))
                lines = self.tool(uri, "2,3,4")
                self.assertEqual(lines[0].split()[3], self.sums[2], lines)
                self.check_failed(lines[1], code, "images/a/0003.jpg", *says)
                self.assertEqual(lines[2].split()[3], self.sums[4])
                server.faults.set()

    def listed(self):
        """A listing with sizes needs no HEAD, which the faults below would hit."""
        with open(f"{self.www}/images/list.tsv", "w") as f:
            for i in range(12):
                f.write(f"a/{i:04}.jpg\t{3000 + i}\n")
        return "images/list.tsv"

    def test_403(self):
        self.stays("status:403", E_IO, "access is denied (403", path=self.listed())

    def test_404(self):
        self.stays("status:404", E_NOTFOUND, "there is no such object (404", path=self.listed())

    def test_500_for_good(self):
        self.stays("status:500", E_IO, "the server failed (500", "tried 3 times", path=self.listed())

    def test_503_for_good(self):
        self.stays("status:503", E_IO, "overloaded (503", "tried 3 times", path=self.listed())

    def test_short_for_good(self):
        self.stays("short", E_IO, "broke off after", "tried 3 times", path=self.listed())

    def test_stalled_for_good(self):
        # "stopped sending", or "sends too slowly" where all stood still for a moment
        self.stays("stall", E_IO, "the server s", "tried 3 times", path=self.listed(), query=HASTY)

    def test_dripping_body(self):
        """A byte ten times a second would hold a sample of 3 KB for five minutes."""
        self.http.faults.set(("0003.jpg", "drip", 1000))
        uri = f"http://127.0.0.1:{self.http.port}/{self.listed()}?retries=0&stall=3s"
        lines = self.tool(uri, "2,3,4")
        self.assertEqual([lines[0].split()[3], lines[2].split()[3]], [self.sums[2], self.sums[4]])
        self.check_failed(lines[1], E_IO, "the server s")  # "sends too slowly", or stopped on a busy machine

    def test_closed_for_good(self):
        self.stays("close", E_IO, "the answer broke off after 0 bytes", path=self.listed())

    def test_endless_line_of_a_head(self):
        self.stays("longline", E_IO, "a line in the head of the answer is longer", path=self.listed())

    def test_redirect_loop(self):
        self.stays("loop", E_IO, "redirected more than 5 times", path=self.listed())

    def test_redirect_to_another_site(self):
        path = self.listed()
        self.s3.faults.set(("0003.jpg", "away", 1000))
        lines = self.tool(f"s3://data/{path}?{QUICK}", "3")
        self.check_failed(lines[0], E_IO, "another site, which gets no signed request")

    # -- answers that are not what was asked for

    def shard_fault(self, fault, code, *says):
        for uri, server in self.places("s.tar"):
            with self.subTest(uri=uri, fault=fault):
                server.faults.set()
                self.tool(uri)  # so that the index is kept
                server.faults.set(("s.tar", fault, 1000))
                lines = self.tool(uri, "3")
                self.check_failed(lines[0], code, "s.tar", *says)

    def test_server_without_ranges(self):
        self.shard_fault("norange", E_UNSUPPORTED, "sample 3", "does not give parts of a file")

    def test_other_range(self):
        self.shard_fault("wrongrange", E_FORMAT, "sample 3", "other bytes than it was asked for")

    def test_grown(self):
        self.shard_fault("grown", E_CHANGED, "changed while in use")

    # -- objects that change while in use

    def change(self, path, uri, server, change):
        """Reads, then changes the object, then reads again."""
        with open(f"{self.www}/{path}", "rb") as f:
            before = f.read()
        p = subprocess.Popen(
            [f"{BUILD}/tool_read", uri, "3", "again"], env=self.env, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        try:
            first = p.stdout.readline()
            self.assertEqual(first.split()[3], self.sums[3])
            with open(f"{self.www}/{path}", "wb") as f:
                f.write(change(before))
            return p.communicate("\n", timeout=120)[0].splitlines()[0]
        finally:
            if p.poll() is None:
                p.kill()
                p.wait()
            with open(f"{self.www}/{path}", "wb") as f:
                f.write(before)

    def test_changed_in_mid_run(self):
        flip = lambda b: b[:-1] + bytes([b[-1] ^ 1])
        for path, where in (("s.tar", "s.tar"), ("images/a/0003.jpg", "images/")):
            for change, says in ((flip, "its ETag differs"), (lambda b: b + b"x" * 512, "changed while in use")):
                for uri, server in self.places(where):
                    with self.subTest(uri):
                        line = self.change(path, uri, server, change)
                        self.check_failed(line, E_CHANGED, says, "changed while in use")

    def test_removed_in_mid_run(self):
        path = f"{self.www}/images/a/0003.jpg"
        for uri, server in self.places("images/"):
            p = subprocess.Popen(
                [f"{BUILD}/tool_read", uri, "3", "again"], env=self.env, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
            p.stdout.readline()
            os.rename(path, path + ".away")
            try:
                line = p.communicate("\n", timeout=120)[0].splitlines()[0]
            finally:
                os.rename(path + ".away", path)
            self.check_failed(line, E_NOTFOUND, "images/a/0003.jpg", "no such object")

    # -- credentials and clocks

    def test_expired_token(self):
        self.s3.token = "another"
        self.env["AWS_SESSION_TOKEN"] = web_kit.TOKEN
        lines = self.tool(f"s3://data/s.tar?{QUICK}")
        self.assertIn("ExpiredToken", self.tool(f"s3://data/images/?{QUICK}")[0])
        self.check_failed(lines[0], E_IO)  # the answer to a HEAD has no body to say why
        self.assertIn("renew the credentials", self.tool(f"s3://data/images/?{QUICK}")[0])

    def test_credentials_are_renewed(self):
        """A file with fresh keys is picked up without a new start."""
        path = os.path.join(ROOT, "renewed")

        def write(token):
            with open(path, "w") as f:
                f.write(
                    f"[default]\naws_access_key_id={web_kit.KEY}\n"
                    f"aws_secret_access_key={web_kit.SECRET}\naws_session_token={token}\n"
                )

        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            del self.env[name]
        self.env["AWS_SHARED_CREDENTIALS_FILE"] = path
        self.s3.token = "one"
        write("one")
        p = subprocess.Popen(
            [f"{BUILD}/tool_read", f"s3://data/images/?{QUICK}", "all", "again"], env=self.env,
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        first = [p.stdout.readline() for _ in range(12)]
        self.check_fine(first)
        self.s3.token = "two"
        write("two")
        self.check_fine(p.communicate("\n", timeout=120)[0].splitlines())

    def test_session_ends_in_mid_run(self):
        """Credentials of the environment cannot be renewed: each sample says so."""
        self.s3.token = self.env["AWS_SESSION_TOKEN"] = web_kit.TOKEN
        p = subprocess.Popen(
            [f"{BUILD}/tool_read", f"s3://data/images/?{QUICK}", "all", "again"], env=self.env,
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self.check_fine([p.stdout.readline() for _ in range(12)])
        self.s3.token = "another"
        lines = p.communicate("\n", timeout=120)[0].splitlines()
        self.assertEqual(len(lines), 12)
        for i, line in enumerate(lines):
            self.check_failed(line, E_IO, f"a/{i:04}.jpg", "ExpiredToken", "renew the credentials")
            self.assertNotIn(web_kit.TOKEN, line)

    def test_wrong_key(self):
        self.env["AWS_SECRET_ACCESS_KEY"] = "wrong"
        self.assertIn("SignatureDoesNotMatch", self.tool(f"s3://data/images/?{QUICK}")[0])
        self.env["AWS_ACCESS_KEY_ID"] = "nobody"
        self.assertIn("InvalidAccessKeyId", self.tool(f"s3://data/images/?{QUICK}")[0])

    def test_clock(self):
        self.s3.faults.set(("list-type", "skewed", 10))
        self.assertIn("this machine's clock is", self.tool(f"s3://data/images/?{QUICK}")[0])

    # -- no server

    def test_no_server(self):
        port = web_kit.free_port()
        line = self.tool(f"http://127.0.0.1:{port}/x.tar?{QUICK}")[0]
        self.check_failed(line, E_IO, f"no connection to 127.0.0.1:{port}", "tried 3 times")

    def test_no_address(self):
        line = self.tool(f"http://no-such-host.invalid/x.tar?{QUICK}")[0]
        self.check_failed(line, E_IO, "no address is known for no-such-host.invalid")

    def test_no_tls(self):
        line = self.tool(f"https://127.0.0.1:{self.http.port}/x.tar?{QUICK}")[0]
        self.check_failed(line, E_IO, "TLS")

    def test_server_restarts(self):
        """Gone for a moment in the middle of a run: reading goes on."""
        uri = f"http://127.0.0.1:{self.http.port}/images/?retries=8&backoff=50ms"
        p = subprocess.Popen(
            [f"{BUILD}/tool_read", uri, "all", "again"], env=self.env, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self.check_fine([p.stdout.readline() for _ in range(12)])
        self.http.faults.set((".", "close", 20))
        self.check_fine(p.communicate("\n", timeout=120)[0].splitlines())

    @unittest.skipUnless(web_kit.have_nginx() and shutil.which("openssl"), "no nginx or openssl")
    def test_connection_dies_without_a_word(self):
        """All requests share it: what stalled there goes on over another, and so does what follows."""
        certificate = web_kit.make_certificate(ROOT)
        server = web_kit.Nginx(self.www, certificate)
        between = web_kit.Between(server.port)
        try:
            uri = f"https://127.0.0.1:{between.port}/s.tar?ca={certificate}.pem&stall=1s&connect=2s&retries=20&backoff=0ms"
            p = subprocess.Popen(
                [f"{BUILD}/tool_read", uri, "all", "again", "again"], env=self.env, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
            self.check_fine([p.stdout.readline() for _ in range(12)])
            between.forsake()
            lines = p.communicate("\n\n", timeout=400)[0].splitlines()
            self.check_fine(lines)
            self.check_fine(lines[12:])
        finally:
            between.close()
            server.close()

    # -- interrupting

    def test_interrupt(self):
        """A read that hangs ends at once, not when its time is up."""
        self.http.faults.set(("0003.jpg", "stall", 1000))
        self.listed()
        uri = f"http://127.0.0.1:{self.http.port}/images/list.tsv?stall=60s"
        lines = self.tool(uri, "0", "interrupt", "1")
        self.assertTrue(lines[-1].startswith("ended "), lines)
        self.http.faults.set(("0003.jpg", "short", 1), ("0003.jpg", "stall", 1000))  # what hangs is the second reading
        p = self.tool(uri + "&retries=0", "3,0", "interrupt", "100")
        self.check_failed(p[2], E_CANCELLED, "interrupted")
        self.assertLess(float(p[-1].split()[1]), 30)

    def stop(self, server, pattern, *args):
        """Ctrl-C once the server has been asked for something that matches."""
        p = subprocess.Popen(
            [LARDER, *args], env=self.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            for _ in range(12000):
                with server.counting:
                    if any(re.search(pattern, path) for how, path, _ in server.seen if how == "GET"):
                        break
                self.assertIsNone(p.poll(), p.poll() is not None and p.stderr.read())
                time.sleep(0.01)
            p.send_signal(signal.SIGINT)
            err = p.communicate(timeout=50)[1]  # the server answers after 60 s
        finally:
            if p.poll() is None:
                p.kill()
                p.wait()
        self.assertEqual(p.returncode, 130, err)
        return err

    def test_ctrl_c_in_mid_download(self):
        out = os.path.join(ROOT, "stopped")
        for uri, server in (
            ("s3://data/images/?stall=90s", self.s3),
            (f"http://127.0.0.1:{self.http.port}/{self.listed()}?stall=90s", self.http),
        ):
            for command in ("unpack", "pack") if self.jpeg else ("unpack",):
                with self.subTest(uri=uri, command=command):
                    server.seen.clear()
                    server.faults.set(("0003.jpg", "stall", 1000))
                    err = self.stop(server, "0003.jpg", command, uri, out)
                    self.assertIn("interrupted; the same command goes on", err)
                    self.assertFalse([n for _, _, ns in os.walk(out) for n in ns if "tmp" in n])
                    server.stalled.set()
                    server.faults.set()
                    if command == "unpack":
                        r = subprocess.run(
                            [LARDER, command, uri, out], env=self.env, capture_output=True, text=True
                        )
                        self.assertEqual(r.returncode, 0, r.stderr)
                    server.stalled.clear()
                    shutil.rmtree(out, ignore_errors=True)

    def test_ctrl_c_while_opening(self):
        out = os.path.join(ROOT, "never")
        uri = "s3://data/images/?stall=90s"
        for args in (
            ("train", uri, "--test", "none"),
            ("profile", uri),
            ("pack", uri, out),
            ("unpack", uri, out),
        ):
            with self.subTest(args):
                self.s3.seen.clear()
                self.s3.faults.set(("list-type", "hang", 1000))
                err = self.stop(self.s3, "list-type", *args)
                self.assertIn(f"larder {args[0]}: ", err)

    # -- no memory

    def test_memory(self):
        """Each allocation fails once, while opening and while reading; in a short run each third."""
        step = "1" if os.environ.get("LARDER_LONG") else "3"
        for uri in (
            f"s3://data/images/?{QUICK}",
            f"s3://data/s.tar?index=off&{QUICK}",
            f"http://127.0.0.1:{self.http.port}/{self.listed()}?{QUICK}",
        ):
            lines = self.tool(uri, "memory", step)
            self.assertTrue(lines[-1].startswith("memory ") and lines[-1].endswith(" 0"), lines)

    # -- listings that lie

    def test_one_picture(self):
        for uri, _ in self.places("images/a/0003.jpg"):
            self.assertIn("a single picture is no data set", self.tool(uri)[0])

    def test_nothing_there(self):
        self.assertIn("nothing whose name begins so", self.tool(f"s3://data/none/?{QUICK}")[0])
        self.assertIn("no such bucket", self.tool(f"s3://other/none/?{QUICK}")[0])

    def test_lying_pages(self):
        for name, body in (
            ("empty", b""),
            ("text", b"hello"),
            ("up", b'<a href="../../etc/">x</a><a href="/x/">y</a>'),
        ):
            with open(f"{self.www}/page-{name}.txt", "wb") as f:
                f.write(body)
            line = self.tool(f"http://127.0.0.1:{self.http.port}/page-{name}.txt?{QUICK}")[0]
            self.assertTrue(line.startswith("open -"), line)


if __name__ == "__main__":
    if " curl" not in " " + subprocess.run([LARDER, "--version"], capture_output=True, text=True).stdout:
        print("this build has no libcurl")
        sys.exit(77)
    ROOT = tempfile.mkdtemp(prefix="larder-web-faults-")
    try:
        unittest.main(verbosity=2, exit=False).result.wasSuccessful() or sys.exit(1)
    finally:
        shutil.rmtree(ROOT, ignore_errors=True)
