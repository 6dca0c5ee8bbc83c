"""What the tests of top and dash share: a job to look at, a dash to ask, and waiting."""
import json
import os
import socket
import struct
import subprocess
import time
import urllib.request

from process_kit import wait_for  # noqa: F401 (for those who import this)

LARDER = os.environ.get("LARDER", "build/larder")


def write_idx(folder, n=512, side=8):
    """A small data set: one bright row, whose place is the class."""
    for part, count in (("train", n), ("t10k", 64)):
        labels = bytes(i % 4 for i in range(count))
        pixels = bytearray(count * side * side)
        for i in range(count):
            at = i * side * side + labels[i] * side
            pixels[at:at + side] = b"\xff" * side
        with open(f"{folder}/{part}-images-idx3-ubyte", "wb") as f:
            f.write(struct.pack(">IIII", 0x803, count, side, side) + pixels)
        with open(f"{folder}/{part}-labels-idx1-ubyte", "wb") as f:
            f.write(struct.pack(">II", 0x801, count) + labels)


def start_job(folder, *more, recipe="shade", env=None):
    """Trains until it is ended, mostly waiting for storage: the cache holds little."""
    return subprocess.Popen(
        [LARDER, "train", folder, "--recipe", recipe, "--epochs", "100000", "--batch", "16",
         "--threads", "1", "--cache", "10%", "--slow", "latency=5ms", "--quiet", *more],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)


def end(process):
    if process.poll() is None:
        process.kill()
    process.wait()


class Dash:
    def __init__(self, *args, command=("dash",), env=None):
        self.p = subprocess.Popen([LARDER, *command, *args], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, env=env)
        self.line = self.p.stdout.readline()
        while self.line and "http://" not in self.line:
            self.line = self.p.stdout.readline()
        assert "http://" in self.line, self.line + self.p.stderr.read()
        self.url = self.line.split()[-1]
        self.base = self.url.split("?")[0]
        host = self.base.split("//")[1].strip("/")
        self.address = (host.rsplit(":", 1)[0].strip("[]"), int(host.rsplit(":", 1)[1]))

    def get(self, path, headers=None):
        r = urllib.request.Request(self.base + path, headers=headers or {})
        with urllib.request.urlopen(r, timeout=60) as answer:
            return answer.read()

    def state(self, query=""):
        return json.loads(self.get("state.json" + query))

    def raw(self, request, half=False):
        """Sends bytes as they are; what comes back until the end."""
        with socket.create_connection(self.address, timeout=60) as s:
            s.sendall(request)
            if half:
                s.shutdown(socket.SHUT_WR)
            out = b""
            while True:
                try:
                    more = s.recv(65536)
                except ConnectionResetError:
                    return out
                if not more:
                    return out
                out += more

    def memory(self):
        with open(f"/proc/{self.p.pid}/status") as f:
            return int(next(line for line in f if line.startswith("VmRSS")).split()[1]) << 10

    def close(self):
        if self.p.poll() is None:
            self.p.terminate()
        out, err = self.p.communicate(timeout=60)
        return self.p.returncode, err
