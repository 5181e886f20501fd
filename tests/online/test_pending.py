"""Targets that come late: rows wait by their ids, in bounded memory, and are saved."""

from __future__ import annotations

import math

import numpy as np
import pytest

import omkl
from tests.online.test_learner import stream

SMALL = {"kernels": "gaussian17", "D": 4}


def late(learner, X, y, delay):
    """What is predicted of each row, whose target comes after ``delay`` further predictions."""
    predictions = []
    for t, x in enumerate(X):
        if t > delay:
            learner.learn_one(y[t - delay - 1], id=t - delay - 1)
        predictions.append(learner.predict_one(x, id=t))
    return np.array(predictions)


@pytest.mark.parametrize("name", ["raker", "auto", "gf"])
def test_without_a_delay_it_is_the_stream_that_it_always_was(name):
    X, y = stream()
    y = np.nan_to_num(y, nan=5000.0)
    waiting, expected = (omkl.learner(name, inputs=2, interval=0.9, **SMALL) for _ in range(2))
    said = expected.partial_fit(X, y)
    np.testing.assert_array_equal(late(waiting, X, y, 0), said.y_hat)
    np.testing.assert_allclose(waiting.interval, (said.low[-1], said.high[-1]), rtol=0, atol=0)


def test_targets_come_in_any_order_and_are_saved(tmp_path):
    X, y = stream()
    y = np.nan_to_num(y, nan=5000.0)
    learner = omkl.learner("auto", inputs=["a", "b"], interval=0.9, max_pending=50)
    rng = np.random.default_rng(0)
    for start in range(0, 200, 40):
        for t in range(start, start + 40):
            learner.predict_one({"a": X[t, 0], "b": X[t, 1]}, id=f"row {t}")
        for t in rng.permutation(np.arange(start, start + 40))[:-5]:
            learner.learn_one(y[t], id=f"row {t}")
        for left in learner.pending[5:]:
            learner.learn_one(None, id=left)
    assert len(learner.pending) == 5 and learner.n_rows == 175
    learner.save(tmp_path / "model.npz")
    again = omkl.load_learner(tmp_path / "model.npz")
    assert again.pending == learner.pending and again.max_pending == 50
    for one in (learner, again):
        for id in one.pending:
            one.learn_one(4900.0, id=id)
    np.testing.assert_array_equal(
        again.predict_interval(X[200:]), learner.predict_interval(X[200:])
    )


def test_what_cannot_wait_is_named():
    learner = omkl.learner("auto", inputs=2, max_pending=2)
    learner.predict_one([1.0, 2.0], id=1)
    with pytest.raises(ValueError, match="a row waits with id=1 already"):
        learner.predict_one([1.0, 2.0], id=1)
    with pytest.raises(ValueError, match="no row waits with id=7"):
        learner.learn_one(1.0, id=7)
    with pytest.raises(ValueError, match="no whole number and no text"):
        learner.predict_one([1.0, 2.0], id=(1, 2))
    with pytest.raises(ValueError, match="labels are finite numbers"):
        learner.learn_one(math.inf, id=1)
    assert learner.pending == (1,), "it waits on"
    learner.predict_one([1.0, 2.0], id=2)
    with pytest.raises(RuntimeError, match=r"2 rows wait .* max_pending is 2: .* first id is 1"):
        learner.predict_one([1.0, 2.0], id=3)
    with pytest.raises(ValueError, match="amkl requests some of the targets"):
        omkl.learner("amkl", inputs=2, horizon=100, **SMALL).predict_one([1.0, 2.0], id=1)
    with pytest.raises(ValueError, match="max_pending=-1"):
        omkl.learner("auto", max_pending=-1)


def test_intervals_learn_from_no_prediction_that_knew_nothing():
    """In moving units the first predictions are 0, and their errors as large as the target."""
    learner = omkl.learner("ridge", inputs=1, interval=0.9)
    rng, waiting = np.random.default_rng(1), []
    for t in range(120):
        x = rng.normal()
        learner.predict_one([x], id=t)
        waiting.append((t, 1000.0 + x + 0.1 * rng.normal()))
        if len(waiting) > 15:
            id, y = waiting.pop(0)
            learner.learn_one(y, id=id)
    low, high = learner.interval
    assert 0.0 < high - low < 10.0


def test_an_interval_stays_when_another_target_comes():
    learner = omkl.learner("ridge", inputs=1, interval=0.9)
    learner.partial_fit(np.arange(50.0)[:, None], np.sin(np.arange(50.0)))
    learner.predict_one([1.0], id="a")
    learner.predict_one([2.0], id="b")
    before = learner.interval
    learner.learn_one(50.0, id="a")
    assert learner.interval == before
