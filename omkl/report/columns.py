"""Tables for a terminal: as many columns as fit, no word broken, and what is left out is said."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len

if TYPE_CHECKING:
    from rich.console import Console

KEPT = 100  # the worth of a column that is never left out
GAP = 2  # blanks between columns
ELLIPSIS = "…"
READABLE = 24  # characters that a name keeps while there are columns to leave out


class Column(NamedTuple):
    """A column of a table; a cell may have several lines.

    ``worth``     columns of the least are left out first, where there is no room
    ``shortest``  characters that its cells may be cut to; None: they stay whole
    """

    heading: str
    cells: Sequence[str]
    worth: int = KEPT
    right: bool = True
    shortest: int | None = None

    @property
    def width(self) -> int:
        return max(map(cell_len, "\n".join([self.heading, *self.cells]).split("\n")))


class Fitted(NamedTuple):
    """The columns that fit, and the headings of those that do not."""

    columns: list[Column]
    left_out: list[str]


def width_of(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + GAP * (len(columns) - 1)


def fit(columns: Sequence[Column], width: int) -> Fitted:
    """What of the columns fits into ``width`` characters.

    Long texts are shortened first, to ``READABLE`` characters; then columns are left out that
    are worth least; then texts are shortened further.
    """
    kept, left_out = _shortened(columns, width, READABLE), []
    while width_of(kept) > width and any(column.worth < KEPT for column in kept):
        least = min(range(len(kept)), key=lambda i: kept[i].worth)
        left_out.append(" ".join(kept[least].heading.split()))
        columns = [column for i, column in enumerate(columns) if i != least]
        kept = _shortened(columns, width, READABLE)
    return Fitted(_shortened(columns, width, 0), left_out)


def _shortened(columns: Sequence[Column], width: int, least: int) -> list[Column]:
    """The widest columns that may be cut are, until all fit or have ``least`` characters."""
    widths = [column.width for column in columns]
    excess = width_of(columns) - width
    floors = [w if c.shortest is None else max(c.shortest, least)
              for c, w in zip(columns, widths, strict=True)]  # fmt: skip
    while excess > 0 and (can := [i for i, w in enumerate(widths) if w > floors[i]]):
        widths[max(can, key=widths.__getitem__)] -= 1
        excess -= 1
    return [_cut(c, w) if w < c.width else c for c, w in zip(columns, widths, strict=True)]


def _cut(column: Column, width: int) -> Column:
    def cut(text: str) -> str:
        return "\n".join(shortened(line, width) for line in text.split("\n"))

    return column._replace(heading=cut(column.heading), cells=[cut(cell) for cell in column.cells])


def shortened(text: str, width: int) -> str:
    """Text of at most ``width`` characters: its beginning, an ellipsis and its end."""
    if len(text) <= width:
        return text
    tail = (width - 1) // 3
    return text[: width - 1 - tail] + ELLIPSIS + text[len(text) - tail :]


def lines(columns: Sequence[Column], ends: Container[int] = ()) -> list[list[str]]:
    """The heading and a rule, then each row, as lines; an empty line follows rows ``ends``."""
    found = [_lines_of([column.heading for column in columns], columns, bottom=True)]
    found[0].append((" " * GAP).join("─" * column.width for column in columns))
    n_rows = len(columns[0].cells)
    for place in range(n_rows):
        found.append(_lines_of([column.cells[place] for column in columns], columns))
        if place in ends and place + 1 < n_rows:
            found[-1].append("")
    return found


def _lines_of(cells: Sequence[str], columns: Sequence[Column], bottom: bool = False) -> list[str]:
    split = [cell.split("\n") for cell in cells]
    depth = max(map(len, split))
    blank = [[""] * (depth - len(cell)) for cell in split]
    split = [b + c if bottom else c + b for c, b in zip(split, blank, strict=True)]
    return [
        (" " * GAP)
        .join(_padded(cell[i], column) for cell, column in zip(split, columns, strict=True))
        .rstrip()
        for i in range(depth)
    ]


def _padded(text: str, column: Column) -> str:
    blanks = " " * (column.width - cell_len(text))
    return blanks + text if column.right else text + blanks


def show(
    columns: Sequence[Column],
    console: Console,
    ends: Container[int] = (),
    bold: Container[int] = (),
) -> None:
    """Print columns as wide as they are, rows ``bold`` so; an empty line follows rows ``ends``."""
    from rich.text import Text

    for place, row in enumerate(lines(columns, ends)):
        looks = "bold" if place - 1 in bold else ""
        for line in row:
            console.print(Text(line, style=looks), no_wrap=True, overflow="ignore", crop=False)


def left_out_text(left_out: Sequence[str]) -> str:
    """What says which columns are not shown and where they are; "" if all are."""
    if not left_out:
        return ""
    return (
        f"No room for: {', '.join(left_out)}. They are shown by a wider terminal, or by "
        "omkl-report show format=csv"
    )
