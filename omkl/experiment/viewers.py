"""Draw finished runs, and log them to MLflow.

A run is published before it is drawn or logged (``omkl.experiment.run``), so a failure here loses
no number. Matplotlib and MLflow take a second each to import. They are imported only when a run is
drawn or logged, which is after its result is printed.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path

from omkl.config.schema import Settings
from omkl.datasets import DataError
from omkl.experiment import processes
from omkl.experiment import run as runner
from omkl.experiment.job import Progress
from omkl.experiment.run import Outcome
from omkl.runs.run_folder import FIGURES, Run
from omkl.utils.wording import how_to_install


def run_and_draw(settings: Settings, progress: Progress | None = None) -> Outcome:
    """Run a job with ``omkl.experiment.run.run``, then draw it if the settings request figures."""
    return draw(runner.run(settings, progress), progress)


def run_and_draw_all(
    jobs: Sequence[Settings], n_jobs: int | str | None
) -> Generator[tuple[int, Outcome]]:
    """Run and draw jobs in processes. Yield the index and the outcome of each job as it ends.

    ``n_jobs`` is as in ``processes.side_by_side``. A job whose process dies twice has failed.
    """
    threads = jobs[0].threads or 1
    for number, outcome in processes.side_by_side(run_and_draw, jobs, n_jobs, threads):
        yield number, outcome or runner.failure(jobs[number], RuntimeError(processes.DIED), True)


def draw(outcome: Outcome, progress: Progress | None = None) -> Outcome:
    """Draw the figures of a finished job, if its settings request them.

    Returns
    -------
    Outcome
        The same outcome, or a failure if a figure cannot be drawn. A failure does not remove the
        folder of the run.
    """
    settings = outcome.settings
    if settings is None or not settings.figures:
        return outcome
    try:
        if not (outcome.run.folder / FIGURES).exists():
            from omkl.report import figures

            if progress:
                progress("figures", 0, None, None)
            suffixes = ("png", "pdf") if settings.figures == "pdf" else ("png",)
            figures.write_figures(outcome.run, suffixes)
    except Exception as error:
        explained = isinstance(error, DataError | OSError | MemoryError)
        return runner.failure(settings, error, explained, outcome.run.folder)
    return outcome


def track(runs: Sequence[Run], settings: Settings, sweep: Path | None = None) -> str | None:
    """Log finished runs to MLflow, if the settings request it.

    Parameters
    ----------
    runs
        Finished runs.
    settings
        Settings of one of the runs. ``tracking`` and ``outputs`` are used.
    sweep
        Folder of the sweep to which the runs belong; None for single runs.

    Returns
    -------
    str or None
        "" if the runs are logged. None if tracking is off, or if MLflow is missing and the user
        knows. Otherwise the reason why the runs are not logged.
    """
    if settings.tracking == "none" or not runs:
        return None
    from omkl.report import tracking

    if not tracking.installed():
        return _missing(settings.outputs, len(runs))
    try:
        tracking.log(runs, settings.outputs, sweep)
    except tracking.TrackingError as error:
        return str(error)
    return ""


def _missing(outputs: Path, n_runs: int) -> str | None:
    """Return a note that MLflow is not installed; None if ``outputs`` has earlier runs.

    The user has seen the note after the first run. ``n_runs`` is the number of new runs.
    """
    if len(list((outputs / "runs").glob("*/*/result.json"))) > n_runs:
        return None
    return (
        f"MLflow is not installed, so runs are folders alone; {how_to_install('mlflow')} and "
        "omkl-report rebuild-tracking show them there too"
    )
