"""Figures of several runs: a panel a stream, from eight curves on many small.

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

from omkl.report import naming, stats, style
from omkl.report.naming import Entry
from omkl.runs.run_folder import Run, measure, number_of
from omkl.utils.wording import over_seeds

MOST_IN_A_PANEL = 7  # curves; of more each algorithm has panels of its own
MOST_OF_AN_ALGORITHM = 5  # curves in one of those
SMALL_COLUMNS = 3
OTHERS = "the other runs"
PALE = "#d0d0d0"
WHISKERS: dict[str, Any] = {"ecolor": "#999999", "elinewidth": 1}


def all_figures(
    runs: Sequence[Run], folder: Path, suffixes: Sequence[str] = style.PNG
) -> list[Path]:
    """The figures that a sweep ends with; the paths written."""
    drawn = comparison(runs, folder, suffixes=suffixes)
    if any(run.result["al_efficiency"] < 1.0 for run in runs):
        with_labels = [run for run in runs if "labels" in run.curves]
        drawn += comparison(with_labels, folder, "labels", suffixes, against="labels")
    drawn += summary(runs, folder, suffixes=suffixes)
    return drawn + tradeoff(runs, folder, suffixes=suffixes)


# --- curves ---------------------------------------------------------------------------------------


def comparison(
    runs: Sequence[Run],
    folder: Path,
    name: str = "comparison",
    suffixes: Sequence[str] = style.PNG,
    against: str = "t",
    most: int = MOST_IN_A_PANEL,
) -> list[Path]:
    """The MSE or error curves of all complete runs.

    A panel a stream; where one has more than ``most`` curves, a panel an algorithm, in which
    all other curves of the stream are pale. ``against`` is "t", the rounds, or "labels", those
    bought so far on the mean of the seeds.
    """
    by_stream = curves_of(runs, against, most)
    if not by_stream:
        return []
    runs = _complete(runs)[0]
    many = any(len(curves) > most for curves in by_stream.values())
    with style.applied():
        figure = (_small_panels if many else _stream_panels)(by_stream, against)
        figure.suptitle(f"Running {_long_names(runs)}, {_spread_of(runs)}", fontsize=10)
        return style.save(figure, folder, name, suffixes)


def curves_of(
    runs: Sequence[Run], against: str = "t", most: int = MOST_IN_A_PANEL
) -> dict[str, list[Curve]]:
    """The curves of all complete runs by the names of their streams."""
    runs, legend, streams = _complete(runs)
    looks = style.looks_of(legend)
    if most > MOST_IN_A_PANEL:  # colours may come twice, with another line and marker
        looks = {entry: style.look(i) for i, entry in enumerate(looks)}
    by_stream: dict[str, list[Curve]] = {}
    for run, entry, stream in zip(runs, legend, streams, strict=True):
        curve = Curve.of(run, entry, looks[entry], against)
        by_stream.setdefault(stream, []).append(curve)
    return by_stream


def draw_stream(axes: Axes, stream: str, curves: Sequence[Curve]) -> None:
    """The curves of one stream beside its baselines, with a legend, in axes of a figure."""
    with style.applied():
        for number, curve in enumerate(curves):
            curve.draw(axes, number, style.wrapped(str(curve.entry), 60))
        _surroundings(axes, curves, "t")
        _name_axes(axes, curves, "t", True, True)
        axes.set_title(style.wrapped(stream, 80))
        axes.legend(loc="best")


class Curve(NamedTuple):
    """A run's curve, drawn over x (P,): mean and deviation (P,) over the seeds."""

    run: Run
    entry: Entry
    looks: Mapping[str, Any]
    x: np.ndarray
    mean: np.ndarray
    std: np.ndarray | None

    @classmethod
    def of(cls, run: Run, entry: Entry, looks: Mapping[str, Any], against: str) -> Curve:
        drawn = _drawn_rounds(run.curves["t"])
        x = np.atleast_2d(run.curves[against]).mean(axis=0)[drawn]
        mean, std = style.mean_std(run.curves[measure(run.result).key][:, drawn])
        return cls(run, entry, looks, x, mean, std)

    @property
    def limits(self) -> tuple[float, float]:
        return style.positive_limits(self.mean, self.std)

    def draw(self, axes: Axes, place: int, label: str) -> Line2D:
        return style.band_line(
            axes, self.x, self.mean, self.std, place, label, self.limits[0], 0.12, self.looks
        )


def _stream_panels(by_stream: Mapping[str, Sequence[Curve]], against: str) -> Figure:
    """A panel a stream, and one legend of all entries."""
    every = [curve for curves in by_stream.values() for curve in curves]
    texts = {curve.entry: style.wrapped(str(curve.entry), 60) for curve in every}
    rows, columns = style.panel_grid(len(by_stream))
    names = [line.text for curves in by_stream.values() for line in _baselines(curves)]
    width = max(style.WIDTH, 3.4 * columns)
    n_columns, legend_height = _fitted([*texts.values(), *names], width)
    figure, panels = style.panels(list(by_stream), 3.6 if rows == 1 else 2.7, legend_height)
    lines: dict[str, Artist] = {}
    for panel in panels:
        curves = by_stream[panel.name]
        for number, curve in enumerate(curves):
            text = texts[curve.entry]
            lines[text] = curve.draw(panel.axes, number, text)
        _surroundings(panel.axes, curves, against)
        _name_axes(panel.axes, curves, against, panel.lowest, panel.leftmost)
    lines |= _surrounding_lines(figure, names)
    figure.legend([*lines.values()], [*lines], loc="outside lower center", ncols=n_columns)
    return figure


def _small_panels(by_stream: Mapping[str, Sequence[Curve]], against: str) -> Figure:
    """Panels of an algorithm on a stream, each stream from a new row on."""
    blocks = [(name, curves, [*_groups(curves)]) for name, curves in by_stream.items()]
    columns = min(SMALL_COLUMNS, max(len(groups) for _, _, groups in blocks))
    depths = [math.ceil(len(groups) / columns) for _, _, groups in blocks]
    rows = sum(depths)
    figure = Figure(figsize=(max(style.WIDTH, 2.9 * columns), 2.1 * rows + 0.6))
    first = 0
    for (stream, curves, groups), depth in zip(blocks, depths, strict=True):
        for place, group in enumerate(groups):
            axes = figure.add_subplot(rows, columns, first * columns + place + 1)
            for curve in curves:
                if curve not in group:
                    axes.plot(curve.x, curve.mean, color=PALE, linewidth=0.8, label=OTHERS)
            _draw_group(axes, group)
            _surroundings(axes, curves, against)
            name = group[0].entry.learner
            of_all = f"{stream}: {name}" if len(blocks) > 1 else name
            axes.set_title(style.wrapped(of_all, 34), fontsize=9)
            last = place + columns >= len(groups) and first + depth == rows
            _name_axes(axes, curves, against, last, place % columns == 0)
        first += depth
    names = [line.text for curves in by_stream.values() for line in _baselines(curves)]
    others = _surrounding_lines(figure, names)
    figure.legend([*others.values()], [*others], loc="outside lower center", ncols=len(others))
    return figure


def _draw_group(axes: Axes, group: Sequence[Curve]) -> None:
    """Runs of one algorithm; a legend of their settings where they have some."""
    handles, texts = [], []
    for number, curve in enumerate(group):
        dash = style.DASHES[number % len(style.DASHES)]
        looks = {**curve.looks, "linestyle": dash, "marker": ""}
        curve._replace(looks=looks).draw(axes, number, "")
        handles.append(Line2D([], [], color=curve.looks["color"], linestyle=dash))
        texts.append(str(curve.entry._replace(learner="")).removeprefix(", "))
    if any(texts):
        wrapped = [style.wrapped(text, 26) or "default" for text in texts]
        legend = axes.legend(handles, wrapped, fontsize=6.5, handlelength=2.4, frameon=True)
        legend.get_frame().set(facecolor="white", edgecolor="none", alpha=0.85)


def _groups(curves: Sequence[Curve]) -> Iterator[list[Curve]]:
    """The curves of an algorithm, at most so many in one panel."""
    for name in dict.fromkeys(curve.entry.learner for curve in curves):
        members = [curve for curve in curves if curve.entry.learner == name]
        for start in range(0, len(members), MOST_OF_AN_ALGORITHM):
            yield members[start : start + MOST_OF_AN_ALGORITHM]


def _surroundings(axes: Axes, curves: Sequence[Curve], against: str) -> None:
    """Axes that show all curves of a data set, its changes and its baselines.

    Labels cost baselines nothing, so they have no line against labels.
    """
    limits = [curve.limits for curve in curves]
    if against == "t":
        limits += style.baseline_lines(axes, [curve.run for curve in curves], _drawn_rounds)
        for curve in curves:
            style.mark_changes(axes, curve.run.curves["change_rounds"], curve.x)
    style.log_axis(axes.yaxis, min(low for low, _ in limits), max(high for _, high in limits))
    style.round_axis(axes, np.array([1, max(int(curve.x[-1]) for curve in curves)]))


def _name_axes(
    axes: Axes, curves: Sequence[Curve], against: str, lowest: bool, leftmost: bool
) -> None:
    if lowest:
        axes.set_xlabel("row t" if against == "t" else "targets requested")
    if leftmost:
        axes.set_ylabel(f"{_axis_names([curve.run for curve in curves])} of rows 1..t")


def _baselines(curves: Iterable[Curve]) -> Iterator[stats.Line]:
    return stats.baseline_lines([curve.run for curve in curves])


def _surrounding_lines(figure: Figure, baselines: Sequence[str]) -> dict[str, Artist]:
    """What the legend has besides runs: pale curves, baselines, changes of the stream."""
    lines = {str(line.get_label()): line for axes in figure.axes for line in axes.get_lines()}
    drawn = [name for name in lines if name in baselines]
    return {n: lines[n] for n in (OTHERS, *drawn, style.CHANGES) if n in lines}


def _drawn_rounds(t: np.ndarray) -> np.ndarray:
    return style.drawn_rounds(t, 0.01, style.N_DRAWN_SMALL)


def _fitted(texts: Sequence[str], width: float) -> tuple[int, float]:
    """The columns of a legend of these texts in ``width`` inches, and its height."""
    longest = max(len(line) for text in texts for line in text.split("\n"))
    columns = max(1, min(len(texts), int(width / (0.07 * longest + 0.55))))
    deepest = max(text.count("\n") + 1 for text in texts)
    return columns, 0.17 * deepest * math.ceil(len(texts) / columns) + 0.1


# --- final errors ---------------------------------------------------------------------------------


def summary(
    runs: Sequence[Run],
    folder: Path,
    name: str = "summary",
    suffixes: Sequence[str] = style.PNG,
) -> list[Path]:
    """Final MSE or error rate of every complete run: a panel a stream, a line an algorithm."""
    runs, legend, streams = _complete(runs)
    if not runs:
        return []
    looks = style.looks_of(legend)
    order = list(looks)
    texts = [style.wrapped(str(entry), 34) for entry in order]
    n_lines = max(sum(text.count("\n") + 1 for text in texts), 3)
    with style.applied():
        every = list(dict.fromkeys(streams))
        figure, panels = style.panels(every, 0.9 + 0.2 * n_lines)
        for axes, stream, leftmost, lowest in panels:
            low, high = math.inf, 0.0
            for run, entry, of_run in zip(runs, legend, streams, strict=True):
                key = measure(run.result).key
                mean = max(number_of(run.result[f"{key}_mean"]), 1e-300)
                if of_run != stream or math.isinf(mean):  # it has overflowed
                    continue
                std = run.result[f"{key}_std"] or 0.0
                left = max(mean - std, mean / 3)
                low, high = min(low, left), max(high, mean + std)
                ends = [[mean - left], [std]] if std else None
                points = {**looks[entry], "linestyle": "none", "markersize": 6, **WHISKERS}
                axes.errorbar([mean], [order.index(entry)], xerr=ends, **points)
            if low <= high:
                style.log_axis(axes.xaxis, low / 1.15, high * 1.15)
            _name_lines(axes, texts if leftmost else [], len(order))
            if lowest:
                over = dict.fromkeys(naming.scored_rows(run.result) for run in runs)
                axes.set_xlabel(f"{_axis_names(runs)} of {' or '.join(over)}")
        figure.suptitle(f"Final {_long_names(runs)}, {_spread_of(runs)}", fontsize=10)
        return style.save(figure, folder, name, suffixes)


def _name_lines(axes: Axes, texts: Sequence[str], n_lines: int) -> None:
    """A place for every line, the first above; their names where the panel has any."""
    axes.set_ylim(n_lines - 0.5, -0.5)
    axes.set_yticks(range(n_lines), texts)


# --- errors and labels ----------------------------------------------------------------------------


class Trade(NamedTuple):
    """What a panel of the trade-off shows: a quantity of result.json over another or a setting."""

    over: str
    quantity: str
    ylabel: str


def tradeoff(
    runs: Sequence[Run],
    folder: Path,
    name: str = "tradeoff",
    suffixes: Sequence[str] = style.PNG,
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
            key = (run.result["dataset"], naming.name_of(run), int(run.result["params"]["M"]))
            lines.setdefault(key, []).append(run)
    lines = {
        k: sorted(v, key=_threshold) for k, v in lines.items() if len({*map(_threshold, v)}) > 1
    }
    if not lines:
        return []
    datasets = list(dict.fromkeys(dataset for dataset, _, _ in lines))
    order = sorted({(learner, M) for _, learner, M in lines})
    with_eta_c = [run for members in lines.values() for run in members if _asking(run) == "eta_c"]
    eta_c = sorted(set(map(_threshold, with_eta_c)))
    trades = [Trade("al_efficiency", "mse_mean", "MSE")]
    if any(eta_c):
        over = [("al_efficiency", "AL_eff"), ("mse_mean", "MSE")]
        trades = [Trade("eta_c", quantity, ylabel) for quantity, ylabel in over] + trades
    with style.applied():
        height = 2.9 * len(datasets) + 0.25 * math.ceil(len(order) / 3)
        figure = Figure(figsize=(style.WIDTH * max(2, len(trades)) / 2, height))
        grid = figure.subplots(len(datasets), len(trades), squeeze=False)
        handles: dict[tuple[str, int], Artist] = {}
        for row, dataset in zip(grid, datasets, strict=True):
            of_dataset = {line: lines.get((dataset, *line), []) for line in order}
            for axes, trade in zip(row, trades, strict=True):
                handles |= _draw_trade(axes, of_dataset, trade, eta_c, dataset == datasets[-1])
                axes.set_title(dataset)
        figure.legend(handles=[handles[key] for key in order], loc="outside lower center", ncols=3)
        return style.save(figure, folder, name, suffixes)


def _draw_trade(
    axes: Axes,
    lines: Mapping[tuple[str, int], Sequence[Run]],
    trade: Trade,
    eta_c: Sequence[float],
    last: bool,
) -> dict[tuple[str, int], Artist]:
    """Draw a panel of one data set: its lines by learner and M. ``last``: with a label below."""
    positive = [value for value in eta_c if value > 0.0]
    with_zero = len(positive) < len(eta_c)
    leftmost = min(positive, default=1.0) / (3.0 if with_zero else 1.0)
    handles: dict[tuple[str, int], Artist] = {}
    for index, ((learner, M), runs) in enumerate(lines.items()):
        if trade.over == "eta_c":
            runs = [run for run in runs if _asking(run) == "eta_c"]
            x = [max(_threshold(run), leftmost) for run in runs]
        else:
            x = [run.result[trade.over] for run in runs]
        if runs:
            y = [number_of(run.result[trade.quantity]) for run in runs]
            across, up = _deviations(runs, trade.over), _deviations(runs, trade.quantity)
            grey: dict[str, Any] = {"ecolor": "#999999", "elinewidth": 0.9, "capsize": 0}
            axes.errorbar(x, y, xerr=across, yerr=up, fmt="none", **grey)
            label = f"{learner}, M = {M}"
            (handles[learner, M],) = axes.plot(x, y, label=label, **style.look(index))
    axes.set_ylabel(trade.ylabel)
    if trade.over != "eta_c":
        axes.set_xlabel("AL_eff, share of the targets requested" if last else "")
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


# --- words for several runs -----------------------------------------------------------------------


def _complete(runs: Sequence[Run]) -> tuple[list[Run], list[Entry], list[str]]:
    """Complete runs, their entries in a legend, and their streams."""
    finished = [run for run in runs if run.complete]
    return finished, naming.legend(finished), naming.streams(finished)


def _axis_names(runs: Sequence[Run]) -> str:
    return " or ".join(dict.fromkeys(style.axis_name(measure(run.result)) for run in runs))


def _long_names(runs: Sequence[Run]) -> str:
    names = (measure(run.result).long for run in runs)
    return " or ".join(dict.fromkeys(names))


def _spread_of(runs: Sequence[Run]) -> str:
    counts = sorted({len(run.result["seeds"]) for run in runs})
    if len(counts) == 1:
        return over_seeds(counts[0])
    return f"mean ± std over {counts[0]} to {counts[-1]} seeds"
