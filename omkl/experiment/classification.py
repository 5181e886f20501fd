"""A classification job: every seed's rows through its learner, in an order of its own.

Of two classes -1 and +1 a round is a mistake where y_t times the prediction is not
positive, so that saying nothing (0) is one. More classes are one against the rest: a
learner a class, told +1 for its own and -1 for the others; the class of the largest
prediction is the answer, and of equal ones the first.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from omkl.config.settings import Settings
from omkl.core.learner import SideBySide
from omkl.core.simd import LANES
from omkl.datasets import DataError
from omkl.experiment import baselines, bounds, weight_history
from omkl.experiment.classification_pass import OneSeed, RunningErrors, learners_of, one_seed
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
from omkl.experiment.regret import load_or_compute
from omkl.runs.predictions import joined
from omkl.runs.run_folder import ERROR_RATE
from omkl.runs.writing import MODEL, PREDICTIONS
from omkl.threads import one_thread_each, thread_pool


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
        (first, *_) = learners_of(self, 0, self.threads_a_learner)
        first.partial_fit(np.zeros((2, d)), np.array([-1.0, 1.0]))

    def compute(
        self,
        progress: Progress | None = None,
        measured: Measured | None = None,
        staging: Path | None = None,
    ) -> Computed:
        n_rounds = self.stream.n_rounds
        running = RunningErrors(progress, n_rounds and n_rounds * len(self.seeds))
        together = _Together([self], [staging])
        elapsed = together.stream(running.add)
        return together.computed(0, elapsed, progress, measured)


class _Together:
    """All seeds of jobs that ``can_share`` a pass (``one_pass``), or of one job."""

    def __init__(self, jobs: Sequence[Classification], staging: Sequence[Path | None]) -> None:
        self.jobs, self.staging = list(jobs), list(staging)
        self.done: list[dict[int, OneSeed | FloatingPointError]] = []  # a seed: a job's number
        self.diverged: dict[int, int] = {}  # a job's number: the first of its seeds that diverged
        self.lock = threading.Lock()

    def stream(self, report: Callable[[np.ndarray], None]) -> float:
        """The seconds that it took."""
        first, clock = self.jobs[0], time.perf_counter()
        with thread_pool(min(first.settings.n_threads, len(first.seeds))) as pool:
            self.done = list(pool.map(lambda r: self._one(r, report), range(len(first.seeds))))
        return time.perf_counter() - clock

    def _one(
        self, r: int, report: Callable[[np.ndarray], None]
    ) -> dict[int, OneSeed | FloatingPointError]:
        """Seed r of the jobs none of whose earlier seeds has diverged, as far as is known."""
        with self.lock:
            going = [k for k in range(len(self.jobs)) if self.diverged.get(k, r) >= r]
        if not going:
            return {}
        jobs, staging = [self.jobs[k] for k in going], [self.staging[k] for k in going]
        seed = one_seed(jobs, r, jobs[0].threads_a_learner, report, staging)
        found = dict(zip(going, seed, strict=True))
        with self.lock:
            for k, left in found.items():
                if isinstance(left, FloatingPointError):
                    self.diverged[k] = min(r, self.diverged.get(k, r))
        return found

    def computed(
        self, number: int, elapsed: float, progress: Progress | None, measured: Measured | None
    ) -> Computed:
        """What job ``number`` has computed in its share of the seconds; or its error is raised."""
        done: list[OneSeed] = []
        for seed in self.done:
            if isinstance(left := seed[number], FloatingPointError):
                raise left
            done.append(left)
        job, n = self.jobs[number], len(self.jobs)
        _require_enough(job, done[0])
        n_threads = min(job.settings.n_threads, len(job.seeds)) * job.threads_a_learner
        timing = Timing(elapsed / n, [seed.seconds for seed in done], n_threads)
        made = _computed(job, done, timing, progress, measured)
        parts = [seed.predictions for seed in done if seed.predictions]
        if parts:
            whole = joined(parts, parts[0].with_name(PREDICTIONS))
            made = made._replace(kept={**made.kept, PREDICTIONS: whole})
        return made._replace(result=made.result | ({"jobs_in_pass": n} if n > 1 else {}))


def compute_together(
    jobs: Sequence[Classification], staging: Sequence[Path]
) -> Iterator[tuple[int, Computed | Exception]]:
    """As ``one_pass.compute``, of classifications."""
    together = _Together(jobs, staging)
    with thread_pool(1) as pool:  # the compiler would swallow a Ctrl-C in the main thread
        pool.submit(jobs[0].warm_up).result()
        pool.submit(_warm_up_together, jobs).result()
    elapsed = together.stream(lambda wrong: None)
    for number in range(len(jobs)):
        try:
            yield number, together.computed(number, elapsed, None, None)
        except Exception as error:
            yield number, error


def _warm_up_together(jobs: Sequence[Classification]) -> None:
    d = jobs[0].stream.n_inputs
    learners = [learners_of(job, 0)[0] for job in jobs]
    SideBySide(learners).partial_fit(np.zeros((LANES, d)), np.resize([-1.0, 1.0], LANES))


def prepare(settings: Settings) -> Classification:
    """Check settings against the data, and build what they name; as ``prepare_learner``."""
    return Classification(*prepare_learner(settings))


def _require_enough(job: Classification, first: OneSeed) -> None:
    """DataError for a stream that nothing can be learned from."""
    T = first.recorder.n_rounds
    if T < 2:
        raise DataError(f"{job.stream.where}: a stream needs at least 2 rows, {T} came")
    if first.n_classes_met < 2:
        raise DataError(
            f"{job.stream.where}: all {T} labels are the same, so there is nothing to learn. "
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
    theorem = bounds.THEOREMS[str(job.algorithm.theorem)]
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
    theorem: bounds.Theorem,
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
                return bounds.batch_error(job.dictionary, *_rows(job), params.R)._asdict()

        batch = float(load_or_compute(job, f"batch_error-{params.R}", solve)["lower"])
    entries: list[dict[str, Any]] = []
    for more in theorem.further(params, N, T, least, batch):
        entries.append({"name": more.name, "of": more.of, "value": _stated(more.value)})
        if more.of == "updates":
            entries[-1]["measured"] = updates
        if more.name == "corollary 4" and fewest is not None:
            betas = [bounds.corollary4_beta(float(m), N) for m in fewest]
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
    return f"{T:,} rounds are more than regret.kernel_ridge_rounds={most}" if most < T else None


def _stated(value: float) -> float | None:
    """None where nothing is promised."""
    return float(value) if np.isfinite(value) else None
