"""How well spreads and intervals of predictions fit the labels.

A prediction y_hat with a spread s is scored as the normal distribution N(y_hat, s^2). Intervals
that were asked for are scored as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from omkl.config.settings import IntervalSettings, interval_around
from omkl.core.protocol import Algorithm
from omkl.experiment.metrics import Recorder
from omkl.online.stream_learner import rates_of

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


class Covered:
    """Sums of scores over the rounds of R seeds in which there was an interval.

    Scores whose names begin with "coverage" are told window by window, and as curves.
    """

    def __init__(self, n_seeds: int, names: Iterable[str], n_windows: int = N_WINDOWS) -> None:
        self.n_known = Recorder(n_seeds)
        self.sums = {name: Recorder(n_seeds) for name in names}
        self._n_windows = n_windows

    def add(self, known: np.ndarray, found: Mapping[str, np.ndarray]) -> None:
        """A block of rounds, (R, n) each: whether there was an interval, and what it scored."""
        self.n_known.add(known.astype(float))
        for name, score in found.items():
            self.sums[name].add(np.where(known, score, 0.0))

    @property
    def known(self) -> bool:
        return bool((self.n_known.total > 0.0).all())

    def means(self) -> dict[str, Any]:
        """{score: its mean over rounds and seeds, "windows": ..}."""
        n = self.n_known.total
        means = {name: float((r.total / n).mean()) for name, r in self.sums.items()}
        return means | {"windows": self._windows()}

    def _coverages(self) -> dict[str, Recorder]:
        return {name: sums for name, sums in self.sums.items() if name.startswith("coverage")}

    def _windows(self) -> dict[str, list[Any]]:
        """Coverage in some windows, means over the seeds, and the last round of each."""
        rounds, n = self.n_known.curve()
        wanted = np.linspace(0, rounds[-1], self._n_windows + 1)[1:]
        ends = np.unique(np.searchsorted(rounds, wanted))
        found: dict[str, list[Any]] = {"until": rounds[ends].tolist()}
        in_window = np.diff(n[:, ends], prepend=0.0)
        for name, sums in self._coverages().items():
            hits = np.diff(sums.curve()[1][:, ends], prepend=0.0)
            share = np.divide(hits, in_window, out=np.full(hits.shape, np.nan), where=in_window > 0)
            found[name] = [None if np.isnan(x) else float(x) for x in share.mean(axis=0)]
        return found

    def curves(self) -> dict[str, np.ndarray]:
        """Of each coverage (R, P): the share of rounds 1..t whose label was covered.

        It is of the rounds that had an interval, and NaN before the first.
        """
        n = self.n_known.curve()[1]
        none = np.full(n.shape, np.nan)
        return {
            name: np.divide(sums.curve()[1], n, out=none.copy(), where=n > 0.0)
            for name, sums in self._coverages().items()
        }


class Spreads:
    """What the spreads of R seeds score."""

    def __init__(self, n_seeds: int) -> None:
        self._covered = Covered(n_seeds, scores(np.empty(0), np.empty(0)))

    def add(self, squared_errors: np.ndarray, spread: np.ndarray) -> None:
        """A block of rounds, (R, n) each; a spread is NaN where it is not known."""
        known = ~np.isnan(spread)
        found = scores(np.where(known, squared_errors, 0.0), np.where(known, spread, 1.0))
        self._covered.add(known, found)

    def result(self) -> dict[str, Any]:
        """{"spread": {score: .., "windows": ..}}, or nothing."""
        return {"spread": self._covered.means()} if self._covered.known else {}

    def curves(self) -> dict[str, np.ndarray]:
        """coverage_50 and coverage_90 (R, P), or nothing."""
        return self._covered.curves() if self._covered.known else {}


class ScoredIntervals:
    """Intervals around the predictions of R learners, scored.

    ``rates`` are those at which they adapt; None: they are the algorithm's own.
    """

    def __init__(self, n_seeds: int, level: float, rates: Sequence[float] | None) -> None:
        self.level, self._rates = level, {} if rates is None else {"rates": list(rates)}
        self._covered = Covered(n_seeds, ("coverage", "width", "interval_score"), 4 * N_WINDOWS)

    def add(self, errors: np.ndarray, half: np.ndarray, scored: np.ndarray) -> None:
        """A block of errors and half widths (R, n) of rounds of which ``scored`` (n,) count."""
        known = scored & ~np.isnan(half)
        error, half = np.where(known, np.abs(errors), 0.0), np.where(known, half, 0.0)
        outside = np.maximum(error - half, 0.0) * 2.0 / (1.0 - self.level)
        covered = (error <= half).astype(float)
        found = {"coverage": covered, "width": 2.0 * half, "interval_score": 2.0 * half + outside}
        self._covered.add(known, found)

    def result(self) -> dict[str, Any]:
        """{"interval": {"rates": .., "level": .., score: .., "windows": ..}}, or nothing."""
        if not self._covered.known:
            return {}
        return {"interval": self._rates | {"level": self.level} | self._covered.means()}

    def curves(self) -> dict[str, np.ndarray]:
        """interval_coverage (R, P), or nothing."""
        found = self._covered.curves() if self._covered.known else {}
        return {f"interval_{name}": share for name, share in found.items()}


def intervals_of(
    n_seeds: int, asked: IntervalSettings | None, algorithm: Algorithm, params: Any
) -> ScoredIntervals | None:
    """The algorithm's own, those asked for around its predictions, or none.

    ValueError where both are there and differ.
    """
    around = interval_around(asked, algorithm, params)
    if algorithm.has_interval:
        return ScoredIntervals(n_seeds, params.level, None)
    return ScoredIntervals(n_seeds, around.level, rates_of(around)) if around else None
