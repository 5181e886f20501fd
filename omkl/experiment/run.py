"""One job: from a resolved configuration to a finished run folder."""

from __future__ import annotations

import contextlib
import datetime
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from omkl.config import schema, settings
from omkl.config.settings import Settings
from omkl.core import cache
from omkl.datasets import DataError, label_sources
from omkl.datasets.schema import CALLBACK, SOURCES
from omkl.experiment import classification, federation, regression
from omkl.experiment.job import Computed, Job, JobInfo, Progress, learners_of, own_modules
from omkl.experiment.regression import Regression
from omkl.runs import provenance, run_folder
from omkl.runs.provenance import (
    code_of,
    commit,
    identity_of,
    machine,
    numbers_stamp,
    versions,
)
from omkl.runs.run_folder import Run, held_in_memory
from omkl.runs.schema import RESULT, content_of
from omkl.runs.writing import (
    MODEL,
    PREDICTIONS,
    files_of_run,
    find_finished,
    folder_of,
    replace_files,
    staging_folder,
    without_places,
    write_failure,
    write_together,
)
from omkl.utils.threads import thread_pool
from omkl.utils.wording import cannot_use


class Outcome(NamedTuple):
    """How a job ended.

    run       its folder; with status "failed" there may be none, then run holds the
              result and the configuration in memory
    status    "complete", "reused" or "failed"
    notes     what the user should know
    settings  those of the job; None where they were never found good
    tracked   whether the run is in the MLflow view, if somebody has looked
    """

    run: Run
    status: str
    notes: list[str]
    settings: Settings | None = None
    tracked: bool = False


class Viewer(Protocol):
    """Who is told how far a job is that is to be computed."""

    def begun(self, job: JobInfo) -> None:
        """It can be computed, and will be now."""
        ...

    def measured(self, run: Run) -> None:
        """The rounds are over: the run, held in memory, without what is known in hindsight."""
        ...


def prepare(config: Settings | Mapping[str, Any]) -> Job:
    """Check settings against the data, and build what they name, for the kind that they are of.

    Raises ValueError (DataError for data) that names what is wrong and what to do.
    """
    job_settings = config if isinstance(config, Settings) else settings.read(config)
    if job_settings.scheme is not None:
        return federation.prepare(job_settings)
    if job_settings.task == "classification":
        return classification.prepare(job_settings)
    return regression.prepare(job_settings)


def run(
    config: Mapping[str, Any],
    progress: Progress | None = None,
    label: label_sources.Label | None = None,
    viewer: Viewer | None = None,
) -> Outcome:
    """Run one job, or find it finished. Failures are returned, not raised; what cannot even be
    named is a ValueError (``schema.check_nameable``).

    ``label(row, x, y_hat)`` is asked for the labels that the learner wants, in place of the
    data; with it the job is always computed. A ``viewer`` hears of a job that is to be computed.

    A job that cannot begin leaves nothing behind. One that breaks writes its failure
    into its folder, unless a finished result is there: that is only replaced by
    another finished one. KeyboardInterrupt passes through and changes nothing. Figures and
    tracking are their viewers' business: ``omkl.experiment.viewers``.
    """
    begun = _begin(config, progress, label)
    if isinstance(begun, Outcome):
        return begun
    job = begun.job
    try:
        with staging_folder(begun.folder) as staging:
            if viewer:
                viewer.begun(job)
            if not job.stream.labelled and isinstance(job, Regression):
                job = job.asking(begun.source, begun.folder)
            computed = _computed(job, progress, viewer, begun.stamp, staging)
            return _finished(begun, staging, computed)
    except Exception as error:
        return _broken(begun, error)


class StartedJob(NamedTuple):
    """A job that is to be computed: what its folder will say of it, and who gives labels."""

    job: Job
    config: dict[str, Any]
    folder: Path
    started: str
    stamp: dict[str, Any]
    notes: list[str]
    source: label_sources.Label | None


def _begin(
    config: Mapping[str, Any],
    progress: Progress | None = None,
    label: label_sources.Label | None = None,
) -> StartedJob | Outcome:
    """Check a job and look for its finished run; an outcome where nothing is to be computed."""
    schema.check_nameable(config)
    started = now()
    config = config if label is None else settings.with_label_callback(config)
    try:
        if progress:
            progress("reading the data", 0, None, None)
        checked = settings.read(config)
        source = _label_source(checked.stream.label_source, label)
        job = prepare(checked)
        _require_same(source, job.settings)
        modules = own_modules(job)
    except Exception as error:
        explained = isinstance(error, ValueError | OSError | MemoryError)
        return Outcome(_failed(config, started, error, explained), "failed", [])
    config = job.settings.config
    folder = folder_of(config)
    try:
        numbers, edited = _numbers_of(job, modules), provenance.edited(modules)
        finished, told = find_finished(config)
        notes = job.notes() + told
        if (
            finished is not None
            and not edited
            and not (job.settings.force or _lacking(job.settings, folder))
        ):
            if finished.result.get("numbers") == numbers:
                return Outcome(finished, "reused", notes, job.settings)
            notes.append(f"{folder.name} was computed by other code or data: computed anew")
        stamp = _stamp(job, started, numbers, modules)
    except Exception as error:
        return _broken_of(config, started, error)
    return StartedJob(job, config, folder, started, stamp, notes, source)


def _finished(begun: StartedJob, staging: Path, computed: Computed) -> Outcome:
    whole = computed._replace(result=begun.stamp | computed.result)
    if edited := provenance.edited(begun.stamp.get("modules", {})):
        whole.result["numbers"] = None
        begun.notes.append(f"{edited}")
    written = _write(begun.folder, staging, begun.config, whole)
    return Outcome(written, "complete", begun.notes, begun.job.settings)


def _broken(begun: StartedJob, error: Exception) -> Outcome:
    return _broken_of(begun.config, begun.started, error)


def _broken_of(config: Mapping[str, Any], started: str, error: Exception) -> Outcome:
    """The failure of a job that had begun, written into its folder."""
    explained = isinstance(error, DataError | FloatingPointError | OSError | MemoryError)
    failed = _failed(config, started, error, explained)
    with contextlib.suppress(OSError):  # without a disk to write on, it is still returned
        write_failure(failed)
    return Outcome(failed, "failed", [])


def record(job: JobInfo, computed: Computed, started: str) -> Outcome:
    """Write the run of numbers that parties of their own have computed, begun at an ISO time."""
    config, modules = job.settings.config, own_modules(job)
    stamp = _stamp(job, started, _numbers_of(job, modules), modules)
    notes = job.settings.notes()
    begun = StartedJob(cast(Any, job), config, folder_of(config), started, stamp, notes, None)
    with staging_folder(begun.folder) as staging:
        return _finished(begun, staging, computed)


def _numbers_of(job: JobInfo, modules: Mapping[str, str]) -> str:
    return numbers_stamp(job.stream.provenance, modules, learners_of(job))


def _lacking(settings: Settings, folder: Path) -> bool:
    """Whether a finished run did not keep what is asked for now."""
    asked = {PREDICTIONS: settings.predictions is True, MODEL: settings.model}
    return any(wanted and not (folder / name).exists() for name, wanted in asked.items())


def _write(folder: Path, staging: Path, config: Mapping[str, Any], computed: Computed) -> Run:
    """Publish a result; the run says this one, even if another process replaces it at once."""
    kept = dict(computed.kept)
    if 0 < len(provenance.changes()) <= provenance.MOST_CHANGES:
        kept[provenance.CHANGES] = provenance.changes().encode()
    files = files_of_run(config, computed.result, computed.curves, kept)
    write_together(staging, files)
    replace_files(folder, staging)
    text = str(files[RESULT])
    return held_in_memory(folder, raw=text.encode(), config=without_places(config))


def _computed(
    job: Job,
    progress: Progress | None,
    viewer: Viewer | None,
    stamp: dict[str, Any],
    staging: Path,
) -> Computed:
    def tell(stage: str) -> None:
        if progress:
            progress(stage, 0, None, None)

    tell("preparing")
    with (
        cache.on_cache_miss(lambda: tell("compiling, which takes seconds once")),
        thread_pool(1) as pool,  # the compiler would swallow a Ctrl-C in the main thread
    ):
        pool.submit(job.warm_up).result()

    def measured(computed: Computed) -> None:
        assert viewer is not None
        config = job.settings.config
        result = content_of(run_folder.result_text(stamp | computed.result, {}))  # as it is read
        known = {"content": result, "curves": computed.curves, "config": without_places(config)}
        viewer.measured(held_in_memory(folder_of(config), **known))

    return job.compute(progress, measured if viewer else None, staging)


def _label_source(setting: str, label: label_sources.Label | None) -> label_sources.Label | None:
    """Who gives labels, as far as it is known before the data are open; None: data or prompt."""
    if setting == CALLBACK and label is None:
        raise ValueError(
            "stream.labels=callback is a function in Python: "
            "omkl.experiment.run.run(config, label=function)"
        )
    if setting in SOURCES:
        return label
    return label_sources.File(Path(setting))


def _require_same(source: label_sources.Label | None, job_settings: Settings) -> None:
    """DataError where the labels were read before their file became another."""
    named = job_settings.stream.label_source
    if isinstance(source, label_sources.File) and source.sha256 not in named:
        raise DataError(f"{source.path.name}: the file changed while it was read. Start again.")


def now() -> str:
    """The time, ISO, UTC, in seconds."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _stamp(job: JobInfo, started: str, numbers: str, modules: Mapping[str, str]) -> dict[str, Any]:
    own = {"modules": modules} if modules else {}
    made_of = {"numbers": numbers, "code": code_of(learners_of(job)), **own}
    return {"status": "complete", **_identity(job.settings.config, started), **made_of}


def _identity(config: Mapping[str, Any], started: str) -> dict[str, Any]:
    return {
        **identity_of(config)._asdict(),
        "started": started,
        "versions": versions(),
        "machine": machine(),
        "commit": commit(),
        **provenance.surroundings(),
    }


def _failed(config: Mapping[str, Any], started: str, error: Exception, explained: bool) -> Run:
    """The failure as a run that is held in memory; without traceback if its message says all."""
    message = str(error)
    if isinstance(error, OSError) and error.strerror:
        message = cannot_use(error, folder_of(config))
    elif isinstance(error, MemoryError):
        message = f"not enough memory for this D, seeds and dictionary ({message})"
    failure = {
        "type": type(error).__name__,
        "message": message,
        "traceback": None if explained else traceback.format_exc(),
    }
    result = {"status": "failed", **_identity(config, started), "error": failure}
    return held_in_memory(folder_of(config), content=result, config=without_places(config))


def crashed(config: Mapping[str, Any], message: str) -> Outcome:
    """The outcome of a job whose process did not live to tell it."""
    return Outcome(_failed(config, now(), RuntimeError(message), explained=True), "failed", [])


def failed_in_postprocessing(outcome: Outcome, error: Exception) -> Outcome:
    """The outcome of a finished job that a viewer could not show; its folder stays as it is."""
    assert outcome.settings is not None
    explained = isinstance(error, DataError | OSError | MemoryError)
    run = _failed(outcome.settings.config, now(), error, explained)
    return Outcome(run, "failed", [])
