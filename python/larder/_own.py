"""A data set and functions of one's own, as a Loader takes them: checked, and written as the library takes them."""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
from ctypes import c_bool, c_char_p, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, Callable, List, Optional, Sequence

from . import _lib
from ._arguments import function, whole
from ._crew import NAME_FN, crew_of, traced
from ._errors import ArgumentError, Error
from ._folders import files_of
from ._worker import JOIN, MAKE, READ, Job

_COUNT = (1 << 31) - 1


class OwnSource(_lib.Sized):
    """larder_own_source"""

    _fields_ = [
        ("size", c_size_t), ("shown", c_char_p), ("count", c_uint64), ("fingerprint", c_uint64), ("arg", c_void_p),
        ("read", c_void_p), ("name", NAME_FN), ("labels", c_void_p), ("classes", c_uint32), ("interrupt", c_void_p),
    ]


class OwnMaker(_lib.Sized):
    """larder_own_maker"""

    _fields_ = [("size", c_size_t), ("arg", c_void_p), ("whole", c_bool), ("pictures", c_bool), ("make", c_void_p)]


# ---- what is known of a data set ----------------------------------------------------------------


def is_dataset(value: Any) -> bool:
    """Something with samples by index, that is not a name."""
    if isinstance(value, (str, bytes, os.PathLike)) or hasattr(value, "uri"):
        return False
    return hasattr(value, "__getitem__") or _iterable(value)


def _iterable(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.utils.data.IterableDataset)


def length(dataset: Any) -> int:
    """How many samples; what is no map-style data set is refused."""
    kind = type(dataset).__name__
    if _iterable(dataset) or (hasattr(dataset, "__iter__") and not hasattr(dataset, "__getitem__")):
        raise ArgumentError(
            f"{kind} gives samples in an order of its own (an IterableDataset); larder decides on the order, and "
            "needs samples by index: __getitem__ and __len__. Shards of WebDataset are a source, "
            "\"tar:shard-{000..099}.tar\"; others can be laid down once, in a folder or a list"
        )
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        raise ArgumentError(f"dataset has samples by index, __getitem__ and __len__, and {kind} has not")
    n = len(dataset)
    if not 0 < n <= _COUNT:
        raise ArgumentError(f"{kind} has {n} samples: 1 to {_COUNT} can be loaded")
    return n


def behind(dataset: Any) -> Any:
    """A torch Subset's data set, and which of it; else itself."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(dataset, torch.utils.data.Subset):
        return dataset.dataset, dataset.indices
    return dataset, None


def labels_of(dataset: Any, n: int) -> Any:
    """The label of each sample, as int32, where the data set has them at hand; None: it has not."""
    inner, which = behind(dataset)
    found: Any = None
    for name in ("targets", "labels"):
        found = found if found is not None else getattr(inner, name, None)
    samples = getattr(inner, "samples", None)
    if found is None and isinstance(samples, list) and samples and isinstance(samples[0], (tuple, list)):
        found = [s[1] for s in samples if len(s) > 1]
    if found is None or callable(found):
        return None
    import numpy

    try:
        a = numpy.asarray(found.cpu() if hasattr(found, "cpu") else found)
        a = a[numpy.asarray(which)] if which is not None else a
    except Exception:  # whatever it is, it is not labels
        return None
    if a.shape != (n,) or a.dtype.kind not in "iub" or (n and (a.min() < -1 or a.max() > _COUNT)):
        return None
    return numpy.ascontiguousarray(a.astype("int32"))


def name_of(dataset: Any, i: int) -> str:
    """What people call sample i: its file, where there is one."""
    inner, which = behind(dataset)
    k = int(which[i]) if which is not None else i
    samples = getattr(inner, "samples", None) or getattr(inner, "imgs", None)
    try:
        given = samples[k][0]  # type: ignore[index]
        if isinstance(given, (str, os.PathLike)):
            return os.fspath(given)
    except Exception:
        pass
    return f"item {i}"


def fingerprint(dataset: Any, n: int, identity: Any) -> int:
    """Which samples these are, as far as can be told: a state of another data set is refused."""
    kind = type(dataset)
    text = f"{kind.__module__}.{kind.__qualname__} {n} {'' if identity is None else identity}"
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "little")


# ---- both, as the library takes them ------------------------------------------------------------


class Own:
    """What of a loader is one's own: samples, functions, and who runs them. `source` and `maker` are for
    larder_loader_conf; None: the library's own."""

    def __init__(self, job: Job, *, workers: Optional[int], start: str, init: Any, seed: int, identity: Any = None) -> None:
        self.job = job
        self.samples = length(job.dataset) if job.dataset is not None else 0
        self.whole = job.collate is not None
        self.crew = crew_of(job, workers, start, init, self.samples, seed)
        self.noted = False
        self.source: Any = None
        self.maker: Any = None
        try:
            if job.dataset is not None:
                self.source = self._source_of(job.dataset, identity)
            if job.makes:
                self.maker = OwnMaker(arg=self.crew.arg, make=self.crew.function(JOIN if self.whole else MAKE),
                                      whole=self.whole, pictures=job.pil)
        except BaseException:  # nobody else knows of the workers yet
            self.crew.close()
            raise

    def _source_of(self, dataset: Any, identity: Any) -> OwnSource:
        self.labels = labels_of(dataset, self.samples)

        def name(_: Any, i: int, out: int, cap: int) -> int:
            try:
                raw = name_of(dataset, i).encode("utf-8", "surrogateescape")[: cap - 1] + b"\0"
                ctypes.memmove(out, raw, len(raw))
            except BaseException:  # nobody above could catch it
                return -1
            return 0

        source = OwnSource(
            shown=_lib.text(type(dataset).__name__), count=self.samples,
            fingerprint=fingerprint(dataset, self.samples, identity), arg=self.crew.arg,
            read=self.crew.function(READ), name=NAME_FN(name), interrupt=self.crew.interrupt,
        )
        if self.labels is not None:
            source.labels = self.labels.ctypes.data
            source.classes = int(self.labels.max()) + 1
        return source

    def fill(self, conf: Any) -> None:
        """Into larder_loader_conf, which points at what stays here."""
        if self.source is not None:
            conf.source, conf.own = None, ctypes.cast(ctypes.byref(self.source), c_void_p)
        if self.maker is not None:
            conf.maker = ctypes.cast(ctypes.byref(self.maker), c_void_p)

    @property
    def workers(self) -> int:
        return len(getattr(self.crew, "processes", ())) or 1

    @property
    def shown(self) -> str:
        n = len(getattr(self.crew, "processes", ()))
        return f"in {n} worker processes" if n > 1 else "in one worker process" if n else "in larder's threads"

    def told(self, e: Error) -> BaseException:
        """An error of the library's, with what one's own code said; or what that raised, such as Ctrl-C."""
        wrong = self.crew.raised()
        if wrong is not None and not isinstance(wrong, Exception):
            return wrong
        if "rows of one batch are alike" in str(e):
            e = type(e)(f"{e}; collate_fn= makes batches of samples that differ")
        return traced(e, self.crew.trace)

    def notes(self) -> List[str]:
        """What should be known, said once."""
        if self.noted or self.source is None or not self.crew.draws():
            return []
        self.noted = True
        return [
            f"{type(self.job.dataset).__name__} draws random numbers when a sample is read, and what is cached repeats that "
            "draw: leave chance to transform=, or give encoded= and decode= (docs/guide/own.md)"
        ]

    def stop(self) -> None:
        """Nobody waits for workers any more."""
        self.crew.stop()

    def close(self) -> None:
        self.crew.close()


def job_of(dataset: Any, encoded: Any, decode: Any, functions: Sequence[Callable[[Any], Any]],
           collate_fn: Any, pil: bool = False) -> Job:
    """What one's own part of a loader is, checked."""
    if pil and dataset is not None:
        raise ArgumentError("pil=True is for pictures of larder's sources: samples of your own come as you make them")
    if pil and not functions and collate_fn is None:
        raise ArgumentError("pil=True hands out PIL images, which transform= or collate_fn= makes batches of: give one")
    if encoded is not None and not callable(encoded):
        if not isinstance(encoded, str) or not callable(getattr(dataset, encoded, None)):
            raise ArgumentError(
                f"encoded is a function of the data set and an index that gives bytes, or the name of a method of it, "
                f"not {encoded!r}"
            )
    function("decode", decode)
    function("collate_fn", collate_fn)
    if dataset is None:
        for name, given in (("encoded", encoded), ("decode", decode)):
            if given is not None:
                raise ArgumentError(f"{name} goes with dataset=, a data set of your own; larder's sources read and "
                                    "decode by themselves")
    elif decode is not None and encoded is None:
        raise ArgumentError("decode makes samples of what encoded= gives: give both, or transform= alone, which gets "
                            "what dataset[i] gives")
    if encoded is None:
        encoded, decode = files_of(*behind(dataset)) or (None, None)
    return Job(dataset, encoded, decode, functions, collate_fn, pil)


def workers_of(workers: Any) -> Optional[int]:
    return None if workers is None else whole("workers", workers, most=1024)
