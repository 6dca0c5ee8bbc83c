"""The loader: batches out, feedback in."""

from __future__ import annotations

import ctypes
import operator
import os
import warnings
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Union

from . import _lib, _state, _torch
from .batch import Batch, Hold, make, release_later, sweep, x_array
from .feedback import Desk, Exchange
from .graph import Graph, wanted as graph_wanted
from .shown import Shown

_LOOK_UP = 0.1  # seconds between looks at signals while waiting for a batch


def augment_text(augment: Union[None, str, Sequence[str]]) -> Optional[str]:
    """``["crop:size=32,pad=4", "flip"]`` or ``"crop:size=32,pad=4|flip"``."""
    if augment is None or isinstance(augment, str):
        return augment
    return "|".join(str(a) for a in augment)


class _Stages:
    """Native stages and a function of one's own, told apart in an ``augment`` list."""

    def __init__(self, augment: Any, transform: Optional[Callable]) -> None:
        own: List[Callable] = []
        if augment is not None and not isinstance(augment, str):
            native = []
            for a in augment:
                if callable(a):
                    own.append(a)
                elif own:
                    raise ValueError(f"native stage {a!r} stands before Python ones, not after")
                else:
                    native.append(a)
            augment = native
        if transform is not None:
            own.append(transform)
        self.native = augment_text(augment)
        self.own = own

    def run(self, sample: Any) -> Any:
        for f in self.own:
            sample = f(sample)
        return sample


class Loader(Shown):
    """Batches of a data set through a training-aware cache.

    >>> loader = larder.Loader("cifar10:data", 256, recipe="rotate", cache="20%",
    ...                        augment=["crop:size=32,pad=4", "flip", "normalize:preset=cifar10"])
    >>> for epoch in range(30):
    ...     for batch in loader:
    ...         loss = criterion(model(batch.x), batch.y)     # reduction="none"
    ...         loader.report(loss=loss)                      # recipes that do not listen ignore it
    ...         loss.mean().backward()
    ...     loader.validate(accuracy)

    uri         "cifar10:folder", "dir:photos", "tar:shard-{000..099}.tar", "pack:…" or a plain folder
    batch_size  samples a batch and process
    recipe      which samples come and which stay in memory; ``larder list`` and docs/plugins.md. With
                "rotate" some samples come more often than others; "minio" serves each once an epoch
    cache       "20%" of the data set, "8GiB", "0", or "unix:" for one shared with other jobs
    seed        of order and augmentation: the same seed gives the same run
    augment     native stages, as a list or a text; functions of one's own may end the list: they get
                one sample as a NumPy array and their results are stacked
    transform   such a function by itself
    shuffle     False: in the order of ids, for validation
    drop_last   leaves out the last, short batch
    dtype, layout   "float32" or "uint8"; "NCHW" or "NHWC"
    device      where x and y go, copied beside training ("cuda", "cuda:1"); None: they stay
    pin         batch memory is locked in place; None: where a CUDA device is there
    rank, world     this process among those of the job; None: as torch.distributed says
    threads     that read and decode; 0: as many as there are cores
    prefetch, ahead, lag, inflight   as in ``larder train --help``; 0: they are chosen
    on_bad      "fail", "skip" or "replace" a sample that cannot be read
    epochs      after so many there is nothing more; 0: no end
    evaluator   f(batch) -> losses, for recipes that look at losses between epochs (impact)
    record      a file for larder suggest and larder sim --replay; None: as LARDER_RECORD says, "": none
    score_on_device     spider: neighbours are counted where the embeddings are, by matrix products; None:
                where batches go to a CUDA device
    torch       False: NumPy arrays even though PyTorch is there

    ``iter(loader)`` starts an epoch, or goes on where a loaded state stands. Breaking off in the middle
    is fine: the next ``iter`` starts the next epoch."""

    def __init__(
        self,
        uri: Any,
        batch_size: int = 256,
        recipe: str = "rotate",
        cache: str = "20%",
        seed: int = 0,
        augment: Union[None, str, Sequence[Any]] = None,
        *,
        transform: Optional[Callable[[Any], Any]] = None,
        shuffle: bool = True,
        drop_last: bool = False,
        dtype: str = "float32",
        layout: str = "NCHW",
        device: Any = None,
        pin: Optional[bool] = None,
        rank: Optional[int] = None,
        world: Optional[int] = None,
        threads: int = 0,
        prefetch: int = 0,
        ahead: int = 0,
        lag: int = 0,
        inflight: int = 0,
        on_bad: str = "fail",
        parts: str = "read",
        epochs: int = 0,
        evaluator: Optional[Callable[[Batch], Any]] = None,
        record: Optional[str] = None,
        score_on_device: Optional[bool] = None,
        torch: Optional[bool] = None,
    ) -> None:
        self._handle: Any = None  # an address; None: closed
        self._pid = os.getpid()
        counts = dict(batch_size=batch_size, threads=threads, prefetch=prefetch, ahead=ahead, lag=lag,
                      inflight=inflight, epochs=epochs)
        for name, value in counts.items():
            counts[name] = _whole(name, value, 1 if name == "batch_size" else 0)
        self.uri, self.batch_size, self.drop_last = os.fspath(uri), counts["batch_size"], drop_last
        self.recipe = recipe
        if not shuffle and recipe == "rotate":  # nobody asked for it
            self.recipe = "minio:sampler=sequential"
        elif not shuffle and "sampler=" not in recipe:
            self.recipe = recipe + ("," if ":" in recipe else ":") + "sampler=sequential"
        self.seed, self.shuffle = seed, shuffle
        self._stages = _Stages(augment, transform)
        self._tensors = _torch.wanted(torch)
        self._device: Any = None
        if device is not None and str(device) != "cpu":
            self._tensors = True
            self._device = _torch.module().device(device)
        if self._tensors:
            _torch.module()
        self.rank, self.world = _torch.place(rank, world)
        self._graph: Optional[Graph] = None
        on_device = graph_wanted(self.recipe, self._device, self.world, score_on_device)
        if on_device:
            self.recipe += ("," if ":" in self.recipe else ":") + "signal=given"
        self._pins = self._pin_functions(pin)

        if self.world > 1:
            cache = _share(cache)
        conf = _lib.Conf()
        lib = _lib.load()
        lib.larder_loader_init(ctypes.byref(conf), ctypes.sizeof(conf))
        conf.source, conf.recipe = _lib.text(self.uri), _lib.text(self.recipe)
        conf.cache, conf.augment = _lib.text(cache), _lib.text(self._stages.native)
        conf.batch, conf.seed, conf.drop_last = self.batch_size, _whole("seed", seed), drop_last
        for name in ("threads", "prefetch", "ahead", "lag", "inflight", "epochs"):
            setattr(conf, name, counts[name])
        conf.rank, conf.world = self.rank, self.world
        conf.dtype = _choice(_lib.DTYPES, "dtype", str(dtype).replace("torch.", ""))
        conf.layout = _choice(_lib.LAYOUTS, "layout", layout)
        conf.on_bad = _choice(_lib.ON_BAD, "on_bad", on_bad)
        conf.parts = _choice(_lib.PARTS, "parts", parts)
        if record is not None:
            conf.record = _lib.text(os.fspath(record))
        conf.order_only = self._order_only
        if self._pins:
            conf.pin, conf.unpin = self._pins
        handle = ctypes.c_void_p()
        with self._on_device():
            _lib.check(lib.larder_loader_open(ctypes.byref(handle), ctypes.byref(conf)))
        self._handle = handle.value
        self._lib = lib

        if on_device:
            self._graph = Graph(int(lib.larder_loader_samples(self._handle)))
        self.listens = bool(lib.larder_loader_listens(self._handle))
        distributed = self.world > 1 and _distributed()
        slack = lag - (ahead or prefetch or 4) if lag else 2
        self._together = bool(lib.larder_loader_together(self._handle))
        full = self.world * self.batch_size if self._together else 0
        self._desk = Desk(slack, Exchange(full) if distributed and self.listens else None)
        self._lent: Any = None  # the C batch at hand, and what Python made of it
        self._batch: Optional[Batch] = None
        self._last: Optional[int] = None  # number of the batch taken last
        self._loaded_at: Optional[int] = None
        self._epochs = counts["epochs"]
        self._middle = False  # of an epoch
        self._taken: Optional[int] = 0  # batches of this epoch; None: not known
        self._fresh = False  # a state was loaded, and nothing taken since
        self._mark = object()  # that batches of this loader carry
        self._wanted_epoch: Optional[int] = None
        self._turns = 0  # iterators so far: only the newest is served
        self._hooked: Any = None
        self._copied: Any = None  # number, x on the device, event, of the batch that comes next
        self._side: Any = None
        self._warned: set = set()
        self._evaluator: Any = None
        self._raised: Optional[BaseException] = None
        if evaluator is not None:
            self.set_evaluator(evaluator)

    # ---- opening and closing ------------------------------------------------------------------

    def _pin_functions(self, pin: Optional[bool]) -> Any:
        if pin is False or not self._tensors:
            if pin:
                raise ValueError("memory is pinned for tensors; NumPy arrays need none")
            return None
        found = _torch.host_register()
        if pin and not found:
            warnings.warn("larder: pin=True, but no CUDA runtime is loaded: memory is not pinned")
        return found

    def _on_device(self) -> Any:
        import contextlib

        if self._device is not None and self._device.type == "cuda":
            return _torch.module().cuda.device(self._device)
        return contextlib.nullcontext()

    def close(self) -> None:
        """Ends threads and gives memory back; arrays that are still in use stay valid."""
        handle, self._handle = self._handle, None
        if not handle or self._pid != os.getpid():
            return  # a forked child leaves it to its parent
        self._turns += 1
        self._lent = self._batch = None
        if self._copied is not None:
            self._copied[2].synchronize()
            self._copied = None
        self._lib.larder_loader_close(ctypes.byref(ctypes.c_void_p(handle)))
        self._desk.pending.clear()

    def __enter__(self) -> "Loader":
        return self

    def __exit__(self, *what: Any) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:
            pass

    def __reduce__(self) -> Any:
        raise TypeError(
            "a larder.Loader has threads and stays in its process; give each process its own, or use "
            "larder.Dataset in a DataLoader's workers"
        )

    def _open(self) -> int:
        if self._pid != os.getpid():
            raise _lib.BY_CODE[-7](
                "this loader was opened before a fork; open one in each process"
            )
        if not self._handle:
            raise _lib.BY_CODE[-7]("this loader is closed")
        return self._handle

    # ---- epochs -------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Batches of the epoch, for this process."""
        return int(self._lib.larder_loader_batches(self._open()))

    @property
    def epoch(self) -> int:
        """The epoch of the batch that comes next."""
        if self._wanted_epoch is not None:
            return self._wanted_epoch
        return int(self._lib.larder_loader_epoch(self._open()))

    def set_epoch(self, epoch: int) -> None:
        """The next ``iter`` is this epoch, as with a DistributedSampler. In the order 0, 1, 2 …, or
        at the epoch of a loaded state, it changes nothing."""
        self._open()
        self._wanted_epoch = int(epoch)

    def __iter__(self) -> Iterator[Batch]:
        self._begin()
        self._turns += 1
        return self._batches(self._turns)

    def _begin(self) -> None:
        handle = self._open()
        self._give_back()
        coming = int(self._lib.larder_loader_epoch(handle))
        wanted = self._wanted_epoch
        self._wanted_epoch = None
        if self._middle and wanted is None:
            wanted = coming + 1  # broken off: that epoch is over
        if wanted is None or (wanted == coming and not self._middle):
            return
        self._desk.flush(handle)
        self._forget_copy()
        _lib.check(self._lib.larder_loader_begin(handle, wanted))
        self._middle = False
        self._taken = 0

    def _batches(self, turn: int) -> Iterator[Batch]:
        if self._wanted_epoch is not None and turn == self._turns:
            self._begin()  # set_epoch came after iter, but before the first batch
        while True:
            self._open()
            if turn != self._turns:
                raise _lib.BY_CODE[-7](
                    "another iteration over this loader has begun; one at a time is served"
                )
            b = self._take()
            if b is None and self._fresh:  # saved at an epoch's end: nothing was left of it
                b = self._take()
            if b is None:
                self._fresh = False
                return
            yield b

    def _take(self) -> Optional[Batch]:
        """The next batch, or None: the epoch (or everything) is over."""
        handle = self._open()
        self._give_back()
        if self._loaded_at is not None:  # the turn of the batch that was at hand when it was saved
            self._desk.turn(handle, self._loaded_at, True)
            self._loaded_at = None
        out = ctypes.POINTER(_lib.BatchStruct)()
        while True:  # looks up now and then, so that Ctrl-C gets through
            rc = self._lib.larder_loader_next_within(handle, ctypes.byref(out), _LOOK_UP)
            if rc != _lib.NOT_YET:
                break
        if self._raised is not None:
            raised, self._raised = self._raised, None
            raise raised
        _lib.check(rc)
        if rc in (_lib.END_EPOCH, _lib.END):
            self._middle = False
            self._taken = 0
            return None
        self._middle = True
        self._fresh = False
        self._taken = None if self._taken is None else self._taken + 1
        hold = ctypes.c_void_p()
        self._lent = out
        _lib.check(self._lib.larder_loader_hold(handle, out, ctypes.byref(hold)))
        s = self._lib.larder_hold_batch(hold.value).contents
        held = Hold(hold.value or 0, bool(self._pins))
        b = make(held, s, self._tensors and not self._stages.own)
        b.owner = self._mark
        if self._stages.own:
            self._run_own(b)
        if self._device is not None:
            self._to_device(b, held)
        self._batch = b
        self._last = b.number
        return b

    def _give_back(self) -> None:
        """The batch at hand is done with: its report goes on its way, its place is free."""
        if self._lent is None:
            return
        b, lent = self._batch, self._lent
        self._lent = self._batch = None
        if b is not None and self.listens:
            self._take_hooked(b)
            if self._desk.exchange:
                self._desk.open(b)  # silent processes take part too
            self._desk.turn(self._handle, b.number, True)
        with self._on_device():
            _lib.check(self._lib.larder_loader_done(self._handle, lent))
        if self._pins:
            sweep()
        if self._device is not None:
            self._copy_ahead()

    def _run_own(self, b: Batch) -> None:
        import numpy

        rows = [self._stages.run(row) for row in b.x]
        if self._tensors:
            torch = _torch.module()
            rows = [r if torch.is_tensor(r) else torch.as_tensor(numpy.asarray(r)) for r in rows]
            b.x = torch.stack(rows)
            for name in ("y", "ids", "served", "weight", "kind"):
                setattr(b, name, torch.from_numpy(getattr(b, name)))
        else:
            b.x = numpy.stack([numpy.asarray(r) for r in rows])

    # ---- to a device --------------------------------------------------------------------------

    def _to_device(self, b: Batch, hold: Hold) -> None:
        torch = _torch.module()
        device = self._device
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
        if hold.pinned:
            release_later(hold, event)
        else:
            event.synchronize()

    def _copy(self, x: Any) -> Any:
        torch = _torch.module()
        if self._side is None:
            self._side = torch.cuda.Stream(self._device)
        with torch.cuda.stream(self._side):
            to = x.to(self._device, non_blocking=True)
            event = torch.cuda.Event()
            event.record()
        return to, event

    def _copy_ahead(self) -> None:
        """Starts to copy the batch that comes next, if it is ready and its memory pinned."""
        if not self._pins or self._stages.own or self._copied is not None:
            return
        s = _lib.BatchStruct()
        if self._lib.larder_loader_peek(self._handle, ctypes.byref(s)) != 0:
            return
        x = _torch.module().from_numpy(x_array(None, s))
        self._copied = (s.number,) + self._copy(x)

    def _forget_copy(self) -> None:
        if self._copied is not None:
            self._copied[2].synchronize()
            self._copied = None

    # ---- feedback -----------------------------------------------------------------------------

    def report(
        self,
        loss: Any = None,
        logits: Any = None,
        embeddings: Any = None,
        batch: Optional[Batch] = None,
    ) -> None:
        """What training says about the samples of a batch (the one at hand, unless given): losses one
        by one, logits (larder takes the cross entropy), embeddings n x d. Arrays or tensors, on any
        device; those on a CUDA device do not make training wait. May come in several calls."""
        self._open()
        b = batch if batch is not None else self._batch
        if b is None:
            raise _lib.BY_CODE[-7]("there is no batch at hand to report about")
        if b.owner is not self._mark:
            raise _lib.BY_CODE[-1]("this batch came from another loader: report it there")
        if not self.listens:
            return
        p = self._desk.open(b)
        for name, value in (("loss", loss), ("logits", logits), ("embeddings", embeddings)):
            if value is not None:
                p.add(name, self._scored(b, value) if name == "embeddings" else value, b.n)

    def feedback(self, module: Any) -> "_Hook":
        """``with loader.feedback(model.avgpool):`` reports what that layer gives as embeddings, for
        every batch trained on inside; also usable without ``with``, until ``.remove()``."""
        return _Hook(self, module)

    def _take_hooked(self, b: Batch) -> None:
        out, self._hooked = self._hooked, None
        if out is None:
            return
        p = self._desk.open(b)
        if "embeddings" not in p.values and out.shape[0] == b.n:
            p.add("embeddings", self._scored(b, out), b.n)

    def _scored(self, b: Batch, embeddings: Any) -> Any:
        """Embeddings, or what their scores are, where those are worked out on their device."""
        if self._graph is None:
            return embeddings
        if not _torch.is_tensor(embeddings):
            embeddings = _torch.module().as_tensor(embeddings)
        return self._graph.score(b.served_host, b.labels_host, embeddings, b.epoch)

    def validate(self, accuracy: float) -> None:
        """Validation accuracy, a fraction of 1, as of now."""
        _lib.check(self._lib.larder_loader_validate(self._open(), float(accuracy)))

    def set_evaluator(self, evaluator: Callable[[Batch], Any]) -> None:
        """Right after opening: f(batch) gives the loss of each of the batch's samples, by a forward
        pass alone. Asked between epochs by recipes that want it (impact)."""

        def call(_: Any, s: Any, loss: Any) -> int:
            try:
                b = self._lent_batch(s.contents)
                out = evaluator(b)
                if _torch.is_tensor(out):
                    out = out.detach().float().cpu().numpy()
                import numpy

                out = numpy.ascontiguousarray(out, "float32").reshape(-1)
                if len(out) != b.n:
                    raise ValueError(f"the evaluator gave {len(out)} losses for {b.n} samples")
                ctypes.memmove(loss, out.ctypes.data, 4 * b.n)
                return 0
            except BaseException as e:  # it passes through C: raised again by next
                self._raised = e
                return -10

        fn = _lib.EVALUATE_FN(call)
        _lib.check(self._lib.larder_loader_evaluator(self._open(), fn, None))
        self._evaluator = fn

    def _lent_batch(self, s: _lib.BatchStruct) -> Batch:
        """A batch that is lent for a call: copied, so that nobody can keep it too long."""
        b = make(None, s, False)
        for name in ("x", "y", "ids", "served", "weight", "kind"):
            value = getattr(b, name).copy()
            if self._tensors:
                value = _torch.module().from_numpy(value)
                if self._device is not None:
                    value = value.to(self._device)
            setattr(b, name, value)
        b.served_host, b.labels_host = b.served_host.copy(), b.labels_host.copy()
        return b

    # ---- state --------------------------------------------------------------------------------

    def state_dict(self) -> Dict[str, Any]:
        """All that is needed to go on after the batches taken so far: the same remaining ids, the
        same augmentation. The batch at hand counts as taken. Each process saves its own; of those
        that share a cache, all do it after the same batch."""
        handle = self._open()
        if self._batch is not None and self.listens:
            self._take_hooked(self._batch)
        if not self._desk.exchange:
            self._desk.flush(handle)
        data, size = ctypes.c_void_p(), ctypes.c_size_t()
        _lib.check(
            self._lib.larder_loader_save(handle, ctypes.byref(data), ctypes.byref(size))
        )
        try:
            state = ctypes.string_at(data, size.value)
        finally:
            self._lib.larder_free(data)
        return {
            "version": 1,
            "epoch": self.epoch,
            "last": self._last,
            "rank": self.rank,
            "world": self.world,
            "together": self._together,
            "batch_size": self.batch_size,
            "taken": self._taken,
            "larder": _state.wrap(state, self._tensors),
            "reports": self._desk.state(self._tensors),
            "graph": self._graph.state_dict() if self._graph else None,
        }

    def load_state_dict(self, state: Union[Dict[str, Any], Sequence[Dict[str, Any]]]) -> None:
        """Goes on where that state stands; right after opening, with the same data set, recipe,
        cache size, seed and batch size. With another number of processes: a list of the states of
        all there were, the same for each; of one alone, what the others reported last is missing."""
        if isinstance(state, (list, tuple)):
            self._load_all(sorted(state, key=lambda s: s.get("rank", 0)))
            return
        if not isinstance(state, dict) or state.get("version") != 1 or "larder" not in state:
            raise _lib.BY_CODE[-4]("not a state of a larder.Loader")
        raw = _state.unwrap(state["larder"])
        handle = self._open()
        _lib.check(self._lib.larder_loader_restore(handle, raw, len(raw)))
        self._middle = False  # the next iter goes on in the middle
        if self._graph:
            self._graph.load_state_dict(state.get("graph"))
        self._wanted_epoch = None
        self._fresh, self._taken = True, None
        same = (state["rank"], state["world"]) == (self.rank, self.world)
        if same and state.get("batch_size") == self.batch_size:
            self._taken = state.get("taken")
            over = int(self._lib.larder_loader_epoch(handle)) + 1
            if self._taken == len(self) and not 0 < self._epochs <= over:
                self._wanted_epoch = over  # nothing is left of that epoch: the next iter is the next
        if same:
            self._desk.load(state["reports"])
            self._last = self._loaded_at = state["last"]

    def _load_all(self, states: List[Dict[str, Any]]) -> None:
        if len(states) == self.world and all(s.get("world") == self.world for s in states):
            self.load_state_dict(states[self.rank])
            return
        if not states or [s.get("rank") for s in states] != list(range(states[0].get("world", 0))):
            raise _lib.BY_CODE[-4]("not the states of all processes of a run, one of each")
        self.load_state_dict(states[0])
        full = sum(s.get("batch_size", 0) for s in states)
        if self.world * self.batch_size == full:
            dealt = full if states[0].get("together") else 0
            self._desk.load_joined([s["reports"] for s in states], dealt, self._open())

    _order_only = False

    @property
    def pin_memory(self) -> bool:
        return bool(self._pins)

    def __repr__(self) -> str:
        state = "" if self._handle else ", closed"
        return (
            f"<larder.Loader {self.uri}, batches of {self.batch_size}, recipe {self.recipe}{state}>"
        )


class _Hook:
    """A forward hook that reports a layer's output as embeddings."""

    def __init__(self, loader: Loader, module: Any) -> None:
        self.loader = loader
        self.handle = module.register_forward_hook(self.hook)

    def hook(self, module: Any, inputs: Any, output: Any) -> None:
        if module.training and self.loader._batch is not None:
            self.loader._hooked = output.detach().reshape(output.shape[0], -1)

    def remove(self) -> None:
        self.handle.remove()

    def __enter__(self) -> "_Hook":
        return self

    def __exit__(self, *what: Any) -> None:
        self.remove()


def _whole(name: str, value: Any, least: Optional[int] = None) -> int:
    try:
        n = operator.index(value)
    except TypeError:
        raise _lib.BY_CODE[-1](f"{name} is a whole number, not {value!r}") from None
    if least is not None and not least <= n < 1 << 32:
        raise _lib.BY_CODE[-1](f"{name} is a whole number from {least} on, not {value!r}")
    return n


def _choice(table: Dict[str, int], name: str, value: str) -> int:
    if value not in table:
        raise ValueError(f"{name} is one of {', '.join(table)}, not {value!r}")
    return table[value]


def _share(cache: str) -> str:
    """Processes of torch.distributed with a cache in Redis have it together: under a name that
    the first of them makes up, unless one is given (``job=``; ``job=0``: each has its own)."""
    kinds = ("redis", "rediss", "redis+unix", "redis-cluster", "rediss-cluster")
    if cache.partition("://")[0] not in kinds or not _torch_distributed():
        return cache  # also one with a cache of each process in front
    at, _, options = cache.partition("?")
    if any(o.startswith(("job=", "shared=")) for o in options.split("&")):
        return cache
    import secrets

    dist = _torch.module().distributed
    group = dist.new_group(backend="gloo")
    name = [secrets.token_hex(8)]
    dist.broadcast_object_list(name, 0, group=group)
    dist.destroy_process_group(group)
    return f"{at}?{options}&job={name[0]}" if options else f"{at}?job={name[0]}"


def _torch_distributed() -> bool:
    return _torch.wanted() and _distributed()


def _distributed() -> bool:
    dist = _torch.module().distributed
    return bool(dist.is_available() and dist.is_initialized())
