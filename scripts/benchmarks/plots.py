"""The plot of a bench: the time of a row of every learner over the least."""

from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from benchmarks.tables import Bench, title
from omkl.report import style


def draw(bench: Bench, folder: Path) -> list[Path]:
    """Write limits.png where learners were measured."""
    with style.applied():
        return style.save(limit_plot(bench), folder, "limits") if "learners" in bench else []


def limit_plot(bench: Bench) -> Figure:
    rows = [row for row in bench["learners"] if "ratio" in row]
    figure = Figure(figsize=(6.4, 0.9 + 0.23 * len(rows)))
    axes = figure.subplots()
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    names = []
    for place, row in enumerate(rows):
        colour = style.COLOURS[kinds.index(row["kind"])]
        median, low, high = row["ratio"]
        axes.plot([low, high], [place, place], color=colour, linewidth=1.2, solid_capstyle="butt")
        axes.plot(median, place, style.MARKERS[kinds.index(row["kind"])], color=colour)
        axes.plot([row["goal"]] * 2, [place - 0.4, place + 0.4], color=style.GREY, linewidth=1.6)
        names.append(title(row["algorithm"]))
    axes.set_yticks(range(len(rows)), names)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    left = min(row["ratio"][0] for row in rows)
    right = max(max(row["ratio"][0], row["goal"]) for row in rows)
    axes.set_xlim(0.9 * min(1.0, left), max(3.0, 1.25 * right))
    axes.set_xlabel("measured time of a round / least time")
    handles = [
        Line2D([], [], color=style.COLOURS[k], marker=style.MARKERS[k], label=kind)
        for k, kind in enumerate(kinds)
    ]
    handles.append(Line2D([], [], color=style.GREY, linewidth=1.6, label="goal"))
    figure.legend(handles=handles, loc="outside upper center", ncols=4)
    return figure
