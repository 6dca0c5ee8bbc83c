"""One's own functions, run for a loader: what a sample is, what becomes of it, what a batch is. In a worker process
of a crew (include/larder/crew.h says what goes to and fro), or in larder's threads where there is none."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import sys
import traceback
from typing import Any, Callable, Dict, List, Optional, Sequence

from . import _parcel
from ._errors import FormatError, NoMemoryError, NotFoundError, StorageError

READ, MAKE, JOIN = 1, 2, 3
_REQUEST, _ASKED = struct.Struct("=IIQIIQQQ"), struct.Struct("=QQQQ")
_ANSWER, _RECORD = struct.Struct("=IIQQQQ"), struct.Struct("=QQiI")
_ASKS, _TELLS, _PROGRESS = 0x3151524C, 0x3141524C, 64


class Job:
    """What is run: everything a worker has to know. It travels there whole."""

    def __init__(
        self,
        dataset: Any = None,
        encoded: Any = None,
        decode: Optional[Callable[[bytes, int], Any]] = None,
        functions: Sequence[Callable[[Any], Any]] = (),
        collate: Optional[Callable[[List[Any]], Any]] = None,
        pil: bool = False,
    ) -> None:
        self.dataset, self.decode, self.functions, self.collate = dataset, decode, list(functions), collate
        self.encoded, self.pil = encoded, pil

    @property
    def makes(self) -> bool:
        """Does anything become of what is cached?"""
        return bool(self.functions) or self.decode is not None or self.collate is not None

    def read(self, i: int) -> Any:
        """What is cached of sample i: bytes, or what is to become a parcel."""
        if self.encoded is None:
            return _parcel.pack(self.dataset[i])
        named = isinstance(self.encoded, str)
        given = getattr(self.dataset, self.encoded)(i) if named else self.encoded(self.dataset, i)
        if not isinstance(given, (bytes, bytearray, memoryview)):
            raise TypeError(f"encoded= gave {type(given).__name__}, not bytes, which decode= makes samples of")
        given = bytes(given)
        return given if self.makes else _parcel.pack(given)

    def sample(self, i: int, raw: Any) -> Any:
        """What becomes of sample i, of which `raw` is cached."""
        # Only of a data set of one's own no other process can have written what is unpickled.
        own = self.dataset is not None
        value: Any = bytes(raw) if self.encoded is not None else _parcel.loads(bytearray(raw), pickles=own)
        if self.pil:
            value = picture(value)
        if self.decode is not None:
            value = self.decode(value, i)
        for f in self.functions:
            value = f(value)
        return value

    def joined(self, samples: List[Any]) -> Any:
        assert self.collate is not None
        return self.collate(samples)


def picture(given: Any) -> Any:
    """A PIL image: of larder's pixels, or of a file's bytes, where larder does not decode such files."""
    from PIL import Image

    if isinstance(given, bytes):
        import io

        return Image.open(io.BytesIO(given)).convert("RGB")
    return Image.fromarray(given[:, :, 0] if given.shape[2] == 1 else given)


# ---- chance -------------------------------------------------------------------------------------


class _Random:
    """Python's own generator."""

    name = "random"

    def __init__(self, module: Any) -> None:
        self.module = module

    def seed(self, chance: int) -> None:
        self.module.seed(chance)

    def state(self) -> Any:
        return self.module.getstate()

    def restore(self, state: Any) -> None:
        self.module.setstate(state)


class _Numpy(_Random):
    name = "numpy"

    def seed(self, chance: int) -> None:
        self.module.random.seed((chance ^ chance >> 32) & 0xFFFFFFFF)

    def state(self) -> Any:
        kind, key, at, *rest = self.module.random.get_state()
        return kind, key.tobytes(), at, tuple(rest)

    def restore(self, state: Any) -> None:
        kind, key, at, rest = state
        self.module.random.set_state((kind, self.module.frombuffer(key, "uint32"), at, *rest))


class _Torch(_Random):
    name = "torch"

    def seed(self, chance: int) -> None:
        self.module.default_generator.manual_seed(chance)

    def state(self) -> Any:
        return self.module.default_generator.get_state().numpy().tobytes()

    def restore(self, state: Any) -> None:
        raw = self.module.frombuffer(bytearray(state), dtype=self.module.uint8)
        self.module.default_generator.set_state(raw)


class Chance:
    """Seeds what draws random numbers before each sample, so that results do not depend on who ran what before. A
    generator is seeded once it is seen to be used: seeding all costs more than many a sample. What was run until
    then is run again."""

    def __init__(self) -> None:
        self.known: Dict[str, Any] = {}
        self.used: List[Any] = []
        self.looked = False
        self.last: Dict[str, Any] = {}  # states as they were found, where nobody else draws

    def _idle(self) -> List[Any]:
        for kind in (_Random, _Numpy, _Torch):
            module = sys.modules.get(kind.name)
            if module is not None and kind.name not in self.known and hasattr(module, _LAST_OF[kind.name]):
                self.known[kind.name] = kind(module)
        return [g for g in self.known.values() if g not in self.used]

    def run(self, chances: Sequence[int], one: Callable[[int], None]) -> None:
        """one(k) for each chance, as if all generators were seeded with it. The very first by itself: what is run
        again to no purpose should be little."""
        first = int(not self.looked)
        self.looked = True
        if first:
            self._run(chances[:1], one, 0)
        if len(chances) > first:
            self._run(chances[first:], one, first)

    def _run(self, chances: Sequence[int], one: Callable[[int], None], begin: int) -> None:
        while True:
            before = [(g, self.last.pop(g.name, None) or g.state()) for g in self._idle()]
            for k, chance in enumerate(chances, begin):
                for g in self.used:
                    g.seed(chance)
                one(k)
            were = {g.name for g, _ in before} | {g.name for g in self.used}
            moved = []
            for g, state in before:
                now = g.state()
                if now != state:
                    moved.append(g)
                else:
                    self.last[g.name] = now
            moved += [g for g in self._idle() if g.name not in were]  # imported meanwhile
            if not moved:
                return
            self.used += moved

    def put_back(self, run: Callable[[], None]) -> None:
        """The same in the process that trains: its own generators go on as if nothing had been."""
        self.last.clear()
        states = [(g, g.state()) for g in [*self._idle(), *self.used]]
        try:
            run()
        finally:
            for g, state in states:
                g.restore(state)


_LAST_OF = {"random": "setstate", "numpy": "random", "torch": "default_generator"}  # there once it is imported whole


# ---- what is answered ---------------------------------------------------------------------------


class Failed(Exception):
    """One's own code failed: a code of larder's, a sentence, and the traceback."""

    def __init__(self, code: int, sentence: str, trace: str) -> None:
        super().__init__(sentence)
        self.code, self.sentence, self.trace = code, sentence, trace

    @property
    def text(self) -> bytes:
        return self.sentence.encode("utf-8", "replace")[:250] + b"\0" + self.trace.encode("utf-8", "replace")[-15000:]


def failure(e: BaseException) -> Failed:
    """What a loader is told of an exception."""
    code = FormatError.code
    for kind, larders in ((MemoryError, NoMemoryError), (FileNotFoundError, NotFoundError), (OSError, StorageError)):
        if isinstance(e, kind):
            code = larders.code
            break
    frames = traceback.extract_tb(e.__traceback__)
    own = [f for f in frames if os.path.dirname(f.filename) != os.path.dirname(__file__)]
    where = f" (in {own[0].name}, {os.path.basename(own[0].filename)} line {own[0].lineno})" if own else ""
    says = " ".join(f"{type(e).__name__}: {e}".split())[:120]
    return Failed(code, says + where, "".join(traceback.format_exception(type(e), e, e.__traceback__)))


def answers(
    job: Job, chance: Chance, task: int, asked: Sequence[Any], progress: Callable[[int], None]
) -> List[Any]:
    """Of each sample asked for (id, chance, its bytes): bytes, a packed parcel, or what failed. JOIN: one for all."""
    out: List[Any] = [None] * len(asked)
    values: List[Any] = [None] * len(asked)

    def one(k: int) -> None:
        if k == len(asked):
            out[:] = [_parcel.pack(job.joined(values))]
            return
        i, _, raw = asked[k]
        progress(k)
        try:
            if task == READ:
                out[k] = job.read(i)
            elif task == MAKE:
                out[k] = _parcel.pack(job.sample(i, raw))
            else:
                values[k] = job.sample(i, raw)
        except Exception as e:
            if task == JOIN:
                raise _at(failure(e), i) from e
            out[k] = failure(e)

    chances = [a[1] for a in asked]
    if task != JOIN:
        chance.run(chances, one)
        return out
    try:
        chance.run([*chances, chances[0] ^ 0x5BD1E995], one)
    except Failed as e:
        return [e]
    except Exception as e:
        told = failure(e)
        return [Failed(told.code, f"collate_fn: {told.sentence}", told.trace)]
    return out


def _at(failed: Failed, i: int) -> Failed:
    return Failed(failed.code, f"sample {i}: {failed.sentence}", failed.trace)


# ---- a worker process ---------------------------------------------------------------------------


class Memory:
    """A memfd of this process and the loader's, mapped; it only grows."""

    def __init__(self, fd: int) -> None:
        self.fd, self.size, self.address = fd, 0, 0
        self.map: Any = None

    def see(self, size: int) -> None:
        """As large as the other side has made it."""
        if size > self.size:
            self.map = mmap.mmap(self.fd, size)
            self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
            self.size = size

    def grow(self, need: int) -> None:
        size = max(self.size, 1 << 16)
        while size < need:
            size *= 2
        if size > self.size:
            os.ftruncate(self.fd, size)
            self.see(size)


class Desk:
    """A worker's end: takes a request, answers it."""

    def __init__(self, job: Job, socket: Any, into: int, out: int, broken: Optional["Failed"] = None) -> None:
        self.job, self.socket = job, socket
        self.chances = {task: Chance() for task in (READ, MAKE, JOIN)}
        self.task = 0  # that was run last
        self.broken = broken  # it could not be made ready: what all requests are answered with
        self.into, self.out = Memory(into), Memory(out)

    def serve(self) -> None:
        """Until the loader is gone."""
        while True:
            try:
                message = self.socket.recv(_REQUEST.size)
            except (ConnectionError, OSError):
                return
            if len(message) != _REQUEST.size:
                return
            magic, task, number, n, _, _, size, _ = _REQUEST.unpack(message)
            if magic != _ASKS or task not in self.chances:
                return
            self.into.see(size)
            asked, few = self._asked(n), 1 if task == JOIN else n
            if self.broken is not None:
                out = [self.broken] * few
            else:
                if task != self.task:  # what was run meanwhile may have drawn
                    self.chances[task].last.clear()
                self.task = task
                out = answers(self.job, self.chances[task], task, asked, self._progress)
            try:
                used = self._lay(out, n)
            except (OSError, MemoryError) as e:  # no room for it: a sentence finds some
                used = self._lay([failure(e)] * few, n)
            del asked, out
            try:
                drawn = int(bool(self.chances[task].used))
                self.socket.send(_ANSWER.pack(_TELLS, few, number, self.out.size, used, drawn))
            except OSError:
                return

    def _asked(self, n: int) -> List[Any]:
        view, out = memoryview(self.into.map), []
        self.out.grow(_PROGRESS + n * _RECORD.size)
        for k in range(n):
            i, chance, offset, size = _ASKED.unpack_from(view, k * _ASKED.size)
            out.append((i, chance, view[offset : offset + size]))
        return out

    def _progress(self, k: int) -> None:
        struct.pack_into("=I", self.out.map, 0, k)

    def _lay(self, out: List[Any], n: int) -> int:
        """The answers, behind one another; bytes used."""
        at = -(-(_PROGRESS + n * _RECORD.size) // 64) * 64
        places = []
        for o in out:
            size = o.size if type(o) is _parcel.Packed else len(o.text if isinstance(o, Failed) else o)
            places.append((at, size))
            at = -(-(at + size) // 64) * 64
        self.out.grow(at)
        records: List[int] = []
        for o, (offset, size) in zip(out, places):
            code = 0
            if type(o) is _parcel.Packed:
                _parcel.lay(o, self.out.address + offset)
            elif isinstance(o, Failed):
                code = o.code
                ctypes.memmove(self.out.address + offset, o.text, size)
            else:
                ctypes.memmove(self.out.address + offset, o, size)
            records += (offset, size, code, 0)
        struct.pack_into("=" + "QQiI" * len(out), self.out.map, _PROGRESS, *records)
        return at


def _end_with(parent: int, by_signal: bool) -> None:
    """When the process that trains ends, however it does, so does this one, whatever it is at."""
    import select
    import threading

    def watch(fd: int) -> None:
        select.select([fd], [], [])
        os._exit(1)

    try:
        fd = os.pidfd_open(parent)
        threading.Thread(target=watch, args=(fd,), daemon=True, name="larder-watch").start()
    except (AttributeError, OSError):
        pass
    if by_signal:  # of the thread that started it, so only where that is the main one
        import signal

        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent and by_signal:
        os._exit(1)


def _torch_info(index: int, count: int, seed: int, dataset: Any) -> None:
    """What torch.utils.data.get_worker_info() says, as in a DataLoader's worker."""
    torch = sys.modules.get("torch")
    if torch is None:
        return
    torch.set_num_threads(1)  # its threads have stayed with the parent
    try:
        worker = torch.utils.data._utils.worker
        worker._worker_info = worker.WorkerInfo(id=index, num_workers=count, seed=seed, dataset=dataset)
    except AttributeError:
        pass


def main(job: Job, index: int, count: int, seed: int, init: Any, socket: Any, into: Any, out: Any, parent: int,
         by_signal: bool, not_ours: Sequence[int] = ()) -> None:
    """A worker's life. Descriptors come as numbers, or as what multiprocessing sends them as."""
    import signal
    import socket as sockets

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the loader's to hear
    for fd in not_ours:  # the loader's ends, of this worker and of those before it
        try:
            os.close(fd)
        except OSError:
            pass
    _end_with(parent, by_signal)
    fds = [fd if isinstance(fd, int) else fd.detach() for fd in (socket, into, out)]
    _torch_info(index, count, seed, job.dataset)
    broken = None
    try:
        if init is not None:
            init(index)
    except Exception as e:
        told = failure(e)
        broken = Failed(told.code, f"worker_init_fn: {told.sentence}", told.trace)
    with sockets.socket(fileno=fds[0]) as end:
        Desk(job, end, fds[1], fds[2], broken).serve()
