"""The files of a filled table."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from omkl.disk import write_atomically
from omkl.papers.filled import Filled
from omkl.papers.formats import csv, html, latex, markdown

WRITERS = {
    "md": markdown.document,
    "csv": csv.document,
    "tex": latex.document,
    "html": html.document,
}
FORMATS = tuple(WRITERS)


def render(filled: Filled, formats: Iterable[str], folder: Path) -> list[Path]:
    """Write ``<name>.<format>`` for every format of ``FORMATS`` that is asked for."""
    formats = list(formats)
    for form in formats:
        if form not in FORMATS:
            raise ValueError(f"format {form!r} is not one of {', '.join(FORMATS)}")
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for form in formats:
        paths.append(folder / f"{filled.table.name}.{form}")
        write_atomically(paths[-1], WRITERS[form](filled))
    return paths
