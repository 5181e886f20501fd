"""Closed forms of integrals of two kernels over one input, by their logarithms.

The families of ``kernels`` state them: which families, and in which order p and q are.
"""

from __future__ import annotations

import math

import numpy as np

# SciPy is heavy, and few dictionaries need it: it is imported where it is called.


def log_erfcx(z: np.ndarray) -> np.ndarray:
    """log of exp(z^2) erfc(z)."""
    from scipy.special import erfcx

    return np.log(erfcx(z))


def exponential_over_cauchy(z: np.ndarray) -> np.ndarray:
    """The integral of exp(-z u) / (1 + u^2) over u > 0, for z > 0 (A&S 5.2.12)."""
    from scipy.special import sici

    z = np.asarray(z, dtype=float)
    si, ci = sici(z)
    result = np.asarray(ci * np.sin(z) + (0.5 * math.pi - si) * np.cos(z))
    far = z > 40.0  # the closed form cancels; the asymptotic series is exact to rounding here
    if far.any():
        squares = z[far] ** 2
        term, total = 1.0 / z[far], np.zeros(far.sum())
        for k in range(1, 14):
            total += term
            term = term * -(2 * k - 1) * (2 * k) / squares
        result[far] = total
    return result


# --- Polynomials times exp(-a u) and exp(-b u), u = |r| -------------------------------------------
#
# The integral of u^k exp(-(a + b) u) over u > 0 is k! / (a + b)^(k + 1). With x = a / (a + b) and
# y = b / (a + b) = 1 - x all terms are positive, and no power of a or b can overflow.


def _log_of_both_sides(a: np.ndarray, b: np.ndarray, polynomial: np.ndarray) -> np.ndarray:
    return math.log(2.0) - np.log(a + b) + np.log(polynomial)


def matern32_with_itself(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    a, b = math.sqrt(3.0) / p, math.sqrt(3.0) / q
    z = (a / (a + b)) * (b / (a + b))
    return _log_of_both_sides(a, b, 2.0 * (1.0 + z))


def matern52_with_itself(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    a, b = math.sqrt(5.0) / p, math.sqrt(5.0) / q
    z = (a / (a + b)) * (b / (a + b))
    return _log_of_both_sides(a, b, 8.0 / 3.0 * (1.0 + z + z * z))


def matern32_with_laplacian(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    a, b = math.sqrt(3.0) / p, 1.0 / q
    return _log_of_both_sides(a, b, 1.0 + a / (a + b))


def matern52_with_laplacian(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    a, b = math.sqrt(5.0) / p, 1.0 / q
    x = a / (a + b)
    return _log_of_both_sides(a, b, 1.0 + x + 2.0 / 3.0 * x * x)


def matern52_with_matern32(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    a, b = math.sqrt(5.0) / p, math.sqrt(3.0) / q
    x, y = a / (a + b), b / (a + b)
    return _log_of_both_sides(a, b, 2.0 + 2.0 * x * y + 2.0 / 3.0 * x * x + 2.0 * x * x * y)
