"""What the experts of ``auto`` cost a row: the table ``COSTS`` of ``omkl.algorithms.auto_budget``.

    python scripts/benchmarks/auto_costs.py [SECONDS]

measures learners of many sizes, processor time of one thread, and fits the coefficients of
``counts``, none below 0, by least squares of relative errors. Rows FIRST to ROWS of a target that
is part steps and part waves, so that trees and many waves pay. With SECONDS no size is begun after
so many, in a drawn order.
"""

import sys
import time
from typing import Any

import numpy as np
from scipy.optimize import nnls

from omkl import algorithms
from omkl.algorithms import auto, auto_budget
from omkl.algorithms.auto_budget import Sizes
from omkl.algorithms.auto_experts import drawn, many_waves
from omkl.core.learner import Learner
from omkl.core.linalg import TILE_ROWS
from omkl.core.representations import mixture_of_experts, softmax_mixture
from omkl.core.representations.wide import MOST_BETWEEN

FIRST, ROWS, CHUNK = 1600, 5440, TILE_ROWS
INPUTS = (3, 12, 40)
CLASSES = (0, 1, 5)  # 0: numbers; 1: two classes


def stream(d: int, K: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(d)
    X = rng.standard_normal((ROWS, d))
    steps = (X[:, 0] > 0.3) * (X[:, 1] > -0.5) + 0.7 * (X[:, -1] > 0.2)
    y = steps + 0.6 * np.sin(2.0 * X[:, 0] + X[:, -1]) + 0.2 * rng.standard_normal(ROWS)
    if K == 0:
        return X, y
    edges = np.quantile(y, np.arange(1, max(K, 2)) / max(K, 2))
    codes = np.searchsorted(edges, y).astype(float)
    return X, codes if K > 1 else 2.0 * codes - 1.0


def learner(sizes: Sizes, d: int) -> Learner:
    """One of these sizes, whatever it costs."""
    name = "auto" if sizes.n_kept else "auto_classifier"
    algorithm = algorithms.load(name)
    params: Any = algorithm.Params()
    model: Any
    window = sizes.n_trees, sizes.n_rows
    if sizes.n_kept:
        waves = many_waves(d, 0, sizes.waves)
        made = drawn(sizes.groups, d, 0)
        model = mixture_of_experts.fresh_mixture(made, waves, *window, sizes.n_kept)
    elif sizes.K == 1:
        made = auto.classifiers(sizes.groups, d, 0)
        model = mixture_of_experts.fresh_logistic(made, *window)
    else:
        assert algorithm.of_classes is not None
        algorithm = algorithm.of_classes
        params = algorithm.Params(sizes.K)
        made = auto.classifiers(sizes.groups, d, 0)
        model = softmax_mixture.fresh_softmax(made, sizes.K, *window)
    return Learner(algorithm, params, (), d, 1, 0, model)


def microseconds(sizes: Sizes, d: int, X: np.ndarray, y: np.ndarray) -> float:
    """Of a row, what is rare spread over the rows between: trees that grow, waves that are solved.

    Of chunks of rows a quick one counts, since others use the machine as well.
    """
    one = learner(sizes, d)
    one.partial_fit(X[:FIRST], y[:FIRST])
    model, plain, growing, solving = one.state.model, [], [], []
    for start in range(FIRST, ROWS, CHUNK):
        before = _fits(model)
        if hasattr(model, "wide"):
            model.wide.patience[0] = 1  # as if it paid: every row is taken
        clock = time.process_time()
        one.partial_fit(X[start : start + CHUNK], y[start : start + CHUNK])
        took = 1e6 * (time.process_time() - clock)
        trees, waves = (after - n for after, n in zip(_fits(model), before, strict=True))
        if trees and not waves:
            growing.append(took / min(start + CHUNK, sizes.n_rows))
        elif waves and not trees:
            solving.append(took / MOST_BETWEEN)
        elif not trees:
            plain.append(took / CHUNK)
    # A window that is full is grown on once in a quarter of it.
    return float(np.quantile(plain, 0.2)) + 4.0 * min(growing) + min(solving, default=0.0)


def _fits(model: Any) -> tuple[int, int]:
    return int(model.trees.fits[0]), int(model.wide.fits[0]) if hasattr(model, "wide") else 0


def sizes_of(d: int, K: int) -> list[Sizes]:
    """Whole, with one kind as small as can be, with all kinds so, and with half of each."""
    whole = auto_budget.of_numbers(d) if K == 0 else auto_budget.of_classes(d, K)
    rest = tuple(group for group in whole.groups if not group.D)
    few = whole._replace(groups=rest), whole._replace(n_trees=whole.n_trees // 8)
    all_few = whole._replace(groups=rest, n_trees=whole.n_trees // 8)
    half = tuple(group._replace(D=group.D // 2) for group in whole.groups)
    halves = whole._replace(groups=half, n_trees=whole.n_trees // 2)
    if K:
        return [whole, *few, all_few, halves]
    small, smaller = (tuple((draw, D) for draw, _ in whole.waves) for D in (64, 8))
    return [
        whole, *few, whole._replace(n_kept=64), whole._replace(waves=smaller),
        all_few._replace(n_kept=64, waves=smaller), halves._replace(n_kept=504, waves=small),
        whole._replace(n_rows=4096),
    ]  # fmt: skip


def of_a_neighbour() -> float:
    """What hides in the scatter of the others: two learners that differ in it, chunk by chunk."""
    found = []
    for d in INPUTS[1:]:
        X, y = stream(d, 0)
        whole = auto_budget.of_numbers(d)
        both = [whole, whole._replace(n_kept=64)]
        learners, took = [learner(sizes, d) for sizes in both], np.zeros((2, 50))
        for one in learners:
            one.partial_fit(X[:FIRST], y[:FIRST])
        for n in range(50):
            rows = slice(FIRST + n * CHUNK, FIRST + (n + 1) * CHUNK)
            for k, one in enumerate(learners):
                clock = time.process_time()
                one.partial_fit(X[rows], y[rows])
                took[k, n] = 1e6 * (time.process_time() - clock) / CHUNK
        more = np.subtract(*np.quantile(took, 0.1, axis=1))
        many, few = (auto_budget.counts(sizes, d)["neighbour"] for sizes in both)
        found.append(more / (many - few))
    return float(np.mean(found))


def fitted(
    costs: list[dict[str, float]], took: np.ndarray, pinned: dict[str, float]
) -> dict[str, float]:
    names = list(dict.fromkeys(name for one in costs for name in one if name not in pinned))
    A = np.array([[one.get(name, 0.0) for name in names] for one in costs]) / took[:, None]
    known = sum(cost * np.array([one[name] for one in costs]) for name, cost in pinned.items())
    scale = np.maximum(A.max(axis=0), 1e-300)
    found = nnls(A / scale, 1.0 - known / took, maxiter=10_000)[0] / scale
    return pinned | dict(zip(names, found, strict=True))


def main() -> None:
    end = time.monotonic() + (float(sys.argv[1]) if len(sys.argv) > 1 else np.inf)
    asked = [(K, d, sizes) for K in CLASSES for d in INPUTS for sizes in sizes_of(d, K)]
    costs, took, whose = [], [], []
    for n in np.random.default_rng(0).permutation(len(asked)):
        K, d, sizes = asked[n]
        if time.monotonic() > end:
            break
        X, y = stream(d, K)
        took.append(microseconds(sizes, d, X, y))
        costs.append(auto_budget.counts(sizes, d))
        whose.append((K, d))
    found = fitted(costs, np.array(took), {"neighbour": of_a_neighbour()})
    for name, cost in found.items():
        print(f'    "{name}": {cost:.3g},')
    said = np.array([sum(found[k] * n for k, n in one.items()) for one in costs])
    ratio = said / np.array(took)
    print(f"{len(took)} sizes; foretold over measured, quantiles of 0, 5, 50, 95, 100 %:")
    print(np.round(np.quantile(ratio, [0.0, 0.05, 0.5, 0.95, 1.0]), 2))
    for K in CLASSES:
        chosen = [r for r, (k, _) in zip(ratio, whose, strict=True) if k == K]
        print(K, np.round(np.quantile(chosen, [0.0, 0.5, 1.0]), 2) if chosen else "")


if __name__ == "__main__":
    main()
