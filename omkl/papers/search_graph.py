"""Search for the settings behind the SFG-MKL numbers of arXiv v1 that the text does not give.

    python -m omkl.papers.search_graph [--outputs outputs] [--seeds 2] [--quick]

Every point of a grid is run on all data sets of the paper's tables and ranked by its
distance from them: the mean of |ours / published - 1| over the cells (tables 1 to 4, SFG-MKL and
SFG-MKL-R, 4 data sets, M = 5):

    formula          integral over R^d (the text) or over one input
    out-neighbours   M with the node itself, or besides it
    rules            text (argmax of u after round 300) or node 0 after it

Writes search/arxiv_v1.csv under the outputs folder. Half a minute on two cores.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from omkl import algorithms
from omkl.algorithms import sfg
from omkl.core import hyperparameters
from omkl.core.feedback_graph import similarity_graph
from omkl.core.graph_sampling import edges_of
from omkl.core.kernel_distance import matrix_of, overlaps, ranks
from omkl.core.learner import Learner
from omkl.papers import searches
from omkl.papers.searches import Point
from omkl.papers.tables import published_numbers
from omkl.utils import conf

D = 50
NAMES = ("sfg_mkl", "sfg_mkl_r")
GRID = {
    "formula": ("integral", "integral, d = 1"),
    "out-neighbours": ("with itself", "besides itself"),
    "rules": ("text", "node 0"),
}


class Cell(NamedTuple):
    """A published MSE x 10^3."""

    algorithm: str
    dataset: str
    M: int
    value: float


def published() -> list[Cell]:
    return sorted(
        Cell(line["algorithm"], line["dataset"], int(line["M"]), float(line["value"]))
        for line in published_numbers()
        if (line["paper"], line["metric"]) == ("graph-aided-arxiv-v1", "mse_e3")
        and line["algorithm"] in NAMES
    )


def mse(cell: Cell, formula: str, count: str, rule: str, seed: int) -> float:
    """MSE x 10^3 of one seed of a cell's algorithm at a point of the grid."""
    X, y = searches.rows_of(cell.dataset)
    kernels = searches.kernels_of("rbf41")
    source: Any = overlaps(kernels, X.shape[1] if formula == "integral" else 1)
    out = similarity_graph(source, cell.M + (count == "besides itself"))
    edges, order = edges_of(out), matrix_of(ranks(source))
    name = cell.algorithm if rule == "text" else f"recovered/{cell.algorithm}"
    algorithm = algorithms.load(name)
    settings = conf.default_settings(name) | {"M": out.shape[1]}
    built = hyperparameters.build(algorithm.Params, settings, len(y), {"N": len(kernels), "D": D})

    def init(built: Any, kernels: Any, model: Any, *_: Any) -> Any:
        if hasattr(built, "rank"):
            return sfg.on_refined_graph(edges, order, built.rank, model)
        return sfg.on_graph(edges, model)

    learner = Learner(algorithm._replace(init=init), built, kernels, X.shape[1], D, seed)
    with np.errstate(all="ignore"):
        return float(1e3 * np.mean(np.square(learner.partial_fit(X, y).y_hat - y)))


def main() -> None:
    parser = searches.parser("search_graph", str(__doc__))
    parser.add_argument("--seeds", type=int, default=2, help="seeds of a cell (default: 2)")
    arguments = parser.parse_args()
    grid = [dict(zip(GRID, values, strict=True)) for values in itertools.product(*GRID.values())]
    seeds = range(arguments.seeds)

    def jobs_of(point: Point) -> list[tuple[Any, ...]]:
        return [(cell, *point.values(), seed) for cell in published() for seed in seeds]

    def line_of(point: Point, values: Sequence[float]) -> dict[str, Any]:
        return searches.line_of_cells(point, published(), values)

    lines = searches.rank(grid[: 2 if arguments.quick else None], jobs_of, mse, line_of)
    searches.write("arxiv_v1", lines, "search_graph", parser, arguments)


if __name__ == "__main__":
    main()
