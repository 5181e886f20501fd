"""A seed's rows through the learners of classifications that differ in parameters alone.

One job by itself is a pass of one. Of two classes a job has one learner a seed, of K > 2 one a
class, all with the same random features.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from omkl.core.learner import Learner, SideBySide, one_against_rest
from omkl.datasets import Stream
from omkl.datasets.base import Chunk
from omkl.experiment import kept_model, metrics
from omkl.experiment.job import LearnerJob, Progress
from omkl.experiment.metrics import Recorder, mistaken
from omkl.experiment.weight_history import WeightHistory, weights_of
from omkl.runs.predictions import PredictedClasses
from omkl.runs.writing import PREDICTIONS


class OneSeed(NamedTuple):
    """What a seed leaves, over its learners (one, or one a class); N kernels.

    weights (N,) are means; updates and support (N,) sums, and so is ``rows``, which are kept.
    ``seconds`` are the job's share of those inside the learners.
    """

    recorder: Recorder
    weights: np.ndarray
    updates: np.ndarray
    support: np.ndarray
    used: np.ndarray
    rows: int
    seconds: float
    largest_norm: float
    n_classes_met: int
    model: bytes | None
    history: WeightHistory
    predictions: Path | None


def one_seed(
    jobs: Sequence[LearnerJob],
    r: int,
    n_threads: int,
    report: Callable[[np.ndarray], None],
    staging: Sequence[Path | None],
) -> list[OneSeed | FloatingPointError]:
    """What seed r of each job leaves, or how it diverged; ``report`` is told who is mistaken.

    The jobs ``can_share`` a pass (``one_pass``), or there is one; its learners take ``n_threads``.
    Predictions that are kept grow in the job's folder ``staging``.
    """
    stream, passes, seconds = jobs[0].streams[r], _passes(jobs, r, n_threads, staging), 0.0
    going = _Going(passes)
    for block in stream.rounds(jobs[0].settings.block):
        before = time.perf_counter()
        said = going.partial_fit(block.x, block.y)
        seconds += time.perf_counter() - before
        for passed, y_hat in zip(going.passes, said, strict=True):
            try:
                report(passed.take(block, y_hat))
            except FloatingPointError as error:
                passed.diverged = error
        left = [passed for passed in going.passes if passed.diverged is None]
        if not left:
            break
        going = going if len(left) == len(going.passes) else _Going(left)
    share = seconds / len(jobs)
    return [passed.diverged or passed.left(stream, share) for passed in passes]


def learners_of(
    job: LearnerJob, seed: int, n_threads: int = 1, drawn: Learner | None = None
) -> list[Learner]:
    """One learner of two classes, else one a class; with the random features of ``drawn``."""
    n_classes, untaught = len(job.stream.classes), job.algorithm.representation.untaught
    learners: list[Learner] = []
    for _ in range(1 if n_classes == 2 else n_classes):
        model = untaught(drawn.state.model) if untaught and drawn else None
        learners.append(job.learner(seed, n_threads, model=model))
        drawn = drawn or learners[0]
    if job.resumed:
        for k, learner in enumerate(learners):
            job.resumed.restore(learner, k)
    return learners


def _passes(
    jobs: Sequence[LearnerJob], r: int, n_threads: int, staging: Sequence[Path | None]
) -> list[_Pass]:
    """One a job; features are drawn once for those of the same kernels."""
    made: list[tuple[Any, _Pass]] = []
    for job, folder in zip(jobs, staging, strict=True):
        kernels = job.algorithm.kernels(job.params, job.dictionary)
        drawn = next((passed.learners[0] for known, passed in made if known == kernels), None)
        learners = learners_of(job, job.seeds[r], n_threads, drawn)
        made.append((kernels, _Pass(job, r, learners, folder)))
    return [passed for _, passed in made]


class _Pass:
    """One seed of a job: what its learners said, summed up block by block."""

    def __init__(
        self, job: LearnerJob, r: int, learners: list[Learner], staging: Path | None
    ) -> None:
        self.job, self.seed, self.learners = job, job.seeds[r], learners
        self.recorder, self.history = Recorder(1), WeightHistory(job.streams[r].n_rounds)
        self.largest_norm, self.classes_met = 0.0, np.empty(0)
        self.diverged: FloatingPointError | None = None
        self.predictions: PredictedClasses | None = None
        if job.settings.keeps_predictions and staging:
            path = staging / f"{r}-{PREDICTIONS}"
            seed = self.seed if len(job.seeds) > 1 else None
            self.predictions = PredictedClasses(path, job.stream.classes, seed)

    def take(self, block: Chunk, y_hat: np.ndarray) -> np.ndarray:
        """Which rows (n,) of a block were mistaken; y_hat (n, 1) or (n, K) is what was said."""
        X, y = block.x, block.y
        if not np.isfinite(y_hat).all():
            raise FloatingPointError(
                f"by round {self.recorder.n_rounds + len(y)} the predictions are no longer finite "
                f"(seed {self.seed}): the steps are too large"
            )
        if self.predictions:
            self.predictions.add(block.rows, y, y_hat)
        wrong = mistaken(y_hat, y)
        self.recorder.add(wrong[None, :].astype(np.float64))
        self.largest_norm = max(self.largest_norm, metrics.largest_norm(X))
        self.classes_met = np.union1d(self.classes_met, y)
        return wrong

    def left(self, stream: Stream, seconds: float) -> OneSeed:
        learners, kept, model = self.learners, self.job.algorithm.representation, None
        if self.job.settings.model:
            known = [stream.labels.arrays()] * len(learners)
            model = kept_model.content(self.job, learners, known, stream.moments.arrays())
        return OneSeed(
            self.recorder,
            weights=weights_of(learners),
            updates=np.sum([x.state.updates for x in learners], axis=0),
            support=np.sum([kept.support_size(x.state.model) for x in learners], axis=0),
            used=learners[0].used,
            rows=sum(kept.kept_rows(x.state.model) for x in learners),
            seconds=seconds,
            largest_norm=self.largest_norm,
            n_classes_met=len(self.classes_met),
            model=model,
            history=self.history,
            predictions=self.predictions.finished() if self.predictions else None,
        )


class _Going:
    """The passes that have not diverged, whose learners go side by side, class by class."""

    def __init__(self, passes: Sequence[_Pass]) -> None:
        self.passes = list(passes)
        self.groups: list[SideBySide] = []
        for learners in zip(*(passed.learners for passed in passes), strict=True):
            self.groups.append(SideBySide(learners, self.groups[0] if self.groups else None))

    def partial_fit(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """What S jobs' learners say of a block of rows, (S, n, 1) or (S, n, K)."""
        first, K, parts = self.passes[0], len(self.groups), []
        t = first.recorder.n_rounds
        for rows in first.history.pieces(t, np.ones(len(y), dtype=bool)):
            traces = [
                group.partial_fit(X[rows], one_against_rest(y[rows], k, max(2, K)))
                for k, group in enumerate(self.groups)
            ]
            parts.append(np.stack([trace.y_hat for trace in traces], axis=-1))
            for passed in self.passes:
                passed.history.look(t + rows.stop, passed.learners)
        return np.concatenate(parts, axis=1)


class RunningErrors:
    """Progress over all seeds, which run one after another on each thread."""

    def __init__(self, progress: Progress | None, total: int | None) -> None:
        self.progress, self.total = progress, total
        self.rounds = self.mistakes = 0
        self.lock = threading.Lock()
        if progress:
            progress("rounds", 0, total, None)

    def add(self, wrong: np.ndarray) -> None:
        with self.lock:
            self.rounds += len(wrong)
            self.mistakes += int(wrong.sum())
            if self.progress:
                self.progress("rounds", self.rounds, self.total, self.mistakes / self.rounds)
