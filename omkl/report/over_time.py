"""What a run did when: the error window by window, and the weights of its kernels below it.

Shapes: R seeds, P recorded rounds, N kernels, G rounds after which weights are known.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from omkl.core.kernels import FAMILIES, Family
from omkl.report import drawing, style
from omkl.report.experts import expert_names, has_kernels
from omkl.report.prediction_figures import title
from omkl.report.windows import Windowed, windowed
from omkl.runs.run_folder import Run, measure
from omkl.runs.wording import pluralize

COLOURS = "viridis"
MOST_NAMES = 40  # of experts, one a row


def over_time(run: Run, folder: Path | None = None) -> list[Path]:
    """The error of windows of the stream, and below it a heat map: kernels over time."""
    if not run.complete:
        raise ValueError(f"{run.folder} is {run.result['status']}: only complete runs have curves")
    curves, kind = run.curves, measure(run.result)
    found = windowed(run)
    if len(found.edges) < 3:
        return []
    with_map = "weights_over_time" in curves and curves["weights_over_time"].shape[1] > 1
    with style.applied():
        figure = Figure(figsize=(drawing.WIDTH, 6.2 if with_map else 3.2))
        heights = [1.0, 1.35] if with_map else [1.0]
        grid = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)
        _draw_windows(grid[0, 0], found)
        grid[0, 0].set_ylabel(f"{drawing.axis_name(kind)} of a window")
        for axes in grid[:, 0]:
            drawing.mark_changes(axes, curves["change_rounds"], curves["t"])
        if with_map:
            _draw_map(figure, grid[1, 0], run)
        grid[-1, 0].set_xlabel("round t")
        grid[-1, 0].set_xlim(0, float(curves["t"][-1]))
        if any(line.get_label() == drawing.CHANGES for line in grid[0, 0].get_lines()):
            grid[0, 0].legend(loc="best")
        rounds = pluralize(round(float(np.median(np.diff(found.edges)))), "round")
        what = f"{kind.long} in windows of {rounds} each" + (", and weights" if with_map else "")
        figure.suptitle(title(run, what), fontsize=10)
        return style.save(figure, folder or run.folder, "over_time")


def _draw_windows(axes: Axes, found: Windowed) -> None:
    mean, std = drawing.mean_std(found.loss)
    known = np.isfinite(mean)
    if not known.any():
        return
    spread = None if std is None else std[known]
    low, high = drawing.positive_limits(mean[known], spread)
    steps: dict[str, Any] = {"color": style.COLOURS[0]}
    shown = np.append(mean, mean[-1])
    axes.step(found.edges, np.maximum(shown, low), where="post", **steps)
    if std is not None:
        below, above = (np.append(x, x[-1]) for x in (mean - std, mean + std))
        axes.fill_between(
            found.edges, np.maximum(below, low), np.maximum(above, low), step="post",
            alpha=0.2, linewidth=0, **steps,
        )  # fmt: skip
    style.log_axis(axes.yaxis, low, high)


def _draw_map(figure: Figure, axes: Axes, run: Run) -> None:
    """Kernels from the narrowest of the first family up; what is below a hundredth of 1/N is so."""
    curves = run.curves
    family, bandwidth = curves["kernel_family"], curves["kernel_bandwidth"]
    names = list(dict.fromkeys(family.tolist()))
    N = len(family)
    place = np.array([names.index(name) for name in family.tolist()])
    kernels = has_kernels(run)
    order = np.lexsort((bandwidth, place)) if kernels else np.arange(N)
    values = curves["weights_over_time"][:, order].T
    floor = 0.01 / N
    top = max(float(values.max()), 2.0 / N)
    least = min(max(float(values.min()), floor), 0.5 / N)
    edges = np.concatenate([[0], curves["weights_t"]])
    mesh = axes.pcolormesh(
        edges, np.arange(N + 1), np.maximum(values, least), norm=LogNorm(least, top),
        cmap=COLOURS, rasterized=True,
    )  # fmt: skip
    axes.grid(False)
    axes.set_ylim(0, N)
    bar = figure.colorbar(mesh, ax=axes, pad=0.01, aspect=28, label="weight")
    style.log_axis(bar.ax.yaxis, least, top)
    if kernels:
        _name_families(axes, family[order], bandwidth[order])
    elif N <= MOST_NAMES:
        axes.set_yticks(np.arange(N) + 0.5, expert_names(run), fontsize=min(8, 230 / N))
    else:
        axes.set_ylabel("experts")


def _name_families(axes: Axes, family: np.ndarray, bandwidth: np.ndarray) -> None:
    """Some bandwidths of each family, a line between families, and their names upwards."""
    starts = [0, *(np.flatnonzero(family[1:] != family[:-1]) + 1).tolist(), len(family)]
    ticks, labels = [], []
    for start, end in itertools.pairwise(starts):
        if start:
            axes.axhline(start, color="white", linewidth=1.2)
        n = max(1, round(9 * (end - start) / len(family)))
        for k in range(n):
            row = start + int((k + 0.5) * (end - start) / n)
            ticks.append(row + 0.5)
            labels.append(f"{float(f'{bandwidth[row]:.2g}'):g}")
    axes.set_yticks(ticks, labels)
    names = list(dict.fromkeys(family.tolist()))
    axes.set_ylabel(f"{_axis_of(names)}: {', then '.join(names)}")


def _axis_of(families: Sequence[str]) -> str:
    """What their kernels differ in: a bandwidth, or a degree."""
    labels = [FAMILIES.get(name, Family).label for name in families]
    return " or ".join(dict.fromkeys(labels))
