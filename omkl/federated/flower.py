"""Deployment of a federation on Flower, by its public ServerApp and ClientApp.

Every client (Flower: SuperNode) opens the file named in its node config (``own_rows``). Flower
carries the messages, authenticates nodes and provides TLS. A round takes seconds. Run config of the
app:

    settings                   settings of ``omkl-run``
    inputs, target             names of columns
    scaling, bounds, measured  as in ``own_rows.Terms``
    folder                     folder of the server's results
    timeout                    seconds per round

Node config of a client: ``data``, its file; ``partition-id``, its client number from 0; and
``folder``, by default next to the file. The server's folder contains

    state.npz    state after the last round    rounds.csv   measurements of each client and round
    model.npz    written at the end            events.csv   rejected messages with reasons

After a crash, the same ``flwr run`` continues from these folders.
"""

from __future__ import annotations

import csv
import math
import os
import time
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from omkl.federated.own_rows import (
    MODEL,
    DataOwner,
    Reply,
    Terms,
    read_state,
    read_terms,
    write_state,
)
from omkl.federated.parties import Broadcast, Refused, Server, Update
from omkl.federated.protocol import Plan
from omkl.utils.disk import write_atomically
from omkl.utils.wording import pluralize

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")  # Flower sends telemetry on import

if TYPE_CHECKING:
    from flwr.app import Context, Message, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp

ROUNDS, EVENTS = "rounds.csv", "events.csv"
HEADERS = {
    ROUNDS: ("round", "client", "rows", "squared_error", "regret"),
    EVENTS: ("round", "client", "reason"),
}
POLL_SECONDS = 1.0

# The caller passes functions that build a plan and write a model file. They belong to higher
# layers, which this module must not import.
PlanOf = Callable[[Terms], Plan]

# --- messages -----------------------------------------------------------------------------------


def record(kind: str, arrays: Mapping[str, np.ndarray], **fields: Any) -> RecordDict:
    """Return a Flower message with arrays and numbers. ``contents`` reads it."""
    from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

    packed = {key: Array(np.ascontiguousarray(array)) for key, array in arrays.items()}
    named = ConfigRecord({"kind": kind, **fields})
    return RecordDict({"arrays": ArrayRecord(packed), "fields": named})


def contents(content: RecordDict) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the fields and arrays of a message. Raises Flower's errors for a malformed message."""
    arrays = {key: array.numpy() for key, array in content.array_records["arrays"].items()}
    return dict(content.config_records["fields"]), arrays


def broadcast_record(kind: str, broadcast: Broadcast) -> RecordDict:
    """Return the message to all clients, of kind "round" or, after the last round, "finished"."""
    arrays = broadcast._asdict()
    return record(kind, t=arrays.pop("t"), arrays=arrays)


def reply_record(client: int, t: int, reply: Reply) -> RecordDict:
    """Return the message of a client with the content of its reply.

    Parameters
    ----------
    client
        Number of the client.
    t
        Round.
    reply
        Reply of the data owner.
    """
    fields = reply._asdict()
    update = fields.pop("update")
    names = () if update is None else Update._fields[2:]
    arrays = {name: getattr(update, name) for name in names}
    return record("reply", arrays, client=client, t=t, **fields)


def read_reply(content: RecordDict) -> tuple[int, int, Reply]:
    """Return client, round and reply of a message. Raises Flower's errors for a malformed message.

    Raises Refused with the client's reason if the client refused the round.
    """
    fields, arrays = contents(content)
    if fields["kind"] == "refused":
        raise Refused(str(fields["reason"]))
    client, t = int(fields["client"]), int(fields["t"])
    update = None
    if arrays:
        update = Update(client, t, *(arrays[name] for name in Update._fields[2:]))
    counts = int(fields["n_rows"]), int(fields["n_scored"])
    measured = float(fields["squared_error"]), float(fields["regret"])
    return client, t, Reply(update, *counts, *measured, bool(fields["done"]))


# --- a client -----------------------------------------------------------------------------------


def client_app(plan_of: PlanOf, model_of: Callable[[DataOwner], bytes | None]) -> ClientApp:
    """Return the app of every client. A client opens the file that its node config names."""
    from flwr.app import Message
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        try:
            content = answer(message.content, context, plan_of, model_of)
        except (ValueError, OSError) as error:  # DataError and Refused are ValueErrors
            content = record("refused", {}, reason=str(error))
        return Message(content, reply_to=message)

    return app


def answer(
    content: RecordDict,
    context: Context,
    plan_of: PlanOf,
    model_of: Callable[[DataOwner], bytes | None],
) -> RecordDict:
    """Answer a message of the server as the client in the node config.

    Parameters
    ----------
    content
        Message of the server, from ``broadcast_record``.
    context
        Flower's context, with the node config and the run config.
    plan_of
        Function that makes the plan of the federation from its terms.
    model_of
        Function that returns the bytes of ``model.npz`` after the last round, or None for no file.

    Returns
    -------
    RecordDict
        The reply to a round, or the confirmation that the client has finished.

    Raises
    ------
    ValueError
        The client cannot take part in the round. The error may be a DataError or a Refused, both of
        which are subclasses of ValueError.
    """
    fields, arrays = contents(content)
    broadcast = Broadcast(int(fields["t"]), **arrays)
    owner = _owner(context.node_config, read_terms(context.run_config), plan_of)
    number = owner.party.client
    if fields["kind"] == "round":
        return reply_record(number, broadcast.t, owner.play(broadcast))
    owner.finish(broadcast)
    model = model_of(owner)
    if model is not None:
        write_atomically(owner.folder / MODEL, model)
    return record("finished", {}, client=number, t=broadcast.t)


def _owner(node: Mapping[str, Any], terms: Terms, plan_of: PlanOf) -> DataOwner:
    if missing := [key for key in ("data", "partition-id") if key not in node]:
        raise ValueError(
            f"the node config lacks {missing[0]}: flower-supernode "
            "--node-config 'partition-id=0 data=\"/path/to/rows.csv\"' ..."
        )
    path = Path(str(node["data"])).expanduser()
    beside = path.with_name(f"{path.stem}-federation")
    folder = Path(str(node.get("folder", beside))).expanduser()
    return DataOwner(path, folder, int(node["partition-id"]), terms, plan_of(terms))


# --- the server ---------------------------------------------------------------------------------


def server_app(plan_of: PlanOf, model_of: Callable[[Coordinator], bytes | None]) -> ServerApp:
    """Return the app of the server. The server has no data."""
    from flwr.serverapp import ServerApp

    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        config = context.run_config
        terms = read_terms(config)
        coordinator = Coordinator(Path(str(config["folder"])).expanduser(), terms, plan_of(terms))
        serve(coordinator, grid, float(config["timeout"]))
        model = model_of(coordinator)
        if model is not None:
            write_atomically(coordinator.folder / MODEL, model)
        print(coordinator.summary(), flush=True)

    return app


class Coordinator:
    """Server of a federation with the folder of its results. It does not depend on the network.

    ``t`` is the last closed round. Raises ValueError if the folder belongs to a federation with
    other terms.
    """

    def __init__(self, folder: Path, terms: Terms, plan: Plan) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.terms, self.plan = folder, terms, plan
        self.server = Server(plan, plan.settings.seed)
        self.clients: dict[int, int] = {}  # client of each node
        self._replies: dict[int, Reply] = {}
        kept = read_state(folder, terms)
        if kept:
            self.server.restore(kept)
        self.t = self.server.t
        for name, header in HEADERS.items():
            self._write(name, "w", [header, *self._lines(name)])

    @property
    def over(self) -> bool:
        """True once every client has learned all its rows."""
        return bool((self.server.lengths <= self.t).all())

    def expected(self) -> set[int]:
        """Return the clients that have rows in the open round."""
        begun = self.server.t - self.server.every
        return set(np.flatnonzero(self.server.lengths > begun).tolist())

    def open_round(self) -> Broadcast:
        """Begin a round and return the broadcast to all clients."""
        self._replies = {}
        return self.server.broadcast()

    @property
    def answered(self) -> set[int]:
        """Clients whose reply to the open round has arrived."""
        return set(self._replies)

    def receive(self, node: int, nodes: Container[int], client: int, t: int, reply: Reply) -> None:
        """Store the reply of a node (a connection to a client) to the open round.

        A node can speak for one client only. While it is connected, no other node can speak for
        this client.

        Parameters
        ----------
        node
            Identifier of the sending node.
        nodes
            All connected nodes.
        client
            Client number in the message.
        t
            Round in the message.
        reply
            Content of the message.

        Raises
        ------
        Refused
            The reply does not count; the text gives the reason.
        """
        if not 0 <= client < self.server.n_clients:
            raise Refused(f"node {node} says that it is client {client}: there is none")
        for other, bound in list(self.clients.items()):
            if bound == client and other not in nodes:
                del self.clients[other]
        owner = next((other for other, bound in self.clients.items() if bound == client), node)
        if owner != node or self.clients.get(node, client) != client:
            raise Refused(f"node {node} says that it is client {client}, which is node {owner}")
        self.clients[node] = client
        if reply.update is not None and reply.update.client != client:
            raise Refused(f"its message is of client {reply.update.client}")
        if t != self.server.t:
            raise Refused(f"late: its message is of round {t}")
        if client in self._replies:
            raise Refused("its second message of the round")
        self._replies[client] = reply

    def note(self, client: int, reason: str) -> None:
        """Record a failure of ``client`` (-1: unknown). A reason is recorded once per round."""
        noted = {event.reason for event in self.server.events if event.t == self.server.t}
        if reason not in noted:
            self.server.note(client, reason)

    def close_round(self) -> None:
        """Learn from the replies to the open round, client by client, and save the state."""
        server, lines = self.server, []
        noted = {event.client for event in server.events if event.t == server.t}
        for client in sorted(self.expected() - self.answered - noted):
            server.note(client, "no reply in time")
        for client, reply in sorted(self._replies.items()):
            if reply.update is None or server.receive(reply.update):
                squared_error, regret = server.measured(
                    client, squared_error=reply.squared_error, regret=reply.regret
                )
                counts = math.isfinite(squared_error) and 0 < reply.n_scored <= server.every
                n_scored = reply.n_scored if counts else 0
                lines.append((server.t, client, n_scored, squared_error, regret))
            if reply.done:
                n_learned = server.t - server.every + reply.n_rows
                server.lengths[client] = min(server.lengths[client], n_learned)
        server.finish()
        self.t = server.t
        events = [tuple(event) for event in server.events if event.t == server.t]
        self._write(ROUNDS, "a", lines)
        self._write(EVENTS, "a", events)
        write_state(self.folder, self.terms, server.checkpoint())

    def summary(self) -> str:
        """Return a text with the mean squared error of each client over its reported rows."""
        n_rounds = min(self.t, int(self.server.lengths.max()))
        lines = [f"{pluralize(n_rounds, 'round')}, {pluralize(len(self._lines(EVENTS)), 'event')}"]
        measured = [(int(line[1]), int(line[2]), float(line[3])) for line in self._lines(ROUNDS)]
        for client in range(self.server.n_clients):
            of_client = [(n, error) for k, n, error in measured if k == client and n]
            if n_rows := sum(n for n, _ in of_client):
                mse = sum(error for _, error in of_client) / n_rows
                lines.append(f"client {client}: mean squared error {mse:.6g} of {n_rows} rows")
        return "\n".join(lines)

    def _lines(self, name: str) -> list[list[str]]:
        """Return the complete lines of a CSV file of results, up to the last closed round."""
        path, header = self.folder / name, HEADERS[name]
        if not path.exists():
            return []
        with open(path, newline="") as file:
            lines = [line for line in csv.reader(file) if len(line) == len(header)]
        return [line for line in lines[1:] if int(line[0]) <= self.t]

    def _write(self, name: str, mode: str, lines: Iterable[Iterable[Any]]) -> None:
        with open(self.folder / name, mode, newline="") as file:
            csv.writer(file).writerows(lines)


def serve(coordinator: Coordinator, grid: Grid, timeout: float) -> None:
    """Run the remaining rounds with the nodes of a grid, and tell the nodes after the last round.

    Parameters
    ----------
    coordinator
        Server with its folder.
    grid
        Flower's grid.
    timeout
        Seconds per round.
    """
    n_clients = coordinator.server.n_clients
    while len(nodes := list(grid.get_node_ids())) < n_clients:
        print(f"{len(nodes)} of {n_clients} clients are here", flush=True)
        time.sleep(POLL_SECONDS)
    while not coordinator.over:
        broadcast = coordinator.open_round()
        while not coordinator.answered:  # repeat a round without any answer
            _ask(coordinator, grid, broadcast, timeout)
        coordinator.close_round()
        print(f"round {broadcast.t}, {len(coordinator.answered)} answers", flush=True)
    _send(grid, grid.get_node_ids(), "finished", coordinator.open_round(), timeout)


def _ask(coordinator: Coordinator, grid: Grid, broadcast: Broadcast, timeout: float) -> None:
    """Send the round to the clients that still have rows, and receive their replies.

    Nodes whose client is not known yet also get the round.
    """
    nodes = list(grid.get_node_ids())
    expected = (None, *coordinator.expected())
    asked = [node for node in nodes if coordinator.clients.get(node) in expected]
    if not asked:
        time.sleep(POLL_SECONDS)
    for reply in _send(grid, asked, "round", broadcast, timeout):
        node = reply.metadata.src_node_id
        try:
            if reply.has_error():
                lines = str(reply.error.reason).strip().splitlines()
                raise Refused(lines[-1] if lines else "it failed, and gives no reason")
            coordinator.receive(node, nodes, *read_reply(reply.content))
        except Refused as error:
            coordinator.note(coordinator.clients.get(node, -1), str(error))
        except Exception as error:  # a malformed message harms only its sender
            problem = f"its message cannot be read: {error!r}"
            coordinator.note(coordinator.clients.get(node, -1), problem)


def _send(
    grid: Grid, nodes: Iterable[int], kind: str, broadcast: Broadcast, timeout: float
) -> Iterable[Message]:
    from flwr.app import Message

    content = broadcast_record(kind, broadcast)
    messages = [
        Message(content, dst_node_id=node, message_type="train", group_id=str(broadcast.t))
        for node in nodes
    ]
    return grid.send_and_receive(messages, timeout=timeout) if messages else ()
