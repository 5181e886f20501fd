"""Features of several clients at once, where most of a row's inputs may be the same number.

A row that says which of 520 stations are heard, or which of many words occur, has one number m
almost everywhere. Only the frequencies of its other inputs are read then: an argument is m times
the sum over all inputs of its frequency, and (x_k - m) times that of every input k that is not m.
Each row decides that for itself, so clients have the same bits together and alone; where m is 0
they are the bits of the sum over all inputs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from omkl.core.compiler import compiled, dispatch, inlined
from omkl.core.representations import random_features
from omkl.core.representations.random_features import (
    RandomFeatures,
    arguments_of_all_inputs,
    arguments_of_rows,
    take_step,
    take_step_in_tile,
)
from omkl.core.representations.waves import arguments
from omkl.core.simd import LANES, aligned, fma, load, store
from omkl.core.trigonometry import Double, Single

FEWEST_INPUTS = 64  # with less a row is read as it is
SHARE = 4  # so is one of which more than a fourth of the inputs are other numbers
CACHED = 2**20  # bytes of frequencies that are cheap to read once more
MANY_ROWS = 64  # clients whose features are computed together where they are not


class ClientTile(NamedTuple):
    """What the features of a tile of clients are written to.

    angle, waves, place  as of ``TileScratch``
    sums      (N, W) frequencies, summed over inputs; (0, 0) where inputs are few
    common    (rows,) the number that most inputs of a row are
    n_others  (rows,) int64: how many are another one; -1 where they are too many
    others    (rows, d) int64: which
    """

    angle: np.ndarray
    waves: Double | Single
    place: np.ndarray
    sums: np.ndarray
    common: np.ndarray
    n_others: np.ndarray
    others: np.ndarray


def client_tile(model: RandomFeatures) -> ClientTile:
    """Scratch for the features of several clients, of more where frequencies are many."""
    d = model.padded.shape[1]
    rows = random_features.ROWS if model.padded.nbytes <= CACHED else MANY_ROWS
    tile: Any = random_features.scratch(model, every_kernel=True, rows=rows)
    looked_at = d >= FEWEST_INPUTS
    marked = rows if looked_at else 0
    return ClientTile(
        angle=tile.angle,
        waves=tile.waves,
        place=tile.place,
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


def _arguments_of_rows(scratch, padded, D, i, X, row, r, n):
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


dispatch(arguments_of_rows, ClientTile, _arguments_of_rows)
dispatch(take_step, ClientTile, take_step_in_tile)


# --- many rows of a client, for one kernel after the other ----------------------------------------


class FewOthers(NamedTuple):
    """Rows of which most inputs are one number each.

    common   (n,) that number
    starts   (n + 1,) int64: where the other inputs of a row begin
    columns  int64: which these are
    """

    common: np.ndarray
    starts: np.ndarray
    columns: np.ndarray


def few_others(X: np.ndarray) -> FewOthers | None:
    """What differs in rows X (n, d); None where a row differs in too much."""
    n, d = X.shape
    if d < FEWEST_INPUTS or n == 0:
        return None
    common = np.median(X, axis=1)  # what more than half of them are
    different = X != common[:, None]
    counts = different.sum(axis=1)
    if SHARE * counts.max() > d:
        return None
    return FewOthers(common, np.concatenate([[0], np.cumsum(counts)]), np.nonzero(different)[1])


@compiled
def arguments_by_others(padded, sums, i, X, few, angle):
    """angle (n, D) of kernel i at rows X (n, d), of which ``few`` tells.

    padded (N, d, W) frequencies, sums (N, W) of ``sums_over_inputs``.
    """
    n, D = angle.shape
    for r in range(n):
        start, stop = few.starts[r], few.starts[r + 1]
        others = few.columns[start:stop]
        _arguments_of_few(
            padded, sums, D, i, X, r, few.common[r], others, stop - start, angle, r * D
        )
