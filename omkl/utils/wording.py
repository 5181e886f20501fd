"""How counts are said, of seeds and others, and texts that others wrote."""

from __future__ import annotations

import functools
import re
import sys

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
    r"""Text that a terminal shows and does not obey: an escape character is ``\x1b``."""
    return _COMMANDS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def warn(text: str) -> None:
    """A line on stderr."""
    print(f"omkl: {text}", file=sys.stderr, flush=True)


@functools.cache
def tell(text: str) -> None:
    """A line on stderr, once."""
    warn(text)


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
