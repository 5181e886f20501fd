"""Who looks at a run that has ended: its figures, and the MLflow view.

A run knows nothing of them (``omkl.experiment.run``): it is published first, and what goes wrong
here takes nothing away from it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from omkl.datasets.label_sources import Label
from omkl.experiment import run as runner
from omkl.experiment.job import Progress
from omkl.experiment.run import Outcome
from omkl.experiment.settings import Settings
from omkl.runs.folder import Run
from omkl.runs.writing import add_files, staging_folder
from omkl.tracking import database, view


def run_and_show(
    config: Mapping[str, Any], progress: Progress | None = None, label: Label | None = None
) -> Outcome:
    """As ``omkl.experiment.run.run``, with the figures and the tracking that the settings ask for.

    A figure that cannot be drawn makes the outcome a failure; the finished run stays.
    """
    viewers = Viewers(progress)
    outcome = runner.run(config, progress, label, viewers.prepare)
    if outcome.settings is None:
        return outcome
    try:
        return viewers.show(outcome, outcome.settings)
    except Exception as error:
        return runner.spoilt(outcome, error)


class Viewers:
    """Those of one job; what takes long is made ready while the rounds run."""

    def __init__(self, progress: Progress | None) -> None:
        self.progress = progress
        self.tracker: threading.Thread | None = None

    def prepare(self, settings: Settings) -> None:
        """Make the database of the MLflow view while the rounds are running: they hold no lock."""
        if settings.tracking != "mlflow":
            return

        def quietly() -> None:
            try:
                view.prepare(settings.outputs)
            except Exception:  # log_run meets the same trouble and tells it
                return

        self.tracker = threading.Thread(target=quietly, daemon=True)
        self.tracker.start()

    def show(self, outcome: Outcome, settings: Settings) -> Outcome:
        folder, tracked = outcome.run.folder, False
        if outcome.status == "reused":
            # An earlier start may have had tracking=none, or ended before the viewers came.
            tracked = view.holds(folder, settings.outputs)
            if not tracked:
                self.prepare(settings)
        if settings.figures and not (folder / "weights.png").exists():
            self._draw(outcome.run)
        return outcome._replace(tracked=self._track(outcome, settings) or tracked)

    def _draw(self, run: Run) -> None:
        if self.progress:
            self.progress("figures", 0, None, None)
        if self.tracker:  # two threads should not import large packages at once
            self.tracker.join()
        from omkl.report import run_figures  # Matplotlib, where something is drawn

        with staging_folder(run.folder) as staging:
            run_figures.all_figures(run, staging)
            add_files(run.folder, staging)

    def _track(self, outcome: Outcome, settings: Settings) -> bool:
        """Whether the run is in the MLflow view now; if it should be and is not, notes say why."""
        if self.tracker is None:
            return False
        if self.progress:
            self.progress("tracking", 0, None, None)
        self.tracker.join()
        try:
            view.log_run(outcome.run.folder, settings.outputs)
        except database.TrackingError as error:
            outcome.notes.append(str(error))
            return False
        return True
