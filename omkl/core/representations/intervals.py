"""Learners on shared random features that restart on intervals of the stream.

Level j has the intervals [k 2^j, (k + 1) 2^j - 1] for k = 1, 2, ..: in round t the levels with
2^j <= t are alive, with one interval each (the geometric covering of time). Kernel i has separate
coefficients on every level, and its function is their mean by the levels' weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np

from omkl.core.compiler import dispatch, inlined
from omkl.core.hyperparameters import Range
from omkl.core.representations import evaluate_row
from omkl.core.representations.random_features import (
    RANDOM_FEATURES,
    RandomFeatures,
    draw_features,
)
from omkl.core.representations.sincos_features import (
    dot_features,
    gradient_step_at,
    waves_of_row,
)
from omkl.core.simd import LANES, aligned, fma, load, pack, store, total
from omkl.core.trigonometry import Waves, empty_waves

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Intervals(NamedTuple):
    """Coefficients of N kernels on J levels.

    rows   frequencies of the kernels; theta (J N, 2 W) and norm2 (J N,), level by level
    row    (J, N) int64, row of theta of kernel i on level j
    alive  (1,) int64, number of levels that are alive
    mix    (J,) weights of the levels, of sum 1
    """

    rows: RandomFeatures
    row: Annotated[np.ndarray, Range(0, "rows.theta.0", open_high=True)]
    alive: Annotated[np.ndarray, Range(1, "mix.0")]
    mix: np.ndarray

    @property
    def omega(self) -> np.ndarray:
        return self.rows.omega

    @property
    def theta(self) -> np.ndarray:
        """Copy of the coefficients (N, 2 D J) of all kernels, each on all levels."""
        levels = self.rows.coefficients.reshape(*self.row.shape, -1)
        return np.concatenate(list(levels), axis=1)

    @property
    def n_kernels(self) -> int:
        return self.row.shape[1]


class Scratch(NamedTuple):
    """Scratch of a round.

    waves   (N W,) features of the kernels at the row; angle (W,) arguments of one kernel
    f       (J N,) output of each row of theta
    """

    waves: Waves
    angle: np.ndarray
    f: np.ndarray


def fresh(kernels: Sequence[Kernel], d: int, D: int, seed: int, n_levels: int) -> Intervals:
    """Make coefficients of 0 on all levels.

    Parameters
    ----------
    kernels
        Dictionary.
    d, D
        Number of inputs, and of random features.
    seed
        Seed of the features.
    n_levels
        Number of levels J.
    """
    N = len(kernels)
    drawn = draw_features(kernels, d, D, seed)
    theta = aligned((N * n_levels, drawn.theta.shape[1]))
    rows = drawn._replace(theta=theta, norm2=np.zeros(N * n_levels))
    row = np.arange(n_levels * N).reshape(n_levels, N)
    mix = np.zeros(n_levels)
    mix[0] = 1.0
    return Intervals(rows, row, np.ones(1, dtype=np.int64), mix)


def _scratch(model: Intervals, threads: int) -> Scratch:
    J, N = model.row.shape
    W = model.rows.padded.shape[2]
    return Scratch(empty_waves(N * W), aligned((W,)), np.zeros(J * N))


@inlined
def begin_level(model, j):
    """Begin an interval of level j, with coefficients of 0."""
    for r in model.row[j]:
        model.rows.norm2[r] = 0.0
        for k in range(model.rows.theta.shape[1]):
            model.rows.theta[r, k] = 0.0


@inlined
def gradient_steps_of_level(model, j, eta, lam, y, scratch):
    """Do a gradient step for every kernel on level j, see ``gradient_steps``.

    Parameters
    ----------
    model
        Coefficients, updated in place.
    j
        Level.
    eta, lam
        Step size and penalty.
    y
        Target.
    scratch
        Scratch of the evaluated row.
    """
    W = model.rows.padded.shape[2]
    shrink = 1.0 - 2.0 * eta * lam
    for i in range(model.row.shape[1]):
        r = model.row[j, i]
        step = 2.0 * eta * (scratch.f[r] - y)
        gradient_step_at(model.rows, r, scratch.waves, i * W, step, shrink)


def _evaluate(scratch, model, X, row, selection):
    N = selection.f.shape[0]
    J = model.alive[0]
    rows = model.rows
    W = rows.padded.shape[2]
    scale = 1.0 / math.sqrt(rows.n_waves[0])
    for i in range(N):
        waves_of_row(rows, i, X, row, scratch.angle, scratch.waves, i * W)
        for j in range(J):
            dot = dot_features(rows, model.row[j, i], scratch.waves, i * W)
            scratch.f[j * N + i] = total(dot) * scale
    for i in range(0, N, LANES):
        n = min(LANES, N - i)
        mean = pack(0.0)
        for j in range(J):
            mean = fma(load(scratch.f, j * N + i, n), model.mix[j], mean)
        store(selection.f, i, mean, n)


dispatch(evaluate_row, Scratch, _evaluate)

INTERVALS = RANDOM_FEATURES._replace(
    name="random features on intervals", scratch=_scratch, with_zero_weights=None
)
