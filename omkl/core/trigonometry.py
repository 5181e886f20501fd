"""Sine and cosine of SIMD vectors of eight numbers (packs, see ``simd``).

The argument is reduced by a multiple of pi, and polynomials approximate sine and cosine of the
rest. The code has no branch, so loops over angles become vector code.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from omkl.core.compiler import compiled, inlined
from omkl.core.simd import LANES, WHOLE, aligned, clip, flip_where_odd, fma, load, store

# x = k pi + r with |r| <= pi / 2, so sin x = (-1)^k sin r and cos x = (-1)^k cos r. pi is the sum
# of PI_HIGH and PI_LOW. PI_HIGH has 27 bits, so k * PI_HIGH is exact for |k| < 2^26, and with a
# fused multiply-add for every k that is exact itself.
PI_HIGH = float.fromhex("0x1.921fb50000000p+1")
PI_LOW = 3.178650954710656e-08
HALF_PI = 0.5 * math.pi
PER_PI = 1.0 / math.pi
# Minimax on [-pi/2, pi/2]: sin r = r + r v S(v) to 1.1e-16, cos r = 1 + v C(v) to 4e-18, v = r^2.
S1, S2 = -0.1666666666666581, 0.00833333333326288
S3, S4 = -0.00019841269820094226, 2.7557316077005476e-06
S5, S6, S7 = -2.5051851496783252e-08, 1.6047301189356057e-10, -7.364646371464744e-13
C1, C2 = -0.49999999999999983, 0.04166666666666437
C3, C4 = -0.0013888888888785652, 2.480158727914876e-05
C5, C6 = -2.755731652520198e-07, 2.087656773969985e-09
C7, C8 = -1.1463039334831913e-11, 4.610293800524976e-14


@inlined
def sincos_of_pack(x):
    """Return the sines and the cosines of eight angles.

    Parameters
    ----------
    x
        SIMD vector (pack) of eight angles.

    Returns
    -------
    Pack of the sines, and pack of the cosines.
    """
    shifted = fma(x, PER_PI, WHOLE)
    k = shifted - WHOLE
    # Beyond |x| = 2^51 pi the reduction has no correct digit and r is arbitrary. Clipping keeps
    # the result in range there.
    r = clip(fma(k, -PI_LOW, fma(k, -PI_HIGH, x)), HALF_PI)
    v = r * r
    s = fma(v, fma(v, fma(v, S7, S6), S5), S4)
    s = fma(v, fma(v, fma(v, s, S3), S2), S1)
    c = fma(v, fma(v, fma(v, fma(v, C8, C7), C6), C5), C4)
    c = fma(v, fma(v, fma(v, c, C3), C2), C1)
    return (
        flip_where_odd(fma(r * v, s, r), shifted),
        flip_where_odd(fma(v, c, 1.0), shifted),
    )


class Waves(NamedTuple):
    """Random features of one or several rows: sines and cosines (n,), not divided by sqrt(D)."""

    sin: np.ndarray
    cos: np.ndarray


def empty_waves(n: int) -> Waves:
    """Allocate n sines and n cosines."""
    return Waves(aligned((n,)), aligned((n,)))


@inlined
def fill_pack(waves, start, x):
    """Write sine and cosine of eight angles to the indices start .. start + 7 of ``waves``.

    Parameters
    ----------
    waves
        Output.
    start
        First index.
    x
        Pack of angles.
    """
    s, c = sincos_of_pack(x)
    store(waves.sin, start, s)
    store(waves.cos, start, c)


@inlined
def fill(waves, n, angle, start):
    """Write sine and cosine of angle[:n] to the indices start .. start + n - 1 of ``waves``.

    Parameters
    ----------
    waves
        Output.
    n
        Number of angles.
    angle
        Angles (n,) or longer.
    start
        First index.
    """
    j = 0
    while j + LANES <= n:
        fill_pack(waves, start + j, load(angle, j))
        j += LANES
    if j < n:
        s, c = sincos_of_pack(load(angle, j, n - j))
        store(waves.sin, start + j, s, n - j)
        store(waves.cos, start + j, c, n - j)


@compiled
def sincos(x, sin, cos):
    """Write sine and cosine of each x.

    The absolute error is below 4e-16 for |x| <= 1e4 and below 1e-13 for |x| <= 1e6.

    Parameters
    ----------
    x, sin, cos
        Angles and outputs (n,), float64 and C-contiguous.
    """
    fill(Waves(sin, cos), x.shape[0], x, 0)
