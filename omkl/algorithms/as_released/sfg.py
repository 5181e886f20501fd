"""OMKL-SFG as released with the JMLR paper: no divergence, shifted draws, node 0 in the end.

Paper    P. M. Ghari, Y. Shen, "Graph-Aided Online Multi-Kernel Learning", JMLR,
         algorithms 4 and 5, and its public code.
Task     regression; selected kernels (exactly M a round).
Round    0. A graph whose node i points to itself and to the M - 1 smallest other indices, and
            a dominating set DS of it by greedy set cover.
         1. p_i = (1 - xi) u_i / U + xi / |DS| [i in DS].
         2. Draw the node I_t from p: who draws i gets i + 1, and N - 1 for the last; after
            ``explore`` rounds take node 0.
         3. Evaluate its out-neighbours S_t; predict their mean weighted by w.
         4. q_i = sum of p_j over the in-neighbours j of i; in importance weights q_i is at
            least floor_q and p at least floor_p. For i in S_t
            theta_i <- theta_i - eta grad L_i / q_i with
            L_i(theta) = (theta'z_i - y)^2 + lam ||theta||^2, then
            w_i <- w_i exp(-eta ((f_i - y)^2 + lam ||theta_i||^2) / q_i) with the new theta_i;
            for the node, u <- u exp(-eta (y_hat - y)^2 / p).
Symbols  eta, xi, lam, M   as in OMKL-SFG
         explore  rounds in which the node is drawn, >= 0 (released: 300)
         floor_q  smallest q in an importance weight, >= 0 (released: 0.1)
         floor_p  smallest p in an importance weight, >= 0 (released: 0.2)
         replay   T: features and draws of the release (``as_released/draws``), where the seed is
                  the number of the repetition; 0: those of other learners
Cost     as ``sfg``.
Bound    none: the importance weights are not unbiased, and the node of the end is arbitrary.
Differs  from the paper (``sfg``): the function of the divergence returns nothing, so every
         divergence is NaN, and the out-neighbours are the first indices, which are the narrowest
         Gaussians where the dictionary begins with those; the loop that draws starts at
         an empty sum, so node 0 is never drawn and every index is one too large; after round
         300 node 0 is used for ever, where the text takes argmax u; q and p are floored; the
         penalty that feeds the weights is taken after theta has moved. With ``replay`` the 20
         cells of table 4 come out as printed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from omkl.algorithms.as_released import learn, released_graph, shifted
from omkl.algorithms.as_released.draws import (
    REPLAY,
    next_uniform,
    replayed_features,
    uniforms_of_sfg,
)
from omkl.algorithms.sfg import State, choose_neighbours, on_graph, predict
from omkl.core.graph_sampling import draw_node, probability, refresh
from omkl.core.hyperparameters import COUNT_OR_ZERO, NON_NEGATIVE, RATE, UP_TO_N, Schedule, rate
from omkl.core.kernels import Kernel
from omkl.core.protocol import register
from omkl.core.weights import mean_by_shares


class Params(NamedTuple):
    eta: Schedule
    xi: RATE
    lam: NON_NEGATIVE
    M: UP_TO_N
    explore: COUNT_OR_ZERO
    floor_q: NON_NEGATIVE
    floor_p: NON_NEGATIVE
    replay: REPLAY = 0


def init(params: Params, dictionary: Sequence[Kernel], model: Any) -> State:
    return on_graph(released_graph(len(dictionary), params.M)[0], model)


def select(params, state, t, rng, selection):
    xi = rate(params.xi, t)
    refresh(state.edges, state.trees, state.in_mass, state.log_u, state.node[0])
    node = 0
    if t <= params.explore:
        v = next_uniform(state.model, rng)
        node = shifted(draw_node(state.trees, xi, v), state.log_u.shape[0])
    state.node[0] = node
    choose_neighbours(state, xi, selection)


def update(params, state, t, y, selection):
    eta = rate(params.eta, t)
    node = state.node[0]
    error = mean_by_shares(state.w, selection.f, selection.combine, selection.n_combined[0]) - y
    p = probability(state.trees, node, rate(params.xi, t))
    state.log_u[node] -= eta / max(p, params.floor_p) * error * error
    for m in range(selection.n_evaluated[0]):
        i = selection.evaluate[m]
        step = eta / max(state.q[i], params.floor_q)
        learn(params, state, i, m, y, step, step, selection)


EXPECTED_FAILURES = {
    "permuted_graph": "node 0 is taken for ever after round 300, whichever kernel it is",
    "importance_weights": "q is of the draw as it should be, the draw is shifted by one",
    "complete_graph": "the penalty that feeds its weights is that of the moved theta",
}

algorithm = register(__name__, representation=replayed_features(uniforms_of_sfg))
