"""vM-KOFL: every client sends all kernels every round; one combination for all.

Paper    S. Hong, J. Chae, "Communication-Efficient Randomized Algorithm for Multi-Kernel
         Online Federated Learning", IEEE TPAMI, 2021; as described for the comparison in
         Ghari and Shen, "Personalized Online Federated Learning with Multiple Kernels",
         NeurIPS 2022, sections 3 and 4.
Task     regression; K clients and a server.
Round    1. The server sends theta_i and the weight w_i of all N kernels.
         2. Client k predicts the mean of theta_i'z_i(x) weighted by w_i.
         3. It sends theta_i - eta grad L_i and L_i of all kernels,
            L_i = (theta_i'z_i - y)^2 + lam ||theta_i||^2.
         4. The server takes the mean of the theta_i, and
            w_i <- w_i exp(-eta_w times the mean of the L_i over the clients).
Symbols  eta    step size of theta, > 0, a schedule
         eta_w  step size of the server's weights, > 0, a schedule
         lam    regularisation, >= 0
Cost     a client: O(N D d) time a round, N (2 D + 1) numbers sent; the server: O(K N D).
Bound    O(sqrt(T)) for all clients together against the best kernel for all of them; none
         for a single client, whose best kernel may be another one.
Differs  from its paper: not known in detail, Ghari and Shen say what is above. Readings:
         the N losses are sent as numbers of their own, without which the server has nothing
         to weigh kernels by (their count of (N + 1) D numbers a client is neither this nor
         2 N D); the server takes the losses' mean over the clients, not their sum, which
         would be a step size K times as large.
"""

from __future__ import annotations

from typing import NamedTuple

from omkl.core.hyperparameters import NON_NEGATIVE
from omkl.core.jit import inlined
from omkl.core.schedule import Schedule, rate
from omkl.core.weights import mean_by_shares, softmax
from omkl.federated.protocol import average, choose_every, evaluate, register, step_into


class Params(NamedTuple):
    eta: Schedule
    eta_w: Schedule
    lam: NON_NEGATIVE


def select(params, server, own, k, t, u, room, message):
    softmax(server.log_w, room.w)
    choose_every(server, room, message)


def predict(params, server, own, k, t, X, row, room):
    evaluate(server.model, X, row, room)
    return mean_by_shares(room.w, room.f, room.every, room.f.shape[0])


@inlined
def step_every(eta, lam, server, y, room, message):
    """Losses of all kernels, and the message with all of them one gradient step further."""
    for j in range(message.n[0]):
        i = message.rows[j]
        error = room.f[i] - y
        room.loss[i] = error * error + lam * server.model.norm2[i]
        slope, shrink = 2.0 * eta * error, 1.0 - 2.0 * eta * lam
        step_into(server.model, i, message, j, room.buffers, slope, shrink)


@inlined
def send_losses(room, message):
    """The losses of all kernels, besides the rows."""
    N = room.loss.shape[0]
    for i in range(N):
        message.extras[i] = room.loss[i]
    message.n[1] = N


@inlined
def weigh(server, eta_w):
    """The server's weights, by the mean of the losses that came."""
    if server.senders[0] > 0:
        for i in range(server.log_w.shape[0]):
            server.log_w[i] -= eta_w * server.extras[i] / server.senders[0]


def local(params, server, own, k, t, y, y_hat, room, message):
    norm2 = mean_by_shares(room.w, server.model.norm2, room.every, room.f.shape[0])
    room.own_loss[0] = (y_hat - y) * (y_hat - y) + params.lam * norm2
    step_every(rate(params.eta, t), params.lam, server, y, room, message)
    send_losses(room, message)


def aggregate(params, server, t, n_clients):
    average(server, n_clients)
    weigh(server, rate(params.eta_w, t))


def upload(params: Params, N: int, W: int) -> int:
    return N * (W + 1)


algorithm = register(
    __name__,
    Params,
    select=select,
    predict=predict,
    local=local,
    aggregate=aggregate,
    upload=upload,
    shared_weights=True,
)
