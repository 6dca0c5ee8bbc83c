"""The loader: batches out.

The way of a batch: ``__iter__`` begins an epoch; ``_take`` waits for the batch, puts it on hold and makes
arrays of it (_batch.py); ``_stages`` runs functions of one's own (_stages.py) and ``_carrier`` brings it to a
device (_carrier.py); training says something about it (_heard.py, _feedback.py; _graph.py where spider's scores
are worked out on the device); the next ``_take`` gives it back. Between any two, _resumed.py saves and goes
on."""

from __future__ import annotations

import _thread
import atexit
import ctypes
import multiprocessing.util
import os
import sys
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Sequence, Union

from . import _lib, _torch
from ._errors import ArgumentError, StateError
from ._arguments import (
    Arguments,
    cache_of,
    check_names,
    conf_of,
    counts_of,
    decode_of,
    function,
    layout_of,
    recipe_in_order,
    recipe_with,
    replay_of,
    seed_of,
    shared_cache,
    text_of,
    uri_of,
)
from ._batch import Batch, Hold, Maker, named
from ._carrier import Carrier, pin_functions
from ._feedback import Desk, Exchange
from ._fields import apply, fields_text, target_text
from ._graph import Graph, wanted as graph_wanted
from ._habits import Habits
from ._own import Own, is_dataset, job_of, workers_of
from ._resumed import Resumed
from ._shown import Shown
from ._stages import Stages
from ._structure import Structured

_LOOK_UP = 0.1  # seconds between looks at signals while waiting for a batch


_with_workers: "weakref.WeakSet[Loader]" = weakref.WeakSet()


def _close_all() -> None:
    """At the program's end: loaders first, since their threads ask the workers, which end after them."""
    for l in list(_with_workers):
        l.close()


atexit.register(_close_all)  # before multiprocessing's own, which is imported above


def _unraised(of: Any, raised: List[BaseException], call: Any, *given: Any) -> int:
    """call(…), by which the library runs `of`. What that raises arrives as what nobody caught, as a Ctrl-C does at its
    very beginning: it is laid into `raised`."""
    usual = sys.unraisablehook

    def take(unraisable: Any) -> None:
        if unraisable.object is of or repr(of) in (unraisable.err_msg or ""):  # Python 3.13 has but the text
            raised.append(unraisable.exc_value)
        else:
            usual(unraisable)

    sys.unraisablehook = take
    try:
        return int(call(*given))
    finally:
        sys.unraisablehook = usual


def _open(lib: Any, handle: Any, conf: Any) -> int:
    """Opens; while that waits for a daemon or a server, Ctrl-C gets through: its handler runs when the library
    asks whether to go on."""
    raised: List[BaseException] = []

    def still(_: Any) -> bool:
        return not raised  # a call that raises answers anything

    conf.still = _lib.STILL(still)
    rc = _unraised(still, raised, lib.larder_loader_open, ctypes.byref(handle), ctypes.byref(conf))
    if raised:
        if rc >= 0:
            lib.larder_loader_close(ctypes.byref(handle))
        raise raised[0]
    return rc


def _open_own(lib: Any, handle: Any, conf: Any, own: Own, context: Any) -> int:
    """Opens, which runs code of one's own, and that may take its time: Ctrl-C gives it up. Thread and lock are those
    below `threading`: in the middle of its own wait() or start(), Ctrl-C would leave a lock that nobody gets any more,
    and after a join it takes a thread for ended that still runs."""
    answer: List[Any] = []
    over = _thread.allocate_lock()
    over.acquire()

    turn = [True]  # whoever takes it: the thread, or Ctrl-C, which may come while that is started

    def run() -> None:
        try:
            turn.pop()
        except IndexError:
            return
        try:
            with context:
                rc = lib.larder_loader_open(ctypes.byref(handle), ctypes.byref(conf))
            answer.append((rc, "" if rc >= 0 else _lib.errmsg()))  # the sentence is this thread's
        except BaseException as e:
            answer.append(e)
        over.release()

    try:
        _thread.start_new_thread(run, ())
        while not answer:
            over.acquire(timeout=_LOOK_UP)
    except BaseException:
        try:
            turn.pop()  # it has not begun, and will not
        except IndexError:
            _wait_out(own, answer, over)
            if isinstance(answer[0], tuple) and answer[0][0] >= 0:
                lib.larder_loader_close(ctypes.byref(handle))
        raise
    if not isinstance(answer[0], tuple):
        raise answer[0]
    rc, says = answer[0]
    if rc < 0:
        raise own.told(_lib.error(rc, says))
    return int(rc)


def _wait_out(own: Own, answer: List[Any], over: Any) -> None:
    """However often Ctrl-C is pressed: what the thread works with is taken away next."""
    while not answer:
        try:
            own.stop()
            over.acquire(timeout=_LOOK_UP)
        except KeyboardInterrupt:
            pass


class Loader(Shown, Habits, Resumed):
    """Batches of a data set through a training-aware cache.

    >>> loader = larder.Loader("cifar10:data", 256, cache="20%",
    ...                        augment=["crop:size=32,pad=4", "flip", "normalize:preset=cifar10"])
    >>> for epoch in range(30):
    ...     for batch in loader:
    ...         loss = criterion(model(batch.x), batch.y)     # reduction="none"
    ...         loader.report(loss=loss)                      # recipes that do not listen ignore it
    ...         loss.mean().backward()
    ...     loader.validate(accuracy)

    uri         "cifar10:folder", "dir:photos", "tar:shard-{000..099}.tar", "pack:…" or a plain folder;
                or a data set of your own:
    dataset     anything with __getitem__ and __len__. What dataset[i] gives is cached (tensors, arrays,
                numbers, text, and tuples, lists and dicts of them), and batches are as default_collate
                makes them. docs/guide/own.md
    encoded     f(dataset, i) -> bytes, or the name of such a method: these are cached instead, so that
                repeats are decoded and augmented afresh by
    decode      f(bytes, i) -> sample. Of larder's own pictures, with device=: "cpu", "gpu", or "auto", which decodes
                as many on the GPU as make it and the cores finish together; pixels are the cores', or nvJPEG's
                with ":fast" behind it (docs/guide/gpu.md)
    batch_size  samples a batch and process
    recipe      which samples come and which stay in memory; ``larder list`` and docs/guide/plugins.md. "minio"
                serves each once an epoch; with "rotate" and others some come more often than others
    cache       "20%" of the data set, "8GiB", "0", or "unix:" for one in the daemon: shared with other
                jobs, and by the processes of this one (docs/guide/share.md)
    seed        of order and augmentation: the same seed gives the same run, with recipes that measure
                nothing (README, "What each recipe changes"); see replay for the others
    augment     native stages, as a list or a text, or torchvision's Compose, which becomes such a text;
                functions of one's own may end the list: they get one sample as a NumPy array
                (torchvision's with a part that larder has no stage for is such a function, and gets PIL images)
    transform   such a function by itself; with dataset= it gets a sample and gives one
    pil         functions get PIL images, as they are, and PIL decodes what larder cannot; no native stages
    collate_fn  f(list of samples) -> batch, instead of stacking them; batch.data is what it gave
    workers     processes that run all that is one's own, with seeds by sample, so that results do not
                depend on how many there are. None: as many as there are cores; 0: larder's threads
                do, one sample at a time
    worker_init_fn, start   as a DataLoader's; "fork", "spawn" or "forkserver"
    identity    a text that tells this data set from others, for saved states
    shuffle     False: in the order of ids, for validation
    drop_last   leaves out the last, short batch
    dtype, layout   "float32", "uint8", "float16" or "bfloat16"; "NCHW", "NHWC", or "channels_last": n x c x h x w as
                torch.channels_last has it in memory
    views       pictures made of each sample, each by chance of its own: x is n x views x …
    device      where x and y go, copied beside training ("cuda", "cuda:1"); None: they stay. Pictures travel as bytes
                and are normalised and cast there
    static      with a CUDA device: x, y and weight of all batches lie in the same memory, for CUDA graphs; what a
                batch had is gone with the next one
    pin         batch memory is locked in place; None: where a CUDA device is there
    rank, world     this process among those of the job; None: as torch.distributed says
    threads     that read and decode; 0: as many as there are cores
    prefetch, ahead, lag, inflight   as in ``larder train --help``; 0: they are chosen
    on_bad      "fail", "skip" or "replace" a sample that cannot be read
    cage        True, or limits as "memory=1GiB,seconds=30": pictures and sounds are decoded in processes that may
                do nothing else, and one that crashes or runs away makes a bad sample (docs/guide/cage.md)
    epochs      after so many there is nothing more; 0: no end
    fields      parts of a sample, as ["jpg", "json.label"] or {"mask": "seg.png:mask"}: ``batch["json.label"]``
                (docs/guide/fields.md); None: the picture and its label
    target      what y is: a field ("json.label"), a table ("csv:labels.csv?key=name&value=label"), or a function
                of a sample's fields
    evaluator   f(batch) -> losses, for recipes that look at losses between epochs (impact)
    record      a file for larder suggest and larder sim --replay; None: as LARDER_RECORD says, "": none
    replay      an earlier run to repeat to the bit, whatever the pace: what it measured (rotate's h=auto,
                plan=auto) is done again. A state_dict of it, its record, or a folder of larder train --out
    score_on_device     spider: neighbours are counted where the embeddings are, by matrix products; None:
                where batches go to a CUDA device
    torch       False: NumPy arrays even though PyTorch is there

    ``iter(loader)`` starts an epoch, or goes on where a loaded state stands. Breaking off in the middle
    is fine: the next ``iter`` starts the next epoch."""

    if not TYPE_CHECKING:  # which sees what __init__ takes
        __signature__ = Arguments()

        def __new__(cls, *args: Any, **given: Any) -> "Loader":
            check_names(cls, given)
            return super().__new__(cls)

    def __init__(
        self,
        uri: Any = None,
        batch_size: int = 256,
        recipe: str = "minio",
        cache: Union[str, int] = "20%",
        seed: int = 0,
        augment: Union[None, str, Sequence[Any]] = None,
        *,
        dataset: Any = None,
        encoded: Union[None, str, Callable[[Any, int], bytes]] = None,
        decode: Union[None, str, Callable[[bytes, int], Any]] = None,
        transform: Optional[Callable[[Any], Any]] = None,
        pil: bool = False,
        collate_fn: Optional[Callable[[List[Any]], Any]] = None,
        workers: Optional[int] = None,
        worker_init_fn: Optional[Callable[[int], None]] = None,
        start: str = "fork",
        identity: Optional[str] = None,
        shuffle: bool = True,
        drop_last: bool = False,
        dtype: Any = "float32",
        layout: str = "NCHW",
        views: int = 1,
        device: Any = None,
        static: bool = False,
        pin: Optional[bool] = None,
        rank: Optional[int] = None,
        world: Optional[int] = None,
        threads: int = 0,
        prefetch: int = 0,
        ahead: int = 0,
        lag: int = 0,
        inflight: int = 0,
        on_bad: str = "fail",
        cage: Union[bool, str] = False,
        parts: str = "read",
        epochs: int = 0,
        fields: Union[None, str, Sequence[str], Dict[str, str]] = None,
        target: Any = None,
        evaluator: Optional[Callable[[Batch], Any]] = None,
        record: "Union[None, str, os.PathLike[str]]" = None,
        replay: Any = None,
        score_on_device: Optional[bool] = None,
        torch: Optional[bool] = None,
    ) -> None:
        super().__init__()
        counts = counts_of(batch_size=batch_size, threads=threads, prefetch=prefetch, ahead=ahead, lag=lag,
                           inflight=inflight, epochs=epochs)
        if dataset is None and is_dataset(uri):
            uri, dataset = None, uri
        if (uri is None) == (dataset is None):
            raise ArgumentError("a data set is named by a text, uri=, or given itself, dataset=: one of the two")
        self.uri = uri_of(uri) if dataset is None else type(dataset).__name__
        self.batch_size, self.drop_last = counts["batch_size"], bool(drop_last)
        self.seed, self.shuffle = seed_of(seed), shuffle
        self.recipe = recipe_in_order(text_of("recipe", recipe), shuffle)
        cache = cache_of(cache)
        function("evaluator", evaluator)
        self._stages = Stages(augment, transform)
        self._tensors, to = _where(device, torch)
        self.rank, self.world = _torch.place(rank, world)
        on_device = graph_wanted(self.recipe, to, self.world, score_on_device)
        if on_device:
            self.recipe = recipe_with(self.recipe, "signal=given")
        if self.world > 1:
            cache = shared_cache(cache, self.recipe, self.world)
        pins = pin_functions(pin, self._tensors)
        layout, self._last_channels = layout_of(layout)
        on_gpu, decode = decode_of(decode)
        cuda = to is not None and to.type == "cuda"
        if (static or on_gpu not in (None, "cpu")) and not cuda:
            raise ArgumentError(f"{'static=True' if static else f'decode={on_gpu!r}'} is for batches on a CUDA "
                                'device: name it, device="cuda"')
        if cuda:
            _torch.show_libraries()
        if on_gpu not in (None, "cpu"):
            _torch.check_queues()
        self._carrier = Carrier(to, pins, bool(static), self._last_channels)
        earlier, decided = replay_of(replay)
        aim, self._target = target_text(target)
        conf = conf_of(
            counts, source=self.uri, recipe=self.recipe, cache=cache, augment=self._stages.native,
            seed=seed, drop_last=drop_last, rank=self.rank, world=self.world, dtype=self._stages.dtype or dtype,
            layout=layout, views=views, on_bad=on_bad, parts=parts, record=record,
            replay=earlier, fields=fields_text(fields), target=aim, cage=cage, decode=on_gpu,
            device=f"cuda:{_torch.number_of(to)}" if cuda else None,
        )
        conf.order_only, conf.patience = self._order_only, _LOOK_UP
        if pins:
            conf.pin, conf.unpin = pins
        self._conf = conf
        self._decided = decided
        if dataset is not None and self._stages.native:
            raise ArgumentError(
                "augment is for pictures that larder decodes; what becomes of samples of your own is said by transform="
            )
        pil = bool(pil or self._stages.unknown)
        if pil and self._stages.native:
            raise ArgumentError("pil=True hands out pictures as they are: leave the stages of augment out")
        job = job_of(dataset, encoded, decode, self._stages.own, collate_fn, pil)
        if (static or self._last_channels) and (
            job.makes or dataset is not None or conf.fields or conf.target or self._target is not None
        ):
            raise ArgumentError(f"{'static=True' if static else 'layout=channels_last'} is about x of pictures: it does "
                                "not go with dataset=, fields=, target= or functions of one's own")
        if conf.fields or conf.target or self._target is not None:
            if dataset is not None or collate_fn is not None:
                raise ArgumentError(f"fields and target are for larder's own sources, and do not go with "
                                    f"{'dataset' if dataset is not None else 'collate_fn'}=")
            if pil:
                raise ArgumentError(f"augment: torchvision's {self._stages.unknown}; with fields= there are native "
                                    "stages alone" if self._stages.unknown else "pil=True does not go with fields=")
            job.functions = []  # they get x, in the training thread
            if self._stages.own:
                _lib.warn(["with fields= one's own functions run in the training thread; workers run them for "
                           "Loader(dataset=larder.Dataset(uri, cache=\"0\", fields=…), transform=…)"], 2)
        try:
            self._make_own(job, counts, workers_of(workers), start, function("worker_init_fn", worker_init_fn),
                           identity)
            if self._own is not None:
                _with_workers.add(self)
            self._open_new()
            self._graph = Graph(self.samples) if on_device else None
            about = _lib.about(self._handle)
            self.listens, self._relies, self._dealt = about.listens, about.relies, about.together
            self._compares = about.compares
            self._recorded = bool(os.environ.get("LARDER_RECORD") if record is None else record)
            # A recipe that only likes reports makes do with those of its own rows: nobody waits for others.
            tells = self.listens and (self._relies or self._recorded) and self.world > 1 and _torch.distributed()
            slack = lag - (ahead or prefetch or 4) if lag else 2
            full = self.world * self.batch_size if self._dealt else 0
            self._desk = Desk(slack, Exchange(full) if tells else None, self._dealt)
            self._epochs = counts["epochs"]
            if self._relies and not self._recorded and self.world > 1 and not tells and not self._dealt:
                _torch.warn_unheard(self.world)
            if evaluator is not None:
                self.set_evaluator(evaluator)
            if self._stages.unknown and self._own is not None:
                _lib.warn([f"augment: torchvision's {self._stages.unknown}; so all of it runs on PIL images, "
                           f"{self._own.shown} (loader.augment says what runs where)"], 2)
            self._tell_notes(2)
        except BaseException:
            self._let_go()
            raise

    @property
    def augment(self) -> str:
        """What is done to a sample: native stages, as larder's text, then functions of one's own by name."""
        return self._stages.shown

    def _make_own(self, job: Any, counts: Any, workers: Optional[int], start: str, init: Any,
                  identity: Any) -> None:
        """Who runs what is one's own, if there is anything. Before there is any thread of larder's."""
        conf = self._conf
        if job.dataset is None and not job.makes:
            return
        own = self._own = Own(job, workers=workers, start=start, init=init, seed=self.seed, identity=identity)
        own.fill(conf)
        if not counts["threads"]:  # a thread each waits for a worker
            conf.threads = own.workers + 1
        if not counts["inflight"] and own.source is not None:
            conf.inflight = own.workers

    def _end_own(self) -> None:
        if self._own is not None:
            self._own.close()
            self._own = None  # at last: what Ctrl-C interrupts, the next close goes on with

    def _check(self, rc: int) -> int:
        """As _lib.check, with what one's own code said."""
        if rc >= 0 or self._own is None:
            return _lib.check(rc)
        raise self._own.told(_lib.error(rc))

    def _open_new(self) -> None:
        handle = ctypes.c_void_p()
        try:
            if self._own is not None:
                rc = _open_own(self._lib, handle, self._conf, self._own, self._carrier.context())
            else:
                with self._carrier.context():
                    rc = _open(self._lib, handle, self._conf)
            self._check(rc)
            if self._decided is not None:
                _lib.check(
                    self._lib.larder_loader_restore(handle, _lib.DECISIONS, self._decided, len(self._decided))
                )
            if self._evaluator is not None:
                _lib.check(self._lib.larder_loader_evaluator(handle, self._evaluator, None))
            self._handle = handle.value
        except BaseException:  # or Ctrl-C, right after it was open: its threads ask those whom the caller ends next
            self._handle = None
            self._lib.larder_loader_close(ctypes.byref(handle))
            raise

    def _begin_anew(self) -> int:
        """The same loader as it was right after opening, for a state that is loaded into one in use."""
        if self.world > 1 or self._recorded:
            why = "is one of several processes" if self.world > 1 else "records"
            raise StateError(
                f"a loader that {why} takes a state right after opening: close() this one, open it again and load "
                "the state before the first batch"
            )
        with self._taking:
            try:
                fresh = self._let_go(workers_too=False)
                self._last = self._served_of = self._loaded_at = self._hooked = None
                self._open_new()
            except BaseException:
                if not self._handle:
                    self._end_own()
                raise
            _lib.warn(fresh, 5)  # at last: a warning may be an error
        return self._open()

    def __enter__(self) -> "Loader":
        return self

    def __repr__(self) -> str:
        state = "" if self._handle else ", closed"
        return (
            f"<larder.Loader {self.uri}, batches of {self.batch_size}, recipe {self.recipe}{state}>"
        )

    def __iter__(self) -> Iterator[Batch]:
        return self._alone(self._iter)

    def _iter(self) -> "Epoch":
        more = self._begin()
        self._turns += 1
        return Epoch(self, self._turns, more)

    def _begin(self) -> bool:
        """Of the epoch that is due. False: there is none."""
        handle = self._open()
        self._give_back()
        if self._has_ended(handle):
            self._note_end()
        self._asking = False
        coming = _lib.about(handle).epoch
        wanted = self._wanted_epoch
        if self._middle and wanted is None:
            wanted = coming + 1  # broken off: that epoch is over
            if 0 < self._epochs <= wanted:
                return False
        if wanted is None or (wanted == coming and not self._middle):
            self._wanted_epoch = None
            return True
        self._desk.flush(handle)
        self._carrier.forget()
        _lib.check(self._lib.larder_loader_begin(handle, wanted))
        self._wanted_epoch = None
        self._middle = False
        self._taken = 0
        return True

    def _note_end(self) -> None:
        self._taken = 0
        self._middle = self._asking = False

    def _next_of(self, epoch: "Epoch") -> Optional[Batch]:
        """The next batch of an iterator, or None: its epoch is over."""
        if epoch.turn != self._turns:
            self._open()
            raise StateError(
                "another iteration over this loader has begun; one at a time is served"
            )
        if self._wanted_epoch is not None and not epoch.begun:
            self._begin()  # set_epoch came after iter, but before the first batch
        epoch.begun = True
        b = self._take()
        if b is None and self._fresh:  # saved at an epoch's end: nothing was left of it
            self._note_end()
            b = self._take()
        if b is None:  # the iterator first: Ctrl-C between the two must not let it go on with the next epoch
            self._fresh = epoch.more = False
            self._note_end()
        return b

    def _take(self) -> Optional[Batch]:
        """The next batch, or None: the epoch (or everything) is over."""
        handle = self._open()
        if self._asking and self._batch is not None:  # Ctrl-C kept it from the loop
            self._asking = False
            return self._batch
        if not (self._asking and self._lent):  # else Ctrl-C came when C had given a batch: it is made now
            self._give_back()
            if self._loaded_at is not None:  # the turn of the batch that was at hand when it was saved
                self._desk.turn(handle, self._loaded_at, True)
                self._loaded_at = None
            if self._asking and self._has_ended(handle):
                return None
            self._asking = True
            while True:  # looks up now and then, so that Ctrl-C gets through
                rc = self._next(handle)
                if rc != _lib.NOT_YET:
                    break
            if self._raised is not None:
                raised, self._raised = self._raised, None
                raise raised
            self._check(rc)
            if rc in (_lib.END_EPOCH, _lib.END):  # a warning may be an error: the epoch ends all the same
                if self._served_of is not None:
                    self._note_silence(lambda: self.figures(self._served_of))
                return None
        self._middle, self._at_epoch = True, self._lent.contents.epoch
        self._fresh = False
        try:
            b = self._brought(handle)
        except Exception:  # a function of one's own: the batch is not tried again
            self._asking = False
            raise
        self._last, self._served_of, self._batch = b.number, b.epoch, b
        self._taken = None if self._taken is None else self._taken + 1
        self._asking = False
        return b

    def _next(self, handle: int) -> int:
        lent = ctypes.byref(self._lent)
        if self._evaluator is None:
            return int(self._lib.larder_loader_next(handle, lent))
        raised: List[BaseException] = []
        rc = _unraised(self._evaluates, raised, self._lib.larder_loader_next, handle, lent)
        if raised:  # and the library had any answer
            self._raised = raised[0]
        return rc

    def _brought(self, handle: int) -> Batch:
        held = Hold(self._carrier.pinned)
        _lib.check(self._lib.larder_loader_hold(handle, self._lent, ctypes.byref(held.handle)))
        s = _lib.BatchStruct.from_address(held.handle.value or 0)
        if self._maker is None:
            self._maker = self._maker_of(s, self._tensors and not self._stages.own)
        b = self._made(self._maker, held, s)
        b.owner = self._mark
        if self._stages.own and self._own is None:
            self._stages.run_batch(b, self._tensors)
        if self._carrier.device is not None:
            self._carrier.carry(b, held, handle)
        return b

    def _maker_of(self, s: _lib.BatchStruct, tensors: bool) -> Any:
        own = self._own
        return Structured(s, self._tensors, own.whole) if own else Maker(s, tensors, self._last_channels)

    def _made(self, maker: Any, held: Optional[Hold], s: _lib.BatchStruct) -> Batch:
        b: Batch = maker.make(held, s)
        if self._target is not None:
            b.y = apply(self._target, b.fields, b.n, self._tensors)
        return b

    def _give_back(self) -> None:
        """The batch at hand is done with: its report goes on its way, its place is free. What is at hand
        is what C has written into ``_lent``, so that Ctrl-C at no moment leaves a batch behind."""
        b, lent = self._batch, self._lent
        if not lent:
            return
        if b is None:  # Ctrl-C, or one's own function, came before it was made
            self._middle, self._taken, self._at_epoch = True, None, lent.contents.epoch
        problem: Optional[Exception] = None
        try:  # Ctrl-C leaves all as it is, for the next time
            try:
                if b is not None and self.listens:  # embeddings alone, which no loss is made of
                    self._take_hooked(b)
            finally:
                if self.listens and self._desk.exchange:  # silent processes take part too, and those where that failed
                    self._desk.open(b if b is not None else named(lent.contents))
                if self.listens or self._compares:
                    self._desk.turn(self._handle, lent.contents.number, True)
        except Exception as e:
            problem = e
        self._asking = False  # from here on it may be gone
        with self._carrier.context():
            rc = self._lib.larder_loader_done(self._handle, lent)
        self._lent, self._batch = _lib.BatchPointer(), None
        if problem is not None:
            raise problem
        if rc != StateError.code:  # else Ctrl-C came right after it was given back
            _lib.check(rc)
        self._carrier.given_back(self._handle, self._own is None)


class Epoch:
    """The batches of an epoch. What interrupts ``next`` (Ctrl-C, a sample that cannot be read, an error in
    a function of one's own) does not end it. Threads that share one get a batch each."""

    def __init__(self, loader: Loader, turn: int, more: bool) -> None:
        self.loader, self.turn, self.more, self.begun = loader, turn, more, False

    def __iter__(self) -> "Epoch":
        return self

    def __next__(self) -> Batch:
        if not self.more:
            raise StopIteration
        loader, b = self.loader, None
        loader._open()
        try:
            with loader._taking:
                loader._open()
                loader._inside += 1
                try:
                    b = loader._next_of(self) if self.more else None
                    if b is None:
                        self.more = False
                        if loader._own is not None:
                            _lib.warn(loader._own.notes(), 2)
                        loader._tell_notes(3)  # at last: a warning may be an error
                        raise StopIteration
                finally:
                    loader._inside -= 1
                    if loader._ending and not loader._inside:
                        loader._end()
        except BaseException:
            loader._asking = loader._asking or b is not None and b is loader._batch
            raise
        return b


def _where(device: Any, torch: Optional[bool]) -> Any:
    """Are batches tensors, and the device they go to, or None."""
    tensors, to = _torch.wanted(torch), None
    if device is not None and str(device) != "cpu":
        tensors, to = True, _torch.device(device)
    if tensors:
        _torch.module()
    return tensors, to
