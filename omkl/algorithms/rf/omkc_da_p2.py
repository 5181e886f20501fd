"""OMKC DA-P(2) on random features: f_i(x) = theta_i'z_i(x), in bounded memory.

Paper    none; the algorithm of ``omkc_da_p2`` on the features of Rahimi and Recht, NIPS 2007.
Task     classification, labels -1 and +1; full information.
Round    As ``omkc_da_p2``, where f_i <- f_i + c kappa_i(x_t, .) is theta_i <- theta_i + c z_i(x_t)
         and ||f_i|| is ||theta_i||.
Symbols  beta   discount of the weights, in (0, 1)
         gamma  the largest misclassification that counts, > 0
Cost     O(N D d) time a round; O(N D d) memory.
Bound    that of ``omkc_da_p2`` for the kernels z_i(x)'z_i(x'), with z_i(x)'z_i(x) = 1.
Differs  from ``omkc_da_p2``: kernels are approximated, so they must be shift-invariant.
"""

from __future__ import annotations

from typing import NamedTuple

from omkl.algorithms.omkc_da_p2 import algorithm as exact
from omkl.algorithms.rf import on_random_features
from omkl.core.hyperparameters import FRACTION, POSITIVE


class Params(NamedTuple):
    beta: FRACTION
    gamma: POSITIVE


algorithm = on_random_features(__name__, Params, exact)
