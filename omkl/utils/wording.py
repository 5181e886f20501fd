"""Format counts, and sanitise untrusted text for the terminal."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterable

MOST_NAMED = 5  # in a message
UNEXPLAINED = (
    "Neither a setting nor the data are to blame: this is a bug of omkl, or of a module of your "
    "own that is named above. Please report it, with these lines, where you have omkl from."
)


# Control characters but line feed and tab, which a terminal may obey; marks that turn the direction
# of what follows; halves of a character, which cannot be encoded.
_COMMANDS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def plain(text: str) -> str:
    r"""Escape the characters that control a terminal: an escape character becomes ``\x1b``."""
    return _COMMANDS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def warn(text: object, program: str = "omkl") -> None:
    """Print a line of the program on stderr, with ``plain`` text."""
    print(plain(f"{program}: {text}"), file=sys.stderr, flush=True)


@functools.cache
def tell(text: str) -> None:
    """Print a line on stderr, once."""
    warn(text)


def few(names: Iterable[object]) -> str:
    """List at most five names, and count the others."""
    texts = [str(name) for name in names]
    more = f" and {len(texts) - MOST_NAMED:,} more" if len(texts) > MOST_NAMED else ""
    return ", ".join(texts[:MOST_NAMED]) + more


def cannot_use(error: OSError, otherwise: object = None) -> str:
    """Name the file or folder of an error, or else ``otherwise``, and the reason.

    Of a rename that was refused it is the new name: the old one is temporary.
    """
    name = error.filename2 or error.filename or otherwise
    return str(error) if name is None else f"cannot use {name}: {error.strerror}"


def pluralize(number: int, noun: str) -> str:
    """``1 row``, ``1,204 rows``: a number and a noun whose plural has an s, on its first word."""
    first, space, rest = noun.partition(" ")
    return f"{number:,} {first if number == 1 else first + 's'}{space}{rest}"


def time_left(elapsed: float, done: float, total: float) -> str:
    """How long the rest will take if it goes on as so far, as text; "" while nothing is done.

    Parameters
    ----------
    elapsed
        Seconds that what is done took.
    done, total
        In any unit, ``done`` at most ``total``.
    """
    if done <= 0 or total < done:
        return ""
    seconds = elapsed / done * (total - done)
    if seconds < 100:
        return f"{seconds:.0f} s left"
    return f"{seconds / 60:.0f} min left" if seconds < 6000 else f"{seconds / 3600:.1f} h left"


def over_seeds(n_seeds: int) -> str:
    """What a number is that was computed with so many seeds."""
    return f"mean ± std over {n_seeds} seeds" if n_seeds > 1 else "1 seed"
