"""A learner row by row: what predictions and labels may be, and what is said of others."""

import importlib
import pickle
import sys
from types import ModuleType

import numpy as np
import pytest

from omkl import algorithms
from omkl.checks.learners import Case, stream
from omkl.core.protocol import register
from omkl.core.representations.random_features import RANDOM_FEATURES

X, y = stream(60)


def learner(name="raker", **changes):
    return Case(name).learner(**changes)


def test_rows_are_learned_with_and_without_a_prediction_before():
    ours, expected = learner(), learner().partial_fit(X, y).y_hat
    assert [ours.predict_one(X[0])[0] for _ in range(2)] == [expected[0]] * 2
    ours.learn_one(X[0], y[0])
    ours.learn_one(X[1], y[1])
    ours.predict_one(X[7])
    ours.learn_one(X[2], y[2])
    ours.predict_one(X[3])
    ours.predict(X[7:])
    ours.learn_one(X[3], y[3])
    assert ours.t == 4
    np.testing.assert_array_equal(ours.partial_fit(X[4:], y[4:]).y_hat, expected[4:])


@pytest.mark.parametrize("label", [None, np.nan, np.inf])
def test_a_label_that_was_asked_for_is_given(label):
    ours = learner()
    assert ours.predict_one(X[0]) == (0.0, True)
    with pytest.raises(ValueError, match=f"requested the target of row 1, and it is {label}"):
        ours.learn_one(X[0], label)
    ours.learn_one(X[0], y[0])
    assert ours.t == 1 and ours.state.log_w.any()


@pytest.mark.parametrize("label", [None, np.nan, 1e300])
def test_a_label_that_was_not_asked_for_is_not_seen(label):
    """AMKL with a criterion that is always met asks in one round of four."""
    ours = learner("amkl", eta_c=1e9, M=3)
    ours.learn_one(X[0], y[0])
    _, asked = ours.predict_one(X[1])
    assert not asked
    before = ours.state.log_w.copy(), ours.state.model.coefficients
    assert not pickle.loads(pickle.dumps(ours)).learn_one(X[1], label)
    assert not ours.learn_one(X[1], label)
    np.testing.assert_array_equal(ours.state.log_w, before[0])
    np.testing.assert_array_equal(ours.state.model.coefficients, before[1])
    assert ours.t == 2 and ours.state.unlabelled[0] == 1


def test_a_label_that_is_no_number_poisons_nothing():
    ours, clean = learner(), learner()
    spoilt = np.where(np.arange(len(y)) == 40, -np.inf, y)
    with pytest.raises(ValueError, match="requested the target of row 41, and it is -inf"):
        ours.partial_fit(X, spoilt)
    clean.partial_fit(X[:40], y[:40])
    trace = ours.partial_fit(X[40:], np.where(np.arange(20) == 0, np.nan, y[40:]))
    expected = clean.partial_fit(X[41:], y[41:])
    np.testing.assert_array_equal(trace.y_hat[1:], expected.y_hat)
    assert not trace.asked[0] and trace.asked[1:].all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_input_that_is_no_number_is_refused_with_its_row(value):
    ours, bad = learner(), X.copy()
    bad[7, 1] = value
    for given in (lambda: ours.partial_fit(bad, y), lambda: ours.predict(bad)):
        with pytest.raises(ValueError, match=f"input 2 of row 8 is {value}: no number"):
            given()
    assert ours.t == 0
    ours.partial_fit(X[:5], y[:5])
    with pytest.raises(ValueError, match="input 2 of row 6 is"):
        ours.predict_one(bad[7])
    knows_blanks = learner("auto")
    if np.isnan(value):
        assert np.isfinite(knows_blanks.partial_fit(bad, y).y_hat).all()
    else:
        with pytest.raises(ValueError, match="input 2 of row 8 is inf"):
            knows_blanks.partial_fit(bad, y)


def test_rows_of_another_shape_are_refused():
    ours = learner()
    for wrong in (lambda: ours.predict_one(X[0, :2]), lambda: ours.predict(X[0])):
        with pytest.raises(ValueError, match=r"a row is x \(3,\), rows are X \(n, 3\); got"):
            wrong()
    assert ours.predict(X[:0]).shape == (0,)


@pytest.mark.parametrize("name", ["sfg_r", "omkc_sua_o"])
def test_predict_draws_nothing(name):
    """The same stream, with and without predictions in between."""
    y_of = y if name == "sfg_r" else np.where(y > 0.5, 1.0, -1.0)
    quiet, asked = learner(name), learner(name)
    for s in range(0, len(y), 7):
        rows = slice(s, s + 7)
        first, second = asked.predict(X), asked.predict(X)
        np.testing.assert_array_equal(first, second)
        a, b = (ours.partial_fit(X[rows], y_of[rows]).y_hat for ours in (quiet, asked))
        np.testing.assert_array_equal(a, b)


def test_an_algorithm_does_not_take_the_params_of_another(monkeypatch):
    """Its steps would be those of both."""
    second = ModuleType("second")
    vars(second).update(vars(importlib.import_module(algorithms.load("gf").module)))
    second.update = lambda params, state, t, y, selection: None
    monkeypatch.setitem(sys.modules, "second", second)
    with pytest.raises(ValueError, match=r"second has the Params of another algorithm"):
        register("second", representation=RANDOM_FEATURES)
