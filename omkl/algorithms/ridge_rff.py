"""Ridge on random features: the forecaster of Vovk, Azoury and Warmuth for one Gaussian kernel.

Paper    V. Vovk (2001), K. S. Azoury and M. K. Warmuth (2001), as of ``ridge``; features of
         A. Rahimi, B. Recht, "Random features for large-scale kernel machines", NIPS 2007.
Task     regression; full information; no step size.
Round    As of ``ridge`` with the 2 D random features z(x_t) in place of (x_t, 1).
Symbols  lam        regularisation, > 0
         bandwidth  of the kernel exp(-||x - x'||^2 / bandwidth), > 0: there is no 2 in it
Cost     O(D^2 + D d) time a round; O(D^2 + D d) memory.
Bound    that of ``ridge`` with 2 D in place of d + 1 and Z = 1.
Reading  bandwidth means here what it means for ``rbf``, the same function by gradient steps.
Differs  none. The dictionary (kernels=...) is not used.

Features have norm 1: after a first label 1, with lam = 1, the same row gets 1 / (1 + 2).

>>> from omkl import algorithms
>>> from omkl.core.learner import Learner
>>> ridge = algorithms.load("ridge_rff")
>>> learner = Learner(ridge, ridge.Params(lam=1.0, bandwidth=1.0), (), d=1, D=8, seed=0)
>>> learner.partial_fit([[0.3], [0.3]], [1.0, 1.0]).y_hat.round(12).tolist()
[0.0, 0.333333333333]
"""

from __future__ import annotations

from typing import NamedTuple

from omkl.algorithms.rbf import kernels
from omkl.algorithms.ridge import State, init, predict, select, update
from omkl.core.hyperparameters import POSITIVE
from omkl.core.protocol import register
from omkl.core.representations.second_order import FORECASTERS


class Params(NamedTuple):
    lam: POSITIVE
    bandwidth: POSITIVE


algorithm = register(__name__, representation=FORECASTERS, every_kernel=True, kernels=kernels)
