"""Experts for a stream that nobody prepared: inputs and past labels are standardised as they come.

An expert says the mean of the labels so far, or the last one, or is a recursive learner
(``recursive``) of labels less the mean, or less the last one. A learner reads some columns of the
row: inputs, past labels, how both changed since the row before, products of two inputs. It has
waves of one length in them, or none, and the first ones as they are.
Inputs and past labels are standardised by the mean and deviation of what was seen before their row
and, inputs, in it, and clipped at +-CLIP; an input that is missing (NaN) counts as its mean. Labels
need no scale, since a ridge regression is linear in them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from omkl.core.jit import inlined
from omkl.core.representations import recursive
from omkl.core.representations.recursive import Recursive

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


class Scratch(NamedTuple):
    """What a round writes to: that of the recursive learners, and the row.

    f (N,) theta'z of the learners; x (d,) the row as it came; whole (d + L + C + K,) its columns;
    row (1, W) those that one learner reads.
    """

    first: recursive.Scratch
    f: np.ndarray
    x: np.ndarray
    whole: np.ndarray
    row: np.ndarray


def fresh(
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


def _no_numbers(n_columns: int) -> Moments:
    return Moments(*(np.zeros(n_columns) for _ in range(3)))


def scratch(model: Experts, threads: int, every_kernel: bool, precision: str) -> Scratch:
    d = len(model.inputs.n)
    n_whole = d + len(model.lags) + len(model.before) + len(model.products)
    return Scratch(
        recursive.scratch(model.first, threads, every_kernel, precision),
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
        recursive.write_features(model.first, scratch.row, 0, n, i, scratch.first)
        scratch.f[i] = recursive.output(model.first, i, scratch.first)


@inlined
def _reference(model, i):
    """What learner i explains labels from; the last one no farther from the mean than that."""
    mean = model.label.mean[0]
    if not model.from_last[i]:
        return mean
    spread = FARTHEST_LAST * math.sqrt(model.label.squares[0] / max(model.label.n[0], 1.0))
    return min(mean + spread, max(mean - spread, model.lags[0]))


@inlined
def near_labels(model, said):
    """A prediction, or what is nearest to it not far beyond the labels so far."""
    margin = MARGIN * (model.bounds[1] - model.bounds[0])
    return min(model.bounds[1] + margin, max(model.bounds[0] - margin, said))


@inlined
def evaluate(scratch, model, X, row, f):
    """Write what the experts say of X[row] into f (N + 2,)."""
    write_outputs(model, scratch, X, row)
    f[MEAN] = model.label.mean[0]
    f[LAST] = model.lags[0]
    for i in range(scratch.f.shape[0]):
        said = _reference(model, i) + scratch.f[i] / (1.0 + scratch.first.variance[i])
        f[i + N_PLAIN] = near_labels(model, said)


@inlined
def learn(model, scratch, y):
    """Every expert learns the label y of the row that was evaluated last.

    The first label is its own mean: there is nothing to explain in it.
    """
    first = model.label.n[0] == 0.0
    for i in range(scratch.f.shape[0]):
        error = 0.0 if first else y - _reference(model, i) - scratch.f[i]
        recursive.learn(model.first, i, scratch.first, 1.0, model.decay[i], error)
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
