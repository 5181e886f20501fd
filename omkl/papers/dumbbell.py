"""One figure per paper: every published error beside ours, joined by a line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from omkl.papers.filled import Cell, Filled
from omkl.papers.pictures import Drawn, save
from omkl.papers.tables import METRICS, VARIANTS
from omkl.report import drawing, style

# Marker, colour and height above its line of each variant; published numbers are hollow.
MARKS = {
    "algorithm": ("o", "#0072B2", 0.15),
    "released": ("s", "#009E73", -0.15),
    "recovered": ("D", "#D55E00", -0.15),
}
PUBLISHED: dict[str, Any] = {
    "marker": "o",
    "linestyle": "",
    "markerfacecolor": "none",
    "markeredgecolor": "black",
}


def dumbbells(tables: Sequence[Filled], metric: str, folder: Path, name: str) -> list[Drawn]:
    """Draw a panel per column of tables with the numbers of one metric.

    Parameters
    ----------
    tables
        Filled tables of one paper.
    metric
        A key of ``METRICS``; the axis is logarithmic.
    folder, name
        Where the PNG file is written.

    Returns
    -------
    list of Drawn
        Empty where no cell has a published number and one of ours.
    """
    panels = [
        (table, column)
        for table in tables
        for column in range(len(table.table.columns))
        if any(_drawable(line[column], metric) for line in table.cells)
    ]
    if not panels:
        return []
    shown = {v for t, c in panels for line in t.cells for v in line[c].entries}
    with style.applied():
        rows, columns = drawing.panel_grid(len(panels))
        one_row_a_label = len({_rows(table, column, metric) for table, column in panels}) == 1
        n_lines = max(len(table.cells) for table, _ in panels)
        size = (max(drawing.WIDTH, 3.2 * columns), rows * (0.24 * n_lines + 0.9) + 0.5)
        figure = Figure(figsize=size)
        for place, (table, column) in enumerate(panels):
            axes = figure.add_subplot(rows, columns, place + 1)
            named = not (one_row_a_label and place % columns)
            _draw(axes, [line[column] for line in table.cells], metric, named)
            several = len(tables) > 1
            axes.set_title(table.table.title if several else table.table.columns[column])
            if place + columns >= len(panels):
                axes.set_xlabel(METRICS[metric].heading)
        handles = [Line2D([], [], **PUBLISHED, label="published")]
        handles += [
            Line2D([], [], linestyle="", marker=MARKS[v][0], color=MARKS[v][1], label=what)
            for v, what in VARIANTS.items()
            if v in shown
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
        (path,) = save(figure, folder, name)
    return [Drawn(path, f"{METRICS[metric].heading}: published (hollow) and ours.")]


def _rows(table: Filled, column: int, metric: str) -> tuple[str, ...]:
    """The rows that a panel shows."""
    return tuple(line[column].row for line in table.cells if _drawable(line[column], metric))


def _drawable(cell: Cell, metric: str) -> bool:
    ours = any(entry.ours is not None for entry in cell.entries.values())
    return cell.spec.metric == metric and cell.published is not None and ours


def _draw(axes: Axes, cells: Sequence[Cell], metric: str, named: bool) -> None:
    cells = [cell for cell in cells if _drawable(cell, metric)]
    every: list[float] = []
    for place, cell in enumerate(reversed(cells)):
        assert cell.published is not None
        ours = {v: e.ours for v, e in cell.entries.items() if e.ours is not None}
        ends = min(cell.published, *ours.values()), max(cell.published, *ours.values())
        every += ends
        axes.plot(ends, [place, place], color="0.75", linewidth=1.5, zorder=1)
        for variant, number in ours.items():
            marker, colour, above = MARKS[variant]
            axes.plot(number, place + above, marker, color=colour, markersize=4.5, zorder=2)
        axes.plot(cell.published, place, markersize=8, zorder=3, **PUBLISHED)
    axes.set_yticks(range(len(cells)), [cell.row for cell in reversed(cells)] if named else [])
    style.log_axis(axes.xaxis, min(every) / 1.1, max(every) * 1.1)
    axes.set_ylim(-0.6, len(cells) - 0.4)
    axes.grid(axis="y", visible=False)
