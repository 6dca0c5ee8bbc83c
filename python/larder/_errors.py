"""What can go wrong, as exceptions. Each carries larder's sentence, and each is also the built-in
exception that Python code expects in its place."""

from __future__ import annotations

from typing import Dict, Type


class Error(Exception):
    """Anything that larder refuses or fails at; ``str()`` is a sentence that names file and sample."""

    code = 0  # as LARDER_ERRORS of larder.h has it


class LarderWarning(UserWarning):
    """What is no error and should be known: something holds instead of what was asked for, or another
    way would be better. Said once."""


class ArgumentError(Error, ValueError):
    """A wrong argument: an unknown recipe, a cache of -3 bytes."""

    code = -1


class NoMemoryError(Error, MemoryError):
    """There was not enough memory."""

    code = -2


class StorageError(Error, OSError):
    """Reading or writing failed."""

    code = -3


class FormatError(Error, ValueError):
    """Malformed data: a broken picture, a damaged state."""

    code = -4


class NotFoundError(Error, FileNotFoundError):
    """There is no such data set, file or sample."""

    code = -5


class RangeError(Error, IndexError):
    """A number out of range."""

    code = -6


class StateError(Error, RuntimeError):
    """Called at the wrong time."""

    code = -7


class UnsupportedError(Error, NotImplementedError):
    """This build of larder lacks a part; the sentence says which package has it."""

    code = -8


class ChangedError(Error, RuntimeError):
    """The data set changed while it was in use."""

    code = -9


class CancelledError(Error, RuntimeError):
    """Somebody called ``cancel()``."""

    code = -10


class FullError(Error, OSError):
    """No space left."""

    code = -11


BY_CODE: Dict[int, Type[Error]] = {kind.code: kind for kind in Error.__subclasses__()}
