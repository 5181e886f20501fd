"""Search for the settings behind the numbers of Hong and Chae that their text does not give.

    python -m omkl.papers.search_active [GRID ..] [--outputs outputs] [--seeds 1] [--quick]

There are two grids. ``features`` is for the learners on random features. Every point is run on
the five data sets of table III that are there and ranked by its distance: the mean of |ours /
published - 1| over the errors of Raker, AMKL, OMKL-AKS and AMKL-AKS, and over the label
efficiency of AMKL and AMKL-AKS (that of the others is 1 always).

step        of theta, times 1/sqrt(T): 1 (the text) or 50, what features without 1/sqrt(D) do
weights     step of the weights, times 1/sqrt(T): 1 (the text), 7 (their root) or 50
lam         regularisation (the text: 0.01)
frequencies independent (the text), or orthogonal in blocks of d
criterion   of AMKL-AKS: the maximum of (33) over all kernels (the text) or those of the subset
plant       target of naval_decay: as in the file (the text scales nothing), or scaled to [0, 1]

``exact`` is for the eight rows of table II with exact kernels, of which the text states neither
step nor penalty. They share one step and one penalty, and are ranked by the mean of |ours /
published - 1| over all their errors.

step        of the coefficients, a constant, over sqrt(T), or over sqrt(t)
lam         coefficients fade by 1 - step lam a round (Kivinen, Smola and Williamson); 0: they stay
plant       as above

Writes search/active.csv and active_exact.csv under the outputs folder. Two minutes on two cores.
"""

from __future__ import annotations

import functools
import itertools
import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from omkl import algorithms
from omkl.core import hyperparameters
from omkl.core.hyperparameters import parse_schedule
from omkl.core.kernels import FAMILIES, Kernel
from omkl.core.learner import Learner
from omkl.core.representations.random_features import RandomFeatures, draw_features
from omkl.papers import searches
from omkl.papers.searches import Point, kernels_of, mean_distance
from omkl.papers.tables import published_numbers
from omkl.utils import conf
from omkl.utils.threads import worker_processes

D = 50
DATASETS = ("twitter", "toms", "air_quality", "energy", "naval_decay")
LEARNERS = ("raker", "amkl", "omkl_aks", "amkl_aks")
TEXT = {
    "step": 1,
    "weights": 1,
    "lam": 1e-2,
    "frequencies": "independent",
    "criterion": "all",
    "plant": "as in the file",
}


def grid() -> Iterator[dict[str, Any]]:
    """The text, the text with the other target, and everything around the large step."""
    yield TEXT
    yield TEXT | {"plant": "scaled"}
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


def rows(dataset: str, plant: str) -> tuple[np.ndarray, np.ndarray]:
    X, y = searches.rows_of(dataset)
    if dataset == "naval_decay" and plant != "scaled":
        y = searches.rows_of(dataset, scaling="none")[1]
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


def measured(
    learner: str, dataset: str, plant: str, step: int, weights: int, lam: float, frequencies: str,
    criterion: str, seed: int,
) -> tuple[float, float]:  # fmt: skip
    """MSE x 10^3 and label efficiency of one seed."""
    name = learner
    if learner == "raker" or (learner == "amkl_aks" and criterion == "subset"):
        name = f"recovered/{learner}"
    some = kernels_of("gaussian17")
    X, y = rows(dataset, plant)
    algorithm = algorithms.load(name)
    changes = {"eta": f"{step}/sqrt(T)", "eta_g": f"{weights}/sqrt(T)", "lam": lam}
    settings = conf.default_settings(name) | changes
    built = hyperparameters.build(algorithm.Params, settings, len(y), {"N": len(some), "D": D})
    model = orthogonal(some, X.shape[1], seed) if frequencies == "orthogonal" else None
    with np.errstate(all="ignore"):
        trace = Learner(algorithm, built, some, X.shape[1], D, seed, model).partial_fit(X, y)
        return float(1e3 * np.mean(np.square(trace.y_hat - y))), float(trace.asked.mean())


Job = tuple[str, str, str, int, int, float, str, str, int]  # arguments of measured


def jobs_of(point: Point, seeds: int) -> list[Job]:
    """A point's jobs, cell by cell and seed by seed; the same where it says nothing to a cell."""
    jobs: list[Job] = []
    shared = (point["step"], point["weights"], point["lam"], point["frequencies"])
    for learner, dataset in itertools.product(LEARNERS, DATASETS):
        plant = point["plant"] if dataset == "naval_decay" else "scaled"
        criterion = point["criterion"] if learner == "amkl_aks" else "all"
        jobs += [(learner, dataset, plant, *shared, criterion, seed) for seed in range(seeds)]
    return jobs


def line_of(point: Point, results: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """The line of one point: its settings and its distances."""
    pairs = list(itertools.product(LEARNERS, DATASETS))
    values = np.array(results).reshape(len(pairs), -1, 2).mean(axis=1)
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
    return line


# --- exact kernels ---------------------------------------------------------------------------

BUDGET = 50  # rows that OMKL-B holds
BETA = 0.5  # discount of the weights of OMKL and OMKL-B, as in conf/algorithm
STEPS = (
    *("0.01", "0.03", "0.1", "0.3", "1"),
    *("0.1/sqrt(T)", "1/sqrt(T)", "3/sqrt(T)", "10/sqrt(T)"),
    *("0.1/sqrt(t)", "0.3/sqrt(t)", "1/sqrt(t)"),
)
PENALTIES = (0.0, 1e-2, 0.1, 0.5)
SINGLE = {  # row of table II: its kernel
    "kl_rbf(0.1)": Kernel("gaussian", 0.1),
    "kl_rbf(1)": Kernel("gaussian", 1.0),
    "kl_rbf(10)": Kernel("gaussian", 10.0),
    "linear": Kernel("polynomial", 1.0),
    "poly2": Kernel("polynomial", 2.0),
    "poly3": Kernel("polynomial", 3.0),
}
EXACT = (*SINGLE, "omkl", "omkl_b")
NOTHING = 1e-100  # coefficients below it are dropped: numbers below 1e-308 are slow
BLOCK = 128  # rows whose kernels with all earlier ones are computed together


def grams(some: Sequence[Kernel], A: np.ndarray, B: np.ndarray, room: np.ndarray) -> np.ndarray:
    """All kernels' matrices of A (m, d) and B (n, d), a part (K, m, n) of ``room``."""
    matrices = room[:, : len(A), : len(B)]
    gaussian = FAMILIES["gaussian"]
    squares = gaussian.distances(A, B)  # once for all bandwidths
    for matrix, kernel in zip(matrices, some, strict=True):
        if kernel.family == gaussian.name:
            gaussian.of_distance(squares, kernel.bandwidth, out=matrix)
        else:
            matrix[:] = kernel.gram(A, B)
    return matrices


def exact_errors(
    X: np.ndarray, y: np.ndarray, some: tuple[Kernel, ...], settings: list[tuple[str, float]]
) -> dict[str, np.ndarray]:
    """MSE of the eight rows at S pairs of step and penalty, each row (S,).

    X (T, d), y (T,); ``some`` are the kernels of OMKL and OMKL-B. All pairs learn at once: a
    kernel value is computed one time for all of them.
    """
    every = tuple(dict.fromkeys((*SINGLE.values(), *some)))
    single = {row: every.index(kernel) for row, kernel in SINGLE.items()}
    several = [every.index(kernel) for kernel in some]
    K, N, T, S = len(every), len(some), len(y), len(settings)
    schedules = [parse_schedule(step, T) for step, _ in settings]
    scale, power = np.array(schedules).T
    lam = np.array([penalty for _, penalty in settings])
    alpha, held = np.zeros((K, T, S)), np.zeros((N, T, S))  # of all rows; of OMKL-B's
    log_w, log_w_held = np.zeros((N, S)), np.zeros((N, S))
    total = {row: np.zeros(S) for row in EXACT}
    room = np.empty((K, BLOCK, T))
    for start in range(0, T, BLOCK):
        stop = min(T, start + BLOCK)
        gram = grams(every, X[start:stop], X[:stop], room)
        f_of_past = gram[:, :, :start] @ alpha[:, :start]
        faded = np.ones(S)  # of the coefficients before the block, by now
        for t in range(start, stop):
            eta = scale * (t + 1.0) ** power
            now = gram[:, t - start]
            f = faded * f_of_past[:, t - start]
            f += np.matmul(now[:, None, start:t], alpha[:, start:t])[:, 0]
            kept = slice(max(0, t - BUDGET), t)
            f_held = np.matmul(now[several][:, None, kept], held[:, kept])[:, 0]
            for row, k in single.items():
                total[row] += (f[k] - y[t]) ** 2
            for row, outputs, weights in (
                ("omkl", f[several], log_w),
                ("omkl_b", f_held, log_w_held),
            ):
                w = np.exp(weights - weights.max(axis=0))
                total[row] += ((w * outputs).sum(axis=0) / w.sum(axis=0) - y[t]) ** 2
                weights += math.log(BETA) * (outputs - y[t]) ** 2
            fade = 1.0 - eta * lam
            faded *= fade
            alpha[:, start:t] *= fade
            held[:, kept] *= fade
            alpha[:, t] = -eta * (f - y[t])
            held[:, t] = -eta * (f_held - y[t])
        alpha[:, :start] *= faded
        for own in alpha[:, :stop]:
            own[np.abs(own) < NOTHING] = 0.0
    return {row: errors / T for row, errors in total.items()}


def errors_on(
    some: tuple[Kernel, ...], settings: list[tuple[str, float]], stream: tuple[str, str]
) -> dict[str, np.ndarray]:
    """``exact_errors`` on a data set and its target."""
    start = time.perf_counter()
    with np.errstate(all="ignore"):  # steps that diverge have an infinite distance
        errors = exact_errors(*rows(*stream), some, settings)
    print(f"exact kernels on {stream[0]}: {time.perf_counter() - start:.0f} s", flush=True)
    return errors


def exact_lines(few: bool) -> list[dict[str, Any]]:
    """A line a point of the exact grid, nearest first."""
    wanted = {
        (r["algorithm"], r["dataset"]): float(r["value"])
        for r in published_numbers()
        if (r["paper"], r["table"], r["metric"]) == ("active-mkl", "II", "mse_e3")
        and r["algorithm"] in EXACT
        and r["dataset"] in DATASETS
    }
    settings = list(itertools.product(STEPS, PENALTIES))[: 3 if few else None]
    streams = [(dataset, "scaled") for dataset in DATASETS] + [("naval_decay", "as in the file")]
    streams.sort(key=lambda stream: -len(rows(*stream)[1]))  # the longest first
    with worker_processes() as pool:
        fit = functools.partial(errors_on, kernels_of("gaussian17"), settings)
        measured = dict(zip(streams, pool.map(fit, streams), strict=True))
    lines = []
    for plant, (s, (step, lam)) in itertools.product(
        ("scaled", "as in the file"), enumerate(settings)
    ):
        away = {}
        for (row, dataset), value in wanted.items():
            errors = measured[dataset, plant if dataset == "naval_decay" else "scaled"]
            away[row, dataset] = abs(1e3 * float(errors[row][s]) / value - 1.0)
        line: dict[str, Any] = {"step": step, "lam": lam, "plant": plant}
        line["distance"] = mean_distance(away.values())
        for row in EXACT:
            line[f"distance {row}"] = mean_distance(x for key, x in away.items() if key[0] == row)
        lines.append(line)
    return sorted(lines, key=lambda line: line["distance"])


def main() -> None:
    parser = searches.parser("search_active", str(__doc__))
    grids = ("features", "exact")
    parser.add_argument("grids", nargs="*", metavar="GRID", help=f"default: {', '.join(grids)}")
    parser.add_argument("--seeds", type=int, default=1, help="seeds of a cell (default: 1)")
    arguments = parser.parse_args()
    for name in arguments.grids:
        if name not in grids:
            parser.error(f"there is no grid {name}; there are: {', '.join(grids)}")
    if "exact" in (arguments.grids or grids):
        lines = exact_lines(arguments.quick)
        searches.write("active_exact", lines, "search_active", parser, arguments)
    if "features" in (arguments.grids or grids):
        points = list(grid())[: 3 if arguments.quick else None]
        lines = searches.rank(points, lambda p: jobs_of(p, arguments.seeds), measured, line_of)
        searches.write("active", lines, "search_active", parser, arguments)


if __name__ == "__main__":
    main()
