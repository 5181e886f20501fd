"""The Markdown of a comparison: errors, mistakes beside bounds, seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from omkl.experiment.comparators import ONLINE_LEARNER
from omkl.experiment.metrics import mean_and_deviation
from omkl.report import stats
from omkl.report.text import markdown_table, theorem_text

BEST = f"{ONLINE_LEARNER}, chosen in hindsight"
CONSTANT = "most frequent class in hindsight"
HINDSIGHT = (BEST, CONSTANT)


class Line(NamedTuple):
    """Error rates of a row on a data set, on permutations 0, 1, .., and seconds of one."""

    row: str
    dataset: str
    rates: Sequence[float]
    seconds: float

    @property
    def mean(self) -> float:
        return mean_and_deviation(np.array(self.rates))[0]

    @property
    def std(self) -> float | None:
        return mean_and_deviation(np.array(self.rates))[1]

    @property
    def numbers(self) -> list[str | float | int | None]:
        """Its line of the CSV file."""
        return [self.row, self.dataset, self.mean, self.std, len(self.rates), self.seconds]


def bound_line(name: str, dataset: str, result: Mapping[str, Any]) -> list[str]:
    """Mistakes of a run beside what its theorem allows."""
    bound = result["bound"]
    mistakes = result["mistakes"]
    mean, std = mean_and_deviation(np.array(mistakes))
    most = f"{mean:.1f} ± {std:.1f}, at most {max(mistakes)}" if std is not None else f"{mean:.0f}"
    low, high = bound["minimum"]
    return [
        name, dataset, str(result["n_rounds"]), most, theorem_text(bound), f"{bound['value']:.1f}",
        f"{low:.1f} to {high:.1f}",
    ]  # fmt: skip


def further_lines(name: str, dataset: str, result: Mapping[str, Any]) -> list[list[str]]:
    """Corollaries, and bounds on the number of updates, of a run."""
    found = []
    for further in result.get("bound", {}).get("further", ()):
        if further["value"] is None:
            continue
        if further["of"] == "updates":
            measured = f"{further['measured']:.1f} updates"
        elif "beta" in further:
            measured = f"mistakes with beta = {further['beta']:.3f}, in hindsight"
        else:
            measured = f"{np.mean(result['mistakes']):.1f} mistakes"
        rounds, value = str(result["n_rounds"]), f"{further['value']:.1f}"
        found.append([name, dataset, rounds, measured, further["name"], value])
    return found


def document(
    spec: Mapping[str, Any],
    lines: Sequence[Line],
    bounds: Sequence[Sequence[str]],
    further: Sequence[Sequence[str]],
    drawn: Sequence[Path],
) -> str:
    """The whole page; ``bounds`` and ``further`` are lines of their tables."""
    columns = list(dict.fromkeys(line.dataset for line in lines))
    rows = list(dict.fromkeys(line.row for line in lines))
    cells = {(line.row, line.dataset): line for line in lines}
    parts = [
        f"# {spec['title']}", "",
        f"From `omkl-report run {spec['name']}`. Errors in per cent of one pass, mean ± std over "
        f"{spec['seeds']} permutations (peers: the first {spec['peer_seeds']}). Bold: the lowest, "
        "and what does not differ from it (paired t over permutations, Holm, "
        f"{stats.LEVEL:.0%}); what is chosen in hindsight, after each permutation, takes no part.",
        "", _errors(cells, rows, columns), "",
    ]  # fmt: skip
    if bounds:
        headings = ["", "data set", "rounds", "mistakes", "by", "bound", "minimum in hindsight"]
        below = sum(float(line[5]) < float(line[2]) for line in bounds)
        parts += [
            "Mistakes beside what the theorems allow, the means for those that draw. A bound says "
            f"something only below the number of rounds: {below} of these {len(bounds)}. Theorems "
            "5 and 10 are taken as stated, which is less than their proofs give: docs/errata.md.",
            "", markdown_table(headings, bounds, left=2), "",
        ]  # fmt: skip
    if further:
        headings = ["", "data set", "rounds", "of", "by", "at most"]
        parts += [
            "Corollaries, and what theorems 6 and 7 imply for the updates of all kernels. "
            "Corollary 4 is about a beta that is known in hindsight; corollary 9 has the batch "
            "problem (1) in place of the minimum of theorem 8: the same, says theorem 1.", "",
            markdown_table(headings, further, left=2), "",
        ]  # fmt: skip
    seconds = [
        [row, *(f"{cells[row, c].seconds:.3g}" if (row, c) in cells else "" for c in columns)]
        for row in rows
        if row not in HINDSIGHT
    ]
    parts += ["Seconds a permutation on one thread, as many at a time as there are cores.", ""]
    parts += [markdown_table(["", *columns], seconds, left=1), ""]
    parts += [f"![{path.stem}]({path.name})\n" for path in drawn]
    return "\n".join(parts)


def _errors(
    cells: Mapping[tuple[str, str], Line], rows: Sequence[str], columns: Sequence[str]
) -> str:
    """The table of errors, where bold is what a star is in other tables (``stars``)."""
    best = {(row, column) for column in columns for row in _starred(cells, rows, column)}

    def text(row: str, column: str) -> str:
        line = cells.get((row, column))
        if line is None:
            return ""
        spread = "" if line.std is None else f" ± {100 * line.std:.2f}"
        error = f"{100 * line.mean:.2f}{spread}"
        return f"**{error}**" if (row, column) in best else error

    body = [[row, *(text(row, column) for column in columns)] for row in rows]
    return markdown_table(["", *columns], body, left=1)


def _starred(cells: Mapping[tuple[str, str], Line], rows: Sequence[str], column: str) -> list[str]:
    """Rows that share the star of a data set: of all that is not chosen in hindsight."""
    candidates = [row for row in rows if (row, column) in cells and row not in HINDSIGHT]
    if not candidates:
        return []
    rates = [cells[row, column].rates for row in candidates]
    scores = np.full((max(map(len, rates)), len(candidates)), np.nan)
    for place, of_row in enumerate(rates):
        scores[: len(of_row), place] = of_row
    starred = stats.same_as_best(scores).starred
    return [row for row, star in zip(candidates, starred, strict=True) if star]
