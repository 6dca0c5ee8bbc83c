"""Samples as bytes, and back: the parcel of src/base/parcel.h, written and read in Python.

What a sample is made of (tensors, NumPy arrays, numbers, text, bytes, None, and dicts, lists, tuples of them) becomes
fields. A field's name is the way to it: ``(0`` an element of a tuple, ``[1`` of a list, ``{key`` of a dict (``{#3``: a
number as key), ``(x`` of a namedtuple; so ``(1{boxes``. A value by itself has the name "". Other objects are pickled,
which only ``loads(…, pickles=True)`` takes back: for bytes that nobody but this process and its workers ever had."""

from __future__ import annotations

import ctypes
import re
import struct
import sys
from collections import namedtuple
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from . import _torch
from ._errors import FormatError

NONE, BYTES, TEXT, ARRAY, BOOL, PICKLE, TENSOR, EMPTY = range(8)
DTYPES = ("float32", "uint8", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint16", "float64", "bool",
          "uint32", "uint64", "complex64")
ITEM = (4, 1, 2, 2, 8, 4, 2, 1, 2, 8, 1, 4, 8, 8)
_NUMBER = {name: i for i, name in enumerate(DTYPES)}
_I64, _F64, _U8, _C64 = (_NUMBER[name] for name in ("int64", "float64", "uint8", "complex64"))
_HEAD, _FIELD = struct.Struct("<4sBBHII"), struct.Struct("<BBBBIQQ")
_MOST_FIELDS, _MOST_NAME, _MOST_DIMS, _KEPT = 4096, 255, 8, 512
_i64, _f64 = struct.Struct("<q").pack, struct.Struct("<d").pack

Leaf = Tuple[int, int, Any]  # where it goes, how many bytes, and they: bytes, or an address


class Packed(NamedTuple):
    """A sample, about to be laid down."""

    head: bytes
    leaves: Sequence[Leaf]
    size: int
    kept: Any  # what owns the memory that addresses point to


# ---- writing ------------------------------------------------------------------------------------


def _escaped(key: str) -> str:
    return re.sub(r"([(\[{#\\])", r"\\\1", key)


class _Walk:
    """One way through a sample: what its fields are (`sig`) and what is in them (`data`)."""

    __slots__ = ("sig", "data", "kept")

    def __init__(self) -> None:
        self.sig: List[Any] = []
        self.data: List[Any] = []
        self.kept: List[Any] = []

    def leaf(self, name: str, kind: int, dtype: int, shape: Any, data: Any) -> None:
        self.sig.append((name, kind, dtype, shape, len(data)))
        self.data.append(data)

    def value(self, v: Any, name: str) -> None:
        known = _BY_TYPE.get(type(v))
        if known is not None:
            known(self, v, name)
        elif _torch.is_tensor(v):
            self.tensor(v, name)
        else:
            self.other(v, name)

    def tensor(self, t: Any, name: str) -> None:
        dtype = _tensor_dtype(t.dtype)
        if dtype is None or t.dim() > _MOST_DIMS or t.layout is not sys.modules["torch"].strided:
            return self.pickled(t, name)
        if t.device.type != "cpu" or not t.is_contiguous() or t.is_conj():
            t = t.detach().cpu().resolve_conj().contiguous()
        self.kept.append(t)
        shape = tuple(t.shape)
        size = t.numel() * ITEM[dtype]
        self.sig.append((name, TENSOR, dtype, shape, size))
        self.data.append(t.data_ptr())

    def array(self, a: Any, name: str) -> None:
        import numpy

        dtype = _NUMBER.get(a.dtype.name)
        if dtype is None or a.ndim > _MOST_DIMS or not a.dtype.isnative or type(a) is not numpy.ndarray:
            return self.pickled(a, name)
        _BY_TYPE.setdefault(numpy.ndarray, _Walk.array)
        a = numpy.ascontiguousarray(a).reshape(a.shape)  # which makes one dimension of none
        self.kept.append(a)
        self.sig.append((name, ARRAY, dtype, a.shape, a.nbytes))
        self.data.append(a.ctypes.data)

    def other(self, v: Any, name: str) -> None:
        """Not one of the usual types: NumPy's numbers, named tuples; and all that is left."""
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(v, numpy.generic):
            dtype = _NUMBER.get(v.dtype.name)
            if dtype is None:
                return self.pickled(v, name)
            return self.leaf(name, ARRAY, dtype, (), v.tobytes())
        if numpy is not None and isinstance(v, numpy.ndarray):
            return self.array(v, name)
        fields = getattr(type(v), "_fields", None)
        if isinstance(v, tuple) and fields and all(isinstance(f, str) for f in fields) and len(fields) == len(v):
            _named.setdefault(tuple(fields), type(v))
            for f, e in zip(fields, v):
                self.value(e, f"{name}({f}")
            return None
        return self.pickled(v, name)

    def pickled(self, v: Any, name: str) -> None:
        import pickle

        self.leaf(name, PICKLE, _U8, (), pickle.dumps(v, protocol=5))

    def whole(self, v: int, name: str) -> None:
        try:
            self.leaf(name, ARRAY, _I64, (), _i64(v))
        except struct.error:
            self.pickled(v, name)

    def sequence(self, v: Any, name: str) -> None:
        mark = "(" if type(v) is tuple else "["
        if not v:
            self.leaf(name + mark, EMPTY, _U8, (), b"")
        for i, e in enumerate(v):
            self.value(e, f"{name}{mark}{i}")

    def mapping(self, v: Dict[Any, Any], name: str) -> None:
        if not v:
            self.leaf(name + "{", EMPTY, _U8, (), b"")
        if not all(type(k) is str or type(k) is int for k in v):
            return self.pickled(v, name)
        for k, e in v.items():
            self.value(e, f"{name}{{#{k}" if type(k) is int else f"{name}{{{_escaped(k)}")


_BY_TYPE: Dict[type, Any] = {
    int: _Walk.whole,
    float: lambda w, v, name: w.leaf(name, ARRAY, _F64, (), _f64(v)),
    bool: lambda w, v, name: w.leaf(name, BOOL, _U8, (), b"\1" if v else b"\0"),
    type(None): lambda w, v, name: w.leaf(name, NONE, _U8, (), b""),
    str: lambda w, v, name: w.leaf(name, TEXT, _U8, (), v.encode("utf-8", "surrogatepass")),
    bytes: lambda w, v, name: w.leaf(name, BYTES, _U8, (), v),
    bytearray: lambda w, v, name: w.leaf(name, BYTES, _U8, (), bytes(v)),
    tuple: _Walk.sequence,
    list: _Walk.sequence,
    dict: _Walk.mapping,
}
_named: Dict[Any, Any] = {}  # names of fields: the class of named tuples that had them here
_torch_dtypes: Dict[Any, int] = {}
_heads: Dict[Any, Any] = {}  # what fields there are: the head, where data go, and bytes in all


def _tensor_dtype(dtype: Any) -> Optional[int]:
    if not _torch_dtypes:
        torch = sys.modules["torch"]
        _BY_TYPE[torch.Tensor] = _Walk.tensor
        _torch_dtypes.update({getattr(torch, n): i for i, n in enumerate(DTYPES) if hasattr(torch, n)})
    return _torch_dtypes.get(dtype)


def _up(n: int) -> int:
    return -(-n // 16) * 16


def _head_of(sig: Sequence[Any]) -> Any:
    """The head of a parcel of these fields, where each goes, and all bytes."""
    if len(sig) > _MOST_FIELDS:
        raise FormatError(f"a sample of {len(sig)} values: at most {_MOST_FIELDS} make one")
    names = [name.encode("utf-8", "surrogatepass") for name, *_ in sig]
    if any(len(name) > _MOST_NAME for name in names):
        raise FormatError(f"the way to a value, {max(names, key=len)[:60]!r}…, has more than {_MOST_NAME} bytes")
    at = 16 + sum(-(-(24 + 8 * len(shape) + len(name)) // 8) * 8 for name, (_, _, _, shape, _) in zip(names, sig))
    head = bytearray(_up(at))
    _HEAD.pack_into(head, 0, b"LRDP", 1, 0, len(sig), len(head), 0)
    at, end, places = 16, len(head), []
    for name, (_, kind, dtype, shape, size) in zip(names, sig):
        end = _up(end)
        _FIELD.pack_into(head, at, kind, dtype, len(shape), len(name), 0, end, size)
        struct.pack_into(f"<{len(shape)}Q", head, at + 24, *shape)
        at += 24 + 8 * len(shape)
        head[at : at + len(name)] = name
        at = -(-(at + len(name)) // 8) * 8
        places.append((end, size))
        end += size
    return bytes(head), places, end


# ---- samples like the one before ----------------------------------------------------------------

_flat: Dict[Any, Any] = {}  # what is in a container of plain values: head, size, and where each goes
_PLAIN = {int: _i64, float: _f64}


def _flat_key(value: Any) -> Any:
    """What two samples have in common that may have one head; None: it is not that simple."""
    kind = type(value)
    if kind is tuple or kind is list:
        return (kind, *map(type, value))
    if kind is dict:
        return (kind, *value, *map(type, value.values()))
    return None


def _learn_flat(key: Any, value: Any, sig: Sequence[Any], known: Any) -> None:
    """Remembers a sample of tensors and numbers, one of each in its container."""
    torch: Any = sys.modules.get("torch")
    parts = list(value.values() if type(value) is dict else value)
    plain = torch is not None and len(parts) == len(sig) and hasattr(torch.Tensor, "is_cpu")
    specs: List[Any] = []
    for v, (_, kind, dtype, shape, _), (at, n) in zip(parts, sig, known[1]):
        if type(v) in _PLAIN and kind == ARRAY:
            specs.append((at, n, _PLAIN[type(v)], None, None))
        elif plain and type(v) is torch.Tensor and kind == TENSOR and dtype != _C64:
            specs.append((at, n, None, v.dtype, v.shape))
        else:
            plain = False
    if plain:
        if len(_flat) >= _KEPT:
            _flat.clear()
        _flat[key] = known[0], known[2], specs


def _pack_flat(value: Any, plan: Any) -> Optional[Packed]:
    """The same as pack does, where the sample is like the one that was remembered."""
    head, size, specs = plan
    leaves: List[Leaf] = []
    for v, (at, n, number, dtype, shape) in zip(value.values() if type(value) is dict else value, specs):
        if number is not None:
            try:
                leaves.append((at, n, number(v)))
            except struct.error:
                return None
        elif v.dtype is dtype and v.shape == shape and v.is_cpu and not v.is_sparse and v.is_contiguous():
            leaves.append((at, n, v.data_ptr()))
        else:
            return None
    return Packed(head, leaves, size, value)


def pack(value: Any) -> Packed:
    """A sample, looked at; nothing of it is copied yet."""
    flat = _flat_key(value)
    plan = _flat.get(flat)
    packed = _pack_flat(value, plan) if plan is not None else None
    if packed is not None:
        return packed
    walk = _Walk()
    walk.value(value, "")
    key = tuple(walk.sig)
    known = _heads.get(key)
    if known is None:
        known = _head_of(key)
        if len(_heads) >= _KEPT:  # text of any length: its heads are all different
            _heads.clear()
        _heads[key] = known
    if flat is not None:
        _learn_flat(flat, value, key, known)
    head, places, size = known
    return Packed(head, [(at, n, d) for (at, n), d in zip(places, walk.data)], size, walk.kept)


def lay(packed: Packed, address: int) -> None:
    """The parcel, at an address of `size` bytes."""
    ctypes.memmove(address, packed.head, len(packed.head))
    for at, n, data in packed.leaves:
        if n:
            ctypes.memmove(address + at, data, n)


def dumps(value: Any) -> bytes:
    """The parcel of a sample."""
    packed = pack(value)
    out = ctypes.create_string_buffer(packed.size)
    lay(packed, ctypes.addressof(out))
    return out.raw


# ---- names, as a tree ---------------------------------------------------------------------------

_STEP = re.compile(r"([(\[{])((?:[^(\[{\\]|\\.)*)", re.S)


def steps(name: str) -> List[Tuple[str, str]]:
    """``(1{boxes`` -> [("(", "1"), ("{", "boxes")]."""
    out, at = [], 0
    while at < len(name):
        m = _STEP.match(name, at)
        if m is None:
            raise FormatError(f"{name[:60]!r} is not the way to a value")
        out.append((m.group(1), m.group(2)))
        at = m.end()
    return out


def _key(text: str) -> Any:
    if text.startswith("#"):
        try:
            return int(text[1:])
        except ValueError:
            raise FormatError(f"{text[:40]!r} is no number, as a key was to be") from None
    return re.sub(r"\\(.)", r"\1", text, flags=re.S)


class Tree(NamedTuple):
    """A container: its mark, the keys in it, and what is under each: a Tree, or the number of a value."""

    mark: str
    keys: Tuple[Any, ...]
    under: Tuple[Any, ...]


def tree(names: Sequence[str], kinds: Sequence[int]) -> Any:
    """Containers as the names of values say; a bare number where there is one value by itself. Fields of a source of
    larder's have names that are no ways ("jpg"): they are a dict."""
    if names and names[0] and names[0][0] not in "([{":
        return Tree("{", tuple(names), tuple(range(len(names))))
    return _tree([(steps(n), i) for i, n in enumerate(names)], 0, kinds)


def _tree(ways: List[Any], depth: int, kinds: Sequence[int]) -> Any:
    first, index = ways[0]
    if len(first) == depth:
        if len(ways) > 1:
            raise FormatError("two values of a sample have one place")
        return index
    mark, key = first[depth]
    if kinds[index] == EMPTY and len(first) == depth + 1 and key == "" and len(ways) == 1:
        return Tree(mark, (), ())
    groups: Dict[str, List[Any]] = {}
    for way in ways:
        if len(way[0]) <= depth or way[0][depth][0] != mark:
            raise FormatError("a value of a sample is a container and is not")
        groups.setdefault(way[0][depth][1], []).append(way)
    if mark != "{" and all(k.isdigit() for k in groups):
        if [int(k) for k in groups] != list(range(len(groups))):
            raise FormatError("a value is missing among those of a sample")
    under = tuple(_tree(g, depth + 1, kinds) for g in groups.values())
    return Tree(mark, tuple(_key(k) for k in groups) if mark == "{" else tuple(groups), under)


def build(shape: Any, values: Sequence[Any], joined: bool = False) -> Any:
    """The containers of a Tree around values. `joined`: as default_collate has them, with lists for tuples."""
    if not isinstance(shape, Tree):
        return values[shape]
    under = [build(u, values, joined) for u in shape.under]
    if shape.mark == "{":
        return dict(zip(shape.keys, under))
    if shape.mark == "(" and shape.keys and not shape.keys[0].isdigit():
        made = _named.get(shape.keys)
        if made is None:
            try:
                made = _named[shape.keys] = namedtuple("Sample", shape.keys)
            except ValueError as e:
                raise FormatError(f"no names for a named tuple: {e}") from None
        return made(*under)
    return under if shape.mark == "[" or joined else tuple(under)


# ---- reading ------------------------------------------------------------------------------------

_plans: Dict[bytes, Any] = {}  # a head: its fields, and the tree of them


def _parse(view: memoryview) -> Any:
    """Fields (kind, dtype, shape, offset, bytes) of a parcel and their tree; everything is checked."""
    if len(view) < 16:
        raise FormatError(f"a parcel of {len(view)} bytes")
    magic, version, zero, n, head, zeros = _HEAD.unpack_from(view)
    if magic != b"LRDP" or version != 1 or zero or zeros or head % 16 or not 16 <= head <= len(view):
        raise FormatError("not a parcel of larder's, or of another version")
    if n == 0 or n > _MOST_FIELDS:
        raise FormatError(f"a parcel of {n} fields")
    raw = bytes(view[:head])
    plan = _plans.get(raw)
    if plan is None:
        plan = _parse_head(raw, n)
        if len(_plans) >= _KEPT:
            _plans.clear()
        _plans[raw] = plan
    if plan[2] > len(view):
        raise FormatError(f"a parcel of {len(view)} bytes, of {plan[2]}")
    return plan


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as e:
        raise FormatError(f"text of a parcel is no UTF-8: {e}") from None


def _parse_head(raw: bytes, n: int) -> Any:
    at, fields, names, end = 16, [], [], len(raw)
    for _ in range(n):
        if at + 24 > len(raw):
            raise FormatError("the head of a parcel is cut off")
        kind, dtype, ndim, named, zero, offset, size = _FIELD.unpack_from(raw, at)
        at += 24
        if at + 8 * ndim + named > len(raw) or ndim > _MOST_DIMS or kind > EMPTY or dtype >= len(DTYPES) or zero:
            raise FormatError("a field of a parcel makes no sense")
        shape = struct.unpack_from(f"<{ndim}Q", raw, at)
        at += 8 * ndim
        name = _text(raw[at : at + named])
        at = -(-(at + named) // 8) * 8
        count = 1
        for extent in shape:
            count *= extent
        wants = {ARRAY: count * ITEM[dtype], TENSOR: count * ITEM[dtype], BOOL: 1, NONE: 0, EMPTY: 0}.get(kind, size)
        if offset % 16 or offset < len(raw) or size != wants:
            raise FormatError(f"field {name[:40]!r} of a parcel does not lie where it can")
        fields.append((kind, dtype, shape, offset, size))
        names.append(name)
        end = max(end, offset + size)
    return fields, tree(names, [f[0] for f in fields]), end


def _numpy_dtype(dtype: int) -> str:
    return "uint16" if DTYPES[dtype] == "bfloat16" else DTYPES[dtype]


def array(view: Any, dtype: int, shape: Any, offset: int = 0) -> Any:
    """A NumPy array over a buffer; bfloat16 as uint16."""
    import numpy

    return numpy.ndarray(shape, _numpy_dtype(dtype), view, offset)


def tensor(view: Any, dtype: int, shape: Any, offset: int = 0) -> Any:
    """A tensor over a buffer that can be written to."""
    torch = _torch.module()
    a = array(view, dtype, shape, offset)
    if DTYPES[dtype] in ("uint16", "uint32", "uint64") and not hasattr(torch, DTYPES[dtype]):
        a = a.astype("int64")  # types this PyTorch does not have
    elif DTYPES[dtype] == "bfloat16":
        return torch.from_numpy(a.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(a)


def _unpickled(raw: bytes, pickles: bool) -> Any:
    if not pickles:
        raise FormatError("a pickled object, where bytes may be anybody's: it is not taken")
    import pickle

    return pickle.loads(raw)


def leaf(view: Any, field: Any, pickles: bool) -> Any:
    """What one field holds. Arrays lie in `view`, the others are copies."""
    kind, dtype, shape, offset, size = field
    if kind == TENSOR:
        return tensor(view, dtype, shape, offset)
    if kind == ARRAY and shape:
        return array(view, dtype, shape, offset)
    if kind == ARRAY:
        number = array(view, dtype, (), offset)
        return number.item() if dtype in (_I64, _F64) else number[()]
    raw = bytes(view[offset : offset + size])
    if kind == TEXT:
        return _text(raw)
    if kind == PICKLE:
        return _unpickled(raw, pickles)
    return raw if kind == BYTES else None if kind in (NONE, EMPTY) else raw != b"\0"


def loads(data: Any, pickles: bool = False) -> Any:
    """The sample of a parcel. Its arrays and tensors lie in `data`, which they keep; give a bytearray of it where
    they may be written to."""
    view = memoryview(data)
    fields, shape, _ = _parse(view)
    return build(shape, [leaf(view, f, pickles) for f in fields])
