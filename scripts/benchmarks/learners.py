"""Measure a round of every algorithm on one thread, and its least time.

A new algorithm of regression is measured without an entry here. An algorithm with another task
needs an entry in ``TASKS``; without one, its row states this.
"""

import itertools
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import limits, setting
from benchmarks.limits import Limits
from benchmarks.setting import Case, Rows
from benchmarks.timing import Spread, deciles, undisturbed, undisturbed_streams
from omkl import algorithms
from omkl.core.learner import Learner

ROUNDS, EXACT_ROUNDS = 1000, 4000
CLASSIFIED_ROUNDS, SUPPORT_BLOCK = 4000, 100
SHORT = 1e-3  # seconds of a call
Row = dict[str, Any]


def measure(rows: Rows, seconds: float) -> list[Row]:
    """Return a row for every algorithm: its time, and the work of a round."""
    found: list[Row] = []
    for name in algorithms.names():
        task = getattr(algorithms.load(name), "task", "regression")
        if task in TASKS:
            found += TASKS[task](name, rows, seconds)
        else:
            found.append({"algorithm": name, "missing": f"no measurement for the task {task}"})
    return found


def beside(rows: list[Row], limit: Limits) -> list[Row]:
    """Add to each row the least time of its work, and its measured time divided by the least."""
    found = []
    for row in rows:
        if "work" in row:
            least = limits.least(row["work"], limit)
            ratio = Spread(*(us / least["least_us"] for us in row["round_us"]))
            row = row | least | {"ratio": ratio}
        found.append(row)
    return found


def regression(name: str, rows: Rows, seconds: float) -> list[Row]:
    case = setting.case(name, setting.kernels(), rows.X.shape[1], setting.D, 100 * ROUNDS)
    learner = case.learner()
    if matrices(learner.state.model):
        return [recursive(case, learner, rows, seconds)]
    if not case.algorithm.representation.draws_features:
        return [exact(case, rows, seconds)]
    return [random_features(case, rows, seconds)]


def labelled(rows: Rows) -> Rows:
    """Return shuffled rows with the label y > median of y; a fifth of the labels is flipped.

    In a file that is sorted by the target, unshuffled rows would be too easy.
    """
    rng = np.random.default_rng(0)
    order = rng.permutation(len(rows.y))
    y = np.where(rows.y > np.median(rows.y), 1.0, -1.0)[order]
    y[rng.random(len(y)) < 0.2] *= -1.0
    return rows._replace(X=np.ascontiguousarray(rows.X[order]), y=y)


def classification(name: str, rows: Rows, seconds: float) -> list[Row]:
    """Return the rows of one classifier.

    The work of N exact kernels with S_i support vectors each, from S rows in all, is sum of S_i
    exponentials and multiply-adds per round, and S d multiply-adds for each kind of distance. This
    is the work of an exact regressor on its supports instead of all rows. The number of supports
    grows, so the work is a mean over the rounds. With random features, the work is that of a
    regressor.
    """
    rows = labelled(rows)
    case = setting.case(name, setting.kernels(), rows.X.shape[1], setting.D, 100 * ROUNDS)
    if case.algorithm.representation.draws_features:
        return [random_features(case, rows, seconds)]
    learner = case.learner()
    if matrices(learner.state.model):
        return [recursive(case, learner, rows, seconds)]
    X, y = rows.X[:CLASSIFIED_ROUNDS], rows.y[:CLASSIFIED_ROUNDS]
    took = whole_streams(case, X, y, seconds)
    return [_row(case, took, len(y), _support_work(case, X, y))]


def _support_work(case: Case, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Return the mean numbers of kernel values per supporting row, and of supporting rows."""
    learner, vectors, rows = case.learner(), [], []
    kept = learner.representation
    for start in range(0, len(y), SUPPORT_BLOCK):
        vectors.append(float(kept.support_size(learner.state.model).sum()))
        rows.append(float(kept.kept_rows(learner.state.model)))
        learner.partial_fit(X[start : start + SUPPORT_BLOCK], y[start : start + SUPPORT_BLOCK])
    support = max(1.0, float(np.mean(rows)))
    return {
        "evaluated": float(np.mean(vectors)) / support,
        # On a budget every kernel has rows of its own, and takes distances of its own kind.
        "kinds": len({kernel.family for kernel in case.dictionary}) if kept.lookahead else 1,
        "support": support,
        "d": case.d,
    }


TASKS: dict[str, Callable[[str, Rows, float], list[Row]]] = {
    "regression": regression,
    "classification": classification,
}


def random_features(case: Case, rows: Rows, seconds: float) -> Row:
    X, y = rows.X[:ROUNDS], rows.y[:ROUNDS]
    learner = case.learner()
    learner.partial_fit(X, y)  # past the rounds in which graphs are drawn
    before, t = learner.used.copy(), learner.t
    took, n = in_short_calls(learner, X, y, seconds)
    work = features_work(case, learner, before, t)
    return _row(case, took, n, work)


def in_short_calls(
    learner: Learner, X: np.ndarray, y: np.ndarray, seconds: float
) -> tuple[list[float], int]:
    """Return the times of calls that learn equally many rows, and this number of rows.

    A call takes SHORT seconds or a little more. Long calls are always disturbed by other processes.
    """
    n = rows_of_a_call(learner, X, y)
    starts = itertools.cycle(range(0, len(y) - n + 1, n))

    def learn() -> None:
        first = next(starts)
        learner.partial_fit(X[first : first + n], y[first : first + n])

    return undisturbed(learn, seconds), n


def rows_of_a_call(learner: Learner, X: np.ndarray, y: np.ndarray) -> int:
    """Return how many of these rows can be learned in SHORT seconds."""
    start = time.process_time()
    learner.partial_fit(X, y)
    return min(len(y), math.ceil(SHORT * len(y) / (time.process_time() - start)))


def whole_streams(case: Case, X: np.ndarray, y: np.ndarray, seconds: float) -> list[float]:
    """Return the times in which new learners learn all rows, in short calls."""
    case.learner().partial_fit(X, y)
    n = rows_of_a_call(case.learner(), X, y)

    def begin() -> Callable[[int], Any]:
        learner = case.learner()

        def take(part: int) -> None:
            rows = slice(part * n, (part + 1) * n)
            learner.partial_fit(X[rows], y[rows])

        return take

    return undisturbed_streams(begin, math.ceil(len(y) / n), seconds)


def features_work(case: Case, learner: Learner, before: np.ndarray, t: int) -> dict[str, Any]:
    """Return the work of a round with random features, after round t.

    ``before`` counts the rounds that used each kernel up to round t.
    """
    used = learner.used - before
    return {
        "evaluated": float(used.sum() / (learner.t - t)),
        "distinct": int(np.count_nonzero(used)),
        "N": len(used),
        "D": case.D,
        "d": case.d,
        "rows": int(getattr(learner.state.model, "alive", (1,))[0]),  # on intervals: levels
    }


def matrices(model: Any) -> list[tuple[int, int]]:
    """Return (frequencies, features) of every second-order learner in a model."""
    if {"n_waves", "n_raw"} <= set(model._fields):
        features = 2 * model.n_waves + np.where(model.n_raw > 0, model.n_raw + 1, 0)
        return list(zip(model.n_waves.tolist(), features.tolist(), strict=True))
    return [one for part in model if hasattr(part, "_fields") for one in matrices(part)]


def recursive(case: Case, learner: Learner, rows: Rows, seconds: float) -> Row:
    X, y = rows.X[:ROUNDS], rows.y[:ROUNDS]
    learner.partial_fit(X, y)
    took, n = in_short_calls(learner, X, y, seconds)
    sizes = matrices(learner.state.model)
    squares = [features**2 for _, features in sizes]
    work = {
        "evaluated": float(len(sizes)),
        "waves": sum(waves for waves, _ in sizes),
        "squares": sum(squares),
        "d": case.d,
    }
    return _row(case, took, n, work)


def exact(case: Case, rows: Rows, seconds: float) -> Row:
    """Measure an exact-kernel learner on whole streams, because its rounds grow."""
    X, y = rows.X[:EXACT_ROUNDS], rows.y[:EXACT_ROUNDS]
    learner = case.learner()
    learner.partial_fit(X, y)
    most = case.algorithm.representation.kept_rows(learner.state.model)
    if not most:
        return {"algorithm": case.algorithm.name, "missing": "no row is kept: no least is known"}
    took = whole_streams(case, X, y, seconds)
    used = case.algorithm.kernels(case.params, case.dictionary, case.d)
    work = {
        "evaluated": float(len(used)),
        "kinds": len({kernel.family for kernel in used}),
        "support": most * (1.0 - 0.5 * most / len(y)),  # rows in an average round
        "d": case.d,
    }
    if hasattr(learner.state.model, "project"):  # once all rows are stored
        matrices = [learner.state.model.project, getattr(learner.state, "inverse", np.zeros(0))]
        numbers = sum(np.count_nonzero(matrix) for matrix in matrices)
        work["projected"] = numbers * (1.0 - most / len(y))
    return _row(case, took, len(y), work)


def _row(case: Case, took: list[float], rounds: int, work: dict[str, Any]) -> Row:
    return {
        "algorithm": case.algorithm.name,
        "rounds": rounds,
        "round_us": Spread(*(1e6 * t / rounds for t in deciles(took))),
        "work": work,
    }
