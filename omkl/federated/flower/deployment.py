"""A server and its clients as processes of their own, and apps for ``flwr run``."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from omkl.disk import write_atomically
from omkl.federated.flower.apps import TIMEOUT, Flown, compile_steps, job_of, read_checkpoint
from omkl.federated.flower.in_process import read_result

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

from omkl.federated.flower.apps import client_app, server_app

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
        checkpoint = read_checkpoint(self._kept / f"client-{client}.npz")
        return 0 if checkpoint is None else int(checkpoint["drawn"][0])

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
        compile_steps(job_of(overrides))
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


def _free_ports(n: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


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
