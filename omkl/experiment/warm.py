"""Compile the scaling and the baselines of a run in a second process.

Meanwhile the run reads its data and compiles its learner. Both processes store their code in the
cache on disk, where the run loads the code of the second process. The second process is optional:
code that is missing on disk is compiled when it is called.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import multiprocessing
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator

import numpy as np

from omkl.config.schema import Settings
from omkl.config.settings import complete
from omkl.core import cache, compiler
from omkl.datasets.scaling import Moments
from omkl.experiment.metrics import FORECASTERS, forecaster_settings, learned
from omkl.online.learner import OnlineLearner
from omkl.utils.threads import usable_cores

ALLOCATIONS = (
    50_000  # between two garbage collections; with Python's 700 compilation takes 8 % longer
)
_PROGRAM = "from omkl.experiment import warm; warm.main()"


@contextlib.contextmanager
def helper(settings: Settings) -> Iterator[Callable[[], object]]:
    """Start a process that compiles scaling and baselines, unless compiled code exists.

    No process is started on a single core, with ``threads=1``, in a process of a sweep, for a
    federation, or if the system refuses to start it.

    Yields
    ------
    callable
        Function that waits until the process ends.
    """
    folder = cache.folder() if compiler.ENABLED else None
    if (
        folder is None
        or any(folder.glob("omkl.core.protocol.run_block-*"))
        or usable_cores() == 1
        or settings.threads == 1
        or settings.scheme is not None
        or multiprocessing.parent_process() is not None
    ):
        yield lambda: None
        return
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # the run itself reports errors of its settings
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
    except OSError:
        yield lambda: None
        return
    try:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
            pickle.dump(settings, pipe)
        yield process.wait
    finally:
        process.kill()
        process.wait()


def main() -> None:
    """Compile for the settings of a run, which are read from standard input as a pickle."""
    with fewer_collections():
        compile_baselines(complete(pickle.load(sys.stdin.buffer)))


def compile_baselines(settings: Settings) -> None:
    """Compile scaling, baselines and intervals for the rows of complete settings."""
    classify = settings.task == "classification"
    classes, scaling = ("0", "1") if classify else (), str(settings.stream.scaling)
    X, y = np.zeros((2, 2)), np.array([0.0, 1.0])
    if scaling == "columns":
        Moments(2).standardised(X)
    for name in FORECASTERS:
        made = forecaster_settings(name, 2, scaling, settings.stream.lags, classes)
        interval = settings.interval if name == "mean" and not classify else None
        learned(OnlineLearner(dataclasses.replace(made, interval=interval)), X, y)


@contextlib.contextmanager
def fewer_collections() -> Iterator[None]:
    """Collect garbage less often, because the compiler makes many objects and little garbage."""
    before = gc.get_threshold()
    gc.set_threshold(ALLOCATIONS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
