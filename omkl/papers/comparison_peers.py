"""What a user would take in place of a kernel dictionary: classifiers of scikit-learn and river.

One pass, predicting each row before learning it, on the very rows that our learners see.
All have the same 100 random features of one Gaussian kernel, those of scikit-learn: river's own
RBFSampler takes the features input by input. The bandwidth must be known in advance,
where our learners carry a dictionary: it is the median heuristic on the first 100 rows, which
looks ahead by as much, in the peers' favour.

Needs the extra ``bench`` (``pip install -e '.[bench]'`` in the checkout).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

FEATURES = 100
FIRST = 100  # rows that the bandwidth is taken from

Array = np.ndarray


def median_gamma(X: Array) -> float:
    """gamma of exp(-gamma ||x - x'||^2) that is exp(-1/2) at the median distance of rows (n, d)."""
    from scipy.spatial.distance import pdist

    squares = pdist(X[:FIRST], "sqeuclidean")
    middle = float(np.median(squares)) or float(squares.max()) or 1.0
    return 0.5 / middle


def sklearn_sgd(X: Array, y: Array, seed: int) -> Array:
    """RBFSampler and a linear SVM by stochastic gradients: SGDClassifier with its defaults."""
    from sklearn.linear_model import SGDClassifier

    return _sklearn(SGDClassifier(random_state=seed), X, y, seed)


def sklearn_pa(X: Array, y: Array, seed: int) -> Array:
    """RBFSampler and the passive-aggressive classifier (PA-I, C = 1)."""
    from sklearn.linear_model import SGDClassifier

    # What became of PassiveAggressiveClassifier in scikit-learn 1.8.
    settings = {"loss": "hinge", "penalty": None, "learning_rate": "pa1", "eta0": 1.0}
    return _sklearn(SGDClassifier(random_state=seed, **settings), X, y, seed)


def _features(X: Array, seed: int) -> Array:
    from sklearn.kernel_approximation import RBFSampler

    sampler = RBFSampler(gamma=median_gamma(X), n_components=FEATURES, random_state=seed)
    return sampler.fit(X[:1]).transform(X)  # the draw depends on the number of inputs alone


def _sklearn(model: Any, X: Array, y: Array, seed: int) -> Array:
    Z = _features(X, seed)
    classes, y_hat = np.array([-1.0, 1.0]), np.zeros(len(y))
    for t in range(len(y)):
        if t:
            y_hat[t] = model.predict(Z[t : t + 1])[0]
        model.partial_fit(Z[t : t + 1], y[t : t + 1], classes=classes)
    return y_hat


def river_pa(X: Array, y: Array, seed: int) -> Array:
    """The same features and river's passive-aggressive classifier (PA-I, C = 1), its defaults."""
    from river import linear_model

    Z, model = _features(X, seed), linear_model.PAClassifier()
    y_hat = np.zeros(len(y))
    for t in range(len(y)):
        row: dict[Any, float] = dict(enumerate(Z[t].tolist()))
        if t:
            y_hat[t] = 1.0 if model.predict_one(row) else -1.0
        model.learn_one(row, bool(y[t] > 0))
    return y_hat


PEERS: dict[str, tuple[str, str, Callable[[Array, Array, int], Array]]] = {
    "sklearn_sgd": ("scikit-learn RBFSampler + SGDClassifier", "sklearn", sklearn_sgd),
    "sklearn_pa": ("scikit-learn RBFSampler + passive-aggressive", "sklearn", sklearn_pa),
    "river_pa": ("river PAClassifier on the same features", "river", river_pa),
}


def title(name: str) -> str:
    return PEERS[name][0]


def missing(name: str) -> str | None:
    """Why a peer cannot run here, None where it can."""
    try:
        importlib.import_module(PEERS[name][1])
    except ImportError:
        return f"{PEERS[name][1]} is not installed: in the checkout, pip install -e '.[bench]'"
    return None
