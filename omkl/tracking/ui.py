"""The user interface: the command that serves the view, its port and its end."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from omkl.runs.folder import folders
from omkl.tracking.database import (
    CURE,
    VIEW,
    VIEW_TAG,
    TrackingError,
    database_file,
    database_uri,
    elsewhere,
    moved_text,
    read_only,
    resolved,
    state_of,
)
from omkl.tracking.view import rebuild

GUARD = str(Path(__file__).with_name("guard.py"))


def ui_command(outputs: Path, port: int = 5000, host: str = "127.0.0.1") -> list[str]:
    """The command that serves the MLflow user interface for ``outputs``.

    One worker and no job queue: ready in 6 s with 0.5 GB instead of 20 s with 3 GB. Python looks
    for modules where it is installed alone, not in the folder that it is started in.
    """
    return [
        "env",
        "PYTHONSAFEPATH=1",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false",
        "MLFLOW_DISABLE_TELEMETRY=true",
        "MLFLOW_SQLALCHEMYSTORE_POOLCLASS=NullPool",  # see _client
        sys.executable,
        *("-m", "mlflow", "ui"),
        *("--backend-store-uri", database_uri(database_file(resolved(outputs)))),
        *("--host", host),
        *("--port", str(port)),
        *("--workers", "1"),
    ]


def ui(outputs: Path, port: int = 5000, host: str = "127.0.0.1") -> int:
    """Serve the MLflow user interface until Ctrl-C; returns its exit status (0 after Ctrl-C).

    Makes the view first when there are run folders and no database yet. Raises
    ``TrackingError`` when there is nothing to show, when the database is corrupt
    or belongs to another place, and when the port is taken.
    """
    outputs = resolved(outputs)
    database = database_file(outputs)
    state = state_of(database)
    if state == "broken":
        raise TrackingError(f"{database} is not a usable MLflow database: {CURE}")
    if state == "absent":
        if next(folders(outputs), None) is None:
            raise TrackingError(
                f"there is nothing to show in {outputs}: no {database.name} and no run folders "
                "below runs/. Run an experiment first (omkl-run), or name the outputs folder."
            )
        print(f"making the MLflow view of {outputs} from its run folders ...", flush=True)
        rebuild(outputs)
    elif moved := elsewhere(outputs):
        raise TrackingError(moved_text(outputs, moved))
    _check_port(host, port)
    print(_welcome(outputs, f"http://{f'[{host}]' if ':' in host else host}:{port}"), flush=True)
    status = _serve(ui_command(outputs, port, host))
    if status:
        print(f"MLflow ended with status {status}. If it names its tables or schema: {CURE}")
    return status


def _welcome(outputs: Path, address: str) -> str:
    """The address of each experiment's table: the home page is MLflow's for language models."""
    with contextlib.closing(read_only(database_file(outputs))) as connection:
        rows = connection.execute(
            "SELECT e.experiment_id, e.name, count(r.run_uuid), max(t.key IS NOT NULL)"
            " FROM experiments e"
            " LEFT JOIN runs r ON r.experiment_id = e.experiment_id"
            " AND r.lifecycle_stage = 'active'"
            " LEFT JOIN experiment_tags t ON t.experiment_id = e.experiment_id AND t.key = ?"
            " WHERE e.lifecycle_stage = 'active' GROUP BY e.experiment_id ORDER BY e.name",
            (VIEW_TAG,),
        ).fetchall()
    width = max((len(name) for _, name, _, _ in rows), default=0)
    lines = [f"MLflow is ready at {address} in a few seconds; Ctrl-C ends it."]
    for number, name, n_runs, has_view in rows:
        page = f"{address}/#/experiments/{number}/runs?workflowType=machine_learning"
        view = f"&viewStateShareKey={VIEW}" if has_view else ""
        noun = "run " if n_runs == 1 else "runs"
        lines.append(f"  {name:{width}}  {n_runs:4} {noun}  {page}{view}")
    return "\n".join(lines)


def _check_port(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET

    def free(candidate: int) -> bool:
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind((host, candidate))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    return False
                raise TrackingError(f"cannot listen on {host} port {candidate}: {error}") from error
        return True

    if not free(port):
        others = (other for other in range(port + 1, min(port + 100, 65536)) if free(other))
        raise TrackingError(
            f"port {port} on {host} is in use: choose another one, such as {next(others, 'none')}"
        )


def _serve(command: list[str]) -> int:
    """Run the server in a session of its own until it ends, we are asked to, or we are killed."""

    def stop(signum: int, frame: object) -> None:
        raise KeyboardInterrupt

    # Ctrl-C, `kill` and a closed terminal all end the server with its children.
    previous = {}
    with contextlib.suppress(ValueError):  # signals belong to the main thread
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
                previous[number] = signal.signal(number, stop)
    # The outputs folder may be a stranger's, and a server may import what lies beside it.
    with (
        tempfile.TemporaryDirectory(prefix="omkl-ui-") as empty,
        subprocess.Popen(
            [sys.executable, "-P", GUARD, *command],
            cwd=empty,
            stdin=subprocess.PIPE,
            start_new_session=True,
        ) as process,
    ):
        try:
            return process.wait()
        except KeyboardInterrupt:
            return 0
        finally:
            _end_group(process)
            if process.stdin is not None:
                process.stdin.close()
            for number, handler in previous.items():
                signal.signal(number, handler)


def _end_group(process: subprocess.Popen[bytes], seconds: float = 10.0) -> None:
    """End the process and everything it started, politely at first."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + seconds
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
            while time.monotonic() < deadline:
                process.poll()
                os.killpg(process.pid, 0)  # raises when nobody is left
                time.sleep(0.05)
