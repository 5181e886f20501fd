"""The results of a folder as tables: every score of every seed, and errors streams x learners."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from omkl.benchmark import cells
from omkl.benchmark.suite import PEER, PUBLISHED, REFERENCE, TASKS, Suite, checked
from omkl.report import stats

Cells = dict[tuple[str, str], dict[str, Any]]
COLUMNS = ["stream", "learner", "kind", "seed", "score", "value"]
BEYOND = 1e6  # times the MSE of the running mean, what is finite has diverged as well
RELATIVE = ("mse", "mae", "error_rate")  # scores that are also told relative to the reference


class Results(NamedTuple):
    """A folder as it was read.

    table   a row a score of a seed, ``COLUMNS``; seed is <NA> of what others have published
    cells   result.json of each (stream, learner) and the folder that it is in
    stated  suite.json
    """

    suite: Suite
    stated: dict[str, Any]
    cells: Cells
    table: pd.DataFrame

    def streams(self, task: str) -> list[str]:
        """The names of its streams of a task, in the order of the suite, whether there or not."""
        return [s["name"] for s in self.suite.streams if self.suite.task_of(s) == task]

    def tasks(self) -> list[str]:
        return [task for task in TASKS if self.streams(task)]

    def learners(self, task: str) -> list[str]:
        return [entry.name for entry in self.suite.entries(task)]

    def kind(self, learner: str) -> str:
        return next(c["kind"] for (_, name), c in self.cells.items() if name == learner)

    def status(self, stream: str, learner: str) -> str:
        """How a cell ended; "missing" where its stream is not there."""
        cell = self.cells.get((stream, learner))
        return cells.MISSING if cell is None else cell["status"] or cells.MISSING


def read(folder: Path) -> Results:
    """The results in a folder. Raises ``cells.Damaged``."""
    index = cells.read_index(folder)
    suite = checked(index["suite"])
    by_name: Cells = {}
    for named in index["cells"]:
        path = folder / named["folder"]
        result = cells.read(path)
        if result is None:
            raise cells.Damaged(f"{path}: there is no result.json, which suite.json names")
        by_name[named["stream"], named["learner"]] = {**result, "folder": path}
    by_name = {key: cell | _beyond(cell, by_name) for key, cell in by_name.items()}
    return Results(suite, index, by_name, _long(suite, by_name))


def _beyond(cell: Mapping[str, Any], by_name: Cells) -> dict[str, str]:
    """How a cell has ended whose numbers are finite and beyond all bounds; else nothing."""
    of_mean = by_name.get((cell["stream"], "mean"), {}).get("scores", {}).get("mse", [0.0])[0]
    ratio = max(cell["scores"].get("mse", [0.0])) / of_mean if of_mean else 0.0
    if cell["status"] != cells.COMPLETE or ratio <= BEYOND:
        return {}
    return {
        "status": cells.DIVERGED,
        "reason": f"its mean squared error is {ratio:.1g} times that of the running mean",
    }


def _long(suite: Suite, by_name: Cells) -> pd.DataFrame:
    lines: list[tuple[Any, ...]] = []
    for (stream, learner), cell in by_name.items():
        for score, values in (cell["scores"] | _relative(cell, by_name)).items():
            for seed, value in zip(cell["seeds"], values, strict=True):
                lines.append((stream, learner, cell["kind"], seed, score, value))
    for row in suite.published:
        for score in row.keys() - {"stream", "learner", "source"}:
            lines.append((row["stream"], row["learner"], PUBLISHED, None, score, row[score]))
    return pd.DataFrame(lines, columns=COLUMNS).astype({"seed": "Int64", "value": float})


def _relative(cell: Mapping[str, Any], by_name: Cells) -> dict[str, list[float]]:
    """Scores over the reference's of the same stream: mse_to_ridge, .."""
    name = REFERENCE[cell["task"]]
    reference = by_name.get((cell["stream"], name), {}).get("scores", {})
    return {
        f"{score}_to_{name}": [value / reference[score][0] for value in cell["scores"][score]]
        for score in RELATIVE
        if score in cell["scores"] and reference.get(score, [0.0])[0] > 0.0
    }


def means(results: Results, task: str, score: str) -> pd.DataFrame:
    """A score, averaged over seeds: streams (rows) x learners (columns).

    NaN where there is no value because something is not there, or the learner has no such score;
    inf where it diverged, took too long or died. Streams without any value are left out.
    """
    streams, learners = results.streams(task), results.learners(task)
    values = pd.DataFrame(np.nan, index=streams, columns=learners)
    for (stream, learner), cell in results.cells.items():
        if stream not in streams:
            continue
        if cell["status"] in (cells.DIVERGED, cells.TOO_LONG, cells.FAILED):
            values.loc[stream, learner] = np.inf
        elif score in cell["scores"]:
            values.loc[stream, learner] = float(np.mean(cell["scores"][score]))
    values = values[np.isfinite(values).any(axis=1)]
    return values.loc[:, ~values.isna().all()]


def deviations(results: Results, means: pd.DataFrame, score: str) -> pd.DataFrame:
    """The sample standard deviations over the seeds, where there are ``means``; NaN of one seed."""
    spread = means * np.nan
    for stream, learner in itertools.product(means.index, means.columns):
        cell = results.cells.get((stream, learner), {})
        values = cell.get("scores", {}).get(score, [])
        if len(values) > 1 and cell["status"] == cells.COMPLETE:
            spread.loc[stream, learner] = np.std(values, ddof=1)
    return spread


def starred(results: Results, means: pd.DataFrame, score: str) -> set[tuple[Any, Any]]:
    """Stream and learner of the lowest means, and of what does not differ from them by seeds.

    One of ours that gave a single number draws nothing, and has it on every seed; of a peer that is
    not known. Two seeds would tell next to nothing apart: the lowest is then alone.
    """
    best_cells = set()
    for stream in means.index:
        learners = [name for name in means.columns if np.isfinite(means.loc[stream, name])]
        by_seed = [results.cells[str(stream), str(name)]["scores"][score] for name in learners]
        n_seeds = max(map(len, by_seed), default=0)
        if n_seeds:
            scores = np.full((n_seeds, len(by_seed)), np.nan)
            for k, (name, values) in enumerate(zip(learners, by_seed, strict=True)):
                alone = len(values) == 1 and results.kind(str(name)) != PEER
                scores[: n_seeds if alone else len(values), k] = values
            if n_seeds < 3:
                scores = np.nanmean(scores, axis=0, keepdims=True)
            best = stats.same_as_best(scores).starred
            best_cells |= {(stream, name) for name, it in zip(learners, best, strict=True) if it}
    return best_cells


def what_is_missing(results: Results) -> list[tuple[str, str, str, str]]:
    """Stream, learner, how it ended and why, of every cell without all its scores."""
    lines = [
        (name, "all", cells.MISSING, stream["missing"])
        for name, stream in results.stated["streams"].items()
        if "missing" in stream
    ]
    for (stream, learner), cell in results.cells.items():
        if cell["status"] != cells.COMPLETE:
            status = cell["status"] or cells.MISSING
            lines.append((stream, learner, status, cell["reason"]))
    return lines
