"""Last label: what a regression has to beat where labels move slowly.

Paper    none; the persistence or no-change forecast of time series.
Task     regression; full information; no kernel, nothing to choose.
Round    Predict y_{t-1}, and 0 in the first round.
Symbols  none
Cost     O(1) time a round; O(1) memory.
Bound    none.
Differs  none.

After the labels 1, 2, 6 it says 6:

>>> import numpy as np
>>> from omkl import algorithms
>>> from omkl.core.learner import Learner
>>> last = algorithms.load("last")
>>> learner = Learner(last, last.Params(), (), d=1, D=1, seed=0)
>>> learner.partial_fit(np.zeros((4, 1)), np.array([1.0, 2.0, 6.0, 0.0])).y_hat.tolist()
[0.0, 1.0, 2.0, 6.0]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from omkl.algorithms.mean import kernels, predict, select
from omkl.core.kernels import Kernel
from omkl.core.protocol import register
from omkl.core.representations.experts import CONSTANT, Constant


class Params(NamedTuple):
    pass


class State(NamedTuple):
    model: Constant
    log_w: np.ndarray  # (1,)


def init(params: Params, dictionary: Sequence[Kernel], model: Constant) -> State:
    return State(model, np.zeros(1))


def update(params, state, t, y, selection):
    state.model.alpha[0, 0] = y


EXPECTED_FAILURES = {"learns": "it does not look at x: it is what others have to beat"}

algorithm = register(
    __name__, representation=CONSTANT, every_kernel=True, kernels=kernels, equivariant=True
)
