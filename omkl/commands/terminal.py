"""Run commands: define parsers, output streams, Ctrl-C, error messages and the exit status."""

from __future__ import annotations

import gc
import io
import signal
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omkl.utils import __version__
from omkl.utils.wording import UNEXPLAINED, cannot_use, plain, warn

if TYPE_CHECKING:
    import argparse

EXIT_FAILED = 1
EXIT_USAGE = 2
VERSION, VERSION_TEXT = "--version", f"omkl {__version__}"
INTERRUPTED = "Interrupted. Finished runs are kept. The same command continues."


class _Output(io.FileIO):
    """File descriptor that ignores what is written after its reader has ended (``| head``)."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data) or 0
        except BrokenPipeError:
            return len(data)


def _lasting(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    """Return a text stream that raises no error for unsupported letters or a closed pipe."""
    binary = io.BufferedWriter(_Output(stream.fileno(), "wb", closefd=False))
    at_once = stream.line_buffering or stream.write_through
    return io.TextIOWrapper(binary, stream.encoding, errors="replace", line_buffering=at_once)


def write_data(pieces: Iterable[str]) -> None:
    """Write text to standard output. On a terminal control characters are escaped."""
    shown = plain if sys.stdout.isatty() else str
    for text in pieces:
        sys.stdout.write(shown(text))


def parser(prog: str, description: str, epilog: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of a command, with the option ``--version``.

    Parameters
    ----------
    prog
        Name of the command.
    description, epilog
        Texts before and after the options. Line breaks in the epilog do not change.
    """
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
    """Add a subcommand, and return its parser.

    Parameters
    ----------
    commands
        Subparsers of the command.
    name
        Name of the subcommand.
    act
        Function of the parsed arguments that returns the exit status.
    text
        Description, which begins with a lower-case letter.
    """
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
    """Call ``act``, and return the exit status. The message of an expected error is printed.

    Parameters
    ----------
    program
        Name of the command.
    act
        Function that returns the exit status.
    failures, mistakes
        Errors with exit status 1, and errors with exit status 2.
    output
        File to name in the message of an OSError that names no file.
    """
    try:
        return act()
    except mistakes as error:
        warn(error, program)
        return EXIT_USAGE
    except failures as error:
        warn(error, program)
    except OSError as error:
        warn(cannot_use(error, output), program)
    return EXIT_FAILED


def _interrupt(signum: int, frame: Any) -> None:
    """Raise KeyboardInterrupt, and let a second Ctrl-C end the process at once."""
    signal.signal(signum, signal.SIG_DFL)
    raise KeyboardInterrupt


def command(program: str, main: Callable[[], int]) -> None:
    """Run a command and end the process with its exit status."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # a background process ignores it
        signal.signal(signal.SIGINT, _interrupt)
    for name in ("stdout", "stderr"):
        if type(stream := getattr(sys, name)) is io.TextIOWrapper:
            setattr(sys, name, _lasting(stream))
    try:
        code = main()
        print(end="", flush=True)
    except OSError as error:  # standard output is a file on a full disk
        warn(f"output could not be written: {error.strerror}", program)
        code = EXIT_FAILED
    except (KeyboardInterrupt, Exception) as error:
        # A library may have turned a KeyboardInterrupt into an error of its own.
        if (
            isinstance(error, KeyboardInterrupt)
            or signal.getsignal(signal.SIGINT) is signal.SIG_DFL
        ):
            print(f"\n{INTERRUPTED}", file=sys.stderr, flush=True)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.raise_signal(signal.SIGINT)  # sys.exit would wait for running threads
        warn(f"{error}\n\n{traceback.format_exc()}\n{UNEXPLAINED}", program)
        code = EXIT_FAILED
    gc.freeze()  # the end of Python is a second faster: it does not search compiled code
    sys.exit(code)
