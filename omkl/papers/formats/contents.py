"""What every format shows of a table: panels, lines, texts of a cell, footnotes.

A row of the paper becomes a line of published numbers and one of ours a variant that it
has. A table of two metrics with many columns is cut into a panel a metric.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from omkl.papers import papers
from omkl.papers.filled import ABSENT, RULES, RUN_TIME_RULE, VERDICTS, Cell, Entry, Filled
from omkl.papers.tables import CITED, METRICS, VARIANTS, WRITTEN, Footnote, Table
from omkl.runs.run_folder import Run

WIDE = 6  # columns that fit beside each other


@dataclass(frozen=True)
class Panel:
    """Columns of a table that stand side by side; ``heading`` is "" where there is one panel."""

    heading: str
    columns: tuple[int, ...]


def panels(table: Table) -> list[Panel]:
    everything = tuple(range(len(table.columns)))
    if len(table.metrics) == 1 or len(everything) <= WIDE:
        return [Panel("", everything)]
    first = table.specs[0]
    return [
        Panel(METRICS[m].heading, tuple(i for i in everything if first[i].metric == m))
        for m in table.metrics
    ]


@dataclass(frozen=True)
class Line:
    """One line of a row: a value and a remark a cell, and the class of each cell in HTML."""

    what: str
    values: tuple[str, ...]
    remarks: tuple[str, ...]
    css_classes: tuple[str, ...]
    absent: bool = False


AS_WRITTEN = (VARIANTS[WRITTEN], CITED, "")  # what lines are called that footnotes are marked in


def lines_of(cells: Sequence[Cell], plain: bool = False) -> list[Line]:
    """Published where anything is, and every variant that one of the cells has.

    ``plain``: of a table of one's own, where a number as written goes without saying.
    """
    n = len(cells)
    papers = tuple(published_text(cell) for cell in cells)
    found = [Line("published", papers, ("",) * n, ("published",) * n)] if any(papers) else []
    nothing = Entry("absent", reason="")
    for variant in VARIANTS:
        if any(variant in cell.entries for cell in cells):
            entries = [cell.entries.get(variant, nothing) for cell in cells]
            unsaid = plain and variant == WRITTEN
            found.append(_entry_line("" if unsaid else cells[0].called(variant), entries))
    return found


def _entry_line(what: str, entries: Sequence[Entry]) -> Line:
    return Line(
        what,
        tuple(ours_text(entry) for entry in entries),
        tuple(remark_text(entry) for entry in entries),
        tuple(entry.verdict.replace(" ", "-") for entry in entries),
        all(entry.verdict == "absent" for entry in entries),
    )


def published_text(cell: Cell) -> str:
    if cell.published is None:
        return ""
    return _plus_minus(cell.published, cell.published_std, 2)


def ours_text(entry: Entry) -> str:
    """Our number, or why there is none."""
    if entry.ours is None:
        return entry.reason if entry.verdict == "absent" else entry.verdict
    decimals = 2 if entry.verdict != "timed" else significant(entry.ours)
    return _plus_minus(entry.ours, entry.std, decimals)


def remark_text(entry: Entry) -> str:
    """Difference and verdict, or the ratio of run times."""
    if entry.ratio is not None:
        if entry.ratio >= 1:
            return f"{_ratio(entry.ratio)} × faster"
        return f"{_ratio(1 / entry.ratio)} × slower"
    if entry.difference is None:
        return ""
    difference = f"{entry.difference:+.1f}".replace("-", "−")
    return f"{'0.0' if difference[1:] == '0.0' else difference} %, {entry.verdict}"


def _ratio(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 9.95 else f"{ratio:.1f}"


def significant(value: float, digits: int = 2) -> int:
    """Decimals that show at least ``digits`` digits of a positive value."""
    return max(0, digits - 1 - math.floor(math.log10(value))) if value > 0 else 2


def _plus_minus(value: float, std: float | None, decimals: int) -> str:
    return f"{value:.{decimals}f}" + ("" if std is None else f" ± {std:.{decimals}f}")


def paper_name(table: Table) -> str:
    """The paper in print; a table of another paper has that paper's key."""
    return _names().get(table.paper, table.paper)


@functools.cache
def _names() -> dict[str, str]:
    return {paper.paper: paper.name for paper in papers.load()}


def table_name(table: Table) -> str:
    return f"{paper_name(table)}, table {table.table}"


def caption(table: Table) -> str:
    unit = f" ({METRICS[table.metrics[0]].heading})" if len(table.metrics) == 1 else ""
    of_paper = f"{table_name(table)}: " if table.paper else ""
    return f"{of_paper}{table.title}{unit}"


def count_text(filled: Filled) -> str:
    if not filled.table.paper:
        return "Mean and standard deviation over the seeds"
    if not filled.entries():
        return f"{len(filled.all_cells)} run times, without a verdict"
    found: dict[str, list[Entry]] = {what: [] for what in (*VARIANTS.values(), CITED)}
    for cell in filled.judged:
        for variant, entry in cell.entries.items():
            found[cell.called(variant)].append(entry)
    return "; ".join(f"{what}: {counted(entries)}" for what, entries in found.items() if entries)


def counted(entries: Sequence[Entry]) -> str:
    """ "12 reproduced, 3 close, 1 scatters", in the order of the verdicts."""
    verdicts = [entry.verdict for entry in entries]
    return counts_text({name: verdicts.count(name) for name in (*VERDICTS, "absent")})


def counts_text(numbers: Mapping[str, int]) -> str:
    """The same of a mapping from verdicts to how many there are."""
    several = {"differs": "differ", "scatters": "scatter"}
    parts = []
    for name, n in numbers.items():
        word = ABSENT if name == "absent" else several.get(name, name) if n > 1 else name
        parts += [f"{n} {word}"] if n else []
    return ", ".join(parts)


def rules_of(filled: Filled) -> list[str]:
    """How verdicts are found; one's own numbers get none."""
    if not filled.table.paper:
        return []
    metrics = [METRICS[m] for m in filled.table.metrics]
    found = [RULES] if any(m.judged for m in metrics) else []
    return found + [RUN_TIME_RULE] * (not all(m.judged for m in metrics))


def marks_of(filled: Filled, row: str, column: str | None = None) -> list[int]:
    """Numbers of the footnotes at a row's label, or at its cell of a column."""
    return [
        number
        for number, note in enumerate(numbered(filled.table), start=1)
        if row in note.rows and (not note.columns if column is None else column in note.columns)
    ]


def column_marks(filled: Filled, column: str) -> list[int]:
    return [
        number
        for number, note in enumerate(numbered(filled.table), start=1)
        if not note.rows and column in note.columns
    ]


def numbered(table: Table) -> list[Footnote]:
    """Footnotes that a mark leads to."""
    return [note for note in table.footnotes if note.rows or note.columns]


def remarks_of(table: Table) -> list[str]:
    """Footnotes on the whole table."""
    return [note.text for note in table.footnotes if not note.rows and not note.columns]


def errors_of(filled: Filled) -> list[str]:
    found: dict[int, str] = {}
    for cell in filled.all_cells:
        for entry in cell.entries.values():
            if entry.verdict == "failed" and entry.run is not None:
                text = f"{cell.row}, {cell.column}: {entry.reason} ({place_of(entry.run)})"
                found.setdefault(id(entry.run), text)
    return list(found.values())


def place_of(run: Run) -> str:
    """The run folder below its outputs folder; runs can be moved, so never absolute."""
    parts = run.folder.parts
    start = len(parts) - 1 - parts[::-1].index("runs") if "runs" in parts else -3
    return "/".join(parts[start:])
