"""OMKL-SFG-R: the graph of OMKL-SFG, refined in every round.

Paper    P. M. Ghari, Y. Shen, "Graph-Aided Online Multi-Kernel Learning", JMLR,
         algorithms 4 and 6.
Task     regression; selected kernels (M a round, more where the refinement adds edges).
Round    0. As OMKL-SFG: the divergence Delta and the graph.
         1. DS'_t: the nodes whose u_i / U is at least the ``rank``-th largest one; that is
            (44) with beta = (1 - xi) u_[rank] / U + xi / N (section 5: rank 10).
         2. Each i outside DS'_t gets an edge from d_i, the node of DS'_t with the largest
            Delta(i, .), so that DS'_t dominates the refined graph and q_i >= beta.
         3. p_i = (1 - xi) u_i / U + xi / |DS'_t| [i in DS'_t].
         4. Draw the node I_t from p; after ``explore`` rounds take argmax u instead.
         5. Evaluate its out-neighbours in the refined graph; predict and learn as OMKL-SFG,
            with q_i the sum of p over the in-neighbours of i in the refined graph.
Symbols  eta, xi, lam, M, explore   as in OMKL-SFG
         rank             1..N: how many of the best nodes dominate (more where nodes tie)
         only_undominated true: an edge is added only where DS'_t has none to i yet
Cost     O(M D d + N (M + rank)) time a round, at worst O(N D d + N^2); O(N D d + N^2) memory.
Bound    theorem 6: O(sqrt(T N ln N)) with eta of order sqrt(ln N / (N T)), xi of order
         1 / sqrt(T), beta <= 1/N; losses in [0, 1], ||x|| <= 1.
Differs  from the paper: none. The box appends (d_i, i) for every i outside DS'_t, the text
         above it only where no edge from DS'_t reaches i; the box is the default,
         ``only_undominated`` the text. Other readings as in OMKL-SFG. The released code
         freezes the graph after round 300 and goes on drawing, predicts with the unrefined
         graph while it updates with the refined one, from a second draw, and has the floors
         and the shift of OMKL-SFG.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np

from omkl.algorithms import sfg
from omkl.algorithms.sfg import choose_node, predict, probability_of_in_neighbours, update
from omkl.engine import Schedule, at, choose, register
from omkl.features import RandomFeatures
from omkl.graphs import dissimilarity_graph
from omkl.jit import part
from omkl.params import NON_NEGATIVE, RATE, UP_TO_N, Range
from omkl.weights import softmax

if TYPE_CHECKING:
    from omkl.kernels import Kernel


class Params(NamedTuple):
    eta: Schedule
    xi: RATE
    lam: NON_NEGATIVE
    M: UP_TO_N
    explore: Annotated[int, Range(0)]
    rank: UP_TO_N
    only_undominated: bool


class State(NamedTuple):
    model: RandomFeatures
    log_w: np.ndarray  # (N,) kernels
    log_u: np.ndarray  # (N,) nodes
    log_divergence: np.ndarray  # (N, N), read only by its order
    out: np.ndarray  # (N, M) out-neighbours in the unrefined graph
    in_start: np.ndarray  # (N + 1,)
    in_source: np.ndarray  # (N M,)
    refined: np.ndarray  # (N,) the node d_i whose edge to i was added, -1 where none was
    best: np.ndarray  # (rank,) the largest log u, falling; best[-1] is the bar of DS'_t
    size: np.ndarray  # (1,) |DS'_t|; 0 when DS'_t has to be found anew
    dominates: np.ndarray  # (N,) bool, DS'_t
    members: np.ndarray  # (N,) the nodes of DS'_t in rising order, as many as there are
    p: np.ndarray  # (N,)
    q: np.ndarray  # (N,) of the evaluated kernels, NaN elsewhere
    node: np.ndarray  # (1,)


def init(params: Params, dictionary: Sequence[Kernel], model: RandomFeatures) -> State:
    from omkl.kernels import log_divergence

    divergence = log_divergence(dictionary, model.omega.shape[1])
    return on_graph(dissimilarity_graph(divergence, params.M), divergence, params.rank, model)


def on_graph(out: np.ndarray, divergence: np.ndarray, rank: int, model: RandomFeatures) -> State:
    """The state before the first round on a graph (N, M), to be refined by ``divergence``."""
    N = len(out)
    plain = sfg.on_graph(out, model)
    return State(
        model,
        log_w=plain.log_w,
        log_u=plain.log_u,
        log_divergence=divergence,
        out=plain.out,
        in_start=plain.in_start,
        in_source=plain.in_source,
        refined=np.full(N, -1, dtype=np.int64),
        best=np.zeros(rank),
        size=np.zeros(1, dtype=np.int64),
        dominates=np.zeros(N, dtype=np.bool_),
        members=np.zeros(N, dtype=np.int64),
        p=plain.p,
        q=plain.q,
        node=plain.node,
    )


@part
def rank_largest(values, best):
    """The k-th largest of values (N,), k the length of best, which is filled in falling order."""
    best[:] = -np.inf
    k = best.shape[0]
    for i in range(values.shape[0]):
        v = values[i]
        if v > best[k - 1]:
            j = k - 1
            while j > 0 and best[j - 1] < v:
                best[j] = best[j - 1]
                j -= 1
            best[j] = v
    return best[k - 1]


@part
def refine(params, state, sign):
    """DS'_t, and the edges (d_i, i) that make it a dominating set; its size.

    d_i is the node of DS'_t with the largest divergence from i for sign = 1, the
    smallest for sign = -1. Only the node of the last round has another u now: while it
    stays above the bar, or was below it before, DS'_t and its edges are what they were.
    """
    node = state.node[0]
    if state.size[0] > 0 and (
        not state.dominates[node] or state.log_u[node] > state.best[state.best.shape[0] - 1]
    ):
        return state.size[0]
    N = state.log_u.shape[0]
    threshold = rank_largest(state.log_u, state.best)
    size = 0
    for i in range(N):
        state.dominates[i] = state.log_u[i] >= threshold
        if state.dominates[i]:
            state.members[size] = i
            size += 1
    state.size[0] = size
    for i in range(N):
        state.refined[i] = -1
        if state.dominates[i]:
            continue
        partner = partner_of(state, i, sign)
        present = False  # is the edge, or any edge from DS'_t, in the graph already?
        for e in range(state.in_start[i], state.in_start[i + 1]):
            j = state.in_source[e]
            if j == partner or (params.only_undominated and state.dominates[j]):
                present = True
        if not present:
            state.refined[i] = partner
    return size


@part
def partner_of(state, i, sign):
    """d_i, (45): the first j of DS'_t with the largest sign * Delta(i, j)."""
    best = state.members[0]
    for m in range(1, state.size[0]):
        j = state.members[m]
        if sign * state.log_divergence[i, j] > sign * state.log_divergence[i, best]:
            best = j
    return best


@part
def mix(state, xi, size):
    """p of the nodes, (46)."""
    softmax(state.log_u, state.p)
    for i in range(state.p.shape[0]):
        share = 1.0 / size if state.dominates[i] else 0.0
        state.p[i] = (1.0 - xi) * state.p[i] + xi * share


@part
def choose_neighbours(state, rnd):
    """Evaluate and combine the out-neighbours of the node in the refined graph; their q.

    Those of the unrefined graph come first.
    """
    node = state.node[0]
    choose(rnd, state.out[node], state.out.shape[1])
    n = rnd.n[0]
    for i in range(state.p.shape[0]):
        if state.refined[i] == node:
            rnd.evaluate[n] = i
            rnd.combine[n] = i
            n += 1
    rnd.n[:] = n
    state.q[:] = np.nan
    for m in range(n):
        i = rnd.evaluate[m]
        state.q[i] = probability_of_in_neighbours(state, i)
        if state.refined[i] >= 0:
            state.q[i] += state.p[state.refined[i]]


def select(params, state, t, rng, rnd):
    size = refine(params, state, 1.0)
    mix(state, at(params.xi, t), size)
    choose_node(params, state, t, rng)
    choose_neighbours(state, rnd)


algorithm = register(__name__, Params, init, select=select, predict=predict, update=update)
