"""How well the spreads of predictions fit the labels, for learners that have a spread.

A prediction y_hat with a spread s is scored as the normal distribution N(y_hat, s^2).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from omkl.experiment.metrics import Recorder

# Half the width of a central interval of the normal distribution, in deviations.
HALF = {50: 0.6744897501960817, 90: 1.6448536269514722}


def scores(squared_errors: np.ndarray, spread: np.ndarray) -> dict[str, np.ndarray]:
    """What a round scores; all arrays (R, n).

    log_loss           -log of the density of the label
    coverage_50, _90   whether the central interval of that many percent holds the label
    width_90           of the interval of 90 %
    interval_score_90  its width, and 2 / 0.1 times what the label lies outside it
    """
    error = np.sqrt(squared_errors)
    wide = HALF[90] * spread
    return {
        "log_loss": 0.5 * np.square(error / spread) + np.log(np.sqrt(2.0 * np.pi) * spread),
        "coverage_50": (error <= HALF[50] * spread).astype(float),
        "coverage_90": (error <= wide).astype(float),
        "width_90": 2.0 * wide,
        "interval_score_90": 2.0 * wide + 20.0 * np.maximum(error - wide, 0.0),
    }


class Spreads:
    """The sums of these scores over the rounds of R seeds; nothing where there is no spread."""

    def __init__(self, n_seeds: int) -> None:
        self.sums = {name: Recorder(n_seeds) for name in scores(np.empty(0), np.empty(0))}

    def add(self, squared_errors: np.ndarray, spread: np.ndarray) -> None:
        """A block of rounds, (R, n) each."""
        if not np.isnan(spread).any():
            for name, score in scores(squared_errors, spread).items():
                self.sums[name].add(score)

    @property
    def known(self) -> bool:
        return self.sums["log_loss"].n_rounds > 0

    def result(self) -> dict[str, Any]:
        """{"spread": {score: its mean over rounds and seeds}}, or nothing."""
        if not self.known:
            return {}
        means = {name: float((r.total / r.n_rounds).mean()) for name, r in self.sums.items()}
        return {"spread": means}

    def curves(self) -> dict[str, np.ndarray]:
        """coverage_50 and coverage_90 (R, P): the share of rounds 1..t whose label was covered.

        That of a window follows from two entries.
        """
        if not self.known:
            return {}
        curves = {}
        for name in ("coverage_50", "coverage_90"):
            rounds, sums = self.sums[name].curve()
            curves[name] = sums / rounds
        return curves
