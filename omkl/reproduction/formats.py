"""A paper's table in the formats of ``tables.render``: CSV, Markdown, LaTeX, HTML.

A row of the paper becomes a line of published numbers and one of ours a variant that it
has. A table of two metrics with many columns is cut into a panel a metric.
"""

from __future__ import annotations

import html
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omkl.report.text import csv_text, markdown_table, markdown_text
from omkl.reproduction.filled import ABSENT, RULES, RUN_TIME_RULE, VERDICTS, Cell, Entry, Filled
from omkl.reproduction.tables import METRICS, VARIANTS, WRITTEN, Footnote, Table
from omkl.runs.folder import Run

WIDE = 6  # columns that fit beside each other
PAPERS = {
    "graph-aided-jmlr": "JMLR",
    "graph-aided-arxiv-v1": "arXiv v1",
    "active-mkl": "Active MKL",
    "federated-pof": "Federated",
}


# --- what every format shows ---------------------------------------------------------------


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
    """One line of a row: a value and a remark a cell, and the class of each cell."""

    what: str
    values: tuple[str, ...]
    remarks: tuple[str, ...]
    classes: tuple[str, ...]
    absent: bool = False


def lines_of(cells: Sequence[Cell]) -> list[Line]:
    """Published where anything is, and every variant that one of the cells has."""
    n = len(cells)
    papers = tuple(published_text(cell) for cell in cells)
    found = [Line("published", papers, ("",) * n, ("published",) * n)] if any(papers) else []
    nothing = Entry("absent", reason="")
    for variant, what in VARIANTS.items():
        if any(variant in cell.entries for cell in cells):
            entries = [cell.entries.get(variant, nothing) for cell in cells]
            found.append(_entry_line(what, entries))
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


def caption(table: Table) -> str:
    paper = PAPERS.get(table.paper, table.paper)
    unit = f" ({METRICS[table.metrics[0]].heading})" if len(table.metrics) == 1 else ""
    return f"{paper}, table {table.table}: {table.title}{unit}"


def count_text(filled: Filled) -> str:
    if not filled.entries():
        return f"{len(filled.all_cells)} run times, without a verdict"
    found = {what: filled.entries(variant) for variant, what in VARIANTS.items()}
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
                text = f"{cell.row}, {cell.column}: {entry.reason} ({_short(entry.run)})"
                found.setdefault(id(entry.run), text)
    return list(found.values())


def _short(run: Run) -> str:
    """The run folder below its outputs folder; runs can be moved, so never absolute."""
    parts = run.folder.parts
    start = len(parts) - 1 - parts[::-1].index("runs") if "runs" in parts else -3
    return "/".join(parts[start:])


def provenance(runs: Iterable[Run]) -> list[tuple[str, str]]:
    """What computed the numbers; several values where the runs do not agree."""
    results = [run.result for run in runs if run.complete]
    if not results:
        return []

    def among(key: str) -> str:
        texts = []
        for result in results:
            value = result.get(key)
            if isinstance(value, Mapping):
                value = ", ".join(f"{k} {v}" for k, v in value.items())
            texts.append("unknown" if value is None else str(value))
        return "; ".join(dict.fromkeys(texts))

    counts = dict.fromkeys(_seeds_text(result["seeds"]) for result in results)
    total = sum(result["seconds"] for result in results)
    facts = [
        ("runs", str(len(results))),
        ("seeds", "; ".join(counts)),
        ("streaming", f"{total:.1f} s of wall time in all, all seeds"),
    ]
    facts += [(key, among(key)) for key in ("machine", "versions")]
    made = commits(result.get("commit") for result in results)
    if len(made) == 1:
        facts.append(("commit", next(iter(made))))
    else:
        facts.append(("commits", _each(made)))
    facts.append(("sources", f"stamp {among('numbers')}"))
    return facts


def commits(found: Iterable[str | None]) -> dict[str, int]:
    """Commits as runs store them, in words, and how often each comes."""
    return dict(Counter(commit_text(commit) for commit in found))


def commit_text(commit: str | None) -> str:
    """ "1a2b3c (clean tree)"; a run marks a commit with changes on top of it by a + at its end."""
    if commit is None:
        return "no commit (outside a checkout)"
    if commit.endswith("+"):
        return f"{commit.removesuffix('+')} with uncommitted changes"
    return f"{commit} (clean tree)"


def origin_text(runs: Sequence[Run]) -> str:
    """One sentence: that all runs are of one commit with a clean tree, or what they are of."""
    made = commits(run.result.get("commit") for run in runs)
    (first, n), *others = made.items()
    if not others and first.endswith("(clean tree)"):
        commit = first.removesuffix(" (clean tree)")
        return f"All {n} runs were made at commit {commit} with a clean tree."
    return (
        "These numbers are not those of one commit with a clean tree, so no checkout is sure to "
        f"give all of them again. {_each(made)}."
    )


def _each(made: Mapping[str, int]) -> str:
    return "; ".join(f"{text}: {n} run{'s' if n > 1 else ''}" for text, n in made.items())


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


def facts_of(filled: Filled) -> list[tuple[str, str]]:
    return [("settings", settings_text(filled.table)), *provenance(filled.runs)]


# --- CSV -----------------------------------------------------------------------------------


def to_csv(filled: Filled) -> str:
    """Tidy: one line a cell and variant."""
    table = filled.table
    heading = ["paper", "table", "row", "column", "dataset", "metric", "variant", "algorithm"]
    heading += ["published", "published_std", "ours", "std", "two_standard_errors"]
    heading += ["difference_percent", "times_faster"]
    heading += ["verdict", "reason", "n_seeds", "seconds", "commit", "numbers", "folder"]
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
                    *(result.get("numbers", ""), _short(entry.run) if entry.run else ""),
                ]
            )
    return csv_text(lines)


# --- Markdown ------------------------------------------------------------------------------


def to_md(filled: Filled) -> str:
    parts = [f"# {markdown_text(caption(filled.table))}", "", *md_body(filled)]
    parts += [f"{rule}.\n" for rule in rules_of(filled)]
    parts += [f"- {name}: {markdown_text(text)}" for name, text in facts_of(filled)]
    return "\n".join(parts) + "\n"


def md_body(filled: Filled) -> list[str]:
    """The panels, counts, footnotes and failures, without heading, rules and provenance."""
    table, parts = filled.table, []
    for panel in panels(table):
        body = []
        for all_cells in filled.cells:
            cells = [all_cells[i] for i in panel.columns]
            for place, line in enumerate(lines_of(cells)):
                texts = [
                    markdown_text(value) + (f"<br>{markdown_text(remark)}" if remark else "")
                    for value, remark in zip(line.values, line.remarks, strict=True)
                ]
                if line.what == VARIANTS[WRITTEN]:
                    marks = (marks_of(filled, c.row, c.column) for c in cells)
                    texts = [text + _md_marks(m) for text, m in zip(texts, marks, strict=True)]
                row = markdown_text(cells[0].row) + _md_marks(marks_of(filled, cells[0].row))
                body.append([row if place == 0 else "", line.what, *texts])
        labels = [table.columns[i] for i in panel.columns]
        names = [markdown_text(c) + _md_marks(column_marks(filled, c)) for c in labels]
        if panel.heading:
            parts += [f"**{panel.heading}**", ""]
        parts += [markdown_table(["", "", *names], body, 2, escaped=True), ""]
    parts += [f"{count_text(filled)}.", ""]
    parts += [f"{markdown_text(text)}\n" for text in remarks_of(table)]
    notes = numbered(table)
    parts += [f"{n}. {markdown_text(note.text)}" for n, note in enumerate(notes, start=1)]
    parts += [""] if notes else []
    errors = [f"- failed: {markdown_text(text)}" for text in errors_of(filled)]
    return parts + errors + ([""] if errors else [])


def _md_marks(marks: Sequence[int]) -> str:
    return f" <sup>{','.join(map(str, marks))}</sup>" if marks else ""


# --- LaTeX ---------------------------------------------------------------------------------

_TEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "−": r"$-$",
    "⁻": r"$^{-}$",
    "³": r"$^{3}$",
    **{character: f"\\{character}" for character in "#$%&_"},
}


def tex_text(text: str) -> str:
    text = text.replace("× 10⁻³", "\0")  # one formula, not four
    return "".join(_TEX.get(c, c) for c in text).replace("\0", r"$\times 10^{-3}$")


def to_tex(filled: Filled) -> str:
    """A ``table`` environment to be read with \\input; needs the package booktabs."""
    table = filled.table
    out = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering\small",
        rf"\caption{{{tex_text(caption(table))}.}}",
        rf"\label{{tab:{re.sub(r'[^A-Za-z0-9]+', '-', table.name)}}}",
    ]
    for panel in panels(table):
        if panel.heading:
            out.append(rf"\medskip {tex_text(panel.heading)}\par")
        out += _tex_panel(filled, panel)
    out += ["", r"\medskip"]
    out += [r"\begin{minipage}{0.95\linewidth}\footnotesize\raggedright"]
    notes = [f"$^{{{i}}}$ {tex_text(note.text)}" for i, note in enumerate(numbered(table), start=1)]
    notes += [tex_text(text) for text in remarks_of(table)]
    notes.append(f"{tex_text(count_text(filled))}.")
    notes += [f"{tex_text(rule)}." for rule in rules_of(filled)]
    notes += [f"failed: {tex_text(text)}" for text in errors_of(filled)]
    notes += ["; ".join(f"{name}: {tex_text(text)}" for name, text in facts_of(filled)) + "."]
    out += ["\\par\n".join(notes), r"\end{minipage}", r"\end{table}"]
    return "\n".join(out) + "\n"


def _tex_panel(filled: Filled, panel: Panel) -> list[str]:
    labels = [filled.table.columns[i] for i in panel.columns]
    n = len(labels)
    names = [tex_text(c) + _tex_marks(column_marks(filled, c)) for c in labels]
    out = [rf"\begin{{tabular}}{{ll{'r' * n}}}", r"\toprule"]
    out.append(" & ".join(["", "", *names]).strip() + r" \\")
    for all_cells in filled.cells:
        cells = [all_cells[i] for i in panel.columns]
        out.append(r"\midrule" if all_cells is filled.cells[0] else r"\addlinespace")
        for place, line in enumerate(lines_of(cells)):
            row = tex_text(cells[0].row) + _tex_marks(marks_of(filled, cells[0].row))
            first = row if place == 0 else ""
            if line.absent:
                out.append(rf"{first} & {line.what} & \multicolumn{{{n}}}{{c}}{{{ABSENT}}} \\")
                continue
            fields = [tex_text(text) for text in line.values]
            if line.what == VARIANTS[WRITTEN]:
                marks = [_tex_marks(marks_of(filled, c.row, c.column)) for c in cells]
                fields = [a + b for a, b in zip(fields, marks, strict=True)]
            out.append(" & ".join([first, line.what, *fields]) + r" \\")
            if any(line.remarks):
                remarks = [rf"\emph{{{tex_text(r)}}}" if r else "" for r in line.remarks]
                out.append(" & ".join(["", "", *remarks]) + r" \\")
    return [*out, r"\bottomrule", r"\end{tabular}"]


def _tex_marks(marks: Sequence[int]) -> str:
    return f"$^{{{','.join(map(str, marks))}}}$" if marks else ""


# --- HTML ----------------------------------------------------------------------------------

CSS = """
:root { color-scheme: light dark; --line: #d9d9d9; --soft: #5c5c5c; --back: #ffffff;
  --text: #1b1b1b; --good: #00694b; --fair: #7a5200; --bad: #a8321c; --link: #0b57a4;
  --card: #f6f7f8; }
@media (prefers-color-scheme: dark) { :root { --line: #3a4046; --soft: #a5abb1;
  --back: #16191c; --text: #e6e6e6; --good: #4fd1a5; --fair: #f0b541; --bad: #ff8f73;
  --link: #7db8f0; --card: #1f2428; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back);
  max-width: 64rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: break-word; }
a { color: var(--link); }
h1 { font-size: 1.5rem; line-height: 1.25; }
h2 { font-size: 1.2rem; margin-top: 2.6rem; }
h3 { font-size: 1rem; margin: 2rem 0 .4rem; }
.wide { overflow-x: auto; margin: .6rem 0; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; }
th, td { padding: .22rem .7rem; text-align: right; vertical-align: top; white-space: nowrap; }
th { font-weight: 600; }
th:first-child { text-align: left; padding-left: 0; }
td.what { text-align: left; color: var(--soft); }
thead th { border-bottom: 2px solid var(--text); vertical-align: bottom; }
tbody tr.last > td, tbody th[rowspan] { border-bottom: 1px solid var(--line); }
td span { display: block; font-size: .8rem; line-height: 1.25; }
td.published, td.absent, td.missing, td.no-data { color: var(--soft); }
td.absent { text-align: center; font-size: .8rem; }
.reproduced span { color: var(--good); }
.close span { color: var(--fair); }
.differs span, .failed { color: var(--bad); }
.scatters span { color: var(--soft); font-style: italic; }
.timed span { color: var(--soft); }
sup { line-height: 0; font-weight: 400; }
sup a { color: var(--soft); }
ol, ul, dl, p { font-size: .92rem; }
ol.notes, p.notes { font-size: .85rem; color: var(--soft); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr; } dd { margin-bottom: .4rem; }
  th, td { padding: .22rem .45rem; } }
"""


def page(title: str, body: Iterable[str], css: str = CSS) -> str:
    """A document that needs nothing else."""
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{html.escape(title)}</title>",
            f"<style>{css}</style></head><body>",
            *(part for part in body if part),
            "</body></html>",
            "",
        ]
    )


def to_html(filled: Filled) -> str:
    title = caption(filled.table)
    rules = "".join(f"<p>{html.escape(rule)}.</p>" for rule in rules_of(filled))
    return page(
        title,
        [f"<h1>{html.escape(title)}</h1>", *html_body(filled), rules, html_facts(facts_of(filled))],
    )


def html_facts(facts: Sequence[tuple[str, str]]) -> str:
    items = "".join(
        f"<dt>{html.escape(name)}</dt><dd>{html.escape(text)}</dd>" for name, text in facts
    )
    return f"<dl>{items}</dl>" if items else ""


def html_body(filled: Filled) -> list[str]:
    """The panels, counts, footnotes and failures, without heading, rules and provenance."""
    table, esc, parts = filled.table, html.escape, []
    for panel in panels(table):
        labels = [table.columns[i] for i in panel.columns]
        head = "".join(
            f'<th scope="col">{esc(c)}{_html_marks(filled, column_marks(filled, c))}</th>'
            for c in labels
        )
        body = []
        for all_cells in filled.cells:
            cells = [all_cells[i] for i in panel.columns]
            found = lines_of(cells)
            for place, line in enumerate(found):
                first = ""
                if place == 0:
                    marks = _html_marks(filled, marks_of(filled, cells[0].row))
                    label = esc(cells[0].row) + marks
                    first = f'<th scope="row" rowspan="{len(found)}">{label}</th>'
                last = ' class="last"' if line is found[-1] else ""
                fields = _html_fields(filled, line, cells)
                body.append(f'<tr{last}>{first}<td class="what">{line.what}</td>{fields}</tr>')
        if panel.heading:
            parts.append(f"<p><strong>{esc(panel.heading)}</strong></p>")
        parts.append(
            '<div class="wide"><table><thead><tr><th scope="col"></th><th></th>'
            f"{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
        )
    parts.append(f"<p>{esc(count_text(filled))}.</p>")
    notes = "".join(
        f'<li id="{table.name}-note{i}">{esc(note.text)}</li>'
        for i, note in enumerate(numbered(table), start=1)
    )
    parts += [f'<p class="notes">{esc(text)}</p>' for text in remarks_of(table)]
    parts.append(f'<ol class="notes">{notes}</ol>' if notes else "")
    errors = "".join(f"<li>{esc(text)}</li>" for text in errors_of(filled))
    parts.append(f"<p>Failed:</p><ul>{errors}</ul>" if errors else "")
    return parts


def _html_fields(filled: Filled, line: Line, cells: Sequence[Cell]) -> str:
    if line.absent:
        return f'<td class="absent" colspan="{len(cells)}">{ABSENT}</td>'
    fields = []
    for cell, value, remark, name in zip(
        cells, line.values, line.remarks, line.classes, strict=True
    ):
        marks = ""
        if line.what == VARIANTS[WRITTEN]:
            marks = _html_marks(filled, marks_of(filled, cell.row, cell.column))
        small = f"<span>{html.escape(remark)}</span>" if remark else ""
        fields.append(f'<td class="{name}">{html.escape(value)}{marks}{small}</td>')
    return "".join(fields)


def _html_marks(filled: Filled, marks: Sequence[int]) -> str:
    links = ",".join(f'<a href="#{filled.table.name}-note{n}">{n}</a>' for n in marks)
    return f" <sup>{links}</sup>" if links else ""
