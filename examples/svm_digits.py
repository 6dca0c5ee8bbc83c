"""Support vector machines through scikit-learn's interface, and beside scikit-learn's own.

    python3 examples/svm_digits.py [rows]

Digits that come with scikit-learn, repeated with noise until there are `rows` (4000): a search over C,
then the best model against sklearn.svm.SVC with the same parameters."""
import os
import resource
import sys

import numpy as np
import sklearn.svm
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
from larder.svm import SVC  # noqa: E402


def digits(rows):
    X, y = load_digits(return_X_y=True)
    rng = np.random.RandomState(0)
    pick = rng.randint(0, len(X), rows)
    return X[pick] + rng.normal(0, 2, (rows, X.shape[1])), y[pick]


def cpu():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main():
    X, y = digits(int(sys.argv[1]) if len(sys.argv) > 1 else 4000)
    half = len(X) // 2

    search = GridSearchCV(make_pipeline(MinMaxScaler(), SVC(gamma=0.5)), {"svc__C": [0.1, 1, 10]},
                          cv=3)
    search.fit(X[:half], y[:half])
    print(f"best C {search.best_params_['svc__C']}, {search.score(X[half:], y[half:]):.3f} right of "
          f"rows it has not seen")

    C = search.best_params_["svc__C"]
    scaled = MinMaxScaler().fit_transform(X)
    for name, model in (("larder", SVC(C=C, gamma=0.5, n_jobs=1)),
                        ("scikit-learn", sklearn.svm.SVC(C=C, gamma=0.5))):
        start = cpu()
        model.fit(scaled[:half], y[:half])
        trained = cpu()
        right = model.score(scaled[half:], y[half:])
        print(f"{name:<13} {trained - start:6.2f} CPU s to train, {cpu() - trained:6.2f} to predict, "
              f"{len(model.support_)} support vectors, {right:.3f} right")


if __name__ == "__main__":
    main()
