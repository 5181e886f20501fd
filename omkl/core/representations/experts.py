"""Experts for a stream that nobody prepared: inputs and past labels are standardised as they come.

An expert is a recursive learner (``recursive``) on all inputs, or on inputs and the last labels,
with waves of one length or none; or it says the mean of the labels so far, or the last one.
Every column is standardised by the mean and deviation of what was seen before its row and in it,
and clipped at +-CLIP; an input that is missing (NaN) counts as its mean. Targets need no scale:
a ridge regression is linear in them. They are counted from the mean of the labels before.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from omkl.core.jit import dispatch, inlined
from omkl.core.representations import evaluate_row, recursive
from omkl.core.representations.recursive import Recursive

CLIP = 4.0
MEAN, LAST = 0, 1  # the experts that learn nothing, before the recursive ones


class Moments(NamedTuple):
    """Of columns, (C,) each: how many numbers, their mean, sum of squared deviations."""

    n: np.ndarray
    mean: np.ndarray
    squares: np.ndarray


class Experts(NamedTuple):
    """The recursive learners, and what is known of inputs and labels.

    first      recursive learners in d + L inputs, the last L of them past labels
    inputs     moments of the d inputs; label those of the label, of one column
    range      (2,) the least and the largest label
    lags       (L,) the last labels, the newest first
    row        (1, d + L) the present row, standardised
    reference  (1,) the mean of the labels when the row came
    """

    first: Recursive
    inputs: Moments
    label: Moments
    range: np.ndarray
    lags: np.ndarray
    row: np.ndarray
    reference: np.ndarray

    @property
    def n_kernels(self) -> int:
        return self.first.n_kernels + 2


class Scratch(NamedTuple):
    """What a round writes to: that of the recursive learners, and their own selection."""

    first: recursive.Scratch
    evaluate: np.ndarray
    n_evaluated: np.ndarray
    f: np.ndarray


def blank_moments(n_columns: int) -> Moments:
    return Moments(*(np.zeros(n_columns) for _ in range(3)))


@inlined
def add_number(moments, k, x):
    """Take the number x into the moments of column k (Welford)."""
    moments.n[k] += 1.0
    off = x - moments.mean[k]
    moments.mean[k] += off / moments.n[k]
    moments.squares[k] += off * (x - moments.mean[k])


@inlined
def standardised(moments, k, x):
    """(x - mean) / deviation, clipped; 0 where the column has not moved yet."""
    spread = math.sqrt(moments.squares[k] / max(moments.n[k], 1.0))
    if not spread > 0.0:
        return 0.0
    return min(CLIP, max(-CLIP, (x - moments.mean[k]) / spread))


@inlined
def _standardise(model, X, row):
    """Write the standardised row; take its inputs into their moments."""
    d = X.shape[1]
    for k in range(d):
        x = X[row, k]
        model.row[0, k] = 0.0
        if x == x:
            add_number(model.inputs, k, x)
            model.row[0, k] = standardised(model.inputs, k, x)
    for k in range(model.lags.shape[0]):
        model.row[0, d + k] = standardised(model.label, 0, model.lags[k])
    model.reference[0] = model.label.mean[0]


def _evaluate(scratch, model, X, row, selection):
    _standardise(model, X, row)
    first = scratch.first
    recursive.evaluate(first, model.first, model.row, 0, scratch)
    reference = model.reference[0]
    width = 0.5 * (model.range[1] - model.range[0])
    low, high = model.range[0] - width, model.range[1] + width
    selection.f[MEAN] = reference
    selection.f[LAST] = model.lags[0]
    for i in range(scratch.f.shape[0]):
        said = reference + scratch.f[i] / (1.0 + first.variance[i])
        selection.f[i + 2] = min(high, max(low, said))


dispatch(evaluate_row, Scratch, _evaluate)


@inlined
def learn_label(model, scratch, decay, y):
    """All recursive experts, with their weights of the past (N - 2,), and the moments learn y."""
    for i in range(scratch.f.shape[0]):
        error = y - model.reference[0] - scratch.f[i]
        recursive.learn(model.first, i, scratch.first, 1.0, decay[i], error)
    if model.label.n[0] == 0.0:
        model.range[:] = y
        model.lags[:] = y
    add_number(model.label, 0, y)
    model.range[0] = min(model.range[0], y)
    model.range[1] = max(model.range[1], y)
    for k in range(model.lags.shape[0] - 1, 0, -1):
        model.lags[k] = model.lags[k - 1]
    model.lags[0] = y


def scratch(model: Experts, threads: int, every_kernel: bool, precision: str) -> Scratch:
    N = model.first.n_kernels
    return Scratch(
        recursive.scratch(model.first, threads, every_kernel, precision),
        evaluate=np.arange(N),
        n_evaluated=np.array([N]),
        f=np.zeros(N),
    )
