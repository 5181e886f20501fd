"""KRLS: recursive least squares on random features of one Gaussian kernel, with forgetting.

Paper    the classical adaptive filter (S. Haykin, "Adaptive Filter Theory", recursive least
         squares with a factor of forgetting) on the features of A. Rahimi, B. Recht (NIPS 2007).
Task     regression; full information; streams that drift; no step size.
Round    1. Predict f(x_t) = theta'z with 2 D random features z = z(x_t).
         2. theta <- theta + P z (y_t - f) / (1 + z'P z), and
            P <- (P - P z z'P / (1 + z'P z)) / decay,
            from P = I / lam on: theta minimises sum_{s<=t} decay^(t-s) (theta'z_s - y_s)^2 +
            lam decay^(t-1) ||theta||^2, but for the ceiling below.
Symbols  lam        regularisation, > 0
         bandwidth  of the kernel exp(-||x - x'||^2 / bandwidth), > 0: there is no 2 in it
         decay      weight of a row against the next one, in (0, 1]; about 1 / (1 - decay) rows
                    count, and 1 forgets nothing
Cost     O(D^2 + D d) time a round; O(D^2 + D d) memory.
Bound    none that is stated here.
Reading  Where rows move some direction no more, its variance would grow by 1 / decay a round
         without end. P = U diag(D) U' is kept as a factor, and no entry of D grows above 1 / lam:
         so the regularisation fades only where there are rows in its place.
Differs  from the textbook in that ceiling. The dictionary (kernels=...) is not used.

>>> from omkl.checks import learners
>>> X, y = learners.stream(1000)
>>> y_hat = learners.Case("krls").learner().partial_fit(X, y).y_hat
>>> f"{((y_hat - y) ** 2).mean():.6f}"
'0.004186'
"""

from __future__ import annotations

from typing import NamedTuple

from omkl.algorithms.rbf import kernels
from omkl.algorithms.ridge import State, init, predict, select
from omkl.core.hyperparameters import POSITIVE, UP_TO_ONE
from omkl.core.protocol import register
from omkl.core.representations.second_order import RECURSIVE, learn_rls


class Params(NamedTuple):
    lam: POSITIVE
    bandwidth: POSITIVE
    decay: UP_TO_ONE


def update(params, state, t, y, selection):
    learn_rls(state.model, 0, selection.scratch, 1.0, params.decay, y - selection.f[0])


algorithm = register(__name__, representation=RECURSIVE, every_kernel=True, kernels=kernels)
