"""Figures of several runs, a panel per stream: a colour is an algorithm, a dash its settings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from omkl.report import naming, style
from omkl.report.naming import Entry
from omkl.runs.run_folder import Run, measure, number_of
from omkl.utils.wording import over_seeds


def all_figures(
    runs: Sequence[Run], folder: Path, suffixes: Sequence[str] = style.PNG
) -> list[Path]:
    """Save the figures that a sweep ends with, and return the paths."""
    runs = [run for run in runs if run.complete]
    drawn = comparison(runs, folder, suffixes=suffixes)
    if any(run.result["al_efficiency"] < 1.0 for run in runs):
        with_labels = [run for run in runs if "labels" in run.curves]
        drawn += comparison(with_labels, folder, "labels", suffixes, against="labels")
    return drawn + summary(runs, folder, suffixes=suffixes) + swept(runs, folder, suffixes)


def streams_of(runs: Sequence[Run]) -> dict[str, list[tuple[Run, Entry]]]:
    """Return the complete runs and their entries in a legend by the names of their streams."""
    runs = [run for run in runs if run.complete]
    found: dict[str, list[tuple[Run, Entry]]] = {}
    for run, entry, stream in zip(runs, naming.legend(runs), naming.streams(runs), strict=True):
        found.setdefault(stream, []).append((run, entry))
    return found


def comparison(
    runs: Sequence[Run],
    folder: Path,
    name: str = "comparison",
    suffixes: Sequence[str] = style.PNG,
    against: str = "t",
) -> list[Path]:
    """Save the running errors of the runs over ``against``: the rows "t", or the "labels"."""
    by_stream = streams_of(runs)
    if not by_stream:
        return []
    looks = style.looks_of([entry for members in by_stream.values() for _, entry in members])
    with style.applied():
        height = 3.6 if len(by_stream) <= style.N_COLUMNS else 2.7
        figure, panels = style.panels(list(by_stream), height, 0.4 + 0.08 * len(looks))
        for panel in panels:
            _draw_curves(panel.axes, by_stream[panel.name], looks, against)
            if not panel.lowest:
                panel.axes.set_xlabel("")
            if not panel.leftmost:
                panel.axes.set_ylabel("")
        style.figure_legend(figure, [panel.axes for panel in panels])
        figure.suptitle(f"Running {_long_names(runs)}, {_spread_of(runs)}", fontsize=10)
        return style.save(figure, folder, name, suffixes)


def draw_stream(axes: Axes, members: Sequence[tuple[Run, Entry]], stream: str) -> None:
    """Draw the runs of one stream beside its baselines, with a legend, in Axes of a figure."""
    with style.applied():
        _draw_curves(axes, members, style.looks_of([entry for _, entry in members]), "t")
        axes.set_title(style.wrapped(stream, 80))
        axes.legend(loc="best")


def _draw_curves(
    axes: Axes,
    members: Sequence[tuple[Run, Entry]],
    looks: Mapping[Entry, Mapping[str, Any]],
    against: str,
) -> None:
    """Draw curves of runs on one stream; over rows with its baselines and changes."""
    runs, limits, last = [run for run, _ in members], [], 1.0
    for number, (run, entry) in enumerate(members):
        drawn = style.drawn_rounds(run.curves["t"], 0.01, style.N_DRAWN_SMALL)
        x = np.atleast_2d(run.curves[against]).mean(axis=0)[drawn]
        mean, std = style.mean_std(run.curves[measure(run.result).key][:, drawn])
        limits.append(style.positive_limits(mean, std))
        label = style.wrapped(str(entry), 60)
        style.band_line(
            axes, x, mean, std, number, label, limits[-1][0], opacity=0.12, looks=looks[entry]
        )
        last = max(last, float(x[-1]))
        if against == "t":
            style.mark_changes(axes, run.curves["change_rounds"], x)
    if against == "t":  # baselines request every target
        limits += style.baseline_lines(
            axes, runs, lambda t: style.drawn_rounds(t, 0.01, style.N_DRAWN_SMALL)
        )
    style.log_axis(axes.yaxis, min(low for low, _ in limits), max(high for _, high in limits))
    style.round_axis(axes, np.array([1, last]))
    axes.set_xlabel("row t" if against == "t" else "targets requested")
    axes.set_ylabel(f"{_axis_names(runs)} of rows 1..t")


def summary(
    runs: Sequence[Run],
    folder: Path,
    name: str = "summary",
    suffixes: Sequence[str] = style.PNG,
) -> list[Path]:
    """Save the final errors of the runs: a line per entry of the legend."""
    by_stream = streams_of(runs)
    if not by_stream:
        return []
    looks = style.looks_of([entry for members in by_stream.values() for _, entry in members])
    order = list(looks)
    texts = [style.wrapped(str(entry), 34) for entry in order]
    n_lines = max(sum(text.count("\n") + 1 for text in texts), 3)
    with style.applied():
        figure, panels = style.panels(list(by_stream), 0.9 + 0.2 * n_lines)
        for panel in panels:
            for run, entry in by_stream[panel.name]:
                mean, std = _final_error(run)
                if 0.0 < mean < math.inf:  # else it has overflowed, or a logarithm has not it
                    points = {**looks[entry], "linestyle": "none", "markersize": 6}
                    error = None if std is None else [[min(std, 0.7 * mean)], [std]]
                    panel.axes.errorbar([mean], [order.index(entry)], xerr=error, **points)
            style.log_axis(panel.axes.xaxis, *panel.axes.get_xlim())
            panel.axes.set_ylim(len(order) - 0.5, -0.5)
            panel.axes.set_yticks(range(len(order)), texts if panel.leftmost else [""] * len(order))
            if panel.lowest:
                over = dict.fromkeys(naming.scored_rows(run.result) for run in runs)
                panel.axes.set_xlabel(f"{_axis_names(runs)} of {' or '.join(over)}")
        figure.suptitle(f"Final {_long_names(runs)}, {_spread_of(runs)}", fontsize=10)
        return style.save(figure, folder, name, suffixes)


def swept(runs: Sequence[Run], folder: Path, suffixes: Sequence[str] = style.PNG) -> list[Path]:
    """Save the final error against each setting that has three values or more, all numbers.

    A line joins the runs of an algorithm that agree in all other settings; panels are data sets.
    """
    runs = [run for run in runs if run.complete]
    varying = naming.varying(runs, of_all=True)
    paths = []
    for name in dict.fromkeys(name for settings in varying for name in settings):
        points = [(s[name], run, s) for s, run in zip(varying, runs, strict=True) if name in s]
        values = {value for value, _, _ in points if _is_number(value)}
        if len(values) < 3 or len(values) < len({naming.value_text(v) for v, _, _ in points}):
            continue
        lines: dict[tuple[str, Entry], list[tuple[float, Run]]] = {}
        for value, run, settings in points:
            others = {key: v for key, v in settings.items() if key != name}
            entry = Entry(naming.name_of(run), naming.pairs_text(others))
            lines.setdefault((run.result["dataset"], entry), []).append((value, run))
        looks = style.looks_of([entry for _, entry in lines])
        with style.applied():
            datasets = list(dict.fromkeys(dataset for dataset, _ in lines))
            figure, panels = style.panels(datasets, 3.0, 0.5 + 0.08 * len(looks))
            for panel in panels:
                for (dataset, entry), members in lines.items():
                    if dataset == panel.name:
                        members.sort(key=lambda one: one[0])
                        errors = np.array([_final_error(run) for _, run in members], dtype=float)
                        x, label = [value for value, _ in members], style.wrapped(str(entry), 60)
                        panel.axes.errorbar(x, *errors.T, label=label, **looks[entry])
                if min(values) > 0 and max(values) > 20 * min(values):
                    style.log_axis(panel.axes.xaxis, min(values) / 1.2, max(values) * 1.2)
                if panel.lowest:
                    panel.axes.set_xlabel(name)
                if panel.leftmost:
                    panel.axes.set_ylabel(_axis_names(runs))
            style.figure_legend(figure, [panel.axes for panel in panels])
            figure.suptitle(f"{_long_names(runs).capitalize()} by {name}, {_spread_of(runs)}",
                            fontsize=10)  # fmt: skip
            paths += style.save(figure, folder, f"swept_{name.replace('/', '.')}", suffixes)
    return paths


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _final_error(run: Run) -> tuple[float, float | None]:
    key = measure(run.result).key
    return number_of(run.result[f"{key}_mean"]), run.result[f"{key}_std"]


def _axis_names(runs: Sequence[Run]) -> str:
    return " or ".join(dict.fromkeys(style.axis_name(measure(run.result)) for run in runs))


def _long_names(runs: Sequence[Run]) -> str:
    return " or ".join(dict.fromkeys(measure(run.result).long for run in runs))


def _spread_of(runs: Sequence[Run]) -> str:
    counts = sorted({len(run.result["seeds"]) for run in runs if run.complete})
    if len(counts) == 1:
        return over_seeds(counts[0])
    return f"mean ± std over {counts[0]} to {counts[-1]} seeds"
