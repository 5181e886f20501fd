"""The typed settings of a job.

``read`` checks the composed configuration and returns typed ``Settings``; code below it never sees
the raw mapping. The data set's YAML, the dictionary's and an algorithm's parameters stay mappings:
they are checked where they are read.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from omkl import algorithms, federated
from omkl.config import schema
from omkl.core import hyperparameters
from omkl.core.frequencies import RFF
from omkl.datasets import Stream
from omkl.datasets.base import name_of_file
from omkl.datasets.schema import DATASET, default_order, default_scaling
from omkl.federated.exchange import SERVER, Exchange
from omkl.federated.privacy import NO_SAFEGUARDS, Privacy, Safeguards
from omkl.utils import conf, registry
from omkl.utils.constraints import Constraint
from omkl.utils.extras import how_to_install
from omkl.utils.threads import default_threads

if TYPE_CHECKING:
    pass


INTERVAL = ("interval", "interval_rate")
OF_PANEL = ("max_keys", "share_weights", "share_scaling")  # keys of a data set, as of omkl.panel


class AlgorithmSettings(NamedTuple):
    """Name, parameters as typed by the names of ``Params``, and the module that is not omkl's."""

    name: str
    params: dict[str, Any]
    module: str | None = None


class StreamSettings(NamedTuple):
    """As ``stream.*`` of conf/config.yaml."""

    limit: Any
    scaling: Any
    order: Any
    lags: Any
    delay: Any = 0
    horizon: int = 0

    @property
    def options(self) -> dict[str, Any]:
        """Return the keyword arguments of ``omkl.datasets.open_stream``."""
        return self._asdict()


class RegretSettings(NamedTuple):
    """As ``regret.*`` of conf/config.yaml."""

    ridge_features: bool
    kernel_ridge: bool
    lam: float


class IntervalSettings(NamedTuple):
    """Intervals of a level around predictions; rate None: several, mixed (``core.conformal``)."""

    level: float
    rate: float | None


@dataclasses.dataclass(frozen=True)
class Settings:
    """A checked configuration; fields are named after the keys of conf/config.yaml.

    D and n_clients are None until they are known from data and budget. ``composed`` is the
    configuration as it was composed, of which ``config`` makes what a run folder holds.
    """

    task: str
    algorithm: AlgorithmSettings
    dataset: dict[str, Any]
    kernels: dict[str, Any]
    scheme: str | None  # of a federation; None: one learner on one stream
    n_clients: int | None
    max_upload: int | None
    safeguards: Safeguards
    exchange: Exchange
    stream: StreamSettings
    regret: RegretSettings
    interval: IntervalSettings | None
    D: int | None
    n_seeds: int
    seed: int
    block: int | None
    threads: int | None
    outputs: Path
    figures: bool | str  # "pdf": PDFs beside the PNG files
    predictions: bool | None  # None: where there is one seed
    model: bool
    tracking: str
    force: bool
    composed: Mapping[str, Any] = dataclasses.field(repr=False)

    @property
    def seeds(self) -> list[int]:
        return [self.seed + r for r in range(self.n_seeds)]

    @property
    def keeps_predictions(self) -> bool:
        return self.n_seeds == 1 if self.predictions is None else self.predictions

    @property
    def n_threads(self) -> int:
        """Threads that the job may use."""
        return self.threads or default_threads()

    def resolved(self, **values: Any) -> Settings:
        """The settings with what is known from data or budget."""
        return dataclasses.replace(self, **values)

    @property
    def config(self) -> dict[str, Any]:
        """The configuration with all that is known by now; its key names the run."""
        name, params, module = self.algorithm
        outside = {} if module is None else {"module": module}
        return {
            **self.composed,
            "task": self.task,
            "dataset": self.dataset,
            "stream": self.stream.options,
            "D": self.D,
            "clients": self.n_clients,
            "predictions": self.keeps_predictions,
            "algorithm": {"name": name, **outside, **params},
        }

    def notes(self) -> list[str]:
        """What was changed to fit the dictionary."""
        typed = self.composed["algorithm"]
        return [
            f"algorithm.{key}={typed[key]}, the default, is cut to {value}: the dictionary has no "
            "more kernels"
            for key, value in self.algorithm.params.items()
            if value != typed[key]
        ]


def read(config: Mapping[str, Any]) -> Settings:
    """The settings of a composed configuration.

    The modules that it names, outside the package, are imported: it is the user's.
    Raises ValueError that names the setting and what it may be. The task is the data set's unless
    it is given, or may be either; rows have an order even where none is given. ``auto`` is, in a
    classification, ``auto_classifier``.
    """
    schema.check(config)
    if config["tracking"] == "mlflow" and importlib.util.find_spec("mlflow") is None:
        raise ValueError(
            f"tracking=mlflow needs MLflow, which is not installed: {how_to_install('mlflow')}, or "
            "leave it out: runs are folders all the same"
        )
    registry.declare_named(config)
    if config["algorithm"]["name"] == "auto" and task_in(config) == "classification":
        config = {**config, "algorithm": {**config["algorithm"], "name": "auto_classifier"}}
    config = _in_one_form(config)
    name, dataset, stream = config["algorithm"]["name"], config["dataset"], config["stream"]
    federation = config["federation"]
    scheme = None if federation["name"] == "none" else str(federation["name"])
    task = _checked_task(config, scheme)
    order, scaling = stream["order"], stream["scaling"]
    if order is None:
        order = default_order(dataset, task)
    if scaling is None:
        scaling = default_scaling(dataset, scheme)
    if dataset.get("key") is not None and scheme is not None:
        raise ValueError(
            f"dataset.key={dataset['key']!r} gives each key a learner of its own, and the clients "
            "of a federation share a learner: leave one of the two out"
        )
    of_panel = [key for key in OF_PANEL if dataset.get(key) not in (None, False)]
    if dataset.get("key") is None and of_panel:
        raise ValueError(
            f"dataset.{of_panel[0]} is of a panel: name the column of keys, key=COLUMN"
        )
    if scheme is not None and config["model"]:
        raise ValueError("model=true is of one learner, not of a federation")
    if scheme is not None and (late := _late(stream)):
        raise ValueError(
            f"{late[0]} is of one stream of rows; clients of a federation learn each target at "
            "once: leave it out"
        )
    if scheme is None and name in federated.names():
        raise ValueError(
            f"{name} learns in a federation: add federation=iid clients=K, "
            "federation=by_site or federation=column"
        )
    if scheme is None and config["clients"] is not None:
        raise ValueError(f"clients={config['clients']} is for a federation: add federation=iid")
    return Settings(
        task=task,
        algorithm=AlgorithmSettings(
            name,
            {k: value for k, value in config["algorithm"].items() if k not in NO_PARAMETERS},
            registry.names_outside().get(name),
        ),
        dataset={**dataset, "task": task},
        kernels=with_features(config["kernels"], config.get("features", RFF)),
        scheme=scheme,
        n_clients=config["clients"],
        max_upload=config["max_upload"],
        safeguards=_safeguards_of(config, scheme),
        exchange=_exchange_of(config, scheme),
        stream=StreamSettings(
            stream["limit"],
            scaling,
            order,
            stream.get("lags", 0),
            stream.get("delay", 0),
            stream.get("horizon", 0),
        ),
        regret=RegretSettings(**{key: config["regret"][key] for key in RegretSettings._fields}),
        interval=interval_of(config, task, scheme),
        outputs=Path(config["outputs"]),
        n_seeds=config["seeds"],
        composed=config,
        **{key: config[key] for key in _PLAIN},
    )


def _late(stream: Mapping[str, Any]) -> list[str]:
    """The settings that let targets come late."""
    return [f"stream.{key}" for key in ("delay", "horizon") if stream.get(key)]


def with_features(kernels: Mapping[str, Any], features: str) -> dict[str, Any]:
    """The content of a YAML of ``conf/kernels`` that says how features are drawn, unless plainly.

    ValueError where it says so already, and otherwise.
    """
    if "features" in kernels and features not in (RFF, kernels["features"]):
        raise ValueError(
            f"features={features} and kernels.features={kernels['features']} differ: give one"
        )
    return dict(kernels) if features == RFF else {**kernels, "features": features}


def _in_one_form(config: Mapping[str, Any]) -> dict[str, Any]:
    """The checked configuration with each number written in one way, so that it names one run.

    lam=0 is lam=0.0 and lam="0".
    """
    tables = {name: schema.constraints(name) for name in schema.sections() if name in config}
    sections = {
        name: _with_floats(config[name], table)
        for name, table in {"dataset": DATASET, **tables}.items()
    }
    sections["algorithm"] = _parameters_in_one_form(config["algorithm"])
    sections["kernels"] = _with_whole_numbers(config["kernels"])
    return {**config, **_with_floats(config, schema.constraints()), **sections}


def _with_floats(section: Mapping[str, Any], table: Mapping[str, Constraint]) -> dict[str, Any]:
    """1.0 for 1 where any number may stand, and no word."""
    numbers = {key for key, rule in table.items() if rule.holds(0.5) and not rule.holds("a")}
    return {
        key: float(value) if type(value) is int and key in numbers else value
        for key, value in section.items()
    }


def _with_whole_numbers(value: Any) -> Any:
    """1 for 1.0, in lists and mappings too."""
    if isinstance(value, Mapping):
        return {key: _with_whole_numbers(held) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [_with_whole_numbers(held) for held in value]
    return int(value) if type(value) is float and value.is_integer() else value


def _parameters_in_one_form(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters with numbers as the algorithm's YAML has them."""
    defaults, same = _defaults(params["name"]), dict(params)
    for key, value in same.items():
        default = defaults.get(key)
        is_number = isinstance(default, float | str) or (key in defaults and default is None)
        if is_number and key not in NO_PARAMETERS:
            if type(value) is int or (isinstance(value, str) and _PLAIN_NUMBER.fullmatch(value)):
                same[key] = float(value)
        elif type(value) is float and value.is_integer() and type(default) is int:
            same[key] = int(value)
    return same


def _defaults(name: str) -> Mapping[str, Any]:
    """The algorithm's YAML; {} where it lies in a folder of ``--config-dir``."""
    try:
        return conf.entry("algorithm", name)
    except conf.MissingEntry:
        return {}


_PLAIN_NUMBER = re.compile(r"\d+(\.\d*)?(e[+-]?\d+)?")


def _safeguards_of(config: Mapping[str, Any], scheme: str | None) -> Safeguards:
    """What ``clients_per_round``, ``robust`` and ``privacy`` ask for."""
    robust, privacy = config.get("robust", {}), config.get("privacy", {})
    noise = None if privacy.get("epsilon") is None else Privacy(**privacy)
    asked = Safeguards(config.get("clients_per_round"), **robust, privacy=noise)
    if scheme is None and asked != NO_SAFEGUARDS:
        raise ValueError(
            "clients_per_round, robust and privacy are of a federation: add federation=iid"
        )
    return asked


def _exchange_of(config: Mapping[str, Any], scheme: str | None) -> Exchange:
    """What ``exchange`` asks for; one whose graph is not random has no probability of an edge."""
    asked = Exchange(**config.get("exchange", {}))
    if scheme is None and asked != SERVER:
        raise ValueError("exchange is of a federation: add federation=iid")
    if asked.edges != SERVER.edges and asked.graph != "random":
        raise ValueError(f"exchange.edges={asked.edges} is of exchange.graph=random")
    return asked


def interval_of(
    config: Mapping[str, Any], task: str, scheme: str | None = None
) -> IntervalSettings | None:
    """What ``interval`` and ``interval_rate`` ask for; ValueError says what they may be."""
    level, rate = (config.get(key) for key in INTERVAL)
    if level is None:
        if rate is not None:
            raise ValueError(f"interval_rate={rate!r} is of an interval: add interval=0.9")
        return None
    if task != "regression" or scheme is not None:
        where = "a federation" if scheme else "a classification"
        raise ValueError(
            f"interval={level!r} is only available for regression of one stream: this is {where}"
        )
    return IntervalSettings(level, rate)


_PLAIN = (
    "D", "seed", "block", "threads", "figures", "predictions", "model",
    "tracking", "force",
)  # fmt: skip
NO_PARAMETERS = ("name", "module")  # of an algorithm's YAML


def with_defaults_cut(settings: Settings, Params: type, sizes: Mapping[str, int]) -> Settings:
    """The settings with defaults of the algorithm's YAML that are too large for a dictionary cut.

    What differs from the YAML was typed, and is left to be refused.
    """
    name, params, module = settings.algorithm
    cut = hyperparameters.with_defaults_cut(Params, params, _defaults(name), sizes)
    return settings.resolved(algorithm=AlgorithmSettings(name, cut, module))


def _checked_task(config: Mapping[str, Any], scheme: str | None) -> str:
    """The task; ValueError where data set and algorithm are for different ones."""
    name, dataset = config["algorithm"]["name"], config["dataset"]
    task = task_in(config)
    if task != dataset["task"] and not _may_be_either(dataset):
        raise ValueError(
            f"{dataset['name']} is a data set for {dataset['task']}, not for {task}: leave task out"
        )
    if task_of(name) != task:
        registry = algorithms if scheme is None else federated
        fitting = [n for n in registry.names() if task_of(n) == task]
        raise ValueError(
            f"{name} is an algorithm for {task_of(name)}, and {dataset['name']} is run as a {task} "
            "(task, or dataset.task); for that there are: "
            f"{', '.join(fitting) or 'none in a federation'}"
        )
    return task


def task_in(config: Mapping[str, Any]) -> str:
    """The task that is meant: what may be either is classified where the algorithm does that.

    "" for a data set that does not say its own, which the schema refuses.
    """
    registry.declare_named(config)
    dataset = config["dataset"]
    if config.get("task") or not _may_be_either(dataset):
        return str(config.get("task") or dataset.get("task", ""))
    name = config["algorithm"]["name"]
    return "classification" if task_of(name) == "classification" else str(dataset.get("task", ""))


def _may_be_either(dataset: Mapping[str, Any]) -> bool:
    """Whether it is a file of the user's, or the synthetic stream."""
    return "path" in dataset or "n_centres" in dataset


def task_of(name: str) -> str:
    """The task of an algorithm, in a federation or not."""
    return "regression" if name in federated.names() else algorithms.load(name).task


def content_addressed(settings: Settings, stream: Stream) -> Settings:
    """The settings with the user's file named by its content instead of its place.

    So the run folder can move, and a file that has changed makes another run.
    """
    dataset = settings.dataset
    if "path" in dataset:
        (file,) = stream.provenance["files"]
        dataset = dataset | {"path": file["name"], "sha256": file["sha256"]}
        if dataset["name"] == "file":  # as no other file and no entry of the catalogue
            dataset["name"] = f"{name_of_file(file['name'])}-{file['sha256'][:4]}"
    limit = settings.stream.limit
    if not stream.is_cut:
        limit = None  # one above the rows cuts nothing
    renamed = settings.stream._replace(limit=limit)
    return dataclasses.replace(settings, dataset=dataset, stream=renamed)
