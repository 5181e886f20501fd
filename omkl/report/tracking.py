"""Log runs to MLflow.

The run folders are the primary record (``omkl.runs.run_folder``). The MLflow view is a copy, which
can be rebuilt from them. It is in ``mlflow.db`` and ``mlartifacts/`` of the outputs folder, or on
the server ``MLFLOW_TRACKING_URI``. Each data set is one MLflow experiment, which compares
algorithms on this data set. An MLflow run has the settings, numbers, curves and figures of one run
folder, and the tag ``folder`` is the path of this folder. Predictions and models are only in the
run folder. A file lock allows one process to write at a time, because two processes cannot create
MLflow's tables at once.
"""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import json
import logging
import math
import os
import re
import shutil
import socket
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from omkl.report import console, naming, stats, style
from omkl.runs import run_folder
from omkl.runs.run_folder import CONFIG, CURVES, FIGURES, RESULT, Run, measure
from omkl.utils import disk
from omkl.utils.conf import NEUTRAL, flattened
from omkl.utils.wording import few, how_to_install

if TYPE_CHECKING:
    from mlflow import MlflowClient

LOCK_SECONDS = 60.0
CURE = (
    "`omkl-report rebuild-tracking` makes the view again from the run folders, which are "
    "complete and unharmed; `tracking=none` runs without it"
)
CURVE_POINTS = 200
METRICS_PER_BATCH, PARAMS_PER_BATCH = 1000, 100  # limits of log_batch
NAME_LENGTH, PARAM_LENGTH, TAG_LENGTH = 250, 6000, 5000  # limits of texts
NUMBERS = ("rmse", "mae", "r2", "log_loss", "brier_score", "labels", "al_efficiency",
           "kernels_per_round", "seconds", "baselines", "regret", "spread",
           "interval")  # fmt: skip


class TrackingError(RuntimeError):
    """Raised if the MLflow view cannot be read or written. Run folders are not affected."""


def installed() -> bool:
    """Return whether MLflow is installed. It is an optional dependency."""
    return importlib.util.find_spec("mlflow") is not None


def log(runs: Sequence[Run], outputs: Path, sweep: Path | None = None) -> list[str]:
    """Log the runs that are not yet in the MLflow view, and return the MLflow ids of all runs.

    Parameters
    ----------
    runs
        Complete or failed runs.
    outputs
        Outputs folder, which contains the view.
    sweep
        Folder of the sweep to which the runs belong. Each data set of the sweep gets a parent run.
        None for single runs.

    Raises
    ------
    TrackingError
        Logging failed for any reason.
    """
    with _client(outputs) as client:
        return _log(client, runs, outputs, sweep)


def rebuild(outputs: Path) -> int:
    """Rebuild the MLflow view of an outputs folder, and return the number of logged runs.

    The database is deleted, and all runs and sweeps are logged again. This repairs a damaged
    database. It is also needed after the outputs folder was moved, because MLflow stores absolute
    paths. Runs on the server ``MLFLOW_TRACKING_URI`` are not deleted. Raises TrackingError if there
    are no runs, or MLflow fails.
    """
    runs = list(run_folder.find(outputs))
    if not runs:
        raise TrackingError(f"there are no runs in {outputs / 'runs'}: nothing to show")
    with _client(outputs, anew=True) as client:
        _log(client, runs, outputs)
        for sweep in run_folder.sweep_folders(outputs):
            _log(client, [run for run in run_folder.jobs_of(sweep) if run.complete], outputs, sweep)
    return len(runs)


def ui(outputs: Path, port: int = 5000) -> None:
    """Replace this process by MLflow's user interface on 127.0.0.1.

    If the MLflow view does not exist, it is created from the run folders first. Raises
    TrackingError if the view cannot be used or the port is in use.
    """
    if "MLFLOW_TRACKING_URI" in os.environ:
        raise TrackingError(f"the runs are at {uri(outputs)} (MLFLOW_TRACKING_URI): look there")
    with socket.socket() as probe:  # MLflow only logs that a port is in use, and exits with 0
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # the server's option
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            why = "is in use" if error.errno == errno.EADDRINUSE else str(error.strerror)
            text = f"port {port} {why}: choose another, such as --port 5001"
            raise TrackingError(text) from error
    if not database(outputs).exists():
        print(f"making the MLflow view of {outputs} from its run folders ...", flush=True)
        rebuild(outputs)
    with _client(outputs) as client:
        shown = client.search_experiments(order_by=["name ASC"])
    print(f"MLflow is ready at http://127.0.0.1:{port} in a few seconds; Ctrl-C ends it.")
    for one in shown:  # MLflow's home page is for language models
        page = f"http://127.0.0.1:{port}/#/experiments/{one.experiment_id}/runs"
        print(f"  {one.name}  {page}?workflowType=machine_learning", flush=True)
    _serve(uri(outputs), port)


def _serve(backend: str, port: int) -> None:
    """Replace this process by the server, so that signals reach the server.

    The server has one worker and no job queue. It starts in 6 s and takes 0.5 GB of memory. With
    MLflow's defaults it would take 20 s and 3 GB. Python does not import modules from the current
    folder, which may contain files of other people.
    """
    os.environ |= {"PYTHONSAFEPATH": "1", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
                   "MLFLOW_DISABLE_TELEMETRY": "true"}  # fmt: skip
    os.chdir(os.sep)
    options = ["--backend-store-uri", backend, "--host", "127.0.0.1", "--port", str(port)]
    os.execv(sys.executable, [sys.executable, "-m", "mlflow", "ui", *options, "--workers", "1"])


# --- Location of the view -------------------------------------------------------------------------


def database(outputs: Path) -> Path:
    return outputs.resolve() / "mlflow.db"


def uri(outputs: Path) -> str:
    """Return the address of the view. Raises TrackingError if SQLAlchemy cannot parse it."""
    if given := os.environ.get("MLFLOW_TRACKING_URI"):
        return given
    if set("?%") & set(str(outputs.resolve())):
        raise TrackingError(
            f"MLflow cannot keep a database below {outputs.resolve()}: its path contains ? or %. "
            "Choose another outputs folder, or tracking=none."
        )
    return f"sqlite:///{database(outputs)}"


def _place(folder: Path, outputs: Path) -> str:
    """Return the path of a run folder relative to the outputs folder.

    For a folder that is not below the outputs folder, return the name.
    """
    folder, outputs = folder.resolve(), outputs.resolve()
    return folder.relative_to(outputs).as_posix() if folder.is_relative_to(outputs) else folder.name


@contextlib.contextmanager
def _client(outputs: Path, anew: bool = False) -> Iterator[MlflowClient]:
    """Yield an MLflow client of the view, with exclusive write access.

    If ``anew`` is True, the database of the outputs folder is deleted first. Any error of a library
    becomes a TrackingError.
    """
    if not installed():
        raise TrackingError(f"MLflow is not installed: {how_to_install('mlflow')}")
    address, lock = uri(outputs), outputs / ".mlflow.lock"
    outputs.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(lock, timeout=LOCK_SECONDS, thread_local=False):
            if anew:
                shutil.rmtree(outputs / "mlartifacts", ignore_errors=True)
                for path in outputs.glob("mlflow.db*"):  # includes the journals of SQLite
                    path.unlink()
            if "MLFLOW_TRACKING_URI" not in os.environ and not database(outputs).exists():
                _create(database(outputs))
            yield _silent_client(address)
    except TrackingError:
        raise
    except Timeout:
        raise TrackingError(
            f"the MLflow view is in use: another process has held {lock} for {LOCK_SECONDS:g} s. "
            f"When it is done, {CURE}"
        ) from None
    except Exception as error:
        why = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        raise TrackingError(f"{address} cannot be used ({why}): {CURE}") from error


def _create(path: Path) -> None:
    """Create an empty database with a temporary name, and rename it to ``path``.

    MLflow refuses an incomplete database, so ``path`` never has one, even briefly. The temporary
    name is new each time, because MLflow creates the tables of an address only once per process.
    """
    temporary = disk.temporary_name(path)
    client = _silent_client(f"sqlite:///{temporary}")
    for experiment in client.search_experiments():  # MLflow's default, which would stay empty
        client.delete_experiment(experiment.experiment_id)
    os.replace(temporary, path)


def _silent_client(address: str) -> MlflowClient:
    """Return an MLflow client without telemetry and without pooled connections.

    A pooled connection would still read a database that ``rebuild`` has deleted.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_SQLALCHEMYSTORE_POOLCLASS", "NullPool")
    for module in ("mlflow", "sqlalchemy", "alembic"):
        warnings.filterwarnings("ignore", category=DeprecationWarning, module=rf"{module}\b")
    warnings.filterwarnings("ignore", message="SOCKS support in urllib3 requires")
    import mlflow

    if "MLFLOW_LOGGING_LEVEL" not in os.environ:
        logging.getLogger("mlflow").setLevel(logging.WARNING)
    return mlflow.MlflowClient(tracking_uri=address)


def _experiment(client: MlflowClient, name: str, outputs: Path) -> str:
    """Return the id of the experiment of a data set, and create it if it is missing."""
    name = name.replace("/", "_")  # MLflow's pages read a slash as a path
    found = client.get_experiment_by_name(name)
    if "MLFLOW_TRACKING_URI" in os.environ:
        return str(found.experiment_id if found else client.create_experiment(name))
    location = (outputs.resolve() / "mlartifacts" / name).as_uri()
    if found is None:
        # The kind selects MLflow's pages for models. The default is its pages for language models.
        tags = {"mlflow.experimentKind": "custom_model_development"}
        return str(client.create_experiment(name, artifact_location=location, tags=tags))
    if found.artifact_location != location:
        raise TrackingError(
            f"{database(outputs)} was made for another place ({found.artifact_location}). MLflow "
            f"stores absolute paths, so after a move {CURE}"
        )
    return str(found.experiment_id)


# --- runs -----------------------------------------------------------------------------------------


def _log(
    client: MlflowClient, runs: Sequence[Run], outputs: Path, sweep: Path | None = None
) -> list[str]:
    members: dict[str, list[tuple[Run, str]]] = {}
    for run, entry in zip(runs, naming.legend(runs), strict=True):
        experiment = _experiment(client, str(run.result["dataset"]), outputs)
        members.setdefault(experiment, []).append((run, str(entry)))
    ids = {}
    for experiment, of_experiment in members.items():
        logged = _logged(client, experiment, [run for run, _ in of_experiment], outputs)
        for run, name in of_experiment:
            place = _place(run.folder, outputs)
            if place not in logged:
                logged[place] = _log_run(client, experiment, run, name, place)
            ids[run] = logged[place]
        if sweep is not None:
            _log_sweep(client, experiment, {run: ids[run] for run, _ in of_experiment}, sweep)
    return [ids[run] for run in runs]


def _logged(
    client: MlflowClient, experiment: str, runs: Sequence[Run], outputs: Path
) -> dict[str, str]:
    """Return the MLflow ids of runs that are logged already, by run folder.

    Incomplete MLflow runs are deleted. If ``runs`` has one run, MLflow searches for its folder.
    If it has several runs, all MLflow runs of the experiment are read.
    """
    query = f"tags.folder = '{_place(runs[0].folder, outputs)}'" if len(runs) == 1 else ""
    found, page = {}, None
    while page != "":
        entries = client.search_runs([experiment], query, max_results=10_000, page_token=page)
        for run in entries:
            if run.info.status in ("FINISHED", "FAILED"):
                found[run.data.tags.get("folder", "")] = str(run.info.run_id)
            elif "folder" in run.data.tags:  # incomplete, because logging was interrupted
                client.delete_run(run.info.run_id)
        page = entries.token or ""
    return found


def _log_run(client: MlflowClient, experiment: str, run: Run, name: str, place: str) -> str:
    from mlflow.entities import Metric, Param

    result = run.result
    start, end = _times(result)
    tags = {"folder": place, **_tags(run)}
    run_id = str(client.create_run(experiment, start, tags, name[:NAME_LENGTH]).info.run_id)
    settings = flattened({k: v for k, v in run.config.items() if k not in NEUTRAL})
    params = [Param(_key(name), _text(value)[:PARAM_LENGTH]) for name, value in settings]
    for first in range(0, len(params), PARAMS_PER_BATCH):
        client.log_batch(run_id, params=params[first : first + PARAMS_PER_BATCH])
    metrics = [Metric(_key(n), v, end, t) for n, t, v in (*_numbers(result), *_curves(run))]
    for first in range(0, len(metrics), METRICS_PER_BATCH):
        client.log_batch(run_id, metrics=metrics[first : first + METRICS_PER_BATCH])
    for file in (RESULT, CONFIG, CURVES):
        if (run.folder / file).exists():
            client.log_artifact(run_id, str(run.folder / file))
    if (run.folder / FIGURES).exists():
        client.log_artifacts(run_id, str(run.folder / FIGURES))
    client.set_terminated(run_id, "FINISHED" if run.complete else "FAILED", end)
    return run_id


def _log_sweep(client: MlflowClient, experiment: str, ids: Mapping[Run, str], sweep: Path) -> None:
    """Log a sweep and its files to an experiment, as the parent of the MLflow runs ``ids``."""
    for earlier in client.search_runs([experiment], f"tags.sweep = '{sweep.name}'"):
        client.delete_run(earlier.info.run_id)
    tags = {"sweep": sweep.name}
    if (table := sweep / "table.md").exists():
        tags["mlflow.note.content"] = table.read_text(encoding="utf-8")[:TAG_LENGTH]
    start, end = zip(*(_times(run.result) for run in ids), strict=True)
    name = f"sweep of {len(ids)}: {few(dict.fromkeys(map(naming.name_of, ids)))}"
    parent = client.create_run(experiment, min(start), tags, name[:NAME_LENGTH]).info.run_id
    for path in sorted(sweep.iterdir()):
        if path.suffix in (".md", ".csv", ".html", ".png", ".pdf"):
            client.log_artifact(parent, str(path))
    for run_id in ids.values():
        client.set_tag(run_id, "mlflow.parentRunId", parent)
    client.set_terminated(parent, "FINISHED", max(end))


def _tags(run: Run) -> dict[str, str]:
    result = run.result
    names = ("key", "stamp", "algorithm", "dataset", "status", "commit")
    tags = {name: str(result[name]) for name in names if result.get(name) is not None}
    tags["mlflow.source.name"] = "omkl"
    if result.get("commit"):
        tags["mlflow.source.git.commit"] = str(result["commit"])
    if error := result.get("error"):
        tags["error"] = f"{error['type']}: {error['message']}"
    else:
        tags["mlflow.note.content"] = f"{console.loss_text(result)}\n\n`{naming.command(run)}`"
    return {name: value[:TAG_LENGTH] for name, value in tags.items()}


def _numbers(result: Mapping[str, Any]) -> Iterator[tuple[str, int, float]]:
    """Yield (name, 0, value) for each finite number of a result. The 0 is MLflow's step."""
    key = measure(result).key
    chosen = {k: result[k] for k in (f"{key}_mean", f"{key}_std", *NUMBERS) if k in result}
    for name, value in flattened(chosen):
        if isinstance(value, int | float) and math.isfinite(value):
            yield name, 0, float(value)


def _curves(run: Run) -> Iterator[tuple[str, int, float]]:
    """Yield name, round and value of each point of the curves, which are means over the seeds.

    The curves are the running error, the error of windows, and the regret against each comparator.
    """
    if not run.complete:
        return
    kind, curves, windows = measure(run.result), run.curves, stats.windowed(run)
    drawn = style.drawn_rounds(curves["t"], limit=CURVE_POINTS)
    charts = {kind.long: (curves["t"][drawn], curves[kind.key][:, drawn])}
    charts[f"{kind.long} of windows"] = (windows.edges[1:], windows.loss)
    for name, array in curves.items():
        if name.startswith("regret_"):
            charts[name] = (curves["t"][drawn], array[:, drawn])
    for name, (t, values) in charts.items():
        for step, value in zip(t.tolist(), values.mean(axis=0).tolist(), strict=True):
            if math.isfinite(value):
                yield f"curves/{name}", step, value


def _times(result: Mapping[str, Any]) -> tuple[int, int]:
    """Return the start and the end of a run, in milliseconds since 1970."""
    start = round(1000 * datetime.fromisoformat(result["started"]).timestamp())
    return start, start + round(1000 * float(result.get("seconds", 0.0)))


def _key(name: str) -> str:
    """Return the name of a metric or parameter with only the characters that MLflow allows."""
    return re.sub(r"[^\w.\- /]", "_", name, flags=re.ASCII)[:NAME_LENGTH]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
