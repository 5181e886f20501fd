"""MLflow's user interface on the view, until Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from omkl import disk
from omkl.runs.run_folder import folders
from omkl.tracking import view
from omkl.tracking.view import CURE, VIEW, TrackingError


def ui_command(outputs: Path, port: int = 5000, host: str = "127.0.0.1") -> list[str]:
    """The command that serves the MLflow user interface for ``outputs``.

    One worker and no job queue: ready in 6 s with 0.5 GB instead of 20 s with 3 GB. Python looks
    for modules where it is installed, not in the folder that it is started in.
    """
    return [
        "env",
        "PYTHONSAFEPATH=1",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false",
        "MLFLOW_DISABLE_TELEMETRY=true",
        "MLFLOW_SQLALCHEMYSTORE_POOLCLASS=NullPool",  # a view that is made anew is seen
        sys.executable,
        *("-m", "mlflow", "ui"),
        *("--backend-store-uri", view.database_uri(view.database_file(view.checked(outputs)))),
        *("--host", host),
        *("--port", str(port)),
        *("--workers", "1"),
    ]


def ui(outputs: Path, port: int = 5000, host: str = "127.0.0.1") -> int:
    """Serve the MLflow user interface until Ctrl-C.

    Makes the view first where there are run folders and no database.

    Returns
    -------
    int
        The server's exit status, 0 after Ctrl-C.

    Raises
    ------
    TrackingError
        Where there is nothing to show, the database cannot be used or belongs to another place, or
        the port is taken.
    """
    outputs = view.checked(outputs)
    database = view.database_file(outputs)
    if not database.exists():
        if next(folders(outputs), None) is None:
            raise TrackingError(
                f"there is nothing to show in {outputs}: no {database.name} and no run folders "
                "below runs/. Run an experiment first (omkl-run), or name the outputs folder."
            )
        print(f"making the MLflow view of {outputs} from its run folders ...", flush=True)
        view.rebuild(outputs)
    shown = view.experiments(outputs)
    _check_port(host, port)
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    print(f"MLflow is ready at {address} in a few seconds; Ctrl-C ends it.")
    # The address of each experiment's table: the home page is MLflow's for language models.
    width = max((len(name) for _, name in shown), default=0)
    for number, name in shown:
        page = f"{address}/#/experiments/{number}/runs?workflowType=machine_learning"
        print(f"  {name:{width}}  {page}&viewStateShareKey={VIEW}")
    sys.stdout.flush()
    status = _serve(ui_command(outputs, port, host))
    if status:
        print(f"MLflow ended with status {status}. If it names its tables or schema: {CURE}")
    return status


def _check_port(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host, port))
        except OSError as error:
            raise TrackingError(
                f"cannot listen on {host} port {port} ({error.strerror}): choose another port, "
                f"such as --port {port + 1}"
            ) from error


def _serve(command: list[str]) -> int:
    """Run the server until it ends, or a signal ends it and all that it has started."""
    # The outputs folder may be a stranger's, and a server may import what lies beside it.
    with disk.temporary_folder() as empty, _signals_as_ctrl_c():
        server = subprocess.Popen(
            command, cwd=empty, stdin=subprocess.DEVNULL, start_new_session=True
        )
        try:
            return server.wait()
        except KeyboardInterrupt:
            return 0
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGTERM)
            try:
                server.wait(10.0)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)
                server.wait()


@contextlib.contextmanager
def _signals_as_ctrl_c() -> Iterator[None]:
    """A ``kill`` and a closed terminal end the server as Ctrl-C does."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        if before[number] is not signal.SIG_IGN:  # nohup
            signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
