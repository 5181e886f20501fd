"""Figures of a suite: a heat map of streams and learners, average ranks, error against time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from omkl.benchmark import cells
from omkl.benchmark.cells import Results, means
from omkl.benchmark.scores import MAIN, Groups
from omkl.benchmark.suite import OURS, PEER, REFERENCE, TRIVIAL
from omkl.report import style

PNG = ("png",)
MOST_LINES = 6  # of a panel: what is best in the mean, and the reference
COLUMNS = 3
LARGEST = math.log(4.0)  # of a ratio that has a colour of its own
TITLES = {"running": "over rounds 1..t", "sliding": "over the last rounds"}


def heat_map(errors: pd.DataFrame, reference: str, folder: Path, name: str) -> list[Path]:
    """log(error / error of the reference) of streams x learners; blue is better.

    ``errors`` as of ``table.means``; a cross is a learner that failed, nothing a missing value, k
    a thousand. The learner with the least mean of the logarithms is the first row.
    """
    of_reference = errors[reference]
    positive = of_reference > 0.0
    with np.errstate(divide="ignore"):
        ratios = np.log(errors[positive].div(of_reference[positive], axis=0)).T
    shown = ratios.replace(np.inf, LARGEST).clip(-LARGEST, LARGEST)
    order = ratios.replace(np.inf, LARGEST).mean(axis=1).sort_values(kind="stable").index
    ratios, shown = ratios.loc[order], shown.loc[order]
    with style.applied():
        height = 1.9 + 0.2 * len(order)
        figure = Figure(figsize=(max(style.WIDTH, 2.6 + 0.42 * shown.shape[1]), height))
        axes = figure.add_subplot()
        axes.grid(False)
        image = axes.imshow(
            shown.to_numpy(float), cmap="RdBu_r", vmin=-LARGEST, vmax=LARGEST, aspect="auto"
        )
        axes.set_xticks(range(shown.shape[1]), list(shown.columns), rotation=60, ha="right",
                        rotation_mode="anchor")  # fmt: skip
        axes.set_yticks(range(len(order)), list(order))
        axes.tick_params(length=0)
        _numbers(axes, ratios)
        for side in axes.spines.values():
            side.set_visible(False)
        bar = figure.colorbar(image, ax=axes, shrink=min(1.0, 2.2 / height), aspect=12)
        ticks = [0.25, 0.5, 1.0, 2.0, 4.0]
        bar.set_ticks([math.log(t) for t in ticks], labels=["≤ ¼", "½", "1", "2", "≥ 4"])
        bar.set_label(f"error / error of {reference}")
        bar.outline.set_visible(False)
        return style.save(figure, folder, name, PNG)


def _numbers(axes: Axes, ratios: pd.DataFrame) -> None:
    """The ratio in every field, a cross for a failure."""
    for row, values in enumerate(ratios.to_numpy(float)):
        for column, value in enumerate(values):
            if math.isnan(value):
                continue
            text = "×" if value == math.inf else _short(math.exp(value))
            dark = abs(min(value, LARGEST)) > 0.65 * LARGEST
            axes.text(column, row, text, ha="center", va="center", fontsize=6.2,
                      color="white" if dark else "black")  # fmt: skip


def _short(ratio: float) -> str:
    if ratio >= 9.95:
        return f"{ratio:.0f}" if ratio < 999.5 else f"{ratio / 1000:.1f}k" if ratio < 1e5 else "big"
    return f"{ratio:.2f}".lstrip("0") if ratio < 1.995 else f"{ratio:.1f}"


def rank_plot(groups: Groups, folder: Path, name: str) -> list[Path]:
    """Average ranks, the best on top; upright bars join learners that are not told apart."""
    ranks = groups.ranks
    places = {learner: place for place, learner in enumerate(ranks.index)}
    with style.applied():
        figure = Figure(figsize=(style.WIDTH, 1.0 + 0.2 * len(ranks)))
        axes, side = figure.subplots(1, 2, sharey=True, width_ratios=(5, 1))
        side.set_axis_off()
        axes.plot(ranks.to_numpy(), range(len(ranks)), "o", color=style.COLOURS[0])
        labels = [style.wrapped(f"{name} ({rank:.2f})", 200) for name, rank in ranks.items()]
        axes.set_yticks(range(len(ranks)), labels)
        axes.set_ylim(len(ranks) - 0.5, -0.5)
        axes.set_xlabel("average rank, 1 is best")
        if not groups.silence:
            reach = ranks.iloc[0] + groups.difference
            axes.axvspan(ranks.iloc[0], reach, color=style.GREY, alpha=0.15, linewidth=0)
            for level, clique in zip(bar_levels(groups), groups.cliques, strict=True):
                ends = [places[clique[0]] - 0.25, places[clique[-1]] + 0.25]
                look = {"color": style.COLOURS[1], "linewidth": 2.5, "solid_capstyle": "butt"}
                side.plot([level, level], ends, **look)
            side.set_xlim(-0.5, max(6, *bar_levels(groups)) + 0.5)
        return style.save(figure, folder, name, PNG)


def bar_levels(groups: Groups) -> list[int]:
    """A column for each bar, so that those in one column share no learner."""
    ends: list[int] = []  # of the last bar in each column
    levels, places = [], {learner: place for place, learner in enumerate(groups.ranks.index)}
    for clique in groups.cliques:
        start, end = places[clique[0]], places[clique[-1]]
        level = next((i for i, last in enumerate(ends) if last < start), len(ends))
        ends[level : level + 1] = [end]
        levels.append(level)
    return levels


def chosen_learners(results: Results, task: str, errors: pd.DataFrame) -> list[str]:
    """Those that are drawn over time: the reference, and the best of ours and of peers."""
    reference = REFERENCE[task]
    positive = errors[errors[reference] > 0.0]
    with np.errstate(divide="ignore"):
        ratios = np.log(positive.div(positive[reference], axis=0))
    mean = ratios.replace([np.inf, -np.inf], LARGEST).mean().sort_values(kind="stable")
    by_kind = {
        kind: [n for n in mean.index if results.kind(n) == kind] for kind in (OURS, PEER, TRIVIAL)
    }
    best = by_kind[OURS][: MOST_LINES - 3] + by_kind[PEER][:2]
    return [*best, reference]


def over_time(results: Results, task: str, what: str, folder: Path, name: str) -> list[Path]:
    """A panel a stream: ``what`` error ("running", "sliding") of some learners against rounds."""
    errors = means(results, task, MAIN[task])
    learners = chosen_learners(results, task, errors)
    streams = list(errors.index)
    with style.applied():
        rows = math.ceil(len(streams) / COLUMNS)
        columns = min(COLUMNS, len(streams))
        figure = Figure(figsize=(max(style.WIDTH, 3.0 * columns), 0.7 + 2.0 * rows))
        for place, stream in enumerate(streams):
            axes = figure.add_subplot(rows, columns, place + 1)
            curves = {
                learner: cells.curves(results.cells[stream, learner]["folder"])
                for learner in learners
                if results.status(stream, learner) == cells.COMPLETE
            }
            _panel(axes, curves, learners, what)
            changes = np.array(results.stated["streams"][stream].get("change_rounds", []))
            if len(changes):
                style.mark_changes(axes, changes, np.array([1, axes.get_xlim()[1]]))
            axes.set_title(style.wrapped(stream, 30))
            if place + columns >= len(streams):
                axes.set_xlabel("round t")
            if place % columns == 0:
                axes.set_ylabel("MSE" if task == "regression" else "error rate")
        style.figure_legend(figure, figure.axes)
        figure.suptitle(f"Error {TITLES[what]}, means over the seeds", fontsize=10)
        return style.save(figure, folder, name, PNG)


def _panel(
    axes: Axes, curves: Mapping[str, Mapping[str, np.ndarray]], learners: Sequence[str], what: str
) -> None:
    """Lines of a stream; the first twentieth of the rounds, where errors are large, is left out."""
    limits, last = [], 1
    for index, learner in enumerate(learners):
        if learner not in curves:
            continue
        t, values = curves[learner]["t"], curves[learner][what].mean(axis=0)
        drawn = t >= t[0] + 0.05 * (t[-1] - t[0])
        looks = {k: v for k, v in style.look(index).items() if k != "marker"}
        axes.plot(t[drawn], np.where(values > 0.0, values, np.nan)[drawn], label=learner, **looks)
        limits.append(style.positive_limits(values[drawn], None))
        last = max(last, int(t[-1]))
    style.log_axis(axes.yaxis, min(low for low, _ in limits), max(high for _, high in limits))
    style.round_axis(axes, np.array([1, last]))
