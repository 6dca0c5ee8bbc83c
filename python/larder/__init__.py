"""larder: a training-aware cache, sampler and loader.

Your training script, with two lines changed::

    import larder

    loader = larder.Loader("photos/train", 256, cache="20%",
                           augment=["rrc:size=224", "flip", "normalize:preset=imagenet"],
                           device="cuda")
    for epoch in range(90):
        for x, y in loader:
            ...

``help(larder.Loader)`` tells the rest.

Loader          batches, with feedback from training to the cache: the short way
Dataset         samples by index, for those who keep their DataLoader; workers share one cache
Sampler, BatchSampler   larder's order, for a DataLoader
log_to_tensorboard      a loader's figures as scalars
svm.SVC, svm.SVR        support vector machines with scikit-learn's interface

Errors are exceptions with a sentence (``larder.Error`` and its kin, which are also the built-in ones:
a data set that is not there is a ``FileNotFoundError``). Without PyTorch batches are NumPy arrays."""

from __future__ import annotations

import os

from ._errors import (
    ArgumentError,
    CancelledError,
    ChangedError,
    Error,
    FormatError,
    FullError,
    LarderWarning,
    NoMemoryError,
    NotFoundError,
    RangeError,
    StateError,
    StorageError,
    UnsupportedError,
)
from . import _lib, _torch
from ._lib import VERSION as _VERSION
from ._lib import load as _load
from ._batch import HIT, MISS, REPLACED, SUBSTITUTE, Batch
from ._dataset import Dataset
from ._loader import Loader
from ._sampler import BatchSampler, Sampler
from ._tensorboard import log_to_tensorboard

__version__ = _VERSION
_torch.open_queues()
for _kind in (Batch, BatchSampler, Dataset, Loader, Sampler, LarderWarning, Error, *Error.__subclasses__()):
    _kind.__module__ = __name__  # where pickles find it, and what a traceback calls it


def features() -> str:
    """Optional parts of this build: "jpeg png zlib …", with a minus before those left out."""
    return _load().larder_features().decode()


def load_plugin(path: str | bytes | os.PathLike[str]) -> None:
    """Loads a shared object with plug-ins: its policies, samplers, signals, sources, stages and recipes
    are known by name from then on. A file that is loaded already is left alone."""
    _lib.check(_load().larder_load_plugin(_lib.text(os.fsdecode(path))))


__all__ = [
    "ArgumentError",
    "Batch",
    "BatchSampler",
    "CancelledError",
    "ChangedError",
    "Dataset",
    "Error",
    "FormatError",
    "FullError",
    "HIT",
    "LarderWarning",
    "Loader",
    "MISS",
    "NoMemoryError",
    "NotFoundError",
    "REPLACED",
    "RangeError",
    "Sampler",
    "SUBSTITUTE",
    "StateError",
    "StorageError",
    "UnsupportedError",
    "features",
    "load_plugin",
    "log_to_tensorboard",
]
