"""OMKC SUA-P on random features: f_i(x) = theta_i'z_i(x), in bounded memory.

Paper    none; the algorithm of ``omkc_sua_p`` on the features of Rahimi and Recht, NIPS 2007.
Task     classification, labels -1 and +1; full information.
Round    As ``omkc_sua_p``, where f_i <- f_i + c kappa_i(x_t, .) is theta_i <- theta_i + c z_i(x_t)
         and ||f_i|| is ||theta_i||.
Symbols  beta   discount of the weight of a mistaken classifier, in (0, 1)
         delta  smoothing of the draw, in (0, 1]
Cost     O(N D d) time a round; O(N D d) memory.
Bound    that of ``omkc_sua_p`` for the kernels z_i(x)'z_i(x'), with z_i(x)'z_i(x) = 1.
Differs  from ``omkc_sua_p``: kernels are approximated, so they must be shift-invariant.
"""

from __future__ import annotations

from typing import NamedTuple

from omkl.algorithms.omkc_sua_p import algorithm as exact
from omkl.algorithms.rf import on_random_features
from omkl.core.hyperparameters import FRACTION, UP_TO_ONE


class Params(NamedTuple):
    beta: FRACTION
    delta: UP_TO_ONE


algorithm = on_random_features(__name__, Params, exact)
