"""Theorems 1 and 2 of the federated paper beside federations that they are about."""

import math

import numpy as np
import pytest
from reproduce.regret_bounds import client_regret_bound, server_regret_bound

from omkl import federated
from omkl.checks import learners
from omkl.checks.federations import streams
from omkl.core.hyperparameters import Schedule
from omkl.core.representations.random_features import draw_features, features_of
from omkl.core.weights import normalised
from omkl.experiment.comparators import clients_ridge
from omkl.federated.simulation import Federation


@pytest.mark.parametrize(("seed", "M", "xi", "eta_k"), [(0, 1, 1.0, 0.05), (1, 2, 0.3, 5.0)])
def test_theorem_1_is_never_broken(seed, M, xi, eta_k):
    """Every client's regret, at any time: (13), and the sharper line of its proof."""
    n, clients, N = 300, 4, len(learners.DICTIONARY)
    x, y = streams(n, clients, seed=seed)
    y = 0.5 * y  # steps are divided by small probabilities: predictions overshoot
    pof = federated.load("pof_mkl")
    params = pof.Params(Schedule(0.02, 0.0), Schedule(eta_k, 0.0), lam=1e-3, xi=xi, M=M)
    federation = Federation(pof, params, learners.DICTIONARY, 3, 8, seed, clients)
    bound = client_regret_bound(params, N, np.arange(1, n + 1))
    squares = np.zeros(clients)  # sum over t of sum_i w_i L_i^2, which (13) bounds by t
    for t in range(n):
        w, before = normalised(federation.clients.log_w), federation.totals.losses[:, 1:].copy()
        regret = federation.partial_fit(x[t : t + 1], y[t : t + 1]).regret[0]
        squares += np.sum(w * (federation.totals.losses[:, 1:] - before) ** 2, axis=1)
        assert np.all(regret <= math.log(N) / eta_k + 0.5 * eta_k * squares)
        assert np.all(regret <= bound[t])
    assert federation.totals.worst[1] <= 1.0  # (as2)


@pytest.mark.parametrize(("seed", "eta", "eta_k"), [(0, 0.02, 0.05), (1, 0.2, 1.0)])
def test_theorem_2_is_never_broken(seed, eta, eta_k):
    """The server's regret (12), all kernels sent so that nothing is drawn: the sharper line of
    the proof, with gradients and losses as they were, and below it (36) with L and 1."""
    n, clients, lam = 300, 4, 0.01
    x, y = streams(n, clients, seed=seed)
    y = 0.5 * y
    pof = federated.load("pof_mkl")
    N = len(learners.DICTIONARY)
    steps = Schedule(eta, 0.0), Schedule(eta_k, 0.0)
    params = pof.Params(*steps, lam=lam, xi=1.0, M=N)
    federation = Federation(pof, params, learners.DICTIONARY, 3, 8, seed, clients)
    omega = draw_features(learners.DICTIONARY, 3, 8, seed).omega
    everybody = np.full(clients, n)
    best = clients_ridge(omega, x, y, everybody, lam, lam)
    norm = float(np.linalg.norm(best.theta))
    losses = [
        np.sum((features_of(one, x.reshape(-1, 3)) @ best.theta - y.ravel()) ** 2) for one in omega
    ]
    kernel = int(np.argmin(losses))  # of all clients together
    assert losses[kernel] == pytest.approx(best.shared_errors.sum())
    gradients, squares, loss = 0.0, 0.0, 0.0
    for t in range(n):
        w, before = normalised(federation.clients.log_w), federation.totals.losses[:, 1:].copy()
        theta = federation.server.model.theta[kernel].copy()
        loss = federation.partial_fit(x[t : t + 1], y[t : t + 1]).loss[0].sum()
        squares += np.sum(w * (federation.totals.losses[:, 1:] - before) ** 2)
        z = features_of(omega[kernel], x[t])
        gradient = 2.0 * (z @ theta - y[t])[:, None] * z + 2.0 * lam * theta
        gradients += np.sum(gradient**2)
    regret = loss - best.shared_errors.sum() - lam * norm**2 * n * clients
    sharp = clients * norm**2 / (2.0 * eta) + 0.5 * eta * gradients
    sharp += clients * math.log(N) / eta_k + 0.5 * eta_k * squares
    assert 0.0 < regret <= sharp
    assert federation.totals.worst[1] <= 1.0
    assert sharp <= server_regret_bound(params, N, clients, np.array([n]), norm)[0]


def test_theorem_2_as_it_is_written():
    """(14), term by term, and the least p that (8) allows."""
    pof = federated.load("pof_mkl")
    params = pof.Params(Schedule(0.1, 0.0), Schedule(0.5, 0.0), lam=0.0, xi=0.2, M=2)
    value = server_regret_bound(params, 5, 7, np.array([100]), 3.0, epsilon=0.01, C=3.0)
    L, p = 2.0, 0.2 / 3
    expected = 7 * 3.0**2 / 0.2 + 0.05 * 700 * L**2 / p
    expected += 7 * (math.log(5) / 0.5 + 0.25 * 100) + 0.01 * L * 700 * 3.0
    assert value == pytest.approx([expected])
    every = params._replace(M=5)
    assert server_regret_bound(every, 5, 7, np.array([100]), 3.0)[0] == pytest.approx(
        7 * 3.0**2 / 0.2 + 0.05 * 700 * L**2 + 7 * (math.log(5) / 0.5 + 25)
    )
    assert (
        server_regret_bound(params._replace(eta=Schedule(0.1, -0.5)), 5, 7, np.array([1]), 3.0)
        is None
    )
    vm = federated.load("vm_kofl").Params(Schedule(0.1, 0.0), Schedule(0.1, 0.0), lam=0.0)
    assert server_regret_bound(vm, 5, 7, np.array([1]), 3.0) is None
