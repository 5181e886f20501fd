"""Random features for learners that choose their kernels, a guess ahead of the choice.

The choice needs the last round, so the frequencies of what is chosen are read for one row. A kernel
that was chosen many times in a row is likely to be chosen again: its features are then evaluated
for eight rows, for which its frequencies are read once. A guess costs time where it is wrong and
changes no number: features do not depend on labels, and sums have the same order both ways.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from omkl.core.jit import dispatch, inlined
from omkl.core.representations import evaluate_row
from omkl.core.representations.waves import (
    descend,
    descend_and_say,
    say_at,
    say_row,
    waves_of_rows,
)
from omkl.core.simd import LANES, aligned, total
from omkl.core.trigonometry import Double, Single, empty_waves

if TYPE_CHECKING:
    from omkl.core.representations.random_features import RandomFeatures

STREAK = 8  # rounds in a row that a kernel was chosen in before it is guessed to be chosen again


class ChosenScratch(NamedTuple):
    """What a round writes to; W is D in whole packs.

    waves    sines and cosines, (9 N W,) each: eight rows of each kernel, for those that are
             guessed, and behind them one of each of the others, side by side in the order of
             evaluation: few are, and these places stay in the first cache
    start    (N,) int64: where the features of the evaluated kernel number m begin
    clock    (1,) int64: counts the rounds, and makes a jump where other rows begin
    seen     (N,) int64: when a kernel was chosen last; streak (N,) how many times in a row
    first    (N,) int64: the round of the first of its eight rows; one long past, for none
    said     (N,) the last output of a kernel that is guessed; said_for (N,) int64: of which round
    angle    (4 W,) arguments of four rows
    """

    waves: Double | Single
    start: np.ndarray
    clock: np.ndarray
    seen: np.ndarray
    streak: np.ndarray
    first: np.ndarray
    said: np.ndarray
    said_for: np.ndarray
    angle: np.ndarray


def scratch(model: RandomFeatures, precision: str) -> ChosenScratch:
    N, _, W = model.padded.shape
    zeros = np.zeros((5, N), dtype=np.int64)
    return ChosenScratch(
        waves=empty_waves(N * (LANES + 1) * W, precision),
        start=zeros[0],
        clock=np.zeros(1, dtype=np.int64),
        seen=zeros[1],
        streak=zeros[2],
        first=zeros[3],
        said=np.zeros(N),
        said_for=zeros[4],
        angle=aligned((4 * W,)),
    )


@inlined
def is_guessed(scratch, i, now):
    """Count that kernel i is chosen in the round ``now``; whether it is likely to be in the next.

    Rounds are those of ``clock``.
    """
    scratch.streak[i] = scratch.streak[i] + 1 if scratch.seen[i] == now - 1 else 0
    scratch.seen[i] = now
    return scratch.streak[i] >= STREAK


@inlined
def begin_eight(model, i, X, row, scratch, now):
    """Features of kernel i at X[row] .. X[row + 7]."""
    W = model.padded.shape[2]
    waves_of_rows(model, i, X, row, scratch.angle, scratch.waves, LANES * W * i)
    scratch.first[i] = now


def _evaluate(scratch, model, X, row, selection):
    D = model.n_waves[0]
    N, _, W = model.padded.shape
    scratch.clock[0] += 1 if row > 0 else 1 + LANES
    now = scratch.clock[0]
    for m in range(selection.n_evaluated[0]):
        i = selection.evaluate[m]
        guessed = is_guessed(scratch, i, now)
        if now - scratch.first[i] >= LANES and guessed and row + LANES <= X.shape[0]:
            begin_eight(model, i, X, row, scratch, now)
        ahead = now - scratch.first[i]
        if ahead < LANES:
            z = (LANES * i + ahead) * W
            if scratch.said_for[i] != now:
                said = total(say_at(model, i, scratch.waves, z))
                scratch.said[i] = said * (1.0 / math.sqrt(D))
            selection.f[i] = scratch.said[i]
        else:
            z = (LANES * N + m) * W
            selection.f[i] = say_row(model, i, X, row, scratch.angle, scratch.waves, z)
        scratch.start[m] = z


def take_step(scratch, model, i, m, step, shrink):
    """And say what the kernel says of the next row, where its features are there already."""
    z = scratch.start[m]
    now = scratch.clock[0]
    if now + 1 - scratch.first[i] < LANES:
        after = z + model.padded.shape[2]
        scratch.said[i] = descend_and_say(model, i, scratch.waves, z, after, step, shrink)
        scratch.said_for[i] = now + 1
    else:
        descend(model, i, scratch.waves, z, step, shrink)


dispatch(evaluate_row, ChosenScratch, _evaluate)
