"""The MLflow view of the run folders: ``mlflow.db`` and ``mlartifacts/`` in the outputs folder.

The run folders are the truth (``omkl.runs.run_folder``). The view can be deleted and made again
from them at any time (``rebuild``), so it needs no repair: whatever is wrong with it, the error
says how to make it anew. One MLflow experiment per data set, so that its chart page compares
learners on the same data; one MLflow run per run folder, and one above the runs of a sweep. Files
are second names (hard links) of those in the run folders, so that nothing is stored twice.

MLflow takes 1.5 s to import and its tables another 1.7 s to create; ``prepare`` does both ahead of
time, in a thread beside the rounds. All writing happens under one lock.

The charts of MLflow are sorted by the names of metrics, those with a prefix first: a section
"curves" has what a run is judged by over time, "final" the same after the last round.
"""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import itertools
import json
import logging
import math
import os
import re
import shutil
import socket
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from filelock import FileLock, Timeout

from omkl.report import naming, style
from omkl.report.stats import NAMES, accuracy_text, computed, windowed, worse_than
from omkl.runs import run_folder, schema
from omkl.runs.run_folder import (
    ERROR_RATE,
    MSE,
    NEUTRAL,
    Run,
    find,
    folders,
    measure,
    number_of,
    scaling_of,
)
from omkl.runs.schema import LABELS, RESULT, CorruptFileError
from omkl.utils import disk
from omkl.utils.conf import flattened
from omkl.utils.extras import how_to_install
from omkl.utils.wording import pluralize

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
DIGEST = "result_sha256"  # the last tag written: a run without it was cut short
SWEEP = "sweep"  # a tag of the runs that stand above those of a sweep
SWEEP_FILES = ("*.md", "*.csv", "*.html", "*.png", "*.pdf")
LOGGED = "logged.txt"  # below mlartifacts: digests of the results that the view holds
CURVES, FINAL = "curves", "final"  # sections of MLflow's page of charts
CURVE_POINTS = 500
# Limits of MLflow: of log_batch, of a search, and of texts.
METRICS_PER_BATCH, PARAMS_PER_BATCH, RUNS_PER_SEARCH = 1000, 100, 50_000
NAME_LENGTH, TAG_LENGTH, PARAM_LENGTH, NOTE_LENGTH, DIGEST_LENGTH = 250, 5000, 6000, 8000, 36


def installed() -> bool:
    """Whether MLflow is there, which is an extra."""
    return importlib.util.find_spec("mlflow") is not None


class TrackingError(RuntimeError):
    """The MLflow view could not be read or written. Run folders are never affected."""


def missing_note(outputs: Path) -> str | None:
    """That MLflow is not installed, for the first run of an outputs folder; None for later ones."""
    runs = itertools.islice((outputs / "runs").glob("*/*/result.json"), 2)
    if installed() or len(list(runs)) > 1:
        return None
    return (
        f"MLflow is not installed, so runs are folders alone; {how_to_install('mlflow')} and "
        "omkl-report rebuild-tracking show them there too"
    )


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
    with _opened(outputs) as client, disk.shared_lock(folder):  # nobody replaces it meanwhile
        try:
            run = Run(folder).held()
        except (CorruptFileError, OSError) as error:
            raise TrackingError(f"cannot read the run folder {folder} ({error})") from error
        return _write(client, run, outputs)


def log_sweep(sweep: Path, outputs: Path) -> list[str]:
    """Write one run per data set of a sweep above its runs in the view, and return their ids.

    Raises TrackingError, whatever went wrong.
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
    """Import MLflow and create the database. ``log_run`` reports what goes wrong."""
    with contextlib.suppress(TrackingError), _opened(checked(outputs)):
        pass


def rebuild(outputs: Path) -> int:
    """Delete the MLflow view of ``outputs`` and log all run folders and sweeps again.

    This mends a damaged or outdated database and an outputs folder that was moved (MLflow stores
    absolute paths). Notes typed into the user interface and runs of other programs are dropped.
    Damaged run folders are named on stderr and left out.

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
    if next(folders(outputs), None) is None:
        raise TrackingError(f"there are no run folders below {outputs / 'runs'}: nothing to show")
    n_runs = 0
    with _opened(outputs, anew=True) as client:
        for run in find(outputs):
            with contextlib.ExitStack() as stack:
                try:
                    stack.enter_context(disk.shared_lock(run.folder))
                    held = Run(run.folder).held()
                except (CorruptFileError, OSError) as error:
                    run_folder.left_out(run, str(error))  # it was changed since it was found
                    continue
                _write(client, held, outputs)
                n_runs += 1
        for sweep in run_folder.sweep_folders(outputs):
            _write_sweep(client, sweep, outputs)
    return n_runs


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
def _opened(outputs: Path, anew: bool = False) -> Iterator[MlflowClient]:
    """A client of the database, under the one lock of the view.

    The database is made where there is none, and ``anew`` in place of one. Whatever a library
    raises is a TrackingError.
    """
    if not installed():
        raise TrackingError(f"MLflow is not installed: {how_to_install('mlflow')}")
    outputs.mkdir(parents=True, exist_ok=True)
    database, lock = database_file(outputs), outputs / ".mlflow.lock"
    try:
        with FileLock(lock, timeout=LOCK_SECONDS, thread_local=False):
            if anew:
                for path in outputs.glob("mlflow.db*"):  # and the journals of SQLite
                    path.unlink()
                shutil.rmtree(_artifacts(outputs), ignore_errors=True)
            if not database.exists():
                _create(outputs)
            yield _client(database)
    except TrackingError:
        raise
    except Timeout:
        raise TrackingError(
            f"{database} is in use: another process has held {lock} for {LOCK_SECONDS:g} s. "
            f"When it is done, {CURE}"
        ) from None
    except Exception as error:
        why = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        raise TrackingError(f"{database} cannot be used ({why}): {CURE}") from error


def _create(outputs: Path) -> None:
    """Create an empty database. MLflow refuses one that is half made, so it is made beside."""
    (_artifacts(outputs) / LOGGED).unlink(missing_ok=True)
    staged = outputs / ".mlflow-new.db"
    staged.unlink(missing_ok=True)
    client = _client(staged)
    # MLflow's own first experiment would only be an empty entry in the list.
    for experiment in client.search_experiments():
        client.delete_experiment(experiment.experiment_id)
    os.replace(staged, database_file(outputs))


def _client(database: Path) -> MlflowClient:
    """A silent client without telemetry and without pooled connections.

    A pooled connection would go on reading a file that ``rebuild`` has replaced.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_SQLALCHEMYSTORE_POOLCLASS", "NullPool")
    ignore_warnings()
    import mlflow

    if "MLFLOW_LOGGING_LEVEL" not in os.environ:
        logging.getLogger("mlflow").setLevel(logging.WARNING)
    return mlflow.MlflowClient(tracking_uri=database_uri(database))


# --- one run


def _write(client: MlflowClient, run: Run, outputs: Path) -> str:
    """Log one run, unless the same result of the same folder is there; returns the run's id."""
    from mlflow.entities import Metric, Param

    result, metrics = run.result, final_metrics(run.result)
    experiment = _experiment(client, run, metrics, outputs)
    place, (start, end) = _place_of(run.folder, outputs), _times(result)
    for old in client.search_runs([experiment], f"tags.key = '{result['key']}'"):
        # A copy of a run folder beside the original is a run of its own.
        if old.data.tags.get("folder") == place:
            if old.data.tags.get(DIGEST) == run.digest:
                return str(old.info.run_id)
            _delete(client, old, outputs)
    tags = tags_of(result) | {"folder": place}
    new = client.create_run(experiment, start_time=start, run_name=_run_name(run), tags=tags)
    run_id = str(new.info.run_id)
    config = flattened({k: v for k, v in run.config.items() if k not in NEUTRAL})
    params = [Param(_key(name), _short(_text(v), PARAM_LENGTH)) for name, v in config]
    for first in range(0, len(params), PARAMS_PER_BATCH):
        client.log_batch(run_id, params=params[first : first + PARAMS_PER_BATCH])
    points = [Metric(name, value, end, 0) for name, value in metrics.items()]
    points += [Metric(name, value, end, t) for name, t, value in _curves(run)]
    for first in range(0, len(points), METRICS_PER_BATCH):
        client.log_batch(run_id, metrics=points[first : first + METRICS_PER_BATCH])
    if result.get("stream"):
        client.log_inputs(run_id, [_data(result)])
    link_all(run.folder.iterdir(), _path_of(new.info.artifact_uri))
    client.set_terminated(run_id, "FINISHED" if run.complete else "FAILED", end)
    client.set_tag(run_id, DIGEST, run.digest)
    with open(_artifacts(outputs) / LOGGED, "a", encoding="utf-8") as file:
        file.write(f"{run.digest}\n")
    return run_id


def _experiment(client: MlflowClient, run: Run, metrics: Mapping[str, float], outputs: Path) -> str:
    """The id of the run's experiment, created when absent."""
    name = _experiment_name(run)
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        location = (_artifacts(outputs) / name).as_uri()
        # The kind opens the pages for models; the default is those for language models.
        tags = {"mlflow.experimentKind": "custom_model_development"}
        tags[f"mlflow.sharedViewState.{VIEW}"] = _table_view(metrics)
        return str(client.create_experiment(name, artifact_location=location, tags=tags))
    _check_place(experiment, outputs)
    return str(experiment.experiment_id)


def _experiment_name(run: Run) -> str:
    return str(run.result["dataset"]).replace("/", "_")  # a slash is a path on MLflow's pages


def _check_place(experiment: Any, outputs: Path) -> None:
    """Raise TrackingError where an experiment of ours keeps its files in another place."""
    location = _path_of(experiment.artifact_location)
    if location.parent.name == "mlartifacts" and location.parent != _artifacts(outputs):
        raise TrackingError(
            f"{database_file(outputs)} was made for another place (its files are in {location}). "
            f"MLflow stores absolute paths, so after a move {CURE}"
        )


def _table_view(metrics: Mapping[str, float]) -> str:
    """Columns and order of the table of runs, in the form of MLflow's "share view".

    Without it the table shows no metric. The form is not documented; MLflow falls back to its plain
    table where it does not understand it.
    """
    finals = [name for name in metrics if name.startswith(f"{FINAL}/")]
    key = "error_rate" if "error_rate" in metrics else "mse"
    names = [*finals, f"{key}_std", "kernels_per_round", "labels", "seconds"]
    columns = [f"metrics.`{name}`" for name in names] + ["tags.`error`"]
    order = {"orderByKey": f"metrics.`{key}`", "orderByAsc": True}
    return json.dumps(order | {"selectedColumns": columns})


def _run_name(run: Run) -> str:
    """The algorithm, its sizes, and what was typed: runs that differ have different names.

    Sizes are the papers' capital letters, such as M=10.
    """
    result = run.result
    sizes = {
        f"algorithm.{name}": value
        for name, value in result["params"].items()
        if len(name) == 1 and name.isupper() and isinstance(value, int)
    }
    others = naming.choices(run, ("kernels", "federation"))
    pairs = [
        f"{name.removeprefix('algorithm.')}={_text(value)}"
        for name, value in (sizes | naming.differences(run)).items()
    ]
    return _short(" ".join([str(result["algorithm"]), *others, *pairs]), NAME_LENGTH)


def _data(result: Mapping[str, Any]) -> DatasetInput:
    """The files of a run by their sha256, or what a synthetic stream is made of."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    stream = result["stream"]
    files = stream.get("files", ())
    made = json.dumps(stream.get("synthetic", stream.get("title", "")), sort_keys=True)
    digests = [str(file["sha256"]) for file in files]
    digest = digests[0] if len(digests) == 1 else schema.sha256_of("".join(digests or [made]))
    source = {"files": list(files), "url": stream.get("url")} if files else {"made of": made}
    dataset = Dataset(
        name=str(stream.get("name", result["dataset"])),
        digest=digest[:DIGEST_LENGTH],
        source_type="omkl",
        source=_short(json.dumps(source, default=str), PARAM_LENGTH),
        profile=json.dumps({"rows": result.get("n_rounds"), "inputs": result.get("n_inputs")}),
    )
    return DatasetInput(dataset, [InputTag("mlflow.data.context", "stream")])


def _unit(result: Mapping[str, Any]) -> tuple[str, str, float]:
    """What errors are called in charts, which show two decimals, their unit, and its factor.

    Runs whose errors can be compared have one unit, however large they are.
    """
    if measure(result) is not MSE:
        return "errors", " in percent", ERROR_RATE.scale
    return ("MSE", " in 1e-3", 1e3) if scaling_of(result) == "whole" else ("MSE", "", 1.0)


def final_metrics(result: Mapping[str, Any]) -> dict[str, float]:
    key = measure(result).key
    values = {key: result.get(f"{key}_mean"), f"{key}_std": result.get(f"{key}_std")}
    values |= {n: result.get(n) for n in ("seconds", "kernels_per_round", "rmse", "mae", "r2")}
    if result.get("al_efficiency", 1.0) < 1.0:  # others ask always
        values |= {name: result.get(name) for name in ("labels", "al_efficiency", "mse_per_label")}
    values |= {k: v for k, v in result.get("spread", {}).items() if k != "windows"}
    values |= {
        f"interval_{name.removeprefix('interval_')}": value
        for name, value in result.get("interval", {}).items()
        if isinstance(value, float)
    }
    for name, entry in computed(result).items():
        values |= {f"baseline_{name}_{what}": value for what, value in entry.items()}
    regrets = {name: entry.get("mean") for name, entry in result.get("regret", {}).items()}
    values |= {f"regret_{name}": mean for name, mean in regrets.items()}
    metrics = {_key(name): value for name, value in values.items()}
    if f"{key}_mean" in result:
        what, of, scale = _unit(result)
        metrics[f"{FINAL}/{what}{of}"] = scale * number_of(result[f"{key}_mean"])
        metrics[f"{FINAL}/regret"] = next((m for m in regrets.values() if m is not None), None)
    return {
        name: float(value)
        for name, value in metrics.items()
        if value is not None and math.isfinite(value)
    }


def _curves(run: Run) -> Iterator[tuple[str, int, float]]:
    """Charts over time: the name, the round and the mean over the seeds of each point.

    The error so far, that of windows, and the regret against the first comparator that was
    computed.
    """
    if not run.complete:
        return
    curves, stated = run.curves, run.result["regret"]
    t, (what, of, scale), windows = curves["t"], _unit(run.result), windowed(run)
    drawn = style.drawn_rounds(t, limit=CURVE_POINTS)
    error = scale * curves[measure(run.result).key][:, drawn]
    charts = [(f"{what} so far{of}", t[drawn], error)]
    charts.append((f"{what} of a window{of}", windows.edges[1:], scale * windows.loss))
    for name in [n for n in stated if "mean" in stated[n] and f"regret_{n}" in curves][:1]:
        charts.append(("regret", t[drawn], curves[f"regret_{name}"][:, drawn]))
    for name, rounds, values in charts:
        for step, value in zip(rounds.tolist(), values.mean(axis=0).tolist(), strict=True):
            if math.isfinite(value):
                yield f"{CURVES}/{name}", step, value


def tags_of(result: Mapping[str, Any]) -> dict[str, str]:
    tags = {name: result[name] for name in ("key", "algorithm", "dataset", "status", "commit")}
    tags["numbers"] = result.get("numbers")  # a failed run has none
    tags["versions"] = ", ".join(f"{name} {v}" for name, v in result["versions"].items())
    if error := result.get("error"):
        tags["error"] = f"{error['type']}: {error['message']}"
    tags["mlflow.note.content"] = _note(result)
    tags["mlflow.source.name"] = "omkl"
    if result["commit"]:
        tags["mlflow.source.git.commit"] = result["commit"]
    return {name: _short(_text(v), TAG_LENGTH) for name, v in tags.items() if v is not None}


def _note(result: Mapping[str, Any]) -> str:
    """The description on the run's page, in Markdown."""
    if error := result.get("error"):
        return f"**{error['type']}**: {error['message']}\n\n```\n{error['traceback'] or ''}\n```"
    kind = measure(result)
    std = result[f"{kind.key}_std"]
    spread = f" ± {std:.2g}" if std is not None else ""
    lines = [
        f"{kind.short} **{result[f'{kind.key}_mean']:.4g}**{spread} after {result['n_rounds']} "
        f"rounds, {pluralize(len(result['seeds']), 'seed')}, kernels {result['kernels']}"
    ]
    lines += [
        f"- {NAMES[name]}: {accuracy_text(entry)}" for name, entry in computed(result).items()
    ]
    if better := worse_than(result):
        lines.append(f"- **worse than {better}**")
    for name, entry in result["regret"].items():
        what = f"skipped: {entry['skipped']}" if "skipped" in entry else f"{entry['mean']:.4g}"
        lines.append(f"- regret_{name} ({entry['label']}): {what}")
    return "\n".join(lines)


def _times(result: Mapping[str, Any]) -> tuple[int, int]:
    """When a run started and ended, in ms since 1970."""
    start = round(1000 * datetime.fromisoformat(result["started"]).timestamp())
    return start, start + round(1000 * float(result.get("seconds", 0.0)))


def _key(name: str) -> str:
    """A metric's or parameter's name in the letters that MLflow allows."""
    return re.sub(r"[^\w.\- ]", "_", name, flags=re.ASCII)[:NAME_LENGTH]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


# --- a sweep


def _write_sweep(client: MlflowClient, sweep: Path, outputs: Path) -> list[str]:
    """Write the runs that stand for a sweep and put its runs below them; returns their ids.

    A data set none of whose runs is in the view has none.
    """
    by_experiment: dict[str, list[Run]] = {}
    for run, _ in run_folder.jobs_of(sweep):
        if (run.folder / RESULT).exists() and run.complete:
            by_experiment.setdefault(_experiment_name(run), []).append(run)
    written = []
    for name, runs in by_experiment.items():
        if (experiment := client.get_experiment_by_name(name)) is None:
            continue
        number = experiment.experiment_id
        logged = client.search_runs([number], max_results=RUNS_PER_SEARCH)
        places = {_place_of(run.folder, outputs) for run in runs}
        below = [one.info.run_id for one in logged if one.data.tags.get("folder") in places]
        if not below:
            continue
        for old in logged:
            if old.data.tags.get(SWEEP) == sweep.name:
                _delete(client, old, outputs)
        written.append(_write_parent(client, number, sweep, runs))
        for run_id in below:
            client.set_tag(run_id, "mlflow.parentRunId", written[-1])
    return written


def _write_parent(client: MlflowClient, experiment: str, sweep: Path, runs: Sequence[Run]) -> str:
    starts, ends = zip(*(_times(run.result) for run in runs), strict=True)
    tags = {SWEEP: sweep.name}
    if (table := sweep / "table.md").exists():
        tags["mlflow.note.content"] = shortened(table.read_text(encoding="utf-8"))
    name = _sweep_name(runs)
    parent = client.create_run(experiment, start_time=min(starts), run_name=name, tags=tags)
    paths = [path for pattern in SWEEP_FILES for path in sorted(sweep.glob(pattern))]
    link_all(paths, _path_of(parent.info.artifact_uri))
    client.set_terminated(parent.info.run_id, "FINISHED", max(ends))
    return str(parent.info.run_id)


def shortened(note: str) -> str:
    """A note that MLflow keeps whole: a longer table ends after a row, and says so."""
    if len(note) <= NOTE_LENGTH:
        return note
    ending = "\n\nCut here: table.md has all rows.\n"
    return note[: NOTE_LENGTH - len(ending)].rpartition("\n")[0] + ending


def _sweep_name(runs: Sequence[Run]) -> str:
    """The algorithms of a sweep, and the settings that vary in it."""
    learners = list(dict.fromkeys(str(run.result["algorithm"]) for run in runs))
    swept = dict.fromkeys(name for settings in naming.varying(runs) for name in settings)
    over = f", {', '.join(swept)} varied" if swept else ""
    more = f" and {len(learners) - 4} more" if len(learners) > 4 else ""
    return f"sweep of {len(runs)}: {', '.join(learners[:4])}{more}{over}"[:NAME_LENGTH]


# --- files


def _artifacts(outputs: Path) -> Path:
    return outputs / "mlartifacts"


def _path_of(uri: str) -> Path:
    return Path(unquote(urlsplit(uri).path))


def _place_of(folder: Path, outputs: Path) -> str:
    """A run folder below the outputs folder; the name alone of one that lies elsewhere."""
    folder = folder.resolve()
    return folder.relative_to(outputs).as_posix() if folder.is_relative_to(outputs) else folder.name


def _delete(client: MlflowClient, run: MlflowRun, outputs: Path) -> None:
    client.delete_run(run.info.run_id)
    for path in _artifacts(outputs).glob(f"*/{run.info.run_id}"):
        shutil.rmtree(path, ignore_errors=True)


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
        try:
            if path.name == LABELS:
                raise OSError
            os.link(path, to / path.name, follow_symlinks=False)
        except OSError:
            shutil.copy2(path, to / path.name, follow_symlinks=False)


# --- the user interface


def ui(outputs: Path, port: int = 5000) -> None:
    """Become the server of MLflow's user interface for ``outputs``, on 127.0.0.1.

    Makes the view first where there are run folders and no database. Returns never: the server
    takes the place of this process, so that signals reach it.

    Raises
    ------
    TrackingError
        Where there is nothing to show, the database cannot be used or belongs to another place, or
        the port is in use.
    """
    outputs = checked(outputs)
    with socket.socket() as probe:  # MLflow would only log it, and end with status 0
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            why = "is in use" if error.errno == errno.EADDRINUSE else str(error.strerror)
            text = f"port {port} {why}: choose another, such as --port 5001"
            raise TrackingError(text) from error
    if not database_file(outputs).exists():
        print(f"making the MLflow view of {outputs} from its run folders ...", flush=True)
        rebuild(outputs)
    with _opened(outputs) as client:
        shown = client.search_experiments(order_by=["name ASC"])
        for experiment in shown:
            _check_place(experiment, outputs)
    address = f"http://127.0.0.1:{port}"
    print(f"MLflow is ready at {address} in a few seconds; Ctrl-C ends it.")
    # The address of each experiment's table: the home page is MLflow's for language models.
    width = max((len(one.name) for one in shown), default=0)
    for one in shown:
        page = f"{address}/#/experiments/{one.experiment_id}/runs?workflowType=machine_learning"
        print(f"  {one.name:{width}}  {page}&viewStateShareKey={VIEW}")
    sys.stdout.flush()
    _serve(database_file(outputs), port)


def _serve(database: Path, port: int) -> None:
    """Replace this process by the server.

    One worker and no job queue: ready in 6 s with 0.5 GB instead of 20 s with 3 GB. Python looks
    for modules where it is installed, and not in the folder that it is started in, which may be a
    stranger's.
    """
    os.environ |= {
        "PYTHONSAFEPATH": "1",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SQLALCHEMYSTORE_POOLCLASS": "NullPool",  # a view that is made anew is seen
    }
    os.chdir(os.sep)
    options = ["--backend-store-uri", database_uri(database), "--host", "127.0.0.1"]
    options += ["--port", str(port), "--workers", "1"]
    os.execv(sys.executable, [sys.executable, "-m", "mlflow", "ui", *options])
