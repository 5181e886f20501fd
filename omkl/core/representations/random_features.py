"""Random Fourier features and the linear learners on top of them.

A shift-invariant kernel is the mean of cos(omega'(x - x')) over its spectral
distribution, so with D frequencies

    z(x) = [sin(omega_1'x) .. sin(omega_D'x)  cos(omega_1'x) .. cos(omega_D'x)] / sqrt(D)

has z(x)'z(x') close to kappa(x, x'), and f(x) = theta'z(x) replaces a growing
kernel expansion (Rahimi and Recht, NIPS 2007).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.core.jit import compiled, dispatch, inlined, qualify_name
from omkl.core.representations import Representation, ahead, chosen, evaluate_row
from omkl.core.representations.ahead import AheadScratch
from omkl.core.representations.chosen import ChosenScratch
from omkl.core.representations.waves import (
    arguments,
    arguments_of_four,
    clear_behind,
    descend,
    say_at,
)
from omkl.core.seeding import feature_generator
from omkl.core.simd import LANES, aligned, load, store, total
from omkl.core.trigonometry import Double, Single, empty_waves, fill, sincos_of_pack

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class RandomFeatures(NamedTuple):
    """One linear learner for each kernel of a dictionary of N, in d dimensions.

    padded   (N, d, W) frequencies, the feature index last; W is D in whole packs, zeros behind
    theta    (N, 2 S): sines from 0 on, cosines from S on, zeros behind the D of both. S is W, so
             that rows begin at a cache line; D where rows are exchanged: see ``compact``
    norm2    (N,) squared Euclidean norm of each row of theta
    n_waves  (1,) int64: D
    """

    padded: np.ndarray
    theta: np.ndarray
    norm2: np.ndarray
    n_waves: np.ndarray

    @property
    def omega(self) -> np.ndarray:
        """The frequencies (N, d, D): a view, writes go through."""
        return self.padded[:, :, : self.n_waves[0]]

    @property
    def coefficients(self) -> np.ndarray:
        """What theta holds, without padding (N, 2 D): sines first, then cosines.

        A copy that may not be written to.
        """
        halves = self.theta.reshape(self.n_kernels, 2, -1)[:, :, : self.n_waves[0]]
        found = halves.reshape(self.n_kernels, -1).copy()
        found.flags.writeable = False
        return found

    @property
    def n_kernels(self) -> int:
        return len(self.theta)


qualify_name(RandomFeatures)  # other modules dispatch on it: its name must not depend on them


def blank(N: int, d: int, D: int) -> RandomFeatures:
    """Learners whose frequencies and coefficients are zero."""
    padded = aligned((N, d, -(-D // LANES) * LANES))
    return RandomFeatures(padded, aligned((N, 2 * padded.shape[2])), np.zeros(N), np.array([D]))


def untaught(model: RandomFeatures) -> RandomFeatures:
    """Learners with the very frequencies of others, whose coefficients are zero."""
    return model._replace(theta=aligned(model.theta.shape), norm2=np.zeros(len(model.theta)))


def compact(model: RandomFeatures) -> RandomFeatures:
    """The same learners with rows of theta (N, 2 D) that have no padding, to be exchanged."""
    theta = aligned((model.n_kernels, 2 * int(model.n_waves[0])))
    theta[:] = model.coefficients
    return model._replace(theta=theta)


def whole_packs(coefficients: np.ndarray) -> np.ndarray:
    """Rows of theta (N, 2 W) with these coefficients (N, 2 D), sines first, then cosines."""
    N, D = len(coefficients), coefficients.shape[1] // 2
    W = -(-D // LANES) * LANES
    theta = aligned((N, 2 * W))
    theta.reshape(N, 2, W)[:, :, :D] = coefficients.reshape(N, 2, D)
    return theta


def random_features(
    dictionary: Sequence[Kernel], d: int, D: int, rng: np.random.Generator
) -> RandomFeatures:
    """Fresh learners: frequencies drawn kernel by kernel, coefficients zero."""
    model = blank(len(dictionary), d, D)
    for i, kernel in enumerate(dictionary):
        model.omega[i] = kernel.frequencies(rng, D, d).T
    return model


def draw_features(kernels: Sequence[Kernel], d: int, D: int, seed: int) -> RandomFeatures:
    """The random features that every algorithm sees for this seed."""
    return random_features(kernels, d, D, feature_generator(seed))


class TileScratch(NamedTuple):
    """What a tile of rounds writes to, where all kernels are evaluated: its features.

    Their arguments are a small matrix product for a tile of rows, so that the
    frequencies are read once for all of them.

    angle   (ROWS S,), S as of ``RandomFeatures``
    waves   sines and cosines, (N rows S,) each: kernel by kernel, row by row, zeros behind D
    place   (2,) int64: the features of the evaluated kernel number m begin at
            m place[0] + place[1]: rows S and the present row's part of that
    """

    angle: np.ndarray
    waves: Double | Single
    place: np.ndarray


ROWS = 4  # of a tile, whose arguments are computed at once


def scratch(
    model: RandomFeatures,
    every_kernel: bool = False,
    precision: str = "float64",
    rows: int = ROWS,
) -> ChosenScratch | TileScratch:
    """What a model's rounds write to; ``rows`` of a tile are a choice of speed."""
    if not every_kernel:
        return chosen.scratch(model, precision)
    N, S = len(model.padded), model.theta.shape[1] // 2
    waves = empty_waves(N * S * rows, precision)
    return TileScratch(aligned((ROWS * S,)), waves, np.array([S, 0]))


@functools.singledispatch
def arguments_of_rows(scratch, padded, D, i, X, row, r, n):
    """Those of kernel i at rows r .. r + n - 1 of a tile, n <= ROWS, to scratch.angle (ROWS D,).

    The tile begins at X[row], X (rows, d); padded (N, d, W). Kernel 0 comes first.
    """
    raise TypeError(f"no arguments are registered for {type(scratch)}")


@inlined
def arguments_of_all_inputs(scratch, padded, D, i, X, row, r, n):
    """``arguments_of_rows`` where every input of every row is read."""
    if n == ROWS:
        arguments_of_four(padded, D, i, X, row + r, scratch.angle)
    else:
        for s in range(n):
            arguments(padded, D, i, X, row + r + s, scratch.angle, s * D)


dispatch(arguments_of_rows, TileScratch, arguments_of_all_inputs)


@inlined
def transform_ahead(model, X, row, scratch):
    """Bring the tile to X[row], X (rows, d): one row further, or filled anew if used up.

    The rows of X are visited in their order. Kernel by kernel: its frequencies stay near
    while all rows of the tile need them.
    """
    D = model.n_waves[0]
    S = model.theta.shape[1] // 2
    if row > 0 and scratch.place[1] + S < scratch.place[0]:
        scratch.place[1] += S
        return
    N = model.padded.shape[0]
    rows = min(scratch.waves.sin.shape[0] // (N * S), X.shape[0] - row)
    for i in range(N):
        for r in range(0, rows, ROWS):
            n = min(ROWS, rows - r)
            arguments_of_rows(scratch, model.padded, S, i, X, row, r, n)
            fill(scratch.waves, n * S, scratch.angle, (i * rows + r) * S)
        for r in range(rows):
            clear_behind(scratch.waves, (i * rows + r) * S, D, S)
    scratch.place[0] = rows * S
    scratch.place[1] = 0


@inlined
def outputs(model, kernels, n, scratch, f):
    """f[i] = theta_i'z_i for the first ``n`` of ``kernels``; the rest of f (N,) is left alone."""
    D = model.n_waves[0]
    scale = 1.0 / math.sqrt(D)
    for m in range(n):
        i = kernels[m]
        z = m * scratch.place[0] + scratch.place[1]
        f[i] = scale * total(say_at(model, i, scratch.waves, z))


@inlined
def gradient_step(model, i, m, scratch, step, shrink):
    """theta_i <- shrink theta_i - step z_i (2 D,); kernel i is number m of the evaluated ones."""
    take_step(scratch, model, i, m, step, shrink)


@functools.singledispatch
def take_step(scratch, model, i, m, step, shrink):
    """``gradient_step`` by what the features were written to."""
    raise TypeError(f"no step is registered for {type(scratch)}")


def take_step_in_tile(scratch, model, i, m, step, shrink):
    """``take_step`` by features that lie as ``TileScratch`` has them."""
    descend(model, i, scratch.waves, m * scratch.place[0] + scratch.place[1], step, shrink)


dispatch(take_step, ChosenScratch, chosen.take_step)
dispatch(take_step, TileScratch, take_step_in_tile)
dispatch(take_step, AheadScratch, ahead.take_step_and_say)


@compiled
def _fill(angle, z):
    D = angle.shape[1]
    scale = 1.0 / math.sqrt(D)
    for row in range(angle.shape[0]):
        for j in range(0, D, LANES):
            n = min(LANES, D - j)
            s, c = sincos_of_pack(load(angle, row * D + j, n))
            store(z, 2 * row * D + j, s * scale, n)
            store(z, 2 * row * D + D + j, c * scale, n)


def features_at(angle: np.ndarray) -> np.ndarray:
    """z of one kernel by arguments (n, D) in C order -> (n, 2 D), divided by sqrt(D)."""
    z = np.empty((len(angle), 2 * angle.shape[1]))
    _fill(angle, z)
    return z


def features_of(omega: np.ndarray, X: np.ndarray) -> np.ndarray:
    """z(x) of one kernel for a block: omega (d, D), X (n, d) -> (n, 2 D), divided by sqrt(D)."""
    return features_at(np.ascontiguousarray(X @ omega))


def _evaluate_every(scratch, model, X, row, selection):
    transform_ahead(model, X, row, scratch)
    outputs(model, selection.evaluate, selection.n_evaluated[0], scratch, selection.f)


dispatch(evaluate_row, TileScratch, _evaluate_every)


def _fresh(params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int) -> RandomFeatures:
    return draw_features(kernels, d, D, seed)


def _scratch(
    model: RandomFeatures, threads: int, every_kernel: bool, precision: str
) -> ChosenScratch | AheadScratch:
    return (ahead if every_kernel else chosen).scratch(model, precision)


def _support_size(model: RandomFeatures) -> np.ndarray:
    return np.zeros(model.n_kernels, dtype=np.int64)


def _kept_rows(model: RandomFeatures) -> int:
    return 0


RANDOM_FEATURES = Representation(
    name="random features",
    fresh=_fresh,
    scratch=_scratch,
    lookahead=None,
    written=(),
    draws_features=True,
    supports_float32=True,
    support_size=_support_size,
    kept_rows=_kept_rows,
    untaught=untaught,
)
