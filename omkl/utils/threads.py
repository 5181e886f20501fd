"""Threads of a process, alone on the machine or beside others."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


def usable_cores() -> int:
    """Cores of the machine that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_threads() -> int:
    """Return the threads of a job: all cores, or as many as the environment says.

    Raises ValueError for a variable that is no number of threads.
    """
    for name in ("OMKL_THREADS", "SLURM_CPUS_PER_TASK", "NUMBA_NUM_THREADS"):
        if given := os.environ.get(name):
            if not (given.isascii() and given.isdecimal() and int(given)):
                raise ValueError(f"{name}={given!r} is not a whole number of at least 1")
            return int(given)
    return usable_cores()


@contextlib.contextmanager
def thread_pool(n: int) -> Iterator[ThreadPoolExecutor]:
    """Open a pool of ``n`` threads in which each call of linear algebra takes one thread.

    Ctrl-C leaves the pool at once and does not wait for what its threads compute.
    """
    pool = ThreadPoolExecutor(n)
    try:
        with one_thread_each():
            yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def one_thread_each() -> AbstractContextManager[object]:
    """Linear algebra on one thread a caller: our threads are over seeds and kernels."""
    return _libraries("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas")


@functools.cache
def _libraries(scipy_too: bool) -> ThreadpoolController:
    """The linear algebra that is loaded: NumPy's, and SciPy's own once it is imported."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
