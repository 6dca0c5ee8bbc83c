"""One cache for the workers of a DataLoader: `larder serve`, started when there is somebody to share
with, ended with the process that started it."""

from __future__ import annotations

import atexit
import os
import select
import shutil
import subprocess
import tempfile
import threading
from typing import Any

from . import _lib
from ._errors import StorageError


class Daemon:
    """A daemon of one's own, as long as this process lives (or its workers, if it is killed)."""

    def __init__(self, size: str) -> None:
        self.folder = tempfile.mkdtemp(prefix="larder-")
        self.socket = os.path.join(self.folder, "socket")
        self.owner = os.getpid()
        self.process: Any = subprocess.Popen(
            [_lib.program(), "serve", "--socket", self.socket, "--cache", size, "--quiet",
             "--with-stdin"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={k: v for k, v in os.environ.items() if k != "LARDER_SOCKET"},
            start_new_session=True,  # Ctrl-C is for training; it ends with us
        )
        try:
            self._await()
        except BaseException:
            self.close()
            raise
        atexit.register(self.close)

    def _await(self) -> None:
        """Its first line says that it serves."""
        out = self.process.stdout
        ready, _, _ = select.select([out], [], [], 60)
        line = out.readline().decode("utf-8", "replace").strip() if ready else ""
        if "serves" not in line:
            raise StorageError(f"the cache's daemon did not start: {line or 'no answer'}")

    def close(self) -> None:
        process, self.process = self.process, None
        if process is None or self.owner != os.getpid():
            return
        process.stdin.close()
        process.terminate()  # forked workers that still live have the other end of its input too
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)


_daemons: dict = {}
_lock = threading.Lock()


def shared(size: str) -> str:
    """The socket of this process's daemon for caches of that size; started the first time."""
    with _lock:
        key = (os.getpid(), size)
        if key not in _daemons:
            _daemons[key] = Daemon(size)
        return _daemons[key].socket
