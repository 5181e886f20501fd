"""Kernel classifiers with a budget: the oldest support vector goes when a new one comes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from omkl.core.jit import dispatch, inlined
from omkl.core.kernel_sums import (
    CODES,
    POLYNOMIAL,
    add_distance,
    sum_of,
    value_of,
)
from omkl.core.representations.classifiers import add, project
from omkl.core.representations.expansion import support
from omkl.core.representations.perceptrons import SMALLEST_SCALE, inverse_norm, own_value

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Budgeted(NamedTuple):
    """N exact kernel classifiers with at most B support vectors each.

    x         (N, d, B) support vectors, inputs first; inverse (N, B) as above
    alpha     (N, B) signed coefficients; age (N, B) int64, round of each
    size      (N,) int64; scale, norm2 (N,)
    now       (d,) the row of the current round; rounds (1,) int64
    smallest  (1,) bool: drop the smallest coefficient rather than the oldest vector
    row       (4, B) room for distances
    """

    x: np.ndarray
    inverse: np.ndarray
    alpha: np.ndarray
    age: np.ndarray
    size: np.ndarray
    scale: np.ndarray
    norm2: np.ndarray
    now: np.ndarray
    rounds: np.ndarray
    smallest: np.ndarray
    row: np.ndarray
    family: np.ndarray
    parameter: np.ndarray
    needs: np.ndarray

    @property
    def n_kernels(self) -> int:
        return len(self.alpha)


class NoRoom(NamedTuple):
    """What ``Budgeted`` needs besides itself: nothing."""

    next: np.ndarray


def budgeted(kernels: Sequence[Kernel], d: int, budget: int, smallest: bool) -> Budgeted:
    """Classifiers that are 0 and will hold at most ``budget`` support vectors each."""
    N = len(kernels)
    like = support(kernels, 1, 1)
    return Budgeted(
        x=np.zeros((N, d, budget)),
        inverse=np.zeros((N, budget)),
        alpha=np.zeros((N, budget)),
        age=np.zeros((N, budget), dtype=np.int64),
        size=np.zeros(N, dtype=np.int64),
        scale=np.ones(N),
        norm2=np.zeros(N),
        now=np.zeros(d),
        rounds=np.zeros(1, dtype=np.int64),
        smallest=np.array([smallest]),
        row=np.zeros((len(CODES), budget)),
        family=like.family,
        parameter=like.parameter,
        needs=like.needs,
    )


@inlined
def _budgeted_sum(model, i, x, inverse):
    """f_i(x) of x (d,) with 1 / ||x|| = inverse."""
    n = model.size[i]
    row, family, parameter = model.row, model.family[i], model.parameter[i]
    add_distance(family, parameter, model.x[i], x, n, row)
    if family == POLYNOMIAL:
        for s in range(n):
            row[POLYNOMIAL, s] *= inverse * model.inverse[i, s]
    return model.scale[i] * sum_of(family, parameter, row[family], model.alpha[i], n)


@inlined
def budgeted_outputs(model, x, f):
    """f_i(x) (N,); x is kept for an update."""
    model.rounds[0] += 1
    for k in range(x.shape[0]):
        model.now[k] = x[k]
    inverse = inverse_norm(x)
    for i in range(f.shape[0]):
        f[i] = _budgeted_sum(model, i, x, inverse)


@inlined
def _dropped(model, i):
    """The place of the vector that goes: the oldest, or that of the smallest coefficient."""
    place = 0
    for s in range(1, model.size[i]):
        if model.smallest[0]:
            a, b = abs(model.alpha[i, s]), abs(model.alpha[i, place])
            if a < b or (a == b and model.age[i, s] < model.age[i, place]):
                place = s
        elif model.age[i, s] < model.age[i, place]:
            place = s
    return place


def _add_to_budgeted(model, i, c, f, buffers):
    now = model.now
    inverse = inverse_norm(now)
    # Added first: the dropped vector's part of the norm is that of the f_i that it leaves.
    model.norm2[i] += c * (2.0 * f + c * own_value(model, i, inverse))
    s = model.size[i]
    if s == model.alpha.shape[1]:
        s = _dropped(model, i)
        a = model.scale[i] * model.alpha[i, s]
        own = own_value(model, i, model.inverse[i, s])
        # f_i(x_s) with the new vector: <f_i, kappa(x_s, .)>.
        at_dropped = _value_at_support(model, i, s) + c * _between(model, i, s, now, inverse)
        model.norm2[i] = max(0.0, model.norm2[i] - a * (2.0 * at_dropped - a * own))
    else:
        model.size[i] += 1
    for k in range(now.shape[0]):
        model.x[i, k, s] = now[k]
    model.inverse[i, s] = inverse
    model.alpha[i, s] = c / model.scale[i]
    model.age[i, s] = model.rounds[0]


@inlined
def _value_at_support(model, i, s):
    """f_i at its own support vector s."""
    return _budgeted_sum(model, i, model.x[i, :, s], model.inverse[i, s])


@inlined
def _between(model, i, s, x, inverse):
    """kappa_i(x_s, x)."""
    family = model.family[i]
    u, v = (inverse, model.inverse[i, s]) if family == POLYNOMIAL else (1.0, 1.0)
    return value_of(family, model.parameter[i], x, model.x[i], s, u, v)


def _project_budgeted(model, i, R, buffers):
    if model.norm2[i] <= R * R:
        return
    model.scale[i] *= R / math.sqrt(model.norm2[i])
    model.norm2[i] = R * R
    if model.scale[i] < SMALLEST_SCALE:
        for s in range(model.size[i]):
            model.alpha[i, s] *= model.scale[i]
        model.scale[i] = 1.0


dispatch(add, Budgeted, _add_to_budgeted)

dispatch(project, Budgeted, _project_budgeted)
