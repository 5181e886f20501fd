"""Intervals around the predictions of one target, which begin with its first or second label."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from omkl.core import conformal, snapshot
from omkl.core.conformal import Conformal, IntervalSettings
from omkl.core.hyperparameters import COUNTS
from omkl.core.learner import Trace
from omkl.core.snapshot import below


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
        """``follow`` of one round, to the last bit; nothing is learned unless it is ``scored``."""
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
