"""OMKC DA-P(1): Perceptrons that vote with Hedge weights; every mistaken one learns.

Paper    R. Jin, S. C. H. Hoi, T. Yang, "Online Multiple Kernel Learning: Algorithms and
         Mistake Bounds", ALT 2010, algorithm 1 (DA for OMKL-P (1)).
Task     classification, labels -1 and +1; full information.
Round    1. Predict sign(q_t . sign(f_t(x_t))), q_i = w_i / sum of w. What is returned is the
            number under the first sign, in [-1, 1].
         2. z_i = 1 where y_t f_i(x_t) <= 0: f_i <- f_i + z_i y_t kappa_i(x_t, .) and
            w_i <- w_i beta^z_i.
Symbols  beta  discount of the weight of a mistaken classifier, in (0, 1)
Cost     O(S d + sum_i S_i) time a round, S_i support vectors of classifier i and S rows in
         all of them; O(S d + sum_i S_i) memory, growing with the mistakes.
Bound    theorem 2: M <= 2 ln(1/beta) / (1 - beta) min_i g(kappa_i) + 2 ln N / (1 - beta), g the
         least ||f||^2 + 2 sum of hinge losses. M counts q . z >= 1/2, so a tie and an f_i = 0
         count against the learner; the mistakes of the prediction above are no more.
Differs  none. Kernels are normalised to kappa(x, x) = 1, as the paper assumes (<= 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.core.compiler import inlined
from omkl.core.hyperparameters import FRACTION, ROUNDS
from omkl.core.protocol import choose_all, register
from omkl.core.representations.kernel_perceptrons import (
    PERCEPTRONS,
    add_mistaken,
    perceptron_step,
    vote,
)

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Params(NamedTuple):
    beta: FRACTION


class State(NamedTuple):
    model: Any  # Perceptrons, Budgeted or RandomFeatures
    log_w: np.ndarray  # (N,)
    updates: ROUNDS  # (N,) int64, rounds in which the classifier learned


def init(params: Any, dictionary: Sequence[Kernel], model: Any) -> State:
    N = len(dictionary)
    return State(model, np.zeros(N), np.zeros(N, dtype=np.int64))


def select(params, state, t, rng, selection):
    choose_all(selection)


def predict(params, state, t, selection):
    return vote(state.log_w, selection.f), True


def step_size(params, t):
    return 1.0


local_step = perceptron_step


@inlined
def reweigh(params, state, t, y, f, norm2):
    discount = math.log(params.beta)
    for i in range(f.shape[0]):
        if y * f[i] <= 0.0:
            state.log_w[i] += discount
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
    theorem="theorem 2",
    independent=True,
)
