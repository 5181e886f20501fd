"""Which code a grid of settings was searched with: a note beside every table of a search.

A script of scripts/search_*.py writes OUTPUTS/search/<grid>.csv and then calls ``note``, which
writes <grid>.json beside it:

    script     its name, search_graph.py
    options    {option: value} of the command line, where they are not the script's own
    code       twelve hex digits naming the code, see ``code_stamp``
    commit     as in ``omkl.runs.run_folder``
    sha256     of the CSV file, so that a note is never taken for another file's
    written    ISO time, UTC

``outdated`` says which scripts have to be run for OUTPUTS/search to be of the present code.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from omkl import conf
from omkl.core import sources
from omkl.disk import write_atomically
from omkl.runs import provenance

SCRIPTS = ("search_graph.py", "search_active.py", "search_federated.py")
_ELSEWHERE = ("outputs",)  # options that say where and not what
_NOT_SEARCHED = (
    "table",
    "paper",
    "comparison",
    "benchmark",
    "debug",
)  # of conf: what is done with runs, not what they are


@functools.cache
def code_stamp() -> str:
    """Twelve hex digits naming the code that a search depends on.

    What can change a number of a run, the files of conf that a run can be made of, the published
    numbers and the scripts.
    """
    digest = hashlib.sha256(provenance.numbers_stamp({}, {}).encode())
    files = conf.files(without=_NOT_SEARCHED)
    files.append(sources.PACKAGE / "papers" / "published.csv")
    files += (sources.PACKAGE.parent / "scripts").glob("search_*.py")
    for path in sorted(files):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def note(
    tables: Iterable[Path], script: str, parser: argparse.ArgumentParser, given: argparse.Namespace
) -> None:
    """Write down by what the CSV files ``tables`` were made, when a search has finished.

    ``script`` is the script's ``__file__``, ``given`` what its ``parser`` read.
    """
    own = vars(parser.parse_args([]))
    chosen = {k: v for k, v in vars(given).items() if k not in _ELSEWHERE and v != own[k]}
    for path in tables:
        content = {
            "script": Path(script).name,
            "options": chosen,
            "code": code_stamp(),
            "commit": provenance.commit(),
            "sha256": _digest(path),
            "written": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        write_atomically(path.with_suffix(".json"), json.dumps(content, indent=2) + "\n")


def read_note(table: Path) -> dict[str, Any] | None:
    """The note of a CSV file; None where there is none, or the file is not the one it is of."""
    try:
        content = json.loads(table.with_suffix(".json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if content.get("sha256") == _digest(table) else None


def command_of(content: Mapping[str, Any]) -> str:
    """The command line that a note is of."""
    words = ["python", f"scripts/{content['script']}"]
    for name, value in content["options"].items():
        option = "--" + name.replace("_", "-")
        words += [option] if value is True else [option, str(value)]
    return " ".join(words)


def outdated(folder: Path) -> dict[str, str]:
    """The scripts whose tables in ``folder`` are not those of this code, and why."""
    notes: dict[str, list[tuple[Path, dict[str, Any]]]] = {}
    for path in sorted(folder.glob("*.csv")):
        if content := read_note(path):
            notes.setdefault(content["script"], []).append((path, content))
    found = {}
    for script in SCRIPTS:
        if script not in notes:
            found[script] = "there is no table that it is known to have written"
        for path, content in notes.get(script, []):
            if content["code"] != code_stamp():
                found[script] = f"{path.name} was made by other code"
            elif content["options"]:
                found[script] = f"{path.name} was made by {command_of(content)}"
    return found


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# Both are kept from now on: what is edited while a search goes on is not what searches.
code_stamp()
provenance.commit()
