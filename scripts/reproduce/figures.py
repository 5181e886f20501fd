"""Figures of the papers' pages, drawn from filled cells and run folders, as PNG."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from omkl.report import naming, style, sweep_figures
from omkl.runs.run_folder import Run
from omkl.utils import registry
from reproduce import regret_bounds, theorems
from reproduce.results import Runs
from reproduce.tables import METRICS, VARIANTS, WRITTEN, Table

RIDGE = "regret_ridge_features"
# Marker, colour and height above its line of each variant; published numbers are hollow.
MARKS = {
    WRITTEN: ("o", style.COLOURS[0], 0.15),
    "released": ("s", style.COLOURS[2], -0.15),
    "rebuilt": ("^", style.COLOURS[3], -0.15),
    "recovered": ("D", style.COLOURS[1], -0.15),
}
HOLLOW: dict[str, Any] = {"marker": "o", "linestyle": "", "mfc": "none", "mec": "black"}
DOTTED: dict[str, Any] = {"linestyle": (0, (1, 3)), "markerfacecolor": "white"}


class Drawn(NamedTuple):
    """Picture that was written, and its caption."""

    path: Path
    caption: str


def _save(figure: Figure, folder: Path, name: str, caption: str) -> list[Drawn]:
    """Write a picture with few colours. It takes a third of the bytes and looks the same."""
    from PIL import Image

    (path,) = style.save(figure, folder, name)
    with Image.open(path) as image:
        small = image.convert("RGB").quantize(96, dither=Image.Dither.NONE)
    small.save(path, optimize=True, dpi=(style.DPI, style.DPI))
    return [Drawn(path, caption)]


def _name(run: Run) -> str:
    """Return the printed name of the algorithm, with the words of the pages for its settings."""
    return naming.name_of(run).replace("(recovered)", "(found by search)")


def _legend(figure: Figure, handles: Sequence[Line2D]) -> None:
    inches = 0.07 * max(len(str(handle.get_label())) for handle in handles) + 0.6
    columns = min(max(1, int(figure.get_figwidth() / inches)), len(handles))
    figure.legend(handles=handles, loc="outside lower center", ncols=columns)


def _log(axis: Axis) -> None:
    """Make an axis logarithmic after everything is drawn."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})  # type: ignore[attr-defined]
    style.log_axis(axis, *axis.get_view_interval())


def _labels(runs: Sequence[Run]) -> list[str]:
    """Name the learner of each run, with M if a learner occurs with several."""
    named = [(_name(run), run.result["params"].get("M")) for run in runs]
    sizes: dict[str, set[Any]] = {}
    for name, M in named:
        sizes.setdefault(name, set()).add(M)
    return [f"{name}, M = {M}" if len(sizes[name]) > 1 else name for name, M in named]


def _panels(
    runs: Sequence[Run],
    draw: Callable[[Axes, Run, int], None],
    xlabel: str,
    ylabel: str,
    more: Sequence[Line2D] = (),
    low: float | None = None,
    log: bool = False,
) -> Figure:
    """Draw a panel per data set: ``draw(axes, run, index)`` draws a run with look ``index``.

    ``low`` is the lower end of vertical axes. ``log`` makes them logarithmic.
    """
    labels = _labels(runs)
    order = list(dict.fromkeys(labels))
    datasets = list(dict.fromkeys(run.result["dataset"] for run in runs))
    figure, panels = style.panels(datasets, 2.7)
    for panel in panels:
        for run, label in zip(runs, labels, strict=True):
            if run.result["dataset"] == panel.name:
                draw(panel.axes, run, order.index(label))
        if low is not None:  # last: a limit set earlier would cut later lines
            panel.axes.set_ylim(bottom=low)
        if log:
            _log(panel.axes.yaxis)
        panel.axes.set_xlabel(xlabel if panel.lowest else "")
        panel.axes.set_ylabel(ylabel if panel.leftmost else "")
    handles = [Line2D([], [], label=text, **style.look(i)) for i, text in enumerate(order)]
    _legend(figure, [*handles, *more])
    return figure


def _line(axes: Axes, run: Run, index: int, curve: str) -> None:
    """Draw a curve with its standard deviation over seeds."""
    t = run.curves["t"]
    chosen = style.drawn_rounds(t, 0.01, style.N_DRAWN_SMALL)
    mean, std = style.mean_std(run.curves[curve][:, chosen])
    low = style.positive_limits(mean, std)[0] if curve == "mse" else -math.inf
    style.band_line(axes, t[chosen], mean, std, index, "", low, opacity=0.15)
    style.row_axis(axes, {"t": t})


def over_time(runs: Sequence[Run]) -> Figure:
    """Draw the MSE of rows 1..t of each run, a panel per data set."""

    def draw(axes: Axes, run: Run, index: int) -> None:
        _line(axes, run, index, "mse")

    return _panels(runs, draw, "row t", "MSE", log=True)


def regret_over_time(runs: Sequence[Run], curve: str = RIDGE) -> Figure:
    def draw(axes: Axes, run: Run, index: int) -> None:
        _line(axes, run, index, curve)
        axes.axhline(0, color=style.GREY, linewidth=0.8)

    above = "above ridge in hindsight" if curve == RIDGE else "of the clients, their mean"
    low = None if curve == RIDGE else 0.0
    return _panels(runs, draw, "round t", f"regret {above}", low=low)


# --- published beside ours ------------------------------------------------------------------------


def dumbbells(
    cells: pd.DataFrame, titles: Mapping[str, str], folder: Path, name: str
) -> list[Drawn]:
    """Draw every published number of the first metric and ours, a panel per column.

    Parameters
    ----------
    cells
        Filled cells.
    titles
        Titles of tables by name.
    folder, name
        Folder and name of the picture.
    """
    metric = cells["metric"].iloc[0]
    shown = cells[(cells["metric"] == metric) & cells["published"].notna() & cells["ours"].notna()]
    if shown.empty:
        return []
    groups = [group for _, group in shown.groupby(["table", "column"], sort=False)]
    n_lines = max(group["row"].nunique() for group in groups)
    several = shown["table"].nunique() > 1
    with style.applied():
        names = [titles[g["table"].iloc[0]] if several else g["column"].iloc[0] for g in groups]
        figure, panels = style.panels(names, 0.24 * n_lines + 0.9)
        for panel, group in zip(panels, groups, strict=True):
            axes, rows = panel.axes, list(group["row"].unique())[::-1]
            for place, row in enumerate(rows):
                line = group[group["row"] == row]
                published, ours = line["published"].iloc[0], line["ours"].astype(float)
                ends = [min(published, ours.min()), max(published, ours.max())]
                axes.plot(ends, [place, place], color="0.75", linewidth=1.5, zorder=1)
                for variant, number in zip(line["variant"], ours, strict=True):
                    marker, colour, above = MARKS[variant]
                    axes.plot(number, place + above, marker, color=colour, markersize=4.5)
                axes.plot(published, place, markersize=8, zorder=3, **HOLLOW)
            axes.set_yticks(range(len(rows)), rows)
            _log(axes.xaxis)
            axes.grid(axis="y", visible=False)
            axes.set_xlabel(METRICS[metric].heading if panel.lowest else "")
        handles = [Line2D([], [], label="published", **HOLLOW)]
        handles += [
            Line2D([], [], linestyle="", marker=MARKS[v][0], color=MARKS[v][1], label=what)
            for v, what in VARIANTS.items() if v in set(shown["variant"])
        ]  # fmt: skip
        _legend(figure, handles)
        return _save(
            figure, folder, name, f"{METRICS[metric].heading}: published (hollow) and ours."
        )


def against_selected(cells: pd.DataFrame, metric: str, learners: Sequence[str]) -> Figure:
    """Draw a metric of each learner against M, filled, beside the published numbers, hollow.

    Parameters
    ----------
    cells
        Filled cells.
    metric
        A key of ``METRICS``.
    learners
        Names of algorithms.
    """
    written = cells[(cells["variant"] == WRITTEN) & (cells["metric"] == metric)]
    figure, panels = style.panels(list(written["dataset"].unique()), 2.7)
    for panel in panels:
        of_dataset = written[written["dataset"] == panel.name]
        for index, learner in enumerate(learners):
            line = of_dataset[of_dataset["algorithm"] == learner].sort_values("M")
            looks, M = style.look(index), line["M"].astype(float)
            panel.axes.plot(M, line["published"], **looks | DOTTED | {"linewidth": 0.8})
            aside = 0.25 * (index - (len(learners) - 1) / 2)  # bars beside each other
            ours, std = line["ours"].astype(float), line["std"].astype(float)
            low = np.minimum(std, 0.9 * ours)  # the axis is logarithmic
            bars = np.stack([low, std]) if metric == "mse_e3" else None
            panel.axes.errorbar(M + aside, ours, yerr=bars, capsize=3, **looks)
        _log(panel.axes.yaxis)
        panel.axes.set_xticks(sorted(of_dataset["M"].unique()))
        panel.axes.set_xlabel("selected kernels M" if panel.lowest else "")
        panel.axes.set_ylabel(METRICS[metric].heading if panel.leftmost else "")
    handles = [
        Line2D([], [], label=registry.title(learner), **style.look(index))
        for index, learner in enumerate(learners)
    ]
    grey: dict[str, Any] = {"color": style.GREY, "marker": "o"}
    handles += [Line2D([], [], label="ours", **grey)]
    _legend(figure, [*handles, Line2D([], [], label="published", **grey | DOTTED)])
    return figure


# --- regret beside its theorem --------------------------------------------------------------------

_LOOKS: dict[str, dict[str, Any]] = {
    "regret": {"color": style.COLOURS[0], "linewidth": 1.8},
    "promised slope": {"color": style.COLOURS[1], "linestyle": style.LINES[1]},
    "fitted slope": {"color": style.COLOURS[4], "linestyle": style.LINES[2], "linewidth": 2},
    "T": {"color": style.GREY, "linewidth": 0.9},
    "theorem's right-hand side": {"color": style.COLOURS[2], "linestyle": style.LINES[3]},
}


def regret_bounds_figure(runs: Sequence[Run], with_value: bool = False) -> Figure:
    """Draw regret with both slopes: learners by data sets, or one data set in a row.

    ``with_value`` draws the theorem's right-hand side for the run's own constants too.
    """
    learners = list(dict.fromkeys(run.result["algorithm"] for run in runs))
    datasets = list(dict.fromkeys(run.result["dataset"] for run in runs))
    shape = (1, len(learners)) if len(datasets) == 1 else (len(learners), len(datasets))
    size = max(style.WIDTH, 2.55 * shape[1]), (3.3 if shape[0] == 1 else 2.1 * shape[0]) + 0.5
    figure = Figure(figsize=size)
    grid = figure.subplots(*shape, squeeze=False)
    for run in runs:
        row, column = (
            learners.index(run.result["algorithm"]),
            datasets.index(run.result["dataset"]),
        )
        axes = grid[0][row] if shape[0] == 1 else grid[row][column]
        _draw_bound(axes, run, with_value)
        axes.set_title(f"{_name(run)}, {run.result['dataset']}", fontsize=9)
    for axes in grid[-1]:
        axes.set_xlabel("round t")
    for axes in grid[:, 0]:
        axes.set_ylabel("regret")
    names = list(_LOOKS)[: None if with_value else -1]
    _legend(figure, [Line2D([], [], label=name, **_LOOKS[name]) for name in names])
    return figure


def _draw_bound(axes: Axes, run: Run, with_value: bool) -> None:
    t, algorithm = run.curves["t"], run.result["algorithm"]
    chosen = style.drawn_rounds(t, limit=style.N_DRAWN_SMALL)
    regret = run.curves[RIDGE].mean(axis=0)
    positive = np.where(regret > 0, regret, np.nan)
    axes.plot(t[chosen], positive[chosen], **_LOOKS["regret"])
    theorem = theorems.theorem_meant(algorithm)
    assert theorem is not None
    shown = positive[np.isfinite(positive)]
    anchor = float(shown[-1]) if shown.size else 1.0
    expected = anchor * (t[chosen] / t[-1]) ** theorem.rate
    axes.plot(t[chosen], expected, **_LOOKS["promised slope"])
    slope = regret_bounds.fitted_slope(t, regret)
    gap = ", unproved" if theorems.unproved(algorithm, run.result["params"]) else ""
    fitted = "none: regret below 0" if slope is None else f"{slope:.2f}".replace("-", "−")
    if slope is not None:
        late = t >= t[-1] / 2
        x, y = np.log(t[late]), np.log(regret[late])
        axes.plot(t[late], np.exp(y.mean() + slope * (x - x.mean())), **_LOOKS["fitted slope"])
    axes.plot(t[chosen], t[chosen], **_LOOKS["T"])
    highest, bound = float(t[-1]), theorems.bound_of_run(run) if with_value else None
    if bound is not None and np.isfinite(bound.value).all():
        axes.plot(t[chosen], bound.value[chosen], **_LOOKS["theorem's right-hand side"])
        highest = max(highest, float(bound.value.max()))
    # A first round far below the rest would flatten everything else.
    low = max(min(float(shown.min()) if shown.size else 1.0, expected[0]), 1e-3 * anchor)
    axes.set(xscale="log", yscale="log", xlim=(1, 1.05 * float(t[-1])))
    axes.set_ylim(low / 1.3, highest * (100 if with_value else 30))
    text = f"promised {theorem.rate:.2f}\n({theorem.name}{gap})\nfitted {fitted}"
    axes.text(0.03, 0.97, text, transform=axes.transAxes, va="top", fontsize=7.5)


# --- the figures of each paper --------------------------------------------------------------------


class Filled(NamedTuple):
    """Filled tables of a paper by name, and the run of each job."""

    tables: Mapping[str, Table]
    cells: Mapping[str, pd.DataFrame]
    runs: Runs

    def of(self, table: str, variant: str = WRITTEN) -> list[Run]:
        """Return the complete runs of a table's variant, each once, of rows that the paper has."""
        cells = self.cells[table]
        cells = cells[(cells["variant"] == variant) & cells["published"].notna()]
        runs = {id(run): run for run in cells["run"] if run is not None and run.complete}
        return list(runs.values())

    def swept(self, table: str) -> list[Run]:
        runs = [self.runs[job] for job in self.tables[table].swept]
        return [run for run in runs if run.complete]


def jmlr(filled: Filled, folder: Path) -> list[Drawn]:
    tables = [f"jmlr_table{n}" for n in (3, 4, 5)]
    cells = pd.concat([filled.cells[name] for name in tables])
    learners = list(cells[cells["variant"] == WRITTEN]["algorithm"].unique())
    runs = filled.of("jmlr_table1")
    aided = [
        run
        for run in runs
        if getattr(theorems.theorem_meant(run.result["algorithm"]), "explore", "")
    ]
    aided = [run for run in aided if RIDGE in run.curves]
    first = [run for run in aided if run.result["dataset"] == aided[0].result["dataset"]]
    with style.applied():
        drawn = _save(
            against_selected(cells, "mse_e3", learners),
            folder,
            "jmlr_figure3",
            "JMLR, figure 3: MSE after the last round, with its standard deviation over the seeds, "
            "against the number M of selected kernels. Filled: ours, as written; hollow: published "
            "(tables 3 to 5).",
        )
        drawn += _save(
            against_selected(cells, "runtime_s", learners),
            folder,
            "jmlr_figure4",
            "JMLR, figure 4: run time of one seed against M. Filled: ours; hollow: published, on "
            "the authors' machine.",
        )
        drawn += _save(
            over_time(runs),
            folder,
            "jmlr_figure5",
            "JMLR, figure 5: MSE of rounds 1..t against t, of every learner of table 1.",
        )
        if not aided:
            return drawn
        drawn += _save(
            regret_over_time(aided),
            folder,
            "jmlr_figure6",
            "JMLR, figure 6: cumulative squared error of rounds 1..t, minus that of the best "
            "kernel in hindsight (ridge regression on its random features), against t.",
        )
        drawn += _save(
            regret_bounds_figure(aided),
            folder,
            "regret_and_theory",
            "The regret of figure 6 on logarithmic axes, with the rate of the theorem and the "
            "slope fitted to the second half of the rounds. The grey line is T, the largest regret "
            "that losses in [0, 1] allow.",
        )
        return drawn + _save(
            regret_bounds_figure(first, with_value=True), folder, "regret_and_bounds",
            "Regret and the theorem's bound, both against the best function of the random "
            "features. The bound has the settings of the run. A bound above T says nothing.",
        )  # fmt: skip


def arxiv_v1(filled: Filled, folder: Path) -> list[Drawn]:
    runs = [run for n in (1, 3) for run in filled.of(f"arxiv_v1_table{n}")]
    with style.applied():
        caption = "arXiv v1, figures 1 and 2: MSE of rounds 1..t against t."
        return _save(over_time(runs), folder, "arxiv_v1_figures", caption)


def active(filled: Filled, folder: Path) -> list[Drawn]:
    drawn: list[Drawn] = []
    with style.applied():
        for variant, what in (
            (WRITTEN, "settings of the text"),
            ("recovered", "settings found by search"),
        ):
            name = "" if variant == WRITTEN else "_searched"
            drawn += _save(
                over_time(filled.of("active_table2", variant)),
                folder,
                f"active_figure3{name}",
                f"Active MKL, figure 3, {what}: MSE of rounds 1..t against t. Twitter (large) is "
                "omitted if its file is missing.",
            )
            queried = filled.of("active_table3", variant)
            drawn += _save(
                regret_over_time([r for r in queried if RIDGE in r.curves]), folder,
                f"active_regret{name}",
                f"Regret (15) of the learners of table 3 in rounds 1..t against t, {what}.",
            )  # fmt: skip
        return drawn + _save(
            tradeoff(filled.swept("active_table3")), folder, "active_figure2",
            "Active MKL, figure 2: the effect of eta_c and M, with settings found by search. "
            "AL_eff is the share of requested targets; eta_c = 0, at the left end, requests all. "
            "Right: the error over this share, compared with random requests.",
        )  # fmt: skip


def tradeoff(runs: Sequence[Run]) -> Figure:
    """Draw AL_eff and MSE against eta_c, and MSE against AL_eff: a line per learner and M."""
    table = pd.DataFrame([
        {
            "line": f"{_name(run)}, M = {run.result['params']['M']}",
            "eta_c": run.result["params"].get("eta_c", np.nan),
            "AL_eff": run.result["al_efficiency"], "MSE": run.result["mse_mean"],
            "AL_eff std": run.result["al_efficiency_std"], "MSE std": run.result["mse_std"],
        }
        for run in runs
    ]).astype(dict.fromkeys(("eta_c", "AL_eff std", "MSE std"), float))  # fmt: skip
    figure = Figure(figsize=(1.5 * style.WIDTH, 3.4))
    panels = figure.subplots(1, 3)
    for index, (_, line) in enumerate(table.groupby("line", sort=False)):
        for axes, x, y in zip(
            panels, ("eta_c", "eta_c", "AL_eff"), ("AL_eff", "MSE", "MSE"), strict=True
        ):
            shown = line.dropna(subset=[x]).sort_values(x)
            axes.errorbar(shown[x], shown[y], yerr=shown[f"{y} std"], **style.look(index))
            axes.set(xlabel=x, ylabel=y)
    positive = table["eta_c"][table["eta_c"] > 0]
    for axes in panels[:2]:
        axes.set_xscale("symlog", linthresh=float(positive.min()))
        # Smaller powers of ten would be drawn over the 0.
        powers = np.arange(np.ceil(np.log10(positive.min())), np.log10(positive.max()))
        axes.set_xticks([0, *10**powers])
    names = table["line"].unique()
    _legend(figure, [Line2D([], [], label=n, **style.look(i)) for i, n in enumerate(names)])
    return figure


def federated(filled: Filled, folder: Path) -> list[Drawn]:
    written = [run for run in filled.of("pof_table3") if "client_regret" in run.curves]
    pof = [run for run in written if run.result["algorithm"] == "pof_mkl"]
    rivals = [run for run in written if run.result["algorithm"] == "vm_kofl"]
    swept = filled.swept("pof_table3")
    apart = [run for run in swept if run.result["federated"]["scheme"] == "consecutive"]
    varied = [run for run in swept if run not in apart]
    with_xi = {run.result["dataset"] for run in varied}
    varied += [r for r in pof if r.result["params"]["M"] < 51 and r.result["dataset"] in with_xi]
    by_site = [r for r in (*rivals, *pof) if r.result["federated"]["scheme"] == "by_site"]
    clients = "Regret of every client in increasing order, {}, with the steps of the text. In "
    clients += "POF-MKL each client has its own weights; in vM-KOFL all share one combination."
    with style.applied():
        drawn = _save(
            regret_over_time([*rivals, *pof], "regret_clients"),
            folder,
            "federated_regret",
            "Federated, figure 1: mean regret of the clients in rounds 1..t against t, with the "
            "settings of the text. A client's regret is its cumulative squared error minus that of "
            "its best online kernel.",
        )
        drawn += _save(
            beside_theorem_1(pof),
            folder,
            "federated_theorem_1",
            "The regret of figure 1 with the bound of theorem 1, which holds for every client if "
            "no loss of a kernel exceeds 1. The bars at the end show the smallest and the largest "
            "regret over clients and seeds.",
        )
        drawn += _save(
            sweep_figures.chosen_figure(varied, "xi", "regret"),
            folder,
            "federated_exploration",
            "Federated, figure 2: regret of the clients against the exploration rate xi, with the "
            "settings of the text.",
        )
        x, y = "clients by regret", "regret after the last round"
        for runs, name, how in (
            (by_site, "written", "on data sets that are split by site"),
            (apart, "consecutive", "on data sets whose clients have consecutive rows"),
        ):
            if runs:
                figure = _panels(runs, style.sorted_clients, x, y, low=0.0)
                drawn += _save(figure, folder, f"federated_clients_{name}", clients.format(how))
        return drawn  # fmt: skip


def beside_theorem_1(runs: Sequence[Run]) -> Figure:
    dashed: dict[str, Any] = {"color": style.GREY, "linestyle": "dashed", "label": "theorem 1"}

    def draw(axes: Axes, run: Run, index: int) -> None:
        _line(axes, run, index, "regret_clients")
        t, bound = run.curves["t"], theorems.client_bound(run)
        if bound is None:
            return
        chosen = style.drawn_rounds(t, limit=style.N_DRAWN_SMALL)
        axes.plot(t[chosen], bound[chosen], **dashed)
        place = t[-1] * (1.0 + 0.02 * index)
        ends = [run.curves["client_regret"].min(), run.curves["client_regret"].max()]
        axes.plot([place, place], ends, color=style.look(index)["color"], linewidth=3)
        axes.set(yscale="log", xlim=(0, 1.1 * t[-1]), ylim=(1e-3 * bound[-1], 2.0 * bound[-1]))

    return _panels(
        runs, draw, "round t", "regret of the clients, their mean", [Line2D([], [], **dashed)]
    )


FIGURES: dict[str, Callable[[Filled, Path], list[Drawn]]] = {
    "jmlr": jmlr, "arxiv_v1": arxiv_v1, "active": active, "federated": federated,
}  # fmt: skip
