"""``size`` of ``auto`` and ``auto_classifier``: which experts there are, and how they learn."""

import numpy as np
import pytest

import omkl
from omkl import algorithms
from omkl.algorithms import auto
from omkl.algorithms.auto_sizes import FULL, MEDIUM, SMALL
from omkl.core.learner import Learner
from tests.algorithms.test_auto import steps


def learner(d: int, size: int) -> Learner:
    return Learner(algorithms.load("auto"), auto.Auto.Params(size=size), (), d, 1, 0)


@pytest.mark.parametrize("size", [SMALL, MEDIUM])
def test_smaller_sizes_learn_and_predict_the_same_row_by_row(size):
    X, y = steps(1700)  # trees were grown and many waves solved
    in_blocks, row_by_row = (learner(4, size) for _ in range(2))
    y_hat = in_blocks.partial_fit(X, y).y_hat
    row_by_row.partial_fit(X[:1650], y[:1650])
    np.testing.assert_array_equal(row_by_row.partial_fit(X[1650:], y[1650:]).y_hat, y_hat[1650:])
    assert np.mean((y_hat - y)[1000:] ** 2) < 0.3 * np.var(y)


@pytest.mark.parametrize("d", [1, 10, 300])
def test_each_size_has_fewer_experts_than_the_next(d):
    n_experts = [learner(d, size).state.model.n_kernels for size in (SMALL, MEDIUM, FULL)]
    assert n_experts == [11, 18, 28]


def test_learner_names_its_experts(tmp_path):
    X, y = steps(60)
    whole, small = (omkl.learner("auto", inputs=4, size=size) for size in ("full", "small"))
    assert {"gaussian(1)", "trees"} <= set(whole.expert_names)
    assert "no trees" in small.expert_names
    small.partial_fit(X, y)
    assert set(small.experts(X[0]).index) < set(small.expert_names)
    small.save(tmp_path / "small.npz")
    loaded = omkl.load_learner(tmp_path / "small.npz")
    np.testing.assert_array_equal(loaded.predict(X[:5]), small.predict(X[:5]))


def test_unknown_size_names_the_sizes():
    with pytest.raises(ValueError, match="size='medum' is none of small, medium, full"):
        omkl.learner("auto", inputs=4, size="medum")


@pytest.mark.parametrize("n_classes", [2, 4])
def test_sizes_of_classes(n_classes):
    X, y = steps(600)
    codes = np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))
    names = ["a", "b", "c", "d"][:n_classes]
    labels = np.array(names)[codes]
    experts = []
    for size in ("small", "medium", "full"):
        one = omkl.learner("auto", inputs=4, classes=names, size=size)
        one.partial_fit(X, labels)
        experts.append(len(one.expert_names))
        assert np.mean(one.predict(X[-100:]) == labels[-100:]) > 1.4 / n_classes
    assert experts == sorted(experts)
