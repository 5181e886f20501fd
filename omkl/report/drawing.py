"""What all figures share: lines with bands, axes of rounds, panels and their legend.

Shapes: R seeds, P recorded rounds. A spread is the sample standard deviation over the seeds;
one seed has none. Only matplotlib's object interface is used: no window system, no global
figure list.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from omkl.report import baselines, style
from omkl.runs.run_folder import MSE, Measure, Run

Array = np.ndarray

# Points of a line: beyond them the file grows and the picture does not.
N_DRAWN = 2000
N_DRAWN_SMALL = 500
CHANGES = "the stream changes"
CHANGE_COLOUR = "#b2182b"  # no line of a learner has it
WIDTH = 7.0  # inches
N_COLUMNS = 3


def band_line(
    axes: Axes,
    t: Array,
    mean: Array,
    std: Array | None,
    index: int,
    label: str,
    floor: float = -math.inf,
    opacity: float = 0.2,
    looks: Mapping[str, Any] | None = None,
) -> Line2D:
    """A line with its band; both are kept at ``floor`` or above, for a logarithmic axis.

    It has the look ``index`` of the cycle, unless ``looks`` says another.
    """
    looks = style.look(index) if looks is None else looks
    if std is not None and len(t) > 1:
        lower, upper = np.maximum(mean - std, floor), np.maximum(mean + std, floor)
        axes.fill_between(t, lower, upper, color=looks["color"], alpha=opacity, linewidth=0)
    elif std is not None:
        axes.errorbar(t, mean, yerr=std, color=looks["color"], capsize=3)
    every = (0.03 * (index % 5), 0.16) if len(t) > 1 else 1
    (line,) = axes.plot(t, np.maximum(mean, floor), markevery=every, label=label, **looks)
    return line


def baseline_lines(
    axes: Axes, runs: Sequence[Run], choose: Callable[[Array], Array]
) -> list[tuple[float, float]]:
    """Thin grey lines of the baselines of runs, at rounds of theirs; limits that show each."""
    limits = []
    for index, line in enumerate(baselines.lines(runs)):
        chosen = choose(line.t)
        values = line.values[chosen]
        dashes = style.LINES[index % len(style.LINES)]
        shown = np.where(values > 0.0, values, np.nan)  # on a logarithmic axis
        looks = {"color": style.GREY, "linewidth": 0.8, "linestyle": dashes}
        axes.plot(line.t[chosen], shown, label=line.text, **looks)
        if values.max() > 0.0:
            limits.append(positive_limits(values, None))
    return limits


def round_axis(axes: Axes, t: Array) -> None:
    first, last = int(t[0]), int(t[-1])
    if first == last:
        axes.set_xlim(last - 0.5, last + 0.5)
        axes.set_xticks([last])
    else:
        axes.set_xlim(0, 1.02 * last)
        axes.xaxis.get_major_locator().set_params(integer=True, nbins=6)  # type: ignore[call-arg]


def mark_changes(axes: Axes, rounds: Array, t: Array) -> None:
    """Lines where the stream is known to change, above all else; the first carries the label."""
    label: str | None = CHANGES
    if any(line.get_label() == CHANGES for line in axes.get_lines()):
        return
    dashed: dict[str, Any] = {"color": CHANGE_COLOUR, "linestyle": (0, (4, 2)), "linewidth": 1.3}
    dashed["path_effects"] = [withStroke(linewidth=2.6, foreground="white")]  # on a dark map too
    for change in rounds[(rounds > t[0]) & (rounds <= t[-1])]:
        axes.axvline(change, label=label, zorder=3, **dashed)
        label = None


def mean_std(values: Array) -> tuple[Array, Array | None]:
    """Mean and sample standard deviation over the first axis (seeds)."""
    values = np.asarray(values, dtype=np.float64)
    return values.mean(axis=0), values.std(axis=0, ddof=1) if len(values) > 1 else None


def drawn_rounds(t: Array, skip: float = 0.0, limit: int = N_DRAWN) -> Array:
    """Indices of at most ``limit`` recorded rounds, dense early and even later."""
    first = int(np.searchsorted(t, skip * t[-1]))
    if len(t) - first <= limit:
        return np.arange(first, len(t))
    even = np.linspace(first, len(t) - 1, limit // 2).round().astype(int)
    early = np.searchsorted(t, np.geomspace(t[first], t[-1], limit // 2))
    return np.unique(np.concatenate([even, np.minimum(early, len(t) - 1)]))


def positive_limits(mean: Array, std: Array | None) -> tuple[float, float]:
    """Limits of a logarithmic axis that show the mean and, within reason, its band."""
    positive = mean[mean > 0]
    if positive.size == 0:
        return 1e-17, 1e-15
    lowest = float(positive.min())
    bottom = lowest if std is None else max(float((mean - std).min()), lowest / 3)
    top = float(mean.max() if std is None else (mean + std).max())
    return bottom / 1.12, top * 1.12


def panel_grid(n_panels: int) -> tuple[int, int]:
    """Rows and columns of panels; four make a square."""
    columns = 2 if n_panels == 4 else min(N_COLUMNS, n_panels)
    return math.ceil(n_panels / columns), columns


def figure_legend(figure: Figure, panels: Sequence[Axes]) -> None:
    """One legend below the panels with every entry once, in as many columns as fit."""
    entries: dict[str, Artist] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    inches = [0.07 * len(label) + 0.55 for label in entries]
    fitting = len(entries)
    if entries and sum(inches) > figure.get_figwidth():
        fitting = max(1, int(figure.get_figwidth() / max(inches)))
    figure.legend(list(entries.values()), list(entries), loc="outside lower center", ncols=fitting)


def axis_name(kind: Measure) -> str:
    return kind.short if kind is MSE else kind.long
