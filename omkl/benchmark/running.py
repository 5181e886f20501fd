"""Running a suite: every stream, every learner, every seed, in turns; what is there is kept."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from omkl.benchmark import cells, learners, peer_models, peer_process, streams
from omkl.benchmark.said import Diverged, Said
from omkl.benchmark.scores import MAIN, Rules, scored
from omkl.benchmark.streams import Opened, Rows
from omkl.benchmark.suite import OURS, PEER, TRIVIAL, Entry, Suite
from omkl.datasets import Stream
from omkl.disk import alone
from omkl.online.specification import Specification
from omkl.runs.provenance import commit, machine, versions

Tell = Callable[[str], None]
Wanted = Callable[[str, Entry], bool]
"""wanted(stream, entry): whether a cell is to be computed now."""


class Place(NamedTuple):
    """A stream of a suite in its folder.

    truth (n,) is what would have been best to say, or None; ``stated`` what is said of it.
    """

    name: str
    task: str
    path: Path
    truth: np.ndarray | None
    change_rounds: tuple[int, ...]
    stated: dict[str, Any]

    def opened(self, lags: int) -> Opened:
        return streams.opened(self.path, self.task, lags)


class Cell(NamedTuple):
    """A (stream, learner) and where its result is."""

    place: Place
    entry: Entry
    folder: Path
    of: dict[str, Any]


def everything(stream: str, entry: Entry) -> bool:
    return True


def run(
    suite: Suite,
    folder: Path,
    jobs: int = 1,
    tell: Tell = print,
    wanted: Wanted = everything,
    changed: Mapping[str, Any] | None = None,
    retry: bool = False,
) -> dict[str, Any]:
    """Compute what is wanted and not there yet; returns what suite.json says.

    ``jobs`` peers are run at a time. Seeds of ours are run in turns: one of every learner, then
    another.
    What is not wanted now and was computed before stays, and so does what was computed on a stream
    that is no longer there. ``changed`` is what was typed in place of the suite's file; with
    ``retry`` cells that failed, diverged or took too long are tried again. Of two runs in one
    folder the second waits.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with alone(folder):
        return _run(suite, folder, jobs, tell, wanted, changed, retry)


def _run(
    suite: Suite,
    folder: Path,
    jobs: int,
    tell: Tell,
    wanted: Wanted,
    changed: Mapping[str, Any] | None,
    retry: bool,
) -> dict[str, Any]:
    before = _index_before(folder, suite)
    index: dict[str, Any] = {
        "suite": suite.as_read(),
        "changed": dict(changed or {}),
        "begun": _now(),
        "versions": versions(),
        "machine": machine(),
        "commit": commit(),
        "streams": {},
        "cells": [],
    }
    for stream in suite.streams:
        task = suite.task_of(stream)
        try:
            place = read_stream(stream, task, suite, folder)
        except streams.MISSING as error:
            _keep_before(index, before, stream["name"], {"task": task, "missing": str(error)})
            tell(f"{stream['name']}: not there: {error}")
            continue
        index["streams"][place.name] = place.stated
        found = list(cells_of(suite, place, folder))
        _run_stream(suite, [c for c in found if wanted(place.name, c.entry)], jobs, tell, retry)
        found = [cell for cell in found if (cell.folder / "result.json").exists()]
        index["cells"] += [
            {"stream": place.name, "learner": cell.entry.name, "kind": cell.entry.kind,
             "folder": cell.folder.relative_to(folder).as_posix()}
            for cell in found
        ]  # fmt: skip
        cells.write_index(folder, _with_rest(index, before, suite))
    cells.write_index(folder, index)
    return index


def _index_before(folder: Path, suite: Suite) -> dict[str, Any]:
    """What suite.json said of an earlier run of this suite; nothing where it was another."""
    try:
        found = cells.read_index(folder)
    except cells.Damaged:
        return {"streams": {}, "cells": []}
    protocol = ("version", "rows", "prefix", "window", "fading", "first_round")
    same = all(found["suite"][key] == getattr(suite, key) for key in protocol)
    return found if same else {"streams": {}, "cells": []}


def _with_rest(index: Mapping[str, Any], before: Mapping[str, Any], suite: Suite) -> dict[str, Any]:
    """The index so far, and of streams that are still to come what was there before."""
    names = {stream["name"] for stream in suite.streams} - set(index["streams"])
    rest = {name: found for name, found in before["streams"].items() if name in names}
    of_rest = [cell for cell in before["cells"] if cell["stream"] in rest]
    streams_so_far = {**index["streams"], **rest}
    return {**index, "streams": streams_so_far, "cells": [*index["cells"], *of_rest]}


def _keep_before(
    index: dict[str, Any], before: Mapping[str, Any], stream: str, missing: dict[str, Any]
) -> None:
    """Of a stream that is not there now, what was computed when it was."""
    index["streams"][stream] = before["streams"].get(stream, missing)
    index["cells"] += [cell for cell in before["cells"] if cell["stream"] == stream]


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def read_stream(stream: Mapping[str, Any], task: str, suite: Suite, folder: Path) -> Place:
    """Read a stream from its source and write its table into the folder.

    Raises one of ``streams.MISSING``.
    """
    rows = streams.load(stream, task, suite.rows)
    return place_of(stream, rows, task, folder / "streams")


def place_of(stream: Mapping[str, Any], rows: Rows, task: str, folder: Path) -> Place:
    """Rows that were read, as a table in a folder of tables."""
    path = folder / f"{streams.file_name(stream['name'])}.parquet"
    streams.write(rows, path)
    stated = rows.stated | {"change_rounds": list(rows.change_rounds)}
    return Place(str(stream["name"]), task, path, rows.truth, rows.change_rounds, stated)


def cells_of(suite: Suite, place: Place, folder: Path) -> Iterator[Cell]:
    """The cells of a stream, in the order of the suite."""
    for entry in suite.entries(place.task):
        of = cells.identity(suite, entry, place.stated)
        where = cells.folder_of(folder, place.name, entry, cells.key_of(of))
        yield Cell(place, entry, where, of)


def _run_stream(suite: Suite, found: Sequence[Cell], jobs: int, tell: Tell, retry: bool) -> None:
    """All seeds of all cells of one stream: ours alone on the machine, then peers."""
    prepared = [_Prepared(suite, cell, tell, retry) for cell in found]
    ours = [one for one in prepared if one.cell.entry.kind != PEER]
    for turn in range(max((len(one.seeds) for one in ours), default=0)):
        for one in ours:
            one.run_turn(turn)
    peers = [one for one in prepared if one.cell.entry.kind == PEER]
    with ThreadPoolExecutor(jobs) as pool:
        for done in [pool.submit(one.run_all) for one in peers]:
            done.result()


class _Prepared:
    """A cell that is run seed by seed, as far as it has not been."""

    def __init__(self, suite: Suite, cell: Cell, tell: Tell, retry: bool) -> None:
        self.suite, self.cell, self.tell = suite, cell, tell
        self.seeds = _seeds(suite, cell)
        self.result = _known(cell, tell)
        if retry:
            self.result |= {"status": "", "reason": ""}
        self._runner: Runner | None = None

    def run_all(self) -> None:
        for turn in range(len(self.seeds)):
            self.run_turn(turn)

    def run_turn(self, turn: int) -> None:
        """Run the seed number ``turn``, unless it is there or the cell has ended otherwise."""
        if turn >= len(self.seeds) or self.seeds[turn] in self.result["seeds"]:
            return
        if self.result["status"] not in ("", cells.COMPLETE):
            return
        clock, seed = time.perf_counter(), self.seeds[turn]
        status, reason, said = cells.COMPLETE, "", None
        try:
            if self._runner is None:
                self._runner = Runner(self.suite, self.cell)
            said = self._runner.said(seed)
        except (Diverged, FloatingPointError) as error:
            status, reason = cells.DIVERGED, str(error)
        except peer_process.TookTooLong as error:
            status, reason = cells.TOO_LONG, str(error)
        except MissingPeer as error:
            status, reason = cells.MISSING, str(error)
        except (peer_process.Failed, ValueError) as error:
            status, reason = cells.FAILED, str(error)
        self._keep(seed, said, status, reason)
        told = f"{time.perf_counter() - clock:.1f} s" if said else f"{status}: {reason}"
        place, entry = self.cell.place, self.cell.entry
        self.tell(f"{place.name}: {entry.name}, seed {seed}: {told}")

    def _keep(self, seed: int, said: Said | None, status: str, reason: str) -> None:
        self.result |= {"status": status, "reason": reason}
        curves: dict[str, np.ndarray] = {}
        if said is not None and self._runner is not None:
            found = self._runner.scored(said)
            self.result = cells.with_seed(self.result, seed, found.scores)
            curves = cells.with_curves(cells.curves(self.cell.folder), found.curves)
        if self._runner is not None:
            self.result |= {"chosen": dict(self._runner.chosen), "command": self._runner.command()}
        if status != cells.MISSING:  # it may be there the next time
            cells.write(self.cell.folder, self.result, curves)
        else:
            cells.write(self.cell.folder, {**self.result, "status": ""}, {})


def _known(cell: Cell, tell: Tell) -> dict[str, Any]:
    """The result so far; one that is damaged is made anew."""
    try:
        found = cells.read(cell.folder)
    except cells.Damaged as error:
        tell(f"made anew: {error}")
        cells.forget(cell.folder)
        found = None
    if found is not None:
        return found
    return {
        "key": cells.key_of(cell.of), "of": cell.of, "stream": cell.place.name,
        "learner": cell.entry.name, "kind": cell.entry.kind, "task": cell.place.task,
        "status": "", "reason": "", "seeds": [], "scores": {}, "chosen": {}, "command": "",
        "versions": versions(),
    }  # fmt: skip


def _seeds(suite: Suite, cell: Cell) -> list[int]:
    seeds = suite.seeds_of(cell.entry)
    once = cell.entry.kind == OURS and learners.draws_nothing(cell.entry, cell.place.task)
    return seeds[:1] if once else seeds


class MissingPeer(Exception):
    """The library of a peer is not installed."""


class Runner:
    """What is made once for all seeds of a cell: rows, settings, and of a grid the best.

    ``chosen`` are parameters that the prefix chose. Raises MissingPeer, or ValueError for
    settings that do not fit.
    """

    def __init__(self, suite: Suite, cell: Cell) -> None:
        self.suite, self.cell = suite, cell
        self.chosen: Mapping[str, Any] = {}
        entry, place = cell.entry, cell.place
        if entry.kind == PEER and (reason := peer_models.missing(entry.what)):
            raise MissingPeer(reason)
        self.opened = place.opened(entry.lags)
        self.stream = self.opened.stream
        X, y = streams.arrays(self.stream)
        self.y = learners.codes(self.stream, y) if self.stream.classes else y
        self.X = rows_of_peers(suite, place, self.stream) if entry.kind == PEER else X
        self.made: Specification | None = None
        if entry.kind != PEER and not self._trivial_of_classes:
            if entry.grid:
                self.chosen = self._best_on_the_prefix()
            self.made = self._specification(self.chosen)
            learners.warm_up(self.made, self.stream)

    @property
    def _trivial_of_classes(self) -> bool:
        return self.cell.entry.kind == TRIVIAL and self.cell.place.task == "classification"

    def _specification(self, further: Mapping[str, Any]) -> Specification:
        return learners.specification(self.cell.entry, self.stream, len(self.y), further)

    def _best_on_the_prefix(self) -> Mapping[str, Any]:
        """The settings of the grid with the least loss there, with the first seed."""
        y, rules = self.y[: self.suite.prefix], Rules(1, self.suite.window, self.suite.fading)
        found = []
        for settings in self.cell.entry.grid:
            try:
                said = learners.pass_over(
                    self._specification(settings), self.stream, 0, self.suite.prefix
                )
            except (Diverged, FloatingPointError):
                continue
            scores = scored(y, said, rules, classes=bool(self.stream.classes)).scores
            found.append((scores[MAIN[self.cell.place.task]], settings))
        if not found:
            raise Diverged("with no setting of its grid are its predictions finite")
        return min(found, key=lambda pair: pair[0])[1]

    def said(self, seed: int) -> Said:
        entry = self.cell.entry
        if entry.kind == PEER:
            task = peer_process.PeerTask(
                entry.what, self.cell.place.task, len(self.stream.classes), seed,
                list(self.stream.inputs),
            )  # fmt: skip
            return peer_process.pass_over(task, self.X, self.y, self.suite.seconds)
        if self._trivial_of_classes:
            return learners.trivial(entry, self.stream)
        assert self.made is not None
        return learners.pass_over(self.made, self.stream, seed)

    def scored(self, said: Said) -> Any:
        suite, place = self.suite, self.cell.place
        rules = Rules(suite.n_unscored, suite.window, suite.fading)
        return scored(
            self.y, said, rules, place.truth, place.change_rounds, bool(self.stream.classes)
        )

    def command(self) -> str:
        """What ``omkl-run`` is typed in the folder of the results; "" of what it has not."""
        if self.made is None:
            return ""
        typed = learners.overrides(self.cell.entry, self.chosen, self.opened.overrides, 0)
        return " ".join(["omkl-run", *(_quoted(text) for text in typed)])


def rows_of_peers(suite: Suite, place: Place, stream: Stream) -> np.ndarray:
    """The inputs (n, d) that a peer gets: those of our learners, or as they are."""
    if suite.peers_see == "raw":
        return streams.numbers(place.path, stream)
    return streams.arrays(stream)[0]


def _quoted(text: str) -> str:
    return f"'{text}'" if any(mark in text for mark in " ()[]*^") else text
