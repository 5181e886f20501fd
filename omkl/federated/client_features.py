"""Features of several clients at once.

**Rows with one number in most inputs.** A row of 520 stations or of many words has the same number
m almost everywhere. Its argument is m times the sum of the frequencies over all inputs, plus
(x_k - m) times the frequency of every input k that differs from m, so only the frequencies of these
inputs are read. Each row decides by itself whether it is computed this way. Clients therefore get
the same bits together and alone. For m = 0 these are also the bits of the sum over all inputs.
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

FEWEST_INPUTS = 64  # rows with fewer inputs are read in full
SHARE = 4  # a row is read in full if more than 1/SHARE of its inputs differ from the common number
CACHED = 2**20  # bytes of frequencies that stay in the cache, so that reading them again is cheap
MANY_ROWS = 64  # rows of a tile whose frequencies exceed CACHED


# --- A tile of clients whose features are computed at once ----------------------------------------
#
# The arguments of a tile of rows are one small matrix product, so the frequencies are read once for
# all rows of the tile.

ROWS = 4  # rows of a tile whose arguments are computed at once


@inlined
def arguments_of_all_inputs(scratch, padded, D, i, X, row, r, n):
    """Compute ``_arguments_of_rows`` by reading every input of every row."""
    if n == ROWS:
        arguments_of_four(padded, D, i, X, row + r, scratch.angle)
    else:
        for s in range(n):
            arguments(padded, D, i, X, row + r + s, scratch.angle, s * D)


@inlined
def advance_tile(model, X, row, scratch):
    """Advance the tile to X[row], X (rows, d), and refill it if it is used up.

    The caller visits the rows of X in order. The loop goes kernel by kernel, so that the
    frequencies of a kernel stay in the cache while all rows of the tile need them.
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
    """Write f[i] = theta_i'z_i at the present row of the tile, f (N,)."""
    scale = 1.0 / math.sqrt(model.n_waves[0])
    for i in range(f.shape[0]):
        z = i * scratch.place[0] + scratch.place[1]
        f[i] = scale * total(dot_features(model, i, scratch.waves, z))


def take_step_in_tile(scratch, model, i, m, step, shrink):
    """Run ``take_step`` with the features of a tile."""
    gradient_step_at(model, i, scratch.waves, m * scratch.place[0] + scratch.place[1], step, shrink)


@inlined
def evaluate(model, X, row, scratch):
    """Write scratch.f[i] = theta_i'z_i(X[row]) of all N kernels; X (C, d).

    The caller visits rows in order, because the features of several clients are computed together.
    """
    advance_tile(model, X, row, scratch.model)
    tile_outputs(model, scratch.model, scratch.f)


class ClientTile(NamedTuple):
    """Scratch arrays for the features of a tile of clients.

    angle     (ROWS S,) arguments; S as in ``RandomFeatures``
    waves     sines and cosines, (N rows S,) each: kernel by kernel, row by row, zeros behind D
    place     (2,) int64: the features of evaluated kernel m begin at m place[0] + place[1].
              place[0] is rows times S, place[1] the offset of the present row
    sums      (N, W) frequencies summed over inputs; (0, 0) for fewer than ``FEWEST_INPUTS`` inputs
    common    (rows,) the number that most inputs of a row have
    n_others  (rows,) int64: inputs that differ from it; -1 if the row is read in full
    others    (rows, d) int64: indices of the inputs that differ
    """

    angle: np.ndarray
    waves: Waves
    place: np.ndarray
    sums: np.ndarray
    common: np.ndarray
    n_others: np.ndarray
    others: np.ndarray


def client_tile(model: RandomFeatures) -> ClientTile:
    """Return the scratch for the features of several clients.

    The tile has more rows if the frequencies exceed the cache.
    """
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
    """Return frequencies (N, d, W) summed over inputs: (N, W)."""
    N, d, W = padded.shape
    sums = aligned((N, W))
    for k in range(d):
        sums += padded[:, k]
    return sums


@inlined
def _mark(X, row, r, scratch):
    """Find the common number of X[row], and inputs that differ from it, for row r of the tile."""
    d = X.shape[1]
    common = X[row, 0]
    lead = 0
    for k in range(d):  # majority vote of Boyer and Moore
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
    """Compute ``arguments`` of a row whose inputs are ``common`` except the n first of others."""
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
    """Write the arguments of kernel i at rows r .. r + n - 1 of a tile to scratch.angle, n <= ROWS.

    scratch.angle (ROWS D,); the tile begins at X[row], X (rows, d); padded (N, d, W). Call it for
    kernel 0 first: only then the rows are marked.
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
    """Write the losses (N,) of all kernels, and theta (N, 2 D) one gradient step further.

    The step goes to message.theta, the losses to scratch.loss.
    """
    N = scratch.f.shape[0]
    for i in range(0, N, LANES):
        n = min(LANES, N - i)
        error = load(scratch.f, i, n) - y
        store(scratch.loss, i, fma(error, error, load(server.model.norm2, i, n) * lam), n)
    for i in range(N):
        slope, shrink = 2.0 * eta * (scratch.f[i] - y), 1.0 - 2.0 * eta * lam
        step_into(server.model, i, message, i, scratch.model, slope, shrink)
