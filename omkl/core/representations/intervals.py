"""Learners on random features that start anew on intervals of the stream; features are shared.

Level j has the intervals [k 2^j, (k + 1) 2^j - 1] for k = 1, 2, ..: in round t the levels with
2^j <= t are alive, one interval of each (the geometric covering of time). Kernel i has
coefficients of its own on every level, and its function is their mean by the levels' weights.

Every row of coefficients learns from its own output alone, so a block of rounds is learned kernel
by kernel, as in ``local_features``, with all levels of a kernel side by side. ``step_size`` gets
the length of an interval, in place of the round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.core.jit import dispatch, inlined
from omkl.core.protocol import local_step, step_size
from omkl.core.representations import evaluate_row, learn_block, learn_row, local_features
from omkl.core.representations.local_features import (
    BLOCK,
    RENEWED,
    copy,
    followed_norm2,
    followed_step,
    hand_out_norms,
    learn_and_say,
    return_coefficients,
    say,
    squared_norm_at,
    take_coefficients,
)
from omkl.core.representations.random_features import (
    RANDOM_FEATURES,
    RandomFeatures,
    TileScratch,
    draw_features,
    outputs,
    transform_ahead,
)
from omkl.core.representations.waves import turn_rows, waves_of_eight
from omkl.core.simd import LANES, aligned, fma, load, pack, store, total
from omkl.core.trigonometry import Double, Single

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Intervals(NamedTuple):
    """Coefficients of N kernels on J levels.

    rows   frequencies of the kernels; theta (J N, 2 W) and norm2 (J N,), level by level
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
        """(N, 2 D J): the coefficients of kernel i on all levels; a copy."""
        levels = self.rows.coefficients.reshape(*self.row.shape, -1)
        return np.concatenate(list(levels), axis=1)

    @property
    def n_kernels(self) -> int:
        return self.row.shape[1]


class Scratch(NamedTuple):
    """What rounds write to, as ``LocalScratch`` of ``local_features``, level by level.

    tile    features, for rows that are looked at one by one
    f       (J N,) what each row of theta says; before (J N,) their squared norms
    blocks  (BLOCK, J N) f of a block of rounds; norm2 (BLOCK + 1, J N) likewise
    place, waves, theta, columns, last   as there, of one kernel; theta (J 2 W,)
    """

    tile: TileScratch
    f: np.ndarray
    before: np.ndarray
    blocks: np.ndarray
    norm2: np.ndarray
    place: np.ndarray
    waves: Double | Single
    theta: np.ndarray
    columns: np.ndarray
    last: Double | Single


def fresh(kernels: Sequence[Kernel], d: int, D: int, seed: int, n_levels: int) -> Intervals:
    N = len(kernels)
    drawn = draw_features(kernels, d, D, seed)
    theta = aligned((N * n_levels, drawn.theta.shape[1]))
    rows = drawn._replace(theta=theta, norm2=np.zeros(N * n_levels))
    row = np.arange(n_levels * N).reshape(n_levels, N)
    mix = np.zeros(n_levels)
    mix[0] = 1.0
    return Intervals(rows, row, np.ones(1, dtype=np.int64), mix)


def _scratch(model: Intervals, threads: int, every_kernel: bool, precision: str) -> Scratch:
    like: Any = local_features.scratch(model.rows, precision)
    J, N = model.row.shape
    W = model.rows.padded.shape[2]
    return Scratch(
        tile=like.tile,
        f=np.zeros(J * N),
        before=np.zeros(J * N),
        blocks=np.zeros((BLOCK, J * N)),
        norm2=np.zeros((BLOCK + 1, J * N)),
        place=like.place,
        waves=like.waves,
        theta=aligned((J * 2 * W,)),
        columns=like.columns,
        last=like.last,
    )


@inlined
def n_alive(t, J):
    """Of J levels, those with intervals in round t."""
    n = 0
    length = 1
    while n < J and length <= t:
        n += 1
        length *= 2
    return n


@inlined
def _forget(model, r):
    """An interval begins: theta of row r starts anew."""
    model.norm2[r] = 0.0
    for k in range(model.theta.shape[1]):
        model.theta[r, k] = 0.0


@inlined
def _learn_eight(scratch, params, t, y, row, i, N, J, D, W, r0):
    """Rounds t .. t + 7 of all levels of kernel i, whose waves are there."""
    theta, waves = scratch.theta, scratch.waves
    root = math.sqrt(D)
    scale = 1.0 / math.sqrt(D)
    for j in range(J):
        scratch.blocks[r0, j * N + i] = scale * total(say(theta, 2 * W * j, waves, 0, W))
    for r in range(LANES):
        z = r * W
        after = z + W if r + 1 < LANES else z
        length = 1
        for j in range(J):
            m = j * N + i
            w = 2 * W * j
            f, norm2 = scratch.blocks[r0 + r, m], scratch.norm2[r0 + r, m]
            next_f = 0.0
            if (t + r + 1) % length == 0:  # the next round is the first of an interval
                norm2 = 0.0
                for k in range(0, 2 * W, LANES):
                    store(theta, w + k, pack(0.0))
            elif length <= t + r:
                step, shrink = local_step(params, step_size(params, length), y[row + r], f)
                said = learn_and_say(theta, w, waves, z, after, W, pack(-step / root), shrink)
                follow = followed_norm2(norm2, f, step, shrink)
                renewed = (t + r) % RENEWED == 0
                norm2 = squared_norm_at(theta, w, W) if renewed else follow
                next_f = scale * total(said)
            scratch.norm2[r0 + r + 1, m] = norm2
            if r + 1 < LANES:
                scratch.blocks[r0 + r + 1, m] = next_f
            length *= 2


def _learn_block(scratch, params, model, t, X, y, row):
    n = min(BLOCK, X.shape[0] - row) // LANES * LANES
    if n == 0 or scratch.place[1] > 0:
        return
    N, d, W = model.rows.padded.shape
    D = model.rows.n_waves[0]
    scratch.tile.place[0] = 0  # what comes after the block is filled anew
    turn_rows(X, row, n, scratch.columns)
    J = n_alive(t + n - 1, model.row.shape[0])
    for i in range(N):
        for j in range(J):
            take_coefficients(model.rows, j * N + i, scratch, j)
        for r0 in range(0, n, LANES):
            waves_of_eight(
                model.rows.padded, D, i, X, row + r0, scratch.columns, r0 * d, scratch, 0
            )
            _learn_eight(scratch, params, t + r0, y, row + r0, i, N, J, D, W, r0)
        for j in range(J):
            return_coefficients(model.rows, j * N + i, scratch, j)
    scratch.place[0] = 0
    scratch.place[1] = n


def _learn_row(scratch, params, model, t, y, selection):
    N = selection.f.shape[0]
    J = model.alive[0]
    rows = model.rows
    if scratch.place[1] > 0:
        hand_out_norms(scratch, rows, J * N)
        return
    length = 1
    for j in range(J):
        for i in range(N):
            m = j * N + i
            f = scratch.f[m]
            scratch.before[m] = rows.norm2[m]
            if (t + 1) % length == 0:
                _forget(rows, m)
            else:
                step, shrink = local_step(params, step_size(params, length), y, f)
                followed_step(rows, m, i, t, f, scratch.tile, step, shrink)
        length *= 2


def _evaluate(scratch, model, X, row, selection):
    N = selection.f.shape[0]
    J = model.alive[0]
    if scratch.place[1] > 0:
        copy(scratch.blocks, scratch.place[0] * scratch.blocks.shape[1], scratch.f, 0, J * N)
    else:
        transform_ahead(model.rows, X, row, scratch.tile)
        for j in range(J):
            outputs(model.rows, model.row[j], N, scratch.tile, scratch.f)
    for i in range(0, N, LANES):
        n = min(LANES, N - i)
        said = pack(0.0)
        for j in range(J):
            said = fma(load(scratch.f, j * N + i, n), model.mix[j], said)
        store(selection.f, i, said, n)


dispatch(learn_block, Scratch, _learn_block)
dispatch(evaluate_row, Scratch, _evaluate)
dispatch(learn_row, Scratch, _learn_row)

INTERVALS = RANDOM_FEATURES._replace(
    name="random features on intervals", scratch=_scratch, local=True, untaught=None
)
