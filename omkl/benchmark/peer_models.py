"""Models of other libraries that one would take in place of ours, with their defaults.

Each is ``make(task, n_classes, seed)``: an object that has ``predict_one(x)`` (a number) or
``predict_proba_one(x)`` (probabilities by class, 0 to K - 1), and ``learn_one(x, y)``; x is a
mapping by name. Inputs are standardised by what they have seen.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from omkl.benchmark import packaged, peer_vowpal
from omkl.datasets.scaling import KnownLabels


class Peer(NamedTuple):
    """Title in print, library, and a function (task, n_classes, seed) that makes the model."""

    title: str
    library: str
    make: Callable[[str, int, int], Any]


# The libraries are extras, and River takes a second to import: whoever makes a model imports it.


def _river(regressor: str, classifier: str, **seeded: int) -> Callable[[str, int, int], Any]:
    """StandardScaler and a model: ``module.Class`` of River for each task, "" where none."""

    def make(task: str, n_classes: int, seed: int) -> Any:
        from river import multiclass, preprocessing

        name = regressor if task == "regression" else classifier
        if not name:
            raise ValueError(f"it has no {task}")
        module, _, kind = name.partition(".")
        own = {key: seed for key in seeded}
        model = getattr(importlib.import_module(f"river.{module}"), kind)(**own)
        if name == "linear_model.LogisticRegression" and n_classes > 2:
            model = multiclass.OneVsRestClassifier(model)
        return preprocessing.StandardScaler() | model

    return make


def _linear_of_scaled_labels(task: str, n_classes: int, seed: int) -> Any:
    """Linear regression whose labels are standardised as well; of classes logistic regression."""
    from river import linear_model, preprocessing

    if task == "classification":
        return _river("", "linear_model.LogisticRegression")(task, n_classes, seed)
    model = preprocessing.TargetStandardScaler(linear_model.LinearRegression())
    return preprocessing.StandardScaler() | model


def _neighbours(task: str, n_classes: int, seed: int) -> Any:
    """With a seed for the search, which draws: River's default draws anew in every run."""
    from river import neighbors, preprocessing

    kind = neighbors.KNNRegressor if task == "regression" else neighbors.KNNClassifier
    return preprocessing.StandardScaler() | kind(engine=neighbors.SWINN(seed=seed))


def _forest_of_means(task: str, n_classes: int, seed: int) -> Any:
    from river import forest, preprocessing

    if task == "classification":
        raise ValueError("it has no classification")
    model = forest.ARFRegressor(seed=seed, leaf_prediction="mean")
    return preprocessing.StandardScaler() | model


def _mondrian_alone(task: str, n_classes: int, seed: int) -> Any:
    """Without a scaler: a forest that keeps boxes of inputs, which had better not move."""
    from river import forest

    kind = forest.AMFRegressor if task == "regression" else forest.AMFClassifier
    return kind(seed=seed)


def _bagging(task: str, n_classes: int, seed: int) -> Any:
    """As in River's own benchmark; without its scaler in a classification, as there."""
    from river import ensemble, preprocessing, tree

    if task == "classification":
        classifier = tree.HoeffdingAdaptiveTreeClassifier(bootstrap_sampling=False)
        return ensemble.BaggingClassifier(classifier, seed=seed)
    regressor = tree.HoeffdingAdaptiveTreeRegressor(bootstrap_sampling=False)
    return preprocessing.StandardScaler() | ensemble.BaggingRegressor(regressor, seed=seed)


def _random_features(d: int, seed: int) -> Any:
    """RBFSampler for d standardised inputs: 100 features, and the bandwidth of gamma="scale"."""
    from sklearn.kernel_approximation import RBFSampler

    return RBFSampler(gamma=1.0 / d, random_state=seed).fit(np.zeros((1, d)))


class _Sklearn:
    """A model of scikit-learn, row by row; labels of a regression are standardised.

    ``features(d)``, if any, makes what stands between the d inputs and the model.
    """

    def __init__(
        self, model: Any, n_classes: int, features: Callable[[int], Any] | None = None
    ) -> None:
        from sklearn.preprocessing import StandardScaler

        self.scaler, self.model, self.n_classes = StandardScaler(), model, n_classes
        self.features = features
        self.sampler: Any = None
        self.labels = KnownLabels(0, scaled=True)
        self.now = self.labels.take(np.empty(0)).last
        self.met = False

    def _row(self, x: Mapping[str, float]) -> np.ndarray:
        z = self.scaler.transform(np.array([list(x.values())]))
        if self.features is None:
            return z
        if self.sampler is None:
            self.sampler = self.features(len(x))
        return self.sampler.transform(z)

    def predict_one(self, x: Mapping[str, float]) -> float | None:
        if not self.met:
            return None
        said = float(self.model.predict(self._row(x))[0])
        return said if self.n_classes else self.now.centre + self.now.unit * said

    def learn_one(self, x: Mapping[str, float], y: float) -> None:
        self.scaler.partial_fit(np.array([list(x.values())]))
        if self.n_classes:
            self.model.partial_fit(self._row(x), [y], classes=np.arange(self.n_classes))
        else:
            self.model.partial_fit(self._row(x), [self.now.scaled(y)])
            self.now = self.labels.take_one(y)
        self.met = True


def _sklearn(**settings: Any) -> Callable[[str, int, int], Any]:
    """Stochastic gradients with their defaults, or other settings by task."""

    def make(task: str, n_classes: int, seed: int) -> Any:
        from sklearn import linear_model

        kind = linear_model.SGDRegressor if task == "regression" else linear_model.SGDClassifier
        own = settings.get(task, {})
        return _Sklearn(kind(random_state=seed, **own), n_classes)

    return make


def _sgd_on_features(task: str, n_classes: int, seed: int) -> Any:
    from sklearn import linear_model

    kind = linear_model.SGDRegressor if task == "regression" else linear_model.SGDClassifier
    features = functools.partial(_random_features, seed=seed)
    return _Sklearn(kind(random_state=seed), n_classes, features)


class _BayesianByBlocks:
    """A Gaussian process on fixed random features: BayesianRidge, fitted anew every 50 rows.

    scikit-learn has neither of them in partial steps, so a fit is on all rows so far, which are
    kept. Before the first fit the mean of the labels is said.
    """

    block = 50

    def __init__(self, seed: int) -> None:
        from sklearn.linear_model import BayesianRidge
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        self.model = make_pipeline(StandardScaler(), _random_features(1, seed), BayesianRidge())
        self.X: list[list[float]] = []
        self.y: list[float] = []

    def predict_one(self, x: Mapping[str, float]) -> float | None:
        if len(self.y) < self.block:
            return float(np.mean(self.y)) if self.y else None
        return float(self.model.predict(np.array([list(x.values())]))[0])

    def learn_one(self, x: Mapping[str, float], y: float) -> None:
        self.X.append(list(x.values()))
        self.y.append(y)
        if len(self.y) % self.block == 0:
            self.model.set_params(rbfsampler__gamma=1.0 / len(x))
            self.model.fit(np.array(self.X), np.array(self.y))


def _bayesian_by_blocks(task: str, n_classes: int, seed: int) -> Any:
    if task == "classification":
        raise ValueError("it has no classification")
    return _BayesianByBlocks(seed)


# What became of the passive-aggressive estimators in scikit-learn 1.8: PA-I with C = 1.
_PASSIVE_AGGRESSIVE = {
    "regression": {"loss": "epsilon_insensitive", "penalty": None, "learning_rate": "pa1",
                   "eta0": 1.0},
    "classification": {"loss": "hinge", "penalty": None, "learning_rate": "pa1", "eta0": 1.0},
}  # fmt: skip

PEERS: dict[str, Peer] = {
    "river_linear": Peer(
        "River: linear", "river",
        _river("linear_model.LinearRegression", "linear_model.LogisticRegression"),
    ),
    "river_linear_scaled": Peer("River: linear, labels scaled", "river", _linear_of_scaled_labels),
    "river_hat": Peer(
        "River: Hoeffding adaptive tree", "river",
        _river("tree.HoeffdingAdaptiveTreeRegressor", "tree.HoeffdingAdaptiveTreeClassifier",
               seed=0),
    ),
    "river_knn": Peer("River: nearest neighbours", "river", _neighbours),
    "river_arf": Peer(
        "River: adaptive random forest", "river",
        _river("forest.ARFRegressor", "forest.ARFClassifier", seed=0),
    ),
    "river_arf_mean": Peer("River: adaptive random forest of means", "river", _forest_of_means),
    "river_amf": Peer(
        "River: aggregated Mondrian forest", "river",
        _river("forest.AMFRegressor", "forest.AMFClassifier", seed=0),
    ),
    "river_amf_alone": Peer(
        "River: aggregated Mondrian forest, no scaler", "river", _mondrian_alone
    ),
    "river_bagging": Peer("River: bagging of Hoeffding adaptive trees", "river", _bagging),
    "sklearn_sgd": Peer("scikit-learn: SGD", "sklearn", _sklearn()),
    "sklearn_pa": Peer(
        "scikit-learn: passive-aggressive", "sklearn", _sklearn(**_PASSIVE_AGGRESSIVE)
    ),
    "sklearn_rff_sgd": Peer("scikit-learn: SGD on random features", "sklearn", _sgd_on_features),
    "sklearn_rff_bayes": Peer(
        "scikit-learn: Bayesian ridge on random features", "sklearn", _bayesian_by_blocks
    ),
    "vw_cubic": Peer(
        "Vowpal Wabbit: cubic", "vowpalwabbit",
        peer_vowpal.regression("--interactions ii --interactions iii"),
    ),
    "vw_nn": Peer(
        "Vowpal Wabbit: 10 hidden units", "vowpalwabbit", peer_vowpal.regression("--nn 10")
    ),
}  # fmt: skip


def peer(name: str) -> Peer:
    """A peer of ``PEERS``, or "module:function" of one's own; LookupError where it is neither."""
    if name in PEERS:
        return PEERS[name]
    module, colon, function = name.partition(":")
    if not colon:
        raise LookupError(f"there is no peer {name}; there are: {', '.join(PEERS)}")
    try:
        make = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise LookupError(f"peer {name}: {error}") from None
    return Peer(function, module.partition(".")[0], make)


def library_of(name: str) -> str:
    """The package that a peer is of; one's own is not imported. LookupError as ``peer``."""
    return name.partition(":")[0].partition(".")[0] if ":" in name else peer(name).library


def missing(name: str) -> str | None:
    """Why a peer cannot run here, None where it can."""
    try:
        if ":" not in name:
            packaged.require(library_of(name))
        elif importlib.util.find_spec(library_of(name)) is None:
            return f"there is no module {name.partition(':')[0]}"
    except (ImportError, LookupError) as error:
        return str(error)
    return None


def said_of(model: Any, x: Mapping[str, float], n_classes: int) -> tuple[float, list[float]]:
    """Prediction (NaN where there is none) and probabilities, () where there are none."""
    if n_classes and hasattr(model, "predict_proba_one"):
        found = model.predict_proba_one(x)
        p = [float(found.get(k, 0.0)) for k in range(n_classes)]
        return (float(np.argmax(p)) if found else math.nan), p
    y_hat = model.predict_one(x)
    return (math.nan if y_hat is None else float(y_hat)), []
