"""OMKR: online multi-kernel regression with exact kernels.

Paper    D. Sahoo, S. C. H. Hoi, B. Li, "Online Multiple Kernel Regression", KDD 2014;
         the baseline of Ghari and Shen, "Graph-Aided Online Multi-Kernel Learning", JMLR.
Task     regression; full information.
Round    1. f_i(x_t) = sum over s < t of alpha_{i,s} kappa_i(x_s, x_t) for all N kernels.
         2. Predict the mean of the f_i weighted by w_i.
         3. alpha_{i,t} = -eta_t (f_i(x_t) - y_t), and w_i <- w_i beta^(f_i(x_t) - y_t)^2.
Symbols  eta   step size of the coefficients, > 0, a schedule in t
         beta  discount of the weights, in (0, 1)
Cost     O(t (N + d)) time a round; O(T (N + d)) memory, growing with the stream.
Bound    O(sqrt(T ln N)); squared losses that are bounded.
Differs  from the paper: none. Ghari and Shen's tables have exp(-||x - x'||^2 / b) for a
         Gaussian kernel of bandwidth b: that is kernels=rbf51_lap25_exact here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from omkl.core.hyperparameters import FRACTION, Schedule, rate
from omkl.core.protocol import choose_all, register
from omkl.core.representations.support_vectors import GROWING, Expansion, append
from omkl.core.weights import mean_of_all

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Params(NamedTuple):
    eta: Schedule
    beta: FRACTION


class State(NamedTuple):
    model: Expansion
    log_w: np.ndarray  # (N,)


def init(params: Params, dictionary: Sequence[Kernel], model: Expansion) -> State:
    return State(model, np.zeros(len(dictionary)))


def select(params, state, t, rng, selection):
    choose_all(selection)


def predict(params, state, t, selection):
    return mean_of_all(state.log_w, selection.f), True


def update(params, state, t, y, selection):
    eta = rate(params.eta, t)
    discount = math.log(params.beta)
    n = state.model.n[0]
    for i in range(selection.f.shape[0]):
        error = selection.f[i] - y
        state.model.alpha[i, n] = -eta * error
        state.log_w[i] += discount * error * error
    append(state.model)


EXPECTED_FAILURES = {
    "bounded_memory": "exact kernels keep every row: the curse of dimensionality",
}

algorithm = register(__name__, representation=GROWING, every_kernel=True)
