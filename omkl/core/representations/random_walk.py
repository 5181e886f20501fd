"""Linear learners of second order whose coefficients walk: the whole covariance is kept.

Of each kernel i, beside theta_i, the covariance P_i (F, F) of theta_i in units of the noise. A walk
adds a multiple of I before each round, which no factor takes in for less than F^3. Kept plainly,
P loses definiteness in the end where nothing is added; here it does not: with features of norm 1
and a walk of e, the smallest eigenvalue is e at least before a round and e / (1 + e) after it,
far above what rounding moves. P <- P - v v' with v = P z / sqrt(1 + z'P z) takes the same
product off P_jk and P_kj, so half of P is kept.

Layout: as of ``core.linalg``, the rows of the upper triangle by blocks of eight.
``covariance[i, b, j]`` is the pack P[8 b .. 8 b + 7, j] of kernel i for j >= 8 b; what is below
stays 0. F^2 multiply-adds give P z, two for each number above the diagonal, and F^2 / 2 the
update.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from omkl.core.jit import dispatch, inlined
from omkl.core.representations import evaluate_row
from omkl.core.representations.blocks import (
    Block,
    empty_block,
    hand_out,
    rounds_to_learn,
    was_learned,
)
from omkl.core.representations.random_features import draw_features
from omkl.core.representations.recursive import RECURSIVE, write_features
from omkl.core.simd import LANES, aligned, fma, load, pack, store, total, totals

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class RandomWalk(NamedTuple):
    """N learners with F = 2 D features each, B blocks of eight of them.

    padded      (N, d, W) frequencies as of ``RandomFeatures``
    theta       (N, 8 B) coefficients: sines, cosines; zeros behind
    covariance  (N, B, 8 B, 8) the upper triangle of P_i, see above; zeros behind
    n_waves     (N,) int64 D; n_raw (N,) int64 zeros: as of ``Recursive``
    """

    padded: np.ndarray
    theta: np.ndarray
    covariance: np.ndarray
    n_waves: np.ndarray
    n_raw: np.ndarray

    @property
    def omega(self) -> np.ndarray:
        """The frequencies (N, d, D): a view, writes go through."""
        return self.padded[:, :, : self.n_waves[0]]

    @property
    def n_kernels(self) -> int:
        return len(self.theta)


class Scratch(NamedTuple):
    """What a round writes to.

    z            (N, 8 B) features of the evaluated kernels, each in its kernel's row
    product      (N, 8 B) P z; variance (N,) z'P z
    block        what was said in rounds that are learned already
    """

    z: np.ndarray
    product: np.ndarray
    variance: np.ndarray
    block: Block


def fresh(kernels: Sequence[Kernel], d: int, D: int, seed: int, prior: float) -> RandomWalk:
    """theta_i = 0 and P_i = prior I, on the features that every learner has for this seed."""
    N, W = len(kernels), -(-2 * D // LANES) * LANES
    covariance = aligned((N, W // LANES, W, LANES))
    j = np.arange(2 * D)
    covariance[:, j // LANES, j, j % LANES] = prior
    return RandomWalk(
        draw_features(kernels, d, D, seed).padded,
        aligned((N, W)),
        covariance,
        np.full(N, D),
        np.zeros(N, dtype=np.int64),
    )


def _scratch(model: RandomWalk, threads: int, every_kernel: bool, precision: str) -> Scratch:
    N, W = model.theta.shape
    return Scratch(
        z=aligned((N, W)),
        product=aligned((N, W)),
        variance=np.zeros(N),
        block=empty_block(N),
    )


@inlined
def _meet(P, w, below, beside, k, f):
    """Add eight numbers of a column of P, which begin at w, to k and f.

    Times ``beside``, the z of the column, and times ``below``, the z of their rows.
    """
    u = load(P, w)
    return fma(u, beside, k), fma(u, below, f)


@inlined
def _multiply(P, i, z, product):
    """product[i] = P[i] z[i]; returns z[i]'P[i] z[i]. z and product (N, W).

    Column by column of blocks: what is above the diagonal is added to the rows that it is in, and
    to the rows of the column.
    """
    W = z.shape[1]
    at = i * W
    for c in range(W // LANES):
        h = c * LANES
        z0, z1, z2, z3 = pack(z[i, h]), pack(z[i, h + 1]), pack(z[i, h + 2]), pack(z[i, h + 3])
        z4, z5, z6, z7 = pack(z[i, h + 4]), pack(z[i, h + 5]), pack(z[i, h + 6]), pack(z[i, h + 7])
        f0, f1, f2, f3 = pack(0.0), pack(0.0), pack(0.0), pack(0.0)
        f4, f5, f6, f7 = pack(0.0), pack(0.0), pack(0.0), pack(0.0)
        w = at * W + h * LANES
        for b in range(c):
            v = load(z, at + b * LANES)
            k = load(product, at + b * LANES)
            k, f0 = _meet(P, w, v, z0, k, f0)
            k, f1 = _meet(P, w + LANES, v, z1, k, f1)
            k, f2 = _meet(P, w + 2 * LANES, v, z2, k, f2)
            k, f3 = _meet(P, w + 3 * LANES, v, z3, k, f3)
            k, f4 = _meet(P, w + 4 * LANES, v, z4, k, f4)
            k, f5 = _meet(P, w + 5 * LANES, v, z5, k, f5)
            k, f6 = _meet(P, w + 6 * LANES, v, z6, k, f6)
            k, f7 = _meet(P, w + 7 * LANES, v, z7, k, f7)
            store(product, at + b * LANES, k)
            w += W * LANES
        k = totals(f0, f1, f2, f3, f4, f5, f6, f7)
        k = fma(load(P, w), z0, k)
        k = fma(load(P, w + LANES), z1, k)
        k = fma(load(P, w + 2 * LANES), z2, k)
        k = fma(load(P, w + 3 * LANES), z3, k)
        k = fma(load(P, w + 4 * LANES), z4, k)
        k = fma(load(P, w + 5 * LANES), z5, k)
        k = fma(load(P, w + 6 * LANES), z6, k)
        k = fma(load(P, w + 7 * LANES), z7, k)
        store(product, at + h, k)
    q = pack(0.0)
    for j in range(at, at + W, LANES):
        q = fma(load(z, j), load(product, j), q)
    return total(q)


@inlined
def _say(model, X, row, i, scratch):
    """f_i at X[row], and its variance."""
    W = model.theta.shape[1]
    write_features(model, X, row, X.shape[1], i, scratch)
    a = pack(0.0)
    for j in range(i * W, i * W + W, LANES):
        a = fma(load(model.theta, j), load(scratch.z, j), a)
    scratch.variance[i] = _multiply(model.covariance, i, scratch.z, scratch.product)
    return total(a)


def _evaluate(scratch, model, X, row, selection):
    if scratch.block.place[1] > 0:
        hand_out(scratch.block, selection.f, scratch.variance)
        return
    for m in range(selection.n_evaluated[0]):
        i = selection.evaluate[m]
        selection.f[i] = _say(model, X, row, i, scratch)


dispatch(evaluate_row, Scratch, _evaluate)


@inlined
def _learn_and_walk(model, i, scratch, error, walk):
    """theta_i += P_i z_i error / (1 + z_i'P_i z_i); P_i takes z_i in, and then ``walk`` I."""
    W = model.theta.shape[1]
    spread = 1.0 + scratch.variance[i]
    step = error / spread
    scale = 1.0 / math.sqrt(spread)
    at = i * W
    for j in range(0, W, LANES):
        v = load(scratch.product, at + j)
        store(model.theta, at + j, fma(v, step, load(model.theta, at + j)))
        store(scratch.product, at + j, v * scale)
    P = model.covariance
    for b in range(W // LANES):
        v = load(scratch.product, at + b * LANES) * -1.0
        w = (i * (W // LANES) + b) * W * LANES + b * LANES * LANES
        for j in range(b * LANES, W):
            store(P, w, fma(v, pack(scratch.product[i, j]), load(P, w)))
            w += LANES
    for j in range(2 * model.n_waves[i]):
        P[i, j // LANES, j, j % LANES] += walk


@inlined
def learn_every(model, scratch, f, y, walk):
    """All learners, who said f (N,), learn y and walk, unless they have."""
    if was_learned(scratch.block):
        return
    for i in range(f.shape[0]):
        _learn_and_walk(model, i, scratch, y - f[i], walk)


@inlined
def learn_rounds(model, scratch, X, y, row, walk):
    """Each learner takes a block of rounds by itself, as in ``recursive``."""
    n = rounds_to_learn(scratch.block, X, row)
    for i in range(model.theta.shape[0] if n > 0 else 0):
        for r in range(n):
            f = _say(model, X, row + r, i, scratch)
            scratch.block.f[r, i] = f
            scratch.block.variance[r, i] = scratch.variance[i]
            _learn_and_walk(model, i, scratch, y[row + r] - f, walk)
    if n > 0:
        scratch.block.place[0] = 0
        scratch.block.place[1] = n


RANDOM_WALK = RECURSIVE._replace(name="recursive, walking", scratch=_scratch, beside=())
