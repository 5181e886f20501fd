"""Learners of the active paper, rebuilt from public code that is related to it.

The authors' repository (https://github.com/JeongminChae/MKL_Active_Learning) names S. Hong,
J. Chae, "Active Learning with Multiple Kernels". It holds in full the distributed learners DOMKL
and DAMKL, and one client's round of eM-KOFL (omkl_rs_final.m). Its scripts call programs for exact
kernels, Raker and AMKL that are not in it, and OMKL-AKS is not mentioned. Taken from DOMKL and
DAMKL are the features, weights without a penalty, the labels of the first tenth and the old outputs
of skipped rounds. The gradient step with its penalty is the text's, (17), and that of
omkl_rs_final.m; DOMKL and DAMKL take implicit steps. The rule of exact kernels is that of the
public code of AdaRaker (N1cekiko/AdaRaker), which divides its step by 10, with the 1/sqrt(T) of
test_single_kernel.m; only the published numbers show that both belong together. All else is the
text's, or was chosen because published numbers come out. Nothing was copied.

Three more departures are settings of a table: inputs of the prepared files are not divided by their
largest norm, Air is read from its prepared file, and the first squared error counts as 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from omkl.algorithms import active
from omkl.algorithms.baselines import polynomial
from omkl.algorithms.parts import State, gaussian_kernel, init, predict_mean, select_all
from omkl.core import rng as generators
from omkl.core.compiler import inlined
from omkl.core.hyperparameters import (
    COUNT,
    COUNTS,
    NON_NEGATIVE,
    POSITIVE,
    SIZE,
    Range,
    Schedule,
    rate,
)
from omkl.core.kernels import MOST_DEGREE, Kernel, orthogonal_normals
from omkl.core.protocol import register_as
from omkl.core.representations.random_features import (
    RANDOM_FEATURES,
    RandomFeatures,
    blank,
    gradient_step,
)
from omkl.core.representations.support_vectors import GROWING, append
from omkl.core.weights import exponential_update, mean_of_all, variance_of_all

# --- one exact kernel ---------------------------------------------------------------------------


class FadingState(NamedTuple):
    """Expansion whose coefficients fade together.

    model   coefficients, divided by the ``fade`` of the round in which they were appended
    log_w   (1,) zero: the only kernel
    fade    (1,) product of 1 - eta lam over the rounds so far
    """

    model: Any
    log_w: np.ndarray
    fade: np.ndarray


def init_fading(params: Any, dictionary: Sequence[Kernel], model: Any) -> FadingState:
    return FadingState(model, np.zeros(1), np.ones(1))


def predict_faded(params, state, t, selection):
    return selection.f[0] * state.fade[0], True


def update_fading(params, state, t, y, selection):
    eta = rate(params.eta, t)
    error = y - selection.f[0] * state.fade[0]
    state.fade[0] *= 1.0 - eta * params.lam
    state.model.alpha[0, state.model.n[0]] = 2.0 * eta * error / state.fade[0]
    append(state.model)


OF_EXPANSIONS = {
    "bounded_memory": "exact kernels keep every row",
    "learns": "0.1/sqrt(T) is too small a step for the few rounds of the check",
}


@register_as(
    "mkl_active_learning/rbf",
    representation=GROWING,
    kernels=gaussian_kernel,
    expected_failures=OF_EXPANSIONS,
)
class Rbf:
    """KL-RBF with coefficients that fade and a step of 0.1/sqrt(T).

    Paper    S. Hong, J. Chae, "Active Learning with Multiple Kernels", table II.
    Task     regression; full information.
    Round    1. Predict f(x_t).
             2. f <- (1 - eta lam) f + 2 eta (y_t - f(x_t)) kappa(x_t, .).
    Symbols  eta        step size, > 0, a schedule in t
             lam        penalty by which coefficients fade, >= 0
             bandwidth  of the kernel exp(-||x - x'||^2 / bandwidth), > 0: 2 s^2 with s the number
                        that the table prints as sigma^2
    Cost     O(t d) time per round; O(T d) memory.
    Bound    none stated.
    Differs  from the paper, which states no step for exact kernels: eta = 0.1/sqrt(T), and the
             printed sigma^2 is used as sigma (kernelmatrix.m of the authors' repository divides by
             2 sigma^2, and test_single_kernel.m labels sigma as sigma^2).
    """

    class Params(NamedTuple):
        eta: Schedule
        lam: NON_NEGATIVE
        bandwidth: POSITIVE

    State, init, select = FadingState, init_fading, select_all
    predict, update = predict_faded, update_fading


@register_as(
    "mkl_active_learning/poly",
    representation=GROWING,
    kernels=polynomial,
    expected_failures=OF_EXPANSIONS,
)
class Poly:
    """POLY with coefficients that fade and a step of 0.1/sqrt(T).

    Paper    S. Hong, J. Chae, "Active Learning with Multiple Kernels", table II.
    Task     regression; full information.
    Round    1. Predict f(x_t).
             2. f <- (1 - eta lam) f + 2 eta (y_t - f(x_t)) kappa(x_t, .).
    Symbols  eta     step size, > 0, a schedule in t
             lam     penalty by which coefficients fade, >= 0
             degree  of the polynomial (x'x')^degree, >= 1; 1 is LINEAR
    Cost     O(t d) time per round; O(T d) memory.
    Bound    none stated.
    Differs  from the paper, which states no step for exact kernels: eta = 0.1/sqrt(T).
    """

    class Params(NamedTuple):
        eta: Schedule
        lam: NON_NEGATIVE
        degree: Annotated[int, Range(1, MOST_DEGREE)]

    State, init, select = FadingState, init_fading, select_all
    predict, update = predict_faded, update_fading


# --- random features ----------------------------------------------------------------------------


def _fresh(params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int) -> RandomFeatures:
    """Draw frequencies of Gaussian kernels as DOMKL and DAMKL do, and of others as everywhere.

    A kernel's bandwidth, 10^((i - 9) / 2), multiplies its frequencies. They are orthogonal in
    blocks of d, and their squared norms are chi-square with one degree of freedom.
    """
    model, rng = blank(len(kernels), d, D), generators.generator(seed, generators.FEATURES)
    for i, kernel in enumerate(kernels):
        if kernel.family == "gaussian":
            rows = orthogonal_normals(rng, D, d)
            lengths = np.sqrt(rng.chisquare(1, size=D))
            rows *= (kernel.bandwidth * lengths / np.linalg.norm(rows, axis=1))[:, None]
        else:
            rows = kernel.frequencies(rng, D, d)
        model.omega[i] = rows.T
    return model


FEATURES = RANDOM_FEATURES._replace(fresh=_fresh, with_zero_weights=None)
SCALED = {
    "one_kernel": "its step is D times as large, as of features without 1/sqrt(D)",
    "complete_graph": "its step is D times as large, and no penalty is in its weights",
}


@inlined
def learn(params, state, t, y, selection):
    """Step with features z without their factor 1/sqrt(D); the weights see the error alone.

    For f = theta'z / sqrt(D), with theta sqrt(D) times that of such features, the step of the
    error is D times that of omkl's features. The step of the penalty is the same.
    """
    eta, D = rate(params.eta, t), state.model.n_waves[0]
    exponential_update(state.log_w, rate(params.eta_g, t), y, selection.f, 0.0, state.model.norm2)
    shrink = 1.0 - 2.0 * eta * params.lam
    for i in range(selection.f.shape[0]):
        step = 2.0 * eta * D * (selection.f[i] - y)
        gradient_step(state.model, i, i, selection.scratch, step, shrink)


@register_as("mkl_active_learning/raker", representation=FEATURES, expected_failures=SCALED)
class Raker:
    """Raker with the features of DOMKL and DAMKL in the authors' repository.

    Paper    S. Hong, J. Chae, "Active Learning with Multiple Kernels", tables II and III;
             the algorithm is that of Shen, Chen and Giannakis, JMLR 2019.
    Task     regression; full information.
    Round    1. Evaluate f_i = theta_i'z_i, z_i = [sin(omega'x) cos(omega'x)] without 1/sqrt(D), and
                predict the mean of the f_i weighted by w_i.
             2. theta_i <- (1 - 2 eta lam) theta_i - 2 eta (f_i - y) z_i, and
                w_i <- w_i exp(-eta_g (f_i - y)^2).
    Symbols  eta    step size of theta, > 0, a schedule in t
             eta_g  step size of the weights, > 0, a schedule in t
             lam    regularisation of theta, >= 0
    Cost     as ``raker``.
    Bound    none stated for these features.
    Differs  from the paper (``raker``): the features lack 1/sqrt(D), so that a step is D times as
             large; the kernel's number multiplies the frequencies; these are orthogonal in blocks
             of d, with squared norms of one degree of freedom; no penalty is in the weights. eta_g
             is the text's 1/sqrt(T); DOMKL has 0.1.
    """

    class Params(NamedTuple):
        eta: Schedule
        eta_g: Schedule
        lam: NON_NEGATIVE

    State, init, select, predict = State, init, select_all, predict_mean
    update = learn


@register_as("mkl_active_learning/omkl_aks", representation=FEATURES, expected_failures=SCALED)
class OmklAks:
    """OMKL-AKS with these features and a constant step of the weights, 0.1.

    Paper    S. Hong, J. Chae, "Active Learning with Multiple Kernels", algorithm 1, tables II and
             III.
    Task     regression; full information.
    Round    as ``omkl_aks``, with the features and the step of ``mkl_active_learning/raker``.
    Symbols  eta    step size of theta, > 0, a schedule in t
             eta_g  step size of the weights, > 0, a schedule in t (0.1)
             lam    regularisation of theta, >= 0
             delta, gamma   as in OMKL-AKS
    Cost     as ``omkl_aks``.
    Bound    theorem 1 asks for eta_g of order 1/sqrt(T).
    Differs  from the paper (``omkl_aks``): features and step as of Raker here, and eta_g = 0.1
             where the text has 1/sqrt(T). No public code has OMKL-AKS. DOMKL and DAMKL have 0.1,
             and with it the published numbers come out. Raker with this eta_g has the lower error.
    """

    class Params(NamedTuple):
        eta: Schedule
        eta_g: Schedule
        lam: NON_NEGATIVE
        delta: active.BELOW_ONE
        gamma: SIZE

    State, init = active.OmklAks.State, active.OmklAks.init
    select, predict, update = active.OmklAks.select, active.OmklAks.predict, learn


@register_as(
    "mkl_active_learning/amkl", representation=FEATURES, queries=True, expected_failures=SCALED
)
class Amkl:
    """AMKL with the skipped rounds of DAMKL: they go by the outputs of the last row with a label.

    Paper    S. Hong, J. Chae, "Active Learning with Multiple Kernels", algorithm 2, table III.
    Task     regression; queried labels.
    Round    1. Ask for the label in the first rounds, share ``warm`` of all T, and where the last M
                labels were not asked for.
             2. Else ask where max over j of sum over i of p_i (g_i - g_j)^2 > eta_c, (33), with g
                the outputs of the kernels in the last round whose label was asked for.
             3. Asked: predict the mean of the f_i weighted by w_i, and learn as
                ``mkl_active_learning/raker``. Not asked: predict the mean of the g_i.
    Symbols  eta    step size of theta, > 0, a schedule in t
             eta_g  step size of the weights, > 0, a schedule in t
             lam    regularisation of theta, >= 0
             eta_c  largest disagreement that needs no label, >= 0; 0: every label is asked for
             M      rows in a row without a label, at most, >= 1
             warm   share of the rounds, the first ones, whose labels are all asked for, in [0, 1]
             T      rounds of the stream, >= 1
    Cost     as ``amkl``.
    Bound    none.
    Differs  from the paper (``amkl``): features and step as of Raker in this code; every label of
             the first tenth; criterion and prediction of a skipped round take old outputs, so that
             neither depends on its row. The authors' program for AMKL is not public. DAMKL, which
             is, halves eta_c with every skipped row in succession in place of the rule with M, has
             eta_c = 0.005, eta_g = 0.1 and an implicit step, moves theta by consensus in skipped
             rounds, and takes weights in the criterion that are one round older and multiplied with
             those of neighbours. None of that is followed here.
    """

    class Params(NamedTuple):
        eta: Schedule
        eta_g: Schedule
        lam: NON_NEGATIVE
        eta_c: NON_NEGATIVE
        M: COUNT
        warm: Annotated[float, Range(0.0, 1.0)]
        T: Annotated[int, Range(1), "T"]

    class State(NamedTuple):
        model: RandomFeatures
        log_w: np.ndarray  # (N,)
        unlabelled: COUNTS  # (1,) rows since the last label; M before the first
        g: np.ndarray  # (N,) outputs in the last round with a label

    select = select_all

    @staticmethod
    def init(params: Any, dictionary: Sequence[Kernel], model: RandomFeatures) -> Amkl.State:
        N = len(dictionary)
        return Amkl.State(model, np.zeros(N), np.array([params.M]), np.zeros(N))

    @staticmethod
    def predict(params, state, t, selection):
        if t > math.floor(params.warm * params.T) and not active.must_ask(params, state):
            old = mean_of_all(state.log_w, state.g)
            farthest = active.farthest_of_all(state.g, old)
            apart = variance_of_all(state.log_w, state.g, old) + farthest * farthest
            if apart <= params.eta_c:
                return old, False
        return mean_of_all(state.log_w, selection.f), True

    @staticmethod
    def update(params, state, t, y, selection):
        if math.isnan(y):
            state.unlabelled[0] += 1
            return
        state.unlabelled[0] = 0
        for i in range(selection.f.shape[0]):
            state.g[i] = selection.f[i]
        learn(params, state, t, y, selection)
