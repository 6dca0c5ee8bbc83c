"""include/larder/svm.h as ctypes sees it, and arrays in and out of it."""

from __future__ import annotations

import ctypes
import signal
import threading
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    byref,
    c_bool,
    c_char,
    c_char_p,
    c_double,
    c_int,
    c_size_t,
    c_uint,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any

import numpy as np

from . import _lib

C_SVC, NU_SVC, ONE_CLASS, EPSILON_SVR, NU_SVR = range(5)
KERNELS = {"linear": 0, "poly": 1, "rbf": 2, "sigmoid": 3, "precomputed": 4}
INDEX_ZERO = 1


class Weight(Structure):
    _fields_ = [("label", c_int), ("weight", c_double)]


class Progress(_lib.Sized):
    _fields_ = [
        ("size", c_size_t),
        ("problem", c_size_t),
        ("problems", c_size_t),
        ("rounds", c_uint64),
        ("iterations", c_uint64),
        ("gap", c_double),
        ("tolerance", c_double),
        ("objective", c_double),
        ("seconds", c_double),
        ("seconds_left", c_double),
        ("hits", c_double),
    ]


PROGRESS = CFUNCTYPE(c_int, c_void_p, POINTER(Progress))
PRINT = CFUNCTYPE(None, c_void_p, c_char_p)


class Conf(_lib.Sized):
    _fields_ = [
        ("size", c_size_t),
        ("task", c_int),
        ("kernel", c_int),
        ("degree", c_int),
        ("gamma", c_double),
        ("coef0", c_double),
        ("c", c_double),
        ("nu", c_double),
        ("epsilon", c_double),
        ("tolerance", c_double),
        ("weights", POINTER(Weight)),
        ("weight_count", c_size_t),
        ("most_iterations", c_uint64),
        ("shrinking", c_bool),
        ("probability", c_bool),
        ("sorted_classes", c_bool),
        ("one_vs_all", c_bool),
        ("merge", c_bool),
        ("threads", c_uint32),
        ("seed", c_uint64),
        ("cache_bytes", c_uint64),
        ("cache_rows", c_uint64),
        ("policy", c_char_p),
        ("cache_always", c_bool),
        ("separate_rows", c_bool),
        ("access_log", c_char_p),
        ("checkpoint", c_char_p),
        ("checkpoint_seconds", c_double),
        ("progress", PROGRESS),
        ("progress_arg", c_void_p),
        ("print", PRINT),
        ("print_arg", c_void_p),
        ("warn", PRINT),
        ("warn_arg", c_void_p),
        ("device", c_char_p),
    ]


class Switch(Structure):
    _fields_ = [("round", c_uint64), ("to", c_char * 16), ("was", c_double), ("other", c_double)]


class Stats(_lib.Sized):
    _fields_ = [
        ("size", c_size_t),
        ("problems", c_uint64),
        ("rounds", c_uint64),
        ("iterations", c_uint64),
        ("points", c_uint64),
        ("rows", c_uint64),
        ("rows_asked", c_uint64),
        ("rows_hit", c_uint64),
        ("rows_made", c_uint64),
        ("values", c_uint64),
        ("seconds", c_double),
        ("kernel_seconds", c_double),
        ("cache_seconds", c_double),
        ("select_seconds", c_double),
        ("solve_seconds", c_double),
        ("update_seconds", c_double),
        ("make_us", c_double),
        ("keep_us", c_double),
        ("cache_on", c_bool),
        ("engine", c_char * 24),
        ("policy", c_char * 64),
        ("objective", c_double),
        ("gap", c_double),
        ("exact", c_uint64),
        ("unreached", c_uint64),
        ("ran_out", c_uint64),
        ("worst_gap", c_double),
        ("threads", c_uint32),
        ("switches", c_size_t),
        ("switched", Switch * 64),
        ("device", c_char * 256),
        ("start_seconds", c_double),
    ]

    def as_dict(self) -> dict:
        plain = {name: getattr(self, name) for name, _ in self._fields_[1:]}
        plain["switched"] = [
            {"round": s.round, "to": s.to.decode(), "was": s.was, "other": s.other}
            for s in self.switched[: min(self.switches, 64)]
        ]
        return {k: v.decode() if isinstance(v, bytes) else v for k, v in plain.items()}


class Parts(_lib.Sized):
    _fields_ = [
        ("size", c_size_t),
        ("task", c_int),
        ("kernel", c_int),
        ("degree", c_int),
        ("one_vs_all", c_bool),
        ("gamma", c_double),
        ("coef0", c_double),
        ("classes", c_size_t),
        ("label", POINTER(c_double)),
        ("class_vectors", POINTER(c_uint64)),
        ("coef", POINTER(c_double)),
        ("rho", POINTER(c_double)),
        ("sigmoid_a", POINTER(c_double)),
        ("sigmoid_b", POINTER(c_double)),
        ("vectors", c_void_p),
        ("vector_count", c_size_t),
        ("coef_lines", c_size_t),
        ("values", c_size_t),
        ("support", POINTER(c_uint32)),
        ("iterations", POINTER(c_uint64)),
    ]


class Matrix(_lib.Sized):
    _fields_ = [
        ("size", c_size_t),
        ("rows", c_size_t),
        ("start", c_void_p),
        ("index", c_void_p),
        ("value", c_void_p),
        ("label", c_void_p),
        ("weight", c_void_p),
        ("features", c_size_t),
        ("flags", c_uint64),
    ]


_PROTOTYPES = [
    ("larder_svm_copy", c_int, [POINTER(c_void_p), POINTER(Matrix)]),
    ("larder_svm_view", c_int, [c_void_p, POINTER(Matrix)]),
    ("larder_svm_data_close", None, [POINTER(c_void_p)]),
    ("larder_svm_defaults", c_int, [POINTER(Conf)]),
    (
        "larder_svm_train",
        c_int,
        [POINTER(c_void_p), c_void_p, POINTER(Conf), POINTER(Stats)],
    ),
    ("larder_svm_search", c_int, [c_void_p, POINTER(Conf), c_void_p, POINTER(Stats)]),
    ("larder_svm_load", c_int, [POINTER(c_void_p), c_char_p]),
    ("larder_svm_save", c_int, [c_void_p, c_char_p]),
    ("larder_svm_model_close", None, [POINTER(c_void_p)]),
    ("larder_svm_disassemble", c_int, [c_void_p, POINTER(Parts)]),
    ("larder_svm_assemble", c_int, [POINTER(c_void_p), POINTER(Parts)]),
    ("larder_svm_predict_on", c_int, [c_void_p, c_void_p, c_char_p] + [c_void_p] * 3),
]
_declared = False


def library() -> ctypes.CDLL:
    """The library with the SVM calls declared."""
    global _declared
    lib = _lib.load()
    if not _declared:
        _lib.declare(lib, _PROTOTYPES)
        _declared = True
    return lib


def _doubles(a) -> np.ndarray:
    return np.ascontiguousarray(a, dtype=np.float64)


def rows_of(X, y, *, index_zero: bool = False, sample_weight=None) -> _lib.Owned:
    """A data set over a matrix, dense or scipy.sparse; nothing goes through text."""
    lib = library()
    data = _lib.Owned(c_void_p(), lib.larder_svm_data_close)  # before there is any: Ctrl-C loses none
    y = np.zeros(X.shape[0]) if y is None else _doubles(y)
    weight = None if sample_weight is None else _doubles(sample_weight)
    for name, a in (("y", y), ("sample_weight", weight)):  # the library reads one a row
        if a is not None and a.shape != (X.shape[0],):
            raise ValueError(f"{name} has the shape {a.shape}; X has {X.shape[0]} rows")
    matrix = Matrix(rows=X.shape[0], label=y.ctypes.data, flags=INDEX_ZERO if index_zero else 0)
    if weight is not None:
        matrix.weight = weight.ctypes.data
    if hasattr(X, "tocsr"):
        X = X.tocsr(copy=False)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        start = np.ascontiguousarray(X.indptr, dtype=np.uint64)
        index = np.ascontiguousarray(X.indices, dtype=np.uint32)
        index = index if index_zero else index + np.uint32(1)
        value = _doubles(X.data)
        matrix.start, matrix.index = start.ctypes.data, index.ctypes.data
    else:
        value = _doubles(X)
        matrix.features = X.shape[1]
    matrix.value = value.ctypes.data
    _lib.check(lib.larder_svm_copy(byref(data.handle), byref(matrix)))
    return data


class Interrupts:
    """Ctrl-C while C code runs: remembered, told to the library by ``asked``, and delivered at the end
    to whoever handled it before. Elsewhere than in the main thread Python has no say in signals."""

    def __init__(self):
        self.asked = False
        self._before = None

    def _note(self, number, frame):
        self.asked = True

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *problem):
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        if self.asked:
            signal.raise_signal(signal.SIGINT)


def train(data: _lib.Owned, conf: Conf, stats: Stats) -> _lib.Owned:
    lib = library()
    model = _lib.Owned(c_void_p(), lib.larder_svm_model_close)
    with Interrupts() as interrupts:
        conf.progress = PROGRESS(lambda _, progress: int(interrupts.asked))
        code = lib.larder_svm_train(byref(model.handle), data.handle, byref(conf), byref(stats))
    _lib.check(code)
    return model


def sentences(conf: Conf) -> list:
    """What the library has to say of a training, gathered while it runs."""
    said: list = []
    conf.warn = PRINT(lambda _, line: said.append(line.decode()))
    return said


def predict(model: _lib.Owned, data: _lib.Owned, device: str = "cpu", *, labels=None, values=None,
            probabilities=None) -> None:
    """Fills in those arrays that are given."""
    out = [None if a is None else a.ctypes.data for a in (labels, values, probabilities)]
    _lib.check(library().larder_svm_predict_on(model, data, _lib.text(device), *out))


def parts_of(model: _lib.Owned) -> Parts:
    """Whatever a model is made of; its pointers are good as long as the model."""
    parts = Parts()
    _lib.check(library().larder_svm_disassemble(model, byref(parts)))
    return parts


def pointer(a: np.ndarray):
    """The address of an array's numbers, as a field of Parts takes it."""
    kinds: Any = {"float64": c_double, "uint64": c_uint64}
    return a.ctypes.data_as(POINTER(kinds[str(a.dtype)]))


def array(pointer, *shape) -> np.ndarray:
    """A copy of what a pointer of the library's shows."""
    if not pointer or 0 in shape:
        return np.zeros(shape)
    return np.ctypeslib.as_array(pointer, shape).copy()
