"""Finds the shared library and declares what Python calls of it. No compiler is needed, and none of
PyTorch: everything goes through ctypes, which gives up the interpreter lock during a call.

The library is taken from, in this order: the file named by ``LARDER_LIBRARY``; beside this package (a
wheel); ``build/`` of the source tree this package lies in; the system's own."""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import os
import threading
import warnings
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    byref,
    c_bool,
    c_char,
    c_char_p,
    c_double,
    c_float,
    c_int,
    c_int64,
    c_size_t,
    c_ubyte,
    c_uint,
    c_uint32,
    c_uint64,
    c_void_p,
)
from pathlib import Path
from typing import Any, List, Optional, Union

from ._errors import BY_CODE, ArgumentError, Error, LarderWarning, RangeError

VERSION = "0.2.0"
HERE = Path(__file__).resolve().parent

END_EPOCH, END, NOT_YET = 1, 2, 3
ENCODED, DECODED = 0, 1
DTYPES = {"float32": 0, "uint8": 1, "float16": 2, "bfloat16": 3}
LAYOUTS = {"NCHW": 0, "NHWC": 1}
ON_BAD = {"fail": 0, "skip": 1, "replace": 2}
PARTS = {"read": 0, "keep": 1, "off": 2}
STATE, DECISIONS = 0, 1  # what is saved and restored
ROWS_OWN, ROWS_ALL = 1, 2  # whose rows a report is about
SAYS_SAMPLE, SAYS_CLASS, SAYS_NOTE, SAYS_AUDIT = range(4)

PIN_FN = CFUNCTYPE(c_int, c_void_p, c_size_t, c_uint)
UNPIN_FN = CFUNCTYPE(c_int, c_void_p)
STILL = CFUNCTYPE(c_bool, c_void_p)  # asked while opening waits


class Sized(Structure):
    """Begins with its size, which lets a library of another version take it all the same."""

    def __init__(self, **given: Any) -> None:
        super().__init__(size=ctypes.sizeof(type(self)), **given)


class Conf(Sized):
    """larder_loader_conf"""

    _fields_ = [
        ("size", c_size_t),
        ("source", c_char_p),
        ("recipe", c_char_p),
        ("cache", c_char_p),
        ("augment", c_char_p),
        ("batch", c_size_t),
        ("seed", c_uint64),
        ("epochs", c_uint64),
        ("threads", c_uint32),
        ("prefetch", c_uint32),
        ("lag", c_uint32),
        ("rank", c_uint32),
        ("world", c_uint32),
        ("dtype", c_int),
        ("layout", c_int),
        ("on_bad", c_int),
        ("drop_last", c_bool),
        ("parts", c_int),
        ("inflight", c_uint32),
        ("ahead", c_uint32),
        ("hold_most", c_uint32),
        ("pin", c_void_p),
        ("unpin", c_void_p),
        ("record", c_char_p),
        ("order_only", c_bool),
        ("replay", c_char_p),
        ("still", STILL),
        ("still_arg", c_void_p),
        ("patience", c_double),
        ("fields", c_char_p),
        ("target", c_char_p),
        ("own", c_void_p),
        ("maker", c_void_p),
        ("views", c_size_t),
        ("cage", c_char_p),
        ("device", c_char_p),
        ("decode", c_char_p),
    ]


class Shape(Structure):
    _fields_ = [("h", c_uint32), ("w", c_uint32), ("c", c_uint32)]


class Piece(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("bytes", c_size_t),
        ("dtype", c_int),
        ("ndim", c_uint32),
        ("shape", c_uint64 * 8),
    ]


COLUMN_X, COLUMN_Y = 1, 2


class Column(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("kind", c_char_p),
        ("dtype", c_int),
        ("ndim", c_uint32),
        ("shape", c_uint64 * 8),
        ("data", c_void_p),
        ("pieces", POINTER(Piece)),
        ("use", c_int),
    ]


class BatchStruct(Sized):
    _fields_ = [
        ("size", c_size_t),
        ("number", c_uint64),
        ("epoch", c_uint64),
        ("n", c_size_t),
        ("shape", Shape),
        ("dtype", c_int),
        ("layout", c_int),
        ("x", c_void_p),
        ("y", c_void_p),
        ("ids", c_void_p),
        ("served", c_void_p),
        ("kind", c_void_p),
        ("weight", c_void_p),
        ("columns", POINTER(Column)),
        ("column_count", c_size_t),
        ("views", c_uint32),
        ("mix_weight", c_float),
    ]


BatchPointer = POINTER(BatchStruct)


class Feedback(Sized):
    _fields_ = [
        ("size", c_size_t),
        ("loss", c_void_p),
        ("logits", c_void_p),
        ("classes", c_size_t),
        ("embeddings", c_void_p),
        ("dim", c_size_t),
        ("embeddings_dtype", c_int),
        ("rows", c_int),
    ]


class Figures(Sized):
    _fields_ = [("size", c_size_t)] + [
        (name, c_uint64)
        for name in (
            "epoch served hits substitutes repeats misses background_reads storage_bytes bad "
            "evaluated evaluation_reads scratch_reads scratch_bytes scratch_written"
        ).split()
    ] + [
        ("touched", c_double),
        ("form_hits", c_uint64 * 4),
        ("front_hits", c_uint64),
        ("fresh_reported", c_uint64),
        ("reused_reported", c_uint64),
        ("fresh_loss", c_double),
        ("reused_loss", c_double),
        ("requests", c_uint64),
    ]


class StatValue(Sized):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("unit", c_char_p),
        ("help", c_char_p),
        ("type", c_char),
        ("value", c_double),
        ("count", c_uint64),
        ("sd", c_double),
        ("p50", c_double),
        ("p90", c_double),
        ("p99", c_double),
        ("max", c_double),
    ]


class Bad(Sized):
    _fields_ = [("size", c_size_t), ("id", c_uint64), ("code", c_int), ("why", c_char * 260)]


class About(Sized):
    """What a loader is, and how far."""

    _fields_ = [
        ("size", c_size_t),
        ("samples", c_uint64),
        ("payload", c_uint64),
        ("shape", Shape),
        ("classes", c_uint32),
        ("epoch", c_uint64),
        ("batches", c_uint64),
        ("listens", c_bool),
        ("relies", c_bool),
        ("together", c_bool),
        ("compares", c_bool),
        ("audit", c_int64),
        ("recorded", c_uint64),
        ("refused", c_uint64),
    ]


class Item(Sized):
    _fields_ = [
        ("size", c_size_t),
        ("buf", c_void_p),
        ("data", c_void_p),
        ("bytes", c_size_t),
        ("shape", Shape),
        ("layout", c_int),
        ("label", c_int64),
    ]


ITEM_BUF: int = Item.buf.offset  # type: ignore[attr-defined]
EVALUATE_FN = CFUNCTYPE(c_int, c_void_p, POINTER(BatchStruct), POINTER(c_float))

# name, answer, arguments; an answer of `int` is a code that check() turns into an exception
_PROTOTYPES = [
    ("larder_version", c_char_p, []),
    ("larder_features", c_char_p, []),
    ("larder_errmsg", c_char_p, []),
    ("larder_free", None, [c_void_p]),
    ("larder_buf_unref", None, [POINTER(c_void_p)]),
    ("larder_loader_open", c_int, [POINTER(c_void_p), POINTER(Conf)]),
    ("larder_loader_close", None, [POINTER(c_void_p)]),
    ("larder_loader_next", c_int, [c_void_p, POINTER(BatchPointer)]),
    ("larder_loader_peek", c_int, [c_void_p, POINTER(BatchPointer)]),
    ("larder_loader_done", c_int, [c_void_p, BatchPointer]),
    ("larder_loader_to_device", c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    ("larder_loader_hold", c_int, [c_void_p, POINTER(BatchStruct), POINTER(c_void_p)]),
    ("larder_batch_release", None, [POINTER(c_void_p)]),
    ("larder_loader_report", c_int, [c_void_p, POINTER(BatchStruct), POINTER(Feedback)]),
    ("larder_loader_validate", c_int, [c_void_p, c_double]),
    ("larder_loader_begin", c_int, [c_void_p, c_uint64]),
    ("larder_loader_gather", c_int, [c_void_p, c_void_p, c_size_t, c_void_p, POINTER(c_void_p)]),
    ("larder_loader_get", c_int, [c_void_p, c_void_p, c_size_t, c_void_p, c_void_p, c_void_p]),
    ("larder_loader_item", c_int, [c_void_p, c_uint64, c_int, POINTER(Item)]),
    ("larder_loader_evaluator", c_int, [c_void_p, EVALUATE_FN, c_void_p]),
    ("larder_loader_save", c_int, [c_void_p, c_int, POINTER(c_void_p), POINTER(c_size_t)]),
    ("larder_loader_restore", c_int, [c_void_p, c_int, c_void_p, c_size_t]),
    ("larder_loader_about", c_int, [c_void_p, POINTER(About)]),
    ("larder_loader_says", c_int, [c_void_p, c_int, c_uint64, c_char_p, c_size_t]),
    ("larder_loader_figures", c_int, [c_void_p, c_uint64, POINTER(Figures)]),
    ("larder_loader_bad", c_int, [c_void_p, c_size_t, POINTER(Bad)]),
    ("larder_loader_cancel", None, [c_void_p]),
    ("larder_load_plugin", c_int, [c_char_p]),
    ("larder_loader_stat", c_int, [c_void_p, c_size_t, POINTER(StatValue)]),
]

_lib: Optional[ctypes.CDLL] = None
_lock = threading.Lock()


def candidates() -> List[Path]:
    """Where the library is looked for, the best place first."""
    found = []
    if os.environ.get("LARDER_LIBRARY"):
        return [Path(os.environ["LARDER_LIBRARY"])]
    found += sorted(HERE.glob("liblarder.so*"))
    tree = HERE.parent.parent
    if (tree / "include" / "larder" / "larder.h").exists():
        build = os.environ.get("LARDER_BUILD")
        found += [Path(build) / "liblarder.so"] if build else []
        found += [tree / "build" / "liblarder.so", tree / "build" / "core" / "liblarder.so"]
    return found


def path() -> str:
    """The file of the library that is, or would be, loaded."""
    for p in candidates():
        if p.exists():
            return str(p)
    system = ctypes.util.find_library("larder")
    if system and not os.environ.get("LARDER_LIBRARY"):
        return system
    tried = ", ".join(str(p) for p in candidates()) or "the system's libraries"
    raise ImportError(
        f"liblarder.so was not found (looked at {tried}); build it with `make`, or install the "
        "package with `pip install .`, or name the file in LARDER_LIBRARY"
    )


def beside(library: str) -> List[Path]:
    """The program of a build. The system's library is a mere name, beside which is whatever lies in this folder."""
    return [Path(library).parent / "larder"] if os.sep in library else []


def program() -> str:
    """The command line program ``larder``, which is also the daemon."""
    import shutil

    given = os.environ.get("LARDER")
    for p in [Path(given)] if given else [HERE / "bin" / "larder", *beside(path())]:
        if p.exists():
            return str(p)
    found = shutil.which("larder")
    if found:
        return found
    raise ImportError("the program `larder` was not found; name it in LARDER")


def declare(lib: ctypes.CDLL, prototypes: List[Any]) -> None:
    """Answers and arguments of functions; ImportError for a library that does not have them."""
    for name, answer, arguments in prototypes:
        fn = getattr(lib, name, None)
        if fn is None:
            version = lib.larder_version().decode() if hasattr(lib, "larder_version") else "of no version"
            raise ImportError(
                f"{path()} is larder {version} and has no {name}: this package is larder {VERSION}, take the library "
                "that comes with it"
            )
        fn.restype = answer
        fn.argtypes = arguments


def load() -> ctypes.CDLL:
    """The library, loaded once a process. Safe after fork: it keeps nothing of its own."""
    global _lib
    if _lib is not None:
        return _lib
    with _lock:
        if _lib is None:
            lib = ctypes.CDLL(path())
            declare(lib, _PROTOTYPES)
            _lib = lib
    return _lib


def errmsg() -> str:
    """What the last failed call of this thread said."""
    return load().larder_errmsg().decode("utf-8", "replace")


def error(code: int, text: Optional[str] = None) -> Error:
    """The exception for a negative code, with the library's sentence."""
    return BY_CODE.get(code, Error)(text if text is not None else errmsg())


def check(code: int) -> int:
    """Passes an answer through, or raises the exception that a negative one stands for."""
    if code < 0:
        raise error(code)
    return code


Handle = Union[int, "Owned"]  # of a loader


def about(handle: Handle) -> About:
    """What a loader is, and how far."""
    out = About()
    check(load().larder_loader_about(handle, byref(out)))
    return out


def says(handle: Handle, what: int, i: int) -> Optional[bytes]:
    """A name or a sentence of a loader; None: there are not so many."""
    out = ctypes.create_string_buffer(1024)
    rc = load().larder_loader_says(handle, what, i, out, len(out))
    if rc == RangeError.code:
        return None
    check(rc)
    return out.value


def notes(handle: Handle, begin: int = 0) -> List[str]:
    """The sentences that are no errors of a loader, from the given one on."""
    out: List[str] = []
    while (said := says(handle, SAYS_NOTE, begin + len(out))) is not None:
        out.append(said.decode("utf-8", "replace"))
    return out


def classes(handle: Handle) -> List[str]:
    """Names of the classes, by label; numbers where the data set has no names."""
    names = (says(handle, SAYS_CLASS, i) for i in range(about(handle).classes))
    return [os.fsdecode(name) if name else str(i) for i, name in enumerate(names)]


def warn(sentences: List[str], stacklevel: int) -> None:
    """Each as a warning, at a line of the caller's caller's …"""
    for says in sentences:
        warnings.warn(f"larder: {says}", LarderWarning, stacklevel=stacklevel + 1)


def text(value: object) -> Optional[bytes]:
    """A Python text as C takes it; None stays None."""
    if value is None:
        return None
    out = os.fsencode(str(value))
    if b"\0" in out:  # C would take what stands before it
        raise ArgumentError(f"{str(value)!r} has a NUL in it")
    return out


class Owned:
    """Something of the library's that is closed when Python lets go of it, by C alone: a Ctrl-C that falls into Python
    code of a finalizer is printed and lost, and what is left of the finalizer with it. Python finds ``__del__`` of an
    object in its class, where it is a slot here, so what is called is the object's own."""

    __slots__ = ("handle", "__del__", "__weakref__")

    def __init__(self, handle: c_void_p, close: Any) -> None:
        self.handle = handle
        self.at_end(close, byref(handle))

    @property
    def _as_parameter_(self) -> c_void_p:
        """What ctypes passes to C for this, which the call itself then keeps."""
        return self.handle

    def __reduce_ex__(self, protocol: Any) -> Any:
        """copy and pickle ask for it: of two that have one handle, the first to go would close it under the other."""
        raise TypeError(
            f"{type(self).__module__}.{type(self).__name__} has memory of larder's library, which is not copied and "
            "stays in its process: copy or pickle the batch, arrays or model over it"
        )

    def at_end(self, call: Any, *arguments: Any) -> None:
        """What is called instead. It must not know this object, which would never end then."""
        self.__del__ = functools.partial(call, *arguments)


@functools.lru_cache(maxsize=64)
def _bytes(size: int):
    """So many bytes, as a type. ctypes forgets one as soon as nothing of it is left, and making it again
    takes longer than everything else that is done for a batch."""
    return c_ubyte * size


def memory(address: int, size: int):
    """Bytes at an address, as something with the buffer protocol; owns nothing."""
    return _bytes(size).from_address(address)
