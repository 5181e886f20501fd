"""Features of several clients at once.

**Rows where most of the inputs are one number.** A row that says which of 520 stations are heard,
or which of many words occur, has one number m almost everywhere. Only the frequencies of its other
inputs are read then: an argument is m times the sum over all inputs of its frequency, and (x_k - m)
times that of every input k that is not m. Each row decides that for itself, so clients have the
same bits together and alone; where m is 0 they are the bits of the sum over all inputs.

**All clients of a round, for learners whose clients learn and send every kernel.** With few
features a kernel, what is done once a kernel costs as much as its features: a pack that is not
full, a sum over its eight numbers. Here a pack is one feature of eight kernels, so all packs are
whole. A group of eight kernels goes through the clients of a round: it predicts, sees their labels,
and adds the rows that they would send to the server's sums, in the order of clients.

Every sum is added up in the order of ``random_features`` and ``messages``. So outputs, losses and
sums have the bits of clients that go one by one, as they do on machines apart, and where the server
looks at single messages or noise is added to them.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from omkl.core.compiler import dispatch, inlined
from omkl.core.representations.random_features import RandomFeatures, take_step
from omkl.core.representations.sincos_features import (
    arguments,
    arguments_of_four,
    clear_behind,
    dot_features,
    gradient_step_at,
    waves_of_four,
)
from omkl.core.simd import LANES, aligned, fma, load, pack, store, total
from omkl.core.trigonometry import Waves, empty_waves, fill
from omkl.federated.messages import copy, step_into

FEWEST_INPUTS = 64  # with less a row is read as it is
SHARE = 4  # so is one of which more than a fourth of the inputs are other numbers
CACHED = 2**20  # bytes of frequencies that are cheap to read once more
MANY_ROWS = 64  # clients whose features are computed together where they are not
FOUR = 4  # clients that a group of kernels takes at once
CLIENTS = 32  # of which outputs and losses are kept, a multiple of FOUR
LANE_FEATURES = 32  # with more a group's arrays leave the first cache


# --- A tile of clients whose features are computed at once ----------------------------------------
#
# Their arguments are a small matrix product for a tile of rows, so that the frequencies are read
# once for all of them. Every scratch of clients has
#
#     angle   (ROWS S,), S as of ``RandomFeatures``
#     waves   sines and cosines, (N rows S,) each: kernel by kernel, row by row, zeros behind D
#     place   (2,) int64: the features of the evaluated kernel number m begin at
#             m place[0] + place[1]: rows S and the present row's part of that

ROWS = 4  # of a tile, whose arguments are computed at once


def tile_of(model: RandomFeatures, rows: int) -> tuple[np.ndarray, Waves, np.ndarray]:
    """These three for a tile of so many rows."""
    N, S = len(model.padded), model.theta.shape[1] // 2
    return aligned((ROWS * S,)), empty_waves(N * S * rows), np.array([S, 0])


@functools.singledispatch
def arguments_of_rows(scratch, padded, D, i, X, row, r, n):
    """Those of kernel i at rows r .. r + n - 1 of a tile, n <= ROWS, to scratch.angle (ROWS D,).

    The tile begins at X[row], X (rows, d); padded (N, d, W). Kernel 0 comes first.
    """
    raise TypeError(f"no arguments are registered for {type(scratch)}")


@inlined
def arguments_of_all_inputs(scratch, padded, D, i, X, row, r, n):
    """``arguments_of_rows`` where every input of every row is read."""
    if n == ROWS:
        arguments_of_four(padded, D, i, X, row + r, scratch.angle)
    else:
        for s in range(n):
            arguments(padded, D, i, X, row + r + s, scratch.angle, s * D)


@inlined
def advance_tile(model, X, row, scratch):
    """Bring the tile to X[row], X (rows, d): one row further, or filled anew if used up.

    The rows of X are visited in their order. Kernel by kernel: its frequencies stay near
    while all rows of the tile need them.
    """
    D = model.n_waves[0]
    S = model.theta.shape[1] // 2
    if row > 0 and scratch.place[1] + S < scratch.place[0]:
        scratch.place[1] += S
        return
    N = model.padded.shape[0]
    rows = min(scratch.waves.sin.shape[0] // (N * S), X.shape[0] - row)
    for i in range(N):
        for r in range(0, rows, ROWS):
            n = min(ROWS, rows - r)
            arguments_of_rows(scratch, model.padded, S, i, X, row, r, n)
            fill(scratch.waves, n * S, scratch.angle, (i * rows + r) * S)
        for r in range(rows):
            clear_behind(scratch.waves, (i * rows + r) * S, D, S)
    scratch.place[0] = rows * S
    scratch.place[1] = 0


@inlined
def tile_outputs(model, scratch, f):
    """f[i] = theta_i'z_i at the present row of the tile, f (N,)."""
    scale = 1.0 / math.sqrt(model.n_waves[0])
    for i in range(f.shape[0]):
        z = i * scratch.place[0] + scratch.place[1]
        f[i] = scale * total(dot_features(model, i, scratch.waves, z))


def take_step_in_tile(scratch, model, i, m, step, shrink):
    """``take_step`` by features of a tile."""
    gradient_step_at(model, i, scratch.waves, m * scratch.place[0] + scratch.place[1], step, shrink)


@inlined
def evaluate(model, X, row, scratch):
    """scratch.f[i] = theta_i'z_i(X[row]) of all N kernels; X (C, d).

    Rows are visited in their order: the features of several clients are computed together.
    """
    advance_tile(model, X, row, scratch.model)
    tile_outputs(model, scratch.model, scratch.f)


class ClientTile(NamedTuple):
    """What the features of a tile of clients are written to.

    angle, waves, place  see above
    sums      (N, W) frequencies, summed over inputs; (0, 0) where inputs are few
    common    (rows,) the number that most inputs of a row are
    n_others  (rows,) int64: how many are another one; -1 where they are too many
    others    (rows, d) int64: which
    """

    angle: np.ndarray
    waves: Waves
    place: np.ndarray
    sums: np.ndarray
    common: np.ndarray
    n_others: np.ndarray
    others: np.ndarray


def client_tile(model: RandomFeatures) -> ClientTile:
    """Scratch for the features of several clients, of more where frequencies are many."""
    d = model.padded.shape[1]
    rows = ROWS if model.padded.nbytes <= CACHED else MANY_ROWS
    looked_at = d >= FEWEST_INPUTS
    marked = rows if looked_at else 0
    return ClientTile(
        *tile_of(model, rows),
        sums=sums_over_inputs(model.padded) if looked_at else aligned((0, 0)),
        common=np.zeros(marked),
        n_others=np.zeros(marked, dtype=np.int64),
        others=np.zeros((marked, d), dtype=np.int64),
    )


def sums_over_inputs(padded: np.ndarray) -> np.ndarray:
    """Frequencies (N, d, W), summed over inputs: (N, W)."""
    N, d, W = padded.shape
    sums = aligned((N, W))
    for k in range(d):
        sums += padded[:, k]
    return sums


@inlined
def _mark(X, row, r, scratch):
    """What most inputs of X[row] are, and which are not, as row r of the tile."""
    d = X.shape[1]
    common = X[row, 0]
    lead = 0
    for k in range(d):  # Boyer and Moore: who has more than half of all votes is left
        if lead == 0:
            common = X[row, k]
        lead += 1 if X[row, k] == common else -1
    n = 0
    for k in range(d):
        scratch.others[r, n] = k
        n += 1 if X[row, k] != common else 0
    scratch.common[r] = common
    scratch.n_others[r] = n if SHARE * n <= d else -1


@inlined
def _arguments_of_few(padded, sums, D, i, X, row, common, others, n, angle, start):
    """``arguments`` of a row whose inputs are ``common`` but for the first n of others (n,)."""
    d, W = padded.shape[1], padded.shape[2]
    first, p = i * d * W, i * W
    j = 0
    while j + 4 * LANES <= W:
        a0 = load(sums, p + j) * common
        a1 = load(sums, p + j + LANES) * common
        a2 = load(sums, p + j + 2 * LANES) * common
        a3 = load(sums, p + j + 3 * LANES) * common
        for m in range(n):
            k = others[m]
            u = X[row, k] - common
            w = first + k * W + j
            a0 = fma(load(padded, w), u, a0)
            a1 = fma(load(padded, w + LANES), u, a1)
            a2 = fma(load(padded, w + 2 * LANES), u, a2)
            a3 = fma(load(padded, w + 3 * LANES), u, a3)
        store(angle, start + j, a0)
        store(angle, start + j + LANES, a1)
        store(angle, start + j + 2 * LANES, a2)
        store(angle, start + j + 3 * LANES, a3, min(LANES, D - j - 3 * LANES))
        j += 4 * LANES
    while j < W:
        a0 = load(sums, p + j) * common
        for m in range(n):
            k = others[m]
            a0 = fma(load(padded, first + k * W + j), X[row, k] - common, a0)
        store(angle, start + j, a0, min(LANES, D - j))
        j += LANES


def _arguments_of_rows(scratch, padded, D, i, X, row, r, n):
    if scratch.sums.shape[0] == 0:
        arguments_of_all_inputs(scratch, padded, D, i, X, row, r, n)
        return
    n_few = 0
    for s in range(r, r + n):
        if i == 0:
            _mark(X, row + s, s, scratch)
        n_few += 1 if scratch.n_others[s] >= 0 else 0
    if n_few == 0:
        arguments_of_all_inputs(scratch, padded, D, i, X, row, r, n)
        return
    for s in range(n):
        if scratch.n_others[r + s] >= 0:
            _arguments_of_few(
                padded, scratch.sums, D, i, X, row + r + s, scratch.common[r + s],
                scratch.others[r + s], scratch.n_others[r + s], scratch.angle, s * D,
            )  # fmt: skip
        else:
            arguments(padded, D, i, X, row + r + s, scratch.angle, s * D)


dispatch(arguments_of_rows, ClientTile, _arguments_of_rows)
dispatch(take_step, ClientTile, take_step_in_tile)


# --- a round of all clients, eight kernels side by side -----------------------------------------


class LaneScratch(NamedTuple):
    """What a client's round writes to, and what a round of several does.

    G = ceil(N / 8) groups of kernels; (0,) arrays where clients go one by one.

    angle, waves, place  of a tile, for clients that go one by one
    padded  (G, d, 8 D) frequencies: number m of the eight belongs to kernel 8 g + m
    theta   (2 D 8,) coefficients of a group after the part of the step that no label decides
    held    (2 D 8,) before it
    sums    (2 D 8,) of the rows that clients send
    norm2   (8 G,) squared norms
    lanes   waves of a group at FOUR clients, (FOUR D 8,) each
    scaled  (FOUR 8,) what the clients' steps multiply waves by
    f, loss (CLIENTS, 8 G) outputs and losses
    taken   (2,) int64: the present row of these, and how many there are; 0: one by one
    """

    angle: np.ndarray
    waves: Waves
    place: np.ndarray
    padded: np.ndarray
    theta: np.ndarray
    held: np.ndarray
    sums: np.ndarray
    norm2: np.ndarray
    lanes: Waves
    scaled: np.ndarray
    f: np.ndarray
    loss: np.ndarray
    taken: np.ndarray


def lane_scratch(model: RandomFeatures) -> LaneScratch:
    """Scratch of a model; where kernels are few or have many features clients go one by one."""
    N, d, D = model.omega.shape
    G = -(-N // LANES) if 2 * N > LANES and D <= LANE_FEATURES else 0
    width = D * LANES if G else 0
    padded = aligned((G, d, width))
    for i in range(N if G else 0):
        padded[i // LANES, :, i % LANES :: LANES] = model.omega[i]
    return LaneScratch(
        *tile_of(model, ROWS),
        padded=padded,
        theta=aligned((2 * width,)),
        held=aligned((2 * width,)),
        sums=aligned((2 * width,)),
        norm2=aligned((LANES * G,)),
        lanes=Waves(aligned((FOUR * width,)), aligned((FOUR * width,))),
        scaled=aligned((FOUR * LANES,)),
        f=aligned((CLIENTS, LANES * G)),
        loss=aligned((CLIENTS, LANES * G)),
        taken=np.zeros(2, dtype=np.int64),
    )


# As where clients learn together: their bits are the same.
dispatch(arguments_of_rows, LaneScratch, arguments_of_all_inputs)


# --- eight kernels ------------------------------------------------------------------------------


@inlined
def _sum_of_lane(theta, waves, z, D, first):
    """What ``tile_outputs`` has in the place ``first`` of a pack before it sums the eight."""
    a = pack(0.0)
    b = pack(0.0)
    for j in range(first, D, LANES):
        a = fma(load(theta, j * LANES), load(waves.sin, z + j * LANES), a)
        b = fma(load(theta, (D + j) * LANES), load(waves.cos, z + j * LANES), b)
    return a + b


@inlined
def _say(theta, waves, z, D):
    """sqrt(D) theta'z of eight kernels, the waves at z; added up as ``tile_outputs`` does."""
    even = _sum_of_lane(theta, waves, z, D, 0) + _sum_of_lane(theta, waves, z, D, 4)
    even = even + (_sum_of_lane(theta, waves, z, D, 2) + _sum_of_lane(theta, waves, z, D, 6))
    odd = _sum_of_lane(theta, waves, z, D, 1) + _sum_of_lane(theta, waves, z, D, 5)
    odd = odd + (_sum_of_lane(theta, waves, z, D, 3) + _sum_of_lane(theta, waves, z, D, 7))
    return even + odd


@inlined
def _add_rows(scratch, D, first):
    """sums += theta + scaled times waves, client by client from number ``first`` of the four."""
    waves, scaled = scratch.lanes, scratch.scaled
    for j in range(0, D * LANES, LANES):
        s, c = load(scratch.theta, j), load(scratch.theta, D * LANES + j)
        sines, cosines = load(scratch.sums, j), load(scratch.sums, D * LANES + j)
        for r in range(first, FOUR):
            z = r * D * LANES + j
            sines = sines + fma(load(waves.sin, z), load(scaled, r * LANES), s)
            cosines = cosines + fma(load(waves.cos, z), load(scaled, r * LANES), c)
        store(scratch.sums, j, sines)
        store(scratch.sums, D * LANES + j, cosines)


@inlined
def _take_group(model, sums, g, shrink, scratch):
    """Copy the coefficients of group g and the sums (N, 2 D) of its rows."""
    N, W = model.theta.shape
    for e in range(LANES * g, min(N, LANES * (g + 1))):
        for j in range(W):
            at = j * LANES + e - LANES * g
            scratch.held[at] = model.theta[e, j]
            scratch.sums[at] = sums[e, j]
        scratch.norm2[e] = model.norm2[e]
    for j in range(0, W * LANES, LANES):
        store(scratch.theta, j, load(scratch.held, j) * shrink)


@inlined
def _return_sums(scratch, g, sums):
    """Copy the sums of group g back."""
    N, W = sums.shape
    for e in range(LANES * g, min(N, LANES * (g + 1))):
        for j in range(W):
            sums[e, j] = scratch.sums[j * LANES + e - LANES * g]


@inlined
def learn_by_lanes(scratch, server, eta, lam, X, y, row):
    """Learn from clients row .. row + n - 1 of X (C, d), y (C,); return n, 0 for one by one.

    Their outputs and losses are handed out by ``evaluate_or_take`` and ``step_or_take``; the rows
    that they would send are in the server's sums.
    """
    n = min(CLIENTS, X.shape[0] - row)
    groups = scratch.padded.shape[0]
    if groups == 0 or X.shape[0] < FOUR:
        return 0
    D = server.model.theta.shape[1] // 2
    root = math.sqrt(D)
    scale = 1.0 / math.sqrt(D)
    for g in range(groups):
        _take_group(server.model, server.sums, g, 1.0 - 2.0 * eta * lam, scratch)
        penalty = load(scratch.norm2, LANES * g) * lam
        for start in range(0, n, FOUR):
            four = min(row + start, X.shape[0] - FOUR)  # the last ones: some of them once more
            first = row + start - four
            waves_of_four(scratch.padded, D, g, X, four, scratch.lanes, 0)
            for r in range(first, FOUR):
                f = _say(scratch.held, scratch.lanes, r * D * LANES, D) * scale
                error = f - y[four + r]
                at = scratch.f.shape[1] * (four + r - row) + LANES * g
                store(scratch.f, at, f)
                store(scratch.loss, at, fma(error, error, penalty))
                store(scratch.scaled, r * LANES, error * (-2.0 * eta) / root)
            _add_rows(scratch, D, first)
        _return_sums(scratch, g, server.sums)
    for i in range(server.senders_of.shape[0]):
        server.senders_of[i] += n
    scratch.taken[0] = 0
    scratch.taken[1] = n
    return n


# --- one client ---------------------------------------------------------------------------------


@inlined
def evaluate_or_take(model, X, row, scratch):
    """``evaluate``, or what ``learn_by_lanes`` has found for this client."""
    if scratch.model.taken[1] > 0:
        lanes, N = scratch.model, scratch.f.shape[0]
        copy(lanes.f, lanes.f.shape[1] * lanes.taken[0], scratch.f, 0, N)
    else:
        evaluate(model, X, row, scratch)


@inlined
def step_or_take(eta, lam, server, y, scratch, message):
    """Losses (N,) of all kernels, and message.theta (N, 2 D): each one gradient step further.

    Where ``learn_by_lanes`` has learned from the client, its message is in the server's sums.
    """
    taken = scratch.model.taken
    if taken[1] > 0:
        losses = scratch.model.loss
        copy(losses, losses.shape[1] * taken[0], scratch.loss, 0, scratch.loss.shape[0])
        taken[0] += 1
        taken[1] = taken[1] if taken[0] < taken[1] else 0
        return
    N = scratch.f.shape[0]
    for i in range(0, N, LANES):
        n = min(LANES, N - i)
        error = load(scratch.f, i, n) - y
        store(scratch.loss, i, fma(error, error, load(server.model.norm2, i, n) * lam), n)
    for i in range(N):
        slope, shrink = 2.0 * eta * (scratch.f[i] - y), 1.0 - 2.0 * eta * lam
        step_into(server.model, i, message, i, scratch.model, slope, shrink)
