"""Golden numbers: what every algorithm says on a small stream must stay what it was.

A failure means that numbers have changed. If that is meant, write them anew with

    python tests/test_golden.py --write [ALGORITHM ..]

and give the reason in the commit message. An algorithm without a
file in tests/golden fails.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from omkl import algorithms, federated
from omkl.checks import federations, learners
from omkl.core.learner import Learner
from omkl.core.weights import normalised

FOLDER = Path(__file__).parent / "golden"
ROUNDS = (2, 3, 10, 100, 300, 301, 302, 350, 400)  # both sides of freeze and explore
ROUNDS_TOGETHER = (2, 3, 10, 100, 200)  # of a federation
# Of learners that know more later: trees grow after 500 rounds, many waves are solved after 1,536.
LATER = {"auto": (500, 501, 700, 1000, 1536, 1600), "auto_classifier": (500, 501, 700, 1000)}
ALL = [*algorithms.names(), *federated.names()]


def numbers(name: str) -> dict[str, object]:
    """What a golden file holds of an algorithm."""
    return of_a_federation(name) if name in federated.names() else of_a_learner(name)


def of_a_learner(name: str) -> dict[str, object]:
    case = learners.Case(name)
    X, y = case.stream()
    learner = case.learner(seed=7)
    y_hat = learner.partial_fit(X, y).y_hat
    model = learner.state.model
    known = [name for name in ("coefficients", "theta", "alpha") if hasattr(model, name)]
    found: dict[str, object] = {
        "mse": float(np.mean((y_hat - y) ** 2)),
        "y_hat": {str(t): float(y_hat[t - 1]) for t in ROUNDS},
        "weights": normalised(learner.state.log_w).tolist(),
        "norms_of_theta": np.linalg.norm(np.atleast_2d(getattr(model, known[0])), axis=1).tolist(),
        "rounds_evaluated": learner.used.tolist(),
    }
    return found | later_numbers(case, learner) if name in LATER else found


def later_numbers(case: learners.Case, learner: Learner) -> dict[str, object]:
    """What it says of the rounds behind those of the other numbers."""
    n, rounds = learner.t, LATER[case.name]
    X, y = case.stream(rounds[-1])  # which begins with the same rows
    y_hat = learner.partial_fit(X[n:], y[n:]).y_hat
    return {
        "later": {str(t): float(y_hat[t - 1 - n]) for t in rounds},
        "later_mse": float(np.mean((y_hat - y[n:]) ** 2)),
        "later_weights": normalised(learner.state.log_w).tolist(),
    }


def of_a_federation(name: str) -> dict[str, object]:
    case = federations.Case(name)
    X, y = case.stream()
    federation = case.learner(seed=7)
    trace = federation.partial_fit(X, y)
    return {
        "mse": float(np.mean((trace.y_hat - y) ** 2)),
        "y_hat": {str(t): trace.y_hat[t - 1].tolist() for t in ROUNDS_TOGETHER},
        "regret": trace.regret[-1].tolist(),
        "norms_of_theta": np.linalg.norm(federation.server.model.theta, axis=1).tolist(),
        "sent": federation.totals.sent.tolist(),
        "used": federation.totals.used.tolist(),
    }


def file_of(name: str) -> Path:
    return FOLDER / f"{name}.json"


@pytest.mark.parametrize("name", ALL)
def test_golden(name):
    require_golden(name, file_of(name))


def require_golden(name: str, path: Path) -> None:
    """Compare the numbers of an algorithm with those of its golden file."""
    assert path.is_file(), f"{path} is missing: python tests/test_golden.py --write"
    golden, ours = json.loads(path.read_text()), numbers(name)
    assert list(ours) == list(golden)
    for key in {"sent", "used", "rounds_evaluated"} & set(ours):
        assert ours.pop(key) == golden[key], key
    if name in federated.names():
        # A regret is a difference of sums that may cancel.
        assert ours.pop("regret") == pytest.approx(golden["regret"], rel=1e-9, abs=1e-12)
        for t, y_hat in ours.pop("y_hat").items():
            assert y_hat == pytest.approx(golden["y_hat"][t], rel=1e-11, abs=1e-13)
    for key, value in ours.items():
        rel = 1e-9 if key.startswith("later") else 1e-12  # a solution of 800 unknowns rounds
        assert value == pytest.approx(golden[key], rel=rel, abs=1e-300), key


def test_every_golden_file_belongs_to_an_algorithm():
    files = FOLDER.rglob("*.json")
    names = [path.relative_to(FOLDER).with_suffix("").as_posix() for path in files]
    assert sorted(names) == sorted(ALL)


if __name__ == "__main__":
    if sys.argv[1:2] != ["--write"]:
        sys.exit("python tests/test_golden.py --write [ALGORITHM ..]")
    for name in sys.argv[2:] or ALL:
        file_of(name).parent.mkdir(parents=True, exist_ok=True)
        file_of(name).write_text(json.dumps(numbers(name), indent=1) + "\n")
        print(f"wrote {file_of(name)}")
