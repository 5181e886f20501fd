"""How far two kernels are from each other, in a form whose order rounding does not decide.

The overlap of two kernels is the integral of kappa_i kappa_j over R^d. Kernels are products over
the inputs, so it is the integral over one input to the power d. It is kept as its logarithm, which
neither over- nor underflows, whatever d is. A family states the integrals that have a closed form
(``kernels.Family.overlaps``); the others are integrated numerically.

Delta(i, j), the integral over R^d of (kappa_i - kappa_j)^2, is own_i + own_j - 2 overlap(i, j)
with own_i = overlap(i, i), the integral of kappa_i^2. In many inputs these differ by hundreds of
orders of magnitude: with own_i = 1e16 no digit of own_j is left in the sum. So what is common to
the candidates is never added. Of several j for one i

    own_j - 2 overlap(i, j)

has the order of Delta(i, j). Where both terms nearly cancel own_i, Delta itself is used: its
logarithm is exact to rounding there.

Source: Ghari and Shen, JMLR, (27).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from omkl.core.compiler import compiled, dispatch, inlined, qualify_name
from omkl.core.kernels import FAMILIES, Family, Kernel
from omkl.core.weights import exp_nonpositive, log_one_minus_exp, log_one_plus

# --- Overlaps -------------------------------------------------------------------------------------


LOG_2 = math.log(2.0)


def log_overlaps_in_one_input(first: str, p: np.ndarray, second: str, q: np.ndarray) -> np.ndarray:
    """log of the integral of kappa kappa' over one input, for bandwidths of two families.

    p and q have one shape, which the result has too. The closed form that either family states,
    and otherwise ``integrated``.
    """
    one, other = FAMILIES[first], FAMILIES[second]
    if not (one.spectrum and other.spectrum):
        raise ValueError(f"{first} and {second} kernels have no overlap of spectra")
    if second in one.overlaps:
        return one.overlaps[second](p, q)
    if first in other.overlaps:
        return other.overlaps[first](q, p)
    return integrated(one, p, other, q)


STEP = 1.0 / 16.0  # of the integral over log |r|
MARGINS = 40.0, 45.0  # how far it goes below and above the logarithms of the lengths
AGREEMENT = 1e-9


def integrated(one: Family, p: np.ndarray, other: Family, q: np.ndarray) -> np.ndarray:
    """log of the integral of kappa kappa' over one input, by the trapezoid rule in log |r|.

    The rule converges exponentially for kernels that are analytic but for r = 0: the error is
    that of rounding (1e-14) for Gaussian, Laplacian, Cauchy and Matern kernels. Raises
    ValueError where half as many points differ by more than 1e-9, or where the ends still count:
    a kernel with corners, or one whose square has no integral.
    """
    bandwidths, places = zip(*(np.unique(b, return_inverse=True) for b in (p, q)), strict=True)
    lengths = [
        family.length_power * np.log(b) for family, b in zip((one, other), bandwidths, strict=True)
    ]
    s = np.arange(
        min(x.min() for x in lengths) - MARGINS[0], max(x.max() for x in lengths) + MARGINS[1], STEP
    )
    # Both factors have the square root of a weight 2 r: the overlaps of a family are symmetric.
    factors = [
        np.sqrt(2.0 * STEP * np.exp(s)) * np.array([f.value(np.exp(s)[:, None], b) for b in some])
        for f, some in zip((one, other), bandwidths, strict=True)
    ]

    def summed(points: slice) -> np.ndarray:  # not by BLAS: any number of threads, the same bits
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
    """log of the integrals of kappa_i kappa_j over R^d, (N, N), symmetric."""
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
    """The logarithms of all overlaps as a matrix (N, N); own (N,) is its diagonal."""

    values: np.ndarray
    own: np.ndarray


class OverlapPieces(NamedTuple):
    """The logarithms of the overlaps of N kernels, computed when asked for: O(N) memory.

    The overlap of two kernels scales with their lengths a and b: its log is
    log a + H(log b - log a), and H, one function for every two families, is kept as
    polynomials on short pieces of its argument. Equal to the matrix to 1e-12 (relative
    where it is above 1).

    own      (N,) log of the integral of kappa_i^2 over R^d
    family   (N,) number of the kernel's family
    length   (N,) log of the kernel's length
    d        inputs
    first    (F, F) the first piece for families f <= g
    n_pieces (F, F) how many pieces
    lowest   (F, F) argument at which the first piece begins
    pieces   (n, DEGREE + 1) coefficients, the highest power first
    span     (2,) the smallest own less 40, and what no log |own_j - 2 overlap(i, j)| exceeds it by
    """

    own: np.ndarray
    family: np.ndarray
    length: np.ndarray
    d: int
    first: np.ndarray
    n_pieces: np.ndarray
    lowest: np.ndarray
    pieces: np.ndarray
    span: np.ndarray


qualify_name(OverlapPieces)  # functions dispatch on it: its name must not depend on where

LARGEST_MATRIX = 1024  # kernels: 8 MB
PER_UNIT = 4  # pieces of H in a unit of its argument
DEGREE = 11


@functools.lru_cache(maxsize=4)
def overlaps(kernels: tuple[Kernel, ...], d: int) -> Overlaps | OverlapPieces:
    """The overlaps of a dictionary in a form that fits into memory.

    Returns
    -------
    All of them as a matrix, for up to LARGEST_MATRIX kernels; else the pieces that they are
    computed from when asked for. Made once for all seeds.

    Raises
    ------
    ValueError
        A kernel has no spectrum, or integration does not find an overlap.
    """
    if len(kernels) <= LARGEST_MATRIX:
        values = log_overlaps(kernels, d)
        return Overlaps(values, np.diagonal(values).copy())
    return overlap_pieces(kernels, d)


def overlap_pieces(kernels: Sequence[Kernel], d: int) -> OverlapPieces:
    """What the overlaps of these kernels in d inputs are computed from."""
    names = sorted({kernel.family for kernel in kernels})
    bandwidth = np.array([kernel.bandwidth for kernel in kernels])
    family = np.array([names.index(kernel.family) for kernel in kernels])
    length = np.array([FAMILIES[k.family].length_power for k in kernels]) * np.log(bandwidth)
    own = np.empty(len(kernels))
    F = len(names)
    first, count = np.zeros((F, F), dtype=np.int64), np.zeros((F, F), dtype=np.int64)
    lowest = np.zeros((F, F))
    pieces: list[np.ndarray] = []
    for f, g in itertools.combinations_with_replacement(range(F), 2):
        here, there = length[family == f], length[family == g]
        low = 0.0 if f == g else there.min() - here.max()
        high = there.max() - here.min()
        n = max(1, math.ceil((high - low) * PER_UNIT))
        first[f, g], count[f, g], lowest[f, g] = len(pieces), n, low
        pieces += list(_pieces(names[f], names[g], low, n))
    table = np.array(pieces)
    for f in range(F):
        where = family == f
        own[where] = d * (length[where] + np.polyval(table[first[f, f]], -1.0))
    # By Cauchy and Schwarz overlap(i, j) is at most the largest own.
    span = np.array([own.min() - 40.0, own.max() - own.min() + 42.0 + d * LOG_2])
    return OverlapPieces(own, family, length, d, first, count, lowest, table, span)


def _pieces(one: str, other: str, low: float, n: int) -> np.ndarray:
    """H of two families from ``low`` on, n pieces: (n, DEGREE + 1).

    The interpolation at Chebyshev's points is exact to rounding on pieces this short.
    """
    nodes = np.cos(np.pi * (np.arange(DEGREE + 1) + 0.5) / (DEGREE + 1))
    s = low + (np.arange(n)[:, None] + 0.5 * (nodes + 1.0)) / PER_UNIT
    b = np.exp(s / FAMILIES[other].length_power)
    values = log_overlaps_in_one_input(one, np.ones_like(s), other, b)
    return np.linalg.solve(np.vander(nodes), values.T).T


@inlined
def computed_overlaps(source, i, others, n, out):
    """out[m] = log overlap of the kernels i and others[m], for m < n; equal kernels have own.

    others and out have n entries or more.
    """
    family, length, pieces = source.family, source.length, source.pieces
    fi, li = family[i], length[i]
    for m in range(n):
        fj, lj = family[others[m]], length[others[m]]
        swap = fj < fi or (fj == fi and lj < li)
        f, g = (fj, fi) if swap else (fi, fj)
        begin = lj if swap else li
        s = li - lj if swap else lj - li
        x = (s - source.lowest[f, g]) * PER_UNIT
        k = min(max(int(x), 0), source.n_pieces[f, g] - 1)
        x = 2.0 * (x - k) - 1.0
        k += source.first[f, g]
        H = pieces[k, 0]
        for c in range(1, DEGREE + 1):
            H = H * x + pieces[k, c]
        out[m] = source.own[i] if fi == fj and li == lj else source.d * (begin + H)


@compiled
def _fill_overlaps(source, rows, others, out):
    """out (n, N) = log overlap of the kernels rows (n,) with the kernels others (N,)."""
    for r in range(rows.shape[0]):
        computed_overlaps(source, rows[r], others, others.shape[0], out[r])


def overlap_rows(source: Overlaps | OverlapPieces, rows: np.ndarray) -> np.ndarray:
    """Rows (n, N) of the logarithms of the overlaps."""
    if isinstance(source, Overlaps):
        return source.values[rows]
    out = np.empty((len(rows), len(source.own)))
    _fill_overlaps(source, np.asarray(rows, dtype=np.int64), np.arange(out.shape[1]), out)
    return out


# --- Distances ------------------------------------------------------------------------------------


def _log_divergences(overlap: np.ndarray, own_i: np.ndarray, own_j: np.ndarray) -> np.ndarray:
    """log(own_i + own_j - 2 overlap) of three logarithms."""
    squares = np.logaddexp(own_i, own_j)
    ratio = LOG_2 + overlap - squares  # log of 2 int kk' / (int k^2 + int k'^2) <= 0
    with np.errstate(divide="ignore"):
        result = squares + np.log(-np.expm1(np.minimum(ratio, 0.0)))
    return np.where((overlap >= own_i) & (overlap >= own_j), -np.inf, result)  # equal kernels


def divergence_rows(source: Overlaps | OverlapPieces, rows: np.ndarray) -> np.ndarray:
    """Rows (n, N) of log Delta."""
    result = _log_divergences(overlap_rows(source, rows), source.own[rows][:, None], source.own)
    result[np.arange(len(rows)), rows] = -np.inf
    return result


NEAR, BELOW, ABOVE = range(3)


def ranks(source: Overlaps) -> np.ndarray:
    """The rank of Delta(i, j) among all j of row i, (N, N): 0 for the nearest, ties share one.

    Candidates are compared by log Delta where it is below own_i / 2 (NEAR), and otherwise by
    own_j - 2 overlap(i, j), which is negative (BELOW) or not (ABOVE).
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
    """Distances (N, N) between kernels, of which those in one row can be compared.

    turned is the same matrix with columns as rows, so that those to one kernel lie side by side.
    """

    values: np.ndarray
    turned: np.ndarray


def matrix_of(values: np.ndarray) -> Matrix:
    """Distances (N, N) in the form that learners look them up in."""
    return Matrix(values, np.ascontiguousarray(values.T))


@functools.lru_cache(maxsize=4)
def ranked(kernels: tuple[Kernel, ...], d: int) -> Matrix | OverlapPieces:
    """Delta by its order, for learners that look for the farthest or nearest kernel in a round."""
    source = overlaps(kernels, d)
    return matrix_of(ranks(source)) if isinstance(source, Overlaps) else source


@functools.singledispatch
def distances_from(source, i, others, n, out, scratch):
    """out[m] = how far kernel others[m] is from kernel i, for m < n.

    others, out and scratch have n entries or more; scratch is written. Numbers of one i can be
    compared with each other.
    """
    raise TypeError(f"{type(source)} holds no distances")


@functools.singledispatch
def distances_to(source, j, others, n, out, scratch):
    """out[m] = how far kernel j is from kernel others[m], for m < n; arrays as above.

    A number can be compared with those that ``distances_from`` gives for the kernel others[m].
    """
    raise TypeError(f"{type(source)} holds no distances")


def _given_from(source, i, others, n, out, scratch):
    values = source.values[i]
    for m in range(n):
        out[m] = values[others[m]]


def _given_to(source, j, others, n, out, scratch):
    values = source.turned[j]
    for m in range(n):
        out[m] = values[others[m]]


@inlined
def log_delta(overlap, own_i, own_j):
    """log(own_i + own_j - 2 overlap) of three logarithms; each is one number."""
    if overlap >= own_i and overlap >= own_j:
        return -np.inf  # equal kernels
    high = own_j if own_i < own_j else own_i
    squares = high + log_one_plus(exp_nonpositive(-abs(own_j - own_i)))
    ratio = LOG_2 + overlap - squares
    return squares + log_one_minus_exp(ratio if ratio < 0.0 else 0.0)


@inlined
def distance(overlap, rest, own_i, own_j, span):
    """One number with the order of ``ranks`` among all j of one i.

    overlap, own_i and own_j are logarithms, one number each, and rest is log(1 - exp(-|x|)) for
    x = log of 2 overlap / own_j. span (2,) is that of ``OverlapPieces``.
    """
    x = LOG_2 + overlap - own_j
    size = own_j + (x if x > 0.0 else 0.0) + rest - span[0]
    size = size if size > 0.0 else 0.0
    if x < 0.0:
        return size
    if size + span[0] > own_i - LOG_2:
        return log_delta(overlap, own_i, own_j) - own_i - 2.0 * span[1]
    return -size


@inlined
def _log_rests(n, x):
    """x[m] <- log(1 - exp(x[m])) of x (n,); a loop without branches or gathers is vector code."""
    for m in range(n):
        x[m] = log_one_minus_exp(x[m])


def _computed_from(source, i, others, n, out, scratch):
    computed_overlaps(source, i, others, n, scratch)
    own = source.own
    for m in range(n):
        out[m] = -abs(LOG_2 + scratch[m] - own[others[m]])
    _log_rests(n, out)
    for m in range(n):
        out[m] = distance(scratch[m], out[m], own[i], own[others[m]], source.span)


def _computed_to(source, j, others, n, out, scratch):
    computed_overlaps(source, j, others, n, scratch)
    own = source.own
    for m in range(n):
        out[m] = -abs(LOG_2 + scratch[m] - own[j])
    _log_rests(n, out)
    for m in range(n):
        out[m] = distance(scratch[m], out[m], own[others[m]], own[j], source.span)


dispatch(distances_from, Matrix, _given_from)
dispatch(distances_to, Matrix, _given_to)
dispatch(distances_from, OverlapPieces, _computed_from)
dispatch(distances_to, OverlapPieces, _computed_to)


@compiled
def _fill_distances(source, rows, others, out, scratch):
    """out (n, N) = the distances of the kernels others (N,) from rows (n,); scratch (N,)."""
    for r in range(rows.shape[0]):
        distances_from(source, rows[r], others, others.shape[0], out[r], scratch)


def distance_rows(source: Any, rows: np.ndarray, n_kernels: int) -> np.ndarray:
    """Rows (n, N) of what ``distances_from`` gives."""
    out = np.empty((len(rows), n_kernels))
    others = np.arange(n_kernels)
    _fill_distances(source, np.asarray(rows, dtype=np.int64), others, out, np.empty(n_kernels))
    return out


# --- Other readings of Delta ----------------------------------------------------------------------


def normalised(source: Overlaps) -> np.ndarray:
    """log of Delta(i, j) / (own_i own_j)^(1/2), (N, N): what is far is no longer what is wide."""
    rows = np.arange(len(source.own))
    return divergence_rows(source, rows) - 0.5 * (source.own[:, None] + source.own[None, :])
