"""Linear learners of second order: coefficients with the matrix of their uncertainty.

Kernel i has F features z_i, coefficients theta_i (F,) and a matrix P_i (F, F). P_i is
(lam I + sum_s z_s z_s')^-1 over the rows s so far, which is the covariance of theta_i in units of
the variance of the noise. The evaluation of a row computes theta_i'z_i, the product U'z_i with the
factor U of P_i (``core.linalg``), and the variance z_i'P_i z_i. Learning needs only these numbers.
The features z_i are random features, or the inputs and 1 for the family ``linear``.

RECURSIVE      recursive least squares
FORECASTERS    the same, with the predictions of Vovk, Azoury and Warmuth
RANDOM_WALK    coefficients follow a random walk, and the whole covariance is stored
STACKED_RLS    the forecasts of the kernels are the features of another forecaster
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


# --- Recursive least squares ----------------------------------------------------------------------


class Recursive(NamedTuple):
    """N learners in d inputs. Learner i has F_i features in B_i blocks of eight. B = max(B_i).

    padded    (N, d, W) frequencies as in ``RandomFeatures``; zeros for ``linear``. Learners at the
              end that have no random features may be missing here
    theta     (N, 8 B) coefficients: of the sines, the cosines, the inputs and 1; then zeros
    factor, diagonal   (N, B, 8 B, 8) and (N, 8 B): P_i as in ``core.linalg``
    ceiling   (N,) largest value that forgetting may give an entry of the diagonal
    blocks    (N,) int64, B_i
    n_waves   (N,) int64, number of frequencies of a learner: D, or 0
    n_raw     (N,) int64, number of first inputs that are features themselves, followed by the
              feature 1. If it is 0, there is no feature 1 either
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
        """Frequencies (N, d, D), a view of ``padded``. D is the largest number of frequencies."""
        return self.padded[:, :, : self.n_waves.max()]

    @property
    def n_kernels(self) -> int:
        return len(self.theta)


class RlsScratch(NamedTuple):
    """Scratch of a round.

    z          (N, 8 B) features of the evaluated kernels, each in the row of its kernel
    projected  (N, 8 B) U'z
    alpha      (N, 8 B + 8) sums of ``project_row``
    variance   (N,) z'P z
    gain, slope, step   (8 B,) scratch of ``take_in``
    forecasts  (1,) bool. False: f_i is theta_i'z_i. True: f_i is theta_i'z_i / (1 + z_i'P_i z_i),
               the forecast of Vovk, Azoury and Warmuth. Dividing has the effect of a P_i that
               already contains the row
    """

    z: np.ndarray
    projected: np.ndarray
    alpha: np.ndarray
    variance: np.ndarray
    gain: np.ndarray
    slope: np.ndarray
    step: np.ndarray
    forecasts: np.ndarray


def blank_recursive(
    padded: np.ndarray, n_waves: np.ndarray, n_raw: np.ndarray, prior: np.ndarray
) -> Recursive:
    """Make learners with theta = 0 and P_i = prior_i I.

    Parameters
    ----------
    padded
        Frequencies (N, d, W).
    n_waves, n_raw
        As in ``Recursive``.
    prior
        Prior variance of each learner's coefficients (N,).
    """
    N = len(n_waves)
    blocks = -(-(2 * n_waves + np.where(n_raw > 0, n_raw + 1, 0)) // LANES)
    factor, diagonal = empty_factor(N, int(blocks.max()) * LANES)
    diagonal *= prior[:, None]
    theta = aligned(diagonal.shape)
    return Recursive(padded, theta, factor, diagonal, 1.0 * prior, blocks, n_waves, n_raw)


def fresh_rls(kernels: Sequence[Kernel], d: int, D: int, seed: int, prior: float) -> Recursive:
    """Make a learner for each kernel, with the random features that all algorithms have for a seed.

    Parameters
    ----------
    kernels
        N kernels; those of the family ``linear`` have no random features.
    d, D
        Number of inputs, and of frequencies.
    seed
        Seed of the features.
    prior
        Prior variance of a coefficient, > 0.
    """
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
    )


def forecaster_scratch(model: Recursive, threads: int) -> RlsScratch:
    made = rls_scratch(model, threads)
    return made._replace(forecasts=np.ones(1, dtype=np.bool_))


@inlined
def _sincos_of_features(padded, i, n, X, row, j):
    """Return sines and cosines of learner i at X[row] for the frequencies j .. j + 7.

    Only the first n inputs are used.
    """
    W = padded.shape[2]
    w = i * padded.shape[1] * W + j
    angle = load(padded, w) * X[row, 0]
    for k in range(1, n):
        w += W
        angle = fma(load(padded, w), X[row, k], angle)
    return sincos_of_pack(angle)


@inlined
def write_features(model, X, row, n, i, scratch):
    """Write the features of learner i at X[row] into scratch.z[i]. The padding stays 0.

    Parameters
    ----------
    model, scratch
        Learners, and their scratch.
    X, row
        Rows, and the index of one.
    n
        Number >= 1 of first inputs that the random features use. The frequencies of the other
        inputs are 0.
    i
        Learner.
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
    """Return f_i for the features in scratch.z[i].

    Also write the arrays ``projected``, ``alpha`` and ``variance``, which ``learn_rls`` needs.

    Parameters
    ----------
    model, scratch
        Learners, and their scratch.
    i
        Learner.
    """
    at = i * model.theta.shape[1]
    f = dot_from(model.theta, at, scratch.z, at, model.blocks[i] * LANES)
    q = project_row(
        model.factor, model.diagonal, i, model.blocks[i], scratch.z, scratch.projected,
        scratch.alpha,
    )  # fmt: skip
    scratch.variance[i] = q
    return f / (1.0 + q) if scratch.forecasts[0] else f


@inlined
def evaluate_rls(scratch, model, X, row, selection):
    """Write the output f[i] at X[row] and its variance, for the kernels to evaluate.

    Parameters
    ----------
    scratch, model
        Scratch and learners.
    X, row
        Rows (n, d), and the index of one.
    selection
        Kernels to evaluate.
    """
    for m in range(selection.n_evaluated[0]):
        i = selection.evaluate[m]
        write_features(model, X, row, X.shape[1], i, scratch)
        selection.f[i] = rls_output(model, i, scratch)


dispatch(evaluate_row, RlsScratch, evaluate_rls)


@inlined
def learn_rls(model, i, scratch, noise, decay, error):
    """Update theta_i += P_i z_i error / (noise + z_i'P_i z_i), and update P_i by z_i.

    Parameters
    ----------
    model, scratch
        Learners, updated in place, and their scratch, with the features of the evaluated row.
    i
        Learner.
    noise
        Variance of the target's noise, in the units of P, > 0.
    decay
        Factor, in (0, 1], of the weight of all earlier rounds.
    error
        Target minus theta_i'z_i.
    """
    B = model.blocks[i]
    take_in(
        model.factor, model.diagonal, i, B, scratch.projected, scratch.alpha, noise, decay,
        model.ceiling[i], scratch.gain, scratch.slope, scratch.step,
    )  # fmt: skip
    move_along(model.theta, i * model.theta.shape[1], scratch.step, 0, B * LANES, error)


@inlined
def learn_every(model, scratch, f, y, decay):
    """Learn y with all learners.

    Parameters
    ----------
    model, scratch
        Learners, updated in place, and their scratch, with the features of the evaluated row.
    f
        Outputs or forecasts (N,).
    y
        Target.
    decay
        As in ``learn_rls``.
    """
    for i in range(f.shape[0]):
        more = 1.0 + scratch.variance[i] if scratch.forecasts[0] else 1.0
        learn_rls(model, i, scratch, 1.0, decay, y - f[i] * more)


def _fresh_ridge(params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int) -> Recursive:
    return fresh_rls(kernels, d, D, seed, 1.0 / params.lam)


RECURSIVE = Representation(
    name="recursive", fresh=_fresh_ridge, scratch=rls_scratch, draws_features=True, beside=(LINEAR,)
)
FORECASTERS = RECURSIVE._replace(scratch=forecaster_scratch)
RAW_FORECASTERS = FORECASTERS._replace(draws_features=False)


# --- Coefficients that walk: the whole covariance is stored ---------------------------------------
#
# Kernel i has coefficients theta_i (F,) and their covariance P_i (F, F), in units of the variance
# of the noise. The random walk adds a multiple e of the identity to P_i before each round. A
# factored P_i would need time of order F^3 for this, so P_i itself is stored. Its rounding errors
# cannot make it indefinite: with features of norm 1 its smallest eigenvalue is at least e before a
# round and e / (1 + e) after it, far above rounding errors. The update P <- P - v v' with v = P z /
# sqrt(1 + z'P z) keeps P symmetric to the bit, so half of P is stored.
#
# Layout: ``covariance[i, b, j]`` is the pack (eight numbers) P[8 b .. 8 b + 7, j] of kernel i for
# j >= 8 b. Other entries stay 0. P z costs F^2 multiply-adds, two for each number above the
# diagonal, and the update F^2 / 2.


class RandomWalk(NamedTuple):
    """N learners with F = 2 D features each, in B blocks of eight.

    padded      (N, d, W) frequencies as in ``RandomFeatures``
    theta       (N, 8 B) coefficients: of the sines, then of the cosines, then zeros
    covariance  (N, B, 8 B, 8) upper triangle of P_i, laid out as ``factor`` in ``core.linalg``; 0
                beyond F
    n_waves     (N,) int64, number D of frequencies
    n_raw       (N,) int64, zeros: there are no other features
    """

    padded: np.ndarray
    theta: np.ndarray
    covariance: np.ndarray
    n_waves: np.ndarray
    n_raw: np.ndarray

    @property
    def omega(self) -> np.ndarray:
        """Frequencies (N, d, D), a view of ``padded``."""
        return self.padded[:, :, : self.n_waves[0]]

    @property
    def n_kernels(self) -> int:
        return len(self.theta)


class WalkScratch(NamedTuple):
    """Scratch of a round.

    z         (N, 8 B) features of the evaluated kernels, each in the row of its kernel
    product   (N, 8 B) P z
    variance  (N,) z'P z
    """

    z: np.ndarray
    product: np.ndarray
    variance: np.ndarray


def fresh_walk(kernels: Sequence[Kernel], d: int, D: int, seed: int, prior: float) -> RandomWalk:
    """Make learners whose coefficients follow a random walk, with theta_i = 0 and P_i = prior I.

    Parameters
    ----------
    kernels
        N kernels.
    d, D
        Number of inputs, and of frequencies.
    seed
        Seed of the features.
    prior
        Variance of a coefficient in the first round, in units of the variance of the noise, > 0.
    """
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
    return WalkScratch(z=aligned((N, W)), product=aligned((N, W)), variance=np.zeros(N))


@inlined
def _add_column(P, w, below, beside, k, f):
    """Add eight numbers u of one column of P to two sums, for ``_multiply_symmetric``.

    Return the packs k + u * beside and f + u * below. w is the flat index of the first number in P.
    ``beside`` is the entry of z for the column of u, and ``below`` has the entries of z for the
    eight rows of u.
    """
    u = load(P, w)
    return fma(u, beside, k), fma(u, below, f)


@inlined
def _multiply_symmetric(P, i, z, product):
    """Write product[i] = P[i] z[i], and return z[i]'P[i] z[i]; z and product are (N, W).

    P is read by columns of blocks. A number above the diagonal is read once, and used for both its
    row and its column.
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


def _evaluate_walk(scratch, model, X, row, selection):
    W = model.theta.shape[1]
    for m in range(selection.n_evaluated[0]):
        i = selection.evaluate[m]
        write_features(model, X, row, X.shape[1], i, scratch)
        selection.f[i] = dot_from(model.theta, i * W, scratch.z, i * W, W)
        scratch.variance[i] = _multiply_symmetric(model.covariance, i, scratch.z, scratch.product)


dispatch(evaluate_row, WalkScratch, _evaluate_walk)


@inlined
def _learn_and_walk(model, i, scratch, error, walk):
    """Update theta_i and P_i by the evaluated row, then add ``walk`` times the identity to P_i."""
    W = model.theta.shape[1]
    spread = 1.0 + scratch.variance[i]
    scale = 1.0 / math.sqrt(spread)
    at = i * W
    move_along(model.theta, at, scratch.product, at, W, error / spread)
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
    """Learn y with all learners, then add the variance of a step of the random walk.

    Parameters
    ----------
    model, scratch
        Learners, updated in place, and their scratch, with the features of the evaluated row.
    f
        Outputs (N,).
    y
        Target.
    walk
        Variance that a coefficient gains per round, in units of the variance of the noise, >= 0.
    """
    for i in range(f.shape[0]):
        _learn_and_walk(model, i, scratch, y - f[i], walk)


RANDOM_WALK = RECURSIVE._replace(name="recursive, walking", scratch=_walk_scratch, beside=())


# --- Two levels of the forecaster of Vovk, Azoury and Warmuth -------------------------------------
#
# Each kernel has a forecaster. Their N outputs are the features of the forecaster of the second
# level.


class StackedRls(NamedTuple):
    """Two levels of forecasters. ``first`` has one forecaster per kernel, and ``second`` has one.

    The N inputs of ``second`` are the outputs of ``first``. The coefficient of the constant 1 in
    ``second`` stays 0.
    """

    first: Recursive
    second: Recursive

    @property
    def omega(self) -> np.ndarray:
        return self.first.omega

    @property
    def theta(self) -> np.ndarray:
        """Coefficients of the forecasters of the kernels."""
        return self.first.theta

    @property
    def n_kernels(self) -> int:
        return self.first.n_kernels


class StackedScratch(NamedTuple):
    """Scratch of a round.

    first, second  scratch of both levels
    f              (1,) output of the second level
    """

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


def _evaluate_stacked(scratch, model, X, row, selection):
    evaluate_rls(scratch.first, model.first, X, row, selection)
    for i in range(selection.f.shape[0]):
        scratch.second.z[0, i] = selection.f[i]
    scratch.f[0] = rls_output(model.second, 0, scratch.second)


dispatch(evaluate_row, StackedScratch, _evaluate_stacked)


@inlined
def learn_both(model, scratch, f, y):
    """Learn y with both levels.

    Parameters
    ----------
    model, scratch
        Both levels, updated in place, and their scratch, with the features of the evaluated row.
    f
        Outputs of the first level (N,).
    y
        Target.
    """
    learn_every(model.first, scratch.first, f, y, 1.0)
    learn_every(model.second, scratch.second, scratch.f, y, 1.0)


STACKED_RLS = FORECASTERS._replace(
    name="recursive on two levels", fresh=_fresh_stacked, scratch=_stacked_scratch
)
