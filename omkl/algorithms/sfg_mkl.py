"""SFG-MKL: a fixed feedback graph of similar kernels.

Paper    P. M. Ghari, Y. Shen, "Graph-Aided Online Multi-Kernel Learning", first version
         (arXiv v1), algorithms 1 and 2. The JMLR version turned the graph round: see OMKL-SFG.
Task     regression; selected kernels (exactly M a round).
Round    0. Before the first round: Delta(i, j), the integral over R^d of
            (kappa_i - kappa_j)^2; a graph whose node i points to the M kernels with the
            smallest Delta(i, .), itself the first (``graphs.similarity_graph``); a
            dominating set D of it by greedy set cover.
         1. p_i = (1 - xi) u_i / U + xi / |D| [i in D].
         2. Draw the node I_t from p; after ``explore`` rounds take argmax u instead.
         3. Evaluate its out-neighbours S_t; predict their mean weighted by w.
         4. q_i = sum of p_j over the in-neighbours j of i; for i in S_t
            theta_i <- theta_i - eta grad L_i / q_i,  w_i <- w_i exp(-eta L_i / q_i),
            L_i(theta) = (theta'z_i - y)^2 + lam ||theta||^2;
            for the node, u <- u exp(-eta (y_hat - y)^2 / p).
Symbols  eta      step size of theta, w and u, > 0, a schedule
         xi       exploration, in (0, 1), a schedule
         lam      regularisation, >= 0
         M        out-neighbours of a node, itself included, 1..N
         explore  rounds in which the node is drawn, >= 0 (section 5: 300)
Cost     O(M D d + M log N) time a round; O(N D d + N M) memory; O(N^2 log N) time to build
         the graph, once for all seeds.
Bound    theorem 3: O(T^(3/4)) with eta of order 1/sqrt(T), xi of order T^(-1/4);
         losses in [0, 1], ||x|| <= 1. (The text prints T^(1/4) for xi.)
Differs  from the paper: none. Readings: |N_out| in (11) counts the self-loop; the text
         changes only how the node is chosen after round 300, so p and q stay (12) and (15)
         there; the combination has no theta of its own, so its loss in (16) is the squared
         error. No code of this version was released.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from omkl.algorithms.sfg import State, on_graph, predict, select, update
from omkl.core.feedback_graph import similarity_graph
from omkl.core.graph_sampling import edges_of
from omkl.core.hyperparameters import COUNT_OR_ZERO, NON_NEGATIVE, RATE, UP_TO_N, Schedule
from omkl.core.kernel_distance import overlaps
from omkl.core.kernels import Kernel
from omkl.core.protocol import register
from omkl.core.representations.random_features import RANDOM_FEATURES, RandomFeatures


class Params(NamedTuple):
    eta: Schedule
    xi: RATE
    lam: NON_NEGATIVE
    M: UP_TO_N
    explore: COUNT_OR_ZERO


def init(params: Params, dictionary: Sequence[Kernel], model: RandomFeatures) -> State:
    return on_graph(similar(tuple(dictionary), model.omega.shape[1], params.M), model)


@functools.lru_cache(maxsize=4)
def similar(dictionary: tuple[Kernel, ...], d: int, M: int) -> np.ndarray:
    """The graph of algorithm 1, built once for all seeds."""
    return edges_of(similarity_graph(overlaps(dictionary, d), M))


algorithm = register(__name__, representation=RANDOM_FEATURES, theorem="arXiv v1, theorem 3")
