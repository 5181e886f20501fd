"""What is called from Python: ``import omkl`` and the functions here, imported when asked for."""

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
from omkl.online.settings import FEATURES, MOST_PENDING
from omkl.utils import conf
from omkl.utils.conf import PANEL
from omkl.utils.constraints import no_such_key

if TYPE_CHECKING:
    import pandas as pd

    from omkl.datasets import Stream
    from omkl.notebook.runs import Runs

__all__ = [
    "OnlineLearner",
    "Panel",
    "Results",
    "columns",
    "learner",
    "load",
    "load_learner",
    "load_panel",
    "load_runs",
    "open_stream",
    "panel",
    "run",
    "sweep",
]


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
    **params: Any,
) -> OnlineLearner:
    """A learner before its first row; a ValueError names a wrong setting and what it may be.

    Parameters
    ----------
    algorithm
        Its name, as after ``algorithm=``.
    inputs
        How many, or their names; None: as the first row or frame has them.
    kernels
        A dictionary of ``conf/kernels``, a mapping as such a file holds, or a list of bandwidths
        (of Gaussian kernels), families and parts: ``[0.1, 1.0, {"family": "laplacian", ...}]``.
    D
        Random features per kernel, 50 by default.
    seed
        Whatever is drawn follows from it.
    task
        "regression" or "classification"; None: the algorithm's.
    classes
        Of a classification, texts or numbers: of two the first is -1 and the second +1.
    scaling
        "columns": inputs and targets are standardised online; "none": taken as they are.
    lags
        How many past targets are further inputs.
    horizon
        T, where a parameter names it (``eta="1/sqrt(T)"``).
    interval
        A level such as 0.9: intervals cover that share of the targets, also when the stream
        changes.
    interval_rate
        One rate at which they adapt; None: eight, mixed.
    features
        How random frequencies are placed: "rff", each by itself; "orthogonal", in orthogonal
        blocks, of Gaussian kernels; "qmc", evenly.
    max_pending
        How many predictions are remembered until the targets of their rows come, 1,000 by default.
    outputs
        How many targets a row has, or their names; None: one, a number. Each output learns by
        itself; all share their random features.
    params
        Those of the algorithm, as after ``algorithm.NAME=``, in place of its YAML's.
    """
    made = settings.read(
        algorithm, inputs=inputs, kernels=kernels, task=task, classes=classes, params=params, D=D,
        seed=seed, scaling=scaling, lags=lags, horizon=horizon,
        interval=interval, interval_rate=interval_rate, features=features, outputs=outputs,
        max_pending=max_pending,
    )  # fmt: skip
    return OnlineLearner(made)


def panel(
    algorithm: str = "raker",
    *,
    key: str | None = None,
    inputs: int | Sequence[str] | None = None,
    kernels: str | Mapping[str, Any] | Sequence[Any] = PANEL["kernels"],
    D: int = PANEL["D"],
    seed: int = 0,
    scaling: str = "columns",
    lags: int = 0,
    horizon: int | None = None,
    interval: float | None = None,
    interval_rate: float | None = None,
    features: str = "rff",
    max_keys: int | None = None,
    share_weights: bool = False,
    share_scaling: bool = False,
    threads: int | None = None,
    **params: Any,
) -> Panel:
    """A learner per key of one stream; a ValueError names the setting and what it may be.

    Parameters
    ----------
    algorithm
        One whose state is numbers alone: "raker", "rfomkr", "ridge", "ridge_rff", ...
    key
        The column of rows by name that holds the key; None: keys are given beside the rows.
    inputs, kernels, D, seed, scaling, lags, horizon, features
        As ``omkl.learner``, of the learner of each key; all have the same random features. The
        defaults are smaller: ``kernels="gauss5"``, ``D=24``.
    interval, interval_rate
        As ``omkl.learner``. All keys share what intervals learn, in units of each key's errors.
    max_keys
        Most keys that are kept, >= 1: of more the one whose last row is the longest ago is
        forgotten. None: none is forgotten, and memory grows with the number of keys.
    share_weights
        Whether all keys share the weights of kernels: each row of any key moves them.
    share_scaling
        Whether inputs are standardised by the rows of all keys, in place of those of each.
        Targets are standardised by those of their key.
    threads
        Threads for blocks of rows, at most 8; None: one per core. Numbers do not depend on it.
    params
        Those of the algorithm, as after ``algorithm.NAME=``, in place of its YAML's.

    Examples
    --------
    >>> panel = omkl.panel(key="device", inputs=["hour", "load"])  # doctest: +SKIP
    >>> panel.predict_one({"device": "a", "hour": 3, "load": 1.5})  # doctest: +SKIP
    0.0
    >>> panel.learn_one({"device": "a", "hour": 3, "load": 1.5}, 2.5)  # doctest: +SKIP
    """
    made = settings.read(
        algorithm, inputs=inputs, kernels=kernels, task=None, classes=None, params=params, D=D,
        seed=seed, scaling=scaling, lags=lags, horizon=horizon,
        interval=interval, interval_rate=interval_rate, features=features,
    )  # fmt: skip
    return Panel(
        made, key=key, max_keys=max_keys, share_weights=share_weights,
        share_scaling=share_scaling, threads=threads,
    )  # fmt: skip


def columns(frame: pd.DataFrame, target: str | None = None) -> pd.DataFrame:
    """What becomes of each column of a data frame, as in a file of the command line.

    Parameters
    ----------
    frame
        The data; its first rows decide.
    target
        The column to predict, which is left out of the table.

    Returns
    -------
    pandas.DataFrame
        One row per column: ``as`` (numbers, categories, hashed, date, left out), the ``inputs``
        that it becomes, and ``why``.
    """
    import pandas as pd

    rows = [column.as_dict() for column in columns_in(frame) if column.name != target]
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
    """A data set as a stream: ``for X, y in omkl.open_stream("airfoil").blocks(1000)``.

    ``dataset`` is the name of one of ``conf/dataset`` or the path of your file, which has a
    ``target``; ``keys`` are those of such a YAML (``inputs``, ``missing``, ``labels``, ...). The
    rest is as ``stream.*`` of a run, with its defaults; ``scaling="none"`` gives the rows as they
    are, for an ``OnlineLearner`` to standardise. Raises DataError, a ValueError, as a run does, and
    ValueError for a key that there is not.
    """
    if isinstance(dataset, Mapping):
        described = dict(dataset)
    elif _is_a_path(dataset):
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


def _is_a_path(dataset: str | Path) -> bool:
    """Whether a file is meant, and no name of a data set."""
    return isinstance(dataset, Path) or not re.fullmatch(r"\w+", dataset)


def run(*what: Any, **settings: Any) -> Results:
    """Run one job as ``omkl-run`` does, or find it finished.

    Parameters
    ----------
    what
        The name of an algorithm, then a data set: a name of the catalogue, the path of a file, or a
        data frame (pandas, Polars, PyArrow). Either may be left out: ``auto`` is the default for
        your own data. A frame is kept as a Parquet file in the folder ``frames`` of the outputs.
        Settings may stand here too, as texts of the command line: ``"algorithm.eta=0.1"``.
    settings
        All others as keywords: ``target="price"``, ``seeds=3``, nested ones as mappings,
        ``stream={"lags": 2}``, or by their dotted names, ``**{"stream.lags": 2}``. Neither figures
        nor tracking, unless they are requested.

    Returns
    -------
    Results
        The numbers by name, data frames and plots.

    Raises
    ------
    ValueError
        A setting that there is none of, or a data set that is none.
    RuntimeError
        The job failed; with what ``omkl-run`` would print.

    Examples
    --------
    >>> omkl.run("auto", frame, target="price")  # doctest: +SKIP
    >>> omkl.run("raker", "naval", seeds=3, stream={"lags": 2})  # doctest: +SKIP
    """
    # Hydra and pydantic, and with them what draws and tracks, where somebody runs something.
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
    """A finished run from its folder: its numbers by name, and ``seeds``, ``curves`` and
    ``predictions`` as data frames. ValueError for a folder that is none, or damaged.
    """
    return Results(folder)


def load_runs(outputs: str | Path = "outputs", *, long: bool = False, **where: Any) -> Runs:
    """The runs below a folder of outputs, as a data frame with one row per run.

    Parameters
    ----------
    outputs
        The folder; runs lie in its folder ``runs``.
    long
        One row per run and seed, in place of one per run.
    where
        Which runs: ``dataset="naval"``, ``algorithm=["raker", "gf"]``, any setting or parameter,
        nested ones as mappings or by dotted names.

    Returns
    -------
    Runs
        A ``pandas.DataFrame`` with ``table()`` and ``plot()``; failed runs have an ``error``.

    Raises
    ------
    ValueError
        There are no runs, none of that kind, or no such setting.
    """
    from omkl.notebook import runs  # pandas

    return runs.load_runs(outputs, long, where)


def sweep(
    algorithms: Any, datasets: Any, *texts: str, n_jobs: int | str | None = 1, **settings: Any
) -> Runs:
    """Run every algorithm on every data set with every value, or find the runs finished.

    Parameters
    ----------
    algorithms, datasets
        One, or a list of them, as ``omkl.run`` takes them.
    texts
        Further settings as on the command line, ``"algorithm.M=5,10"``.
    n_jobs
        Processes, or the address of a Dask scheduler; None: one per core. In a script, more than
        one needs ``if __name__ == "__main__":``, as all that starts processes.
    settings
        As of ``omkl.run``; a list has several values, each a run: ``D=[50, 100]``. A setting that
        is itself a list goes in another: ``inputs=[["a", "b"]]``, ``kernels=[[0.1, 1.0]]``.

    Returns
    -------
    Runs
        A ``pandas.DataFrame`` with one row per run, ``plot()`` and ``table()``. A run that failed
        has its message in the column ``error``, and a warning says so.

    Raises
    ------
    ValueError
        A name or setting that there is none of.
    """
    from omkl.notebook import runs  # pandas

    return runs.sweep(algorithms, datasets, texts, n_jobs, settings)
