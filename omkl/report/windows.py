"""The error of a run window by window, from the sums that its curves hold.

Shapes: R seeds, P recorded rounds, W windows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from omkl.runs.run_folder import Run, measure

N_WINDOWS = 60
LEAST_ROUNDS = 20  # of a window


class Windowed(NamedTuple):
    """The error of windows that follow each other: their ends (W + 1,) and means (R, W)."""

    edges: np.ndarray
    loss: np.ndarray


def windowed(run: Run, n_windows: int = N_WINDOWS) -> Windowed:
    """Mean squared error, or error rate, of the rounds of each window, in the unit of the run.

    Made of the sums that the curves hold, so that windows end at recorded rounds. A stream of few
    rounds has fewer windows, of ``LEAST_ROUNDS`` at least. Of labels that come from outside the
    rounds with a label count; a window without any is NaN.
    """
    curves, key = run.curves, measure(run.result).key
    t = curves["t"]
    if "served" in curves:  # clients of a federation with streams of their own lengths
        counted = np.broadcast_to(curves["served"], curves["mse_of_rounds"].shape)
        sums = curves["mse_of_rounds"] * counted
    else:
        counted = _counted(run)
        sums = curves[key] * counted
    n_windows = max(1, min(n_windows, int(t[-1]) // LEAST_ROUNDS))
    ends = np.searchsorted(t, np.linspace(0, t[-1], n_windows + 1)[1:])
    ends = np.unique(np.minimum(ends, len(t) - 1))
    number = np.diff(counted[:, ends], prepend=0.0)
    total = np.diff(sums[:, ends], prepend=0.0)
    loss = np.divide(total, number, out=np.full(total.shape, np.nan), where=number > 0)
    # Differences of large sums: where nothing was lost, rounding may leave less than nothing.
    return Windowed(np.concatenate([[0], t[ends]]), np.maximum(loss, 0.0))


def _counted(run: Run) -> np.ndarray:
    """How many rounds count in each recorded mean, (R, P)."""
    curves, result = run.curves, run.result
    shape = curves[measure(result).key].shape
    over = str(result.get("mse_over", "all rounds"))
    n = curves["labels"] if over.startswith("rounds with a label") else curves["t"]
    first = 1 if over.endswith("but the first") else 0
    return np.maximum(np.broadcast_to(n, shape) - first, 1).astype(float)
