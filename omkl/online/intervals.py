"""Intervals around the predictions of one target, from its first or second label on."""

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
        self._conformal = Conformal(settings.level, rates_of(settings))
        self._late, self._n_known = int(late), 0

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
