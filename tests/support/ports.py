"""Ports for servers that tests start. The kernel takes the ports of outgoing connections from 32768 up:
one of those that is free now may be somebody's a moment later, so these lie below. And a test that runs beside this one
may look for one at the same moment: each has a name (redis_kit.c gives the same) that only one process can hold."""

import random
import shutil
import socket
import subprocess
import time
import unittest


held = []  # names of ports, as long as this process lives


def free_port():
    while True:
        port = random.randrange(12000, 32000)
        name = socket.socket(socket.AF_UNIX)
        with socket.socket() as s:
            try:
                name.bind(f"\0larder-test-port-{port}")
                s.bind(("127.0.0.1", port))
            except OSError:
                name.close()
                continue
        held.append(name)
        return port


def redis_server(folder):
    """A server of its own and its port, once it answers; skips the test where there is none."""
    if not shutil.which("redis-server"):
        raise unittest.SkipTest("no redis-server")
    port = free_port()
    server = subprocess.Popen(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder],
                              stdout=subprocess.DEVNULL)
    for _ in range(400):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return server, port
        except OSError:
            time.sleep(0.05)
    server.terminate()
    server.wait()
    raise TimeoutError(f"redis-server does not answer on port {port}")
