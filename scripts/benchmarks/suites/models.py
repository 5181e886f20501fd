"""Models of other libraries, with the default settings of their libraries, and a pass of one.

``make(task, n_classes, seed)`` returns an object with ``learn_one(x, y)``, and ``predict_one(x)``
(a number) or ``predict_proba_one(x)`` (probabilities by class, 0 to K - 1); x is a mapping. It
raises ValueError for a task that the model does not have. Inputs are standardised by earlier rows.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import shutil
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.suites.streams import require, version_of
from omkl.datasets.scaling import TargetScaler

Make = Callable[[str, int, int], Any]
SEED = object()  # stands for the seed among the settings of a model

# --- River: an extra that takes a second to import, so each function imports it -------------------


def _river(regressor: str, classifier: str, scaled: bool = True, **settings: Any) -> Make:
    """Make ``module.Class`` of River ("" for a task that it lacks) behind a StandardScaler."""

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


def _linear_of_scaled_targets(task: str, n_classes: int, seed: int) -> Any:
    """Make a linear regression that standardises its targets; of classes a logistic regression."""
    from river import linear_model, preprocessing

    if task == "classification":
        return _LINEAR(task, n_classes, seed)
    model = preprocessing.TargetStandardScaler(linear_model.LinearRegression())
    return preprocessing.StandardScaler() | model


def _neighbours(task: str, n_classes: int, seed: int) -> Any:
    """Make nearest neighbours whose search has a seed: River's default draws anew in every run."""
    from river import neighbors, preprocessing

    kind = neighbors.KNNRegressor if task == "regression" else neighbors.KNNClassifier
    return preprocessing.StandardScaler() | kind(engine=neighbors.SWINN(seed=seed))


def _bagging(task: str, n_classes: int, seed: int) -> Any:
    """Make the bagging of River's own benchmark, which has no scaler in a classification."""
    from river import ensemble, preprocessing, tree

    if task == "classification":
        classifier = tree.HoeffdingAdaptiveTreeClassifier(bootstrap_sampling=False)
        return ensemble.BaggingClassifier(classifier, seed=seed)
    regressor = tree.HoeffdingAdaptiveTreeRegressor(bootstrap_sampling=False)
    return preprocessing.StandardScaler() | ensemble.BaggingRegressor(regressor, seed=seed)


# --- scikit-learn and Vowpal Wabbit ---------------------------------------------------------------


class _ScaledTargets:
    """Standardise targets by earlier ones, as learners of omkl do."""

    def __init__(self) -> None:
        self._scaler = TargetScaler(0, scaled=True)

    def take(self, y: float) -> float:
        """Return y standardised by earlier targets, and remember it."""
        return float(self._scaler.take(np.array([y])).scaled[0])

    def restore(self, y_hat: float) -> float:
        return self._scaler.now.centre + self._scaler.now.unit * y_hat


class _Sgd:
    """A linear model of scikit-learn that learns row by row, of inputs that it standardises."""

    def __init__(self, task: str, n_classes: int, seed: int, **settings: Any):
        from sklearn import linear_model
        from sklearn.preprocessing import StandardScaler

        kind = linear_model.SGDRegressor if task == "regression" else linear_model.SGDClassifier
        self.model = kind(random_state=seed, **settings)
        self.classes = np.arange(n_classes)
        self.scaler, self.targets = StandardScaler(), _ScaledTargets()
        self.has_learned = False

    def predict_one(self, x: Mapping[str, float]) -> float | None:
        if not self.has_learned:
            return None
        y_hat = float(self.model.predict(self.scaler.transform([list(x.values())]))[0])
        return y_hat if len(self.classes) else self.targets.restore(y_hat)

    def learn_one(self, x: Mapping[str, float], y: float) -> None:
        row = [list(x.values())]
        z = self.scaler.partial_fit(row).transform(row)
        if len(self.classes):
            self.model.partial_fit(z, [y], classes=self.classes)
        else:
            self.model.partial_fit(z, [self.targets.take(y)])
        self.has_learned = True


def _passive_aggressive(task: str, n_classes: int, seed: int) -> Any:
    """Make what the passive-aggressive estimators are in scikit-learn 1.8: PA-I with C = 1."""
    loss = "epsilon_insensitive" if task == "regression" else "hinge"
    settings = {"loss": loss, "penalty": None, "learning_rate": "pa1", "eta0": 1.0}
    return _Sgd(task, n_classes, seed, **settings)


class _Boosting:
    """Histogram gradient boosting of the last rows, fitted again with a quarter more of them.

    Before the first fit it predicts the mean of the targets, or the first class.
    """

    def __init__(self, task: str, n_classes: int, seed: int) -> None:
        from sklearn import ensemble

        name = "Classifier" if n_classes else "Regressor"
        kind = getattr(ensemble, f"HistGradientBoosting{name}")
        self.model = kind(early_stopping=False, random_state=seed)
        self.n_classes, self.max_rows = n_classes, 30_000
        self.X: list[list[float]] = []
        self.y: list[float] = []
        self.wait, self.fitted = 200, False

    def predict_one(self, x: Mapping[str, float]) -> float | None:
        if self.fitted:
            return float(self.model.predict([list(x.values())])[0])
        if self.n_classes:
            return 0.0
        return float(np.mean(self.y)) if self.y else None

    def learn_one(self, x: Mapping[str, float], y: float) -> None:
        self.X.append(list(x.values()))
        self.y.append(y)
        self.wait -= 1
        if self.wait == 0:
            del self.X[: -self.max_rows], self.y[: -self.max_rows]
            self.model.fit(self.X, self.y)
            self.wait, self.fitted = max(1, len(self.y) // 4), True


class _Vowpal:
    """A workspace of Vowpal Wabbit with inputs in the namespace ``i``."""

    def __init__(self, arguments: str) -> None:
        from vowpalwabbit import Workspace  # an extra

        self.workspace, self.targets = Workspace(arguments), _ScaledTargets()

    def predict_one(self, x: Mapping[str, float]) -> float:
        return self.targets.restore(float(self.workspace.predict(_vowpal_line(x))))

    def learn_one(self, x: Mapping[str, float], y: float) -> None:
        self.workspace.learn(f"{self.targets.take(y)!r} {_vowpal_line(x)}")


def _vowpal_line(x: Mapping[str, float]) -> str:
    """Name inputs by position: their names may have characters that Vowpal Wabbit reads."""
    return "|i " + " ".join(f"{k}:{value!r}" for k, value in enumerate(x.values()))


def _vowpal(options: str) -> Make:
    def make(task: str, n_classes: int, seed: int) -> Any:
        if task != "regression":
            raise ValueError("it has no classification")
        return _Vowpal(f"--quiet --random_seed {seed} {options}")

    return make


# --- CapyMOA --------------------------------------------------------------------------------------


class _Moa:
    """A learner of MOA in a Java virtual machine. The first row gives the number of inputs."""

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

    def predict_one(self, x: Mapping[str, float]) -> float | None:
        instance = self._instance(x, np.nan)
        if not self.n_classes:
            return float(self.learner.predict(instance))
        p = self.learner.predict_proba(instance)
        return None if p is None else float(np.argmax(p))

    def learn_one(self, x: Mapping[str, float], y: float) -> None:
        instance = self._instance(x, y)
        self.learner.train(instance)


def _moa(regressor: str, classifier: str) -> Make:
    """Make a class of CapyMOA ("" for a task that it lacks); importing it starts Java."""

    def make(task: str, n_classes: int, seed: int) -> Any:
        name = regressor if task == "regression" else classifier
        if not name:
            raise ValueError(f"it has no {task}")
        module = "regressor" if task == "regression" else "classifier"
        kind = getattr(importlib.import_module(f"capymoa.{module}"), name)
        return _Moa(kind, n_classes, seed)

    return make


# --- All of them ----------------------------------------------------------------------------------


class Model(NamedTuple):
    """A title for readers, the package that it needs, and the function that makes it."""

    title: str
    library: str
    make: Make


_LINEAR = _river("linear_model.LinearRegression", "linear_model.LogisticRegression")
_TREE = ("tree.HoeffdingAdaptiveTreeRegressor", "tree.HoeffdingAdaptiveTreeClassifier")
_FOREST = ("forest.ARFRegressor", "forest.ARFClassifier")
_MONDRIAN = ("forest.AMFRegressor", "forest.AMFClassifier")
_MOA_FOREST = ("AdaptiveRandomForestRegressor", "AdaptiveRandomForestClassifier")

MODELS: dict[str, Model] = {
    "river_linear": Model("linear", "river", _LINEAR),
    "river_linear_scaled": Model("linear, targets scaled", "river", _linear_of_scaled_targets),
    "river_hat": Model("Hoeffding adaptive tree", "river", _river(*_TREE, seed=SEED)),
    "river_knn": Model("nearest neighbours", "river", _neighbours),
    "river_arf": Model("adaptive random forest", "river", _river(*_FOREST, seed=SEED)),
    "river_arf_mean": Model(
        "adaptive random forest of means", "river",
        _river(_FOREST[0], "", seed=SEED, leaf_prediction="mean"),
    ),
    "river_amf": Model("aggregated Mondrian forest", "river", _river(*_MONDRIAN, seed=SEED)),
    # It keeps boxes of inputs, so inputs had better not move.
    "river_amf_alone": Model(
        "aggregated Mondrian forest, no scaler", "river",
        _river(*_MONDRIAN, scaled=False, seed=SEED),
    ),
    "river_bagging": Model("bagging of Hoeffding adaptive trees", "river", _bagging),
    "sklearn_sgd": Model("SGD", "sklearn", _Sgd),
    "sklearn_pa": Model("passive-aggressive", "sklearn", _passive_aggressive),
    "sklearn_boosting": Model("gradient boosting of the last 30,000 rows", "sklearn", _Boosting),
    "vw_cubic": Model("cubic", "vowpalwabbit", _vowpal("--interactions ii --interactions iii")),
    "vw_nn": Model("10 hidden units", "vowpalwabbit", _vowpal("--nn 10")),
    "moa_arf": Model("adaptive random forest", "capymoa", _moa(*_MOA_FOREST)),
    "moa_soknl": Model("self-optimising nearest leaves", "capymoa", _moa("SOKNL", "")),
}  # fmt: skip


def find(name: str) -> Model:
    """Return a model of ``MODELS``, or your own by "module:function"."""
    if name in MODELS:
        return MODELS[name]
    module, _, function = name.partition(":")
    return Model(function, module, getattr(importlib.import_module(module), function))


def why_missing(name: str) -> str:
    """Say why a model cannot run on this machine; "" if it can."""
    try:
        library = find(name).library
        if library == "capymoa":
            return _why_capymoa_is_missing()
        if name in MODELS:
            require(library)
    except (ImportError, AttributeError) as error:
        return str(error)
    return ""


def _why_capymoa_is_missing() -> str:
    """CapyMOA asks for an older pandas than it needs, so its imports are installed by name."""
    packages = ("capymoa", "jpype", "deprecated", "wrapt", "tqdm", "seaborn")
    if absent := [name for name in packages if importlib.util.find_spec(name) is None]:
        install = "pip install --no-deps capymoa jpype1 deprecated wrapt tqdm seaborn"
        return f"CapyMOA needs {', '.join(absent)}: {install}"
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        return "CapyMOA needs Java, and there is no java on PATH and no JAVA_HOME"
    return ""


def code_of(name: str) -> str:
    """Return the digest of the code that makes a model, with the version of its library."""
    model = find(name)
    files = [Path(__file__)]
    version = version_of(model.library) if name in MODELS else ""
    if not version and (spec := importlib.util.find_spec(model.library)) and spec.origin:
        files.append(Path(spec.origin))
    digests = [hashlib.sha256(file.read_bytes()).hexdigest()[:16] for file in files]
    return " ".join([model.library, version, *digests])


class Pass(NamedTuple):
    """What one pass over a stream gave.

    Attributes
    ----------
    seed
        Of its random numbers.
    y_hat
        Predictions made before the targets, (n,): numbers, or positions of classes; NaN for none.
    seconds
        Spent in predicting and learning.
    spread
        Standard deviations of the predictions, (n,), of learners that have them.
    failure
        Why there are no predictions; "" if there are.
    """

    seed: int
    y_hat: np.ndarray
    seconds: float = 0.0
    spread: np.ndarray | None = None
    failure: str = ""


def failed(seed: int, reason: str) -> Pass:
    return Pass(seed, np.empty(0), failure=reason)


def one_pass(
    name: str,
    task: str,
    n_classes: int,
    seed: int,
    inputs: tuple[str, ...],
    X: np.ndarray,
    y: np.ndarray,
    seconds: float,
    code: str,
) -> Pass:
    """Predict each row with a model and learn it, for at most ``seconds`` of processor time.

    ``code`` is not read: results are cached by all arguments, and it changes with ``code_of``.
    """
    from threadpoolctl import threadpool_limits

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # libraries warn about their own calls
        try:
            model = find(name).make(task, n_classes, seed)
            with threadpool_limits(1):
                return _predict_and_learn(model, n_classes, seed, inputs, X, y, seconds)
        except Exception as error:
            return failed(seed, f"{type(error).__name__}: {error}")


def _predict_and_learn(
    model: Any,
    n_classes: int,
    seed: int,
    inputs: tuple[str, ...],
    X: np.ndarray,
    y: np.ndarray,
    seconds: float,
) -> Pass:
    y_hat = np.full(len(y), np.nan)
    labels = y.astype(int).tolist() if n_classes else y.tolist()
    start = time.process_time()
    for t, (row, label) in enumerate(zip(X.tolist(), labels, strict=True)):
        x = dict(zip(inputs, row, strict=True))
        y_hat[t] = predict(model, x, n_classes)
        if t and not n_classes and not np.isfinite(y_hat[t]):
            return failed(seed, f"its prediction of row {t + 1} is not finite")
        model.learn_one(x, label)
        if time.process_time() - start > seconds:
            return failed(seed, f"it took more than {seconds:g} s for {t + 1} rows")
    return Pass(seed, y_hat, time.process_time() - start)


def predict(model: Any, x: Mapping[str, float], n_classes: int) -> float:
    """Return the prediction of a row, NaN if there is none."""
    if n_classes and hasattr(model, "predict_proba_one"):
        p = model.predict_proba_one(x)
        return float(np.argmax([p.get(k, 0.0) for k in range(n_classes)])) if p else np.nan
    y_hat = model.predict_one(x)
    return np.nan if y_hat is None else float(y_hat)
