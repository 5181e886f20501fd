"""Format counts and messages, and sanitise untrusted text for the terminal."""

from __future__ import annotations

import functools
import re
import shlex
import sys
from collections.abc import Iterable

MOST_NAMED = 5  # names in a message
UNEXPLAINED = (
    "Neither a setting nor the data are to blame: this is a bug of omkl, or of a module of your "
    "own that is named above. Please report it, with these lines, where you have omkl from."
)


# Control characters except line feed and tab, marks of writing direction, and surrogates, which
# have no encoding.
_COMMANDS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def plain(text: str) -> str:
    r"""Escape the characters that control a terminal: ``\x1b`` replaces the character ESC."""
    return _COMMANDS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def warn(text: object, program: str = "omkl") -> None:
    """Print ``program: text`` on stderr, without control characters (``plain``)."""
    print(plain(f"{program}: {text}"), file=sys.stderr, flush=True)


@functools.cache
def tell(text: str) -> None:
    """Print a text on stderr. Further calls with the same text print nothing."""
    warn(text)


def few(names: Iterable[object]) -> str:
    """Return at most five names and the number of the others."""
    texts = [str(name) for name in names]
    more = f" and {len(texts) - MOST_NAMED:,} more" if len(texts) > MOST_NAMED else ""
    return ", ".join(texts[:MOST_NAMED]) + more


def cannot_use(error: OSError, otherwise: object = None) -> str:
    """Return the message of an OSError with the name of its file or, if it has none, ``otherwise``.

    For a failed rename the message has the new name, because the old one is temporary.
    """
    name = error.filename2 or error.filename or otherwise
    return str(error) if name is None else f"cannot use {name}: {error.strerror}"


def pluralize(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 row``, ``1,204 rows``. Only the first word gets an s."""
    first, space, rest = noun.partition(" ")
    return f"{number:,} {first if number == 1 else first + 's'}{space}{rest}"


def time_left(elapsed: float, done: float, total: float) -> str:
    """Return the remaining time at the speed so far, as text, or "" if nothing is done yet.

    Parameters
    ----------
    elapsed
        Seconds so far.
    done, total
        Amounts in the same unit, ``done`` at most ``total``.
    """
    if done <= 0 or total < done:
        return ""
    seconds = elapsed / done * (total - done)
    if seconds < 100:
        return f"{seconds:.0f} s left"
    return f"{seconds / 60:.0f} min left" if seconds < 6000 else f"{seconds / 3600:.1f} h left"


def over_seeds(n_seeds: int) -> str:
    """Return the text that explains a number in a table: "mean ± std over 5 seeds", or "1 seed"."""
    return f"mean ± std over {n_seeds} seeds" if n_seeds > 1 else "1 seed"


def how_to_install(extra: str) -> str:
    """Return the command that installs the libraries of an extra of omkl.

    Parameters
    ----------
    extra
        A name of ``[project.optional-dependencies]`` in pyproject.toml, such as ``"mlflow"``.
    """
    from importlib.metadata import PackageNotFoundError, requires  # rarely needed

    try:
        wanted = [text for text in requires("omkl") or () if f"extra == '{extra}'" in text]
    except PackageNotFoundError:  # a checkout on PYTHONPATH
        wanted = []
    named = [text.partition(";")[0] for text in wanted] or [f".[{extra}]"]
    return f"pip install {' '.join(map(shlex.quote, named))}"
