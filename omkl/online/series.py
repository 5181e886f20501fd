"""Learn one target of many series in units of each series, and search for seasons.

The units of a series are its last target and its usual change (``omkl.core.series``). A second
learner predicts in these units, beside the learner of raw targets. A mixture of their predictions
is the result.

A stream without a column of series is a single series. It has no units until a season is given or
found. Until then the predictions are those of the learner of raw targets.
"""

from __future__ import annotations

import bisect
import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from omkl.core import series, snapshot
from omkl.core.hyperparameters import MOST_COUNT
from omkl.core.learner import Learner, Trace
from omkl.core.panel import longer
from omkl.core.series import FARTHEST_TARGET, LAST_VALUE, OWN, RAW, SEARCHED, Series, Units
from omkl.core.snapshot import below, named
from omkl.online.intervals import AdaptiveIntervals, Ends, RowWidths, Width
from omkl.online.rows import Block

FRESH = 0  # slot of a series without rows; the only slot of a stream without series
NO_SLOT = -1
EARLY, MOST = SEARCHED // 8 + 1, 8 * SEARCHED  # known targets at the first and last search
NEVER = int(MOST_COUNT)  # number of known targets before a search that does not take place
NEXT = 0.05  # of a season: the distance to seasons that do not differ from it
REPLAYED = 16  # stored rows that new units learn with each row, about 10 ms
NOT_BEGUN = -1  # number of rows of new units in the row of the search that makes them
SEARCHING = 0.0  # version of a prediction without units
SLOTS = 3  # index of ``FirstRows.slots``
# Inputs of a column of dates, by the ends of their names: periods of the cyclic ones, and the days.
CYCLES, DAYS = {"hour": 24.0, "weekday": 7.0, "day_of_year": 365.25}, "days_elapsed"


class FirstRows(NamedTuple):
    """Stored rows, which new units learn when seasons are found. A field is a list of blocks.

    rows   (n, d) scaled rows
    raw    (n,) predictions by the learner of raw targets
    y      (n,) targets
    slots  (n,) slot of the series of each row
    round  (n,) number of rows that were learned before each prediction
    """

    rows: list[np.ndarray]
    raw: list[np.ndarray]
    y: list[np.ndarray]
    slots: list[np.ndarray]
    round: list[np.ndarray]

    def joined(self, d: int) -> tuple[np.ndarray, ...]:
        """Return each field as one array, joined from its blocks."""
        if not self.y:
            whole = np.empty((0, d)), *np.empty((2, 0)), *np.empty((2, 0), dtype=np.int64)
        else:
            whole = tuple(np.concatenate(parts) for parts in self)
        for parts, array in zip(self, whole, strict=True):
            parts[:] = [array]
        return whole


class RowUnits(NamedTuple):
    """Numbers that are stored with a prediction until its target is learned.

    round    number of rows that were learned before the prediction
    version  ``TargetSeries.version`` at the prediction. It changes when seasons are found
    units    units of the row; None if no units existed yet
    context  context of the learner in units, see ``Learner.context``
    width    fields of ``intervals.Width``; () without learned widths
    """

    round: int
    version: float
    units: Units | None
    context: np.ndarray
    width: tuple[np.ndarray, ...] = ()

    def numbers(self) -> np.ndarray:
        """Return all fields as one array (p,)."""
        head = np.array([self.round, self.version])
        if self.units is None:
            return head
        return np.concatenate([head, *map(np.ravel, self.units), self.context, *self.width])

    def of_numbers(self, numbers: np.ndarray) -> RowUnits:
        """Return the object whose method ``numbers`` returned the array ``numbers`` (p,).

        The fields of the result have the shapes of the fields of ``self``. If the version of the
        result differs from ``self.version``, the result has no units.
        """
        head, version = int(numbers[0]), float(numbers[1])
        if self.units is None or version != self.version:
            return RowUnits(head, version, None, np.empty(0))
        like = [*self.units, self.context, *self.width]
        ends = np.cumsum([array.size for array in like])
        arrays = np.split(numbers[2:], ends)[: len(like)]
        parts = [a.reshape(one.shape) for a, one in zip(arrays, like, strict=True)]
        units, (context, *width) = parts[: len(self.units)], parts[len(self.units) :]
        return RowUnits(head, version, Units(*units), context, tuple(width))


class TargetSeries:
    """Predict one target in units of each series, and mix the result with other candidates.

    Parameters
    ----------
    make
        Function of the number of inputs that returns a new core learner.
    inputs
        Names (d,) of the inputs of a row. The spacing of the first column of dates suggests
        seasons. Without series, sines and cosines of the parts of this date become further inputs.
    seasons
        Length of each season in rows; None: search for seasons.
    n_slots
        Number of slots for series; 0 for a stream without series.
    intervals
        Intervals around the mixture. None: no intervals.
    late
        Number of further rows of a series after which a target is known.
    make_widths
        Function of the number of inputs that returns new learned widths; None: all intervals have
        the same width in units of their series.

    Attributes
    ----------
    seasons   length of each season in rows; () as long as no season is known
    version   number that changes when seasons are found; SEARCHING without units
    learner   core learner in units of the series; None as long as no units exist
    """

    def __init__(
        self,
        make: Callable[[int], Learner],
        inputs: Sequence[str],
        seasons: Sequence[int] | None,
        n_slots: int,
        intervals: AdaptiveIntervals | None = None,
        late: int = 0,
        make_widths: Callable[[int], RowWidths] | None = None,
    ) -> None:
        self._make_widths = make_widths
        self.widths: RowWidths | None = None
        self._make, self._d, self._has_series = make, len(inputs), n_slots > 0
        dated = [name.removesuffix(DAYS) for name in inputs if name.endswith(f".{DAYS}")][:1]
        places = {name: k for k, name in enumerate(inputs)}
        cycles = {
            places.get(head + end): period for head in dated for end, period in CYCLES.items()
        }
        self._days = [places[head + DAYS] for head in dated]
        # Inputs whose sines and cosines become inputs. Not with several series: all rows of a date
        # have the same waves, and the number of dates is too small to learn from them.
        self._dates = [k for k in cycles if k is not None and not n_slots]
        self._periods = np.array([cycles[k] for k in self._dates])
        self._intervals, self._no_errors = intervals, copy.deepcopy(intervals)
        self.seasons, self._late = tuple(seasons or ()), late
        self.n_rows, self._n_known, self._n_allocated = 0, 0, 0
        # Number of targets at the next search, and number of rows when it became due; 0 before.
        self._next, self._due = EARLY, 0
        # Units with new seasons. They replace the present ones after they learned the stored rows.
        self._successor: TargetSeries | None = None
        self._first = FirstRows([], [], [], [], []) if seasons is None else None
        self.version, self._n_slots = SEARCHING, max(1, n_slots)
        self.learner: Learner | None = None
        if n_slots or self.seasons:
            self._begin()

    def _begin(self) -> None:
        """Start units, learner and mixture for the present ``seasons``."""
        self.version = 1.0 + sum(self.seasons)
        self._lags = series.lags_of(self.seasons, self._late)
        self.state = series.no_series(self._n_slots, self.seasons, self._late)
        n_waves = 2 * series.N_HARMONICS * len(self._dates)
        n_inputs = self._d + series.n_inputs(self.seasons) + n_waves
        self.learner = self._make(n_inputs)
        if self._make_widths:
            self.widths = self._make_widths(n_inputs)

    def _inputs(self, X: np.ndarray, units: Units) -> np.ndarray:
        """Return the inputs of the learner in units for the rows X (n, d + lags).

        The columns are the d inputs without lags, ``units.inputs``, and waves of the calendar.
        """
        parts = [X[:, : self._d], units.inputs]
        if self._dates:
            parts.append(series.waves_of(X[:, self._dates] / self._periods))
        return np.concatenate(parts, axis=1)

    @property
    def is_idle(self) -> bool:
        """True if there are no units and the search for seasons has ended."""
        return self.learner is None and self._first is None

    @property
    def bytes_per_series(self) -> int:
        """Bytes that a series takes in the arrays."""
        own = self.state if self.learner else series.no_series(1, (), self._late)
        return own.numbers[FRESH].nbytes + own.ring[FRESH].nbytes

    def allocate(self, slots: Sequence[int]) -> None:
        """Make room for the slots, and write the initial state into them."""
        if not slots:
            return
        most, fresh = max(slots) + 1, series.no_series(1, self.seasons, self._late)
        if self._first is not None and min(slots) < self._n_allocated:
            old = self._first.joined(self._d)[SLOTS]  # rows of forgotten series
            old[np.isin(old, slots)] = NO_SLOT
        self._n_allocated = max(most, self._n_allocated)
        if most > self._n_slots:
            self._n_slots = max(most, 2 * self._n_slots)
            self.state = self.state._replace(
                numbers=longer(self.state.numbers, self._n_slots),
                ring=longer(self.state.ring, self._n_slots),
            )
        self.state.numbers[slots] = fresh.numbers[0]
        self.state.ring[slots] = fresh.ring[0]
        if self._successor:
            self._successor.allocate(slots)

    # --- Blocks of rows ---------------------------------------------------------------------------

    def n_before_search(self, block: Block) -> int:
        """Return how many rows of a block precede the next search, or the next change of units.

        A search or a change takes place between two groups of rows. If one is due already, the
        result is 0, and the caller must learn the next group with ``learn_row``.
        """
        n = len(block.y)
        if self._first is None:
            return n
        if self._due:
            return 0
        known = self._n_known + np.cumsum(np.isfinite(block.y))
        row = 0 if self._successor else int(np.searchsorted(known, self._next))
        return int(block.starts[block.starts > row][0]) if row < n else n

    def rounds(self, starts: np.ndarray) -> np.ndarray:
        """Return the number (n,) of rows learned before the prediction of each of the next rows."""
        return self.n_rows + np.repeat(starts[:-1], np.diff(starts))

    def learn(self, block: Block, trace: Trace) -> tuple[Trace, Units | None]:
        """Predict all rows of a group, then learn the rows, group by group.

        Parameters
        ----------
        block
            Rows and their targets.
        trace
            Predictions of these rows by the learner of raw targets.

        Returns
        -------
        Predictions of the mixture, and the units of the rows; None as long as no units exist.
        """
        y, slots, starts = block.y, block.slots, block.starts
        rounds = self.rounds(starts)
        self._keep(block.X, trace.y_hat, y, slots, rounds)
        if self.learner is None:
            return trace, None
        # Late targets are learned with ``learn_row``, and here only if they are learned again.
        lags = self._lags._replace(behind=self._late)
        units = series.units_of(self.state, lags, slots, y, starts)
        self._predict_in_units(units, block)
        self._complete(units, trace.y_hat)
        y_hat, spread = series.mixed(self.state, units, y, starts, rounds)
        return Trace(y_hat, trace.asked, spread), units

    def _predict_in_units(self, units: Units, block: Block) -> None:
        """Let the learner in units predict and learn the rows that have units."""
        learner, has = self.learner, units.scale > 0.0
        assert learner is not None
        starts = np.unique(np.concatenate([[0], np.cumsum(has)])[block.starts])
        rows, ahead = (self._inputs(X, units)[has] for X in (block.X, block.ahead))
        # The past targets before a group are those of other series on the date before, and the same
        # for all its rows. A learner of few dates would fit them by chance.
        scaled = _scaled(units, block.y)[has]
        found = learner.learn_groups(rows, ahead, scaled, starts, forgets=True)
        units.candidates[:, OWN] = 0.0
        units.candidates[has, OWN] = found.y_hat

    @staticmethod
    def _complete(units: Units, raw: np.ndarray) -> None:
        """Complete the candidates of the mixture, in the unit of the target.

        Column OWN contains predictions in units of the series, which are converted. Column RAW gets
        the predictions ``raw`` (n,) of the learner of raw targets. In a row without units this
        prediction replaces all candidates, except the last target of the series if there is one.
        """
        f, has = units.candidates, (units.scale > 0.0)[:, None]
        f[:, OWN] = units.location + units.scale * f[:, OWN]
        far = FARTHEST_TARGET * units.scale
        f[:, RAW] = np.clip(raw, units.location - far, units.location + far)
        last = np.where(np.isnan(f[:, LAST_VALUE]), raw, f[:, LAST_VALUE])
        f[...] = np.where(has, f, raw[:, None])
        f[:, LAST_VALUE] = last

    def predict(
        self, X: np.ndarray, slots: np.ndarray, raw: np.ndarray, spread: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Predict each row of X (n, d + lags) as if it came next in its series. Nothing changes.

        Parameters
        ----------
        X, slots
            Rows and their slots.
        raw, spread
            Predictions (n,) by the learner of raw targets, and standard deviations of their errors.

        Returns
        -------
        Predictions (n,) of the mixture, and standard deviations of their errors.
        """
        if self.learner is None:
            return raw, spread
        units = series.units_of(self.state, self._lags, slots)
        units.candidates[:, OWN] = self.learner.predict(self._inputs(X, units))
        self._complete(units, raw)
        return series.mixed(self.state, units)

    def follow_widths(
        self, block: Block, trace: Trace, units: Units, half: np.ndarray, rounds: np.ndarray
    ) -> Ends:
        """Return the intervals of a block with learned widths, and learn the errors.

        Parameters
        ----------
        block, trace, units
            Rows, predictions of the mixture, and units of the rows.
        half
            Half-widths (n,) of the plain intervals, in units of the series.
        rounds
            Number of rows learned before each prediction (n,).
        """
        assert self.widths
        X, ahead = (self._inputs(Z, units) for Z in (block.X, block.ahead))
        block = block._replace(X=X, ahead=ahead, y=units.of(block.y))
        y_hat, spread = _in_units(units, trace.y_hat, trace.spread)
        trace = Trace(y_hat, trace.asked, spread)
        return _of_target(units, self.widths.follow_groups(block, trace, half, rounds))

    def ends(
        self, X: np.ndarray, slots: np.ndarray, y_hat: np.ndarray, half: np.ndarray,
        spread: np.ndarray, far: np.ndarray,
    ) -> Ends:  # fmt: skip
        """Return the intervals of rows, each as if it came next. Nothing changes.

        Parameters
        ----------
        X, slots
            Rows and their slots.
        y_hat, half, spread, far
            (n,) each: predictions, half-widths of the plain intervals in units of the series,
            standard deviations, and whether a row has an input far outside its usual range.
        """
        assert self.widths
        units = series.units_of(self.state, self._lags, slots)
        y_hat, spread = _in_units(units, y_hat, spread)
        found = self.widths.predict(self._inputs(X, units), y_hat, half, spread, far)
        return _of_target(units, found)

    # --- Single rows ------------------------------------------------------------------------------

    def predict_row(
        self, x: np.ndarray, slot: int, raw: float, spread: float
    ) -> tuple[float, float, RowUnits]:
        """Predict the row x (d + lags,) as if it came next in its series. Nothing changes.

        Parameters
        ----------
        x, slot
            Row and its slot.
        raw, spread
            Prediction by the learner of raw targets, and standard deviation of its error.

        Returns
        -------
        Prediction, standard deviation of its error, and the numbers that ``learn_row`` needs.
        """
        learner, empty = self.learner, np.empty(0)
        if learner is None:
            return raw, spread, RowUnits(self.n_rows, SEARCHING, None, empty)
        units = series.units_of(self.state, self._lags, np.array([slot]))
        units.candidates[0, OWN] = 0.0
        if units.scale[0] > 0.0:
            units.candidates[0, OWN], _ = learner.predict_one(self._inputs(x[None, :], units)[0])
        self._complete(units, np.array([raw]))
        y_hat, deviation = series.mixed(self.state, units)
        prediction = RowUnits(self.n_rows, self.version, units, learner.context())
        return float(y_hat[0]), float(deviation[0]), prediction

    def learn_row(
        self, x: np.ndarray, y: float, slot: int, prediction: RowUnits, y_hat: float, is_last: bool
    ) -> None:
        """Learn the target y of the row x (d + lags,).

        Parameters
        ----------
        x, y, slot
            Row, its target or NaN, and its slot.
        prediction
            Third result of ``predict_row`` for this row.
        y_hat
            First result of ``predict_row`` for this row.
        is_last
            Whether this prediction is the newest one, and no row was learned after it.
        """
        if self._due and prediction.round >= self._due:
            self._change()
        raw = y_hat if prediction.units is None else float(prediction.units.candidates[0, RAW])
        is_old = prediction.version != self.version  # seasons were found after the prediction
        if is_old and not self._late:
            y_hat, _, prediction = self.predict_row(x, slot, raw, np.nan)
            is_last = True
        rounds = np.array([prediction.round])
        self._keep(x[None, :], np.array([raw]), np.array([y]), np.array([slot]), rounds)
        learner, units, label = self.learner, prediction.units, np.array([y])
        if learner is None:
            return
        # With late targets, the past targets that an old prediction could read are not known.
        if units is not None and not (is_old and self._late):
            scaled = _scaled(units, label)[0]
            if np.isfinite(scaled):
                row = self._inputs(x[None, :], units)[0]
                learner.learn_one(row, scaled, None if is_last else prediction.context)
            series.learn_mixture(self.state, units, np.array([y_hat]), label, rounds)
            if self.state.group[-1] > 1.0:  # as ``forgets`` of ``learn_groups``
                learner.forget_context()
        series.learn_targets(self.state, np.array([slot]), label)

    def ends_of_row(
        self, x: np.ndarray, part: RowUnits, y_hat: float, half: float, spread: float, far: bool
    ) -> tuple[Ends, RowUnits]:
        """Return the interval of a row that ``predict_row`` predicted, and a copy of ``part``.

        The copy has the learned width of the row in its field ``width``.

        Parameters
        ----------
        x, part, y_hat, spread
            Row, and the results of ``predict_row``.
        half
            Half-width of the plain interval, in units of the series.
        far
            Whether the row has an input far outside its usual range.
        """
        units = part.units
        assert self.widths and units
        row = self._inputs(x[None, :], units)[0]
        (mean,), (deviation,) = _in_units(units, y_hat, spread)
        found, width = self.widths.predict_one(row, float(mean), half, float(deviation), far)
        ends = Ends(*(float(end[0]) for end in _of_target(units, found)))
        return ends, part._replace(width=tuple(width))

    def learn_width(
        self, x: np.ndarray, part: RowUnits, y_hat: float, y: float, far: bool, is_last: bool
    ) -> None:
        """Learn the error of a prediction.

        Parameters
        ----------
        x, part, y_hat, y, far, is_last
            As in ``ends_of_row`` and ``learn_row``. ``part`` is the second result of
            ``ends_of_row``.
        """
        assert self.widths and part.units
        row = self._inputs(x[None, :], part.units)[0]
        mean, label = part.units.of(np.array([y_hat, y])).tolist()
        width = Width(*part.width)
        self.widths.learn_one(row, mean, width, label, far, is_last, float(part.round))

    # --- Seasons ----------------------------------------------------------------------------------

    def _keep(
        self, X: np.ndarray, raw: np.ndarray, y: np.ndarray, slots: np.ndarray, rounds: np.ndarray
    ) -> None:
        """Count learned rows, and store them until the last search for seasons has ended.

        The arguments are the fields of ``FirstRows``, for a block.
        """
        self.n_rows += len(y)
        if self._first is None:
            return
        for parts, array in zip(self._first, (X[:, : self._d], raw, y, slots, rounds), strict=True):
            parts.append(array.copy())
        self._n_known += int(np.isfinite(y).sum())
        is_due = self._replay(len(y)) if self._successor else self._n_known >= self._next
        if is_due and not self._due:
            self._due = self.n_rows

    def _change(self) -> None:
        """Use the prepared units with new seasons, if any. Then search if a search is due."""
        self._due = 0
        if made := self._successor:
            self._replay(self.n_rows, n_left=0)
            self.seasons, self.version, self._lags = made.seasons, made.version, made._lags
            self.state, self.learner, self._successor = made.state, made.learner, None
            self.widths = made.widths
            if self._intervals and made._intervals:
                self._intervals.restore(made._intervals.arrays())
            if self._next == NEVER:
                self._first = None
        if self._first is not None and self._n_known >= self._next:
            self._search()

    def _search(self) -> None:
        """Search for seasons. If new ones are found, prepare units with them.

        The first search takes place after EARLY targets, and a further search each time their
        number has doubled. The last search is the first with at least SEARCHED targets. In a stream
        of several series without a season, it is the first with at least MOST targets.

        If a new season differs by at most 5 % from a known season, only one of the two remains: the
        known season if the dates suggest its length, and otherwise the new season, which is found
        from more targets.
        """
        assert self._first is not None
        first = self._first.joined(self._d)
        has = first[SLOTS] != NO_SLOT
        self._first = FirstRows(*([array[has]] for array in first))
        X, _, y, slots, _ = self._first.joined(self._d)
        likely = self._likely(X, slots)
        found = series.find_seasons(y, slots, likely)
        kept = [k for k in self.seasons if k in (*likely, *found) or not _is_near(k, found)]
        new = [m for m in found if not _is_near(m, kept)]
        seasons, n = tuple(sorted((*kept, *new))), self._next
        goes_on = n < SEARCHED or (self._has_series and not seasons and n < MOST)
        self._next = 2 * n if goes_on else NEVER
        if new:
            self._successor = self._with(seasons)
        elif not goes_on:
            self._first = None

    def _with(self, seasons: tuple[int, ...]) -> TargetSeries:
        """Return a new ``TargetSeries`` with these seasons, which has learned no row."""
        made = copy.copy(self)
        made.seasons, made.n_rows, made._first, made._successor = seasons, NOT_BEGUN, None, None
        made._intervals = copy.deepcopy(self._no_errors)
        made._begin()
        return made

    def _replay(self, n_times: int, n_left: int = 1) -> bool:
        """Let the successor (units with new seasons) learn stored rows, in ``n_times`` turns.

        A turn ends after REPLAYED rows. It ends earlier if trees grow, which takes up to 10 ms. The
        newest ``n_left`` groups are left out, because the newest group may be incomplete. Return
        whether all other groups are learned.
        """
        made, stored = self._successor, self._first
        assert made and made.learner and stored
        if made.n_rows == NOT_BEGUN:  # making them took as long as a turn
            made.n_rows = 0
            return False
        first, trees = stored.joined(self._d), made.learner.state.model.trees
        ends = [*(np.flatnonzero(np.diff(first[-1])) + 1).tolist(), len(first[-1])]
        ends = ends[bisect.bisect_right(ends, made.n_rows) :]
        for _ in range(n_times):
            n, grew = made.n_rows + REPLAYED, 0
            while len(ends) > n_left and made.n_rows < n and not grew:
                grew = trees.begun[0]
                made._learn_again(first, ends.pop(0))
                grew |= trees.begun[0]
        return len(ends) <= n_left

    def _learn_again(self, first: Sequence[np.ndarray], stop: int) -> None:
        """Learn one more group of stored rows, which ends before row ``stop``.

        ``first`` contains all stored rows.
        """
        group = np.arange(self.n_rows, stop)
        X, raw, y, slots, rounds = (array[group[first[SLOTS][group] != NO_SLOT]] for array in first)
        far = np.zeros(len(y), dtype=np.bool_)
        block = Block(X, X, y, far, slots, np.unique([0, len(y)]))
        found, units = self.learn(block, Trace(raw, np.isfinite(y), raw))
        if self._intervals and units is not None:
            half = self._intervals.half_widths(far)
            in_units = found._replace(y_hat=units.of(found.y_hat))
            self._intervals.follow(in_units, units.of(y), far, rounds)
            if self.widths:
                self.follow_widths(block, found, units, half, rounds)
        self.n_rows = stop

    def _likely(self, X: np.ndarray, slots: np.ndarray) -> tuple[int, ...]:
        """Return the seasons that the dates of the rows X (n, d) suggest, by their spacing."""
        order = np.argsort(slots, kind="stable")
        steps = np.diff(X[order][:, self._days], axis=0)[np.diff(slots[order]) == 0]
        steps = steps[np.isfinite(steps) & (steps > 0.0)]
        return series.calendar_seasons(float(np.median(steps))) if len(steps) else ()

    # --- Files ------------------------------------------------------------------------------------

    def arrays(self, slots: np.ndarray) -> dict[str, np.ndarray]:
        """Return copies of the learned state of the slots (S,) in use, for ``restore``."""
        counts = np.array([self.n_rows, self._n_known, self._next, self._due])
        found = {"seasons": np.array(self.seasons, dtype=np.int64), "counts": counts}
        if self.learner:
            found |= named("learner.", snapshot.snapshot(self.learner))
            if self.widths:
                found |= named("widths.", self.widths.arrays())
            found |= named("state.", snapshot.copies(self._state_of(slots)))
        if self._successor:
            found |= named("next.", self._successor.arrays(slots))
            if self._successor._intervals:
                found |= named("next.interval.", self._successor._intervals.arrays())
        if self._first is not None:
            place = np.full(max(self._n_slots, 1) + 1, NO_SLOT)  # by slot; the index NO_SLOT is -1
            place[slots] = np.arange(len(slots))
            first = list(self._first.joined(self._d))
            first[SLOTS] = place[first[SLOTS]]
            found |= dict(zip((f"first.{name}" for name in FirstRows._fields), first, strict=True))
        return found

    def restore(self, kept: Mapping[str, np.ndarray], slots: np.ndarray) -> None:
        """Restore the arrays of a ``TargetSeries`` with the same settings into a new one.

        Raises ``snapshot.Mismatch`` if the arrays do not fit. This object is then unusable.
        """
        if not kept:  # the search is over
            self._first = None
            return
        seasons, counts, first = kept["seasons"], kept["counts"], below("first.", kept)
        longest = kept["state.ring"].shape[-1] if "state.ring" in kept else 0
        if counts.dtype != np.int64 or counts.shape != (4,):
            raise snapshot.Mismatch("counts are four whole numbers")
        if counts.min() < 0 or counts.max() > MOST_COUNT:
            raise snapshot.Mismatch(f"counts holds {counts}, which is not in 0 .. {MOST_COUNT:g}")
        if seasons.dtype != np.int64 or seasons.ndim != 1:
            raise snapshot.Mismatch("seasons are whole numbers")
        if len(seasons) and not 2 <= seasons.min() <= 2 * seasons.max() < longest:
            raise snapshot.Mismatch(f"seasons of {seasons} rows need more than {longest} targets")
        self.n_rows, self._n_known, self._next, self._due = counts.tolist()
        self.seasons = tuple(seasons.tolist())
        if self.learner or self.seasons:
            self._begin()
            own = self._state_of(slots)
            state = below("state.", kept)
            snapshot.require_fit(own, state)
            for name, array in snapshot.named_arrays(self.state):
                array[slots if name in BY_SERIES else ...] = state[name]
            assert self.learner is not None
            snapshot.restore(self.learner, below("learner.", kept))
            if self.widths:
                self.widths.restore(below("widths.", kept))
        self._first = None
        if first:
            self._first = FirstRows(*([first[name]] for name in FirstRows._fields))
            self._require_rows(len(slots))
            self._first.slots[0] = np.append(slots, NO_SLOT)[self._first.slots[0]]
        if following := below("next.", kept):
            self._successor = self._with(())
            self._successor.restore(following, slots)
            if self._successor._intervals:
                self._successor._intervals.restore(below("interval.", following))
            if not first or self._successor.n_rows > len(first["y"]):
                raise snapshot.Mismatch("its next units have learned more rows than it stores")

    def _require_rows(self, n_series: int) -> None:
        """Raise Mismatch unless the stored first rows fit the settings."""
        assert self._first is not None
        X, raw, y, slots, rounds = (parts[0] for parts in self._first)
        n = len(y)
        shapes = [array.shape for array in (X, raw, slots, rounds)]
        kinds = "".join(array.dtype.kind for array in (X, raw, y, slots, rounds))
        if shapes != [(n, self._d), (n,), (n,), (n,)] or kinds != "fffii":
            raise snapshot.Mismatch("its first rows do not fit its settings")
        if n and not NO_SLOT <= slots.min() <= slots.max() < n_series:
            raise snapshot.Mismatch("its first rows belong to series that it does not list")

    def _state_of(self, slots: np.ndarray) -> Series:
        return self.state._replace(numbers=self.state.numbers[slots], ring=self.state.ring[slots])


BY_SERIES = ("numbers", "ring")


def _in_units(units: Units, y_hat: Any, spread: Any) -> tuple[np.ndarray, np.ndarray]:
    return units.of(y_hat), units.of(units.location + spread)


def _of_target(units: Units, ends: Ends) -> Ends:
    """Convert intervals to the unit of the target."""
    low, high, spread = map(units.width, ends)
    return Ends(units.location + low, units.location + high, spread)


def _scaled(units: Units, y: np.ndarray) -> np.ndarray:
    """Return targets y (n,) in units of their series, clipped; NaN for a row without units."""
    return np.clip(units.of(y), -FARTHEST_TARGET, FARTHEST_TARGET)


def _is_near(m: int, lengths: Sequence[int]) -> bool:
    """Return whether m differs from one of the ``lengths`` k by at most NEXT * k."""
    return any(abs(m - k) <= NEXT * k for k in lengths)
