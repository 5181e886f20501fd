"""Draw the figures of one run.

Each function draws one figure of a run, and returns None if the run lacks the data for the figure.
A function that draws a single panel has the parameter ``into``: Axes to draw into, or None for a
new figure.

Shapes: R seeds, P recorded rounds, N kernels, K clients, G rounds after which weights are recorded.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from omkl.core.kernels import FAMILIES, Family
from omkl.report import naming, style
from omkl.report.naming import expert_names, has_kernels
from omkl.report.stats import windowed
from omkl.runs.run_folder import ERROR_RATE, Run, measure, scaling_of
from omkl.runs.writing import publish_figures, staging_folder
from omkl.utils.wording import over_seeds, pluralize

Array = np.ndarray
Draw = Callable[..., Figure | None]

MOST_NAMES = 12  # largest number of experts in the heat map, one per line
LEAST_WEIGHT = 0.005  # experts with smaller weights have no bar


def all_figures(run: Run, folder: Path, suffixes: Sequence[str] = style.PNG) -> list[Path]:
    """Save the figures of a run, and return their paths.

    Parameters
    ----------
    run
        Complete run.
    folder
        Folder of the files.
    suffixes
        "png" and "pdf", or one of them.

    Raises
    ------
    ValueError
        The run is not complete.
    """
    return [
        path
        for name, figure in figures_of(run)
        for path in style.save(figure, folder, name, suffixes)
    ]


def write_figures(run: Run, suffixes: Sequence[str] = style.PNG) -> None:
    """Draw the figures of a run into its folder. Existing figures are replaced."""
    with staging_folder(run.folder) as staging:
        all_figures(run, staging, suffixes)
        publish_figures(run, staging)


def figures_of(run: Run) -> Iterator[tuple[str, Figure]]:
    """Draw the figures of a run one after another. Yield the name and the figure."""
    for name, draw in _drawings(run).items():
        with style.applied():
            figure = draw(run)
        if figure is not None:
            yield name, figure


def draw_into(run: Run, name: str | None = None, axes: Axes | None = None) -> Axes:
    """Draw a figure that has one panel into given axes, and return them.

    Parameters
    ----------
    run
        Complete run.
    name
        Name of the figure; None: the running error.
    axes
        Axes to draw into; None: new ones of ``matplotlib.pyplot``.

    Raises
    ------
    ValueError
        There is no such figure, the figure has several panels, or the run has no data for it.
    """
    drawings = _drawings(run)
    name = measure(run.result).key if name is None else name
    if name not in drawings:
        raise ValueError(f"there is no plot {name!r} of this run; there are: {', '.join(drawings)}")
    draw = drawings[name]
    if "into" not in inspect.signature(draw).parameters:
        raise ValueError(f"{name} has several panels: run.plots()[{name!r}] is its figure")
    with style.applied():
        if axes is None:
            import matplotlib.pyplot as plt  # pyplot shows the figure in a notebook

            axes = plt.subplots(figsize=(style.WIDTH, 4.2))[1]
        if draw(run, axes) is None:
            raise ValueError(f"this run has nothing to draw as {name}")
    return axes


def _drawings(run: Run) -> dict[str, Draw]:
    """Return the functions that draw a run by the names of their figures."""
    if not run.complete:
        raise ValueError(f"{run.folder} is {run.result['status']}: only complete runs have curves")
    drawings: dict[str, Draw] = {measure(run.result).key: error, "over_time": over_time}
    if measure(run.result) is not ERROR_RATE:
        drawings |= {"predictions": predictions, "coverage": coverage}
        drawings |= {"regret": regret, "clients": clients, "graph": graph}
    return drawings | {"experts": experts, "importance": importance, "weights": weights}


# --- curves over the rounds -----------------------------------------------------------------------


def error(run: Run, into: Axes | None = None) -> Figure:
    """Draw the error of rows 1..t over t, with the baselines.

    The first 0.5 % of the rows are not drawn, or about the first ten rows of a short stream. Errors
    over so few rows vary much and would determine the limits of the axis.
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
    _name_rows(axes, run, f"{style.axis_name(kind)} of rows 1..t")
    axes.set_title(_title(run, f"running {kind.long}, {_seeds(run)}"))
    _legend(figure, axes, into)
    return figure


def regret(run: Run, into: Axes | None = None) -> Figure | None:
    """Draw the regret against each comparator over the rows."""
    curves, stated = run.curves, run.result["regret"]
    names = [name for name in stated if f"regret_{name}" in curves]
    if not names:
        return None
    drawn = style.drawn_rounds(curves["t"])
    t = curves["t"][drawn]
    figure, axes = _single(4.4, into=into)
    for index, name in enumerate(names):
        mean, std = style.mean_std(curves[f"regret_{name}"][:, drawn])
        style.band_line(axes, t, mean, std, index, style.wrapped(stated[name]["label"], 90))
    axes.axhline(0, color=style.GREY, linewidth=0.8)
    _name_rows(axes, run, "cumulative loss above the comparator")
    axes.set_title(_title(run, f"regret, {_seeds(run)}"))
    _legend(figure, axes, into)
    return figure


# --- windows of the stream, and weights over time -------------------------------------------------


def over_time(run: Run) -> Figure | None:
    """Draw the error of windows of the stream above a heat map of weights over time."""
    curves, kind = run.curves, measure(run.result)
    windows = windowed(run)
    if len(windows.edges) < 3:
        return None
    with_map = "weights_over_time" in curves and curves["weights_over_time"].shape[1] > 1
    figure = Figure(figsize=(style.WIDTH, 6.2 if with_map else 3.2))
    heights = [1.0, 1.35] if with_map else [1.0]
    grid = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)
    top, bottom = grid[0, 0], grid[-1, 0]
    mean, std = style.mean_std(windows.loss)
    if (finite := np.isfinite(mean)).any():
        low, high = style.positive_limits(mean[finite], None if std is None else std[finite])
        shown = np.maximum(mean, low)
        top.stairs(shown, windows.edges, baseline=None, color=style.COLOURS[0])
        if std is not None:
            below = np.maximum(mean - std, low)
            looks: dict[str, Any] = {"color": style.COLOURS[0], "alpha": 0.2, "linewidth": 0}
            top.stairs(mean + std, windows.edges, baseline=below, fill=True, **looks)
        style.log_axis(top.yaxis, low, high)
    top.set_ylabel(f"{style.axis_name(kind)} of a window")
    if with_map:
        _draw_map(figure, bottom, run)
    for axes in grid[:, 0]:
        _name_rows(axes, run)
    top.set_xlabel("" if with_map else top.get_xlabel())
    style.figure_legend(figure, [top])
    rows = pluralize(round(float(np.median(np.diff(windows.edges)))), "row")
    what = f"{kind.long} in windows of {rows} each"
    figure.suptitle(_title(run, what + (", and weights" if with_map else "")), fontsize=10)
    return figure


def _draw_map(figure: Figure, axes: Axes, run: Run) -> None:
    """Draw a heat map of weights over time.

    Kernels are sorted by family and bandwidth. If the experts are not kernels, the experts with the
    largest weights have a line each, and all other experts share one line.
    """
    curves = run.curves
    weights = curves["weights_over_time"]
    if has_kernels(run):
        family, bandwidth = curves["kernel_family"], curves["kernel_bandwidth"]
        order = _kernel_order(curves)
        values = weights[:, order].T
        _name_families(axes, family[order], bandwidth[order])
    else:
        values = _name_largest(axes, weights, expert_names(run))
    _draw_shares(figure, axes, curves["weights_t"], values, weights.shape[1], "weight")


def _name_largest(axes: Axes, shares: Array, names: Sequence[str]) -> Array:
    """Return the values (n, G) of the n lines of a heat map, and label the lines.

    ``shares`` (G, N) are the shares of N experts. The experts with the largest shares have a line
    each. One more line is the sum of all other shares.
    """
    order = np.argsort(np.nansum(shares, axis=0), kind="stable")
    rest, shown = order[:-MOST_NAMES], order[-MOST_NAMES:]
    values, labels = shares[:, shown].T, [names[i] for i in shown]
    if len(rest):
        values = np.concatenate([shares[:, rest].sum(axis=1)[None], values])
        labels = [f"{len(rest)} others together", *labels]
    axes.set_yticks(np.arange(len(labels)) + 0.5, labels, fontsize=8)
    return values


def _draw_shares(figure: Figure, axes: Axes, t: Array, values: Array, n: int, what: str) -> None:
    """Draw a heat map of shares ``values`` (lines, G) after the rounds t (G,). NaN is white.

    ``n`` is the number of experts, and ``what`` the label of the colours.
    """
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


def _kernel_order(curves: Mapping[str, Array]) -> Array:
    """Return indices that sort kernels by family, the last family first, then by bandwidth."""
    family = curves["kernel_family"].tolist()
    names = list(dict.fromkeys(family))
    places = np.array([-names.index(name) for name in family])
    return np.lexsort((curves["kernel_bandwidth"], places))


def _kernel_ticks(family: Array) -> list[int]:
    """Return the indices of the kernels that get a tick.

    They are the first kernel of each family, the middle kernel of a large family, and the last
    kernel.
    """
    ticks: list[int] = []
    starts = [0, *(np.flatnonzero(family[1:] != family[:-1]) + 1).tolist(), len(family)]
    for start, end in itertools.pairwise(starts):
        ticks += [start] if end - start < 0.15 * len(family) else [start, (start + end - 1) // 2]
    return sorted({*ticks, len(family) - 1})


def _name_families(axes: Axes, family: Array, bandwidth: Array) -> None:
    """Label the bandwidths at the axis of the map, and the families inside the map."""
    ends = [*(np.flatnonzero(family[1:] != family[:-1]) + 1).tolist(), len(family)]
    for end in ends:
        if end < len(family):
            axes.axhline(end, color="white", linewidth=1.2)
        axes.annotate(
            str(family[end - 1]), (0.0, end), (3, -2), xycoords=("axes fraction", "data"),
            textcoords="offset points", va="top", fontsize=8, color="black",
            bbox={"boxstyle": "square,pad=0.15", "facecolor": "white", "linewidth": 0},
        )  # fmt: skip
    ticks = _kernel_ticks(family)
    axes.set_yticks([tick + 0.5 for tick in ticks], [f"{bandwidth[tick]:.3g}" for tick in ticks])
    differ_in = dict.fromkeys(FAMILIES.get(name, Family).label for name in family.tolist())
    axes.set_ylabel(" or ".join(differ_in))


# --- predictions ----------------------------------------------------------------------------------


def predictions(run: Run, into: Axes | None = None) -> Figure | None:
    """Draw predictions and targets of the last rows, with intervals, over rows or dates.

    The intervals are those of ``interval=``. Without this setting they are 90 % intervals from the
    learner's standard deviation. Rows in random order are drawn as points, because a line would
    suggest an order in time.
    """
    if "recent_t" not in run.curves:
        return None
    recent = {
        n.removeprefix("recent_"): v for n, v in run.curves.items() if n.startswith("recent_")
    }
    t, y, y_hat = recent["t"], recent["y"], recent["y_hat"]
    figure, axes = _single(3.8, into=into)
    shuffled = run.config.get("stream", {}).get("order") == "shuffled"
    colour, percent = style.COLOURS[0], 90.0
    if interval := run.result.get("interval"):  # few rows may have no interval
        percent, unknown = 100.0 * interval["level"], np.full(len(t), np.nan)
        low, high = recent.get("low", unknown), recent.get("high", unknown)
    else:
        half = NormalDist().inv_cdf(0.95) * recent["spread"]
        low, high = y_hat - half, y_hat + half
    if np.isfinite(low).any():
        looks: dict[str, Any] = {"color": colour, "label": f"{percent:g} % interval"}
        if shuffled:
            axes.vlines(t, low, high, alpha=0.4, linewidth=1.6, **looks)
        else:
            axes.fill_between(t, low, high, alpha=0.2, linewidth=0, **looks)
    line: dict[str, Any] = {"linestyle": "none", "marker": "_"} if shuffled else {"linewidth": 1.2}
    axes.plot(t, y_hat, color=colour, label="prediction", **line)
    axes.plot(t, y, color="#444444", linestyle="none", marker=".", markersize=3, label="target")
    axes.margins(x=0.01)
    if shuffled:
        axes.set_xlabel("row in random order")
    else:
        style.row_axis(axes, recent, from_first=True)
    scaled = ", scaled to [0, 1]" if scaling_of(run.result) == "whole" else ""
    axes.set_ylabel(f"{run.result['stream']['target']}{scaled}", parse_math=False)
    rmse = naming.readable(float(np.sqrt(np.nanmean(np.square(y_hat - y)))))
    of_seed = f", seed {run.result['seeds'][0]}" if len(run.result["seeds"]) > 1 else ""
    axes.set_title(_title(run, f"predictions of the last {len(t)} rows{of_seed}: RMSE {rmse}"))
    _legend(figure, axes, into)
    return figure


def coverage(run: Run, into: Axes | None = None) -> Figure | None:
    """Draw the coverage of intervals in windows of the stream, as means over the seeds.

    The band shows the requested coverage plus and minus two standard errors for independent rows.
    """
    windows = run.result.get("interval", {}).get("windows")
    if not windows:
        return None
    percent = 100.0 * run.result["interval"]["level"]
    ends, percents = np.array(windows["until"]), 100.0 * np.array(windows["coverage"], dtype=float)
    figure, axes = _single(3.4, into=into)
    edges = np.append(0, ends)
    error = 2.0 * np.sqrt(percent * (100.0 - percent) / np.diff(edges))
    axes.stairs(
        np.minimum(percent + error, 100.0), edges, baseline=percent - error, fill=True,
        color=style.GREY, alpha=0.15, linewidth=0, label="two standard errors of a window",
    )  # fmt: skip
    axes.axhline(percent, color=style.GREY, linewidth=0.8)
    axes.plot(ends, percents, label=f"{percent:g} % interval", **style.look(0))
    lowest = np.nanmin(np.append(percents, percent - 10.0))
    axes.set_ylim(max(5.0 * math.floor(lowest / 5.0), 0.0), 100.5)
    _name_rows(axes, run, "targets covered, % of a window")
    axes.set_title(_title(run, "coverage of intervals"))
    _legend(figure, axes, into)
    return figure


# --- experts and kernels --------------------------------------------------------------------------


def experts(run: Run, into: Axes | None = None) -> Figure | None:
    """Draw a bar chart of the weights after the last row, for experts that are not kernels."""
    names = expert_names(run)
    if has_kernels(run) or len(names) < 2:
        return None
    mean, std = style.mean_std(run.curves["weights"])
    order = np.argsort(-mean, kind="stable")
    shown = order[: max(2, int((mean >= LEAST_WEIGHT).sum()))]
    figure, axes = _single(max(2.8, 0.9 + 0.2 * len(shown)), into=into)
    places, errors = np.arange(len(shown)), None if std is None else std[shown]
    bars: dict[str, Any] = {"color": style.COLOURS[0], "height": 0.6, "ecolor": "#7fb2d6"}
    axes.barh(places, mean[shown], xerr=errors, **bars)
    axes.set_yticks(places, [names[i] for i in shown])
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel("weight after the last row")
    rest = order[len(shown) :]
    together = f", {len(rest)} more together {100.0 * mean[rest].sum():.1f} %" if len(rest) else ""
    axes.set_title(_title(run, f"experts by weight{together}"))
    return figure


def importance(run: Run, into: Axes | None = None) -> Figure | None:
    """Draw the importance of inputs over time, if importance is known at two or more times."""
    curves = run.curves
    shares = curves.get("importance_over_time", np.empty((0, 0)))
    known = curves["weights_t"][np.isfinite(shares).all(axis=1)] if len(shares) else []
    if len(known) < 2:
        return None
    names = curves["input_names"].tolist()
    figure, axes = _single(max(2.8, 1.4 + 0.2 * min(len(names), MOST_NAMES + 1)), into=into)
    values = _name_largest(axes, shares, names)
    _draw_shares(figure, axes, curves["weights_t"], values, len(names), "importance")
    _name_rows(axes, run)
    what = f"importance of inputs, first known at row {known[0]:,}"
    axes.set_title(_title(run, what))
    return figure


def weights(run: Run) -> Figure | None:
    """Draw weights of kernels after the last row by bandwidth, with one panel per family."""
    if "weights" not in run.curves or not has_kernels(run):
        return None
    mean, std = style.mean_std(run.curves["weights"])
    family, bandwidth = run.curves["kernel_family"], run.curves["kernel_bandwidth"]
    names = list(dict.fromkeys(family.tolist()))
    figure = Figure(figsize=(max(style.WIDTH, 3.0 * len(names)), 3.8))
    grid = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    floor = 1e-3 / len(mean)  # smaller weights are drawn as this one
    # A weight far above the others needs a logarithmic axis.
    concentrated = mean.max() > 20 * max(float(np.median(mean)), 1e-300)
    for axes, name in zip(grid, names, strict=True):
        members = np.flatnonzero(family == name)
        x, y = bandwidth[members], np.maximum(mean[members], floor if concentrated else 0.0)
        error = None if std is None else [np.clip(y - floor, 0.0, std[members]), std[members]]
        axes.axhline(
            1 / len(mean), color=style.GREY, linewidth=0.9, label=f"uniform, 1/{len(mean)}"
        )
        looks: dict[str, Any] = {"color": style.COLOURS[0], "ecolor": "#7fb2d6", "elinewidth": 1}
        axes.errorbar(x, y, error, marker="o", markersize=3.5, linestyle="none",
                      label=_seeds(run), **looks)  # fmt: skip
        axes.set_title(f"{name.capitalize()}, {pluralize(len(members), 'kernel')}")
        axes.set_xlabel(FAMILIES.get(name, Family).label)  # see has_kernels
        margin = max(1.1, (x.max() / x.min()) ** 0.05) if len(x) > 1 else 4.0
        style.log_axis(axes.xaxis, x.min() / margin, x.max() * margin)
    grid[0].set_ylabel("expert weight after the last row")
    if concentrated:
        style.log_axis(grid[0].yaxis, floor / 1.3, 1.5)
    else:
        grid[0].set_ylim(bottom=0)
    style.figure_legend(figure, list(grid))
    figure.suptitle(_title(run, "expert weights"), fontsize=10)
    return figure


def graph(run: Run, into: Axes | None = None) -> Figure | None:
    """Draw the feedback graph of the first seed after the last row.

    A square marks a kernel that a node evaluates. Kernels are sorted by family and bandwidth. The
    nodes of OMKL-SFG and its variants are kernels. The nodes of OMKL-GF are selective nodes.
    """
    if "graph" not in run.curves:
        return None
    edges, order = run.curves["graph"], _kernel_order(run.curves)
    n_nodes, n_kernels = len(edges), len(order)
    seen = np.zeros((n_nodes, n_kernels), dtype=bool)
    seen[np.arange(n_nodes)[:, None], edges] = True
    are_kernels = n_nodes == n_kernels and bool((edges == np.arange(n_nodes)[:, None]).any(1).all())
    seen = seen[order][:, order] if are_kernels else seen[:, order]
    node, kernel = np.nonzero(seen)
    figure, axes = _single(5.4 if are_kernels else max(2.6, 1.6 + 0.2 * n_nodes), into=into)
    size = max(4.0, min(60.0, 2e4 / max(n_nodes, n_kernels) ** 2))
    axes.scatter(kernel, node, s=size, marker="s", color=style.COLOURS[0])
    axes.set_xlim(-0.5, n_kernels - 0.5)
    axes.set_ylim(n_nodes - 0.5, -0.5)
    family, bandwidth = (run.curves[f"kernel_{name}"][order] for name in ("family", "bandwidth"))
    ticks = _kernel_ticks(family)
    names = [f"{family[k]} {bandwidth[k]:.3g}" for k in ticks]
    axes.set_xticks(ticks, names, rotation=30, ha="right", fontsize=8)
    if are_kernels:
        axes.set_yticks(ticks, names, fontsize=8)
    else:
        axes.set_yticks(range(n_nodes), list(map(str, range(1, n_nodes + 1))))
    axes.set(xlabel="kernel that is seen", ylabel="node" if are_kernels else "selective node")
    axes.set_title(_title(run, f"feedback graph: {pluralize(edges.shape[1], 'kernel')} per node"))
    return figure


# --- federations ----------------------------------------------------------------------------------


def clients(run: Run, into: Axes | None = None) -> Figure | None:
    """Draw the regret of every client after the last round, in increasing order."""
    if "client_regret" not in run.curves:
        return None
    figure, axes = _single(3.6, into=into)
    style.sorted_clients(axes, run)
    axes.set(xlabel="clients by regret", ylabel="regret against the best online kernel")
    axes.set_title(_title(run, f"regret of the clients, {_seeds(run)}"))
    return figure


# --- Parts of several figures ---------------------------------------------------------------------


def _single(height: float = 4.2, into: Axes | None = None) -> tuple[Figure, Axes]:
    """Return a new figure with one panel and its Axes, or ``into`` and its figure."""
    if into is not None:
        figure = into.get_figure(root=True)
        assert figure is not None
        return figure, into
    figure = Figure(figsize=(style.WIDTH, height))
    return figure, figure.add_subplot()


def _legend(figure: Figure, axes: Axes, into: Axes | None) -> None:
    """Draw the legend below the panel of a new figure, or inside the panel ``into``."""
    if into is None:
        style.figure_legend(figure, [axes])
    else:
        axes.legend(loc="best")


def _name_rows(axes: Axes, run: Run, ylabel: str = "") -> None:
    """Label the axis of rows, and mark the known changes of the stream."""
    style.row_axis(axes, run.curves)
    style.mark_changes(axes, run.curves["change_rounds"], run.curves["t"])
    if ylabel:
        axes.set_ylabel(ylabel)


def _title(run: Run, what: str) -> str:
    heading = style.wrapped(f"{naming.name_of(run)} on {naming.data_name(run)}", 80)
    return f"{heading}\n{style.wrapped(what, 90)}"


def _seeds(run: Run) -> str:
    return over_seeds(len(run.result["seeds"]))
