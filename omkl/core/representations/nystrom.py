"""The Nystrom method: the first B rows learned from are stored, and k features are made of them.

    f(x) = sum over stored s of alpha_s kappa(x, x_s)              while rows are being stored
    f(x) = theta'z(x), z(x) = D_k^(-1/2) V_k' (kappa(x, x_s))_s    from then on

D_k (k, k) and V_k (B, k) are the k largest eigenvalues and eigenvectors of the kernel matrix of the
stored rows. One Gaussian kernel. The decomposition is made once, ahead of the first round after the
last row was stored: machine code has none. It needs no label, so any split into blocks gives the
same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from omkl.core.compiler import dispatch, inlined
from omkl.core.hyperparameters import Range
from omkl.core.representations import Lookahead, Representation, evaluate_row
from omkl.core.representations.support_vectors import (
    CODES,
    SLIDING,
    Expansion,
    own_sum,
    store_row,
    stored_rows,
    stored_size,
    write_gaussian,
)
from omkl.core.simd import LANES, aligned, load, store, total

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel

# Of the largest eigenvalue: directions with less are rounding, which 1 / sqrt(D) would blow up.
LEAST_EIGENVALUE = 1e-12
NO_LIMIT = 1 << 31  # rows of a tile once the features are there

STORING, READY, LINEAR = range(3)  # phases; READY: features are there, and no step by them yet


class Nystrom(NamedTuple):
    """The function of one kernel over at most B stored rows, later of k features.

    stored   the rows, with coefficients alpha (1, capacity); capacity is B + 1 in whole packs
    project  (k, capacity) D_k^(-1/2) V_k', zeros behind B; all zeros while STORING
    theta    (1, k in whole packs) coefficients of the features
    phase    (1,) int64: STORING, READY or LINEAR
    """

    stored: Expansion
    project: np.ndarray
    theta: np.ndarray
    phase: Annotated[np.ndarray, Range(STORING, LINEAR)]

    @property
    def n_kernels(self) -> int:
        return 1


class NystromScratch(NamedTuple):
    """What a round writes to.

    x (d,) the row; rows (4, capacity) its distances to stored ones; kappa (capacity,) kernels of
    both; z (k in whole packs,) features.
    """

    x: np.ndarray
    rows: np.ndarray
    kappa: np.ndarray
    z: np.ndarray


def _in_packs(n: int) -> int:
    return -(-n // LANES) * LANES


def _fresh(params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int) -> Nystrom:
    """Arrays for ``params.budget`` rows and ``params.n_components`` features."""
    stored, k = SLIDING.fresh(params, kernels, d, D, seed), params.n_components
    project, theta = aligned((k, stored.x.shape[1])), aligned((1, _in_packs(k)))
    return Nystrom(stored, project, theta, np.array([STORING]))


def _scratch(model: Nystrom, threads: int) -> NystromScratch:
    d, capacity = model.stored.x.shape
    return NystromScratch(
        x=np.zeros(d),
        rows=aligned((len(CODES), capacity)),
        kappa=aligned((capacity,)),
        z=aligned((model.theta.shape[1],)),
    )


def _evaluate(scratch, model, X, row, selection):
    stored = model.stored
    write_gaussian(stored, scratch, X, row)
    n = stored.n[0]
    if model.phase[0] != STORING:
        for j in range(model.project.shape[0]):
            first = j * model.project.shape[1]
            scratch.z[j] = total(own_sum(scratch.kappa, 0, model.project, first, n))
    if model.phase[0] == LINEAR:
        selection.f[0] = total(own_sum(scratch.z, 0, model.theta, 0, model.project.shape[0]))
    else:
        selection.f[0] = total(own_sum(scratch.kappa, 0, stored.alpha, 0, n))


dispatch(evaluate_row, NystromScratch, _evaluate)


@inlined
def step_or_store(model, scratch, step):
    """f <- f - step kappa(x, .) at the row of this round: it is stored, where there is room.

    Else theta <- theta - step z(x), from now on.
    """
    stored = model.stored
    n = stored.n[0]
    if n < stored.budget[0]:
        stored.alpha[0, n] = -step
        store_row(stored, scratch.x)
        return
    model.phase[0] = LINEAR
    for j in range(0, scratch.z.shape[0], LANES):
        store(model.theta, j, load(model.theta, j) - load(scratch.z, j) * step)


def _with_features(model: Nystrom) -> Nystrom:
    """The model with the features of its stored rows, and theta that gives the same function.

    The same as far as k features can: with k < B it is the projection of that function.
    """
    from omkl.utils.threads import one_thread_each  # above, it would count as compiled

    stored, k = model.stored, len(model.project)
    B = int(stored.budget[0])
    rows = stored.x[:, :B].T
    gram = [np.exp(stored.parameter[0] * np.square(rows - x).sum(axis=1)) for x in rows]
    with one_thread_each():  # the number of threads would change the last bits
        values, vectors = np.linalg.eigh(np.array(gram))
    values, vectors = values[::-1][:k], vectors[:, ::-1][:, :k]
    kept = values > LEAST_EIGENVALUE * values[0]
    roots, vectors = np.sqrt(values[kept]), vectors[:, kept]
    project, theta = aligned(model.project.shape), aligned(model.theta.shape)
    project[: len(roots), :B] = (vectors / roots).T
    theta[0, : len(roots)] = stored.alpha[0, :B] @ vectors * roots
    return model._replace(project=project, theta=theta, phase=np.array([READY]))


def _prepare_tile(
    model: Nystrom, scratch: NystromScratch, X: np.ndarray, pool: ThreadPoolExecutor | None
) -> Nystrom:
    waits = model.phase[0] == STORING and model.stored.n[0] == model.stored.budget[0]
    return _with_features(model) if waits else model


def _tile_rows(model: Nystrom) -> int:
    """As many as can be stored: the features are made before the row after them."""
    left = int(model.stored.budget[0] - model.stored.n[0])
    return left if model.phase[0] == STORING and left else NO_LIMIT


NYSTROM = Representation(
    name="features of stored rows by the Nystrom method",
    fresh=_fresh,
    scratch=_scratch,
    draws_features=False,
    lookahead=Lookahead(_tile_rows, _prepare_tile),
    support_size=stored_size,
    kept_rows=stored_rows,
)
