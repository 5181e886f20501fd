"""Raker, OMKL-GF and OMKL-SFG as classifiers, with the logistic loss in place of squared errors.

Assumption (as1) of P. M. Ghari and Y. Shen, "Graph-Aided Online Multi-Kernel Learning", JMLR,
requires a convex loss of f = theta'z. Their experiments are regressions. Here the loss is
L(f) = ln(1 + exp(-y f)) for the classes y of -1 and +1.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from omkl.algorithms import gf as paper_gf
from omkl.algorithms import sfg as paper_sfg
from omkl.algorithms.parts import State, init, predict_mean, select_all
from omkl.core.compiler import inlined
from omkl.core.graph_sampling import probability
from omkl.core.hyperparameters import (
    COUNT,
    COUNT_OR_ZERO,
    NODES,
    NON_NEGATIVE,
    RATE,
    UP_TO_N,
    Schedule,
    rate,
)
from omkl.core.protocol import register_as
from omkl.core.representations.random_features import RANDOM_FEATURES, gradient_step
from omkl.core.weights import mean_by_shares

NO_PERCEPTRON = {"one_kernel": "a single kernel is logistic regression, and no Perceptron"}


@inlined
def loss(margin):
    """Return ln(1 + exp(-margin)) without overflow."""
    return max(-margin, 0.0) + math.log1p(math.exp(-abs(margin)))


@inlined
def learn(params, state, i, m, y, step, selection):
    """Update w_i and theta_i, both by the loss of the old theta_i.

    Parameters
    ----------
    params, state
        Parameters, and the state, which is updated.
    i, m
        Index of the kernel, and its position among the evaluated kernels.
    y
        Target, -1 or +1.
    step
        Step size.
    selection
        Evaluated round.
    """
    margin = y * selection.f[i]
    state.log_w[i] -= step * (loss(margin) + params.lam * state.model.norm2[i])
    slope = -y * math.exp(-loss(-margin))  # dL/df = -y / (1 + exp(margin))
    gradient_step(state.model, i, m, selection.scratch, step * slope, 1.0 - 2.0 * step * params.lam)


@inlined
def learn_evaluated(params, state, t, y, selection):
    """Update every evaluated kernel, with a step divided by its probability of evaluation q."""
    eta = rate(params.eta, t)
    for m in range(selection.n_evaluated[0]):
        i = selection.evaluate[m]
        learn(params, state, i, m, y, eta / state.q[i], selection)


@register_as(
    "logistic/raker",
    representation=RANDOM_FEATURES,
    task="classification",
    expected_failures=NO_PERCEPTRON,
)
class Raker:
    """Raker with the logistic loss: every kernel is a logistic regression on random features.

    Paper    Y. Shen, T. Chen, G. B. Giannakis, "Random Feature-based Online Multi-kernel Learning
             in Environments with Unknown Dynamics", JMLR 2019; the loss of (as1) is ours.
    Task     classification, labels -1 and +1; full information.
    Round    1. Predict the sign of the mean of f_i = theta_i'z_i weighted by w_i.
             2. theta_i <- theta_i - eta grad L_i(theta_i), w_i <- w_i exp(-eta L_i(theta_i)), both
                at the theta_i before, L_i(theta) = ln(1 + exp(-y theta'z_i)) + lam ||theta||^2.
    Symbols  eta  step size of theta and of the weights, > 0, a schedule in t
             lam  regularisation, >= 0
    Cost     as ``raker``.
    Bound    as ``raker``: the logistic loss is convex, and its slope is at most 1.
    Differs  from the paper (``raker``): the loss.
    """

    class Params(NamedTuple):
        eta: Schedule
        lam: NON_NEGATIVE

    State, init, select, predict = State, init, select_all, predict_mean

    @staticmethod
    def update(params, state, t, y, selection):
        eta = rate(params.eta, t)
        for i in range(selection.f.shape[0]):
            learn(params, state, i, i, y, eta, selection)


@register_as(
    "logistic/gf",
    representation=RANDOM_FEATURES,
    task="classification",
    expected_failures={**NO_PERCEPTRON, **paper_gf.EXPECTED_FAILURES},
)
class Gf:
    """OMKL-GF with the logistic loss.

    Paper    P. M. Ghari, Y. Shen, "Graph-Aided Online Multi-Kernel Learning", JMLR, algorithms 1, 2
             and 3; the loss of (as1) is ours.
    Task     classification, labels -1 and +1; selected kernels (at most M a round).
    Round    as ``gf``, with L_i(theta) = ln(1 + exp(-y theta'z_i)) + lam ||theta||^2.
    Symbols  eta, eta_e, lam, M, J, freeze   as in OMKL-GF
    Cost     as ``gf``.
    Bound    as ``gf``.
    Differs  from the paper (``gf``): the loss.
    """

    class Params(NamedTuple):
        eta: Schedule
        eta_e: RATE
        lam: NON_NEGATIVE
        M: UP_TO_N
        J: NODES
        freeze: COUNT

    State, init = paper_gf.State, paper_gf.init
    select, predict, update = paper_gf.select, paper_gf.predict, learn_evaluated


@register_as(
    "logistic/sfg",
    representation=RANDOM_FEATURES,
    task="classification",
    expected_failures=NO_PERCEPTRON,
)
class Sfg:
    """OMKL-SFG with the logistic loss.

    Paper    P. M. Ghari, Y. Shen, "Graph-Aided Online Multi-Kernel Learning", JMLR, algorithms 4
             and 5; the loss of (as1) is ours.
    Task     classification, labels -1 and +1; selected kernels (exactly M a round).
    Round    as ``sfg``, with L_i(theta) = ln(1 + exp(-y theta'z_i)) + lam ||theta||^2; for the
             node, u <- u exp(-eta ln(1 + exp(-y y_hat)) / p).
    Symbols  eta, xi, lam, M, explore   as in OMKL-SFG
    Cost     as ``sfg``.
    Bound    as ``sfg``.
    Differs  from the paper (``sfg``): the loss.
    """

    class Params(NamedTuple):
        eta: Schedule
        xi: RATE
        lam: NON_NEGATIVE
        M: UP_TO_N
        explore: COUNT_OR_ZERO

    State, select, predict = paper_sfg.GraphState, paper_sfg.select_node, paper_sfg.predict

    @staticmethod
    def init(params: Any, dictionary: Any, model: Any) -> paper_sfg.GraphState:
        edges = paper_sfg.graph(tuple(dictionary), model.omega.shape[1], params.M, 0)
        return paper_sfg.on_graph(edges, model)

    @staticmethod
    def update(params, state, t, y, selection):
        node, n = state.node[0], selection.n_combined[0]
        y_hat = mean_by_shares(state.w, selection.f, selection.combine, n)
        p = probability(state.trees, node, rate(params.xi, t))
        state.log_u[node] -= rate(params.eta, t) / p * loss(y * y_hat)
        learn_evaluated(params, state, t, y, selection)
