"""Kernel classifiers: N signed expansions, each over the rows that updated it (its support).

    f_i(x) = scale_i * sum over the support S_i of alpha[i, s] kappa_i(x, x_s)

Most rounds update few classifiers or none. So every classifier has its own support, and rows are
stored once for all of them. Kernels are normalised: kappa(x, x') / sqrt(kappa(x, x) kappa(x', x')).
Then kappa(x, x) = 1, except for a polynomial kernel at x = 0, where it is 0. Shift-invariant
kernels are already normalised. A polynomial kernel becomes a power of the cosine of the angle.

An algorithm uses two operations: ``add`` (f_i <- f_i + c kappa_i(x_t, .)) and ``project`` (onto
||f_i|| <= R, by changing scale_i). Two representations have them, so an algorithm is written once:

Perceptrons       exact kernels; the supports grow
RandomFeatures    of ``random_features``; no supports

As in ``support_vectors``, rounds form tiles. The sums over the rows from before a tile are computed
for many rounds at a time and on several threads. Tiles begin at rounds with fixed numbers, so
results do not depend on blocks or threads, to the last bit.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from omkl.core.compiler import compiled, dispatch, dot, inlined, power_of_two
from omkl.core.hyperparameters import ROUNDS, SWITCH, Range
from omkl.core.representations import Lookahead, Representation, evaluate_row
from omkl.core.representations.random_features import RandomFeatures, gradient_step
from omkl.core.representations.support_vectors import (
    CODES,
    POLYNOMIAL,
    TILE,
    add_distances,
    add_values,
    check_kernels,
    empty_expansion,
    gathered_sum_of,
    in_parts,
    sum_of,
)
from omkl.core.simd import LANES, at_least, clip, fma, load, pack, total
from omkl.core.weights import exp_nonpositive, exp_of_pack, largest_of, n_less

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


# --- Operations on classifiers: vote, add, project ------------------------------------------------


TIE = 1e-12  # smaller votes count as 0; the rounding error of a sum of N products is below N 2^-52


@inlined
def _positive(x):
    """Return 1 for each positive element of a pack, else 0.

    Elements are multiplied by 2^1100 and clipped to [0, 1]. The least positive float, 2^-1074,
    then becomes 1 too.
    """
    return clip(at_least(x, 0.0) * 2.0**1000 * 2.0**100, 1.0)


@inlined
def vote(log_w, f):
    """Return q . sign(f) with weights q of sum 1, proportional to exp(log_w); sign(0) is 0.

    A result of at most ``TIE`` in size becomes 0. If both signs have equal weight, its sign would
    otherwise depend on rounding.
    """
    N = log_w.shape[0]
    top = largest_of(log_w)
    weights = pack(0.0)
    scores = pack(0.0)
    j = 0
    while j + LANES <= N:
        w = exp_of_pack(load(log_w, j) - top)
        output = load(f, j)
        weights = weights + w
        scores = fma(w, _positive(output) - _positive(output * -1.0), scores)
        j += LANES
    total_w, score = total(weights), total(scores)
    for i in range(j, N):
        w_i = exp_nonpositive(log_w[i] - top)
        total_w += w_i
        if f[i] > 0.0:
            score += w_i
        elif f[i] < 0.0:
            score -= w_i
    return score / total_w if abs(score) > TIE * total_w else 0.0


@functools.singledispatch
def add(model, i, c, f, scratch):
    """Update f_i <- f_i + c kappa_i(x_t, .), where x_t is the evaluated row.

    Parameters
    ----------
    model
        Classifiers, updated in place.
    i
        Classifier.
    c
        Coefficient.
    f
        f_i(x_t) before the update.
    scratch
        Scratch, with the numbers that the evaluation of the row wrote.
    """
    raise TypeError(f"no representation is registered for {type(model)}")


@functools.singledispatch
def project(model, i, R, scratch):
    """Update f_i <- f_i / max(1, ||f_i|| / R).

    Parameters
    ----------
    model
        Classifiers, updated in place.
    i
        Classifier.
    R
        Largest norm, > 0.
    scratch
        Scratch, with the numbers that the evaluation of the row wrote.
    """
    raise TypeError(f"no representation is registered for {type(model)}")


def _add_to_features(model, i, c, f, scratch):
    gradient_step(model, i, i, scratch, -c, 1.0)


def _project_features(model, i, R, scratch):
    if model.norm2[i] > R * R:
        gradient_step(model, i, i, scratch, 0.0, R / math.sqrt(model.norm2[i]))


dispatch(add, RandomFeatures, _add_to_features)

dispatch(project, RandomFeatures, _project_features)


# --- Exact classifiers whose support grows --------------------------------------------------------


CHUNK = 2048  # stored rows whose distances are computed at once
SMALLEST_SCALE = 1e-100  # a smaller scale_i is moved into the coefficients before it underflows


class Perceptrons(NamedTuple):
    """N exact kernel classifiers on d inputs.

    x        (d, capacity) rows that updated a classifier, one per column; column n is the row of
             the current round
    inverse  (capacity,) 1 / ||x_s||, 0 for x_s = 0
    members  (N, capacity) int64, supports: ascending columns of x
    alpha    (N, capacity) signed coefficients
    size     (N,) int64, number of support vectors
    near     (N,) int64, number of support vectors from before the current tile
    scale    (N,) factor of all coefficients
    norm2    (N,) ||f_i||^2
    n        (1,) int64, number of stored rows
    upto     (1,) int64, number of stored rows from before the current tile
    pending  (1,) int64, 1 if column n has updated a classifier
    rounds   (1,) int64, rounds so far
    family, parameter, needs   as in ``support_vectors.Expansion``
    """

    x: np.ndarray
    inverse: np.ndarray
    members: Annotated[np.ndarray, Range(0, "x.1", open_high=True)]
    alpha: np.ndarray
    size: Annotated[np.ndarray, Range(0, "n + pending")]
    near: Annotated[np.ndarray, Range(0, "n")]
    scale: np.ndarray
    norm2: np.ndarray
    n: Annotated[np.ndarray, Range(0, "x.1", open_high=True)]
    upto: Annotated[np.ndarray, Range(0, "n")]
    pending: SWITCH
    rounds: ROUNDS
    family: np.ndarray
    parameter: np.ndarray
    needs: np.ndarray

    @property
    def n_kernels(self) -> int:
        return len(self.alpha)


class PerceptronsScratch(NamedTuple):
    """Scratch of the rounds of a tile.

    far   (TILE, N) sums over the rows from before the tile, without the factor ``scale``
    rows  (threads, 4, CHUNK) numbers for one chunk of stored rows: squared distances, absolute
          distances, cosines, and values of one Cauchy kernel
    cut   (threads, N, 2) int64, range of the members of each support that lie in a chunk
    next  (1,) int64, row of ``far`` for the next round
    """

    far: np.ndarray
    rows: np.ndarray
    cut: np.ndarray
    next: np.ndarray


def _fresh_perceptrons(
    params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int
) -> Perceptrons:
    N = len(kernels)
    like = empty_expansion(kernels, d)
    return Perceptrons(
        x=like.x,
        inverse=np.zeros(TILE),
        members=np.zeros((N, TILE), dtype=np.int64),
        alpha=like.alpha,
        size=np.zeros(N, dtype=np.int64),
        near=np.zeros(N, dtype=np.int64),
        scale=np.ones(N),
        norm2=np.zeros(N),
        n=np.zeros(1, dtype=np.int64),
        upto=np.zeros(1, dtype=np.int64),
        pending=np.zeros(1, dtype=np.int64),
        rounds=np.zeros(1, dtype=np.int64),
        family=like.family,
        parameter=like.parameter,
        needs=like.needs,
    )


def with_more_capacity(model: Perceptrons, n_rows: int) -> Perceptrons:
    """Return the classifiers in arrays with room for ``n_rows`` more rows.

    Arrays that grow become at least twice as long.
    """
    capacity = model.x.shape[1]
    needed = int(model.n[0]) + 1 + n_rows  # the current round's column as well
    if needed <= capacity:
        return model
    more = max(needed, 2 * capacity) - capacity

    def wider(array: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, more)]))

    grown = {name: wider(getattr(model, name)) for name in ("x", "inverse", "members", "alpha")}
    return model._replace(**grown)


@inlined
def inverse_norm(x):
    """Return 1 / ||x|| of x (d,); 0 for x = 0."""
    norm2 = dot(x, x)
    return 1.0 / math.sqrt(norm2) if norm2 > 0.0 else 0.0


@inlined
def _row_of_distances(model, x, inverse, start, n, row):
    """Write the distances and cosines between x (d,) and n stored rows to row (4, CHUNK)."""
    add_distances(model, model.x, x, start, n, row)
    if model.needs[POLYNOMIAL]:
        for s in range(n):
            row[POLYNOMIAL, s] *= inverse * model.inverse[start + s]


@inlined
def _sum_at(model, i, first, last, x, start, row):
    """Return the sum of alpha kappa at x (d,) over the members first .. last - 1 of support i.

    ``row`` has the distances of the stored rows from ``start`` on.
    """
    n = last - first
    if n == 0:
        return 0.0
    members, alpha = model.members[i, first:last], model.alpha[i, first:last]
    family, parameter = model.family[i], model.parameter[i]
    low, n_spanned = members[0] - start, members[n - 1] - members[0] + 1
    values = row[family]
    add_values(family, parameter, model.x, x, members[0], n_spanned, values[low:])
    if n_spanned == n:  # the members are consecutive rows
        return sum_of(family, parameter, values[low:], alpha, n)
    return gathered_sum_of(family, parameter, values, members, start, alpha, n)


@compiled
def far_sums(model, X, first, last, far, row, cut):
    """Write far[r] (N,): sums of kernels at row X[r] over the support vectors of earlier tiles.

    Parameters
    ----------
    model
        Classifiers.
    X
        Rows (n, d).
    first, last
        Rows first .. last - 1 are computed.
    far
        Output (TILE, N).
    row, cut
        Scratch of a thread.
    """
    N = far.shape[1]
    upto = model.upto[0]
    for r in range(first, last):
        for i in range(N):
            far[r, i] = 0.0
    for start in range(0, upto, CHUNK):
        n = min(CHUNK, upto - start)
        for i in range(N):
            cut[i, 0] = n_less(model.members[i], model.near[i], start)
            cut[i, 1] = n_less(model.members[i], model.near[i], start + n)
        for r in range(first, last):
            _row_of_distances(model, X[r], inverse_norm(X[r]), start, n, row)
            for i in range(N):
                if cut[i, 1] > cut[i, 0]:
                    far[r, i] += _sum_at(model, i, cut[i, 0], cut[i, 1], X[r], start, row)


@inlined
def _commit(model):
    """Keep the row of the previous round, x[:, n], if it has updated a classifier."""
    model.n[0] += model.pending[0]
    model.pending[0] = 0


def _evaluate_perceptrons(scratch, model, X, row, selection):
    """Write the outputs of all classifiers at X[row].

    Also store the row in the first free column of ``model.x``. ``_commit`` keeps it if it updates a
    classifier.

    Parameters
    ----------
    scratch, model, X, row, selection
        As in ``evaluate_row``.
    """
    _commit(model)
    n, upto, x, f = model.n[0], model.upto[0], X[row], selection.f
    inverse = inverse_norm(x)
    model.inverse[n] = inverse
    for k in range(x.shape[0]):
        model.x[k, n] = x[k]
    distances = scratch.rows[0]
    if n > upto:
        _row_of_distances(model, x, inverse, upto, n - upto, distances)
    for i in range(f.shape[0]):
        total = scratch.far[scratch.next[0], i]
        if model.size[i] > model.near[i]:
            total += _sum_at(model, i, model.near[i], model.size[i], x, upto, distances)
        f[i] = model.scale[i] * total
    scratch.next[0] += 1
    model.rounds[0] += 1


dispatch(evaluate_row, PerceptronsScratch, _evaluate_perceptrons)


def prepare_tile(
    model: Perceptrons, scratch: PerceptronsScratch, X: np.ndarray, pool: ThreadPoolExecutor | None
) -> Perceptrons:
    """Compute the sums ``far`` of rows that fit into the current tile.

    Parameters
    ----------
    model, scratch
        Classifiers, and their scratch, which is written.
    X
        Rows (n, d).
    pool
        Threads; None for one.

    Returns
    -------
    The classifiers, with room for these rows.
    """
    model = with_more_capacity(model, len(X))
    if model.rounds[0] % TILE == 0:
        _commit(model)
        model.upto[0] = model.n[0]
        model.near[:] = model.size
    scratch.next[0] = 0

    def part(k: int, first: int, last: int) -> None:
        far_sums(model, X, first, last, scratch.far, scratch.rows[k], scratch.cut[k])

    in_parts(part, len(X), len(scratch.rows), pool if model.upto[0] else None)
    return model


def rows_left_in_tile(model: Perceptrons) -> int:
    """Return the number of rows that fit into the current tile."""
    return TILE - int(model.rounds[0]) % TILE


def _add_to_perceptron(model, i, c, f, scratch):
    n, s = model.n[0], model.size[i]
    model.members[i, s] = n
    model.alpha[i, s] = c / model.scale[i]
    model.size[i] += 1
    model.pending[0] = 1
    # kappa_i(x, x) of a normalised kernel
    own = 0.0 if model.family[i] == POLYNOMIAL and model.inverse[n] == 0.0 else 1.0
    model.norm2[i] += c * (2.0 * f + c * own)


def _project_perceptron(model, i, R, scratch):
    if model.norm2[i] <= R * R:
        return
    model.scale[i] *= R / math.sqrt(model.norm2[i])
    model.norm2[i] = R * R
    if model.scale[i] < SMALLEST_SCALE:
        # Move a power of two into the coefficients, which changes no bit of the sums.
        factor = power_of_two(np.floor(math.log2(model.scale[i])))
        model.scale[i] /= factor
        for s in range(model.size[i]):
            model.alpha[i, s] *= factor
        for r in range(scratch.next[0], scratch.far.shape[0]):
            scratch.far[r, i] *= factor


dispatch(add, Perceptrons, _add_to_perceptron)

dispatch(project, Perceptrons, _project_perceptron)


def _perceptrons_scratch(model: Perceptrons, threads: int) -> PerceptronsScratch:
    N = model.n_kernels
    return PerceptronsScratch(
        far=np.zeros((TILE, N)),
        rows=np.zeros((threads, len(CODES), CHUNK)),
        cut=np.zeros((threads, N, 2), dtype=np.int64),
        next=np.zeros(1, dtype=np.int64),
    )


def _support_size(model: Perceptrons) -> np.ndarray:
    return model.size


def _kept_rows(model: Perceptrons) -> int:
    return int(model.n[0] + model.pending[0])


def _with_room(model: Perceptrons, n: int) -> Perceptrons:
    return with_more_capacity(model, n - int(model.n[0]) - 1)


PERCEPTRONS = Representation(
    name="kernel Perceptrons",
    fresh=_fresh_perceptrons,
    scratch=_perceptrons_scratch,
    lookahead=Lookahead(rows_left_in_tile, prepare_tile),
    written=("x", "inverse", "near", "n", "upto", "pending", "rounds"),
    draws_features=False,
    support_size=_support_size,
    kept_rows=_kept_rows,
    check_kernels=check_kernels,
    with_room=_with_room,
)
