"""Sums of exact kernels over rows, by kernel family: distances first, then alpha kappa.

A row (families, n) holds what the kernels of a family share: squared distances, absolute
distances, inner products; a Cauchy kernel shares nothing, so its place holds its values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omkl.core.jit import inlined
from omkl.core.simd import LANES, fma, gather, load, pack, store, total
from omkl.core.weights import exp_of_pack

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel

GAUSSIAN, LAPLACIAN, POLYNOMIAL, CAUCHY = 0, 1, 2, 3
CODES = {
    "gaussian": GAUSSIAN, "laplacian": LAPLACIAN, "polynomial": POLYNOMIAL, "cauchy": CAUCHY,
}  # fmt: skip


def parameter_of(kernel: Kernel) -> float:
    match kernel.family:
        case "gaussian":
            return -0.5 / kernel.bandwidth
        case "laplacian":
            return -1.0 / kernel.bandwidth
        case "cauchy":
            return 1.0 / kernel.bandwidth
    return kernel.bandwidth  # a polynomial's degree


@inlined
def _squared(a, b):
    return (a - b) * (a - b)


@inlined
def _absolute(a, b):
    return abs(a - b)


@inlined
def _product(a, b):
    return a * b


def _accumulator(term):
    """A pass over support rows that adds term(x_k, x_sk) over the inputs k, four at a time."""

    @inlined
    def add_four(x, rows, k, start, row, s, n):
        """row[s : s + n] += the terms of up to four inputs from the k-th on, n <= 8."""
        d, stride = rows.shape
        first = k * stride + start + s
        kept = term(x[k], load(rows, first, n))
        if k + 1 < d:
            kept = kept + term(x[k + 1], load(rows, first + stride, n))
        if k + 2 < d:
            kept = kept + term(x[k + 2], load(rows, first + 2 * stride, n))
        if k + 3 < d:
            kept = kept + term(x[k + 3], load(rows, first + 3 * stride, n))
        if k > 0:
            kept = kept + load(row, s, n)
        store(row, s, kept, n)

    @inlined
    def accumulate(x, rows, start, n, row):
        whole = n - n % LANES
        for k in range(0, rows.shape[0], 4):
            for s in range(0, whole, LANES):
                add_four(x, rows, k, start, row, s, LANES)
            if whole < n:
                add_four(x, rows, k, start, row, whole, n - whole)

    return accumulate


_add_squared, _add_absolute, _add_product = map(_accumulator, (_squared, _absolute, _product))


@inlined
def _cauchy_of_eight(c, x, rows, start, row, s, n):
    d, stride = rows.shape
    kept = pack(1.0)
    for k in range(d):
        scaled = (load(rows, k * stride + start + s, n) - x[k]) * c
        kept = kept * fma(scaled, scaled, pack(1.0))
    store(row, s, pack(1.0) / kept, n)


@inlined
def cauchy_values(c, x, rows, start, n, row):
    """row[:n] = the Cauchy kernel of bandwidth 1 / c of x (d,) and n of rows (d, capacity)."""
    whole = n - n % LANES
    for s in range(0, whole, LANES):
        _cauchy_of_eight(c, x, rows, start, row, s, LANES)
    if whole < n:
        _cauchy_of_eight(c, x, rows, start, row, whole, n - whole)


@inlined
def add_distances(model, rows, x, start, n, row):
    """Squared and absolute distances and inner products of x (d,) to n of rows (d, capacity)."""
    if model.needs[GAUSSIAN]:
        _add_squared(x, rows, start, n, row[GAUSSIAN])
    if model.needs[LAPLACIAN]:
        _add_absolute(x, rows, start, n, row[LAPLACIAN])
    if model.needs[POLYNOMIAL]:
        _add_product(x, rows, start, n, row[POLYNOMIAL])


@inlined
def add_distance(family, parameter, rows, x, n, row):
    """What ``sum_of`` needs of a family, of x (d,) and n of rows (d, capacity), in its place."""
    if family == GAUSSIAN:
        _add_squared(x, rows, 0, n, row[GAUSSIAN])
    elif family == LAPLACIAN:
        _add_absolute(x, rows, 0, n, row[LAPLACIAN])
    elif family == POLYNOMIAL:
        _add_product(x, rows, 0, n, row[POLYNOMIAL])
    else:
        cauchy_values(parameter, x, rows, 0, n, row[CAUCHY])


@inlined
def exponential_sum(c, distance, alpha, n):
    """Sum of alpha exp(c distance) over n terms, c <= 0."""
    whole = n - n % LANES
    kept = pack(0.0)
    for s in range(0, whole, LANES):
        kept = fma(load(alpha, s), exp_of_pack(load(distance, s) * c), kept)
    if whole < n:
        some = n - whole
        kept = fma(load(alpha, whole, some), exp_of_pack(load(distance, whole, some) * c), kept)
    return total(kept)


@inlined
def _power(degree, base):
    power = base
    for _ in range(degree - 1):
        power = power * base
    return power


@inlined
def polynomial_sum(degree, product, alpha, n):
    """Sum of alpha product^degree over n terms."""
    whole = n - n % LANES
    kept = pack(0.0)
    for s in range(0, whole, LANES):
        kept = fma(load(alpha, s), _power(degree, load(product, s)), kept)
    if whole < n:
        some = n - whole
        kept = fma(load(alpha, whole, some), _power(degree, load(product, whole, some)), kept)
    return total(kept)


@inlined
def sum_of(family, parameter, row, alpha, n):
    """Sum of alpha kappa over n terms, whose distances or values are in ``row``."""
    if family == POLYNOMIAL:
        return polynomial_sum(int(parameter), row, alpha, n)
    if family == CAUCHY:
        return polynomial_sum(1, row, alpha, n)
    return exponential_sum(parameter, row, alpha, n)


@inlined
def _gathered_exponentials(c, row, members, base, alpha, s, n, kept):
    distance = gather(row, members, s, base, n)
    return fma(load(alpha, s, n), exp_of_pack(distance * c), kept)


@inlined
def _gathered_powers(degree, row, members, base, alpha, s, n, kept):
    return fma(load(alpha, s, n), _power(degree, gather(row, members, s, base, n)), kept)


@inlined
def gathered_sum_of(family, parameter, row, members, base, alpha, n):
    """``sum_of`` over the entries members - base (n,) of the row, to the same bits."""
    whole = n - n % LANES
    kept = pack(0.0)
    if family in (POLYNOMIAL, CAUCHY):
        degree = int(parameter) if family == POLYNOMIAL else 1
        for s in range(0, whole, LANES):
            kept = _gathered_powers(degree, row, members, base, alpha, s, LANES, kept)
        if whole < n:
            kept = _gathered_powers(degree, row, members, base, alpha, whole, n - whole, kept)
    else:
        for s in range(0, whole, LANES):
            kept = _gathered_exponentials(parameter, row, members, base, alpha, s, LANES, kept)
        if whole < n:
            kept = _gathered_exponentials(
                parameter, row, members, base, alpha, whole, n - whole, kept
            )
    return total(kept)
