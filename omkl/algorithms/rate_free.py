"""Learners without a learning rate: AdaHedge, BOA, Squint, coin betting and OKS++."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from omkl.algorithms.parts import predict_mean, select_all
from omkl.core.compiler import inlined
from omkl.core.graph_sampling import clear
from omkl.core.hyperparameters import EVALUATED_WITH, NON_NEGATIVE, POSITIVE, Schedule, rate
from omkl.core.kernels import Kernel
from omkl.core.protocol import register_as
from omkl.core.representations.random_features import RANDOM_FEATURES, gradient_step, gradient_steps
from omkl.core.weights import draw, exp_nonpositive, log_evidence, mean_of_all, shares_of_all

NO_RATE = {"complete_graph": "its weights have no rate, and those of Raker have one"}
FAR = 1e6  # log weights are at least -FAR, whose weight is 0, so that they stay finite
SMOOTHNESS = 4.0  # of the squared error e^2: (2 e)^2 / e^2
MOST_RATE = 1e300  # a larger rate of AdaHedge counts as infinite


class Hedging(NamedTuple):
    """State of AdaHedge.

    model   representation of the kernels' functions
    log_w   (N,) logarithms of the kernels' weights
    losses  (N,) sums of the losses of each kernel
    gap     (1,) Delta, the sum of the mixability gaps
    """

    model: Any
    log_w: np.ndarray  # (N,)
    losses: np.ndarray  # (N,) sums of losses
    gap: np.ndarray  # (1,) Delta, the sum of the mixability gaps


def init_hedging(params: Any, dictionary: Sequence[Kernel], model: Any) -> Hedging:
    N = len(dictionary)
    return Hedging(model, np.zeros(N), np.zeros(N), np.zeros(1))


@inlined
def mix_loss(losses, rate):
    """Return -log(mean of exp(-rate losses)) / rate; for an infinite rate the least loss."""
    least = losses[0]
    for i in range(1, losses.shape[0]):
        least = min(least, losses[i])
    if not rate < MOST_RATE:
        return least
    total = 0.0
    for i in range(losses.shape[0]):
        total += exp_nonpositive(-rate * (losses[i] - least))
    return least - math.log(total / losses.shape[0]) / rate


@inlined
def rate_of(state):
    """Return AdaHedge's rate ln N / Delta; infinite while Delta is 0."""
    gap = state.gap[0]
    return math.log(state.losses.shape[0]) / gap if gap > 0.0 else np.inf


@inlined
def adahedge_update(state, f, y, power):
    """Update sums, gap and weights of AdaHedge by the losses |f - y|^power of all kernels.

    Parameters
    ----------
    state
        State with ``losses``, ``gap`` and ``log_w``, which are updated.
    f
        Outputs (N,).
    y
        Target.
    power
        1 or 2.
    """
    N = state.losses.shape[0]
    rate = rate_of(state)
    before = mix_loss(state.losses, rate)
    total = 0.0
    hedge = 0.0
    for i in range(N):
        loss = abs(f[i] - y)
        loss = loss * loss if power == 2 else loss
        w = exp_nonpositive(state.log_w[i])  # the largest log_w is 0
        total += w
        hedge += w * loss
        state.losses[i] += loss
    if N > 1:
        after = mix_loss(state.losses, rate)
        state.gap[0] += max(0.0, hedge / total - (after - before))
    rate = rate_of(state)
    least = mix_loss(state.losses, np.inf)
    for i in range(N):
        ahead = state.losses[i] - least
        state.log_w[i] = -min(FAR, rate * ahead) if ahead > 0.0 else 0.0


@register_as("adahedge", representation=RANDOM_FEATURES, expected_failures=NO_RATE)
class Adahedge:
    """AdaHedge: Raker's kernels, mixed by weights whose rate adapts to the losses.

    Paper    S. de Rooij, T. van Erven, P. D. Grunwald, W. M. Koolen, "Follow the Leader If You Can,
             Hedge If You Must", JMLR 15 (2014), figure 1; the kernels are those of Y. Shen,
             T. Chen, G. B. Giannakis, JMLR 20 (2019).
    Task     regression; full information; weights without a rate.
    Round    1. Predict the mean of the f_i(x_t) = theta_i'z_i(x_t) weighted by
                w_i = exp(-rho L_i), L_i = sum_{s<t} l_{i,s}, with rho = ln N / Delta. While
                Delta = 0, the kernels with the least L_i share the weight equally.
             2. l_i = (f_i - y_t)^2, and Delta <- Delta + max(0, h - m). h is the weighted mean of
                the l_i, and m = -(1/rho) ln(weighted mean of exp(-rho l_i)).
             3. theta_i <- theta_i - eta_t grad L_i(theta_i), with
                L_i(theta) = (theta'z_i - y_t)^2 + lam ||theta||^2.
    Symbols  eta  step size of theta, > 0, a schedule in t
             lam  regularisation of theta, >= 0
    Cost     O(N D d) time per round; O(N D d) memory.
    Bound    The sum of h over the rounds exceeds the least L_i by a term of order sqrt(V ln N) + S
             ln N. V is the sum over the rounds of the weighted variance of the l_i, and S the
             largest range of the l_i in a round. V and S need not be known in advance. The bound is
             quoted from other papers.
    Reading  Only the paper's abstract and introduction were available. Figure 1 was read from two
             translations of the authors' MATLAB code, which agree. The loss in the weights is the
             squared error alone, without lam ||theta||^2.
    Differs  from the paper: none. Only the weights differ from Raker.

    >>> from omkl.checks import learners
    >>> X, y = learners.stream(1000)
    >>> y_hat = learners.Case("adahedge").learner().partial_fit(X, y).y_hat
    >>> f"{((y_hat - y) ** 2).mean():.6f}"
    '0.027247'
    """

    class Params(NamedTuple):
        eta: Schedule
        lam: NON_NEGATIVE

    State, init, select, predict = Hedging, init_hedging, select_all, predict_mean

    @staticmethod
    def update(params, state, t, y, selection):
        adahedge_update(state, selection.f, y, 2)
        gradient_steps(state.model, rate(params.eta, t), params.lam, y, selection)


class Regrets(NamedTuple):
    """State of BOA and Squint.

    model    representation of the kernels' functions
    log_w    (N,) logarithms of the kernels' weights
    regrets  (N,) R_i. Squint sums r_i over the rounds, and BOA sums r_i - r_i^2 / sqrt(V_i). The
             classes ``Squint`` and ``Boa`` define r_i, the regret of kernel i in one round
    squares  (N,) V_i. Squint sums r_i^2 over the rounds, and BOA sums 2.2 r_i^2
    """

    model: Any
    log_w: np.ndarray
    regrets: np.ndarray
    squares: np.ndarray


def init_regrets(params: Any, dictionary: Sequence[Kernel], model: Any) -> Regrets:
    return Regrets(model, *np.zeros((3, len(dictionary))))


@inlined
def boa_update(state, f, y):
    """Update regrets, squares and weights of BOA by the gradients of the losses of all kernels.

    Parameters
    ----------
    state
        State, updated in place.
    f
        Outputs (N,).
    y
        Target.
    """
    N = f.shape[0]
    y_hat = mean_of_all(state.log_w, f)
    n = 0
    top = -np.inf
    for i in range(N):
        r = 2.0 * (y_hat - y) * (y_hat - f[i])
        state.squares[i] += 2.2 * (r * r)
        if state.squares[i] > 0.0:
            root = math.sqrt(state.squares[i])
            state.regrets[i] += r - r * r / root
            state.log_w[i] = state.regrets[i] / root - math.log(root)
            top = max(top, state.log_w[i])
            n += 1
    if n > 0:
        total = 0.0
        for i in range(N):
            if state.squares[i] > 0.0:
                total += exp_nonpositive(state.log_w[i] - top)
        shift = math.log(n) - math.log(total) - top
        for i in range(N):
            if state.squares[i] > 0.0:
                state.log_w[i] = max(-FAR, state.log_w[i] + shift)


@register_as("boa", representation=RANDOM_FEATURES, expected_failures=NO_RATE)
class Boa:
    """BOA: Raker's kernels, mixed by Bernstein online aggregation with one rate per kernel.

    Paper    O. Wintenberger, "Optimal learning with Bernstein online aggregation", Machine Learning
             106 (2017), as in the R package opera by P. Gaillard and Y. Goude.
    Task     regression; full information; weights without a rate.
    Round    1. Predict the mean of the f_i(x_t) = theta_i'z_i(x_t) weighted by
                w_i = exp(R_i / sqrt(V_i)) / sqrt(V_i).
             2. r_i = 2 (y_hat_t - y_t) (y_hat_t - f_i), the regret by the gradient of the loss;
                V_i <- V_i + 2.2 r_i^2, and R_i <- R_i + r_i - r_i^2 / sqrt(V_i).
             3. theta_i <- theta_i - eta_t grad L_i(theta_i), with
                L_i(theta) = (theta'z_i - y_t)^2 + lam ||theta||^2.
    Symbols  eta  step size of theta, > 0, a schedule in t
             lam  regularisation of theta, >= 0
    Cost     O(N D d) time per round; O(N D d) memory.
    Bound    For bounded squared losses, the sum of r_i is of order sqrt(sum of r_i^2) for each
             kernel i, up to factors ln N and ln ln T. This bounds the regret against the best
             convex combination of the f_i.
    Reading  The paper's text was not available. The rules are those of ``R/BOA.R`` in opera
             (Gaillard is an author of opera) with its default, the gradient of the loss. As in
             opera, kernels whose r_i were all 0 have the weight 1/N, and the others share the rest.
    Differs  from opera: none. Only the weights differ from Raker.

    >>> from omkl.checks import learners
    >>> X, y = learners.stream(1000)
    >>> y_hat = learners.Case("boa").learner().partial_fit(X, y).y_hat
    >>> f"{((y_hat - y) ** 2).mean():.6f}"
    '0.026350'
    """

    class Params(NamedTuple):
        eta: Schedule
        lam: NON_NEGATIVE

    State, init, select, predict = Regrets, init_regrets, select_all, predict_mean

    @staticmethod
    def update(params, state, t, y, selection):
        boa_update(state, selection.f, y)
        gradient_steps(state.model, rate(params.eta, t), params.lam, y, selection)


@inlined
def squint_update(state, f, y, span):
    """Update regrets, squares and weights of Squint by the losses (f - y)^2 / span of all kernels.

    Parameters
    ----------
    state
        State, updated in place.
    f
        Outputs (N,).
    y
        Target.
    span
        Range of the squared errors, > 0.
    """
    N = f.shape[0]
    total = 0.0
    hedge = 0.0
    for i in range(N):
        w = exp_nonpositive(state.log_w[i])  # the largest log_w is 0
        total += w
        hedge += w * ((f[i] - y) ** 2 / span)
    top = -np.inf
    for i in range(N):
        r = hedge / total - (f[i] - y) ** 2 / span
        state.regrets[i] += r
        state.squares[i] += r * r
        state.log_w[i] = log_evidence(state.regrets[i], state.squares[i])
        top = max(top, state.log_w[i])
    for i in range(N):
        state.log_w[i] -= top


@register_as("squint", representation=RANDOM_FEATURES, expected_failures=NO_RATE)
class Squint:
    """Squint: Raker's kernels, mixed by weights that are averaged over all rates.

    Paper    W. M. Koolen, T. van Erven, "Second-order Quantile Methods for Experts and
             Combinatorial Games", COLT 2015; the kernels are those of Y. Shen, T. Chen,
             G. B. Giannakis, JMLR 20 (2019).
    Task     regression; full information; weights without a rate.
    Round    1. Predict the mean of the f_i(x_t) = theta_i'z_i(x_t) weighted by w_i, proportional to
                the integral of exp(rho R_i - rho^2 V_i) over the rates rho from 0 to 1/2.
             2. l_i = (f_i - y_t)^2 / span, h is their weighted mean, and r_i = h - l_i:
                R_i <- R_i + r_i, and V_i <- V_i + r_i^2.
             3. theta_i <- theta_i - eta_t grad L_i(theta_i), with
                L_i(theta) = (theta'z_i - y_t)^2 + lam ||theta||^2.
    Symbols  eta   step size of theta, > 0, a schedule in t
             lam   regularisation of theta, >= 0
             span  range of the squared errors, > 0 (1); the largest rate is 1 / (2 span)
    Cost     O(N D d) time per round; O(N D d) memory.
    Bound    Let the squared errors lie in a range of length span. Take any subset of the kernels
             with a share e of them. The smallest R_i in the subset is of order sqrt(V ln(ln T / e))
             + ln(ln T / e), where V is the mean of the V_i in the subset. So the number of kernels
             does not matter if many kernels are good. The bound is quoted from a note on the paper.
    Reading  Only the paper's abstract and introduction were available. The weights are read from
             Koolen's page on their implementation and a public copy of its C code, which agree.
             The weights use the improper prior 1/rho on rates. The loss in the weights is the
             squared error alone, without lam ||theta||^2. Losses beyond span are not clipped: the
             weights stay defined, but the bound does not hold.
    Differs  from the paper: none. Only the weights differ from Raker.

    >>> from omkl.checks import learners
    >>> X, y = learners.stream(1000)
    >>> y_hat = learners.Case("squint").learner().partial_fit(X, y).y_hat
    >>> f"{((y_hat - y) ** 2).mean():.6f}"
    '0.029091'
    """

    class Params(NamedTuple):
        eta: Schedule
        lam: NON_NEGATIVE
        span: POSITIVE

    State, init, select, predict = Regrets, init_regrets, select_all, predict_mean

    @staticmethod
    def update(params, state, t, y, selection):
        squint_update(state, selection.f, y, params.span)
        gradient_steps(state.model, rate(params.eta, t), params.lam, y, selection)


@register_as("kt", representation=RANDOM_FEATURES)
class Kt:
    """KT: every kernel learns by coin betting, without a step size; AdaHedge mixes the kernels.

    Paper    F. Orabona, D. Pal, "Coin Betting and Parameter-Free Online Learning", NIPS 2016,
             algorithm 1, on random features of each kernel; weights of S. de Rooij, T. van Erven,
             P. D. Grunwald, W. M. Koolen, JMLR 15 (2014), as in ``adahedge``.
    Task     regression; full information; the absolute loss; neither step size nor rate.
    Round    1. f_i(x_t) = theta_i'z_i(x_t) with theta_i = (W_i / t) G_i. Kernel i has the wealth
                W_i, epsilon at first. It bets the fraction ||G_i|| / t of W_i, where G_i is the sum
                of its past g_i.
             2. Predict the mean of the f_i weighted by w_i, the weights of ``adahedge`` for the
                losses l_i = |f_i - y_t|.
             3. g_i = sign(y_t - f_i) z_i, whose norm is at most 1: W_i <- W_i + g_i'theta_i, and
                G_i <- G_i + g_i.
    Symbols  epsilon  initial wealth, > 0: the scale of the first bets (1)
    Cost     O(N D d) time per round; O(N D d) memory.
    Bound    for every kernel i and theta: sum |f_i - y_t| <= sum |theta'z_i - y_t|
             + ||theta|| sqrt(T ln(1 + 24 T^2 ||theta||^2 / epsilon^2)) + epsilon (the paper's
             corollary on algorithm 1). The mixture has the bound of ``adahedge`` for the losses
             l_i.
    Reading  The paper's text was available. Algorithm 1 needs a loss with gradients of norm at most
             1. The absolute loss has them for unbounded targets, and the paper's experiments use
             it. So predictions tend to the median of the target. With the squared loss they would
             tend to the mean.
    Differs  from the paper: it has a single kernel, and no mixture.

    >>> from omkl.checks import learners
    >>> X, y = learners.stream(1000)
    >>> y_hat = learners.Case("kt").learner().partial_fit(X, y).y_hat
    >>> f"{((y_hat - y) ** 2).mean():.6f}"
    '0.012794'
    """

    class Params(NamedTuple):
        epsilon: POSITIVE

    class State(NamedTuple):
        model: Any
        log_w: np.ndarray  # (N,)
        losses: np.ndarray  # (N,) sums of absolute errors
        gap: np.ndarray  # (1,) Delta, the sum of the mixability gaps
        wealth: np.ndarray  # (N,) W

    select, predict = select_all, predict_mean

    @staticmethod
    def init(params: Any, dictionary: Sequence[Kernel], model: Any) -> Kt.State:
        N = len(dictionary)
        wealth = np.full(N, float(params.epsilon))
        return Kt.State(model, np.zeros(N), np.zeros(N), np.zeros(1), wealth)

    @staticmethod
    def update(params, state, t, y, selection):
        adahedge_update(state, selection.f, y, 1)
        for i in range(selection.f.shape[0]):
            error = y - selection.f[i]
            sign = 1.0 if error > 0.0 else (-1.0 if error < 0.0 else 0.0)
            before = state.wealth[i]
            # |theta'z| <= (t - 1) / t of the wealth up to rounding. The floor keeps wealth above 0.
            after = max(before + sign * selection.f[i], before / t)
            state.wealth[i] = after
            # theta = (W / t) G, so the update of G and W is a step and a shrinkage of theta.
            shrink = (after / before) * (t / (t + 1.0))
            gradient_step(state.model, i, i, selection.scratch, -sign * after / (t + 1.0), shrink)


@inlined
def choose_one(selection, i):
    """Select kernel i alone to be evaluated and combined."""
    selection.evaluate[0] = i
    selection.combine[0] = i
    selection.n_evaluated[0] = 1
    selection.n_combined[0] = 1


@register_as("oks_pp", representation=RANDOM_FEATURES)
class OksPp:
    """OKS++: one kernel per round, selected by exponential weights of its own observed losses.

    Paper    J. Li, S. Liao, "Improved Regret Bounds for Online Kernel Selection under Bandit
             Feedback", ECML PKDD 2022.
    Task     regression; selected kernels (one a round); neither step size nor rate.
    Round    With C = 4, c = C^(1/3) (U N)^(2/3), and A = B = H_i = 0 at first:
             1. q_i is proportional to exp(-rho H_i), rho = sqrt(2 ln N / (1 + B)), and
                p_i = (1 - delta) q_i + delta / N, delta = c / (2 max(c, 2 A^(1/3))). In round
                1 all p_i are 1/N.
             2. Draw the kernel I from p; predict its output f = theta_I'z_I(x_t).
             3. l = (f - y_t)^2 / p_I: A <- A + l, B <- B + q_I l^2, H_I <- H_I + l.
             4. theta_I <- theta_I - 2 eta (f - y_t) / p_I z_I(x_t), with
                eta = sqrt(3/4) U^(4/3) / ((C^2 N)^(1/6) max(c^3, 8 A)^(1/6) sqrt(1 + H_I)).
             5. If ||theta_I|| > U: theta_I <- U theta_I / ||theta_I||.
    Symbols  U  largest norm of a kernel's function, > 0; the steps grow with it
    Cost     O(D d + N) time per round; O(N D d) memory.
    Bound    O(U^(2/3) N^(-1/3) (sum over kernels i of L_i)^(2/3)) in expectation, with L_i the loss
             of the best function of kernel i of norm <= U; smooth losses, exact kernels. Stated in
             the paper's abstract; its further conditions were not available.
    Reading  Only the paper's abstract and the authors' code for exact kernels, OKS++square.R, were
             available. Random features are those of RF-OKS++, whose code was not available:
             kappa(x, x) and ||z||^2 are both 1, so every formula stays the same.
    Differs  from the code: the code has exact kernels, each a sum over the rows in which the kernel
             was drawn.

    >>> from omkl.checks import learners
    >>> X, y = learners.stream(1000)
    >>> y_hat = learners.Case("oks_pp").learner().partial_fit(X, y).y_hat
    >>> f"{((y_hat - y) ** 2).mean():.6f}"
    '0.035881'
    """

    class Params(NamedTuple):
        U: POSITIVE

    class State(NamedTuple):
        model: Any
        log_w: np.ndarray  # (N,) -rho H
        losses: np.ndarray  # (N,) H, sums of estimated losses
        total: np.ndarray  # (2,) A and B, of all kernels
        weights: np.ndarray  # (N,) q
        chances: np.ndarray  # (N,) p
        evaluated_with: EVALUATED_WITH  # (N,) p of the drawn one

    @staticmethod
    def init(params: Any, dictionary: Sequence[Kernel], model: Any) -> OksPp.State:
        N = len(dictionary)
        log_w, losses, weights, chances = np.zeros((4, N))
        drawn_with = np.full(N, np.nan)
        return OksPp.State(model, log_w, losses, np.zeros(2), weights, chances, drawn_with)

    @staticmethod
    def select(params, state, t, rng, selection):
        N = state.log_w.shape[0]
        c = (SMOOTHNESS * (params.U * N) ** 2) ** (1.0 / 3.0)
        delta = 0.5 * c / max(c, 2.0 * state.total[0] ** (1.0 / 3.0))
        shares_of_all(state.log_w, state.weights)
        for i in range(N):
            state.chances[i] = (1.0 - delta) * state.weights[i] + delta / N
        i = draw(state.chances, rng.random())
        clear(state.evaluated_with, selection.evaluate, selection.n_evaluated[0])
        choose_one(selection, i)
        state.evaluated_with[i] = state.chances[i]

    @staticmethod
    def predict(params, state, t, selection):
        return selection.f[selection.combine[0]], True

    @staticmethod
    def update(params, state, t, y, selection):
        model = state.model
        N = state.log_w.shape[0]
        i = selection.evaluate[0]
        error = selection.f[i] - y
        chance = state.chances[i]
        loss = error * error / chance
        state.total[0] += loss
        state.total[1] += state.weights[i] * loss * loss
        state.losses[i] += loss
        most = max(SMOOTHNESS * (params.U * N) ** 2, 8.0 * state.total[0])
        eta = math.sqrt(0.75) * params.U ** (4.0 / 3.0) / math.sqrt(1.0 + state.losses[i])
        eta /= (SMOOTHNESS * SMOOTHNESS * N * most) ** (1.0 / 6.0)
        step = 2.0 * eta * error / chance
        # Squared norm after the step. The features have norm 1.
        norm2 = model.norm2[i] - 2.0 * step * selection.f[i] + step * step
        shrink = min(1.0, params.U / math.sqrt(norm2)) if norm2 > 0.0 else 1.0
        gradient_step(model, i, 0, selection.scratch, shrink * step, shrink)
        per_loss = math.sqrt(2.0 * math.log(N) / (1.0 + state.total[1]))
        for k in range(N):
            state.log_w[k] = -per_loss * state.losses[k]
