"""What a learner has to beat: forecasters without a kernel, on the rows that it learns from.

They are the algorithms ``mean``, ``last`` and ``ridge``. They learn every label that the data
have, whether the learner asks for it or not: a learner that asks seldom is compared with what all
labels give. Labels that come from outside are known to both where the learner asks.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from omkl import algorithms
from omkl.datasets import Stream
from omkl.experiment.metrics import Accuracy, ClientErrors, Recorder, mistaken
from omkl.online.specification import Specification
from omkl.online.stream_learner import StreamLearner
from omkl.utils import registry

RIDGE_LAM = 0.01  # as in conf/algorithm/ridge.yaml
MOST_INPUTS = 1500  # of ridge, a round of which takes d^2 time and which keeps d^2 numbers
PARAMS: dict[str, dict[str, float]] = {"mean": {}, "last": {}, "ridge": {"lam": RIDGE_LAM}}
MODULES = tuple(sorted({registry.module_of(name) for name in PARAMS}))
# The sign of the mean of labels -1 and +1 is the class that most rows had.
OF_CLASSES = {"constant": "mean", "last": "last", "ridge": "ridge"}


class Rounds(NamedTuple):
    """Rows X (n, d) with labels y (n,), of which ``known`` (n,) there are and ``scored`` count."""

    X: np.ndarray
    y: np.ndarray
    known: np.ndarray
    scored: np.ndarray


def forecaster(
    name: str, d: int, scaling: str = "none", lags: int = 0, classes: Sequence[Any] = ()
) -> StreamLearner:
    """The baseline ``name``, of d inputs, before the first row."""
    algorithm = algorithms.load(name)
    specification = Specification(algorithm, algorithm.Params(**PARAMS[name]), (), 1, "float64")
    return StreamLearner(specification, d, 0, scaling=scaling, lags=lags, classes=classes)


def _skipped(d: int) -> dict[str, dict[str, Any]]:
    """Which of them are left out, and why, as in result.json."""
    reason = f"{d:,} inputs are more than {MOST_INPUTS:,}"
    return {"ridge": {"skipped": reason}} if d > MOST_INPUTS else {}


class Baselines:
    """Those of a regression, over the rounds whose label is known; memory stays the same.

    They are told labels and lags as a learner is that asks always.

    squared   their squared errors in the scale of the stream
    accuracy  in units of the target
    seconds   time spent in them, which is none of the learner's
    """

    NAMES: Mapping[str, str] = dict(zip(PARAMS, PARAMS, strict=True))

    def __init__(self, stream: Stream) -> None:
        d = stream.n_inputs
        self.skipped = _skipped(d)
        self.learners = {
            shown: forecaster(name, d, stream.scaling, stream.n_lags, stream.classes)
            for shown, name in self.NAMES.items()
            if shown not in self.skipped
        }
        self.squared = Recorder(len(self.learners))
        self.accuracy = Accuracy(len(self.learners), stream.target_unit)
        self.seconds = 0.0

    def add(self, rounds: Rounds) -> None:
        """Learn what is known of a block of rounds, and count what is scored."""
        before = time.perf_counter()
        self.squared.add(self._losses(rounds))
        self.seconds += time.perf_counter() - before

    def _losses(self, rounds: Rounds) -> np.ndarray:
        """Squared errors (B, n) of a block that is learned, 0 where they do not count."""
        _, y, known, scored = rounds
        X, labels = rounds.X[known], y[known]
        errors = np.zeros((len(self.learners), len(y)))
        with np.errstate(over="ignore", invalid="ignore"):  # ``entries`` tells
            for k, learner in enumerate(self.learners.values()):
                errors[k, known] = learner.partial_fit(X, labels).y_hat - labels
            self.accuracy.add(errors[:, scored], y[scored])
            return np.where(scored, np.square(errors), 0.0)

    @property
    def mse(self) -> np.ndarray:
        """Mean squared errors (B,) in the scale of the stream."""
        return self.squared.total / max(self.accuracy.n_rounds, 1)

    def entries(self) -> dict[str, dict[str, Any]]:
        """What result.json says of each: errors in units of the target, MSE in the stream's."""
        columns = {"rmse": self.accuracy.rmse, "mae": self.accuracy.mae, "mse": self.mse}
        entries: dict[str, dict[str, Any]] = {}
        for k, name in enumerate(self.learners):
            entries[name] = {key: float(values[k]) for key, values in columns.items()}
            if not np.isfinite(list(entries[name].values())).all():
                entries[name] = {"skipped": "its predictions are not finite"}
        return entries | self.skipped

    def curves(self, n_scored: np.ndarray, first: int) -> dict[str, np.ndarray]:
        """Running MSE (P - first,) of each, without the first of P recorded rounds.

        n_scored (P - first,) are the labels that counted up to them.
        """
        sums = self.squared.curve()[1][:, first:]
        return {f"baseline_{name}": sums[k] / n_scored for k, name in enumerate(self.learners)}


class ClassBaselines(Baselines):
    """Those of a classification, one class against the rest; ``squared`` are their mistakes."""

    NAMES = OF_CLASSES

    def go_on(self, labels: Mapping[str, np.ndarray]) -> None:
        """Begin with labels of earlier rows, arrays of a ``LabelHistory``: lags are of them."""
        for learner in self.learners.values():
            learner.target.restore(labels)

    def _losses(self, rounds: Rounds) -> np.ndarray:
        found = [one.partial_fit(rounds.X, rounds.y) for one in self.learners.values()]
        return np.stack([mistaken(one.y_hat, rounds.y) for one in found]).astype(np.float64)


class ClientBaselines(Baselines):
    """Those of a federation: one central forecaster, which is told the rows of all clients.

    Rows are those of the clients in turn, round by round. What is counted of each client is as for
    the federation: ``ClientErrors``.
    """

    def __init__(self, stream: Stream, lengths: np.ndarray) -> None:
        super().__init__(stream)
        self.of_clients = ClientErrors(len(self.learners), lengths)

    def add_rounds(self, X: np.ndarray, y: np.ndarray) -> None:
        """The next rounds of K clients: X (n, K, d), y (n, K), NaN where a client is done."""
        before = time.perf_counter()
        there = ~np.isnan(y).ravel()
        squared = self._losses(Rounds(X.reshape(-1, X.shape[2]), y.ravel(), there, there))
        self.of_clients.add(squared.reshape(len(squared), *y.shape))
        self.seconds += time.perf_counter() - before

    @property
    def mse(self) -> np.ndarray:
        return self.of_clients.mse

    def curves_of_rounds(self) -> dict[str, np.ndarray]:
        """Running MSE (P,) of each on the recorded rounds."""
        found = self.of_clients.curve()
        return {f"baseline_{name}": found[k] for k, name in enumerate(self.learners)}
