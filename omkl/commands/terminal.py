"""Run commands: parser, output streams, environment, one line for each error, and exit status."""

from __future__ import annotations

import gc
import io
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omkl.utils import interrupts
from omkl.utils.version import __version__
from omkl.utils.wording import UNEXPLAINED, cannot_use, plain, warn

if TYPE_CHECKING:
    import argparse

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
VERSION, VERSION_TEXT = "--version", f"omkl {__version__}"
INTERRUPTED = "Interrupted. What is finished is kept; the same command goes on."
COUNTS = ("OMKL_THREADS", "NUMBA_NUM_THREADS")


class _Output(io.FileIO):
    """A file descriptor that takes text also after its reader has gone, or its disk is full.

    ``lost`` is the reason why a text was lost. It is "" if the reader has gone (``| head``).
    """

    lost = ""

    def write(self, data: Any) -> int:
        try:
            return super().write(data) or 0
        except BrokenPipeError:
            return len(data)
        except OSError as error:
            self.lost = str(error.strerror)
            return len(data)


def prepare() -> None:
    """Replace standard output and error by streams that last. Raise ValueError as below.

    Raises
    ------
    ValueError
        If the environment or the working directory lets no command work.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # the caller has closed it
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif type(stream) is io.TextIOWrapper:
            binary = io.BufferedWriter(_Output(stream.fileno(), "wb", closefd=False))
            lasting = io.TextIOWrapper(
                binary, stream.encoding, errors="replace",  # a terminal may lack letters such as ±
                line_buffering=stream.line_buffering or stream.write_through,
            )  # fmt: skip
            setattr(sys, name, lasting)
    _check_environment()


def write_data(pieces: Iterable[str]) -> None:
    """Write text to standard output, unchanged unless it is a terminal."""
    shown = plain if sys.stdout.isatty() else str
    for text in pieces:
        sys.stdout.write(shown(text))


def _check_environment() -> None:
    for name in COUNTS:
        if (text := os.environ.get(name)) and not (is_count(text) and int(text)):
            raise ValueError(f"{name}={text!r} is not a whole number of at least 1")
    try:
        Path.cwd()
    except FileNotFoundError:
        raise ValueError("the working directory has been removed: change to another") from None
    cache = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or "~"
    for cure, folder in (
        ("correct OMKL_DATA_DIR", os.environ.get("OMKL_DATA_DIR", "")),
        ("set HOME or XDG_CACHE_HOME", cache),
    ):
        try:
            Path(folder).expanduser()
        except RuntimeError:
            raise ValueError(f"{folder}: there is no such home folder; {cure}") from None


def parser(prog: str, description: str, epilog: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of a command. It answers ``--version`` and keeps the epilog's lines."""
    import argparse

    made = argparse.ArgumentParser(
        prog=prog, description=description, epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    made.add_argument(VERSION, action="version", version=VERSION_TEXT, help="omkl's version")
    return made


def add_command(
    commands: Any, name: str, act: Callable[[Any], int], text: str
) -> argparse.ArgumentParser:
    """Add a subcommand that calls ``act`` with the arguments. ``text`` describes it."""
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
    """Call ``act`` and return the exit status. Print an expected error as one line.

    Parameters
    ----------
    failures, mistakes
        Errors with exit status 1, and errors with exit status 2.
    output
        The file that an OSError without a file name concerns.
    """
    try:
        return act()
    except mistakes as error:
        warn(error.args[0] if isinstance(error, KeyError) else error, program)
        return EXIT_USAGE
    except failures as error:
        warn(error, program)
    except OSError as error:
        warn(cannot_use(error, output), program)
    return EXIT_FAILED


def is_count(text: str) -> bool:
    """Return whether the text is a whole number in ASCII digits."""
    return text.isascii() and text.isdecimal()


def command(program: str, main: Callable[[], int]) -> None:
    """Run a command and end the process with its exit status."""
    interrupts.listen()
    try:
        prepare()
    except ValueError as error:
        warn(error, program)
        sys.exit(EXIT_USAGE)
    try:
        code = main()
    except (KeyboardInterrupt, Exception) as error:
        # A library may have turned a KeyboardInterrupt into an error of its own.
        if isinstance(error, KeyboardInterrupt) or interrupts.came():
            print(f"\n{INTERRUPTED}", file=sys.stderr)
            interrupts.leave_threads(EXIT_INTERRUPTED)
            sys.exit(EXIT_INTERRUPTED)
        warn(f"{error}\n\n{traceback.format_exc()}\n{UNEXPLAINED}", program)
        code = EXIT_FAILED
    gc.freeze()  # saves a second: the interpreter does not search compiled code for garbage
    sys.stdout.flush()
    if lost := getattr(getattr(sys.stdout.buffer, "raw", None), "lost", ""):
        warn(f"output could not be written: {lost}", program)
        code = code or EXIT_FAILED
    sys.exit(code)
