"""Sine and cosine of packs of eight, in double and in single precision.

The argument loses its half-periods, and a polynomial does the rest. There is no branch, so that
every loop over angles is vector code.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from omkl.core.compiler import compiled, dispatch, inlined
from omkl.core.simd import LANES, WHOLE, aligned, clip, flip_where_odd, fma, load, narrow, store

# Half-period reduction x = k pi + r, then sin x = (-1)^k sin r. PI_HIGH has 27 bits, so
# k * PI_HIGH is exact for |k| < 2^26 (with fused multiply-add, for every k that is exact).
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
# The same in single precision, to 5e-9 and 2e-10.
SHORT_S1, SHORT_S2 = np.float32(-0.16666657096596063), np.float32(0.008333017293095804)
SHORT_S3, SHORT_S4 = np.float32(-0.00019806615287903617), np.float32(2.6000549256722136e-06)
SHORT_C1, SHORT_C2 = np.float32(-0.4999999954955776), np.float32(0.04166664072806868)
SHORT_C3, SHORT_C4 = np.float32(-0.001388840350765532), np.float32(2.476188619216889e-05)
SHORT_C5 = np.float32(-2.6077104038124777e-07)
ONE = np.float32(1.0)


@inlined
def sincos_of_pack(x):
    """Sine and cosine, a pack each, of a pack."""
    shifted = fma(x, PER_PI, WHOLE)
    k = shifted - WHOLE
    # Beyond 2^51 neighbouring floats are further apart than a period; clip keeps the
    # result in range there.
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


@inlined
def _sincos_in_single_precision(x):
    """The same, computed in single precision once the half-periods are taken off."""
    shifted = fma(x, PER_PI, WHOLE)
    k = shifted - WHOLE
    r = narrow(clip(fma(k, -PI_LOW, fma(k, -PI_HIGH, x)), HALF_PI))
    v = r * r
    s = fma(v, fma(v, fma(v, SHORT_S4, SHORT_S3), SHORT_S2), SHORT_S1)
    c = fma(v, fma(v, fma(v, fma(v, SHORT_C5, SHORT_C4), SHORT_C3), SHORT_C2), SHORT_C1)
    return (
        flip_where_odd(fma(r * v, s, r), shifted),
        flip_where_odd(fma(v, c, ONE), shifted),
    )


@inlined
def _sincos_of_first(n, x, sin, cos, start):
    """sin[start : start + n] and cos likewise = those of x[:n]; all are one-dimensional."""
    j = 0
    while j + LANES <= n:
        s, c = sincos_of_pack(load(x, j))
        store(sin, start + j, s)
        store(cos, start + j, c)
        j += LANES
    if j < n:
        s, c = sincos_of_pack(load(x, j, n - j))
        store(sin, start + j, s, n - j)
        store(cos, start + j, c, n - j)


class Double(NamedTuple):
    """Sines (n,) and cosines (n,) of a round or a tile of rounds, not yet divided by sqrt(D)."""

    sin: np.ndarray
    cos: np.ndarray


class Single(NamedTuple):
    """As ``Double``, computed in single precision; the arrays may be of doubles all the same."""

    sin: np.ndarray
    cos: np.ndarray


def empty_waves(n: int, precision: str) -> Double | Single:
    """Room for n sines and cosines, float64 or float32."""
    kind = Single if precision == "float32" else Double
    return kind(aligned((n,), precision), aligned((n,), precision))


def wide_waves(n: int, precision: str) -> Double | Single:
    """The same numbers in float64 arrays: widened once where they are written, then read often."""
    kind = Single if precision == "float32" else Double
    return kind(aligned((n,)), aligned((n,)))


@functools.singledispatch
def fill(waves, n, angle, start):
    """Write sine and cosine of angle[:n] to the places start .. start + n of ``waves``."""
    raise TypeError(f"no trigonometry is registered for {type(waves)}")


def _fill_double(waves, n, angle, start):
    _sincos_of_first(n, angle, waves.sin, waves.cos, start)


def _fill_single(waves, n, angle, start):
    for j in range(0, n, LANES):
        k = min(LANES, n - j)
        s, c = _sincos_in_single_precision(load(angle, j, k))
        store(waves.sin, start + j, s, k)
        store(waves.cos, start + j, c, k)


dispatch(fill, Double, _fill_double)
dispatch(fill, Single, _fill_single)


@functools.singledispatch
def fill_pack(waves, start, x):
    """Write sine and cosine of the pack x to the eight places from ``start`` on of ``waves``."""
    raise TypeError(f"no trigonometry is registered for {type(waves)}")


def _fill_double_pack(waves, start, x):
    s, c = sincos_of_pack(x)
    store(waves.sin, start, s)
    store(waves.cos, start, c)


def _fill_single_pack(waves, start, x):
    s, c = _sincos_in_single_precision(x)
    store(waves.sin, start, s)
    store(waves.cos, start, c)


dispatch(fill_pack, Double, _fill_double_pack)
dispatch(fill_pack, Single, _fill_single_pack)


@compiled
def sincos(x, sin, cos):
    """Write sine and cosine of each x, all (n,) float64, C-contiguous.

    Branch-free vector code: absolute error below 4e-16 for |x| <= 1e4 and below 1e-13
    for |x| <= 1e6.
    """
    _sincos_of_first(x.shape[0], x, sin, cos, 0)
