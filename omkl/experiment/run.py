"""One job: from a resolved configuration to a finished run folder."""

from __future__ import annotations

import contextlib
import datetime
import functools
import threading
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from omkl.datasets import DataError, label_sources
from omkl.experiment import classification, regression
from omkl.experiment.federation import FederatedJob
from omkl.experiment.federation import compute as compute_federated
from omkl.experiment.job import Job, Progress, prepare
from omkl.experiment.regression import expansive_steps
from omkl.experiment.regret import load_or_compute
from omkl.experiment.threads import default_threads, thread_pool
from omkl.runs import folder as run_folder
from omkl.runs.folder import Run
from omkl.runs.provenance import commit, key_of, machine, numbers_stamp, versions
from omkl.runs.writing import (
    files_of_run,
    folder_of,
    held_in_memory,
    is_complete,
    replace_files,
    staging_folder,
    without_places,
    writable,
)
from omkl.tracking import database, view


class Outcome(NamedTuple):
    """How a job ended.

    run      its folder; with status "failed" there may be none, then run holds the
             result and the configuration in memory
    status   "complete", "reused" or "failed"
    notes    what the user should know
    tracked  whether the run is in the MLflow view
    """

    run: Run
    status: str
    notes: list[str]
    tracked: bool = False


def run(
    config: Mapping[str, Any],
    progress: Progress | None = None,
    label: label_sources.Label | None = None,
) -> Outcome:
    """Run one job, or find it finished. Failures are returned, not raised.

    ``label(row, x, y_hat)`` is asked for the labels that the learner wants, in place of the
    data; with it the job is always computed.

    A job that cannot begin leaves nothing behind. One that breaks writes its failure
    into its folder, unless a finished result is there: that is only replaced by
    another finished one. KeyboardInterrupt passes through and changes nothing.
    """
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    if label is not None:
        stream = {**config["stream"], "labels": label_sources.CALLBACK}
        config = {**config, "stream": stream, "force": True}
    try:
        if progress:
            progress("reading the data", 0, None, None)
        source = _label_source(config, label)
        job = prepare(config)
    except Exception as error:
        explained = isinstance(error, ValueError | OSError | MemoryError)
        return Outcome(_failed(config, started, error, explained), "failed", [])
    config = job.config
    folder = folder_of(config)
    try:
        numbers = numbers_stamp(job.stream.provenance)
        notes = expansive_steps(job)
        earlier = Run(folder)
        if is_complete(earlier) and not config["force"]:
            if earlier.result.get("numbers") == numbers:
                # An earlier start may have had tracking=none, or ended before tracking.
                tracked = view.holds(folder, Path(config["outputs"]))
                tracker = None if tracked else _prepare_tracking(config)
                if config["figures"] and not (folder / "weights.png").exists():
                    _draw(earlier, tracker, progress)
                tracked = _track(config, folder, tracker, progress, notes) or tracked
                return Outcome(earlier, "reused", notes, tracked)
            notes.append(f"{folder.name} was computed by other code or data: computed anew")
        with writable(folder):
            tracker = _prepare_tracking(config)

            if isinstance(job, FederatedJob):
                n_threads = config["threads"] or default_threads()
                kept = functools.partial(load_or_compute, job)
                result, curves = compute_federated(job, n_threads, thread_pool, progress, kept)
            elif job.algorithm.task == "classification":
                result, curves = classification.compute(job, progress)
            else:
                result, curves = regression.compute(_with_labels(job, source, folder), progress)
            stamp = {"status": "complete", **_identity(config, started), "numbers": numbers}
            result = stamp | result
            with staging_folder(folder) as staging:
                run_folder.write_together(staging, files_of_run(config, result, curves))
                if config["figures"]:
                    _draw(held_in_memory(staging, result=result, curves=curves), tracker, progress)
                replace_files(folder, staging)
        tracked = _track(config, folder, tracker, progress, notes)
        return Outcome(Run(folder), "complete", notes, tracked)
    except Exception as error:
        explained = isinstance(error, DataError | FloatingPointError | OSError | MemoryError)
        failed = _failed(config, started, error, explained)
        if not is_complete(Run(folder)):
            # Without a disk to write on, the failure is still returned.
            with contextlib.suppress(OSError):
                folder.mkdir(parents=True, exist_ok=True)
                text = run_folder.config_text(without_places(config))
                run_folder.write_atomically(folder / "config.yaml", text)
                run_folder.write_result(folder, failed.result)
        return Outcome(failed, "failed", [])


def _label_source(
    config: Mapping[str, Any], label: label_sources.Label | None
) -> label_sources.Label | None:
    """Who gives labels, as far as it is known before the data are open; None: data or prompt."""
    given = config["stream"]["labels"]
    if not isinstance(given, str):
        raise ValueError(
            f"stream.labels={given!r} is none of {', '.join(label_sources.SOURCES)}, FILE"
        )
    if given == label_sources.CALLBACK and label is None:
        raise ValueError(
            "stream.labels=callback is a function in Python: "
            "omkl.experiment.run.run(config, label=function)"
        )
    if given in label_sources.SOURCES:
        return label
    if not given.endswith(".csv"):
        raise ValueError(
            f"stream.labels={given} is none of {', '.join(label_sources.SOURCES)}, and no CSV file "
            "with the columns row and label"
        )
    return label_sources.File(Path(given))


def _with_labels(job: Job, source: label_sources.Label | None, folder: Path) -> Job:
    """The job with its labels from outside kept in its folder as they come."""
    if job.stream.labelled:
        return job
    prompted = source is None
    if source is None:
        unit = job.stream.provenance["scaling"].get("max_norm", 1.0)
        source = label_sources.Prompt(job.stream.inputs, unit)
    kept = label_sources.Journal(folder / "labels.csv", source, resume=prompted)
    return job._replace(label=kept)


def _identity(config: Mapping[str, Any], started: str) -> dict[str, Any]:
    return {
        "key": key_of(config),
        "algorithm": config["algorithm"]["name"],
        "dataset": config["dataset"]["name"],
        "kernels": config["kernels"].get("name", "own"),
        "params": {k: v for k, v in config["algorithm"].items() if k != "name"},
        "started": started,
        "versions": versions(),
        "machine": machine(),
        "commit": commit(),
    }


def _failed(config: Mapping[str, Any], started: str, error: Exception, explained: bool) -> Run:
    """The failure as a run that is held in memory; without traceback if its message says all."""
    message = str(error)
    if isinstance(error, OSError) and error.strerror:
        message = f"cannot use {error.filename or folder_of(config)}: {error.strerror}"
    elif isinstance(error, MemoryError):
        message = f"not enough memory for this D, seeds and dictionary ({message})"
    failure = {
        "type": type(error).__name__,
        "message": message,
        "traceback": None if explained else traceback.format_exc(),
    }
    result = {"status": "failed", **_identity(config, started), "error": failure}
    return held_in_memory(folder_of(config), result=result, config=without_places(config))


def lost(config: Mapping[str, Any], message: str) -> Outcome:
    """The outcome of a job whose process did not live to tell it."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return Outcome(_failed(config, now, RuntimeError(message), explained=True), "failed", [])


def _draw(run: Run, tracker: threading.Thread | None, progress: Progress | None) -> None:
    if progress:
        progress("figures", 0, None, None)
    if tracker:  # two threads should not import large packages at once
        tracker.join()
    from omkl.report import run_figures

    run_figures.all_figures(run)


def _prepare_tracking(config: Mapping[str, Any]) -> threading.Thread | None:
    """Import MLflow and open its database while the rounds are running: they hold no lock."""
    if config["tracking"] != "mlflow":
        return None

    def quietly() -> None:
        try:
            view.prepare(Path(config["outputs"]))
        except Exception:  # log_run meets the same trouble and tells it
            return

    thread = threading.Thread(target=quietly, daemon=True)
    thread.start()
    return thread


def _track(
    config: Mapping[str, Any],
    folder: Path,
    thread: threading.Thread | None,
    progress: Progress | None,
    notes: list[str],
) -> bool:
    """Whether the run is in the MLflow view now; if it should be and is not, notes say why."""
    if thread is None:
        return False
    if progress:
        progress("tracking", 0, None, None)
    thread.join()
    try:
        view.log_run(folder, Path(config["outputs"]))
    except database.TrackingError as error:
        notes.append(str(error))
        return False
    return True
