"""Many jobs side by side, in processes that stay: imports, machine code and data are there then."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from omkl.config.settings import drop_foreign_parameters
from omkl.experiment import run as runner
from omkl.runs.run_folder import Run
from omkl.utils import interrupts
from omkl.utils.threads import default_threads, worker_processes

if TYPE_CHECKING:
    from omkl.config.compose import Composer

Item = TypeVar("Item")
Result = TypeVar("Result")
Job = Sequence[str]  # its overrides, as typed
DIED = "its process died; not enough memory is the usual reason"
PATIENCE = 10.0  # seconds that a worker has to tidy up after what it gives up


class Workers:
    """So many processes with so many threads each; they begin to start when this is made.

    Parameters
    ----------
    n, threads
        Processes, and threads of each.
    prepare
        Called in each process as it starts, for imports that work does not have to wait for then.
    """

    def __init__(self, n: int, threads: int = 1, prepare: Callable[[], object] = int) -> None:
        self.n, self.threads, self._prepare = n, threads, prepare
        self._others = set(multiprocessing.active_children())
        self._pool = self._started(n)

    def _started(self, n: int) -> ProcessPoolExecutor:
        begin = functools.partial(_begin, self._prepare)
        pool = worker_processes(n, self.threads, begin)
        for _ in range(n):
            pool.submit(int)  # the first submissions start the processes
        return pool

    def run(
        self,
        work: Callable[[Item], Result],
        items: Iterator[Item],
        ahead: int = 1,
    ) -> Iterator[tuple[Item, Result | None]]:
        """What ``work`` returns for each item, as they end; None for one whose process died.

        Nobody knows which of the items under way a process died of: each of them is then done
        again by itself. What ``work`` raises is raised here. Left before the
        end, and at a Ctrl-C, it ends what is under way.

        Parameters
        ----------
        work
            A function of a module, called in the processes.
        items
            Taken one by one, when there is a process for it.
        ahead
            How many items wait for each process, so that it never waits for the next.
        """
        running: dict[Future[Result], Item] = {}
        try:
            while True:
                while len(running) < self.n * (1 + ahead):
                    try:
                        item = next(items)
                    except StopIteration:
                        break
                    running[self._submitted(work, item)] = item
                if not running:
                    return
                wait(running, return_when=FIRST_COMPLETED)
                if any(map(_has_died, running)):
                    again = [f for f in running if not f.done() or _has_died(f)]
                    for item in [running.pop(future) for future in again]:
                        yield item, self._by_itself(work, item)
                    self._restart(self.n)
                for future in [future for future in running if future.done()]:
                    yield running.pop(future), future.result()
        finally:
            self.end()

    def _submitted(self, work: Callable[[Item], Result], item: Item) -> Future[Result]:
        try:
            return self._pool.submit(_do, work, item)
        except BrokenProcessPool as error:  # a process has died meanwhile
            future: Future[Result] = Future()
            future.set_exception(error)
            return future

    def _by_itself(self, work: Callable[[Item], Result], item: Item) -> Result | None:
        self._restart(1)
        try:
            self._pool.submit(int).result()
        except BrokenProcessPool:
            raise RuntimeError("no worker process can be started") from None
        try:
            return self._pool.submit(_do, work, item).result()
        except BrokenProcessPool:
            return None

    def _restart(self, n: int) -> None:
        self._pool.shutdown()
        self._pool = self._started(n)

    def end(self) -> None:
        """End all processes; what one is at work on is given up and leaves nothing behind."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        workers = set(multiprocessing.active_children()) - self._others
        for process in workers:
            process.terminate()
        for process in workers:
            process.join(PATIENCE)
            if process.is_alive():
                process.kill()


def _has_died(future: Future[Any]) -> bool:
    return future.done() and isinstance(future.exception(), BrokenProcessPool)


# --- in a worker ----------------------------------------------------------------------------------


def _begin(prepare: Callable[[], object]) -> None:
    # A Ctrl-C reaches all processes of a terminal; the first ends the others, by SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    interrupts.listen(signal.SIGTERM, at_work=False)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with contextlib.suppress(Exception):  # the work will tell
        prepare()


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for work for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)


def _do(work: Callable[[Item], Result], item: Item) -> Result:
    with interrupts.at_work():
        return work(item)


# --- jobs of overrides ----------------------------------------------------------------------------


class Ended(NamedTuple):
    """How a job ended, as ``omkl.experiment.run.Outcome`` has it, and the seconds that it took."""

    status: str
    run: Run
    notes: list[str]
    seconds: float


def compute(job: Job) -> Ended:
    """Run one job, or find it finished."""
    start = time.perf_counter()
    outcome = runner.run(drop_foreign_parameters(_composer().compose(job)))
    return Ended(outcome.status, outcome.run, outcome.notes, time.perf_counter() - start)


def side_by_side(jobs: Sequence[Job], n: int | None = None) -> Iterator[tuple[int, Ended]]:
    """The numbers of jobs, and how they ended, as they do: in n processes, long ones first.

    n None: one for each core; of one job, or n = 1, this process.

    Machine code is compiled once for an algorithm, and what is best in hindsight is found once for
    a data set: two jobs that share do not run at once where there is a choice, so that the second
    finds what the first has left. A job that breaks fails alone, and so does one whose process
    dies.
    """
    n = min(default_threads() if n is None else n, len(jobs))
    waiting = sorted(range(len(jobs)), key=lambda number: turn_of(jobs[number]))
    if n <= 1:
        yield from ((number, compute(jobs[number])) for number in waiting)
        return
    busy: set[int] = set()

    def in_turn() -> Iterator[tuple[int, Job]]:
        while waiting:
            number = _next(waiting, jobs, busy)
            waiting.remove(number)
            busy.add(number)
            yield number, jobs[number]

    for (number, job), ended in Workers(n).run(_compute, in_turn(), ahead=0):
        busy.remove(number)
        yield number, ended or _lost(job)


def _compute(numbered: tuple[int, Job]) -> Ended:
    return compute(numbered[1])


def _lost(job: Job) -> Ended:
    outcome = runner.crashed(_composer().compose(job), DIED)
    return Ended(outcome.status, outcome.run, outcome.notes, 0.0)


@functools.cache
def _composer() -> Composer:
    """A process reads every YAML file once."""
    from omkl.config.compose import Composer  # Hydra, which not every process needs

    return Composer()


def turn_of(job: Job) -> tuple[bool, bool]:
    """Smaller for what takes longer, as far as that is known: a federation, one with hindsight."""
    federated = any(text.startswith("federation=") for text in job)
    return not federated, "regret.ridge_features=true" not in job


def _next(waiting: Sequence[int], jobs: Sequence[Job], busy: Iterable[int]) -> int:
    """The first job that shares nothing with those that are running; else the first."""
    others = [jobs[number] for number in busy]
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
