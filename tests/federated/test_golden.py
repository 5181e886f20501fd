"""Golden numbers of federated learners, as ``tests/algorithms/test_golden`` for the others.

python tests/federated/test_golden.py --write
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from omkl import federated
from omkl.checks.federations import Case, streams

FOLDER = Path(__file__).parent / "golden"
ROUNDS = (2, 3, 10, 100, 200)


def numbers(name: str) -> dict[str, object]:
    X, y = streams()
    federation = Case(name).federation(seed=7)
    trace = federation.partial_fit(X, y)
    return {
        "mse": float(np.mean((trace.y_hat - y) ** 2)),
        "y_hat": {str(t): trace.y_hat[t - 1].tolist() for t in ROUNDS},
        "regret": trace.regret[-1].tolist(),
        "norms_of_theta": np.linalg.norm(federation.server.model.theta, axis=1).tolist(),
        "sent": federation.totals.sent.tolist(),
        "used": federation.totals.used.tolist(),
    }


@pytest.mark.parametrize("name", federated.names())
def test_golden(name):
    path = FOLDER / f"{name}.json"
    assert path.is_file(), f"{path} is missing: python tests/federated/test_golden.py --write"
    golden, ours = json.loads(path.read_text()), numbers(name)
    assert (ours["sent"], ours["used"]) == (golden["sent"], golden["used"])
    # A regret is a difference of sums that may cancel.
    assert ours["regret"] == pytest.approx(golden["regret"], rel=1e-9, abs=1e-12)
    for key in ("mse", "norms_of_theta"):
        assert ours[key] == pytest.approx(golden[key], rel=1e-12)
    for t in map(str, ROUNDS):
        assert ours["y_hat"][t] == pytest.approx(golden["y_hat"][t], rel=1e-11, abs=1e-13)


def test_every_golden_file_belongs_to_an_algorithm():
    assert sorted(path.stem for path in FOLDER.glob("*.json")) == federated.names()


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("python tests/federated/test_golden.py --write")
    for name in federated.names():
        (FOLDER / f"{name}.json").write_text(json.dumps(numbers(name), indent=1) + "\n")
