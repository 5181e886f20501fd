"""What is computed before its round, on rows that are known or on a guess, changes no bit."""

from __future__ import annotations

import numpy as np
import pytest

from omkl.checks import learners


def one_by_one(learner, X, y):
    return [learner.partial_fit(X[t : t + 1], y[t : t + 1]).y_hat[0] for t in range(len(y))]


@pytest.mark.parametrize("name", ["sfg", "sfg_r", "gf"])
def test_a_guessed_kernel_says_what_a_chosen_one_says(name):
    case = learners.Case(name)
    X, y = case.stream()
    whole, rows = case.learner(seed=7), case.learner(seed=7)
    np.testing.assert_array_equal(whole.partial_fit(X, y).y_hat, one_by_one(rows, X, y))
    np.testing.assert_array_equal(whole.state.model.coefficients, rows.state.model.coefficients)
    assert whole.selection.scratch.first.any(), "no kernel was guessed"
    assert whole.selection.scratch.known.any(), "no output was taken ahead"
    assert not rows.selection.scratch.first.any(), "of a single row there is nothing ahead"


@pytest.mark.parametrize("name", ["amkl", "rf/omkc_da_o", "rf/omkc_sua_o"])
def test_an_output_that_is_taken_ahead_is_taken_again_after_a_step(name):
    case = learners.Case(name)
    X, y = case.stream()
    whole, rows = case.learner(seed=7), case.learner(seed=7)
    first = X[:203]  # 25 tiles of eight, and three rows by themselves
    np.testing.assert_array_equal(
        whole.partial_fit(first, y[:203]).y_hat, one_by_one(rows, first, y[:203])
    )
    np.testing.assert_array_equal(whole.state.model.coefficients, rows.state.model.coefficients)


def test_other_rows_are_not_taken_for_those_that_were_guessed():
    case = learners.Case("sfg")
    X, y = case.stream()
    guessing, fresh = case.learner(seed=7), case.learner(seed=7)
    guessing.partial_fit(X[:300], y[:300])
    one_by_one(fresh, X[:300], y[:300])
    others = X[::-1][:20].copy()
    np.testing.assert_array_equal(guessing.predict(others), fresh.predict(others))
    np.testing.assert_array_equal(
        guessing.partial_fit(others, y[:20]).y_hat, one_by_one(fresh, others, y[:20])
    )
