"""Whether results come out again: one seed of some cells is rerun and compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from omkl.benchmark import peer_process, running, streams, table
from omkl.benchmark.running import MissingPeer, Runner
from omkl.benchmark.said import Diverged
from omkl.benchmark.scores import MEASURED
from omkl.benchmark.table import Results

CLOSE = 1e-6  # of the value: other libraries and processors round otherwise
SAME, NEAR, OTHER, CANNOT = "the same", "close", "other", "not rerun"


class Checked(NamedTuple):
    """What came of a cell: ``verdict`` is one of the above, ``text`` what differs, or why."""

    stream: str
    learner: str
    seed: int | None
    verdict: str
    text: str = ""


def check(
    folder: Path, most: int | None = 5, tell: Callable[[Checked], None] = lambda found: None
) -> list[Checked]:
    """Rerun the first seed of ``most`` cells of a folder, evenly chosen, or of all (None).

    Scores are compared, but for time and memory: "the same" to the last bit, "close" up to 1e-6
    of their value. The rows are read from their source again. Raises ``cells.Damaged``.
    """
    kept = table.read(folder)
    finished = [key for key, cell in kept.cells.items() if cell["seeds"]]
    chosen = finished if most is None else _evenly(finished, most)
    found = []
    for stream, learner in chosen:
        found.append(_checked(kept, folder, stream, learner))
        tell(found[-1])
    return found


def _evenly(keys: Sequence[Any], n: int) -> list[Any]:
    """At most n, from the first to the last."""
    if n >= len(keys):
        return list(keys)
    return [keys[round(i * (len(keys) - 1) / max(n - 1, 1))] for i in range(n)]


def _checked(read: Results, folder: Path, stream: str, learner: str) -> Checked:
    suite, kept = read.suite, read.cells[stream, learner]
    seed = kept["seeds"][0]
    described = next(s for s in suite.streams if s["name"] == stream)
    task = suite.task_of(described)
    entry = next(e for e in suite.entries(task) if e.name == learner)
    try:
        rows = streams.load(described, task, suite.rows)
        if rows.stated["sha256"] != kept["of"]["rows"]:
            return Checked(stream, learner, seed, OTHER, "the rows are others now")
        place = running.place_of(described, rows, task, folder / "streams")
        cell = running.Cell(place, entry, kept["folder"], kept["of"])
        runner = Runner(suite, cell)
        again = runner.scored(runner.said(seed)).scores
    except (*streams.MISSING, MissingPeer) as error:
        return Checked(stream, learner, seed, CANNOT, str(error))
    except (Diverged, FloatingPointError, peer_process.Failed, ValueError) as error:
        return Checked(stream, learner, seed, OTHER, f"it failed: {error}")
    before = {name: values[0] for name, values in kept["scores"].items()}
    return Checked(stream, learner, seed, *_compared(before, again))


def _compared(before: dict[str, float], again: dict[str, float]) -> tuple[str, str]:
    names = [name for name in before if name not in MEASURED]
    if set(names) != {name for name in again if name not in MEASURED}:
        return OTHER, "it has other scores now"
    different = [name for name in names if before[name] != again[name]]
    if not different:
        return SAME, ""
    far = [n for n in different if not math.isclose(before[n], again[n], rel_tol=CLOSE)]
    told = ", ".join(f"{n} {again[n]:.10g}, was {before[n]:.10g}" for n in far or different)
    return (OTHER if far else NEAR), told
