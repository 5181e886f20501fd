"""One table for all reports: printed on a terminal, and as Markdown, LaTeX and HTML.

A ``Table`` is lines of texts, numbers or ``Cell``; what else it has says how it looks.

    >>> table = Table(["learner", "MSE"], [["Raker", "12.50"], ["AMKL", "14.00"]])
    >>> print(table.markdown())
    | learner |   MSE |
    | ------- | ----: |
    | Raker   | 12.50 |
    | AMKL    | 14.00 |

What its users need of it:

- A sweep: bold cells are the star. On a terminal a table fits: ``worth`` says which columns are
  left out first, ``shortest`` how far names are cut. ``groups`` are the rows of a data set.
- The benchmark: texts, bold cells as ``Cell``.
- The papers: cells with a ``remark`` (the verdict) and footnote marks, headings with marks, one
  line a variant in ``groups`` of a row, a ``span`` over cells that are absent, ``kind`` as a class
  of HTML, numbered ``notes`` below. ``broken`` columns hold sentences.

``omkl.report.page`` puts tables, figures and texts on one page.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from omkl.report.naming import latex_text, markdown_text
from omkl.utils.wording import plain

if TYPE_CHECKING:
    import jinja2
    from rich.console import Console

KEPT = 100  # the worth of a column that is never left out
GAP = 2  # blanks between columns on a terminal
ELLIPSIS = "…"
READABLE = 24  # characters that a name keeps while there are columns to leave out


@dataclass(frozen=True)
class Cell:
    """A text of a table, in its body or a heading, and how it looks.

    Parameters
    ----------
    text
        What it says. On a terminal it may have several lines.
    bold
        The star: bold, and on a terminal also marked by ``*``.
    remark
        A second, smaller line; on a terminal it is left out.
    marks
        Numbers of the notes that it refers to.
    kind
        A class of HTML.
    span
        Columns that it takes up; the cells that it covers are not shown. Markdown has no such
        cells: there its text stands in the first.
    """

    text: str
    bold: bool = False
    remark: str = ""
    marks: tuple[int, ...] = ()
    kind: str = ""
    span: int = 1

    def __str__(self) -> str:
        return self.text


@dataclass
class Table:
    """Lines of cells and how they look.

    Parameters
    ----------
    headings, cells
        A heading per column, and the body, line by line. Each is a text, a number or a ``Cell``,
        which all become; None and NaN are blank.
    left
        The first so many columns are flush left, the others flush right.
    broken
        Positions of columns whose texts are sentences: flush left, in HTML broken into lines.
    groups
        Positions of rows after which a group ends: there is a blank line or a rule.
    kinds
        Classes of rows in HTML, by position.
    worth, shortest
        On a terminal, by position: columns worth least are left out where there is no room
        (without a number they stay), and texts are cut to so many characters (without, they
        are not).
    notes, remarks
        Printed below the table, numbered as ``Cell.marks`` says, and without a number.
    name
        What anchors of the notes begin with in HTML.
    """

    headings: Sequence[Any]
    cells: Any
    left: int = 1
    broken: Collection[int] = ()
    groups: Collection[int] = ()
    kinds: Mapping[int, str] = field(default_factory=dict)
    worth: Mapping[int, int] = field(default_factory=dict)
    shortest: Mapping[int, int] = field(default_factory=dict)
    notes: Sequence[str] = ()
    remarks: Sequence[str] = ()
    name: str = "table"

    def __post_init__(self) -> None:
        self.headings = [*map(_cell, self.headings)]
        self.cells = [[*map(_cell, line)] for line in self.cells]

    def is_left(self, column: int) -> bool:
        return column < self.left or column in self.broken

    def shown(self, line: Sequence[Cell]) -> list[tuple[int, Cell]]:
        """Cells of a line that no span covers, and the positions of their columns."""
        cells, place = [], 0
        for cell in _shown(line):
            cells.append((place, cell))
            place += cell.span
        return cells

    def classes(self, cell: Cell, column: int) -> str:
        """Classes of a cell in HTML: its kind, its star, and how its column is aligned."""
        side = "words" if column in self.broken else "name" if column < self.left else ""
        return " ".join(filter(None, [cell.kind, "best" if cell.bold else "", side]))

    def row_classes(self, row: int) -> str:
        last = row in self.groups or row + 1 == len(self.cells)
        return " ".join(filter(None, [self.kinds.get(row, ""), "last" if last else ""]))

    def markdown(self) -> str:
        """The table padded for reading, below it remarks and notes, if there are any."""
        every = (self.headings, *self.cells)
        lines = [[_markdown_cell(cell) for cell in _shown(line, blank=True)] for line in every]
        parts = [_padded_markdown(lines, [self.is_left(i) for i in range(len(lines[0]))])]
        parts += map(markdown_text, self.remarks)
        if self.notes:
            numbered = enumerate(map(markdown_text, self.notes), start=1)
            parts.append("\n".join(f"{number}. {note}" for number, note in numbered))
        return "\n\n".join(parts)

    def latex(self) -> str:
        """A ``tabular``, which needs the package booktabs; a remark has a line of its own."""
        columns = "".join("l" if self.is_left(i) else "r" for i in range(len(self.headings)))
        lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
        lines += [_latex_line(self.headings), r"\midrule"]
        for number, line in enumerate(self.cells):
            lines.append(_latex_line(line))
            if any(cell.remark for cell in line):
                lines.append(_latex_line([Cell(cell.remark) for cell in line], r"\emph"))
            if number in self.groups and number + 1 < len(self.cells):
                lines.append(r"\addlinespace")
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])

    def html(self) -> str:
        """The table as a part of a page; ``omkl.report.page`` has its style."""
        return templates().get_template("table.html").render(table=self)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return self.html()

    def print(self, console: Console) -> list[str]:
        """Print what fits the terminal; returns the headings of the columns that do not."""
        from rich.text import Text

        def show(line: str, looks: str = "") -> None:
            console.print(Text(line, style=looks), no_wrap=True, overflow="ignore", crop=False)

        fitted, left_out = self.fit(console.width)
        for line in fitted._lines([heading.text for heading in fitted.headings], bottom=True):
            show(line)
        show((" " * GAP).join("─" * width for width in fitted._widths))
        for number, cells in enumerate(fitted.cells):
            texts = [_marked(c) if i in fitted._marked else c.text for i, c in enumerate(cells)]
            for line in fitted._lines(texts):
                show(line, "bold" if any(cell.bold for cell in cells) else "")
            if number in fitted.groups and number + 1 < len(fitted.cells):
                show("")
        return left_out

    def _lines(self, texts: Sequence[str], bottom: bool = False) -> Iterator[str]:
        """The lines of a row, each column as wide as it is."""
        split = [text.split("\n") for text in texts]
        depth = max(map(len, split))
        for k in range(depth):
            parts = []
            for column, (lines, width) in enumerate(zip(split, self._widths, strict=True)):
                place = k - (depth - len(lines) if bottom else 0)
                text = lines[place] if 0 <= place < len(lines) else ""
                blanks = " " * (width - cell_len(text))
                parts.append(text + blanks if self.is_left(column) else blanks + text)
            yield (" " * GAP).join(parts).rstrip()

    @functools.cached_property
    def _marked(self) -> set[int]:
        """Columns with a star."""
        return {i for line in self.cells for i, cell in enumerate(line) if cell.bold}

    @functools.cached_property
    def _widths(self) -> list[int]:
        by_column = zip(self.headings, *self.cells, strict=True)
        return [
            max(
                max(map(cell_len, heading.text.split("\n"))),
                *(cell_len(line) + GAP * (i in self._marked)
                  for cell in cells for line in cell.text.split("\n")), 0,
            )
            for i, (heading, *cells) in enumerate(by_column)
        ]  # fmt: skip

    @property
    def width(self) -> int:
        """In characters on a terminal."""
        return sum(self._widths) + GAP * (len(self._widths) - 1)

    def fit(self, width: int) -> tuple[Table, list[str]]:
        """What of the table fits into ``width`` characters, and headings of what does not.

        Long texts are shortened first, to ``READABLE`` characters; then columns are left out that
        are worth least; then texts are shortened further.
        """
        table, left_out = self, []
        while table._shortened(width, READABLE).width > width and table.worth:
            least = min(table.worth, key=lambda place: table.worth[place])
            left_out.append(" ".join(table.headings[least].text.split()))
            every = range(len(table.headings))
            table = table.take([place for place in every if place != least])
        return table._shortened(width, 0), left_out

    def take(self, columns: Sequence[int]) -> Table:
        """The table with these columns, by position."""

        def moved(looks: Mapping[int, int]) -> dict[int, int]:
            return {i: looks[column] for i, column in enumerate(columns) if column in looks}

        return replace(
            self, headings=[self.headings[i] for i in columns],
            cells=[[line[i] for i in columns] for line in self.cells], worth=moved(self.worth),
            shortest=moved(self.shortest), left=sum(column < self.left for column in columns),
            broken={i for i, column in enumerate(columns) if column in self.broken},
        )  # fmt: skip

    def _shortened(self, width: int, least: int) -> Table:
        """Cut the widest of the columns that may be cut, until all fit or have ``least``."""
        widths, excess = list(self._widths), self.width - width
        floors = {i: max(shortest, least) for i, shortest in self.shortest.items()}
        while excess > 0 and (can := [i for i, floor in floors.items() if widths[i] > floor]):
            widths[max(can, key=widths.__getitem__)] -= 1
            excess -= 1
        cut = {i for i, now in enumerate(widths) if now < self._widths[i]}
        if not cut:
            return self

        def line(cells: Sequence[Cell]) -> list[Cell]:
            return [_cut(c, widths[i]) if i in cut else c for i, c in enumerate(cells)]

        return replace(self, headings=line(self.headings), cells=map(line, self.cells))


def left_out_text(left_out: Sequence[str]) -> str:
    """What says which columns are not shown and where they are; "" if all are."""
    if not left_out:
        return ""
    columns = ", ".join(left_out)
    return f"Hidden columns: {columns} (widen the terminal, or omkl-report show format=csv)"


def markdown_table(headings: Sequence[Any], body: Iterable[Sequence[Any]], left: int = 1) -> str:
    """A Markdown table of these lines, its first ``left`` columns flush left."""
    return Table(headings, body, left).markdown()


def shortened(text: str, width: int) -> str:
    """Text of at most ``width`` characters: its beginning, an ellipsis and its end."""
    if len(text) <= width:
        return text
    tail = (width - 1) // 3
    return text[: width - 1 - tail] + ELLIPSIS + text[len(text) - tail :]


@functools.cache
def templates() -> jinja2.Environment:
    """The templates of this folder; whatever they are given is escaped."""
    import jinja2

    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    return jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip


def _cell(value: Any) -> Cell:
    if isinstance(value, Cell):
        return value
    return Cell("" if value is None or value != value else plain(str(value)))  # NaN


def _cut(cell: Cell, width: int) -> Cell:
    lines = (shortened(line, width) for line in cell.text.split("\n"))
    return replace(cell, text="\n".join(lines))


def _marked(cell: Cell) -> str:
    """The text with the star's place beside it."""
    return f"{cell.text} {'*' if cell.bold else ' '}"


def _shown(cells: Sequence[Cell], blank: bool = False) -> list[Cell]:
    """A line without the cells that a span covers; with ``blank`` these are blank."""
    shown, end = [], 0
    for place, cell in enumerate(cells):
        if place >= end:
            shown.append(cell)
            end = place + cell.span
        elif blank:
            shown.append(Cell(""))
    return shown


def _padded_markdown(lines: Sequence[Sequence[str]], left: Sequence[bool]) -> str:
    """A table of Markdown: headings, then the body; ``left`` says which columns are flush left."""
    widths = [max(3, *(len(line[i]) for line in lines)) for i in range(len(lines[0]))]

    def joined(line: Sequence[str]) -> str:
        padded = [
            text.ljust(width) if flush else text.rjust(width)
            for text, width, flush in zip(line, widths, left, strict=True)
        ]
        return f"| {' | '.join(padded)} |"

    rule = [
        "-" * w if flush else "-" * (w - 1) + ":" for w, flush in zip(widths, left, strict=True)
    ]
    return "\n".join([joined(lines[0]), joined(rule), *(joined(line) for line in lines[1:])])


def _markdown_cell(cell: Cell) -> str:
    text = markdown_text(cell.text)
    text = f"**{text}**" if cell.bold and text else text
    remark = f"<br>{markdown_text(cell.remark)}" if cell.remark else ""
    marks = f" <sup>{','.join(map(str, cell.marks))}</sup>" if cell.marks else ""
    return f"{text}{remark}{marks}"


def _latex_line(cells: Sequence[Cell], command: str = "") -> str:
    parts = []
    for cell in _shown(cells):
        text = latex_text(cell.text)
        text = rf"\textbf{{{text}}}" if cell.bold and text else text
        text = f"{command}{{{text}}}" if command and text else text
        text += f"$^{{{','.join(map(str, cell.marks))}}}$" if cell.marks else ""
        parts.append(rf"\multicolumn{{{cell.span}}}{{c}}{{{text}}}" if cell.span > 1 else text)
    return " & ".join(parts) + r" \\"
