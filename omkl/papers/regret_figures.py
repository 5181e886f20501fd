"""Regret against the best kernel in hindsight (ridge), over time and beside its theorem."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from omkl.papers import pictures
from omkl.papers.bounds import bound_of_run, fitted_slope, promised, theorem_meant, unproved
from omkl.report import drawing, style
from omkl.runs.run_folder import Run

COMPARATOR = "ridge_features"


def regret_over_time(runs: Sequence[Run], folder: Path, name: str) -> list[Path]:
    """A panel a data set: regret of its runs against the best kernel in hindsight (ridge)."""
    runs = [run for run in runs if f"regret_{COMPARATOR}" in run.curves]
    if not runs:
        return []
    order = list(dict.fromkeys(run.result["algorithm"] for run in runs))

    def draw(axes: Axes, dataset: str) -> None:
        for run in runs:
            if run.result["dataset"] == dataset:
                chosen = drawing.drawn_rounds(run.curves["t"], limit=drawing.N_DRAWN_SMALL)
                mean, std = drawing.mean_std(run.curves[f"regret_{COMPARATOR}"][:, chosen])
                index = order.index(run.result["algorithm"])
                drawing.band_line(axes, run.curves["t"][chosen], mean, std, index, "", opacity=0.15)
        axes.axhline(0, color=style.GREY, linewidth=0.8)
        last = max(int(r.curves["t"][-1]) for r in runs if r.result["dataset"] == dataset)
        drawing.round_axis(axes, np.array([1, last]))

    handles = [
        Line2D([], [], label=style.display_name(algorithm), **style.look(index))
        for index, algorithm in enumerate(order)
    ]
    datasets = list(dict.fromkeys(run.result["dataset"] for run in runs))
    label = "cumulative squared error\nabove ridge in hindsight"
    return pictures.panels(datasets, draw, handles, "round t", label, folder, name)


def regret_bound(run: Run, folder: Path | None = None) -> list[Path]:
    """Regret of one run on logarithmic axes with its theorem; nothing without a comparator.

    The positive part of the mean over the seeds, the rate of the theorem as a slope through
    its last point, the slope fitted to the second half, T, and the theorem's right-hand side
    for the run's own constants.
    """
    folder = folder or run.folder
    return regret_bounds([run], folder, "regret_bound", with_value=True, suffixes=("png", "pdf"))


def regret_bounds(
    runs: Sequence[Run],
    folder: Path,
    name: str,
    with_value: bool = False,
    suffixes: Sequence[str] = ("png",),
) -> list[Path]:
    """The same of several runs: algorithms by data sets, or side by side on one data set."""
    runs = [run for run in runs if run.complete and f"regret_{COMPARATOR}" in run.curves]
    runs = [run for run in runs if theorem_meant(run.result["algorithm"])]
    if not runs:
        return []
    algorithms = list(dict.fromkeys(run.result["algorithm"] for run in runs))
    datasets = list(dict.fromkeys(run.result["dataset"] for run in runs))
    places = [
        (algorithms.index(run.result["algorithm"]), datasets.index(run.result["dataset"]))
        for run in runs
    ]
    n_rows, n_columns = len(algorithms), len(datasets)
    if n_columns == 1:
        places, n_rows, n_columns = [(0, row) for row, _ in places], 1, n_rows
    with style.applied():
        width = max(drawing.WIDTH, 2.55 * n_columns)
        height = (3.3 if n_rows == 1 else 2.1 * n_rows) + 0.5
        figure = Figure(figsize=(width, height))
        grid = figure.subplots(n_rows, n_columns, squeeze=False)
        for axes in grid.flat:
            axes.set_visible(False)
        for run, (row, column) in zip(runs, places, strict=True):
            axes = grid[row][column]
            axes.set_visible(True)
            _draw_bound(axes, run, with_value)
            axes.set_title(f"{style.name_of(run)}, {run.result['dataset']}", fontsize=9)
            axes.set_xlabel("round t" if row == n_rows - 1 else "")
            axes.set_ylabel("regret" if column == 0 else "")
        handles = _bound_handles(with_value)
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
        return pictures.save(figure, folder, name, suffixes)


_BOUND_LOOKS: dict[str, dict[str, Any]] = {
    "regret": {"color": style.COLOURS[0], "linewidth": 1.8},
    "promised slope": {"color": style.COLOURS[1], "linestyle": style.LINES[1]},
    "fitted slope": {"color": style.COLOURS[4], "linestyle": style.LINES[2], "linewidth": 2},
    "T": {"color": style.GREY, "linewidth": 0.9},
    "theorem's right-hand side": {"color": style.COLOURS[2], "linestyle": style.LINES[3]},
}


def _bound_handles(with_value: bool) -> list[Line2D]:
    names = list(_BOUND_LOOKS)[: None if with_value else -1]
    return [Line2D([], [], label=name, **_BOUND_LOOKS[name]) for name in names]


def _draw_bound(axes: Axes, run: Run, with_value: bool) -> None:
    t = run.curves["t"]
    chosen = drawing.drawn_rounds(t, limit=drawing.N_DRAWN_SMALL)
    regret = run.curves[f"regret_{COMPARATOR}"].mean(axis=0)
    positive = np.where(regret > 0, regret, np.nan)
    axes.plot(t[chosen], positive[chosen], **_BOUND_LOOKS["regret"])
    rate, source = promised(run.result["algorithm"])
    shown = positive[np.isfinite(positive)]
    anchor = float(shown[-1]) if shown.size else 1.0
    expected = anchor * (t[chosen] / t[-1]) ** rate
    axes.plot(t[chosen], expected, **_BOUND_LOOKS["promised slope"])
    slope = fitted_slope(t, regret)
    gap = unproved(run.result["algorithm"], run.result["params"])
    text = f"promised {rate:.2f}\n({source}{', unproved' if gap else ''})\nfitted "
    if slope is None:
        text += "none: regret below 0"
    else:
        text += f"{slope:.2f}".replace("-", "−")
        late = t >= t[-1] / 2
        x, y = np.log(t[late]), np.log(regret[late])
        line = np.exp(y.mean() + slope * (x - x.mean()))
        axes.plot(t[late], line, **_BOUND_LOOKS["fitted slope"])
    axes.plot(t[chosen], t[chosen], **_BOUND_LOOKS["T"])
    highest = float(t[-1])
    bound = bound_of_run(run) if with_value else None
    if bound is not None and np.isfinite(bound.value).all():
        axes.plot(t[chosen], bound.value[chosen], **_BOUND_LOOKS["theorem's right-hand side"])
        highest = max(highest, float(bound.value.max()))
    # A first round far below the rest would flatten everything else.
    low = max(min(float(shown.min()) if shown.size else 1.0, expected[0]), 1e-3 * anchor)
    style.log_axis(axes.xaxis, 1, 1.05 * float(t[-1]))
    style.log_axis(axes.yaxis, low / 1.3, highest * (100 if with_value else 30))
    axes.text(0.03, 0.97, text, transform=axes.transAxes, va="top", fontsize=7.5)
