"""Auto: experts of second order on standardised inputs and past labels, mixed twice.

Paper    none. Experts: V. Vovk (2001), K. S. Azoury and M. K. Warmuth (2001), on the features of
         Rahimi and Recht (NIPS 2007). Mixtures: fixed share of M. Herbster and M. K. Warmuth,
         "Tracking the best expert", Machine Learning 32 (1998).
Task     regression; full information; nothing to choose.
Round    1. Standardise the inputs, and the last two labels, by what was seen.
         2. Experts: the mean of the labels, the last label, and forecasters of Vovk, Azoury and
            Warmuth: on inputs; on inputs and labels, also with forgetting; and with waves of
            lengths 1/2, 1, 2, 4 times sqrt(d) beside: on inputs, on both, on both with forgetting.
         3. Three mixtures with fixed share: by squared error at two rates, and by the likelihood
            of a normal prediction; a fourth forecaster corrects the third linearly.
         4. Predict a mixture of the four, again with fixed share.
Symbols  lam  regularisation of every forecaster, > 0
Cost     O(N D^2 + N D d) time a round for N = 15; O(N D^2) memory.
Bound    none for the whole.
Differs  no paper.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from omkl.core.factor import empty_factor, project, take_in
from omkl.core.hyperparameters import POSITIVE
from omkl.core.jit import inlined
from omkl.core.kernels import Kernel
from omkl.core.protocol import choose_all, register
from omkl.core.representations import experts
from omkl.core.representations.experts import Experts, learn_label
from omkl.core.representations.random_features import blank, draw_features
from omkl.core.representations.recursive import RECURSIVE, blank_recursive
from omkl.core.simd import LANES
from omkl.core.weights import exp_nonpositive

LENGTHS = (0.5, 1.0, 2.0, 4.0)
N_LAGS = 2
WAVES = 25
MOST_RAW = 40  # with more inputs, waves have none beside them
LINEAR_DECAY, WAVE_DECAY = 0.995, 0.998
ETA = (0.5, 2.0)
SHARE = (1e-3, 1e-2, 1e-3)
FADING = 0.99
TOP_ETA, TOP_SHARE = 1.0, 1e-2


class Params(NamedTuple):
    lam: POSITIVE


class State(NamedTuple):
    """log_w (N,) and w (4, N): two by squared error, one by likelihood; top (4,) the last one's.

    error2 (N,) and top_error2 (4,): fading means of squared errors; noise (N,) those of the
    errors that the variance of the coefficients does not explain; weight (1,) their sum of weights.
    """

    model: Experts
    log_w: np.ndarray
    log_v: np.ndarray  # (3, N)
    log_top: np.ndarray  # (4,)
    decay: np.ndarray  # (N - 2,)
    noise: np.ndarray  # (N,)
    level: np.ndarray  # (2,) fading mean of the squared error of the mixture, sum of its weights
    theta: np.ndarray
    factor: np.ndarray
    diagonal: np.ndarray
    z: np.ndarray
    projected: np.ndarray
    said: np.ndarray  # (4,)
    gain: np.ndarray
    slope: np.ndarray
    step: np.ndarray


def kernels(params: Params, dictionary: Sequence[Kernel]) -> Sequence[Kernel]:
    """As many as there are experts: 2, 3 linear ones and 12 with waves."""
    return tuple(Kernel("gaussian", 1.0) for _ in range(2 + 3 + 3 * len(LENGTHS)))


def fresh(params: Params, kernels: Sequence[Kernel], d: int, D: int, seed: int) -> Experts:
    lagged = d + N_LAGS
    groups = [(d, 0), (lagged, 0), (lagged, 0)]
    groups += [(n, WAVES) for n in (d, lagged, lagged) for _ in LENGTHS]
    n_inputs, n_waves = (np.array(column) for column in zip(*groups, strict=True))
    N = len(groups)
    padded = blank(N, lagged, WAVES).padded
    unit = draw_features([Kernel("gaussian", 1.0)] * len(LENGTHS), lagged, WAVES, seed).padded
    for k in range(3):
        n = (d, lagged, lagged)[k]
        for j, length in enumerate(LENGTHS):
            padded[3 + len(LENGTHS) * k + j, :n] = unit[j, :n] / (length * math.sqrt(n))
    n_raw = np.where((n_waves == 0) | (n_inputs <= MOST_RAW), n_inputs, 0)
    first = blank_recursive(padded, n_waves, n_raw, np.full(N, 1.0 / params.lam))
    return Experts(
        first,
        experts.blank_moments(d),
        experts.blank_moments(1),
        np.zeros(2),
        np.zeros(N_LAGS),
        np.zeros((1, lagged)),
        np.zeros(1),
    )


def init(params: Params, dictionary: Sequence[Kernel], model: Experts) -> State:
    N = len(dictionary)
    L = len(LENGTHS)
    decay = np.ones(N - 2)
    decay[2] = LINEAR_DECAY
    decay[3 + 2 * L :] = WAVE_DECAY
    factor, diagonal = empty_factor(1, N)
    F = diagonal.shape[1]
    return State(
        model, np.full(N, -math.log(N)), np.full((3, N), -math.log(N)), np.full(4, -math.log(4.0)),
        decay, np.zeros(N), np.zeros(2), np.zeros((1, F)), factor, diagonal, np.zeros((1, F)),
        np.zeros((1, F)), np.zeros(5), np.zeros(F), np.zeros(F), np.zeros(F),
    )  # fmt: skip


@inlined
def mean_of(log_w, f):
    """Mean of f (N,) weighted by exp(log_w)."""
    top = log_w[0]
    for i in range(1, f.shape[0]):
        top = max(top, log_w[i])
    total = 0.0
    mean = 0.0
    for i in range(f.shape[0]):
        w = exp_nonpositive(log_w[i] - top)
        total += w
        mean += w * f[i]
    return mean / total


@inlined
def share_out(log_w, share):
    """Normalise exp(log_w) (N,), and give each a part of the rest."""
    N = log_w.shape[0]
    top = log_w[0]
    for i in range(1, N):
        top = max(top, log_w[i])
    total = 0.0
    for i in range(N):
        total += exp_nonpositive(log_w[i] - top)
    for i in range(N):
        w = exp_nonpositive(log_w[i] - top) / total
        log_w[i] = math.log((1.0 - share) * w + share / N)


def select(params, state, t, rng, selection):
    choose_all(selection)


@inlined
def _mixtures(state, f):
    N = f.shape[0]
    said = state.said
    for k in range(3):
        said[k] = mean_of(state.log_v[k], f)
    for i in range(N):
        state.z[0, i] = f[i] - said[2]
    B = state.factor.shape[1]
    q = project(state.factor, state.diagonal, 0, B, state.z, state.projected)
    a = 0.0
    for i in range(N):
        a += state.theta[0, i] * state.z[0, i]
    low, high = f[0], f[0]
    for i in range(N):
        low = min(low, f[i])
        high = max(high, f[i])
    said[3] = min(high, max(low, said[2] + a / (1.0 + q)))
    said[4] = a


def predict(params, state, t, selection):
    _mixtures(state, selection.f)
    return mean_of(state.log_top, state.said[:4]), True


def update(params, state, t, y, selection):
    N = selection.f.shape[0]
    y_hat = mean_of(state.log_top, state.said[:4])
    if t > 1:
        level = state.level
        error2 = (y - y_hat) ** 2
        level[0] = FADING * level[0] + error2
        level[1] = FADING * level[1] + 1.0
        scale = level[0] / level[1]
        if scale > 0.0:
            for k in range(2):
                for i in range(N):
                    error = y - selection.f[i]
                    state.log_v[k, i] -= ETA[k] * min(error * error / scale, 50.0)
                share_out(state.log_v[k], SHARE[k])
            for i in range(N):
                error2 = (y - selection.f[i]) ** 2
                q = 1.0
                if i >= 2:
                    q += selection.scratch.first.variance[i - 2]
                noise = state.noise[i] / level[1]
                # before its own error is known, an expert's noise is that of the mixture
                noise = max(noise, 1e-6 * scale) if t > 2 else scale
                state.log_v[2, i] -= 0.5 * (min(error2 / (noise * q), 50.0) + math.log(noise * q))
                state.noise[i] = FADING * state.noise[i] + error2 / q
            share_out(state.log_v[2], SHARE[2])
            for k in range(4):
                error = y - state.said[k]
                state.log_top[k] -= TOP_ETA * min(error * error / scale, 50.0)
            share_out(state.log_top, TOP_SHARE)
            B = state.factor.shape[1]
            take_in(
                state.factor, state.diagonal, 0, B, state.projected, 1.0, 1.0, np.inf,
                state.gain, state.slope, state.step,
            )  # fmt: skip
            error = y - state.said[2] - state.said[4]
            for j in range(N):
                state.theta[0, j] += state.step[j] * error
    for i in range(N):
        state.log_w[i] = state.log_v[2, i]
    learn_label(state.model, selection.scratch, state.decay, y)


algorithm = register(
    __name__,
    representation=RECURSIVE._replace(fresh=fresh, scratch=experts.scratch, accepts_blanks=True),
    every_kernel=True,
    kernels=kernels,
)
