"""Fixed share: every kernel learns, and the weights can move from one to another.

Paper    M. Herbster, M. K. Warmuth, "Tracking the Best Expert", Machine Learning 32 (1998),
         on Raker's random features.
Task     regression; full information.
Round    1. Predict the mean of the f_i(x_t) weighted by w_i.
         2. v_i = w_i exp(-sharpness (f_i(x_t) - y_t)^2), and
            w_i <- (1 - share) v_i / (sum of the v_j) + share / N.
         3. theta_i <- theta_i - eta_t grad L_i(theta_i),
            L_i(theta) = (theta'z_i - y_t)^2 + lam ||theta||^2.
Symbols  eta        step size of theta, > 0, a schedule in t
         lam        regularisation, >= 0
         sharpness  how fast weights follow losses, > 0
         share      what all kernels divide among themselves in every round, in (0, 1)
Cost     O(N D d) time per round; O(N D d) memory.
Bound    none for kernels that learn.
Differs  the share goes to all kernels, in the paper to all others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from omkl.core.hyperparameters import FRACTION, NON_NEGATIVE, POSITIVE, Schedule, rate
from omkl.core.protocol import choose_all, register
from omkl.core.representations.random_features import (
    RANDOM_FEATURES,
    RandomFeatures,
    gradient_step,
)
from omkl.core.weights import mean_of_all, shares_of_all

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Params(NamedTuple):
    eta: Schedule
    lam: NON_NEGATIVE
    sharpness: POSITIVE
    share: FRACTION


class State(NamedTuple):
    model: RandomFeatures
    log_w: np.ndarray  # (N,)
    w: np.ndarray  # (N,) scratch


def init(params: Params, dictionary: Sequence[Kernel], model: RandomFeatures) -> State:
    N = len(dictionary)
    return State(model, np.full(N, -math.log(N)), np.empty(N))


def select(params, state, t, rng, selection):
    choose_all(selection)


def predict(params, state, t, selection):
    return mean_of_all(state.log_w, selection.f), True


def update(params, state, t, y, selection):
    eta = rate(params.eta, t)
    N = selection.f.shape[0]
    for m in range(N):
        i = selection.evaluate[m]
        error = selection.f[i] - y
        state.log_w[i] -= params.sharpness * error * error
        gradient_step(
            state.model, i, m, selection.scratch, 2.0 * eta * error, 1.0 - 2.0 * eta * params.lam
        )
    shares_of_all(state.log_w, state.w)
    for i in range(N):
        state.log_w[i] = math.log((1.0 - params.share) * state.w[i] + params.share / N)


EXPECTED_FAILURES = {"complete_graph": "its weights follow another rule than Raker's"}

algorithm = register(__name__, representation=RANDOM_FEATURES)
