"""Intervals around what a learner says (``omkl.core.conformal``), as those of a run, to the bit."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from omkl.config.settings import IntervalSettings
from omkl.core import conformal
from omkl.core.conformal import Conformal
from omkl.core.learner import Trace


class SaidIntervals:
    """The intervals of one learner that says them itself: half their width is its ``spread``."""

    def follow(self, said: Trace, y: np.ndarray) -> np.ndarray:
        """Half widths (n,) of what was said before each label y (n,), NaN where there is none."""
        return said.spread

    def follow_one(self, y_hat: float, asked: bool, spread: float, y: float) -> float:
        return spread

    def half_width(self, spread: float) -> float:
        return spread

    def half_widths(self, spread: np.ndarray) -> np.ndarray:
        return spread

    def arrays(self) -> dict[str, np.ndarray]:
        """What they have learned is the learner's."""
        return {}

    def restore(self, kept: Mapping[str, np.ndarray]) -> None:
        """Nothing is theirs."""


class AdaptiveIntervals:
    """The intervals put around what one learner says.

    ``has_spread``: they are in units of its spread. ``late``: how many known labels come before
    they begin to learn: of a stream in moving units nothing is known of the first.
    """

    def __init__(self, settings: IntervalSettings, has_spread: bool, late: int) -> None:
        rates = conformal.RATES if settings.rate is None else (settings.rate,)
        self._followed = Conformal(settings.level, rates, has_spread)
        self._has_spread, self._late = has_spread, late
        self._n_known = 0

    def follow(self, said: Trace, y: np.ndarray) -> np.ndarray:
        """Half widths (n,) of what was said before each label y (n,), NaN where there is none."""
        known = ~np.isnan(y)
        counts = self._n_known + np.cumsum(known) > self._late
        self._n_known += int(known.sum())
        told = np.where(counts & said.asked, y, np.nan)
        return self._followed.follow(said.y_hat, told, said.spread if self._has_spread else None)

    def follow_one(self, y_hat: float, asked: bool, spread: float, y: float) -> float:
        """``follow`` of one round, to the bit, in less time."""
        if y == y:
            self._n_known += 1
        told = y if asked and self._n_known > self._late else math.nan
        return self._followed.learn(y_hat, told, spread if self._has_spread else 1.0)

    def half_width(self, spread: float) -> float:
        """``half_widths`` of one prediction, to the bit, in less time."""
        return self._followed.half_width(spread if self._has_spread else 1.0)

    def half_widths(self, spread: np.ndarray) -> np.ndarray:
        """Of the next prediction, for each spread (n,) that it may have; changes nothing."""
        return self._followed.half_widths(spread if self._has_spread else np.ones(len(spread)))

    def arrays(self) -> dict[str, np.ndarray]:
        """Copies of all that they have learned, which ``restore`` takes."""
        return arrays_of(self._followed, self._n_known)

    def restore(self, kept: Mapping[str, np.ndarray]) -> None:
        self._n_known = int(kept["n_known"].item())
        restore(self._followed, kept)


def arrays_of(followed: Conformal, n_known: int) -> dict[str, np.ndarray]:
    state = {name: array.copy() for name, array in followed.state._asdict().items()}
    return state | {"n_known": np.array([n_known])}


def restore(followed: Conformal, kept: Mapping[str, np.ndarray]) -> None:
    """Let intervals of the same rates go on where ``arrays_of`` were taken."""
    followed.restore(kept)
