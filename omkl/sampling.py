"""Nodes of a feedback graph drawn by weight, in O(log N) a round.

In a round a single node changes its weight u. Sums over all nodes, and over the
in-neighbours of a kernel, are therefore kept in binary trees: one path to the root is
added up anew, always from the two numbers below, so that no rounding error piles up however
many rounds there are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from omkl.graphs import dominating_set, in_neighbours
from omkl.jit import part
from omkl.weights import exp_nonpositive

# The largest u may fall this far below the scale before all weights are taken anew: a weight
# as small as exp(-708) times the largest counts as 0 then, as small as exp(-644) never does.
MOST_FALL = 64.0


class Graph(NamedTuple):
    """A feedback graph (N nodes, M out-neighbours each); learners share it and never write.

    out        (N, M) out-neighbours, the node itself the first
    in_start   (N + 1,) in-neighbours of i are in_source[in_start[i] : in_start[i + 1]]
    in_source  (N M,)
    leaf       (N, M) where the m-th edge of a node begins in the tree of its end
    cover      (n,) a dominating set
    """

    out: np.ndarray
    in_start: np.ndarray
    in_source: np.ndarray
    leaf: np.ndarray
    cover: np.ndarray


def graph_of(out: np.ndarray) -> Graph:
    """The graph with out-neighbours ``out`` (N, M)."""
    N, M = out.shape
    start, source = in_neighbours(out)
    target = out.ravel()
    order = np.argsort(target, kind="stable")
    leaf = np.empty(N * M, dtype=np.int64)
    degree = np.diff(start)
    leaf[order] = np.arange(N * M) - start[target[order]] + degree[target[order]]
    return Graph(out, start, source, leaf.reshape(N, M), dominating_set(out))


class Nodes(NamedTuple):
    """Weights u of the nodes of a graph and the set of those that are explored.

    p_i = (1 - xi) u_i / U + xi [i in the set] / size. Trees of all nodes have their root at 1
    and node i at P + i, P the power of two from N on; the children of k are 2 k and 2 k + 1.

    mass    (2 P,) sums of exp(log_u - scale)
    top     (2 P,) largest log_u, -inf where no node is
    count   (2 P,) how many nodes of the set
    seen    (2 N M,) for each kernel i, from 2 in_start[i] on, the same tree as mass over its
            in-neighbours
    covers  (N,) in-neighbours of a kernel in the set
    member  (N,) bool, the set
    size    (1,) of the set
    scale   (1,)
    fresh   (1,) bool, whether the trees follow log_u; set it to False after writing log_u
    """

    mass: np.ndarray
    top: np.ndarray
    count: np.ndarray
    seen: np.ndarray
    covers: np.ndarray
    member: np.ndarray
    size: np.ndarray
    scale: np.ndarray
    fresh: np.ndarray


def nodes_of(graph: Graph) -> Nodes:
    """Room for the weights of the nodes of a graph; the set is empty."""
    N, M = graph.out.shape
    P = 1 << (N - 1).bit_length()
    return Nodes(
        mass=np.zeros(2 * P),
        top=np.full(2 * P, -np.inf),
        count=np.zeros(2 * P, dtype=np.int64),
        seen=np.zeros(2 * N * M),
        covers=np.zeros(N, dtype=np.int64),
        member=np.zeros(N, dtype=np.bool_),
        size=np.zeros(1, dtype=np.int64),
        scale=np.zeros(1),
        fresh=np.zeros(1, dtype=np.bool_),
    )


@part
def follow(graph, nodes, log_u, node):
    """Bring the trees up to date: log_u changed at ``node`` alone, if they are fresh."""
    if not nodes.fresh[0]:
        _begin(graph, nodes, log_u)
        return
    mass, top, seen = nodes.mass, nodes.top, nodes.seen
    out, in_start, leaf = graph.out, graph.in_start, graph.leaf
    P = mass.shape[0] // 2
    k = P + node
    if log_u[node] == top[k]:
        return
    top[k] = log_u[node]
    u = exp_nonpositive(log_u[node] - nodes.scale[0])
    mass[k] = u
    while k > 1:
        k >>= 1
        mass[k] = mass[2 * k] + mass[2 * k + 1]
        top[k] = max(top[2 * k], top[2 * k + 1])
    for m in range(out.shape[1]):
        first = 2 * in_start[out[node, m]]
        k = leaf[node, m]
        seen[first + k] = u
        while k > 1:
            k >>= 1
            seen[first + k] = seen[first + 2 * k] + seen[first + 2 * k + 1]
    if top[1] < nodes.scale[0] - MOST_FALL:
        _begin(graph, nodes, log_u)


@part
def _begin(graph, nodes, log_u):
    mass, top, seen = nodes.mass, nodes.top, nodes.seen
    out, in_start, leaf = graph.out, graph.in_start, graph.leaf
    N, M = out.shape
    P = mass.shape[0] // 2
    for i in range(N):
        top[P + i] = log_u[i]
    for k in range(P - 1, 0, -1):
        top[k] = max(top[2 * k], top[2 * k + 1])
    nodes.scale[0] = top[1]
    for i in range(N):
        mass[P + i] = exp_nonpositive(log_u[i] - top[1])
    for k in range(P - 1, 0, -1):
        mass[k] = mass[2 * k] + mass[2 * k + 1]
    for i in range(N):
        for m in range(M):
            seen[2 * in_start[out[i, m]] + leaf[i, m]] = mass[P + i]
    for i in range(N):
        first = 2 * in_start[i]
        for k in range(in_start[i + 1] - in_start[i] - 1, 0, -1):
            seen[first + k] = seen[first + 2 * k] + seen[first + 2 * k + 1]
    nodes.fresh[0] = True


@part
def enter(graph, nodes, i, change):
    """Node i enters the set (change = 1) or leaves it (-1)."""
    count, covers = nodes.count, nodes.covers
    nodes.member[i] = change > 0
    nodes.size[0] += change
    k = count.shape[0] // 2 + i
    while k > 0:
        count[k] += change
        k >>= 1
    for m in range(graph.out.shape[1]):
        covers[graph.out[i, m]] += change


@part
def probability(nodes, i, xi):
    """p of node i."""
    P = nodes.mass.shape[0] // 2
    share = nodes.count[P + i] / nodes.size[0]
    return (1.0 - xi) * (nodes.mass[P + i] / nodes.mass[1]) + xi * share


@part
def probability_seen(graph, nodes, i, xi):
    """Sum of p over the in-neighbours of kernel i."""
    share = nodes.covers[i] / nodes.size[0]
    return (1.0 - xi) * (nodes.seen[2 * graph.in_start[i] + 1] / nodes.mass[1]) + xi * share


@part
def draw_node(nodes, xi, v):
    """Node drawn from p by one uniform number v in [0, 1): the first whose running sum exceeds v.

    Where rounding leaves the sum of p below v it is the last node with a positive p.
    """
    mass, count = nodes.mass, nodes.count
    P = mass.shape[0] // 2
    per_mass = (1.0 - xi) / mass[1]
    per_count = xi / nodes.size[0]
    k = 1
    while k < P:
        k *= 2
        left = per_mass * mass[k] + per_count * count[k]
        if not v < left and (mass[k + 1] > 0.0 or count[k + 1] > 0):
            v -= left
            k += 1
    return k - P


@part
def best_node(nodes):
    """The smallest index of the largest log_u."""
    top = nodes.top
    P = top.shape[0] // 2
    k = 1
    while k < P:
        k *= 2
        if top[k + 1] > top[k]:
            k += 1
    return k - P


@part
def forget(state, rnd):
    """NaN for the q of the last round."""
    if rnd.n[0] == 0:  # the round is new, the state need not be
        state.q[:] = np.nan
    for m in range(rnd.n[0]):
        state.q[rnd.evaluate[m]] = np.nan


def probabilities(nodes: Nodes, xi: float, N: int) -> np.ndarray:
    """p of all nodes, (N,)."""
    P = len(nodes.mass) // 2
    share = nodes.count[P : P + N] / nodes.size[0]
    return (1.0 - xi) * nodes.mass[P : P + N] / nodes.mass[1] + xi * share
