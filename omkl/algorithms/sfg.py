"""OMKL-SFG and its variants: a feedback graph over the kernels, built before the first round.

P. M. Ghari, Y. Shen, "Graph-Aided Online Multi-Kernel Learning". The JMLR version connects
dissimilar kernels (``sfg``, ``sfg_r``), its first version similar ones (``sfg_mkl``,
``sfg_mkl_r``). The ``_r`` variants refine the graph in every round.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from omkl.algorithms.parts import learn_evaluated
from omkl.core.compiler import inlined
from omkl.core.feedback_graph import (
    N_REFINED,
    PARTNER,
    REFINED,
    dissimilarity_graph,
    dominating_set,
    refine,
    similarity_graph,
)
from omkl.core.graph_sampling import (
    OUT,
    best_node,
    clear,
    cover_of,
    draw_node,
    edges_of,
    empty_in_mass,
    in_probabilities,
    probability,
    refresh,
    toggle_member,
    trees_of,
)
from omkl.core.hyperparameters import (
    COUNT_OR_ZERO,
    DERIVED,
    EVALUATED_WITH,
    NODE_WEIGHTS,
    NON_NEGATIVE,
    RATE,
    TREES,
    UP_TO_N,
    Choice,
    Schedule,
    rate,
)
from omkl.core.kernel_distance import Matrix, overlaps, ranked
from omkl.core.kernels import Kernel
from omkl.core.protocol import choose, register_as
from omkl.core.representations.random_features import RANDOM_FEATURES, RandomFeatures
from omkl.core.weights import mean_by_shares, shares

READINGS = Choice("farthest", "nearest")


class GraphState(NamedTuple):
    model: RandomFeatures
    log_w: np.ndarray  # (N,) kernels
    log_u: NODE_WEIGHTS  # (N,)
    edges: DERIVED  # (3, N, M) the graph; these five as in omkl.core.graph_sampling
    trees: TREES  # (3, 2 P) sums over u and over DS
    cover: DERIVED  # (2, N) DS
    in_mass: DERIVED  # (2 N M,) sums over in-neighbours
    scale: np.ndarray  # (1,) of the sums over u
    w: np.ndarray  # (N,) weights of the combined kernels, in their order, summing to 1
    q: EVALUATED_WITH  # (N,)
    node: DERIVED  # (1,) int64


@functools.lru_cache(maxsize=4)
def graph(dictionary: tuple[Kernel, ...], d: int, M: int, reading: int) -> np.ndarray:
    """Return the edges (3, N, M) of the graph of algorithm 4, cached for all seeds.

    Parameters
    ----------
    dictionary
        N kernels.
    d
        Number of inputs.
    M
        Out-neighbours of a node, 1..N.
    reading
        Index in ``READINGS``.
    """
    join = similarity_graph if READINGS[reading] == "nearest" else dissimilarity_graph
    return edges_of(join(overlaps(dictionary, d), M))


def on_graph(edges: np.ndarray, model: RandomFeatures) -> GraphState:
    """Return the state before the first round, with a graph (3, N, M) and its dominating set DS."""
    N = edges.shape[1]
    trees, cover = trees_of(edges), cover_of(edges)
    for i in dominating_set(edges[OUT]):
        toggle_member(edges, trees, cover, i)
    return GraphState(
        model,
        log_w=np.zeros(N),
        log_u=np.zeros(N),
        edges=edges,
        trees=trees,
        cover=cover,
        in_mass=empty_in_mass(edges),
        scale=np.zeros(1),
        w=np.zeros(N),
        q=np.full(N, np.nan),
        node=np.zeros(1, dtype=np.int64),
    )


@inlined
def choose_node(params, state, t, xi, rng):
    """Draw the node I_t from p. After ``explore`` rounds, take the node with the largest u instead.

    Parameters
    ----------
    params, state
        Params with ``explore``, and state, whose ``node`` is written.
    t
        Round, >= 1.
    xi
        Exploration in this round, in (0, 1).
    rng
        ``Uniform``.
    """
    if t <= params.explore:
        state.node[0] = draw_node(state.trees, xi, rng.random())
    else:
        state.node[0] = best_node(state.trees)


@inlined
def choose_neighbours(state, xi, selection):
    """Select the out-neighbours of ``state.node`` to be evaluated and combined.

    Write their probabilities of evaluation to ``state.q``, by equation (36) of the JMLR paper.

    Parameters
    ----------
    state, selection
        State and round, updated in place.
    xi
        Exploration.
    """
    clear(state.q, selection.evaluate, selection.n_evaluated[0])
    edges = state.edges
    choose(selection, edges[OUT, state.node[0]], edges.shape[2])
    shares(state.log_w, selection.combine, selection.n_combined[0], state.w)
    evaluate, n = selection.evaluate, selection.n_evaluated[0]
    trees, in_mass, cover = state.trees, state.in_mass, state.cover
    in_probabilities(edges, trees, in_mass, cover, evaluate, n, xi, state.q)


def select_node(params, state, t, rng, selection):
    xi = rate(params.xi, t)
    refresh(state.edges, state.trees, state.in_mass, state.scale, state.log_u, state.node[0])
    choose_node(params, state, t, xi, rng)
    choose_neighbours(state, xi, selection)


def predict(params, state, t, selection):
    return mean_by_shares(state.w, selection.f, selection.combine, selection.n_combined[0]), True


def update(params, state, t, y, selection):
    eta = rate(params.eta, t)
    node = state.node[0]
    error = mean_by_shares(state.w, selection.f, selection.combine, selection.n_combined[0]) - y
    state.log_u[node] -= eta / probability(state.trees, node, rate(params.xi, t)) * error * error
    learn_evaluated(params, state, t, y, selection)


@register_as("sfg", representation=RANDOM_FEATURES)
class Sfg:
    """OMKL-SFG: a fixed feedback graph of mutually dissimilar kernels.

    Paper    P. M. Ghari, Y. Shen, "Graph-Aided Online Multi-Kernel Learning", JMLR,
             algorithms 4 and 5.
    Task     regression; selected kernels (exactly M a round).
    Round    0. Before the first round: Delta(i, j), the integral over R^d of
                (kappa_i - kappa_j)^2; a graph whose node i points to itself and to M - 1
                kernels that are dissimilar to each other (``dissimilarity_graph``); a
                dominating set DS of it by greedy set cover.
             1. p_i = (1 - xi) u_i / U + xi / |DS| [i in DS], with u_i the weight of node i (1 at
                first) and U the sum of the u_i.
             2. Draw the node I_t from p; after ``explore`` rounds take argmax u instead.
             3. Evaluate its out-neighbours S_t; predict their mean weighted by w.
             4. q_i = sum of p_j over the in-neighbours j of i; for i in S_t
                theta_i <- theta_i - eta grad L_i / q_i,  w_i <- w_i exp(-eta L_i / q_i),
                L_i(theta) = (theta'z_i - y)^2 + lam ||theta||^2;
                for the node, u <- u exp(-eta (y_hat - y)^2 / p).
    Symbols  eta      step size of theta, w and u, > 0, a schedule
             xi       exploration, in (0, 1), a schedule
             lam      regularisation, >= 0
             M        out-neighbours of a node, itself included, 1..N
             explore  rounds in which the node is drawn, >= 0 (section 5: 300)
             reading  construction of the graph, farthest or nearest (see Reading)
    Cost     O(M D d + M log N) time per round; O(N D d + N M) memory; O(N^2 M) time to build the
             graph, once for all seeds.
    Bound    theorem 5: O(sqrt(N ln N) T^(2/3)) with eta of order sqrt(ln N / N) T^(-2/3),
             xi of order T^(-1/3); losses in [0, 1], ||x|| <= 1.
    Reading  Algorithm 4 appends (i, j) while the mean divergence of j from the out-neighbours so
             far is at least gamma_i, the largest threshold with which i has M out-neighbours. It
             does not state the order in which it tries the kernels j.
             farthest  (the default) the kernel with the largest mean divergence joins next. On
                       airfoil M = 5, 10, 20 give an MSE of 48.9, 39.9, 33.3 x 10^-3.
             nearest   the M kernels nearest to i, as in the first version of the paper.
             Delta is the integral of equation (27). For inputs in R^d every node gets nearly the
             same out-neighbours: the widest Laplacian kernels and the narrowest kernels. After
             round 300 the paper's text only changes the choice of the node, so p and q remain those
             of equations (33) and (36). The combination has no theta, so its loss in equation (37)
             is the squared error.
    Differs  from the paper: none. The released code always uses node 0 after round 300, shifts
             the draw by one, floors q at 0.1 and p at 0.2, and builds another divergence and
             another dominating set.
    """

    class Params(NamedTuple):
        eta: Schedule
        xi: RATE
        lam: NON_NEGATIVE
        M: UP_TO_N
        explore: COUNT_OR_ZERO
        reading: Annotated[int, READINGS] = READINGS.index("farthest")

    State, select, predict, update = GraphState, select_node, predict, update

    @staticmethod
    def init(params: Any, dictionary: Sequence[Kernel], model: RandomFeatures) -> GraphState:
        d = model.omega.shape[1]
        return on_graph(graph(tuple(dictionary), d, params.M, params.reading), model)


@functools.lru_cache(maxsize=4)
def similar(dictionary: tuple[Kernel, ...], d: int, M: int) -> np.ndarray:
    """Return the edges (3, N, M) of the graph of algorithm 1, cached for all seeds.

    Parameters
    ----------
    dictionary
        N kernels.
    d
        Number of inputs.
    M
        Out-neighbours of a node, 1..N.
    """
    return edges_of(similarity_graph(overlaps(dictionary, d), M))


@register_as("sfg_mkl", representation=RANDOM_FEATURES)
class SfgMkl:
    """SFG-MKL: a fixed feedback graph of similar kernels.

    Paper    P. M. Ghari, Y. Shen, "Graph-Aided Online Multi-Kernel Learning", first version
             (arXiv v1), algorithms 1 and 2. The JMLR version connects dissimilar kernels: see
             OMKL-SFG.
    Task     regression; selected kernels (exactly M a round).
    Round    0. Before the first round: Delta(i, j), the integral over R^d of
                (kappa_i - kappa_j)^2; a graph whose node i points to the M kernels with the
                smallest Delta(i, .), itself the first (``similarity_graph``); a
                dominating set D of it by greedy set cover.
             1. p_i = (1 - xi) u_i / U + xi / |D| [i in D], with u_i the weight of node i (1 at
                first) and U the sum of the u_i.
             2. Draw the node I_t from p; after ``explore`` rounds take argmax u instead.
             3. Evaluate its out-neighbours S_t; predict their mean weighted by w.
             4. q_i = sum of p_j over the in-neighbours j of i; for i in S_t
                theta_i <- theta_i - eta grad L_i / q_i,  w_i <- w_i exp(-eta L_i / q_i),
                L_i(theta) = (theta'z_i - y)^2 + lam ||theta||^2;
                for the node, u <- u exp(-eta (y_hat - y)^2 / p).
    Symbols  eta      step size of theta, w and u, > 0, a schedule
             xi       exploration, in (0, 1), a schedule
             lam      regularisation, >= 0
             M        out-neighbours of a node, itself included, 1..N
             explore  rounds in which the node is drawn, >= 0 (section 5: 300)
    Cost     O(M D d + M log N) time per round; O(N D d + N M) memory; O(N^2 log N) time to build
             the graph, once for all seeds.
    Bound    theorem 3: O(T^(3/4)) with eta of order 1/sqrt(T), xi of order T^(-1/4);
             losses in [0, 1], ||x|| <= 1. (The text prints T^(1/4) for xi.)
    Reading  |N_out| in equation (11) counts the self-loop. After round 300 the paper's text only
             changes the choice of the node, so p and q remain those of equations (12) and (15). The
             combination has no theta, so its loss in equation (16) is the squared error.
    Differs  from the paper: none. No code of this version was released.
    """

    class Params(NamedTuple):
        eta: Schedule
        xi: RATE
        lam: NON_NEGATIVE
        M: UP_TO_N
        explore: COUNT_OR_ZERO

    State, select, predict, update = GraphState, select_node, predict, update

    @staticmethod
    def init(params: Any, dictionary: Sequence[Kernel], model: RandomFeatures) -> GraphState:
        return on_graph(similar(tuple(dictionary), model.omega.shape[1], params.M), model)


class RefinedState(NamedTuple):
    model: RandomFeatures
    log_w: np.ndarray  # (N,) kernels
    log_u: NODE_WEIGHTS  # (N,)
    divergence: DERIVED  # ranks of Delta (``kernel_distance.Matrix``)
    edges: DERIVED  # (3, N, M) the unrefined graph; these five as in omkl.core.graph_sampling
    trees: TREES  # (3, 2 P) sums over u and over DS'_t
    cover: DERIVED  # (2, N) DS'_t
    in_mass: DERIVED  # (2 N M,) sums over in-neighbours
    scale: np.ndarray  # (1,) of the sums over u
    links: DERIVED  # (6, N) see omkl.core.feedback_graph
    distance: DERIVED  # (N,) divergence of d_i from i, times sign
    best: DERIVED  # (rank,) the largest log_u, in descending order
    w: np.ndarray  # (N,) weights of the combined kernels, in their order, summing to 1
    q: EVALUATED_WITH  # (N,)
    node: DERIVED  # (1,) int64


def on_refined_graph(
    edges: np.ndarray, divergence: Matrix, rank: int, model: RandomFeatures
) -> RefinedState:
    """Return the state before the first round for a graph that is refined in every round.

    Parameters
    ----------
    edges
        Graph (3, N, M).
    divergence
        Ranks of Delta, from which ``refine`` chooses the start of each added edge.
    rank
        Number of nodes of largest u in the dominating set.
    model
        Random features.
    """
    N = edges.shape[1]
    links = np.zeros((6, N), dtype=np.int64)
    links[[PARTNER, REFINED]] = -1
    return RefinedState(
        model,
        log_w=np.zeros(N),
        log_u=np.zeros(N),
        divergence=divergence,
        edges=edges,
        trees=trees_of(edges),
        cover=cover_of(edges),
        in_mass=empty_in_mass(edges),
        scale=np.zeros(1),
        links=links,
        distance=np.zeros(N),
        best=np.zeros(rank),
        w=np.zeros(N),
        q=np.full(N, np.nan),
        node=np.zeros(1, dtype=np.int64),
    )


@inlined
def choose_refined_neighbours(state, xi, selection):
    """Select the kernels that predict and the kernels that learn, for the drawn ``state.node``.

    The out-neighbours of the node in the original graph predict: they are combined. The node's
    out-neighbours in the refined graph learn: they are evaluated. In the list of evaluated kernels,
    those that predict come first. The probabilities of evaluation are written to ``state.q``.

    Parameters
    ----------
    state, selection
        State and round, updated in place.
    xi
        Exploration.
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
    """Append to ``evaluate`` every kernel to which refinement added an edge from ``node``.

    Return the new number of listed kernels.

    Parameters
    ----------
    links
        Links (6, N) of ``feedback_graph``.
    node
        Start of the edges.
    n, evaluate
        Kernels (N,), of which the first n are listed.
    """
    last = n + links[N_REFINED, node]
    i = 0
    while n < last:
        evaluate[n] = i
        n += links[REFINED, i] == node
        i += 1
    return n


@inlined
def add_probabilities(trees, links, evaluate, n, xi, q):
    """Add p_j to q_i for every edge (j, i) that refinement added and whose kernel i is evaluated.

    Parameters
    ----------
    trees, links
        Trees (3, 2 P) of ``graph_sampling``, and links (6, N) of ``feedback_graph``.
    evaluate, n
        Kernels (N,), of which the first n are evaluated.
    xi
        Exploration in this round, in (0, 1).
    q
        Probabilities (N,), updated in place.
    """
    for m in range(n):
        i = evaluate[m]
        if links[REFINED, i] >= 0:
            q[i] += probability(trees, links[REFINED, i], xi)


@inlined
def select_refined(params, state, t, rng, selection, sign):
    """Refine the graph, then select as ``select_node`` does on the refined graph.

    Parameters
    ----------
    params, state, t, rng, selection
        As in ``omkl.core.protocol.select``.
    sign
        As in ``feedback_graph.refine``.
    """
    xi = rate(params.xi, t)
    refine(params, state, sign)
    refresh(state.edges, state.trees, state.in_mass, state.scale, state.log_u, state.node[0])
    choose_node(params, state, t, xi, rng)
    choose_refined_neighbours(state, xi, selection)


@register_as("sfg_r", representation=RANDOM_FEATURES)
class SfgR:
    """OMKL-SFG-R: the graph of OMKL-SFG, refined in every round.

    Paper    P. M. Ghari, Y. Shen, "Graph-Aided Online Multi-Kernel Learning", JMLR,
             algorithms 4 and 6.
    Task     regression; selected kernels (M predict, more learn where the refinement adds edges).
    Round    0. As OMKL-SFG: the divergence Delta and the graph.
             1. DS'_t has the nodes whose u_i / U is at least the ``rank``-th largest one. This is
                equation (44) with beta = (1 - xi) u_[rank] / U + xi / N (section 5: rank 10).
             2. Each i outside DS'_t gets an edge from d_i, the node of DS'_t with the largest
                Delta(i, .), so that DS'_t dominates the refined graph and q_i >= beta.
             3. p_i = (1 - xi) u_i / U + xi / |DS'_t| [i in DS'_t].
             4. Draw the node I_t from p; after ``explore`` rounds take argmax u instead.
             5. Predict with the M out-neighbours of I_t in the graph of step 0, equation (47), as
                OMKL-SFG does.
             6. Learn as OMKL-SFG with the out-neighbours S_t of I_t in the refined graph. q_i is
                the sum of p over the in-neighbours of i.
    Symbols  eta, xi, lam, M, explore, reading   as in OMKL-SFG
             rank             number of the best nodes that dominate, 1..N (more if nodes tie)
             only_undominated  true: add an edge to i only if no edge from DS'_t reaches i yet
    Cost     O(M D d + M log N) time per round, and O(N) for every node that enters or leaves
             DS'_t, at worst O(N D d + N^2); O(N D d + N^2) memory.
    Bound    theorem 6: O(sqrt(T N ln N)) with eta of order sqrt(ln N / (N T)), xi of order
             1 / sqrt(T), beta <= 1/N; losses in [0, 1], ||x|| <= 1. In expectation: its proof
             uses conditional expectations as if they were certain values.
    Reading  Algorithm 6 appends the edge (d_i, i) for every i outside DS'_t. The text above
             algorithm 6 appends it only if no edge from DS'_t reaches i. The default follows the
             algorithm, ``only_undominated=true`` the text. Other readings as in OMKL-SFG.
             In the paper the sets of equation (47) have no index t, but those of the refined graph
             have one. So the M kernels of the original graph predict. All kernels of S_t learn:
             their losses are observed with probability q_i.
    Differs  from the paper: none. The released code freezes the graph after round 300 but still
             draws the node. It has the graph, the floors and the shift of the released OMKL-SFG. It
             also discards one draw.
    """

    class Params(NamedTuple):
        eta: Schedule
        xi: RATE
        lam: NON_NEGATIVE
        M: UP_TO_N
        explore: COUNT_OR_ZERO
        rank: UP_TO_N
        only_undominated: bool
        reading: Annotated[int, READINGS] = READINGS.index("farthest")

    State, predict, update = RefinedState, predict, update

    @staticmethod
    def init(params: Any, dictionary: Sequence[Kernel], model: RandomFeatures) -> RefinedState:
        d = model.omega.shape[1]
        edges = graph(tuple(dictionary), d, params.M, params.reading)
        return on_refined_graph(edges, ranked(tuple(dictionary), d), params.rank, model)

    @staticmethod
    def select(params, state, t, rng, selection):
        select_refined(params, state, t, rng, selection, 1.0)


@register_as("sfg_mkl_r", representation=RANDOM_FEATURES)
class SfgMklR:
    """SFG-MKL-R: the graph of SFG-MKL, refined in every round.

    Paper    P. M. Ghari, Y. Shen, "Graph-Aided Online Multi-Kernel Learning", first version
             (arXiv v1), algorithms 1 and 3. The JMLR version connects dissimilar kernels: see
             OMKL-SFG-R.
    Task     regression; selected kernels (M predict, more learn where the refinement adds edges).
    Round    0. As SFG-MKL: the divergence Delta and the graph of similar kernels.
             1. D'_t has the nodes whose u_i / U is at least the ``rank``-th largest one. This is
                equation (22) with beta = (1 - xi) u_[rank] / U + xi / N (section 5: rank 10).
             2. Each i outside D'_t gets an edge from d_i, the node of D'_t with the smallest
                Delta(i, .), so that D'_t dominates the refined graph and q_i >= beta.
             3. p_i = (1 - xi) u_i / U + xi / |D'_t| [i in D'_t].
             4. Draw the node I_t from p; after ``explore`` rounds take argmax u instead.
             5. Predict with the M out-neighbours of I_t in the graph of step 0, equation (25), as
                SFG-MKL does.
             6. Learn as SFG-MKL with the out-neighbours S_t of I_t in the refined graph. q_i is the
                sum of p over the in-neighbours of i.
    Symbols  eta, xi, lam, M, explore   as in SFG-MKL
             rank             number of the best nodes that dominate, 1..N (more if nodes tie)
             only_undominated  true: add an edge to i only if no edge from D'_t reaches i yet
    Cost     as OMKL-SFG-R (``sfg_r``).
    Bound    theorem 4: O(sqrt(T)) with eta and xi of order 1/sqrt(T), beta <= 1/N; losses in
             [0, 1], ||x|| <= 1. In expectation: its proof uses conditional expectations as if they
             were certain values.
    Reading  Algorithm 3 appends the edge (d_i, i) for every i outside D'_t. The text above
             algorithm 3 appends it only if no edge from D'_t reaches i. The default follows the
             algorithm, ``only_undominated=true`` the text. Other readings as in SFG-MKL.
    Differs  from the paper: none.
    """

    class Params(NamedTuple):
        eta: Schedule
        xi: RATE
        lam: NON_NEGATIVE
        M: UP_TO_N
        explore: COUNT_OR_ZERO
        rank: UP_TO_N
        only_undominated: bool

    State, predict, update = RefinedState, predict, update

    @staticmethod
    def init(params: Any, dictionary: Sequence[Kernel], model: RandomFeatures) -> RefinedState:
        d = model.omega.shape[1]
        edges = similar(tuple(dictionary), d, params.M)
        return on_refined_graph(edges, ranked(tuple(dictionary), d), params.rank, model)

    @staticmethod
    def select(params, state, t, rng, selection):
        select_refined(params, state, t, rng, selection, -1.0)
