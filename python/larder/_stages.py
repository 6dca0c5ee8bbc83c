"""What is done to a sample: native stages, which run in larder's threads, then functions of one's own."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Union

from . import _lib, _torch
from ._errors import ArgumentError
from ._arguments import function
from ._batch import Batch
from ._translate import is_torchvision, translate


def augment_text(augment: Union[None, str, Sequence[str]]) -> Optional[str]:
    """``["crop:size=32,pad=4", "flip"]`` or ``"crop:size=32,pad=4|flip"``."""
    if augment is None or isinstance(augment, str):
        return augment
    return "|".join(str(a) for a in augment)


class Stages:
    """Native stages and functions of one's own, told apart in an ``augment`` list."""

    def __init__(self, augment: Any, transform: Optional[Callable]) -> None:
        own: List[Callable] = []
        self.dtype: Optional[str] = None  # where torchvision's transforms say which
        self.unknown = ""  # what of torchvision's transforms is no stage of ours: they get a PIL image
        function("transform", transform)
        if is_torchvision(augment):
            said = translate(augment)
            if said.text is None:
                augment, self.unknown = [augment], said.why
            else:
                augment, self.dtype = said.text, said.dtype if said.dtype != "float32" else None
        if callable(augment):
            augment = [augment]
        if augment is not None and not isinstance(augment, (str, list, tuple)):
            raise ArgumentError(
                f'augment is a list such as ["crop:size=32,pad=4", "flip"], or None, not {augment!r}'
            )
        if augment is not None and not isinstance(augment, str):
            native = []
            for a in augment:
                if callable(a):
                    own.append(a)
                elif own:
                    raise ValueError(f"native stage {a!r} stands before Python ones, not after")
                else:
                    native.append(a)
            augment = native
        self.native = augment_text(augment)
        self.listed = own  # in the list, and after them:
        self.transform = transform

    @property
    def own(self) -> List[Callable]:
        return self.listed if self.transform is None else [*self.listed, self.transform]

    @property
    def shown(self) -> str:
        """What is done, and who does it."""
        own = [getattr(f, "__name__", type(f).__name__) for f in self.own]
        return " | ".join([*([self.native] if self.native else []), *(f"{name} (own code)" for name in own)])

    def run(self, sample: Any) -> Any:
        """One's own functions, on one sample."""
        for f in self.own:
            sample = f(sample)
        return sample

    def run_batch(self, b: Batch, tensors: bool) -> None:
        """One's own functions on a batch of arrays, row by row; what they give is stacked."""
        import numpy

        rows = [self.run(row) for row in b.x]
        try:
            if tensors:
                torch = _torch.module()
                b.x = torch.stack(
                    [r if torch.is_tensor(r) else torch.as_tensor(numpy.asarray(r)) for r in rows]
                )
            else:
                b.x = numpy.stack([numpy.asarray(r) for r in rows])
        except (TypeError, ValueError, RuntimeError) as e:
            kinds = sorted({f"{type(r).__name__} {tuple(getattr(r, 'shape', ()))}" for r in rows})
            raise ArgumentError(
                f"one's own functions gave {', '.join(kinds[:4])} for samples of one batch: arrays or tensors of "
                f"one shape can be stacked ({e})"
            ) from e
        if tensors:
            for name in ("y", "ids", "served", "weight", "kind"):
                setattr(b, name, torch.from_numpy(getattr(b, name)))
