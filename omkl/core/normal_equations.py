"""Normal equations of ridge regressions on random features: one kernel after the other.

What is summed over the rounds is b b' with b = [z(x), y, 0 ..]: Z'Z, bordered by Z'y and y'y. The
features of a tile of rounds stay in level 1 until they are added, and no call goes back to the
interpreter before a block is done: threads need not wait for each other.
"""

from __future__ import annotations

import math

import numpy as np

from omkl.core.jit import compiled, inlined
from omkl.core.simd import LANES, aligned, fma, load, pack, store
from omkl.core.trigonometry import sincos_of_pack

ROWS = 32  # of a tile: 27 KB for D = 50
HEIGHT = 4  # rows of a sum that are held in registers at once


def empty_moments(N: int, D: int) -> np.ndarray:
    """Zeros (N, W, W) for ``add_rounds``; W is 2 D + 1 in whole packs."""
    W = -(-(2 * D + 1) // LANES) * LANES
    return aligned((N, W, W))


def empty_tile(D: int) -> np.ndarray:
    """What a call of ``add_rounds`` writes to: one for each thread."""
    return aligned((ROWS, -(-(2 * D + 1) // LANES) * LANES))


def frequencies(omega: np.ndarray) -> np.ndarray:
    """omega (N, d, D) with rows of whole packs, (N, d, V)."""
    N, d, D = omega.shape
    padded = aligned((N, d, -(-D // LANES) * LANES))
    padded[:, :, :D] = omega
    return padded


@compiled
def add_rounds(padded, D, kernels, X, y, tile, moments):
    """Add rounds X (n, d), y (n,) to the sums of some kernels; only the upper triangle is valid.

    padded (N, d, V) from ``frequencies``, kernels (m,) int64, tile from ``empty_tile``, moments
    (N, W, W) from ``empty_moments``. Row and column 2 D are those of y.
    """
    W = tile.shape[1]
    for m in range(kernels.shape[0]):
        i = kernels[m]
        for first in range(0, X.shape[0], ROWS):
            rows = min(ROWS, X.shape[0] - first)
            _arguments(padded, D, i, X, first, rows, tile)
            _features(D, y, first, rows, tile)
            j = 0
            while j + 3 * LANES <= W:
                for k in range(0, j + 3 * LANES, HEIGHT):
                    _add_three_packs(tile, rows, moments, i, k, j)
                j += 3 * LANES
            while j < W:
                for k in range(0, j + LANES, LANES):
                    _add_pack(tile, rows, moments, i, k, j)
                j += LANES


@inlined
def _arguments(padded, D, i, X, first, rows, tile):
    """omega_i'x for the rows of a tile, where their sines will be; four at once."""
    d = padded.shape[1]
    V = padded.shape[2]
    W = tile.shape[1]
    for row in range(0, rows, 4):
        # A row that is not there is one that is, again.
        r1 = min(row + 1, rows - 1)
        r2 = min(row + 2, rows - 1)
        r3 = min(row + 3, rows - 1)
        for j in range(0, D, LANES):
            w = i * d * V + j
            a = pack(0.0)
            b = pack(0.0)
            c = pack(0.0)
            e = pack(0.0)
            for k in range(d):
                v = load(padded, w)
                a = fma(v, X[first + row, k], a)
                b = fma(v, X[first + r1, k], b)
                c = fma(v, X[first + r2, k], c)
                e = fma(v, X[first + r3, k], e)
                w += V
            n = min(LANES, D - j)
            store(tile, row * W + j, a, n)
            store(tile, r1 * W + j, b, n)
            store(tile, r2 * W + j, c, n)
            store(tile, r3 * W + j, e, n)


@inlined
def _features(D, y, first, rows, tile):
    """Make z(x) and y of the arguments in a tile."""
    W = tile.shape[1]
    scale = 1.0 / math.sqrt(D)
    for row in range(rows):
        for j in range(0, D, LANES):
            n = min(LANES, D - j)
            s, c = sincos_of_pack(load(tile, row * W + j, n))
            store(tile, row * W + j, s * scale, n)
            store(tile, row * W + D + j, c * scale, n)
        tile[row, 2 * D] = y[first + row]


@inlined
def _add_three_packs(tile, rows, moments, i, k, j):
    """Add to rows k .. k + 3 and columns j .. j + 23 of the sums of kernel i."""
    W = tile.shape[1]
    g = (i * W + k) * W + j
    a0 = load(moments, g)
    a1 = load(moments, g + LANES)
    a2 = load(moments, g + 2 * LANES)
    b0 = load(moments, g + W)
    b1 = load(moments, g + W + LANES)
    b2 = load(moments, g + W + 2 * LANES)
    c0 = load(moments, g + 2 * W)
    c1 = load(moments, g + 2 * W + LANES)
    c2 = load(moments, g + 2 * W + 2 * LANES)
    e0 = load(moments, g + 3 * W)
    e1 = load(moments, g + 3 * W + LANES)
    e2 = load(moments, g + 3 * W + 2 * LANES)
    w = j
    for row in range(rows):
        v0 = load(tile, w)
        v1 = load(tile, w + LANES)
        v2 = load(tile, w + 2 * LANES)
        u = tile[row, k]
        a0 = fma(v0, u, a0)
        a1 = fma(v1, u, a1)
        a2 = fma(v2, u, a2)
        u = tile[row, k + 1]
        b0 = fma(v0, u, b0)
        b1 = fma(v1, u, b1)
        b2 = fma(v2, u, b2)
        u = tile[row, k + 2]
        c0 = fma(v0, u, c0)
        c1 = fma(v1, u, c1)
        c2 = fma(v2, u, c2)
        u = tile[row, k + 3]
        e0 = fma(v0, u, e0)
        e1 = fma(v1, u, e1)
        e2 = fma(v2, u, e2)
        w += W
    store(moments, g, a0)
    store(moments, g + LANES, a1)
    store(moments, g + 2 * LANES, a2)
    store(moments, g + W, b0)
    store(moments, g + W + LANES, b1)
    store(moments, g + W + 2 * LANES, b2)
    store(moments, g + 2 * W, c0)
    store(moments, g + 2 * W + LANES, c1)
    store(moments, g + 2 * W + 2 * LANES, c2)
    store(moments, g + 3 * W, e0)
    store(moments, g + 3 * W + LANES, e1)
    store(moments, g + 3 * W + 2 * LANES, e2)


@inlined
def _add_pack(tile, rows, moments, i, k, j):
    """The same of eight rows of the sums, k .. k + 7, and of columns j .. j + 7."""
    W = tile.shape[1]
    g = (i * W + k) * W + j
    a0 = load(moments, g)
    a1 = load(moments, g + W)
    a2 = load(moments, g + 2 * W)
    a3 = load(moments, g + 3 * W)
    a4 = load(moments, g + 4 * W)
    a5 = load(moments, g + 5 * W)
    a6 = load(moments, g + 6 * W)
    a7 = load(moments, g + 7 * W)
    for row in range(rows):
        v = load(tile, row * W + j)
        a0 = fma(v, tile[row, k], a0)
        a1 = fma(v, tile[row, k + 1], a1)
        a2 = fma(v, tile[row, k + 2], a2)
        a3 = fma(v, tile[row, k + 3], a3)
        a4 = fma(v, tile[row, k + 4], a4)
        a5 = fma(v, tile[row, k + 5], a5)
        a6 = fma(v, tile[row, k + 6], a6)
        a7 = fma(v, tile[row, k + 7], a7)
    store(moments, g, a0)
    store(moments, g + W, a1)
    store(moments, g + 2 * W, a2)
    store(moments, g + 3 * W, a3)
    store(moments, g + 4 * W, a4)
    store(moments, g + 5 * W, a5)
    store(moments, g + 6 * W, a6)
    store(moments, g + 7 * W, a7)


@compiled
def least_objectives(moments, kernels, D, ridge, work, found):
    """The least sums of squares with that penalty of ||theta||^2, of some kernels, by their sums.

    found (m,) is written: the Schur complement of y'y in the sums with ``ridge`` on the diagonal of
    Z'Z, 0 where rounding hides it, and -inf where they cannot be solved in float64. moments and
    kernels as of ``add_rounds``, work (W, W).
    """
    K = 2 * D
    W = work.shape[0]
    for m in range(kernels.shape[0]):
        for k in range(K + 1):
            first = k // LANES * LANES
            for j in range(first, W, LANES):
                store(work, k * W + j, load(moments, (kernels[m] * W + k) * W + j))
            if k < K:
                work[k, k] += ridge
        solved = _eliminate(work, K) and np.isfinite(work[K, K])
        found[m] = max(0.0, work[K, K]) if solved else -np.inf


@inlined
def _eliminate(work, K):
    """Take the first K rows from those behind them, as a Cholesky factorisation does; work (W, W).

    Its upper triangle alone counts. False where a pivot is not positive.
    """
    for k in range(0, K - K % HEIGHT, HEIGHT):
        for p in range(k, k + HEIGHT):
            for q in range(k, p):
                _take_row(work, q, p)
            if not _scale_row(work, p):
                return False
        for i in range(k + HEIGHT, K + 1):
            _take_four_rows(work, k, i)
    for k in range(K - K % HEIGHT, K):
        if not _scale_row(work, k):
            return False
        for i in range(k + 1, K + 1):
            _take_row(work, k, i)
    return True


@inlined
def _scale_row(work, k):
    """Divide row k by the root of its pivot; False where that is not positive."""
    W = work.shape[0]
    if not work[k, k] > 0.0:
        return False
    scale = 1.0 / math.sqrt(work[k, k])
    for j in range(k // LANES * LANES, W, LANES):
        store(work, k * W + j, load(work, k * W + j) * scale)
    return True


@inlined
def _take_row(work, k, i):
    """Row i, from its pivot on, less what row k has of it."""
    W = work.shape[0]
    u = pack(-work[k, i])
    for j in range(i // LANES * LANES, W, LANES):
        store(work, i * W + j, fma(load(work, k * W + j), u, load(work, i * W + j)))


@inlined
def _take_four_rows(work, k, i):
    """The same of the rows k .. k + 3."""
    W = work.shape[0]
    p = k * W
    a, b, c, e = (
        pack(-work[k, i]),
        pack(-work[k + 1, i]),
        pack(-work[k + 2, i]),
        pack(-work[k + 3, i]),
    )
    for j in range(i // LANES * LANES, W, LANES):
        v = fma(load(work, p + j), a, load(work, i * W + j))
        v = fma(load(work, p + W + j), b, v)
        v = fma(load(work, p + 2 * W + j), c, v)
        store(work, i * W + j, fma(load(work, p + 3 * W + j), e, v))
