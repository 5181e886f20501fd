"""Run regression jobs: compute their metrics and the entries of their results."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from omkl.core.graph_sampling import OUT
from omkl.core.hyperparameters import Schedule
from omkl.core.kernels import FAMILIES
from omkl.datasets import DataError, Stream
from omkl.datasets.base import Chunk
from omkl.experiment import kept_model
from omkl.experiment.comparators import against_comparators
from omkl.experiment.evaluate import Left, StreamJob
from omkl.experiment.job import Computed, Progress, Timing, kernel_curves, reported, require_finite
from omkl.experiment.metrics import (
    Accuracy,
    Baselines,
    LastRows,
    Recorder,
    Rounds,
    ScoredIntervals,
    SeriesErrors,
    Spreads,
    but_the_first,
    label_cost,
    largest_norm,
    weight_curves,
)
from omkl.online.learner import OnlineLearner
from omkl.online.panel import Panel
from omkl.online.predictions import Predictions
from omkl.runs.writing import MODEL, PREDICTIONS, PredictedNumbers


class Regression(StreamJob):
    """Job whose targets are numbers. One pass over the stream serves all seeds."""

    def notes(self) -> list[str]:
        return super().notes() + _expansive_steps(self)

    def passes(self) -> list[list[int]]:
        return [list(range(len(self.seeds)))]

    def blocks(self, stream: Stream, size: int) -> Iterator[Chunk]:
        return stream.rows(size)

    def baselines(self, stream: Stream) -> Baselines:
        return Baselines(stream, self.settings.dataset.get("max_series"))

    def metrics(self, seeds: Sequence[int], staging: Path | None) -> RegressionMetrics:
        return RegressionMetrics(self, staging)

    def result(self, passes: Sequence[Left], timing: Timing, progress: Progress | None) -> Computed:
        return _summarise(self, passes[0], timing, progress)


class RegressionMetrics:
    """Metrics of R seeds of a regression, which are updated block by block."""

    def __init__(self, job: Regression, staging: Path | None) -> None:
        self.job, R = job, len(job.seeds)
        self.squared, self.asked = Recorder(R), Recorder(R)
        self.last_rows, self.spreads = LastRows(), Spreads(R)
        asked = job.settings.intervals
        self.intervals = ScoredIntervals(R, asked) if asked else None
        self.accuracy = Accuracy(R, job.stream.target_unit)
        self.scored, self.times = Recorder(1), Recorder(1)
        self.of_series = SeriesErrors(R) if job.stream.has_series else None
        self.low, self.high, self.largest_norm, self.largest_error = np.inf, -np.inf, 0.0, 0.0
        self.predictions: PredictedNumbers | None = None
        if job.settings.keeps_predictions and staging:
            has = job.algorithm.has_spread, self.intervals is not None
            series_type = job.stream.series_type
            self.predictions = PredictedNumbers(staging / PREDICTIONS, job.seeds, *has, series_type)

    def add(self, block: Chunk, rows: Rounds, predictions: Sequence[Predictions]) -> None:
        """Add the errors of a block. Rows without a target do not count.

        Parameters
        ----------
        block
            Rows of the stream.
        rows
            The same rows, and which of them are scored.
        predictions
            Predictions of each seed.

        Raises
        ------
        FloatingPointError
            Predictions are not finite.
        """
        stacked = Predictions(*map(np.stack, zip(*predictions, strict=True)))
        if self.predictions:
            self.predictions.add(block.rows, block.y, *stacked, block.series)
        scored, known = rows.scored, rows.known
        if not known.all():
            stacked = Predictions(*(array[:, known] for array in stacked))
            block, scored = block.at(known), scored[known]
        y = block.y
        ends = {"low": stacked.low[0], "high": stacked.high[0]} if self.intervals else {}
        time = {} if block.time is None else {"time": block.time}
        one = {"y": y, "y_hat": stacked.y_hat[0], "spread": stacked.spread[0], **ends, **time}
        with np.errstate(over="ignore", invalid="ignore"):  # _require_finite reports overflow
            errors = stacked.y_hat - y
            squared = np.where(scored, np.square(errors), 0.0)
            self.last_rows.add(self.squared.n_rounds + 1, **one)
            self.squared.add(squared)
            if block.time is not None:
                self.times.add(np.diff(block.time[None, :], prepend=self.times.total[0]))
            self.scored.add(scored[None, :].astype(float))
            if self.of_series and block.series is not None:
                self.of_series.add(block.series, squared, scored)
            self.accuracy.add(errors[:, scored], y[scored])
            if self.job.algorithm.has_spread:
                self.spreads.add_block(squared, np.where(scored, stacked.spread, np.nan))
            if self.intervals:
                self.intervals.add_block(y, stacked.low, stacked.high, scored)
        self.asked.add(stacked.asked)
        require_finite(self.job, self.job.params, self.squared, "row", _expansive_steps)
        self.low = min(self.low, float(y.min(initial=np.inf)))
        self.high = max(self.high, float(y.max(initial=-np.inf)))
        if not self.of_series:  # each series scales its own inputs
            self.largest_norm = max(self.largest_norm, largest_norm(block.x))
        self.largest_error = max(self.largest_error, float(squared.max(initial=0.0)))

    @property
    def running(self) -> tuple[float, int]:
        """Mean over the seeds of the sum of squared errors so far, and number of summed rounds."""
        return float(self.squared.total.mean()), self.accuracy.n_rounds

    def require_enough(self) -> None:
        """Raise DataError if nothing can be learned from the stream."""
        stream, T = self.job.stream, self.squared.n_rounds
        if not self.accuracy.n_rounds:
            raise DataError(
                f"{stream.where}: the first target is in after {stream.target_delay + 1} rows, and "
                f"no row of {T} comes later. Reduce stream.delay or stream.horizon, or take more "
                "rows."
            )
        if self.low == self.high:
            raise DataError(
                f"{stream.where}: the target {stream.target!r} is the same in all {T} rows, so "
                "there is nothing to learn. Choose another dataset.target or more rows."
            )


def _summarise(job: Regression, left: Left, timing: Timing, progress: Progress | None) -> Computed:
    """Return the results of a job after its pass, with comparators in hindsight."""
    metrics: RegressionMetrics = left.metrics
    metrics.require_enough()
    assert left.baselines is not None
    T, n_unscored = metrics.squared.n_rounds, left.counter.n_unscored
    rounds, sums = (array[..., n_unscored:] for array in metrics.squared.curve())
    n_queried = metrics.asked.curve()[1][:, n_unscored:].astype(np.int64)
    n_scored = np.maximum(metrics.scored.curve()[1][0, n_unscored:], 1.0)
    mse = metrics.squared.total / n_scored[-1]
    used = np.stack([learner.used for learner in left.learners])
    worst = max(learner.worst for learner in left.learners)
    kernels, interval = job.kernels, metrics.intervals.result() if metrics.intervals else {}
    r2 = float(metrics.accuracy.r2.mean())
    own = {
        "n_rounds": T,
        "rows_without_target": left.counter.n_blank,
        "n_kernels": used.shape[1],
        "deterministic": job.algorithm.deterministic,
        "max_squared_error": metrics.largest_error,
        "max_kernel_squared_error": worst if worst < np.inf else None,
        "max_norm": None if metrics.of_series else metrics.largest_norm,
        "kernels_per_round": float(used.sum() / (T * len(left.learners))),
        **label_cost(n_queried[:, -1], T),
        "mse_over": "all rounds" + but_the_first(*left.counter.unscored),
        "target_unit": job.stream.target_unit,
        "rmse": float(metrics.accuracy.rmse.mean()),
        "mae": float(metrics.accuracy.mae.mean()),
        "r2": r2 if np.isfinite(r2) else None,
        "baselines": left.baselines.entries(),
        **_of_series(job, metrics, left.baselines),
        **({"seasons": list(m)} if (m := getattr(left.learners[0], "seasons", ())) else {}),
        "regret": {},
        **({"spread": spread} if (spread := metrics.spreads.means()) else {}),
        **({"interval": interval} if interval else {}),
    }
    weights = np.stack([learner.kernel_weights for learner in left.learners])
    importance = np.stack([learner.input_importance for learner in left.learners])
    curves = {
        "t": rounds,
        "mse": sums / n_scored,
        "scored": n_scored,
        "labels": n_queried,
        "weights": weights,
        "usage": used,
        **kernel_curves(kernels),
        "change_rounds": np.array(job.stream.change_rounds, dtype=np.int64),
        **left.baselines.curves(n_scored, n_unscored),
    }
    if metrics.times.n_rounds:
        curves["time"] = metrics.times.curve()[1][0, n_unscored:]
    curves |= metrics.last_rows.curves() | graph_of(left.learners[0])
    ends, names = (weights, importance), job.stream.inputs_without_lags
    curves |= weight_curves(left.histories, T, *ends, inputs=names)
    of_kernels = all(kernel.family in FAMILIES for kernel in kernels)  # experts are not kernels
    if of_kernels and not job.stream.has_series:  # no comparator for many series
        own["regret"], found = against_comparators(job, rounds, sums, n_unscored, progress)
        curves |= found
    files = {}
    if metrics.predictions:
        metrics.predictions.finish()
    if job.settings.model:
        files[MODEL] = kept_model.content(job.settings, job.stream, left.learners[0], left.moments)
    return Computed(reported(job, mse, timing, **own), curves, files)


def graph_of(learner: OnlineLearner | Panel) -> dict[str, np.ndarray]:
    """Return the array ``graph`` of curves.npz, or {} for a learner without a feedback graph.

    The array (nodes, M) contains the indices of the kernels that each node evaluates.
    """
    if isinstance(learner, Panel):
        return {}
    state = learner.learners[0].state
    if hasattr(state, "edges"):
        return {"graph": state.edges[OUT].copy()}
    if hasattr(state, "n_kernels"):  # a node with fewer kernels repeats them in its row
        kernels = zip(state.kernels, state.n_kernels, strict=True)
        return {"graph": np.stack([np.resize(row[:n], len(row)) for row, n in kernels])}
    return {}


def _of_series(job: Regression, metrics: RegressionMetrics, baselines: Baselines) -> dict[str, Any]:
    """Return the entry ``series`` of result.json, or {} without series."""
    own, others = metrics.of_series, baselines.of_series
    if own is None or others is None:
        return {}
    at = [others.places[name] for name in own.places]
    of_each = dict(zip(baselines.learners, others.rmse[:, at], strict=True))
    how = {"together": kept_model.learns_together(job.settings, job.stream), "by_date": job.by_date}
    return {"series": own.result(str(job.settings.dataset["series"]), of_each) | how}


def _expansive_steps(job: Regression) -> list[str]:
    """Return a note if the learner's step sizes eta are so large that gradient descent diverges.

    The features z have norm 1. A gradient step on (theta'z - y)^2 + lam ||theta||^2 multiplies the
    part of theta along z by 1 - 2 eta (1 + lam). If eta > 1 / (1 + lam), this factor is below -1,
    so errors can grow. Importance weights, which enlarge steps, are ignored here.
    """
    own = job.params._asdict()
    draws_features = job.algorithm.representation.draws_features
    if not (draws_features and isinstance(own.get("eta"), Schedule) and "lam" in own):
        return []
    eta, bound, T = own["eta"], 1.0 / (1.0 + own["lam"]), job.stream.n_rounds
    if eta.scale <= bound:
        return []
    # First row at which the step of a schedule in t is small enough.
    settled = math.inf if eta.power == 0.0 else (eta.scale / bound) ** (-1.0 / eta.power)
    rows = (
        "every row"
        if settled > (T or math.inf) or settled == math.inf
        else f"rows 1 to {math.ceil(settled) - 1}"
    )
    given = str(job.settings.algorithm.params["eta"])
    at_T = f" at T = {T}" if "T" in given else ""
    return [
        f"algorithm.eta={given} is {eta.scale:.3g}{at_T}; with lam={own['lam']:g} any step above "
        f"{bound:.4g} is expansive: errors may grow where rows are alike, in {rows}"
    ]
