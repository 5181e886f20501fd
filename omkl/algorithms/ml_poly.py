"""ML-Poly over forecasters: kernels of second order, weighted without a rate.

Paper    P. Gaillard, G. Stoltz, T. van Erven, "A second-order bound with excess losses", COLT
         2014 (ML-Poly); forecasters of V. Vovk (2001), K. S. Azoury and M. K. Warmuth (2001).
Task     regression; full information; no step size, and no rate of the weights.
Round    1. Each of the N kernels predicts f_i as ``ridge_rff`` does.
         2. Predict the mean of the f_i weighted by w_i = eta_i max(R_i, 0); by equal weights
            where no R_i is positive.
         3. With r_i = 2 (y_hat - y_t) (y_hat - f_i), what a little of kernel i would have won:
            R_i <- R_i + r_i, V_i <- V_i + r_i^2, B <- max(B, max r_i^2), eta_i = 1 / (B + V_i).
Symbols  lam  regularisation of the kernels, > 0
Cost     O(N D^2 + N D d) time a round; O(N D^2) memory.
Bound    against the best mean of kernels: O(sqrt(sum of r_i^2 times ln N)), up to ln ln T.
Reading  From the paper's algorithm as commonly stated, its text is not at hand. There losses lie in
         [0, 1] and eta_i = 1 / (1 + V_i); B stands for that 1 in the unit of the labels, as in
         the R package opera. r_i is the slope of the loss: with losses themselves in its place
         the bound is against the best kernel alone.
Differs  from the paper in B; and its experts are any.

>>> from omkl import algorithms
>>> from omkl.checks import learners
>>> X, y = learners.stream(1000)
>>> y_hat = learners.Case("ml_poly").learner().partial_fit(X, y).y_hat
>>> f"{((y_hat - y) ** 2).mean():.6f}"
'0.004665'
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from omkl.core.hyperparameters import POSITIVE
from omkl.core.protocol import choose_all, register
from omkl.core.representations.second_order import FORECASTERS, Recursive, learn_every, learn_rounds
from omkl.core.weights import weighted_mean

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel

LEAST = 1e-300  # a weight of 0, as log_w holds it


class Params(NamedTuple):
    lam: POSITIVE


class State(NamedTuple):
    model: Recursive
    log_w: np.ndarray  # (N,)
    regret: np.ndarray  # (N,) R_i
    squares: np.ndarray  # (N,) V_i
    largest: np.ndarray  # (1,) B


def init(params: Params, dictionary: Sequence[Kernel], model: Recursive) -> State:
    N = len(dictionary)
    return State(model, np.zeros(N), np.zeros(N), np.zeros(N), np.zeros(1))


def select(params, state, t, rng, selection):
    choose_all(selection)


def predict(params, state, t, selection):
    return weighted_mean(state.log_w, selection.f, selection.combine, selection.n_combined[0]), True


def learn_ahead(params, state, t, X, y, row, selection):
    learn_rounds(state.model, selection.scratch, X, y, row)


def update(params, state, t, y, selection):
    N = selection.f.shape[0]
    y_hat = weighted_mean(state.log_w, selection.f, selection.combine, N)
    best = 0.0
    for i in range(N):
        r = 2.0 * (y_hat - y) * (y_hat - selection.f[i])
        state.regret[i] += r
        state.squares[i] += r * r
        state.largest[0] = max(state.largest[0], r * r)
        best = max(best, state.regret[i])
    for i in range(N):
        w = 1.0
        if best > 0.0:
            w = state.regret[i] / (state.largest[0] + state.squares[i])
        state.log_w[i] = math.log(max(w, LEAST))
    learn_every(state.model, selection.scratch, selection.f, y)


algorithm = register(__name__, representation=FORECASTERS, every_kernel=True)
