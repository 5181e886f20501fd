"""A round of every algorithm on one thread, beside the least time that it could take.

An algorithm is found by being there. One whose task is not regression needs a line in
``TASKS``: how to measure it; until then its row says so.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import limits, setting
from benchmarks.limits import Limits
from benchmarks.setting import Case, Rows
from benchmarks.timing import Spread, spread, times
from omkl import algorithms
from omkl.engine import Learner

ROUNDS, EXACT_ROUNDS = 1000, 4000
Row = dict[str, Any]


def measure(rows: Rows, limit: Limits, seconds: float) -> list[Row]:
    """A row for every algorithm that there is."""
    found: list[Row] = []
    for name in algorithms.names():
        task = getattr(algorithms.load(name), "task", "regression")
        if task in TASKS:
            found += TASKS[task](name, rows, limit, seconds)
        else:
            found.append({"algorithm": name, "missing": f"no measurement for the task {task}"})
    return found


def regression(name: str, rows: Rows, limit: Limits, seconds: float) -> list[Row]:
    case = setting.case(name, setting.kernels(), rows.X.shape[1], setting.D, 100 * ROUNDS)
    if case.algorithm.exact:
        return [exact(case, rows, limit, seconds)]
    row, y_hat = random_features(case, rows, limit, seconds)
    found = [row]
    if "features" in inspect.signature(Learner).parameters:
        other, y_hat_32 = random_features(case, rows, limit, seconds, features="float32")
        other["algorithm"] += ", float32"
        other["error"] = float(np.abs(y_hat_32 - y_hat).max())
        found.append(other)
    return found


TASKS: dict[str, Callable[[str, Rows, Limits, float], list[Row]]] = {"regression": regression}


def random_features(
    case: Case, rows: Rows, limit: Limits, seconds: float, **options: Any
) -> tuple[Row, np.ndarray]:
    """The row, and the predictions of the first rounds."""
    X, y = rows.X[:ROUNDS], rows.y[:ROUNDS]
    learner = case.learner(**options)
    y_hat = learner.partial_fit(X, y).y_hat  # past the rounds in which graphs are drawn
    before, t = learner.used.copy(), learner.t
    took = times(lambda: learner.partial_fit(X, y), seconds)
    used = learner.used - before
    n = float(used.sum() / (learner.t - t))
    N = len(case.dictionary)
    least = limits.least_of_features(limit, n, np.count_nonzero(used), N, case.D, case.d)
    return _row(case, n, took, len(y), least), y_hat


def exact(case: Case, rows: Rows, limit: Limits, seconds: float) -> Row:
    """The whole stream each time: rounds grow."""
    X, y = rows.X[:EXACT_ROUNDS], rows.y[:EXACT_ROUNDS]
    took = times(lambda: case.learner().partial_fit(X, y), seconds, fewest=3)
    used = case.algorithm.kernels(case.params, case.dictionary)
    kinds = len({kernel.family for kernel in used})
    least = limits.least_of_support(limit, len(used), kinds, case.d, len(y))
    return _row(case, float(len(used)), took, len(y), least)


def _row(case: Case, n: float, took: list[float], rounds: int, least: dict[str, Any]) -> Row:
    round_us = Spread(*(1e6 * t / rounds for t in spread(took)))
    return {
        "algorithm": case.algorithm.name,
        "kernels_per_round": n,
        "rounds": rounds,
        "round_us": round_us,
        **least,
        "ratio": Spread(*(us / least["least_us"] for us in round_us)),
        "goal": limits.GOALS[least["kind"]],
    }
