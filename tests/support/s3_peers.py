"""S3 servers that others wrote, on loopback, stopped by their own process ids: Ceph's object gateway
(with one monitor and one store in memory) and npm's s3rver."""

import glob
import os
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
import uuid

from ports import free_port


def answers(port):
    try:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
            f"http://127.0.0.1:{port}/", timeout=5
        ).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


class Peer:
    """Its processes, and where it answers: virtual hosts are names below `host`."""

    key, secret = "AKIDLARDERTEST", "a+secret/of=tests"
    host = "s3.localhost"

    def __init__(self, home):
        self.home, self.port, self.processes = home, free_port(), []
        os.makedirs(home)
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def spawn(self, *command, env=None):
        with open(os.path.join(self.home, "log"), "a") as log:
            self.processes.append(
                subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=env
                )
            )

    def wait_for(self, what, seconds=120):
        end = time.monotonic() + seconds
        while not what():
            ended = [p for p in self.processes if p.poll() is not None]
            if ended or time.monotonic() > end:
                with open(os.path.join(self.home, "log")) as log:
                    raise RuntimeError(f"{ended or 'too slow'}: {log.read()[-2000:]}")
            time.sleep(0.1)

    def close(self):
        for p in reversed(self.processes):
            if p.poll() is None:
                os.kill(p.pid, signal.SIGTERM)
            try:
                p.wait(20)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()


class S3rver(Peer):
    """Knows who asks, and checks no signature of version 4. The tokens of its pages need a cipher
    that OpenSSL 3 keeps apart."""

    name, signs = "s3rver", False
    key = secret = "S3RVER"  # the only pair that it knows
    how = "npm install --prefix FOLDER s3rver; S3RVER=FOLDER/node_modules/.bin/s3rver"

    @staticmethod
    def program():
        told = os.environ.get("S3RVER")
        return told if told and os.path.exists(told) else shutil.which("s3rver")

    @classmethod
    def missing(cls):
        return [] if cls.program() else ["s3rver"]

    def start(self):
        self.spawn(
            self.program(), "-d", f"{self.home}/store", "-a", "127.0.0.1", "-p", str(self.port),
            "--service-endpoint", "localhost", "--silent",
            env=dict(os.environ, NODE_OPTIONS="--openssl-legacy-provider"),
        )  # fmt: skip
        self.wait_for(lambda: answers(self.port))


class Ceph(Peer):
    name, signs = "Ceph's radosgw", True
    how = "tools/install-packages.sh peers"
    programs = ("radosgw", "radosgw-admin", "ceph", "ceph-mon", "ceph-osd", "ceph-authtool", "monmaptool")

    @classmethod
    def missing(cls):
        return [p for p in cls.programs if not shutil.which(p)]

    def settings(self):
        """No keys between its parts: all of them are this test's own, on loopback."""
        base = os.path.dirname(os.path.dirname(shutil.which("ceph-osd")))
        classes = glob.glob(f"{base}/lib/*/rados-classes")
        plugins = glob.glob(f"{base}/lib/*/ceph/erasure-code")
        monitor = f"[v1:127.0.0.1:{free_port()}]"
        with open(self.conf, "w") as f:
            f.write(
                f"""[global]
fsid = {self.id}
mon initial members = a
mon host = {monitor}
auth cluster required = none
auth service required = none
auth client required = none
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 2
osd pool default pgp num = 2
mon allow pool size one = true
osd crush chooseleaf type = 0
osd objectstore = memstore
memstore device bytes = 1073741824
osd class dir = {classes[0] if classes else ''}
erasure code dir = {plugins[0] if plugins else ''}
mon data = {self.home}/mon
mon data avail crit = 0
osd data = {self.home}/osd
run dir = {self.home}
admin socket = {self.home}/$name.asok
log file =
pid file =
crash dir = {self.home}
keyring = {self.home}/keyring
ms bind msgr2 = false
public addr = 127.0.0.1
rgw dns name = {self.host}
"""
            )
        return monitor

    def tell(self, *command):
        r = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if r.returncode:
            raise RuntimeError(f"{command}: {r.stderr[-2000:]}")
        return r.stdout

    def start(self):
        self.conf, self.id = f"{self.home}/conf", str(uuid.uuid4())
        keyring, store = f"{self.home}/keyring", str(uuid.uuid4())
        monitor = self.settings()
        for folder in ("mon", "osd"):
            os.makedirs(f"{self.home}/{folder}")
        for name in ("mon.", "client.admin"):
            new = [] if os.path.exists(keyring) else ["--create-keyring"]
            self.tell("ceph-authtool", *new, keyring, "--gen-key", "-n", name, "--cap", "mon",
                      "allow *", "--cap", "osd", "allow *")  # fmt: skip
        self.tell("monmaptool", "--create", "--addv", "a", monitor, "--fsid", self.id,
                  f"{self.home}/monmap")  # fmt: skip
        self.tell("ceph-mon", "--mkfs", "-i", "a", "--monmap", f"{self.home}/monmap", "--keyring",
                  keyring, "-c", self.conf)  # fmt: skip
        self.spawn("ceph-mon", "-i", "a", "-c", self.conf, "-f")
        self.tell("ceph", "-c", self.conf, "osd", "new", store)
        self.tell("ceph-osd", "-i", "0", "-c", self.conf, "--mkfs", "--osd-uuid", store)
        self.spawn("ceph-osd", "-i", "0", "-c", self.conf, "-f")
        self.spawn("radosgw", "-n", "client.admin", "-c", self.conf, "-f", "--rgw-frontends",
                   f"beast endpoint=127.0.0.1:{self.port}")  # fmt: skip
        self.wait_for(lambda: answers(self.port))
        self.tell("radosgw-admin", "-n", "client.admin", "-c", self.conf, "user", "create", "--uid",
                  "larder", "--display-name", "larder", "--access-key", self.key, "--secret",
                  self.secret)  # fmt: skip
