"""How well the spreads of predictions fit the labels, for learners that have a spread.

A prediction y_hat with a spread s is scored as the normal distribution N(y_hat, s^2).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from omkl.experiment.metrics import Recorder

N_WINDOWS = 10
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
    """The sums of these scores over the rounds of R seeds whose spread is known."""

    def __init__(self, n_seeds: int) -> None:
        self.n_known = Recorder(n_seeds)
        self.sums = {name: Recorder(n_seeds) for name in scores(np.empty(0), np.empty(0))}

    def add(self, squared_errors: np.ndarray, spread: np.ndarray) -> None:
        """A block of rounds, (R, n) each; a spread is NaN where it is not known."""
        known = ~np.isnan(spread)
        self.n_known.add(known.astype(float))
        found = scores(np.where(known, squared_errors, 0.0), np.where(known, spread, 1.0))
        for name, score in found.items():
            self.sums[name].add(np.where(known, score, 0.0))

    @property
    def known(self) -> bool:
        return bool((self.n_known.total > 0.0).all())

    def result(self) -> dict[str, Any]:
        """{"spread": {score: its mean over rounds and seeds, "windows": ..}}, or nothing."""
        if not self.known:
            return {}
        n = self.n_known.total
        means = {name: float((r.total / n).mean()) for name, r in self.sums.items()}
        return {"spread": means | {"windows": self._windows()}}

    def _windows(self) -> dict[str, list[Any]]:
        """Coverage in up to ten windows, means over the seeds, and the last round of each."""
        rounds, n = self.n_known.curve()
        ends = np.unique(np.searchsorted(rounds, np.linspace(0, rounds[-1], N_WINDOWS + 1)[1:]))
        found: dict[str, list[Any]] = {"until": rounds[ends].tolist()}
        in_window = np.diff(n[:, ends], prepend=0.0)
        for name in ("coverage_50", "coverage_90"):
            hits = np.diff(self.sums[name].curve()[1][:, ends], prepend=0.0)
            share = np.divide(hits, in_window, out=np.full(hits.shape, np.nan), where=in_window > 0)
            found[name] = [None if np.isnan(x) else float(x) for x in share.mean(axis=0)]
        return found

    def curves(self) -> dict[str, np.ndarray]:
        """coverage_50 and coverage_90 (R, P): the share of rounds 1..t whose label was covered.

        It is of the rounds whose spread is known, and NaN before the first.
        """
        if not self.known:
            return {}
        n = self.n_known.curve()[1]
        none = np.full(n.shape, np.nan)
        return {
            name: np.divide(self.sums[name].curve()[1], n, out=none.copy(), where=n > 0.0)
            for name in ("coverage_50", "coverage_90")
        }
