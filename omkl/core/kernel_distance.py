"""Distances between kernels, in a form whose order does not depend on rounding.

The overlap of two kernels is the integral of kappa_i kappa_j over R^d. A kernel is a product over
the d inputs, so its overlap is the integral over one input to the power d. It is stored as a
logarithm, which neither overflows nor underflows for any d. A family states its integrals in closed
form where they are known (``kernels.Family.overlaps``). The others are integrated numerically.

The distance Delta(i, j) is the integral over R^d of (kappa_i - kappa_j)^2. With own_i =
overlap(i, i), Delta(i, j) = own_i + own_j - 2 overlap(i, j). With many inputs these terms differ by
hundreds of orders of magnitude: if own_i = 1e16 is added to a small own_j, rounding removes all
digits of own_j. So the code never adds a term that is equal for all candidates. For one i and
several j,

    own_j - 2 overlap(i, j)

sorts the kernels j as Delta(i, j) does. If this number is close to -own_i, its rounding errors are
large compared with Delta(i, j). Then the code compares log Delta, computed as a sum of logarithms
without this cancellation.

Source: Ghari and Shen, JMLR, equations (25) to (27).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from omkl.core.kernels import FAMILIES, Family, Kernel

# --- Overlaps -------------------------------------------------------------------------------------


LOG_2 = math.log(2.0)


def log_overlaps_in_one_input(first: str, p: np.ndarray, second: str, q: np.ndarray) -> np.ndarray:
    """Return log of the integral of kappa kappa' over one input, for bandwidths of two families.

    Use the closed form of one of the families, or ``integrated`` if there is none.

    Parameters
    ----------
    first, second
        Names of the families.
    p, q
        Bandwidths of the two families, arrays of the same shape. The result has this shape too.

    Raises
    ------
    ValueError
        A family has no spectrum.
    """
    one, other = FAMILIES[first], FAMILIES[second]
    if not (one.spectrum and other.spectrum):
        raise ValueError(f"{first} and {second} kernels have no overlap of spectra")
    if second in one.overlaps:
        return one.overlaps[second](p, q)
    if first in other.overlaps:
        return other.overlaps[first](q, p)
    return integrated(one, p, other, q)


STEP = 1.0 / 16.0  # step of the trapezoid rule in log |r|
MARGINS = 40.0, 45.0  # log |r| goes from 40 below the least log length to 45 above the largest
AGREEMENT = 1e-9  # largest relative difference to the integral with half as many points


def integrated(one: Family, p: np.ndarray, other: Family, q: np.ndarray) -> np.ndarray:
    """Return the logarithm of the integral of kappa kappa' over one input, by the trapezoid rule.

    The rule has equal steps in log |r|. It converges exponentially for kernels that are analytic
    except at r = 0. For Gaussian, Laplacian, Cauchy and Matern kernels only rounding errors remain
    (1e-14).

    Parameters
    ----------
    one, other
        Families.
    p, q
        Bandwidths of the two families, arrays of the same shape. The result has this shape too.

    Raises
    ------
    ValueError
        The result changes by more than 1e-9 (relative) with half as many points, or the integrand
        is not negligible at the ends of the range: a kernel has corners, or its square has no
        integral.
    """
    bandwidths, places = zip(*(np.unique(b, return_inverse=True) for b in (p, q)), strict=True)
    lengths = [
        family.length_power * np.log(b) for family, b in zip((one, other), bandwidths, strict=True)
    ]
    s = np.arange(
        min(x.min() for x in lengths) - MARGINS[0], max(x.max() for x in lengths) + MARGINS[1], STEP
    )
    # Each factor gets the square root of the weight 2 r, so that the matrix is symmetric.
    factors = [
        np.sqrt(2.0 * STEP * np.exp(s)) * np.array([f.value(np.exp(s)[:, None], b) for b in some])
        for f, some in zip((one, other), bandwidths, strict=True)
    ]

    def summed(points: slice) -> np.ndarray:  # not by BLAS: its bits depend on its threads
        return np.einsum("is,js->ij", *(x[:, points] for x in factors))

    integrals = summed(slice(None))
    doubt = np.abs(2.0 * summed(slice(None, None, 2)) - integrals)
    doubt += sum(np.multiply.outer(*(x[:, end] for x in factors)) for end in (0, -1))
    if not np.all(doubt <= AGREEMENT * integrals):
        raise ValueError(
            f"the overlaps of {one.name} and {other.name} kernels are not found by integration to "
            f"{AGREEMENT:g}: state them in the class of one of them, in closed form"
        )
    return np.log(integrals)[places[0], places[1]].reshape(p.shape)


def log_overlaps(kernels: Sequence[Kernel], d: int) -> np.ndarray:
    """Return log of the integral of kappa_i kappa_j over R^d for all kernels, (N, N), symmetric."""
    families = np.array([kernel.family for kernel in kernels])
    bandwidths = np.array([kernel.bandwidth for kernel in kernels])
    result = np.empty((len(kernels), len(kernels)))
    for first, second in itertools.combinations_with_replacement(np.unique(families).tolist(), 2):
        rows, columns = np.nonzero(families == first)[0], np.nonzero(families == second)[0]
        p, q = np.broadcast_arrays(bandwidths[rows][:, None], bandwidths[columns][None, :])
        logs = d * log_overlaps_in_one_input(first, p, second, q)
        result[np.ix_(rows, columns)] = logs
        result[np.ix_(columns, rows)] = logs.T
    return result


class Overlaps(NamedTuple):
    """Overlaps of N kernels as logarithms.

    values  (N, N) log overlap(i, j)
    own     (N,) its diagonal, log overlap(i, i)
    """

    values: np.ndarray
    own: np.ndarray


MOST_IN_GRAPH = 4096  # kernels; a matrix of their distances takes 128 MB


@functools.lru_cache(maxsize=4)
def overlaps(kernels: tuple[Kernel, ...], d: int) -> Overlaps:
    """Return the overlaps of a dictionary in d inputs. Learners of all seeds share the result.

    Raises
    ------
    ValueError
        The dictionary has more than ``MOST_IN_GRAPH`` kernels, a kernel has no spectrum, or
        numerical integration fails.
    """
    if len(kernels) > MOST_IN_GRAPH:
        raise ValueError(
            f"a graph compares every two kernels: it has at most {MOST_IN_GRAPH:,}, and there are "
            f"{len(kernels):,}. Choose fewer kernels, or an algorithm without a graph"
        )
    values = log_overlaps(kernels, d)
    return Overlaps(values, np.diagonal(values).copy())


# --- Distances ------------------------------------------------------------------------------------


def _log_divergences(overlap: np.ndarray, own_i: np.ndarray, own_j: np.ndarray) -> np.ndarray:
    """Return log(own_i + own_j - 2 overlap), given the three logarithms."""
    squares = np.logaddexp(own_i, own_j)
    ratio = LOG_2 + overlap - squares  # log of 2 int kk' / (int k^2 + int k'^2) <= 0
    with np.errstate(divide="ignore"):
        result = squares + np.log(-np.expm1(np.minimum(ratio, 0.0)))
    return np.where((overlap >= own_i) & (overlap >= own_j), -np.inf, result)  # equal kernels


def divergence_rows(source: Overlaps, rows: np.ndarray) -> np.ndarray:
    """Return log Delta(i, j) for the kernels i in ``rows`` (n,) and all kernels j: (n, N)."""
    result = _log_divergences(source.values[rows], source.own[rows][:, None], source.own)
    result[np.arange(len(rows)), rows] = -np.inf
    return result


NEAR, BELOW, ABOVE = range(3)


def ranks(source: Overlaps) -> np.ndarray:
    """Rank the distances Delta(i, j) in each row i, (N, N): 0 is the nearest, ties share a rank.

    In each row the kernels j fall into three groups, from near to far. NEAR: Delta < own_i / 2,
    compared by log Delta. BELOW: other kernels with own_j - 2 overlap(i, j) < 0, compared by this
    number. ABOVE: the rest, compared by the same number.
    """
    own = source.own
    x = LOG_2 + source.values - own[None, :]  # log of 2 overlap / own_j
    with np.errstate(divide="ignore"):
        size = own[None, :] + np.maximum(x, 0.0) + np.log(-np.expm1(-np.abs(x)))
    delta = divergence_rows(source, np.arange(len(own)))
    near = (x > 0.0) & (size > own[:, None] - LOG_2)
    level = np.where(near, NEAR, np.where(x < 0.0, ABOVE, BELOW))
    value = np.where(near, delta, np.where(x < 0.0, size, -size))
    result = np.empty(x.shape)
    for i in range(len(own)):
        order = np.lexsort((value[i], level[i]))
        v, b = value[i, order], level[i, order]
        higher = (v[1:] != v[:-1]) | (b[1:] != b[:-1])
        result[i, order] = np.concatenate([[0], np.cumsum(higher)])
    return result


class Matrix(NamedTuple):
    """Ranks of the distances between N kernels, comparable within a row.

    values  (N, N) rank of kernel j in row i
    turned  (N, N) its transpose, in which the ranks of one kernel j lie side by side
    """

    values: np.ndarray
    turned: np.ndarray


@functools.lru_cache(maxsize=4)
def ranked(kernels: tuple[Kernel, ...], d: int) -> Matrix:
    """Return the ranks of the distances Delta of a dictionary in d inputs, cached for all seeds."""
    values = ranks(overlaps(kernels, d))
    return Matrix(values, np.ascontiguousarray(values.T))
