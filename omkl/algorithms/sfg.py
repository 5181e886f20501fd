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
Cost     O(M D d + M log N) time a round; O(N D d + N M) memory; O(N^2 M) time to build the
         graph, once for all seeds.
Bound    theorem 5: O(sqrt(N ln N) T^(2/3)) with eta of order sqrt(ln N / N) T^(-2/3),
         xi of order T^(-1/3); losses in [0, 1], ||x|| <= 1.
Differs  from the paper: none. Readings: the text changes only how the node is chosen after
         round 300, so p and q stay (33) and (36) there; the combination has no theta of its
         own, so its loss in (37) is the squared error. The released code uses node 0 for
         ever after round 300, shifts the draw by one, floors q at 0.1 and p at 0.2, builds
         another divergence and a dominating set that does not cover.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np

from omkl.engine import Schedule, at, choose, register
from omkl.features import RandomFeatures, gradient_step
from omkl.graphs import dissimilarity_graph
from omkl.jit import part
from omkl.kernels import Kernel, divergence
from omkl.params import NON_NEGATIVE, RATE, UP_TO_N, Range
from omkl.sampling import (
    Graph,
    Nodes,
    best_node,
    draw_node,
    enter,
    follow,
    forget,
    graph_of,
    nodes_of,
    probability,
    probability_seen,
)
from omkl.weights import shares


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
    graph: Graph
    nodes: Nodes  # u and DS
    w: np.ndarray  # (N,) weights of the combined kernels, in their order, summing to 1
    q: np.ndarray  # (N,) of the evaluated kernels, NaN elsewhere
    p: np.ndarray  # (1,) of the node
    node: np.ndarray  # (1,)


def init(params: Params, dictionary: Sequence[Kernel], model: RandomFeatures) -> State:
    return on_graph(dissimilar(tuple(dictionary), model.omega.shape[1], params.M), model)


@functools.lru_cache(maxsize=4)
def dissimilar(dictionary: tuple[Kernel, ...], d: int, M: int) -> Graph:
    """The graph of algorithm 4, built once for all seeds."""
    return graph_of(dissimilarity_graph(divergence(dictionary, d), M))


def on_graph(graph: Graph, model: RandomFeatures) -> State:
    """The state before the first round on a graph; DS is its dominating set."""
    N = len(graph.out)
    nodes = nodes_of(graph)
    for i in graph.cover:
        enter(graph, nodes, i, 1)
    return State(
        model,
        log_w=np.zeros(N),
        log_u=np.zeros(N),
        graph=graph,
        nodes=nodes,
        w=np.zeros(N),
        q=np.full(N, np.nan),
        p=np.zeros(1),
        node=np.zeros(1, dtype=np.int64),
    )


@part
def choose_node(params, state, t, xi, rng):
    """I_t: drawn from p, and after ``explore`` rounds the node with the largest u."""
    if t <= params.explore:
        state.node[0] = draw_node(state.nodes, xi, rng.random())
    else:
        state.node[0] = best_node(state.nodes)


@part
def weigh(state, rnd):
    """Weights of the kernels to combine."""
    shares(state.log_w, rnd.combine, rnd.n[1], state.w)


@part
def choose_neighbours(state, xi, rnd):
    """Evaluate and combine the out-neighbours of the node; their q, (36), and p of the node."""
    forget(state, rnd)
    node = state.node[0]
    choose(rnd, state.graph.out[node], state.graph.out.shape[1])
    weigh(state, rnd)
    state.p[0] = probability(state.nodes, node, xi)
    for m in range(rnd.n[0]):
        i = rnd.evaluate[m]
        state.q[i] = probability_seen(state.graph, state.nodes, i, xi)


def select(params, state, t, rng, rnd):
    xi = at(params.xi, t)
    follow(state.graph, state.nodes, state.log_u, state.node[0])
    choose_node(params, state, t, xi, rng)
    choose_neighbours(state, xi, rnd)


@part
def combined(state, rnd):
    """The mean of the combined kernels."""
    y_hat = 0.0
    for m in range(rnd.n[1]):
        y_hat += state.w[m] * rnd.f[rnd.combine[m]]
    return y_hat


def predict(params, state, t, rnd):
    return combined(state, rnd), True


def update(params, state, t, y, rnd):
    eta = at(params.eta, t)
    node = state.node[0]
    error = combined(state, rnd) - y
    state.log_u[node] -= eta / state.p[0] * error * error
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
