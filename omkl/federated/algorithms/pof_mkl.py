"""POF-MKL: every client has its own weights of the kernels and sends M kernels per round.

Paper    P. M. Ghari, Y. Shen, "Personalized Online Federated Learning with Multiple
         Kernels", NeurIPS 2022, algorithms 1 and 2.
Task     regression; K clients and a server.
Round    1. The server sends theta_i of all N kernels.
         2. Client k sorts the kernels by its weights w_ik, largest first, and cuts them
            into m = ceil(N/M) bins of M (the last may be smaller). It draws a bin from
            q_j = (1 - xi) u_j / U + xi / m, equation (8). u_j is the sum of its weights over bin
            j, and U the sum of all its weights.
         3. It predicts the mean of theta_i'z_i(x) over all kernels weighted by w_ik, equation (6).
         4. w_ik <- w_ik exp(-eta_k L_i), equation (7), with
            L_i = (theta_i'z_i - y)^2 + lam ||theta_i||^2.
         5. It sends theta_i - eta grad L_i / q_j for the kernels i of its bin, equation (9).
         6. The server takes the mean over all K clients. A client that did not send kernel i
            counts with the former theta_i. This is equation (10).
Symbols  eta    step size of theta, > 0, a schedule
         eta_k  step size of the clients' weights, > 0, a schedule
         lam    regularisation, >= 0
         xi     exploration rate, in (0, 1]
         M      kernels that a client sends per round, 1..N
Cost     a client: O(N D d + N log N) time per round, O(N D d) memory, 2 M D numbers sent;
         the server: O(K M D) time per round.
Bound    theorem 1: each client's regret against its best kernel is at most
         ln N / eta_k + eta_k T / 2; losses in [0, 1]. Theorem 2: the server's regret against
         the best function for all clients, see ``scripts/reproduce/regret_bounds.py``.
Reading  Bins are cut by the weights before this round's update, as in equation (8). Among equal
         weights the kernel with the smaller index comes first. Kernels are sorted for xi = 1 too,
         as in algorithm 1; the paper's text says that xi = 1 needs no sorting. If streams have
         unequal lengths, a case that the paper does not treat, K in equation (10) counts the
         clients with a sample in the round.
Differs  from the paper: none. The released module has one step size for theta and the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np

from omkl.core.compiler import inlined
from omkl.core.hyperparameters import NON_NEGATIVE, UP_TO_N, Range, Schedule, rate
from omkl.core.representations.random_features import RandomFeatures
from omkl.core.weights import mean_of_all, mean_of_all_by_shares, shares_of_all
from omkl.federated.client_features import evaluate
from omkl.federated.messages import average, step_into
from omkl.federated.protocol import choose_all, register

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class Params(NamedTuple):
    eta: Schedule
    eta_k: Schedule
    lam: NON_NEGATIVE
    xi: Annotated[float, Range(0.0, 1.0, open_low=True)]
    M: UP_TO_N


class ClientState(NamedTuple):
    """State of the clients.

    log_w  (K, N) logarithms of the kernels' weights
    order  (K, N) int64, kernels by weight, largest first. It determines the kernels that a client
           sends
    """

    log_w: np.ndarray  # (K, N)
    order: np.ndarray  # (K, N) int64 kernels by weight, largest first


def client_state(
    params: Params, dictionary: Sequence[Kernel], model: RandomFeatures, K: int
) -> ClientState:
    N = len(dictionary)
    return ClientState(np.zeros((K, N)), np.tile(np.arange(N), (K, 1)))


@inlined
def sort_by_weight(log_w, order):
    """Sort ``order`` (N,) by log_w (N,), largest first.

    Insertion sort is fast here, because the order hardly changes from round to round.
    """
    for a in range(1, order.shape[0]):
        i = order[a]
        b = a
        while b > 0 and (
            log_w[order[b - 1]] < log_w[i] or (log_w[order[b - 1]] == log_w[i] and order[b - 1] > i)
        ):
            order[b] = order[b - 1]
            b -= 1
        order[b] = i


def select(params, server, clients, k, t, u, scratch, message):
    log_w = clients.log_w[k]
    order = clients.order[k]
    N = order.shape[0]
    shares_of_all(log_w, scratch.w)
    if params.M == N:
        choose_all(server, scratch, message)
        return
    sort_by_weight(log_w, order)
    n_bins = (N + params.M - 1) // params.M
    below = 0.0
    start = 0
    for j in range(n_bins):
        start = j * params.M
        weight = 0.0
        for a in range(start, min(start + params.M, N)):
            weight += scratch.w[order[a]]
        q = (1.0 - params.xi) * weight + params.xi / n_bins
        below += q
        scratch.p[0] = q
        if u[0] < below:
            break
    stop = min(start + params.M, N)
    for a in range(start, stop):
        message.rows[a - start] = order[a]
    message.n[0] = stop - start


def predict(params, server, clients, k, t, X, row, scratch):
    evaluate(server.model, X, row, scratch)
    return mean_of_all(clients.log_w[k], scratch.f)


def local_step(params, server, clients, k, t, y, y_hat, scratch, message):
    log_w = clients.log_w[k]
    N = scratch.f.shape[0]
    norm2 = mean_of_all_by_shares(scratch.w, server.model.norm2)
    scratch.own_loss[0] = (y_hat - y) * (y_hat - y) + params.lam * norm2
    eta_k = rate(params.eta_k, t)
    for i in range(N):
        error = scratch.f[i] - y
        scratch.loss[i] = error * error + params.lam * server.model.norm2[i]
        log_w[i] -= eta_k * scratch.loss[i]
    step = rate(params.eta, t) / scratch.p[0]
    for j in range(message.n[0]):
        i = message.rows[j]
        slope = 2.0 * step * (scratch.f[i] - y)
        shrink = 1.0 - 2.0 * step * params.lam
        step_into(server.model, i, message, j, scratch.model, slope, shrink)


def aggregate(params, server, t):
    average(server)


def draws(params: Params) -> tuple[int, int]:
    return 1, 0


def upload(params: Params, N: int, W: int) -> int:
    return params.M * W


def exposure(params: Params, N: int, n_rounds: int) -> int:
    # The weights depend on all earlier targets. With several bins, they determine the drawn bin and
    # the probability by which the step is divided. With a single bin, the probability is 1.
    if params.M < N:
        raise ValueError(
            f"pof_mkl with M={params.M} of {N} kernels: which ones a client sends tells of all its "
            f"earlier labels, and no noise on what it sends hides that. Set algorithm.M={N}"
        )
    return 1


algorithm = register(__name__)
