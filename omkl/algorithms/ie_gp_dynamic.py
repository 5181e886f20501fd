"""Dynamic IE-GP: an ensemble of Gaussian processes whose functions move, and whose best changes.

Paper    Q. Lu, G. V. Karanikolas, G. B. Giannakis, "Incremental Ensemble Gaussian Processes",
         IEEE TPAMI 45(2), 2023 (arXiv 2110.06777), its dynamic form.
Task     regression; full information; streams that drift; a spread with every prediction.
Round    1. As of ``ie_gp`` after two moves. theta_i takes a step of a random walk,
            S_i <- S_i + walk I; the best expert stays so with probability 1 - switch, else it
            becomes one of the N - 1 others: w_i <- (1 - switch) w_i + switch (1 - w_i) / (N - 1).
         2. Predict the mean and the variance of the mixture.
         3. w_i, m_i and S_i by Bayes' rule.
Symbols  noise   variance of the noise, > 0
         prior   variance of every coefficient before the first round, > 0
         walk    variance that every coefficient gains in a round, > 0
         switch  probability that the best expert is another in the next round, in [0, 1)
Cost     O(N D^2 + N D d) time a round; O(N D^2) memory.
Bound    none that is stated here.
Reading  Its text is not at hand: what is here follows a summary. The chain of the best expert
         starts from equal weights.
Differs  from the paper: not known. Kernels without random features are refused: the walk keeps S_i
         definite for features of norm 1.

>>> from omkl.checks import learners
>>> X, y = learners.stream(1000)
>>> y_hat = learners.Case("ie_gp_dynamic").learner().partial_fit(X, y).y_hat
>>> f"{((y_hat - y) ** 2).mean():.6f}"
'0.003069'
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np

from omkl.algorithms.ie_gp import predict, select, variance
from omkl.core.hyperparameters import POSITIVE, Range
from omkl.core.protocol import register
from omkl.core.representations import second_order
from omkl.core.representations.second_order import RANDOM_WALK, RandomWalk, walk_every, walk_rounds
from omkl.core.weights import softmax

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Params(NamedTuple):
    noise: POSITIVE
    prior: POSITIVE
    walk: POSITIVE
    switch: Annotated[float, Range(0.0, 1.0, open_high=True)]


class State(NamedTuple):
    model: RandomWalk  # S_i = noise P_i
    log_w: np.ndarray  # (N,)
    w: np.ndarray  # (N,) exp(log_w), of sum 1


def init(params: Params, dictionary: Sequence[Kernel], model: RandomWalk) -> State:
    N = len(dictionary)
    return State(model, np.full(N, -math.log(N)), np.full(N, 1.0 / N))


def learn_ahead(params, state, t, X, y, row, selection):
    walk_rounds(state.model, selection.scratch, X, y, row, params.walk / params.noise)


def update(params, state, t, y, selection):
    N = selection.f.shape[0]
    for i in range(N):
        error = y - selection.f[i]
        spread = 1.0 + selection.scratch.variance[i]
        state.log_w[i] -= 0.5 * (error * error / (params.noise * spread) + math.log(spread))
    walk_every(state.model, selection.scratch, selection.f, y, params.walk / params.noise)
    log_total = softmax(state.log_w, state.w)
    for i in range(N):
        state.log_w[i] -= log_total
        if N > 1 and params.switch > 0.0:
            moved = params.switch * (1.0 - state.w[i]) / (N - 1)
            state.w[i] = (1.0 - params.switch) * state.w[i] + moved
            state.log_w[i] = math.log(state.w[i])


def _fresh(params: Params, kernels: Sequence[Kernel], d: int, D: int, seed: int) -> RandomWalk:
    return second_order.fresh_walk(kernels, d, D, seed, (params.prior + params.walk) / params.noise)


algorithm = register(__name__, representation=RANDOM_WALK._replace(fresh=_fresh), every_kernel=True)
