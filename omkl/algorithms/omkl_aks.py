"""OMKL-AKS: every kernel learns, a drawn subset of the good ones predicts.

Paper    S. Hong, J. Chae, "Active Learning with Multiple Kernels", algorithm 1.
Task     regression; full information.
Round    1. K = the number of kernels with w_i / max w > delta, (23); J = gamma_t K with
            gamma_t = min((N choose K) / N, gamma), (58).
         2. Throw N balls into gamma_t N bins, J throws a ball, each into another bin: bin j
            holds the kernels V_j, K of them on average, and each kernel lies in exactly J bins.
         3. Draw the bin s with probability alpha_j = sum of w_i over V_j / (J sum of w), (29).
            Steps 2 and 3 are done in the other order: (29) is a kernel drawn by w and then one
            of its J bins, and each other kernel is in that bin with probability J / (gamma_t N).
            The bins that were not drawn are looked at by nobody and never filled.
         4. Predict the mean of f_i over V_s weighted by w, (31), (32).
         5. theta_i <- theta_i - eta grad L_i(theta_i), (17), and
            w_i <- w_i exp(-eta_g L_i(theta_i)), (22), of all kernels, both at the theta_i that
            predicted, with L_i(theta) = (theta'z_i - y_t)^2 + lam ||theta||^2.
Symbols  eta    step size of theta (eta_l there), > 0, a schedule in t
         eta_g  step size of the weights, > 0, a schedule in t
         lam    regularisation, >= 0
         delta  least ratio to the largest weight, in [0, 1); 0: every kernel predicts, as Raker
         gamma  bins a kernel, at most, >= 1 (section V: 2)
Cost     O(N D d) time a round; O(N D d) memory.
Bound    theorem 1: O(sqrt(T)) with high probability, eta and eta_g of order 1/sqrt(T);
         bounded, Lipschitz losses.
Differs  from the paper: none. Readings: the box draws the subset of round t + 1 at the end of
         round t; here it is drawn at the start of round t + 1, from the same weights, and all
         kernels predict in round 1, where all weights are equal. "J distinct bins": a throw
         that hits a bin which holds the ball already is repeated. Where (58) makes as many
         bins as there are subsets of size K, (28) has each subset once; the construction in
         remark 1, the one of the experiments, does not, and is followed for every K. As
         J / (gamma_t N) = K / N, gamma changes the collection and not the law of what is drawn
         from it. No code was released.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from omkl.algorithms.raker import local_step, step_size
from omkl.core.compiler import inlined
from omkl.core.hyperparameters import KERNELS, NON_NEGATIVE, SIZE, Range, Schedule, rate
from omkl.core.protocol import choose_all, register
from omkl.core.representations.blocked import LOCAL_FEATURES
from omkl.core.representations.random_features import RandomFeatures
from omkl.core.rng import FOUR
from omkl.core.weights import draw, exponential_update, largest_of, mean_of_all, shares_below

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel

BELOW_ONE = Annotated[float, Range(0.0, 1.0, open_high=True)]


class Params(NamedTuple):
    eta: Schedule
    eta_g: Schedule
    lam: NON_NEGATIVE
    delta: BELOW_ONE
    gamma: SIZE


class State(NamedTuple):
    model: RandomFeatures
    log_w: np.ndarray  # (N,)
    w: np.ndarray  # (N,) weights that sum to 1, of the round in which the subset was drawn
    subset: KERNELS  # (N,) the kernels that predict: the first n
    n: Annotated[np.ndarray, Range(0, "N")]  # (1,)


def init(params: Any, dictionary: Sequence[Kernel], model: RandomFeatures) -> State:
    N = len(dictionary)
    return State(model, np.zeros(N), np.full(N, 1.0 / N), np.arange(N), np.array([N]))


@inlined
def n_subsets(N, K, most):
    """(N choose K), or ``most`` where that is less."""
    count = 1
    for k in range(min(K, N - K)):
        count = count * (N - k) // (k + 1)  # exact: a product of k + 1 numbers in a row
        if count >= most:
            return most
    return count


@inlined
def measure(log_w, delta, gamma):
    """K of (23), J and the number of bins, (58) and (26)."""
    return measure_below(log_w, largest_of(log_w), delta, gamma)


@inlined
def measure_below(log_w, top, delta, gamma):
    """The same where the largest of log_w is known."""
    N = log_w.shape[0]
    least = math.log(delta) if delta > 0.0 else -np.inf
    K = 0
    for i in range(N):
        if delta == 0.0 or log_w[i] - top > least:
            K += 1
    bins = n_subsets(N, K, gamma * N)
    return K, bins * K // N, bins  # J is whole for both values of gamma_t


@inlined
def _add(subset, n, i, follows):
    """Let kernel i follow the first n, or not; how many there are then.

    Without a branch, which would be guessed wrong.
    """
    subset[n] = i
    return n + 1 if follows else n


@inlined
def add_by_coins(subset, n, first, last, J, bins, rng):
    """Let each of the kernels first .. last - 1 follow the first n with probability J / bins.

    How many there are then is returned.
    """
    whole = last - (last - first) % FOUR
    for i in range(first, whole, FOUR):
        a, b, c, d = rng.four()
        n = _add(subset, n, i, bins * a < J)
        n = _add(subset, n, i + 1, bins * b < J)
        n = _add(subset, n, i + 2, bins * c < J)
        n = _add(subset, n, i + 3, bins * d < J)
    for i in range(whole, last):
        n = _add(subset, n, i, bins * rng.random() < J)
    return n


@inlined
def draw_subset(params, state, rng):
    """Draw a bin of the collection from the weights as they are now; its kernels predict."""
    N = state.w.shape[0]
    top = largest_of(state.log_w)
    _, J, bins = measure_below(state.log_w, top, params.delta, params.gamma)
    if bins == 1:  # that of all kernels
        for i in range(N):
            state.subset[i] = i
        state.n[0] = N
        return
    shares_below(state.log_w, top, state.w)
    certain = draw(state.w, rng.random())
    n = add_by_coins(state.subset, 0, 0, certain, J, bins, rng)
    state.subset[n] = certain
    state.n[0] = add_by_coins(state.subset, n + 1, certain + 1, N, J, bins, rng)


@inlined
def choose_subset(state, selection):
    """Evaluate all kernels; combine those of the subset."""
    choose_all(selection)
    n = state.n[0]
    if n < selection.f.shape[0]:
        for m in range(n):
            selection.combine[m] = state.subset[m]
        selection.n_combined[0] = n


@inlined
def reweigh(params, state, t, y, f, norm2):
    """(22) of every kernel."""
    exponential_update(state.log_w, rate(params.eta_g, t), y, f, params.lam, norm2)


def select(params, state, t, rng, selection):
    draw_subset(params, state, rng)
    choose_subset(state, selection)


@inlined
def mean_of_subset(state, selection):
    """(31), (32), by the weights of the draw, which are those of this round."""
    n = selection.n_combined[0]
    if n == selection.f.shape[0]:
        return mean_of_all(state.log_w, selection.f)
    total = 0.0
    mean = 0.0
    for m in range(n):
        i = selection.combine[m]
        total += state.w[i]
        mean += state.w[i] * selection.f[i]
    return mean / total


def predict(params, state, t, selection):
    return mean_of_subset(state, selection), True


algorithm = register(__name__, representation=LOCAL_FEATURES)
