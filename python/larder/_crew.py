"""Who runs one's own functions: a crew of worker processes, or larder's threads. The library asks, and Python only
starts and ends it; the process that trains has no part in it."""

from __future__ import annotations

import ctypes
import fcntl
import multiprocessing.process
import os
import re
import socket
import sys
import threading
import warnings
import weakref
from typing import Any, Callable, Dict, List, Optional

from . import _lib, _parcel
from ._errors import ArgumentError, Error, StateError
from ._worker import JOIN, MAKE, READ, Chance, Failed, Job, answers, failure, main

_F_ADD_SEALS, _F_SEAL_SHRINK = 1033, 2
STARTS = ("fork", "spawn", "forkserver")


_workers: "weakref.WeakSet[Any]" = weakref.WeakSet()


def _leave_to_the_parent() -> None:
    """In a forked child, at whose end multiprocessing would end its parent's workers as if they were its own."""
    getattr(multiprocessing.process, "_children", set()).difference_update(list(_workers))


os.register_at_fork(after_in_child=_leave_to_the_parent)


class _Ends(ctypes.Structure):
    """larder_crew_worker"""

    _fields_ = [("socket", ctypes.c_int), ("into", ctypes.c_int), ("out", ctypes.c_int), ("process", ctypes.c_int64)]


def _memory(name: str) -> int:
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    fcntl.fcntl(fd, _F_ADD_SEALS, _F_SEAL_SHRINK)
    return fd


def traced(e: Error, trace: Callable[[int], str]) -> Error:
    """The error of a sample, with what its worker said of it."""
    m = re.search(r"sample (\d+)", str(e))
    text = trace(int(m.group(1))) if m else ""
    if not text:
        return e
    full = type(e)(f"{e}\n\nThere it was:\n{text.rstrip()}")
    full.__cause__ = e.__cause__
    return full


class Crew:
    """Worker processes. They are started when it is made, before the loader has any thread."""

    def __init__(self, job: Job, workers: int, start: str, init: Optional[Callable[[int], None]], samples: int,
                 seed: int) -> None:
        self._lib: Any = _lib.load()
        _lib.declare(self._lib, _PROTOTYPES)
        self.handle: Any = ctypes.c_void_p()
        self.processes: List[Any] = []
        self._pid = os.getpid()
        context = multiprocessing.get_context(start)
        ends: List[Any] = []
        by_signal = start != "forkserver" and threading.current_thread() is threading.main_thread()
        try:
            for k in range(workers):
                here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                into, out = _memory("larder-asks"), _memory("larder-answers")
                ends.append([here.detach(), into, out, 0])
                send: Any = [there.fileno(), into, out]
                not_ours: List[int] = [e[0] for e in ends] if start == "fork" else []
                if start == "fork":
                    not_ours += [fd for e in ends[:-1] for fd in e[1:3]]
                else:
                    send = [_Sent(fd) for fd in send]
                p = context.Process(  # type: ignore[attr-defined]
                    target=main,
                    args=(job, k, workers, seed, init, *send, self._pid, by_signal, not_ours),
                    daemon=True,
                    name=f"larder worker {k}",
                )
                try:
                    _start(p, start)
                finally:
                    there.close()
                _workers.add(p)
                ends[-1][3] = p.pid
                self.processes.append(p)
            given = (_Ends * workers)(*[_Ends(*e) for e in ends])
            ends = []  # they are taken over
            _lib.check(self._lib.larder_crew_open(ctypes.byref(self.handle), given, workers, samples, seed))
        except BaseException:
            for e in ends:
                for fd in e[:3]:
                    os.close(fd)
            self.close()
            raise

    @property
    def arg(self) -> Any:
        return self.handle

    def function(self, task: int) -> Any:
        """The address of the function that does it."""
        name = {READ: "read", MAKE: "make", JOIN: "join"}[task]
        return ctypes.cast(getattr(self._lib, f"larder_crew_{name}"), ctypes.c_void_p)

    @property
    def interrupt(self) -> Any:
        return ctypes.cast(self._lib.larder_crew_interrupt, ctypes.c_void_p)

    def trace(self, i: int) -> str:
        out = ctypes.create_string_buffer(1 << 14)
        if not self.handle or self._pid != os.getpid():
            return ""
        self._lib.larder_crew_traced(self.handle, i, out, len(out))
        return out.value.decode("utf-8", "replace")

    def raised(self) -> Optional[BaseException]:
        return None

    def inside(self) -> bool:
        """Does this thread run one's own code, for larder?"""
        return False

    def draws(self) -> bool:
        """Does reading a sample draw random numbers?"""
        return bool(self._lib.larder_crew_draws(self.handle))

    def stop(self) -> None:
        self._lib.larder_crew_interrupt(self.handle, True)

    def close(self) -> None:
        """After the loader is. Workers that are in the middle of something are not waited for long."""
        _end(self._lib, self.handle, self.processes, self._pid)


def _start(p: Any, start: str) -> None:
    """Starts a process; what stands in the way of it is said in our words."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*multi-threaded.*fork.*", category=DeprecationWarning)
            p.start()
    except AssertionError as e:  # a DataLoader's worker, for one
        raise StateError(
            f"no worker processes can be started from here ({e}): workers=0 runs dataset, decode and transform in "
            "larder's threads"
        ) from e
    except Exception as e:
        if start == "fork" or isinstance(e, OSError):
            raise
        if "bootstrapping" in str(e):  # multiprocessing's word for it
            raise StateError(
                f'start={start!r} runs the main module again in each worker: what opens a loader there stands below '
                'if __name__ == "__main__":'
            ) from None
        raise ArgumentError(
            f"start={start!r} sends dataset, decode, transform and collate_fn to the workers by pickle, and something "
            f"of them cannot be: {type(e).__name__}: {e}. Functions of a module can; or start=\"fork\""
        ) from e


def _end(lib: Any, handle: Any, processes: List[Any], pid: int) -> None:
    """Ends a crew: sockets first, then whoever has not heard."""
    if pid != os.getpid():
        processes.clear()
        return
    if handle:
        lib.larder_crew_close(ctypes.byref(handle))
    for wait, harder in ((1.0, "terminate"), (1.0, "kill"), (None, "")):
        for p in list(processes):
            p.join(wait)
            if p.exitcode is None and harder:
                wait = 0  # the others had as long
                continue
            processes.remove(p)  # first: Ctrl-C after close() must not leave a closed one there
            if p.exitcode is not None:  # else Ctrl-C came when it had ended and that was not noted: nobody knows how
                p.close()
        for p in processes:
            getattr(p, harder)()


class _Sent:
    """A descriptor on its way to a process that is not forked."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __reduce__(self) -> Any:
        from multiprocessing import reduction

        return _received, (reduction.DupFd(self.fd),)


def _received(dup: Any) -> Any:
    return dup


# ---- no workers ---------------------------------------------------------------------------------


class Read(ctypes.Structure):
    """larder_read"""

    _fields_ = [("buf", ctypes.c_void_p), ("code", ctypes.c_int), ("why", ctypes.c_char * 256)]


READ_FN = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64), ctypes.c_size_t, ctypes.POINTER(Read)
)
MAKE_FN = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint64),
    ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t, ctypes.POINTER(Read),
)
NAME_FN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t)

_MASK = (1 << 64) - 1


def _mix(z: int) -> int:
    """larder__mix64"""
    for _ in range(2):
        z = ((z ^ z >> 32) * 0xD6E8FEB86659FD93) & _MASK
    return z ^ z >> 32


class Here:
    """The same in larder's threads, one after the other, each holding Python's lock: to look for faults with a
    debugger, or where no process may be started. The generators of this process are put back after each call; what
    another thread draws meanwhile is drawn from them."""

    def __init__(self, job: Job, init: Optional[Callable[[int], None]], samples: int, seed: int) -> None:
        self._lib: Any = _lib.load()
        _lib.declare(self._lib, _PROTOTYPES)
        self.job, self.seed = job, seed
        self.chances = {task: Chance() for task in (READ, MAKE, JOIN)}
        self.reads = [0] * samples
        self.lock = threading.Lock()
        self.traces: Dict[int, str] = {}
        self.wrong: Optional[BaseException] = None
        self.running: Optional[int] = None  # the thread that runs one's own code
        self.functions = {
            READ: READ_FN(self._read),
            MAKE: MAKE_FN(lambda *given: self._make(MAKE, *given)),
            JOIN: MAKE_FN(lambda *given: self._make(JOIN, *given)),
        }
        if init is not None:
            init(0)

    arg = None
    interrupt = None

    def function(self, task: int) -> Any:
        return ctypes.cast(self.functions[task], ctypes.c_void_p)

    def trace(self, i: int) -> str:
        return self.traces.get(i, "")

    def raised(self) -> Optional[BaseException]:
        """What is no fault of a sample (Ctrl-C), since it was last asked."""
        wrong, self.wrong = self.wrong, None
        return wrong

    def draws(self) -> bool:
        return bool(self.chances[READ].used)

    def inside(self) -> bool:
        return self.running == threading.get_ident()

    def stop(self) -> None:
        """What runs goes on to its end: it cannot be given up."""

    def close(self) -> None:
        pass

    def _read(self, _: Any, ids: Any, n: int, out: Any) -> int:
        def asked() -> List[Any]:
            given = []
            for k in range(n):
                i = ids[k]
                self.reads[i] += 1
                given.append((i, _mix(self.seed ^ _mix(i ^ _mix(self.reads[i]))) >> 1, b""))
            return given

        return self._answer(READ, asked, n, out)

    def _make(self, task: int, _: Any, ids: Any, chances: Any, into: Any, n: int, out: Any) -> int:
        def asked() -> List[Any]:
            return [(ids[k], chances[k], self._bytes(into[k])) for k in range(n)]

        return self._answer(task, asked, 1 if task == JOIN else n, out)

    def _bytes(self, buf: int) -> bytes:
        return ctypes.string_at(self._lib.larder_buf_data(buf), self._lib.larder_buf_size(buf))

    def _answer(self, task: int, asked: Callable[[], List[Any]], n: int, out: Any) -> int:
        try:
            with self.lock:
                self.running = threading.get_ident()
                try:
                    given = asked()
                    got: List[Any] = []
                    chance = self.chances[task]
                    chance.put_back(lambda: got.extend(answers(self.job, chance, task, given, lambda k: None)))
                finally:
                    self.running = None  # under the lock: the next thread says so of itself
                for k in range(n):
                    self._lay(got[k], given[k][0], out[k])
            return 0
        except BaseException as e:  # nobody above could catch it
            self.wrong = e
            return failure(e).code

    def _lay(self, o: Any, i: int, out: Read) -> None:
        out.code, out.why, out.buf = 0, b"", None
        if isinstance(o, Failed):
            self.traces.setdefault(i, o.trace)
            out.code, out.why = o.code, o.text.split(b"\0")[0][:255]
            return
        packed = isinstance(o, _parcel.Packed)
        buf = self._lib.larder_buf_new(o.size if packed else len(o))
        if not buf:
            out.code, out.why = -2, b"out of memory"
            return
        data = self._lib.larder_buf_data(buf)
        if packed:
            _parcel.lay(o, data)
        else:
            ctypes.memmove(data, o, len(o))
        out.buf = buf


_PROTOTYPES = [
    ("larder_crew_open", ctypes.c_int, [ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(_Ends), ctypes.c_uint32,
                                        ctypes.c_uint64, ctypes.c_uint64]),
    ("larder_crew_close", None, [ctypes.POINTER(ctypes.c_void_p)]),
    ("larder_crew_draws", ctypes.c_bool, [ctypes.c_void_p]),
    ("larder_crew_interrupt", None, [ctypes.c_void_p, ctypes.c_bool]),
    ("larder_crew_traced", ctypes.c_int, [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_size_t]),
    ("larder_buf_new", ctypes.c_void_p, [ctypes.c_size_t]),
    ("larder_buf_data", ctypes.c_void_p, [ctypes.c_void_p]),
    ("larder_buf_size", ctypes.c_size_t, [ctypes.c_void_p]),
]


def cores() -> int:
    """That this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def crew_of(job: Job, workers: Optional[int], start: str, init: Any, samples: int, seed: int) -> Any:
    """As asked for; None: as many workers as there are cores."""
    if start not in STARTS:
        raise ArgumentError(f"start is one of {', '.join(STARTS)}, not {start!r}")
    count = cores() if workers is None else workers
    if count == 0:
        return Here(job, init, samples, seed)
    if sys.platform != "linux":
        raise ArgumentError("worker processes need Linux: workers=0 runs one's own functions in larder's threads")
    return Crew(job, count, start, init, samples, seed)
