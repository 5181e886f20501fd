"""RFOMKR: every kernel in every round, mixed by Hedge.

Paper    D. Sahoo, S. C. H. Hoi, B. Li, "Large Scale Online Multiple Kernel Regression with
         Application to Time-Series Prediction", ACM TKDD 13(1), 2019 (doi 10.1145/3299875),
         with random Fourier features; called RFOMKR in Ghari and Shen, "Graph-Aided Online
         Multi-Kernel Learning", JMLR, section 5.
Task     regression; full information.
Round    1. Evaluate f_i(x_t) = theta_i'z_i(x_t) for all N kernels.
         2. Predict the mean of the f_i weighted by w_i, which starts at 1/N.
         3. theta_i <- theta_i - eta_t grad L_i(theta_i), and w_i <- w_i beta^(L_i(theta_i)),
            both at the theta_i that predicted,
            with L_i(theta) = (theta'z_i - y_t)^2 + lam ||theta||^2.
Symbols  eta   step size of theta, > 0, a schedule in t
         beta  discount of the weights, in (0, 1) (0.5)
         lam   regularisation, >= 0 (0: the squared error alone)
Cost     O(N D d) time a round; O(N D d) memory.
Bound    O(sqrt(T ln N)) for the exact kernels, as the JMLR paper cites it.
Differs  from the paper: none known; lam is ours and 0. The released code of the JMLR paper
         leaves the weights unnormalised in the prediction: see ``as_released/rfomkr``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from omkl.algorithms.raker import State, local_step, predict, select, step_size
from omkl.core.hyperparameters import FRACTION, NON_NEGATIVE, Schedule
from omkl.core.protocol import register
from omkl.core.representations.blocked import LOCAL_FEATURES
from omkl.core.representations.random_features import RandomFeatures
from omkl.core.weights import exponential_update

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Params(NamedTuple):
    eta: Schedule
    beta: FRACTION
    lam: NON_NEGATIVE


def init(params: Params, dictionary: Sequence[Kernel], model: RandomFeatures) -> State:
    N = len(dictionary)
    return State(model, np.full(N, -math.log(N)))


def reweigh(params, state, t, y, f, norm2):
    exponential_update(state.log_w, -math.log(params.beta), y, f, params.lam, norm2)


EXPECTED_FAILURES = {
    "complete_graph": "its weights are beta^loss, without the step size that Raker's have"
}

algorithm = register(__name__, representation=LOCAL_FEATURES)
