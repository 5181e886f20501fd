"""What predictions score, row by row and in all, the same for our learners and others.

A round before ``n_unscored`` counts for nobody, and so does a first round of which a peer says
nothing. Errors of a regression are in units of the target.

    mse, mae, rmse       of a regression, over the rounds that count
    error_rate           of a classification; to say nothing is a mistake
    log_loss             -log of the density or the probability (at least 1e-6) of the label
    interval_score_90, coverage_90   of the central interval of 90 % that a spread gives
    sliding, fading      mse or error_rate of the last ``window`` rounds; with weights fading^age
    as_run               rmse or error rate over all rounds (but the first in a regression): what
                         ``omkl-run`` prints
    us_a_row             microseconds of processor time a row, on one thread
    bytes                of what was learned, as it is kept in a file
    dynamic_regret       loss above that of what would have been best to say, a round
    recovery             rounds after a change until the sliding loss is back, see ``recovery``
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.signal import lfilter

from omkl.experiment import metrics

LEAST = 1e-6  # a probability in the log loss
POINTS = 300  # of a curve
BACK, BEFORE = 1.5, 4  # times the loss before a change, when it is over; windows it is taken from
MAIN = {"regression": "mse", "classification": "error_rate"}  # what learners are ranked by
MEASURED = ("us_a_row", "bytes")  # that another machine or library has otherwise

Array = np.ndarray


class Predictions(NamedTuple):
    """What was said of n rows before their labels, and what it took.

    y_hat          (n,) numbers, or codes of classes; NaN where nothing was said
    spread         (n,) standard deviations, NaN where there is none
    probabilities  (n, K) of the classes, or None
    seconds        of processor time on one thread, in predicting and learning all rows
    bytes          of what was learned, as it is kept in a file
    """

    y_hat: Array
    spread: Array
    probabilities: Array | None
    seconds: float
    bytes: int


class Diverged(ArithmeticError):
    """Predictions are no longer finite; the text says from which row on."""


class Rules(NamedTuple):
    """How rounds are counted: the first that do not, rows of a window, factor of fading."""

    n_unscored: int
    window: int
    fading: float


class Scored(NamedTuple):
    """Scores by name, and curves (P,) by name: t, running, sliding, fading."""

    scores: dict[str, float]
    curves: dict[str, Array]


def scored(
    y: Array,
    predictions: Predictions,
    rules: Rules,
    truth: Array | None = None,
    change_rounds: Sequence[int] = (),
    classes: bool = False,
) -> Scored:
    """Score predictions of labels y (n,), codes of classes or numbers.

    ``truth`` (n,) is what would have been best to say.
    """
    y_hat = np.asarray(predictions.y_hat)
    counts = np.arange(len(y)) >= rules.n_unscored
    counts[0] &= not np.isnan(y_hat[0])
    losses = _losses(y, y_hat, classes)
    scores = (
        _of_classes(losses, y, predictions, counts)
        if classes
        else _of_numbers(losses, y, predictions, counts)
    )
    if truth is not None:
        above = losses - _losses(y, truth, classes)
        scores["dynamic_regret"] = float(above[counts].mean())
        if change_rounds:
            scores["recovery"] = recovery(losses, change_rounds, rules.window)
    scores |= {"us_a_row": 1e6 * predictions.seconds / len(y), "bytes": float(predictions.bytes)}
    curves = _curves(losses, np.flatnonzero(counts), rules)
    scores |= {name: float(curves[name][-1]) for name in ("sliding", "fading")}
    return Scored(scores, curves)


def _losses(y: Array, y_hat: Array, classes: bool) -> Array:
    return (y_hat != y).astype(float) if classes else np.square(y_hat - y)


def _of_classes(
    losses: Array, y: Array, predictions: Predictions, counts: Array
) -> dict[str, float]:
    scores = {"error_rate": float(losses[counts].mean()), "as_run": float(losses.mean())}
    if predictions.probabilities is not None:
        p = predictions.probabilities[np.arange(len(y)), y.astype(int)]
        scores["log_loss"] = float(-np.log(np.clip(p[counts], LEAST, 1.0)).mean())
    return scores


def _of_numbers(
    losses: Array, y: Array, predictions: Predictions, counts: Array
) -> dict[str, float]:
    mse = float(losses[counts].mean())
    mae = float(np.abs(predictions.y_hat - y)[counts].mean())
    scores = {"mse": mse, "rmse": float(np.sqrt(mse)), "mae": mae}
    # One by one, as a run sums up.
    scores["as_run"] = float(np.sqrt(np.cumsum(losses[1:])[-1] / (len(losses) - 1)))
    has_spread = counts & (predictions.spread > 0.0)
    if has_spread.any():
        of_spread = metrics.spread_scores(losses[has_spread], predictions.spread[has_spread])
        names = ("log_loss", "interval_score_90", "coverage_90")
        scores |= {name: float(of_spread[name].mean()) for name in names}
    return scores


def _curves(losses: Array, rounds: Array, rules: Rules) -> dict[str, Array]:
    """Means over rounds 1..t, the last ones, and with fading weights, at some rounds."""
    counted = losses[rounds]
    n = np.arange(1, len(counted) + 1)
    sums = np.concatenate([[0.0], np.cumsum(counted)])
    first = np.maximum(n - rules.window, 0)
    fade = [1.0, -rules.fading]
    at = np.unique(np.linspace(0, len(counted) - 1, min(POINTS, len(counted))).round().astype(int))
    curves = {
        "t": rounds + 1.0,
        "running": sums[1:] / n,
        "sliding": (sums[n] - sums[first]) / (n - first),
        "fading": lfilter([1.0], fade, counted) / lfilter([1.0], fade, np.ones(len(counted))),
    }
    return {name: values[at] for name, values in curves.items()}


def recovery(losses: Array, change_rounds: Sequence[int], window: int) -> float:
    """Rounds until a change is over, the mean over all changes.

    It is over when the mean loss of the last ``window`` rounds, all of them after the change, is
    at most 1.5 times that of the 4 ``window`` rounds before it; where that never is before the
    next change, or the end, it took all rounds until then.
    """
    ends = [*(c - 1 for c in change_rounds[1:]), len(losses)]
    rounds = []
    for change, end in zip(change_rounds, ends, strict=True):
        before = losses[max(change - 1 - BEFORE * window, 0) : change - 1].mean()
        after = losses[change - 1 : end]
        n = min(window, len(after))
        sums = np.concatenate([[0.0], np.cumsum(after)])
        sliding = (sums[n:] - sums[:-n]) / n
        over = np.flatnonzero(sliding <= BACK * before)
        rounds.append(n + int(over[0]) if len(over) else len(after))
    return float(np.mean(rounds))
