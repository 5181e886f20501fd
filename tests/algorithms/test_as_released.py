"""The algorithms of ``omkl.algorithms.as_released`` against a transcript of the released code."""

from __future__ import annotations

import numpy as np
import pytest

from omkl import algorithms
from omkl.algorithms.as_released import released_divergence, shifted
from omkl.checks import learners
from omkl.core import hyperparameters, jit, protocol, schedule
from omkl.core.graphs import dissimilarity_graph, dominating_set
from omkl.core.kernels import Kernel
from omkl.core.learner import Learner
from omkl.core.node_sampler import probabilities
from omkl.core.representations import evaluate_row
from omkl.core.weights import normalised, shares

EXACT = 1e-9


@pytest.fixture
def learner(recorded, kernels):
    """learner(name): the algorithm with its own YAML's settings on the recorded frequencies."""
    N, d, D = recorded.omega.shape

    def make(name):
        algorithm = algorithms.load(f"as_released/{name}")
        settings = learners.default_settings(algorithm.name)
        built = hyperparameters.build(algorithm.Params, settings, 1503, {"N": N, "D": D})
        return Learner(algorithm, built, kernels, d, D, seed=0, model=recorded)

    return make


@jit.for_this_process
def evaluate(model, X, s, selection):
    """The outputs of what was chosen at X[s], in compiled code: most of a round."""
    evaluate_row(selection.scratch, model, X, s, selection)


def replay(ours, X, y, choose):
    """The engine's loop in plain Python; ``choose(t, round)`` stands in for the selection."""
    y_hat = np.empty(len(y))
    selection, state = ours.selection, ours.state
    for s in range(len(y)):
        choose(s + 1, selection)
        evaluate(state.model, X, s, selection)
        y_hat[s], _ = protocol.predict(ours.params, state, s + 1, selection)
        protocol.update(ours.params, state, s + 1, y[s], selection)
    return y_hat


class Drawing:
    """A generator that draws what it is told."""

    def __init__(self):
        self.u = 0.0

    def random(self):
        return self.u


# --- the transcript -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["raker", "rfomkr"])
def test_predictions_of_full_information(name, oracle, airfoil, learner):
    ours = learner(name)
    y_hat = ours.partial_fit(*airfoil).y_hat
    np.testing.assert_allclose(y_hat, oracle[f"{name}_y_hat"], rtol=0, atol=EXACT)
    if name == "raker":
        w = normalised(ours.state.log_w)
        np.testing.assert_allclose(w, oracle["raker_w_final"], rtol=0, atol=EXACT)


@pytest.mark.slow
def test_gf(oracle, airfoil, learner):
    """Fed with the recorded kernels and p; q is ours while the recorded graph can be ours."""
    ours = learner("gf")
    selected, q, p = (oracle[f"gf_{k}"] for k in ("selected", "q", "p"))
    assert not selected[:, 0].any()

    def choose(t, selection):
        protocol.select(ours.params, ours.state, t, ours.rng, selection)  # weights and pi_ij
        mine = p[t - 1] @ ours.state.drawn
        np.testing.assert_allclose(mine, q[t - 1], rtol=0, atol=EXACT)
        S = np.flatnonzero(selected[t - 1])
        selection.evaluate[: len(S)] = S
        selection.combine[: len(S)] = S
        selection.n_evaluated[0] = selection.n_combined[0] = len(S)
        ours.state.q[:] = np.nan
        ours.state.q[S] = mine[S]
        shares(ours.state.log_w, S, len(S), ours.state.share)

    y_hat = replay(ours, *airfoil, choose)
    np.testing.assert_allclose(y_hat, oracle["gf_y_hat"], rtol=0, atol=EXACT)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sfg", "sfg_r"])
def test_graph_learners(name, oracle, airfoil, learner):
    """Fed with the uniform number that leads to the recorded node, and nothing else."""
    ours = learner(name)
    selected, q, p, node = (oracle[f"{name}_{k}"] for k in ("selected", "q", "p", "node"))
    drawing, state = Drawing(), ours.state
    N = len(state.log_u)

    def choose(t, selection):
        here = p[t - 1]
        before = max(node[t - 1] - 1, 0)  # the index that the loop shifts to the node
        drawing.u = here[:before].sum() + 0.5 * here[before]
        protocol.select(ours.params, state, t, drawing, selection)
        assert state.node[0] == node[t - 1]
        S = np.sort(selection.evaluate[: selection.n_evaluated[0]])
        np.testing.assert_array_equal(S, np.flatnonzero(selected[t - 1]))
        ours_p = probabilities(state.trees, schedule.rate(ours.params.xi, t), N)
        np.testing.assert_allclose(ours_p, here, rtol=0, atol=EXACT)
        np.testing.assert_allclose(state.q[S], q[t - 1][S], rtol=0, atol=EXACT)

    y_hat = replay(ours, *airfoil, choose)
    np.testing.assert_allclose(y_hat, oracle[f"{name}_y_hat"], rtol=0, atol=EXACT)
    assert (selected.sum(axis=1) == N).any() == (name == "sfg_r")


def test_graph(oracle, kernels):
    divergence = released_divergence(kernels)
    np.testing.assert_allclose(divergence, oracle["graph_distance"], rtol=1e-12)
    out = dissimilarity_graph(divergence, 10, logs=False)
    adjacency = np.zeros((76, 76))
    np.put_along_axis(adjacency, out, 1.0, axis=1)
    np.testing.assert_array_equal(adjacency, oracle["graph_adjacency"])
    np.testing.assert_array_equal(dominating_set(out), oracle["dominating_set"])


# --- without it ---------------------------------------------------------------------------------


def test_divergence_by_hand():
    one, two = Kernel("gaussian", 1.0), Kernel("laplacian", 1.0)
    delta = released_divergence([one, two])
    pi = np.pi
    assert delta[0, 0] == pytest.approx(2 / pi**0.5 - 1 / (4 * pi) ** 0.5)
    assert delta[1, 1] == pytest.approx(1 / (4 * pi**2))
    cross = (1 + 0.5204998778130465) / (2 * pi)  # erf(1/2)
    assert delta[0, 1] == delta[1, 0] == pytest.approx(pi**-0.5 + 1 / (4 * pi**2) - cross)
    with pytest.raises(ValueError, match="cauchy"):
        released_divergence([one, Kernel("cauchy", 1.0)])


def test_linear_and_log_divergences_give_one_graph():
    delta = np.array([[0.0, 5.0, 1.0], [5.0, 0.0, 2.0], [1.0, 2.0, 0.0]])
    with np.errstate(divide="ignore"):
        in_logs = dissimilarity_graph(np.log(delta), 3)
    np.testing.assert_array_equal(dissimilarity_graph(delta, 3, logs=False), in_logs)


def test_shifted_draw():
    assert [shifted(i, 4) for i in range(4)] == [1, 2, 3, 3]
    assert shifted(0, 1) == 0
    ours = learners.Case("as_released/gf")
    X, y = learners.stream()
    used = [ours.learner(seed=s) for s in range(3)]
    for one in used:
        one.partial_fit(X, y)
        assert one.used[0] == 0 and one.used[-1] > one.used[1:-1].max() * 0.5


def test_names_with_a_slash(tmp_path):
    from omkl.runs import writing

    assert "as_released/sfg" in algorithms.names() and "as_released" not in algorithms.names()
    assert algorithms.load("as_released/sfg").name == "as_released/sfg"
    with pytest.raises(ValueError, match="Did you mean as_released/rfomkr"):
        algorithms.load("as_released/rfomk")
    config = {
        "algorithm": {"name": "as_released/raker", "eta": 0.1},
        "dataset": {"name": "airfoil"},
        "kernels": {"name": "rbf51"},
        "outputs": str(tmp_path),
    }
    folder = writing.folder_of(config)
    assert folder.parent == tmp_path / "runs" / "airfoil"
    assert folder.name.startswith("as_released.raker-")
