"""A learner on rows whose inputs are scaled: the part that users and runs have in common.

``StreamLearner`` has all that lies between a stream and ``omkl.core``: labels in units of those
that are known, past labels as inputs, one learner per class, intervals. ``OnlineLearner`` reads and
scales what a user gives it. The learners of a run share rows that were scaled once for all of them.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from omkl.core import conformal, snapshot
from omkl.core.conformal import Conformal, IntervalSettings
from omkl.core.hyperparameters import COUNTS
from omkl.core.learner import (
    Learner,
    Trace,
    one_against_rest,
)
from omkl.core.robust_moments import FAR
from omkl.core.weights import normalised
from omkl.datasets.scaling import LabelHistory, LabelStats, softened
from omkl.online.settings import Specification


class Prediction(NamedTuple):
    """Predictions of n rows, each made before its label was learned; NaN where there is none.

    y_hat    (n,) numbers, or classes; from ``StreamLearner`` the scores of classes: (n,) of two,
             whose sign is the class, (n, K) of K > 2
    asked    (n,) bool, whether the label was requested
    spread   (n,) standard deviation of the label around y_hat that the learner expects
    half     (n,) half the width of the interval around y_hat
    """

    y_hat: np.ndarray
    asked: np.ndarray
    spread: np.ndarray
    half: np.ndarray

    @property
    def low(self) -> np.ndarray:
        """The lower ends (n,) of the intervals."""
        return self.half if self.y_hat.dtype.kind != "f" else self.y_hat - self.half

    @property
    def high(self) -> np.ndarray:
        """The upper ends (n,) of the intervals."""
        return self.half if self.y_hat.dtype.kind != "f" else self.y_hat + self.half


class RowPrediction(NamedTuple):
    """The prediction of one row, and what ``learn_one`` needs of it when the target comes.

    y_hat    a number, or of classes the scores (K,)
    asked    whether the target is requested
    spread   the standard deviation of the target that the learner expects
    half     half the width of the interval
    far      whether the row is far out
    scored   whether intervals learn from its error
    past     the past targets that it used: lags, and the context of each core learner
    of_outputs   the prediction of each of m outputs; y_hat, spread and half are then (m,)
    """

    y_hat: Any
    asked: bool
    spread: Any
    half: Any
    far: bool
    scored: bool = False
    past: tuple[np.ndarray, ...] = ()
    of_outputs: tuple[RowPrediction, ...] = ()


def stacked(said: Sequence[RowPrediction], y: np.ndarray) -> Prediction:
    """What was ``said`` of n rows with targets y, (n,) or (n, m); NaN counts as not asked."""
    asked = np.array([row.asked for row in said], dtype=np.bool_)
    return Prediction(
        np.array([row.y_hat for row in said], dtype=np.float64),
        (asked if y.ndim == 1 else asked[:, None]) & ~np.isnan(y),
        np.array([row.spread for row in said], dtype=np.float64),
        np.array([row.half for row in said], dtype=np.float64),
    )


class TargetScaler:
    """Labels in units of those that are known, and the last ``n_lags`` of them as inputs.

    Parameters
    ----------
    n_lags
        How many of the inputs, the last ones, are past labels.
    scaled
        Whether lags are standardised.
    moving
        Whether the learner is told labels in units of those known when it predicted.
    """

    def __init__(self, n_lags: int, scaled: bool, moving: bool) -> None:
        self.n_lags, self.moving = n_lags, moving
        self.labels = LabelHistory(n_lags, scaled)
        self._set(self.labels.take(np.empty(0)))

    def _set(self, known: LabelStats) -> None:
        """``known`` has one row. ``now`` is the same without the lags."""
        self._known, self.now = known, known.last

    def take(self, y: np.ndarray) -> LabelStats | None:
        """What is known before each of the labels y (n,), NaN where there is none; it is learned.

        None where a learner needs to know nothing of them.
        """
        if not (self.moving or self.n_lags):
            return None
        there = ~np.isnan(y)
        taken = self.labels.take(y[there])
        self._set(taken.at(slice(-1, None)))
        return taken.at(np.cumsum(there) - there)

    def take_one(self, y: float) -> None:
        """``take`` of one label, to the bit, in less time."""
        if self.n_lags:
            self._set(self.labels.take(np.array([y])).at(slice(1, None)))
        elif self.moving:
            self.now = self.labels.take_one(y)

    @property
    def lags(self) -> np.ndarray:
        """The lags (n_lags,) of the next row."""
        return self._known.lags[0]

    def with_lags(self, X: np.ndarray, known: LabelStats | None = None) -> np.ndarray:
        """Rows X (n, d) with the lags ``known`` before each, or before the next row, in them."""
        if not self.n_lags:
            return X
        lags = np.broadcast_to((known or self._known).lags, (len(X), self.n_lags))
        return np.concatenate([X[:, : -self.n_lags], lags], axis=1)

    def restore(self, kept: Mapping[str, np.ndarray]) -> None:
        """Go on where the arrays of ``labels`` were taken."""
        self.labels.restore(kept)
        self._set(self.labels.take(np.empty(0)))


class StreamLearner:
    """A learner of rows x (d,) with scaled inputs, which answers in the units of the targets.

    Of one that may leave a label unasked, units and lags are those of the labels that it asked
    for, and it goes row by row. One that is equivariant is told labels as they are.

    Parameters
    ----------
    specification
        Its algorithm, parameters, kernels and D.
    n_inputs
        d, the lags among them.
    scaling
        "columns": labels are standardised by those known; else they are told as they are.
    classes
        Of a classification; one learner for two, and for more one of all together where the
        algorithm has one, else one per class against the rest.
    interval
        Intervals that are put around predictions. ValueError where the algorithm has its own.
    drawn
        A learner of the same seed and kernels, whose random features are taken.
    delay
        ``partial_fit`` learns a target when so many later rows are predicted.
    """

    def __init__(
        self,
        specification: Specification,
        n_inputs: int,
        seed: int,
        *,
        scaling: str = "none",
        classes: Sequence[Any] = (),
        lags: int = 0,
        interval: IntervalSettings | None = None,
        threads: int = 1,
        drawn: StreamLearner | None = None,
        delay: int = 0,
    ) -> None:
        specification = specification.of_classes(len(classes))
        self.algorithm, self.params = specification.algorithm, specification.params
        columns = scaling == "columns"
        self.softens = columns and not self.algorithm.reads_uncut
        self._n_own = n_inputs - lags  # that are no past targets
        with_zero_weights = self.algorithm.representation.with_zero_weights
        first = drawn.learners[0] if drawn else None
        self.learners: list[Learner] = []
        for _ in range(specification.n_learners(len(classes))):
            model = with_zero_weights(first.state.model) if first and with_zero_weights else None
            self.learners.append(specification.learner(n_inputs, seed, threads, model))
            first = first or self.learners[0]
        moving = columns and not classes and not self.algorithm.equivariant
        self.target = TargetScaler(lags, columns, moving)
        self._delay = delay
        # Rows as ``partial_fit`` learns them later, what was said of them, and their targets.
        self.waiting: collections.deque[tuple[np.ndarray, RowPrediction, float]]
        self.waiting = collections.deque()
        self._one_by_one = delay > 0 or (self.algorithm.queries and (moving or lags > 0))
        # The last prediction and its row as it was read, while nothing is learned after it.
        self._last: tuple[RowPrediction | None, Any] = None, None
        self.intervals = AdaptiveIntervals(interval, late=columns) if interval else None

    @property
    def n_rows(self) -> int:
        """Rows that it has learned from."""
        return self.learners[0].t

    @property
    def weights(self) -> np.ndarray:
        """The weights (N,) of its kernels; of one learner per class their mean."""
        with np.errstate(invalid="ignore"):  # of one that diverges: its predictions tell
            found = [normalised(learner.state.log_w) for learner in self.learners]
            return found[0] if len(found) == 1 else np.mean(found, axis=0)

    @property
    def importance(self) -> np.ndarray:
        """The share (d + 1,) of each input, and of past targets together, in what it found out.

        NaN before it is known; (0,) of a learner without such a measure.
        """
        measure = self.algorithm.representation.importance
        if measure is None:
            return np.empty(0)
        shares = measure(self.learners[0].state.model)
        return np.append(shares[: self._n_own], shares[self._n_own :].sum())

    @property
    def used(self) -> np.ndarray:
        """How often (N,) each kernel was evaluated."""
        return self.learners[0].used

    @property
    def worst(self) -> float:
        """The largest squared error of a single kernel."""
        return float(self.learners[0].worst[0])

    def partial_fit(
        self,
        X: np.ndarray,
        y: np.ndarray,
        far: np.ndarray | None = None,
        ahead: np.ndarray | None = None,
    ) -> Prediction:
        """Predict, then learn, row by row. Any split into blocks gives the same numbers.

        Rows without a target are predicted, and nothing is learned from them; they count as not
        asked. With a ``delay`` they wait as others do.

        Parameters
        ----------
        X, y
            Rows (n, d), and targets (n,), NaN where there is none.
        far
            (n,) bool, which rows are far out, whose intervals are wider; None: none is.
        ahead
            With a ``delay`` the rows (n, d) as they are predicted, where X are scaled by rows whose
            targets are not in yet; None: as X.
        """
        far = np.zeros(len(y), dtype=np.bool_) if far is None else far
        self._last = None, None
        if self._one_by_one:
            return self._row_by_row(X, X if ahead is None else ahead, y, far)
        known = self.target.take(y)
        rows, of_each = self._inputs(X, known), self._labels(y, known)
        traces = [
            one.partial_fit(rows, labels)
            for one, labels in zip(self.learners, of_each, strict=True)
        ]
        trace = traces[0]
        if len(traces) > 1:
            trace = trace._replace(y_hat=np.stack([one.y_hat for one in traces], axis=1))
        if known and self.target.moving:  # a spread is not known before labels have a deviation
            unit = np.where(known.unit > 0.0, known.unit, np.nan)
            trace = Trace(known.unscaled(trace.y_hat), trace.asked, unit * trace.spread)
        half = self.intervals.follow(trace, y, far) if self.intervals else np.full(len(y), np.nan)
        return Prediction(*trace, half)

    def _inputs(self, X: np.ndarray, known: LabelStats | None = None) -> np.ndarray:
        """Rows X (n, d) as its learners read them, with their lags."""
        X = self.target.with_lags(X, known)
        return softened(X) if self.softens else X

    def predict_with_spread(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What ``predict_one`` would say of each row X (n, d) as the next, and its spread (n,)."""
        X = self._inputs(X)
        if len(self.learners) > 1:
            found = [learner.predict_with_spread(X) for learner in self.learners]
            return np.stack([f for f, _ in found], axis=1), found[0][1]
        f, spread = self.learners[0].predict_with_spread(X)
        if not self.target.moving:
            return f, spread
        _, centre, unit = self.target.now
        return centre + unit * f, (unit if unit > 0.0 else math.nan) * spread

    def half_widths(self, far: np.ndarray) -> np.ndarray:
        """Half the widths (n,) of the intervals of n predictions, each as the next; NaN of none."""
        if self.intervals is None:
            return np.full(len(far), np.nan)
        half = [self.intervals.half_width(is_far) for is_far in (False, True)]
        return np.where(far, half[1], half[0])

    def outputs(self, X: np.ndarray) -> list[np.ndarray]:
        """What each kernel of each of its learners would say of the row X (1, d), (N,) each."""
        X = self._inputs(X)
        outputs = [learner.outputs(X[0]) for learner in self.learners]
        if self.target.moving:
            now = self.target.now
            outputs = [now.centre + now.unit * f for f in outputs]
        return outputs

    def predict_one(self, x: np.ndarray, far: bool = False) -> RowPrediction:
        """Predict the row x (d,) as the next one; nothing is learned."""
        row = self._input_row(x, self.target.lags)
        first = self.learners[0]
        y_hat: Any
        if len(self.learners) > 1:
            y_hat = np.array([learner.predict_one(row)[0] for learner in self.learners])
            asked, spread = any(learner.asks for learner in self.learners), math.nan
        else:
            y_hat, asked = first.predict_one(row)
            spread = first.spread
            if self.target.moving:
                now = self.target.now
                y_hat = now.centre + now.unit * y_hat
                spread *= now.unit if now.unit > 0.0 else math.nan
        half, scored = math.nan, False
        if self.intervals:
            half, scored = self.intervals.half_width(far), asked and self.intervals.scores_next
        past = (self.target.lags, *(learner.context() for learner in self.learners))
        said = RowPrediction(y_hat, asked, spread, half, far, scored, past)
        self._last = said, row
        return said

    def _input_row(self, x: np.ndarray, lags: np.ndarray) -> np.ndarray:
        """``_inputs`` of one row x (d,) with these lags, to the bit."""
        row = np.concatenate([x[: self._n_own], lags]) if len(lags) else x
        return softened(row) if self.softens and abs(row).max() > FAR else row

    def learn_one(self, x: np.ndarray, y: float, said: RowPrediction) -> None:
        """Learn the target y of the row x (d,), of which ``predict_one`` has ``said`` something.

        The row is learned with the past targets that it was predicted with, and intervals learn
        from the error of that prediction. A target that was not requested is not looked at; one
        that is NaN and was requested teaches nothing.
        """
        (last, row), self._last = self._last, (None, None)
        is_last = said is last
        if math.isnan(y) and (said.asked or not is_last):
            return
        lags, *contexts = said.past
        row = row if is_last else self._input_row(x, lags)
        asked = True
        for k, (learner, context) in enumerate(zip(self.learners, contexts, strict=True)):
            told = y
            if len(self.learners) > 1:
                told = float(self._told(np.array([y]), k)[0])
            elif self.target.moving:
                told = self.target.now.scaled(y, self.softens)
            if len(context) and not is_last:
                learner.learn_late(row, told, context)
            else:
                asked = learner.learn_one(row, told)
        if asked and len(self.learners) == 1:
            self.target.take_one(y)
        if self.intervals:
            self.intervals.follow_one(said.y_hat, said.scored, y, said.far)

    def _row_by_row(
        self, X: np.ndarray, ahead: np.ndarray, y: np.ndarray, far: np.ndarray
    ) -> Prediction:
        """``partial_fit`` by ``predict_one`` and, ``delay`` rows later, ``learn_one``."""
        said = []
        for x, seen, target, is_far in zip(X, ahead, y.tolist(), far.tolist(), strict=True):
            said.append(self.predict_one(seen, is_far))
            self.waiting.append((x.copy(), said[-1], target))
            if len(self.waiting) > self._delay:
                x, earlier, target = self.waiting.popleft()
                self.learn_one(x, target, earlier)
        return stacked(said, y)

    def _labels(self, y: np.ndarray, known: LabelStats | None) -> list[np.ndarray]:
        """The labels (n,) of each of its learners, by what was ``known`` before each."""
        if known and self.target.moving:
            return [known.scaled(y, self.softens)]
        return [self._told(y, k) for k in range(len(self.learners))]

    def _told(self, y: np.ndarray, k: int) -> np.ndarray:
        """The labels (n,) of the learner number k."""
        K = len(self.learners)
        return y if K == 1 else np.where(np.isnan(y), np.nan, one_against_rest(y, k, K))

    def arrays(self) -> dict[str, np.ndarray]:
        """Copies of all that it has learned, which ``restore`` takes."""
        found: dict[str, np.ndarray] = {}
        for k, learner in enumerate(self.learners):
            found |= {f"learner.{k}.{n}": a for n, a in snapshot.snapshot(learner).items()}
        found |= {f"labels.{n}": a for n, a in self.target.labels.arrays().items()}
        if self.intervals:
            found |= {f"interval.{n}": a for n, a in self.intervals.arrays().items()}
        return found

    def restore(self, kept: Mapping[str, np.ndarray]) -> None:
        """Let a fresh learner go on where ``arrays`` were taken of one that was made alike.

        Raises ``snapshot.Mismatch`` where they do not fit, and it is of no use then.
        """
        for k, learner in enumerate(self.learners):
            snapshot.restore(learner, below(f"learner.{k}.", kept))
        self.target.restore(below("labels.", kept))
        if self.intervals:
            self.intervals.restore(below("interval.", kept))


class MultiOutputLearner:
    """A learner per output, all of the same settings and seed, on the same rows: targets are (m,).

    Numbers are those of m learners by themselves, to the bit. Random features are kept once. A
    target that is NaN teaches its output nothing.
    """

    def __init__(self, of_outputs: Sequence[StreamLearner]) -> None:
        self.of_outputs = list(of_outputs)

    @property
    def learners(self) -> list[Learner]:
        """Those of the outputs."""
        return [one.learners[0] for one in self.of_outputs]

    @property
    def n_rows(self) -> int:
        """Rows that an output has learned from, the most of any."""
        return max(learner.t for learner in self.learners)

    def partial_fit(
        self, X: np.ndarray, Y: np.ndarray, far: np.ndarray | None = None
    ) -> Prediction:
        """As ``StreamLearner.partial_fit``: X (n, d), Y (n, m) to a prediction of arrays (n, m)."""
        found = [one.partial_fit(X, y, far) for one, y in zip(self.of_outputs, Y.T, strict=True)]
        return Prediction(*(np.stack(arrays, axis=1) for arrays in zip(*found, strict=True)))

    def predict_with_spread(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As ``StreamLearner.predict_with_spread``: arrays (n, m)."""
        found = [one.predict_with_spread(X) for one in self.of_outputs]
        y_hat, spread = (np.stack(arrays, axis=1) for arrays in zip(*found, strict=True))
        return y_hat, spread

    def outputs(self, X: np.ndarray) -> list[np.ndarray]:
        """What each kernel would say of the row X (1, d), (N,) for each output."""
        return [one.outputs(X)[0] for one in self.of_outputs]

    def predict_one(self, x: np.ndarray, far: bool = False) -> RowPrediction:
        """As ``StreamLearner.predict_one``, of arrays (m,)."""
        said = tuple(one.predict_one(x, far) for one in self.of_outputs)
        y_hat, spread, half = (np.array([one[k] for one in said]) for k in (0, 2, 3))
        return RowPrediction(y_hat, True, spread, half, far, of_outputs=said)

    def learn_one(self, x: np.ndarray, y: np.ndarray, said: RowPrediction) -> None:
        """As ``StreamLearner.learn_one``, with targets y (m,)."""
        for one, target, earlier in zip(self.of_outputs, y.tolist(), said.of_outputs, strict=True):
            one.learn_one(x, target, earlier)

    def half_widths(self, far: np.ndarray) -> np.ndarray:
        """As ``StreamLearner.half_widths``, (n, m)."""
        return np.stack([one.half_widths(far) for one in self.of_outputs], axis=1)

    def arrays(self) -> dict[str, np.ndarray]:
        """As ``StreamLearner.arrays``."""
        return {
            f"output.{k}.{name}": array
            for k, one in enumerate(self.of_outputs)
            for name, array in one.arrays().items()
        }

    def restore(self, kept: Mapping[str, np.ndarray]) -> None:
        """As ``StreamLearner.restore``."""
        for k, one in enumerate(self.of_outputs):
            one.restore(below(f"output.{k}.", kept))


def below(head: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays whose names begin with ``head``, by the rest of their names."""
    return {n.removeprefix(head): array for n, array in arrays.items() if n.startswith(head)}


def rates_of(settings: IntervalSettings) -> tuple[float, ...]:
    """The rates at which intervals adapt."""
    return conformal.RATES if settings.rate is None else (settings.rate,)


class IntervalState(NamedTuple):
    """What ``AdaptiveIntervals`` have learned, and how many targets (1,) were known."""

    n_known: COUNTS
    conformal: conformal.State


class AdaptiveIntervals:
    """Intervals (``omkl.core.conformal``) around the predictions of one learner.

    Scores are errors as they are, of a learner with a spread too: to divide by what it expects is
    4 % worse around ``auto`` on real streams and 1 % better around IE-GP (docs/intervals.md).
    ``late``: they begin to learn with the second label, since in moving units nothing is known of
    the first.
    """

    def __init__(self, settings: IntervalSettings, late: bool) -> None:
        self._conformal = Conformal(settings.level, rates_of(settings))
        self._late, self._n_known = int(late), 0

    def follow(self, trace: Trace, y: np.ndarray, far: np.ndarray) -> np.ndarray:
        """Return half widths (n,) of predictions, each before its label y (n,) is learned.

        They are NaN before the first label that counts. ``far`` (n,) bool are rows far out. A label
        that was not asked for teaches nothing.
        """
        known = ~np.isnan(y)
        counts = self._n_known + np.cumsum(known) > self._late
        self._n_known += int(known.sum())
        return self._conformal.follow(trace.y_hat, np.where(counts & trace.asked, y, np.nan), far)

    def follow_one(self, y_hat: float, scored: bool, y: float, far: bool) -> None:
        """``follow`` of one round, to the bit; nothing is learned unless it is ``scored``."""
        if not math.isnan(y):
            self._n_known += 1
        if scored:
            self._conformal.learn(y_hat, y, far)

    @property
    def scores_next(self) -> bool:
        """Whether they learn from the error of the next prediction."""
        return self._n_known >= self._late

    def half_width(self, far: bool) -> float:
        """Half the width of the interval of the next prediction."""
        return self._conformal.half_width(far)

    def arrays(self) -> dict[str, np.ndarray]:
        """Copies of all that they have learned, which ``restore`` takes."""
        return snapshot.copies(self._state)

    def restore(self, kept: Mapping[str, np.ndarray]) -> None:
        """Go on where ``arrays`` were taken, of the same rates."""
        snapshot.require_fit(self._state, kept)
        self._n_known = int(kept["n_known"][0])
        self._conformal.restore(below("conformal.", kept))

    @property
    def _state(self) -> IntervalState:
        return IntervalState(np.array([self._n_known]), self._conformal.state)
