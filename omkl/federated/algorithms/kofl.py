"""Learners of Hong and Chae: clients send all kernels, or the one that the server draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.core.compiler import inlined
from omkl.core.hyperparameters import NON_NEGATIVE, Schedule, rate
from omkl.core.representations.random_features import RandomFeatures, gradient_step
from omkl.core.weights import draw, mean_of_all_by_shares, shares_of_all
from omkl.federated.client_features import evaluate, step_all
from omkl.federated.messages import average, copy_row
from omkl.federated.protocol import choose_all, register_as

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


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


def aggregate(params, server, t):
    average(server)
    weigh(server, rate(params.eta_w, t))


@register_as("vm_kofl", shared_weights=True)
class VmKofl:
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
             sent as separate numbers, because the server needs them for the weights. (Ghari and
             Shen count (N + 1) D numbers per client, which fits neither this nor 2 N D.) The server
             takes the mean of the losses over the clients. The sum would act as the mean with a
             step size eta_w K times as large.
    Differs  not known.
    """

    class Params(NamedTuple):
        eta: Schedule
        eta_w: Schedule
        lam: NON_NEGATIVE

    aggregate = aggregate

    @staticmethod
    def select(params, server, clients, k, t, u, scratch, message):
        shares_of_all(server.log_w, scratch.w)
        choose_all(server, scratch, message)

    @staticmethod
    def predict(params, server, clients, k, t, X, row, scratch):
        evaluate(server.model, X, row, scratch)
        return mean_of_all_by_shares(scratch.w, scratch.f)

    @staticmethod
    def local_step(params, server, clients, k, t, y, y_hat, scratch, message):
        norm2 = mean_of_all_by_shares(scratch.w, server.model.norm2)
        scratch.own_loss[0] = (y_hat - y) * (y_hat - y) + params.lam * norm2
        step_all(rate(params.eta, t), params.lam, server, y, scratch, message)
        send_losses(scratch, message)

    @staticmethod
    def upload(params: Any, N: int, W: int) -> int:
        return N * (W + 1)


class ClientState(NamedTuple):
    """State of the clients: each has its own parameters of all kernels."""

    theta: np.ndarray  # (K, N, 2 D)
    norm2: np.ndarray  # (K, N)


@inlined
def learned_by(server, clients, k):
    """Return the parameters of one client as ``RandomFeatures`` with theta (N, 2 D).

    Parameters
    ----------
    server
        State of the server, for the frequencies.
    clients
        State of all clients.
    k
        Index of the client.
    """
    model = server.model
    return RandomFeatures(model.padded, clients.theta[k], clients.norm2[k], model.n_waves)


@register_as("em_kofl", shared_weights=True, announces=(1, 2))
class EmKofl:
    """eM-KOFL: the server draws one kernel per round; all clients predict with it and send it.

    Paper    S. Hong, J. Chae, "Communication-Efficient Randomized Algorithm for Multi-Kernel
             Online Federated Learning", IEEE TPAMI, 2021; as described for the comparison in
             Ghari and Shen, "Personalized Online Federated Learning with Multiple Kernels",
             NeurIPS 2022, sections 3 and 4.
    Task     regression; K clients and a server.
    Round    1. The server draws the kernel J of the next round with probability w_J / W. It
                sends J, and theta_I of this round's kernel I, which it drew a round before.
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
    Cost     a client: O(N D d) time per round, 2 D + N numbers sent, N D numbers stored.
    Bound    O(sqrt(T)) with probability 1 - delta, for all clients together against the best
             kernel for all of them.
    Reading  The paper's text was not available. Ghari and Shen say that the server chooses a
             kernel, that clients update all kernels and send the chosen one, and that the bound
             holds with probability 1 - delta. The other rules follow from these statements:
             - The drawn kernel alone predicts, as in the bound for draws from exponential weights.
             - A client learns a kernel from its own data until the kernel is drawn and averaged.
             - A kernel is drawn one round before it predicts, so that clients can send their
               parameters of it first. Otherwise the server's parameters would overwrite all that
               clients had learned since the kernel's last draw.
             - The N losses are sent as separate numbers and averaged over the clients.
    Differs  The authors' public code (JeongminChae/MKL_Online_Federated_Learning) has another rule:
             each client draws a kernel by its own weights; the server draws a kernel with
             probability proportional to (the number of clients that drew it)^K; the new theta is
             the mean over these clients; the weights contain no penalty.
    """

    class Params(NamedTuple):
        eta: Schedule
        eta_w: Schedule
        lam: NON_NEGATIVE

    aggregate = aggregate

    @staticmethod
    def client_state(
        params: Any, dictionary: Sequence[Kernel], model: RandomFeatures, K: int
    ) -> ClientState:
        theta = np.repeat(model.theta[None], K, axis=0)
        return ClientState(np.ascontiguousarray(theta), np.repeat(model.norm2[None], K, axis=0))

    @staticmethod
    def broadcast_selection(params, server, t, u):
        # The sums of this round's losses are empty now and serve as scratch for the weights.
        shares_of_all(server.log_w, server.losses)
        server.announced[0] = server.announced[1] if t > 1 else draw(server.losses, u[0])
        server.announced[1] = draw(server.losses, u[1])
        server.losses[:] = 0.0

    @staticmethod
    def select(params, server, clients, k, t, u, scratch, message):
        i = server.announced[0]
        learned = learned_by(server, clients, k)
        copy_row(server.model.theta, i, learned.theta, i)
        learned.norm2[i] = server.model.norm2[i]
        message.rows[0] = server.announced[1]
        message.n[0] = 1
        scratch.p[0] = 1.0

    @staticmethod
    def predict(params, server, clients, k, t, X, row, scratch):
        evaluate(learned_by(server, clients, k), X, row, scratch)
        return scratch.f[server.announced[0]]

    @staticmethod
    def local_step(params, server, clients, k, t, y, y_hat, scratch, message):
        learned = learned_by(server, clients, k)
        eta = rate(params.eta, t)
        for i in range(scratch.f.shape[0]):
            error = scratch.f[i] - y
            scratch.loss[i] = error * error + params.lam * learned.norm2[i]
            step, shrink = 2.0 * eta * error, 1.0 - 2.0 * eta * params.lam
            gradient_step(learned, i, i, scratch.model, step, shrink)
        scratch.own_loss[0] = scratch.loss[server.announced[0]]
        copy_row(learned.theta, message.rows[0], message.theta, 0)
        send_losses(scratch, message)

    @staticmethod
    def draws(params: Any) -> tuple[int, int]:
        return 0, 2

    @staticmethod
    def upload(params: Any, N: int, W: int) -> int:
        return W + N
