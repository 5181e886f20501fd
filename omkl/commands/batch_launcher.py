"""``launcher=batch``: a sweep of many small jobs, composed cheaply, in a few processes.

Hydra's basic launcher composes every job twice, at 60 to 150 ms each time. Here the YAML files are
put together once for each set of choices (``omkl.config.compose``). Jobs then go
to worker processes that stay, so that imports, compiled code, data and comparators
are there from the second job on. Each worker has one core, or ``threads`` of them. Jobs that differ
in parameters of their algorithm alone are given to a worker as a group, and share what they can.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hydra.core.utils import JobReturn, JobStatus
from hydra.errors import HydraException
from omegaconf import DictConfig

from omkl.config.compose import Composer
from omkl.core.kinds import or_null, whole

if TYPE_CHECKING:
    from hydra.types import HydraContext

    from omkl.commands import sweep


WORKERS = or_null(whole(1, 1_024))  # processes
TOGETHER = or_null(whole(1, 1_024))  # jobs
MOST_TOGETHER = 24  # unless told: what they learn of a kernel fits into a first cache of 32 KiB
WAITING = 256  # jobs that wait for others like them, at most


# --- running --------------------------------------------------------------------------------------


class Batch:
    """The launcher: jobs are composed here and run by workers, in order as far as they are free."""

    def __init__(
        self,
        context: HydraContext,
        config: DictConfig,
        n_workers: int | None,
        n_together: int | None,
    ) -> None:
        from omkl.threads import default_threads

        folders = [s.path for s in config.hydra.runtime.config_sources if s.schema == "file"]
        self.composer = Composer([Path(path) for path in folders])
        self.config = config
        threads = config.threads if isinstance(config.threads, int) else 1
        most = max(1, default_threads() // max(1, threads))
        if told := WORKERS.refusal("launcher.workers", n_workers):
            raise HydraException(told)
        if told := TOGETHER.refusal("launcher.together", n_together):
            raise HydraException(told)
        self.most_together = n_together or MOST_TOGETHER
        environment = {str(k): str(v) for k, v in config.hydra.job.env_set.items()}
        environment["OMKL_THREADS"] = str(threads)
        self.n_workers = n_workers or most
        self.workers = Workers(self.n_workers, environment)

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        from omkl.commands import terminal

        Path(str(self.config.hydra.sweep.dir)).mkdir(parents=True, exist_ok=True)
        tasks = self._tasks(job_overrides, initial_job_idx)
        size = size_of_groups(len(job_overrides), self.n_workers, self.most_together)
        loading = threading.Thread(target=_load_the_table, daemon=True)
        with contextlib.closing(self.workers.run(grouped(tasks, size), loading.start)) as ended:
            for task, (text, failed) in ended:
                print(text, flush=True)
                if failed and task.config["fail_fast"]:
                    raise SystemExit(terminal.EXIT_FAILED)
        loading.join()
        return [
            JobReturn(overrides=overrides, status=JobStatus.COMPLETED)
            for overrides in job_overrides
        ]

    def _tasks(self, jobs: Sequence[Sequence[str]], first: int) -> Iterator[sweep.Task]:
        from omkl.commands import sweep

        folder = os.path.abspath(str(self.config.hydra.sweep.dir))
        for number, overrides in enumerate(jobs, start=first):
            task = sweep.Sweep.task(self.composer.compose(overrides), folder, number)
            if task is not None:
                yield task


def _load_the_table() -> None:
    """Import what the table of the sweep needs, while its jobs run: half a second."""
    import rich.console  # noqa: F401
    import scipy.special  # noqa: F401

    from omkl.report import sweep_table  # noqa: F401


def size_of_groups(n_jobs: int, n_workers: int, most: int) -> int:
    """So that every worker gets as many groups, none of more than ``most`` jobs."""
    n_rounds = -(-n_jobs // (n_workers * most))
    return -(-n_jobs // (n_workers * n_rounds)) if n_jobs else 1


def grouped(tasks: Iterator[sweep.Task], size: int) -> Iterator[list[sweep.Task]]:
    """The tasks, those that can share a pass together: in groups of at most that size."""
    from omkl.config.settings import key_of_pass

    waiting: dict[str, list[sweep.Task]] = {}
    for task in tasks:
        key = key_of_pass(task.config) if size > 1 else None
        if key is None:
            yield [task]
            continue
        group = waiting.setdefault(key, [])
        group.append(task)
        if len(group) == size:
            yield waiting.pop(key)
        elif sum(map(len, waiting.values())) > WAITING:
            yield waiting.pop(next(iter(waiting)))
    yield from waiting.values()


READY = None  # what a worker says first


class Worker(NamedTuple):
    process: BaseProcess
    connection: Connection
    groups: deque[dict[int, sweep.Task]]  # given to it; of each what is not yet answered

    @property
    def n_tasks(self) -> int:
        return sum(map(len, self.groups))


class Workers:
    """Processes that run tasks until they are told to end.

    They are started when this is made, so that their imports do not have to be waited for.
    A worker that dies fails its task alone; another takes its place, which also goes for one that
    dies before it has begun: its tasks are then the other's. RuntimeError where none can begin.
    Of a group that it dies with nobody knows which task it was: they are given out again, each by
    itself.
    """

    _AHEAD = 2  # tasks that a worker holds, so that it never waits for the next
    _STARTS = 5  # so many deaths before a worker is ready, one after the other, are no accident

    def __init__(self, n: int, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)
        self._ready: set[int | None] = set()
        self._died_early = 0
        self._again: deque[list[sweep.Task]] = deque()
        self._workers = [self._start() for _ in range(n)]

    def _start(self) -> Worker:
        # Not forked: a fork of a process with threads may hang (and NumPy has some).
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, self._environment), daemon=True)
        process.start()
        theirs.close()
        return Worker(process, ours, deque())

    def run(
        self, groups: Iterator[list[sweep.Task]], meanwhile: Callable[[], None] = lambda: None
    ) -> Generator[tuple[sweep.Task, tuple[str, bool]]]:
        """Yields each task and its answer, as they come. Closed early, it ends what runs.

        ``meanwhile`` is called once, when all workers have something to do.
        """
        finished = False
        try:
            self._give_out(groups)
            meanwhile()
            while at_work := [worker for worker in self._workers if worker.groups]:
                ready = wait([worker.connection for worker in at_work])
                for worker in at_work:
                    if worker.connection in ready and (answer := self._answer(worker)):
                        yield answer
                self._give_out(groups)
            finished = True
        finally:
            if not finished:
                self.end()

    def _give_out(self, groups: Iterator[list[sweep.Task]]) -> None:
        for worker in self._workers:
            while worker.n_tasks < self._AHEAD and (group := self._next(groups)):
                self._give(worker, group)

    def _next(self, groups: Iterator[list[sweep.Task]]) -> list[sweep.Task] | None:
        return self._again.popleft() if self._again else next(groups, None)

    def _give(self, worker: Worker, group: list[sweep.Task]) -> None:
        worker.groups.append(dict(enumerate(group)))
        with contextlib.suppress(OSError):  # dead: its answer tells
            worker.connection.send(group)

    def _answer(self, worker: Worker) -> tuple[sweep.Task, tuple[str, bool]] | None:
        try:
            answer = worker.connection.recv()
        except (EOFError, OSError):
            if worker.process.pid in self._ready:
                return self._bury(worker)
            self._died_early += 1
            if self._died_early == self._STARTS:
                raise RuntimeError(f"no worker process could start, {_how_ended(worker)}") from None
            self._replace(worker)
            return None
        if answer is READY:
            self._ready.add(worker.process.pid)
            self._died_early = 0
            return None
        if isinstance(answer, Exception):
            raise answer
        number, told = answer
        group = worker.groups[0]
        task = group.pop(number)
        if not group:
            worker.groups.popleft()
        return task, told

    def _bury(self, worker: Worker) -> tuple[sweep.Task, tuple[str, bool]] | None:
        from omkl.commands import sweep
        from omkl.experiment import run as runner

        group = list(worker.groups.popleft().values())
        how = _how_ended(worker)
        if len(group) > 1:
            self._again.extend([task] for task in group)
            self._replace(worker)
            return None
        (task,) = group
        outcome = runner.lost(
            task.config, f"its process ended {how}; not enough memory is the usual reason"
        )
        self._replace(worker)
        return task, sweep.Sweep.ended(task, outcome)

    def _replace(self, worker: Worker) -> None:
        """Start another in its place, which gets its tasks."""
        worker.process.join()
        new = self._start()
        self._workers[self._workers.index(worker)] = new
        for left in worker.groups:
            self._give(new, list(left.values()))

    def end(self, patience: float = 10.0) -> None:
        """End all workers; what one is at work on is given up and leaves nothing behind."""
        for worker in self._workers:
            worker.connection.close()
            if worker.groups:
                worker.process.terminate()
        for worker in self._workers:
            worker.process.join(patience)
            worker.process.kill()
        self._workers = []


def _how_ended(worker: Worker) -> str:
    worker.process.join()
    code = worker.process.exitcode
    return f"by signal {-code}" if code and code < 0 else f"with status {code}"


def _serve(connection: Connection, environment: Mapping[str, str]) -> None:
    """A worker's life. Ctrl-C reaches all processes of a terminal, and only the first minds."""

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(environment)
    at_end = contextlib.ExitStack()
    with contextlib.suppress(KeyboardInterrupt):
        with contextlib.suppress(EOFError, OSError):
            _answer_all(connection, at_end)
        # Its files still have to get to the disk when the first process is at its own end already.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        at_end.close()
    except OSError as error:
        print(f"omkl-run: not all that was written is on the disk: {error}", file=sys.stderr)
    os._exit(0)  # threads that still compute are not waited for


class _Termination:
    """SIGTERM as a Ctrl-C, the first alone; the others are ignored.

    A library may swallow the KeyboardInterrupt in a callback, so what was told is kept as well.
    """

    def __init__(self) -> None:
        self.told = False
        signal.signal(signal.SIGTERM, self._tell)

    def _tell(self, signum: int, frame: object) -> None:
        self.told = True
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt


def _answer_all(connection: Connection, at_end: contextlib.ExitStack) -> None:
    from omkl.commands.sweep import Sweep
    from omkl.disk import Syncing
    from omkl.threads import one_thread_each

    Syncing.in_background()
    at_end.callback(Syncing.finish)
    connection.send(READY)
    with contextlib.suppress(Exception):  # a job will tell
        Sweep.load()  # while the first process composes what comes
    termination = _Termination()  # before this nothing was written that a SIGTERM could spoil
    with one_thread_each():
        while not termination.told:
            tasks = connection.recv()
            try:
                for answer in Sweep.work_together(tasks):
                    connection.send(answer)
            except Exception as error:  # of the sweep's own files: jobs answer for themselves
                connection.send(error)
