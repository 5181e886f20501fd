"""What a learner or a peer says of a stream."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Said(NamedTuple):
    """What was said of n rows before their labels, and what it took.

    y_hat          (n,) numbers, or codes of classes; NaN where nothing was said
    spread         (n,) standard deviations, NaN where there is none
    probabilities  (n, K) of the classes, or None
    seconds        of processor time on one thread, in predicting and learning all rows
    bytes          of what was learned, as it is kept in a file
    """

    y_hat: np.ndarray
    spread: np.ndarray
    probabilities: np.ndarray | None
    seconds: float
    bytes: int


class Diverged(ArithmeticError):
    """Predictions are no longer finite; the text says from which row on."""


def require_finite(y_hat: np.ndarray) -> None:
    bad = np.flatnonzero(np.isinf(y_hat).any(axis=1) if y_hat.ndim > 1 else np.isinf(y_hat))
    if len(bad):
        raise Diverged(f"its prediction of row {bad[0] + 1} is not finite")
