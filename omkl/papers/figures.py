"""The figures of the papers' pages, from filled tables and runs.

Every published error beside ours (``dumbbells``), regret beside its theorem, and the figures of
each paper: ``jmlr`` draws figures 3 to 6 of Ghari and Shen's JMLR paper and their regret beside the
theorems, ``arxiv_v1`` the two of its first version, ``active`` figures 2 and 3 of Hong and Chae's
paper, ``federated`` those of Ghari and Shen's on federations. Only PNG: they belong to a page.
"""

from __future__ import annotations

import functools
import io
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from omkl.papers.bounds import (
    bound_of_run,
    fitted_slope,
    has_right_hand_side,
    promised,
    theorem_meant,
    unproved,
)
from omkl.papers.matching import Cell, FilledTable
from omkl.papers.tables import METRICS, VARIANTS, WRITTEN
from omkl.report import naming, style, sweep_figures
from omkl.report.figures import sorted_clients
from omkl.report.page import Picture
from omkl.runs.run_folder import Run
from omkl.utils.disk import write_atomically

PNG = ("png",)
COMPARATOR = "ridge_features"
ENTRY_INCHES = 1.7  # of the legend
# Marker, colour and height above its line of each variant; published numbers are hollow.
MARKS = {
    "algorithm": ("o", "#0072B2", 0.15),
    "released": ("s", "#009E73", -0.15),
    "recovered": ("D", "#D55E00", -0.15),
}
DOTTED: dict[str, Any] = {"linestyle": (0, (1, 3)), "markerfacecolor": "white"}
PUBLISHED: dict[str, Any] = {
    "marker": "o",
    "linestyle": "",
    "markerfacecolor": "none",
    "markeredgecolor": "black",
}


def save(figure: Figure, folder: Path, name: str, suffixes: Sequence[str] = PNG) -> list[Path]:
    return shrunk(style.save(figure, folder, name, suffixes))


def shrunk(paths: list[Path]) -> list[Path]:
    """Fewer colours: a third of the bytes for a picture of lines, and none to be seen."""
    from PIL import Image

    for path in paths:
        if path.suffix == ".png":
            buffer = io.BytesIO()
            with Image.open(path) as image:
                small = image.convert("RGB").quantize(96, dither=Image.Dither.NONE)
                small.save(buffer, format="png", optimize=True, dpi=image.info["dpi"])
            write_atomically(path, buffer.getvalue())
    return paths


def panels(
    runs: Sequence[Run],
    draw: Callable[[Axes, Run, int], None],
    xlabel: str,
    ylabel: str,
    folder: Path,
    name: str,
    more: Sequence[Line2D] = (),
    lowest_y: float | None = None,
) -> list[Path]:
    """A panel a data set, in which ``draw`` draws each run in the colour of a number.

    ``more`` are entries of the legend besides those of the runs; ``lowest_y`` is where axes begin.
    """
    if not runs:
        return []
    entries = legend(runs)
    order = list(dict.fromkeys(entries))
    with style.applied():
        datasets = list(dict.fromkeys(run.result["dataset"] for run in runs))
        figure, made = style.panels(datasets, 2.7)
        for axes, dataset, leftmost, lowest in made:
            for run, entry in zip(runs, entries, strict=True):
                if run.result["dataset"] == dataset:
                    draw(axes, run, order.index(entry))
            if lowest_y is not None:  # last: what is drawn after it would be cut
                axes.set_ylim(bottom=lowest_y)
            axes.set_xlabel(xlabel if lowest else "")
            axes.set_ylabel(ylabel if leftmost else "")
        handles = [Line2D([], [], label=text, **style.look(i)) for i, text in enumerate(order)]
        _legend(figure, [*handles, *more])
        return save(figure, folder, name)


def _legend(figure: Figure, handles: Sequence[Line2D]) -> None:
    most = int(figure.get_figwidth() / ENTRY_INCHES)
    figure.legend(handles=handles, loc="outside lower center", ncols=min(most, len(handles)))


def legend(runs: Sequence[Run]) -> list[str]:
    """The learner's name of each run, and M where it is there with several."""
    sizes: dict[str, set[int]] = {}
    for run in runs:
        sizes.setdefault(naming.name_of(run), set()).add(run.result["params"].get("M"))
    names = [(naming.name_of(run), run.result["params"].get("M")) for run in runs]
    return [f"{name}, M = {M}" if len(sizes[name]) > 1 else name for name, M in names]


# --- published beside ours ------------------------------------------------------------------------


def dumbbells(tables: Sequence[FilledTable], metric: str, folder: Path, name: str) -> list[Picture]:
    """Draw a panel per column of tables with the numbers of one metric.

    Parameters
    ----------
    tables
        FilledTable tables of one paper.
    metric
        A key of ``METRICS``; the axis is logarithmic.
    folder, name
        Where the PNG file is written.

    Returns
    -------
    list of Picture
        Empty where no cell has a published number and one of ours.
    """
    panels = [
        (table, column)
        for table in tables
        for column in range(len(table.table.columns))
        if any(_drawable(line[column], metric) for line in table.cells)
    ]
    if not panels:
        return []
    shown = {v for t, c in panels for line in t.cells for v in line[c].entries}
    with style.applied():
        rows, columns = style.panel_grid(len(panels))
        one_row_a_label = len({_rows(table, column, metric) for table, column in panels}) == 1
        n_lines = max(len(table.cells) for table, _ in panels)
        size = (max(style.WIDTH, 3.2 * columns), rows * (0.24 * n_lines + 0.9) + 0.5)
        figure = Figure(figsize=size)
        for place, (table, column) in enumerate(panels):
            axes = figure.add_subplot(rows, columns, place + 1)
            named = not (one_row_a_label and place % columns)
            _draw(axes, [line[column] for line in table.cells], metric, named)
            several = len(tables) > 1
            axes.set_title(table.table.title if several else table.table.columns[column])
            if place + columns >= len(panels):
                axes.set_xlabel(METRICS[metric].heading)
        handles = [Line2D([], [], **PUBLISHED, label="published")]
        handles += [
            Line2D([], [], linestyle="", marker=MARKS[v][0], color=MARKS[v][1], label=what)
            for v, what in VARIANTS.items()
            if v in shown
        ]
        _legend(figure, handles)
        (path,) = save(figure, folder, name)
    caption = f"{METRICS[metric].heading}: published (hollow) and ours."
    return [Picture(path, caption, embedded=False)]


def _rows(table: FilledTable, column: int, metric: str) -> tuple[str, ...]:
    """The rows that a panel shows."""
    return tuple(line[column].row for line in table.cells if _drawable(line[column], metric))


def _drawable(cell: Cell, metric: str) -> bool:
    ours = any(entry.ours is not None for entry in cell.entries.values())
    return cell.spec.metric == metric and cell.published is not None and ours


def _draw(axes: Axes, cells: Sequence[Cell], metric: str, named: bool) -> None:
    cells = [cell for cell in cells if _drawable(cell, metric)]
    every: list[float] = []
    for place, cell in enumerate(reversed(cells)):
        assert cell.published is not None
        ours = {v: e.ours for v, e in cell.entries.items() if e.ours is not None}
        ends = min(cell.published, *ours.values()), max(cell.published, *ours.values())
        every += ends
        axes.plot(ends, [place, place], color="0.75", linewidth=1.5, zorder=1)
        for variant, number in ours.items():
            marker, colour, above = MARKS[variant]
            axes.plot(number, place + above, marker, color=colour, markersize=4.5, zorder=2)
        axes.plot(cell.published, place, markersize=8, zorder=3, **PUBLISHED)
    axes.set_yticks(range(len(cells)), [cell.row for cell in reversed(cells)] if named else [])
    style.log_axis(axes.xaxis, min(every) / 1.1, max(every) * 1.1)
    axes.set_ylim(-0.6, len(cells) - 0.4)
    axes.grid(axis="y", visible=False)


# --- regret beside its theorem --------------------------------------------------------------------


def regret_over_time(runs: Sequence[Run], folder: Path, name: str) -> list[Path]:
    """A panel a data set: regret of its runs against the best kernel in hindsight (ridge)."""
    runs = [run for run in runs if f"regret_{COMPARATOR}" in run.curves]

    def draw(axes: Axes, run: Run, index: int) -> None:
        _draw_regret(axes, run, index, f"regret_{COMPARATOR}")
        axes.axhline(0, color=style.GREY, linewidth=0.8)

    label = "cumulative squared error\nabove ridge in hindsight"
    return panels(runs, draw, "round t", label, folder, name)


def _draw_regret(axes: Axes, run: Run, index: int, curve: str) -> None:
    t = run.curves["t"]
    chosen = style.drawn_rounds(t, limit=style.N_DRAWN_SMALL)
    mean, std = style.mean_std(run.curves[curve][:, chosen])
    style.band_line(axes, t[chosen], mean, std, index, "", opacity=0.15)
    style.round_axis(axes, t)


def regret_bound(
    run: Run, folder: Path | None = None, suffixes: Sequence[str] = style.PNG
) -> list[Path]:
    """Regret of one run on logarithmic axes with its theorem; nothing without a comparator.

    The positive part of the mean over the seeds, the rate of the theorem as a slope through
    its last point, the slope fitted to the second half, T, and the theorem's right-hand side
    for the run's own constants.
    """
    folder = folder or run.folder
    return regret_bounds([run], folder, "regret_bound", with_value=True, suffixes=suffixes)


def regret_bounds(
    runs: Sequence[Run],
    folder: Path,
    name: str,
    with_value: bool = False,
    suffixes: Sequence[str] = PNG,
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
        width = max(style.WIDTH, 2.55 * n_columns)
        height = (3.3 if n_rows == 1 else 2.1 * n_rows) + 0.5
        figure = Figure(figsize=(width, height))
        grid = figure.subplots(n_rows, n_columns, squeeze=False)
        for axes in grid.flat:
            axes.set_visible(False)
        for run, (row, column) in zip(runs, places, strict=True):
            axes = grid[row][column]
            axes.set_visible(True)
            _draw_bound(axes, run, with_value)
            axes.set_title(f"{naming.name_of(run)}, {run.result['dataset']}", fontsize=9)
            axes.set_xlabel("round t" if row == n_rows - 1 else "")
            axes.set_ylabel("regret" if column == 0 else "")
        names = list(_BOUND_LOOKS)[: None if with_value else -1]
        _legend(figure, [Line2D([], [], label=name, **_BOUND_LOOKS[name]) for name in names])
        return save(figure, folder, name, suffixes)


_BOUND_LOOKS: dict[str, dict[str, Any]] = {
    "regret": {"color": style.COLOURS[0], "linewidth": 1.8},
    "promised slope": {"color": style.COLOURS[1], "linestyle": style.LINES[1]},
    "fitted slope": {"color": style.COLOURS[4], "linestyle": style.LINES[2], "linewidth": 2},
    "T": {"color": style.GREY, "linewidth": 0.9},
    "theorem's right-hand side": {"color": style.COLOURS[2], "linestyle": style.LINES[3]},
}


def _draw_bound(axes: Axes, run: Run, with_value: bool) -> None:
    t = run.curves["t"]
    chosen = style.drawn_rounds(t, limit=style.N_DRAWN_SMALL)
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


# --- figures of each paper ------------------------------------------------------------------------


def jmlr(filled: dict[str, FilledTable], folder: Path) -> list[Picture]:
    """Figures of the tables "jmlr_table1", ..; those without a single run are left out."""
    against_m = [filled[f"jmlr_table{n}"] for n in (3, 4, 5) if f"jmlr_table{n}" in filled]
    shown = filled.get("jmlr_table1")
    runs = _written(shown) if shown else []
    graph_aided = [run for run in runs if has_right_hand_side(run.result["algorithm"])]
    first = graph_aided[0].result["dataset"] if graph_aided else ""
    of_first = [run for run in graph_aided if run.result["dataset"] == first]
    return [
        *_drawn(
            against_selected(against_m, "mse_e3", folder, "jmlr_figure3"),
            "JMLR, figure 3: MSE after the last round, with its standard deviation over the seeds, "
            "against the number M of selected kernels. Filled: ours, as written; hollow: published "
            "(tables 3 to 5).",
        ),
        *_drawn(
            against_selected(against_m, "runtime_s", folder, "jmlr_figure4"),
            "JMLR, figure 4: run time of one seed against M. Filled: ours; hollow: published, on "
            "the authors' machine.",
        ),
        *_drawn(
            over_time(runs, folder, "jmlr_figure5"),
            "JMLR, figure 5: MSE of rounds 1..t over time, of every learner of table 1.",
        ),
        *_drawn(
            regret_over_time(graph_aided, folder, "jmlr_figure6"),
            "JMLR, figure 6: cumulative squared error above that of the best kernel in hindsight "
            "(ridge regression on its random features) over time.",
        ),
        *_drawn(
            regret_bounds(graph_aided, folder, "regret_and_theory"),
            "The same regret on logarithmic axes beside the rate that the theorem promises and the "
            "slope fitted to the second half of the rounds. The grey line is T, the largest "
            "regret that losses in [0, 1] allow.",
        ),
        *_drawn(
            regret_bounds(of_first, folder, "regret_and_bounds", with_value=True),
            "Regret and the theorem's right-hand side for the run's own settings, against the best "
            "function of the random features: above T, where a bound says nothing.",
        ),
    ]


def arxiv_v1(filled: dict[str, FilledTable], folder: Path) -> list[Picture]:
    """Figures 1 and 2 of the first version: its tables 1 and 3 over time."""
    chosen = [filled[f"arxiv_v1_table{n}"] for n in (1, 3) if f"arxiv_v1_table{n}" in filled]
    runs = [run for table in chosen for run in _written(table)]
    return _drawn(
        over_time(runs, folder, "arxiv_v1_figures"),
        "arXiv v1, figures 1 and 2: MSE of rounds 1..t over time.",
    )


def active(filled: dict[str, FilledTable], folder: Path) -> list[Picture]:
    """Figures of the tables "active_table2" and "active_table3"."""
    drawn = []
    for variant, what in ((WRITTEN, "as written"), ("recovered", "fitted settings")):
        name = "" if variant == WRITTEN else "_fitted"
        compared = _of_variant(filled, "active_table2", variant)
        drawn += _drawn(
            over_time(compared, folder, f"active_figure3{name}"),
            f"Active MKL, figure 3, {what}: MSE of rounds 1..t over time. Twitter (large) is left "
            "out where its file is not there.",
        )
        queried = _of_variant(filled, "active_table3", variant)
        drawn += _drawn(
            over_time(queried, folder, f"active_labels{name}", against="labels"),
            f"The learners of table 3, {what}: the same error against the targets requested.",
        )
        drawn += _drawn(
            regret_over_time(queried, folder, f"active_regret{name}"),
            f"The learners of table 3, {what}: their regret (15) over time.",
        )
    swept = [run for table in filled.values() for run in table.swept]
    return drawn + _drawn(
        shrunk(sweep_figures.tradeoff(swept, folder, "active_figure2", PNG)),
        "Active MKL, figure 2: what eta_c and M trade, at fitted settings. AL_eff is the share "
        "of targets that were requested; eta_c = 0 requests all. On the right the error against "
        "that share, beside as many targets requested at random.",
    )


def _of_variant(filled: dict[str, FilledTable], name: str, variant: str) -> list[Run]:
    """Complete runs of a table's variant, each once; of rows that the paper has."""
    cells = filled[name].all_cells if name in filled else []
    cells = [cell for cell in cells if cell.published is not None]
    runs = [cell.entries[variant].run for cell in cells if variant in cell.entries]
    return list({id(r): r for r in runs if r is not None and r.complete}.values())


def _drawn(paths: Sequence[Path], caption: str) -> list[Picture]:
    return [Picture(path, caption, embedded=False) for path in paths]


def _written(filled: FilledTable) -> list[Run]:
    """Complete runs of the learners as written, each once, in the order of the rows."""
    return _of_variant({filled.table.name: filled}, filled.table.name, WRITTEN)


def over_time(runs: Sequence[Run], folder: Path, name: str, against: str = "t") -> list[Path]:
    """A panel a data set with the MSE curves of its runs, as papers have them."""
    return shrunk(sweep_figures.comparison(runs, folder, name, PNG, against, most=len(runs)))


def against_selected(
    tables: Sequence[FilledTable], metric: str, folder: Path, name: str
) -> list[Path]:
    """A panel a data set with a metric of each table's learner against M, beside the published."""
    cells = [c for t in tables for c in t.all_cells if c.spec.metric == metric]
    cells = [c for c in cells if c.spec.algorithm is not None]
    if not any(cell.written.ours is not None for cell in cells):
        return []
    learners = list(dict.fromkeys(str(cell.spec.algorithm) for cell in cells))

    def draw(axes: Axes, dataset: str) -> None:
        low, high = math.inf, 0.0
        for index, learner in enumerate(learners):
            looks = style.look(index)
            line = [c for c in cells if c.spec.dataset == dataset and c.spec.algorithm == learner]
            published = [(c.spec.where["M"], c.published) for c in line if c.published is not None]
            shown = [c.written.ours for c in line if c.written.ours is not None]
            values = [*(y for _, y in published), *shown]
            low, high = min(low, *values), max(high, *values)
            axes.plot(*zip(*published, strict=True), **looks | DOTTED | {"linewidth": 0.8})
            aside = 0.25 * (index - (len(learners) - 1) / 2)  # bars beside each other
            ours = [
                (c.spec.where["M"] + aside, c.written.ours, c.written.std or 0.0)
                for c in line
                if c.written.ours is not None
            ]
            if ours:
                x, y, std = zip(*ours, strict=True)
                bars = None
                if metric == "mse_e3":  # the lower end stays above 0: the axis is logarithmic
                    bars = np.stack([np.minimum(std, 0.9 * np.array(y)), std])
                axes.errorbar(x, y, yerr=bars, capsize=3, **looks)
        style.log_axis(axes.yaxis, low / 1.25, high * 1.25)
        axes.set_xticks(sorted({c.spec.where["M"] for c in cells}))

    with style.applied():
        figure, made = style.panels(list(dict.fromkeys(c.spec.dataset for c in cells)), 2.7)
        for axes, dataset, leftmost, lowest in made:
            draw(axes, dataset)
            label = "MSE × 10⁻³" if metric == "mse_e3" else "run time of a seed, s"
            axes.set_xlabel("selected kernels M" if lowest else "")
            axes.set_ylabel(label if leftmost else "")
        handles = [
            Line2D([], [], label=naming.display_name(learner), **style.look(index))
            for index, learner in enumerate(learners)
        ]
        grey: dict[str, Any] = {"color": style.GREY, "marker": "o"}
        handles.append(Line2D([], [], label="ours", **grey))
        handles.append(Line2D([], [], label="published", **grey | DOTTED))
        _legend(figure, handles)
        return save(figure, folder, name)


def federated(filled: dict[str, FilledTable], folder: Path) -> list[Picture]:
    """Figures 1 and 2 of the federated paper, theorem 1, and what personal weights are worth."""
    table = filled.get("pof_table3")
    if table is None:
        return []
    written = _written(table)
    pof = [run for run in written if run.result["algorithm"] == "pof_mkl"]
    rivals = [run for run in written if run.result["algorithm"] == "vm_kofl"]
    drawn = _drawn(
        client_regret_over_time([*rivals, *pof], folder, "federated_regret"),
        "Federated, figure 1: regret of the clients, their mean, over time, as written. A client's "
        "regret is its squared error above that of its best online kernel.",
    )
    drawn += _drawn(
        beside_theorem_1(pof, folder, "federated_theorem_1"),
        "The same beside theorem 1, which is about every client where no kernel's loss exceeds 1; "
        "the bars at the end reach from the client and seed of least regret to those of most.",
    )
    apart = [run for run in table.swept if run.result["federated"]["scheme"] == "consecutive"]
    swept = [run for run in table.swept if run not in apart]
    with_xi = {run.result["dataset"] for run in swept}
    of_1 = [run for run in pof if run.result["params"]["M"] < 51]
    explored = [*swept, *(run for run in of_1 if run.result["dataset"] in with_xi)]
    drawn += _drawn(
        exploration(explored, folder, "federated_exploration"),
        "Federated, figure 2: regret of the clients over the exploration rate xi, as written.",
    )
    compared = (
        ("written", [*rivals, *pof], "by_site", "dealt out by site"),
        ("consecutive", apart, "consecutive", "that have consecutive rows of the file each"),
    )
    for name, runs, scheme, how in compared:
        own = [run for run in runs if run.result["federated"]["scheme"] == scheme]
        drawn += _drawn(
            personalisation(own, folder, f"federated_clients_{name}"),
            f"All clients of data {how}, by their regret: POF-MKL with weights of the client's "
            "own, vM-KOFL with one combination for all; with the steps of the text.",
        )
    return drawn


def _of_clients(runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if run.complete and "client_regret" in run.curves]


def client_regret_over_time(runs: Sequence[Run], folder: Path, name: str) -> list[Path]:
    """Figure 1: a panel a data set with the mean regret of the clients of its runs."""
    draw = functools.partial(_draw_regret, curve="regret_clients")
    label = "regret, mean over the clients"
    return panels(_of_clients(runs), draw, "round t", label, folder, name, lowest_y=0.0)


def beside_theorem_1(runs: Sequence[Run], folder: Path, name: str) -> list[Path]:
    """The same on a logarithmic axis, the theorem above it, all clients' regrets at the end."""
    dashed: dict[str, Any] = {"color": style.GREY, "linestyle": "dashed", "label": "theorem 1"}

    def draw(axes: Axes, run: Run, index: int) -> None:
        _draw_regret(axes, run, index, "regret_clients")
        t = run.curves["t"]
        chosen = style.drawn_rounds(t, limit=style.N_DRAWN_SMALL)
        bound = run.curves["bound"][chosen]
        axes.plot(t[chosen], bound, **dashed)
        least, most = run.curves["client_regret"].min(), run.curves["client_regret"].max()
        place = t[-1] * (1.0 + 0.02 * index)
        axes.plot([place, place], [least, most], color=style.look(index)["color"], linewidth=3)
        axes.set_xlim(0, 1.1 * t[-1])
        style.log_axis(axes.yaxis, 1e-3 * bound[-1], 2.0 * bound[-1])

    runs = [run for run in _of_clients(runs) if "bound" in run.curves]
    more, label = [Line2D([], [], **dashed)], "regret, mean over the clients"
    return panels(runs, draw, "round t", label, folder, name, more)


def personalisation(runs: Sequence[Run], folder: Path, name: str) -> list[Path]:
    """A panel a data set: all clients by their regret; the flatter, the more alike they fare."""
    x, y = "clients by regret", "regret after the last round"
    return panels(_of_clients(runs), sorted_clients, x, y, folder, name, lowest_y=0.0)


def exploration(runs: Sequence[Run], folder: Path, name: str) -> list[Path]:
    """Figure 2: a panel a data set with the clients' mean regret over xi, a line an M."""
    lines: dict[tuple[str, int], list[Run]] = {}
    for run in sorted(runs, key=lambda run: run.result["params"]["M"]):
        lines.setdefault((run.result["dataset"], run.result["params"]["M"]), []).append(run)

    def draw(axes: Axes, run: Run, index: int) -> None:
        line = lines[run.result["dataset"], run.result["params"]["M"]]
        points = {(float(r.result["params"]["xi"]), *_client_regret(r)) for r in line}
        xi, mean, std = map(list, zip(*sorted(points), strict=True))
        axes.errorbar(xi, mean, yerr=std, capsize=3, **style.look(index))

    first = [line[0] for line in lines.values()]
    x, y = "exploration rate", "regret, mean over the clients"
    return panels(first, draw, x, y, folder, name, lowest_y=0.0)


def _client_regret(run: Run) -> tuple[float, float]:
    regret = run.result["regret"]["clients"]
    return regret["mean"], regret["std"] or 0.0


FIGURES: dict[str, Callable[[dict[str, FilledTable], Path], list[Picture]]] = {
    "jmlr": jmlr,
    "arxiv_v1": arxiv_v1,
    "active": active,
    "federated": federated,
}
