"""Define the settings of a run, with the type, the range, the default and the help of each.

``read`` converts a composed configuration to typed ``Settings``. ``omkl.config.settings`` then sets
values that follow from other settings. Other modules define the rest: ``omkl.datasets.schema`` the
settings of a data set, and ``omkl.core.kernels`` the kernels of a dictionary. The parameters of an
algorithm are defined by the annotations of its ``Params`` (``omkl.core.hyperparameters``), because
users add algorithms, and ranges can depend on the dictionary and on the rows.

Hydra composes a run from ``DEFAULTS`` and the files that conf/config.yaml chooses.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, PlainSerializer, PrivateAttr

from omkl.datasets.schema import Stream, Task, check_dataset
from omkl.utils import conf, sections
from omkl.utils.constraints import is_text
from omkl.utils.sections import Accepted, Content, Section, Writable
from omkl.utils.threads import default_threads

if TYPE_CHECKING:
    from omkl.core.conformal import IntervalSettings
    from omkl.federated.exchange import Exchange as MessageExchange
    from omkl.federated.privacy import Safeguards

GROUPS = ("algorithm", "dataset", "kernels", "federation")

Share = Annotated[float, Field(gt=0, lt=1)]
Size = Annotated[float, Field(gt=0, le=1e100)]
Whole = Annotated[int, Field(ge=1)]


def _folder(value: Any) -> Any:
    return Path(value) if is_text(value) else value


class Algorithm(Section):
    """Algorithm and its parameters as given. ``module`` is None for an algorithm of omkl."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Writable]

    name: str
    module: str | None = None

    @property
    def params(self) -> dict[str, Any]:
        """Parameters of the algorithm, by name."""
        return dict(self.model_extra or {})


class Federation(Section):
    """Scheme by which the rows of a data set are divided among clients."""

    name: Literal["none", "iid", "in_turn", "consecutive", "by_site", "column"]
    rounds: Annotated[int, Field(ge=2)] | None = None
    home: Whole | None = None
    away: Annotated[int, Field(ge=0)] | None = None


class Robust(Section):
    max_change: Size | None = Field(
        None, description="the server refuses messages that change more than this norm"
    )
    max_loss: Size | None = Field(
        None, description="the server refuses messages with larger losses"
    )
    trim: float = Field(
        0.0,
        ge=0,
        le=0.5,
        description="share of values discarded at either end of each coordinate; 0.5: the median",
    )


class Privacy(Section):
    epsilon: float | None = Field(
        None,
        ge=1e-3,
        le=1e6,  # far above any useful privacy; the accounting works up to here
        description="epsilon of a unit, which sets the noise on messages; null: no noise",
    )
    delta: float = Field(1e-5, ge=1e-100, lt=1, description="delta of a unit")
    unit: Literal["sample", "client"] = Field(
        "sample", description="protected unit: sample, a row; client, all rows of a client"
    )
    clip: Size = Field(0.1, description="largest norm of a message's change")
    clip_losses: Size = Field(1.0, description="largest norm of a message's losses")


class Exchange(Section):
    graph: Literal["complete", "ring", "grid", "random"] | None = Field(
        None, description="clients send to their neighbours on this graph; null: to a server"
    )
    edges: Share = Field(0.3, description="probability of an edge of the random graph")
    every: int = Field(1, ge=1, le=10**6, description="rounds between two exchanges of messages")
    bits: int | None = Field(
        None,
        ge=2,
        le=32,
        description="bits of an entry of a message, rounded at random; null: float64",
    )


class Regret(Section):
    ridge_features: bool = Field(
        False,
        description="compare with ridge regression on each kernel's random features in hindsight, "
        "which can take 20 times as long as the learner",
    )
    kernel_ridge: bool = Field(
        False,
        description="compare with kernel ridge regression in hindsight: T^3 operations and T^2 "
        "numbers of memory for T rows and each kernel",
    )
    lam: float = Field(  # times the number of rounds it cannot overflow
        1e-3, ge=0, le=1e100, description="regularisation per round of both comparators"
    )


class Settings(Section):
    """Settings of a run.

    Ranges are wide, and ``experiment.memory`` checks whether their combination fits into memory.
    Settings such as ``task`` and ``D`` are None if the user does not set them. They get values when
    the data set and the rows are known.
    """

    algorithm: Algorithm
    dataset: Content
    kernels: Content
    federation: Federation

    task: Task | None = Field(None, description="what is learned; null: the task of the data set")
    D: int | None = Field(
        None,
        ge=1,
        le=10**6,
        description="random features per kernel; null: 50, or in a federation as max_upload allows",
    )
    features: Literal["rff", "orthogonal", "qmc"] = Field(
        "rff",
        description="how random frequencies are drawn: rff, independently; orthogonal, in "
        "orthogonal blocks (Gaussian kernels); qmc, evenly by a scrambled Sobol sequence",
    )
    seeds: int = Field(20, ge=1, le=10_000, description="R, repetitions with fresh random features")
    seed: int = Field(0, ge=0, lt=2**63 - 10_000, description="the first seed")
    interval: Share | None = Field(
        None,
        description="0.9: intervals around predictions that cover 90 % of the targets, "
        "also after the stream changes; null: none",
    )
    interval_rate: Share | None = Field(
        None, description="rate at which intervals adapt; null: a mixture of eight rates"
    )
    clients: int | None = Field(
        None,
        ge=1,
        le=100_000,
        description="K, number of clients; null: as published for the data set",
    )
    max_upload: int | None = Field(
        1000,
        ge=1,
        le=10**7,
        description="numbers that a client of a federation may send per round; null: any",
    )
    clients_per_round: int | None = Field(
        None,
        ge=1,
        le=100_000,
        description="clients requested to send messages, drawn at random; null: all",
    )
    robust: Robust = Robust()
    privacy: Privacy = Privacy()
    exchange: Exchange = Exchange()
    stream: Stream = Stream()
    regret: Regret = Regret()
    threads: int | None = Field(
        None, ge=1, le=1_024, description="seeds computed in parallel; null: one per core"
    )
    block: int | None = Field(
        None,
        ge=1,
        le=10**6,
        description="rows of a block; null: the rows of about a second, at most 16,384 rows and "
        "16 MB",
    )
    outputs: Annotated[
        Path,
        BeforeValidator(_folder),
        PlainSerializer(str),
        Accepted(lambda value: True, "the folder that results go to"),
    ] = Field(Path("outputs"), description="folder of the results")
    figures: bool | Literal["pdf"] = Field(True, description="draw figures; pdf: each as PDF too")
    predictions: bool | None = Field(
        None, description="keep predictions.parquet; null: with one seed"
    )
    model: bool = Field(
        False,
        description="keep model.npz, the learner of one seed, for omkl-predict and "
        "omkl.load_learner",
    )
    tracking: Literal["auto", "mlflow", "none"] = Field(
        "auto", description="where runs are logged; auto: in MLflow, if it is installed"
    )
    force: bool = Field(False, description="compute finished runs again")
    fail_fast: bool = Field(False, description="end a sweep at the first failure")

    _notes: list[str] = PrivateAttr(default_factory=list)

    @property
    def notes(self) -> list[str]:
        """Remarks to the user about settings that were changed."""
        return list(self._notes)

    def with_parameters(self, params: Mapping[str, Any], notes: list[str]) -> Settings:
        """Return the settings with other parameters of the algorithm, and notes about them."""
        changed = self.replaced(algorithm=self.algorithm.replaced(**params))
        changed._notes = [*self._notes, *notes]
        return changed

    @property
    def scheme(self) -> str | None:
        """Name of the scheme of a federation; None without a federation."""
        return None if self.federation.name == "none" else self.federation.name

    @property
    def seed_list(self) -> list[int]:
        return [self.seed + r for r in range(self.seeds)]

    @property
    def keeps_predictions(self) -> bool:
        return self.seeds == 1 if self.predictions is None else self.predictions

    @property
    def n_threads(self) -> int:
        """Number of threads that the job may use."""
        return self.threads or default_threads()

    @property
    def intervals(self) -> IntervalSettings | None:
        """Settings of the prediction intervals; None without intervals."""
        if self.interval is None:
            return None
        from omkl.core.conformal import IntervalSettings  # imported here: NumPy takes 0.1 s

        return IntervalSettings(self.interval, self.interval_rate)

    @property
    def placed_kernels(self) -> dict[str, Any]:
        """Content of the dictionary's YAML file, with the setting ``features`` added."""
        from omkl.core.kernels import with_features

        return with_features(self.kernels, self.features)

    @property
    def safeguards(self) -> Safeguards:
        """Settings that protect the messages of a federation."""
        from omkl.federated import privacy

        noise = None if self.privacy.epsilon is None else privacy.Privacy(**dict(self.privacy))
        return privacy.Safeguards(self.clients_per_round, **dict(self.robust), privacy=noise)

    @property
    def message_exchange(self) -> MessageExchange:
        from omkl.federated import exchange

        return exchange.Exchange(**dict(self.exchange))

    def content(self) -> dict[str, Any]:
        """Return the content of ``config.json`` in a run folder.

        The folder of results is left out, because a run folder can be moved.
        """
        places = {"outputs", "force", "fail_fast"}
        return self.model_dump(exclude=places, exclude_unset=True)

    def key(self) -> str:
        """Return hex digits that identify all settings that affect the content of a run folder.

        A user's file is identified by its content and format, and not by its name.
        """
        content = self.model_dump(exclude=set(conf.NEUTRAL), exclude_unset=True)
        dataset = {k: v for k, v in self.dataset.items() if k not in conf.PROSE}
        if {"path", "sha256"} <= dataset.keys():
            kind = PurePath(str(dataset["path"]).lower().removesuffix(".gz")).suffix
            dataset |= {"name": "", "path": kind}
        text = json.dumps({**content, "dataset": dataset}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[: conf.KEY_DIGITS]

    @property
    def name(self) -> str:
        """ALGORITHM-KEY, the first part of the name of a run folder."""
        return f"{self.algorithm.name.replace('/', '.')}-{self.key()}"


def read(config: Mapping[str, Any]) -> Settings:
    """Return the typed settings of a composed configuration.

    Raises ValueError naming the first wrong setting and its possible values. The parameters of the
    algorithm are not checked here.
    """
    settings = sections.read(Settings, config)
    check_dataset(settings.dataset)
    if settings.dataset.get("task") is None:
        raise ValueError("dataset.task is missing; it is one of regression, classification")
    return settings


# Defaults of all settings outside the groups of conf.
DEFAULTS: dict[str, Any] = sections.read(
    Settings,
    {"algorithm": {"name": ""}, "dataset": {}, "kernels": {}, "federation": {"name": "none"}},
).model_dump(exclude=set(GROUPS))
