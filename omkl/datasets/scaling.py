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
from omkl.core.compiler import specialise_on_first_call
from omkl.core.robust_moments import FAR, MOMENTS, in_units

ONE_SLOT = np.zeros(1, dtype=np.int64)  # the slot of a stream without series
ONE_ROW = np.array([0, 2])  # and the one behind it
_follow_targets = specialise_on_first_call(robust_moments.follow_targets)


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
        """Mask (n,) of the rows that hold an outlier."""
        return np.asarray(self.far.any(axis=1))


class MomentsState(NamedTuple):
    """Arrays of ``Moments``."""

    moments: MOMENTS


class Moments:
    """Location and scale of C columns, as ``core.robust_moments``; blanks (NaN) are left out."""

    def __init__(self, n_columns: int) -> None:
        self._state = robust_moments.no_moments(n_columns)
        self._ahead = self._state.copy()  # with a row that is looked at and not taken in

    @property
    def scale(self) -> np.ndarray:
        """Present scale of each column (C,). 0 until the column has changed."""
        return robust_moments.scales(self._state)

    @property
    def shares_beyond(self) -> np.ndarray:
        """Share (C,) of the numbers of each column beyond ``FAR`` scales."""
        return robust_moments.shares_beyond(self._state)

    def standardised(self, values: np.ndarray) -> Standardised:
        """``values`` (n, C) standardised, each by what its column held up to its row; they are
        taken in."""
        return self._taken(self._state[None], values, learns=True)

    def standardised_each(self, values: np.ndarray) -> Standardised:
        """As ``standardised``, of each row as if it came next; changes nothing."""
        return self._taken(np.stack([self._state, self._state]), values, learns=False)

    @staticmethod
    def _taken(slots: np.ndarray, values: np.ndarray, learns: bool) -> Standardised:
        """Standardise by the first of the slots; unless it ``learns``, the last is written to."""
        found, runs = Standardised.empty(values.shape), (np.array([0, len(values)]), ONE_SLOT)
        robust_moments.standardise_rows(
            *runs, np.array([learns]), slots, values, math.inf, *found, len(slots) - 1
        )
        return found

    def standardised_row(
        self, x: np.ndarray, most: float, takes: bool = True
    ) -> Standardised | None:
        """``standardised`` of one more row x (C,), to the last bit.

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


class TargetUnits(NamedTuple):
    """Number, centre and unit of the targets that are known before the next one."""

    n_known: float
    centre: float
    unit: float

    def scaled(self, y: float, soft: bool) -> float:
        """Return y in these units, at most sqrt(n_known) from 0; ``soft``: and ``softened``.

        No number is further than that from the mean of n_known + 1 numbers, itself among them, in
        units of their deviation. So the first target is 0, and one that is the first to differ
        from the others is as far out as it can be.
        """
        scaled = in_units(y - self.centre, self.unit, math.sqrt(self.n_known))
        return robust_moments.softened(scaled) if soft else scaled


class KnownTargets(NamedTuple):
    """n targets by what was known before each of them.

    scaled        (n,) in these units, as ``TargetUnits.scaled``
    centre, unit  (n,)
    lags          (n, k) the last targets in these units, the newest first, 0 where there is none
    """

    scaled: np.ndarray
    centre: np.ndarray
    unit: np.ndarray
    lags: np.ndarray


class TargetState(NamedTuple):
    """The arrays of ``TargetScaler``: moments (1, N_NUMBERS), last (n_lags,) targets."""

    moments: MOMENTS
    last: np.ndarray


class TargetScaler:
    """Scale the targets of a stream by those known before, and keep the last ``n_lags`` of them.

    Not ``scaled``: targets and lags stay as they are, with centre 0 and unit 1.

    Attributes
    ----------
    now    the units of the next target
    lags   (n_lags,) of the next row
    """

    def __init__(self, n_lags: int, scaled: bool) -> None:
        self.n_lags, self.scaled = n_lags, scaled
        self._moments = robust_moments.no_moments(1)[None]
        self._last = np.full((1, n_lags), np.nan)  # the oldest first
        self._one, self._of_one = np.full(2, np.nan), np.empty((4, 2))  # of ``take_one``
        self.take(np.empty(0))

    def take(self, y: np.ndarray) -> KnownTargets:
        """Take in targets y (n,), and return them by what was known before; NaN is not taken in."""
        n = len(y)
        lags, out = np.empty((n + 1, self.n_lags)), np.empty((4, n + 1))
        self._follow(np.array([0, n + 1]), np.append(y, np.nan), lags, out)
        return KnownTargets(out[0, :n], out[1, :n], out[2, :n], lags[:n])

    def take_one(self, y: float) -> None:
        """Take in one target, in less time."""
        self._one[0] = y
        self._follow(ONE_ROW, self._one, np.empty((2, self.n_lags)), self._of_one)

    def _follow(self, rows: np.ndarray, y: np.ndarray, lags: np.ndarray, out: np.ndarray) -> None:
        """Take in all of y but the last, which is NaN: units and lags before it are kept."""
        _follow_targets(rows, ONE_SLOT, self._moments, self._last, self.scaled, y, lags, 0, out)
        _, centre, unit, n_known = out[:, -1].tolist()
        self.now, self.lags = TargetUnits(n_known, centre, unit), lags[-1]

    def arrays(self) -> dict[str, np.ndarray]:
        """Copies of all that is known, which ``restore`` takes."""
        return snapshot.copies(self._state)

    def restore(self, kept: Mapping[str, np.ndarray]) -> None:
        """Go on where ``arrays`` were taken; ``snapshot.Mismatch`` if they do not fit."""
        snapshot.restore_arrays(self._state, kept)
        self.take(np.empty(0))

    @property
    def _state(self) -> TargetState:
        return TargetState(self._moments[0], self._last[0])
