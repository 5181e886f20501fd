"""Define the data frame of several runs, which are loaded from a folder or computed as a sweep."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from omkl.config.overrides import key_of_file
from omkl.notebook import requests
from omkl.notebook.results import Results
from omkl.report import naming, sweep_table
from omkl.report.frame import HIDDEN, NUMBERS, frame_of, matching
from omkl.runs import run_folder
from omkl.runs.run_folder import Run
from omkl.utils.conf import flattened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from omkl.config.schema import Settings


class Runs(pd.DataFrame):
    """Data frame with one row per run: algorithm, data set, settings that vary, and metrics.

    ``runs`` are the results of the finished runs. A selection of rows or columns is a plain
    ``pandas.DataFrame``.
    """

    _metadata = ["runs"]  # noqa: RUF012  tells pandas that ``runs`` is an attribute, not a column
    runs: list[Results]

    @classmethod
    def of(cls, runs: Sequence[Run], long: bool = False, shown: Sequence[str] = ()) -> Runs:
        """Return the data frame of finished and failed runs.

        Parameters
        ----------
        runs
            Runs, in the order of the rows.
        long
            Whether there is one row per run and seed.
        shown
            Settings that are columns even if they do not vary, in addition to D.
        """
        every = frame_of(runs, extra=("D", *shown))
        public = every.drop(columns=HIDDEN).dropna(axis=1, how="all")
        if long:
            of_runs = public.drop(columns=["status", "best", "p_star", *NUMBERS], errors="ignore")
            seeds = [
                pd.DataFrame(run_folder.seeds_of(run.result)).assign(key=run.result["key"])
                for run in runs
                if run.complete
            ]
            of_seeds = pd.concat(seeds)
            new = [name for name in of_seeds if name == "key" or name not in of_runs]
            public = of_runs.merge(of_seeds[new], on="key")
        frame = cls(public.infer_objects())
        frame.runs = [Results(run.folder) for run in runs if run.complete]
        return frame

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        """Class of a selection of rows or columns."""
        return pd.DataFrame

    def table(self) -> pd.DataFrame:
        """Return the table of ``omkl-report show`` as a data frame of texts."""
        shown = sweep_table.shown_of(frame_of([Run(one.folder) for one in self.runs]))
        columns = sweep_table.columns_of(shown)
        errors = [
            f"{text} *" if best else text
            for text, best in zip(columns[0].texts, shown["best"], strict=True)
        ]
        return pd.DataFrame({c.title: c.texts for c in columns} | {columns[0].title: errors})

    def plot(self, x: str = "t", y: str = "", ax: Axes | None = None) -> Any:
        """Draw the running errors of all runs, or a metric as a function of a setting or metric.

        Parameters
        ----------
        x
            "t" for running errors over the rows. Otherwise a setting such as "algorithm.M" or "D",
            "algorithm", or a metric such as "seconds".
        y
            A metric, such as "seconds", "al_efficiency" or "regret"; "" stands for the error.
        ax
            Axes for a plot with one panel; None: new ones of ``matplotlib.pyplot``.

        Returns
        -------
        Axes or array of Axes
            An array if there are several streams or data sets.

        Raises
        ------
        ValueError
            No run is finished, no run has the setting or metric, or ``ax`` is given although there
            are several panels.
        """
        from omkl.report import style, sweep_figures

        drawn = sweep_figures.panels_of([Run(one.folder) for one in self.runs], x, y)
        panels = [ax] if ax is not None else _panels(len(drawn))
        if len(panels) != len(drawn):
            raise ValueError(f"the runs make {len(drawn)} panels: leave ax out")
        for axes, (name, draw) in zip(panels, drawn.items(), strict=True):
            with style.applied():
                draw(axes)
                axes.set_title(style.wrapped(name, 80))
                if any(axes.get_legend_handles_labels()[1]):
                    axes.legend(loc="best")
        if len(panels) == 1:
            return panels[0]
        import numpy as np

        return np.array(panels)


def _panels(n: int) -> list[Axes]:
    import matplotlib.pyplot as plt  # pyplot shows the figure in a notebook

    from omkl.report import style

    rows, columns = style.panel_grid(n)
    with style.applied():
        size = (max(style.WIDTH, 4.6 * columns), 4.0 * rows)
        grid = plt.subplots(rows, columns, figsize=size, squeeze=False)[1].ravel().tolist()
    for spare in grid[n:]:
        spare.set_axis_off()
    return grid[:n]


def load_runs(outputs: str | Path, long: bool, where: Mapping[str, Any]) -> Runs:
    """Return the result of ``omkl.load_runs``.

    Parameters
    ----------
    outputs, long, where
        As in ``omkl.load_runs``.
    """
    outputs = Path(outputs).expanduser()
    runs = list(run_folder.find(outputs))
    if not runs:
        raise ValueError(f"there are no runs in {outputs / 'runs'}; omkl.run makes some")
    wanted = {}
    for key, value in flattened(where):
        values = value if isinstance(value, list | tuple) else [value]
        wanted[key_of_file(key)] = [naming.value_text(one) for one in values]
    return Runs.of(matching(runs, wanted), long, tuple(wanted))


def sweep(
    algorithms: Any,
    datasets: Any,
    texts: Sequence[str],
    n_jobs: int | str | None,
    settings: Mapping[str, Any],
) -> Runs:
    """Run a sweep, and return the result of ``omkl.sweep``.

    Parameters
    ----------
    algorithms, datasets, texts, n_jobs, settings
        As in ``omkl.sweep``.
    """
    if extra := [text for text in texts if not requests.is_override(text)]:
        raise ValueError(
            f"{extra[0]}: several algorithms or data sets go in one list: omkl.sweep([...], [...])"
        )
    names, data = (
        one if isinstance(one, list | tuple) else [one] for one in (algorithms, datasets)
    )
    return Runs.of(_run_jobs(requests.read(names, data, texts, settings, sweeps=True), n_jobs))


def _run_jobs(jobs: Sequence[Settings], n_jobs: int | str | None) -> list[Run]:
    """Run the jobs, and return their runs in the same order. Warn of failures."""
    from omkl.experiment import viewers

    if n_jobs == 1 or len(jobs) == 1:
        outcomes = [viewers.run_and_draw(one) for one in jobs]
    else:
        ended = dict(viewers.run_and_draw_all(jobs, n_jobs))
        outcomes = [ended[number] for number in range(len(jobs))]
    for outcome in outcomes:
        if outcome.status == "failed":
            result = outcome.run.result
            name, why = f"{result['algorithm']} on {result['dataset']}", result["error"]["message"]
            warnings.warn(f"{name} failed: {why}", stacklevel=4)
    runs = {outcome.run.folder: outcome.run for outcome in outcomes}
    if note := viewers.track([run for run in runs.values() if run.complete], jobs[0]):
        warnings.warn(note, stacklevel=4)
    return list(runs.values())  # jobs that differ only in unused settings have the same run
