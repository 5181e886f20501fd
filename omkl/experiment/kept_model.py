"""Save the learner of a run as ``model.npz``."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from omkl.datasets import Stream
from omkl.datasets.scaling import LateMoments, Moments
from omkl.online import model_file
from omkl.online.learner import OnlineLearner
from omkl.online.panel import Panel
from omkl.online.predictions import RecentPredictions
from omkl.online.settings import (
    MOST_PENDING,
    SCALINGS,
    SERIES_ALGORITHM,
    LearnerSettings,
    season_of,
)

if TYPE_CHECKING:
    from omkl.config.schema import Settings

# Settings of a data set that describe the format of its file.
READING = ("na_values", "delimiter", "header", "skip_lines", "zero_based", "columns", "decimal",
           "encoding", "format")  # fmt: skip


def require_keepable(settings: Settings, n_seeds: int) -> None:
    """Raise ValueError if model=true is set, but a saved learner could not predict new rows.

    This is so if the rows are scaled by statistics of the whole file. A job of several seeds is
    refused too, because only one learner is saved.
    """
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


def content(
    settings: Settings, stream: Stream, learner: OnlineLearner | Panel, moments: Moments
) -> bytes:
    """Return the content of ``model.npz`` after a job of one seed.

    The content includes the predictions whose targets have not arrived yet.

    Parameters
    ----------
    settings, stream
        Settings and stream of the job.
    learner
        Learner of the job after the last row.
    moments
        Location and scale of the stream's columns after the last learned row.
    """
    if isinstance(learner, Panel):
        return learner.content(_columns(settings, stream))
    if learner.settings.series is not None:
        return learner.file(_columns(settings, stream))
    recent = RecentPredictions(MOST_PENDING + len(learner.waiting))
    n_own = stream.n_inputs - stream.n_lags
    rows = [x for x, *_ in learner.waiting]
    if isinstance(moments, LateMoments) and not learner.algorithm.standardises:
        rows = list(moments.waiting)
    for x, (_, prediction, *_) in zip(rows, learner.waiting, strict=True):
        recent.add(x[:n_own], prediction)
    arrays = learner.arrays() | recent.arrays()
    if stream.scaling == "columns":
        arrays |= {f"columns.{name}": array for name, array in moments.arrays().items()}
    own = dataclasses.replace(learner.settings, max_pending=recent.limit)
    return model_file.content(own, arrays, _columns(settings, stream))


def learns_together(settings: Settings, stream: Stream) -> bool:
    """Return whether a single learner learns all series of a stream."""
    return settings.algorithm.name == SERIES_ALGORITHM and stream.has_series


def settings_of(settings: Settings, stream: Stream, D: int, seed: int) -> LearnerSettings:
    """Return the settings with which ``omkl.learner`` would create the learner of a job.

    Parameters
    ----------
    settings, stream
        Settings and stream of the job.
    D
        Random features per kernel.
    seed
        Seed of the learner.
    """
    given = settings.algorithm.params
    dataset = settings.dataset
    together = learns_together(settings, stream)
    names_T = any(isinstance(value, str) and "T" in value for value in given.values())
    return LearnerSettings(
        algorithm=settings.algorithm.name,
        params=dict(given),
        kernels=settings.placed_kernels,
        D=D,
        seed=seed,
        inputs=tuple(stream.inputs[: len(stream.inputs) - stream.n_lags]),
        named=True,
        classes=tuple(stream.classes),
        scaling=stream.scaling,
        lags=stream.n_lags,
        horizon=stream.n_rounds if names_T else None,
        interval=settings.interval,
        interval_rate=settings.interval_rate,
        series=str(dataset["series"]) if together else None,
        season=season_of(dataset.get("season")),
        series_delay=settings.stream.series_delay,
        max_series=dataset.get("max_series") if together else None,
        late=stream.target_delay,
    )


def _columns(settings: Settings, stream: Stream) -> dict[str, Any] | None:
    """Return the format and the column encodings of a user's file; None for other data."""
    dataset = settings.dataset
    if "path" not in dataset:
        return None
    columns = [dataclasses.asdict(column) for column in stream.columns if column.inputs]
    reading = {key: dataset[key] for key in READING if key in dataset}
    ahead = {"horizon": stream.horizon} if stream.horizon else {}
    return {"reading": reading, "target": stream.target, "columns": columns, **ahead}
