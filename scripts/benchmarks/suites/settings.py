"""Define and read the settings of a suite, and list the learners that it runs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from benchmarks.suites.models import MODELS
from benchmarks.suites.streams import FAULTS, BadSuite, StreamSettings, Task
from omkl import algorithms
from omkl.utils import conf

FOLDER = Path(__file__).parent
TASKS: tuple[Task, ...] = ("regression", "classification")
TRIVIAL, OURS, OTHER, PUBLISHED = "trivial", "ours", "other", "published"
# Name and algorithm of the forecasters in every suite.
FORECASTERS = {
    "regression": {"mean": "mean", "last": "last", "ridge": "ridge"},
    "classification": {"majority": "mean", "last": "last", "linear": "ridge"},
}
REFERENCE = {"regression": "ridge", "classification": "linear"}  # errors are relative to these


class LearnerSettings(BaseModel):
    """Algorithm of omkl in a suite.

    ``grid`` lists values of parameters. The combination with the smallest loss on the prefix, the
    first rows of the stream, is used.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    algorithm: str = ""
    params: dict[str, Any] = {}
    grid: dict[str, list[Any]] = {}

    @property
    def candidates(self) -> list[dict[str, Any]]:
        """Parameters for each combination of the values in ``grid``."""
        values = itertools.product(*self.grid.values())
        return [self.params | dict(zip(self.grid, chosen, strict=True)) for chosen in values]


class Published(BaseModel):
    """Score that others have published. The page compares it with the score of a rerun."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    stream: str
    learner: str
    source: str
    mae: float | None = None
    accuracy: float | None = None


class Entry(NamedTuple):
    """Learner of a suite, a row of its tables.

    name         name in tables
    kind         TRIVIAL, OURS or OTHER
    what         name of the algorithm, or of the model of another library
    candidates   parameters to choose from on the prefix
    lags         number of past targets that are inputs of a model
    """

    name: str
    kind: str
    what: str
    candidates: list[dict[str, Any]] = [{}]  # noqa: RUF012
    lags: int = 0


class Suite(BaseModel):
    """Settings of a suite: streams, learners, other models, and the scored rows."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    version: str  # changes when the meaning of the numbers changes
    title: str
    notes: str = ""
    task: Task
    rows: int = Field(5000, ge=10)
    seeds: int = Field(5, ge=1)
    model_seeds: int = Field(1, ge=1)
    first_model_seed: int = Field(0, ge=0)
    prefix: int = Field(0, ge=0)  # number of first rows that are learned and not scored
    first_row: Literal["scored", "not scored"] = "not scored"  # without a prefix
    window: int = Field(200, ge=1)  # number of rows of the sliding error
    inputs_of_models: Literal["scaled", "raw"] = "scaled"
    lags: list[int] = [0]
    seconds: float = Field(300.0, gt=0)  # largest processor time of one pass of a model
    kernels: str = "rbf51_lap25"
    D: int = Field(50, ge=1)
    streams: list[StreamSettings] = Field(min_length=1)
    learners: list[LearnerSettings] = []
    models: list[str] = []
    published: list[Published] = []

    @model_validator(mode="before")
    @classmethod
    def _repeat_streams_with_faults(cls, content: Any) -> Any:
        """Replace a stream with ``faults: true`` by one stream per fault."""
        streams: list[Any] = []
        for stream in content.get("streams", []):
            plain = {key: value for key, value in stream.items() if key != "faults"}
            if stream.get("faults"):
                name = stream["name"]
                streams += [plain | {"name": f"{name}: {f}", "fault": f} for f in FAULTS]
            else:
                streams.append(plain)
        return {**content, "streams": streams}

    @model_validator(mode="after")
    def _check(self) -> Suite:
        if self.inputs_of_models == "raw" and any(self.lags):
            raise ValueError("lags are standardised, so inputs_of_models=raw needs lags: [0]")
        if not self.prefix and (tuned := [one.name for one in self.learners if one.grid]):
            raise ValueError(f"{tuned[0]} has a grid, and there is no prefix to choose on")
        for model in self.models:
            if model not in MODELS and ":" not in model:
                raise ValueError(f"there is no model {model}; there are: {', '.join(MODELS)}")
        named = [[s.name for s in self.streams]]
        named += [[entry.name for entry in self.entries(task)] for task in self.tasks]
        for names in named:
            if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
                raise ValueError(f"two are called {twice[0]}")
        return self

    def task_of(self, stream: StreamSettings) -> Task:
        return stream.task or self.task

    @property
    def tasks(self) -> list[Task]:
        """Tasks of the streams."""
        return [task for task in TASKS if task in map(self.task_of, self.streams)]

    @property
    def n_unscored(self) -> int:
        return self.prefix or int(self.first_row == "not scored")

    def seeds_of(self, entry: Entry) -> list[int]:
        if entry.kind == OTHER:
            first = self.first_model_seed
            return list(range(first, first + self.model_seeds))
        return list(range(self.seeds if entry.kind == OURS else 1))

    def entries(self, task: Task) -> list[Entry]:
        """Return the learners for a task: forecasters, algorithms of omkl, and other models."""
        entries = [Entry(name, TRIVIAL, what) for name, what in FORECASTERS[task].items()]
        for learner in self.learners:
            what = algorithm_of(learner.algorithm or learner.name, task)
            if algorithms.load(what).task == task:
                entries.append(Entry(learner.name, OURS, what, learner.candidates))
        for model, lags in itertools.product(self.models, self.lags):
            name = model.rpartition(":")[2]
            entries.append(Entry(f"{name}, {lags} lags" if lags else name, OTHER, model, lags=lags))
        return entries


def algorithm_of(name: str, task: str) -> str:
    """Return the name of the algorithm. In a classification ``auto`` is ``auto_classifier``."""
    return "auto_classifier" if (name, task) == ("auto", "classification") else name


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def read(name: str, changes: Mapping[str, Any]) -> Suite:
    """Read a suite by its name, or your own YAML file by its path.

    Parameters
    ----------
    name
        A name of ``names()`` or a path that ends in .yaml.
    changes
        Values that replace those of the file.

    Raises
    ------
    BadSuite
        There is no such suite, or a value of it is wrong.
    """
    path = Path(name) if name.endswith(".yaml") else FOLDER / f"{name}.yaml"
    if not path.is_file():
        raise BadSuite(f"there is no suite {name}; there are: {', '.join(names())}")
    try:
        return Suite(**{"name": path.stem, **conf.read(path), **changes})
    except (ValidationError, ImportError, LookupError) as error:
        raise BadSuite(f"{path}: {error}") from None


def choose(suite: Suite, typed: str | None) -> tuple[Suite, set[str]]:
    """Return the suite with the algorithms that join it, and the names of the chosen learners.

    The reference of each task is always among them.

    Parameters
    ----------
    suite
        The suite of a file.
    typed
        Names separated by ";", of learners of the suite or of other algorithms of omkl, which join
        it with their default settings. None chooses the learners of the suite.

    Raises
    ------
    BadSuite
        A name is neither a learner of the suite nor an algorithm for its tasks.
    """
    names = {entry.name for task in suite.tasks for entry in suite.entries(task)}
    chosen = {name.strip() for name in typed.split(";")} if typed else names
    added = sorted(chosen - names)
    for name in added:
        if name not in algorithms.names() or algorithms.load(name).task not in suite.tasks:
            tasks = " and ".join(suite.tasks)
            raise BadSuite(f"{name} is no learner of {suite.name} and no algorithm of {tasks}")
    more = [LearnerSettings(name=name) for name in added]
    references = names & {REFERENCE[task] for task in suite.tasks}  # by whose errors pages divide
    return suite.model_copy(update={"learners": [*suite.learners, *more]}), chosen | references
