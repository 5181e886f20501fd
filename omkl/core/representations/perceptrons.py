"""Kernel classifiers: N signed expansions, each over the rows that it was updated with.

    f_i(x) = scale_i * sum over the support S_i of alpha[i, s] kappa_i(x, x_s)

Most rounds update no classifier or few, so every classifier has a support of its
own and the rows are kept once for all of them. Kernels are normalised, kappa(x, x')
/ sqrt(kappa(x, x) kappa(x', x')): so kappa(x, x) = 1, but for a polynomial at x = 0,
where it is 0. Gaussian and Laplacian kernels are so already; a polynomial becomes the
power of a cosine.

Three representations have the same two operations, ``add`` (f_i <- f_i + c kappa_i(x_t, .))
and ``project`` (onto ||f_i|| <= R), so an algorithm is written once for all of them:

Perceptrons       exact; the support grows
Budgeted          exact, but at most ``budget`` support vectors a classifier
RandomFeatures    of ``random_features``; no support at all

A projection scales one number. As in ``expansion``, sums over the rows that were
held when a tile of rounds began are computed ahead, many rounds at a time and on
several threads. Tiles are aligned to the round, so neither blocks nor threads change a bit.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from omkl.core.jit import compiled, dot, implement, part, power_of_two
from omkl.core.representations.expansion import (
    CAUCHY,
    CODES,
    GAUSSIAN,
    LAPLACIAN,
    POLYNOMIAL,
    TILE,
    add_distance,
    add_distances,
    cauchy_values,
    gathered_sum_of,
    sum_of,
    support,
)
from omkl.core.representations.random_features import RandomFeatures, gradient_step
from omkl.core.weights import exp_nonpositive

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel

CHUNK = 2048  # rows whose distances are held at a time; a support has only some of them
SMALLEST_SCALE = 1e-100  # below it a scale is moved into the coefficients


class Perceptrons(NamedTuple):
    """N exact kernel classifiers on d inputs.

    x        (d, capacity) rows that updated a classifier, inputs first; column n is the
             row of the current round
    inverse  (capacity,) 1 / ||x_s||, 0 for x_s = 0
    members  (N, capacity) int64, the supports: ascending columns of x
    alpha    (N, capacity) signed coefficients
    size     (N,) int64, support vectors; near (N,) int64, those when this tile began
    scale    (N,) factor of all coefficients; norm2 (N,) ||f_i||^2
    n        (1,) int64, rows held; upto (1,) int64, those when this tile began
    pending  (1,) int64, 1 when column n has updated a classifier
    seen     (1,) int64, rounds
    family, parameter, needs   as in ``expansion.Support``
    """

    x: np.ndarray
    inverse: np.ndarray
    members: np.ndarray
    alpha: np.ndarray
    size: np.ndarray
    near: np.ndarray
    scale: np.ndarray
    norm2: np.ndarray
    n: np.ndarray
    upto: np.ndarray
    pending: np.ndarray
    seen: np.ndarray
    family: np.ndarray
    parameter: np.ndarray
    needs: np.ndarray

    @property
    def n_kernels(self) -> int:
        return len(self.alpha)


class Scores(NamedTuple):
    """Room for one tile of rounds.

    far   (TILE, N) sums over the rows that were held when the tile began, without scale
    rows  (threads, 4, CHUNK) squared and absolute distances, cosines; of one Cauchy kernel its
          values
    cut   (threads, N, 2) int64, the part of each support that lies in a chunk
    next  (1,) int64, the row of ``far`` that the next round needs
    """

    far: np.ndarray
    rows: np.ndarray
    cut: np.ndarray
    next: np.ndarray


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


def perceptrons(kernels: Sequence[Kernel], d: int, capacity: int = TILE) -> Perceptrons:
    """Classifiers that are 0, with room for ``capacity`` rows; ValueError for a family it lacks."""
    N = len(kernels)
    like = support(kernels, d, capacity)
    capacity = like.x.shape[1]
    return Perceptrons(
        x=like.x,
        inverse=np.zeros(capacity),
        members=np.zeros((N, capacity), dtype=np.int64),
        alpha=like.alpha,
        size=np.zeros(N, dtype=np.int64),
        near=np.zeros(N, dtype=np.int64),
        scale=np.ones(N),
        norm2=np.zeros(N),
        n=np.zeros(1, dtype=np.int64),
        upto=np.zeros(1, dtype=np.int64),
        pending=np.zeros(1, dtype=np.int64),
        seen=np.zeros(1, dtype=np.int64),
        family=like.family,
        parameter=like.parameter,
        needs=like.needs,
    )


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


def scores(model: Perceptrons, n_threads: int) -> Scores:
    """Empty room for the sums of a model's rounds."""
    N = model.n_kernels
    return Scores(
        far=np.zeros((TILE, N)),
        rows=np.zeros((n_threads, len(CODES), CHUNK)),
        cut=np.zeros((n_threads, N, 2), dtype=np.int64),
        next=np.zeros(1, dtype=np.int64),
    )


def with_room(model: Perceptrons, n_rows: int) -> Perceptrons:
    """The same classifiers with room for ``n_rows`` more rows; grows by doubling."""
    capacity = model.x.shape[1]
    needed = int(model.n[0]) + 1 + n_rows  # the current round's column as well
    if needed <= capacity:
        return model
    more = max(needed, 2 * capacity) - capacity

    def wider(array: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, more)]))

    grown = {name: wider(getattr(model, name)) for name in ("x", "inverse", "members", "alpha")}
    return model._replace(**grown)


# --- sums -----------------------------------------------------------------------------------------


@part
def _inverse_norm(x):
    norm2 = dot(x, x)
    return 1.0 / math.sqrt(norm2) if norm2 > 0.0 else 0.0


@part
def _first_at_least(index, size, column):
    """How many of the ascending index[:size] lie below ``column``."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        if index[middle] < column:
            low = middle + 1
        else:
            high = middle
    return low


@part
def _row_of_distances(model, x, inverse, start, n, row):
    """Distances and cosines of x (d,), of norm 1 / inverse, to the rows start .. start + n."""
    add_distances(model, model.x, x, start, n, row)
    if model.needs[POLYNOMIAL]:
        for s in range(n):
            row[POLYNOMIAL, s] *= inverse * model.inverse[start + s]


@part
def _sum_at(model, i, first, last, x, start, row):
    """The sum of x over entries first .. last of support i; row begins at column ``start``."""
    n = last - first
    if n == 0:
        return 0.0
    members, alpha = model.members[i, first:last], model.alpha[i, first:last]
    family, parameter = model.family[i], model.parameter[i]
    low, held = members[0] - start, members[n - 1] - members[0] + 1
    if family == CAUCHY:
        cauchy_values(parameter, x, model.x, members[0], held, row[CAUCHY, low:])
    values = row[family]
    if held == n:  # they ascend: no row between them is missing
        return sum_of(family, parameter, values[low:], alpha, n)
    return gathered_sum_of(family, parameter, values, members, start, alpha, n)


@compiled
def far_sums(model, X, first, last, far, row, cut):
    """far[r] (N,) = the sums of row X[r] over the rows before the tile, for r in first .. last."""
    N = far.shape[1]
    upto = model.upto[0]
    for r in range(first, last):
        for i in range(N):
            far[r, i] = 0.0
    for start in range(0, upto, CHUNK):
        n = min(CHUNK, upto - start)
        for i in range(N):
            cut[i, 0] = _first_at_least(model.members[i], model.near[i], start)
            cut[i, 1] = _first_at_least(model.members[i], model.near[i], start + n)
        for r in range(first, last):
            _row_of_distances(model, X[r], _inverse_norm(X[r]), start, n, row)
            for i in range(N):
                if cut[i, 1] > cut[i, 0]:
                    far[r, i] += _sum_at(model, i, cut[i, 0], cut[i, 1], X[r], start, row)


@part
def outputs(model, x, buffers, f):
    """f_i(x) (N,) of the next round; x waits for an update in the first free column."""
    _commit(model)
    n, upto = model.n[0], model.upto[0]
    inverse = _inverse_norm(x)
    model.inverse[n] = inverse
    for k in range(x.shape[0]):
        model.x[k, n] = x[k]
    row = buffers.rows[0]
    if n > upto:
        _row_of_distances(model, x, inverse, upto, n - upto, row)
    for i in range(f.shape[0]):
        total = buffers.far[buffers.next[0], i]
        if model.size[i] > model.near[i]:
            total += _sum_at(model, i, model.near[i], model.size[i], x, upto, row)
        f[i] = model.scale[i] * total
    buffers.next[0] += 1
    model.seen[0] += 1


@part
def _commit(model):
    """The row of the last round stays if it has updated a classifier."""
    model.n[0] += model.pending[0]
    model.pending[0] = 0


def ahead(
    model: Perceptrons, buffers: Scores, X: np.ndarray, pool: ThreadPoolExecutor | None
) -> None:
    """Compute the far sums of the rows X (n, d), which must fit into the current tile."""
    if model.seen[0] % TILE == 0:
        _commit(model)
        model.upto[0] = model.n[0]
        model.near[:] = model.size
    buffers.next[0] = 0
    n_parts = min(len(buffers.rows), len(X)) if pool and model.upto[0] else 1
    edges = np.linspace(0, len(X), n_parts + 1).astype(int)

    def task(k: int) -> None:
        far_sums(model, X, edges[k], edges[k + 1], buffers.far, buffers.rows[k], buffers.cut[k])

    if pool and n_parts > 1:
        list(pool.map(task, range(n_parts)))
    else:
        task(0)


def rows_of_tile(model: Perceptrons) -> int:
    """How many rows fit into the current tile."""
    return TILE - int(model.seen[0]) % TILE


# --- what an algorithm does ---------------------------------------------------------------------


@part
def vote(log_w, f):
    """q . sign(f) with weights q that sum to 1 and are proportional to exp(log_w); sign(0) = 0."""
    top = log_w[0]
    for i in range(1, log_w.shape[0]):
        top = max(top, log_w[i])
    total, score = 0.0, 0.0
    for i in range(log_w.shape[0]):
        w = exp_nonpositive(log_w[i] - top)
        total += w
        if f[i] > 0.0:
            score += w
        elif f[i] < 0.0:
            score -= w
    return score / total


@functools.singledispatch
def add(model, i, c, f, buffers):
    """f_i <- f_i + c kappa_i(x_t, .), where f = f_i(x_t) before."""
    raise TypeError(f"no representation is registered for {type(model)}")


@functools.singledispatch
def project(model, i, R, buffers):
    """f_i <- f_i / max(1, ||f_i|| / R)."""
    raise TypeError(f"no representation is registered for {type(model)}")


@part
def _own(model, i, inverse):
    """kappa_i(x, x) of a normalised kernel."""
    return 0.0 if model.family[i] == POLYNOMIAL and inverse == 0.0 else 1.0


def _add_to_perceptron(model, i, c, f, buffers):
    n, s = model.n[0], model.size[i]
    model.members[i, s] = n
    model.alpha[i, s] = c / model.scale[i]
    model.size[i] += 1
    model.pending[0] = 1
    model.norm2[i] += c * (2.0 * f + c * _own(model, i, model.inverse[n]))


def _project_perceptron(model, i, R, buffers):
    if model.norm2[i] <= R * R:
        return
    model.scale[i] *= R / math.sqrt(model.norm2[i])
    model.norm2[i] = R * R
    if model.scale[i] < SMALLEST_SCALE:
        # By a power of two: the sums taken ahead then keep every bit.
        factor = power_of_two(np.floor(math.log2(model.scale[i])))
        model.scale[i] /= factor
        for s in range(model.size[i]):
            model.alpha[i, s] *= factor
        for r in range(buffers.next[0], buffers.far.shape[0]):
            buffers.far[r, i] *= factor


def _add_to_features(model, i, c, f, buffers):
    gradient_step(model, i, i, buffers, -c, 1.0)


def _project_features(model, i, R, buffers):
    if model.norm2[i] > R * R:
        gradient_step(model, i, i, buffers, 0.0, R / math.sqrt(model.norm2[i]))


# --- with a budget ------------------------------------------------------------------------------


@part
def _budgeted_sum(model, i, x, inverse):
    """f_i(x) of x (d,) with 1 / ||x|| = inverse."""
    n = model.size[i]
    row, family, parameter = model.row, model.family[i], model.parameter[i]
    add_distance(family, parameter, model.x[i], x, n, row)
    if family == POLYNOMIAL:
        for s in range(n):
            row[POLYNOMIAL, s] *= inverse * model.inverse[i, s]
    return model.scale[i] * sum_of(family, parameter, row[family], model.alpha[i], n)


@part
def budgeted_outputs(model, x, f):
    """f_i(x) (N,); x is kept for an update."""
    model.rounds[0] += 1
    for k in range(x.shape[0]):
        model.now[k] = x[k]
    inverse = _inverse_norm(x)
    for i in range(f.shape[0]):
        f[i] = _budgeted_sum(model, i, x, inverse)


@part
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
    inverse = _inverse_norm(now)
    # Added first: the dropped vector's part of the norm is that of the f_i that it leaves.
    model.norm2[i] += c * (2.0 * f + c * _own(model, i, inverse))
    s = model.size[i]
    if s == model.alpha.shape[1]:
        s = _dropped(model, i)
        a = model.scale[i] * model.alpha[i, s]
        own = _own(model, i, model.inverse[i, s])
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


@part
def _value_at_support(model, i, s):
    """f_i at its own support vector s."""
    return _budgeted_sum(model, i, model.x[i, :, s], model.inverse[i, s])


@part
def _between(model, i, s, x, inverse):
    """kappa_i(x_s, x)."""
    total, product = 0.0, 1.0
    family, parameter = model.family[i], model.parameter[i]
    for k in range(x.shape[0]):
        a, b = model.x[i, k, s], x[k]
        if family == GAUSSIAN:
            total += (a - b) * (a - b)
        elif family == LAPLACIAN:
            total += abs(a - b)
        elif family == POLYNOMIAL:
            total += a * b
        else:
            product *= 1.0 + ((a - b) * parameter) ** 2
    if family == POLYNOMIAL:
        return (total * inverse * model.inverse[i, s]) ** int(parameter)
    if family == CAUCHY:
        return 1.0 / product
    return exp_nonpositive(parameter * total)


def _project_budgeted(model, i, R, buffers):
    if model.norm2[i] <= R * R:
        return
    model.scale[i] *= R / math.sqrt(model.norm2[i])
    model.norm2[i] = R * R
    if model.scale[i] < SMALLEST_SCALE:
        for s in range(model.size[i]):
            model.alpha[i, s] *= model.scale[i]
        model.scale[i] = 1.0


implement(add, Perceptrons, _add_to_perceptron)
implement(add, RandomFeatures, _add_to_features)
implement(add, Budgeted, _add_to_budgeted)
implement(project, Perceptrons, _project_perceptron)
implement(project, RandomFeatures, _project_features)
implement(project, Budgeted, _project_budgeted)
