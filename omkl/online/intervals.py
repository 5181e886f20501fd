"""Intervals around the predictions of one target, of one width or of a width that is learned."""

from __future__ import annotations

import bisect
import collections
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from omkl.core import conformal, snapshot
from omkl.core.conformal import N_FARTHEST, WINDOW, Conformal, IntervalSettings
from omkl.core.hyperparameters import COUNTS, Range
from omkl.core.learner import Learner, Trace, runs_of
from omkl.core.series import Units
from omkl.core.snapshot import below, named


def rates_of(settings: IntervalSettings) -> tuple[float, ...]:
    """Return the rates at which intervals adapt."""
    return conformal.RATES if settings.rate is None else (settings.rate,)


class IntervalState(NamedTuple):
    """State of ``AdaptiveIntervals``, and the number of known targets (1,)."""

    n_known: COUNTS
    conformal: conformal.State


class AdaptiveIntervals:
    """Intervals (``omkl.core.conformal``) around the predictions of one learner.

    Scores are plain errors, even for a learner with a spread. Dividing by the spread is 4 % worse
    around ``auto`` on real streams and 1 % better around IE-GP (docs/intervals.md).

    Parameters
    ----------
    settings
        Level and rate.
    late
        Whether to learn from the second label on. With online scaling the first error has no unit.
    """

    def __init__(self, settings: IntervalSettings, late: bool) -> None:
        self._settings, self._late = settings, int(late)
        self.restart()

    def restart(self) -> None:
        """Forget all targets."""
        self._conformal = Conformal(self._settings.level, rates_of(self._settings))
        self._n_known = 0

    def follow(self, trace: Trace, y: np.ndarray, far: np.ndarray) -> np.ndarray:
        """Return half widths of n predictions, each before its label is learned.

        Parameters
        ----------
        trace
            Predictions (n,), and whether each label was requested. Other labels are ignored.
        y
            (n,) labels, NaN for none.
        far
            (n,) bool, rows far out.

        Returns
        -------
        ndarray
            (n,), NaN before the first label that counts.
        """
        known = ~np.isnan(y)
        counts = self._n_known + np.cumsum(known) > self._late
        self._n_known += int(known.sum())
        return self._conformal.follow(trace.y_hat, np.where(counts & trace.asked, y, np.nan), far)

    def follow_groups(
        self,
        trace: Trace,
        y: np.ndarray,
        far: np.ndarray,
        starts: np.ndarray,
        units: Units | None,
    ) -> np.ndarray:
        """Return half widths as ``follow`` does; rows of a group have those before its targets.

        Parameters
        ----------
        trace, y, far
            As of ``follow``.
        starts
            (G + 1,) first row of each group, and n.
        units
            Units of the rows, in which errors are scored; None: those of the target.
        """
        scored, half = trace, np.empty(len(y))
        if units is not None:
            scored, y = trace._replace(y_hat=units.of(trace.y_hat)), units.of(y)
        for rows, together in runs_of(starts):
            part = Trace(*(array[rows] for array in scored))
            if together:
                half[rows] = self.follow(part, np.full_like(y[rows], np.nan), far[rows])
            learned = self.follow(part, y[rows], far[rows])
            half[rows] = half[rows] if together else learned
        return half if units is None else units.width(half)

    def follow_one(self, y_hat: float, scored: bool, y: float, far: bool) -> None:
        """Learn one round as ``follow`` does, to the last bit, if it is ``scored``."""
        if not math.isnan(y):
            self._n_known += 1
        if scored:
            self._conformal.learn(y_hat, y, far)

    @property
    def scores_next(self) -> bool:
        """True if the error of the next prediction will be learned."""
        return self._n_known >= self._late

    def half_width(self, far: bool) -> float:
        """Return half the width of the interval of the next prediction."""
        return self._conformal.half_width(far)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return copies of the learned state, for ``restore``."""
        return snapshot.copies(self._state)

    def restore(self, kept: Mapping[str, np.ndarray]) -> None:
        """Restore the state of ``arrays`` of the same rates."""
        snapshot.require_fit(self._state, kept)
        self._n_known = int(kept["n_known"][0])
        self._conformal.restore(below("conformal.", kept))

    @property
    def _state(self) -> IntervalState:
        return IntervalState(np.array([self._n_known]), self._conformal.state)


# --- Widths that depend on the row ----------------------------------------------------------------

N_GROUPS = 4  # groups of rows by their expected error, each with scores of its own
WARM_UP = 200  # errors before learned widths may be used
FADING = 1.0 - 1.0 / 1000.0  # of interval scores, per row
OFFSET = 0.001  # mean errors that are added to an error, so that its logarithm is finite
RANGE = (-7.0, 4.0)  # logarithms of the least and largest expected error, in mean errors


class Width(NamedTuple):
    """Numbers of a predicted row that ``RowWidths`` needs when the target comes.

    numbers   (2,) output of the learner, and half the width of the plain interval
    context   (p,) of the learner at the prediction
    """

    numbers: np.ndarray
    context: np.ndarray


class Ends(NamedTuple):
    """Ends of an interval, and the expected standard deviation of the error; or (n,) of each."""

    low: Any
    high: Any
    spread: Any


POSITIVE = Annotated[np.ndarray, Range(0.0, math.inf)]


class WidthState(NamedTuple):
    """State of ``RowWidths`` besides its learner and its scores.

    n          (1,) number of errors
    error      (1,) running mean of absolute errors, over about 1,000 rows
    scores     (2,) fading sums of the interval scores of plain and learned widths
    n_squares, squares   (N_GROUPS,) number and running mean of squared errors, in expected errors
    least      (1,) least target
    outputs    (WINDOW,) last outputs of the learner, in order of arrival; NaN for none
    """

    n: COUNTS
    error: POSITIVE
    scores: POSITIVE
    n_squares: COUNTS
    squares: POSITIVE
    least: np.ndarray
    outputs: np.ndarray


class RowWidths:
    """Intervals whose width depends on the row, used while they are better than plain ones.

    A learner predicts the logarithm of the absolute error of a row. Errors in units of this
    expected error have conformal intervals, one for errors below the prediction and one for errors
    above. Rows belong to four groups by the rank of their expected error among the last 1,000. Each
    group has its own scores, which correct the learner where it underrates the extremes. Learned
    widths are used while the fading sum of their interval scores is less than that of the plain
    intervals. From 20 targets on, no end is negative while no target was.

    Parameters
    ----------
    settings
        Level and rate of the intervals.
    learner
        Fresh learner of the same rows.
    ends_at_zero
        Whether ends are 0 or more while targets are; False for transformed targets.
    """

    def __init__(
        self, settings: IntervalSettings, learner: Learner, ends_at_zero: bool = True
    ) -> None:
        self._fewest = N_FARTHEST if ends_at_zero else math.inf  # targets for an end at 0
        self._learner, self._penalty = learner, 2.0 / (1.0 - settings.level)
        level, rates = 0.5 + 0.5 * settings.level, rates_of(settings)
        self._sides = [(Conformal(level, rates), Conformal(level, rates)) for _ in range(N_GROUPS)]
        self._n, self._error, self._least = 0, 0.0, math.inf
        self._scores, self._squares = [0.0, 0.0], [0.0] * N_GROUPS
        self._n_squares = [0] * N_GROUPS
        self._outputs: collections.deque[float] = collections.deque(maxlen=WINDOW)
        self._ranked: list[float] = []  # the same numbers ascending

    @property
    def is_used(self) -> bool:
        """True if the width of the next row is a learned one."""
        return self._n >= WARM_UP and self._scores[1] < self._scores[0]

    def predict_one(
        self, row: np.ndarray, y_hat: float, half: float, spread: float, far: bool
    ) -> tuple[Ends, Width]:
        """Return the ends and the spread of a prediction of the next row, and its width.

        Parameters
        ----------
        row
            Row (d,) as the learner reads it.
        y_hat, half, spread
            Prediction, half the width of its plain interval, and its standard deviation.
        far
            Whether the row is far out.
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
        """Return ends and spreads (n,) of rows (n, d), each as the next. Nothing changes."""
        columns = (self._learner.predict(rows), y_hat, half, spread, far)
        listed = zip(*(column.tolist() for column in columns), strict=True)
        return _stacked([self._next_ends(*row) for row in listed])

    def learn_one(
        self, row: np.ndarray, y_hat: float, width: Width, y: float, far: bool, is_last: bool
    ) -> None:
        """Learn the error of a prediction.

        Parameters
        ----------
        row, y_hat, far
            As of ``predict_one``.
        width
            Width of the prediction.
        y
            Target.
        is_last
            Whether this row was predicted last, and nothing was learned since.
        """
        (output, half), error = width.numbers.tolist(), y - y_hat
        if math.isnan(half):  # the plain intervals have no error yet
            return
        logarithm = _logarithm(abs(error), self._error)
        if not math.isnan(logarithm):
            if is_last:
                self._learner.learn_one(row, logarithm)
            else:
                self._learner.learn_late(row, logarithm, width.context)
        scale, group = self._scale(output, self._error)
        self._rank(output)
        below, above = (
            scale * side.learn(0.0, max(part / scale, 0.0), far)
            for side, part in zip(self._sides[group], (-error, error), strict=True)
        )
        self._error = _mean(self._error, abs(error), self._n)
        self._count(error, half, below, above, scale, group, y)

    def follow(
        self, rows: np.ndarray, trace: Trace, half: np.ndarray, y: np.ndarray, far: np.ndarray
    ) -> Ends:
        """Return ends and spreads (n,) of predictions, each before its target is learned.

        The numbers are those of ``predict_one`` and ``learn_one`` row by row, to the last bit.

        Parameters
        ----------
        rows, far
            Rows (n, d) as the learner reads them, and whether each is far out.
        trace, half
            Predictions, and half the width of their plain intervals, (n,).
        y
            (n,) targets; NaN for none.
        """
        n = len(y)
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
        scales, groups = np.empty(n), np.empty(n, dtype=np.int64)
        for s, output in enumerate(outputs.tolist()):
            scales[s], groups[s] = self._scale(output, float(means[s]))
            if not math.isnan(errors[s]):
                self._rank(output)
        sides = np.empty((2, n))
        for group, pair in enumerate(self._sides):
            at = np.flatnonzero(groups == group)
            for side, one, sign in zip(sides, pair, (-1.0, 1.0), strict=True):
                scores = np.maximum(sign * errors[at] / scales[at], 0.0)
                side[at] = scales[at] * one.follow(np.zeros(len(at)), scores, far[at])
        ends = []
        columns = (trace.y_hat, half, *sides, trace.spread, scales, groups, errors, y)
        for row in zip(*(column.tolist() for column in columns), strict=True):
            y_hat, plain, below, above, spread, scale, group, error, target = row
            ends.append(self._ends(y_hat, plain, (below, above), spread, scale, group))
            if not math.isnan(error):
                self._count(error, plain, below, above, scale, group, target)
        return _stacked(ends)

    def _next_ends(
        self, output: float, y_hat: float, half: float, spread: float, far: bool
    ) -> Ends:
        """Return the ends of the next row, for which the learner says ``output``."""
        scale, group = self._scale(output, self._error)
        sides = (
            [scale * side.half_width(far) for side in self._sides[group]] if self.is_used else ()
        )
        return self._ends(y_hat, half, sides, spread, scale, group)

    def _scale(self, output: float, mean: float) -> tuple[float, int]:
        """Return the expected error for an output of the learner, NaN for none, and its group."""
        if not mean > 0.0 or math.isnan(output):
            return math.nan, 0
        centre = math.log(mean)
        place = bisect.bisect_left(self._ranked, output)
        group = min(N_GROUPS - 1, N_GROUPS * place // max(1, len(self._ranked)))
        return math.exp(min(max(output, centre + RANGE[0]), centre + RANGE[1])), group

    def _rank(self, output: float) -> None:
        """Put an output of the learner into the window by which rows are grouped."""
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
        """Return the ends of the better interval; ``sides`` is not read if it is the plain one."""
        below = above = half
        if self.is_used and not math.isnan(sum(sides)):
            below, above = sides
            spread = scale * math.sqrt(self._squares[group])
        least = 0.0 if self._least >= 0.0 and self._n >= self._fewest else -math.inf
        return Ends(max(y_hat - below, least), max(y_hat + above, least), spread)

    def _count(
        self,
        error: float,
        half: float,
        below: float,
        above: float,
        scale: float,
        group: int,
        y: float,
    ) -> None:
        """Count an error, and score the plain and the learned interval of its row."""
        self._n += 1
        self._least = min(self._least, y)
        if math.isnan(scale):
            return
        size = error / scale
        self._squares[group] = _mean(self._squares[group], size * size, self._n_squares[group])
        self._n_squares[group] += 1
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
        """Restore the state of ``arrays`` of the same settings."""
        snapshot.restore(self._learner, below("learner.", kept))
        for group, pair in enumerate(self._sides):
            for side, one in enumerate(pair):
                one.restore(below(f"sides.{group}.{side}.", kept))
        own = self._state
        snapshot.require_fit(own, {name: kept[name] for name in own._fields})
        state = WidthState(*(kept[name] for name in own._fields))
        self._n, self._error, self._least = (
            int(state.n[0]), float(state.error[0]), float(state.least[0]),
        )  # fmt: skip
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
            n=np.array([self._n]),
            error=np.array([self._error]),
            scores=np.array(self._scores),
            n_squares=np.array(self._n_squares),
            squares=np.array(self._squares),
            least=np.array([self._least]),
            outputs=outputs,
        )


def _logarithm(size: float, mean: float) -> float:
    """Return the logarithm of an absolute error that the learner predicts; NaN if all were 0."""
    total = size + OFFSET * mean
    return math.log(total) if total > 0.0 else math.nan


def _mean(mean: float, number: float, n: int) -> float:
    """Return a running mean over about 1,000 numbers; n came before ``number``."""
    return mean + (number - mean) / min(n + 1, WINDOW)


def _stacked(ends: Sequence[Ends]) -> Ends:
    """Return arrays (n,) of n ends."""
    return Ends(*np.array(ends, dtype=np.float64).reshape(-1, 3).T)
