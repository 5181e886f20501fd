"""RFOMKR as released with the JMLR paper: its weights are never normalised.

Paper    P. M. Ghari, Y. Shen, "Graph-Aided Online Multi-Kernel Learning", JMLR, section 5,
         and its public code; the algorithm is that of Sahoo, Hoi and Li, ACM TKDD 2019.
Task     regression; full information.
Round    1. Evaluate f_i(x_t) = theta_i'z_i(x_t) for all N kernels.
         2. Predict the sum of w_i f_i; the w_i start at 1/N and only shrink.
         3. theta_i <- theta_i - eta_t grad L_i(theta_i), and w_i <- w_i beta^(L_i(theta_i)),
            both at the theta_i that predicted,
            with L_i(theta) = (theta'z_i - y_t)^2 + lam ||theta||^2.
Symbols  eta   step size of theta, > 0, a schedule in t
         beta  discount of the weights, in (0, 1) (0.5)
         lam   regularisation, >= 0 (released: 0, the squared error alone)
         replay  T: features of the release (``as_released/draws``), where the seed is the number
                 of the repetition; 0: those of other learners
Cost     as ``rfomkr``.
Bound    none: the predictions go to 0 as the losses add up.
Differs  from the paper (``rfomkr``): the prediction is the plain sum of w_i f_i, which is the
         weighted mean only in the first round. That is where the published 350.52, 405.44,
         210.42 and 347.06 come from.
"""

from __future__ import annotations

from typing import NamedTuple

from omkl.algorithms.as_released.draws import REPLAY, REPLAYED_LOCAL_FEATURES
from omkl.algorithms.rfomkr import State, init, local_step, reweigh, select, step_size
from omkl.core.hyperparameters import FRACTION, NON_NEGATIVE, Schedule
from omkl.core.protocol import register
from omkl.core.weights import sum_of_all


class Params(NamedTuple):
    eta: Schedule
    beta: FRACTION
    lam: NON_NEGATIVE
    replay: REPLAY = 0


def predict(params, state, t, selection):
    return sum_of_all(state.log_w, selection.f), True


EXPECTED_FAILURES = {
    "one_kernel": "the weight of a single kernel shrinks, and its prediction with it",
    "complete_graph": "its weights are beta^loss, and they are not normalised",
    "learns": "its predictions go to 0 as the losses add up",
}

algorithm = register(__name__, representation=REPLAYED_LOCAL_FEATURES)
