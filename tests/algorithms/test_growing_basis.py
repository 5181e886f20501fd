"""AOGD-ALD and NONS-ALD by hand, and against their authors' code in plain NumPy.

The plain versions have what that code has: coefficients of rows and the inverse of their kernel
matrix, or features by its eigenvectors, which are made anew with every row that joins.
"""

import math

import numpy as np
import pytest

from omkl.checks.learners import Case, stream
from omkl.core import snapshot

T = 200
X, Y = stream(T)
Y = 2.0 * Y - 1.0  # both signs
BANDWIDTH = 0.7
K = np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / BANDWIDTH)


def gram_of(stored):
    return K[np.ix_(stored, stored)]


def aogd_ald(U, threshold, budget):
    """Predictions of AOGD-ALD.R, and the rounds whose rows are stored; projected where full."""
    stored, a, S = [], np.zeros(0), 1.0
    y_hat = np.zeros(T)
    for t, y in enumerate(Y):
        k = K[t, stored]
        y_hat[t] = a @ k
        beta = np.linalg.solve(gram_of(stored), k)
        slope = 2.0 * (y_hat[t] - y)
        if 1.0 - beta @ k > threshold and len(stored) < budget:
            stored.append(t)
            a, beta = np.append(a, 0.0), np.append(np.zeros(len(a)), 1.0)
        gram = gram_of(stored)
        S += slope**2 * (beta @ gram @ beta)
        a = a - U / math.sqrt(S) * slope * beta
        a = a * min(1.0, U / math.sqrt(a @ gram @ a))
    return y_hat, stored


def features(stored):
    """The matrix that makes features of kernels to the stored rows."""
    vectors, values, _ = np.linalg.svd(gram_of(stored))
    return (vectors / np.sqrt(values)).T


def nons_ald(C, mu, threshold, budget):
    """Predictions of NONS-ALD.R, with A after the row throughout."""
    stored, eta = [0], 1.0 / (4.0 * C**2 + 4.0)
    M, A, v = features(stored), mu * np.eye(1), np.zeros(1)
    y_hat = np.zeros(T)
    for t in range(1, T):
        k = K[t, stored]
        z = M @ k
        towards = np.linalg.solve(A, z)
        past = v @ z
        w = v - np.sign(past) * max(abs(past) - C, 0.0) / (z @ towards) * towards
        if 1.0 - k @ np.linalg.solve(gram_of(stored), k) > threshold and len(stored) < budget:
            stored.append(t)
            before, M = M, features(stored)
            Q = M @ gram_of(stored)[:, :-1] @ before.T
            A = mu * np.eye(len(M)) + Q @ (A - mu * np.eye(len(M) - 1)) @ Q.T
            w = Q @ w
            z = M @ K[t, stored]
        y_hat[t] = w @ z
        g = 2.0 * (y_hat[t] - Y[t]) * z
        A = A + eta * np.outer(g, g)
        v = w - np.linalg.solve(A, g)
    return y_hat, stored


def require_equal(ours, y_hat, stored):
    np.testing.assert_allclose(ours.partial_fit(X, Y).y_hat, y_hat, rtol=0, atol=1e-9)
    assert np.ptp(y_hat) > 0.2
    n = len(stored)
    assert ours.representation.kept_rows(ours.state.model) == n
    np.testing.assert_array_equal(ours.state.model.stored.x[:, :n].T, X[stored])


SIZES = [(0.003, 200), (0.001, 8), (0.3, 1)]  # threshold, budget


@pytest.mark.parametrize("U", [0.5, 3.0])
@pytest.mark.parametrize(("threshold", "budget"), SIZES)
def test_aogd_ald(U, threshold, budget):
    settings = {"U": U, "bandwidth": BANDWIDTH, "threshold": threshold, "budget": budget}
    require_equal(Case("aogd_ald").learner(**settings), *aogd_ald(U, threshold, budget))


@pytest.mark.parametrize(("C", "mu"), [(1.0, 1.0), (0.6, 5.0)])
@pytest.mark.parametrize(("threshold", "budget"), SIZES)
def test_nons_ald(C, mu, threshold, budget):
    settings = {"C": C, "mu": mu, "bandwidth": BANDWIDTH, "threshold": threshold, "budget": budget}
    y_hat, stored = nons_ald(C, mu, threshold, budget)
    assert (np.abs(y_hat) > C - 1e-12).any() == (budget > 1)  # some are cut
    require_equal(Case("nons_ald").learner(**settings), y_hat, stored)


def test_a_low_threshold_stores_more_rows_and_no_row_twice():
    kept = []
    for threshold in (0.1, 0.01):
        ours = Case("nons_ald").learner(threshold=threshold, budget=300)
        ours.partial_fit(X, Y)
        once = ours.representation.kept_rows(ours.state.model)
        ours.partial_fit(ours.state.model.stored.x[:, :once].T.copy(), Y[:once])
        assert ours.representation.kept_rows(ours.state.model) == once
        kept.append(once)
    assert 1 < kept[0] < kept[1] < 300


@pytest.mark.parametrize("name", ["aogd_ald", "nons_ald"])
def test_a_learner_saved_in_any_round_goes_on(name):
    whole, split = Case(name).learner(), Case(name).learner()
    y_hat = []
    for x, y in zip(X[:100], Y, strict=False):
        before, split = split, Case(name).learner()
        snapshot.restore(split, snapshot.snapshot(before))
        y_hat.append(split.predict_one(x)[0])
        split.learn_one(y)
    np.testing.assert_array_equal(whole.partial_fit(X[:100], Y[:100]).y_hat, y_hat)
