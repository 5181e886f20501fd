"""A federation on Flower, by its public ServerApp and ClientApp (extra ``flower``).

The two apps play the parties of ``omkl.federated.parties``; each process reads the whole data set
and takes its own client's rows from it, so that this simulates separate owners. What a client
learns is kept in Flower's ``context.state`` and, where ``omkl-keep`` names a folder, on disk: a
client whose process died goes on from there, in the same run. Predictions and regrets are reported
in a record of measurements beside each message; they are no part of what the learner sends.

``python -m omkl.federation.flower`` is the former name of the command ``omkl-federate``.
"""

from __future__ import annotations

import functools
import json
import os
import runpy
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from omkl.experiment.federation import FederatedJob
from omkl.federated.parties import (
    Broadcast,
    Client,
    ClientRound,
    Event,
    Refused,
    Server,
    Update,
    play,
)
from omkl.federation.coordinator import Members
from omkl.federation.trial import TIMEOUT, FederationResult, job_of
from omkl.utils import disk
from omkl.utils.disk import npz_bytes

# Neither Flower nor Ray reports home; both look when they are imported.
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

if TYPE_CHECKING:
    from flwr.app import Context, Message, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp

NODES_SECONDS = 120.0  # for all clients to be there

# --- messages -----------------------------------------------------------------------------------


def _record(name: str, arrays: Mapping[str, np.ndarray], **fields: int) -> RecordDict:
    from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

    packed = {key: Array(np.ascontiguousarray(array)) for key, array in arrays.items()}
    return RecordDict({name: ArrayRecord(packed), "round": ConfigRecord({**fields})})


def broadcast_record(broadcast: Broadcast) -> RecordDict:
    """The arrays of a broadcast, and its round."""
    arrays = broadcast._asdict()
    return _record("broadcast", t=arrays.pop("t"), arrays=arrays)


def round_record(played: ClientRound) -> RecordDict:
    """The arrays of an update, whose it is and of which round, and what the client measured."""
    from flwr.app import MetricRecord

    arrays = played.update._asdict()
    client, t = arrays.pop("client"), arrays.pop("t")
    content = _record("update", arrays, client=client, t=t)
    content["measured"] = MetricRecord({"y_hat": played.y_hat, "regret": played.regret})
    return content


def _arrays(content: RecordDict, name: str) -> dict[str, np.ndarray]:
    return {key: array.numpy() for key, array in content.array_records[name].items()}


def read_round(content: RecordDict) -> ClientRound:
    """What ``round_record`` made; raises whatever is wrong with it."""
    sender, measured = content.config_records["round"], content.metric_records["measured"]
    update = Update(int(sender["client"]), int(sender["t"]), **_arrays(content, "update"))
    return ClientRound(update, float(measured["y_hat"]), float(measured["regret"]))


# --- a client -----------------------------------------------------------------------------------


def client_app(settings: Mapping[str, Any] | None = None) -> ClientApp:
    """The client of every engine; which one it is stands in the node's ``partition-id``.

    ``settings`` stand in for a run config where an engine has none.
    """
    from flwr.app import Message
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        return Message(play_round(message.content, context, settings), reply_to=message)

    return app


def play_round(
    content: RecordDict, context: Context, settings: Mapping[str, Any] | None = None
) -> RecordDict:
    """A round of the client that ``context`` names: what it answers to a broadcast."""
    config = {**context.run_config, **(settings or {})}
    client = int(context.node_config["partition-id"])
    party = _client(str(config["omkl"]), client)
    folder = str(config.get("omkl-keep", ""))
    path = Path(folder).expanduser() / f"client-{client}.npz" if folder else None
    broadcast = Broadcast(
        int(content.config_records["round"]["t"]), **_arrays(content, "broadcast")
    )
    checkpoint = _read_checkpoint(path, context)
    if checkpoint is not None and int(checkpoint["drawn"][0]) >= broadcast.t:
        checkpoint = None  # of rounds that this run has not had: not its own
    party.restore(checkpoint)
    played = party.run_round(broadcast)
    _write_checkpoint(party, path, context)
    return round_record(played)


@functools.lru_cache(maxsize=1024)
def _client(overrides: str, client: int) -> Client:
    job = job_of(overrides)
    return Client(job, job.seeds[0], client)


def _read_checkpoint(path: Path | None, context: Context) -> dict[str, np.ndarray] | None:
    """What the client has learned in this run, from Flower's state or from disk."""
    if "client" in context.state.array_records:
        return _arrays(context.state, "client")
    if path is None or not path.exists():
        return None
    with np.load(path, allow_pickle=False) as archive:
        checkpoint = {name: archive[name] for name in archive.files}
    return checkpoint if int(checkpoint["run"][0]) == _signed(context.run_id) else None


def _write_checkpoint(party: Client, path: Path | None, context: Context) -> None:
    from flwr.app import Array, ArrayRecord

    checkpoint = party.checkpoint()
    context.state["client"] = ArrayRecord({name: Array(a) for name, a in checkpoint.items()})
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        content = npz_bytes(checkpoint | {"run": np.array([_signed(context.run_id)])})
        disk.write_atomically(path, content)


def _signed(run: int) -> int:
    """A run's number of 64 bits as numpy's int64 has it."""
    return int(np.uint64(run % 2**64).view(np.int64))


# --- the server ---------------------------------------------------------------------------------


def server_app(settings: Mapping[str, Any] | None = None) -> ServerApp:
    """The server of every engine; what comes out goes into the file ``omkl-result``."""
    from flwr.serverapp import ServerApp

    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        config = {**context.run_config, **(settings or {})}
        n_rounds, timeout = int(config.get("omkl-rounds", 0)), float(config["omkl-timeout"])
        result = serve(job_of(str(config["omkl"])), grid, n_rounds, timeout)
        events = np.array([f"{e.t}\t{e.client}\t{e.reason}" for e in result.events], dtype=str)
        content = npz_bytes(result._asdict() | {"events": events})
        disk.write_atomically(Path(str(config["omkl-result"])), content)

    return app


def serve(
    job: FederatedJob, grid: Grid, n_rounds: int = 0, timeout: float = TIMEOUT
) -> FederationResult:
    """All rounds of a federation on a grid; ``n_rounds`` 0 means as many as the streams have."""
    T, K = job.split.y.shape
    n_rounds = min(n_rounds or T, T)
    server, members = Server(job, job.seeds[0]), Members(K)
    y_hat, regret = np.full((n_rounds, K), np.nan), np.full((n_rounds, K), np.nan)
    _wait_for_nodes(grid, K)
    for s in range(n_rounds):
        # In the order of the clients, so that sums are those of the simulation to the last bit.
        answers = _ask_all(grid, server, members, timeout)
        for played in sorted(answers, key=lambda played: played.update.client):
            client = played.update.client
            if server.receive(played.update):
                y_hat[s, client], regret[s, client] = server.measured(
                    client, prediction=played.y_hat, regret=played.regret
                )
        server.finish()
    theta = server.state.model.theta.copy()
    return FederationResult(y_hat, regret, theta, server.events, server.numbers)


def _ask_all(grid: Grid, server: Server, members: Members, timeout: float) -> list[ClientRound]:
    """Begin a round; the answers that come in time, and an event for whatever else comes."""
    from flwr.app import Message

    broadcast = server.broadcast()
    content, silent = broadcast_record(broadcast), set(server.present())
    nodes = list(grid.get_node_ids())
    # A client that came back without a key has another number: its old one is free again.
    members.keep(map(str, nodes))
    asked = {node: members.get(str(node)) for node in nodes}
    asked = {node: one for node, one in asked.items() if one is None or one.client in silent}
    messages = [
        Message(content, dst_node_id=node, message_type="train", group_id=str(broadcast.t))
        for node in asked
    ]
    answers = []
    for reply in grid.send_and_receive(messages, timeout=timeout):
        played = _read_reply(reply, server, members)
        if played is not None:
            answers.append(played)
            silent.discard(played.update.client)
    for client in sorted(silent):
        server.note(client, "no reply in time")
    return answers


def _read_reply(reply: Message, server: Server, members: Members) -> ClientRound | None:
    """What a reply holds; None, and an event, where that cannot be read or is not the sender's."""
    node = str(reply.metadata.src_node_id)
    member = members.get(node)
    try:
        if reply.has_error():
            lines = str(reply.error.reason).strip().splitlines()
            raise Refused(f"failed in round {server.t}: {lines[-1] if lines else 'no reason'}")
        played = read_round(reply.content)
        members.bind(node, played.update.client, "")
        return played
    except Refused as error:
        reason = str(error)
    except Exception as error:  # whatever came: it is one client's
        reason = f"its message cannot be read: {error!r}"
    server.note(-1 if member is None else member.client, reason)
    return None


def _wait_for_nodes(grid: Grid, n_clients: int) -> None:
    end = time.monotonic() + NODES_SECONDS
    while len(nodes := list(grid.get_node_ids())) < n_clients:
        if time.monotonic() >= end:
            raise RuntimeError(
                f"{len(nodes)} of {n_clients} clients came within {NODES_SECONDS:g} s"
            )
        time.sleep(0.2)


# --- engines ------------------------------------------------------------------------------------


def run_on_simulation(
    overrides: str, n_rounds: int = 0, timeout: float = TIMEOUT
) -> FederationResult:
    """On Flower's simulation engine: about 0.1 s a round, whatever it computes."""
    from flwr.simulation import run_simulation

    job = job_of(overrides)
    play(job, job.seeds[0], n_rounds=1)  # compile, so that no client does while the server waits
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.npz"
        config: dict[str, Any] = {"omkl": overrides, "omkl-result": str(result)}
        config |= {"omkl-rounds": n_rounds, "omkl-timeout": timeout}
        run_simulation(
            server_app(config),
            client_app(config),
            num_supernodes=len(job.split.clients),
            backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
        )
        return read_result(result)


def read_result(path: Path) -> FederationResult:
    """What ``server_app`` wrote."""
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    events = [text.split("\t", 2) for text in arrays.pop("events").tolist()]
    return FederationResult(events=[Event(int(t), int(k), why) for t, k, why in events], **arrays)


PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "omkl-federation"
version = "1.0.0"
description = "A federation of omkl"
license = {{ file = "LICENSE" }}
dependencies = ["flwr>=1.41,<1.42", "omkl"]

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "omkl"
fab-format-version = 1
flwr-version-target = "1.41.0"

[tool.flwr.app.components]
serverapp = "omkl_apps:server"
clientapp = "omkl_apps:client"

[tool.flwr.app.config]
omkl = {omkl}
omkl-rounds = {rounds}
omkl-timeout = {timeout}
omkl-result = {result}
omkl-keep = {keep}
"""

APPS = '''"""The two apps; everything else is in omkl."""

from omkl.federation.flower import client_app, server_app

server = server_app()
client = client_app()
'''


def write_app(
    folder: Path,
    overrides: str,
    n_rounds: int = 0,
    timeout: float = TIMEOUT,
    result: str = "",
    keep: str = "",
) -> None:
    """A folder for ``flwr run``: it starts this federation on any Flower server.

    ``result`` is the file where the server writes what came out, and ``keep`` the folder where
    every client keeps what it has learned: by default FOLDER/result.npz and ~/.omkl/FOLDER.
    """
    folder.mkdir(parents=True, exist_ok=True)
    result = result or str(folder.resolve() / "result.npz")
    text = {"omkl": overrides, "result": result, "keep": keep or f"~/.omkl/{folder.name}"}
    quoted = {name: json.dumps(value) for name, value in text.items()}
    pyproject = PYPROJECT.format(rounds=n_rounds, timeout=float(timeout), **quoted)
    disk.write_atomically(folder / "pyproject.toml", pyproject)
    disk.write_atomically(folder / "omkl_apps.py", APPS)
    disk.write_atomically(folder / "LICENSE", "MIT, as omkl, which these few lines start.\n")


if __name__ == "__main__":
    print("omkl: this command is called omkl-federate now", file=sys.stderr)
    runpy.run_module("omkl.federation", run_name="__main__", alter_sys=True)
