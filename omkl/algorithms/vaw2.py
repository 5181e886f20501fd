"""VAW^2: a forecaster of Vovk, Azoury and Warmuth for each kernel, and one over them.

Paper    D. B. Rokhlin, O. V. Gurtovaya, "Random feature-based double Vovk-Azoury-Warmuth
         algorithm for online multi-kernel learning", arXiv 2503.20087 (2025).
Task     regression; full information; no step size.
Round    1. Each of the N kernels predicts f_i = z_i'A_i^-1 b_i with A_i = lam I + sum_{s<=t}
            z_i z_i', which has x_t in it already, and b_i = sum_{s<t} y_s z_i.
         2. second=vaw: the second level does the same with f = (f_1, .., f_N) in place of z_i:
            y_hat = f'B^-1 c, B = lam2 I + sum_{s<=t} f f', c = sum_{s<t} y_s f.
            second=weights: y_hat is the mean of the f_i weighted by
            w_i = exp(-sum_{s<t} (f_i - y_s)^2 / (8 Y^2)), with Y the largest |y_s| before.
Symbols  lam     regularisation of the first level, > 0
         lam2    of the second, > 0; without part where second=weights
         second  what the second level is: vaw or weights
Cost     O(N D^2 + N^2 + N D d) time a round; O(N D^2 + N^2) memory.
Bound    O(sqrt(T) ln T) against the best function of the kernels' sum, for D of order sqrt(T);
         at either level O(ln T) against the best fixed coefficients. With weights: at most
         8 Y^2 ln N above the best kernel, for |f_i| <= Y.
Reading  Its text is not at hand: what is here follows a summary, which names both second levels
         and a third form, all features in one forecaster: ``vaw_joint``. For the weights,
         1 / (8 Y^2) is the rate at which the squared loss is exp-concave on [-Y, Y]; for labels
         in [0, 1] and predictions kept there the rate 1/2 would do.
Differs  from the paper: not known.

>>> from omkl.checks import learners
>>> X, y = learners.stream(1000)
>>> def mse(**settings):
...     y_hat = learners.Case("vaw2").learner(**settings).partial_fit(X, y).y_hat
...     return f"{((y_hat - y) ** 2).mean():.6f}"
>>> mse(second="vaw"), mse(second="weights")
('0.005625', '0.006957')
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np

from omkl.core.hyperparameters import POSITIVE, Choice
from omkl.core.protocol import choose_all, register
from omkl.core.representations.second_order import STACKED_RLS, StackedRls, learn_both, learn_rounds
from omkl.core.weights import weighted_mean

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel

SECOND = Choice("vaw", "weights")
VAW = SECOND.index("vaw")


class Params(NamedTuple):
    lam: POSITIVE
    lam2: POSITIVE
    second: Annotated[int, SECOND]


class State(NamedTuple):
    model: StackedRls
    log_w: np.ndarray  # (N,) zeros where the second level has coefficients and no weights
    losses: np.ndarray  # (N,) sums of squared errors
    largest: np.ndarray  # (1,) the largest squared label


def init(params: Params, dictionary: Sequence[Kernel], model: StackedRls) -> State:
    N = len(dictionary)
    return State(model, np.zeros(N), np.zeros(N), np.zeros(1))


def select(params, state, t, rng, selection):
    choose_all(selection)


def predict(params, state, t, selection):
    if params.second == VAW:
        return selection.scratch.f[0], True
    return weighted_mean(state.log_w, selection.f, selection.combine, selection.n_combined[0]), True


def learn_ahead(params, state, t, X, y, row, selection):
    learn_rounds(state.model.first, selection.scratch.first, X, y, row)


def update(params, state, t, y, selection):
    if params.second != VAW:
        state.largest[0] = max(state.largest[0], y * y)
        for i in range(selection.f.shape[0]):
            error = selection.f[i] - y
            state.losses[i] += error * error
            if state.largest[0] > 0.0:
                state.log_w[i] = -state.losses[i] / (8.0 * state.largest[0])
    learn_both(state.model, selection.scratch, selection.f, y)


algorithm = register(__name__, representation=STACKED_RLS, every_kernel=True)
