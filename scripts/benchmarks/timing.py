"""Timing by repetition, and ratios of times with their spread."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple


class Spread(NamedTuple):
    """Median of repeated measurements, and between what they lie."""

    median: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    """Median, smallest and largest."""
    return Spread(statistics.median(values), min(values), max(values))


def deciles(values: Sequence[float]) -> Spread:
    """Median, first and last decile, where there are many values and the largest is an accident."""
    low, *_, high = statistics.quantiles(values, n=10, method="inclusive")
    return Spread(statistics.median(values), low, high)


def ratios(above: Sequence[float], below: Sequence[float]) -> Spread:
    """above / below, turn by turn: what disturbs one turn disturbs both."""
    return spread([a / b for a, b in zip(above, below, strict=True)])


def times(
    function: Callable[[], Any],
    seconds: float,
    fewest: int = 5,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Times of repeated calls for about that many seconds, and no fewer than ``fewest``."""
    function()
    found: list[float] = []
    end = time.perf_counter() + seconds
    while len(found) < fewest or time.perf_counter() < end:
        start = clock()
        function()
        found.append(clock() - start)
    return found


Contestant = Callable[[], Callable[[], Any]]
"""Prepares one run, unmeasured, and returns the run."""


def interleaved(
    contestants: Mapping[str, Contestant], turns: int, seconds: float
) -> dict[str, list[float]]:
    """Seconds of each contestant in each turn; all of them run in every turn.

    A time is the best of the runs that fit into ``seconds``, and of one at least.
    """
    for prepare in contestants.values():
        prepare()()
    found: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(turns):
        for name, prepare in contestants.items():
            best = float("inf")
            spent = 0.0
            while spent < seconds or not spent:
                run = prepare()
                start = time.perf_counter()
                run()
                elapsed = time.perf_counter() - start
                best, spent = min(best, elapsed), spent + elapsed
            found[name].append(best)
    return found
