"""Raker as the numbers of Hong and Chae say it was run: theta and the weights step apart.

Paper    S. Hong, J. Chae, "Active Learning with Multiple Kernels", tables II and III; the
         algorithm is that of Shen, Chen and Giannakis, JMLR 2019.
Task     regression; full information.
Round    As Raker, but w_i <- w_i exp(-eta_g L_i(theta_i)) with a step of its own.
Symbols  eta    step size of theta, > 0, a schedule in t
         eta_g  step size of the weights, > 0, a schedule in t
         lam    regularisation, >= 0
Cost     as ``raker``.
Bound    as ``raker`` where eta and eta_g are of order 1/sqrt(T).
Differs  from the paper: none while eta = eta_g. The published numbers ask for eta = 50/sqrt(T),
         eta_g = 1/sqrt(T) and lam = 1e-3 at D = 50: features that are not divided by sqrt(D)
         make the steps of theta D times as large and leave those of the weights alone. Below
         T = 2,506 that eta is above 1 / (1 + lam), where gradient descent does not settle but
         diverges: a run with it is told. No recipe for short streams.
"""

from __future__ import annotations

from typing import NamedTuple

from omkl.algorithms.omkl_aks import reweigh
from omkl.algorithms.raker import State, init, local_step, predict, select, step_size
from omkl.core.hyperparameters import NON_NEGATIVE, Schedule
from omkl.core.protocol import register
from omkl.core.representations.blocked import LOCAL_FEATURES


class Params(NamedTuple):
    eta: Schedule
    eta_g: Schedule
    lam: NON_NEGATIVE


algorithm = register(__name__, representation=LOCAL_FEATURES)
