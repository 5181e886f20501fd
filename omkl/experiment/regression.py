"""A regression: every seed streamed through its learner."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from omkl.config.settings import Settings, interval_around
from omkl.core import hyperparameters
from omkl.core.hyperparameters import Schedule
from omkl.core.kernels import FAMILIES
from omkl.core.learner import Learner, Trace, stacked
from omkl.core.protocol import Algorithm
from omkl.core.weights import normalised
from omkl.datasets import DataError, Stream, label_sources
from omkl.datasets.base import Chunk
from omkl.experiment import kept_model, weight_history
from omkl.experiment.baselines import Baselines
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
from omkl.experiment.metrics import Accuracy, Recent, Recorder, label_cost, largest_norm
from omkl.experiment.regret import against_comparators
from omkl.experiment.spread import ScoredIntervals, Spreads, intervals_of
from omkl.experiment.weight_history import WeightHistory
from omkl.online import intervals
from omkl.online.target_units import TargetUnits
from omkl.runs.predictions import Predictions
from omkl.runs.run_folder import MSE
from omkl.runs.writing import MODEL, PREDICTIONS
from omkl.threads import thread_pool

MOST_GIGABYTES = 8.0  # of coefficients that an exact-kernel learner may keep


class Regression(LearnerJob):
    """A job whose labels are numbers; the only one that can ask somebody for them."""

    def notes(self) -> list[str]:
        return super().notes() + _expansive_steps(self)

    def asking(self, source: label_sources.Label | None, folder: Path) -> Regression:
        """The job with its labels from outside kept in its folder as they come; None: a prompt."""
        prompted = source is None
        if source is None:
            inputs = self.stream.inputs[: self.stream.n_inputs - self.stream.n_lags]
            source = label_sources.Prompt(inputs, self.stream.unscaled_rows())
        kept = label_sources.Journal(folder / "labels.csv", source, resume=prompted)
        return self._replace(label=kept)

    def warm_up(self) -> None:
        d = self.stream.n_inputs
        (learner,) = _learners(self, [0])
        unit = TargetUnits(learner, self.stream, self.algorithm)
        unit.partial_fit(np.zeros((2, d)), np.zeros(2))
        known = np.ones(2, dtype=bool)
        Baselines(self.stream).add(np.zeros((2, d)), np.zeros(2), known, known)

    def compute(
        self,
        progress: Progress | None = None,
        measured: Measured | None = None,
        staging: Path | None = None,
    ) -> Computed:
        learners = _learners(self)
        n_threads = min(self.settings.n_threads, len(learners))
        units = [TargetUnits(learner, self.stream, self.algorithm) for learner in learners]
        passed = Pass(self, learners, units, Baselines(self.stream), staging)
        if progress:
            progress("rounds", 0, self.stream.n_rounds, None)
        clock = time.perf_counter()
        with thread_pool(n_threads) as pool:
            for block in self.stream.rows(self.settings.block):
                passed.stream(block, pool, clock)
                if progress:
                    done = passed.squared.n_rounds
                    progress("rounds", done, self.stream.n_rounds, passed.running_mse())
        elapsed = time.perf_counter() - clock - passed.baselines.seconds
        passed.moments = self.stream.moments.arrays()
        passed.require_enough()
        if self.algorithm.representation.lookahead:
            n_threads = self.settings.n_threads
        timing = Timing(elapsed, passed.seconds.tolist(), n_threads)
        return computed(self, passed, timing, progress, measured)


def prepare(settings: Settings) -> Regression:
    """Check settings against the data, and build what they name; as ``prepare_learner``."""
    job = Regression(*prepare_learner(settings))
    interval_around(settings.interval, job.algorithm, job.params)  # refuses what cannot be
    if not job.algorithm.representation.bounded:
        n_kernels = len(job.algorithm.kernels(job.params, job.dictionary))
        _require_memory(n_kernels, job.stream)
    return job


def _require_memory(n_kernels: int, stream: Stream) -> None:
    """Exact kernels that keep every row: refuse what cannot be held."""
    if stream.n_rounds is None:
        return
    gigabytes = stream.n_rounds * (n_kernels + stream.n_inputs) * 8 / 1e9
    if gigabytes > MOST_GIGABYTES:
        raise ValueError(
            f"exact kernels would keep {stream.n_rounds} rows for {n_kernels} kernels, "
            f"{gigabytes:.0f} GB; set stream.limit, choose fewer kernels, or a learner with "
            "random features"
        )


def _learners(job: Regression, seeds: Sequence[int] | None = None) -> list[Learner]:
    """A learner a seed, of the job's seeds by default."""
    ahead = job.algorithm.representation.lookahead
    n_threads = job.settings.n_threads if ahead else 1
    before = first_rows(job)
    learners = [job.learner(seed, n_threads, before) for seed in seeds or job.seeds]
    if job.resumed:
        job.resumed.restore(learners[0], 0)
    return learners


def first_rows(job: Regression) -> np.ndarray | None:
    """The rows (n, d) that the learners of a job see before the first round, if they want some."""
    if job.resumed:
        return job.resumed.before
    return rows_before(job.algorithm, job.params, job.stream)


def rows_before(algorithm: Algorithm, params: Any, stream: Stream) -> np.ndarray | None:
    """The rows (n, d) that a learner sees before the first round, where it wants some."""
    wanted = algorithm.rows_before(params) if algorithm.rows_before else 0
    before = next(stream.blocks(wanted))[0] if wanted else None
    if before is not None and stream.n_lags:
        before[:, -stream.n_lags :] = 0.0  # they are labels
    return before


class Rounds(NamedTuple):
    """Rows X (n, d) with labels y (n,); known, scored (n,) bool, as ``Baselines.add`` has them."""

    X: np.ndarray
    y: np.ndarray
    known: np.ndarray
    scored: np.ndarray


class Pass:
    """One pass over the stream: what R learners said, summed up block by block.

    ``streamed`` (R,) are learners as the stream sees them, of which ``learners`` are this job's.
    The first known label of a stream in moving units is not scored, of learners and baselines
    alike: before it nothing says where the target lies.
    """

    def __init__(
        self,
        job: Regression,
        learners: list[Learner],
        streamed: Sequence[TargetUnits],
        baselines: Baselines,
        staging: Path | None,
    ) -> None:
        self.job, self.learners, self.streamed = job, learners, streamed
        if job.resumed:
            self.streamed[0].restore(job.resumed.labels(0))
        self.moments: dict[str, np.ndarray] = {}  # of the columns, after the last row
        self.squared, self.asked = Recorder(len(learners)), Recorder(len(learners))
        self.recent = Recent()
        self.weights = [WeightHistory(job.stream.n_rounds) for _ in learners]
        self.spreads = Spreads(len(learners))
        asked, kind = job.settings.interval, job.algorithm
        self.intervals: ScoredIntervals | None = intervals_of(
            len(learners), asked, kind, job.params
        )
        if job.resumed and self.intervals and self.intervals.first:
            intervals.restore(self.intervals.first, job.resumed.intervals)
        self.accuracy = Accuracy(len(learners), job.stream.target_unit)
        self.baselines = baselines
        self.seconds = np.zeros(len(learners))
        self.low, self.high, self.largest_norm, self.largest_error = np.inf, -np.inf, 0.0, 0.0
        self.n_blank = 0
        self.n_unscored, self.n_known = int(job.stream.moving_units), 0
        self.predictions: Predictions | None = None
        if job.settings.keeps_predictions and staging:
            has = job.algorithm.has_spread, self.intervals is not None
            self.predictions = Predictions(staging / PREDICTIONS, job.seeds, *has)

    def stream(self, block: Chunk, pool: Any, clock: float) -> None:
        """Stream a block and sum it up.

        Where labels come from outside, those are known that the learner asked for.
        """
        if self.job.label is None:
            found = list(pool.map(lambda r: self._one(r, block), range(len(self.learners))))
            said, y = stacked(found), block.y
        else:
            trace, y = self._asking(block.x, self.job.label)
            said = Trace(*(array[None, :] for array in trace))
            self.seconds[0] = time.perf_counter() - clock - self.baselines.seconds
        self.baselines.add(*self.take(block, said, y))

    def take(self, block: Chunk, said: Trace, y: np.ndarray) -> Rounds:
        """Sum up what was said (R, n) of a block with labels y (n,); what baselines add of it.

        Rows without a target are predicted and counted, no more. FloatingPointError where
        predictions are no longer finite.
        """
        known = ~np.isnan(y)
        # Of a stream in moving units nothing is known of the first label.
        n_untold = 0 if self.job.resumed else self.n_unscored
        told = np.where(self.n_known + np.cumsum(known) > n_untold, y, np.nan)
        half = self.intervals.follow(said, told) if self.intervals else None
        if self.predictions:
            self.predictions.add(block.rows, y, *said, half)
        if self.job.label is None:
            self.n_blank += int(np.sum(~known))
            said = Trace(*(array[:, known] for array in said))
            half = None if half is None else half[:, known]
            return self._add(block.x[known], said, y[known], half)
        return self._add(block.x, said, y, half)

    def _one(self, r: int, block: Chunk) -> Trace:
        before, n_rounds, traces = time.perf_counter(), self.squared.n_rounds, []
        known = ~np.isnan(block.y)
        for rows in self.weights[r].pieces(n_rounds, known):
            traces.append(self.streamed[r].partial_fit(block.x[rows], block.y[rows]))
            n_rounds += int(known[rows].sum())
            self.weights[r].look(n_rounds, self.learners[r : r + 1])
        self.seconds[r] += time.perf_counter() - before
        return Trace(*map(np.concatenate, zip(*traces, strict=True)))

    def _asking(self, X: np.ndarray, label: label_sources.Label) -> label_sources.Answered:
        """The same of one learner that asks for the labels of X (n, d)."""
        n_rounds, traces, answers = self.squared.n_rounds, [], []
        for rows in self.weights[0].pieces(n_rounds, np.ones(len(X), dtype=bool)):
            trace, y = label_sources.learn(self.streamed[0], X[rows], label, n_rounds)
            traces.append(trace)
            answers.append(y)
            n_rounds += len(y)
            self.weights[0].look(n_rounds, self.learners)
        trace = Trace(*map(np.concatenate, zip(*traces, strict=True)))
        return label_sources.Answered(trace, np.concatenate(answers))

    def _add(self, X: np.ndarray, said: Trace, y: np.ndarray, half: np.ndarray | None) -> Rounds:
        """Rounds X (n, d) with what was said of them, (R, n) each, and labels y (n,) or NaN.

        half (R, n) are half the widths of their intervals, None where none were asked for.
        """
        known = ~np.isnan(y)
        scored = known & (self.n_known + np.cumsum(known) > self.n_unscored)
        self.n_known += int(known.sum())
        known_y = y[known]
        spread = np.full(len(y), np.nan) if self.job.algorithm.has_interval else said.spread[0]
        said_of_one = {"y_hat": said.y_hat[0], "spread": spread}
        said_of_one |= {} if half is None else {"half": half[0]}
        self.recent.add(self.squared.n_rounds + 1, y=y, **said_of_one)
        with np.errstate(over="ignore", invalid="ignore"):  # _require_finite tells
            errors = said.y_hat - y
            squared = np.where(scored, np.square(errors), 0.0)
            self.squared.add(squared)
            self.accuracy.add(errors[:, scored], y[scored])
            if self.job.algorithm.has_spread:
                self.spreads.add(squared, np.where(scored, said.spread, np.nan))
            if self.intervals and half is not None:
                self.intervals.add(errors, half, scored)
        self.asked.add(said.asked)
        _require_finite(self.job, self.squared)
        self.low = min(self.low, float(known_y.min(initial=np.inf)))
        self.high = max(self.high, float(known_y.max(initial=-np.inf)))
        self.largest_norm = max(self.largest_norm, largest_norm(X))
        self.largest_error = max(self.largest_error, float(squared.max(initial=0.0)))
        return Rounds(X, y, known, scored)

    def running_mse(self) -> float:
        return float(self.squared.total.mean() / max(self.n_known - self.n_unscored, 1))

    def require_enough(self) -> None:
        """DataError for a stream that nothing can be learned from."""
        stream, T = self.job.stream, self.squared.n_rounds
        if T < 2:
            raise DataError(f"{stream.where}: a stream needs at least 2 rows, {T} came")
        if self.low == self.high and self.job.label is None:
            raise DataError(
                f"{stream.where}: the target {stream.target!r} is the same in all {T} rows, so "
                "there is nothing to learn. Choose another dataset.target or more rows."
            )


def computed(
    job: Regression,
    passed: Pass,
    timing: Timing,
    progress: Progress | None,
    measured: Measured | None,
) -> Computed:
    """What a job whose pass is over has computed, comparators in hindsight included."""
    learners, T, n_unscored = passed.learners, passed.squared.n_rounds, passed.n_unscored
    rounds, sums = (array[..., n_unscored:] for array in passed.squared.curve())
    n_queried = passed.asked.curve()[1][:, n_unscored:].astype(np.int64)
    n_scored = np.maximum((rounds if job.label is None else n_queried) - n_unscored, 1)
    mse = passed.squared.total / n_scored[..., -1]
    used = np.stack([learner.used for learner in learners])
    worst = max(float(learner.worst[0]) for learner in learners)
    kernels = job.algorithm.kernels(job.params, job.dictionary)
    own = {
        "n_rounds": T,
        "rows_without_target": passed.n_blank,
        "n_kernels": used.shape[1],
        "deterministic": job.algorithm.deterministic,
        "max_squared_error": passed.largest_error,
        "max_kernel_squared_error": worst if worst < np.inf else None,
        "max_norm": passed.largest_norm,
        "kernels_per_round": float(used.sum() / (T * len(learners))),
        **label_cost(mse, n_queried[:, -1], T),
        "mse_over": ("all rounds" if job.label is None else "rounds with a label")
        + (" but the first" if n_unscored else ""),
        **_in_units_of_the_target(job, passed),
        "regret": {},
        **passed.spreads.result(),
        **(passed.intervals.result() if passed.intervals else {}),
    }
    weights = np.stack([normalised(learner.state.log_w) for learner in learners])
    curves = {
        "t": rounds,
        "mse": sums / n_scored,
        "labels": n_queried,
        "weights": weights,
        "usage": used,
        **kernel_curves(kernels),
        "change_rounds": np.array(job.stream.change_rounds, dtype=np.int64),
        **passed.baselines.curves(np.broadcast_to(n_scored, n_queried.shape)[0], n_unscored),
    }
    curves |= passed.recent.curves() | weight_history.curves(passed.weights, T, weights)
    covered = passed.spreads.curves()
    covered |= passed.intervals.curves() if passed.intervals else {}
    curves |= {name: share[:, n_unscored:] for name, share in covered.items()}
    if measured:
        measured(Computed(reported(job, MSE, mse, timing, **own), curves))
    if all(kernel.family in FAMILIES for kernel in kernels):  # experts, say, are none
        own["regret"], found = against_comparators(job, rounds, sums, n_unscored, progress)
        curves |= found
    return Computed(reported(job, MSE, mse, timing, **own), curves, _files(job, passed))


def _files(job: Regression, passed: Pass) -> dict[str, bytes | Path]:
    files: dict[str, bytes | Path] = {}
    if passed.predictions:
        files[PREDICTIONS] = passed.predictions.finished()
    if job.settings.model:
        labels = [streamed.arrays() for streamed in passed.streamed]
        before = first_rows(job)
        kept = passed.intervals.first if passed.intervals else None
        widths = intervals.arrays_of(kept, passed.n_known) if kept else None
        files[MODEL] = kept_model.content(
            job, passed.learners, labels, passed.moments, before, widths
        )
    return files


def _in_units_of_the_target(job: Regression, passed: Pass) -> dict[str, Any]:
    """Root mean squared and mean absolute error and R2, means over the seeds, and baselines."""
    accuracy = passed.accuracy
    r2 = float(accuracy.r2.mean())
    return {
        "target_unit": job.stream.target_unit,
        "rmse": float(accuracy.rmse.mean()),
        "mae": float(accuracy.mae.mean()),
        "r2": r2 if np.isfinite(r2) else None,
        "baselines": passed.baselines.entries(),
    }


def _require_finite(job: Regression, squared: Recorder) -> None:
    bad = [s for s, total in zip(job.seeds, squared.total, strict=True) if not total < np.inf]
    if not bad:
        return
    name, given, _ = job.settings.algorithm
    steps = [
        f"algorithm.{field}={given[field]}"
        for field, value in zip(job.params._fields, job.params, strict=True)
        if isinstance(value, Schedule) and field.startswith("eta") and field in given
    ]
    raise FloatingPointError(
        f"by round {squared.n_rounds} the predictions of {name} are no longer finite "
        f"(seeds {', '.join(map(str, bad))}): the steps are too large for this stream. Reduce "
        f"{' or '.join(steps) or 'the step size'}; importance weights divide steps by small "
        "probabilities, so more exploration helps as well"
        + "".join(f". {n}" for n in _expansive_steps(job))
    )


def _expansive_steps(job: Regression) -> list[str]:
    """One text if the learner's steps are too large for gradient descent to settle, else none.

    With features of norm 1 a step on (theta'z - y)^2 + lam ||theta||^2 multiplies theta's part
    along z by 1 - 2 eta (1 + lam); above eta = 1 / (1 + lam) that is beyond -1. Importance
    weights, which make steps larger still, are not counted.
    """
    own = job.params._asdict()
    draws_features = job.algorithm.representation.draws_features
    if not (draws_features and isinstance(own.get("eta"), Schedule) and "lam" in own):
        return []
    eta, bound = own["eta"], 1.0 / (1.0 + own["lam"])
    T, given = job.stream.n_rounds, str(job.settings.algorithm.params["eta"])
    if eta.scale <= bound:
        return []
    # The first round of a schedule in t whose step is small enough; none of a constant.
    settled = math.inf if eta.power == 0.0 else (eta.scale / bound) ** (-1.0 / eta.power)
    always = settled > (T or math.inf) or settled == math.inf
    rounds = "every round" if always else f"rounds 1 to {math.ceil(settled) - 1}"
    at_T = f" at T = {T}" if "T" in given else ""
    text = (
        f"algorithm.eta={given} is {eta.scale:.3g}{at_T}; with lam={own['lam']:g} any step above "
        f"{bound:.4g} is expansive: it multiplies theta along the row's features by "
        f"{1.0 - 2.0 * eta.scale / bound:.3g}, and errors grow where rows are alike, in {rounds}"
    )
    if "T" in given:
        one, four = (hyperparameters.parse_schedule(given, n).scale for n in (1, 4))
        needed = math.ceil((one / bound) ** (-math.log(4.0) / math.log(four / one)))
        text += f". This eta is for T of at least {needed}"
    return [text]
