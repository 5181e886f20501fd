"""Compute intervals around the predictions of one target.

The plain intervals of ``AdaptiveIntervals`` have the same width for all rows. The width of
``RowWidths`` is learned, and depends on the row.
"""

from __future__ import annotations

import bisect
import collections
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from omkl.core import conformal, snapshot
from omkl.core.conformal import ALONE, N_FARTHEST, WINDOW, Conformal, IntervalSettings
from omkl.core.hyperparameters import COUNTS, Range
from omkl.core.learner import Learner, Trace, runs_of
from omkl.core.series import Units
from omkl.core.snapshot import below, named
from omkl.online.rows import Block


def rates_of(settings: IntervalSettings) -> tuple[float, ...]:
    """Return the rates at which intervals adapt."""
    return conformal.RATES if settings.rate is None else (settings.rate,)


class IntervalState(NamedTuple):
    """State of ``AdaptiveIntervals``: number of known targets (1,), and state of ``Conformal``."""

    n_known: COUNTS
    conformal: conformal.State


class AdaptiveIntervals:
    """Intervals of one width around the predictions of one learner (``omkl.core.conformal``).

    The width follows a quantile of the absolute errors. Errors are not divided by the standard
    deviation, even if the learner predicts one. Division would make the intervals 4 % worse for
    ``auto`` on real streams and 1 % better for IE-GP (docs/intervals.md).

    Parameters
    ----------
    settings
        Level and rate of the intervals.
    late
        Whether to ignore the first error. Set this if targets are standardised online: before the
        first target there is no scale, so the first error is not comparable with later ones.
    """

    def __init__(self, settings: IntervalSettings, late: bool) -> None:
        self._settings, self._late = settings, int(late)
        self._conformal = Conformal(settings.level, rates_of(settings))
        self._n_known = 0

    def follow(
        self, trace: Trace, y: np.ndarray, far: np.ndarray, groups: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the half-widths of n intervals, each computed before its target is learned.

        Parameters
        ----------
        trace
            Predictions (n,), and whether each target was requested. Targets that were not
            requested are ignored.
        y
            (n,) targets, NaN if unknown.
        far
            (n,) bool, whether each row has an input far outside its usual range.
        groups
            (n,) number that identifies the group of each row, as in ``Conformal.follow``.

        Returns
        -------
        ndarray
            Half-widths (n,), NaN before the first target that is learned.
        """
        known = ~np.isnan(y)
        counts = self._n_known + np.cumsum(known) > self._late
        self._n_known += int(known.sum())
        scored = np.where(counts & trace.asked, y, np.nan)
        return self._conformal.follow(trace.y_hat, scored, far, groups)

    def follow_groups(
        self, trace: Trace, block: Block, units: Units | None, groups: np.ndarray | None
    ) -> np.ndarray:
        """Return half-widths (n,) as ``follow`` does, for rows in groups.

        The half-widths of a group are computed before any of its targets is learned.

        Parameters
        ----------
        trace
            As in ``follow``.
        block
            Rows of one target.
        units
            Units of the rows. Errors are divided by the scale of the row's series; None: they are
            not divided.
        groups
            (n,) number that identifies the group of each row; None: each row is alone.
        """
        y, half = block.y, np.empty(len(block.y))
        if units is not None:
            trace, y = trace._replace(y_hat=units.of(trace.y_hat)), units.of(y)
        for rows, together in runs_of(block.starts):
            part, far = Trace(*(array[rows] for array in trace)), block.far[rows]
            before = self.half_widths(far)
            found = self.follow(part, y[rows], far, None if groups is None else groups[rows])
            half[rows] = before if together else found
        return half

    def follow_one(
        self, y_hat: float, scored: bool, y: float, far: bool, group: float = ALONE
    ) -> None:
        """Learn the error of one prediction, exactly as ``follow`` does.

        Parameters
        ----------
        y_hat, y
            Prediction and target, NaN if missing.
        scored
            Whether the error is learned. If False, only the number of known targets changes.
        far
            Whether the row has an input far outside its usual range.
        group
            Number that identifies the row's group, see ``Conformal.follow``.
        """
        if not math.isnan(y):
            self._n_known += 1
        if scored:
            self._conformal.learn(y_hat, y, far, group)

    @property
    def scores_next(self) -> bool:
        """True if the error of the next prediction is learned when its target arrives."""
        return self._n_known >= self._late

    def half_width(self, far: bool) -> float:
        """Return the half-width of the interval of the next prediction."""
        return self._conformal.half_width(far)

    def half_widths(self, far: np.ndarray) -> np.ndarray:
        """Return the half-widths (n,) of rows, which all use the errors learned so far."""
        return np.where(far, self.half_width(True), self.half_width(False))

    def arrays(self) -> dict[str, np.ndarray]:
        """Return copies of the learned state, for ``restore``."""
        return snapshot.copies(self._state)

    def restore(self, kept: Mapping[str, np.ndarray]) -> None:
        """Restore the state that ``arrays`` returned for intervals with the same settings."""
        snapshot.require_fit(self._state, kept)
        self._n_known = int(kept["n_known"][0])
        self._conformal.restore(below("conformal.", kept))

    @property
    def _state(self) -> IntervalState:
        return IntervalState(np.array([self._n_known]), self._conformal.state)


# --- Widths that depend on the row ----------------------------------------------------------------

N_GROUPS = 4  # groups of rows by their expected error, each with its own scores
WARM_UP = 200  # errors before learned widths may be used
WARM_UP_GROUPS = 50  # and groups of rows with errors, such as dates
FADING = 1.0 - 1.0 / 1000.0  # fading of interval scores per row
OFFSET = 0.001  # times the mean error; added to an error so that its logarithm is finite
RANGE = (-7.0, 4.0)  # logarithms of the least and largest quotient of expected and mean error


class Width(NamedTuple):
    """Numbers that ``RowWidths`` stores with a prediction until its target arrives.

    numbers   (2,) expected logarithm of the absolute error, and half-width of the plain interval
    context   (p,) result of ``Learner.context`` of the learner of widths, at the prediction
    """

    numbers: np.ndarray
    context: np.ndarray


class Ends(NamedTuple):
    """Ends of intervals and expected standard deviations of errors: numbers, or (n,) each."""

    low: Any
    high: Any
    spread: Any

    def above(self, limit: Any) -> Ends:
        """Return the intervals with both ends raised to at least ``limit``, a number or (n,)."""
        return Ends(np.maximum(self.low, limit), np.maximum(self.high, limit), self.spread)


class LeastTarget(NamedTuple):
    """Lower limit of intervals: 0 after 20 targets, as long as no target is negative.

    n       (1,) number of targets so far
    least   (1,) least target so far
    """

    n: COUNTS
    least: np.ndarray

    @property
    def limit(self) -> float:
        """Limit of the ends of the next interval; -inf if there is none."""
        return 0.0 if self.n[0] >= N_FARTHEST and self.least[0] >= 0.0 else -math.inf

    def take_one(self, y: float) -> None:
        """Learn a target."""
        self.n[0] += 1
        self.least[0] = min(float(self.least[0]), y)

    def take(self, y: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Return the limit (n,) of each row, and learn the known targets y (n,).

        The limit of a row uses only targets before its group. ``starts`` is ``Block.starts``.
        """
        known = ~np.isnan(y)
        n = np.append(self.n, self.n + np.cumsum(known))
        least = np.minimum.accumulate(np.append(self.least, np.where(known, y, np.inf)))
        self.n[0], self.least[0] = n[-1], least[-1]
        before = np.repeat(starts[:-1], np.diff(starts))
        return np.where((n >= N_FARTHEST) & (least >= 0.0), 0.0, -np.inf)[before]


POSITIVE = Annotated[np.ndarray, Range(0.0, math.inf)]


class WidthState(NamedTuple):
    """State of ``RowWidths``, without its learner and its conformal scores.

    n          (2,) number of errors so far, and number of their groups of rows, such as dates
    group      (1,) number that identifies the newest of these groups, see ``Conformal.follow``
    error      (1,) running mean of absolute errors, over about 1,000 rows
    scores     (2,) fading sums of the interval scores of the plain and the learned intervals
    n_squares, squares   (N_GROUPS,) number and running mean of (error / expected error) ** 2 in
               each quarter of the rows by expected error
    outputs    (WINDOW,) newest outputs of the learner, in order of arrival; NaN for empty entries
    """

    n: COUNTS
    group: np.ndarray
    error: POSITIVE
    scores: POSITIVE
    n_squares: COUNTS
    squares: POSITIVE
    outputs: np.ndarray


class RowWidths:
    """Intervals whose width depends on the row.

    A learner predicts the logarithm of the absolute error of a row, which gives the expected error.
    Each error is divided by the expected error of its row. Two conformal intervals follow these
    quotients: one for targets below the prediction and one for targets above. Rows are divided into
    quarters by the rank of their expected error among the last 1,000 rows. Each quarter has its own
    pair of conformal intervals. The pairs correct the learner if it underestimates large errors.

    Each interval has an interval score. After a warm-up, the learned interval is used as long as
    the fading sum of its scores is less than the sum of the scores of the plain interval.

    Parameters
    ----------
    settings
        Level and rate of the intervals.
    learner
        New core learner with the same inputs as the learner of the targets.
    """

    def __init__(self, settings: IntervalSettings, learner: Learner) -> None:
        self._learner, self._penalty = learner, 2.0 / (1.0 - settings.level)
        level, rates = 0.5 + 0.5 * settings.level, rates_of(settings)
        self._sides = [(Conformal(level, rates), Conformal(level, rates)) for _ in range(N_GROUPS)]
        self._n, self._n_groups, self._group, self._error = 0, 0, ALONE, 0.0
        self._scores, self._squares = [0.0, 0.0], [0.0] * N_GROUPS
        self._n_squares = [0] * N_GROUPS
        self._outputs: collections.deque[float] = collections.deque(maxlen=WINDOW)
        self._ranked: list[float] = []  # the same numbers ascending

    @property
    def is_used(self) -> bool:
        """True if the next interval has learned widths. If False, it is the plain interval."""
        is_warm = self._n >= WARM_UP and self._n_groups >= WARM_UP_GROUPS
        return is_warm and self._scores[1] < self._scores[0]

    def predict_one(
        self, row: np.ndarray, y_hat: float, half: float, spread: float, far: bool
    ) -> tuple[Ends, Width]:
        """Return the interval of the next row, and the numbers that ``learn_one`` needs.

        Parameters
        ----------
        row
            Inputs (d,) of the learner.
        y_hat, half, spread
            Prediction, half-width of its plain interval, and its standard deviation.
        far
            Whether the row has an input far outside its usual range.
        """
        output, _ = self._learner.predict_one(row)
        width = Width(np.array([output, half]), self._learner.context())
        return self._next_ends(output, y_hat, half, spread, far), width

    def predict(
        self,
        rows: np.ndarray,
        y_hat: np.ndarray,
        half: np.ndarray,
        spread: np.ndarray,
        far: np.ndarray,
    ) -> Ends:
        """Return the intervals of rows, which all use the errors learned so far. Learn nothing.

        Parameters
        ----------
        rows
            Inputs (n, d).
        y_hat, half, spread
            Predictions (n,), half widths (n,) and standard deviations (n,).
        far
            Mask (n,) of the rows with an input far outside its usual range.
        """
        columns = (self._learner.predict(rows), y_hat, half, spread, far)
        listed = zip(*(column.tolist() for column in columns), strict=True)
        return _stacked([self._next_ends(*row) for row in listed])

    def learn_one(
        self, row: np.ndarray, y_hat: float, width: Width, y: float, far: bool, is_last: bool,
        group: float = ALONE,
    ) -> None:  # fmt: skip
        """Learn the error of a prediction.

        Parameters
        ----------
        row, y_hat, far
            As in ``predict_one``.
        width
            Second result of ``predict_one``.
        y
            Target.
        is_last
            Whether this prediction is the newest one, and no row was learned after it.
        group
            Number that identifies the row's group, see ``Conformal.follow``.
        """
        (output, half), error = width.numbers.tolist(), y - y_hat
        if math.isnan(half):  # the plain intervals have no error yet
            return
        logarithm = _logarithm(abs(error), self._error)
        if not math.isnan(logarithm):
            self._learner.learn_one(row, logarithm, None if is_last else width.context)
        scale, quarter = self._scale(output, self._error)
        self._rank(output)
        below, above = (
            scale * side.learn(0.0, max(part / scale, 0.0), far, group)
            for side, part in zip(self._sides[quarter], (-error, error), strict=True)
        )
        self._error = _mean(self._error, abs(error), self._n)
        self._count(error, half, below, above, scale, quarter, group)

    def follow(
        self, rows: np.ndarray, trace: Trace, half: np.ndarray, y: np.ndarray, far: np.ndarray,
        groups: np.ndarray | None = None,
    ) -> Ends:  # fmt: skip
        """Return the intervals of n predictions, each computed before its target is learned.

        The results equal, to the last bit, those of ``predict_one`` and ``learn_one`` for each row.

        Parameters
        ----------
        rows, far
            Inputs (n, d) of the learner, and a mask (n,) of the rows with an input far outside its
            usual range.
        trace, half
            Predictions, and half-widths of their plain intervals, (n,).
        y
            (n,) targets, NaN where unknown.
        groups
            (n,) number that identifies the group of each row; None: each row is alone.
        """
        n = len(y)
        groups = np.full(n, ALONE) if groups is None else groups
        errors = np.where(trace.asked & ~np.isnan(half), y - trace.y_hat, np.nan)
        means, logarithms = np.empty(n), np.full(n, np.nan)
        mean, n_errors = self._error, self._n
        for s, size in enumerate(np.abs(errors).tolist()):
            means[s] = mean
            if not math.isnan(size):
                logarithms[s] = _logarithm(size, mean)
                mean, n_errors = _mean(mean, size, n_errors), n_errors + 1
        self._error = mean
        outputs = self._learner.partial_fit(rows, logarithms).y_hat
        scales, quarters = np.empty(n), np.empty(n, dtype=np.int64)
        for s, output in enumerate(outputs.tolist()):
            scales[s], quarters[s] = self._scale(output, float(means[s]))
            if not math.isnan(errors[s]):
                self._rank(output)
        sides = np.empty((2, n))
        for group, pair in enumerate(self._sides):
            at = np.flatnonzero(quarters == group)
            for side, one, sign in zip(sides, pair, (-1.0, 1.0), strict=True):
                scores = np.maximum(sign * errors[at] / scales[at], 0.0)
                side[at] = scales[at] * one.follow(np.zeros(len(at)), scores, far[at], groups[at])
        ends = []
        columns = (trace.y_hat, half, *sides, trace.spread, scales, quarters, errors, groups)
        for row in zip(*(column.tolist() for column in columns), strict=True):
            y_hat, plain, below, above, spread, scale, quarter, error, group = row
            ends.append(self._ends(y_hat, plain, (below, above), spread, scale, quarter))
            if not math.isnan(error):
                self._count(error, plain, below, above, scale, quarter, group)
        return _stacked(ends)

    def follow_groups(
        self, block: Block, trace: Trace, half: np.ndarray, groups: np.ndarray
    ) -> Ends:
        """Return intervals as ``follow`` does, for rows that are predicted group by group.

        Parameters
        ----------
        block
            Rows as the learner reads them, and targets in the unit of the predictions.
        trace, half, groups
            As in ``follow``.
        """
        found = []
        for at, together in runs_of(block.starts):
            part, part_trace = block.part(at), Trace(*(array[at] for array in trace))
            if not together:
                parts = part.X, part_trace, half[at], part.y, part.far, groups[at]
                found.append(self.follow(*parts))
                continue
            context, outputs = self._learner.context(), self._learner.predict(part.ahead)
            y_hat, asked, spread = (array.tolist() for array in part_trace)
            columns = outputs.tolist(), y_hat, half[at].tolist(), spread, part.far.tolist()
            found.append(_stacked([self._next_ends(*row) for row in zip(*columns, strict=True)]))
            rows = zip(part.X, *columns, part.y.tolist(), asked, groups[at].tolist(), strict=True)
            for row, output, mean, plain, _, far, y, is_asked, group in rows:
                if is_asked and not math.isnan(y):
                    width = Width(np.array([output, plain]), context)
                    self.learn_one(row, mean, width, y, far, False, group)
        return Ends(*map(np.concatenate, zip(*found, strict=True)))

    def _next_ends(
        self, output: float, y_hat: float, half: float, spread: float, far: bool
    ) -> Ends:
        """Return the interval of the next row.

        ``output`` is the expected logarithm of its absolute error.
        """
        scale, group = self._scale(output, self._error)
        sides = (
            [scale * side.half_width(far) for side in self._sides[group]] if self.is_used else ()
        )
        return self._ends(y_hat, half, sides, spread, scale, group)

    def _scale(self, output: float, mean: float) -> tuple[float, int]:
        """Return the expected error of a row, and the index of its quarter by expected error.

        ``output`` is the expected logarithm of the absolute error, and ``mean`` the mean absolute
        error so far. The expected error is NaN if ``output`` is NaN or ``mean`` is 0.
        """
        if not mean > 0.0 or math.isnan(output):
            return math.nan, 0
        centre = math.log(mean)
        place = bisect.bisect_left(self._ranked, output)
        group = min(N_GROUPS - 1, N_GROUPS * place // max(1, len(self._ranked)))
        return math.exp(min(max(output, centre + RANGE[0]), centre + RANGE[1])), group

    def _rank(self, output: float) -> None:
        """Add an output of the learner to the last 1,000 outputs, by which rows are grouped."""
        if math.isnan(output):
            return
        if len(self._outputs) == WINDOW:
            del self._ranked[bisect.bisect_left(self._ranked, self._outputs[0])]
        self._outputs.append(output)
        bisect.insort(self._ranked, output)

    def _ends(
        self,
        y_hat: float,
        half: float,
        sides: Sequence[float],
        spread: float,
        scale: float,
        group: int,
    ) -> Ends:
        """Return the interval around y_hat.

        If learned widths are used, ``sides`` are the widths below and above y_hat, and the standard
        deviation comes from the expected error ``scale`` and from ``group``, the index of the row's
        quarter. Otherwise both widths are ``half``, and the standard deviation is ``spread``.
        """
        below = above = half
        if self.is_used and not math.isnan(sum(sides)):
            below, above = sides
            spread = scale * math.sqrt(self._squares[group])
        return Ends(y_hat - below, y_hat + above, spread)

    def _count(
        self, error: float, half: float, below: float, above: float, scale: float, quarter: int,
        group: float,
    ) -> None:  # fmt: skip
        """Learn the error of a row, and add the interval scores of its two intervals.

        ``error`` is the target minus the prediction. ``half`` is the half-width of the plain
        interval. ``below`` and ``above`` are the widths of the learned interval. ``scale`` is the
        expected error of the row, and ``quarter`` the index of its quarter by expected error.
        ``group`` identifies the rows that were predicted together, see ``Conformal.follow``.
        """
        self._n += 1
        self._n_groups += group < 0.0 or group != self._group
        self._group = group
        if math.isnan(scale):
            return
        size = error / scale
        self._squares[quarter] = _mean(
            self._squares[quarter], size * size, self._n_squares[quarter]
        )
        self._n_squares[quarter] += 1
        if not math.isnan(below + above):
            plain = 2.0 * half + self._penalty * max(0.0, abs(error) - half)
            learned = below + above + self._penalty * max(0.0, error - above, -error - below)
            self._scores = [FADING * self._scores[0] + plain, FADING * self._scores[1] + learned]

    # --- Files ------------------------------------------------------------------------------------

    def arrays(self) -> dict[str, np.ndarray]:
        """Return copies of the learned state, for ``restore``."""
        found = named("learner.", snapshot.snapshot(self._learner))
        for group, pair in enumerate(self._sides):
            for side, one in enumerate(pair):
                found |= named(f"sides.{group}.{side}.", snapshot.copies(one.state))
        return found | snapshot.copies(self._state)

    def restore(self, kept: Mapping[str, np.ndarray]) -> None:
        """Restore the state that ``arrays`` returned for an object with the same settings."""
        snapshot.restore(self._learner, below("learner.", kept))
        for group, pair in enumerate(self._sides):
            for side, one in enumerate(pair):
                one.restore(below(f"sides.{group}.{side}.", kept))
        own = self._state
        snapshot.require_fit(own, {name: kept[name] for name in own._fields})
        state = WidthState(*(kept[name] for name in own._fields))
        self._n, self._n_groups = state.n.tolist()
        self._group, self._error = float(state.group[0]), float(state.error[0])
        self._scores, self._squares = state.scores.tolist(), state.squares.tolist()
        self._n_squares = state.n_squares.tolist()
        self._outputs.clear()
        self._outputs.extend(state.outputs[~np.isnan(state.outputs)].tolist())
        self._ranked = sorted(self._outputs)

    @property
    def _state(self) -> WidthState:
        outputs = np.full(WINDOW, np.nan)
        outputs[: len(self._outputs)] = self._outputs
        return WidthState(
            n=np.array([self._n, self._n_groups]),
            group=np.array([float(self._group)]),
            error=np.array([self._error]),
            scores=np.array(self._scores),
            n_squares=np.array(self._n_squares),
            squares=np.array(self._squares),
            outputs=outputs,
        )


def _logarithm(size: float, mean: float) -> float:
    """Return log(size + OFFSET * mean), the target of the learner of widths.

    ``size`` is the absolute error of a row, and ``mean`` the mean absolute error so far. Return NaN
    if both are 0.
    """
    total = size + OFFSET * mean
    return math.log(total) if total > 0.0 else math.nan


def _mean(mean: float, number: float, n: int) -> float:
    """Return the running mean over about 1,000 numbers.

    ``mean`` is the mean of the n numbers before ``number``.
    """
    return mean + (number - mean) / min(n + 1, WINDOW)


def _stacked(ends: Sequence[Ends]) -> Ends:
    """Stack n intervals into one ``Ends`` with arrays (n,)."""
    return Ends(*np.array(ends, dtype=np.float64).reshape(-1, 3).T)
