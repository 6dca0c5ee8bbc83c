"""What the tests of the Python package share. Ends with 77 (skipped) where a package is missing."""

import os
import pickle
import sys
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "python"))
os.environ.pop("LARDER_SOCKET", None)

try:
    import numpy  # noqa: F401
    import torch  # noqa: F401
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)
torch.set_num_threads(1)

import larder  # noqa: E402,F401

# Every sort of recipe: plain caches, those that choose the order, those that listen.
RECIPES = ["lru", "minio", "quiver", "seneca", "rotate:h=0.5", "echo", "icache", "shade", "spider:scoring=wait"]


def keep(value, path):
    """What one process of a test tells another: anything, also what torch.load refuses by default."""
    with open(path, "wb") as f:
        pickle.dump(value, f)


def kept(path):
    with open(path, "rb") as f:
        return pickle.load(f)


def open_loaders(test):
    """The loaders of the library's that are open, from here to the test's end."""
    lib, there = larder._lib.load(), set()
    opens, closes = lib.larder_loader_open, lib.larder_loader_close

    def opened(handle, conf):
        rc = opens(handle, conf)
        there.update({handle._obj.value} - {None})
        return rc

    def closed(handle):
        there.discard(handle._obj.value)
        closes(handle)

    for name, call in (("larder_loader_open", opened), ("larder_loader_close", closed)):
        patched = mock.patch.object(lib, name, call)
        patched.start()
        test.addCleanup(patched.stop)
    return there
