"""A Ctrl-C, or the SIGTERM of a worker: the first ends what runs, tidily; a second ends at once."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

_came = False
_at_work = True


def listen(signum: signal.Signals = signal.SIGINT, at_work: bool = True) -> None:
    """Raise KeyboardInterrupt at the first such signal; another ends the process where it is.

    A process that is not ``at_work`` ends at the first. A signal that whoever started the process
    has it ignore, as in the background, stays ignored.
    """
    global _at_work
    _at_work = at_work
    if signal.getsignal(signum) is not signal.SIG_IGN:
        signal.signal(signum, _take)


@contextlib.contextmanager
def at_work() -> Iterator[None]:
    """Let what is under way tidy up where a SIGTERM comes; the process ends then."""
    global _at_work
    _at_work = True
    try:
        yield
    finally:
        _at_work = False
        if _came:
            _die(signal.SIGTERM)


def _take(signum: int, frame: Any) -> None:
    # Remembered, since C code that imports or calls back swallows what a handler raises.
    global _came
    _came = True
    if not _at_work:
        _die(signum)
    # Pools tell their workers to end more than once.
    signal.signal(signum, signal.SIG_DFL if signum == signal.SIGINT else signal.SIG_IGN)
    raise KeyboardInterrupt


def _die(signum: int) -> None:
    signal.signal(signum, signal.SIG_DFL)
    os.kill(os.getpid(), signum)


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
