"""Define the functions of ``import omkl``. The package imports this module on first use."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omkl import datasets
from omkl.datasets.base import default_order, default_scaling
from omkl.notebook.results import Results
from omkl.online import settings
from omkl.online.learner import OnlineLearner
from omkl.online.learner import load as load_learner
from omkl.online.panel import Panel
from omkl.online.panel import load as load_panel
from omkl.online.rows import columns_in
from omkl.online.settings import DATE, FEATURES, MOST_PENDING
from omkl.utils import conf
from omkl.utils.conf import PANEL
from omkl.utils.constraints import no_such_key

if TYPE_CHECKING:
    import pandas as pd

    from omkl.datasets import Stream
    from omkl.notebook.runs import Runs

__all__ = [
    "OnlineLearner", "Panel", "Results", "columns", "learner", "load", "load_learner",
    "load_panel", "load_runs", "open_stream", "panel", "run", "sweep",
]  # fmt: skip


def learner(
    algorithm: str = "auto",
    *,
    inputs: int | Sequence[str] | None = None,
    kernels: str | Mapping[str, Any] | Sequence[Any] = "rbf51_lap25",
    D: int = FEATURES,
    seed: int = 0,
    task: str | None = None,
    classes: Sequence[Any] | None = None,
    scaling: str = "columns",
    lags: int = 0,
    horizon: int | None = None,
    interval: float | None = None,
    interval_rate: float | None = None,
    features: str = "rff",
    max_pending: int = MOST_PENDING,
    outputs: int | Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    target_transform: str | float | None = None,
    series: str | None = None,
    season: int | Sequence[int] | None = None,
    series_delay: str | int = DATE,
    max_series: int | None = None,
    **params: Any,
) -> OnlineLearner:
    """Return a new online learner.

    Parameters
    ----------
    algorithm
        Name of the algorithm, as in ``algorithm=`` of the command line.
    inputs
        Number or names of the inputs; None: the first row or data frame decides.
    kernels
        Name of a dictionary in ``conf/kernels``, a mapping with the content of such a file, or a
        list. Each entry of a list is the bandwidth of a Gaussian kernel, the name of a family, or a
        mapping with one family: ``[0.1, 1.0, {"family": "laplacian", ...}]``.
    D
        Random features per kernel, >= 1; 50 by default.
    seed
        Integer >= 0, the seed of all random numbers.
    task
        "regression" or "classification"; None: the task of the algorithm.
    classes
        Classes of a classification, texts or numbers. The codes of two classes are -1 and +1.
    scaling
        "columns": inputs and targets are standardised online; "none": they are unchanged.
    lags
        Number of past targets used as inputs, >= 0.
    horizon
        Number of rows T, for parameters that contain T (``eta="1/sqrt(T)"``); None: unknown.
    interval
        Share of targets in (0, 1), such as 0.9, that intervals should cover, even if the stream
        changes. None: no intervals.
    interval_rate
        Rate in (0, 1] at which intervals adapt; None: a mixture of eight rates.
    features
        Placement of random frequencies: "rff" draws them independently, "orthogonal" in orthogonal
        blocks (Gaussian kernels only), and "qmc" places them evenly.
    max_pending
        Largest number of predictions remembered until their targets arrive, 1,000 by default.
    outputs
        Number or names of the targets of a row; None: a single target, which is a number. Outputs
        learn separately and share their random features.
    columns
        Declarations of columns by name, as in ``omkl.run``: ``{"shop": "category 007 012", "mass":
        "number kg", "when": "date dayfirst Europe/Berlin", "note": "skip"}``. The first rows decide
        the kind of all other columns.
    target_transform
        "log" (targets > 0), or the power in (0, 1] of a Box-Cox transform (targets >= 0). Use it
        for skewed targets. The learner learns the transformed targets, so a prediction estimates
        the median of a target, not its mean. Predictions and intervals are transformed back to the
        unit of the target. None: no transform.
    series
        For "auto": name of the column that names the series of a row, such as "shop". For rows by
        position pass ``series=`` to the methods. All series share one learner. It predicts the
        change since the last known target of the series, divided by the usual change of the series.
    season
        For "auto": length of a season in rows of a series, such as 7 for days of a week, or several
        lengths. 0: no season. None: the learner searches for seasons after 188 targets, and each
        time the number of targets has doubled, up to 1,504. With several series the searches go on
        up to 12,032 targets, as long as no season is found.
    series_delay
        "date": all rows of a date are predicted before any of them is learned. The dates are a
        column of the rows, or ``dates=``. 0: each row is learned before the next is predicted.
    max_series
        Largest number of series in memory, >= 1. A further series replaces the series whose last
        row is the oldest. None: no limit.
    params
        Parameters of the algorithm, as in ``algorithm.NAME=``. The defaults are in the YAML file of
        the algorithm.

    Raises
    ------
    ValueError
        A setting is wrong; the text names it and its possible values.
    """
    made = settings.read(
        algorithm, inputs=inputs, kernels=kernels, task=task, classes=classes, params=params, D=D,
        seed=seed, scaling=scaling, lags=lags, horizon=horizon,
        interval=interval, interval_rate=interval_rate, features=features, outputs=outputs,
        max_pending=max_pending, target_transform=target_transform, series=series,
        season=season, series_delay=series_delay, max_series=max_series,
    )  # fmt: skip
    return OnlineLearner(made, declared=columns)


def panel(
    algorithm: str = PANEL["algorithm"],
    *,
    series: str | None = None,
    inputs: int | Sequence[str] | None = None,
    kernels: str | Mapping[str, Any] | Sequence[Any] = PANEL["kernels"],
    D: int = PANEL["D"],
    seed: int = 0,
    scaling: str = "columns",
    lags: int = PANEL["lags"],
    horizon: int | None = None,
    interval: float | None = None,
    interval_rate: float | None = None,
    features: str = "rff",
    max_series: int | None = None,
    share_weights: bool = False,
    share_scaling: bool = False,
    threads: int | None = None,
    columns: Mapping[str, str] | None = None,
    **params: Any,
) -> Panel:
    """Return a panel, which has one learner per series of a stream.

    Parameters
    ----------
    algorithm
        An algorithm whose state has a constant size and consists of real numbers: "ridge",
        "ridge_rff", "raker", "rfomkr", ... "auto" is not supported, because its trees also need
        counts and indices.
    series
        Name of the column that names the series of a row; None: the methods take the series as a
        separate argument.
    inputs, kernels, D, seed, scaling, lags, horizon, features
        As in ``omkl.learner``, for the learner of each series. All series have the same random
        features. The defaults differ: ``lags=4`` makes the last 4 targets of the series inputs,
        and ``kernels="gauss5"`` with ``D=24`` keeps the learner of each series small.
    interval, interval_rate
        As in ``omkl.learner``. Intervals learn from the errors of all series, each divided by the
        mean error of its series.
    max_series
        Largest number of series in memory, >= 1. A further series replaces the series whose last
        row is the oldest. None: no limit, and memory grows with the number of series.
    share_weights
        Whether all series share one set of kernel weights, which learns from every row.
    share_scaling
        Whether inputs are standardised by the mean and deviation of all series. If False, each
        series has its own mean and deviation. Targets are always standardised per series.
    threads
        Number of threads for blocks of rows, at most 8; None: one per core. Results do not depend
        on this number.
    columns
        Declarations of columns, as in ``omkl.learner``.
    params
        Parameters of the algorithm, as in ``omkl.learner``.

    Raises
    ------
    ValueError
        A setting is wrong; the text names it and its possible values.

    Examples
    --------
    >>> panel = omkl.panel(series="device", inputs=["hour", "load"])  # doctest: +SKIP
    >>> panel.predict_one({"device": "a", "hour": 3, "load": 1.5})  # doctest: +SKIP
    0.0
    >>> panel.learn_one({"device": "a", "hour": 3, "load": 1.5}, 2.5)  # doctest: +SKIP
    """
    made = settings.read(
        algorithm, inputs=inputs, kernels=kernels, params=params, D=D,
        seed=seed, scaling=scaling, lags=lags, horizon=horizon,
        interval=interval, interval_rate=interval_rate, features=features,
    )  # fmt: skip
    return Panel(
        made, series=series, max_series=max_series, share_weights=share_weights,
        share_scaling=share_scaling, threads=threads, declared=columns,
    )  # fmt: skip


def columns(
    frame: pd.DataFrame, target: str | None = None, columns: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Return a table that shows how the columns of a data frame become inputs.

    The rules are those for files.

    Parameters
    ----------
    frame
        Data frame. Its first rows decide the encodings.
    target
        Column to predict. The result does not contain it.
    columns
        Declarations of columns, as in ``omkl.learner``.

    Returns
    -------
    pandas.DataFrame
        One row per column of ``frame``: the encoding ``as`` (numbers, categories, hashed, date,
        left out), the resulting ``inputs``, and the reason ``why``.
    """
    import pandas as pd

    found = columns_in(frame, declared=columns)
    rows = [column.as_dict() for column in found if column.name != target]
    return pd.DataFrame(rows, columns=["column", "as", "inputs", "why"]).set_index("column")


def open_stream(
    dataset: str | Path | Mapping[str, Any],
    target: str | int | None = None,
    *,
    task: str | None = None,
    scaling: str | None = None,
    order: str | None = None,
    limit: int | None = None,
    lags: int = 0,
    delay: int = 0,
    horizon: int = 0,
    seed: int = 0,
    **keys: Any,
) -> Stream:
    """Open a data set as a stream: ``for X, y in omkl.open_stream("airfoil").blocks(1000)``.

    Parameters
    ----------
    dataset
        A name of ``conf/dataset``, the path of your file, or a mapping with the content of such a
        YAML file.
    target
        Column to predict, for your own file.
    task, scaling, order, limit, lags, delay, horizon, seed
        The settings ``stream.*`` of a run, with the same defaults. Use ``scaling="none"`` if the
        rows go to an ``OnlineLearner``, which standardises them itself.
    keys
        Further keys of a data set's YAML: ``inputs``, ``missing``, ``labels``, ...

    Raises
    ------
    DataError
        The data cannot be used. DataError is a ValueError.
    ValueError
        A key in ``keys`` does not exist.
    """
    if isinstance(dataset, Mapping):
        described = dict(dataset)
    elif isinstance(dataset, Path) or not re.fullmatch(r"\w+", dataset):  # no name of a data set
        described = conf.entry("dataset", "file") | {"path": str(dataset)}
    else:
        described = conf.chosen("dataset", str(dataset))
    from omkl.datasets.schema import Dataset, Stream  # imported here: pydantic takes 0.2 s

    known = {*Stream.model_fields, "seed", *Dataset.model_fields, *described}
    if unknown := [key for key in keys if key not in known]:
        raise ValueError(no_such_key("", unknown[0], list(known)))
    described |= keys | ({} if target is None else {"target": target})
    described["task"] = task or described.get("task", "regression")
    options = {
        "limit": limit,
        "scaling": default_scaling(described) if scaling is None else scaling,
        "order": default_order(described, described["task"]) if order is None else order,
        "lags": lags,
        "delay": delay,
        "horizon": horizon,
    }
    return datasets.open_stream(described, options, seed)


def run(*what: Any, **settings: Any) -> Results:
    """Run one job as ``omkl-run`` does, and return its results.

    If the same job has finished before, its results are read from its folder.

    Parameters
    ----------
    what
        The name of an algorithm, then a data set: a name of the catalogue, the path of a file, or a
        data frame (pandas, Polars, PyArrow). Both are optional: ``auto`` is the default for your
        own data. A data frame is stored as a Parquet file in the folder ``frames`` of the outputs.
        Settings of the command line may follow as texts: ``"algorithm.eta=0.1"``.
    settings
        Settings as keywords: ``target="price"``, ``seeds=3``. Nested settings are mappings,
        ``stream={"lags": 2}``, or have dotted names, ``**{"stream.lags": 2}``. Figures and tracking
        are off by default.

    Returns
    -------
    Results
        The numbers by name, data frames and plots.

    Raises
    ------
    ValueError
        A setting or a data set does not exist.
    RuntimeError
        The job failed; the text is that of ``omkl-run``.

    Examples
    --------
    >>> omkl.run("auto", frame, target="price")  # doctest: +SKIP
    >>> omkl.run("raker", "naval", seeds=3, stream={"lags": 2})  # doctest: +SKIP
    """
    # Imported here: Hydra, pydantic and the viewers, which learners do not need.
    from omkl.experiment import viewers
    from omkl.notebook import requests

    made = requests.read_run(what, settings)
    outcome = viewers.run_and_draw(made)
    if outcome.status == "failed":
        raise RuntimeError(outcome.run.result["error"]["message"])
    if note := viewers.track([outcome.run], made):
        warnings.warn(note, stacklevel=2)
    return Results(outcome.run.folder)


def load(folder: str | Path) -> Results:
    """Return a finished run from its folder.

    The result has the numbers by name, and ``seeds``, ``curves`` and ``predictions`` as data
    frames. Raises ValueError if the folder is damaged or not a run.
    """
    return Results(folder)


def load_runs(outputs: str | Path = "outputs", *, long: bool = False, **where: Any) -> Runs:
    """Return the runs below a folder of outputs as a data frame with one row per run.

    Parameters
    ----------
    outputs
        The folder; runs are in its folder ``runs``.
    long
        Whether to return one row per run and seed, in place of one per run.
    where
        Conditions on any setting or parameter: ``dataset="naval"``, ``algorithm=["raker", "gf"]``.
        Nested settings are mappings or have dotted names.

    Returns
    -------
    Runs
        A ``pandas.DataFrame`` with the further methods ``table()`` and ``plot()``. The column
        ``error`` has the message of a failed run.

    Raises
    ------
    ValueError
        The folder has no runs, no run meets the conditions, or a setting does not exist.
    """
    from omkl.notebook import runs  # pandas

    return runs.load_runs(outputs, long, where)


def sweep(
    algorithms: Any, datasets: Any, *texts: str, n_jobs: int | str | None = 1, **settings: Any
) -> Runs:
    """Run every algorithm on every data set with every combination of settings.

    Finished runs are not repeated.

    Parameters
    ----------
    algorithms, datasets
        One algorithm and one data set as in ``omkl.run``, or lists of them.
    texts
        Further settings as on the command line, ``"algorithm.M=5,10"``.
    n_jobs
        Number of processes, or the address of a Dask scheduler; None: one process per core. A
        script with more than one process needs ``if __name__ == "__main__":``.
    settings
        As in ``omkl.run``. A list contains several values, each of which makes a run: ``D=[50,
        100]``. Put a value that is itself a list in another list: ``dataset={"inputs": [["a",
        "b"]]}``. ``kernels`` is the name of a dictionary, a list of names, or a list of lists of
        kernels, such as ``[[0.1, 1.0], [0.5]]``. Each name and each inner list makes a run.

    Returns
    -------
    Runs
        A ``pandas.DataFrame`` with one row per run, and the further methods ``plot()`` and
        ``table()``. The column ``error`` has the message of a failed run, and a warning names it.

    Raises
    ------
    ValueError
        A name or setting does not exist.
    """
    from omkl.notebook import runs  # pandas

    return runs.sweep(algorithms, datasets, texts, n_jobs, settings)
