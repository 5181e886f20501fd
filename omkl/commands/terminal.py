"""What all commands share: parsers, output that may go away, a wrong environment, one ending."""

from __future__ import annotations

import gc
import io
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omkl.utils.version import __version__
from omkl.utils.wording import UNEXPLAINED, plain

if TYPE_CHECKING:
    import argparse

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
VERSION = "--version"
INTERRUPTED = "\nInterrupted. What is finished is kept; the same command goes on."
COUNTS = ("OMKL_THREADS", "NUMBA_NUM_THREADS")


class EnvironmentProblem(ValueError):
    """The process was started somewhere, or with an environment, where it cannot work."""


class SafeStream:
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

    def __init__(self, stream: SafeStream) -> None:
        self._stream = stream
        self.write = stream.write_unchanged

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def prepare() -> None:
    """Make standard output and error last; EnvironmentProblem where no command can work."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by whoever started us
            stream = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the end
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may lack letters such as ±
            stream = SafeStream(stream)
        setattr(sys, name, stream)
    _check_environment()


def write_data(pieces: Iterable[str]) -> None:
    """Write text to standard output; not a letter is changed on its way to a file or a program."""
    stream: Any = sys.stdout
    if isinstance(stream, SafeStream) and not stream.isatty():
        stream = stream.rich_proxied_file
    for text in pieces:
        stream.write(text)


def _check_environment() -> None:
    for name in COUNTS:
        if (text := os.environ.get(name)) and not (is_count(text) and int(text)):
            raise EnvironmentProblem(f"{name}={text!r} is not a whole number of at least 1")
    try:
        os.getcwd()
    except FileNotFoundError:
        raise EnvironmentProblem(
            "the working directory has been removed: change to another"
        ) from None
    if folder := os.environ.get("OMKL_DATA_DIR"):
        try:
            Path(folder).expanduser()
        except RuntimeError:
            raise EnvironmentProblem(f"OMKL_DATA_DIR={folder}: there is no such user") from None
    if not (os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")):
        try:
            Path.home()
        except RuntimeError:
            raise EnvironmentProblem(
                "no home folder is known: set HOME or XDG_CACHE_HOME"
            ) from None


def version() -> str:
    """What every command answers to ``--version``."""
    return f"omkl {__version__}"


def parser(prog: str, description: str, epilog: str | None = None) -> argparse.ArgumentParser:
    """The parser of a command, which answers to ``--version``; its epilog keeps its lines."""
    import argparse

    made = argparse.ArgumentParser(
        prog=prog, description=description, epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    made.add_argument(VERSION, action="version", version=version(), help="omkl's version")
    return made


def add_command(
    commands: Any, name: str, act: Callable[[Any], int], text: str
) -> argparse.ArgumentParser:
    """Add a command of a command: what ``act`` does with the arguments, in words."""
    made: argparse.ArgumentParser = commands.add_parser(
        name, help=text, description=f"{text[0].upper()}{text[1:]}."
    )
    made.set_defaults(act=act)
    return made


Errors = tuple[type[BaseException], ...]


def exit_status(
    program: str,
    act: Callable[[], int],
    failures: Errors = (ValueError,),
    mistakes: Errors = (),
    output: Path | None = None,
) -> int:
    """The exit status of ``act``; a line on stderr for an error that says all.

    Parameters
    ----------
    failures, mistakes
        The errors after which it is 1, and those after which it is 2.
    output
        The file that an OSError without a name is about.
    """
    try:
        return act()
    except KeyboardInterrupt:
        print(INTERRUPTED, file=sys.stderr)
        return EXIT_INTERRUPTED
    except mistakes as error:
        text = error.args[0] if isinstance(error, KeyError) else error  # not the repr of its text
        print(f"{program}: {text}", file=sys.stderr)
        return EXIT_USAGE
    except failures as error:
        print(f"{program}: {error}", file=sys.stderr)
    except OSError as error:
        print(f"{program}: {unusable(error, output)}", file=sys.stderr)
    return EXIT_FAILED


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
    except EnvironmentProblem as error:
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
