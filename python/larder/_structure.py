"""Batches of samples of one's own: columns of the library's, in the structure that the samples have."""

from __future__ import annotations

import ctypes
from typing import Any, Callable, List, Optional

from . import _lib, _parcel
from ._batch import Batch, Hold, _columns_of_a_batch

_EMPTY = _parcel.EMPTY


def _block(hold: Optional[Hold], address: int, size: int) -> Any:
    block = _lib.memory(address, size)
    block.hold = hold  # arrays keep the block, the block the memory
    return block


def _pieces(column: Any, n: int) -> List[bytes]:
    return [ctypes.string_at(p.data, p.bytes) if p.bytes else b"" for p in column.pieces[:n]]


class Structured:
    """Makes batches of one loader, as Maker does of pictures. Their structure is worked out once."""

    def __init__(self, s: _lib.BatchStruct, tensors: bool, whole: bool) -> None:
        _columns_of_a_batch()
        self.tensors, self.whole = tensors, whole
        self.make_array: Callable[..., Any] = _parcel.tensor if tensors else _parcel.array
        columns = s.columns[: s.column_count]
        names = [c.name.decode("utf-8", "surrogatepass") for c in columns]
        kinds = [_EMPTY if c.kind == b"empty" else _parcel.ARRAY for c in columns]
        self.tree = None if whole else _parcel.tree(names, kinds)

    def make(self, hold: Hold, s: _lib.BatchStruct) -> Batch:
        b = Batch()
        b.owner, b.fields = None, {}
        b.number, b.epoch, b.mix_weight = s.number, s.epoch, s.mix_weight
        b._lies = (hold, s, self.tensors)
        columns = s.columns[: s.column_count]
        if self.whole:
            given(b, self._joined(hold, columns[0].pieces[0]))
        else:
            values = [self._column(hold, c, s.n) for c in columns]
            given(b, _parcel.build(self.tree, values, joined=True), bare=not isinstance(self.tree, _parcel.Tree))
        return b

    def _joined(self, hold: Hold, piece: Any) -> Any:
        """What collate_fn gave, its arrays over the batch's memory."""
        return _parcel.loads(_block(hold, piece.data, piece.bytes), pickles=True)

    def _column(self, hold: Hold, c: Any, n: int) -> Any:
        kind = c.kind
        if kind == b"text":
            return [raw.decode("utf-8", "surrogatepass") for raw in _pieces(c, n)]
        if kind == b"bytes":
            return _pieces(c, n)
        if kind == b"pickle":
            import pickle

            return [pickle.loads(raw) for raw in _pieces(c, n)]  # of this process's own workers
        if kind == b"none":
            return [None] * n
        if not c.data:
            return None  # an empty container, which the tree has
        shape = (n, *c.shape[: c.ndim])
        size = _parcel.ITEM[c.dtype]
        for extent in shape:
            size *= extent
        if size == 0:
            return self.make_array(bytearray(16), c.dtype, shape)
        return self.make_array(_block(hold, c.data, size), c.dtype, shape)


def given(b: Batch, data: Any, bare: bool = False) -> None:
    """What a batch is made of: its x and y are the first two of it, as in a pair, unless samples are one value."""
    b.data = data
    if isinstance(data, (list, tuple)) and data and not bare:
        b.x = data[0]
        if len(data) > 1:
            b.y = data[1]
    elif isinstance(data, dict):
        b.x = data.get("x")
        if "y" in data:
            b.y = data["y"]
    else:
        b.x = data


def each_tensor(data: Any, f: Callable[[Any], Any]) -> Any:
    """The same structure with f of every tensor in it."""
    from . import _torch

    if _torch.is_tensor(data):
        return f(data)
    if isinstance(data, dict):
        return {k: each_tensor(v, f) for k, v in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(each_tensor(v, f) for v in data))
    if isinstance(data, (list, tuple)):
        return type(data)(each_tensor(v, f) for v in data)
    return data
