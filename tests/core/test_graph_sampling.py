"""Nodes drawn in O(log N): the same numbers as sums over everything, after any number of rounds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omkl.checks.learners import Case, default_settings, opener
from omkl.core import graph_sampling
from omkl.core.feedback_graph import dominating_set
from omkl.core.graph_sampling import (
    COVERS,
    MEMBER,
    OUT,
    cover_of,
    edges_of,
    empty_in_mass,
    toggle_member,
    trees_of,
)
from omkl.core.kernels import Kernel
from omkl.core.weights import normalised
from tests.learners import node_probabilities


def random_graph(rng, N, M):
    """Some kernels are seen by all nodes, most by few."""
    rank = np.argsort(rng.exponential(size=(N, N)) / (1.0 + 9.0 * (np.arange(N) < 2)), axis=1)
    rows = [[i, *[j for j in row if j != i][: M - 1]] for i, row in enumerate(rank)]
    return np.array(rows, dtype=np.int64)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 40), st.integers(0, 2**32 - 1), st.sampled_from([0.1, 5.0, 300.0]))
def test_trees_follow_the_weights(N, seed, largest):
    """p and its sums over in-neighbours against NumPy, with falls that make a new scale needed."""
    rng = np.random.default_rng(seed)
    out = random_graph(rng, N, min(N, 4))
    edges = edges_of(out)
    trees, cover, in_mass, log_u = (
        trees_of(edges),
        cover_of(edges),
        empty_in_mass(edges),
        np.zeros(N),
    )
    for i in dominating_set(out):
        toggle_member(edges, trees, cover, i)
    adjacency = np.zeros((N, N))
    np.put_along_axis(adjacency, out, 1.0, axis=1)
    share = cover[MEMBER] / cover[MEMBER].sum()
    np.testing.assert_array_equal(cover[COVERS], cover[MEMBER] @ adjacency)
    node, xi, q, scale = 0, 0.01, np.zeros(N), np.zeros(1)
    for _ in range(60):
        graph_sampling.refresh(edges, trees, in_mass, scale, log_u, node)
        anew, in_mass_anew = trees_of(edges), empty_in_mass(edges)
        graph_sampling.refresh(edges, anew, in_mass_anew, scale.copy(), log_u, node)
        np.testing.assert_array_equal(anew[: graph_sampling.COUNT], trees[: graph_sampling.COUNT])
        np.testing.assert_array_equal(in_mass_anew, in_mass)
        p = (1 - xi) * normalised(log_u) + xi * share
        np.testing.assert_allclose(node_probabilities(trees, xi, N), p, rtol=1e-13)
        assert graph_sampling.probability(trees, node, xi) == pytest.approx(p[node], rel=1e-13)
        graph_sampling.in_probabilities(edges, trees, in_mass, cover, np.arange(N), N, xi, q)
        np.testing.assert_allclose(q, p @ adjacency, rtol=1e-13)
        assert graph_sampling.best_node(trees) == log_u.argmax()
        v = rng.random()
        node = graph_sampling.draw_node(trees, xi, v)
        assert node == min(np.searchsorted(np.cumsum(p), v, side="right"), N - 1)
        node = rng.choice([node, int(log_u.argmax())])
        log_u[node] -= rng.uniform(0.0, largest)


def test_a_node_without_probability_is_never_drawn():
    """Nodes 1 and 2 have none, and rounding may not lead there either."""
    edges = edges_of(np.arange(3)[:, None])
    trees, cover, in_mass = trees_of(edges), cover_of(edges), empty_in_mass(edges)
    toggle_member(edges, trees, cover, 0)
    graph_sampling.refresh(edges, trees, in_mass, np.zeros(1), np.array([0.0, -1e5, -1e5]), 0)
    assert [graph_sampling.draw_node(trees, 0.3, v) for v in (0.0, 0.5, 1.0 - 2**-53)] == [0, 0, 0]
    np.testing.assert_array_equal(node_probabilities(trees, 0.3, 3), [1.0, 0.0, 0.0])


def refined(state, delta, rank, sign, only_undominated):
    """Algorithm 6 from scratch: DS'_t and the added edges, by divergences (N, N)."""
    log_u = state.log_u
    dominates = log_u >= np.sort(log_u)[-rank]
    members = np.flatnonzero(dominates)
    out, edges = state.edges[OUT], np.full(len(log_u), -1)
    for i in np.flatnonzero(~dominates):
        best = members[(sign * delta[i, members]).argmax()]
        reached = any(i in out[j] for j in members)
        if i not in out[best] and not (only_undominated and reached):
            edges[i] = best
    return dominates, edges


@pytest.mark.slow
@pytest.mark.parametrize("only_undominated", [False, True])
@pytest.mark.parametrize("rank", [1, 4, 20])
@pytest.mark.parametrize(("name", "sign"), [("sfg_r", 1.0), ("sfg_mkl_r", -1.0)])
def test_refinement_kept_up_to_date_is_the_one_made_anew(name, sign, rank, only_undominated):
    """Steps that are whole numbers: nodes tie, fall behind and come back into DS'_t."""
    from omkl.core.feedback_graph import N_REFINED, REFINED

    some = tuple(Kernel("gaussian", 10.0**b) for b in np.linspace(-2, 2, 30))
    some += tuple(Kernel("laplacian", 10.0**b) for b in np.linspace(-2, 2, 10))
    case = Case(name, default_settings(name) | {"only_undominated": only_undominated})
    ours = case.learner(dictionary=some, M=5, rank=rank)
    state, rng, delta = ours.state, np.random.default_rng(rank), ours.state.divergence.values
    added, opened = 0, opener(ours, state)
    for t in range(1, 200):
        opened(t)
        dominates, edges = refined(state, delta, rank, sign, only_undominated)
        np.testing.assert_array_equal(state.cover[MEMBER] == 1, dominates)
        np.testing.assert_array_equal(state.links[REFINED], edges)
        counts = np.bincount(edges[edges >= 0], minlength=len(some))
        np.testing.assert_array_equal(state.links[N_REFINED], counts)
        added += counts.sum()
        if t == 100:  # every weight may change when it is said
            state.log_u[:] = -rng.integers(0, 5, size=len(some))
            graph_sampling.stale(state.trees)
        else:
            state.log_u[state.node[0]] -= rng.integers(0, 3)
    assert added > 0


def test_seeds_share_one_graph():
    case = Case("sfg_r")
    first, second = case.learner(seed=0).state, case.learner(seed=1).state
    assert first.edges is second.edges and first.divergence is second.divergence
    assert first.trees is not second.trees and first.links is not second.links
