"""The regression on many waves against its formula in plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from omkl.core.representations import wide
from omkl.core.representations.wide import evaluate_wide, learn_wide
from tests.learners import compiled


def learn_rows(model, scratch, X, y, n_columns, is_used, y_hat):
    for t in range(X.shape[0]):
        y_hat[t] = evaluate_wide(model, scratch, X[t], n_columns)
        learn_wide(model, scratch, y[t], n_columns, is_used)


learn_rows_compiled = compiled(learn_rows)


def stream(T: int, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((T, d))
    return X, 100.0 + np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(T)


def learned(X, y, frequencies, n_columns, is_used=True):
    model, y_hat = wide.fresh_wide(frequencies, n_columns), np.zeros(len(y))
    learn_rows_compiled(model, wide.wide_scratch(model), X, y, n_columns, is_used, y_hat)
    return model, y_hat


@pytest.mark.parametrize("n_columns", [0, 3])
def test_coefficients_are_those_of_a_ridge_regression(n_columns):
    """Twice: after 512 + 1,024 rows, and after 1,280, before which the first sums fade a little."""
    X, y = stream(1900)
    frequencies = np.random.default_rng(1).standard_normal((2, 16))
    _, y_hat = learned(X, y, frequencies, n_columns)
    angle = X[:, :2] @ frequencies
    waves = np.hstack([np.sin(angle), np.cos(angle)]) / 4.0
    Z = np.column_stack([waves, X[:, :n_columns], np.ones(len(y))])
    ridge = np.diag([*np.full(Z.shape[1] - 1, 0.05), 0.0])
    for start, end in ((1536, 1792), (1792, 1900)):
        weight = np.ones(start - 512)
        weight[: 1024 if start == 1792 else 0] -= 256 / 65536
        A, label = Z[512:start], y[512:start] - y[0]
        theta = np.linalg.solve((A.T * weight) @ A + ridge, (A.T * weight) @ label)
        np.testing.assert_allclose(y_hat[start:end], y[0] + Z[start:end] @ theta, atol=1e-8)


def test_a_regression_that_does_not_pay_takes_some_of_the_rows():
    X, y = stream(20000)
    frequencies = np.random.default_rng(1).standard_normal((3, 16))
    paying, y_hat = learned(X, y, frequencies, 3)
    idle, _ = learned(X, y, frequencies, 3, is_used=False)
    assert paying.n_added[0] == 20000 - 512 and idle.n_added[0] < 0.4 * paying.n_added[0]
    assert paying.fits[0] > idle.fits[0] > 3
    assert np.mean((y_hat - y)[5000:] ** 2) < 0.4 * np.var(y)


def test_constant_rows():
    _, y_hat = learned(np.ones((2000, 3)), np.full(2000, 7.5), np.ones((3, 8)), 3)
    np.testing.assert_allclose(y_hat[1600:], 7.5, rtol=1e-12)
