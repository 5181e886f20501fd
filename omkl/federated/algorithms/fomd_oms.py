"""FOMD-OMS: a client predicts with one drawn kernel, and learns M of N kernels.

Paper    J. Li, Z. Wu, Z. Xu, I. King, "On the Necessity of Collaboration for Online Model
         Selection with Decentralized Data", NeurIPS 2024. Only its abstract and introduction were
         available. The rules are those of the authors' code for kernels, FOMD-OMS.R
         (github.com/JunfLi-TJU/OMS-DecD).
Task     regression; K clients and a server.
Round    1. For every client a kernel I is drawn with probability p_I. M - 1 of the other kernels
            are drawn uniformly, without replacement. So kernel i is among the M with probability
            P_i = (N - M)/(N - 1) p_i + (M - 1)/(N - 1), the same for all clients.
         2. The client predicts theta_I'z_I(x).
         3. It sends theta_i - eta grad L_i / P_i and L_i / P_i of its M kernels,
            L_i = (theta_i'z_i - y)^2.
         4. The server takes the mean of the theta_i over all K clients, and projects it on
            ||theta_i|| <= U. A client that did not send kernel i counts with the former theta_i.
         5. c_i is the sum of the received L_i / P_i, divided by K;
            p_i <- p_i exp(-eta_w c_i / (U + 1)), normalised. All p_i are 1/N at first.
Symbols  eta    step size of theta, > 0, a schedule; the code's lambda_t (0.5)
         eta_w  step size of the server's weights, > 0, a schedule; the code's eta_t (16)
         U      radius of the ball that theta_i is projected on, > 0 (the code: 1)
         M      kernels that a client learns and sends per round, 1..N; the code's J (2). With
                M = 1 the P_i have no lower bound, and the steps no upper bound
Cost     a client: O(N D d) time per round, M (2 D + 1) numbers sent, none stored; the server:
         O((K M + N) D).
Bound    not available; the abstract mentions one.
Reading  The code computes step sizes from the theory, then overwrites them with constants, which
         are the defaults here. With G = 2 (U + 1) and a = (N - M)/(M - 1), the theory's steps are
         eta = U / (2 G sqrt(1 + a/K) sqrt(max(a^2, t))) and, for T rounds of K clients,
         eta_w = min(sqrt(ln(N K T) / (4 K T (1 + a/K))), 1/(2 a)). Losses are divided by U + 1, as
         in the code for kernels. The code for linear models divides by (U + 1)^2, begins with
         nearly all weight on the first model, and shifts the losses so that the weights add up to
         1 without normalisation.
         If ``exchange.every`` exceeds the number of rounds, clients never exchange messages. This
         is NCO-OMS, with which the paper compares. The code of NCO-OMS (NCO-OMS-2.R) has linear
         models of several radii in place of kernels. Its theory's steps have 1 + a in place of
         1 + a/K. In both codes, eta_w contains K T, the number of rows of all clients.
Differs  A server here sends the same message to all clients. So a client receives all N kernels
         and N weights, and draws its kernels by the server's p; in the code a client receives only
         M kernels. A client here evaluates all N kernels to measure the regret; learning alone
         would take O(M D d). Each kernel has its own random features; the code draws one standard
         normal matrix and divides it by each width. The client divides by P_i before it sends; in
         the code the server divides.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from omkl.core.compiler import inlined
from omkl.core.hyperparameters import POSITIVE, UP_TO_N, Schedule, rate
from omkl.core.weights import draw, shares_of_all
from omkl.federated.algorithms.kofl import weigh
from omkl.federated.client_features import evaluate
from omkl.federated.messages import average, scale_row, step_into
from omkl.federated.protocol import register


class Params(NamedTuple):
    eta: Schedule
    eta_w: Schedule
    U: POSITIVE
    M: UP_TO_N


@inlined
def draw_others(rows, M, N, u):
    """Write M - 1 kernels other than the first to rows[1:M], drawn uniformly without replacement.

    Uses Floyd's algorithm (Bentley and Floyd, "A sample of brilliance", 1987). The N - 1 kernels
    other than rows[0] are numbered from 0. Draw m = 1 .. M - 1 takes one of the first N - M + m of
    these kernels. If this kernel was drawn before, draw m takes kernel N - M + m - 1 instead.

    Parameters
    ----------
    rows
        Kernels (M,) or longer; rows[0] is given, the others are written.
    M, N
        Number of kernels in the set, and of all kernels.
    u
        Uniform numbers (M,) in [0, 1). The first is not used.
    """
    for m in range(1, M):
        n = N - M + m
        rows[m] = int(u[m] * n)
        for a in range(1, m):
            if rows[a] == rows[m]:
                rows[m] = n - 1
                break
    for m in range(1, M):
        rows[m] += 1 if rows[m] >= rows[0] else 0


def select(params, server, clients, k, t, u, scratch, message):
    shares_of_all(server.log_w, scratch.w)
    scratch.drawn[0] = draw(scratch.w, u[0])
    message.rows[0] = scratch.drawn[0]
    draw_others(message.rows, params.M, scratch.w.shape[0], u)
    message.n[0] = params.M


def predict(params, server, clients, k, t, X, row, scratch):
    evaluate(server.model, X, row, scratch)
    return scratch.f[scratch.drawn[0]]


def local_step(params, server, clients, k, t, y, y_hat, scratch, message):
    N = scratch.f.shape[0]
    for i in range(N):
        scratch.loss[i] = (scratch.f[i] - y) * (scratch.f[i] - y)
    scratch.own_loss[0] = (y_hat - y) * (y_hat - y)
    eta = rate(params.eta, t)
    uniform = (params.M - 1) / (N - 1) if N > 1 else 1.0
    for j in range(params.M):
        i = message.rows[j]
        chance = (1.0 - uniform) * scratch.w[i] + uniform
        slope = 2.0 * eta * (scratch.f[i] - y) / chance
        step_into(server.model, i, message, j, scratch.model, slope, 1.0)
        message.losses[j] = scratch.loss[i] / chance
    message.n[1] = params.M


@inlined
def project(model, U):
    """Scale every row of theta with a norm above U to the norm U."""
    for i in range(model.theta.shape[0]):
        norm = math.sqrt(model.norm2[i])
        if norm > U:
            scale_row(model, i, U / norm)


def aggregate(params, server, t):
    average(server)
    project(server.model, params.U)
    weigh(server, rate(params.eta_w, t) / (params.U + 1.0))


def draws(params: Params) -> tuple[int, int]:
    return params.M, 0


def upload(params: Params, N: int, W: int) -> int:
    return params.M * (W + 1)


algorithm = register(__name__, shared_weights=True, losses_of_rows=True)
