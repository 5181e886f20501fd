"""Recursive least squares: forecasters of Vovk, Azoury and Warmuth, their mixtures, and EW-RLS."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from omkl.algorithms.parts import (
    State,
    gaussian_kernel,
    init,
    predict_mean,
    predict_only,
    select_all,
)
from omkl.core.hyperparameters import POSITIVE, UP_TO_ONE, Choice
from omkl.core.kernels import LINEAR, Kernel
from omkl.core.protocol import register_as
from omkl.core.representations.second_order import (
    FORECASTERS,
    RAW_FORECASTERS,
    RECURSIVE,
    STACKED_RLS,
    Recursive,
    StackedRls,
    learn_both,
    learn_every,
)
from omkl.core.weights import mean_of_all


def linear_kernel(params: Any, dictionary: Sequence[Kernel], d: int) -> Sequence[Kernel]:
    return (Kernel(LINEAR, 1.0),)


def update_least_squares(params, state, t, y, selection):
    learn_every(state.model, selection.scratch, selection.f, y, 1.0)


@register_as("ridge", representation=RAW_FORECASTERS, kernels=linear_kernel, reads_uncut=True)
class Ridge:
    """Online linear ridge: the forecaster of Vovk, Azoury and Warmuth on the inputs and a constant.

    Paper    V. Vovk, "Competitive on-line statistics", International Statistical Review 69 (2001);
             K. S. Azoury, M. K. Warmuth, "Relative loss bounds for on-line density estimation with
             the exponential family of distributions", Machine Learning 43 (2001).
    Task     regression; full information; no kernel, no step size.
    Round    1. Predict z'A_t^-1 b with z = (x_t, 1), A_t = lam I + sum_{s<=t} z_s z_s', which
                already contains x_t, and b = sum_{s<t} y_s z_s.
             2. Add y_t z to b.
    Symbols  lam  regularisation, > 0
    Cost     O(d^2) time per round; O(d^2) memory.
    Bound    sum (y_hat_t - y_t)^2 <= min over theta of (lam ||theta||^2 + sum (theta'z_t - y_t)^2)
             + Y^2 (d + 1) ln(1 + T Z^2 / (lam (d + 1))), for |y| <= Y and ||z|| <= Z.
    Reading  The coefficient of the constant is regularised like the others. Otherwise A_t would
             need another initial value.
    Differs  from the paper: none. The dictionary (kernels=...) is not used.

    Example: two equal rows, with lam = 1 and the first target 1. In the second row z'z = 2, b = z
    and A = I + 2 z z', so y_hat = 2 / (1 + 4).

    >>> from omkl import algorithms
    >>> from omkl.core.learner import Learner
    >>> ridge = algorithms.load("ridge")
    >>> learner = Learner(ridge, ridge.Params(lam=1.0), (), d=1, D=1, seed=0)
    >>> learner.partial_fit([[1.0], [1.0]], [1.0, 1.0]).y_hat.tolist()
    [0.0, 0.4]
    """

    class Params(NamedTuple):
        lam: POSITIVE

    State, init, select, predict = State, init, select_all, predict_only
    update = update_least_squares


@register_as("ridge_rff", representation=FORECASTERS, kernels=gaussian_kernel)
class RidgeRff:
    """Ridge on random features: the forecaster of Vovk, Azoury and Warmuth for one Gaussian kernel.

    Paper    V. Vovk (2001), K. S. Azoury and M. K. Warmuth (2001), as in ``ridge``; features of
             A. Rahimi, B. Recht, "Random features for large-scale kernel machines", NIPS 2007.
    Task     regression; full information; no step size.
    Round    As in ``ridge`` with the 2 D random features z(x_t) in place of (x_t, 1).
    Symbols  lam        regularisation, > 0
             bandwidth  of the kernel exp(-||x - x'||^2 / bandwidth), without a factor 2, > 0
    Cost     O(D^2 + D d) time per round; O(D^2 + D d) memory.
    Bound    that of ``ridge`` with 2 D in place of d + 1 and Z = 1.
    Reading  bandwidth has the same meaning as in ``rbf``.
    Differs  none. The dictionary (kernels=...) is not used.

    Example: two equal rows, with lam = 1 and the first target 1. Features have norm 1, so the
    second prediction is 1 / (1 + 2).

    >>> from omkl import algorithms
    >>> from omkl.core.learner import Learner
    >>> ridge = algorithms.load("ridge_rff")
    >>> learner = Learner(ridge, ridge.Params(lam=1.0, bandwidth=1.0), (), d=1, D=8, seed=0)
    >>> learner.partial_fit([[0.3], [0.3]], [1.0, 1.0]).y_hat.round(12).tolist()
    [0.0, 0.333333333333]
    """

    class Params(NamedTuple):
        lam: POSITIVE
        bandwidth: POSITIVE

    State, init, select, predict = State, init, select_all, predict_only
    update = update_least_squares


@register_as("ewrls", representation=RECURSIVE, kernels=gaussian_kernel)
class Ewrls:
    """EW-RLS: exponentially weighted recursive least squares on features of one Gaussian kernel.

    Paper    the classical adaptive filter (S. Haykin, "Adaptive Filter Theory", exponentially
             weighted recursive least squares) on the features of A. Rahimi, B. Recht (NIPS 2007).
    Task     regression; full information; streams that drift; no step size.
    Round    1. Predict f(x_t) = theta'z with 2 D random features z = z(x_t).
             2. theta <- theta + P z (y_t - f) / (1 + z'P z), and
                P <- (P - P z z'P / (1 + z'P z)) / decay, from P = I / lam on. Without the ceiling
                below, theta minimises sum_{s<=t} decay^(t-s) (theta'z_s - y_s)^2 +
                lam decay^(t-1) ||theta||^2.
    Symbols  lam        regularisation, > 0
             bandwidth  of the kernel exp(-||x - x'||^2 / bandwidth), without a factor 2, > 0
             decay      weight of a row relative to the next one, in (0, 1]; about 1 / (1 - decay)
                        rows count, and 1 forgets nothing
    Cost     O(D^2 + D d) time per round; O(D^2 + D d) memory.
    Bound    none.
    Reading  This is not the KRLS of Y. Engel, S. Mannor, R. Meir (2004), which stores a dictionary
             of rows and forgets nothing. If rows contain nothing about some direction, the variance
             in this direction would grow by the factor 1 / decay per round without limit. P is
             therefore stored as U diag(a) U', and no entry of a exceeds the ceiling 1 / lam. So the
             regularisation fades only in directions that rows determine.
    Differs  from the textbook in the ceiling. The dictionary (kernels=...) is not used.

    >>> from omkl.checks import learners
    >>> X, y = learners.stream(1000)
    >>> y_hat = learners.Case("ewrls").learner().partial_fit(X, y).y_hat
    >>> f"{((y_hat - y) ** 2).mean():.6f}"
    '0.004186'
    """

    class Params(NamedTuple):
        lam: POSITIVE
        bandwidth: POSITIVE
        decay: UP_TO_ONE

    State, init, select, predict = State, init, select_all, predict_only

    @staticmethod
    def update(params, state, t, y, selection):
        learn_every(state.model, selection.scratch, selection.f, y, params.decay)


SECOND = Choice("vaw", "weights")
VAW = SECOND.index("vaw")


@register_as("vaw2", representation=STACKED_RLS)
class Vaw2:
    """VAW^2: a forecaster of Vovk, Azoury and Warmuth for each kernel, and one that combines them.

    Paper    D. B. Rokhlin, O. V. Gurtovaya, "Random feature-based double Vovk-Azoury-Warmuth
             algorithm for online multi-kernel learning", arXiv 2503.20087 (2025).
    Task     regression; full information; no step size.
    Round    1. Each of the N kernels predicts f_i = z_i'A_i^-1 b_i with A_i = lam I + sum_{s<=t}
                z_i z_i', which already contains x_t, and b_i = sum_{s<t} y_s z_i.
             2. second=vaw: the second level does the same with f = (f_1, .., f_N) in place of z_i:
                y_hat = f'B^-1 c, B = lam2 I + sum_{s<=t} f f', c = sum_{s<t} y_s f.
                second=weights: y_hat is the mean of the f_i weighted by
                w_i = exp(-sum_{s<t} (f_i - y_s)^2 / (8 Y^2)), with Y the largest |y_s|, s < t.
    Symbols  lam     regularisation of the first level, > 0
             lam2    regularisation of the second level, > 0; not used with second=weights
             second  kind of the second level: vaw or weights
    Cost     O(N D^2 + N^2 + N D d) time per round; O(N D^2 + N^2) memory.
    Bound    O(sqrt(T) ln T) against the best function in the RKHS of the sum of the kernels,
             for D of order sqrt(T);
             at either level O(ln T) against the best fixed coefficients. With weights: at most
             8 Y^2 ln N above the best kernel, for |f_i| <= Y.
    Reading  The paper's text was not available. The rules follow a summary, which names both kinds
             of the second level, and a form with all features in a single forecaster. In the
             authors' public notebook both levels predict before they include the row. With
             second=weights, 1 / (8 Y^2) is the rate at which the squared loss is exp-concave on
             [-Y, Y]. For targets and predictions in [0, 1] the rate 1/2 would suffice.
    Differs  from the paper: not known.

    >>> from omkl.checks import learners
    >>> X, y = learners.stream(1000)
    >>> def mse(**settings):
    ...     y_hat = learners.Case("vaw2").learner(**settings).partial_fit(X, y).y_hat
    ...     return f"{((y_hat - y) ** 2).mean():.6f}"
    >>> mse(second="vaw"), mse(second="weights")
    ('0.005625', '0.006957')
    """

    class Params(NamedTuple):
        lam: POSITIVE
        lam2: POSITIVE
        second: Annotated[int, SECOND]

    class State(NamedTuple):
        model: StackedRls
        log_w: np.ndarray  # (N,) zeros with second=vaw, which has no weights
        losses: np.ndarray  # (N,) sums of squared errors
        largest: np.ndarray  # (1,) the largest squared target

    select = select_all

    @staticmethod
    def init(params: Any, dictionary: Sequence[Kernel], model: StackedRls) -> Vaw2.State:
        N = len(dictionary)
        return Vaw2.State(model, np.zeros(N), np.zeros(N), np.zeros(1))

    @staticmethod
    def predict(params, state, t, selection):
        if params.second == VAW:
            return selection.scratch.f[0], True
        return mean_of_all(state.log_w, selection.f), True

    @staticmethod
    def update(params, state, t, y, selection):
        if params.second != VAW:
            state.largest[0] = max(state.largest[0], y * y)
            for i in range(selection.f.shape[0]):
                error = selection.f[i] - y
                state.losses[i] += error * error
                if state.largest[0] > 0.0:
                    state.log_w[i] = -state.losses[i] / (8.0 * state.largest[0])
        learn_both(state.model, selection.scratch, selection.f, y)


LEAST = 1e-300  # stands for a weight of 0, whose logarithm is not finite


@register_as("ml_poly", representation=FORECASTERS)
class MlPoly:
    """ML-Poly over forecasters: ridge regressions, one per kernel, weighted without a rate.

    Paper    P. Gaillard, G. Stoltz, T. van Erven, "A second-order bound with excess losses", COLT
             2014 (ML-Poly); forecasters of V. Vovk (2001), K. S. Azoury and M. K. Warmuth (2001).
    Task     regression; full information; no step size, and no rate of the weights.
    Round    1. Each of the N kernels predicts f_i as ``ridge_rff`` does.
             2. Predict the mean of the f_i weighted by w_i = eta_i max(R_i, 0). If no R_i is
                positive, the weights are equal.
             3. Let r_i = 2 (y_hat - y_t) (y_hat - f_i): how fast the loss falls as the weight of
                kernel i grows. Then R_i <- R_i + r_i, V_i <- V_i + r_i^2, B <- max(B, max r_i^2),
                eta_i = 1 / (B + V_i).
    Symbols  lam  regularisation of the kernels, > 0
    Cost     O(N D^2 + N D d) time per round; O(N D^2) memory.
    Bound    with losses in [0, 1] and B = 1, at every T and for every kernel i:
             R_i <= sqrt(N (1 + ln(1 + max V)) (1 + V_i)), so O(sqrt(N T ln T)) against the best
             mean of kernels. The sum of eta_i max(R_i, 0)^2 grows per round by at most the sum of
             eta_i r_i^2, since the weights make the cross terms sum to 0. (ML-Prod of the same
             paper has ln N in place of N, and ln ln T in place of ln T.)
    Reading  The paper's text was not available; the rules follow its usual statement. There losses
             lie in [0, 1] and eta_i = 1 / (1 + V_i). B replaces the 1 by a number in units of the
             targets, as in the R package opera. r_i is the gradient of the loss: with losses in its
             place the bound holds only against the best single kernel.
    Differs  from the paper in B. In the paper experts are arbitrary.

    >>> from omkl import algorithms
    >>> from omkl.checks import learners
    >>> X, y = learners.stream(1000)
    >>> y_hat = learners.Case("ml_poly").learner().partial_fit(X, y).y_hat
    >>> f"{((y_hat - y) ** 2).mean():.6f}"
    '0.004665'
    """

    class Params(NamedTuple):
        lam: POSITIVE

    class State(NamedTuple):
        model: Recursive
        log_w: np.ndarray  # (N,)
        regret: np.ndarray  # (N,) R_i
        squares: np.ndarray  # (N,) V_i
        largest: np.ndarray  # (1,) B

    select, predict = select_all, predict_mean

    @staticmethod
    def init(params: Any, dictionary: Sequence[Kernel], model: Recursive) -> MlPoly.State:
        N = len(dictionary)
        return MlPoly.State(model, np.zeros(N), np.zeros(N), np.zeros(N), np.zeros(1))

    @staticmethod
    def update(params, state, t, y, selection):
        N = selection.f.shape[0]
        y_hat = mean_of_all(state.log_w, selection.f)
        best = 0.0
        for i in range(N):
            r = 2.0 * (y_hat - y) * (y_hat - selection.f[i])
            state.regret[i] += r
            state.squares[i] += r * r
            state.largest[0] = max(state.largest[0], r * r)
            best = max(best, state.regret[i])
        for i in range(N):
            w = 1.0
            if best > 0.0:
                w = state.regret[i] / (state.largest[0] + state.squares[i])
            state.log_w[i] = math.log(max(w, LEAST))
        learn_every(state.model, selection.scratch, selection.f, y, 1.0)
