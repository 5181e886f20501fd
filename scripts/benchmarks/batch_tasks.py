"""The estimator on batch tasks: fit once, predict many rows, beside Ridge and boosting.

    OMKL_DATA_DIR=../shared/data python scripts/benchmarks/batch_tasks.py

Prints a line per task and split: root mean squared errors, and those of the estimator over the
better of the two; at the end geometric means. Ten minutes on one core. It looks at these tasks
after the estimator was made, and chooses nothing by them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from omkl import datasets
from omkl.sklearn import OnlineMKLRegressor

MODELS = {
    "ridge": lambda: make_pipeline(StandardScaler(), Ridge()),
    "boosting": lambda: HistGradientBoostingRegressor(random_state=0),
    "omkl": OnlineMKLRegressor,
    "omkl in order": lambda: OnlineMKLRegressor(past_targets=True),
}


def tasks() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Names, inputs X (n, d) and targets y (n,); of energy every fourth row."""
    yield "diabetes", *load_diabetes(return_X_y=True)
    yield "friedman1", *make_friedman1(2000, noise=1.0, random_state=0)
    for name, step in (("airfoil", 1), ("concrete", 1), ("energy", 4)):
        X, y = datasets.load(name, as_frame=False)
        yield name, X[::step], y[::step]


def errors(X: np.ndarray, y: np.ndarray, split: KFold | TimeSeriesSplit) -> dict[str, float]:
    """Root mean squared errors over all held-out rows, by model."""
    squared: dict[str, list[float]] = {name: [] for name in MODELS}
    for train, test in split.split(X):
        for name, make in MODELS.items():
            y_hat = make().fit(X[train], y[train]).predict(X[test])
            squared[name].append(float(np.mean(np.square(y_hat - y[test]))))
    return {name: float(np.sqrt(np.mean(values))) for name, values in squared.items()}


def main() -> None:
    ratios: dict[str, list[float]] = {"omkl": [], "omkl in order": []}
    for name, X, y in tasks():
        for split in (TimeSeriesSplit(5), KFold(5)):
            found = errors(X, y, split)
            best = min(found["ridge"], found["boosting"])
            for model, kept in ratios.items():
                kept.append(found[model] / best)
            texts = [f"{model} {error:.4g}" for model, error in found.items()]
            print(
                f"{name:10} {type(split).__name__:16} {', '.join(texts)}: {ratios['omkl'][-1]:.3f}"
            )
    for model, kept in ratios.items():
        print(f"{model}, geometric mean: {np.exp(np.mean(np.log(kept))):.3f}")


if __name__ == "__main__":
    main()
