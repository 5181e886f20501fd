"""Print tables on a terminal, and format them as Markdown."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from omkl.utils.wording import plain

if TYPE_CHECKING:
    from rich.console import Console

LEAST_NAME = 24  # width, in characters, of a wrapped column of names


class Column(NamedTuple):
    """Column of a table.

    heading   heading, with line breaks
    texts     cells
    is_name   whether the column is left-aligned and may be wrapped on a terminal
    worth     importance of the column. If the terminal is too narrow, columns are left out, the
              lowest number first. A column with None is always shown
    """

    heading: str
    texts: Sequence[str]
    is_name: bool = False
    worth: int | None = None

    @property
    def title(self) -> str:
        """Heading in one line."""
        return self.heading.replace(".\n", ".").replace("\n", " ")


def fits(columns: Sequence[Column], console: Console, limit: int | None = LEAST_NAME) -> bool:
    """Return whether a table fits on the console.

    Parameters
    ----------
    columns
        Columns of equal length.
    console
        Output, for its width.
    limit
        Number of characters after which a name is wrapped; None: names are not wrapped.
    """
    unlimited = console.options.update(width=10_000)
    table = _rich_table(columns, limit)
    return console.measure(table, options=unlimited).maximum <= console.width


def print_columns(
    columns: Sequence[Column],
    console: Console,
    bold: Sequence[bool] = (),
    ends: Collection[int] = (),
) -> list[str]:
    """Print a table, and return the headings of the columns that were left out.

    Parameters
    ----------
    columns
        Columns of equal length.
    console
        Output.
    bold
        Whether each row is bold; () for no bold row.
    ends
        Indices of rows after which a line is drawn.
    """
    columns, left_out = list(columns), []
    limit = None if fits(columns, console, None) else LEAST_NAME
    while not fits(columns, console, limit) and any(c.worth is not None for c in columns):
        least = min((c for c in columns if c.worth is not None), key=lambda c: c.worth or 0)
        columns.remove(least)
        left_out.append(least.title)
    print_plain(_rich_table(columns, limit, bold, ends), console)
    return left_out


def _rich_table(
    columns: Sequence[Column],
    limit: int | None,
    bold: Sequence[bool] = (),
    ends: Collection[int] = (),
) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style=""
    )
    for c in columns:
        table.add_column(
            Text(c.heading), justify="left" if c.is_name else "right", vertical="top",
            no_wrap=not c.is_name, overflow="fold", max_width=limit if c.is_name else None,
        )  # fmt: skip
    for number, texts in enumerate(zip(*(c.texts for c in columns), strict=True)):
        style = "bold" if number < len(bold) and bold[number] else ""
        cells = (Text(plain(text)) for text in texts)  # Text: brackets are not read as markup
        table.add_row(*cells, style=style, end_section=number in ends)
    return table


def print_plain(table: Any, console: Console) -> None:
    """Print a table without trailing spaces, for users who copy it."""
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        console.file.write(f"{line.rstrip()}\n")


def absent(value: Any) -> bool:
    """Return whether a cell of a frame is None or NaN."""
    return value is None or value != value


def padded_markdown(
    headings: Sequence[str], body: Sequence[Sequence[str]], left: Sequence[bool]
) -> str:
    columns = zip(headings, *body, strict=True)
    widths = [max(3, *map(len, column)) for column in columns]
    rule = [
        "-" * w if flush else "-" * (w - 1) + ":" for w, flush in zip(widths, left, strict=True)
    ]
    lines = [
        (text.ljust(w) if flush else text.rjust(w)
         for text, w, flush in zip(line, widths, left, strict=True))
        for line in (headings, rule, *body)
    ]  # fmt: skip
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
