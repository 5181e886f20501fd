"""Protocol of a federated learner: its steps, its states, its registration.

Each of K clients sees its own stream. A server has the shared parameters. Every round is

    broadcast_selection  the server draws rows of the shared parameters, and names them to all
                         clients
    select               a client draws the rows of the shared parameters that it will learn
    predict              the client predicts from the states of the server and of itself
    local_step           the client receives the target, updates its state and writes a message
    aggregate            the server learns from the messages of the clients that it asked

The same steps run in the simulation, with all clients in compiled code, and in a deployment, with
one process per client (``flower``).

Shared parameters are the rows of one matrix: theta_i of kernel i, or the parameters of a network as
its only row. A ``Message`` has new values of some rows and up to E losses. A client sends nothing
else. K is the number of clients that still have rows.

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
from omkl.core.protocol import Definition, adding, whole_dictionary
from omkl.core.representations.random_features import RandomFeatures, compact, draw_features
from omkl.federated.client_features import client_tile
from omkl.federated.exchange import SERVER, Exchange
from omkl.federated.messages import Message, empty_message

if TYPE_CHECKING:
    from omkl.core.kernels import Kernel

BYTES = 8  # size of a float64, and of the index of a row
MOST_FEATURES = 100  # limit of D from the memory of a client, as in Ghari and Shen (NeurIPS 2022)


class ServerState(NamedTuple):
    """State of the server. Clients read model, log_w and announced, as last broadcast.

    model      shared parameters ``theta`` (N, W) and their squared norms ``norm2`` (N,)
    log_w      (N,) log weights of the kernels; (0,) if clients have their own weights
    announced  (A,) int64, rows that the server names to clients. The server sends the parameters of
               the first ``algorithm.announces[0]`` of these rows, or of all N rows if A = 0
    sums       (N, W) sums of the parameters in this round's messages, by row
    senders_of (N,) number of messages that contain each row; on a graph the sum of their weights
    losses     (N,) sums of the losses in the messages, by kernel; (0,) if messages have no losses
    senders    (1,) number of received messages
    members    (1,) number of clients that may send a message in this round
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
    """Arrays that a client's round writes to. The next client overwrites them.

    f, loss   (N,) outputs and losses of the kernels
    own_loss  (1,) loss of the prediction
    p         (1,) probability with which the client chose the rows that it sends
    drawn     (1,) int64, the predicting kernel if a single kernel predicts
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
    """State of clients that store nothing."""

    nothing: np.ndarray  # (K, 0)


def no_client_state(
    params: Any, dictionary: Sequence[Kernel], model: Any, n_clients: int
) -> NoClientState:
    """Return the state of clients that store nothing, the default of ``client_state``.

    Parameters
    ----------
    params, dictionary, model
        Not used.
    n_clients
        K.
    """
    return NoClientState(np.zeros((n_clients, 0)))


def no_draws(params: Any) -> tuple[int, int]:
    """Return (0, 0), the default of ``draws``: neither a client nor the server draws numbers."""
    return 0, 0


# --- the steps ----------------------------------------------------------------------------------


@functools.singledispatch
def broadcast_selection(params, server, t, u):
    """Draw the rows that the server names to all clients.

    Parameters
    ----------
    params, server
        Hyper-parameters, and the server's state, updated in place.
    t
        Round, >= 1.
    u
        Uniform numbers of the server.
    """
    raise TypeError(f"no federated algorithm is registered for {type(params)}")


@functools.singledispatch
def select(params, server, clients, k, t, u, scratch, message):
    """Draw the rows that a client will learn. Write message.rows, message.n[0] and scratch.p.

    Parameters
    ----------
    params, server, clients
        Hyper-parameters, the server's state as broadcast, and the state of all clients.
    k
        Client.
    t
        Round, >= 1.
    u
        Uniform numbers of the client.
    scratch, message
        Scratch of the client, and output.
    """
    raise TypeError(f"no federated algorithm is registered for {type(params)}")


@functools.singledispatch
def predict(params, server, clients, k, t, X, row, scratch):
    """Return the prediction of a client, and write the outputs of its kernels to scratch.f.

    Parameters
    ----------
    params, server, clients, k, t
        As in ``select``.
    X, row
        Rows (C, d) of all clients in this round, and the index of the row of client k.
    scratch
        Scratch of the client.
    """
    raise TypeError(f"no federated algorithm is registered for {type(params)}")


@functools.singledispatch
def local_step(params, server, clients, k, t, y, y_hat, scratch, message):
    """Learn a target at a client: update the client's state, ``scratch.loss`` and the message.

    Parameters
    ----------
    params, server, clients, k, t, scratch, message
        As in ``select``.
    y, y_hat
        Target and prediction.
    """
    raise TypeError(f"no federated algorithm is registered for {type(params)}")


@functools.singledispatch
def aggregate(params, server, t):
    """Update the server's state from the sums of this round's messages.

    ``server.members`` counts the clients that have a sample in this round and were asked.

    Parameters
    ----------
    params, server
        Hyper-parameters, and the server's state, updated in place.
    t
        Round, >= 1.
    """
    raise TypeError(f"no federated algorithm is registered for {type(params)}")


# --- parts of steps -----------------------------------------------------------------------------


@inlined
def no_announcement(params, server, t, u):
    """Draw nothing. This is the ``broadcast_selection`` of a server that names no rows.

    Parameters
    ----------
    params, server, t, u
        Not used.
    """


@inlined
def choose_all(server, scratch, message):
    """Select all rows for learning and sending.

    Parameters
    ----------
    server
        State of the server, for the number of rows.
    scratch, message
        Output: the probability 1, and all rows.
    """
    N = server.model.theta.shape[0]
    if message.n[0] != N:
        for i in range(N):
            message.rows[i] = i
        message.n[0] = N
    scratch.p[0] = 1.0


@inlined
def learn(params, server, clients, k, t, X, row, y, scratch, message):
    """Predict and learn one row of a client after ``select``, and return the prediction.

    Parameters
    ----------
    params, server, clients, k, t
        As in ``select``.
    X, row, y
        Rows (C, d) of all clients in this round, the index of the row of client k, and its target.
    scratch, message
        Scratch of the client, and output.
    """
    message.n[1] = 0
    y_hat = predict(params, server, clients, k, t, X, row, scratch)
    local_step(params, server, clients, k, t, y, y_hat, scratch, message)
    return y_hat


# --- states before the first round --------------------------------------------------------------


def new_server_state(algorithm: FederatedAlgorithm, model: Any) -> ServerState:
    """Return the state of the server before the first round."""
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
    """Return n copies of a server's state: the states of n receivers before the first round.

    Arrays that messages change are copied to (n, ...). Arrays that no message changes have the
    shape (1, ...). For n = 1 all arrays are views.
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
    """Return an empty message with space for the largest message of a client.

    Parameters
    ----------
    algorithm, params
        The learner and its hyper-parameters.
    model
        Shared parameters, for their shape.
    """
    N, W = model.theta.shape
    most = algorithm.upload(params, N, W)
    if algorithm.losses_of_rows:
        n_rows = n_losses = most // (W + 1)
    else:
        n_losses = N if algorithm.shared_weights else 0
        n_rows = (most - n_losses) // W
    return empty_message(n_rows, W, n_losses)


def new_scratch(algorithm: FederatedAlgorithm, model: Any) -> ClientScratch:
    """Return the scratch arrays of a client's rounds."""
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
    """Set the name of each state's type to its full name with the module, for compiled code."""
    for state in states:
        qualify_name(type(state))


# --- registration -------------------------------------------------------------------------------


def _draw_features(
    params: Any, dictionary: Sequence[Kernel], d: int, D: int, seed: int, max_upload: int | None
) -> RandomFeatures:
    return compact(draw_features(dictionary, d, D, seed))


class FederatedAlgorithm(NamedTuple):
    """Federated learner. ``register`` makes it from a module of ``omkl.federated.algorithms``.

    name            as typed after ``algorithm=``
    module          module with its steps
    Params          NamedTuple of hyper-parameters; its fields are the keys of the YAML file
    upload          (params, N, W) -> most numbers that a client sends in a round
    client_state    (params, dictionary, model, K) -> state of the clients, arrays (K, ...)
    exposure        (params, N, T) -> number of a client's T messages that one sample can change
    kernels         (params, dictionary, d) -> the kernels that it learns with; () for a network
    model           (params, dictionary, d, D, seed, max_upload) -> shared parameters
    scratch         (model) -> scratch arrays to evaluate the model for a client
    draws           params -> uniform numbers per round of a client, and of the server
    shared_weights  whether the server has weights of the kernels, and clients send their losses
    losses_of_rows  whether a client sends only losses of kernels whose rows of theta it sends
    announces       number of rows of theta that the server sends per round, and number of rows
                    that it names; (0, 0): it sends all rows and names none
    expected_failures   checks of ``omkl.checks`` that it cannot pass, with reasons
    """

    name: str
    module: str
    Params: type
    upload: Callable[[Any, int, int], int]
    client_state: Callable[..., Any]
    exposure: Callable[[Any, int, int], int]
    draws: Callable[[Any], tuple[int, int]]
    expected_failures: Mapping[str, str]
    kernels: Callable[[Any, Sequence[Kernel], int], Sequence[Kernel]] = whole_dictionary
    model: Callable[..., Any] = _draw_features
    scratch: Callable[[Any], Any] = client_tile
    shared_weights: bool = False
    losses_of_rows: bool = False
    announces: tuple[int, int] = (0, 0)


@dataclass(frozen=True, eq=False)
class Plan:
    """Settings that server and clients share before the first round.

    settings    ``omkl.config.schema.Settings``; server and clients read ``max_upload``,
                ``safeguards``, ``message_exchange`` and the seeds
    algorithm   learner
    params      its hyper-parameters, an ``algorithm.Params``
    dictionary  N kernels
    D           random features per kernel
    n_inputs    d
    lengths     (K,) int64 number of rounds of each client, as far as known
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
        """Kernels that the clients learn with; () for a network."""
        return self.algorithm.kernels(self.params, self.dictionary, self.n_inputs)

    @property
    def seeds(self) -> list[int]:
        return list(self.settings.seed_list)


def _one_message(params: Any, N: int, n_rounds: int) -> int:
    """Return how many messages a sample changes: 1, its own round's, without a client state."""
    return 1


def _all_messages(params: Any, N: int, n_rounds: int) -> int:
    """Return how many messages a sample changes: up to all, if a client keeps what it learned."""
    return n_rounds


# Steps of every module, and defaults of the names that a module may omit.
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


def register(module: str, *, definition: Any = None, **options: Any) -> FederatedAlgorithm:
    """Register a module of federated steps, and return its algorithm.

    Compiled code calls the module's steps for hyper-parameters of the module's type ``Params``. The
    module must define Params, select, predict, local_step, aggregate and upload. It may define
    broadcast_selection, client_state, draws and exposure.

    Parameters
    ----------
    module
        Name of the module, already imported.
    definition
        Class with the steps, if they are not in the module: see ``register_as``.
    options
        Fields of ``FederatedAlgorithm`` that differ from their defaults.

    Raises
    ------
    AttributeError
        The module lacks one of the names.
    """
    definition = definition or importlib.import_module(module)
    defined = {name: getattr(definition, name) for name in vars(definition)}
    exposure = _all_messages if "client_state" in defined else _one_message
    steps: dict[str, Any] = {"exposure": exposure, **_OPTIONAL, **defined}
    wanted = ("Params", "upload", *_OPTIONAL, *_STEPS)
    if missing := [name for name in wanted if name not in steps]:
        raise AttributeError(
            f"{module} registers a federated algorithm without {', '.join(missing)}"
        )
    for name, step in _STEPS.items():
        dispatch(step, steps["Params"], steps[name])
    own = ("Params", "upload", "client_state", "exposure", "draws")
    fields: dict[str, Any] = {name: steps[name] for name in own}
    fields["expected_failures"] = defined.get("EXPECTED_FAILURES", {})
    name = module.removeprefix("omkl.federated.algorithms.").replace(".", "/")
    return FederatedAlgorithm(name, module, **fields, **options)


# Algorithms of ``register_as`` by module and name.
REGISTERED: dict[tuple[str, str], FederatedAlgorithm] = {}


def register_as(name: str, **options: Any) -> Callable[[Definition], Definition]:
    """Decorate a class with the steps of the algorithm ``name``, one of several in a module.

    The class contains the names that ``register`` reads from a module. Its functions have no
    ``self``.

    Parameters
    ----------
    name
        Name in ``algorithm=``.
    options
        Arguments of ``register``.
    """

    return adding(register, REGISTERED, name, options)


# --- traffic ------------------------------------------------------------------------------------
#
# ``max_upload`` limits the numbers (parameters and losses) that a client sends in a round. The
# index of a row does not count as a number, but takes as many bytes.


def download(algorithm: FederatedAlgorithm, server: ServerState) -> tuple[int, int]:
    """Return how many numbers and how many row indices the server sends a client per round."""
    N, W = server.model.theta.shape
    rows, named = algorithm.announces
    weights = 0 if rows else len(server.log_w)  # a server that names rows sends no weights
    return (rows or N) * W + weights, named


def traffic(
    algorithm: FederatedAlgorithm,
    server: ServerState,
    sent: np.ndarray,
    n_rounds: float,
    most: int,
    exchange: Exchange = SERVER,
) -> dict[str, Any]:
    """Return the traffic between a client and the server, in the form of ``result.json``.

    On a graph a client sends to its neighbours. Averaged over clients, it receives as much as it
    sends.

    Parameters
    ----------
    algorithm, server
        The learner and a state of its server, for the sizes of rows and weights.
    sent
        (..., K, 2) numbers and indices that each of K clients sent.
    n_rounds
        Rounds of a client, on average.
    most
        Most numbers of one message.
    exchange
        Graph, rounds between exchanges, and bits per entry.
    """
    n_bytes = BYTES * sent.sum(axis=-1)
    if exchange.bits is not None:  # a row takes the bits of its entries, and its largest entry
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
    """Return the largest number D <= 100 of random features that ``max_upload`` allows.

    Parameters
    ----------
    algorithm, params
        The learner and its hyper-parameters.
    n_kernels
        N.
    max_upload
        Most numbers of a message; None: no limit.

    Raises
    ------
    ValueError
        A message exceeds ``max_upload`` even with D = 1.
    """
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
    """Raise ValueError if a message of shared parameters (N, W) can exceed ``max_upload``.

    Parameters
    ----------
    algorithm, params
        The learner and its hyper-parameters.
    shape
        (N, W) of the shared parameters.
    max_upload
        Most numbers of a message; None: no limit.
    """
    if max_upload is None:
        return
    N, W = shape
    most = algorithm.upload(params, N, W)
    if most > max_upload:
        raise ValueError(
            f"{algorithm.name} would send {most} numbers per round, max_upload={max_upload}; "
            "leave D=null, which chooses it from the budget, or choose a smaller D or M"
        )
