"""Jobs that differ in parameters of their algorithm alone, in one pass over the stream.

Rows are read, features drawn, and baselines learned once for all. What learners can share is the
core's business (``core.learner``). Every job's numbers are those that it has by itself, to the
bit; its seconds are its share of the pass.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from omkl.core.learner import Learner, SideBySide, Trace, stacked
from omkl.core.simd import LANES
from omkl.datasets.base import Chunk
from omkl.experiment import classification, memory
from omkl.experiment.baselines import Baselines
from omkl.experiment.classification import Classification
from omkl.experiment.job import Computed, Job, Timing
from omkl.experiment.regression import Pass, Regression, computed, first_rows
from omkl.online.target_units import TargetUnits
from omkl.threads import thread_pool

SHARE_OF_MEMORY = 0.1  # that the jobs of one pass may take: there are other processes


def can_share(job: Job) -> bool:
    """Whether a pass over the stream can be for this job and others."""
    if not isinstance(job, Regression | Classification):
        return False
    if job.resumed or not job.stream.labelled:
        return False
    return not job.algorithm.queries and job.algorithm.representation.untaught is not None


def n_in_one_pass(job: Regression | Classification) -> int:
    """How many jobs like this one the memory has room for, at least 1."""
    used = job.algorithm.kernels(job.params, job.dictionary)
    representation, d, R = job.algorithm.representation, job.stream.n_inputs, len(job.seeds)
    model = memory.model_bytes(representation, job.params, used, d, job.D)
    n_models = R
    if isinstance(job, Classification):  # as many seeds at a time as there are threads
        n_models = min(R, job.settings.n_threads) * len(job.stream.classes)
    each = n_models * model + memory.curve_bytes(R, job.stream.n_rounds)
    return max(1, int(SHARE_OF_MEMORY * memory.usable_bytes() / each))


class OnePass:
    """Regressions of the same stream, seeds, dictionary and D, whose learners go side by side."""

    def __init__(self, jobs: Sequence[Regression], staging: Sequence[Path]) -> None:
        self.jobs = list(jobs)
        self.first = first = jobs[0]
        self.failed: dict[int, FloatingPointError] = {}  # by the number of the job
        self.going = list(range(len(jobs)))
        self.n_threads = min(first.settings.n_threads, len(first.seeds))
        self.seconds = np.zeros(len(first.seeds))
        self.baselines = Baselines(first.stream)
        self.before = [first_rows(job) for job in jobs]
        groups = self._groups([self._learners(seed) for seed in first.seeds])
        self.units = [
            TargetUnits(cast(Any, group), first.stream, first.algorithm) for group in groups
        ]
        self.passes = [
            Pass(job, [group.learners[k] for group in groups], self.units, self.baselines, folder)
            for k, (job, folder) in enumerate(zip(jobs, staging, strict=True))
        ]

    def _groups(self, learners: Sequence[Sequence[Learner]]) -> list[SideBySide]:
        """The learners of every seed; those that one thread streams write to the same arrays."""
        groups: list[SideBySide] = []
        for r, of_seed in enumerate(learners):
            used_by = groups[r - self.n_threads] if r >= self.n_threads else None
            groups.append(SideBySide(of_seed, used_by))
        return groups

    def _learners(self, seed: int) -> list[Learner]:
        """One a job; features are drawn once for those of the same kernels."""
        made: list[tuple[Any, Learner]] = []
        for job, rows in zip(self.jobs, self.before, strict=True):
            kernels = job.algorithm.kernels(job.params, job.dictionary)
            model = None
            for drawn_for, learner in made[:1]:
                if drawn_for == kernels and (untaught := learner.representation.untaught):
                    model = untaught(learner.state.model)
            made.append((kernels, job.learner(seed, 1, rows, model)))
        return [learner for _, learner in made]

    def warm_up(self) -> None:
        """As ``Job.warm_up``, for what learners do together besides."""
        d = self.first.stream.n_inputs
        SideBySide(self._learners(0)).partial_fit(np.zeros((LANES, d)), np.zeros(LANES))

    def stream(self, block: Chunk, pool: Any) -> None:
        """Stream a block through every seed's learners and sum it up, job by job."""
        lanes = [range(k, len(self.units), self.n_threads) for k in range(self.n_threads)]
        found: dict[int, Trace] = {}
        for said in pool.map(lambda lane: {r: self._one(r, block) for r in lane}, lanes):
            found |= said
        rounds, gone = None, []
        for k, number in enumerate(self.going):
            own = [Trace(*(array[k] for array in found[r])) for r in range(len(found))]
            try:
                rounds = self.passes[number].take(block, stacked(own), block.y)
            except FloatingPointError as error:
                self.failed[number] = error
                gone.append(k)
        if rounds is not None:
            self.baselines.add(*rounds)
        if gone:
            self._leave(gone)

    def _one(self, r: int, block: Chunk) -> Trace:
        before, traces = time.perf_counter(), []
        going = [self.passes[number] for number in self.going]
        n_rounds, known = going[0].squared.n_rounds, ~np.isnan(block.y)
        for rows in going[0].weights[r].pieces(n_rounds, known):
            traces.append(self.units[r].partial_fit(block.x[rows], block.y[rows]))
            n_rounds += int(known[rows].sum())
            for passed in going:
                passed.weights[r].look(n_rounds, passed.learners[r : r + 1])
        self.seconds[r] += time.perf_counter() - before
        return Trace(*(np.concatenate(arrays, axis=1) for arrays in zip(*traces, strict=True)))

    def _leave(self, gone: Sequence[int]) -> None:
        """Jobs that have failed are streamed no further."""
        self.going = [number for k, number in enumerate(self.going) if k not in gone]
        if not self.going:
            return
        left = [[self.passes[n].learners[r] for n in self.going] for r in range(len(self.units))]
        for unit, group in zip(self.units, self._groups(left), strict=True):
            unit.learner = cast(Any, group)

    def computed(self, number: int, elapsed: float) -> Computed:
        """What job ``number`` has computed, when the stream has ended."""
        passed, n = self.passes[number], len(self.jobs)
        passed.moments = self.first.stream.moments.arrays()
        passed.require_enough()
        timing = Timing(elapsed / n, (self.seconds / n).tolist(), self.n_threads)
        made = computed(self.jobs[number], passed, timing, None, None)
        return made._replace(result=made.result | ({"jobs_in_pass": n} if n > 1 else {}))


def compute(
    jobs: Sequence[Regression] | Sequence[Classification], staging: Sequence[Path]
) -> Iterator[tuple[int, Computed | Exception]]:
    """The number of each job, and what it has computed or why it failed.

    All of them ``can_share``, have the same stream, and the same settings but for the parameters of
    their algorithm; their files grow in the folders ``staging``. What ends the stream, damaged
    data say, is raised.
    """
    if isinstance(jobs[0], Classification):
        yield from classification.compute_together(cast(Sequence[Classification], jobs), staging)
        return
    together = OnePass(cast(Sequence[Regression], jobs), staging)
    with thread_pool(1) as pool:  # the compiler would swallow a Ctrl-C in the main thread
        pool.submit(together.first.warm_up).result()
        pool.submit(together.warm_up).result()
    clock = time.perf_counter()
    with thread_pool(together.n_threads) as pool:
        for block in together.first.stream.rows(together.first.settings.block):
            together.stream(block, pool)
            if not together.going:
                break
    elapsed = time.perf_counter() - clock - together.baselines.seconds
    yield from together.failed.items()
    for number in together.going:
        try:
            yield number, together.computed(number, elapsed)
        except Exception as error:
            yield number, error
