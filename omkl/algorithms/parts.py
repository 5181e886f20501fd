"""State and steps that many algorithms share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from omkl.core.compiler import inlined
from omkl.core.hyperparameters import rate
from omkl.core.kernels import RFF, Kernel
from omkl.core.protocol import choose_all
from omkl.core.representations.random_features import gradient_step
from omkl.core.weights import mean_of_all


class State(NamedTuple):
    """State of algorithms that store nothing but functions and weights of kernels.

    model  representation of the kernels' functions
    log_w  (N,) logarithms of the kernels' weights
    """

    model: Any
    log_w: np.ndarray  # (N,)


def init(params: Any, dictionary: Sequence[Kernel], model: Any) -> State:
    """Return a state with equal weights.

    Parameters
    ----------
    params
        Not used.
    dictionary
        The N kernels of the learner.
    model
        Representation.
    """
    return State(model, np.zeros(len(dictionary)))


def gaussian_kernel(params: Any, dictionary: Sequence[Kernel], d: int) -> Sequence[Kernel]:
    """Return the kernel exp(-||x - x'||^2 / bandwidth), a ``Kernel`` of variance bandwidth / 2.

    Parameters
    ----------
    params
        Params with ``bandwidth``.
    dictionary
        Only ``features`` of its first kernel is used: how random frequencies are drawn.
    d
        Not used.
    """
    features = dictionary[0].features if dictionary else RFF
    return (Kernel("gaussian", 0.5 * params.bandwidth, features),)


def select_all(params, state, t, rng, selection):
    """Select every kernel to be evaluated and combined.

    Parameters
    ----------
    params, state, t, rng
        Not used.
    selection
        Output: all kernels.
    """
    choose_all(selection)


def predict_mean(params, state, t, selection):
    """Predict the mean of all outputs with the weights of the kernels, and request the target.

    Parameters
    ----------
    params, t
        Not used.
    state
        State with ``log_w`` (N,).
    selection
        Outputs of all kernels.
    """
    return mean_of_all(state.log_w, selection.f), True


@inlined
def learn_evaluated(params, state, t, y, selection):
    """Update the evaluated kernels i, with losses divided by the probabilities q_i of evaluation.

    theta_i <- theta_i - eta grad L_i / q_i,  log w_i <- log w_i - eta L_i / q_i,
    L_i(theta) = (theta'z_i - y)^2 + lam ||theta||^2.

    Parameters
    ----------
    params, state, t, y, selection
        As in ``omkl.core.protocol.update``; the state has ``q``.
    """
    eta = rate(params.eta, t)
    model, scratch, evaluate, f = state.model, selection.scratch, selection.evaluate, selection.f
    log_w, q = state.log_w, state.q
    for m in range(selection.n_evaluated[0]):
        i = evaluate[m]
        error = f[i] - y
        step = eta / q[i]
        log_w[i] -= step * (error * error + params.lam * model.norm2[i])
        gradient_step(model, i, m, scratch, 2.0 * step * error, 1.0 - 2.0 * step * params.lam)


def predict_only(params, state, t, selection):
    """Predict the output of the algorithm's single kernel, and request the target.

    Parameters
    ----------
    params, state, t
        Not used.
    selection
        Output of the kernel.
    """
    return selection.f[0], True
