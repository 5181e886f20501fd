"""What a client sends: rows of the shared parameters and losses; how the server adds them up.

``average`` is (10) of Ghari and Shen (NeurIPS 2022): a client that sent nothing for a row
counts as one that left the row as it was.

Shapes: N rows of W shared parameters, E losses; ``theta`` of a server's model is (N, W). A row
is gone through in the two halves of its sines and cosines, by every step alike: a pack that
overlaps two of those just written would wait for both.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from omkl.core.compiler import inlined
from omkl.core.simd import LANES, fma, load, pack, store, total


class Message(NamedTuple):
    """What a client sends: ``n[0]`` rows of the shared parameters and ``n[1]`` losses.

    rows    (m,) int64       theta   (m, W) their new values
    losses  (E,)             n       (2,) int64
    """

    rows: np.ndarray
    theta: np.ndarray
    losses: np.ndarray
    n: np.ndarray


def empty_message(n_rows: int, n_parameters: int, n_losses: int) -> Message:
    """A message with room for that many rows (m, W) and losses (E,)."""
    return Message(
        rows=np.zeros(n_rows, dtype=np.int64),
        theta=np.zeros((n_rows, n_parameters)),
        losses=np.zeros(n_losses),
        n=np.zeros(2, dtype=np.int64),
    )


# --- what a client writes -----------------------------------------------------------------------


@inlined
def copy_entries(source, start, target, at, n):
    """target.flat[at : at + n] = source.flat[start : start + n]."""
    e = 0
    while e + LANES <= n:
        store(target, at + e, load(source, start + e))
        e += LANES
    if e < n:
        store(target, at + e, load(source, start + e, n - e), n - e)


@inlined
def copy_row(source, i, target, j):
    """target[j] = source[i] of two matrices with rows of the same length W."""
    W = source.shape[1]
    D = W // 2
    copy_entries(source, W * i, target, W * j, D)
    copy_entries(source, W * i + D, target, W * j + D, W - D)


@inlined
def step_into(model, i, message, j, features, step, shrink):
    """message.theta[j] = shrink theta_i - step z_i, as ``gradient_step`` in another place."""
    theta = model.theta
    target = message.theta
    D = theta.shape[1] // 2
    scaled = pack(-step / math.sqrt(D))
    z = i * features.place[0] + features.place[1]
    w = 2 * D * i
    to = 2 * D * j
    e = 0
    while e + LANES <= D:
        s = fma(load(features.waves.sin, z + e), scaled, load(theta, w + e) * shrink)
        c = fma(load(features.waves.cos, z + e), scaled, load(theta, w + D + e) * shrink)
        store(target, to + e, s)
        store(target, to + D + e, c)
        e += LANES
    if e < D:
        k = D - e
        s = fma(load(features.waves.sin, z + e, k), scaled, load(theta, w + e, k) * shrink)
        c = fma(load(features.waves.cos, z + e, k), scaled, load(theta, w + D + e, k) * shrink)
        store(target, to + e, s, k)
        store(target, to + D + e, c, k)


# --- what the server makes of it ----------------------------------------------------------------


@inlined
def squared_norm(theta, i):
    """||theta[i]||^2 of theta (N, W), bit for bit what ``gradient_step`` writes."""
    D = theta.shape[1] // 2
    w = theta.shape[1] * i
    a = pack(0.0)
    b = pack(0.0)
    j = 0
    while j + LANES <= D:
        s = load(theta, w + j)
        c = load(theta, w + D + j)
        a = fma(s, s, a)
        b = fma(c, c, b)
        j += LANES
    if j < D:
        s = load(theta, w + j, D - j)
        c = load(theta, w + D + j, D - j)
        a = fma(s, s, a)
        b = fma(c, c, b)
    return total(a + b)


@inlined
def add_entries(source, start, target, at, n):
    """target.flat[at : at + n] += source.flat[start : start + n]."""
    e = 0
    while e + LANES <= n:
        store(target, at + e, load(target, at + e) + load(source, start + e))
        e += LANES
    if e < n:
        k = n - e
        store(target, at + e, load(target, at + e, k) + load(source, start + e, k), k)


@inlined
def receive(server, message):
    """Add a message to the server's sums of this round."""
    N, W = server.sums.shape
    D = W // 2
    n = message.n[0]
    in_place = 0
    for j in range(n):
        i = message.rows[j]
        server.senders_of[i] += 1
        in_place += i == j
    if in_place == N:
        add_entries(message.theta, 0, server.sums, 0, N * W)
    else:
        for j in range(n):
            i = message.rows[j]
            add_entries(message.theta, W * j, server.sums, W * i, D)
            add_entries(message.theta, W * j + D, server.sums, W * i + D, W - D)
    receive_losses(server, message)


@inlined
def receive_losses(server, message):
    """Add its losses alone."""
    for e in range(message.n[1]):
        server.losses[e] += message.losses[e]
    server.senders[0] += 1


@inlined
def average_entries(theta, sums, start, n, silent, share):
    """theta = (silent theta + sums) share on flat entries start .. start + n; sums = 0."""
    e = 0
    while e < n:
        k = min(LANES, n - e)
        mean = fma(load(theta, start + e, k), silent, load(sums, start + e, k)) * share
        store(theta, start + e, mean, k)
        store(sums, start + e, pack(0.0), k)
        e += LANES


@inlined
def average(server, n_clients):
    """theta_i <- theta_i - (1/K) sum over k in C_i of (theta_i - theta_ik), (10).

    Written as the mean of K rows, so that one client's row is taken as it is.
    """
    theta = server.model.theta
    W = theta.shape[1]
    D = W // 2
    share = 1.0 / n_clients
    for i in range(theta.shape[0]):
        if server.senders_of[i] == 0:
            continue
        silent = float(n_clients - server.senders_of[i])
        average_entries(theta, server.sums, W * i, D, silent, share)
        average_entries(theta, server.sums, W * i + D, W - D, silent, share)
        server.model.norm2[i] = squared_norm(theta, i)
        server.senders_of[i] = 0


@inlined
def clear(server):
    """Empty the sums of the losses for the next round; ``average`` empties those of the rows."""
    server.losses[:] = 0.0
    server.senders[0] = 0
