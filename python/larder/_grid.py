"""scikit-learn's GridSearchCV for machines of larder.svm: a grid over C and gamma alone is one call of the
library, where folds and all C share kernel values and each C begins where the one before ended."""

from __future__ import annotations

import time
import warnings
from ctypes import byref, c_size_t, c_void_p
from typing import Any

import numpy as np

from . import _lib, _svm
from ._machine import Machine, wants_probability

from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, check_scoring, r2_score
from sklearn.model_selection import GridSearchCV as Plain
from sklearn.model_selection import ParameterGrid, check_cv

LABELS_ALONE = ("accuracy", "balanced_accuracy", "f1_macro", "f1_micro", "f1_weighted", "r2",
                "neg_mean_squared_error", "neg_mean_absolute_error", "neg_root_mean_squared_error")


class Grid(_lib.Sized):
    _fields_ = [(name, c_size_t if name in ("size", "cs", "gammas", "folds") else c_void_p)
                for name in ("size", "c", "gamma", "cs", "gammas", "folds", "score", "told", "arg",
                             "fold_of", "labels")]


class GridSearchCV(Plain):
    """As scikit-learn's, with its parameters, attributes and results. A grid over numbers for C and gamma of
    one machine, scored by labels (or targets) alone, with folds that leave each row out once, is one search
    of the library, on ``n_jobs`` threads of the machine. Whatever else is asked for (other parameters,
    gamma='scale', a pipeline, weights) goes scikit-learn's own way. ``mean_fit_time`` is then each fit's
    share of the whole."""

    def fit(self, X: Any, y: Any = None, **fit_params: Any) -> "GridSearchCV":
        """Runs fit with all sets of parameters."""
        asked = None if fit_params else self._plan(X, y)
        if asked is None:
            return super().fit(X, y, **fit_params)
        points, splits = asked
        start = time.time()
        said = self._said(X, y, points, splits)
        score = self._score()
        out = [{"test_scores": score(y[test], labels[test]), "n_test_samples": len(test),
                "score_time": 0.0, "fit_error": None}
               for labels in said for _, test in splits]
        for one in out:
            one["fit_time"] = (time.time() - start) / len(out)
        self._finish(X, y, points, len(splits), out)
        return self

    # ---- may the library search it? --------------------------------------------------------------

    def _plan(self, X, y):
        """Points and splits of a search that the library can do, else None."""
        machine = self.estimator
        named = {"SVC": "C", "SVR": "C", "NuSVC": "gamma"}.get(type(machine).__name__)
        plain = (
            isinstance(machine, Machine) and named is not None and isinstance(self.param_grid, dict)
            and isinstance(getattr(machine, "kernel", None), str) and machine.kernel != "precomputed"
            and getattr(machine, "class_weight", None) is None and not wants_probability(machine)
            and not machine.verbose and not self.return_train_score and not callable(self.refit)
            and (self.scoring is None or self.scoring in LABELS_ALONE)
            and not self.verbose and hasattr(X, "shape") and isinstance(y, np.ndarray) and y.ndim == 1
            and len(y) == X.shape[0]
        )
        if not plain or not set(self.param_grid) <= {"C", "gamma"}:
            return None
        points = list(ParameterGrid(self.param_grid))
        gammas = [p.get("gamma", machine.gamma) for p in points]
        numbers = [v for p in points for v in p.values()] + ([] if machine.kernel == "linear" else gammas)
        if not all(isinstance(v, (int, float, np.number)) and v > 0 for v in numbers):
            return None
        cv = check_cv(self.cv, y, classifier=is_classifier(machine))
        splits = list(cv.split(X, y))
        seen = np.zeros(len(y), dtype=int)
        for train, test in splits:
            seen[test] += 1
            whole = len(train) + len(test) == len(y) and not np.intersect1d(train, test).size
            if not whole or len(test) == 0:
                return None
            if is_classifier(machine) and len(np.unique(y[train])) < len(np.unique(y)):
                return None  # scikit-learn's words for it
        return (points, splits) if len(splits) > 1 and (seen == 1).all() else None

    def _score(self):
        if self.scoring is None:
            return accuracy_score if is_classifier(self.estimator) else r2_score
        scorer = check_scoring(self.estimator, self.scoring)
        return lambda want, got: scorer._sign * scorer._score_func(want, got, **scorer._kwargs)

    # ---- searching -------------------------------------------------------------------------------

    def _said(self, X, y, points, splits):
        """What each point's machines said of the rows they had not seen, a line each point."""
        machine = clone(self.estimator)
        C = sorted({float(p.get("C", getattr(machine, "C", 1.0))) for p in points})
        gamma = sorted({float(p.get("gamma", machine.gamma if machine.kernel != "linear" else 1))
                        for p in points})
        rows, target = machine._check_rows(X, y, **({} if is_classifier(machine) else {"y_numeric": True}))
        machine.set_params(gamma=gamma[0])
        classes, place = np.unique(target, return_inverse=True) if is_classifier(machine) else (None, target)
        fold_of = np.empty(len(y), dtype=np.uint32)
        for f, (_, test) in enumerate(splits):
            fold_of[test] = f
        cs, gs = np.array(C), np.array(gamma)
        labels, score = np.empty((len(gs), len(cs), len(y))), np.empty(len(gs) * len(cs))
        grid = Grid(c=cs.ctypes.data, gamma=gs.ctypes.data, cs=len(cs), gammas=len(gs), folds=len(splits),
                    score=score.ctypes.data, fold_of=fold_of.ctypes.data, labels=labels.ctypes.data)
        conf, stats = machine._conf(rows), _svm.Stats()
        said = _svm.sentences(conf)
        data = _svm.rows_of(rows, place.astype(np.float64))
        with _svm.Interrupts() as interrupts:
            conf.progress = _svm.PROGRESS(lambda _, progress: int(interrupts.asked))
            code = _svm.library().larder_svm_search(data.handle, byref(conf), byref(grid), byref(stats))
        _lib.check(code)
        for sentence in said:
            warnings.warn(sentence, ConvergenceWarning if stats.unreached else UserWarning)
        for p in points:
            one = labels[gamma.index(float(p.get("gamma", gamma[0]))),
                         C.index(float(p.get("C", C[0])))]
            yield one if classes is None else classes[one.astype(np.intp)]

    def _finish(self, X, y, points, folds, out):
        """The attributes, as BaseSearchCV.fit leaves them."""
        results = self._format_results(points, folds, out)
        self.multimetric_, self.scorer_ = False, check_scoring(self.estimator, self.scoring)
        self.cv_results_, self.n_splits_ = results, folds
        self.best_index_ = self._select_best_index(self.refit, "score", results)
        self.best_score_ = results["mean_test_score"][self.best_index_]
        self.best_params_ = results["params"][self.best_index_]
        if self.refit:
            start = time.time()
            self.best_estimator_ = clone(self.estimator).set_params(**self.best_params_).fit(X, y)
            self.refit_time_ = time.time() - start
            if hasattr(self.best_estimator_, "feature_names_in_"):
                self.feature_names_in_ = self.best_estimator_.feature_names_in_
