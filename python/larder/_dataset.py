"""Samples by index, for those who keep their DataLoader."""

from __future__ import annotations

import ctypes
import itertools
import operator
import os
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Set, Tuple, Union

from . import _daemon, _lib, _torch
from ._errors import ArgumentError, RangeError, UnsupportedError
from ._arguments import (
    Arguments,
    cache_of,
    cage_of,
    check_names,
    choice,
    dtype_of,
    function,
    seed_of,
    text_of,
    uri_of,
)
from ._batch import Hold, Maker
from ._fields import fields_text, row, target_text
from ._stages import Stages

if TYPE_CHECKING:  # to a checker it is one of PyTorch's; nobody needs PyTorch for it
    from torch.utils.data import Dataset as _TorchDataset

    _Base = _TorchDataset[Any]
else:
    _Base = object

_live: "weakref.WeakSet[Dataset]" = weakref.WeakSet()
_forks_watched = False


def _before_fork() -> None:
    """A fork may make workers: what they are to share must be there before."""
    for d in list(_live):
        d._try_to_share()


class Dataset(_Base):
    """A map-style data set: ``dataset[i]`` is (x, label), read through larder's cache.

    >>> train = larder.Dataset("photos/train", cache="8GiB", augment=["rrc:size=224", "flip"])
    >>> loader = torch.utils.data.DataLoader(train, 256, shuffle=True, num_workers=8)

    The workers of a DataLoader, by fork or spawn, have one cache together: a daemon is started when the
    first of them is, and ends with this process. With LARDER_SOCKET or cache="unix:PATH" it is the one
    that runs there, also for other jobs; shared=False leaves each process its own.

    uri, cache, dtype, layout   as in larder.Loader
    augment     native stages; without any, pictures keep their size and x is HWC
    transform   a function of one's own: gets a NumPy array (after native stages, or the decoded picture,
                HWC, uint8) and gives x; may be set later, as timm does: ``train.transform = f``
    pil         the function gets a PIL image of the decoded picture instead; without one, x is that image
    target_transform    a function of the label
    recipe      a cache policy: "minio" (keeps what came first; for shuffled epochs), "lru", …
    seed        of the native stages' chance, with PyTorch's worker seeds
    ids         True: samples are (x, label, id)
    cage        as in larder.Loader
    fields      as in larder.Loader: samples are tuples of these, in their order; target: what the label is"""

    if not TYPE_CHECKING:  # which sees what __init__ takes
        __signature__ = Arguments()

        def __new__(cls, *args: Any, **given: Any) -> "Dataset":
            check_names(cls, given)
            return super().__new__(cls)

    def __init__(
        self,
        uri: Any,
        cache: Union[str, int] = "20%",
        augment: Union[None, str, Sequence[Any]] = None,
        transform: Optional[Callable[[Any], Any]] = None,
        *,
        target_transform: Optional[Callable[[int], Any]] = None,
        pil: bool = False,
        recipe: str = "minio",
        seed: int = 0,
        dtype: Any = "float32",
        layout: str = "NCHW",
        shared: Optional[bool] = None,
        ids: bool = False,
        cage: Union[bool, str] = False,
        fields: Union[None, str, Sequence[str], Dict[str, str]] = None,
        target: Any = None,
        torch: Optional[bool] = None,
    ) -> None:
        global _forks_watched
        self.uri, self.cache = uri_of(uri), cache_of(cache)
        self.recipe, self.seed = text_of("recipe", recipe), seed_of(seed)
        self._stages = Stages(augment, transform)
        function("target_transform", target_transform)
        self.target_transform, self.pil, self.ids = target_transform, pil or bool(self._stages.unknown), ids
        self._native, self._cage = bool(self._stages.native), cage_of(cage)
        self._fields, (self._aim, self._target) = fields_text(fields), target_text(target)
        self._parcels = self._fields is not None or self._aim is not None
        self._targets: Optional[List[int]] = None
        if pil and self._native:
            raise ValueError("pil=True hands out pictures as they are: leave augment out")
        if "shrink=" in self.recipe and not self._native:
            raise ArgumentError(
                "shrink= keeps what native stages need, and without any pictures come as their files have them: "
                "name some in augment, or leave shrink= out"
            )
        self._dtype = dtype_of(self._stages.dtype or dtype)
        self._layout = choice(_lib.LAYOUTS, "layout", layout)
        self._tensors = _torch.wanted(torch)
        elsewhere = self.cache.startswith("unix:") or bool(os.environ.get("LARDER_SOCKET"))
        self._sharing = shared is not False and not elsewhere and self.cache != "0"
        self._told: Set[str] = set()  # sentences that are no errors: workers do not repeat them
        self._init_process()
        self._open()  # what is wrong is said here, not in a worker
        _live.add(self)
        if not _forks_watched:
            os.register_at_fork(before=_before_fork)
            _forks_watched = True
        if shared:
            self._share()

    # ---- one handle a process -----------------------------------------------------------------

    def _init_process(self) -> None:
        self._handle: Optional[_lib.Owned] = None  # who reads holds it, so that close may come meanwhile
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._count = itertools.count()

    def _open(self) -> _lib.Owned:
        if self._pid != os.getpid():
            self._init_process()  # forked: the parent's handle is the parent's
        handle = self._handle
        if handle is not None:
            return handle
        with self._lock:
            handle = self._handle or self._open_new(self.cache)
            self._handle = handle
        return handle

    def _open_new(self, cache: str) -> _lib.Owned:
        lib = _lib.load()
        conf = _lib.Conf()
        conf.source, conf.cache = _lib.text(self.uri), _lib.text(cache)
        conf.recipe = _lib.text(self.recipe)
        # Without native stages its shape is not used: pictures come as they are.
        conf.augment = _lib.text(self._stages.native or (None if self._parcels else "resize:h=1,w=1"))
        conf.batch, conf.prefetch, conf.threads, conf.inflight = 64 if self._parcels else 1, 1, 1, 1
        conf.fields, conf.target = _lib.text(self._fields), _lib.text(self._aim)
        conf.seed, conf.parts = self.seed, _lib.PARTS["off"]
        conf.dtype, conf.layout, conf.cage = self._dtype, self._layout, self._cage
        handle = _lib.Owned(ctypes.c_void_p(), lib.larder_loader_close)  # which leaves a parent's alone
        _lib.check(lib.larder_loader_open(ctypes.byref(handle.handle), ctypes.byref(conf)))
        about = _lib.about(handle)
        shape, self._n = about.shape, about.samples
        self._shape = (
            (shape.c, shape.h, shape.w) if self._layout == 0 else (shape.h, shape.w, shape.c)
        )
        fresh = [says for says in _lib.notes(handle) if says not in self._told]
        self._told.update(fresh)
        self._handle = handle  # before a warning that is made an error
        _lib.warn(fresh, 4)
        return handle

    def _share(self) -> None:
        """From now on the cache is a daemon's. In the process that made the data set."""
        if not self._sharing or self._pid != os.getpid():
            return
        self._sharing = False
        if "shrink=" in self.recipe:
            raise UnsupportedError("shrink= does not go with a daemon, which keeps samples as they are")
        budget = self.cache
        payload = _lib.about(self._open()).payload
        size = budget
        if "%" in budget:
            share = float(budget.split("%")[0]) / 100
            # All of the daemon's memory counts: room for leases of what was evicted, what is noted of each
            # entry and each sample, and workers.
            size = str(int((payload * 1.25 + self._n * 400) * share) + self._n * 128 + (64 << 20))
        socket = _daemon.shared(size)
        self.cache = f"unix:{socket}?budget={budget}"
        self.close()

    def _try_to_share(self) -> None:
        """For workers: they must not fail for it."""
        try:
            self._share()
        except Exception as e:
            import warnings

            warnings.warn(f"larder: each worker has a cache of its own: {e}")
            self._sharing = False

    def close(self) -> None:
        """Gives back this process's memory, when other threads that read have what they asked for; the next use
        opens it again."""
        self._handle = None

    def __getstate__(self) -> Dict[str, Any]:
        self._try_to_share()  # for a worker that is spawned
        state = self.__dict__.copy()
        for name in ("_handle", "_pid", "_lock", "_count"):
            state.pop(name, None)
        return state

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._init_process()

    @property
    def transform(self) -> Optional[Callable[[Any], Any]]:
        """The function that gives x; workers that run already keep the one they have."""
        return self._stages.transform

    @transform.setter
    def transform(self, f: Optional[Callable[[Any], Any]]) -> None:
        self._stages.transform = function("transform", f)

    # ---- samples ------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._n

    def _chances(self, n: int) -> Any:
        """Seeds for the random stages of n samples: a worker's own, and new ones each time."""
        import numpy

        base = self.seed
        torch = sys.modules.get("torch")
        info = torch.utils.data.get_worker_info() if torch is not None else None
        if info is not None:
            base ^= info.seed * 0x9E3779B97F4A7C15
        z = numpy.array([next(self._count) for _ in range(n)], "uint64")
        z = z * numpy.uint64(0xD1B54A32D192ED03) + numpy.uint64(base & (2**64 - 1))
        z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        return (z ^ (z >> numpy.uint64(31))) >> numpy.uint64(1)  # never the word for "no chance"

    def _rows(self, ids: List[int]) -> Any:
        import numpy

        handle = self._open()
        index = numpy.array(ids, "uint64")
        y = numpy.empty(len(ids), "int64")
        shape, dtype = (len(ids),) + self._shape, next(n for n, v in _lib.DTYPES.items() if v == self._dtype)
        if self._tensors and not self._stages.own:
            torch = _torch.module()
            x = torch.empty(shape, dtype=getattr(torch, dtype))
            address = x.data_ptr()
        else:
            x = numpy.empty(shape, "uint16" if dtype == "bfloat16" else dtype)
            address = x.ctypes.data
        chances = self._chances(len(ids))
        _lib.check(
            _lib.load().larder_loader_get(
                handle, index.ctypes.data, len(ids), chances.ctypes.data, address, y.ctypes.data
            )
        )
        return x, y

    def _gathered(self, ids: List[int]) -> List[Any]:
        """Samples of several fields: tuples of them, or (x, y) where only a target is named."""
        import numpy

        index, chances = numpy.array(ids, "uint64"), self._chances(len(ids))
        held = Hold(False)
        _lib.check(
            _lib.load().larder_loader_gather(
                self._open(), index.ctypes.data, len(ids), chances.ctypes.data, ctypes.byref(held.handle)
            )
        )
        s = _lib.BatchStruct.from_address(held.handle.value or 0)
        b = Maker(s, self._tensors).make(held, s)
        rows = []
        for k, i in enumerate(ids):
            at = row(b.fields, k)
            for name, value in at.items():
                if isinstance(value, numpy.generic) or (_torch.is_tensor(value) and value.dim() == 0):
                    at[name] = value.item()
            y = self._target(at) if self._target is not None else b.y[k]
            if self._fields is None or self._target is not None:
                y = y.item() if getattr(y, "ndim", 1) == 0 else y
                rows.append(self._finish(self._stages.run(b.x[k]), y, i))
            else:
                rows.append(tuple(at.values()) + ((i,) if self.ids else ()))
        return rows

    def pixels(self, i: int) -> Any:
        """The decoded picture i as a NumPy array, HWC, uint8, at its own size; and its label."""
        import numpy

        item, held = self._item(i, _lib.DECODED)
        s = item.shape
        a = numpy.frombuffer(ctypes.string_at(item.data, item.bytes), "uint8").copy()
        del held
        if item.layout == _lib.LAYOUTS["NCHW"]:
            return numpy.ascontiguousarray(a.reshape(s.c, s.h, s.w).transpose(1, 2, 0)), item.label
        return a.reshape(s.h, s.w, s.c), item.label

    def bytes(self, i: int) -> bytes:
        """The file of sample i, as it is stored."""
        item, held = self._item(i, _lib.ENCODED)
        out = ctypes.string_at(item.data, item.bytes)
        del held
        return out

    def _item(self, i: int, form: int) -> Tuple[_lib.Item, _lib.Owned]:
        """The bytes, and what holds them."""
        lib, item = _lib.load(), _lib.Item()
        held = _lib.Owned(ctypes.c_void_p.from_buffer(item, _lib.ITEM_BUF), lib.larder_buf_unref)
        i = self._index(i)
        _lib.check(lib.larder_loader_item(self._open(), i, form, ctypes.byref(item)))
        return item, held

    def _index(self, i: int) -> int:
        at = operator.index(i)
        if not -self._n <= at < self._n:
            raise RangeError(f"sample {at} of {self._n}")
        return at + self._n if at < 0 else at

    def _finish(self, x: Any, label: int, i: int) -> Any:
        if self.target_transform is not None:
            label = self.target_transform(label)
        return (x, label, i) if self.ids else (x, label)

    def __getitem__(self, i: int) -> Any:
        i = self._index(i)
        if self._parcels:
            return self._gathered([i])[0]
        if self._native:
            x, y = self._rows([i])
            return self._finish(self._stages.run(x[0]), int(y[0]), i)
        x, label = self.pixels(i)
        if self.pil:
            from PIL import Image

            x = Image.fromarray(x[:, :, 0] if x.shape[2] == 1 else x)
        x = self._stages.run(x)
        if self._tensors and not self._stages.own and not self.pil:
            x = _torch.module().from_numpy(x)
        return self._finish(x, label, i)

    def __getitems__(self, indices: Sequence[int]) -> List[Any]:
        """A batch at once, as newer DataLoaders ask for it: one joint read."""
        ids = [self._index(i) for i in indices]
        if self._parcels:
            return [sample for at in range(0, len(ids), 64) for sample in self._gathered(ids[at:at + 64])]
        if not self._native:
            return [self[i] for i in ids]
        x, y = self._rows(ids)
        return [self._finish(self._stages.run(x[k]), int(y[k]), i) for k, i in enumerate(ids)]

    def name(self, i: int) -> str:
        """Of sample i, for people: "cat/7.jpg"."""
        return os.fsdecode(_lib.says(self._open(), _lib.SAYS_SAMPLE, self._index(i)) or b"")

    @property
    def classes(self) -> List[str]:
        """Names of the classes, by label."""
        return _lib.classes(self._open())

    @property
    def class_to_idx(self) -> Dict[str, int]:
        """Labels by the names of their classes, as torchvision's ImageFolder has them."""
        return {name: label for label, name in enumerate(self.classes)}

    @property
    def targets(self) -> List[int]:
        """The label of every sample, -1 where there is none; nothing is read for it."""
        if self._targets is None:
            import numpy

            ids, y = numpy.arange(self._n, dtype="uint64"), numpy.empty(self._n, "int64")
            _lib.check(
                _lib.load().larder_loader_get(
                    self._open(), ids.ctypes.data, self._n, None, None, y.ctypes.data
                )
            )
            self._targets = y.tolist()
        return self._targets

    @property
    def samples(self) -> List[Tuple[str, int]]:
        """Name and label of every sample, as torchvision's ImageFolder has them: of a folder the names are
        paths that can be opened. Made when asked for."""
        place = self.uri[len("dir:"):] if self.uri.startswith("dir:") else self.uri
        place = place if os.path.isdir(place) else place.rpartition("?")[0]
        root = place if os.path.isdir(place) else ""
        return [(os.path.join(root, self.name(i)), label) for i, label in enumerate(self.targets)]

    def stats(self) -> Dict[str, float]:
        """Counters of this process: storage_reads, storage_bytes, storage_requests, daemon_attached …"""
        v, out, i = _lib.StatValue(), {}, 0
        handle = self._open()  # which has the names
        while _lib.load().larder_loader_stat(handle, i, ctypes.byref(v)) == 0:
            out[v.name.decode()] = v.value
            i += 1
        return out

    def __repr__(self) -> str:
        return f"<larder.Dataset {self.uri}: {self._n} samples, cache {self.cache}>"
