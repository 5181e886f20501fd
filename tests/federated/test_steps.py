"""The first rounds of every federated algorithm against the paper's equations, written out.

Equation numbers are those of Ghari and Shen, "Personalized Online Federated Learning with
Multiple Kernels", NeurIPS 2022. Weights are multiplied as the paper does, features and
gradients are plain NumPy. Only what is random is read from the generators.
"""

import collections
import itertools
import math

import numpy as np
import pytest

from omkl import algorithms, federated
from omkl.checks import learners
from omkl.checks.federations import streams
from omkl.core.hyperparameters import Schedule
from omkl.core.kernels import Kernel
from omkl.core.learner import Learner
from omkl.core.representations.random_features import draw_features
from omkl.core.rng import party_generators
from omkl.core.weights import normalised
from omkl.federated.algorithms.fomd_oms import draw_others
from omkl.federated.algorithms.perfedavg import layer_sizes, n_parameters
from omkl.federated.exchange import Exchange, links_of
from omkl.federated.privacy import NO_SAFEGUARDS
from omkl.federated.protocol import features_for
from omkl.federated.simulation import Federation

FIVE = tuple(Kernel("gaussian", b) for b in (0.01, 0.1, 1.0, 10.0, 100.0))
K, T, D, SEED = 3, 6, 2, 4
ETA, ETA_W, LAM = 0.2, 0.7, 0.3
rng = np.random.default_rng(0)
X = rng.uniform(-1.0, 1.0, size=(T, K, 1))
Y = rng.normal(scale=1.5, size=(T, K))  # large labels: weights move apart at once


def run(name, lengths=None, **settings):
    algorithm = federated.load(name)
    params = algorithm.Params(**settings)
    federation = Federation(algorithm, params, FIVE, 1, D, SEED, K, lengths=lengths)
    return federation, federation.partial_fit(X, Y)


class Paper:
    """theta_i and the equations that all learners share."""

    def __init__(self, kernels=FIVE):
        self.psi = draw_features(kernels, 1, D, SEED).omega[:, 0, :].copy()  # (N, D), one input
        self.theta = np.zeros((len(kernels), 2 * D))
        self.server, *self.clients = party_generators(SEED, K)

    def z(self, i, x):
        angle = self.psi[i] * x[0]
        return np.concatenate([np.sin(angle), np.cos(angle)]) / math.sqrt(D)

    def f(self, theta, x):
        return np.array([theta[i] @ self.z(i, x) for i in range(len(theta))])

    def loss(self, theta, x, y):
        return (self.f(theta, x) - y) ** 2 + LAM * np.sum(theta**2, axis=1)

    def gradient(self, theta, i, x, y):
        return 2.0 * (theta[i] @ self.z(i, x) - y) * self.z(i, x) + 2.0 * LAM * theta[i]


@pytest.mark.parametrize("lengths", [(T, T, T), (T, 1, 4)])
@pytest.mark.parametrize(("M", "xi"), [(1, 0.3), (1, 1.0), (2, 0.4), (2, 1.0), (5, 1.0)])
def test_pof_mkl(M, xi, lengths):
    """Clients of unequal length too: K in (10) counts those that are there."""
    steps = {"eta": Schedule(ETA, 0.0), "eta_k": Schedule(ETA_W, 0.0)}
    federation, trace = run("pof_mkl", np.array(lengths), **steps, lam=LAM, xi=xi, M=M)
    paper = Paper()
    w = np.ones((K, 5))
    total, best = np.zeros(K), np.zeros((K, 5))
    sent = np.zeros((K, 2), dtype=int)
    m = math.ceil(5 / M)
    for t in range(T):
        moved = np.zeros_like(paper.theta)
        there = [k for k in range(K) if t < lengths[k]]
        for k in there:
            x, y = X[t, k], Y[t, k]
            f, loss = paper.f(paper.theta, x), paper.loss(paper.theta, x, y)
            share = w[k] / w[k].sum()
            assert trace.y_hat[t, k] == pytest.approx(share @ f, abs=1e-12)  # (6)
            # Algorithm 1 and (8).
            by_weight = sorted(range(5), key=lambda i: (-w[k, i], i))
            bins = [by_weight[j * M : (j + 1) * M] for j in range(m)]
            u = np.array([w[k, members].sum() for members in bins])
            q = (1.0 - xi) * u / u.sum() + xi / m
            drawn = int(np.searchsorted(np.cumsum(q), paper.clients[k].random(), side="right"))
            for i in bins[drawn]:  # (9) and (10)
                moved[i] += ETA * paper.gradient(paper.theta, i, x, y) / q[drawn]
            total[k] += (share @ f - y) ** 2 + LAM * (share @ np.sum(paper.theta**2, axis=1))
            best[k] += loss
            assert trace.regret[t, k] == pytest.approx(total[k] - best[k].min(), abs=1e-11)  # (11)
            w[k] *= np.exp(-ETA_W * loss)  # (7)
            sent[k] += len(bins[drawn]) * 2 * D, len(bins[drawn])
        paper.theta -= moved / len(there)
    np.testing.assert_allclose(federation.server.model.theta, paper.theta, atol=1e-12)
    kept = np.exp(federation.clients.log_w)
    np.testing.assert_allclose(kept, w, rtol=1e-10)
    np.testing.assert_array_equal(federation.totals.sent, sent)


def test_vm_kofl():
    federation, trace = run("vm_kofl", eta=Schedule(ETA, 0.0), eta_w=Schedule(ETA_W, 0.0), lam=LAM)
    paper, w = Paper(), np.ones(5)
    for t in range(T):
        new, losses = np.zeros_like(paper.theta), np.zeros(5)
        for k in range(K):
            x, y = X[t, k], Y[t, k]
            y_hat = w @ paper.f(paper.theta, x) / w.sum()
            assert trace.y_hat[t, k] == pytest.approx(y_hat, abs=1e-12)
            for i in range(5):
                new[i] += paper.theta[i] - ETA * paper.gradient(paper.theta, i, x, y)
            losses += paper.loss(paper.theta, x, y)
        paper.theta, w = new / K, w * np.exp(-ETA_W * losses / K)
    np.testing.assert_allclose(federation.server.model.theta, paper.theta, atol=1e-12)
    assert np.all(federation.totals.sent == [T * (5 * 2 * D + 5), T * 5])


def test_em_kofl():
    federation, trace = run("em_kofl", eta=Schedule(ETA, 0.0), eta_w=Schedule(ETA_W, 0.0), lam=LAM)
    paper, w = Paper(), np.ones(5)
    mine = np.zeros((K, 5, 2 * D))  # what each client has learned
    then = 0
    for t in range(T):
        below = np.cumsum(w / w.sum())
        u = paper.server.random(2)
        now = int(np.searchsorted(below, u[0], side="right")) if t == 0 else then
        then = int(np.searchsorted(below, u[1], side="right"))
        new, losses = np.zeros(2 * D), np.zeros(5)
        for k in range(K):
            x, y = X[t, k], Y[t, k]
            mine[k, now] = paper.theta[now]
            f = paper.f(mine[k], x)
            assert trace.y_hat[t, k] == pytest.approx(f[now], abs=1e-12)
            losses += paper.loss(mine[k], x, y)
            mine[k] -= ETA * np.array([paper.gradient(mine[k], i, x, y) for i in range(5)])
            new += mine[k, then]
        paper.theta[then] = new / K
        w = w * np.exp(-ETA_W * losses / K)
    np.testing.assert_allclose(federation.server.model.theta, paper.theta, atol=1e-12)
    np.testing.assert_allclose(federation.clients.theta, mine, atol=1e-12)
    assert np.all(federation.totals.sent == [T * (2 * D + 5), T])


def waves(omega_i, x):
    """z_i(x) = (sin(omega_i'x), cos(omega_i'x)) / sqrt(D); omega_i (d, D), x (d,)."""
    a = x @ omega_i
    return np.concatenate([np.sin(a), np.cos(a)]) / np.sqrt(omega_i.shape[1])


def fomd_oms(omega, X, y, first, second, eta, step, radius):
    """The authors' FOMD-OMS.R with these kernels drawn: y_hat (T, M), p (T + 1, N).

    omega (N, d, D), X (T, M, d), y, first and second (T, M)
    """
    K, _, D = omega.shape
    T, M, _ = X.shape
    J, C = 2, radius + 1.0
    W = np.zeros((K, 2 * D))  # one model per kernel, shared by all clients
    y_hat = np.zeros((T, M))
    p = np.zeros((T + 1, K))
    p[0] = 1.0 / K
    for t in range(T):
        loss = np.zeros((M, K))  # 0 for the kernels that a client did not evaluate
        grad = np.zeros((M, J, 2 * D))
        for j in range(M):  # clients: W and p are those of the start of the round
            for r, i in enumerate((first[t, j], second[t, j])):
                z = waves(omega[i], X[t, j])
                f = W[i] @ z  # not clipped
                loss[j, i] = (f - y[t, j]) ** 2
                grad[j, r] = 2.0 * (f - y[t, j]) * z
                if r == 0:
                    y_hat[t, j] = f
        c = np.zeros(K)
        for i in range(K):  # server
            P_S = (K - J) / (K - 1) * p[t, i] + (J - 1) / (K - 1)
            g = np.zeros(2 * D)
            for j in range(M):
                c[i] += loss[j, i] / P_S
                if first[t, j] == i:
                    g += grad[j, 0] / P_S
                if second[t, j] == i:
                    g += grad[j, 1] / P_S
            c[i] /= M
            W[i] = W[i] - step * g / M
            norm = np.sqrt(W[i] @ W[i])
            if norm > radius:
                W[i] = W[i] * radius / norm
        w = p[t] * np.exp(-eta * c / C)
        p[t + 1] = w / w.sum()
    return y_hat, p


@pytest.mark.parametrize(("eta", "step", "radius"), [(16.0, 0.5, 1.0), (0.7, 0.2, 0.3)])
def test_fomd_oms(eta, step, radius):
    """The settings of the code too, where weights go apart at once; kernels are drawn by them."""
    federation, (x, y), y_hat, p, drawn = play_fomd_oms(eta, step, radius)
    expected, weights = fomd_oms(OMEGA, x, y, *drawn, eta, step, radius)
    np.testing.assert_allclose(y_hat, expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(p, np.repeat(weights[:, None], K, axis=1), rtol=0, atol=1e-12)
    assert weights[-1].max() > 0.5 and np.abs(expected).max() > 0.1
    norms = np.linalg.norm(federation.server.model.theta, axis=1)
    assert norms.max() == pytest.approx(radius)
    assert np.all(federation.totals.sent == [60 * 2 * (2 * D + 1), 60 * 2])


def test_fomd_oms_without_exchange_is_nco_oms():
    """Each client is a federation of its own, as in the authors' NCO-OMS-2.R."""
    settings = 1.0, 0.2, 0.5
    links = links_of(Exchange(every=61), K, SEED)
    federation, (x, y), y_hat, p, drawn = play_fomd_oms(*settings, links)
    for k in range(K):
        own = slice(k, k + 1)
        draws = drawn[0][:, own], drawn[1][:, own]
        expected, weights = fomd_oms(OMEGA, x[:, own], y[:, own], *draws, *settings)
        np.testing.assert_allclose(y_hat[:, own], expected, rtol=0, atol=1e-12)
        np.testing.assert_allclose(p[:, k], weights, rtol=0, atol=1e-12)
    assert np.abs(p[-1, 0] - p[-1, 1]).max() > 0.01 and not federation.totals.sent.any()


OMEGA = draw_features(FIVE, 3, D, SEED).omega


def play_fomd_oms(eta, step, radius, links=None):
    """Return federation, rows, y_hat (60, K), weights (61, K, N) and the drawn kernels."""
    algorithm = federated.load("fomd_oms")
    params = algorithm.Params(Schedule(step, 0.0), Schedule(eta, 0.0), U=radius, M=2)
    federation = Federation(algorithm, params, FIVE, 3, D, SEED, K, links=links)
    x, y = streams(60, K)
    clients = party_generators(SEED, K)[1:]
    y_hat, p, first, second = [], [], [], []
    for t in range(60):
        p.append([normalised(log_w) for log_w in np.broadcast_to(federation.servers.log_w, (K, 5))])
        u = np.array([client.random(2) for client in clients])
        below = np.cumsum(p[t], axis=1)
        first.append((below <= u[:, :1]).sum(axis=1))
        second.append((4 * u[:, 1]).astype(int))  # of the four others
        second[t] += second[t] >= first[t]
        y_hat.append(federation.partial_fit(x[t : t + 1], y[t : t + 1]).y_hat[0])
    p.append([normalised(log_w) for log_w in np.broadcast_to(federation.servers.log_w, (K, 5))])
    drawn = np.array(first), np.array(second)
    return federation, (x, y), np.array(y_hat), np.array(p), drawn


def test_fomd_oms_draws_every_kernel_as_often_as_it_says():
    """And every set of the others as often as any other."""
    algorithm, n = federated.load("fomd_oms"), 20_000
    params = algorithm.Params(Schedule(1e-9, 0.0), Schedule(1e-9, 0.0), U=1.0, M=3)
    federation = Federation(algorithm, params, FIVE, 1, D, SEED, n_clients=1)
    federation.server.log_w[:] = np.log([1.0, 5.0, 2.0, 1.0, 1.0])
    federation.partial_fit(np.zeros((n, 1, 1)), np.zeros((n, 1)))
    expected = 2.0 / 4.0 * np.array([0.1, 0.5, 0.2, 0.1, 0.1]) + 2.0 / 4.0
    np.testing.assert_allclose(federation.totals.used / n, expected, atol=5 * 0.5 / math.sqrt(n))
    counts = collections.Counter()
    rows = np.array([2, 0, 0])
    for u in np.random.default_rng(0).random((n, 3)):
        draw_others(rows, 3, 5, u)
        counts[tuple(sorted(rows[1:]))] += 1
    assert sorted(counts) == [(0, 1), (0, 3), (0, 4), (1, 3), (1, 4), (3, 4)]
    np.testing.assert_allclose(np.array(list(counts.values())) / n, 1 / 6, atol=0.015)


@pytest.mark.parametrize(
    "guards", [NO_SAFEGUARDS, NO_SAFEGUARDS._replace(trim=0.3, clients_per_round=5)]
)
def test_fomd_oms_with_all_kernels_learns_as_vm_kofl(guards):
    """Without a penalty and with a ball that nobody leaves; it predicts with one kernel."""
    far, ends = 1e3, []
    x, y = streams(40, 7)
    for name, own in (
        ("vm_kofl", {"eta_w": Schedule(ETA_W, 0.0), "lam": 0.0}),
        ("fomd_oms", {"eta_w": Schedule(ETA_W * (far + 1.0), 0.0), "U": far, "M": 5}),
    ):
        algorithm = federated.load(name)
        params = algorithm.Params(eta=Schedule(ETA, 0.0), **own)
        federation = Federation(algorithm, params, FIVE, 3, D, SEED, 7, guards=guards)
        federation.partial_fit(x, y)
        ends.append((federation.server.model.theta, federation.server.log_w))
    for ours, expected in zip(*ends, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["ofmkl_avg", "ofskl"])
def test_fed_omd(name):
    single = {"bandwidth": 10.0} if name == "ofskl" else {}
    federation, trace = run(name, eta=Schedule(ETA, 0.0), lam=LAM, **single)
    kernels = (Kernel("gaussian", 10.0),) if single else FIVE
    paper = Paper(kernels)
    for t in range(T):
        new = np.zeros_like(paper.theta)
        for k in range(K):
            x, y = X[t, k], Y[t, k]
            assert trace.y_hat[t, k] == pytest.approx(paper.f(paper.theta, x).mean(), abs=1e-12)
            for i in range(len(kernels)):
                new[i] += paper.theta[i] - ETA * paper.gradient(paper.theta, i, x, y)
        paper.theta = new / K
    np.testing.assert_allclose(federation.server.model.theta, paper.theta, atol=1e-12)


def test_perfedavg():
    algorithm = federated.load("perfedavg")
    params = algorithm.Params(alpha=Schedule(0.1, 0.0), beta=Schedule(0.05, 0.0), neurons=3)
    federation = Federation(algorithm, params, (), 1, D, SEED, K, max_upload=25)
    model = federation.server.model
    sizes = model.sizes.tolist()
    assert sizes == [1, 3, 3, 1] and model.theta.shape == (1, 22)
    theta = model.theta[0].copy()

    def net(theta, x):
        value, start = x, 0
        for a, b in itertools.pairwise(sizes):
            weights = theta[start : start + a * b].reshape(b, a)
            value = weights @ value + theta[start + a * b : start + (a + 1) * b]
            start += (a + 1) * b
            if start < len(theta):
                value = np.maximum(value, 0.0)
        return value[0]

    def gradient(theta, x, y, step=1e-6):
        return np.array(
            [
                ((net(theta + e, x) - y) ** 2 - (net(theta - e, x) - y) ** 2) / (2.0 * step)
                for e in step * np.eye(len(theta))
            ]
        )

    trace = federation.partial_fit(X, Y)
    for t in range(T):
        new = np.zeros_like(theta)
        for k in range(K):
            x, y = X[t, k], Y[t, k]
            assert trace.y_hat[t, k] == pytest.approx(net(theta, x), abs=1e-7)
            adapted = theta - 0.1 * gradient(theta, x, y)
            new += theta - 0.05 * gradient(adapted, x, y)
        theta = new / K
    np.testing.assert_allclose(federation.server.model.theta[0], theta, atol=1e-7)


def test_the_largest_network_below_1000_parameters():
    """Appendix C: at most 20 neurons a layer, as many layers as fit."""
    assert layer_sizes(15, 20, 1000) == [15, 20, 20, 1]  # naval
    assert layer_sizes(14, 20, 1000) == [14, 20, 20, 1]  # beijing_air
    assert layer_sizes(48, 20, 1000) == [48, 19, 1]  # wec: 1001 with 20
    assert layer_sizes(520, 20, 1000) == [520, 1, 1]  # uji
    assert n_parameters([15, 20, 20, 1]) == 761
    with pytest.raises(ValueError, match="max_upload=100: a network of 520 inputs"):
        layer_sizes(520, 20, 100)


def test_one_client_with_all_kernels_is_the_central_learner():
    """K = 1, M = N, xi = 1: Raker, bit for bit."""
    step = Schedule(0.1, -0.5)
    pof, raker = federated.load("pof_mkl"), algorithms.load("raker")
    N = len(learners.DICTIONARY)
    params = pof.Params(eta=step, eta_k=step, lam=1e-3, xi=1.0, M=N)
    x, y = learners.stream()
    alone = Federation(pof, params, learners.DICTIONARY, 3, 8, SEED, n_clients=1)
    central = Learner(raker, raker.Params(step, 1e-3), learners.DICTIONARY, 3, 8, SEED)
    y_hat = alone.partial_fit(x[:, None], y[:, None]).y_hat[:, 0]
    np.testing.assert_array_equal(y_hat, central.partial_fit(x, y).y_hat)
    np.testing.assert_array_equal(alone.server.model.theta, central.state.model.theta)
    np.testing.assert_array_equal(alone.clients.log_w[0], central.state.log_w)


def test_the_draw_follows_8():
    """A client's bins are drawn as often as (8) says, and 1 / p is an unbiased weight."""
    params = federated.load("pof_mkl").Params(
        Schedule(1e-9, 0.0), Schedule(1e-9, 0.0), lam=0.0, xi=0.25, M=2
    )
    n = 20_000
    federation = Federation(federated.load("pof_mkl"), params, FIVE, 1, D, SEED, n_clients=1)
    federation.clients.log_w[0] = np.log([1.0, 5.0, 2.0, 1.0, 1.0])
    federation.partial_fit(np.zeros((n, 1, 1)), np.zeros((n, 1)))
    expected = 0.75 * np.array([0.2, 0.7, 0.7, 0.2, 0.1]) + 0.25 / 3.0
    np.testing.assert_allclose(federation.totals.used / n, expected, atol=5 * 0.5 / math.sqrt(n))


@pytest.mark.parametrize(
    ("name", "M", "D_of_the_paper", "numbers"),
    [
        ("pof_mkl", 1, 100, 200),
        ("pof_mkl", 25, 20, 1000),
        ("pof_mkl", 51, 9, 918),
        ("vm_kofl", None, 9, 969),
        ("em_kofl", None, 100, 251),
        ("ofmkl_avg", None, 9, 918),
        ("fomd_oms", 2, 100, 402),
    ],
)
def test_features_from_the_budget(name, M, D_of_the_paper, numbers):
    """Section 4: at most 1000 numbers a round, at most 100 features, 51 kernels."""
    algorithm = federated.load(name)
    step = Schedule(0.1, 0.0)
    fields = dict.fromkeys(algorithm.Params._fields, step)
    fields |= {"lam": 0.0, "xi": 1.0, "U": 1.0, "M": M}
    params = algorithm.Params(**{k: v for k, v in fields.items() if k in algorithm.Params._fields})
    assert features_for(algorithm, params, 51, 1000) == D_of_the_paper
    assert algorithm.upload(params, 51, 2 * D_of_the_paper) == numbers
    with pytest.raises(ValueError, match=r"max_upload=1: .* sends at least"):
        features_for(algorithm, params, 51, 1)
