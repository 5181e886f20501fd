"""Who looks at a run that has ended: its figures, and the MLflow view.

A run knows nothing of them (``omkl.experiment.run``): it is published first, and what goes wrong
here takes nothing away from it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from omkl.config.settings import Settings
from omkl.datasets.label_sources import Label
from omkl.experiment import run as runner
from omkl.experiment.job import Computed, JobInfo, Progress
from omkl.experiment.run import Outcome
from omkl.report import tracking
from omkl.runs.run_folder import Run
from omkl.runs.writing import add_figures, staging_folder


def run_and_show(
    config: Mapping[str, Any],
    progress: Progress | None = None,
    label: Label | None = None,
    show: Callable[[Run], None] | None = None,
    begin: Callable[[JobInfo], None] | None = None,
) -> Outcome:
    """As ``omkl.experiment.run.run``, with the figures and the tracking that the settings ask for.

    ``begin`` is given a job that is to be computed, before its first row, and ``show`` the run when
    its rounds are over, without what is known in hindsight. A figure
    that cannot be drawn makes the outcome a failure; the finished run stays.
    """
    viewers = Viewers(progress, show, begin)
    return viewers.shown(runner.run(config, progress, label, viewers))


def record_and_show(job: JobInfo, computed: Computed, started: str) -> Outcome:
    """As ``omkl.experiment.run.record``, with the figures and the tracking that are asked for."""
    viewers = Viewers()
    viewers.begun(job)
    return viewers.shown(runner.record(job, computed, started))


class Viewers:
    """Those of one job."""

    def __init__(
        self,
        progress: Progress | None = None,
        show_rounds: Callable[[Run], None] | None = None,
        show_job: Callable[[JobInfo], None] | None = None,
    ) -> None:
        self.progress = progress
        self.show_rounds = show_rounds
        self.show_job = show_job
        self.preparing: threading.Thread | None = None

    def begun(self, job: JobInfo) -> None:
        """Import MLflow and create its database while the rounds run: they hold no lock."""
        if self.show_job:
            self.show_job(job)
        settings = job.settings
        if settings.tracking == "none" or not tracking.installed():
            return
        tracking.ignore_warnings()
        self.preparing = threading.Thread(
            target=tracking.prepare, args=(settings.outputs,), daemon=True
        )
        self.preparing.start()

    def measured(self, run: Run) -> None:
        """Show what the rounds say, before comparators are computed."""
        if self.show_rounds:
            self.show_rounds(run)

    def shown(self, outcome: Outcome) -> Outcome:
        """Draw the figures and log the run; returns the outcome with what came of it."""
        settings = outcome.settings
        if settings is None:  # there was no job
            return outcome
        try:
            if settings.figures and not (outcome.run.folder / "weights.png").exists():
                self._draw(outcome, ("png", "pdf") if settings.figures == "pdf" else ("png",))
            return outcome._replace(tracked=self._track(outcome, settings))
        except Exception as error:
            return runner.failed_in_postprocessing(outcome, error)

    def _draw(self, outcome: Outcome, suffixes: Sequence[str]) -> None:
        if self.progress:
            self.progress("figures", 0, None, None)
        if self.preparing:  # two threads should not import large packages at once
            self.preparing.join()
        from omkl.report import figures  # Matplotlib, where something is drawn

        try:
            run = outcome.run.held()
        except FileNotFoundError:  # removed meanwhile
            drawn = False
        else:
            with staging_folder(run.folder) as staging:
                figures.all_figures(run, staging, suffixes)
                drawn = add_figures(run, staging)
        if not drawn:
            outcome.notes.append("another process has replaced the run: it has no figures of ours")

    def _track(self, outcome: Outcome, settings: Settings) -> bool:
        """Whether the run is in the MLflow view now; if it should be and is not, notes say why."""
        # An earlier start may have had tracking=none, or ended before the viewers came.
        if outcome.status == "reused" and tracking.holds(outcome.run, settings.outputs):
            return True
        if settings.tracking == "none":
            return False
        if not tracking.installed():
            note = tracking.missing_note(settings.outputs)
            outcome.notes.extend([note] if note else [])
            return False
        if self.progress:
            self.progress("tracking", 0, None, None)
        if self.preparing:
            self.preparing.join()
        try:
            tracking.log_run(outcome.run.folder, settings.outputs)
        except tracking.TrackingError as error:
            outcome.notes.append(str(error))
            return False
        return True
