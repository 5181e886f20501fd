"""A sweep in the view: in each experiment a run above its runs, with its table and figures."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from omkl.report import style
from omkl.runs import sweeps
from omkl.runs.folder import Run
from omkl.tracking import database

if TYPE_CHECKING:
    from mlflow import MlflowClient

SHOWN = ("*.md", "*.csv", "*.html", "*.png", "*.pdf")
PARENT = "mlflow.parentRunId"
SWEEP = "sweep"  # the tag that only parents have
MOST_CHARACTERS = 8000  # of a note: MLflow cuts what is longer, and warns


def write_parents(client: MlflowClient, sweep: Path, outputs: Path) -> list[str]:
    """Write the runs that stand for a sweep, and put its runs below them; returns their ids.

    What was written for the same sweep before is replaced. A data set none of whose runs is in
    the view has none.
    """
    found = [run for run, _ in sweeps.jobs_of(sweep)]
    complete = [run for run in found if (run.folder / "result.json").exists() and run.complete]
    written = []
    for dataset in dict.fromkeys(str(run.result["dataset"]) for run in complete):
        name = dataset.replace("/", "_")
        experiment = client.get_experiment_by_name(name)
        if experiment is None:
            continue
        members = [run for run in complete if str(run.result["dataset"]) == dataset]
        ids = _ids(client, experiment.experiment_id, members, outputs)
        if ids:
            written.append(_write(client, experiment.experiment_id, name, sweep, members, outputs))
            for run_id in ids.values():
                client.set_tag(run_id, PARENT, written[-1])
    return written


def _ids(
    client: MlflowClient, experiment: str, runs: Sequence[Run], outputs: Path
) -> Mapping[Path, str]:
    """The runs of the view that are of these run folders."""
    known = {
        str(run.data.tags.get("folder")): run.info.run_id
        for run in client.search_runs([experiment], max_results=50_000)
    }
    places = {run.folder: run.folder.resolve() for run in runs}
    named = {
        folder: place.relative_to(outputs).as_posix()
        for folder, place in places.items()
        if place.is_relative_to(outputs)
    }
    return {folder: known[name] for folder, name in named.items() if name in known}


def _write(
    client: MlflowClient,
    experiment: str,
    name: str,
    sweep: Path,
    runs: Sequence[Run],
    outputs: Path,
) -> str:
    for old in client.search_runs([experiment], f"tags.{SWEEP} = '{sweep.name}'"):
        client.delete_run(old.info.run_id)
        database.remove_artifacts(outputs, old.info.run_id)
    began = min(_milliseconds(run) for run in runs)
    run_id = client.create_run(
        experiment, start_time=began, run_name=_name(runs), tags={SWEEP: sweep.name}
    ).info.run_id
    table = sweep / "table.md"
    note = table.read_text(encoding="utf-8") if table.exists() else ""
    client.set_tag(run_id, "mlflow.note.content", shortened(note))
    to = database.artifacts_of(outputs, name, run_id)
    shutil.rmtree(to, ignore_errors=True)
    database.link_all([path for shown in SHOWN for path in sorted(sweep.glob(shown))], to)
    client.set_terminated(run_id, "FINISHED", max(_milliseconds(run, ended=True) for run in runs))
    return run_id


def shortened(note: str) -> str:
    """A note that MLflow keeps whole: a longer table ends after a row, and says so."""
    if len(note) <= MOST_CHARACTERS:
        return note
    ending = "\n\nCut here: table.md has all rows.\n"
    return note[: MOST_CHARACTERS - len(ending)].rpartition("\n")[0] + ending


def _name(runs: Sequence[Run]) -> str:
    """The algorithms of a sweep, and the settings that vary in it."""
    learners = list(dict.fromkeys(str(run.result["algorithm"]) for run in runs))
    swept = dict.fromkeys(name for settings in style.varying(runs) for name in settings)
    over = f", {', '.join(swept)} varied" if swept else ""
    more = f" and {len(learners) - 4} more" if len(learners) > 4 else ""
    return f"sweep of {len(runs)}: {', '.join(learners[:4])}{more}{over}"[:250]


def _milliseconds(run: Run, ended: bool = False) -> int:
    from datetime import datetime

    started = 1000.0 * datetime.fromisoformat(run.result["started"]).timestamp()
    return round(started + (1000.0 * run.result["seconds"] if ended else 0.0))
