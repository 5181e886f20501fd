"""VAW on all features: one forecaster of Vovk, Azoury and Warmuth for all kernels together.

Paper    D. B. Rokhlin, O. V. Gurtovaya, arXiv 2503.20087 (2025): a variant beside their VAW^2.
Task     regression; full information; no step size.
Round    1. Join the random features of the N kernels, z = (z_1, .., z_N), and predict z'A^-1 b
            with A = lam I + sum_{s<=t} z z' and b = sum_{s<t} y_s z.
         2. Take y_t z into b.
Symbols  lam  regularisation, > 0
Cost     O(N^2 D^2 + N D d) time a round; O(N^2 D^2) memory: N times those of ``vaw2``.
Bound    that of ``ridge`` with 2 N D in place of d + 1 and Z^2 = N.
Reading  Its text is not at hand: from a summary, which names this form. A kernel has no weight,
         and its f_i is its part of the prediction.
Differs  from the paper: not known.

>>> from omkl.checks import learners
>>> X, y = learners.stream(1000)
>>> y_hat = learners.Case("vaw_joint").learner().partial_fit(X, y).y_hat
>>> f"{((y_hat - y) ** 2).mean():.6f}"
'0.019790'
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from omkl.core.hyperparameters import POSITIVE
from omkl.core.protocol import choose_all, register
from omkl.core.representations.second_order import JOINT_RLS, JointRls, learn_every

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Params(NamedTuple):
    lam: POSITIVE


class State(NamedTuple):
    model: JointRls
    log_w: np.ndarray  # (N,) zeros: kernels have coefficients and no weights


def init(params: Params, dictionary: Sequence[Kernel], model: JointRls) -> State:
    return State(model, np.zeros(len(dictionary)))


def select(params, state, t, rng, selection):
    choose_all(selection)


def predict(params, state, t, selection):
    return selection.scratch.f[0], True


def update(params, state, t, y, selection):
    learn_every(state.model.all, selection.scratch.all, selection.scratch.f, y)


algorithm = register(__name__, representation=JOINT_RLS, every_kernel=True)
