"""Sweep folders: what the jobs of a sweep have left, and the runs that they are about.

sweep.json        what is swept, and the start that it is of
jobs/NAME.json    of each job: its number, its status, where its run folder is
table.md, table.csv, page.html, plots
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Container, Iterator
from pathlib import Path
from typing import Any

from omkl.runs import schema
from omkl.runs.run_folder import Run, held_in_memory
from omkl.utils.wording import plain


def folders(outputs: Path) -> list[Path]:
    """The folders of the sweeps in ``outputs``, the earliest first."""
    return sorted(path.parent for path in (outputs / "sweeps").glob("*/sweep.json"))


def facts_of_jobs(
    sweep: Path,
    but: Container[Path] = (),
    leave_out: Callable[[Path, Exception], None] = lambda path, error: None,
) -> list[tuple[dict[str, Any], Path]]:
    """What the jobs of a sweep have left, in the order of the jobs.

    ``leave_out`` is told of files that no job has left so.
    """
    facts = []
    others: dict[str, int] = {}
    for path in sweep.glob("jobs/*"):
        number = path.suffix.removeprefix(".")
        if number.isdigit():  # a job with the settings of another
            others[path.stem] = min(int(number), others.get(path.stem, int(number)))
        elif path.suffix == ".json" and path not in but:
            try:
                fact = json.loads(path.read_text(encoding="utf-8"))
                schema.require_job(fact)
                facts.append((fact, path))
            except (ValueError, RecursionError) as error:  # just being written, or a stranger's
                leave_out(path, error)
    for fact, path in facts:
        fact["number"] = min(fact["number"], others.get(path.stem, fact["number"]))
    return sorted(facts, key=lambda pair: pair[0]["number"])


def jobs_of(sweep: Path) -> Iterator[tuple[Run, bool]]:
    """The runs of the jobs that ended, in the order of the jobs, and whether they are tracked."""
    for fact, path in facts_of_jobs(sweep, leave_out=_left_out):
        if fact["status"] == "failed":
            place = path.relative_to(sweep)  # where the traceback is, seen from the table
            yield held_in_memory(place, result=fact["result"], config=fact["config"]), False
        elif fact["status"] != "begun":
            yield Run(Path(os.path.normpath(path.parent / fact["folder"]))), fact["tracked"]


def _left_out(path: Path, error: Exception) -> None:
    print(plain(f"omkl: {path} is damaged and left out: {error}"), file=sys.stderr)
