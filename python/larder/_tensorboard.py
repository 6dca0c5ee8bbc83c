"""larder's figures as TensorBoard scalars.

    >>> from torch.utils.tensorboard import SummaryWriter
    >>> writer = SummaryWriter()
    >>> for epoch in range(90):
    ...     for x, y in loader:
    ...         ...
    ...     larder.log_to_tensorboard(loader, writer)

Any object with ``add_scalar(tag, value, step)`` will do; nothing of TensorBoard is imported here."""

from __future__ import annotations

import math
from typing import Any, Dict, Iterator, Optional, Tuple

__all__ = ["log_to_tensorboard"]


def _scalars(name: str, value: Any) -> Iterator[Tuple[str, float]]:
    if isinstance(value, dict):  # a histogram, or hits by form
        for key, part in value.items():
            yield from _scalars(f"{name}/{key}", part)
    elif isinstance(value, (int, float)) and math.isfinite(value):
        yield name, float(value)


def log_to_tensorboard(
    loader: Any, writer: Any, step: Optional[int] = None, prefix: str = "larder"
) -> Dict[str, float]:
    """Writes the loader's statistics, and the ledger of the epoch under way or just over, as scalars.

    step     what they stand over; the batches handed out so far unless said
    prefix   of every tag: "larder/stats/stall_seconds/p99", "larder/epoch/hits"

    What was written is also the answer, by tag."""
    stats = loader.stats()
    if step is None:
        batches = stats.get("batches", 0)
        step = int(batches if isinstance(batches, (int, float)) else batches.get("value", 0))
    out: Dict[str, float] = {}
    for name, value in stats.items():
        out.update(_scalars(f"{prefix}/stats/{name}", value))
    for name, value in loader.figures().items():
        out.update(_scalars(f"{prefix}/epoch/{name}", value))
    for tag, number in out.items():
        writer.add_scalar(tag, number, step)
    return out
