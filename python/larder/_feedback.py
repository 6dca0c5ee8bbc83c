"""What training says about samples, on its way to the loader.

A report may come as tensors on a device. Then it is copied to pinned memory beside the training
stream, and handed over a batch or two later, before it has to act; nobody waits for the device unless
training is that far behind. Processes of one job tell each other, so that all have the same scores."""

from __future__ import annotations

import ctypes
import threading
import warnings
from typing import Any, Dict, List, Optional, Tuple

from . import _lib, _state, _torch
from ._errors import ArgumentError, StateError
from ._batch import Batch

FIELDS = ("loss", "logits", "embeddings", "scores", "neighbours")


def shaped(name: str, value: Any, rows: int) -> Any:
    """What was reported about a batch of so many samples, a row a sample, and a sentence where it does not
    fit: nobody could tell later."""
    if _torch.is_tensor(value):
        torch = _torch.module()
        value = value.detach()
        if value.layout is not torch.strided:
            value = value.to_dense()
        half = name == "embeddings" and value.dtype in (torch.float16, torch.bfloat16)
        wanted = torch.int64 if name == "neighbours" else torch.float32
        wrong = value.is_complex()
        if not half and not wrong and value.dtype != wanted:
            value = value.to(wanted)
    else:
        import numpy

        try:  # a copy: the caller may change it before it is due
            value = numpy.array(value, "int64" if name == "neighbours" else "float32", order="C")
        except (TypeError, ValueError) as e:
            raise ArgumentError(f"{name} of a report is made of numbers: {e}") from None
        wrong = False
    shape = tuple(value.shape)
    if name in ("loss", "scores"):
        count = 1
        for extent in shape:
            count *= extent
        if wrong or count != rows or (rows > 1 and rows not in shape):
            raise ArgumentError(
                f"{name} of shape {shape} for a batch of {rows}: one value a sample is needed "
                "(reduction='none')"
            )
        return value.reshape(-1)
    if name == "logits" and (wrong or len(shape) != 2 or shape[0] != rows or shape[1] < 2):
        raise ArgumentError(
            f"logits of shape {shape} for a batch of {rows}: samples x classes are needed, of two classes "
            "or more (else report losses)"
        )
    if name == "embeddings" and (wrong or not shape or shape[0] != rows or 0 in shape):
        raise ArgumentError(
            f"embeddings of shape {shape} for a batch of {rows}: samples x dimensions are needed"
        )
    return value if name == "neighbours" else value.reshape(rows, -1)


class Pending:
    """The report about one batch. Values are NumPy arrays, or tensors on their way to the host."""

    def __init__(self, number: int, epoch: int, served: Any, labels: Any) -> None:
        self.number, self.epoch = number, epoch
        self.served, self.labels = served, labels
        self.values: Dict[str, Any] = {}
        self.event: Any = None
        self.work: Any = None  # of the exchange between processes
        self.tried = False  # to be handed over: Ctrl-C may have come right after

    def add(self, name: str, value: Any, rows: int) -> None:
        self.values[name] = _to_host(shaped(name, value, rows), self)

    def ready(self) -> None:
        """Waits until all values are on the host, as arrays."""
        if self.event is not None:
            self.event.synchronize()
            self.event = None
        for name, value in self.values.items():
            if _torch.is_tensor(value):
                self.values[name] = _numpy(value)


def _to_host(value: Any, pending: Pending) -> Any:
    """Starts the copy of a device's tensor, behind what its stream has been asked for so far."""
    if not _torch.is_tensor(value):
        return value
    if not value.is_cuda:
        return value.to("cpu", copy=True).contiguous()  # the caller may change it before it is due
    torch = _torch.module()
    host = torch.empty(value.shape, dtype=value.dtype, pin_memory=True)
    with torch.cuda.device(value.device):
        host.copy_(value, non_blocking=True)
        pending.event = torch.cuda.Event()
        pending.event.record()
    return host


def _numpy(value: Any) -> Any:
    torch = _torch.module()
    if value.dtype == torch.bfloat16:  # NumPy does not know it: its bits
        return value.view(torch.int16).numpy().view("uint16")
    return value.numpy()


def _address(a: Any) -> Optional[int]:
    return None if a is None else a.ctypes.data


def _joined(parts: List[Any], first: Optional[int]) -> Any:
    """The rows of all processes in the order of their batch: one process after the other, or, where
    they share a cache, as they were dealt out, beginning with process `first`."""
    import numpy

    whole = numpy.concatenate(parts)
    if first is None:
        return whole
    n = len(parts)
    place = [numpy.arange(len(a)) * n + (k - first) % n for k, a in enumerate(parts)]
    return whole[numpy.argsort(numpy.concatenate(place))]


def _first(number: int, parts: List[Any], full: int) -> Optional[int]:
    """The process that has row 0 of a batch, as larder_about.together says; `full`: rows of a full
    one of all processes, 0: each process has its part in one piece."""
    if not full:
        return None
    rows = sum(len(a) for a in parts)
    return number % len(parts) if rows == full and rows > len(parts) else 0


class Desk:
    """Reports that are under way, handed over in the order of their batches."""

    def __init__(self, slack: int, exchange: "Optional[Exchange]", together: bool = False) -> None:
        self.slack = slack  # a report must be in before so many batches later are given back
        self.exchange = exchange
        # Each process says what it knows of its own rows, and C tells those that share its cache.
        self.own = together and exchange is None
        self.pending: Dict[int, Pending] = {}
        self.lock = threading.RLock()  # of what is pending: a state may be saved beside training
        self.odd_told = False

    def open(self, batch: Batch) -> Pending:
        p = self.pending.get(batch.number)
        if p is None:
            p = Pending(batch.number, batch.epoch, batch.served_host, batch.labels_host)
            self.pending[batch.number] = p
        return p

    def turn(self, handle: int, number: int, always: bool) -> None:
        """Before batch `number` is given back: starts exchanges and hands over what is due. With
        `always` every batch takes part in the exchange, reported or not."""
        with self.lock:
            if self.exchange and always:
                p = self.pending.get(number - 1)
                if p is not None:
                    p.ready()
                    self.exchange.start(p)
            self.flush(handle, number - self.slack)

    def flush(self, handle: int, last: Optional[int] = None) -> None:
        """Hands over reports up to batch `last`; None: all that need no other process."""
        with self.lock:
            self._flush(handle, last)

    def _flush(self, handle: int, last: Optional[int]) -> None:
        for number in sorted(self.pending):
            if last is not None and number > last:
                return
            p = self.pending[number]
            if self.exchange:
                if last is None and p.work is None:
                    return
                if p.work is None:
                    p.ready()
                    self.exchange.start(p)
                self.exchange.finish(p)
            try:
                p.ready()
                self.hand_over(handle, p, self.own)
            except Exception:
                del self.pending[number]  # what cannot be handed over is in nobody's way
                raise
            del self.pending[number]

    def hand_over(self, handle: int, p: Pending, own: bool = False) -> None:
        v = p.values
        if not v:
            return
        fb = _lib.Feedback()
        loss, logits, emb = v.get("loss"), v.get("logits"), v.get("embeddings")
        if loss is not None:
            fb.loss = _address(loss)
        if logits is not None:
            fb.logits, fb.classes = _address(logits), logits.shape[1]
        if emb is not None:
            fb.embeddings, fb.dim = _address(emb), emb.shape[1]
            fb.embeddings_dtype = {"float32": 0, "float16": 2, "uint16": 3}[str(emb.dtype)]
        again, p.tried = p.tried, True
        fb.rows = _lib.ROWS_OWN if own else _lib.ROWS_ALL
        about = _lib.BatchStruct(
            number=p.number,
            epoch=p.epoch,
            n=len(p.served),
            served=_address(p.served),
            y=_address(p.labels),
        )
        rc = _lib.load().larder_loader_report(handle, ctypes.byref(about), ctypes.byref(fb))
        if not (again and rc == StateError.code):
            _lib.check(rc)
        if loss is not None:
            self._look_at(loss)  # at last: a warning may be an error

    def _look_at(self, loss: Any) -> None:
        """Says once that losses are no numbers any more."""
        import numpy

        odd = 0 if self.odd_told else int(loss.size - numpy.isfinite(loss).sum())
        if odd:
            self.odd_told = True
            warnings.warn(
                f"larder: {odd} of {loss.size} losses reported for a batch are NaN or infinite: these samples keep "
                "the scores they have, and more such losses are counted alone (stats()['losses_not_finite'])",
                stacklevel=2,
            )

    def state(self, tensors: bool) -> List[Dict[str, Any]]:
        """What has not been handed over, to be saved with the loader."""
        out = []
        with self.lock:
            for p in self.pending.values():
                p.ready()
                out.append(
                    {
                        "number": p.number,
                        "epoch": p.epoch,
                        "served": _state.pack(p.served, tensors),
                        "labels": _state.pack(p.labels, tensors),
                        "values": {k: _state.pack(a, tensors) for k, a in p.values.items()},
                    }
                )
        return out

    def load_joined(self, states: List[List[Dict[str, Any]]], full: int, handle: int) -> None:
        """Reports that processes had not told each other when they were saved, joined and handed
        over; `full` as in _first."""
        self.pending.clear()
        for s in states[0]:
            parts = [r for rank in states for r in rank if r["number"] == s["number"]]
            names = set.intersection(*(set(r["values"]) for r in parts))
            served = [_state.unpack(r["served"]) for r in parts]
            labels = [_state.unpack(r["labels"]) for r in parts]
            first = _first(s["number"], served, full)
            p = Pending(s["number"], s["epoch"], _joined(served, first), _joined(labels, first))
            p.values = {
                n: _joined([_state.unpack(r["values"][n]) for r in parts], first) for n in names
            }
            self.hand_over(handle, p)

    def load(self, state: List[Dict[str, Any]]) -> None:
        self.pending.clear()
        for s in state:
            served, labels = _state.unpack(s["served"]), _state.unpack(s["labels"])
            p = Pending(s["number"], s["epoch"], served, labels)
            p.values = {k: _state.unpack(a) for k, a in s["values"].items()}
            self.pending[p.number] = p


class Exchange:
    """Tells all processes of a job what each of them has said about its part of a batch: what one
    process with the whole batch would have reported, in the same order."""

    def __init__(self, full: int) -> None:
        torch = _torch.module()
        self.dist = torch.distributed
        self.group = self.dist.new_group(backend="gloo")  # the host's: never in training's way
        self.world = self.dist.get_world_size()
        self.full = full  # as in _first

    def start(self, p: Pending) -> None:
        """Sends off this process's part. Sizes go first, since the last batch may be short."""
        torch = _torch.module()
        if p.work is not None:
            return
        import numpy

        parts = [p.served.view("uint8"), p.labels.view("uint8")]
        head = [len(p.served)] + [0] * (2 * len(FIELDS))
        for i, name in enumerate(FIELDS):
            a = p.values.get(name)
            if a is None:
                continue
            a = numpy.ascontiguousarray(a)
            head[1 + 2 * i] = {"float32": 1, "float16": 2, "uint16": 3, "int64": 4}[str(a.dtype)]
            head[2 + 2 * i] = a.size
            parts.append(a.reshape(-1).view("uint8"))
        body = numpy.concatenate([x.reshape(-1) for x in parts])
        mine = torch.tensor(head + [body.size], dtype=torch.int64)
        heads = [torch.empty_like(mine) for _ in range(self.world)]
        self.dist.all_gather(heads, mine, group=self.group)
        most = max(int(h[-1]) for h in heads)
        padded = torch.zeros(most, dtype=torch.uint8)
        padded[: body.size] = torch.from_numpy(body)
        bodies = [torch.empty_like(padded) for _ in range(self.world)]
        work = self.dist.all_gather(bodies, padded, group=self.group, async_op=True)
        p.work = (work, heads, bodies)

    def finish(self, p: Pending) -> None:
        work, heads, bodies = p.work
        work.wait()
        served, labels = [], []
        values: Dict[str, List[Any]] = {}
        said = [[h[1 + 2 * i].item() for i in range(len(FIELDS))] for h in heads]
        # A field counts where every process has given it; one that kept silent says nothing of it.
        both = [all(s[i] for s in said) for i in range(len(FIELDS))]
        for h, b in zip(heads, bodies):
            n, raw, at = int(h[0]), b.numpy(), 0

            def take(size: int, dtype: str) -> Any:
                nonlocal at
                piece = raw[at : at + size].view(dtype)
                at += size
                return piece

            served.append(take(n * 8, "uint64"))
            labels.append(take(n * 8, "int64"))
            for i, name in enumerate(FIELDS):
                kind, count = int(h[1 + 2 * i]), int(h[2 + 2 * i])
                if not kind:
                    continue
                dtype = {1: "float32", 2: "float16", 3: "uint16", 4: "int64"}[kind]
                a = take(count * (4 if kind == 1 else 8 if kind == 4 else 2), dtype)
                if both[i]:
                    values.setdefault(name, []).append(
                        a if name in ("loss", "scores") else a.reshape(n, -1)
                    )
        first = _first(p.number, served, self.full)
        p.served, p.labels = _joined(served, first), _joined(labels, first)
        p.values = {k: _joined(v, first) for k, v in values.items()}
