"""Time functions by repetition, in processor time, and keep the undisturbed calls.

Processor time excludes the time in which another process uses the core; a call longer than a time
slice always loses the core on a busy machine. Another process can still slow a call down, through
shared caches and the other hardware thread of the core. To detect this, a short constant work is
timed before and after each call. A call counts if both times are near the best so far.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from omkl.core.compiler import compiled
from omkl.core.trigonometry import sincos


class Spread(NamedTuple):
    """Median of repeated measurements, and the ends of their range."""

    median: float
    low: float
    high: float


def deciles(values: Sequence[float]) -> Spread:
    """Return the median, the first and the last decile, for many values with outliers."""
    low, *_, high = statistics.quantiles(values, n=10, method="inclusive")
    return Spread(statistics.median(values), low, high)


def times(
    function: Callable[[], Any],
    seconds: float,
    fewest: int = 5,
    clock: Callable[[], float] = time.process_time,
) -> list[float]:
    """Return the times of at least ``fewest`` calls, repeated for about ``seconds``."""
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
    """Test with 0.05 ms of work whether the processor is as fast as it has been at its best."""

    def __init__(self) -> None:
        self.x = np.random.default_rng(0).normal(scale=8.0, size=512)
        self.sin, self.cos, self.y = (np.zeros(512) for _ in range(3))
        self.best = float("inf")
        for _ in range(100):
            self.near()

    def near(self) -> bool:
        """Do the work, and return whether it took at most NEAR times the best time so far."""
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
    """Return the times of the undisturbed calls, repeated for about ``seconds``.

    With fewer than ``fewest`` undisturbed calls, the repetition continues up to PATIENCE times as
    long. After that, all calls count.
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
    """Return the times of whole streams, repeated for about ``seconds``.

    ``begin`` starts a stream, which is not timed, and returns a function that processes part 0, 1,
    and so on. A disturbed part counts as the median of the same part in streams in which it was
    undisturbed, or with its own time if there is none.
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
