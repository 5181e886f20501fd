"""How far two kernels are from each other, in a form whose order rounding does not decide.

Delta(i, j), the integral over R^d of (kappa_i - kappa_j)^2, is own_i + own_j - 2 overlap(i, j)
with own_i = overlap(i, i), the integral of kappa_i^2. In many inputs these differ by hundreds of
orders of magnitude: with own_i = 1e16 no digit of own_j is left in the sum. What is common to the
candidates is therefore never added. Of several j for one i

    own_j - 2 overlap(i, j)

has the order of Delta(i, j), and where both sides of it nearly cancel own_i, Delta itself is used,
whose logarithm is exact to rounding there.

Source: Ghari and Shen, JMLR, (27).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from omkl.core.jit import compiled, dispatch, inlined
from omkl.core.kernels import Kernel
from omkl.core.overlaps import (
    LOG_2,
    OverlapPieces,
    Overlaps,
    computed_overlaps,
    overlap_rows,
    overlaps,
)
from omkl.core.weights import exp_nonpositive, log_one_minus_exp, log_one_plus


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


def sampled(kernels: Sequence[Kernel], X: np.ndarray) -> np.ndarray:
    """The mean of (kappa_i(r) - kappa_j(r))^2 over differences r of rows of X (n, d), (N, N).

    Section 4.1 of the JMLR paper names this expectation as an alternative to the integral. The
    differences are those of each row and the one that lies n // 2 rows further on.
    """
    if len(X) < 2:
        raise ValueError(f"differences of a sample need at least 2 rows; there are {len(X)}")
    r = X - np.roll(X, len(X) // 2, axis=0)
    values = np.stack([kernel.value(r) for kernel in kernels])
    result = np.empty((len(kernels), len(kernels)))
    for i in range(len(kernels)):
        result[i] = np.square(values - values[i]).mean(axis=1)
    return result
