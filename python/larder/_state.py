"""What a saved state is made of: numbers, texts, lists, dicts and tensors of bytes, so that it passes through
``torch.save`` and ``torch.load(weights_only=True)``, which refuses NumPy arrays. Without PyTorch: bytes."""

from __future__ import annotations

from typing import Any, Dict

from . import _torch


def wrap(raw: bytes, tensors: bool) -> Any:
    """Bytes as a tensor, where tensors are wanted."""
    if not tensors:
        return raw
    torch = _torch.module()
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8) if raw else torch.empty(0, dtype=torch.uint8)


def unwrap(value: Any) -> bytes:
    if _torch.is_tensor(value):
        return value.cpu().contiguous().numpy().tobytes()
    return bytes(value)


def pack(array: Any, tensors: bool) -> Dict[str, Any]:
    """A NumPy array of any type."""
    return {
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        "bytes": wrap(array.tobytes(), tensors),
    }


def unpack(packed: Any) -> Any:
    import numpy

    if not isinstance(packed, dict):
        return numpy.asarray(packed)
    raw = numpy.frombuffer(bytearray(unwrap(packed["bytes"])), packed["dtype"])
    return raw.reshape([int(n) for n in packed["shape"]])
