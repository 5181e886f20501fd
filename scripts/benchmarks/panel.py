"""A panel of many keys: how long it takes, and the memory of the process.

python scripts/benchmarks/panel.py 100000 100 --algorithm raker
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

import numpy as np

import omkl

BLOCK = 1_000_000


def block(n: int, n_keys: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Rows of 4 inputs of keys in random order; each key has its own level and slope."""
    keys = rng.integers(n_keys, size=n)
    X = rng.normal(size=(n, 4))
    level, slope = keys % 17, 1.0 + keys % 5
    y = level + slope * np.sin(X[:, 0] + 0.5 * X[:, 1] ** 2) + 0.1 * rng.normal(size=n)
    return keys, X, y


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("keys", type=int)
    parser.add_argument("rows_per_key", type=int)
    parser.add_argument("--algorithm", default="raker")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--share-weights", action="store_true")
    options = parser.parse_args()
    settings: dict[str, Any] = {"threads": options.threads, "share_weights": options.share_weights}
    warm = omkl.panel(options.algorithm, inputs=4, **settings)
    warm.partial_fit(np.zeros((2, 4)), np.zeros(2), keys=[0, 1])  # compiles
    panel = omkl.panel(options.algorithm, inputs=4, **settings)
    rng = np.random.default_rng(0)
    n, seconds, mse = options.keys * options.rows_per_key, 0.0, np.nan
    for start in range(0, n, BLOCK):
        keys, X, y = block(min(BLOCK, n - start), options.keys, rng)
        begun = time.perf_counter()
        y_hat = panel.partial_fit(X, y, keys=keys).y_hat
        seconds += time.perf_counter() - begun
        mse = float(np.mean((y - y_hat) ** 2))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"{options.algorithm}: {len(panel):,} keys, {n:,} rows in {seconds:.1f} s, "
        f"{1e6 * seconds / n:.2f} us per row; {panel.bytes_per_key:,} bytes per key, the process "
        f"{memory:.2f} GB at most; MSE of the last block {mse:.3f}"
    )


if __name__ == "__main__":
    main()
