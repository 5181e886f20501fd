"""Engines that need no processes of ours: a grid in this process, and Flower's simulation."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp

from omkl import disk
from omkl.federated.parties import Event
from omkl.federation.flower.apps import (
    TIMEOUT,
    Deliver,
    Flown,
    at_once,
    client_app,
    compile_steps,
    job_of,
    serve,
    server_app,
)
from omkl.federation.flower.grid import OwnGrid


class InProcessGrid(OwnGrid):
    """A grid of clients that are functions in this process.

    ``deliver(client, t, reply)`` is the network: (rounds late, reply), or None for a reply
    that is lost. ``alive(client, t)`` says whether the client's process runs; when it comes
    back it has forgotten all but what is on disk.
    """

    def __init__(
        self,
        app: ClientApp,
        n_clients: int,
        run_config: Mapping[str, Any],
        deliver: Deliver = at_once,
        alive: Callable[[int, int], bool] = lambda client, t: True,
    ) -> None:
        from flwr.supercore.task_identity import TaskIdentity

        # Messages ask the process who it is.
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 0
        self._app = app
        self._run_config = dict(run_config)
        self._deliver = deliver
        self._alive = alive
        self._run_id = uuid.uuid4().int % 2**63
        self._contexts = {k: self._context(k) for k in range(n_clients)}
        self._ready: list[tuple[int, Message]] = []  # round from which it can be pulled
        self._t = 0
        self._n_sent = 0

    def _context(self, client: int) -> Context:
        node_config = {"partition-id": client}
        return Context(self._run_id, client + 1, node_config, RecordDict(), dict(self._run_config))

    @property
    def run(self) -> Any:
        raise NotImplementedError("this grid has no run")

    def get_node_ids(self) -> Iterable[int]:
        return [k + 1 for k in self._contexts]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        ids = []
        for message in messages:
            self._n_sent += 1
            identity = str(self._n_sent)
            message.metadata.__dict__["_message_id"] = identity  # a SuperLink gives it
            ids.append(identity)
            client = message.metadata.dst_node_id - 1
            self._t = int(message.metadata.group_id)
            if not self._alive(client, self._t):
                self._contexts[client] = self._context(client)
                continue
            try:
                reply = self._app(message, self._contexts[client])
            except Exception as error:
                reply = Message(Error(code=0, reason=repr(error)), reply_to=message)
            delivered = self._deliver(client, self._t, reply)
            if delivered is not None:
                self._ready.append((self._t + delivered[0], delivered[1]))
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        wanted = set(message_ids)
        due = [
            m for t, m in self._ready if t <= self._t and m.metadata.reply_to_message_id in wanted
        ]
        self._ready = [(t, m) for t, m in self._ready if all(m is not taken for taken in due)]
        return due

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        return self.pull_messages(self.push_messages(messages))


def run_on_grid(overrides: str, n_rounds: int = 0, **options: Any) -> Flown:
    """In this process, some ms a round; options of the grid, and the ``timeout`` of ``serve``."""
    job = job_of(overrides)
    timeout = options.pop("timeout", 0.0)
    run_config = {"omkl": overrides, **options.pop("run_config", {})}
    grid = InProcessGrid(client_app(), len(job.split.clients), run_config, **options)
    return serve(job, grid, n_rounds, timeout)


def run_on_simulation(overrides: str, n_rounds: int = 0, timeout: float = TIMEOUT) -> Flown:
    """On Flower's simulation engine: about 0.1 s a round, whatever it computes."""
    from flwr.simulation import run_simulation

    job = job_of(overrides)
    compile_steps(job)
    with disk.temporary_folder() as folder:
        result = Path(folder) / "result.npz"
        line: dict[str, Any] = {"omkl": overrides, "omkl-result": str(result)}
        line |= {"omkl-rounds": n_rounds, "omkl-timeout": timeout}
        run_simulation(
            server_app(line),
            client_app(line),
            num_supernodes=len(job.split.clients),
            backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
        )
        return read_result(result)


def read_result(path: Path) -> Flown:
    """What ``server_app`` wrote."""
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    events = [text.split("\t", 2) for text in arrays.pop("events").tolist()]
    return Flown(events=[Event(int(t), int(k), why) for t, k, why in events], **arrays)
