"""How counts are said."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """``1 row``, ``1,204 rows``: a number and a noun whose plural has an s, on its first word."""
    first, space, rest = noun.partition(" ")
    return f"{number:,} {first if number == 1 else first + 's'}{space}{rest}"
