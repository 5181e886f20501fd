"""Threads of a process, alone on the machine or beside others."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


def usable_cores() -> int:
    """Cores of the machine that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_threads() -> int:
    """Threads of a job: all cores, or as many as whoever started it says."""
    for name in ("OMKL_THREADS", "SLURM_CPUS_PER_TASK", "NUMBA_NUM_THREADS"):
        given = os.environ.get(name, "")
        if given.isascii() and given.isdecimal():
            return max(1, int(given))
    return usable_cores()


def default_to_one_thread() -> None:
    """One thread for this process, unless its launcher has given it more.

    For a job of a sweep in a process of its own, with others beside it. Slurm, joblib and
    Ray tell in the environment what a process was given; submitit's local jobs are told
    nothing.
    """
    numbers = (os.environ.get(name, "") for name in ("SLURM_CPUS_PER_TASK", "OMP_NUM_THREADS"))
    os.environ.setdefault("OMKL_THREADS", next((n for n in numbers if n.isdigit()), "1"))


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


def worker_processes(
    n: int | None = None, threads: int = 1, begin: Callable[[], object] = int
) -> ProcessPoolExecutor:
    """Processes for work that holds the interpreter's lock; None: one for each core.

    Each may use so many ``threads``, and calls ``begin`` first. None is forked: a fork of a process
    with threads may hang (and NumPy has some).
    """
    spawn = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(n or default_threads(), spawn, _begin_worker, (threads, begin))


_limits: list[object] = []  # of this process, for as long as it lives


def _begin_worker(threads: int, begin: Callable[[], object]) -> None:
    os.environ["OMKL_THREADS"] = str(threads)
    import scipy.linalg  # noqa: F401  # its library is limited with NumPy's

    _limits.append(one_thread_each())
    begin()


def one_thread_each() -> AbstractContextManager[object]:
    """Linear algebra on one thread a caller: our threads are over seeds and kernels."""
    return _libraries("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas")


@functools.cache
def _libraries(scipy_too: bool) -> ThreadpoolController:
    """The linear algebra that is loaded: NumPy's, and SciPy's own once it is imported."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
