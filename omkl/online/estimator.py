"""What the estimators of scikit-learn and River have in common: their parameters."""

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
from omkl.online.settings import FEATURES
from omkl.utils.conf import PANEL


@dataclasses.dataclass(eq=False, repr=False)
class LearnerParameters:
    """Parameters of an estimator, of which an ``OnlineLearner`` is made.

    Parameters
    ----------
    algorithm
        Its name, as ``omkl-run algorithm=`` has it; "auto" has no parameters to tune.
    kernels
        A dictionary of ``conf/kernels``, a mapping as such a file holds, or a list of bandwidths,
        families and parts.
    D
        Random features per kernel, 50 by default.
    params
        Those of the algorithm by name, ``{"eta": 0.1}``; the others have their defaults.
    scaling
        "columns": inputs, and the targets of a regression, are standardised online.
        "none": they are not, and no input may be missing.
    lags
        How many past targets are further inputs; of classes only where there are two.
    horizon
        T, where a parameter names it.
    features
        How random frequencies are placed: "rff", "orthogonal" (Gaussian kernels) or "qmc".
    """

    algorithm: str = "auto"
    kernels: Any = "rbf51_lap25"
    D: int = FEATURES
    params: Mapping[str, Any] | None = None
    scaling: str = "columns"
    lags: int = 0
    horizon: int | None = None
    features: str = "rff"

    def algorithm_for(self, task: str) -> Algorithm:
        """What the name stands for in a task: of classes, ``auto`` is ``auto_classifier``."""
        is_auto = self.algorithm == "auto" and task == "classification"
        return algorithms.load("auto_classifier" if is_auto else self.algorithm)

    def new_learner(
        self,
        *,
        inputs: Any,
        seed: int,
        task: str,
        classes: Any = None,
        interval: float | None = None,
        interval_rate: float | None = None,
        columns: Sequence[Column] = (),
        outputs: int | None = None,
    ) -> OnlineLearner:
        """A learner that has seen nothing; ValueError names the parameter that is wrong.

        ``columns`` say how those of a row become inputs, where these are no numbers. ``outputs``
        is how many targets a row has; None: one, which is a number.
        """
        read = settings.read(
            self.algorithm,
            inputs=inputs,
            kernels=self.kernels,
            task=task,
            classes=classes,
            params=self.params or {},
            D=self.D,
            features=self.features,
            seed=seed,
            scaling=self.scaling,
            lags=self.lags,
            horizon=self.horizon,
            interval=interval,
            interval_rate=interval_rate,
            outputs=outputs,
        )
        return OnlineLearner(read, columns)


@dataclasses.dataclass(eq=False, repr=False)
class RegressorParameters(LearnerParameters):
    """``LearnerParameters``, and those of intervals.

    Parameters
    ----------
    interval
        The share of targets that intervals are to cover, in (0, 1); None: no intervals.
    interval_rate
        How fast intervals adapt, in (0, 1]; None: several rates, mixed.
    """

    interval: float | None = 0.9
    interval_rate: float | None = None


@dataclasses.dataclass(eq=False, repr=False)
class PanelParameters(LearnerParameters):
    """``LearnerParameters`` of a learner per key, and those of a panel.

    The algorithm is one that ``omkl.panel`` has, with a few kernels and features, as each key has
    coefficients of its own.

    Parameters
    ----------
    max_keys, share_weights, share_scaling, interval, interval_rate
        As ``omkl.panel`` says.
    """

    algorithm: str = PANEL["algorithm"]
    kernels: Any = PANEL["kernels"]
    D: int = PANEL["D"]
    key: str | None = None
    max_keys: int | None = None
    share_weights: bool = False
    share_scaling: bool = False
    interval: float | None = None
    interval_rate: float | None = None

    def new_panel(self, seed: int) -> Panel:
        """A panel that has seen nothing; ValueError names the parameter that is wrong."""
        made = self.new_learner(
            inputs=None, seed=seed, task="regression",
            interval=self.interval, interval_rate=self.interval_rate,
        )  # fmt: skip
        return Panel(
            made.settings, key=self.key, max_keys=self.max_keys,
            share_weights=self.share_weights, share_scaling=self.share_scaling,
        )  # fmt: skip
