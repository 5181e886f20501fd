"""Complete settings with values that follow from other settings, from the data set and the rows.

``complete`` sets values that the user did not set, and refuses settings that do not fit together.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from typing import Any

from omkl import algorithms, federated
from omkl.config.schema import Settings
from omkl.core import hyperparameters
from omkl.core.conformal import interval_of
from omkl.datasets import Stream
from omkl.datasets.base import default_order, default_scaling, name_of_file
from omkl.federated.exchange import SERVER
from omkl.federated.privacy import NO_SAFEGUARDS
from omkl.utils import conf, registry
from omkl.utils.wording import how_to_install

OF_PANEL = ("max_series", "share_weights", "share_scaling")  # arguments of omkl.panel
SHARED = OF_PANEL[1:]


def complete(settings: Settings) -> Settings:
    """Return the settings with all values that follow from other settings.

    In a classification ``auto`` becomes ``auto_classifier``. If the settings name a module outside
    the package, this function imports it. So pass only settings that the user wrote. Raises
    ValueError naming settings that do not fit together.
    """
    if settings.tracking == "mlflow" and importlib.util.find_spec("mlflow") is None:
        raise ValueError(
            f"tracking=mlflow needs MLflow, which is not installed: {how_to_install('mlflow')}, or "
            "leave it out: runs are folders all the same"
        )
    task = task_in(settings)
    name = settings.algorithm.name
    if name == "auto" and task == "classification":
        name = "auto_classifier"
    _require_task(settings, name, task)
    _require_series(settings, name)
    _require_federation(settings, name)
    where = "a federation" if settings.scheme else "a classification" * (task != "regression")
    interval_of(settings.interval, settings.interval_rate, where)
    algorithm = {**_parameters_in_one_form(name, settings.algorithm.params), "name": name}
    if module := registry.names_outside().get(name):
        algorithm["module"] = module
    stream, dataset = settings.stream, settings.dataset
    return settings.replaced(
        task=task,
        algorithm=settings.algorithm.replaced(**algorithm),
        dataset={**dataset, "task": task},
        kernels=_with_whole_numbers(settings.kernels),
        predictions=settings.keeps_predictions,
        stream=stream.replaced(
            order=stream.order or default_order(dataset, task),
            scaling=stream.scaling or default_scaling(dataset, settings.scheme),
        ),
    )


def _require_series(settings: Settings, name: str) -> None:
    """Raise ValueError if settings of series do not fit each other or the algorithm."""
    dataset, series = settings.dataset, settings.dataset.get("series")
    of_panel = [name for name in OF_PANEL if dataset.get(name) not in (None, False)]
    hindsight = [key for key, value in settings.regret if value is True]
    if series is None and of_panel:
        raise ValueError(f"dataset.{of_panel[0]} is of series: name their column, series=COLUMN")
    if series is not None and settings.scheme is not None:
        raise ValueError(
            f"dataset.series={series!r} gives each series a learner of its own, and the clients of "
            "a federation share a learner: leave one of the two out"
        )
    if series is not None and hindsight:
        raise ValueError(
            f"regret.{hindsight[0]}=true needs one stream, and dataset.series={series!r} names "
            "several: leave one of the two out"
        )
    if name != "auto" and dataset.get("season") is not None:
        raise ValueError(
            f"dataset.season={dataset['season']} needs auto, and {name} has no "
            "seasons: leave out this setting or algorithm="
        )
    if name == "auto" and (shared := [one for one in of_panel if one in SHARED]):
        raise ValueError(
            f"dataset.{shared[0]} needs a learner per series, and {name} is one learner of all: "
            "leave it out"
        )


def _require_federation(settings: Settings, name: str) -> None:
    """Raise ValueError if settings of a federation contradict others, or if there is none."""
    exchange = settings.message_exchange
    if exchange.edges != SERVER.edges and exchange.graph != "random":
        raise ValueError(f"exchange.edges={exchange.edges} needs exchange.graph=random")
    if settings.scheme is not None:
        if settings.model:
            raise ValueError("model=true needs a run of one learner, not a federation")
        if late := [key for key in ("delay", "horizon") if getattr(settings.stream, key)]:
            raise ValueError(
                f"stream.{late[0]} is not available in a federation, whose clients learn each "
                "target at once: leave it out"
            )
    elif name in federated.names():
        raise ValueError(
            f"{name} learns in a federation: add federation=iid clients=K, "
            "federation=by_site or federation=column"
        )
    elif settings.clients is not None:
        raise ValueError(f"clients={settings.clients} needs a federation: add federation=iid")
    elif settings.safeguards != NO_SAFEGUARDS:
        raise ValueError(
            "clients_per_round, robust and privacy need a federation: add federation=iid"
        )
    elif exchange != SERVER:
        raise ValueError("exchange needs a federation: add federation=iid")


def _with_whole_numbers(value: Any) -> Any:
    """Convert 1.0 to 1, also in lists and mappings, so that equal settings have equal keys."""
    if isinstance(value, Mapping):
        return {key: _with_whole_numbers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_whole_numbers(inner) for inner in value]
    return int(value) if type(value) is float and value.is_integer() else value


def _parameters_in_one_form(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Convert numbers to the types in the YAML file, so that equal settings have equal keys."""
    defaults, same = _defaults(name), dict(params)
    for key, value in same.items():
        default = defaults.get(key)
        if isinstance(default, float | str) or (key in defaults and default is None):
            if type(value) is int or (isinstance(value, str) and _PLAIN_NUMBER.fullmatch(value)):
                same[key] = float(value)
        elif type(value) is float and value.is_integer() and type(default) is int:
            same[key] = int(value)
    return same


def _defaults(name: str) -> Mapping[str, Any]:
    """Return the content of the algorithm's YAML file; {} if it is not in ``conf``."""
    try:
        return conf.entry("algorithm", name)
    except conf.MissingEntry:
        return {}


_PLAIN_NUMBER = re.compile(r"\d+(\.\d*)?(e[+-]?\d+)?")


def with_defaults_cut(settings: Settings, Params: type, sizes: Mapping[str, int]) -> Settings:
    """Reduce parameters that are too large for the dictionary, if they are defaults.

    A parameter that the user set does not change. If it is too large, it is refused later.

    Parameters
    ----------
    settings
        Settings of the run.
    Params
        Type of the algorithm's parameters, with their ranges.
    sizes
        Numbers that ranges may contain as letters: N kernels, and D features per kernel.

    Returns
    -------
    Settings
        The settings, with a note for each reduced value.
    """
    given = settings.algorithm.params
    defaults = _defaults(settings.algorithm.name)
    cut = hyperparameters.with_defaults_cut(Params, given, defaults, sizes)
    notes = [
        f"algorithm.{key}={given[key]}, the default, is cut to {value}: the dictionary has no more "
        "kernels"
        for key, value in cut.items()
        if value != given[key]
    ]
    return settings.with_parameters(cut, notes)


def _require_task(settings: Settings, name: str, task: str) -> None:
    """Raise ValueError if the task does not fit the data set or the algorithm."""
    dataset = settings.dataset
    if task != dataset["task"] and not _may_be_either(dataset):
        raise ValueError(
            f"{dataset['name']} is a data set for {dataset['task']}, not for {task}: leave task out"
        )
    if task_of(name) != task:
        registry = algorithms if settings.scheme is None else federated
        fitting = [n for n in registry.names() if task_of(n) == task]
        raise ValueError(
            f"{name} is an algorithm for {task_of(name)}, and {dataset['name']} is run as a {task} "
            "(task, or dataset.task); for that there are: "
            f"{', '.join(fitting) or 'none in a federation'}"
        )


def task_in(settings: Settings) -> str:
    """Return the task of a run.

    If the data set fits both tasks and the user set none, the algorithm decides.
    """
    registry.declare_named({"algorithm": dict(settings.algorithm), "kernels": settings.kernels})
    dataset = settings.dataset
    if settings.task or not _may_be_either(dataset):
        return str(settings.task or dataset["task"])
    of_algorithm = task_of(settings.algorithm.name)
    return "classification" if of_algorithm == "classification" else str(dataset["task"])


def _may_be_either(dataset: Mapping[str, Any]) -> bool:
    """Return whether a data set fits both tasks: a user's file, or the synthetic stream."""
    return "path" in dataset or "n_centres" in dataset


def task_of(name: str) -> str:
    """Return the task of an algorithm, which may be federated."""
    return "regression" if name in federated.names() else algorithms.load(name).task


def content_addressed(settings: Settings, stream: Stream) -> Settings:
    """Return the settings with the digest of the user's file in place of its path.

    The run folder then has no absolute path, and a file with other content gives another run.
    """
    dataset = settings.dataset
    if "path" in dataset:
        (file,) = stream.provenance["files"]
        dataset = dataset | {"path": file["name"], "sha256": file["sha256"]}
        if dataset["name"] == "file":  # a name that no other file or data set has
            dataset["name"] = f"{name_of_file(file['name'])}-{file['sha256'][:4]}"
    # A limit that exceeds the number of rows has no effect and must not change the key.
    limit = settings.stream.limit if stream.is_cut else None
    return settings.replaced(dataset=dataset, stream=settings.stream.replaced(limit=limit))
