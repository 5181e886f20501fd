"""The first rounds of every algorithm against the papers' equations, written out.

Equation numbers are those of Ghari and Shen, "Graph-Aided Online Multi-Kernel Learning", JMLR, and
where it says so of its first version, arXiv v1. Nothing here uses the package's helpers: weights
are multiplied as the paper does, features and gradients are plain NumPy. Only what is random is
read from the state.
"""

import itertools
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from omkl import algorithms
from omkl.core import protocol
from omkl.core.graph_sampling import COUNT, MEMBER, OUT, cover_of, edges_of, empty_in_mass
from omkl.core.hyperparameters import Schedule, rate
from omkl.core.kernels import Kernel
from omkl.core.learner import Learner
from tests.learners import node_probabilities

FOUR = tuple(Kernel("gaussian", b) for b in (0.01, 0.1, 1.0, 100.0))
LAM = 0.3
X = np.array([0.9, -0.4, 0.7, 0.1, -0.8, 0.5, 0.2])
Y = np.array([1.5, -2.0, 0.5, 2.0, -1.0, 1.0, -1.5])  # large labels: weights move apart at once


def learner(name, kernels, seed=0, **settings):
    algorithm = algorithms.load(name)
    params = algorithm.Params(**settings)
    return Learner(algorithm, params, kernels, d=1, D=2, seed=seed)


def rounds(learner, begin=1):
    """Yield (t, x, y, S_t, done): t before the label, then call done() for y_hat."""
    for t in range(begin, len(X) + 1):
        selection, state, params = learner.selection, learner.state, learner.params
        protocol.select(params, state, t, learner.rng, selection)
        chosen = selection.evaluate[: selection.n_evaluated[0]].copy()
        n = selection.n_combined[0]  # those that predict come first
        np.testing.assert_array_equal(chosen[:n], selection.combine[:n])

        def done(t=t, selection=selection, state=state, params=params):
            protocol.evaluate(state.model, X[t - 1 : t], selection)
            y_hat, asked = protocol.predict(params, state, t, selection)
            protocol.update(params, state, t, Y[t - 1], selection)
            assert asked
            return y_hat

        yield t, X[t - 1], Y[t - 1], chosen, done


class Paper:
    """theta_i, w_i and the equations that all algorithms share."""

    def __init__(self, learner):
        self.psi = learner.state.model.omega[:, 0, :].copy()  # (N, D), one input
        self.theta = np.zeros((len(self.psi), 4))
        self.w = np.ones(len(self.psi))

    def z(self, i, x):
        """Below (3), D = 2."""
        angle = self.psi[i] * x
        return np.concatenate([np.sin(angle), np.cos(angle)]) / np.sqrt(2)

    def f(self, i, x):
        return self.theta[i] @ self.z(i, x)  # (4)

    def predict(self, S, x):
        """(17), (34), (47)."""
        return sum(self.w[i] * self.f(i, x) for i in S) / sum(self.w[i] for i in S)

    def learn(self, S, x, y, eta, q):
        """(8) and (9); (14) to (16); (35), (38), (39a): L = (f - y)^2 + lambda ||theta||^2, (5)."""
        for i in S:
            z, f = self.z(i, x), self.f(i, x)
            loss = (f - y) ** 2 + LAM * (self.theta[i] ** 2).sum()
            gradient = 2 * (f - y) * z + 2 * LAM * self.theta[i]
            self.theta[i] = self.theta[i] - eta * gradient / q[i]
            self.w[i] *= np.exp(-eta * loss / q[i])

    def assert_equal(self, state):
        np.testing.assert_allclose(state.model.coefficients, self.theta, rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(state.log_w, np.log(self.w), rtol=1e-11, atol=1e-13)


ETA = Schedule(0.3, -0.5)


def test_raker():
    ours = learner("raker", FOUR[:2], eta=ETA, lam=LAM)
    paper = Paper(ours)
    for t, x, y, S, done in rounds(ours):
        assert sorted(S) == [0, 1]
        assert done() == pytest.approx(paper.predict(S, x), rel=1e-12)
        paper.learn(S, x, y, 0.3 / np.sqrt(t), q=np.ones(2))
        paper.assert_equal(ours.state)
    assert paper.w.max() / paper.w.min() > 1.5  # or the weights would not have been tested


@pytest.mark.parametrize("lam", [0.0, LAM])
def test_rfomkr(lam):
    require_rfomkr("rfomkr", normalised=True, lam=lam)


def require_rfomkr(name, normalised, lam):
    ours = learner(name, FOUR, eta=Schedule(0.1, -0.5), beta=0.5, lam=lam)
    paper = Paper(ours)
    w = np.full(4, 0.25)
    for t, x, y, S, done in rounds(ours):
        assert sorted(S) == [0, 1, 2, 3]
        f = np.array([paper.f(i, x) for i in range(4)])
        whole = w @ f / (w.sum() if normalised else 1.0)
        assert done() == pytest.approx(whole, rel=1e-11, abs=1e-13)
        for i in range(4):
            theta = paper.theta[i]
            w[i] *= 0.5 ** ((f[i] - y) ** 2 + lam * theta @ theta)
            gradient = 2 * (f[i] - y) * paper.z(i, x) + 2 * lam * theta
            paper.theta[i] = theta - 0.1 / np.sqrt(t) * gradient
        paper.w = w
        paper.assert_equal(ours.state)


def gf(N=3, seed=0, **changes):
    settings = dict(eta=ETA, eta_e=Schedule(0.4, -0.5), lam=LAM, M=2, J=2, freeze=3) | changes
    return learner("gf", FOUR[:N], seed=seed, **settings)


def graph(state):
    """The kernels of each selective node."""
    return [set(row[:n].tolist()) for row, n in zip(state.kernels, state.n_kernels, strict=True)]


@pytest.mark.parametrize("seed", range(5))
def test_gf(seed):
    """Given the graph and the node that were drawn; the graph of round 3 and its pi are kept."""
    graphs = follow_gf(gf(seed=seed), freeze=3)
    assert graphs[0] != graphs[1] or graphs[1] != graphs[2]
    assert all(nodes == graphs[2] for nodes in graphs[3:])


@pytest.mark.parametrize("seed", range(5))
def test_gf_doubling(seed):
    """Steps are those of T = 1, 2, 2, 4, 4, 4, 4, and rounds 2, 4 and 8 start anew."""
    settings = dict(eta=ETA, eta_e=Schedule(0.4, -0.5), lam=LAM, M=2, J=2)
    ours = learner("gf_doubling", FOUR[:3], seed=seed, **settings)
    follow_gf(ours, T=[1, 2, 2, 4, 4, 4, 4], restarts=(2, 4, 8))


def follow_gf(ours, freeze=7, T=(1, 2, 3, 4, 5, 6, 7), restarts=()):
    """Compare a learner with algorithms 1 to 3 in every round; return the graphs.

    T[t - 1] stands in the schedules of round t, and the learner starts anew in the rounds of
    ``restarts``.
    """
    N, M, J = 3, 2, 2
    paper = Paper(ours)
    graphs = []
    for t, x, y, S, done in rounds(ours):
        if t in restarts:
            paper = Paper(ours)
        eta_e = 0.4 / np.sqrt(T[t - 1])
        nodes = graph(ours.state)
        graphs.append(nodes)
        assert all(1 <= len(node) <= M for node in nodes)
        u = np.array([sum(paper.w[i] for i in node) for node in nodes])  # (18)
        p = (1 - eta_e) * u / u.sum() + eta_e / J  # (19)
        np.testing.assert_allclose(ours.state.p, p, rtol=1e-12)
        assert len(S) == len(set(S.tolist())) and set(S.tolist()) in nodes
        if t <= freeze:
            power = eta_e ** np.array([1, 2])
            pi = (1 - power) * (paper.w / paper.w.sum())[:, None] + power / N  # (20), N x J
        q = (p * (1 - (1 - pi) ** M)).sum(axis=1)  # (21)
        np.testing.assert_allclose(ours.state.q[S], q[S], rtol=1e-12)
        assert np.isnan(np.delete(ours.state.q, S)).all()
        assert done() == pytest.approx(paper.predict(S, x), rel=1e-12)
        paper.learn(S, x, y, 0.3 / np.sqrt(T[t - 1]), q)
        fresh = t + 1 in restarts
        (Paper(ours) if fresh else paper).assert_equal(ours.state)
    return graphs


def sharpened(ours, log_w):
    """The learner at weights that are far apart."""
    ours.state.log_w[:] = log_w
    return ours


def test_gf_draws_kernels_with_pi_and_the_papers_q_is_biased():
    """20,000 draws of graph and node against the sum over all 3^4 graphs.

    (75a) claims that [i in S] / q_i has mean 1. It has not: p follows the graph that was
    drawn, and a node that drew a light kernel is itself chosen less often.
    """
    n, N, M, J, t = 20_000, 3, 2, 2, 3
    ours = sharpened(gf(eta_e=Schedule(0.6, 0.0)), np.log([0.7, 0.2, 0.1]))
    power = np.array([0.6, 0.36])
    pi = (1 - power) * np.array([0.7, 0.2, 0.1])[:, None] + power / N
    in_graph = np.zeros((N, J))
    weight = np.zeros((n, N))
    for k in range(n):
        protocol.select(ours.params, ours.state, t, ours.rng, ours.selection)
        S = ours.selection.evaluate[: ours.selection.n_evaluated[0]]
        weight[k, S] = 1 / ours.state.q[S]
        for j, node in enumerate(graph(ours.state)):
            in_graph[list(node), j] += 1
    probability = 1 - (1 - pi) ** M
    z = (in_graph - n * probability) / np.sqrt(n * probability * (1 - probability))
    assert np.abs(z).max() < 4.0

    observed, estimate = np.zeros(N), np.zeros(N)
    for trials in itertools.product(range(N), repeat=J * M):
        nodes = [set(trials[:M]), set(trials[M:])]
        chance = np.prod([pi[i, k // M] for k, i in enumerate(trials)])
        u = np.array([sum((0.7, 0.2, 0.1)[i] for i in node) for node in nodes])
        p = 0.4 * u / u.sum() + 0.6 / J
        for i in range(N):
            seen = sum(p[j] for j in range(J) if i in nodes[j])
            observed[i] += chance * seen
            estimate[i] += chance * seen / (p @ probability[i])
    assert estimate[0] > 1.01 and estimate[2] < 0.98
    error = (weight.mean(axis=0) - estimate) / (weight.std(axis=0) / np.sqrt(n))
    assert np.abs(error).max() < 4.0
    z = ((weight > 0).sum(axis=0) - n * observed) / np.sqrt(n * observed * (1 - observed))
    assert np.abs(z).max() < 4.0


# --- SFG, of either version -----------------------------------------------------------------------


class Graph(NamedTuple):
    """What the Gaussians of variance 0.01, 0.1, 1 and 100 make, by hand, and steps for it.

    edges  (4, 4) of the graph
    share  (4,) [i in D] / |D| of its dominating set
    """

    edges: np.ndarray
    share: np.ndarray
    eta: Schedule
    xi: Schedule

    def learner(self, name, seed=0, **changes):
        settings = dict(eta=self.eta, xi=self.xi, lam=LAM, M=2, explore=EXPLORE) | changes
        return learner(name, FOUR, seed=seed, **settings)


EXPLORE = 4
# The last is farthest from all others, and the first from it. Nodes cover two, greedily 0, 1, 2.
DISSIMILAR = Graph(
    np.array([[1, 0, 0, 1], [0, 1, 0, 1], [0, 0, 1, 1], [1, 0, 0, 1]]),
    np.array([1, 1, 1, 0]) / 3,
    ETA,
    Schedule(0.4, -0.5),
)
# Nearest are 0 - 1, 1 - 0, 2 - 1, 3 - 2; nodes 0 and 3 cover all.
SIMILAR = Graph(
    np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]),
    np.array([0.5, 0.0, 0.0, 0.5]),
    Schedule(0.05, 0.0),
    Schedule(0.2, 0.0),
)
GRAPHS = {"sfg": DISSIMILAR, "sfg_r": DISSIMILAR, "sfg_mkl": SIMILAR, "sfg_mkl_r": SIMILAR}


def divergence():
    """(27), in arXiv v1 (7), by brute force in one input."""
    r = np.linspace(-80.0, 80.0, 400_001)
    values = [np.exp(-(r**2) / (2 * k.bandwidth)) for k in FOUR]
    return np.array([[((a - b) ** 2).sum() * (r[1] - r[0]) for b in values] for a in values])


@pytest.mark.parametrize("name", ["sfg", "sfg_mkl"])
def test_graph_by_hand(name):
    graph = GRAPHS[name]
    state = graph.learner(name).state
    edges = np.zeros((4, 4), dtype=int)
    np.put_along_axis(edges, state.edges[OUT], 1, axis=1)
    np.testing.assert_array_equal(edges, graph.edges)
    np.testing.assert_array_equal(state.cover[MEMBER], graph.share > 0)
    delta = divergence()
    np.fill_diagonal(delta, -np.inf if name == "sfg" else np.inf)
    chosen = delta.argmax(axis=1) if name == "sfg" else delta.argmin(axis=1)
    np.testing.assert_array_equal(graph.edges, np.eye(4, dtype=int) + np.eye(4, dtype=int)[chosen])


def follow(ours, graph, edges_and_share):
    """Rounds of algorithms 5 and 6, in arXiv v1 2 and 3: (E_t, [i in D] / |D|) come of u."""
    paper = Paper(ours)
    u = np.ones(4)
    for t, x, y, S, done in rounds(ours):
        xi, eta = rate(graph.xi, t), rate(graph.eta, t)
        edges, share = edges_and_share(u)
        p = (1 - xi) * u / u.sum() + xi * share  # (33), (46)
        np.testing.assert_allclose(node_probabilities(ours.state.trees, xi, 4), p, rtol=1e-12)
        node = ours.state.node[0]
        assert t <= EXPLORE or u[node] == pytest.approx(u.max())
        assert sorted(S) == np.flatnonzero(edges[node]).tolist()
        q = edges.T @ p  # (36)
        np.testing.assert_allclose(ours.state.q[S], q[S], rtol=1e-12)
        assert np.isnan(np.delete(ours.state.q, S)).all()
        y_hat = paper.predict(np.flatnonzero(graph.edges[node]), x)  # (34), (47): of G
        assert done() == pytest.approx(y_hat, rel=1e-12)
        paper.learn(S, x, y, eta, q)
        u[node] *= np.exp(-eta * (y_hat - y) ** 2 / p[node])  # (37), (39b)
        paper.assert_equal(ours.state)
        np.testing.assert_allclose(ours.state.log_u, np.log(u), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", ["sfg", "sfg_mkl"])
def test_graph_that_stays(name, seed):
    graph = GRAPHS[name]
    follow(graph.learner(name, seed), graph, lambda u: (graph.edges, graph.share))


@pytest.mark.parametrize("only_undominated", [False, True])
@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["sfg_r", "sfg_mkl_r"])
def test_graph_that_is_refined(name, seed, rank, only_undominated):
    graph, delta, refined = GRAPHS[name], divergence(), []

    def refine(u):
        best = np.flatnonzero(u >= np.sort(u)[-rank])  # (44) with the beta of section 5.2
        edges = graph.edges.copy()
        for i in set(range(4)) - set(best.tolist()):
            if only_undominated and graph.edges[best, i].any():
                continue
            far = delta[i, best] if name == "sfg_r" else -delta[i, best]
            edges[best[far.argmax()], i] = 1  # (45), in arXiv v1 (23)
        refined.append((edges != graph.edges).any())
        return edges, np.isin(np.arange(4), best) / len(best)

    more = {"rank": rank, "only_undominated": only_undominated}
    follow(graph.learner(name, seed, **more), graph, refine)
    assert any(refined) or (name, only_undominated) == ("sfg_mkl_r", True)


class Drawing:
    """A generator that always draws the same number."""

    def __init__(self, u):
        self.u = u

    def random(self):
        return self.u


@pytest.mark.parametrize(
    ("only_undominated", "S", "q2"), [(False, [1, 3, 2], 0.92), (True, [1, 3], 0.58)]
)
def test_sfg_r_readings_of_the_added_edge(only_undominated, S, q2):
    """Where DS' = {0, 1} reaches kernel 2 by 0 already, but its d_2 = 1 does not.

    The box adds the edge (1, 2), the text above it does not. Both leave (1, 3) as it is.
    """
    some = tuple(Kernel("gaussian", b) for b in (0.01, 100.0, 0.1, 1.0))  # 1 is far from all
    settings = dict(eta=ETA, xi=Schedule(0.2, 0.0), lam=LAM, M=2, explore=4, rank=2)
    ours = learner("sfg_r", some, only_undominated=only_undominated, **settings)
    edges = edges_of(np.array([[0, 2], [1, 3], [2, 0], [3, 1]]))
    state = ours.state._replace(edges=edges, cover=cover_of(edges), in_mass=empty_in_mass(edges))
    state.log_u[:] = np.log([0.4, 0.3, 0.2, 0.1]) - 1000.0
    protocol.select(ours.params, state, 1, Drawing(0.5), ours.selection)
    p = node_probabilities(state.trees, 0.2, 4)
    np.testing.assert_allclose(p, [0.42, 0.34, 0.16, 0.08], rtol=1e-12)
    assert state.node[0] == 1
    assert ours.selection.evaluate[: ours.selection.n_evaluated[0]].tolist() == S
    q = {1: 0.34 + 0.08, 3: 0.08 + 0.34}
    assert [state.q[1], state.q[3]] == pytest.approx([q[1], q[3]], rel=1e-12)
    protocol.select(ours.params, state, 1, Drawing(0.9), ours.selection)  # node 2 sees 2 and 0
    assert ours.selection.evaluate[: ours.selection.n_evaluated[0]].tolist() == [2, 0]
    assert state.q[2] == pytest.approx(q2, rel=1e-12)


@given(
    st.lists(st.integers(0, 3), min_size=4, max_size=4),
    st.integers(1, 4),
    st.floats(0.01, 0.99),
    st.booleans(),
    st.floats(0.0, 1.0, exclude_max=True),
)
def test_sfg_r_observes_every_kernel_with_at_least_beta(levels, rank, xi, only_undominated, u):
    """Below (46). Equal weights are common here: all nodes that tie for the rank dominate."""
    ours = DISSIMILAR.learner(
        "sfg_r", xi=Schedule(xi, 0.0), rank=rank, only_undominated=only_undominated
    )
    ours.state.log_u[:] = np.array(levels) * 0.7
    protocol.select(ours.params, ours.state, 1, Drawing(u), ours.selection)
    share = np.exp(ours.state.log_u) / np.exp(ours.state.log_u).sum()
    beta = (1 - xi) * np.sort(share)[-rank] + xi / 4
    S = ours.selection.evaluate[: ours.selection.n_evaluated[0]]
    assert np.all(ours.state.q[S] >= beta * (1 - 1e-12))
    dominates = ours.state.cover[MEMBER] == 1
    assert dominates.tolist() == [v >= sorted(levels)[-rank] for v in levels]
    assert ours.state.trees[COUNT, 1] == dominates.sum()
    p = node_probabilities(ours.state.trees, xi, 4)
    assert np.all(p[dominates] >= beta * (1 - 1e-12))


@pytest.mark.parametrize("name", ["sfg", "sfg_r"])
def test_nodes_are_drawn_with_p_and_then_the_best_is_taken(name):
    more = {"rank": 2, "only_undominated": False} if name == "sfg_r" else {}
    ours = DISSIMILAR.learner(name, **more)
    ours.state.log_u[:] = np.log([0.1, 0.2, 0.4, 0.3]) - 1000.0
    drawn = np.zeros(4)
    for _ in range(20_000):
        protocol.select(ours.params, ours.state, 4, ours.rng, ours.selection)  # 4 = explore
        drawn[ours.state.node[0]] += 1
    share = DISSIMILAR.share if name == "sfg" else np.array([0, 0, 0.5, 0.5])
    assert (
        chisquare(drawn, 20_000 * (0.8 * np.array([0.1, 0.2, 0.4, 0.3]) + 0.2 * share)).pvalue
        > 1e-3
    )
    for u in (0.0, 0.5, 0.999):
        protocol.select(ours.params, ours.state, 5, Drawing(u), ours.selection)
        assert ours.state.node[0] == 2
