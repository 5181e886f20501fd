"""Plain text that several reports share: CSV and Markdown tables, the name of a theorem."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def csv_text(lines: Iterable[Sequence[Any]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(lines)
    return buffer.getvalue()


def markdown_text(text: str) -> str:
    """Text for a Markdown table: one line, and nothing in it is markup."""
    return re.sub(r"([\\|*_<>`\[\]])", r"\\\1", " ".join(text.split()))


def markdown_table(
    headings: Sequence[str], body: Sequence[Sequence[str]], left: int, escaped: bool = False
) -> str:
    """A Markdown table, its first ``left`` columns flush left, padded for reading."""

    def clean(text: str) -> str:
        if escaped or re.fullmatch(r"\*\*[^*]+\*\*", text):
            return text
        return markdown_text(text)

    lines = [[clean(text) for text in line] for line in (headings, *body)]
    widths = [max(3, *(len(line[i]) for line in lines)) for i in range(len(headings))]

    def joined(line: Sequence[str]) -> str:
        padded = [
            text.ljust(width) if i < left else text.rjust(width)
            for i, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = ["-" * w if i < left else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    return "\n".join([joined(lines[0]), joined(rule), *(joined(line) for line in lines[1:])])


def theorem_text(bound: Mapping[str, Any]) -> str:
    """The theorem of a bound in result.json, and whether that is unproved."""
    return f"{bound['theorem']}, unproved" if bound["unproved"] else str(bound["theorem"])
