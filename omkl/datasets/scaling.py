"""Standardise the columns and the targets of a stream online.

Rows are learned one by one, so results do not depend on the split into blocks. A single number has
a bounded influence on location and scale (``omkl.core.robust_moments``). Columns are not clipped,
but outlying numbers are marked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, NamedTuple

import numpy as np

from omkl.core import robust_moments, snapshot
from omkl.core.compiler import specialise_on_first_call
from omkl.core.hyperparameters import Range
from omkl.core.robust_moments import FAR, MOMENTS, in_units
from omkl.datasets.columns import N_LEVELS

ONE_SLOT = np.zeros(1, dtype=np.int64)  # the slot of a stream without series
ONE_ROW = np.array([0, 2])  # start of its rows, and their end
_follow_targets = specialise_on_first_call(robust_moments.follow_targets)


class Standardised(NamedTuple):
    """Standardised numbers, in two arrays of one shape.

    z      (number - location) / scale; 0 for a missing value, and as long as the scale is 0
    far    bool, whether each number is more than ``FAR`` scales from the location
    """

    z: np.ndarray
    far: np.ndarray

    @classmethod
    def empty(cls, shape: tuple[int, ...]) -> Standardised:
        return cls(np.empty(shape), np.empty(shape, dtype=np.bool_))

    @property
    def far_rows(self) -> np.ndarray:
        """Mask (n,) of the rows that have at least one number marked ``far``."""
        return np.asarray(self.far.any(axis=1))


class MomentsState(NamedTuple):
    """State of ``Moments``: numbers (C, N_NUMBERS) of C columns."""

    moments: MOMENTS


class Moments:
    """Location and scale of C columns (``core.robust_moments``). Missing values do not count."""

    def __init__(self, n_columns: int) -> None:
        self._state = robust_moments.no_moments(n_columns)
        self._ahead = self._state.copy()  # the state after a row that is not learned yet

    @property
    def scale(self) -> np.ndarray:
        """Current scale (C,) of each column; 0 as long as all its numbers are equal."""
        return robust_moments.scales(self._state)

    @property
    def shares_beyond(self) -> np.ndarray:
        """Share (C,) of the numbers of each column beyond ``FAR`` scales from the location."""
        return robust_moments.shares_beyond(self._state)

    def standardised(self, values: np.ndarray) -> Standardised:
        """Learn the values (n, C), and return them standardised.

        Each value is standardised by the values of its column up to and including its row.
        """
        return self._taken(self._state[None], values, learns=True)

    def standardised_each(self, values: np.ndarray) -> Standardised:
        """Return the rows (n, C), each standardised as if it came next. Learn nothing.

        The moments for a row are those of all learned rows and of the row itself.
        """
        return self._taken(np.stack([self._state, self._state]), values, learns=False)

    @staticmethod
    def _taken(slots: np.ndarray, values: np.ndarray, learns: bool) -> Standardised:
        """Standardise values (n, C) by the moments (C, N_NUMBERS) in ``slots[0]``.

        If ``learns`` is True, ``slots[0]`` learns the values. Otherwise ``slots[0]`` does not
        change, and ``slots[1]``, which must exist, is overwritten as working memory.
        """
        found, runs = Standardised.empty(values.shape), (np.array([0, len(values)]), ONE_SLOT)
        robust_moments.standardise_rows(
            *runs, np.array([learns]), slots, values, math.inf, *found, len(slots) - 1
        )
        return found

    def standardised_row(
        self, x: np.ndarray, most: float, takes: bool = True
    ) -> Standardised | None:
        """Standardise one row. The result equals that of ``standardised`` to the last bit.

        Parameters
        ----------
        x
            Row (C,).
        most
            Largest valid absolute value. If a number is larger, return None and learn nothing.
        takes
            Whether the row is learned. If False, ``take_row_ahead`` can learn it later.
        """
        row, state = Standardised.empty(x.shape), self._state
        if not takes:
            state = self._ahead
            state[...] = self._state
        return row if robust_moments.take_row(state, x, most, *row) else None

    def take_row_ahead(self) -> None:
        """Learn the row of the last call of ``standardised_row`` with ``takes=False``.

        No other row may have been learned or standardised since.
        """
        self._state, self._ahead = self._ahead, self._state

    @property
    def state(self) -> MomentsState:
        """Learned state; the arrays are not copied."""
        return MomentsState(self._state)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return copies of the learned state, for ``restore``."""
        return snapshot.copies(self.state)

    def restore(self, kept: Mapping[str, np.ndarray]) -> None:
        """Continue from ``arrays``. Raises ``snapshot.Mismatch`` if they do not fit."""
        snapshot.restore_arrays(self.state, kept)


class LateMoments(Moments):
    """Location and scale of columns, for which each row is learned ``delay`` rows later.

    waiting   (n, C) rows that are not learned yet, n <= delay, the oldest first
    """

    def __init__(self, n_columns: int, delay: int) -> None:
        super().__init__(n_columns)
        self._delay = delay
        self.waiting = np.empty((0, n_columns))

    def standardised(self, values: np.ndarray) -> Standardised:
        """Return the values (n, C) standardised.

        The moments for a row are those of the row itself and of all rows learned before it.
        """
        rows = np.concatenate([self.waiting, values])
        late, n = Standardised.empty(values.shape), len(self.waiting)
        robust_moments.standardise_late(self._state, self._ahead, rows, n, self._delay, *late)
        self.waiting = rows[max(0, len(rows) - self._delay) :]
        return late


def softened(z: np.ndarray) -> np.ndarray:
    """Soften standardised numbers z, for learners that need bounded inputs.

    Numbers in [-4, 4] do not change. Others become sign(z) (4 + log(1 + |z| - 4)). The function is
    strictly increasing, so different numbers stay different.
    """
    out = np.array(z, dtype=np.float64)
    flat = out.reshape(-1)
    for k in np.flatnonzero(np.abs(flat) > FAR):
        flat[k] = robust_moments.softened(flat[k])
    return out


class TargetUnits(NamedTuple):
    """Number, location and scale of the targets that are known before the next target."""

    n_known: float
    centre: float
    unit: float

    def scaled(self, y: float, soft: bool) -> float:
        """Return (y - centre) / unit, clipped to +- sqrt(n_known), and ``softened`` if ``soft``.

        The limit holds for any n_known + 1 numbers: none of them is more than sqrt(n_known)
        standard deviations from their mean. The first target becomes 0, because its limit is 0. If
        all known targets are equal and y differs from them, the result is the limit.
        """
        scaled = in_units(y - self.centre, self.unit, math.sqrt(self.n_known))
        return robust_moments.softened(scaled) if soft else scaled


class KnownTargets(NamedTuple):
    """Targets of n rows, scaled by the targets that were known before each row.

    scaled        (n,) results of ``TargetUnits.scaled``
    centre, unit  (n,) location and scale of the targets known before each row
    lags          (n, k) last k targets in these units, the newest first; 0 if unknown
    """

    scaled: np.ndarray
    centre: np.ndarray
    unit: np.ndarray
    lags: np.ndarray


class TargetState(NamedTuple):
    """State of a ``TargetScaler``: moments (1, N_NUMBERS) and last targets (n_lags,)."""

    moments: MOMENTS
    last: np.ndarray


class TargetScaler:
    """Scale each target by the targets known before it, and store the last ``n_lags`` targets.

    If ``scaled`` is False, targets and lags do not change: the centre is 0 and the unit is 1.

    Attributes
    ----------
    now    units of the next target
    lags   (n_lags,) past targets for the next row
    """

    def __init__(self, n_lags: int, scaled: bool) -> None:
        self.n_lags, self.scaled = n_lags, scaled
        self._moments = robust_moments.no_moments(1)[None]
        self._last = np.full((1, n_lags), np.nan)  # the oldest first
        self._one, self._of_one = np.full(2, np.nan), np.empty((4, 2))  # scratch of ``take_one``
        self.take(np.empty(0))

    def take(self, y: np.ndarray) -> KnownTargets:
        """Learn the targets y (n,), and return each scaled by the targets before it. Ignore NaN."""
        n = len(y)
        lags, out = np.empty((n + 1, self.n_lags)), np.empty((4, n + 1))
        self._follow(np.array([0, n + 1]), np.append(y, np.nan), lags, out)
        return KnownTargets(out[0, :n], out[1, :n], out[2, :n], lags[:n])

    def take_one(self, y: float) -> None:
        """Learn one target. This is faster than ``take``."""
        self._one[0] = y
        self._follow(ONE_ROW, self._one, np.empty((2, self.n_lags)), self._of_one)

    def _follow(self, rows: np.ndarray, y: np.ndarray, lags: np.ndarray, out: np.ndarray) -> None:
        """Learn n targets, and set ``now`` and ``lags`` for the next target.

        ``y`` (n + 1,) has the targets, and NaN for the next target. ``rows`` is [0, n + 1], because
        all rows belong to one series. For each target, its past targets are written to ``lags``
        (n + 1, n_lags). The rows of ``out`` (4, n + 1) get the scaled target, the centre, the unit,
        and the number of known targets.
        """
        _follow_targets(rows, ONE_SLOT, self._moments, self._last, self.scaled, y, lags, 0, out)
        _, centre, unit, n_known = out[:, -1].tolist()
        self.now, self.lags = TargetUnits(n_known, centre, unit), lags[-1]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return copies of the learned state, for ``restore``."""
        return snapshot.copies(self._state)

    def restore(self, kept: Mapping[str, np.ndarray]) -> None:
        """Continue from ``arrays``. Raises ``snapshot.Mismatch`` if they do not fit."""
        snapshot.restore_arrays(self._state, kept)
        self.take(np.empty(0))

    @property
    def _state(self) -> TargetState:
        return TargetState(self._moments[0], self._last[0])


class LevelState(NamedTuple):
    """State of ``LevelMeans`` for L columns.

    sums, counts   (L, N_LEVELS) sum and number of the targets of each level
    of_all         (2,) sum and number of all targets
    """

    sums: np.ndarray
    counts: Annotated[np.ndarray, Range(0.0)]
    of_all: np.ndarray


class LevelMeans:
    """Replace the levels of hashed columns by means and numbers of targets.

    The level of a word is its checksum modulo N_LEVELS, so memory is bounded: 1 MiB per column.
    Two inputs of a row depend on the level. Let n be the number of known targets of the level, s
    their sum, and m the mean of all known targets. The first input is (s + 5 m) / (n + 5), the
    level's mean target, shrunk towards m. The second input is log(1 + n).

    Parameters
    ----------
    levels
        Indices (L,) of the inputs that contain levels, from ``columns.levels_in``.
    """

    def __init__(self, levels: np.ndarray) -> None:
        self._levels = levels
        self.places = np.sort(np.concatenate([levels, levels + 1]))  # indices of both inputs
        self._state = LevelState(
            np.zeros((len(levels), N_LEVELS)), np.zeros((len(levels), N_LEVELS)), np.zeros(2)
        )

    def filled(
        self, X: np.ndarray, y: np.ndarray | None = None, starts: np.ndarray | None = None
    ) -> np.ndarray:
        """Return rows X (n, d) with means and counts in place of levels, and learn the targets.

        Parameters
        ----------
        X
            Rows with the level of each hashed column. A missing level stays NaN.
        y
            Targets (n,), NaN if unknown; None: nothing is learned.
        starts
            (G + 1,) indices of the first rows of the G groups, then n. The targets of a group are
            learned after all its rows are filled. None: each row is a group.
        """
        n, out = len(X), X.copy()
        y = np.full(n, np.nan) if y is None else y
        starts = np.arange(n + 1) if starts is None else starts
        robust_moments.fill_levels(X, self._levels, *self._state, y, starts, out)
        return out

    def of_row(self, x: np.ndarray) -> np.ndarray:
        """Return the mean target and the number of targets of each level in the row x (d,).

        The result (2 L,) has the inputs that ``filled`` computes, in order of their indices in x.
        Nothing changes.
        """
        return self.filled(x[None, :])[0, self.places]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return copies of the learned state, for ``restore``."""
        return snapshot.copies(self._state)

    def restore(self, kept: Mapping[str, np.ndarray]) -> None:
        """Continue from ``arrays``. Raises ``snapshot.Mismatch`` if they do not fit."""
        snapshot.restore_arrays(self._state, kept)
