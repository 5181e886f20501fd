"""Exact kernels: learners that are a growing expansion over all rows so far (the support).

    f_i(x) = sum over s < t of alpha[i, s] kappa_i(x, x_s)

Round t costs O(t (d + N)), and a stream of T rounds stores O(T (N + d)) numbers. Distances and
inner products to the support are computed once per row and shared by all kernels.

Rounds form tiles of ``TILE`` rounds. When rows arrive, their sums over the support of complete
tiles ("far sums") are computed first, for many rows at a time and on several threads. The remaining
terms, fewer than ``TILE``, are added in each round. Tiles begin at rounds with fixed numbers, not
where blocks begin, so results do not depend on blocks or threads, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, NamedTuple

import numpy as np

from omkl.core.compiler import compiled, dispatch, inlined
from omkl.core.hyperparameters import Range
from omkl.core.kernels import BUILT_IN, FAMILIES, Kernel
from omkl.core.representations import Lookahead, Representation, evaluate_row
from omkl.core.simd import LANES, aligned, fma, gather, load, pack, store, total
from omkl.core.weights import exp_of_pack

# --- Sums of exact kernels over rows, composed of functions of the kernel families ----------------
#
# First the distances of a row x to many rows are computed, then the sum of alpha kappa. Distances
# are stored in an array (families, n). If the kernels of a family share numbers, such as squared
# distances, its line has these numbers. Otherwise its line has the values of one kernel at a time.


CODES = {family.name: code for code, family in enumerate(BUILT_IN)}
POLYNOMIAL = CODES["polynomial"]
SHARED = tuple(CODES[family.name] for family in BUILT_IN if family.shares)


def _by_code(cases: Sequence[tuple[tuple[int, ...], Callable[..., Any]]]) -> Callable[..., Any]:
    """Return an inlined f(code, *args) that calls the function of the case with this code.

    A case is (codes, function). A code in none of the cases calls the function of the first case.
    """
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
    """Return a function that sums term(x_k, x_sk) over the inputs k, for many support rows."""
    term = inlined(term)

    @inlined
    def add_four(x, rows, k, start, row, s, n):
        """Add the terms of up to four inputs to the sums of up to eight support rows.

        Parameters
        ----------
        x
            Row (d,).
        rows
            Support rows (d, capacity).
        k
            First of the inputs. For k = 0 the sums start at 0.
        start
            First column of ``rows``.
        row, s
            Sums, updated in place, and the index of the first.
        n
            Number of support rows, 0..8.
        """
        d, stride = rows.shape
        first = k * stride + start + s
        terms = term(x[k], load(rows, first, n))
        if k + 1 < d:
            terms = terms + term(x[k + 1], load(rows, first + stride, n))
        if k + 2 < d:
            terms = terms + term(x[k + 2], load(rows, first + 2 * stride, n))
        if k + 3 < d:
            terms = terms + term(x[k + 3], load(rows, first + 3 * stride, n))
        if k > 0:
            terms = terms + load(row, s, n)
        store(row, s, terms, n)

    @inlined
    def distances(c, x, rows, start, n, row):
        """Write the distances of a row to consecutive support rows.

        Parameters
        ----------
        c
            Not used: families that share distances have no parameter here.
        x, rows, start
            As in ``add_four``.
        n
            Number of support rows.
        row
            Output (n,) or longer.
        """
        whole = n - n % LANES
        # With four inputs at a time, the sums in ``row`` are read and written once for all four.
        for k in range(0, rows.shape[0], 4):
            for s in range(0, whole, LANES):
                add_four(x, rows, k, start, row, s, LANES)
            if whole < n:
                add_four(x, rows, k, start, row, whole, n - whole)

    return distances


def _multiplied(term: Callable[..., Any], finish: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that writes the values of one kernel at many support rows.

    The value at the support row v is finish(exp, c, s), where c is the parameter of the kernel and
    s is the product of term(x[k], v[k], c) over the inputs k.
    """
    term, finish = inlined(term), inlined(finish)

    @inlined
    def multiply(c, x, rows, start, row, s, n):
        """Write the values of one kernel at up to eight support rows.

        Parameters
        ----------
        c
            Parameter of the kernel.
        x
            Row (d,).
        rows, start
            Support rows (d, capacity), and the first column.
        row, s
            Output, and its first index.
        n
            Number of support rows, 0..8.
        """
        d, stride = rows.shape
        product = pack(1.0)
        for k in range(d):
            product = product * term(x[k], load(rows, k * stride + start + s, n), c)
        store(row, s, finish(exp_of_pack, c, product), n)

    @inlined
    def values(c, x, rows, start, n, row):
        """Write the values of one kernel at consecutive support rows.

        Parameters
        ----------
        c, x, rows, start
            As in ``multiply``.
        n
            Number of support rows.
        row
            Output (n,) or longer.
        """
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
    """Write the distances (or inner products) between x and support rows, for each family.

    All kernels of a family share these numbers (``shares`` of ``Family``). Families that the
    dictionary lacks, and families that share no numbers, are left out.

    Parameters
    ----------
    model
        Model with ``needs``, whether the dictionary has kernels of each family.
    rows
        Support rows (d, capacity).
    x
        Row (d,).
    start, n
        First column of ``rows``, and number of columns.
    row
        Output (families, n) or wider.
    """
    for code in SHARED:
        if model.needs[code]:
            _share(code, 0.0, x, rows, start, n, row[code])


@inlined
def add_values(family, c, rows, x, start, n, row):
    """Write the values of a kernel to row[:n], if its family shares no numbers.

    For other families nothing is written, because ``add_distances`` has written their numbers.

    Parameters
    ----------
    family, c
        Code of the family, and parameter of the kernel.
    rows, x, start, n
        As in ``add_distances``.
    row
        Output (n,) or longer.
    """
    if family not in SHARED:
        _evaluate(family, c, x, rows, start, n, row)


# --- Sums -----------------------------------------------------------------------------------------


@inlined
def _as_it_is(exp, c, s):
    """Return s: for families that share no numbers, s is already the value of the kernel."""
    return s


def _sum(finish: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that sums alpha kappa over n terms, kappa = finish(exp, c, distance)."""

    @inlined
    def add(c, distance, alpha, n):
        """Return the sum of alpha kappa over the first n terms.

        Parameters
        ----------
        c
            Parameter of the kernel.
        distance
            Distances, or values of a kernel whose family shares no numbers.
        alpha
            Coefficients.
        n
            Number of terms.
        """
        whole = n - n % LANES
        sums = pack(0.0)
        for s in range(0, whole, LANES):
            sums = fma(load(alpha, s), finish(exp_of_pack, c, load(distance, s)), sums)
        if whole < n:
            rest = n - whole
            kappa = finish(exp_of_pack, c, load(distance, whole, rest))
            sums = fma(load(alpha, whole, rest), kappa, sums)
        return total(sums)

    return add


def _gathered_sum(finish: Callable[..., Any]) -> Callable[..., Any]:
    """Do the same as ``_sum`` for the distances at the indices members - base (n,).

    The result is the same as that of ``_sum``, to the last bit.
    """

    @inlined
    def add_eight(c, distance, members, base, alpha, s, n, sums):
        """Add up to eight terms to a pack of sums, and return it.

        Parameters
        ----------
        c, distance, alpha
            As in ``_sum``.
        members
            Columns of the support, ascending.
        base
            Column of the first entry of ``distance``.
        s, n
            Index of the first term, and number of terms, 1..8.
        sums
            Sums so far.
        """
        kappa = finish(exp_of_pack, c, gather(distance, members, s, base, n))
        return fma(load(alpha, s, n), kappa, sums)

    @inlined
    def add(c, distance, members, base, alpha, n):
        """Return the sum of alpha kappa over the first n members.

        Parameters
        ----------
        c, distance, members, base, alpha
            As in ``add_eight``.
        n
            Number of members.
        """
        whole = n - n % LANES
        sums = pack(0.0)
        for s in range(0, whole, LANES):
            sums = add_eight(c, distance, members, base, alpha, s, LANES, sums)
        if whole < n:
            sums = add_eight(c, distance, members, base, alpha, whole, n - whole, sums)
        return total(sums)

    return add


def _each(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return f(code, *args), which calls ``make(finish)`` of the family with this code.

    ``make`` is called once per ``finish``: families with the same ``finish`` share the result.
    """
    codes: dict[Any, tuple[int, ...]] = {}
    for code, family in enumerate(BUILT_IN):
        finish = family.finish if family.shares else _as_it_is
        codes[finish] = (*codes.get(finish, ()), code)
    return _by_code([(some, make(inlined(finish))) for finish, some in codes.items()])


# sum_of(family, c, row, alpha, n) is the sum of alpha kappa over n terms with distances or values
# row[:n]. gathered_sum_of(family, c, row, members, base, alpha, n) uses row[members[:n] - base]
# instead, and gives the same bits.
sum_of, gathered_sum_of = _each(_sum), _each(_gathered_sum)


# --- Expansions -----------------------------------------------------------------------------------


TILE = 64  # rounds whose far sums are computed together
CHUNK = 256  # support rows whose distances are computed at once


class Expansion(NamedTuple):
    """Expansion of N kernels over the rows so far.

    x          (d, capacity) rows, one per column, so that a pass over rows is contiguous
    alpha      (N, capacity) coefficients
    n          (1,) int64, number of rows
    budget     (1,) int64, largest number of rows; 0 for no limit
    family     (N,) int64, code of the family of each kernel
    parameter  (N,) parameter c of each kernel
    needs      (4,) bool, whether each family occurs
    """

    x: np.ndarray
    alpha: np.ndarray
    n: Annotated[np.ndarray, Range(0, "x.1")]
    budget: np.ndarray
    family: np.ndarray
    parameter: np.ndarray
    needs: np.ndarray

    @property
    def n_kernels(self) -> int:
        return len(self.alpha)


class ExpansionScratch(NamedTuple):
    """Scratch of the rounds of a tile.

    far    (TILE, N) sums over the support of complete tiles
    rows   (threads, 4, CHUNK) numbers for one chunk of support rows: squared distances, absolute
           distances, inner products, and values of one Cauchy kernel
    upto   (1,) int64, number of support rows in the far sums
    next   (1,) int64, row of ``far`` for the next round
    """

    far: np.ndarray
    rows: np.ndarray
    upto: np.ndarray
    next: np.ndarray


def check_kernels(kernels: Sequence[Kernel]) -> None:
    """Raise ValueError for a kernel whose family has no ``term`` and ``finish`` to compile."""
    for kernel in kernels:
        if kernel.family not in CODES:
            raise ValueError(
                f"exact-kernel learners have no {kernel.family} kernels; they have: "
                f"{', '.join(CODES)}. Choose another dictionary (kernels=rbf51_lap25)."
            )


def empty_expansion(kernels: Sequence[Kernel], d: int) -> Expansion:
    """Return an expansion that contains no rows yet, with arrays for one tile.

    Raises ValueError for a kernel whose family has no ``term`` and ``finish`` to compile.
    """
    check_kernels(kernels)
    family = np.array([CODES[k.family] for k in kernels], dtype=np.int64)
    parameter = np.array([FAMILIES[k.family].parameter(k.bandwidth) for k in kernels])
    needs = np.zeros(len(CODES), dtype=np.bool_)
    needs[family] = True
    return Expansion(
        x=np.zeros((d, TILE)),
        alpha=np.zeros((len(kernels), TILE)),
        n=np.zeros(1, dtype=np.int64),
        budget=np.zeros(1, dtype=np.int64),
        family=family,
        parameter=parameter,
        needs=needs,
    )


def with_capacity(model: Expansion, n_rows: int) -> Expansion:
    """Return the expansion with room for ``n_rows`` rows. Arrays that grow at least double.

    With a budget, the arrays already have their final size.
    """
    capacity = model.x.shape[1]
    if n_rows <= capacity or model.budget[0]:
        return model
    more = max(n_rows, 2 * capacity) - capacity
    return model._replace(
        x=np.ascontiguousarray(np.pad(model.x, ((0, 0), (0, more)))),
        alpha=np.ascontiguousarray(np.pad(model.alpha, ((0, 0), (0, more)))),
    )


@inlined
def _add_sums(model, x, start, n, row, f):
    """Add to f (N,) the sums over n support rows from ``start`` on. ``row`` has their distances."""
    for i in range(f.shape[0]):
        family, parameter = model.family[i], model.parameter[i]
        add_values(family, parameter, model.x, x, start, n, row[family])
        alpha = model.alpha[i, start : start + n]
        f[i] += sum_of(family, parameter, row[family], alpha, n)


@compiled
def far_sums(model, upto, X, first, last, far, row):
    """Write far[r] (N,): the sums at row X[r] over the support rows before ``upto``.

    The outer loop runs over chunks of the support, so that coefficients are read once for all rows.

    Parameters
    ----------
    model
        Expansion.
    upto
        Number of support rows in the sums.
    X
        Rows (n, d).
    first, last
        Rows first .. last - 1 are computed.
    far
        Output (TILE, N).
    row
        Scratch (4, CHUNK) of a thread.
    """
    for r in range(first, last):
        for i in range(far.shape[1]):
            far[r, i] = 0.0
    for start in range(0, upto, CHUNK):
        n = min(CHUNK, upto - start)
        for r in range(first, last):
            add_distances(model, model.x, X[r], start, n, row)
            _add_sums(model, X[r], start, n, row, far[r])


@inlined
def _leave_out_first(rows, i, n):
    """Remove rows[i, 0]: move rows[i, 1 : n + 1] to rows[i, :n], eight numbers at a time."""
    first = i * rows.shape[1]
    whole = n - n % LANES
    for s in range(0, whole, LANES):
        store(rows, first + s, load(rows, first + s + 1))
    store(rows, first + whole, load(rows, first + whole + 1, n - whole), n - whole)


@inlined
def fade_and_add(model, i, fade, c):
    """Multiply alpha_i by ``fade``, and append c for the row of this round.

    If the budget is full, the oldest coefficient is removed. Call this function for every kernel
    before ``append``, which appends the row and removes the oldest row.

    Parameters
    ----------
    model
        Expansion, updated in place.
    i
        Kernel.
    fade
        Factor of the old coefficients.
    c
        New coefficient.
    """
    n = model.n[0]
    gone = 1 if 0 < model.budget[0] <= n else 0
    alpha = model.alpha
    first = i * alpha.shape[1]
    whole = n - n % LANES
    for s in range(0, whole, LANES):
        store(alpha, first + s, load(alpha, first + s + gone) * fade)
    m = n - whole
    store(alpha, first + whole, load(alpha, first + whole + gone, m) * fade, m)
    alpha[i, n - gone] = c


@inlined
def append(model):
    """Append the row x[:, n] of this round, after its coefficients were written.

    If the budget is full, the oldest row is removed.
    """
    n = model.n[0]
    budget = model.budget[0]
    if budget == 0 or n < budget:
        model.n[0] += 1
        return
    for k in range(model.x.shape[0]):
        _leave_out_first(model.x, k, n)


def _evaluate_expansion(scratch, model, X, row, selection):
    """Write the outputs at X[row]: its far sums plus the terms of the current tile. Store the row.

    Parameters
    ----------
    scratch, model, X, row, selection
        As in ``evaluate_row``. ``scratch`` has the far sums.
    """
    n, x, f = model.n[0], X[row], selection.f
    for k in range(x.shape[0]):
        model.x[k, n] = x[k]
    for i in range(f.shape[0]):
        f[i] = scratch.far[scratch.next[0], i]
    for start in range(scratch.upto[0], n, CHUNK):
        some = min(CHUNK, n - start)
        add_distances(model, model.x, x, start, some, scratch.rows[0])
        _add_sums(model, x, start, some, scratch.rows[0], f)
    scratch.next[0] += 1


dispatch(evaluate_row, ExpansionScratch, _evaluate_expansion)


def prepare_tile(
    model: Expansion, scratch: ExpansionScratch, X: np.ndarray, pool: ThreadPoolExecutor | None
) -> Expansion:
    """Compute the far sums (module docstring) of rows that fit into the current tile.

    Parameters
    ----------
    model, scratch
        Expansion, and its scratch, which is written.
    X
        Rows (n, d).
    pool
        Threads; None for one.

    Returns
    -------
    The expansion, with room for these rows.
    """
    model = with_capacity(model, int(model.n[0]) + len(X))
    n_rows = 0 if model.budget[0] else int(model.n[0])
    upto = n_rows - n_rows % TILE
    scratch.upto[0], scratch.next[0] = upto, 0

    def part(k: int, first: int, last: int) -> None:
        far_sums(model, upto, X, first, last, scratch.far, scratch.rows[k])

    in_parts(part, len(X), len(scratch.rows), pool if upto else None)
    return model


def in_parts(
    part: Callable[[int, int, int], None],
    n_rows: int,
    n_threads: int,
    pool: ThreadPoolExecutor | None,
) -> None:
    """Call ``part(k, first, last)`` for all rows, on several threads or in one call.

    Parameters
    ----------
    part
        Function of the index k of a thread and its rows first .. last - 1.
    n_rows, n_threads
        Number of rows, and largest number of threads.
    pool
        Threads; None for one.
    """
    n_parts = min(n_threads, n_rows) if pool else 1
    edges = np.linspace(0, n_rows, n_parts + 1).astype(int)
    if pool and n_parts > 1:
        list(pool.map(part, range(n_parts), edges[:-1], edges[1:]))
    else:
        part(0, 0, n_rows)


def tile_rows(model: Expansion) -> int:
    """Return the number of rows that fit into the current tile."""
    return TILE if model.budget[0] else TILE - int(model.n[0]) % TILE


def _growing(params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int) -> Expansion:
    return empty_expansion(kernels, d)


def _sliding(params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int) -> Expansion:
    """Make an expansion over at most ``params.budget`` rows, with room for the current row too.

    Coefficients change after they are written, so sums over earlier rows cannot be computed in
    advance.
    """
    most = params.budget
    capacity = -(-(most + 1) // LANES) * LANES
    return empty_expansion(kernels, d)._replace(
        x=aligned((d, capacity)),
        alpha=aligned((len(kernels), capacity)),
        budget=np.array([most], dtype=np.int64),
    )


def _expansion_scratch(model: Expansion, threads: int) -> ExpansionScratch:
    return ExpansionScratch(
        far=np.zeros((TILE, model.n_kernels)),
        rows=np.zeros((threads, len(CODES), CHUNK)),
        upto=np.zeros(1, dtype=np.int64),
        next=np.zeros(1, dtype=np.int64),
    )


def _support_size(model: Expansion) -> np.ndarray:
    return np.full(model.n_kernels, model.n[0])


def _kept_rows(model: Expansion) -> int:
    return int(model.n[0])


GROWING = Representation(
    name="growing expansion",
    fresh=_growing,
    scratch=_expansion_scratch,
    lookahead=Lookahead(tile_rows, prepare_tile),
    written=("x",),
    draws_features=False,
    support_size=_support_size,
    kept_rows=_kept_rows,
    check_kernels=check_kernels,
    with_room=with_capacity,
)
SLIDING = GROWING._replace(name="expansion over the last rows", fresh=_sliding, with_room=None)
