# release build only: an interpreter without a sanitizer cannot load a library with one
"""Data that nobody scaled: the model's own primal objective, in doubles, lies within 1 % of the exact
one. What any dual solution is worth bounds it from below, so primal against dual tells without a
reference; where CVXOPT is installed (package python3-cvxopt) its optimum is compared with too."""
import lzma
import os
import sys
import unittest
import warnings

try:
    import numpy as np
    from sklearn import datasets
except ImportError as e:
    print(f"skipped: {e} (package python3-sklearn)")
    sys.exit(77)
try:
    from cvxopt import matrix, solvers
except ImportError:
    solvers = None
    print("no cvxopt here (package python3-cvxopt): primal against dual alone")

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "python"))
from larder import svm  # noqa: E402
from sklearn.exceptions import ConvergenceWarning  # noqa: E402

LONG = bool(os.environ.get("LARDER_LONG"))
SHARED = os.environ.get("LARDER_SHARED") or os.path.join("..", "shared", "data")


def coefs(model, n):
    b = np.zeros(n, dtype=np.longdouble)
    b[model.support_] = model.dual_coef_[0]
    return b


def classify(X, y, K, C, **options):
    """Primal and dual of what was learned, y in -1, +1; as precise as K is."""
    model = svm.SVC(C=C, n_jobs=1, **options).fit(X, y)
    b = coefs(model, len(y))
    f = K @ b + model.intercept_[0]
    half = b @ K @ b / 2
    return half + C * np.maximum(0, 1 - y * f).sum(), np.abs(b).sum() - half, model


def regress(X, y, K, C, epsilon, **options):
    model = svm.SVR(C=C, epsilon=epsilon, n_jobs=1, **options).fit(X, y)
    b = coefs(model, len(y))
    f = K @ b + model.intercept_[0]
    half = b @ K @ b / 2
    primal = half + C * np.maximum(0, np.abs(y - f) - epsilon).sum()
    return primal, y @ b - epsilon * np.abs(b).sum() - half, model


def exact(X, y, C):
    """min 1/2 |w|^2 + C sum of hinges, by CVXOPT, over columns brought to one scale."""
    n, d = X.shape
    scale = np.abs(X).max(axis=0)
    scale[scale == 0] = 1
    P = np.zeros((d + 1 + n, d + 1 + n))
    P[np.arange(d), np.arange(d)] = 1 / scale ** 2
    q = np.concatenate([np.zeros(d + 1), np.full(n, C)])
    rows = np.hstack([-(y[:, None] * X / scale), -y[:, None], -np.eye(n)])
    G = np.vstack([rows, np.hstack([np.zeros((n, d + 1)), -np.eye(n)])])
    h = np.concatenate([-np.ones(n), np.zeros(n)])
    solvers.options.update(show_progress=False, abstol=1e-9, reltol=1e-9, feastol=1e-9)
    return solvers.qp(*(matrix(a) for a in (P, q, G, h)))["primal objective"]


def cancer():
    X, y = datasets.load_breast_cancer(return_X_y=True)
    return X, 2.0 * y - 1


def columns_of_all_scales(n=500, seed=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8)) + 1
    y = np.where(X @ rng.normal(size=8) + rng.normal(size=n) > 0, 1.0, -1.0)
    return X * 10.0 ** np.linspace(-3, 4, 8), y


def pendigits(rows=1500):
    path = os.path.join(SHARED, "libsvm", "pendigits.xz")
    if not os.path.exists(path):
        raise unittest.SkipTest("no pendigits in ../shared/data")
    X, y = datasets.load_svmlight_file(lzma.open(path))
    keep = np.flatnonzero((y == 1) | (y == 2))[:rows]
    return X[keep].toarray(), np.where(y[keep] == 1, 1.0, -1.0)


def products(X):
    """In long doubles: of large values doubles would show the rounding of the check itself."""
    Z = X.astype(np.longdouble)
    return Z @ Z.T


def far_from_zero(n=200, far=1e6, seed=1):
    X = np.random.default_rng(seed).normal(size=(n, 3)) + far
    return X, np.where(X[:, 0] > far, 1.0, -1.0)


class Unscaled(unittest.TestCase):
    def near(self, primal, dual, what, slack=1e-9):
        self.assertLessEqual(dual, primal * (1 + 1e-9) + 1e-9, f"{what}: a dual above its primal")
        self.assertLess(primal, 1.01 * dual + slack, f"{what}: primal {primal}, dual {dual}")

    def linear(self, X, y, what, C):
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            primal, dual, model = classify(X, y, products(X), C, kernel="linear")
        self.near(primal, dual, f"{what}, C = {C}")
        # The objective that training states is the one that its solution has.
        self.assertAlmostEqual(-model.stats_["objective"], float(dual), delta=1e-3 * dual, msg=f"{what}, C = {C}")
        # And so are its values: floats would be off by hundreds here.
        w = coefs(model, len(y)) @ X
        np.testing.assert_allclose(model.decision_function(X), X @ w + model.intercept_[0],
                                   rtol=1e-3, atol=1e-3)
        return primal

    def test_breast_cancer(self):
        X, y = cancer()
        for C in (0.01, 0.1, 1, 10, 100) if LONG else (0.01, 100):
            primal = self.linear(X, y, "breast cancer", C)
            if solvers and (LONG or C == 10 or C == 100):
                best = exact(X, y, C)
                self.assertLess(abs(primal - best), 0.01 * best, f"C = {C}: exact {best}")

    def test_several_threads_and_kept_rows_change_nothing(self):
        X, y = cancer()
        for options in {"n_jobs": 2}, {"cache": "on"}, {"shrinking": False}, {"merge_repeats": True}:
            model = svm.SVC(C=10, kernel="linear", **options).fit(X, y)
            self.assertAlmostEqual(model.stats_["objective"], -398.317, delta=0.4, msg=str(options))

    def test_wine(self):
        X, y = datasets.load_wine(return_X_y=True)
        for C in 1, 100:
            self.linear(X, np.where(y == 1, 1.0, -1.0), "wine", C)

    def test_digits(self):
        X, y = datasets.load_digits(return_X_y=True)
        keep = (y == 8) | (y == 9) | (y == 1)
        self.linear(X[keep], np.where(y[keep] == 8, 1.0, -1.0), "digits", 1)

    def test_iris_times_1000(self):
        X, y = datasets.load_iris(return_X_y=True)
        keep = y > 0
        for C in 0.1, 10:
            self.linear(X[keep] * 1000, np.where(y[keep] == 1, 1.0, -1.0), "iris", C)

    def test_columns_of_all_scales(self):
        X, y = columns_of_all_scales()
        for C in (0.1, 10) if LONG else (10,):
            primal = self.linear(X, y, "columns", C)
            if solvers and (LONG or C == 10 or C == 100):
                best = exact(X, y, C)
                self.assertLess(abs(primal - best), 0.01 * best, f"C = {C}: exact {best}")

    def test_more_rows_than_a_working_set(self):
        X, y = columns_of_all_scales(2500, 5)
        primal, dual, model = classify(X, y, X @ X.T, 1.0, kernel="linear")
        self.near(primal, dual, "2500 rows")
        self.assertGreater(model.stats_["exact"], 0)

    @unittest.skipUnless(LONG, "1500 rows in long doubles; test_digits has the same question in short")
    def test_pendigits(self):
        X, y = pendigits()
        self.linear(X, y, "pendigits", 10)

    def test_diabetes(self):
        X, y = datasets.load_diabetes(return_X_y=True)
        for scale, C in ((1, 100), (1000, 1), (100000, 0.1))[::1 if LONG else 2]:
            Z = X * scale
            primal, dual, _ = regress(Z, y, Z @ Z.T, C, 5.0, kernel="linear")
            self.near(primal, dual, f"diabetes times {scale}")

    def test_polynomials_of_large_values(self):
        X, y = cancer()
        K = (X @ X.T) ** 2
        for C in 1e-4, 1e-2:
            primal, dual, _ = classify(X, y, K, C, kernel="poly", degree=2, gamma=1.0)
            self.near(primal, dual, f"squares, C = {C}")

    def test_distances_far_from_zero(self):
        X, y = cancer()
        Z = X + 1e6
        d = ((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2)
        for C in 1, 1000:
            primal, dual, _ = classify(Z, y, np.exp(-1e-5 * d), C, kernel="rbf", gamma=1e-5)
            self.near(primal, dual, f"distances, C = {C}")

    def right_or_said(self, X, y, K, C, what, slack=1e-9, far=False, **options):
        """Whether it was right; where it was not there is a warning, or an exception where there is no
        model."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", ConvergenceWarning)
            try:
                primal, dual, model = classify(X, y, K, C, **options)
            except ValueError as e:
                self.assertIn("not finite; scale the data", str(e))
                return False
        self.assertEqual(model.fit_status_, int(len(said) > 0), what)
        if said:
            self.assertIn("doubles cannot tell more for values of this size; scaling", str(said[0].message))
            return False
        self.near(primal, dual, what, slack)
        if far:
            f = K @ coefs(model, len(y)) + model.intercept_[0]
            np.testing.assert_allclose(model.decision_function(X), f.astype(float), rtol=1e-2, atol=1e-2)
        return True

    def test_the_linear_kernel_far_from_zero(self):
        for far, C in (1e5, 1000.0), (1e6, 1.0), (1e6, 1000.0):
            for seed in (0, 1, 2) if LONG else (0,):
                X, y = far_from_zero(far=far, seed=seed)
                what = f"{far} from zero, C = {C}, seed {seed}"
                self.assertTrue(self.right_or_said(X, y, products(X), C, what, far=True, kernel="linear"), what)
        X, y = far_from_zero()
        b = svm.SVR(kernel="linear", C=10, epsilon=0.1, n_jobs=1).fit(X, X[:, 1] - 1e6)
        c = svm.SVR(kernel="linear", C=10, epsilon=0.1, n_jobs=1).fit(X - 1e6, X[:, 1] - 1e6)
        np.testing.assert_allclose(b.coef_, c.coef_, atol=2e-3)
        np.testing.assert_allclose(b.intercept_ + 1e6 * b.coef_.sum(), c.intercept_, atol=1e-2)
        # A sum of coefficients that is not zero: points stay where they are.
        with self.assertWarnsRegex(ConvergenceWarning, "doubles cannot tell more"):
            one = svm.OneClassSVM(kernel="linear", nu=0.2, n_jobs=1).fit(X)  # rho is 1.2e14
        self.assertAlmostEqual(one.dual_coef_.sum(), 40, places=6)

    def test_what_doubles_cannot_tell_is_said(self):
        for seed in (0, 1) if LONG else (0,):
            X, y = far_from_zero(seed=seed)
            K = products(X)
            self.assertFalse(self.right_or_said(X, y, (K + 1) ** 2, 1.0, f"squares, seed {seed}",
                                                kernel="poly", degree=2, gamma=1.0, coef0=1.0))
        X, y = far_from_zero(seed=0)
        self.assertFalse(self.right_or_said(X, y, (products(X) / 3) ** 3, 1.0, "cubes",
                                            kernel="poly", degree=3, gamma=1 / 3))

    def test_numbers_beyond_floats_and_doubles(self):
        X, y = far_from_zero(far=0, n=60)
        for scale in 1e8, 1e15:
            K = products(X * scale)
            slack = 1e-3 * len(y)  # what the tolerance leaves open: next to these values all else is nothing
            for degree in 3, 12:  # floats overflow, then doubles do
                self.right_or_said(X * scale, y, K ** degree, 1.0, f"{scale} to {degree}", slack, kernel="poly",
                                   degree=degree, gamma=1.0)
            self.right_or_said(X * scale, y, K, 1.0, f"values of {scale}", slack, kernel="linear")

    def test_given_kernels(self):
        X, y = cancer()
        K = X @ X.T
        primal, dual, _ = classify(K, y, K, 10.0, kernel="precomputed")
        self.near(primal, dual, "precomputed")

    def test_other_tasks_end(self):
        X, y = cancer()
        for machine in (svm.NuSVC(kernel="linear", nu=0.1, n_jobs=1), svm.NuSVR(kernel="linear", n_jobs=1),
                        svm.OneClassSVM(kernel="linear", nu=0.1, n_jobs=1)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                machine.fit(X, y)
            self.assertEqual(machine.fit_status_, int(machine.stats_["unreached"] > 0))

    def test_floats_are_enough_for_scaled_data(self):
        X, y = cancer()
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        for C in 0.01, 1, 10:
            _, _, model = classify(X, y, X @ X.T, C, kernel="linear")
            self.assertEqual(model.stats_["exact"], 0, f"C = {C}")

    def test_a_tolerance_that_is_not_reached_is_said(self):
        X, y = cancer()
        with self.assertWarnsRegex(ConvergenceWarning, "above the tolerance.*limit of steps"):
            late = svm.SVC(kernel="linear", max_iter=20, n_jobs=1).fit(X, y)
        self.assertEqual(late.fit_status_, 1)
        # What it says of its objective is true all the same.
        b = coefs(late, len(y))
        self.assertAlmostEqual(-late.stats_["objective"], float(np.abs(b).sum() - b @ (X @ X.T) @ b / 2),
                               delta=1e-3 * float(np.abs(b).sum()) + 1e-6)
        with self.assertWarnsRegex(ConvergenceWarning, "doubles cannot tell more"):
            svm.SVC(kernel="linear", C=1e6, n_jobs=1, tol=1e-9).fit(X * 1e6, y)
        for wrong in 0, -5:
            with self.assertRaisesRegex(ValueError, "max_iter"):
                svm.SVC(max_iter=wrong).fit(X, y)


if __name__ == "__main__":
    unittest.main()
