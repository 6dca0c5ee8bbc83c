# release build only: an interpreter without a sanitizer cannot load a library with one
"""Kernels that the user gives, as a function or a matrix, and arrays beside them: what has the wrong
shape or type, or is not finite, is refused before the library reads it."""
import os
import sys
import unittest

try:
    import numpy as np
    import scipy.sparse as sp
    import sklearn.svm as peer
except ImportError as e:
    print(f"skipped: {e} (package python3-sklearn)")
    sys.exit(77)
from sklearn.datasets import load_iris

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "python"))
from larder import svm  # noqa: E402

MACHINES = svm.SVC, svm.NuSVC, svm.SVR, svm.NuSVR, svm.OneClassSVM


def two():
    X, y = load_iris(return_X_y=True)
    return X[:100], y[:100]


class Given(unittest.TestCase):
    def test_a_constant_matrix_is_refused_where_rows_are_fewer(self):
        X, y = two()
        G = X @ X.T
        for machine in MACHINES:
            model = machine(kernel=lambda a, b: G, n_jobs=1).fit(X, y)
            for ask in (model.predict,) + ((model.decision_function,) if hasattr(model, "decision_function") else ()):
                with self.assertRaisesRegex(ValueError, r"shape \(100, 100\).*\(3, 100\)"):
                    ask(X[:3])
            ask(X)  # as many rows as in training: the shape is right

    def test_shapes_that_a_function_may_not_return(self):
        X, y = two()
        for wrong in (np.zeros(100), np.zeros((100, 99)), np.zeros((99, 100)), np.zeros((100, 100, 1)), 0.5,
                      np.zeros((0, 0)), [[1.0, 2.0]]):
            for machine in MACHINES:
                with self.assertRaisesRegex(ValueError, "shape"):
                    machine(kernel=lambda a, b: wrong).fit(X, y)

    def test_types_that_a_function_may_not_return(self):
        X, y = two()
        for wrong in (np.full((100, 100), "a"), np.full((100, 100), 1j), np.full((100, 100), None),
                      np.full((100, 100), {}), None, [[1], [1, 2]]):
            with self.assertRaises((TypeError, ValueError)):
                svm.SVC(kernel=lambda a, b: wrong).fit(X, y)
        for bad in np.nan, np.inf, -np.inf:
            K = X @ X.T
            K[3, 4] = bad
            with self.assertRaisesRegex(ValueError, "NaN or infinity"):
                svm.SVC(kernel=lambda a, b: K).fit(X, y)

    def test_numbers_of_any_type_are_taken(self):
        X, y = two()
        X = np.rint(X)
        want = svm.SVC(kernel="linear").fit(X, y).predict(X)
        for make in (lambda k: k.astype(np.float32), lambda k: k.astype(np.int64), lambda k: k.astype(object),
                     lambda k: k.tolist(), sp.csr_matrix, np.asfortranarray):
            model = svm.SVC(kernel=lambda a, b: make(a @ b.T)).fit(X, y)
            np.testing.assert_array_equal(model.predict(X), want)

    def test_what_a_function_raises_arrives(self):
        X, y = two()

        def broken(a, b):
            if len(a) < 50:
                raise ZeroDivisionError("mine")
            return a @ b.T

        model = svm.SVC(kernel=broken).fit(X, y)
        with self.assertRaisesRegex(ZeroDivisionError, "mine"):
            model.predict(X[:5])
        np.testing.assert_array_equal(model.predict(X), y)

    def test_precomputed_of_wrong_shapes(self):
        X, y = two()
        K = X @ X.T
        for machine in MACHINES:
            for wrong in K[:, :50], np.hstack([K, K]):
                with self.assertRaises(ValueError):
                    machine(kernel="precomputed").fit(wrong, y)
            for wrong in K[0], K[None], sp.csr_matrix(K):
                with self.assertRaises((TypeError, ValueError)):
                    machine(kernel="precomputed").fit(wrong, y)
            model = machine(kernel="precomputed").fit(K, y)
            for wrong in K[:3, :50], K[0], np.hstack([K, K]), np.full((3, 100), np.nan), sp.csr_matrix(K):
                with self.assertRaises((TypeError, ValueError)):
                    model.predict(wrong)
            self.assertEqual(len(model.predict(K[:3])), 3)

    def test_other_features_than_in_training(self):
        X, y = two()
        for options in {}, {"kernel": "linear"}, {"kernel": lambda a, b: a @ b.T}:
            for machine in MACHINES:
                model = machine(**options).fit(X, y)
                for wrong in X[:, :2], np.hstack([X, X]), X[0], X[:0]:
                    with self.assertRaises(ValueError):
                        model.predict(wrong)

    def test_weights_of_wrong_shapes(self):
        X, y = two()
        for machine in MACHINES:
            for wrong in np.ones(99), np.ones(101), np.ones((100, 2)), np.full(100, np.nan), -np.ones(100):
                with self.assertRaises(ValueError):
                    machine().fit(X, y, sample_weight=wrong)
        for wrong in {0: -1.0}, {0: np.nan}, "even", {0: np.inf}:
            with self.assertRaises(Exception):
                svm.SVC(class_weight=wrong).fit(X, y)
        for wrong in y[:50], np.zeros((100, 2)):
            with self.assertRaises(ValueError):
                svm.SVC().fit(X, wrong)

    def test_a_weight_of_a_class_that_is_not_there(self):
        X, y = two()
        with self.assertRaises(ValueError):
            svm.SVC(class_weight={7: 2.0}).fit(X, y)
        with self.assertRaises(ValueError):
            peer.SVC(class_weight={7: 2.0}).fit(X, y)


if __name__ == "__main__":
    unittest.main()
