"""The figures of a paper, from its filled tables: ours, and published points where there are.

``jmlr`` draws figures 3 to 6 of Ghari and Shen's JMLR paper and their regret beside the
theorems, ``arxiv_v1`` the two of its first version, ``active`` figures 2 and 3 of Hong and
Chae's paper, ``federated`` those of Ghari and Shen's on federations. Only PNG: they belong to
a page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from omkl.papers import pictures
from omkl.papers.bounds import has_right_hand_side
from omkl.papers.filled import Filled
from omkl.papers.pictures import Drawn
from omkl.papers.regret_figures import regret_bounds, regret_over_time
from omkl.papers.tables import WRITTEN
from omkl.report import federated_figures, style, sweep_figures
from omkl.runs.run_folder import Run

PNG = ("png",)


def jmlr(filled: dict[str, Filled], folder: Path) -> list[Drawn]:
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


def arxiv_v1(filled: dict[str, Filled], folder: Path) -> list[Drawn]:
    """Figures 1 and 2 of the first version: its tables 1 and 3 over time."""
    chosen = [filled[f"arxiv_v1_table{n}"] for n in (1, 3) if f"arxiv_v1_table{n}" in filled]
    runs = [run for table in chosen for run in _written(table)]
    return _drawn(
        over_time(runs, folder, "arxiv_v1_figures"),
        "arXiv v1, figures 1 and 2: MSE of rounds 1..t over time.",
    )


def active(filled: dict[str, Filled], folder: Path) -> list[Drawn]:
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
            f"The learners of table 3, {what}: the same error against the labels bought for it.",
        )
        drawn += _drawn(
            regret_over_time(queried, folder, f"active_regret{name}"),
            f"The learners of table 3, {what}: their regret (15) over time.",
        )
    swept = [run for table in filled.values() for run in table.swept]
    return drawn + _drawn(
        _smaller(sweep_figures.tradeoff(swept, folder, "active_figure2", PNG)),
        "Active MKL, figure 2: what eta_c and M trade, at fitted settings. AL_eff is the share "
        "of the labels that were bought; eta_c = 0 buys all. On the right the error against that "
        "share, beside as many labels bought at random.",
    )


def _of_variant(filled: dict[str, Filled], name: str, variant: str) -> list[Run]:
    """Complete runs of a table's variant, each once; of rows that the paper has."""
    cells = filled[name].all_cells if name in filled else []
    cells = [cell for cell in cells if cell.published is not None]
    found = [cell.entries[variant].run for cell in cells if variant in cell.entries]
    return list({id(r): r for r in found if r is not None and r.complete}.values())


def _drawn(paths: Sequence[Path], caption: str) -> list[Drawn]:
    return [Drawn(path, caption) for path in paths]


def _written(filled: Filled) -> list[Run]:
    """Complete runs of the learners as written, each once, in the order of the rows."""
    return _of_variant({filled.table.name: filled}, filled.table.name, WRITTEN)


def over_time(runs: Sequence[Run], folder: Path, name: str, against: str = "t") -> list[Path]:
    """A panel a data set with the MSE curves of its runs, as papers have them."""
    return _smaller(sweep_figures.comparison(runs, folder, name, PNG, against, most=len(runs)))


def _smaller(paths: list[Path]) -> list[Path]:
    for path in paths:
        pictures.shrink(path)
    return paths


def against_selected(tables: Sequence[Filled], metric: str, folder: Path, name: str) -> list[Path]:
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
            axes.plot(
                *zip(*published, strict=True),
                **looks | {"linestyle": (0, (1, 3)), "linewidth": 0.8},
                markerfacecolor="white",
            )
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

    handles = [
        Line2D([], [], label=style.display_name(learner), **style.look(index))
        for index, learner in enumerate(learners)
    ]
    grey: dict[str, Any] = {"color": style.GREY, "marker": "o"}
    handles.append(Line2D([], [], label="ours", **grey))
    dotted: dict[str, Any] = {"linestyle": (0, (1, 3)), "markerfacecolor": "white"}
    handles.append(Line2D([], [], label="published", **grey | dotted))
    datasets = list(dict.fromkeys(cell.spec.dataset for cell in cells))
    label = "MSE × 10⁻³" if metric == "mse_e3" else "run time of a seed, s"
    return pictures.panels(datasets, draw, handles, "selected kernels M", label, folder, name)


def federated(filled: dict[str, Filled], folder: Path) -> list[Drawn]:
    """Figures 1 and 2 of the federated paper, theorem 1, and what personal weights are worth."""
    table = filled.get("pof_table3")
    if table is None:
        return []
    written = _written(table)
    pof = [run for run in written if run.result["algorithm"] == "pof_mkl"]
    rivals = [run for run in written if run.result["algorithm"] == "vm_kofl"]
    drawn = _drawn(
        federated_figures.regret_over_time([*rivals, *pof], folder, "federated_regret"),
        "Federated, figure 1: regret of the clients, their mean, over time, as written. A client's "
        "regret is its squared error above that of its best online kernel.",
    )
    drawn += _drawn(
        federated_figures.beside_theorem_1(pof, folder, "federated_theorem_1"),
        "The same beside theorem 1, which is about every client where no kernel's loss exceeds 1; "
        "the bars at the end reach from the client and seed of least regret to those of most.",
    )
    apart = [run for run in table.swept if run.result["federated"]["scheme"] == "consecutive"]
    swept = [run for run in table.swept if run not in apart]
    with_xi = {run.result["dataset"] for run in swept}
    of_1 = [run for run in pof if run.result["params"]["M"] < 51]
    explored = [*swept, *(run for run in of_1 if run.result["dataset"] in with_xi)]
    drawn += _drawn(
        federated_figures.exploration(explored, folder, "federated_exploration"),
        "Federated, figure 2: regret of the clients over the exploration rate xi, as written.",
    )
    compared = (
        ("written", [*rivals, *pof], "by_site", "dealt out by site"),
        ("consecutive", apart, "consecutive", "that have consecutive rows of the file each"),
    )
    for name, runs, scheme, how in compared:
        own = [run for run in runs if run.result["federated"]["scheme"] == scheme]
        drawn += _drawn(
            federated_figures.personalisation(own, folder, f"federated_clients_{name}"),
            f"All clients of data {how}, by their regret: POF-MKL with weights of the client's "
            "own, vM-KOFL with one combination for all; with the steps of the text.",
        )
    return drawn
