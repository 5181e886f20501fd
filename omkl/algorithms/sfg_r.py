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
from typing import Annotated, Any, NamedTuple

import numpy as np

from omkl.algorithms.sfg import choose_node, dissimilar, predict, update, weigh
from omkl.engine import Schedule, at, choose, register
from omkl.features import RandomFeatures
from omkl.jit import part
from omkl.kernels import Kernel, divergence, divergences
from omkl.params import NON_NEGATIVE, RATE, UP_TO_N, Range
from omkl.sampling import (
    Graph,
    Nodes,
    enter,
    follow,
    forget,
    nodes_of,
    probability,
    probability_seen,
)


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
    divergence: Any  # Matrix or what it is computed from; read only by its order
    graph: Graph  # unrefined
    nodes: Nodes  # u and DS'_t
    members: np.ndarray  # (N,) the nodes of DS'_t in rising order, as many as there are
    bar: np.ndarray  # (1,) the smallest log u of DS'_t
    partner: np.ndarray  # (N,) d_i of the nodes outside DS'_t, -1 of the others
    distance: np.ndarray  # (N,) divergence of i and d_i, with the sign that makes it the largest
    n_partner: np.ndarray  # (N,) of how many nodes this is the d_i
    refined: np.ndarray  # (N,) the node d_i whose edge to i was added, -1 where none was
    n_refined: np.ndarray  # (N,) edges that were added at the node
    changed: np.ndarray  # (N,) room: nodes that enter or leave DS'_t
    others: np.ndarray  # (N,) room: nodes that need a d_i
    room: np.ndarray  # (2, N)
    best: np.ndarray  # (rank,) room
    w: np.ndarray  # (N,) weights of the combined kernels, in their order, summing to 1
    q: np.ndarray  # (N,) of the evaluated kernels, NaN elsewhere
    p: np.ndarray  # (1,) of the node
    node: np.ndarray  # (1,)


def init(params: Params, dictionary: Sequence[Kernel], model: RandomFeatures) -> State:
    d = model.omega.shape[1]
    graph = dissimilar(tuple(dictionary), d, params.M)
    return on_graph(graph, divergence(tuple(dictionary), d), params.rank, model)


def on_graph(graph: Graph, divergence: Any, rank: int, model: RandomFeatures) -> State:
    """The state before the first round on a graph, to be refined by ``divergence``."""
    N = len(graph.out)
    nobody = np.full(N, -1, dtype=np.int64)
    none = np.zeros(N, dtype=np.int64)
    return State(
        model,
        log_w=np.zeros(N),
        log_u=np.zeros(N),
        divergence=divergence,
        graph=graph,
        nodes=nodes_of(graph),
        members=none.copy(),
        bar=np.zeros(1),
        partner=nobody.copy(),
        distance=np.zeros(N),
        n_partner=none.copy(),
        refined=nobody.copy(),
        n_refined=none.copy(),
        changed=none.copy(),
        others=none.copy(),
        room=np.zeros((2, N)),
        best=np.zeros(rank),
        w=np.zeros(N),
        q=np.full(N, np.nan),
        p=np.zeros(1),
        node=np.zeros(1, dtype=np.int64),
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
    """DS'_t, and the edges (d_i, i) that make it a dominating set.

    d_i is the node of DS'_t with the largest divergence from i for sign = 1, the
    smallest for sign = -1. Only the node of the last round has another u now: while it
    stays above the bar, or was below it before, DS'_t and its edges are what they were.
    """
    node, log_u, member = state.node[0], state.log_u, state.nodes.member
    N, size, n = log_u.shape[0], state.nodes.size[0], 0
    if not state.nodes.fresh[0]:
        state.bar[0] = rank_largest(log_u, state.best)
        for i in range(N):
            if (log_u[i] >= state.bar[0]) != member[i]:
                state.changed[n] = i
                n += 1
    elif not member[node] or log_u[node] >= state.bar[0]:
        return
    elif size > state.best.shape[0]:  # nodes tie for the last rank: enough of them are left
        state.changed[0] = node
        n = 1
    else:  # the best of those outside, or the node itself, takes its rank
        bar = log_u[node]
        for i in range(N):
            if not member[i] and log_u[i] > bar:
                bar = log_u[i]
        state.bar[0] = bar
        for i in range(N):
            if not member[i] and log_u[i] == bar:
                state.changed[n] = i
                n += 1
        if bar > log_u[node]:
            state.changed[n] = node
            n += 1
    rewire(state, n, sign, params.only_undominated, False)


@part
def rewire(state, n, sign, only_undominated, everyone):
    """The first ``n`` of ``changed`` enter or leave DS'_t: every d_i and the edges that follow.

    everyone: the nodes of DS'_t have a d_i too.
    """
    member, partner = state.nodes.member, state.partner
    N = partner.shape[0]
    scan = state.nodes.size[0] == 0
    for k in range(n):
        i = state.changed[k]
        scan = scan or (member[i] and state.n_partner[i] > 0)
        enter(state.graph, state.nodes, i, -1 if member[i] else 1)
    size = 0
    for i in range(N):
        state.members[size] = i
        size += member[i]
        if size == state.nodes.size[0]:
            break
    # Those that lost their d_i, or left DS'_t and have none yet.
    n_others = 0
    if scan or everyone:
        for i in range(N):
            if (everyone or not member[i]) and (partner[i] < 0 or not member[partner[i]]):
                state.others[n_others] = i
                n_others += 1
    else:
        for k in range(n):
            if not member[state.changed[k]]:
                state.others[n_others] = state.changed[k]
                n_others += 1
    connect(state, n_others, sign, only_undominated, everyone)
    # Those that entered DS'_t may be a better d_i.
    entered = 0
    for k in range(n):
        i = state.changed[k]
        if member[i]:
            entered += 1
            if not everyone:
                set_partner(state, i, -1)
                set_edge(state, i, only_undominated, everyone)
    if entered > 0:
        n_others = 0
        for i in range(N):
            if everyone or not member[i]:
                state.others[n_others] = i
                n_others += 1
        for k in range(n):
            if member[state.changed[k]]:
                offer(state, state.changed[k], n_others, sign, only_undominated, everyone)
    if only_undominated:
        for k in range(n):
            for m in range(state.graph.out.shape[1]):
                set_edge(state, state.graph.out[state.changed[k], m], True, everyone)


@part
def connect(state, n, sign, only_undominated, everyone):
    """d_i of the first ``n`` of ``others``, (45), found anew."""
    size = state.nodes.size[0]
    for k in range(n):
        set_partner(state, state.others[k], -1)
    if size < n:  # the longer of the two loops is the inner one
        for m in range(size):
            offer(state, state.members[m], n, sign, only_undominated, everyone)
        return
    found = state.room[0]
    for k in range(n):
        i = state.others[k]
        divergences(state.divergence, i, state.members, size, found, state.room[1])
        best = 0
        for m in range(1, size):
            if sign * found[m] > sign * found[best]:
                best = m
        set_partner(state, i, state.members[best])
        state.distance[i] = sign * found[best]
        set_edge(state, i, only_undominated, everyone)


@part
def offer(state, j, n, sign, only_undominated, everyone):
    """Node j becomes the d_i of those among the first ``n`` of ``others`` that it suits best.

    Of nodes that suit alike it is the first.
    """
    found = state.room[0]
    partner, distance = state.partner, state.distance
    divergences(state.divergence, j, state.others, n, found, state.room[1])
    for k in range(n):
        i = state.others[k]
        v = sign * found[k]
        if (
            v > distance[i]
            or partner[i] < 0
            or (v == distance[i] and j < partner[i])
        ):
            set_partner(state, i, j)
            distance[i] = v
            set_edge(state, i, only_undominated, everyone)


@part
def set_partner(state, i, j):
    """d_i = j, or none for j = -1."""
    before = state.partner[i]
    if before >= 0:
        state.n_partner[before] -= 1
    if j >= 0:
        state.n_partner[j] += 1
    state.partner[i] = j
    state.distance[i] = -np.inf


@part
def set_edge(state, i, only_undominated, everyone):
    """The edge (d_i, i), unless it is there, or not needed."""
    j = state.partner[i]
    if only_undominated and state.nodes.covers[i] > 0:
        j = -1
    if j >= 0:
        for m in range(state.graph.out.shape[1]):
            if state.graph.out[j, m] == i:
                j = -1
                break
    before = state.refined[i]
    if before >= 0:
        state.n_refined[before] -= 1
    if j >= 0:
        state.n_refined[j] += 1
    state.refined[i] = j


@part
def choose_neighbours(state, xi, rnd):
    """Evaluate and combine the out-neighbours of the node in the refined graph; their q.

    Those of the unrefined graph come first.
    """
    forget(state, rnd)
    node = state.node[0]
    choose(rnd, state.graph.out[node], state.graph.out.shape[1])
    n = rnd.n[0]
    last = n + state.n_refined[node]
    i = 0
    while n < last:
        if state.refined[i] == node:
            rnd.evaluate[n] = i
            rnd.combine[n] = i
            n += 1
        i += 1
    rnd.n[:] = n
    state.p[0] = probability(state.nodes, node, xi)
    for m in range(n):
        i = rnd.evaluate[m]
        state.q[i] = probability_seen(state.graph, state.nodes, i, xi)
        if state.refined[i] >= 0:
            state.q[i] += probability(state.nodes, state.refined[i], xi)


def select(params, state, t, rng, rnd):
    xi = at(params.xi, t)
    refine(params, state, 1.0)
    follow(state.graph, state.nodes, state.log_u, state.node[0])
    choose_node(params, state, t, xi, rng)
    choose_neighbours(state, xi, rnd)
    weigh(state, rnd)


algorithm = register(__name__, Params, init, select=select, predict=predict, update=update)
