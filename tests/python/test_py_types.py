"""What the documentation tells people to type passes mypy as it stands there, and larder's own Python; what is wrong
does not. PyTorch is here what its DataLoader asks of a data set and its samplers: to look through all of it would take
half a minute."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
MYPY = shutil.which("mypy")
if MYPY is None:
    print("skipped: no mypy (apt install mypy)")
    sys.exit(77)

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

TORCH = """
from typing import Any, Callable, Generic, Iterator, List, Optional, Sequence, Sized, TypeVar

T_co = TypeVar("T_co", covariant=True)

class Dataset(Generic[T_co]):
    def __getitem__(self, index: Any) -> T_co: ...

class Sampler(Generic[T_co]):
    def __init__(self, data_source: Optional[Sized] = None) -> None: ...
    def __iter__(self) -> Iterator[T_co]: ...

class DataLoader(Generic[T_co]):
    def __init__(self, dataset: Dataset[T_co], batch_size: Optional[int] = 1, shuffle: Optional[bool] = None,
                 sampler: Optional[Sampler[int]] = None, batch_sampler: Optional[Sampler[Sequence[int]]] = None,
                 num_workers: int = 0, collate_fn: Optional[Callable[[List[Any]], Any]] = None,
                 pin_memory: bool = False, drop_last: bool = False, *, persistent_workers: bool = False) -> None: ...
    def __iter__(self) -> Iterator[Any]: ...
"""

# What a block has from the lines around it.
BEFORE = """
from typing import Any
import larder, larder.svm, torch.utils.data
from torch.utils.data import DataLoader
model: Any; criterion: Any; cross_entropy: Any; accuracy: Any; my_transforms: Any; losses: Any
my_dataset: Any; ImageFolder: Any; augment: Any
X: Any; y: Any; X_new: Any
"""

RIGHT = """
train = larder.Dataset("photos/train", cache=1 << 30, dtype="uint8")
DataLoader(larder.Dataset("photos", augment=["rrc:size=224", len]), batch_size=32)
DataLoader(train, batch_sampler=larder.BatchSampler(train, 32, recipe="shade"))
DataLoader(train, 32, sampler=larder.Sampler(train))
x, label = train[0]
order = larder.BatchSampler(train, 32)
order.set_epoch(3)
order.report(loss=losses)
order.load_state_dict(order.state_dict())
with larder.Loader("photos", 32, cache=0, augment="flip", evaluator=lambda b: b.x) as loader:
    for batch in loader:
        loader.report(loss=losses, batch=batch)
    for x, label in loader:
        pass
    with loader.feedback(model.avgpool):
        pass
    loader.load_state_dict([loader.state_dict()])
    larder.log_to_tensorboard(loader, model)
svc: larder.svm.SVC = larder.svm.SVC(C=2).fit(X, y, sample_weight=None)
larder.svm.OneClassSVM(nu=0.1).fit(X).predict(X_new)
larder.svm.SVR(kernel=max).fit(X, y).save("model")
try:
    pass
except larder.NotFoundError as e:
    print(e.code)
"""

# Each of these lines is a mistake.
WRONG = """
larder.Loader("photos", num_workers=3)
larder.Loader("photos", "32")
larder.Dataset("photos", batch_size=32)
larder.Dataset("photos").transform = 3
larder.Dataset("photos").targets = []
larder.Dataset("photos").class_to_index
larder.Loader("photos").report(los=1)
larder.Loader("photos").set_evaluator(3)
DataLoader(larder.Loader("photos"), 32)
DataLoader(larder.Dataset("photos"), 32, sampler=larder.BatchSampler("photos"))
DataLoader(larder.Dataset("photos"), batch_sampler=larder.Sampler("photos"))
larder.svm.SVC(CC=2)
larder.svm.SVC().fit(X)
larder.Lodaer("photos")
"""


def blocks():
    """Name and text of every Python block of the pages."""
    for page in PAGES:
        for i, text in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M)):
            yield f"{page.stem.replace('-', '_').lower()}_{i}", text.replace("…", "...")


class TestTypes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):  # one folder for all: what mypy has found out once, it reads again
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        data = cls.folder / "stubs" / "torch" / "utils" / "data"
        data.mkdir(parents=True)
        (data / "__init__.pyi").write_text(TORCH)
        for above in (data.parent, data.parent.parent):
            (above / "__init__.pyi").write_text("")

    def mypy(self, *what, torch=True):
        path = [str(self.folder / "stubs")] * torch + [str(ROOT / "python")]
        p = subprocess.run(
            [MYPY, "--no-site-packages", "--ignore-missing-imports", "--config-file=", "--cache-dir",
             self.folder / f"cache{torch}", *what],
            cwd=self.folder, env=dict(os.environ, MYPYPATH=":".join(path), LC_ALL="C.UTF-8"),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=280)
        return p.returncode, p.stdout.decode()

    def said(self, texts, torch=True):
        """What mypy says of each of these texts, by name: line of the text and words."""
        found = {name: [] for name in texts}
        for name, text in texts.items():
            (self.folder / f"{name}.py").write_text(BEFORE + text, encoding="utf-8")
        code, out = self.mypy("--follow-imports=silent", *(f"{name}.py" for name in texts), torch=torch)
        self.assertIn(code, (0, 1), out)
        for name, line, words in re.findall(r"^(\w+)\.py:(\d+): error: (.*)", out, re.M):
            found[name].append((int(line) - BEFORE.count("\n"), words))
        self.assertEqual(code, int(any(found.values())), out)
        return found

    def test_own_code(self):
        """Whatever stands in the package, in functions without types too: a name that is there no more."""
        code, out = self.mypy("--check-untyped-defs", "--package", "larder")
        self.assertEqual(code, 0, out)

    def test_documented_lines(self):
        texts = dict(blocks())
        self.assertGreaterEqual(len(texts), 6, list(texts))
        texts["right"] = RIGHT
        for torch in (True, False):
            wrong = {name: words for name, words in self.said(texts, torch).items() if words}
            self.assertEqual(wrong, {}, f"torch is {'there' if torch else 'missing'}")

    def test_mistakes_are_seen(self):
        errors = self.said({"wrong": WRONG})["wrong"]
        wrong = {i: text for i, text in enumerate(WRONG.split("\n"), 1) if text}
        seen = {line for line, _ in errors}
        self.assertEqual([text for i, text in wrong.items() if i not in seen], [], errors)


if __name__ == "__main__":
    unittest.main()
