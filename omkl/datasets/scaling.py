"""Standardising as a stream goes: columns by what was seen, labels by those that are known.

Rows are taken one by one, so that no split into blocks changes a bit. No single number spoils
location or scale (``omkl.core.robust_moments``), and none is cut: how far out it is, is told.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from omkl.core import robust_moments, snapshot
from omkl.core.robust_moments import FAR, MOMENTS, in_units


class Standardised(NamedTuple):
    """Numbers in deviations from the location of their columns, arrays of one shape.

    z      the numbers; 0 for blanks and where nothing has moved yet
    far    bool, which of them are far out: those that ``Moments.shares_beyond`` counts
    """

    z: np.ndarray
    far: np.ndarray

    @classmethod
    def empty(cls, shape: tuple[int, ...]) -> Standardised:
        return cls(np.empty(shape), np.empty(shape, dtype=np.bool_))

    @property
    def far_rows(self) -> np.ndarray:
        """Which rows (n,) of numbers (n, C) have one far out."""
        return np.asarray(self.far.any(axis=1))


class MomentsState(NamedTuple):
    """The arrays of ``Moments``."""

    moments: MOMENTS


class Moments:
    """Location and scale of C columns, as ``core.robust_moments``; blanks (NaN) are left out."""

    def __init__(self, n_columns: int) -> None:
        self._state = robust_moments.no_moments(n_columns)
        self._ahead = self._state.copy()  # with a row that is looked at and not taken in

    @property
    def scale(self) -> np.ndarray:
        """What columns are measured with now (C,), 0 before one has moved."""
        return robust_moments.scales(self._state)

    @property
    def shares_beyond(self) -> np.ndarray:
        """The share (C,) of the numbers of each column that came farther out than ``FAR``."""
        return robust_moments.shares_beyond(self._state)

    def standardised(self, values: np.ndarray) -> Standardised:
        """``values`` (n, C) standardised, each by what its column held up to its row; they are
        taken in."""
        taken = Standardised.empty(values.shape)
        robust_moments.take_rows(self._state, values, *taken)
        return taken

    def standardised_each(self, values: np.ndarray) -> Standardised:
        """As ``standardised``, of each row as if it came next; changes nothing."""
        each = Standardised.empty(values.shape)
        robust_moments.standardise_each(self._state.copy(), self._state, values, *each)
        return each

    def standardised_row(
        self, x: np.ndarray, most: float, takes: bool = True
    ) -> Standardised | None:
        """``standardised`` of one more row x (C,), to the bit.

        Unless it ``takes`` the row in, ``take_row_ahead`` does. None, and nothing is taken, where a
        number is more than ``most`` away from 0.
        """
        row, state = Standardised.empty(x.shape), self._state
        if not takes:
            state = self._ahead
            state[...] = self._state
        return row if robust_moments.take_row(state, x, most, *row) else None

    def take_row_ahead(self) -> None:
        """Take in the row that was standardised and not taken in, with no other after it."""
        self._state, self._ahead = self._ahead, self._state

    def follow(self, y: np.ndarray) -> np.ndarray:
        """Take numbers y (n,) of one column in: count, centre and scale (3, n + 1), before each
        and after the last."""
        seen = np.empty((3, len(y) + 1))
        robust_moments.follow_numbers(self._state, y, seen)
        return seen

    @property
    def state(self) -> MomentsState:
        """All that it knows, not copied."""
        return MomentsState(self._state)

    def arrays(self) -> dict[str, np.ndarray]:
        """Copies of all that it knows, which ``restore`` takes."""
        return snapshot.copies(self.state)

    def restore(self, kept: Mapping[str, np.ndarray]) -> None:
        """Go on where ``arrays`` were taken; ``snapshot.Mismatch`` if they do not fit."""
        snapshot.restore_arrays(self.state, kept)


class LateMoments(Moments):
    """Moments of rows that are taken in ``delay`` rows after they are predicted.

    waiting   rows (n, C), n <= delay, that are still to be taken in, the oldest first
    """

    def __init__(self, n_columns: int, delay: int) -> None:
        super().__init__(n_columns)
        self._delay = delay
        self.waiting = np.empty((0, n_columns))

    def standardised(self, values: np.ndarray) -> Standardised:
        """``values`` (n, C) standardised, each row as the next after those that are taken in."""
        rows = np.concatenate([self.waiting, values])
        late, n = Standardised.empty(values.shape), len(self.waiting)
        robust_moments.standardise_late(self._state, self._ahead, rows, n, self._delay, *late)
        self.waiting = rows[max(0, len(rows) - self._delay) :]
        return late


def softened(z: np.ndarray) -> np.ndarray:
    """z up to +-4, then 4 + log(1 + what is beyond): what learners read that need bounded inputs.

    It is monotone: nothing that differs becomes the same.
    """
    out = np.array(z, dtype=np.float64)
    flat = out.reshape(-1)
    for k in np.flatnonzero(np.abs(flat) > FAR):
        flat[k] = robust_moments.softened(flat[k])
    return out


class RunningLabelStats(NamedTuple):
    """What is known of the labels before the next one, as ``LabelStats`` has it of n rows."""

    n_known: float
    centre: float
    unit: float

    def scaled(self, y: float, soft: bool) -> float:
        """As ``LabelStats.scaled``, to the bit."""
        scaled = in_units(y - self.centre, self.unit, math.sqrt(self.n_known))
        return robust_moments.softened(scaled) if soft else scaled


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

    def scaled(self, y: np.ndarray, soft: bool) -> np.ndarray:
        """Labels y (n,) in units of those before them, at most sqrt(n_known) units from 0.

        ``soft``: and ``softened``.

        No number is further than that from the mean of n_known + 1 numbers, itself among them, in
        units of their deviation. So the first label is 0, and one that is the first to differ
        from the others is as far out as it can be.
        """
        off, most = y - self.centre, np.sqrt(self.n_known)
        far = np.sign(off) * most
        with np.errstate(over="ignore"):  # by a unit of almost nothing
            scaled = np.divide(off, self.unit, out=far, where=self.unit > 0.0)
        scaled = np.clip(scaled, -most, most)
        return softened(scaled) if soft else scaled

    def unscaled(self, f: np.ndarray) -> np.ndarray:
        """What a learner says in these units (n,), in those of the target."""
        return self.centre + self.unit * f


class LabelState(NamedTuple):
    """The arrays of ``LabelHistory``: moments (1, N_NUMBERS), last (n_lags,) labels."""

    moments: MOMENTS
    last: np.ndarray


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
        count, centre, unit = self._moments.follow(y)
        if not self.scaled:
            centre, unit = np.zeros(len(count)), np.ones(len(count))
        history = np.concatenate([self._last, y])
        n, k = len(y), self.n_lags
        columns = [history[k - j : k - j + n + 1] for j in range(1, k + 1)]
        lags = np.stack(columns, axis=1) if k else np.empty((n + 1, 0))
        if k:
            self._last = history[n:].copy()
        if self.scaled:
            there = (unit[:, None] > 0.0) & ~np.isnan(lags)
            off = np.zeros(lags.shape)
            lags = np.divide(lags - centre[:, None], unit[:, None], out=off, where=there)
        return LabelStats(count, centre, unit, np.nan_to_num(lags))

    def take_one(self, y: float) -> RunningLabelStats:
        """What is known after one more label y, where there are no lags."""
        count, centre, unit = self._moments.follow(np.array([y]))[:, 1].tolist()
        return (
            RunningLabelStats(count, centre, unit)
            if self.scaled
            else RunningLabelStats(count, 0.0, 1.0)
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """Copies of all that is known, which ``restore`` takes."""
        return snapshot.copies(self._state)

    def restore(self, kept: Mapping[str, np.ndarray]) -> None:
        """Go on where ``arrays`` were taken; ``snapshot.Mismatch`` if they do not fit."""
        snapshot.restore_arrays(self._state, kept)

    @property
    def _state(self) -> LabelState:
        return LabelState(self._moments.state.moments, self._last)


def known_before(labels: LabelHistory, y: np.ndarray) -> LabelStats:
    """What is known before each row, where all labels y (n,) are told but the blanks."""
    there = ~np.isnan(y)
    return labels.take(y[there]).at(np.cumsum(there) - there)
