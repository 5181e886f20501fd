"""Experts for two classes: recursive learners that are logistic, mixed by how likely labels were.

Labels are -1 and +1; l is a logit, the logarithm of the odds of +1, and tanh(l / 2) twice the
probability of +1, less 1. Inputs, past labels and the recursive learners are those of ``experts``,
but theta has a normal posterior that is approximated anew in each round: along P z, the one
direction in which a label tells something, theta moves to the maximum of the posterior exactly, and
P takes the curvature there in. A prediction averages over theta, MacKay's approximation
l / sqrt(1 + pi z'P z / 8). Two plain experts know labels alone: how often the classes came,
and how often each came after the last label.

Probabilities are mixed by weights that are multiplied by the probability of the label, of which a
share starts anew in each round. The mixture's logit is corrected by another such learner, on what
the experts say beyond it; and the correction is mixed once more with the mixture and plain experts.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from omkl.core.jit import dispatch, inlined
from omkl.core.regrets import mixed
from omkl.core.representations import evaluate_row, experts, recursive
from omkl.core.representations.experts import LAST, MEAN, N_PLAIN, Experts
from omkl.core.representations.random_features import blank
from omkl.core.representations.recursive import Recursive, blank_recursive

PRIOR = 0.3  # variance of a coefficient of the correction: 0.1 to 1 give errors within 1 %
SHARE = 1e-3  # of the weights that starts anew: 0.0001 to 0.01 give errors within 0.5 %
FARTHEST = 8.0  # an expert's logit: a probability of 0.0003
FARTHEST_CORRECTED = 12.0  # a probability of 0.000006
UNSEEN = 0.5  # counts of a class that has not come: Krichevsky and Trofimov
STEEPEST = 30.0  # a margin beyond it counts as this one in the curvature, which is 1e-13 there
PLAIN = (MEAN, LAST, N_PLAIN)  # in the last mixture as they are; the third is linear in x
CORRECTED, MIXTURE = 0, 1  # the first ones of the last mixture; PLAIN are behind them
MOST_STEPS, PRECISE = 100, 1e-12  # of the search for a margin: Newton's, three to five


class MixedLogistic(NamedTuple):
    """Experts and their mixtures.

    experts     N of them
    followed    (2, 2) how often a label came (second index: -1, +1) after a label (first)
    w           (N,) weights of the experts, which sum to 1
    correction  one recursive learner in N + 1 inputs: l_i - l of all experts, l of the mixture
    last        (5,) weights of correction, mixture and PLAIN in the prediction
    """

    experts: Experts
    followed: np.ndarray
    w: np.ndarray
    correction: Recursive
    last: np.ndarray

    @property
    def n_kernels(self) -> int:
        return self.experts.n_kernels

    @property
    def theta(self) -> np.ndarray:
        return self.correction.theta


class Scratch(NamedTuple):
    """What a round writes to.

    off (1, N + 1) inputs of the correction; margin (1,) what it makes of them
    said (5,) what is mixed last, in [-1, 1]; y_hat (1,) the prediction
    """

    experts: experts.Scratch
    correction: recursive.Scratch
    off: np.ndarray
    margin: np.ndarray
    said: np.ndarray
    y_hat: np.ndarray


def fresh(model: Experts) -> MixedLogistic:
    """Mixtures of experts that have seen nothing."""
    N = model.n_kernels
    none, inputs = np.zeros(1, dtype=np.int64), np.array([N + 1])
    n_said = 2 + len(PLAIN)
    return MixedLogistic(
        model,
        followed=np.zeros((2, 2)),
        w=np.full(N, 1.0 / N),
        correction=blank_recursive(blank(1, N + 1, 0).padded, none, inputs, np.array([PRIOR])),
        last=np.full(n_said, 1.0 / n_said),
    )


def scratch(model: MixedLogistic, threads: int, every_kernel: bool, precision: str) -> Scratch:
    return Scratch(
        experts.scratch(model.experts, threads, every_kernel, precision),
        recursive.scratch(model.correction, threads, every_kernel, precision),
        off=np.zeros((1, model.n_kernels + 1)),
        margin=np.zeros(1),
        said=np.zeros(2 + len(PLAIN)),
        y_hat=np.zeros(1),
    )


@inlined
def _sigmoid(x):
    """1 / (1 + exp(-x)), without overflow."""
    e = math.exp(-abs(x))
    return 1.0 / (1.0 + e) if x >= 0.0 else e / (1.0 + e)


@inlined
def _averaged(margin, variance, farthest):
    """The logit of the mean probability where the margin theta'z has this variance; cut off."""
    logit = margin / math.sqrt(1.0 + math.pi / 8.0 * variance)
    return min(farthest, max(-farthest, logit))


@inlined
def _margin_after(margin, variance):
    """b = margin + variance / (1 + exp(b)): y theta'z where the posterior is largest.

    The right-hand side falls in b, so that b lies between the margin and its value there.
    """
    low = margin
    high = margin + variance * _sigmoid(-margin)
    b = high
    for _ in range(MOST_STEPS):
        p = _sigmoid(-b)
        excess = b - margin - variance * p
        step = excess / (1.0 + variance * p * (1.0 - p))
        if abs(step) <= PRECISE * (1.0 + abs(b)):
            break
        if excess > 0.0:
            high = b
        else:
            low = b
        b = b - step if low < b - step < high else 0.5 * (low + high)
    return b


@inlined
def _learn_logistic(model, i, scratch, decay, margin, y):
    """Learner i, whose theta'z (and whatever is added to it) was the margin, learns the label y."""
    variance = scratch.variance[i]
    b = _margin_after(y * margin, variance)
    noise = 2.0 + 2.0 * math.cosh(min(STEEPEST, abs(b)))  # one over p (1 - p)
    error = y * _sigmoid(-b) * (variance + noise)  # theta moves by P z y sigmoid(-b)
    recursive.learn(model, i, scratch, noise, decay, error)


@inlined
def _learn_weights(w, f, y):
    """Multiply w by the probabilities (1 + y f) / 2 of the label y; a share starts anew."""
    total = 0.0
    for i in range(w.shape[0]):
        w[i] *= 0.5 * (1.0 + y * f[i])
        total += w[i]
    for i in range(w.shape[0]):
        w[i] = (1.0 - SHARE) * w[i] / total + SHARE / w.shape[0]


@inlined
def _write_logits(scratch, model, X, row, logits):
    """Write the logits of the experts at X[row] into logits (N,)."""
    labels = model.experts.label
    experts.write_outputs(model.experts, scratch.experts, X, row)
    first = scratch.experts.first
    positive = 0.5 * labels.n[0] * (1.0 + labels.mean[0])
    logits[MEAN] = math.log((positive + UNSEEN) / (labels.n[0] - positive + UNSEEN))
    k = 1 if model.experts.lags[0] > 0.0 else 0
    logits[LAST] = math.log((model.followed[k, 1] + UNSEEN) / (model.followed[k, 0] + UNSEEN))
    for i in range(scratch.experts.f.shape[0]):
        logits[i + N_PLAIN] = _averaged(scratch.experts.f[i], first.variance[i], FARTHEST)


def _evaluate(scratch, model, X, row, selection):
    f = selection.f
    N = f.shape[0]
    logits = scratch.off[0]
    _write_logits(scratch, model, X, row, logits)
    for i in range(N):
        f[i] = math.tanh(0.5 * logits[i])
    mixture = mixed(model.w, f)
    logits[N] = math.log((1.0 + mixture) / (1.0 - mixture))
    for i in range(N):
        logits[i] -= logits[N]
    recursive.write_features(model.correction, scratch.off, 0, N + 1, 0, scratch.correction)
    scratch.margin[0] = logits[N] + recursive.output(model.correction, 0, scratch.correction)
    corrected = _averaged(scratch.margin[0], scratch.correction.variance[0], FARTHEST_CORRECTED)
    scratch.said[CORRECTED] = math.tanh(0.5 * corrected)
    scratch.said[MIXTURE] = mixture
    for k in range(len(PLAIN)):
        scratch.said[2 + k] = f[PLAIN[k]]
    scratch.y_hat[0] = mixed(model.last, scratch.said)


dispatch(evaluate_row, Scratch, _evaluate)


@inlined
def learn(model, scratch, f, y):
    """Experts, which said f (N,), and mixtures learn the label y."""
    first = scratch.experts.first
    for i in range(scratch.experts.f.shape[0]):
        _learn_logistic(
            model.experts.first, i, first, model.experts.decay[i], scratch.experts.f[i], y
        )
    _learn_logistic(model.correction, 0, scratch.correction, 1.0, scratch.margin[0], y)
    _learn_weights(model.w, f, y)
    _learn_weights(model.last, scratch.said, y)
    if model.experts.label.n[0] > 0.0:
        before = 1 if model.experts.lags[0] > 0.0 else 0
        model.followed[before, 1 if y > 0.0 else 0] += 1.0
    experts.count(model.experts, scratch.experts, y)


MIXED_LOGISTIC = recursive.RECURSIVE._replace(
    name="mixed logistic experts", scratch=scratch, draws_features=False
)
