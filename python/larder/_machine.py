"""What the machines of larder.svm share: from a user's arrays through the library, and the model as
attributes. Each task is in svm.py; the library's own structures are in _svm.py."""

from __future__ import annotations

import warnings
from ctypes import byref, c_void_p
from typing import Any, TypeVar

import numpy as np

try:
    from sklearn.base import BaseEstimator
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted
except ImportError as missing:
    raise ImportError(
        "larder.svm wants scikit-learn (apt install python3-sklearn, or pip install scikit-learn)"
    ) from missing

try:
    from sklearn.utils.validation import validate_data as validate
except ImportError:  # before 1.6 it was a method

    def validate(estimator, *args, **options):
        return estimator._validate_data(*args, **options)


from . import _lib, _svm

Fitted = TypeVar("Fitted", bound="Machine")  # fit gives the machine itself


class Machine(BaseEstimator):
    """What all of them share: ``_task``, and from arrays to arrays through the library."""

    _task: int

    # ---- scikit-learn's tags, old style and new --------------------------------------------------

    def _more_tags(self):
        # The same two as scikit-learn's own machines.
        expected = {
            "check_sample_weights_invariance": "rows come in another order there, and the optimum "
            "is reached within the tolerance, not to the last bit",
        }
        if self._task == _svm.NU_SVC:
            expected["check_class_weight_classifiers"] = "class_weight is ignored"
        return {"pairwise": self.kernel == "precomputed", "_xfail_checks": expected}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed" and not callable(self.kernel)
        return tags

    # ---- training --------------------------------------------------------------------------------

    def _is_given(self) -> bool:
        return callable(self.kernel) or self.kernel == "precomputed"

    def _check_kernel(self):
        if not callable(self.kernel) and self.kernel not in _svm.KERNELS:
            raise ValueError(
                f"kernel={self.kernel!r}: there are {', '.join(_svm.KERNELS)}, or a function"
            )

    def _gamma_of(self, X) -> float:
        if self._is_given() or self.kernel == "linear":
            return 1.0
        if isinstance(self.gamma, str):
            if self.gamma == "auto":
                return 1.0 / X.shape[1]
            if self.gamma != "scale":
                raise ValueError(f"gamma={self.gamma!r}: a number above 0, 'scale' or 'auto'")
            if hasattr(X, "multiply"):
                variance = X.multiply(X).mean() - X.mean() ** 2
            else:
                variance = X.var()
            return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
        if not self.gamma > 0:
            raise ValueError(f"gamma={self.gamma!r}: a number above 0, 'scale' or 'auto'")
        return float(self.gamma)

    def _conf(self, X) -> "_svm.Conf":
        conf = _svm.Conf()
        _svm.library().larder_svm_defaults(byref(conf))
        conf.task = self._task
        conf.kernel = _svm.KERNELS["precomputed" if self._is_given() else self.kernel]
        conf.degree = int(self.degree)
        conf.gamma = self._gamma = self._gamma_of(X)
        conf.coef0 = float(self.coef0)
        for name, field in (("C", "c"), ("nu", "nu"), ("epsilon", "epsilon")):
            if hasattr(self, name):
                setattr(conf, field, float(getattr(self, name)))
        conf.tolerance = float(self.tol)
        conf.shrinking = bool(self.shrinking)
        conf.sorted_classes = True
        conf.merge = bool(self.merge_repeats)
        jobs = self.n_jobs
        conf.threads = 0 if jobs is None or jobs < 0 else int(jobs)
        if self.cache not in ("auto", "on", "off"):
            raise ValueError(f"cache={self.cache!r}: it is 'auto', 'on' or 'off'")
        if self.cache_size is not None:
            if not self.cache_size > 0:
                raise ValueError(f"cache_size={self.cache_size!r}: megabytes above 0, or None")
            conf.cache_bytes = int(self.cache_size * 1048576)
        if self.cache == "off":
            conf.cache_bytes = 0
        conf.cache_always = self.cache == "on"
        conf.policy = _lib.text(self.cache_policy)
        if self.max_iter != -1 and not self.max_iter > 0:
            raise ValueError(f"max_iter={self.max_iter!r}: a number of steps, or -1 for no limit")
        conf.most_iterations = 2**64 - 1 if self.max_iter == -1 else int(self.max_iter)
        return conf

    def _data(self, X, y=None, sample_weight=None):
        if not self._is_given():
            return _svm.rows_of(X, y, sample_weight=sample_weight)
        K = self._values_of_function(X) if callable(self.kernel) else X
        serial = np.arange(1, K.shape[0] + 1, dtype=np.float64)[:, None]
        return _svm.rows_of(np.hstack([serial, K]), y, index_zero=True, sample_weight=sample_weight)

    def _values_of_function(self, X) -> np.ndarray:
        """What a kernel function says, a row each of X and a column each of the rows of training: the
        library reads that many."""
        K = self.kernel(X, self._X_fit)
        wanted = (X.shape[0], self._X_fit.shape[0])
        if hasattr(K, "toarray"):
            K = K.toarray()
        try:
            K = np.asarray(K)
            K = K.astype(np.float64, copy=False) if K.dtype.kind in "biufO" else None
        except (TypeError, ValueError):
            K = None
        if K is None:
            raise TypeError("the kernel function must return a matrix of real numbers")
        if K.shape != wanted:
            raise ValueError(
                f"the kernel function returned the shape {K.shape}; it was called with {wanted[0]} and "
                f"{wanted[1]} rows, so {wanted} is wanted"
            )
        if not np.isfinite(K).all():
            raise ValueError("the kernel function returned NaN or infinity")
        return K

    def _check_X_y(self, X, y, **options):
        self._check_kernel()
        X, y = validate(
            self, X, y, dtype=np.float64, order="C", accept_sparse="csr",
            accept_large_sparse=False, **options,
        )
        self._check_given(X)
        return X, y

    def _check_given(self, X):
        if self.kernel == "precomputed" and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"a precomputed kernel is square; X has {X.shape[0]} rows and {X.shape[1]} columns"
            )
        if self._is_given() and hasattr(X, "toarray"):
            raise TypeError("sparse precomputed kernels and kernels by a function are not supported")

    def _train(self, X, y, sample_weight, class_weights=()):
        """Sets the attributes that all tasks have. Rows of weight 0 take no part."""
        conf = self._conf(X)
        kept = None
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
            if (sample_weight < 0).any():
                raise ValueError("sample_weight: weights are 0 or more")
            if (sample_weight == 0).any():
                kept = np.flatnonzero(sample_weight)
                if len(kept) == 0:
                    raise ValueError("sample_weight: all weights are zero")
        self._X_fit = X if callable(self.kernel) else None
        part, target = X, y
        if kept is not None:
            target, sample_weight = y[kept], sample_weight[kept]
            if self.kernel == "precomputed":
                part = X[np.ix_(kept, kept)]
            else:
                part = X[kept]
            if callable(self.kernel):
                self._X_fit = part
        if class_weights:
            conf.weights = (_svm.Weight * len(class_weights))(*class_weights)
            conf.weight_count = len(class_weights)
        if wants_probability(self):
            conf.probability = True
            random = check_random_state(self.random_state)
            conf.seed = int(random.randint(np.iinfo(np.int32).max))
        if self.verbose:
            conf.print = _svm.PRINT(lambda _, line: print(line.decode(), end=""))
        stats = _svm.Stats()
        said = _svm.sentences(conf)
        data = self._data(part, target, sample_weight)
        model = _svm.train(data, conf, stats)
        self._take(model, X, kept, stats)
        for sentence in said:
            warnings.warn(sentence, ConvergenceWarning if stats.unreached else UserWarning)

    def _take(self, model, X, kept, stats):
        parts = _svm.parts_of(model)
        n, values = parts.vector_count, parts.values
        rows = _svm.array(parts.support, n).astype(np.int32)
        self.support_ = rows if kept is None else kept[rows].astype(np.int32)
        self._serial = rows + 1  # columns of a precomputed kernel, among the rows that took part
        self._columns = kept
        self.support_vectors_ = X[self.support_] if not self._is_given() else np.empty((0, 0))
        self._coef = _svm.array(parts.coef, parts.coef_lines, n)
        self._rho = _svm.array(parts.rho, values)
        a, b = parts.sigmoid_a, parts.sigmoid_b
        self._sigmoid_a = _svm.array(a, max(values, 1)) if a and b else None
        self._sigmoid_b = _svm.array(b, values) if a and b else None
        self._class_vectors = _svm.array(parts.class_vectors, parts.classes).astype(np.uint64)
        self.shape_fit_ = X.shape
        self.stats_ = stats.as_dict()
        self.n_iter_ = max(1, int(stats.iterations))
        self.fit_status_ = int(stats.unreached > 0)
        self._model = model

    # ---- the model -------------------------------------------------------------------------------

    @property
    def n_support_(self) -> np.ndarray:
        """Support vectors of each class, or of all in one figure."""
        check_is_fitted(self)
        if self._class_count():
            return self._class_vectors.astype(np.int32)
        return np.array([len(self.support_)], dtype=np.int32)

    def _class_count(self) -> int:
        return len(self.classes_) if hasattr(self, "classes_") else 0

    @property
    def _flip(self) -> float:
        """scikit-learn's binary decision is above zero for the second class, LIBSVM's for the first."""
        return -1.0 if self._class_count() == 2 else 1.0

    @property
    def dual_coef_(self) -> np.ndarray:
        """Coefficients of the support vectors, scikit-learn's signs."""
        check_is_fitted(self)
        return self._flip * self._coef

    @property
    def intercept_(self) -> np.ndarray:
        check_is_fitted(self)
        return -self._flip * self._rho

    @property
    def coef_(self) -> np.ndarray:
        """Weights of the features, of a linear kernel."""
        if self.kernel != "linear":
            raise AttributeError("coef_ is there with a linear kernel alone")
        check_is_fitted(self)
        if self._class_count() <= 2:
            return _dense(self.dual_coef_ @ self.support_vectors_)
        ends = np.concatenate([[0], np.cumsum(self._class_vectors.astype(int))])
        out = []
        for i in range(self._class_count()):
            for j in range(i + 1, self._class_count()):
                a, b = slice(ends[i], ends[i + 1]), slice(ends[j], ends[j + 1])
                out.append(
                    self._coef[j - 1, a] @ self.support_vectors_[a]
                    + self._coef[i, b] @ self.support_vectors_[b]
                )
        return _dense(np.vstack(out))

    def _assemble(self):
        """The library's model from the attributes: a pickled estimator has them alone."""
        lib = _svm.library()
        classes = self._class_count() or 2
        label = np.arange(classes, dtype=np.float64)
        if self._is_given():
            vectors = _svm.rows_of(self._serial[:, None].astype(float), None, index_zero=True)
        elif len(self.support_):
            vectors = _svm.rows_of(self.support_vectors_, None)
        else:
            raise ValueError("a model without support vectors cannot be assembled")
        coef = np.ascontiguousarray(self._coef)
        parts = _svm.Parts(
            task=self._task,
            kernel=_svm.KERNELS["precomputed" if self._is_given() else self.kernel],
            degree=int(self.degree),
            gamma=self._gamma,
            coef0=float(self.coef0),
            classes=classes,
            label=_svm.pointer(label),
            class_vectors=_svm.pointer(self._class_vectors),
            coef=_svm.pointer(coef),
            rho=_svm.pointer(self._rho),
            vectors=vectors.value,
        )
        if self._sigmoid_a is not None:
            parts.sigmoid_a = _svm.pointer(self._sigmoid_a)
            parts.sigmoid_b = _svm.pointer(self._sigmoid_b)
        model = c_void_p()
        _lib.check(lib.larder_svm_assemble(byref(model), byref(parts)))
        return _svm.Handle(model, lib.larder_svm_model_close)

    def __getstate__(self):
        state = super().__getstate__()
        return {k: v for k, v in state.items() if k != "_model"}

    def _ready(self):
        check_is_fitted(self)
        if getattr(self, "_model", None) is None:
            self._model = self._assemble()
        return self._model.value

    def save(self, path: Any) -> None:
        """Writes the model as LIBSVM's svm-predict and ``larder svm-predict`` read it. Classes are
        written as their places in ``classes_``, support vectors with 8 digits (LIBSVM's format)."""
        _lib.check(_svm.library().larder_svm_save(self._ready(), _lib.text(path)))

    # ---- prediction ------------------------------------------------------------------------------

    def _check_X(self, X):
        check_is_fitted(self)
        X = validate(
            self, X, dtype=np.float64, order="C", accept_sparse="csr", accept_large_sparse=False,
            reset=False,
        )
        if self._is_given() and hasattr(X, "toarray"):
            raise TypeError("sparse precomputed kernels and kernels by a function are not supported")
        if self.kernel == "precomputed":
            if X.shape[1] != self.shape_fit_[0]:
                raise ValueError(
                    f"X has {X.shape[1]} columns; a precomputed kernel wants one for each of the "
                    f"{self.shape_fit_[0]} rows of training"
                )
            if self._columns is not None:
                X = X[:, self._columns]
        return X

    def _values(self, X) -> np.ndarray:
        """Decision values as LIBSVM has them: rows x decision functions."""
        model = self._ready()
        out = np.empty((X.shape[0], len(self._rho)))
        _svm.predict(model, self._data(X), values=out)
        return out


def wants_probability(machine) -> bool:
    """scikit-learn from 1.9 on writes "deprecated" for a probability that nobody asked for."""
    return bool(getattr(machine, "probability", False)) and machine.probability != "deprecated"


def _dense(a):
    return a.toarray() if hasattr(a, "toarray") else np.asarray(a)
