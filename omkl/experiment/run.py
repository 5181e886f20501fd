"""Run one job: from a resolved configuration to a finished run folder."""

from __future__ import annotations

import contextlib
import datetime
import json
import traceback
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from omkl.config.schema import Settings
from omkl.config.settings import complete
from omkl.core import cache
from omkl.datasets import DataError
from omkl.experiment import classification, federation, processes, regression
from omkl.experiment.job import Computed, Job, Progress, own_modules, prepare_learner
from omkl.runs import provenance, run_folder
from omkl.runs.provenance import stamp_of
from omkl.runs.run_folder import Run
from omkl.runs.writing import files_of_run, folder_of, publish, staging_folder, write_failure
from omkl.utils.threads import thread_pool
from omkl.utils.wording import cannot_use


class Outcome(NamedTuple):
    """Outcome of a job.

    run       the run. If the job failed, the run may be in memory without files
    status    "complete", "reused" (it had finished before) or "failed"
    notes     remarks for the user
    settings  settings of the job; None if it failed
    """

    run: Run
    status: str
    notes: list[str]
    settings: Settings | None = None


def prepare(settings: Settings) -> Job:
    """Check settings against the data, and build the job of the right kind.

    Raises ValueError for wrong settings, and DataError for unusable data. The message says what to
    correct.
    """
    settings = complete(settings)
    if settings.scheme is not None:
        return federation.prepare(settings)
    if settings.task == "classification":
        return classification.Classification(*prepare_learner(settings))
    return regression.Regression(*prepare_learner(settings))


def run(
    settings: Settings,
    progress: Progress | None = None,
    on_begin: Callable[[Job], None] | None = None,
) -> Outcome:
    """Run one job, or return its earlier run if it has finished before.

    An error of the job is not raised, but returned as an outcome. If the error occurs before the
    first row, no file is written. If it occurs later, it is written to ``outputs/failures``.
    KeyboardInterrupt is raised, and no file is changed.

    Parameters
    ----------
    settings
        Settings of the job.
    progress
        Callback between blocks of rows.
    on_begin
        Callback before the first row, with the job as its argument. It is not called if the job has
        finished before.
    """
    with processes.helper(settings) as compiled:
        started = _begin(settings, progress)
        if isinstance(started, Outcome):
            return started
        try:
            with staging_folder(started.folder) as staging:
                if on_begin:
                    on_begin(started.job)
                computed = _compute(started.job, progress, staging, compiled)
                return _finish(started, staging, computed)
        except Exception as error:
            explained = isinstance(error, DataError | FloatingPointError | OSError | MemoryError)
            begun_at = started.facts["started"]
            failed = failure(started.job.settings, error, explained, started.folder, begun_at)
            with contextlib.suppress(OSError):  # return it even if it cannot be written
                failed = failed._replace(run=write_failure(failed.run))
            return failed


class StartedJob(NamedTuple):
    """Job that is ready to run.

    job       the job
    folder    folder of the future run
    facts     entries of ``result.json`` that are known before the first row
    notes     remarks for the user
    replace   whether an existing folder with this name is replaced
    """

    job: Job
    folder: Path
    facts: dict[str, Any]
    notes: list[str]
    replace: bool


def _begin(settings: Settings, progress: Progress | None = None) -> StartedJob | Outcome:
    """Prepare a job, and look for an earlier run of the same job.

    Returns
    -------
    StartedJob or Outcome
        An outcome if the job has finished before, or cannot be prepared.
    """
    started = now()
    try:
        if progress:
            progress("reading the data", 0, None, None)
        job = prepare(settings)
        modules = own_modules(job)
        facts = _facts(job, started, modules)
    except Exception as error:
        explained = isinstance(error, ValueError | OSError | MemoryError)
        return failure(settings, error, explained, started=started)
    folder = folder_of(job.settings, facts["stamp"])
    notes, replace = job.notes(), job.settings.force
    if not replace and not provenance.edited(modules) and folder.exists():
        run = Run(folder)
        try:
            run.require_whole()
        except Exception as error:  # reading a damaged folder can raise any error
            notes.append(f"{folder.name} cannot be read ({error}): computed again")
            replace = True
        else:
            return Outcome(run, "reused", notes, job.settings)
    return StartedJob(job, folder, facts, notes, replace)


def _facts(job: Job, started: str, modules: Mapping[str, str]) -> dict[str, Any]:
    """Return the entries of ``result.json`` that are known before the first row."""
    return {
        **_identity(job.settings, started),
        "stamp": stamp_of(job.stream.provenance, modules),
        "code": provenance.code(),
        **({"modules": modules} if modules else {}),
    }


def _compute(
    job: Job, progress: Progress | None, staging: Path, compiled: Callable[[], object]
) -> Computed:
    """Compile the code of a job, then stream its rows."""

    def report_stage(stage: str) -> None:
        if progress:
            progress(stage, 0, None, None)

    name = job.settings.algorithm.name
    report_stage("preparing")
    with (
        cache.on_cache_miss(lambda: report_stage(f"compiling {name} and its baselines, once")),
        processes.fewer_collections(),
        thread_pool(1) as pool,  # in the main thread the compiler would suppress Ctrl-C
    ):
        pool.submit(job.warm_up, compiled).result()
    return job.compute(progress, staging)


def _finish(started: StartedJob, staging: Path, computed: Computed) -> Outcome:
    """Publish the run. If sources were edited since the job began, no later job reuses the run."""
    settings, folder, facts = started.job.settings, started.folder, started.facts
    if edited := provenance.edited(facts.get("modules", {})):
        facts = facts | {"stamp": f"edited-{uuid.uuid4().hex[:9]}"}
        folder = folder_of(settings, facts["stamp"])
        started.notes.append(edited)
    result = {"status": "complete", **facts, **computed.result}
    files = files_of_run(settings.content(), result, computed.curves, computed.files)
    publish(staging, folder, files, started.replace)
    return Outcome(Run(folder), "complete", started.notes, settings)


def now() -> str:
    """Return the time as ISO text in UTC, in seconds."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _identity(settings: Settings, started: str) -> dict[str, Any]:
    """Return the entries of ``result.json`` that identify a run and its environment."""
    return {
        "key": settings.key(),
        "algorithm": settings.algorithm.name,
        "dataset": settings.dataset["name"],
        "kernels": settings.kernels.get("name", "own"),
        "params": settings.algorithm.params,
        "started": started,
        "versions": provenance.versions(),
        "machine": provenance.machine(),
        "commit": provenance.commit(),
        **provenance.surroundings(),
    }


def failure(
    settings: Settings,
    error: Exception,
    explained: bool,
    folder: Path | None = None,
    started: str | None = None,
) -> Outcome:
    """Return the outcome of a failed job, with its run in memory.

    Parameters
    ----------
    settings
        Settings of the job.
    error
        Error of the job.
    explained
        Whether the error is expected, so that its message suffices and no traceback is stored.
    folder
        Folder that the run would have; None if the data could not be read.
    started
        Time at which the job began; None for the current time.
    """
    folder = folder or folder_of(settings, "unknown")
    message = str(error)
    if isinstance(error, OSError) and error.strerror:
        message = cannot_use(error, folder)
    elif isinstance(error, MemoryError):
        message = f"not enough memory for this D, seeds and dictionary ({message})"
    entry = {
        "type": type(error).__name__,
        "message": message,
        "traceback": None if explained else traceback.format_exc(),
    }
    result = {"status": "failed", **_identity(settings, started or now()), "error": entry}
    result = run_folder.plain_texts(json.loads(run_folder.result_text(result)))
    return Outcome(Run.in_memory(folder, result=result, config=settings.content()), "failed", [])
