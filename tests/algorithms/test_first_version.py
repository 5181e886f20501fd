"""The first rounds of SFG-MKL, SFG-MKL-R and RFOMKR against their equations, written out.

Equation numbers are those of the first version (arXiv v1) of Ghari and Shen, "Graph-Aided
Online Multi-Kernel Learning". Nothing here uses the package's helpers: weights are
multiplied, features and gradients are plain NumPy. Only what is random is read from the state.
"""

from __future__ import annotations

import numpy as np
import pytest

from omkl import algorithms
from omkl.core import protocol
from omkl.core.graph_sampling import MEMBER, OUT, probabilities
from omkl.core.hyperparameters import Schedule
from omkl.core.kernels import Kernel
from omkl.core.learner import Learner

FOUR = tuple(Kernel("gaussian", b) for b in (0.01, 0.1, 1.0, 100.0))
# Nearest by (7) in one dimension: 0 - 1, 1 - 0, 2 - 1, 3 - 2; so (i, j) is an edge where
EDGES = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]])
DOMINATING = np.array([0.5, 0.0, 0.0, 0.5])  # nodes 0 and 3 cover all; shares 1 / |D|
ETA, XI, LAM, EXPLORE = 0.05, 0.2, 0.3, 4
X = np.array([0.9, -0.4, 0.7, 0.1, -0.8, 0.5, 0.2])
Y = np.array([1.5, -2.0, 0.5, 2.0, -1.0, 1.0, -1.5])  # large labels: weights move apart at once


def learner(name, seed=0, **settings):
    algorithm = algorithms.load(name)
    return Learner(algorithm, algorithm.Params(**settings), FOUR, d=1, D=2, seed=seed)


def divergence():
    """(7) by brute force."""
    r = np.linspace(-80.0, 80.0, 400_001)
    values = [np.exp(-(r**2) / (2 * k.bandwidth)) for k in FOUR]
    return np.array([[((a - b) ** 2).sum() * (r[1] - r[0]) for b in values] for a in values])


def z(psi, x):
    return np.concatenate([np.sin(psi * x), np.cos(psi * x)]) / np.sqrt(2.0)


def steps(ours):
    """Yield (t, x, y, S_t, y_hat as the package gives it) with the round played."""
    for t, (x, y) in enumerate(zip(X, Y, strict=True), start=1):
        selection, state = ours.selection, ours.state
        protocol.select(ours.params, state, t, ours.rng, selection)
        S = selection.evaluate[: selection.n_evaluated[0]].tolist()
        assert S[: selection.n_combined[0]] == selection.combine[: selection.n_combined[0]].tolist()
        protocol.evaluate(state.model, np.array([x]), selection)
        y_hat, asked = protocol.predict(ours.params, state, t, selection)
        assert asked
        protocol.update(ours.params, state, t, y, selection)
        yield t, x, y, S, y_hat


def test_graph_by_hand():
    delta = divergence()
    assert [int(np.delete(row, i).argmin()) for i, row in enumerate(delta)] == [0, 0, 1, 2]
    out = learner("sfg_mkl", eta=Schedule(ETA, 0.0), xi=Schedule(XI, 0.0), lam=LAM, M=2, explore=0)
    assert out.state.edges[OUT].tolist() == [[0, 1], [1, 0], [2, 1], [3, 2]]
    np.testing.assert_array_equal(out.state.cover[MEMBER], DOMINATING > 0)


def follow(ours, graph):
    """Algorithms 2 and 3: ``graph(u)`` gives the edges and the exploring share of each node."""
    psi = ours.state.model.omega[:, 0, :].copy()
    theta, w, u = np.zeros((4, 4)), np.ones(4), np.ones(4)
    for t, x, y, S, y_hat in steps(ours):
        state = ours.state
        edges, share = graph(u)
        p = (1 - XI) * u / u.sum() + XI * share  # (12), (24)
        node = int(state.node[0])
        if t > EXPLORE:
            assert u[node] == pytest.approx(u.max())
        np.testing.assert_allclose(probabilities(state.trees, XI, 4), p, rtol=1e-12)
        assert sorted(S) == np.flatnonzero(edges[node]).tolist()
        f = np.array([theta[i] @ z(psi[i], x) for i in range(4)])
        out = np.flatnonzero(EDGES[node])  # of G
        mean = w[out] @ f[out] / w[out].sum()  # (13), (25)
        assert y_hat == pytest.approx(mean, rel=1e-11, abs=1e-13)
        q = p @ edges  # (15)
        for i in S:
            assert state.q[i] == pytest.approx(q[i], rel=1e-12)
            loss = (f[i] - y) ** 2 + LAM * theta[i] @ theta[i]
            gradient = 2 * (f[i] - y) * z(psi[i], x) + 2 * LAM * theta[i]
            theta[i] = theta[i] - ETA * gradient / q[i]  # (17)
            w[i] *= np.exp(-ETA * loss / q[i])  # (14), (18a)
        u[node] *= np.exp(-ETA * (mean - y) ** 2 / p[node])  # (16), (18b)
        np.testing.assert_allclose(state.model.coefficients, theta, rtol=1e-11, atol=1e-14)
        np.testing.assert_allclose(np.exp(state.log_w), w, rtol=1e-11)
        np.testing.assert_allclose(np.exp(state.log_u), u, rtol=1e-11)


def settings(**more):
    eta, xi = Schedule(ETA, 0.0), Schedule(XI, 0.0)
    return {"eta": eta, "xi": xi, "lam": LAM, "M": 2, "explore": EXPLORE} | more


@pytest.mark.parametrize("seed", range(4))
def test_sfg_mkl(seed):
    follow(learner("sfg_mkl", seed, **settings()), lambda u: (EDGES, DOMINATING))


@pytest.mark.parametrize("only_undominated", [False, True])
@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_sfg_mkl_r(seed, rank, only_undominated):
    delta = divergence()
    refined = []

    def refine(u):
        best = np.flatnonzero(u >= np.sort(u)[-rank])  # (22) with the beta of section 5
        edges = EDGES.copy()
        for i in set(range(4)) - set(best.tolist()):
            if only_undominated and EDGES[best, i].any():
                continue
            edges[best[delta[i, best].argmin()], i] = 1  # (23)
        refined.append((edges != EDGES).any())
        return edges, np.isin(np.arange(4), best) / len(best)

    more = {"rank": rank, "only_undominated": only_undominated}
    follow(learner("sfg_mkl_r", seed, **settings(**more)), refine)
    assert any(refined) or only_undominated


@pytest.mark.parametrize(("name", "normalised"), [("rfomkr", True), ("as_released/rfomkr", False)])
@pytest.mark.parametrize("lam", [0.0, LAM])
def test_rfomkr(name, normalised, lam):
    ours = learner(name, eta=Schedule(0.1, -0.5), beta=0.5, lam=lam)
    psi = ours.state.model.omega[:, 0, :].copy()
    theta, w = np.zeros((4, 4)), np.full(4, 0.25)
    for t, x, y, S, y_hat in steps(ours):
        assert S == [0, 1, 2, 3]
        f = np.array([theta[i] @ z(psi[i], x) for i in range(4)])
        whole = w @ f / (w.sum() if normalised else 1.0)
        assert y_hat == pytest.approx(whole, rel=1e-11, abs=1e-13)
        for i in range(4):
            w[i] *= 0.5 ** ((f[i] - y) ** 2 + lam * theta[i] @ theta[i])
            gradient = 2 * (f[i] - y) * z(psi[i], x) + 2 * lam * theta[i]
            theta[i] = theta[i] - 0.1 / np.sqrt(t) * gradient
        np.testing.assert_allclose(np.exp(ours.state.log_w), w, rtol=1e-11)
        np.testing.assert_allclose(ours.state.model.coefficients, theta, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize(
    ("name", "p", "q"),
    [
        ("sfg_mkl", [0.3, 0.2, 0.2, 0.3], [0.5, 0.7, 0.5, 0.3]),
        ("sfg_mkl_r", [0.25, 0.25, 0.25, 0.25], [0.5, 0.75, 0.5, 0.25]),  # all tie: all dominate
    ],
)
def test_first_round_in_numbers(name, p, q):
    """All u are 1, so p = 0.8 / 4 + 0.2 share; theta is 0, so y_hat is 0 and every loss 1.5^2."""
    more = {"rank": 4, "only_undominated": False} if name == "sfg_mkl_r" else {}
    ours = learner(name, **settings(**more))
    _, _, _, S, y_hat = next(steps(ours))
    state = ours.state
    assert y_hat == 0.0
    node = int(state.node[0])
    assert state.log_u[node] == pytest.approx(-ETA * 2.25 / p[node], rel=1e-12)
    for i in range(4):
        expected = -ETA * 2.25 / q[i] if i in S else 0.0
        assert state.log_w[i] == pytest.approx(expected, rel=1e-12)
        moved = 2 * ETA * 1.5 / q[i] if i in S else 0.0  # ||z|| = 1
        assert state.model.norm2[i] == pytest.approx(moved**2, rel=1e-12)
