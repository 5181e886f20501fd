"""Search for the settings behind the numbers of Hong and Chae that their text does not give.

    python scripts/search_active.py [--outputs outputs] [--seeds 1] [--final-seeds 20] [--quick]

Every point of the grid is run on the five data sets of table III that are there and ranked by
its distance: the mean of |ours / published - 1| over the errors of Raker, AMKL, OMKL-AKS and
AMKL-AKS, and over the label efficiency of AMKL and AMKL-AKS (that of the others is 1 always).

step        of theta, times 1/sqrt(T): 1 (the text) or 50, what features without 1/sqrt(D) do
weights     step of the weights, times 1/sqrt(T): 1 (the text), 7 (their root) or 50
lam         regularisation (the text: 0.01)
frequencies independent (the text), or orthogonal in blocks of d
criterion   of AMKL-AKS: the maximum of (33) over all kernels (the text) or those of the subset
plant       target of naval_decay: scaled to [0, 1], or as in the file

Writes search/active.csv and .md under the outputs folder. Eight minutes on two cores.
"""

from __future__ import annotations

import argparse
import csv
import functools
import itertools
import math
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from search_graph import dictionary, rows_of

from omkl import algorithms, checks, params, searches
from omkl.datasets import catalogue, open_stream
from omkl.engine import Learner, draw_features
from omkl.features import RandomFeatures
from omkl.kernels import Kernel
from omkl.report.tables import published_numbers
from omkl.runner import default_threads

D = 50
DATASETS = ("twitter", "toms", "air_quality", "energy", "naval_decay")
LEARNERS = ("raker", "amkl", "omkl_aks", "amkl_aks")
TEXT = {
    "step": 1,
    "weights": 1,
    "lam": 1e-2,
    "frequencies": "independent",
    "criterion": "all",
    "plant": "scaled",
}


def grid() -> Iterator[dict[str, Any]]:
    """The text, the text with the other target, and everything around the large step."""
    yield TEXT
    yield TEXT | {"plant": "as in the file"}
    for weights, lam, frequencies, criterion in itertools.product(
        (1, 7, 50),
        (1e-2, 5e-3, 2e-3, 1e-3, 5e-4, 2e-4),
        ("independent", "orthogonal"),
        ("all", "subset"),
    ):
        yield {
            "step": 50,
            "weights": weights,
            "lam": lam,
            "frequencies": frequencies,
            "criterion": criterion,
            "plant": "as in the file",
        }


@functools.cache
def published() -> dict[tuple[str, str, str], float]:
    """(learner, data set, metric) -> number of table III; efficiencies of those that query."""
    return {
        (r["algorithm"], r["dataset"], r["metric"]): float(r["value"])
        for r in published_numbers()
        if (r["paper"], r["table"]) == ("active-mkl", "III")
        and r["dataset"] in DATASETS
        and (r["metric"] == "mse_e3" or r["algorithm"].startswith("amkl"))
    }


@functools.cache
def rows(dataset: str, plant: str) -> tuple[np.ndarray, np.ndarray]:
    X, y = rows_of(dataset)
    if dataset == "naval_decay" and plant != "scaled":
        settings = {"limit": None, "scaling": "none", "order": "file"}
        blocks = open_stream(catalogue.entry(dataset), settings).blocks(65536)
        y = np.concatenate([block[1] for block in blocks])
    return X, y


def orthogonal(some: tuple[Kernel, ...], d: int, seed: int) -> RandomFeatures:
    """Gaussian frequencies, orthogonal in blocks of d (Yu et al., NIPS 2016)."""
    rng = np.random.default_rng(seed)
    fresh = draw_features(some, d, D, seed)
    for omega, kernel in zip(fresh.omega, some, strict=True):
        blocks = [
            np.linalg.qr(rng.standard_normal((d, d)))[0] * np.sqrt(rng.chisquare(d, size=d))
            for _ in range(math.ceil(D / d))
        ]
        omega[:] = np.concatenate(blocks, axis=1)[:, :D] / math.sqrt(kernel.bandwidth)
    return fresh


@functools.cache
def measured(
    learner: str, dataset: str, plant: str, step: int, weights: int, lam: float, frequencies: str,
    criterion: str, seed: int,
) -> tuple[float, float]:  # fmt: skip
    """MSE x 10^3 and label efficiency of one seed."""
    name = learner
    if learner == "raker" or (learner == "amkl_aks" and criterion == "subset"):
        name = f"recovered/{learner}"
    some = dictionary("gaussian17")
    X, y = rows(dataset, plant)
    algorithm = algorithms.load(name)
    own = {"eta": f"{step}/sqrt(T)", "eta_g": f"{weights}/sqrt(T)", "lam": lam}
    given = checks.default_settings(name) | own
    built = params.build(algorithm.Params, given, len(y), {"N": len(some), "D": D})
    model = orthogonal(some, X.shape[1], seed) if frequencies == "orthogonal" else None
    with np.errstate(all="ignore"):
        trace = Learner(algorithm, built, some, X.shape[1], D, seed, model).partial_fit(X, y)
        return float(1e3 * np.mean(np.square(trace.y_hat - y))), float(trace.asked.mean())


def evaluate(point: dict[str, Any], seeds: int, pool: ThreadPoolExecutor) -> dict[str, Any]:
    """The line of one point: its settings, its distances, and the mean of every cell."""

    def one(job: tuple[str, str, int]) -> tuple[float, float]:
        learner, dataset, seed = job
        plant = point["plant"] if dataset == "naval_decay" else "scaled"
        criterion = point["criterion"] if learner == "amkl_aks" else "all"
        shared = (point["step"], point["weights"], point["lam"], point["frequencies"])
        return measured(learner, dataset, plant, *shared, criterion, seed)

    pairs = list(itertools.product(LEARNERS, DATASETS))
    jobs = [(learner, dataset, seed) for learner, dataset in pairs for seed in range(seeds)]
    values = np.array(list(pool.map(one, jobs))).reshape(len(pairs), seeds, 2).mean(axis=1)
    ours = {}
    for (learner, dataset), (error, share) in zip(pairs, values, strict=True):
        ours[learner, dataset, "mse_e3"] = float(error)
        ours[learner, dataset, "al_efficiency"] = float(share)
    away = {key: abs(ours[key] / value - 1.0) for key, value in published().items()}
    line: dict[str, Any] = {**point, "distance": float(np.mean(list(away.values())))}
    for learner in LEARNERS:
        own = [x for key, x in away.items() if key[0] == learner and key[2] == "mse_e3"]
        line[f"distance {learner}"] = float(np.mean(own))
    shares = [x for key, x in away.items() if key[2] == "al_efficiency"]
    line["distance AL_eff"] = float(np.mean(shares))
    return line | {" ".join(key): ours[key] for key in published()}


def write(lines: list[dict[str, Any]], final: dict[str, Any], seeds: int, folder: Path) -> None:
    """active.csv for the page, without the cells; active.md with those of the nearest."""
    folder.mkdir(parents=True, exist_ok=True)
    shown = [key for key in lines[0] if key in TEXT or key.startswith("distance")]
    with (folder / "active.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=shown, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(lines)
    text = [f"# Search for the settings of Hong and Chae: {len(lines)} points", ""]
    text += ["| " + " | ".join(["rank", *shown]) + " |", "|---" * (len(shown) + 1) + "|"]
    for rank, line in enumerate(lines, start=1):
        cells = (f"{v:.4g}" if isinstance(v, float) else str(v) for v in map(line.get, shown))
        text.append("| " + " | ".join([str(rank), *cells]) + " |")
    text += ["", f"## The nearest again, {seeds} seeds", "", "| cell | published | ours |"]
    text += ["|---|---|---|"]
    text += [
        f"| {' '.join(k)} | {v:g} | {final[' '.join(k)]:.3g} |" for k, v in published().items()
    ]
    (folder / "active.md").write_text("\n".join(text) + "\n")
    print(f"{folder / 'active'}.md, .csv")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--outputs", type=Path, default=Path("outputs"))
    parser.add_argument("--seeds", type=int, default=1, help="seeds a cell (default: 1)")
    parser.add_argument("--final-seeds", type=int, default=20, help="of the nearest (default: 20)")
    parser.add_argument("--quick", action="store_true", help="the first three points")
    arguments = parser.parse_args()
    start, lines = time.perf_counter(), []
    points = list(grid())[: 3 if arguments.quick else None]
    with ThreadPoolExecutor(default_threads()) as pool:
        for dataset, plant in itertools.product(DATASETS, ("scaled", "as in the file")):
            rows(dataset, plant)
        for point in points:
            lines.append(evaluate(point, arguments.seeds, pool))
            told = {k: v for k, v in lines[-1].items() if k in TEXT or k == "distance"}
            print(", ".join(f"{k}={v}" for k, v in told.items()), flush=True)
        lines.sort(key=lambda line: line["distance"])
        nearest = {key: lines[0][key] for key in TEXT}
        final = evaluate(nearest, arguments.final_seeds, pool)
    print(f"{len(lines)} points in {time.perf_counter() - start:.0f} s")
    folder = arguments.outputs / "search"
    write(lines, final, arguments.final_seeds, folder)
    searches.note([folder / "active.csv"], __file__, parser, arguments)


if __name__ == "__main__":
    main()
