"""eM-KOFL: the server draws one kernel a round, which all clients predict with and send.

Paper    S. Hong, J. Chae, "Communication-Efficient Randomized Algorithm for Multi-Kernel
         Online Federated Learning", IEEE TPAMI, 2021; as described for the comparison in
         Ghari and Shen, "Personalized Online Federated Learning with Multiple Kernels",
         NeurIPS 2022, sections 3 and 4.
Task     regression; K clients and a server.
Round    1. The server draws the kernel J of the next round with probability w_J / W; it
            sends J, and theta_I of this round's kernel I, drawn a round before.
         2. Client k, which keeps theta_ik of all N kernels, sets theta_Ik to theta_I and
            predicts theta_I'z_I(x).
         3. theta_ik <- theta_ik - eta grad L_i for all kernels,
            L_i = (theta_ik'z_i - y)^2 + lam ||theta_ik||^2.
         4. It sends theta_Jk and the L_i of all kernels.
         5. The server takes the mean of the theta_Jk, and
            w_i <- w_i exp(-eta_w times the mean of the L_i over the clients).
Symbols  eta    step size of theta, > 0, a schedule
         eta_w  step size of the server's weights, > 0, a schedule
         lam    regularisation, >= 0
Cost     a client: O(N D d) time a round, 2 D + N numbers sent, N D numbers kept.
Bound    O(sqrt(T)) with probability 1 - delta, for all clients together against the best
         kernel for all of them.
Differs  from its paper: not known in detail, Ghari and Shen say that the server chooses a
         kernel, that clients update all kernels and send that one, and that the bound holds
         with probability 1 - delta. Readings from that: the drawn kernel alone predicts (the
         bound is that of drawing from exponential weights); the other kernels are learned
         from a client's own data until they are drawn and averaged; a kernel is drawn a round
         before it predicts, since clients can only then have sent what it is to predict with
         (sent after it has predicted, the server would hand out what it learned the last
         time, and what clients learned since would be lost); the N losses are sent as numbers
         of their own and averaged over the clients.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from omkl.core.hyperparameters import NON_NEGATIVE
from omkl.core.jit import inlined
from omkl.core.representations.random_features import RandomFeatures, gradient_step
from omkl.core.schedule import Schedule, rate
from omkl.core.weights import draw, softmax
from omkl.federated.algorithms.vm_kofl import send_losses, weigh
from omkl.federated.protocol import average, copy_row, evaluate, register

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Params(NamedTuple):
    eta: Schedule
    eta_w: Schedule
    lam: NON_NEGATIVE


class Client(NamedTuple):
    """What the clients keep to themselves."""

    theta: np.ndarray  # (K, N, 2 D)
    norm2: np.ndarray  # (K, N)


def keeps(params: Params, dictionary: Sequence[Kernel], model: RandomFeatures, K: int) -> Client:
    theta = np.repeat(model.theta[None], K, axis=0)
    return Client(np.ascontiguousarray(theta), np.repeat(model.norm2[None], K, axis=0))


@inlined
def learned_by(server, own, k):
    """The kernels as client k has learned them."""
    return RandomFeatures(server.model.padded, own.theta[k], own.norm2[k])


def announce(params, server, t, u):
    # The room for this round's losses is empty now: the weights go there.
    softmax(server.log_w, server.extras)
    server.announced[0] = server.announced[1] if t > 1 else draw(server.extras, u[0])
    server.announced[1] = draw(server.extras, u[1])
    server.extras[:] = 0.0


def select(params, server, own, k, t, u, room, message):
    i = server.announced[0]
    mine = learned_by(server, own, k)
    copy_row(server.model.theta, i, mine.theta, i)
    mine.norm2[i] = server.model.norm2[i]
    message.rows[0] = server.announced[1]
    message.n[0] = 1
    room.p[0] = 1.0


def predict(params, server, own, k, t, X, row, room):
    evaluate(learned_by(server, own, k), X, row, room)
    return room.f[server.announced[0]]


def local(params, server, own, k, t, y, y_hat, room, message):
    mine = learned_by(server, own, k)
    eta = rate(params.eta, t)
    for i in range(room.f.shape[0]):
        error = room.f[i] - y
        room.loss[i] = error * error + params.lam * mine.norm2[i]
        gradient_step(mine, i, i, room.buffers, 2.0 * eta * error, 1.0 - 2.0 * eta * params.lam)
    room.own_loss[0] = room.loss[server.announced[0]]
    copy_row(mine.theta, message.rows[0], message.theta, 0)
    send_losses(room, message)


def aggregate(params, server, t, n_clients):
    average(server, n_clients)
    weigh(server, rate(params.eta_w, t))


def upload(params: Params, N: int, W: int) -> int:
    return W + N


algorithm = register(
    __name__,
    Params,
    keeps=keeps,
    announce=announce,
    select=select,
    predict=predict,
    local=local,
    aggregate=aggregate,
    upload=upload,
    draws=(0, 2),
    shared_weights=True,
    announces=(1, 2),
)
