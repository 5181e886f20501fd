"""OMKL-SFG: a fixed feedback graph of mutually dissimilar kernels.

Paper    P. M. Ghari, Y. Shen, "Graph-Aided Online Multi-Kernel Learning", JMLR,
         algorithms 4 and 5.
Task     regression; selected kernels (exactly M a round).
Round    0. Before the first round: Delta(i, j), the integral over R^d of
            (kappa_i - kappa_j)^2; a graph whose node i points to itself and to M - 1
            kernels that are dissimilar to each other (``graphs.dissimilarity_graph``); a
            dominating set DS of it by greedy set cover.
         1. p_i = (1 - xi) u_i / U + xi / |DS| [i in DS].
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
Cost     O(M D d + N M) time a round; O(N D d + N M) memory, N^2 to build the graph.
Bound    theorem 5: O(sqrt(N ln N) T^(2/3)) with eta of order sqrt(ln N / N) T^(-2/3),
         xi of order T^(-1/3); losses in [0, 1], ||x|| <= 1.
Differs  from the paper: none. Readings: the text changes only how the node is chosen after
         round 300, so p and q stay (33) and (36) there; the combination has no theta of its
         own, so its loss in (37) is the squared error. The released code uses node 0 for
         ever after round 300, shifts the draw by one, floors q at 0.1 and p at 0.2, builds
         another divergence and a dominating set that does not cover.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np

from omkl.engine import Schedule, at, choose, register
from omkl.features import RandomFeatures, gradient_step
from omkl.graphs import dissimilarity_graph, dominating_set, in_neighbours
from omkl.jit import part
from omkl.params import NON_NEGATIVE, RATE, UP_TO_N, Range
from omkl.weights import argmax, draw, softmax, weighted_mean

if TYPE_CHECKING:
    from omkl.kernels import Kernel


class Params(NamedTuple):
    eta: Schedule
    xi: RATE
    lam: NON_NEGATIVE
    M: UP_TO_N
    explore: Annotated[int, Range(0)]


class State(NamedTuple):
    model: RandomFeatures
    log_w: np.ndarray  # (N,) kernels
    log_u: np.ndarray  # (N,) nodes
    out: np.ndarray  # (N, M) out-neighbours
    in_start: np.ndarray  # (N + 1,) in-neighbours of i are in_source[in_start[i] : in_start[i + 1]]
    in_source: np.ndarray  # (N M,)
    dominating: np.ndarray  # (N,) 1 / |DS| on the dominating set, 0 elsewhere
    p: np.ndarray  # (N,)
    q: np.ndarray  # (N,) of the evaluated kernels, NaN elsewhere
    node: np.ndarray  # (1,)


def init(params: Params, dictionary: Sequence[Kernel], model: RandomFeatures) -> State:
    from omkl.kernels import log_divergence

    d = model.omega.shape[1]
    return on_graph(dissimilarity_graph(log_divergence(dictionary, d), params.M), model)


def on_graph(out: np.ndarray, model: RandomFeatures) -> State:
    """The state before the first round on the graph with out-neighbours ``out`` (N, M)."""
    N = len(out)
    start, source = in_neighbours(out)
    cover = dominating_set(out)
    dominating = np.zeros(N)
    dominating[cover] = 1.0 / len(cover)
    return State(
        model,
        log_w=np.zeros(N),
        log_u=np.zeros(N),
        out=out,
        in_start=start,
        in_source=source,
        dominating=dominating,
        p=np.zeros(N),
        q=np.full(N, np.nan),
        node=np.zeros(1, dtype=np.int64),
    )


@part
def probability_of_in_neighbours(state, i):
    """Sum of p over the in-neighbours of i in the fixed graph, (36)."""
    total = 0.0
    for e in range(state.in_start[i], state.in_start[i + 1]):
        total += state.p[state.in_source[e]]
    return total


@part
def choose_node(params, state, t, rng):
    """I_t: drawn from p, and after ``explore`` rounds the node with the largest u."""
    state.node[0] = draw(state.p, rng.random()) if t <= params.explore else argmax(state.log_u)


@part
def mix(state, xi):
    """p of the nodes, (33)."""
    softmax(state.log_u, state.p)
    for i in range(state.p.shape[0]):
        state.p[i] = (1.0 - xi) * state.p[i] + xi * state.dominating[i]


@part
def choose_neighbours(state, rnd):
    """Evaluate and combine the out-neighbours of the node; their q."""
    choose(rnd, state.out[state.node[0]], state.out.shape[1])
    state.q[:] = np.nan
    for m in range(rnd.n[0]):
        i = rnd.evaluate[m]
        state.q[i] = probability_of_in_neighbours(state, i)


def select(params, state, t, rng, rnd):
    mix(state, at(params.xi, t))
    choose_node(params, state, t, rng)
    choose_neighbours(state, rnd)


def predict(params, state, t, rnd):
    return weighted_mean(state.log_w, rnd.f, rnd.combine, rnd.n[1]), True


def update(params, state, t, y, rnd):
    eta = at(params.eta, t)
    node = state.node[0]
    error = weighted_mean(state.log_w, rnd.f, rnd.combine, rnd.n[1]) - y
    state.log_u[node] -= eta / state.p[node] * error * error
    for m in range(rnd.n[0]):
        i = rnd.evaluate[m]
        error = rnd.f[i] - y
        loss = error * error + params.lam * state.model.norm2[i]
        step = eta / state.q[i]
        state.log_w[i] -= step * loss
        gradient_step(
            state.model, i, m, rnd.buffers, 2.0 * step * error, 1.0 - 2.0 * step * params.lam
        )


algorithm = register(__name__, Params, init, select=select, predict=predict, update=update)
