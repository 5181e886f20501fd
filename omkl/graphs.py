"""Feedback graphs over a dictionary: construction, dominating set, in-neighbours.

A graph of N nodes with M out-neighbours each takes O(N M) memory to keep and to build:
the divergences between all kernels are worked through a block of rows at a time.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

import numpy as np

from omkl.jit import compiled
from omkl.kernels import Matrix, rows_of
from omkl.weights import add_logs

BLOCK = 2**18  # divergences held at a time


def dissimilarity_graph(divergence: Any, M: int, logs: bool = True) -> np.ndarray:
    """Out-neighbours (N, M) of a graph whose every node sees M mutually dissimilar kernels.

    Ghari and Shen, JMLR, algorithm 4: node i starts with itself, and j joins
    while its mean divergence from the out-neighbours so far is at least
    gamma_i, the largest threshold that leaves M of them. Read as: the kernel
    with the largest mean divergence from those already there joins next (ties:
    the smallest index); gamma_i is then the mean divergence of the last to join.

    divergence is what ``kernels.divergences`` takes, or the matrix (N, N): the log of Delta;
    with ``logs=False`` it is Delta itself, which may then be negative. The first column is
    the node itself. O(N^2 M) time.
    """
    divergence, N = _checked(divergence, M)
    out = np.empty((N, M), dtype=np.int64)
    for nodes in _blocks(N):
        # The sum of divergences orders candidates as their mean does.
        total = rows_of(divergence, nodes)
        total = total.copy() if isinstance(divergence, Matrix) else total
        some = out[nodes]
        some[:, 0] = nodes
        for m in range(1, M):
            np.put_along_axis(total, some[:, :m], -np.inf, axis=1)
            best = total.argmax(axis=1)
            for r in np.flatnonzero((some[:, :m] == best[:, None]).any(axis=1)):
                # Copies of one kernel have nothing above -inf left: take the next free index.
                best[r] = _smallest_missing(some[r, :m])
            some[:, m] = best
            if m < M - 1:
                joined, which = np.unique(best, return_inverse=True)
                _add_rows(total, rows_of(divergence, joined), which, logs, np.empty(N))
        out[nodes] = some
    return out


def similarity_graph(divergence: Any, M: int) -> np.ndarray:
    """Out-neighbours (N, M) of a graph whose every node sees the M kernels most like its own.

    Ghari and Shen, first version (arXiv), algorithm 1: an edge from i to j where
    Delta(i, j) <= gamma_i, the largest threshold that leaves M of them, node i
    among them (Delta(i, i) = 0). Every gamma from the M-th smallest divergence up
    to the next one gives this graph; equal divergences go to the smallest index.

    divergence is what ``kernels.divergences`` takes, or the matrix (N, N): the log of Delta.
    The first column is the node itself. O(N^2 log N) time.
    """
    divergence, N = _checked(divergence, M)
    out = np.empty((N, M), dtype=np.int64)
    for nodes in _blocks(N):
        order = np.argsort(rows_of(divergence, nodes), axis=1, kind="stable")
        others = order[order != nodes[:, None]].reshape(len(nodes), N - 1)
        out[nodes, 0] = nodes  # copies of a kernel may precede it
        out[nodes, 1:] = others[:, : M - 1]
    return out


def _checked(divergence: Any, M: int) -> tuple[Any, int]:
    if isinstance(divergence, np.ndarray):
        divergence = Matrix(divergence)
    N = divergence.n_kernels
    if not 1 <= M <= N:
        raise ValueError(f"M={M} out-neighbours lie outside [1, N={N}]")
    return divergence, N


def _blocks(N: int) -> Iterator[np.ndarray]:
    size = max(1, BLOCK // N)
    for start in range(0, N, size):
        yield np.arange(start, min(N, start + size))


def _smallest_missing(present: np.ndarray) -> int:
    free = np.ones(len(present) + 1, dtype=bool)
    free[present[present <= len(present)]] = False
    return int(free.argmax())


@compiled
def _add_rows(total, rows, which, logs, room):
    """total[r] <- total[r] + rows[which[r]], or the same of what they are the logarithms of."""
    for r in range(total.shape[0]):
        if logs:
            add_logs(total[r], rows[which[r]], room)
        else:
            for j in range(total.shape[1]):
                total[r, j] += rows[which[r], j]


def dominating_set(out: np.ndarray) -> np.ndarray:
    """Nodes (sorted) whose out-neighbourhoods cover all N nodes, by greedy set cover.

    Chvatal (1979): take the node that covers most uncovered nodes (ties: the
    smallest index) until none is left. out (N, M) with every node its own
    out-neighbour. What a node covers anew only shrinks, so an entry of the queue that is
    still true when it comes up is the best of all.
    """
    N, M = out.shape
    covered = np.zeros(N, dtype=bool)
    n_left = N
    queue = [(-M, i) for i in range(N)]
    chosen: list[int] = []
    while n_left:
        promised, i = heapq.heappop(queue)
        gain = M - int(np.count_nonzero(covered[out[i]]))
        if gain == -promised:
            chosen.append(i)
            covered[out[i]] = True
            n_left -= gain
        elif gain:
            heapq.heappush(queue, (-gain, i))
    return np.array(sorted(chosen), dtype=np.int64)


def in_neighbours(out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The graph (N, M) by its in-edges: start (N + 1,) and source (N M,).

    The in-neighbours of node i are source[start[i] : start[i + 1]].
    """
    N, M = out.shape
    target = out.ravel()
    source = np.repeat(np.arange(N), M)
    order = np.argsort(target, kind="stable")
    start = np.zeros(N + 1, dtype=np.int64)
    np.cumsum(np.bincount(target, minlength=N), out=start[1:])
    return start, source[order].astype(np.int64)
