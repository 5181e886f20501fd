"""Search for the settings behind the published SFG and SFG-R numbers that the text does not give.

    python scripts/search_graph.py [--outputs outputs] [--seeds 2] [--final-seeds 20] [--quick]

Every point of a grid is run on all data sets of a paper's tables and ranked by its
distance from them: the mean of |ours / published - 1| over the cells. Two grids:

jmlr      tables 4 and 5 (OMKL-SFG, OMKL-SFG-R; 4 data sets, M = 1, 5, 10, 15, 20)
          formula   of the divergence: integral (over R^d, the text), released, normalised (the
                    integral over the root of own_i own_j) or sample (mean over differences of
                    the first 1,000 rows)
          reading   of algorithm 4: farthest, one_pass or nearest (``omkl.algorithms.sfg``)
          powers    bandwidths enter it as b^power, Gaussian and Laplacian; 1 for the last two
          rules     text; released (floors, shifted draw, node 0 after round 300 for SFG); or
                    unfloored (released without the floors; farthest alone)
arxiv_v1  tables 1 to 4 (SFG-MKL, SFG-MKL-R; 4 data sets, M = 5)
          formula   integral over R^d (the text) or over one input
          count     out-neighbours: M with the node itself, or besides it
          rules     text (argmax of u after round 300) or node 0 after it

Writes search/<grid>.csv and .md under the outputs folder. Two minutes on two cores.
"""

from __future__ import annotations

import argparse
import csv
import functools
import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from omkl import algorithms, conf
from omkl.algorithms import sfg, sfg_r
from omkl.algorithms.as_released import released_divergence
from omkl.checks import learners
from omkl.core import hyperparameters, kernels, sources
from omkl.core.divergence import Matrix, matrix_of, normalised, ranks, sampled
from omkl.core.graphs import graphs_by, similarity_graph
from omkl.core.kernels import Kernel
from omkl.core.learner import Learner
from omkl.core.node_sampler import edges_of
from omkl.core.overlaps import overlaps
from omkl.datasets import catalogue, open_stream
from omkl.reproduction import searches
from omkl.threads import default_threads, thread_pool, worker_processes

D = 50
POWERS = (1.0, 0.5, -0.5, -1.0)
PAIRS = tuple(itertools.product(POWERS, POWERS))
UNFLOORED = {"floor_q": 0.0, "floor_p": 0.0}


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


def published(paper: str, names: Iterable[str]) -> list[Cell]:
    """MSE x 10^3 of the algorithms in the tables where M is given."""
    path = sources.PACKAGE / "reproduction" / "published.csv"
    with path.open() as file:
        rows = [r for r in csv.DictReader(file) if r["paper"] == paper and r["metric"] == "mse_e3"]
    cells = {
        (r["algorithm"], r["dataset"], int(r["M"])): float(r["value"])
        for r in rows
        if r["algorithm"] in names
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


RULES = {
    "text": ("", {}),
    "released": ("as_released/", {}),
    "unfloored": ("as_released/", UNFLOORED),
}
Ms = (1, 5, 10, 15, 20)


def inputs_of(dataset: str) -> int:
    return rows_of(dataset)[0].shape[1]


Key = tuple[str, str, tuple[Kernel, ...], str]  # formula, reading, kernels, data set
Graphs = tuple[dict[int, np.ndarray], Matrix]


def jmlr(limit: int | None) -> Iterator[Point]:
    some = dictionary("rbf51_lap25")
    grid = [(f, "farthest", p, r) for f in ("integral", "released") for p in PAIRS for r in RULES]
    for reading in ("one_pass", "nearest"):
        grid += [("integral", reading, p, r) for p in PAIRS for r in ("text", "released")]
    for formula in ("normalised", "sample"):
        grid += [(formula, x, PAIRS[0], r) for x in sfg.READINGS for r in ("text", "released")]
    grid = grid[:limit]
    inputs = {cell.dataset: inputs_of(cell.dataset) for cell in published(*GRIDS["jmlr"][:2])}

    def key_of(formula: str, reading: str, powers: Any, dataset: str) -> Key:
        power = dict(zip(("gaussian", "laplacian"), powers, strict=True))
        changed = tuple(k._replace(bandwidth=k.bandwidth ** power[k.family]) for k in some)
        # The released formula does not know the number of inputs, a sample is of one stream.
        alike = [x for x in inputs if formula == "released" or inputs[x] == inputs[dataset]]
        return formula, reading, changed, dataset if formula == "sample" else alike[0]

    graphs = graphs_of_all({key_of(*line[:3], dataset) for line in grid for dataset in inputs})
    for formula, reading, powers, rule in grid:

        def run(algorithm: str, dataset: str, M: int, f=formula, x=reading, w=powers, r=rule):
            out, order = graphs[key_of(f, x, w, dataset)]
            prefix, more = RULES[r]
            return prefix + algorithm, more, out[M], order

        shown = {"formula": formula, "reading": reading}
        power = dict(zip(("gaussian", "laplacian"), powers, strict=True))
        yield Point(shown | power | {"rules": rule}, run)


def graphs_of_all(keys: Iterable[Key]) -> dict[Key, Graphs]:
    """What every key stands for, found in processes: one pass of algorithm 4 is Python alone."""
    slow_first = sorted(keys, key=lambda key: (key[1] != "one_pass", key))
    with worker_processes() as pool:
        return dict(zip(slow_first, pool.map(graphs_of, slow_first), strict=True))


def graphs_of(key: Key) -> Graphs:
    """The graph of every M, and the order of the divergences for the refinement."""
    formula, reading, some, dataset = key
    delta: Any = overlaps(some, inputs_of(dataset))
    order = ranks(delta)
    if formula == "released":
        delta = order = released_divergence(some)
    elif formula == "sample":
        delta = order = sampled(some, rows_of(dataset)[0][: sfg.SAMPLE])
    elif formula == "normalised":
        delta = order = normalised(delta)
    logs = formula in ("integral", "normalised")
    return graphs_by(reading, delta, Ms, logs), matrix_of(order)


def arxiv_v1(limit: int | None) -> Iterator[Point]:
    some = dictionary("rbf41")
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


GRIDS = {
    "jmlr": ("graph-aided-jmlr", ("sfg", "sfg_r"), "rbf51_lap25", jmlr),
    "arxiv_v1": ("graph-aided-arxiv-v1", ("sfg_mkl", "sfg_mkl_r"), "rbf41", arxiv_v1),
}


Job = tuple[str, Mapping[str, Any], np.ndarray, Matrix, tuple[Kernel, ...], str, int]  # of mse


def jobs_of(grid: str, point: Point, seeds: int) -> list[Job]:
    """A point's jobs, cell by cell and seed by seed."""
    paper, names, kernel_name, _ = GRIDS[grid]
    some = dictionary(kernel_name)
    return [
        (*point.run(cell.algorithm, cell.dataset, cell.M), some, cell.dataset, seed)
        for cell in published(paper, names)
        for seed in range(seeds)
    ]


class Measured:
    """What ``mse`` says of jobs; those that are the same to the bit are done once."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self.pool = pool
        self.found: dict[tuple[Any, ...], Future[float]] = {}

    def begin(self, job: Job) -> Future[float]:
        name, settings, out, order, some, dataset, seed = job
        refines = hasattr(algorithms.load(name).Params, "rank")
        graph = out.shape, out.tobytes(), order.values.tobytes() if refines else b""
        key = name, tuple(sorted(settings.items())), *graph, some, dataset, seed
        if key not in self.found:
            self.found[key] = self.pool.submit(mse, *job)
        return self.found[key]


def line_of(grid: str, point: Point, values: Sequence[float]) -> dict[str, Any]:
    """The line of one point: its settings, its distances, and MSE x 10^3 of every cell."""
    paper, names, _, _ = GRIDS[grid]
    cells = published(paper, names)
    ours = np.reshape(values, (len(cells), -1)).mean(axis=1)
    ratio = ours / np.array([cell.value for cell in cells])
    distance = np.where(np.isfinite(ratio), np.abs(ratio - 1.0), np.inf)
    line: dict[str, Any] = dict(point.settings)
    line["distance"] = float(distance.mean())
    for name in names:
        own = [x for x, cell in zip(distance, cells, strict=True) if cell.algorithm == name]
        line[f"distance {name}"] = float(np.mean(own))
    for cell, value in zip(cells, ours, strict=True):
        line[f"{cell.algorithm} {cell.dataset} M={cell.M}"] = float(value)
    return line


def search(
    grid: str, seeds: int, final_seeds: int, limit: int | None
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Every point, the nearest first; and the nearest again with more seeds."""
    found: list[tuple[float, int, dict[str, Any], Point]] = []
    points = list(GRIDS[grid][3](limit))
    with thread_pool(default_threads()) as pool:
        measured = Measured(pool)
        begun = [[measured.begin(job) for job in jobs_of(grid, p, seeds)] for p in points]
        for point, values in zip(points, begun, strict=True):
            line = line_of(grid, point, [value.result() for value in values])
            found.append((line["distance"], len(found), line, point))
            shown = list(line.items())[: 3 + len(point.settings)]
            print(", ".join(f"{k}={_text(v)}" for k, v in shown), flush=True)
        nearest = min(found, key=lambda entry: entry[:2])[3]
        again = [measured.begin(job) for job in jobs_of(grid, nearest, final_seeds)]
        final = line_of(grid, nearest, [value.result() for value in again])
    found.sort(key=lambda entry: entry[:2])
    return [line for _, _, line, _ in found], final


def _text(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.4g}" if value < 1e6 else "diverges"


def write(
    grid: str,
    lines: list[dict[str, Any]],
    final: dict[str, Any],
    seeds: int,
    final_seeds: int,
    folder: Path,
) -> None:
    paper, names, _, _ = GRIDS[grid]
    cells = published(paper, names)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{grid}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)
    keys = list(lines[0])[: -len(cells)]
    text = [f"# Search for the settings of {paper}: {len(lines)} points, {seeds} seeds", ""]
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
    (folder / f"{grid}.md").write_text("\n".join(text) + "\n")
    print(f"{folder / grid}.md, .csv")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--outputs", type=Path, default=Path("outputs"))
    parser.add_argument("--seeds", type=int, default=2, help="seeds a cell (default: 2)")
    parser.add_argument("--final-seeds", type=int, default=20, help="of the nearest (default: 20)")
    parser.add_argument("--quick", action="store_true", help="the first two points of each grid")
    arguments = parser.parse_args()
    for grid in GRIDS:
        start = time.perf_counter()
        limit = 2 if arguments.quick else None
        lines, final = search(grid, arguments.seeds, arguments.final_seeds, limit)
        print(f"{grid}: {len(lines)} points in {time.perf_counter() - start:.0f} s")
        folder = arguments.outputs / "search"
        write(grid, lines, final, arguments.seeds, arguments.final_seeds, folder)
    written = [arguments.outputs / "search" / f"{grid}.csv" for grid in GRIDS]
    searches.note(written, __file__, parser, arguments)


if __name__ == "__main__":
    main()
