"""Who asks S3: every way to credentials there is, what happens when they end, URLs that were signed
by somebody else, and that nothing secret gets into what larder writes down."""

import http.server
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import web_kit  # noqa: E402

LARDER = os.environ.get("LARDER", "build/larder")
BUILD = os.environ.get("LARDER_BUILD", "build")
ROOT = None
SECRETS = (web_kit.SECRET, web_kit.TOKEN, web_kit.KEY, "a-metadata-token", "a-container-token")


def when(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))


class Service(http.server.ThreadingHTTPServer):
    """The services that a container or a machine at Amazon asks for its credentials."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answers)
        self.seen, self.token, self.lasts, self.role = [], web_kit.TOKEN, 3600, "a-role"
        self.failures = 0
        self.thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def close(self):
        self.shutdown()
        self.thread.join()
        self.server_close()


class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, text):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def credentials(self):
        return json.dumps(
            {
                "Code": "Success",
                "AccessKeyId": web_kit.KEY,
                "SecretAccessKey": web_kit.SECRET,
                "Token": self.server.token,
                "Expiration": when(self.server.lasts),
            }
        )

    def do_PUT(self):
        self.server.seen.append(self.path)
        asked = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds")
        right = self.path == "/latest/api/token" and asked
        self.answer(200 if right else 400, "a-metadata-token")

    def do_GET(self):
        server = self.server
        server.seen.append(self.path)
        roles = "/latest/meta-data/iam/security-credentials/"
        if server.failures:
            server.failures -= 1
            return self.answer(500, "later")
        if self.path == "/container":
            right = self.headers.get("Authorization") == "a-container-token"
            return self.answer(200 if right else 401, self.credentials())
        if self.headers.get("X-aws-ec2-metadata-token") != "a-metadata-token":
            return self.answer(401, "")
        if not server.role:
            return self.answer(404, "")
        if self.path == roles:
            return self.answer(200, server.role)
        return self.answer(200 if self.path == roles + server.role else 404, self.credentials())


class Credentials(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.www = os.path.join(ROOT, "www")
        rng = random.Random(5)
        os.makedirs(f"{cls.www}/images/a")
        for i in range(12):
            with open(f"{cls.www}/images/a/{i:02}.jpg", "wb") as f:
                f.write(rng.randbytes(2000 + i))
        web_kit.make_tar(f"{cls.www}/s.tar", rng, 12)
        cls.images = cls.command("ls", f"dir:{cls.www}/images", "--json")

    @classmethod
    def command(cls, *args, env=None, code=0):
        r = subprocess.run(
            [LARDER, *args], env=env or web_kit.environment(ROOT), capture_output=True, text=True,
            timeout=240,
        )  # fmt: skip
        if r.returncode != code:
            raise AssertionError(f"{args}: {r.returncode}\n{r.stdout}\n{r.stderr}")
        for secret in SECRETS:
            if secret in r.stdout + r.stderr:
                raise AssertionError(f"{args}: something secret was said")
        return r.stdout if code == 0 else r.stderr

    def setUp(self):
        shutil.rmtree(f"{ROOT}/.aws", ignore_errors=True)
        os.makedirs(f"{ROOT}/.aws")
        self.s3 = web_kit.Server(self.www, s3=True)
        self.env = web_kit.environment(ROOT, AWS_ENDPOINT_URL=f"http://127.0.0.1:{self.s3.port}")

    def tearDown(self):
        self.s3.close()

    def file(self, name, text):
        with open(f"{ROOT}/.aws/{name}", "w") as f:
            f.write(text)

    def keys(self, token=""):
        token = f"aws_session_token = {token}\n" if token else ""
        return f"aws_access_key_id={web_kit.KEY}\naws_secret_access_key = {web_kit.SECRET}\n{token}"

    def check(self, query="", scheme="s3", **more):
        env = dict(self.env, **more)
        there = json.loads(self.command("ls", f"{scheme}://data/images/{query}", "--json", env=env))
        here = json.loads(self.images)
        for about in (there, here):
            del about["uri"], about["source"], about["identity"]  # another place: not the same bytes
        self.assertEqual(there, here)

    def refused(self, *says, query="", code=1, scheme="s3", **more):
        line = self.command("ls", f"{scheme}://data/images/{query}", env=dict(self.env, **more), code=code)
        for text in says:
            self.assertIn(text, line)

    # -- written down

    def test_environment(self):
        pair = dict(AWS_ACCESS_KEY_ID=web_kit.KEY, AWS_SECRET_ACCESS_KEY=web_kit.SECRET)
        self.check(**pair)
        self.s3.token = web_kit.TOKEN
        self.check(AWS_SESSION_TOKEN=web_kit.TOKEN, **pair)

    def test_files_and_profiles(self):
        self.file("credentials", f"[default]\n{self.keys()}[other]\naws_access_key_id=x\n")
        self.check()
        self.s3.region = "eu-west-3"
        self.file("config", "[default]\nregion = eu-west-3\n")
        self.s3.seen.clear()
        self.check()
        self.assertTrue(all("/eu-west-3/" in h["authorization"] for _, _, h in self.s3.seen))
        self.file("credentials", f"[lab]\n{self.keys(web_kit.TOKEN)}")
        self.file("config", "[profile lab]\nregion = eu-west-3\n")
        self.s3.token = web_kit.TOKEN
        self.check("?profile=lab")
        self.check(AWS_PROFILE="lab")
        self.refused('no profile "lap"', code=2, AWS_PROFILE="lap")

    def test_endpoint_of_a_profile(self):
        del self.env["AWS_ENDPOINT_URL"]
        self.file("credentials", f"[default]\n{self.keys()}")
        self.file("config", f"[default]\nendpoint_url = http://127.0.0.1:{self.s3.port}\n")
        self.check()

    def test_ways_that_are_not_ours(self):
        for setting in ("sso_session = x", "role_arn = arn:x\nsource_profile = y"):
            self.file("config", f"[default]\n{setting}\n")
            self.refused(setting.split()[0], "export-credentials")
        self.file("config", "")
        self.refused(
            "AWS_WEB_IDENTITY_TOKEN_FILE", "export-credentials", AWS_WEB_IDENTITY_TOKEN_FILE="/x"
        )

    # -- given by a program

    def program(self, token, lasts=3600):
        self.file("said", json.dumps({
            "Version": 1, "AccessKeyId": web_kit.KEY, "SecretAccessKey": web_kit.SECRET,
            "SessionToken": token, "Expiration": when(lasts)}))  # fmt: skip

    def test_program(self):
        self.program(web_kit.TOKEN)
        self.s3.token = web_kit.TOKEN
        said = f"cat '{ROOT}/.aws/said'; echo run >>'{ROOT}/.aws/runs'"
        self.file("config", f"[default]\ncredential_process = {said}\n")
        self.check()
        with open(f"{ROOT}/.aws/runs") as f:
            self.assertEqual(f.read(), "run\n")
        self.file("config", "[default]\ncredential_process = echo a+secret/of=tests; exit 7\n")
        self.refused("credential_process", "exit code 7")
        self.file("config", "[default]\ncredential_process = echo a+secret/of=tests\n")
        self.refused("credential_process")
        self.refused("asked without credentials", query="?anonymous=true")

    def test_program_is_asked_again_before_the_end(self):
        """What says that it ends is renewed before it is refused."""
        self.program("one", lasts=-1)
        self.file("config", f"[default]\ncredential_process = cat '{ROOT}/.aws/said'\n")
        self.s3.token = "one"
        p = subprocess.Popen(
            [f"{BUILD}/tool_read", "s3://data/images/?backoff=10ms", "all", "again"], env=self.env,
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        first = [p.stdout.readline() for _ in range(12)]
        self.assertTrue(all(l.split()[1] == "0" for l in first), first)
        self.program("two")
        self.s3.token = "two"  # the first one would be refused from here on
        self.s3.seen.clear()
        time.sleep(3)  # programs are not asked all the time
        again = p.communicate("\n", timeout=120)[0].splitlines(keepends=True)
        self.assertEqual(again, first)
        self.assertEqual({h["x-amz-security-token"] for _, _, h in self.s3.seen}, {"two"})

    def test_program_is_asked_again_after_a_refusal(self):
        self.program("one")
        self.file("config", f"[default]\ncredential_process = cat '{ROOT}/.aws/said'\n")
        self.s3.token = "one"
        p = subprocess.Popen(
            [f"{BUILD}/tool_read", "s3://data/images/?backoff=500ms", "all", "again"], env=self.env,
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        first = [p.stdout.readline() for _ in range(12)]
        self.program("two")
        self.s3.token = "two"
        self.assertEqual(p.communicate("\n", timeout=120)[0].splitlines(keepends=True), first)

    # -- given by a service

    def test_container(self):
        service = Service()
        try:
            self.s3.token = web_kit.TOKEN
            full = dict(
                AWS_CONTAINER_CREDENTIALS_FULL_URI=service.url + "/container",
                AWS_CONTAINER_AUTHORIZATION_TOKEN="a-container-token",
            )
            self.check(**full)
            service.failures = 2
            self.check(**full)
            del full["AWS_CONTAINER_AUTHORIZATION_TOKEN"]
            self.file("token", "a-container-token\n")
            self.check(AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=f"{ROOT}/.aws/token", **full)
            self.refused("refused (401)", "AWS_CONTAINER_CREDENTIALS", **full)
        finally:
            service.close()
        self.refused(
            "neither https nor on this machine", code=2,
            AWS_CONTAINER_CREDENTIALS_FULL_URI="http://example.org/",
        )

    def test_machine(self):
        service = Service()
        try:
            here = dict(AWS_EC2_METADATA_SERVICE_ENDPOINT=service.url + "/")
            del self.env["AWS_EC2_METADATA_DISABLED"]
            self.s3.token = web_kit.TOKEN
            self.check(**here)
            self.assertEqual(len(service.seen), 3)
            self.refused("asked without", AWS_EC2_METADATA_DISABLED="true", **here)
            self.assertEqual(len(service.seen), 3)
            service.role = ""
            self.refused("asked without credentials", **here)
        finally:
            service.close()
        self.refused("asked without credentials", **here)  # nobody answers there any more

    def test_ended_session_of_a_head(self):
        """The answer to a HEAD has no body that says why; fresh keys in the file are taken all the
        same."""
        self.file("credentials", f"[default]\n{self.keys('old')}")
        self.s3.token = "new"
        line = self.command("ls", "s3://data/s.tar", env=self.env, code=1)
        self.assertIn("has the session expired?", line)

    # -- signed by somebody else

    def test_google(self):
        """The same protocol with keys of its own; Amazon's are not shown to it, nor its endpoint asked."""
        here = f"?endpoint=http://127.0.0.1:{self.s3.port}"
        self.s3.region = "auto"
        amazon = dict(AWS_ACCESS_KEY_ID=web_kit.KEY, AWS_SECRET_ACCESS_KEY=web_kit.SECRET)
        google = dict(GS_ACCESS_KEY_ID=web_kit.KEY, GS_SECRET_ACCESS_KEY=web_kit.SECRET)
        self.check(here, scheme="gs", **google)
        self.file("credentials", f"[default]\n{self.keys()}[google]\n{self.keys()}[half]\naws_access_key_id=x\n")
        self.s3.seen.clear()
        self.refused("GS_ACCESS_KEY_ID", query=here, scheme="gs", **amazon)
        self.assertFalse(any("authorization" in h for _, _, h in self.s3.seen))
        self.check(here + "&profile=google", scheme="gs")
        self.refused("no pair of keys", query=here + "&profile=half", scheme="gs", code=2, **amazon)
        self.s3.bearer = web_kit.TOKEN
        self.check(here + "&bearer=GRANTED", scheme="gs", GRANTED=web_kit.TOKEN, **google)
        self.s3.public = True
        self.check(here + "&anonymous=true", scheme="gs", **google)
        self.s3.seen.clear()
        proxy = dict(https_proxy="http://127.0.0.1:9", no_proxy="", NO_PROXY="")  # nobody listens there
        self.refused("gs://data/", query="?retries=0", scheme="gs", **proxy)
        self.assertEqual(self.s3.seen, [])

    def test_signed_url(self):
        url = web_kit.presign(f"http://127.0.0.1:{self.s3.port}/data/s.tar")
        there = url.partition("?")[0] + "?query=SIGNED"
        here = subprocess.run(
            [f"{BUILD}/tool_read", f"tar:{self.www}/s.tar"], capture_output=True, text=True
        ).stdout
        for value in (url, url.partition("?")[2]):
            r = subprocess.run(
                [f"{BUILD}/tool_read", there], env=dict(self.env, SIGNED=value),
                capture_output=True, text=True, timeout=240,
            )  # fmt: skip
            self.assertEqual(r.stdout, here)
        self.assertFalse([m for m, _, _ in self.s3.seen if m == "HEAD"])
        late = web_kit.presign(f"http://127.0.0.1:{self.s3.port}/data/s.tar", seconds=-1)
        line = self.command("ls", there, env=dict(self.env, SIGNED=late), code=1)
        self.assertIn("has the query's signature expired?", line)
        self.assertNotIn("X-Amz-Signature", line)
        r = subprocess.run([LARDER, "ls", url], env=self.env, capture_output=True, text=True)
        self.assertEqual(r.returncode, 2)
        self.assertIn("that query= names", r.stderr)
        for secret in (web_kit.KEY, url.partition("Signature=")[2]):
            self.assertNotIn(secret, r.stdout + r.stderr)

    # -- proxies

    def test_password_of_a_proxy(self):
        """Of an address that libcurl does not take, which it repeats: a kind of proxy it does not know, no address."""
        long = web_kit.TOKEN * 20  # what is cut off has no end by which to know it
        for proxy in (
            f"weird://user:{web_kit.TOKEN}@127.0.0.1",
            f"weird://user:{long}@127.0.0.1",
            f"http://user:{web_kit.TOKEN}@127.0.0.1:x",
            f"http://user:{web_kit.TOKEN}@[::1",
            f"user:{long}@127.0.0.1:99999999",
        ):
            with self.subTest(proxy=proxy):
                env = dict(self.env, http_proxy=proxy, no_proxy="", NO_PROXY="")
                # what is secret in the answer fails the command
                line = self.command("ls", f"http://127.0.0.1:{self.s3.port}/x/?retries=0", env=env, code=1)
                self.assertIn(f"127.0.0.1:{self.s3.port}", line)
                self.assertEqual("the proxy that the environment names" in line, "weird" in proxy, line)
        self.assertEqual(self.s3.seen, [])

    # -- what is written down

    def test_nothing_secret_is_written(self):
        """A training run that is recorded in every way there is, its report, a saved job, and a failing one."""
        if " -jpeg" in " " + self.command("--version"):
            self.skipTest("no JPEG in this build")
        from PIL import Image

        rng = random.Random(3)
        for i in range(24):
            path = f"{self.www}/pictures/{i % 2}/{i:02}.jpg"
            os.makedirs(os.path.dirname(path), exist_ok=True)
            Image.frombytes("RGB", (16, 16), rng.randbytes(768)).save(path)
        out = f"{ROOT}/out"
        shutil.rmtree(out, ignore_errors=True)
        os.makedirs(out)
        self.s3.token = web_kit.TOKEN
        env = dict(
            self.env,
            AWS_ACCESS_KEY_ID=web_kit.KEY,
            AWS_SECRET_ACCESS_KEY=web_kit.SECRET,
            AWS_SESSION_TOKEN=web_kit.TOKEN,
            LARDER_CACHE_DIR=f"{out}/cache",
        )
        train = ["train", "--test", "none", "--epochs", "2", "--batch", "8"]
        self.command(
            *train, "s3://data/pictures/", "--json", "--record", f"{out}/tape", "--out",
            f"{out}/run", env=env,
        )  # fmt: skip
        self.command("ls", "s3://data/s.tar", env=env)
        self.command("report", f"{out}/run", "-o", f"{out}/report.html", env=env)
        self.command("sim", "--replay", f"{out}/tape", "--json", env=env)
        os.makedirs(f"{out}/saved")
        save = [f"{BUILD}/tool_save", "s3://data/pictures/", "20%", f"{out}/saved"]
        r = subprocess.run(save, env=env, capture_output=True, text=True, timeout=240)
        self.assertEqual((r.returncode, r.stdout, r.stderr), (0, "", ""))
        self.assertEqual(sorted(os.listdir(f"{out}/saved")), ["decisions", "record", "state"])
        self.s3.faults.set((r"jpg", "status:403", 1000))
        self.command(*train, "s3://data/pictures/?retries=0", "--record", f"{out}/bad", env=env, code=1)
        url = web_kit.presign(f"http://127.0.0.1:{self.s3.port}/data/s.tar")
        signature = url.partition("Signature=")[2]
        self.command("ls", url.partition("?")[0] + "?query=SIGNED", env=dict(env, SIGNED=url))
        names = [os.path.join(f, n) for f, _, ns in os.walk(out) for n in ns]
        self.assertGreaterEqual(len(names), 9, names)
        for name in names:
            with open(name, "rb") as f:
                text = f.read()
            for secret in (*SECRETS, signature):
                self.assertNotIn(secret.encode(), text, name)


if __name__ == "__main__":
    if " curl" not in " " + subprocess.run([LARDER, "--version"], capture_output=True, text=True).stdout:
        print("this build has no libcurl")
        sys.exit(77)
    ROOT = tempfile.mkdtemp(prefix="larder-credentials-")
    try:
        unittest.main(verbosity=2, exit=False).result.wasSuccessful() or sys.exit(1)
    finally:
        shutil.rmtree(ROOT, ignore_errors=True)
