"""What all commands share: output that may go away, surroundings that may be wrong, one ending."""

from __future__ import annotations

import gc
import io
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omkl.runs.wording import UNEXPLAINED, plain
from omkl.version import __version__

if TYPE_CHECKING:
    import argparse

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
VERSION = "--version"
COUNTS = ("OMKL_THREADS", "NUMBA_NUM_THREADS")


class Surroundings(ValueError):
    """The process was started somewhere, or with an environment, where it cannot work."""


class Lasting:
    """A text stream that goes on when nobody reads it any more, or its disk is full.

    What is written then is lost; ``reason`` says why, "" for a reader that has gone (``| head``).
    Names of others (columns, words, files, folders) are in much that is written: none of it is a
    command to the terminal. Rich writes its own commands to ``rich_proxied_file``.
    """

    reason: str | None = None

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.rich_proxied_file = _Unchanged(self)

    def write(self, text: str) -> int:
        self.write_unchanged(plain(text))
        return len(text)

    def write_unchanged(self, text: str) -> int:
        try:
            self._stream.write(text)
        except OSError as error:
            self._give_up(error)
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self.reason = "" if isinstance(error, BrokenPipeError) else str(error.strerror)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())  # what is buffered goes there too
        os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Unchanged:
    """The same stream for who writes commands to the terminal on purpose."""

    def __init__(self, stream: Lasting) -> None:
        self._stream = stream
        self.write = stream.write_unchanged

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def prepare() -> None:
    """Make standard output and error last; Surroundings where no command can work."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by whoever started us
            stream = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the end
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may lack letters such as ±
            stream = Lasting(stream)
        setattr(sys, name, stream)
    _check_surroundings()


def write_data(pieces: Iterable[str]) -> None:
    """Write text to standard output; not a letter is changed on its way to a file or a program."""
    stream: Any = sys.stdout
    if isinstance(stream, Lasting) and not stream.isatty():
        stream = stream.rich_proxied_file
    for text in pieces:
        stream.write(text)


def _check_surroundings() -> None:
    for name in COUNTS:
        if (given := os.environ.get(name)) and not (is_count(given) and int(given)):
            raise Surroundings(f"{name}={given!r} is not a whole number of at least 1")
    try:
        os.getcwd()
    except FileNotFoundError:
        raise Surroundings("the working directory has been removed: change to another") from None
    if own := os.environ.get("OMKL_DATA_DIR"):
        try:
            Path(own).expanduser()
        except RuntimeError:
            raise Surroundings(f"OMKL_DATA_DIR={own}: there is no such user") from None
    if not (os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")):
        try:
            Path.home()
        except RuntimeError:
            raise Surroundings("no home folder is known: set HOME or XDG_CACHE_HOME") from None


def version() -> str:
    """What every command answers to ``--version``."""
    return f"omkl {__version__}"


def add_version(parser: argparse.ArgumentParser) -> None:
    """Let a command answer to ``--version``."""
    parser.add_argument(VERSION, action="version", version=version(), help="omkl's version")


def is_count(text: str) -> bool:
    """Whether it is a whole number in plain digits."""
    return text.isascii() and text.isdecimal()


def unusable(error: OSError, otherwise: Path | None = None) -> str:
    """Which file or folder cannot be used, ``otherwise`` where the error names none, and why."""
    name = error.filename if error.filename is not None else otherwise
    return str(error) if name is None else f"cannot use {name}: {error.strerror}"


def command(program: str, main: Callable[[], int]) -> None:
    """Run a command and end the process with its exit status."""
    try:
        prepare()
        code = main()
    except Surroundings as error:
        print(f"{program}: {error}", file=sys.stderr)
        code = EXIT_USAGE
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    except Exception as error:
        print(f"{program}: {error}\n", file=sys.stderr)
        traceback.print_exc()
        print(f"\n{UNEXPLAINED}", file=sys.stderr)
        code = EXIT_FAILED
    sys.exit(ended(program, code))


def ended(program: str, code: int) -> int:
    """The exit status: 1 where output was lost on the way to a file."""
    gc.freeze()  # the interpreter, which ends now, need not look through compiled code: a second
    sys.stdout.flush()
    reason = getattr(sys.stdout, "reason", None)
    if reason:
        print(f"{program}: output could not be written: {reason}", file=sys.stderr)
        return code or EXIT_FAILED
    return code
