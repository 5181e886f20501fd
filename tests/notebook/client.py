"""What a program of one's own does with omkl; ``mypy --strict`` finds nothing (test_typing.py)."""

from __future__ import annotations

from pathlib import Path

import omkl
from omkl.sklearn import OnlineMKLRegressor


def served(path: Path) -> tuple[float, float]:
    """Predict a row, learn its target, save and load."""
    learner: omkl.OnlineLearner = omkl.learner("auto", inputs=["a", "b"], interval=0.9)
    y_hat: float = learner.predict_one({"a": 1.0, "b": None})
    learner.learn_one({"a": 1.0, "b": None}, 2.0)
    learner.save(path)
    again = omkl.load_learner(path)
    low, high = again.interval
    said = again.partial_fit([[1.0, 2.0]], [3.0])
    return y_hat, float(said.y_hat[0]) + low + high


def studied(outputs: Path) -> list[float]:
    """Run, sweep, and read runs."""
    run: omkl.Results = omkl.run("raker", "airfoil", seeds=1, D=2, outputs=outputs)
    errors = [float(run["rmse"])]
    sweep = omkl.sweep(["raker", "mean"], "airfoil", D=[2], seeds=1, outputs=outputs)
    errors += [float(one["rmse"]) for one in sweep.runs]
    X, y = omkl.datasets.load("airfoil", as_frame=False)
    model = OnlineMKLRegressor(past_targets=False).fit(X[:50], y[:50])
    errors.append(float(model.score(X, y)))
    names: list[str] = omkl.algorithms.names()
    return errors if names else []
