"""Finished runs of many jobs, side by side in processes of one thread each.

Many jobs share what takes long: machine code is compiled once for an algorithm, and what is best in
hindsight is found once for a data set. Two that share do not run at once where there is a choice:
the second finds what the first has left.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, NamedTuple

from omkl.experiment import run as runner
from omkl.runs.run_folder import Run
from omkl.threads import default_threads, worker_processes

if TYPE_CHECKING:
    from omkl.config.compose import Composer

Job = Sequence[str]  # its overrides, as typed


class Ended(NamedTuple):
    """How a job ended, as ``omkl.experiment.run.Outcome`` has it, and the seconds that it took."""

    status: str
    run: Run
    notes: list[str]
    seconds: float


def compute(job: Job) -> Ended:
    """Run one job, or find it finished."""
    start = time.perf_counter()
    config = _compositions().compose(job)
    outcome = runner.run(config)
    if "jobs_in_pass" in outcome.run.result:  # a sweep's, whose seconds are a share
        outcome = runner.run({**config, "force": True})
    return Ended(outcome.status, outcome.run, outcome.notes, time.perf_counter() - start)


def side_by_side(jobs: Sequence[Job]) -> Iterator[tuple[int, Ended]]:
    """The numbers of jobs, and how they ended, as they do: on all cores, long ones first.

    A job that breaks fails alone, and so does one whose process does not live to tell it.
    """
    n = min(default_threads(), len(jobs))
    waiting = sorted(range(len(jobs)), key=lambda number: turn_of(jobs[number]))
    if n <= 1:
        yield from ((number, compute(jobs[number])) for number in waiting)
        return
    pool, running = worker_processes(n), dict[Future[Ended], int]()
    try:
        while waiting or running:
            while waiting and len(running) < n:
                number = _next(waiting, jobs, running.values())
                waiting.remove(number)
                running[pool.submit(compute, jobs[number])] = number
            ended, _ = wait(running, return_when=FIRST_COMPLETED)
            lost = [running[future] for future in ended if _is_lost(future)]
            if lost:  # nobody knows with which of them the process died
                lost += [number for future, number in running.items() if future not in ended]
                pool.shutdown()
                pool = worker_processes(n)
            for number in lost:
                yield number, _alone(jobs[number])
            for future in ended:
                if not _is_lost(future):
                    yield running[future], future.result()
            running = {f: k for f, k in running.items() if f not in ended and k not in lost}
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@functools.cache
def _compositions() -> Composer:
    """A process reads every YAML file once."""
    from omkl.config.compose import Composer  # Hydra, which not every process needs

    return Composer()


def turn_of(job: Job) -> tuple[bool, bool]:
    """Smaller for what takes longer, as far as that is known: a federation, one with hindsight."""
    federated = any(text.startswith("federation=") for text in job)
    return not federated, "regret.ridge_features=true" not in job


def _next(waiting: Sequence[int], jobs: Sequence[Job], running: Iterable[int]) -> int:
    """The first job that shares nothing with those that are running; else the first."""
    others = [jobs[number] for number in running]
    alone = (k for k in waiting if not any(shares(jobs[k], other) for other in others))
    return next(alone, waiting[0])


def shares(one: Job, other: Job) -> bool:
    """Whether two jobs have the same algorithm, or differ in their algorithm alone."""
    named, rest = zip(*map(_split, (one, other)), strict=True)
    return named[0] == named[1] or rest[0] == rest[1]


def _split(job: Job) -> tuple[str, frozenset[str]]:
    """The override that names the algorithm, and those that say nothing of it."""
    named = next(text for text in job if text.startswith("algorithm="))
    return named, frozenset(text for text in job if not text.startswith("algorithm"))


def _is_lost(future: Future[Ended]) -> bool:
    return isinstance(future.exception(), BrokenProcessPool)


def _alone(job: Job) -> Ended:
    """Run a job in a process of its own; if that dies, the job has failed."""
    start = time.perf_counter()
    with worker_processes(1) as pool:
        try:
            return pool.submit(compute, job).result()
        except BrokenProcessPool:
            why = "its process died; not enough memory is the usual reason"
            lost = runner.lost(_compositions().compose(job), why)
    return Ended(lost.status, lost.run, lost.notes, time.perf_counter() - start)
