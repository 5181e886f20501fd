"""OMKC DA-P(2): as DA-P(1), and a classifier pays more the more it was mistaken.

Paper    R. Jin, S. C. H. Hoi, T. Yang, "Online Multiple Kernel Learning: Algorithms and
         Mistake Bounds", ALT 2010, algorithm 2 (DA for OMKL-P (2)).
Task     classification, labels -1 and +1; full information.
Round    1. Predict sign(q_t . sign(f_t(x_t))), as ``omkc_da_p1``.
         2. z_i = 1 where y_t f_i(x_t) <= 0, nu_i = z_i (1/2 + min(gamma, -y_t f_i(x_t))):
            f_i <- f_i + z_i y_t kappa_i(x_t, .) and w_i <- w_i beta^nu_i.
Symbols  beta   discount of the weights, in (0, 1)
         gamma  the largest misclassification that counts, > 0
Cost     as ``omkc_da_p1``.
Bound    theorem 3: M <= 2 c ln(1/beta) / (1 - beta^c) min_i g(kappa_i) + 4 c ln N / (1 - beta^c)
         with c = 1/2 + gamma.
Differs  none.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from omkl.algorithms.omkc_da_p1 import State, init, local_step, predict, select, step_size
from omkl.core.compiler import inlined
from omkl.core.hyperparameters import FRACTION, POSITIVE
from omkl.core.protocol import register
from omkl.core.representations.kernel_perceptrons import PERCEPTRONS, add_mistaken


class Params(NamedTuple):
    beta: FRACTION
    gamma: POSITIVE


@inlined
def reweigh(params, state, t, y, f, norm2):
    discount = math.log(params.beta)
    for i in range(f.shape[0]):
        margin = y * f[i]
        if margin <= 0.0:
            state.log_w[i] += discount * (0.5 + min(params.gamma, -margin))
            state.updates[i] += 1


def update(params, state, t, y, selection):
    reweigh(params, state, t, y, selection.f, state.model.norm2)
    add_mistaken(state.model, y, selection)


EXPECTED_FAILURES = {"bounded_memory": "exact kernels keep every row that taught a classifier"}

algorithm = register(
    __name__,
    representation=PERCEPTRONS,
    task="classification",
    every_kernel=True,
    theorem="theorem 3",
    independent=True,
)
