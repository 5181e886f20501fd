"""A table as LaTeX."""

from __future__ import annotations

import re
from collections.abc import Sequence

from omkl.papers.filled import ABSENT, Filled
from omkl.papers.formats import contents
from omkl.papers.formats.origin import facts_of
from omkl.report.text import latex_text


def document(filled: Filled) -> str:
    """A ``table`` environment to be read with \\input; needs the package booktabs."""
    table = filled.table
    out = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering\small",
        rf"\caption{{{latex_text(contents.caption(table))}.}}",
        rf"\label{{tab:{re.sub(r'[^A-Za-z0-9]+', '-', table.name)}}}",
    ]
    for panel in contents.panels(table):
        if panel.heading:
            out.append(rf"\medskip {latex_text(panel.heading)}\par")
        out += _panel(filled, panel)
    out += ["", r"\medskip"]
    out += [r"\begin{minipage}{0.95\linewidth}\footnotesize\raggedright"]
    numbered = enumerate(contents.numbered(table), start=1)
    notes = [f"$^{{{i}}}$ {latex_text(note.text)}" for i, note in numbered]
    notes += [latex_text(text) for text in contents.remarks_of(table)]
    notes.append(f"{latex_text(contents.count_text(filled))}.")
    notes += [f"{latex_text(rule)}." for rule in contents.rules_of(filled)]
    notes += [f"failed: {latex_text(text)}" for text in contents.errors_of(filled)]
    notes += ["; ".join(f"{name}: {latex_text(text)}" for name, text in facts_of(filled)) + "."]
    out += ["\\par\n".join(notes), r"\end{minipage}", r"\end{table}"]
    return "\n".join(out) + "\n"


def _panel(filled: Filled, panel: contents.Panel) -> list[str]:
    columns = [filled.table.columns[i] for i in panel.columns]
    n = len(columns)
    names = [latex_text(c) + _marks(contents.column_marks(filled, c)) for c in columns]
    out = [rf"\begin{{tabular}}{{ll{'r' * n}}}", r"\toprule"]
    out.append(" & ".join(["", "", *names]).strip() + r" \\")
    for all_cells in filled.cells:
        cells = [all_cells[i] for i in panel.columns]
        out.append(r"\midrule" if all_cells is filled.cells[0] else r"\addlinespace")
        for place, line in enumerate(contents.lines_of(cells, plain=not filled.table.paper)):
            row = latex_text(cells[0].row) + _marks(contents.marks_of(filled, cells[0].row))
            first = row if place == 0 else ""
            if line.absent:
                out.append(rf"{first} & {line.what} & \multicolumn{{{n}}}{{c}}{{{ABSENT}}} \\")
                continue
            fields = [latex_text(text) for text in line.values]
            if line.what in contents.AS_WRITTEN:
                marks = [_marks(contents.marks_of(filled, c.row, c.column)) for c in cells]
                fields = [a + b for a, b in zip(fields, marks, strict=True)]
            out.append(" & ".join([first, line.what, *fields]) + r" \\")
            if any(line.remarks):
                remarks = [rf"\emph{{{latex_text(r)}}}" if r else "" for r in line.remarks]
                out.append(" & ".join(["", "", *remarks]) + r" \\")
    return [*out, r"\bottomrule", r"\end{tabular}"]


def _marks(marks: Sequence[int]) -> str:
    return f"$^{{{','.join(map(str, marks))}}}$" if marks else ""
