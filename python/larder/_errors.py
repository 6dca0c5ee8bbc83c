"""What can go wrong, as exceptions. Each carries larder's sentence, and each is also the built-in
exception that Python code expects in its place."""

from __future__ import annotations

from typing import Dict, Type


class Error(Exception):
    """Anything that larder refuses or fails at; ``str()`` is a sentence that names file and sample."""

    code = 0


class LarderWarning(UserWarning):
    """What is no error and should be known: something holds instead of what was asked for, or another
    way would be better. Said once."""


class ArgumentError(Error, ValueError):
    """A wrong argument: an unknown recipe, a cache of -3 bytes."""


class NoMemoryError(Error, MemoryError):
    """There was not enough memory."""


class StorageError(Error, OSError):
    """Reading or writing failed."""


class FormatError(Error, ValueError):
    """Malformed data: a broken picture, a damaged state."""


class NotFoundError(Error, FileNotFoundError):
    """There is no such data set, file or sample."""


class RangeError(Error, IndexError):
    """A number out of range."""


class StateError(Error, RuntimeError):
    """Called at the wrong time."""


class UnsupportedError(Error, NotImplementedError):
    """This build of larder lacks a part; the sentence says which package has it."""


class ChangedError(Error, RuntimeError):
    """The data set changed while it was in use."""


class CancelledError(Error, RuntimeError):
    """Somebody called ``cancel()``."""


class FullError(Error, OSError):
    """No space left."""


BY_CODE: Dict[int, Type[Error]] = {
    -1: ArgumentError,
    -2: NoMemoryError,
    -3: StorageError,
    -4: FormatError,
    -5: NotFoundError,
    -6: RangeError,
    -7: StateError,
    -8: UnsupportedError,
    -9: ChangedError,
    -10: CancelledError,
    -11: FullError,
}
for _code, _kind in BY_CODE.items():
    _kind.code = _code
