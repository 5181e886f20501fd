"""Measure whole runs beside their learner alone, in processor time, on one thread.

A run also reads and scales the rows, learns three baselines, scores and writes predictions. Its
start is measured by a run of a few rows, and subtracted. The learner alone learns the same scaled
rows in blocks. Both are measured in turns, and each is the least of ``REPEATS``. A run of a file is
also compared with the time in which pyarrow reads the file.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from omkl.config.compose import Composer
from omkl.experiment import run
from omkl.experiment.federation import FederatedJob

INPUTS, FEW, REPEATS, BLOCK = 10, 200, 3, 16_384
SYNTHETIC = ["dataset=synthetic", f"dataset.inputs={INPUTS}"]
CLIENTS = ["federation=iid", "clients=20"]
CLASSES = "task=classification"
QUIET = ["seeds=1", "threads=1", "figures=false", "tracking=none", "force=true"]
# Settings of each kind, and its number of rows: fewer for slow learners.
KINDS: dict[str, tuple[list[str], int]] = {
    "regression, Raker": (["algorithm=raker", *SYNTHETIC], 20_000),
    "active, AMKL": (["algorithm=amkl", *SYNTHETIC], 20_000),
    "federated, POF-MKL": (["algorithm=pof_mkl", *CLIENTS, *SYNTHETIC], 20_000),
    "file of classes, auto_classifier": (["algorithm=auto_classifier", CLASSES], 5_000),
    "file, ridge": (["algorithm=ridge"], 1_000_000),
    "file, Raker": (["algorithm=raker"], 20_000),
    "file, OMKL-SFG-R": (["algorithm=sfg_r"], 50_000),
    "file, auto": (["algorithm=auto"], 5_000),
}
Row = dict[str, Any]


def measure(kinds: dict[str, tuple[list[str], int]] | None = None) -> list[Row]:
    """Return a row for each kind of run.

    run_us, learner_us   microseconds per row of the run and of its learner alone
    pyarrow_us           microseconds per row in which pyarrow reads the file; None without a file
    """
    with tempfile.TemporaryDirectory() as folder:
        given = KINDS if kinds is None else kinds
        return [_row(name, *kind, Path(folder)) for name, kind in given.items()]


def _row(name: str, chosen: list[str], n: int, folder: Path) -> Row:
    of_rows = [_settings(chosen, rows, folder) for rows in (n, FEW)]
    alone = _learner_alone(run.prepare(of_rows[0]))
    calls = [lambda: _run(of_rows[0]), lambda: _run(of_rows[1]), alone]
    if "path" in of_rows[0].dataset:
        from pyarrow import csv

        calls.append(lambda: csv.read_csv(of_rows[0].dataset["path"]))
    whole, start, learner, *pyarrow = (1e6 * s / n for s in _least(calls))
    us = {"run_us": whole - start, "learner_us": learner, "pyarrow_us": None}
    return {"kind": name, "rows": n, **us, **({"pyarrow_us": pyarrow[0]} if pyarrow else {})}


def _settings(chosen: list[str], n: int, folder: Path) -> Any:
    own = [f"dataset.rows={n}"]
    if "dataset=synthetic" not in chosen:
        classes = CLASSES in chosen
        own = ["dataset=file", f"dataset.path={_file(folder, n, classes)}", "dataset.target=y"]
    return Composer().compose([*own, *QUIET, f"outputs={folder / 'outputs'}", *chosen])


def _file(folder: Path, n: int, classes: bool) -> Path:
    """Write a CSV file of n rows, with a target of two classes or of numbers."""
    path = folder / f"{'classes' if classes else 'numbers'}-{n}.csv"
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, INPUTS))
    y = X @ rng.normal(size=INPUTS) + rng.normal(size=n)
    header = ",".join([*(f"x{k}" for k in range(INPUTS)), "y"])
    table = np.column_stack([X, np.where(y > 0.0, 1.0, 0.0) if classes else y])
    np.savetxt(path, table, fmt="%.6g", delimiter=",", header=header, comments="")
    return path


def _run(settings: Any) -> None:
    outcome = run.run(settings)
    if outcome.status != "complete":
        raise RuntimeError(outcome.run.result["error"]["message"])


def _learner_alone(job: Any) -> Callable[[], Any]:
    """Return a function in which a new core learner learns the rows of a job."""
    if isinstance(job, FederatedJob):
        return lambda: job.federation(job.seeds[0]).partial_fit(job.split.X, job.split.y)
    blocks = [(job.stream.softened(X), y) for X, y in job.stream.blocks(BLOCK)]

    def learn() -> None:
        learner = job.specification.learner(job.stream.n_inputs, job.seeds[0])
        for X, y in blocks:
            learner.partial_fit(X, y)

    return learn


def _least(calls: list[Callable[[], Any]]) -> Iterator[float]:
    """Yield the least processor seconds of each call, without the first turn, which compiles."""
    found: list[list[float]] = []
    for _ in range(REPEATS + 1):
        found.append([])
        for call in calls:
            start = time.process_time()
            call()
            found[-1].append(time.process_time() - start)
    return map(min, zip(*found[1:], strict=True))
