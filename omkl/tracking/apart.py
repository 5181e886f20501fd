"""The view written by a process of its own, so that a run need not share its interpreter.

To import MLflow and to draw figures takes as long as the rounds of a run; in one process each
waits for the other.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from pathlib import Path
from typing import IO

from omkl import startup
from omkl.tracking import view
from omkl.tracking.database import CURE, TrackingError, database_file


class Writer:
    """A process that makes the view of ``outputs`` ready at once, and writes one run into it.

    It ends with the process that made it, after what it has begun to write.
    """

    def __init__(self, outputs: Path) -> None:
        self.outputs = outputs
        self._process = startup.beside("omkl.tracking.apart:serve", str(outputs))

    def log_run(self, folder: Path) -> str:
        """As ``view.log_run``, once."""
        return view.undisturbed(lambda: self._log_run(folder))

    def _log_run(self, folder: Path) -> str:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            print(json.dumps(str(folder)), file=self._process.stdin, flush=True)
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            status = self._process.wait()
            raise TrackingError(
                f"{database_file(self.outputs)} was not written: the process that writes it ended "
                f"with status {status}. To repair it, {CURE}"
            )
        said = json.loads(answer)
        if "problem" in said:
            raise TrackingError(said["problem"])
        return str(said["run"])

    def close(self) -> None:
        """End the process, in the middle of whatever it makes ready."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def serve() -> None:
    """Be the process of a ``Writer``: read a folder from standard input, answer what came of it."""
    outputs = Path(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever MLflow prints is no answer
    ready = threading.Thread(target=_make_ready, args=(outputs,), daemon=True)
    ready.start()
    line = sys.stdin.readline()
    if line:  # else there is nobody left who waits
        ready.join()
        _answer(Path(json.loads(line)), outputs, answers)
    os._exit(0)


def _make_ready(outputs: Path) -> None:
    """MLflow uses pandas where there is one; for what is written here it needs none."""
    with startup.without("pandas"):
        view.prepare(outputs)


def _answer(folder: Path, outputs: Path, answers: IO[str]) -> None:
    try:
        said = {"run": view.log_run(folder, outputs)}
    except TrackingError as error:
        said = {"problem": str(error)}
    print(json.dumps(said), file=answers, flush=True)
