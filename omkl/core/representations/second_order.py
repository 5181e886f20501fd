"""Linear learners of second order: coefficients with the matrix of what is not known of them.

Of each kernel i, beside theta_i, a matrix P_i (F, F): the inverse of what was seen,
(lam I + sum_s z_s z_s')^-1, which is also the covariance of theta_i in units of the noise. The
engine evaluates a row once: theta_i'z_i, the product U'z and the variance z_i'P_i z_i; a step needs
nothing more (``core.linalg``). Features z_i are random ones, and for the family ``linear`` the
inputs and 1.

RECURSIVE      recursive least squares; FORECASTERS predict as Vovk, Azoury and Warmuth do
RANDOM_WALK    coefficients walk, and the whole covariance is kept
STACKED_RLS    a forecaster over the forecasters of the kernels; STACKED_RECURSIVE likewise without
               taking the row in before it is predicted
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.core.compiler import dispatch, inlined
from omkl.core.kernels import LINEAR
from omkl.core.linalg import dot_from, empty_factor, move_along, project_row, take_in
from omkl.core.representations import Representation, evaluate_row
from omkl.core.representations.random_features import blank, draw_features
from omkl.core.simd import LANES, aligned, fma, load, pack, store, total, totals
from omkl.core.trigonometry import sincos_of_pack

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


# --- Blocks of rounds that each learner has learned by itself -------------------------------------
#
# A matrix of second order fills the cache nearest to the processor, and those of all kernels none
# that is near. A learner that learns from its own output alone need not wait for the others: one
# after the other takes the whole block, and the engine then combines their outputs round by round.
# Rounds that are opened and closed by themselves go row by row, to the same bits.
#
# P depends on rows alone and not on labels. So learners of other outputs, with the same settings
# and on the same rows, go along with a first one: each has coefficients of its own, P and what a
# row is multiplied with are those of the first.


BLOCK = 64  # rounds that a learner takes at once


class Others(NamedTuple):
    """The learners of S other outputs, with the same P, as the first one needs them.

    theta    (S, N, F) their coefficients
    f        (S, BLOCK, N) their outputs of a block of rounds, and place (S, 2), as of ``Block``
    y        (S, BLOCK) their labels of these rounds
    n        (1,) int64: how many go along in the present rounds, S or 0
    """

    theta: np.ndarray
    f: np.ndarray
    place: np.ndarray
    y: np.ndarray
    n: np.ndarray


class Block(NamedTuple):
    """Of N learners.

    f, variance  (BLOCK, N) outputs, and z'P z, of a block of rounds
    place        (2,) int64: the present row of these, and how many there are; 0: row by row, -1:
                 row by row, and the output is there
    others       those of other outputs
    """

    f: np.ndarray
    variance: np.ndarray
    place: np.ndarray
    others: Others


def empty_block(N: int, F: int) -> Block:
    return Block(
        np.zeros((BLOCK, N)), np.zeros((BLOCK, N)), np.zeros(2, dtype=np.int64), _others(0, N, F)
    )


def _others(S: int, N: int, F: int) -> Others:
    return Others(
        aligned((S, N, F)),
        np.zeros((S, BLOCK, N)),
        np.zeros((S, 2), dtype=np.int64),
        np.zeros((S, BLOCK)),
        np.zeros(1, dtype=np.int64),
    )


def in_step(
    models: Sequence[Any], scratches: Sequence[Any]
) -> tuple[list[Any], list[Any], Others] | None:
    """Models and scratches of learners of several outputs that share all but coefficients.

    The first one leads: what is returned behind them are the others, as it knows them. None where
    they did not learn from the same rows.
    """
    first, (lead, *_) = models[0], scratches
    for other in models[1:]:
        pairs = zip(first._replace(theta=other.theta), other, strict=True)
        if not all(one is another or np.array_equal(one, another) for one, another in pairs):
            return None
    made = _others(len(models) - 1, *first.theta.shape)
    alone = empty_block(*first.theta.shape)
    block = alone._replace(others=made)
    shared, own = [first], [lead._replace(block=block)]
    for s, other in enumerate(models[1:]):
        made.theta[s] = other.theta
        shared.append(first._replace(theta=made.theta[s]))
        its = alone._replace(f=made.f[s], variance=block.variance, place=made.place[s])
        own.append(lead._replace(block=its))
    return shared, own, made


@inlined
def rounds_to_learn(block, X, row):
    """How many rows of X (n, d) from ``row`` on are learned now; 0 within a block."""
    return 0 if block.place[1] > 0 else min(BLOCK, X.shape[0] - row)


@inlined
def begin(block, n):
    """The n rounds of a block were learned: the engine takes their outputs one after the other."""
    block.place[0] = 0
    block.place[1] = n
    let_others_begin(block, n)


@inlined
def let_others_begin(block, n):
    """The others have learned n rounds of a block; -1: their outputs in a round are there."""
    for s in range(block.others.n[0]):
        block.others.place[s, 0] = 0
        block.others.place[s, 1] = n


@inlined
def hand_out(block, f, variance):
    """Write the outputs of the present round into f and variance (N,)."""
    for i in range(f.shape[0]):
        f[i] = block.f[block.place[0], i]
        variance[i] = block.variance[block.place[0], i]


@inlined
def open_others(block, variance):
    """In a round that goes row by row the outputs of the others are there as well."""
    for i in range(variance.shape[0] if block.others.n[0] > 0 else 0):
        block.variance[0, i] = variance[i]
    let_others_begin(block, -1)


@inlined
def was_learned(block):
    """Whether the present round is of a block; the next one comes then."""
    if block.place[1] <= 0:
        return False
    block.place[0] += 1
    if block.place[0] == block.place[1]:
        block.place[:] = 0
    return True


# --- Recursive least squares ----------------------------------------------------------------------


class Recursive(NamedTuple):
    """N learners in d inputs; a learner has F_i features, B_i blocks of eight of them.

    padded    (N, d, W) frequencies as of ``RandomFeatures``; zeros for ``linear``. Learners at the
              end without waves may have none
    theta     (N, 8 B) coefficients: sines, cosines; or inputs and 1; zeros behind
    factor    (N, B, 8 B, 8) and diagonal (N, 8 B): P_i as of ``core.linalg``
    ceiling   (N,) the largest that an entry of the diagonal becomes by forgetting
    blocks    (N,) int64, B_i
    n_waves   (N,) int64, frequencies of a learner: D, or 0
    n_raw     (N,) int64, how many of the inputs, the first ones, are features themselves, with a
              1 behind them; 0 for none of both
    """

    padded: np.ndarray
    theta: np.ndarray
    factor: np.ndarray
    diagonal: np.ndarray
    ceiling: np.ndarray
    blocks: np.ndarray
    n_waves: np.ndarray
    n_raw: np.ndarray

    @property
    def omega(self) -> np.ndarray:
        """The frequencies (N, d, D), D the most of a learner: a view, writes go through."""
        return self.padded[:, :, : self.n_waves.max()]

    @property
    def n_kernels(self) -> int:
        return len(self.theta)


class RlsScratch(NamedTuple):
    """What a round writes to.

    z          (N, 8 B) features of the evaluated kernels, each in its kernel's row
    projected  (N, 8 B) U'z; alpha (N, 8 B + 8) of ``project``; variance (N,) z'P z
    gain, slope, step   (8 B,) of ``take_in``
    forecasts  (1,) bool: f_i is theta_i'z_i / (1 + z_i'P_i z_i), as if P_i had taken the row in
               already: the forecaster of Vovk, Azoury and Warmuth; else theta_i'z_i
    block      outputs of rounds that are learned already
    """

    z: np.ndarray
    projected: np.ndarray
    alpha: np.ndarray
    variance: np.ndarray
    gain: np.ndarray
    slope: np.ndarray
    step: np.ndarray
    forecasts: np.ndarray
    block: Block


def blank_recursive(
    padded: np.ndarray, n_waves: np.ndarray, n_raw: np.ndarray, prior: np.ndarray
) -> Recursive:
    """Learners with theta = 0 and P_i = prior_i I, on frequencies (N, d, W)."""
    N = len(n_waves)
    blocks = -(-(2 * n_waves + np.where(n_raw > 0, n_raw + 1, 0)) // LANES)
    factor, diagonal = empty_factor(N, int(blocks.max()) * LANES)
    diagonal *= prior[:, None]
    theta = aligned(diagonal.shape)
    return Recursive(padded, theta, factor, diagonal, 1.0 * prior, blocks, n_waves, n_raw)


def fresh_rls(kernels: Sequence[Kernel], d: int, D: int, seed: int, prior: float) -> Recursive:
    """A learner for each kernel, with the features that every learner has for this seed."""
    N = len(kernels)
    linear = np.array([kernel.family == LINEAR for kernel in kernels])
    padded = blank(N, d, D).padded
    drawn = [kernel for kernel in kernels if kernel.family != LINEAR]
    padded[~linear] = draw_features(drawn, d, D, seed).padded
    return blank_recursive(
        padded, np.where(linear, 0, D), np.where(linear, d, 0), np.full(N, prior)
    )


def rls_scratch(model: Recursive, threads: int) -> RlsScratch:
    N, F = model.theta.shape
    return RlsScratch(
        z=aligned((N, F)),
        projected=aligned((N, F)),
        alpha=aligned((N, F + LANES)),
        variance=np.zeros(N),
        gain=np.zeros(F),
        slope=np.zeros(F),
        step=aligned((F,)),
        forecasts=np.zeros(1, dtype=np.bool_),
        block=empty_block(N, F),
    )


def forecaster_scratch(model: Recursive, threads: int) -> RlsScratch:
    made = rls_scratch(model, threads)
    return made._replace(forecasts=np.ones(1, dtype=np.bool_))


@inlined
def _sincos_of_features(padded, i, n, X, row, j):
    """Sines and cosines of the frequencies j .. j + 7 of learner i at n inputs of X[row]."""
    W = padded.shape[2]
    w = i * padded.shape[1] * W + j
    angle = load(padded, w) * X[row, 0]
    for k in range(1, n):
        w += W
        angle = fma(load(padded, w), X[row, k], angle)
    return sincos_of_pack(angle)


@inlined
def write_features(model, X, row, n, i, scratch):
    """Write the features of learner i at X[row] into scratch.z[i]; zeros behind them stay.

    Its waves are of the first n >= 1 inputs: frequencies are zero behind.
    """
    D = model.n_waves[i]
    n_raw = model.n_raw[i]
    w = i * scratch.z.shape[1]
    scale = 1.0 / math.sqrt(max(D, 1))
    for j in range(0, D, LANES):
        s, c = _sincos_of_features(model.padded, i, n, X, row, j)
        m = min(LANES, D - j)
        store(scratch.z, w + j, s * scale, m)
        store(scratch.z, w + D + j, c * scale, m)
    if n_raw > 0:
        for k in range(n_raw):
            scratch.z[i, 2 * D + k] = X[row, k]
        scratch.z[i, 2 * D + n_raw] = 1.0


@inlined
def rls_output(model, i, scratch):
    """f_i of the features in scratch.z[i]; write what a step needs of them."""
    at = i * model.theta.shape[1]
    f = dot_from(model.theta, at, scratch.z, at, model.blocks[i] * LANES)
    q = project_row(
        model.factor, model.diagonal, i, model.blocks[i], scratch.z, scratch.projected,
        scratch.alpha,
    )  # fmt: skip
    scratch.variance[i] = q
    return f / (1.0 + q) if scratch.forecasts[0] else f


@inlined
def _other_outputs(model, i, scratch, r):
    """``rls_output`` of the others, whose round r of the block it is."""
    others = scratch.block.others
    N, F = model.theta.shape
    for s in range(others.n[0]):
        f = dot_from(others.theta, (s * N + i) * F, scratch.z, i * F, model.blocks[i] * LANES)
        others.f[s, r, i] = f / (1.0 + scratch.variance[i]) if scratch.forecasts[0] else f


@inlined
def evaluate_rls(scratch, model, X, row, selection):
    """f[i] at X[row], and its variance, for the kernels to evaluate."""
    if scratch.block.place[1] != 0:
        hand_out(scratch.block, selection.f, scratch.variance)
        return
    for m in range(selection.n_evaluated[0]):
        i = selection.evaluate[m]
        write_features(model, X, row, X.shape[1], i, scratch)
        selection.f[i] = rls_output(model, i, scratch)
        _other_outputs(model, i, scratch, 0)
    open_others(scratch.block, scratch.variance)


dispatch(evaluate_row, RlsScratch, evaluate_rls)


@inlined
def learn_rls(model, i, scratch, noise, decay, error):
    """theta_i += P_i z_i error / (noise + z_i'P_i z_i), and P_i takes z_i in.

    ``decay`` in (0, 1] is the weight of all earlier rounds against this one.
    """
    B = model.blocks[i]
    take_in(
        model.factor, model.diagonal, i, B, scratch.projected, scratch.alpha, noise, decay,
        model.ceiling[i], scratch.gain, scratch.slope, scratch.step,
    )  # fmt: skip
    move_along(model.theta, i * model.theta.shape[1], scratch.step, 0, B * LANES, error)


@inlined
def _learn_one(model, i, scratch, f, y, decay, r):
    """Learner i learns y, where f is its output or forecast; and so do the others.

    Theirs is round r of the block.
    """
    more = 1.0 + scratch.variance[i] if scratch.forecasts[0] else 1.0
    learn_rls(model, i, scratch, 1.0, decay, y - f * more)
    others = scratch.block.others
    N, F = model.theta.shape
    for s in range(others.n[0]):
        error = others.y[s, r] - others.f[s, r, i] * more
        move_along(others.theta, (s * N + i) * F, scratch.step, 0, model.blocks[i] * LANES, error)


@inlined
def learn_every(model, scratch, f, y, decay):
    """All learners learn y, where f (N,) are their outputs or forecasts, unless they have.

    ``decay`` as of ``learn_rls``.
    """
    if was_learned(scratch.block):
        return
    for i in range(f.shape[0]):
        _learn_one(model, i, scratch, f[i], y, decay, 0)
    let_others_begin(scratch.block, 1)


@inlined
def learn_rounds(model, scratch, X, y, row, decay):
    """Each learner takes a block of rounds by itself, from X[row] (n, d) and y[row] on.

    ``evaluate`` then hands out its outputs, and ``learn_every`` has nothing left to do.
    """
    n = rounds_to_learn(scratch.block, X, row)
    for i in range(model.theta.shape[0] if n > 0 else 0):
        for r in range(n):
            write_features(model, X, row + r, X.shape[1], i, scratch)
            f = rls_output(model, i, scratch)
            _other_outputs(model, i, scratch, r)
            scratch.block.f[r, i] = f
            scratch.block.variance[r, i] = scratch.variance[i]
            _learn_one(model, i, scratch, f, y[row + r], decay, r)
    if n > 0:
        begin(scratch.block, n)


def _fresh_ridge(params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int) -> Recursive:
    return fresh_rls(kernels, d, D, seed, 1.0 / params.lam)


RECURSIVE = Representation(
    name="recursive",
    fresh=_fresh_ridge,
    scratch=rls_scratch,
    draws_features=True,
    beside=(LINEAR,),
    in_step=in_step,
)
FORECASTERS = RECURSIVE._replace(scratch=forecaster_scratch)
RAW_FORECASTERS = FORECASTERS._replace(draws_features=False)


# --- Coefficients that walk: the whole covariance is kept -----------------------------------------
#
# Of each kernel i, beside theta_i, the covariance P_i (F, F) of theta_i in units of the noise. A
# walk adds a multiple of I before each round, which no factor takes in for less than F^3. Kept
# plainly, P loses definiteness in the end where nothing is added; here it does not: with features
# of norm 1 and a walk of e, the smallest eigenvalue is e at least before a round and e / (1 + e)
# after it, far above what rounding moves. P <- P - v v' with v = P z / sqrt(1 + z'P z) takes the
# same product off P_jk and P_kj, so half of P is kept.
#
# Layout: as of ``core.linalg``, the rows of the upper triangle by blocks of eight.
# ``covariance[i, b, j]`` is the pack P[8 b .. 8 b + 7, j] of kernel i for j >= 8 b; what is below
# stays 0. F^2 multiply-adds give P z, two for each number above the diagonal, and F^2 / 2 the
# update.


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


class WalkScratch(NamedTuple):
    """What a round writes to.

    z            (N, 8 B) features of the evaluated kernels, each in its kernel's row
    product      (N, 8 B) P z; variance (N,) z'P z
    block        outputs of rounds that are learned already
    """

    z: np.ndarray
    product: np.ndarray
    variance: np.ndarray
    block: Block


def fresh_walk(kernels: Sequence[Kernel], d: int, D: int, seed: int, prior: float) -> RandomWalk:
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


def _walk_scratch(model: RandomWalk, threads: int) -> WalkScratch:
    N, W = model.theta.shape
    return WalkScratch(
        z=aligned((N, W)),
        product=aligned((N, W)),
        variance=np.zeros(N),
        block=empty_block(N, W),
    )


@inlined
def _add_column(P, w, below, beside, k, f):
    """Add eight numbers of a column of P, which begin at w, to k and f.

    Times ``beside``, the z of the column, and times ``below``, the z of their rows.
    """
    u = load(P, w)
    return fma(u, beside, k), fma(u, below, f)


@inlined
def _multiply_symmetric(P, i, z, product):
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
            k, f0 = _add_column(P, w, v, z0, k, f0)
            k, f1 = _add_column(P, w + LANES, v, z1, k, f1)
            k, f2 = _add_column(P, w + 2 * LANES, v, z2, k, f2)
            k, f3 = _add_column(P, w + 3 * LANES, v, z3, k, f3)
            k, f4 = _add_column(P, w + 4 * LANES, v, z4, k, f4)
            k, f5 = _add_column(P, w + 5 * LANES, v, z5, k, f5)
            k, f6 = _add_column(P, w + 6 * LANES, v, z6, k, f6)
            k, f7 = _add_column(P, w + 7 * LANES, v, z7, k, f7)
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
def _walk_output(model, X, row, i, scratch, r):
    """f_i at X[row], and its variance; those of the others, whose round r of the block it is."""
    N, W = model.theta.shape
    write_features(model, X, row, X.shape[1], i, scratch)
    f = dot_from(model.theta, i * W, scratch.z, i * W, W)
    scratch.variance[i] = _multiply_symmetric(model.covariance, i, scratch.z, scratch.product)
    others = scratch.block.others
    for s in range(others.n[0]):
        others.f[s, r, i] = dot_from(others.theta, (s * N + i) * W, scratch.z, i * W, W)
    return f


def _evaluate_walk(scratch, model, X, row, selection):
    if scratch.block.place[1] != 0:
        hand_out(scratch.block, selection.f, scratch.variance)
        return
    for m in range(selection.n_evaluated[0]):
        i = selection.evaluate[m]
        selection.f[i] = _walk_output(model, X, row, i, scratch, 0)
    open_others(scratch.block, scratch.variance)


dispatch(evaluate_row, WalkScratch, _evaluate_walk)


@inlined
def _learn_and_walk(model, i, scratch, error, walk, r):
    """theta_i += P_i z_i error / (1 + z_i'P_i z_i); P_i takes z_i in, and then ``walk`` I.

    The others learn round r of the block.
    """
    N, W = model.theta.shape
    spread = 1.0 + scratch.variance[i]
    scale = 1.0 / math.sqrt(spread)
    at = i * W
    move_along(model.theta, at, scratch.product, at, W, error / spread)
    others = scratch.block.others
    for s in range(others.n[0]):
        step = (others.y[s, r] - others.f[s, r, i]) / spread
        move_along(others.theta, (s * N + i) * W, scratch.product, at, W, step)
    for j in range(at, at + W, LANES):
        store(scratch.product, j, load(scratch.product, j) * scale)
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
def walk_every(model, scratch, f, y, walk):
    """All learners, whose outputs were f (N,), learn y and walk, unless they have."""
    if was_learned(scratch.block):
        return
    for i in range(f.shape[0]):
        _learn_and_walk(model, i, scratch, y - f[i], walk, 0)
    let_others_begin(scratch.block, 1)


@inlined
def walk_rounds(model, scratch, X, y, row, walk):
    """Each learner takes a block of rounds by itself, as in ``recursive``."""
    n = rounds_to_learn(scratch.block, X, row)
    for i in range(model.theta.shape[0] if n > 0 else 0):
        for r in range(n):
            f = _walk_output(model, X, row + r, i, scratch, r)
            scratch.block.f[r, i] = f
            scratch.block.variance[r, i] = scratch.variance[i]
            _learn_and_walk(model, i, scratch, y[row + r] - f, walk, r)
    if n > 0:
        begin(scratch.block, n)


RANDOM_WALK = RECURSIVE._replace(name="recursive, walking", scratch=_walk_scratch, beside=())


# --- Two levels of the forecaster of Vovk, Azoury and Warmuth -------------------------------------
#
# There is one for each kernel and one over them: the outputs of the N forecasters of the kernels
# are the row of features of the second level.


class StackedRls(NamedTuple):
    """Forecasters ``first`` of N kernels, and the only one of ``second``, in N inputs.

    The place behind its inputs, where a learner on inputs has its 1, stays 0.
    """

    first: Recursive
    second: Recursive

    @property
    def omega(self) -> np.ndarray:
        return self.first.omega

    @property
    def theta(self) -> np.ndarray:
        """Of the kernels."""
        return self.first.theta

    @property
    def n_kernels(self) -> int:
        return self.first.n_kernels


class StackedScratch(NamedTuple):
    """What a round writes to: that of either level, and f (1,), the output of the second."""

    first: RlsScratch
    second: RlsScratch
    f: np.ndarray


def _fresh_stacked(params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int) -> StackedRls:
    N = len(kernels)
    first = fresh_rls(kernels, d, D, seed, 1.0 / params.lam)
    no_waves, inputs, prior = np.array([0]), np.array([N]), np.array([1.0 / params.lam2])
    return StackedRls(first, blank_recursive(blank(1, N, 0).padded, no_waves, inputs, prior))


def _stacked_scratch(model: StackedRls, threads: int) -> StackedScratch:
    first, second = (forecaster_scratch(level, threads) for level in model)
    return StackedScratch(first, second, np.zeros(1))


def _recursive_stacked_scratch(model: StackedRls, threads: int) -> StackedScratch:
    first, second = (rls_scratch(level, threads) for level in model)
    return StackedScratch(first, second, np.zeros(1))


def _evaluate_stacked(scratch, model, X, row, selection):
    evaluate_rls(scratch.first, model.first, X, row, selection)
    for i in range(selection.f.shape[0]):
        scratch.second.z[0, i] = selection.f[i]
    scratch.f[0] = rls_output(model.second, 0, scratch.second)


dispatch(evaluate_row, StackedScratch, _evaluate_stacked)


@inlined
def learn_both(model, scratch, f, y):
    """The forecasters of the kernels, which gave f (N,), and the one over them learn y."""
    learn_every(model.first, scratch.first, f, y, 1.0)
    learn_every(model.second, scratch.second, scratch.f, y, 1.0)


def _first_level_in_step(
    models: Sequence[StackedRls], scratches: Sequence[StackedScratch]
) -> tuple[list[Any], list[Any], Others] | None:
    """As ``in_step``: the matrix of the second level depends on outputs, and so on labels."""
    found = in_step([model.first for model in models], [own.first for own in scratches])
    if found is None:
        return None
    firsts, own, others = found
    shared = [model._replace(first=one) for model, one in zip(models, firsts, strict=True)]
    return shared, [s._replace(first=one) for s, one in zip(scratches, own, strict=True)], others


STACKED_RLS = FORECASTERS._replace(
    name="recursive on two levels",
    fresh=_fresh_stacked,
    scratch=_stacked_scratch,
    in_step=_first_level_in_step,
)
# Both levels predict before they take the row in.
STACKED_RECURSIVE = STACKED_RLS._replace(scratch=_recursive_stacked_scratch)
