"""A paper's table with our runs in its cells, and the verdict on each."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from omkl.papers.tables import CITED, VARIANTS, WRITTEN, Spec, Table
from omkl.runs.run_folder import Run

T = TypeVar("T")
ABSENT = "not in omkl yet"
STANDARD_ERRORS = 2.0
REPRODUCED_PERCENT = 3.0
CLOSE_PERCENT = 15.0
NO_DATA = "no data"
PRINTED_UNIT = 0.01  # of the last digit of every published number; it may be cut or rounded
VERDICTS = (
    *("reproduced", "consistent", "close", "differs", "scatters", "missing", NO_DATA, "failed"),
)
RULES = (
    f"reproduced: at most {REPRODUCED_PERCENT:g} % from the published number, whose last digit may "
    "be cut or rounded; consistent: more, but at most "
    f"{STANDARD_ERRORS:g} standard errors of the difference of both means, that is "
    f"{STANDARD_ERRORS:g} sqrt(2) s / sqrt(R) for R seeds of standard deviation s, theirs taken "
    f"to scatter as ours; close: at most {CLOSE_PERCENT:g} %; differs: more; "
    f"scatters: within those {STANDARD_ERRORS:g} standard errors, but they are more than "
    f"{CLOSE_PERCENT:g} % of the published number, so that the seeds cannot tell: never counted as "
    "reproduced, however near; without a deviation, as where nothing is drawn, the percentage "
    "alone counts; missing: not run; no data: the file is not there and cannot be fetched; "
    "failed: the run ended in an error"
)

RUN_TIME_RULE = (
    "run times: seconds for one seed on one thread, and how many times that is faster than the "
    "published number; no verdict, since it is another machine"
)


@dataclass(frozen=True)
class Entry:
    """Our number for a cell, in the published unit.

    ``verdict`` is "reproduced", "consistent", "close", "differs", "scatters", "timed" (a run time),
    "unpublished" (there is nothing to compare it with), "by definition" (it can be nothing else),
    "missing", "no data", "failed" or
    "absent" (the algorithm is not in omkl); ``reason`` says more about the last four.
    ``difference`` is in per cent of the published number, for a run time ``ratio`` is published
    over ours; ``std`` is over our seeds, ``margin`` of ``margin``.
    """

    verdict: str
    ours: float | None = None
    std: float | None = None
    difference: float | None = None
    ratio: float | None = None
    reason: str = ""
    run: Run | None = None
    margin: float | None = None


@dataclass(frozen=True)
class Cell:
    """A published number, None in a row that the paper lacks, and ours, an entry a variant.

    ``identity`` is the number itself: paper, algorithm, dataset, M, D, metric and value as
    published. Cells of two tables that show one number have the same; it is empty without one.
    """

    row: str
    column: str
    spec: Spec
    published: float | None
    published_std: float | None
    entries: Mapping[str, Entry]
    identity: tuple[str, ...]

    @property
    def written(self) -> Entry:
        return self.entries[WRITTEN]

    def called(self, variant: str) -> str:
        """A variant in print."""
        return CITED if self.spec.cited and variant == WRITTEN else VARIANTS[variant]


@dataclass(frozen=True)
class Filled:
    """A table with runs in its cells, in the order rows x columns."""

    table: Table
    cells: tuple[tuple[Cell, ...], ...]
    swept: tuple[Run, ...] = ()

    @property
    def all_cells(self) -> list[Cell]:
        return [cell for line in self.cells for cell in line]

    @property
    def runs(self) -> list[Run]:
        """Every run of the table once, in the order of its cells."""
        entries = [entry for cell in self.all_cells for entry in cell.entries.values()]
        return list({id(e.run): e.run for e in entries if e.run is not None}.values())

    def of(self, wanted: Callable[[str], bool]) -> Filled | None:
        """The columns with metrics that are wanted, or None."""
        chosen = [
            i
            for i in range(len(self.table.columns))
            if any(wanted(line[i].spec.metric) for line in self.cells)
        ]
        if not chosen:
            return None

        def some(line: Sequence[T]) -> tuple[T, ...]:
            return tuple(line[i] for i in chosen)

        table, columns = self.table, some(self.table.columns)
        notes = [
            note for note in table.footnotes if not note.columns or {*note.columns} & {*columns}
        ]
        table = dataclasses.replace(
            table, columns=columns, specs=tuple(map(some, table.specs)), footnotes=tuple(notes)
        )
        return Filled(table, tuple(map(some, self.cells)), self.swept)

    @property
    def judged(self) -> list[Cell]:
        """The cells that get a verdict."""
        return [cell for cell in self.all_cells if cell.spec.judged]

    def entries(self, variant: str = WRITTEN) -> list[Entry]:
        """Our numbers of the cells that get a verdict, those of absent algorithms included."""
        return [cell.entries[variant] for cell in self.judged if variant in cell.entries]


@dataclass(frozen=True)
class Counts:
    """How many distinct published numbers came out; one that stands in two tables is one.

    numbers           distinct published numbers that get a verdict
    in_several        those of them that stand in more than one table
    verdicts          {variant in print: {verdict: how many numbers}}; what the paper only cites
                      is no setting that it states, and has a variant of its own
    """

    numbers: int
    in_several: int
    verdicts: Mapping[str, Mapping[str, int]]


def distinct(filled: Iterable[Filled]) -> list[Cell]:
    """The judged cells of these tables, of those that show one number the first."""
    found: dict[tuple[str, ...], Cell] = {}
    for table in filled:
        for cell in table.judged:
            found.setdefault(cell.identity, cell)
    return list(found.values())


def counts(filled: Iterable[Filled]) -> Counts:
    """The distinct published numbers of these tables by what became of them."""
    filled = list(filled)
    cells = distinct(filled)
    stands: dict[tuple[str, ...], set[str]] = {}
    for table in filled:
        for cell in table.judged:
            stands.setdefault(cell.identity, set()).add(table.table.name)
    verdicts: dict[str, Counter[str]] = {what: Counter() for what in (*VARIANTS.values(), CITED)}
    for cell in cells:
        for variant, entry in cell.entries.items():
            verdicts[cell.called(variant)][entry.verdict] += 1
    return Counts(
        len(cells),
        sum(len(tables) > 1 for tables in stands.values()),
        {
            what: {name: found[name] for name in (*VERDICTS, "absent")}
            for what, found in verdicts.items()
        },
    )


def margin(std: float | None, n_seeds: int) -> float | None:
    """Two standard errors of the difference of two means over ``n_seeds`` seeds each.

    Both are taken to have the standard deviation ``std`` over the seeds, so that the standard
    error of their difference is sqrt(2) std / sqrt(n_seeds). None where nothing deviates.
    """
    if std is None or n_seeds < 2:
        return None
    return STANDARD_ERRORS * math.sqrt(2.0 / n_seeds) * std


def verdict(published: float, ours: float, std: float | None, n_seeds: int) -> str:
    """ "reproduced", "consistent", "close", "differs" or "scatters"; limits are of the better.

    ``published``, ``ours`` and ``std``, ours over ``n_seeds`` seeds, are in the published unit.
    "reproduced" is at most 3 % from the published number, "consistent" at most ``margin``,
    "close" at most 15 %. The last digit of the published number may be cut or rounded: what may
    have been printed so is no distance from it. Where the margin exceeds 15 % of the published
    number it can tell a difference but no agreement: what lies within it "scatters".
    """
    slack = 1 + 1e-9  # a limit that is met on paper is not missed by the last bit
    distance = max(published - PRINTED_UNIT / 2 - ours, ours - published - PRINTED_UNIT, 0.0)
    percent = 100 * distance / abs(published)
    error = margin(std, n_seeds) or 0.0
    within = distance <= error * slack
    if within and error > CLOSE_PERCENT / 100 * abs(published) * slack:
        return "scatters"
    if percent <= REPRODUCED_PERCENT * slack:
        return "reproduced"
    if within:
        return "consistent"
    return "close" if percent <= CLOSE_PERCENT * slack else "differs"
