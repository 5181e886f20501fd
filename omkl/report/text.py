"""Plain text that several reports share: numbers, CSV and Markdown tables, names of theorems."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def readable(value: float, like: float | None = None) -> str:
    """A number with about four digits, as many decimals as ``like`` has, if it is given."""
    size = abs(value if like is None else like)
    if not 1e-4 <= size < 1e7:
        return f"{value:.4g}"
    return f"{value:,.{max(0, 3 - math.floor(math.log10(size)))}f}"


def csv_text(lines: Iterable[Sequence[Any]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(lines)
    return buffer.getvalue()


def markdown_text(text: str) -> str:
    """Text for a Markdown table: one line, and nothing in it is markup."""
    return re.sub(r"([\\|*_<>`\[\]])", r"\\\1", " ".join(text.split()))


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


def latex_text(text: str) -> str:
    """Text for LaTeX: one line, and nothing in it is a command."""
    text = " ".join(text.split()).replace("× 10⁻³", "\0")  # one formula, not four
    return "".join(_TEX.get(c, c) for c in text).replace("\0", r"$\times 10^{-3}$")


def theorem_text(bound: Mapping[str, Any]) -> str:
    """The theorem of a bound in result.json, and whether that is unproved."""
    return f"{bound['theorem']}, unproved" if bound["unproved"] else str(bound["theorem"])
