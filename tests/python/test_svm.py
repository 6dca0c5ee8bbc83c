# release build only: an interpreter without a sanitizer cannot load a library with one
"""larder.svm against scikit-learn: its own check_estimator, results beside sklearn.svm's, arrays of
every kind, weights, what pickling, pipelines and Ctrl-C want."""
import inspect
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock
import warnings

try:
    import numpy as np
    import scipy.sparse as sp
    import sklearn.svm as peer
except ImportError as e:
    print(f"skipped: {e} (package python3-sklearn)")
    sys.exit(77)
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits, load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

PYTHON = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python")
sys.path.insert(0, PYTHON)
from larder import _svm, svm  # noqa: E402

PAIRS = [(svm.SVC, peer.SVC), (svm.NuSVC, peer.NuSVC), (svm.SVR, peer.SVR), (svm.NuSVR, peer.NuSVR),
         (svm.OneClassSVM, peer.OneClassSVM)]


def digits(n, classes=10):
    X, y = load_digits(return_X_y=True)
    keep = np.flatnonzero(y < classes)[:n]
    return X[keep] / 16, y[keep]


def objective(coef, K, y):
    """Of C-SVC from signed coefficients: 1/2 b'Kb - sum |b|."""
    return coef @ K @ coef / 2 - np.abs(coef).sum()


def known_failures(estimator):
    """What check_estimator is told: the same that scikit-learn tells it of its own machines."""
    known = dict(estimator._more_tags()["_xfail_checks"])
    for kind in ("dense", "sparse"):  # as it is called from 1.6 on
        known[f"check_sample_weight_equivalence_on_{kind}_data"] = known["check_sample_weights_invariance"]
    return known


class Estimators(unittest.TestCase):
    def test_scikit_learns_own_checks(self):
        told = "expected_failed_checks" in inspect.signature(check_estimator).parameters  # else by tags
        for ours, _ in PAIRS:
            machine = ours(n_jobs=1)
            more = {"expected_failed_checks": known_failures(machine)} if told else {}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                check_estimator(machine, **more)

    def test_probability_as_newer_scikit_learns_say_no(self):
        X, y = digits(40, 2)
        machine = svm.SVC(probability="deprecated").fit(X, y)
        self.assertFalse(hasattr(machine, "predict_proba"))
        self.assertEqual(len(machine.probA_), 0)

    def test_weights_that_are_all_zero(self):
        X, y = digits(40, 2)
        for ours, _ in PAIRS:
            with self.assertRaisesRegex(ValueError, "zero or negative weights"):
                ours(n_jobs=1).fit(X, y, sample_weight=np.zeros(len(y)))

    def test_parameters_are_scikit_learns(self):
        for ours, theirs in PAIRS:
            lacking = set(theirs().get_params()) - set(ours().get_params())
            self.assertEqual(lacking, set())
            for name, value in theirs().get_params().items():
                if name != "cache_size" and value != "deprecated":
                    self.assertEqual(ours().get_params()[name], value, (ours, name))
            self.assertEqual(clone(ours(n_jobs=1, tol=0.5)).get_params()["tol"], 0.5)

    def test_what_is_refused_is_refused_in_scikit_learns_words(self):
        X, y = load_iris(return_X_y=True)
        bad = (
            {"C": -1}, {"tol": 0}, {"degree": -1}, {"gamma": -0.1}, {"kernel": "fo"},
            {"decision_function_shape": "ovx"}, {"max_iter": -2}, {"class_weight": "some"},
        )
        for params in bad:
            said = []
            for machine in svm.SVC, peer.SVC:
                with self.assertRaises(ValueError) as caught:
                    machine(**params).fit(X, y)
                said.append(str(caught.exception))
            self.assertEqual(*said)

    def test_pipelines_and_searches(self):
        X, y = digits(400)
        grid = GridSearchCV(make_pipeline(StandardScaler(), svm.SVC(n_jobs=1)),
                            {"svc__C": [0.1, 1, 10]}, cv=3)
        grid.fit(X, y)
        other = GridSearchCV(make_pipeline(StandardScaler(), peer.SVC()),
                             {"svc__C": [0.1, 1, 10]}, cv=3).fit(X, y)
        np.testing.assert_allclose(grid.cv_results_["mean_test_score"],
                                   other.cv_results_["mean_test_score"], atol=0.01)

    def test_pickles(self):
        X, y = digits(300, 4)
        for model in (svm.SVC(n_jobs=1, probability=True, random_state=0).fit(X, y),
                      svm.SVR(n_jobs=1).fit(X, y), svm.OneClassSVM(n_jobs=1).fit(X)):
            again = pickle.loads(pickle.dumps(model))
            np.testing.assert_array_equal(again.predict(X), model.predict(X))
            if hasattr(model, "predict_proba"):
                np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X))


def in_a_thread(call):
    t = threading.Thread(target=call)
    t.start()
    t.join()


class Threads(unittest.TestCase):
    """Others come in between: their threads have run to the end there."""

    def setUp(self):
        self.X, self.y = digits(300)
        self.model = svm.SVC(n_jobs=1, decision_function_shape="ovo").fit(self.X, self.y)
        self.values = self.model.decision_function(self.X)

    def other_fit(self, model):
        return lambda: model.fit(self.X[:80], self.y[:80] % 2)

    def test_two_assemble_a_pickled_one(self):
        model = pickle.loads(pickle.dumps(self.model))
        inside, go, first = threading.Event(), threading.Event(), []

        def late(*args, made=model._assemble):
            if threading.current_thread() is thread:
                inside.set()
                go.wait()
            return made(*args)

        def predict(*args, real=_svm.predict, **out):
            if threading.current_thread() is not thread:  # it has a model, and now another takes its place
                go.set()
                thread.join()
            return real(*args, **out)

        thread = threading.Thread(target=lambda: first.append(model.decision_function(self.X)))
        model._assemble = late
        with unittest.mock.patch.object(_svm, "predict", predict):
            thread.start()
            inside.wait()
            values = model.decision_function(self.X)
        np.testing.assert_array_equal(values, self.values)
        np.testing.assert_array_equal(first[0], self.values)

    def test_fitted_again_beside_a_prediction(self):
        def predict(*args, real=_svm.predict, **out):
            in_a_thread(self.other_fit(self.model))
            return real(*args, **out)

        with unittest.mock.patch.object(_svm, "predict", predict):
            np.testing.assert_array_equal(self.model._values(self.X), self.values)

    def test_values_are_as_many_as_the_model_has(self):
        def ready(real=self.model._ready):
            model = real()
            in_a_thread(self.other_fit(self.model))
            return model

        self.model._ready = ready
        np.testing.assert_array_equal(self.model._values(self.X), self.values)

    def test_fitted_again_beside_an_assembly(self):
        model = pickle.loads(pickle.dumps(self.model))

        def assemble(*args, real=model._assemble):
            out = real(*args)
            in_a_thread(self.other_fit(model))
            return out

        model._assemble = assemble
        np.testing.assert_array_equal(model._values(self.X), self.values)
        want = svm.SVC(n_jobs=1).fit(self.X[:80], self.y[:80] % 2).predict(self.X)
        np.testing.assert_array_equal(model.predict(self.X), want)

    def test_halves_of_two_fits_are_refused(self):
        other = svm.SVC(n_jobs=1).fit(self.X[:80], self.y[:80] % 2)
        for name in ("_rho", "_coef", "support_vectors_", "classes_"):
            model = pickle.loads(pickle.dumps(self.model))
            setattr(model, name, getattr(other, name))
            with self.assertRaisesRegex(ValueError, "SVC was altered", msg=name):
                model.predict(self.X)


class SameResult(unittest.TestCase):
    def check_decisions(self, a, b, X, room=0.02):
        np.testing.assert_allclose(a.decision_function(X), b.decision_function(X), atol=room)
        np.testing.assert_allclose(a.intercept_, b.intercept_, atol=room)
        self.assertEqual(a.dual_coef_.shape[0], b.dual_coef_.shape[0])
        self.assertEqual(a.n_support_.shape, b.n_support_.shape)
        self.assertGreaterEqual((a.predict(X) == b.predict(X)).mean(), 0.995)

    def test_two_classes(self):
        X, y = make_classification(700, 12, random_state=3)
        y = np.array(["no", "yes"])[y]
        for kernel in ("linear", "poly", "rbf"):
            a = svm.SVC(kernel=kernel, n_jobs=2).fit(X, y)
            b = peer.SVC(kernel=kernel).fit(X, y)
            self.check_decisions(a, b, X)
            if kernel == "rbf":
                K = np.exp(-a._gamma * ((X[:, None] - X[None]) ** 2).sum(-1))
                values = []
                for m in (a, b):
                    coef = np.zeros(len(X))
                    coef[m.support_] = m.dual_coef_[0]
                    values.append(objective(coef, K, y))
                self.assertLess(abs(values[0] / values[1] - 1), 1e-5)
                np.testing.assert_array_equal(a.support_vectors_, X[a.support_])
                self.assertAlmostEqual(float(np.abs(a.dual_coef_).max()), 1.0)
            if kernel == "linear":
                np.testing.assert_allclose(a.coef_, b.coef_, atol=0.02)

    def test_sigmoid(self):
        """Not positive definite: optima differ, how good they are hardly."""
        X, y = make_classification(700, 12, random_state=3)
        scores = [m.fit(X, y).score(X, y)
                  for m in (svm.SVC(kernel="sigmoid", n_jobs=1), peer.SVC(kernel="sigmoid"))]
        self.assertLess(abs(scores[0] - scores[1]), 0.05)

    def test_several_classes(self):
        X, y = load_iris(return_X_y=True)
        for shape in ("ovr", "ovo"):
            a = svm.SVC(C=10, decision_function_shape=shape, n_jobs=1).fit(X, y)
            b = peer.SVC(C=10, decision_function_shape=shape).fit(X, y)
            self.check_decisions(a, b, X)
        a = svm.SVC(kernel="linear", n_jobs=1).fit(X, y)
        np.testing.assert_allclose(a.coef_, peer.SVC(kernel="linear").fit(X, y).coef_, atol=0.02)
        X, y = digits(900)
        self.check_decisions(svm.NuSVC(nu=0.1, tol=1e-5).fit(X, y),
                             peer.NuSVC(nu=0.1, tol=1e-5).fit(X, y), X)

    def test_regression_and_one_class(self):
        X, y = load_diabetes(return_X_y=True)
        for ours, theirs in ((svm.SVR(C=100, epsilon=5), peer.SVR(C=100, epsilon=5)),
                             (svm.NuSVR(C=100), peer.NuSVR(C=100))):
            np.testing.assert_allclose(ours.fit(X, y).predict(X), theirs.fit(X, y).predict(X),
                                       atol=0.5)
        a, b = svm.OneClassSVM(nu=0.2).fit(X), peer.OneClassSVM(nu=0.2).fit(X)
        np.testing.assert_allclose(a.decision_function(X), b.decision_function(X), atol=0.02)
        np.testing.assert_allclose(a.score_samples(X), b.score_samples(X), atol=0.02)

    def test_sparse_is_dense(self):
        X, y = digits(500)
        dense = svm.SVC(C=3, gamma=0.02, n_jobs=1).fit(X, y)
        for kind in (sp.csr_matrix, sp.csc_matrix, sp.coo_matrix):
            sparse = svm.SVC(C=3, gamma=0.02, n_jobs=1).fit(kind(X), y)
            np.testing.assert_array_equal(sparse.dual_coef_.toarray(), dense.dual_coef_)
            self.assertTrue(sp.issparse(sparse.support_vectors_))
            np.testing.assert_array_equal(sparse.predict(kind(X)), dense.predict(X))
        twice = sp.coo_matrix((np.ones(4), ([0, 0, 1, 2], [1, 1, 0, 1])), shape=(3, 2)).tocsr()
        svm.SVC(n_jobs=1).fit(twice, [0, 1, 1])

    def test_kernels_that_are_given(self):
        X, y = digits(300, 3)
        plain = svm.SVC(kernel="linear", n_jobs=1).fit(X, y)
        given = svm.SVC(kernel="precomputed", n_jobs=1).fit(X @ X.T, y)
        called = svm.SVC(kernel=lambda a, b: a @ b.T, n_jobs=1).fit(X, y)
        for other, rows in ((given, X @ X.T), (called, X)):
            np.testing.assert_allclose(other.decision_function(rows), plain.decision_function(X),
                                       atol=1e-2)
            again = pickle.loads(pickle.dumps(other)) if other is given else other
            np.testing.assert_array_equal(again.predict(rows), other.predict(rows))

    def test_weights(self):
        X, y = digits(300, 2)
        rng = np.random.RandomState(0)
        times = rng.randint(0, 4, len(X))
        repeated = np.repeat(np.arange(len(X)), times)
        a = svm.SVC(C=0.05, gamma=0.1, n_jobs=1, tol=1e-6).fit(X, y, sample_weight=times)
        b = svm.SVC(C=0.05, gamma=0.1, n_jobs=1, tol=1e-6).fit(X[repeated], y[repeated])
        np.testing.assert_allclose(a.decision_function(X), b.decision_function(X), atol=1e-4)
        self.assertTrue((times[a.support_] > 0).all())
        for weight in ({0: 5, 1: 1}, "balanced"):
            a = svm.SVC(class_weight=weight, C=0.1, n_jobs=1).fit(X[:150], y[:150])
            b = peer.SVC(class_weight=weight, C=0.1).fit(X[:150], y[:150])
            self.check_decisions(a, b, X)
            np.testing.assert_allclose(a.class_weight_, b.class_weight_)

    def test_probabilities(self):
        X, y = digits(500, 4)
        a = svm.SVC(probability=True, random_state=1, n_jobs=1).fit(X, y)
        b = peer.SVC(probability=True, random_state=1).fit(X, y)
        p = a.predict_proba(X)
        np.testing.assert_allclose(p.sum(axis=1), 1)
        self.assertLess(np.abs(p - b.predict_proba(X)).mean(), 0.02)
        np.testing.assert_array_equal(p, svm.SVC(probability=True, random_state=1, n_jobs=2)
                                      .fit(X, y).predict_proba(X))
        self.assertFalse(hasattr(svm.SVC(), "predict_proba"))

    def test_threads_and_repeats(self):
        X, y = make_classification(2500, 10, random_state=1)
        one, two = (svm.SVC(n_jobs=n, cache="off").fit(X, y) for n in (1, 2))
        np.testing.assert_array_equal(one.dual_coef_, two.dual_coef_)
        kept = svm.SVC(n_jobs=2, cache="on", cache_size=1, cache_policy="hcst").fit(X, y)
        self.assertTrue(kept.stats_["cache_on"])
        self.assertEqual(kept.stats_["policy"], "hcst")
        np.testing.assert_allclose(kept.decision_function(X), one.decision_function(X), atol=5e-3)
        merged = svm.SVC(C=1, merge_repeats=True).fit(np.vstack([X, X]), np.hstack([y, y]))
        self.assertLessEqual(len(merged.support_), len(X))
        np.testing.assert_allclose(merged.decision_function(X),
                                   svm.SVC(C=2).fit(X, y).decision_function(X), atol=0.2)


class Wrong(unittest.TestCase):
    def test_sentences(self):
        X, y = digits(60, 2)
        for options, words in (({"kernel": "rbff"}, "rbff"), ({"gamma": -1}, "gamma"),
                               ({"gamma": "sale"}, "sale"), ({"C": -2}, "C"),
                               ({"cache": "yes"}, "cache"), ({"cache_policy": "none"}, "none"), ({"device": "gpu"}, "cpu, cuda"),
                               ({"decision_function_shape": "all"}, "ovr")):
            with self.assertRaisesRegex(ValueError, words):
                svm.SVC(**options).fit(X, y)
        with self.assertRaisesRegex(ValueError, "greater than one; got 1 class"):
            svm.SVC().fit(X, np.zeros(len(X)))
        with self.assertRaisesRegex(ValueError, "nu"):
            svm.NuSVC(nu=0.9).fit(X, [1] * 5 + [0] * 55)
        with self.assertRaisesRegex(ValueError, "square"):
            svm.SVC(kernel="precomputed").fit(X, y)
        with self.assertRaisesRegex(ValueError, "weight"):
            svm.SVC().fit(X, y, sample_weight=np.where(y == 0, 0, 1))
        with self.assertWarns(ConvergenceWarning):
            svm.SVC(max_iter=2, C=1e5).fit(X, np.arange(60) % 2)

    def test_ctrl_c(self):
        code = (
            "import sys; sys.path.insert(0, sys.argv[1])\n"
            "import numpy as np; from larder import svm\n"
            "rng = np.random.RandomState(0); X = rng.rand(6000, 30); y = rng.randint(0, 2, 6000)\n"
            "model = svm.SVC(C=1e6, tol=1e-9, n_jobs=2, gamma=0.01)\n"
            "try:\n    print('begins', flush=True)\n    model.fit(X, y)\n"
            "except KeyboardInterrupt:\n    print('interrupted')\n"
        )
        child = subprocess.Popen([sys.executable, "-c", code, PYTHON], stdout=subprocess.PIPE,
                                 text=True)
        try:
            self.assertEqual(child.stdout.readline(), "begins\n")
            # The handler may not stand yet when the word is out: either way it is KeyboardInterrupt.
            import time
            time.sleep(0.5)
            child.send_signal(signal.SIGINT)
            self.assertEqual(child.communicate(timeout=120)[0], "interrupted\n")
        finally:
            child.kill()
            child.wait()

    def test_ctrl_c_right_after_a_call(self):
        """What the library has just made is given back."""
        lib, alive = _svm.library(), 0

        def making(real):
            def call(*args):
                nonlocal alive
                rc = real(*args)
                alive += args[0]._obj.value is not None
                signal.raise_signal(signal.SIGINT)  # in training its handler waits for the end
                return rc

            return call

        def closing(real):
            def call(handle):
                nonlocal alive
                alive -= handle._obj.value is not None
                real(handle)

            return call

        X, y = digits(60, 2)
        fitted = svm.SVC().fit(X, y)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model")
            fitted.save(path)
            for name, what in (("copy", lambda: svm.SVC().fit(X, y)), ("train", lambda: svm.SVC().fit(X, y)),
                               ("assemble", lambda: pickle.loads(pickle.dumps(fitted)).predict(X)),
                               ("load", lambda: svm.load(path))):
                closer = "larder_svm_data_close" if name == "copy" else "larder_svm_model_close"
                name = f"larder_svm_{name}"
                with unittest.mock.patch.object(lib, name, making(getattr(lib, name))), \
                        unittest.mock.patch.object(lib, closer, closing(getattr(lib, closer))):
                    with self.assertRaises(KeyboardInterrupt):
                        what()
                    self.assertEqual(alive, 0, name)

    def test_saved_models(self):
        X, y = digits(200, 3)
        model = svm.SVC(gamma=0.1, n_jobs=1).fit(X, y)
        larder = os.environ.get("LARDER")
        if not larder:
            self.skipTest("no LARDER")
        with tempfile.TemporaryDirectory() as folder:
            data, out, path = (os.path.join(folder, n) for n in ("data", "out", "model"))
            model.save(path)
            with open(data, "w") as f:
                for row in X:
                    f.write("0 " + " ".join(f"{j + 1}:{v:.17g}" for j, v in enumerate(row)) + "\n")
            subprocess.run([larder, "svm-predict", data, path, out], check=True,
                           stdout=subprocess.DEVNULL)
            with open(out) as f:
                said = [int(float(line)) for line in f]
        np.testing.assert_array_equal(said, model.predict(X))


class Files(unittest.TestCase):
    """Models of LIBSVM's format, there and back."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "model")

    def again(self, model, **options):
        model.save(self.path)
        out = svm.load(self.path, **options)
        self.assertIs(type(out), type(model))
        return out

    def test_every_task(self):
        X, y = digits(300, 4)
        for ours, _ in PAIRS:
            for kernel in ("linear", "rbf", "poly"):
                model = ours(kernel=kernel, n_jobs=1, gamma=0.1).fit(X, 3 * y)
                out = self.again(model)
                ask = "decision_function" if hasattr(model, "decision_function") else "predict"
                np.testing.assert_allclose(getattr(out, ask)(X), getattr(model, ask)(X), atol=1e-5)
                np.testing.assert_array_equal(out.n_support_, model.n_support_)
                if hasattr(model, "classes_"):
                    np.testing.assert_array_equal(out.classes_, [0, 3, 6, 9])
                    np.testing.assert_array_equal(out.predict(X), model.predict(X))
        self.assertEqual(svm.load(self.path).offset_, out.offset_)

    def test_names_are_saved_as_places(self):
        X, y = digits(100, 3)
        model = svm.SVC(n_jobs=1).fit(X, np.array(["a", "b", "c"])[y])
        np.testing.assert_array_equal(model.classes_[self.again(model).predict(X)], model.predict(X))

    def test_probabilities_and_given_kernels(self):
        X, y = digits(200, 3)
        model = svm.SVC(probability=True, random_state=0, gamma=0.1, n_jobs=1).fit(X, y)
        np.testing.assert_allclose(self.again(model).predict_proba(X), model.predict_proba(X), atol=1e-5)
        K = X @ X.T
        model = svm.SVC(kernel="precomputed", n_jobs=1).fit(K, y)
        out = self.again(model, n_features=len(K))
        np.testing.assert_allclose(out.decision_function(K), model.decision_function(K))

    def test_classes_that_do_not_ascend(self):
        """As LIBSVM's programs write them: by first appearance."""
        X, y = digits(200, 4)
        model = svm.SVC(probability=True, random_state=0, gamma=0.1, n_jobs=1).fit(X, y)
        order = np.array([2, 0, 3, 1])
        mixed = svm.SVC(probability=True, random_state=0, gamma=0.1, n_jobs=1).fit(X, np.argsort(order)[y])
        mixed.classes_ = order  # place n stands for digit order[n]
        out = self.again(mixed)
        np.testing.assert_array_equal(out.classes_, range(4))
        np.testing.assert_array_equal(out.predict(X), model.predict(X))
        np.testing.assert_allclose(out.decision_function(X), model.decision_function(X), atol=0.01)
        # What couples pairs goes by the order of classes, and ends at a tolerance.
        np.testing.assert_allclose(out.predict_proba(X), mixed.predict_proba(X)[:, np.argsort(order)], atol=0.005)
        X, y = digits(100, 2)
        two = svm.SVC(probability=True, random_state=0, gamma=0.1, n_jobs=1).fit(X, y)
        two.classes_ = np.array([1, 0])
        np.testing.assert_allclose(self.again(two).predict_proba(X), two.predict_proba(X)[:, ::-1], atol=1e-5)

    def test_what_is_no_model(self):
        with self.assertRaisesRegex(OSError, "model"):
            svm.load(self.path)
        with open(self.path, "w") as f:
            f.write("svm_type c_svc\nkernel_type none\n")
        with self.assertRaisesRegex(ValueError, "model"):
            svm.load(self.path)
        X, y = digits(60, 2)
        svm.SVC(n_jobs=1).fit(X, y).save(self.path)
        with self.assertRaisesRegex(ValueError, "n_features is 3"):
            svm.load(self.path, n_features=3)
        with self.assertRaisesRegex(ValueError, "features"):
            svm.load(self.path, n_features=64).predict(X[:, :60])


if __name__ == "__main__":
    unittest.main()
