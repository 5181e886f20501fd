"""Online linear ridge: the forecaster of Vovk, Azoury and Warmuth on the inputs and 1.

Paper    V. Vovk, "Competitive on-line statistics", International Statistical Review 69 (2001);
         K. S. Azoury, M. K. Warmuth, "Relative loss bounds for on-line density estimation with
         the exponential family of distributions", Machine Learning 43 (2001).
Task     regression; full information; no kernel, no step size.
Round    1. Predict z'A_t^-1 b with z = (x_t, 1), A_t = lam I + sum_{s<=t} z_s z_s', which has x_t
            in it already, and b = sum_{s<t} y_s z_s.
         2. Take y_t z into b.
Symbols  lam  regularisation, > 0
Cost     O(d^2) time a round; O(d^2) memory.
Bound    sum (y_hat_t - y_t)^2 <= min over theta of lam ||theta||^2 + sum (theta'z_t - y_t)^2,
         + Y^2 (d + 1) ln(1 + T Z^2 / (lam (d + 1))), for |y| <= Y and ||z|| <= Z.
Reading  The coefficient of the 1 is regularised as the others; not to do so needs another start.
Differs  from the paper: none. The dictionary (kernels=...) is not used.

The second label of two rows alike, after a first label 1, with lam = 1: z'z = 2, b = z and
A = I + 2 z z', so y_hat = 2 / (1 + 4).

>>> from omkl import algorithms
>>> from omkl.core.learner import Learner
>>> ridge = algorithms.load("ridge")
>>> learner = Learner(ridge, ridge.Params(lam=1.0), (), d=1, D=1, seed=0)
>>> learner.partial_fit([[1.0], [1.0]], [1.0, 1.0]).y_hat.tolist()
[0.0, 0.4]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from omkl.core.hyperparameters import POSITIVE
from omkl.core.kernels import LINEAR, Kernel
from omkl.core.protocol import choose_all, register
from omkl.core.representations.second_order import RAW_FORECASTERS, Recursive, learn_every


class Params(NamedTuple):
    lam: POSITIVE


class State(NamedTuple):
    model: Recursive
    log_w: np.ndarray  # (1,) the only kernel has all the weight


def kernels(params: Params, dictionary: Sequence[Kernel]) -> Sequence[Kernel]:
    return (Kernel(LINEAR, 1.0),)


def init(params: Params, dictionary: Sequence[Kernel], model: Recursive) -> State:
    return State(model, np.zeros(1))


def select(params, state, t, rng, selection):
    choose_all(selection)


def predict(params, state, t, selection):
    return selection.f[0], True


def update(params, state, t, y, selection):
    learn_every(state.model, selection.scratch, selection.f, y)


algorithm = register(__name__, representation=RAW_FORECASTERS, every_kernel=True, kernels=kernels)
