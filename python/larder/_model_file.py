"""LIBSVM's model files as machines of larder.svm."""

from __future__ import annotations

from ctypes import POINTER, byref, c_double, c_uint32, c_uint64, c_void_p, cast

import numpy as np
import scipy.sparse as sp

from . import _lib, _svm


def read(path, machines, n_features):
    """The machine a file stands for; ``machines``: a class each task."""
    lib = _svm.library()
    handle = _lib.Owned(c_void_p(), lib.larder_svm_model_close)
    _lib.check(lib.larder_svm_load(byref(handle.handle), _lib.text(path)))
    parts = _svm.parts_of(handle)
    if parts.one_vs_all:
        raise ValueError(f"{path}: a model of one class against all; `larder svm-predict` reads it")
    kernel = next(name for name, number in _svm.KERNELS.items() if number == parts.kernel)
    machine = machines[parts.task](kernel=kernel, degree=parts.degree, coef0=parts.coef0)
    if kernel in ("poly", "rbf", "sigmoid"):
        machine.gamma = parts.gamma
    machine._gamma = parts.gamma
    if parts.label:
        machine.classes_ = _whole(_svm.array(parts.label, parts.classes))
    machine._take_parts(handle, parts)
    _take_vectors(machine, parts, n_features, path)
    if parts.sigmoid_a and parts.sigmoid_b:
        machine.probability = True
    if parts.label:
        machine.class_weight_ = np.ones(parts.classes)
        _sort_classes(machine)
    elif parts.task == _svm.ONE_CLASS:
        machine.offset_ = -machine.intercept_
    machine._model = None  # the file's has labels where places in classes_ are wanted
    return machine


def _whole(labels):
    return labels.astype(np.int64) if (labels == np.rint(labels)).all() else labels


def _pairs(parts):
    """Support vectors as scipy's arrays, indices as in the file."""
    matrix = _svm.Matrix()
    if not parts.vectors:
        return np.zeros(1, np.uint64), np.zeros(0, np.uint32), np.zeros(0), 0
    _lib.check(_svm.library().larder_svm_view(parts.vectors, byref(matrix)))

    def array(address, kind, n):
        return _svm.array(cast(address, POINTER(kind)), n)

    start = array(matrix.start, c_uint64, matrix.rows + 1)
    n = int(start[-1])
    return start, array(matrix.index, c_uint32, n), array(matrix.value, c_double, n), matrix.features


def _take_vectors(machine, parts, n_features, path):
    start, index, value, features = _pairs(parts)
    rows = len(start) - 1
    given = machine.kernel == "precomputed"
    found = int(value.max(initial=0)) if given else features
    if n_features is not None and n_features < found:
        raise ValueError(f"{path} has a support vector with feature {found}; n_features is {n_features}")
    width = found if n_features is None else n_features
    machine.support_ = np.arange(rows, dtype=np.int32)
    machine._serial = value.astype(np.int32) if given else machine.support_ + 1
    machine._columns, machine._X_fit, machine._sparse = None, None, not given
    machine.fit_status_ = 0
    machine.shape_fit_ = (width, width) if given else (rows, width)
    if given:
        machine.support_vectors_ = np.empty((0, 0))
        return
    arrays = value, index.astype(np.int64) - 1, start.astype(np.int64)
    machine.support_vectors_ = sp.csr_matrix(arrays, shape=(rows, width))
    if n_features is not None:
        machine.n_features_in_ = n_features


def _sort_classes(machine):
    """Files have classes as they came, classes_ ascends: a pair that changes places changes signs."""
    order = np.argsort(machine.classes_)
    if (np.diff(order) > 0).all():
        return
    k, old = len(order), machine._coef
    ends = np.concatenate([[0], np.cumsum(machine._n_support)])
    of_class = [np.arange(ends[c], ends[c + 1]) for c in range(k)]
    at = {pair: n for n, pair in enumerate((i, j) for i in range(k) for j in range(i + 1, k))}
    coef, rho = np.zeros_like(old), np.empty_like(machine._rho)
    a, b = machine._sigmoid_a, machine._sigmoid_b
    new_a, new_b = (None, None) if a is None else (np.empty_like(a), np.empty_like(b))
    for (p, q), n in at.items():
        one, other = order[p], order[q]
        was, sign = at[min(one, other), max(one, other)], 1 if one < other else -1
        for own, against, line in ((one, other, q - 1), (other, one, p)):
            vectors = of_class[own]
            coef[line, vectors] = sign * old[against - 1 if own < against else against, vectors]
        rho[n] = sign * machine._rho[was]
        if a is not None:
            new_a[n], new_b[n] = a[was], sign * b[was]
    moved = np.concatenate([of_class[c] for c in order])
    machine._coef, machine._rho = coef[:, moved], rho
    machine._sigmoid_a, machine._sigmoid_b = new_a, new_b
    machine._n_support, machine.classes_ = machine._n_support[order], machine.classes_[order]
    machine._serial = machine._serial[moved]
    if machine._sparse:
        machine.support_vectors_ = machine.support_vectors_[moved]
