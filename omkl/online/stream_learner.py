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

from omkl.config.settings import IntervalSettings
from omkl.core import conformal, snapshot
from omkl.core.conformal import Conformal
from omkl.core.hyperparameters import COUNTS
from omkl.core.learner import (
    Before,
    Learner,
    Trace,
    empty_trace,
    one_against_rest,
)
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


class Pending(NamedTuple):
    """A prediction that waits for its target: the row X (1, d) as it is learned from, with lags.

    ``y_hat`` is in the units of the target, or the scores of classes; ``far``: the row is far out;
    ``scored``: intervals learn from its error.
    """

    X: np.ndarray
    y_hat: Any  # a number, or scores (K,)
    spread: float
    far: bool
    scored: bool
    context: list[list[np.ndarray]]  # of each of the learners, see ``Learner.context``


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
        self.delay, self.n_streamed = delay, 0  # rows that ``partial_fit`` has predicted
        self._waiting: collections.deque[tuple[Pending, float]] = collections.deque()
        self._one_by_one = self.algorithm.queries and (moving or lags > 0)
        self._asked = [False] * len(self.learners)
        self.spread = math.nan
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
        self, X: np.ndarray, y: np.ndarray, far: np.ndarray | None = None
    ) -> Prediction:
        """Predict, then learn, row by row: X (n, d), y (n,), NaN where there is no target.

        ``far`` (n,) bool says which rows are far out, whose intervals are wider; None: none is.
        Rows without a target are predicted and change nothing; they count as not asked. Any split
        gives the same numbers. With a ``delay`` rows without a target wait as others do.
        """
        if self.delay:
            return self._late(X, y, _marked(far, len(y)))
        if self._one_by_one:
            return self._with_interval(self._row_by_row(X, y), y, _marked(far, len(y)))
        known = self.target.take(y)
        rows, of_each = self._inputs(X, known), self._labels(y, known)
        traces = [
            _fit(one, rows, labels) for one, labels in zip(self.learners, of_each, strict=True)
        ]
        trace = traces[0]
        if len(traces) > 1:
            trace = trace._replace(y_hat=np.stack([one.y_hat for one in traces], axis=1))
        if known and self.target.moving:  # a spread is not known before labels have a deviation
            unit = np.where(known.unit > 0.0, known.unit, np.nan)
            trace = Trace(known.unscaled(trace.y_hat), trace.asked, unit * trace.spread)
        return self._with_interval(trace, y, _marked(far, len(y)))

    def _inputs(self, X: np.ndarray, known: LabelStats | None = None) -> np.ndarray:
        """Rows X (n, d) as its learners read them, with their lags."""
        X = self.target.with_lags(X, known)
        return softened(X) if self.softens else X

    def predict_with_spread(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What ``predict_one`` would say of each row X (n, d) as the next, and its spread (n,).

        Changes nothing; RuntimeError while a round is open.
        """
        X = self._inputs(X)
        if len(self.learners) > 1:
            found = [learner.predict_with_spread(X) for learner in self.learners]
            return np.stack([f for f, _ in found], axis=1), found[0][1]
        f, spread = self.learners[0].predict_with_spread(X)
        if not self.target.moving:
            return f, spread
        _, centre, unit = self.target.now
        return centre + unit * f, (unit if unit > 0.0 else math.nan) * spread

    def outputs(self, X: np.ndarray) -> list[np.ndarray]:
        """What each kernel of each of its learners would say of the row X (1, d), (N,) each."""
        X = self._inputs(X)
        outputs = [learner.outputs(X[0]) for learner in self.learners]
        if self.target.moving:
            now = self.target.now
            outputs = [now.centre + now.unit * f for f in outputs]
        return outputs

    def predict_one(self, x: np.ndarray) -> tuple[Any, bool]:
        """Open a round with x (d,): y_hat, (K,) scores of K > 2 classes, and whether it asks.

        ``spread`` is then that of this prediction. RuntimeError while a round is open.
        """
        if self.target.n_lags or self.softens:
            x = self._inputs(x[None, :])[0]
        if len(self.learners) > 1:
            said = [learner.predict_one(x) for learner in self.learners]
            self._asked = [asked for _, asked in said]
            return np.array([f for f, _ in said]), any(self._asked)
        f, asked = self.learners[0].predict_one(x)
        self._asked[0], self.spread = asked, self.learners[0].spread
        if self.target.moving:
            now = self.target.now
            f = now.centre + now.unit * f
            self.spread *= now.unit if now.unit > 0.0 else math.nan
        return f, asked

    def learn_one(self, y: float) -> None:
        """Close the open round with its label y; one that was not asked for stays unknown."""
        several = len(self.learners) > 1
        for k, learner in enumerate(self.learners):
            if not self._asked[k]:
                learner.learn_one()
            elif several:
                learner.learn_one(float(self._told(np.array([y]), k)[0]))
            else:
                told = self.target.now.scaled(y, self.softens) if self.target.moving else y
                learner.learn_one(told)
                self.target.take_one(y)

    @property
    def waiting(self) -> dict[int, Pending]:
        """The rows whose targets ``partial_fit`` has not learned yet, by their numbers from 1."""
        first = self.n_streamed - len(self._waiting) + 1
        return {first + k: row for k, (row, _) in enumerate(self._waiting)}

    def predict_late(self, x: np.ndarray, far: bool = False) -> Pending:
        """Predict the row x (d,), whose target ``learn_late`` brings; nothing is learned."""
        X = self.target.with_lags(x[None, :].copy())
        y_hat, spread = self.predict_with_spread(X)
        scored = self.intervals is None or self.intervals.scores_next
        context = [learner.context() for learner in self.learners]
        return Pending(X, y_hat[0], float(spread[0]), far, scored, context)

    def learn_late(self, row: Pending, y: float) -> None:
        """Learn a row whose target y comes after other predictions.

        Intervals learn from the error of what was predicted when the row came, where that is
        ``scored``. What the learners learn from is what they would predict now of the row, with the
        past labels that it had then.
        """
        X, y_hat, _, far, scored, context = row
        targets = np.array([y])
        labels = self._labels(targets, self.target.take(targets))
        rows = softened(X) if self.softens else X
        for learner, told, then in zip(self.learners, labels, context, strict=True):
            learner.learn_late(rows, told, then)
        if self.intervals:
            self.intervals.follow_one(y_hat, scored, y, far)

    def _late(self, X: np.ndarray, y: np.ndarray, far: np.ndarray) -> Prediction:
        """``partial_fit`` of targets that come ``delay`` rows late."""
        rows, half = [], np.full(len(y), np.nan)
        for s, (x, label) in enumerate(zip(X, y, strict=True)):
            row = self.predict_late(x, bool(far[s]))
            if self.intervals:
                half[s] = self.intervals.half_width(row.far)
            rows.append(row)
            self._waiting.append((row, label))
            if len(self._waiting) > self.delay:
                earlier, target = self._waiting.popleft()
                if not math.isnan(target):
                    self.learn_late(earlier, target)
        self.n_streamed += len(y)
        y_hat, spread = np.array([row.y_hat for row in rows]), np.array([r.spread for r in rows])
        return Prediction(y_hat, ~np.isnan(y), spread, half)

    def _row_by_row(self, X: np.ndarray, y: np.ndarray) -> Trace:
        trace = empty_trace(len(y))
        for s, (x, label) in enumerate(zip(X, y, strict=True)):
            if math.isnan(label):
                f, spread = self.predict_with_spread(x[None, :])
                trace.y_hat[s], trace.asked[s], trace.spread[s] = f[0], False, spread[0]
            else:
                trace.y_hat[s], trace.asked[s] = self.predict_one(x)
                trace.spread[s] = self.spread
                self.learn_one(label)
        return trace

    def _labels(self, y: np.ndarray, known: LabelStats | None) -> list[np.ndarray]:
        """The labels (n,) of each of its learners, by what was ``known`` before each."""
        if known and self.target.moving:
            return [known.scaled(y, self.softens)]
        return [self._told(y, k) for k in range(len(self.learners))]

    def _told(self, y: np.ndarray, k: int) -> np.ndarray:
        """The labels (n,) of the learner number k."""
        K = len(self.learners)
        return y if K == 1 else np.where(np.isnan(y), np.nan, one_against_rest(y, k, K))

    def _with_interval(self, trace: Trace, y: np.ndarray, far: np.ndarray) -> Prediction:
        half = self.intervals.follow(trace, y, far) if self.intervals else np.full(len(y), np.nan)
        return Prediction(*trace, half)

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
        self.spread = np.full(len(self.of_outputs), np.nan)
        self.intervals: SeveralIntervals | None = None
        if found := [one.intervals for one in self.of_outputs if one.intervals]:
            self.intervals = SeveralIntervals(found)
        self._before: list[Before] = []  # of the open round

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

    def predict_one(self, x: np.ndarray) -> tuple[np.ndarray, bool]:
        """Open a round with x (d,): y_hat (m,), and that it asks."""
        self._before = [learner.before_round() for learner in self.learners]
        said = [one.predict_one(x)[0] for one in self.of_outputs]
        self.spread = np.array([one.spread for one in self.of_outputs])
        return np.array(said), True

    def learn_one(self, y: np.ndarray) -> None:
        """Close the open round with its targets y (m,)."""
        for one, before, target in zip(self.of_outputs, self._before, y.tolist(), strict=True):
            if math.isnan(target):
                one.learners[0].cancel(before)
            else:
                one.learn_one(target)

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


def _fit(learner: Learner, X: np.ndarray, y: np.ndarray) -> Trace:
    """Predict and learn rows X (n, d) with labels y (n,); one that is NaN is not learned."""
    blank = np.isnan(y)
    if not blank.any():
        return learner.partial_fit(X, y)
    parts = []
    for part in np.split(np.arange(len(y)), np.flatnonzero(np.diff(blank)) + 1):
        if blank[part[0]]:
            f, spread = learner.predict_with_spread(X[part])
            parts.append(Trace(f, np.zeros(spread.shape, dtype=np.bool_), spread))
        else:
            parts.append(learner.partial_fit(X[part], y[part]))
    return Trace(*map(np.concatenate, zip(*parts, strict=True)))


def _marked(far: np.ndarray | None, n: int) -> np.ndarray:
    """Which of n rows are far out: none, where nothing is said."""
    return np.zeros(n, dtype=np.bool_) if far is None else far


def below(head: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays whose names begin with ``head``, by the rest of their names."""
    return {n.removeprefix(head): array for n, array in arrays.items() if n.startswith(head)}


def rates_of(settings: IntervalSettings) -> tuple[float, ...]:
    """The rates at which intervals adapt."""
    return conformal.RATES if settings.rate is None else (settings.rate,)


class SeveralIntervals:
    """The intervals of m outputs: numbers are (m,), and of n rows (n, m)."""

    def __init__(self, of_outputs: Sequence[AdaptiveIntervals]) -> None:
        self._of_outputs = list(of_outputs)

    def follow_one(self, y_hat: np.ndarray, asked: bool, y: np.ndarray, far: bool) -> np.ndarray:
        """As ``AdaptiveIntervals.follow_one``, of arrays (m,)."""
        rounds = zip(self._of_outputs, y_hat, y, strict=True)
        return np.array([one.follow_one(f, asked, label, far) for one, f, label in rounds])

    def half_width(self, far: bool) -> np.ndarray:
        """Half widths (m,) of the next prediction."""
        return np.array([one.half_width(far) for one in self._of_outputs])

    def half_widths(self, far: np.ndarray) -> np.ndarray:
        """Half widths (n, m) of n predictions, each as the next."""
        return np.stack([one.half_widths(far) for one in self._of_outputs], axis=1)


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

    def follow_one(self, y_hat: float, asked: bool, y: float, far: bool) -> float:
        """``follow`` of one round, to the bit, in less time."""
        if y == y:
            self._n_known += 1
        told = y if asked and self._n_known > self._late else math.nan
        return self._conformal.learn(y_hat, told, far)

    @property
    def scores_next(self) -> bool:
        """Whether they learn from the error of the next prediction."""
        return self._n_known >= self._late

    def half_width(self, far: bool) -> float:
        """``half_widths`` of one prediction, to the bit, in less time."""
        return self._conformal.half_width(far)

    def half_widths(self, far: np.ndarray) -> np.ndarray:
        """Of n predictions, each as the next; changes nothing."""
        return np.where(far, self._conformal.half_width(True), self._conformal.half_width())

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
