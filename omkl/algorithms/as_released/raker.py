"""Raker as released with the JMLR paper: the penalty in the loss is that of the moved theta.

Paper    P. M. Ghari, Y. Shen, "Graph-Aided Online Multi-Kernel Learning", JMLR, section 5,
         and its public code; the algorithm is that of Shen, Chen and Giannakis, JMLR 2019.
Task     regression; full information.
Round    1. Evaluate f_i(x_t) = theta_i'z_i(x_t) for all N kernels.
         2. Predict the mean of the f_i weighted by w_i.
         3. theta_i <- theta_i - eta_t grad ((theta_i'z_i - y)^2 + lam ||theta_i||^2).
         4. w_i <- w_i exp(-eta_t ((f_i - y)^2 + lam ||theta_i||^2)) with the new theta_i.
Symbols  eta  step size of theta and of the weights, > 0, a schedule in t
         lam  regularisation, >= 0
         replay  T: features of the release (``as_released/draws``), where the seed is the number
                 of the repetition; 0: those of other learners
Cost     as ``raker``.
Bound    none stated for this order.
Differs  from the paper (``raker``): the penalty that feeds the weights is taken after theta
         has moved; the squared error in the same sum is not. The text takes both before.
"""

from __future__ import annotations

from typing import NamedTuple

from omkl.algorithms.as_released.draws import REPLAY, REPLAYED_LOCAL_FEATURES
from omkl.algorithms.raker import State, init, local_step, predict, select, step_size
from omkl.core.hyperparameters import NON_NEGATIVE, Schedule, rate
from omkl.core.protocol import register
from omkl.core.weights import exponential_update


class Params(NamedTuple):
    eta: Schedule
    lam: NON_NEGATIVE
    replay: REPLAY = 0


def reweigh(params, state, t, y, f, norm2):
    exponential_update(
        state.log_w, rate(params.eta, t), y, f, params.lam, state.model.norm2
    )  # moved


EXPECTED_FAILURES = {
    "complete_graph": "the penalty that feeds its weights is that of the moved theta"
}

algorithm = register(__name__, representation=REPLAYED_LOCAL_FEATURES)
