"""Sections of the page of all cells of a paper: baselines, regret beside its theory, searches."""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from omkl.experiment.metrics import mean_and_deviation
from omkl.papers import FOLDER, bounds, rendering
from omkl.papers.bounds import (
    Assumption,
    Bound,
    assumptions,
    bound_of_run,
    fitted_slope,
    promised,
    theorem_meant,
)
from omkl.papers.claims import Paper
from omkl.papers.matching import Cell, FilledTable
from omkl.papers.tables import VARIANTS
from omkl.report import naming
from omkl.report.page import Heading, Items, Part, Text
from omkl.report.stats import NAMES, computed
from omkl.report.tables import Table
from omkl.runs.run_folder import Run


def scientific(value: float) -> str:
    if value < 1e4:
        return f"{value:,.0f}"
    digits, exponent = f"{value:.1e}".split("e")
    return f"{digits} × 10" + str(int(exponent)).translate(_RAISED)


_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def signed(text: str) -> str:
    """With a minus sign as long as a plus."""
    return text.replace("-", "−")


# --- what needs no kernel -------------------------------------------------------------------------

SHOWN = ("mean", "last", "ridge")


class Line(NamedTuple):
    """A data set: MSE of each baseline, and the cell of a table with the least published one."""

    mse: dict[str, float]
    table: FilledTable
    best: Cell


def baseline_parts(filled: Sequence[FilledTable]) -> list[Part]:
    """Their MSE beside the least published of any kernel learner, where a run has them.

    A data set's numbers are those of the runs that fill its cells; where these stream different
    rows, the largest of a baseline counts, and a cell without such a run counts for nothing.
    """
    lines: dict[str, Line] = {}
    for dataset, members in _by_dataset(filled).items():
        runs = [computed(run.result) for _, cell in members for run in _runs(cell)]
        values = {
            name: max(entries[name]["mse"] for entries in runs if name in entries)
            for name in SHOWN
            if any(name in entries for entries in runs)
        }
        lines[dataset] = Line(values, *min(members, key=lambda member: _published(member[1])))
    if not lines:
        return []
    body = tuple(
        (
            dataset,
            *(f"{1e3 * line.mse[name]:.2f}" if name in line.mse else "" for name in SHOWN),
            f"{_published(line.best):g}",
            f"{line.best.row} ({rendering.table_name(line.table.table)})",
        )
        for dataset, line in lines.items()
    )
    return [
        Heading("What needs no kernel"),
        Text(_said(lines)),
        Table(
            ("MSE × 10⁻³", *(NAMES[name] for name in SHOWN), "least published", "by"),
            body,
            left=1,
            broken=(2 + len(SHOWN),),
        ),
    ]


def _said(lines: Mapping[str, Line]) -> str:
    def on(name: str) -> str:
        where = [
            dataset
            for dataset, line in lines.items()
            if 1e3 * line.mse.get(name, math.inf) < _published(line.best)
        ]
        names = f" ({', '.join(where)})" if where else ""
        return f"{len(where)} of {len(lines)} streams{names}"

    return (
        "An online linear ridge on the inputs as prepared (algorithm=ridge), without any kernel, "
        f"has a smaller error than every published multi-kernel learner on {on('ridge')}. To "
        f"repeat the last target is better than all of them on {on('last')}, the running mean of "
        f"the labels on {on('mean')}. So these tables say how kernels are combined, and not that "
        "these learners are what a stream needs: every run names the three beside its result."
    )


def _by_dataset(filled: Sequence[FilledTable]) -> dict[str, list[tuple[FilledTable, Cell]]]:
    """The cells with a published MSE that a run with baselines fills, federations aside.

    Their rows and order are those of their clients.
    """
    cells: dict[str, list[tuple[FilledTable, Cell]]] = {}
    for table in filled:
        for cell in table.judged:
            if cell.spec.metric == "mse_e3" and any(computed(r.result) for r in _runs(cell)):
                cells.setdefault(cell.spec.dataset, []).append((table, cell))
    return cells


def _published(cell: Cell) -> float:
    assert cell.published is not None  # of a cell that is judged
    return cell.published


def _runs(cell: Cell) -> list[Run]:
    runs = [entry.run for entry in cell.entries.values()]
    return [run for run in runs if run and run.complete and "federated" not in run.result]


# --- theory ---------------------------------------------------------------------------------------

Judged = tuple[Assumption, str, str]  # with the learner and the data set


def active_regret_parts(filled: Sequence[FilledTable], paper: Paper) -> list[Part]:
    """Regret (15) of Hong and Chae after the last round, and how fast it still grows."""
    body: list[tuple[str, ...]] = []
    columns = list(dict.fromkeys(column for table in filled for column in table.table.columns))
    for variant, row in itertools.product(VARIANTS, [row for t in filled for row in t.cells]):
        texts = dict.fromkeys(columns, "")
        for cell in row:
            run = cell.entries[variant].run if variant in cell.entries else None
            if run is not None and "regret_ridge_features" in run.curves:
                texts[cell.column] = _regret_text(run)
        if any(texts.values()):
            body.append((row[0].row, VARIANTS[variant], *texts.values()))
    if not body:
        return []
    return [
        Heading("Regret of the active learners", 3),
        Text(paper.regret),
        Table(("learner", "settings", *columns), tuple(body), left=2),
    ]


def _regret_text(run: Run) -> str:
    regret = run.curves["regret_ridge_features"]
    slope = fitted_slope(run.curves["t"], regret.mean(axis=0))
    mean, std = mean_and_deviation(regret[:, -1])
    text = f"{mean:.2f}" if std is None else f"{mean:.2f} ± {std:.2f}"
    return signed(text + ("" if slope is None else f" ({slope:.2f})"))


def theory_parts(filled: Sequence[FilledTable], paper: Paper) -> list[Part]:
    """What the theorems say of the runs of table 1, and which of their conditions hold."""
    entries = [cell.written for table in filled for cell in table.all_cells]
    runs = [e.run for e in entries if e.run is not None and e.run.complete]
    runs = [run for run in runs if theorem_meant(run.result["algorithm"])]
    runs = [run for run in runs if "regret_ridge_features" in run.curves]
    if not runs:
        return []
    evaluated = [bound_of_run(run) for run in runs]
    notes: dict[str, dict[str, None]] = {}
    judged: dict[str, list[Judged]] = {}
    for run, bound in zip(runs, evaluated, strict=True):
        if bound is None:
            continue
        for note in bound.notes:
            notes.setdefault(note, {})[bound.theorem] = None
        for assumption in assumptions(run):
            found = (assumption, naming.name_of(run), run.result["dataset"])
            judged.setdefault(assumption.name, []).append(found)
    heads = (
        *("learner", "data set", "T", "regret", "fitted slope", "promised slope"),
        *("bound, random features", "bound, kernel's space"),
    )
    worst = max(runs, key=lambda run: run.result["max_squared_error"])
    return [
        Heading("Theory beside experiment"),
        Text(paper.regret),
        Table(heads, tuple(map(_theory_line, runs, evaluated)), left=2),
        Items(tuple(f"{', '.join(names)}: {note}" for note, names in notes.items())),
        Heading("Assumptions on these data", 3),
        Table(
            ("assumption", "holds", "fails", "cannot be told", "where it fails"),
            tuple(_assumption_line(name, found) for name, found in judged.items()),
            broken=(0, 4),
        ),
        Text(
            "The largest squared error of a prediction in these runs is "
            f"{worst.result['max_squared_error']:.3g} ({naming.name_of(worst)} on "
            f"{worst.result['dataset']}). (as2) speaks of every kernel, evaluated or not. "
            + _features_text(runs)
        ),
    ]


def _theory_line(run: Run, bound: Bound | None) -> tuple[str, ...]:
    t, regret = run.curves["t"], run.curves["regret_ridge_features"].mean(axis=0)
    slope, (rate, source) = fitted_slope(t, regret), promised(run.result["algorithm"])
    return (
        *(naming.name_of(run), run.result["dataset"], f"{t[-1]:,}", f"{regret[-1]:.1f}"),
        "" if slope is None else signed(f"{slope:.2f}"),
        f"{rate:.2g} ({source})",
        "" if bound is None else scientific(bound.value[-1]),
        "" if bound is None else scientific(bound.full),
    )


def _assumption_line(name: str, judged: Sequence[Judged]) -> tuple[str, ...]:
    answers = [assumption.holds for assumption, _, _ in judged]
    failing: dict[str, list[tuple[str, str]]] = {}
    for assumption, learner, dataset in judged:
        if assumption.holds is False:
            failing.setdefault(assumption.text, []).append((learner, dataset))
    texts = []
    for text, where in failing.items():
        places = []
        for learner in dict.fromkeys(learner for learner, _ in where):
            on = [dataset for other, dataset in where if other == learner]
            everywhere = len(on) == sum(other == learner for _, other, _ in judged)
            places.append(learner if everywhere else f"{learner} on {', '.join(on)}")
        texts.append(text if len(where) == len(judged) else f"{', '.join(places)}: {text}")
    counts = (str(answers.count(answer)) for answer in (True, False, None))
    return (name, *counts, "; ".join(texts))


def _features_text(runs: Sequence[Run]) -> str:
    """How many random features the probability statement would need for a Gaussian kernel."""
    chance = bounds.PROBABILITY
    D, inputs = runs[0].result["D"], sorted({run.result["n_inputs"] for run in runs})
    needed = [bounds.features_needed(0.1, chance, d, d) for d in inputs]
    smallest = [bounds.smallest_epsilon(chance, d, D, d) for d in inputs]
    return (
        f"For a Gaussian kernel of variance 1 and D = {D}, probability {chance:g} "
        f"needs epsilon of {min(smallest):.1f} to {max(smallest):.1f}, where 2 holds always; "
        f"epsilon = 0.1 needs D of {min(needed):,.0f} to {max(needed):,.0f}."
    )


# --- searches -------------------------------------------------------------------------------------

ABOUT = (
    "Searches ran every point of a grid on all cells of a paper's tables of these learners, with "
    "one or a few seeds, and ranked it by its distance: the mean of |ours / published − 1|. Where "
    "a point near to the published numbers was found, it is the variant called fitted. That it "
    "gives these numbers is what it was chosen for; it is no default anywhere. The tables are of "
    "commit cbc2e05d1a. Commit b4c228c5 is the last that has the code: omkl/papers/search_*.py."
)


def search_parts(paper: Paper) -> list[Part]:
    """A table of each search for a paper: the first points of its grid, and that of the text."""
    parts: list[Part] = []
    for search in paper.searches:
        path = FOLDER / "searches" / f"{search.file}.csv"
        heads, *rows = csv.reader(path.read_text(encoding="utf-8").splitlines())
        parts += [Heading(search.title, 3), Text(search.grid), Table(heads, rows)]
    heading = Heading("Search for settings that give the published numbers")
    return [heading, Text(ABOUT), *parts] if parts else []
