"""Standardising as a stream goes: columns by what was seen, labels by those that are known.

Sums are taken one by one from the running total, of numbers above the first of their column, so
that no split into blocks changes a bit and a column far from 0 loses no digits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from omkl.core.linalg import take_row

CLIP = 4.0  # deviations: what is further out counts as this far


class Moments:
    """Number, mean and standard deviation of C columns, of what is not blank (NaN) in them."""

    def __init__(self, n_columns: int) -> None:
        self._first = np.full(n_columns, np.nan)
        self._sums = np.zeros((3, n_columns))  # numbers, what they are above the first, squares

    def upto(self, values: np.ndarray) -> np.ndarray:
        """Number, mean and deviation (3, n + 1, C): before ``values`` (n, C) and after each row."""
        there = ~np.isnan(values)
        for k in np.flatnonzero(np.isnan(self._first) & there.any(axis=0)):
            self._first[k] = values[there[:, k].argmax(), k]
        with np.errstate(over="ignore", invalid="ignore"):  # whoever reads a file tells
            terms = _terms(values, there, self._first)
            sums = np.cumsum(np.concatenate([self._sums[:, None], terms], axis=1), axis=1)
            self._sums = sums[:, -1].copy()
            return _moments(sums, self._first)

    def with_each(self, values: np.ndarray) -> np.ndarray:
        """As ``upto`` after each row alone, as if it came next, (3, n, C); changes nothing."""
        there = ~np.isnan(values)
        first = np.where(np.isnan(self._first) & there, values, self._first)
        with np.errstate(over="ignore", invalid="ignore"):
            return _moments(self._sums[:, None] + _terms(values, there, first), first)

    def standardised_row(self, x: np.ndarray, most: float) -> np.ndarray | None:
        """``standardised`` of one more row x (C,), as ``upto`` takes it, to the bit.

        None, and nothing is taken, where a number is more than ``most`` away from 0.
        """
        out = np.empty(len(x))
        return out if take_row(self._first, self._sums, x, most, CLIP, out) else None

    def take_number(self, y: float) -> tuple[float, float, float]:
        """Of one column: number, mean and deviation after one more y, to the bit."""
        first = self._first.item()
        if math.isnan(first):
            first = self._first[0] = y
        count, total, squares = self._sums[:, 0].tolist()
        above = y - first
        count, total, squares = count + 1.0, total + above, squares + above * above
        sums = self._sums
        sums[0, 0], sums[1, 0], sums[2, 0] = count, total, squares
        above_mean = total / count
        variance = squares / count - above_mean * above_mean
        return count, first + above_mean, math.sqrt(max(variance, 0.0))

    def arrays(self) -> dict[str, np.ndarray]:
        """Copies of all that it knows, which ``restore`` takes."""
        return {"first": self._first.copy(), "sums": self._sums.copy()}

    def restore(self, kept: Mapping[str, np.ndarray]) -> None:
        """Go on where ``arrays`` were taken, of as many columns."""
        self._first, self._sums = kept["first"].copy(), kept["sums"].copy()


def _terms(values: np.ndarray, there: np.ndarray, first: np.ndarray) -> np.ndarray:
    above = np.where(there, values - first, 0.0)
    return np.stack([there, above, above * above])


def _moments(sums: np.ndarray, first: np.ndarray) -> np.ndarray:
    count, total, squares = sums
    above_mean = total / np.maximum(count, 1.0)
    variance = squares / np.maximum(count, 1.0) - above_mean * above_mean
    mean = np.where(count > 0.0, first, 0.0) + above_mean
    return np.stack([count, mean, np.sqrt(np.maximum(variance, 0.0))])


def standardised(values: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """(values - mean) / deviation, at most +-CLIP; 0 for blanks and where nothing has moved yet."""
    there = (deviation > 0.0) & ~np.isnan(values)
    z = np.divide(values - mean, deviation, out=np.zeros(there.shape), where=there)
    return np.clip(z, -CLIP, CLIP)


class RunningLabelStats(NamedTuple):
    """What is known of the labels before the next one, as ``LabelStats`` has it of n rows."""

    n_known: float
    centre: float
    unit: float

    def scaled(self, y: float) -> float:
        """As ``LabelStats.scaled``, to the bit."""
        off, most = y - self.centre, math.sqrt(self.n_known)
        if self.unit > 0.0:
            return min(max(off / self.unit, -most), most)
        return math.copysign(most, off) if off and not math.isnan(off) else off


class LabelStats(NamedTuple):
    """What is known of the labels before a row, of n rows.

    n_known, centre, unit (n,): how many labels, their mean and deviation; lags (n, k): the last
    ones, the newest first, standardised, 0 where there is none yet.
    """

    n_known: np.ndarray
    centre: np.ndarray
    unit: np.ndarray
    lags: np.ndarray

    @property
    def last(self) -> RunningLabelStats:
        return RunningLabelStats(
            float(self.n_known[-1]), float(self.centre[-1]), float(self.unit[-1])
        )

    def at(self, rows: np.ndarray | slice) -> LabelStats:
        return LabelStats(*(array[rows] for array in self))

    def scaled(self, y: np.ndarray) -> np.ndarray:
        """Labels y (n,) in units of those before them, at most sqrt(n_known) units from 0.

        No number is further than that from the mean of n_known + 1 numbers, itself among them, in
        units of their deviation. So the first label is 0, and one that is the first to differ
        from the others is as far out as it can be.
        """
        off, most = y - self.centre, np.sqrt(self.n_known)
        far = np.sign(off) * most
        with np.errstate(over="ignore"):  # by a unit of almost nothing
            scaled = np.divide(off, self.unit, out=far, where=self.unit > 0.0)
        return np.clip(scaled, -most, most)

    def unscaled(self, f: np.ndarray) -> np.ndarray:
        """What a learner says in these units (n,), in those of the target."""
        return self.centre + self.unit * f


class LabelHistory:
    """The labels of a stream as they become known, and the last ``n_lags`` of them.

    Not ``scaled``: labels and lags stay as they are, with centre 0 and unit 1.
    """

    def __init__(self, n_lags: int, scaled: bool) -> None:
        self.n_lags, self.scaled = n_lags, scaled
        self._moments = Moments(1)
        self._last = np.full(n_lags, np.nan)  # the oldest first

    def take(self, y: np.ndarray) -> LabelStats:
        """What is known before each of the labels y (n,) and after the last, n + 1 rows."""
        count, centre, unit = self._moments.upto(y[:, None])[..., 0]
        if not self.scaled:
            centre, unit = np.zeros(len(count)), np.ones(len(count))
        history = np.concatenate([self._last, y])
        n, k = len(y), self.n_lags
        columns = [history[k - j : k - j + n + 1] for j in range(1, k + 1)]
        lags = np.stack(columns, axis=1) if k else np.empty((n + 1, 0))
        if k:
            self._last = history[n:].copy()
        if self.scaled:
            lags = standardised(lags, centre[:, None], unit[:, None])
        return LabelStats(count, centre, unit, np.nan_to_num(lags))

    def take_one(self, y: float) -> RunningLabelStats:
        """What is known after one more label y, where there are no lags."""
        count, centre, unit = self._moments.take_number(y)
        return (
            RunningLabelStats(count, centre, unit)
            if self.scaled
            else RunningLabelStats(count, 0.0, 1.0)
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """Copies of all that is known, which ``restore`` takes."""
        return {**self._moments.arrays(), "last": self._last.copy()}

    def restore(self, kept: Mapping[str, np.ndarray]) -> None:
        """Go on where ``arrays`` were taken, of as many lags."""
        self._moments.restore(kept)
        self._last = kept["last"].copy()


def known_before(labels: LabelHistory, y: np.ndarray) -> LabelStats:
    """What is known before each row, where all labels y (n,) are told but the blanks."""
    there = ~np.isnan(y)
    return labels.take(y[there]).at(np.cumsum(there) - there)
