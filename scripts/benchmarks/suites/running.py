"""Run a suite: algorithms of omkl in this process, and other models in worker processes.

Results are stored, so that nothing is computed twice. Algorithms of omkl are ordinary runs. Passes
of other models are cached by their arguments, their code and the version of their library.
"""

from __future__ import annotations

import functools
import operator
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
import pandas as pd

import omkl
from benchmarks.suites import models, scores, streams
from benchmarks.suites.models import Pass, failed
from benchmarks.suites.scores import MAIN
from benchmarks.suites.settings import OURS, PUBLISHED, TRIVIAL, Entry, Suite
from benchmarks.suites.streams import TARGET, Rows, StreamSettings, Task
from omkl.experiment import processes
from omkl.experiment.metrics import forecaster_settings
from omkl.online.learner import OnlineLearner
from omkl.utils.disk import write_atomically

COLUMNS = ["stream", "task", "learner", "kind", "seed", "score", "value"]
DIVERGED = 1e6  # a learner has failed if its MSE is larger by this factor than the running mean's
N_POINTS = 300  # number of points of a curve


class Results(NamedTuple):
    """Results of a suite.

    Attributes
    ----------
    suite
        Settings of the suite.
    table
        One row per score and seed, with ``COLUMNS``. The error of a learner that failed is inf.
    curves
        Sliding error by stream and learner, (2, P): P rows, and the errors, means over the seeds.
    sources
        One row per stream that was read.
    missing
        Stream, learner and reason for each learner without scores.
    """

    suite: Suite
    table: pd.DataFrame
    curves: dict[tuple[str, str], np.ndarray]
    sources: pd.DataFrame
    missing: list[tuple[str, str, str]]

    def means(self, task: Task, score: str) -> pd.DataFrame:
        """Return a score averaged over seeds: streams (rows) x learners (columns)."""
        table = self.table
        of_task = (table["task"] == task) & (table["kind"] != PUBLISHED)
        return table[of_task & (table["score"] == score)].pivot_table(
            index="stream", columns="learner", values="value", sort=False, observed=True
        )

    def kind(self, learner: str) -> str:
        return str(self.table.loc[self.table["learner"] == learner, "kind"].iloc[0])


class Opened(NamedTuple):
    """Stream of a suite: its settings, its rows, its file, and arrays as learners read them."""

    settings: StreamSettings
    task: Task
    rows: Rows
    path: Path
    stream: omkl.datasets.Stream
    X: np.ndarray
    y: np.ndarray  # numbers, or indices of classes


def run(
    suite: Suite,
    folder: Path,
    n_jobs: int = 1,
    chosen: Callable[[str, str], bool] = lambda stream, learner: True,
    tell: Callable[[str], object] = print,
) -> Results:
    """Run all learners of a suite that have no stored results, and score all predictions.

    Parameters
    ----------
    suite
        Settings of the suite.
    folder
        Folder of the streams, runs and cached passes.
    n_jobs
        Number of processes for other models.
    chosen
        Function of the names of a stream and a learner that returns whether to run the learner.
    tell
        Function that is called with each line of progress.
    """
    lines: list[tuple[Any, ...]] = []
    curves: dict[tuple[str, str], np.ndarray] = {}
    sources: list[dict[str, Any]] = []
    missing: list[tuple[str, str, str]] = []
    cached = joblib.Memory(folder / "cache", verbose=0).cache(models.one_pass)
    for settings in suite.streams:
        name, task = settings.name, suite.task_of(settings)
        entries = [entry for entry in suite.entries(task) if chosen(name, entry.name)]
        if not entries:
            continue
        try:
            opened = _open(suite, settings, folder)
        except streams.ABSENT as error:
            missing.append((name, "all", str(error)))
            tell(f"{name}: not there: {error}")
            continue
        sources.append(_described(opened))
        limit = np.inf
        for entry, passes in _passes(suite, opened, entries, folder, cached, n_jobs):
            good = [one for one in passes if not one.failure]
            found = [
                scores.score(opened.y, one, opened.rows, task, suite.n_unscored, suite.window)
                for one in good
            ]
            reasons = [one.failure for one in passes if one.failure]
            worst = max((of_seed[MAIN[task]] for of_seed in found), default=0.0)
            if not worst <= limit:
                reasons.append(f"its error is {worst:.1g}")
            if entry.name == "mean":
                limit = DIVERGED * worst
            if reasons:
                missing.append((name, entry.name, reasons[0]))
                lines.append((name, task, entry.name, entry.kind, None, MAIN[task], np.inf))
            else:
                for one, of_seed in zip(good, found, strict=True):
                    lines += [
                        (name, task, entry.name, entry.kind, one.seed, score, value)
                        for score, value in of_seed.items()
                    ]
                curves[name, entry.name] = _curve(suite, opened, good)
            tell(f"{name}: {entry.name}: {reasons[0] if reasons else _shown(found, task)}")
    lines += _published(suite, {source["stream"] for source in sources})
    table = pd.DataFrame(lines, columns=COLUMNS).astype({"seed": "Int64", "value": float})
    for column in ("stream", "learner"):
        table[column] = pd.Categorical(table[column], table[column].unique())
    return Results(suite, table, curves, pd.DataFrame(sources), missing)


def _open(suite: Suite, settings: StreamSettings, folder: Path) -> Opened:
    task = suite.task_of(settings)
    rows = streams.load(settings, task, suite.rows)
    path = folder / "streams" / f"{_file_name(settings.name)}.parquet"
    streams.write(rows.frame, path)
    stream, X, y = _arrays(path, rows, task)
    return Opened(settings, task, rows, path, stream, X, y)


def _file_name(name: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in name.lower())


def _arrays(
    path: Path, rows: Rows, task: Task, lags: int = 0, scaling: str = "columns"
) -> tuple[omkl.datasets.Stream, np.ndarray, np.ndarray]:
    """Open the file of a stream, and return the stream, its inputs (n, d) and targets (n,)."""
    stream = omkl.open_stream(
        path, TARGET, task=task, scaling=scaling, order="file", lags=lags,
        inputs=list(rows.frame.columns[:-1]),
    )  # fmt: skip
    X, y = streams.arrays(stream)
    if task == "classification":
        y = streams.class_codes(stream, y).astype(float)
    return stream, X, y


def _passes(
    suite: Suite, opened: Opened, entries: list[Entry], folder: Path, cached: Any, n_jobs: int
) -> Iterator[tuple[Entry, list[Pass]]]:
    """Yield each learner with its passes, one per seed.

    Algorithms of omkl come first, while no other process is running, so that their times count.
    """
    others: list[tuple[Entry, Any]] = []
    arrays: dict[int, tuple[Any, ...]] = {}
    for entry in entries:
        if entry.kind == TRIVIAL:
            yield entry, [_forecast(entry, opened)]
        elif entry.kind == OURS:
            yield entry, _run_learner(suite, entry, opened, folder)
        elif reason := models.why_missing(entry.what):
            yield entry, [failed(0, reason)]
        else:
            if entry.lags not in arrays:
                scaling = "none" if suite.inputs_of_models == "raw" else "columns"
                of_lags = _arrays(opened.path, opened.rows, opened.task, entry.lags, scaling)
                arrays[entry.lags] = of_lags
            stream, X, y = arrays[entry.lags]
            for seed in suite.seeds_of(entry):
                about = (entry.what, opened.task, len(stream.classes), seed, tuple(stream.inputs))
                rest = (X, y, suite.seconds, models.code_of(entry.what))
                others.append((entry, functools.partial(cached, *about, *rest)))
    found: dict[str, list[Pass]] = {}
    calls = [call for _, call in others]
    for number, one in processes.side_by_side(operator.call, calls, n_jobs):
        entry = others[number][0]
        found.setdefault(entry.name, []).append(one or failed(0, processes.DIED))
        if len(found[entry.name]) == len(suite.seeds_of(entry)):
            yield entry, sorted(found[entry.name], key=lambda one: one.seed)


def _forecast(entry: Entry, opened: Opened) -> Pass:
    stream = opened.stream
    y = opened.y
    if len(stream.classes) == 2:
        y = np.where(y > 0, 1.0, -1.0)
    made = forecaster_settings(
        entry.what, stream.n_inputs, scaling=stream.scaling, classes=stream.classes
    )
    OnlineLearner(made).learn_rows(opened.X[:2], y[:2])  # compile before the clock starts
    learner, start = OnlineLearner(made), time.perf_counter()
    with np.errstate(over="ignore", invalid="ignore"):
        y_hat = learner.learn_rows(opened.X, y).y_hat
    seconds = time.perf_counter() - start
    if y_hat.ndim == 2:
        y_hat = y_hat.argmax(axis=1).astype(float)
    elif stream.classes:
        y_hat = np.where(y_hat == 0.0, np.nan, y_hat > 0.0)  # 0 predicts neither class
    return Pass(0, y_hat, seconds)


def _run_learner(suite: Suite, entry: Entry, opened: Opened, folder: Path) -> list[Pass]:
    try:
        params = entry.candidates[0]
        if len(entry.candidates) > 1:
            params = _best_on_prefix(suite, entry, opened, folder)
        return _run(suite, entry, opened, folder, params, suite.seeds)
    except (RuntimeError, ValueError) as error:
        return [failed(0, str(error))]


def _best_on_prefix(suite: Suite, entry: Entry, opened: Opened, folder: Path) -> dict[str, Any]:
    """Return the parameters with the smallest loss on the prefix, for the first seed."""
    found: list[tuple[float, dict[str, Any]]] = []
    for params in entry.candidates:
        try:
            (one,) = _run(suite, entry, opened, folder, params, 1, suite.prefix)
        except RuntimeError:  # its predictions are not finite
            continue
        loss = scores.losses(opened.y[: suite.prefix], one.y_hat, opened.task)
        found.append((float(loss[1:].mean()), params))
    if not found:
        raise RuntimeError("no setting of its grid has finite predictions")
    return min(found, key=lambda pair: pair[0])[1]


def _run(
    suite: Suite,
    entry: Entry,
    opened: Opened,
    folder: Path,
    params: dict[str, Any],
    n_seeds: int,
    limit: int | None = None,
) -> list[Pass]:
    """Run an algorithm of omkl as ``omkl.run`` does, and return one pass per seed."""
    result = omkl.run(
        entry.what,
        opened.path,
        target=TARGET,
        task=opened.task,
        dataset={"inputs": list(opened.rows.frame.columns[:-1])},
        stream={"order": "file", "scaling": "columns", "limit": limit},
        kernels=suite.kernels,
        D=suite.D,
        seeds=n_seeds,
        threads=1,
        predictions=True,
        outputs=folder,
        **{f"algorithm.{name}": value for name, value in params.items()},
    )
    frame = result.predictions.sort_values("row", kind="stable")
    passes = []
    for seed, seconds in zip(result["seeds"], result["seconds_per_seed"], strict=True):
        rows = frame[frame["seed"] == seed] if "seed" in frame else frame
        if opened.task == "regression":
            y_hat = rows["y_hat"].to_numpy()
        else:
            classes = [str(label) for label in opened.stream.classes]
            codes = pd.Categorical(rows["y_hat"], classes).codes
            y_hat = np.where(codes < 0, np.nan, codes)
        spread = rows["spread"].to_numpy() if "spread" in rows else None
        passes.append(Pass(seed, y_hat, seconds, spread))
    return passes


def _curve(suite: Suite, opened: Opened, passes: list[Pass]) -> np.ndarray:
    loss = [scores.losses(opened.y, one.y_hat, opened.task) for one in passes]
    mean = np.mean(loss, axis=0)[max(suite.n_unscored, 1) :]
    values = scores.sliding_mean(mean, suite.window)
    at = np.unique(np.linspace(0, len(values) - 1, N_POINTS).round().astype(int))
    return np.stack([at + len(opened.y) - len(values) + 1, values[at]])


def _described(opened: Opened) -> dict[str, Any]:
    rows = opened.rows
    n, d = rows.frame.shape
    return {
        "stream": opened.settings.name, "task": opened.task, "rows": n, "columns": d - 1,
        "order": opened.settings.order, "from": rows.source, "sha256": rows.sha256[:12],
        "changes": list(rows.change_rows), "fault": opened.settings.fault,
    }  # fmt: skip


def _shown(found: list[dict[str, float]], task: Task) -> str:
    mean = np.mean([of_seed[MAIN[task]] for of_seed in found])
    return f"{MAIN[task]} {mean:.4g}, {np.mean([s['us_per_row'] for s in found]):.3g} us per row"


def _published(suite: Suite, read: set[str]) -> list[tuple[Any, ...]]:
    lines: list[tuple[Any, ...]] = []
    for row in suite.published:
        if row.stream in read:
            task = "classification" if row.accuracy is not None else "regression"
            score = "error_rate" if row.accuracy is not None else "mae"
            value = row.mae if row.accuracy is None else 1.0 - row.accuracy
            lines.append((row.stream, task, row.learner, PUBLISHED, None, score, value))
    return lines


def save(results: Results, folder: Path) -> Path:
    """Write ``results.csv``, the table of all scores, and return its path."""
    path = folder / "results.csv"
    write_atomically(path, results.table.to_csv(index=False))
    return path
