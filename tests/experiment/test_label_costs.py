"""What the targets that a learner requests cost, as a run says it."""

import numpy as np
import pytest

from omkl.checks import learners
from omkl.checks.learners import Case, default_settings
from omkl.experiment import metrics
from omkl.experiment import run as runner
from tests.compositions import compose

BASE = ("kernels=gaussian17", "D=4", "seeds=1", "tracking=none", "figures=false")
CONFIDENT = ("algorithm=amkl", "algorithm.eta_c=1e9", "algorithm.M=3")  # asks every fourth time


@pytest.mark.parametrize("name", ["raker", "amkl_aks", "omkr", "gf"])
def test_a_loop_that_measures_on_request_learns_what_a_block_learns(name):
    X, y = learners.stream(200)
    inside, outside = (Case(name, default_settings(name)).learner(T=200) for _ in range(2))
    trace = inside.partial_fit(X, y)
    for s, x in enumerate(X):
        y_hat, asks = outside.predict_one(x)
        assert (y_hat, asks) == (trace.y_hat[s], trace.asked[s])
        outside.learn_one(x, y[s] if asks else None)


def test_seeds_that_request_as_many_targets_have_no_deviation():
    """Of their shares there may be one, by rounding."""
    requested = np.full(3, 95)
    cost = metrics.label_cost(requested, 400)
    assert cost["al_efficiency"] == pytest.approx(0.2375) and cost["al_efficiency_std"] == 0.0
    assert np.std(requested / 400, ddof=1) > 0.0


def test_a_run_says_what_its_labels_cost(tmp_path):
    """Errors of all rounds count, (54), with a label or without; labels over rounds is (55)."""
    more = ("dataset.rows=60", "seeds=3", f"outputs={tmp_path}")
    config = compose([*BASE, *CONFIDENT, *more])
    run = runner.run(config).run
    result, curves = run.result, run.curves
    assert result["labels_per_seed"] == [15, 15, 15] and result["labels"] == 15
    assert (result["al_efficiency"], result["al_efficiency_std"]) == (0.25, 0.0)
    assert result["mse_over"] == "all rounds"
    np.testing.assert_array_equal(curves["labels"], np.tile((curves["t"] + 3) // 4, (3, 1)))
    job = runner.prepare(config)
    X, y = next(iter(job.stream.blocks(60)))
    trace = job.learner(1).partial_fit(X, y)
    assert result["mse"][1] == pytest.approx(np.mean((trace.y_hat - y) ** 2), rel=1e-12)

    passive = runner.run(compose([*BASE, "algorithm=raker", *more])).run.result
    assert (passive["al_efficiency"], passive["labels"]) == (1.0, 60)
