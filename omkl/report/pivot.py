"""A table of errors with what one likes as its rows and columns: algorithms over data sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from omkl.report import columns, stars, style
from omkl.report.chosen import place
from omkl.report.columns import Column
from omkl.report.sweep_columns import (
    Row,
    heading,
    is_baseline,
    loss_text,
    name_text,
    setting_names,
    short_names,
)
from omkl.report.text import csv_text, latex_table, markdown_table

ABSENT = "-"
NAMED = ("algorithm", "dataset")


class Pivot(NamedTuple):
    """Errors by row and column: ``cells`` (rows, columns), None where there is no run.

    ``what`` is the error and its unit, ``star`` what the star says.
    """

    what: str
    star: str
    named: str
    rows: list[str]
    columns: list[str]
    cells: list[list[Row | None]]


def pivot(rows: Sequence[Row], by: Sequence[str], over: Sequence[str]) -> Pivot:
    """The rows of ``sweep_table`` with ``by`` down and ``over`` across.

    What varies and is in neither stands in the name of its algorithm, or of its data set where it
    is a setting of the stream, so that no cell has two runs. ValueError for a key that is no
    algorithm, data set or setting that varies.
    """
    varies = [*NAMED, *setting_names(rows)]
    for key in (*by, *over):
        if key not in varies:
            raise ValueError(f"{key} does not vary in these runs; there are: {', '.join(varies)}")
    several = len({row["dataset"] for row in rows}) > 1
    left = [k for k in varies if k not in (*by, *over) and (k != "dataset" or several)]
    beside = [k for k in left if _owner(k) in over and k not in NAMED]
    left = [k for k in left if k not in beside]
    names = [_name([_value(row, key) for key in by], row, left) for row in rows]
    across = [_name([_named(row, key) for key in over], row, beside) for row in rows]
    twice = Counter(zip(names, across, strict=True))
    names = [
        f"{name} [{row['folder'][-4:]}]" if twice[name, column] > 1 and row["folder"] else name
        for row, name, column in zip(rows, names, across, strict=True)
    ]
    found: dict[tuple[str, str], Row] = {}
    for row, name, column in zip(rows, names, across, strict=True):
        found.setdefault((name, column), row)

    def order(i: int) -> tuple[Any, ...]:
        values = [place(_raw(rows[i], key)) for key in (*over, *beside)]
        return is_baseline(rows[i]) and "algorithm" in over, values

    along = list(dict.fromkeys(across[i] for i in sorted(range(len(rows)), key=order)))
    down = list(dict.fromkeys(names))
    cells = [[found.get((name, column)) for column in along] for name in down]
    star = stars.meaning(rows, short_names(rows))
    return Pivot(heading(rows), star, ", ".join(by), down, along, cells)


def _owner(key: str) -> str:
    """What a setting that varies tells apart: data sets by how they are streamed, or learners."""
    return "dataset" if key.startswith(("dataset.", "stream.")) else "algorithm"


def _name(chosen: Sequence[str], row: Row, left: Sequence[str]) -> str:
    more = [_value(row, key) for key in left if key in NAMED]
    more += [f"{key}={_value(row, key)}" for key in left if key in row["settings"]]
    return ", ".join([*chosen, *more])


def _raw(row: Row, key: str) -> Any:
    if key == "algorithm":
        return name_text(row)
    return row[key] if key in NAMED else row["settings"].get(key, ABSENT)


def _value(row: Row, key: str) -> str:
    return style.value_text(_raw(row, key))


def _named(row: Row, key: str) -> str:
    """A column's name, which says the setting as well."""
    if key in NAMED:
        return _value(row, key)
    return f"{key}={_value(row, key)}" if key in row["settings"] else f"no {key}"


def _text(row: Row | None) -> str:
    return ABSENT if row is None else loss_text(row)


def show(found: Pivot, console: Any) -> None:
    """Print it; columns that have no room beside the others stand below them."""
    from rich.text import Text

    for number, part in enumerate(_parts(found, console.width)):
        if number:
            console.print()
        columns.show(part, console)
    console.print(Text(f"\n{found.what}\n* {found.star}"))


def _parts(found: Pivot, width: int) -> Iterator[list[Column]]:
    names = Column(found.named, found.rows, right=False, shortest=columns.READABLE)
    part = [names]
    for number, column in enumerate(found.columns):
        cells = [line[number] for line in found.cells]
        texts = [f"{_text(row)} {'*' if row and row['best'] else ' '}" for row in cells]
        wider = [*part, Column(f"{column}  ", texts)]
        if len(part) > 1 and columns.width_of(wider) > width:
            yield columns.fit(part, width).columns
            wider = [names, wider[-1]]
        part = wider
    yield columns.fit(part, width).columns


def markdown(found: Pivot) -> str:
    body = [
        [name, *(f"**{_text(row)}**" if row and row["best"] else _text(row) for row in line)]
        for name, line in zip(found.rows, found.cells, strict=True)
    ]
    table = markdown_table([found.named, *found.columns], body, left=1)
    return f"{table}\n\n{found.what}. Bold: {found.star}.\n"


def latex(found: Pivot) -> str:
    body = [[name, *map(_text, line)] for name, line in zip(found.rows, found.cells, strict=True)]
    bold = {
        (i, j + 1)
        for i, line in enumerate(found.cells)
        for j, row in enumerate(line)
        if row and row["best"]
    }
    return f"% {found.what}\n" + latex_table([found.named, *found.columns], body, 1, bold)


def csv(found: Pivot) -> str:
    """Errors in full, in units of 1, and their deviations over seeds."""
    header = [found.named]
    for column in found.columns:
        header += [column, f"{column} std"]
    lines: list[list[Any]] = [header]
    for name, cells in zip(found.rows, found.cells, strict=True):
        line: list[Any] = [name]
        for row in cells:
            key = row["measure"].key if row else ""
            line += [row[key], row[f"{key}_std"]] if row else ["", ""]
        lines.append(["" if value is None else value for value in line])
    return csv_text(lines)
