"""Auto: experts of second order on standardised inputs and past labels, mixed twice.

Paper    none. Experts: V. Vovk, "Competitive on-line statistics", International Statistical
         Review 69 (2001), K. S. Azoury and M. K. Warmuth, Machine Learning 43 (2001), on the
         features of Rahimi and Recht (NIPS 2007). Mixtures: ML-Poly of P. Gaillard, G. Stoltz,
         T. van Erven, "A second-order bound with excess losses", COLT 2014.
Task     regression; full information; nothing to choose: dictionary and D do not matter.
Round    1. Standardise every input by what was seen of it up to this row, and the last two labels
            by the labels before; clip at +-4. A missing input counts as its mean.
         2. Experts: the mean of the labels; the last label; forecasters of Vovk, Azoury and
            Warmuth with lam = 0.01 of the labels less their mean: linear in the inputs; linear in
            inputs and labels, also with forgetting; and with D = 25 random frequencies of length
            1/2, 1, 2 or 4 times sqrt(d) beside these, on inputs, on both, on both with
            forgetting. They go beyond the labels seen by no more than half of their range.
         3. p = sum w_i f_i, w_i proportional to max(R_i, 0) / V_i: R_i sums up
            r_i = 2 (p - y) (p - f_i), V_i sums up r_i^2, where rounds fade by 0.999.
         4. q = p + theta'(f - p), no less than the least f_i and no more than the largest; theta
            is the mean of a normal posterior with prior N(0, 0.1 I) and with the noise of p's
            errors, fading by 0.99.
         5. Predict the mixture, as in 3, of q, p, the mean, the last label and the linear one.
Symbols  none
Cost     O(N D^2 + N D d + d^2) time a round for N = 17 experts; O(N (D + d)^2) memory.
Bound    none for the whole; a mixture's regret against the best fixed one is O(sqrt(N T)).
Differs  no paper.

The labels 0, 1, .., 9 without any input, which a linear trend in the last label explains:

>>> import numpy as np
>>> from omkl import algorithms
>>> from omkl.core.learner import Learner
>>> auto = algorithms.load("auto")
>>> learner = Learner(auto, auto.Params(), (), d=1, D=1, seed=0)
>>> y = np.arange(200.0) % 10
>>> round(float(learner.partial_fit(np.zeros((200, 1)), y).y_hat[-1]), 3)
8.9
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from omkl.core.kernels import Kernel
from omkl.core.protocol import choose_all, register
from omkl.core.representations import experts, mixed
from omkl.core.representations.mixed import MIXED, Mixed
from omkl.core.representations.random_features import blank, draw_features
from omkl.core.representations.recursive import blank_recursive

LENGTHS = (0.5, 1.0, 2.0, 4.0)  # times sqrt(d), the distance of two standardised rows
N_LAGS = 2
D_WAVES = 25  # 50 features: the cost of a round is that of their 12 matrices
MOST_RAW = 40  # with more inputs, waves have none beside them: the matrices would be theirs
LAM = 0.01
LINEAR_DECAY, WAVE_DECAY = 0.995, 0.998  # memories of 200 and 500 rounds for 3 and 50 features
TINY = 1e-300


class Params(NamedTuple):
    pass


class State(NamedTuple):
    model: Mixed
    log_w: np.ndarray  # (17,) of the experts' weights in p, those of 0 as TINY


class Group(NamedTuple):
    """Experts that differ in their waves' length alone."""

    name: str
    lagged: bool
    decay: float
    lengths: tuple[float, ...]  # none: linear


GROUPS = (
    Group("linear", False, 1.0, ()),
    Group("linear in x and labels", True, 1.0, ()),
    Group("the same, forgetting", True, LINEAR_DECAY, ()),
    Group("waves on x", False, 1.0, LENGTHS),
    Group("waves on x and labels", True, 1.0, LENGTHS),
    Group("these, forgetting", True, WAVE_DECAY, LENGTHS),
)


def kernels(params: Params, dictionary: Sequence[Kernel]) -> Sequence[Kernel]:
    """The experts by name, and their length in units of sqrt(d)."""
    named = [Kernel(group.name, b) for group in GROUPS for b in group.lengths or (1.0,)]
    return (Kernel("mean", 1.0), Kernel("last label", 1.0), *named)


def fresh(params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int) -> Mixed:
    """Experts in d inputs; the same four sets of frequencies serve all groups."""
    single = [(group, length) for group in GROUPS for length in group.lengths or (0.0,)]
    padded = blank(len(single), d + N_LAGS, D_WAVES).padded
    unit = draw_features([Kernel("gaussian", 1.0)] * len(LENGTHS), d + N_LAGS, D_WAVES, seed).padded
    n_waves, n_raw = np.zeros((2, len(single)), dtype=np.int64)
    for i, (group, length) in enumerate(single):
        n = d + N_LAGS if group.lagged else d
        n_raw[i] = n if n <= MOST_RAW or not length else 0
        if length:
            n_waves[i] = D_WAVES
            padded[i, :n] = unit[LENGTHS.index(length), :n] / (length * math.sqrt(n))
    first = blank_recursive(padded, n_waves, n_raw, np.full(len(single), 1.0 / LAM))
    decay = np.array([group.decay for group, _ in single])
    return mixed.fresh(experts.fresh(first, decay, d, N_LAGS))


def init(params: Params, dictionary: Sequence[Kernel], model: Mixed) -> State:
    return State(model, np.zeros(model.n_kernels))


def select(params, state, t, rng, selection):
    choose_all(selection)


def predict(params, state, t, selection):
    return selection.scratch.y_hat[0], True


def update(params, state, t, y, selection):
    mixed.learn(state.model, selection.scratch, selection.f, y, t)
    for i in range(state.log_w.shape[0]):
        state.log_w[i] = math.log(max(state.model.regrets.w[i], TINY))


AUTO = MIXED._replace(fresh=fresh)

algorithm = register(
    __name__, representation=AUTO, every_kernel=True, kernels=kernels, deterministic=False
)
