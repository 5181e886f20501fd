"""A table as HTML, and the document that it stands in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from omkl.papers.filled import ABSENT, Cell, Filled
from omkl.papers.formats import contents
from omkl.papers.formats.origin import facts_of

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


def page(title: str, parts: Iterable[str], more_css: str = "") -> str:
    """A document that needs nothing else."""
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>{CSS}{more_css}</style></head><body>",
            *(part for part in parts if part),
            "</body></html>",
            "",
        ]
    )


def document(filled: Filled) -> str:
    title = contents.caption(filled.table)
    rules = "".join(f"<p>{escape(rule)}.</p>" for rule in contents.rules_of(filled))
    return page(
        title,
        [f"<h1>{escape(title)}</h1>", *body(filled), rules, fact_list(facts_of(filled))],
    )


def fact_list(facts: Sequence[tuple[str, str]]) -> str:
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in facts)
    return f"<dl>{items}</dl>" if items else ""


def body(filled: Filled) -> list[str]:
    """The panels, counts, footnotes and failures, without heading, rules and provenance."""
    table, parts = filled.table, []
    for panel in contents.panels(table):
        columns = [table.columns[i] for i in panel.columns]
        head = "".join(
            f'<th scope="col">{escape(c)}{_marks(filled, contents.column_marks(filled, c))}</th>'
            for c in columns
        )
        lines = []
        for all_cells in filled.cells:
            cells = [all_cells[i] for i in panel.columns]
            found = contents.lines_of(cells, plain=not filled.table.paper)
            for place, line in enumerate(found):
                first = ""
                if place == 0:
                    marks = _marks(filled, contents.marks_of(filled, cells[0].row))
                    label = escape(cells[0].row) + marks
                    first = f'<th scope="row" rowspan="{len(found)}">{label}</th>'
                last = ' class="last"' if line is found[-1] else ""
                fields = _fields(filled, line, cells)
                lines.append(f'<tr{last}>{first}<td class="what">{line.what}</td>{fields}</tr>')
        if panel.heading:
            parts.append(f"<p><strong>{escape(panel.heading)}</strong></p>")
        parts.append(
            '<div class="wide"><table><thead><tr><th scope="col"></th><th></th>'
            f"{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
        )
    parts.append(f"<p>{escape(contents.count_text(filled))}.</p>")
    notes = "".join(
        f'<li id="{table.name}-note{i}">{escape(note.text)}</li>'
        for i, note in enumerate(contents.numbered(table), start=1)
    )
    parts += [f'<p class="notes">{escape(text)}</p>' for text in contents.remarks_of(table)]
    parts.append(f'<ol class="notes">{notes}</ol>' if notes else "")
    errors = "".join(f"<li>{escape(text)}</li>" for text in contents.errors_of(filled))
    parts.append(f"<p>Failed:</p><ul>{errors}</ul>" if errors else "")
    return parts


def _fields(filled: Filled, line: contents.Line, cells: Sequence[Cell]) -> str:
    if line.absent:
        return f'<td class="absent" colspan="{len(cells)}">{ABSENT}</td>'
    fields = []
    for cell, value, remark, name in zip(
        cells, line.values, line.remarks, line.css_classes, strict=True
    ):
        marks = ""
        if line.what in contents.AS_WRITTEN:
            marks = _marks(filled, contents.marks_of(filled, cell.row, cell.column))
        small = f"<span>{escape(remark)}</span>" if remark else ""
        fields.append(f'<td class="{name}">{escape(value)}{marks}{small}</td>')
    return "".join(fields)


def _marks(filled: Filled, marks: Sequence[int]) -> str:
    links = ",".join(f'<a href="#{filled.table.name}-note{n}">{n}</a>' for n in marks)
    return f" <sup>{links}</sup>" if links else ""
