"""What the machines of larder.svm share: from a user's arrays through the library, and the model as
attributes. Each task is in svm.py; the library's own structures are in _svm.py."""

from __future__ import annotations

import functools
import inspect
import warnings
from ctypes import byref, c_void_p
from typing import Any, TypeVar

import numpy as np

try:
    import scipy.sparse as sp
    from sklearn.base import BaseEstimator
    from sklearn.exceptions import ConvergenceWarning, NotFittedError
    from sklearn.utils import _safe_indexing, check_consistent_length, check_random_state, column_or_1d
    from sklearn.utils.validation import _check_sample_weight, _num_samples, check_is_fitted
except ImportError as missing:
    raise ImportError(
        "larder.svm wants scikit-learn (apt install python3-sklearn, or pip install scikit-learn)"
    ) from missing

try:
    from sklearn.utils.validation import validate_data as validate
except ImportError:  # before 1.6 it was a method

    def validate(estimator, *args, **options):
        return estimator._validate_data(*args, **options)


try:
    from sklearn.utils._param_validation import validate_parameter_constraints
except ImportError:  # before 1.2
    validate_parameter_constraints = None

# Newer ones refuse weights that are all zero themselves, unless they are told that an SVM has its own words for it.
ZEROS = {name: True for name in inspect.signature(_check_sample_weight).parameters if name == "allow_all_zero_weights"}

from . import _lib, _svm


@functools.lru_cache(maxsize=None)
def constraints_of(name: str) -> dict:
    """What scikit-learn asks of the parameters of its machine of this name; {}: it does not say."""
    import sklearn.svm

    known = getattr(getattr(sklearn.svm, name), "_parameter_constraints", {})
    return known if validate_parameter_constraints else {}


NO_TARGETS = "no_validation"  # scikit-learn's word for it
ALTERED = "The internal representation of {} was altered"
NOT_FINITE = "The dual coefficients or intercepts are not finite"
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
            if not np.isfinite(variance):
                raise ValueError(f"{NOT_FINITE}: nor is the variance of X; scale the data (StandardScaler)")
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
        conf.device = _lib.text(self._where())
        if self.max_iter != -1 and not self.max_iter > 0:
            raise ValueError(f"max_iter={self.max_iter!r}: a number of steps, or -1 for no limit")
        conf.most_iterations = 2**64 - 1 if self.max_iter == -1 else int(self.max_iter)
        return conf

    def _where(self) -> str:
        return getattr(self, "device", "cpu")  # pickles of before have none

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
        wanted = (_num_samples(X), _num_samples(self._X_fit))
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

    def _looks_right(self) -> bool:
        weights = getattr(self, "class_weight", None)
        try:
            return bool(
                all(getattr(self, name, 1) > 0 for name in ("C", "nu", "tol"))
                and getattr(self, "nu", 1) <= 1
                and min(self.degree, getattr(self, "epsilon", 0), self.max_iter + 1) >= 0
                and (self.gamma in ("scale", "auto") or self.gamma > 0)
                and (callable(self.kernel) or self.kernel in _svm.KERNELS)
                and getattr(self, "decision_function_shape", "ovr") in ("ovr", "ovo")
                and (weights is None or isinstance(weights, dict) or weights == "balanced")
            )
        except (TypeError, ValueError):
            return False

    def _check_parameters(self) -> None:
        """What cannot be right is refused in scikit-learn's own words, where it has them (from 1.2 on):
        users look for these. Its own look takes longer than a small fit."""
        if self._looks_right():
            return
        name = next(c.__name__ for c in type(self).__mro__ if c.__module__ == "larder.svm")
        known = dict(constraints_of(name))
        for name in ("cache_size", "probability"):  # ours take more
            known.pop(name, None)
        if known:
            validate_parameter_constraints(
                known, self.get_params(deep=False), caller_name=type(self).__name__
            )

    def _check_rows(self, X, y=NO_TARGETS, **options):
        """What fit takes: rows of numbers, or whatever a kernel function understands."""
        self._check_parameters()
        self._check_kernel()
        sparse = sp.issparse(X)
        if sparse and self.kernel == "precomputed":
            raise TypeError("Sparse precomputed kernels are not supported.")
        self._sparse = sparse and not callable(self.kernel)
        if callable(self.kernel):
            if y is not NO_TARGETS:
                y = column_or_1d(y, warn=True)
                check_consistent_length(X, y)
        else:
            X = validate(
                self, X, y, dtype=np.float64, order="C", accept_sparse="csr",
                accept_large_sparse=False, **options,
            )
            X, y = (X, y) if y is NO_TARGETS else X
        if self.kernel == "precomputed" and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"Precomputed matrix must be a square matrix: X is {X.shape[0]}x{X.shape[1]}"
            )
        return X, y

    def _weights(self, X, y, sample_weight):
        """Weights of those rows that take part, and which these are (None: all). As in scikit-learn
        rows of weight zero or less take none."""
        if sample_weight is None:
            return None, None
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, **ZEROS)
        kept = np.flatnonzero(weight > 0)
        nu = "specified nu is infeasible: " if self._task == _svm.NU_SVC else "Invalid input - "
        if len(kept) == 0:
            raise ValueError(nu + "all samples have zero or negative weights.")
        if self._class_count():
            left = len(np.unique(y[kept]))
            if left == 1:
                raise ValueError(nu + "all samples with positive weights belong to the same class")
            if left < len(self.classes_):
                raise ValueError(
                    f"sample_weight: only {left} of {len(self.classes_)} classes have a row of weight "
                    "above zero; leave the others out"
                )
        return weight[kept], None if len(kept) == len(weight) else kept

    def _train(self, X, y, sample_weight, class_weights=()):
        """Sets the attributes that all tasks have."""
        conf = self._conf(X)
        sample_weight, kept = self._weights(X, y, sample_weight)
        part, target = X, y
        if kept is not None:
            target = y[kept]
            square = self.kernel == "precomputed"
            part = X[np.ix_(kept, kept)] if square else _safe_indexing(X, kept)
        self._X_fit = part if callable(self.kernel) else None
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
        model = _svm.train(self._data(part, target, sample_weight), conf, stats)
        self._take(model, X, kept, stats)
        if not (np.isfinite(self._coef).all() and np.isfinite(self._rho).all()):
            raise ValueError(f"{NOT_FINITE}; scale the data (StandardScaler)")
        if stats.ran_out and self.max_iter != -1:
            said = [f"Solver terminated early (max_iter={self.max_iter}).  Consider pre-processing your "
                    "data with StandardScaler or MinMaxScaler."] + said
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
        self.shape_fit_ = X.shape if hasattr(X, "shape") else (_num_samples(X),)
        self.stats_ = stats.as_dict()
        steps = np.maximum(_svm.array(parts.iterations, values), 1).astype(np.int32)
        self.n_iter_ = steps if self._class_count() else int(steps[0])
        self.fit_status_ = int(stats.unreached > 0)
        self._take_parts(model, parts)

    def _take_parts(self, model, parts):
        """Those attributes that every model has, wherever it comes from."""
        values = parts.values
        coef = _svm.array(parts.coef, parts.coef_lines, parts.vector_count)
        self._rho = _svm.array(parts.rho, values)
        a, b = parts.sigmoid_a, parts.sigmoid_b
        self._sigmoid_a = _svm.array(a, max(values, 1)) if a and b else None
        self._sigmoid_b = _svm.array(b, values) if a and b else None
        vectors = _svm.array(parts.class_vectors, parts.classes)
        self._n_support = (vectors if self._class_count() else np.array([parts.vector_count])).astype(np.int32)
        self._coef = coef  # last: whoever assembles beside this looks at it first
        self._model = coef, model

    # ---- the model -------------------------------------------------------------------------------

    @property
    def n_support_(self) -> np.ndarray:
        """Support vectors of each class, or of all in one figure."""
        try:
            check_is_fitted(self)
        except NotFittedError as e:
            raise AttributeError(str(e)) from e
        return self._n_support

    def _class_count(self) -> int:
        return len(self.classes_) if hasattr(self, "classes_") else 0

    @property
    def _flip(self) -> float:
        """scikit-learn's binary decision is above zero for the second class, LIBSVM's for the first."""
        return -1.0 if self._class_count() == 2 else 1.0

    def _as_fitted(self, a):
        """Sparse, with every number, where the model was fitted to sparse rows."""
        if not self._sparse:
            return a
        lines, n = a.shape
        start, index = np.arange(lines + 1) * n, np.tile(np.arange(n), lines)
        return sp.csr_matrix((a.ravel(), index, start), a.shape) if n else sp.csr_matrix(a)

    @property
    def dual_coef_(self) -> Any:
        """Coefficients of the support vectors, scikit-learn's signs."""
        check_is_fitted(self)
        return self._as_fitted(self._flip * self._coef)

    @property
    def _dual_coef_(self) -> Any:
        """The same with LIBSVM's signs; these may be set, and predictions follow."""
        check_is_fitted(self)
        return self._as_fitted(self._coef)

    @_dual_coef_.setter
    def _dual_coef_(self, value):
        value = np.asarray(_dense(value), dtype=np.float64)
        if value.shape != self._coef.shape:
            raise ValueError(f"_dual_coef_ has the shape {value.shape}; {self._coef.shape} is wanted")
        self._coef = value  # a model of others is not taken again

    @property
    def intercept_(self) -> np.ndarray:
        check_is_fitted(self)
        return -self._flip * self._rho

    @property
    def _intercept_(self) -> np.ndarray:
        check_is_fitted(self)
        return -self._rho

    @property
    def coef_(self) -> Any:
        """Weights of the features, of a linear kernel; not to be written to."""
        if self.kernel != "linear":
            raise AttributeError("coef_ is only available when using a linear kernel")
        check_is_fitted(self)
        if self._class_count() <= 2:
            coef = self.dual_coef_ @ self.support_vectors_
        else:
            coef = self._coef_of_pairs()
        (coef.data if sp.issparse(coef) else coef).flags.writeable = False
        return coef

    def _coef_of_pairs(self):
        ends = np.concatenate([[0], np.cumsum(self._n_support)])
        vectors, out = self.support_vectors_, []
        for i in range(self._class_count()):
            for j in range(i + 1, self._class_count()):
                a, b = slice(ends[i], ends[i + 1]), slice(ends[j], ends[j + 1])
                one, other = self._coef[None, j - 1, a], self._coef[None, i, b]
                if self._sparse:
                    one, other = sp.csr_matrix(one), sp.csr_matrix(other)
                out.append(one @ vectors[a] + other @ vectors[b])
        return sp.vstack(out).tocsr() if self._sparse else np.vstack(out)

    def _assemble(self, coef, label=None):
        """The library's model from the attributes: a pickled estimator has them alone."""
        lib = _svm.library()
        named = self._class_count()
        classes = named or 2
        label = np.arange(classes, dtype=np.float64) if label is None else label
        rho, a, b, of_class = self._rho, self._sigmoid_a, self._sigmoid_b, self._n_support.astype(np.uint64)
        rows = self._serial[:, None].astype(float) if self._is_given() else self.support_vectors_
        n = rows.shape[0]
        if not n and not self._is_given():
            raise ValueError("a model without support vectors cannot be assembled")
        # The library reads so many, and another thread may be in the middle of fit.
        pairs = named * (named - 1) // 2 if named else 1
        wanted = [(coef, (max(named - 1, 1), n)), (rho, (pairs,)), (of_class, (named or 1,)), (label, (classes,))]
        wanted += [] if a is None else [(a, (max(pairs, 1),))]
        wanted += [] if b is None else [(b, (pairs,))]
        if any(part.shape != shape for part, shape in wanted):
            raise ValueError(ALTERED.format(type(self).__name__))
        vectors = _svm.rows_of(rows, None, index_zero=self._is_given())
        coef = np.ascontiguousarray(coef)
        parts = _svm.Parts(
            task=self._task,
            kernel=_svm.KERNELS["precomputed" if self._is_given() else self.kernel],
            degree=int(self.degree),
            gamma=self._gamma,
            coef0=float(self.coef0),
            classes=classes,
            label=_svm.pointer(label),
            class_vectors=_svm.pointer(of_class),
            coef=_svm.pointer(coef),
            rho=_svm.pointer(rho),
            vectors=vectors.handle,
        )
        if a is not None and b is not None:
            parts.sigmoid_a = _svm.pointer(a)
            parts.sigmoid_b = _svm.pointer(b)
        model = _lib.Owned(c_void_p(), lib.larder_svm_model_close)
        _lib.check(lib.larder_svm_assemble(byref(model.handle), byref(parts)))
        return model

    def __getstate__(self):
        state = super().__getstate__()
        return {k: v for k, v in state.items() if k != "_model"}

    def __setstate__(self, state):
        state = dict(state)
        if "_class_vectors" in state:  # larder 0.1's
            of_class = state.pop("_class_vectors").astype(np.int32)
            named = "classes_" in state
            state["_n_support"] = of_class if named else np.array([len(state["support_"])], dtype=np.int32)
            state["_sparse"] = sp.issparse(state["support_vectors_"])
        super().__setstate__(state)

    def _ready(self) -> _lib.Owned:
        """The library's model, which is to be held while it is used: another thread may assemble or fit one
        meanwhile. One made of other coefficients than there are now is not taken again."""
        check_is_fitted(self)
        if len(self.support_) != self._n_support.sum():
            raise ValueError(ALTERED.format(type(self).__name__))
        coef, kept = self._coef, getattr(self, "_model", None)
        if kept is None or kept[0] is not coef:
            kept = self._model = coef, self._assemble(coef)
        return kept[1]

    def save(self, path: Any) -> None:
        """Writes the model as LIBSVM's svm-predict, ``larder svm-predict`` and ``larder.svm.load`` read
        it. Classes that are no whole numbers are written as their places in ``classes_``; support
        vectors have 8 digits (LIBSVM's format)."""
        model = self._ready()
        if self._class_count() and len(self.support_):
            labels = _as_labels(self.classes_)
            if labels is not None:
                model = self._assemble(self._coef, labels)
        _lib.check(_svm.library().larder_svm_save(model, _lib.text(path)))

    # ---- prediction ------------------------------------------------------------------------------

    def _check_X(self, X):
        check_is_fitted(self)
        if callable(self.kernel):
            if _num_samples(X) == 0:
                raise ValueError("X has 0 rows; 1 or more are wanted")
            return X
        X = validate(
            self, X, dtype=np.float64, order="C", accept_sparse="csr", accept_large_sparse=False,
            reset=False,
        )
        if sp.issparse(X) and not self._sparse:
            raise ValueError(
                f"cannot use sparse input in {type(self).__name__!r} trained on dense data"
            )
        if self.kernel == "precomputed":
            if X.shape[1] != self.shape_fit_[0]:
                raise ValueError(
                    f"X.shape[1] = {X.shape[1]} should be equal to {self.shape_fit_[0]}, the number of "
                    "samples at training time"
                )
            if self._columns is not None:
                X = X[:, self._columns]
        return X

    def _values(self, X) -> np.ndarray:
        """Decision values as LIBSVM has them: rows x decision functions."""
        model = self._ready()
        out = np.empty((_num_samples(X), _svm.parts_of(model).values))
        _svm.predict(model, self._data(X), self._where(), values=out)
        return out


def _as_labels(classes):
    """Classes as LIBSVM's files have them, or None."""
    if classes.dtype.kind not in "iuf" or np.abs(classes).max() > 2**31 - 1:
        return None
    whole = classes.astype(np.float64)
    return whole if (whole == np.rint(whole)).all() else None


def wants_probability(machine) -> bool:
    """scikit-learn from 1.9 on writes "deprecated" for a probability that nobody asked for."""
    return bool(getattr(machine, "probability", False)) and machine.probability != "deprecated"


def _dense(a):
    return a.toarray() if hasattr(a, "toarray") else np.asarray(a)
