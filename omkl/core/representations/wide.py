"""Ridge regression on many random features, solved from normal equations at growing intervals.

Random features are sines and cosines, one of each per frequency. With F features, adding a row to
the normal equations costs F^2 / 2 multiply-adds. Rows are added in blocks of TILE_ROWS rows, called
tiles. A solution costs F^3 / 6 more, at most about once in 2,048 rows on long streams. Recursive
least squares would cost 2 F^2 per row and wait for memory. Tiles begin at rows with fixed numbers,
so results do not depend on how the caller splits rows.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from omkl.core.compiler import inlined
from omkl.core.hyperparameters import ROUNDS, Range
from omkl.core.linalg import TILE_ROWS, add_tile, dot_from, eliminate
from omkl.core.simd import LANES, aligned, fma, load, store
from omkl.core.trigonometry import sincos_of_pack

RIDGE = 0.05  # penalty of the squared norm of theta
BEGIN = 512  # first rows that are not added, to save time on short streams
FIRST = 1024  # rows that are added before the first solution
GROWTH = 1.25  # growth of the number of rows from one solution to the next
MOST_BETWEEN = 2048  # most rows between two solutions
MEMORY = 65536  # rows; sums fade by 1 / MEMORY per row
MOST_PATIENCE = 8  # at least one tile in so many is added


class Wide(NamedTuple):
    """Ridge regression on F = 2 D + L + 1 features: sines, cosines, L columns and the constant 1.

    padded    (D / 8, d, 8) frequencies in groups of eight, so that memory is read in order
    theta     (W,) coefficients of the sines, the cosines, the columns and 1, then zeros. W is F + 1
              rounded up to a multiple of 8
    moments   (1, W, W) sums of b b' with b = (features, target - ``centre``); only the upper
              triangle is valid
    tile      (TILE_ROWS, W) vectors b of rows that are not in ``moments`` yet
    centre    (1,) first target, which is subtracted from all targets
    n         (1,) int64, number of rows so far; tiles begin at multiples of TILE_ROWS
    n_added   (1,) int64, number of rows that were added to ``moments``
    wait      (1,) int64, number of rows to add until the next solution
    fits      (1,) int64, number of solutions so far
    patience  (1,) int64, only every ``patience``-th tile is added. The number exceeds 1, to save
              time, as long as this regression has no weight in the mixture
    """

    padded: np.ndarray
    theta: np.ndarray
    moments: np.ndarray
    tile: np.ndarray
    centre: np.ndarray
    n: ROUNDS
    n_added: ROUNDS
    wait: Annotated[np.ndarray, Range(1 - TILE_ROWS, MOST_BETWEEN)]
    fits: ROUNDS
    patience: Annotated[np.ndarray, Range(1, MOST_PATIENCE)]


class WideScratch(NamedTuple):
    """Scratch of a round.

    b     (W,) vector b of the row, as in ``Wide``
    work  (W, W) matrix of a solution
    """

    b: np.ndarray
    work: np.ndarray


def fresh_wide(frequencies: np.ndarray, n_columns: int) -> Wide:
    """Return a ridge regression that has learned no row yet.

    Parameters
    ----------
    frequencies
        Frequencies (d, D), D a multiple of 8. Each gives a sine and a cosine of the first d columns
        of a row.
    n_columns
        Number L of first columns of a row that are features themselves.

    Raises
    ------
    ValueError
        D is not a multiple of 8.
    """
    d, D = frequencies.shape
    if D % LANES:
        raise ValueError(f"waves come in packs of {LANES}; got {D}")
    padded = aligned((D // LANES, d, LANES))
    padded[:] = frequencies.reshape(d, -1, LANES).swapaxes(0, 1)
    W = -(-(2 * D + n_columns + 2) // LANES) * LANES
    return Wide(
        padded,
        theta=aligned((W,)),
        moments=aligned((1, W, W)),
        tile=aligned((TILE_ROWS, W)),
        centre=np.zeros(1),
        n=np.zeros(1, dtype=np.int64),
        n_added=np.zeros(1, dtype=np.int64),
        wait=np.full(1, FIRST),
        fits=np.zeros(1, dtype=np.int64),
        patience=np.ones(1, dtype=np.int64),
    )


def wide_scratch(model: Wide) -> WideScratch:
    W = len(model.theta)
    return WideScratch(aligned((W,)), aligned((W, W)))


@inlined
def _takes(model):
    """Return whether the present row will be added to the normal equations."""
    n = model.n[0]
    return n >= BEGIN and n // TILE_ROWS % model.patience[0] == 0


@inlined
def _n_waves(model):
    return model.padded.shape[0] * LANES


@inlined
def _write_features(model, scratch, x, n_columns):
    """Write the features of a row x into scratch.b.

    These are sines and cosines of the first d columns, the first ``n_columns`` columns, and 1.
    """
    D, d = _n_waves(model), model.padded.shape[1]
    scale = 1.0 / math.sqrt(D)
    for j in range(0, D, LANES):
        angle = load(model.padded, j * d) * x[0]
        for k in range(1, d):
            angle = fma(load(model.padded, j * d + k * LANES), x[k], angle)
        s, c = sincos_of_pack(angle)
        store(scratch.b, j, s * scale)
        store(scratch.b, D + j, c * scale)
    for k in range(n_columns):
        scratch.b[2 * D + k] = x[k]
    scratch.b[2 * D + n_columns] = 1.0


@inlined
def evaluate_wide(model, scratch, x, n_columns):
    """Return the prediction for a row, 0 before the first solution.

    The features of the row are only written if the prediction or ``learn_wide`` needs them.

    Parameters
    ----------
    model, scratch
        Regression and its scratch.
    x
        Row. Its first d columns are the inputs of the sines and cosines.
    n_columns
        Number of first columns that are features themselves.
    """
    if not (model.fits[0] > 0 or _takes(model)):
        return 0.0
    _write_features(model, scratch, x, n_columns)
    return model.centre[0] + dot_from(model.theta, 0, scratch.b, 0, model.theta.shape[0])


@inlined
def learn_wide(model, scratch, y, n_columns, is_used):
    """Learn the target of the evaluated row.

    Parameters
    ----------
    model, scratch
        Regression, updated in place, and its scratch.
    y
        Target.
    n_columns
        As in ``evaluate_wide``.
    is_used
        Whether the mixture gives the prediction weight.
    """
    if model.n[0] == 0:
        model.centre[0] = y
    if _takes(model):
        place = model.n[0] % TILE_ROWS
        W = model.theta.shape[0]
        for j in range(0, W, LANES):
            store(model.tile, place * W + j, load(scratch.b, j))
        model.tile[place, 2 * _n_waves(model) + n_columns + 1] = y - model.centre[0]
        model.n_added[0] += 1
        model.wait[0] -= 1
        if place == TILE_ROWS - 1:
            add_tile(model.tile, TILE_ROWS, model.moments, 0)
            if model.wait[0] <= 0:
                _solve(model, scratch, n_columns, is_used)
    model.n[0] += 1


@inlined
def _solve(model, scratch, n_columns, is_used):
    """Solve (Z'Z + RIDGE I) theta = Z'y by a Cholesky factorisation.

    Z (n, F) are the features of the added rows. The coefficient of the constant feature 1 has no
    penalty. If rounding makes a pivot not positive, theta stays unchanged.
    """
    W, K = model.theta.shape[0], 2 * _n_waves(model) + n_columns + 1
    work = scratch.work
    for k in range(K + 1):
        for j in range(k // LANES * LANES, W, LANES):
            store(work, k * W + j, load(model.moments, k * W + j))
        if k < K - 1:
            work[k, k] += RIDGE
    if eliminate(work, K):
        for k in range(K - 1, -1, -1):
            rest = work[k, K]
            for j in range(k + 1, K):
                rest -= work[k, j] * model.theta[j]
            model.theta[k] = rest / work[k, k]
    step = min(MOST_BETWEEN, int((GROWTH - 1.0) * model.n_added[0]))
    keep = 1.0 - step / MEMORY
    for j in range(0, (K + 1) * W, LANES):
        store(model.moments, j, load(model.moments, j) * keep)
    model.fits[0] += 1
    model.patience[0] = 1 if is_used else min(MOST_PATIENCE, 2 * model.patience[0])
    model.wait[0] = step
