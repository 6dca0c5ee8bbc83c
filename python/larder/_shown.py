"""What a loader shows of itself: its figures and its data set."""

from __future__ import annotations

import ctypes
from typing import Any, Dict, List, Optional

from . import _lib
from ._arguments import whole
from ._opened import Opened


class Shown(Opened):
    """The part of a Loader that only looks."""

    def figures(self, epoch: Optional[int] = None) -> Dict[str, Any]:
        """The ledger of an epoch (the newest that has begun, unless given): served, hits, misses,
        substitutes, repeats, storage_bytes, requests, touched …; where samples are served again, also fresh_loss,
        reused_loss and gap, what reuse memorises (NaN: not known)"""
        f = _lib.Figures()
        if epoch is None:
            for epoch in range(self.epoch, -1, -1):
                rc = self._beside(self._lib.larder_loader_figures, epoch, ctypes.byref(f))
                if rc == 0:
                    break
            else:
                _lib.check(rc)
        else:
            at = whole("epoch", epoch)
            _lib.check(self._beside(self._lib.larder_loader_figures, at, ctypes.byref(f)))
        out = {name: getattr(f, name) for name, _ in _lib.Figures._fields_[1:]}
        out["form_hits"] = list(out["form_hits"])
        out["gap"] = f.fresh_loss - f.reused_loss
        return out

    def stats(self) -> Dict[str, Any]:
        """Counters and times since the start: a number each, or for times a dict with count, mean,
        p50, p90, p99 and max, in seconds."""
        return self._beside(self._stats)

    def _stats(self, handle: int) -> Dict[str, Any]:
        v = _lib.StatValue()
        out: Dict[str, Any] = {}
        i = 0
        while self._lib.larder_loader_stat(handle, i, ctypes.byref(v)) == 0:
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
        while self._beside(self._lib.larder_loader_bad, len(out), ctypes.byref(b)) == 0:
            out.append({"id": b.id, "code": b.code, "why": b.why.decode("utf-8", "replace")})
        return out

    def notes(self) -> List[str]:
        """Sentences that are no errors, such as what holds instead of what was asked for. Each was a
        larder.LarderWarning as well."""
        return self._beside(_lib.notes)

    def audit(self) -> int:
        """Proves exactly-once for the last finished epoch: 0, or how many ids came twice or never."""
        n = int(self._beside(_lib.about).audit)
        if n < 0:
            why = self._beside(_lib.says, _lib.SAYS_AUDIT, 0) or b""
            raise _lib.error(n, why.decode("utf-8", "replace"))
        return n

    def cancel(self) -> None:
        """Wakes whoever waits for a batch, from any thread: they get CancelledError."""
        self._beside(self._lib.larder_loader_cancel)

    @property
    def classes(self) -> List[str]:
        """Names of the classes, by label; numbers where the data set has no names."""
        return self._beside(_lib.classes)

    @property
    def sample_shape(self) -> Any:
        """Of one sample of x, as larder's stages give it."""
        s = self._beside(_lib.about).shape
        return (s.h, s.w, s.c)
