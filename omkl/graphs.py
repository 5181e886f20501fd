"""Feedback graphs over a dictionary: construction, dominating set, in-neighbours."""

from __future__ import annotations

import numpy as np


def dissimilarity_graph(
    log_divergence: np.ndarray, M: int, add: np.ufunc = np.logaddexp
) -> np.ndarray:
    """Out-neighbours (N, M) of a graph whose every node sees M mutually dissimilar kernels.

    Ghari and Shen, JMLR, algorithm 4: node i starts with itself, and j joins
    while its mean divergence from the out-neighbours so far is at least
    gamma_i, the largest threshold that leaves M of them. Read as: the kernel
    with the largest mean divergence from those already there joins next (ties:
    the smallest index); gamma_i is then the mean divergence of the last to join.

    log_divergence (N, N) is the log of Delta; with ``add=np.add`` it is Delta itself,
    which may then be negative. The first column is the node itself.
    """
    N = len(log_divergence)
    if not 1 <= M <= N:
        raise ValueError(f"M={M} out-neighbours lie outside [1, N={N}]")
    out = np.empty((N, M), dtype=np.int64)
    out[:, 0] = np.arange(N)
    # The sum of divergences orders candidates as their mean does.
    log_sum = log_divergence.copy()
    chosen = np.eye(N, dtype=bool)
    rows = np.arange(N)
    for m in range(1, M):
        candidates = np.where(chosen, -np.inf, log_sum)
        best = candidates.argmax(axis=1)
        # A row of copies of one kernel has nothing above -inf left: take the next free index.
        blank = chosen[rows, best]
        if blank.any():
            best[blank] = (~chosen[blank]).argmax(axis=1)
        out[:, m] = best
        chosen[rows, best] = True
        log_sum = add(log_sum, log_divergence[best])
    return out


def similarity_graph(log_divergence: np.ndarray, M: int) -> np.ndarray:
    """Out-neighbours (N, M) of a graph whose every node sees the M kernels most like its own.

    Ghari and Shen, first version (arXiv), algorithm 1: an edge from i to j where
    Delta(i, j) <= gamma_i, the largest threshold that leaves M of them, node i
    among them (Delta(i, i) = 0). Every gamma from the M-th smallest divergence up
    to the next one gives this graph; equal divergences go to the smallest index.

    log_divergence (N, N) is the log of Delta. The first column is the node itself.
    """
    N = len(log_divergence)
    if not 1 <= M <= N:
        raise ValueError(f"M={M} out-neighbours lie outside [1, N={N}]")
    own = np.arange(N)[:, None]
    order = np.argsort(log_divergence, axis=1, kind="stable")
    others = order[order != own].reshape(N, N - 1)  # copies of a kernel may precede it
    return np.hstack([own, others[:, : M - 1]])


def dominating_set(out: np.ndarray) -> np.ndarray:
    """Nodes (sorted) whose out-neighbourhoods cover all N nodes, by greedy set cover.

    Chvatal (1979): take the node that covers most uncovered nodes (ties: the
    smallest index) until none is left. out (N, M) with every node its own
    out-neighbour.
    """
    N = len(out)
    uncovered = np.ones(N, dtype=bool)
    chosen: list[int] = []
    while uncovered.any():
        best = int(uncovered[out].sum(axis=1).argmax())
        chosen.append(best)
        uncovered[out[best]] = False
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
