"""OMKL-GF: a bipartite feedback graph, redrawn from the weights, selects the kernels.

Paper    P. M. Ghari, Y. Shen, "Graph-Aided Online Multi-Kernel Learning", JMLR,
         algorithms 1, 2 and 3; first in ICML 2020.
Task     regression; selected kernels (at most M a round).
Round    1. While t <= freeze, draw the graph (algorithm 2): each of J selective nodes draws
            M times, with replacement, from
            pi_ij = (1 - eta_e^j) w_i / sum(w) + eta_e^j / N   (j = 1..J; eta_e^j is a power).
         2. u_j is the sum of w over the kernels of node j, and U the sum of the u_j. Draw a node
            from p_j = (1 - eta_e) u_j / U + eta_e / J.
         3. Evaluate that node's kernels S_t; predict their mean weighted by w.
         4. q_i = sum_j p_j (1 - (1 - pi_ij)^M), pi_ij as last computed; for i in S_t
            theta_i <- theta_i - eta grad L_i / q_i,  w_i <- w_i exp(-eta L_i / q_i),
            L_i(theta) = (theta'z_i - y)^2 + lam ||theta||^2.
Symbols  eta     step size of theta and of the weights, > 0, a schedule
         eta_e   exploration, in (0, 1), a schedule
         lam     regularisation, >= 0
         M       draws of a selective node, 1..N: the largest number of kernels per round
         J       selective nodes, >= 1
         freeze  rounds after which the graph is no longer redrawn, >= 1 (section 5: 300)
Cost     O(M D d + J M) time per round (J M N more while the graph is drawn);
         O(N D d + J N) memory.
Bound    theorem 2: O(sqrt(N ln N) T^(3/4)) with eta of order sqrt(ln N / N) T^(-3/4),
         eta_e of order N^(1/6) T^(-1/4), J of order N^(1/3); losses in [0, 1], ||x|| <= 1.
         Unproved for M > 1, where equation (88) of its proof does not hold: ``docs/errata.md``.
Reading  Algorithm 2 computes the pi_ij, and stops after round ``freeze``. After that round the
         pi_ij in q stay constant, while the p_j still follow the weights. (One could also read q as
         the probability given the frozen graph. With this q learning is slower: the MSE x 10^-3 on
         airfoil is 29.8 in place of 25.6.) Equation (21) treats p as independent of the drawn
         graph, which is true only for J = 1. For J > 1 the factors 1 / q are biased: by a few
         percent upwards for kernels of large weight, and downwards for kernels of small weight.
Differs  from the paper: none. The released code never draws kernel 0, and floors q at 0.05. In the
         loss for the weights it computes the penalty from theta after the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from omkl.algorithms.parts import learn_evaluated
from omkl.core.compiler import inlined
from omkl.core.graph_sampling import clear
from omkl.core.hyperparameters import (
    COUNT,
    EVALUATED_WITH,
    KERNELS,
    NODES,
    NON_NEGATIVE,
    RATE,
    UP_TO_N,
    Range,
    Schedule,
    rate,
)
from omkl.core.protocol import choose, register, register_as
from omkl.core.representations.random_features import RANDOM_FEATURES, RandomFeatures
from omkl.core.weights import (
    draw,
    largest_among,
    mean_by_shares,
    shares,
    shares_of_all,
    weights_among,
)

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Params(NamedTuple):
    eta: Schedule
    eta_e: RATE
    lam: NON_NEGATIVE
    M: UP_TO_N
    J: NODES
    freeze: COUNT


class State(NamedTuple):
    model: RandomFeatures
    log_w: np.ndarray  # (N,)
    kernels: KERNELS  # (J, M) the graph: kernels of each selective node
    n_kernels: Annotated[np.ndarray, Range(0, "kernels.1")]  # (J,) how many of them
    drawn: np.ndarray  # (J, N) probability that node j draws kernel i at least once
    w: np.ndarray  # (N,) weights from which the graph was last drawn, summing to 1
    u: np.ndarray  # (J, M) weights of the nodes' kernels in this round, up to a factor
    p: np.ndarray  # (J,)
    q: EVALUATED_WITH  # (N,)
    share: np.ndarray  # (N,) weights of the combined kernels, in their order, summing to 1


def init(params: Any, dictionary: Sequence[Kernel], model: RandomFeatures) -> State:
    """Return the state before the first round: equal weights, and no graph.

    Parameters
    ----------
    params
        Params with ``J`` selective nodes and ``M`` draws of each.
    dictionary
        N kernels.
    model
        Random features.
    """
    N, J, M = len(dictionary), params.J, params.M
    return State(
        model,
        log_w=np.zeros(N),
        kernels=np.zeros((J, M), dtype=np.int64),
        n_kernels=np.zeros(J, dtype=np.int64),
        drawn=np.zeros((J, N)),
        w=np.zeros(N),
        u=np.zeros((J, M)),
        p=np.zeros(J),
        q=np.full(N, np.nan),
        share=np.zeros(N),
    )


@inlined
def draw_graph(params, state, eta_e, rng):
    """Draw the graph by algorithm 2.

    Also write 1 - (1 - pi_ij)^M to ``state.drawn``. This is the probability that node j draws
    kernel i at least once. Equation (21) computes q from it.

    Parameters
    ----------
    params, state
        ``Params`` and ``State``, which is updated.
    eta_e
        Exploration in this round, in (0, 1).
    rng
        ``Uniform``.
    """
    shares_of_all(state.log_w, state.w)
    explore = 1.0
    for j in range(params.J):
        explore *= eta_e
        draw_kernels(state, j, params.M, explore, rng)


@inlined
def draw_kernels(state, j, M, explore, rng):
    """Draw the kernels of node j from equation (20), which mixes weights and equal probabilities.

    Parameters
    ----------
    state
        State, updated in place.
    j
        Node.
    M
        Number of draws, with replacement.
    explore
        Share of the equal probabilities in the mixture, in (0, 1).
    rng
        ``Uniform``.
    """
    w, kernels = state.w, state.kernels
    N = w.shape[0]
    n = 0
    for _ in range(M):
        # Draw from the mixture (20) in two steps: first its part, then a kernel from this part.
        explores, v = rng.random() < explore, rng.random()
        i = min(int(v * N), N - 1) if explores else draw(w, v)
        n = add_kernel(kernels[j], n, i)
    state.n_kernels[j] = n
    keep_probabilities(state, j, M, explore)


@inlined
def add_kernel(kernels, n, i):
    """Append a kernel to a list unless it is listed already, and return the length of the list.

    Parameters
    ----------
    kernels, n
        Kernels (M,), of which the first n are listed.
    i
        Kernel.
    """
    for m in range(n):
        if kernels[m] == i:
            return n
    kernels[n] = i
    return n + 1


@inlined
def keep_probabilities(state, j, M, explore):
    """Write the probabilities 1 - (1 - pi_ij)^M of node j to ``state.drawn[j]``.

    The pi_ij are those of equation (20).

    Parameters
    ----------
    state
        State, updated in place.
    j, M, explore
        As in ``draw_kernels``.
    """
    w = state.w
    N = w.shape[0]
    # 1 - (1 - pi)^M is computed as pi (1 + (1 - pi) + ..), which is exact for small pi.
    drawn = state.drawn[j]
    drawn[:] = 1.0
    for _ in range(M - 1):
        for i in range(N):
            drawn[i] = drawn[i] * (1.0 - ((1.0 - explore) * w[i] + explore / N)) + 1.0
    for i in range(N):
        drawn[i] *= (1.0 - explore) * w[i] + explore / N


@inlined
def choose_node(params, state, eta_e, v, selection):
    """Draw a selective node from p (equation 19). Select its kernels to be evaluated and combined.

    Parameters
    ----------
    params, state
        ``Params`` and ``State``, which is updated.
    eta_e
        Exploration in this round, in (0, 1).
    v
        Uniform number in [0, 1).
    selection
        Output.
    """
    kernels, n_kernels, p, q = state.kernels, state.n_kernels, state.p, state.q
    log_w = state.log_w
    top = -np.inf
    for j in range(params.J):
        top = largest_among(log_w, kernels[j], n_kernels[j], top)
    U = 0.0
    for j in range(params.J):
        u = state.u[j]
        weights_among(log_w, kernels[j], n_kernels[j], top, u)
        sum_u = 0.0
        for m in range(n_kernels[j]):
            sum_u += u[m]
        p[j] = sum_u
        U += sum_u
    for j in range(params.J):
        p[j] = (1.0 - eta_e) * (p[j] / U) + eta_e / params.J
    node = draw(p, v)
    clear(state.q, selection.evaluate, selection.n_evaluated[0])
    choose(selection, kernels[node], n_kernels[node])
    drawn, evaluate = state.drawn, selection.evaluate
    for m in range(selection.n_evaluated[0]):
        i = evaluate[m]
        q_i = 0.0
        for j in range(params.J):
            q_i += p[j] * drawn[j, i]
        q[i] = q_i
    shares(log_w, selection.combine, selection.n_combined[0], state.share)


def select(params, state, t, rng, selection):
    eta_e = rate(params.eta_e, t)
    if t <= params.freeze:
        draw_graph(params, state, eta_e, rng)
    choose_node(params, state, eta_e, rng.random(), selection)


def predict(params, state, t, selection):
    n = selection.n_combined[0]
    return mean_by_shares(state.share, selection.f, selection.combine, n), True


update = learn_evaluated

EXPECTED_FAILURES = {
    "importance_weights": "p follows the drawn graph, so the paper's q is exact for J = 1 alone",
}

algorithm = register(__name__, representation=RANDOM_FEATURES)


@inlined
def period(t):
    """Return the length of the period of round t: 2^m for 2^m <= t < 2^(m + 1)."""
    length = 1
    while 2 * length <= t:
        length *= 2
    return length


DOUBLING_FAILURES = EXPECTED_FAILURES | {
    "learns": "after a restart the steps of (24) with constant 1 need a longer period",
    "one_kernel": "a restart forgets what online gradient descent has learned",
    "honesty": "a restart sets theta of every kernel to 0, those that were not evaluated too",
}


@register_as("gf_doubling", representation=RANDOM_FEATURES, expected_failures=DOUBLING_FAILURES)
class Doubling:
    """OMKL-GF, doubling: step sizes for an unknown horizon, with restarts in rounds 2^m.

    Paper    P. M. Ghari, Y. Shen, "Graph-Aided Online Multi-Kernel Learning", JMLR, remark below
             equation (24): a doubling trick, cited from N. Cesa-Bianchi, G. Lugosi, "Prediction,
             Learning, and Games", 2006, section 2.3.
    Task     regression; selected kernels (at most M a round).
    Round    As ``gf``, with the graph drawn in every round. Period m has the rounds 2^m ..
             2^(m+1) - 1 and the step sizes of equation (24) for T = 2^m. After its last round
             theta_i = 0 and w_i = 1.
    Symbols  eta    step size of theta and of the weights, > 0, a schedule in the length t of the
                    period
             eta_e  exploration, in (0, 1), a schedule in the length t of the period
             lam    regularisation, >= 0
             M      draws of a selective node, 1..N: the largest number of kernels per round
             J      selective nodes, >= 1
    Cost     as ``gf`` while its graph is drawn.
    Bound    The bounds of theorem 2 for T = 1, 2, 4, .. sum to at most 1 / (1 - 2^(-3/4)) = 2.47
             times O(sqrt(N ln N) T^(3/4)). Unproved for M > 1, as theorem 2.
    Reading  The paper only names the trick; the steps here are those of the book. theta restarts
             too, since the term ||theta*||^2 / (2 eta) of the bound assumes theta = 0 at the start.
             Equation (24) gives orders of magnitude: the constants are settings.
    Differs  none.
    """

    class Params(NamedTuple):
        eta: Schedule
        eta_e: RATE
        lam: NON_NEGATIVE
        M: UP_TO_N
        J: NODES

    State, init, predict = State, init, predict

    @staticmethod
    def select(params, state, t, rng, selection):
        eta_e = rate(params.eta_e, period(t))
        draw_graph(params, state, eta_e, rng)
        choose_node(params, state, eta_e, rng.random(), selection)

    @staticmethod
    def update(params, state, t, y, selection):
        learn_evaluated(params, state, period(t), y, selection)
        if period(t + 1) > t:
            state.log_w[:] = 0.0
            state.model.theta[:] = 0.0
            state.model.norm2[:] = 0.0
