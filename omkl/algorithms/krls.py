"""KRLS: recursive least squares on random features of one Gaussian kernel, with forgetting.

Paper    the classical adaptive filter (S. Haykin, "Adaptive Filter Theory", recursive least
         squares with a factor of forgetting) on the features of A. Rahimi, B. Recht (NIPS 2007).
Task     regression; full information; streams that drift; no step size.
Round    1. Predict f(x_t) = theta'z with 2 D random features z = z(x_t).
         2. theta <- theta + P z (y_t - f) / (decay + z'P z), and P the inverse of
            lam decay^t I + sum_{s<=t} decay^(t-s) z_s z_s': so theta minimises
            sum_{s<=t} decay^(t-s) (theta'z_s - y_s)^2 + lam decay^t ||theta||^2.
Symbols  lam        regularisation, > 0; it fades as the rows do
         bandwidth  of the kernel exp(-||x - x'||^2 / bandwidth), > 0: there is no 2 in it
         decay      weight of a row against the next one, in (0, 1]; about 1 / (1 - decay) rows
                    count, and 1 forgets nothing
Cost     O(D^2 + D d) time a round; O(D^2 + D d) memory.
Bound    none that is stated here.
Reading  P is kept times decay. Where rows stop to move some direction, its variance would grow by
         1 / decay a round without end: no entry of the factor's diagonal grows above 1 / lam.
Differs  from the textbook in that ceiling, which only such directions reach.

Features have norm 1: after labels 1, 1 with lam = 1 and decay = 1/2 the coefficient along z is
(1/2 + 1) / (1/4 + 1/2 + 1) = 6/7.

>>> from omkl import algorithms
>>> from omkl.core.learner import Learner
>>> krls = algorithms.load("krls")
>>> params = krls.Params(lam=1.0, bandwidth=1.0, decay=0.5)
>>> learner = Learner(krls, params, (), d=1, D=8, seed=0)
>>> learner.partial_fit([[0.3]] * 3, [1.0] * 3).y_hat.round(12).tolist()
[0.0, 0.666666666667, 0.857142857143]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from omkl.algorithms.ridge import predict, select
from omkl.algorithms.ridge_rff import kernels
from omkl.core.hyperparameters import POSITIVE, UP_TO_ONE
from omkl.core.kernels import Kernel
from omkl.core.protocol import register
from omkl.core.representations import recursive
from omkl.core.representations.recursive import RECURSIVE, Recursive, learn


class Params(NamedTuple):
    lam: POSITIVE
    bandwidth: POSITIVE
    decay: UP_TO_ONE


class State(NamedTuple):
    model: Recursive  # P of the docstring is decay P of the model
    log_w: np.ndarray  # (1,) the only kernel has all the weight


def init(params: Params, dictionary: Sequence[Kernel], model: Recursive) -> State:
    return State(model, np.zeros(1))


def update(params, state, t, y, selection):
    learn(state.model, 0, selection.scratch, 1.0, params.decay, y - selection.f[0])


def _fresh(params: Params, kernels: Sequence[Kernel], d: int, D: int, seed: int) -> Recursive:
    """The first round finds decay lam in place of lam, as every other."""
    model = recursive.fresh(kernels, d, D, seed, 1.0 / params.lam)
    model.diagonal[:] /= params.decay
    return model


algorithm = register(
    __name__, representation=RECURSIVE._replace(fresh=_fresh), every_kernel=True, kernels=kernels
)
