"""The learner of a run as ``model.npz``."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Protocol

from omkl.datasets import Stream
from omkl.datasets.scaling import LateMoments, Moments
from omkl.online import model_file
from omkl.online.learner import OnlineLearner
from omkl.online.panel import Panel
from omkl.online.predictions import RecentPredictions
from omkl.online.settings import MOST_PENDING, SCALINGS, LearnerSettings

if TYPE_CHECKING:
    from omkl.config.schema import Settings

# Keys of a data set that say how a text file is read.
READING = ("na_values", "delimiter", "header", "skip_lines", "zero_based", "columns", "decimal",
           "encoding", "format")  # fmt: skip


def require_keepable(settings: Settings, n_seeds: int) -> None:
    """ValueError where model=true is asked of a job that has no one learner for other rows."""
    if not settings.model:
        return
    if n_seeds > 1:
        raise ValueError("model=true keeps the learner of one seed: set seeds=1")
    if settings.stream.scaling not in SCALINGS:
        raise ValueError(
            f"model=true: with stream.scaling={settings.stream.scaling} rows are in units of this "
            "file as a whole, which no later row has. Set stream.scaling=columns or none."
        )
    scales = {"scale_inputs", "scale_columns"}
    if steps := sorted(scales & set(settings.dataset.get("prepare") or {})):
        raise ValueError(
            f"model=true: dataset.prepare.{steps[0]} changes the numbers of this file, and rows "
            "that come later have others. Scale the file itself, or leave the step out."
        )


class Keepable(Protocol):
    """Job whose learner can be saved."""

    @property
    def settings(self) -> Settings: ...
    @property
    def stream(self) -> Stream: ...
    @property
    def D(self) -> int: ...


def content(job: Keepable, learner: OnlineLearner | Panel, moments: Moments) -> bytes:
    """``model.npz`` of a job of one seed that has ended; ``moments`` of the stream's columns.

    Predictions whose targets are not in yet are in it.
    """
    if isinstance(learner, Panel):
        return learner.content(_columns(job))
    recent = RecentPredictions(MOST_PENDING + len(learner.waiting))
    settings = dataclasses.replace(learner.settings, max_pending=recent.limit)
    n_own = job.stream.n_inputs - job.stream.n_lags
    rows = moments.waiting if isinstance(moments, LateMoments) else [x for x, *_ in learner.waiting]
    for x, (_, said, _) in zip(rows, learner.waiting, strict=True):
        recent.add(x[:n_own], said)
    arrays = learner.arrays() | recent.arrays()
    if job.stream.scaling == "columns":
        arrays |= {f"columns.{name}": array for name, array in moments.arrays().items()}
    return model_file.content(settings, arrays, _columns(job))


def settings_of(job: Keepable, seed: int) -> LearnerSettings:
    """Return the settings of the learner of a job, as one called from Python."""
    stream, settings = job.stream, job.settings
    given = settings.algorithm.params
    names_T = any(isinstance(value, str) and "T" in value for value in given.values())
    return LearnerSettings(
        algorithm=settings.algorithm.name,
        params=dict(given),
        kernels=settings.placed_kernels,
        D=job.D,
        seed=seed,
        inputs=tuple(stream.inputs[: len(stream.inputs) - stream.n_lags]),
        named=True,
        classes=tuple(stream.classes),
        scaling=stream.scaling,
        lags=stream.n_lags,
        horizon=stream.n_rounds if names_T else None,
        interval=settings.interval,
        interval_rate=settings.interval_rate,
    )


def _columns(job: Keepable) -> dict[str, Any] | None:
    """Return how an own file is read and its columns become inputs; None for other data."""
    taken = [column for column in job.stream.columns if column.inputs]
    if "path" not in job.settings.dataset:
        return None
    reading = {key: job.settings.dataset[key] for key in READING if key in job.settings.dataset}
    return {"reading": reading, "target": job.stream.target,
            "columns": [dataclasses.asdict(column) for column in taken]}  # fmt: skip
