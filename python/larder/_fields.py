"""Fields of samples: what of them is wanted, and what a batch has of them."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import _lib, _torch
from ._errors import ArgumentError

# larder_dtype, by number; bfloat16 has no type of NumPy's own
NUMPY = ("float32", "uint8", "float16", "uint16", "int64", "int32", "int16", "int8", "uint16", "float64", "bool",
         "uint32", "uint64", "complex64")
BFLOAT16 = 3
_TEXT = ("text",)
_BYTES = ("bytes", "pickle", "none", "empty")


def fields_text(fields: Any) -> Optional[str]:
    """``["jpg", "json.label"]`` or ``"jpg,json.label"``; a dict gives names: ``{"mask": "seg.png:mask"}``."""
    if fields is None:
        return None
    if isinstance(fields, str):
        text = fields
    elif isinstance(fields, dict):
        text = ",".join(f"{name}={field}" for name, field in fields.items())
    elif isinstance(fields, (list, tuple)) and all(isinstance(f, str) for f in fields):
        text = ",".join(fields)
    else:
        raise ArgumentError(f'fields is a list such as ["jpg", "json.label"], not {fields!r}')
    if not text.strip():
        raise ArgumentError("fields names none: leave it out for the picture and its label")
    return text


def target_text(target: Any) -> Tuple[Optional[str], Optional[Callable]]:
    """The library's half of target=, and a function of one's own."""
    if target is None:
        return None, None
    if callable(target):
        return None, target
    if isinstance(target, os.PathLike):
        return f"csv:{os.fspath(target)}", None
    if not isinstance(target, str) or not target:
        raise ArgumentError(
            f'target is a field such as "json.label", a table such as "csv:labels.csv?key=name&value=label", or a '
            f"function of a sample's fields, not {target!r}"
        )
    return target, None


def array_at(hold: Any, address: int, dtype: int, shape: Tuple[int, ...], tensors: bool) -> Any:
    """An array over the library's memory, which it keeps through `hold`."""
    import numpy

    kind = numpy.dtype(NUMPY[dtype])
    size = kind.itemsize
    for extent in shape:
        size *= extent
    if size == 0:
        out = numpy.empty(shape, kind)
    else:
        block = _lib.memory(address, size)
        block.hold = hold
        out = numpy.ndarray(shape, kind, block)
    if not tensors:
        return out
    torch = _torch.module()
    if dtype == BFLOAT16:
        return torch.from_numpy(out.view("int16")).view(torch.bfloat16)
    if kind.name in ("uint16", "uint32", "uint64") and not hasattr(torch, kind.name):
        out = out.astype("int64")  # types this PyTorch does not have
    return torch.from_numpy(out)


def _piece(hold: Any, kind: str, p: Any, tensors: bool) -> Any:
    if kind in _TEXT or kind in _BYTES:
        raw = bytes(_lib.memory(p.data, p.bytes)) if p.bytes else b""
        return raw.decode("utf-8", "replace") if kind in _TEXT else raw
    return array_at(hold, p.data or 0, p.dtype, tuple(p.shape[: p.ndim]), tensors)


def values(hold: Any, s: Any, tensors: bool) -> Dict[str, Any]:
    """All columns of a batch, by name: an array each, or a list where rows differ."""
    out: Dict[str, Any] = {}
    for i in range(s.column_count):
        c = s.columns[i]
        kind = c.kind.decode()
        if c.pieces:
            out[os.fsdecode(c.name)] = [_piece(hold, kind, c.pieces[k], tensors) for k in range(s.n)]
        else:
            shape = (s.n,) + tuple(c.shape[: c.ndim])
            out[os.fsdecode(c.name)] = array_at(hold, c.data or 0, c.dtype, shape, tensors)
    return out


def x_and_y(s: Any) -> Tuple[Optional[str], Optional[str]]:
    """Names of the columns that are a batch's x and y where larder_batch's own are not: x without a picture is
    the first column that is not y, y what is no whole number."""
    x = y = None
    for i in range(s.column_count):
        c = s.columns[i]
        if c.use == _lib.COLUMN_Y:
            if c.ndim or c.dtype != 4 or c.pieces:
                y = os.fsdecode(c.name)
        elif x is None and not s.x:
            x = os.fsdecode(c.name)
    return x, y


def row(fields: Dict[str, Any], i: int) -> Dict[str, Any]:
    return {name: value[i] for name, value in fields.items()}


def apply(target: Callable, fields: Dict[str, Any], n: int, tensors: bool) -> Any:
    """A function of one's own gives y, sample by sample."""
    import numpy

    given: List[Any] = [target(row(fields, i)) for i in range(n)]
    if tensors:
        torch = _torch.module()
        if given and torch.is_tensor(given[0]):
            return torch.stack(given)
        y = torch.as_tensor(numpy.asarray(given))
        return y.float() if y.dtype == torch.float64 else y
    return numpy.asarray(given)


def moved(value: Any, device: Any, non_blocking: bool) -> Any:
    """Tensors of a column on a device; what is none stays, as a copy of its own."""
    if _torch.is_tensor(value):
        return value.to(device, non_blocking=non_blocking)
    if isinstance(value, list):
        return [moved(v, device, non_blocking) for v in value]
    return value.copy() if hasattr(value, "copy") else value
