"""A wing: what reproduction alone needs, from published tables to a page for each paper.

Its data lie with it: ``conf`` has files of tables and papers, ``published.csv`` the numbers of the
papers, ``searches`` what searches for settings found, ``papers.bib`` what papers are cited as.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omkl.utils import conf

FOLDER = Path(__file__).parent


def names(group: str) -> list[str]:
    """The files of a group, ``table`` or ``paper``; one's own lie in ``conf``."""
    return conf.names(group, [FOLDER / "conf"])


def entry(group: str, name: str) -> dict[str, Any]:
    """What such a file says. Raises ``conf.MissingEntry`` where there is none."""
    return conf.entry(group, name, [FOLDER / "conf"])
