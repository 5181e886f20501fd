"""Weights without a rate, and coin betting, against plain NumPy with the same features.

The plain versions keep sums where ours keep what follows from them: products of weights, the gains
of all rounds, the losses of all rounds.
"""

import math

import numpy as np
import pytest

from omkl import algorithms
from omkl.algorithms.rate_free import (
    Boa,
    Squint,
    adahedge_update,
    boa_update,
    init_hedging,
    squint_update,
)
from omkl.checks.learners import DICTIONARY, Case, default_settings, stream
from omkl.core.kernels import Kernel
from omkl.core.learner import Learner

T = 300
N = len(DICTIONARY)
X, Y = stream(T)
Y = 3.0 * Y - 1.0  # both signs, and beyond 1


def learner(name, **settings):
    return Case(name, default_settings(name)).learner(3, **settings)


def features(omega):
    """z(X) of frequencies (d, D), divided by sqrt(D)."""
    return np.hstack([np.sin(X @ omega), np.cos(X @ omega)]) / np.sqrt(omega.shape[1])


def all_features(ours):
    return [features(omega) for omega in ours.state.model.omega.copy()]


def gradient_steps(Z, eta, lam):
    """Outputs (T, N) of Raker's kernels, of features Z: N times (T, 2 D)."""
    theta = [np.zeros(z.shape[1]) for z in Z]
    f = np.zeros((T, N))
    for t in range(T):
        for i, z in enumerate(Z):
            f[t, i] = theta[i] @ z[t]
            gradient = 2.0 * (f[t, i] - Y[t]) * z[t] + 2.0 * lam * theta[i]
            theta[i] = theta[i] - eta / math.sqrt(t + 1) * gradient
    return f


def mix(rate, losses):
    """Weights and the mix loss, as figure 1 of de Rooij et al. has them."""
    least = losses.min()
    w = (losses == least) * 1.0 if np.isinf(rate) else np.exp(-rate * (losses - least))
    return w / w.sum(), least - math.log(w.sum() / len(losses)) / rate


def by_adahedge(losses):
    """Weights (T, N) of losses (T, N), each row before its losses."""
    total, gap, weights = np.zeros(N), 0.0, np.empty((T, N))
    for t in range(T):
        rate = math.log(N) / gap if gap else math.inf
        weights[t], before = mix(rate, total)
        total = total + losses[t]
        after = mix(rate, total)[1]
        gap += max(0.0, weights[t] @ losses[t] - (after - before))
    return weights


def by_boa(f):
    """Predictions (T,) of outputs (T, N), as R/BOA.R of opera makes them."""
    R, V, y_hat = np.zeros(N), np.zeros(N), np.empty(T)
    for t in range(T):
        seen = V > 0.0
        w = np.full(N, 1.0 / N)
        if seen.any():
            share = np.exp(R[seen] / np.sqrt(V[seen])) / np.sqrt(V[seen])
            w[seen] = w[seen].sum() * share / share.sum()
        y_hat[t] = w @ f[t] / w.sum()
        slope = 2.0 * (y_hat[t] - Y[t])
        r = slope * y_hat[t] - slope * f[t]
        V = V + 2.2 * r**2
        seen = V > 0.0
        R[seen] += r[seen] - r[seen] ** 2 / np.sqrt(V[seen])
    return y_hat


def by_squint(losses):
    """Weights (T, N) of losses (T, N): integrals over the rates, by Simpson's rule."""
    etas = np.linspace(0.0, 0.5, 2001)
    simpson = np.tile([2.0, 4.0], 1001)[:2001]
    simpson[[0, -1]] = 1.0
    R, V, weights = np.zeros(N), np.zeros(N), np.empty((T, N))
    for t in range(T):
        evidence = np.exp(np.outer(etas, R) - np.outer(etas**2, V)).T @ simpson
        weights[t] = evidence / evidence.sum()
        r = weights[t] @ losses[t] - losses[t]
        R, V = R + r, V + r**2
    return weights


def coin_bets(Z, epsilon):
    """Outputs (T, N) of algorithm 1 of Orabona and Pal for the gains sign(y - f) z."""
    f = np.empty((T, N))
    for i, z in enumerate(Z):
        gains, won = np.zeros(z.shape[1]), 0.0
        for t in range(T):
            theta = (epsilon + won) * gains / (t + 1)
            f[t, i] = theta @ z[t]
            g = np.sign(Y[t] - f[t, i]) * z[t]
            won += g @ theta
            gains = gains + g
    return f


def require_equal(ours, expected):
    y_hat = ours.partial_fit(X, Y).y_hat
    np.testing.assert_allclose(y_hat, expected, rtol=0, atol=1e-9)
    assert np.ptp(expected) > 0.5


def test_adahedge():
    ours = learner("adahedge", eta="0.4/sqrt(t)", lam=0.01)
    f = gradient_steps(all_features(ours), 0.4, 0.01)
    weights = by_adahedge((f - Y[:, None]) ** 2)
    assert weights[-1].max() > 2.0 / N
    require_equal(ours, (weights * f).sum(axis=1))


def test_boa():
    ours = learner("boa", eta="0.4/sqrt(t)", lam=0.01)
    require_equal(ours, by_boa(gradient_steps(all_features(ours), 0.4, 0.01)))


@pytest.mark.parametrize("span", [1.0, 4.0])
def test_squint(span):
    ours = learner("squint", eta="0.4/sqrt(t)", lam=0.01, span=span)
    f = gradient_steps(all_features(ours), 0.4, 0.01)
    weights = by_squint((f - Y[:, None]) ** 2 / span)
    assert weights[-1].max() > 1.2 / N
    require_equal(ours, (weights * f).sum(axis=1))


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_kt(epsilon):
    ours = learner("kt", epsilon=epsilon)
    f = coin_bets(all_features(ours), epsilon)
    require_equal(ours, (by_adahedge(np.abs(f - Y[:, None])) * f).sum(axis=1))


def test_four_rounds_of_kt_by_hand():
    """The same row each time, so z'z = 1, and labels far above: every bet is won.

    W = 1, 1, 1.5, 2.5 and G = 0, z, 2 z, 3 z before rounds 1 to 4.
    """
    kt = algorithms.load("kt")
    ours = Learner(kt, kt.Params(epsilon=1.0), (Kernel("gaussian", 1.0),), d=1, D=8, seed=0)
    y_hat = ours.partial_fit(np.full((4, 1), 0.3), np.full(4, 10.0)).y_hat
    np.testing.assert_allclose(y_hat, [0.0, 1 / 2, 1.5 * 2 / 3, 2.5 * 3 / 4], atol=1e-12)


def test_two_rounds_of_adahedge_by_hand():
    """Losses (0, 1), then (1, 0): the gap is 1/2 by the leaders alone, and the rate 2 ln 2."""
    state = init_hedging(None, DICTIONARY[:2], None)
    f = np.array([0.0, 1.0])
    adahedge_update(state, f, 0.0, 2)
    np.testing.assert_allclose(state.gap, 0.5)
    np.testing.assert_allclose(np.exp(state.log_w), [1.0, 0.25])
    adahedge_update(state, f, 1.0, 2)
    before = -math.log((1.0 + 0.25) / 2.0) / (2.0 * math.log(2.0))
    np.testing.assert_allclose(state.gap, 0.5 + 0.8 - (1.0 - before))
    np.testing.assert_allclose(state.log_w, 0.0, atol=1e-12)


def test_a_round_of_boa_by_hand():
    """f = (0, 1) and y = 0: y_hat = 1/2, r = (1/2, -1/2), V = 2.2 / 4 of both."""
    state = Boa.init(None, DICTIONARY[:2], None)
    boa_update(state, np.array([0.0, 1.0]), 0.0)
    np.testing.assert_allclose(state.squares, 0.55)
    np.testing.assert_allclose(state.regrets, np.array([0.5, -0.5]) - 0.25 / math.sqrt(0.55))
    np.testing.assert_allclose(state.log_w[0] - state.log_w[1], 1.0 / math.sqrt(0.55))


def test_a_round_of_squint_by_hand():
    """f = (0, 1) and y = 0: h = 1/2, so R = (1/2, -1/2) and V = 1/4 of both.

    exp(x / 2 - x^2 / 4) = exp(1/4 - (x - 1)^2 / 4) has the integral of an error function.
    """
    state = Squint.init(None, DICTIONARY[:2], None)
    squint_update(state, np.array([0.0, 1.0]), 0.0, 1.0)
    np.testing.assert_array_equal([state.regrets, state.squares], [[0.5, -0.5], [0.25, 0.25]])
    gained = math.erf(0.5) - math.erf(0.25)
    lost = math.erf(0.75) - math.erf(0.5)
    np.testing.assert_allclose(state.log_w, [0.0, math.log(lost / gained)], atol=1e-14)


@pytest.mark.parametrize("name", ["adahedge", "boa", "kt"])
def test_the_weights_have_no_unit(name):
    """Labels in another unit: where coefficients follow, weights do not change."""
    one = learner(name)
    epsilon = {"epsilon": 1e3} if name == "kt" else {}
    other = learner(name, **epsilon)
    y_hat = one.partial_fit(X, Y).y_hat
    np.testing.assert_allclose(other.partial_fit(X, 1e3 * Y).y_hat, 1e3 * y_hat, rtol=1e-6)
    np.testing.assert_allclose(other.state.log_w, one.state.log_w, rtol=1e-6, atol=1e-6)
