"""Time functions by repetition, in processor time, and keep the calls that nothing disturbed.

Processor time leaves out the time in which another process has the core: a call longer than a time
slice always loses the core on a busy machine. Another process still slows a call down, through
caches and the other half of a core. A short work that is always the same shows that, whatever is
measured: it is timed before and after each call, and a call counts where both times are near the
best that there was before.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from omkl.core.compiler import compiled
from omkl.core.trigonometry import sincos


class Spread(NamedTuple):
    """Median of repeated measurements, and between what they lie."""

    median: float
    low: float
    high: float


def deciles(values: Sequence[float]) -> Spread:
    """Median, first and last decile, where there are many values and the largest is an accident."""
    low, *_, high = statistics.quantiles(values, n=10, method="inclusive")
    return Spread(statistics.median(values), low, high)


def times(
    function: Callable[[], Any],
    seconds: float,
    fewest: int = 5,
    clock: Callable[[], float] = time.process_time,
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


# --- undisturbed calls ---------------------------------------------------------------------------

NEAR = 1.1  # times the best
PATIENCE = 3  # times the seconds that were asked for


@compiled
def _work(x, sin, cos, y):
    for _ in range(100):
        sincos(x, sin, cos)
        for j in range(x.shape[0]):
            y[j] += 1e-3 * sin[j]


class Pace:
    """Whether the processor is as fast now as it once was; the work takes a twentieth of a ms."""

    def __init__(self) -> None:
        self.x = np.random.default_rng(0).normal(scale=8.0, size=512)
        self.sin, self.cos, self.y = (np.zeros(512) for _ in range(3))
        self.best = float("inf")
        for _ in range(100):
            self.near()

    def near(self) -> bool:
        """Do the work: whether that took no longer than NEAR times the best so far."""
        start = time.process_time()
        _work(self.x, self.sin, self.cos, self.y)
        took = time.process_time() - start
        self.best = min(self.best, took)
        return took <= NEAR * self.best


PACE = Pace()  # one for all: its best is that of the whole run


def undisturbed(
    function: Callable[[], Any],
    seconds: float,
    fewest: int = 5,
    pace: Pace = PACE,
    clock: Callable[[], float] = time.process_time,
) -> list[float]:
    """Times of repeated calls for about that many seconds, of those that nobody disturbed.

    Where there are fewer than ``fewest`` of these it goes on, for PATIENCE times as long; then all
    calls count.
    """
    function()
    every: list[float] = []
    quiet: list[float] = []
    begun = time.perf_counter()
    while True:
        before, start = pace.near(), clock()
        function()
        every.append(clock() - start)
        if pace.near() and before:
            quiet.append(every[-1])
        spent = time.perf_counter() - begun
        if spent >= seconds and len(quiet) >= fewest:
            return quiet
        if spent >= PATIENCE * seconds and len(every) >= fewest:
            return every


def undisturbed_streams(
    begin: Callable[[], Callable[[int], Any]],
    n_parts: int,
    seconds: float,
    fewest: int = 3,
    pace: Pace = PACE,
    clock: Callable[[], float] = time.process_time,
) -> list[float]:
    """Times of whole streams, for about that many seconds, of which every part is another work.

    ``begin`` returns what takes part 0, 1, .. of a new stream, and is not timed. A part that was
    disturbed counts as the median of the same part in streams in which it was not; where it always
    was, as it is.
    """
    begun = time.perf_counter()
    every: list[list[float]] = []
    quiet: list[list[bool]] = []
    while len(every) < fewest or time.perf_counter() - begun < seconds:
        take = begin()
        every.append([])
        quiet.append([])
        before = pace.near()
        for part in range(n_parts):
            start = clock()
            take(part)
            every[-1].append(clock() - start)
            after = pace.near()
            quiet[-1].append(before and after)
            before = after
    took, was_quiet = np.array(every), np.array(quiet)
    for times, good in zip(took.T, was_quiet.T, strict=True):
        if good.any():
            times[~good] = np.median(times[good])
    return [float(t) for t in took.sum(axis=1)]
