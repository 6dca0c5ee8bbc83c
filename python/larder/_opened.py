"""A loader of the library in Python's hands: the handle, whose process it is, and its end. What a Loader
does with it is in _loader.py (batches), _heard.py (feedback), _resumed.py (state) and _shown.py (figures)."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from typing import Any, Callable, List, Optional, TypeVar

from . import _lib
from ._errors import StateError
from ._arguments import whole
from ._batch import Batch
from ._carrier import Carrier
from ._feedback import Desk
from ._graph import Graph

Answer = TypeVar("Answer")


class Opened:
    """The handle, and what the parts of a Loader have in common."""

    recipe: str
    batch_size: int
    rank: int
    world: int
    shuffle: bool
    listens: bool  # does the recipe make use of reports?
    _relies: bool  # and is it another one without them?
    _compares: bool  # or are their losses shown, fresh beside reused?
    _dealt: bool  # are the rows of the batch of all processes dealt out, as where they share a cache?
    _tensors: bool
    _carrier: Carrier
    _desk: Desk
    _graph: Optional[Graph]
    _epochs: int  # after so many all is over; 0: no end

    def __init__(self) -> None:
        self._lib: Any = _lib.load()
        self._handle: Any = None  # an address; None: closed
        self._pid = os.getpid()
        self._taking = threading.RLock()  # held by who takes a batch, or ends it all
        self._inside = 0  # calls of next under way, by who holds it
        self._ending = False  # as soon as they are over
        self._callers: List[int] = []  # threads in calls that may come beside next
        self._lent = _lib.BatchPointer()  # the C batch at hand, and what Python made of it
        self._batch: Optional[Batch] = None
        self._maker: Any = None
        self._last: Optional[int] = None  # number of the batch taken last
        self._served_of: Optional[int] = None  # its epoch
        self._loaded_at: Optional[int] = None  # and of the one that was at hand when a state was saved
        self._middle = False  # of an epoch
        self._at_epoch: Optional[int] = None  # of the last batch; None: not known
        self._asking = False  # C was asked for a batch, and what it said is not noted yet
        self._taken: Optional[int] = 0  # batches of this epoch; None: not known
        self._fresh = False  # a state was loaded, and nothing taken since
        self._given = False  # one was given, though Ctrl-C may have come before all of it was noted
        self._wanted_epoch: Optional[int] = None
        self._turns = 0  # iterators so far: only the newest is served
        self._desk = Desk(0, None)  # until the library has said what it hears
        self._mark = object()  # that batches of this loader carry
        self._hooked: Any = None  # what a hooked layer gave for the batch at hand
        self._evaluator: Any = None  # as the library has it
        self._evaluates: Any = None  # and what that calls
        self._noted = 0  # sentences that are no errors, so far
        self._raised: Optional[BaseException] = None  # by the evaluator, inside C
        self._own: Any = None  # data set and functions of one's own, and who runs them

    def _open(self) -> int:
        if self._pid != os.getpid():
            raise StateError(
                "this loader was opened before a fork; open one in each process"
            )
        if self._in_own_code():
            raise StateError(
                "code of one's own asks the loader that runs it, which may be waiting for that code: ask in the "
                "thread that trains, and hand over what the code is to know"
            )
        if self._ending and not self._inside and threading.get_ident() not in self._callers:
            with self._taking:  # closed by one's own code meanwhile
                self._end()
        if not self._handle:
            raise StateError("this loader is closed")
        return self._handle

    def _in_own_code(self) -> bool:
        """In a thread of larder's, which whoever takes a batch waits for."""
        own = self._own
        return own is not None and own.crew.inside()

    def _has_ended(self, handle: int) -> bool:
        """Has C said that the epoch is over, or begun another, and Ctrl-C or a warning come before that was noted?"""
        return self._middle and self._at_epoch not in (None, _lib.about(handle).epoch)

    def _beside(self, call: Callable[..., Answer], *given: Any) -> Answer:
        """call(handle, …), which may come beside next and from any thread: who ends the loader waits for it."""
        self._open()
        return self._called(call, *given)

    def _called(self, call: Callable[..., Answer], *given: Any) -> Answer:
        me = threading.get_ident()
        try:
            self._callers.append(me)  # inside: Ctrl-C right after it leaves nobody in the list
            handle = self._handle
            if not handle:
                raise StateError("this loader is closed")
            return call(handle, *given)
        finally:
            if me in self._callers:
                self._callers.remove(me)

    def _alone(self, call: Callable[..., Answer], *given: Any) -> Answer:
        """call(…), beside which no other thread takes a batch or ends the loader: it ends after it, where this one
        is told to meanwhile (by a signal's handler, or an evaluator). As next does."""
        self._open()
        with self._taking:
            self._inside += 1
            try:
                return call(*given)
            finally:
                self._inside -= 1
                if self._ending and not self._inside:
                    self._end()

    def _wake(self) -> None:
        """Whoever waits for a batch."""
        try:
            self._called(self._lib.larder_loader_cancel)
        except StateError:  # another thread was quicker to end it
            pass

    def _tell_notes(self, stacklevel: int) -> None:
        """What the library has to say that is no error, once."""
        fresh = _lib.notes(self._handle, self._noted)
        self._noted += len(fresh)
        _lib.warn(fresh, stacklevel + 1)

    @property
    def samples(self) -> int:
        """Of the whole data set."""
        return int(self._beside(_lib.about).samples)

    @property
    def epoch(self) -> int:
        """The epoch of the batch that comes next."""
        if self._wanted_epoch is not None:
            return self._wanted_epoch
        return int(self._beside(_lib.about).epoch)

    def set_epoch(self, epoch: int) -> None:
        """The next ``iter`` is this epoch, as with a DistributedSampler. In the order 0, 1, 2 …, or
        at the epoch of a loaded state, it changes nothing."""
        self._open()
        self._wanted_epoch = whole("epoch", epoch)

    def __len__(self) -> int:
        """Batches of the epoch, for this process."""
        return int(self._beside(_lib.about).batches)

    def close(self) -> None:
        """Ends threads and gives memory back; arrays that are still in use stay valid."""
        if self._pid != os.getpid():
            self._handle = None  # a forked child leaves it to its parent
            return
        if not self._handle and self._own is None and not self._inside:
            return
        if self._in_own_code():
            self._ending = True
            self._wake()
            return
        taken: List[bool] = []
        try:
            taken.extend(map(self._taking.acquire, [False]))  # noted by C: Ctrl-C never comes between the two
            if not taken[0]:  # another thread waits for a batch: wake it
                self._wake()
            with self._taking:
                inside = self._inside or threading.get_ident() in self._callers
                if inside:  # called by next itself, a look, or another close: an evaluator, a signal's handler
                    self._wake()
                    self._ending = True
                else:
                    self._end()
        finally:
            if taken == [True]:
                self._taking.release()

    def _end(self) -> None:
        _lib.warn(self._let_go(), 4)  # at last: a warning may be an error

    def _let_go(self, workers_too: bool = True) -> List[str]:
        """Ctrl-C before the library has closed it: nothing has ended. Later: all has, as without. What the
        library still had to say."""
        fresh: List[str] = []
        self._inside += 1  # first: a signal's handler may close it, too
        try:
            closing, self._handle = ctypes.c_void_p(self._handle), None
            try:
                self._wait_for_callers()
                if closing:
                    fresh = _lib.notes(closing.value or 0, self._noted)
                    self._carrier.forget()
                    self._lib.larder_loader_close(ctypes.byref(closing))
            finally:
                self._handle = closing.value
                if not closing:
                    self._turns += 1
                    self._lent, self._batch = _lib.BatchPointer(), None
                    self._desk.pending.clear()
                    if workers_too:
                        self._end_own()
        finally:
            self._inside -= 1
        return fresh

    def _wait_for_callers(self) -> None:
        me = threading.get_ident()
        while any(caller != me for caller in list(self._callers)):
            time.sleep(0.001)

    def _end_own(self) -> None:
        """Nobody needs workers any more."""

    def __exit__(self, *what: Any) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            if self._pid == os.getpid() and self._in_own_code():  # which its end waits for
                threading.Thread(target=self.close, name="larder-close", daemon=False).start()
            else:
                self.close()
        except Exception:
            pass
        except BaseException:  # Ctrl-C: there is no later
            self.close()
            raise

    def __reduce__(self) -> Any:
        raise TypeError(
            "a larder.Loader has threads and stays in its process; give each process its own, or use "
            "larder.Dataset in a DataLoader's workers"
        )
