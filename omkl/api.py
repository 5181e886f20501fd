"""What is called from Python: ``import omkl`` and the functions here, imported when asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omkl import datasets
from omkl.config.compose import compose
from omkl.datasets.schema import default_order, default_scaling
from omkl.online import settings
from omkl.online.learner import OnlineLearner
from omkl.online.learner import load as load_learner
from omkl.online.specification import FEATURES
from omkl.runs.config_file import override_text
from omkl.runs.frames import Results
from omkl.utils import conf

if TYPE_CHECKING:
    from omkl.datasets import Stream

__all__ = ["OnlineLearner", "Results", "learner", "load", "load_learner", "open_stream", "run"]


def learner(
    algorithm: str = "auto",
    *,
    inputs: int | Sequence[str],
    kernels: str | Mapping[str, Any] = "rbf51_lap25",
    D: int = FEATURES,
    seed: int = 0,
    task: str | None = None,
    classes: Sequence[Any] | None = None,
    scaling: str = "columns",
    lags: int = 0,
    horizon: int | None = None,
    interval: float | None = None,
    interval_rate: float | None = None,
    precision: str = "float64",
    first_rows: Any = None,
    **params: Any,
) -> OnlineLearner:
    """A learner that has seen nothing; a ValueError names the setting and what it may be.

    Parameters
    ----------
    algorithm
        Its name, as after ``algorithm=``.
    inputs
        How many, or their names.
    kernels
        A dictionary of ``conf/kernels``, or a mapping as such a file holds.
    D
        Random features a kernel.
    seed
        Whatever is drawn follows from it.
    task
        "regression" or "classification"; None: the algorithm's.
    classes
        Of a classification, words or numbers: of two the first is -1 and the second +1.
    scaling
        "columns": inputs and labels are standardised by what was seen; "none": taken as they are.
    lags
        How many past labels are inputs besides.
    horizon
        T, where a parameter names it (``eta="1/sqrt(T)"``).
    interval
        A level, 0.9 say: intervals that hold so often, also when the stream changes.
    interval_rate
        One rate at which they adapt; None: eight, mixed.
    precision
        "float64" or "float32", of the random features.
    first_rows
        Rows of the stream, without labels, for the algorithms that look at some in advance.
    params
        Those of the algorithm, as after ``algorithm.NAME=``, in place of its YAML's.
    """
    made = settings.read(
        algorithm, inputs=inputs, kernels=kernels, task=task, classes=classes, params=params, D=D,
        precision=precision, seed=seed, scaling=scaling, lags=lags, horizon=horizon,
        interval=interval, interval_rate=interval_rate,
    )  # fmt: skip
    return OnlineLearner(made, first_rows)


def open_stream(
    dataset: str | Path | Mapping[str, Any],
    target: str | int | None = None,
    *,
    task: str | None = None,
    scaling: str | None = None,
    order: str | None = None,
    limit: int | None = None,
    lags: int = 0,
    seed: int = 0,
    **keys: Any,
) -> Stream:
    """A data set as a stream: ``for X, y in omkl.open_stream("airfoil").blocks(1000)``.

    ``dataset`` is the name of one of ``conf/dataset`` or the path of an own file, which has a
    ``target``; ``keys`` are those of such a YAML (``inputs``, ``missing``, ``labels``, ...). The
    rest is as ``stream.*`` of a run, with its defaults; ``scaling="none"`` gives the rows as they
    are, for an ``OnlineLearner`` to standardise. Raises DataError, a ValueError, as a run does.
    """
    if isinstance(dataset, Mapping):
        described = dict(dataset)
    elif _is_a_path(dataset):
        described = conf.entry("dataset", "file") | {"path": str(dataset)}
    else:
        described = conf.chosen("dataset", str(dataset))
    described |= keys | ({} if target is None else {"target": target})
    described["task"] = task or described.get("task", "regression")
    options = {
        "limit": limit,
        "scaling": default_scaling(described) if scaling is None else scaling,
        "order": default_order(described, described["task"]) if order is None else order,
        "lags": lags,
    }
    return datasets.open_stream(described, options, seed)


def _is_a_path(dataset: str | Path) -> bool:
    """Whether a file is meant, and no name of a data set."""
    return isinstance(dataset, Path) or not re.fullmatch(r"\w+", dataset)


def run(*overrides: str, **settings: Any) -> Results:
    """Run one job as ``omkl-run`` does, or find it finished: ``omkl.run("algorithm=gf", seeds=3)``.

    Settings are texts as on the command line, or keywords where their names have no dot. Neither
    figures nor tracking, unless they are asked for. Raises ValueError for settings that there are
    none of, and RuntimeError, with what ``omkl-run`` would print, where the job fails.
    """
    # Hydra, and with it what draws and tracks, where somebody runs something.
    from omkl import viewers
    from omkl.config.command_line import CommandLine
    from omkl.experiment import kept_model

    given = [*overrides, *(f"{key}={_as_typed(value)}" for key, value in settings.items())]
    typed = {text.partition("=")[0] for text in given}
    quiet = {"figures": "false", "tracking": "none"}
    given += [f"{key}={value}" for key, value in quiet.items() if key not in typed]
    config = compose(CommandLine(given).checked())
    if config["resume"] is not None:
        config = kept_model.continued(config, [text.partition("=")[0] for text in given])
    outcome = viewers.run_and_show(config)
    if outcome.status == "failed":
        raise RuntimeError(outcome.run.result["error"]["message"])
    return Results(outcome.run.folder)


def _as_typed(value: Any) -> str:
    """A value as it stands on the command line: text that looks like a number is one."""
    text = str(value) if isinstance(value, Path) else value
    plain = isinstance(text, str) and re.fullmatch(r"[\w./+-]+", text)
    return text if plain else override_text(text)


def load(folder: str | Path) -> Results:
    """A finished run from its folder: its numbers by name, and ``seeds``, ``curves`` and
    ``predictions`` as data frames. ValueError for a folder that is none, or damaged.
    """
    return Results(folder)
