"""larder's order, for those who keep their DataLoader."""

from __future__ import annotations

import os
import sys
import warnings
from collections import deque
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Union

from . import _lib
from ._errors import StateError
from ._batch import Batch
from ._loader import Loader

if TYPE_CHECKING:  # to a checker they are PyTorch's, so that a DataLoader takes them; nobody needs PyTorch for it
    from torch.utils.data import Sampler as _TorchSampler

    _OfLists = _TorchSampler[List[int]]
    _OfIds = _TorchSampler[int]
else:
    _OfLists = _OfIds = object


class BatchSampler(_OfLists):
    """Lists of ids in the order of a recipe, for ``DataLoader(batch_sampler=…)``.

    >>> order = larder.BatchSampler("photos/train", 256, recipe="shade")
    >>> loader = DataLoader(larder.Dataset("photos/train", augment=…), batch_sampler=order)
    >>> for x, y in loader:
    ...     order.report(loss=losses)       # of the batches in turn

    Nothing is read here; recipes that look at the cache look at one that is only counted. Processes of
    a job (rank and world, from torch.distributed unless given) get disjoint parts of each global batch,
    and as many batches each; rank=0, world=1 where something else (Accelerate's prepare) divides them.
    A DataLoader draws ahead: ``lag`` must be more than its workers times
    prefetch_factor, plus two, for recipes that listen."""

    def __init__(
        self,
        uri: Any,
        batch_size: int = 256,
        recipe: str = "minio",
        cache: Union[str, int] = "20%",
        seed: int = 0,
        *,
        drop_last: bool = False,
        shuffle: bool = True,
        rank: Optional[int] = None,
        world: Optional[int] = None,
        lag: int = 64,
        replay: Any = None,
    ) -> None:
        if hasattr(uri, "__iter__") and not isinstance(uri, (str, bytes, os.PathLike)):
            raise TypeError(
                "larder.BatchSampler takes a data set, not a sampler: it has an order of its own and divides it "
                "among processes (with Lightning: Trainer(use_distributed_sampler=False))"
            )
        self._loader = _Order(
            uri, batch_size, recipe, cache, seed, drop_last=drop_last, shuffle=shuffle, rank=rank,
            world=world, prefetch=1, lag=lag, threads=1, replay=replay, torch=False, pin=False,
        )
        self._drawn: "deque[Batch]" = deque(maxlen=max(4 * lag, 256))
        self._refused = False
        self.batch_size, self.drop_last = batch_size, drop_last

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[List[int]]:
        for b in self._loader:
            if self._loader.listens or self._loader._compares:
                self._drawn.append(b)
            yield b.served.tolist()

    @property
    def epoch(self) -> int:
        return self._loader.epoch

    @property
    def sampler(self) -> "BatchSampler":
        """Itself: where trainers look for ``set_epoch``."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """The next ``iter`` is this epoch."""
        self._loader.set_epoch(epoch)

    def report(self, loss: Any = None, logits: Any = None, embeddings: Any = None) -> None:
        """What training says about the oldest batch that nothing was said about."""
        if not self._loader.listens and not self._loader._compares:
            return
        if not self._drawn:
            raise StateError("there is no batch to report about")
        b = self._drawn.popleft()
        try:
            self._loader.report(loss, logits, embeddings, batch=b)
            self._loader._beside(self._loader._desk.flush)
        except StateError as e:
            if not self._refused:
                warnings.warn(f"larder: {e}; raise `lag` (more than workers x prefetch_factor)")
            self._refused = True

    def validate(self, accuracy: float) -> None:
        """Validation accuracy, a fraction of 1."""
        self._loader.validate(accuracy)

    def state_dict(self) -> Dict[str, Any]:
        """After the batches drawn so far. A DataLoader with workers has drawn ahead of training."""
        return self._loader.state_dict()

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        self._loader.load_state_dict(state)

    def close(self) -> None:
        self._loader.close()


class _Order(Loader):
    """A loader that gives the order alone."""

    _order_only = True


class Sampler(_OfIds):
    """Single ids in the order of a recipe, for ``DataLoader(sampler=…, batch_size=…)``; see
    BatchSampler, which also hears what training says."""

    def __init__(self, uri: Any, recipe: str = "minio", cache: Union[str, int] = "20%", seed: int = 0, *,
                 batch_size: int = 256, shuffle: bool = True, rank: Optional[int] = None,
                 world: Optional[int] = None) -> None:
        self._batches = BatchSampler(
            uri, batch_size, recipe, cache, seed, shuffle=shuffle, rank=rank, world=world
        )
        self._rest: "deque[int]" = deque()  # of the batch under way: ids that were not given out yet
        self._rest_of = 0  # its epoch
        self._loaded = False  # they come of a state

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """With several processes also torch's DistributedSampler, for those (Lightning) who would else
        divide once more what is divided already."""
        torch = sys.modules.get("torch")
        if torch is None or self._batches._loader.world == 1:
            return Sampler
        return torch.utils.data.distributed.DistributedSampler

    def __len__(self) -> int:
        f = self._batches._loader
        n, world = f.samples, f.world
        per = f.batch_size * world
        left = n % per
        tail = left // world + (f.rank < left % world)
        return n // per * f.batch_size + (max(tail, 1) if left else 0)

    def __iter__(self) -> Iterator[int]:
        goes_on, self._loaded = self._loaded and len(self._rest) > 0, False
        if not goes_on:
            self._rest.clear()
        while self._rest:
            yield self._rest.popleft()
        if goes_on and self._batches.epoch != self._rest_of:
            return  # that was the epoch's last batch
        for ids in self._batches:
            self._rest.extend(ids)
            self._rest_of = self._batches.epoch
            while self._rest:
                yield self._rest.popleft()

    def set_epoch(self, epoch: int) -> None:
        """The next ``iter`` is this epoch."""
        self._loaded = False
        self._batches.set_epoch(epoch)

    def state_dict(self) -> Dict[str, Any]:
        """After the ids given out so far. A DataLoader with workers has asked for more than it has trained on."""
        return dict(self._batches.state_dict(), rest=list(self._rest), rest_of=self._rest_of)

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        own = ("rest", "rest_of")
        self._batches.load_state_dict({k: v for k, v in state.items() if k not in own})
        self._rest = deque(int(i) for i in state.get("rest", ()))
        self._rest_of, self._loaded = int(state.get("rest_of", 0)), True
