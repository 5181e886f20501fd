"""A symmetric positive definite matrix that takes rows in and cannot lose definiteness.

P = U diag(D) U' with U unit upper triangular and D > 0 (Bierman 1977). Taking in a row z with
noise r, P <- P - P z z'P / (z'P z + r), multiplies each D_j by a number in (0, 1]: rounding may
make P inexact, never indefinite. The same product U'z serves the variance z'P z, the direction
P z and the step. F^2 / 2 multiply-adds give the variance, F^2 more take the row in; a form that
keeps all of P needs F^2 and F^2 (or F^2 / 2 by symmetry), and loses definiteness on long streams.

Layout: rows of U by blocks of eight. ``factor[i, b, j]`` is the pack U[8 b .. 8 b + 7, j] of matrix
number i: with the unit diagonal and zeros below it, so that a block needs no case of its own.
"""

from __future__ import annotations

import numpy as np

from omkl.core.jit import inlined
from omkl.core.simd import LANES, aligned, fma, load, pack, store, total, totals


def empty_factor(N: int, F: int) -> tuple[np.ndarray, np.ndarray]:
    """Unit factors (N, B, 8 B, 8) and diagonals (N, 8 B) of ones, F rounded up to B blocks."""
    B = -(-F // LANES)
    factor = aligned((N, B, B * LANES, LANES))
    for j in range(B * LANES):
        factor[:, j // LANES, j, j % LANES] = 1.0
    return factor, np.ones((N, B * LANES))


def matrix(factor: np.ndarray, diagonal: np.ndarray, F: int) -> np.ndarray:
    """P (F, F) of one factor (B, 8 B, 8) and diagonal (8 B,)."""
    B = len(factor)
    U = factor.transpose(0, 2, 1).reshape(B * LANES, B * LANES)[:F, :F]
    return U * diagonal[:F] @ U.T


@inlined
def project(factor, diagonal, i, B, z, f, alpha):
    """Write f[i] = U'z[i] for matrix number i; return z[i]'P z[i]. z and f are (N, 8 blocks).

    B of the blocks of the matrix are used: the others hold the identity, and z is 0 there.
    alpha[i, 7 + j] becomes 1 + the sum of D_k f_k^2 over k < j, (N, 8 blocks + 8), for ``take_in``:
    one sum after the other, while the numbers of later blocks are multiplied.
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
    """Make sums of the gains that alpha has for the features j .. j + 7; the last is returned."""
    for k in range(j, j + LANES):
        reached += alpha[i, LANES + k] * f[i, k]
        alpha[i, LANES + k] = reached
    return reached


@inlined
def _add_up_from(diagonal, i, F, f, r, alpha):
    """The sums of ``project`` for a noise r that is not 1."""
    reached = r
    alpha[i, LANES - 1] = reached
    for j in range(F):
        reached += diagonal[i, j] * f[i, j] * f[i, j]
        alpha[i, LANES + j] = reached


@inlined
def _shrink(diagonal, i, F, f, alpha, decay, ceiling, gain, slope):
    """The diagonal after a row, and what its triangle needs."""
    more = 1.0 / decay
    for j in range(F):
        before = alpha[i, LANES - 1 + j]
        gain[j] = diagonal[i, j] * f[i, j]
        slope[j] = -f[i, j] / before
        diagonal[i, j] = min(ceiling, diagonal[i, j] * (more * (before / alpha[i, LANES + j])))


@inlined
def take_in(factor, diagonal, i, B, f, alpha, r, decay, ceiling, gain, slope, step):
    """P <- (P - P z z'P / (z'P z + r)) / decay, from f[i] = U'z and alpha[i] of ``project``.

    No entry of D grows above ``ceiling`` by decay in (0, 1]: what is not seen any more would be
    forgotten without end. Write step (8 B,) = P z / (z'P z + r); gain and slope (8 B,) are
    scratch.
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
    """Eight numbers of a column of U, which begin at w, take the row in; k adds up U gain."""
    u = load(factor, w)
    store(factor, w, fma(k, slope, u))
    return fma(u, gain, k)


@inlined
def _move_four(factor, i, B, b, gain, slope, step, inverse):
    """Rows of U in the blocks b .. b + 3, side by side from where each has its diagonal."""
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
