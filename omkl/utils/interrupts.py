"""Ctrl-C: the first ends what runs, tidily; a second ends the process at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

_came = False


def listen() -> None:
    """Raise KeyboardInterrupt at the first Ctrl-C; another ends the process where it is.

    If whoever started the process has it ignore Ctrl-C, as in the background, it stays ignored.
    """
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _take)


def _take(signum: int, frame: Any) -> None:
    # Remembered, since C code that imports or calls back swallows what a handler raises.
    global _came
    _came = True
    signal.signal(signum, signal.SIG_DFL)
    raise KeyboardInterrupt


def leave_threads(status: int, seconds: float = 3.0) -> None:
    """End now where threads are amid a long computation, for which Python would wait at its end."""
    end = time.monotonic() + seconds
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            thread.join(max(0.0, end - time.monotonic()))
            if thread.is_alive():
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)


def came() -> bool:
    """Whether the process was told to end."""
    return _came


def ending(progress: Callable[..., None] | None = None) -> Callable[..., None]:
    """What a job calls as it goes on: ``progress``, or KeyboardInterrupt where it is to end.

    So threads that compute end as well: the interpreter waits for them.
    """

    def called(*arguments: Any) -> None:
        if _came:
            raise KeyboardInterrupt
        if progress is not None:
            progress(*arguments)

    return called
