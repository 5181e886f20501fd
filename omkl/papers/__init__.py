"""A wing: what reproduction alone needs, from published tables to a page for each paper.

Its data lie with it: ``conf`` has files of tables, papers and comparisons, ``published.csv`` the
numbers of the papers, ``papers.bib`` what they are cited as.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omkl.utils import conf

FOLDER = Path(__file__).parent


def names(group: str) -> list[str]:
    """The files of a group: ``table``, ``paper`` or ``comparison``; one's own lie in ``conf``."""
    return conf.names(group, [FOLDER / "conf"])


def entry(group: str, name: str) -> dict[str, Any]:
    """What such a file says. Raises ``conf.MissingEntry`` where there is none."""
    return conf.entry(group, name, [FOLDER / "conf"])
