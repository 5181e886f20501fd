"""Print the table of docs/intervals.md: learned widths compared with one width for all rows.

The streams are synthetic, because the true size of the noise of each row must be known. ``auto``
was designed on the first five and tested on the others.

    python scripts/interval_widths.py
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import omkl
from omkl.core.conformal import Conformal

LEVEL, N_ROWS, FIRST = 0.9, 8000, 500  # rows before FIRST are not scored
Stream = tuple[str, np.ndarray, np.ndarray, np.ndarray]  # name, rows, targets, sizes of the noise


def design_streams(seed: int = 0) -> Iterator[Stream]:
    """Yield the streams that the widths were designed with."""
    rng, t, ones = np.random.default_rng(seed), np.arange(N_ROWS), np.ones(N_ROWS)
    X = rng.normal(size=(N_ROWS, 5))
    size = 0.1 + 0.5 * np.exp(1.2 * X[:, 2])
    y = np.sin(2 * X[:, 0]) + X[:, 1] + size * rng.normal(size=N_ROWS)
    yield "grows with an input", X, y, size
    hour = t % 24
    X = np.column_stack([hour, rng.normal(size=(N_ROWS, 3))])
    size = np.where((hour > 8) & (hour < 18), 2.0, 0.2)
    y = X[:, 1] + 3 * np.sin(hour * np.pi / 12) + size * rng.normal(size=N_ROWS)
    yield "large by day", X, y, size
    X = rng.normal(size=(N_ROWS, 4))
    size = 0.2 + np.abs(X[:, 0])
    yield "skewed", X, X[:, 1] + size * (np.exp(rng.normal(size=N_ROWS)) - 1.6), size
    size, noise, variance = np.empty(N_ROWS), np.empty(N_ROWS), 1.0
    for s in range(N_ROWS):
        size[s] = np.sqrt(variance)
        noise[s] = size[s] * rng.normal()
        variance = 0.05 + 0.15 * noise[s] ** 2 + 0.8 * variance
    X = rng.normal(size=(N_ROWS, 3))
    yield "follows past errors", X, X[:, 0] + noise, size
    X = rng.normal(size=(N_ROWS, 6))
    yield "the same everywhere", X, X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=N_ROWS), ones


def judging_streams(seed: int = 100) -> Iterator[Stream]:
    """Yield streams that were not used in the design."""
    rng, t, ones = np.random.default_rng(seed), np.arange(N_ROWS), np.ones(N_ROWS)
    group = rng.integers(0, 4, N_ROWS)
    X = np.column_stack([np.eye(4)[group], rng.uniform(size=(N_ROWS, 4))])
    size = np.array([0.1, 0.5, 1.5, 4.0])[group]
    y = 3 * X[:, 4] ** 2 + group + size * rng.standard_t(5, size=N_ROWS)
    yield "four groups, heavy tails", X, y, size
    X = rng.uniform(-1, 1, size=(N_ROWS, 3))
    rate = np.exp(1 + 1.5 * X[:, 0])
    yield "counts", X, rng.poisson(rate).astype(float), np.sqrt(rate)
    X = rng.normal(size=(N_ROWS, 6))
    size = np.exp(0.7 * X[:, 0] - 0.4 * X[:, 1] + 2)
    yield "a factor, as of prices", X, size * rng.gamma(3, 1 / 3, size=N_ROWS), size
    X = rng.uniform(size=(N_ROWS, 5))
    size = 0.1 + 2 * np.where(t < N_ROWS // 2, X[:, 0], X[:, 1])
    yield "grows with another input later", X, 5 * X[:, 2] + size * rng.normal(size=N_ROWS), size
    walk = np.cumsum(0.05 * rng.normal(size=N_ROWS))
    size = 0.1 + 2 * np.abs(np.sin(t / 200))
    X = np.column_stack([np.sin(t / 30), rng.normal(size=(N_ROWS, 2))])
    yield "waves in time", X, walk + X[:, 0] + size * rng.laplace(size=N_ROWS), size
    X = rng.normal(size=(N_ROWS, 8))
    y = np.tanh(X[:, 0]) + X[:, 3] + 0.3 * rng.standard_t(3, size=N_ROWS)
    yield "the same everywhere, heavy tails", X, y, ones


def measured(y: np.ndarray, low: np.ndarray, high: np.ndarray, size: np.ndarray) -> tuple:
    """Return interval score, and coverage in % of each quarter of the noise and of 200 rows.

    The 200 consecutive rows are those with the lowest coverage.
    """
    y, low, high, size = y[FIRST:], low[FIRST:], high[FIRST:], size[FIRST:]
    outside = np.maximum(0.0, np.maximum(low - y, y - high))
    covered = outside == 0.0
    quarter = np.digitize(size, np.quantile(size, [0.25, 0.5, 0.75]))
    by_quarter = [covered[quarter == k].mean() for k in range(4) if (quarter == k).any()]
    windows = np.lib.stride_tricks.sliding_window_view(covered, 200).mean(axis=1)
    score = (high - low + outside * 2 / (1 - LEVEL)).mean()
    return score, ", ".join(f"{100 * share:.0f}" for share in by_quarter), 100 * windows.min()


def main() -> None:
    for streams in (design_streams(), judging_streams()):
        for name, X, y, size in streams:
            said = omkl.learner("auto", interval=LEVEL).partial_fit(X, y)
            errors = y - said.y_hat
            errors[0] = np.nan  # of which nothing was known
            half = Conformal(LEVEL).follow(np.zeros(N_ROWS), errors)
            score, coverage, worst = measured(y, said.low, said.high, size)
            plain, before, _ = measured(y, said.y_hat - half, said.y_hat + half, size)
            print(f"| {name} | {score / plain:.2f} | {coverage} | {before} | {worst:.1f} |")


if __name__ == "__main__":
    main()
