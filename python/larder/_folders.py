"""torchvision's folders of pictures: the file's bytes are what to cache, not the tensor its transform made."""

from __future__ import annotations

import io
import sys
from typing import Any, Callable, Optional, Tuple


class _Files:
    """An ImageFolder, or some samples of one, in two steps. It travels to workers whole."""

    def __init__(self, folder: Any, which: Any) -> None:
        self.folder, self.which = folder, which

    def sample(self, i: int) -> Any:
        return self.folder.samples[i if self.which is None else int(self.which[i])]

    def read(self, _: Any, i: int) -> bytes:
        with open(self.sample(i)[0], "rb") as f:
            return f.read()

    def decode(self, raw: bytes, i: int) -> Any:
        from PIL import Image

        x: Any = Image.open(io.BytesIO(raw)).convert("RGB")
        y = self.sample(i)[1]
        if self.folder.transform is not None:
            x = self.folder.transform(x)
        if self.folder.target_transform is not None:
            y = self.folder.target_transform(y)
        return x, y


def files_of(inner: Any, which: Any) -> Optional[Tuple[Callable[[Any, int], bytes], Callable[[bytes, int], Any]]]:
    """How to read a sample of an ImageFolder, or of these of it, and what its `__getitem__` makes of the bytes;
    None: it is another data set, or one whose `__getitem__` or loader is not torchvision's."""
    folder = sys.modules.get("torchvision.datasets.folder")
    if folder is None or not isinstance(inner, folder.DatasetFolder):
        return None
    if type(inner).__getitem__ is not folder.DatasetFolder.__getitem__:
        return None
    if inner.loader not in (folder.default_loader, folder.pil_loader):
        return None
    files = _Files(inner, which)
    return files.read, files.decode
