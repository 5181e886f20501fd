"""The nearest of the last rows: what their labels were, and how far another learner was off there.

Distances are Euclidean, between rows as they were standardised when they came. A neighbour counts
1 / (q / d + CLOSE)^2, where q is its squared distance in d inputs: rows that come again count most.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from omkl.core.hyperparameters import ROUNDS
from omkl.core.jit import inlined
from omkl.core.simd import LANES, aligned, fma, largest, load, pack, store

KEPT = 1000  # rows, of which 500 do nearly as well; a multiple of LANES
NEAREST = 10  # 5 to 20 give errors within 1 %
CLOSE = 1e-3


class Neighbours(NamedTuple):
    """The last KEPT rows; row number t of all, counted from 0, is in place t mod KEPT.

    rows    (d, KEPT)
    labels  (KEPT,)
    errors  (KEPT,) by how much a label was above what the other learner said
    n       (1,) int64, how many rows there have been
    """

    rows: np.ndarray
    labels: np.ndarray
    errors: np.ndarray
    n: ROUNDS


class Scratch(NamedTuple):
    """What a round writes to.

    distance (KEPT,) squared; nearest (NEAREST,) places, the nearest first
    mean (2,) of the neighbours' labels, and of the errors there; 0 before the first row
    """

    distance: np.ndarray
    nearest: np.ndarray
    mean: np.ndarray


def fresh(d: int) -> Neighbours:
    n = np.zeros(1, dtype=np.int64)
    return Neighbours(aligned((d, KEPT)), np.zeros(KEPT), np.zeros(KEPT), n)


def scratch() -> Scratch:
    return Scratch(aligned((KEPT,)), np.zeros(NEAREST, dtype=np.int64), np.zeros(2))


@inlined
def _measure(scratch, model, x, n):
    """Write the squared distances of the first n places from x (d,), the first d of its numbers."""
    for j in range(0, n, LANES):
        total = pack(0.0)
        for k in range(model.rows.shape[0]):
            off = load(model.rows, k * KEPT + j) - pack(x[k])
            total = fma(off, off, total)
        store(scratch.distance, j, total)


@inlined
def _find(scratch, n):
    """Write the places of the nearest of n into ``nearest``; return how many. Of ties, the first.

    They are kept in order: a place moves those farther off back by one.
    """
    distance, nearest = scratch.distance, scratch.nearest
    found = 0
    farthest = np.inf  # of those found, once there are enough
    for first in range(0, n, LANES):
        if found == NEAREST and largest(load(distance, first) * -1.0) <= -farthest:
            continue  # none of the eight is nearer
        for j in range(first, min(first + LANES, n)):
            if found < NEAREST or distance[j] < farthest:
                found = min(found + 1, NEAREST)
                m = found - 1
                while m > 0 and distance[nearest[m - 1]] > distance[j]:
                    nearest[m] = nearest[m - 1]
                    m -= 1
                nearest[m] = j
                if found == NEAREST:
                    farthest = distance[nearest[NEAREST - 1]]
    return found


@inlined
def evaluate(scratch, model, x):
    """Write the means of the neighbours of x into scratch.mean."""
    n = min(model.n[0], KEPT)
    _measure(scratch, model, x, n)
    scratch.mean[:] = 0.0
    whole = 0.0
    for m in range(_find(scratch, n)):
        j = scratch.nearest[m]
        w = 1.0 / (scratch.distance[j] / model.rows.shape[0] + CLOSE) ** 2
        whole += w
        scratch.mean[0] += w * model.labels[j]
        scratch.mean[1] += w * model.errors[j]
    if whole > 0.0:
        scratch.mean[0] /= whole
        scratch.mean[1] /= whole


@inlined
def learn(model, x, label, error):
    """Keep the row x, its label and error in place of the oldest one."""
    j = model.n[0] % KEPT
    for k in range(model.rows.shape[0]):
        model.rows[k, j] = x[k]
    model.labels[j] = label
    model.errors[j] = error
    model.n[0] += 1
