"""Models of other libraries that one would take in place of ours, and a pass of one over a stream.

Each is ``make(task, n_classes, seed)``: an object that has ``predict_one(x)`` (a number) or
``predict_proba_one(x)`` (probabilities by class, 0 to K - 1), and ``learn_one(x, y)``; x is a
mapping by name. Their settings are the defaults of their libraries. Inputs are standardised by what
they have seen. A pass runs in a process of its own, which may take too long or die.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import io
import math
import multiprocessing
import os
import pickle
import shutil
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from omkl.benchmark import streams
from omkl.benchmark.scores import Diverged, Predictions
from omkl.datasets.scaling import LabelHistory

Make = Callable[[str, int, int], Any]
SEED = object()  # stands for the seed among the settings of a model


class Peer(NamedTuple):
    """Title in print, library, and a function (task, n_classes, seed) that makes the model."""

    title: str
    library: str
    make: Make


# --- River ----------------------------------------------------------------------------------------
# The libraries are extras, and River takes a second to import: whoever makes a model imports it.


def _river(regressor: str, classifier: str, scaled: bool = True, **settings: Any) -> Make:
    """``module.Class`` of River for each task, "" where none, behind a StandardScaler."""

    def make(task: str, n_classes: int, seed: int) -> Any:
        from river import multiclass, preprocessing

        name = regressor if task == "regression" else classifier
        if not name:
            raise ValueError(f"it has no {task}")
        module, _, kind = name.partition(".")
        seeded = {key: seed if value is SEED else value for key, value in settings.items()}
        model = getattr(importlib.import_module(f"river.{module}"), kind)(**seeded)
        if name == "linear_model.LogisticRegression" and n_classes > 2:
            model = multiclass.OneVsRestClassifier(model)
        return preprocessing.StandardScaler() | model if scaled else model

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


def _bagging(task: str, n_classes: int, seed: int) -> Any:
    """As in River's own benchmark; without its scaler in a classification, as there."""
    from river import ensemble, preprocessing, tree

    if task == "classification":
        classifier = tree.HoeffdingAdaptiveTreeClassifier(bootstrap_sampling=False)
        return ensemble.BaggingClassifier(classifier, seed=seed)
    regressor = tree.HoeffdingAdaptiveTreeRegressor(bootstrap_sampling=False)
    return preprocessing.StandardScaler() | ensemble.BaggingRegressor(regressor, seed=seed)


# --- scikit-learn ---------------------------------------------------------------------------------


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
        self.labels = LabelHistory(0, scaled=True)
        self.now = self.labels.take(np.empty(0)).last
        self.has_learned = False

    def _row(self, x: Mapping[str, float]) -> np.ndarray:
        z = self.scaler.transform(np.array([list(x.values())]))
        if self.features is None:
            return z
        if self.sampler is None:
            self.sampler = self.features(len(x))
        return self.sampler.transform(z)

    def predict_one(self, x: Mapping[str, float]) -> float | None:
        if not self.has_learned:
            return None
        y_hat = float(self.model.predict(self._row(x))[0])
        return y_hat if self.n_classes else self.now.centre + self.now.unit * y_hat

    def learn_one(self, x: Mapping[str, float], y: float) -> None:
        self.scaler.partial_fit(np.array([list(x.values())]))
        if self.n_classes:
            self.model.partial_fit(self._row(x), [y], classes=np.arange(self.n_classes))
        else:
            self.model.partial_fit(self._row(x), [self.now.scaled(y, soft=False)])
            self.now = self.labels.take_one(y)
        self.has_learned = True


def _sgd(settings: Mapping[str, Any] | None = None, features: bool = False) -> Make:
    """Stochastic gradients with their defaults or other settings by task, on random features."""

    def make(task: str, n_classes: int, seed: int) -> Any:
        from sklearn import linear_model

        kind = linear_model.SGDRegressor if task == "regression" else linear_model.SGDClassifier
        drawn = functools.partial(_random_features, seed=seed) if features else None
        return _Sklearn(kind(random_state=seed, **(settings or {}).get(task, {})), n_classes, drawn)

    return make


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


class _BoostingOfWindow:
    """Histogram gradient boosting of the last rows, fitted anew when there are a quarter more.

    At most so many rows are kept, and a quarter of these comes between two fits. Before the first
    one the mean of the labels is said, or every class with the same probability.
    """

    first, most = 200, 30_000

    def __init__(self, task: str, n_classes: int, seed: int) -> None:
        from sklearn import ensemble

        name = "HistGradientBoosting" + ("Classifier" if n_classes else "Regressor")
        self.model = getattr(ensemble, name)(early_stopping=False, random_state=seed)
        self.n_classes = n_classes
        self.X: list[list[float]] = []
        self.y: list[float] = []
        self.wait, self.fitted = self.first, False

    def predict_one(self, x: Mapping[str, float]) -> float | None:
        if not self.fitted:
            return float(np.mean(self.y)) if self.y else None
        return float(self.model.predict(np.array([list(x.values())]))[0])

    def predict_proba_one(self, x: Mapping[str, float]) -> dict[int, float]:
        if not self.fitted:
            return dict.fromkeys(range(self.n_classes), 1.0 / self.n_classes)
        said = self.model.predict_proba(np.array([list(x.values())]))[0]
        return {int(k): float(p) for k, p in zip(self.model.classes_, said, strict=True)}

    def learn_one(self, x: Mapping[str, float], y: float) -> None:
        self.X.append(list(x.values()))
        self.y.append(y)
        self.wait -= 1
        if self.wait == 0:
            del self.X[: -self.most], self.y[: -self.most]
            self.model.fit(np.array(self.X), np.array(self.y))
            self.wait, self.fitted = max(1, len(self.y) // 4), True


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

# --- Vowpal Wabbit --------------------------------------------------------------------------------


class _Vowpal:
    """A workspace with inputs in the namespace ``i``; it is pickled as the file of its model.

    Its squared-error loss and steps are its defaults; labels are standardised by those that are
    known, as for scikit-learn.
    """

    def __init__(self, arguments: str) -> None:
        from vowpalwabbit import Workspace  # an extra

        self.workspace = Workspace(arguments)
        self.labels = LabelHistory(0, scaled=True)
        self.now = self.labels.take(np.empty(0)).last

    def predict_one(self, x: Mapping[str, float]) -> float:
        y_hat = float(self.workspace.predict(_line(x)))
        return self.now.centre + self.now.unit * y_hat

    def learn_one(self, x: Mapping[str, float], y: float) -> None:
        self.workspace.learn(f"{self.now.scaled(y, soft=False)!r} {_line(x)}")
        self.now = self.labels.take_one(y)

    def __getstate__(self) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="omkl-vw-") as place:
            path = Path(place) / "model"
            self.workspace.save(str(path))
            return {"model": path.read_bytes()}


def _line(x: Mapping[str, float]) -> str:
    """Inputs by their place: their names may have what is a mark to Vowpal Wabbit."""
    return "|i " + " ".join(f"{k}:{value!r}" for k, value in enumerate(x.values()))


def _vowpal(options: str) -> Make:
    def make(task: str, n_classes: int, seed: int) -> Any:
        if task != "regression":
            raise ValueError("it has no classification")
        return _Vowpal(f"--quiet --random_seed {seed} {options}")

    return make


# --- CapyMOA --------------------------------------------------------------------------------------


class _Moa:
    """A learner of MOA in a Java virtual machine; it is pickled as CapyMOA saves it.

    It is made with the first row, which says how many inputs there are.
    """

    def __init__(self, kind: Callable[..., Any], n_classes: int, seed: int) -> None:
        self.kind, self.n_classes, self.seed = kind, n_classes, seed
        self.learner: Any = None

    def _instance(self, x: Mapping[str, float], y: float) -> Any:
        from capymoa import core, stream

        if self.learner is None:
            names = [f"x{k}" for k in range(len(x))]  # theirs may have marks of ARFF
            categories = {"y": [str(k) for k in range(self.n_classes)]} if self.n_classes else {}
            self.schema = stream.Schema.from_custom([*names, "y"], "y", categories)
            self.learner = self.kind(schema=self.schema, random_seed=self.seed)
        kind = core.LabeledInstance if self.n_classes else core.RegressionInstance
        return kind.from_array(self.schema, np.array(list(x.values()), dtype=np.float64), y)

    def learn_one(self, x: Mapping[str, float], y: float) -> None:
        instance = self._instance(x, y)
        self.learner.train(instance)

    def __getstate__(self) -> dict[str, Any]:
        from capymoa.core.io import save_model

        file = io.BytesIO()
        save_model(self.learner, file)
        return {"model": file.getvalue()}


class _MoaRegressor(_Moa):
    def predict_one(self, x: Mapping[str, float]) -> float:
        instance = self._instance(x, math.nan)
        return float(self.learner.predict(instance))


class _MoaClassifier(_Moa):
    def predict_proba_one(self, x: Mapping[str, float]) -> dict[int, float]:
        instance = self._instance(x, math.nan)
        p = self.learner.predict_proba(instance)
        return {} if p is None else dict(enumerate(p.tolist()))


def _moa(regressor: str, classifier: str) -> Make:
    """A class of CapyMOA for each task, "" where none; its machine starts when it is imported."""

    def make(task: str, n_classes: int, seed: int) -> Any:
        learner: type[_Moa]
        if task == "regression":
            name, module, learner = regressor, "regressor", _MoaRegressor
        else:
            name, module, learner = classifier, "classifier", _MoaClassifier
        if not name:
            raise ValueError(f"it has no {task}")
        kind = getattr(importlib.import_module(f"capymoa.{module}"), name)
        return learner(kind, n_classes, seed)

    return make


# --- All of them ----------------------------------------------------------------------------------

_LINEAR = _river("linear_model.LinearRegression", "linear_model.LogisticRegression")
_TREE = ("tree.HoeffdingAdaptiveTreeRegressor", "tree.HoeffdingAdaptiveTreeClassifier")
_MONDRIAN = ("forest.AMFRegressor", "forest.AMFClassifier")

PEERS: dict[str, Peer] = {
    "river_linear": Peer("River: linear", "river", _LINEAR),
    "river_linear_scaled": Peer("River: linear, labels scaled", "river", _linear_of_scaled_labels),
    "river_hat": Peer("River: Hoeffding adaptive tree", "river", _river(*_TREE, seed=SEED)),
    "river_knn": Peer("River: nearest neighbours", "river", _neighbours),
    "river_arf": Peer(
        "River: adaptive random forest", "river",
        _river("forest.ARFRegressor", "forest.ARFClassifier", seed=SEED),
    ),
    "river_arf_mean": Peer(
        "River: adaptive random forest of means", "river",
        _river("forest.ARFRegressor", "", seed=SEED, leaf_prediction="mean"),
    ),
    "river_amf": Peer(
        "River: aggregated Mondrian forest", "river", _river(*_MONDRIAN, seed=SEED)
    ),
    # A forest that keeps boxes of inputs, which had better not move.
    "river_amf_alone": Peer(
        "River: aggregated Mondrian forest, no scaler", "river",
        _river(*_MONDRIAN, scaled=False, seed=SEED),
    ),
    "river_bagging": Peer("River: bagging of Hoeffding adaptive trees", "river", _bagging),
    "sklearn_sgd": Peer("scikit-learn: SGD", "sklearn", _sgd()),
    "sklearn_pa": Peer("scikit-learn: passive-aggressive", "sklearn", _sgd(_PASSIVE_AGGRESSIVE)),
    "sklearn_rff_sgd": Peer(
        "scikit-learn: SGD on random features", "sklearn", _sgd(features=True)
    ),
    "sklearn_rff_bayes": Peer(
        "scikit-learn: Bayesian ridge on random features", "sklearn", _bayesian_by_blocks
    ),
    "sklearn_boosting": Peer(
        "scikit-learn: gradient boosting of the last 30,000 rows", "sklearn", _BoostingOfWindow
    ),
    "vw_cubic": Peer(
        "Vowpal Wabbit: cubic", "vowpalwabbit",
        _vowpal("--interactions ii --interactions iii"),
    ),
    "vw_nn": Peer("Vowpal Wabbit: 10 hidden units", "vowpalwabbit", _vowpal("--nn 10")),
    "moa_arf": Peer(
        "MOA: adaptive random forest", "capymoa",
        _moa("AdaptiveRandomForestRegressor", "AdaptiveRandomForestClassifier"),
    ),
    "moa_soknl": Peer("MOA: self-optimising nearest leaves", "capymoa", _moa("SOKNL", "")),
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
        if ":" not in name and library_of(name) == "capymoa":
            return _missing_of_capymoa()
        if ":" not in name:
            streams.require(library_of(name))
        elif importlib.util.find_spec(library_of(name)) is None:
            return f"there is no module {name.partition(':')[0]}"
    except (ImportError, LookupError) as error:
        return str(error)
    return None


def _missing_of_capymoa() -> str | None:
    """It asks for an older pandas than it needs, so what it imports is installed by name."""
    packages = ("capymoa", "jpype", "deprecated", "wrapt", "tqdm", "seaborn")
    if absent := [name for name in packages if importlib.util.find_spec(name) is None]:
        install = "pip install --no-deps capymoa jpype1 deprecated wrapt tqdm seaborn"
        return f"CapyMOA needs {', '.join(absent)}: {install}"
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        return "CapyMOA needs Java, and there is no java on PATH and no JAVA_HOME"
    return None


# --- A pass ---------------------------------------------------------------------------------------


class PeerTask(NamedTuple):
    """A peer, and what it is for: ``n_classes`` is 0 in a regression; names of the inputs."""

    peer: str
    task: str
    n_classes: int
    seed: int
    inputs: list[str]


class Failed(RuntimeError):
    """A peer did not answer; the text says why."""


class TookTooLong(Failed):
    """It was ended after the seconds that it had."""


def pass_over(task: PeerTask, X: np.ndarray, y: np.ndarray, seconds: float) -> Predictions:
    """What a peer predicts of all rows X (n, d) before it learns their labels y (n,).

    Labels are numbers, or places among the classes. Raises Failed or Diverged.
    """
    spawn = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
    receiver, sender = spawn.Pipe(duplex=False)
    process = spawn.Process(target=_child, args=(sender, task, X, y))
    process.start()
    sender.close()
    try:
        if not receiver.poll(seconds):
            raise TookTooLong(f"it took more than {seconds:g} s")
        answer = receiver.recv()
    except (EOFError, OSError):
        process.join()
        code = process.exitcode or 0
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        raise Failed(f"its process {how}") from None
    finally:
        process.kill()
        process.join()
        receiver.close()
    if isinstance(answer, Exception):
        raise answer
    return answer


def _child(sender: Connection, task: PeerTask, X: np.ndarray, y: np.ndarray) -> None:
    """Send the answer: ``Predictions``, or why there is none."""
    warnings.filterwarnings("ignore")  # of libraries, about their own calls
    answer: Predictions | Exception
    try:
        answer = _predict_and_learn(task, X, y)
    except Diverged as error:
        answer = error
    except Exception as error:
        answer = Failed(traceback.format_exception_only(error)[-1].strip())
    sender.send(answer)


def _predict_and_learn(task: PeerTask, X: np.ndarray, y: np.ndarray) -> Predictions:
    from threadpoolctl import threadpool_limits

    model = peer(task.peer).make(task.task, task.n_classes, task.seed)
    threadpool_limits(1)  # of the libraries that are loaded: those of the model are by now
    K, y_hat, probabilities = task.n_classes, np.full(len(y), np.nan), []
    labels: list[Any] = y.astype(int).tolist() if K else y.tolist()
    clock = time.process_time()
    for t, (z, label) in enumerate(zip(X.tolist(), labels, strict=True)):
        x = dict(zip(task.inputs, z, strict=True))
        y_hat[t], p = prediction_of(model, x, K)
        if t and not K and not np.isfinite(y_hat[t]):
            raise Diverged(f"its prediction of row {t + 1} is not finite")
        probabilities.append(p)
        model.learn_one(x, label)
    seconds, size = time.process_time() - clock, len(pickle.dumps(model))
    p_all = np.array(probabilities) if any(probabilities) else None
    return Predictions(y_hat, np.full(len(y), np.nan), p_all, seconds, size)


def prediction_of(model: Any, x: Mapping[str, float], n_classes: int) -> tuple[float, list[float]]:
    """Prediction (NaN where there is none) and probabilities, [] where there are none."""
    if n_classes and hasattr(model, "predict_proba_one"):
        by_class = model.predict_proba_one(x)
        p = [float(by_class.get(k, 0.0)) for k in range(n_classes)]
        return (float(np.argmax(p)) if by_class else math.nan), p
    y_hat = model.predict_one(x)
    return (math.nan if y_hat is None else float(y_hat)), []
