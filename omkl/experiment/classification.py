"""Run classification jobs: compute their metrics and the entries of their results.

Two classes have the codes -1 and +1. A round is a mistake unless the product of code and prediction
is positive, so a prediction of 0 is a mistake. For three or more classes, some algorithms have one
learner for all classes. The other algorithms have one learner per class, whose target is +1 for the
class and -1 for the others. The predicted class is the first one with the largest prediction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from omkl.datasets import DataError, Stream
from omkl.datasets.base import Chunk
from omkl.experiment import kept_model
from omkl.experiment.evaluate import Left, StreamJob
from omkl.experiment.job import Computed, Progress, Timing, kernel_curves, reported
from omkl.experiment.metrics import (
    MOST_CLASSES,
    Baselines,
    ClassBaselines,
    Confusion,
    ProbabilityScores,
    Recorder,
    Rounds,
    WeightHistory,
    largest_norm,
    mistaken,
    weight_curves,
)
from omkl.online.learner import probabilities_of
from omkl.online.predictions import Predictions
from omkl.runs.writing import MODEL, PREDICTIONS, PredictedClasses, join


class Classification(StreamJob):
    """Job whose targets are classes. Each seed has a separate pass over the stream."""

    def passes(self) -> list[list[int]]:
        return [[r] for r in range(len(self.seeds))]

    def blocks(self, stream: Stream, size: int) -> Iterator[Chunk]:
        return stream.rounds(size)

    def baselines(self, stream: Stream) -> Baselines:
        return ClassBaselines(stream)

    def metrics(self, seeds: Sequence[int], staging: Path | None) -> ClassificationMetrics:
        return ClassificationMetrics(self, seeds[0], staging)

    def keep(self, left: Left) -> OneSeed:
        learner, representation = left.learners[0], self.algorithm.representation
        learners, keeps_model = learner.learners, self.settings.model
        return OneSeed(
            left.metrics,
            weights=learner.kernel_weights,
            importance=learner.input_importance,
            updates=np.sum([getattr(x.state, "updates", x.used) for x in learners], axis=0),
            support=np.sum([representation.support_size(x.state.model) for x in learners], axis=0),
            used=learner.used,
            rows=sum(representation.kept_rows(x.state.model) for x in learners),
            model=kept_model.content(self.settings, self.stream, learner, left.moments)
            if keeps_model
            else None,
            history=left.histories[0],
            baselines=left.baselines,
        )

    def result(
        self, passes: Sequence[OneSeed], timing: Timing, progress: Progress | None
    ) -> Computed:
        metrics = passes[0].metrics
        metrics.require_enough()
        computed = _summarise(self, passes, timing)
        parts = [one.metrics.predictions.finish() for one in passes if one.metrics.predictions]
        if parts:
            join(parts, parts[0].with_name(PREDICTIONS))
        return computed


class ClassificationMetrics:
    """Metrics of one seed of a classification, which are updated block by block."""

    def __init__(self, job: Classification, r: int, staging: Path | None) -> None:
        self.job, self.seed, self.mistakes = job, job.seeds[r], Recorder(1)
        self.largest_norm, self.classes_met = 0.0, np.empty(0)
        K = len(job.stream.classes)
        self.confusion = Confusion(K) if K <= MOST_CLASSES else None
        self.probabilities = ProbabilityScores() if job.algorithm.probabilities else None
        self.predictions: PredictedClasses | None = None
        if job.settings.keeps_predictions and staging:
            path = staging / f"{r}-{PREDICTIONS}"
            seed = self.seed if len(job.seeds) > 1 else None
            self.predictions = PredictedClasses(path, job.stream.classes, seed)

    def add(self, block: Chunk, rows: Rounds, predictions: Sequence[Predictions]) -> None:
        """Add the mistakes and scores of a block.

        Parameters
        ----------
        block
            Rows of the stream.
        rows
            Not used: all rows are scored.
        predictions
            One entry: the predictions of this seed.

        Raises
        ------
        FloatingPointError
            Predictions are not finite.
        """
        y, y_hat = block.y, predictions[0].y_hat
        if not np.isfinite(y_hat).all():
            raise FloatingPointError(
                f"by row {self.mistakes.n_rounds + len(y)} the predictions are no longer finite "
                f"(seed {self.seed}): the steps are too large"
            )
        if self.predictions:
            self.predictions.add(block.rows, y, y_hat)
        self.mistakes.add(mistaken(y_hat, y)[None, :].astype(np.float64))
        if self.confusion:
            self.confusion.add(y_hat, y)
        if self.probabilities:
            true = (y > 0.0 if y_hat.ndim == 1 else y).astype(int)
            self.probabilities.add(probabilities_of(y_hat), true)
        self.largest_norm = max(self.largest_norm, largest_norm(block.x))
        self.classes_met = np.union1d(self.classes_met, y)

    @property
    def running(self) -> tuple[float, int]:
        """Number of mistakes so far, and number of rounds so far."""
        return float(self.mistakes.total[0]), self.mistakes.n_rounds

    def require_enough(self) -> None:
        """Raise DataError if the stream is too short or has a single class."""
        where, T = self.job.stream.where, self.mistakes.n_rounds
        if len(self.classes_met) < 2:
            raise DataError(
                f"{where}: all {T} labels are the same, so there is nothing to learn. "
                "Look at dataset.labels, or take more rows."
            )


class OneSeed(NamedTuple):
    """Results of one seed, which has a single core learner or one core learner per class.

    With several core learners, ``updates``, ``support`` and ``rows`` are sums over them.

    metrics     metrics of the seed
    weights     (N,) mean weight of each of N kernels
    importance  (d + 1,) importance of d inputs and of the past targets, or (0,) if not measured
    updates     (N,) number of updates of each kernel. If the algorithm does not count updates, the
                same as ``used``
    support     (N,) number of support vectors of each kernel
    used        (N,) number of rounds in which each kernel was evaluated
    rows        number of rows in memory
    model       content of ``model.npz``; None if ``model=true`` is not set
    history     weights over time
    baselines   baselines; None if an earlier seed has the same rows in the same order
    """

    metrics: ClassificationMetrics
    weights: np.ndarray
    importance: np.ndarray
    updates: np.ndarray
    support: np.ndarray
    used: np.ndarray
    rows: int
    model: bytes | None
    history: WeightHistory
    baselines: Baselines | None


def _summarise(job: Classification, done: Sequence[OneSeed], timing: Timing) -> Computed:
    T, R, classes = done[0].metrics.mistakes.n_rounds, len(done), job.stream.classes
    rounds = done[0].metrics.mistakes.curve()[0]
    sums = np.concatenate([seed.metrics.mistakes.curve()[1] for seed in done])
    mistakes = sums[:, -1]
    updates = np.stack([seed.updates for seed in done])
    used = np.stack([seed.used for seed in done])
    kernels = job.kernels
    # Mistakes (R,) of each seed's best classifier, if classifiers are single kernel Perceptrons.
    independent = len(classes) == 2 and job.algorithm.independent
    fewest = updates.min(axis=1) if independent else None
    result = {"task": "classification"} | reported(
        job,
        mistakes / T,
        timing,
        labels_of_classes=[str(label) for label in classes],
        n_rounds=T,
        n_kernels=len(kernels),
        deterministic=job.algorithm.deterministic,
        max_norm=max(seed.metrics.largest_norm for seed in done),
        mistakes=mistakes.astype(int).tolist(),
        updates_per_kernel=float(updates.mean()),
        support_size=float(np.mean([seed.rows for seed in done])),
        best_kernel=None if fewest is None else float(fewest.mean()),
        kernels_per_round=float(used.sum() / (T * R)),
        labels=float(T),
        labels_per_seed=[T] * R,
        al_efficiency=1.0,
        regret={},
    )
    result |= _scores([seed.metrics for seed in done])
    of_streams = [seed.baselines for seed in done if seed.baselines]
    result["baselines"], baseline_curves = _baselines(of_streams)
    weights = np.stack([seed.weights for seed in done])
    ends = weights, np.stack([seed.importance for seed in done])
    histories, names = [seed.history for seed in done], job.stream.inputs_without_lags
    curves = {
        "t": rounds,
        "error_rate": sums / rounds,
        "weights": weights,
        **weight_curves(histories, T, *ends, inputs=names),
        "usage": used,
        "updates": updates,
        "support": np.stack([seed.support for seed in done]),
        **kernel_curves(kernels),
        "change_rounds": np.array(job.stream.change_rounds, dtype=np.int64),
        **baseline_curves,
    }
    files = {} if done[0].model is None else {MODEL: done[0].model}
    return Computed(result, curves, files)


def _scores(of_seeds: Sequence[ClassificationMetrics]) -> dict[str, Any]:
    """Return the confusion matrix (sum over the seeds), log loss and Brier score (means)."""
    entries: dict[str, Any] = {}
    if tables := [one.confusion.counts for one in of_seeds if one.confusion]:
        entries["confusion"] = np.sum(tables, axis=0).tolist()
    if scores := [one.probabilities for one in of_seeds if one.probabilities]:
        for name in ("log_loss", "brier_score"):
            entries[name] = float(np.mean([getattr(one, name) for one in scores]))
    return entries


def _baselines(of_streams: Sequence[Baselines]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the error rates of the baselines, and their curves (P,) at P recorded rounds.

    Both are means over the streams.
    """
    first = of_streams[0]
    rounds = first.squared.curve()[0]
    sums = np.mean([one.squared.curve()[1] for one in of_streams], axis=0)
    rates = dict(zip(first.learners, sums / rounds, strict=True))
    entries: dict[str, Any] = {name: {"error_rate": float(c[-1])} for name, c in rates.items()}
    return entries | first.skipped, {f"baseline_{name}": rate for name, rate in rates.items()}
