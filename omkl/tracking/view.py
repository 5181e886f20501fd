"""The MLflow view of the run folders: ``mlflow.db`` and ``mlartifacts/`` in the outputs folder.

The run folders are the truth (``omkl.runs.run_folder``). The view can be deleted and made again
from them at any time (``rebuild``), so it needs no repair: whatever is wrong with it, the error
says how to make it anew. One MLflow experiment per data set, so that its chart page compares
learners on the same data; one MLflow run per run folder, and one above the runs of a sweep. Files
are second names (hard links) of those in the run folders, so that nothing is stored twice.

MLflow takes 1.5 s to import and its tables another 1.7 s to create; ``prepare`` does both ahead of
time, in a thread beside the rounds. All writing happens under one lock.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import json
import logging
import os
import shutil
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from filelock import FileLock, Timeout

from omkl import disk
from omkl.report import style
from omkl.runs import sweeps
from omkl.runs.checksum import LABELS, RESULT
from omkl.runs.run_folder import Replaced, Run, folders
from omkl.tracking.records import FINAL, Data, Record, about_one_run, read_record, reason_of

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import DatasetInput
    from mlflow.entities import Run as MlflowRun

LOCK_SECONDS = 60.0
CURE = (
    "`omkl-report rebuild-tracking` makes the view anew from the run folders, which are "
    "complete and unharmed; `tracking=none` runs without it"
)
VIEW = "omkl"
VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"
DIGEST = "result_sha256"  # the last tag written: a run without it was cut short
PARENT = "mlflow.parentRunId"
SWEEP = "sweep"  # a tag of the runs that stand above those of a sweep
SWEEP_FILES = ("*.md", "*.csv", "*.html", "*.png", "*.pdf")
LOGGED = "logged.txt"  # below mlartifacts: digests of the results that the view holds

# Limits of MLflow's log_batch, of its notes and of its search.
METRICS_PER_BATCH = 1000
PARAMS_PER_BATCH = 100
NOTE_LENGTH = 8000
RUNS_PER_SEARCH = 50_000

Progress = Callable[[int, int, Path, str | None], None]


class TrackingError(RuntimeError):
    """The MLflow view could not be read or written. Run folders are never affected."""


def log_run(folder: Path, outputs: Path) -> str:
    """Write a run folder into the MLflow view of ``outputs``; several processes may do so at once.

    A run of this folder that is there with the same ``result.json`` stays; one with another is
    replaced.

    Returns
    -------
    str
        The id of the MLflow run.

    Raises
    ------
    TrackingError
        Whatever went wrong.
    """
    outputs = checked(outputs)
    folder = Path(folder)
    try:
        record = read_record(folder, outputs)
    except Exception as error:
        raise TrackingError(
            f"cannot read the run folder {folder} ({reason_of(error)}): "
            "it is not in the MLflow view"
        ) from error
    with _opened(outputs) as client:
        while True:
            try:
                return _write(client, record, outputs)
            except Replaced:  # another process has finished the same run meanwhile
                record = read_record(folder, outputs)


def log_sweep(sweep: Path, outputs: Path) -> list[str]:
    """Write one run per data set of a sweep above its runs in the view, and return their ids.

    Raises
    ------
    TrackingError
        Whatever went wrong.
    """
    outputs = checked(outputs)
    with _opened(outputs) as client:
        return _write_sweep(client, sweep.resolve(), outputs)


def holds(run: Run, outputs: Path) -> bool:
    """Whether the view holds this very result, asked without importing MLflow."""
    outputs = outputs.resolve()
    try:
        logged = (_artifacts(outputs) / LOGGED).read_text(encoding="utf-8").split()
    except OSError:
        return False
    return database_file(outputs).exists() and run.digest in logged


def prepare(outputs: Path) -> None:
    """Import MLflow and create the database. What goes wrong is met and told by ``log_run``."""
    with contextlib.suppress(TrackingError), _opened(checked(outputs)):
        pass


def rebuild(outputs: Path, progress: Progress | None = None) -> int:
    """Delete the MLflow view of ``outputs`` and log all run folders and sweeps again.

    This mends a damaged or outdated database and an outputs folder that was moved (MLflow stores
    absolute paths). Notes typed into the user interface and runs of other programs are dropped. The
    old view stays until the new one is complete.

    Parameters
    ----------
    outputs
        The folder that has ``runs/``.
    progress
        Called as ``progress(done, total, folder, problem)`` after each run folder; ``problem`` is
        None or says why the folder is left out. Without it, such folders are warned of.

    Returns
    -------
    int
        The number of run folders in the new view.

    Raises
    ------
    TrackingError
        Where there are no run folders, or MLflow fails.
    """
    outputs = checked(outputs)
    runs = list(folders(outputs))
    if not runs:
        raise TrackingError(f"there are no run folders below {outputs / 'runs'}: nothing to show")
    database, kept = database_file(outputs), list[str]()
    with _explained(outputs), _lock(outputs):
        old = {path.name for path in _artifacts(outputs).glob("*/*")}
        with _new_database(outputs) as (staged, client):
            for done, run in enumerate(runs, 1):
                problem = _log_or_tell(client, run.folder, outputs, kept)
                if progress is not None:
                    progress(done, len(runs), run.folder, problem)
                elif problem:
                    warnings.warn(f"{run.folder} is left out: {problem}", stacklevel=2)
            for sweep in sweeps.folders(outputs):
                _write_sweep(client, sweep, outputs)
            # A journal of the old file would be applied to the new one.
            for suffix in ("-journal", "-wal", "-shm"):
                database.with_name(database.name + suffix).unlink(missing_ok=True)
            os.replace(staged, database)
        for run_id in old:
            _remove_artifacts(outputs, run_id)
        disk.write_atomically(_artifacts(outputs) / LOGGED, "".join(f"{d}\n" for d in kept))
    return len(kept)


def _log_or_tell(client: MlflowClient, folder: Path, outputs: Path, kept: list[str]) -> str | None:
    """Log a run and add its digest to ``kept``; returns what is wrong with a folder that is not."""
    try:
        record = read_record(folder, outputs)
    except Exception as error:
        return reason_of(error)
    try:
        _write(client, record, outputs, note=False)
    except Exception as error:
        if not about_one_run(error):
            raise
        return reason_of(error)
    kept.append(record.digest)
    return None


def experiments(outputs: Path) -> list[tuple[str, str]]:
    """The id and the name of each experiment. Raises TrackingError where the view was moved."""
    outputs = checked(outputs)
    with _opened(outputs) as client:
        found = client.search_experiments(order_by=["name ASC"])
        for experiment in found:
            _check_place(experiment, outputs)
        return [(experiment.experiment_id, experiment.name) for experiment in found]


def checked(outputs: Path) -> Path:
    """The absolute path of ``outputs``. Raises TrackingError where MLflow cannot take it."""
    outputs = Path(outputs).resolve()
    if set("?%") & set(str(outputs)):  # SQLAlchemy reads the path as a part of a URL
        raise TrackingError(
            f"MLflow cannot keep a database below {outputs}: its path contains ? or %. "
            "Choose another outputs folder, or tracking=none."
        )
    return outputs


def database_file(outputs: Path) -> Path:
    return outputs / "mlflow.db"


def database_uri(database: Path) -> str:
    return f"sqlite:///{database}"


def ignore_warnings() -> None:
    """Ignore the warnings of MLflow's libraries at their import.

    Called before a thread imports them: filters that are added in one thread are lost where another
    leaves ``warnings.catch_warnings``.
    """
    for module in ("mlflow", "sqlalchemy", "alembic"):
        warnings.filterwarnings("ignore", category=DeprecationWarning, module=rf"{module}\b")
    warnings.filterwarnings("ignore", message="SOCKS support in urllib3 requires")


# --- the database


@contextlib.contextmanager
def _opened(outputs: Path) -> Iterator[MlflowClient]:
    """A client of the database under the lock; the database is made where there is none."""
    database = database_file(outputs)
    with _explained(outputs), _lock(outputs):
        if not database.exists() or database.stat().st_size == 0:
            (_artifacts(outputs) / LOGGED).unlink(missing_ok=True)
            with _new_database(outputs) as (staged, _):
                os.replace(staged, database)
        yield _client(database)


@contextlib.contextmanager
def _new_database(outputs: Path) -> Iterator[tuple[Path, MlflowClient]]:
    """An empty database beside the view's; the caller puts it in its place.

    MLflow refuses a database whose creation was interrupted, so that none is created in place. On
    an error nothing of it is left.
    """
    before = {path.name for path in _artifacts(outputs).glob("*/*")}
    for leftover in outputs.glob(".mlflow-new-*"):
        leftover.unlink(missing_ok=True)
    staged = outputs / f".mlflow-new-{uuid.uuid4().hex}.db"
    try:
        client = _client(staged)
        # MLflow's own first experiment would only be an empty entry in the list.
        for experiment in client.search_experiments():
            client.delete_experiment(experiment.experiment_id)
        yield staged, client
    except BaseException:
        for path in _artifacts(outputs).glob("*/*"):
            if path.name not in before:
                shutil.rmtree(path, ignore_errors=True)
        raise
    finally:
        staged.unlink(missing_ok=True)


def _client(database: Path) -> MlflowClient:
    """A silent client without telemetry and without pooled connections.

    A pooled connection would go on reading a file that ``rebuild`` has replaced.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_SQLALCHEMYSTORE_POOLCLASS", "NullPool")
    ignore_warnings()
    mlflow = importlib.import_module("mlflow")
    if "MLFLOW_LOGGING_LEVEL" not in os.environ:
        logging.getLogger("mlflow").setLevel(logging.WARNING)
    client: MlflowClient = mlflow.MlflowClient(tracking_uri=database_uri(database))
    return client


@contextlib.contextmanager
def _lock(outputs: Path) -> Iterator[None]:
    """Hold the one lock of the view; other processes and threads wait for it."""
    outputs.mkdir(parents=True, exist_ok=True)
    file = outputs / ".mlflow.lock"
    try:
        with FileLock(file, timeout=LOCK_SECONDS, thread_local=False):
            yield
    except Timeout:
        raise TrackingError(
            f"{database_file(outputs)} is in use: another process has held {file} for "
            f"{LOCK_SECONDS:g} s. When it is done, {CURE}"
        ) from None


@contextlib.contextmanager
def _explained(outputs: Path) -> Iterator[None]:
    """Turn whatever MLflow, SQLAlchemy or the system raises into one TrackingError."""
    try:
        yield
    except (TrackingError, Replaced):
        raise
    except ImportError as error:
        raise TrackingError(f"MLflow cannot be imported ({error}): use tracking=none") from error
    except Exception as error:
        raise TrackingError(
            f"{database_file(outputs)} cannot be used ({reason_of(error)}): {CURE}"
        ) from error


# --- one run


def _write(client: MlflowClient, record: Record, outputs: Path, note: bool = True) -> str:
    """Log one run, unless the same result of the same folder is there; returns the run's id.

    Raises Replaced where the folder is not what the record says any more. With ``note`` the result
    is noted as held.
    """
    from mlflow.entities import Metric, Param

    experiment = _experiment(client, record, outputs)
    for old in client.search_runs([experiment], f"tags.key = '{record.key}'"):
        # A copy of a run folder beside the original is a run of its own.
        if old.data.tags.get("folder") != record.tags["folder"]:
            continue
        if old.data.tags.get(DIGEST) == record.digest:
            return str(old.info.run_id)
        _delete(client, old, outputs)

    run = client.create_run(
        experiment, start_time=record.start, run_name=record.name, tags=record.tags
    )
    run_id = str(run.info.run_id)
    try:
        params = [Param(name, value) for name, value in record.params.items()]
        metrics = [Metric(name, value, record.end, 0) for name, value in record.metrics.items()]
        metrics += [
            Metric(name, value, record.end, step)
            for name, curve in record.curves.items()
            for step, value in curve
        ]
        for some_params in _batches(params, PARAMS_PER_BATCH):
            client.log_batch(run_id, params=some_params)
        for some_metrics in _batches(metrics, METRICS_PER_BATCH):
            client.log_batch(run_id, metrics=some_metrics)
        if record.data:
            client.log_inputs(run_id, [_dataset_input(record.data)])
        _link_run(record, _place(run))
        client.set_terminated(run_id, record.status, record.end)
        client.set_tag(run_id, DIGEST, record.digest)
    except Exception:
        with contextlib.suppress(Exception):
            _delete(client, run, outputs)
        raise
    if note:
        with open(_artifacts(outputs) / LOGGED, "a", encoding="utf-8") as file:
            file.write(f"{record.digest}\n")
    return run_id


def _dataset_input(data: Data) -> DatasetInput:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    dataset = Dataset(
        name=data.name,
        digest=data.digest,
        source_type="omkl",
        source=data.source,
        profile=data.profile,
    )
    return DatasetInput(dataset, [InputTag("mlflow.data.context", "stream")])


def _experiment(client: MlflowClient, record: Record, outputs: Path) -> str:
    """The id of the run's experiment, created when absent."""
    experiment = client.get_experiment_by_name(record.experiment)
    if experiment is None:
        location = (_artifacts(outputs) / record.experiment).as_uri()
        # The kind opens the pages for models; the default is those for language models.
        tags = {"mlflow.experimentKind": "custom_model_development", VIEW_TAG: _table_view(record)}
        made = client.create_experiment(record.experiment, artifact_location=location, tags=tags)
        return str(made)
    _check_place(experiment, outputs)
    if experiment.lifecycle_stage != "active":
        client.restore_experiment(experiment.experiment_id)
    return str(experiment.experiment_id)


def _check_place(experiment: Any, outputs: Path) -> None:
    """Raise TrackingError where an experiment of ours keeps its files in another place."""
    location = _path_of(experiment.artifact_location)
    if location.parent.name == "mlartifacts" and location.parent != _artifacts(outputs):
        raise TrackingError(
            f"{database_file(outputs)} was made for another place (its files are in {location}). "
            f"MLflow stores absolute paths, so after a move {CURE}"
        )


def _table_view(record: Record) -> str:
    """Columns and order of the table of runs, in the form of MLflow's "share view".

    Without it the table shows no metric. The form is not documented; MLflow falls back to its plain
    table where it does not understand it.
    """
    finals = [name for name in record.metrics if name.startswith(f"{FINAL}/")]
    key = "error_rate" if "error_rate" in record.metrics else "mse"
    names = [*finals, f"{key}_std", "kernels_per_round", "labels", "seconds"]
    columns = [f"metrics.`{name}`" for name in names]
    return json.dumps(
        {
            "orderByKey": f"metrics.`{key}`",
            "orderByAsc": True,
            "selectedColumns": [*columns, "tags.`error`"],
        }
    )


def _batches(items: list[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


# --- a sweep


def _write_sweep(client: MlflowClient, sweep: Path, outputs: Path) -> list[str]:
    """Write the runs that stand for a sweep and put its runs below them; returns their ids.

    A data set none of whose runs is in the view has none.
    """
    found = [run for run, _ in sweeps.jobs_of(sweep)]
    complete = [run for run in found if (run.folder / RESULT).exists() and run.complete]
    by_dataset: dict[str, list[Run]] = {}
    for run in complete:
        by_dataset.setdefault(str(run.result["dataset"]).replace("/", "_"), []).append(run)
    written = []
    for dataset, members in by_dataset.items():
        experiment = client.get_experiment_by_name(dataset)
        if experiment is None:
            continue
        logged = client.search_runs([experiment.experiment_id], max_results=RUNS_PER_SEARCH)
        if below := _below(members, logged, outputs):
            for old in logged:
                if old.data.tags.get(SWEEP) == sweep.name:
                    _delete(client, old, outputs)
            written.append(_write_parent(client, experiment.experiment_id, sweep, members))
            for run_id in below:
                client.set_tag(run_id, PARENT, written[-1])
    return written


def _below(runs: Sequence[Run], logged: Iterable[MlflowRun], outputs: Path) -> list[str]:
    """The ids of those MLflow runs that are of these run folders."""
    names = {
        place.relative_to(outputs).as_posix()
        for place in (run.folder.resolve() for run in runs)
        if place.is_relative_to(outputs)
    }
    return [run.info.run_id for run in logged if run.data.tags.get("folder") in names]


def _write_parent(client: MlflowClient, experiment: str, sweep: Path, runs: Sequence[Run]) -> str:
    times = [_times(run.result) for run in runs]
    table = sweep / "table.md"
    tags = {SWEEP: sweep.name}
    if table.exists():
        tags["mlflow.note.content"] = shortened(table.read_text(encoding="utf-8"))
    parent = client.create_run(
        experiment,
        start_time=min(start for start, _ in times),
        run_name=_name(runs),
        tags=tags,
    )
    run_id = str(parent.info.run_id)
    link_all([path for shown in SWEEP_FILES for path in sorted(sweep.glob(shown))], _place(parent))
    client.set_terminated(run_id, "FINISHED", max(end for _, end in times))
    return run_id


def shortened(note: str) -> str:
    """A note that MLflow keeps whole: a longer table ends after a row, and says so."""
    if len(note) <= NOTE_LENGTH:
        return note
    ending = "\n\nCut here: table.md has all rows.\n"
    return note[: NOTE_LENGTH - len(ending)].rpartition("\n")[0] + ending


def _name(runs: Sequence[Run]) -> str:
    """The algorithms of a sweep, and the settings that vary in it."""
    learners = list(dict.fromkeys(str(run.result["algorithm"]) for run in runs))
    swept = dict.fromkeys(name for settings in style.varying(runs) for name in settings)
    over = f", {', '.join(swept)} varied" if swept else ""
    more = f" and {len(learners) - 4} more" if len(learners) > 4 else ""
    return f"sweep of {len(runs)}: {', '.join(learners[:4])}{more}{over}"[:250]


def _times(result: Mapping[str, Any]) -> tuple[int, int]:
    """When a run started and ended, in ms since 1970."""
    from datetime import datetime

    started = 1000.0 * datetime.fromisoformat(result["started"]).timestamp()
    return round(started), round(started + 1000.0 * result["seconds"])


# --- files


def _artifacts(outputs: Path) -> Path:
    return outputs / "mlartifacts"


def _place(run: MlflowRun) -> Path:
    """The folder of a run's files."""
    return _path_of(run.info.artifact_uri)


def _path_of(uri: str) -> Path:
    return Path(unquote(urlsplit(uri).path))


def _delete(client: MlflowClient, run: MlflowRun, outputs: Path) -> None:
    client.delete_run(run.info.run_id)
    _remove_artifacts(outputs, run.info.run_id)


def _remove_artifacts(outputs: Path, run_id: str) -> None:
    for path in _artifacts(outputs).glob(f"*/{run_id}"):
        shutil.rmtree(path, ignore_errors=True)
        with contextlib.suppress(OSError):  # others are beside it
            path.parent.rmdir()


def _link_run(record: Record, to: Path) -> None:
    """Put the files of a run folder into the view. Raises Replaced."""
    with disk.reading(record.folder):
        link_all(record.folder.iterdir(), to)
    copy = Run(to)
    if not (to / RESULT).exists() or copy.digest != record.digest or copy.problem is not None:
        raise Replaced(f"{record.folder} was replaced while it was read")


def link_all(paths: Iterable[Path], to: Path) -> None:
    """Give files a second name below ``to``, so that nothing is stored twice.

    Links, folders and hidden files are left out. Run files are replaced and never changed, so that
    the second name keeps what was; labels are added to their file, which is copied, and so is all
    where the disk has no second names.
    """
    to.mkdir(parents=True)
    for path in paths:
        if path.name.startswith(".") or path.is_symlink() or not path.is_file():
            continue
        if path.name == LABELS or not _linked(path, to / path.name):
            shutil.copy2(path, to / path.name, follow_symlinks=False)


def _linked(path: Path, to: Path) -> bool:
    try:
        os.link(path, to, follow_symlinks=False)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.EXDEV, errno.ENOTSUP, errno.EMLINK, errno.EACCES):
            return False
        raise
    return True
