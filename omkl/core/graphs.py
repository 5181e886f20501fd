"""Feedback graphs over a dictionary: construction, dominating set, in-neighbours.

A graph of N nodes with M out-neighbours each takes O(N M) memory to keep and to build:
the divergences between all kernels are worked through a block of rows at a time.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from omkl.core.divergence import distance_rows, divergence_rows, matrix_of, ranks
from omkl.core.jit import compiled
from omkl.core.overlaps import LARGEST_MATRIX, LOG_2, OverlapPieces, Overlaps, overlap_rows
from omkl.core.weights import add_logs, log_one_minus_exp

BLOCK = 2**18  # divergences held at a time

# A matrix, overlaps, or what registers ``distances_from`` and has own (N,).
Distances = Any


def graphs_by(
    reading: str, divergence: Distances, Ms: Iterable[int], logs: bool = True
) -> dict[int, np.ndarray]:
    """The graph (N, M) of algorithm 4 in one of its readings (``sfg``), for each M."""
    if reading == "one_pass":
        return one_pass_graphs(divergence, Ms, logs)
    if reading == "nearest":
        return {M: similarity_graph(divergence, M) for M in Ms}
    return {M: dissimilarity_graph(divergence, M, logs) for M in Ms}


def dissimilarity_graph(divergence: Distances, M: int, logs: bool = True) -> np.ndarray:
    """Out-neighbours (N, M) of a graph whose every node sees M mutually dissimilar kernels.

    Ghari and Shen, JMLR, algorithm 4: node i starts with itself, and j joins
    while its mean divergence from the out-neighbours so far is at least
    gamma_i, the largest threshold that leaves M of them. Read as: the kernel
    with the largest mean divergence from those already there joins next (ties:
    the smallest index); gamma_i is then the mean divergence of the last to join.

    divergence is what ``overlaps.overlaps`` returns, or a matrix (N, N): the log of Delta; with
    ``logs=False`` Delta itself, which may then be negative. Of overlaps, candidates j are compared
    by k own_j - 2 sum of overlap(m, j) over the k kernels m already there: the sum of Delta(m, j)
    without what does not depend on j. The first column is the node itself. O(N^2 M) time. Raises
    ValueError for M outside [1, N].
    """
    N = _n_kernels(divergence, M)
    join = _join_by_overlap if isinstance(divergence, Overlaps | OverlapPieces) else _join_by_value
    out = np.empty((N, M), dtype=np.int64)
    for nodes in _blocks(N):
        some = out[nodes]
        some[:, 0] = nodes
        join(divergence, some, logs)
        out[nodes] = some
    return out


def _join_by_value(delta: Distances, some: np.ndarray, logs: bool) -> None:
    """Fill the rows of out-neighbours from the sums of Delta."""

    def rows_of(nodes: np.ndarray) -> np.ndarray:
        if isinstance(delta, np.ndarray):
            return delta[nodes]
        joined, which = np.unique(nodes, return_inverse=True)
        return distance_rows(delta, joined, len(delta.own))[which]

    total = rows_of(some[:, 0])
    for m in range(1, some.shape[1]):
        np.put_along_axis(total, some[:, :m], -np.inf, axis=1)
        best = total.argmax(axis=1)
        for r in np.flatnonzero((some[:, :m] == best[:, None]).any(axis=1)):
            # Copies of one kernel have nothing above -inf left: take the next free index.
            best[r] = _smallest_missing(some[r, :m])
        some[:, m] = best
        if m < some.shape[1] - 1:
            total = np.logaddexp(total, rows_of(best)) if logs else total + rows_of(best)


def _join_by_overlap(source: Overlaps | OverlapPieces, some: np.ndarray, logs: bool) -> None:
    """Fill the rows of out-neighbours from the sums of overlaps."""
    n, M = some.shape
    N = len(source.own)
    total = overlap_rows(source, some[:, 0])  # log of the sum of overlaps, +inf for those there
    total = total.copy() if isinstance(source, Overlaps) else total
    own_there = source.own[some[:, 0]]  # log of the sum of own over those there
    by_own = np.argsort(-source.own, kind="stable")
    size, sign, scratch = np.empty(n), np.empty(n), np.empty(N)
    for m in range(1, M):
        np.put_along_axis(total, some[:, :m], np.inf, axis=1)
        _farthest(total, source.own, by_own, float(m), some[:, m], size, sign)
        # The sum of Delta of the farthest is below half of that of own: they cancel in it.
        for r in np.flatnonzero((sign < 0.0) & (size + math.log(m) > own_there - LOG_2)):
            delta = np.logaddexp.reduce(divergence_rows(source, some[r, :m]), axis=0)
            delta[some[r, :m]] = -np.inf
            best = int(delta.argmax())
            some[r, m] = best if best not in some[r, :m] else _smallest_missing(some[r, :m])
        if m < M - 1:
            own_there = np.logaddexp(own_there, source.own[some[:, m]])
            joined, which = np.unique(some[:, m], return_inverse=True)
            _add_rows(total, overlap_rows(source, joined), which, scratch)


@compiled
def _farthest(total, own, by_own, k, best, size, sign):
    """best[r] = the smallest j with the largest k own_j - 2 sum of overlaps, in row r.

    All are logarithms; size[r] is that of the absolute value, divided by k, and sign[r] its sign.
    by_own (N,) lists the kernels by falling own.
    """
    share = math.log(2.0 / k)
    N = own.shape[0]
    for r in range(total.shape[0]):
        found = -1
        top = -np.inf
        for m in range(N):
            j = by_own[m]
            if own[j] < top:
                break  # the overlaps only take from it
            x = share + total[r, j] - own[j]
            if x < 0.0:
                value = own[j] + log_one_minus_exp(x)
                if value > top or (value == top and j < found):
                    top, found = value, j
        sign[r] = 1.0
        if found < 0:  # all are negative or 0: the smallest in size
            sign[r] = -1.0
            top = np.inf
            for m in range(N - 1, -1, -1):
                j = by_own[m]
                twice = share + total[r, j]
                x = twice - own[j]
                if x > LOG_2 and twice - LOG_2 > top:
                    continue  # more than half of twice the overlaps is left
                value = twice + log_one_minus_exp(-x)
                if value < top or (value == top and j < found):
                    top, found = value, j
        best[r] = found
        size[r] = top


@compiled
def _add_rows(total, rows, which, scratch):
    """total[r] <- log(exp(total[r]) + exp(rows[which[r]]))."""
    for r in range(total.shape[0]):
        add_logs(total[r], rows[which[r]], scratch)


def one_pass_graphs(
    divergence: np.ndarray | Overlaps, Ms: Iterable[int], logs: bool = True
) -> dict[int, np.ndarray]:
    """Out-neighbours (N, M) by one literal pass of algorithm 4, for each M.

    Node i starts with itself. j = 1, .., N in this order joins if its mean divergence from those
    there so far is at least gamma_i, the largest threshold with which exactly M have joined when
    the pass is over. For some nodes there is no such threshold, as a lower one can let several in
    at once: the largest that leaves more than M is taken then, and the first M of them. Thresholds
    and means are compared as whole numbers of any length.

    divergence is what ``dissimilarity_graph`` takes, of at most 1,024 kernels.
    """
    wanted = sorted(set(Ms))
    N = max(_n_kernels(divergence, M) for M in wanted)
    if isinstance(divergence, OverlapPieces):
        raise ValueError(f"one pass keeps a matrix: at most {LARGEST_MATRIX} kernels, not {N}")
    delta = _whole_numbers(divergence, logs)
    found = {M: np.empty((N, M), dtype=np.int64) for M in wanted}
    for i in range(N):
        exact: dict[int, list[int]] = {}
        more: dict[int, list[int]] = {}
        refused: list[_Candidate] = []
        begin = _Candidate(0, [i], delta[i], (1, 0))
        while len(exact) < len(wanted):
            there = _pass(delta, i, begin, wanted[-1], refused)
            for M in wanted:
                if len(there) == M:
                    exact.setdefault(M, there)
                elif len(there) > M:
                    more.setdefault(M, there[:M])
            if not refused:
                break
            begin = refused.pop()
        for M in wanted:
            found[M][i] = exact.get(M) or more[M]
    return found


class _Candidate(NamedTuple):
    """Kernel j at its turn in a pass of one node.

    there  who has joined by then
    sums   (N - j,) of Delta over these, of kernel j and those behind it
    mean   of Delta over these, as numerator and denominator; 1 / 0 stands for +infinity
    """

    j: int
    there: list[int]
    sums: np.ndarray
    mean: tuple[int, int]


def _pass(
    delta: np.ndarray, i: int, begin: _Candidate, most: int, refused: list[_Candidate]
) -> list[int]:
    """Who joins node i at the threshold ``begin.mean``: a pass from that candidate on.

    ``refused`` are the candidates with a mean below the threshold and above those of all refused
    before them: the last has the next lower threshold, at which everything before it remains as it
    is. On entry it holds those before ``begin``. The pass ends early when more than ``most`` have
    joined. Until a lower threshold lets in one of those refused by then, that remains so.
    """
    j, there, sums = begin.j, list(begin.there), begin.sums
    while len(sums) and len(there) <= most:
        k, n = len(there), len(sums)
        if begin.mean[1]:
            joins = np.flatnonzero(sums >= -(-begin.mean[0] * k // begin.mean[1]))
            joins = joins[joins + j != i]
            n = int(joins[0]) if len(joins) else n
        top = refused[-1].mean[0] * k // refused[-1].mean[1] if refused else 0
        for m, value in enumerate(sums[:n].tolist()):
            if m + j != i and (value > top or not refused):
                refused.append(_Candidate(j + m, list(there), sums[m:], (value, k)))
                top = value
        if n < len(sums):
            there.append(j + n)
            sums = sums[n + 1 :] + delta[j + n, j + n + 1 :]
        else:
            sums = sums[n:]
        j += n + 1
    return there


def _whole_numbers(divergence: np.ndarray | Overlaps, logs: bool) -> np.ndarray:
    """Delta (N, N) times one power of two, as Python's whole numbers: no digit is lost."""
    if isinstance(divergence, Overlaps):
        overlap = _scaled(divergence.values)
        own = np.diagonal(overlap)
        return own[:, None] + own[None, :] - 2 * overlap
    if logs:
        return _scaled(divergence)
    fraction, exponent = np.frexp(divergence)
    return _shifted(fraction, exponent)


def _scaled(log: np.ndarray) -> np.ndarray:
    """exp(log) times one power of two, as whole numbers."""
    exponent = np.where(np.isfinite(log), np.floor(log / math.log(2.0)), 0.0)
    return _shifted(np.exp(log - exponent * math.log(2.0)), exponent.astype(np.int64))


def _shifted(fraction: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    lowest = int(exponent[fraction != 0.0].min(initial=0))
    result = np.zeros(fraction.shape, dtype=object)
    for place in np.ndindex(fraction.shape):
        shift = int(exponent[place]) - lowest
        result[place] = int(fraction[place] * 2.0**53) << shift if fraction[place] else 0
    return result


def similarity_graph(divergence: Distances, M: int) -> np.ndarray:
    """Out-neighbours (N, M) of a graph whose every node sees the M kernels most like its own.

    Ghari and Shen, first version (arXiv), algorithm 1: an edge from i to j where
    Delta(i, j) <= gamma_i, the largest threshold that leaves M of them, node i
    among them (Delta(i, i) = 0). Every gamma from the M-th smallest divergence up
    to the next one gives this graph; equal divergences go to the smallest index.

    divergence is what ``overlaps.overlaps`` returns, or a matrix (N, N): Delta or its logarithm.
    The first column is the node itself. O(N^2 log N) time.
    """
    N = _n_kernels(divergence, M)
    given = matrix_of(ranks(divergence)) if isinstance(divergence, Overlaps) else divergence
    given = matrix_of(given) if isinstance(given, np.ndarray) else given
    out = np.empty((N, M), dtype=np.int64)
    for nodes in _blocks(N):
        order = np.argsort(distance_rows(given, nodes, N), axis=1, kind="stable")
        near = order[:, :M]
        left_out = near == nodes[:, None]
        left_out[~left_out.any(axis=1), -1] = True  # copies of a kernel may precede it
        out[nodes, 0] = nodes
        out[nodes, 1:] = near[~left_out].reshape(len(nodes), M - 1)
    return out


def _n_kernels(divergence: Distances, M: int) -> int:
    N = len(divergence if isinstance(divergence, np.ndarray) else divergence.own)
    if not 1 <= M <= N:
        raise ValueError(f"M={M} out-neighbours lie outside [1, N={N}]")
    return N


def _blocks(N: int) -> Iterator[np.ndarray]:
    size = max(1, BLOCK // N)
    for start in range(0, N, size):
        yield np.arange(start, min(N, start + size))


def _smallest_missing(present: np.ndarray) -> int:
    free = np.ones(len(present) + 1, dtype=bool)
    free[present[present <= len(present)]] = False
    return int(free.argmax())


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
