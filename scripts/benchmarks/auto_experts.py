"""Print what each group of experts of ``auto`` contributes.

    python scripts/benchmarks/auto_experts.py [ROWS]

The script leaves out one group at a time and divides the mean squared error by that of the whole
learner. Above 1 the group reduces the error. Every learner has the linear expert, neighbours and
many waves. ``small`` and ``medium`` are the sizes of
``omkl.algorithms.auto_sizes``, with the processor time of a row relative to ``full``. Data sets
that are not found are left out, and a line names them.
"""

import sys
import time
from collections.abc import Iterator

import numpy as np

import omkl
from omkl import algorithms
from omkl.algorithms.auto import Auto
from omkl.algorithms.auto_experts import drawn, many_waves
from omkl.algorithms.auto_sizes import FULL, MEDIUM, SMALL, Sizes, regression_sizes
from omkl.core.learner import Learner
from omkl.core.representations.mixture_of_experts import fresh_mixture

ROWS = 5000
STREAMS = ("airfoil", "concrete", "naval", "energy", "bias", "air_quality")


def stream(name: str, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    X, y = omkl.datasets.load(name)
    X, y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
    has_target = np.isfinite(y)
    return X[has_target][:n_rows], y[has_target][:n_rows]


def learner(sizes: Sizes, d: int) -> Learner:
    """Make a learner of these experts, with the seed 0."""
    model = fresh_mixture(
        drawn(sizes.groups, d, 0), many_waves(d, 0, sizes.waves), sizes.n_trees, sizes.n_rows,
        sizes.n_stored,
    )  # fmt: skip
    return Learner(algorithms.load("auto"), Auto.Params(), (), d, 1, 0, model=model)


def variants(d: int) -> Iterator[tuple[str, Sizes]]:
    """Yield the whole learner, both smaller sizes, and the learner without each part."""
    full = regression_sizes(FULL, d)
    yield "full", full
    yield "small", regression_sizes(SMALL, d)
    yield "medium", regression_sizes(MEDIUM, d)
    for group in full.groups[1:]:  # the first is the linear expert, which neighbours build on
        kept = tuple(other for other in full.groups if other is not group)
        yield f"without {group.name}", full._replace(groups=kept)
    yield "without trees", full._replace(n_trees=0, n_rows=1)


def measure(X: np.ndarray, y: np.ndarray) -> dict[str, tuple[float, float]]:
    """Return the mean squared error and the processor seconds of each variant on one stream."""
    results = {}
    for variant, sizes in variants(X.shape[1]):
        one = learner(sizes, X.shape[1])
        clock = time.process_time()
        errors = one.partial_fit(X, y).y_hat - y
        results[variant] = float(np.mean(errors[1:] ** 2)), time.process_time() - clock
    return results


def main() -> None:
    n_rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    learner(regression_sizes(FULL, 2), 2).partial_fit(np.zeros((2, 2)), np.zeros(2))  # compiles
    results = {}
    for name in STREAMS:
        try:
            X, y = stream(name, n_rows)
        except OSError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            continue
        results[name] = measure(X, y)
    print(f"| | {' | '.join(results)} | geometric mean | time |")
    print("|---|" + "---|" * (len(results) + 2))
    for variant in next(iter(results.values())):
        ratios = [found[variant][0] / found["full"][0] for found in results.values()]
        times = [found[variant][1] / found["full"][1] for found in results.values()]
        mean, clock = (np.exp(np.mean(np.log(values))) for values in (ratios, times))
        cells = " | ".join(f"{ratio:.3f}" for ratio in ratios)
        print(f"| {variant} | {cells} | {mean:.3f} | {clock:.2f} |")


if __name__ == "__main__":
    main()
