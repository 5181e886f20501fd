"""Random features for local learners: a block of rounds is learned kernel by kernel.

Row by row, a round reads the frequencies and coefficients of all N kernels, and no cache near the
processor holds them. A kernel that learns from its own output alone need not wait for the others:
here a few kernels go through a whole block of rounds, eight rows at a time, while their
frequencies, their coefficients and the waves of these rows stay in the first cache. What they said
and the norms that they had are kept for the engine, which then combines round by round.

Every sum is added up in the order of ``random_features``, so outputs and coefficients are those of
rows that go one by one, as those left over from the last eight do. Squared norms are not added up
in every round: a step and the output say how the norm moves, to rounding (of single precision, with
such features), and in rounds that are multiples of RENEWED it is added up. Both ways do that, by
the number of the round, so no split into blocks shows.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from omkl.core.jit import dispatch, inlined
from omkl.core.protocol import local_step, step_size
from omkl.core.representations import evaluate_row, learn_block, learn_row, random_features
from omkl.core.representations.random_features import (
    RANDOM_FEATURES,
    RandomFeatures,
    TileScratch,
    gradient_step,
    outputs,
    transform_ahead,
)
from omkl.core.simd import LANES, aligned, fma, load, pack, store, total
from omkl.core.trigonometry import Double, Single, fill_pack

BLOCK = 64  # rounds of which outputs and norms are kept, a multiple of LANES
RENEWED = 64  # a multiple of it: a round after which squared norms are added up
FEW = 32  # features of all kernels, in whole packs: fewer are not worth a block
GROUP = 2  # kernels side by side: while one waits for its output, the other one computes


class LocalScratch(NamedTuple):
    """What rounds write to; W is D in whole packs, and rows of waves and theta have zeros behind D.

    tile     as of other learners, for rows that are looked at one by one
    before   (N,) squared norms before the round that was learned last
    f        (BLOCK, N) outputs of a block of rounds
    norm2    (BLOCK + 1, N) squared norms before each of its rounds, and after the last
    place    (2,) int64: the present row of these arrays, and how many there are; 0: one by one
    eta      (BLOCK,) step sizes of its rounds
    waves    of eight rows and a group of kernels, (GROUP 8 W,) each
    theta    (GROUP 2 W,) coefficients of the group
    columns  (BLOCK d,) rows of X by eights, input by input
    last     waves of the last few features, (8 8,) each: feature by feature, for eight rows
    """

    tile: TileScratch
    before: np.ndarray
    f: np.ndarray
    norm2: np.ndarray
    place: np.ndarray
    eta: np.ndarray
    waves: Double | Single
    theta: np.ndarray
    columns: np.ndarray
    last: Double | Single


def scratch(model: RandomFeatures, precision: str) -> LocalScratch:
    N, d, W = model.padded.shape
    tile: Any = random_features.scratch(model, True, precision)
    size = GROUP * LANES * W
    kind = Single if precision == "float32" else Double
    return LocalScratch(
        tile=tile,
        before=aligned((N,)),
        f=aligned((BLOCK, N)),
        norm2=aligned((BLOCK + 1, N)),
        place=np.zeros(2, dtype=np.int64),
        eta=np.zeros(BLOCK),
        waves=kind(aligned((size,), precision), aligned((size,), precision)),
        theta=aligned((GROUP * 2 * W,)),
        columns=aligned((BLOCK * d,)),
        last=kind(aligned((LANES * LANES,), precision), aligned((LANES * LANES,), precision)),
    )


@inlined
def _two_packs_of_four(padded, w, X, row, waves, start):
    """Waves of two packs of features, whose frequencies begin at w, at rows row .. row + 3."""
    d = padded.shape[1]
    W = padded.shape[2]
    v0 = load(padded, w)
    v1 = load(padded, w + LANES)
    u = X[row, 0]
    a0 = v0 * u
    a1 = v1 * u
    u = X[row + 1, 0]
    b0 = v0 * u
    b1 = v1 * u
    u = X[row + 2, 0]
    c0 = v0 * u
    c1 = v1 * u
    u = X[row + 3, 0]
    e0 = v0 * u
    e1 = v1 * u
    for k in range(1, d):
        w += W
        v0 = load(padded, w)
        v1 = load(padded, w + LANES)
        u = X[row, k]
        a0 = fma(v0, u, a0)
        a1 = fma(v1, u, a1)
        u = X[row + 1, k]
        b0 = fma(v0, u, b0)
        b1 = fma(v1, u, b1)
        u = X[row + 2, k]
        c0 = fma(v0, u, c0)
        c1 = fma(v1, u, c1)
        u = X[row + 3, k]
        e0 = fma(v0, u, e0)
        e1 = fma(v1, u, e1)
    fill_pack(waves, start, a0)
    fill_pack(waves, start + LANES, a1)
    fill_pack(waves, start + W, b0)
    fill_pack(waves, start + W + LANES, b1)
    fill_pack(waves, start + 2 * W, c0)
    fill_pack(waves, start + 2 * W + LANES, c1)
    fill_pack(waves, start + 3 * W, e0)
    fill_pack(waves, start + 3 * W + LANES, e1)


@inlined
def _pack_of_four(padded, w, X, row, waves, start):
    """The same for one pack."""
    d = padded.shape[1]
    W = padded.shape[2]
    v0 = load(padded, w)
    a0 = v0 * X[row, 0]
    b0 = v0 * X[row + 1, 0]
    c0 = v0 * X[row + 2, 0]
    e0 = v0 * X[row + 3, 0]
    for k in range(1, d):
        w += W
        v0 = load(padded, w)
        a0 = fma(v0, X[row, k], a0)
        b0 = fma(v0, X[row + 1, k], b0)
        c0 = fma(v0, X[row + 2, k], c0)
        e0 = fma(v0, X[row + 3, k], e0)
    fill_pack(waves, start, a0)
    fill_pack(waves, start + W, b0)
    fill_pack(waves, start + 2 * W, c0)
    fill_pack(waves, start + 3 * W, e0)


@inlined
def waves_of_four(padded, n_packs, i, X, row, waves, start):
    """Waves of the first ``n_packs`` packs of kernel i at rows row .. row + 3.

    The arguments, as of ``random_features``, go from registers into sine and cosine. Rows are W
    apart, from ``start`` on; padded (N, d, W).
    """
    w = i * padded.shape[1] * padded.shape[2]
    j = 0
    while j + 2 * LANES <= n_packs * LANES:
        _two_packs_of_four(padded, w + j, X, row, waves, start + j)
        j += 2 * LANES
    if j < n_packs * LANES:
        _pack_of_four(padded, w + j, X, row, waves, start + j)


@inlined
def turn_rows(X, row, n, columns):
    """columns = rows row .. row + n - 1 of X (rows, d) by eights, input by input."""
    d = X.shape[1]
    for r in range(n):
        for k in range(d):
            columns[(r // LANES * d + k) * LANES + r % LANES] = X[row + r, k]


@inlined
def waves_of_eight(padded, D, i, X, row, columns, first, scratch, start):
    """Waves of kernel i at rows row .. row + 7, whose columns begin at ``first``.

    Few features behind the last whole pack would leave most of a pack empty: for them a pack is
    one feature at eight rows.
    """
    d = padded.shape[1]
    W = padded.shape[2]
    whole = D // LANES
    n_last = D - whole * LANES
    few = 0 < n_last <= LANES // 2
    n_packs = whole if few else W // LANES
    for r in range(0, LANES, 4):
        waves_of_four(padded, n_packs, i, X, row + r, scratch.waves, start + r * W)
    z = start + whole * LANES
    if few:
        for e in range(n_last):
            j = whole * LANES + e
            a = load(columns, first) * padded[i, 0, j]
            for k in range(1, d):
                a = fma(load(columns, first + k * LANES), padded[i, k, j], a)
            fill_pack(scratch.last, e * LANES, a)
        for r in range(LANES):
            for e in range(n_last):
                scratch.waves.sin[z + r * W + e] = scratch.last.sin[e * LANES + r]
                scratch.waves.cos[z + r * W + e] = scratch.last.cos[e * LANES + r]
    elif n_last > 0:
        for r in range(LANES):
            for e in range(n_last, LANES):
                scratch.waves.cos[z + r * W + e] = 0.0  # of the argument 0 it is 1


@inlined
def say(theta, w, waves, z, W):
    """A pack whose total is theta'z sqrt(D), of the coefficients at w and the waves at z."""
    a = pack(0.0)
    b = pack(0.0)
    for j in range(0, W, LANES):
        a = fma(load(theta, w + j), load(waves.sin, z + j), a)
        b = fma(load(theta, w + W + j), load(waves.cos, z + j), b)
    return a + b


@inlined
def learn_and_say(theta, w, waves, z, after, W, scaled, shrink):
    """theta <- shrink theta + scaled times the waves at z; then ``say`` of those at ``after``."""
    a = pack(0.0)
    b = pack(0.0)
    for j in range(0, W, LANES):
        s = fma(load(waves.sin, z + j), scaled, load(theta, w + j) * shrink)
        c = fma(load(waves.cos, z + j), scaled, load(theta, w + W + j) * shrink)
        store(theta, w + j, s)
        store(theta, w + W + j, c)
        a = fma(s, load(waves.sin, after + j), a)
        b = fma(c, load(waves.cos, after + j), b)
    return a + b


@inlined
def squared_norm_at(theta, w, W):
    """That of the coefficients at w, added up as ``gradient_step`` does."""
    a = pack(0.0)
    b = pack(0.0)
    for j in range(0, W, LANES):
        s = load(theta, w + j)
        c = load(theta, w + W + j)
        a = fma(s, s, a)
        b = fma(c, c, b)
    return total(a + b)


@inlined
def followed_norm2(norm2, f, step, shrink):
    """||shrink theta - step z||^2 by norm2 = ||theta||^2 and f = theta'z, where ||z|| = 1."""
    return shrink * (shrink * norm2 - 2.0 * step * f) + step * step


@inlined
def _learn_eight(scratch, params, t, y, row, first, n_kernels, D, W, r0):
    """Rounds t .. t + 7 of a group of kernels, whose waves are there; they begin at row r0 of f."""
    theta, waves = scratch.theta, scratch.waves
    root = math.sqrt(D)
    scale = 1.0 / math.sqrt(D)
    for g in range(n_kernels):
        said = say(theta, 2 * W * g, waves, LANES * W * g, W)
        scratch.f[r0, first + g] = scale * total(said)
    for r in range(LANES):
        for g in range(n_kernels):
            i = first + g
            f = scratch.f[r0 + r, i]
            norm2 = scratch.norm2[r0 + r, i]
            step, shrink = local_step(params, scratch.eta[r0 + r], y[row + r], f)
            w = 2 * W * g
            z = (LANES * g + r) * W
            after = z + W if r + 1 < LANES else z
            renewed = (t + r) % RENEWED == 0
            if step != 0.0 or shrink != 1.0 or renewed:
                said = learn_and_say(theta, w, waves, z, after, W, pack(-step / root), shrink)
                follow = followed_norm2(norm2, f, step, shrink)
                norm2 = squared_norm_at(theta, w, W) if renewed else follow
            else:
                said = say(theta, w, waves, after, W)
            scratch.norm2[r0 + r + 1, i] = norm2
            if r + 1 < LANES:
                scratch.f[r0 + r + 1, i] = scale * total(said)


@inlined
def take_coefficients(model, i, scratch, g, D, W):
    """Copy the coefficients of kernel i to number g of the group, and its squared norm."""
    for half in range(2):
        for j in range(0, W, LANES):
            held = load(model.theta, (2 * i + half) * D + j, min(LANES, D - j))
            store(scratch.theta, (2 * g + half) * W + j, held)
    scratch.norm2[0, i] = model.norm2[i]


@inlined
def return_coefficients(model, i, scratch, g, D, W):
    """Copy them back."""
    for half in range(2):
        for j in range(0, W, LANES):
            held = load(scratch.theta, (2 * g + half) * W + j)
            store(model.theta, (2 * i + half) * D + j, held, min(LANES, D - j))


@inlined
def followed_step(model, i, m, t, f, scratch, step, shrink):
    """``gradient_step`` of round t; the norm is followed from f = theta_i'z_i, or added up."""
    before = model.norm2[i]
    gradient_step(model, i, m, scratch, step, shrink)
    if t % RENEWED != 0:
        model.norm2[i] = followed_norm2(before, f, step, shrink)


def _learn_block(scratch, params, model, t, X, y, row):
    if scratch.place[1] > 0:
        return
    n = min(BLOCK, X.shape[0] - row) // LANES * LANES
    N, d, W = model.padded.shape
    if n == 0 or N * W < FEW:
        return
    D = model.theta.shape[1] // 2
    scratch.tile.place[0] = 0  # what comes after the block is filled anew
    turn_rows(X, row, n, scratch.columns)
    for r in range(n):
        scratch.eta[r] = step_size(params, t + r)
    for first in range(0, N, GROUP):
        n_kernels = min(GROUP, N - first)
        for g in range(n_kernels):
            take_coefficients(model, first + g, scratch, g, D, W)
        for r0 in range(0, n, LANES):
            for g in range(n_kernels):
                waves_of_eight(
                    model.padded, D, first + g, X, row + r0, scratch.columns, r0 * d, scratch,
                    LANES * W * g,
                )  # fmt: skip
            _learn_eight(scratch, params, t + r0, y, row + r0, first, n_kernels, D, W, r0)
        for g in range(n_kernels):
            return_coefficients(model, first + g, scratch, g, D, W)
    scratch.place[0] = 0
    scratch.place[1] = n


def _evaluate(scratch, model, X, row, selection):
    if scratch.place[1] == 0:
        transform_ahead(model, X, row, scratch.tile)
        outputs(model, selection.evaluate, selection.n_evaluated[0], scratch.tile, selection.f)
        return
    r = scratch.place[0]
    for i in range(selection.f.shape[0]):
        selection.f[i] = scratch.f[r, i]


@inlined
def hand_out_norms(scratch, model, n):
    """Squared norms of n rows of theta, before and after the present row of a block; then on."""
    r = scratch.place[0]
    for i in range(n):
        scratch.before[i] = model.norm2[i]
        model.norm2[i] = scratch.norm2[r + 1, i]
    last = r + 1 == scratch.place[1]
    scratch.place[0] = 0 if last else r + 1
    scratch.place[1] = 0 if last else scratch.place[1]


def _learn_row(scratch, params, model, t, y, selection):
    N = selection.f.shape[0]
    if scratch.place[1] > 0:
        hand_out_norms(scratch, model, N)
        return
    eta = step_size(params, t)
    for i in range(N):
        f = selection.f[i]
        scratch.before[i] = model.norm2[i]
        step, shrink = local_step(params, eta, y, f)
        if step != 0.0 or shrink != 1.0 or t % RENEWED == 0:
            followed_step(model, i, i, t, f, scratch.tile, step, shrink)


dispatch(learn_block, LocalScratch, _learn_block)
dispatch(evaluate_row, LocalScratch, _evaluate)
dispatch(learn_row, LocalScratch, _learn_row)


def _scratch(
    model: RandomFeatures, threads: int, every_kernel: bool, precision: str
) -> LocalScratch:
    return scratch(model, precision)


LOCAL_FEATURES = RANDOM_FEATURES._replace(
    name="random features, kernel by kernel", scratch=_scratch, local=True
)
