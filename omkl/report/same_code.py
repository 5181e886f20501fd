"""Which runs of a table are of one code: only these can be compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence

from omkl.runs.run_folder import Run

NEWEST = "newest code"


def codes_of(runs: Sequence[Run]) -> list[str]:
    """For each run what its code is called among these: the commit and the day of an earlier one.

    Runs on a data set are of the newest code that have the shared sources of the newest run on it,
    and the sources of their algorithm that the newest run of it has. A run that does not say its
    sources, of an earlier version, is known by its commit.
    """
    datasets = [run.result["dataset"] for run in runs]
    codes = list(zip(datasets, _ages(runs, _shared), _ages(runs, _own), strict=True))
    newest: dict[tuple[str, int, int], Run] = {}
    for run, code in zip(runs, codes, strict=True):
        newest[code] = max(newest.get(code, run), run, key=_started)
    names: dict[tuple[str, int, int], str] = {}
    for code in sorted(newest):
        name = _name(newest[code]) if any(code[1:]) else NEWEST
        alike = sum(
            names[other].partition(",")[0] == name for other in names if other[0] == code[0]
        )
        names[code] = f"{name}, {alike + 1}" if alike else name  # of one day and commit
    return [names[code] for code in codes]


def _started(run: Run) -> str:
    return str(run.result["started"])


def _shared(run: Run) -> tuple[Hashable, Hashable]:
    of_all = run.result.get("code", {}).get("shared", run.result.get("commit"))
    return run.result["dataset"], of_all


def _own(run: Run) -> tuple[Hashable, Hashable]:
    modules = json.dumps(run.result.get("modules", {}), sort_keys=True)
    made_of = run.result.get("code", {}).get("learner"), modules
    return (_shared(run), run.result["algorithm"]), made_of


def _ages(runs: Sequence[Run], kind: Callable[[Run], tuple[Hashable, Hashable]]) -> list[int]:
    """For each run how many codes of its group are newer; ``kind`` gives its group and its code."""
    newest: dict[Hashable, dict[Hashable, str]] = {}
    for run in runs:
        group, code = kind(run)
        known = newest.setdefault(group, {})
        known[code] = max(known.get(code, ""), _started(run))
    found = []
    for run in runs:
        group, code = kind(run)
        known = newest[group]
        found.append(sorted(known, key=known.__getitem__, reverse=True).index(code))
    return found


def _name(run: Run) -> str:
    where = run.result.get("commit") or f"version {run.result['versions'].get('omkl')}"
    return f"{where} of {_started(run)[:10]}"
