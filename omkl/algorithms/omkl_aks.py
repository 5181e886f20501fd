"""OMKL-AKS: every kernel learns, a drawn subset of the good ones predicts.

Paper    S. Hong, J. Chae, "Active Learning with Multiple Kernels", algorithm 1.
Task     regression; full information.
Round    1. K = the number of kernels with w_i / max w > delta, (23); J = gamma_t K with
            gamma_t = min((N choose K) / N, gamma), (58).
         2. Throw N balls into gamma_t N bins, J throws a ball, each into another bin: bin j
            holds the kernels V_j, K of them on average, and each kernel lies in J bins.
         3. Draw the bin s with probability alpha_j = sum of w_i over V_j / (J sum of w), (29).
         4. Predict the mean of f_i over V_s weighted by w, (31), (32).
         5. theta_i <- theta_i - eta grad L_i(theta_i), (17), and
            w_i <- w_i exp(-eta_g L_i(theta_i)), (22), of all kernels, both at the theta_i that
            predicted, with L_i(theta) = (theta'z_i - y_t)^2 + lam ||theta||^2.
Symbols  eta    step size of theta (eta_l there), > 0, a schedule in t
         eta_g  step size of the weights, > 0, a schedule in t
         lam    regularisation, >= 0
         delta  least ratio to the largest weight, in [0, 1); 0: every kernel predicts, as Raker
         gamma  bins a kernel, at most, >= 1 (section V: 2)
Cost     O(N D d + gamma N^2) time a round; O(N D d + gamma N^2) memory.
Bound    theorem 1: O(sqrt(T)) with high probability, eta and eta_g of order 1/sqrt(T);
         bounded, Lipschitz losses.
Differs  from the paper: none. Readings: the box draws the subset of round t + 1 at the end of
         round t; here it is drawn at the start of round t + 1, from the same weights, and all
         kernels predict in round 1, where all weights are equal. "J distinct bins": a throw
         that hits a bin which holds the ball already is repeated. Where (58) makes as many
         bins as there are subsets of size K, (28) has each subset once; the construction in
         remark 1, the one of the experiments, does not, and is followed for every K. No code
         was released.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np

from omkl.engine import Schedule, at, choose_all, register
from omkl.features import RandomFeatures, gradient_step
from omkl.jit import part
from omkl.params import COUNT, NON_NEGATIVE, Range
from omkl.weights import draw, softmax, weighted_mean

if TYPE_CHECKING:
    from omkl.kernels import Kernel

BELOW_ONE = Annotated[float, Range(0.0, 1.0, open_high=True)]


class Params(NamedTuple):
    eta: Schedule
    eta_g: Schedule
    lam: NON_NEGATIVE
    delta: BELOW_ONE
    gamma: COUNT


class State(NamedTuple):
    model: RandomFeatures
    log_w: np.ndarray  # (N,)
    w: np.ndarray  # (N,) weights that sum to 1, of the round in which the subset was drawn
    inside: np.ndarray  # (gamma N, N) bool, whether bin j holds kernel i
    alpha: np.ndarray  # (gamma N,) probabilities of the bins
    order: np.ndarray  # (gamma N,) the bins in some order, for throwing
    sizes: np.ndarray  # (4,) K, J, the number of bins and the bin that was drawn


def init(params: Params, dictionary: Sequence[Kernel], model: RandomFeatures) -> State:
    N = len(dictionary)
    bins = params.gamma * N
    return State(
        model,
        log_w=np.zeros(N),
        w=np.full(N, 1.0 / N),
        inside=np.zeros((bins, N), dtype=np.bool_),
        alpha=np.zeros(bins),
        order=np.arange(bins),
        sizes=np.array([N, 1, 1, 0]),  # one bin with all kernels
    )


@part
def n_subsets(N, K, most):
    """(N choose K), or ``most`` where that is less."""
    count = 1
    for k in range(min(K, N - K)):
        count = count * (N - k) // (k + 1)  # exact: a product of k + 1 numbers in a row
        if count >= most:
            return most
    return count


@part
def measure(log_w, delta, gamma, sizes):
    """Write K of (23), J and the number of bins, (58) and (26)."""
    N = log_w.shape[0]
    top = log_w[0]
    for i in range(1, N):
        top = max(top, log_w[i])
    K = 0
    for i in range(N):
        if delta == 0.0 or log_w[i] - top > math.log(delta):
            K += 1
    bins = n_subsets(N, K, gamma * N)
    sizes[0] = K
    sizes[1] = bins * K // N  # whole for both values of gamma_t
    sizes[2] = bins


@part
def throw(sizes, order, inside, rng):
    """Put every kernel into J of the bins, every choice of J being equally probable."""
    J = sizes[1]
    bins = sizes[2]
    few = 2 * J <= bins  # choose the bins of a kernel, or those without it
    for j in range(bins):
        order[j] = j
        for i in range(inside.shape[1]):
            inside[j, i] = not few
    for i in range(inside.shape[1]):
        for k in range(J if few else bins - J):
            other = k + int(rng.random() * (bins - k))
            j = order[other]
            order[other] = order[k]
            order[k] = j
            inside[j, i] = few


@part
def draw_subset(params, state, rng):
    """Draw a bin of kernels from the weights as they are now."""
    measure(state.log_w, params.delta, params.gamma, state.sizes)
    bins = state.sizes[2]
    if bins == 1:
        return
    softmax(state.log_w, state.w)
    throw(state.sizes, state.order, state.inside, rng)
    for j in range(bins):
        total = 0.0
        for i in range(state.w.shape[0]):
            if state.inside[j, i]:
                total += state.w[i]
        state.alpha[j] = total / state.sizes[1]
    state.sizes[3] = draw(state.alpha[:bins], rng.random())


@part
def choose_subset(state, rnd):
    """Evaluate all kernels; combine those of the bin that was drawn."""
    choose_all(rnd)
    if state.sizes[2] == 1:
        return
    n = 0
    for i in range(state.w.shape[0]):
        if state.inside[state.sizes[3], i]:
            rnd.combine[n] = i
            n += 1
    rnd.n[1] = n


@part
def learn(params, state, t, y, rnd):
    """(17) and (22) of every kernel."""
    eta = at(params.eta, t)
    eta_g = at(params.eta_g, t)
    for m in range(rnd.n[0]):
        i = rnd.evaluate[m]
        error = rnd.f[i] - y
        loss = error * error + params.lam * state.model.norm2[i]
        state.log_w[i] -= eta_g * loss
        gradient_step(
            state.model, i, m, rnd.buffers, 2.0 * eta * error, 1.0 - 2.0 * eta * params.lam
        )


def select(params, state, t, rng, rnd):
    draw_subset(params, state, rng)
    choose_subset(state, rnd)


def predict(params, state, t, rnd):
    return weighted_mean(state.log_w, rnd.f, rnd.combine, rnd.n[1]), True


def update(params, state, t, y, rnd):
    learn(params, state, t, y, rnd)


algorithm = register(__name__, Params, init, select=select, predict=predict, update=update)
