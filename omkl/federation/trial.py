"""A trial of a federation on this machine: a server and K clients as processes.

The rows of a data set are dealt out to files, one a client, as the split of a simulated federation
has them, so that the numbers can be compared with it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from omkl.config.compose import compose
from omkl.experiment.federation import FederatedJob
from omkl.experiment.run import prepare
from omkl.federated.parties import Event
from omkl.federation import keys
from omkl.federation.coordinator import MODEL, reopen
from omkl.federation.data_owner import PREDICTIONS

HOST = "127.0.0.1"
TIMEOUT = 60.0  # seconds that the server waits for the replies of a round
# Words that say how the simulated federation gets its rows: here clients have theirs.
OF_THE_DATA = ("dataset", "federation", "stream", "seeds", "clients", "outputs")


class FederationResult(NamedTuple):
    """What came out of a federation of processes.

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
        raise ValueError("no federation is set: add federation=iid clients=K")
    return job


def difference(overrides: str, result: FederationResult) -> float:
    """The largest distance of its predictions from those of our own simulation.

    Missing replies do not count; NaN if all are missing.
    """
    job = job_of(overrides)
    n = len(result.y_hat)
    ours = job.federation(job.seeds[0]).partial_fit(job.split.X[:n], job.split.y[:n]).y_hat
    came = ~np.isnan(result.y_hat)
    return float(np.max(np.abs(result.y_hat - ours)[came])) if came.any() else float("nan")


class Trial:
    """One server and a client for each of K, as processes of their own on loopback.

    ``folder`` has ``data`` (a file a client), ``keys``, ``server`` and a folder a client.
    ``insecure``: without TLS and registered keys. Made by ``trial``, which ends all of them.
    """

    def __init__(
        self,
        overrides: str,
        folder: Path,
        n_rounds: int = 0,
        timeout: float = TIMEOUT,
        insecure: bool = False,
    ) -> None:
        job = job_of(overrides)
        self.folder, self.n_clients = folder, len(job.lengths)
        self.insecure = insecure
        self._port = free_port()
        words = [w for w in shlex.split(overrides) if not w.lstrip("+~").startswith(OF_THE_DATA)]
        self._words = [
            *words, f"clients={self.n_clients}", f"federation.rounds={job.lengths.max()}",
            f"inputs={job.n_inputs}", "target=y", "scaling=none", f"outputs={folder / 'outputs'}",
            f"timeout={timeout}", f"port={self._port}", "tracking=none",
            "insecure=true" if insecure else f"keys={folder / 'keys'}",
        ]  # fmt: skip
        if n_rounds:
            self._words.append(f"rounds={n_rounds}")
        for client in range(self.n_clients):
            _write_rows(self.data(client), *job.rows_of(client))
            keys.make_client_key(folder / "keys", _name(client))
        keys.make_certificates(folder / "keys", [HOST, "localhost"])
        self._clients: dict[int, subprocess.Popen[bytes]] = {}
        self._server: subprocess.Popen[bytes] | None = None

    def data(self, client: int) -> Path:
        """The file of a client."""
        return self.folder / "data" / f"{client}.csv"

    def of_client(self, client: int) -> Path:
        """The folder of a client."""
        return self.folder / _name(client)

    @property
    def of_server(self) -> Path:
        """The folder of the server."""
        return self.folder / "server"

    def start_server(self) -> None:
        """Start the server, or start it again."""
        self._server = self._start("server", "server", str(self.of_server), *self._words)

    def start(self, client: int, *more: str) -> None:
        """Start a client, or start it again; ``more`` are further arguments, the last counts."""
        secured = ["--insecure"] if self.insecure else []
        self._clients[client] = self._start(
            _name(client), "client", "--server", f"{HOST}:{self._port}", "--target", "y",
            "--data", str(self.data(client)), "--keys", str(self.folder / "keys"), "--name",
            _name(client), "--folder", str(self.of_client(client)), "--number", str(client),
            *secured, *more,
        )  # fmt: skip

    def kill(self, client: int) -> None:
        """Kill a client, as a power failure does."""
        _kill(self._clients.pop(client))

    def kill_server(self) -> None:
        """Kill the server, as a power failure does."""
        assert self._server is not None
        _kill(self._server)

    def learned(self, client: int) -> int:
        """The last round that a client has learned from; 0 before the first."""
        played = _predictions(self.of_client(client))
        return int(played[-1, 0]) if len(played) else 0

    def result(self, seconds: float) -> FederationResult:
        """What came out; RuntimeError, with the end of the logs, if nothing has in time."""
        end = time.monotonic() + seconds
        for process in (self._server, *self._clients.values()):
            assert process is not None
            try:
                code = process.wait(max(end - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                code = 1
            if code:
                raise RuntimeError(f"no result came.\n{_log_ends(self.folder)}")
        server = reopen(self.of_server)
        regret = server.measured().regret
        y_hat = np.full(regret.shape, np.nan)
        for client in range(self.n_clients):
            for t, _, predicted, _ in _predictions(self.of_client(client)):
                y_hat[int(t) - 1, client] = predicted
        y_hat[np.isnan(regret)] = np.nan
        theta = server.server.state.model.theta
        return FederationResult(y_hat, regret, theta, server.server.events, server.server.numbers)

    def models(self) -> list[Path]:
        """The models that were kept: that of the server first."""
        folders = [self.of_server, *map(self.of_client, range(self.n_clients))]
        return [folder / MODEL for folder in folders if (folder / MODEL).exists()]

    def stop(self) -> None:
        """End all processes."""
        for process in (self._server, *self._clients.values()):
            if process is not None:
                end(process)

    def _start(self, log: str, *arguments: str) -> subprocess.Popen[bytes]:
        paths = os.pathsep.join(filter(None, sys.path))
        environment = {**os.environ, "PYTHONPATH": paths, "no_proxy": HOST}
        with open(self.folder / f"{log}.log", "ab") as log_file:
            return subprocess.Popen(
                [sys.executable, "-m", "omkl.federation", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log_file,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )


@contextlib.contextmanager
def trial(
    overrides: str,
    folder: Path | None = None,
    n_rounds: int = 0,
    timeout: float = TIMEOUT,
    insecure: bool = False,
) -> Iterator[Trial]:
    """A server and its clients on this machine; ``folder`` keeps what they write."""
    with contextlib.ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        parties = Trial(overrides, folder.resolve(), n_rounds, timeout, insecure)
        stack.callback(parties.stop)
        parties.start_server()
        for client in range(parties.n_clients):
            parties.start(client)
        yield parties


def run_trial(
    overrides: str,
    n_rounds: int = 0,
    timeout: float = TIMEOUT,
    folder: Path | None = None,
    seconds: float = 1800.0,
    insecure: bool = False,
) -> FederationResult:
    """A server and its clients as processes of their own; a fraction of a second a round."""
    with trial(overrides, folder, n_rounds, timeout, insecure) as parties:
        return parties.result(seconds)


def _name(client: int) -> str:
    return f"client-{client}"


def _write_rows(path: Path, X: np.ndarray, y: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    header = ",".join([*(f"x{k}" for k in range(1, X.shape[1] + 1)), "y"])
    rows = np.column_stack([X, y]).tolist()
    path.write_text("\n".join([header, *(",".join(map(repr, row)) for row in rows)]) + "\n")


def _predictions(folder: Path) -> np.ndarray:
    """Round, row, y_hat and y of a client's rows so far, but for a line that is being written."""
    path = folder / PREDICTIONS
    lines = path.read_text().splitlines(keepends=True)[1:] if path.exists() else []
    whole = [line.split(",") for line in lines if line.endswith("\n")]
    return np.array(whole, dtype=float).reshape(-1, 4)


def free_port() -> int:
    """A port of this machine that nobody uses."""
    with socket.socket() as free:
        free.bind((HOST, 0))
        return int(free.getsockname()[1])


def _log_ends(folder: Path) -> str:
    ends = []
    for path in sorted(folder.glob("*.log")):
        lines = path.read_text(errors="replace").splitlines()[-15:]
        ends += [f"--- {path.name}", *lines]
    return "\n".join(ends)


def _kill(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process that we started, and the processes that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
