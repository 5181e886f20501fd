"""The view written by a process of its own, so that a run need not share its interpreter.

To import MLflow and to draw figures takes as long as the rounds of a run; in one process each
waits for the other.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import sys
import threading
from pathlib import Path
from typing import IO

from omkl import startup
from omkl.tracking import view
from omkl.tracking.database import CURE, TrackingError, database_file, import_mlflow


class Writer:
    """A process that imports MLflow at once, and writes one run into a view.

    It ends with the process that made it, after what it has begun to write.
    """

    def __init__(self) -> None:
        self._process = startup.beside("omkl.tracking.apart:serve")

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *error: object) -> None:
        """End the process, in the middle of whatever it makes ready."""
        self._process.kill()
        with contextlib.suppress(BrokenPipeError), self._process:
            pass

    def prepare(self, outputs: Path) -> None:
        """As ``view.prepare``, without waiting for it; before this nothing is touched."""
        with contextlib.suppress(BrokenPipeError):  # log_run tells it
            self._tell(outputs)

    def log_run(self, folder: Path, outputs: Path) -> str:
        """As ``view.log_run``, once, after ``prepare``."""
        return view.undisturbed(lambda: self._log_run(folder, outputs))

    def _log_run(self, folder: Path, outputs: Path) -> str:
        assert self._process.stdout is not None
        answer = ""
        with contextlib.suppress(BrokenPipeError):
            self._tell(folder)
            answer = self._process.stdout.readline()
        if not answer:
            status = self._process.wait()
            raise TrackingError(
                f"{database_file(outputs)} was not written: the process that writes it ended "
                f"with status {status}. To repair it, {CURE}"
            )
        said = json.loads(answer)
        if "problem" in said:
            raise TrackingError(said["problem"])
        return str(said["run"])

    def _tell(self, path: Path) -> None:
        print(json.dumps(str(path)), file=self._process.stdin, flush=True)


def serve() -> None:
    """Be the process of a ``Writer``: answer on standard output what came of its run."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever MLflow prints is no answer
    told: queue.SimpleQueue[Path] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(told,), daemon=True).start()
    # MLflow uses pandas where there is one; for what is written here it needs none.
    with contextlib.suppress(ImportError), startup.without("pandas"):  # log_run tells it
        import_mlflow()
    outputs = told.get()
    view.prepare(outputs)
    _answer(told.get(), outputs, answers)
    os._exit(0)


def _listen(told: queue.SimpleQueue[Path]) -> None:
    """Hand on outputs and folder; end the process where nobody is left who waits for it."""
    n = 0
    for line in sys.stdin:
        told.put(Path(json.loads(line)))
        n += 1
    if n < 2:
        os._exit(0)


def _answer(folder: Path, outputs: Path, answers: IO[str]) -> None:
    try:
        said = {"run": view.log_run(folder, outputs)}
    except TrackingError as error:
        said = {"problem": str(error)}
    print(json.dumps(said), file=answers, flush=True)
