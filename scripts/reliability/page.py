"""The command line of a script of reliability, and its table in ``docs/reliability.md``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

PAGE = "reliability.md"


def parser(description: str, names: Sequence[str], usual: Sequence[str]) -> argparse.ArgumentParser:
    """Options of both scripts: ``--only``, some of ``names`` or the ``usual`` ones; ``--docs``."""
    made = argparse.ArgumentParser(description=description.splitlines()[0])
    default = f"default: {', '.join(usual)}"
    made.add_argument(
        "--only", nargs="+", choices=names, default=usual, metavar="NAME", help=default
    )
    made.add_argument("--docs", type=Path, metavar="FOLDER", help=f"write into FOLDER/{PAGE}")
    return made


def publish(text: str, name: str, docs: Path | None) -> None:
    """Print a table, and with ``docs`` put it between the comments that have its name.

    Raises ValueError where the page has no such comments.
    """
    print(text)
    if docs is None:
        return
    path = docs / PAGE
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    page = path.read_text(encoding="utf-8")
    before, found, rest = page.partition(begin)
    _, ended, after = rest.partition(end)
    if not (found and ended):
        raise ValueError(f"{path} has no place for a table: {begin.strip()} and {end.strip()}")
    path.write_text(f"{before}{begin}{text}{end}{after}", encoding="utf-8")
