"""s3: against servers that are not ours, filled by botocore: Ceph's object gateway, which checks every
signature, and npm's s3rver. Those that are not installed are left out; without any the test is
skipped."""

import concurrent.futures
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
import s3_peers  # noqa: E402
import web_kit  # noqa: E402

LARDER = os.environ.get("LARDER", "build/larder")
BUILD = os.environ.get("LARDER_BUILD", "build")
ROOT = None
ODD = ["a b/1 2.jpg", "a+b/3+4.jpg", "ä-ü/日本.jpg", "100%/5%20.jpg", "q?x=1&y/z;'!().jpg", "~t/=@,$*.jpg"]
MANY = 1100  # more than one page holds


def make_tree(root):
    rng = random.Random(11)
    for name in ODD + [f"many/{i:04}.jpg" for i in range(MANY)]:
        path = os.path.join(root, "images", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(rng.randbytes(rng.randint(1, 400)))
    for s in range(3):
        web_kit.make_tar(f"{root}/shards/s-{s}.tar", rng, 40, f"k{s}")


class Questions:
    """The same for every server."""

    kind = None

    @classmethod
    def setUpClass(cls):
        lack = cls.kind.missing()
        if lack:
            raise unittest.SkipTest(f"no {', '.join(lack)}; {cls.kind.how}")
        cls.www = os.path.join(ROOT, "www")
        if not os.path.isdir(cls.www):
            make_tree(cls.www)
        cls.peer = cls.kind(os.path.join(ROOT, cls.__name__))
        cls.addClassCleanup(cls.peer.close)
        cls.fill()

    @classmethod
    def client(cls):
        import botocore.config
        import botocore.session

        return botocore.session.Session().create_client(
            "s3", region_name="us-east-1", endpoint_url=f"http://127.0.0.1:{cls.peer.port}",
            aws_access_key_id=cls.peer.key, aws_secret_access_key=cls.peer.secret,
            config=botocore.config.Config(
                s3={"addressing_style": "path"}, signature_version="s3v4", max_pool_connections=8
            ),
        )  # fmt: skip

    @classmethod
    def fill(cls):
        client = cls.client()
        client.create_bucket(Bucket="data")
        names = [
            os.path.relpath(os.path.join(f, n), cls.www) for f, _, ns in os.walk(cls.www) for n in ns
        ]

        def put(name):
            with open(os.path.join(cls.www, name), "rb") as f:
                client.put_object(Bucket="data", Key=name, Body=f.read())

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(put, names))

    def setUp(self):
        shutil.rmtree(f"{ROOT}/cache", ignore_errors=True)
        self.env = web_kit.environment(
            ROOT,
            AWS_ACCESS_KEY_ID=self.peer.key,
            AWS_SECRET_ACCESS_KEY=self.peer.secret,
            AWS_ENDPOINT_URL=f"http://127.0.0.1:{self.peer.port}",
        )

    def run_it(self, *args, code=0, **more):
        r = subprocess.run(
            args, env=dict(self.env, **more), capture_output=True, text=True, timeout=240
        )
        self.assertEqual(r.returncode, code, (args, r.stdout[-2000:], r.stderr))
        return r

    def ls(self, uri, **more):
        about = json.loads(self.run_it(LARDER, "ls", uri, "--json", "--limit", "2000", **more).stdout)
        del about["uri"], about["source"]
        return about

    def read(self, uri, *args, **more):
        return self.run_it(f"{BUILD}/tool_read", uri, *args, **more).stdout.splitlines()

    def test_listing_with_pages_and_odd_names(self):
        there = self.ls("s3://data/images/")
        self.assertEqual(there, self.ls(f"dir:{self.www}/images"))
        self.assertEqual(there["samples"] and len(there["samples"]), MANY + len(ODD))
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket="data", Prefix="images/")
        keys = {o["Key"][len("images/") :] for page in pages for o in page["Contents"]}
        self.assertEqual({s["name"] for s in there["samples"]}, keys)

    def test_bytes(self):
        self.assertEqual(self.read("s3://data/images/"), self.read(f"dir:{self.www}/images"))

    def test_folders_with_odd_names(self):
        for folder in (name.split("/")[0] for name in ODD if "?" not in name):
            (name,) = os.listdir(f"{self.www}/images/{folder}")
            with open(f"{self.www}/images/{folder}/{name}", "rb") as f:
                want = hashlib.sha256(f.read()).hexdigest()
            self.assertEqual([l.split()[3] for l in self.read(f"s3://data/images/{folder}/")], [want])

    def test_shards_and_ranges(self):
        for there, here in (
            ("shards/", "shards"),
            ("shards/s-{0..2}.tar", "shards/s-{0..2}.tar"),
            ("shards/s-1.tar", "shards/s-1.tar"),
        ):
            self.assertEqual(self.ls(f"s3://data/{there}"), self.ls(f"tar:{self.www}/{here}"))
            self.assertEqual(self.read(f"s3://data/{there}?gap=0"), self.read(f"tar:{self.www}/{here}"))

    def test_refusals(self):
        if self.peer.signs:
            r = self.run_it(LARDER, "ls", "s3://data/images/", code=1, AWS_SECRET_ACCESS_KEY="wrong")
            self.assertIn("403 SignatureDoesNotMatch); the secret key is not", r.stderr)
        r = self.run_it(LARDER, "ls", "s3://data/images/", code=1, AWS_ACCESS_KEY_ID="nobody")
        self.assertIn("403 InvalidAccessKeyId", r.stderr)
        r = self.run_it(LARDER, "ls", "s3://no-such-bucket/x/", code=1)
        self.assertIn("there is no such bucket (404 NoSuchBucket", r.stderr)
        r = self.run_it(LARDER, "ls", "s3://data/shards/none.tar", code=1)
        self.assertIn("there is no such object", r.stderr)
        r = self.run_it(LARDER, "ls", "s3://data/nothing/", code=1)
        self.assertIn("s3://data/nothing/: there is nothing whose name begins so", r.stderr)

    def test_virtual_host(self):
        env = dict(AWS_ENDPOINT_URL=f"http://{self.peer.host}:{self.peer.port}")
        r = subprocess.run(
            [LARDER, "ls", "s3://data/shards/s-0.tar?style=virtual", "--json"],
            env=dict(self.env, **env), capture_output=True, text=True, timeout=240,
        )  # fmt: skip
        if "no address is known" in r.stderr:
            self.skipTest("no address for data.s3.localhost here")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual(
            self.ls("s3://data/images/?style=virtual", **env), self.ls(f"dir:{self.www}/images")
        )
        self.assertEqual(
            self.ls("s3://data/images/?style=path", **env), self.ls(f"dir:{self.www}/images")
        )

    def test_signed_url(self):
        url = self.client().generate_presigned_url(
            "get_object", Params={"Bucket": "data", "Key": "shards/s-2.tar"}
        )
        there = url.partition("?")[0] + "?query=SIGNED"
        self.assertEqual(self.read(there, SIGNED=url), self.read(f"tar:{self.www}/shards/s-2.tar"))

    def test_changed_in_mid_run(self):
        """Its ETags are MD5 sums, as at Amazon; another object under the same name is noticed."""
        p = subprocess.Popen(
            [f"{BUILD}/tool_read", "s3://data/images/", "0", "again"], env=self.env, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        first = p.stdout.readline().split()
        name = self.ls(f"dir:{self.www}/images")["samples"][0]["name"]
        with open(f"{self.www}/images/{name}", "rb") as f:
            before = f.read()
        self.assertEqual(first[3], hashlib.sha256(before).hexdigest())
        client = self.client()
        try:
            client.put_object(Bucket="data", Key=f"images/{name}", Body=bytes(len(before)))
            line = p.communicate("\n", timeout=120)[0]
        finally:
            client.put_object(Bucket="data", Key=f"images/{name}", Body=before)
        self.assertIn("changed while in use", line)


class AgainstCeph(Questions, unittest.TestCase):
    kind = s3_peers.Ceph


class AgainstS3rver(Questions, unittest.TestCase):
    kind = s3_peers.S3rver


if __name__ == "__main__":
    if " curl" not in " " + subprocess.run([LARDER, "--version"], capture_output=True, text=True).stdout:
        print("this build has no libcurl")
        sys.exit(77)
    try:
        import botocore.session  # noqa: F401
    except ImportError:
        print("no botocore")
        sys.exit(77)
    lacks = [f"{k.name}: no {', '.join(k.missing())}; {k.how}" for k in (s3_peers.Ceph, s3_peers.S3rver) if k.missing()]
    if len(lacks) == 2:
        print("\n".join(lacks))
        sys.exit(77)
    ROOT = tempfile.mkdtemp(prefix="larder-peer-")
    try:
        unittest.main(verbosity=2, exit=False, warnings="ignore").result.wasSuccessful() or sys.exit(1)
    finally:
        shutil.rmtree(ROOT, ignore_errors=True)
