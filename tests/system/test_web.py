"""http:, https: and s3: against nginx and a small S3: the same ids, labels, bytes and fingerprint as
the same files on the disk, and no more requests than it takes."""

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import web_kit  # noqa: E402

LARDER = os.environ.get("LARDER", "build/larder")
BUILD = os.environ.get("LARDER_BUILD", "build")
ROOT = None


def environment(**more):
    return web_kit.environment(ROOT, **more)


def run(*args, env=None, check=True):
    r = subprocess.run(
        [str(a) for a in args], env=env or environment(), capture_output=True, text=True, timeout=240
    )
    if check and r.returncode != 0:
        raise AssertionError(f"{args}: {r.returncode}\n{r.stdout}\n{r.stderr}")
    return r


def ls(uri, env=None):
    about = json.loads(run(LARDER, "ls", uri, "--json", "--limit", 1000, env=env).stdout)
    del about["uri"], about["source"], about["identity"]
    return about


def identity(uri, env=None):
    about = json.loads(run(LARDER, "ls", uri, "--json", env=env).stdout)
    return about["identity"], about["fingerprint"]


def read(uri, *args, env=None):
    return run(f"{BUILD}/tool_read", uri, *args, env=env).stdout.splitlines()


def figures(lines):
    return {p[1]: float(p[2]) for p in (l.split() for l in lines) if p[0] == "figure"}


def make_tree(root):
    """Class folders with odd names, shards, parts, manifests."""
    rng = random.Random(1)
    names = ["a/1.jpg", "a/deep/2.png", "a/deep er/3.jpg", "a/x.txt", "a-b/4.jpg", "ä & b/5+6 %.jpg"]
    names += [f"many/{i:03}.jpg" for i in range(40)]
    for name in names:
        path = os.path.join(root, "images", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(rng.randbytes(rng.choice([1, 100, 5000, 70000])))
    open(os.path.join(root, "images/a/0.jpg"), "wb").close()  # an empty one
    for part, n in (("train", 3), ("val", 1)):
        for s in range(n):
            web_kit.make_tar(os.path.join(root, "shards", f"{part}-{s:03}.tar"), rng, 50, f"{part}{s}")
    for part in ("train", "test"):
        shutil.copytree(os.path.join(root, "images"), os.path.join(root, "parts", part))
    os.remove(os.path.join(root, "parts/test/a/1.jpg"))


class Web(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.www = os.path.join(ROOT, "www")
        make_tree(cls.www)
        cls.s3 = web_kit.Server(cls.www, s3=True)
        cls.plain = web_kit.Server(cls.www)
        cls.nginx = web_kit.Nginx(cls.www) if web_kit.have_nginx() else None
        cls.env = environment(
            AWS_ACCESS_KEY_ID=web_kit.KEY,
            AWS_SECRET_ACCESS_KEY=web_kit.SECRET,
            AWS_ENDPOINT_URL=f"http://127.0.0.1:{cls.s3.port}",
        )

    @classmethod
    def tearDownClass(cls):
        for server in (cls.s3, cls.plain, cls.nginx):
            if server:
                server.close()

    def setUp(self):
        shutil.rmtree(os.path.join(ROOT, "cache"), ignore_errors=True)
        self.s3.seen.clear()

    def places(self, path):
        """The same folder through every server there is."""
        yield f"s3://data/{path}", self.env
        yield f"http://127.0.0.1:{self.plain.port}/{path}", None
        if self.nginx:
            yield f"http://127.0.0.1:{self.nginx.port}/{path}", None
            yield f"http://127.0.0.1:{self.nginx.port}/json/{path}", None

    def check_same(self, local, path, **how):
        want, bytes_there = ls(local), read(local)
        for uri, env in self.places(path):
            with self.subTest(uri):
                self.assertEqual(ls(uri, env), want)
                self.assertEqual(read(uri, env=env), bytes_there)

    # -- what can be opened

    def test_class_folders(self):
        self.check_same(f"dir:{self.www}/images", "images/")

    def test_identity(self):
        """An object that is written again with as many bytes makes other bytes of the same samples;
        a name that the user gives holds for both, since nothing is read of objects at open."""
        sizes = sorted(
            f"{n}/{f}\t{os.path.getsize(os.path.join(d, f))}"
            for d, _, fs in os.walk(f"{self.www}/images")
            for n in [os.path.relpath(d, f"{self.www}/images")]
            for f in fs
            if f.endswith(".jpg")
        )
        changes = 100000
        with open(f"{self.www}/images/sizes.tsv", "w") as f:
            f.write("\n".join(sizes) + "\n")
        try:
            for where, path in (
                ("images/", "images/" + sizes[0].split("\t")[0]),
                ("images/sizes.tsv", "images/" + sizes[0].split("\t")[0]),
                ("shards/", "shards/train-001.tar"),
            ):
                for uri, env in self.places(where):
                    with self.subTest(uri):
                        before = identity(uri, env)
                        self.assertEqual(identity(uri, env), before)
                        said = identity(uri + "?content=x", env)
                        with open(f"{self.www}/{path}", "r+b") as f:
                            f.seek(-1, os.SEEK_END)
                            last = f.read(1)
                            f.seek(-1, os.SEEK_END)
                            f.write(bytes([last[0] ^ 1]))
                        changes += 1  # servers tell times by the second
                        os.utime(f"{self.www}/{path}", (changes * 10, changes * 10))
                        after = identity(uri, env)
                        self.assertNotEqual(after[0], before[0])
                        self.assertEqual(after[1], before[1])
                        self.assertEqual(identity(uri + "?content=x", env), said)
                        self.assertNotEqual(said[0], before[0])
        finally:
            os.remove(f"{self.www}/images/sizes.tsv")

    def test_without_slash(self):
        self.check_same(f"dir:{self.www}/images", "images")

    def test_parts(self):
        self.check_same(f"dir:{self.www}/parts", "parts/")
        self.check_same(f"dir:{self.www}/parts?split=test", "parts/?split=test")
        for uri, env in self.places("images/?split=test"):
            r = run(LARDER, "ls", uri, env=env, check=False)
            self.assertIn("has no test part", r.stderr)

    def test_shards(self):
        self.check_same(f"tar:{self.www}/shards", "shards/")
        self.check_same(f"tar:{self.www}/shards?split=val", "shards/?split=val")
        self.check_same(
            f"tar:{self.www}/shards/train-{{000..002}}.tar", "shards/train-{000..002}.tar"
        )
        self.check_same(f"tar:{self.www}/shards/train-001.tar", "shards/train-001.tar")

    def test_manifests(self):
        images = sorted(
            os.path.relpath(os.path.join(f, n), f"{self.www}/images")
            for f, _, names in os.walk(f"{self.www}/images")
            for n in names
            if n.endswith("g")
        )
        with open(f"{self.www}/images/list.tsv", "w") as f:
            f.write("# size and class\n")
            for i, name in enumerate(images):
                size = os.path.getsize(f"{self.www}/images/{name}")
                f.write(f"{name}\t{size if i % 2 else '-'}\t{i % 3}\n")
        with open(f"{self.www}/shards/some.txt", "w") as f:
            f.write("train-002.tar\ntrain-000.tar\n")
        for uri, env in self.places("images/list.tsv"):
            about = ls(uri, env)
            self.assertEqual([s["name"] for s in about["samples"]], images)
            self.assertEqual([s["label"] for s in about["samples"]], [i % 3 for i in range(len(images))])
            for line, name in zip(read(uri, env=env), images):
                with open(f"{self.www}/images/{name}", "rb") as f:
                    self.assertEqual(line.split()[3], hashlib.sha256(f.read()).hexdigest())
        os.remove(f"{self.www}/images/list.tsv")
        want = read(f"tar:{self.www}/shards/train-{{002,000}}.tar")
        for uri, env in self.places("shards/some.txt"):
            self.assertEqual(read(uri, env=env), want)
        for text, sentence in (
            ("../x.jpg\n", "leads out"),
            ("a.tar\nb.jpg\n", "names shards and other files"),
            ("# nothing\n", "names nothing"),
        ):
            with open(f"{self.www}/wrong.txt", "w") as f:
                f.write(text)
            for uri, env in self.places("wrong.txt"):
                self.assertIn(sentence, run(LARDER, "ls", uri, env=env, check=False).stderr)
        os.remove(f"{self.www}/wrong.txt")

    # -- indexes, ranges, requests

    def test_index_is_kept(self):
        uri = "s3://data/shards/train-{000..002}.tar"
        first = read(uri, env=self.env)
        gets = lambda: sum(1 for m, p, _ in self.s3.seen if m == "GET" and "train-" in p)
        self.s3.seen.clear()
        ls(uri, self.env)
        self.assertEqual(gets(), 0)
        ls(uri + "?index=off", self.env)
        self.assertGreater(gets(), 0)
        self.assertEqual(read("s3://data/shards/?split=train", env=self.env), first)
        # another shard under the same name is indexed again
        path = f"{self.www}/shards/train-001.tar"
        os.rename(path, path + ".old")
        web_kit.make_tar(path, random.Random(9), 20, "other")
        try:
            self.assertEqual(ls(uri, self.env), ls(f"tar:{self.www}/shards/train-{{000..002}}.tar"))
        finally:
            os.rename(path + ".old", path)

    def test_damaged_copy_of_an_index(self):
        uri = "s3://data/shards/train-000.tar"
        want = ls(uri, self.env)
        folder = os.path.join(ROOT, "cache")
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), "r+b") as f:
                f.seek(60)
                f.write(b"\xff" * 40)
        self.assertEqual(ls(uri, self.env), want)

    def test_neighbours_are_joined(self):
        uri = "s3://data/shards/train-000.tar"
        ls(uri, self.env)
        self.s3.seen.clear()
        lines = read(uri, "0,1,2,3,40,41", "figures", env=self.env)
        ranges = [h["range"] for m, _, h in self.s3.seen if "range" in h]
        self.assertEqual(len(ranges), 2, ranges)
        self.assertEqual(lines[:6], read(f"tar:{self.www}/shards/train-000.tar", "0,1,2,3,40,41"))
        self.assertGreaterEqual(figures(lines)["web_bytes"], 6000)
        self.s3.seen.clear()
        apart = read(uri + "?gap=0", "3,2,1,0,3,40,41", env=self.env)
        self.assertEqual(sum("range" in h for _, _, h in self.s3.seen), 7)
        self.assertEqual(apart[:4], lines[3::-1])
        self.assertEqual(apart[4], lines[3])

    def test_paging_and_listing(self):
        ls("s3://data/images/", self.env)
        pages = [p for m, p, _ in self.s3.seen if "list-type" in p]
        self.assertGreater(sum("continuation-token" in p for p in pages), 4)

    # -- packed shards

    def packed(self):
        folder = os.path.join(self.www, "packed")
        if not os.path.isdir(folder):
            from PIL import Image

            source = os.path.join(ROOT, "pictures")
            rng = random.Random(3)
            for i in range(30):
                path = os.path.join(source, f"c{i % 3}", f"{i:02}.jpg")
                os.makedirs(os.path.dirname(path), exist_ok=True)
                noise = Image.frombytes("RGB", (40, 30), rng.randbytes(3600))
                noise.resize((400 + i, 300)).save(path, quality=85)
            run(LARDER, "pack", source, folder, "--shard-size", "200KiB")
        return folder

    def test_packed(self):
        if " -jpeg" in " " + run(LARDER, "--version").stdout:
            self.skipTest("no JPEG in this build")
        folder = self.packed()
        whole, part = read(f"pack:{folder}"), read(f"pack:{folder}", "part")
        for uri, env in self.places("packed/"):
            with self.subTest(uri):
                self.assertEqual(ls(uri, env), ls(f"pack:{folder}"))
                self.assertEqual(read(uri, env=env), whole)
                self.assertEqual(read(uri, "part", env=env), part)
        # of each picture its head and its middle; the index is at hand since the first time
        self.s3.seen.clear()
        lines = read("s3://data/packed/?gap=2KiB", "part", "figures", env=self.env)
        self.assertLessEqual(sum("range" in h for _, _, h in self.s3.seen), 60)
        self.assertFalse([p for m, p, _ in self.s3.seen if m == "GET" and p.endswith(".larder")])
        self.assertLess(figures(lines)["web_bytes"], 0.9 * sum(int(l.split()[2]) for l in whole))
        self.s3.seen.clear()
        self.assertEqual(read("s3://data/packed/", "7", env=self.env), [whole[7]])
        self.assertEqual(sum("range" in h for _, _, h in self.s3.seen), 1)

    def test_no_cache_folder(self):
        if " -jpeg" in " " + run(LARDER, "--version").stdout:
            self.skipTest("no JPEG in this build")
        folder = self.packed()
        blocked = os.path.join(ROOT, "file")
        open(blocked, "w").close()
        env = dict(self.env, LARDER_CACHE_DIR=blocked + "/x")
        self.assertEqual(read("s3://data/packed/", "part", env=env), read(f"pack:{folder}", "part"))

    def test_pack_and_train(self):
        if " -jpeg" in " " + run(LARDER, "--version").stdout:
            self.skipTest("no JPEG in this build")
        self.packed()
        shutil.copytree(os.path.join(ROOT, "pictures"), f"{self.www}/pictures", dirs_exist_ok=True)
        for k, (uri, env) in enumerate(self.places("pictures/")):
            there = os.path.join(ROOT, f"packed-{k}")
            run(LARDER, "pack", uri, there, "--shard-size", "200KiB", env=env)
            self.assertEqual(ls(f"pack:{there}")["fingerprint"], ls(f"pack:{self.packed()}")["fingerprint"])
        for path in ("pictures/", "packed/"):
            r = run(
                LARDER, "train", f"s3://data/{path}", "--test", "none", "--epochs", 2, "--batch", 8,
                "--json", env=self.env,
            )  # fmt: skip
            self.assertIn('"epoch"', r.stdout)

    # -- S3's own

    def test_virtual_host(self):
        before = self.s3.virtual
        env = dict(self.env, AWS_ENDPOINT_URL=f"http://localhost:{self.s3.port}")
        # names below localhost are answered by the resolver of most systems
        r = run(LARDER, "ls", "s3://data/shards/train-000.tar?style=virtual", env=env, check=False)
        if "no address is known" in r.stderr:
            self.skipTest("no address for data.localhost here")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertGreater(self.s3.virtual, before)

    def test_session_token(self):
        self.s3.token = web_kit.TOKEN
        try:
            env = dict(self.env, AWS_SESSION_TOKEN=web_kit.TOKEN)
            self.assertEqual(ls("s3://data/images/", env), ls(f"dir:{self.www}/images"))
        finally:
            self.s3.token = ""

    def test_region_is_learnt(self):
        self.s3.region = "eu-central-1"
        try:
            self.assertEqual(ls("s3://data/images/", self.env), ls(f"dir:{self.www}/images"))
        finally:
            self.s3.region = "us-east-1"

    def test_credentials_file(self):
        os.makedirs(f"{ROOT}/.aws", exist_ok=True)
        with open(f"{ROOT}/.aws/credentials", "w") as f:
            f.write(f"[lab]\naws_access_key_id={web_kit.KEY}\naws_secret_access_key={web_kit.SECRET}\n")
        env = environment()
        there = f"s3://data/images/?endpoint=http://127.0.0.1:{self.s3.port}"
        self.assertEqual(ls(there + "&profile=lab", env), ls(f"dir:{self.www}/images"))
        self.assertEqual(ls(there, dict(env, AWS_PROFILE="lab")), ls(f"dir:{self.www}/images"))
        shutil.rmtree(f"{ROOT}/.aws")

    def test_anonymous(self):
        uri = f"s3://data/images/?endpoint=http://127.0.0.1:{self.s3.port}"
        r = run(LARDER, "ls", uri, check=False)
        self.assertIn("asked without credentials", r.stderr)
        self.s3.public = True
        try:
            self.assertEqual(ls(uri), ls(f"dir:{self.www}/images"))
            self.assertEqual(ls(uri + "&anonymous=true", self.env), ls(f"dir:{self.www}/images"))
        finally:
            self.s3.public = False

    def test_signatures_agree_with_botocore(self):
        try:
            import botocore.auth
            import botocore.awsrequest
            import botocore.credentials
        except ImportError:
            self.skipTest("no botocore")
        ls("s3://data/images/", self.env)
        checked = 0
        for method, path, headers in list(self.s3.seen):
            signed = headers["authorization"].split("SignedHeaders=")[1].split(",")[0].split(";")
            request = botocore.awsrequest.AWSRequest(
                method=method,
                url=f"http://{headers['host']}{path}",
                headers={h: headers[h] for h in signed if h not in ("host", "x-amz-date")},
            )
            request.context["timestamp"] = headers["x-amz-date"]
            request.headers["X-Amz-Date"] = headers["x-amz-date"]
            auth = botocore.auth.S3SigV4Auth(
                botocore.credentials.Credentials(web_kit.KEY, web_kit.SECRET), "s3", "us-east-1"
            )
            text = auth.string_to_sign(request, auth.canonical_request(request))
            want = auth.signature(text, request)
            self.assertIn(want, headers["authorization"])
            checked += 1
        self.assertGreater(checked, 5)

    # -- TLS and HTTP/2

    def test_https(self):
        if not self.nginx or not shutil.which("openssl"):
            self.skipTest("no nginx or openssl")
        certificate = web_kit.make_certificate(ROOT)
        tls = web_kit.Nginx(self.www, certificate)
        try:
            uri = f"https://127.0.0.1:{tls.port}/images/"
            self.assertEqual(ls(f"{uri}?ca={certificate}.pem"), ls(f"dir:{self.www}/images"))
            lines = read(f"{uri}?ca={certificate}.pem", "all", "figures")
            self.assertEqual(lines[: len(lines) - 8], read(f"dir:{self.www}/images"))
            if "HTTP2" in run("curl-config", "--features", check=False).stdout:
                self.assertEqual(figures(lines)["web_connections"], 1)
                self.assertTrue(all(l.startswith("HTTP/2.0 ") for l in tls.access()))
            trusting = dict(os.environ, SSL_CERT_FILE=f"{certificate}.pem")
            self.assertEqual(ls(uri, env=trusting), ls(f"dir:{self.www}/images"))
            r = run(LARDER, "ls", uri, check=False)
            self.assertIn("certificate of 127.0.0.1", r.stderr)
            self.assertIn("is not trusted", r.stderr)
        finally:
            tls.close()

    def test_connections_are_kept(self):
        if not self.nginx:
            self.skipTest("no nginx")
        lines = read(f"http://127.0.0.1:{self.nginx.port}/images/?requests=4", "all", "figures")
        self.assertLessEqual(figures(lines)["web_connections"], 4)
        self.assertGreater(figures(lines)["web_requests"], 40)

    def test_bearer(self):
        uri = f"http://127.0.0.1:{self.plain.port}/shards/train-000.tar"
        self.plain.seen.clear()
        ls(uri + "?bearer=LARDER_TEST_TOKEN", environment(LARDER_TEST_TOKEN="abc"))
        self.assertEqual({h.get("authorization") for _, _, h in self.plain.seen}, {"Bearer abc"})


if __name__ == "__main__":
    if " curl" not in " " + subprocess.run([LARDER, "--version"], capture_output=True, text=True).stdout:
        print("this build has no libcurl")
        sys.exit(77)
    ROOT = tempfile.mkdtemp(prefix="larder-web-")
    try:
        unittest.main(verbosity=2, exit=False, argv=sys.argv[:1] + sys.argv[1:]).result.wasSuccessful() or sys.exit(1)
    finally:
        shutil.rmtree(ROOT, ignore_errors=True)
