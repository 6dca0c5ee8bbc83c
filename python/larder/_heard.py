"""What a loader hears from training: reports about batches, a layer's output, accuracies, and the losses
that some recipes ask for between epochs. How reports travel is in _feedback.py."""

from __future__ import annotations

import copy
import ctypes
import warnings
from typing import Any, Callable, Dict, Optional

from . import _lib, _torch
from ._errors import ArgumentError, CancelledError, StateError
from ._batch import Batch, Hold
from ._feedback import shaped
from ._opened import Opened
from ._structure import each_tensor, given

MOVED = ("x", "y", "ids", "served", "weight", "kind", "fields", "data")  # to the device, of a batch that is lent
COPIED = (*MOVED, "served_host", "labels_host")


class Heard(Opened):
    """The part of a Loader that listens."""

    _hook_warned = False
    _heard = False  # anything at all
    _silence_told = False
    _silent_epochs = 0
    _order_only = False
    _recorded = False

    def _maker_of(self, s: _lib.BatchStruct, tensors: bool) -> Any:
        raise NotImplementedError

    def _made(self, maker: Any, held: Optional[Hold], s: _lib.BatchStruct) -> Batch:
        raise NotImplementedError

    def report(
        self,
        loss: Any = None,
        logits: Any = None,
        embeddings: Any = None,
        batch: Optional[Batch] = None,
    ) -> None:
        """What training says about the samples of a batch (the one at hand, unless given): losses one
        by one, logits (larder takes the cross entropy), embeddings n x d. Arrays or tensors, on any
        device; those on a CUDA device do not make training wait. May come in several calls."""
        self._open()
        b = batch if batch is not None else self._batch
        if b is None:
            raise StateError("there is no batch at hand to report about")
        if getattr(b, "owner", self) is not self._mark:
            raise ArgumentError(
                "a report is about a batch of this loader, not of another loader or of something else"
            )
        if not self.listens and not self._compares:
            return
        if self.listens and self._last is not None and b.number < self._last - self._desk.slack:
            raise StateError(
                f"feedback for batch {b.number} comes too late: batch {self._last} is out already, and a report "
                f"comes at most {self._desk.slack} batches later (or raise `lag`)"
            )
        self._heard = True
        if embeddings is not None:
            embeddings = self._scored(b, embeddings)
        with self._desk.lock:
            p = self._desk.open(b)
            for name, value in (("loss", loss), ("logits", logits), ("embeddings", embeddings)):
                if value is not None:
                    p.add(name, value, b.n)

    def feedback(self, module: Any) -> "Hook":
        """``with loader.feedback(model.avgpool):`` reports what that layer gives as embeddings, for
        every batch trained on inside; also usable without ``with``, until ``.remove()``."""
        return Hook(self, module)

    def _take_hooked(self, b: Batch) -> None:
        out = self._hooked
        if out is None:
            return
        self._heard = fits = True
        try:
            with self._desk.lock:
                p = self._desk.open(b)
                if "embeddings" not in p.values:
                    fits = out.shape[0] == b.n
                    if fits:
                        p.add("embeddings", self._scored(b, out), b.n)
        except Exception:
            self._hooked = None
            raise
        self._hooked = None  # at last: what Ctrl-C interrupts is done the next time
        if not fits and not self._hook_warned:
            self._hook_warned = True
            warnings.warn(
                f"larder: the hooked layer gave {out.shape[0]} rows for a batch of {b.n}: they are not "
                "reported",
                stacklevel=2,
            )

    def _note_silence(self, figures: Callable[[], Dict[str, Any]]) -> None:
        """At an epoch's end: a recipe that serves samples again or others instead, and was told nothing to
        choose them by, costs accuracy that a line of the training loop gives back (docs/results/gpu.md)."""
        if not self._relies or self._heard or self._silence_told or self._evaluator is not None:
            return
        if self._recorded:  # then it listens for the tape's sake, too
            return
        f = figures()
        again = f["repeats"] + f["substitutes"]
        if not again:
            return
        self._silent_epochs += 1
        if self._order_only and self._silent_epochs == 1:
            return  # a short epoch may be drawn whole before anything can be said about it
        self._silence_told = True
        what = "embeddings" if self.recipe.startswith("spider") else "loss"
        warnings.warn(
            f"larder: {self.recipe} repeated or exchanged {100 * again / max(1, f['served']):.0f} % of an epoch's "
            f"samples and has heard nothing to choose them by: call loader.report({what}=...) with a row a sample "
            "after each batch, or take signal=none if that is meant",
            stacklevel=6 if self._order_only else 5,
        )

    def _scored(self, b: Batch, embeddings: Any) -> Any:
        """Embeddings, or what their scores are, where those are worked out on their device."""
        if self._graph is None:
            return embeddings
        embeddings = shaped("embeddings", embeddings, b.n)
        if not _torch.is_tensor(embeddings):
            embeddings = _torch.module().as_tensor(embeddings)
        return self._graph.score(b.served_host, b.labels_host, embeddings, b.epoch)

    def validate(self, accuracy: float) -> None:
        """Validation accuracy, a fraction of 1, as of now."""
        _lib.check(self._beside(self._lib.larder_loader_validate, float(accuracy)))

    def set_evaluator(self, evaluator: Callable[[Batch], Any]) -> None:
        """Right after opening: f(batch) gives the loss of each of the batch's samples, by a forward
        pass alone. Asked between epochs by recipes that want it (impact)."""

        def call(_: Any, s: Any, loss: Any) -> int:
            try:
                b = self._lent_batch(s.contents)
                out = evaluator(b)
                if _torch.is_tensor(out):
                    out = out.detach().float().cpu().numpy()
                import numpy

                out = numpy.ascontiguousarray(out, "float32").reshape(-1)
                if len(out) != b.n:
                    raise ValueError(f"the evaluator gave {len(out)} losses for {b.n} samples")
                ctypes.memmove(loss, out.ctypes.data, 4 * b.n)
                return 0
            except BaseException as e:  # it passes through C: raised again by next
                self._raised = e
                return CancelledError.code

        fn, before = _lib.EVALUATE_FN(call), (self._evaluator, self._evaluates)
        self._evaluator, self._evaluates = fn, call  # first: Ctrl-C must not take away what the library calls
        try:
            _lib.check(self._beside(self._lib.larder_loader_evaluator, fn, None))
        except Exception:
            self._evaluator, self._evaluates = before
            raise

    def _lent_batch(self, s: _lib.BatchStruct) -> Batch:
        """A batch that is lent for a call: copied, so that nobody can keep it too long."""
        b = self._made(self._maker_of(s, self._tensors), None, s)
        device = self._carrier.device
        if b.x is None and not s.column_count and device is not None:  # it is made there
            torch = _torch.module()
            now = torch.cuda.current_stream(device)
            b.x = self._carrier.seen(self._carrier.make(self._handle, ctypes.addressof(s), s, now))
            now.synchronize()  # the memory is lent no longer than the call
        bare = b.x is b.data
        whole = copy.deepcopy({name: getattr(b, name) for name in COPIED})
        if device is not None:
            for name in MOVED:
                whole[name] = each_tensor(whole[name], lambda t: t.to(device))
        for name, value in whole.items():
            setattr(b, name, value)
        if b.data is not None:
            given(b, b.data, bare)
        b._lies = None
        return b


class Hook:
    """A forward hook that reports a layer's output as embeddings."""

    def __init__(self, loader: "Heard", module: Any) -> None:
        self.loader = loader
        if not hasattr(module, "register_forward_hook"):
            raise TypeError(f"feedback takes a layer of PyTorch, such as model.avgpool, not {module!r}")
        self.handle = module.register_forward_hook(self.hook)

    def hook(self, module: Any, inputs: Any, output: Any) -> None:
        if not module.training or self.loader._batch is None:
            return
        if isinstance(output, (tuple, list)) and output:
            output = output[0]
        if not _torch.is_tensor(output) or not output.dim():
            raise TypeError(
                f"feedback: {type(module).__name__} gives a {type(output).__name__}; take a layer that "
                "gives a tensor with a row a sample"
            )
        self.loader._hooked = output.detach().reshape(output.shape[0], -1)

    def remove(self) -> None:
        self.handle.remove()

    def __enter__(self) -> "Hook":
        return self

    def __exit__(self, *what: Any) -> None:
        self.remove()
