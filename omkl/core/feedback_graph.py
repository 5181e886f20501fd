"""Feedback graphs over a dictionary: construction, dominating set, and refinement in every round.

A graph has N nodes, one per kernel, with M out-neighbours each, and takes O(N M) memory. Its
construction compares all kernels by their divergence Delta (``kernel_distance``), for one block of
nodes at a time.

The refinement fills lists without branches: it writes every candidate at the end of the list, and
only extends the list if the candidate belongs there. The processor would often mispredict a branch,
and a misprediction costs as much time as the work on a pack (eight numbers, see ``simd``).

Symbols of the refinement: DS'_t is the dominating set of round t. It has the nodes whose weight u
is at least the ``rank``-th largest weight, where ``rank`` is a setting. Each node i outside DS'_t
has a node d_i in DS'_t, and the edge (d_i, i) may be added to the graph. The array ``links`` has
two rows that list nodes. CHANGED lists the nodes that enter or leave DS'_t in this round, and
OTHERS the nodes that need a new d_i.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator

import numpy as np

from omkl.core.compiler import compiled, inlined
from omkl.core.graph_sampling import COUNT, COVERS, MEMBER, OUT, is_fresh, toggle_member
from omkl.core.kernel_distance import LOG_2, Overlaps, divergence_rows, ranks
from omkl.core.simd import LANES, at_least, below, largest, load, pack
from omkl.core.weights import add_logs, log_one_minus_exp

# --- Construction ---------------------------------------------------------------------------------


BLOCK = 2**18  # number of divergences in memory at a time


def dissimilarity_graph(divergence: Overlaps | np.ndarray, M: int) -> np.ndarray:
    """Build a graph in which every node has M mutually dissimilar kernels as out-neighbours.

    Ghari and Shen, JMLR, algorithm 4: node i starts with itself. Kernel j joins if its mean
    divergence from the out-neighbours so far is at least gamma_i, the largest threshold with which
    M kernels join. The paper does not state in which order the kernels join. Here the kernel with
    the largest mean divergence from the present out-neighbours joins next (ties: the smallest
    index). gamma_i is then the mean divergence of the kernel that joins last.

    Let k be the number of out-neighbours so far, and own_j = overlap(j, j). If overlaps are given,
    candidates j are compared by k own_j - 2 sum_m overlap(m, j), where m runs over the k
    out-neighbours. This number and sum_m Delta(m, j) differ only by terms without j. The
    construction takes O(N^2 M) time.

    Parameters
    ----------
    divergence
        Result of ``kernel_distance.overlaps``, or a matrix (N, N) of log Delta.
    M
        Out-neighbours of a node, including itself.

    Returns
    -------
    ndarray
        Nodes (N, M) int64; the first column is the node itself.

    Raises
    ------
    ValueError
        M lies outside [1, N].
    """
    N = _n_kernels(divergence, M)
    out = np.empty((N, M), dtype=np.int64)
    for nodes in _blocks(N):
        some = out[nodes]
        some[:, 0] = nodes
        if isinstance(divergence, Overlaps):
            _join_by_overlap(divergence, some)
        else:
            _join_by_value(divergence, some)
        out[nodes] = some
    return out


def _join_by_value(delta: np.ndarray, some: np.ndarray) -> None:
    """Write the out-neighbours of n nodes into the columns 1 .. M - 1 of ``some`` (n, M).

    Column 0 has the nodes. The next out-neighbour is always the kernel with the largest sum of
    Delta from the out-neighbours before it. ``delta`` (N, N) has the logarithms of Delta.
    """
    total = delta[some[:, 0]]
    for m in range(1, some.shape[1]):
        np.put_along_axis(total, some[:, :m], -np.inf, axis=1)
        best = total.argmax(axis=1)
        for r in np.flatnonzero((some[:, :m] == best[:, None]).any(axis=1)):
            # If all candidates are -inf, as with copies of one kernel, take the next free index.
            best[r] = _smallest_missing(some[r, :m])
        some[:, m] = best
        if m < some.shape[1] - 1:
            total = np.logaddexp(total, delta[best])


def _join_by_overlap(source: Overlaps, some: np.ndarray) -> None:
    """Fill ``some`` (n, M) as ``_join_by_value`` does, but compute sums of Delta from overlaps."""
    n, M = some.shape
    N = len(source.own)
    total = source.values[some[:, 0]]  # log of the sum of overlaps; +inf for present kernels
    own_there = source.own[some[:, 0]]  # log of the sum of own over the present kernels
    by_own = np.argsort(-source.own, kind="stable")
    size, sign, scratch = np.empty(n), np.empty(n), np.empty(N)
    for m in range(1, M):
        np.put_along_axis(total, some[:, :m], np.inf, axis=1)
        _farthest(total, source.own, by_own, float(m), some[:, m], size, sign)
        # Where the largest sum of Delta is below half the sum of own over the present kernels, the
        # terms nearly cancel. Compare sums of Delta itself there.
        for r in np.flatnonzero((sign < 0.0) & (size + math.log(m) > own_there - LOG_2)):
            delta = np.logaddexp.reduce(divergence_rows(source, some[r, :m]), axis=0)
            delta[some[r, :m]] = -np.inf
            best = int(delta.argmax())
            some[r, m] = best if best not in some[r, :m] else _smallest_missing(some[r, :m])
        if m < M - 1:
            own_there = np.logaddexp(own_there, source.own[some[:, m]])
            joined, which = np.unique(some[:, m], return_inverse=True)
            _add_rows(total, source.values[joined], which, scratch)


@compiled
def _farthest(total, own, by_own, k, best, size, sign):
    """Find in each row r the kernel j with the largest v_j = k exp(own[j]) - 2 exp(total[r, j]).

    exp(own[j]) is the overlap of kernel j with itself, and exp(total[r, j]) is the sum of its
    overlaps with the k out-neighbours that row r has so far. by_own (N,) lists the kernels by
    decreasing own. best[r] becomes j (ties: the smallest index), size[r] becomes log(|v_j| / k),
    and sign[r] the sign of v_j.
    """
    share = math.log(2.0 / k)
    N = own.shape[0]
    for r in range(total.shape[0]):
        farthest = -1
        top = -np.inf
        for m in range(N):
            j = by_own[m]
            if own[j] < top:
                break  # later kernels have a smaller own, and overlaps only reduce the sum
            x = share + total[r, j] - own[j]
            if x < 0.0:
                value = own[j] + log_one_minus_exp(x)
                if value > top or (value == top and j < farthest):
                    top, farthest = value, j
        sign[r] = 1.0
        if farthest < 0:  # all numbers are negative or 0: take the one nearest to 0
            sign[r] = -1.0
            top = np.inf
            for m in range(N - 1, -1, -1):
                j = by_own[m]
                twice = share + total[r, j]
                x = twice - own[j]
                if x > LOG_2 and twice - LOG_2 > top:
                    continue  # the difference exceeds half of ``twice``, which is above ``top``
                value = twice + log_one_minus_exp(-x)
                if value < top or (value == top and j < farthest):
                    top, farthest = value, j
        best[r] = farthest
        size[r] = top


@compiled
def _add_rows(total, rows, which, scratch):
    """Update total[r] <- log(exp(total[r]) + exp(rows[which[r]]))."""
    for r in range(total.shape[0]):
        add_logs(total[r], rows[which[r]], scratch)


def similarity_graph(divergence: Overlaps | np.ndarray, M: int) -> np.ndarray:
    """Build a graph in which every node has the M most similar kernels as out-neighbours.

    Ghari and Shen, first version (arXiv), algorithm 1: there is an edge from i to j if Delta(i, j)
    <= gamma_i. gamma_i is chosen such that node i has M out-neighbours. One of them is node i,
    because Delta(i, i) = 0. Among equal divergences the smallest index is taken. The construction
    takes O(N^2 log N) time.

    Parameters
    ----------
    divergence
        Result of ``kernel_distance.overlaps``, or a matrix (N, N): Delta or its logarithm.
    M
        Out-neighbours of a node, including itself.

    Returns
    -------
    ndarray
        Nodes (N, M) int64; the first column is the node itself.

    Raises
    ------
    ValueError
        M lies outside [1, N].
    """
    N = _n_kernels(divergence, M)
    distances = ranks(divergence) if isinstance(divergence, Overlaps) else divergence
    out = np.empty((N, M), dtype=np.int64)
    for nodes in _blocks(N):
        order = np.argsort(distances[nodes], axis=1, kind="stable")
        near = order[:, :M]
        left_out = near == nodes[:, None]
        # If copies of a kernel come before the kernel itself, it may be missing: leave out the
        # last.
        left_out[~left_out.any(axis=1), -1] = True
        out[nodes, 0] = nodes
        out[nodes, 1:] = near[~left_out].reshape(len(nodes), M - 1)
    return out


def _n_kernels(divergence: Overlaps | np.ndarray, M: int) -> int:
    """Return the number N of kernels. Raises ValueError unless 1 <= M <= N."""
    N = len(divergence if isinstance(divergence, np.ndarray) else divergence.own)
    if not 1 <= M <= N:
        raise ValueError(f"M={M} out-neighbours lie outside [1, N={N}]")
    return N


def _blocks(N: int) -> Iterator[np.ndarray]:
    """Yield the nodes 0 .. N - 1 in blocks of n nodes, with n N at most ``BLOCK`` (or n = 1)."""
    size = max(1, BLOCK // N)
    for start in range(0, N, size):
        yield np.arange(start, min(N, start + size))


def _smallest_missing(present: np.ndarray) -> int:
    """Return the smallest index that is not in ``present``."""
    free = np.ones(len(present) + 1, dtype=bool)
    free[present[present <= len(present)]] = False
    return int(free.argmax())


def dominating_set(out: np.ndarray) -> np.ndarray:
    """Return sorted nodes whose out-neighbours are all N nodes, found by greedy set cover.

    Chvatal (1979): repeatedly take the node that covers most nodes not covered yet (ties: the
    smallest index), until every node is covered.

    Parameters
    ----------
    out
        Graph (N, M), with every node its own out-neighbour.
    """
    N, M = out.shape
    covered = np.zeros(N, dtype=bool)
    n_left = N
    queue = [(-M, i) for i in range(N)]
    chosen: list[int] = []
    while n_left:
        # The number of nodes that a node would newly cover only falls. So if the number at the head
        # of the queue is still right, no other node covers more.
        promised, i = heapq.heappop(queue)
        gain = M - int(np.count_nonzero(covered[out[i]]))
        if gain == -promised:
            chosen.append(i)
            covered[out[i]] = True
            n_left -= gain
        elif gain:
            heapq.heappush(queue, (-gain, i))
    return np.array(sorted(chosen), dtype=np.int64)


# --- Refinement in every round: which nodes change, and their new edges ---------------------------


# DS'_t is the dominating set of round t: the nodes whose weight u is at least the ``rank``-th
# largest (algorithm 6 of the JMLR paper). A node i outside gets an edge from a node d_i of DS'_t.
#
# Rows of the links (6, N):
# MEMBERS    nodes of DS'_t in rising order, at the front
# PARTNER    d_i of node i outside DS'_t; -1 inside
# REFINED    node d_i whose edge to i was added; -1 for none
# N_REFINED  number of edges added at a node
# CHANGED    scratch: nodes that enter or leave DS'_t
# OTHERS     scratch: nodes that need a d_i
MEMBERS, PARTNER, REFINED, N_REFINED, CHANGED, OTHERS = range(6)


@inlined
def rank_largest(values, best):
    """Write the k largest of values (N,), in descending order, into best (k,). Return the k-th."""
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


@inlined
def refine(params, state, sign):
    """Update DS'_t, and the added edges (d_i, i) with which DS'_t reaches every node.

    d_i is the node of DS'_t with the largest divergence from i if ``sign`` is 1, and with the
    smallest divergence if ``sign`` is -1. Between two rounds only one weight u changes: that of
    the node drawn in the earlier round. Often this node neither enters nor leaves DS'_t. Then
    nothing changes.

    Parameters
    ----------
    params
        Params with ``only_undominated``.
    state
        ``sfg.RefinedState``.
    sign
        1.0 or -1.0.
    """
    n = nodes_that_changed(state)
    if n > 0:
        rewire(state, n, sign, params.only_undominated)


@inlined
def nodes_that_changed(state):
    """List in CHANGED the nodes that enter or leave DS'_t, and return their number.

    The function updates ``state.best`` (rank,), the nodes with the largest log_u, the largest
    first. If ``is_fresh(state.trees)``, it starts from ``best`` of the previous round. Otherwise it
    computes ``best`` from all log_u.
    """
    log_u, member, best = state.log_u, state.cover[MEMBER], state.best
    node, size, changed = state.node[0], state.trees[COUNT, 1], state.links[CHANGED]
    N, last = log_u.shape[0], best.shape[0] - 1
    n = 0
    if not is_fresh(state.trees):
        bar = rank_largest(log_u, best)
        for i in range(N):
            if (log_u[i] >= bar) != (member[i] == 1):
                changed[n] = i
                n += 1
        return n
    if member[node] == 0 or log_u[node] >= best[last]:
        return n
    if size > best.shape[0]:  # several nodes tie for the last rank, and enough of them remain
        changed[0] = node
        return 1
    # All other nodes of DS'_t are above the last rank. So it goes to the best node outside, or
    # stays with this node.
    bar = largest_below(log_u, best[last])
    best[last] = bar
    for i in range(N):
        if log_u[i] == bar and i != node:
            changed[n] = i
            n += 1
    if bar > log_u[node]:
        changed[n] = node
        n += 1
    return n


@inlined
def largest_below(values, bound):
    """Return the largest of values (N,) that is less than the bound, or -inf."""
    N = values.shape[0]
    highest = pack(-np.inf)
    j = 0
    while j + LANES <= N:
        highest = at_least(below(load(values, j), bound), highest)
        j += LANES
    top = largest(highest)
    for i in range(j, N):
        top = values[i] if top < values[i] < bound else top
    return top


@inlined
def rewire(state, n, sign, only_undominated):
    """Let the first ``n`` nodes of CHANGED enter or leave DS'_t, and update every d_i and its edge.

    Parameters
    ----------
    state
        State with the arrays of ``sfg.RefinedState``.
    n
        Number of nodes in CHANGED.
    sign
        As in ``refine``.
    only_undominated
        Add an edge to i only if DS'_t has no edge to i yet.
    """
    edges, trees, cover, links = state.edges, state.trees, state.cover, state.links
    begun = trees[COUNT, 1] > 0.0
    for k in range(n):
        toggle_member(edges, trees, cover, links[CHANGED, k])
    connect(state, list_unconnected(cover, links, n, begun), sign, only_undominated)
    # Nodes that entered need no d_i, and may be a better d_i for nodes outside.
    for k in range(n):
        i = links[CHANGED, k]
        if cover[MEMBER, i] == 1:
            links[PARTNER, i] = -1
            set_edge(edges, cover, links, i, only_undominated)
            offer(state, i, sign, only_undominated)
    if only_undominated:  # the nodes that DS'_t reaches have changed
        for k in range(n):
            for m in range(edges.shape[2]):
                set_edge(edges, cover, links, edges[OUT, links[CHANGED, k], m], True)


@inlined
def list_unconnected(cover, links, n, begun):
    """List in OTHERS the nodes outside DS'_t that need a new d_i, and return their number.

    A node needs a new d_i if its d_i has left DS'_t. A node that has left DS'_t itself needs its
    first d_i.

    Parameters
    ----------
    cover, links
        Membership (2, N) and links (6, N).
    n
        Number of nodes in CHANGED.
    begun
        Whether each node that was outside DS'_(t-1) has a d_i. If False, all nodes
        are checked.
    """
    n_left, left = 0, -1
    for k in range(n):
        i = links[CHANGED, k]
        if cover[MEMBER, i] == 0:
            n_left += 1
            left = i
    n_others = 0
    if begun and n_left == 0:
        return 0
    if begun and n_left == 1:
        for i in range(cover.shape[1]):
            links[OTHERS, n_others] = i
            n_others += (links[PARTNER, i] == left) | (i == left)
        return n_others
    for i in range(cover.shape[1]):
        if cover[MEMBER, i] == 0:
            partner = links[PARTNER, i]
            if partner < 0 or cover[MEMBER, partner] == 0:
                links[OTHERS, n_others] = i
                n_others += 1
    return n_others


@inlined
def connect(state, n, sign, only_undominated):
    """Find the node d_i for each of the first ``n`` nodes i of OTHERS, and set the edge (d_i, i).

    d_i is the node of DS'_t with the largest ``sign`` times divergence from i (ties: the smallest
    index), as in equation (45) of the JMLR paper. It is written to row PARTNER of ``state.links``.

    Parameters
    ----------
    state
        State with the arrays of ``sfg.RefinedState``.
    n
        Number of nodes in OTHERS.
    sign, only_undominated
        As in ``rewire``.
    """
    edges, cover, links, distance = state.edges, state.cover, state.links, state.distance
    size = 0
    for i in range(cover.shape[1] if n > 0 else 0):
        links[MEMBERS, size] = i  # overwritten by the next node unless i is a member
        size += cover[MEMBER, i]
    for k in range(n):
        i = links[OTHERS, k]
        values = state.divergence.values[i]
        for m in range(size):
            v = sign * values[links[MEMBERS, m]]
            if m == 0 or v > distance[i]:
                links[PARTNER, i] = links[MEMBERS, m]
                distance[i] = v
        set_edge(edges, cover, links, i, only_undominated)


@inlined
def offer(state, j, sign, only_undominated):
    """Make node j the d_i of each node i outside DS'_t whose current d_i is worse than j.

    j is better if ``sign`` times its divergence from i is larger, or equal and j has the smaller
    index.

    Parameters
    ----------
    state
        State with the arrays of ``sfg.RefinedState``.
    j
        Node that entered DS'_t.
    sign, only_undominated
        As in ``rewire``.
    """
    edges, cover, links = state.edges, state.cover, state.links
    distance, to = state.distance, state.divergence.turned[j]
    n = 0
    for i in range(to.shape[0]):
        v = sign * to[i]
        closer = (v > distance[i]) | ((v == distance[i]) & (j < links[PARTNER, i]))
        links[OTHERS, n] = i
        n += closer & (cover[MEMBER, i] == 0)
    for k in range(n):
        i = links[OTHERS, k]
        distance[i] = sign * to[i]
        links[PARTNER, i] = j
        set_edge(edges, cover, links, i, only_undominated)


@inlined
def set_edge(edges, cover, links, i, only_undominated):
    """Set the added edge of node i to (d_i, i), or remove it.

    Node i has no added edge if it has no d_i, if the original graph already has the edge (d_i, i),
    or if ``only_undominated`` and DS'_t already reaches i.

    Parameters
    ----------
    edges, cover, links
        Graph (3, N, M), membership (2, N) and links (6, N).
    i
        Node whose edge is set.
    only_undominated
        As in ``rewire``.
    """
    j = links[PARTNER, i]
    if only_undominated and cover[COVERS, i] > 0:
        j = -1
    if j >= 0:
        n_equal = 0
        for m in range(edges.shape[2]):
            n_equal += 1 if edges[OUT, j, m] == i else 0
        j = -1 if n_equal > 0 else j
    before = links[REFINED, i]
    if before >= 0:
        links[N_REFINED, before] -= 1
    if j >= 0:
        links[N_REFINED, j] += 1
    links[REFINED, i] = j
