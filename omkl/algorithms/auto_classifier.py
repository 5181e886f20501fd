"""Auto for classes: logistic experts of second order on standardised inputs, mixed twice.

Paper    none. Experts: the posterior of a logistic regression, approximated by a normal one round
         after round as in D. J. C. MacKay, Neural Computation 4 (1992), and D. J. Spiegelhalter and
         S. L. Lauritzen, Networks 20 (1990). Mixtures: fixed share, M. Herbster and M. K. Warmuth,
         Machine Learning 32 (1998). Counts: R. E. Krichevsky and V. K. Trofimov, IEEE Transactions
         on Information Theory 27 (1981).
Task     classification; full information; nothing to choose: dictionary and D do not matter.
Round    1. Inputs and the last two labels are standardised as of ``auto``.
         2. Experts say a logit l_i, no farther from 0 than 8, of the label +1: one from the counts
            n of both classes, log((n+ + 1/2) / (n- + 1/2)); one from the counts of those after
            the last label; and logistic ones, m / sqrt(1 + pi v / 8) with m = theta'z, v = z'P z.
            They are linear in the inputs, or in inputs and labels, with a prior deviation
            1 / length of coefficients; or have sines and cosines beside these, as of
            ``auto``, with prior variance 30, and 1 for the rest. In some the past fades.
         3. Mix them: f_i = tanh(l_i / 2), p = sum w_i f_i, l = log((1 + p) / (1 - p)).
         4. Correct that: m = l + theta'z, z = (l_1 - l, .., l_N - l, l, 1), with prior variance 0.3
            of theta; q = tanh(m / (2 sqrt(1 + pi v / 8))), the logit cut off at 12.
         5. Predict y_hat = sum u_k g_k, g = (q, p, and f of the counts, of those after the last
            label, of the first linear expert). (1 + y_hat) / 2 is the probability of +1. A
            mistake where y_t y_hat is not positive.
         6. Logistic ones learn: b = y m + v s for s = 1 / (1 + e^b); theta <- theta + P z y s;
            P <- (P - P z z'P / (v + r)) / decay, r = 2 + 2 cosh b = 1 / (s (1 - s)).
         7. w_i <- w_i (1 + y f_i) / 2, scaled to sum 1, then 0.999 w_i + 0.001 / N; u so with g.
Symbols  none
Cost     O(N D^2 + N D d + d^2) time a round for N = 12 experts and D = 50; memory
         O(N (D + d)^2). Of K > 2 classes K times that.
Bound    none for the whole; the log loss of the mixture is at most that of one expert and
         log N + T / 1000 or so.
Differs  no paper.

>>> from omkl import algorithms
>>> from omkl.checks import learners
>>> X, y = learners.Case("auto_classifier").stream(2000)
>>> y_hat = learners.Case("auto_classifier").learner().partial_fit(X, y).y_hat
>>> int((y * y_hat <= 0.0).sum())
18
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from omkl.algorithms.auto import Group, cauchy, drawn, named, normal, pairs, predict, select, single
from omkl.core.kernels import Kernel
from omkl.core.protocol import register
from omkl.core.representations import mixture_of_experts
from omkl.core.representations.mixture_of_experts import LOGISTIC_MIXTURE, LogisticMixture

WAVE_VARIANCE = 30.0  # of a coefficient of a wave before the first label: 10 to 100 do as well
LINEAR_DECAY, WAVE_DECAY = 0.98, 0.996  # memories of 50 and 250 rounds

GROUPS = tuple(
    group._replace(lam=1.0 / WAVE_VARIANCE)
    for group in (
        Group("linear", False, lengths=(3.0, 1.0)),
        Group("linear, lags, fading", True, LINEAR_DECAY),
        Group("gaussian", False, 1.0, normal, 50, (0.5, 1.0)),
        Group("gaussian, fading", False, WAVE_DECAY, normal, 25, (1.0,)),
        Group("laplacian", False, 1.0, cauchy, 50, (1.0,)),
        Group("single inputs", False, 1.0, single, 25, (0.25, 0.5)),
        Group("pairs", False, 1.0, pairs, 50, (1.0,)),
    )
)


class Params(NamedTuple):
    pass


class State(NamedTuple):
    model: LogisticMixture
    log_w: np.ndarray  # (12,) of the experts' weights in p
    updates: np.ndarray  # (12,) rounds from which an expert learned: all of them


def kernels(params: Params, dictionary: Sequence[Kernel]) -> Sequence[Kernel]:
    return named(GROUPS)


def fresh(params: Any, kernels: Sequence[Kernel], d: int, D: int, seed: int) -> LogisticMixture:
    """Experts and mixtures that have learned nothing; D has no say."""
    experts = drawn(GROUPS, d, seed)
    first = experts.first
    for i, length in enumerate(length for group in GROUPS for length in group.lengths):
        start = 2 * first.n_waves[i]
        first.diagonal[i, start:] = 1.0 if start else length**-2
        if not start:
            first.ceiling[i] = length**-2
    return mixture_of_experts.fresh_logistic(experts)


def init(params: Params, dictionary: Sequence[Kernel], model: LogisticMixture) -> State:
    return State(model, np.log(model.w), np.zeros(model.n_kernels))


def update(params, state, t, y, selection):
    mixture_of_experts.learn_logistic(state.model, selection.scratch, selection.f, y)
    for i in range(state.log_w.shape[0]):
        state.log_w[i] = math.log(state.model.w[i])
        state.updates[i] += 1.0


AUTO_CLASSIFIER = LOGISTIC_MIXTURE._replace(fresh=fresh, accepts_blanks=True, uses_D=False)

algorithm = register(
    __name__,
    representation=AUTO_CLASSIFIER,
    task="classification",
    every_kernel=True,
    kernels=kernels,
    deterministic=False,
    probabilities=True,
)
