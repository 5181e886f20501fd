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

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.core.jit import compiled, dispatch, inlined
from omkl.core.kernel_sums import CAUCHY, CODES, add_distances, cauchy_values, parameter_of, sum_of
from omkl.core.representations import Lookahead, Representation, evaluate_row

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel

TILE = 64  # rounds whose far sums are computed together
CHUNK = 256  # support rows whose distances are held at a time


class Support(NamedTuple):
    """The expansion of N kernels over the rows seen so far.

    x       (d, capacity) the rows, inputs first so that a pass over rows is contiguous
    alpha   (N, capacity) coefficients
    n       (1,) int64, rows held
    budget  (1,) int64, rows held at most; 0 for no limit
    family  (N,) int64 codes; parameter (N,) what multiplies distances, or the degree
    needs   (4,) bool, the families that occur
    """

    x: np.ndarray
    alpha: np.ndarray
    n: np.ndarray
    budget: np.ndarray
    family: np.ndarray
    parameter: np.ndarray
    needs: np.ndarray

    @property
    def n_kernels(self) -> int:
        return len(self.alpha)


class Sums(NamedTuple):
    """Room for one tile of rounds.

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


def support(kernels: Sequence[Kernel], d: int, capacity: int) -> Support:
    """An empty expansion with room for ``capacity`` rows; ValueError for a family it lacks."""
    for kernel in kernels:
        if kernel.family not in CODES:
            raise ValueError(
                f"exact-kernel learners have no {kernel.family} kernels; they have: "
                f"{', '.join(CODES)}. Choose another dictionary (kernels=rbf51_lap25)."
            )
    family = np.array([CODES[k.family] for k in kernels], dtype=np.int64)
    parameter = np.array([parameter_of(k) for k in kernels])
    needs = np.zeros(len(CODES), dtype=np.bool_)
    needs[family] = True
    capacity = max(capacity, TILE)
    return Support(
        x=np.zeros((d, capacity)),
        alpha=np.zeros((len(kernels), capacity)),
        n=np.zeros(1, dtype=np.int64),
        budget=np.zeros(1, dtype=np.int64),
        family=family,
        parameter=parameter,
        needs=needs,
    )


def sums(model: Support, n_threads: int) -> Sums:
    """Empty room for the sums of a model's rounds."""
    return Sums(
        far=np.zeros((TILE, len(model.alpha))),
        rows=np.zeros((n_threads, len(CODES), CHUNK)),
        upto=np.zeros(1, dtype=np.int64),
        next=np.zeros(1, dtype=np.int64),
    )


def with_room(model: Support, n_rows: int) -> Support:
    """The same expansion with room for ``n_rows`` rows; grows by doubling, but for a budget."""
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
    """f (N,) += the sums over support rows start .. start + n, whose distances are in row."""
    for i in range(f.shape[0]):
        family, parameter = model.family[i], model.parameter[i]
        if family == CAUCHY:
            cauchy_values(parameter, x, model.x, start, n, row[CAUCHY])
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
def outputs(model, x, buffers, f):
    """f_i(x) (N,), of which the sums over finished tiles are in the buffers; x takes its place."""
    n = model.n[0]
    upto = buffers.upto[0]
    for k in range(x.shape[0]):
        model.x[k, n] = x[k]
    row = buffers.rows[0]
    for i in range(f.shape[0]):
        f[i] = buffers.far[buffers.next[0], i]
    for start in range(upto, n, CHUNK):
        some = min(CHUNK, n - start)
        _distances(model, x, start, some, row)
        _add_sums(model, x, start, some, row, f)
    buffers.next[0] += 1


@inlined
def append(model):
    """The row of this round joins the support; its coefficients alpha[:, n] are written.

    On a full budget it takes the place of the oldest.
    """
    n = model.n[0]
    budget = model.budget[0]
    if budget == 0 or n < budget:
        model.n[0] += 1
        return
    for s in range(n):  # the oldest is the first
        for k in range(model.x.shape[0]):
            model.x[k, s] = model.x[k, s + 1]
        for i in range(model.alpha.shape[0]):
            model.alpha[i, s] = model.alpha[i, s + 1]


def _evaluate(buffers, model, X, row, rnd):
    outputs(model, X[row], buffers, rnd.f)


dispatch(evaluate_row, Sums, _evaluate)


def prepare_tile(
    model: Support, buffers: Sums, X: np.ndarray, pool: ThreadPoolExecutor | None
) -> Support:
    """Compute the far sums of the rows X (n, d), which must fit into the current tile."""
    model = with_room(model, int(model.n[0]) + len(X))
    held = 0 if model.budget[0] else int(model.n[0])
    upto = held - held % TILE
    buffers.upto[0], buffers.next[0] = upto, 0
    n_parts = min(len(buffers.rows), len(X)) if pool and upto else 1
    edges = np.linspace(0, len(X), n_parts + 1).astype(int)
    tasks = [
        (model, upto, X, edges[k], edges[k + 1], buffers.far, buffers.rows[k])
        for k in range(n_parts)
    ]
    if pool and n_parts > 1:
        list(pool.map(lambda task: far_sums(*task), tasks))
    else:
        far_sums(*tasks[0])
    return model


def tile_rows(model: Support) -> int:
    """How many rows fit into the current tile."""
    return TILE if model.budget[0] else TILE - int(model.n[0]) % TILE


def _growing(params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int) -> Support:
    return support(kernels, d, TILE)


def _sliding(params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int) -> Support:
    """With room for ``params.budget`` rows and the current one.

    Coefficients change after they were written, so no sums are taken ahead.
    """
    most = params.budget
    return support(kernels, d, TILE)._replace(
        x=np.zeros((d, most + 1)),
        alpha=np.zeros((len(kernels), most + 1)),
        budget=np.array([most], dtype=np.int64),
    )


def _scratch(model: Support, threads: int, every_kernel: bool, precision: str) -> Sums:
    return sums(model, threads)


def _support_size(model: Support) -> np.ndarray:
    return np.full(model.n_kernels, model.n[0])


def _kept_rows(model: Support) -> int:
    return int(model.n[0])


GROWING = Representation(
    name="growing expansion",
    fresh=_growing,
    scratch=_scratch,
    lookahead=Lookahead(tile_rows, prepare_tile),
    written=("x",),
    draws_features=False,
    bounded=False,
    supports_float32=False,
    support_size=_support_size,
    kept_rows=_kept_rows,
)
SLIDING = GROWING._replace(name="expansion over the last rows", fresh=_sliding, bounded=True)
