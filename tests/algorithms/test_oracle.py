"""Numbers of the authors' released code, where its transcript is found."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
import pytest

from omkl.core import compiler, hyperparameters, protocol
from omkl.core import learner as core_learner
from omkl.core.feedback_graph import dissimilarity_graph
from omkl.core.hyperparameters import Schedule
from omkl.core.representations import random_features
from omkl.core.weights import normalised, weighted_mean

# --- The release, replayed -----------------------------------------------------------------------
#
# It takes the regulariser of the loss that feeds the weights after theta has moved, floors q,
# and SFG-R predicts with other kernels than it updates. The rest is the code of the package.


class Params(NamedTuple):
    eta: Schedule
    lam: float


class State(NamedTuple):
    model: random_features.RandomFeatures
    log_w: np.ndarray  # (N,)
    updated: np.ndarray  # (T, N) bool
    predicting: np.ndarray  # (T, N) bool
    q: np.ndarray  # (T, N)


def init(params, dictionary, model):
    raise NotImplementedError("every test has an init of its own")


def select(params, state, t, rng, selection):
    n, n_predicting = 0, 0
    for i in range(selection.f.shape[0]):
        if state.updated[t - 1, i] or state.predicting[t - 1, i]:
            selection.evaluate[n] = i
            n += 1
        if state.predicting[t - 1, i]:
            selection.combine[n_predicting] = i
            n_predicting += 1
    selection.n_evaluated[0], selection.n_combined[0] = n, n_predicting


def predict(params, state, t, selection):
    return weighted_mean(state.log_w, selection.f, selection.combine, selection.n_combined[0]), True


def update(params, state, t, y, selection):
    for m in range(selection.n_evaluated[0]):
        i = selection.evaluate[m]
        if state.updated[t - 1, i]:
            error = selection.f[i] - y
            step = hyperparameters.rate(params.eta, t) / state.q[t - 1, i]
            random_features.gradient_step(
                state.model,
                i,
                m,
                selection.scratch,
                2.0 * step * error,
                1.0 - 2.0 * step * params.lam,
            )
            state.log_w[i] -= step * (error * error + params.lam * state.model.norm2[i])


@pytest.fixture(scope="module")
def released():
    return protocol.register(__name__, representation=random_features.RANDOM_FEATURES)


@pytest.fixture(scope="module")
def run_block():
    """The engine's loop compiled in memory: machine code for a test must not be kept on disk."""
    plain = getattr(protocol.run_block, "py_func", protocol.run_block)
    return numba.njit(nogil=True, error_model="numpy", fastmath=compiler.FLAGS)(plain)


def transcript(oracle, name):
    """Which kernels the release updated, which predicted, and the q that it divided by."""
    T, N = len(oracle["raker_y_hat"]), len(oracle["bandwidth"])
    if name == "raker":
        return np.ones((T, N), bool), np.ones((T, N), bool), np.ones((T, N))
    updated = predicting = oracle[f"{name}_selected"]
    if name == "sfg_r":
        predicting = oracle["graph_adjacency"][oracle["sfg_r_node"]] > 0
    return updated, predicting, np.maximum(oracle[f"{name}_q"], 0.05 if name == "gf" else 0.1)


@pytest.mark.parametrize("name", ["raker", "gf", "sfg", "sfg_r"])
def test_replaying_the_release_gives_its_predictions(
    name, oracle, airfoil, kernels, recorded, released, run_block, monkeypatch
):
    """1,503 rounds with 76 kernels: features, gradient steps, weights and their mean."""
    np.testing.assert_allclose([k.bandwidth for k in kernels], oracle["bandwidth"], rtol=1e-12)
    N, d, D = recorded.omega.shape
    state = State(recorded, np.zeros(N), *transcript(oracle, name))
    algorithm = released._replace(init=lambda params, dictionary, model: state)
    monkeypatch.setattr(protocol, "run_block", run_block)
    params = Params(Schedule(0.1, -0.5), 1e-3)
    learner = core_learner.Learner(algorithm, params, kernels, d, D, seed=0, model=recorded)
    y_hat = learner.partial_fit(*airfoil).y_hat
    np.testing.assert_allclose(y_hat, oracle[f"{name}_y_hat"], rtol=0, atol=1e-9)
    if name == "raker":
        np.testing.assert_allclose(
            normalised(state.log_w), oracle["raker_w_final"], rtol=0, atol=1e-9
        )


def test_the_releases_distances_give_its_graph(oracle):
    """Algorithm 4 as read here, on the divergences that the release computed: all 76 rows."""
    distance, adjacency = oracle["graph_distance"], oracle["graph_adjacency"]
    with np.errstate(divide="ignore"):  # some of its distances are negative, and never taken
        out = dissimilarity_graph(np.log(np.maximum(distance, 0.0)), 10)
    ours = np.zeros_like(adjacency)
    np.put_along_axis(ours, out, 1.0, axis=1)
    np.testing.assert_array_equal(ours, adjacency)


@pytest.mark.parametrize(("family", "median"), [("gaussian", 0.6745), ("laplacian", 1.0)])
def test_frequencies_of_the_release_have_our_spectra(oracle, kernels, family, median):
    """|omega| in units of our scale has the median of |normal| or |Cauchy|: b is a variance."""
    units = [
        np.abs(omega) * (np.sqrt(k.bandwidth) if family == "gaussian" else k.bandwidth)
        for k, omega in zip(kernels, oracle["omega"], strict=True)
        if k.family == family
    ]
    assert np.median(units) == pytest.approx(median, rel=0.05)
