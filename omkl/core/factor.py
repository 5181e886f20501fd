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
def project(factor, diagonal, i, B, z, f):
    """Write f[i] = U'z[i] for matrix number i; return z[i]'P z[i]. z and f are (N, 8 blocks).

    B of the blocks of the matrix are used: the others hold the identity, and z is 0 there.
    """
    at = i * z.shape[1]
    W = factor.shape[2] * LANES
    q = pack(0.0)
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
        store(f, at + c * LANES, v)
        q = fma(v * v, load(diagonal, at + c * LANES), q)
    return total(q)


@inlined
def _shrink(diagonal, i, F, f, r, decay, ceiling, gain, slope, step):
    """The diagonal after a row, what its triangle needs, and z'P z + r; step is scratch."""
    alpha = r
    for j in range(F):
        g = diagonal[i, j] * f[i, j]
        gain[j] = g
        slope[j] = alpha
        alpha += g * f[i, j]
        step[j] = alpha
    more = 1.0 / decay
    for j in range(F):
        before = slope[j]
        slope[j] = -f[i, j] / before
        diagonal[i, j] = min(ceiling, diagonal[i, j] * (more * (before / step[j])))
    return alpha


@inlined
def take_in(factor, diagonal, i, B, f, r, decay, ceiling, gain, slope, step):
    """P <- (P - P z z'P / (z'P z + r)) / decay, from f[i] = U'z of ``project``.

    No entry of D grows above ``ceiling`` by decay in (0, 1]: what is not seen any more would be
    forgotten without end. Write step (8 B,) = P z / (z'P z + r); gain and slope (8 B,) are
    scratch.
    """
    W = factor.shape[2] * LANES
    F = B * LANES
    alpha = _shrink(diagonal, i, F, f, r, decay, ceiling, gain, slope, step)
    inverse = 1.0 / alpha
    b = 0
    while b + 4 <= B:
        w0 = (i * factor.shape[1] + b) * W + b * LANES * LANES
        w1 = w0 + W
        w2 = w1 + W
        w3 = w2 + W
        k0 = pack(0.0)
        k1 = pack(0.0)
        k2 = pack(0.0)
        k3 = pack(0.0)
        for j in range(b * LANES, F):
            s = pack(slope[j])
            g = pack(gain[j])
            u = load(factor, w0)
            store(factor, w0, fma(k0, s, u))
            k0 = fma(u, g, k0)
            u = load(factor, w1)
            store(factor, w1, fma(k1, s, u))
            k1 = fma(u, g, k1)
            u = load(factor, w2)
            store(factor, w2, fma(k2, s, u))
            k2 = fma(u, g, k2)
            u = load(factor, w3)
            store(factor, w3, fma(k3, s, u))
            k3 = fma(u, g, k3)
            w0 += LANES
            w1 += LANES
            w2 += LANES
            w3 += LANES
        store(step, b * LANES, k0 * inverse)
        store(step, b * LANES + LANES, k1 * inverse)
        store(step, b * LANES + 2 * LANES, k2 * inverse)
        store(step, b * LANES + 3 * LANES, k3 * inverse)
        b += 4
    while b < B:
        w0 = (i * factor.shape[1] + b) * W + b * LANES * LANES
        k0 = pack(0.0)
        for j in range(b * LANES, F):
            u = load(factor, w0)
            store(factor, w0, fma(k0, slope[j], u))
            k0 = fma(u, gain[j], k0)
            w0 += LANES
        store(step, b * LANES, k0 * inverse)
        b += 1
