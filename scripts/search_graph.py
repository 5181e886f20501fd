"""Search for the settings behind the SFG-MKL numbers of arXiv v1 that the text does not give.

    python scripts/search_graph.py [--outputs outputs] [--seeds 2] [--final-seeds 20] [--quick]

Every point of a grid is run on all data sets of the paper's tables and ranked by its
distance from them: the mean of |ours / published - 1| over the cells (tables 1 to 4, SFG-MKL and
SFG-MKL-R, 4 data sets, M = 5):

    formula   integral over R^d (the text) or over one input
    count     out-neighbours: M with the node itself, or besides it
    rules     text (argmax of u after round 300) or node 0 after it

Writes search/arxiv_v1.csv and .md under the outputs folder. Half a minute on two cores.
"""

from __future__ import annotations

import argparse
import csv
import functools
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from omkl import algorithms, conf
from omkl.algorithms import sfg, sfg_r
from omkl.checks import learners
from omkl.core import hyperparameters, kernels, sources
from omkl.core.feedback_graph import similarity_graph
from omkl.core.graph_sampling import edges_of
from omkl.core.kernel_distance import Matrix, matrix_of, overlaps, ranks
from omkl.core.kernels import Kernel
from omkl.core.learner import Learner
from omkl.datasets import catalogue, open_stream
from omkl.papers import searches
from omkl.threads import default_threads, thread_pool

D = 50
GRID, PAPER, NAMES, KERNELS = (
    "arxiv_v1", "graph-aided-arxiv-v1", ("sfg_mkl", "sfg_mkl_r"), "rbf41",
)  # fmt: skip


class Cell(NamedTuple):
    algorithm: str
    dataset: str
    M: int
    value: float


class Point(NamedTuple):
    """One line of a grid: its settings, and how to run an algorithm of the paper with them.

    run(algorithm, dataset, M) -> (name of our algorithm, its settings, out (N, M'), an order of
    the divergences as ``divergence.ranked`` has it)
    """

    settings: dict[str, Any]
    run: Any


def published() -> list[Cell]:
    """MSE x 10^3 of the algorithms in the paper's tables."""
    path = sources.PACKAGE / "papers" / "published.csv"
    with path.open() as file:
        rows = [r for r in csv.DictReader(file) if r["paper"] == PAPER and r["metric"] == "mse_e3"]
    cells = {
        (r["algorithm"], r["dataset"], int(r["M"])): float(r["value"])
        for r in rows
        if r["algorithm"] in NAMES
    }
    return [Cell(*key, value) for key, value in sorted(cells.items())]


@functools.cache
def rows_of(dataset: str) -> tuple[np.ndarray, np.ndarray]:
    settings = {"limit": None, "scaling": "whole", "order": "file"}
    stream = open_stream(catalogue.entry(dataset), settings)
    blocks = list(stream.blocks(65536))
    return np.concatenate([b[0] for b in blocks]), np.concatenate([b[1] for b in blocks])


def dictionary(name: str) -> tuple[Kernel, ...]:
    return kernels.dictionary(conf.entry("kernels", name))


def mse(
    name: str,
    settings: Mapping[str, Any],
    out: np.ndarray,
    order: Matrix,
    some: tuple[Kernel, ...],
    dataset: str,
    seed: int,
) -> float:
    """MSE x 10^3 of one seed of an algorithm on a graph (N, M) that is given."""
    X, y = rows_of(dataset)
    algorithm = algorithms.load(name)
    given = learners.default_settings(name) | {"M": out.shape[1]} | dict(settings)
    built = hyperparameters.build(algorithm.Params, given, len(y), {"N": len(some), "D": D})

    edges = edges_of(out)

    def init(built: Any, some: Any, model: Any, *_: Any) -> Any:
        if hasattr(built, "rank"):
            return sfg_r.on_graph(edges, order, built.rank, model)
        return sfg.on_graph(edges, model)

    learner = Learner(algorithm._replace(init=init), built, some, X.shape[1], D, seed)
    with np.errstate(all="ignore"):
        return float(1e3 * np.mean(np.square(learner.partial_fit(X, y).y_hat - y)))


def inputs_of(dataset: str) -> int:
    return rows_of(dataset)[0].shape[1]


def points(limit: int | None) -> Iterator[Point]:
    """The grid, or its first points."""
    some = dictionary(KERNELS)
    grid = itertools.product(
        ("integral", "integral, d = 1"), ("with itself", "besides itself"), ("text", "node 0")
    )
    for formula, count, rule in itertools.islice(grid, limit):
        prefix = {"text": "", "node 0": "recovered/"}[rule]

        def run(algorithm: str, dataset: str, M: int, formula=formula, count=count, p=prefix):
            source: Any = overlaps(some, inputs_of(dataset) if formula == "integral" else 1)
            out = similarity_graph(source, M + (count == "besides itself"))
            return p + algorithm, {}, out, matrix_of(ranks(source))

        yield Point({"formula": formula, "out-neighbours": count, "rules": rule}, run)


Job = tuple[str, Mapping[str, Any], np.ndarray, Matrix, tuple[Kernel, ...], str, int]  # of mse


def jobs_of(point: Point, seeds: int) -> list[Job]:
    """A point's jobs, cell by cell and seed by seed."""
    some = dictionary(KERNELS)
    return [
        (*point.run(cell.algorithm, cell.dataset, cell.M), some, cell.dataset, seed)
        for cell in published()
        for seed in range(seeds)
    ]


def line_of(point: Point, values: Sequence[float]) -> dict[str, Any]:
    """The line of one point: its settings, its distances, and MSE x 10^3 of every cell."""
    cells = published()
    ours = np.reshape(values, (len(cells), -1)).mean(axis=1)
    ratio = ours / np.array([cell.value for cell in cells])
    distance = np.where(np.isfinite(ratio), np.abs(ratio - 1.0), np.inf)
    line: dict[str, Any] = dict(point.settings)
    line["distance"] = float(distance.mean())
    for name in NAMES:
        own = [x for x, cell in zip(distance, cells, strict=True) if cell.algorithm == name]
        line[f"distance {name}"] = float(np.mean(own))
    for cell, value in zip(cells, ours, strict=True):
        line[f"{cell.algorithm} {cell.dataset} M={cell.M}"] = float(value)
    return line


def search(
    seeds: int, final_seeds: int, limit: int | None
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Every point, the nearest first; and the nearest again with more seeds."""
    found: list[tuple[float, int, dict[str, Any], Point]] = []
    with thread_pool(default_threads()) as pool:

        def begin(point: Point, seeds: int) -> list[Any]:
            return [pool.submit(mse, *job) for job in jobs_of(point, seeds)]

        begun = [(point, begin(point, seeds)) for point in points(limit)]
        for point, values in begun:
            line = line_of(point, [value.result() for value in values])
            found.append((line["distance"], len(found), line, point))
            shown = list(line.items())[: 3 + len(point.settings)]
            print(", ".join(f"{k}={_text(v)}" for k, v in shown), flush=True)
        nearest = min(found, key=lambda entry: entry[:2])[3]
        final = line_of(nearest, [value.result() for value in begin(nearest, final_seeds)])
    found.sort(key=lambda entry: entry[:2])
    return [line for _, _, line, _ in found], final


def _text(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.4g}" if value < 1e6 else "diverges"


def write(
    lines: list[dict[str, Any]],
    final: dict[str, Any],
    seeds: int,
    final_seeds: int,
    folder: Path,
) -> None:
    cells = published()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{GRID}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)
    keys = list(lines[0])[: -len(cells)]
    text = [f"# Search for the settings of {PAPER}: {len(lines)} points, {seeds} seeds", ""]
    text += ["distance: mean of |ours / published - 1| over the cells.", ""]
    text += ["| " + " | ".join(["rank", *keys]) + " |", "|---" * (len(keys) + 1) + "|"]
    for rank, line in enumerate(lines, start=1):
        text.append("| " + " | ".join([str(rank), *(_text(line[k]) for k in keys)]) + " |")
    text += ["", f"## The nearest again, {final_seeds} seeds (MSE x 10^3)", ""]
    text += [", ".join(f"{k}: {_text(v)}" for k, v in final.items() if k in keys), ""]
    text += ["| cell | published | ours |", "|---|---|---|"]
    for cell in cells:
        key = f"{cell.algorithm} {cell.dataset} M={cell.M}"
        text.append(f"| {key} | {cell.value:.2f} | {final[key]:.2f} |")
    (folder / f"{GRID}.md").write_text("\n".join(text) + "\n")
    print(f"{folder / GRID}.md, .csv")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--outputs", type=Path, default=Path("outputs"))
    parser.add_argument("--seeds", type=int, default=2, help="seeds a cell (default: 2)")
    parser.add_argument("--final-seeds", type=int, default=20, help="of the nearest (default: 20)")
    parser.add_argument("--quick", action="store_true", help="the first two points of the grid")
    arguments = parser.parse_args()
    start = time.perf_counter()
    limit = 2 if arguments.quick else None
    lines, final = search(arguments.seeds, arguments.final_seeds, limit)
    print(f"{GRID}: {len(lines)} points in {time.perf_counter() - start:.0f} s")
    folder = arguments.outputs / "search"
    write(lines, final, arguments.seeds, arguments.final_seeds, folder)
    searches.note([folder / f"{GRID}.csv"], __file__, parser, arguments)


if __name__ == "__main__":
    main()
