"""Run many jobs in worker processes, and compile code in a second process.

``helper`` starts a process that compiles the scaling and the baselines of a run. Meanwhile the run
reads its data and compiles its learner. Both processes store compiled code in the cache on disk,
where the run finds the code of the second process. The run does not depend on the second process:
code that is not in the cache is compiled when it is called.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import gc
import multiprocessing
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from typing import TypeVar

import numpy as np

from omkl.config.overrides import UsageError
from omkl.config.schema import Settings
from omkl.config.settings import complete
from omkl.core import cache, compiler
from omkl.datasets.scaling import Moments
from omkl.experiment.metrics import FORECASTERS, forecaster_settings, learned
from omkl.online.learner import OnlineLearner
from omkl.utils.threads import usable_cores
from omkl.utils.wording import how_to_install

Item = TypeVar("Item")
Result = TypeVar("Result")
DIED = "its process died; not enough memory is the usual reason"
# Allocations between two garbage collections. With Python's 700, compilation takes 8 % longer.
ALLOCATIONS = 50_000
_PROGRAM = "from omkl.experiment import processes; processes.main()"


def side_by_side(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    n_jobs: int | str | None = None,
    threads: int = 1,
) -> Generator[tuple[int, Result | None]]:
    """Call a function on each item, in parallel processes.

    If a process dies, the function is called again on the items of this process, one at a time. An
    exception of ``function`` is raised by this generator.

    Parameters
    ----------
    function, items
        Function of one item, and the items. All are pickled.
    n_jobs
        Number of processes. None: one per ``threads`` cores. A text is the address of a Dask
        scheduler, whose workers call the function.
    threads
        Number of threads of each process.

    Yields
    ------
    number, result
        Index of an item in ``items`` and its result, in the order of completion. The result is None
        if the process died twice.
    """
    from joblib import Parallel, delayed, parallel_config

    atexit.register(_kill_workers)  # several registrations do no harm
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
            # At the end of a sweep, and when joblib replaces a worker whose memory has grown. As an
            # error, the second would end joblib's thread, and the sweep would wait for ever.
            warnings.filterwarnings("ignore", "[^$]*have been cancelled|A worker stopped while")
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


def _kill_workers() -> None:
    """Kill idle workers before Python ends, because Python would wait for a worker that hangs."""
    for process in multiprocessing.active_children():
        if process.name.startswith("LokyProcess"):
            process.kill()


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
    # joblib's processes outlive a call. Meanwhile a notebook may have changed its folder.
    os.chdir(folder)
    return number, function(item)


# --- Compiling ahead ------------------------------------------------------------------------------


@contextlib.contextmanager
def helper(settings: Settings) -> Iterator[Callable[[], object]]:
    """Start a process that compiles scaling and baselines, unless compiled code exists.

    No process is started on a single core, with ``threads=1``, in a worker process of a sweep, for
    a federation, or if the system refuses to start one.

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
    """Read the pickled settings of a run from standard input, and compile its baselines."""
    with fewer_collections():
        compile_baselines(complete(pickle.load(sys.stdin.buffer)))


def compile_baselines(settings: Settings) -> None:
    """Compile the scaling, the baselines and the intervals of a run with these settings."""
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
    """Collect garbage less often. The compiler creates many objects, but little garbage."""
    before = gc.get_threshold()
    gc.set_threshold(ALLOCATIONS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
