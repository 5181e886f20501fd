"""VAW^2: a forecaster of Vovk, Azoury and Warmuth for each kernel, and one over them.

Paper    D. B. Rokhlin, O. V. Gurtovaya, "Random feature-based double Vovk-Azoury-Warmuth
         algorithm for online multi-kernel learning", arXiv 2503.20087 (2025). From the summary of
         it at hand, not from its text.
Task     regression; full information; no step size.
Round    1. Each of the N kernels predicts p_i = z_i'A_i^-1 b_i with A_i = lam I + sum_{s<=t}
            z_i z_i', which has x_t in it already, and b_i = sum_{s<t} y_s z_i.
         2. The second level does the same with the vector p = (p_1, .., p_N) in place of z_i:
            y_hat = p'B^-1 c, B = lam2 I + sum_{s<=t} p p', c = sum_{s<t} y_s p.
Symbols  lam   regularisation of the first level, > 0
         lam2  of the second, > 0
Cost     O(N D^2 + N^2 + N D d) time a round; O(N D^2 + N^2) memory.
Bound    O(sqrt(T) ln T) against the best function of the kernels' sum, for D of order sqrt(T);
         at either level O(ln T) against the best fixed coefficients.
Differs  from the paper: not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from omkl.core.hyperparameters import POSITIVE
from omkl.core.protocol import choose_all, register
from omkl.core.representations.stacked import STACKED, Stacked, learn_both

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Params(NamedTuple):
    lam: POSITIVE
    lam2: POSITIVE


class State(NamedTuple):
    model: Stacked
    log_w: np.ndarray  # (N,) zeros: the second level has coefficients and no weights


def init(params: Params, dictionary: Sequence[Kernel], model: Stacked) -> State:
    return State(model, np.zeros(len(dictionary)))


def select(params, state, t, rng, selection):
    choose_all(selection)


def predict(params, state, t, selection):
    return selection.scratch.y_hat[0], True


def update(params, state, t, y, selection):
    learn_both(state.model, selection.scratch, selection.f, y)


algorithm = register(__name__, representation=STACKED, every_kernel=True)
