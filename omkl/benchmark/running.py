"""Running a suite: every stream, every learner, every seed, in turns; what is there is kept."""

from __future__ import annotations

import datetime
import math
import shlex
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from omkl.benchmark import cells, learners, peers, streams
from omkl.benchmark.scores import MAIN, MEASURED, Diverged, Predictions, Rules, Scored, scored
from omkl.benchmark.suite import OURS, PEER, TRIVIAL, Entry, Suite
from omkl.online.settings import Specification
from omkl.runs.provenance import commit, machine, versions
from omkl.utils.disk import exclusive_lock
from omkl.utils.wording import time_left

Tell = Callable[[str], None]
Wanted = Callable[[str, Entry], bool]
"""wanted(stream, entry): whether a cell is to be computed now."""


class StreamFile(NamedTuple):
    """A stream of a suite as a table in its folder.

    truth (n,) is what would have been best to say, or None; ``stated`` what is said of it.
    """

    name: str
    task: str
    path: Path
    truth: np.ndarray | None
    change_rounds: tuple[int, ...]
    stated: dict[str, Any]


class BenchmarkRun(NamedTuple):
    """A learner on a stream, where its result is, and what its numbers depend on."""

    stream: StreamFile
    entry: Entry
    folder: Path
    identity: dict[str, Any]


class MissingPeer(Exception):
    """The library of a peer is not installed."""


# How a cell ends that has no scores.
STATUS_OF: dict[type[Exception], str] = {
    Diverged: cells.DIVERGED,
    FloatingPointError: cells.DIVERGED,
    peers.TookTooLong: cells.TOO_LONG,
    MissingPeer: cells.MISSING,
    peers.Failed: cells.FAILED,
    ValueError: cells.FAILED,
}


def run(
    suite: Suite,
    folder: Path,
    jobs: int = 1,
    tell: Tell = print,
    wanted: Wanted = lambda stream, entry: True,
    changed: Mapping[str, Any] | None = None,
    retry: bool = False,
) -> dict[str, Any]:
    """Compute what is wanted and not there yet; returns what suite.json says.

    ``jobs`` peers are run at a time. Seeds of ours are run in turns: one of every learner, then
    another. What is not wanted now and was computed before stays, and so does what was computed on
    a stream that is no longer there. ``changed`` is what was typed in place of the suite's file;
    with ``retry`` cells that failed, diverged or took too long are tried again. Of two runs in one
    folder the second waits.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive_lock(folder):
        stated, cells_of_stream = _earlier(folder, suite)
        index: dict[str, Any] = {
            "suite": suite.as_read(),
            "changed": dict(changed or {}),
            "begun": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "versions": versions(),
            "machine": machine(),
            "commit": commit(),
        }
        count = Count(tell, len(suite.streams))
        for stream in suite.streams:
            name, task = str(stream["name"]), suite.task_of(stream)
            count.next_stream()
            try:
                file = read_stream(stream, task, suite, folder)
            except streams.MISSING as error:
                if "sha256" not in stated.get(name, {}):
                    stated[name] = {"task": task, "missing": str(error)}
                tell(f"{name}: not there: {error}")
            else:
                stated[name] = file.stated
                runs = list(runs_of(suite, file, folder))
                _run_stream(suite, [r for r in runs if wanted(name, r.entry)], jobs, count, retry)
                cells_of_stream[name] = [
                    {"stream": name, "learner": one.entry.name, "kind": one.entry.kind,
                     "folder": one.folder.relative_to(folder).as_posix()}
                    for one in runs if (one.folder / "result.json").exists()
                ]  # fmt: skip
            names = [s["name"] for s in suite.streams if s["name"] in stated]
            index["streams"] = {name: stated[name] for name in names}
            index["cells"] = [cell for name in names for cell in cells_of_stream.get(name, ())]
            cells.write_index(folder, index)
        return index


def _earlier(folder: Path, suite: Suite) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Streams and cells of an earlier run of this suite, by stream; none where it was another."""
    try:
        index = cells.read_index(folder)
    except cells.Damaged:
        return {}, {}
    protocol = ("version", "rows", "prefix", "window", "fading", "first_round")
    if any(index["suite"][key] != getattr(suite, key) for key in protocol):
        return {}, {}
    cells_of_stream: dict[str, list[Any]] = {}
    for cell in index["cells"]:
        cells_of_stream.setdefault(cell["stream"], []).append(cell)
    return dict(index["streams"]), cells_of_stream


def read_stream(stream: Mapping[str, Any], task: str, suite: Suite, folder: Path) -> StreamFile:
    """Read a stream from its source and write its table into the folder.

    Raises one of ``streams.MISSING``.
    """
    rows = streams.load(stream, task, suite.rows)
    path = folder / "streams" / f"{cells.in_path(stream['name'])}.parquet"
    streams.write(rows, path)
    return StreamFile(str(stream["name"]), task, path, rows.truth, rows.change_rounds, rows.stated)


def runs_of(suite: Suite, stream: StreamFile, folder: Path) -> Iterator[BenchmarkRun]:
    """The cells of a stream, in the order of the suite."""
    for entry in suite.entries(stream.task):
        identity = cells.identity(suite, entry, stream.stated)
        place = cells.folder_of(folder, stream.name, entry, cells.key_of(identity))
        yield BenchmarkRun(stream, entry, place, identity)


class Count:
    """Tells what is done with how much of the suite that is, and how long the rest may take.

    All streams count the same, and of one all passes; what an earlier run has done takes no time.
    """

    def __init__(self, tell: Tell, n_streams: int) -> None:
        self.tell, self.n_streams = tell, n_streams
        self.stream = 0
        self.done, self.total = 0, 0  # passes over the stream
        self.computed = 0.0  # streams, in shares
        self.begun = time.perf_counter()
        self._lock = threading.Lock()

    def next_stream(self) -> None:
        self.stream, self.done, self.total = self.stream + 1, 0, 0

    def __call__(self, text: str) -> None:
        with self._lock:
            self.done += 1
            self.computed += 1.0 / self.total
            ahead = self.n_streams - self.stream + 1.0 - self.done / self.total
            elapsed = time.perf_counter() - self.begun
            left = time_left(elapsed, self.computed, self.computed + ahead)
            place = f"stream {self.stream} of {self.n_streams}, {self.done} of {self.total}, {left}"
        self.tell(f"[{place}] {text}")


def _run_stream(
    suite: Suite, runs: Sequence[BenchmarkRun], jobs: int, count: Count, retry: bool
) -> None:
    """All seeds of all cells of one stream: ours alone on the machine, then other libraries'."""
    resumed = [_Resumed(suite, one, count, retry) for one in runs]
    count.total = sum(len(one.missing_seeds) for one in resumed)
    ours = [one for one in resumed if one.run.entry.kind != PEER]
    for turn in range(max((len(one.seeds) for one in ours), default=0)):
        for one in ours:
            one.run_turn(turn)
    with ThreadPoolExecutor(jobs) as pool:
        others = [one for one in resumed if one.run.entry.kind == PEER]
        for done in [pool.submit(one.run_all) for one in others]:
            done.result()


class _Resumed:
    """A cell that is run seed by seed, as far as it has not been."""

    def __init__(self, suite: Suite, run: BenchmarkRun, count: Count, retry: bool) -> None:
        self.suite, self.run, self.count = suite, run, count
        entry, stream = run.entry, run.stream
        self.seeds = suite.seeds_of(entry)
        if entry.kind == OURS and learners.draws_nothing(entry, stream.task):
            self.seeds = self.seeds[:1]
        try:
            result = cells.read(run.folder / "result.json")
        except cells.Damaged as error:
            count.tell(f"computed again: {error}")
            shutil.rmtree(run.folder, ignore_errors=True)
            result = None
        self.result = result or {
            "key": cells.key_of(run.identity), "of": run.identity, "stream": stream.name,
            "learner": entry.name, "kind": entry.kind, "task": stream.task,
            "status": "", "reason": "", "seeds": [], "scores": {}, "chosen": {}, "command": "",
            "versions": versions(),
        }  # fmt: skip
        if retry:
            self.result |= {"status": "", "reason": ""}
        self._runner: Runner | None = None

    @property
    def missing_seeds(self) -> list[int]:
        """Those that have no scores yet; none of a cell that has ended without."""
        if self.result["status"] not in ("", cells.COMPLETE):
            return []
        return [seed for seed in self.seeds if seed not in self.result["seeds"]]

    def run_all(self) -> None:
        for turn in range(len(self.seeds)):
            self.run_turn(turn)

    def run_turn(self, turn: int) -> None:
        """Run the seed number ``turn``, unless it is there or the cell has ended otherwise."""
        if turn >= len(self.seeds) or self.seeds[turn] not in self.missing_seeds:
            return
        clock, seed = time.perf_counter(), self.seeds[turn]
        curves: dict[str, np.ndarray] = {}
        try:
            if self._runner is None:
                self._runner = Runner(self.suite, self.run)
            result = self._runner.scored(self._runner.predictions(seed))
        except tuple(STATUS_OF) as error:
            status = next(text for kind, text in STATUS_OF.items() if isinstance(error, kind))
            # A peer that is missing may be there the next time.
            kept = "" if status == cells.MISSING else status
            self.result |= {"status": kept, "reason": str(error)}
            outcome = f"{status}: {error}"
        else:
            self.result = cells.with_seed(self.result, seed, result.scores)
            self.result |= {"status": cells.COMPLETE, "reason": ""}
            curves = cells.with_curves(cells.curves(self.run.folder), result.curves)
            outcome = f"{time.perf_counter() - clock:.1f} s"
        if self._runner is not None:
            self.result |= {"chosen": dict(self._runner.chosen), "command": self._runner.command()}
        cells.write(self.run.folder, self.result, curves)
        self.count(f"{self.run.stream.name}: {self.run.entry.name}, seed {seed}: {outcome}")


class Runner:
    """What is made once for all seeds of a cell: rows, settings, and of a grid the best.

    ``chosen`` are parameters that the prefix chose. Raises MissingPeer, or ValueError for
    settings that do not fit.
    """

    def __init__(self, suite: Suite, run: BenchmarkRun) -> None:
        self.suite, self.run = suite, run
        self.chosen: Mapping[str, Any] = {}
        entry = run.entry
        if entry.kind == PEER and (reason := peers.missing(entry.what)):
            raise MissingPeer(reason)
        self.stream, self._overrides = streams.opened(run.stream.path, run.stream.task, entry.lags)
        self.X, y = streams.arrays(self.stream)
        if entry.kind == PEER and suite.peers_see == "raw":
            self.X = streams.numbers(run.stream.path, self.stream)
        self.y = learners.codes(self.stream, y) if self.stream.classes else y
        self.made: Specification | None = None
        if entry.kind != PEER and not self._trivial_of_classes:
            if entry.grid:
                self.chosen = self._best_on_the_prefix()
            self.made = self._specification(self.chosen)
            learners.warm_up(self.made, self.stream)

    @property
    def _trivial_of_classes(self) -> bool:
        return self.run.entry.kind == TRIVIAL and self.run.stream.task == "classification"

    def _specification(self, params: Mapping[str, Any]) -> Specification:
        return learners.specification(self.run.entry, self.stream, len(self.y), params)

    def _best_on_the_prefix(self) -> Mapping[str, Any]:
        """The settings of the grid with the least loss there, with the first seed."""
        suite, main, losses = self.suite, MAIN[self.run.stream.task], []
        y, rules = self.y[: suite.prefix], Rules(1, suite.window, suite.fading)
        for settings in self.run.entry.grid:
            made = self._specification(settings)
            try:
                predictions = learners.pass_over(made, self.stream, 0, suite.prefix)
            except (Diverged, FloatingPointError):
                continue
            scores = scored(y, predictions, rules, classes=bool(self.stream.classes)).scores
            losses.append((scores[main], settings))
        if not losses:
            raise Diverged("with no setting of its grid are its predictions finite")
        return min(losses, key=lambda pair: pair[0])[1]

    def predictions(self, seed: int) -> Predictions:
        """One pass over the stream."""
        entry, stream = self.run.entry, self.stream
        if entry.kind == PEER:
            about = (entry.what, self.run.stream.task, len(stream.classes), seed)
            task = peers.PeerTask(*about, list(stream.inputs))
            return peers.pass_over(task, self.X, self.y, self.suite.seconds)
        if self.made is None:
            return learners.trivial(entry, stream)
        return learners.pass_over(self.made, stream, seed)

    def scored(self, predictions: Predictions) -> Scored:
        suite, file = self.suite, self.run.stream
        rules = Rules(suite.n_unscored, suite.window, suite.fading)
        classes = bool(self.stream.classes)
        fault = file.stated.get("fault_rounds", ())
        return scored(self.y, predictions, rules, file.truth, file.change_rounds, classes, fault)

    def command(self) -> str:
        """What ``omkl-run`` is typed in the folder of the results; "" of what it has not."""
        if self.made is None:
            return ""
        typed = learners.overrides(self.run.entry, self.chosen, self._overrides, 0)
        return shlex.join(["omkl-run", *typed])


# --- Whether results come out again ---------------------------------------------------------------

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
    folder: Path, most: int | None = 5, tell: Callable[[Checked], None] = lambda checked: None
) -> list[Checked]:
    """Rerun the first seed of ``most`` cells of a folder, evenly chosen, or of all (None).

    Scores are compared, but for time and memory: "the same" to the last bit, "close" up to 1e-6
    of their value. The rows are read from their source again. Raises ``cells.Damaged``.
    """
    kept = cells.results_of(folder)
    finished = [key for key, cell in kept.cells.items() if cell["seeds"]]
    if most is not None and most < len(finished):
        places = np.linspace(0, len(finished) - 1, max(most, 2))[:most].round().astype(int)
        finished = [finished[place] for place in places]
    verdicts = []
    for stream, learner in finished:
        seed = kept.cells[stream, learner]["seeds"][0]
        verdicts.append(Checked(stream, learner, seed, *_checked(kept, folder, stream, learner)))
        tell(verdicts[-1])
    return verdicts


def _checked(kept: cells.Results, folder: Path, stream: str, learner: str) -> tuple[str, str]:
    suite, cell = kept.suite, kept.cells[stream, learner]
    described = next(s for s in suite.streams if s["name"] == stream)
    task = suite.task_of(described)
    entry = next(e for e in suite.entries(task) if e.name == learner)
    try:
        file = read_stream(described, task, suite, folder)
        if file.stated["sha256"] != cell["of"]["rows"]:
            return OTHER, "the rows are others now"
        runner = Runner(suite, BenchmarkRun(file, entry, cell["folder"], cell["of"]))
        scores = runner.scored(runner.predictions(cell["seeds"][0])).scores
    except (*streams.MISSING, MissingPeer) as error:
        return CANNOT, str(error)
    except tuple(STATUS_OF) as error:
        return OTHER, f"it failed: {error}"
    before = {name: values[0] for name, values in cell["scores"].items()}
    return _compared(before, scores)


def _compared(before: Mapping[str, float], again: Mapping[str, float]) -> tuple[str, str]:
    names = [name for name in before if name not in MEASURED]
    if set(names) != again.keys() - set(MEASURED):
        return OTHER, "it has other scores now"
    different = [name for name in names if before[name] != again[name]]
    if not different:
        return SAME, ""
    far = [n for n in different if not math.isclose(before[n], again[n], rel_tol=CLOSE)]
    text = ", ".join(f"{n} {again[n]:.10g}, was {before[n]:.10g}" for n in far or different)
    return (OTHER if far else NEAR), text
