"""Support vector machines with scikit-learn's interface, trained by larder.

    from larder.svm import SVC

    model = SVC(C=100, gamma=0.5).fit(X, y)      # NumPy arrays or scipy.sparse, any labels
    model.predict(X_new)

Parameters, attributes and results are those of ``sklearn.svm``: the same optimum within the
tolerance, so ``SVC`` here can stand in its place, in pipelines and in ``GridSearchCV``. What is
larder's own: ``n_jobs`` (threads of one training; they do not change a bit of the model),
``cache_policy`` and ``cache`` (who stays of the kernel rows kept, and whether any are: see
``docs/guide/svm.md``), ``merge_repeats`` (equal rows of equal label become one variable of higher
bound: quicker where there are many, but ``dual_coef_`` may then exceed C), ``device`` ("cuda": a GPU
trains and predicts; "auto": where there is one), and ``stats_`` after ``fit`` (times, hits, kernel
values)."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from . import _lib, _svm
from ._machine import Fitted, Machine, wants_probability  # first: it says what is missing without scikit-learn
from . import _model_file
from ._grid import GridSearchCV

from sklearn.base import ClassifierMixin, OutlierMixin, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples

__all__ = ["SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM", "GridSearchCV", "load"]


def _has_probability(estimator) -> bool:
    if not wants_probability(estimator):
        raise AttributeError("predict_proba is not available when probability=False")
    return True


class _Classifier(ClassifierMixin, Machine):
    def fit(self: Fitted, X: Any, y: Any, sample_weight: Any = None) -> Fitted:
        """Trains on the rows of X with the labels y; weights multiply C, row by row."""
        X, y = self._check_rows(X, y)
        check_classification_targets(y)
        if self.decision_function_shape not in ("ovr", "ovo"):
            raise ValueError(
                f"decision_function_shape={self.decision_function_shape!r}: it is 'ovr' or 'ovo'"
            )
        self.classes_, place = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"The number of classes has to be greater than one; got {len(self.classes_)} class"
            )
        self.class_weight_ = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
        weights = [
            _svm.Weight(i, w) for i, w in enumerate(self.class_weight_) if w != 1
        ] if self._task == _svm.C_SVC else ()
        self._train(X, place.astype(np.float64), sample_weight, weights)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Two classes: above zero for the second. More: a column each class ('ovr', votes with
        confidences behind the point) or each pair ('ovo')."""
        X = self._check_X(X)
        values = self._values(X)
        n = len(self.classes_)
        if n == 2:
            return -values.ravel()
        return values if self.decision_function_shape == "ovo" else _votes(values, n)

    def predict(self, X: Any) -> np.ndarray:
        """The class of each row."""
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError("break_ties must be False where decision_function_shape is 'ovo'")
        if self.break_ties and len(self.classes_) > 2:
            return self.classes_[np.argmax(self.decision_function(X), axis=1)]
        X = self._check_X(X)
        places = np.empty(_num_samples(X))
        _svm.predict(self._ready(), self._data(X), self._where(), labels=places)
        return self.classes_[places.astype(np.intp)]

    @available_if(_has_probability)
    def predict_proba(self, X: Any) -> np.ndarray:
        """A column each class, by sigmoids fitted to five folds (Platt)."""
        X = self._check_X(X)
        if self._sigmoid_a is None:
            raise NotFittedError("predict_proba is not available when fitted with probability=False")
        model = self._ready()
        out = np.empty((_num_samples(X), _svm.parts_of(model).classes))
        _svm.predict(model, self._data(X), self._where(), probabilities=out)
        return out

    @available_if(_has_probability)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """The logarithm of predict_proba."""
        return np.log(self.predict_proba(X))

    @property
    def probA_(self) -> np.ndarray:
        """Slopes of the sigmoids, a pair of classes each."""
        return np.empty(0) if self._sigmoid_a is None else self._sigmoid_a

    @property
    def probB_(self) -> np.ndarray:
        """Offsets of the sigmoids."""
        return np.empty(0) if self._sigmoid_b is None else self._sigmoid_b


def _votes(values, n):
    """Votes of all pairs, and behind the point the sum of their values squeezed below a third."""
    votes = np.zeros((len(values), n))
    sums = np.zeros((len(values), n))
    at = 0
    for i in range(n):
        for j in range(i + 1, n):
            first = values[:, at] >= 0
            votes[first, i] += 1
            votes[~first, j] += 1
            sums[:, i] += values[:, at]
            sums[:, j] -= values[:, at]
            at += 1
    return votes + sums / (3 * (np.abs(sums) + 1))


class SVC(_Classifier):
    """Classification with a bound C on errors, as ``sklearn.svm.SVC``."""

    _task = _svm.C_SVC

    def __init__(self, *, C=1.0, kernel="rbf", degree=3, gamma="scale", coef0=0.0, shrinking=True,
                 probability=False, tol=1e-3, cache_size=None, class_weight=None, verbose=False,
                 max_iter=-1, decision_function_shape="ovr", break_ties=False, random_state=None,
                 n_jobs=None, cache="auto", cache_policy=None, merge_repeats=False, device="cpu") -> None:
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.probability = probability
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.verbose = verbose
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.cache = cache
        self.cache_policy = cache_policy
        self.device = device
        self.merge_repeats = merge_repeats


class NuSVC(_Classifier):
    """Classification with a share nu of errors and support vectors, as ``sklearn.svm.NuSVC`` (which
    ignores class_weight too)."""

    _task = _svm.NU_SVC

    def __init__(self, *, nu=0.5, kernel="rbf", degree=3, gamma="scale", coef0=0.0, shrinking=True,
                 probability=False, tol=1e-3, cache_size=None, class_weight=None, verbose=False,
                 max_iter=-1, decision_function_shape="ovr", break_ties=False, random_state=None,
                 n_jobs=None, cache="auto", cache_policy=None, merge_repeats=False, device="cpu") -> None:
        self.nu = nu
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.probability = probability
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.verbose = verbose
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.cache = cache
        self.cache_policy = cache_policy
        self.device = device
        self.merge_repeats = merge_repeats


class _Regressor(RegressorMixin, Machine):
    def fit(self: Fitted, X: Any, y: Any, sample_weight: Any = None) -> Fitted:
        """Trains on the rows of X with the targets y; weights multiply C, row by row."""
        X, y = self._check_rows(X, y, y_numeric=True)
        self._train(X, np.asarray(y, dtype=np.float64), sample_weight)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The target of each row."""
        return self._values(self._check_X(X)).ravel()


class SVR(_Regressor):
    """Regression with a margin epsilon, as ``sklearn.svm.SVR``."""

    _task = _svm.EPSILON_SVR

    def __init__(self, *, kernel="rbf", degree=3, gamma="scale", coef0=0.0, tol=1e-3, C=1.0,
                 epsilon=0.1, shrinking=True, cache_size=None, verbose=False, max_iter=-1,
                 n_jobs=None, cache="auto", cache_policy=None, merge_repeats=False, device="cpu") -> None:
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.C = C
        self.epsilon = epsilon
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.cache = cache
        self.cache_policy = cache_policy
        self.device = device
        self.merge_repeats = merge_repeats


class NuSVR(_Regressor):
    """Regression with a share nu of support vectors, as ``sklearn.svm.NuSVR``."""

    _task = _svm.NU_SVR

    def __init__(self, *, nu=0.5, C=1.0, kernel="rbf", degree=3, gamma="scale", coef0=0.0,
                 shrinking=True, tol=1e-3, cache_size=None, verbose=False, max_iter=-1,
                 n_jobs=None, cache="auto", cache_policy=None, merge_repeats=False, device="cpu") -> None:
        self.nu = nu
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.tol = tol
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.cache = cache
        self.cache_policy = cache_policy
        self.device = device
        self.merge_repeats = merge_repeats


class OneClassSVM(OutlierMixin, Machine):
    """Where most of the data lies, as ``sklearn.svm.OneClassSVM``: +1 inside, -1 outside."""

    _task = _svm.ONE_CLASS

    def __init__(self, *, kernel="rbf", degree=3, gamma="scale", coef0=0.0, tol=1e-3, nu=0.5,
                 shrinking=True, cache_size=None, verbose=False, max_iter=-1, n_jobs=None,
                 cache="auto", cache_policy=None, merge_repeats=False, device="cpu") -> None:
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.nu = nu
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.cache = cache
        self.cache_policy = cache_policy
        self.device = device
        self.merge_repeats = merge_repeats

    def fit(self: Fitted, X: Any, y: Any = None, sample_weight: Any = None) -> Fitted:
        """Trains on the rows of X; y is there for the interface's sake."""
        X, _ = self._check_rows(X)
        self._train(X, np.zeros(_num_samples(X)), sample_weight)
        self.offset_ = -self.intercept_
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Above zero inside."""
        return self._values(self._check_X(X)).ravel()

    def score_samples(self, X: Any) -> np.ndarray:
        """decision_function without the offset."""
        return self.decision_function(X) + self.offset_

    def predict(self, X: Any) -> np.ndarray:
        """+1 inside, -1 outside."""
        return np.where(self.decision_function(X) > 0, 1, -1)


def load(path: Any, n_features: Optional[int] = None) -> Machine:
    """The machine of a model file: LIBSVM's svm-train, ``larder svm-train`` or ``save`` wrote it.
    Parameters that files do not have (C, tol …) are the defaults. A file knows the highest feature of
    its vectors only: ``n_features`` says how many rows have (of a precomputed kernel: the rows of
    training), and is then checked by predictions."""
    return _model_file.read(path, (SVC, NuSVC, OneClassSVM, SVR, NuSVR), n_features)
