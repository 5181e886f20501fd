"""The folder of a suite's results: what each learner said of each stream is kept, and found again.

    suite.json             the suite as it was read, versions, machine, streams, and its cells
    streams/NAME.parquet   its rows, which omkl-run reads as well
    cells/STREAM/LEARNER-KEY/result.json   one (stream, learner): scores, a list over its seeds
    cells/STREAM/LEARNER-KEY/curves.npz    its curves by seed: errors against rounds
    page/                  tables and pictures, made of the others

``result.json`` of a cell
    key, of          the key, and what it is the digest of: rows, settings, protocol, code
    stream, learner, kind, task, command
    status           "complete" | "diverged" | "too long" | "failed" | "missing", and ``reason``
    seeds            those that are finished; scores {name: [one a seed]}
    chosen           the parameters that the prefix chose, of a learner with a grid
    versions         of omkl and what it needs; that of a peer's library is in ``of``

A cell is written after each seed, so nothing that was computed is lost; another setting, other
rows or other code are another key, and the cell of before stays where it is.

``results_of`` reads a folder as tables: every score of every seed, errors streams x learners.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import io
import itertools
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from omkl.benchmark import learners, peers, streams
from omkl.benchmark.suite import PEER, PUBLISHED, REFERENCE, TASKS, Entry, Suite, checked
from omkl.report import stats
from omkl.runs import schema
from omkl.runs.provenance import sources_digest
from omkl.utils import conf, sources
from omkl.utils.disk import write_atomically

COMPLETE, DIVERGED, TOO_LONG, FAILED, MISSING = (
    "complete", "diverged", "too long", "failed", "missing",
)  # fmt: skip
KEY_DIGITS = 12
# What scores a pass, and what makes and runs peers.
OF_LEARNERS, OF_PEERS = ("scores.py", "learners.py"), ("scores.py", "peers.py")


class Damaged(ValueError):
    """A folder is no result of a suite, or a file in it is not as it was written."""


def identity(suite: Suite, entry: Entry, stream: Mapping[str, Any]) -> dict[str, Any]:
    """What the numbers of a cell depend on but for the seeds; ``stream`` is what is stated."""
    protocol = {"n_unscored": suite.n_unscored, "window": suite.window, "fading": suite.fading}
    identity: dict[str, Any] = {
        "version": suite.version,
        "rows": stream["sha256"],
        "task": stream["task"],
        "protocol": protocol,
        "entry": entry._asdict() | {"name": "", "tasks": []},
    }
    if entry.kind == PEER:
        library = peers.library_of(entry.what)
        identity["peers_see"] = suite.peers_see
        identity["seconds"] = suite.seconds
        identity["library"] = f"{library} {_version(library, entry.what)}"
    else:
        identity["prefix"] = suite.prefix if entry.grid else 0
        identity["defaults"] = _entry("algorithm", learners.algorithm_of(entry, stream["task"]))
        identity["kernels"] = _entry("kernels", entry.kernels)
    identity["code"] = _code(entry.kind == PEER)
    return identity


@functools.cache
def _entry(group: str, name: str) -> dict[str, Any]:
    """What a YAML file says, {} of a name that has none."""
    return conf.entry(group, name) if name in conf.names(group) else {}


def _version(library: str, peer: str) -> str:
    """The library's version; of a module of one's own the digest of its text."""
    if ":" in peer and (spec := importlib.util.find_spec(peer.partition(":")[0])) and spec.origin:
        return hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()
    try:
        return streams.version_of(library)
    except ImportError:
        return "unknown"


@functools.cache
def _code(peer: bool) -> str:
    """The digest of the sources that a cell's numbers come from, as they were imported."""
    digest = hashlib.sha256()
    names = OF_PEERS if peer else OF_LEARNERS
    sources.add_to(digest, [sources.PACKAGE / "benchmark" / name for name in names])
    if not peer:
        digest.update(sources_digest().encode())
    return digest.hexdigest()


def key_of(identity: Mapping[str, Any]) -> str:
    text = json.dumps(identity, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]


def folder_of(folder: Path, stream: str, entry: Entry, key: str) -> Path:
    return folder / "cells" / in_path(stream) / f"{in_path(entry.name)}-{key}"


def in_path(name: str) -> str:
    """A name as part of a path."""
    return re.sub(r"\W+", "-", name.lower()).strip("-")


def read(path: Path) -> dict[str, Any] | None:
    """What a file with a checksum says, None where there is none. Raises Damaged."""
    try:
        return schema.read_checksummed(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise Damaged(f"{path}: {error}") from None


def curves(cell: Path) -> dict[str, np.ndarray]:
    """Curves (R, P) by name and ``t`` (P,); nothing where no seed has finished."""
    try:
        with np.load(cell / "curves.npz") as archive:
            return dict(archive)
    except FileNotFoundError:
        return {}


def write(cell: Path, result: Mapping[str, Any], curves: Mapping[str, np.ndarray]) -> None:
    """Write a cell as it is now."""
    cell.mkdir(parents=True, exist_ok=True)
    if curves:
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **curves)  # type: ignore[arg-type]
        write_atomically(cell / "curves.npz", buffer.getvalue(), sync=False)
    write_atomically(cell / "result.json", schema.checksummed_text(result), sync=False)


def with_seed(result: Mapping[str, Any], seed: int, scores: Mapping[str, float]) -> dict[str, Any]:
    """A cell's result and one more seed."""
    lists = {name: [*result["scores"].get(name, []), value] for name, value in scores.items()}
    return {**result, "seeds": [*result["seeds"], seed], "scores": lists}


def with_curves(
    curves: Mapping[str, np.ndarray], new: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Curves and those of one more seed."""
    return {
        name: values if name == "t" else np.stack([*curves.get(name, []), values])
        for name, values in new.items()
    }


def write_index(folder: Path, index: Mapping[str, Any]) -> None:
    write_atomically(folder / "suite.json", schema.checksummed_text(index))


def read_index(folder: Path) -> dict[str, Any]:
    """What suite.json says. Raises Damaged where there is none, or it is not as written."""
    index = read(folder / "suite.json")
    if index is None:
        raise Damaged(f"{folder} has no suite.json: it is no folder of omkl-benchmark")
    return index


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
        return MISSING if cell is None else cell["status"] or MISSING


def results_of(folder: Path) -> Results:
    """The results in a folder. Raises ``cells.Damaged``."""
    index = read_index(folder)
    suite = checked(index["suite"])
    by_name: Cells = {}
    for named in index["cells"]:
        path = folder / named["folder"]
        result = read(path / "result.json")
        if result is None:
            raise Damaged(f"{path}: there is no result.json, which suite.json names")
        by_name[named["stream"], named["learner"]] = {**result, "folder": path}
    by_name = {key: cell | _beyond(cell, by_name) for key, cell in by_name.items()}
    return Results(suite, index, by_name, _long(suite, by_name))


def _beyond(cell: Mapping[str, Any], by_name: Cells) -> dict[str, str]:
    """How a cell has ended whose numbers are finite and beyond all bounds; else nothing."""
    of_mean = by_name.get((cell["stream"], "mean"), {}).get("scores", {}).get("mse", [0.0])[0]
    ratio = max(cell["scores"].get("mse", [0.0])) / of_mean if of_mean else 0.0
    if cell["status"] != COMPLETE or ratio <= BEYOND:
        return {}
    return {
        "status": DIVERGED,
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
        if cell["status"] in (DIVERGED, TOO_LONG, FAILED):
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
        if len(values) > 1 and cell["status"] == COMPLETE:
            spread.loc[stream, learner] = np.std(values, ddof=1)
    return spread


def starred(results: Results, means: pd.DataFrame, score: str) -> set[tuple[Any, Any]]:
    """Stream and learner of the lowest means, and of what does not differ from them by seeds.

    One of ours that gave a single number draws nothing, and has it on every seed; of a peer that is
    not known. Two seeds would tell next to nothing apart: the lowest is then alone.
    """
    best = set()
    for stream in means.index:
        rows = []
        for name in means.columns[np.isfinite(means.loc[stream])]:
            scores = results.cells[str(stream), str(name)]["scores"][score]
            rows.append({
                "learner": name,
                "scores": dict(enumerate(scores)),
                "draws": len(scores) > 1 or results.kind(str(name)) == PEER,
            })  # fmt: skip
        if max((len(row["scores"]) for row in rows), default=0) < 3:
            for row in rows:
                row |= {"scores": {0: np.mean([*row["scores"].values()])}, "draws": True}
        stats.compare(rows)
        best |= {(stream, row["learner"]) for row in rows if row["best"]}
    return best


def what_is_missing(results: Results) -> list[tuple[str, str, str, str]]:
    """Stream, learner, how it ended and why, of every cell without all its scores."""
    lines = [
        (name, "all", MISSING, stream["missing"])
        for name, stream in results.stated["streams"].items()
        if "missing" in stream
    ]
    for (stream, learner), cell in results.cells.items():
        if cell["status"] != COMPLETE:
            status = cell["status"] or MISSING
            lines.append((stream, learner, status, cell["reason"]))
    return lines
