"""Clients on a graph without a server, exchanges now and then, and messages of fewer bits."""

import math

import numpy as np
import pytest

from omkl.checks import federations, shared
from omkl.checks.federations import streams
from omkl.config.settings import complete
from omkl.core.hyperparameters import Schedule
from omkl.core.kernels import Kernel
from omkl.core.representations.random_features import draw_features
from omkl.core.rng import ROUNDING, generators
from omkl.experiment import run as runner
from omkl.federated import load
from omkl.federated.exchange import Exchange, connected, graph_of, links_of, links_of_graph
from omkl.federated.messages import empty_message, quantise
from omkl.federated.parties import Server
from omkl.federated.simulation import Federation
from tests.compositions import compose

ON_A_GRAPH = ["domkl", "fomd_oms", "ofmkl_avg", "ofskl", "perfedavg", "pof_mkl", "vm_kofl"]
DICTIONARY = tuple(Kernel("gaussian", b) for b in (0.1, 1.0, 10.0))
D, SEED, ETA, ETA_W, LAM = 2, 3, 0.2, 0.5, 0.02
# Clients 0 to 5 with 1, 3, 2, 2, 3 and 1 neighbours.
EDGES = [(0, 1), (1, 2), (1, 3), (2, 4), (3, 4), (4, 5)]


def house():
    adjacency = np.zeros((6, 6), dtype=bool)
    for k, other in EDGES:
        adjacency[k, other] = adjacency[other, k] = True
    return adjacency


def metropolis(adjacency):
    """a_kl = 1 / (1 + max(d_k, d_l)) of neighbours, a_kk what is left of 1."""
    degree = adjacency.sum(axis=1)
    K = len(degree)
    a = np.zeros((K, K))
    for k in range(K):
        for other in range(K):
            if adjacency[k, other]:
                a[k, other] = 1.0 / (1.0 + max(degree[k], degree[other]))
        a[k, k] = 1.0 - a[k].sum()
    return a


def features(X):
    """z (T, K, N, 2 D) of X (T, K, d)."""
    omega = draw_features(DICTIONARY, X.shape[2], D, SEED).omega
    angles = np.einsum("tkd,ndf->tknf", X, omega)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1) / math.sqrt(D)


def learned(name, links, X, y, lengths=None, **settings):
    algorithm = load(name)
    sizes = X.shape[2], D, SEED, X.shape[1]
    params = algorithm.Params(**settings)
    federation = Federation(algorithm, params, DICTIONARY, *sizes, lengths=lengths, links=links)
    return federation, federation.partial_fit(X, y)


def vm_kofl(X, y, mixing, lengths, every=1, levels=0):
    """vM-KOFL whose clients take means by the matrix ``mixing`` (K, K): y_hat (T, K), theta.

    A neighbour that is done counts no more; between exchanges a client takes its own message.
    """
    (T, K), z, N = y.shape, features(X), len(DICTIONARY)
    theta, log_w = np.zeros((K, N, 2 * D)), np.zeros((K, N))
    y_hat, rngs = np.full((T, K), np.nan), generators(SEED, ROUNDING, K)
    for t in range(T):
        there = np.flatnonzero(t < lengths)
        sent, losses = {}, {}
        for k in there:
            w = np.exp(log_w[k] - log_w[k].max())
            f = np.sum(theta[k] * z[t, k], axis=1)
            y_hat[t, k] = w @ f / w.sum()
            losses[k] = (f - y[t, k]) ** 2 + LAM * np.sum(theta[k] ** 2, axis=1)
            step = -ETA * (2.0 * (f - y[t, k])[:, None] * z[t, k] + 2.0 * LAM * theta[k])
            if levels:
                largest = np.abs(step).max(axis=1, keepdims=True)
                part = np.abs(step) / largest * levels
                up = rngs[k].random(step.shape)
                upper = part - np.floor(part)  # of a negative number the upper one is nearer 0
                away = np.where(step < 0.0, up >= 1.0 - upper, up < upper)
                step = np.sign(step) * (np.floor(part) + away) / levels * largest
            sent[k] = theta[k] + step
        a = mixing if (t + 1) % every == 0 else np.eye(K)
        for k in there:
            shares = a[k, there] / a[k, there].sum()
            theta[k] = sum(share * sent[j] for share, j in zip(shares, there, strict=True))
            log_w[k] -= ETA_W * sum(
                share * losses[j] for share, j in zip(shares, there, strict=True)
            )
    return y_hat, theta


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("lengths", [(40,) * 6, (40, 17, 40, 5, 40, 40)], ids=["all", "some end"])
def test_vm_kofl_on_a_graph_against_plain_numpy(every, lengths):
    X, y = streams(40, K=6)
    lengths = np.array(lengths)
    settings = {"eta": Schedule(ETA, 0.0), "eta_w": Schedule(ETA_W, 0.0), "lam": LAM}
    links = links_of_graph(house(), every)
    federation, trace = learned("vm_kofl", links, X, y, lengths, **settings)
    y_hat, theta = vm_kofl(X, y, metropolis(house()), lengths, every)
    np.testing.assert_allclose(trace.y_hat, y_hat, rtol=0, atol=1e-12)
    there = lengths == 40
    np.testing.assert_allclose(
        federation.servers.model.theta[there], theta[there], rtol=0, atol=1e-12
    )
    # Each message has 3 kernels and 3 losses, and goes to every neighbour.
    copies = house().sum(axis=1) * (lengths // every)
    np.testing.assert_array_equal(federation.totals.sent[:, 0], copies * (3 * 2 * D + 3))
    np.testing.assert_array_equal(federation.totals.sent[:, 1], copies * 3)


def test_fed_omd_on_a_graph_is_combine_then_adapt():
    """psi_k = sum a_kl theta_l; theta_k = psi_k + mu (y - psi_k'z) z, and psi_k'z is predicted."""
    X, y = streams(40, K=6)
    links = links_of_graph(house())
    _, trace = learned("ofmkl_avg", links, X, y, eta=Schedule(0.1, 0.0), lam=0.0)
    z, mu = features(X), 0.2  # the step of a squared error is 2 eta
    theta = np.zeros((6, 3, 2 * D))
    for t in range(40):
        psi = np.einsum("kl,lnf->knf", metropolis(house()), theta)
        f = np.sum(psi * z[t], axis=2)
        np.testing.assert_allclose(trace.y_hat[t], f.mean(axis=1), rtol=0, atol=1e-12)
        theta = psi + mu * (y[t][:, None] - f)[..., None] * z[t]


def domkl(X, y, pull, eta, share):
    """Predictions (T, K) by the rounds of the authors' Domkl_online_rf.m.

    ``pull`` (K, K) is their rho for each pair of neighbours and 0 for all others, ``eta`` (K,)
    their eta, ``share`` (K, K) the step of a client's weights by the losses of each client.
    """
    (T, K), z, N = y.shape, features(X) * math.sqrt(D), len(DICTIONARY)
    theta, multiplier = np.zeros((2, K, N, 2 * D))
    log_w, y_hat = np.zeros((K, N)), np.zeros((T, K))
    all_pull = pull.sum(axis=1)
    for t in range(T):
        f = np.sum(theta * z[t], axis=2)
        w = np.exp(log_w)
        y_hat[t] = np.sum(w * f, axis=1) / w.sum(axis=1)
        new = np.empty_like(theta)
        for k in range(K):
            for i in range(N):
                zi, neighbours = z[t, k, i], pull[k] @ theta[:, i]
                right = 2.0 * y[t, k] * zi + eta[k] * theta[k, i] - multiplier[k, i]
                right += (all_pull[k] * theta[k, i] + neighbours) / 2.0
                A = 2.0 * np.outer(zi, zi) + (eta[k] + all_pull[k]) * np.eye(2 * D)
                new[k, i] = np.linalg.inv(A) @ right
        theta = new
        apart = all_pull[:, None, None] * theta - np.einsum("kl,lnf->knf", pull, theta)
        multiplier = multiplier + apart / 2.0
        log_w -= share @ (f - y[t][:, None]) ** 2
    return y_hat


def test_domkl_with_a_server_is_the_authors_code_of_clients_that_are_all_neighbours():
    X, y = streams(40, K=4)
    apart = 1.0 - np.eye(4)
    settings = {"c": (10.0 + 3 * 100.0) / D, "rho": 4 * 100.0 / D, "eta_w": Schedule(4 * 0.1, 0.0)}
    _, trace = learned("domkl", None, X, y, **settings)
    expected = domkl(X, y, 100.0 * apart, np.full(4, 10.0), np.full((4, 4), 0.1))
    np.testing.assert_allclose(trace.y_hat, expected, rtol=0, atol=1e-11)


def test_domkl_on_a_graph_has_the_weights_of_its_means():
    X, y = streams(40, K=6)
    mixing, c, rho = metropolis(house()), 3.0, 2.0
    settings = {"c": c, "rho": rho, "eta_w": Schedule(ETA_W, 0.0)}
    federation, trace = learned("domkl", links_of_graph(house()), X, y, **settings)
    pull = D * rho * (mixing - np.diag(np.diag(mixing)))
    expected = domkl(X, y, pull, D * c - pull.sum(axis=1), ETA_W * mixing)
    np.testing.assert_allclose(trace.y_hat, expected, rtol=0, atol=1e-12)
    sums = federation.clients.multiplier.sum(axis=0)
    np.testing.assert_allclose(sums, 0.0, rtol=0, atol=1e-12)
    assert np.abs(federation.clients.multiplier).max() > 0.01


@pytest.mark.parametrize("name", ON_A_GRAPH)
def test_a_complete_graph_is_a_server_to_the_bit(name):
    case, K = federations.Case(name), federations.CLIENTS
    X, y = streams(60)
    server, clients = case.learner(), case.learner(links=links_of(Exchange("complete"), K, 0))
    shared.require_equal([clients.partial_fit(X, y)], server.partial_fit(X, y))
    for theta in clients.servers.model.theta:
        np.testing.assert_array_equal(theta, server.server.model.theta)
    np.testing.assert_array_equal(clients.totals.sent, (K - 1) * server.totals.sent)


@pytest.mark.parametrize("name", ["pof_mkl", "vm_kofl"])
def test_what_a_client_sees_travels_an_edge_in_a_round(name):
    case = federations.Case(name)
    links = links_of(Exchange("ring"), 5, 0)
    X, y = streams(70)
    other = y.copy()
    other[57, 2] = 1.0 - other[57, 2]
    first = case.learner(links=links, M=len(federations.DICTIONARY)).partial_fit(X, y).y_hat
    second = case.learner(links=links, M=len(federations.DICTIONARY)).partial_fit(X, other).y_hat
    changed = [int(np.argmax(first[:, k] != second[:, k])) for k in range(5)]
    assert changed == [59, 58, 58, 58, 59]


def test_a_server_heard_from_now_and_then_brings_clients_together():
    """Between exchanges clients part; an exchange of all kernels makes them one again."""
    case, K = federations.Case("ofmkl_avg"), federations.CLIENTS
    X, y = streams(12)
    federation, apart = case.learner(links=links_of(Exchange(every=4), K, 0)), []
    for s in range(12):
        federation.partial_fit(X[s : s + 1], y[s : s + 1])
        apart.append(federation.disagreement > 1e-9)
    assert apart == [True, True, True, False] * 3
    assert federation.totals.sent[0, 0] == 3 * federation.server.model.theta.size  # to the server


# --- graphs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "K", "n_edges"),
    [("complete", 5, 10), ("ring", 5, 5), ("ring", 2, 1), ("grid", 7, 8), ("random", 30, None)],
)
def test_graphs(name, K, n_edges):
    adjacency = graph_of(name, K, 0.3, np.random.default_rng(0))
    assert np.array_equal(adjacency, adjacency.T) and not adjacency.diagonal().any()
    assert connected(adjacency)
    assert n_edges is None or adjacency.sum() == 2 * n_edges
    links = links_of_graph(adjacency)
    mixing = np.zeros((K, K))
    for k in range(K):
        for e in range(links.first[k], links.first[k + 1]):
            mixing[links.to[e], k] = links.weight[e]
    mixing /= mixing.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(mixing, metropolis(adjacency), rtol=0, atol=1e-15)
    np.testing.assert_allclose(mixing.sum(axis=0), 1.0, rtol=0, atol=1e-14)


def test_a_random_graph_has_the_edges_that_were_asked_for():
    adjacency = graph_of("random", 200, 0.3, np.random.default_rng(0))
    assert adjacency.sum() / (200 * 199) == pytest.approx(0.3, abs=0.01)
    with pytest.raises(ValueError, match=r"none of 1,000 random graphs of 50 clients is connected"):
        graph_of("random", 50, 0.001, np.random.default_rng(0))


def test_clients_that_never_hear_of_each_other_are_refused():
    apart = np.zeros((4, 4), dtype=bool)
    apart[0, 1] = apart[1, 0] = apart[2, 3] = apart[3, 2] = True
    with pytest.raises(ValueError, match="is not connected"):
        links_of_graph(apart)


# --- fewer bits -----------------------------------------------------------------------------------


def test_the_expectation_of_a_rounded_entry_is_the_entry():
    rng = np.random.default_rng(0)
    theta, change = rng.normal(size=(4, 6)), rng.normal(size=(2, 6))
    rows, levels, n = np.array([3, 1]), 3, 2000
    total = np.zeros_like(change)
    for i in range(n):  # every part of [0, 1) once
        message = empty_message(2, 6, 0)
        message.rows[:], message.n[0] = rows, 2
        message.theta[:] = theta[rows] + change
        quantise(levels, False, theta, message, np.full(12, (i + 0.5) / n))
        rounded = message.theta - theta[rows]
        largest = np.abs(change).max(axis=1, keepdims=True)
        values = rounded / largest * levels
        np.testing.assert_allclose(values, np.rint(values), rtol=0, atol=1e-12)
        assert np.all(np.abs(rounded - change) <= largest / levels + 1e-12)
        total += rounded
    np.testing.assert_allclose(total / n, change, rtol=0, atol=2.0 / (levels * n))


def test_messages_of_three_bits_against_plain_numpy():
    X, y = streams(40, K=4)
    links, lengths = links_of(Exchange(bits=3), 4, 0), np.full(4, 40)
    settings = {"eta": Schedule(ETA, 0.0), "eta_w": Schedule(ETA_W, 0.0), "lam": LAM}
    federation, trace = learned("vm_kofl", links, X, y, **settings)
    y_hat, theta = vm_kofl(X, y, np.full((4, 4), 0.25), lengths, levels=3)
    np.testing.assert_allclose(trace.y_hat, y_hat, rtol=0, atol=1e-12)
    np.testing.assert_allclose(federation.server.model.theta, theta[0], rtol=0, atol=1e-12)


# --- as a run -------------------------------------------------------------------------------------

WORDS = [
    "dataset=synthetic", "dataset.rows=300", "kernels=gaussian17", "federation=iid", "clients=6",
    "federation.rounds=40", "seeds=2", "D=5", "figures=false", "tracking=none",
]  # fmt: skip


def outcome(tmp_path, *words):
    run = runner.run(compose([*WORDS, f"outputs={tmp_path}", *words])).run
    return run.result["federated"], run.curves


def test_a_run_on_a_graph_says_what_it_sent(tmp_path):
    words = "algorithm=ofmkl_avg", "exchange.graph=ring", "exchange.every=4"
    ring, _ = outcome(tmp_path, *words)
    assert ring["exchange"] == {"graph": "ring", "every": 4}
    assert ring["up"] == ring["down"]
    message = 17 * (2 * 5)
    assert ring["up"]["numbers"] == 2 * 10 * message  # neighbours, exchanges
    assert ring["up"]["bytes"] == 2 * 10 * 8 * (message + 17)
    assert ring["bytes_of_all"] == 6 * ring["up"]["bytes"]
    assert 0.0 < ring["disagreement"] < 1.0


def test_a_run_of_four_bits_says_its_bytes(tmp_path):
    plain, _ = outcome(tmp_path, "algorithm=vm_kofl")
    few, _ = outcome(tmp_path, "algorithm=vm_kofl", "exchange.bits=4")
    assert "exchange" not in plain and few["exchange"] == {"bits": 4}
    assert few["up"]["numbers"] == plain["up"]["numbers"] and few["down"] == plain["down"]
    # Of each kernel its index, its largest entry and ten of half a byte; of each a loss.
    assert few["up"]["bytes"] == 40 * 17 * (8 + 8 + 5 + 8)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["algorithm=em_kofl", "exchange.graph=ring"], "the server of em_kofl draws for all"),
        (
            ["algorithm=ofskl", "exchange.graph=ring", "robust.trim=0.1"],
            "need a server that receives",
        ),
        (["algorithm=ofskl", "exchange.every=2", "exchange.bits=4"], "leave out exchange.graph"),
        (["algorithm=ofskl", "exchange.graph=ring", "exchange.edges=0.5"], "exchange.graph=random"),
    ],
)
def test_exchanges_that_cannot_be(words, told):
    with pytest.raises(ValueError, match=told):
        runner.prepare(compose([*WORDS, *words])).federation(0)


def test_exchanges_are_of_a_simulated_federation():
    with pytest.raises(ValueError, match="needs a federation: add federation=iid"):
        complete(compose(["algorithm=raker", "exchange.graph=ring"]))
    job = runner.prepare(compose([*WORDS, "algorithm=ofskl", "exchange.bits=4"]))
    with pytest.raises(ValueError, match="are simulated only"):
        Server(job, 0)
