"""Auto for classes: the experts and mixtures of ``auto`` on labels -1 and +1.

Paper    none; see ``auto``.
Task     classification; full information; nothing to choose: dictionary and D do not matter.
Round    That of ``auto`` for the labels -1 and +1; a mistake where the label times the prediction
         is not positive. Squared loss is proper: (1 + y_hat) / 2, cut to [0, 1], estimates the
         probability of +1.
Symbols  none
Cost     as ``auto``; of K > 2 classes K times that.
Bound    none.
Differs  no paper.

>>> from omkl import algorithms
>>> from omkl.checks import learners
>>> X, y = learners.Case("auto_classifier").stream(2000)
>>> y_hat = learners.Case("auto_classifier").learner().partial_fit(X, y).y_hat
>>> int((y * y_hat <= 0.0).sum())
22
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from omkl.algorithms.auto import AUTO, kernels, learn_and_weigh, predict, select
from omkl.core.kernels import Kernel
from omkl.core.protocol import register
from omkl.core.representations.mixed import Mixed


class Params(NamedTuple):
    pass


class State(NamedTuple):
    model: Mixed
    log_w: np.ndarray  # (26,) as of ``auto``
    updates: np.ndarray  # (26,) rounds from which an expert learned: all of them


def init(params: Params, dictionary: Sequence[Kernel], model: Mixed) -> State:
    return State(model, np.zeros(model.n_kernels), np.zeros(model.n_kernels))


def update(params, state, t, y, selection):
    learn_and_weigh(state, t, y, selection)
    for i in range(state.updates.shape[0]):
        state.updates[i] += 1.0


algorithm = register(
    __name__,
    representation=AUTO,
    task="classification",
    every_kernel=True,
    kernels=kernels,
    deterministic=False,
)
