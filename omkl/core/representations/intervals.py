"""Learners on random features that start anew on intervals of the stream; features are shared.

Level j has the intervals [k 2^j, (k + 1) 2^j - 1] for k = 1, 2, ..: in round t the levels with
2^j <= t are alive, one interval of each (the geometric covering of time). Kernel i has
coefficients of its own on every level, and its function is their mean by the levels' weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.core.jit import dispatch, inlined
from omkl.core.representations import evaluate_row, random_features
from omkl.core.representations.random_features import (
    RANDOM_FEATURES,
    RandomFeatures,
    TileScratch,
    draw_features,
    outputs,
    transform_ahead,
)
from omkl.core.simd import aligned

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Intervals(NamedTuple):
    """Coefficients of N kernels on J levels.

    rows   frequencies of the kernels; theta (N J, 2 D) and norm2 (N J,), J rows a kernel
    row    (J, N) int64: which row of theta kernel i has on level j
    alive  (1,) int64: how many levels are
    mix    (J,) weights of the levels, of sum 1
    """

    rows: RandomFeatures
    row: np.ndarray
    alive: np.ndarray
    mix: np.ndarray

    @property
    def omega(self) -> np.ndarray:
        return self.rows.omega

    @property
    def theta(self) -> np.ndarray:
        """(N, 2 D J): the coefficients of kernel i on all levels; a view."""
        return self.rows.theta.reshape(self.n_kernels, -1)

    @property
    def n_kernels(self) -> int:
        return self.row.shape[1]


class Scratch(NamedTuple):
    """What a round writes to: features, and f (N J,), what each row of theta says."""

    tile: TileScratch
    f: np.ndarray


def fresh(kernels: Sequence[Kernel], d: int, D: int, seed: int, n_levels: int) -> Intervals:
    N = len(kernels)
    drawn = draw_features(kernels, d, D, seed)
    rows = RandomFeatures(drawn.padded, aligned((N * n_levels, 2 * D)), np.zeros(N * n_levels))
    row = np.arange(N * n_levels).reshape(N, n_levels).T.copy()
    mix = np.zeros(n_levels)
    mix[0] = 1.0
    return Intervals(rows, row, np.ones(1, dtype=np.int64), mix)


def _scratch(model: Intervals, threads: int, every_kernel: bool, precision: str) -> Scratch:
    tile: Any = random_features.scratch(model.rows, True, precision)
    return Scratch(tile, np.zeros(model.row.size))


def _evaluate(scratch, model, X, row, selection):
    transform_ahead(model.rows, X, row, scratch.tile)
    N = selection.f.shape[0]
    for i in range(N):
        selection.f[i] = 0.0
    for j in range(model.alive[0]):
        outputs(model.rows, model.row[j], N, scratch.tile, scratch.f)
        for i in range(N):
            selection.f[i] += model.mix[j] * scratch.f[model.row[j, i]]


@inlined
def start_level(model, j):
    """Forget the coefficients of level j: an interval of it begins."""
    for i in range(model.row.shape[1]):
        r = model.row[j, i]
        model.rows.norm2[r] = 0.0
        for k in range(model.rows.theta.shape[1]):
            model.rows.theta[r, k] = 0.0


dispatch(evaluate_row, Scratch, _evaluate)

INTERVALS = RANDOM_FEATURES._replace(name="random features on intervals", scratch=_scratch)
