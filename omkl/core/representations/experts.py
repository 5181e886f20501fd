"""Experts for a stream that nobody prepared: inputs and past labels are standardised as they come.

An expert says the mean of the labels so far, or the last one, or is a recursive learner
(``recursive``) on all inputs, or on inputs and the last labels, with waves of one length or none.
Every column is standardised by the mean and deviation of what was seen before its row and in it,
and clipped at +-CLIP; an input that is missing (NaN) counts as its mean. Labels are counted from
their mean; they need no scale, since a ridge regression is linear in them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from omkl.core.jit import inlined
from omkl.core.representations import recursive
from omkl.core.representations.recursive import Recursive

CLIP = 4.0  # one in 16,000 numbers of a normal column is farther out
MARGIN = 0.5  # of the range of the labels so far: a prediction goes no farther beyond it
MEAN, LAST, N_PLAIN = 0, 1, 2  # the experts that learn from labels alone come first


class Moments(NamedTuple):
    """Of columns, (C,) each: how many numbers, their mean, sum of squared deviations."""

    n: np.ndarray
    mean: np.ndarray
    squares: np.ndarray


class Experts(NamedTuple):
    """N recursive learners, N + 2 experts, and what is known of inputs and labels.

    first   recursive learners in d + L inputs, the last L of them past labels
    decay   (N,) their weight of the past, in (0, 1]
    inputs  moments of the d inputs
    label   moments of the label, one column
    bounds  (2,) the least and the largest label
    lags    (L,) the last labels, the newest first
    """

    first: Recursive
    decay: np.ndarray
    inputs: Moments
    label: Moments
    bounds: np.ndarray
    lags: np.ndarray

    @property
    def n_kernels(self) -> int:
        return self.first.n_kernels + N_PLAIN


class Scratch(NamedTuple):
    """What a round writes to: that of the recursive learners, their own selection, and the row.

    f (N,) what the learners say before they count the row that they predict; x (d,) the row as
    it came; row (1, d + L) standardised.
    """

    first: recursive.Scratch
    evaluate: np.ndarray
    n_evaluated: np.ndarray
    f: np.ndarray
    x: np.ndarray
    row: np.ndarray


def fresh(first: Recursive, decay: np.ndarray, d: int, n_lags: int) -> Experts:
    """Experts that have seen nothing, around recursive learners in d + n_lags inputs."""
    return Experts(
        first, decay, _no_numbers(d), _no_numbers(1), bounds=np.zeros(2), lags=np.zeros(n_lags)
    )


def _no_numbers(n_columns: int) -> Moments:
    return Moments(*(np.zeros(n_columns) for _ in range(3)))


def scratch(model: Experts, threads: int, every_kernel: bool, precision: str) -> Scratch:
    N, d = model.first.n_kernels, len(model.inputs.n)
    return Scratch(
        recursive.scratch(model.first, threads, every_kernel, precision),
        evaluate=np.arange(N),
        n_evaluated=np.array([N]),
        f=np.zeros(N),
        x=np.zeros(d),
        row=np.zeros((1, d + len(model.lags))),
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
def standardise(model, scratch, X, row):
    """Write X[row] and the last labels into the scratch, the former counted with those before."""
    inputs = model.inputs
    d = X.shape[1]
    for k in range(d):
        x = X[row, k]
        scratch.x[k] = x
        scratch.row[0, k] = 0.0
        if not math.isnan(x):
            n = inputs.n[k] + 1.0
            off = x - inputs.mean[k]
            mean = inputs.mean[k] + off / n
            squares = inputs.squares[k] + off * (x - mean)
            scratch.row[0, k] = _standardised(n, mean, squares, x)
    label = model.label
    for k in range(model.lags.shape[0]):
        scratch.row[0, d + k] = _standardised(
            label.n[0], label.mean[0], label.squares[0], model.lags[k]
        )


@inlined
def evaluate(scratch, model, X, row, f):
    """Write what the experts say of X[row] into f (N + 2,)."""
    standardise(model, scratch, X, row)
    first = scratch.first
    recursive.evaluate(first, model.first, scratch.row, 0, scratch)
    reference = model.label.mean[0]
    margin = MARGIN * (model.bounds[1] - model.bounds[0])
    low, high = model.bounds[0] - margin, model.bounds[1] + margin
    f[MEAN] = reference
    f[LAST] = model.lags[0]
    for i in range(scratch.f.shape[0]):
        said = reference + scratch.f[i] / (1.0 + first.variance[i])
        f[i + N_PLAIN] = min(high, max(low, said))


@inlined
def learn(model, scratch, y):
    """Every expert learns the label y of the row that was evaluated last.

    The first label is its own mean: there is nothing to explain in it.
    """
    first = model.label.n[0] == 0.0
    for i in range(scratch.f.shape[0]):
        error = 0.0 if first else y - model.label.mean[0] - scratch.f[i]
        recursive.learn(model.first, i, scratch.first, 1.0, model.decay[i], error)
    count(model, scratch, y)


@inlined
def count(model, scratch, y):
    """Take the row that was evaluated last, and its label y, into moments, bounds and lags."""
    first = model.label.n[0] == 0.0
    for k in range(scratch.x.shape[0]):
        if not math.isnan(scratch.x[k]):
            _add_number(model.inputs, k, scratch.x[k])
    if first:
        model.bounds[:] = y
        model.lags[:] = y
    _add_number(model.label, 0, y)
    model.bounds[0] = min(model.bounds[0], y)
    model.bounds[1] = max(model.bounds[1], y)
    for k in range(model.lags.shape[0] - 1, 0, -1):
        model.lags[k] = model.lags[k - 1]
    model.lags[0] = y
