"""Online linear ridge: the forecaster of Vovk, Azoury and Warmuth on the inputs and 1.

Paper    V. Vovk, "Competitive on-line statistics", International Statistical Review 69 (2001);
         K. S. Azoury, M. K. Warmuth, "Relative loss bounds for on-line density estimation with
         the exponential family of distributions", Machine Learning 43 (2001).
Task     regression; full information; no kernel, no step size.
Round    Predict z'A_t^-1 b with z = (x_t, 1), A_t = lam I + sum_{s<=t} z_s z_s', which has x_t
         in it already, and b = sum_{s<t} y_s z_s; then take y_t into b.
Symbols  lam  regularisation, > 0
Cost     O(d^2) time a round; O(d^2) memory.
Bound    sum (y_hat_t - y_t)^2 <= min over theta of lam ||theta||^2 + sum (theta'z_t - y_t)^2,
         + Y^2 (d + 1) ln(1 + T X^2 / (lam (d + 1))), for |y| <= Y and ||z|| <= X.
Differs  from the paper: none.

With one input that is 0, so that z = (0, 1), and lam = 1, the labels 1, 2, 6 give sums over
lam + t:

>>> import numpy as np
>>> from omkl import algorithms
>>> from omkl.core.learner import Learner
>>> ridge = algorithms.load("ridge")
>>> learner = Learner(ridge, ridge.Params(lam=1.0), (), d=1, D=1, seed=0)
>>> learner.partial_fit(np.zeros((4, 1)), np.array([1.0, 2.0, 6.0, 0.0])).y_hat.round(4).tolist()
[0.0, 0.3333, 0.75, 1.8]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from omkl.core.hyperparameters import POSITIVE
from omkl.core.kernels import Kernel
from omkl.core.protocol import choose_all, register
from omkl.core.representations.recursive import LINEAR, RECURSIVE, Recursive, learn


class Params(NamedTuple):
    lam: POSITIVE


class State(NamedTuple):
    model: Recursive
    log_w: np.ndarray  # (1,)


def kernels(params: Params, dictionary: Sequence[Kernel]) -> Sequence[Kernel]:
    return (Kernel(LINEAR, 1.0),)


def init(params: Params, dictionary: Sequence[Kernel], model: Recursive) -> State:
    return State(model, np.zeros(1))


def select(params, state, t, rng, selection):
    choose_all(selection)


def predict(params, state, t, selection):
    return selection.f[0] / (1.0 + selection.scratch.variance[0]), True


def update(params, state, t, y, selection):
    learn(state.model, 0, selection.scratch, 1.0, 1.0, y - selection.f[0])


RAW = RECURSIVE._replace(draws_features=False)  # features are the inputs and 1

algorithm = register(__name__, representation=RAW, every_kernel=True, kernels=kernels)
