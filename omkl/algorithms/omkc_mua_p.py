"""OMKC MUA-P: every Perceptron tosses a coin whether it may learn, and learns if mistaken.

Paper    R. Jin, S. C. H. Hoi, T. Yang, "Online Multiple Kernel Learning: Algorithms and
         Mistake Bounds", ALT 2010, algorithm 4 (MUA for OMKL-P).
Task     classification, labels -1 and +1; full information.
Round    1. Draw m_i = 1 with probability p_i, each i by itself; p_i = (1 - delta) q_i + delta,
            q_i = w_i / sum of w, but p = 1 in the first round.
         2. Predict sign(q_t . sign(f_t(x_t))), as ``omkc_da_p1``: all classifiers vote.
         3. Where m_i = 1 and y_t f_i(x_t) <= 0: f_i <- f_i + y_t kappa_i(x_t, .) and
            w_i <- w_i beta.
Symbols  beta   discount of the weight of a mistaken classifier, in (0, 1)
         delta  smoothing of the draw, in (0, 1]; with 1 it is ``omkc_da_p1``
Cost     as ``omkc_da_p1``.
Bound    theorem 7: E[M] <= 1 / delta (2 ln(1/beta) / (1 - beta) min_i g(kappa_i)
         + 2 ln N / (1 - beta)).
Differs  none. The draws come before the label, which changes no distribution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from omkl.algorithms.omkc_da_p1 import predict
from omkl.algorithms.omkc_sua_p import smooth
from omkl.core.hyperparameters import FRACTION, LEARNS_WITH, MAY_LEARN, ROUNDS, UP_TO_ONE, Range
from omkl.core.protocol import choose_all, register
from omkl.core.representations.kernel_perceptrons import PERCEPTRONS, add
from omkl.core.weights import shares_of_all

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Params(NamedTuple):
    beta: FRACTION
    delta: UP_TO_ONE


class State(NamedTuple):
    model: Any
    log_w: np.ndarray  # (N,)
    updates: ROUNDS  # (N,) int64
    p: LEARNS_WITH  # (N,)
    drawn: Annotated[MAY_LEARN, Range(0, 1)]  # (N,) int64, m_i


def init(params: Any, dictionary: Sequence[Kernel], model: Any) -> State:
    N = len(dictionary)
    updates = np.zeros(N, dtype=np.int64)
    return State(model, np.zeros(N), updates, np.zeros(N), updates.copy())


def select(params, state, t, rng, selection):
    choose_all(selection)
    shares_of_all(state.log_w, state.p)
    smooth(state.p, params.delta, 1.0)
    for i in range(state.p.shape[0]):
        if t == 1:
            state.p[i] = 1.0
        state.drawn[i] = 1 if rng.random() < state.p[i] else 0


def update(params, state, t, y, selection):
    discount = math.log(params.beta)
    for i in range(selection.f.shape[0]):
        if state.drawn[i] == 1 and y * selection.f[i] <= 0.0:
            add(state.model, i, y, selection.f[i], selection.scratch)
            state.log_w[i] += discount
            state.updates[i] += 1


EXPECTED_FAILURES = {"bounded_memory": "exact kernels keep every row that taught a classifier"}

algorithm = register(
    __name__,
    representation=PERCEPTRONS,
    task="classification",
    every_kernel=True,
    deterministic=False,
    theorem="theorem 7",
)
