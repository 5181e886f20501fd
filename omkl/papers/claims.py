"""What ``omkl/papers/conf/paper`` says of each paper, and what our numbers say of its claims.

Keys of its files:

    paper     the paper in published.csv
    order     its place among the papers
    name      what it is called in print
    title     authors and title
    drawn     tables whose numbers are drawn beside ours
    verdict   what came out, in two sentences
    why_not   in a few words, why not all of it did
    claims    sentences of the paper that compare learners; each has
        text      the claim
        tables    the tables that it is about
        lower     the row (with ``along: columns`` the column) that is said to have less
        than      the rows (columns) that it has less than
        metric    of what; the first one of the tables where it is left out
        at_most   it holds, too, where there are so many per cent more
    known     what one has to know that the text does not say; each has text, tables, and the rows
              and columns (all where left out) whose distances show what it changes
    regret    what the page says of its table of regrets, where it has one
    searches  for settings that give the published numbers; each has
        file      the CSV file of ``omkl/papers/searches`` with what it found
        title     what it is called, and grid, its points in words
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from omkl.papers import entry, names
from omkl.papers.matching import Cell, FilledTable
from omkl.papers.tables import VARIANTS

PUBLISHED = "published"


@dataclass(frozen=True)
class Claim:
    """That something has less than the least of others, or at most so many per cent more."""

    text: str
    tables: tuple[str, ...]
    lower: str
    than: tuple[str, ...]
    metric: str = ""
    along: str = "rows"
    at_most: float = 0.0


@dataclass(frozen=True)
class Known:
    """What the text does not say, and the cells that it changes."""

    text: str
    tables: tuple[str, ...]
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Search:
    """A grid of settings that was searched, in words."""

    file: str
    title: str
    grid: str


@dataclass(frozen=True, eq=False)
class Paper:
    """A paper; ``file`` is its name, and that of the paper's page."""

    file: str
    paper: str
    order: int
    name: str
    title: str
    drawn: tuple[str, ...]
    verdict: str
    why_not: str
    claims: tuple[Claim, ...]
    known: tuple[Known, ...]
    regret: str = ""
    searches: tuple[Search, ...] = ()


def load() -> list[Paper]:
    """All papers, in their order. Raises TypeError for a key that there is not."""
    every_paper = []
    for file in names("paper"):
        content = entry("paper", file)
        content["claims"] = tuple(Claim(**_tuples(claim)) for claim in content["claims"])
        content["known"] = tuple(Known(**_tuples(known)) for known in content["known"])
        content["searches"] = tuple(Search(**search) for search in content.get("searches", ()))
        every_paper.append(Paper(file=file, **_tuples(content)))
    return sorted(every_paper, key=lambda paper: paper.order)


def _tuples(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()}


# --- claims ---------------------------------------------------------------------------------------


def effects(claim: Claim, filled: Mapping[str, FilledTable]) -> dict[str, list[float]]:
    """By how many per cent it has more (minus: less) than the least of the others.

    Parameters
    ----------
    claim
        What is compared.
    filled
        FilledTable tables by name.

    Returns
    -------
    dict
        {"published" or the variant in print, of those that the row has: one number a data set}.
        Of the others, a row without the variant counts as written where the variant changes no
        data. Where a number is missing, or is not above 0, there is no effect.
    """
    by_variant: dict[str, list[float]] = {}
    groups = [
        group for name in claim.tables if name in filled for group in _compared(claim, filled[name])
    ]
    for variant in (PUBLISHED, *VARIANTS):
        percents = []
        for lower, others in groups:
            cells = [lower, *others]
            if variant != PUBLISHED and variant not in lower.entries:
                continue
            numbers = [_number(cell, variant, cells) for cell in cells]
            if all(number is not None and number > 0 for number in numbers):
                present = [number for number in numbers if number is not None]
                percents.append(100 * (present[0] / min(present[1:]) - 1))
        if percents:
            by_variant[VARIANTS.get(variant, variant)] = percents
    return by_variant


def holds(claim: Claim, percent: float) -> bool:
    return percent < 0 or percent <= claim.at_most


def _compared(claim: Claim, table: FilledTable) -> Iterator[tuple[Cell, list[Cell]]]:
    """The cell that is said to have less and the others, for each column (or row)."""
    metric = claim.metric or table.table.metrics[0]
    along_rows = claim.along == "rows"
    labels = table.table.rows if along_rows else table.table.columns
    lines = zip(*table.cells, strict=True) if along_rows else iter(table.cells)
    for line in lines:
        with_labels = zip(labels, line, strict=True)  # columns of two metrics may share one
        by_label = {label: cell for label, cell in with_labels if cell.spec.metric == metric}
        wanted = [by_label[label] for label in (claim.lower, *claim.than) if label in by_label]
        if len(wanted) == 1 + len(claim.than):
            yield wanted[0], wanted[1:]


def _number(cell: Cell, variant: str, compared: Sequence[Cell]) -> float | None:
    if variant == PUBLISHED:
        return cell.published
    if variant not in cell.entries and any(_other_data(c, variant) for c in compared):
        return None
    entry = cell.entries.get(variant, cell.written)
    return entry.ours


def _other_data(cell: Cell, variant: str) -> bool:
    """Whether a variant is run on other rows, inputs or targets than the text has."""
    if variant not in cell.entries:
        return False
    added = set(cell.spec.variants[variant].overrides) - set(cell.spec.overrides)
    return any(not one.startswith(("algorithm.", "regret.")) for one in added)


# --- what had to be known -------------------------------------------------------------------------


def distances(known: Known, filled: Mapping[str, FilledTable]) -> dict[str, float]:
    """The mean distance from the published numbers, in per cent of them, by variant in print."""
    far: dict[str, list[float]] = {}
    for table in (filled[name] for name in known.tables if name in filled):
        for cell in table.judged:
            inside = not known.rows or cell.row in known.rows
            if inside and (not known.columns or cell.column in known.columns):
                for variant, entry in cell.entries.items():
                    if entry.difference is not None:
                        far.setdefault(VARIANTS[variant], []).append(abs(entry.difference))
    return {what: float(np.mean(some)) for what, some in far.items()}
