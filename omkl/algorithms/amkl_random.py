"""random labels: AMKL that asks at random, which its own choice of labels has to beat.

Paper    none; the baseline of S. Hong, J. Chae, "Active Learning with Multiple Kernels", that
         the paper leaves out: algorithm 2 with a coin in place of criterion (33).
Task     regression; queried labels.
Round    1. Evaluate all kernels and predict the mean of the f_i weighted by w_i, as AMKL.
         2. If one of the last M labels was asked for, throw a coin: with probability 1 - rate do
            not ask, and change nothing.
         3. Else ask for y_t and learn as AMKL, (37) and (39).
Symbols  eta    step size of theta, > 0, a schedule in t
         eta_g  step size of the weights, > 0, a schedule in t
         lam    regularisation, >= 0
         rate   probability of asking where nothing forces it, in [0, 1]; 1: every label
         M      rows in a row without a label, at most, >= 1
Cost     O(N D d) time a round; O(N D d) memory.
Bound    none of its own. At least one label in M + 1 is asked for, as (35) has it for AMKL.
Differs  none. From one label to the next there are (1 - (1 - rate)^(M + 1)) / rate rows on
         average, so the share of labels tends to one over that: 1 / (2 - rate) with M = 1. A rate
         of 2 - 1 / s asks as often as an AMKL of share s with M = 1, and the pair differs in
         which labels it asks for alone. One coin is thrown every round, needed or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np

from omkl.algorithms.amkl import update
from omkl.core.hyperparameters import COUNT, COUNTS, NON_NEGATIVE, Range, Schedule
from omkl.core.protocol import choose_all, register
from omkl.core.representations.random_features import RANDOM_FEATURES, RandomFeatures
from omkl.core.weights import mean_of_all

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Params(NamedTuple):
    eta: Schedule
    eta_g: Schedule
    lam: NON_NEGATIVE
    rate: Annotated[float, Range(0.0, 1.0)]
    M: COUNT


class State(NamedTuple):
    model: RandomFeatures
    log_w: np.ndarray  # (N,)
    unlabelled: COUNTS  # (1,) rows since the last label; M before the first
    coin: np.ndarray  # (1,) of this round, uniform in [0, 1)


def init(params: Params, dictionary: Sequence[Kernel], model: RandomFeatures) -> State:
    return State(model, np.zeros(len(dictionary)), np.array([params.M]), np.zeros(1))


def select(params, state, t, rng, selection):
    choose_all(selection)
    state.coin[0] = rng.random()


def predict(params, state, t, selection):
    y_hat = mean_of_all(state.log_w, selection.f)
    return y_hat, state.unlabelled[0] >= params.M or state.coin[0] < params.rate


algorithm = register(__name__, representation=RANDOM_FEATURES, every_kernel=True, queries=True)
