"""Features of several clients at once.

**Rows where most of the inputs are one number.** A row that says which of 520 stations are heard,
or which of many words occur, has one number m almost everywhere. Only the frequencies of its other
inputs are read then: an argument is m times the sum over all inputs of its frequency, and (x_k - m)
times that of every input k that is not m. Each row decides that for itself, so clients have the
same bits together and alone; where m is 0 they are the bits of the sum over all inputs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from omkl.core.compiler import dispatch, inlined
from omkl.core.representations.random_features import RandomFeatures, take_step
from omkl.core.representations.sincos_features import (
    arguments,
    arguments_of_four,
    clear_behind,
    dot_features,
    gradient_step_at,
)
from omkl.core.simd import LANES, aligned, fma, load, store, total
from omkl.core.trigonometry import Waves, empty_waves, fill
from omkl.federated.messages import step_into

FEWEST_INPUTS = 64  # with less a row is read as it is
SHARE = 4  # so is one of which more than a fourth of the inputs are other numbers
CACHED = 2**20  # bytes of frequencies that are cheap to read once more
MANY_ROWS = 64  # clients whose features are computed together where they are not


# --- A tile of clients whose features are computed at once ----------------------------------------
#
# Their arguments are a small matrix product for a tile of rows, so that the frequencies are read
# once for all of them.

ROWS = 4  # of a tile, whose arguments are computed at once


@inlined
def arguments_of_all_inputs(scratch, padded, D, i, X, row, r, n):
    """``_arguments_of_rows`` where every input of every row is read."""
    if n == ROWS:
        arguments_of_four(padded, D, i, X, row + r, scratch.angle)
    else:
        for s in range(n):
            arguments(padded, D, i, X, row + r + s, scratch.angle, s * D)


@inlined
def advance_tile(model, X, row, scratch):
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
            _arguments_of_rows(scratch, model.padded, S, i, X, row, r, n)
            fill(scratch.waves, n * S, scratch.angle, (i * rows + r) * S)
        for r in range(rows):
            clear_behind(scratch.waves, (i * rows + r) * S, D, S)
    scratch.place[0] = rows * S
    scratch.place[1] = 0


@inlined
def tile_outputs(model, scratch, f):
    """f[i] = theta_i'z_i at the present row of the tile, f (N,)."""
    scale = 1.0 / math.sqrt(model.n_waves[0])
    for i in range(f.shape[0]):
        z = i * scratch.place[0] + scratch.place[1]
        f[i] = scale * total(dot_features(model, i, scratch.waves, z))


def take_step_in_tile(scratch, model, i, m, step, shrink):
    """``take_step`` by features of a tile."""
    gradient_step_at(model, i, scratch.waves, m * scratch.place[0] + scratch.place[1], step, shrink)


@inlined
def evaluate(model, X, row, scratch):
    """scratch.f[i] = theta_i'z_i(X[row]) of all N kernels; X (C, d).

    Rows are visited in their order: the features of several clients are computed together.
    """
    advance_tile(model, X, row, scratch.model)
    tile_outputs(model, scratch.model, scratch.f)


class ClientTile(NamedTuple):
    """What the features of a tile of clients are written to.

    angle     (ROWS S,), S as of ``RandomFeatures``
    waves     sines and cosines, (N rows S,) each: kernel by kernel, row by row, zeros behind D
    place     (2,) int64: the features of the evaluated kernel number m begin at
              m place[0] + place[1]: rows S and the present row's part of that
    sums      (N, W) frequencies, summed over inputs; (0, 0) where inputs are few
    common    (rows,) the number that most inputs of a row are
    n_others  (rows,) int64: how many are another one; -1 where they are too many
    others    (rows, d) int64: which
    """

    angle: np.ndarray
    waves: Waves
    place: np.ndarray
    sums: np.ndarray
    common: np.ndarray
    n_others: np.ndarray
    others: np.ndarray


def client_tile(model: RandomFeatures) -> ClientTile:
    """Scratch for the features of several clients, of more where frequencies are many."""
    d = model.padded.shape[1]
    rows = ROWS if model.padded.nbytes <= CACHED else MANY_ROWS
    looked_at = d >= FEWEST_INPUTS
    marked = rows if looked_at else 0
    S = model.theta.shape[1] // 2
    return ClientTile(
        angle=aligned((ROWS * S,)),
        waves=empty_waves(len(model.padded) * S * rows),
        place=np.array([S, 0]),
        sums=sums_over_inputs(model.padded) if looked_at else aligned((0, 0)),
        common=np.zeros(marked),
        n_others=np.zeros(marked, dtype=np.int64),
        others=np.zeros((marked, d), dtype=np.int64),
    )


def sums_over_inputs(padded: np.ndarray) -> np.ndarray:
    """Frequencies (N, d, W), summed over inputs: (N, W)."""
    N, d, W = padded.shape
    sums = aligned((N, W))
    for k in range(d):
        sums += padded[:, k]
    return sums


@inlined
def _mark(X, row, r, scratch):
    """What most inputs of X[row] are, and which are not, as row r of the tile."""
    d = X.shape[1]
    common = X[row, 0]
    lead = 0
    for k in range(d):  # Boyer and Moore: who has more than half of all votes is left
        if lead == 0:
            common = X[row, k]
        lead += 1 if X[row, k] == common else -1
    n = 0
    for k in range(d):
        scratch.others[r, n] = k
        n += 1 if X[row, k] != common else 0
    scratch.common[r] = common
    scratch.n_others[r] = n if SHARE * n <= d else -1


@inlined
def _arguments_of_few(padded, sums, D, i, X, row, common, others, n, angle, start):
    """``arguments`` of a row whose inputs are ``common`` but for the first n of others (n,)."""
    d, W = padded.shape[1], padded.shape[2]
    first, p = i * d * W, i * W
    j = 0
    while j + 4 * LANES <= W:
        a0 = load(sums, p + j) * common
        a1 = load(sums, p + j + LANES) * common
        a2 = load(sums, p + j + 2 * LANES) * common
        a3 = load(sums, p + j + 3 * LANES) * common
        for m in range(n):
            k = others[m]
            u = X[row, k] - common
            w = first + k * W + j
            a0 = fma(load(padded, w), u, a0)
            a1 = fma(load(padded, w + LANES), u, a1)
            a2 = fma(load(padded, w + 2 * LANES), u, a2)
            a3 = fma(load(padded, w + 3 * LANES), u, a3)
        store(angle, start + j, a0)
        store(angle, start + j + LANES, a1)
        store(angle, start + j + 2 * LANES, a2)
        store(angle, start + j + 3 * LANES, a3, min(LANES, D - j - 3 * LANES))
        j += 4 * LANES
    while j < W:
        a0 = load(sums, p + j) * common
        for m in range(n):
            k = others[m]
            a0 = fma(load(padded, first + k * W + j), X[row, k] - common, a0)
        store(angle, start + j, a0, min(LANES, D - j))
        j += LANES


@inlined
def _arguments_of_rows(scratch, padded, D, i, X, row, r, n):
    """Write those of kernel i at rows r .. r + n - 1 of a tile, n <= ROWS, to scratch.angle.

    scratch.angle (ROWS D,); the tile begins at X[row], X (rows, d); padded (N, d, W). Kernel 0
    comes first.
    """
    if scratch.sums.shape[0] == 0:
        arguments_of_all_inputs(scratch, padded, D, i, X, row, r, n)
        return
    n_few = 0
    for s in range(r, r + n):
        if i == 0:
            _mark(X, row + s, s, scratch)
        n_few += 1 if scratch.n_others[s] >= 0 else 0
    if n_few == 0:
        arguments_of_all_inputs(scratch, padded, D, i, X, row, r, n)
        return
    for s in range(n):
        if scratch.n_others[r + s] >= 0:
            _arguments_of_few(
                padded, scratch.sums, D, i, X, row + r + s, scratch.common[r + s],
                scratch.others[r + s], scratch.n_others[r + s], scratch.angle, s * D,
            )  # fmt: skip
        else:
            arguments(padded, D, i, X, row + r + s, scratch.angle, s * D)


dispatch(take_step, ClientTile, take_step_in_tile)


@inlined
def step_all(eta, lam, server, y, scratch, message):
    """Losses (N,) of all kernels, and message.theta (N, 2 D): each one gradient step further."""
    N = scratch.f.shape[0]
    for i in range(0, N, LANES):
        n = min(LANES, N - i)
        error = load(scratch.f, i, n) - y
        store(scratch.loss, i, fma(error, error, load(server.model.norm2, i, n) * lam), n)
    for i in range(N):
        slope, shrink = 2.0 * eta * (scratch.f[i] - y), 1.0 - 2.0 * eta * lam
        step_into(server.model, i, message, i, scratch.model, slope, shrink)
