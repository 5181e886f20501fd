"""The curves of several runs side by side: a panel a stream, from eight curves on many small.

A colour is an algorithm, a dash the settings that it runs with.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from omkl.report import baselines, drawing, style
from omkl.report.baselines import NAMES
from omkl.runs.run_folder import Run, measure
from omkl.runs.wording import over_seeds

BOTH = ("png", "pdf")
MOST_IN_A_PANEL = 7  # curves; of more each algorithm has panels of its own
MOST_OF_AN_ALGORITHM = 5  # curves in one of those
SMALL_COLUMNS = 3
OTHERS = "the other runs"
PALE = "#d0d0d0"


def comparison(
    runs: Sequence[Run],
    folder: Path,
    name: str = "comparison",
    suffixes: Sequence[str] = BOTH,
    against: str = "t",
    most: int = MOST_IN_A_PANEL,
) -> list[Path]:
    """The MSE or error curves of all complete runs.

    A panel a stream; where one has more than ``most`` curves, a panel an algorithm, in which
    all other curves of the stream are pale. ``against`` is "t", the rounds, or "labels", those
    bought so far on the mean of the seeds.
    """
    runs, legend, streams = complete(runs)
    if not runs:
        return []
    looks = style.looks_of(runs, legend)
    if most > MOST_IN_A_PANEL:  # colours may come twice, with another line and marker
        looks = {entry: style.look(i) for i, entry in enumerate(dict.fromkeys(legend))}
    drawn = [
        Curve.of(run, entry, looks[entry], against) for run, entry in zip(runs, legend, strict=True)
    ]
    by_stream: dict[str, list[Curve]] = {}
    for curve, stream in zip(drawn, streams, strict=True):
        by_stream.setdefault(stream, []).append(curve)
    many = any(len(curves) > most for curves in by_stream.values())
    with style.applied():
        figure = (_small_panels if many else _panels)(by_stream, against)
        figure.suptitle(f"Running {long_names(runs)}, {spread_of(runs)}", fontsize=10)
        return style.save(figure, folder, name, suffixes)


class Curve(NamedTuple):
    """A run's curve, drawn over x (P,): mean and deviation (P,) over the seeds."""

    run: Run
    entry: str
    looks: Mapping[str, Any]
    x: np.ndarray
    mean: np.ndarray
    std: np.ndarray | None

    @classmethod
    def of(cls, run: Run, entry: str, looks: Mapping[str, Any], against: str) -> Curve:
        chosen = _drawn_rounds(run.curves["t"])
        x = np.atleast_2d(run.curves[against]).mean(axis=0)[chosen]
        mean, std = drawing.mean_std(run.curves[measure(run.result).key][:, chosen])
        return cls(run, entry, looks, x, mean, std)

    @property
    def limits(self) -> tuple[float, float]:
        return drawing.positive_limits(self.mean, self.std)

    def draw(self, axes: Axes, place: int, label: str) -> Line2D:
        return drawing.band_line(
            axes, self.x, self.mean, self.std, place, label, self.limits[0], 0.12, self.looks
        )


def _panels(by_stream: Mapping[str, Sequence[Curve]], against: str) -> Figure:
    """A panel a stream, and one legend of all entries."""
    every = [curve for curves in by_stream.values() for curve in curves]
    texts = {curve.entry: style.wrapped(curve.entry, 60) for curve in every}
    rows, columns = drawing.panel_grid(len(by_stream))
    width = max(drawing.WIDTH, 3.4 * columns)
    beside = [
        line.text for curves in by_stream.values() for line in baselines.lines(_runs_of(curves))
    ]
    legend_columns, legend_height = _fitted([*texts.values(), *beside], width)
    figure = Figure(figsize=(width, (3.6 if rows == 1 else 2.7 * rows) + legend_height))
    lines: dict[str, Artist] = {}
    for place, (stream, curves) in enumerate(by_stream.items()):
        axes = figure.add_subplot(rows, columns, place + 1)
        for number, curve in enumerate(curves):
            lines[texts[curve.entry]] = curve.draw(axes, number, texts[curve.entry])
        _surroundings(axes, curves, against)
        axes.set_title(style.wrapped(stream, 30))
        _name_axes(axes, curves, against, place + columns >= len(by_stream), place % columns == 0)
    lines |= _others(figure)
    figure.legend([*lines.values()], [*lines], loc="outside lower center", ncols=legend_columns)
    return figure


def _small_panels(by_stream: Mapping[str, Sequence[Curve]], against: str) -> Figure:
    """Panels of an algorithm on a stream, each stream from a new row on."""
    blocks = [(name, curves, [*_groups(curves)]) for name, curves in by_stream.items()]
    columns = min(SMALL_COLUMNS, max(len(groups) for _, _, groups in blocks))
    depths = [math.ceil(len(groups) / columns) for _, _, groups in blocks]
    rows = sum(depths)
    figure = Figure(figsize=(max(drawing.WIDTH, 2.9 * columns), 2.1 * rows + 0.6))
    first = 0
    for (stream, curves, groups), depth in zip(blocks, depths, strict=True):
        for place, group in enumerate(groups):
            axes = figure.add_subplot(rows, columns, first * columns + place + 1)
            for curve in curves:
                if curve not in group:
                    axes.plot(curve.x, curve.mean, color=PALE, linewidth=0.8, label=OTHERS)
            _draw_group(axes, group)
            _surroundings(axes, curves, against)
            name = style.name_of(group[0].run)
            of_all = f"{stream}: {name}" if len(blocks) > 1 else name
            axes.set_title(style.wrapped(of_all, 34), fontsize=9)
            last = place + columns >= len(groups) and first + depth == rows
            _name_axes(axes, curves, against, last, place % columns == 0)
        first += depth
    others = _others(figure)
    figure.legend([*others.values()], [*others], loc="outside lower center", ncols=len(others))
    return figure


def _draw_group(axes: Axes, group: Sequence[Curve]) -> None:
    """Runs of one algorithm; a legend of their settings where they have some."""
    for number, curve in enumerate(group):
        dash = style.DASHES[number % len(style.DASHES)]
        own = curve._replace(looks={**curve.looks, "linestyle": dash, "marker": ""})
        own.draw(axes, number, "")
    texts = [c.entry.removeprefix(style.name_of(c.run)).removeprefix(", ") for c in group]
    if any(texts):
        lines = [
            Line2D([], [], color=c.looks["color"], linestyle=style.DASHES[n % len(style.DASHES)])
            for n, c in enumerate(group)
        ]
        wrapped = [style.wrapped(text, 26) or "default" for text in texts]
        legend = axes.legend(lines, wrapped, fontsize=6.5, handlelength=2.4, frameon=True)
        legend.get_frame().set(facecolor="white", edgecolor="none", alpha=0.85)


def _groups(curves: Sequence[Curve]) -> Iterator[list[Curve]]:
    """The curves of an algorithm, at most so many in one panel."""
    for name in dict.fromkeys(style.name_of(curve.run) for curve in curves):
        own = [curve for curve in curves if style.name_of(curve.run) == name]
        for start in range(0, len(own), MOST_OF_AN_ALGORITHM):
            yield own[start : start + MOST_OF_AN_ALGORITHM]


def _surroundings(axes: Axes, curves: Sequence[Curve], against: str) -> None:
    """Axes that show all curves of a data set, its changes and its baselines.

    Labels cost baselines nothing, so they have no line against labels.
    """
    limits = [curve.limits for curve in curves]
    if against == "t":
        limits += drawing.baseline_lines(axes, _runs_of(curves), _drawn_rounds)
    for curve in curves if against == "t" else []:
        drawing.mark_changes(axes, curve.run.curves["change_rounds"], curve.x)
    style.log_axis(axes.yaxis, min(low for low, _ in limits), max(high for _, high in limits))
    drawing.round_axis(axes, np.array([1, max(int(curve.x[-1]) for curve in curves)]))


def _name_axes(
    axes: Axes, curves: Sequence[Curve], against: str, lowest: bool, leftmost: bool
) -> None:
    if lowest:
        axes.set_xlabel("round t" if against == "t" else "labels bought")
    if leftmost:
        axes.set_ylabel(f"{axis_names([curve.run for curve in curves])} of rounds 1..t")


def _others(figure: Figure) -> dict[str, Artist]:
    """What the legend has besides runs: baselines, changes of the stream, pale curves."""
    found = {str(line.get_label()): line for axes in figure.axes for line in axes.get_lines()}
    names = [n for n in found if n.partition(",")[0] in NAMES.values()]
    return {n: found[n] for n in (OTHERS, *names, drawing.CHANGES) if n in found}


def _runs_of(curves: Iterable[Curve]) -> list[Run]:
    return [curve.run for curve in curves]


def _drawn_rounds(t: np.ndarray) -> np.ndarray:
    return drawing.drawn_rounds(t, 0.01, drawing.N_DRAWN_SMALL)


def complete(runs: Sequence[Run]) -> tuple[list[Run], list[str], list[str]]:
    """Complete runs, their entries in a legend, and their streams."""
    found = [run for run in runs if run.complete]
    return found, style.legend(found), style.streams(found)


def axis_names(runs: Sequence[Run]) -> str:
    return " or ".join(dict.fromkeys(drawing.axis_name(measure(run.result)) for run in runs))


def long_names(runs: Sequence[Run]) -> str:
    return " or ".join(dict.fromkeys(measure(run.result).long for run in runs))


def spread_of(runs: Sequence[Run]) -> str:
    counts = sorted({len(run.result["seeds"]) for run in runs})
    if len(counts) == 1:
        return over_seeds(counts[0])
    return f"mean ± std over {counts[0]} to {counts[-1]} seeds"


def _fitted(texts: Sequence[str], width: float) -> tuple[int, float]:
    """The columns of a legend of these texts in ``width`` inches, and its height."""
    longest = max(len(line) for text in texts for line in text.split("\n"))
    columns = max(1, min(len(texts), int(width / (0.07 * longest + 0.55))))
    deepest = max(text.count("\n") + 1 for text in texts)
    return columns, 0.17 * deepest * math.ceil(len(texts) / columns) + 0.1
