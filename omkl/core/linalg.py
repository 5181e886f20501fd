"""Linear algebra that is updated row by row: a factored covariance, and normal equations."""

from __future__ import annotations

import math

import numpy as np

from omkl.core.compiler import inlined
from omkl.core.simd import LANES, aligned, fma, load, pack, store, total, totals

# --- A symmetric positive definite matrix whose row updates cannot lose definiteness --------------
#
# P (F, F) is stored as U diag(D) U' with U unit upper triangular and D > 0 (Bierman 1977). The
# update by a row z with noise r, P <- P - P z z'P / (z'P z + r), multiplies each D_j by a number in
# (0, 1]. So rounding may make P inexact, but never indefinite. The variance z'P z, the direction P
# z and the update all use the product U'z. The variance costs F^2 / 2 multiply-adds and the update
# F^2. Without the factorisation they would cost F^2 each (or F^2 / 2 for the update of a symmetric
# half), and P would lose definiteness on long streams.
#
# Layout: ``factor[i, b, j]`` is the pack (eight numbers) U[8 b .. 8 b + 7, j] of matrix number i.
# The unit diagonal and the zeros below it are stored too, so all blocks are treated alike.


def empty_factor(N: int, F: int) -> tuple[np.ndarray, np.ndarray]:
    """Return U and D of N identity matrices: factors (N, B, 8 B, 8) and diagonals (N, 8 B).

    B = ceil(F / 8) is the number of blocks of a matrix (F, F).
    """
    B = -(-F // LANES)
    factor = aligned((N, B, B * LANES, LANES))
    for j in range(B * LANES):
        factor[:, j // LANES, j, j % LANES] = 1.0
    return factor, np.ones((N, B * LANES))


@inlined
def project_row(factor, diagonal, i, B, z, f, alpha):
    """Write f[i] = U'z[i] for matrix i, and return z[i]'P z[i], where P = U diag(D) U'.

    Also write cumulative sums for ``take_in``: alpha[i, 7 + j] = 1 + the sum of D_k f[i, k]^2 over
    k < j, for j = 0 .. 8 B. The processor adds them up, one after the other, while it multiplies
    the numbers of later blocks.

    Parameters
    ----------
    factor, diagonal
        U and D of all matrices, (N, blocks, 8 blocks, 8) and (N, 8 blocks).
    i
        Matrix.
    B
        Number of blocks in use. The other blocks are the identity, and z is 0 there.
    z, f
        Rows and output (N, 8 blocks).
    alpha
        Output (N, 8 blocks + 8).
    """
    at = i * z.shape[1]
    W = factor.shape[2] * LANES
    q = pack(0.0)
    reached = 1.0
    alpha[i, LANES - 1] = reached
    for c in range(B):
        w = i * factor.shape[1] * W + c * LANES * LANES
        v = load(z, at)
        f0 = load(factor, w) * v
        f1 = load(factor, w + LANES) * v
        f2 = load(factor, w + 2 * LANES) * v
        f3 = load(factor, w + 3 * LANES) * v
        f4 = load(factor, w + 4 * LANES) * v
        f5 = load(factor, w + 5 * LANES) * v
        f6 = load(factor, w + 6 * LANES) * v
        f7 = load(factor, w + 7 * LANES) * v
        for b in range(1, c + 1):
            w += W
            v = load(z, at + b * LANES)
            f0 = fma(load(factor, w), v, f0)
            f1 = fma(load(factor, w + LANES), v, f1)
            f2 = fma(load(factor, w + 2 * LANES), v, f2)
            f3 = fma(load(factor, w + 3 * LANES), v, f3)
            f4 = fma(load(factor, w + 4 * LANES), v, f4)
            f5 = fma(load(factor, w + 5 * LANES), v, f5)
            f6 = fma(load(factor, w + 6 * LANES), v, f6)
            f7 = fma(load(factor, w + 7 * LANES), v, f7)
        v = totals(f0, f1, f2, f3, f4, f5, f6, f7)
        j = c * LANES
        gains = v * load(diagonal, at + j)
        store(f, at + j, v)
        store(alpha, i * alpha.shape[1] + LANES + j, gains)
        q = fma(v * v, load(diagonal, at + j), q)
        reached = _add_up(f, alpha, i, j, reached)
    return total(q)


@inlined
def _add_up(f, alpha, i, j, reached):
    """Continue the cumulative sums of ``project_row`` over the features j .. j + 7.

    ``reached`` is the sum over the features before j. Return the sum that includes j + 7.
    """
    for k in range(j, j + LANES):
        reached += alpha[i, LANES + k] * f[i, k]
        alpha[i, LANES + k] = reached
    return reached


@inlined
def _add_up_from(diagonal, i, F, f, r, alpha):
    """Recompute the cumulative sums of ``project_row`` with a noise r in place of 1."""
    reached = r
    alpha[i, LANES - 1] = reached
    for j in range(F):
        reached += diagonal[i, j] * f[i, j] * f[i, j]
        alpha[i, LANES + j] = reached


@inlined
def _shrink(diagonal, i, F, f, alpha, decay, ceiling, gain, slope):
    """Update row i of ``diagonal``, the numbers D of P = U diag(D) U', for ``take_in``.

    Also write ``gain`` and ``slope`` (F,), the factors with which ``_move`` then updates U.
    """
    more = 1.0 / decay
    for j in range(F):
        # Both factors are positive, and the second is at most 1. So D stays positive for any row.
        before = alpha[i, LANES - 1 + j]
        gain[j] = diagonal[i, j] * f[i, j]
        slope[j] = -f[i, j] / before
        diagonal[i, j] = min(ceiling, diagonal[i, j] * (more * (before / alpha[i, LANES + j])))


@inlined
def take_in(factor, diagonal, i, B, f, alpha, r, decay, ceiling, gain, slope, step):
    """Update P <- (P - P z z'P / (z'P z + r)) / decay, and write step = P z / (z'P z + r).

    f[i] = U'z and alpha[i] come from ``project_row``. Division by decay < 1 increases the variance
    in all directions. In a direction orthogonal to all rows, the variance would grow without
    limit. Therefore ``ceiling`` limits the entries of D.

    Parameters
    ----------
    factor, diagonal
        U and D of all matrices, updated in place.
    i, B
        Matrix, and its number of blocks in use.
    f, alpha
        Output of ``project_row``.
    r
        Noise, > 0.
    decay
        Weight of earlier rows, in (0, 1].
    ceiling
        Largest value of an entry of D.
    gain, slope
        Scratch (8 B,).
    step
        Output (8 B,).
    """
    if r != 1.0:
        _add_up_from(diagonal, i, B * LANES, f, r, alpha)
    _shrink(diagonal, i, B * LANES, f, alpha, decay, ceiling, gain, slope)
    inverse = 1.0 / alpha[i, LANES - 1 + B * LANES]
    b = 0
    while b + 4 <= B:
        _move_four(factor, i, B, b, gain, slope, step, inverse)
        b += 4
    W = factor.shape[2] * LANES
    while b < B:
        w = (i * factor.shape[1] + b) * W + b * LANES * LANES
        k = pack(0.0)
        for j in range(b * LANES, B * LANES):
            k = _move(factor, w, slope[j], gain[j], k)
            w += LANES
        store(step, b * LANES, k * inverse)
        b += 1


@inlined
def _move(factor, w, slope, gain, k):
    """Replace eight numbers u of a column of U by u + slope k, and return k + gain u.

    w is the flat index in ``factor`` of the first number. k is a pack with one sum for each of the
    eight rows: of gain times u over the columns before this one.
    """
    u = load(factor, w)
    store(factor, w, fma(k, slope, u))
    return fma(u, gain, k)


@inlined
def _move_four(factor, i, B, b, gain, slope, step, inverse):
    """Update the rows of U in the blocks b .. b + 3 at once.

    In each block, the update of a column waits for the sums k of ``_move``. Four blocks
    are updated side by side, so that the processor does not wait. U is triangular, and each
    block begins eight columns after the block above. So the first loop updates one block, the
    second two, the third three, and the last all four.
    """
    W = factor.shape[2] * LANES
    w0 = (i * factor.shape[1] + b) * W + b * LANES * LANES
    w1 = w0 + W + LANES * LANES
    w2 = w1 + W + LANES * LANES
    w3 = w2 + W + LANES * LANES
    k0 = pack(0.0)
    k1 = pack(0.0)
    k2 = pack(0.0)
    k3 = pack(0.0)
    first = b * LANES
    for j in range(first, first + LANES):
        k0 = _move(factor, w0, slope[j], gain[j], k0)
        w0 += LANES
    for j in range(first + LANES, first + 2 * LANES):
        k0 = _move(factor, w0, slope[j], gain[j], k0)
        k1 = _move(factor, w1, slope[j], gain[j], k1)
        w0 += LANES
        w1 += LANES
    for j in range(first + 2 * LANES, first + 3 * LANES):
        k0 = _move(factor, w0, slope[j], gain[j], k0)
        k1 = _move(factor, w1, slope[j], gain[j], k1)
        k2 = _move(factor, w2, slope[j], gain[j], k2)
        w0 += LANES
        w1 += LANES
        w2 += LANES
    for j in range(first + 3 * LANES, B * LANES):
        k0 = _move(factor, w0, slope[j], gain[j], k0)
        k1 = _move(factor, w1, slope[j], gain[j], k1)
        k2 = _move(factor, w2, slope[j], gain[j], k2)
        k3 = _move(factor, w3, slope[j], gain[j], k3)
        w0 += LANES
        w1 += LANES
        w2 += LANES
        w3 += LANES
    store(step, b * LANES, k0 * inverse)
    store(step, b * LANES + LANES, k1 * inverse)
    store(step, b * LANES + 2 * LANES, k2 * inverse)
    store(step, b * LANES + 3 * LANES, k3 * inverse)


@inlined
def dot_from(theta, start, z, at, n):
    """Return the inner product of n numbers of theta and z.

    Parameters
    ----------
    theta, start
        Array, and flat index of its first number.
    z, at
        Array, and flat index of its first number.
    n
        Number of terms, a multiple of 8.
    """
    a = pack(0.0)
    for j in range(0, n, LANES):
        a = fma(load(theta, start + j), load(z, at + j), a)
    return total(a)


@inlined
def move_along(theta, start, step, at, n, error):
    """Add ``error`` times n numbers of ``step`` to n numbers of theta.

    Parameters
    ----------
    theta, start
        Array, updated in place, and flat index of its first number.
    step, at
        Array, and flat index of its first number.
    n
        Number of entries, a multiple of 8.
    error
        Factor of ``step``.
    """
    for j in range(0, n, LANES):
        store(theta, start + j, fma(load(step, at + j), error, load(theta, start + j)))


# --- Normal equations of ridge regressions --------------------------------------------------------
#
# The equations of rows with features z (F,) and target y are stored as the sum of b b' with
# b = (z, y). This matrix (F + 1, F + 1) contains Z'Z, Z'y and y'y.


def add_rows(equations: np.ndarray, z: np.ndarray, y: np.ndarray) -> None:
    """Add rows to normal equations.

    Parameters
    ----------
    equations
        Sum (F + 1, F + 1) of b b' over the rows, with b = (z, y). Updated in place.
    z, y
        Features (n, F) and targets (n,).
    """
    rows = np.column_stack([z, y])
    equations += rows.T @ rows


def solve(equations: np.ndarray, penalty: float) -> tuple[float, np.ndarray]:
    """Solve a ridge regression from its normal equations.

    Parameters
    ----------
    equations
        Sum (F + 1, F + 1) of b b' over the rows, with b = (features, target) of a row.
    penalty
        Factor of ||theta||^2.

    Returns
    -------
    float
        Smallest value of the sum of squared errors plus penalty ||theta||^2.
    ndarray
        Coefficients theta (F,).

    Raises
    ------
    LinAlgError
        The equations cannot be solved in float64.
    """
    gram, cross = equations[:-1, :-1], equations[:-1, -1]
    theta = np.linalg.solve(gram + penalty * np.eye(len(gram)), cross)
    objective = float(equations[-1, -1] - theta @ cross)
    if not np.isfinite(objective):
        raise np.linalg.LinAlgError("its normal equations cannot be solved in float64")
    return objective, theta


# --- The same sums inside a learner (``representations.wide``): tile by tile, by compiled code ----


TILE_ROWS = 32  # rows of a tile: 27 KB for D = 50
# Number of rows of ``moments`` that are summed at once. 4 rows x 3 packs are twelve independent
# sums in registers, so that no addition waits for the one before. Each pack of the tile is read
# once for four of them.
HEIGHT = 4


@inlined
def add_tile(tile, rows, moments, i):
    """Add the products b b' of the rows b of a tile to the sums moments[i] of kernel i.

    Only the upper triangle of the sums is valid.

    Parameters
    ----------
    tile
        Rows b (n, W), padded with zeros to a multiple W of 8.
    rows
        Number of rows to add, from the first one on.
    moments
        Sums (N, W, W).
    i
        Kernel.
    """
    W = tile.shape[1]
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
def _add_three_packs(tile, rows, moments, i, k, j):
    """Add b b' of the rows b of a tile to rows k .. k + 3 and columns j .. j + 23 of moments[i]."""
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
    """Add one 8 x 8 block of the sum of b b', over the rows b of a tile, to moments[i].

    The block has the rows k .. k + 7 and the columns j .. j + 7.
    """
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


@inlined
def eliminate(work, K):
    """Eliminate the first K rows of work (W, W), as a Cholesky factorisation does.

    Only the upper triangle is read. Return False if a pivot is not positive, else True.
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
    """Divide row k by the square root of its pivot. Return False if the pivot is not positive."""
    W = work.shape[0]
    if not work[k, k] > 0.0:
        return False
    scale = 1.0 / math.sqrt(work[k, k])
    for j in range(k // LANES * LANES, W, LANES):
        store(work, k * W + j, load(work, k * W + j) * scale)
    return True


@inlined
def _take_row(work, k, i):
    """Eliminate column k from row i of ``work``: subtract work[k, i] times row k.

    Only the entries of row i from column i on change.
    """
    W = work.shape[0]
    u = pack(-work[k, i])
    for j in range(i // LANES * LANES, W, LANES):
        store(work, i * W + j, fma(load(work, k * W + j), u, load(work, i * W + j)))


@inlined
def _take_four_rows(work, k, i):
    """Eliminate the columns k .. k + 3 from row i, as four calls of ``_take_row`` do."""
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
