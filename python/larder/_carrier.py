"""Batches on their way to a device: the next one is copied while training looks at the one at hand."""

from __future__ import annotations

import contextlib
import ctypes
import warnings
from typing import Any, Optional

from . import _fields, _lib, _torch
from ._batch import Batch, Hold, release_later, sweep, x_array


def pin_functions(pin: Optional[bool], tensors: bool) -> Any:
    """What the library locks batch memory with, or None: it is not locked."""
    if pin is False or not tensors:
        if pin:
            raise ValueError("memory is pinned for tensors; NumPy arrays need none")
        return None
    found = _torch.host_register()
    if pin and not found:
        warnings.warn(
            "larder: pin=True, but no CUDA runtime is loaded: memory is not pinned", stacklevel=3
        )
    return found


class Carrier:
    """Copies to one device (None: batches stay where they are), on a stream of its own."""

    def __init__(self, device: Any, pins: Any) -> None:
        self.device, self.pinned = device, bool(pins)
        self._copied: Any = None  # number, x on the device, event, of the batch that comes next
        self._side: Any = None

    def context(self) -> Any:
        """In which the library may lock memory: with the device chosen."""
        if self.device is not None and self.device.type == "cuda":
            return _torch.module().cuda.device(self.device)
        return contextlib.nullcontext()

    def carry(self, b: Batch, hold: Hold) -> None:
        """The tensors of a batch become the device's; training's stream waits for them, nobody else."""
        torch = _torch.module()
        device = self.device
        if b._lies is not None and b._lies[1].column_count or not _torch.is_tensor(b.x):
            self._carry_fields(b, hold)
            return
        if device.type != "cuda":
            b.x, b.y, b.weight = b.x.to(device), b.y.to(device), b.weight.to(device)
            return
        if self._copied is not None and self._copied[0] == b.number:
            x, event = self._copied[1], self._copied[2]
            self._copied = None
        else:
            x, event = self._copy(b.x)
        with torch.cuda.stream(self._side):
            b.y = b.y.to(device, non_blocking=True)
            b.weight = b.weight.to(device, non_blocking=True)
            event = torch.cuda.Event()
            event.record()
        now = torch.cuda.current_stream(device)
        now.wait_event(event)
        for t in (x, b.y, b.weight):
            t.record_stream(now)
        # What else the batch says is small: copies of it, so that the memory is free when the
        # device has it.
        for name in ("ids", "served", "kind"):
            setattr(b, name, getattr(b, name).clone())
        b.served_host, b.labels_host = b.served_host.copy(), b.labels_host.copy()
        b.x = x
        b._lies = None
        if hold.pinned:
            release_later(hold, event)
        else:
            event.synchronize()

    def _carry_fields(self, b: Batch, hold: Hold) -> None:
        """All columns that are tensors. Text and bytes stay."""
        to, x, y = self.device, b.x, b.y
        at = {id(v): _fields.moved(v, to, False) for v in b.fields.values()}
        b.fields = {name: at[id(v)] for name, v in b.fields.items()}
        b.x = at[id(x)] if id(x) in at else _fields.moved(x, to, False)
        b.y = at[id(y)] if id(y) in at else _fields.moved(y, to, False)
        b.weight = b.weight.to(to)
        for name in ("ids", "served", "kind"):
            setattr(b, name, getattr(b, name).clone())
        b.served_host, b.labels_host = b.served_host.copy(), b.labels_host.copy()
        b._lies = None
        if hold.pinned:
            release_later(hold)

    def _copy(self, x: Any) -> Any:
        torch = _torch.module()
        if self._side is None:
            self._side = torch.cuda.Stream(self.device)
        with torch.cuda.stream(self._side):
            to = x.to(self.device, non_blocking=True)
            event = torch.cuda.Event()
            event.record()
        return to, event

    def given_back(self, handle: int, as_it_lies: bool) -> None:
        """A batch was given back: sees to pinned memory, and starts to copy the batch that comes next
        if it is ready, its memory pinned, and what goes to the device is what lies there."""
        if self.pinned:
            sweep()
        if self.device is None or not self.pinned or not as_it_lies or self._copied is not None:
            return
        coming = _lib.BatchPointer()
        if _lib.load().larder_loader_peek(handle, ctypes.byref(coming)) != 0:
            return
        s = coming.contents
        if s.column_count or not s.x:
            return
        x = _torch.module().from_numpy(x_array(None, s))
        self._copied = (s.number,) + self._copy(x)

    def forget(self) -> None:
        """What was copied ahead is not wanted."""
        if self._copied is not None:
            self._copied[2].synchronize()
            self._copied = None
