"""Check the settings of a learner that is called from Python.

``LearnerSettings`` are the settings as the user gives them. With the learned state they define a
learner, so both are saved in its file. A ``Specification`` contains the checked algorithm,
parameters, dictionary and D, but no inputs and no seed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from omkl import algorithms
from omkl.core import hyperparameters
from omkl.core.conformal import IntervalSettings, interval_of
from omkl.core.hyperparameters import COUNT, COUNT_OR_ZERO, Range
from omkl.core.kernels import FAMILIES, RFF, Kernel, dictionary, with_features
from omkl.core.learner import Learner
from omkl.core.protocol import Algorithm
from omkl.core.representations import Representation
from omkl.online.predictions import TargetTransform
from omkl.utils import conf, registry
from omkl.utils.constraints import is_number, shown
from omkl.utils.wording import few

SCALINGS = ("columns", "none")
MOST_CLASSES = MOST_OUTPUTS = 10_000
DATE = "date"
SERIES_ALGORITHM = "auto"  # the only algorithm that learns many series together
SHORTEST, LONGEST, MOST_SEASONS = 2, 10_000, 4  # rows of a season, and number of seasons
MOST_PENDING = 1000  # default number of predictions remembered until their targets arrive


class Numbers(NamedTuple):
    """Settings of a learner that are whole numbers, with their ranges."""

    D: COUNT
    seed: COUNT_OR_ZERO
    lags: Annotated[int, Range(0, 10_000)]
    late: Annotated[int, Range(0, 10_000)]
    max_pending: COUNT
    horizon: COUNT = 1


@dataclasses.dataclass(frozen=True)
class LearnerSettings:
    """Settings of a learner, as the arguments of ``omkl.learner``.

    algorithm, params   name of the algorithm, and its parameters as given
    kernels             content of a YAML file of ``conf/kernels``; its key ``features`` states how
                        frequencies are placed
    inputs              names of the inputs in the order of the columns; () until the first row
                        decides them
    named               whether a row may be a mapping of names to values
    classes             classes of a classification, () for a regression. The first of two classes
                        has the code -1
    scaling             "columns" or "none", see ``omkl.datasets.stream``
    lags                number of past targets used as inputs
    horizon             number of rounds T, for parameters that contain T
    interval            share of targets that an interval should cover; None: no intervals
    interval_rate       rate at which intervals adapt; None: a mixture of several rates
    outputs             names or positions 0, 1, ... of the targets of a row; () for a single target
    max_pending         largest number of predictions remembered until their targets arrive
    target_transform    "log", the power of a Box-Cox transform, or None
    series              name of the column of series; None: the stream is one series
    season              length of a season in rows, or several lengths; 0: no season; None: the
                        learner searches for seasons
    series_delay        0: each row is learned before the next; "date": all rows of a date are
                        predicted before any of them is learned
    max_series          largest number of series in memory; None: no limit
    late                number of further rows (of a series) after which a target is known. The
                        seasonal input is the newest known target with the same phase in the season
                        as the predicted row
    """

    algorithm: str
    params: dict[str, Any]
    kernels: dict[str, Any]
    D: int
    seed: int
    inputs: tuple[str, ...]
    named: bool
    classes: tuple[Any, ...]
    scaling: str = "columns"
    lags: int = 0
    horizon: int | None = None
    interval: float | None = None
    interval_rate: float | None = None
    outputs: tuple[str | int, ...] = ()
    max_pending: int = MOST_PENDING
    target_transform: str | float | None = None
    series: str | None = None
    season: int | tuple[int, ...] | None = None
    series_delay: str | int = DATE
    max_series: int | None = None
    late: int = 0

    @property
    def transform(self) -> TargetTransform | None:
        """Transform of the targets, or None. Raises ValueError for an invalid transform."""
        given = self.target_transform
        if given is None:
            return None
        power = 0.0 if isinstance(given, str) else given
        if given != "log" and not (is_number(given) and 0 < power <= 1):
            raise ValueError(
                f"target_transform={shown(given)} is none of 'log', the power of a Box-Cox "
                "transform from 0 to 1, and None"
            )
        if self.classes:
            raise ValueError("target_transform is for regression: classes are no numbers")
        return TargetTransform(float(power))

    @property
    def has_seasons(self) -> bool:
        """True if the learner predicts in units of series, or searches for seasons."""
        is_possible = self.algorithm == SERIES_ALGORITHM and not self.outputs
        return is_possible and (self.series is not None or self.season != 0)

    @property
    def seasons(self) -> tuple[int, ...] | None:
        """Length of each season in rows; None if the learner searches for seasons."""
        if self.season is None:
            return None
        return tuple(season for season in np.atleast_1d(self.season).tolist() if season)

    @property
    def intervals(self) -> IntervalSettings | None:
        """Checked settings of intervals, or None. Raises ValueError for a wrong level or rate."""
        where = "a classification" if self.classes else ""
        return interval_of(self.interval, self.interval_rate, where)

    def specification(self) -> Specification:
        """Check all settings and return the specification.

        Raises ValueError naming a wrong setting and its possible values.
        """
        numbers = {key: getattr(self, key) for key in Numbers._fields}
        if self.horizon is None:
            del numbers["horizon"]
        hyperparameters.build(Numbers, numbers, None, {}, where="")
        if self.scaling not in SCALINGS:
            looks_ahead = ": it looks ahead, and no row is known yet" * (self.scaling == "whole")
            raise ValueError(
                f"scaling={self.scaling!r} is none of {', '.join(SCALINGS)}{looks_ahead}"
            )
        if self.lags and len(self.classes) > 2:
            raise ValueError(
                f"lags={self.lags} takes labels for numbers, and there are {len(self.classes)} "
                "classes. Set lags=0."
            )
        self._require_horizon()
        self._require_series()
        chosen = dictionary(self.kernels, len(self.inputs) + self.lags if self.inputs else None)
        made = specify(self.algorithm, self.params, chosen, self.D, self.horizon)
        if self.outputs and self.classes:
            raise ValueError("outputs are for regression: make a learner per target for classes")
        if self.outputs and made.algorithm.queries:
            raise ValueError(f"{self.algorithm} requests some of the targets, so it has one output")
        return made

    def _require_series(self) -> None:
        if self.max_series is not None:
            hyperparameters.require_count("max_series", self.max_series)
        if self.series_delay not in (DATE, 0):
            raise ValueError(f'series_delay={self.series_delay!r}: "{DATE}" or 0')
        seasons = self.seasons or ()
        if not all(type(m) is int and SHORTEST <= m <= LONGEST for m in seasons):
            raise ValueError(
                f"season={self.season!r}: whole numbers of rows from {SHORTEST} to {LONGEST:,}, "
                "0 for none, or None to search for seasons"
            )
        if len(set(seasons)) < len(seasons):
            raise ValueError(f"season={self.season!r} names a season twice: name each once")
        if len(seasons) > MOST_SEASONS:
            raise ValueError(f"season={self.season!r}: at most {MOST_SEASONS} seasons")
        if self.series is None and not seasons:
            return
        if self.outputs:
            raise ValueError(
                f"series= and season= are for one target, and outputs= has {len(self.outputs)}: "
                "make one learner per target"
            )
        if self.algorithm != SERIES_ALGORITHM:
            where = "a classification" if self.classes else self.algorithm
            raise ValueError(
                f"series= and season= are for a regression with {SERIES_ALGORITHM}, and this is "
                f"{where}: leave them out, or make one learner per series (omkl.panel)"
            )
        if self.lags and self.series is not None:
            raise ValueError(
                f"lags={self.lags} are past targets of all series: leave them out, as series= has "
                "those of each series"
            )

    def _require_horizon(self) -> None:
        for key, value in self.params.items():
            if self.horizon is None and isinstance(value, str) and "T" in value:
                raise ValueError(
                    f"algorithm.{key}={value} needs the number of rows T: give horizon=T, or "
                    f"{key}= as a number or a schedule in t"
                )


def read(
    name: str,
    *,
    kernels: Any,
    params: Mapping[str, Any],
    inputs: int | Sequence[str] | None = None,
    task: str | None = None,
    classes: Sequence[Any] | None = None,
    features: str = RFF,
    outputs: int | Sequence[str] | None = None,
    season: int | Sequence[int] | None = None,
    **further: Any,
) -> LearnerSettings:
    """Return the settings for arguments of ``omkl.learner``.

    A parameter of the algorithm that is not given has the default of the algorithm's YAML file.

    Parameters
    ----------
    name
        Name of the algorithm.
    kernels, params, inputs, task, classes, features, outputs, season
        As in ``omkl.learner``.
    further
        Other fields of ``LearnerSettings``, by name.

    Raises
    ------
    ValueError
        A setting is wrong; the text names it and its possible values.
    """
    name, task = _task(name, task, classes)
    chosen = with_features(_kernels(kernels), features)
    defaults = {k: v for k, v in conf.entry("algorithm", name).items() if k != "name"}
    left_out = {key for key, value in defaults.items() if value is None}
    given = {**defaults, **params}
    given = {k: value for k, value in given.items() if value is not None or k not in left_out}
    sizes = {"N": len(dictionary(chosen)), "D": further["D"]}
    hyperparameters.require_count("D", further["D"])
    Params = algorithms.load(name).Params
    given = hyperparameters.with_defaults_cut(Params, given, defaults, sizes)
    return LearnerSettings(
        algorithm=name, params=given, kernels=chosen,
        inputs=() if inputs is None else input_names(inputs), named=not isinstance(inputs, int),
        classes=checked_classes(classes) if task == "classification" else (),
        outputs=() if outputs is None else output_names(outputs),
        season=season_of(season), **further,
    )  # fmt: skip


GRID = {"from": -2, "to": 2, "n": 25}  # log10 bandwidths of a family given by name only


def _kernels(given: Any) -> dict[str, Any]:
    """Return the mapping of a dictionary of kernels, given as in ``omkl.learner``."""
    if isinstance(given, str):
        if given in FAMILIES:
            raise ValueError(f"kernels={given!r} is a family: kernels=[{given!r}] has 25 of it")
        return conf.chosen("kernels", given)
    return dict(given) if isinstance(given, Mapping) else {"name": "own", "parts": parts_of(given)}


def parts_of(given: Any) -> list[dict[str, Any]]:
    """Return the parts of a dictionary of kernels that is given as a list.

    An entry can be a number, which is the bandwidth of a Gaussian kernel. It can be the name of a
    family, which stands for 25 bandwidths from 0.01 to 100. Or it is a part as in ``conf/kernels``.
    """
    if not isinstance(given, list | tuple | np.ndarray):
        raise ValueError(
            f"kernels={given!r}: the name of a dictionary of conf/kernels, a mapping as such a "
            "file holds, or a list of bandwidths, families and parts"
        )
    parts: list[dict[str, Any]] = []
    for entry in given:
        if isinstance(entry, Mapping):
            parts.append(dict(entry))
        elif isinstance(entry, str):
            grid = {} if entry in FAMILIES and FAMILIES[entry].label == "degree" else GRID
            parts.append({"family": entry} | ({"log10_bandwidth": dict(grid)} if grid else {}))
        else:
            number = entry.item() if hasattr(entry, "item") else entry
            parts.append({"family": "gaussian", "bandwidth": number})
    return parts


def _task(name: str, task: str | None, classes: Sequence[Any] | None) -> tuple[str, str]:
    """Return the name of the algorithm and its task.

    In a classification ``auto`` becomes ``auto_classifier``.
    """
    if task not in (None, "regression", "classification"):
        raise ValueError(f"task={task!r}; there are: regression, classification")
    if registry.is_federated(name):
        raise ValueError(
            f"{name} learns in a federation, which is a run: "
            f'omkl.run("algorithm={name}", "federation=iid", ...)'
        )
    if name == "auto" and (task == "classification" or (task is None and classes is not None)):
        name = "auto_classifier"
    own = algorithms.load(name).task
    task = task or own
    if own != task:
        fitting = [n for n in algorithms.names() if algorithms.load(n).task == task]
        raise ValueError(
            f"{name} is an algorithm for {own}, not for {task}; for that there are: "
            f"{', '.join(fitting)}"
        )
    if (classes is not None) != (task == "classification"):
        raise ValueError(
            f"{name} is for {task}"
            + (": there are no classes" if classes is not None else ", so name the classes: "
               'classes=["ham", "spam"], the first being -1 and the second +1')
        )  # fmt: skip
    return name, task


def checked_classes(given: Sequence[Any] | None) -> tuple[Any, ...]:
    """Return classes as a tuple. Raises ValueError if they are not distinct texts or numbers."""
    listed = () if given is None else given  # ``given or ()`` fails for an array
    found = tuple(item.item() if hasattr(item, "item") else item for item in listed)
    distinct = len({str(item).strip() for item in found}) == len(found)
    if not (2 <= len(found) <= MOST_CLASSES and distinct):
        raise ValueError(
            f"classes={few(map(repr, found))}: from 2 to {MOST_CLASSES:,} different ones"
        )
    if not all(isinstance(item, str | int | float) for item in found):
        raise ValueError(f"classes={few(map(repr, found))}: a class is a text or a number")
    return found


def input_names(inputs: int | Sequence[str]) -> tuple[str, ...]:
    """Return the names of the inputs as a tuple.

    A number d gives the names x1 .. xd. A list of names is returned as a tuple. Raises ValueError
    for a number below 1, an empty list, a name that is no text, or a repeated name.
    """
    inputs = int(inputs) if isinstance(inputs, np.integer) else inputs
    if isinstance(inputs, int) and not isinstance(inputs, bool) and inputs >= 1:
        return tuple(f"x{k}" for k in range(1, inputs + 1))
    if isinstance(inputs, str | bool | int) or not all(isinstance(n, str) for n in inputs):
        raise ValueError(
            f"inputs={inputs!r}: say how many inputs there are, or name them in a list"
        )
    names = tuple(inputs)
    if not names or len(set(names)) < len(names):
        raise ValueError(f"inputs={list(names)[:40]!r}: at least one name, and no name twice")
    return names


def season_of(given: Any) -> Any:
    """Return a list of seasons as a tuple, and any other value unchanged."""
    return tuple(given) if isinstance(given, list | tuple | range | np.ndarray) else given


def output_names(outputs: int | Sequence[str]) -> tuple[str | int, ...]:
    """Return the names of the targets of a row, or the positions of ``outputs`` targets."""
    outputs = int(outputs) if isinstance(outputs, np.integer) else outputs
    if isinstance(outputs, int):
        if isinstance(outputs, bool) or not 1 <= outputs <= MOST_OUTPUTS:
            raise ValueError(f"outputs={outputs!r}: from 1 to {MOST_OUTPUTS:,}, or their names")
        return tuple(range(outputs))
    if isinstance(outputs, str) or not all(isinstance(name, str) for name in outputs):
        raise ValueError(f"outputs={outputs!r}: say how many there are, or name them in a list")
    names = tuple(outputs)
    if not 1 <= len(names) <= MOST_OUTPUTS or len(set(names)) < len(names):
        raise ValueError(f"outputs={list(names)[:40]!r}: at least one name, and no name twice")
    return names


FEATURES = 50  # default of D


class Specification(NamedTuple):
    """Checked definition of a core learner, except its number of inputs and its seed.

    algorithm    the algorithm
    params       its parameters
    dictionary   N kernels
    D            random features per kernel
    """

    algorithm: Algorithm
    params: Any
    dictionary: tuple[Kernel, ...]
    D: int

    def of_classes(self, n_classes: int) -> Specification:
        """Return the specification for ``n_classes`` classes.

        It differs from this one if there are more than two classes and the algorithm learns all
        classes with one core learner.
        """
        together = self.algorithm.of_classes
        if n_classes <= 2 or together is None:
            return self
        params = together.Params(**self.params._asdict(), n_classes=n_classes)
        return self._replace(algorithm=together, params=params)

    def n_learners(self, n_classes: int) -> int:
        """Return the number of core learners: one, or one per class against the rest."""
        return n_classes if n_classes > 2 and not self.algorithm.learns_classes_together else 1

    def learner(self, n_inputs: int, seed: int, threads: int = 1, model: Any = None) -> Learner:
        """Return a new core learner.

        Parameters
        ----------
        n_inputs
            Number of inputs, including past targets.
        seed
            Seed of features and choices.
        threads
            Threads of an exact-kernel learner.
        model
            Representation to start from, as in ``Learner``; None: a new one.
        """
        algorithm, params, dictionary, D = self
        return Learner(algorithm, params, dictionary, n_inputs, D, seed, model, threads)


def specify(
    name: str, given: Mapping[str, Any], dictionary: tuple[Kernel, ...], D: int, horizon: int | None
) -> Specification:
    """Check the parameters of an algorithm, and return the specification.

    Parameters
    ----------
    name
        Name of the algorithm.
    given
        Parameters by name, as the user gives them.
    dictionary
        N kernels.
    D
        Random features per kernel.
    horizon
        Number of rows T, for parameters that contain T; None: unknown.

    Raises
    ------
    ValueError
        A setting is wrong; the text names it and its possible values.
    """
    algorithm = algorithms.load(name)
    sizes = {"N": len(dictionary), "D": D}
    params = hyperparameters.build(algorithm.Params, given, horizon, sizes)
    algorithm.representation.require(dictionary)
    placed = {kernel.features for kernel in dictionary} - {RFF}
    if placed and not algorithm.representation.draws_features:
        raise ValueError(
            f"features={placed.pop()} places random features, and {name} draws none that can be "
            f"placed; leave it at {RFF}"
        )
    check = algorithm.representation.check_kernels
    # The number of inputs is unknown here. 1 stands for it, because these checks do not read it.
    if check is not Representation._field_defaults["check_kernels"]:
        check(algorithm.kernels(params, dictionary, 1))
    return Specification(algorithm, params, dictionary, D)
