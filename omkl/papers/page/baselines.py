"""At the head of the page: what forecasters without a kernel make of the published streams."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from omkl.papers.filled import Cell, Filled
from omkl.papers.formats.contents import table_name
from omkl.papers.page.blocks import Block, Grid, Heading, Text
from omkl.report.baselines import NAMES, computed
from omkl.runs.run_folder import Run

SHOWN = ("mean", "last", "ridge")


class Line(NamedTuple):
    """A data set: MSE of each baseline, and the cell of a table with the least published one."""

    mse: dict[str, float]
    table: Filled
    best: Cell


def baseline_blocks(filled: Sequence[Filled]) -> list[Block]:
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
            f"{line.best.row} ({table_name(line.table.table)})",
        )
        for dataset, line in lines.items()
    )
    return [
        Heading("What needs no kernel"),
        Text(_said(lines)),
        Grid(
            ("MSE × 10⁻³", *(NAMES[name] for name in SHOWN), "least published", "by"),
            body,
            left=1,
            wordy=(2 + len(SHOWN),),
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
        f"repeat the last label is better than all of them on {on('last')}, the running mean of "
        f"the labels on {on('mean')}. So these tables say how kernels are combined, and not that "
        "these learners are what a stream needs: every run names the three beside its result."
    )


def _by_dataset(filled: Sequence[Filled]) -> dict[str, list[tuple[Filled, Cell]]]:
    """The cells with a published MSE that a run with baselines fills, federations aside.

    Their rows and order are those of their clients.
    """
    found: dict[str, list[tuple[Filled, Cell]]] = {}
    for table in filled:
        for cell in table.judged:
            if cell.spec.metric == "mse_e3" and any(computed(r.result) for r in _runs(cell)):
                found.setdefault(cell.spec.dataset, []).append((table, cell))
    return found


def _published(cell: Cell) -> float:
    assert cell.published is not None  # of a cell that is judged
    return cell.published


def _runs(cell: Cell) -> list[Run]:
    runs = [entry.run for entry in cell.entries.values()]
    return [run for run in runs if run and run.complete and "federated" not in run.result]
