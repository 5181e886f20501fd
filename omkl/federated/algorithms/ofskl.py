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

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from omkl.core.hyperparameters import NON_NEGATIVE, POSITIVE, Schedule
from omkl.core.kernels import Kernel
from omkl.federated.algorithms import ofmkl_avg
from omkl.federated.protocol import register


class Params(NamedTuple):
    eta: Schedule
    lam: NON_NEGATIVE
    bandwidth: POSITIVE


def kernels(params: Params, dictionary: Sequence[Kernel], d: int) -> Sequence[Kernel]:
    return (Kernel("gaussian", params.bandwidth, dictionary[0].features),)


select, predict = ofmkl_avg.select, ofmkl_avg.predict
local_step, aggregate = ofmkl_avg.local_step, ofmkl_avg.aggregate


def upload(params: Params, N: int, W: int) -> int:
    return W


algorithm = register(__name__, kernels=kernels)
