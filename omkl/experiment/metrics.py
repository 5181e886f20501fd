"""Compute the metrics of a run: errors, mistakes, intervals, and weights over time.

``Baselines`` are the algorithms ``mean``, ``last`` and ``ridge``, which have no kernel. They learn
the same rows as the learner. They learn every target of the data, even if the learner requests only
some targets. Such a learner is therefore compared with forecasters that know all targets.

Shapes: R seeds, n rows of a block, P recorded rounds, K classes, clients or series, N kernels.
"""

from __future__ import annotations

import collections
import itertools
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from omkl.core.conformal import IntervalSettings
from omkl.datasets import Stream
from omkl.online.intervals import rates_of
from omkl.online.learner import OnlineLearner
from omkl.online.panel import Panel
from omkl.online.predictions import Predictions
from omkl.online.settings import LearnerSettings, input_names, parts_of
from omkl.utils import conf

FIRST = 1024  # number of rounds at the beginning that are all recorded
LIMIT = 16384  # approximate largest number of recorded rounds
STRETCH = 120  # number of rows in the figure of predictions


class Recorder:
    """Record running sums of R seeds, such as squared errors, in constant memory.

    The sums of the first 1,024 rounds are all recorded. Later every k-th round is recorded, and k
    doubles whenever more than 16,384 rounds are in memory. The recorded rounds depend on the number
    of rounds, not on the blocks. The last round is always recorded.
    """

    def __init__(self, n_seeds: int) -> None:
        self.n_rounds = 0
        self.total = np.zeros(n_seeds)
        self._stride = 1
        self._rounds: list[np.ndarray] = []
        self._sums: list[np.ndarray] = []
        self._held = 0

    def add(self, squared_errors: np.ndarray) -> None:
        """Add the values (R, n) of a block of n rounds to the sums."""
        n = squared_errors.shape[1]
        # The order of additions must not depend on the blocks, so that results are equal.
        sums = np.cumsum(np.concatenate([self.total[:, None], squared_errors], axis=1), axis=1)
        sums = sums[:, 1:]
        rounds = np.arange(self.n_rounds + 1, self.n_rounds + n + 1)
        self.n_rounds += n
        if n:
            self.total = sums[:, -1].copy()
        keep = (rounds <= FIRST) | (rounds % self._stride == 0)
        n_kept = int(keep.sum())
        if n_kept or not self._rounds:
            self._rounds.append(rounds[keep])
            self._sums.append(sums[:, keep])
        self._held += n_kept
        while self._held > LIMIT:
            self._stride *= 2
            rounds, sums = np.concatenate(self._rounds), np.concatenate(self._sums, axis=1)
            keep = (rounds <= FIRST) | (rounds % self._stride == 0)
            self._rounds, self._sums = [rounds[keep]], [sums[:, keep]]
            self._held = int(keep.sum())

    def curve(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the recorded rounds (P,), counted from 1, and the sums (R, P) up to them."""
        rounds, sums = np.concatenate(self._rounds), np.concatenate(self._sums, axis=1)
        if self.n_rounds and rounds[-1] != self.n_rounds:
            rounds = np.append(rounds, self.n_rounds)
            sums = np.concatenate([sums, self.total[:, None]], axis=1)
        return rounds, sums


class ClientErrors:
    """Sum the squared errors of R forecasters for K clients, whose streams may differ in length.

    rounds   ``Recorder`` of the mean squared error of a round, over all K clients. The error of a
             client is 0 after its last row
    total    (R, K) sums of each client
    """

    def __init__(self, n_forecasters: int, lengths: np.ndarray) -> None:
        self.lengths, self.together = lengths, bool(np.all(lengths == lengths.max()))
        self.rounds = Recorder(n_forecasters)
        self.total = np.zeros((n_forecasters, len(lengths)))

    def add(self, squared: np.ndarray) -> None:
        """Add the squared errors (R, n, K) of n rounds. They are 0 after a client's last row."""
        self.rounds.add(squared.mean(axis=2))
        self.total += squared.sum(axis=1)

    @property
    def mse(self) -> np.ndarray:
        """Mean over the clients of each client's mean squared error (R,)."""
        if self.together:
            return self.rounds.total / self.rounds.n_rounds
        return (self.total / self.lengths).mean(axis=1)

    def served(self) -> np.ndarray:
        """Return the number of rounds (P,) of all clients together up to each recorded round."""
        return np.minimum(self.rounds.curve()[0][:, None], self.lengths).sum(axis=1)

    def curve(self) -> np.ndarray:
        """Return the running mean squared error (R, P) at each recorded round.

        The mean at round t is over the rounds 1 .. t of all clients.
        """
        return len(self.lengths) * self.rounds.curve()[1] / self.served()


FEWEST_SCORED = 10  # least number of scored rows of a ranked series, if any series has so many
MOST_RANKED = 5  # number of best series, and of worst series, in the result


class SeriesErrors:
    """Sum the squared errors of F forecasters for each series of a panel.

    places   index of each series by name. Series are numbered in the order of their first rows
    n        (K,) number of scored rows of each series
    total    (F, K) sums of squared errors over the scored rows
    """

    def __init__(self, n_forecasters: int) -> None:
        self.places: dict[int | str, int] = {}
        self.n, self.total = np.zeros(0), np.zeros((n_forecasters, 0))

    def add(self, series: np.ndarray, squared: np.ndarray, scored: np.ndarray) -> None:
        """Add a block of rows.

        Parameters
        ----------
        series
            Series (n,).
        squared
            Squared errors (F, n).
        scored
            Mask (n,) of the rows that are scored.
        """
        places = self.places
        at = [places.setdefault(name, len(places)) for name in series.tolist()]
        new = len(places) - len(self.n)
        self.n = np.pad(self.n, (0, new))
        self.total = np.pad(self.total, ((0, 0), (0, new)))
        np.add.at(self.n, at, scored)
        for total, terms in zip(self.total, np.where(scored, squared, 0.0), strict=True):
            np.add.at(total, at, terms)

    @property
    def rmse(self) -> np.ndarray:
        """Root mean squared error (F, K); NaN for a series without a scored row."""
        n = np.where(self.n > 0.0, self.n, np.nan)
        return np.sqrt(self.total / n)

    def result(self, column: str, baselines: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Return the entry ``series`` of result.json, in which series are ranked by their RMSE.

        Only series with at least ``FEWEST_SCORED`` scored rows are ranked. If no series has so
        many, those with the most scored rows are ranked.

        Parameters
        ----------
        column
            Name of the column of series.
        baselines
            RMSE (K,) of each series, by the name of the baseline.
        """
        rmse, names = self.rmse.mean(axis=0), list(self.places)
        ranked = np.flatnonzero(self.n >= min(FEWEST_SCORED, self.n.max(initial=0.0)))
        ranked = ranked[np.argsort(rmse[ranked], kind="stable")]

        def entry(k: int) -> dict[str, Any]:
            others = {n: float(v[k]) for n, v in baselines.items() if np.isfinite(v[k])}
            return {"series": names[k], "rows": int(self.n[k]), "rmse": float(rmse[k]), **others}

        return {
            "column": column,
            "n": len(names),
            "ranked": len(ranked),
            "better_than": {
                name: int(np.sum(rmse[ranked] < values[ranked]))
                for name, values in baselines.items()
            },
            "best": [entry(k) for k in ranked[:MOST_RANKED]],
            "worst": [entry(k) for k in ranked[::-1][:MOST_RANKED]],
        }


def but_the_first(n_unscored: int, of_each_series: bool = False) -> str:
    """Return text such as " but the first 8", which ``mse_over`` of result.json contains.

    ``n_unscored`` is the number of unscored rounds at the beginning, of the stream or of each
    series.
    """
    if not n_unscored:
        return ""
    first = " but the first" + (f" {n_unscored}" if n_unscored > 1 else "")
    return first + " of each series" * of_each_series


class LastRows:
    """Store the last ``STRETCH`` rows of one seed, for the figure of predictions."""

    def __init__(self) -> None:
        self._rows: dict[str, np.ndarray] = {}

    def add(self, first: int, **block: np.ndarray) -> None:
        """Add n rounds, given as arrays (n,) by name. ``first`` is the number of the first one."""
        rows = {"t": np.arange(first, first + len(block["y"])), **block}
        self._rows = {
            name: np.concatenate([self._rows.get(name, values[:0]), values])[-STRETCH:]
            for name, values in rows.items()
        }

    def curves(self) -> dict[str, np.ndarray]:
        """Return the rows as entries of curves.npz: recent_t, recent_y, ..."""
        return {f"recent_{name}": values for name, values in self._rows.items()}


class Accuracy:
    """Compute RMSE, MAE and R2 of R forecasters, in the unit of the target.

    ``unit`` is the factor from the scale of the stream to the unit of the target. Errors are added
    row by row, so that results do not depend on the split into blocks.
    """

    def __init__(self, n_forecasters: int, unit: float) -> None:
        self.n_rounds = 0
        self.unit = unit
        self._first = 0.0
        # Sums of the R squared errors, of the R absolute errors, of y - y_1, and of (y - y_1)^2.
        self._sums = np.zeros(2 * n_forecasters + 2)

    def add(self, errors: np.ndarray, y: np.ndarray) -> None:
        """Add a block of errors (R, n) and targets (n,), in the scale of the stream."""
        if not len(y):
            return
        if not self.n_rounds:
            self._first = float(y[0])
        self.n_rounds += len(y)
        above = y - self._first
        terms = np.concatenate([np.square(errors), np.abs(errors), [above, np.square(above)]])
        self._sums = np.cumsum(np.column_stack([self._sums, terms]), axis=1)[:, -1]

    @property
    def rmse(self) -> np.ndarray:
        return self.unit * np.sqrt(np.split(self._sums[:-2], 2)[0] / self.n_rounds)

    @property
    def mae(self) -> np.ndarray:
        return self.unit * np.split(self._sums[:-2], 2)[1] / self.n_rounds

    @property
    def r2(self) -> np.ndarray:
        """1 - MSE / variance of the targets; NaN if all targets are equal."""
        n, (above, squares) = self.n_rounds, self._sums[-2:]
        variance = squares / n - (above / n) ** 2
        mse = np.split(self._sums[:-2], 2)[0] / n
        return 1.0 - np.divide(mse, variance, out=np.full_like(mse, np.nan), where=variance > 0.0)


def mean_and_deviation(values: np.ndarray) -> tuple[float, float | None]:
    """Return mean and sample standard deviation. The deviation of a single value is None."""
    values = np.asarray(values, dtype=float)
    return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else None


def largest_norm(X: np.ndarray) -> float:
    """Return the largest norm of the rows of X (n, d), even if its square overflows."""
    with np.errstate(over="ignore"):
        found = float(np.linalg.norm(X, axis=1).max(initial=0.0))
    if 0.0 < found < np.inf or not (scale := float(np.abs(X).max(initial=0.0))):
        return found
    return scale * float(np.linalg.norm(X / scale, axis=1).max())


def label_cost(n_queried: np.ndarray, n_rounds: int) -> dict[str, Any]:
    """Return the cost of requested targets as entries of result.json.

    The efficiency is the share of the rounds whose target was requested, equation (55) of Hong and
    Chae. It is 1 if every target was requested, and smaller values are cheaper.

    Parameters
    ----------
    n_queried
        Number (R,) of targets that each seed requested.
    n_rounds
        Number of rounds.
    """
    _, of_counts = mean_and_deviation(n_queried)  # exactly 0 if all are equal
    return {
        "labels": float(n_queried.mean()),
        "labels_per_seed": n_queried.tolist(),
        "al_efficiency": float((n_queried / n_rounds).mean()),
        "al_efficiency_std": None if of_counts is None else of_counts / n_rounds,
    }


def mistaken(y_hat: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return a mask (n,) of the wrong predictions.

    ``y_hat`` are scores (n,) for the targets -1 and +1, or (n, K) for the targets 0 .. K - 1.
    """
    if y_hat.ndim == 1:
        return y * y_hat <= 0.0
    return y_hat.argmax(axis=1) != y


# --- confusion matrix, and scores of probabilities ------------------------------------------------


MOST_CLASSES = 100  # limit for a confusion matrix
LEAST_PROBABILITY = 1e-15  # smallest probability of a true class in the log loss


class Confusion:
    """Count the confusion matrix of K classes.

    ``counts`` (K, K + 1) int64 has a row per true class and a column per predicted class. With two
    classes a score of 0 predicts neither class, and is counted in the last column.
    """

    def __init__(self, n_classes: int) -> None:
        self.counts = np.zeros((n_classes, n_classes + 1), dtype=np.int64)

    def add(self, y_hat: np.ndarray, y: np.ndarray) -> None:
        """Add a block of scores and targets, as for ``mistaken``."""
        K = len(self.counts)
        if y_hat.ndim == 1:
            true = (y > 0.0).astype(int)
            predicted = np.where(y_hat == 0.0, K, (y_hat > 0.0).astype(int))
        else:
            true, predicted = y.astype(int), y_hat.argmax(axis=1)
        np.add.at(self.counts, (true, predicted), 1)


class ProbabilityScores:
    """Compute log loss and Brier score of predicted probabilities.

    Scores are added row by row, so that results do not depend on the split into blocks.
    """

    def __init__(self) -> None:
        self.n_rounds = 0
        self._sums = np.zeros(2)

    def add(self, p: np.ndarray, true: np.ndarray) -> None:
        """Add probabilities p (n, K), and the indices ``true`` (n,) of the true classes."""
        n = len(p)
        self.n_rounds += n
        came = p[np.arange(n), true]
        squares = np.square(p).sum(axis=1) - 2.0 * came + 1.0
        terms = np.stack([-np.log(np.maximum(came, LEAST_PROBABILITY)), squares])
        self._sums = np.cumsum(np.column_stack([self._sums, terms]), axis=1)[:, -1]

    @property
    def log_loss(self) -> float:
        """Mean of the negative natural logarithm of the probability of the true class."""
        return float(self._sums[0] / self.n_rounds)

    @property
    def brier_score(self) -> float:
        """Mean over rounds of the sum over classes k of (p_k - [y = k])^2, from 0 to 2."""
        return float(self._sums[1] / self.n_rounds)


# --- Standard deviations and intervals ------------------------------------------------------------

# A prediction y_hat with a standard deviation s is scored as the normal distribution N(y_hat, s^2).
# Intervals of ``interval=`` are scored by their ends.

N_WINDOWS = 10
HALF_90 = 1.6448536269514722  # half width of the central 90 % interval of the normal distribution


def interval_score(y: np.ndarray, low: np.ndarray, high: np.ndarray, level: float) -> np.ndarray:
    """Return the interval score: the width, plus a penalty if the target is outside.

    The penalty is 2 / (1 - level) times the distance of the target from the interval. Smaller
    scores are better.

    Parameters
    ----------
    y
        Targets.
    low, high
        Ends of the intervals. The targets are broadcast to the shape of ``low``.
    level
        Share of targets that intervals should cover, in (0, 1).
    """
    outside = np.maximum(0.0, np.maximum(low - y, y - high))
    return high - low + outside * 2.0 / (1.0 - level)


def spread_scores(squared_errors: np.ndarray, spread: np.ndarray) -> dict[str, np.ndarray]:
    """Return scores (R, n) of predictions with standard deviations ``spread`` (R, n).

    log_loss           negative logarithm of the density of the target
    coverage_90        whether the central 90 % interval contains the target
    width_90           width of this interval
    interval_score_90  ``interval_score`` of this interval
    """
    error, half = np.sqrt(squared_errors), HALF_90 * spread
    return {
        "log_loss": 0.5 * np.square(error / spread) + np.log(np.sqrt(2.0 * np.pi) * spread),
        "coverage_90": (error <= half).astype(float),
        "width_90": 2.0 * half,
        "interval_score_90": interval_score(error, -half, half, 0.9),
    }


class MeanScores:
    """Compute the mean of each score: over the rounds with scores, then over the seeds."""

    def __init__(self, n_seeds: int) -> None:
        self.n_known = Recorder(n_seeds)
        self.sums: dict[str, Recorder] = {}

    def add(self, known: np.ndarray, found: Mapping[str, np.ndarray]) -> None:
        """Add scores (R, n) by name. ``known`` is a mask (R, n) of the rounds that have scores."""
        self.n_known.add(known.astype(float))
        for name, score in found.items():
            self.sums.setdefault(name, Recorder(len(score))).add(np.where(known, score, 0.0))

    def means(self) -> dict[str, Any]:
        """Return the mean of each score, or {} if a seed has no round with scores."""
        n = self.n_known.total
        if not (n > 0.0).all():
            return {}
        return {name: float((r.total / n).mean()) for name, r in self.sums.items()}


class Spreads(MeanScores):
    """Score the standard deviations of the predictions of R seeds."""

    def add_block(self, squared_errors: np.ndarray, spread: np.ndarray) -> None:
        """Add arrays (R, n) of n rounds. A round is skipped if its ``spread`` is NaN or 0."""
        known = spread > 0.0
        found = spread_scores(np.where(known, squared_errors, 0.0), np.where(known, spread, 1.0))
        self.add(known, found)


class ScoredIntervals(MeanScores):
    """Score the intervals around the predictions of R seeds."""

    def __init__(self, n_seeds: int, settings: IntervalSettings) -> None:
        super().__init__(n_seeds)
        self.level, self._rates = settings.level, list(rates_of(settings))

    def add_block(
        self, y: np.ndarray, low: np.ndarray, high: np.ndarray, scored: np.ndarray
    ) -> None:
        """Add a block of rounds.

        Parameters
        ----------
        y
            Targets (n,).
        low, high
            Ends of the intervals (R, n); NaN if unknown.
        scored
            Mask (n,) of the rounds that are scored.
        """
        known = scored & ~np.isnan(low)
        y, low, high = (np.where(known, array, 0.0) for array in (y, low, high))
        covered = ((low <= y) & (y <= high)).astype(float)
        score = interval_score(y, low, high, self.level)
        self.add(known, {"coverage": covered, "width": high - low, "interval_score": score})

    def result(self) -> dict[str, Any]:
        """Return the entry ``interval`` of result.json, or {} if a seed has no intervals."""
        means = self.means()
        known = {"rates": self._rates, "level": self.level, "windows": self._windows()}
        return known | means if means else {}

    def _windows(self) -> dict[str, list[Any]]:
        """Return the mean coverage and the last round of each of ``N_WINDOWS`` windows."""
        rounds, n = self.n_known.curve()
        ends = np.unique(np.searchsorted(rounds, np.linspace(0, rounds[-1], N_WINDOWS + 1)[1:]))
        n_known, total = (
            np.diff(sums[:, ends], prepend=0.0) for sums in (n, self.sums["coverage"].curve()[1])
        )
        share = np.divide(total, n_known, out=np.full(total.shape, np.nan), where=n_known > 0)
        means = [None if np.isnan(x) else float(x) for x in share.mean(axis=0)]
        return {"until": rounds[ends].tolist(), "coverage": means}


# --- Weights of kernels, and importance of inputs, over time --------------------------------------

MOST_WEIGHTS = 32  # largest number of recorded rounds, without the last round of the stream
FIRST_STRIDE = 16  # first recorded round


def stride(t: int) -> int:
    """Return the number of rounds between two records of the weights, at round t >= 1.

    The number is 16 up to round 512, 32 up to round 1024, and so on.
    """
    return FIRST_STRIDE << ((t - 1) // (FIRST_STRIDE * MOST_WEIGHTS)).bit_length()


class WeightHistory:
    """Record the weights (N,) of one learner over time, at ``MOST_WEIGHTS`` rounds or fewer.

    The importance of inputs is recorded too, if the learner measures it. The recorded rounds depend
    on the number of rounds, not on the blocks. ``Recorder`` records the same rounds and more.

    Parameters
    ----------
    expected
        Number of rounds of the stream; None if unknown. A block is cut at each recorded round. If
        the number is known, blocks are not cut at rounds whose record would be removed later.
    """

    def __init__(self, expected: int | None) -> None:
        self._expected = expected or 0
        self._kept: dict[int, tuple[np.ndarray, ...]] = {}

    def _due(self, t: int) -> bool:
        return t % stride(max(t, self._expected)) == 0

    def pieces(self, before: int, known: np.ndarray) -> list[slice]:
        """Cut a block of rows after each round whose weights are recorded.

        Parameters
        ----------
        before
            Number of rounds in earlier blocks.
        known
            Mask (n,) of the rows that are rounds.

        Returns
        -------
        list of slice
            Consecutive parts of the block.
        """
        rows = np.flatnonzero(known)
        first = (before // FIRST_STRIDE + 1) * FIRST_STRIDE
        due = filter(self._due, range(first, before + len(rows) + 1, FIRST_STRIDE))
        ends = [int(rows[t - before - 1]) + 1 for t in due]
        if ends[-1:] != [len(known)]:
            ends.append(len(known))
        return [slice(a, b) for a, b in zip([0, *ends], ends, strict=False)]

    def look(self, t: int, learner: Any) -> None:
        """Record the weights of the learner after round t, if round t is to be recorded."""
        if self.wants(t):
            self.keep(t, learner.kernel_weights, learner.input_importance)

    def wants(self, t: int) -> bool:
        return t > 0 and self._due(t)

    def keep(self, t: int, *arrays: np.ndarray) -> None:
        self._kept[t] = arrays
        if len(self._kept) > MOST_WEIGHTS:
            self._kept = {u: w for u, w in self._kept.items() if u % stride(t) == 0}

    def curve(self, T: int, *last: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the recorded rounds (G,), and the weights (G, N) after these rounds.

        If the importance is recorded, the importance (G, C) is returned too. The last of the G
        rounds is T. ``last`` has the weights (N,) after round T, and the importance (C,).
        """
        kept = {u: w for u, w in self._kept.items() if u % stride(T) == 0} | {T: last}
        arrays = map(np.stack, zip(*kept.values(), strict=True))
        return np.array(list(kept), dtype=np.int64), *arrays


def weight_curves(
    histories: Sequence[WeightHistory], T: int, *last: np.ndarray, inputs: Sequence[str] = ()
) -> dict[str, np.ndarray]:
    """Return means over R seeds of weights and importance over time, as entries of curves.npz.

    Importance is omitted if it is not measured or always NaN.

    Parameters
    ----------
    histories
        Recorded arrays of each seed.
    T
        Number of rounds.
    last
        Arrays after round T: weights (R, N) and, if it is measured, importance (R, C). The last of
        the C columns is the importance of the past targets.
    inputs
        Names of the inputs (C - 1).
    """
    of_seeds = zip(histories, *last, strict=True)
    rounds, *means = (
        np.mean(arrays, axis=0)
        for arrays in zip(*(history.curve(T, *ends) for history, *ends in of_seeds), strict=True)
    )
    found = {"weights_t": rounds.astype(np.int64), "weights_over_time": means[0]}
    if np.isfinite(means[-1]).any() and len(means) > 1:
        names = np.array([*inputs, "past targets"])
        found |= {"importance_over_time": means[1], "input_names": names}
    return found


# --- Baselines ------------------------------------------------------------------------------------

MOST_INPUTS = 1500  # for ridge, which takes d^2 time per round and stores d^2 numbers
FORECASTERS = ("mean", "last", "ridge")
# The sign of the mean of targets -1 and +1 is the most frequent class.
OF_CLASSES = {"constant": "mean", "last": "last", "ridge": "ridge"}


class Rounds(NamedTuple):
    """Rows of a block, and which of them are scored.

    X       (n, d) inputs
    y       (n,) targets; NaN if missing
    scored  (n,) mask of the rows that are scored
    series  (n,) series of a panel, or None
    ahead   as in ``Chunk``
    """

    X: np.ndarray
    y: np.ndarray
    scored: np.ndarray
    series: np.ndarray | None = None
    ahead: np.ndarray | None = None

    @property
    def known(self) -> np.ndarray:
        """Mask (n,) of the rows that have a target."""
        return ~np.isnan(self.y)


def learned(
    learner: OnlineLearner | Panel,
    X: np.ndarray,
    y: np.ndarray,
    series: np.ndarray | None = None,
    far: np.ndarray | None = None,
    ahead: np.ndarray | None = None,
    dates: np.ndarray | None = None,
) -> Predictions:
    """Predict and learn rows with the learner of a run, and return the predictions.

    Parameters
    ----------
    learner
        Learner, updated in place.
    X, y
        Rows (n, d) and targets (n,), NaN if missing.
    series
        Series (n,) of the rows of a panel; None otherwise.
    far, ahead
        As in ``Chunk``.
    dates
        Dates (n,). All rows of a date are predicted before any of them is learned. None: each row
        is learned before the next is predicted.
    """
    if isinstance(learner, Panel):
        return learner.partial_fit(X, y, series)
    if learner.settings.series is not None:
        dates = np.arange(len(y)) if dates is None else dates
        return learner.partial_fit(X, y, series, dates)
    return learner.learn_rows(X, y, far, ahead)


def forecaster_settings(
    name: str, d: int, scaling: str, lags: int = 0, classes: Sequence[Any] = ()
) -> LearnerSettings:
    """Return the settings of a baseline.

    Parameters
    ----------
    name
        "mean", "last" or "ridge".
    d
        Number of inputs.
    scaling, lags, classes
        As in ``LearnerSettings``.
    """
    params = {key: value for key, value in conf.entry("algorithm", name).items() if key != "name"}
    unused = {"name": "own", "parts": parts_of([1.0])}
    return LearnerSettings(
        algorithm=name, params=params, kernels=unused, D=1, seed=0, inputs=input_names(d),
        named=False, classes=tuple(classes), lags=lags,
        scaling="columns" if scaling == "columns" else "none",
    )  # fmt: skip


def _skipped(d: int) -> dict[str, dict[str, Any]]:
    """Return the baselines that are omitted for d inputs, as entries of result.json."""
    reason = f"{d:,} inputs are more than {MOST_INPUTS:,}"
    return {"ridge": {"skipped": reason}} if d > MOST_INPUTS else {}


class Baselines:
    """Learn and score the B baselines of a regression, in constant memory.

    Baselines read the same past targets as the learner, with the same delay. In a panel they have
    the same limit ``max_series``.

    squared   running sums of squared errors, in the scale of the stream
    accuracy  RMSE and MAE, in the unit of the target
    seasonal  errors of ``SeasonalValue``, which predicts the target one season ago
    of_series squared errors by series; None without series
    seconds   time that the baselines took
    """

    NAMES: Mapping[str, str] = dict(zip(FORECASTERS, FORECASTERS, strict=True))

    def __init__(self, stream: Stream, max_series: int | None = None) -> None:
        d = stream.n_inputs - stream.n_lags
        self.skipped = _skipped(stream.n_inputs)
        self.learners: dict[str, OnlineLearner | Panel] = {}
        for shown, name in self.NAMES.items():
            if shown in self.skipped:
                continue
            made = forecaster_settings(name, d, stream.scaling, stream.n_lags, stream.classes)
            if stream.has_series:
                self.learners[shown] = Panel(made, max_series=max_series)
            else:
                self.learners[shown] = OnlineLearner(made, delay=stream.target_delay)
        self.of_series = SeriesErrors(len(self.learners)) if stream.has_series else None
        self._delay = stream.target_delay
        self._waiting: dict[Any, collections.deque[tuple[np.ndarray, float]]] = {}
        self.squared = Recorder(len(self.learners))
        self.accuracy = Accuracy(len(self.learners), stream.target_unit)
        self.seasonal = SeasonalValue(stream.target_unit, self._delay)
        self.seconds = 0.0

    def add(self, rows: Rounds, seasons: Sequence[int] = ()) -> None:
        """Predict and learn a block of rows with all baselines, and add the errors of scored rows.

        Parameters
        ----------
        rows
            Rows of the block.
        seasons
            Lengths, in rows, of the seasons that the job's learner has found by now.
        """
        before = time.perf_counter()
        self.seasonal.add(rows, seasons)
        losses = self._losses(rows)
        self.squared.add(losses[:, rows.known])
        if self.of_series and rows.series is not None:
            self.of_series.add(rows.series, losses, rows.scored)
        self.seconds += time.perf_counter() - before

    def _losses(self, rounds: Rounds) -> np.ndarray:
        """Learn a block, and return the squared errors (B, n), 0 for rows that are not scored."""
        X, y, scored, series, ahead = rounds
        # Rows without a target count for the delay, and in a panel for the scaling of inputs.
        takes_all = self._delay or series is not None or rounds.known.all()
        rows = slice(None) if takes_all else rounds.known  # a mask copies the rows
        series, ahead = (None if a is None else a[rows] for a in (series, ahead))
        errors = np.zeros((len(self.learners), len(y)))
        block, at = (X[rows], y[rows], series), slice(None)
        if self._delay and series is not None:
            block, at = self._late(X, y, series)
        with np.errstate(over="ignore", invalid="ignore"):  # ``entries`` reports overflow
            for k, learner in enumerate(self.learners.values()):
                found = learned(learner, *block, None, ahead)
                errors[k, rows] = found.y_hat[at] - y[rows]
            self.accuracy.add(errors[:, scored], y[scored])
            return np.where(scored, np.square(errors), 0.0)

    def _late(self, X: np.ndarray, y: np.ndarray, series: np.ndarray) -> tuple[Any, Any]:
        """Return a sequence of rows for the baselines, in which targets are ``delay`` rows late.

        Each row of X occurs twice: without its target, to be predicted, and with its target, to be
        learned. The second occurrence is after the next ``delay`` rows of the same series, possibly
        in a later block. The first result is a tuple of the inputs, targets and series of the
        sequence. The second result is the index (n,) of the first occurrence of each row of X.
        """
        rows: list[tuple[np.ndarray, float, Any]] = []
        at = []
        for x, label, name in zip(X, y.tolist(), series.tolist(), strict=True):
            at.append(len(rows))
            rows.append((x, math.nan, name))
            waiting = self._waiting.setdefault(name, collections.deque())
            waiting.append((x, label))
            if len(waiting) > self._delay:
                rows.append((*waiting.popleft(), name))
        inputs, labels, names = zip(*rows, strict=True)
        return (np.array(inputs), np.array(labels), np.array(names, dtype=series.dtype)), at

    @property
    def mse(self) -> np.ndarray:
        """Mean squared errors (B,) in the scale of the stream."""
        return self.squared.total / max(self.accuracy.n_rounds, 1)

    def entries(self) -> dict[str, dict[str, Any]]:
        """Return the entry ``baselines`` of result.json.

        RMSE and MAE are in the unit of the target, and the MSE is in the scale of the stream.
        """
        columns = {"rmse": self.accuracy.rmse, "mae": self.accuracy.mae, "mse": self.mse}
        entries: dict[str, dict[str, Any]] = {}
        for k, name in enumerate(self.learners):
            entries[name] = {key: float(values[k]) for key, values in columns.items()}
            if not np.isfinite(list(entries[name].values())).all():
                entries[name] = {"skipped": "its predictions are not finite"}
        return entries | self.seasonal.entry() | self.skipped

    def curves(self, n_scored: np.ndarray, first: int) -> dict[str, np.ndarray]:
        """Return the running MSE (P - first,) of each baseline by its name in curves.npz.

        Parameters
        ----------
        n_scored
            Number (P - first,) of scored rounds up to each recorded round.
        first
            Number of recorded rounds to omit at the beginning.
        """
        sums = self.squared.curve()[1][:, first:]
        return {f"baseline_{name}": sums[k] / n_scored for k, name in enumerate(self.learners)}


class SeasonalValue:
    """Score a baseline that predicts the target of the same series one season ago.

    If this target is missing, the prediction is the last target of the series. At most
    ``MOST_WAITING`` rows are stored until a season is found, and are then scored.

    Parameters
    ----------
    unit
        Factor from the scale of the stream to the unit of the target.
    delay
        Number of rows by which targets are late. If it exceeds a season, the prediction is the
        target several seasons ago.
    """

    MOST_WAITING = 20_000

    def __init__(self, unit: float, delay: int) -> None:
        self.accuracy, self.season = Accuracy(1, unit), 0
        self._delay = delay
        self._waiting: list[Rounds] = []
        self._past: dict[Any, collections.deque[float]] = {}

    def add(self, rows: Rounds, seasons: Sequence[int]) -> None:
        """Add a block of rows. ``seasons`` are the lengths of the seasons found by now."""
        self._waiting.append(rows._replace(X=np.empty(0), ahead=None))
        if not self.season and seasons:
            self.season = seasons[0]
        if self.season:
            for block in self._waiting:
                self._score(block)
        if self.season or sum(len(block.y) for block in self._waiting) > self.MOST_WAITING:
            self._waiting = []

    def _score(self, rows: Rounds) -> None:
        lag = self.season * (self._delay // self.season + 1)
        names = np.zeros(len(rows.y)) if rows.series is None else rows.series
        found = np.empty(len(rows.y))
        for t, (name, y) in enumerate(zip(names.tolist(), rows.y.tolist(), strict=True)):
            past = self._past.setdefault(name, collections.deque(maxlen=lag))
            found[t] = past[0] if len(past) == lag else math.nan
            if math.isnan(found[t]):
                newest_first = itertools.islice(reversed(past), self._delay, None)
                found[t] = next((value for value in newest_first if not math.isnan(value)), 0.0)
            past.append(y)
        errors = (found - rows.y)[rows.scored]
        self.accuracy.add(errors[None, :], rows.y[rows.scored])

    def entry(self) -> dict[str, Any]:
        """Return the entry of this baseline in result.json, or {} if no season was found."""
        if not self.accuracy.n_rounds:
            return {}
        rmse, mae = float(self.accuracy.rmse[0]), float(self.accuracy.mae[0])
        mse = (rmse / self.accuracy.unit) ** 2
        return {"seasonal": {"rmse": rmse, "mae": mae, "mse": mse, "season": self.season}}


class ClassBaselines(Baselines):
    """Learn and score the baselines of a classification.

    Three or more classes are learned one by one, each against the others. ``squared`` sums mistakes
    in place of squared errors.
    """

    NAMES = OF_CLASSES

    def _losses(self, rounds: Rounds) -> np.ndarray:
        X, y, ahead = rounds.X, rounds.y, rounds.ahead
        found = [learned(one, X, y, ahead=ahead) for one in self.learners.values()]
        return np.stack([mistaken(one.y_hat, y) for one in found]).astype(np.float64)


class ClientBaselines(Baselines):
    """Learn and score the baselines of a federation: central forecasters that see all rows.

    In each round a forecaster learns one row of each client, in the order of the clients.
    ``of_clients`` are the errors by client.
    """

    def __init__(self, stream: Stream, lengths: np.ndarray) -> None:
        super().__init__(stream)
        self.of_clients = ClientErrors(len(self.learners), lengths)

    def add_rounds(self, X: np.ndarray, y: np.ndarray) -> None:
        """Add n rounds of K clients: X (n, K, d) and y (n, K), NaN after a client's last row."""
        before = time.perf_counter()
        present = ~np.isnan(y).ravel()
        squared = self._losses(Rounds(X.reshape(-1, X.shape[2]), y.ravel(), present))
        self.of_clients.add(squared.reshape(len(squared), *y.shape))
        self.seconds += time.perf_counter() - before

    @property
    def mse(self) -> np.ndarray:
        return self.of_clients.mse

    def curves_of_rounds(self) -> dict[str, np.ndarray]:
        """Return the running MSE (P,) of each baseline by its name in curves.npz."""
        found = self.of_clients.curve()
        return {f"baseline_{name}": found[k] for k, name in enumerate(self.learners)}
