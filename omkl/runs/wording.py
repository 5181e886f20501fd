"""How counts are said, of seeds and others."""

from __future__ import annotations

UNEXPLAINED = (
    "Neither a setting nor the data are to blame: this is a bug of omkl, or of a module of your "
    "own that is named above. Please report it, with these lines, where you have omkl from."
)


def counted(number: int, noun: str) -> str:
    """``1 row``, ``1,204 rows``: a number and a noun whose plural has an s, on its first word."""
    first, space, rest = noun.partition(" ")
    return f"{number:,} {first if number == 1 else first + 's'}{space}{rest}"


def over_seeds(n_seeds: int) -> str:
    """What a number is that was computed with so many seeds."""
    return f"mean ± std over {n_seeds} seeds" if n_seeds > 1 else "1 seed"
