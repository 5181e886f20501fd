"""A table as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from omkl.papers.filled import Filled
from omkl.papers.formats import contents
from omkl.papers.formats.origin import facts_of
from omkl.report.text import markdown_table, markdown_text


def document(filled: Filled) -> str:
    parts = [f"# {markdown_text(contents.caption(filled.table))}", "", *body(filled)]
    parts += [f"{rule}.\n" for rule in contents.rules_of(filled)]
    parts += [f"- {name}: {markdown_text(text)}" for name, text in facts_of(filled)]
    return "\n".join(parts) + "\n"


def body(filled: Filled) -> list[str]:
    """The panels, counts, footnotes and failures, without heading, rules and provenance."""
    table, parts = filled.table, []
    for panel in contents.panels(table):
        lines = []
        for all_cells in filled.cells:
            cells = [all_cells[i] for i in panel.columns]
            for place, line in enumerate(contents.lines_of(cells, plain=not filled.table.paper)):
                texts = [
                    markdown_text(value) + (f"<br>{markdown_text(remark)}" if remark else "")
                    for value, remark in zip(line.values, line.remarks, strict=True)
                ]
                if line.what in contents.AS_WRITTEN:
                    marks = (contents.marks_of(filled, c.row, c.column) for c in cells)
                    texts = [text + _marks(m) for text, m in zip(texts, marks, strict=True)]
                row = markdown_text(cells[0].row) + _marks(contents.marks_of(filled, cells[0].row))
                lines.append([row if place == 0 else "", line.what, *texts])
        columns = [table.columns[i] for i in panel.columns]
        names = [markdown_text(c) + _marks(contents.column_marks(filled, c)) for c in columns]
        if panel.heading:
            parts += [f"**{panel.heading}**", ""]
        parts += [markdown_table(["", "", *names], lines, 2, escaped=True), ""]
    parts += [f"{contents.count_text(filled)}.", ""]
    parts += [f"{markdown_text(text)}\n" for text in contents.remarks_of(table)]
    notes = contents.numbered(table)
    parts += [f"{n}. {markdown_text(note.text)}" for n, note in enumerate(notes, start=1)]
    parts += [""] if notes else []
    errors = [f"- failed: {markdown_text(text)}" for text in contents.errors_of(filled)]
    return parts + errors + ([""] if errors else [])


def _marks(marks: Sequence[int]) -> str:
    return f" <sup>{','.join(map(str, marks))}</sup>" if marks else ""
