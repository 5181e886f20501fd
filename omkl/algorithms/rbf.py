"""RBF: online regression with one exact Gaussian kernel exp(-||x - x'||^2 / bandwidth).

Paper    D. Sahoo, S. C. H. Hoi, B. Li, "Online Multiple Kernel Regression", KDD 2014, its
         single-kernel baseline; RBF-1 (bandwidth 1) of Ghari and Shen, "Graph-Aided Online
         Multi-Kernel Learning", JMLR.
Task     regression; full information.
Round    1. Predict f(x_t) = sum over s < t of alpha_s kappa(x_s, x_t).
         2. alpha_t = -eta_t (f(x_t) - y_t).
Symbols  eta        step size, > 0, a schedule in t
         bandwidth  of the kernel as written above, > 0; note that there is no 2 in it
Cost     O(t d) time a round; O(T d) memory, growing with the stream.
Bound    O(sqrt(T)) against the best function of the kernel's space; bounded squared losses.
Differs  none. The dictionary (kernels=...) is not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from omkl.core.hyperparameters import POSITIVE, Schedule, rate
from omkl.core.kernels import Kernel
from omkl.core.protocol import choose_all, register
from omkl.core.representations.support_vectors import GROWING, Expansion, append


class Params(NamedTuple):
    eta: Schedule
    bandwidth: POSITIVE


class State(NamedTuple):
    model: Expansion
    log_w: np.ndarray  # (1,) the only kernel has all the weight


def kernels(params: Params, dictionary: Sequence[Kernel]) -> Sequence[Kernel]:
    return (Kernel("gaussian", 0.5 * params.bandwidth),)  # a Gaussian's bandwidth is its variance


def init(params: Params, dictionary: Sequence[Kernel], model: Expansion) -> State:
    return State(model, np.zeros(1))


def select(params, state, t, rng, selection):
    choose_all(selection)


def predict(params, state, t, selection):
    return selection.f[0], True


def update(params, state, t, y, selection):
    state.model.alpha[0, state.model.n[0]] = -rate(params.eta, t) * (selection.f[0] - y)
    append(state.model)


EXPECTED_FAILURES = {
    "bounded_memory": "exact kernels keep every row: the curse of dimensionality",
}

algorithm = register(__name__, representation=GROWING, every_kernel=True, kernels=kernels)
