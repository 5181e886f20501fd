"""Figures of several runs: a panel a stream, each as PNG and PDF."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from omkl.report import drawing, style
from omkl.report.comparison_figure import (
    BOTH,
    axis_names,
    comparison,
    complete,
    long_names,
    spread_of,
)
from omkl.report.text import theorem_text
from omkl.runs.run_folder import Run, measure, number_of
from omkl.runs.wording import pluralize


def all_figures(runs: Sequence[Run], folder: Path) -> list[Path]:
    """The figures that a sweep ends with; the paths written."""
    drawn = comparison(runs, folder)
    if any(run.result["al_efficiency"] < 1.0 for run in runs):
        with_labels = [run for run in runs if "labels" in run.curves]
        drawn += comparison(with_labels, folder, "labels", against="labels")
    return drawn + summary(runs, folder) + tradeoff(runs, folder)


def summary(
    runs: Sequence[Run],
    folder: Path,
    name: str = "summary",
    suffixes: Sequence[str] = BOTH,
    titles: Mapping[str, str] | None = None,
) -> list[Path]:
    """Final MSE or error rate of every complete run: a panel a stream, a line an algorithm.

    ``titles`` are for data sets that go by another name here.
    """
    titles = titles or {}
    runs, legend, streams = complete(runs)
    if not runs:
        return []
    panels = list(dict.fromkeys(streams))
    looks = style.looks_of(runs, legend)
    order = list(looks)
    texts = [style.wrapped(entry, 34) for entry in order]
    with style.applied():
        rows, columns = drawing.panel_grid(len(panels))
        lines = sum(text.count("\n") + 1 for text in texts)
        height = rows * (0.9 + 0.2 * max(lines, 3)) + 0.4
        figure = Figure(figsize=(max(drawing.WIDTH, 3.4 * columns), height))
        for place, panel in enumerate(panels):
            axes = figure.add_subplot(rows, columns, place + 1)
            low, high = math.inf, 0.0
            for run, entry, stream in zip(runs, legend, streams, strict=True):
                if stream != panel:
                    continue
                index = order.index(entry)
                key = measure(run.result).key
                mean = max(number_of(run.result[f"{key}_mean"]), 1e-300)
                if math.isinf(mean):  # it has overflowed
                    continue
                std = run.result[f"{key}_std"] or 0.0
                left = max(mean - std, mean / 3)
                low, high = min(low, left), max(high, mean + std)
                axes.errorbar(
                    [mean],
                    [index],
                    xerr=[[mean - left], [std]] if std else None,
                    ecolor="#999999",
                    elinewidth=1,
                    **{**looks[entry], "linestyle": "none", "markersize": 6},
                )
            if low <= high:
                style.log_axis(axes.xaxis, low / 1.15, high * 1.15)
            _name_lines(axes, texts if place % columns == 0 else [], len(order))
            axes.set_title(style.wrapped(titles.get(panel, panel), 30))
            if place + columns >= len(panels):
                axes.set_xlabel(f"{axis_names(runs)} of {_rounds_that_count(runs)}")
        figure.suptitle(f"Final {long_names(runs)}, {spread_of(runs)}", fontsize=10)
        return style.save(figure, folder, name, suffixes)


def _rounds_that_count(runs: Sequence[Run]) -> str:
    over = dict.fromkeys(str(run.result.get("mse_over", "all rounds")) for run in runs)
    return " or ".join(over)


def bounds(
    runs: Sequence[Run], folder: Path, name: str = "bounds", suffixes: Sequence[str] = BOTH
) -> list[Path]:
    """Mistakes beside what theorems allow: a panel a data set, a line a run that has a bound."""
    runs = [run for run in runs if run.complete and run.result.get("bound", {}).get("value")]
    if not runs:
        return []
    datasets = list(dict.fromkeys(run.result["dataset"] for run in runs))
    legend = [f"{style.name_of(run)}, {theorem_text(run.result['bound'])}" for run in runs]
    order = list(dict.fromkeys(legend))
    with style.applied():
        rows, columns = drawing.panel_grid(len(datasets))
        height = rows * (0.9 + 0.25 * max(len(order), 3)) + 0.6
        figure = Figure(figsize=(max(drawing.WIDTH, 3.4 * columns), height))
        for place, dataset in enumerate(datasets):
            axes = figure.add_subplot(rows, columns, place + 1)
            low, high = math.inf, 0.0
            for run, entry in zip(runs, legend, strict=True):
                if run.result["dataset"] != dataset:
                    continue
                index, counts = order.index(entry), np.array(run.result["mistakes"])
                allowed = run.result["bound"]["value"]
                ends = [counts.mean() - counts.min()], [counts.max() - counts.mean()]
                axes.errorbar(
                    [counts.mean()], [index], xerr=ends, fmt="o", color=style.COLOURS[0],
                    ecolor="#999999", label="mistakes: mean, fewest and most",
                )  # fmt: skip
                axes.plot(
                    [allowed], [index], "D", color=style.COLOURS[1], label="bound of the theorem"
                )
                T = run.result["n_rounds"]
                low = min(low, float(counts.min()), T)
                high = max(high, allowed, T)
            axes.axvline(T, color=style.GREY, linewidth=0.9, label="every round a mistake")
            style.log_axis(axes.xaxis, max(low, 1.0) / 1.3, 1.3 * high)
            _name_lines(axes, order if place % columns == 0 else [], len(order))
            axes.set_title(style.wrapped(dataset, 30))
            if place + columns >= len(datasets):
                axes.set_xlabel("mistakes in all rounds")
        drawing.figure_legend(figure, figure.axes)
        n_seeds = max(len(run.result["seeds"]) for run in runs)
        figure.suptitle(
            f"Mistakes beside what theorems allow, {pluralize(n_seeds, 'seed')}", fontsize=10
        )
        return style.save(figure, folder, name, suffixes)


class Panel(NamedTuple):
    """What a panel of the trade-off shows: a quantity of result.json over another or a setting."""

    over: str
    quantity: str
    ylabel: str


def tradeoff(
    runs: Sequence[Run], folder: Path, name: str = "tradeoff", suffixes: Sequence[str] = BOTH
) -> list[Path]:
    """What errors cost in labels, a line a learner and M, a row of panels a data set.

    The panels: AL_eff and MSE against eta_c, and MSE against AL_eff, where learners that ask at
    random have a line as well, over their ``rate``. Nothing where the runs have fewer than two
    values of eta_c or rate on each data set. eta_c = 0, where every label is bought, stands at
    the left end of the logarithmic axis.
    """
    lines: dict[tuple[str, str, int], list[Run]] = {}
    for run in runs:
        if run.complete and _asking(run) and "M" in run.result["params"]:
            key = (run.result["dataset"], style.name_of(run), int(run.result["params"]["M"]))
            lines.setdefault(key, []).append(run)
    lines = {
        k: sorted(v, key=_threshold) for k, v in lines.items() if len({*map(_threshold, v)}) > 1
    }
    if not lines:
        return []
    datasets = list(dict.fromkeys(dataset for dataset, _, _ in lines))
    order = sorted({(learner, M) for _, learner, M in lines})
    with_eta_c = [run for found in lines.values() for run in found if _asking(run) == "eta_c"]
    eta_c = sorted(set(map(_threshold, with_eta_c)))
    panels = [Panel("al_efficiency", "mse_mean", "MSE")]
    if any(eta_c):
        panels.insert(0, Panel("eta_c", "mse_mean", "MSE"))
        panels.insert(0, Panel("eta_c", "al_efficiency", "AL_eff"))
    with style.applied():
        height = 2.9 * len(datasets) + 0.25 * math.ceil(len(order) / 3)
        figure = Figure(figsize=(drawing.WIDTH * max(2, len(panels)) / 2, height))
        grid = figure.subplots(len(datasets), len(panels), squeeze=False)
        handles: dict[tuple[str, int], Artist] = {}
        for row, dataset in zip(grid, datasets, strict=True):
            own = {line: lines.get((dataset, *line), []) for line in order}
            for axes, panel in zip(row, panels, strict=True):
                handles |= _trade(axes, own, panel, eta_c, last=dataset == datasets[-1])
                axes.set_title(dataset)
        figure.legend(handles=[handles[key] for key in order], loc="outside lower center", ncols=3)
        return style.save(figure, folder, name, suffixes)


def _trade(
    axes: Axes,
    lines: Mapping[tuple[str, int], Sequence[Run]],
    panel: Panel,
    eta_c: Sequence[float],
    last: bool,
) -> dict[tuple[str, int], Artist]:
    """Draw a panel of one data set: its lines by learner and M. ``last``: with a label below."""
    positive = [value for value in eta_c if value > 0.0]
    with_zero = len(positive) < len(eta_c)
    leftmost = min(positive, default=1.0) / (3.0 if with_zero else 1.0)
    handles: dict[tuple[str, int], Artist] = {}
    for index, ((learner, M), runs) in enumerate(lines.items()):
        if panel.over == "eta_c":
            runs = [run for run in runs if _asking(run) == "eta_c"]
            x = [max(_threshold(run), leftmost) for run in runs]
        else:
            x = [run.result[panel.over] for run in runs]
        if runs:
            y = [number_of(run.result[panel.quantity]) for run in runs]
            across = _deviations(runs, panel.over)
            up = _deviations(runs, panel.quantity)
            grey: dict[str, Any] = {"ecolor": "#999999", "elinewidth": 0.9, "capsize": 0}
            axes.errorbar(x, y, xerr=across, yerr=up, fmt="none", **grey)
            (handles[learner, M],) = axes.plot(
                x, y, label=f"{learner}, M = {M}", **style.look(index)
            )
    axes.set_ylabel(panel.ylabel)
    if panel.over != "eta_c":
        axes.set_xlabel("AL_eff, share of the labels bought" if last else "")
        axes.xaxis.get_major_locator().set_params(nbins=5)  # type: ignore[call-arg]
        return handles
    style.log_axis(axes.xaxis, leftmost / 1.2, 1.2 * max(positive))
    if with_zero:
        ticks = [leftmost, *(t for t in axes.get_xticks() if t > 3.5 * leftmost)]
        axes.set_xticks(ticks, ["0", *(f"{t:g}" for t in ticks[1:])])
    axes.set_xlabel("confidence eta_c" if last else "")
    return handles


def _deviations(runs: Sequence[Run], quantity: str) -> list[float] | None:
    """Deviations over the seeds of a quantity of result.json; None where there are none."""
    key = f"{quantity.removesuffix('_mean')}_std"
    if any(run.result.get(key) is None for run in runs):
        return None
    return [run.result[key] for run in runs]


def _asking(run: Run) -> str:
    """The parameter that says how often a learner asks; "" if it asks always."""
    return next((name for name in ("eta_c", "rate") if name in run.result["params"]), "")


def _threshold(run: Run) -> float:
    return float(run.result["params"][_asking(run)])


def _name_lines(axes: Axes, texts: Sequence[str], n_lines: int) -> None:
    """A place for every line, the first above; their names where the panel has any."""
    axes.set_ylim(n_lines - 0.5, -0.5)
    axes.set_yticks(range(n_lines), texts)
