"""Experts that are mixed by their regrets, corrected linearly, and mixed once more.

f (N,) are what the experts say: those of ``experts``, and at the end the mean label of the nearest
rows, and the linear expert with its mean error there (``neighbours``). The first mixture p weighs
them by regret (``core.regrets``). Two others correct it with coefficients of any sign:
q = p + theta'z, where z = (f - p, e) and e is p's error in the round before. One is for ever, one
fades. theta is normal with variance PRIOR before the first label, labels have the noise of p's
recent errors, so that the scale of the labels does not matter; q is kept between the least and the
largest of f. The prediction weighs both q, p and three plain experts by regret again: who follows
regrets among few that err little is hardly ever worse than one of them.

An error far above the noise is one that nobody foresaw, as where a calm stream jumps: which of the
experts came nearest is chance, and would be worth more than all rounds before. Regrets take errors
of up to FARTHEST deviations of the noise, and so does e.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from omkl.core.jit import dispatch, inlined
from omkl.core.regrets import Regrets, learn_regrets, mixed, no_regrets
from omkl.core.representations import evaluate_row, experts, neighbours, recursive
from omkl.core.representations.experts import LAST, MEAN, N_PLAIN, Experts
from omkl.core.representations.neighbours import Neighbours
from omkl.core.representations.random_features import blank
from omkl.core.representations.recursive import Recursive, blank_recursive

PRIOR = 0.1  # variance of a coefficient: 0.03 to 1 give errors within 2 %
FADING = (1.0, 0.995)  # of the past in the corrections: none, and a memory of 200 rounds
NOISE_FADING = 0.99  # the noise is that of about 100 rounds
FARTHEST = 3.0  # 2 to 4 give errors within 1 %
LINEAR = N_PLAIN  # the expert that is linear in the inputs
PLAIN = (MEAN, LAST, LINEAR)  # in the last mixture as they are
REGRETS = len(FADING)  # p in the last mixture: corrections are before it, PLAIN behind it


class Mixed(NamedTuple):
    """Experts and their mixtures.

    experts      N - 2 of them
    neighbours   the last rows
    regrets      weights of the experts in p
    corrections  two recursive learners in N + 1 inputs, f - p and e; the place behind these,
                 where a learner on inputs has its 1, stays 0
    noise        (2,) fading sum of p's squared errors, and of ones
    error        (1,) p's last one, no farther from 0 than FARTHEST deviations of the noise
    last         weights of the corrections, p and PLAIN in the prediction
    """

    experts: Experts
    neighbours: Neighbours
    regrets: Regrets
    corrections: Recursive
    noise: np.ndarray
    error: np.ndarray
    last: Regrets

    @property
    def n_kernels(self) -> int:
        return self.experts.n_kernels + 2

    @property
    def theta(self) -> np.ndarray:
        return self.corrections.theta


class Scratch(NamedTuple):
    """What a round writes to.

    corrections  with z = (f - p, e), for each the same; correction (2,) theta'z
    said         (6,) both q, p and PLAIN; y_hat (1,) their mixture
    """

    experts: experts.Scratch
    neighbours: neighbours.Scratch
    corrections: recursive.Scratch
    correction: np.ndarray
    said: np.ndarray
    y_hat: np.ndarray


def fresh(model: Experts) -> Mixed:
    """Mixtures of experts that have seen nothing."""
    N = model.n_kernels + 2
    none, inputs = np.zeros(len(FADING), dtype=np.int64), np.full(len(FADING), N + 1)
    prior = np.full(len(FADING), PRIOR)
    return Mixed(
        model,
        neighbours.fresh(len(model.inputs.n)),
        regrets=no_regrets(N),
        corrections=blank_recursive(blank(len(FADING), N + 1, 0).padded, none, inputs, prior),
        noise=np.zeros(2),
        error=np.zeros(1),
        last=no_regrets(REGRETS + 1 + len(PLAIN)),
    )


def scratch(model: Mixed, threads: int, every_kernel: bool, precision: str) -> Scratch:
    return Scratch(
        experts.scratch(model.experts, threads, every_kernel, precision),
        neighbours.scratch(),
        recursive.scratch(model.corrections, threads, every_kernel, precision),
        correction=np.zeros(len(FADING)),
        said=np.zeros(REGRETS + 1 + len(PLAIN)),
        y_hat=np.zeros(1),
    )


@inlined
def _ask_neighbours(scratch, model, f):
    """Write the last two of f (N,)."""
    near = scratch.neighbours
    neighbours.evaluate(near, model.neighbours, scratch.experts.whole)
    N = f.shape[0]
    f[N - 2] = near.mean[0]
    f[N - 1] = experts.near_labels(model.experts, f[LINEAR] + near.mean[1])


def _evaluate(scratch, model, X, row, selection):
    f = selection.f
    experts.evaluate(scratch.experts, model.experts, X, row, f)
    _ask_neighbours(scratch, model, f)
    p = mixed(model.regrets.w, f)
    z = scratch.corrections.z
    low, high = f[0], f[0]
    for i in range(f.shape[0]):
        z[:, i] = f[i] - p
        low = min(low, f[i])
        high = max(high, f[i])
    z[:, f.shape[0]] = model.error[0]
    for c in range(len(FADING)):
        scratch.correction[c] = recursive.output(model.corrections, c, scratch.corrections)
        scratch.said[c] = min(high, max(low, p + scratch.correction[c]))
    scratch.said[REGRETS] = p
    for k in range(len(PLAIN)):
        scratch.said[REGRETS + 1 + k] = f[PLAIN[k]]
    scratch.y_hat[0] = mixed(model.last.w, scratch.said)


dispatch(evaluate_row, Scratch, _evaluate)


@inlined
def _foreseen(p, y, farthest):
    """y, or what is nearest to it no farther from p."""
    return min(p + farthest, max(p - farthest, y))


@inlined
def learn(model, scratch, f, y, t):
    """Experts, which said f (N,), and mixtures learn y, the label of round t.

    In round 1 all of them said 0, and there is nothing to tell them apart.
    """
    if t > 1:
        p = scratch.said[REGRETS]
        farthest = np.inf
        if model.noise[1] > 0.0:
            farthest = FARTHEST * math.sqrt(model.noise[0] / model.noise[1])
        y_hat = scratch.y_hat[0]
        learn_regrets(model.regrets, f, p, _foreseen(p, y, farthest))
        learn_regrets(model.last, scratch.said, y_hat, _foreseen(y_hat, y, farthest))
        _learn_correction(model, scratch, y - p)
        model.error[0] = _foreseen(p, y, farthest) - p
    error = y - f[LINEAR] if t > 1 else 0.0
    neighbours.learn(model.neighbours, scratch.experts.whole, y, error)
    experts.learn(model.experts, scratch.experts, y)


@inlined
def _learn_correction(model, scratch, error):
    """Every theta learns p's error; nothing while p has never erred."""
    model.noise[0] = NOISE_FADING * model.noise[0] + error * error
    model.noise[1] = NOISE_FADING * model.noise[1] + 1.0
    noise = model.noise[0] / model.noise[1]
    if not noise > 0.0:
        return
    for c in range(len(FADING)):
        off = error - scratch.correction[c]
        recursive.learn(model.corrections, c, scratch.corrections, noise, FADING[c], off)


MIXED = recursive.RECURSIVE._replace(name="mixed experts", scratch=scratch, draws_features=False)
