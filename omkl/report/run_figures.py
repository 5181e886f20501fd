"""Figures of one run, each as PNG and PDF.

Shapes: R seeds, P recorded rounds, N kernels.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from omkl.core.kernels import FAMILIES, Family
from omkl.report import drawing, federated_figures, style
from omkl.report.experts import has_kernels
from omkl.report.over_time import over_time
from omkl.report.prediction_figures import coverage, experts, predictions, title
from omkl.report.text import theorem_text
from omkl.runs.run_folder import ERROR_RATE, Run, measure
from omkl.runs.wording import over_seeds, pluralize


def all_figures(run: Run, folder: Path | None = None) -> list[Path]:
    """The figures of one run; the paths written."""
    return [path for draw in _figures(run) for path in draw(run, folder)]


def _figures(run: Run) -> Sequence[Callable[[Run, Path | None], list[Path]]]:
    if run.complete and measure(run.result) is ERROR_RATE:
        return mse, over_time, mistakes, experts, weights, updates
    of_predictions = (predictions, coverage, experts)
    of_federation = (federated_figures.clients, federated_figures.server)
    return mse, over_time, mse_over_labels, *of_predictions, regret, weights, usage, *of_federation


def mse(run: Run, folder: Path | None = None) -> list[Path]:
    """Mean squared error, or error rate, of rounds 1..t over t, into the run's folder by default.

    The first half per cent of the rounds is not drawn: a mean of a handful of
    errors says little and would set the scale.

    Raises ValueError for a run that is not complete, as all figures do.
    """
    _need_complete(run)
    curves, kind = run.curves, measure(run.result)
    choose = functools.partial(drawing.drawn_rounds, skip=0.005)
    chosen = choose(curves["t"])
    t = curves["t"][chosen]
    mean, std = drawing.mean_std(curves[kind.key][:, chosen])
    with style.applied():
        figure = Figure(figsize=(drawing.WIDTH, 4.2))
        axes = figure.add_subplot()
        limits = [drawing.positive_limits(mean, std), *drawing.baseline_lines(axes, [run], choose)]
        low = min(low for low, _ in limits)
        drawing.band_line(axes, t, mean, std, 0, _seeds(run), floor=low)
        style.log_axis(axes.yaxis, low, max(high for _, high in limits))
        drawing.round_axis(axes, t)
        drawing.mark_changes(axes, curves["change_rounds"], t)
        axes.set(xlabel="round t", ylabel=f"{drawing.axis_name(kind)} of rounds 1..t")
        axes.set_title(title(run, f"running {kind.long}"))
        axes.legend(loc="best")
        return style.save(figure, folder or run.folder, kind.key)


def mse_over_labels(run: Run, folder: Path | None = None) -> list[Path]:
    """The same mean over the labels bought so far; nothing where all were, which is ``mse``."""
    _need_complete(run)
    if run.result["al_efficiency"] == 1.0:
        return []
    chosen = drawing.drawn_rounds(run.curves["t"], skip=0.005)
    bought = run.curves["labels"].mean(axis=0)[chosen]
    mean, std = drawing.mean_std(run.curves["mse"][:, chosen])
    with style.applied():
        figure = Figure(figsize=(drawing.WIDTH, 4.2))
        axes = figure.add_subplot()
        low, high = drawing.positive_limits(mean, std)
        drawing.band_line(axes, bought, mean, std, 0, _seeds(run), floor=low)
        style.log_axis(axes.yaxis, low, high)
        axes.set_xlim(0, 1.02 * bought[-1])
        axes.set(xlabel="labels bought", ylabel="MSE of all rounds so far")
        share = f"{run.result['al_efficiency']:.3g} of the labels bought"
        axes.set_title(title(run, f"running mean squared error against its cost, {share}"))
        axes.legend(loc="best")
        return style.save(figure, folder or run.folder, "labels")


def regret(run: Run, folder: Path | None = None) -> list[Path]:
    """Cumulative squared error above each comparator's; nothing if none was computed."""
    _need_complete(run)
    curves, stated = run.curves, run.result["regret"]
    names = [name for name in stated if f"regret_{name}" in curves]
    if not names:
        return []
    chosen = drawing.drawn_rounds(curves["t"])
    t = curves["t"][chosen]
    notes = [
        f"Not drawn: {entry['label']} ({entry['skipped']})."
        for name, entry in stated.items()
        if "skipped" in entry
    ]
    with style.applied():
        footnote = "\n".join(style.wrapped(note, 105) for note in notes)
        lines_below = len(names) + footnote.count("\n") + (1 if notes else 0)
        figure = Figure(figsize=(drawing.WIDTH, 4.1 + 0.17 * lines_below))
        axes = figure.add_subplot()
        for index, name in enumerate(names):
            mean, std = drawing.mean_std(curves[f"regret_{name}"][:, chosen])
            drawing.band_line(axes, t, mean, std, index, style.wrapped(stated[name]["label"], 90))
        axes.axhline(0, color=style.GREY, linewidth=0.8)
        drawing.round_axis(axes, t)
        drawing.mark_changes(axes, curves["change_rounds"], t)
        axes.set(xlabel="round t", ylabel="cumulative squared error\nabove the comparator")
        axes.set_title(title(run, f"regret, {_seeds(run)}"))
        axes.legend(loc="upper left", bbox_to_anchor=(0, -0.13), borderaxespad=0)
        if footnote:
            figure.supxlabel(footnote, x=0.01, ha="left", fontsize=7.5, color="#444444")
        return style.save(figure, folder or run.folder, "regret")


def weights(run: Run, folder: Path | None = None) -> list[Path]:
    """Expert weights (R, N) after the last round, over the dictionary; nothing without any."""
    _need_complete(run)
    if "weights" not in run.curves or not has_kernels(run):
        return []
    values = run.curves["weights"]
    mean, std = drawing.mean_std(values)
    uniform = 1 / values.shape[1]
    # A weight far above the rest hides it on a linear axis; below a thousandth of
    # the uniform weight the order no longer matters.
    concentrated = mean.max() > 20 * max(float(np.median(mean)), 1e-300)
    floor = 1e-3 * uniform
    with style.applied():
        figure, panels = _dictionary(run)
        for axes, members, bandwidth in panels:
            axes.axhline(
                uniform, color=style.GREY, linewidth=0.9, label=f"uniform, 1/{values.shape[1]}"
            )
            below = mean[members] < floor if concentrated else np.zeros(len(members), bool)
            spread = None if std is None else std[members]
            _points(axes, bandwidth, mean[members], spread, ~below, floor, run)
            if below.any():
                axes.plot(
                    bandwidth[below],
                    np.full(below.sum(), 1.25 * floor),
                    linestyle="none",
                    marker="v",
                    color=style.COLOURS[1],
                    label="below a thousandth of uniform",
                )
            if concentrated:
                style.log_axis(axes.yaxis, floor, 1.5)
            else:
                top = float((mean if std is None else mean + std).max())
                axes.set_ylim(0, 1.08 * max(top, uniform))
        panels[0][0].set_ylabel("expert weight after the last round")
        drawing.figure_legend(figure, [axes for axes, _, _ in panels])
        figure.suptitle(title(run, "expert weights"), fontsize=10)
        return style.save(figure, folder or run.folder, "weights")


def usage(run: Run, folder: Path | None = None) -> list[Path]:
    """Share of the rounds in which each kernel was evaluated, over the dictionary.

    Nothing for a federation, where all are, and for what has no kernel.
    """
    _need_complete(run)
    if "usage" not in run.curves or not has_kernels(run):
        return []
    mean, std = drawing.mean_std(run.curves["usage"] / run.result["n_rounds"])
    with style.applied():
        figure, panels = _dictionary(run)
        for axes, members, bandwidth in panels:
            spread = None if std is None else std[members]
            everything = np.ones(len(members), bool)
            _points(axes, bandwidth, mean[members], spread, everything, 0.0, run, ceiling=1.0)
            axes.set_ylim(-0.03, 1.03)
        panels[0][0].set_ylabel("share of rounds evaluated")
        drawing.figure_legend(figure, [axes for axes, _, _ in panels])
        per_round = run.result["kernels_per_round"]
        what = f"{per_round:.4g} of {pluralize(len(mean), 'kernel')} evaluated per round"
        figure.suptitle(title(run, what), fontsize=10)
        return style.save(figure, folder or run.folder, "usage")


def mistakes(run: Run, folder: Path | None = None) -> list[Path]:
    """Mistakes up to round t, beside what the learner's theorem allows where it was computed."""
    _need_complete(run)
    curves = run.curves
    chosen = drawing.drawn_rounds(curves["t"], skip=0.005)
    t = curves["t"][chosen]
    mean, std = drawing.mean_std(curves["error_rate"][:, chosen] * t)
    with style.applied():
        figure = Figure(figsize=(drawing.WIDTH, 4.2))
        axes = figure.add_subplot()
        low, high = drawing.positive_limits(mean, std)
        drawing.band_line(axes, t, mean, std, 0, f"mistakes, {_seeds(run)}", floor=low)
        if "bound" in curves and np.isfinite(curves["bound"]).all():
            looks = {**style.look(1), "linestyle": "none", "markersize": 6}
            label = f"bound of {theorem_text(run.result['bound'])}"
            if run.config["stream"]["order"] == "shuffled" and len(run.result["seeds"]) > 1:
                label += " (rows in the first seed's order)"
            axes.plot(curves["bound_t"], curves["bound"], label=label, **looks)
            high = max(high, float(curves["bound"].max()))
        style.log_axis(axes.yaxis, low, 1.3 * high)
        drawing.round_axis(axes, t)
        drawing.mark_changes(axes, curves["change_rounds"], t)
        axes.set(xlabel="round t", ylabel="mistakes in rounds 1..t")
        axes.set_title(title(run, "mistakes"))
        axes.legend(loc="lower right")
        return style.save(figure, folder or run.folder, "mistakes")


def updates(run: Run, folder: Path | None = None) -> list[Path]:
    """Rounds in which each kernel's classifier learned, over the dictionary, if it is one."""
    _need_complete(run)
    if not has_kernels(run):
        return []
    mean, std = drawing.mean_std(run.curves["updates"])
    with style.applied():
        figure, panels = _dictionary(run)
        for axes, members, bandwidth in panels:
            spread = None if std is None else std[members]
            everything = np.ones(len(members), bool)
            _points(axes, bandwidth, mean[members], spread, everything, 0.0, run)
            top = float((mean if std is None else mean + std).max())
            axes.set_ylim(0, 1.08 * max(top, 1.0))
        panels[0][0].set_ylabel("updates of the classifier")
        drawing.figure_legend(figure, [axes for axes, _, _ in panels])
        what = f"{mean.mean():,.1f} updates per kernel in {run.result['n_rounds']:,} rounds"
        figure.suptitle(title(run, what), fontsize=10)
        return style.save(figure, folder or run.folder, "updates")


def _need_complete(run: Run) -> None:
    if not run.complete:
        raise ValueError(f"{run.folder} is {run.result['status']}: only complete runs have curves")


def _seeds(run: Run) -> str:
    return over_seeds(len(run.result["seeds"]))


def _dictionary(run: Run) -> tuple[Figure, list[tuple[Axes, np.ndarray, np.ndarray]]]:
    """A figure with a panel a kernel family: (axes, indices of its kernels, bandwidths)."""
    family, bandwidth = run.curves["kernel_family"], run.curves["kernel_bandwidth"]
    names = list(dict.fromkeys(family.tolist()))
    figure = Figure(figsize=(max(drawing.WIDTH, 3.0 * len(names)), 3.8))
    grid = figure.subplots(1, len(names), sharey=True, squeeze=False)
    panels = []
    for axes, name in zip(grid[0], names, strict=True):
        members = np.flatnonzero(family == name)
        members = members[np.argsort(bandwidth[members], kind="stable")]
        values = bandwidth[members]
        n = len(members)
        axes.set_title(f"{name.capitalize()}, {pluralize(n, 'kernel')}")
        axes.set_xlabel(FAMILIES.get(name, Family).label)  # see has_kernels
        margin = max(1.1, (values[-1] / values[0]) ** 0.05) if n > 1 else 4.0
        style.log_axis(axes.xaxis, values[0] / margin, values[-1] * margin)
        panels.append((axes, members, values))
    return figure, panels


def _points(
    axes: Axes,
    x: np.ndarray,
    mean: np.ndarray,
    std: np.ndarray | None,
    shown: np.ndarray,
    floor: float,
    run: Run,
    ceiling: float = math.inf,
) -> None:
    """Points with whiskers of one standard deviation, cut off at floor and ceiling."""
    errors = None
    if std is not None:
        lower = np.clip(mean - std, min(floor, float(mean.min())), None)
        upper = np.clip(mean + std, None, max(ceiling, float(mean.max())))
        errors = np.stack([mean - lower, upper - mean])[:, shown]
    axes.errorbar(
        x[shown],
        mean[shown],
        yerr=errors,
        color=style.COLOURS[0],
        ecolor="#7fb2d6",
        elinewidth=1,
        marker="o",
        markersize=3.5,
        linestyle="none",
        label=_seeds(run),
    )
