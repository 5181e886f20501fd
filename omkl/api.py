"""What is called from Python: ``import omkl`` and the functions here, imported when asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from omkl.online import settings
from omkl.online.learner import OnlineLearner
from omkl.online.learner import load as load_learner
from omkl.online.specification import FEATURES

__all__ = ["OnlineLearner", "learner", "load_learner"]


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
    precision: str = "float64",
    first_rows: Any = None,
    **params: Any,
) -> OnlineLearner:
    """A learner that has seen nothing, with the defaults of ``conf`` and the errors of omkl-run.

    Parameters
    ----------
    algorithm
        Its name, as after ``algorithm=``.
    inputs
        How many, or their names.
    kernels
        A dictionary of ``conf/kernels``, or a mapping as such a file holds.
    D, seed, precision
        Random features a kernel; what is drawn from; "float64" or "float32".
    task, classes
        "regression" or "classification"; None: the algorithm's. The classes of a classification,
        words or numbers: of two the first is -1 and the second +1.
    scaling
        "columns": inputs and labels are standardised by what was seen, nothing looks ahead.
        "none": they are taken as they are.
    lags
        How many past labels are inputs besides.
    horizon
        T, where a parameter names it (``eta="1/sqrt(T)"``).
    first_rows
        Rows of the stream, without labels, for the algorithms that look at some in advance.
    params
        Those of the algorithm, as after ``algorithm.NAME=``.

    Raises ValueError that names the setting and what it may be.
    """
    made = settings.read(
        algorithm,
        inputs=inputs,
        kernels=kernels,
        task=task,
        classes=classes,
        params=params,
        D=D,
        precision=precision,
        seed=seed,
        scaling=scaling,
        lags=lags,
        horizon=horizon,
    )
    return OnlineLearner(made, first_rows)
