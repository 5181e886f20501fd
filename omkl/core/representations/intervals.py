"""Learners on random features that start anew on intervals of the stream; features are shared.

Level j has the intervals [k 2^j, (k + 1) 2^j - 1] for k = 1, 2, ..: in round t the levels with
2^j <= t are alive, one interval of each (the geometric covering of time). Kernel i has
coefficients of its own on every level, and its function is their mean by the levels' weights.

Every row of coefficients learns from its own output alone, so a block of rounds is learned kernel
by kernel, as in ``blocked``, with all levels of a kernel side by side. ``step_size`` gets
the length of an interval, in place of the round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from omkl.core.compiler import dispatch, inlined
from omkl.core.hyperparameters import Range
from omkl.core.protocol import local_step, step_size
from omkl.core.representations import evaluate_row, learn_block, learn_row
from omkl.core.representations.blocked import (
    BLOCK,
    RENEWED,
    copy,
    dot_coefficients,
    follow_norm,
    followed_norm2,
    hand_out_norms,
    local_scratch,
    outputs_of_packs,
    renew_norms,
    return_coefficients,
    several_step_and_evaluate,
    take_coefficients,
)
from omkl.core.representations.random_features import (
    RANDOM_FEATURES,
    RandomFeatures,
    draw_features,
)
from omkl.core.representations.sincos_features import (
    dot_features,
    gradient_step_at,
    turn_rows,
    waves_of_eight,
    waves_of_row,
)
from omkl.core.simd import LANES, aligned, fma, load, pack, store, total
from omkl.core.trigonometry import Waves

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
    row: Annotated[np.ndarray, Range(0, "rows.theta.0", open_high=True)]
    alive: Annotated[np.ndarray, Range(1, "mix.0")]
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
    """What rounds write to, as ``LocalScratch`` of ``blocked``, level by level.

    single  waves (N W,) each of a row that is looked at by itself; angle (W,) its arguments
    f       (J N,) the output of each row of theta; before (J N,) their squared norms
    blocks  (BLOCK, J N) f of a block of rounds; norm2 (BLOCK + 1, J N) likewise
    place, waves, theta, columns, last   as there, of one kernel; theta (J 2 W,)
    eta     (V,) step sizes of the levels; V is J in whole packs
    dots    (V, 8) packs whose totals are the outputs of a kernel's levels, times sqrt(D)
    outputs, norms, steps, shrinks    (V,) of the levels of the present kernel and round
    """

    single: Waves
    angle: np.ndarray
    f: np.ndarray
    before: np.ndarray
    blocks: np.ndarray
    norm2: np.ndarray
    place: np.ndarray
    waves: Waves
    theta: np.ndarray
    columns: np.ndarray
    last: Waves
    eta: np.ndarray
    dots: np.ndarray
    outputs: np.ndarray
    norms: np.ndarray
    steps: np.ndarray
    shrinks: np.ndarray


def fresh(kernels: Sequence[Kernel], d: int, D: int, seed: int, n_levels: int) -> Intervals:
    N = len(kernels)
    drawn = draw_features(kernels, d, D, seed)
    theta = aligned((N * n_levels, drawn.theta.shape[1]))
    rows = drawn._replace(theta=theta, norm2=np.zeros(N * n_levels))
    row = np.arange(n_levels * N).reshape(n_levels, N)
    mix = np.zeros(n_levels)
    mix[0] = 1.0
    return Intervals(rows, row, np.ones(1, dtype=np.int64), mix)


def _scratch(model: Intervals, threads: int) -> Scratch:
    like: Any = local_scratch(model.rows, threads)
    J, N = model.row.shape
    W = model.rows.padded.shape[2]
    V = -(-J // LANES) * LANES
    return Scratch(
        single=like.single.waves,
        angle=like.single.angle,
        f=np.zeros(J * N),
        before=np.zeros(J * N),
        blocks=np.zeros((BLOCK, J * N)),
        norm2=np.zeros((BLOCK + 1, J * N)),
        place=like.place,
        waves=like.waves,
        theta=aligned((J * 2 * W,)),
        columns=like.columns,
        last=like.last,
        eta=aligned((V,)),
        dots=aligned((V, LANES)),
        outputs=aligned((V,)),
        norms=aligned((V,)),
        steps=aligned((V,)),
        shrinks=aligned((V,)),
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
def n_begun(t, J):
    """Of J levels, those whose next interval begins with round t: the first ones."""
    n = 0
    length = 1
    while n < J and t % length == 0:
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
def _begin_anew(scratch, n, W):
    """The first n levels of a kernel begin: their coefficients are 0, and so are their outputs."""
    for k in range(0, n * 2 * W, LANES):
        store(scratch.theta, k, pack(0.0))
    for j in range(n):
        store(scratch.dots, j * LANES, pack(0.0))
        scratch.norms[j] = 0.0


@inlined
def _learn_eight(scratch, params, t, y, row, i, N, J, D, W, r0):
    """Rounds t .. t + 7 of all levels of kernel i, whose waves are there."""
    outputs_of, norms = scratch.outputs, scratch.norms
    root = math.sqrt(D)
    scale = 1.0 / math.sqrt(D)
    for j in range(J):
        store(
            scratch.dots, j * LANES, dot_coefficients(scratch.theta, 2 * W * j, scratch.waves, 0, W)
        )
        norms[j] = scratch.norm2[r0, j * N + i]
    for r in range(LANES):
        z = r * W
        after = z + W if r + 1 < LANES else z
        alive, begun = n_alive(t + r, J), n_begun(t + r + 1, J)
        outputs_of_packs(scratch.dots, scale, outputs_of)
        for j in range(J):
            scratch.blocks[r0 + r, j * N + i] = outputs_of[j]
        for j in range(begun, alive):
            f = outputs_of[j]
            step, shrink = local_step(params, scratch.eta[j], y[row + r], f)
            norms[j] = followed_norm2(norms[j], f, step, shrink)
            scratch.steps[j] = -step / root
            scratch.shrinks[j] = shrink
        several_step_and_evaluate(
            scratch.theta, scratch.waves, z, after, W, scratch.steps, scratch.shrinks, begun, alive,
            scratch.dots,
        )  # fmt: skip
        if (t + r) % RENEWED == 0:
            renew_norms(scratch.theta, W, begun, alive, norms)
        _begin_anew(scratch, begun, W)
        for j in range(J):
            scratch.norm2[r0 + r + 1, j * N + i] = norms[j]


def _learn_block(scratch, params, model, t, X, y, row):
    n = min(BLOCK, X.shape[0] - row) // LANES * LANES
    if n == 0 or scratch.place[1] > 0:
        return
    N, d, W = model.rows.padded.shape
    D = model.rows.n_waves[0]
    turn_rows(X, row, n, scratch.columns)
    J = n_alive(t + n - 1, model.row.shape[0])
    length = 1
    for j in range(J):
        scratch.eta[j] = step_size(params, length)
        length *= 2
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
    W = rows.padded.shape[2]
    if scratch.place[1] > 0:
        hand_out_norms(scratch, rows, J * N)
        return
    begun = n_begun(t + 1, J)
    length = 1
    for j in range(J):
        for i in range(N):
            m = j * N + i
            f = scratch.f[m]
            scratch.before[m] = rows.norm2[m]
            if j < begun:
                _forget(rows, m)
            else:
                step, shrink = local_step(params, step_size(params, length), y, f)
                gradient_step_at(rows, m, scratch.single, i * W, step, shrink)
                follow_norm(rows, m, t, scratch.before[m], f, step, shrink)
        length *= 2


def _evaluate(scratch, model, X, row, selection):
    N = selection.f.shape[0]
    J = model.alive[0]
    if scratch.place[1] > 0:
        copy(scratch.blocks, scratch.place[0] * scratch.blocks.shape[1], scratch.f, 0, J * N)
    else:
        rows = model.rows
        W = rows.padded.shape[2]
        scale = 1.0 / math.sqrt(rows.n_waves[0])
        for i in range(N):
            waves_of_row(rows, i, X, row, scratch.angle, scratch.single, i * W)
            for j in range(J):
                dot = dot_features(rows, model.row[j, i], scratch.single, i * W)
                scratch.f[j * N + i] = total(dot) * scale
    for i in range(0, N, LANES):
        n = min(LANES, N - i)
        mean = pack(0.0)
        for j in range(J):
            mean = fma(load(scratch.f, j * N + i, n), model.mix[j], mean)
        store(selection.f, i, mean, n)


dispatch(learn_block, Scratch, _learn_block)
dispatch(evaluate_row, Scratch, _evaluate)
dispatch(learn_row, Scratch, _learn_row)

INTERVALS = RANDOM_FEATURES._replace(
    name="random features on intervals", scratch=_scratch, local=True, with_zero_weights=None
)
