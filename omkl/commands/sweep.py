"""Run a sweep: its jobs, their files, and the final table."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import sys
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from omkl.config.overrides import Jobs
from omkl.utils.disk import remove_abandoned, write_atomically
from omkl.utils.wording import plain

if TYPE_CHECKING:
    from omkl.config.schema import Settings
    from omkl.experiment.run import Outcome
    from omkl.report.console import Bar

PAGE = "page.html"  # file name of the page of a sweep


class Task(NamedTuple):
    """Job of a sweep.

    number     index of the job, from 0
    label      name of the job on the screen
    settings   settings of the job
    place      file in the folder of the sweep that records the outcome
    """

    number: int
    label: str
    settings: Settings
    place: Path


def run(jobs: Jobs, folder: Path | None = None, n_jobs: int | str = 1) -> bool:
    """Run all jobs of a sweep and print their table.

    Parameters
    ----------
    jobs
        Settings of the jobs, and the keys with several values.
    folder
        Folder of the sweep. None: a new one below the outputs.
    n_jobs
        Number of processes, or the address of a Dask scheduler. With 1 the jobs run in this
        process, and each has a progress bar.

    Returns
    -------
    bool
        Whether all jobs are complete.
    """
    first = jobs.settings[0]
    outputs = first.outputs
    now = f"{datetime.datetime.now():%Y-%m-%d_%H-%M-%S-%f}"
    folder = folder or outputs / "sweeps" / now
    tasks = begin(folder, jobs.settings, jobs.swept)
    outcomes = _one_by_one(tasks) if n_jobs == 1 else _side_by_side(tasks, n_jobs)
    try:
        with contextlib.closing(outcomes):
            printed = set()  # messages of failures that are already printed
            for task, outcome in outcomes:
                record(task, outcome)
                failed = outcome.status == "failed"
                message = outcome.run.result["error"]["message"] if failed else None
                if message not in printed:
                    print(_line_of(task.label, outcome), flush=True)
                if failed:
                    printed.add(message)
                    if task.settings.fail_fast:
                        break
    except BaseException as error:
        finish(folder, first, isinstance(error, KeyboardInterrupt))
        raise
    return finish(folder, first) == len(tasks)


def begin(folder: Path, jobs: Sequence[Settings], swept: Sequence[str]) -> list[Task]:
    """Create the folder of a sweep, and return its jobs. Jobs with equal settings occur once.

    If the sweep was started before, the files of its jobs are removed.

    Parameters
    ----------
    folder
        Folder of the sweep.
    jobs
        Settings of each job.
    swept
        Keys with several values, for the labels.
    """
    (folder / "jobs").mkdir(parents=True, exist_ok=True)
    if (folder / "sweep.json").exists():
        for path in (folder / "jobs").glob("*-*.json"):
            path.unlink(missing_ok=True)
    remove_abandoned(folder)
    facts = {"n_jobs": len(jobs), "swept": list(swept)}
    write_atomically(folder / "sweep.json", json.dumps(facts), sync=False)
    tasks: dict[str, Task] = {}
    for number, settings in enumerate(jobs):
        name = settings.name
        count = f"[{number + 1:{len(str(len(jobs)))}}/{len(jobs)}]"
        label = f"{count} {title_of(settings)}{_swept(settings, swept)}"
        if name in tasks:
            print(f"{label}: the same as an earlier job", flush=True)
        else:
            tasks[name] = Task(number, label, settings, folder / "jobs" / f"{name}.json")
    return list(tasks.values())


def title_of(settings: Settings) -> str:
    """Return the algorithm and the data set of a job as text without control characters."""
    dataset = settings.dataset
    name = dataset["name"]
    if name == "file" and dataset.get("path"):
        name = Path(str(dataset["path"])).name
    return plain(f"{settings.algorithm.name} on {name}")


def _swept(settings: Settings, swept: Sequence[str]) -> str:
    """Return the settings of a job that vary in the sweep, without algorithm and data set."""
    pairs, values = [], settings.content()
    for key in swept:
        value: Any = values
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if key not in ("algorithm", "dataset", "dataset.path") and value is not None:
            value = value["name"] if isinstance(value, Mapping) and "name" in value else value
            pairs.append(f"{key.removeprefix('algorithm.')}={value}")
    return plain(f" ({', '.join(pairs)})") if pairs else ""


# --- Jobs -----------------------------------------------------------------------------------------


def _one_by_one(tasks: Sequence[Task]) -> Generator[tuple[Task, Outcome]]:
    from omkl.experiment import viewers

    for task in tasks:
        with bar_of(task.label, task.settings) as progress:
            outcome = viewers.run_and_draw(task.settings, progress)
        yield task, outcome


def _side_by_side(tasks: Sequence[Task], n_jobs: int | str) -> Generator[tuple[Task, Outcome]]:
    from omkl.experiment import viewers

    jobs = [task.settings for task in tasks]
    for number, outcome in viewers.run_and_draw_all(jobs, n_jobs):
        yield tasks[number], outcome


def bar_of(label: str, settings: Settings) -> Bar:
    """Return the progress bar of a job."""
    from omkl.config.settings import task_in
    from omkl.report import console

    classify = False
    with contextlib.suppress(ValueError):  # the job reports the error
        classify = task_in(settings) == "classification"
    return console.Bar(label, settings.seeds, classify)


def record(task: Task, outcome: Outcome) -> None:
    """Write the outcome of a job to its file in the folder of the sweep."""
    run = outcome.run
    facts: dict[str, Any] = {"number": task.number, "status": outcome.status}
    facts |= {"folder": os.path.relpath(run.folder, task.place.parent)}
    if outcome.status == "failed":  # its run folder may not exist, or have an older result
        facts |= {"result": run.result, "config": run.config}
    write_atomically(task.place, json.dumps(facts, indent=2), sync=False)


def _line_of(head: str, outcome: Outcome) -> str:
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


# --- End of a sweep -------------------------------------------------------------------------------


def finish(folder: Path, settings: Settings, interrupted: bool = False) -> int:
    """Print and write the table, draw the plots and log the runs.

    Parameters
    ----------
    folder
        Folder of the sweep.
    settings
        Settings of the first job. ``outputs``, ``figures`` and ``tracking`` are used.
    interrupted
        Whether the user interrupted the sweep. If True, nothing is drawn or logged.

    Returns
    -------
    int
        Number of complete jobs.
    """
    from rich.console import Console

    from omkl.experiment import viewers
    from omkl.report import console, sweep_table
    from omkl.report.frame import frame_of
    from omkl.runs import run_folder

    runs = run_folder.jobs_of(folder)
    if not runs:
        return 0
    finished = [run for run in runs if run.complete]
    frame = frame_of(runs)
    print()
    sweep_table.print_frame(frame, Console())
    console.print_notices(finished, Console())
    sweep_table.write(frame, folder)
    print()
    console.print_saved("table", folder, settings.outputs)
    print("         table.md, table.csv", flush=True)
    if interrupted:
        return len(finished)
    if settings.figures and len(finished) > 1:
        from omkl.report import sweep_figures

        suffixes = ("png", "pdf") if settings.figures == "pdf" else ("png",)
        drawn = sweep_figures.all_figures(finished, folder, suffixes)
        pictures = [path for path in drawn if path.suffix == ".png"]
        print(console.wrapped("plots", [path.name for path in pictures]))
        console.print_path("page", sweep_table.write_page(runs, folder / PAGE, pictures))
        sys.stdout.flush()
    print_tracked(viewers.track(finished, settings, folder), settings.outputs)
    return len(finished)


def print_tracked(outcome: str | None, outputs: Path) -> None:
    """Print the result of ``viewers.track``: where the MLflow view is, or a note."""
    from omkl.report import console

    if outcome == "":
        print(console.tracked_text(outputs))
    elif outcome is not None:
        print(plain(f"Note: {outcome}"))
