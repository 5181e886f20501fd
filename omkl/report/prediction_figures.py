"""Figures of what a run predicted: the last rounds, how often intervals held, who was believed."""

from __future__ import annotations

from pathlib import Path
from statistics import NormalDist

import numpy as np
from matplotlib.figure import Figure

from omkl.report import drawing, style
from omkl.report.experts import expert_names, has_kernels
from omkl.runs.run_folder import Run, scaling_of


def title(run: Run, what: str) -> str:
    heading = style.wrapped(f"{style.name_of(run)} on {run.result['dataset']}", 80)
    return f"{heading}\n{style.wrapped(what, 90)}"


def predictions(run: Run, folder: Path | None = None) -> list[Path]:
    """Predictions of the last rounds beside the labels, with their intervals.

    Those that were asked for, or of 90 % by the learner's spread.
    """
    curves = run.curves
    if "recent_t" not in curves:
        return []
    t, y, y_hat, spread = (curves[f"recent_{name}"] for name in ("t", "y", "y_hat", "spread"))
    with style.applied():
        figure = Figure(figsize=(drawing.WIDTH, 3.8))
        axes = figure.add_subplot()
        looks = style.look(0)
        percent, half = 90.0, NormalDist().inv_cdf(0.95) * spread
        if interval := run.result.get("interval"):  # of so few rows none may be known
            percent, half = 100.0 * interval["level"], curves["recent_half"]
        if np.isfinite(half).any():
            band = {"color": looks["color"], "alpha": 0.2, "linewidth": 0}
            label = f"interval of {percent:g} %"
            axes.fill_between(t, y_hat - half, y_hat + half, label=label, **band)
        axes.plot(t, y_hat, color=looks["color"], linewidth=1.2, label="prediction")
        axes.plot(t, y, color="#444444", linestyle="none", marker=".", markersize=3, label="label")
        axes.set_xlim(t[0] - 0.5, t[-1] + 0.5)
        axes.set_xlabel("round t")
        scaled = ", scaled to [0, 1]" if scaling_of(run.result) == "whole" else ""
        axes.set_ylabel(f"{run.result['stream']['target']}{scaled}", parse_math=False)
        seed = run.result["seeds"][0]
        axes.set_title(title(run, f"the last {len(t)} rounds, seed {seed}"))
        drawing.figure_legend(figure, [axes])
        return style.save(figure, folder or run.folder, "predictions")


def coverage(run: Run, folder: Path | None = None) -> list[Path]:
    """How many labels lay in their intervals, window by window; means over the seeds."""
    drawn = []
    if windows := run.result.get("spread", {}).get("windows"):
        drawn += [(p, "", windows, windows[f"coverage_{p}"]) for p in (90, 50)]
    interval = run.result.get("interval", {})
    if windows := interval.get("windows"):
        drawn.append((100.0 * interval["level"], "adaptive ", windows, windows["coverage"]))
    if not drawn:
        return []
    with style.applied():
        figure = Figure(figsize=(drawing.WIDTH, 3.4))
        axes = figure.add_subplot()
        for index, (percent, kind, windows, coverage) in enumerate(drawn):
            looks = style.look(index)
            axes.axhline(percent, color=style.GREY, linewidth=0.8)
            shares = 100.0 * np.array(coverage, dtype=float)
            label = f"in the {kind}interval of {percent:g} %"
            axes.plot(windows["until"], shares, label=label, **looks)
        until = drawn[0][2]["until"]
        axes.set_ylim(0, 104)
        axes.set_xlim(0, 1.02 * until[-1])
        drawing.mark_changes(axes, run.curves["change_rounds"], np.array(until))
        axes.set(xlabel="last round of the window", ylabel="labels, % of a window")
        axes.set_title(title(run, "how often intervals held"))
        drawing.figure_legend(figure, [axes])
        return style.save(figure, folder or run.folder, "coverage")


def experts(run: Run, folder: Path | None = None) -> list[Path]:
    """Weights of experts that are no kernels, by name; nothing for a learner of kernels."""
    names = expert_names(run)
    if has_kernels(run) or len(names) < 2:
        return []
    mean, std = drawing.mean_std(run.curves["weights"])
    with style.applied():
        figure = Figure(figsize=(drawing.WIDTH, max(2.8, 0.9 + 0.2 * len(names))))
        axes = figure.add_subplot()
        places = np.arange(len(names))
        error = {"ecolor": "#7fb2d6", "elinewidth": 1}
        axes.barh(places, mean, xerr=std, color=style.COLOURS[0], height=0.6, error_kw=error)
        axes.set_yticks(places, names)
        axes.invert_yaxis()
        axes.set_xlim(left=0)
        axes.set_xlabel("weight after the last round")
        axes.set_title(title(run, "experts"))
        return style.save(figure, folder or run.folder, "experts")
