"""Search for the settings behind the published federated numbers that the text does not give.

    python -m omkl.papers.search_federated [--outputs outputs] [--seeds 1] [--all-cells] [--quick]

Every point of a grid is run on all cells of the MSE tables of Ghari and Shen, NeurIPS 2022,
whose data are there, and ranked by its distance from them: the mean of |ours / published - 1|.

dealing   of naval and uji. iid: rows are dealt out at random, as the text says; consecutive: each
          client has rows that follow each other in the file
target    of uji: its longitude, as the text says, or its latitude
sites     of beijing_air, of which the text names none: the first four by name, or the last
eta       step size of theta, of all learners
eta_w     step size of the weights: of the clients (POF-MKL), of the server (the rivals)
          "eta": the same as eta

PerFedAvg has neither step and is left out. So are the cells of uji with 100 features per kernel,
which take most of the time, unless --all-cells is given.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from omkl.config import settings
from omkl.config.compose import Composer
from omkl.experiment import federation
from omkl.papers import searches
from omkl.papers.searches import Point
from omkl.papers.tables import published_numbers

SITES = {"first": "4", "last": "-4"}  # dataset.prepare.rows_each.values
GRID = {
    "dealing": ("iid", "consecutive"),
    "target": ("LONGITUDE", "LATITUDE"),
    "sites": tuple(SITES),
    "eta": ("1/sqrt(T)", "0.0775", "2/sqrt(T)"),
    "eta_w": ("1/sqrt(T)", "eta", "0.5", "1.0"),
}
COMMON = ("kernels=rbf51", "stream.scaling=whole", "max_upload=1000")
WEIGHTS = {"pof_mkl": "eta_k", "vm_kofl": "eta_w", "em_kofl": "eta_w"}


class Cell(NamedTuple):
    """A published MSE x 10^3."""

    algorithm: str
    dataset: str
    M: str
    D: str
    value: float

    @property
    def is_slow(self) -> bool:
        return (self.dataset, self.D) == ("uji", "100") and self.algorithm != "ofskl"


def published(all_cells: bool) -> list[Cell]:
    lines = (
        Cell(line["algorithm"], line["dataset"], line["M"], line["D"], float(line["value"]))
        for line in published_numbers()
        if (line["paper"], line["metric"]) == ("federated-pof", "mse_e3")
        and line["algorithm"] != "perfedavg"
        and line["dataset"] != "wec"  # no copy of the data
    )
    return [cell for cell in lines if all_cells or not cell.is_slow]


def streams_of(point: Point) -> dict[str, tuple[str, ...]]:
    """The clients' streams of a point, as overrides by data set."""
    dealt = f"federation={point['dealing']}"
    sites = f"dataset.prepare.rows_each.values={SITES[point['sites']]}"
    return {
        "naval": (dealt,),
        "uji": (dealt, f"dataset.target={point['target']}"),
        "beijing_air": ("federation=by_site", sites),
    }


composer = Composer()
one_at_a_time = threading.Lock()  # Hydra composes so


@functools.lru_cache(maxsize=4)
def split_of(dataset: str, stream: tuple[str, ...]) -> Any:
    line = ["algorithm=pof_mkl", f"dataset={dataset}", *stream, *COMMON]
    return federation.prepare(settings.read(composer.compose(line))).split


def mse(cell: Cell, stream: tuple[str, ...], eta: str, eta_w: str | None, seed: int) -> float:
    """MSE x 10^3 of one seed; infinite where the steps are too large."""
    line = [f"algorithm={cell.algorithm}", f"dataset={cell.dataset}", *stream]
    line += [*COMMON, f'algorithm.eta="{eta}"']
    if eta_w is not None:
        line.append(f'algorithm.{WEIGHTS[cell.algorithm]}="{eta_w}"')
    if cell.algorithm == "pof_mkl":
        line.append(f"algorithm.M={cell.M}")
    with one_at_a_time:
        split = split_of(cell.dataset, stream)
        job = federation.prepare(settings.read(composer.compose(line)), split)
    with np.errstate(all="ignore"):
        trace = job.federation(seed).partial_fit(split.X, split.y)
        error = float(1e3 * np.mean(np.square(trace.y_hat - split.y)))
    return error if np.isfinite(error) else np.inf


def main() -> None:
    parser = searches.parser("search_federated", str(__doc__))
    parser.add_argument("--seeds", type=int, default=1, help="seeds of a cell (default: 1)")
    parser.add_argument("--all-cells", action="store_true", help="uji's slow cells, too")
    arguments = parser.parse_args()
    cells = published(arguments.all_cells)
    grid = [dict(zip(GRID, values, strict=True)) for values in itertools.product(*GRID.values())]

    def jobs_of(point: Point) -> list[tuple[Any, ...]]:
        streams, eta = streams_of(point), point["eta"]
        eta_w = eta if point["eta_w"] == "eta" else point["eta_w"]
        return [
            (cell, streams[cell.dataset], eta, eta_w if cell.algorithm in WEIGHTS else None, seed)
            for cell in cells
            for seed in range(arguments.seeds)
        ]

    def line_of(point: Point, values: Sequence[float]) -> dict[str, Any]:
        return searches.line_of_cells(point, cells, values)

    lines = searches.rank(grid[: 2 if arguments.quick else None], jobs_of, mse, line_of)
    searches.write("federated", lines, "search_federated", parser, arguments)


if __name__ == "__main__":
    main()
