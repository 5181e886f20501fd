"""Baselines: the mean, the last target, and a single kernel by gradient steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from omkl.algorithms.parts import State, gaussian_kernel, init, predict_only, select_all
from omkl.core.hyperparameters import NON_NEGATIVE, POSITIVE, Range, Schedule, rate
from omkl.core.kernels import MOST_DEGREE, Kernel
from omkl.core.protocol import register_as
from omkl.core.representations.experts import CONSTANT, Constant
from omkl.core.representations.random_features import RANDOM_FEATURES, gradient_step
from omkl.core.representations.support_vectors import GROWING, append


def constant(params: Any, dictionary: Sequence[Kernel], d: int) -> Sequence[Kernel]:
    return (Kernel("constant", 1.0),)


LOOKS_AT_NO_INPUT = {"learns": "it does not look at x: it is a baseline for other algorithms"}


@register_as(
    "mean",
    representation=CONSTANT,
    kernels=constant,
    equivariant=True,
    reads_uncut=True,
    expected_failures=LOOKS_AT_NO_INPUT,
)
class Mean:
    """Running mean of the targets: the baseline that any use of the inputs should beat.

    Paper    none. R2 compares with a similar baseline, the mean of all targets.
    Task     regression; full information; no kernel, no parameters.
    Round    Predict (y_1 + ... + y_{t-1}) / (t - 1), and 0 in the first round.
    Symbols  none
    Cost     O(1) time per round; O(1) memory.
    Bound    sum (y_hat_t - y_t)^2 <= min over c of sum (c - y_t)^2 + 8 Y^2 (1 + ln T), for |y| <= Y
             (N. Cesa-Bianchi, G. Lugosi, "Prediction, Learning, and Games", 2006, theorem 3.1).
    Differs  none.

    After the targets 1, 2, 6 it predicts 3:

    >>> import numpy as np
    >>> from omkl import algorithms
    >>> from omkl.core.learner import Learner
    >>> mean = algorithms.load("mean")
    >>> learner = Learner(mean, mean.Params(), (), d=1, D=1, seed=0)
    >>> learner.partial_fit(np.zeros((4, 1)), np.array([1.0, 2.0, 6.0, 0.0])).y_hat.tolist()
    [0.0, 1.0, 1.5, 3.0]
    """

    class Params(NamedTuple):
        pass

    class State(NamedTuple):
        model: Constant
        log_w: np.ndarray  # (1,)
        total: np.ndarray  # (1,) sum of the labels

    select, predict = select_all, predict_only

    @staticmethod
    def init(params: Any, dictionary: Sequence[Kernel], model: Constant) -> Mean.State:
        return Mean.State(model, np.zeros(1), np.zeros(1))

    @staticmethod
    def update(params, state, t, y, selection):
        state.total[0] += y
        state.model.alpha[0, 0] = state.total[0] / t


@register_as(
    "last",
    representation=CONSTANT,
    kernels=constant,
    equivariant=True,
    reads_uncut=True,
    expected_failures=LOOKS_AT_NO_INPUT,
)
class Last:
    """Last target: a strong baseline if targets change slowly.

    Paper    none; the persistence or no-change forecast of time series.
    Task     regression; full information; no kernel, no parameters.
    Round    Predict y_{t-1}, and 0 in the first round.
    Symbols  none
    Cost     O(1) time per round; O(1) memory.
    Bound    none.
    Differs  none.

    After the targets 1, 2, 6 it predicts 6:

    >>> import numpy as np
    >>> from omkl import algorithms
    >>> from omkl.core.learner import Learner
    >>> last = algorithms.load("last")
    >>> learner = Learner(last, last.Params(), (), d=1, D=1, seed=0)
    >>> learner.partial_fit(np.zeros((4, 1)), np.array([1.0, 2.0, 6.0, 0.0])).y_hat.tolist()
    [0.0, 1.0, 2.0, 6.0]
    """

    class Params(NamedTuple):
        pass

    State, init, select, predict = State, init, select_all, predict_only

    @staticmethod
    def update(params, state, t, y, selection):
        state.model.alpha[0, 0] = y


def update_expansion(params, state, t, y, selection):
    state.model.alpha[0, state.model.n[0]] = -rate(params.eta, t) * (selection.f[0] - y)
    append(state.model)


KEEPS_EVERY_ROW = {"bounded_memory": "exact kernels keep every row: the curse of dimensionality"}


@register_as(
    "rbf", representation=GROWING, kernels=gaussian_kernel, expected_failures=KEEPS_EVERY_ROW
)
class Rbf:
    """RBF: online regression with one exact Gaussian kernel exp(-||x - x'||^2 / bandwidth).

    Paper    D. Sahoo, S. C. H. Hoi, B. Li, "Online Multiple Kernel Regression", KDD 2014, its
             single-kernel baseline; RBF-1 (bandwidth 1) of Ghari and Shen, "Graph-Aided Online
             Multi-Kernel Learning", JMLR.
    Task     regression; full information.
    Round    1. Predict f(x_t) = sum over s < t of alpha_s kappa(x_s, x_t).
             2. alpha_t = -eta_t (f(x_t) - y_t).
    Symbols  eta        step size, > 0, a schedule in t
             bandwidth  of the kernel as written above, without a factor 2, > 0
    Cost     O(t d) time per round; O(T d) memory, growing with the stream.
    Bound    O(sqrt(T)) against the best function of the kernel's space; bounded squared losses.
    Differs  none. The dictionary (kernels=...) is not used.
    """

    class Params(NamedTuple):
        eta: Schedule
        bandwidth: POSITIVE

    State, init, select, predict = State, init, select_all, predict_only
    update = update_expansion


def polynomial(params: Any, dictionary: Sequence[Kernel], d: int) -> Sequence[Kernel]:
    return (Kernel("polynomial", float(params.degree)),)


@register_as(
    "poly",
    representation=GROWING,
    kernels=polynomial,
    expected_failures={**KEEPS_EVERY_ROW, "learns": "the check's target is no quadratic form"},
)
class Poly:
    """POLY: online regression with one exact polynomial kernel, kappa(x, z) = (x^T z)^degree.

    Paper    D. Sahoo, S. C. H. Hoi, B. Li, "Online Multiple Kernel Regression", KDD 2014, its
             single-kernel baseline; POLY-2 (degree 2) of Ghari and Shen, "Graph-Aided Online
             Multi-Kernel Learning", JMLR.
    Task     regression; full information.
    Round    1. Predict f(x_t) = sum over s < t of alpha_s (x_s^T x_t)^degree.
             2. alpha_t = -eta_t (f(x_t) - y_t).
    Symbols  eta     step size, > 0, a schedule in t
             degree  degree of the polynomial, >= 1; the kernel has no constant term
    Cost     O(t d) time per round; O(T d) memory, growing with the stream.
    Bound    O(sqrt(T)) against the best function of the kernel's space; bounded squared losses.
    Differs  none. The dictionary (kernels=...) is not used.
    """

    class Params(NamedTuple):
        eta: Schedule
        degree: Annotated[int, Range(1, MOST_DEGREE)]

    State, init, select, predict = State, init, select_all, predict_only
    update = update_expansion


@register_as("fogd", representation=RANDOM_FEATURES, kernels=gaussian_kernel)
class Fogd:
    """FOGD: Fourier online gradient descent, one Gaussian kernel on random features.

    Paper    J. Lu, S. C. H. Hoi, J. Wang, P. Zhao, Z.-Y. Liu, "Large Scale Online Kernel Learning",
             JMLR 17 (2016), the regression.
    Task     regression; full information.
    Round    1. Predict f(x_t) = theta'z(x_t) with 2 D random features z.
             2. If |f - y_t| > tolerance: theta <- theta - eta_t (f - y_t) z(x_t).
    Symbols  eta        step size, > 0, a schedule in t
             bandwidth  of the kernel exp(-||x - x'||^2 / bandwidth), without a factor 2, > 0
             tolerance  largest error without an update, >= 0 (0)
    Cost     O(D d) time per round; O(D d) memory.
    Bound    O(sqrt(T)) against the best function of the kernel's space, with high probability, for
             eta of order 1/sqrt(T) and D large enough; Lipschitz losses.
    Reading  Only the paper's abstract and the first author's code, FouGD.m, were available.
             Features have norm 1 here and norm sqrt(D) in the code. So the code's eta is eta / D of
             this class, and its sigma is sqrt(bandwidth / 2).
    Differs  from the code: none. The dictionary (kernels=...) only sets ``features``.

    The distance to a repeated target shrinks by the factor 1 - eta, as z'z = 1:

    >>> from omkl import algorithms
    >>> from omkl.core.hyperparameters import Schedule
    >>> from omkl.core.learner import Learner
    >>> fogd = algorithms.load("fogd")
    >>> params = fogd.Params(eta=Schedule(0.5, 0.0), bandwidth=1.0, tolerance=0.0)
    >>> learner = Learner(fogd, params, (), d=1, D=8, seed=0)
    >>> learner.partial_fit([[0.3], [0.3], [0.3]], [1.0, 1.0, 1.0]).y_hat.round(12).tolist()
    [0.0, 0.5, 0.75]
    """

    class Params(NamedTuple):
        eta: Schedule
        bandwidth: POSITIVE
        tolerance: NON_NEGATIVE

    State, init, select, predict = State, init, select_all, predict_only

    @staticmethod
    def update(params, state, t, y, selection):
        error = selection.f[0] - y
        if abs(error) > params.tolerance:
            step = rate(params.eta, t) * error
            gradient_step(state.model, 0, 0, selection.scratch, step, 1.0)
