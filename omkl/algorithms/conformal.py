"""Learners with intervals of their own: one kernel is drawn to predict, with its interval.

Both keep a window of scores for every kernel (``omkl.core.conformal``). SAMOCP evaluates every
kernel, GMOCP those that a graph picks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from omkl.algorithms import gf
from omkl.algorithms.raker import local_step, step_size
from omkl.core.compiler import inlined
from omkl.core.conformal import WINDOW, keep, level_of, missed, pinball, quantile
from omkl.core.hyperparameters import (
    COUNTS,
    EVALUATED_WITH,
    FRACTION,
    KERNELS,
    NODES,
    NON_NEGATIVE,
    POSITIVE,
    RATE,
    ROUNDS,
    UP_TO_N,
    Range,
    Schedule,
    rate,
)
from omkl.core.kernels import Kernel
from omkl.core.protocol import choose_all, register_as
from omkl.core.representations.blocked import LOCAL_FEATURES
from omkl.core.representations.random_features import RANDOM_FEATURES, RandomFeatures, gradient_step
from omkl.core.weights import (
    draw,
    exp_nonpositive,
    mean_of_all_by_shares,
    running_sums,
    shares_of_all,
    softmax,
)

POWERS = 48  # of two in the number of a round: there are places for experts of 2^48 rounds
LEAST = 1e-300  # of a kernel's share, so that its logarithm is a number
FASTEST, SLOWER = 0.9, 140.0  # eta_k is min(FASTEST, SLOWER / sqrt(lifetime of k)), as released


def predict_drawn(params, state, t, selection):
    return selection.f[selection.combine[0]], True


@inlined
def _power(k):
    """How often two divides the round k >= 1."""
    v = 0
    while k % 2 == 0 and v < POWERS - 1:
        k //= 2
        v += 1
    return v


@inlined
def n_places(lifetime):
    """How many experts of one power may live at a time: they are made every 2^(v+1) rounds.

    One lives g 2^v + 1 rounds from the one before its own on, and the very first one longer by 1.
    """
    return (lifetime + 1) // 2 + 1


@inlined
def place_of(k, lifetime):
    """Where the expert made for round k is: free again before the next one that comes here."""
    if lifetime == 0:
        return 0
    v = _power(k)
    return v * n_places(lifetime) + (k >> (v + 1)) % n_places(lifetime)


@inlined
def lifetime_of(k, lifetime):
    return lifetime << _power(k)


@inlined
def _rate_of_expert(k, lifetime):
    if lifetime == 0:
        return FASTEST
    return min(FASTEST, SLOWER / math.sqrt(lifetime_of(k, lifetime)))


@inlined
def _last_place(t, lifetime):
    """Places from this one on have never had an expert when round t ends."""
    if lifetime == 0:
        return 1
    v = 0
    while v < POWERS and (1 << v) <= t + 1:
        v += 1
    return v * n_places(lifetime)


@inlined
def _mix(state, last):
    """Write u, A and P of the experts that live."""
    top = -np.inf
    for k in range(last):
        if state.made_for[k] > 0:
            top = max(top, state.log_u[k])
    total = 0.0
    for k in range(last):
        state.u[k] = exp_nonpositive(state.log_u[k] - top) if state.made_for[k] > 0 else 0.0
        total += state.u[k]
    mixed = state.mixed
    mixed[:] = 0.0
    state.level[0] = 0.0
    for k in range(last):
        if state.made_for[k] > 0:
            state.u[k] /= total
            state.level[0] += state.u[k] * state.level_of_expert[k]
            for i in range(mixed.shape[0]):
                mixed[i] += state.u[k] * state.p[k, i]


@inlined
def _renew_experts(params, state, t, last):
    """Step 2: experts that are too old end, and that of round t + 1 is made of the rest."""
    ended = False
    for k in range(last):
        made_for = state.made_for[k]
        if made_for > 0 and state.age[k] > lifetime_of(made_for, params.lifetime):
            state.made_for[k] = 0
            ended = True
    if ended:
        _mix(state, last)
    new = place_of(t + 1, params.lifetime)
    state.made_for[new] = t + 1
    state.age[new] = 0
    state.log_u[new] = math.log(_rate_of_expert(t + 1, params.lifetime))
    for i in range(state.mixed.shape[0]):
        state.levels[new, i] = state.level[0]
        state.log_p[new, i] = math.log(max(state.mixed[i], LEAST))
        state.squares[new, i] = 0.0


@inlined
def _teach(params, state, k):
    """Step 4 of the expert at place k."""
    alpha, b = 1.0 - params.level, state.b
    levels, log_p, squares = state.levels[k], state.log_p[k], state.squares[k]
    for i in range(b.shape[0]):
        off = b[i] - levels[i]
        log_p[i] -= params.eps * pinball(alpha, off)
        h = missed(off) - alpha
        squares[i] += h * h
        levels[i] -= params.step * h / math.sqrt(squares[i])
    state.age[k] += 1
    shares_of_all(log_p, state.p[k])
    state.level_of_expert[k] = mean_of_all_by_shares(state.p[k], levels)


@inlined
def _compare_experts(params, state, t, last, whole):
    """Step 3: those that lose less than the whole gain; the one just made has said nothing yet."""
    for k in range(last):
        made_for = state.made_for[k]
        if 0 < made_for <= t:
            b = mean_of_all_by_shares(state.p[k], state.b)
            loss = pinball(1.0 - params.level, b - state.level_of_expert[k])
            state.log_u[k] += _rate_of_expert(made_for, params.lifetime) * (whole - loss)


@register_as(
    "samocp",
    representation=LOCAL_FEATURES,
    expected_failures={
        "complete_graph": "one kernel alone predicts, so it is not Raker",
        "permutation": "one kernel is drawn: another order is another draw",
    },
)
class Samocp:
    """SAMOCP: one kernel is drawn to predict, with an interval of its own that follows changes.

    Paper    E. Hajihashemi, Y. Shen, "Multi-model Ensemble Conformal Prediction in Dynamic
             Environments", NeurIPS 2024 (arXiv 2411.03678), and its public code (Apache-2.0).
    Task     regression; full information; an interval with every prediction.
    Round    b_i, the level of a score s_i = |y - f_i|, is 1 - r / (n + 1): r of the last n scores
             of kernel i are less. loss(b, a) = (1 - level) (b - a) - min(0, b - a). Expert k has,
             for every kernel, a level of miscoverage a_ki and a weight p_ki, sum_i p_ki = 1; of
             experts u_k is the share. A_k = sum_i p_ki a_ki, A = sum_k u_k A_k, P_i = sum_k u_k
             p_ki.
             1. Draw a kernel i from P. Predict f_i, and f_i +- q_i(A): of the last n scores of
                kernel i, q_i(a) is the ceil((1 - a)(n + 1))-th smallest.
             2. With the label: experts of more than g 2^v rounds end, where 2^v divides the round
                that they were made for. A new one begins with a_ki = A and p_ki = P_i.
             3. For every other one u_k <- u_k exp(eta_k (loss(sum_i P_i b_i, A)
                - loss(sum_i p_ki b_i, A_k))), scaled; eta_k = min(0.9, 140 / sqrt(g 2^v)) is also
                what u_k begins with.
             4. In every expert p_ki <- p_ki exp(-eps loss(b_i, a_ki)), scaled to sum 1, and
                a_ki <- a_ki - step h / sqrt(sum of h^2 so far), h = [b_i < a_ki] - (1 - level).
             5. Every kernel keeps its score and learns as in Raker.
    Symbols  eta       step size of theta, > 0, a schedule in t
             lam       regularisation, >= 0
             level     share of labels that intervals are to hold, in (0, 1)
             step      of the levels, > 0 (code: 1/20)
             eps       rate of the kernels' weights, > 0 (code: 0.9)
             lifetime  g, rounds of the shortest-lived experts (code: 8); 0: one expert that never
                       ends, which is the MOCP of the same paper
    Cost     O(N D d + g N log t) time per round; O(N D d + 1000 N + 48 g N) memory. No more than
             (g + 1) / 2 + 1 experts live for every v; 2^48 rounds have a place for all of them.
    Bound    strongly adaptive regret, in the paper; not evaluated.
    Reading  The text was not at hand: this is the released code. There scores are of classes of
             models that do not learn, so three things are ours: the score |y - f|, the prediction
             of the drawn kernel as y_hat, and kernels that learn as Raker's. Losses are of levels,
             ranks among a kernel's own scores: they tell which kernel errs less than it used to,
             not which one errs least. So P stays near even, and neither y_hat nor the interval is
             as good as those of Raker with ``interval=0.9``; and intervals hold less than
             ``level``, 80 to 86 of 90 %, as young experts begin with large steps
             (``docs/intervals.md``; with lifetime=0, 88 to 90). Released order and sign hold 88 %
             of levels that are uniform, ours 87 %.
    Differs  from the code: it has step 3 after step 4, of what experts say then, and exp(-eta_k
             ..), which gives weight to those that lose more than the whole; adaptive regret is
             about what was predicted, and asks for the reverse. q is of scores before the label,
             there the new one is among them. There the seed is set anew in every round: all draws
             are of one number. 1,000 scores are kept, there all. Before the first label there is no
             interval. p_ki of a new expert is at least 1e-300. Levels less than 1e-9 apart are the
             same.

    >>> import numpy as np
    >>> from omkl.checks import learners
    >>> X, y = learners.stream(1000)
    >>> y_hat, _, half = learners.Case("samocp").learner().partial_fit(X, y)
    >>> f"{np.mean(np.abs(y - y_hat)[100:] <= half[100:]):.3f}"
    '0.809'
    """

    class Params(NamedTuple):
        eta: Schedule
        lam: NON_NEGATIVE
        level: FRACTION
        step: POSITIVE
        eps: POSITIVE
        lifetime: Annotated[int, Range(0, 100)]  # memory and time of a round grow with it

    class State(NamedTuple):
        """N kernels, K places of experts; an expert made for round k is at the place of k."""

        model: RandomFeatures
        log_w: np.ndarray  # (N,) logarithms of P
        scores: np.ndarray  # (N, W) the last of each kernel, see ``omkl.core.conformal``
        ordered: np.ndarray  # (N, W)
        n_scores: ROUNDS  # (1,) so far
        made_for: COUNTS  # (K,) the round k of the expert here; 0: none
        age: ROUNDS  # (K,) rounds that it has learned
        log_u: np.ndarray  # (K,)
        levels: np.ndarray  # (K, N) a_ki
        log_p: np.ndarray  # (K, N) up to a constant
        squares: np.ndarray  # (K, N) sums of h^2
        p: np.ndarray  # (K, N)
        level_of_expert: np.ndarray  # (K,) A_k
        u: np.ndarray  # (K,)
        b: np.ndarray  # (N,)
        mixed: np.ndarray  # (N,) P
        level: np.ndarray  # (1,) A

    step_size, local_step, predict = step_size, local_step, predict_drawn

    @staticmethod
    def init(params: Any, dictionary: Sequence[Kernel], model: RandomFeatures) -> Samocp.State:
        N = len(dictionary)
        K = POWERS * n_places(params.lifetime) if params.lifetime else 1
        state = Samocp.State(
            model,
            log_w=np.full(N, -math.log(N)),
            scores=np.zeros((N, WINDOW)),
            ordered=np.zeros((N, WINDOW)),
            n_scores=np.zeros(1, dtype=np.int64),
            made_for=np.zeros(K, dtype=np.int64),
            age=np.zeros(K, dtype=np.int64),
            log_u=np.zeros(K),
            levels=np.zeros((K, N)),
            log_p=np.zeros((K, N)),
            squares=np.zeros((K, N)),
            p=np.zeros((K, N)),
            level_of_expert=np.zeros(K),
            u=np.zeros(K),
            b=np.zeros(N),
            mixed=np.full(N, 1.0 / N),
            level=np.array([1.0 - params.level]),
        )
        first = place_of(1, params.lifetime)
        state.made_for[first] = 1
        state.log_u[first] = math.log(_rate_of_expert(1, params.lifetime))
        state.levels[first] = 1.0 - params.level
        state.p[first] = 1.0 / N
        state.level_of_expert[first] = 1.0 - params.level
        return state

    @staticmethod
    def select(params, state, t, rng, selection):
        choose_all(selection)
        selection.combine[0] = draw(state.mixed, rng.random())
        selection.n_combined[0] = 1

    @staticmethod
    def half_width(params, state, t, selection):
        n = min(state.n_scores[0], state.scores.shape[1])
        if n == 0:
            return np.nan
        return quantile(state.ordered[selection.combine[0]], n, state.level[0])

    @staticmethod
    def reweigh(params, state, t, y, f, norm2):
        N = f.shape[0]
        n = min(state.n_scores[0], state.scores.shape[1])
        for i in range(N):
            error = abs(y - f[i])
            place = keep(state.scores[i], state.ordered[i], state.n_scores[0], error)
            state.b[i] = level_of(place, n)
        state.n_scores[0] += 1
        last = _last_place(t, params.lifetime)
        if params.lifetime > 0:
            b = mean_of_all_by_shares(state.mixed, state.b)
            whole = pinball(1.0 - params.level, b - state.level[0])
            _renew_experts(params, state, t, last)
            _compare_experts(params, state, t, last, whole)
        for k in range(last):
            if state.made_for[k] > 0:
                _teach(params, state, k)
        _mix(state, last)
        for i in range(N):
            state.log_w[i] = math.log(max(state.mixed[i], LEAST))


@register_as(
    "gmocp",
    representation=RANDOM_FEATURES,
    expected_failures={
        "importance_weights": "p follows the drawn graph, so q is exact for J = 1 alone",
        "learns": "one kernel alone predicts, and the weights do not tell which one errs least",
    },
)
class Gmocp:
    """GMOCP: a kernel of those that a bipartite graph picks predicts, with an interval of its own.

    Paper    E. Hajihashemi, Y. Shen, "Multi-model Online Conformal Prediction with Graph-Structured
             Feedback", arXiv 2506.20898 (2025).
    Task     regression; selected kernels (at most M a round); an interval with every prediction.
    Round    b_i, loss(b, a) and q_i(a) as in SAMOCP (``samocp``), of the scores of the rounds in
             which kernel i was evaluated; a_i is its level of miscoverage.
             1. Draw the graph: each of J selective nodes draws M times, with replacement, from
                pi_i = (1 - eta_e) w_i / sum(w) + eta_e / N.
             2. u_j is the sum of w over the kernels of node j; draw a node from
                p_j = (1 - eta_e) u_j / U + eta_e / J. S_t are its kernels, and are evaluated.
             3. Draw a kernel m of S_t in proportion to w. Predict f_m, and f_m +- q_m(a_m).
             4. q_i = sum_j p_j (1 - (1 - pi_i)^M); with the label, for i in S_t,
                w_i <- w_i exp(-eps loss(b_i, a_i) / q_i),
                a_i <- a_i - step h / sqrt(sum of h^2 so far), h = ([b_i < a_i] - (1 - level)) /
                q_i, theta_i <- theta_i - eta grad L_i / q_i,
                L_i(theta) = (theta'z_i - y)^2 + lam ||theta||^2.
             A seed's uniform numbers are drawn in this order: node after node, M times one that
             says which part of pi (less than eta_e: the even one) and one for the kernel; one for
             the node; one for m, whose shares are in the order in which the kernels of S_t were
             drawn.
    Symbols  eta     step size of theta, > 0, a schedule
             eta_e   exploration, in (0, 1), a schedule
             lam     regularisation, >= 0
             M       draws of a selective node, 1..N: the largest number of kernels per round
             J       selective nodes, >= 1
             level   share of labels that intervals are to hold, in (0, 1)
             step    of the levels, > 0
             eps     rate of the kernels' weights, > 0, a schedule
    Cost     O(M D d + J M N) time per round; O(N D d + J N + 1000 N) memory.
    Bound    sublinear regret, in the paper; not evaluated.
    Reading  The text was not at hand, and no code is public: summaries have step 1, the draws from
             S_t and q. The node, 1 / q in step 4 and eps = 0.1/sqrt(t) are those of OMKL-GF
             (``gf``), the levels and their step those of SAMOCP's code. So is what is learned for
             regression: see there, also for why weights stay near even. A kernel that is drawn
             before it has a score says no interval.
    Differs  from the paper: as above. q takes p as independent of the drawn graph, as in OMKL-GF:
             for J > 1 the weights 1 / q are biased.

    >>> import numpy as np
    >>> from omkl.checks import learners
    >>> X, y = learners.stream(1000)
    >>> y_hat, _, half = learners.Case("gmocp").learner().partial_fit(X, y)
    >>> f"{np.mean(np.abs(y - y_hat)[100:] <= half[100:]):.3f}"
    '0.867'
    """

    class Params(NamedTuple):
        eta: Schedule
        eta_e: RATE
        lam: NON_NEGATIVE
        M: UP_TO_N
        J: NODES
        level: FRACTION
        step: POSITIVE
        eps: Schedule

    class State(NamedTuple):
        """The graph as in ``gf``, and of every kernel its scores and its level."""

        model: RandomFeatures
        log_w: np.ndarray  # (N,)
        kernels: KERNELS  # (J, M)
        n_kernels: Annotated[np.ndarray, Range(0, "kernels.1")]  # (J,)
        drawn: np.ndarray  # (J, N)
        w: np.ndarray  # (N,)
        sums: np.ndarray  # (N,)
        u: np.ndarray  # (J, M)
        p: np.ndarray  # (J,)
        q: EVALUATED_WITH  # (N,)
        share: np.ndarray  # (N,) chances of the kernels of S_t, in their order; behind them zeros
        scores: np.ndarray  # (N, W) the last of each kernel, see ``omkl.core.conformal``
        ordered: np.ndarray  # (N, W)
        n_scores: ROUNDS  # (N,) so far
        levels: np.ndarray  # (N,) a_i
        squares: np.ndarray  # (N,) sums of h^2

    predict = predict_drawn

    @staticmethod
    def init(params: Any, dictionary: Sequence[Kernel], model: RandomFeatures) -> Gmocp.State:
        N = len(dictionary)
        return Gmocp.State(
            *gf.blank(model, params.J, params.M),
            scores=np.zeros((N, WINDOW)),
            ordered=np.zeros((N, WINDOW)),
            n_scores=np.zeros(N, dtype=np.int64),
            levels=np.full(N, 1.0 - params.level),
            squares=np.zeros(N),
        )

    @staticmethod
    def select(params, state, t, rng, selection):
        eta_e = rate(params.eta_e, t)
        softmax(state.log_w, state.w)
        running_sums(state.w, state.sums)
        for j in range(params.J):
            gf.draw_kernels(state, j, params.M, eta_e, rng)
        gf.choose_node(params, state, eta_e, rng.random(), selection)
        state.share[selection.n_evaluated[0] :] = 0.0
        selection.combine[0] = selection.evaluate[draw(state.share, rng.random())]
        selection.n_combined[0] = 1

    @staticmethod
    def half_width(params, state, t, selection):
        i = selection.combine[0]
        n = min(state.n_scores[i], state.scores.shape[1])
        if n == 0:
            return np.nan
        return quantile(state.ordered[i], n, state.levels[i])

    @staticmethod
    def update(params, state, t, y, selection):
        eta, eps, alpha = rate(params.eta, t), rate(params.eps, t), 1.0 - params.level
        for m in range(selection.n_evaluated[0]):
            i = selection.evaluate[m]
            error, q = selection.f[i] - y, state.q[i]
            n = min(state.n_scores[i], state.scores.shape[1])
            place = keep(state.scores[i], state.ordered[i], state.n_scores[i], abs(error))
            state.n_scores[i] += 1
            off = level_of(place, n) - state.levels[i]
            state.log_w[i] -= eps * pinball(alpha, off) / q
            h = (missed(off) - alpha) / q
            state.squares[i] += h * h
            state.levels[i] -= params.step * h / math.sqrt(state.squares[i])
            step = eta / q
            shrink = 1.0 - 2.0 * step * params.lam
            gradient_step(state.model, i, m, selection.scratch, 2.0 * step * error, shrink)
