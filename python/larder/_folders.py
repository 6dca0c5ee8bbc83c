"""torchvision's folders of pictures: the file's bytes are what to cache, not the tensor its transform made."""

from __future__ import annotations

import io
import sys
from typing import Any, Callable, Optional, Tuple

from ._own import behind


def files_of(dataset: Any) -> Optional[Tuple[Callable[[Any, int], bytes], Callable[[bytes, int], Any]]]:
    """How to read a sample of an ImageFolder, or of a Subset of one, and what its `__getitem__` makes of the
    bytes; None: it is another data set, or one whose `__getitem__` or loader is not torchvision's."""
    folder = sys.modules.get("torchvision.datasets.folder")
    inner, which = behind(dataset)
    if folder is None or not isinstance(inner, folder.DatasetFolder):
        return None
    if type(inner).__getitem__ is not folder.DatasetFolder.__getitem__:
        return None
    if inner.loader not in (folder.default_loader, folder.pil_loader):
        return None

    def read(_: Any, i: int) -> bytes:
        with open(inner.samples[i if which is None else int(which[i])][0], "rb") as f:
            return f.read()

    def decode(raw: bytes, i: int) -> Any:
        from PIL import Image

        sample: Any = Image.open(io.BytesIO(raw)).convert("RGB")
        target = inner.samples[i if which is None else int(which[i])][1]
        if inner.transform is not None:
            sample = inner.transform(sample)
        if inner.target_transform is not None:
            target = inner.target_transform(target)
        return sample, target

    return read, decode
