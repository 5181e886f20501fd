"""Golden numbers: what every algorithm says on a small stream must stay what it was.

A failure means that numbers have changed. If that is meant, write them anew with

    python tests/algorithms/test_golden.py --write [ALGORITHM ..]

and say so in CHANGELOG.md under "Numbers change", with the reason. An algorithm without a
file in tests/algorithms/golden fails.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from omkl import algorithms
from omkl.checks.learners import Case, default_settings
from omkl.core.weights import normalised

FOLDER = Path(__file__).parent / "golden"
ROUNDS = (2, 3, 10, 100, 300, 301, 302, 350, 400)  # both sides of freeze and explore


def numbers(name: str) -> dict[str, object]:
    case = Case(name, default_settings(name))
    X, y = case.stream()
    learner = case.learner(seed=7)
    y_hat = learner.partial_fit(X, y).y_hat
    model = learner.state.model
    coefficients = model.theta if case.representation.draws_features else model.alpha
    return {
        "mse": float(np.mean((y_hat - y) ** 2)),
        "y_hat": {str(t): float(y_hat[t - 1]) for t in ROUNDS},
        "weights": normalised(learner.state.log_w).tolist(),
        "norms_of_theta": np.linalg.norm(coefficients, axis=1).tolist(),
        "rounds_evaluated": learner.used.tolist(),
    }


@pytest.mark.parametrize("name", algorithms.names())
def test_golden(name):
    path = FOLDER / f"{name}.json"
    assert path.is_file(), f"{path} is missing: python tests/algorithms/test_golden.py --write"
    golden, ours = json.loads(path.read_text()), numbers(name)
    assert ours["rounds_evaluated"] == golden["rounds_evaluated"]
    for key in ("mse", "y_hat", "weights", "norms_of_theta"):
        assert ours[key] == pytest.approx(golden[key], rel=1e-12, abs=1e-300), key


def test_every_golden_file_belongs_to_an_algorithm():
    files = FOLDER.rglob("*.json")
    names = [path.relative_to(FOLDER).with_suffix("").as_posix() for path in files]
    assert sorted(names) == sorted(algorithms.names())


if __name__ == "__main__":
    if sys.argv[1:2] != ["--write"]:
        sys.exit("python tests/algorithms/test_golden.py --write [ALGORITHM ..]")
    for name in sys.argv[2:] or algorithms.names():
        path = FOLDER / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(numbers(name), indent=1) + "\n")
