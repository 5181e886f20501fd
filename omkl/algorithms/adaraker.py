"""AdaRaker: instances of Raker that restart on intervals of every length, mixed by their gains.

Paper    Y. Shen, T. Chen, G. B. Giannakis, "Random Feature-based Online Multi-kernel Learning in
         Environments with Unknown Dynamics", JMLR 20 (2019), algorithm 3.
Task     regression; full information; streams that change.
Round    1. Every interval I of the geometric covering that contains t has an instance of Raker,
            begun with I, with the step eta_I = min(1/2, eta0 / sqrt(|I|)). It predicts p_I. All
            share the features. Level j has the intervals [k 2^j, (k + 1) 2^j - 1], k >= 1.
         2. Predict the mean of the p_I weighted by h_I; h_I = eta_I when I begins.
         3. r_I = (y_hat - y_t)^2 - (p_I - y_t)^2, and h_I <- h_I (1 + eta_I r_I).
         4. Every instance learns as Raker does, with its own step.
Symbols  eta0    scale of all steps, > 0
         lam     regularisation, >= 0
         levels  number of levels: the longest interval has 2^(levels - 1) rounds
Cost     O(N D d + N D log T) time per round; O(N D levels) memory.
Bound    on every interval I at once O(sqrt(|I|) log T) against the best function; losses in
         [0, 1], ||x|| <= 1.
Reading  The paper's text was not available. The rules follow a summary, in which the weights are
         multiplied by the advantage. The factor 1 + eta r and the covering are those of A. Daniely,
         A. Gonen, S. Shalev-Shwartz (ICML 2015). r_I is clipped to [-1, 1], its range if losses
         lie in [0, 1]. Past 2^levels rounds the longest intervals follow one another.
Differs  from the paper: not known. The released code restarts weights and keeps theta.

>>> from omkl.checks import learners
>>> X, y = learners.stream(1000)
>>> y_hat = learners.Case("adaraker").learner().partial_fit(X, y).y_hat
>>> f"{((y_hat - y) ** 2).mean():.6f}"
'0.042082'
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np

from omkl.core.compiler import inlined
from omkl.core.hyperparameters import NON_NEGATIVE, POSITIVE, Range
from omkl.core.protocol import choose_all, register
from omkl.core.representations import intervals
from omkl.core.representations.intervals import (
    INTERVALS,
    Intervals,
    begin_level,
    gradient_steps_of_level,
)
from omkl.core.weights import exponential_update, mean_of_all_by_shares, shares_of_all

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Params(NamedTuple):
    eta0: POSITIVE
    lam: NON_NEGATIVE
    levels: Annotated[int, Range(1, 62)]  # intervals of 2^levels rounds are counted in int64


class State(NamedTuple):
    """State with J levels; rows of theta are ordered as in the model, level by level.

    log_w (N,) weights of the kernels over all levels
    log_v (J N,) weights of a kernel on its level; share (J N,) the same, with sum 1 on every level
    log_h (J,) weights of the levels
    """

    model: Intervals
    log_w: np.ndarray
    log_v: np.ndarray
    log_h: np.ndarray
    share: np.ndarray


def init(params: Params, dictionary: Sequence[Kernel], model: Intervals) -> State:
    N = len(dictionary)
    log_v = np.zeros(params.levels * N)
    share = np.full(params.levels * N, 1.0 / N)
    return State(model, np.zeros(N), log_v, np.zeros(params.levels), share)


@inlined
def step_size(params, length):
    return min(0.5, params.eta0 / math.sqrt(length))


@inlined
def prediction_of_level(state, selection, j):
    """Return the prediction of the instance of level j.

    Parameters
    ----------
    state, selection
        State, and the evaluated round.
    j
        Level.
    """
    N = selection.f.shape[0]
    rows = slice(j * N, j * N + N)
    return mean_of_all_by_shares(state.share[rows], selection.scratch.f[rows])


@inlined
def prediction_of_all(state, selection):
    """Return the prediction of the mixture of all levels."""
    y_hat = 0.0
    for j in range(state.model.alive[0]):
        y_hat += state.model.mix[j] * prediction_of_level(state, selection, j)
    return y_hat


def select(params, state, t, rng, selection):
    choose_all(selection)


def predict(params, state, t, selection):
    return prediction_of_all(state, selection), True


def update(params, state, t, y, selection):
    scratch, norm2 = selection.scratch, state.model.rows.norm2
    y_hat = prediction_of_all(state, selection)
    N = selection.f.shape[0]
    length = 1
    for j in range(state.model.alive[0]):
        eta = step_size(params, length)
        gain = (y_hat - y) ** 2 - (prediction_of_level(state, selection, j) - y) ** 2
        state.log_h[j] += math.log(1.0 + eta * min(1.0, max(-1.0, gain)))
        rows = slice(j * N, j * N + N)
        exponential_update(state.log_v[rows], eta, y, scratch.f[rows], params.lam, norm2[rows])
        if (t + 1) % length != 0:  # else the level restarts next round and discards this step
            gradient_steps_of_level(state.model, j, eta, params.lam, y, scratch)
        length *= 2
    _begin(params, state, t + 1)
    _mix(state)


@inlined
def _begin(params, state, t):
    """Start the intervals that begin in round t."""
    N = state.log_w.shape[0]
    length = 1
    for j in range(state.log_h.shape[0]):
        if t % length == 0:
            if state.model.alive[0] <= j:
                state.model.alive[0] = j + 1
            begin_level(state.model, j)
            state.log_h[j] = math.log(step_size(params, length))
            for r in range(j * N, j * N + N):
                state.log_v[r] = 0.0
        length *= 2


@inlined
def _mix(state):
    """Update the weights of the running levels, and of the kernels over them."""
    mix = state.model.mix
    J = state.model.alive[0]
    N = state.log_w.shape[0]
    shares_of_all(state.log_h[:J], mix[:J])
    for i in range(N):
        state.log_w[i] = 0.0
    for j in range(J):
        share = state.share[j * N : j * N + N]
        shares_of_all(state.log_v[j * N : j * N + N], share)
        for i in range(N):
            state.log_w[i] += mix[j] * share[i]
    for i in range(N):
        state.log_w[i] = math.log(max(state.log_w[i], 1e-300))


def _fresh(params: Params, kernels: Sequence[Kernel], d: int, D: int, seed: int) -> Intervals:
    return intervals.fresh(kernels, d, D, seed, params.levels)


EXPECTED_FAILURES = {"one_kernel": "one kernel has as many steps as there are levels"}

algorithm = register(__name__, representation=INTERVALS._replace(fresh=_fresh))
