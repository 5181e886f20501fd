"""Learners that differ in their settings alone, on one stream: what they share is done once.

The same seed gives them the same features. Where they are local learners, and so learn kernel by
kernel, features are evaluated once for all of them (``representations.shared_features``); else each
goes through a block by itself. Predictions, states and chance are those of learners that are alone,
to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from omkl.core.learner import Learner, Trace
from omkl.core.representations.local_features import LOCAL_FEATURES
from omkl.core.representations.shared_features import Shared, columns_of, learn_rows, shared


class SideBySide:
    """S learners of one algorithm, dictionary, D and seed that are as far in the same stream.

    They answer as one ``Learner`` does, with arrays (S, n) for (n,). From then on their arrays may
    be parts of larger ones. ``used_by`` are others, as many, that never learn at the same time:
    what rounds write to is then allocated once for both.
    """

    def __init__(self, learners: Sequence[Learner], used_by: SideBySide | None = None) -> None:
        self.learners = list(learners)
        self._settings: Any = None
        self._shared: Shared | None = None
        self._loop: Callable[..., None] | None = None
        first = self.learners[0]
        if first.representation is LOCAL_FEATURES and len(self.learners) > 1:
            try:
                self._settings = columns_of([learner.params for learner in self.learners])
            except ValueError:  # a parameter that is no number: each learns by itself
                return
            self._share(first, used_by._shared if used_by else None)

    @property
    def shares_features(self) -> bool:
        """Whether features are evaluated once for all of them."""
        return self._shared is not None

    def _share(self, first: Learner, used_by: Shared | None) -> None:
        models = [learner.state.model for learner in self.learners]
        scratch = first.selection.scratch
        self._shared, models, scratches = shared(models, scratch, used_by)
        for learner, model, own in zip(self.learners, models, scratches, strict=True):
            learner.state = learner.state._replace(model=model)
            learner.selection = learner.selection._replace(scratch=own)

    def partial_fit(self, X: np.ndarray, y: np.ndarray) -> Trace:
        """As ``Learner.partial_fit``, for all of them: X (n, d), y (n,) to arrays (S, n)."""
        first = self.learners[0]
        if self._shared is None or not np.isfinite(y).all():
            return stacked([learner.partial_fit(X, y) for learner in self.learners])
        X, y = first.checked_block(X, y)
        trace = empty_traces(len(self.learners), len(y))
        start = 0
        while start < len(y):
            n = learn_rows(self._settings, self._shared, first.t + 1, X, y, start)
            rows = slice(start, start + n if n else len(y))
            for s, learner in enumerate(self.learners):
                own = Trace(*(array[s, rows] for array in trace))
                self._loop = self._loop or learner.loop_for(X[rows], y[rows], own)
                learner.run_rows(X[rows], y[rows], own, self._loop)
            start = rows.stop
        return trace

    def predict_with_spread(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As ``Learner.predict_with_spread``: (S, n) each."""
        found = [learner.predict_with_spread(X) for learner in self.learners]
        y_hat, spread = (np.stack(arrays) for arrays in zip(*found, strict=True))
        return y_hat, spread


def stacked(traces: Sequence[Trace]) -> Trace:
    """Traces of S learners as one of arrays (S, n)."""
    return Trace(*(np.stack(arrays) for arrays in zip(*traces, strict=True)))


def empty_traces(S: int, n: int) -> Trace:
    return Trace(np.empty((S, n)), np.empty((S, n), dtype=np.bool_), np.empty((S, n)))
