"""Ports for servers that tests start. The kernel takes the ports of outgoing connections from 32768 up:
one of those that is free now may be somebody's a moment later, so these lie below."""

import random
import socket


def free_port():
    while True:
        port = random.randrange(12000, 32000)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
