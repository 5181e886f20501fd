"""A basis of rows that grows: a row joins where those before it do not span it nearly enough.

    f(x) = theta'z(x), z(x) = L^(-1) (kappa(x, x_s))_s, where L L' is the kernel matrix of the basis

One Gaussian kernel. z(x) are the coordinates of kappa(x, .) in an orthonormal basis of the span, so
1 - ||z(x)||^2 is its squared distance from the span: the condition of approximate linear
dependence. A row that joins adds a coordinate and leaves those before it as they are, so whatever
was learned in them stays. Another root of the kernel matrix, as by its eigenvectors, turns these
coordinates: learners that turn with them predict the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.core.compiler import dispatch, inlined
from omkl.core.representations import Representation, evaluate_row
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
from omkl.core.simd import LANES, aligned, total

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class GrowingBasis(NamedTuple):
    """The function of one kernel in at most B coordinates.

    stored   the rows of the basis; its capacity W is B + 1 in whole packs
    project  (B, W) L^(-1), zeros behind its rows and columns
    theta    (1, W) coordinates of the function, zeros behind
    """

    stored: Expansion
    project: np.ndarray
    theta: np.ndarray

    @property
    def n_kernels(self) -> int:
        return 1


class BasisScratch(NamedTuple):
    """What a round writes to.

    x (d,) the row; rows (4, W) its distances to the basis; kappa (W,) kernels of both; z (W,) its
    coordinates, zeros behind up to a whole pack; product (W,) for the learner.
    """

    x: np.ndarray
    rows: np.ndarray
    kappa: np.ndarray
    z: np.ndarray
    product: np.ndarray


def _fresh(params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int) -> GrowingBasis:
    """No rows yet, and arrays for ``params.budget``."""
    stored = SLIDING.fresh(params, kernels, d, D, seed)
    W = stored.x.shape[1]
    return GrowingBasis(stored, aligned((params.budget, W)), aligned((1, W)))


def _scratch(model: GrowingBasis, threads: int) -> BasisScratch:
    d, W = model.stored.x.shape
    return BasisScratch(
        x=np.zeros(d),
        rows=aligned((len(CODES), W)),
        kappa=aligned((W,)),
        z=aligned((W,)),
        product=aligned((W,)),
    )


def _evaluate(scratch, model, X, row, selection):
    write_gaussian(model.stored, scratch, X, row)
    n = model.stored.n[0]
    W = model.project.shape[1]
    for j in range(n):
        scratch.z[j] = total(own_sum(scratch.kappa, 0, model.project, j * W, j + 1))
    for j in range(n, n + LANES - n % LANES):
        scratch.z[j] = 0.0
    selection.f[0] = total(own_sum(scratch.z, 0, model.theta, 0, n))


dispatch(evaluate_row, BasisScratch, _evaluate)


@inlined
def joins(model, scratch, threshold):
    """Let the row of this round join the basis where there is room and it is far from the span.

    That is where its squared distance exceeds the threshold, > 0. It has a coordinate more then.
    Return whether it joined.
    """
    stored = model.stored
    n = stored.n[0]
    W = model.project.shape[1]
    distance = 1.0 - total(own_sum(scratch.z, 0, scratch.z, 0, n))
    if n == stored.budget[0] or not distance > threshold:
        return False
    root = math.sqrt(distance)
    for j in range(n):
        step = scratch.z[j] / root
        for s in range(j + 1):
            model.project[n, s] -= step * model.project[j, s]
    model.project[n, n] = 1.0 / root
    scratch.z[n] = root
    for j in range(n + 1, W):
        scratch.z[j] = 0.0
    store_row(stored, scratch.x)
    return True


GROWING_BASIS = Representation(
    name="a basis of rows that grows",
    fresh=_fresh,
    scratch=_scratch,
    draws_features=False,
    support_size=stored_size,
    kept_rows=stored_rows,
)
