"""Define the parameters that the estimators of scikit-learn and of River share."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from omkl import algorithms
from omkl.core.protocol import Algorithm
from omkl.datasets.columns import Column
from omkl.online import settings
from omkl.online.learner import OnlineLearner
from omkl.online.panel import Panel
from omkl.online.settings import DATE, FEATURES
from omkl.utils.conf import PANEL


@dataclasses.dataclass(eq=False, repr=False)
class LearnerParameters:
    """Parameters of an estimator that wraps an ``OnlineLearner``.

    Parameters
    ----------
    algorithm
        Name of the algorithm, as in ``omkl-run algorithm=``. "auto" needs no tuning.
    kernels
        Name of a dictionary in ``conf/kernels``, a mapping with the content of such a file, or a
        list, as in ``omkl.learner``.
    D
        Random features per kernel, >= 1; 50 by default.
    params
        Parameters of the algorithm by name, ``{"eta": 0.1}``. The other parameters have the
        defaults of the algorithm's YAML file.
    scaling
        "columns": inputs, and the targets of a regression, are standardised online.
        "none": they are unchanged, and no input may be missing.
    lags
        Number of past targets used as inputs, >= 0. With more than two classes it must be 0.
    horizon
        Number of rows T, for parameters that contain T; None: unknown.
    features
        Placement of random frequencies: "rff", "orthogonal" (Gaussian kernels) or "qmc".
    columns
        Kind of a column by its name, as in ``omkl.learner``.
    """

    algorithm: str = "auto"
    kernels: Any = "rbf51_lap25"
    D: int = FEATURES
    params: Mapping[str, Any] | None = None
    scaling: str = "columns"
    lags: int = 0
    horizon: int | None = None
    features: str = "rff"
    columns: Mapping[str, str] | None = None

    @property
    def settings_of_task(self) -> dict[str, Any]:
        """Settings of ``omkl.learner`` that only a regression has, by name."""
        return {}

    def algorithm_for(self, task: str) -> Algorithm:
        """Return the algorithm for a task. In a classification ``auto`` is ``auto_classifier``."""
        is_auto = self.algorithm == "auto" and task == "classification"
        return algorithms.load("auto_classifier" if is_auto else self.algorithm)

    def new_learner(self, *, columns: Sequence[Column] = (), **further: Any) -> OnlineLearner:
        """Return a learner that has learned no row yet.

        Parameters
        ----------
        columns
            Encodings of the columns of a data frame; () if all columns are numbers.
        further
            Further settings of ``omkl.learner``, such as ``inputs`` and ``seed``.

        Raises
        ------
        ValueError
            A parameter is invalid. The message names the parameter.
        """
        read = settings.read(
            self.algorithm, kernels=self.kernels, params=self.params or {}, D=self.D,
            features=self.features, scaling=self.scaling, lags=self.lags, horizon=self.horizon,
            **self.settings_of_task, **further,
        )  # fmt: skip
        has_series = read.series is not None and not columns
        return OnlineLearner(read, columns, declared=self.columns if has_series else None)


OF_REGRESSION = ("interval", "interval_rate", "series", "season", "series_delay", "max_series")


@dataclasses.dataclass(eq=False, repr=False)
class RegressorParameters(LearnerParameters):
    """Parameters of an estimator for regression.

    Parameters
    ----------
    interval
        Share of targets that intervals should cover, in (0, 1); None: no intervals.
    interval_rate
        Rate at which intervals adapt, in (0, 1]; None: a mixture of several rates.
    series, season, series_delay, max_series
        As in ``omkl.learner``. ``series`` names a column, so rows must have names.
    """

    interval: float | None = 0.9
    interval_rate: float | None = None
    series: str | None = None
    season: int | Sequence[int] | None = None
    series_delay: str | int = DATE
    max_series: int | None = None

    @property
    def settings_of_task(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in OF_REGRESSION}


@dataclasses.dataclass(eq=False, repr=False)
class PanelParameters(LearnerParameters):
    """Parameters of an estimator that wraps an ``omkl.panel``, one learner per series.

    Parameters
    ----------
    algorithm, kernels, D, lags, interval, interval_rate
        As in ``omkl.panel``, with the same defaults.
    series, max_series, share_weights, share_scaling
        As in ``omkl.panel``, with the same defaults.
    """

    algorithm: str = PANEL["algorithm"]
    kernels: Any = PANEL["kernels"]
    D: int = PANEL["D"]
    lags: int = PANEL["lags"]
    series: str | None = None
    max_series: int | None = None
    share_weights: bool = False
    share_scaling: bool = False
    interval: float | None = None
    interval_rate: float | None = None

    def new_panel(self, seed: int) -> Panel:
        """Return a panel that has learned no row yet. Raises ValueError for a wrong parameter."""
        made = self.new_learner(
            seed=seed, task="regression",
            interval=self.interval, interval_rate=self.interval_rate,
        )  # fmt: skip
        return Panel(
            made.settings, series=self.series, max_series=self.max_series,
            share_weights=self.share_weights, share_scaling=self.share_scaling,
            declared=self.columns,
        )  # fmt: skip
