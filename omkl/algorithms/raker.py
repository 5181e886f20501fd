"""Learners that take gradient steps of every kernel and mix them by Hedge.

``raker`` and ``rfomkr`` use random features, ``omkr`` and ``omkl_b`` exact kernels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from omkl.algorithms.parts import State, init, predict_mean, select_all
from omkl.core.hyperparameters import FRACTION, NON_NEGATIVE, SIZE, Schedule, rate
from omkl.core.kernels import Kernel
from omkl.core.protocol import register_as
from omkl.core.representations.random_features import RANDOM_FEATURES, gradient_steps
from omkl.core.representations.support_vectors import GROWING, SLIDING, append, fade_and_add
from omkl.core.weights import exponential_update


@register_as("raker", representation=RANDOM_FEATURES)
class Raker:
    """Raker: every kernel in every round, mixed by exponential weights.

    Paper    Y. Shen, T. Chen, G. B. Giannakis, "Random Feature-based Online Multi-kernel
             Learning in Environments with Unknown Dynamics", JMLR 20 (2019), algorithm 1;
             as stated for the comparison in Ghari and Shen, "Graph-Aided Online
             Multi-Kernel Learning", JMLR, equations (6), (8), (9).
    Task     regression; full information.
    Round    1. Evaluate f_i(x_t) = theta_i'z_i(x_t) for all N kernels.
             2. Predict the mean of the f_i weighted by w_i.
             3. theta_i <- theta_i - eta_t grad L_i(theta_i), and
                w_i <- w_i exp(-eta_t L_i(theta_i)), both at the theta_i that predicted,
                with L_i(theta) = (theta'z_i - y_t)^2 + lam ||theta||^2.
    Symbols  eta  step size of theta and of the weights, > 0, a schedule in t
             lam  regularisation, >= 0
    Cost     O(N D d) time per round; O(N D d) memory.
    Bound    O(sqrt(T ln N)) with eta of order 1/sqrt(T) and D of order T ln T, with high
             probability; losses in [0, 1], ||x|| <= 1.
    Differs  from the paper: none. In the loss for the weights, the released code computes the
             penalty from theta after the step.
    """

    class Params(NamedTuple):
        eta: Schedule
        lam: NON_NEGATIVE

    State, init, select, predict = State, init, select_all, predict_mean

    @staticmethod
    def update(params, state, t, y, selection):
        eta = rate(params.eta, t)
        exponential_update(state.log_w, eta, y, selection.f, params.lam, state.model.norm2)
        gradient_steps(state.model, eta, params.lam, y, selection)


@register_as(
    "rfomkr",
    representation=RANDOM_FEATURES,
    expected_failures={
        "complete_graph": "its weights are beta^loss, without the step size that Raker's have"
    },
)
class Rfomkr:
    """RFOMKR: every kernel in every round, mixed by Hedge.

    Paper    D. Sahoo, S. C. H. Hoi, B. Li, "Large Scale Online Multiple Kernel Regression with
             Application to Time-Series Prediction", ACM TKDD 13(1), 2019 (doi 10.1145/3299875),
             with random Fourier features; called RFOMKR in Ghari and Shen, "Graph-Aided Online
             Multi-Kernel Learning", JMLR, section 5.
    Task     regression; full information.
    Round    1. Evaluate f_i(x_t) = theta_i'z_i(x_t) for all N kernels.
             2. Predict the mean of the f_i weighted by w_i, which starts at 1/N.
             3. theta_i <- theta_i - eta_t grad L_i(theta_i), and w_i <- w_i beta^(L_i(theta_i)),
                both at the theta_i that predicted,
                with L_i(theta) = (theta'z_i - y_t)^2 + lam ||theta||^2.
    Symbols  eta   step size of theta, > 0, a schedule in t
             beta  discount of the weights, in (0, 1) (0.5)
             lam   regularisation, >= 0 (0: the squared error alone)
    Cost     O(N D d) time per round; O(N D d) memory.
    Bound    O(sqrt(T ln N)) for the exact kernels, as the JMLR paper cites it.
    Differs  from the paper: no known difference; lam is an addition, 0 by default. The released
             code of the JMLR paper does not normalise the weights in the prediction.
    """

    class Params(NamedTuple):
        eta: Schedule
        beta: FRACTION
        lam: NON_NEGATIVE

    State, select, predict = State, select_all, predict_mean

    @staticmethod
    def init(params: Any, dictionary: Sequence[Kernel], model: Any) -> Any:
        N = len(dictionary)
        return State(model, np.full(N, -math.log(N)))

    @staticmethod
    def update(params, state, t, y, selection):
        discount = -math.log(params.beta)
        exponential_update(state.log_w, discount, y, selection.f, params.lam, state.model.norm2)
        gradient_steps(state.model, rate(params.eta, t), params.lam, y, selection)


@register_as(
    "omkr",
    representation=GROWING,
    expected_failures={
        "bounded_memory": "exact kernels keep every row: the curse of dimensionality",
    },
)
class Omkr:
    """OMKR: online multi-kernel regression with exact kernels.

    Paper    D. Sahoo, S. C. H. Hoi, B. Li, "Online Multiple Kernel Regression", KDD 2014;
             the baseline of Ghari and Shen, "Graph-Aided Online Multi-Kernel Learning", JMLR.
    Task     regression; full information.
    Round    1. f_i(x_t) = sum over s < t of alpha_{i,s} kappa_i(x_s, x_t) for all N kernels.
             2. Predict the mean of the f_i weighted by w_i.
             3. alpha_{i,t} = -eta_t (f_i(x_t) - y_t), and w_i <- w_i beta^(f_i(x_t) - y_t)^2.
    Symbols  eta   step size of the coefficients, > 0, a schedule in t
             beta  discount of the weights, in (0, 1)
    Cost     O(t (N + d)) time per round; O(T (N + d)) memory, growing with the stream.
    Bound    O(sqrt(T ln N)); squared losses that are bounded.
    Differs  from the paper: none. Ghari and Shen's tables have exp(-||x - x'||^2 / b) for a
             Gaussian kernel of bandwidth b: that is kernels=rbf51_lap25_exact here.
    """

    class Params(NamedTuple):
        eta: Schedule
        beta: FRACTION

    State, init, select, predict = State, init, select_all, predict_mean

    @staticmethod
    def update(params, state, t, y, selection):
        eta = rate(params.eta, t)
        discount = math.log(params.beta)
        n = state.model.n[0]
        for i in range(selection.f.shape[0]):
            error = selection.f[i] - y
            state.model.alpha[i, n] = -eta * error
            state.log_w[i] += discount * error * error
        append(state.model)


@register_as(
    "omkl_b",
    representation=SLIDING,
    expected_failures={
        "one_kernel": "its coefficients fade, and the oldest rows are dropped",
        "learns": "steps of 1/sqrt(T) from 50 rows are too little",
    },
)
class OmklB:
    """OMKL-B: OMKL on a budget, exact kernels over the most recent rows.

    Paper    the baseline of S. Hong, J. Chae, "Active Learning with Multiple Kernels", section V.
             It cites J. Kivinen, A. J. Smola, R. C. Williamson, "Online Learning with Kernels",
             IEEE Transactions on Signal Processing 52 (2004).
    Task     regression; full information.
    Round    1. f_i(x_t) = sum of alpha_{i,s} kappa_i(x_s, x_t) over the ``budget`` rows before t.
             2. Predict the mean of the f_i weighted by w_i.
             3. alpha_{i,s} <- (1 - eta_t lam) alpha_{i,s} for all stored s, and
                alpha_{i,t} = -eta_t (f_i(x_t) - y_t): the step of Kivinen, Smola and Williamson for
                the loss (f - y)^2 / 2 + (lam / 2) ||f||^2.
             4. w_i <- w_i beta^(f_i(x_t) - y_t)^2, as OMKR.
             5. If more than ``budget`` rows are stored, drop the oldest.
    Symbols  eta     step size of the coefficients, > 0, a schedule in t
             lam     regularisation, >= 0
             beta    discount of the weights, in (0, 1)
             budget  stored rows, >= 1 (section V: 50)
    Cost     O(budget (N + d)) time per round; O(budget (N + d)) memory.
    Bound    none for the combination. Dropped rows have a weight of at most (1 - eta lam)^budget,
             which is small if eta lam budget is large.
    Reading  "On a budget" is the truncation of the cited paper: coefficients decay geometrically,
             and the oldest are dropped. The cited paper has a single kernel. Kernels are combined
             as in OMKR (Sahoo, Hoi and Li, KDD 2014; ``omkr``). With lam = 0 and a budget that
             never fills, this class is OMKR.
    Differs  from the paper: none.
    """

    class Params(NamedTuple):
        eta: Schedule
        lam: NON_NEGATIVE
        beta: FRACTION
        budget: SIZE

    State, init, select, predict = State, init, select_all, predict_mean

    @staticmethod
    def update(params, state, t, y, selection):
        eta = rate(params.eta, t)
        discount = math.log(params.beta)
        fade = 1.0 - eta * params.lam
        for i in range(selection.f.shape[0]):
            error = selection.f[i] - y
            fade_and_add(state.model, i, fade, -eta * error)
            state.log_w[i] += discount * error * error
        append(state.model)
