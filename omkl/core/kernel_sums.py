"""Sums of exact kernels over rows, made from the pieces that each kernel family states.

First the distances of a row x to many rows, then the sum of alpha kappa. A row (families, n) holds
a line for each family: what its kernels share, as the squared distance; or, of a family that
shares nothing, the values of one kernel.

Where each kernel has rows of its own, nothing is shared: the values of several kernels of one
family are written first, and then each is summed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from omkl.core.jit import inlined
from omkl.core.kernels import BUILT_IN, FAMILIES, Kernel, exponential
from omkl.core.simd import LANES, fma, gather, load, pack, store, total
from omkl.core.weights import exp_of_pack

CODES = {family.name: code for code, family in enumerate(BUILT_IN)}
POLYNOMIAL = CODES["polynomial"]
SHARED = tuple(CODES[family.name] for family in BUILT_IN if family.shares)


def parameter_of(kernel: Kernel) -> float:
    """The number c of a kernel that compiled code takes."""
    return FAMILIES[kernel.family].parameter(kernel.bandwidth)


def _by_code(cases: Sequence[tuple[tuple[int, ...], Callable[..., Any]]]) -> Callable[..., Any]:
    """An inlined function of (code, ...) that calls the one whose codes hold the code."""
    codes, function = cases[-1]
    if len(cases) == 1:

        @inlined
        def only(code, *args):
            return function(*args)

        return only
    before = _by_code(cases[:-1])

    @inlined
    def choose(code, *args):
        if code in codes:
            return function(*args)
        return before(code, *args)

    return choose


# --- Distances ------------------------------------------------------------------------------------


def _added(term: Callable[..., Any]) -> Callable[..., Any]:
    """A pass over support rows that adds term(x_k, x_sk) over the inputs k, four at a time."""
    term = inlined(term)

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
    def distances(c, x, rows, start, n, row):
        """row[:n] = those of x (d,) to the columns start .. start + n of rows (d, capacity)."""
        whole = n - n % LANES
        for k in range(0, rows.shape[0], 4):
            for s in range(0, whole, LANES):
                add_four(x, rows, k, start, row, s, LANES)
            if whole < n:
                add_four(x, rows, k, start, row, whole, n - whole)

    return distances


def _multiplied(term: Callable[..., Any], finish: Callable[..., Any]) -> Callable[..., Any]:
    """A pass over support rows that multiplies term(x_k, x_sk, c) over the inputs k."""
    term, finish = inlined(term), inlined(finish)

    @inlined
    def multiply(c, x, rows, start, row, s, n):
        """row[s : s + n] = the values of one kernel, n <= 8."""
        d, stride = rows.shape
        kept = pack(1.0)
        for k in range(d):
            kept = kept * term(x[k], load(rows, k * stride + start + s, n), c)
        store(row, s, finish(exp_of_pack, c, kept), n)

    @inlined
    def values(c, x, rows, start, n, row):
        """row[:n] = those of x (d,) and the columns start .. start + n of rows (d, capacity)."""
        whole = n - n % LANES
        for s in range(0, whole, LANES):
            multiply(c, x, rows, start, row, s, LANES)
        if whole < n:
            multiply(c, x, rows, start, row, whole, n - whole)

    return values


_share = _by_code([((CODES[f.name],), _added(f.term)) for f in BUILT_IN if f.shares])
_evaluate = _by_code(
    [((CODES[f.name],), _multiplied(f.term, f.finish)) for f in BUILT_IN if not f.shares]
)


@inlined
def add_distances(model, rows, x, start, n, row):
    """What the kernels of each family that occurs share, of x (d,) and n of rows (d, capacity)."""
    for code in SHARED:
        if model.needs[code]:
            _share(code, 0.0, x, rows, start, n, row[code])


@inlined
def add_values(family, c, rows, x, start, n, row):
    """row[:n] = the kernel of x (d,) and n of rows (d, capacity), where its family shares nothing.

    Otherwise nothing is written: ``add_distances`` did it for all kernels of the family.
    """
    if family not in SHARED:
        _evaluate(family, c, x, rows, start, n, row)


# --- Sums -----------------------------------------------------------------------------------------


@inlined
def _as_it_is(exp, c, s):
    """A pack of values, for families that share nothing."""
    return s


def _sum(finish: Callable[..., Any]) -> Callable[..., Any]:
    """The sum of alpha kappa over n terms, with kappa = finish(exp, c, distance)."""

    @inlined
    def add(c, distance, alpha, n):
        """Of the first n of distance and of alpha."""
        whole = n - n % LANES
        kept = pack(0.0)
        for s in range(0, whole, LANES):
            kept = fma(load(alpha, s), finish(exp_of_pack, c, load(distance, s)), kept)
        if whole < n:
            rest = n - whole
            kappa = finish(exp_of_pack, c, load(distance, whole, rest))
            kept = fma(load(alpha, whole, rest), kappa, kept)
        return total(kept)

    return add


def _gathered_sum(finish: Callable[..., Any]) -> Callable[..., Any]:
    """As ``_sum``, over the entries members - base (n,) of the distances, to the same bits."""

    @inlined
    def add_eight(c, distance, members, base, alpha, s, n, kept):
        """The pack ``kept`` and the terms s .. s + n, n <= 8."""
        kappa = finish(exp_of_pack, c, gather(distance, members, s, base, n))
        return fma(load(alpha, s, n), kappa, kept)

    @inlined
    def add(c, distance, members, base, alpha, n):
        """Of the first n of members and of alpha; distance begins at the column ``base``."""
        whole = n - n % LANES
        kept = pack(0.0)
        for s in range(0, whole, LANES):
            kept = add_eight(c, distance, members, base, alpha, s, LANES, kept)
        if whole < n:
            kept = add_eight(c, distance, members, base, alpha, whole, n - whole, kept)
        return total(kept)

    return add


def _each(make: Callable[..., Any]) -> Callable[..., Any]:
    """``make`` for each way to finish; families that finish alike have one piece of code."""
    codes: dict[Any, tuple[int, ...]] = {}
    for code, family in enumerate(BUILT_IN):
        finish = family.finish if family.shares else _as_it_is
        codes[finish] = (*codes.get(finish, ()), code)
    return _by_code([(some, make(inlined(finish))) for finish, some in codes.items()])


_sum_of, _gathered_sum_of = _each(_sum), _each(_gathered_sum)


@inlined
def sum_of(family, c, row, alpha, n):
    """The sum of alpha kappa over n terms, whose distances or values are row[:n]; alpha[:n]."""
    return _sum_of(family, c, row, alpha, n)


@inlined
def gathered_sum_of(family, c, row, members, base, alpha, n):
    """``sum_of`` over the entries members[:n] - base of the row, to the same bits."""
    return _gathered_sum_of(family, c, row, members, base, alpha, n)


# --- Rows that one kernel alone has ---------------------------------------------------------------


def _normalised(kept, inverse, s, u):
    """A pack of inner products, each times the inverse norms of both."""
    return kept * (load(inverse, s) * u)


def _one(kept, inverse, s, u):
    """A pack as it is."""
    return kept


def _itself(x):
    """In place of its exponential."""
    return x


def _own_rows(family: Any) -> Callable[..., Any]:
    """``write_own_rows`` of one family."""
    term, finish = inlined(family.term), inlined(family.finish)
    scaled = inlined(_normalised if CODES[family.name] == POLYNOMIAL else _one)
    last = inlined(_itself) if family.finish is exponential else exp_of_pack

    @inlined
    def shared(c, x, rows, first):
        """The terms of all inputs, four at a time in the order of ``_added``."""
        d = x.shape[0]
        kept = pack(0.0)
        k = 0
        while k + 4 <= d:
            two = term(x[k], load(rows, first)) + term(x[k + 1], load(rows, first + LANES))
            three = two + term(x[k + 2], load(rows, first + 2 * LANES))
            kept = three + term(x[k + 3], load(rows, first + 3 * LANES)) + kept
            first += 4 * LANES
            k += 4
        if k < d:
            rest = term(x[k], load(rows, first))
            if k + 1 < d:
                rest = rest + term(x[k + 1], load(rows, first + LANES))
            if k + 2 < d:
                rest = rest + term(x[k + 2], load(rows, first + 2 * LANES))
            kept = rest + kept
        return kept

    @inlined
    def multiplied(c, x, rows, first):
        kept = pack(1.0)
        for k in range(x.shape[0]):
            kept = kept * term(x[k], load(rows, first + k * LANES), c)
        return kept

    distance = inlined(shared if family.shares else multiplied)

    @inlined
    def write(model, start, stop, x, u, row):
        held = model.inverse.shape[1]
        d = x.shape[0]
        n = 0
        for i in range(start, stop):
            c = model.parameter[i]
            for s in range(i * held, i * held + model.size[i], LANES):
                r = scaled(distance(c, x, model.x, s * d), model.inverse, s, u)
                store(row, n, finish(last, c, r))
                n += LANES
        return n

    return write


_own_rows_of = _by_code([((code,), _own_rows(family)) for code, family in enumerate(BUILT_IN)])
_EXPONENTIAL = tuple(CODES[family.name] for family in BUILT_IN if family.finish is exponential)


@inlined
def write_own_rows(model, start, stop, x, u, row):
    """Kernels of x (d,), where u is 1 / ||x||, and of the rows that each of some kernels has alone.

    They are those from ``start`` on before ``stop``, all of one family. Their values come one
    after the other into ``row``, each kernel's in whole packs. The steps of one exponential wait
    for each other: those of all follow together.

    model  parameter (N,), family (N,) and size (N,), the rows of each kernel; x (N, P, d, 8),
           eight rows input by input, then the next eight; inverse (N, 8 P), what inner products
           of polynomials are multiplied by besides u. Behind the last row of a kernel there are
           finite numbers.
    row    (64 P,) for eight kernels
    """
    n = _own_rows_of(model.family[start], model, start, stop, x, u, row)
    if model.family[start] in _EXPONENTIAL:
        for s in range(0, n, LANES):
            store(row, s, exp_of_pack(load(row, s)))


@inlined
def own_sum(row, start, alpha, first, n):
    """A pack whose total is the sum of n of row (64 P,) from ``start``, times those of alpha.

    These are alpha.flat[first : first + n], with zeros behind up to a whole pack. The sum has the
    bits of ``sum_of``.
    """
    kept = pack(0.0)
    for s in range(0, n, LANES):
        kept = fma(load(alpha, first + s), load(row, start + s), kept)
    return kept
