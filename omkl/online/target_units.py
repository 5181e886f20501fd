"""A learner between a stream's units and its own: scaled labels, lags, rows without a target.

With scaling "columns" a learner is told labels in units of those it knows, which is less than all
of them where it does not ask, and what it says is mapped back with the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from omkl.core.learner import Learner, Trace, empty_trace
from omkl.core.protocol import Algorithm
from omkl.datasets.scaling import Known, KnownLabels


class Labels(Protocol):
    """What ``TargetUnits`` has to know of a stream, as ``Stream`` has it."""

    @property
    def scaling(self) -> str: ...

    @property
    def moving_units(self) -> bool: ...

    @property
    def n_lags(self) -> int: ...

    @property
    def labelled(self) -> bool: ...


class TargetUnits:
    """A learner that is given a stream's rows and answers in the units of its targets.

    Of one that may leave a label unasked, units and lags are those of the labels that it asked
    for, and it goes row by row. One that is equivariant is told labels as they are.
    ``spread`` is that of the last prediction of ``predict_one``. Learners ``SideBySide`` that ask
    for every label take the place of one: arrays are then (S, n).
    """

    def __init__(self, learner: Learner, stream: Labels, algorithm: Algorithm) -> None:
        self.learner = learner
        self.spread = math.nan
        self._moving = stream.moving_units and not algorithm.equivariant
        self._n_lags = stream.n_lags
        self._one_by_one = not stream.labelled or (
            algorithm.queries and (self._moving or stream.n_lags > 0)
        )
        self._labels = KnownLabels(stream.n_lags, stream.scaling == "columns")
        self._known = self._labels.take(np.empty(0))
        self._now = self._known.last
        self._asked = False

    def partial_fit(self, X: np.ndarray, y: np.ndarray) -> Trace:
        """Predict, then learn, row by row: X (n, d), y (n,), NaN where there is no target.

        Rows without a target are predicted and change nothing; they count as not asked.
        """
        if self._one_by_one:
            return self._row_by_row(X, y)
        blank = np.isnan(y)
        known, given = None, y
        if self._moving or self._n_lags:
            known = self._all_told(y, blank)
            X = self._with_lags(X, known)
            given = known.scaled(y) if self._moving else y
        trace = (
            self._in_parts(X, given, blank) if blank.any() else self.learner.partial_fit(X, given)
        )
        return _unscaled(known, trace) if known and self._moving else trace

    def _in_parts(self, X: np.ndarray, y: np.ndarray, blank: np.ndarray) -> Trace:
        """Rows X (n, d) with labels y (n,), which ``blank`` ones have not."""
        parts = []
        for part in np.split(np.arange(len(y)), np.flatnonzero(np.diff(blank)) + 1):
            if blank[part[0]]:
                f, spread = self.learner.predict_with_spread(X[part])
                parts.append(Trace(f, np.zeros(f.shape, dtype=np.bool_), spread))
            else:
                parts.append(self.learner.partial_fit(X[part], y[part]))
        return Trace(*(np.concatenate(arrays, axis=-1) for arrays in zip(*parts, strict=True)))

    def predict_with_spread(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What ``predict_one`` would say of each row X (n, d) as the next, and its spread.

        Changes nothing; RuntimeError while a round is open.
        """
        f, spread = self.learner.predict_with_spread(self._with_lags(X, self._known))
        if not self._moving:
            return f, spread
        _, centre, unit = self._now
        return centre + unit * f, (unit if unit > 0.0 else math.nan) * spread

    def predict_one(self, x: np.ndarray) -> tuple[float, bool]:
        """As ``Learner.predict_one``, with the lags that are known in place of those in x (d,)."""
        if self._n_lags:
            x = self._with_lags(x[None, :], self._known)[0]
        f, self._asked = self.learner.predict_one(x)
        self.spread = self.learner.spread
        if self._moving:
            now = self._now
            f = now.centre + now.unit * f
            self.spread *= now.unit if now.unit > 0.0 else math.nan
        return f, self._asked

    def learn_one(self, y: float) -> None:
        """As ``Learner.learn_one``; a label that was not asked for stays unknown."""
        if not self._asked:
            self.learner.learn_one()
            return
        self.learner.learn_one(self._now.scaled(y) if self._moving else y)
        if self._n_lags:
            self._set_known(self._labels.take(np.array([y])).at(slice(1, None)))
        elif self._moving:
            self._now = self._labels.take_one(y)

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

    def _set_known(self, known: Known) -> None:
        """What is known now: one row. ``_now`` is the same but for the lags."""
        self._known, self._now = known, known.last

    def _all_told(self, y: np.ndarray, blank: np.ndarray) -> Known:
        """What is known before each row, where all labels but the blanks (n,) are told."""
        taken = self._labels.take(y[~blank])
        self._set_known(taken.at(slice(-1, None)))
        return taken.at(np.cumsum(~blank) - ~blank)

    def _with_lags(self, X: np.ndarray, known: Known) -> np.ndarray:
        """The rows with the lags that are known, of each or of all, in place of those in X."""
        if not self._n_lags:
            return X
        lags = np.broadcast_to(known.lags, (len(X), self._n_lags))
        return np.concatenate([X[:, : -self._n_lags], lags], axis=1)

    def arrays(self) -> dict[str, np.ndarray]:
        """Copies of what is known of the labels, which ``restore`` takes."""
        return self._labels.arrays()

    def restore(self, kept: Mapping[str, np.ndarray]) -> None:
        """Go on where ``arrays`` were taken; the learner comes back by itself."""
        self._labels.restore(kept)
        self._set_known(self._labels.take(np.empty(0)))


def _unscaled(known: Known, trace: Trace) -> Trace:
    """In units of the target; a spread is not known (NaN) before the labels have a deviation."""
    unit = np.where(known.unit > 0.0, known.unit, np.nan)
    return Trace(known.unscaled(trace.y_hat), trace.asked, unit * trace.spread)
