"""OMKC DA-O: the outputs are combined, and all classifiers learn when the combination errs.

Paper    R. Jin, S. C. H. Hoi, T. Yang, "Online Multiple Kernel Learning: Algorithms and
         Mistake Bounds", ALT 2010, algorithm 5 (DA for OMKL-O).
Task     classification, labels -1 and +1; full information.
Round    1. Predict sign(q_t . f_t(x_t)), q_i = w_i / sum of w. What is returned is q_t . f_t(x_t).
         2. If y_t q_t . f_t(x_t) <= 0, for all i: w_i <- w_i beta^(-y_t f_i(x_t)) and
            f_i <- f_i + y_t kappa_i(x_t, .), projected onto ||f_i|| <= R.
Symbols  beta  discount of the weights, in (0, 1)
         R     largest norm of a classifier, > 0
Cost     as ``omkc_da_p1``; a projection takes O(1).
Bound    theorem 8, where c = R^2 ln(1/beta) < 1: M <= min g(u, f) / (1 - c)
         + 2 ln N / ((1 - c) ln(1/beta)), g = sum of u_i ||f_i||^2 + 2 sum of the hinge losses of
         u . f over u in the simplex and ||f_i|| <= R.
Differs  none.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from omkl.algorithms.omkc_da_p1 import State, init, select
from omkl.core.hyperparameters import FRACTION, POSITIVE
from omkl.core.protocol import register
from omkl.core.representations.kernel_perceptrons import PERCEPTRONS, add, project
from omkl.core.weights import mean_of_all


class Params(NamedTuple):
    beta: FRACTION
    R: POSITIVE


def predict(params, state, t, selection):
    return mean_of_all(state.log_w, selection.f), True


def update(params, state, t, y, selection):
    if y * mean_of_all(state.log_w, selection.f) > 0.0:
        return
    discount = math.log(params.beta)
    for i in range(selection.f.shape[0]):
        state.log_w[i] -= discount * y * selection.f[i]
        add(state.model, i, y, selection.f[i], selection.scratch)
        project(state.model, i, params.R, selection.scratch)
        state.updates[i] += 1


EXPECTED_FAILURES = {"bounded_memory": "exact kernels keep every row that taught a classifier"}

algorithm = register(
    __name__,
    representation=PERCEPTRONS,
    task="classification",
    every_kernel=True,
    theorem="theorem 8",
)
