"""OMKL-SFG-R: the graph of OMKL-SFG, refined in every round.

Paper    P. M. Ghari, Y. Shen, "Graph-Aided Online Multi-Kernel Learning", JMLR,
         algorithms 4 and 6.
Task     regression; selected kernels (M predict, more learn where the refinement adds edges).
Round    0. As OMKL-SFG: the divergence Delta and the graph.
         1. DS'_t: the nodes whose u_i / U is at least the ``rank``-th largest one; that is
            (44) with beta = (1 - xi) u_[rank] / U + xi / N (section 5: rank 10).
         2. Each i outside DS'_t gets an edge from d_i, the node of DS'_t with the largest
            Delta(i, .), so that DS'_t dominates the refined graph and q_i >= beta.
         3. p_i = (1 - xi) u_i / U + xi / |DS'_t| [i in DS'_t].
         4. Draw the node I_t from p; after ``explore`` rounds take argmax u instead.
         5. Predict with its M out-neighbours in the graph of step 0, (47), as OMKL-SFG does.
         6. Learn as OMKL-SFG with its out-neighbours S_t in the refined graph, where q_i is
            the sum of p over the in-neighbours of i.
Symbols  eta, xi, lam, M, explore, reading, divergence   as in OMKL-SFG
         rank             1..N: how many of the best nodes dominate (more where nodes tie)
         only_undominated true: an edge is added only where DS'_t has none to i yet
Cost     O(M D d + M log N) time a round, and O(N) for every node that enters or leaves
         DS'_t, at worst O(N D d + N^2); O(N D d + N M) memory, and N^2 up to N = 1024.
Bound    theorem 6: O(sqrt(T N ln N)) with eta of order sqrt(ln N / (N T)), xi of order
         1 / sqrt(T), beta <= 1/N; losses in [0, 1], ||x|| <= 1. In expectation: its proof
         takes conditional expectations for sure values.
Reading  The box appends (d_i, i) for every i outside DS'_t, the text above it only where no
         edge from DS'_t reaches i; the box is the default, ``only_undominated`` the text. With
         another ``divergence`` d_i is the farthest by that one. Other readings as in OMKL-SFG.
Differs  from the paper: none. The sets of (47) have no index t, those of the refined graph
         have one; so S_t, whose losses are observed with probability q_i, has more kernels than
         predict. The released code freezes the graph after round 300 and goes on drawing, has the
         graph, the floors and the shift of the released OMKL-SFG, and throws a draw away.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from omkl.algorithms.sfg import (
    DIVERGENCES,
    READINGS,
    choose_node,
    graph,
    predict,
    rows_before,
    update,
)
from omkl.core.compiler import inlined
from omkl.core.feedback_graph import CANDIDATES, N_REFINED, PARTNER, REFINED, refine
from omkl.core.graph_sampling import (
    OUT,
    clear,
    cover_of,
    empty_in_mass,
    in_probabilities,
    probability,
    refresh,
    trees_of,
)
from omkl.core.hyperparameters import (
    COUNT_OR_ZERO,
    EDGES,
    EVALUATED_WITH,
    KERNELS,
    NODE_WEIGHTS,
    NON_NEGATIVE,
    RATE,
    TREES,
    UP_TO_N,
    Range,
    Schedule,
    rate,
)
from omkl.core.kernel_distance import Matrix
from omkl.core.kernels import Kernel
from omkl.core.protocol import choose, register
from omkl.core.representations.random_features import RANDOM_FEATURES, RandomFeatures
from omkl.core.weights import shares


class Params(NamedTuple):
    eta: Schedule
    xi: RATE
    lam: NON_NEGATIVE
    M: UP_TO_N
    explore: COUNT_OR_ZERO
    rank: UP_TO_N
    only_undominated: bool
    reading: Annotated[int, READINGS] = READINGS.index("farthest")
    divergence: Annotated[int, DIVERGENCES] = DIVERGENCES.index("integral")


class State(NamedTuple):
    model: RandomFeatures
    log_w: np.ndarray  # (N,) kernels
    log_u: NODE_WEIGHTS  # (N,)
    divergence: Any  # Delta by its order: Matrix or what it is computed from
    edges: EDGES  # (3, N, M) the unrefined graph; these four as in omkl.core.graph_sampling
    trees: TREES  # (3, 2 P) sums over u and over DS'_t
    cover: Annotated[np.ndarray, Range(0, "N")]  # (2, N) DS'_t
    in_mass: np.ndarray  # (2 N M,) sums over in-neighbours
    links: Annotated[np.ndarray, Range(-1, "N")]  # (8, N) see omkl.core.feedback_graph
    near: KERNELS  # (N, K) candidates for d_i, the best first
    distance: np.ndarray  # (N, K) their divergence from i, times sign
    scratch: np.ndarray  # (2, N) for the divergences of one node
    best: np.ndarray  # (rank,) the last one is the smallest log u of DS'_t
    w: np.ndarray  # (N,) weights of the combined kernels, in their order, summing to 1
    q: EVALUATED_WITH  # (N,)
    node: KERNELS  # (1,)


def init(
    params: Params, dictionary: Sequence[Kernel], model: RandomFeatures, before: np.ndarray | None
) -> State:
    edges, divergence = graph(params, dictionary, model.omega.shape[1], before)
    return on_graph(edges, divergence, params.rank, model)


def on_graph(edges: np.ndarray, divergence: Any, rank: int, model: RandomFeatures) -> State:
    """The state before the first round on a graph (3, N, M), to be refined by ``divergence``."""
    N = edges.shape[1]
    links = np.zeros((8, N), dtype=np.int64)
    K = 1 if isinstance(divergence, Matrix) else CANDIDATES  # a look into a matrix is cheap
    links[[PARTNER, REFINED]] = -1
    return State(
        model,
        log_w=np.zeros(N),
        log_u=np.zeros(N),
        divergence=divergence,
        edges=edges,
        trees=trees_of(edges),
        cover=cover_of(edges),
        in_mass=empty_in_mass(edges),
        links=links,
        near=np.zeros((N, K), dtype=np.int64),
        distance=np.zeros((N, K)),
        scratch=np.zeros((2, N)),
        best=np.zeros(rank),
        w=np.zeros(N),
        q=np.full(N, np.nan),
        node=np.zeros(1, dtype=np.int64),
    )


@inlined
def choose_neighbours(state, xi, selection):
    """Combine the out-neighbours of the node; evaluate those in the refined graph, with their q.

    Those that are combined come first.
    """
    clear(state.q, selection.evaluate, selection.n_evaluated[0])
    edges, node = state.edges, state.node[0]
    choose(selection, edges[OUT, node], edges.shape[2])
    shares(state.log_w, selection.combine, selection.n_combined[0], state.w)
    evaluate, n = selection.evaluate, selection.n_evaluated
    n[0] = add_refined(state.links, node, n[0], evaluate)
    trees, links, q = state.trees, state.links, state.q
    in_probabilities(edges, trees, state.in_mass, state.cover, evaluate, n[0], xi, q)
    add_probabilities(trees, links, evaluate, n[0], xi, q)


@inlined
def add_refined(links, node, n, evaluate):
    """The ends of the added edges of a node after the first ``n``; how many there are then."""
    last = n + links[N_REFINED, node]
    i = 0
    while n < last:
        evaluate[n] = i
        n += links[REFINED, i] == node
        i += 1
    return n


@inlined
def add_probabilities(trees, links, evaluate, n, xi, q):
    """p of the nodes whose edges were added."""
    for m in range(n):
        i = evaluate[m]
        if links[REFINED, i] >= 0:
            q[i] += probability(trees, links[REFINED, i], xi)


def select(params, state, t, rng, selection):
    xi = rate(params.xi, t)
    refine(params, state, 1.0)
    refresh(state.edges, state.trees, state.in_mass, state.log_u, state.node[0])
    choose_node(params, state, t, xi, rng)
    choose_neighbours(state, xi, selection)


algorithm = register(
    __name__, representation=RANDOM_FEATURES, rows_before=rows_before, theorem="theorem 6"
)
