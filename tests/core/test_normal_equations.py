"""Sums of the normal equations against products of matrices of features."""

from __future__ import annotations

import numpy as np
import pytest

from omkl.core.normal_equations import add_rounds, empty_moments, empty_tile, frequencies
from omkl.core.representations.random_features import features_of


@pytest.mark.parametrize("D", [1, 4, 9, 12, 50])
@pytest.mark.parametrize("n", [1, 3, 32, 70])
def test_sums_are_products_of_features_and_labels(D, n):
    rng = np.random.default_rng(D)
    omega, X, y = rng.normal(size=(3, 2, D)), rng.normal(size=(n, 2)), rng.normal(size=n)
    moments = empty_moments(3, D)
    for rows in (slice(0, n // 3), slice(n // 3, n)):
        kernels = np.array([2, 0])
        add_rounds(frequencies(omega), D, kernels, X[rows], y[rows], empty_tile(D), moments)
    assert not moments[1].any()
    upper = np.triu_indices(2 * D + 1)
    for i in (0, 2):
        bordered = np.column_stack([features_of(omega[i], X), y])
        np.testing.assert_allclose(
            moments[i][upper], (bordered.T @ bordered)[upper], rtol=1e-12, atol=1e-13
        )
