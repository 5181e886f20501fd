"""The loop of a run: rows of a stream through learners, block by block, and what is counted.

    for block in stream:
        prediction = learner.partial_fit(block.x, block.y)
        metrics.add(prediction, block.y)

Three things come on top: the seeds go through a block side by side in threads, several targets of
the same rows have baselines and counts of their own, and a person may be asked for labels. Each
target has the numbers of a run of its own, to the bit, and its share of the seconds.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from omkl.core.simd import LANES
from omkl.datasets import Stream
from omkl.datasets.base import Chunk
from omkl.experiment import memory
from omkl.experiment.job import Computed, LearnerJob, Measured, Progress, Timing
from omkl.experiment.metrics import FIRST, Baselines, Rounds, WeightHistory
from omkl.online.stream_learner import InStep, Prediction, StreamLearner, joined
from omkl.utils.threads import thread_pool

SHARE_OF_MEMORY = 0.1  # that the jobs of one pass may take: there are other processes


class Metrics(Protocol):
    """What is summed up of one job in a pass."""

    def add(
        self, block: Chunk, y: np.ndarray, counted: Counted, predictions: Sequence[Prediction]
    ) -> None:
        """A block with labels y (n,) and its predictions, one of each seed.

        FloatingPointError where these are not finite.
        """
        ...

    @property
    def running(self) -> tuple[float, int]:
        """The loss so far, mean over the seeds, and the number of rounds that it is of."""
        ...


class Counted(NamedTuple):
    """Of a block: which rows (n,) are rounds, and these with what is known and scored of them.

    ``rows`` are all rows of the block, in the same form.
    """

    is_round: np.ndarray
    rounds: Rounds
    rows: Rounds


class RoundCounter:
    """Which rows of a pass are rounds, and which of them count.

    A row without a target is no round, unless labels come from outside. In a stream in moving units
    rows that are predicted before the first label is in are not scored, of learners and baselines
    alike: nothing says where the target lies. That is the row of the first label, and with targets
    that come late as many more as wait for theirs.

    n_unscored   how many of the rounds, the first ones, are not scored; at most ``metrics.FIRST``.
                 In a panel the first round of each key is not, among later ones as well
    """

    def __init__(self, stream: Stream) -> None:
        self._labelled, self._moving = stream.labelled, stream.moving_units
        self._delay = stream.target_delay
        self._first_label: int | None = None  # the row that it is of, from 0
        self._labelled_keys: set[int | str] = set()
        self.n_unscored = 0 if stream.labelled else int(stream.moving_units)
        self.n_rows = self.n_rounds = self.n_blank = 0

    def add(self, X: np.ndarray, y: np.ndarray, keys: np.ndarray | None = None) -> Counted:
        """The next rows X (n, d) with labels y (n,), NaN where there is none."""
        known = ~np.isnan(y)
        is_round = known if self._labelled else np.ones(len(y), dtype=bool)
        late = self._before_a_label(known) if keys is None else self._before_its_label(known, keys)
        rounds = rows = Rounds(X, y, known, known & ~late, keys)
        if not is_round.all():
            rounds = rows.at(is_round)
        if self._labelled and self.n_unscored == self.n_rounds:
            scored = rounds.scored
            first = int(scored.argmax()) if scored.any() else len(scored)
            self.n_unscored = min(self.n_unscored + first, FIRST)
        self.n_rows += len(y)
        self.n_rounds += len(rounds.y)
        self.n_blank += int(np.sum(~is_round))
        return Counted(is_round, rounds, rows)

    def _before_its_label(self, known: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """The same of a panel: of their keys (n,) nothing was known."""
        late = np.zeros(len(known), dtype=bool)
        if self._moving:
            for s, (key, there) in enumerate(zip(keys.tolist(), known.tolist(), strict=True)):
                late[s] = key not in self._labelled_keys
                if there:
                    self._labelled_keys.add(key)
        return late

    def _before_a_label(self, known: np.ndarray) -> np.ndarray:
        """Which of the next rows (n,), some ``known``, nothing was known of when they came."""
        if not self._moving:
            return np.zeros(len(known), dtype=bool)
        if self._first_label is None and known.any():
            self._first_label = self.n_rows + int(known.argmax())
        if self._first_label is None:
            return np.ones(len(known), dtype=bool)
        return self.n_rows + np.arange(len(known)) <= self._first_label + self._delay


class Left(NamedTuple):
    """What a pass leaves of a job: its learners, one of each seed, and what was counted.

    ``seconds`` are its share of those inside each learner, ``moments`` the arrays of what the
    stream knows of its columns after the last row; baselines are None where another pass has them.
    """

    metrics: Any
    learners: list[StreamLearner]
    histories: list[WeightHistory]
    counter: RoundCounter
    baselines: Baselines | None
    seconds: np.ndarray
    moments: Mapping[str, np.ndarray]


class StreamJob(LearnerJob):
    """A job whose learners go over a stream; ``Regression`` and ``Classification`` are that."""

    def passes(self) -> list[list[int]]:
        """The seeds, by their numbers, of each pass over a stream."""
        raise NotImplementedError

    def blocks(self, streams: Sequence[Stream]) -> Iterator[list[Chunk]]:
        """The rows of a pass, of each of its streams: targets of the same rows."""
        raise NotImplementedError

    def baselines(self, stream: Stream) -> Baselines:
        raise NotImplementedError

    def metrics(self, seeds: Sequence[int], staging: Path | None) -> Metrics:
        raise NotImplementedError

    def keep(self, left: Left) -> Any:
        """What ``result`` needs of a pass that is over."""
        return left

    def result(
        self,
        passes: Sequence[Any],
        timing: Timing,
        progress: Progress | None,
        measured: Measured | None,
    ) -> Computed:
        """What is reported when all passes are over, comparators in hindsight included."""
        raise NotImplementedError

    def warm_up(self) -> None:
        warm_up([self])

    def compute(
        self,
        progress: Progress | None = None,
        measured: Measured | None = None,
        staging: Path | None = None,
    ) -> Computed:
        ((_, computed),) = evaluate([self], [staging], progress, measured)
        if isinstance(computed, Exception):
            raise computed
        return computed

    @property
    def n_threads_each(self) -> int:
        """Threads of each learner, of those that can use several."""
        several = self.algorithm.representation.lookahead or self.stream.keyed
        return max(1, self.settings.n_threads // len(self.seeds)) if several else 1


def n_in_one_pass(job: StreamJob) -> int:
    """How many jobs like this one the memory has room for, at least 1.

    One, where a model grows with its rows.
    """
    used = job.kernels
    representation, R = job.algorithm.representation, len(job.seeds)
    if not representation.bounded:
        return 1
    model = memory.model_bytes(representation, job.params, used, job.stream.n_inputs, job.D)
    n_models = memory.n_models(job.algorithm, job.stream, job.settings, R)
    each = n_models * model + memory.curve_bytes(R, job.stream.n_rounds)
    return max(1, int(SHARE_OF_MEMORY * memory.usable_bytes() / each))


def warm_up(jobs: Sequence[StreamJob]) -> None:
    """Compile what a pass calls, or load what was compiled, before any clock starts."""
    first, n = jobs[0], LANES if len(jobs) > 1 else 2
    n += first.stream.target_delay  # so that they learn
    keyed = first.stream.keyed
    n_inputs = first.stream.n_inputs - (first.stream.n_lags if keyed else 0)
    X, y = np.zeros((n, n_inputs)), np.zeros(n)
    keys = np.zeros(n, dtype=np.int64) if keyed else None
    if first.stream.classes:
        y = np.resize([-1.0, 1.0] if len(first.stream.classes) == 2 else [0.0, 1.0], n)
    several, S = len(targets_of(jobs, 0)) > 1, len(jobs)
    labels = np.repeat(y[:, None], S, axis=1) if several else y
    InStep(_learners(jobs, 0), own_labels=several).partial_fit(X, labels, keys)
    known = np.ones(n, dtype=bool)
    first.baselines(first.stream).add(Rounds(X, y, known, known, keys))


def evaluate(
    jobs: Sequence[StreamJob],
    staging: Sequence[Path | None],
    progress: Progress | None = None,
    measured: Measured | None = None,
) -> Iterator[tuple[int, Computed | Exception]]:
    """The number of each job, and what it has computed or why it failed.

    Several jobs are those of several targets, the first of which that fails ends the pass, and
    comes first. Files that are as long as the stream grow in the folders
    ``staging``. What ends the stream, damaged data say, is raised.
    """
    first, n = jobs[0], len(jobs)
    passes = first.passes()
    failed: dict[int, tuple[int, Exception]] = {}  # a job's number: the first pass, and why
    kept: list[dict[int, Any]] = [{} for _ in passes]
    baselines: list[Baselines] = []
    count = first.stream.row_count
    n_expected = first.stream.n_rounds or (count.n if count else None)
    lock, report = threading.Lock(), _Report(progress, n_expected, len(passes))

    def one(number: int, mapped: Any, n_threads: int) -> None:
        """The jobs none of whose earlier passes has failed, as far as is known."""
        with lock:
            going = [k for k in range(n) if k not in failed or failed[k][0] > number]
        if not going:
            return
        made = Pass([jobs[k] for k in going], passes[number], n_threads)
        earlier = [first.streams[r] for seeds in passes[:number] for r in seeds]
        for target in made.targets:
            if not any(stream is target.stream for stream in earlier):
                target.baselines = first.baselines(target.stream)
                baselines.append(target.baselines)
        made.metrics = {
            k: job.metrics(passes[number], staging[going[k]]) for k, job in enumerate(made.jobs)
        }
        made.run(mapped, lambda *running: report.add(number, *running))
        for k, job_number in enumerate(going):
            if k in made.failed:
                with lock:
                    if job_number not in failed or failed[job_number][0] > number:
                        failed[job_number] = number, made.failed[k]
            else:
                kept[number][job_number] = jobs[job_number].keep(made.left(k))

    n_threads = min(first.settings.n_threads, len(first.seeds))
    clock = time.perf_counter()
    with thread_pool(n_threads) as pool:
        if len(passes) == 1:
            one(0, pool.map, n_threads)
        else:
            list(pool.map(lambda number: one(number, map, 1), range(len(passes))))
    elapsed = time.perf_counter() - clock
    elapsed -= sum(one.seconds for one in baselines) / min(n_threads, len(passes))
    yield from ((number, error) for number, (_, error) in sorted(failed.items()))
    for number, job in enumerate(jobs):
        if number in failed:
            continue
        left = [of_pass[number] for of_pass in kept]
        try:
            seconds = [float(s) for one in left for s in one.seconds]
            timing = Timing(elapsed / n, seconds, n_threads * job.n_threads_each)
            yield number, job.result(left, timing, progress, measured)
        except Exception as error:
            yield number, error


class _Report:
    """Progress over all passes, which may run side by side."""

    def __init__(self, progress: Progress | None, n_rounds: int | None, n_passes: int) -> None:
        self._progress, self._total = progress, n_rounds and n_rounds * n_passes
        self._running = np.zeros((n_passes, 3))  # rounds done, loss, rounds that it is of
        self._lock = threading.Lock()
        if progress:
            progress("rounds", 0, self._total, None)

    def add(self, number: int, n_rounds: int, loss: float, n_scored: int) -> None:
        if self._progress:
            with self._lock:
                self._running[number] = n_rounds, loss, n_scored
                done, total, scored = self._running.sum(axis=0).tolist()
                self._progress("rounds", int(done), self._total, total / max(scored, 1.0))


def _learners(jobs: Sequence[StreamJob], seed: int) -> list[StreamLearner]:
    """The learner of each job; features are drawn once for those of the same kernels."""
    made: list[tuple[Any, StreamLearner]] = []
    for job in jobs:
        kernels = job.kernels
        drawn = next((learner for used, learner in made if used == kernels), None)
        made.append((kernels, job.learner(seed, job.n_threads_each, drawn)))
    return [learner for _, learner in made]


class Target:
    """A target of a pass: the stream that it is of, which rows are rounds, and its baselines."""

    def __init__(self, stream: Stream) -> None:
        self.stream, self.counter = stream, RoundCounter(stream)
        self.baselines: Baselines | None = None


def targets_of(jobs: Sequence[StreamJob], r: int) -> list[Target]:
    """The one of all jobs, or one each, of their streams of the seed number r."""
    streams = [job.streams[r] for job in jobs]
    same = all(stream is streams[0] for stream in streams)
    return [Target(stream) for stream in (streams[:1] if same else streams)]


class Pass:
    """Some seeds of jobs on one stream; seeds go side by side, the jobs of a seed in step.

    Jobs that have ``targets`` of their own go on together, or not at all.
    """

    def __init__(self, jobs: Sequence[StreamJob], seeds: Sequence[int], n_threads: int) -> None:
        self.jobs = list(jobs)
        first = jobs[0]
        self.targets, self._label = targets_of(jobs, seeds[0]), first.label
        self._own_labels = len(self.targets) > 1
        self._target_of = range(len(jobs)) if self._own_labels else [0] * len(jobs)
        self._n_threads = n_threads
        self.metrics: dict[int, Metrics] = {}
        self.failed: dict[int, FloatingPointError] = {}  # by the number of the job
        self._going = list(range(len(jobs)))
        self._seconds = np.zeros(len(seeds))
        self._learners = [_learners(jobs, first.seeds[r]) for r in seeds]
        expected = [self.targets[j].stream.n_rounds for j in self._target_of]
        self._histories = [[WeightHistory(n) for n in expected] for _ in seeds]
        self._groups = self._grouped()

    def _grouped(self) -> list[InStep]:
        """The learners of every seed; those that one thread streams write to the same arrays."""
        groups: list[InStep] = []
        for r, learners in enumerate(self._learners):
            used_by = groups[r - self._n_threads] if r >= self._n_threads else None
            going = [learners[k] for k in self._going]
            groups.append(InStep(going, used_by, own_labels=self._own_labels))
        return groups

    def run(self, mapped: Any, report: Callable[[int, float, int], None]) -> None:
        """Go through the stream; ``mapped`` maps a function over lanes of seeds."""
        R = len(self._groups)
        lanes = [range(k, R, self._n_threads) for k in range(min(R, self._n_threads))]
        for blocks in self.jobs[0].blocks([target.stream for target in self.targets]):
            if self._label:
                predictions, y = self._ask(blocks[0])
                blocks = [blocks[0]._replace(y=y)]
            else:
                learned = mapped(lambda lane: [(r, self._learn(r, blocks)) for r in lane], lanes)  # noqa: B023
                by_seed = dict(itertools.chain.from_iterable(learned))
                predictions = [by_seed[r] for r in range(R)]
            self._add(blocks, predictions)
            if not self._going:
                return
            loss, n = zip(*(self.metrics[k].running for k in self._going), strict=True)
            report(self.targets[0].counter.n_rounds, sum(loss), sum(n))

    def _learn(self, r: int, blocks: Sequence[Chunk]) -> list[Prediction]:
        """What the learners of a seed predict and learn of a block, one of each job.

        ``blocks`` has that of each target; they are of the same rows.
        """
        before, group = time.perf_counter(), self._groups[r]
        histories, first = [self._histories[r][k] for k in self._going], blocks[0]
        y = np.stack([block.y for block in blocks], axis=1) if self._own_labels else first.y
        of_rows = first.far if first.keys is None else first.keys
        n_before = [target.counter.n_rounds for target in self.targets]
        known = [~np.isnan(block.y) for block in blocks]
        looks = [  # after which rows the weights of each target's learners are kept
            {rows.stop for rows in history.pieces(n, there)}
            for history, n, there in zip(histories, n_before, known, strict=False)
        ]

        def look(s: int, stop: int) -> None:
            j = self._target_of[self._going[s]]
            t = n_before[j] + int(known[j][:stop].sum())
            histories[s].look(t, group.learners[s])

        of_each = [looks[self._target_of[k]] for k in self._going]
        predictions = group.partial_fit(first.x, y, of_rows, of_each, look)
        self._seconds[r] += time.perf_counter() - before
        return predictions

    def _ask(self, block: Chunk) -> tuple[list[list[Prediction]], np.ndarray]:
        """The same of one learner that asks for the labels of a block; those that it got."""
        assert self._label is not None
        before, n, parts, labels = time.perf_counter(), self.targets[0].counter.n_rounds, [], []
        history, learner = self._histories[0][0], self._groups[0].learners[0]
        for rows in history.pieces(n, np.ones(len(block.x), dtype=bool)):
            far = None if block.far is None else block.far[rows]
            prediction, y = learner.ask(block.x[rows], self._label, n, far)
            parts.append(prediction)
            labels.append(y)
            n += len(y)
            history.look(n, learner)
        self._seconds[0] += time.perf_counter() - before
        return [[joined(parts)]], np.concatenate(labels)

    def _add(self, blocks: Sequence[Chunk], predictions: Sequence[Sequence[Prediction]]) -> None:
        """Sum up a block; jobs that fail with it are streamed no further."""
        pairs = list(zip(self.targets, blocks, strict=True))
        counted = [target.counter.add(block.x, block.y, block.keys) for target, block in pairs]
        for s, k in enumerate(self._going):
            block, own = blocks[self._target_of[k]], counted[self._target_of[k]]
            try:
                self.metrics[k].add(block, block.y, own, [of_seed[s] for of_seed in predictions])
            except FloatingPointError as error:
                self.failed[k] = error
        going = [k for k in self._going if k not in self.failed]
        if self._own_labels and self.failed:
            going = []
        for target, own in zip(self.targets, counted, strict=True):
            if target.baselines and going:
                target.baselines.add(own.rows, own.is_round)
        if going != self._going:
            self._going = going
            self._groups = self._grouped() if going else []

    def left(self, k: int) -> Left:
        """What remains of job k when the stream has ended."""
        target = self.targets[self._target_of[k]]
        return Left(
            self.metrics[k],
            [learners[k] for learners in self._learners],
            [histories[k] for histories in self._histories],
            target.counter,
            target.baselines,
            self._seconds / len(self.jobs),
            target.stream.moments.arrays(),
        )
