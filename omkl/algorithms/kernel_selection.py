"""Online kernel selection: each round draws, evaluates and updates one kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from omkl.core.compiler import inlined
from omkl.core.graph_sampling import clear
from omkl.core.hyperparameters import EVALUATED_WITH, POSITIVE
from omkl.core.kernels import Kernel
from omkl.core.protocol import register_as
from omkl.core.representations.random_features import RANDOM_FEATURES, gradient_step
from omkl.core.weights import draw, shares_of_all

SMOOTHNESS = 4.0  # of the squared error e^2: the square of its slope 2 e over e^2


@inlined
def choose_one(selection, i):
    """Evaluate and combine kernel i alone."""
    selection.evaluate[0] = i
    selection.combine[0] = i
    selection.n_evaluated[0] = 1
    selection.n_combined[0] = 1


@register_as("oks_pp", representation=RANDOM_FEATURES)
class OksPp:
    """OKS++: one kernel per round, selected by exponential weights of its own observed losses.

    Paper    J. Li, S. Liao, "Improved Regret Bounds for Online Kernel Selection under Bandit
             Feedback", ECML PKDD 2022.
    Task     regression; selected kernels (one a round); neither step size nor rate.
    Round    With C = 4, and c = C^(1/3) (U N)^(2/3):
             1. q_i is proportional to exp(-rho H_i), rho = sqrt(2 ln N / (1 + B)), and
                p_i = (1 - delta) q_i + delta / N, delta = c / (2 max(c, 2 A^(1/3))). In round 1
                all are 1/N.
             2. Draw the kernel I from p; predict its output f = theta_I'z_I(x_t).
             3. l = (f - y_t)^2 / p_I: A <- A + l, B <- B + q_I l^2, H_I <- H_I + l.
             4. theta_I <- theta_I - 2 eta (f - y_t) / p_I z_I(x_t), with
                eta = sqrt(3/4) U^(4/3) / ((C^2 N)^(1/6) max(c^3, 8 A)^(1/6) sqrt(1 + H_I)).
             5. If ||theta_I|| > U: theta_I <- U theta_I / ||theta_I||.
    Symbols  U  largest norm of a kernel's function, > 0; the steps grow with it
    Cost     O(D d + N) time per round; O(N D d) memory.
    Bound    O(U^(2/3) N^(-1/3) (sum over kernels i of L_i)^(2/3)) in expectation, with L_i the loss
             of the best function of kernel i of norm <= U; smooth losses, exact kernels. Stated in
             the paper's abstract; its further conditions were not available.
    Reading  The paper's abstract and the authors' code for exact kernels, OKS++square.R, were
             available. Random features are those of RF-OKS++, whose code was not available:
             kappa(x, x) and ||z||^2 are both 1, so every formula stays the same.
    Differs  from the code: its kernels are exact, each over the rows in which it was drawn.

    >>> from omkl.checks import learners
    >>> X, y = learners.stream(1000)
    >>> y_hat = learners.Case("oks_pp").learner().partial_fit(X, y).y_hat
    >>> f"{((y_hat - y) ** 2).mean():.6f}"
    '0.035881'
    """

    class Params(NamedTuple):
        U: POSITIVE

    class State(NamedTuple):
        model: Any
        log_w: np.ndarray  # (N,) -rho H
        losses: np.ndarray  # (N,) H, sums of estimated losses
        total: np.ndarray  # (2,) A and B, of all kernels
        weights: np.ndarray  # (N,) q
        chances: np.ndarray  # (N,) p
        evaluated_with: EVALUATED_WITH  # (N,) p of the drawn one

    @staticmethod
    def init(params: Any, dictionary: Sequence[Kernel], model: Any) -> OksPp.State:
        N = len(dictionary)
        log_w, losses, weights, chances = np.zeros((4, N))
        drawn_with = np.full(N, np.nan)
        return OksPp.State(model, log_w, losses, np.zeros(2), weights, chances, drawn_with)

    @staticmethod
    def select(params, state, t, rng, selection):
        N = state.log_w.shape[0]
        c = (SMOOTHNESS * (params.U * N) ** 2) ** (1.0 / 3.0)
        delta = 0.5 * c / max(c, 2.0 * state.total[0] ** (1.0 / 3.0))
        shares_of_all(state.log_w, state.weights)
        for i in range(N):
            state.chances[i] = (1.0 - delta) * state.weights[i] + delta / N
        i = draw(state.chances, rng.random())
        clear(state.evaluated_with, selection.evaluate, selection.n_evaluated[0])
        choose_one(selection, i)
        state.evaluated_with[i] = state.chances[i]

    @staticmethod
    def predict(params, state, t, selection):
        return selection.f[selection.combine[0]], True

    @staticmethod
    def update(params, state, t, y, selection):
        model = state.model
        N = state.log_w.shape[0]
        i = selection.evaluate[0]
        error = selection.f[i] - y
        chance = state.chances[i]
        loss = error * error / chance
        state.total[0] += loss
        state.total[1] += state.weights[i] * loss * loss
        state.losses[i] += loss
        most = max(SMOOTHNESS * (params.U * N) ** 2, 8.0 * state.total[0])
        eta = math.sqrt(0.75) * params.U ** (4.0 / 3.0) / math.sqrt(1.0 + state.losses[i])
        eta /= (SMOOTHNESS * SMOOTHNESS * N * most) ** (1.0 / 6.0)
        step = 2.0 * eta * error / chance
        # Squared norm after the step. The features have norm 1.
        norm2 = model.norm2[i] - 2.0 * step * selection.f[i] + step * step
        shrink = min(1.0, params.U / math.sqrt(norm2)) if norm2 > 0.0 else 1.0
        gradient_step(model, i, 0, selection.scratch, shrink * step, shrink)
        rate = math.sqrt(2.0 * math.log(N) / (1.0 + state.total[1]))
        for k in range(N):
            state.log_w[k] = -rate * state.losses[k]
