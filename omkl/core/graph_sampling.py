"""Draws of graph nodes by weight, in O(log N) per round.

With probability xi (exploration), the node is drawn uniformly from a set of nodes, such as a
dominating set. Otherwise it is drawn in proportion to its weight u.

Only one node changes its weight u in a round. The sums of u over all nodes, and over the
in-neighbours of each kernel, are therefore stored in binary trees. A round recomputes the sums on
one path from a leaf to the root. Each sum is recomputed from its two children, so rounding errors
do not accumulate over rounds.
"""

from __future__ import annotations

import numpy as np

from omkl.core.compiler import inlined
from omkl.core.weights import exp_nonpositive

# Weights are stored as exp(log_u - scale). The scale is changed, and all weights are recomputed, as
# soon as the largest log_u is MOST_FALL below it. Weights below exp(-708) are stored as 0. So a
# weight of more than exp(-644) times the largest weight is never stored as 0.
MOST_FALL = 64.0


# Indices of paths are unsigned (``np.uintp``), which saves 5 % of a round. A signed index may be
# negative, counted from the end. Numba would compare it with 0 and choose between two addresses,
# and each step along a path would wait for this choice.

# Rows of the arrays below.
OUT, FIRST, LEAF = 0, 1, 2  # rows of the edges
MASS, TOP, COUNT = 0, 1, 2  # rows of the trees
MEMBER, COVERS = 0, 1  # rows of the cover


def in_neighbours(out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the in-neighbours of all nodes of a graph (N, M): start (N + 1,) and source (N M,).

    The in-neighbours of node i are source[start[i] : start[i + 1]].
    """
    N, M = out.shape
    target = out.ravel()
    source = np.repeat(np.arange(N), M)
    order = np.argsort(target, kind="stable")
    start = np.zeros(N + 1, dtype=np.int64)
    np.cumsum(np.bincount(target, minlength=N), out=start[1:])
    return start, source[order].astype(np.int64)


def edges_of(out: np.ndarray) -> np.ndarray:
    """Make the edges (3, N, M) of a graph with out-neighbours ``out`` (N, M).

    The result never changes, so all learners on this graph use the same array.

    edges[OUT, i, m]    end of the m-th edge of node i, which is node i itself for m = 0
    edges[FIRST, i, m]  index at which the tree of this end begins in ``in_mass``, see
                        ``empty_in_mass``
    edges[LEAF, i, m]   index of the leaf of this edge within that tree
    """
    N, M = out.shape
    start, _ = in_neighbours(out)
    target = out.ravel()
    order = np.argsort(target, kind="stable")
    leaf = np.empty(N * M, dtype=np.int64)
    leaf[order] = np.arange(N * M) - start[target[order]] + np.diff(start)[target[order]]
    return np.stack([out, 2 * start[out], leaf.reshape(N, M)])


def trees_of(edges: np.ndarray) -> np.ndarray:
    """Make three binary trees (3, 2 P) over N nodes, where P is the least power of two >= N.

    The root of a tree is entry 1, the children of entry k are the entries 2 k and 2 k + 1, and node
    i is entry P + i. Each entry describes the nodes below it. The set of nodes (``cover_of``) is
    empty at first.

    trees[MASS]   sum of exp(log_u - scale), where log_u is the logarithm of a node's weight
    trees[TOP]    largest log_u. Entry 0 is 1.0 or 0.0: see ``is_fresh``
    trees[COUNT]  number of nodes that are in the set
    """
    N = edges.shape[1]
    trees = np.zeros((3, 2 << (N - 1).bit_length()))
    trees[TOP, 1:] = -np.inf
    return trees


def cover_of(edges: np.ndarray) -> np.ndarray:
    """Make an empty set of nodes, such as a dominating set: cover (2, N).

    cover[MEMBER, i]  1 if node i is in the set, else 0
    cover[COVERS, i]  number of in-neighbours of kernel i in the set
    """
    return np.zeros((2, edges.shape[1]), dtype=np.int64)


def empty_in_mass(edges: np.ndarray) -> np.ndarray:
    """Return the initial array (2 N M,) of the sums over the in-neighbours of each kernel.

    The array has one binary tree per kernel. The tree of a kernel with n in-neighbours has 2 n
    entries: entry 0 is n, entry 1 is the sum of exp(log_u - scale) over all in-neighbours, entries
    2 .. n - 1 are partial sums, and entries n .. 2 n - 1 are the terms of the in-neighbours. All
    sums are 0 here.
    """
    in_mass = np.zeros(2 * edges.shape[1] * edges.shape[2])
    np.add.at(in_mass, edges[FIRST], 1.0)
    return in_mass


def stale(trees: np.ndarray) -> None:
    """Mark the trees as out of date. Call it after log_u was changed outside of a round."""
    trees[TOP, 0] = 0.0


@inlined
def is_fresh(trees):
    """Return whether the trees (3, 2 P) agree with log_u.

    The entry of the node drawn in the previous round may differ: ``refresh`` updates it.
    """
    return trees[TOP, 0] == 1.0


@inlined
def refresh(edges, trees, in_mass, scale, log_u, node):
    """Bring the trees up to date with log_u.

    If the trees agree with log_u except at ``node``, only the path from this node to the root is
    recomputed. Otherwise all trees are rebuilt. The sums are the same, to the last bit.

    Parameters
    ----------
    edges, trees, in_mass
        Arrays (3, N, M), (3, 2 P) and (2 N M,).
    scale
        Scale of the sums (1,).
    log_u
        Logarithms of the node weights (N,).
    node
        Node drawn in the previous round.
    """
    mass, top = trees[MASS], trees[TOP]
    if top[0] == 1.0:
        u = exp_nonpositive(log_u[node] - scale[0])
        k = mass.shape[0] // 2 + node
        mass[np.uintp(k)] = u
        top[np.uintp(k)] = log_u[node]
        # Each sum is recomputed from its two children, in either order: a + b = b + a exactly.
        # Adding the change of u to each sum instead would accumulate rounding errors.
        sum_below, top_below = u, log_u[node]
        while k > 1:
            sum_below += mass[np.uintp(k ^ 1)]
            top_below = max(top_below, top[np.uintp(k ^ 1)])
            k >>= 1
            mass[np.uintp(k)] = sum_below
            top[np.uintp(k)] = top_below
        first, leaf = edges[FIRST, node], edges[LEAF, node]
        for m in range(edges.shape[2]):
            tree = first[m]
            k = leaf[m]
            sum_below = u
            in_mass[np.uintp(tree + k)] = u
            while k > 1:
                sum_below += in_mass[np.uintp(tree + (k ^ 1))]
                k >>= 1
                in_mass[np.uintp(tree + k)] = sum_below
    if top[0] != 1.0 or top[1] < scale[0] - MOST_FALL:
        begin(mass, top, scale, log_u)
        begin_in_mass(edges, in_mass, mass)


@inlined
def begin(mass, top, scale, log_u):
    """Rebuild mass and top (2 P,) from log_u (N,).

    If the largest log_u is above the scale, or more than MOST_FALL below the scale, the scale
    becomes the largest log_u.

    Parameters
    ----------
    mass, top
        Rows of the trees (2 P,).
    scale
        Scale of the sums (1,).
    log_u
        Logarithms of the node weights (N,).
    """
    N = log_u.shape[0]
    P = mass.shape[0] // 2
    for i in range(N):
        top[P + i] = log_u[i]
    for k in range(P - 1, 0, -1):
        top[k] = max(top[2 * k], top[2 * k + 1])
    if not scale[0] - MOST_FALL <= top[1] <= scale[0]:
        scale[0] = top[1]
    for i in range(N):
        mass[P + i] = exp_nonpositive(log_u[i] - scale[0])
    for k in range(P - 1, 0, -1):
        mass[k] = mass[2 * k] + mass[2 * k + 1]
    top[0] = 1.0


@inlined
def begin_in_mass(edges, in_mass, mass):
    """Rebuild the sums over in-neighbours in_mass (2 N M,) from mass (2 P,).

    Parameters
    ----------
    edges
        Graph (3, N, M).
    in_mass
        Output (2 N M,).
    mass
        Row MASS of the trees (2 P,).
    """
    P = mass.shape[0] // 2
    for i in range(edges.shape[1]):
        for m in range(edges.shape[2]):
            in_mass[edges[FIRST, i, m] + edges[LEAF, i, m]] = mass[P + i]
    for i in range(edges.shape[1]):
        first = edges[FIRST, i, 0]
        for k in range(int(in_mass[first]) - 1, 0, -1):
            in_mass[first + k] = in_mass[first + 2 * k] + in_mass[first + 2 * k + 1]


@inlined
def toggle_member(edges, trees, cover, i):
    """Add node i to the set if it is not a member, else remove it.

    Parameters
    ----------
    edges, trees, cover
        Graph (3, N, M), trees (3, 2 P) and set (2, N).
    i
        Node.
    """
    change = 1 - 2 * cover[MEMBER, i]
    cover[MEMBER, i] += change
    k = trees.shape[1] // 2 + i
    while k > 0:
        trees[COUNT, k] += change
        k >>= 1
    for m in range(edges.shape[2]):
        cover[COVERS, edges[OUT, i, m]] += change


@inlined
def probability(trees, i, xi):
    """Return the probability p of drawing node i: (1 - xi) u_i / U, plus xi / size for members.

    U is the sum of all weights u. Members are the nodes of the set, and size is their number.

    Parameters
    ----------
    trees
        Trees (3, 2 P).
    i
        Node.
    xi
        Exploration in [0, 1].
    """
    k = trees.shape[1] // 2 + i
    share = trees[COUNT, k] / trees[COUNT, 1]
    return (1.0 - xi) * (trees[MASS, k] / trees[MASS, 1]) + xi * share


@inlined
def in_probabilities(edges, trees, in_mass, cover, kernels, n, xi, q):
    """Write q[i], the sum of ``probability`` over the in-neighbours of i, for some kernels i.

    Parameters
    ----------
    edges, trees, in_mass, cover
        Arrays (3, N, M), (3, 2 P), (2 N M,) and (2, N).
    kernels, n
        Kernels (N,), of which the first n count.
    xi
        Exploration in [0, 1].
    q
        Output (N,).
    """
    total, size = trees[MASS, 1], trees[COUNT, 1]
    for m in range(n):
        i = np.uintp(kernels[m])
        mass = in_mass[np.uintp(edges[FIRST, i, 0] + 1)]
        q[i] = (1.0 - xi) * (mass / total) + xi * (cover[COVERS, i] / size)


@inlined
def draw_node(trees, xi, v):
    """Draw a node by ``probability``: the first node whose cumulative probability exceeds v.

    If rounding leaves the total probability below v, return the last node with a positive
    probability.

    Parameters
    ----------
    trees
        Trees (3, 2 P).
    xi
        Exploration in [0, 1].
    v
        Uniform number in [0, 1).
    """
    per_mass, per_count = (1.0 - xi) / trees[MASS, 1], xi / trees[COUNT, 1]
    P = trees.shape[1] // 2
    k = 1
    while k < P:
        k *= 2
        # Go right only if a node there has a positive probability, because rounding may leave v
        # at or above the whole sum.
        here, beside = np.uintp(k), np.uintp(k + 1)
        left = per_mass * trees[MASS, here] + per_count * trees[COUNT, here]
        if not v < left and (trees[MASS, beside] > 0.0 or trees[COUNT, beside] > 0.0):
            v -= left
            k += 1
    return k - P


@inlined
def best_node(trees):
    """Return the node with the largest log_u (ties: the smallest index), from trees (3, 2 P)."""
    top = trees[TOP]
    P = top.shape[0] // 2
    k = 1
    while k < P:
        k *= 2
        k += 1 if top[k + 1] > top[k] else 0
    return k - P


@inlined
def clear(q, evaluate, n):
    """Set q to NaN for the kernels that the previous round evaluated.

    Parameters
    ----------
    q
        Probabilities (N,).
    evaluate, n
        Kernels (N,), of which the first n were evaluated. All of q is set if n = 0.
    """
    if n == 0:  # a new selection lists no kernels, but the state may come from a file
        q[:] = np.nan
    for m in range(n):
        q[evaluate[m]] = np.nan
