"""Searches for the settings behind published numbers: ranking a grid, and notes of what made it.

``search_graph``, ``search_active`` and ``search_federated`` are commands: each runs every point of
a grid, ranks the points by ``rank``, and ``write`` writes OUTPUTS/search/<grid>.csv and beside it a
note <grid>.json:

    script     the module, search_graph
    options    {option: value} of the command line, where they are not the default
    code       twelve hex digits naming the code, see ``code_stamp``
    commit     as in ``omkl.runs.run_folder``
    sha256     of the CSV file, so that a note is never taken for another file's
    written    ISO time, UTC

``outdated`` says which have to be run for OUTPUTS/search to be of the present code.
"""

from __future__ import annotations

import argparse
import csv
import functools
import hashlib
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from omkl.core.kernels import Kernel, dictionary
from omkl.datasets import catalogue, open_stream
from omkl.papers import FOLDER
from omkl.runs import provenance
from omkl.utils import conf
from omkl.utils.disk import write_atomically
from omkl.utils.threads import default_threads, thread_pool

MODULES = ("search_graph", "search_active", "search_federated")
_ELSEWHERE = ("outputs",)  # options that say where and not what
_NOT_SEARCHED = ("benchmark", "debug")  # of conf: what is done with runs, not what they are

Point = Mapping[str, Any]
Value = TypeVar("Value")


@functools.cache
def code_stamp() -> str:
    """Twelve hex digits naming the code that a search depends on.

    What can change a number of a run, the files of conf that a run can be made of, the published
    numbers and the searches.
    """
    digest = hashlib.sha256(provenance.numbers_stamp({}, {}).encode())
    files = conf.files(without=_NOT_SEARCHED)
    files += [FOLDER / "published.csv", *FOLDER.glob("search*.py")]
    for path in sorted(files):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:12]


# --- a search ------------------------------------------------------------------------------------


@functools.cache
def kernels_of(name: str) -> tuple[Kernel, ...]:
    return dictionary(conf.entry("kernels", name))


@functools.cache
def rows_of(dataset: str, scaling: str = "whole") -> tuple[np.ndarray, np.ndarray]:
    """X (T, d) and y (T,) in the order of the file."""
    settings = {"limit": None, "scaling": scaling, "order": "file"}
    blocks = list(open_stream(catalogue.entry(dataset), settings).blocks(65536))
    return np.concatenate([b[0] for b in blocks]), np.concatenate([b[1] for b in blocks])


def rank(
    points: Iterable[Point],
    jobs_of: Callable[[Point], Sequence[tuple[Hashable, ...]]],
    measure: Callable[..., Value],
    line_of: Callable[[Point, list[Value]], dict[str, Any]],
) -> list[dict[str, Any]]:
    """A line for each point, the nearest to the published numbers first.

    Parameters
    ----------
    points
        Settings of the grid.
    jobs_of
        A point's arguments of ``measure``; jobs that points share are done once.
    measure
        Runs a job, in a thread.
    line_of
        Makes a line of a point and the results of its jobs; it has a ``distance``.
    """
    start, lines = time.perf_counter(), []
    with thread_pool(default_threads()) as pool:
        submitted: dict[tuple[Hashable, ...], Future[Value]] = {}
        grid = [(point, jobs_of(point)) for point in points]
        for job in (job for _, jobs in grid for job in jobs):
            if job not in submitted:  # all at once: no thread waits for the end of a point
                submitted[job] = pool.submit(measure, *job)
        for point, jobs in grid:
            lines.append(line_of(point, [submitted[job].result() for job in jobs]))
            settings = ", ".join(f"{name}={value}" for name, value in point.items())
            print(f"{settings}: distance {lines[-1]['distance']:.4g}", flush=True)
    print(f"{len(lines)} points in {time.perf_counter() - start:.0f} s")
    return sorted(lines, key=lambda line: line["distance"])


def line_of_cells(point: Point, cells: Sequence[Any], values: Sequence[float]) -> dict[str, Any]:
    """A line of ``rank``: a point's settings, its distances, and MSE x 10^3 of every cell.

    Parameters
    ----------
    point
        Settings of the grid.
    cells
        Published numbers, with ``algorithm``, ``dataset``, ``M`` and ``value``.
    values
        Ours: of the first cell with every seed, then of the second. A distance is infinite where
        a setting has diverged.
    """
    ours = np.reshape(values, (len(cells), -1)).mean(axis=1)
    ratio = ours / np.array([cell.value for cell in cells])
    distance = np.where(np.isfinite(ratio), np.abs(ratio - 1.0), np.inf)
    line: dict[str, Any] = {**point, "distance": float(distance.mean())}
    for name in dict.fromkeys(cell.algorithm for cell in cells):
        own = [x for x, cell in zip(distance, cells, strict=True) if cell.algorithm == name]
        line[f"distance {name}"] = float(np.mean(own))
    for cell, value in zip(cells, ours, strict=True):
        line[f"{cell.algorithm} {cell.dataset} M={cell.M}"] = float(value)
    return line


def mean_distance(distances: Iterable[float]) -> float:
    """inf where a setting has diverged."""
    mean = float(np.mean(list(distances)))
    return mean if math.isfinite(mean) else math.inf


def parser(module: str, description: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog=f"python -m omkl.papers.{module}", description=description.split("\n", 1)[0]
    )
    made.add_argument("--outputs", type=Path, default=Path("outputs"))
    made.add_argument("--quick", action="store_true", help="the first points of the grid")
    return made


def write(
    grid: str,
    lines: Sequence[Mapping[str, Any]],
    module: str,
    parser: argparse.ArgumentParser,
    arguments: argparse.Namespace,
) -> None:
    """Write the CSV file of a grid, and the note of what made it; ``parser`` read ``arguments``."""
    path = arguments.outputs / "search" / f"{grid}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)
    note(path, module, parser, arguments)
    print(path)


# --- notes ---------------------------------------------------------------------------------------


def note(
    path: Path, module: str, parser: argparse.ArgumentParser, arguments: argparse.Namespace
) -> None:
    """Write down by what a CSV file was made, when a search has finished."""
    defaults = vars(parser.parse_args([]))
    options = {k: v for k, v in vars(arguments).items() if k not in _ELSEWHERE and v != defaults[k]}
    content = {
        "script": module,
        "options": options,
        "code": code_stamp(),
        "commit": provenance.commit(),
        "sha256": _digest(path),
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    write_atomically(path.with_suffix(".json"), json.dumps(content, indent=2) + "\n")


def read_note(table: Path) -> dict[str, Any] | None:
    """The note of a CSV file; None where there is none, or the file is not the one it is of."""
    try:
        content = json.loads(table.with_suffix(".json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if content.get("sha256") == _digest(table) else None


def command_of(content: Mapping[str, Any]) -> str:
    """The command line that a note is of."""
    script = content["script"]
    if script.endswith(".py"):  # until the searches were modules of the package
        words = ["python", f"scripts/{script}"]
    else:
        words = ["python", "-m", f"omkl.papers.{script}"]
    for name, value in content["options"].items():
        values = value if isinstance(value, list) else [value]
        option = [] if isinstance(value, list) else ["--" + name.replace("_", "-")]
        words += option if value is True else [*option, *map(str, values)]
    return " ".join(words)


def outdated(folder: Path) -> dict[str, str]:
    """The searches whose tables in ``folder`` are not those of this code, and why."""
    notes: dict[str, list[tuple[Path, dict[str, Any]]]] = {}
    for path in sorted(folder.glob("*.csv")):
        if content := read_note(path):
            notes.setdefault(content["script"], []).append((path, content))
    reasons = {}
    for module in MODULES:
        if module not in notes:
            reasons[module] = "there is no table that it is known to have written"
        for path, content in notes.get(module, []):
            if content["code"] != code_stamp():
                reasons[module] = f"{path.name} was made by other code"
            elif content["options"]:
                reasons[module] = f"{path.name} was made by {command_of(content)}"
    return reasons


def bring_up_to_date(outputs: Path) -> int:
    """Run the searches whose tables are not those of this code; 1 if one of them failed."""
    failed = 0
    for module, reason in outdated(outputs / "search").items():
        print(f"\n{module}: {reason}", flush=True)
        words = [sys.executable, "-m", f"omkl.papers.{module}", "--outputs", str(outputs)]
        code = subprocess.run(words).returncode
        if code:
            print(f"{module} ended with exit code {code}", file=sys.stderr)
            failed = 1
    return failed


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# Both are kept from now on: what is edited while a search goes on is not what searches.
code_stamp()
provenance.commit()
