"""One batch, and the memory it lies in."""

from __future__ import annotations

import ctypes
import os
from typing import Any, Iterator, Optional

from . import _lib, _torch

HIT, MISS, SUBSTITUTE, REPLACED = range(4)  # values of Batch.kind


class Hold:
    """A reference to the memory of a batch. Arrays made of it keep it; when the last one is gone,
    the loader has the memory back. It outlives the loader."""

    def __init__(self, handle: int, pinned: bool) -> None:
        self._handle: Optional[int] = handle
        self._pid = os.getpid()
        self.pinned = pinned

    def release(self) -> None:
        handle, self._handle = self._handle, None
        if handle and self._pid == os.getpid():
            _lib.load().larder_hold_unref(ctypes.byref(ctypes.c_void_p(handle)))

    def __del__(self) -> None:
        if self._handle is None:
            return
        try:
            if self.pinned:
                release_later(self)
            else:
                self.release()
        except Exception:  # the interpreter is going down: the process's end frees it
            pass


_later: list = []  # (event, handle, pid): pinned memory that a copy to a device may still read


def release_later(hold: Hold, event: Any = None) -> None:
    """Gives the memory back when the device has done what was asked of it so far."""
    torch = _torch.module()
    if event is None:
        event = torch.cuda.Event()
        event.record()
    handle, hold._handle = hold._handle, None
    if handle:
        _later.append((event, handle, hold._pid))
    sweep()


def sweep(wait: bool = False) -> None:
    """Gives back whatever no copy needs any more."""
    still = []
    while _later:
        event, handle, pid = _later.pop()
        if pid != os.getpid():
            continue
        if wait:
            event.synchronize()
        elif not event.query():
            still.append((event, handle, pid))
            continue
        _lib.load().larder_hold_unref(ctypes.byref(ctypes.c_void_p(handle)))
    _later.extend(still)


def _array(hold: Optional[Hold], address: int, count: int, dtype: str, shape: Any = None) -> Any:
    import numpy

    size = count * numpy.dtype(dtype).itemsize
    if size == 0:
        return numpy.empty(shape if shape is not None else 0, dtype)
    block = _lib.memory(address, size)
    block.hold = hold  # the array keeps the block, the block the memory
    a = numpy.frombuffer(block, dtype)
    return a if shape is None else a.reshape(shape)


class Batch:
    """What training gets, and what it needs to say something about it later.

    x        samples, ``float32`` or ``uint8``, NCHW or NHWC: a tensor (or a NumPy array) over larder's
             own memory, without a copy; with ``device=`` a tensor there
    y        labels of the served samples, int64
    ids      ids that were asked for
    served   ids that are in x: labels and feedback belong to these
    weight   1/(N p) of each draw, to correct a loss with; 1 for uniform recipes
    kind     how each came to be here: larder.HIT, MISS, SUBSTITUTE or REPLACED
    number   of the batch, over the whole run; ``epoch`` it belongs to

    It also passes for the pair (x, y): ``for x, y in loader`` works."""

    __slots__ = ("x", "y", "ids", "served", "weight", "kind", "number", "epoch", "served_host",
                 "labels_host", "owner", "__weakref__")

    x: Any
    y: Any
    ids: Any
    served: Any
    weight: Any
    kind: Any
    number: int
    epoch: int
    served_host: Any
    labels_host: Any
    owner: Any

    def __iter__(self) -> Iterator[Any]:
        yield self.x
        yield self.y

    def __len__(self) -> int:
        return 2

    def __getitem__(self, i: int) -> Any:
        return (self.x, self.y)[i]

    @property
    def n(self) -> int:
        """Samples in it."""
        return len(self.served_host)

    def to(self, device: Any, non_blocking: bool = False) -> "Batch":
        """The same batch with its tensors on another device."""
        other = Batch()
        for name in ("number", "epoch", "served_host", "labels_host", "owner"):
            setattr(other, name, getattr(self, name))
        for name in ("x", "y", "ids", "served", "weight", "kind"):
            value = getattr(self, name)
            if _torch.is_tensor(value):
                value = value.to(device, non_blocking=non_blocking)
            setattr(other, name, value)
        return other

    def pin_memory(self) -> "Batch":
        """Itself: memory is pinned where it is made (``pin=True``)."""
        return self

    def __repr__(self) -> str:
        return (
            f"<larder.Batch {self.number} of epoch {self.epoch}: {self.n} samples, x "
            f"{tuple(self.x.shape)} {self.x.dtype}>"
        )


def x_shape(s: _lib.BatchStruct) -> Any:
    if s.layout == _lib.LAYOUTS["NCHW"]:
        return (s.n, s.shape.c, s.shape.h, s.shape.w)
    return (s.n, s.shape.h, s.shape.w, s.shape.c)


def x_array(hold: Optional[Hold], s: _lib.BatchStruct) -> Any:
    count = s.n * s.shape.c * s.shape.h * s.shape.w
    dtype = "float32" if s.dtype == _lib.DTYPES["float32"] else "uint8"
    return _array(hold, s.x, count, dtype, x_shape(s))


def make(hold: Optional[Hold], s: _lib.BatchStruct, tensors: bool) -> Batch:
    """A Batch of arrays that view the memory of a batch on hold."""
    b = Batch()
    b.owner = None
    b.number, b.epoch = s.number, s.epoch
    b.x = x_array(hold, s) if s.x else None
    b.served_host = _array(hold, s.served, s.n, "uint64")
    b.labels_host = _array(hold, s.y, s.n, "int64")
    b.y = b.labels_host
    b.ids = _array(hold, s.ids, s.n, "int64")  # below 2^32, so int64 says the same
    b.served = _array(hold, s.served, s.n, "int64")
    b.weight = _array(hold, s.weight, s.n, "float32")
    b.kind = _array(hold, s.kind, s.n, "uint8")
    if tensors:
        torch = _torch.module()
        for name in ("x", "y", "ids", "served", "weight", "kind"):
            setattr(b, name, torch.from_numpy(getattr(b, name)))
    return b
