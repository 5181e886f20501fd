"""A classification job: every seed's rows through its learner, in an order of its own.

Of two classes -1 and +1 a round is a mistake where y_t times the prediction is not
positive, so that saying nothing (0) is one. More classes are one against the rest: a
learner a class, told +1 for its own and -1 for the others; the class of the largest
prediction is the answer, and of equal ones the first.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from omkl.core.learner import Learner
from omkl.datasets import DataError
from omkl.experiment import baselines, kept_model, metrics, weight_history
from omkl.experiment.job import (
    Computed,
    LearnerJob,
    Measured,
    Progress,
    Timing,
    kernel_curves,
    prepare_learner,
    reported,
)
from omkl.experiment.metrics import Recorder, mistaken, one_against_rest
from omkl.experiment.regret import load_or_compute
from omkl.experiment.settings import Settings
from omkl.experiment.weight_history import WeightHistory, weights_of
from omkl.runs.folder import ERROR_RATE
from omkl.runs.writing import MODEL
from omkl.theory import mistake_bounds
from omkl.threads import one_thread_each, thread_pool


class OneSeed(NamedTuple):
    """What a seed leaves, over its learners (one, or one a class); N kernels.

    weights (N,) are means; updates and support (N,) sums, and so is ``rows``, which are kept.
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


class Classification(LearnerJob):
    """A job whose labels are classes."""

    @property
    def threads_a_learner(self) -> int:
        return (
            max(1, self.settings.n_threads // len(self.seeds))
            if self.algorithm.representation.lookahead
            else 1
        )

    def warm_up(self) -> None:
        d = self.stream.n_inputs
        (first, *_) = _learners(self, 0, self.threads_a_learner)
        first.partial_fit(np.zeros((2, d)), np.array([-1.0, 1.0]))

    def compute(
        self,
        progress: Progress | None = None,
        measured: Measured | None = None,
        staging: Path | None = None,
    ) -> Computed:
        R, each = len(self.seeds), self.threads_a_learner
        n_threads = min(self.settings.n_threads, R)
        total = None if self.stream.n_rounds is None else self.stream.n_rounds * R
        running = _RunningErrors(progress, total)
        clock = time.perf_counter()
        with thread_pool(n_threads) as pool:
            done = list(pool.map(lambda r: _one_seed(self, r, each, running.add), range(R)))
        timing = Timing(
            time.perf_counter() - clock, [seed.seconds for seed in done], n_threads * each
        )
        _require_enough(self, done[0])
        return _computed(self, done, timing, progress, measured)


def prepare(settings: Settings) -> Classification:
    """Check settings against the data, and build what they name; as ``prepare_learner``."""
    return Classification(*prepare_learner(settings))


def _require_enough(job: Classification, first: OneSeed) -> None:
    """DataError for a stream that nothing can be learned from."""
    T = first.recorder.n_rounds
    if T < 2:
        raise DataError(f"{job.stream.name}: a stream needs at least 2 rows, {T} came")
    if first.n_classes_met < 2:
        raise DataError(
            f"{job.stream.name}: all {T} labels are the same, so there is nothing to learn. "
            "Look at dataset.labels, or take more rows."
        )


def _computed(
    job: Classification,
    done: list[OneSeed],
    timing: Timing,
    progress: Progress | None,
    measured: Measured | None,
) -> Computed:
    T, R, classes = done[0].recorder.n_rounds, len(done), job.stream.classes
    rounds = done[0].recorder.curve()[0]
    sums = np.concatenate([seed.recorder.curve()[1] for seed in done])
    mistakes = sums[:, -1]
    updates = np.stack([seed.updates for seed in done])
    used = np.stack([seed.used for seed in done])
    kernels = job.algorithm.kernels(job.params, job.dictionary)
    # Mistakes (R,) of each seed's best classifier, where they are single kernel Perceptrons.
    independent = len(classes) == 2 and job.algorithm.independent
    fewest = updates.min(axis=1) if independent else None
    result = {"task": "classification"} | reported(
        job,
        ERROR_RATE,
        mistakes / T,
        timing,
        labels_of_classes=[str(label) for label in classes],
        n_rounds=T,
        n_kernels=len(kernels),
        deterministic=job.algorithm.deterministic,
        max_norm=max(seed.largest_norm for seed in done),
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
    result["baselines"], baseline_curves = _baselines(job)
    weights = np.stack([seed.weights for seed in done])
    curves = {
        "t": rounds,
        "error_rate": sums / rounds,
        "weights": weights,
        **weight_history.curves([seed.history for seed in done], T, weights),
        "usage": used,
        "updates": updates,
        "support": np.stack([seed.support for seed in done]),
        **kernel_curves(kernels),
        "change_rounds": np.array(job.stream.change_rounds, dtype=np.int64),
        **baseline_curves,
    }
    if measured:
        measured(Computed(result, curves))
    bound, bound_curves = _bound(job, T, fewest, float(updates.sum(axis=1).mean()), progress)
    stated = {"bound": bound} if bound else {}
    kept = {} if done[0].model is None else {MODEL: done[0].model}
    return Computed(result | stated, curves | bound_curves, kept)


def _baselines(job: Classification) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Their error rates, as in result.json, and the means (P,) of their curves over the seeds."""
    distinct = {id(stream): stream for stream in job.streams}
    with thread_pool(min(job.settings.n_threads, len(distinct))) as pool:
        found = pool.map(lambda x: baselines.mistakes(x, job.settings.block), distinct.values())
        recorders, names = zip(*found, strict=True)
    rounds = recorders[0].curve()[0]
    sums = np.mean([recorder.curve()[1] for recorder in recorders], axis=0)
    rates = dict(zip(names[0], sums / rounds, strict=True))
    entries: dict[str, Any] = {name: {"error_rate": float(c[-1])} for name, c in rates.items()}
    for name, reason in baselines.skipped(job.stream.n_inputs).items():
        entries[name] = {"skipped": reason}
    return entries, {f"baseline_{name}": rate for name, rate in rates.items()}


def _bound(
    job: Classification,
    T: int,
    fewest: np.ndarray | None,
    updates: float,
    progress: Progress | None,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The right-hand side of the learner's theorem for the first 1/8, 1/4, 1/2 and all rounds.

    In the order of the first seed: all rounds have the same minimum in any order. ``fewest`` (R,)
    are the mistakes of each seed's best classifier, where classifiers are independent;
    ``updates`` the mean number of updates of all kernels.
    """
    if not job.settings.regret.mistake_bound:
        return {}, {}
    if reason := _no_bound(job, T):
        return {"skipped": reason}, {}
    if progress:
        progress("mistake bound", 0, None, None)
    theorem = mistake_bounds.THEOREMS[str(job.algorithm.theorem)]
    at = np.unique([max(1, T // k) for k in (8, 4, 2, 1)])

    def solve() -> dict[str, np.ndarray]:
        X, y = _rows(job)
        with one_thread_each():
            found = [theorem.minimum(job.params, job.dictionary, X[:n], y[:n]) for n in at]
        return {end: np.array([getattr(m, end) for m in found]) for end in ("lower", "upper")}

    minima = load_or_compute(job, theorem.quantity(job.params), solve)
    values = [
        theorem.value(job.params, len(job.dictionary), int(n), float(m))
        for n, m in zip(at, minima["lower"], strict=True)
    ]
    least = float(minima["lower"][-1])
    entry = {
        "theorem": job.algorithm.theorem,
        "value": _stated(values[-1]),
        "minimum": [least, float(minima["upper"][-1])],
        "unproved": theorem.unproved,
        "further": _further(job, theorem, T, least, fewest, updates),
    }
    return entry, {"bound_t": at, "bound": np.array(values)}


def _further(
    job: Classification,
    theorem: mistake_bounds.Theorem,
    T: int,
    least: float,
    fewest: np.ndarray | None,
    updates: float,
) -> list[dict[str, Any]]:
    """What the paper says besides, as for ``_bound``; ``least`` is the theorem's minimum."""
    params, N, batch = job.params, len(job.dictionary), None
    if theorem.of_batch:

        def solve() -> dict[str, np.ndarray]:
            with one_thread_each():
                return mistake_bounds.batch_error(job.dictionary, *_rows(job), params.R)._asdict()

        batch = float(load_or_compute(job, f"batch_error-{params.R}", solve)["lower"])
    entries: list[dict[str, Any]] = []
    for more in theorem.further(params, N, T, least, batch):
        entries.append({"name": more.name, "of": more.of, "value": _stated(more.value)})
        if more.of == "updates":
            entries[-1]["measured"] = updates
        if more.name == "corollary 4" and fewest is not None:
            betas = [mistake_bounds.corollary4_beta(float(m), N) for m in fewest]
            entries[-1]["beta"] = float(np.mean(betas))
    return entries


def _rows(job: Classification) -> tuple[np.ndarray, np.ndarray]:
    """All rows of the first seed's order."""
    X, y = zip(*job.stream.blocks(1024), strict=True)
    return np.concatenate(X), np.concatenate(y)


def _no_bound(job: Classification, T: int) -> str | None:
    """Why the learner's mistake bound is left out, if it is."""
    settings = job.settings
    if job.algorithm.theorem is None:
        return f"no theorem is about {settings.algorithm.name}"
    if len(job.stream.classes) > 2:
        return "the theorems are about two classes"
    if job.streams[0] is not job.streams[-1] and settings.stream.limit is not None:
        why = "with stream.limit every permutation has other rows, and so another bound"
        return f"{why}; set stream.order=file"
    most = settings.regret.kernel_ridge_rounds
    return f"{T} rounds are more than regret.kernel_ridge_rounds={most}" if most < T else None


def _stated(value: float) -> float | None:
    """None where nothing is promised."""
    return float(value) if np.isfinite(value) else None


def _learners(job: Classification, seed: int, n_threads: int) -> list[Learner]:
    """One learner of two classes, else one a class."""
    K = len(job.stream.classes)
    learners = [job.learner(seed, n_threads) for _ in range(1 if K == 2 else K)]
    if job.resumed:
        for k, learner in enumerate(learners):
            job.resumed.restore(learner, k)
    return learners


def _one_seed(
    job: Classification, r: int, n_threads: int, report: Callable[[np.ndarray], None]
) -> OneSeed:
    learners, recorder = _learners(job, job.seeds[r], n_threads), Recorder(1)
    seconds, largest_norm, met, history = (
        0.0,
        0.0,
        np.empty(0),
        WeightHistory(job.streams[r].n_rounds),
    )
    for X, y in job.streams[r].blocks(job.settings.block):
        before = time.perf_counter()
        y_hat = _said(learners, X, y, recorder.n_rounds, history)
        seconds += time.perf_counter() - before
        if not np.isfinite(y_hat).all():
            raise FloatingPointError(
                f"by round {recorder.n_rounds + len(y)} the predictions are no longer finite "
                f"(seed {job.seeds[r]}): the steps are too large"
            )
        wrong = mistaken(y_hat, y)
        recorder.add(wrong[None, :].astype(np.float64))
        largest_norm = max(largest_norm, metrics.largest_norm(X))
        met = np.union1d(met, y)
        report(wrong)
    kept, model = job.algorithm.representation, None
    if job.settings.model:
        stream = job.streams[r]
        known = [stream.labels.arrays()] * len(learners)
        model = kept_model.content(job, learners, known, stream.moments.arrays())
    return OneSeed(
        recorder,
        weights=weights_of(learners),
        updates=np.sum([x.state.updates for x in learners], axis=0),
        support=np.sum([kept.support_size(x.state.model) for x in learners], axis=0),
        used=learners[0].used,
        rows=sum(kept.kept_rows(x.state.model) for x in learners),
        seconds=seconds,
        largest_norm=largest_norm,
        n_classes_met=len(met),
        model=model,
        history=history,
    )


def _said(
    learners: list[Learner], X: np.ndarray, y: np.ndarray, t: int, history: WeightHistory
) -> np.ndarray:
    """What the learners of K classes said of a block of rows after round t, (n, 1) or (n, K)."""
    K, parts = max(2, len(learners)), []
    for rows in history.pieces(t, np.ones(len(y), dtype=bool)):
        traces = [
            learner.partial_fit(X[rows], one_against_rest(y[rows], k, K))
            for k, learner in enumerate(learners)
        ]
        parts.append(np.stack([trace.y_hat for trace in traces], axis=1))
        history.look(t + rows.stop, learners)
    return np.concatenate(parts)


class _RunningErrors:
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
