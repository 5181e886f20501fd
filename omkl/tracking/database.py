"""The database of the view: opened under a lock, made where missing, written, explained."""

from __future__ import annotations

import contextlib
import errno
import importlib
import importlib.metadata
import json
import logging
import os
import re
import shutil
import sqlite3
import time
import uuid
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import numpy as np

from omkl import cached_arrays, disk
from omkl.runs.folder import Replaced, Run
from omkl.runs.seal import LABELS, RESULT
from omkl.tracking.records import FINAL, Data, Record, reason_of

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import DatasetInput


LOCK_SECONDS = 60.0

# Limits of MLflow's log_batch and of its columns.
_METRICS_PER_BATCH = 1000
_PARAMS_PER_BATCH = 100
VIEW = "omkl"
VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"


class TrackingError(RuntimeError):
    """The MLflow view could not be read or written. Run folders are never affected."""


def write_record(client: MlflowClient, record: Record, outputs: Path) -> str:
    """Log one run, unless the same content is there; returns the run's id.

    Raises Replaced, and leaves nothing, where the folder is not what the record says any more.
    """
    from mlflow.entities import Metric, Param

    experiment = _experiment(client, record, outputs)
    for old in client.search_runs([experiment], f"tags.key = '{record.key}'"):
        # A copy of a run folder beside the original is a run of its own.
        if old.data.tags.get("folder") != record.tags["folder"]:
            continue
        if old.data.tags.get("result_sha256") == record.digest:
            return old.info.run_id
        client.delete_run(old.info.run_id)
        remove_artifacts(outputs, old.info.run_id)

    run_id = client.create_run(
        experiment, start_time=record.start, run_name=record.name, tags=record.tags
    ).info.run_id
    try:
        params = [Param(name, value) for name, value in record.params.items()]
        metrics = [Metric(name, value, record.end, 0) for name, value in record.metrics.items()]
        metrics += [
            Metric(name, value, record.end, step)
            for name, curve in record.curves.items()
            for step, value in curve
        ]
        for part in _chunks(params, _PARAMS_PER_BATCH):
            client.log_batch(run_id, params=part, synchronous=True)
        for part in _chunks(metrics, _METRICS_PER_BATCH):
            client.log_batch(run_id, metrics=part, synchronous=True)
        if record.data:
            client.log_inputs(run_id, [_dataset_input(record.data)])
        link_files(record, artifacts_of(outputs, record.experiment, run_id))
        client.set_terminated(run_id, record.status, record.end)
        # Last: a run without this tag was cut short and will be replaced.
        client.set_tag(run_id, "result_sha256", record.digest)
    except BaseException as error:
        if isinstance(error, Exception):  # after a Ctrl-C the database may be locked for 20 s
            with contextlib.suppress(Exception):
                client.delete_run(run_id)
        remove_artifacts(outputs, run_id)
        raise
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


def link_files(record: Record, to: Path) -> None:
    """Put the files of a run folder into the view. Raises Replaced."""
    with disk.reading(record.folder):
        link_all(record.folder.iterdir(), to)
    copy = Run(to)
    if not (to / RESULT).exists() or copy.digest != record.digest or copy.problem is not None:
        raise Replaced(f"{record.folder} was replaced while it was read")


def link_all(paths: Iterable[Path], to: Path) -> None:
    """Give files a second name below ``to``, so that nothing is stored twice.

    Only what a run writes: no links, which would be served with the page, no folders, nothing
    hidden. Files are replaced and not changed, so that the second name keeps what was; but labels
    are added to their file, which is copied, and so is all where the disk has no second names.
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


def _table_view(record: Record) -> str:
    """Columns and order of the run table, in the form of MLflow's "share view".

    Without it the table shows no metric. The form is not documented; MLflow falls
    back to its plain table where it does not understand it.
    """
    finals = [name for name in record.metrics if name.startswith(f"{FINAL}/")]
    key = "error_rate" if "error_rate" in record.metrics else "mse"
    names = [*finals, f"{key}_std", "kernels_per_round", "labels", "seconds"]
    columns = [f"metrics.`{name}`" for name in names]
    view = {
        "orderByKey": f"metrics.`{key}`",
        "orderByAsc": True,
        "selectedColumns": [*columns, "tags.`error`"],
    }
    return json.dumps(view)


def _chunks(items: list[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


CURE = (
    "`omkl-report rebuild-tracking` makes the view anew from the run folders, which are "
    "complete and unharmed; `tracking=none` runs without it"
)


def resolved(outputs: Path) -> Path:
    outputs = Path(outputs).resolve()
    # SQLAlchemy reads a database's path as a part of a URL.
    if set("?%") & set(str(outputs)):
        raise TrackingError(
            f"MLflow cannot keep a database below {outputs}: its path contains ? or %. "
            "Choose another outputs folder, or tracking=none."
        )
    return outputs


def database_file(outputs: Path) -> Path:
    return outputs / "mlflow.db"


def _artifacts(outputs: Path, experiment: str = "") -> Path:
    return outputs / "mlartifacts" / experiment


def artifacts_of(outputs: Path, experiment: str, run_id: str) -> Path:
    return _artifacts(outputs, experiment) / run_id / "artifacts"


def database_uri(database: Path) -> str:
    return f"sqlite:///{database}"


@contextlib.contextmanager
def explained(outputs: Path) -> Iterator[None]:
    """Turn whatever MLflow, SQLAlchemy or the system raises into one TrackingError."""
    try:
        yield
    except TrackingError:
        raise
    except ImportError as error:
        raise TrackingError(f"MLflow cannot be imported ({error}): use tracking=none") from error
    except Exception as error:
        raise TrackingError(
            f"{database_file(outputs)} cannot be used ({reason_of(error)}): {CURE}"
        ) from error


@contextlib.contextmanager
def locked(outputs: Path, name: str, seconds: float | None = None) -> Iterator[None]:
    """Hold the file lock ``outputs/name``; other processes and threads wait for it."""
    import fcntl  # here, so that the module can be imported on any system

    outputs.mkdir(parents=True, exist_ok=True)
    patience = LOCK_SECONDS if seconds is None else seconds
    deadline = time.monotonic() + patience
    with open(outputs / name, "a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise TrackingError(
                        f"{database_file(outputs)} is in use: another process has held "
                        f"{outputs / name} for {patience:g} s. When it is done, {CURE}"
                    ) from None
                time.sleep(0.02)
        try:
            yield
        finally:
            # Closing is not enough: a process forked meanwhile shares the lock.
            fcntl.flock(file, fcntl.LOCK_UN)


def ignore_warnings() -> None:
    """Ignore what MLflow's libraries warn of at their import; once or more often is the same.

    Who leaves ``catch_warnings`` in one thread takes away the filters that others have added
    meanwhile: these are added before there is another thread.
    """
    for module in ("mlflow", "sqlalchemy", "alembic"):
        warnings.filterwarnings("ignore", category=DeprecationWarning, module=rf"{module}\b")
    # requests ignores it as well, in the thread that imports it.
    warnings.filterwarnings("ignore", message="SOCKS support in urllib3 requires")


def import_mlflow() -> type[MlflowClient]:
    """Import all that a client of a database is made of: silent, without telemetry and pools."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    # A pooled connection would go on reading a file that `rebuild` has replaced.
    os.environ.setdefault("MLFLOW_SQLALCHEMYSTORE_POOLCLASS", "NullPool")
    ignore_warnings()
    from mlflow import MlflowClient

    importlib.import_module("mlflow.store.tracking.sqlalchemy_store")  # as a client does, later
    if "MLFLOW_LOGGING_LEVEL" not in os.environ:
        logging.getLogger("mlflow").setLevel(logging.WARNING)
    return MlflowClient


def _client(database: Path) -> MlflowClient:
    return import_mlflow()(tracking_uri=database_uri(database))


def create_database(database: Path) -> MlflowClient:
    """Create an empty MLflow database. The caller holds a lock."""
    client = _client(database)
    # MLflow's own first experiment would only be an empty entry in the list.
    for experiment in client.search_experiments():
        client.delete_experiment(experiment.experiment_id)
    return client


def open_view(outputs: Path) -> MlflowClient:
    """A client of the database, which is made where there is none. The caller holds the lock."""
    database = database_file(outputs)
    state = state_of(database)
    if state == "broken":
        raise TrackingError(f"{database} is not a usable MLflow database: {CURE}")
    if state == "absent":
        # A creation that is killed half-way leaves a file that MLflow refuses for
        # ever, so it happens beside.
        disk.write_atomically(database, _empty_database(outputs))
    return _client(database)


def _empty_database(outputs: Path) -> bytes:
    """What MLflow makes for an empty database, kept in the user's cache for its version.

    Its tables are the work of fifty migrations, which take 2 s.
    """

    def make() -> dict[str, np.ndarray]:
        for leftover in outputs.glob(".mlflow-new-*.db*"):
            leftover.unlink(missing_ok=True)
        # The unique name avoids MLflow's cache by URI.
        staged = outputs / f".mlflow-new-{uuid.uuid4().hex}.db"
        try:
            create_database(staged)
            return {"bytes": np.frombuffer(staged.read_bytes(), np.uint8)}
        finally:
            staged.unlink(missing_ok=True)

    version = importlib.metadata.version("mlflow")
    identity = f"empty database of MLflow {version}"
    folder = cached_arrays.user_folder()
    return cached_arrays.load_or_make(folder, identity, make)["bytes"].tobytes()


def state_of(database: Path, thorough: bool = False) -> str:
    """ "absent", "broken" or "sound", without MLflow; ``thorough`` reads all of it."""
    try:
        if not database.exists() or database.stat().st_size == 0:
            return "absent"
        with contextlib.closing(read_only(database)) as connection:
            connection.execute("SELECT version_num FROM alembic_version").fetchone()
            connection.execute("SELECT artifact_location FROM experiments").fetchall()
            if thorough:
                check = connection.execute("PRAGMA quick_check").fetchone()
                return "sound" if check == ("ok",) else "broken"
    except sqlite3.OperationalError as error:
        return "sound" if "locked" in str(error) else "broken"
    except sqlite3.DatabaseError:
        return "broken"
    return "sound"


def read_only(database: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=20.0)


def ids_of_runs(database: Path) -> set[str]:
    with contextlib.closing(read_only(database)) as connection:
        rows = connection.execute("SELECT run_uuid FROM runs WHERE lifecycle_stage = 'active'")
        return {run_id for (run_id,) in rows}


def elsewhere(outputs: Path) -> str | None:
    """The artifact folder of an experiment that does not belong to ``outputs``, if any."""
    with contextlib.closing(read_only(database_file(outputs))) as connection:
        rows = connection.execute(
            "SELECT artifact_location FROM experiments WHERE lifecycle_stage = 'active'"
        ).fetchall()
    for (location,) in rows:
        folder = Path(unquote(urlsplit(location).path))
        if folder.parent.name == "mlartifacts" and folder.parent != _artifacts(outputs):
            return str(folder)
    return None


def moved_text(outputs: Path, location: str) -> str:
    return (
        f"{database_file(outputs)} was made for another place (its files are in {location}). "
        f"MLflow stores absolute paths, so after a move {CURE}"
    )


def _experiment(client: MlflowClient, record: Record, outputs: Path) -> str:
    """The id of the run's experiment, created when absent."""
    name = record.experiment
    location = _artifacts(outputs, name).as_uri()
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        # The kind opens the pages for models; the default is those for language models.
        tags = {"mlflow.experimentKind": "custom_model_development", VIEW_TAG: _table_view(record)}
        return client.create_experiment(name, artifact_location=location, tags=tags)
    if experiment.artifact_location != location:
        raise TrackingError(moved_text(outputs, experiment.artifact_location))
    if experiment.lifecycle_stage != "active":
        client.restore_experiment(experiment.experiment_id)
    return experiment.experiment_id


def _run_folders(outputs: Path) -> Iterator[Path]:
    for path in _artifacts(outputs).glob("*/*"):
        if re.fullmatch(r"[0-9a-f]{32}", path.name):
            yield path


def remove_artifacts(outputs: Path, run_id: str) -> None:
    for path in _run_folders(outputs):
        if path.name == run_id:
            shutil.rmtree(path, ignore_errors=True)


def keep_artifacts(outputs: Path, run_ids: set[str]) -> None:
    """Remove the artifacts of all other runs, and experiments that are empty then."""
    for path in list(_run_folders(outputs)):
        if path.name not in run_ids:
            shutil.rmtree(path, ignore_errors=True)
    for path in list(_artifacts(outputs).glob("*")):
        with contextlib.suppress(OSError):
            path.rmdir()


def free_name(database: Path) -> Path:
    number = 1
    while (path := database.with_name(f"{database.name}.broken-{number}")).exists():
        number += 1
    return path
