"""Run the main loop: feed the rows of a stream to learners and metrics, block by block.

    for block in stream:
        prediction = learner.learn_rows(block.x, block.y)
        metrics.add(prediction, block.y)

The learners of all seeds process a block in parallel threads.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from omkl.datasets import Stream
from omkl.datasets.base import Chunk
from omkl.datasets.scaling import Moments
from omkl.datasets.stream import joined
from omkl.experiment import kept_model, memory
from omkl.experiment.job import Computed, LearnerJob, Progress, Timing
from omkl.experiment.metrics import FIRST, Baselines, Rounds, WeightHistory, learned
from omkl.online import predictions as online_predictions
from omkl.online.predictions import Predictions
from omkl.utils.threads import read_ahead, thread_pool

FIRST_ROWS = 1_000  # size of the first block


class Metrics(Protocol):
    """Metrics of a pass, which are updated block by block."""

    def add(self, block: Chunk, rows: Rounds, predictions: Sequence[Predictions]) -> None:
        """Add a block.

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
        ...

    @property
    def running(self) -> tuple[float, int]:
        """Sum of the losses so far (mean over the seeds), and number of rounds in this sum."""
        ...


class RoundCounter:
    """Count the rounds of a pass, and decide which of them are scored.

    A round is a row with a target. If targets are standardised online, the scale is unknown until
    the first target has arrived. Rows predicted before this time are not scored. If targets are
    late, this applies to several rows, and otherwise only to the first row. In a panel each series
    has its own first target and its own unscored rows.

    n_rows       number of rows
    n_rounds     number of rounds
    n_blank      number of rows without a target
    n_unscored   number of rounds at the beginning that are not scored, at most ``metrics.FIRST``
    """

    def __init__(self, stream: Stream) -> None:
        self._moving = stream.moving_units
        self._delay = stream.target_delay
        self._first_label: int | None = None  # index, from 0, of the first row with a target
        self._n_after: dict[int | str, int] = {}  # rows of a series since its first target
        self.n_unscored = self.n_rows = self.n_rounds = self.n_blank = 0

    @property
    def unscored(self) -> tuple[int, bool]:
        """Number of unscored rounds at the beginning, and whether it is the number per series."""
        is_of_each = bool(self._n_after)
        return (1 + self._delay if is_of_each else self.n_unscored), is_of_each

    def add(self, block: Chunk) -> Rounds:
        """Count the rows of a block, and return them with a mask of the scored rows."""
        series, known = block.series, ~np.isnan(block.y)
        late = self._unscaled(known) if series is None else self._unscaled_in(series, known)
        rows = Rounds(block.x, block.y, known & ~late, series, block.ahead)
        if self.n_unscored == self.n_rounds:
            scored = rows.scored[known]
            first = int(scored.argmax()) if scored.any() else len(scored)
            self.n_unscored = min(self.n_unscored + first, FIRST)
        n_rounds = int(known.sum())
        self.n_rows += len(known)
        self.n_rounds += n_rounds
        self.n_blank += len(known) - n_rounds
        return rows

    def _unscaled_in(self, series: np.ndarray, known: np.ndarray) -> np.ndarray:
        """Return a mask (n,) of the rows predicted before any target of their series arrived.

        ``series`` (n,) are the series of the rows, and ``known`` (n,) is the mask of the rows with
        a target.
        """
        late = np.zeros(len(known), dtype=bool)
        if self._moving:
            for s, (name, has_target) in enumerate(
                zip(series.tolist(), known.tolist(), strict=True)
            ):
                if name in self._n_after:
                    self._n_after[name] += 1
                elif has_target:
                    self._n_after[name] = 0
                late[s] = self._n_after.get(name, 0) <= self._delay
        return late

    def _unscaled(self, known: np.ndarray) -> np.ndarray:
        """Return a mask (n,) of the rows predicted before any target arrived.

        ``known`` (n,) is the mask of the rows with a target.
        """
        if not self._moving:
            return np.zeros(len(known), dtype=bool)
        if self._first_label is None and known.any():
            self._first_label = self.n_rows + int(known.argmax())
        if self._first_label is None:
            return np.ones(len(known), dtype=bool)
        return self.n_rows + np.arange(len(known)) <= self._first_label + self._delay


class Left(NamedTuple):
    """Results of a pass over a stream, with the learners of one or several seeds.

    metrics    metrics of the pass
    learners   trained learner of each seed
    histories  weights over time of each seed
    counter    numbers of rows and of rounds
    baselines  baselines; None if an earlier pass had the same rows
    seconds    (n_seeds,) seconds that each learner took
    moments    location and scale of the stream's columns after the last learned row
    """

    metrics: Any
    learners: list[Any]
    histories: list[WeightHistory]
    counter: RoundCounter
    baselines: Baselines | None
    seconds: np.ndarray
    moments: Moments


class StreamJob(LearnerJob):
    """Base class of regression and classification jobs, which stream rows through learners."""

    def passes(self) -> list[list[int]]:
        """Return the indices of the seeds of each pass over the stream."""
        raise NotImplementedError

    def blocks(self, stream: Stream, size: int) -> Iterator[Chunk]:
        """Yield the rows of a pass in blocks of ``size`` rows. The last block may be shorter."""
        raise NotImplementedError

    def baselines(self, stream: Stream) -> Baselines:
        raise NotImplementedError

    def metrics(self, seeds: Sequence[int], staging: Path | None) -> Metrics:
        raise NotImplementedError

    def keep(self, left: Left) -> Any:
        """Return the part of a pass that ``result`` needs. The rest, such as learners, is freed."""
        return left

    def result(self, passes: Sequence[Any], timing: Timing, progress: Progress | None) -> Computed:
        """Return the content of the result files, from all passes and comparators in hindsight.

        Parameters
        ----------
        passes
            Results of ``keep``, one per pass.
        timing
            Times of all passes.
        progress
            Callback, or None.
        """
        raise NotImplementedError

    def warm_up(self, compiled: Callable[[], object] = lambda: None) -> None:
        # With late targets learners first learn after so many rows.
        stream, n = self.stream, 2 + self.stream.target_delay
        X = np.zeros((n, stream.n_inputs - (stream.n_lags if stream.has_series else 0)))
        y = np.zeros(n)
        series = np.zeros(n, dtype=np.int64) if stream.has_series else None
        if stream.classes:
            y = np.resize([-1.0, 1.0] if len(stream.classes) == 2 else [0.0, 1.0], n)
        if series is None:  # only the core learner, because another process compiles the scaling
            core = self.specification.learner(stream.n_inputs, self.seeds[0])
            one = y if core.n_classes or len(stream.classes) <= 2 else np.sign(2.0 * y - 1.0)
            core.partial_fit(X, one)
        compiled()
        learned(self.learner(self.seeds[0], self.n_threads_each), X, y, series)
        self.baselines(stream).add(Rounds(X, y, np.ones(n, dtype=bool), series))

    @property
    def by_date(self) -> bool:
        """True if all rows of a date are predicted before any of them is learned."""
        together = kept_model.learns_together(self.settings, self.stream)
        return together and self.stream.has_dates and self.settings.stream.series_delay != 0

    @property
    def n_threads_each(self) -> int:
        """Number of threads of each learner that can use several threads."""
        several = self.algorithm.representation.lookahead or self.stream.has_series
        return max(1, self.settings.n_threads // len(self.seeds)) if several else 1

    def compute(self, progress: Progress | None = None, staging: Path | None = None) -> Computed:
        """Stream the rows through the learner of every seed, and return the results.

        ``passes`` decides which seeds share a pass over the stream. Passes run in parallel threads.
        If there is only one pass, its seeds run in parallel threads. Files with an entry per row
        are written to the folder ``staging``.
        """
        passes, baselines = self.passes(), list[Baselines | None]()
        for number, seeds in enumerate(passes):
            stream = self.streams[seeds[0]]
            earlier = [self.streams[r] for before in passes[:number] for r in before]
            new = not any(stream is one for one in earlier)
            baselines.append(self.baselines(stream) if new else None)
        count = self.stream.row_count
        n_expected = self.stream.n_rounds or (count.n if count else None)
        report, failed = _Report(progress, n_expected, len(passes)), list[int]()
        n_threads = min(self.settings.n_threads, len(self.seeds))

        def one(number: int, mapped: Any) -> Any:
            def tell(*running: Any) -> None:
                if min(failed, default=number) < number:
                    raise CancelledError  # an earlier pass has failed and ends the job
                report.add(number, *running)

            metrics = self.metrics(passes[number], staging)
            try:
                left = _streamed(self, passes[number], metrics, baselines[number], mapped, tell)
            except Exception:
                failed.append(number)
                raise
            return left.seconds, self.keep(left)

        clock = time.perf_counter()
        with thread_pool(n_threads) as pool:
            if len(passes) == 1:
                done = [one(0, pool.map)]
            else:
                done = list(pool.map(lambda number: one(number, map), range(len(passes))))
        elapsed = time.perf_counter() - clock
        in_baselines = sum(one.seconds for one in baselines if one)
        elapsed -= in_baselines / min(n_threads, len(passes))
        per_seed = [float(s) for seconds, _ in done for s in seconds]
        timing = Timing(elapsed, per_seed, n_threads * self.n_threads_each)
        return self.result([kept for _, kept in done], timing, progress)


class _Report:
    """Report the progress of all passes, which may run in parallel."""

    def __init__(self, progress: Progress | None, n_rounds: int | None, n_passes: int) -> None:
        self._progress, self._total = progress, n_rounds and n_rounds * n_passes
        self._running = np.zeros((n_passes, 3))  # finished rounds, loss, and rounds of the loss
        self._lock = threading.Lock()
        if progress:
            progress("rounds", 0, self._total, None)

    def add(self, number: int, n_rounds: int, loss: float, n_scored: int) -> None:
        if self._progress:
            with self._lock:
                self._running[number] = n_rounds, loss, n_scored
                done, total, scored = self._running.sum(axis=0).tolist()
                self._progress("rounds", int(done), self._total, total / max(scored, 1.0))


def _streamed(
    job: StreamJob,
    seeds: Sequence[int],
    metrics: Metrics,
    baselines: Baselines | None,
    mapped: Any,
    report: Callable[[int, float, int], None],
) -> Left:
    """Stream the rows of a job once through the learners of some seeds.

    Parameters
    ----------
    job
        The job.
    seeds
        Indices of the seeds.
    metrics, baselines
        Metrics and baselines of the pass, which are updated. Baselines may be None.
    mapped
        Function like ``map``, which may use threads.
    report
        Callback after each block, with the number of rounds so far and ``metrics.running``.
    """
    stream = job.streams[seeds[0]]
    counter, seconds = RoundCounter(stream), np.zeros(len(seeds))
    learners = [job.learner(job.seeds[r], job.n_threads_each) for r in seeds]
    histories = [WeightHistory(stream.n_rounds) for _ in seeds]

    def learn(k: int, block: Chunk) -> Predictions:
        """Predict and learn a block with the learner of seed k, and record its weights."""
        before, t, start = time.perf_counter(), counter.n_rounds, 0
        parts = list[Predictions]()
        known, ends = ~np.isnan(block.y), _ends_of_dates(block) if by_date else None
        if job.algorithm.standardises and block.raw is not None:
            block = block._replace(x=block.raw, ahead=None)  # the learner scales raw rows itself
        for rows in histories[k].pieces(t, known):
            end = rows.stop if ends is None else int(ends[np.searchsorted(ends, rows.stop)])
            piece, start = block.at(slice(start, end)), max(start, end)
            if len(piece.y) or not parts:
                row = piece.x, piece.y, piece.series, piece.far, piece.ahead
                parts.append(learned(learners[k], *row, None if ends is None else piece.time))
            t += int(known[rows].sum())
            histories[k].look(t, learners[k])
        seconds[k] += time.perf_counter() - before
        return online_predictions.joined(parts)

    by_date = job.by_date
    most = memory.block_rows(job.settings.block, stream.n_inputs, len(seeds))
    rows = job.blocks(stream, most)
    if job.settings.n_threads > 1:  # a thread parses and scales the next rows
        rows = read_ahead(rows)
    rows = rows if job.settings.block else _growing(rows, most)
    for block in _whole_dates(rows) if by_date else rows:
        predictions = list(mapped(functools.partial(learn, block=block), range(len(seeds))))
        counted = counter.add(block)
        metrics.add(block, counted, predictions)
        if baselines:
            baselines.add(counted, getattr(learners[0], "seasons", ()))
        report(counter.n_rounds, *metrics.running)
    is_late = stream.target_delay > 0 and stream.scaling == "columns"
    moments = stream.late_moments if is_late else stream.moments
    return Left(metrics, learners, histories, counter, baselines, seconds, moments)


def _growing(blocks: Iterable[Chunk], most: int) -> Iterator[Chunk]:
    """Cut blocks into parts of at most ``most`` rows, which grow until a part takes 0.5 s.

    The first part has at most ``FIRST_ROWS`` rows. The size doubles after each part that is learned
    in less than 0.5 s.
    """
    n = min(FIRST_ROWS, most)
    for block in blocks:
        start = 0
        while start < len(block.y):
            began = time.perf_counter()
            yield block.at(slice(start, start + n))
            start += n
            if time.perf_counter() - began < 0.5:
                n = min(2 * n, most)


def _ends_of_dates(block: Chunk) -> np.ndarray:
    """Return for each of G dates the index (G,) of the row after the last row of the date."""
    assert block.time is not None
    return np.append(np.flatnonzero(block.time[1:] != block.time[:-1]) + 1, len(block.time))


def _whole_dates(blocks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Cut blocks between dates: move the rows of a block's last date to the next block."""
    rest: Chunk | None = None
    for block in blocks:
        block = block if rest is None else joined([rest, block])
        ends = _ends_of_dates(block)
        cut = int(ends[-2]) if len(ends) > 1 else 0
        if cut:
            yield block.at(slice(cut))
        rest = block.at(slice(cut, None))
    if rest is not None:
        yield rest
