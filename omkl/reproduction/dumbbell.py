"""One figure per paper: every published error beside ours, joined by a line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from omkl.report import drawing, style
from omkl.reproduction.filled import Cell, Filled
from omkl.reproduction.pictures import Drawn, save
from omkl.reproduction.tables import METRICS, VARIANTS

# The marker and colour of each variant; published numbers are hollow.
MARKS = {"algorithm": ("o", "#0072B2"), "released": ("s", "#009E73"), "recovered": ("D", "#D55E00")}
PUBLISHED = {"marker": "o", "markerfacecolor": "white", "markeredgecolor": "black"}


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
        n_lines = max(len(table.cells) for table, _ in panels)
        size = (max(drawing.WIDTH, 3.2 * columns), rows * (0.24 * n_lines + 0.9) + 0.5)
        figure = Figure(figsize=size)
        for place, (table, column) in enumerate(panels):
            axes = figure.add_subplot(rows, columns, place + 1)
            one_table = len(table.table.columns) == 1 or len(tables) > 1
            of_table = f"table {table.table.table}, " if one_table and len(tables) > 1 else ""
            _draw(axes, [line[column] for line in table.cells], metric)
            axes.set_title(f"{of_table}{table.table.columns[column]}")
            if place + columns >= len(panels):
                axes.set_xlabel(METRICS[metric].heading)
        handles = [Line2D([], [], linestyle="", **PUBLISHED, label="published")]  # type: ignore[arg-type]
        handles += [
            Line2D([], [], linestyle="", marker=MARKS[v][0], color=MARKS[v][1], label=what)
            for v, what in VARIANTS.items()
            if v in shown
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
        (path,) = save(figure, folder, name)
    return [Drawn(path, f"{METRICS[metric].heading}: published (hollow) and ours.")]


def _drawable(cell: Cell, metric: str) -> bool:
    ours = any(entry.ours is not None for entry in cell.entries.values())
    return cell.spec.metric == metric and cell.published is not None and ours


def _draw(axes: Axes, cells: Sequence[Cell], metric: str) -> None:
    cells = [cell for cell in cells if _drawable(cell, metric)]
    for place, cell in enumerate(reversed(cells)):
        assert cell.published is not None
        numbers = [entry.ours for entry in cell.entries.values() if entry.ours is not None]
        axes.plot(
            [min([*numbers, cell.published]), max([*numbers, cell.published])],
            [place, place],
            color="0.75",
            linewidth=1.5,
            zorder=1,
        )
        for variant, entry in cell.entries.items():
            if entry.ours is not None:
                marker, colour = MARKS[variant]
                axes.plot(entry.ours, place, marker, color=colour, markersize=4.5, zorder=2)
        axes.plot(cell.published, place, linestyle="", markersize=7, zorder=3, alpha=0.9,
                  marker="o", markerfacecolor="none", markeredgecolor="black")  # fmt: skip
    axes.set_yticks(range(len(cells)), [cell.row for cell in reversed(cells)])
    axes.set_xscale("log")
    axes.margins(x=0.08)
    axes.grid(axis="y", visible=False)
