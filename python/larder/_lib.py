"""Finds the shared library: the file named by ``LARDER_LIBRARY``, beside this package, ``build/`` of
the source tree."""

import ctypes
import os
from pathlib import Path

from ._errors import BY_CODE, Error

HERE = Path(__file__).resolve().parent
_lib = None


def candidates():
    if os.environ.get("LARDER_LIBRARY"):
        return [Path(os.environ["LARDER_LIBRARY"])]
    build = Path(os.environ.get("LARDER_BUILD") or HERE.parent.parent / "build")
    return [*sorted(HERE.glob("liblarder.so*")), build / "liblarder.so"]


def load():
    global _lib
    if _lib is None:
        for p in candidates():
            if p.exists():
                _lib = ctypes.CDLL(str(p))
                _lib.larder_errmsg.restype = ctypes.c_char_p
                return _lib
        raise ImportError("liblarder.so was not found; build it with `make`")
    return _lib


def check(code):
    if code < 0:
        raise BY_CODE.get(code, Error)(load().larder_errmsg().decode("utf-8", "replace"))
    return code


def text(value):
    return None if value is None else os.fsencode(str(value))
