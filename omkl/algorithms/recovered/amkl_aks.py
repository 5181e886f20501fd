"""AMKL-AKS as its published numbers say it was run: only the subset's kernels are compared.

Paper    S. Hong, J. Chae, "Active Learning with Multiple Kernels", algorithm 2, tables II, III.
Task     regression; queried labels.
Round    As AMKL-AKS, but the maximum of (33) is over the kernels j of the subset V.
Symbols  eta, eta_g, lam, delta, gamma, eta_c, M   as in AMKL-AKS
Cost     as ``amkl_aks``.
Bound    none: lemma 4 needs the maximum over all kernels.
Differs  from the paper (``amkl_aks``): the maximum. Section I has the criterion "checked only
         with refined relevant kernels", (33) with all. The published numbers ask besides for
         eta = 50/sqrt(T) and lam = 1e-3, see ``recovered/raker``, also for why that step
         diverges on streams of fewer than 2,506 rows.
"""

from __future__ import annotations

from typing import NamedTuple

from omkl.algorithms.amkl import must_ask
from omkl.algorithms.amkl_aks import State, disagreement, init, select, update
from omkl.algorithms.omkl_aks import BELOW_ONE, mean_of_subset
from omkl.core.hyperparameters import COUNT, NON_NEGATIVE, Schedule
from omkl.core.protocol import register
from omkl.core.representations.random_features import RANDOM_FEATURES


class Params(NamedTuple):
    eta: Schedule
    eta_g: Schedule
    lam: NON_NEGATIVE
    delta: BELOW_ONE
    gamma: COUNT
    eta_c: NON_NEGATIVE
    M: COUNT


def predict(params, state, t, selection):
    y_hat = mean_of_subset(state, selection)
    if must_ask(params, state):
        return y_hat, True
    farthest = 0.0
    for m in range(selection.n_combined[0]):
        farthest = max(farthest, abs(selection.f[selection.combine[m]] - y_hat))
    apart = disagreement(state, selection, y_hat, farthest)
    return y_hat, not apart <= params.eta_c  # True for NaN too


algorithm = register(__name__, representation=RANDOM_FEATURES, every_kernel=True, queries=True)
