"""Linear learners of second order whose coefficients walk: the whole covariance is kept.

Of each kernel i, beside theta_i, the covariance P_i (F, F) of theta_i in units of the noise. A walk
adds a multiple of I before each round, which no factor takes in for less than F^3. Kept plainly,
P loses definiteness in the end where nothing is added; here it does not: with features of norm 1
and a walk of e, the smallest eigenvalue is e at least before a round and e / (1 + e) after it,
far above what rounding moves. P <- P - v v' with v = P z / sqrt(1 + z'P z) takes the same
product off P_jk and P_kj, so P stays symmetric to the bit.

F^2 multiply-adds give P z, and F^2 the update; by symmetry half of either would do.
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
from omkl.core.simd import LANES, aligned, fma, load, pack, store, total
from omkl.core.trigonometry import Double

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class RandomWalk(NamedTuple):
    """N learners with F = 2 D features each, B blocks of eight of them.

    padded      (N, d, W) frequencies as of ``RandomFeatures``
    theta       (N, 8 B) coefficients: sines, cosines; zeros behind
    covariance  (N, 8 B, 8 B) P_i; zeros behind
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
    angle, waves (D,) arguments, and their sines and cosines
    block        what was said in rounds that are learned already
    """

    z: np.ndarray
    product: np.ndarray
    variance: np.ndarray
    angle: np.ndarray
    waves: Double
    block: Block


def fresh(kernels: Sequence[Kernel], d: int, D: int, seed: int, prior: float) -> RandomWalk:
    """theta_i = 0 and P_i = prior I, on the features that every learner has for this seed."""
    N, W = len(kernels), -(-2 * D // LANES) * LANES
    covariance = aligned((N, W, W))
    j = np.arange(2 * D)
    covariance[:, j, j] = prior
    return RandomWalk(
        draw_features(kernels, d, D, seed).padded,
        aligned((N, W)),
        covariance,
        np.full(N, D),
        np.zeros(N, dtype=np.int64),
    )


def _scratch(model: RandomWalk, threads: int, every_kernel: bool, precision: str) -> Scratch:
    N, W = model.theta.shape
    D = int(model.n_waves[0])
    return Scratch(
        z=aligned((N, W)),
        product=aligned((N, W)),
        variance=np.zeros(N),
        angle=aligned((D,)),
        waves=Double(aligned((D,)), aligned((D,))),
        block=empty_block(N),
    )


@inlined
def _multiply(P, i, z, product):
    """product[i] = P[i] z[i]; returns z[i]'P[i] z[i]. z and product (N, W), P (N, W, W)."""
    W = z.shape[1]
    q = pack(0.0)
    c = 0
    while c < W:
        w = i * W * W + c
        many = c + 4 * LANES <= W
        a0 = pack(0.0)
        a1 = pack(0.0)
        a2 = pack(0.0)
        a3 = pack(0.0)
        if many:
            for j in range(W):
                u = pack(z[i, j])
                a0 = fma(load(P, w), u, a0)
                a1 = fma(load(P, w + LANES), u, a1)
                a2 = fma(load(P, w + 2 * LANES), u, a2)
                a3 = fma(load(P, w + 3 * LANES), u, a3)
                w += W
            at = i * W + c
            store(product, at + LANES, a1)
            store(product, at + 2 * LANES, a2)
            store(product, at + 3 * LANES, a3)
            q = fma(load(z, at + LANES), a1, q)
            q = fma(load(z, at + 2 * LANES), a2, q)
            q = fma(load(z, at + 3 * LANES), a3, q)
        else:
            for j in range(W):
                a0 = fma(load(P, w), pack(z[i, j]), a0)
                w += W
        store(product, i * W + c, a0)
        q = fma(load(z, i * W + c), a0, q)
        c += 4 * LANES if many else LANES
    return total(q)


@inlined
def _say(model, X, row, i, scratch):
    """f_i at X[row], and its variance."""
    W = model.theta.shape[1]
    write_features(model, X, row, i, scratch)
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
    for j in range(2 * model.n_waves[i]):
        u = pack(-scratch.product[i, j])
        w = (at + j) * W
        for k in range(0, W, LANES):
            store(model.covariance, w + k, fma(u, load(scratch.product, at + k), load(
                model.covariance, w + k
            )))  # fmt: skip
        model.covariance[i, j, j] += walk


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
