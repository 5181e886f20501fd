"""Number of threads, and pools of threads."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

Block = TypeVar("Block")


def usable_cores() -> int:
    """Return the number of cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_threads() -> int:
    """Return the number of threads of a job: all cores, or the number in the environment.

    Raises ValueError if the environment variable is not a number of threads.
    """
    for name in ("OMKL_THREADS", "SLURM_CPUS_PER_TASK", "NUMBA_NUM_THREADS"):
        if given := os.environ.get(name):
            if not (given.isascii() and given.isdecimal() and int(given)):
                raise ValueError(f"{name}={given!r} is not a whole number of at least 1")
            return int(given)
    return usable_cores()


@contextlib.contextmanager
def thread_pool(n: int) -> Iterator[ThreadPoolExecutor]:
    """Open a pool of ``n`` threads in which each call of linear algebra runs in one thread.

    Ctrl-C leaves the pool at once, without waiting for its threads.
    """
    pool = ThreadPoolExecutor(n)
    try:
        with one_thread_each():
            yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def read_ahead(blocks: Iterator[Block]) -> Iterator[Block]:
    """Yield the items of ``blocks``, while a thread computes the next item."""
    end: Any = object()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(next, blocks, end)
        while (block := future.result()) is not end:
            future = pool.submit(next, blocks, end)
            yield block


def one_thread_each() -> AbstractContextManager[object]:
    """Limit linear algebra to one thread, because omkl's threads already work side by side."""
    return _libraries("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas")


@functools.cache
def _libraries(scipy_too: bool) -> ThreadpoolController:
    """Return the linear algebra libraries of NumPy and, if it is imported, of SciPy.

    ``scipy_too`` states whether SciPy is imported. The function does not read it. It is a key of
    the cache: after an import of SciPy, the libraries are searched again.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
