"""A filled table in print: parts of a page, and files of it as Markdown, CSV, LaTeX and HTML.

A row of the paper becomes a line of published numbers and one of ours for each variant that it
has. A table of two metrics with many columns is cut into a panel per metric.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omkl.papers import claims
from omkl.papers.matching import (
    ABSENT,
    RULES,
    RUN_TIME_RULE,
    VERDICTS,
    Cell,
    Entry,
    FilledTable,
)
from omkl.papers.tables import CITED, METRICS, VARIANTS, WRITTEN, Footnote, Table
from omkl.report import page
from omkl.report import tables as printed
from omkl.report.naming import csv_text, latex_text
from omkl.runs.run_folder import Run
from omkl.utils.disk import write_atomically
from omkl.utils.wording import pluralize

if TYPE_CHECKING:
    from rich.console import Console

WIDE = 6  # columns that fit beside each other
MOST_STAMPS = 4  # shown: each algorithm on each data set has one
AS_WRITTEN = (VARIANTS[WRITTEN], CITED, "")  # what lines are called that footnotes are marked in
# Classes of HTML; what is not here has none.
KINDS = {
    "reproduced": "good",
    "close": "fair",
    **dict.fromkeys(("differs", "failed"), "bad"),
    **dict.fromkeys(("published", "scatters", "timed", "absent", "missing", "no data"), "soft"),
}


def parts_of(filled: FilledTable) -> list[page.Part]:
    """Its panels, counts and footnotes below the last of them, and what failed."""
    table = filled.table
    parts: list[page.Part] = []
    for heading, columns in _panels(table):
        parts += [page.Text(f"**{heading}**", markup=True)] if heading else []
        last = _panel(filled, columns)
        parts.append(last)
    remarks = [note.text for note in table.footnotes if not note.rows and not note.columns]
    parts[-1] = dataclasses.replace(
        last,
        remarks=[f"{count_text(filled)}.", *remarks],
        notes=[note.text for note in _numbered(table)],
    )
    errors = [f"failed: {text}" for text in _errors_of(filled)]
    return [*parts, page.Items(errors)] if errors else parts


def _panels(table: Table) -> list[tuple[str, tuple[int, ...]]]:
    """Headings, "" where there is one panel, and columns that stand side by side."""
    everything = tuple(range(len(table.columns)))
    if len(table.metrics) == 1 or len(everything) <= WIDE:
        return [("", everything)]
    first = table.specs[0]
    return [
        (METRICS[m].heading, tuple(i for i in everything if first[i].metric == m))
        for m in table.metrics
    ]


def _panel(filled: FilledTable, columns: Sequence[int]) -> printed.Table:
    body: list[list[printed.Cell]] = []
    groups = []
    for line in filled.cells:
        cells = [line[i] for i in columns]
        label = printed.Cell(cells[0].row, marks=_marks(filled.table, row=cells[0].row))
        for what, values in _lines(filled, cells):
            body.append([label, printed.Cell(what), *values])
            label = printed.Cell("")
        groups.append(len(body) - 1)
    names = [filled.table.columns[i] for i in columns]
    headings = [printed.Cell(n, marks=_marks(filled.table, column=n)) for n in names]
    return printed.Table(
        [printed.Cell(""), printed.Cell(""), *headings], body, 2,
        groups=groups, name=filled.table.name,
    )  # fmt: skip


def _lines(filled: FilledTable, cells: Sequence[Cell]) -> Iterator[tuple[str, list[printed.Cell]]]:
    """Published where anything is, and every variant that one of the cells has.

    In a table of one's own a number as written goes without saying.
    """
    published = [_published_text(cell) for cell in cells]
    if any(published):
        yield "published", [printed.Cell(text, kind=KINDS["published"]) for text in published]
    nothing = Entry("absent", reason="")
    for variant in VARIANTS:
        if not any(variant in cell.entries for cell in cells):
            continue
        entries = [cell.entries.get(variant, nothing) for cell in cells]
        unsaid = not filled.table.paper and variant == WRITTEN
        what = "" if unsaid else cells[0].called(variant)
        if all(entry.verdict == "absent" for entry in entries):
            whole = printed.Cell(ABSENT, kind=KINDS["absent"], span=len(cells))
            yield what, [whole] * len(cells)
            continue
        values = []
        for cell, entry in zip(cells, entries, strict=True):
            marks = _marks(filled.table, cell.row, cell.column) if what in AS_WRITTEN else ()
            kind = KINDS.get(entry.verdict, "")
            values.append(printed.Cell(ours_text(entry), False, remark_text(entry), marks, kind))
        yield what, values


def _marks(table: Table, row: str = "", column: str = "") -> tuple[int, ...]:
    """Numbers of the footnotes of a row's label, of a column's, or of the cell of both."""

    def has(note: Footnote) -> bool:
        if row and column:
            return row in note.rows and column in note.columns
        if row:
            return row in note.rows and not note.columns
        return column in note.columns and not note.rows

    return tuple(n for n, note in enumerate(_numbered(table), start=1) if has(note))


def _numbered(table: Table) -> list[Footnote]:
    """Footnotes that a mark leads to."""
    return [note for note in table.footnotes if note.rows or note.columns]


def printed_csv(filled: Iterable[FilledTable]) -> str:
    """Every cell of these tables as it is printed, one on a line."""
    lines = [("table", "metric", "row", "settings", "column", "number", "remark")]
    for table in filled:
        for heading, columns in _panels(table.table):
            panel, row = _panel(table, columns), ""
            for label, what, *cells in panel.cells:
                row = label.text or row
                of_line = (caption(table.table), heading, row, what.text)
                for head, cell in zip(panel.headings[2:], cells, strict=True):
                    lines.append((*of_line, head.text, cell.text, cell.remark))
    return csv_text(lines)


# --- texts ----------------------------------------------------------------------------------------


def _published_text(cell: Cell) -> str:
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


def significant(value: float) -> int:
    """Decimals that show at least two digits of a positive value."""
    return max(0, 1 - math.floor(math.log10(value))) if value > 0 else 2


def _plus_minus(value: float, std: float | None, decimals: int) -> str:
    return f"{value:.{decimals}f}" + ("" if std is None else f" ± {std:.{decimals}f}")


def paper_name(table: Table) -> str:
    """The paper in print; a table of another paper has that paper's key."""
    return _names().get(table.paper, table.paper)


@functools.cache
def _names() -> dict[str, str]:
    return {paper.paper: paper.name for paper in claims.load()}


def table_name(table: Table) -> str:
    return f"{paper_name(table)}, table {table.table}"


def caption(table: Table) -> str:
    unit = f" ({METRICS[table.metrics[0]].heading})" if len(table.metrics) == 1 else ""
    of_paper = f"{table_name(table)}: " if table.paper else ""
    return f"{of_paper}{table.title}{unit}"


def count_text(filled: FilledTable) -> str:
    if not filled.table.paper:
        return "Mean and standard deviation over the seeds"
    if not filled.entries():
        return f"{len(filled.all_cells)} run times, without a verdict"
    by_variant: dict[str, list[Entry]] = {what: [] for what in (*VARIANTS.values(), CITED)}
    for cell in filled.judged:
        for variant, entry in cell.entries.items():
            by_variant[cell.called(variant)].append(entry)
    return "; ".join(
        f"{what}: {counted(entries)}" for what, entries in by_variant.items() if entries
    )


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


def rules_of(filled: FilledTable) -> list[str]:
    """How verdicts are found; one's own numbers get none."""
    if not filled.table.paper:
        return []
    metrics = [METRICS[m] for m in filled.table.metrics]
    rules = [RULES] if any(m.judged for m in metrics) else []
    return rules + [RUN_TIME_RULE] * (not all(m.judged for m in metrics))


def _errors_of(filled: FilledTable) -> list[str]:
    texts: dict[int, str] = {}
    for cell in filled.all_cells:
        for entry in cell.entries.values():
            if entry.verdict == "failed" and entry.run is not None:
                text = f"{cell.row}, {cell.column}: {entry.reason} ({place_of(entry.run)})"
                texts.setdefault(id(entry.run), text)
    return list(texts.values())


def place_of(run: Run) -> str:
    """The run folder below its outputs folder; runs can be moved, so never absolute."""
    parts = run.folder.parts
    start = len(parts) - 1 - parts[::-1].index("runs") if "runs" in parts else -3
    return "/".join(parts[start:])


# --- what made the numbers ------------------------------------------------------------------------


def provenance(runs: Iterable[Run]) -> list[tuple[str, str]]:
    """What computed the numbers; several values where the runs do not agree."""
    results = [run.result for run in runs if run.complete]
    if not results:
        return []

    def among(key: str) -> str:
        texts = []
        for result in results:
            value = result[key]
            if isinstance(value, Mapping):
                value = ", ".join(f"{k} {v}" for k, v in value.items())
            texts.append(str(value))
        return "; ".join(dict.fromkeys(texts))

    counts = dict.fromkeys(_seeds_text(result["seeds"]) for result in results)
    total = sum(result["seconds"] for result in results)
    facts = [
        ("runs", str(len(results))),
        ("seeds", "; ".join(counts)),
        ("streaming", f"{total:.1f} s of wall time in all, all seeds"),
    ]
    facts += [(key, among(key)) for key in ("machine", "versions")]
    made = commits(result["commit"] for result in results)
    if len(made) == 1:
        facts.append(("commit", next(iter(made))))
    else:
        facts.append(("commits", _each(made)))
    stamps = {str(result["stamp"]) for result in results}
    first = sorted(stamps)[:MOST_STAMPS]
    shown = "; ".join(first) if len(stamps) <= MOST_STAMPS else f"{'; '.join(first)}; ..."
    text = f"{pluralize(len(stamps), 'stamp')} of code and data, stamp in result.json: {shown}"
    facts.append(("sources", text))
    return facts


def commits(stored: Iterable[str | None]) -> dict[str, int]:
    """Commits as runs store them, in words, and how often each comes."""
    return dict(Counter(commit_text(commit) for commit in stored))


def commit_text(commit: str | None) -> str:
    """ "1a2b3c (clean tree)"; a run marks a commit with changes on top of it by a + at its end."""
    if commit is None:
        return "no commit (outside a checkout)"
    if commit.endswith("+"):
        return f"{commit.removesuffix('+')} with uncommitted changes"
    return f"{commit} (clean tree)"


def origin_text(runs: Sequence[Run]) -> str:
    """One sentence: that all runs are of one commit with a clean tree, or what they are of."""
    made = commits(run.result["commit"] for run in runs)
    (first, n), *others = made.items()
    if not others and first.endswith("(clean tree)"):
        commit = first.removesuffix(" (clean tree)")
        return f"All {n} runs were made at commit {commit} with a clean tree."
    return (
        "These numbers are not those of one commit with a clean tree, so no checkout is sure to "
        f"give all of them again. {_each(made)}."
    )


def _each(made: Mapping[str, int]) -> str:
    return "; ".join(f"{text}: {pluralize(n, 'run')}" for text, n in made.items())


def _seeds_text(seeds: Sequence[int]) -> str:
    if len(seeds) == 1:
        return f"1 seed ({seeds[0]})"
    return f"{len(seeds)} seeds ({seeds[0]}..{seeds[-1]})"


def settings_text(table: Table) -> str:
    """Overrides that hold in most cells, and the seeds."""
    specs = [spec for line in table.specs for spec in line]
    every = dict.fromkeys(o for spec in specs for o in spec.overrides)
    common = [o for o in every if 2 * sum(o in spec.overrides for spec in specs) > len(specs)]
    seeds = max(spec.seeds for spec in specs)
    return f"{', '.join(common)}, {seeds} seeds, mean ± std over the seeds"


def facts_of(filled: FilledTable) -> list[tuple[str, str]]:
    return [("settings", settings_text(filled.table)), *provenance(filled.runs)]


# --- files ----------------------------------------------------------------------------------------


def render(filled: FilledTable, formats: Iterable[str], folder: Path) -> list[Path]:
    """Write ``<name>.<format>`` for every format of ``FORMATS`` that is asked for."""
    formats = list(formats)
    for form in formats:
        if form not in FORMATS:
            raise ValueError(f"format {form!r} is not one of {', '.join(FORMATS)}")
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for form in formats:
        paths.append(folder / f"{filled.table.name}.{form}")
        write_atomically(paths[-1], _WRITERS[form](filled))
    return paths


def print_table(filled: FilledTable, console: Console) -> None:
    """Print its panels and counts on a terminal; footnotes are in the files alone."""
    from rich.text import Text

    console.print(Text(f"\n{caption(filled.table)}", style="bold"))
    for part in parts_of(filled):
        if isinstance(part, printed.Table):
            cells = [[_with_remark(cell) for cell in line] for line in part.cells]
            dataclasses.replace(part, cells=cells).print(console)
            console.print()
    console.print(Text(f"{count_text(filled)}."))


def _with_remark(cell: printed.Cell) -> printed.Cell:
    return dataclasses.replace(cell, text=f"{cell.text}  {cell.remark}") if cell.remark else cell


def _page_of(filled: FilledTable) -> list[page.Part]:
    rules = [page.Text(f"{rule}.") for rule in rules_of(filled)]
    return [*parts_of(filled), *rules, page.Facts(facts_of(filled))]


def _markdown(filled: FilledTable) -> str:
    return page.markdown_page(caption(filled.table), _page_of(filled))


def _html(filled: FilledTable) -> str:
    return page.html_page(caption(filled.table), _page_of(filled))


def _latex(filled: FilledTable) -> str:
    """A ``table`` environment to be read with \\input; needs the package booktabs."""
    parts = parts_of(filled)
    out = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering\small",
        rf"\caption{{{latex_text(caption(filled.table))}.}}",
        rf"\label{{tab:{re.sub(r'[^A-Za-z0-9]+', '-', filled.table.name)}}}",
    ]
    below: list[str] = []
    for part in parts:
        if isinstance(part, printed.Table):
            out.append(part.latex())
            notes = enumerate(part.notes, start=1)
            below += [f"$^{{{n}}}$ {latex_text(note)}" for n, note in notes]
            below += map(latex_text, part.remarks)
        elif isinstance(part, page.Text):
            out.append(rf"\medskip {latex_text(part.text.strip('*'))}\par")
        elif isinstance(part, page.Items):
            below += map(latex_text, part.items)
    below += [f"{latex_text(rule)}." for rule in rules_of(filled)]
    facts = (f"{name}: {latex_text(text)}" for name, text in facts_of(filled))
    below.append("; ".join(facts) + ".")
    out += ["", r"\medskip", r"\begin{minipage}{0.95\linewidth}\footnotesize\raggedright"]
    out += ["\\par\n".join(below), r"\end{minipage}", r"\end{table}"]
    return "\n".join(out) + "\n"


def _csv(filled: FilledTable) -> str:
    """One line per cell and variant."""
    table = filled.table
    heading = ["paper", "table", "row", "column", "dataset", "metric", "variant", "algorithm"]
    heading += ["published", "published_std", "ours", "std", "two_standard_errors"]
    heading += ["difference_percent", "times_faster"]
    heading += ["verdict", "reason", "n_seeds", "seconds", "commit", "stamp", "folder"]
    lines: list[list[Any]] = [heading]
    for cell in filled.all_cells:
        spec = cell.spec
        for variant, entry in cell.entries.items():
            result = entry.run.result if entry.run else {}
            numbers = [cell.published_std, entry.ours, entry.std, entry.margin]
            numbers += [entry.difference, entry.ratio]
            lines.append(
                [
                    *(table.paper, table.table, cell.row, cell.column, spec.dataset, spec.metric),
                    *(VARIANTS[variant], spec.variants[variant].algorithm or ""),
                    "" if cell.published is None else cell.published,
                    *("" if number is None else number for number in numbers),
                    *(entry.verdict, entry.reason),
                    "" if entry.ours is None else len(result["seeds"]),
                    *(result.get("seconds", ""), result.get("commit", "")),
                    *(result.get("stamp", ""), place_of(entry.run) if entry.run else ""),
                ]
            )
    return csv_text(lines)


_WRITERS: dict[str, Callable[[FilledTable], str]] = {
    "md": _markdown,
    "csv": _csv,
    "tex": _latex,
    "html": _html,
}
FORMATS = tuple(_WRITERS)
