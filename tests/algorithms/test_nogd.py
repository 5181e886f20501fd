"""NOGD by hand, and against its paper's code in plain NumPy."""

import math

import numpy as np
import pytest

from omkl.checks.learners import Case, stream
from omkl.core import snapshot
from omkl.core.representations.nystrom import READY

T = 400
X, Y = stream(T)


def test_first_rounds_by_hand():
    """kappa(x_1, x_2) = 1/2: the first eigenvalue is 3/2, and z(x_1) = z(x_2) = sqrt(3)/2."""
    x1, x2 = 0.0, math.sqrt(math.log(2.0))
    nogd = Case("nogd").learner(d=1, eta=0.5, budget=2, n_components=1)
    y_hat = nogd.partial_fit([[x1], [x2], [x1], [x2]], [1.0, -0.75, 1.25, 0.0]).y_hat
    # alpha = 1/2 and -1/2: by both rows 1/2 - 1/4, by the feature 0. A step of 1/2 z(x_1) follows.
    np.testing.assert_allclose(y_hat, [0.0, 0.25, 0.25, 0.375], rtol=0, atol=1e-15)


def kernels(rows, x):
    return np.exp(-((np.array(rows) - x) ** 2).sum(axis=1) / 0.7)


def rewritten(X, Y, tolerance, budget, k):
    """Predictions and steps of NysGD.m, row by row, with its pseudo-inverse."""
    alpha, rows, w, M = [], [], None, None
    y_hat, steps = np.zeros(len(Y)), []
    for t, (x, y) in enumerate(zip(X, Y, strict=True)):
        k_t = kernels(rows, x) if rows else np.zeros(0)
        y_hat[t] = np.array(alpha) @ k_t if w is None else w @ (M @ k_t)
        delta = y - y_hat[t]
        if abs(delta) <= tolerance:
            continue
        steps.append(t)
        eta = 0.4 / math.sqrt(t + 1)
        if len(rows) < budget:
            alpha.append(eta * delta)
            rows.append(x)
            continue
        if w is None:
            U, D, _ = np.linalg.svd(np.array([kernels(rows, row) for row in rows]))
            M = np.diag(D[:k] ** -0.5) @ U[:, :k].T
            w = np.array(alpha) @ np.linalg.pinv(M)
        w = w + eta * delta * (M @ k_t)
    return y_hat, steps


@pytest.mark.parametrize(("budget", "k"), [(1, 1), (7, 7), (30, 6), (64, 13)])
@pytest.mark.parametrize("tolerance", [0.0, 0.15])
def test_nogd(tolerance, budget, k):
    settings = {"tolerance": tolerance, "bandwidth": 0.7, "budget": budget, "n_components": k}
    ours = Case("nogd").learner(eta="0.4/sqrt(t)", **settings)
    y_hat, steps = rewritten(X, Y, tolerance, budget, k)
    np.testing.assert_allclose(ours.partial_fit(X, Y).y_hat, y_hat, rtol=0, atol=1e-10)
    assert budget < len(steps) and (len(steps) < T) == (tolerance > 0.0) and np.ptp(y_hat) > 0.2
    assert ours.representation.kept_rows(ours.state.model) == budget
    np.testing.assert_array_equal(ours.state.model.stored.x[:, :budget].T, X[steps[:budget]])


def test_a_learner_saved_between_the_last_stored_row_and_the_next_step_goes_on():
    settings = {"eta": "0.4/sqrt(t)", "tolerance": 0.15, "budget": 30, "n_components": 6}
    whole, split = Case("nogd").learner(**settings), Case("nogd").learner(**settings)
    y_hat, n_ready = [], 0
    for x, y in zip(X, Y, strict=True):
        before, split = split, Case("nogd").learner(**settings)
        snapshot.restore(split, snapshot.snapshot(before))
        y_hat.append(split.predict_one(x)[0])
        split.learn_one(y)
        n_ready += int(split.state.model.phase[0] == READY)
    np.testing.assert_array_equal(whole.partial_fit(X, Y).y_hat, y_hat)
    assert n_ready > 0


def test_rows_that_come_again_have_one_feature():
    """The kernel matrix of two rows, each stored five times, has two eigenvalues above 0."""
    nogd = Case("nogd").learner(budget=10, n_components=10)
    two = np.tile([[0.1, 0.2, 0.3], [-0.2, 0.0, 0.4]], (200, 1))
    y_hat = nogd.partial_fit(two, np.tile([1.0, -1.0], 200)).y_hat
    assert np.count_nonzero(nogd.state.model.project.any(axis=1)) == 2
    assert np.abs(y_hat).max() < 1.0 and np.all(np.diff(np.abs(y_hat[10::2])) > 0.0)


def test_more_features_than_stored_rows_are_refused():
    with pytest.raises(ValueError, match=r"n_components=9 is more than algorithm.budget=8"):
        Case("nogd").learner(budget=8, n_components=9)
