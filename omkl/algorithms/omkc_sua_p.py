"""OMKC SUA-P: of the Perceptrons that vote one is drawn a round, and learns if mistaken.

Paper    R. Jin, S. C. H. Hoi, T. Yang, "Online Multiple Kernel Learning: Algorithms and
         Mistake Bounds", ALT 2010, algorithm 3 (SUA for OMKL-P).
Task     classification, labels -1 and +1; full information.
Round    1. Draw i_t from p = (1 - delta) q_t + delta / N, q_i = w_i / sum of w.
         2. Predict sign(q_t . sign(f_t(x_t))), as ``omkc_da_p1``: all classifiers vote.
         3. If y_t f_i(x_t) <= 0 for i = i_t alone: f_i <- f_i + y_t kappa_i(x_t, .) and
            w_i <- w_i beta.
Symbols  beta   discount of the weight of a mistaken classifier, in (0, 1)
         delta  smoothing of the draw, in (0, 1]
Cost     as ``omkc_da_p1``, with one support vector a round at most.
Bound    theorem 6: E[M] <= N / delta (2 ln(1/beta) / (1 - beta) min_i g(kappa_i)
         + 2 ln N / (1 - beta)).
Differs  none. The draw comes before the label, which changes no distribution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from omkl.algorithms.omkc_da_p1 import predict
from omkl.core.compiler import inlined
from omkl.core.hyperparameters import (
    FRACTION,
    LEARNS_WITH,
    MAY_LEARN,
    ROUNDS,
    SWITCH,
    UP_TO_ONE,
    Range,
)
from omkl.core.protocol import choose_all, register
from omkl.core.representations.kernel_perceptrons import PERCEPTRONS, add
from omkl.core.weights import draw_by_sums, running_sums, shares_of_all

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
    drawn: Annotated[MAY_LEARN, Range(0, "N", open_high=True)]  # (1,) int64, i_t
    sums: np.ndarray  # (N,) p_1 + .. + p_i
    stale: SWITCH  # (1,) bool, has log_w changed since: who writes it says so


def init(params: Any, dictionary: Sequence[Kernel], model: Any) -> State:
    N = len(dictionary)
    updates, drawn = np.zeros(N, dtype=np.int64), np.zeros(1, dtype=np.int64)
    return State(
        model,
        log_w=np.zeros(N),
        updates=updates,
        p=np.zeros(N),
        drawn=drawn,
        sums=np.zeros(N),
        stale=np.ones(1, dtype=bool),
    )


@inlined
def smooth(p, delta, uniform):
    """p = (1 - delta) q + delta uniform, in place of q."""
    for i in range(p.shape[0]):
        p[i] = (1.0 - delta) * p[i] + delta * uniform


@inlined
def smooth_and_sum(state, delta):
    """Smooth the q that is in p (N,), and add it up for a draw: both are then those of log_w."""
    smooth(state.p, delta, 1.0 / state.p.shape[0])
    running_sums(state.p, state.sums)
    state.stale[0] = False


def select(params, state, t, rng, selection):
    choose_all(selection)
    if state.stale[0]:
        shares_of_all(state.log_w, state.p)
        smooth_and_sum(state, params.delta)
    state.drawn[0] = draw_by_sums(state.sums, rng.random())


def update(params, state, t, y, selection):
    i = state.drawn[0]
    if y * selection.f[i] <= 0.0:
        add(state.model, i, y, selection.f[i], selection.scratch)
        state.log_w[i] += math.log(params.beta)
        state.stale[0] = True
        state.updates[i] += 1


EXPECTED_FAILURES = {"bounded_memory": "exact kernels keep every row that taught a classifier"}

algorithm = register(
    __name__,
    representation=PERCEPTRONS,
    task="classification",
    every_kernel=True,
    deterministic=False,
    theorem="theorem 6",
)
