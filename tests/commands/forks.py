"""``omkl-run`` in forks of one process that has imported what it needs: a third of the time.

A fork has its own working directory, environment, streams and end, as a process that was started.
What a start itself does is tested where ``omkl_run`` of ``test_cli`` is told ``start=True``.
"""

import atexit
import functools
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

MODULES = (
    *("hydra", "pyarrow.parquet", "rich.progress", "rich.table", "scipy.linalg"),
    *("omkl.commands.run", "omkl.commands.sweep", "omkl.experiment.viewers"),
    *("omkl.experiment.regression", "omkl.report.console", "omkl.report.sweep_table"),
)
Ended = subprocess.CompletedProcess[str]


def omkl_run(
    arguments: Sequence[str], folder: Path, environment: dict[str, str], patience: float
) -> Ended:
    """Run it in a fork; what takes longer than ``patience`` seconds ends by SIGALRM."""
    with tempfile.TemporaryDirectory() as place:
        out, err = Path(place, "out"), Path(place, "err")
        request = {
            "arguments": list(arguments), "folder": str(folder), "environment": environment,
            "patience": patience, "out": str(out), "err": str(err),
        }  # fmt: skip
        parent = _parent()
        assert parent.stdin is not None and parent.stdout is not None
        print(json.dumps(request), file=parent.stdin, flush=True)
        status = int(parent.stdout.readline())
        return Ended(arguments, status, out.read_text("utf-8"), err.read_text("utf-8"))


@functools.cache
def _parent() -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        # Threads that wait in linear algebra would not be there in a fork.
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    atexit.register(process.communicate)  # it ends when nothing more can be asked for
    return process


def _serve() -> None:
    _import_what_runs_need()
    gc.freeze()  # forks need not look at what is imported, which would copy it
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        child = os.fork()
        if not child:
            return _run(**json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)


def _import_what_runs_need() -> None:
    for name in MODULES:
        importlib.import_module(name)
    from omkl.checks.learners import Case, stream

    for name in ("gf", "raker"):  # Numba imports half of itself when it loads compiled code
        Case(name).learner().partial_fit(*stream(2))


def _run(
    arguments: list[str], folder: str, environment: dict[str, str], patience: float,
    out: str, err: str,
) -> None:  # fmt: skip
    from omkl.commands import omkl_run

    signal.alarm(int(patience))
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, path in enumerate((os.devnull, out, err)):
        file = os.open(path, os.O_RDWR | os.O_CREAT)
        os.dup2(file, number)
        os.close(file)
    sys.argv = ["omkl-run", *arguments]
    omkl_run()


if __name__ == "__main__":
    _serve()
