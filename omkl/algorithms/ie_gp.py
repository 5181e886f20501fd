"""IE-GP: an ensemble of Gaussian processes on random features, weighed by their likelihood.

Paper    Q. Lu, G. V. Karanikolas, G. B. Giannakis, "Incremental Ensemble Gaussian Processes",
         IEEE TPAMI 45(2), 2023 (arXiv 2110.06777). From the summary of it at hand.
Task     regression; full information; no step size; a spread with every prediction.
Round    1. Expert i holds theta_i ~ N(m_i, S_i), at first N(0, prior I), and predicts y_t by
            N(z_i'm_i, z_i'S_i z_i + noise).
         2. Predict the mean of the experts' means weighted by w_i; the spread is the variance of
            the mixture.
         3. w_i <- w_i N(y_t; the prediction of i), and m_i, S_i by Bayes' rule (Kalman).
Symbols  noise  variance of the noise, > 0
         prior  variance of every coefficient before the first round, > 0
Cost     O(N D^2 + N D d) time a round; O(N D^2) memory.
Bound    the sum of -log of the mixture's density is at most ln N above that of the best expert.
Differs  from the paper: not known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.core.hyperparameters import POSITIVE
from omkl.core.protocol import choose_all, register
from omkl.core.representations import recursive
from omkl.core.representations.recursive import RECURSIVE, Recursive, learn
from omkl.core.weights import weighted_mean

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Params(NamedTuple):
    noise: POSITIVE
    prior: POSITIVE


class State(NamedTuple):
    model: Recursive  # S_i = noise P_i
    log_w: np.ndarray  # (N,)


def fresh(params: Params, kernels: Sequence[Kernel], d: int, D: int, seed: int) -> Recursive:
    return recursive.fresh(kernels, d, D, seed, params.prior / params.noise)


def init(params: Params, dictionary: Sequence[Kernel], model: Recursive) -> State:
    return State(model, np.zeros(len(dictionary)))


def select(params, state, t, rng, selection):
    choose_all(selection)


def predict(params, state, t, selection):
    return weighted_mean(state.log_w, selection.f, selection.combine, selection.n_combined[0]), True


def update(params, state, t, y, selection):
    for i in range(selection.f.shape[0]):
        error = y - selection.f[i]
        spread = 1.0 + selection.scratch.variance[i]
        state.log_w[i] -= 0.5 * (error * error / (params.noise * spread) + math.log(spread))
        learn(state.model, i, selection.scratch, 1.0, 1.0, error)


algorithm = register(__name__, representation=RECURSIVE._replace(fresh=fresh), every_kernel=True)
