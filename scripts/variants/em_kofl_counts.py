"""eM-KOFL (counts): each client draws a kernel by its weights, and the server one of these.

Paper    S. Hong, J. Chae, "Communication-Efficient Randomized Algorithm for Multi-Kernel
         Online Federated Learning", IEEE TPAMI, 2021, and its public code,
         JeongminChae/MKL_Online_Federated_Learning.
Task     regression; K clients and a server.
Round    1. The server draws the kernel I of this round with probability proportional to
            n_i^K, n_i the number of clients that sent kernel i in the round before, and
            sends I and the mean of the theta_I that these clients sent. In round 1 every
            kernel has the same probability.
         2. Client k, which keeps theta_ik and w_ik of all N kernels, sets theta_Ik to that
            mean, draws a kernel J_k with probability w_ik / W_k, and predicts
            theta_Ik'z_I(x).
         3. theta_ik <- theta_ik - eta grad ((theta_ik'z_i - y)^2 + lam ||theta_ik||^2) and
            w_ik <- w_ik exp(-eta_w (theta_ik'z_i - y)^2), both at the theta_ik before, for all
            kernels.
         4. It sends theta_ik of i = J_k.
Symbols  eta    step size of theta, > 0, a schedule
         eta_w  step size of the clients' weights, > 0, a schedule
         lam    regularisation of theta, >= 0
Cost     a client: O(N D d) time per round, 2 D numbers and an index sent, N (2 D + 1) kept.
Bound    none stated for this rule.
Differs  from ``em_kofl``, which follows the comparison by Ghari and Shen: there the server draws
         by the mean of the clients' losses and takes the mean over all clients. The rule here was
         found by reading the authors' code; nothing was copied. All other settings are those of
         the comparison. In the authors' code features lack the factor 1/sqrt(D), frequencies are
         orthogonal with squared norms of one degree of freedom, D = 50, lam = 0.01, eta =
         1/sqrt(number of all clients' rows), eta_w = log(N)/sqrt(t), there are N = 11 Gaussian
         kernels, the rows are divided among 20 clients in turn, and each client's first squared
         error counts as 1. In that code all clients send. Here the server does not change its
         kernel if no client has sent one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from omkl.core.compiler import inlined
from omkl.core.hyperparameters import NON_NEGATIVE, Schedule, rate
from omkl.core.representations.random_features import gradient_step
from omkl.core.weights import draw, shares_of_all
from omkl.federated.algorithms.kofl import learned_by
from omkl.federated.client_features import evaluate
from omkl.federated.messages import average_entries, copy_row, squared_norm
from omkl.federated.protocol import register

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel
    from omkl.core.representations.random_features import RandomFeatures


class Params(NamedTuple):
    eta: Schedule
    eta_w: Schedule
    lam: NON_NEGATIVE


class ClientState(NamedTuple):
    """State of K clients with N kernels."""

    theta: np.ndarray  # (K, N, 2 D)
    norm2: np.ndarray  # (K, N)
    log_w: np.ndarray  # (K, N)


def client_state(
    params: Params, dictionary: Sequence[Kernel], model: RandomFeatures, K: int
) -> ClientState:
    theta = np.ascontiguousarray(np.repeat(model.theta[None], K, axis=0))
    norm2 = np.repeat(model.norm2[None], K, axis=0)
    return ClientState(theta, norm2, np.zeros((K, len(dictionary))))


@inlined
def draw_by_counts(counts, power, u):
    """Draw an index with probability proportional to counts^power.

    Parameters
    ----------
    counts
        Counts (N,), >= 0 and not all zero.
    power
        Exponent, >= 1.
    u
        Uniform number in [0, 1).
    """
    most = 0.0
    for i in range(counts.shape[0]):
        most = max(most, counts[i])
    total = 0.0
    for i in range(counts.shape[0]):
        total += (counts[i] / most) ** power
    threshold, last = u * total, 0
    total = 0.0
    for i in range(counts.shape[0]):
        if counts[i] > 0.0:
            last = i
            total += (counts[i] / most) ** power
            if total > threshold:
                break
    return last


def broadcast_selection(params, server, t, u):
    theta, counts = server.model.theta, server.senders_of
    N, W = theta.shape
    if t == 1:
        server.announced[0] = min(N - 1, int(u[0] * N))
        return
    sent = False
    for i in range(N):
        sent = sent or counts[i] > 0.0
    if not sent:  # the server does not change its kernel
        return
    I = draw_by_counts(counts, server.members[0], u[0])  # noqa: E741
    average_entries(theta, server.sums, W * I, W, 0.0, 1.0 / counts[I])
    server.model.norm2[I] = squared_norm(theta, I)
    for i in range(N):
        if counts[i] > 0.0:
            counts[i] = 0.0
            for e in range(W):
                server.sums[i, e] = 0.0
    server.announced[0] = I


def select(params, server, clients, k, t, u, scratch, message):
    i = server.announced[0]
    if t > 1:
        learned = learned_by(server, clients, k)
        copy_row(server.model.theta, i, learned.theta, i)
        learned.norm2[i] = server.model.norm2[i]
    shares_of_all(clients.log_w[k], scratch.w)
    message.rows[0] = draw(scratch.w, u[0])
    message.n[0] = 1
    scratch.p[0] = 1.0


def predict(params, server, clients, k, t, X, row, scratch):
    evaluate(learned_by(server, clients, k), X, row, scratch)
    return scratch.f[server.announced[0]]


def local_step(params, server, clients, k, t, y, y_hat, scratch, message):
    learned = learned_by(server, clients, k)
    eta, eta_w = rate(params.eta, t), rate(params.eta_w, t)
    for i in range(scratch.f.shape[0]):
        error = scratch.f[i] - y
        scratch.loss[i] = error * error + params.lam * learned.norm2[i]
        clients.log_w[k, i] -= eta_w * error * error
        gradient_step(learned, i, i, scratch.model, 2.0 * eta * error, 1.0 - 2.0 * eta * params.lam)
    scratch.own_loss[0] = scratch.loss[server.announced[0]]
    copy_row(learned.theta, message.rows[0], message.theta, 0)


def aggregate(params, server, t):
    """Do nothing. The server draws and averages at the beginning of the next round."""


def draws(params: Params) -> tuple[int, int]:
    return 1, 1


def upload(params: Params, N: int, W: int) -> int:
    return W


algorithm = register(__name__, announces=(1, 1))
