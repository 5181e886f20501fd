"""The protocol of a federated learner: its steps, its states, its registration.

K clients see a stream each; a server holds the parameters that they share. Every round is

    broadcast_selection  the server draws what it names to all clients
    select               a client draws the rows of the shared parameters that it will learn
    predict              it predicts from the server's state and from its own; no label yet
    local_step           it sees the label, learns its own state and writes a message
    aggregate            the server learns from the messages of all clients that it asked for them

The same steps run in the simulation, all clients in compiled code, and on machines apart, a client
a process (``flower``).

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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from omkl.core.compiler import dispatch, inlined, qualify_name
from omkl.core.protocol import whole_dictionary
from omkl.core.representations.random_features import RandomFeatures, compact, draw_features
from omkl.federated.client_features import client_tile
from omkl.federated.exchange import SERVER, Exchange
from omkl.federated.messages import Message, empty_message

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel

BYTES = 8  # of a float64 and of the index of a row
MOST_FEATURES = 100  # the paper's limit of what a client can hold


class ServerState(NamedTuple):
    """What the server knows; clients read model, log_w and announced, as last sent to them.

    model      shared parameters ``theta`` (N, W) and their squared norms ``norm2`` (N,)
    log_w      (N,) weights of all clients; (0,) where clients keep their own
    announced  (A,) int64, rows that the server names; it sends the first of them, or all
               rows where A = 0
    sums       (N, W) of this round's messages, by row; zeros before the first
    senders_of (N,) how many messages held the row, each by its weight
    losses     (N,) sums of the messages' losses, by kernel; (0,) where they have none
    senders    (1,) how many messages came
    members    (1,) how many clients may send one in this round
    """

    model: Any
    log_w: np.ndarray
    announced: np.ndarray
    sums: np.ndarray
    senders_of: np.ndarray
    losses: np.ndarray
    senders: np.ndarray
    members: np.ndarray


class ClientScratch(NamedTuple):
    """What a client's round writes to; reused for the next client.

    f, loss   (N,) outputs and losses of the kernels
    own_loss  (1,) loss of the prediction
    p         (1,) probability that the client sends the rows that it chose
    drawn     (1,) int64, the kernel that predicts where one alone does
    w         (N,) weights
    model     scratch of the model: features of all kernels, or the layers of a network
    """

    f: np.ndarray
    loss: np.ndarray
    own_loss: np.ndarray
    p: np.ndarray
    drawn: np.ndarray
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


def no_draws(params: Any) -> tuple[int, int]:
    """``draws`` where nothing is drawn."""
    return 0, 0


# --- the steps ----------------------------------------------------------------------------------


@functools.singledispatch
def broadcast_selection(params, server, t, u):
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
def aggregate(params, server, t):
    """The server learns from the sums of this round's messages.

    ``server.members`` counts the clients that have a sample in this round and were asked.
    """
    raise TypeError(f"no federated algorithm is registered for {type(params)}")


# --- what steps are made of ---------------------------------------------------------------------


@inlined
def no_announcement(params, server, t, u):
    """``broadcast_selection`` of a server that draws nothing."""


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
def learn(params, server, clients, k, t, X, row, y, scratch, message):
    """The part of a client's round that its learner decides, with the rows selected."""
    message.n[1] = 0
    y_hat = predict(params, server, clients, k, t, X, row, scratch)
    local_step(params, server, clients, k, t, y, y_hat, scratch, message)
    return y_hat


# --- states before the first round --------------------------------------------------------------


def new_server_state(algorithm: FederatedAlgorithm, model: Any) -> ServerState:
    """The server before the first round."""
    N, W = model.theta.shape
    E = N if algorithm.shared_weights else 0
    return ServerState(
        model,
        log_w=np.zeros(E),
        announced=np.zeros(algorithm.announces[1], dtype=np.int64),
        sums=np.zeros((N, W)),
        senders_of=np.zeros(N),
        losses=np.zeros(E),
        senders=np.zeros(1),
        members=np.zeros(1),
    )


def repeated(server: ServerState, n: int) -> ServerState:
    """The same state for n of those who receive messages, all arrays (n, ...).

    What no message changes is there once, (1, ...); for n = 1 arrays are views.
    """
    model, learned = server.model, ("theta", "norm2")

    def stack(array: np.ndarray) -> np.ndarray:
        return array[None] if n == 1 else np.repeat(array[None], n, axis=0)

    kept = {
        name: stack(array) if name in learned else array[None]
        for name, array in model._asdict().items()
    }
    others = {name: stack(array) for name, array in server._asdict().items() if name != "model"}
    return ServerState(model=model._replace(**kept), **others)


def new_message(algorithm: FederatedAlgorithm, params: Any, model: Any) -> Message:
    """An empty message with room for the most that a client may send."""
    N, W = model.theta.shape
    most = algorithm.upload(params, N, W)
    if algorithm.losses_of_rows:
        n_rows = n_losses = most // (W + 1)
    else:
        n_losses = N if algorithm.shared_weights else 0
        n_rows = (most - n_losses) // W
    return empty_message(n_rows, W, n_losses)


def new_scratch(algorithm: FederatedAlgorithm, model: Any) -> ClientScratch:
    """What the rounds of a client of this model write to."""
    N = len(model.theta)
    return ClientScratch(
        f=np.zeros(N),
        loss=np.zeros(N),
        own_loss=np.zeros(1),
        p=np.zeros(1),
        drawn=np.zeros(1, dtype=np.int64),
        w=np.zeros(N),
        model=algorithm.scratch(model),
    )


def qualify_names(*states: Any) -> None:
    """Give the types of these states their full names in compiled code."""
    for state in states:
        qualify_name(type(state))


# --- registration -------------------------------------------------------------------------------


class FederatedAlgorithm(NamedTuple):
    """A federated learner, as its module in ``omkl.federated.algorithms`` registers it.

    name            as typed after ``algorithm=``
    module          where it is defined
    Params          the NamedTuple of hyper-parameters, the keys of its YAML
    upload          (params, N, W) -> the most numbers that a client sends in a round
    client_state    (params, dictionary, model, K) -> what the clients keep, arrays (K, ...)
    exposure        (params, N, T) -> messages, of T, that one sample of a client can change
    kernels         (params, dictionary, d) -> the kernels that it learns with; () for a network
    model           (params, dictionary, d, D, seed, max_upload) -> shared parameters
    scratch         (model) -> what evaluating the model for a client writes to
    draws           params -> uniform numbers a round of a client and of the server
    shared_weights  the server keeps weights of the kernels; clients send their losses
    losses_of_rows  these losses are those of the rows that a client sends, not of all kernels
    announces       rows that the server sends a round, and those that it names; (0, 0): all
    expected_failures   checks of ``omkl.checks`` that it cannot pass, and why
    """

    name: str
    module: str
    Params: type
    upload: Callable[[Any, int, int], int]
    client_state: Callable[..., Any]
    exposure: Callable[[Any, int, int], int]
    kernels: Callable[[Any, Sequence[Kernel], int], Sequence[Kernel]]
    model: Callable[..., Any]
    scratch: Callable[[Any], Any]
    draws: Callable[[Any], tuple[int, int]]
    shared_weights: bool
    losses_of_rows: bool
    announces: tuple[int, int]
    expected_failures: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Plan:
    """What all parties agree on before the first round.

    settings    ``omkl.config.schema.Settings``; parties ask for ``max_upload`` and ``safeguards``
    params      an ``algorithm.Params``
    D           random features a kernel
    n_inputs    d
    lengths     (K,) int64 rounds of each client, as far as they are known
    """

    settings: Any
    algorithm: FederatedAlgorithm
    params: Any
    dictionary: tuple[Kernel, ...]
    D: int
    n_inputs: int
    lengths: np.ndarray

    @property
    def used(self) -> Sequence[Kernel]:
        """The kernels that the clients learn with; a network has none."""
        return self.algorithm.kernels(self.params, self.dictionary, self.n_inputs)

    @property
    def seeds(self) -> list[int]:
        return list(self.settings.seed_list)


def _draw_features(
    params: Any, dictionary: Sequence[Kernel], d: int, D: int, seed: int, max_upload: int | None
) -> RandomFeatures:
    return compact(draw_features(dictionary, d, D, seed))


def _one_message(params: Any, N: int, n_rounds: int) -> int:
    """``exposure`` of clients that keep nothing."""
    return 1


def _all_messages(params: Any, N: int, n_rounds: int) -> int:
    """``exposure`` of clients that keep what they have learned."""
    return n_rounds


# The steps, and what a module may leave out.
_STEPS = {
    "broadcast_selection": broadcast_selection,
    "select": select,
    "predict": predict,
    "local_step": local_step,
    "aggregate": aggregate,
}
_OPTIONAL = {
    "broadcast_selection": no_announcement,
    "client_state": no_client_state,
    "draws": no_draws,
}


def register(
    module: str,
    *,
    kernels: Callable[[Any, Sequence[Kernel], int], Sequence[Kernel]] = whole_dictionary,
    model: Callable[..., Any] = _draw_features,
    scratch: Callable[[Any], Any] = client_tile,
    shared_weights: bool = False,
    losses_of_rows: bool = False,
    announces: tuple[int, int] = (0, 0),
) -> FederatedAlgorithm:
    """Make the steps that a module defines those that the loop takes for its Params.

    Read from the module by their names: Params, select, predict, local_step, aggregate and
    upload; broadcast_selection, client_state, draws and exposure where it has them.
    AttributeError names what it lacks.
    """
    defined = vars(importlib.import_module(module))
    exposure = _all_messages if "client_state" in defined else _one_message
    steps: dict[str, Any] = {"exposure": exposure, **_OPTIONAL, **defined}
    wanted = ("Params", "upload", *_OPTIONAL, *_STEPS)
    if missing := [name for name in wanted if name not in steps]:
        raise AttributeError(
            f"{module} registers a federated algorithm without {', '.join(missing)}"
        )
    for name, step in _STEPS.items():
        dispatch(step, steps["Params"], steps[name])
    return FederatedAlgorithm(
        module.removeprefix("omkl.federated.algorithms.").replace(".", "/"),
        module,
        steps["Params"],
        steps["upload"],
        steps["client_state"],
        steps["exposure"],
        kernels,
        model,
        scratch,
        steps["draws"],
        shared_weights,
        losses_of_rows,
        announces,
        defined.get("EXPECTED_FAILURES", {}),
    )


# --- how many numbers go up and down ------------------------------------------------------------
#
# ``max_upload`` is the most numbers that a client may send in a round: float64 values, parameters
# and losses. An index of a row is no number, but takes as many bytes.


def download(algorithm: FederatedAlgorithm, server: ServerState) -> tuple[int, int]:
    """Numbers and indices that the server sends to each client in a round."""
    N, W = server.model.theta.shape
    rows, named = algorithm.announces
    weights = 0 if rows else len(server.log_w)  # a server that draws keeps them to itself
    return (rows or N) * W + weights, named


def traffic(
    algorithm: FederatedAlgorithm,
    server: ServerState,
    sent: np.ndarray,
    n_rounds: float,
    most: int,
    exchange: Exchange = SERVER,
) -> dict[str, Any]:
    """What went up and down between a client and the server, as ``result.json`` has it.

    sent (.., K, 2) numbers and indices that each of K clients sent, in ``n_rounds`` rounds on
    average, at most ``most`` numbers in one message. On a graph a client sends to its neighbours,
    and what it receives, in the mean over the clients, is the same.
    """
    n_bytes = BYTES * sent.sum(axis=-1)
    if exchange.bits is not None:  # of a row its entries, and the largest of them
        entries, whole = server.model.theta.shape[1] * sent[..., 1], BYTES * sent[..., 1]
        n_bytes = n_bytes - entries * (BYTES - exchange.bits / 8) + whole
    up = {
        "numbers_a_round": float(sent[..., 0].mean() / n_rounds),
        "bytes_a_round": float(n_bytes.mean() / n_rounds),
        "most_numbers_a_round": most,
        "numbers": float(sent[..., 0].mean()),
        "bytes": float(n_bytes.mean()),
    }
    n_clients = sent.shape[-2]
    if exchange.graph is not None:
        return {"up": up, "down": dict(up), "bytes_of_all": n_clients * up["bytes"]}
    numbers, indices = download(algorithm, server)
    share = 1 if exchange.every == 1 else (n_rounds // exchange.every) / n_rounds
    down = {
        "numbers_a_round": numbers * share,
        "bytes_a_round": BYTES * (numbers + indices) * share,
        "most_numbers_a_round": numbers,
        "numbers": numbers * share * n_rounds,
        "bytes": BYTES * (numbers + indices) * share * n_rounds,
    }
    return {"up": up, "down": down, "bytes_of_all": n_clients * (up["bytes"] + down["bytes"])}


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
        f"max_upload={max_upload}: {algorithm.name} sends at least {least} numbers per round, even "
        "with one random feature per kernel. Allow more, or choose fewer kernels or a smaller M"
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
            f"{algorithm.name} would send {most} numbers per round, max_upload={max_upload}; "
            "leave D=null, which chooses it from the budget, or choose a smaller D or M"
        )
