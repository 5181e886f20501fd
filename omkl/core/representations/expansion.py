"""Exact kernels: learners that are a growing expansion over all rows seen.

    f_i(x) = sum over s < t of alpha[i, s] kappa_i(x, x_s)

The curse of dimensionality: round t costs O(t (d + N)), and a stream of T
rounds keeps O(T (N + d)) numbers. Distances and inner products to the support
are computed once a row and shared by all kernels.

Rows are summed in tiles of ``TILE`` rounds, aligned to the round and not to
the blocks in which they arrive: when a row arrives, the part of its sums over
the support of finished tiles is computed ahead, many rows at a time and on
several threads; the rest, fewer than ``TILE`` terms, follows in its round. So
any split into blocks, and any number of threads, gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from omkl.core.hyperparameters import Range
from omkl.core.jit import compiled, dispatch, inlined
from omkl.core.kernel_sums import CODES, add_distances, add_values, parameter_of, sum_of
from omkl.core.representations import Lookahead, Representation, evaluate_row
from omkl.core.simd import LANES, aligned, load, store

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel

TILE = 64  # rounds whose far sums are computed together
CHUNK = 256  # support rows whose distances are held at a time


class Expansion(NamedTuple):
    """The expansion of N kernels over the rows seen so far.

    x       (d, capacity) the rows, inputs first so that a pass over rows is contiguous
    alpha   (N, capacity) coefficients
    n       (1,) int64, rows held
    budget  (1,) int64, rows held at most; 0 for no limit
    family  (N,) int64 codes; parameter (N,) the number c of each kernel
    needs   (4,) bool, the families that occur
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


class Scratch(NamedTuple):
    """What the rounds of a tile write to.

    far    (TILE, N) sums over the support of finished tiles
    rows   (threads, 4, CHUNK) squared and absolute distances, inner products; of one Cauchy
           kernel, which shares none of them, its values
    upto   (1,) int64, how many support rows the far sums cover
    next   (1,) int64, the row of ``far`` that the next round needs
    """

    far: np.ndarray
    rows: np.ndarray
    upto: np.ndarray
    next: np.ndarray


def check_kernels(kernels: Sequence[Kernel]) -> None:
    """ValueError for a kernel of a family that machine code is not made of."""
    for kernel in kernels:
        if kernel.family not in CODES:
            raise ValueError(
                f"exact-kernel learners have no {kernel.family} kernels; they have: "
                f"{', '.join(CODES)}. Choose another dictionary (kernels=rbf51_lap25)."
            )


def empty_expansion(kernels: Sequence[Kernel], d: int) -> Expansion:
    """No rows yet, but arrays for those of a tile; ValueError for a family that it lacks."""
    check_kernels(kernels)
    family = np.array([CODES[k.family] for k in kernels], dtype=np.int64)
    parameter = np.array([parameter_of(k) for k in kernels])
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
    """The same expansion in arrays for ``n_rows`` rows; they double, but for a budget."""
    capacity = model.x.shape[1]
    if n_rows <= capacity or model.budget[0]:
        return model
    more = max(n_rows, 2 * capacity) - capacity
    return model._replace(
        x=np.ascontiguousarray(np.pad(model.x, ((0, 0), (0, more)))),
        alpha=np.ascontiguousarray(np.pad(model.alpha, ((0, 0), (0, more)))),
    )


@inlined
def _distances(model, x, start, n, row):
    """Those of x (d,) to n rows of its own support."""
    add_distances(model, model.x, x, start, n, row)


@inlined
def _add_sums(model, x, start, n, row, f):
    """f (N,) += the sums over n support rows from start on, their distances in row (4, CHUNK)."""
    for i in range(f.shape[0]):
        family, parameter = model.family[i], model.parameter[i]
        add_values(family, parameter, model.x, x, start, n, row[family])
        alpha = model.alpha[i, start : start + n]
        f[i] += sum_of(family, parameter, row[family], alpha, n)


@compiled
def far_sums(model, upto, X, first, last, far, row):
    """far[r] (N,) = the sums of row X[r] over support rows 0 .. upto, for r in first .. last.

    Chunk by chunk over the support, so that coefficients are read once for all rows.
    """
    for r in range(first, last):
        for i in range(far.shape[1]):
            far[r, i] = 0.0
    for start in range(0, upto, CHUNK):
        n = min(CHUNK, upto - start)
        for r in range(first, last):
            _distances(model, X[r], start, n, row)
            _add_sums(model, X[r], start, n, row, far[r])


@inlined
def outputs(model, x, scratch, f):
    """f (N,) at x (d,), of which the sums over finished tiles are known; x takes its place."""
    n = model.n[0]
    upto = scratch.upto[0]
    for k in range(x.shape[0]):
        model.x[k, n] = x[k]
    row = scratch.rows[0]
    for i in range(f.shape[0]):
        f[i] = scratch.far[scratch.next[0], i]
    for start in range(upto, n, CHUNK):
        some = min(CHUNK, n - start)
        _distances(model, x, start, some, row)
        _add_sums(model, x, start, some, row, f)
    scratch.next[0] += 1


@inlined
def _leave_out_first(rows, i, n):
    """rows[i, :n] = rows[i, 1 : n + 1], eight at a time."""
    first = i * rows.shape[1]
    whole = n - n % LANES
    for s in range(0, whole, LANES):
        store(rows, first + s, load(rows, first + s + 1))
    store(rows, first + whole, load(rows, first + whole + 1, n - whole), n - whole)


@inlined
def fade_and_add(model, i, fade, c):
    """alpha_i <- fade alpha_i, and c for the row of this round; on a full budget the oldest goes.

    To be called for every kernel before ``append``, which does the same with the rows.
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
    """The row x[:, n] of this round joins the n rows; its coefficients are written.

    On a full budget the oldest, which is the first, goes.
    """
    n = model.n[0]
    budget = model.budget[0]
    if budget == 0 or n < budget:
        model.n[0] += 1
        return
    for k in range(model.x.shape[0]):
        _leave_out_first(model.x, k, n)


def _evaluate(scratch, model, X, row, selection):
    outputs(model, X[row], scratch, selection.f)


dispatch(evaluate_row, Scratch, _evaluate)


def prepare_tile(
    model: Expansion, scratch: Scratch, X: np.ndarray, pool: ThreadPoolExecutor | None
) -> Expansion:
    """Compute the far sums of the rows X (n, d), which must fit into the current tile."""
    model = with_capacity(model, int(model.n[0]) + len(X))
    held = 0 if model.budget[0] else int(model.n[0])
    upto = held - held % TILE
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
    """Call ``part(k, first, last)`` for all rows: a thread's share each, or all at once."""
    n_parts = min(n_threads, n_rows) if pool else 1
    edges = np.linspace(0, n_rows, n_parts + 1).astype(int)
    if pool and n_parts > 1:
        list(pool.map(part, range(n_parts), edges[:-1], edges[1:]))
    else:
        part(0, 0, n_rows)


def tile_rows(model: Expansion) -> int:
    """How many rows fit into the current tile."""
    return TILE if model.budget[0] else TILE - int(model.n[0]) % TILE


def _growing(params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int) -> Expansion:
    return empty_expansion(kernels, d)


def _sliding(params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int) -> Expansion:
    """Arrays for ``params.budget`` rows and the current one.

    In whole packs, which none straddles. Coefficients change after they were written, so no sums
    are taken ahead.
    """
    most = params.budget
    capacity = -(-(most + 1) // LANES) * LANES
    return empty_expansion(kernels, d)._replace(
        x=aligned((d, capacity)),
        alpha=aligned((len(kernels), capacity)),
        budget=np.array([most], dtype=np.int64),
    )


def _scratch(model: Expansion, threads: int, every_kernel: bool, precision: str) -> Scratch:
    return Scratch(
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
    scratch=_scratch,
    lookahead=Lookahead(tile_rows, prepare_tile),
    written=("x",),
    draws_features=False,
    supports_float32=False,
    support_size=_support_size,
    kept_rows=_kept_rows,
    check_kernels=check_kernels,
    with_room=with_capacity,
)
SLIDING = GROWING._replace(name="expansion over the last rows", fresh=_sliding, with_room=None)
