"""Batches on their way to a device: the next one is copied while training looks at the one at hand."""

from __future__ import annotations

import contextlib
import ctypes
import warnings
from typing import Any, Optional

from . import _fields, _lib, _torch
from ._batch import Batch, Hold, channels_first, release_later, sweep, x_array, x_shape


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
    """Copies to one device (None: batches stay where they are), on a stream of its own. x of pictures is made on the
    device, of levels that the library copies there or decodes there.

    static  x, y and weight of all batches lie in the same memory, for CUDA graphs: they are written in the order of
            the stream that training is on
    last    x is n x h x w x c in memory, and seen as n x c x h x w"""

    def __init__(self, device: Any, pins: Any, static: bool = False, last: bool = False) -> None:
        self.device, self.pinned, self.static, self.last = device, bool(pins), static, last
        self._same: Any = None  # static: x, y, weight
        self._copied: Any = None  # number, x on the device, event, of the batch that comes next
        self._side: Any = None

    def context(self) -> Any:
        """In which the library may lock memory: with the device chosen."""
        if self.device is not None and self.device.type == "cuda":
            return _torch.module().cuda.device(self.device)
        return contextlib.nullcontext()

    def make(self, handle: int, batch: int, s: _lib.BatchStruct, stream: Any, to: Any = None) -> Any:
        """x of a batch whose pixels are for the device, at address `batch`, in the order of a stream."""
        torch = _torch.module()
        with torch.cuda.stream(stream):
            if to is None:
                name = next(n for n, v in _lib.DTYPES.items() if v == s.dtype)
                to = torch.empty(x_shape(s), dtype=getattr(torch, name), device=self.device)
        _lib.check(_lib.load().larder_loader_to_device(handle, batch, to.data_ptr(), stream.cuda_stream))
        return to

    def seen(self, x: Any) -> Any:
        return channels_first(x) if self.last else x

    def _carry_made(self, b: Batch, hold: Hold, handle: int) -> None:
        torch = _torch.module()
        device, s = self.device, b._lies[1]
        side = self._stream()
        if self._copied is not None and self._copied[0] == b.number:
            x = self._copied[1]
            self._copied = None
        else:
            x = self.make(handle, hold.handle.value or 0, s, side)
        with torch.cuda.stream(side):
            y, weight = b.y.to(device, non_blocking=True), b.weight.to(device, non_blocking=True)
            event = torch.cuda.Event()
            event.record()
        now = torch.cuda.current_stream(device)
        now.wait_event(event)
        for t in (x, y, weight):
            t.record_stream(now)
        self._keep(b, self.seen(x), y, weight)
        if hold.pinned:
            release_later(hold, event)
        else:
            event.synchronize()

    def _carry_same(self, b: Batch, hold: Hold, handle: int) -> None:
        """Into the memory that all batches have in common, once training's stream has come that far."""
        torch = _torch.module()
        s, now = b._lies[1], torch.cuda.current_stream(self.device)
        made = not s.x
        if self._same is None or len(self._same[1]) < s.n:
            x = self.make(handle, hold.handle.value or 0, s, now) if made else b.x.to(self.device)
            self._same = (x, b.y.to(self.device), b.weight.to(self.device))
        else:
            if made:
                self.make(handle, hold.handle.value or 0, s, now, self._same[0])
            else:
                self._same[0][: s.n].copy_(b.x, non_blocking=True)
            self._same[1][: s.n].copy_(b.y, non_blocking=True)
            self._same[2][: s.n].copy_(b.weight, non_blocking=True)
        event = torch.cuda.Event()
        event.record(now)
        x, y, weight = (t[: s.n] for t in self._same)
        self._keep(b, self.seen(x) if made else x, y, weight)
        if hold.pinned:
            release_later(hold, event)
        else:
            event.synchronize()

    @staticmethod
    def _keep(b: Batch, x: Any, y: Any, weight: Any) -> None:
        """What else the batch says is small: copies of it, so that the memory is free when the device has it."""
        for name in ("ids", "served", "kind"):
            setattr(b, name, getattr(b, name).clone())
        b.served_host, b.labels_host = b.served_host.copy(), b.labels_host.copy()
        b.x, b.y, b.weight, b._lies = x, y, weight, None

    def _stream(self) -> Any:
        if self._side is None:
            self._side = _torch.module().cuda.Stream(self.device)
        return self._side

    def carry(self, b: Batch, hold: Hold, handle: int) -> None:
        """The tensors of a batch become the device's; training's stream waits for them, nobody else."""
        torch = _torch.module()
        device = self.device
        if b.data is None and b._lies is not None and not b._lies[1].x and not b._lies[1].column_count:
            (self._carry_same if self.static else self._carry_made)(b, hold, handle)
            return
        if b.data is not None:
            self._carry_data(b, hold)
            return
        if b._lies is not None and b._lies[1].column_count or not _torch.is_tensor(b.x):
            self._carry_fields(b, hold)
            return
        if device.type != "cuda":
            b.x, b.y, b.weight = b.x.to(device), b.y.to(device), b.weight.to(device)
            return
        if self.static:
            self._carry_same(b, hold, handle)
            return
        if self._copied is not None and self._copied[0] == b.number:
            x, event = self.seen(self._copied[1]), self._copied[2]
            self._copied = None
        else:
            x, event = self._copy(b.x)
        with torch.cuda.stream(self._side):
            y = b.y.to(device, non_blocking=True)
            weight = b.weight.to(device, non_blocking=True)
            event = torch.cuda.Event()
            event.record()
        now = torch.cuda.current_stream(device)
        now.wait_event(event)
        for t in (x, y, weight):
            t.record_stream(now)
        self._keep(b, x, y, weight)
        if hold.pinned:
            release_later(hold, event)
        else:
            event.synchronize()

    def _carry_data(self, b: Batch, hold: Hold) -> None:
        """The same of samples of one's own, which have tensors anywhere."""
        from ._structure import each_tensor, given

        torch = _torch.module()
        cuda, bare = self.device.type == "cuda", b.x is b.data
        if cuda:
            self._stream()
        with torch.cuda.stream(self._side) if cuda else contextlib.nullcontext():
            moved = each_tensor(b.data, lambda t: t.to(self.device, non_blocking=True))
            y = b.y.to(self.device, non_blocking=True) if _torch.is_tensor(b.y) else b.y
            weight = b.weight.to(self.device, non_blocking=True)
        for name in ("ids", "served", "kind"):
            setattr(b, name, getattr(b, name).clone())
        b.served_host, b.labels_host = b.served_host.copy(), b.labels_host.copy()
        b.y, b.weight, b._lies = y, weight, None
        given(b, moved, bare)
        if not cuda:
            return
        event = torch.cuda.Event()
        event.record(self._side)
        now = torch.cuda.current_stream(self.device)
        now.wait_event(event)
        each_tensor([moved, y, weight], lambda t: t.record_stream(now))
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
        with torch.cuda.stream(self._stream()):
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
        if s.column_count or self.static:
            return
        if not s.x:
            x = self.make(handle, ctypes.addressof(s), s, self._stream())
            event = _torch.module().cuda.Event()
            event.record(self._side)
            self._copied = (s.number, x, event)
            return
        x = _torch.module().from_numpy(x_array(None, s))
        self._copied = (s.number,) + self._copy(x)

    def forget(self) -> None:
        """What was copied ahead is not wanted."""
        if self._copied is not None:
            self._copied[2].synchronize()
            self._copied = None
