"""The ServerApp and the ClientApp around the objects of ``parties``.

What a client learns is kept in Flower's ``context.state``, and, where ``omkl-keep`` names a folder,
on disk: a client whose process died goes on from there, in the same run. Predictions and regrets
are reported in a record of measurements beside each message; they are no part of what the learner
sends.
"""

from __future__ import annotations

import functools
import logging
import shlex
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from omkl.config.compose import compose
from omkl.disk import write_atomically
from omkl.experiment.federation import FederatedJob
from omkl.experiment.run import prepare
from omkl.federated.parties import (
    Broadcast,
    Client,
    ClientRound,
    Event,
    Refused,
    Server,
    play,
)
from omkl.federation.flower.records import (
    arrays_of,
    broadcast_record,
    last_line,
    read_broadcast,
    read_round,
    round_record,
)
from omkl.federation.holders.members import Members
from omkl.runs.writing import npz_bytes

log = logging.getLogger(__name__)

TIMEOUT = 60.0  # seconds that the server waits for the replies of a round
LATE = 3  # rounds after which nobody asks for a missing reply any more
NODES_SECONDS = 120.0  # for all clients to be there
POLL = 0.02


class Flown(NamedTuple):
    """What came out of a federation on Flower.

    y_hat, regret  (T, K), NaN where no usable update came or the client was done
    theta          (N, W) shared parameters after the last round
    events         what went wrong
    numbers        (K,) received from each client
    """

    y_hat: np.ndarray
    regret: np.ndarray
    theta: np.ndarray
    events: list[Event]
    numbers: np.ndarray


@functools.lru_cache(maxsize=2)
def job_of(overrides: str) -> FederatedJob:
    """The federation that a line of omkl-run's overrides describes."""
    job = prepare(compose(shlex.split(overrides)))
    if not isinstance(job, FederatedJob):
        raise ValueError("no federation is asked for: add federation=iid clients=K")
    return job


@functools.lru_cache(maxsize=1024)
def _client(overrides: str, client: int) -> Client:
    job = job_of(overrides)
    return Client(job, job.seeds[0], client)


def client_app(given: Mapping[str, Any] | None = None) -> ClientApp:
    """The client of every engine; which one it is stands in the node's ``partition-id``.

    ``given`` stands in for a run config where an engine has none.
    """
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        config = {**context.run_config, **(given or {})}
        client = int(context.node_config["partition-id"])
        party = _client(str(config["omkl"]), client)
        folder = str(config.get("omkl-keep", ""))
        path = Path(folder).expanduser() / f"client-{client}.npz" if folder else None
        broadcast = read_broadcast(message.content)
        checkpoint = _read_checkpoint(path, context)
        if checkpoint is not None and int(checkpoint["drawn"][0]) >= broadcast.t:
            checkpoint = None  # of rounds that this run has not had: not its own
        party.restore(checkpoint)
        played = party.run_round(broadcast)
        _write_checkpoint(party, path, context)
        return Message(round_record(played), reply_to=message)

    return app


def _read_checkpoint(path: Path | None, context: Context) -> dict[str, np.ndarray] | None:
    """What the client has learned in this run, from Flower's state or from disk."""
    if "client" in context.state.array_records:
        return {name: a.numpy() for name, a in context.state.array_records["client"].items()}
    checkpoint = None if path is None else read_checkpoint(path)
    if checkpoint is None or int(checkpoint["run"][0]) != _signed(context.run_id):
        return None
    return checkpoint


def _signed(run: int) -> int:
    """A run's number of 64 bits as numpy's int64 has it."""
    return int(np.uint64(run % 2**64).view(np.int64))


def read_checkpoint(path: Path) -> dict[str, np.ndarray] | None:
    """What a client has on disk; None before its first round."""
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _write_checkpoint(party: Client, path: Path | None, context: Context) -> None:
    checkpoint = party.checkpoint()
    context.state["client"] = arrays_of(**checkpoint)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, npz_bytes(checkpoint | {"run": np.array([_signed(context.run_id)])}))


def server_app(given: Mapping[str, Any] | None = None) -> ServerApp:
    """The server of every engine; what comes out goes into the file ``omkl-result``."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        config = {**context.run_config, **(given or {})}
        job = job_of(str(config["omkl"]))
        flown = serve(
            job, grid, int(config.get("omkl-rounds", 0)), float(config.get("omkl-timeout", TIMEOUT))
        )
        if config.get("omkl-result"):
            events = np.array([f"{e.t}\t{e.client}\t{e.reason}" for e in flown.events], dtype=str)
            arrays = flown._asdict() | {"events": events}
            write_atomically(Path(str(config["omkl-result"])), npz_bytes(arrays))

    return app


def serve(job: FederatedJob, grid: Grid, n_rounds: int = 0, timeout: float = TIMEOUT) -> Flown:
    """All rounds of a federation on a grid; ``n_rounds`` 0 means as many as the streams have."""
    T, K = job.split.y.shape
    n_rounds = min(n_rounds or T, T)
    server = Server(job, job.seeds[0])
    y_hat, regret = np.full((n_rounds, K), np.nan), np.full((n_rounds, K), np.nan)
    exchange = Exchange(grid, server)
    for s in range(n_rounds):
        exchange.send(server.broadcast())
        # In the order of the clients, so that sums are those of the simulation to the last bit.
        for played in sorted(exchange.collect(timeout), key=lambda played: played.update.client):
            client = played.update.client
            if server.receive(played.update):
                y_hat[s, client], regret[s, client] = server.measured(
                    client, prediction=played.y_hat, regret=played.regret
                )
        exchange.note_silent()
        server.finish()
    return Flown(y_hat, regret, server.state.model.theta.copy(), server.events, server.numbers)


class Exchange:
    """The messages between a server and the nodes of a grid, round by round."""

    def __init__(self, grid: Grid, server: Server) -> None:
        self._grid = grid
        self._server = server
        self._nodes = _nodes(grid, server.n_clients)
        self._asked: dict[str, tuple[int, int]] = {}  # message: round, node
        self._members = Members(server.n_clients)  # by node, of those that have answered
        self._waiting: set[str] = set()  # messages of this round without an answer
        self._silent: set[int] = set()  # clients that this round has not heard of

    def send(self, broadcast: Broadcast) -> None:
        """Send a broadcast to all nodes but those of clients that are done."""
        t = broadcast.t
        self._asked = {
            i: (then, node) for i, (then, node) in self._asked.items() if then >= t - LATE
        }
        self._silent = set(self._server.present())
        # A client that came back without a key has another number: its old one is free again.
        self._nodes = list(self._grid.get_node_ids()) or self._nodes
        self._members.keep(_name_of(node) for node in self._nodes)
        self._nodes = [n for n in self._nodes if self._client_of(n) in {-1, *self._silent}]
        content = broadcast_record(broadcast)
        messages = [
            Message(content, dst_node_id=node, message_type="train", group_id=str(t))
            for node in self._nodes
        ]
        pushed = zip(self._grid.push_messages(messages), self._nodes, strict=True)
        sent = {identity: (t, node) for identity, node in pushed if identity}
        self._asked |= sent
        self._waiting = set(sent)

    def collect(self, timeout: float) -> list[ClientRound]:
        """The answers of this round that come within ``timeout`` seconds.

        Whatever else comes is noted as an event.
        """
        answers = []
        end = time.monotonic() + timeout
        while self._waiting and self._silent:
            for message in self._grid.pull_messages(list(self._asked)):
                played = self._read(message)
                if played is None:
                    continue
                if played.update.t == self._server.t:
                    answers.append(played)
                    self._silent.discard(played.update.client)
                else:  # refused, with the event that says so
                    self._server.receive(played.update)
            if time.monotonic() >= end:
                break
            if self._waiting and self._silent:
                time.sleep(POLL)
        return answers

    def _client_of(self, node: int) -> int:
        """The client that a node has spoken for; -1 before its first answer."""
        member = self._members.get(_name_of(node))
        return -1 if member is None else member.client

    def _read(self, message: Message) -> ClientRound | None:
        """What a message holds; None, and an event, where that cannot be read."""
        identity = message.metadata.reply_to_message_id
        t, node = self._asked.pop(identity)
        self._waiting.discard(identity)
        client = self._client_of(node)
        if message.has_error():
            reason = last_line(message.error.reason)
            self._server.note(client, f"failed in round {t}: {reason}")
            return None
        try:
            played = read_round(message.content)
        except Exception as error:  # whatever came: it is one client's
            self._server.note(client, f"its message cannot be read: {error!r}")
            return None
        try:
            self._members.bind(_name_of(node), played.update.client, "")
        except Refused as error:
            self._server.note(client, str(error))
            return None
        return played

    def note_silent(self) -> None:
        """Note the clients that have not answered in this round."""
        for identity in self._waiting:
            client = self._client_of(self._asked[identity][1])
            # Without a number, one that others are heard of may have answered as another node.
            if client in self._silent or (client < 0 and self._silent):
                self._server.note(client, "no reply in time")


def _name_of(node: int) -> str:
    """What a node is called where keys are not known."""
    return str(node)


def _nodes(grid: Grid, n_clients: int) -> list[int]:
    end = time.monotonic() + NODES_SECONDS
    while True:
        nodes = list(grid.get_node_ids())
        if len(nodes) >= n_clients:
            return nodes
        if time.monotonic() >= end:
            raise RuntimeError(
                f"{len(nodes)} of {n_clients} clients came within {NODES_SECONDS:g} s"
            )
        time.sleep(0.2)


Deliver = Callable[[int, int, Message], "tuple[int, Message] | None"]


def at_once(client: int, t: int, reply: Message) -> tuple[int, Message] | None:
    """A network that loses nothing: the reply, 0 rounds late."""
    return 0, reply


def compile_steps(job: FederatedJob) -> None:
    """Fill the cache of machine code, so that no client compiles while the server waits."""
    play(job, job.seeds[0], n_rounds=1)


def difference(overrides: str, flown: Flown) -> float:
    """The largest distance of its predictions from those of our own simulation.

    Missing replies do not count; NaN if all are missing.
    """
    job = job_of(overrides)
    n = len(flown.y_hat)
    ours = job.federation(job.seeds[0]).partial_fit(job.split.X[:n], job.split.y[:n]).y_hat
    came = ~np.isnan(flown.y_hat)
    return float(np.max(np.abs(flown.y_hat - ours)[came])) if came.any() else float("nan")
