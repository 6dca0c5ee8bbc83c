"""What a loader shows of itself: its figures and its data set."""

from __future__ import annotations

import ctypes
import os
from typing import Any, Dict, List, Optional

from . import _lib
from .arguments import whole
from .opened import Opened


class Shown(Opened):
    """The part of a Loader that only looks."""

    def figures(self, epoch: Optional[int] = None) -> Dict[str, Any]:
        """The ledger of an epoch (the newest that has begun, unless given): served, hits, misses,
        substitutes, repeats, storage_bytes, touched …"""
        f = _lib.Figures()
        if epoch is None:
            for epoch in range(self.epoch, -1, -1):
                rc = self._lib.larder_loader_figures(self._open(), epoch, ctypes.byref(f))
                if rc == 0:
                    break
            else:
                _lib.check(rc)
        else:
            at = whole("epoch", epoch)
            _lib.check(self._lib.larder_loader_figures(self._open(), at, ctypes.byref(f)))
        out = {name: getattr(f, name) for name, _ in _lib.Figures._fields_}
        out["form_hits"] = list(out["form_hits"])
        return out

    def stats(self) -> Dict[str, Any]:
        """Counters and times since the start: a number each, or for times a dict with count, mean,
        p50, p90, p99 and max, in seconds."""
        v = _lib.StatValue()
        out: Dict[str, Any] = {}
        i = 0
        while self._lib.larder_loader_stat(self._open(), i, ctypes.byref(v)) == 0:
            name = v.name.decode()
            if v.type == b"h":
                out[name] = {
                    "count": v.count,
                    "mean": v.value,
                    "sd": v.sd,
                    "p50": v.p50,
                    "p90": v.p90,
                    "p99": v.p99,
                    "max": v.max,
                }
            else:
                out[name] = v.value
            i += 1
        return out

    def bad(self) -> List[Dict[str, Any]]:
        """Samples that could not be read or decoded, with the reason."""
        out: List[Dict[str, Any]] = []
        b = _lib.Bad()
        while self._lib.larder_loader_bad(self._open(), len(out), ctypes.byref(b)) == 0:
            out.append({"id": b.id, "code": b.code, "why": b.why.decode("utf-8", "replace")})
        return out

    def notes(self) -> List[str]:
        """Sentences that are no errors, such as what holds instead of what was asked for. Each was a
        larder.LarderWarning as well."""
        return _lib.notes(self._open())

    def audit(self) -> int:
        """Proves exactly-once for the last finished epoch: 0, or how many ids came twice or never."""
        n = int(self._lib.larder_loader_audit(self._open()))
        return _lib.check(n) if n < 0 else n

    def cancel(self) -> None:
        """Wakes whoever waits for a batch, from any thread: they get CancelledError."""
        self._lib.larder_loader_cancel(self._open())

    @property
    def samples(self) -> int:
        """Of the whole data set."""
        return int(self._lib.larder_loader_samples(self._open()))

    @property
    def classes(self) -> List[str]:
        """Names of the classes, by label; numbers where the data set has no names."""
        n = int(self._lib.larder_loader_classes(self._open()))
        names = (self._lib.larder_loader_class_name(self._handle, i) for i in range(n))
        return [str(i) if c is None else os.fsdecode(c) for i, c in enumerate(names)]

    @property
    def sample_shape(self) -> Any:
        """Of one sample of x, as larder's stages give it."""
        s = self._lib.larder_loader_shape(self._open())
        return (s.h, s.w, s.c)
