"""One batch, and the memory it lies in."""

from __future__ import annotations

import ctypes
import os
from typing import Any, Dict, Iterator, Optional, Union

from . import _fields, _lib, _torch

HIT, MISS, SUBSTITUTE, REPLACED = range(4)  # values of Batch.kind


class Hold(_lib.Owned):
    """A reference to the memory of a batch. Arrays made of it keep it; when the last one is gone,
    the loader has the memory back. It outlives the loader."""

    __slots__ = ("pinned",)

    def __init__(self, pinned: bool) -> None:
        # C writes the handle, and takes it away: Ctrl-C loses none
        super().__init__(ctypes.c_void_p(), _lib.load().larder_batch_release)
        self.pinned = pinned
        if pinned:  # only Python knows what the device still has to read
            self.at_end(_let_go, self.handle)


_later: list = []  # (event, handle, pid): pinned memory that a copy to a device may still read


def _after(event: Any, handle: ctypes.c_void_p) -> None:
    if event is None:
        event = _torch.module().cuda.Event()
        event.record()
    _later.append((event, handle, os.getpid()))


def _let_go(handle: ctypes.c_void_p) -> None:
    try:
        if handle.value:
            _after(None, handle)
            sweep()
    except Exception:  # the interpreter is going down: the process's end frees it
        pass


def release_later(hold: Hold, event: Any = None) -> None:
    """Gives the memory back when the device has done what was asked of it so far."""
    _after(event, hold.handle)
    hold.at_end(bool)  # then nothing is left to be done, and no Python code does it
    sweep()


def sweep(wait: bool = False) -> None:
    """Gives back whatever no copy needs any more."""
    still = []
    try:
        while _later:
            still.append(_later.pop())  # until it is known to be over: an event may raise
            event, handle, pid = still[-1]
            if pid == os.getpid():
                if wait:
                    event.synchronize()
                elif not event.query():
                    continue
                _lib.load().larder_batch_release(ctypes.byref(handle))
            still.pop()
    finally:
        _later.extend(still)


def _array(hold: Optional[Hold], address: int, dtype: Any, shape: Any) -> Any:
    import numpy

    size = dtype.itemsize
    for extent in shape:
        size *= extent
    if size == 0:
        return numpy.empty(shape, dtype)
    block = _lib.memory(address, size)
    block.hold = hold  # the array keeps the block, the block the memory
    return numpy.ndarray(shape, dtype, block)


_columns: dict = {}  # name of a field: what it is called in C, and its type


def _columns_of_a_batch() -> dict:
    if not _columns:
        import numpy

        for name, source, dtype in (
            ("served_host", "served", "uint64"),
            ("labels_host", "y", "int64"),
            ("y", "y", "int64"),
            ("ids", "ids", "int64"),  # below 2^32, so int64 says the same
            ("served", "served", "int64"),
            ("weight", "weight", "float32"),
            ("kind", "kind", "uint8"),
        ):
            _columns[name] = (source, numpy.dtype(dtype), not name.endswith("_host"))
    return _columns


class Batch:
    """What training gets, and what it needs to say something about it later.

    x        samples, ``float32``, ``uint8``, ``float16`` or ``bfloat16``, NCHW or NHWC (with ``views=`` an axis more,
             after the first): a tensor (or a NumPy array) over larder's
             own memory, without a copy; with ``device=`` a tensor there
    y        labels of the served samples, int64
    ids      ids that were asked for
    served   ids that are in x: labels and feedback belong to these
    weight   1/(N p) of each draw, to correct a loss with; 1 for uniform recipes
    kind     how each came to be here: larder.HIT, MISS, SUBSTITUTE or REPLACED
    number   of the batch, over the whole run; ``epoch`` it belongs to
    mix_weight  with the stages mixup and cutmix: how much of each sample is its own; the rest is of the one before it
             (``mix_with``), the first one's of the last. ``mixed_targets(classes)`` has labels for that

    With ``fields=`` of the loader, ``batch["json.label"]`` or ``batch.mask`` is a column, and ``batch.fields`` has
    all of them by name: arrays, or lists (of text, bytes, arrays) where rows differ.

    It also passes for the pair (x, y): ``for x, y in loader`` works.

    data     of samples of one's own: what default_collate, or collate_fn, makes of them. The batch passes for it:
             ``a, b, c = batch``, ``batch["image"]``"""

    __slots__ = ("x", "y", "ids", "served", "weight", "kind", "number", "epoch", "served_host",
                 "labels_host", "owner", "fields", "data", "mix_weight", "_lies", "__weakref__")

    x: Any
    y: Any
    mix_weight: float
    ids: Any
    served: Any
    weight: Any
    kind: Any
    number: int
    epoch: int
    served_host: Any
    labels_host: Any
    owner: Any
    fields: Dict[str, Any]
    data: Any  # None: x and y are all there is
    _lies: Any  # where arrays nobody has asked for yet are: the hold, the C batch, and are they tensors

    def __getattr__(self, name: str) -> Any:
        """Asked for the first time: the array is made then. Most training looks at x and y alone, and
        what is not made does not keep a training step waiting."""
        if name == "data":
            return None
        column = _columns.get(name)
        lies = None if name == "_lies" else self._lies
        if name == "fields":
            made = _fields.values(*lies) if lies is not None else {}
            setattr(self, name, made)
            return made
        if column is None and not name.startswith("_") and name in self.fields:
            return self.fields[name]
        if column is None or lies is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        hold, s, tensors = lies
        value = _array(hold, getattr(s, column[0]), column[1], (s.n,))
        if tensors and column[2]:
            value = _torch.module().from_numpy(value)
        setattr(self, name, value)
        return value

    def __getstate__(self) -> Any:
        return {name: getattr(self, name) for name in _PARTS}

    def __setstate__(self, state: Any) -> None:
        self._lies = None
        for name, value in state.items():
            setattr(self, name, value)

    @property
    def _parts(self) -> Any:
        """What it passes for."""
        return self.data if isinstance(self.data, (list, tuple, dict)) else (self.x, self.y)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    @property
    def mix_with(self) -> Any:
        """The row that each one is mixed with."""
        import numpy

        return numpy.roll(numpy.arange(self.n), 1)

    def mixed_targets(self, classes: int) -> Any:
        """Labels as probabilities, n x classes: each sample's own class has mix_weight, its partner's the rest."""
        import numpy

        if _torch.is_tensor(self.y):
            torch = _torch.module()
            own = torch.nn.functional.one_hot(self.y, classes).float()
            return own * self.mix_weight + own.roll(1, 0) * (1 - self.mix_weight)
        own = numpy.eye(classes, dtype="float32")[self.y]
        return own * numpy.float32(self.mix_weight) + numpy.roll(own, 1, 0) * numpy.float32(1 - self.mix_weight)

    def __getitem__(self, i: Any) -> Any:
        if not isinstance(i, str) or self.data is not None:
            return self._parts[i]
        if i not in self.fields:
            there = ", ".join(self.fields) or "none: name them in fields="
            raise KeyError(f"{i!r}; the columns of this batch are {there}")
        return self.fields[i]

    def keys(self) -> Any:
        """Of samples that have fields."""
        return self.data.keys() if self.data is not None else self.fields.keys()

    @property
    def n(self) -> int:
        """Samples in it."""
        return self._lies[1].n if self._lies else len(self.served_host)

    def to(self, device: Any, non_blocking: bool = False) -> "Batch":
        """The same batch with its tensors on another device."""
        other = Batch()
        other._lies = None
        for name in ("number", "epoch", "mix_weight", "served_host", "labels_host", "owner"):
            setattr(other, name, getattr(self, name))
        for name in ("x", "y", "ids", "served", "weight", "kind"):
            value = getattr(self, name)
            if _torch.is_tensor(value):
                value = value.to(device, non_blocking=non_blocking)
            setattr(other, name, value)
        if self.data is not None:
            from ._structure import each_tensor, given

            other.fields, bare = {}, self.x is self.data
            given(other, each_tensor(self.data, lambda t: t.to(device, non_blocking=non_blocking)), bare)
            return other
        other.fields = {name: _fields.moved(value, device, non_blocking) for name, value in self.fields.items()}
        if _torch.is_tensor(self.x):
            for name, value in self.fields.items():
                if value is self.x:
                    other.fields[name] = other.x
        return other

    def pin_memory(self) -> "Batch":
        """Itself: memory is pinned where it is made (``pin=True``)."""
        return self

    def __repr__(self) -> str:
        what = f"x {tuple(self.x.shape)} {self.x.dtype}" if hasattr(self.x, "shape") else "no x"
        if self.fields:
            what = f"fields {', '.join(self.fields)}"
        return f"<larder.Batch {self.number} of epoch {self.epoch}: {self.n} samples, {what}>"


_PARTS = tuple(name for name in Batch.__slots__ if name not in ("_lies", "__weakref__"))


def named(s: _lib.BatchStruct) -> Batch:
    """Which samples a batch has, in memory of Python's, and nothing else of it."""
    _columns_of_a_batch()
    b = Batch()
    b.owner = None
    b.number, b.epoch, b.mix_weight = s.number, s.epoch, s.mix_weight
    b._lies = (None, s, False)
    b.served_host, b.labels_host = b.served_host.copy(), b.labels_host.copy()
    b._lies = None
    return b


def x_shape(s: _lib.BatchStruct) -> Any:
    shape = s.shape
    row = (shape.c, shape.h, shape.w) if s.layout == _lib.LAYOUTS["NCHW"] else (shape.h, shape.w, shape.c)
    return (s.n, s.views, *row) if s.views > 1 else (s.n, *row)


def channels_first(x: Any) -> Any:
    """n x … x h x w x c seen as n x … x c x h x w: what PyTorch calls channels last."""
    axes = tuple(range(x.ndim))
    order = axes[:-3] + (axes[-1],) + axes[-3:-1]
    return x.permute(order) if _torch.is_tensor(x) else x.transpose(order)


def x_array(hold: Optional[Hold], s: _lib.BatchStruct) -> Any:
    import numpy

    return _array(hold, s.x, numpy.dtype(_fields.NUMPY[s.dtype]), x_shape(s))


class Maker:
    """Makes batches that view the memory of a batch on hold, all of one kind: whatever is the same each
    time is worked out once, since training waits for the rest."""

    def __init__(self, s: _lib.BatchStruct, tensors: bool, last: bool = False) -> None:
        import numpy

        _columns_of_a_batch()
        self.tensors, self.last = tensors, last
        self.array = numpy.ndarray
        self.tensor = _torch.module().from_numpy if tensors else None
        self.dtype = numpy.dtype(_fields.NUMPY[s.dtype])
        if tensors and s.dtype == _fields.BFLOAT16:
            torch = _torch.module()
            self.tensor = lambda x: torch.from_numpy(x.view("int16")).view(torch.bfloat16)
        self.row = x_shape(s)[1:]
        self.row_bytes = self.dtype.itemsize
        for side in self.row:
            self.row_bytes *= side
        self.x_from, self.y_from = _fields.x_and_y(s)

    def make(self, hold: Optional[Hold], s: _lib.BatchStruct) -> Batch:
        """All arrays but x are made when somebody asks for them; without a hold that has to be before the
        memory is gone."""
        b = Batch()
        b.owner = None
        b.number, b.epoch, b.mix_weight = s.number, s.epoch, s.mix_weight
        b._lies = (hold, s, self.tensors)
        x, n = s.x, s.n
        if x and n:
            block = _lib.memory(x, n * self.row_bytes)
            block.hold = hold
            x = self.array((n,) + self.row, self.dtype, block)
            b.x = self.tensor(x) if self.tensor else x
        else:
            b.x = x_array(hold, s) if x else None
            if self.tensor and x:
                b.x = self.tensor(b.x)
        if self.last and b.x is not None:
            b.x = channels_first(b.x)
        if self.x_from is not None:
            b.x = b.fields[self.x_from]
        if self.y_from is not None:
            b.y = b.fields[self.y_from]
        return b
