"""GMOCP: a kernel of those that a bipartite graph picks predicts, with an interval of its own.

Paper    E. Hajihashemi, Y. Shen, "Multi-model Online Conformal Prediction with Graph-Structured
         Feedback", arXiv 2506.20898 (2025).
Task     regression; selected kernels (at most M a round); an interval with every prediction.
Round    b_i, loss(b, a) and q_i(a) as in SAMOCP (``samocp``), of the scores of the rounds in
         which kernel i was evaluated; a_i is its level of miscoverage.
         1. Draw the graph: each of J selective nodes draws M times, with replacement, from
            pi_i = (1 - eta_e) w_i / sum(w) + eta_e / N.
         2. u_j is the sum of w over the kernels of node j; draw a node from
            p_j = (1 - eta_e) u_j / U + eta_e / J. S_t are its kernels, and are evaluated.
         3. Draw a kernel m of S_t in proportion to w. Predict f_m, and f_m +- q_m(a_m).
         4. q_i = sum_j p_j (1 - (1 - pi_i)^M); with the label, for i in S_t,
            w_i <- w_i exp(-eps loss(b_i, a_i) / q_i),
            a_i <- a_i - step h / sqrt(sum of h^2 so far), h = ([b_i < a_i] - (1 - level)) / q_i,
            theta_i <- theta_i - eta grad L_i / q_i,
            L_i(theta) = (theta'z_i - y)^2 + lam ||theta||^2.
Symbols  eta     step size of theta, > 0, a schedule
         eta_e   exploration, in (0, 1), a schedule
         lam     regularisation, >= 0
         M       draws of a selective node, 1..N: the largest number of kernels a round
         J       selective nodes, >= 1
         level   share of labels that intervals are to hold, in (0, 1)
         step    of the levels, > 0
         eps     rate of the kernels' weights, > 0, a schedule
Cost     O(M D d + J M N) time a round; O(N D d + J N + 1000 N) memory.
Bound    sublinear regret, in the paper; not evaluated.
Reading  The text was not at hand, and no code is public: summaries have step 1, the draws from S_t
         and q. The node, 1 / q in step 4 and eps = 0.1/sqrt(t) are those of OMKL-GF (``gf``), the
         levels and their step those of SAMOCP's code. So is what is learned for regression: see
         there, also for why weights stay near even. A kernel that is drawn before it has a score
         says no interval.
Differs  from the paper: as above. q takes p as independent of the drawn graph, as in OMKL-GF: for
         J > 1 the weights 1 / q are biased.

>>> import numpy as np
>>> from omkl.checks import learners
>>> X, y = learners.stream(1000)
>>> y_hat, _, half = learners.Case("gmocp").learner().partial_fit(X, y)
>>> f"{np.mean(np.abs(y - y_hat)[100:] <= half[100:]):.3f}"
'0.867'
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np

from omkl.algorithms import gf
from omkl.core.conformal import WINDOW, keep, level_of, missed, pinball, quantile
from omkl.core.hyperparameters import (
    EVALUATED_WITH,
    FRACTION,
    KERNELS,
    NODES,
    NON_NEGATIVE,
    POSITIVE,
    RATE,
    ROUNDS,
    UP_TO_N,
    Range,
    Schedule,
    rate,
)
from omkl.core.protocol import register
from omkl.core.representations.random_features import RANDOM_FEATURES, RandomFeatures, gradient_step
from omkl.core.weights import draw, running_sums, softmax

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Params(NamedTuple):
    eta: Schedule
    eta_e: RATE
    lam: NON_NEGATIVE
    M: UP_TO_N
    J: NODES
    level: FRACTION
    step: POSITIVE
    eps: Schedule


class State(NamedTuple):
    """The graph as in ``gf``, and of every kernel its scores and its level."""

    model: RandomFeatures
    log_w: np.ndarray  # (N,)
    kernels: KERNELS  # (J, M)
    n_kernels: Annotated[np.ndarray, Range(0, "kernels.1")]  # (J,)
    drawn: np.ndarray  # (J, N)
    w: np.ndarray  # (N,)
    sums: np.ndarray  # (N,)
    u: np.ndarray  # (J, M)
    p: np.ndarray  # (J,)
    q: EVALUATED_WITH  # (N,)
    share: np.ndarray  # (N,) chances of the kernels of S_t, in their order; behind them zeros
    scores: np.ndarray  # (N, W) the last of each kernel, see ``omkl.core.conformal``
    ordered: np.ndarray  # (N, W)
    n_scores: ROUNDS  # (N,) so far
    levels: np.ndarray  # (N,) a_i
    squares: np.ndarray  # (N,) sums of h^2


def init(params: Params, dictionary: Sequence[Kernel], model: RandomFeatures) -> State:
    N = len(dictionary)
    return State(
        *gf.blank(model, params.J, params.M),
        scores=np.zeros((N, WINDOW)),
        ordered=np.zeros((N, WINDOW)),
        n_scores=np.zeros(N, dtype=np.int64),
        levels=np.full(N, 1.0 - params.level),
        squares=np.zeros(N),
    )


def select(params, state, t, rng, selection):
    eta_e = rate(params.eta_e, t)
    softmax(state.log_w, state.w)
    running_sums(state.w, state.sums)
    for j in range(params.J):
        gf.draw_kernels(state, j, params.M, eta_e, rng)
    gf.choose_node(params, state, eta_e, rng.random(), selection)
    state.share[selection.n_evaluated[0] :] = 0.0
    selection.combine[0] = selection.evaluate[draw(state.share, rng.random())]
    selection.n_combined[0] = 1


def predict(params, state, t, selection):
    return selection.f[selection.combine[0]], True


def half_width(params, state, t, selection):
    i = selection.combine[0]
    n = min(state.n_scores[i], state.scores.shape[1])
    if n == 0:
        return np.nan
    return quantile(state.ordered[i], n, state.levels[i])


def update(params, state, t, y, selection):
    eta, eps, alpha = rate(params.eta, t), rate(params.eps, t), 1.0 - params.level
    for m in range(selection.n_evaluated[0]):
        i = selection.evaluate[m]
        error, q = selection.f[i] - y, state.q[i]
        n = min(state.n_scores[i], state.scores.shape[1])
        place = keep(state.scores[i], state.ordered[i], state.n_scores[i], abs(error))
        state.n_scores[i] += 1
        off = level_of(place, n) - state.levels[i]
        state.log_w[i] -= eps * pinball(alpha, off) / q
        h = (missed(off) - alpha) / q
        state.squares[i] += h * h
        state.levels[i] -= params.step * h / math.sqrt(state.squares[i])
        step = eta / q
        shrink = 1.0 - 2.0 * step * params.lam
        gradient_step(state.model, i, m, selection.scratch, 2.0 * step * error, shrink)


EXPECTED_FAILURES = {
    "importance_weights": "p follows the drawn graph, so q is exact for J = 1 alone",
    "learns": "one kernel alone predicts, and the weights do not tell which one errs least",
}

algorithm = register(__name__, representation=RANDOM_FEATURES)
