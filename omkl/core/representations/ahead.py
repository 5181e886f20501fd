"""Outputs ahead of their rounds, for learners that evaluate every kernel and wait for each other.

Features are those of ``random_features``, of eight rows at a time. An output is known as soon as
the features and the last step of its kernel are, and is taken then, while both are near the
processor: for all rows of the tile where kernels seldom learn, for the next row with each step.
Sums have the order that they have one by one, so the numbers are the same, to the bit.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from omkl.core.jit import dispatch, inlined
from omkl.core.representations import evaluate_row
from omkl.core.representations.waves import (
    descend_and_say,
    say_at,
    say_row,
    waves_of_rows,
)
from omkl.core.simd import LANES, aligned, store, total, totals
from omkl.core.trigonometry import Double, Single, empty_waves

if TYPE_CHECKING:
    from omkl.core.representations.random_features import RandomFeatures


class AheadScratch(NamedTuple):
    """What a tile of eight rows writes to; W is D in whole packs.

    waves    sines and cosines, (N 8 W,) each: kernel by kernel, row by row
    place    (2,) int64: the features of kernel i begin at i place[0] + place[1], so these are 8 W
             and the present row's part of that
    said     (N, 8) outputs for the rows of the tile
    known    (N,) int64: of how many of its rows, from the first one on
    n_rows   (1,) int64: how many there are
    n_steps  (1,) int64: steps that kernels have taken since the tile was begun
    angle    (4 W,) arguments of four rows
    """

    waves: Double | Single
    place: np.ndarray
    said: np.ndarray
    known: np.ndarray
    n_rows: np.ndarray
    n_steps: np.ndarray
    angle: np.ndarray


def scratch(model: RandomFeatures, precision: str) -> AheadScratch:
    N, _, W = model.padded.shape
    return AheadScratch(
        waves=empty_waves(N * LANES * W, precision),
        place=np.array([LANES * W, 0]),
        said=aligned((N, LANES)),
        known=np.zeros(N, dtype=np.int64),
        n_rows=np.zeros(1, dtype=np.int64),
        n_steps=np.zeros(1, dtype=np.int64),
        angle=aligned((4 * W,)),
    )


def take_step_and_say(scratch, model, i, m, step, shrink):
    """And say what the kernel says of the next row, while its coefficients are at hand."""
    W = model.padded.shape[2]
    z = m * scratch.place[0] + scratch.place[1]
    r = scratch.place[1] // W + 1
    after = z + W if r < scratch.n_rows[0] else z
    said = descend_and_say(model, i, scratch.waves, z, after, step, shrink)
    scratch.known[i] = r
    scratch.n_steps[0] += 1
    if r < scratch.n_rows[0]:
        scratch.said[i, r] = said
        scratch.known[i] = r + 1


@inlined
def _say_eight(model, i, scratch):
    """What kernel i says of all eight rows of the tile."""
    D = model.n_waves[0]
    W = model.padded.shape[2]
    waves = scratch.waves
    z = LANES * W * i
    eight = totals(
        say_at(model, i, waves, z),
        say_at(model, i, waves, z + W),
        say_at(model, i, waves, z + 2 * W),
        say_at(model, i, waves, z + 3 * W),
        say_at(model, i, waves, z + 4 * W),
        say_at(model, i, waves, z + 5 * W),
        say_at(model, i, waves, z + 6 * W),
        say_at(model, i, waves, z + 7 * W),
    )
    store(scratch.said, i * LANES, eight * (1.0 / math.sqrt(D)))
    scratch.known[i] = LANES


@inlined
def begin_tile(model, X, row, scratch):
    """Features of the next eight rows from X[row] on, X (rows, d), or of one if there are less."""
    N, _, W = model.padded.shape
    D = model.n_waves[0]
    scratch.place[1] = 0
    if row + LANES > X.shape[0]:
        scratch.n_rows[0] = 1
        for i in range(N):
            z = LANES * W * i
            scratch.said[i, 0] = say_row(model, i, X, row, scratch.angle, scratch.waves, z)
            scratch.known[i] = 1
        return
    # Where most kernels learn in most rounds, what they say of later rows would not last.
    many = 2 * scratch.n_steps[0] > N * scratch.n_rows[0]
    scratch.n_rows[0] = LANES
    scratch.n_steps[0] = 0
    for i in range(N):
        z = LANES * W * i
        waves_of_rows(model, i, X, row, scratch.angle, scratch.waves, z)
        if many:
            said = total(say_at(model, i, scratch.waves, z))
            scratch.said[i, 0] = said * (1.0 / math.sqrt(D))
            scratch.known[i] = 1
        else:
            _say_eight(model, i, scratch)


def _evaluate(scratch, model, X, row, selection):
    D = model.n_waves[0]
    W = model.padded.shape[2]
    r = scratch.place[1] // W + 1
    if row > 0 and r < scratch.n_rows[0]:
        scratch.place[1] += W
    else:
        begin_tile(model, X, row, scratch)
        r = 0
    for i in range(selection.f.shape[0]):
        if r >= scratch.known[i]:
            z = i * scratch.place[0] + scratch.place[1]
            said = total(say_at(model, i, scratch.waves, z))
            scratch.said[i, r] = said * (1.0 / math.sqrt(D))
        selection.f[i] = scratch.said[i, r]


dispatch(evaluate_row, AheadScratch, _evaluate)
