"""Sweep folders: what the jobs of a sweep have left, and the runs that they are about.

sweep.json        what is swept, and the start that it is of
jobs/NAME.json    of each job: its number, its status, where its run folder is
table.md, table.csv, page.html, plots
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

from omkl.runs.folder import Run, held_in_memory


def folders(outputs: Path) -> list[Path]:
    """The folders of the sweeps in ``outputs``, the earliest first."""
    return sorted(path.parent for path in (outputs / "sweeps").glob("*/sweep.json"))


def facts_of_jobs(sweep: Path, but: Container[Path] = ()) -> list[tuple[dict[str, Any], Path]]:
    """What the jobs of a sweep have left, in the order of the jobs."""
    facts = []
    others: dict[str, int] = {}
    for path in sweep.glob("jobs/*"):
        number = path.suffix.removeprefix(".")
        if number.isdigit():  # a job with the settings of another
            others[path.stem] = min(int(number), others.get(path.stem, int(number)))
        elif path.suffix == ".json" and path not in but:
            with contextlib.suppress(ValueError):  # just being written
                facts.append((json.loads(path.read_text(encoding="utf-8")), path))
    for fact, path in facts:
        fact["number"] = min(fact["number"], others.get(path.stem, fact["number"]))
    return sorted(facts, key=lambda pair: pair[0]["number"])


def jobs_of(sweep: Path) -> Iterator[tuple[Run, bool]]:
    """The runs of the jobs that ended, in the order of the jobs, and whether they are tracked."""
    for fact, path in facts_of_jobs(sweep):
        if fact["status"] == "failed":
            place = path.relative_to(sweep)  # where the traceback is, seen from the table
            yield held_in_memory(place, result=fact["result"], config=fact["config"]), False
        elif fact["status"] != "begun":
            yield Run(Path(os.path.normpath(path.parent / fact["folder"]))), fact["tracked"]
