"""Experts for a stream that nobody prepared: inputs and past labels are standardised as they come.

An expert predicts the mean of the labels so far, or the last one, or is a recursive learner
(``second_order``) of labels less the mean, or less the last one. A learner reads some columns of
the row: inputs, past labels, how both changed since the row before, products of two inputs. It has
waves of one length in them, or none, and the first ones as they are.
Inputs and past labels are standardised by the mean and deviation of what was seen before their row
and, inputs, in it, and clipped at +-CLIP; an input that is missing (NaN) counts as its mean. Labels
need no scale, since a ridge regression is linear in them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.core.compiler import dispatch, inlined
from omkl.core.hyperparameters import ROUNDS
from omkl.core.representations import Representation, evaluate_row
from omkl.core.representations.second_order import (
    Recursive,
    RlsScratch,
    learn_rls,
    rls_output,
    rls_scratch,
    write_features,
)
from omkl.core.simd import LANES, aligned, fma, largest, load, pack, store

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


# --- Functions that do not look at x: f_i is a number, alpha[i, 0] --------------------------------


class Constant(NamedTuple):
    alpha: np.ndarray  # (N, 1)

    @property
    def n_kernels(self) -> int:
        return len(self.alpha)


class NoScratch(NamedTuple):
    """A round needs nothing to write to."""


def _evaluate_constant(scratch, model, X, row, selection):
    for m in range(selection.n_evaluated[0]):
        i = selection.evaluate[m]
        selection.f[i] = model.alpha[i, 0]


dispatch(evaluate_row, NoScratch, _evaluate_constant)


def _fresh_constant(params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int) -> Constant:
    return Constant(np.zeros((len(kernels), 1)))


def _no_scratch(model: Constant, threads: int, every_kernel: bool, precision: str) -> NoScratch:
    return NoScratch()


CONSTANT = Representation(
    name="constant",
    fresh=_fresh_constant,
    scratch=_no_scratch,
    draws_features=False,
)


# --- Weights from regrets, without a rate: ML-Poly ------------------------------------------------
#
# w_i is proportional to max(R_i, 0) / V_i, where R_i adds up r_i = 2 (p - y) (p - f_i), by how much
# expert i would have been better than the mixture p to first order, and V_i adds up r_i^2
# (P. Gaillard, G. Stoltz, T. van Erven, COLT 2014). Old rounds fade, so that the best mixture may
# change: the regret bound of ML-Poly, of order sqrt(N T ln T), is one without fading.


REGRET_FADING = 0.999  # a memory of about 1,000 rounds; from 0.99 to 1 errors differ by 3 %
REGRET_FLOOR = (
    1e-6  # of the largest V, added to all: an R that is little but rounding gets no weight
)
ROUNDING = 1e-12  # relative difference of predictions that counts as none


class Regrets(NamedTuple):
    """Of N experts, (N,) each: fading sums R and V, and the weights w, which sum to 1."""

    total: np.ndarray
    squares: np.ndarray
    w: np.ndarray


def no_regrets(N: int) -> Regrets:
    return Regrets(np.zeros(N), np.zeros(N), np.full(N, 1.0 / N))


@inlined
def mixture_of(w, f):
    """The mixture of the predictions f (N,) by weights w (N,)."""
    p = 0.0
    for i in range(f.shape[0]):
        p += w[i] * f[i]
    return p


@inlined
def learn_regrets(regrets, f, p, y):
    """Learn the label y after the predictions f (N,), whose mixture was p; weigh anew."""
    N = f.shape[0]
    largest = 0.0
    for i in range(N):
        off = p - f[i]
        r = 2.0 * (p - y) * off if abs(off) > ROUNDING * abs(p) else 0.0
        regrets.total[i] = REGRET_FADING * regrets.total[i] + r
        regrets.squares[i] = REGRET_FADING * regrets.squares[i] + r * r
        largest = max(largest, regrets.squares[i])
    total = 0.0
    for i in range(N):
        regrets.w[i] = 0.0
        if regrets.total[i] > 0.0:
            regrets.w[i] = regrets.total[i] / (regrets.squares[i] + REGRET_FLOOR * largest)
        total += regrets.w[i]
    for i in range(N):
        regrets.w[i] = regrets.w[i] / total if total > 0.0 else 1.0 / N


# --- The nearest of the last rows: their labels, and how far off another learner was there --------
#
# Distances are Euclidean, between rows as they were standardised when they came. A neighbour counts
# 1 / (q / d + CLOSE)^2, where q is its squared distance in d inputs: rows that come again count
# most.


KEPT = 1000  # rows, of which 500 do nearly as well; a multiple of LANES
NEAREST = 10  # 5 to 20 give errors within 1 %
CLOSE = 1e-3


class Neighbours(NamedTuple):
    """The last KEPT rows; row number t of all, counted from 0, is in place t mod KEPT.

    rows    (d, KEPT)
    labels  (KEPT,)
    errors  (KEPT,) by how much a label was above the other learner's prediction
    n       (1,) int64, how many rows there have been
    """

    rows: np.ndarray
    labels: np.ndarray
    errors: np.ndarray
    n: ROUNDS


class NeighboursScratch(NamedTuple):
    """What a round writes to.

    distance (KEPT,) squared; nearest (NEAREST,) places, the nearest first
    mean (2,) of the neighbours' labels, and of the errors there; 0 before the first row
    """

    distance: np.ndarray
    nearest: np.ndarray
    mean: np.ndarray


def fresh_neighbours(d: int) -> Neighbours:
    n = np.zeros(1, dtype=np.int64)
    return Neighbours(aligned((d, KEPT)), np.zeros(KEPT), np.zeros(KEPT), n)


def neighbours_scratch() -> NeighboursScratch:
    return NeighboursScratch(aligned((KEPT,)), np.zeros(NEAREST, dtype=np.int64), np.zeros(2))


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
    n_nearest = 0
    farthest = np.inf  # of those listed, once there are enough
    for first in range(0, n, LANES):
        if n_nearest == NEAREST and largest(load(distance, first) * -1.0) <= -farthest:
            continue  # none of the eight is nearer
        for j in range(first, min(first + LANES, n)):
            if n_nearest < NEAREST or distance[j] < farthest:
                n_nearest = min(n_nearest + 1, NEAREST)
                m = n_nearest - 1
                while m > 0 and distance[nearest[m - 1]] > distance[j]:
                    nearest[m] = nearest[m - 1]
                    m -= 1
                nearest[m] = j
                if n_nearest == NEAREST:
                    farthest = distance[nearest[NEAREST - 1]]
    return n_nearest


@inlined
def evaluate_neighbours(scratch, model, x):
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
def learn_neighbours(model, x, label, error):
    """Keep the row x, its label and error in place of the oldest one."""
    j = model.n[0] % KEPT
    for k in range(model.rows.shape[0]):
        model.rows[k, j] = x[k]
    model.labels[j] = label
    model.errors[j] = error
    model.n[0] += 1


# --- Experts --------------------------------------------------------------------------------------


CLIP = 4.0  # one in 16,000 numbers of a normal column is farther out
FARTHEST_LAST = 6.0  # deviations of labels: 4 loses to jumps that stay, 10 to wrong labels
MARGIN = 0.5  # of the range of the labels so far: a prediction goes no farther beyond it
MEAN, LAST, N_PLAIN = 0, 1, 2  # the experts that learn from labels alone come first


class Moments(NamedTuple):
    """Of columns, (C,) each: how many numbers, their mean, sum of squared deviations."""

    n: np.ndarray
    mean: np.ndarray
    squares: np.ndarray


class Experts(NamedTuple):
    """N recursive learners, N + 2 experts, and what is known of inputs and labels.

    The columns of a row are d inputs, L past labels, the newest first, the changes of the inputs
    and of the C - d newest labels since the row before, and K products of inputs.

    first      recursive learners in the columns that each reads
    decay      (N,) their weight of the past, in (0, 1]
    from_last  (N,) whether a learner explains labels less the last one, or less their mean
    columns    (N, W) the columns that a learner reads, ``n_columns`` (N,) of them
    products   (K, 2) the inputs whose product is a column
    inputs     moments of the d inputs
    label      moments of the label, one column
    bounds     (2,) the least and the largest label
    lags       (L,) the last labels, the newest first
    before     (C,) the row before: its inputs and newest labels, standardised
    """

    first: Recursive
    decay: np.ndarray
    from_last: np.ndarray
    columns: np.ndarray
    n_columns: np.ndarray
    products: np.ndarray
    inputs: Moments
    label: Moments
    bounds: np.ndarray
    lags: np.ndarray
    before: np.ndarray

    @property
    def n_kernels(self) -> int:
        return self.first.n_kernels + N_PLAIN


class ExpertsScratch(NamedTuple):
    """What a round writes to: that of the recursive learners, and the row.

    f (N,) theta'z of the learners; x (d,) the row as it came; whole (d + L + C + K,) its columns;
    row (1, W) those that one learner reads.
    """

    first: RlsScratch
    f: np.ndarray
    x: np.ndarray
    whole: np.ndarray
    row: np.ndarray


def fresh_experts(
    first: Recursive,
    decay: np.ndarray,
    from_last: np.ndarray,
    columns: list[np.ndarray],
    products: np.ndarray,
    sizes: tuple[int, int, int],
) -> Experts:
    """Experts that have seen nothing, around recursive learners that read ``columns`` each.

    sizes: how many inputs, past labels, and past labels whose changes are columns.
    """
    d, n_lags, n_changing = sizes
    n_columns = np.array([len(read) for read in columns])
    width = max(int(n_columns.max()), first.padded.shape[1])
    read = np.zeros((len(columns), width), dtype=np.int64)
    for i, ones in enumerate(columns):
        read[i, : len(ones)] = ones
    return Experts(
        first, decay, from_last, read, n_columns, products, _no_numbers(d), _no_numbers(1),
        bounds=np.zeros(2), lags=np.zeros(n_lags), before=np.zeros(d + n_changing),
    )  # fmt: skip


def context_of(model: Any) -> tuple[np.ndarray, ...]:
    """What a row of mixed ``experts`` knows of those before it: past labels, and the last row."""
    return model.experts.lags, model.experts.before


def _no_numbers(n_columns: int) -> Moments:
    return Moments(*(np.zeros(n_columns) for _ in range(3)))


def experts_scratch(
    model: Experts, threads: int, every_kernel: bool, precision: str
) -> ExpertsScratch:
    d = len(model.inputs.n)
    n_whole = d + len(model.lags) + len(model.before) + len(model.products)
    return ExpertsScratch(
        rls_scratch(model.first, threads, every_kernel, precision),
        f=np.zeros(model.first.n_kernels),
        x=np.zeros(d),
        whole=np.zeros(n_whole),
        row=np.zeros((1, model.columns.shape[1])),
    )


@inlined
def _add_number(moments, k, x):
    """Take the number x into the moments of column k (Welford)."""
    moments.n[k] += 1.0
    off = x - moments.mean[k]
    moments.mean[k] += off / moments.n[k]
    moments.squares[k] += off * (x - moments.mean[k])


@inlined
def _standardised(n, mean, squares, x):
    """(x - mean) / deviation, clipped; 0 where the column has not moved yet."""
    spread = math.sqrt(squares / max(n, 1.0))
    if not spread > 0.0:
        return 0.0
    return min(CLIP, max(-CLIP, (x - mean) / spread))


@inlined
def _standardise(model, scratch, X, row):
    """Write X[row] and the last labels into ``whole``, the former counted with those before."""
    inputs = model.inputs
    d = X.shape[1]
    for k in range(d):
        x = X[row, k]
        scratch.x[k] = x
        scratch.whole[k] = 0.0
        if not math.isnan(x):
            n = inputs.n[k] + 1.0
            off = x - inputs.mean[k]
            mean = inputs.mean[k] + off / n
            squares = inputs.squares[k] + off * (x - mean)
            scratch.whole[k] = _standardised(n, mean, squares, x)
    label = model.label
    for k in range(model.lags.shape[0]):
        scratch.whole[d + k] = _standardised(
            label.n[0], label.mean[0], label.squares[0], model.lags[k]
        )


@inlined
def _derive(model, scratch):
    """Write changes and products behind the standardised columns; nothing changed in round 1."""
    start = model.inputs.n.shape[0] + model.lags.shape[0]
    n_changes = model.before.shape[0]
    for k in range(n_changes):
        change = scratch.whole[k] - model.before[k]
        scratch.whole[start + k] = change if model.label.n[0] > 0.0 else 0.0
    start += n_changes
    for k in range(model.products.shape[0]):
        left, right = model.products[k, 0], model.products[k, 1]
        scratch.whole[start + k] = scratch.whole[left] * scratch.whole[right]


@inlined
def write_outputs(model, scratch, X, row):
    """Write theta'z of all learners at X[row] into scratch.f, and what their steps need."""
    _standardise(model, scratch, X, row)
    _derive(model, scratch)
    for i in range(scratch.f.shape[0]):
        n = model.n_columns[i]
        for k in range(n):
            scratch.row[0, k] = scratch.whole[model.columns[i, k]]
        write_features(model.first, scratch.row, 0, n, i, scratch.first)
        scratch.f[i] = rls_output(model.first, i, scratch.first)


@inlined
def _reference(model, i):
    """What learner i explains labels from; the last one no farther from the mean than that."""
    mean = model.label.mean[0]
    if not model.from_last[i]:
        return mean
    spread = FARTHEST_LAST * math.sqrt(model.label.squares[0] / max(model.label.n[0], 1.0))
    return min(mean + spread, max(mean - spread, model.lags[0]))


@inlined
def near_labels(model, prediction):
    """A prediction, or what is nearest to it not far beyond the labels so far."""
    margin = MARGIN * (model.bounds[1] - model.bounds[0])
    return min(model.bounds[1] + margin, max(model.bounds[0] - margin, prediction))


@inlined
def evaluate_experts(scratch, model, X, row, f):
    """Write the experts' predictions at X[row] into f (N + 2,)."""
    write_outputs(model, scratch, X, row)
    f[MEAN] = model.label.mean[0]
    f[LAST] = model.lags[0]
    for i in range(scratch.f.shape[0]):
        prediction = _reference(model, i) + scratch.f[i] / (1.0 + scratch.first.variance[i])
        f[i + N_PLAIN] = near_labels(model, prediction)


@inlined
def learn_experts(model, scratch, y):
    """Every expert learns the label y of the row that was evaluated last.

    The first label is its own mean: there is nothing to explain in it.
    """
    first = model.label.n[0] == 0.0
    for i in range(scratch.f.shape[0]):
        error = 0.0 if first else y - _reference(model, i) - scratch.f[i]
        learn_rls(model.first, i, scratch.first, 1.0, model.decay[i], error)
    count(model, scratch, y)


@inlined
def count(model, scratch, y):
    """Take the row that was evaluated last, and its label y, into all that is known of them."""
    for k in range(scratch.x.shape[0]):
        if not math.isnan(scratch.x[k]):
            _add_number(model.inputs, k, scratch.x[k])
    for k in range(model.before.shape[0]):
        model.before[k] = scratch.whole[k]
    if model.label.n[0] == 0.0:
        model.bounds[:] = y
        model.lags[:] = y
    _add_number(model.label, 0, y)
    model.bounds[0] = min(model.bounds[0], y)
    model.bounds[1] = max(model.bounds[1], y)
    for k in range(model.lags.shape[0] - 1, 0, -1):
        model.lags[k] = model.lags[k - 1]
    model.lags[0] = y
