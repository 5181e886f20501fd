"""The MLflow view of the run folders.

The folders are the truth (``omkl.runs.folder``); this view can be deleted and made
again from them at any time (``rebuild``). It consists of ``mlflow.db`` (SQLite)
and ``mlartifacts/`` (second names of the run folders' files) in the outputs folder.

One MLflow experiment a data set, so that the chart page compares algorithms on
the same data; one MLflow run a run folder, and one above the runs of a sweep. Metrics are few,
because the user interface draws one chart a metric: curves of the error so far, of windows, and
of the regret, with at most 500 points, and the final numbers.

MLflow takes 1.5 s to import and another 1.7 s to create its tables, so nothing
here imports it before it is needed; ``prepare`` does both ahead of time.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import uuid
import warnings
from collections.abc import Callable
from concurrent.futures import Future, wait
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from omkl.runs import sweeps
from omkl.runs.folder import Replaced, Run, folders
from omkl.tracking.database import (
    TrackingError,
    create_database,
    database_file,
    explained,
    free_name,
    ids_of_runs,
    keep_artifacts,
    locked,
    open_view,
    read_only,
    remove_artifacts,
    resolved,
    state_of,
    write_record,
)
from omkl.tracking.parents import write_parents
from omkl.tracking.records import Record, about_one_run, read_record, reason_of

if TYPE_CHECKING:
    from mlflow import MlflowClient


def log_run(folder: Path, outputs: Path) -> str:
    """Write the run folder ``folder`` into the MLflow view of ``outputs``.

    If this folder is there with the same ``result.json``, nothing is written; with
    another one, that run is deleted and replaced. Safe to call from several
    processes at once. A Ctrl-C lets it come to its end, for up to ``PATIENCE``
    seconds; what is cut short then is replaced by the next call.

    Returns the MLflow run's id. Raises ``TrackingError``, whatever went wrong.
    """
    return undisturbed(lambda: _log(Path(folder), resolved(outputs)))


PATIENCE = 1.5
T = TypeVar("T")


def undisturbed(work: Callable[[], T]) -> T:
    """What ``work`` returns or raises, without a Ctrl-C in the middle of it.

    One that lands in a transaction leaves the database locked, and whoever opens it next waits
    for 20 s, MLflow's own limit; so the main thread, where it lands, only waits.
    """
    ended: Future[T] = Future()

    def do() -> None:
        try:
            ended.set_result(work())
        except BaseException as error:
            ended.set_exception(error)

    try:
        threading.Thread(target=do, daemon=True).start()
        return ended.result()
    except KeyboardInterrupt:
        wait([ended], PATIENCE)
        raise


def _log(folder: Path, outputs: Path) -> str:
    try:
        record = read_record(folder, outputs)
    except Exception as error:
        raise TrackingError(
            f"cannot read the run folder {folder} ({reason_of(error)}): "
            "it is not in the MLflow view"
        ) from error
    with explained(outputs), locked(outputs, ".mlflow.lock"):
        return _write(open_view(outputs), record, outputs)[1]


def _write(client: MlflowClient, record: Record, outputs: Path) -> tuple[str, str]:
    """Write a record, or what has taken its place meanwhile; its digest and its run's id."""
    while True:
        try:
            return record.digest, write_record(client, record, outputs)
        except Replaced:
            record = read_record(record.folder, outputs)


def log_sweep(sweep: Path, outputs: Path) -> list[str]:
    """Write a sweep into the view, above its runs that are there, one run an experiment.

    Returns their ids. Raises TrackingError.
    """
    outputs = resolved(outputs)

    def work() -> list[str]:
        with explained(outputs), locked(outputs, ".mlflow.lock"):
            return write_parents(open_view(outputs), sweep.resolve(), outputs)

    return undisturbed(work)


def holds(run: Run, outputs: Path) -> bool:
    """Whether the view holds this very result; asked without importing MLflow."""
    question = "SELECT 1 FROM tags WHERE key = 'result_sha256' AND value = ?"  # written last
    try:
        with contextlib.closing(read_only(database_file(outputs.resolve()))) as connection:
            return connection.execute(question, (run.digest,)).fetchone() is not None
    except sqlite3.Error:  # log_run meets the same and explains it
        return False


def prepare(outputs: Path) -> None:
    """Import MLflow and create the database, so that ``log_run`` finds both done.

    Meant for a thread that is started when a run starts computing (a daemon
    thread is fine: the database appears whole or not at all). Start it after
    your own heavy imports: importing holds the GIL for most of its 1.5 s, and two
    threads should not import the same large packages at once; compiled code
    that has released the GIL is not slowed. Raises nothing: ``log_run`` meets the
    same obstacle and reports it.
    """
    with contextlib.suppress(TrackingError):
        outputs = resolved(outputs)
        with explained(outputs), locked(outputs, ".mlflow.lock"):
            open_view(outputs)


Progress = Callable[[int, int, Path, str | None], None]


def rebuild(outputs: Path, progress: Progress | None = None) -> int:
    """Make the MLflow view of ``outputs`` anew from its run folders.

    The cure for a corrupt or outdated database and for an outputs folder that
    was moved (MLflow stores absolute paths). The new database is made beside the
    old one and takes its place when it is complete; a corrupt old one is kept as
    ``mlflow.db.broken-<n>``. Whatever else was in the view (notes typed into the
    user interface, runs of other programs) is dropped. Runs may finish meanwhile:
    they are taken along. A user interface that is running shows the new view when
    its page is loaded again.

    ``progress(done, total, folder, problem)`` is called after each run folder;
    ``problem`` is None, or says why the folder is left out. Without ``progress``
    such folders are reported by ``warnings.warn``.

    Returns the number of runs in the new view. Raises ``TrackingError``.
    """
    outputs = resolved(outputs)
    if next(folders(outputs), None) is None:
        raise TrackingError(f"there are no run folders below {outputs / 'runs'}: nothing to show")
    database = database_file(outputs)
    staged = outputs / f".mlflow-rebuild-{uuid.uuid4().hex}.db"
    writer = _Writer(outputs, progress)
    swapped, parents = False, []
    with explained(outputs), locked(outputs, ".mlflow-rebuild.lock"):
        for leftover in outputs.glob(".mlflow-rebuild-*.db*"):
            leftover.unlink(missing_ok=True)
        try:
            client = create_database(staged)
            writer.write_all(client)
            with locked(outputs, ".mlflow.lock"):
                writer.write_all(client)
                for sweep in sweeps.folders(outputs):
                    parents += write_parents(client, sweep, outputs)
                if state_of(database, thorough=True) == "broken":
                    database.rename(free_name(database))
                # A leftover journal of the old file would be applied to the new one.
                for suffix in ("-journal", "-wal", "-shm"):
                    database.with_name(database.name + suffix).unlink(missing_ok=True)
                os.replace(staged, database)
                swapped = True
                run_ids = ids_of_runs(database)
                keep_artifacts(outputs, run_ids)
        finally:
            if not swapped:
                staged.unlink(missing_ok=True)
                for run_id in (*parents, *(run_id for _, run_id in writer.written.values())):
                    remove_artifacts(outputs, run_id)
    return len(run_ids.difference(parents))


class _Writer:
    """Writes run folders into a new database, and remembers which; asked again, only new ones.

    ``written`` maps a run folder to its digest and its run's id.
    """

    def __init__(self, outputs: Path, progress: Progress | None) -> None:
        self.outputs = outputs
        self.progress = progress
        self.written: dict[Path, tuple[str, str]] = {}
        self.left_out: set[Path] = set()

    def write_all(self, client: MlflowClient) -> None:
        runs = list(folders(self.outputs))
        for done, run in enumerate(runs, 1):
            problem = None
            try:
                if not self._write(client, run.folder):
                    continue
            except _Unwritable as error:
                problem = str(error)
            if problem and run.folder in self.left_out:
                continue
            if problem:
                self.left_out.add(run.folder)
            if self.progress is not None:
                self.progress(done, len(runs), run.folder, problem)
            elif problem:
                warnings.warn(f"{run.folder} is left out: {problem}", stacklevel=3)

    def _write(self, client: MlflowClient, folder: Path) -> bool:
        """Write one folder, unless its content is there. Raises _Unwritable for a bad folder."""
        try:
            if folder in self.written and self.written[folder][0] == Run(folder).digest:
                return False
            record = read_record(folder, self.outputs)
        except Exception as error:
            raise _Unwritable(reason_of(error)) from error
        try:
            self.written[folder] = _write(client, record, self.outputs)
        except Exception as error:
            if not about_one_run(error):
                raise
            raise _Unwritable(reason_of(error)) from error
        return True


class _Unwritable(Exception):
    """A run folder cannot be in the view; the text says why."""
