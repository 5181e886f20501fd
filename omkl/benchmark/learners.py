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
from omkl.core import snapshot
from omkl.core.learner import Learner, one_against_rest
from omkl.datasets import Stream
from omkl.experiment import baselines
from omkl.experiment.regression import rows_before
from omkl.online import settings as online_settings
from omkl.online.learner import probabilities_said
from omkl.online.specification import Specification
from omkl.online.target_units import TargetUnits
from omkl.threads import one_thread_each

SIZE = 1000  # rows at a time; their number changes no bit


def specification(
    entry: Entry, stream: Stream, n_rows: int, further: Mapping[str, Any] | None = None
) -> Specification:
    """What an entry makes of a stream; ``further`` parameters count more than its own."""
    task = "classification" if stream.classes else "regression"
    made = online_settings.read(
        algorithm_of(entry, task),
        inputs=stream.n_inputs,
        kernels=entry.kernels,
        task=algorithms.load(algorithm_of(entry, task)).task,
        classes=range(2) if _is_classifier(entry, task) else None,
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


def _is_classifier(entry: Entry, task: str) -> bool:
    return algorithms.load(algorithm_of(entry, task)).task == "classification"


def draws_nothing(entry: Entry, task: str) -> bool:
    """Whether one seed says all."""
    return entry.kind == TRIVIAL or algorithms.load(algorithm_of(entry, task)).deterministic


def pass_over(
    made: Specification, stream: Stream, seed: int, most: int | None = None
) -> Predictions:
    """One pass over the stream, or its first ``most`` rows. Raises Diverged."""
    K = len(stream.classes)
    before = rows_before(made.algorithm, made.params, stream)
    learners = [
        made.learner(stream.n_inputs, seed, before=before) for _ in range(K if K > 2 else 1)
    ]
    if K:
        return _of_classes(learners, stream, made.algorithm.probabilities, most)
    unit = TargetUnits(learners[0], stream, made.algorithm)
    y_hat, spread, seconds = [], [], 0.0
    with one_thread_each(), np.errstate(over="ignore", invalid="ignore"):
        for X, y in _blocks(stream, most):
            clock = time.thread_time()
            said = unit.partial_fit(X, y)
            seconds += time.thread_time() - clock
            y_hat.append(said.y_hat)
            half = made.algorithm.has_interval  # of the benchmark's scores none is of that
            spread.append(np.full(len(y), np.nan) if half else said.spread)
    together = np.concatenate(y_hat)
    _require_finite(together)
    return Predictions(together, np.concatenate(spread), None, seconds, _bytes(learners))


def trivial(entry: Entry, stream: Stream) -> Predictions:
    """The forecaster of an entry in a classification, one class against the rest."""
    what, K = TRIVIALS["classification"][entry.name], len(stream.classes)
    learners = [baselines.forecaster(what, stream.n_inputs) for _ in range(K if K > 2 else 1)]
    return _of_classes(learners, stream, False, None)


def _of_classes(
    learners: Sequence[Learner], stream: Stream, probabilities: bool, most: int | None
) -> Predictions:
    K, blocks, seconds = len(stream.classes), [], 0.0
    with one_thread_each(), np.errstate(over="ignore", invalid="ignore"):
        for X, y in _blocks(stream, most):
            told = [one_against_rest(y, k, K) for k in range(len(learners))]
            clock = time.thread_time()
            said = [x.partial_fit(X, t).y_hat for x, t in zip(learners, told, strict=True)]
            seconds += time.thread_time() - clock
            blocks.append(np.stack(said, axis=1))
    f = np.concatenate(blocks)
    _require_finite(f)
    codes = f.argmax(axis=1).astype(float) if K > 2 else (f[:, 0] > 0.0).astype(float)
    if K == 2:
        codes[f[:, 0] == 0.0] = np.nan  # says neither
    nothing = np.full(len(f), np.nan)
    return Predictions(
        codes, nothing, probabilities_said(f) if probabilities else None, seconds, _bytes(learners)
    )


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


def _bytes(learners: Sequence[Learner]) -> int:
    return sum(a.nbytes for x in learners for a in snapshot.snapshot(x).values())


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
