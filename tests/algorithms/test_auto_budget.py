"""``budget_us`` and ``budget_mb`` of ``auto``: which experts they leave, and what these cost."""

import math
import re

import numpy as np
import pytest

import omkl
from omkl import algorithms
from omkl.algorithms import auto, auto_budget
from omkl.config import settings
from omkl.core.learner import Learner
from omkl.experiment.memory import bytes_of
from omkl.runs.provenance import identity_of
from tests.algorithms.test_auto import steps
from tests.compositions import compose

WHOLE = {
    "numbers": auto_budget.of_numbers,
    "two classes": auto_budget.of_classes,
    "five classes": lambda d: auto_budget.of_classes(d, 5),
}


def learner(d: int, **budget: float) -> Learner:
    return Learner(algorithms.load("auto"), auto.Auto.Params(**budget), (), d, 1, 0)


@pytest.mark.parametrize("what", WHOLE)
@pytest.mark.parametrize("d", [1, 8, 100, 400])
def test_a_budget_is_kept_and_the_least_possible_is_named(what, d):
    whole = WHOLE[what](d)
    assert auto_budget.within(whole, d, math.nan, math.nan) == whole
    for cost, key in ((auto_budget.us_of, "budget_us"), (auto_budget.mb_of, "budget_mb")):
        full = cost(whole, d)
        for share in (1.0, 0.7, 0.3):
            budget = {"us": math.nan, "mb": math.nan, key.removeprefix("budget_"): share * full}
            sizes = auto_budget.within(whole, d, **budget)
            assert cost(sizes, d) <= share * full
            assert (sizes == whole) == (share == 1.0)
        budget |= {key.removeprefix("budget_"): 1e-3}
        with pytest.raises(ValueError, match=rf"algorithm\.{key}=0\.001: with {d} input") as error:
            auto_budget.within(whole, d, **budget)
        least = float(re.search(r"takes ([\d.]+)", str(error.value))[1])
        budget |= {key.removeprefix("budget_"): least}
        assert cost(auto_budget.within(whole, d, **budget), d) <= least


@pytest.mark.parametrize("d", [2, 10, 60])
@pytest.mark.parametrize("share", [1.0, 0.5, 0.2])
def test_megabytes_are_those_of_the_arrays(d, share):
    """Small arrays are not counted."""
    full = auto_budget.mb_of(auto_budget.of_numbers(d), d)
    one = learner(d, budget_mb=share * full)
    held = bytes_of((one.state, one.selection.scratch)) / 1e6
    sizes = auto_budget.within(auto_budget.of_numbers(d), d, math.nan, share * full)
    assert auto_budget.mb_of(sizes, d) == pytest.approx(held, rel=0.05, abs=0.1)


def test_experts_within_a_budget_learn_and_go_on_row_by_row():
    X, y = steps(1700)  # trees were grown, many waves solved
    small, row_by_row = (learner(4, budget_us=30.0) for _ in range(2))
    y_hat = small.partial_fit(X, y).y_hat
    row_by_row.partial_fit(X[:1650], y[:1650])
    for t in range(1650, 1700):
        assert row_by_row.predict_one(X[t])[0] == y_hat[t]
        row_by_row.learn_one(y[t])
    assert np.mean((y_hat - y)[1000:] ** 2) < 0.3 * np.var(y)
    names = [kernel.family for kernel in algorithms.load("auto").kernels(small.params, (), 4)]
    assert len(names) == small.state.model.n_kernels < 28
    assert names[:3] == ["mean", "last label", "linear"]


def test_a_budget_that_is_large_enough_changes_nothing():
    X, y = steps(300)
    whole = learner(4).partial_fit(X, y).y_hat
    np.testing.assert_array_equal(learner(4, budget_us=1e6).partial_fit(X, y).y_hat, whole)


@pytest.mark.parametrize("algorithm", ["auto", "auto_classifier"])
def test_a_run_without_a_budget_keeps_its_key(algorithm):
    """Runs from before there were budgets are found again."""
    quick = ("dataset.rows=50", f"algorithm={algorithm}")
    data = ["dataset=synthetic"] if algorithm == "auto" else ["dataset=wdbc"]
    plain = identity_of(settings.read(compose([*data, *quick])).config)
    assert plain.params == {}
    for typed, params in (("null", {}), ("30", {"budget_us": 30.0})):
        config = compose([*data, *quick, f"algorithm.budget_us={typed}"])
        run = identity_of(settings.read(config).config)
        assert run.params == params
        assert (run.key == plain.key) == (params == {})


def test_a_learner_says_which_experts_it_has(tmp_path):
    X, y = steps(60)
    whole, small = omkl.learner("auto", inputs=4), omkl.learner("auto", inputs=4, budget_us=30)
    assert "gaussian(1)" in whole.experts
    assert "trees" in whole.experts
    assert len(small.experts) < len(whole.experts)
    assert any(re.fullmatch(r"trees, \d+", name) for name in small.experts)
    small.partial_fit(X, y)
    assert list(small.explain(X[0]).index) == list(small.experts)
    small.save(tmp_path / "small.npz")
    again = omkl.load_learner(tmp_path / "small.npz")
    assert again.predict_one(X[0]) == small.predict_one(X[0])
    with pytest.raises(ValueError, match=r"budget_us=0\.5: with 4 inputs the smallest set"):
        omkl.learner("auto", inputs=4, budget_us=0.5)


def test_classes_have_budgets_too():
    X, y = steps(600)
    codes = np.digitize(y, np.quantile(y, [0.25, 0.5, 0.75]))
    names = ["a", "b", "c", "d"]
    whole, small = (
        omkl.learner("auto", inputs=4, classes=names, **budget) for budget in ({}, {"budget_us": 9})
    )
    labels = np.array(names)[codes]
    for one in (whole, small):
        one.partial_fit(X, labels)
    assert small.experts != whole.experts
    assert np.mean(small.predict(X[-100:]) == labels[-100:]) > 0.4
