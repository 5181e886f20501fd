"""Sums of the normal equations against products of matrices of features."""

from __future__ import annotations

import numpy as np
import pytest

from omkl.core.linalg import (
    add_rounds,
    empty_moments,
    empty_tile,
    least_objectives,
    padded_frequencies,
)
from omkl.core.representations.random_features import features_of


@pytest.mark.parametrize("D", [1, 4, 9, 12, 50])
@pytest.mark.parametrize("n", [1, 3, 32, 70])
def test_sums_are_products_of_features_and_labels(D, n):
    rng = np.random.default_rng(D)
    omega, X, y = rng.normal(size=(3, 2, D)), rng.normal(size=(n, 2)), rng.normal(size=n)
    moments = empty_moments(3, D)
    for rows in (slice(0, n // 3), slice(n // 3, n)):
        kernels = np.array([2, 0])
        add_rounds(padded_frequencies(omega), D, kernels, X[rows], y[rows], empty_tile(D), moments)
    assert not moments[1].any()
    upper = np.triu_indices(2 * D + 1)
    for i in (0, 2):
        bordered = np.column_stack([features_of(omega[i], X), y])
        np.testing.assert_allclose(
            moments[i][upper], (bordered.T @ bordered)[upper], rtol=1e-12, atol=1e-13
        )


@pytest.mark.parametrize("D", [1, 4, 5, 25])
def test_least_objectives_are_those_of_ridge_regressions(D):
    rng = np.random.default_rng(D)
    N, d, n, ridge = 3, 2, 150, 0.7
    omega, X = rng.normal(size=(N, d, D)), rng.normal(size=(n, d))
    y = np.sin(X[:, 0]) + rng.normal(size=n)
    moments = empty_moments(N, D)
    add_rounds(padded_frequencies(omega), D, np.arange(N), X, y, empty_tile(D), moments)
    kept, found = moments.copy(), np.full(2, np.nan)
    least_objectives(moments, np.array([2, 0]), D, ridge, np.empty_like(moments[0]), found)
    for i, objective in zip([2, 0], found, strict=True):
        Z = np.vstack([features_of(omega[i], X), np.sqrt(ridge) * np.eye(2 * D)])
        ((residual,), _, _) = np.linalg.lstsq(Z, np.append(y, np.zeros(2 * D)), rcond=None)[1:]
        assert objective == pytest.approx(residual, rel=1e-12)
    np.testing.assert_array_equal(moments, kept)


def test_least_objectives_that_are_lost_in_rounding():
    """Two equal features without a penalty; a label that a feature explains; and one too large."""
    D = 1
    moments = empty_moments(3, D)
    moments[0, :3, :3] = [[1.0, 1.0, 0.5], [1.0, 1.0, 0.5], [0.5, 0.5, 1.0]]
    moments[1, :3, :3] = [[0.1, 0.0, 0.1], [0.0, 1.0, 0.0], [0.1, 0.0, 0.1 - 1e-17]]
    moments[2, :3, :3] = [[1.0, 0.0, 1e200], [0.0, 1.0, 0.0], [1e200, 0.0, np.inf]]
    found = np.full(3, np.nan)
    least_objectives(moments, np.arange(3), D, 0.0, np.empty_like(moments[0]), found)
    assert found[0] == found[2] == -np.inf and 0.0 <= found[1] < 1e-16
