"""Run many jobs in parallel processes with joblib."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from typing import TypeVar

from omkl.config.overrides import UsageError
from omkl.utils.threads import usable_cores
from omkl.utils.wording import how_to_install

Item = TypeVar("Item")
Result = TypeVar("Result")
DIED = "its process died; not enough memory is the usual reason"


def side_by_side(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    n_jobs: int | str | None = None,
    threads: int = 1,
) -> Generator[tuple[int, Result | None]]:
    """Call a function on each item, in parallel processes.

    If the process of an item dies, the item is tried once more, alone. An exception of ``function``
    is raised by this generator.

    Parameters
    ----------
    function, items
        Function and its arguments, which are pickled.
    n_jobs
        Number of processes. None: one per ``threads`` cores. A text is the address of a Dask
        scheduler, whose workers process the items.
    threads
        Threads of each process.

    Yields
    ------
    number, result
        Index of an item in ``items`` and its result, in the order of completion. The result is None
        if the process died twice.
    """
    from joblib import Parallel, delayed, parallel_config

    calls = [delayed(_numbered)(os.getcwd(), function, k, item) for k, item in enumerate(items)]
    if isinstance(n_jobs, str):
        with _workers_of(n_jobs), parallel_config(backend="dask"):
            yield from Parallel(return_as="generator_unordered")(calls)
        return
    n_jobs = n_jobs or max(1, usable_cores() // threads)

    def results(numbers: Sequence[int], n: int) -> Iterator[tuple[int, Result]]:
        # joblib starts no process if one is requested. Request two; one of them stays idle.
        many = {"n_jobs": max(n, 2), "inner_max_num_threads": threads}
        with parallel_config(backend="loky", **many), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "[^$]*have been cancelled")  # after a sweep's end
            pool = Parallel(return_as="generator_unordered", pre_dispatch=1 if n == 1 else 2 * n)
            yield from pool(calls[k] for k in numbers)

    waiting = list(range(len(items)))
    while waiting:
        try:
            for number, result in results(waiting, n_jobs):
                waiting.remove(number)
                yield number, result
        except BrokenProcessPool:  # the job that killed the process is unknown
            for number in waiting[: 2 * n_jobs]:
                waiting.remove(number)
                try:
                    yield from results([number], 1)
                except BrokenProcessPool:
                    yield number, None


def _workers_of(address: str) -> AbstractContextManager[object]:
    """Return a client of a Dask scheduler. Raises UsageError if the scheduler does not answer."""
    try:
        from dask.distributed import Client

        client: AbstractContextManager[object] = Client(address)
    except ImportError:
        raise UsageError(f"{address} needs Dask: {how_to_install('dask')}") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"no Dask scheduler answers at {address}: {error}") from None
    return client


def _numbered(
    folder: str, function: Callable[[Item], Result], number: int, item: Item
) -> tuple[int, Result]:
    # joblib's processes outlive a call, and a notebook may have changed its folder since.
    os.chdir(folder)
    return number, function(item)
