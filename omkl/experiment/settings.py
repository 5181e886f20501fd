"""The settings of a job, checked before anything is opened."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from omkl import algorithms, federated
from omkl.datasets import Stream, label_sources
from omkl.datasets.download import sha256_of


def with_task(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with its task in ``dataset.task`` alone and with an order of the rows.

    ValueError where data set and algorithm are for different tasks.
    """
    dataset, stream = dict(config["dataset"]), dict(config["stream"])
    name = config["algorithm"]["name"]
    own, task = task_of(name), task_in(config)
    if task not in ("regression", "classification"):
        raise ValueError(f"task={task!r}; there are: regression, classification")
    if task != dataset["task"] and not _may_be_either(dataset):
        raise ValueError(f"{dataset['name']} is a data set for {dataset['task']}, not for {task}")
    dataset["task"] = task
    if own != task:
        together = federated if config["federation"]["name"] != "none" else algorithms
        fitting = [n for n in together.names() if task_of(n) == task]
        raise ValueError(
            f"{name} is an algorithm for {own}, and {dataset['name']} is run as a {task}; for "
            f"that there are: {', '.join(fitting) or 'none in a federation'}"
        )
    if stream["order"] is None:
        shuffle = task == "classification" and "file" in dataset
        stream["order"] = "shuffled" if shuffle else "file"
    rest = {key: value for key, value in config.items() if key != "task"}
    return {**rest, "dataset": dataset, "stream": stream}


def task_in(config: Mapping[str, Any]) -> str:
    """The task that is meant: what may be either is classified where the algorithm does that."""
    dataset = config["dataset"]
    given: str = config.get("task") or dataset["task"]
    if config.get("task") or not _may_be_either(dataset):
        return given
    own = task_of(config["algorithm"]["name"])
    return own if own == "classification" else given


def _may_be_either(dataset: Mapping[str, Any]) -> bool:
    """Whether it is an own file, or the synthetic stream."""
    return "path" in dataset or "n_centres" in dataset


def task_of(name: str) -> str:
    """The task of an algorithm, in a federation or not."""
    return "regression" if name in federated.names() else algorithms.load(name).task


def check_settings(config: Mapping[str, Any]) -> None:
    """Types and ranges of what belongs to no algorithm and no data set."""
    regret = config["regret"]
    whole = [("seeds", 1), ("seed", 0), ("block", 1)]
    numbers = [(key, config[key], low) for key, low in whole]
    numbers += [] if config["D"] is None else [("D", config["D"], 1)]
    numbers += [(f"regret.{key}", regret[key], 0) for key in ("max_rounds", "kernel_ridge_rounds")]
    if config["threads"] is not None:
        numbers.append(("threads", config["threads"], 1))
    for key, value, low in numbers:
        if isinstance(value, bool) or not isinstance(value, int) or value < low:
            raise ValueError(f"{key}={value!r} is not a whole number of at least {low}")
    switches = [(key, config[key]) for key in ("figures", "force", "fail_fast")]
    switches += [
        (f"regret.{key}", regret[key])
        for key in ("ridge_features", "kernel_ridge", "mistake_bound")
    ]
    for key, value in switches:
        if not isinstance(value, bool):
            raise ValueError(f"{key}={value!r} is not true or false")
    if config["tracking"] not in ("mlflow", "none"):
        raise ValueError(f"tracking={config['tracking']!r}; there are: mlflow, none")
    lam = regret["lam"]
    if isinstance(lam, bool) or not isinstance(lam, int | float) or not 0 <= lam < np.inf:
        raise ValueError(f"regret.lam={lam!r} is not a number of at least 0")


def named_by_content(config: Mapping[str, Any], stream: Stream) -> dict[str, Any]:
    """The configuration with an own file named by its content instead of its place.

    So the run folder can move, and a file that has changed makes another run.
    """
    dataset, settings = dict(config["dataset"]), dict(config["stream"])
    if "path" in dataset:
        (file,) = stream.provenance["files"]
        dataset |= {"path": file["name"], "sha256": file["sha256"]}
    if settings["labels"] not in label_sources.SOURCES:
        path = Path(settings["labels"])
        settings["labels"] = f"{path.name} sha256:{sha256_of(path)}"
    return {**config, "dataset": dataset, "stream": settings}


def fit_to_algorithm(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration without the parameters that are another algorithm's.

    In a sweep ``algorithm.M=5,10`` meets learners that have no M; they run without it.
    """
    given = dict(config["algorithm"])
    own = _parameters(given["name"])
    known = _parameters_of_all()
    kept = {k: v for k, v in given.items() if k == "name" or k in own or k not in known}
    return {**config, "algorithm": kept}


def _parameters(name: str) -> tuple[str, ...]:
    known = federated if name in federated.names() else algorithms
    return known.load(name).Params._fields


@functools.cache
def _parameters_of_all() -> frozenset[str]:
    return frozenset(
        field for name in (*algorithms.names(), *federated.names()) for field in _parameters(name)
    )
