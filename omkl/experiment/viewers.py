"""Figures and the MLflow view of a run that has ended.

A run is published before it is drawn or logged (``omkl.experiment.run``), so that no failure here
takes a number away.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from omkl.config.schema import Settings
from omkl.experiment import run as runner
from omkl.experiment.job import Computed, JobInfo, Progress
from omkl.experiment.run import Outcome
from omkl.report import tracking
from omkl.runs.run_folder import FIGURES, Run
from omkl.utils.extras import how_to_install


def _ignore(_: Any) -> None:
    pass


class Viewers(NamedTuple):
    """Functions that are called while a job goes on.

    begun      with a job that is to be computed, before its first row
    measured   with the run when its rounds are over, without what is known in hindsight
    published  with the outcome, before figures are drawn and MLflow is called
    """

    begun: Callable[[JobInfo], None] = _ignore
    measured: Callable[[Run], None] = _ignore
    published: Callable[[Outcome], None] = _ignore


def run_and_show(
    settings: Settings,
    progress: Progress | None = None,
    viewers: Viewers | None = None,
) -> Outcome:
    """Run a job as ``omkl.experiment.run.run``, then draw and log it as the settings ask.

    A figure that cannot be drawn makes the outcome a failure; the finished run stays.
    """
    viewers = viewers or Viewers()
    return _shown(runner.run(settings, progress, viewers), viewers, progress)


def record_and_show(job: JobInfo, computed: Computed, started: str) -> Outcome:
    """Write a run as ``omkl.experiment.run.record``, then draw and log it as the settings ask."""
    return _shown(runner.record(job, computed, started), Viewers())


def _shown(outcome: Outcome, viewers: Viewers, progress: Progress | None = None) -> Outcome:
    viewers.published(outcome)
    settings = outcome.settings
    if settings is None:  # there was no job
        return outcome

    def tell(stage: str) -> None:
        if progress:
            progress(stage, 0, None, None)

    try:
        if settings.figures and not (outcome.run.folder / FIGURES).exists():
            from omkl.report import figures  # imported here: Matplotlib takes a second

            tell("figures")
            figures.write_figures(
                outcome.run, ("png", "pdf") if settings.figures == "pdf" else ("png",)
            )
        if settings.tracking == "none":
            return outcome
        tell("tracking")
        return _tracked(outcome, settings)
    except Exception as error:
        return runner.failed_in_postprocessing(outcome, error)


def _tracked(outcome: Outcome, settings: Settings) -> Outcome:
    """Log the run. If that fails, or MLflow is not installed, a note says so."""
    if not tracking.installed():
        notes = [*outcome.notes, *_missing(settings.outputs)]
        return outcome._replace(notes=notes)
    try:
        if not tracking.is_logged(outcome.run, settings.outputs):
            tracking.log_run(outcome.run, settings.outputs)
    except tracking.TrackingError as error:
        return outcome._replace(notes=[*outcome.notes, str(error)])
    return outcome._replace(tracked=True)


def _missing(outputs: Path) -> list[str]:
    """Say for the first run of an outputs folder that MLflow is not installed."""
    if len(list((outputs / "runs").glob("*/*/result.json"))) > 1:
        return []
    return [
        f"MLflow is not installed, so runs are folders alone; {how_to_install('mlflow')} and "
        "omkl-report rebuild-tracking show them there too"
    ]
