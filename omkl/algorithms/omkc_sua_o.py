"""OMKC SUA-O: the outputs are combined; when the combination errs, one drawn classifier learns.

Paper    R. Jin, S. C. H. Hoi, T. Yang, "Online Multiple Kernel Learning: Algorithms and
         Mistake Bounds", ALT 2010, algorithm 6 (SUA for OMKL-O).
Task     classification, labels -1 and +1; full information.
Round    1. Draw i_t from p = (1 - delta) q_t + delta / N, q_i = w_i / sum of w.
         2. Predict sign(q_t . f_t(x_t)). What is returned is q_t . f_t(x_t).
         3. If y_t q_t . f_t(x_t) <= 0, for i = i_t and with m = 1 / p_i:
            w_i <- w_i beta^(-eta m y_t f_i(x_t)) and f_i <- f_i + eta m y_t kappa_i(x_t, .),
            projected onto ||f_i|| <= R.
Symbols  beta   discount of the weights, in (0, 1)
         R      largest norm of a classifier, > 0
         delta  smoothing of the draw, in (0, 1]
         eta    step size, > 0; ``theorem``: sqrt(a / b), that of theorem 10
Cost     as ``omkc_da_p1``, with one support vector a round at most.
Bound    theorem 10: E[M] <= min sum of the hinge losses of u . f + 2 sqrt(a b T) over u in the
         simplex and ||f_i|| <= R, a = R^2 / 2 + ln N / ln(1/beta),
         b = ln(1/beta) R^2 N^2 / (2 delta^2) + N / (2 delta). Unproved: the proof needs a step
         smaller by sqrt(T), see ``docs/errata.md``.
Differs  none. The draw comes before the label, and in rounds without a mistake for nothing.
         Reading: p is always that of the present weights, as in algorithm 3; line 15 names q_t
         after w_t+1 was made. The theorem's eta lacks the 1 / sqrt(T) that its bound would
         need; taken as stated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from omkl.algorithms.omkc_sua_p import smooth_and_sum
from omkl.core.compiler import inlined
from omkl.core.hyperparameters import (
    FRACTION,
    LEARNS_WITH,
    MAY_LEARN,
    POSITIVE,
    ROUNDS,
    STEP_OF_THEOREM,
    SWITCH,
    UP_TO_ONE,
    Range,
)
from omkl.core.protocol import choose_all, register
from omkl.core.representations.kernel_perceptrons import PERCEPTRONS, add, project
from omkl.core.weights import (
    draw_by_sums,
    exponentials_below,
    largest_of,
    mean_of_all_by_shares,
)

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Params(NamedTuple):
    beta: FRACTION
    R: POSITIVE
    delta: UP_TO_ONE
    eta: STEP_OF_THEOREM


class State(NamedTuple):
    model: Any
    log_w: np.ndarray  # (N,)
    updates: ROUNDS  # (N,) int64
    p: LEARNS_WITH  # (N,)
    drawn: Annotated[MAY_LEARN, Range(0, "N", open_high=True)]  # (1,) int64, i_t
    eta: np.ndarray  # (1,)
    w: np.ndarray  # (N,) the weights over the largest of them
    total_w: np.ndarray  # (1,) its sum
    sums: np.ndarray  # (N,) p_1 + .. + p_i
    stale: SWITCH  # (1,) bool, has log_w changed since: who writes it says so


def step_of_theorem(params: Any, N: int) -> tuple[float, float]:
    """a and b of theorem 10; its step size is sqrt(a / b)."""
    rate = math.log(1.0 / params.beta)
    a = 0.5 * params.R**2 + math.log(N) / rate
    b = 0.5 * rate * (params.R * N / params.delta) ** 2 + 0.5 * N / params.delta
    return a, b


def init(params: Any, dictionary: Sequence[Kernel], model: Any) -> State:
    N = len(dictionary)
    updates, drawn = np.zeros(N, dtype=np.int64), np.zeros(1, dtype=np.int64)
    a, b = step_of_theorem(params, N)
    eta = math.sqrt(a / b) if math.isnan(params.eta) else params.eta
    return State(
        model,
        log_w=np.zeros(N),
        updates=updates,
        p=np.zeros(N),
        drawn=drawn,
        eta=np.array([eta]),
        w=np.zeros(N),
        total_w=np.zeros(1),
        sums=np.zeros(N),
        stale=np.ones(1, dtype=bool),
    )


def select(params, state, t, rng, selection):
    choose_all(selection)
    if state.stale[0]:
        state.total_w[0] = exponentials_below(state.log_w, largest_of(state.log_w), state.w)
        inverse = 1.0 / state.total_w[0]
        for i in range(state.w.shape[0]):
            state.p[i] = state.w[i] * inverse
        smooth_and_sum(state, params.delta)
    state.drawn[0] = draw_by_sums(state.sums, rng.random())


@inlined
def _mean(state, f):
    return mean_of_all_by_shares(state.w, f) / state.total_w[0]


def predict(params, state, t, selection):
    return _mean(state, selection.f), True


def update(params, state, t, y, selection):
    if y * _mean(state, selection.f) > 0.0:
        return
    i = state.drawn[0]
    step = state.eta[0] / state.p[i] * y
    state.log_w[i] -= math.log(params.beta) * step * selection.f[i]
    state.stale[0] = True
    add(state.model, i, step, selection.f[i], selection.scratch)
    project(state.model, i, params.R, selection.scratch)
    state.updates[i] += 1


EXPECTED_FAILURES = {"bounded_memory": "exact kernels keep every row that taught a classifier"}

algorithm = register(
    __name__,
    representation=PERCEPTRONS,
    task="classification",
    every_kernel=True,
    deterministic=False,
    theorem="theorem 10",
)
