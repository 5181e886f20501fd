"""A sweep: its jobs, where they run, their files, and the table that it ends with."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import os
import sys
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from omkl.config.command_line import (
    EXTRAS,
    NAMED_FILE,
    CommandLine,
    UsageError,
    jobs_of,
    swept_keys,
)
from omkl.config.compose import BATCH, Composer, declare_batch, resolve, search_path
from omkl.utils import conf, interrupts, outside, registry
from omkl.utils.conf import override_text
from omkl.utils.constraints import or_null, whole
from omkl.utils.disk import remove_abandoned, write_atomically
from omkl.utils.threads import default_threads, default_to_one_thread, one_thread_each
from omkl.utils.wording import plain

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from omkl.experiment.run import Outcome
    from omkl.report.console import Bar

PAGE = "page.html"  # of a sweep, in its folder
COUNT = or_null(whole(1, 1_024))  # of workers


class Task(NamedTuple):
    """A job of a sweep: how it is called, what it is made of, and its file in the sweep."""

    number: int
    label: str
    config: dict[str, Any]
    place: Path


class Answer(NamedTuple):
    """One line on how a job ended, and the message of its error, "" if it is complete."""

    text: str
    failure: str


@dataclasses.dataclass(frozen=True)
class Sweep:
    """A sweep in its folder, the same for the processes of all its jobs.

    Each job leaves a file of its own there, so the table is the same wherever jobs run.

    Attributes
    ----------
    first
        By the name of its settings the number of a job: later jobs of the same name are not run.
    swept
        The keys that have several values.
    modules
        Those outside the package that were named, by the names of their algorithms.
    """

    folder: Path
    n_jobs: int
    first: dict[str, int]
    swept: tuple[str, ...]
    modules: dict[str, str]

    @classmethod
    def begin(cls, folder: Path, configs: Sequence[dict[str, Any]], swept: Sequence[str]) -> Sweep:
        """Make the folder; what jobs of an earlier start have written there is removed.

        The folder of jobs itself stays: a job of that start may still be at work in it.
        """
        from omkl.runs.provenance import name_of

        (folder / "jobs").mkdir(parents=True, exist_ok=True)
        if (folder / "sweep.json").exists():
            for path in (folder / "jobs").glob("*-*.json"):
                path.unlink(missing_ok=True)
        remove_abandoned(folder)
        first: dict[str, int] = {}
        for number, config in enumerate(configs):
            first.setdefault(name_of(config), number)
        sweep = cls(folder, len(configs), first, tuple(swept), outside.declared())
        facts = {key: value for key, value in vars(sweep).items() if key != "folder"}
        write_atomically(folder / "sweep.json", json.dumps(facts), sync=False)
        return sweep

    @classmethod
    def read(cls, folder: Path) -> Sweep:
        """The sweep that another process has begun; its modules are made known in this one."""
        facts = json.loads((folder / "sweep.json").read_text(encoding="utf-8"))
        facts["swept"] = tuple(facts["swept"])
        sweep = cls(folder, **facts)
        for name, module in sweep.modules.items():
            registry.declare(name, module)
        return sweep

    def task(self, config: dict[str, Any], number: int) -> Task | None:
        """The job of this configuration; None, and a line, if an earlier one has the same."""
        from omkl.runs.provenance import name_of

        width, name = len(str(self.n_jobs)), name_of(config)
        label = f"[{number + 1:{width}}/{self.n_jobs}] {title_of(config)}{self._settings(config)}"
        if self.first.get(name, number) != number:
            print(f"{label}: the same as an earlier job", flush=True)
            return None
        return Task(number, label, config, self.folder / "jobs" / f"{name}.json")

    def _settings(self, config: Mapping[str, Any]) -> str:
        """What is swept and is neither algorithm nor data set."""
        pairs = []
        for key in self.swept:
            value: Any = config
            for part in key.split("."):
                value = value.get(part) if isinstance(value, Mapping) else None
            if key not in ("algorithm", "dataset", "dataset.path") and value is not None:
                value = value["name"] if isinstance(value, Mapping) and "name" in value else value
                pairs.append(f"{key.removeprefix('algorithm.')}={value}")
        return plain(f" ({', '.join(pairs)})") if pairs else ""

    def has_failed(self) -> bool:
        from omkl.runs import run_folder

        return any(f["status"] == "failed" for f, _ in run_folder.facts_of_jobs(self.folder))


def run(line: CommandLine, overrides: Sequence[str], composer: Composer, first: DictConfig) -> bool:
    """Run all jobs and end with their table; whether all of them are complete.

    Parameters
    ----------
    line, overrides
        What was typed, and the checked overrides of it.
    composer, first
        What composes the jobs, and the first of them with Hydra's own settings.
    """
    if params := first.hydra.sweeper.params:
        overrides = [*(f"{key}={value}" for key, value in params.items()), *overrides]
    jobs = jobs_of(overrides, line.groups())
    launcher = first.hydra.runtime.choices["hydra/launcher"]
    elsewhere = launcher in EXTRAS
    workers = _workers_of(first) if launcher == BATCH else None
    # A mistake in one is found early.
    configs = [_of_its_algorithm(nameable(composer.compose(job))) for job in jobs]
    sweep = Sweep.begin(Path(first.hydra.sweep.dir), configs, swept_keys(overrides))
    try:
        if elsewhere:
            _run_elsewhere(sweep, line, overrides)
        else:
            tasks = (task for n, c in enumerate(configs) if (task := sweep.task(c, n)) is not None)
            here = ((task, work(task)) for task in tasks)
            answers = _in_workers(tasks, *workers) if workers else here
            with contextlib.closing(answers):
                told: set[str] = set()
                for task, answer in answers:
                    _tell(answer, told)
                    if answer.failure and task.config["fail_fast"]:
                        break
    except BaseException:
        figures = not interrupts.came() and first.figures
        finish(sweep, Path(first.outputs), figures, interrupts.came())
        raise
    return finish(sweep, Path(first.outputs), first.figures)


def _tell(answer: Answer, told: set[str]) -> None:
    """Print the line of a job, unless it failed for a reason that is in ``told``."""
    if answer.failure in told - {""}:
        return
    told.add(answer.failure)
    print(answer.text, flush=True)


# --- jobs in this process -------------------------------------------------------------------------


def _of_its_algorithm(config: dict[str, Any]) -> dict[str, Any]:
    from omkl.config import settings

    return settings.drop_foreign_parameters(config)


def work(task: Task, with_bar: bool = True) -> Answer:
    """Run a job, with a bar on a terminal."""
    from omkl.experiment import viewers

    with bar_of(task.label, task.config, with_bar) as progress:
        return record(task, viewers.run_and_show(task.config, interrupts.ending(progress)))


def nameable(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration; UsageError where not even a failed run of it has a name."""
    from omkl.config import schema

    try:
        schema.check_nameable(config)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return config


def bar_of(label: str, config: Mapping[str, Any], shown: bool = True) -> Bar:
    """The progress bar of a job; it would write over the questions of a prompt."""
    from omkl.config import settings
    from omkl.report import console

    classify = False
    with contextlib.suppress(ValueError):  # the job says what is wrong
        classify = settings.task_in(config) == "classification"
    shown = shown and config["stream"]["labels"] != "prompt"
    return console.Bar(label, config["seeds"], shown, classify)


def _line_of(head: str, outcome: Outcome) -> str:
    """One line a job while a sweep goes on, and its notes."""
    from omkl.report import console, stats

    result = outcome.run.result
    if outcome.status == "failed":
        line = f"{head}: failed: {result['error']['message']}"
    else:
        how = " (found finished)" if outcome.status == "reused" else ""
        better = stats.worse_than(result)
        worse = f", worse than {better}" if better else ""
        line = f"{head}: {console.loss_text(result)}{worse}{how}"
    return "\n    ".join([line, *outcome.notes])


def record(task: Task, outcome: Outcome) -> Answer:
    """Write how a job ended into its file of the sweep."""
    text, run = _line_of(task.label, outcome), outcome.run
    facts: dict[str, Any] = {"number": task.number, "status": outcome.status}
    facts |= {"tracked": outcome.tracked, "text": text}
    facts["folder"] = os.path.relpath(run.folder, task.place.parent)
    if outcome.status == "failed":  # its run folder may not exist, or hold an older result
        facts |= {"result": run.result, "config": run.config}
    write_atomically(task.place, json.dumps(facts, indent=2), sync=False)
    return _answer(facts)


def _answer(facts: Mapping[str, Any]) -> Answer:
    """Return the line and the failure of a job from its file in the sweep."""
    failed = facts["status"] == "failed"
    return Answer(facts["text"], facts["result"]["error"]["message"] if failed else "")


# --- launcher=batch -------------------------------------------------------------------------------


def _workers_of(config: DictConfig) -> tuple[int, int]:
    """Return the number of worker processes, and of threads in each."""
    if refusal := COUNT.refusal("launcher.workers", config.hydra.launcher.workers):
        raise UsageError(refusal)
    threads = max(1, config.threads) if isinstance(config.threads, int) else 1
    return config.hydra.launcher.workers or max(1, default_threads() // threads), threads


def _in_workers(
    tasks: Iterator[Task], n_workers: int, threads: int
) -> Generator[tuple[Task, Answer]]:
    """Run the jobs in worker processes; yield each as it ends."""
    from omkl.experiment import queue
    from omkl.experiment import run as runner

    workers = queue.Workers(n_workers, threads, _load)
    # What the table needs, half a second, while jobs run.
    load = importlib.import_module
    threading.Thread(target=load, args=("omkl.report.sweep_table",), daemon=True).start()
    for task, answer in workers.run(_work_quietly, tasks):
        yield task, answer or record(task, runner.crashed(task.config, queue.DIED))


def title_of(config: Mapping[str, Any]) -> str:
    """Return the algorithm of a job, and its data set or file, as ``plain`` text."""
    dataset = config["dataset"]
    name = dataset["name"]
    if name == NAMED_FILE and dataset.get("path"):
        name = Path(str(dataset["path"])).name
    return plain(f"{config['algorithm']['name']} on {name}")


def _load() -> None:
    """Import the modules that every job needs."""
    import omkl.experiment.viewers
    import omkl.report.console  # noqa: F401


def _work_quietly(task: Task) -> Answer:
    return work(task, with_bar=False)


# --- the launchers of others ----------------------------------------------------------------------


def _run_elsewhere(sweep: Sweep, line: CommandLine, overrides: Sequence[str]) -> None:
    """Let a launcher of Hydra's run the jobs, and print their lines from the files they leave."""
    printed: set[Path] = set()
    told: set[str] = set()
    over = threading.Event()

    def tell() -> None:
        from omkl.runs import run_folder  # NumPy, which a prompt does not wait for

        for fact, path in run_folder.facts_of_jobs(sweep.folder, printed):
            printed.add(path)
            _tell(_answer(fact), told)

    def watch() -> None:
        while not over.wait(0.5):
            tell()

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        folder = f"hydra.sweep.dir={override_text(str(sweep.folder))}"
        by_hydra(["-m", *line.options], [*overrides, folder], line.config_dirs, job_elsewhere)
    finally:
        over.set()
        watching.join()
        tell()


def by_hydra(
    options: Sequence[str], overrides: Sequence[str], config_dirs: Sequence[Path], job: Any
) -> None:
    """Give a command line to Hydra, whose errors are raised then, not printed."""
    import hydra

    declare_batch()
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    others = [text for text in overrides if not text.startswith("hydra.searchpath=")]
    sys.argv[1:] = [*options, *others, search_path(config_dirs)]
    place = conf.main_file()
    hydra.main(version_base="1.3", config_path=str(place.parent), config_name=place.stem)(job)()


def job_elsewhere(cfg: DictConfig) -> None:
    """One job of a sweep in a process of a launcher's, with others beside it."""
    from hydra.core.hydra_config import HydraConfig

    default_to_one_thread()
    hydra_config = HydraConfig.get()
    sweep = Sweep.read(Path(hydra_config.sweep.dir))
    config = _of_its_algorithm(resolve(cfg, hydra_config.overrides.task))
    if config["fail_fast"] and sweep.has_failed():
        return
    task = sweep.task(config, hydra_config.job.num)
    if task is not None:
        with one_thread_each():
            work(task, with_bar=False)


# --- the end --------------------------------------------------------------------------------------


def finish(sweep: Sweep, outputs: Path, figures: bool | str, interrupted: bool = False) -> bool:
    """Print and write the table, and draw the plots; whether all jobs are complete.

    ``figures`` is the setting: true, false or "pdf".
    """
    from rich.console import Console

    from omkl.report import console, sweep_table
    from omkl.runs import run_folder

    folder = sweep.folder
    jobs = list(run_folder.jobs_of(folder))
    runs = [run for run, _ in jobs]
    if not runs:
        return False
    finished = [run for run in runs if run.complete]
    rows, failures = sweep_table.sweep_table(runs), sweep_table.failure_table(runs)
    print()
    sweep_table.print_sweep(rows, failures, Console())
    sweep_table.write_sweep(rows, failures, folder)
    print()
    console.print_saved("table", folder, outputs)
    print("         table.md, table.csv")
    if figures and len(finished) > 1:
        from omkl.report import page, sweep_figures

        suffixes = ("png", "pdf") if figures == "pdf" else ("png",)
        drawn = sweep_figures.all_figures(finished, folder, suffixes)
        print(console.wrapped("plots", [path.name for path in drawn if path.suffix == ".png"]))
        console.print_path(
            "page", page.write_sweep_page(finished, folder / PAGE, failures=failures)
        )
    if any(tracked for _, tracked in jobs):
        if not interrupted:
            _track(folder, outputs)
        print(console.tracked_text(outputs))
    return len(finished) == len(sweep.first)


def _track(sweep: Path, outputs: Path) -> None:
    """Put the sweep above its runs in the MLflow view; what goes wrong is said."""
    from omkl.report import tracking

    try:
        tracking.log_sweep(sweep, outputs)
    except tracking.TrackingError as error:
        print(f"Note: {error}")
