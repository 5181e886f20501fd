"""Who looks at a run that has ended: its figures, and the MLflow view.

A run knows nothing of them (``omkl.experiment.run``): it is published first, and what goes wrong
here takes nothing away from it.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from omkl import disk
from omkl.config.settings import Settings
from omkl.datasets.label_sources import Label
from omkl.experiment import run as runner
from omkl.experiment.job import Computed, Described, Progress
from omkl.experiment.run import Outcome
from omkl.runs.run_folder import Run
from omkl.runs.writing import add_figures, staging_folder
from omkl.threads import turns_of
from omkl.tracking import view

TURN = 5e-4  # seconds between threads: comparators ask for the interpreter often, and briefly


def run_and_show(
    config: Mapping[str, Any],
    progress: Progress | None = None,
    label: Label | None = None,
    show: Callable[[Run], None] | None = None,
) -> Outcome:
    """As ``omkl.experiment.run.run``, with the figures and the tracking that the settings ask for.

    ``show`` is given the run when its rounds are over, without what is known in hindsight. A figure
    that cannot be drawn makes the outcome a failure; the finished run stays.
    """
    with Viewers(progress, show) as viewers:
        outcome = runner.run(config, progress, label, viewers)
        if outcome.settings is None:
            return outcome
        try:
            return viewers.show(outcome, outcome.settings)
        except Exception as error:
            return runner.spoilt(outcome, error)


def record_and_show(job: Described, computed: Computed, started: str) -> Outcome:
    """As ``omkl.experiment.run.record``, with the figures and the tracking that are asked for."""
    with Viewers(None) as viewers:
        viewers.begun(job.settings)
        outcome = runner.record(job, computed, started)
        try:
            return viewers.show(outcome, job.settings)
        except Exception as error:
            return runner.spoilt(outcome, error)


def run_together_and_show(
    configs: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[int, Outcome]]:
    """As ``run_and_show`` of each, by ``omkl.experiment.run.run_together``."""
    for number, outcome in runner.run_together(configs):
        if outcome.settings is None:
            yield number, outcome
            continue
        with Viewers(None) as viewers:
            try:
                if outcome.status == "complete":
                    viewers.begun(outcome.settings)
                shown = viewers.show(outcome, outcome.settings)
            except Exception as error:
                shown = runner.spoilt(outcome, error)
        yield number, shown


class Viewers:
    """Those of one job; what takes long is made ready while it is computed."""

    def __init__(
        self,
        progress: Progress | None,
        show_rounds: Callable[[Run], None] | None = None,
    ) -> None:
        self.progress = progress
        self.show_rounds = show_rounds
        self.tracker: threading.Thread | None = None
        self.settings: Settings | None = None
        self.pool = ThreadPoolExecutor(1)
        self.held = contextlib.ExitStack()
        self.drawing: Future[Path] | None = None  # of the rounds; the folder where they are drawn

    def __enter__(self) -> Viewers:
        return self

    def __exit__(self, kind: type[BaseException] | None, *more: Any) -> None:
        # Ctrl-C does not wait for a thread that draws.
        wait = kind is None or issubclass(kind, Exception)
        self.pool.shutdown(wait=wait, cancel_futures=True)
        self.held.close()

    def begun(self, settings: Settings) -> None:
        """Import MLflow and open its database while the rounds are running: they hold no lock."""
        self.settings = settings
        if settings.tracking != "mlflow":
            return
        view.ignore_warnings()
        self.tracker = threading.Thread(target=view.prepare, args=(settings.outputs,), daemon=True)
        self.tracker.start()

    def measured(self, run: Run) -> None:
        """Show what the rounds say, and draw it while comparators are computed."""
        if self.show_rounds:
            self.show_rounds(run)
        if self.settings is None or not self.settings.figures:
            return
        place = Path(self.held.enter_context(disk.temporary_folder()))
        self.held.enter_context(turns_of(TURN))

        def draw() -> Path:
            if self.tracker:  # two threads should not import large packages at once
                self.tracker.join()
            from omkl.report import run_figures  # Matplotlib, where something is drawn

            run_figures.figures_of_rounds(run, place)
            return place

        self.drawing = self.pool.submit(draw)

    def show(self, outcome: Outcome, settings: Settings) -> Outcome:
        folder, tracked = outcome.run.folder, False
        if outcome.status == "reused":
            # An earlier start may have had tracking=none, or ended before the viewers came.
            tracked = view.holds(outcome.run, settings.outputs)
            if not tracked:
                self.begun(settings)
        if settings.figures and not (folder / "weights.png").exists():
            self._draw(outcome)
        return outcome._replace(tracked=self._track(outcome, settings) or tracked)

    def _draw(self, outcome: Outcome) -> None:
        if self.progress:
            self.progress("figures", 0, None, None)
        if self.tracker:
            self.tracker.join()
        from omkl.report import run_figures  # Matplotlib, where something is drawn

        try:
            run = outcome.run.held()
        except FileNotFoundError:  # removed meanwhile
            drawn = False
        else:
            with staging_folder(run.folder) as staging:
                if self.drawing is None:
                    run_figures.all_figures(run, staging)
                else:
                    for figure in self.drawing.result().iterdir():
                        shutil.move(figure, staging / figure.name)
                    run_figures.figures_in_hindsight(run, staging)
                drawn = add_figures(run, staging)
        if not drawn:
            outcome.notes.append("another process has replaced the run: it has no figures of ours")

    def _track(self, outcome: Outcome, settings: Settings) -> bool:
        """Whether the run is in the MLflow view now; if it should be and is not, notes say why."""
        if self.settings is None or settings.tracking != "mlflow":
            return False
        if self.progress:
            self.progress("tracking", 0, None, None)
        try:
            if self.tracker:
                self.tracker.join()
                view.log_run(outcome.run.folder, settings.outputs)
        except view.TrackingError as error:
            outcome.notes.append(str(error))
            return False
        return True
