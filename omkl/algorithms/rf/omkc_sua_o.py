"""OMKC SUA-O on random features: f_i(x) = theta_i'z_i(x), in bounded memory.

Paper    none; the algorithm of ``omkc_sua_o`` on the features of Rahimi and Recht, NIPS 2007.
Task     classification, labels -1 and +1; full information.
Round    As ``omkc_sua_o``, where f_i <- f_i + c kappa_i(x_t, .) is theta_i <- theta_i + c z_i(x_t)
         and ||f_i|| is ||theta_i||.
Symbols  beta   discount of the weights, in (0, 1)
         R      largest norm of a classifier, > 0
         delta  smoothing of the draw, in (0, 1]
         eta    step size, > 0; ``theorem``: that of theorem 10
Cost     O(N D d) time a round; O(N D d) memory.
Bound    that of ``omkc_sua_o`` for the kernels z_i(x)'z_i(x'), with z_i(x)'z_i(x) = 1.
Differs  from ``omkc_sua_o``: kernels are approximated, so they must be shift-invariant.
"""

from __future__ import annotations

from typing import NamedTuple

from omkl.algorithms.omkc_sua_o import algorithm as exact
from omkl.algorithms.rf import on_random_features
from omkl.core.hyperparameters import FRACTION, POSITIVE, STEP_OF_THEOREM, UP_TO_ONE


class Params(NamedTuple):
    beta: FRACTION
    R: POSITIVE
    delta: UP_TO_ONE
    eta: STEP_OF_THEOREM


algorithm = on_random_features(__name__, Params, exact)
