"""Learn one target of scaled rows. An ``OnlineLearner`` has a ``TargetLearner`` per output."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from omkl.core import snapshot
from omkl.core.learner import Learner, Trace
from omkl.core.robust_moments import FAR
from omkl.core.snapshot import below, named
from omkl.datasets.scaling import KnownTargets, LevelMeans, TargetScaler, softened
from omkl.online.intervals import AdaptiveIntervals, Ends, LeastTarget, RowWidths, Width
from omkl.online.predictions import Predictions, RowPrediction
from omkl.online.rows import Block
from omkl.online.series import TargetSeries


@dataclasses.dataclass(eq=False)
class TargetLearner:
    """Learn one target: scale it, call the core learners, and compute intervals.

    Parameters
    ----------
    learners
        One core learner, or one per class against the rest.
    scaler
        Past values of the target, and its mean and deviation so far.
    levels
        Mean and number of targets per level, which replace the levels of hashed columns; None if no
        column is hashed.
    intervals
        Intervals of one width; None if the learner has no intervals.
    widths
        Intervals of ``auto`` whose width depends on the row; None if the learner has no intervals,
        or predicts in the units of each series.
    least
        Least target, which limits the ends of intervals of ``auto``; None without this limit.
    series
        Units of each series, or the search for a season; None if the learner has neither.
    moves
        Whether each target is standardised by the targets that were known at its prediction.
    softens
        Whether large inputs and targets are reduced by ``softened`` before core learners read them.
    """

    learners: list[Learner]
    scaler: TargetScaler
    levels: LevelMeans | None
    intervals: AdaptiveIntervals | None
    widths: RowWidths | None
    least: LeastTarget | None
    series: TargetSeries | None
    moves: bool
    softens: bool

    def __post_init__(self) -> None:
        self._d = self.learners[0].d - self.scaler.n_lags

    def drops_widths(self) -> bool:
        """Remove parts that are no longer needed. Return whether learned widths were removed.

        The search for a season is removed after its end. Learned widths are removed as soon as the
        learner predicts in the units of each series.
        """
        if self.series and self.series.is_idle:
            self.series = None
        if not (self.series and self.series.learner and self.widths):
            return False
        self.widths = None
        return True

    # --- Inputs -----------------------------------------------------------------------------------

    def _inputs(self, X: np.ndarray, known: KnownTargets | None = None) -> np.ndarray:
        """Return the inputs of the core learners for rows X, including the past targets (lags).

        The past targets are those of ``known``. If ``known`` is None, they are the latest targets.
        """
        if self.scaler.n_lags:
            lags = known.lags if known else np.tile(self.scaler.lags, (len(X), 1))
            X = np.concatenate([X[:, : self._d], lags], axis=1)
        return softened(X) if self.softens else X

    def _inputs_now(self, Z: np.ndarray) -> np.ndarray:
        """Return the inputs of the core learners for rows Z, with the latest past targets."""
        return self._inputs(self.levels.filled(Z) if self.levels else Z)

    def _past(self, z: np.ndarray) -> np.ndarray:
        """Return the inputs of z that depend on past targets: lags, and inputs from ``levels``."""
        lags = self.scaler.lags
        return np.concatenate([lags, self.levels.of_row(z)]) if self.levels else lags

    def input_row(self, z: np.ndarray, past: np.ndarray | None = None) -> np.ndarray:
        """Return the inputs of the core learners for one row z, equal to those of ``_inputs``.

        ``past`` is the result of ``_past`` at the prediction of the row; None: its present result.
        """
        past = self._past(z) if past is None else past
        lags, of_levels = past[: self.scaler.n_lags], past[self.scaler.n_lags :]
        row = np.concatenate([z[: self._d], lags]) if len(lags) else z
        if self.levels:
            row = row.copy()
            row[self.levels.places] = of_levels
        return softened(row) if self.softens and abs(row).max() > FAR else row

    def _labels(self, y: np.ndarray, k: int) -> np.ndarray:
        """Return the targets (n,) of core learner k.

        A single core learner learns y. With several core learners, learner k learns +1 for class k
        and -1 for the other classes.
        """
        if len(self.learners) == 1:
            return y
        return np.where(np.isnan(y), np.nan, np.where(y == k, 1.0, -1.0))

    # --- Blocks of rows ---------------------------------------------------------------------------

    def learn(self, block: Block) -> Predictions:
        """Predict and then learn the rows of a block, group by group."""
        if self.levels:
            X = self.levels.filled(block.X, block.y, block.starts)
            block = block._replace(X=X, ahead=X)  # both are raw rows
        X, y, learners = block.X, block.y, self.learners
        known = self.scaler.take(y) if self.moves or self.scaler.n_lags else None
        rows = self._inputs(X, known)
        if known and self.moves:
            labels = [softened(known.scaled) if self.softens else known.scaled]
        else:
            labels = [self._labels(y, k) for k in range(len(learners))]
        if len(block.starts) <= len(y):
            ahead = self._inputs(block.ahead, known)
            traces = [learners[0].learn_groups(rows, ahead, labels[0], block.starts)]
        else:
            traces = [one.partial_fit(rows, of) for one, of in zip(learners, labels, strict=True)]
        trace, units = traces[0], None
        if len(traces) > 1:
            trace = trace._replace(y_hat=np.stack([one.y_hat for one in traces], axis=1))
        if known and self.moves:  # spreads are NaN as long as the deviation of targets is 0
            unit = np.where(known.unit > 0.0, known.unit, np.nan)
            y_hat = known.centre + known.unit * trace.y_hat
            trace = Trace(y_hat, trace.asked, unit * trace.spread)
        rounds = None
        if self.series:
            rounds = self.series.rounds(block.starts)
            trace, units = self.series.learn(block, trace)
        half = np.full(len(y), np.nan)
        if self.intervals:
            rounds = None if units is None else rounds
            half = self.intervals.follow_groups(trace, block, units, rounds)
        in_units, half = half, half if units is None else units.width(half)
        if self.widths:
            ends = self.widths.follow(rows, trace, half, y, block.far)
        elif self.series and self.series.widths and units is not None and rounds is not None:
            ends = self.series.follow_widths(block, trace, units, in_units, rounds)
        else:
            ends = _ends_around(trace.y_hat, half, trace.spread)
        if self.least:
            ends = ends.above(self.least.take(y, block.starts))
        return Predictions(trace.y_hat, trace.asked, ends.spread, ends.low, ends.high)

    def predict(self, Z: np.ndarray, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return predictions and standard deviations (n,) of the rows Z, each as if it came next.

        Predictions are (n,), or (n, K) of K classes that are learned against the rest. Nothing is
        learned.
        """
        X = self._inputs_now(Z)
        found = [learner.predict_with_spread(X) for learner in self.learners]
        y_hat, spread = found[0]
        if len(found) > 1:
            return np.stack([f for f, _ in found], axis=1), spread
        if self.series:
            return self.series.predict(X, slots, y_hat, spread)
        if not self.moves:
            return y_hat, spread
        _, centre, unit = self.scaler.now
        return centre + unit * y_hat, (unit if unit > 0.0 else math.nan) * spread

    def ends(
        self,
        Z: np.ndarray,
        y_hat: np.ndarray,
        spread: np.ndarray,
        far: np.ndarray,
        slots: np.ndarray,
    ) -> Ends:
        """Return the intervals and standard deviations for the predictions of n rows.

        Parameters
        ----------
        Z
            Scaled rows (n, d + lags).
        y_hat, spread
            Results (n,) of ``predict``.
        far
            (n,) bool, whether each row has an input far outside its usual range.
        slots
            Slot (n,) of the series of each row.
        """
        half = np.full(len(far), np.nan)
        if self.intervals:
            half = self.intervals.half_widths(far)
        if self.series and self.series.widths:
            X = self._inputs_now(Z)
            ends = self.series.ends(X, slots, y_hat, half, spread, far)
        elif self.widths:
            ends = self.widths.predict(self._inputs_now(Z), y_hat, half, spread, far)
        else:
            ends = _ends_around(y_hat, half, spread)
        return ends.above(self.least.limit) if self.least else ends

    def outputs(self, X: np.ndarray) -> list[np.ndarray]:
        """Return the prediction (N,) of each kernel of each core learner for the row X (1, d)."""
        row, (_, centre, unit) = self._inputs_now(X)[0], self.scaler.now
        outputs = [learner.outputs(row) for learner in self.learners]
        return [centre + unit * f for f in outputs] if self.moves else outputs

    # --- Single rows ------------------------------------------------------------------------------

    def predict_one(self, row: np.ndarray, far: bool, z: np.ndarray, slot: int) -> RowPrediction:
        """Predict one row.

        Parameters
        ----------
        row
            Inputs of the core learners, from ``input_row``.
        far
            Whether the row has an input far outside its usual range.
        z
            The scaled row (d + lags,).
        slot
            Slot of the row's series.
        """
        y_hat: Any
        if len(self.learners) > 1:
            y_hat = np.array([learner.predict_one(row)[0] for learner in self.learners])
            asked, spread = any(learner.asks for learner in self.learners), math.nan
        else:
            y_hat, asked = self.learners[0].predict_one(row)
            spread = self.learners[0].spread
            if self.moves:
                _, centre, unit = self.scaler.now
                y_hat = centre + unit * y_hat
                spread *= unit if unit > 0.0 else math.nan
        half, scored = math.nan, False
        if self.intervals:
            half, scored = self.intervals.half_width(far), asked and self.intervals.scores_next
        part = None
        if self.series:
            y_hat, spread, part = self.series.predict_row(row, slot, y_hat, spread)
            if part.units is not None:
                in_units, half = half, float(part.units.width(np.array([half]))[0])
                scored = scored and bool(part.units.scale[0] > 0.0)
        past = (self._past(z), *(learner.context() for learner in self.learners))
        ends = Ends(y_hat - half, y_hat + half, spread)
        width: tuple[np.ndarray, ...] = ()
        if self.widths:
            ends, width = self.widths.predict_one(row, y_hat, half, spread, far)
        elif self.series and self.series.widths and part:
            ends, part = self.series.ends_of_row(row, part, y_hat, in_units, spread, far)
        low, high, spread = ends
        if self.least:
            low, high = max(low, self.least.limit), max(high, self.least.limit)
        return RowPrediction(y_hat, asked, spread, low, high, far, scored, past, width, part)

    def learn_one(
        self, row: np.ndarray | None, z: np.ndarray, y: float, prediction: RowPrediction, slot: int
    ) -> None:
        """Learn one target.

        Parameters
        ----------
        row
            Inputs of the core learners if z was predicted last; otherwise None.
        z
            The scaled row (d + lags,).
        y
            The target.
        prediction
            Prediction of this row.
        slot
            Slot of the row's series.
        """
        is_last, series, part = row is not None, self.series, prediction.series
        past, *contexts = prediction.past
        row = self.input_row(z, past) if row is None else row
        if series and part:
            series.learn_row(row, y, slot, part, prediction.y_hat, is_last)
        if math.isnan(y) and (prediction.asked or not is_last):
            return
        learners, asked = self.learners, True
        for k, (learner, context) in enumerate(zip(learners, contexts, strict=True)):
            label = y
            if len(learners) > 1:
                label = float(self._labels(np.array([y]), k)[0])
            elif self.moves:
                label = self.scaler.now.scaled(y, self.softens)
            asked = learner.learn_one(row, label, None if is_last else context)
        if asked and len(learners) == 1 and (self.moves or self.scaler.n_lags):
            self.scaler.take_one(y)
        if asked and self.levels:
            self.levels.filled(z[None, :], np.array([y]))
        if self.least and not math.isnan(y):
            self.least.take_one(y)
        if series and part and part.version != series.version:
            return  # a season was found after the prediction, which has no units of the new season
        if self.intervals and part and part.units:
            y_hat, scaled = part.units.of(np.array([prediction.y_hat, y])).tolist()
            self.intervals.follow_one(
                y_hat, prediction.scored, scaled, prediction.far, float(part.round)
            )
        elif self.intervals:
            self.intervals.follow_one(prediction.y_hat, prediction.scored, y, prediction.far)
        if self.widths and prediction.scored:
            width = Width(*prediction.width)
            self.widths.learn_one(row, prediction.y_hat, width, y, prediction.far, is_last)
        elif series and part and part.width and prediction.scored:
            series.learn_width(row, part, prediction.y_hat, y, prediction.far, is_last)

    # --- Files ------------------------------------------------------------------------------------

    def arrays(self, slots: np.ndarray) -> dict[str, np.ndarray]:
        """Return copies of the learned state, including the state of the series in ``slots``."""
        found = named("labels.", self.scaler.arrays())
        if self.levels:
            found |= named("levels.", self.levels.arrays())
        for k, learner in enumerate(self.learners):
            found |= named(f"learner.{k}.", snapshot.snapshot(learner))
        if self.intervals:
            found |= named("interval.", self.intervals.arrays())
        if self.widths:
            found |= named("widths.", self.widths.arrays())
        if self.least:
            found |= named("least.", snapshot.copies(self.least))
        if self.series:
            found |= named("series.", self.series.arrays(slots))
        return found

    def restore(self, kept: Mapping[str, np.ndarray]) -> None:
        """Restore the result of ``arrays``, except the state of series.

        Raises ``snapshot.Mismatch`` if an array does not fit.
        """
        for k, learner in enumerate(self.learners):
            snapshot.restore(learner, below(f"learner.{k}.", kept))
        self.scaler.restore(below("labels.", kept))
        if self.levels:
            self.levels.restore(below("levels.", kept))
        if self.intervals:
            self.intervals.restore(below("interval.", kept))
        if self.widths:
            self.widths.restore(below("widths.", kept))
        if self.least:
            snapshot.restore_arrays(self.least, below("least.", kept))


def _ends_around(y_hat: np.ndarray, half: np.ndarray, spread: np.ndarray) -> Ends:
    """Return the intervals from y_hat - half to y_hat + half, (n,) each, with their spreads.

    Scores of classes (n, K) have no interval: both ends are then ``half``, which is NaN.
    """
    if y_hat.ndim > 1:
        return Ends(half, half, spread)
    return Ends(y_hat - half, y_hat + half, spread)
