"""A learner between a stream's units and its own: scaled labels, lags, rows without a target.

With scaling "columns" a learner is told labels in units of those it knows, which is less than all
of them where it does not ask, and what it says is mapped back with the same numbers.
"""

from __future__ import annotations

import math

import numpy as np

from omkl.core.learner import Learner, Trace
from omkl.datasets import Stream
from omkl.datasets.scaling import KnownLabels, known_before


class TargetUnits:
    """A learner that is given a stream's rows and answers in the units of its targets.

    ``queries``: it may leave a label unasked. Units and lags are then those of the labels that it
    asked for, and it goes row by row.
    """

    def __init__(self, learner: Learner, stream: Stream, queries: bool) -> None:
        self.learner = learner
        self._moving = stream.moving_units
        self._n_lags = stream.n_lags
        self._one_by_one = not stream.labelled or (queries and (self._moving or stream.n_lags > 0))
        self._labels = KnownLabels(stream.n_lags, stream.scaling == "columns")
        self._known = self._labels.take(np.empty(0))
        self._asked = False

    def partial_fit(self, X: np.ndarray, y: np.ndarray) -> Trace:
        """Predict, then learn, row by row: X (n, d), y (n,), NaN where there is no target.

        Rows without a target are predicted and change nothing; they count as not asked.
        """
        if self._one_by_one:
            return self._row_by_row(X, y)
        known = known_before(self._labels, y) if self._moving else None
        given = known.scaled(y) if known else y
        f, asked = np.empty(len(y)), np.zeros(len(y), dtype=np.bool_)
        blank = np.isnan(y)
        for part in np.split(np.arange(len(y)), np.flatnonzero(np.diff(blank)) + 1):
            if len(part) and blank[part[0]]:
                f[part] = self.learner.predict(X[part])
            elif len(part):
                f[part], asked[part] = self.learner.partial_fit(X[part], given[part])
        return Trace(known.unscaled(f) if known else f, asked)

    def predict_one(self, x: np.ndarray) -> tuple[float, bool]:
        """As ``Learner.predict_one``, with the lags that are known in place of those in x (d,)."""
        f, self._asked = self.learner.predict_one(self._with_lags(x))
        return self._said(f), self._asked

    def learn_one(self, y: float) -> None:
        """As ``Learner.learn_one``; a label that was not asked for stays unknown."""
        if not self._asked:
            self.learner.learn_one()
            return
        label = np.array([y])
        self.learner.learn_one(float(self._known.scaled(label)[0]) if self._moving else y)
        self._known = self._labels.take(label).at(slice(1, None))

    def _row_by_row(self, X: np.ndarray, y: np.ndarray) -> Trace:
        y_hat, asked = np.empty(len(y)), np.zeros(len(y), dtype=np.bool_)
        for s, (x, label) in enumerate(zip(X, y, strict=True)):
            if math.isnan(label):
                y_hat[s] = self._said(self.learner.predict(self._with_lags(x)[None, :])[0])
            else:
                y_hat[s], asked[s] = self.predict_one(x)
                self.learn_one(label)
        return Trace(y_hat, asked)

    def _said(self, f: float) -> float:
        return float(self._known.unscaled(np.array([f]))[0])

    def _with_lags(self, x: np.ndarray) -> np.ndarray:
        d = len(x) - self._n_lags
        return np.concatenate([x[:d], self._known.lags[0]])
