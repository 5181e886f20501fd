"""Raker and OMKL-GF as one ``jax.lax.scan`` over rounds, compiled, in float64."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from omkl.algorithms import gf, raker

jax.config.update("jax_enable_x64", True)

Run = Callable[[], np.ndarray]
"""Streams the rows it was prepared for, on its device, to the predictions (T,)."""


def devices() -> dict[str, Any]:
    """The processor, and a GPU where JAX finds one."""
    found = {"CPU": jax.devices("cpu")[0]}
    with contextlib.suppress(RuntimeError):
        found["GPU"] = jax.devices("gpu")[0]
    return found


def _features(omega: Any, x: Any) -> Any:
    """z (N, 2 D) at x (d,), from omega (N, d, D)."""
    angle = jnp.einsum("ndj,d->nj", omega, x)
    return jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], axis=1) / jnp.sqrt(omega.shape[2])


def _rate(schedule: Any, t: Any) -> Any:
    return schedule.scale * t**schedule.power


def stream_raker(omega: np.ndarray, params: raker.Raker.Params) -> Callable[..., Any]:
    N, _, D = omega.shape

    def step(carry: Any, row: Any) -> Any:
        theta, log_w = carry
        t, x, y, omega = row
        eta = _rate(params.eta, t)
        z = _features(omega, x)
        f = jnp.einsum("nj,nj->n", theta, z)
        y_hat = jax.nn.softmax(log_w) @ f
        error = f - y
        log_w = log_w - eta * (error**2 + params.lam * jnp.einsum("nj,nj->n", theta, theta))
        theta = (1 - 2 * eta * params.lam) * theta - (2 * eta * error)[:, None] * z
        return (theta, log_w), y_hat

    def run(omega: Any, t: Any, X: Any, y: Any) -> Any:
        start = (jnp.zeros((N, 2 * D)), jnp.zeros(N))
        return jax.lax.scan(lambda c, row: step(c, (*row, omega)), start, (t, X, y))[1]

    return run


def stream_gf(omega: np.ndarray, params: gf.Params) -> Callable[..., Any]:
    """With the uniform numbers of each round given: (J, M, 2) for the graph, one for the node."""
    N, _, D = omega.shape
    J, M = params.J, params.M

    def drawn(p: Any, u: Any) -> Any:
        return jnp.minimum(jnp.searchsorted(jnp.cumsum(p), u, side="right"), len(p) - 1)

    def draw_graph(w: Any, eta_e: Any, u: Any) -> Any:
        explore = eta_e ** jnp.arange(1, J + 1)
        uniform = jnp.minimum((u[..., 1] * N).astype(int), N - 1)
        kernels = jnp.where(u[..., 0] < explore[:, None], uniform, drawn(w, u[..., 1]))
        same = kernels[:, :, None] == kernels[:, None, :]
        first = ~jnp.any(same & jnp.tri(M, k=-1, dtype=bool), axis=2)  # not drawn before
        pi = (1 - explore)[:, None] * w + explore[:, None] / N
        return kernels, first, -jnp.expm1(M * jnp.log1p(-pi))

    def step(carry: Any, row: Any) -> Any:
        theta, log_w, graph = carry
        t, x, y, u_graph, u_node, omega = row
        eta, eta_e = _rate(params.eta, t), _rate(params.eta_e, t)
        w = jax.nn.softmax(log_w)
        graph = jax.lax.cond(
            t <= params.freeze, lambda: draw_graph(w, eta_e, u_graph), lambda: graph
        )
        kernels, first, at_least_once = graph
        u = jnp.sum(w[kernels] * first, axis=1)
        p = (1 - eta_e) * u / u.sum() + eta_e / J
        node = drawn(p, u_node)
        chosen, counts = kernels[node], first[node]
        q = p @ at_least_once[:, chosen]
        own = theta[chosen]
        z = _features(omega[chosen], x)
        f = jnp.einsum("nj,nj->n", own, z)
        y_hat = jax.nn.softmax(log_w[chosen], where=counts) @ f
        error, step = f - y, counts * eta / q
        loss = error**2 + params.lam * jnp.einsum("nj,nj->n", own, own)
        log_w = log_w.at[chosen].add(-step * loss)
        change = 2 * step[:, None] * (error[:, None] * z + params.lam * own)
        return (theta.at[chosen].add(-change), log_w, graph), y_hat

    def run(omega: Any, t: Any, X: Any, y: Any, u_graph: Any, u_node: Any) -> Any:
        graph = (jnp.zeros((J, M), dtype=int), jnp.zeros((J, M), dtype=bool), jnp.zeros((J, N)))
        start = (jnp.zeros((N, 2 * D)), jnp.zeros(N), graph)
        rows = (t, X, y, u_graph, u_node)
        return jax.lax.scan(lambda c, row: step(c, (*row, omega)), start, rows)[1]

    return run


def uniforms_of_gf(
    params: gf.Params, rounds: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """What OMKL-GF draws: (T, J, M, 2) for the graph, zeros once it is kept, and (T,)."""
    graph, node = np.zeros((rounds, params.J, params.M, 2)), np.zeros(rounds)
    for t in range(rounds):
        if t < params.freeze:
            graph[t] = rng.random((params.J, params.M, 2))
        node[t] = rng.random()
    return graph, node


def prepared(
    name: str,
    omega: np.ndarray,
    params: Any,
    rng: np.random.Generator,
    X: np.ndarray,
    y: np.ndarray,
    device: Any,
    seeds: int = 1,
) -> Run:
    """Compiled, with its inputs on the device; several seeds as one vectorised map."""
    t = np.arange(1.0, len(y) + 1.0)
    more: tuple[np.ndarray, ...] = ()
    if name == "raker":
        run = stream_raker(omega, params)
    else:
        run, more = stream_gf(omega, params), uniforms_of_gf(params, len(y), rng)
    if seeds > 1:  # the same features over and over: only the time is of interest
        omega = np.repeat(omega[None], seeds, axis=0)
        run = jax.vmap(run, in_axes=(0, *[None] * (3 + len(more))))
    inputs = jax.device_put((omega, t, X, y, *more), device)
    compiled = jax.jit(run).lower(*inputs).compile()
    return lambda: np.asarray(jax.block_until_ready(compiled(*inputs)))
