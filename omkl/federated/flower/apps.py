"""The ServerApp and the ClientApp around the objects of ``parties``.

What a client learns is kept in Flower's ``context.state``, and, where ``omkl-keep`` names a folder,
on disk: a client whose process died goes on from there, in the same run. Predictions and regrets
are reported in a record of measurements beside each message; they are no part of what the learner
sends.
"""

from __future__ import annotations

import functools
import io
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

from omkl.conf import configuration
from omkl.experiment.federation import FederatedJob
from omkl.experiment.run import prepare
from omkl.federated.flower.records import (
    arrays_of,
    read_reply,
    read_told,
    reply_record,
    told_record,
)
from omkl.federated.parties import ClientSide, Event, Reply, ServerSide, play
from omkl.runs.folder import write_atomically

log = logging.getLogger(__name__)

TIMEOUT = 60.0  # seconds that the server waits for the replies of a round
LATE = 3  # rounds after which nobody asks for a missing reply any more
NODES_SECONDS = 120.0  # for all clients to be there
POLL = 0.02


class Flown(NamedTuple):
    """What came out of a federation on Flower.

    y_hat, regret  (T, K), NaN where no usable reply came or the client was done
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
    job = prepare(configuration(shlex.split(overrides)))
    if not isinstance(job, FederatedJob):
        raise ValueError("no federation is asked for: add federation=iid clients=K")
    return job


@functools.lru_cache(maxsize=1024)
def _side(overrides: str, client: int) -> ClientSide:
    job = job_of(overrides)
    return ClientSide(job, job.seeds[0], client)


def client_app(given: Mapping[str, Any] | None = None) -> ClientApp:
    """The client of every engine; which one it is stands in the node's ``partition-id``.

    ``given`` stands in for a run config where an engine has none.
    """
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        config = {**context.run_config, **(given or {})}
        client = int(context.node_config["partition-id"])
        side = _side(str(config["omkl"]), client)
        folder = str(config.get("omkl-keep", ""))
        kept = Path(folder) / f"client-{client}.npz" if folder else None
        told = read_told(message.content)
        state = _kept_state(kept, context)
        if state is not None and int(state["drawn"][0]) >= told.t:
            state = None  # of rounds that this run has not had: not its own
        side.restore(state)
        turn = side.turn(told)
        _keep_state(side, kept, context)
        return Message(reply_record(turn.reply, turn.y_hat, turn.regret), reply_to=message)

    return app


def _kept_state(kept: Path | None, context: Context) -> dict[str, np.ndarray] | None:
    if "own" in context.state.array_records:
        return {name: a.numpy() for name, a in context.state.array_records["own"].items()}
    state = None if kept is None else read_kept(kept)
    if state is None or int(state["run"][0]) != _signed(context.run_id):
        return None
    return state


def _signed(run: int) -> int:
    """A run's number of 64 bits as numpy's int64 has it."""
    return int(np.uint64(run % 2**64).view(np.int64))


def read_kept(path: Path) -> dict[str, np.ndarray] | None:
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _keep_state(side: ClientSide, kept: Path | None, context: Context) -> None:
    state = side.state()
    context.state["own"] = arrays_of(**state)
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(kept, _npz(state | {"run": np.array([_signed(context.run_id)])}))


def _npz(arrays: Mapping[str, np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **dict(arrays))  # type: ignore[arg-type]
    return buffer.getvalue()


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
            write_atomically(Path(str(config["omkl-result"])), _npz(arrays))

    return app


def serve(job: FederatedJob, grid: Grid, n_rounds: int = 0, timeout: float = TIMEOUT) -> Flown:
    """All rounds of a federation on a grid; ``n_rounds`` 0 means as many as the streams have."""
    T, K = job.split.y.shape
    n_rounds = min(n_rounds or T, T)
    server = ServerSide(job, job.seeds[0])
    y_hat, regret = np.full((n_rounds, K), np.nan), np.full((n_rounds, K), np.nan)
    nodes = _nodes(grid, K)
    asked: dict[str, tuple[int, int]] = {}  # message: round, node
    client_of: dict[int, int] = {}
    for s in range(n_rounds):
        told = server.tell()
        present = set(server.present())
        nodes = list(grid.get_node_ids()) or nodes  # one that came back has another number
        nodes = [node for node in nodes if client_of.get(node, -1) in {-1, *present}]
        content = told_record(told)
        messages = [
            Message(content, dst_node_id=node, message_type="train", group_id=str(told.t))
            for node in nodes
        ]
        pushed = zip(grid.push_messages(messages), nodes, strict=True)
        new = {identity: (told.t, node) for identity, node in pushed if identity}
        asked |= new
        waiting: set[str] = set(new)
        replies: list[tuple[Reply, float, float]] = []
        silent = set(present)
        end = time.monotonic() + timeout
        while waiting and silent:
            for message in grid.pull_messages(list(asked)):
                identity = message.metadata.reply_to_message_id
                t, node = asked.pop(identity)
                waiting.discard(identity)
                client = client_of.get(node, -1)
                if message.has_error():
                    server.note(client, f"failed in round {t}: {_last_line(message.error.reason)}")
                    continue
                try:
                    reply, predicted, above = read_reply(message.content)
                except Exception as error:  # whatever came: it is one client's
                    server.note(client, f"its message cannot be read: {error!r}")
                    continue
                client_of[node] = reply.client
                if reply.t == told.t:
                    replies.append((reply, predicted, above))
                    silent.discard(reply.client)
                else:  # refused, with the event that says so
                    server.receive(reply)
            if time.monotonic() >= end:
                break
            if waiting and silent:
                time.sleep(POLL)
        # In the order of the clients, so that sums are those of the simulation to the last bit.
        for reply, predicted, above in sorted(replies, key=lambda r: r[0].client):
            if server.receive(reply):
                y_hat[s, reply.client], regret[s, reply.client] = predicted, above
        for identity in waiting:
            client = client_of.get(asked[identity][1], -1)
            if client in silent or (client < 0 and silent):  # else it answered as another node
                server.note(client, "no reply in time")
        server.finish()
        asked = {i: (t, node) for i, (t, node) in asked.items() if t > told.t - LATE}
    return Flown(y_hat, regret, server.server.model.theta.copy(), server.events, server.numbers)


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


def _last_line(reason: Any) -> str:
    lines = [line for line in str(reason).splitlines() if line.strip()]
    return lines[-1] if lines else "no reason"


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
