"""What trainers (Lightning, Accelerate and their like) look for at a DataLoader, at a Loader. Most of them leave
what is no DataLoader as it is, and want to know its length, its sampler and its state. Some make a DataLoader of
its parts (Accelerate's ``skip_first_batches``): then ``batch_sampler`` draws larder's batches, and ``dataset`` and
``collate_fn`` pass them on as they are."""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any, Iterator, List

from ._batch import Batch
from ._opened import Opened


class Habits(Opened):
    """The part of a Loader that passes for a DataLoader's."""

    num_workers = 0

    def __iter__(self) -> Iterator[Batch]:
        raise NotImplementedError

    @property
    def pin_memory(self) -> bool:
        return self._carrier.pinned

    @property
    def sampler(self) -> Any:
        """Something with ``set_epoch``: itself, or with shuffle=False what passes for torch's
        SequentialSampler."""
        torch = sys.modules.get("torch")
        if self.shuffle or torch is None:
            return self
        return _sequential(torch)(self)

    @property
    def batch_sampler(self) -> "Batches":
        """What passes for a batch sampler: it draws batches, not ids."""
        return Batches(self)

    @property
    def dataset(self) -> "Samples":
        """Something whose length is the data set's. Samples by index are in larder.Dataset."""
        return Samples(self.samples)

    @staticmethod
    def collate_fn(batches: List[Batch]) -> Batch:
        """The batch that a DataLoader made of this loader's parts has drawn."""
        return batches[0]

    @property
    def prefetch_factor(self) -> Any:
        """What this PyTorch's DataLoader takes without workers."""
        torch = sys.modules.get("torch")
        if torch is None:
            return None
        return inspect.signature(torch.utils.data.DataLoader).parameters["prefetch_factor"].default


class Batches:
    """A loader's batches, each as a list of one."""

    def __init__(self, loader: Habits) -> None:
        self.loader, self.batch_size = loader, loader.batch_size

    def __iter__(self) -> Iterator[List[Batch]]:
        for b in self.loader:
            yield [b]

    def __len__(self) -> int:
        return len(self.loader)

    @property
    def sampler(self) -> Any:
        return self.loader.sampler

    def set_epoch(self, epoch: int) -> None:
        self.loader.set_epoch(epoch)

    @property
    def drop_last(self) -> bool:
        """Asked for by what would divide batches among processes (Accelerate's BatchSamplerShard)."""
        raise TypeError(
            "a larder.Loader divides its batches among processes by itself (rank, world): leave it out of "
            "prepare_data_loader; accelerator.prepare() hands it back as it is"
        )


class Samples:
    """As many as the data set has; and batches, which pass through."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, b: Any) -> Batch:
        if isinstance(b, Batch):
            return b
        raise TypeError("a larder.Loader has batches, not samples by index: larder.Dataset has those")


@functools.lru_cache(None)
def _sequential(torch: Any) -> Any:
    class Sequential(torch.utils.data.SequentialSampler):
        """Ids in their order. What is looked at is its class."""

        def __init__(self, loader: Habits) -> None:
            self.loader, self.data_source = loader, loader.dataset

        def set_epoch(self, epoch: int) -> None:
            self.loader.set_epoch(epoch)

    return Sequential
