"""AMKL: Raker that asks for a label only where its kernels disagree.

Paper    S. Hong, J. Chae, "Active Learning with Multiple Kernels", algorithm 2 with all
         kernels in the subset.
Task     regression; queried labels.
Round    1. Evaluate all kernels and predict the mean of the f_i weighted by w_i.
         2. If one of the last M labels was asked for, and no kernel j is far from the others,
            max over j of sum over i of p_i (f_i(x_t) - f_j(x_t))^2 <= eta_c, (33), with p the
            weights that sum to 1: do not ask, and change nothing.
         3. Else ask for y_t; theta_i <- theta_i - eta grad L_i(theta_i), (37), and
            w_i <- w_i exp(-eta_g L_i(theta_i)), (39), both at the theta_i that predicted, with
            L_i(theta) = (theta'z_i - y_t)^2 + lam ||theta||^2.
Symbols  eta    step size of theta (eta_l there), > 0, a schedule in t
         eta_g  step size of the weights, > 0, a schedule in t
         lam    regularisation, >= 0
         eta_c  largest disagreement that needs no label, >= 0; 0: every label is asked for
         M      rows in a row without a label, at most, >= 1
Cost     O(N D d) time a round; O(N D d) memory.
Bound    none. Theorem 2 states a regret (15) of O(sqrt(T)) with eta, eta_g and eta_c of order
         1/sqrt(T) for bounded, Lipschitz losses that obey the triangle inequality, (a5). It is
         false for every eta_c: rows that kernels agree on may never be asked for, a regret of
         T/2, see ``docs/errata.md``. The squared error that is learned with here breaks (a5) as
         well. Lemma 6 is printed with eta_c of order sqrt(T), and its proof takes 1/sqrt(T). At
         least one label in M + 1 is asked for, (35). Of a run, (15) is the regret against
         ``ridge_features`` with regret.lam = lam.
Differs  from the paper: none. Readings: the sentence of the selection criterion asks for the
         label where the condition holds; algorithm 2, and the text before the sentence, ask
         where it does not, and are followed. Labels before round 1 count as not asked for, so
         the first one is. L between two kernels in (33) is the squared difference: (a1) makes
         L symmetric, which the penalty of (18) is not. (37) and (39) have hats where the
         learner's own f-bar and theta-bar are meant. The paper has eta_c > 0; with 0, kernels
         that agree to the last bit (a single one, say) do not spare a label here, so that
         eta_c = 0 is Raker. No code was released.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from omkl.algorithms.omkl_aks import reweigh
from omkl.algorithms.raker import local_step, step_size
from omkl.core.compiler import inlined
from omkl.core.hyperparameters import COUNT, COUNTS, NON_NEGATIVE, Schedule
from omkl.core.protocol import choose_all, register
from omkl.core.representations.blocked import followed_step
from omkl.core.representations.random_features import RANDOM_FEATURES, RandomFeatures
from omkl.core.simd import LANES, at_least, largest, load, pack
from omkl.core.weights import mean_of_all, variance_of_all

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Params(NamedTuple):
    eta: Schedule
    eta_g: Schedule
    lam: NON_NEGATIVE
    eta_c: NON_NEGATIVE
    M: COUNT


class State(NamedTuple):
    model: RandomFeatures
    log_w: np.ndarray  # (N,)
    unlabelled: COUNTS  # (1,) rows since the last label; M before the first


def init(params: Params, dictionary: Sequence[Kernel], model: RandomFeatures) -> State:
    return State(model, np.zeros(len(dictionary)), np.array([params.M]))


@inlined
def must_ask(params, state):
    """Whether the label is asked for however much the kernels agree."""
    return params.eta_c == 0.0 or state.unlabelled[0] >= params.M


@inlined
def farthest_of_all(f, mean):
    """The largest distance of an output, f (N,), from their mean."""
    N = f.shape[0]
    found = pack(0.0)
    j = 0
    while j + LANES <= N:
        found = at_least(abs(load(f, j) - mean), found)
        j += LANES
    farthest = largest(found)
    for i in range(j, N):
        farthest = max(farthest, abs(f[i] - mean))
    return farthest


def select(params, state, t, rng, selection):
    choose_all(selection)


def predict(params, state, t, selection):
    y_hat = mean_of_all(state.log_w, selection.f)
    if must_ask(params, state):
        return y_hat, True
    # The left side of (33): about the mean, the sum over i is sum_i p_i (f_i - mean)^2 +
    # (f_j - mean)^2 sum_i p_i, so that the farthest j decides.
    farthest = farthest_of_all(selection.f, y_hat)
    apart = variance_of_all(state.log_w, selection.f, y_hat) + farthest * farthest
    return y_hat, not apart <= params.eta_c  # True for NaN too


def update(params, state, t, y, selection):
    if math.isnan(y):
        state.unlabelled[0] += 1
        return
    state.unlabelled[0] = 0
    reweigh(params, state, t, y, selection.f, state.model.norm2)  # of the theta that predicted
    eta = step_size(params, t)
    for i in range(selection.f.shape[0]):
        f = selection.f[i]
        step, shrink = local_step(params, eta, y, f)
        followed_step(state.model, i, i, t, f, selection.scratch, step, shrink)


algorithm = register(__name__, representation=RANDOM_FEATURES, every_kernel=True, queries=True)
