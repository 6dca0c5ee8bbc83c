# release build only: an interpreter without a sanitizer cannot load a library with one
"""larder.svm.GridSearchCV beside scikit-learn's own over the same machines: the library's search where it can,
scikit-learn's way where it cannot."""
import os
import sys
import unittest
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
try:
    import numpy as np
    import scipy.sparse as sp
    from sklearn.datasets import load_iris
    from sklearn.model_selection import GridSearchCV as Plain
    from sklearn.model_selection import KFold, ShuffleSplit
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
except ImportError as e:
    print(f"skipped: {e} (package python3-sklearn)")
    sys.exit(77)
from larder import svm  # noqa: E402

GRID = {"C": [0.1, 1, 10, 1000], "gamma": [0.01, 0.3, 2.0]}


def both(machine, grid, X, y, **how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return svm.GridSearchCV(machine, grid, **how).fit(X, y), Plain(machine, grid, **how).fit(X, y)


class Grids(unittest.TestCase):
    def setUp(self):
        self.X, self.y = load_iris(return_X_y=True)

    def alike(self, a, b, delta):
        self.assertEqual(a.cv_results_["params"], b.cv_results_["params"])
        self.assertEqual(set(a.cv_results_), set(b.cv_results_))
        apart = np.abs(a.cv_results_["mean_test_score"] - b.cv_results_["mean_test_score"])
        self.assertLessEqual(apart.max(), delta)
        self.assertAlmostEqual(a.best_score_, b.best_score_, delta=delta)
        self.assertEqual(a.n_splits_, b.n_splits_)

    def test_classes(self):
        names = np.array(["setosa", "versicolor", "virginica"])[self.y]
        a, b = both(svm.SVC(), GRID, self.X, names, cv=4)
        self.assertIsNotNone(a._plan(self.X, names))
        self.alike(a, b, 0.02)
        self.assertIn(a.predict(self.X[:1])[0], names)
        a, b = both(svm.SVC(), GRID, sp.csr_matrix(self.X), self.y, cv=KFold(3, shuffle=True, random_state=1),
                    scoring="balanced_accuracy")
        self.alike(a, b, 0.03)
        a, b = both(svm.NuSVC(nu=0.1), {"gamma": [0.1, 1.0]}, self.X, self.y)
        self.alike(a, b, 0.02)

    def test_targets(self):
        for scoring in None, "neg_mean_squared_error":
            a, b = both(svm.SVR(), {"C": [1, 10], "gamma": [0.1, 1]}, self.X, self.y + 0.5, scoring=scoring,
                        cv=KFold(5, shuffle=True, random_state=0))
            self.assertIsNotNone(a._plan(self.X, self.y + 0.5))
            self.alike(a, b, 0.01)

    def test_what_the_library_cannot(self):
        plain = [
            (svm.SVC(), {"C": [1, 10]}, {}),  # gamma='scale' differs from fold to fold
            (svm.SVC(gamma=1.0), {"C": [1], "kernel": ["rbf", "linear"]}, {}),
            (svm.SVC(gamma=1.0), [{"C": [1]}], {}),
            (svm.SVC(gamma=1.0, class_weight="balanced"), {"C": [1]}, {}),
            (svm.SVC(gamma=1.0), {"C": [1, 2]}, {"scoring": "roc_auc_ovr"}),
            (svm.SVC(gamma=1.0), {"C": [1, 2]}, {"cv": ShuffleSplit(3, random_state=0)}),
            (svm.SVC(gamma=1.0), {"C": [1, 2]}, {"return_train_score": True}),
            (make_pipeline(StandardScaler(), svm.SVC(gamma=1.0)), {"svc__C": [1, 2]}, {}),
        ]
        for machine, grid, how in plain:
            search = svm.GridSearchCV(machine, grid, **how)
            self.assertIsNone(search._plan(self.X, self.y), grid)
        a, b = both(*plain[1][:2], self.X, self.y)
        np.testing.assert_array_equal(a.cv_results_["mean_test_score"], b.cv_results_["mean_test_score"])
        with self.assertRaises((TypeError, ValueError)), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            svm.GridSearchCV(svm.SVC(gamma=1.0), {"C": [1]}).fit(self.X, self.y, nonsense=1)

    def test_without_refit(self):
        a, _ = both(svm.SVC(), GRID, self.X, self.y, refit=False)
        self.assertFalse(hasattr(a, "best_estimator_"))
        self.assertIn("C", a.best_params_)


if __name__ == "__main__":
    unittest.main()
