"""The protocol of a federated learner, and the loop over its rounds and clients.

K clients see a stream each; a server holds the parameters that they share. Every round is

    announce    the server draws what all clients are told
    select      a client draws the rows of the shared parameters that it will learn
    predict     it predicts from what it was told and from what it keeps; no label yet
    local       it sees the label, learns what it keeps and writes a message
    aggregate   the server learns from the messages of all clients

The same steps run in the simulation below, all clients in compiled code, and behind Flower,
a client a process (``omkl.federated.flower``).

Shared parameters are rows of one matrix: theta_i of kernel i, or the parameters of a network
as its only row. A message holds new values of some rows and up to E numbers besides; that and
nothing else goes from a client to the server. ``average`` is (10) of Ghari and Shen (NeurIPS
2022): a client that sent nothing for a row counts as one that left the row as it was. A client
whose stream has come to its end is done: from then on K counts those that still have rounds.

Notation (paper | code | shape)
    client k of K | k | 0..K-1          round t of T | t | 1-based
    theta_i,t | server.model.theta[i]   w_ik,t | own.log_w[k, i] = log w
    theta_ik,t+1 | message.theta[j] with message.rows[j] = i
    L(f_i) | room.loss[i]               L(f_hat) | room.own_loss[0]
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.core.jit import compiled, dispatch, inlined, qualify_name, uncached
from omkl.core.representations import random_features
from omkl.core.representations.random_features import (
    RandomFeatures,
    draw_features,
    outputs,
    transform_ahead,
)
from omkl.core.simd import LANES, fma, load, pack, store, total

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel

BYTES = 8  # of a float64 and of the index of a row
MOST_FEATURES = 100  # the paper's limit of what a client can hold
CACHED = 2**20  # bytes of frequencies that are cheap to read once more
MANY_ROWS = 64  # clients whose features are computed together where they are not


class Server(NamedTuple):
    """What the server knows; clients read model, log_w and announced, as last told.

    model      shared parameters ``theta`` (N, W) and their squared norms ``norm2`` (N,)
    log_w      (E,) weights of all clients; (0,) where clients keep their own
    announced  (A,) int64, rows that the server names; it sends the first of them, or all
               rows where A = 0
    sums       (N, W) of this round's messages, by row; zeros before the first
    senders_of (N,) int64 how many messages held the row
    extras     (E,) sums of the messages' further numbers
    senders    (1,) int64 how many messages came
    """

    model: Any
    log_w: np.ndarray
    announced: np.ndarray
    sums: np.ndarray
    senders_of: np.ndarray
    extras: np.ndarray
    senders: np.ndarray


class Message(NamedTuple):
    """What a client sends: ``n[0]`` rows of the shared parameters and ``n[1]`` numbers besides.

    rows    (m,) int64       theta   (m, W) their new values
    extras  (E,)             n       (2,) int64
    """

    rows: np.ndarray
    theta: np.ndarray
    extras: np.ndarray
    n: np.ndarray


class Room(NamedTuple):
    """Room for one client's round; reused for the next client.

    every     (N,) int64, 0..N-1
    f, loss   (N,) outputs and losses of the kernels
    own_loss  (1,) loss of the prediction
    p         (1,) probability that the client sends the rows that it chose
    w         (N,) weights
    buffers   features of all kernels, or the layers of a network
    """

    every: np.ndarray
    f: np.ndarray
    loss: np.ndarray
    own_loss: np.ndarray
    p: np.ndarray
    w: np.ndarray
    buffers: Any


class Nothing(NamedTuple):
    """What clients keep who keep nothing."""

    nothing: np.ndarray  # (K, 0)


def nothing(params: Any, dictionary: Sequence[Kernel], model: Any, n_clients: int) -> Nothing:
    """``keeps`` of clients that keep nothing."""
    return Nothing(np.zeros((n_clients, 0)))


@functools.singledispatch
def announce(params, server, t, u):
    """The server draws what all clients are told, from the uniform numbers u."""
    raise TypeError(f"no federated algorithm is registered for {type(params)}")


@functools.singledispatch
def select(params, server, own, k, t, u, room, message):
    """Client k draws the rows that it will learn: message.rows, message.n[0], room.p."""
    raise TypeError(f"no federated algorithm is registered for {type(params)}")


@functools.singledispatch
def predict(params, server, own, k, t, X, row, room):
    """Return y_hat for X[row]; fills room.f."""
    raise TypeError(f"no federated algorithm is registered for {type(params)}")


@functools.singledispatch
def local(params, server, own, k, t, y, y_hat, room, message):
    """Client k learns from the label y: what it keeps, room.loss and the message."""
    raise TypeError(f"no federated algorithm is registered for {type(params)}")


@functools.singledispatch
def aggregate(params, server, t, n_clients):
    """The server learns from the sums of this round's messages.

    ``n_clients`` counts the clients that have a sample in this round.
    """
    raise TypeError(f"no federated algorithm is registered for {type(params)}")


# --- what algorithms are made of ----------------------------------------------------------------


@inlined
def say_nothing(params, server, t, u):
    """``announce`` of a server that draws nothing."""


@inlined
def choose_every(server, room, message):
    """Learn and send all rows."""
    N = server.model.theta.shape[0]
    if message.n[0] != N:
        for i in range(N):
            message.rows[i] = i
        message.n[0] = N
    room.p[0] = 1.0


@inlined
def evaluate(model, X, row, room):
    """room.f[i] = theta_i'z_i(X[row]) of all kernels.

    Rows are visited in their order: the features of several clients are computed together.
    """
    transform_ahead(model, X, row, room.buffers)
    outputs(model, room.every, room.f.shape[0], room.buffers, room.f)


@inlined
def squared_norm(theta, i):
    """||theta[i]||^2, bit for bit what ``gradient_step`` writes."""
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


# A row is gone through in the two halves of its sines and cosines, by every step alike: a pack that
# overlaps two of those just written would wait for both.


@inlined
def copy_part(source, start, target, at, n):
    """target.flat[at : at + n] = source.flat[start : start + n]."""
    e = 0
    while e + LANES <= n:
        store(target, at + e, load(source, start + e))
        e += LANES
    if e < n:
        store(target, at + e, load(source, start + e, n - e), n - e)


@inlined
def copy_row(source, i, target, j):
    """target[j] = source[i] of two matrices with rows of the same length."""
    W = source.shape[1]
    D = W // 2
    copy_part(source, W * i, target, W * j, D)
    copy_part(source, W * i + D, target, W * j + D, W - D)


@inlined
def add_part(source, start, target, at, n):
    """target.flat[at : at + n] += source.flat[start : start + n]."""
    e = 0
    while e + LANES <= n:
        store(target, at + e, load(target, at + e) + load(source, start + e))
        e += LANES
    if e < n:
        k = n - e
        store(target, at + e, load(target, at + e, k) + load(source, start + e, k), k)


@inlined
def step_into(model, i, message, j, buffers, step, shrink):
    """message.theta[j] = shrink theta_i - step z_i, as ``gradient_step`` in another place."""
    theta = model.theta
    target = message.theta
    D = theta.shape[1] // 2
    scaled = pack(-step / math.sqrt(D))
    z = i * buffers.place[0] + buffers.place[1]
    w = 2 * D * i
    to = 2 * D * j
    e = 0
    while e + LANES <= D:
        s = fma(load(buffers.waves.sin, z + e), scaled, load(theta, w + e) * shrink)
        c = fma(load(buffers.waves.cos, z + e), scaled, load(theta, w + D + e) * shrink)
        store(target, to + e, s)
        store(target, to + D + e, c)
        e += LANES
    if e < D:
        k = D - e
        s = fma(load(buffers.waves.sin, z + e, k), scaled, load(theta, w + e, k) * shrink)
        c = fma(load(buffers.waves.cos, z + e, k), scaled, load(theta, w + D + e, k) * shrink)
        store(target, to + e, s, k)
        store(target, to + D + e, c, k)


@inlined
def receive(server, message):
    """Add a message to this round's sums."""
    N, W = server.sums.shape
    D = W // 2
    n = message.n[0]
    in_place = 0
    for j in range(n):
        i = message.rows[j]
        server.senders_of[i] += 1
        in_place += i == j
    if in_place == N:
        add_part(message.theta, 0, server.sums, 0, N * W)
    else:
        for j in range(n):
            i = message.rows[j]
            add_part(message.theta, W * j, server.sums, W * i, D)
            add_part(message.theta, W * j + D, server.sums, W * i + D, W - D)
    for e in range(message.n[1]):
        server.extras[e] += message.extras[e]
    server.senders[0] += 1


@inlined
def average_part(theta, sums, start, n, silent, share):
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
        average_part(theta, server.sums, W * i, D, silent, share)
        average_part(theta, server.sums, W * i + D, W - D, silent, share)
        server.model.norm2[i] = squared_norm(theta, i)
        server.senders_of[i] = 0


@inlined
def forget(server):
    """Empty the sums of the extras for the next round."""
    server.extras[:] = 0.0
    server.senders[0] = 0


# --- the loop -----------------------------------------------------------------------------------


@inlined
def client_turn(params, server, own, k, t, X, row, y, u, room, message):
    """A client's round: its prediction, given before y is seen; ``message`` is ready to be sent.

    Within a round the rows of X are visited in their order, none left out (``evaluate``).
    """
    message.n[1] = 0
    select(params, server, own, k, t, u, room, message)
    y_hat = predict(params, server, own, k, t, X, row, room)
    local(params, server, own, k, t, y, y_hat, room, message)
    return y_hat


@compiled
def run_rounds(
    params,
    server,
    own,
    t,
    who,
    X,
    Y,
    u,
    v,
    room,
    message,
    y_hat,
    losses,
    loss,
    regret,
    sent,
    used,
    worst,
):
    """Rounds t + 1 .. t + n of the C clients ``who`` (C,) int64, of K.

    X (n, C, d), Y (n, C); u (n, C, a) and v (n, b) uniform numbers of the clients and of the
    server. Written: y_hat (n, C); losses (K, 1 + N) cumulative, of the prediction and of every
    kernel; loss (n, C) the first of them after each round; regret (n, C) as in (11) with
    T = t; sent (K, 2) int64 numbers and rows of each client; used (N,) int64 messages that
    held a row; worst (2,) the largest squared error of a prediction and the largest loss of a
    kernel.
    """
    n, C = Y.shape
    N = room.f.shape[0]
    for s in range(n):
        now = t + s + 1
        announce(params, server, now, v[s])
        for c in range(C):
            k = who[c]
            y = Y[s, c]
            prediction = client_turn(
                params, server, own, k, now, X[s], c, y, u[s, c], room, message
            )
            y_hat[s, c] = prediction
            losses[k, 0] += room.own_loss[0]
            best = np.inf
            largest = worst[1]
            for i in range(N):
                losses[k, 1 + i] += room.loss[i]
                best = min(best, losses[k, 1 + i])
                largest = max(largest, room.loss[i])
            worst[1] = largest
            worst[0] = max(worst[0], (prediction - y) * (prediction - y))
            loss[s, c] = losses[k, 0]
            regret[s, c] = losses[k, 0] - best
            sent[k, 0] += message.n[0] * message.theta.shape[1] + message.n[1]
            sent[k, 1] += message.n[0]
            for j in range(message.n[0]):
                used[message.rows[j]] += 1
            receive(server, message)
        aggregate(params, server, now, C)
        forget(server)


@compiled
def run_client(params, server, own, t, X, y, u, room, message):
    """One client's round on its own, with what it was told in ``server``; returns y_hat."""
    return client_turn(params, server, own, 0, t, X, 0, y, u, room, message)


@compiled
def run_announcement(params, server, t, u):
    """The server's part before the clients'."""
    announce(params, server, t, u)


@compiled
def run_receipt(server, message):
    """One message at the server."""
    receive(server, message)


@compiled
def run_aggregation(params, server, t, n_clients):
    """The server's part after the clients'."""
    aggregate(params, server, t, n_clients)
    forget(server)


@compiled
def take_row(model, i, values):
    """model.theta[i] = values, and its norm."""
    for e in range(values.shape[0]):
        model.theta[i, e] = values[e]
    model.norm2[i] = squared_norm(model.theta, i)


def compiled_for(Params: type, function: Any) -> Any:
    """Code of algorithms outside the package is not kept on disk, where edits would go unseen."""
    return function if Params.__module__.startswith("omkl.") else uncached(function)


# --- registration -------------------------------------------------------------------------------


class FederatedAlgorithm(NamedTuple):
    """A federated learner, as its module in ``omkl.federated.algorithms`` registers it.

    name      as typed after ``algorithm=``
    Params    the NamedTuple of hyper-parameters, the keys of its YAML
    keeps     (params, dictionary, model, K) -> what the clients keep, arrays (K, ...)
    upload    (params, N, W) -> the most numbers that a client sends in a round
    kernels   (params, dictionary) -> the kernels that it learns with; () for a network
    model     (params, dictionary, d, D, seed, max_upload) -> shared parameters
    buffers   (model) -> room for a client's features or layers
    draws     uniform numbers a round of a client and of the server
    shared_weights   the server keeps weights of the kernels; clients send their losses
    announces        rows that the server sends a round, and those that it names; (0, 0): all
    module    where it is defined
    """

    name: str
    Params: type
    keeps: Callable[..., Any]
    upload: Callable[[Any, int, int], int]
    kernels: Callable[[Any, Sequence[Kernel]], Sequence[Kernel]]
    model: Callable[..., Any]
    buffers: Callable[[Any], Any]
    draws: tuple[int, int]
    shared_weights: bool
    announces: tuple[int, int]
    module: str


def _draw_features(
    params: Any, dictionary: Sequence[Kernel], d: int, D: int, seed: int, max_upload: int | None
) -> RandomFeatures:
    return draw_features(dictionary, d, D, seed)


def _dictionary(params: Any, dictionary: Sequence[Kernel]) -> Sequence[Kernel]:
    return dictionary


def _tile(model: RandomFeatures) -> random_features.Buffers | random_features.Tile:
    """Room for the features of some clients, of more where frequencies are many."""
    rows = random_features.ROWS if model.padded.nbytes <= CACHED else MANY_ROWS
    return random_features.buffers(model, every_kernel=True, rows=rows)


def register(
    module: str,
    Params: type,
    *,
    select: Callable[..., Any],
    predict: Callable[..., Any],
    local: Callable[..., Any],
    aggregate: Callable[..., Any],
    upload: Callable[[Any, int, int], int],
    announce: Callable[..., Any] = say_nothing,
    keeps: Callable[..., Any] = nothing,
    kernels: Callable[[Any, Sequence[Kernel]], Sequence[Kernel]] = _dictionary,
    model: Callable[..., Any] = _draw_features,
    buffers: Callable[[Any], Any] = _tile,
    draws: tuple[int, int] = (0, 0),
    shared_weights: bool = False,
    announces: tuple[int, int] = (0, 0),
) -> FederatedAlgorithm:
    """Make a module's five steps those that the loop takes for its Params."""
    given = (announce, select, predict, local, aggregate)
    for step, function in zip(_STEPS, given, strict=True):
        dispatch(step, Params, function)
    return FederatedAlgorithm(
        module.removeprefix("omkl.federated.algorithms.").replace(".", "/"),
        Params,
        keeps,
        upload,
        kernels,
        model,
        buffers,
        draws,
        shared_weights,
        announces,
        module,
    )


_STEPS = (announce, select, predict, local, aggregate)


def blank_server(algorithm: FederatedAlgorithm, model: Any) -> Server:
    """The server before the first round."""
    N, W = model.theta.shape
    E = N if algorithm.shared_weights else 0
    return Server(
        model,
        log_w=np.zeros(E),
        announced=np.zeros(algorithm.announces[1], dtype=np.int64),
        sums=np.zeros((N, W)),
        senders_of=np.zeros(N, dtype=np.int64),
        extras=np.zeros(E),
        senders=np.zeros(1, dtype=np.int64),
    )


def blank_message(algorithm: FederatedAlgorithm, params: Any, model: Any) -> Message:
    """Room for a message of the largest size."""
    N, W = model.theta.shape
    E = N if algorithm.shared_weights else 0
    m = (algorithm.upload(params, N, W) - E) // W
    return Message(
        rows=np.zeros(m, dtype=np.int64),
        theta=np.zeros((m, W)),
        extras=np.zeros(E),
        n=np.zeros(2, dtype=np.int64),
    )


def blank_room(algorithm: FederatedAlgorithm, model: Any) -> Room:
    N = len(model.theta)
    return Room(
        every=np.arange(N),
        f=np.zeros(N),
        loss=np.zeros(N),
        own_loss=np.zeros(1),
        p=np.zeros(1),
        w=np.zeros(N),
        buffers=algorithm.buffers(model),
    )


def tell_states_apart(*states: Any) -> None:
    for state in states:
        qualify_name(type(state))


def generators(seed: int, n_clients: int) -> list[np.random.Generator]:
    """The server's generator and one a client; a client's does not depend on how many there are."""
    children = np.random.SeedSequence(seed).spawn(2)[1].spawn(n_clients + 1)
    return [np.random.default_rng(child) for child in children]


def download(algorithm: FederatedAlgorithm, server: Server) -> tuple[int, int]:
    """Numbers and indices that the server sends to each client in a round."""
    N, W = server.model.theta.shape
    rows, named = algorithm.announces
    weights = 0 if rows else len(server.log_w)  # a server that draws keeps them to itself
    return (rows or N) * W + weights, named


def features_for(
    algorithm: FederatedAlgorithm, params: Any, n_kernels: int, max_upload: int | None
) -> int:
    """D: the most random features, up to 100, with which no message exceeds ``max_upload``."""
    if max_upload is None:
        return MOST_FEATURES
    for D in range(MOST_FEATURES, 0, -1):
        if algorithm.upload(params, n_kernels, 2 * D) <= max_upload:
            return D
    least = algorithm.upload(params, n_kernels, 2)
    raise ValueError(
        f"max_upload={max_upload}: {algorithm.name} sends at least {least} numbers a round, even "
        "with one random feature a kernel. Allow more, or choose fewer kernels or a smaller M"
    )


def check_budget(
    algorithm: FederatedAlgorithm, params: Any, shape: tuple[int, int], max_upload: int | None
) -> None:
    """ValueError if a message of these shared parameters (N, W) could exceed the budget."""
    if max_upload is None:
        return
    N, W = shape
    most = algorithm.upload(params, N, W)
    if most > max_upload:
        raise ValueError(
            f"{algorithm.name} would send {most} numbers a round, max_upload={max_upload}; "
            "leave D=null, which chooses it from the budget, or choose a smaller D or M"
        )
