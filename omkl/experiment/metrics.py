"""Metrics of a run: errors, mistakes, requested targets, intervals, and weights over time.

``Baselines`` learn the same rows as the learner: the algorithms ``mean``, ``last`` and ``ridge``,
which have no kernel. They learn every target of the data, also those that the learner does not
request. So a learner that requests few targets is compared with forecasters that have all.
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

FIRST = 1024  # rounds that are all recorded
LIMIT = 16384  # most recorded rounds, about
STRETCH = 120  # last rows with predictions in a figure


class Recorder:
    """Running sums of R seeds, such as squared errors, on a grid of rounds, in constant memory.

    The first 1,024 rounds are recorded one by one. Then every k-th round is recorded, and k doubles
    whenever more than 16,384 are in memory. The grid depends on the number of rounds, not on the
    blocks. The last round is always recorded.
    """

    def __init__(self, n_seeds: int) -> None:
        self.n_rounds = 0
        self.total = np.zeros(n_seeds)
        self._stride = 1
        self._rounds: list[np.ndarray] = []
        self._sums: list[np.ndarray] = []
        self._held = 0

    def add(self, squared_errors: np.ndarray) -> None:
        """Add a block of terms, (R, n)."""
        n = squared_errors.shape[1]
        # Summed one by one from the running total, so that the split into blocks changes no bit.
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
        """Return the recorded rounds (P,), 1-based, and the sums up to them (R, P)."""
        rounds, sums = np.concatenate(self._rounds), np.concatenate(self._sums, axis=1)
        if self.n_rounds and rounds[-1] != self.n_rounds:
            rounds = np.append(rounds, self.n_rounds)
            sums = np.concatenate([sums, self.total[:, None]], axis=1)
        return rounds, sums


class ClientErrors:
    """Squared errors of R forecasters for K clients, whose streams may differ in length.

    rounds   sums over the rounds of the mean over all clients, 0 after the end of a stream
    total    (R, K) sums of each client
    """

    def __init__(self, n_forecasters: int, lengths: np.ndarray) -> None:
        self.lengths, self.together = lengths, bool(np.all(lengths == lengths.max()))
        self.rounds = Recorder(n_forecasters)
        self.total = np.zeros((n_forecasters, len(lengths)))

    def add(self, squared: np.ndarray) -> None:
        """Add the next rounds, (R, n, K), with 0 after a client's last row."""
        self.rounds.add(squared.mean(axis=2))
        self.total += squared.sum(axis=1)

    @property
    def mse(self) -> np.ndarray:
        """Mean squared error (R,): the mean over clients of each client's mean over its rounds."""
        if self.together:
            return self.rounds.total / self.rounds.n_rounds
        return (self.total / self.lengths).mean(axis=1)

    def served(self) -> np.ndarray:
        """Return the number of finished rounds (P,), over all clients, at each recorded round."""
        return np.minimum(self.rounds.curve()[0][:, None], self.lengths).sum(axis=1)

    def curve(self) -> np.ndarray:
        """Return the running mean squared error (R, P) at each recorded round.

        The mean at round t is over the rounds 1 .. t of all clients.
        """
        return len(self.lengths) * self.rounds.curve()[1] / self.served()


FEWEST_SCORED = 10  # scored rows of a ranked series, if any series has so many
MOST_RANKED = 5  # number of best series, and of worst series


class SeriesErrors:
    """Squared errors of F forecasters, summed up for each series of a panel.

    places   index of each series, in the order of their first rows
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
            Mask (n,) of the rows that count.
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
        """Return the entry ``series`` of result.json.

        ``baselines`` are RMSE (K,) of the series by the name of a baseline. Only series with at
        least ``FEWEST_SCORED`` scored rows are ranked, or all series if none has so many.
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
    """Return, as text, which first rounds do not count, for ``mse_over`` of result.json."""
    if not n_unscored:
        return ""
    if of_each_series:
        return " but the first of each series"
    return " but the first" + (f" {n_unscored}" if n_unscored > 1 else "")


class LastRows:
    """The last ``STRETCH`` rows of one seed, for a figure of predictions."""

    def __init__(self) -> None:
        self._rows: dict[str, np.ndarray] = {}

    def add(self, first: int, **block: np.ndarray) -> None:
        """Add a block of rounds from ``first`` on: arrays (n,) by name, NaN if unknown."""
        rows = {"t": np.arange(first, first + len(block["y"])), **block}
        self._rows = {
            name: np.concatenate([self._rows.get(name, values[:0]), values])[-STRETCH:]
            for name, values in rows.items()
        }

    def curves(self) -> dict[str, np.ndarray]:
        """Return recent_t, recent_y, .., with the names of curves.npz."""
        return {f"recent_{name}": values for name, values in self._rows.items()}


class Accuracy:
    """Errors of R forecasters in units of the target, over the rounds with a known target.

    ``unit`` is the number of units of the target per unit of the stream's scale. Terms are added
    one by one, so that the sums do not depend on the split into blocks.
    """

    def __init__(self, n_forecasters: int, unit: float) -> None:
        self.n_rounds = 0
        self.unit = unit
        self._first = 0.0
        # Sums of each forecaster's squared and absolute errors; sums of y - y_1 and its square.
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
    """Return mean and sample standard deviation over seeds; the deviation of one value is None."""
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
    """Return the cost of the targets that R seeds requested, as entries of result.json.

    The efficiency is the requested share of the rounds, (55) of Hong and Chae: 1 for a learner that
    requests every target, and smaller is cheaper. Plots compare it with the MSE of all rounds,
    (54).
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
    """Confusion matrix.

    ``counts`` (K, K + 1) int64 has a row per class and a column per predicted class. With two
    classes a score of 0 predicts no class, and counts in the last column.
    """

    def __init__(self, n_classes: int) -> None:
        self.counts = np.zeros((n_classes, n_classes + 1), dtype=np.int64)

    def add(self, y_hat: np.ndarray, y: np.ndarray) -> None:
        """Add a block of predictions and targets, in the form of ``mistaken``."""
        K = len(self.counts)
        if y_hat.ndim == 1:
            true = (y > 0.0).astype(int)
            predicted = np.where(y_hat == 0.0, K, (y_hat > 0.0).astype(int))
        else:
            true, predicted = y.astype(int), y_hat.argmax(axis=1)
        np.add.at(self.counts, (true, predicted), 1)


class ProbabilityScores:
    """Log loss and Brier score of predicted probabilities.

    Terms are added one by one, so that the split into blocks changes no bit.
    """

    def __init__(self) -> None:
        self.n_rounds = 0
        self._sums = np.zeros(2)

    def add(self, p: np.ndarray, true: np.ndarray) -> None:
        """Add probabilities (n, K), and the codes (n,) 0..K-1 of the true classes."""
        n = len(p)
        self.n_rounds += n
        came = p[np.arange(n), true]
        squares = np.square(p).sum(axis=1) - 2.0 * came + 1.0
        terms = np.stack([-np.log(np.maximum(came, LEAST_PROBABILITY)), squares])
        self._sums = np.cumsum(np.column_stack([self._sums, terms]), axis=1)[:, -1]

    @property
    def log_loss(self) -> float:
        """Mean of -ln of the probability of the true class, in nats."""
        return float(self._sums[0] / self.n_rounds)

    @property
    def brier_score(self) -> float:
        """Mean of the sum over classes of (p_k - [y = k])^2, 0 to 2, as defined by Brier (1950)."""
        return float(self._sums[1] / self.n_rounds)


# --- standard deviations and intervals ------------------------------------------------------------

# A prediction y_hat with a standard deviation s is scored as the normal distribution N(y_hat, s^2).
# Intervals that were requested are scored as they are.

N_WINDOWS = 10
HALF_90 = 1.6448536269514722  # half width of the central 90 % interval of the normal distribution


def interval_score(y: np.ndarray, low: np.ndarray, high: np.ndarray, level: float) -> np.ndarray:
    """Return the width of intervals, plus a penalty for targets outside.

    The penalty is 2 / (1 - level) times the distance of a target from the interval.

    Parameters
    ----------
    y
        Targets.
    low, high
        Ends of the intervals, of a shape to which the targets broadcast.
    level
        Share of targets that intervals should cover, in (0, 1).
    """
    outside = np.maximum(0.0, np.maximum(low - y, y - high))
    return high - low + outside * 2.0 / (1.0 - level)


def spread_scores(squared_errors: np.ndarray, spread: np.ndarray) -> dict[str, np.ndarray]:
    """Return scores of predictions with a standard deviation; all arrays (R, n).

    log_loss           -log of the density of the target
    coverage_90        whether the central interval of 90 % contains the target
    width_90           width of that interval
    interval_score_90  see ``interval_score``
    """
    error, half = np.sqrt(squared_errors), HALF_90 * spread
    return {
        "log_loss": 0.5 * np.square(error / spread) + np.log(np.sqrt(2.0 * np.pi) * spread),
        "coverage_90": (error <= half).astype(float),
        "width_90": 2.0 * half,
        "interval_score_90": interval_score(error, -half, half, 0.9),
    }


class MeanScores:
    """Means of scores over the seeds and the rounds that have an interval."""

    def __init__(self, n_seeds: int) -> None:
        self.n_known = Recorder(n_seeds)
        self.sums: dict[str, Recorder] = {}

    def add(self, known: np.ndarray, found: Mapping[str, np.ndarray]) -> None:
        """Add a block of rounds: whether each has an interval, and its scores, (R, n) each."""
        self.n_known.add(known.astype(float))
        for name, score in found.items():
            self.sums.setdefault(name, Recorder(len(score))).add(np.where(known, score, 0.0))

    def means(self) -> dict[str, Any]:
        """Return the mean of each score over rounds and seeds; {} if a seed had no interval."""
        n = self.n_known.total
        if not (n > 0.0).all():
            return {}
        return {name: float((r.total / n).mean()) for name, r in self.sums.items()}


class Spreads(MeanScores):
    """Scores of predictions of R seeds with a standard deviation."""

    def add_block(self, squared_errors: np.ndarray, spread: np.ndarray) -> None:
        """Add a block of rounds, (R, n) each. A standard deviation of NaN or 0 has no score."""
        known = spread > 0.0
        found = spread_scores(np.where(known, squared_errors, 0.0), np.where(known, spread, 1.0))
        self.add(known, found)


class ScoredIntervals(MeanScores):
    """Scores of the intervals around the predictions of R seeds."""

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
            Mask (n,) of the rounds that count.
        """
        known = scored & ~np.isnan(low)
        y, low, high = (np.where(known, array, 0.0) for array in (y, low, high))
        covered = ((low <= y) & (y <= high)).astype(float)
        score = interval_score(y, low, high, self.level)
        self.add(known, {"coverage": covered, "width": high - low, "interval_score": score})

    def result(self) -> dict[str, Any]:
        """Return level, rates, mean scores and windows, or {} if a seed had no interval."""
        means = self.means()
        known = {"rates": self._rates, "level": self.level, "windows": self._windows()}
        return known | means if means else {}

    def _windows(self) -> dict[str, list[Any]]:
        """Return the mean coverage over the seeds per window, and the last round per window."""
        rounds, n = self.n_known.curve()
        ends = np.unique(np.searchsorted(rounds, np.linspace(0, rounds[-1], N_WINDOWS + 1)[1:]))
        n_known, total = (
            np.diff(sums[:, ends], prepend=0.0) for sums in (n, self.sums["coverage"].curve()[1])
        )
        share = np.divide(total, n_known, out=np.full(total.shape, np.nan), where=n_known > 0)
        means = [None if np.isnan(x) else float(x) for x in share.mean(axis=0)]
        return {"until": rounds[ends].tolist(), "coverage": means}


# --- weights of kernels, and importance of inputs, over time --------------------------------------

MOST_WEIGHTS = 32  # recorded rounds besides the last one, whatever the length of the stream
FIRST_STRIDE = 16  # rounds up to the first recorded one


def stride(t: int) -> int:
    """Return the rounds from one recorded weight to the next around round t >= 1.

    They are 16 up to round 512, then 32, and so on.
    """
    return FIRST_STRIDE << ((t - 1) // (FIRST_STRIDE * MOST_WEIGHTS)).bit_length()


class WeightHistory:
    """Weights (N,) of one learner after at most ``MOST_WEIGHTS`` rounds and after the last one.

    The importance of inputs is recorded too, if the learner measures it. The recorded rounds depend
    on the number of rounds, not on the blocks. All of them are also recorded by ``Recorder``.

    Parameters
    ----------
    expected
        Rounds of the stream, None if unknown. A block is cut at each recorded round, so a known
        length avoids cuts whose weights would be dropped later.
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
            Rounds in earlier blocks.
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
        """Record the weights of a seed's learner after round t, if round t is recorded."""
        if self.wants(t):
            self.keep(t, learner.kernel_weights, learner.input_importance)

    def wants(self, t: int) -> bool:
        return t > 0 and self._due(t)

    def keep(self, t: int, *arrays: np.ndarray) -> None:
        self._kept[t] = arrays
        if len(self._kept) > MOST_WEIGHTS:
            self._kept = {u: w for u, w in self._kept.items() if u % stride(t) == 0}

    def curve(self, T: int, *last: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the rounds (G,) and the arrays after them (G, ..), with ``last`` after round T."""
        kept = {u: w for u, w in self._kept.items() if u % stride(T) == 0} | {T: last}
        arrays = map(np.stack, zip(*kept.values(), strict=True))
        return np.array(list(kept), dtype=np.int64), *arrays


def weight_curves(
    histories: Sequence[WeightHistory], T: int, *last: np.ndarray, inputs: Sequence[str] = ()
) -> dict[str, np.ndarray]:
    """Return weights and importance over time, means over the seeds, as in curves.npz.

    Parameters
    ----------
    histories
        Recorded arrays of each seed.
    T
        Number of rounds.
    last
        Arrays after round T: weights (R, N), and importance (R, C) of inputs and past targets.
    inputs
        Names of the inputs. Importance is omitted if it is never known, or not measured (C = 0).
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


MOST_INPUTS = 1500  # limit for ridge, which takes d^2 time per round and stores d^2 numbers
FORECASTERS = ("mean", "last", "ridge")
# The sign of the mean of targets -1 and +1 is the most frequent class.
OF_CLASSES = {"constant": "mean", "last": "last", "ridge": "ridge"}


class Rounds(NamedTuple):
    """Rows of a block, and which of them are scored.

    X       (n, d) inputs
    y       (n,) targets; NaN for none
    scored  (n,) mask of the rows that count
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
        Rows (n, d) and targets (n,); NaN for no target.
    series
        Series (n,) of a panel; None otherwise.
    far, ahead
        As in ``Chunk``; None for a stream without them.
    dates
        Dates (n,). All rows of a date are predicted before one of them is learned. None: each row
        is learned before the next is predicted.
    """
    if isinstance(learner, Panel):
        return learner.partial_fit(X, y, series)
    if learner.settings.series is not None:
        dates = np.arange(len(y)) if dates is None else dates
        return learner.partial_fit(X, y, series, dates)
    return learner.learn_rows(X, y, far, ahead)


def forecaster_settings(
    name: str, d: int, scaling: str = "none", lags: int = 0, classes: Sequence[Any] = ()
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
    return LearnerSettings(
        algorithm=name,
        params=params,
        kernels={"name": "own", "parts": parts_of([1.0])},  # not used
        D=1,
        seed=0,
        inputs=input_names(d),
        named=False,
        classes=tuple(classes),
        scaling="columns" if scaling == "columns" else "none",
        lags=lags,
    )


def _skipped(d: int) -> dict[str, dict[str, Any]]:
    """Return the baselines that are omitted, with reasons, as in result.json."""
    reason = f"{d:,} inputs are more than {MOST_INPUTS:,}"
    return {"ridge": {"skipped": reason}} if d > MOST_INPUTS else {}


class Baselines:
    """Baselines of a regression over rounds with a known target, in constant memory.

    Baselines use the same past targets as the learner, with the same delay. In a panel they store
    as many series as the learner.

    squared   squared errors in the scale of the stream
    accuracy  errors in units of the target
    seconds   time spent in baselines, which does not count as the learner's
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
        self.squared = Recorder(len(self.learners))
        self.accuracy = Accuracy(len(self.learners), stream.target_unit)
        self.seasonal = SeasonalValue(stream.target_unit, self._delay)
        self.seconds = 0.0

    def add(self, rows: Rounds, seasons: Sequence[int] = ()) -> None:
        """Predict and learn a block of rows with all baselines, and add the errors of scored rows.

        Parameters
        ----------
        rows
            Rows of the block, and which of them are scored.
        seasons
            Lengths, in rows, of the seasons that the learner of the job knows after this block.
        """
        before = time.perf_counter()
        self.seasonal.add(rows, seasons)
        losses = self._losses(rows)
        self.squared.add(losses[:, rows.known])
        if self.of_series and rows.series is not None:
            self.of_series.add(rows.series, losses, rows.scored)
        self.seconds += time.perf_counter() - before

    def _losses(self, rounds: Rounds) -> np.ndarray:
        """Learn a block, and return the squared errors (B, n); 0 for rows that do not count."""
        X, y, scored, series, ahead = rounds
        # Rows without a target are also delayed, and in a panel inputs are scaled by them, too.
        takes_all = self._delay or series is not None or rounds.known.all()
        rows = slice(None) if takes_all else rounds.known  # a mask copies the rows
        series, ahead = (None if a is None else a[rows] for a in (series, ahead))
        errors = np.zeros((len(self.learners), len(y)))
        with np.errstate(over="ignore", invalid="ignore"):  # ``entries`` reports overflow
            for k, learner in enumerate(self.learners.values()):
                found = learned(learner, X[rows], y[rows], series, None, ahead)
                errors[k, rows] = found.y_hat - y[rows]
            self.accuracy.add(errors[:, scored], y[scored])
            return np.where(scored, np.square(errors), 0.0)

    @property
    def mse(self) -> np.ndarray:
        """Mean squared errors (B,) in the scale of the stream."""
        return self.squared.total / max(self.accuracy.n_rounds, 1)

    def entries(self) -> dict[str, dict[str, Any]]:
        """Return the entry ``baselines`` of result.json: errors in units of the target, and MSE."""
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
            Scored rounds (P - first,) up to each recorded round.
        first
            Number of first recorded rounds to omit.
        """
        sums = self.squared.curve()[1][:, first:]
        return {f"baseline_{name}": sums[k] / n_scored for k, name in enumerate(self.learners)}


class SeasonalValue:
    """Errors of a baseline that predicts the value of the same series one season ago.

    If that value is missing, it predicts the last value of the series. Rows are stored until a
    season is known, at most ``MOST_WAITING`` of them.

    Parameters
    ----------
    unit
        Units of the target per unit of y.
    delay
        Number of rows after which a target is known. The value is taken from the latest season
        whose target is known.
    """

    MOST_WAITING = 20_000

    def __init__(self, unit: float, delay: int) -> None:
        self.accuracy, self.season = Accuracy(1, unit), 0
        self._delay = delay
        self._waiting: list[Rounds] = []
        self._past: dict[Any, collections.deque[float]] = {}

    def add(self, rows: Rounds, seasons: Sequence[int]) -> None:
        """Add a block of rows. ``seasons`` are the lengths known after this block."""
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
        """Return the entry of this baseline in result.json, or {} without a season."""
        if not self.accuracy.n_rounds:
            return {}
        rmse, mae = float(self.accuracy.rmse[0]), float(self.accuracy.mae[0])
        mse = (rmse / self.accuracy.unit) ** 2
        return {"seasonal": {"rmse": rmse, "mae": mae, "mse": mse, "season": self.season}}


class ClassBaselines(Baselines):
    """Baselines of a classification, one class against the rest. ``squared`` are mistakes."""

    NAMES = OF_CLASSES

    def _losses(self, rounds: Rounds) -> np.ndarray:
        X, y, ahead = rounds.X, rounds.y, rounds.ahead
        found = [learned(one, X, y, ahead=ahead) for one in self.learners.values()]
        return np.stack([mistaken(one.y_hat, y) for one in found]).astype(np.float64)


class ClientBaselines(Baselines):
    """Baselines of a federation: central forecasters that learn the rows of all clients.

    In each round the forecasters learn one row of each client in turn. ``of_clients`` are the
    errors by client.
    """

    def __init__(self, stream: Stream, lengths: np.ndarray) -> None:
        super().__init__(stream)
        self.of_clients = ClientErrors(len(self.learners), lengths)

    def add_rounds(self, X: np.ndarray, y: np.ndarray) -> None:
        """Add the next rounds of K clients: X (n, K, d), y (n, K); NaN after their last rows."""
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
