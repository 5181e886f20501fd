"""Search for the settings behind the published federated numbers that the text does not give.

    python scripts/search_federated.py [--outputs outputs] [--seeds 1] [--all-cells] [--quick]

Every point of a grid is run on all cells of the MSE tables of Ghari and Shen, NeurIPS 2022,
whose data are there, and ranked by its distance from them: the mean of |ours / published - 1|.

eta       step size of theta, of all learners
eta_w     step size of the weights: of the clients (POF-MKL), of the server (the rivals)
          "eta": the same as eta
dealing   of naval and uji. iid: rows are dealt out at random, as the text says; consecutive: each
          client has rows that follow each other in the file
target    of uji: its longitude, as the text says, or its latitude
sites     of beijing_air, of which the text names none: the first four by name, or the last

PerFedAvg has neither step and is left out. So are the cells of uji with 100 features a kernel,
which take most of the time, unless --all-cells is given.
"""

from __future__ import annotations

import argparse
import csv
import functools
import itertools
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from omkl.config import settings
from omkl.config.compose import Composer
from omkl.experiment import federation
from omkl.papers import searches
from omkl.papers.tables import published_numbers
from omkl.threads import default_threads, thread_pool

ETAS = ("1/sqrt(T)", "0.0775", "2/sqrt(T)")
ETAS_W = ("1/sqrt(T)", "eta", "0.5", "1.0")
DEALINGS = ("iid", "consecutive")
TARGETS = ("LONGITUDE", "LATITUDE")
SITES = {"first": "4", "last": "-4"}  # dataset.prepare.rows_each.values
COMMON = ("kernels=rbf51", "stream.scaling=whole", "max_upload=1000")
LOCK = threading.Lock()
WEIGHTS = {"pof_mkl": "eta_k", "vm_kofl": "eta_w", "em_kofl": "eta_w"}


class Cell(NamedTuple):
    """A published MSE x 10^3."""

    algorithm: str
    dataset: str
    M: str
    D: str
    value: float

    @property
    def label(self) -> str:
        return f"{self.algorithm} {self.dataset} M={self.M}"


def published(all_cells: bool) -> list[Cell]:
    return [
        Cell(line["algorithm"], line["dataset"], line["M"], line["D"], float(line["value"]))
        for line in published_numbers()
        if line["paper"] == "federated-pof"
        and line["metric"] == "mse_e3"
        and line["algorithm"] != "perfedavg"
        and line["dataset"] != "wec"  # no copy of the data
        and not (
            not all_cells
            and line["dataset"] == "uji"
            and line["D"] == "100"
            and line["algorithm"] != "ofskl"
        )
    ]


class Point(NamedTuple):
    """Settings of the grid, explained above."""

    dealing: str
    target: str
    sites: str
    eta: str
    eta_w: str


class Data(NamedTuple):
    """The clients' streams of a point, as overrides."""

    naval: tuple[str, ...]
    uji: tuple[str, ...]
    beijing_air: tuple[str, ...]

    @classmethod
    def of(cls, dealing: str, target: str, sites: str) -> Data:
        dealt = f"federation={dealing}"
        coordinate = f"dataset.target={target}"
        chosen = f"dataset.prepare.rows_each.values={SITES[sites]}"
        return cls((dealt,), (dealt, coordinate), ("federation=by_site", chosen))


compositions = Composer()


@functools.lru_cache(maxsize=4)
def split_of(dataset: str, data: tuple[str, ...]) -> Any:
    line = ["algorithm=pof_mkl", f"dataset={dataset}", *data, *COMMON]
    return federation.prepare(settings.read(compositions.compose(line))).split


def mse(cell: Cell, data: tuple[str, ...], eta: str, eta_w: str | None, seed: int) -> float:
    """MSE x 10^3 of one seed; infinite where the steps are too large."""
    line = [f"algorithm={cell.algorithm}", f"dataset={cell.dataset}", *data]
    line += [*COMMON, f'algorithm.eta="{eta}"']
    if eta_w is not None:
        line.append(f'algorithm.{WEIGHTS[cell.algorithm]}="{eta_w}"')
    if cell.algorithm == "pof_mkl":
        line.append(f"algorithm.M={cell.M}")
    with LOCK:  # Hydra composes one at a time
        split = split_of(cell.dataset, data)
        job = federation.prepare(settings.read(compositions.compose(line)), split)
    with np.errstate(all="ignore"):
        trace = job.federation(seed).partial_fit(split.X, split.y)
        found = float(1e3 * np.mean(np.square(trace.y_hat - split.y)))
    return found if np.isfinite(found) else np.inf


def jobs_of(cells: list[Cell], point: Point, seeds: int) -> list[tuple[Any, ...]]:
    """A point's arguments of ``mse``, cell by cell and seed by seed."""
    data = Data.of(point.dealing, point.target, point.sites)
    return [
        (
            cell,
            getattr(data, cell.dataset),
            point.eta,
            (point.eta if point.eta_w == "eta" else point.eta_w)
            if cell.algorithm in WEIGHTS
            else None,
            seed,
        )
        for cell in cells
        for seed in range(seeds)
    ]


def line_of(cells: list[Cell], point: Point, values: Sequence[float]) -> dict[str, Any]:
    """The line of one point: its settings, its distances, and MSE x 10^3 of every cell."""
    ours = np.reshape(values, (len(cells), -1)).mean(axis=1)
    distance = np.abs(ours / np.array([c.value for c in cells]) - 1.0)
    line: dict[str, Any] = point._asdict()
    line["distance"] = float(distance.mean())
    for name in dict.fromkeys(c.algorithm for c in cells):
        own = [x for x, c in zip(distance, cells, strict=True) if c.algorithm == name]
        line[f"distance {name}"] = float(np.mean(own))
    for cell, value in zip(cells, ours, strict=True):
        line[cell.label] = float(value)
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--outputs", type=Path, default=Path("outputs"))
    parser.add_argument("--seeds", type=int, default=1, help="seeds a cell (default: 1)")
    parser.add_argument("--all-cells", action="store_true", help="uji's slow cells, too")
    parser.add_argument("--quick", action="store_true", help="the first two points")
    arguments = parser.parse_args()
    cells, start = published(arguments.all_cells), time.perf_counter()
    grid = itertools.product(DEALINGS, TARGETS, SITES, ETAS, ETAS_W)
    points = [Point(*point) for point in grid][: 2 if arguments.quick else None]
    lines = []
    with thread_pool(default_threads()) as pool:
        begun: dict[tuple[Any, ...], Future[float]] = {}
        jobs = [jobs_of(cells, point, arguments.seeds) for point in points]
        for job in itertools.chain(*jobs):  # all at once: no thread waits for the end of a point
            if job not in begun:
                begun[job] = pool.submit(mse, *job)
        for point, own in zip(points, jobs, strict=True):
            line = line_of(cells, point, [begun[job].result() for job in own])
            lines.append(line)
            text = ", ".join(f"{k} {100 * v:.1f} %" for k, v in line.items() if "distance" in k)
            print(f"{', '.join(point)}: {text}", flush=True)
    lines.sort(key=lambda line: line["distance"])
    path = arguments.outputs / "search" / "federated.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)
    searches.note([path], __file__, parser, arguments)
    print(f"{len(lines)} points in {time.perf_counter() - start:.0f} s: {path}")


if __name__ == "__main__":
    main()
