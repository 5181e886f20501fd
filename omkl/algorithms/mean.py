"""Running mean of the labels: what a regression has to beat to have learned anything from x.

Paper    none; the comparator that R2 is measured against, made causal.
Task     regression; full information; no kernel, nothing to choose.
Round    Predict (y_1 + ... + y_{t-1}) / (t - 1), and 0 in the first round.
Symbols  none
Cost     O(1) time a round; O(1) memory.
Bound    sum (y_hat_t - y_t)^2 <= min over c of sum (c - y_t)^2 + 8 Y^2 (1 + ln T), for |y| <= Y
         (N. Cesa-Bianchi, G. Lugosi, "Prediction, Learning, and Games", 2006, theorem 3.1).
Differs  none.

After the labels 1, 2, 6 it says 3:

>>> import numpy as np
>>> from omkl import algorithms
>>> from omkl.core.learner import Learner
>>> mean = algorithms.load("mean")
>>> learner = Learner(mean, mean.Params(), (), d=1, D=1, seed=0)
>>> learner.partial_fit(np.zeros((4, 1)), np.array([1.0, 2.0, 6.0, 0.0])).y_hat.tolist()
[0.0, 1.0, 1.5, 3.0]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from omkl.core.kernels import Kernel
from omkl.core.protocol import choose_all, register
from omkl.core.representations.experts import CONSTANT, Constant


class Params(NamedTuple):
    pass


class State(NamedTuple):
    model: Constant
    log_w: np.ndarray  # (1,)
    total: np.ndarray  # (1,) sum of the labels


def kernels(params: Params, dictionary: Sequence[Kernel]) -> Sequence[Kernel]:
    return (Kernel("constant", 1.0),)


def init(params: Params, dictionary: Sequence[Kernel], model: Constant) -> State:
    return State(model, np.zeros(1), np.zeros(1))


def select(params, state, t, rng, selection):
    choose_all(selection)


def predict(params, state, t, selection):
    return selection.f[0], True


def update(params, state, t, y, selection):
    state.total[0] += y
    state.model.alpha[0, 0] = state.total[0] / t


EXPECTED_FAILURES = {"learns": "it does not look at x: it is what others have to beat"}

algorithm = register(
    __name__, representation=CONSTANT, every_kernel=True, kernels=kernels, equivariant=True
)
