"""Refining a graph in every round: which nodes change, and their new edges.

Lists are filled without asking: a number is written, and overwritten where it does not belong.
Branches on who is a member would be guessed wrong, and each wrong guess takes as long as a pack.
"""

from __future__ import annotations

import functools

import numpy as np

from omkl.core.divergence import Matrix, distances_from, distances_to
from omkl.core.jit import dispatch, inlined
from omkl.core.node_sampler import COUNT, COVERS, MEMBER, OUT, is_fresh, toggle_member
from omkl.core.overlaps import OverlapPieces
from omkl.core.simd import LANES, at_least, below, largest, load, pack

# Rows of the links: the nodes of DS'_t in rising order, as many as there are; the d_i of node i
# outside DS'_t, -1 inside; the node d_i whose edge to i was added, -1 where none was; edges added
# at a node; nodes that enter or leave DS'_t, and nodes that need a d_i, for as long as that takes;
# how many candidates for d_i are known; 1 if they are all there are in DS'_t.
MEMBERS, PARTNER, REFINED, N_REFINED, CHANGED, OTHERS, N_NEAR, WHOLE = range(8)

FOUND, SPARE = range(2)

CANDIDATES = 32  # for each d_i: so often its node may leave DS'_t before all are compared anew


@inlined
def rank_largest(values, best):
    """The k-th largest of values (N,); best (k,) is filled with the k largest, in falling order."""
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
    """DS'_t, and the edges (d_i, i) that make it a dominating set.

    d_i is the node of DS'_t with the largest divergence from i for sign = 1, the
    smallest for sign = -1. Only the node of the last round has another u now: while it
    stays above the bar, or was below it before, DS'_t and its edges are what they were.
    """
    n = nodes_that_changed(
        state.node[0],
        state.log_u,
        state.cover[MEMBER],
        state.trees[COUNT, 1],
        is_fresh(state.trees),
        state.best,
        state.links[CHANGED],
    )
    if n > 0:
        rewire(state, n, sign, params.only_undominated, False)


@inlined
def nodes_that_changed(node, log_u, member, size, fresh, best, changed):
    """Nodes that enter or leave DS'_t: how many, listed in ``changed`` (N,).

    log_u and member (N,), size of DS'_t, best (rank,).
    """
    N, last = log_u.shape[0], best.shape[0] - 1
    n = 0
    if not fresh:
        bar = rank_largest(log_u, best)
        for i in range(N):
            if (log_u[i] >= bar) != (member[i] == 1):
                changed[n] = i
                n += 1
        return n
    if member[node] == 0 or log_u[node] >= best[last]:
        return n
    if size > best.shape[0]:  # nodes tie for the last rank: enough of them are left
        changed[0] = node
        return 1
    # The best of those outside, or the node itself, takes its rank: all others are above it.
    bar = largest_below(log_u, best[last])
    best[last] = bar
    n = list_equal(log_u, bar, node, changed)
    if bar > log_u[node]:
        changed[n] = node
        n += 1
    return n


@inlined
def largest_below(values, bound):
    """The largest of values (N,) that is less than the bound, or -inf."""
    N = values.shape[0]
    found = pack(-np.inf)
    j = 0
    while j + LANES <= N:
        found = at_least(below(load(values, j), bound), found)
        j += LANES
    top = largest(found)
    for i in range(j, N):
        top = values[i] if top < values[i] < bound else top
    return top


@inlined
def list_equal(values, number, left_out, found):
    """Indices of values (N,) that are equal to the number, but for one: how many, listed."""
    n = 0
    for i in range(values.shape[0]):
        if values[i] == number and i != left_out:
            found[n] = i
            n += 1
    return n


@inlined
def rewire(state, n, sign, only_undominated, everyone):
    """The first ``n`` of the changed enter or leave DS'_t: every d_i and the edges that follow.

    everyone: the nodes of DS'_t have a d_i too. Arrays of the state as in ``sfg_r.State``.
    """
    edges, trees, cover, links = state.edges, state.trees, state.cover, state.links
    begun = trees[COUNT, 1] > 0.0
    for k in range(n):
        toggle_member(edges, trees, cover, links[CHANGED, k])
    connect(state, list_unconnected(cover, links, n, begun, everyone), sign, only_undominated)
    # Those that entered may be a better d_i, and need none.
    for k in range(n):
        i = links[CHANGED, k]
        if cover[MEMBER, i] == 1:
            if not everyone:
                links[PARTNER, i] = -1
                links[N_NEAR, i] = 0  # it hears of no more candidates
                set_edge(edges, cover, links, i, only_undominated)
            offer(state.divergence, state, i, sign, only_undominated, everyone)
    if only_undominated:  # whom they reach has changed
        for k in range(n):
            for m in range(edges.shape[2]):
                set_edge(edges, cover, links, edges[OUT, links[CHANGED, k], m], True)


@inlined
def list_members(cover, links):
    """DS'_t in rising order: from cover (2, N) to links (8, N)."""
    size = 0
    for i in range(cover.shape[1]):
        links[MEMBERS, size] = i  # to stay, or to be overwritten
        size += cover[MEMBER, i]


@inlined
def list_unconnected(cover, links, n, begun, everyone):
    """Those that lost their d_i, or left DS'_t and have none yet: how many, listed in OTHERS.

    cover (2, N), links (8, N); begun: the others have a d_i.
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
        itself = -1 if everyone else left
        for i in range(cover.shape[1]):
            links[OTHERS, n_others] = i
            n_others += (links[PARTNER, i] == left) | (i == itself)
        return n_others
    for i in range(cover.shape[1]):
        if everyone or cover[MEMBER, i] == 0:
            partner = links[PARTNER, i]
            if partner < 0 or cover[MEMBER, partner] == 0:
                links[OTHERS, n_others] = i
                n_others += 1
    return n_others


@inlined
def list_outside(cover, links, everyone):
    """Those that have a d_i: how many, listed in OTHERS; cover (2, N), links (8, N)."""
    n_others = 0
    for i in range(cover.shape[1]):
        links[OTHERS, n_others] = i
        n_others += 1 if everyone or cover[MEMBER, i] == 0 else 0
    return n_others


@inlined
def connect(state, n, sign, only_undominated):
    """d_i of the first ``n`` of the others, (45), whose d_i has left DS'_t: from near (N, K)."""
    edges, cover, links, scratch = state.edges, state.cover, state.links, state.scratch
    near, distance = state.near, state.distance
    size = int(state.trees[COUNT, 1])
    left = 0
    for k in range(n):
        i = links[OTHERS, k]
        j = next_candidate(cover, links, near[i], distance[i], i)
        links[PARTNER, i] = j
        if j < 0:
            links[OTHERS, left] = i
            links[WHOLE, i] = 0 if size < n else 1
            left += 1
        else:
            set_edge(edges, cover, links, i, only_undominated)
    if left > 0:
        list_members(cover, links)
    if size < n:  # few candidates, many nodes: the best for each is enough
        for m in range(size):
            j = links[MEMBERS, m]
            distances_to(state.divergence, j, links[OTHERS], left, scratch[FOUND], scratch[SPARE])
            keep_best(links[OTHERS], left, scratch[FOUND], sign, j, m == 0, near, distance)
        for k in range(left):
            i = links[OTHERS, k]
            links[N_NEAR, i] = 1
            links[PARTNER, i] = near[i, 0]
            set_edge(edges, cover, links, i, only_undominated)
        return
    for k in range(left):
        i = links[OTHERS, k]
        distances_from(state.divergence, i, links[MEMBERS], size, scratch[FOUND], scratch[SPARE])
        for m in range(size):
            v = sign * scratch[FOUND, m]
            if m < near.shape[1] or v > distance[i, near.shape[1] - 1]:
                insert(links, near[i], distance[i], i, links[MEMBERS, m], v)
            else:
                links[WHOLE, i] = 0
        links[PARTNER, i] = near[i, 0]
        set_edge(edges, cover, links, i, only_undominated)


@inlined
def keep_best(others, n, found, sign, j, first, near, distance):
    """Node j becomes the best so far of those among ``others`` (N,) that it suits best.

    found (N,) divergences of the first ``n``; near and distance (N, K).
    """
    for k in range(n):
        i = others[k]
        v = sign * found[k]
        if first or v > distance[i, 0]:
            near[i, 0] = j
            distance[i, 0] = v


@inlined
def next_candidate(cover, links, near, distance, i):
    """The best of the candidates of node i that is in DS'_t, now the first; -1 for none.

    cover (2, N), links (8, N); near and distance (K,) of node i.
    """
    n = links[N_NEAR, i]
    gone = 0
    while gone < n and cover[MEMBER, near[gone]] == 0:
        gone += 1
    if gone > 0:
        for k in range(gone, n):
            near[k - gone] = near[k]
            distance[k - gone] = distance[k]
        links[N_NEAR, i] = n - gone
    return near[0] if n > gone else -1


@inlined
def insert(links, near, distance, i, j, v):
    """Node j becomes a candidate of node i, in the order of distance (ties: of index).

    links (8, N); near and distance (K,) of node i. Of more than K the worst is dropped. From
    then on nobody worse than the last may be let in, for one of those dropped could be better.
    """
    n, K = links[N_NEAR, i], near.shape[0]
    for k in range(n):
        if near[k] == j:  # it was in DS'_t before
            return
    k = n
    while k > 0 and (v > distance[k - 1] or (v == distance[k - 1] and j < near[k - 1])):
        k -= 1
    if k == K or (k == n and links[WHOLE, i] == 0):
        links[WHOLE, i] = 0
        return
    if n == K:
        links[WHOLE, i] = 0
        n -= 1
    for m in range(n, k, -1):
        near[m] = near[m - 1]
        distance[m] = distance[m - 1]
    near[k] = j
    distance[k] = v
    links[N_NEAR, i] = n + 1


@functools.singledispatch
def offer(divergence, state, j, sign, only_undominated, everyone):
    """Node j becomes a candidate of the others, near (N, K), or their d_i."""
    raise TypeError(f"{type(divergence)} holds no distances")


def offer_computed(divergence, state, j, sign, only_undominated, everyone):
    """``offer`` where distances are computed, and those of many candidates kept."""
    edges, cover, links, scratch = state.edges, state.cover, state.links, state.scratch
    near, distance = state.near, state.distance
    n = list_outside(cover, links, everyone)
    distances_to(divergence, j, links[OTHERS], n, scratch[FOUND], scratch[SPARE])
    for k in range(n):
        i = links[OTHERS, k]
        v = sign * scratch[FOUND, k]
        if links[WHOLE, i] == 0 and v < distance[i, links[N_NEAR, i] - 1]:
            continue
        insert(links, near[i], distance[i], i, j, v)
        first = next_candidate(cover, links, near[i], distance[i], i)
        if first != links[PARTNER, i]:
            links[PARTNER, i] = first
            set_edge(edges, cover, links, i, only_undominated)


def _offer_in_matrix(divergence, state, j, sign, only_undominated, everyone):
    """``offer`` where a distance is a look into a matrix: the one candidate (N, 1) is the d_i."""
    edges, cover, links = state.edges, state.cover, state.links
    near, distance, to = state.near, state.distance, divergence.turned[j]
    n = 0
    for i in range(to.shape[0]):
        v = sign * to[i]
        closer = (v > distance[i, 0]) | ((v == distance[i, 0]) & (j < near[i, 0]))
        links[OTHERS, n] = i
        n += closer & (everyone | (cover[MEMBER, i] == 0))
    for k in range(n):
        i = links[OTHERS, k]
        near[i, 0] = j
        distance[i, 0] = sign * to[i]
        links[PARTNER, i] = j
        set_edge(edges, cover, links, i, only_undominated)


dispatch(offer, Matrix, _offer_in_matrix)
dispatch(offer, OverlapPieces, offer_computed)


@inlined
def set_edge(edges, cover, links, i, only_undominated):
    """The edge (d_i, i) of links (8, N), unless it is one of edges (3, N, M), or not needed."""
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
