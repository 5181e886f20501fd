"""Our learners and the trivial forecasters on a stream of a suite: one pass, what was said.

Rows and labels come as in a run of ``omkl-run dataset=file`` with the same settings, to the bit.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from omkl import algorithms
from omkl.benchmark.scores import Diverged, Predictions
from omkl.benchmark.suite import OURS, TRIVIAL, TRIVIALS, Entry
from omkl.datasets import Stream
from omkl.experiment import metrics
from omkl.online import settings as online_settings
from omkl.online.learner import probabilities_of
from omkl.online.settings import Specification
from omkl.online.stream_learner import StreamLearner
from omkl.utils.threads import one_thread_each

SIZE = 1000  # rows at a time; their number changes no bit


def specification(
    entry: Entry, stream: Stream, n_rows: int, further: Mapping[str, Any] | None = None
) -> Specification:
    """What an entry makes of a stream; ``further`` parameters count more than its own."""
    task = "classification" if stream.classes else "regression"
    name = algorithm_of(entry, task)
    of_algorithm = algorithms.load(name).task
    made = online_settings.read(
        name,
        inputs=stream.n_inputs,
        kernels=entry.kernels,
        task=of_algorithm,
        classes=range(2) if of_algorithm == "classification" else None,
        params={**entry.params, **(further or {})},
        D=entry.D,
        precision="float64",
        seed=0,
        scaling="columns",
        lags=0,
        horizon=n_rows,
        interval=None,
        interval_rate=None,
    )
    return made.specification()


def algorithm_of(entry: Entry, task: str) -> str:
    """The algorithm's name; ``auto`` is another one in a classification."""
    return "auto_classifier" if (entry.what, task) == ("auto", "classification") else entry.what


def draws_nothing(entry: Entry, task: str) -> bool:
    """Whether one seed says all."""
    return entry.kind == TRIVIAL or algorithms.load(algorithm_of(entry, task)).deterministic


def pass_over(
    made: Specification, stream: Stream, seed: int, most: int | None = None
) -> Predictions:
    """One pass over the stream, or its first ``most`` rows. Raises Diverged."""
    learner = StreamLearner(
        made,
        stream.n_inputs,
        seed,
        scaling=stream.scaling,
        classes=stream.classes,
        lags=stream.n_lags,
    )
    return _predicted(learner, stream, most)


def trivial(entry: Entry, stream: Stream) -> Predictions:
    """The forecaster of an entry in a classification, one class against the rest."""
    what = TRIVIALS["classification"][entry.name]
    learner = metrics.forecaster(what, stream.n_inputs, classes=stream.classes)
    return _predicted(learner, stream, None)


def _predicted(learner: StreamLearner, stream: Stream, most: int | None) -> Predictions:
    K, found, seconds = len(stream.classes), [], 0.0
    with one_thread_each(), np.errstate(over="ignore", invalid="ignore"):
        for X, y in _blocks(stream, most):
            clock = time.thread_time()
            found.append(learner.partial_fit(X, y))
            seconds += time.thread_time() - clock
    f = np.concatenate([block.y_hat for block in found])
    _require_finite(f)
    if not K:
        spread = np.concatenate([block.spread for block in found])
        return Predictions(f, spread, None, seconds, _bytes(learner))
    codes = f.argmax(axis=1).astype(float) if K > 2 else (f > 0.0).astype(float)
    if K == 2:
        codes[f == 0.0] = np.nan  # says neither
    p = probabilities_of(f) if learner.algorithm.probabilities else None
    return Predictions(codes, np.full(len(f), np.nan), p, seconds, _bytes(learner))


def _require_finite(y_hat: np.ndarray) -> None:
    """Raise Diverged for predictions (n,) or (n, K) that are not."""
    finite = np.isfinite(y_hat).reshape(len(y_hat), -1).all(axis=1)
    if not finite.all():
        raise Diverged(f"its prediction of row {finite.argmin() + 1} is not finite")


def codes(stream: Stream, y: np.ndarray) -> np.ndarray:
    """Labels (n,) as places among the classes."""
    return (y > 0.0).astype(float) if len(stream.classes) == 2 else y


def _blocks(stream: Stream, most: int | None) -> Any:
    n = 0
    for X, y in stream.blocks(SIZE):
        if most is not None and n + len(y) >= most:
            yield X[: most - n], y[: most - n]
            return
        n += len(y)
        yield X, y


def _bytes(learner: StreamLearner) -> int:
    """Of what it has learned, without its scaling."""
    arrays = learner.arrays().items()
    return sum(array.nbytes for name, array in arrays if name.startswith("learner."))


def warm_up(made: Specification, stream: Stream) -> None:
    """Compile, or load what was compiled, before any clock starts."""
    pass_over(made, stream, 0, most=2)


def overrides(
    entry: Entry, chosen: Mapping[str, Any], opened: Sequence[str], seed: int
) -> list[str]:
    """What ``omkl-run`` is typed to see the same numbers."""
    typed = {**entry.params, **chosen}
    kernels = [f"kernels={entry.kernels}", f"D={entry.D}"] if entry.kind == OURS else []
    return [
        f"algorithm={entry.what}",
        *(f"algorithm.{name}={value}" for name, value in typed.items()),
        *opened,
        *kernels,
        "seeds=1",
        f"seed={seed}",
    ]
