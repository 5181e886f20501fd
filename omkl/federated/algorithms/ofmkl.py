"""Learners of Mitra, Hassani and Pappas with Fed-OMD: all kernels, and a single one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from omkl.core.compiler import inlined
from omkl.core.hyperparameters import NON_NEGATIVE, POSITIVE, Schedule, rate
from omkl.core.kernels import Kernel
from omkl.federated.client_features import evaluate, step_all
from omkl.federated.messages import average
from omkl.federated.protocol import choose_all, register_as


@inlined
def mean(values):
    """Return the mean of values (N,), summed in order."""
    total = 0.0
    for i in range(values.shape[0]):
        total += values[i]
    return total / values.shape[0]


def select(params, server, clients, k, t, u, scratch, message):
    choose_all(server, scratch, message)


def predict(params, server, clients, k, t, X, row, scratch):
    evaluate(server.model, X, row, scratch)
    return mean(scratch.f)


def local_step(params, server, clients, k, t, y, y_hat, scratch, message):
    penalty = params.lam * mean(server.model.norm2)
    scratch.own_loss[0] = (y_hat - y) * (y_hat - y) + penalty
    step_all(rate(params.eta, t), params.lam, server, y, scratch, message)


def aggregate(params, server, t):
    average(server)


def upload(params: Any, N: int, W: int) -> int:
    return N * W


@register_as("ofmkl_avg")
class OfmklAvg:
    """OFMKL-Avg: kernels learned one by one with Fed-OMD; the prediction is their plain mean.

    Paper    A. Mitra, H. Hassani, G. J. Pappas, "Online Federated Learning", IEEE CDC, 2021
             (Fed-OMD); as described for the comparison in Ghari and Shen, "Personalized Online
             Federated Learning with Multiple Kernels", NeurIPS 2022, section 4.
    Task     regression; K clients and a server.
    Round    1. The server sends theta_i of all N kernels.
             2. Client k predicts the mean of theta_i'z_i(x) over the kernels.
             3. It sends theta_i - eta grad L_i of all kernels,
                L_i = (theta_i'z_i - y)^2 + lam ||theta_i||^2.
             4. The server takes their mean.
    Symbols  eta  step size of theta, > 0, a schedule
             lam  regularisation, >= 0
    Cost     a client: O(N D d) time per round, 2 N D numbers sent; the server: O(K N D).
    Bound    O(sqrt(T)) of each kernel against the best function in its space; unknown for the mean.
    Differs  from the paper: none; mirror descent with the Euclidean norm, one local step.
    """

    class Params(NamedTuple):
        eta: Schedule
        lam: NON_NEGATIVE

    select, predict, local_step = select, predict, local_step
    aggregate, upload = aggregate, upload


def one_gaussian(params: Any, dictionary: Sequence[Kernel], d: int) -> Sequence[Kernel]:
    return (Kernel("gaussian", params.bandwidth, dictionary[0].features),)


@register_as("ofskl", kernels=one_gaussian)
class Ofskl:
    """OFSKL: one Gaussian kernel learned with Fed-OMD.

    Paper    A. Mitra, H. Hassani, G. J. Pappas, "Online Federated Learning", IEEE CDC, 2021
             (Fed-OMD); as described for the comparison in Ghari and Shen, "Personalized Online
             Federated Learning with Multiple Kernels", NeurIPS 2022, section 4.
    Task     regression; K clients and a server.
    Round    OFMKL-Avg with a dictionary of one kernel: the client predicts theta'z(x) and sends
             theta - eta grad L, the server takes the mean.
    Symbols  eta        step size of theta, > 0, a schedule
             lam        regularisation, >= 0
             bandwidth  of exp(-||x - x'||^2 / (2 bandwidth)), > 0 (the paper: 10)
    Cost     a client: O(D d) time per round, 2 D numbers sent.
    Bound    O(sqrt(T)) against the best function in the kernel's space.
    Reading  "bandwidth of 10" is the variance, as in the dictionaries of these authors.
    Differs  from the paper: none.
    """

    class Params(NamedTuple):
        eta: Schedule
        lam: NON_NEGATIVE
        bandwidth: POSITIVE

    select, predict, local_step = select, predict, local_step
    aggregate, upload = aggregate, upload
