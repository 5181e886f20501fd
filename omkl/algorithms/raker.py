"""Raker: every kernel in every round, mixed by exponential weights.

Paper    Y. Shen, T. Chen, G. B. Giannakis, "Random Feature-based Online Multi-kernel
         Learning in Environments with Unknown Dynamics", JMLR 20 (2019), algorithm 1;
         as stated for the comparison in Ghari and Shen, "Graph-Aided Online
         Multi-Kernel Learning", JMLR, equations (6), (8), (9).
Task     regression; full information.
Round    1. Evaluate f_i(x_t) = theta_i'z_i(x_t) for all N kernels.
         2. Predict the mean of the f_i weighted by w_i.
         3. theta_i <- theta_i - eta_t grad L_i(theta_i), and
            w_i <- w_i exp(-eta_t L_i(theta_i)), both at the theta_i that predicted,
            with L_i(theta) = (theta'z_i - y_t)^2 + lam ||theta||^2.
Symbols  eta  step size of theta and of the weights, > 0, a schedule in t
         lam  regularisation, >= 0
Cost     O(N D d) time a round; O(N D d) memory.
Bound    O(sqrt(T ln N)) with eta of order 1/sqrt(T) and D of order T ln T, with high
         probability; losses in [0, 1], ||x|| <= 1.
Differs  from the paper: none. The released code takes the regulariser in the loss that
         feeds the weights after theta has moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from omkl.core.compiler import inlined
from omkl.core.hyperparameters import NON_NEGATIVE, Schedule, rate
from omkl.core.protocol import choose_all, register
from omkl.core.representations.blocked import LOCAL_FEATURES
from omkl.core.representations.random_features import RandomFeatures
from omkl.core.weights import exponential_update, mean_of_all

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Params(NamedTuple):
    eta: Schedule
    lam: NON_NEGATIVE


class State(NamedTuple):
    model: RandomFeatures
    log_w: np.ndarray  # (N,)


def init(params: Params, dictionary: Sequence[Kernel], model: RandomFeatures) -> State:
    return State(model, np.zeros(len(dictionary)))


def select(params, state, t, rng, selection):
    choose_all(selection)


def predict(params, state, t, selection):
    return mean_of_all(state.log_w, selection.f), True


@inlined
def step_size(params, t):
    return rate(params.eta, t)


@inlined
def local_step(params, eta, y, f):
    return 2.0 * eta * (f - y), 1.0 - 2.0 * eta * params.lam


def reweigh(params, state, t, y, f, norm2):
    exponential_update(state.log_w, rate(params.eta, t), y, f, params.lam, norm2)


algorithm = register(__name__, representation=LOCAL_FEATURES, theorem="Shen et al. 2019")
