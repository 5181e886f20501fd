"""OMKL-B: OMKL on a budget, exact kernels over the most recent rows.

Paper    the baseline of S. Hong, J. Chae, "Active Learning with Multiple Kernels", section V,
         which names J. Kivinen, A. J. Smola, R. C. Williamson, "Online Learning with
         Kernels", IEEE Transactions on Signal Processing 52 (2004), for it.
Task     regression; full information.
Round    1. f_i(x_t) = sum of alpha_{i,s} kappa_i(x_s, x_t) over the ``budget`` rows before t.
         2. Predict the mean of the f_i weighted by w_i.
         3. alpha_{i,s} <- (1 - eta_t lam) alpha_{i,s} for all s held, and
            alpha_{i,t} = -eta_t (f_i(x_t) - y_t): the step of Kivinen, Smola and Williamson for
            the loss (f - y)^2 / 2 + (lam / 2) ||f||^2.
         4. w_i <- w_i beta^(f_i(x_t) - y_t)^2, as OMKR.
         5. Where more than ``budget`` rows are held, drop the oldest.
Symbols  eta     step size of the coefficients, > 0, a schedule in t
         lam     regularisation, >= 0
         beta    discount of the weights, in (0, 1)
         budget  rows held, >= 1 (section V: 50)
Cost     O(budget (N + d)) time a round; O(budget (N + d)) memory.
Bound    none of the combination; the rows dropped weigh (1 - eta lam)^budget at most, which is
         small where eta lam budget is large.
Differs  from the paper: none. Readings: "on a budget" is the truncation of the paper that is
         named: coefficients fade geometrically and the oldest are dropped. It has a single
         kernel; the combination is that of OMKL (Sahoo, Hoi and Li, KDD 2014; ``omkr``), which
         this is with lam = 0 and a budget that is never full.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from omkl.algorithms.omkr import State, init, predict, select
from omkl.core.hyperparameters import FRACTION, NON_NEGATIVE, SIZE, Schedule, rate
from omkl.core.protocol import register
from omkl.core.representations.support_vectors import SLIDING, append, fade_and_add


class Params(NamedTuple):
    eta: Schedule
    lam: NON_NEGATIVE
    beta: FRACTION
    budget: SIZE


def update(params, state, t, y, selection):
    eta = rate(params.eta, t)
    discount = math.log(params.beta)
    fade = 1.0 - eta * params.lam
    for i in range(selection.f.shape[0]):
        error = selection.f[i] - y
        fade_and_add(state.model, i, fade, -eta * error)
        state.log_w[i] += discount * error * error
    append(state.model)


EXPECTED_FAILURES = {
    "one_kernel": "its coefficients fade, and the oldest rows are dropped",
    "learns": "steps of 1/sqrt(T) from 50 rows are too little",
}

algorithm = register(__name__, representation=SLIDING, every_kernel=True)
