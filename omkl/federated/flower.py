"""The same federation on Flower: a ServerApp and a ClientApp around the objects of ``sides``.

    python -m omkl.federated.flower grid algorithm=pof_mkl dataset=naval federation=iid clients=4
    python -m omkl.federated.flower simulation ...      Flower's simulation engine (Ray)
    python -m omkl.federated.flower deployment ...      one server and K clients as processes of
                                                        their own on this machine
    python -m omkl.federated.flower app FOLDER ...      write a Flower app, for ``flwr run FOLDER``;
                                                        without FOLDER into flower-app

The words after the engine are those of omkl-run. Each of the three runs the first seed and says
how far its predictions are from those of our own simulation. Besides: ``rounds=N`` stops early,
``timeout=S`` are the seconds that the server waits for replies.

This is the only module that imports Flower (``pip install -e '.[flower]'``). What a client
learns is kept in Flower's ``context.state``, and, where ``omkl-keep`` names a folder, on disk:
a client whose process died goes on from there, in the same run. Predictions and regrets are
reported in a record of measurements beside each message; they are no part of what the learner
sends.
"""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import numpy as np
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Error,
    Message,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from omkl.experiment.federation import FederatedJob
from omkl.federated.parties import ClientSide, Event, Reply, ServerSide, Told, play
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
    from omkl.experiment import job as jobs
    from omkl.reproduction.reproduce import configuration

    job = jobs.prepare(configuration(shlex.split(overrides)))
    if not isinstance(job, FederatedJob):
        raise ValueError("no federation is asked for: add federation=iid clients=K")
    return job


@functools.lru_cache(maxsize=1024)
def _side(overrides: str, client: int) -> ClientSide:
    job = job_of(overrides)
    return ClientSide(job, job.seeds[0], client)


# --- records ------------------------------------------------------------------------------------


def _arrays(**named: np.ndarray) -> ArrayRecord:
    return ArrayRecord({name: Array(np.ascontiguousarray(a)) for name, a in named.items()})


def _told_record(told: Told) -> RecordDict:
    arrays = _arrays(theta=told.theta, log_w=told.log_w, announced=told.announced)
    return RecordDict({"told": arrays, "round": ConfigRecord({"t": told.t})})


def _read_told(content: RecordDict) -> Told:
    arrays = {name: array.numpy() for name, array in content.array_records["told"].items()}
    return Told(int(content.config_records["round"]["t"]), **arrays)


def _reply_record(reply: Reply, y_hat: float, regret: float) -> RecordDict:
    arrays = _arrays(rows=reply.rows, theta=reply.theta, extras=reply.extras)
    whose = ConfigRecord({"t": reply.t, "client": reply.client})
    measured = MetricRecord({"y_hat": y_hat, "regret": regret})
    return RecordDict({"reply": arrays, "round": whose, "measured": measured})


def _read_reply(content: RecordDict) -> tuple[Reply, float, float]:
    arrays = {name: array.numpy() for name, array in content.array_records["reply"].items()}
    whose = content.config_records["round"]
    measured = content.metric_records["measured"]
    reply = Reply(int(whose["client"]), int(whose["t"]), **arrays)
    return reply, float(measured["y_hat"]), float(measured["regret"])


# --- the apps -----------------------------------------------------------------------------------


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
        told = _read_told(message.content)
        state = _kept_state(kept, context)
        if state is not None and int(state["drawn"][0]) >= told.t:
            state = None  # of rounds that this run has not had: not its own
        side.restore(state)
        turn = side.turn(told)
        _keep_state(side, kept, context)
        return Message(_reply_record(turn.reply, turn.y_hat, turn.regret), reply_to=message)

    return app


def _kept_state(kept: Path | None, context: Context) -> dict[str, np.ndarray] | None:
    if "own" in context.state.array_records:
        return {name: a.numpy() for name, a in context.state.array_records["own"].items()}
    state = None if kept is None else _read_kept(kept)
    if state is None or int(state["run"][0]) != _signed(context.run_id):
        return None
    return state


def _signed(run: int) -> int:
    """A run's number of 64 bits as numpy's int64 has it."""
    return int(np.uint64(run % 2**64).view(np.int64))


def _read_kept(path: Path) -> dict[str, np.ndarray] | None:
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _keep_state(side: ClientSide, kept: Path | None, context: Context) -> None:
    state = side.state()
    context.state["own"] = _arrays(**state)
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
        content = _told_record(told)
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
                    reply, predicted, above = _read_reply(message.content)
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


# --- engines ------------------------------------------------------------------------------------

Deliver = Callable[[int, int, Message], "tuple[int, Message] | None"]


def at_once(client: int, t: int, reply: Message) -> tuple[int, Message] | None:
    """A network that loses nothing: the reply, 0 rounds late."""
    return 0, reply


class InProcessGrid(Grid):
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

    def set_run(self, run: Any) -> None:
        """There is one run."""

    @property
    def run(self) -> Any:
        raise NotImplementedError("this grid has no run")

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

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


def run_on_grid(overrides: str, n_rounds: int = 0, **more: Any) -> Flown:
    """In this process, some ms a round. ``more`` goes to the grid, ``timeout`` to ``serve``."""
    job = job_of(overrides)
    timeout = more.pop("timeout", 0.0)
    run_config = {"omkl": overrides, **more.pop("run_config", {})}
    grid = InProcessGrid(client_app(), len(job.split.clients), run_config, **more)
    return serve(job, grid, n_rounds, timeout)


def run_on_simulation(overrides: str, n_rounds: int = 0, timeout: float = TIMEOUT) -> Flown:
    """On Flower's simulation engine: about 0.1 s a round, whatever it computes."""
    from flwr.simulation import run_simulation

    job = job_of(overrides)
    _compile(job)
    with tempfile.TemporaryDirectory(prefix="omkl-") as folder:
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


PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "omkl-federation"
version = "1.0.0"
description = "A federation of omkl"
license = {{ file = "LICENSE" }}
dependencies = ["flwr>=1.41.0"]

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

from omkl.federated.flower import client_app, server_app

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
    """A folder for ``flwr run``: it starts this federation on any Flower server."""
    import json

    folder.mkdir(parents=True, exist_ok=True)
    text = {"omkl": overrides, "result": result, "keep": keep}
    quoted = {name: json.dumps(value) for name, value in text.items()}
    pyproject = PYPROJECT.format(rounds=n_rounds, timeout=float(timeout), **quoted)
    write_atomically(folder / "pyproject.toml", pyproject)
    write_atomically(folder / "omkl_apps.py", APPS)
    write_atomically(folder / "LICENSE", "MIT, as omkl, which these few lines start.\n")


class Deployment:
    """One SuperLink and a SuperNode for each client, as processes of their own on loopback.

    About 7 s a round with 4 clients: a SuperNode asks for work every 3 s and starts a process
    for each message. Made by ``deployment``, which ends all of them.
    """

    def __init__(self, overrides: str, folder: Path) -> None:
        self.folder = folder
        self.overrides = overrides
        self.n_clients = len(job_of(overrides).split.clients)
        self._result = folder / "result.npz"
        self._kept = folder / "kept"
        self._app = folder / "app"
        home = folder / "flwr"
        home.mkdir(parents=True, exist_ok=True)
        port, *self._ports = _free_ports(1 + self.n_clients)
        self._address = f"127.0.0.1:{port}"
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "{self._address}"\n'
            "insecure = true\n"
        )
        self._bin = Path(sys.executable).parent
        self._environment = {
            **os.environ,
            "PATH": f"{self._bin}{os.pathsep}{os.environ.get('PATH', '')}",
            "FLWR_HOME": str(home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        self._processes = contextlib.ExitStack()
        self._nodes: dict[int, subprocess.Popen[bytes]] = {}
        try:
            self._link = self._start(
                "server", "flower-superlink", "--insecure",
                "--disable-runtime-dependency-installation",
                "--host", "127.0.0.1", "--port", str(port),
            )  # fmt: skip
            _wait_for_port(port, self._link, folder)
            for client in range(self.n_clients):
                self.start(client)
        except BaseException:
            self.stop()
            raise

    def _start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        with open(self.folder / f"{name}.log", "ab") as log_file:
            process = subprocess.Popen(
                [str(self._bin / arguments[0]), *arguments[1:]],
                stdout=log_file,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
            )
        self._processes.callback(_stop, process)
        return process

    def start(self, client: int) -> None:
        """Start a client's SuperNode, or start it again."""
        self._nodes[client] = self._start(
            f"client-{client}", "flower-supernode", "--insecure", "--superlink", self._address,
            "--node-config", f"partition-id={client} num-partitions={self.n_clients}",
            "--host", "127.0.0.1", "--port", str(self._ports[client]),
        )  # fmt: skip

    def kill(self, client: int) -> None:
        """Kill a client's SuperNode and what it has started, as a power failure does."""
        process = self._nodes.pop(client)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def learned(self, client: int) -> int:
        """The last round that a client has learned from; 0 before the first."""
        kept = _read_kept(self._kept / f"client-{client}.npz")
        return 0 if kept is None else int(kept["drawn"][0])

    def run(self, n_rounds: int = 0, timeout: float = TIMEOUT) -> None:
        """Start the rounds; returns at once. What an earlier run kept on disk is removed."""
        line = self.overrides
        for kept in self._kept.glob("client-*.npz"):
            kept.unlink()
        write_app(self._app, line, n_rounds, timeout, str(self._result), str(self._kept))
        self._result.unlink(missing_ok=True)
        started = subprocess.run(
            [str(self._bin / "flwr"), "run", str(self._app), "here"],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        if started.returncode:
            raise RuntimeError(f"flwr run failed:\n{started.stdout}\n{started.stderr}")

    def result(self, seconds: float) -> Flown:
        """What came out; RuntimeError, with the end of the logs, if nothing has in time."""
        end = time.monotonic() + seconds
        while not self._result.exists():
            if self._link.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"no result came.\n{_log_ends(self.folder)}")
            time.sleep(0.5)
        return read_result(self._result)

    def stop(self) -> None:
        """End all processes."""
        self._processes.close()


@contextlib.contextmanager
def deployment(overrides: str, folder: Path | None = None) -> Iterator[Deployment]:
    """A server and its clients on this machine; ``folder`` keeps the logs and what is learned."""
    with contextlib.ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="omkl-")))
        _compile(job_of(overrides))
        deployed = Deployment(overrides, folder)
        stack.callback(deployed.stop)
        yield deployed


def run_deployed(
    overrides: str,
    n_rounds: int = 0,
    timeout: float = TIMEOUT,
    folder: Path | None = None,
    seconds: float = 1800.0,
) -> Flown:
    """A server and its clients as processes of their own, about 7 s a round with 4 clients."""
    with deployment(overrides, folder) as deployed:
        deployed.run(n_rounds, timeout)
        return deployed.result(seconds)


def _compile(job: FederatedJob) -> None:
    """Fill the cache of machine code, so that no client compiles while the server waits."""
    play(job, job.seeds[0], n_rounds=1)


def _free_ports(n: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for some in sockets:
            some.bind(("127.0.0.1", 0))
        return [some.getsockname()[1] for some in sockets]


def _wait_for_port(port: int, process: subprocess.Popen[bytes], folder: Path) -> None:
    end = time.monotonic() + 60.0
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return
        time.sleep(0.2)
    raise RuntimeError(f"the server did not start.\n{_log_ends(folder)}")


def _log_ends(folder: Path) -> str:
    ends = []
    for path in sorted(folder.glob("*.log")):
        lines = path.read_text(errors="replace").splitlines()[-15:]
        ends += [f"--- {path.name}", *lines]
    return "\n".join(ends)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End a process that we started, and the processes that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


ENGINES: dict[str, Callable[..., Flown]] = {
    "grid": run_on_grid,
    "simulation": run_on_simulation,
    "deployment": run_deployed,
}


def difference(overrides: str, flown: Flown) -> float:
    """The largest distance of its predictions from those of our own simulation.

    Missing replies do not count; NaN if all are missing.
    """
    job = job_of(overrides)
    n = len(flown.y_hat)
    ours = job.federation(job.seeds[0]).partial_fit(job.split.X[:n], job.split.y[:n]).y_hat
    came = ~np.isnan(flown.y_hat)
    return float(np.max(np.abs(flown.y_hat - ours)[came])) if came.any() else float("nan")


def main(arguments: Sequence[str]) -> int:
    from omkl.commands.command_line import CommandLine

    engine, words = (arguments[0], list(arguments[1:])) if arguments else ("", [])
    if engine not in (*ENGINES, "app"):
        print(f"omkl: {engine or 'nothing'} is no engine. There are:", file=sys.stderr)
        print(str(__doc__).split("\n\n")[1], file=sys.stderr)
        return 2
    folder = Path("flower-app")
    if engine == "app" and words and "=" not in words[0]:
        folder = Path(words.pop(0))
    own = dict(word.split("=", 1) for word in words if word.startswith(("rounds=", "timeout=")))
    words = [w for w in words if not w.startswith(("rounds=", "timeout="))]
    try:
        n_rounds, timeout = int(own.get("rounds", 0)), float(own.get("timeout", TIMEOUT))
    except ValueError:
        print(f"omkl: rounds and timeout are numbers; got {own}", file=sys.stderr)
        return 1
    if n_rounds < 0 or not timeout > 0:
        print(
            f"omkl: rounds is at least 0 (all) and timeout above 0 seconds; got {own}",
            file=sys.stderr,
        )
        return 1
    try:
        overrides = shlex.join(CommandLine(words).checked())
        job = job_of(overrides)
    except ValueError as error:
        print(f"omkl: {error}", file=sys.stderr)
        return 1
    if engine == "app":
        write_app(folder, overrides, n_rounds, timeout)
        print(f"{folder}/: flwr run {folder}")
        return 0
    start = time.perf_counter()
    flown = ENGINES[engine](overrides, n_rounds, timeout=timeout)
    seconds = time.perf_counter() - start
    n, K = flown.y_hat.shape
    came = ~np.isnan(flown.y_hat)
    squares = np.square(flown.y_hat - job.split.y[:n])[came]
    mse = squares.mean() if squares.size else np.nan
    there = np.arange(1, n + 1)[:, None] <= job.split.lengths
    print(f"{engine}: {n} rounds of {K} clients in {seconds:.1f} s, MSE {1e3 * mse:.2f} x 10^-3")
    if missing := np.count_nonzero(there & ~came):
        print(f"{missing} of {np.count_nonzero(there)} replies are missing")
    print(f"largest distance from our simulation: {difference(overrides, flown):.1e}")
    for event in flown.events:
        print(f"round {event.t}, client {event.client}: {event.reason}")
    return 0


if __name__ == "__main__":
    # Other processes look for our functions in the module of that name, not in __main__.
    from omkl.federated import flower

    sys.exit(flower.main(sys.argv[1:]))
