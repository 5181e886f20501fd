"""``mean``, ``last`` and ``ridge``: first rounds by hand, and ridge against batch solutions."""

from __future__ import annotations

import numpy as np
import pytest

from omkl import algorithms
from omkl.core.learner import Learner


def learner(name, d=1, **params):
    algorithm = algorithms.load(name)
    return Learner(algorithm, algorithm.Params(**params), (), d, D=1, seed=0)


X = np.array([[1.0], [2.0], [0.0], [1.0]])
y = np.array([3.0, 1.0, 2.0, 7.0])


@pytest.mark.parametrize(
    ("name", "y_hat"), [("mean", [0.0, 3.0, 2.0, 2.0]), ("last", [0.0, 3.0, 1.0, 2.0])]
)
def test_what_does_not_look_at_x(name, y_hat):
    assert learner(name).partial_fit(X, y).y_hat.tolist() == y_hat
    assert learner(name).partial_fit(1e9 * X, y).y_hat.tolist() == y_hat


def test_two_rounds_of_ridge_by_hand():
    """z_1 = (1, 1), z_2 = (2, 1), lam = 1: A_2 = [[6, 3], [3, 3]], b = 3 (1, 1)."""
    # The inverse of A_2 is [[3, -3], [-3, 6]] / 9, so z_2'A_2^-1 = (3, 0) / 9.
    y_hat = learner("ridge", lam=1.0).partial_fit(X[:2], y[:2]).y_hat
    np.testing.assert_allclose(y_hat, [0.0, 1.0], atol=1e-15)


@pytest.mark.parametrize("lam", [1e-3, 0.01, 2.0])
def test_ridge_is_the_batch_solution_with_the_row_that_it_predicts(lam):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    y = X @ [1.0, -2.0, 0.5, 0.0] + 3.0 + rng.normal(size=200)
    Z = np.column_stack([X, np.ones(200)])
    expected = []
    for t in range(200):
        A = lam * np.eye(5) + Z[: t + 1].T @ Z[: t + 1]
        expected.append(Z[t] @ np.linalg.solve(A, Z[:t].T @ y[:t]))
    y_hat = learner("ridge", d=4, lam=lam).partial_fit(X, y).y_hat
    np.testing.assert_allclose(y_hat, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("lam", [0.01, 1.0])
def test_the_identity_of_vovk_azoury_and_warmuth(lam):
    """Loss - least loss = sum_t (y_t^2 z_t'A_t^-1 z_t - y_hat_t^2 z_t'A_{t-1}^-1 z_t)."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-1.0, 1.0, size=(150, 3))
    y = np.sin(3.0 * X[:, 0]) + X[:, 1]
    Z = np.column_stack([X, np.ones(150)])
    y_hat = learner("ridge", d=3, lam=lam).partial_fit(X, y).y_hat
    A = lam * np.eye(4) + Z.T @ Z
    theta = np.linalg.solve(A, Z.T @ y)
    least = lam * theta @ theta + np.sum((Z @ theta - y) ** 2)
    before, difference = lam * np.eye(4), 0.0
    for z, label, said in zip(Z, y, y_hat, strict=True):
        after = before + np.outer(z, z)
        difference += label**2 * (z @ np.linalg.solve(after, z))
        difference -= said**2 * (z @ np.linalg.solve(before, z))
        before = after
    assert np.sum((y_hat - y) ** 2) - least == pytest.approx(difference, rel=1e-9)


def test_ridge_draws_nothing():
    assert algorithms.load("ridge").deterministic
