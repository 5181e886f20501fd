"""The protocol of a federated learner, and the loop over its rounds and clients.

K clients see a stream each; a server holds the parameters that they share. Every round is

    announce    the server draws what it names to all clients
    select      a client draws the rows of the shared parameters that it will learn
    predict     it predicts from the server's state and from its own; no label yet
    local_step  it sees the label, learns its own state and writes a message
    aggregate   the server learns from the messages of all clients that it asked for them

The same steps run in the simulation, all clients in compiled code, and behind Flower, a client
a process (``omkl.federation.flower``). Where all clients send all rows, the simulation may let them
learn together, to the same bits: ``learn_clients``.

Shared parameters are rows of one matrix: theta_i of kernel i, or the parameters of a network
as its only row. A ``Message`` holds new values of some rows and up to E losses; that and
nothing else goes from a client to the server. A client whose stream has come to its end is
done: from then on K counts those that still have rounds.

Notation (paper | code | shape)
    client k of K | k | 0..K-1          round t of T | t | 1-based
    theta_i,t | server.model.theta[i]   w_ik,t | clients.log_w[k, i] = log w
    theta_ik,t+1 | message.theta[j] with message.rows[j] = i
    L(f_i) | scratch.loss[i]            L(f_hat) | scratch.own_loss[0]
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.core.compiler import compiled, compiled_uncached, dispatch, inlined
from omkl.core.representations.random_features import (
    RandomFeatures,
    compact,
    draw_features,
    outputs,
    transform_ahead,
)
from omkl.federated.client_tiles import client_tile
from omkl.federated.exchange import is_simple, protect, settle, take
from omkl.federated.messages import clear, receive_losses, squared_norm
from omkl.federated.rounds import add_losses

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel


class ServerState(NamedTuple):
    """What the server knows; clients read model, log_w and announced, as last sent to them.

    model      shared parameters ``theta`` (N, W) and their squared norms ``norm2`` (N,)
    log_w      (E,) weights of all clients; (0,) where clients keep their own
    announced  (A,) int64, rows that the server names; it sends the first of them, or all
               rows where A = 0
    sums       (N, W) of this round's messages, by row; zeros before the first
    senders_of (N,) int64 how many messages held the row
    losses     (E,) sums of the messages' losses
    senders    (1,) int64 how many messages came
    """

    model: Any
    log_w: np.ndarray
    announced: np.ndarray
    sums: np.ndarray
    senders_of: np.ndarray
    losses: np.ndarray
    senders: np.ndarray


class ClientScratch(NamedTuple):
    """What a client's round writes to; reused for the next client.

    every     (N,) int64, 0..N-1
    f, loss   (N,) outputs and losses of the kernels
    own_loss  (1,) loss of the prediction
    p         (1,) probability that the client sends the rows that it chose
    w         (N,) weights
    model     scratch of the model: features of all kernels, or the layers of a network
    """

    every: np.ndarray
    f: np.ndarray
    loss: np.ndarray
    own_loss: np.ndarray
    p: np.ndarray
    w: np.ndarray
    model: Any


class NoClientState(NamedTuple):
    """The state of clients that keep nothing."""

    nothing: np.ndarray  # (K, 0)


def no_client_state(
    params: Any, dictionary: Sequence[Kernel], model: Any, n_clients: int
) -> NoClientState:
    """``client_state`` of clients that keep nothing."""
    return NoClientState(np.zeros((n_clients, 0)))


# --- the steps ----------------------------------------------------------------------------------


@functools.singledispatch
def announce(params, server, t, u):
    """The server draws what it names to all clients, from the uniform numbers u."""
    raise TypeError(f"no federated algorithm is registered for {type(params)}")


@functools.singledispatch
def select(params, server, clients, k, t, u, scratch, message):
    """Client k draws the rows that it will learn: message.rows, message.n[0], scratch.p."""
    raise TypeError(f"no federated algorithm is registered for {type(params)}")


@functools.singledispatch
def predict(params, server, clients, k, t, X, row, scratch):
    """Return y_hat for X[row]; fills scratch.f."""
    raise TypeError(f"no federated algorithm is registered for {type(params)}")


@functools.singledispatch
def local_step(params, server, clients, k, t, y, y_hat, scratch, message):
    """Client k learns from the label y: its own state, scratch.loss and the message."""
    raise TypeError(f"no federated algorithm is registered for {type(params)}")


@functools.singledispatch
def learn_clients(params, server, t, X, y, row, scratch):
    """Clients row .. row + n - 1 of X (C, d), y (C,) learn together; return n, 0 for one by one.

    Only where every client sends every row and ``select`` depends on the server alone. Their rows
    are then in the server's sums; each still predicts and takes its local step, without them.
    """
    raise TypeError(f"no federated algorithm is registered for {type(params)}")


@functools.singledispatch
def aggregate(params, server, t, n_clients):
    """The server learns from the sums of this round's messages.

    ``n_clients`` counts the clients that have a sample in this round and were asked.
    """
    raise TypeError(f"no federated algorithm is registered for {type(params)}")


# --- what steps are made of ---------------------------------------------------------------------


@inlined
def no_announcement(params, server, t, u):
    """``announce`` of a server that draws nothing."""


@inlined
def learn_one_by_one(params, server, t, X, y, row, scratch):
    """``learn_clients`` where each learns by itself."""
    return 0


@inlined
def choose_all(server, scratch, message):
    """Learn and send all rows."""
    N = server.model.theta.shape[0]
    if message.n[0] != N:
        for i in range(N):
            message.rows[i] = i
        message.n[0] = N
    scratch.p[0] = 1.0


@inlined
def evaluate(model, X, row, scratch):
    """scratch.f[i] = theta_i'z_i(X[row]) of all N kernels; X (C, d).

    Rows are visited in their order: the features of several clients are computed together.
    """
    transform_ahead(model, X, row, scratch.model)
    outputs(model, scratch.every, scratch.f.shape[0], scratch.model, scratch.f)


# --- the loop -----------------------------------------------------------------------------------


@inlined
def client_round(
    params, server, clients, k, t, X, row, y, u, normals, protection, scratch, message
):
    """A client's round: its prediction, given before y is seen; ``message`` is ready to be sent.

    Within a round the rows of X (C, d) are visited in their order, none left out (``evaluate``).
    """
    select(params, server, clients, k, t, u, scratch, message)
    y_hat = learn(params, server, clients, k, t, X, row, y, scratch, message)
    protect(protection, server.model.theta, message, normals)
    return y_hat


@inlined
def learn(params, server, clients, k, t, X, row, y, scratch, message):
    """The part of a client's round that its learner decides, with the rows selected."""
    message.n[1] = 0
    y_hat = predict(params, server, clients, k, t, X, row, scratch)
    local_step(params, server, clients, k, t, y, y_hat, scratch, message)
    return y_hat


@compiled
def run_rounds(
    params, server, clients, t, present, X, Y, draws, protection, inbox, scratch, message, totals,
    trace,
):  # fmt: skip
    """Rounds t + 1 .. t + n of the C clients ``present`` (C,) int64, of K.

    X (n, C, d), Y (n, C); ``draws`` is what was drawn for these rounds. Written: the sums
    ``totals`` of all K clients, and ``trace`` (n, C) of those present.
    """
    n, C = Y.shape
    worst = totals.worst
    simple = is_simple(protection, inbox)
    for s in range(n):
        now = t + s + 1
        announce(params, server, now, draws.v[s])
        n_asked = 0
        for c in range(C):
            n_asked += draws.asked[s, c]
        together = simple and n_asked == C
        learned = 0  # clients that have learned together
        for c in range(C):
            k = present[c]
            y = Y[s, c]
            u, normals = draws.u[s, c], draws.normals[s, c]
            if together and c == learned:
                learned += learn_clients(params, server, now, X[s], Y[s], c, scratch)
            if c == 0 or c >= learned:
                select(params, server, clients, k, now, u, scratch, message)
            y_hat = learn(params, server, clients, k, now, X[s], c, y, scratch, message)
            trace.y_hat[s, c] = y_hat
            best = add_losses(totals.losses, k, scratch, worst)
            worst[0] = max(worst[0], (y_hat - y) * (y_hat - y))
            trace.loss[s, c] = totals.losses[k, 0]
            trace.regret[s, c] = totals.losses[k, 0] - best
            if not draws.asked[s, c]:
                continue
            totals.sent[k, 0] += message.n[0] * message.theta.shape[1] + message.n[1]
            totals.sent[k, 1] += message.n[0]
            totals.replies[k, 0] += 1
            if c < learned:
                receive_losses(server, message)
                continue
            protect(protection, server.model.theta, message, normals)
            for j in range(message.n[0]):
                totals.used[message.rows[j]] += 1
            totals.replies[k, 1] += not take(server, message, inbox)
        for j in range(message.n[0] if learned > 0 else 0):
            totals.used[message.rows[j]] += learned
        settle(server, inbox)
        aggregate(params, server, now, n_asked)
        clear(server)


@compiled
def run_client_round(params, server, clients, t, X, y, u, normals, protection, scratch, message):
    """The round of one client, X (1, d), with the server's state as sent to it; returns y_hat."""
    return client_round(
        params, server, clients, 0, t, X, 0, y, u, normals, protection, scratch, message
    )


@compiled
def run_announcement(params, server, t, u):
    """The server's part before the clients'."""
    announce(params, server, t, u)


@compiled
def run_receipt(server, message, inbox):
    """One message at the server; returns whether it is taken."""
    return take(server, message, inbox)


@compiled
def run_aggregation(params, server, t, n_clients, inbox):
    """The server's part after the clients'."""
    settle(server, inbox)
    aggregate(params, server, t, n_clients)
    clear(server)


@compiled
def set_row(model, i, values):
    """model.theta[i] = values (W,), and its norm."""
    for e in range(values.shape[0]):
        model.theta[i, e] = values[e]
    model.norm2[i] = squared_norm(model.theta, i)


def compiled_for(Params: type, function: Any) -> Any:
    """Code of algorithms outside the package is not kept on disk, where edits would go unseen."""
    return function if Params.__module__.startswith("omkl.") else compiled_uncached(function)


# --- registration -------------------------------------------------------------------------------


class FederatedAlgorithm(NamedTuple):
    """A federated learner, as its module in ``omkl.federated.algorithms`` registers it.

    name            as typed after ``algorithm=``
    module          where it is defined
    Params          the NamedTuple of hyper-parameters, the keys of its YAML
    upload          (params, N, W) -> the most numbers that a client sends in a round
    client_state    (params, dictionary, model, K) -> what the clients keep, arrays (K, ...)
    exposure        (params, N, T) -> messages, of T, that one sample of a client can change
    kernels         (params, dictionary) -> the kernels that it learns with; () for a network
    model           (params, dictionary, d, D, seed, max_upload) -> shared parameters
    scratch         (model) -> what evaluating the model for a client writes to
    draws           uniform numbers a round of a client and of the server
    shared_weights  the server keeps weights of the kernels; clients send their losses
    announces       rows that the server sends a round, and those that it names; (0, 0): all
    expected_failures   checks of ``omkl.checks`` that it cannot pass, and why
    """

    name: str
    module: str
    Params: type
    upload: Callable[[Any, int, int], int]
    client_state: Callable[..., Any]
    exposure: Callable[[Any, int, int], int]
    kernels: Callable[[Any, Sequence[Kernel]], Sequence[Kernel]]
    model: Callable[..., Any]
    scratch: Callable[[Any], Any]
    draws: tuple[int, int]
    shared_weights: bool
    announces: tuple[int, int]
    expected_failures: Mapping[str, str]


def _draw_features(
    params: Any, dictionary: Sequence[Kernel], d: int, D: int, seed: int, max_upload: int | None
) -> RandomFeatures:
    return compact(draw_features(dictionary, d, D, seed))


def _dictionary(params: Any, dictionary: Sequence[Kernel]) -> Sequence[Kernel]:
    return dictionary


def _one_message(params: Any, N: int, n_rounds: int) -> int:
    """``exposure`` of clients that keep nothing."""
    return 1


def _all_messages(params: Any, N: int, n_rounds: int) -> int:
    """``exposure`` of clients that keep what they have learned."""
    return n_rounds


# The steps, and what a module may leave out.
_STEPS = {
    "announce": announce,
    "select": select,
    "predict": predict,
    "local_step": local_step,
    "learn_clients": learn_clients,
    "aggregate": aggregate,
}
_OPTIONAL = {
    "announce": no_announcement,
    "client_state": no_client_state,
    "learn_clients": learn_one_by_one,
}


def register(
    module: str,
    *,
    kernels: Callable[[Any, Sequence[Kernel]], Sequence[Kernel]] = _dictionary,
    model: Callable[..., Any] = _draw_features,
    scratch: Callable[[Any], Any] = client_tile,
    draws: tuple[int, int] = (0, 0),
    shared_weights: bool = False,
    announces: tuple[int, int] = (0, 0),
) -> FederatedAlgorithm:
    """Make the steps that a module defines those that the loop takes for its Params.

    Read from the module by their names: Params, select, predict, local_step, aggregate and
    upload; announce, client_state, learn_clients and exposure where it has them. AttributeError
    names what it lacks.
    """
    own = vars(importlib.import_module(module))
    exposure = _all_messages if "client_state" in own else _one_message
    given: dict[str, Any] = {"exposure": exposure, **_OPTIONAL, **own}
    wanted = ("Params", "upload", *_OPTIONAL, *_STEPS)
    if missing := [name for name in wanted if name not in given]:
        raise AttributeError(
            f"{module} registers a federated algorithm without {', '.join(missing)}"
        )
    for name, step in _STEPS.items():
        dispatch(step, given["Params"], given[name])
    return FederatedAlgorithm(
        module.removeprefix("omkl.federated.algorithms.").replace(".", "/"),
        module,
        given["Params"],
        given["upload"],
        given["client_state"],
        given["exposure"],
        kernels,
        model,
        scratch,
        draws,
        shared_weights,
        announces,
        own.get("EXPECTED_FAILURES", {}),
    )
