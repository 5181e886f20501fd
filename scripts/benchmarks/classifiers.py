"""A round of every classifier on one thread, and the work that it cannot do without.

For an exact classifier of N kernels with S_i support vectors each and S rows in all of them,
a round takes sum of S_i exponentials and multiply-adds and S d multiply-adds for each kind of
distance: the work of an exact-kernel regressor, with the supports in place of all rows. The
supports grow, so they are averaged over the rounds. On random features it is the work of a
regressor; on a budget that of an exact one whose classifiers share no distances.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import setting
from benchmarks.learners import (
    ROUNDS,
    Row,
    _row,
    matrices,
    random_features,
    recursive,
    whole_streams,
)
from benchmarks.setting import Case, Rows

CLASSIFIED_ROUNDS, BLOCK = 4000, 100


def labelled(rows: Rows) -> Rows:
    """The same rows shuffled, told whether the target is above its median; one in five wrongly.

    In the order of a file that is sorted by it there would be next to nothing to learn.
    """
    rng = np.random.default_rng(0)
    order = rng.permutation(len(rows.y))
    y = np.where(rows.y > np.median(rows.y), 1.0, -1.0)[order]
    y[rng.random(len(y)) < 0.2] *= -1.0
    return rows._replace(X=np.ascontiguousarray(rows.X[order]), y=y)


def classification(name: str, rows: Rows, seconds: float) -> list[Row]:
    """The rows of one classifier, in the form of ``benchmarks.learners``."""
    rows = labelled(rows)
    case = setting.case(name, setting.kernels(), rows.X.shape[1], setting.D, 100 * ROUNDS)
    if case.algorithm.representation.draws_features:
        return [random_features(case, rows, seconds)[0]]
    learner = case.learner()
    if matrices(learner.state.model):
        return [recursive(case, learner, rows, seconds)]
    X, y = rows.X[:CLASSIFIED_ROUNDS], rows.y[:CLASSIFIED_ROUNDS]
    took = whole_streams(case, X, y, seconds)
    return [_row(case, took, len(y), _work(case, X, y))]


def _work(case: Case, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Kernel values a row of the support, and rows, means over the rounds."""
    learner, vectors, rows = case.learner(), [], []
    kept = learner.representation
    for start in range(0, len(y), BLOCK):
        vectors.append(float(kept.support_size(learner.state.model).sum()))
        rows.append(float(kept.kept_rows(learner.state.model)))
        learner.partial_fit(X[start : start + BLOCK], y[start : start + BLOCK])
    support = max(1.0, float(np.mean(rows)))
    return {
        "evaluated": float(np.mean(vectors)) / support,
        # On a budget every kernel has rows of its own, and takes distances of its own kind.
        "kinds": len({kernel.family for kernel in case.dictionary}) if kept.lookahead else 1,
        "support": support,
        "d": case.d,
    }
