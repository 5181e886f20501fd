"""The MLflow view of the run folders.

The folders are the truth (``omkl.runs.folder``); this view can be deleted and made
again from them at any time (``rebuild``). It consists of ``mlflow.db`` (SQLite)
and ``mlartifacts/`` (copies of the run folders' files) in the outputs folder.

One MLflow experiment a data set, so that the chart page compares algorithms on
the same data; one MLflow run a run folder. Metrics are few, because the user
interface draws one chart a metric: the final numbers and one curve, the
seed-mean of the MSE, with at most 500 points.

MLflow takes 1.5 s to import and another 1.7 s to create its tables, so nothing
here imports it before it is needed; ``prepare`` does both ahead of time.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import math
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import numpy as np

from omkl.runs.folder import NEUTRAL, Run, find, measure

if TYPE_CHECKING:
    from mlflow import MlflowClient

CURVE_POINTS = 500
LOCK_SECONDS = 60.0

# Limits of MLflow's log_batch and of its columns.
_METRICS_PER_BATCH = 1000
_PARAMS_PER_BATCH = 100
_PARAM_LENGTH = 6000
_TAG_LENGTH = 5000
_KEY_LENGTH = 250

_VIEW = "omkl"
_VIEW_TAG = f"mlflow.sharedViewState.{_VIEW}"

_STATUS = {"complete": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}


class TrackingError(RuntimeError):
    """The MLflow view could not be read or written. Run folders are never affected."""


def log_run(folder: Path, outputs: Path) -> str:
    """Write the run folder ``folder`` into the MLflow view of ``outputs``.

    If this folder is there with the same ``result.json``, nothing is written; with
    another one, that run is deleted and replaced. Safe to call from several
    processes at once.

    Returns the MLflow run's id. Raises ``TrackingError``, whatever went wrong.
    """
    outputs = _resolved(outputs)
    try:
        record = _read(Path(folder), outputs)
    except Exception as error:
        raise TrackingError(
            f"cannot read the run folder {folder} ({_reason(error)}): it is not in the MLflow view"
        ) from error
    with _explained(outputs), _lock(outputs, ".mlflow.lock"):
        return _write(_open(outputs), record, outputs)


def holds(folder: Path, outputs: Path) -> bool:
    """Whether the view holds this very result; asked without importing MLflow."""
    uri = f"{(outputs / 'mlflow.db').resolve().as_uri()}?mode=ro"
    question = "SELECT 1 FROM tags WHERE key = 'result_sha256' AND value = ?"  # written last
    try:
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
            return connection.execute(question, (_digest(folder),)).fetchone() is not None
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
        outputs = _resolved(outputs)
        with _explained(outputs), _lock(outputs, ".mlflow.lock"):
            _open(outputs)


def rebuild(
    outputs: Path, progress: Callable[[int, int, Path, str | None], None] | None = None
) -> int:
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
    outputs = _resolved(outputs)
    if next(find(outputs), None) is None:
        raise TrackingError(f"there are no run folders below {outputs / 'runs'}: nothing to show")
    database = _database(outputs)
    staged = outputs / f".mlflow-rebuild-{uuid.uuid4().hex}.db"
    written: dict[Path, tuple[str, str]] = {}  # run folder -> digest, run id
    left_out: set[Path] = set()
    swapped = False

    def log_all(client: MlflowClient) -> None:
        runs = list(find(outputs))
        for done, run in enumerate(runs, 1):
            problem = None
            try:
                digest = _digest(run.folder)
                if run.folder in written and written[run.folder][0] == digest:
                    continue
                record = _read(run.folder, outputs)
            except Exception as error:
                problem = _reason(error)
            else:
                try:
                    written[run.folder] = record.digest, _write(client, record, outputs)
                except Exception as error:
                    if not _about_one_run(error):
                        raise
                    problem = _reason(error)
            if problem and run.folder in left_out:
                continue
            if problem:
                left_out.add(run.folder)
            if progress is not None:
                progress(done, len(runs), run.folder, problem)
            elif problem:
                warnings.warn(f"{run.folder} is left out: {problem}", stacklevel=3)

    with _explained(outputs), _lock(outputs, ".mlflow-rebuild.lock"):
        for leftover in outputs.glob(".mlflow-rebuild-*.db*"):
            leftover.unlink(missing_ok=True)
        try:
            client = _create(staged)
            log_all(client)
            with _lock(outputs, ".mlflow.lock"):
                log_all(client)
                if _state(database, thorough=True) == "broken":
                    database.rename(_free_name(database))
                # A leftover journal of the old file would be applied to the new one.
                for suffix in ("-journal", "-wal", "-shm"):
                    database.with_name(database.name + suffix).unlink(missing_ok=True)
                os.replace(staged, database)
                swapped = True
                run_ids = _run_ids(database)
                _keep_artifacts(outputs, run_ids)
        finally:
            if not swapped:
                staged.unlink(missing_ok=True)
                for _, run_id in written.values():
                    _remove_artifacts(outputs, run_id)
    return len(run_ids)


def ui_command(outputs: Path, port: int = 5000, host: str = "127.0.0.1") -> list[str]:
    """The command that serves the MLflow user interface for ``outputs``.

    One worker and no job queue: ready in 6 s with 0.5 GB instead of 20 s with 3 GB.
    """
    return [
        "env",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false",
        "MLFLOW_DISABLE_TELEMETRY=true",
        "MLFLOW_SQLALCHEMYSTORE_POOLCLASS=NullPool",  # see _client
        sys.executable,
        *("-m", "mlflow", "ui"),
        *("--backend-store-uri", _uri(_database(_resolved(outputs)))),
        *("--host", host),
        *("--port", str(port)),
        *("--workers", "1"),
    ]


def ui(outputs: Path, port: int = 5000, host: str = "127.0.0.1") -> int:
    """Serve the MLflow user interface until Ctrl-C; returns its exit status (0 after Ctrl-C).

    Makes the view first when there are run folders and no database yet. Raises
    ``TrackingError`` when there is nothing to show, when the database is corrupt
    or belongs to another place, and when the port is taken.
    """
    outputs = _resolved(outputs)
    database = _database(outputs)
    state = _state(database)
    if state == "broken":
        raise TrackingError(f"{database} is not a usable MLflow database: {_CURE}")
    if state == "absent":
        if next(find(outputs), None) is None:
            raise TrackingError(
                f"there is nothing to show in {outputs}: no {database.name} and no run folders "
                "below runs/. Run an experiment first (omkl-run), or name the outputs folder."
            )
        print(f"making the MLflow view of {outputs} from its run folders ...", flush=True)
        rebuild(outputs)
    elif moved := _elsewhere(outputs):
        raise TrackingError(_moved_text(outputs, moved))
    _check_port(host, port)
    print(_welcome(outputs, f"http://{f'[{host}]' if ':' in host else host}:{port}"), flush=True)
    status = _serve(ui_command(outputs, port, host), outputs)
    if status:
        print(f"MLflow ended with status {status}. If it names its tables or schema: {_CURE}")
    return status


# --- one run -----------------------------------------------------------------


@dataclass(frozen=True)
class _Record:
    """What MLflow is told about a run folder."""

    folder: Path
    digest: str  # of result.json
    key: str
    experiment: str
    name: str
    status: str
    start: int  # ms since 1970
    end: int
    metrics: dict[str, float]
    curve: list[tuple[int, float]]  # (round, seed-mean MSE)
    params: dict[str, str]
    tags: dict[str, str]


def _read(folder: Path, outputs: Path) -> _Record:
    run, digest = Run(folder), _digest(folder)
    result = run.result
    start = _milliseconds(result.get("started"))
    return _Record(
        folder=folder,
        digest=digest,
        key=str(result["key"]),
        # MLflow's pages take a slash for a path.
        experiment=str(result.get("dataset") or folder.parent.name).replace("/", "_"),
        name=_run_name(run),
        status=_STATUS.get(str(result.get("status")), "FAILED"),
        start=start,
        end=start + round(1000 * float(result.get("seconds") or 0.0)),
        metrics=_final_metrics(result),
        curve=_curve(run),
        params=_params(run),
        tags=_tags(run, outputs),
    )


def _write(client: MlflowClient, record: _Record, outputs: Path) -> str:
    """Log one run, unless the same content is there; returns the run's id."""
    from mlflow.entities import Metric, Param

    experiment = _experiment(client, record, outputs)
    for old in client.search_runs([experiment], f"tags.key = '{record.key}'"):
        # A copy of a run folder beside the original is a run of its own.
        if old.data.tags.get("folder") != record.tags["folder"]:
            continue
        if old.data.tags.get("result_sha256") == record.digest:
            return old.info.run_id
        client.delete_run(old.info.run_id)
        _remove_artifacts(outputs, old.info.run_id)

    run_id = client.create_run(
        experiment, start_time=record.start, run_name=record.name, tags=record.tags
    ).info.run_id
    try:
        params = [Param(name, value) for name, value in record.params.items()]
        metrics = [Metric(name, value, record.end, 0) for name, value in record.metrics.items()]
        curve = "error_curve" if "error_rate" in record.metrics else "mse_curve"
        metrics += [Metric(curve, value, record.end, step) for step, value in record.curve]
        for part in _chunks(params, _PARAMS_PER_BATCH):
            client.log_batch(run_id, params=part, synchronous=True)
        for part in _chunks(metrics, _METRICS_PER_BATCH):
            client.log_batch(run_id, metrics=part, synchronous=True)
        shutil.copytree(
            record.folder,
            _artifacts(outputs, record.experiment) / run_id / "artifacts",
            ignore=shutil.ignore_patterns(".*"),
        )
        client.set_terminated(run_id, record.status, record.end)
        # Last: a run without this tag was cut short and will be replaced.
        client.set_tag(run_id, "result_sha256", record.digest)
    except BaseException:
        with contextlib.suppress(Exception):
            client.delete_run(run_id)
        _remove_artifacts(outputs, run_id)
        raise
    return run_id


def _table_view(record: _Record) -> str:
    """Columns and order of the run table, in the form of MLflow's "share view".

    Without it the table shows no metric. The form is not documented; MLflow falls
    back to its plain table where it does not understand it.
    """
    key = "error_rate" if "error_rate" in record.metrics else "mse"
    names = [key, f"{key}_std", "kernels_per_round", "labels", "seconds"]
    names += [name for name in record.metrics if name.startswith("regret_")]
    columns = [f"metrics.`{name}`" for name in names]
    view = {
        "orderByKey": f"metrics.`{key}`",
        "orderByAsc": True,
        "selectedColumns": [*columns, "tags.`error`"],
    }
    return json.dumps(view)


def _about_one_run(error: Exception) -> bool:
    """Whether writing failed because of the run's own content, not of the disk or database."""
    if isinstance(error, OSError):
        full = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
        return not any(f"[Errno {number}]" in str(error) for number in full)
    return getattr(error, "error_code", None) == "INVALID_PARAMETER_VALUE"


def _run_name(run: Run) -> str:
    """The algorithm and its sizes: the papers' capital letters, such as M=10."""
    result = run.result
    sizes = [
        f"{name}={value}"
        for name, value in (result.get("params") or {}).items()
        if len(name) == 1 and name.isupper() and isinstance(value, int)
    ]
    return " ".join([str(result.get("algorithm") or run.folder.name), *sizes])


def _final_metrics(result: Mapping[str, Any]) -> dict[str, float]:
    key = measure(result).key
    values = {
        key: result.get(f"{key}_mean"),
        f"{key}_std": result.get(f"{key}_std"),
        "seconds": result.get("seconds"),
        "kernels_per_round": result.get("kernels_per_round"),
        "labels": result.get("labels"),
        "al_efficiency": result.get("al_efficiency"),
        "mse_per_label": result.get("mse_per_label"),
    }
    for name, entry in (result.get("regret") or {}).items():
        values[f"regret_{name}"] = entry.get("mean")
    return {
        _key(name): float(value)
        for name, value in values.items()
        if value is not None and math.isfinite(value)
    }


def _curve(run: Run) -> list[tuple[int, float]]:
    """(round, seed-mean MSE) in log-spaced rounds, the first and the last included."""
    if not (run.folder / "curves.npz").exists():
        return []
    t, mse = run.curves["t"], run.curves[measure(run.result).key]
    chosen = _log_spaced(t, CURVE_POINTS)
    mean = mse[:, chosen].mean(axis=0)
    return [
        (int(step), float(value))
        for step, value in zip(t[chosen], mean, strict=True)
        if math.isfinite(value)
    ]


def _log_spaced(t: np.ndarray, n_points: int) -> np.ndarray:
    """Indices of at most ``n_points`` of the ascending rounds ``t``, evenly spaced in log t."""
    if t.size <= n_points:
        return np.arange(t.size)
    wanted = np.geomspace(t[0], t[-1], n_points)
    indices = np.unique(np.searchsorted(t, wanted * (1 - 1e-12)))
    indices[-1] = t.size - 1
    return indices


def _params(run: Run) -> dict[str, str]:
    """The resolved configuration with dotted keys, without what cannot change a number."""
    config = {name: value for name, value in run.config.items() if name not in NEUTRAL}
    flat = dict(_flatten(config))
    for name, value in (run.result.get("params") or {}).items():
        flat.setdefault(f"algorithm.{name}", value)
    return {_key(name): _short(_text(value), _PARAM_LENGTH) for name, value in flat.items()}


def _flatten(tree: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _tags(run: Run, outputs: Path) -> dict[str, str]:
    result = run.result
    folder = run.folder.resolve()
    tags = {name: result.get(name) for name in ("key", "algorithm", "dataset", "status")}
    tags |= {name: result.get(name) for name in ("commit", "numbers")}
    versions = result.get("versions")
    if isinstance(versions, Mapping):
        versions = ", ".join(f"{name} {version}" for name, version in versions.items())
    tags["versions"] = versions
    tags["folder"] = (
        folder.relative_to(outputs).as_posix() if folder.is_relative_to(outputs) else folder.name
    )
    error = result.get("error")
    if error:
        tags["error"] = f"{error.get('type')}: {error.get('message')}"
    tags["mlflow.note.content"] = _note(result)
    tags["mlflow.source.name"] = "omkl"
    if result.get("commit"):
        tags["mlflow.source.git.commit"] = result["commit"]
    return {
        name: _short(_text(value), _TAG_LENGTH) for name, value in tags.items() if value is not None
    }


def _note(result: Mapping[str, Any]) -> str:
    """The description on the run's page, in Markdown."""
    error = result.get("error")
    if error:
        trace = error.get("traceback") or ""
        return f"**{error.get('type')}**: {error.get('message')}\n\n```\n{trace}\n```"
    lines = []
    kind = measure(result)
    if result.get(f"{kind.key}_mean") is not None:
        std = result.get(f"{kind.key}_std")
        spread = f" ± {std:.2g}" if std is not None else ""
        mean = f"{result[f'{kind.key}_mean']:.4g}"
        lines.append(
            f"{kind.short} **{mean}**{spread} after {result.get('n_rounds')} rounds, "
            f"{len(result.get('seeds') or [])} seeds, kernels {result.get('kernels')}"
        )
    for name, entry in (result.get("regret") or {}).items():
        what = f"skipped: {entry['skipped']}" if "skipped" in entry else f"{entry['mean']:.4g}"
        lines.append(f"- regret_{name} ({entry.get('label')}): {what}")
    return "\n".join(lines)


def _key(name: str) -> str:
    """A metric's or parameter's name in the letters that MLflow allows."""
    return re.sub(r"[^\w.\- ]", "_", name, flags=re.ASCII)[:_KEY_LENGTH]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _milliseconds(started: str | None) -> int:
    """An ISO time in ms since 1970; a time without a zone is UTC."""
    if not started:
        return round(1000 * time.time())
    moment = datetime.fromisoformat(started)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(1000 * moment.timestamp())


def _chunks(items: list[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _digest(folder: Path) -> str:
    return hashlib.sha256((folder / "result.json").read_bytes()).hexdigest()


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


# --- the database --------------------------------------------------------------

_CURE = (
    "`omkl-report rebuild-tracking` makes the view anew from the run folders, which are "
    "complete and unharmed; `tracking=none` runs without it"
)


def _resolved(outputs: Path) -> Path:
    outputs = Path(outputs).resolve()
    # SQLAlchemy reads a database's path as a part of a URL.
    if set("?%") & set(str(outputs)):
        raise TrackingError(
            f"MLflow cannot keep a database below {outputs}: its path contains ? or %. "
            "Choose another outputs folder, or tracking=none."
        )
    return outputs


def _database(outputs: Path) -> Path:
    return outputs / "mlflow.db"


def _artifacts(outputs: Path, experiment: str = "") -> Path:
    return outputs / "mlartifacts" / experiment


def _uri(database: Path) -> str:
    return f"sqlite:///{database}"


@contextlib.contextmanager
def _explained(outputs: Path) -> Iterator[None]:
    """Turn whatever MLflow, SQLAlchemy or the system raises into one TrackingError."""
    try:
        yield
    except TrackingError:
        raise
    except ImportError as error:
        raise TrackingError(f"MLflow cannot be imported ({error}): use tracking=none") from error
    except Exception as error:
        raise TrackingError(
            f"{_database(outputs)} cannot be used ({_reason(error)}): {_CURE}"
        ) from error


@contextlib.contextmanager
def _lock(outputs: Path, name: str, seconds: float | None = None) -> Iterator[None]:
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
                        f"{_database(outputs)} is in use: another process has held "
                        f"{outputs / name} for {patience:g} s. When it is done, {_CURE}"
                    ) from None
                time.sleep(0.02)
        try:
            yield
        finally:
            # Closing is not enough: a process forked meanwhile shares the lock.
            fcntl.flock(file, fcntl.LOCK_UN)


def _client(database: Path) -> MlflowClient:
    """A client of the database, silent, without telemetry and without a connection pool."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    # A pooled connection would go on reading a file that `rebuild` has replaced.
    os.environ.setdefault("MLFLOW_SQLALCHEMYSTORE_POOLCLASS", "NullPool")
    # Filters are added, not swapped by catch_warnings: that is not safe in threads.
    for module in ("mlflow", "sqlalchemy", "alembic"):
        warnings.filterwarnings("ignore", category=DeprecationWarning, module=rf"{module}\b")
    from mlflow import MlflowClient

    if "MLFLOW_LOGGING_LEVEL" not in os.environ:
        logging.getLogger("mlflow").setLevel(logging.WARNING)
    return MlflowClient(tracking_uri=_uri(database))


def _create(database: Path) -> MlflowClient:
    """Create an empty MLflow database. The caller holds a lock."""
    client = _client(database)
    # MLflow's own first experiment would only be an empty entry in the list.
    for experiment in client.search_experiments():
        client.delete_experiment(experiment.experiment_id)
    return client


def _open(outputs: Path) -> MlflowClient:
    """A client of the database, which is created when absent. The caller holds the lock."""
    database = _database(outputs)
    state = _state(database)
    if state == "broken":
        raise TrackingError(f"{database} is not a usable MLflow database: {_CURE}")
    if state == "absent":
        # A creation that is killed half-way leaves a file that MLflow refuses for
        # ever, so it happens beside; the unique name avoids MLflow's cache by URI.
        for leftover in outputs.glob(".mlflow-new-*.db*"):
            leftover.unlink(missing_ok=True)
        staged = outputs / f".mlflow-new-{uuid.uuid4().hex}.db"
        try:
            _create(staged)
            os.replace(staged, database)
        finally:
            staged.unlink(missing_ok=True)
    return _client(database)


def _state(database: Path, thorough: bool = False) -> str:
    """ "absent", "broken" or "sound", without MLflow; ``thorough`` reads all of it."""
    try:
        if not database.exists() or database.stat().st_size == 0:
            return "absent"
        with contextlib.closing(_read_only(database)) as connection:
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


def _read_only(database: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=20.0)


def _run_ids(database: Path) -> set[str]:
    with contextlib.closing(_read_only(database)) as connection:
        rows = connection.execute("SELECT run_uuid FROM runs WHERE lifecycle_stage = 'active'")
        return {run_id for (run_id,) in rows}


def _elsewhere(outputs: Path) -> str | None:
    """The artifact folder of an experiment that does not belong to ``outputs``, if any."""
    with contextlib.closing(_read_only(_database(outputs))) as connection:
        rows = connection.execute(
            "SELECT artifact_location FROM experiments WHERE lifecycle_stage = 'active'"
        ).fetchall()
    for (location,) in rows:
        folder = Path(unquote(urlsplit(location).path))
        if folder.parent.name == "mlartifacts" and folder.parent != _artifacts(outputs):
            return str(folder)
    return None


def _moved_text(outputs: Path, location: str) -> str:
    return (
        f"{_database(outputs)} was made for another place (its files are in {location}). "
        f"MLflow stores absolute paths, so after a move {_CURE}"
    )


def _experiment(client: MlflowClient, record: _Record, outputs: Path) -> str:
    """The id of the run's experiment, created when absent."""
    name = record.experiment
    location = _artifacts(outputs, name).as_uri()
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        # The kind opens the pages for models; the default is those for language models.
        tags = {"mlflow.experimentKind": "custom_model_development", _VIEW_TAG: _table_view(record)}
        return client.create_experiment(name, artifact_location=location, tags=tags)
    if experiment.artifact_location != location:
        raise TrackingError(_moved_text(outputs, experiment.artifact_location))
    if experiment.lifecycle_stage != "active":
        client.restore_experiment(experiment.experiment_id)
    return experiment.experiment_id


def _run_folders(outputs: Path) -> Iterator[Path]:
    for path in _artifacts(outputs).glob("*/*"):
        if re.fullmatch(r"[0-9a-f]{32}", path.name):
            yield path


def _remove_artifacts(outputs: Path, run_id: str) -> None:
    for path in _run_folders(outputs):
        if path.name == run_id:
            shutil.rmtree(path, ignore_errors=True)


def _keep_artifacts(outputs: Path, run_ids: set[str]) -> None:
    """Remove the artifacts of all other runs, and experiments that are empty then."""
    for path in list(_run_folders(outputs)):
        if path.name not in run_ids:
            shutil.rmtree(path, ignore_errors=True)
    for path in list(_artifacts(outputs).glob("*")):
        with contextlib.suppress(OSError):
            path.rmdir()


def _free_name(database: Path) -> Path:
    number = 1
    while (path := database.with_name(f"{database.name}.broken-{number}")).exists():
        number += 1
    return path


# --- the user interface ----------------------------------------------------------


def _welcome(outputs: Path, address: str) -> str:
    """The address of each experiment's table: the home page is MLflow's for language models."""
    with contextlib.closing(_read_only(_database(outputs))) as connection:
        rows = connection.execute(
            "SELECT e.experiment_id, e.name, count(r.run_uuid), max(t.key IS NOT NULL)"
            " FROM experiments e"
            " LEFT JOIN runs r ON r.experiment_id = e.experiment_id"
            " AND r.lifecycle_stage = 'active'"
            " LEFT JOIN experiment_tags t ON t.experiment_id = e.experiment_id AND t.key = ?"
            " WHERE e.lifecycle_stage = 'active' GROUP BY e.experiment_id ORDER BY e.name",
            (_VIEW_TAG,),
        ).fetchall()
    width = max((len(name) for _, name, _, _ in rows), default=0)
    lines = [f"MLflow is ready at {address} in a few seconds; Ctrl-C ends it."]
    for number, name, n_runs, has_view in rows:
        page = f"{address}/#/experiments/{number}/runs?workflowType=machine_learning"
        view = f"&viewStateShareKey={_VIEW}" if has_view else ""
        noun = "run " if n_runs == 1 else "runs"
        lines.append(f"  {name:{width}}  {n_runs:4} {noun}  {page}{view}")
    return "\n".join(lines)


def _check_port(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET

    def free(candidate: int) -> bool:
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind((host, candidate))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    return False
                raise TrackingError(f"cannot listen on {host} port {candidate}: {error}") from error
        return True

    if not free(port):
        others = (other for other in range(port + 1, min(port + 100, 65536)) if free(other))
        raise TrackingError(
            f"port {port} on {host} is in use: choose another one, such as {next(others, 'none')}"
        )


def _serve(command: list[str], folder: Path) -> int:
    """Run the server in a session of its own until it ends or we are asked to."""

    def stop(signum: int, frame: object) -> None:
        raise KeyboardInterrupt

    # Ctrl-C, `kill` and a closed terminal all end the server with its children.
    previous = {}
    with contextlib.suppress(ValueError):  # signals belong to the main thread
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
                previous[number] = signal.signal(number, stop)
    process = subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, start_new_session=True
    )
    try:
        return process.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        _end_group(process)
        for number, handler in previous.items():
            signal.signal(number, handler)


def _end_group(process: subprocess.Popen[bytes], seconds: float = 10.0) -> None:
    """End the process and everything it started, politely at first."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + seconds
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
            while time.monotonic() < deadline:
                process.poll()
                os.killpg(process.pid, 0)  # raises when nobody is left
                time.sleep(0.05)
