"""Exact-kernel learners: against the sums written out, the authors' transcript and the paper."""

import numpy as np
import pytest

from omkl.checks import learners
from omkl.core.kernels import Kernel
from omkl.core.representations.support_vectors import CODES, TILE
from tests.learners import learner_of


def plain_omkr(kernels, X, y, beta=0.5):
    """The box of OMKR in plain NumPy, row by row."""
    T, N = len(y), len(kernels)
    gram = np.stack([k.gram(X, X) for k in kernels])
    alpha, log_w, y_hat = np.zeros((N, T)), np.zeros(N), np.empty(T)
    for t in range(T):
        f = np.einsum("ns,ns->n", alpha[:, :t], gram[:, t, :t])
        w = np.exp(log_w - log_w.max())
        y_hat[t] = w @ f / w.sum()
        alpha[:, t] = -0.1 / np.sqrt(t + 1) * (f - y[t])
        log_w += np.log(beta) * (f - y[t]) ** 2
    return y_hat


def test_omkr_is_its_box():
    X, y = learners.stream(3 * TILE + 17)
    kernels = tuple(Kernel(family, b) for family in CODES for b in (1.0, 2.0))
    y_hat = learner_of("omkr", kernels, 3).partial_fit(X, y).y_hat
    np.testing.assert_allclose(y_hat, plain_omkr(kernels, X, y), atol=1e-12)


def test_poly_first_rounds_by_hand():
    X, y = np.array([[1.0, 2.0], [0.5, -1.0], [1.0, 0.0]]), np.array([1.0, 0.0, 0.5])
    y_hat = learner_of("poly", (), 2, degree=2).partial_fit(X, y).y_hat
    a1 = 0.1 * (1.0 - 0.0)
    f2 = a1 * (1.0 * 0.5 - 2.0 * 1.0) ** 2
    a2 = 0.1 / np.sqrt(2) * (0.0 - f2)
    f3 = a1 * 1.0**2 + a2 * 0.5**2
    np.testing.assert_allclose(y_hat, [0.0, f2, f3], rtol=1e-14)


def test_rbf_has_no_two_in_its_exponent():
    X, y = np.array([[0.0], [1.5]]), np.array([1.0, 0.0])
    y_hat = learner_of("rbf", (), 1, bandwidth=3.0).partial_fit(X, y).y_hat
    assert y_hat[1] == pytest.approx(0.1 * np.exp(-(1.5**2) / 3.0), rel=1e-14)


@pytest.mark.parametrize("cuts", [[1] * 5 + [TILE], [TILE - 1, 2], [TILE], [300], [7, 130, 1]])
def test_blocks_and_threads_change_no_bit(cuts):
    X, y = learners.stream(400)
    kernels = (Kernel("gaussian", 0.1), Kernel("laplacian", 0.7))
    whole = learner_of("omkr", kernels, 3).partial_fit(X, y).y_hat
    cut = learner_of("omkr", kernels, 3, threads=3)
    parts, start, k = [], 0, 0
    while start < len(y):
        stop = start + cuts[k % len(cuts)]
        parts.append(cut.partial_fit(X[start:stop], y[start:stop]).y_hat)
        start, k = stop, k + 1
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_memory_is_linear_in_rounds_and_kernels():
    X, y = learners.stream(2000)
    omkr = learner_of("omkr", (Kernel("gaussian", 1.0),) * 5, 3)
    omkr.partial_fit(X, y)
    held = omkr.state.model.x.nbytes + omkr.state.model.alpha.nbytes
    assert 2000 * (5 + 3) * 8 <= held <= 2 * 2000 * (5 + 3) * 8 + 8 * TILE * 8
