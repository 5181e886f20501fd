"""Figures of one run and of a sweep, each as PNG and PDF.

Shapes: R seeds, P recorded rounds, N kernels. Where a figure shows a spread it is
the sample standard deviation over the seeds; one seed has none.

Only matplotlib's object interface is used: no window system, no global figure list.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from omkl.core.kernels import FAMILIES
from omkl.report import style
from omkl.runs.folder import ERROR_RATE, MSE, Measure, Run, measure

Array = np.ndarray

# Points of a line: beyond them the file grows and the picture does not.
N_DRAWN = 2000
N_DRAWN_SMALL = 500
CHANGES = "the stream changes"
WIDTH = 7.0  # inches
N_COLUMNS = 3


def all_figures(run: Run, folder: Path | None = None) -> list[Path]:
    """The figures of one run; the paths written."""
    from omkl.report.federated_figures import clients, server

    classify = run.complete and measure(run.result) is ERROR_RATE
    regression = (mse, labels, regret, weights, usage, clients, server)
    drawn = (mse, mistakes, weights, updates) if classify else regression
    return [path for draw in drawn for path in draw(run, folder)]


def mse(run: Run, folder: Path | None = None, log_x: bool = False) -> list[Path]:
    """Mean squared error, or error rate, of rounds 1..t over t, into the run's folder by default.

    The first half per cent of the rounds is not drawn: a mean of a handful of
    errors says little and would set the scale.

    Raises ValueError for a run that is not complete, as all figures do.
    """
    _need_complete(run)
    curves, kind = run.curves, measure(run.result)
    chosen = drawn_rounds(curves["t"], skip=0.005)
    t = curves["t"][chosen]
    mean, std = mean_std(curves[kind.key][:, chosen])
    with style.applied():
        figure = Figure(figsize=(WIDTH, 4.2))
        axes = figure.add_subplot()
        low, high = _positive_limits(mean, std)
        band_line(axes, t, mean, std, 0, _seeds(run), floor=low)
        style.log_axis(axes.yaxis, low, high)
        round_axis(axes, t, log_x)
        _changes(axes, curves["change_rounds"], t)
        axes.set(xlabel="round t", ylabel=f"{_axis_name(kind)} of rounds 1..t")
        axes.set_title(_title(run, f"running {kind.long}"))
        axes.legend(loc="best")
        return style.save(figure, folder or run.folder, kind.key)


def labels(run: Run, folder: Path | None = None) -> list[Path]:
    """The same mean over the labels bought so far; nothing where all were, which is ``mse``."""
    _need_complete(run)
    if not saved_labels(run):
        return []
    chosen = drawn_rounds(run.curves["t"], skip=0.005)
    bought = run.curves["labels"].mean(axis=0)[chosen]
    mean, std = mean_std(run.curves["mse"][:, chosen])
    with style.applied():
        figure = Figure(figsize=(WIDTH, 4.2))
        axes = figure.add_subplot()
        low, high = _positive_limits(mean, std)
        band_line(axes, bought, mean, std, 0, _seeds(run), floor=low)
        style.log_axis(axes.yaxis, low, high)
        axes.set_xlim(0, 1.02 * bought[-1])
        axes.set(xlabel="labels bought", ylabel="MSE of all rounds so far")
        share = f"{run.result['al_efficiency']:.3g} of the labels bought"
        axes.set_title(_title(run, f"running mean squared error against its cost, {share}"))
        axes.legend(loc="best")
        return style.save(figure, folder or run.folder, "labels")


def saved_labels(run: Run) -> bool:
    """Whether a label was not asked for."""
    return run.result["al_efficiency"] < 1.0


def regret(run: Run, folder: Path | None = None) -> list[Path]:
    """Cumulative squared error above each comparator's; nothing if none was computed."""
    _need_complete(run)
    curves, stated = run.curves, run.result["regret"]
    names = [name for name in stated if f"regret_{name}" in curves]
    if not names:
        return []
    chosen = drawn_rounds(curves["t"])
    t = curves["t"][chosen]
    notes = [
        f"Not drawn: {_text(entry, name)} ({entry['skipped']})."
        for name, entry in stated.items()
        if "skipped" in entry
    ]
    with style.applied():
        footnote = "\n".join(style.wrapped(note, 105) for note in notes)
        lines_below = len(names) + footnote.count("\n") + (1 if notes else 0)
        figure = Figure(figsize=(WIDTH, 4.1 + 0.17 * lines_below))
        axes = figure.add_subplot()
        for index, name in enumerate(names):
            mean, std = mean_std(curves[f"regret_{name}"][:, chosen])
            band_line(axes, t, mean, std, index, style.wrapped(_text(stated[name], name), 90))
        axes.axhline(0, color=style.GREY, linewidth=0.8)
        round_axis(axes, t)
        _changes(axes, curves["change_rounds"], t)
        axes.set(xlabel="round t", ylabel="cumulative squared error\nabove the comparator")
        axes.set_title(_title(run, f"regret, {_seeds(run)}"))
        axes.legend(loc="upper left", bbox_to_anchor=(0, -0.13), borderaxespad=0)
        if footnote:
            figure.supxlabel(footnote, x=0.01, ha="left", fontsize=7.5, color="#444444")
        return style.save(figure, folder or run.folder, "regret")


def weights(run: Run, folder: Path | None = None) -> list[Path]:
    """Expert weights (R, N) after the last round, over the dictionary; nothing without any."""
    _need_complete(run)
    if "weights" not in run.curves:
        return []
    values = run.curves["weights"]
    mean, std = mean_std(values)
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
        _figure_legend(figure, [axes for axes, _, _ in panels])
        figure.suptitle(_title(run, "expert weights"), fontsize=10)
        return style.save(figure, folder or run.folder, "weights")


def usage(run: Run, folder: Path | None = None) -> list[Path]:
    """Share of the rounds in which each kernel was evaluated, over the dictionary.

    Nothing for a federation, where all are.
    """
    _need_complete(run)
    if "usage" not in run.curves:
        return []
    mean, std = mean_std(run.curves["usage"] / run.result["n_rounds"])
    with style.applied():
        figure, panels = _dictionary(run)
        for axes, members, bandwidth in panels:
            spread = None if std is None else std[members]
            everything = np.ones(len(members), bool)
            _points(axes, bandwidth, mean[members], spread, everything, 0.0, run, ceiling=1.0)
            axes.set_ylim(-0.03, 1.03)
        panels[0][0].set_ylabel("share of rounds evaluated")
        _figure_legend(figure, [axes for axes, _, _ in panels])
        per_round = run.result["kernels_per_round"]
        what = f"{per_round:.4g} of {len(mean)} kernels evaluated per round"
        figure.suptitle(_title(run, what), fontsize=10)
        return style.save(figure, folder or run.folder, "usage")


def mistakes(run: Run, folder: Path | None = None) -> list[Path]:
    """Mistakes up to round t, beside what the learner's theorem allows where it was computed."""
    _need_complete(run)
    curves = run.curves
    chosen = drawn_rounds(curves["t"], skip=0.005)
    t = curves["t"][chosen]
    mean, std = mean_std(curves["error_rate"][:, chosen] * t)
    with style.applied():
        figure = Figure(figsize=(WIDTH, 4.2))
        axes = figure.add_subplot()
        low, high = _positive_limits(mean, std)
        axes.plot(t, t, color=style.GREY, linewidth=0.8, label="every round a mistake")
        band_line(axes, t, mean, std, 0, f"mistakes, {_seeds(run)}", floor=low)
        high = max(high, float(t[-1]))
        if "bound" in curves and np.isfinite(curves["bound"]).all():
            looks = {**style.look(1), "linestyle": "none", "markersize": 6}
            label = f"bound of {_theorem(run)}"
            if run.config["stream"]["order"] == "shuffled" and len(run.result["seeds"]) > 1:
                label += " (rows in the first seed's order)"
            axes.plot(curves["bound_t"], curves["bound"], label=label, **looks)
            high = max(high, float(curves["bound"].max()))
        style.log_axis(axes.yaxis, low, 1.3 * high)
        round_axis(axes, t)
        _changes(axes, curves["change_rounds"], t)
        axes.set(xlabel="round t", ylabel="mistakes in rounds 1..t")
        axes.set_title(_title(run, "mistakes"))
        axes.legend(loc="lower right")
        return style.save(figure, folder or run.folder, "mistakes")


def updates(run: Run, folder: Path | None = None) -> list[Path]:
    """Rounds in which each kernel's classifier learned, over the dictionary."""
    _need_complete(run)
    mean, std = mean_std(run.curves["updates"])
    with style.applied():
        figure, panels = _dictionary(run)
        for axes, members, bandwidth in panels:
            spread = None if std is None else std[members]
            everything = np.ones(len(members), bool)
            _points(axes, bandwidth, mean[members], spread, everything, 0.0, run)
            top = float((mean if std is None else mean + std).max())
            axes.set_ylim(0, 1.08 * max(top, 1.0))
        panels[0][0].set_ylabel("updates of the classifier")
        _figure_legend(figure, [axes for axes, _, _ in panels])
        what = f"{mean.mean():.4g} updates per kernel in {run.result['n_rounds']:,} rounds"
        figure.suptitle(_title(run, what), fontsize=10)
        return style.save(figure, folder or run.folder, "updates")


def comparison(
    runs: Sequence[Run],
    folder: Path,
    name: str = "comparison",
    suffixes: Sequence[str] = ("png", "pdf"),
    against: str = "t",
) -> list[Path]:
    """A panel a data set with the MSE or error curves of all its complete runs.

    ``against`` is "t", the rounds, or "labels", those bought so far on the mean of the seeds.
    """
    runs, labels, datasets = _sweep(runs)
    if not runs:
        return []
    order = list(dict.fromkeys(labels))
    with style.applied():
        rows, columns = panel_grid(len(datasets))
        width = max(WIDTH, 3.4 * columns)
        texts, legend_columns, legend_height = _fitted(order, width)
        figure = Figure(figsize=(width, (3.6 if rows == 1 else 2.7 * rows) + legend_height))
        handles = {}
        for place, dataset in enumerate(datasets):
            axes = figure.add_subplot(rows, columns, place + 1)
            limits, last = [], 1
            for run, label in zip(runs, labels, strict=True):
                if run.result["dataset"] != dataset:
                    continue
                chosen = drawn_rounds(run.curves["t"], 0.01, N_DRAWN_SMALL)
                t = np.atleast_2d(run.curves[against]).mean(axis=0)[chosen]
                mean, std = mean_std(run.curves[measure(run.result).key][:, chosen])
                limits.append(_positive_limits(mean, std))
                index = order.index(label)
                handles[label] = band_line(
                    axes, t, mean, std, index, texts[index], floor=limits[-1][0], opacity=0.12
                )
                if against == "t":
                    _changes(axes, run.curves["change_rounds"], t)
                last = max(last, int(t[-1]))
            style.log_axis(axes.yaxis, min(a for a, _ in limits), max(b for _, b in limits))
            round_axis(axes, np.array([1, last]))
            axes.set_title(style.wrapped(dataset, 30))
            if place + columns >= len(datasets):
                axes.set_xlabel("round t" if against == "t" else "labels bought")
            if place % columns == 0:
                axes.set_ylabel(f"{_axis_names(runs)} of rounds 1..t")
        entries = [handles[label] for label in order]
        changes = [line for axes in figure.axes for line in axes.get_lines()]
        changes = [line for line in changes if line.get_label() == CHANGES][:1]
        figure.legend(
            entries + changes,
            texts + [CHANGES] * len(changes),
            loc="outside lower center",
            ncols=legend_columns,
        )
        figure.suptitle(f"Running {_long_names(runs)}, {_spread_of(runs)}", fontsize=10)
        return style.save(figure, folder, name, suffixes)


def summary(
    runs: Sequence[Run],
    folder: Path,
    name: str = "summary",
    suffixes: Sequence[str] = ("png", "pdf"),
    titles: Mapping[str, str] | None = None,
) -> list[Path]:
    """Final MSE or error rate of every complete run: a panel a data set, a line an algorithm.

    ``titles`` are for data sets that go by another name here.
    """
    titles = titles or {}
    runs, labels, datasets = _sweep(runs)
    if not runs:
        return []
    order = list(dict.fromkeys(labels))
    texts = [style.wrapped(label, 34) for label in order]
    with style.applied():
        rows, columns = panel_grid(len(datasets))
        lines = sum(text.count("\n") + 1 for text in texts)
        height = rows * (0.9 + 0.2 * max(lines, 3)) + 0.4
        figure = Figure(figsize=(max(WIDTH, 3.4 * columns), height))
        for place, dataset in enumerate(datasets):
            axes = figure.add_subplot(rows, columns, place + 1)
            low, high = math.inf, 0.0
            for run, label in zip(runs, labels, strict=True):
                if run.result["dataset"] != dataset:
                    continue
                index = order.index(label)
                key = measure(run.result).key
                mean = max(run.result[f"{key}_mean"], 1e-300)
                std = run.result[f"{key}_std"] or 0.0
                left = max(mean - std, mean / 3)
                low, high = min(low, left), max(high, mean + std)
                axes.errorbar(
                    [mean],
                    [index],
                    xerr=[[mean - left], [std]] if std else None,
                    ecolor="#999999",
                    elinewidth=1,
                    **{**style.look(index), "linestyle": "none", "markersize": 6},
                )
            style.log_axis(axes.xaxis, low / 1.15, high * 1.15)
            axes.set_ylim(len(order) - 0.5, -0.5)
            axes.set_yticks(range(len(order)), texts if place % columns == 0 else [])
            axes.set_title(style.wrapped(titles.get(dataset, dataset), 30))
            if place + columns >= len(datasets):
                axes.set_xlabel(f"{_axis_names(runs)} of all rounds")
        figure.suptitle(f"Final {_long_names(runs)}, {_spread_of(runs)}", fontsize=10)
        return style.save(figure, folder, name, suffixes)


def _theorem(run: Run) -> str:
    """The theorem of the run's bound, and whether that is unproved."""
    bound = run.result["bound"]
    return f"{bound['theorem']}, unproved" if bound.get("unproved") else str(bound["theorem"])


def bounds(
    runs: Sequence[Run],
    folder: Path,
    name: str = "bounds",
    suffixes: Sequence[str] = ("png", "pdf"),
) -> list[Path]:
    """Mistakes beside what theorems allow: a panel a data set, a line a run that has a bound."""
    runs = [run for run in runs if run.complete and (run.result.get("bound") or {}).get("value")]
    runs, _, datasets = _sweep(runs)
    if not runs:
        return []
    labels = [f"{style.name_of(run)}, {_theorem(run)}" for run in runs]
    order = list(dict.fromkeys(labels))
    with style.applied():
        rows, columns = panel_grid(len(datasets))
        height = rows * (0.9 + 0.25 * max(len(order), 3)) + 0.6
        figure = Figure(figsize=(max(WIDTH, 3.4 * columns), height))
        for place, dataset in enumerate(datasets):
            axes = figure.add_subplot(rows, columns, place + 1)
            low, high = math.inf, 0.0
            for run, label in zip(runs, labels, strict=True):
                if run.result["dataset"] != dataset:
                    continue
                index, counts = order.index(label), np.array(run.result["mistakes"])
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
            axes.set_ylim(len(order) - 0.5, -0.5)
            axes.set_yticks(range(len(order)), order if place % columns == 0 else [])
            axes.set_title(style.wrapped(dataset, 30))
            if place + columns >= len(datasets):
                axes.set_xlabel("mistakes in all rounds")
        _figure_legend(figure, figure.axes)
        n_seeds = max(len(run.result["seeds"]) for run in runs)
        figure.suptitle(f"Mistakes beside what theorems allow, {n_seeds} seeds", fontsize=10)
        return style.save(figure, folder, name, suffixes)


def _axis_name(kind: Measure) -> str:
    return kind.short if kind is MSE else kind.long


def _axis_names(runs: Sequence[Run]) -> str:
    return " or ".join(dict.fromkeys(_axis_name(measure(run.result)) for run in runs))


def _long_names(runs: Sequence[Run]) -> str:
    return " or ".join(dict.fromkeys(measure(run.result).long for run in runs))


def tradeoff(
    runs: Sequence[Run],
    folder: Path,
    name: str = "tradeoff",
    suffixes: Sequence[str] = ("png", "pdf"),
) -> list[Path]:
    """What errors cost in labels, a line a learner and M, a row of panels a data set.

    The panels: AL_eff and MSE against eta_c, and MSE against AL_eff, where learners that ask at
    random have a line as well, over their ``rate``. Nothing where the runs have fewer than two
    values of eta_c or rate on each data set. eta_c = 0, where every label is bought, stands at
    the left end of the logarithmic axis.
    """
    lines: dict[tuple[str, str, int], list[Run]] = {}
    for run in runs:
        if run.complete and _dial(run) and "M" in run.result["params"]:
            key = (run.result["dataset"], style.name_of(run), int(run.result["params"]["M"]))
            lines.setdefault(key, []).append(run)
    lines = {key: found for key, found in lines.items() if len(set(map(_turned, found))) > 1}
    if not lines:
        return []
    datasets = list(dict.fromkeys(dataset for dataset, _, _ in lines))
    order = sorted({(learner, M) for _, learner, M in lines})
    dials = [_turned(r) for found in lines.values() for r in found if _dial(r) == "eta_c"]
    positive = [dial for dial in dials if dial > 0.0]
    leftmost = min(positive, default=1.0) / (3.0 if 0.0 in dials else 1.0)
    share, mse = ("al_efficiency", 1.0, "AL_eff"), ("mse_mean", 1e3, "MSE × 10⁻³")
    panels = [("eta_c", share), ("eta_c", mse)] if positive else []
    panels.append(("al_efficiency", mse))
    with style.applied():
        height = 2.9 * len(datasets) + 0.25 * math.ceil(len(order) / 3)
        figure = Figure(figsize=(WIDTH * max(2, len(panels)) / 2, height))
        grid = figure.subplots(len(datasets), len(panels), squeeze=False)
        handles: dict[tuple[str, int], Artist] = {}
        for row, dataset in zip(grid, datasets, strict=True):
            for axes, (over, (quantity, unit, label)) in zip(row, panels, strict=True):
                for index, (learner, M) in enumerate(order):
                    found = sorted(lines.get((dataset, learner, M), []), key=_turned)
                    if over == "eta_c":
                        found = [run for run in found if _dial(run) == "eta_c"]
                        x = [max(_turned(run), leftmost) for run in found]
                    else:
                        x = [run.result["al_efficiency"] for run in found]
                    if not found:
                        continue
                    y = [unit * run.result[quantity] for run in found]
                    (handles[learner, M],) = axes.plot(
                        x, y, label=f"{learner}, M = {M}", **style.look(index)
                    )
                axes.set(ylabel=label, title=dataset)
                last = dataset == datasets[-1]
                if over != "eta_c":
                    axes.set_xlabel("AL_eff, share of the labels bought" if last else "")
                    continue
                style.log_axis(axes.xaxis, leftmost / 1.2, 1.2 * max(positive))
                if 0.0 in dials:
                    ticks = [leftmost, *(t for t in axes.get_xticks() if t > 3.5 * leftmost)]
                    axes.set_xticks(ticks, ["0", *(f"{t:g}" for t in ticks[1:])])
                axes.set_xlabel("confidence eta_c" if last else "")
        figure.legend(handles=[handles[key] for key in order], loc="outside lower center", ncols=3)
        return style.save(figure, folder, name, suffixes)


def _dial(run: Run) -> str:
    """The parameter that says how often a learner asks; "" if it asks always."""
    return next((name for name in ("eta_c", "rate") if name in run.result["params"]), "")


def _turned(run: Run) -> float:
    return float(run.result["params"][_dial(run)])


def _need_complete(run: Run) -> None:
    if not run.complete:
        raise ValueError(
            f"{run.folder} is {run.result.get('status')}: only complete runs have curves"
        )


def _sweep(runs: Sequence[Run]) -> tuple[list[Run], list[str], list[str]]:
    """Complete runs, their labels, and their data sets in order of appearance."""
    kept = [run for run in runs if run.complete]
    return kept, style.labels(kept), list(dict.fromkeys(run.result["dataset"] for run in kept))


def panel_grid(n_panels: int) -> tuple[int, int]:
    """Rows and columns of panels; four make a square."""
    columns = 2 if n_panels == 4 else min(N_COLUMNS, n_panels)
    return math.ceil(n_panels / columns), columns


def _text(entry: dict[str, str], name: str) -> str:
    return entry.get("label", name)


def _title(run: Run, what: str) -> str:
    result = run.result
    heading = style.wrapped(f"{style.name_of(run)} on {result['dataset']}", 80)
    return f"{heading}\n{style.wrapped(what, 90)}"


def _seeds(run: Run) -> str:
    n = len(run.result["seeds"])
    return f"mean ± std over {n} seeds" if n > 1 else "1 seed"


def _spread_of(runs: Sequence[Run]) -> str:
    counts = sorted({len(run.result["seeds"]) for run in runs})
    if counts == [1]:
        return "1 seed"
    among = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"mean ± std over {among} seeds"


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


def _positive_limits(mean: Array, std: Array | None) -> tuple[float, float]:
    """Limits of a logarithmic axis that show the mean and, within reason, its band."""
    positive = mean[mean > 0]
    if positive.size == 0:
        return 1e-17, 1e-15
    lowest = float(positive.min())
    bottom = lowest if std is None else max(float((mean - std).min()), lowest / 3)
    top = float(mean.max() if std is None else (mean + std).max())
    return bottom / 1.12, top * 1.12


def band_line(
    axes: Axes,
    t: Array,
    mean: Array,
    std: Array | None,
    index: int,
    label: str,
    floor: float = -math.inf,
    opacity: float = 0.2,
) -> Line2D:
    """A line with its band; both are kept at ``floor`` or above, for a logarithmic axis."""
    looks = style.look(index)
    if std is not None and len(t) > 1:
        lower, upper = np.maximum(mean - std, floor), np.maximum(mean + std, floor)
        axes.fill_between(t, lower, upper, color=looks["color"], alpha=opacity, linewidth=0)
    elif std is not None:
        axes.errorbar(t, mean, yerr=std, color=looks["color"], capsize=3)
    every = (0.03 * (index % 5), 0.16) if len(t) > 1 else 1
    (line,) = axes.plot(t, np.maximum(mean, floor), markevery=every, label=label, **looks)
    return line


def round_axis(axes: Axes, t: Array, log_x: bool = False) -> None:
    first, last = int(t[0]), int(t[-1])
    if first == last:
        axes.set_xlim(last - 0.5, last + 0.5)
        axes.set_xticks([last])
    elif log_x:
        style.log_axis(axes.xaxis, first, last)
    else:
        axes.set_xlim(0, 1.02 * last)
        axes.xaxis.get_major_locator().set_params(integer=True, nbins=6)  # type: ignore[call-arg]


def _changes(axes: Axes, rounds: Array, t: Array) -> None:
    """Dashed lines where the stream is known to change; the first one carries the label."""
    label: str | None = CHANGES
    if any(line.get_label() == CHANGES for line in axes.get_lines()):
        return
    for change in rounds[(rounds > t[0]) & (rounds <= t[-1])]:
        axes.axvline(change, color=style.GREY, linewidth=1, linestyle=(0, (4, 3)), label=label)
        label = None


def _dictionary(run: Run) -> tuple[Figure, list[tuple[Axes, Array, Array]]]:
    """A figure with a panel a kernel family: (axes, indices of its kernels, bandwidths)."""
    family, bandwidth = run.curves["kernel_family"], run.curves["kernel_bandwidth"]
    names = list(dict.fromkeys(family.tolist()))
    figure = Figure(figsize=(max(WIDTH, 3.0 * len(names)), 3.8))
    grid = figure.subplots(1, len(names), sharey=True, squeeze=False)
    panels = []
    for axes, name in zip(grid[0], names, strict=True):
        members = np.flatnonzero(family == name)
        members = members[np.argsort(bandwidth[members], kind="stable")]
        values = bandwidth[members]
        n = len(members)
        axes.set_title(f"{name.capitalize()}, {n} kernel{'s' if n > 1 else ''}")
        axes.set_xlabel(FAMILIES[name].label if name in FAMILIES else "length")  # an expert
        margin = max(1.1, (values[-1] / values[0]) ** 0.05) if n > 1 else 4.0
        style.log_axis(axes.xaxis, values[0] / margin, values[-1] * margin)
        panels.append((axes, members, values))
    return figure, panels


def _points(
    axes: Axes,
    x: Array,
    mean: Array,
    std: Array | None,
    shown: Array,
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


def _figure_legend(figure: Figure, panels: Sequence[Axes]) -> None:
    """One legend below the panels with every entry once."""
    entries: dict[str, Artist] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    figure.legend(
        list(entries.values()), list(entries), loc="outside lower center", ncols=len(entries)
    )


def _fitted(labels: Sequence[str], width: float) -> tuple[list[str], int, float]:
    """Wrapped labels, the columns of their legend in ``width`` inches, and its height."""
    texts = [style.wrapped(label, 60) for label in labels]
    longest = max(len(line) for text in texts for line in text.split("\n"))
    columns = max(1, min(len(texts), int(width / (0.07 * longest + 0.55))))
    deepest = max(text.count("\n") + 1 for text in texts)
    return texts, columns, 0.17 * deepest * math.ceil(len(texts) / columns) + 0.1
