"""vM-KOFL: every client sends all kernels every round; all clients share one combination.

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
Cost     a client: O(N D d) time per round, N (2 D + 1) numbers sent; the server: O(K N D).
Bound    O(sqrt(T)) for all clients together against the best kernel for all of them; none
         for a single client, whose best kernel may be another one.
Reading  The paper's text was not available; the rules follow Ghari and Shen. The N losses are
         sent as separate numbers, because the server needs them for the weights. (Ghari and Shen
         count (N + 1) D numbers per client, which fits neither this nor 2 N D.) The server takes
         the mean of the losses over the clients. Their sum would be a step size K times as large.
Differs  not known.
"""

from __future__ import annotations

from typing import NamedTuple

from omkl.core.compiler import inlined
from omkl.core.hyperparameters import NON_NEGATIVE, Schedule, rate
from omkl.core.weights import mean_of_all_by_shares, shares_of_all
from omkl.federated.client_features import evaluate, step_all
from omkl.federated.messages import average
from omkl.federated.protocol import choose_all, register


class Params(NamedTuple):
    eta: Schedule
    eta_w: Schedule
    lam: NON_NEGATIVE


def select(params, server, clients, k, t, u, scratch, message):
    shares_of_all(server.log_w, scratch.w)
    choose_all(server, scratch, message)


def predict(params, server, clients, k, t, X, row, scratch):
    evaluate(server.model, X, row, scratch)
    return mean_of_all_by_shares(scratch.w, scratch.f)


@inlined
def send_losses(scratch, message):
    """Write the losses of all kernels to message.losses (N,)."""
    N = scratch.loss.shape[0]
    for i in range(N):
        message.losses[i] = scratch.loss[i]
    message.n[1] = N


@inlined
def weigh(server, eta_w):
    """Update the server's weights log_w (N,) by the mean of the received losses."""
    if server.senders[0] > 0:
        for i in range(server.log_w.shape[0]):
            server.log_w[i] -= eta_w * server.losses[i] / server.senders[0]


def local_step(params, server, clients, k, t, y, y_hat, scratch, message):
    norm2 = mean_of_all_by_shares(scratch.w, server.model.norm2)
    scratch.own_loss[0] = (y_hat - y) * (y_hat - y) + params.lam * norm2
    step_all(rate(params.eta, t), params.lam, server, y, scratch, message)
    send_losses(scratch, message)


def aggregate(params, server, t):
    average(server)
    weigh(server, rate(params.eta_w, t))


def upload(params: Params, N: int, W: int) -> int:
    return N * (W + 1)


algorithm = register(__name__, shared_weights=True)
