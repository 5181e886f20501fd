"""A table as CSV: one line a cell and variant."""

from __future__ import annotations

from typing import Any

from omkl.papers.filled import Filled
from omkl.papers.formats import contents
from omkl.papers.tables import VARIANTS
from omkl.report.text import csv_text


def document(filled: Filled) -> str:
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
                    *(result.get("numbers", ""), contents.place_of(entry.run) if entry.run else ""),
                ]
            )
    return csv_text(lines)
