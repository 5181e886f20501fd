"""What every regression needs besides its learner, compiled by another process at the same time.

Numba compiles one function after the other, however many threads there are. Where the learner's
code is not kept yet, that of the baselines and of the comparators takes half as long again.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import numpy as np

from omkl import startup
from omkl.core import cache
from omkl.core.normal_equations import (
    add_rounds,
    empty_moments,
    empty_tile,
    frequencies,
    least_objectives,
)
from omkl.experiment.baselines import PARAMS, forecaster
from omkl.threads import default_threads


@contextlib.contextmanager
def compiled_beside() -> Iterator[None]:
    """Let another process compile what is common, if something is compiled within; wait for it.

    Not where code is not kept, nor in a process that has one thread. If it fails, this process
    compiles it all.
    """
    started: list[subprocess.Popen[str]] = []
    with contextlib.ExitStack() as held:

        def start() -> None:
            if not started and default_threads() > 1 and cache.folder() is not None:
                process = startup.beside("omkl.experiment.compiling:compile_common")
                started.append(held.enter_context(process))

        with cache.told_of_compiling(start):
            yield
        for process in started:
            assert process.stdout is not None
            process.stdout.read()


def compile_common() -> None:
    """Be that process, as long as there is somebody who waits for it."""
    threading.Thread(target=_end_with_standard_input, daemon=True).start()
    startup.load_numba()
    X, y = np.zeros((2, 2)), np.zeros(2)
    for name in PARAMS:
        forecaster(name, 2).partial_fit(X, y)
    padded, D, kernel = frequencies(np.zeros((1, 2, 4))), 4, np.zeros(1, np.int64)
    moments = empty_moments(1, D)
    add_rounds(padded, D, kernel, X, y, empty_tile(D), moments)
    least_objectives(moments, kernel, D, 1.0, moments[0].copy(), np.zeros(1))
    os._exit(0)  # to take apart what is loaded takes a second


def _end_with_standard_input() -> None:
    sys.stdin.read()
    os._exit(1)
