"""SFG-MKL-R: the graph of SFG-MKL, refined in every round.

Paper    P. M. Ghari, Y. Shen, "Graph-Aided Online Multi-Kernel Learning", first version
         (arXiv v1), algorithms 1 and 3. The JMLR version turned the graph round: see
         OMKL-SFG-R.
Task     regression; selected kernels (M predict, more learn where the refinement adds edges).
Round    0. As SFG-MKL: the divergence Delta and the graph of similar kernels.
         1. D'_t: the nodes whose u_i / U is at least the ``rank``-th largest one; that is
            (22) with beta = (1 - xi) u_[rank] / U + xi / N (section 5: rank 10).
         2. Each i outside D'_t gets an edge from d_i, the node of D'_t with the smallest
            Delta(i, .), so that D'_t dominates the refined graph and q_i >= beta.
         3. p_i = (1 - xi) u_i / U + xi / |D'_t| [i in D'_t].
         4. Draw the node I_t from p; after ``explore`` rounds take argmax u instead.
         5. Predict with its M out-neighbours in the graph of step 0, (25), as SFG-MKL does.
         6. Learn as SFG-MKL with its out-neighbours S_t in the refined graph, where q_i is
            the sum of p over the in-neighbours of i.
Symbols  eta, xi, lam, M, explore   as in SFG-MKL
         rank             1..N: how many of the best nodes dominate (more where nodes tie)
         only_undominated true: an edge is added only where D'_t has none to i yet
Cost     as OMKL-SFG-R (``sfg_r``).
Bound    theorem 4: O(sqrt(T)) with eta and xi of order 1/sqrt(T), beta <= 1/N; losses in
         [0, 1], ||x|| <= 1. In expectation: its proof takes conditional expectations for sure
         values.
Differs  from the paper: none. The box appends (d_i, i) for every i outside D'_t, the text
         above it only where no edge from D'_t reaches i; the box is the default,
         ``only_undominated`` the text. Other readings as in SFG-MKL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from omkl.algorithms.sfg import choose_node
from omkl.algorithms.sfg_mkl import similar
from omkl.algorithms.sfg_r import State, choose_neighbours, on_graph, predict, update
from omkl.core.feedback_graph import refine
from omkl.core.graph_sampling import refresh
from omkl.core.hyperparameters import COUNT_OR_ZERO, NON_NEGATIVE, RATE, UP_TO_N, Schedule, rate
from omkl.core.kernel_distance import ranked
from omkl.core.kernels import Kernel
from omkl.core.protocol import register
from omkl.core.representations.random_features import RANDOM_FEATURES, RandomFeatures


class Params(NamedTuple):
    eta: Schedule
    xi: RATE
    lam: NON_NEGATIVE
    M: UP_TO_N
    explore: COUNT_OR_ZERO
    rank: UP_TO_N
    only_undominated: bool


def init(params: Params, dictionary: Sequence[Kernel], model: RandomFeatures) -> State:
    d = model.omega.shape[1]
    edges = similar(tuple(dictionary), d, params.M)
    return on_graph(edges, ranked(tuple(dictionary), d), params.rank, model)


def select(params, state, t, rng, selection):
    xi = rate(params.xi, t)
    refine(params, state, -1.0)
    refresh(state.edges, state.trees, state.in_mass, state.log_u, state.node[0])
    choose_node(params, state, t, xi, rng)
    choose_neighbours(state, xi, selection)


algorithm = register(__name__, representation=RANDOM_FEATURES, theorem="arXiv v1, theorem 4")
