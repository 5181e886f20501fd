"""AMKL-AKS: a drawn subset of the good kernels predicts, and asks only when in doubt.

Paper    S. Hong, J. Chae, "Active Learning with Multiple Kernels", algorithm 2.
Task     regression; queried labels.
Round    1. If the label of the round before was asked for, draw the subset V of the kernels as
            OMKL-AKS does (its steps 1 to 3), by (40) and (41); else V stays.
         2. Evaluate all kernels and predict the mean of f_i over V weighted by w, (43), (44).
         3. If one of the last M labels was asked for, and no kernel j of all N is far from V,
            max over j of sum over i in V of p_i (f_i(x_t) - f_j(x_t))^2 <= eta_c, (33), with p
            the weights of all kernels that sum to 1: do not ask, and change nothing.
         4. Else ask for y_t and learn as AMKL, every kernel.
Symbols  eta, eta_g, lam   as in AMKL
         delta, gamma      as in OMKL-AKS
         eta_c, M          as in AMKL
Cost     O(N D d) time a round; O(N D d) memory.
Bound    none. Theorem 3 states O(sqrt(T)) with high probability, under the conditions of
         theorem 2, and is false as that is, see AMKL and ``docs/errata.md``. At least one label
         in M + 1 is asked for, (35).
Differs  from the paper: none. Readings: those of OMKL-AKS and AMKL; d_l in (41), and d_l and
         d_r below it, are J and K; in (33) p_i is (38), which sums to 1 over all kernels and
         to less over V, and j runs over all kernels as it says, although section I speaks of a
         criterion that is checked with the relevant ones alone. No code was released.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np

from omkl.algorithms import omkl_aks
from omkl.algorithms.amkl import farthest_of_all, must_ask, update
from omkl.algorithms.omkl_aks import BELOW_ONE, choose_subset, draw_subset, mean_of_subset
from omkl.core.compiler import inlined
from omkl.core.hyperparameters import COUNT, COUNTS, KERNELS, NON_NEGATIVE, SIZE, Range, Schedule
from omkl.core.protocol import register
from omkl.core.representations.random_features import RANDOM_FEATURES, RandomFeatures
from omkl.core.weights import variance_of_all

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Params(NamedTuple):
    eta: Schedule
    eta_g: Schedule
    lam: NON_NEGATIVE
    delta: BELOW_ONE
    gamma: SIZE
    eta_c: NON_NEGATIVE
    M: COUNT


class State(NamedTuple):
    model: RandomFeatures
    log_w: np.ndarray  # (N,)
    w: np.ndarray  # (N,) as in OMKL-AKS, and so are the next two
    subset: KERNELS  # (N,)
    n: Annotated[np.ndarray, Range(0, "N")]  # (1,)
    unlabelled: COUNTS  # (1,) rows since the last label; M before the first


def init(params: Params, dictionary: Sequence[Kernel], model: RandomFeatures) -> State:
    subset = omkl_aks.init(params, dictionary, model)
    return State(*subset, unlabelled=np.array([params.M]))


def select(params, state, t, rng, selection):
    if state.unlabelled[0] == 0:
        draw_subset(params, state, rng)
    choose_subset(state, selection)


@inlined
def disagreement(state, selection, mean, farthest):
    """The left side of (33), as AMKL has it, where the farthest kernel is so far from the mean."""
    n = selection.n_combined[0]
    if n == selection.f.shape[0]:
        return variance_of_all(state.log_w, selection.f, mean) + farthest * farthest
    share = 0.0
    spread = 0.0
    for m in range(n):
        i = selection.combine[m]
        error = selection.f[i] - mean
        share += state.w[i]
        spread += state.w[i] * error * error
    return spread + share * farthest * farthest


def predict(params, state, t, selection):
    y_hat = mean_of_subset(state, selection)
    if must_ask(params, state):
        return y_hat, True
    apart = disagreement(state, selection, y_hat, farthest_of_all(selection.f, y_hat))
    return y_hat, not apart <= params.eta_c  # True for NaN too


algorithm = register(__name__, representation=RANDOM_FEATURES, every_kernel=True, queries=True)
