"""Linear learners of second order: coefficients with the matrix of what is not known of them.

Of each kernel i, beside theta_i, a matrix P_i (F, F): the inverse of what was seen,
(lam I + sum_s z_s z_s')^-1, which is also the covariance of theta_i in units of the noise. The
engine evaluates a row once: theta_i'z_i, the product U'z and the variance z_i'P_i z_i; a step needs
nothing more (``core.linalg``). Features z_i are random ones, and for the family ``linear``
the inputs and 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.core.jit import dispatch, inlined
from omkl.core.kernels import LINEAR
from omkl.core.linalg import empty_factor, project_row, take_in
from omkl.core.representations import Representation, evaluate_row
from omkl.core.representations.blocks import (
    Block,
    empty_block,
    hand_out,
    rounds_to_learn,
    was_learned,
)
from omkl.core.representations.random_features import blank, draw_features
from omkl.core.simd import LANES, aligned, fma, load, pack, store, total
from omkl.core.trigonometry import sincos_of_pack

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Recursive(NamedTuple):
    """N learners in d inputs; a learner has F_i features, B_i blocks of eight of them.

    padded    (N, d, W) frequencies as of ``RandomFeatures``; zeros for ``linear``
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


class Scratch(NamedTuple):
    """What a round writes to.

    z          (N, 8 B) features of the evaluated kernels, each in its kernel's row
    projected  (N, 8 B) U'z; alpha (N, 8 B + 8) of ``project``; variance (N,) z'P z
    gain, slope, step   (8 B,) of ``take_in``
    forecasts  (1,) bool: f_i is theta_i'z_i / (1 + z_i'P_i z_i), as if P_i had taken the row in
               already: what a forecaster of Vovk, Azoury and Warmuth says; else theta_i'z_i
    block      what was said in rounds that are learned already
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
    N = len(padded)
    blocks = -(-(2 * n_waves + np.where(n_raw > 0, n_raw + 1, 0)) // LANES)
    factor, diagonal = empty_factor(N, int(blocks.max()) * LANES)
    diagonal *= prior[:, None]
    theta = aligned(diagonal.shape)
    return Recursive(padded, theta, factor, diagonal, 1.0 * prior, blocks, n_waves, n_raw)


def fresh(kernels: Sequence[Kernel], d: int, D: int, seed: int, prior: float) -> Recursive:
    """A learner for each kernel, with the features that every learner has for this seed."""
    N = len(kernels)
    linear = np.array([kernel.family == LINEAR for kernel in kernels])
    padded = blank(N, d, D).padded
    drawn = [kernel for kernel in kernels if kernel.family != LINEAR]
    padded[~linear] = draw_features(drawn, d, D, seed).padded
    return blank_recursive(
        padded, np.where(linear, 0, D), np.where(linear, d, 0), np.full(N, prior)
    )


def scratch(model: Recursive, threads: int, every_kernel: bool, precision: str) -> Scratch:
    N, F = model.theta.shape
    return Scratch(
        z=aligned((N, F)),
        projected=aligned((N, F)),
        alpha=aligned((N, F + LANES)),
        variance=np.zeros(N),
        gain=np.zeros(F),
        slope=np.zeros(F),
        step=aligned((F,)),
        forecasts=np.zeros(1, dtype=np.bool_),
        block=empty_block(N),
    )


def forecaster_scratch(
    model: Recursive, threads: int, every_kernel: bool, precision: str
) -> Scratch:
    made = scratch(model, threads, every_kernel, precision)
    return made._replace(forecasts=np.ones(1, dtype=np.bool_))


@inlined
def _waves(padded, i, n, X, row, j):
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
        s, c = _waves(model.padded, i, n, X, row, j)
        m = min(LANES, D - j)
        store(scratch.z, w + j, s * scale, m)
        store(scratch.z, w + D + j, c * scale, m)
    if n_raw > 0:
        for k in range(n_raw):
            scratch.z[i, 2 * D + k] = X[row, k]
        scratch.z[i, 2 * D + n_raw] = 1.0


@inlined
def output(model, i, scratch):
    """f_i of the features in scratch.z[i]; write what a step needs of them."""
    F = model.theta.shape[1]
    a = pack(0.0)
    for b in range(model.blocks[i]):
        j = i * F + b * LANES
        a = fma(load(model.theta, j), load(scratch.z, j), a)
    q = project_row(
        model.factor, model.diagonal, i, model.blocks[i], scratch.z, scratch.projected,
        scratch.alpha,
    )  # fmt: skip
    scratch.variance[i] = q
    return total(a) / (1.0 + q) if scratch.forecasts[0] else total(a)


@inlined
def evaluate(scratch, model, X, row, selection):
    """f[i] at X[row], and its variance, for the kernels to evaluate."""
    if scratch.block.place[1] > 0:
        hand_out(scratch.block, selection.f, scratch.variance)
        return
    for m in range(selection.n_evaluated[0]):
        i = selection.evaluate[m]
        write_features(model, X, row, X.shape[1], i, scratch)
        selection.f[i] = output(model, i, scratch)


dispatch(evaluate_row, Scratch, evaluate)


@inlined
def learn(model, i, scratch, noise, decay, error):
    """theta_i += P_i z_i error / (noise + z_i'P_i z_i), and P_i takes z_i in.

    ``decay`` in (0, 1] is the weight of all earlier rounds against this one.
    """
    F = model.theta.shape[1]
    B = model.blocks[i]
    take_in(
        model.factor, model.diagonal, i, B, scratch.projected, scratch.alpha, noise, decay,
        model.ceiling[i], scratch.gain, scratch.slope, scratch.step,
    )  # fmt: skip
    for b in range(B):
        j = i * F + b * LANES
        moved = fma(load(scratch.step, b * LANES), error, load(model.theta, j))
        store(model.theta, j, moved)


@inlined
def _learn_own(model, i, scratch, f, y):
    """Learner i learns y, where f is what it said or forecast."""
    forecasts = 1.0 if scratch.forecasts[0] else 0.0
    error = y - f * (1.0 + forecasts * scratch.variance[i])
    learn(model, i, scratch, 1.0, 1.0, error)


@inlined
def learn_every(model, scratch, f, y):
    """All learners learn y, where f (N,) is what they said or forecast, unless they have."""
    if was_learned(scratch.block):
        return
    for i in range(f.shape[0]):
        _learn_own(model, i, scratch, f[i], y)


@inlined
def learn_rounds(model, scratch, X, y, row):
    """Each learner takes a block of rounds by itself, from X[row] (n, d) and y[row] on.

    ``evaluate`` then hands out what it said, and ``learn_every`` has nothing left to do.
    """
    n = rounds_to_learn(scratch.block, X, row)
    for i in range(model.theta.shape[0] if n > 0 else 0):
        for r in range(n):
            write_features(model, X, row + r, X.shape[1], i, scratch)
            f = output(model, i, scratch)
            scratch.block.f[r, i] = f
            scratch.block.variance[r, i] = scratch.variance[i]
            _learn_own(model, i, scratch, f, y[row + r])
    if n > 0:
        scratch.block.place[0] = 0
        scratch.block.place[1] = n


def _prior(params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int) -> Recursive:
    return fresh(kernels, d, D, seed, 1.0 / params.lam)


def _no_support(model: Recursive) -> np.ndarray:
    return np.zeros(model.n_kernels, dtype=np.int64)


def _kept_rows(model: Recursive) -> int:
    return 0


RECURSIVE = Representation(
    name="recursive",
    fresh=_prior,
    scratch=scratch,
    lookahead=None,
    written=(),
    draws_features=True,
    supports_float32=False,
    support_size=_no_support,
    kept_rows=_kept_rows,
    beside=(LINEAR,),
)
FORECASTERS = RECURSIVE._replace(scratch=forecaster_scratch)
RAW_FORECASTERS = FORECASTERS._replace(draws_features=False)
