"""One job: from a resolved configuration to a finished run folder."""

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
from omkl.experiment import classification, federation, regression, warm
from omkl.experiment.job import Computed, Job, Progress, own_modules, prepare_learner
from omkl.runs import provenance, run_folder
from omkl.runs.provenance import stamp_of
from omkl.runs.run_folder import Run
from omkl.runs.writing import (
    files_of_run,
    folder_of,
    publish,
    staging_folder,
    write_failure,
)
from omkl.utils.threads import thread_pool
from omkl.utils.wording import cannot_use


class Outcome(NamedTuple):
    """Outcome of a job.

    run       its folder; with status "failed" there may be none, then run holds the
              result and the configuration in memory
    status    "complete", "reused" or "failed"
    notes     what the user should know
    settings  those of the job; None if it failed
    """

    run: Run
    status: str
    notes: list[str]
    settings: Settings | None = None


def prepare(settings: Settings) -> Job:
    """Check settings against the data, and build what they name, for the kind that they are of.

    Raises ValueError (DataError for data) that names what is wrong and what to do.
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
    begun: Callable[[Job], None] | None = None,
) -> Outcome:
    """Run one job, or find it finished. Failures are returned, not raised.

    ``begun`` is called with a job that is computed, before its first row.

    A job that cannot begin leaves nothing behind. One that breaks writes its failure into
    ``outputs/failures``. KeyboardInterrupt passes through and changes nothing.
    ``omkl.experiment.viewers`` draws and tracks runs.
    """
    with warm.helper(settings) as compiled:
        started = _begin(settings, progress)
        if isinstance(started, Outcome):
            return started
        try:
            with staging_folder(started.folder) as staging:
                if begun:
                    begun(started.job)
                computed = _computed(started.job, progress, staging, compiled)
                return _finished(started, staging, computed)
        except Exception as error:
            return _broken(started, error)


class StartedJob(NamedTuple):
    """A job that is to be computed.

    folder    where its run will be
    facts     what ``result.json`` says of it before any number is known
    notes     what the user should know
    replace   whether another folder may be in its place, which is to be moved away
    """

    job: Job
    folder: Path
    facts: dict[str, Any]
    notes: list[str]
    replace: bool


def _begin(settings: Settings, progress: Progress | None = None) -> StartedJob | Outcome:
    """Check a job and look for its finished run; an outcome where nothing is to be computed."""
    started = now()
    try:
        if progress:
            progress("reading the data", 0, None, None)
        job = prepare(settings)
        modules = own_modules(job)
        facts = _facts(job, started, modules)
    except Exception as error:
        explained = isinstance(error, ValueError | OSError | MemoryError)
        folder = folder_of(settings, "unknown")
        return Outcome(_failed(settings, folder, started, error, explained), "failed", [])
    folder = folder_of(job.settings, facts["stamp"])
    notes, replace = job.notes(), job.settings.force
    if not replace and not provenance.edited(modules) and folder.exists():
        run = Run(folder)
        try:
            run.require_whole()
        except Exception as error:  # whatever damage does, or something else has written
            notes.append(f"{folder.name} cannot be read ({error}): computed again")
            replace = True
        else:
            return Outcome(run, "reused", notes, job.settings)
    return StartedJob(job, folder, facts, notes, replace)


def _facts(job: Job, started: str, modules: Mapping[str, str]) -> dict[str, Any]:
    """Return what ``result.json`` says of a job before any number is known."""
    return {
        **_identity(job.settings, started),
        "stamp": stamp_of(job.stream.provenance, modules),
        "code": provenance.code(),
        **({"modules": modules} if modules else {}),
    }


def _finished(begun: StartedJob, staging: Path, computed: Computed) -> Outcome:
    """Publish the run, under a name that no later start finds if sources were edited meanwhile."""
    settings, folder, facts = begun.job.settings, begun.folder, begun.facts
    if edited := provenance.edited(facts.get("modules", {})):
        facts = facts | {"stamp": f"edited-{uuid.uuid4().hex[:9]}"}
        folder = folder_of(settings, facts["stamp"])
        begun.notes.append(edited)
    result = {"status": "complete", **facts, **computed.result}
    files = files_of_run(settings.content(), result, computed.curves, computed.kept)
    publish(staging, folder, files, begun.replace)
    return Outcome(Run(folder), "complete", begun.notes, settings)


def _broken(begun: StartedJob, error: Exception) -> Outcome:
    """Write the failure of a job that had begun."""
    explained = isinstance(error, DataError | FloatingPointError | OSError | MemoryError)
    settings, started = begun.job.settings, begun.facts["started"]
    failed = _failed(settings, begun.folder, started, error, explained)
    with contextlib.suppress(OSError):  # without a disk to write on, it is still returned
        failed = write_failure(failed)
    return Outcome(failed, "failed", [])


def _computed(
    job: Job, progress: Progress | None, staging: Path, compiled: Callable[[], object]
) -> Computed:
    def tell(stage: str) -> None:
        if progress:
            progress(stage, 0, None, None)

    name = job.settings.algorithm.name
    tell("preparing")
    with (
        cache.on_cache_miss(lambda: tell(f"compiling {name} and its baselines, once")),
        warm.fewer_collections(),
        thread_pool(1) as pool,  # the compiler would swallow a Ctrl-C in the main thread
    ):
        pool.submit(job.warm_up, compiled).result()

    return job.compute(progress, staging)


def now() -> str:
    """Return the time, ISO, UTC, in seconds."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _identity(settings: Settings, started: str) -> dict[str, Any]:
    """Return what result.json calls a run: its key, names as typed, and where it comes from."""
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


def _failed(
    settings: Settings, folder: Path, started: str, error: Exception, explained: bool
) -> Run:
    """Return a failure as a run in memory, without traceback if its message is enough."""
    message = str(error)
    if isinstance(error, OSError) and error.strerror:
        message = cannot_use(error, folder)
    elif isinstance(error, MemoryError):
        message = f"not enough memory for this D, seeds and dictionary ({message})"
    failure = {
        "type": type(error).__name__,
        "message": message,
        "traceback": None if explained else traceback.format_exc(),
    }
    result = {"status": "failed", **_identity(settings, started), "error": failure}
    result = run_folder.plain_texts(json.loads(run_folder.result_text(result)))
    return Run.in_memory(folder, result=result, config=settings.content())


def crashed(settings: Settings, message: str, kind: type[Exception] = RuntimeError) -> Outcome:
    """Return the outcome of a job that could not return one itself."""
    folder = folder_of(settings, "unknown")
    return Outcome(_failed(settings, folder, now(), kind(message), explained=True), "failed", [])


def failed_in_postprocessing(outcome: Outcome, error: Exception) -> Outcome:
    """Return the outcome of a finished job whose figures could not be drawn."""
    assert outcome.settings is not None
    explained = isinstance(error, DataError | OSError | MemoryError)
    settings, folder = outcome.settings, outcome.run.folder
    return Outcome(_failed(settings, folder, now(), error, explained), "failed", [])
