"""Settings at which one algorithm becomes another or something known.

One kernel and the complete graph are in ``omkl.checks.learners``.
"""

import numpy as np
import pytest

from omkl.checks import learners
from omkl.checks.learners import DICTIONARY, Case, stream
from omkl.core import hyperparameters, protocol
from omkl.core.graph_sampling import MEMBER, probability

N = len(DICTIONARY)


def learner(name, seed=0, **changes):
    return Case(name).learner(seed, **changes)


@pytest.fixture(scope="module")
def data():
    return stream()


def test_sfg_with_one_out_neighbour_sees_the_drawn_node_alone(data):
    """Then the dominating set is everything, q is p, and w plays no part in the prediction."""
    ours = learner("sfg", M=1)
    assert ours.state.cover[MEMBER].tolist() == [1] * N

    def spy(selection):
        node = ours.state.node[0]
        assert selection.n_evaluated[0] == selection.n_combined[0] == 1
        assert selection.evaluate[0] == selection.combine[0] == node
        xi = hyperparameters.rate(ours.params.xi, ours.t)
        assert ours.state.q[node] == probability(ours.state.trees, node, xi)
        return lambda: None

    learners.play(ours, *data, spy)


@pytest.mark.parametrize("only_undominated", [False, True])
def test_sfg_r_whose_nodes_all_dominate_is_sfg_where_all_dominate(data, only_undominated):
    """rank = N refines nothing and explores uniformly, as SFG does with M = 1: the same bits."""
    refined = learner("sfg_r", M=1, rank=N, only_undominated=only_undominated)
    np.testing.assert_array_equal(
        refined.partial_fit(*data).y_hat, learner("sfg", M=1).partial_fit(*data).y_hat
    )


@pytest.mark.parametrize("name", ["sfg", "sfg_r"])
def test_without_exploration_rounds_nothing_is_random(data, name):
    """explore = 0: another seed for the selection, the same features, the same bits."""
    first, second = learner(name, seed=0, explore=0), learner(name, seed=1, explore=0)
    second.state.model.omega[:] = first.state.model.omega
    np.testing.assert_array_equal(first.partial_fit(*data).y_hat, second.partial_fit(*data).y_hat)
    assert first.used.min() > 0  # the node with the largest u changes all the time


def test_gf_with_one_selective_node_weighs_without_bias(data):
    """J = 1: p is 1 whatever was drawn, so q is the probability of being observed, (21)."""
    ours = learner("gf", J=1)
    ours.state.log_w[:] = -0.8 * np.arange(N)
    n = 5000
    weight = np.zeros((n, N))
    for k in range(n):
        protocol.select(ours.params, ours.state, 41, ours.rng, ours.selection)
        S = ours.selection.evaluate[: ours.selection.n_evaluated[0]]
        weight[k, S] = 1 / ours.state.q[S]
    assert ours.state.p.tolist() == [1.0]
    assert np.all(np.abs(weight.mean(axis=0) - 1) < 4 * weight.std(axis=0) / np.sqrt(n))
