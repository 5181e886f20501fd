"""Random features of several clients at once.

In a round all clients use the same frequencies. The rows of several clients form a tile, whose
features are computed together: the frequencies of a kernel are read from memory once per tile.
Every angle is summed over the inputs in the same order as for a single client, so the features are
the same, to the last bit.
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

ROWS = 4  # rows whose angles are computed at once
CACHED = 2**20  # bytes of frequencies that fit into the cache, so that reading them again is cheap
MANY_ROWS = 64  # rows of a tile if the frequencies exceed CACHED


class ClientTile(NamedTuple):
    """Scratch for the features of a tile of rows. S is D rounded up to a multiple of 8.

    angle  (ROWS S,) angles
    waves  sines and cosines of R rows, (N R S,) each: kernel by kernel, row by row, zeros beyond D
    place  (2,) int64 (stride, offset): the features of evaluated kernel m begin at
           m stride + offset. The stride is R S. The offset is S times the index of the current row
    """

    angle: np.ndarray
    waves: Waves
    place: np.ndarray


def client_tile(model: RandomFeatures) -> ClientTile:
    """Return the scratch for the features of several clients.

    The tile has ROWS rows, or MANY_ROWS if the frequencies take more than CACHED bytes.
    """
    rows = ROWS if model.padded.nbytes <= CACHED else MANY_ROWS
    S = model.theta.shape[1] // 2
    return ClientTile(
        aligned((ROWS * S,)), empty_waves(len(model.padded) * S * rows), np.array([S, 0])
    )


@inlined
def advance_tile(model, X, row, scratch):
    """Advance the tile to a row. Compute the features of a new tile if the current one has ended.

    Visit the rows in order. A new tile is computed kernel by kernel, so that the frequencies of one
    kernel stay in the cache for all rows of the tile.

    Parameters
    ----------
    model
        Shared parameters.
    X, row
        Rows (C, d) of all clients in this round, and the index of the row to evaluate.
    scratch
        ``ClientTile``, written.
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
            if n == ROWS:
                arguments_of_four(model.padded, S, i, X, row + r, scratch.angle)
            else:
                for s in range(n):
                    arguments(model.padded, S, i, X, row + r + s, scratch.angle, s * S)
            fill(scratch.waves, n * S, scratch.angle, (i * rows + r) * S)
        for r in range(rows):
            clear_behind(scratch.waves, (i * rows + r) * S, D, S)
    scratch.place[0] = rows * S
    scratch.place[1] = 0


@inlined
def tile_outputs(model, scratch, f):
    """Write the output of every kernel at the current row of the tile.

    Parameters
    ----------
    model
        Shared parameters.
    scratch
        ``ClientTile`` at the row.
    f
        Output (N,).
    """
    scale = 1.0 / math.sqrt(model.n_waves[0])
    for i in range(f.shape[0]):
        z = i * scratch.place[0] + scratch.place[1]
        f[i] = scale * total(dot_features(model, i, scratch.waves, z))


def take_step_in_tile(scratch, model, i, m, step, shrink):
    """Take a gradient step with the features of the tile's current row.

    Parameters
    ----------
    scratch, model, i, m, step, shrink
        As in ``take_step``.
    """
    gradient_step_at(model, i, scratch.waves, m * scratch.place[0] + scratch.place[1], step, shrink)


dispatch(take_step, ClientTile, take_step_in_tile)


@inlined
def evaluate(model, X, row, scratch):
    """Write the outputs of all kernels at a client's row to ``scratch.f``.

    Visit the rows in order, because the features of several clients are computed together.

    Parameters
    ----------
    model
        Parameters that the client predicts with.
    X, row
        Rows (C, d) of all clients in this round, and the index of the row to evaluate.
    scratch
        ``ClientScratch``, written.
    """
    advance_tile(model, X, row, scratch.model)
    tile_outputs(model, scratch.model, scratch.f)


@inlined
def step_all(eta, lam, server, y, scratch, message):
    """Write the loss of every kernel, and theta of every kernel after one gradient step.

    Parameters
    ----------
    eta, lam
        Step size, and penalty >= 0.
    server
        State of the server, as broadcast.
    y
        Target.
    scratch
        ``ClientScratch`` of the evaluated row; ``loss`` (N,) is written.
    message
        Output: ``theta`` (N, 2 D).
    """
    N = scratch.f.shape[0]
    for i in range(0, N, LANES):
        n = min(LANES, N - i)
        error = load(scratch.f, i, n) - y
        store(scratch.loss, i, fma(error, error, load(server.model.norm2, i, n) * lam), n)
    for i in range(N):
        slope, shrink = 2.0 * eta * (scratch.f[i] - y), 1.0 - 2.0 * eta * lam
        step_into(server.model, i, message, i, scratch.model, slope, shrink)
