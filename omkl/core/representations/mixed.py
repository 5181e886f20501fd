"""Experts that are mixed by their regrets, corrected linearly, and mixed once more.

f (N,) are what the experts say (``experts``). The first mixture p weighs them by regret
(``core.regrets``). The second, q, corrects it with coefficients of any sign, q = p + theta'(f - p):
theta is normal with variance PRIOR before the first label, labels have the noise of p's recent
errors, so that the scale of the labels does not matter; q is kept between the least and the
largest of f. The prediction weighs q, p and three plain experts by regret again: who follows
regrets among few that err little is hardly ever worse than one of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from omkl.core.factor import empty_factor, project, take_in
from omkl.core.jit import dispatch, inlined
from omkl.core.regrets import Regrets, learn_regrets, mixed, no_regrets
from omkl.core.representations import evaluate_row, experts, recursive
from omkl.core.representations.experts import LAST, MEAN, N_PLAIN, Experts
from omkl.core.simd import LANES, aligned, fma, load, pack, store, total

PRIOR = 0.1  # variance of a coefficient: 0.01 to 10 give errors within 5 %
NOISE_FADING = 0.99  # the noise is that of about 100 rounds
PLAIN = (MEAN, LAST, N_PLAIN)  # in the last mixture as they are; the third is linear in x
CORRECTED, REGRETS = 0, 1  # the first ones of the last mixture; PLAIN are behind them


class Mixed(NamedTuple):
    """Experts and their mixtures.

    experts    N of them
    regrets    weights of the experts in p
    theta      (1, 8 B) coefficients of the correction, with 8 B at least N
    factor, diagonal   (1, B, 8 B, 8) and (1, 8 B): their covariance, as of ``core.factor``
    noise      (2,) fading sum of p's squared errors, and of ones
    last       weights of q, p and PLAIN in the prediction
    """

    experts: Experts
    regrets: Regrets
    theta: np.ndarray
    factor: np.ndarray
    diagonal: np.ndarray
    noise: np.ndarray
    last: Regrets

    @property
    def n_kernels(self) -> int:
        return self.experts.n_kernels


class Scratch(NamedTuple):
    """What a round writes to.

    off       (1, 8 B) the experts' differences f - p
    projected (1, 8 B) of ``off``; variance (1,) of theta'off; correction (1,) theta'off itself
    said      (5,) q, p and PLAIN; y_hat (1,) their mixture
    gain, slope, step   (8 B,) of ``take_in``
    """

    experts: experts.Scratch
    off: np.ndarray
    projected: np.ndarray
    correction: np.ndarray
    said: np.ndarray
    y_hat: np.ndarray
    gain: np.ndarray
    slope: np.ndarray
    step: np.ndarray


def fresh(model: Experts) -> Mixed:
    """Mixtures of experts that have seen nothing."""
    N = model.n_kernels
    factor, diagonal = empty_factor(1, N)
    diagonal *= PRIOR
    return Mixed(
        model, no_regrets(N), aligned(diagonal.shape), factor, diagonal, np.zeros(2),
        no_regrets(2 + len(PLAIN)),
    )  # fmt: skip


def scratch(model: Mixed, threads: int, every_kernel: bool, precision: str) -> Scratch:
    F = model.diagonal.shape[1]
    return Scratch(
        experts.scratch(model.experts, threads, every_kernel, precision),
        off=aligned((1, F)),
        projected=aligned((1, F)),
        correction=np.zeros(1),
        said=np.zeros(2 + len(PLAIN)),
        y_hat=np.zeros(1),
        gain=np.zeros(F),
        slope=np.zeros(F),
        step=aligned((F,)),
    )


def _evaluate(scratch, model, X, row, selection):
    f = selection.f
    experts.evaluate(scratch.experts, model.experts, X, row, f)
    p = mixed(model.regrets, f)
    low, high = f[0], f[0]
    for i in range(f.shape[0]):
        scratch.off[0, i] = f[i] - p
        low = min(low, f[i])
        high = max(high, f[i])
    B = model.factor.shape[1]
    project(model.factor, model.diagonal, 0, B, scratch.off, scratch.projected)
    a = pack(0.0)
    for b in range(B):
        a = fma(load(model.theta, b * LANES), load(scratch.off, b * LANES), a)
    scratch.correction[0] = total(a)
    scratch.said[CORRECTED] = min(high, max(low, p + scratch.correction[0]))
    scratch.said[REGRETS] = p
    for k in range(len(PLAIN)):
        scratch.said[2 + k] = f[PLAIN[k]]
    scratch.y_hat[0] = mixed(model.last, scratch.said)


dispatch(evaluate_row, Scratch, _evaluate)


@inlined
def learn(model, scratch, f, y, t):
    """Experts, which said f (N,), and mixtures learn y, the label of round t.

    In round 1 all of them said 0, and there is nothing to tell them apart.
    """
    if t > 1:
        p = scratch.said[REGRETS]
        learn_regrets(model.regrets, f, p, y)
        learn_regrets(model.last, scratch.said, scratch.y_hat[0], y)
        _learn_correction(model, scratch, y, p)
    experts.learn(model.experts, scratch.experts, y)


@inlined
def _learn_correction(model, scratch, y, p):
    """theta learns y - p; nothing while p has never erred."""
    model.noise[0] = NOISE_FADING * model.noise[0] + (y - p) * (y - p)
    model.noise[1] = NOISE_FADING * model.noise[1] + 1.0
    noise = model.noise[0] / model.noise[1]
    if not noise > 0.0:
        return
    B = model.factor.shape[1]
    take_in(
        model.factor, model.diagonal, 0, B, scratch.projected, noise, 1.0, np.inf,
        scratch.gain, scratch.slope, scratch.step,
    )  # fmt: skip
    error = y - p - scratch.correction[0]
    for b in range(B):
        j = b * LANES
        store(model.theta, j, fma(load(scratch.step, j), error, load(model.theta, j)))


MIXED = recursive.RECURSIVE._replace(name="mixed experts", scratch=scratch, draws_features=False)
