"""DOMKL: online ADMM between neighbours for every kernel, weighted by the neighbours' losses.

Paper    J. Chae, S. Hong, "Distributed Online Learning with Multiple Kernels", arXiv 2102.12733,
         2021. Only its abstract was available; the rules are those of the authors' code
         (JeongminChae/MKL_Active_Learning, Domkl_online_rf.m).
Task     regression; K clients on a graph, or with a server.
Round    Client k has its own theta_ik and lambda_ik of all N kernels i, 0 at first. m_ik is the
         mean of its own theta_ik and of the theta_il that it last received from its neighbours l.
         1. It predicts the mean of the outputs f_ik = theta_ik'z_i(x) weighted by w_ik.
         2. lambda_ik <- lambda_ik + rho (theta_ik - m_ik) / 2.
         3. theta_ik <- the v, in closed form, that minimises (v'z_i - y)^2 + lambda_ik'v
            + c ||v - theta_ik||^2 / 2 + rho (theta_ik - m_ik)'v / 2.
         4. It sends theta_ik and the losses L_ik = (f_ik - y)^2 of the outputs in step 1.
            w_ik <- w_ik exp(-eta_w times the mean of its own and the received losses).
Symbols  c      weight of the previous theta, > 0; stable on every graph if c >= rho
         rho    weight of the neighbours' theta, >= 0
         eta_w  step size of the weights, > 0, a schedule
Cost     a client: O(N D d) time per round, N (2 D + 1) numbers sent to each neighbour,
         4 N D stored.
Bound    not available; the abstract mentions an optimal sublinear regret.
Reading  The code sums over the d neighbours of a client; the rules above take means. The code sets
         eta = 10, rho = 100, the step eta_g = 0.1 of the weights and D = 50, and its features lack
         the factor 1 / sqrt(D). If every client has d neighbours, the same updates result here from
         c = (eta + rho d) / D, from rho (1 + d) / D in place of the code's rho, and from
         eta_w = (1 + d) eta_g. On other graphs the means have the weights of
         ``omkl.federated.exchange``.
Differs  The code draws different random features for each client, although clients exchange theta.
         Here all clients share the features. The active form DAMKL is missing, because federations
         request every target.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from omkl.core.hyperparameters import NON_NEGATIVE, POSITIVE, Schedule
from omkl.core.representations.random_features import RandomFeatures, gradient_step
from omkl.core.weights import mean_of_all_by_shares
from omkl.federated.algorithms.kofl import VmKofl, learned_by, send_losses
from omkl.federated.client_features import evaluate, tile_outputs
from omkl.federated.messages import copy_row
from omkl.federated.protocol import register

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Params(NamedTuple):
    c: POSITIVE
    rho: NON_NEGATIVE
    eta_w: Schedule


class ClientState(NamedTuple):
    """State of the clients: coefficients, their squared norms, and Lagrange multipliers."""

    theta: np.ndarray  # (K, N, 2 D)
    norm2: np.ndarray  # (K, N)
    multiplier: np.ndarray  # (K, N, 2 D)


def client_state(
    params: Params, dictionary: Sequence[Kernel], model: RandomFeatures, K: int
) -> ClientState:
    N, W = model.theta.shape
    return ClientState(np.zeros((K, N, W)), np.zeros((K, N)), np.zeros((K, N, W)))


select, aggregate, upload = VmKofl.select, VmKofl.aggregate, VmKofl.upload


def predict(params, server, clients, k, t, X, row, scratch):
    evaluate(learned_by(server, clients, k), X, row, scratch)
    return mean_of_all_by_shares(scratch.w, scratch.f)


def local_step(params, server, clients, k, t, y, y_hat, scratch, message):
    learned, multiplier = learned_by(server, clients, k), clients.multiplier[k]
    N, W = learned.theta.shape
    scratch.own_loss[0] = (y_hat - y) * (y_hat - y)
    for i in range(N):
        scratch.loss[i] = (scratch.f[i] - y) * (scratch.f[i] - y)
        for e in range(W):
            force = 0.5 * params.rho * (learned.theta[i, e] - server.model.theta[i, e])
            multiplier[i, e] += force
            learned.theta[i, e] -= (force + multiplier[i, e]) / params.c
    # So far theta is the minimum without the squared error of the row. Since z'z = 1, the squared
    # error moves it along z by the following step.
    tile_outputs(learned, scratch.model, scratch.f)
    for i in range(N):
        step = 2.0 * (scratch.f[i] - y) / (params.c + 2.0)
        gradient_step(learned, i, i, scratch.model, step, 1.0)
        copy_row(learned.theta, i, message.theta, i)
    send_losses(scratch, message)


algorithm = register(__name__, shared_weights=True)
