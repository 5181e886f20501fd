"""Figures of one run, each a PNG and, where that is asked for, a PDF.

Shapes: R seeds, P recorded rounds, N kernels, K clients, G rounds after which weights are known.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from omkl.core.kernels import FAMILIES, Family
from omkl.report import naming, stats, style
from omkl.report.naming import expert_names, has_kernels
from omkl.report.stats import Windowed, windowed
from omkl.runs.run_folder import ERROR_RATE, Run, measure, scaling_of
from omkl.utils.wording import over_seeds, pluralize

Array = np.ndarray

WHISKERS = {"ecolor": "#7fb2d6", "elinewidth": 1}
MOST_NAMES = 12  # of experts in the heat map, one per line
LEAST_WEIGHT = 0.005  # of an expert with a bar


def all_figures(
    run: Run, folder: Path | None = None, suffixes: Sequence[str] = style.PNG
) -> list[Path]:
    """The figures of one run, in its folder by default; the paths written."""
    return [path for plot in _plots(run) for path in plot(run, folder, suffixes)]


def figures_of(run: Run) -> dict[str, Figure]:
    """The figures of one run by their names, for a notebook; those that have nothing are left out.

    Raises ValueError for a run that is not complete.
    """
    drawings = {plot.stem(run): plot.draw(run) for plot in _plots(run)}
    return {name: figure for name, figure in drawings.items() if figure is not None}


def draw_into(run: Run, name: str | None = None, axes: Axes | None = None) -> Axes:
    """Draw the figure ``name`` (None: the running error) into ``axes`` (None: new ones of pyplot).

    Raises ValueError for a figure that there is none of, or that has several panels.
    """
    plots = {plot.stem(run): plot for plot in _plots(run)}
    name = measure(run.result).key if name is None else name
    if name not in plots:
        raise ValueError(f"there is no plot {name!r} of this run; there are: {', '.join(plots)}")
    plot = plots[name]
    if not plot.one_panel:
        raise ValueError(f"{name} has several panels: run.plots()[{name!r}] is its figure")
    if axes is None:
        import matplotlib.pyplot as plt  # which shows it in a notebook

        with style.applied():
            axes = plt.subplots(figsize=(style.WIDTH, 4.2))[1]
    if plot.draw(run, axes) is None:
        raise ValueError(f"this run has nothing to draw as {name}")
    return axes


def _plots(run: Run) -> Sequence[Plot]:
    if run.complete and measure(run.result) is ERROR_RATE:
        return mse, over_time, calibration, experts, importance, weights, updates
    of_predictions = (predictions, coverage, experts, importance)
    return (mse, over_time, mse_over_labels, *of_predictions, regret, weights, usage,
            clients, server)  # fmt: skip


class Plot:
    """A figure of a run: calling it saves the figure.

    ``function`` draws the run into a new figure, or, with ``one_panel``, into axes that it is
    given; it returns None where the run has nothing to draw. Without a ``name`` the figure is
    called after what the run is judged by.
    """

    def __init__(self, function: Callable[..., Figure | None], name: str, one_panel: bool) -> None:
        functools.update_wrapper(self, function)
        self.one_panel = one_panel
        self._function, self._name = function, name

    def stem(self, run: Run) -> str:
        """The name of its file, without the suffix."""
        return self._name or measure(run.result).key

    def draw(self, run: Run, axes: Axes | None = None) -> Figure | None:
        """The figure, styled; ValueError for a run that is not complete."""
        if not run.complete:
            status = run.result["status"]
            raise ValueError(f"{run.folder} is {status}: only complete runs have curves")
        with style.applied():
            return self._function(run, axes) if self.one_panel else self._function(run)

    def __call__(
        self, run: Run, folder: Path | None = None, suffixes: Sequence[str] = style.PNG
    ) -> list[Path]:
        """Save the figure, in the run's folder by default; the paths, none of no figure."""
        figure = self.draw(run)
        if figure is None:
            return []
        with style.applied():
            return style.save(figure, folder or run.folder, self.stem(run), suffixes)


def _panels(name: str) -> Callable[[Callable[[Run], Figure | None]], Plot]:
    """A figure of several panels."""
    return lambda function: Plot(function, name, one_panel=False)


def _panel(name: str = "") -> Callable[[Callable[[Run, Axes | None], Figure | None]], Plot]:
    """A figure of one panel, which can be drawn into axes of others."""
    return lambda function: Plot(function, name, one_panel=True)


# --- curves over the rounds -----------------------------------------------------------------------


@_panel()
def mse(run: Run, into: Axes | None = None) -> Figure:
    """Mean squared error, or error rate, of rounds 1..t over t, beside the baselines.

    The first half per cent of the rounds is not drawn, of a short stream ten rounds: a mean of a
    handful of errors says little and would set the scale.
    """
    curves, kind = run.curves, measure(run.result)
    figure, axes = _single(into=into)
    skip = max(0.005, min(0.05, 10.0 / curves["t"][-1]))
    choose = functools.partial(style.drawn_rounds, skip=skip)
    drawn = choose(curves["t"])
    t = curves["t"][drawn]
    mean, std = style.mean_std(curves[kind.key][:, drawn])
    limits = [style.positive_limits(mean, std), *style.baseline_lines(axes, [run], choose)]
    low = min(low for low, _ in limits)
    style.band_line(axes, t, mean, std, 0, naming.name_of(run), floor=low)
    style.log_axis(axes.yaxis, low, max(high for _, high in limits))
    _name_rounds(axes, run, t, f"{style.axis_name(kind)} of rows 1..t")
    axes.set_xlim(right=t[-1])  # the lines end where their names begin
    axes.set_title(_title(run, f"running {kind.long}, {_seeds(run)}"))
    style.label_ends(axes)
    style.legend_of(figure, axes, into is not None)
    return figure


@_panel("labels")
def mse_over_labels(run: Run, into: Axes | None = None) -> Figure | None:
    """The same mean over the labels bought so far; nothing where all were, which is ``mse``."""
    if run.result["al_efficiency"] == 1.0:
        return None
    drawn = style.drawn_rounds(run.curves["t"], skip=0.005)
    bought = run.curves["labels"].mean(axis=0)[drawn]
    mean, std = style.mean_std(run.curves["mse"][:, drawn])
    figure, axes = _single(into=into)
    low, high = style.positive_limits(mean, std)
    style.band_line(axes, bought, mean, std, 0, naming.name_of(run), floor=low)
    style.log_axis(axes.yaxis, low, high)
    axes.set_xlim(0, bought[-1])
    axes.set(xlabel="targets requested", ylabel="MSE of all rows so far")
    share = f"{100.0 * run.result['al_efficiency']:.3g} % of the targets requested"
    axes.set_title(_title(run, f"running mean squared error, {share}"))
    style.label_ends(axes)
    return figure


@_panel("regret")
def regret(run: Run, into: Axes | None = None) -> Figure | None:
    """Cumulative squared error above each comparator's; nothing if none was computed."""
    curves, stated = run.curves, run.result["regret"]
    names = [name for name in stated if f"regret_{name}" in curves]
    if not names:
        return None
    drawn = style.drawn_rounds(curves["t"])
    t = curves["t"][drawn]
    notes = [
        style.wrapped(f"Not drawn: {entry['label']} ({entry['skipped']}).", 105)
        for entry in stated.values()
        if "skipped" in entry
    ]
    footnote = "\n".join(notes)
    lines_below = len(names) + footnote.count("\n") + (1 if notes else 0)
    figure, axes = _single(4.1 + 0.17 * lines_below, into=into)
    for index, name in enumerate(names):
        mean, std = style.mean_std(curves[f"regret_{name}"][:, drawn])
        style.band_line(axes, t, mean, std, index, style.wrapped(stated[name]["label"], 90))
    axes.axhline(0, color=style.GREY, linewidth=0.8)
    _name_rounds(axes, run, t, "cumulative squared error\nabove the comparator")
    axes.set_title(_title(run, f"regret, {_seeds(run)}"))
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.13), borderaxespad=0)
    if footnote and into is None:
        figure.supxlabel(footnote, x=0.01, ha="left", fontsize=7.5, color="#444444")
    return figure


@_panel("calibration")
def calibration(run: Run, into: Axes | None = None) -> Figure | None:
    """A reliability diagram: of rows with a predicted probability, how many were of the class."""
    if "calibration" not in run.curves:
        return None
    n, stated, true = run.curves["calibration"]
    there = n > 0
    figure, axes = _single(into=into)
    axes.plot([0, 1], [0, 1], color=style.GREY, linewidth=0.8, label="calibrated")
    p = stated[there] / n[there]
    deviation = np.sqrt(p * (1.0 - p) / n[there])
    looks = style.look(0) | {"linestyle": "-", "markersize": 4}
    label = "learner, with two standard errors of a calibrated one"
    axes.errorbar(p, true[there] / n[there], 2.0 * deviation, elinewidth=0.8, label=label, **looks)
    axes.set(xlim=(0, 1), ylim=(0, 1))
    classes = run.result.get("labels_of_classes", ())
    what = f"of {classes[1]}" if len(classes) == 2 else "of the predicted class"
    axes.set_xlabel(f"predicted probability {style.wrapped(what, 40)}")
    axes.set_ylabel("share of rows of that class")
    axes.set_title(_title(run, f"calibration, {_seeds(run)}"))
    style.legend_of(figure, axes, into is not None)
    return figure


# --- windows of the stream, and weights over time -------------------------------------------------


@_panels("over_time")
def over_time(run: Run) -> Figure | None:
    """The error of windows of the stream, and below it a heat map: kernels over time."""
    curves, kind = run.curves, measure(run.result)
    windows = windowed(run)
    if len(windows.edges) < 3:
        return None
    with_map = "weights_over_time" in curves and curves["weights_over_time"].shape[1] > 1
    figure = Figure(figsize=(style.WIDTH, 6.2 if with_map else 3.2))
    heights = [1.0, 1.35] if with_map else [1.0]
    grid = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)
    top, bottom = grid[0, 0], grid[-1, 0]
    _draw_windows(top, windows)
    top.set_ylabel(f"{style.axis_name(kind)} of a window")
    for axes in grid[:, 0]:
        style.mark_changes(axes, curves["change_rounds"], curves["t"])
    if with_map:
        _draw_map(figure, bottom, run)
    bottom.set_xlabel("row t")
    bottom.set_xlim(0, float(curves["t"][-1]))
    style.figure_legend(figure, [top])
    rows = pluralize(round(float(np.median(np.diff(windows.edges)))), "row")
    what = f"{kind.long} in windows of {rows} each"
    what += ", and weights" if with_map else ""
    figure.suptitle(_title(run, what), fontsize=10)
    return figure


def _draw_windows(axes: Axes, windows: Windowed) -> None:
    mean, std = style.mean_std(windows.loss)
    finite = np.isfinite(mean)
    if not finite.any():
        return
    low, high = style.positive_limits(mean[finite], None if std is None else std[finite])
    steps: dict[str, Any] = {"color": style.COLOURS[0]}
    shown = np.append(mean, mean[-1])
    axes.step(windows.edges, np.maximum(shown, low), where="post", **steps)
    if std is not None:
        below, above = (np.maximum(np.append(x, x[-1]), low) for x in (mean - std, mean + std))
        steps |= {"alpha": 0.2, "linewidth": 0}
        axes.fill_between(windows.edges, below, above, step="post", **steps)
    style.log_axis(axes.yaxis, low, high)


def _draw_map(figure: Figure, axes: Axes, run: Run) -> None:
    """Weights over time: kernels by family and bandwidth, or the experts that had most weight."""
    curves = run.curves
    weights = curves["weights_over_time"]
    if has_kernels(run):
        family, bandwidth = curves["kernel_family"], curves["kernel_bandwidth"]
        names = list(dict.fromkeys(family.tolist()))
        place = np.array([-names.index(name) for name in family.tolist()])  # the first is on top
        order = np.lexsort((bandwidth, place))
        values = weights[:, order].T
        _name_families(axes, family[order], bandwidth[order])
    else:
        values = _name_largest(axes, weights, expert_names(run))
    _draw_shares(figure, axes, curves["weights_t"], values, weights.shape[1], "weight")


def _name_largest(axes: Axes, shares: Array, names: Sequence[str]) -> Array:
    """The lines of a map of shares (G, N): the largest by name, the others together."""
    order = np.argsort(np.nansum(shares, axis=0), kind="stable")
    rest, shown = order[:-MOST_NAMES], order[-MOST_NAMES:]
    values, labels = shares[:, shown].T, [names[i] for i in shown]
    if len(rest):
        values = np.concatenate([shares[:, rest].sum(axis=1)[None], values])
        labels = [f"{len(rest)} others together", *labels]
    axes.set_yticks(np.arange(len(labels)) + 0.5, labels, fontsize=8)
    return values


def _draw_shares(figure: Figure, axes: Axes, t: Array, values: Array, n: int, what: str) -> None:
    """A heat map of lines (N, G) after rounds t (G,), shares among n; NaN is left white."""
    N = len(values)
    top = max(float(np.nanmax(values)), 2.0 / n)
    least = min(max(float(np.nanmin(values)), 0.01 / N), 0.5 / N)
    mesh = axes.pcolormesh(
        np.concatenate([[0], t]), np.arange(N + 1), np.maximum(values, least),
        norm=LogNorm(least, top), cmap="viridis", rasterized=True,
    )  # fmt: skip
    axes.grid(False)
    axes.set_ylim(0, N)
    bar = figure.colorbar(mesh, ax=axes, pad=0.01, aspect=28, label=what)
    style.log_axis(bar.ax.yaxis, least, top)


def _shares(n: int) -> Callable[[float, float], float]:
    """For ``log_ticks``: as many of them as ``n``."""
    return lambda lower, upper: 1.0 / n


def _name_families(axes: Axes, family: Array, bandwidth: Array) -> None:
    """Round bandwidths of each family, a line between families, and their names in the map."""
    starts = [0, *(np.flatnonzero(family[1:] != family[:-1]) + 1).tolist(), len(family)]
    ticks, labels = [], []
    for start, end in itertools.pairwise(starts):
        if start:
            axes.axhline(start, color="white", linewidth=1.2)
        values = bandwidth[start:end]
        n = max(1, round(9 * (end - start) / len(family)))
        chosen = style.log_ticks(values[0], values[-1], _shares(n)) or [values[0]]
        rows = np.interp(np.log(chosen), np.log(values), np.arange(start, end)) + 0.5
        apart = [row - start > 0.05 * len(family) or not start for row in rows]
        ticks += list(itertools.compress(rows.tolist(), apart))
        labels += [f"{value:.3g}" for value in itertools.compress(chosen, apart)]
        axes.annotate(
            str(family[start]), (0.0, end), (3, -2), xycoords=("axes fraction", "data"),
            textcoords="offset points", va="top", fontsize=8, color="black",
            bbox={"boxstyle": "square,pad=0.15", "facecolor": "white", "linewidth": 0},
        )  # fmt: skip
    axes.set_yticks(ticks, labels)
    differ_in = dict.fromkeys(FAMILIES.get(name, Family).label for name in family.tolist())
    axes.set_ylabel(" or ".join(differ_in))


# --- predictions ----------------------------------------------------------------------------------


@_panel("predictions")
def predictions(run: Run, into: Axes | None = None) -> Figure | None:
    """Predictions beside their targets, with intervals: the last rows, and those worst predicted.

    The intervals are those of ``interval``, or of 90 % by the learner's standard deviation. Rows
    in random order are points: a line through them would show a course that there is not. Axes
    of somebody else have the last rows alone. Of a short stream both are mostly the same rows:
    they are drawn once.
    """
    if "recent_t" not in run.curves:
        return None
    stretches = {name: _stretch(run, name) for name in ("worst", "recent")}
    worst, last = (stretch["t"] for stretch in stretches.values())
    n, seed = len(last), run.result["seeds"][0]
    of_seed = f", seed {seed}" if len(run.result["seeds"]) > 1 else ""
    is_before = worst < last[0]
    if into is not None or 2 * is_before.sum() <= len(worst):
        figure, axes = _single(3.8, into=into)
        shown, stretch = f"the last {n} rows", stretches["recent"]
        if into is None and is_before.any():
            shown = f"rows {worst[0]:,} to {last[-1]:,}, the largest error and the last rows"
            for name, rows in stretches["worst"].items():  # some have none
                stretch[name] = np.append(rows[is_before[: len(rows)]], stretch[name])
        _draw_stretch(axes, run, stretch)
        axes.set_title(_title(run, f"predictions of {shown}{of_seed}"))
        style.legend_of(figure, axes, into is not None)
        return figure
    figure = Figure(figsize=(style.WIDTH, 6.0))
    panels = figure.subplots(2, 1)
    what = (f"rows {worst[0]:,} to {worst[-1]:,}, the largest error", f"the last {n:,} rows")
    for axes, stretch, title in zip(panels, stretches.values(), what, strict=True):
        _draw_stretch(axes, run, stretch)
        rmse = np.sqrt(np.nanmean(np.square(stretch["y_hat"] - stretch["y"])))
        axes.set_title(f"{title}: RMSE {naming.readable(float(rmse))}")
    figure.suptitle(_title(run, f"predictions{of_seed}"), fontsize=10)
    style.figure_legend(figure, panels)
    return figure


def _stretch(run: Run, name: str) -> dict[str, Array]:
    """Arrays of rows that are drawn, by their names; none are of a run that has no such rows."""
    names = ("t", "y", "y_hat", "spread", "half", "time")
    none = np.empty(0)
    return {array: run.curves.get(f"{name}_{array}", none) for array in names}


def _draw_stretch(axes: Axes, run: Run, stretch: dict[str, Array]) -> None:
    """Targets, predictions and intervals over the rows, or over times that increase."""
    t, y, y_hat, spread, half, time = stretch.values()
    shuffled = run.config.get("stream", {}).get("order") == "shuffled"
    colour = style.look(0)["color"]
    percent = 90.0
    if interval := run.result.get("interval"):  # of so few rows none may be known
        percent = 100.0 * interval["level"]
    else:
        half = NormalDist().inv_cdf(0.95) * spread
    if in_time := len(time) > 1 and not shuffled and bool(np.all(np.diff(time) > 0.0)):
        t = time
        style.time_axis(axes)
    if np.isfinite(half).any():
        label = f"{percent:g} % interval"
        if shuffled:
            bars = {"color": colour, "alpha": 0.4, "linewidth": 1.6}
            axes.vlines(t, y_hat - half, y_hat + half, label=label, **bars)
        else:
            band = {"color": colour, "alpha": 0.2, "linewidth": 0}
            axes.fill_between(t, y_hat - half, y_hat + half, label=label, **band)
    line: dict[str, Any] = {"color": colour, "linewidth": 1.2, "label": "prediction"}
    axes.plot(t, y_hat, **line | ({"linestyle": "none", "marker": "_"} if shuffled else {}))
    axes.plot(t, y, color="#444444", linestyle="none", marker=".", markersize=3, label="target")
    margin = 0.5 * (t[-1] - t[0]) / max(len(t) - 1, 1)
    axes.set_xlim(t[0] - margin, t[-1] + margin)
    axes.set_xlabel("time" if in_time else "row in random order" if shuffled else "row t")
    scaled = ", scaled to [0, 1]" if scaling_of(run.result) == "whole" else ""
    axes.set_ylabel(f"{run.result['stream']['target']}{scaled}", parse_math=False)


@_panel("coverage")
def coverage(run: Run, into: Axes | None = None) -> Figure | None:
    """How many targets lay in their intervals, window by window; means over the seeds.

    The band is where a window's share lies, two standard errors up and down, if every row is
    covered with the probability that was requested and rows are independent.
    """
    lines = []
    if windows := run.result.get("spread", {}).get("windows"):
        share = run.result["spread"].get("coverage_50")
        more = "" if share is None else f" (its 50 % intervals cover {100.0 * share:.1f} %)"
        lines.append((90.0, f"of the learner{more}", windows["until"], windows["coverage_90"]))
    interval = run.result.get("interval", {})
    if windows := interval.get("windows"):
        level = 100.0 * interval["level"]
        lines.append((level, "adaptive", windows["until"], windows["coverage"]))
    if not lines:
        return None
    figure, axes = _single(3.4, into=into)
    low = 80.0
    for index, (percent, kind, until, shares) in enumerate(lines):
        ends, percents, n_rows = stats.coverage_of_windows(until, shares)
        if percent not in [line[0] for line in lines[:index]]:
            style.binomial_band(axes, ends, percent, n_rows)
            low = min(low, percent - 10.0)
        axes.plot(ends, percents, label=f"{percent:g} % {kind}", **style.look(index))
        if np.isfinite(percents).any():
            low = min(low, 5.0 * math.floor(float(np.nanmin(percents)) / 5.0))
    axes.set_ylim(max(low, 0.0), 100.5)
    last = max(until[-1] for _, _, until, _ in lines)
    axes.set_xlim(0, last)
    style.mark_changes(axes, run.curves["change_rounds"], np.array([1, last]))
    axes.set(xlabel="last row of the window", ylabel="targets covered, % of a window")
    axes.set_title(_title(run, "coverage of intervals"))
    style.legend_of(figure, axes, into is not None)
    return figure


# --- experts and kernels --------------------------------------------------------------------------


@_panel("experts")
def experts(run: Run, into: Axes | None = None) -> Figure | None:
    """Weights of experts that are no kernels, by name; nothing for a learner of kernels."""
    names = expert_names(run)
    if has_kernels(run) or len(names) < 2:
        return None
    mean, std = style.mean_std(run.curves["weights"])
    order = np.argsort(-mean, kind="stable")
    shown = order[: max(2, int((mean >= LEAST_WEIGHT).sum()))]
    figure, axes = _single(max(2.8, 0.9 + 0.2 * len(shown)), into=into)
    places, errors = np.arange(len(shown)), None if std is None else std[shown]
    bars: dict[str, Any] = {"color": style.COLOURS[0], "height": 0.6, "error_kw": WHISKERS}
    axes.barh(places, mean[shown], xerr=errors, **bars)
    axes.set_yticks(places, [names[i] for i in shown])
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel("weight after the last row")
    rest = order[len(shown) :]
    together = f", {len(rest)} more together {100.0 * mean[rest].sum():.1f} %" if len(rest) else ""
    axes.set_title(_title(run, f"experts by weight{together}"))
    return figure


@_panel("importance")
def importance(run: Run, into: Axes | None = None) -> Figure | None:
    """Which inputs mattered over time; nothing where it was not known at two times or more."""
    curves = run.curves
    shares = curves.get("importance_over_time", np.empty((0, 0)))
    known = curves["weights_t"][np.isfinite(shares).all(axis=1)] if len(shares) else []
    if len(known) < 2:
        return None
    names = curves["input_names"].tolist()
    figure, axes = _single(max(2.8, 1.4 + 0.2 * min(len(names), MOST_NAMES + 1)), into=into)
    values = _name_largest(axes, shares, names)
    _draw_shares(figure, axes, curves["weights_t"], values, len(names), "importance")
    style.mark_changes(axes, curves["change_rounds"], curves["t"])
    axes.set_xlim(0, float(curves["t"][-1]))
    axes.set_xlabel("row t")
    what = f"importance of inputs, first known at row {known[0]:,}"
    axes.set_title(_title(run, what))
    return figure


@_panels("weights")
def weights(run: Run) -> Figure | None:
    """Expert weights (R, N) after the last round, over the dictionary; nothing without any."""
    if "weights" not in run.curves or not has_kernels(run):
        return None
    mean, std = style.mean_std(run.curves["weights"])
    uniform = 1 / len(mean)
    # A weight far above the rest hides it on a linear axis; below a thousandth of
    # the uniform weight the order no longer matters.
    concentrated = mean.max() > 20 * max(float(np.median(mean)), 1e-300)
    floor = 1e-3 * uniform

    def draw(axes: Axes, members: Array, bandwidth: Array) -> None:
        axes.axhline(uniform, color=style.GREY, linewidth=0.9, label=f"uniform, 1/{len(mean)}")
        below = mean[members] < floor if concentrated else np.zeros(len(members), bool)
        spread = None if std is None else std[members]
        _points(axes, bandwidth, mean[members], spread, run, floor=floor, shown=~below)
        if below.any():
            axes.plot(
                bandwidth[below], np.full(below.sum(), 1.25 * floor), linestyle="none",
                marker="v", color=style.COLOURS[1], label="below a thousandth of uniform",
            )  # fmt: skip
        if concentrated:
            style.log_axis(axes.yaxis, floor, 1.5)
        else:
            axes.set_ylim(0, 1.08 * max(_top(mean, std), uniform))

    label = "expert weight after the last row"
    return _over_dictionary(run, "expert weights", label, draw)


@_panels("usage")
def usage(run: Run) -> Figure | None:
    """Share of the rows in which each kernel was evaluated, over the dictionary.

    Nothing where all kernels are evaluated in all rows, as in a federation, and for what has no
    kernel.
    """
    if "usage" not in run.curves or not has_kernels(run):
        return None
    mean, std = style.mean_std(run.curves["usage"] / run.result["n_rounds"])
    if mean.min() == mean.max() == 1.0:
        return None

    def draw(axes: Axes, members: Array, bandwidth: Array) -> None:
        spread = None if std is None else std[members]
        _points(axes, bandwidth, mean[members], spread, run, ceiling=1.0)
        axes.set_ylim(-0.03, 1.03)

    per_round = run.result["kernels_per_round"]
    what = f"{per_round:.4g} of {pluralize(len(mean), 'kernel')} evaluated per row"
    return _over_dictionary(run, what, "share of rows evaluated", draw)


@_panels("updates")
def updates(run: Run) -> Figure | None:
    """Rounds in which each kernel's classifier learned, over the dictionary, if it is one."""
    if not has_kernels(run):
        return None
    mean, std = style.mean_std(run.curves["updates"])

    def draw(axes: Axes, members: Array, bandwidth: Array) -> None:
        _points(axes, bandwidth, mean[members], None if std is None else std[members], run)
        axes.set_ylim(0, 1.08 * max(_top(mean, std), 1.0))

    what = f"{mean.mean():,.1f} updates per kernel in {run.result['n_rounds']:,} rows"
    return _over_dictionary(run, what, "updates of the classifier", draw)


def _over_dictionary(
    run: Run, what: str, ylabel: str, draw: Callable[[Axes, Array, Array], None]
) -> Figure:
    """A panel per kernel family; ``draw`` gets its axes, the indices of its kernels, bandwidths."""
    family, bandwidth = run.curves["kernel_family"], run.curves["kernel_bandwidth"]
    names = list(dict.fromkeys(family.tolist()))
    figure = Figure(figsize=(max(style.WIDTH, 3.0 * len(names)), 3.8))
    grid = figure.subplots(1, len(names), sharey=True, squeeze=False)
    for axes, name in zip(grid[0], names, strict=True):
        members = np.flatnonzero(family == name)
        members = members[np.argsort(bandwidth[members], kind="stable")]
        values, n = bandwidth[members], len(members)
        axes.set_title(f"{name.capitalize()}, {pluralize(n, 'kernel')}")
        axes.set_xlabel(FAMILIES.get(name, Family).label)  # see has_kernels
        margin = max(1.1, (values[-1] / values[0]) ** 0.05) if n > 1 else 4.0
        style.log_axis(axes.xaxis, values[0] / margin, values[-1] * margin)
        draw(axes, members, values)
    grid[0, 0].set_ylabel(ylabel)
    style.figure_legend(figure, list(grid[0]))
    figure.suptitle(_title(run, what), fontsize=10)
    return figure


def _points(
    axes: Axes,
    x: Array,
    mean: Array,
    std: Array | None,
    run: Run,
    floor: float = 0.0,
    ceiling: float = math.inf,
    shown: Array | slice = slice(None),
) -> None:
    """Points with whiskers of one standard deviation, cut off at floor and ceiling."""
    errors = None
    if std is not None:
        lower = np.clip(mean - std, min(floor, float(mean.min())), None)
        upper = np.clip(mean + std, None, max(ceiling, float(mean.max())))
        errors = np.stack([mean - lower, upper - mean])[:, shown]
    looks: dict[str, Any] = {"color": style.COLOURS[0], "marker": "o", "markersize": 3.5}
    looks |= {"linestyle": "none", "label": _seeds(run), **WHISKERS}
    axes.errorbar(x[shown], mean[shown], yerr=errors, **looks)


def _top(mean: Array, std: Array | None) -> float:
    return float((mean if std is None else mean + std).max())


# --- federations ----------------------------------------------------------------------------------


@_panels("clients")
def clients(run: Run) -> Figure | None:
    """Mean regret over time, and every client's regret in the end, all by (11).

    Nothing for a run that is no federation of kernel learners.
    """
    if "client_regret" not in run.curves:
        return None
    t = run.curves["t"]
    drawn = style.drawn_rounds(t)
    figure = Figure(figsize=(style.WIDTH, 3.6))
    left, right = figure.subplots(1, 2)
    mean, std = style.mean_std(run.curves["regret_clients"][:, drawn])
    style.band_line(left, t[drawn], mean, std, 0, "mean over the clients")
    style.round_axis(left, t[drawn])
    left.set(xlabel="round t", ylabel="regret against the best online kernel")
    left.legend(loc="best")
    sorted_clients(right, run, 0)
    right.set(xlabel="clients by regret", ylabel="regret after the last round")
    title = f"{naming.name_of(run)} on {run.result['dataset']}: regret of the clients"
    figure.suptitle(style.wrapped(title, 90), fontsize=10)
    return figure


@_panel("server")
def server(run: Run, into: Axes | None = None) -> Figure | None:
    """Regret of the server over time, (12); nothing where it is not known."""
    if "server_regret" not in run.curves:
        return None
    t = run.curves["t"]
    drawn = style.drawn_rounds(t)
    figure, axes = _single(into=into)
    mean, std = style.mean_std(run.curves["server_regret"][:, drawn])
    style.band_line(axes, t[drawn], mean, std, 0, "sum over the clients")
    style.round_axis(axes, t[drawn])
    axes.set(xlabel="round t", ylabel="loss of all clients above that of\nthe best function (12)")
    title = f"{naming.name_of(run)} on {run.result['dataset']}: regret of the server"
    axes.set_title(style.wrapped(title, 90))
    axes.legend(loc="best")
    return figure


def sorted_clients(axes: Axes, run: Run, index: int) -> None:
    """Each client's regret, mean over the seeds, smallest first; the seeds' deviation as a band."""
    mean, std = style.mean_std(run.curves["client_regret"])
    order = np.argsort(mean)
    share = (np.arange(len(mean)) + 0.5) / len(mean)
    looks = style.look(index) | {"marker": ""}
    axes.plot(share, mean[order], **looks)
    if std is not None:
        low, high = (mean - std)[order], (mean + std)[order]
        axes.fill_between(share, low, high, color=looks["color"], alpha=0.15, linewidth=0)
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.5, 1], ["least", "median", "most"])


# --- what they share ------------------------------------------------------------------------------


def _single(height: float = 4.2, into: Axes | None = None) -> tuple[Figure, Axes]:
    """A figure with one panel; ``into``: these axes, and the figure that they are of."""
    if into is not None:
        figure = into.get_figure(root=True)
        assert figure is not None
        return figure, into
    figure = Figure(figsize=(style.WIDTH, height))
    return figure, figure.add_subplot()


def _name_rounds(axes: Axes, run: Run, t: Array, ylabel: str) -> None:
    """The axis of the rows t, the changes of the stream, and what is drawn over them."""
    style.round_axis(axes, t)
    style.mark_changes(axes, run.curves["change_rounds"], t)
    axes.set(xlabel="row t", ylabel=ylabel)


def _title(run: Run, what: str) -> str:
    heading = style.wrapped(f"{naming.name_of(run)} on {naming.data_name(run)}", 80)
    return f"{heading}\n{style.wrapped(what, 90)}"


def _seeds(run: Run) -> str:
    return over_seeds(len(run.result["seeds"]))
