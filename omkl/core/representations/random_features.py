"""Random Fourier features and the linear learners on top of them.

A shift-invariant kernel is the mean of cos(omega'(x - x')) over its spectral distribution. With D
frequencies omega drawn from this distribution and

    z(x) = [sin(omega_1'x) .. sin(omega_D'x)  cos(omega_1'x) .. cos(omega_D'x)] / sqrt(D),

z(x)'z(x') approximates kappa(x, x'), and f(x) = theta'z(x) replaces a growing kernel expansion
(Rahimi and Recht, NIPS 2007).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.core.compiler import compiled, dispatch, inlined, qualify_name
from omkl.core.representations import Representation, evaluate_row
from omkl.core.representations.sincos_features import (
    dot_features,
    gradient_step_and_output,
    gradient_step_at,
    output_at_row,
    waves_of_rows,
)
from omkl.core.rng import FEATURES, generator
from omkl.core.simd import LANES, aligned, load, store, total, totals
from omkl.core.trigonometry import Waves, empty_waves, sincos_of_pack

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class RandomFeatures(NamedTuple):
    """One linear learner for each of N kernels, in d inputs.

    padded   (N, d, W) frequencies. W is their number D rounded up to a multiple of 8. The padding
             is 0
    theta    (N, 2 S) coefficients: those of the D sines from column 0 on, those of the D cosines
             from column S on, 0 elsewhere. In a learner S = W, so that rows begin at a cache line.
             In the copy that a federation sends S = D, see ``compact``
    norm2    (N,) squared Euclidean norm of each row of theta
    n_waves  (1,) int64, number D
    """

    padded: np.ndarray
    theta: np.ndarray
    norm2: np.ndarray
    n_waves: np.ndarray

    @property
    def omega(self) -> np.ndarray:
        """Frequencies (N, d, D), a view of ``padded``."""
        return self.padded[:, :, : self.n_waves[0]]

    @property
    def coefficients(self) -> np.ndarray:
        """Read-only copy of the coefficients (N, 2 D) without padding, sines first."""
        halves = self.theta.reshape(self.n_kernels, 2, -1)[:, :, : self.n_waves[0]]
        copy = halves.reshape(self.n_kernels, -1).copy()
        copy.flags.writeable = False
        return copy

    @property
    def n_kernels(self) -> int:
        return len(self.theta)


qualify_name(RandomFeatures)  # several modules dispatch on it: each needs the same full name


def blank(N: int, d: int, D: int) -> RandomFeatures:
    """Make learners whose frequencies and coefficients are zero.

    Parameters
    ----------
    N, d, D
        Number of kernels, of inputs, and of frequencies.
    """
    padded = aligned((N, d, -(-D // LANES) * LANES))
    return RandomFeatures(padded, aligned((N, 2 * padded.shape[2])), np.zeros(N), np.array([D]))


def with_zero_weights(model: RandomFeatures) -> RandomFeatures:
    """Return learners with zero coefficients that share the frequencies of ``model``."""
    return model._replace(theta=aligned(model.theta.shape), norm2=np.zeros(len(model.theta)))


def compact(model: RandomFeatures) -> RandomFeatures:
    """Return the learners with coefficients (N, 2 D) without padding, for a federation."""
    theta = aligned((model.n_kernels, 2 * int(model.n_waves[0])))
    theta[:] = model.coefficients
    return model._replace(theta=theta)


def whole_packs(coefficients: np.ndarray) -> np.ndarray:
    """Convert coefficients (N, 2 D), sines first, to theta (N, 2 W) of ``RandomFeatures``."""
    N, D = len(coefficients), coefficients.shape[1] // 2
    W = -(-D // LANES) * LANES
    theta = aligned((N, 2 * W))
    theta.reshape(N, 2, W)[:, :, :D] = coefficients.reshape(N, 2, D)
    return theta


def random_features(
    dictionary: Sequence[Kernel], d: int, D: int, rng: np.random.Generator
) -> RandomFeatures:
    """Make learners with zero coefficients, and draw their frequencies kernel by kernel.

    Parameters
    ----------
    dictionary
        N kernels.
    d, D
        Number of inputs, and of frequencies.
    rng
        Generator.
    """
    model = blank(len(dictionary), d, D)
    for i, kernel in enumerate(dictionary):
        model.omega[i] = kernel.frequencies(rng, D, d).T
    return model


def draw_features(kernels: Sequence[Kernel], d: int, D: int, seed: int) -> RandomFeatures:
    """Draw the random features of a seed, which are the same for every algorithm.

    Parameters
    ----------
    kernels
        N kernels.
    d, D
        Number of inputs, and of frequencies.
    seed
        Integer >= 0.
    """
    return random_features(kernels, d, D, generator(seed, FEATURES))


@inlined
def gradient_step(model, i, m, scratch, step, shrink):
    """Update theta_i <- shrink theta_i - step z_i, where z_i are the features of the row.

    Parameters
    ----------
    model
        Learners, updated in place.
    i, m
        Kernel i, which is the m-th evaluated kernel.
    scratch
        Scratch, with the numbers that the evaluation of the row wrote.
    step, shrink
        Factors of the features and of the coefficients.
    """
    take_step(scratch, model, i, m, step, shrink)


@inlined
def gradient_steps(model, eta, lam, y, selection):
    """Update every theta_i by - eta times the gradient of (theta_i'z_i - y)^2 + lam ||theta_i||^2.

    All kernels must have been evaluated, in order of index.

    Parameters
    ----------
    model
        Learners, updated in place.
    eta, lam
        Step size, and penalty >= 0.
    y
        Target.
    selection
        Evaluated kernels, their outputs, and the scratch.
    """
    shrink = 1.0 - 2.0 * eta * lam
    for i in range(selection.f.shape[0]):
        gradient_step(model, i, i, selection.scratch, 2.0 * eta * (selection.f[i] - y), shrink)


@functools.singledispatch
def take_step(scratch, model, i, m, step, shrink):
    """Do a ``gradient_step``. Each class of scratch stores the features z_i in its own layout.

    Parameters
    ----------
    scratch
        Scratch, with the numbers that the evaluation of the row wrote.
    model, i, m, step, shrink
        As in ``gradient_step``.
    """
    raise TypeError(f"no step is registered for {type(scratch)}")


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


def features_of(omega: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Compute z(x) of one kernel for a block of rows.

    Parameters
    ----------
    omega, X
        Frequencies (d, D) and rows (n, d).

    Returns
    -------
    Features (n, 2 D), sines first, divided by sqrt(D): each row has norm 1.
    """
    z = np.empty((len(X), 2 * omega.shape[1]))
    _fill(np.ascontiguousarray(X @ omega), z)
    return z


# --- Chosen kernels, row by row, with features computed in advance --------------------------------
#
# The kernels of a round are only known after the round before, so the frequencies of a kernel are
# read from memory for one row at a time. A kernel that was chosen in many consecutive rounds is
# likely to be chosen again. Its features are then computed for eight rows, which reads its
# frequencies once. Its outputs are computed while features and coefficients are in the processor's
# cache: for all eight rows if the kernel seldom learns, else for the next row after each step. A
# wrong guess costs time but changes no bit, because features do not depend on targets, and sums
# have the same order in both cases.

STREAK = 8  # consecutive choices of a kernel after which its next choice is expected


class SparseScratch(NamedTuple):
    """Scratch for rounds that evaluate only chosen kernels. W is D rounded up to a multiple of 8.

    A kernel that was chosen in STREAK consecutive rounds is expected to be chosen again. Its
    features are computed for eight rows at once. The features of other kernels are computed row by
    row.

    waves    sines and cosines, (9 N W,) each. The first 8 N W are the features of the kernels with
             eight rows. The features of the other evaluated kernels follow in the order of
             evaluation. These kernels are few, so that their features stay in the first-level cache
    start    (N,) int64, index in ``waves`` of the features of the m-th evaluated kernel
    clock    (1,) int64, number of rounds so far plus 8 for each block of rows. Because of the 8,
             features that were computed for rows of an earlier block are not used
    seen     (N,) int64, clock of the most recent choice of each kernel
    streak   (N,) int64, number of consecutive choices of each kernel
    first    (N,) int64, clock of the first of the eight rows; far in the past if there are none
    outputs  (N, 8) outputs of each kernel at its eight rows
    known    (N,) int64, number of valid outputs, counted from the first of the eight rows
    n_steps  (N,) int64, number of steps of each kernel since its eight rows began
    angle    (4 W,) arguments of the sines and cosines of four rows
    """

    waves: Waves
    start: np.ndarray
    clock: np.ndarray
    seen: np.ndarray
    streak: np.ndarray
    first: np.ndarray
    outputs: np.ndarray
    known: np.ndarray
    n_steps: np.ndarray
    angle: np.ndarray


def sparse_scratch(model: RandomFeatures, threads: int) -> SparseScratch:
    N, _, W = model.padded.shape
    start, seen, streak, first, known, n_steps = np.zeros((6, N), dtype=np.int64)
    return SparseScratch(
        waves=empty_waves(N * (LANES + 1) * W),
        start=start,
        clock=np.zeros(1, dtype=np.int64),
        seen=seen,
        streak=streak,
        first=first,
        outputs=aligned((N, LANES)),
        known=known,
        n_steps=n_steps,
        angle=aligned((4 * W,)),
    )


@inlined
def is_guessed(scratch, i, now):
    """Count a choice of kernel i. Return whether the next rounds will probably choose it again.

    This is expected of a kernel that was chosen in each of the last rounds (see STREAK).

    Parameters
    ----------
    scratch
        Counts, updated in place.
    i
        Kernel.
    now
        Present value of ``clock``.
    """
    scratch.streak[i] = scratch.streak[i] + 1 if scratch.seen[i] == now - 1 else 0
    scratch.seen[i] = now
    return scratch.streak[i] >= STREAK


@inlined
def begin_eight(model, i, X, row, scratch, now):
    """Compute the features of kernel i at X[row] .. X[row + 7].

    Also compute the outputs at these rows, unless the kernel learned often during its last eight
    rows.

    Parameters
    ----------
    model, scratch
        Learners, and scratch, which is written.
    i
        Kernel.
    X, row
        Rows (n, d), and the index of the first.
    now
        Present value of ``clock``.
    """
    W = model.padded.shape[2]
    z = LANES * W * i
    waves = scratch.waves
    waves_of_rows(model, i, X, row, scratch.angle, waves, z)
    scratch.first[i] = now
    scratch.known[i] = 0
    # If a kernel learns in most rounds, its outputs at later rows are soon out of date.
    if 2 * scratch.n_steps[i] <= LANES:
        eight = totals(
            dot_features(model, i, waves, z),
            dot_features(model, i, waves, z + W),
            dot_features(model, i, waves, z + 2 * W),
            dot_features(model, i, waves, z + 3 * W),
            dot_features(model, i, waves, z + 4 * W),
            dot_features(model, i, waves, z + 5 * W),
            dot_features(model, i, waves, z + 6 * W),
            dot_features(model, i, waves, z + 7 * W),
        )
        store(scratch.outputs, i * LANES, eight * (1.0 / math.sqrt(model.n_waves[0])))
        scratch.known[i] = LANES
    scratch.n_steps[i] = 0


def evaluate_chosen(scratch, model, X, row, selection):
    """Write f_i(X[row]) of the kernels to evaluate, and store their features for ``gradient_step``.

    Parameters
    ----------
    scratch, model
        Scratch and learners.
    X, row
        Rows (n, d), and the index of one.
    selection
        Kernels to evaluate.
    """
    scale = 1.0 / math.sqrt(model.n_waves[0])
    N, _, W = model.padded.shape
    if row == 0:
        scratch.clock[0] += LANES  # features of earlier rows become invalid
    scratch.clock[0] += 1
    now = scratch.clock[0]
    n = selection.n_evaluated[0]
    for m in range(n):
        i = selection.evaluate[m]
        guessed = n == N or is_guessed(scratch, i, now)
        r = now - scratch.first[i]
        if r >= LANES and guessed and row + LANES <= X.shape[0]:
            begin_eight(model, i, X, row, scratch, now)
            r = 0
        if r < LANES:
            z = (LANES * i + r) * W
            if r >= scratch.known[i]:
                scratch.outputs[i, r] = total(dot_features(model, i, scratch.waves, z)) * scale
            selection.f[i] = scratch.outputs[i, r]
        else:
            z = (LANES * N + m) * W
            selection.f[i] = output_at_row(model, i, X, row, scratch.angle, scratch.waves, z)
        scratch.start[m] = z


def take_step_of_chosen(scratch, model, i, m, step, shrink):
    """Do a ``take_step``. If the features of the next row exist, also compute its output.

    Parameters
    ----------
    scratch, model, i, m, step, shrink
        As in ``take_step``.
    """
    z = scratch.start[m]
    after = scratch.clock[0] + 1 - scratch.first[i]  # index of the next row among the eight
    scratch.n_steps[i] += 1
    if after < LANES:
        output = gradient_step_and_output(
            model, i, scratch.waves, z, z + model.padded.shape[2], step, shrink
        )
        scratch.outputs[i, after] = output
        scratch.known[i] = after + 1
    else:
        gradient_step_at(model, i, scratch.waves, z, step, shrink)


dispatch(evaluate_row, SparseScratch, evaluate_chosen)
dispatch(take_step, SparseScratch, take_step_of_chosen)


# --- the representation ---------------------------------------------------------------------------


def _fresh(params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int) -> RandomFeatures:
    return draw_features(kernels, d, D, seed)


RANDOM_FEATURES = Representation(
    name="random features",
    fresh=_fresh,
    scratch=sparse_scratch,
    draws_features=True,
    with_zero_weights=with_zero_weights,
)
