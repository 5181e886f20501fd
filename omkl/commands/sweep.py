"""A sweep: its jobs, their files, and the table that it ends with."""

from __future__ import annotations

import contextlib
import json
import math
import os
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from omkl import outside, registry
from omkl.config.command_line import EXTRAS, parse_override, values_of
from omkl.disk import remove_leftovers, write_atomically

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from omkl.experiment.run import Outcome
    from omkl.runs.run_folder import Run

PAGE = "page.html"  # of a sweep, in its folder


class Task(NamedTuple):
    """A job of a sweep: how it is called, what it is made of, and its file in the sweep."""

    label: str
    config: dict[str, Any]
    place: Path


class Sweep:
    """What happens around a sweep, which ends with one table of all jobs and failures.

    Each job leaves a file of its own in the sweep's folder, so the table is the
    same under every launcher that shares the file system.
    """

    folder: Path | None = None
    start = ""  # names this start: what an earlier one has left in the folder holds up nobody
    outputs = Path()
    figures = True
    n_jobs: int | None = None
    swept: tuple[str, ...] = ()
    lines: Lines | None = None
    failed = False

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Called by Hydra, before any job and in this process."""
        Sweep.folder = Path(config.hydra.sweep.dir)
        Sweep.outputs = Path(config.outputs)
        Sweep.figures = config.figures is True
        texts = [*config.hydra.overrides.task]
        if params := config.hydra.sweeper.get("params"):
            texts = [*(f"{key}={value}" for key, value in params.items()), *texts]
        counts: dict[str, int | None] = {}
        for text in texts:  # the last of each key counts
            override = parse_override(text)[1]
            counts.pop(override.key_or_group, None)
            if override.is_sweep_override():
                values = override.value()
                known = not hasattr(values, "filter") and override.is_discrete_sweep()
                counts[override.key_or_group] = len(values_of(override, [])) if known else None
        Sweep.swept = tuple(counts)
        each = [n for n in counts.values() if n is not None]
        Sweep.n_jobs = math.prod(each) if len(each) == len(counts) else None
        Sweep.start = uuid.uuid4().hex
        with contextlib.suppress(OSError):  # the sweeper meets the same and tells it
            Sweep.folder.mkdir(parents=True, exist_ok=True)
            for place in (Sweep.folder, Sweep.folder / "jobs"):
                remove_leftovers(place)
            _drop_claims(Sweep.folder)
            facts = {
                "n_jobs": Sweep.n_jobs,
                "swept": Sweep.swept,
                "start": Sweep.start,
                "modules": outside.declared(),
            }
            write_atomically(Sweep.folder / "sweep.json", json.dumps(facts), sync=False)
        if config.hydra.runtime.choices.get("hydra/launcher") in EXTRAS:
            Sweep.lines = Lines(Sweep.folder)

    @classmethod
    def recall(cls, folder: Path) -> None:
        """In the process of a job: what the process that began the sweep has found."""
        with contextlib.suppress(OSError, ValueError, KeyError):
            facts = json.loads((folder / "sweep.json").read_text(encoding="utf-8"))
            cls.n_jobs, cls.swept = facts["n_jobs"], tuple(facts["swept"])
            cls.start = facts["start"]
            for name, module in facts["modules"].items():
                registry.declare(name, module)

    def __getattr__(self, name: str) -> Any:
        """Hydra's other occasions pass without notice."""
        if name.startswith("on_"):
            return lambda *args, **kwargs: None
        raise AttributeError(name)

    @classmethod
    def label(cls, number: int) -> str:
        if cls.n_jobs is None:
            return f"[{number + 1}] "
        return f"[{number + 1:{len(str(cls.n_jobs))}}/{cls.n_jobs}] "

    @classmethod
    def settings(cls, config: Mapping[str, Any]) -> str:
        """What is swept and is neither algorithm nor data set."""
        pairs = []
        for key in cls.swept:
            value: Any = config
            for part in key.split("."):
                value = value.get(part) if isinstance(value, Mapping) else None
            if key not in ("algorithm", "dataset") and value is not None:
                value = value["name"] if isinstance(value, Mapping) and "name" in value else value
                pairs.append(f"{key.removeprefix('algorithm.')}={value}")
        return f" ({', '.join(pairs)})" if pairs else ""

    @classmethod
    def task(cls, config: dict[str, Any], sweep_folder: str, number: int) -> Task | None:
        """The job of this configuration; None, and told, if an earlier one has the same."""
        from omkl.config import settings

        config = settings.fit_to_algorithm(config)
        label = f"{cls.label(number)}{config['algorithm']['name']} on {config['dataset']['name']}"
        label += cls.settings(config)
        place = cls.claim(config, sweep_folder, number)
        if place is None:
            print(f"{label}: the same as an earlier job", flush=True)
            return None
        return Task(label, config, place)

    @staticmethod
    def load() -> None:
        """Import what every job needs."""
        import omkl.report.console
        import omkl.viewers  # noqa: F401  and with it the compiler

    @staticmethod
    def work(task: Task, progress: Any = None) -> tuple[str, bool]:
        """Run a job: the text that tells how it ended, and whether it failed."""
        from omkl import viewers

        return Sweep.ended(task, viewers.run_and_show(task.config, progress))

    @staticmethod
    def work_together(tasks: Sequence[Task]) -> Iterator[tuple[int, tuple[str, bool]]]:
        """The same of several jobs, by their numbers, as they end; they may share a pass."""
        from omkl import viewers

        if len(tasks) == 1:
            yield 0, Sweep.work(tasks[0])
            return
        for number, outcome in viewers.run_together_and_show([task.config for task in tasks]):
            yield number, Sweep.ended(tasks[number], outcome)

    @staticmethod
    def ended(task: Task, outcome: Outcome) -> tuple[str, bool]:
        from omkl.report import console

        text = console.line_text(task.label, outcome)
        Sweep.record(task.place, outcome, text)
        return text, outcome.status == "failed"

    @classmethod
    def has_failed(cls, folder: Path) -> bool:
        """Whether a job of this start has failed."""
        from omkl.runs import sweeps

        facts = (fact for fact, _ in sweeps.facts_of_jobs(folder) if fact.get("start") == cls.start)
        return any(fact["status"] == "failed" for fact in facts)

    @classmethod
    def claim(cls, config: Mapping[str, Any], sweep_folder: str, number: int) -> Path | None:
        """A file for this job, or None if another job of this start has the same settings.

        What an earlier start of the sweep in this folder has left claims nothing, and neither does
        a job that a cluster has put back into its queue: it is the same job.
        """
        from omkl.runs import writing

        place = Path(sweep_folder) / "jobs" / f"{writing.folder_of(config).name}.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        claim = place.with_suffix(f".{cls.start}.claim")
        if not _taken(claim, number):
            place.with_suffix(f".{number}").touch()  # the first of them has its place in the table
            return None
        facts = {"number": number, "status": "begun", "start": cls.start}
        write_atomically(place, json.dumps(facts), sync=False)
        return place

    @staticmethod
    def record(place: Path, outcome: Outcome, text: str) -> None:
        run = outcome.run
        facts = json.loads(place.read_text(encoding="utf-8"))
        facts |= {"status": outcome.status, "tracked": outcome.tracked, "text": text}
        facts["folder"] = os.path.relpath(run.folder, place.parent)
        if outcome.status == "failed":  # its run folder may not exist, or hold an older result
            facts |= {"result": run.content, "config": run.config}
        write_atomically(place, json.dumps(facts, indent=2), sync=False)

    @classmethod
    def finish(cls, interrupted: bool = False) -> None:
        """Print and write the table, unless there was no sweep; draw the plots."""
        folder, cls.folder = cls.folder, None
        if folder is None:
            return
        if cls.lines is not None:
            cls.lines.finish()
        _drop_claims(folder)
        from rich.console import Console

        from omkl.report import console, sweep_table
        from omkl.runs import run_folder, sweeps
        from omkl.runs.checksum import CorruptFileError

        draws = cls.figures and not interrupted
        jobs = []
        for run, tracked in sweeps.jobs_of(folder):
            try:
                jobs.append((as_it_is(run, draws), tracked))
            except (CorruptFileError, FileNotFoundError) as error:
                cls.failed = True
                gone = isinstance(error, FileNotFoundError)
                run_folder.left_out(run, "it is no longer there" if gone else str(error))
        runs = [run for run, _ in jobs]
        finished = [run for run in runs if run.complete]
        if not runs:
            return
        if len(finished) < len(runs):
            cls.failed = True
        rows, failures = sweep_table.sweep_table(runs), sweep_table.failure_table(runs)
        print()
        sweep_table.print_sweep(rows, failures, Console())
        sweep_table.write_sweep(rows, failures, folder)
        print(f"\ntable    {folder}/")
        print("         table.md, table.csv")
        if draws and len(finished) > 1:
            from omkl.report import sweep_figures, sweep_page

            drawn = sweep_figures.all_figures(finished, folder)
            print(console.plots_text([path.name for path in drawn if path.suffix == ".png"]))
            print(f"page     {sweep_page.write(finished, folder / PAGE, failures=failures)}")
        if any(tracked for _, tracked in jobs):
            if not interrupted:
                _track(folder, cls.outputs)
            print(console.tracked_text(cls.outputs))


def _track(sweep: Path, outputs: Path) -> None:
    """Put the sweep above its runs in the MLflow view; what goes wrong is told."""
    from omkl import tracking

    try:
        tracking.log_sweep(sweep, outputs)
    except tracking.TrackingError as error:
        print(f"Note: {error}")


def _drop_claims(sweep: Path) -> None:
    for claim in sweep.glob("jobs/*.claim"):
        claim.unlink(missing_ok=True)


def _taken(claim: Path, number: int) -> bool:
    """Whether job ``number`` holds a claim now, as one of those that ask for it at once."""
    try:
        with open(claim, "x", encoding="utf-8") as file:
            file.write(str(number))
    except FileExistsError:
        return claim.read_text(encoding="utf-8") == str(number)
    return True


class Lines:
    """Tells the jobs of other processes as they end, from the files that they leave."""

    def __init__(self, sweep: Path) -> None:
        self.sweep = sweep
        self.told: set[Path] = set()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def _watch(self) -> None:
        while not self.over.wait(0.5):
            self._tell()

    def _tell(self) -> None:
        from omkl.runs import sweeps  # NumPy, which a prompt does not wait for

        for fact, path in sweeps.facts_of_jobs(self.sweep, self.told):
            if "text" in fact and fact.get("start") == Sweep.start:
                self.told.add(path)
                print(fact["text"], flush=True)

    def finish(self) -> None:
        self.over.set()
        self.thread.join()
        self._tell()


def as_it_is(run: Run, with_curves: bool) -> Run:
    """A run of a sweep to be shown; what failed is held in memory. Raises as ``Run.held``."""
    return run if "content" in run.__dict__ else run.held(with_curves)
