"""A loader's state, saved and gone on with: what the library saves, and what Python holds beside it."""

from __future__ import annotations

import ctypes
import operator
from typing import Any, Dict, List, Sequence, Union

from . import _lib, _state
from ._errors import FormatError, StateError, UnsupportedError
from ._heard import Heard

VERSION = 1  # of what is beside the library's state, which has its own


class Resumed(Heard):
    """The part of a Loader that saves and goes on."""

    def _begin_anew(self) -> int:
        raise NotImplementedError

    def state_dict(self) -> Dict[str, Any]:
        """All that is needed to go on after the batches taken so far: the same remaining ids, the
        same augmentation. The batch at hand counts as taken. Each process saves its own; of those
        that share a cache, all do it after the same batch. A batch that Ctrl-C kept from ``next`` counts as
        taken too: after a Ctrl-C, what is left of an epoch is complete in the loader itself alone."""
        self._open()  # first: in a forked child nobody lets go of what is taken next
        with self._taking:  # another thread may be in the middle of a batch
            return self._beside(self._saved)

    def _saved(self, handle: int) -> Dict[str, Any]:
        if self._batch is not None and self.listens:
            self._take_hooked(self._batch)
        if not self._desk.exchange and not self._desk.own:
            self._desk.flush(handle)
        data, size = ctypes.c_void_p(), ctypes.c_size_t()
        try:
            _lib.check(
                self._lib.larder_loader_save(handle, _lib.STATE, ctypes.byref(data), ctypes.byref(size))
            )
            state = ctypes.string_at(data, size.value)
        finally:
            self._lib.larder_free(data)
        return {
            "version": VERSION,
            "epoch": self._wanted_epoch if self._wanted_epoch is not None else _lib.about(handle).epoch,
            "last": self._last,
            "rank": self.rank,
            "world": self.world,
            "dealt": self._dealt,
            "batch_size": self.batch_size,
            "taken": 0 if self._has_ended(handle) else self._taken,
            "wanted": self._wanted_epoch,
            "larder": _state.wrap(state, self._tensors),
            "reports": self._desk.state(self._tensors),
            "graph": self._graph.state_dict() if self._graph else None,
        }

    def load_state_dict(self, state: Union[Dict[str, Any], Sequence[Dict[str, Any]]]) -> None:
        """Goes on where that state stands, with the same data set, recipe, cache size, seed and batch
        size. A loader in use begins anew for it, with an empty cache and new threads; one that
        records or is one of several processes takes a state right after opening alone. With another number of processes: a list of the states of
        all there were, the same for each; of one alone, what the others reported last is missing."""
        self._alone(self._load, state)

    def _load(self, state: Union[Dict[str, Any], Sequence[Dict[str, Any]]]) -> None:
        if isinstance(state, (list, tuple)):
            self._load_all([_checked(s) for s in state])
            return
        state = _checked(state)
        raw = _state.unwrap(state["larder"])
        handle = self._open()
        used, self._given = self._given or self._turns > 0, True
        rc = self._lib.larder_loader_restore(handle, _lib.STATE, raw, len(raw))
        if rc == StateError.code and used:
            handle = self._begin_anew()
            rc = self._lib.larder_loader_restore(handle, _lib.STATE, raw, len(raw))
        _lib.check(rc)
        self._middle = False  # the next iter goes on in the middle
        self._at_epoch, self._asking = None, False
        if self._graph:
            self._graph.load_state_dict(state.get("graph"))
        self._wanted_epoch = state["wanted"]
        self._fresh, self._taken = True, None
        same = (state["rank"], state["world"]) == (self.rank, self.world)
        if same and state["batch_size"] == self.batch_size:
            self._taken = state["taken"]
            over = _lib.about(handle).epoch + 1
            if self._taken == len(self) and not 0 < self._epochs <= over and self._wanted_epoch is None:
                self._wanted_epoch = over  # nothing is left of that epoch: the next iter is the next
        if same:
            self._desk.load(state["reports"])
            self._last = self._loaded_at = state["last"]

    def _load_all(self, states: List[Dict[str, Any]]) -> None:
        states = sorted(states, key=lambda s: s["rank"])
        if len(states) == self.world and all(s["world"] == self.world for s in states):
            self._load(states[self.rank])
            return
        if not states or [s["rank"] for s in states] != list(range(states[0]["world"])):
            raise FormatError("not the states of all processes of a run, one of each")
        self._load(states[0])
        full = sum(s["batch_size"] or 0 for s in states)
        if self.world * self.batch_size == full:
            dealt = full if states[0].get("dealt") else 0
            self._desk.load_joined([s["reports"] for s in states], dealt, self._open())


def _checked(state: Any) -> Dict[str, Any]:
    """A state, with every part of it there and of its kind: before anything is restored."""
    if not isinstance(state, dict) or not isinstance(state.get("version"), int) or state.get("larder") is None:
        raise FormatError("not a state of a larder.Loader")
    if state["version"] != VERSION:
        raise UnsupportedError(f"a state of a larder.Loader of version {state['version']}; this larder reads version "
                               f"{VERSION}: go on with the larder that saved it, or begin anew")
    out: Dict[str, Any] = dict.fromkeys(("wanted", "graph", "batch_size", "taken", "last"))
    out.update(state)
    for name in ("rank", "world", "last", "batch_size", "taken", "wanted"):
        value = out.get(name)
        if not isinstance(value, int) and (value is not None or name in ("rank", "world")):
            raise FormatError(f"a state of a larder.Loader, but damaged: {name!r} is {value!r}")
    try:
        _state.unwrap(out["larder"])
        for r in out["reports"]:
            for packed in (r["served"], r["labels"], *r["values"].values()):
                _state.unpack(packed)
            operator.index(r["number"]), operator.index(r["epoch"])
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise FormatError(f"a state of a larder.Loader, but damaged: {e!r}") from None
    return out
