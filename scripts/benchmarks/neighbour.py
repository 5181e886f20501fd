"""A round while another process uses the caches: local and choosing learners, quiet and disturbed.

The neighbour streams through 64 MB, reading and writing all of it again and again, on another
core: what learners keep in the cache that cores share is lost, and so is a part of the memory's
speed. Quiet and disturbed moments take turns, so that what else happens meets both, and a time is
that of the processor: to wait for a core is not counted.
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from benchmarks import classifiers, setting
from benchmarks.learners import ROUNDS, Row, features_work
from benchmarks.setting import Case, Rows
from benchmarks.timing import ratios, spread, times
from omkl import algorithms

MEGABYTES = 64
TURNS = 3
# The neighbour: told a byte, it streams until it is told the next; it ends with its input. It
# answers with the numbers of passes and of seconds.
NEIGHBOUR = """
import os, select, sys, time
import numpy as np
x = np.ones(int(sys.argv[1]) * 10**6 // 8)
while os.read(0, 1):
    passes, start = 0, time.perf_counter()
    while passes == 0 or not select.select([0], [], [], 0.0)[0]:
        np.negative(x, out=x)
        passes += 1
    print(passes, time.perf_counter() - start, flush=True)
    os.read(0, 1)
"""


class Neighbour:
    """A process that streams through memory while ``busy`` lasts; ``rates`` in GB/s by turn."""

    def __init__(self, megabytes: int = MEGABYTES) -> None:
        self.bytes_a_pass = 2 * megabytes * 10**6  # read and written
        self.rates: list[float] = []
        words = [sys.executable, "-c", NEIGHBOUR, str(megabytes)]
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Neighbour:
        with self.busy():  # until it has imported what it needs
            pass
        self.rates.clear()
        return self

    def __exit__(self, *error: object) -> None:
        self.process.communicate(timeout=60)

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        self._tell()
        try:
            yield
        finally:
            self._tell()
            assert self.process.stdout is not None
            passes, seconds = map(float, self.process.stdout.readline().split())
            self.rates.append(passes * self.bytes_a_pass / seconds / 1e9)

    def _tell(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("x")
        self.process.stdin.flush()


def measure(rows: Rows, seconds: float, names: list[str] | None = None) -> dict[str, Any]:
    """A row for every learner whose kernels are local or chosen, and what the neighbour did."""
    found = []
    labelled = classifiers.labelled(rows)
    with Neighbour() as neighbour:
        for name in disturbed() if names is None else names:
            of_task = rows if algorithms.load(name).task == "regression" else labelled
            d = of_task.X.shape[1]
            case = setting.case(name, setting.kernels(), d, setting.D, 100 * ROUNDS)
            found.append(_row(case, of_task, seconds, neighbour))
    return {
        "megabytes": MEGABYTES,
        "turns": TURNS,
        "gb_s": spread(neighbour.rates),
        "learners": found,
    }


def disturbed() -> list[str]:
    """The learners on random features that are local, or choose the kernels of a round."""
    found = []
    for name in algorithms.names():
        algorithm = algorithms.load(name)
        kept = algorithm.representation
        if kept.draws_features and (kept.local or not algorithm.every_kernel):
            found.append(name)
    return found


def _row(case: Case, rows: Rows, seconds: float, neighbour: Neighbour) -> Row:
    """Microseconds a round, disturbed (``round_us``) and ``quiet_us``, and their ratio by turn."""
    X, y = rows.X[:ROUNDS], rows.y[:ROUNDS]
    learner = case.learner()
    learner.partial_fit(X, y)  # past the rounds in which graphs are drawn
    before, t = learner.used.copy(), learner.t

    def round_us() -> float:
        took = times(lambda: learner.partial_fit(X, y), seconds / TURNS, clock=time.thread_time)
        return 1e6 * statistics.median(took) / len(y)

    quiet, noisy = [], []
    for _ in range(TURNS):
        quiet.append(round_us())
        with neighbour.busy():
            noisy.append(round_us())
    return {
        "algorithm": case.algorithm.name,
        "round_us": spread(noisy),
        "quiet_us": spread(quiet),
        "times": ratios(noisy, quiet),
        "work": features_work(case, learner, before, t),
    }
